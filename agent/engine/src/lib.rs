//! The decisions of minting, apart from locks, threads, tasks and files.
//!
//! An [`Engine`] knows what is durable, which leases may be used, and how far each series of serials has come. Whoever
//! drives it gives it one question at a time and carries out what it asks for through [`Effects`]: write the serial file,
//! end a window, open another one, say what those who mint without a lock may see. The order of these is decided here
//! and nowhere else: gates first, then what has to be durable, then the window.
//!
//! Two drive it: the agent (the crate `agent`) under its lock, and a simulation of whole clusters in virtual time. What
//! the simulation finds or does not find therefore speaks of this code, not of a copy.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod durable;
mod leases;
mod published;
mod segments;
mod serials;
mod series;
mod ticks;

pub use published::{Membership, Published};
pub use segments::SegmentOutcome;
pub use serials::{Part, TakenSerials, take};
pub use ticks::{Refilled, TICK_WAIT_MAX, TakenTicks, take_ticks};

use ids::kind::Kind;
use ids::layout::RandomBits;
use ids::lease::Generation;
use ids::namespace::Namespace;
use ids::parameters::SessionId;
use ids::time::{BootMs, SpanMs, WallMs};
use ids::token::TokenKey;
use minting::gate::{Layout, Prefix};
use minting::holder::Leases;
use minting::refusal::Refusal;
use minting::segments::Ask;
use minting::ticks::{TickPosition, TickWindow};
use minting::window::Window;
use serial_file::{BlockName, Contents, Holdings, WriteError};
use series::Series;
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use ticks::Axis;

/// The time ahead of the clock up to which the mark of ticks is made durable, in real time.
pub(crate) const MARK_AHEAD: SpanMs = SpanMs::seconds(1);
/// The longest that the first ID of a tick after a start waits, in real time, for the clock to pass the mark of the former run.
pub const RESTART_WAIT_MAX: SpanMs = SpanMs::seconds(2);
/// The time that the first ID of a resumed session waits for the renewal that tells the masters of it, in real time. If it is
/// not answered by then no master is there to ask, and minting goes on without.
pub const RESUME_WAIT: SpanMs = SpanMs(1_500);
/// Percent of an hour's or a day's IDs, the last ones, that callers have in shares when nothing else is said.
pub const RESERVED_PERCENT: u8 = 25;
/// The range of what may be said: all of it would be for nobody who comes early.
pub const RESERVED_PERCENTS: RangeInclusive<u8> = 0..=90;
/// After a failed write, the next one is not tried before this.
pub const WRITE_RETRY: SpanMs = SpanMs::seconds(1);

/// The effects that the engine asks of those who drive it. Nothing else may happen to the windows and the serial file meanwhile.
pub trait Effects {
    /// The time: the machine's own with the masters' correction.
    fn wall(&self) -> WallMs;

    /// Machine time as it is, even by a test clock.
    fn real_boot(&self) -> BootMs;

    /// The number of times faster than real time the clock runs.
    fn scale(&self) -> u32;

    /// The masters' last words when they did not do as asked, for whoever is refused.
    fn why(&self) -> String;

    /// Makes both durable; as [`SerialFile::write`](serial_file::SerialFile::write).
    ///
    /// # Errors
    /// As there.
    fn write(&mut self, contents: &mut Contents, holdings: &Holdings) -> Result<(), WriteError>;

    /// Makes what is held durable; as [`SerialFile::write_holdings`](serial_file::SerialFile::write_holdings).
    ///
    /// # Errors
    /// As there.
    fn write_holdings(&mut self, holdings: &Holdings) -> Result<(), WriteError>;

    /// Tells whether a series' window is open.
    fn is_open(&self, series: usize) -> bool;

    /// Ends a series' window, and with it everything that was cut from it. Gives its bucket and what nobody has taken.
    fn close(&mut self, series: usize) -> (u32, Range<u64>);

    /// Closes a series' window while it is made longer: what was cut from it stays good.
    fn interrupt(&mut self, series: usize) -> (u32, Range<u64>);

    /// Opens the window that was interrupted again, over these serials.
    fn lengthen(&mut self, series: usize, serials: Range<u64>);

    /// Opens a window of a series. The one before was closed.
    fn open(&mut self, series: usize, window: Window<Prefix>);

    /// Has masters asked for a segment of a series; of each there is one such call under way.
    fn ask(&mut self, series: usize, ask: Ask);

    /// Closes the window of an axis. Gives where it goes on; `None` if none was open.
    fn close_ticks(&mut self, axis: usize) -> Option<TickPosition>;

    /// Opens a window of an axis. The one before was closed.
    fn open_ticks(&mut self, axis: usize, window: TickWindow);

    /// Publishes the state for those who mint without a lock, from now on.
    fn publish(&mut self, published: &Published);

    /// Minting has ended for good; why.
    fn give_up(&mut self, why: String);
}

