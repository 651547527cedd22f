//! An agent's minting: the product's engine and serial file, driven without threads on a simulated disk and clock. What a
//! mutation leaves out is left out here, between the engine and the windows and files that it asks for.

use super::disk::{Failure, Folder, Opened, SerialFile};
use super::kind::Kind;
use super::mutation::{Mutation, Mutations};
use super::rng::Rng;
use super::views::{bent, long_over, unbent, views};
use crate::plain_ids;
use common::calendar::{Civil, UtcOffset};
use common::kind::UNIQ96_AHEAD_MAX;
use common::layout::{LayoutDefinition, Mark};
use common::lease::Grant;
use common::namespace::GeneratorName;
use common::parameters::{ClusterId, ClusterParameters};
use common::template::CallerParts;
use common::time::{BootMs, Now, SpanMs, WallMs};
use common::token::TokenType;
use engine::{Effects, Engine, Part, Published, RESUME_WAIT, Refilled, TakenSerials, TakenTicks, take, take_ticks};
use minting::gate::Prefix;
use minting::holder::{LeaseView, Leases};
use minting::refusal::Refusal;
use minting::run::Runs;
use minting::segments::Ask;
use minting::ticks::{TickPosition, TickWindow};
use minting::timebase::{ClockSample, Timebase};
use minting::window::Window;
use serial_file::{Contents, Holdings, WriteError};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// IDs with one prefix and consecutive serials, and the lease they were minted under.
#[derive(Clone, Debug)]
pub struct Run {
    /// The kind of IDs that they are.
    pub of: Of,
    /// The prefix that they are made by.
    pub prefix: Prefix,
    /// Everything but the serial, as a number.
    pub high: u64,
    /// Serials are written modulo this.
    pub capacity: u64,
    /// The counter of the first.
    pub start: u64,
    /// The number of IDs.
    pub len: u64,
    /// The first instant that the written time can mean.
    pub time: WallMs,
    /// Under which lease.
    pub lease: Grant,
}

/// The kind of an ID.
#[derive(Clone, Debug)]
pub enum Of {
    /// Uniq64.
    Uniq64,
    /// Uniq96.
    Uniq96,
    /// Strings.
    Text,
    /// Numbers of a layout.
    Layout(Arc<LayoutDefinition>),
    /// Plain numbers.
    Plain,
}

/// The disk and the chance that a call may need.
pub struct Shell<'a> {
    /// The folder.
    pub folder: &'a Folder,
    /// For what a power cut leaves.
    pub rng: &'a mut Rng,
    /// The operating system's clocks.
    pub os: Now,
    /// The reason why the process is no more, if it came to its end meanwhile.
    pub ended: Option<Failure>,
}

/// The engine and what it works with.
pub struct Minter {
    pub(super) engine: Engine,
    pub(super) own: Own,
    /// The number of times that the clock has jumped.
    pub jumps: u64,
}

pub(super) struct Own {
    file: SerialFile,
    pub(super) kinds: Vec<Kind>,
    pub(super) windows: Vec<Window<Prefix>>,
    /// By axis.
    axes: Vec<TickWindow>,
    /// The names of layouts by which something was minted.
    begun: BTreeSet<usize>,
    time: Timebase,
    /// The last lease that was to be used.
    lease: Option<Grant>,
    offset: UtcOffset,
    /// The contents that were made durable last, as far as the engine knows.
    durable: Contents,
    /// The write that the mutation does after the IDs have left.
    deferred: Option<(Contents, Holdings)>,
    /// Numbers that a client who waits for a segment has already.
    pub(super) part: Option<Part>,
    /// Segments that masters are to be asked for.
    pub(super) asks: Vec<(GeneratorName, Ask)>,
    /// A mutation's only.
    unmarked: Option<Holdings>,
    mutations: Mutations,
}

/// Carries out what the engine asks for.
pub(super) struct Hands<'a, 'b> {
    own: &'a mut Own,
    shell: &'a mut Shell<'b>,
}

impl Own {
    fn now(&self, os: Now) -> Now {
        Now { wall: WallMs(os.boot.0 + self.time.offset()), boot: os.boot }
    }

