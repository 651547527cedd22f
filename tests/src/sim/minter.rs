//! Minting as the agent does it, without its threads: the same gates, serials, windows and durable marks in the same
//! order, on a simulated disk and clock.

use super::disk::{Failure, Folder, Opened, SerialFile};
use super::mutation::{Mutation, Mutations};
use super::rng::Rng;
use super::series::{Kind, Series};
use agent::gate::{Prefix, gate_uniq96, prefix_of_uniq96};
use agent::holder::{self, LeaseView, Leases};
use agent::minter::{MARK_AHEAD, RESTART_WAIT_MAX, SET_BACK_MAX};
use agent::refusal::Refusal;
use agent::serial_file::{Contents, Holdings};
use agent::timebase::{Answer, Heard, Timebase};
use agent::uniq96::{Place, Take96, Window96};
use common::calendar::UtcOffset;
use common::lease::Grant;
use common::parameters::{ClusterId, ClusterParameters};
use common::time::{Now, SpanMs, WallMs};
use common::token::TokenType;

/// IDs with one prefix and consecutive serials, and the lease they were minted under.
#[derive(Clone, Debug)]
pub struct Run {
    /// What they are made by.
    pub prefix: Prefix,
    /// Everything but the serial, as a number.
    pub high: u64,
    /// Serials are written modulo this.
    pub capacity: u64,
    /// The counter of the first.
    pub start: u64,
    /// How many.
    pub len: u64,
    /// The first instant that the written time can mean.
    pub time: WallMs,
    /// Under which lease.
    pub lease: Grant,
}

/// Why nothing was minted, or nothing was made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// An error to the caller.
    Refused,
    /// The same: the clock stands before the time of the last ID, or of the lease.
    ClockBehind,
    /// The disk.
    Disk(Failure),
}

impl Stop {
    /// What a gate says.
    pub fn of(refusal: &Refusal) -> Self {
        if matches!(refusal, Refusal::ClockBehind { .. }) { Self::ClockBehind } else { Self::Refused }
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Disk(failure)
    }
}

/// The leases, the serials and what is durable of them.
pub struct Minter {
    pub(super) file: SerialFile,
    pub(super) contents: Contents,
    /// As they are durable.
    pub holdings: Holdings,
    pub(super) series: Vec<Series>,
    place96: Place,
    settled96: bool,
    window96: Window96,
    time: Timebase,
    /// How often the clock has jumped.
    pub jumps: u64,
    leases: Leases,
    skew: Option<SpanMs>,
    cluster: Option<(ClusterId, ClusterParameters)>,
    pub(super) mutations: Mutations,
}

/// The disk and the chance that a call may need.
pub struct Shell<'a> {
    /// The folder.
    pub folder: &'a mut Folder,
    /// For what a power cut leaves.
    pub rng: &'a mut Rng,
    /// The operating system's clocks.
    pub os: Now,
}

impl Minter {
    /// Minting from an opened file.
    pub fn new(opened: Opened, kinds: &[Kind], leases: Leases, os: Now, mutations: Mutations) -> Self {
        let Opened { file, contents, holdings, .. } = opened;
        let resume = |(at, kind)| Series::resume(kind, at, &contents, mutations);
        let series = kinds.iter().enumerate().map(resume).collect();
        let place96 = Place { ms: contents.header.uniq96_mark, serial: 0 };
        let cluster = holdings.cluster.zip(holdings.parameters);
        Self {
            file,
            contents,
            holdings,
            series,
            place96,
            settled96: false,
            window96: Window96::closed(),
            time: Timebase::start(os),
            jumps: 0,
            leases,
            skew: None,
            cluster,
            mutations,
        }
    }

    /// What time it is.
    pub fn now(&self, os: Now) -> Now {
        Now { wall: WallMs(os.boot.0 + self.time.offset()), boot: os.boot }
    }

    /// The leases as minting sees them.
    pub fn leases(&self) -> &Leases {
        &self.leases
    }

    /// The cluster and its parameters.
    pub fn membership(&self) -> Option<(ClusterId, ClusterParameters)> {
        self.cluster
    }