/// Everything that is decided about minting; see above.
#[derive(Clone, Debug)]
pub struct Engine {
    /// As they are durable.
    contents: Contents,
    /// As they are durable.
    holdings: Holdings,
    series: Vec<Series>,
    /// The place where IDs of a tick go on.
    axes: Vec<Axis>,
    /// The time mark that the former run left: a new axis begins there.
    mark_at_start: WallMs,
    /// For the random bits of layouts.
    random: Arc<RandomBits>,
    published: Published,
    /// The instant at which the last write failed and why; `None` if it did not.
    failed: Option<(BootMs, String)>,
    /// Segments of a resumed session wait until a master has renewed one of these leases; none: they do not wait.
    unconfirmed: Vec<(TokenKey, Generation)>,
    /// Names that were retired and have blocks, with what says when their last hour, day or tick is over.
    retired: BTreeMap<(Kind, BlockName), Layout>,
    /// Segments that are still durable are given up: no write says them again, and nothing goes on with them.
    segments_given_up: bool,
    /// True if there is no second segment.
    one_segment: bool,
    /// The part of a bucket, its last, that callers have in shares.
    reserved_percent: u8,
    /// Nothing is minted or written any more.
    ended: bool,
}

impl Engine {
    /// Goes on where a serial file says, under `leases` until told otherwise. `resumed_until`: from when on a resumed
    /// session may mint although no master has answered, by the machine's real time; `None`: never.
    pub fn new(contents: Contents, holdings: Holdings, leases: Leases, resumed_until: Option<BootMs>) -> Self {
        let mark_at_start = contents.header.time_mark;
        let published = Published::new(&holdings, leases, resumed_until);
        let (series, axes, random) = (Vec::new(), Vec::new(), Arc::default());
        let (retired, one_segment, failed, ended) = (BTreeMap::new(), false, None, false);
        let kept = holdings.leases.iter().map(|grant| (grant.key, grant.g));
        let has_segments = holdings.segments.values().any(|segments| !segments.record.held.is_empty());
        let unconfirmed: Vec<_> = kept.filter(|_| has_segments).collect();
        // Without a lease no renewal tells whether there is a second copy of them.
        let segments_given_up = unconfirmed.is_empty();
        Self {
            contents,
            holdings,
            series,
            axes,
            mark_at_start,
            random,
            published,
            failed,
            unconfirmed,
            retired,
            segments_given_up,
            one_segment,
            reserved_percent: RESERVED_PERCENT,
            ended,
        }
    }

    /// With another part of each bucket that callers have in shares.
    pub fn reserve_last(&mut self, percent: u8) {
        self.reserved_percent = percent;
    }

    /// With these random bits for layouts that have some.
    #[must_use]
    pub fn with_random_bits(self, random: RandomBits) -> Self {
        Self { random: Arc::new(random), ..self }
    }

    /// Adds a series and gives its number: how many there were before.
    ///
    /// # Errors
    /// A text for the operator, if the namespace keeps no serials or a block of the file belongs to another definition of
    /// its name.
    pub fn add(&mut self, namespace: &Namespace) -> Result<usize, String> {
        let mut series = Series::resume(namespace, &self.contents, self.holdings.cluster)?;
        series.axis = self.axis_for(&series);
        series.segments = self.segments_for(namespace);
        self.series.push(series);
        Ok(self.series.len() - 1)
    }

    /// The state for those who mint without a lock.
    pub fn published(&self) -> &Published {
        &self.published
    }

    /// The marks that are durable.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// The holdings that are durable.
    pub fn holdings(&self) -> &Holdings {
        &self.holdings
    }

    /// The sessions that this one gives up, until a master has granted it a lease.
    pub fn former(&self) -> &[SessionId] {
        &self.holdings.former
    }

    /// Tells whether minting has ended.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Changes what is published, and says so.
    fn publish(&mut self, effects: &mut impl Effects, change: impl FnOnce(&mut Published)) {
        change(&mut self.published);
        effects.publish(&self.published);
    }

    /// As if enough time had passed since the last failed write.
    #[cfg(test)]
    pub(crate) fn forget_failure(&mut self) {
        self.failed = None;
    }
}

fn scaled(effects: &impl Effects, span: SpanMs) -> SpanMs {
    SpanMs(span.0.saturating_mul(effects.scale().into()))
}

/// A refusal of the gates, with what the masters have to do with it.
fn complete(effects: &impl Effects, refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::LeaseExpired { token_type, until, .. } => {
            Refusal::LeaseExpired { token_type, until, why: effects.why() }
        }
        other => other,
    }
}

/// A fault of this program; nothing is minted after one.
pub fn broken() -> Refusal {
    Refusal::SerialFileIo("minting ended after a fault of this program; restart the agent".to_owned())
}

#[cfg(test)]
mod tests;