    /// A write of the whole file, with what may befall it.
    fn write(&mut self, shell: &mut Shell<'_>, contents: &mut Contents, held: &Holdings) -> Result<(), WriteError> {
        shell.folder.begin();
        let written = self.file.write(contents, held);
        shell.ended = shell.ended.or(shell.folder.finish(shell.rng));
        written
    }

    /// Tells whether these differ from what was written last in the marks of segments only.
    fn are_marks(&mut self, held: &Holdings) -> bool {
        let mut unmarked = held.clone();
        unmarked.segments.values_mut().flat_map(|of| &mut of.record.held).for_each(|held| held.mark = held.span.from);
        let same = self.unmarked.as_ref() == Some(&unmarked);
        self.unmarked = Some(unmarked);
        same
    }

    fn write_deferred(&mut self, shell: &mut Shell<'_>) {
        if let Some((mut contents, held)) = self.deferred.take() {
            // The mutation: it is believed to be durable already.
            let _ = self.write(shell, &mut contents, &held);
        }
    }
}

impl Effects for Hands<'_, '_> {
    fn wall(&self) -> WallMs {
        self.own.now(self.shell.os).wall
    }

    fn real_boot(&self) -> BootMs {
        self.shell.os.boot
    }

    fn scale(&self) -> u32 {
        1
    }

    fn why(&self) -> String {
        String::new()
    }

    fn write(&mut self, contents: &mut Contents, holdings: &Holdings) -> Result<(), WriteError> {
        let Self { own, shell } = self;
        let held = unbent(holdings, own.mutations);
        let only_mark96 =
            own.durable.blocks == contents.blocks && own.durable.header.time_mark != contents.header.time_mark;
        let only_segments = own.durable.blocks == contents.blocks && !only_mark96;
        own.durable = contents.clone();
        if own.mutations.has(Mutation::SegmentMarkNotDurable) && only_segments && own.are_marks(&held) {
            return Ok(());
        }
        if own.mutations.has(Mutation::Mark96NotDurable) && only_mark96 {
            return Ok(());
        }
        if own.mutations.has(Mutation::MintBeforeDurable) {
            own.write_deferred(shell);
            own.deferred = Some((contents.clone(), held));
            return Ok(());
        }
        match own.write(shell, contents, &held) {
            // The mutation: what was not made durable is used all the same.
            Err(WriteError::Io(_)) if own.mutations.has(Mutation::FailedWriteBelieved) => Ok(()),
            written => written,
        }
    }

    fn write_holdings(&mut self, holdings: &Holdings) -> Result<(), WriteError> {
        let Self { own, shell } = self;
        let held = unbent(holdings, own.mutations);
        own.write_deferred(shell);
        shell.folder.begin();
        let written = own.file.write_holdings(&held);
        shell.ended = shell.ended.or(shell.folder.finish(shell.rng));
        written
    }

    fn ask(&mut self, series: usize, ask: Ask) {
        self.own.asks.push((self.own.kinds[series].namespace.name().clone(), ask));
    }

    fn is_open(&self, series: usize) -> bool {
        !self.own.windows[series].is_closed()
    }

    fn close(&mut self, series: usize) -> (u32, Range<u64>) {
        let window = &self.own.windows[series];
        (window.bucket, window.close())
    }

    fn interrupt(&mut self, series: usize) -> (u32, Range<u64>) {
        self.close(series)
    }

    fn lengthen(&mut self, series: usize, serials: Range<u64>) {
        self.own.windows[series] = self.own.windows[series].with_serials(serials);
    }

    fn open(&mut self, series: usize, window: Window<Prefix>) {
        self.own.windows[series] = if self.own.mutations.has(Mutation::WindowOutlivesLease) {
            let end = self.own.kinds[series].end(self.own.offset, window.bucket);
            Window::open(window.prefix.clone(), window.bucket, window.close(), end)
        } else {
            window
        };
    }

    fn close_ticks(&mut self, axis: usize) -> Option<TickPosition> {
        self.own.axes.get(axis)?.close()
    }

    fn open_ticks(&mut self, axis: usize, window: TickWindow) {
        self.own.axes[axis] = window;
    }