    pub(super) fn lease(&self) -> Result<(Grant, UtcOffset), Stop> {
        match (self.leases.get(&TokenType::Uint2), self.cluster) {
            (Some(LeaseView::Held(grant)), Some((_, parameters))) if self.skew.is_none() => {
                let mut grant = grant.clone();
                if self.mutations.has(Mutation::MintPastTheLease) {
                    grant.until = grant.until + SpanMs::days(15);
                }
                if self.mutations.has(Mutation::MintBeforeTheLease) {
                    grant.from = grant.from + SpanMs::days(-15);
                }
                Ok((grant, parameters.utc_offset()))
            }
            _ => Err(Stop::Refused),
        }
    }

    pub(super) fn offset(&self) -> UtcOffset {
        self.cluster.map_or_else(UtcOffset::default, |(_, parameters)| parameters.utc_offset())
    }

    pub(super) fn write(&mut self, shell: &mut Shell<'_>, mut contents: Contents) -> Result<(), Stop> {
        self.file.write(shell.folder, &mut contents, &self.holdings, shell.rng)?;
        self.contents = contents;
        Ok(())
    }

    fn write_holdings(&mut self, shell: &mut Shell<'_>, holdings: Holdings) -> Result<(), Stop> {
        if holdings != self.holdings {
            self.file.write_holdings(shell.folder, &holdings, shell.rng)?;
            self.holdings = holdings;
        }
        Ok(())
    }

    /// `n` Uniq96 of one millisecond.
    ///
    /// # Errors
    /// [`Stop`]
    pub fn mint96(&mut self, shell: &mut Shell<'_>, n: u32, out: &mut Vec<Run>) -> Result<(), Stop> {
        let wall = self.now(shell.os).wall;
        if let (Take96::All { place, half_used }, Some(lease)) = (self.window96.take(n, wall), &self.window96.lease) {
            out.push(run96(self.window96.offset, lease, place, n)?);
            return if half_used && shell.rng.chance(0.8) { self.extend96(shell) } else { Ok(()) };
        }
        self.close96();
        let (lease, offset) = self.lease()?;
        let last = self.place96;
        let ahead = last.ms - wall;
        if !self.settled96 && ahead > SpanMs(0) && ahead <= RESTART_WAIT_MAX {
            return Err(Stop::Refused);
        }
        self.settled96 = true;
        let ms = gate_uniq96(&lease, last.ms, wall).map_err(|refusal| Stop::of(&refusal))?;
        let place = if ms > last.ms { Place { ms, serial: 0 } } else { last };
        let left = self.contents.header.uniq96_mark - ms;
        if left.0 <= MARK_AHEAD.0 / 2 {
            let moved = self.write_mark96(shell, ms + MARK_AHEAD);
            if left <= SpanMs(1) || !matches!(moved, Err(Stop::Disk(Failure::Io))) {
                moved?;
            }
        }
        self.open96(lease, offset, place);
        match (self.window96.take(n, wall), &self.window96.lease) {
            (Take96::All { place, .. }, Some(lease)) => {
                out.push(run96(offset, lease, place, n)?);
                Ok(())
            }
            _ => Err(Stop::Refused),
        }
    }

    fn write_mark96(&mut self, shell: &mut Shell<'_>, mark: WallMs) -> Result<(), Stop> {
        if mark <= self.contents.header.uniq96_mark {
            return Ok(());
        }
        if self.mutations.has(Mutation::Mark96NotDurable) {
            self.contents.header.uniq96_mark = mark;
            return Ok(());
        }
        let mut contents = self.contents.clone();
        contents.header.uniq96_mark = mark;
        self.write(shell, contents)
    }

    fn extend96(&mut self, shell: &mut Shell<'_>) -> Result<(), Stop> {
        let Some(lease) = self.window96.lease.clone().filter(|_| !self.window96.is_closed()) else { return Ok(()) };
        let now = self.now(shell.os).wall.max(self.place96.ms);
        match self.write_mark96(shell, now + MARK_AHEAD) {
            Err(Stop::Disk(Failure::Io)) => return Ok(()),
            done => done?,
        }
        let offset = self.window96.offset;
        if let Some(place) = self.window96.close() {
            self.open96(lease, offset, place);
        }
        Ok(())
    }

    fn open96(&mut self, lease: Grant, offset: UtcOffset, place: Place) {
        let bound = self.contents.header.uniq96_mark.min(lease.until);
        self.place96 = place;
        self.window96 = Window96::open(lease, offset, place, bound);
    }

    fn close96(&mut self) {
        if let Some(place) = self.window96.close() {
            self.place96 = place;
        }
    }

    fn close_all(&mut self) {
        self.series.iter_mut().for_each(Series::take_back);
        self.close96();
    }

    /// Joins a cluster, durably.
    ///
    /// # Errors
    /// [`Stop`]
    pub fn join(
        &mut self,
        shell: &mut Shell<'_>,
        cluster: ClusterId,
        parameters: ClusterParameters,
    ) -> Result<(), Stop> {
        let holdings = Holdings { cluster: Some(cluster), parameters: Some(parameters), ..self.holdings.clone() };
        self.write_holdings(shell, holdings)?;
        self.cluster = Some((cluster, parameters));
        Ok(())
    }

    /// Makes durable that a renewal may have been sent.
    ///
    /// # Errors
    /// [`Stop`]; then it must not be sent.
    pub fn promise_rseq(&mut self, shell: &mut Shell<'_>, rseq: u64) -> Result<(), Stop> {
        let mut holdings = self.holdings.clone();
        holdings.rseq = holdings.rseq.max(rseq);
        self.write_holdings(shell, holdings)
    }

    /// Takes over the holder's leases.
    ///
    /// # Errors
    /// [`Stop`]; then what was gained is not used.
    pub fn set_leases(&mut self, shell: &mut Shell<'_>, mut leases: Leases, jumps: u64) -> Result<(), Stop> {
        if self.jumps != jumps {
            holder::suspend(&mut leases);
        }
        let kept = holder::usable_before_durable(&self.leases, &leases);
        if kept != self.leases {
            self.close_all();
        }
        self.leases = kept;
        let holdings = Holdings { leases: holder::grants(&leases), ..self.holdings.clone() };
        self.write_holdings(shell, holdings)?;
        self.leases = leases;
        Ok(())
    }

    /// Notices a jump of the clock; then nothing is minted until the leases were renewed.
    pub fn watch_clock(&mut self, os: Now) {
        if self.time.look(os, 1).is_some() {
            self.jumps += 1;
            holder::suspend(&mut self.leases);
            self.close_all();
        }
    }

    /// Takes a master's time.
    pub fn hear(&mut self, answer: &Answer) {
        let before = self.time.skew();
        let heard = self.time.hear(answer);
        let set_back = matches!(heard, Heard::Moved(by) if by < SpanMs(-SET_BACK_MAX.0));
        if set_back || self.time.skew() != before {
            self.skew = self.time.skew();
            self.close_all();
        }
    }

    /// A clean stop: the serials that were not used are written back.
    ///
    /// # Errors
    /// [`Stop`]
    pub fn end(&mut self, shell: &mut Shell<'_>) -> Result<(), Stop> {
        self.close_all();
        let mut contents = self.contents.clone();
        for (series, block) in self.series.iter().zip(&mut contents.blocks) {
            if let Some(block) = block {
                block.serial = series.serial.marks_at_rest().mark;
            }
        }
        let place = self.place96;
        let used_up_to = WallMs(place.ms.0 + i64::from(place.serial > 0));
        contents.header.uniq96_mark = used_up_to.min(contents.header.uniq96_mark);
        if contents == self.contents { Ok(()) } else { self.write(shell, contents) }
    }
}

fn run96(offset: UtcOffset, lease: &Grant, place: Place, n: u32) -> Result<Run, Stop> {
    let prefix = prefix_of_uniq96(offset, lease, place.ms).map_err(|_| Stop::Refused)?;
    let Prefix::Uniq96 { prefix: high } = prefix else { unreachable!("the prefix of Uniq96") };
    let (start, time, lease) = (place.serial.into(), place.ms, lease.clone());
    Ok(Run { prefix, high, capacity: 1 << 32, start, len: n.into(), time, lease })
}