    fn publish(&mut self, published: &Published) {
        let lease = published.leases.get(&TokenType::Uint2).and_then(LeaseView::grant);
        self.own.lease = lease.cloned().or(self.own.lease.take());
        self.own.offset = published.membership.parameters.map(|p| p.utc_offset()).unwrap_or_default();
    }

    fn give_up(&mut self, _: String) {
        self.shell.ended = self.shell.ended.or(Some(Failure::FileLoss));
    }
}

impl Minter {
    /// Minting from an opened file.
    pub fn new(opened: Opened, kinds: &[Kind], leases: Leases, os: Now, mutations: Mutations) -> Self {
        let Opened { file, contents, holdings, renew_first, .. } = opened;
        let resumed_until = (!renew_first).then(|| os.boot + RESUME_WAIT);
        let held = Holdings { leases: holdings.leases.iter().map(|g| bent(g, mutations)).collect(), ..holdings };
        let engine = engine(contents.clone(), held, (views(leases, mutations), resumed_until), kinds, mutations);
        let published = engine.published();
        let lease = published.leases.get(&TokenType::Uint2).and_then(LeaseView::grant).cloned();
        let offset = published.membership.parameters.map(|p| p.utc_offset()).unwrap_or_default();
        let own = Own {
            file,
            kinds: kinds.to_vec(),
            windows: kinds.iter().map(|_| Window::closed(Prefix::Void)).collect(),
            axes: closed(kinds),
            begun: BTreeSet::new(),
            time: Timebase::start(os),
            lease,
            offset,
            durable: contents,
            deferred: None,
            part: None,
            asks: Vec::new(),
            unmarked: None,
            mutations,
        };
        Self { engine, own, jumps: 0 }
    }

    pub(super) fn decide<T>(
        &mut self,
        shell: &mut Shell<'_>,
        question: impl FnOnce(&mut Engine, &mut Hands<'_, '_>) -> T,
    ) -> T {
        question(&mut self.engine, &mut Hands { own: &mut self.own, shell })
    }

    /// The present time.
    pub fn now(&self, os: Now) -> Now {
        self.own.now(os)
    }

    /// The state that those may see who mint.
    pub fn published(&self) -> &Published {
        self.engine.published()
    }

    /// The part of what is held that is durable.
    pub fn holdings(&self) -> &Holdings {
        self.engine.holdings()
    }

    /// The cluster and its parameters.
    pub fn membership(&self) -> Option<(ClusterId, ClusterParameters)> {
        let membership = self.published().membership;
        membership.cluster.zip(membership.parameters)
    }

    /// `n` IDs of a kind, of which Uniq96 is the last.
    ///
    /// # Errors
    /// Any [`Refusal`]; what is in `out` counts all the same.
    pub fn mint(&mut self, shell: &mut Shell<'_>, at: usize, n: u32, out: &mut Vec<Run>) -> Result<(), Refusal> {
        if self.membership().is_none() {
            return Err(Refusal::Overloaded("no cluster was joined yet"));
        }
        let wall = self.now(shell.os).wall;
        if let Some(axis) = self.engine.axis_of(at) {
            return self.mint_ticks(shell, (at, axis), n, out);
        }
        let part = match take(&self.own.windows[at], n, wall) {
            TakenSerials::All { run, half_used } => {
                self.leave(at, run.into(), out);
                // In the agent another thread does this, or comes too late; if it fails, the window goes on to its end.
                if half_used && shell.rng.chance(0.8) {
                    let _ = self.decide(shell, |engine, hands| engine.reserve(hands, at));
                }
                self.own.write_deferred(shell);
                return Ok(());
            }
            TakenSerials::Some(part) => Some(part),
            TakenSerials::None | TakenSerials::Closed => None,
        };
        self.forget_bucket(at, wall);
        let runs = self.decide(shell, |engine, hands| engine.refill(hands, at, part, n))?;
        self.answered(shell, at, runs, out);
        Ok(())
    }

    fn mint_ticks(
        &mut self,
        shell: &mut Shell<'_>,
        (at, axis): (usize, usize),
        n: u32,
        out: &mut Vec<Run>,
    ) -> Result<(), Refusal> {
        let kind = self.own.kinds.get(at);
        let ahead_max =
            kind.and_then(|kind| kind.namespace.numbers()).map_or(UNIQ96_AHEAD_MAX, LayoutDefinition::ahead_max);
        // As in the agent: before a name's first ID the engine looks after its block.
        let has_begun = kind.is_none() || self.own.begun.contains(&at);
        if has_begun && self.take_ticks(shell, (at, axis), n, ahead_max, out) {
            return Ok(());
        }
        let refilled = self.decide(shell, |engine, hands| engine.refill_ticks(hands, at, n))?;
        self.own.begun.insert(at);
        match refilled {
            Refilled::Runs(runs) => self.answered(shell, at, runs, out),
            // The next client comes later.
            Refilled::Pending(_) => return Err(Refusal::Overloaded("a segment has to come first")),
            Refilled::WaitFor(_) => {
                return Err(Refusal::Overloaded("the clock has to pass the mark of the former run"));
            }
        }
        Ok(())
    }

    /// Takes IDs out of an open window; tells whether it had them.
    fn take_ticks(
        &mut self,
        shell: &mut Shell<'_>,
        (at, axis): (usize, usize),
        n: u32,
        ahead_max: SpanMs,
        out: &mut Vec<Run>,
    ) -> bool {
        let wall = self.now(shell.os).wall;
        let TakenTicks::All { run, half_used, .. } = take_ticks(&self.own.axes[axis], n, wall, ahead_max) else {
            return false;
        };
        self.leave(at, run.into(), out);
        if half_used && shell.rng.chance(0.8) {
            let _ = self.decide(shell, |engine, hands| engine.extend_ticks(hands, axis));
        }
        self.own.write_deferred(shell);
        true
    }

    /// A request that needed the disk is answered, if the process still lives.
    fn answered(&mut self, shell: &mut Shell<'_>, at: usize, runs: Runs, out: &mut Vec<Run>) {
        if shell.ended.is_none() {
            self.leave(at, runs, out);
        }
        self.own.write_deferred(shell);
    }

    /// IDs leave: what is in them is read from them.
    fn leave(&self, at: usize, runs: Runs, out: &mut Vec<Run>) {
        let offset = self.own.offset;
        for minting::run::Run { prefix, start, len } in runs.iter().cloned() {
            let lease = self.own.lease.clone().expect("nothing is minted without a lease");
            let of = self.own.kinds.get(at).map_or(Of::Uniq96, Kind::of);
            // The first and the last number: what is in them is read from them, and between them lie serials alone.
            let ends = || match &prefix {
                Prefix::Number(numbers) => [start, start + u64::from(len) - 1].map(|counter| numbers.number(counter)),
                _ => [0; 2],
            };
            let (high, time) = match &of {
                Of::Uniq64 => {
                    let [first, last] = ends().map(|number| number as u64);
                    assert_eq!(plain_ids::serial64(first), start % (1 << 31), "the serial of {first}");
                    assert_eq!(plain_ids::serial64(last), (start + u64::from(len) - 1) % (1 << 31), "of {last}");
                    assert_eq!(first >> 31, last >> 31, "of one hour and token: {first}, {last}");
                    (first >> 31 << 31, offset.instant(&plain_ids::uniq64(first)))
                }
                Of::Uniq96 => {
                    let [first, last] = ends();
                    assert_eq!(u64::from(first as u32), start, "the serial of {first}");
                    assert_eq!(last, first + u128::from(len) - 1, "of one millisecond and token");
                    let high = (first >> 32) as u64;
                    (high, offset.instant(&plain_ids::uniq96(high)))
                }
                Of::Text => of_text(&prefix, offset),
                Of::Layout(definition) if definition.layout().mark() == Mark::Time => {
                    out.extend(by_tick(definition, &prefix, start..start + u64::from(len), &lease));
                    continue;
                }
                Of::Layout(definition) => of_long_tick(definition, ends(), (start, len), &lease, offset),
                Of::Plain => (0, None),
            };
            let capacity = self.own.kinds.get(at).map_or(1 << 32, |kind| kind.rules.capacity);
            let time = time.expect("a time that was");
            out.push(Run { of, prefix, high, capacity, start, len: len.into(), time, lease });
        }
    }

    /// The mutation: where the clock stands before the bucket of the last IDs, the file is read as if it named none.
    fn forget_bucket(&mut self, at: usize, wall: WallMs) {
        if !self.own.mutations.has(Mutation::BucketsGoBack) {
            return;
        }
        let now = self.own.kinds[at].bucket_at(self.own.offset, wall);
        if self.engine.contents().blocks.get(at).and_then(Option::as_ref).is_none_or(|block| block.bucket <= now) {
            return;
        }
        let mut contents = self.engine.contents().clone();
        contents.blocks.iter_mut().flatten().for_each(|block| block.bucket = 0);
        let published = self.engine.published().clone();
        let holdings = self.engine.holdings().clone();
        self.own.windows = self.own.kinds.iter().map(|_| Window::closed(Prefix::Void)).collect();
        self.own.axes = closed(&self.own.kinds);
        self.own.begun.clear();
        let rights = (published.leases, None);
        self.engine = engine(contents, holdings, rights, &self.own.kinds, Mutations::NONE);
    }

    /// Joins a cluster, durably.
    ///
    /// # Errors
    /// Any [`Refusal`].
    pub fn join(
        &mut self,
        shell: &mut Shell<'_>,
        cluster: ClusterId,
        parameters: ClusterParameters,
    ) -> Result<(), Refusal> {
        self.decide(shell, |engine, hands| engine.join(hands, cluster, parameters))?;
        let named = self.own.kinds.iter().take_while(|kind| kind.namespace.name().is_default()).count();
        add_kinds(&mut self.engine, named, &self.own.kinds);
        Ok(())
    }

    /// Makes durable that a renewal may have been sent.
    ///
    /// # Errors
    /// Any [`Refusal`]; then it must not be sent.
    pub fn promise_rseq(&mut self, shell: &mut Shell<'_>, rseq: u64) -> Result<(), Refusal> {
        self.decide(shell, |engine, hands| engine.promise_rseq(hands, rseq))
    }

    /// Takes over the holder's leases.
    ///
    /// # Errors
    /// Any [`Refusal`]; then what was gained is not used.
    pub fn set_leases(&mut self, shell: &mut Shell<'_>, leases: Leases, jumps: u64) -> Result<(), Refusal> {
        let (jumped, leases) = (self.jumps != jumps, views(leases, self.own.mutations));
        self.decide(shell, |engine, hands| engine.set_leases(hands, leases, jumped))
    }

    /// Tells whether minting has other leases than these.
    pub fn differs_from(&self, leases: &Leases) -> bool {
        views(leases.clone(), self.own.mutations) != self.published().leases
    }

    /// Notices a jump of the clock; then nothing is minted until the leases were renewed.
    pub fn watch_clock(&mut self, shell: &mut Shell<'_>) {
        if self.own.time.look(shell.os, 1).is_some() {
            self.jumps += 1;
            self.decide(shell, |engine, hands| engine.suspend(hands));
        }
    }

    /// Takes a master's time.
    pub fn hear(&mut self, shell: &mut Shell<'_>, answer: &ClockSample) {
        if let (_, true) = self.own.time.correct(answer) {
            let skew = self.own.time.skew();
            self.decide(shell, |engine, hands| engine.regate(hands, skew));
        }
    }

    /// A clean stop: the serials that were not used are written back.
    ///
    /// # Errors
    /// Any [`Refusal`].
    pub fn end(&mut self, shell: &mut Shell<'_>) -> Result<(), Refusal> {
        let ended = self.decide(shell, |engine, hands| engine.end(hands));
        self.own.write_deferred(shell);
        ended
    }
}

/// An engine on these contents, with what a mutation makes of them.
fn engine(
    mut contents: Contents,
    holdings: Holdings,
    (leases, resumed_until): (Leases, Option<BootMs>),
    kinds: &[Kind],
    mutations: Mutations,
) -> Engine {
    if mutations.has(Mutation::ResumeBelowMark) {
        for block in contents.blocks.iter_mut().flatten() {
            block.serial -= u64::from(block.step).min(block.serial - block.bucket_base);
        }
    }
    let mut holdings = holdings;
    if mutations.has(Mutation::SegmentBelowMark) {
        let held = holdings.segments.values_mut().flat_map(|of| &mut of.record.held);
        held.for_each(|held| held.mark = held.span.from);
    }
    if mutations.has(Mutation::SegmentsKeptByFresh) && holdings.leases.is_empty() && !holdings.segments.is_empty() {
        // As if they were confirmed: a lease that it once had.
        holdings.leases.push(long_over());
    }
    let mut engine = Engine::new(contents, holdings, leases, resumed_until);
    add_kinds(&mut engine, 0, kinds);
    engine
}

/// Adds the kinds from the `from`th on. Those with a name of their own stand for what the masters say: an agent serves them
/// once it knows of which cluster it is.
fn add_kinds(engine: &mut Engine, from: usize, kinds: &[Kind]) {
    let joined = engine.published().membership.cluster.is_some();
    for kind in kinds.iter().skip(from).filter(|kind| joined || kind.namespace.name().is_default()) {
        engine.add(&kind.namespace).expect("a file of ours");
    }
    if joined {
        engine.add(&common::namespace::Namespace::default_of(common::kind::Kind::Uniq96)).expect("a file of ours");
    }
}

/// Numbers of a layout, tick by tick.
fn by_tick(definition: &Arc<LayoutDefinition>, prefix: &Prefix, counters: Range<u64>, lease: &Grant) -> Vec<Run> {
    let (layout, Prefix::Number(numbers)) = (definition.layout(), prefix) else { return Vec::new() };
    let (capacity, mut runs, mut next) = (layout.serials_per_tick(), Vec::new(), counters.start);
    while next < counters.end {
        let len = (counters.end - next).min(capacity - next % capacity);
        let (tick, token, serial) = plain_ids::by_layout(&layout.spec(), numbers.number(next));
        runs.push(Run {
            of: Of::Layout(Arc::clone(definition)),
            prefix: numbers.later(next / capacity).map_or(Prefix::Void, Prefix::Number),
            high: tick << 16 | token,
            capacity,
            start: serial,
            len,
            time: layout.starts_at(tick),
            lease: lease.clone(),
        });
        next += len;
    }
    runs
}

/// Tick and token of a number by ticks whose serials have the mark, and the instant at which its tick begins.
fn of_long_tick(
    definition: &LayoutDefinition,
    [first, last]: [u128; 2],
    (start, len): (u64, u32),
    lease: &Grant,
    offset: UtcOffset,
) -> (u64, Option<WallMs>) {
    let (said, capacity) = (definition.layout().spec(), definition.layout().serials_per_tick());
    let [high, high_of_last] = [first, last].map(|number| number as u64 / capacity);
    let (tick, token, serial) = plain_ids::by_layout(&said, first);
    assert_eq!((token, serial), (lease.key.value.0.into(), start % capacity), "token and serial of {first}");
    assert_eq!(last as u64 % capacity, (start + u64::from(len) - 1) % capacity, "the serial of {last}");
    assert_eq!(high, high_of_last, "of one tick and token: {first}, {last}");
    let time = match plain_ids::by_calendar(&said, first) {
        Some(civil) => offset.instant(&civil),
        None => plain_ids::by_ticks(&said, tick),
    };
    (high, time)
}

/// The windows of as many axes as there may be, all closed.
fn closed(kinds: &[Kind]) -> Vec<TickWindow> {
    (0..=kinds.len()).map(|_| TickWindow::closed()).collect()
}

/// Day and token of a string, which begins with both.
fn of_text(prefix: &Prefix, offset: UtcOffset) -> (u64, Option<WallMs>) {
    let runs = Runs::from(minting::run::Run { prefix: prefix.clone(), start: 0, len: 1 });
    let text = runs.texts(&CallerParts::default()).pop().unwrap_or_default();
    let number = |range: Range<usize>, radix| text.get(range).and_then(|part| u64::from_str_radix(part, radix).ok());
    let day = number(0..8, 10).unwrap_or_default();
    let token = number(8..10, 36).unwrap_or_default();
    let (year, month, day_of_month) = ((day / 10_000) as i32, (day / 100 % 100) as u8, (day % 100) as u8);
    let civil = Civil { year, month, day: day_of_month, hour: 0, minute: 0, second: 0, millisecond: 0 };
    (day << 32 | token, offset.instant(&civil))
}
