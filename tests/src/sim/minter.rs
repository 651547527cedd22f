//! Minting as the agent does it, without its threads: the same gates, serials, windows and durable marks in the same
//! order, on a simulated disk and clock.

use super::disk::{Failure, Folder, Opened, SerialFile};
use super::rng::Rng;
use super::swarm::Mutation;
use agent::emit::{Make, Stamp, gate_uniq96, stamp_uniq96};
use agent::holder::{LeaseView, Leases};
use agent::serial::{Marks, Plan, Serial};
use agent::serial_file::{Block, Contents, Holdings};
use agent::timebase::{Answer, Heard, Timebase};
use agent::uniq96::{Place, Take96, Window96};
use agent::window::{Take, Window};
use common::calendar::UtcOffset;
use common::lease::Grant;
use common::namespace::{GeneratorKind, Namespace};
use common::terms::{ClusterId, Terms};
use common::time::{Now, SpanMs, WallMs};
use common::token::TokenType;
use std::ops::Range;

const MARK_AHEAD: SpanMs = SpanMs::seconds(1);
const RESTART_WAIT_MAX: SpanMs = SpanMs::seconds(2);
const SET_BACK_MAX: SpanMs = SpanMs::seconds(1);

/// IDs with one prefix and consecutive serials, and the lease they were minted under.
#[derive(Clone, Debug)]
pub struct Run {
    /// Which layout.
    pub uniq96: bool,
    /// Everything but the serial.
    pub prefix: u64,
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
    /// The disk.
    Disk(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Disk(failure)
    }
}

/// The leases, the serials and what is durable of them.
pub struct Minter {
    file: SerialFile,
    contents: Contents,
    /// As they are durable.
    pub holdings: Holdings,
    namespace: Namespace,
    make: Make,
    serial: Serial,
    window: Window<Stamp>,
    window_lease: Option<Grant>,
    place96: Place,
    settled96: bool,
    window96: Window96,
    time: Timebase,
    /// How often the clock has jumped.
    pub jumps: u64,
    leases: Leases,
    skew: Option<SpanMs>,
    cluster: Option<(ClusterId, Terms)>,
    mutation: Mutation,
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
    pub fn new(opened: Opened, leases: Leases, os: Now, mutation: Mutation) -> Self {
        let Opened { file, contents, holdings, .. } = opened;
        let namespace = Namespace::default_of(GeneratorKind::Uniq64);
        let make = Make::of(&namespace);
        let block = contents.blocks.iter().flatten().next();
        let marks = block.map_or(Marks { step: namespace.step(), ..Marks::default() }, |b| Marks {
            bucket: b.bucket,
            base: b.bucket_base,
            mark: b.serial,
            step: b.step,
        });
        let serial = Serial::resume(make.rules(namespace.everyday_reset()), marks);
        let place96 = Place { ms: contents.header.uniq96_mark, serial: 0 };
        let cluster = holdings.cluster.zip(holdings.terms);
        Self {
            file,
            contents,
            holdings,
            namespace,
            make,
            serial,
            window: Window::closed(Stamp::Void),
            window_lease: None,
            place96,
            settled96: false,
            window96: Window96::closed(),
            time: Timebase::start(os),
            jumps: 0,
            leases,
            skew: None,
            cluster,
            mutation,
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

    /// The cluster and its terms.
    pub fn membership(&self) -> Option<(ClusterId, Terms)> {
        self.cluster
    }

    fn lease(&self) -> Result<(Grant, UtcOffset), Stop> {
        match (self.leases.get(&TokenType::Uint2), self.cluster) {
            (Some(LeaseView::Held(grant)), Some((_, terms))) if self.skew.is_none() => {
                let mut grant = grant.clone();
                if self.mutation == Mutation::MintPastTheLease {
                    grant.until = grant.until + SpanMs::days(15);
                }
                Ok((grant, terms.utc_offset()))
            }
            _ => Err(Stop::Refused),
        }
    }

    /// `n` Uniq64.
    ///
    /// # Errors
    /// [`Stop`]; what is in `out` counts all the same.
    pub fn mint(&mut self, shell: &mut Shell<'_>, n: u32, out: &mut Vec<Run>) -> Result<(), Stop> {
        let wall = self.now(shell.os).wall;
        let part = match self.window.take(n, wall) {
            Take::All { start, half_used } => {
                out.push(self.run_of_window(start, n.into()));
                // In the agent another thread does this, or comes too late.
                if half_used && shell.rng.chance(0.8) {
                    return self.reserve(shell);
                }
                return Ok(());
            }
            Take::Some(serials) => Some((self.window.bucket, serials.clone(), self.run_of_window(serials.start, 0))),
            Take::None | Take::Closed => None,
        };
        self.refill(shell, part, n, out)
    }

    fn run_of_window(&self, start: u64, len: u64) -> Run {
        let lease = self.window_lease.clone().expect("an open window has a lease");
        run64(&self.window.stamp, self.window.bucket, self.offset(), lease, start, len)
    }

    fn offset(&self) -> UtcOffset {
        self.cluster.map_or_else(UtcOffset::default, |(_, terms)| terms.utc_offset())
    }

    fn take_back(&mut self) {
        let rest = self.window.close();
        self.serial.put_back(self.window.bucket, rest);
    }

    fn refill(
        &mut self,
        shell: &mut Shell<'_>,
        part: Option<(u32, Range<u64>, Run)>,
        n: u32,
        out: &mut Vec<Run>,
    ) -> Result<(), Stop> {
        self.take_back();
        let part = part.filter(|(bucket, serials, _)| !self.serial.put_back(*bucket, serials.clone()));
        let last = self.serial.bucket();
        let (lease, offset) = self.lease()?;
        let wall = self.now(shell.os).wall;
        let last = if self.mutation == Mutation::BucketsGoBack { 0 } else { last };
        let bucket = self.make.gate(offset, &lease, last, wall).map_err(|_| Stop::Refused)?;
        let stamp = self.make.stamp(offset, &lease, &bucket).map_err(|_| Stop::Refused)?;
        let mut missing = n;
        if let Some((_, serials, mut run)) = part {
            let len = u32::try_from(serials.end - serials.start).unwrap_or(n).min(n);
            missing -= len;
            run.len = len.into();
            out.push(run);
        }
        let taken = self.take_durably(shell, bucket.number(), missing);
        if self.serial.bucket() == bucket.number() && !matches!(taken, Err(Stop::Disk(Failure::Taken))) {
            let serials = self.serial.lend();
            self.window = Window::open(stamp.clone(), bucket.number(), serials, bucket.valid_until());
            self.window_lease = Some(lease.clone());
        }
        let taken = taken?;
        out.push(run64(&stamp, bucket.number(), offset, lease, taken.start, missing.into()));
        Ok(())
    }

    fn take_durably(&mut self, shell: &mut Shell<'_>, bucket: u32, n: u32) -> Result<Range<u64>, Stop> {
        match self.serial.plan(bucket, n, shell.os.boot) {
            Plan::Ready => {}
            Plan::Write(marks) => self.write_marks(shell, marks)?,
            Plan::Exhausted => return Err(Stop::Refused),
        }
        Ok(self.serial.take(n))
    }

    fn reserve(&mut self, shell: &mut Shell<'_>) -> Result<(), Stop> {
        let Some(marks) = self.serial.plan_reserve(shell.os.boot) else { return Ok(()) };
        match self.write_marks(shell, marks) {
            Err(Stop::Disk(Failure::Io)) => return Ok(()),
            done => done?,
        }
        if self.serial.put_back(self.window.bucket, self.window.close()) {
            self.window = self.window.with_serials(self.serial.lend());
        }
        Ok(())
    }

    fn write_marks(&mut self, shell: &mut Shell<'_>, marks: Marks) -> Result<(), Stop> {
        let now = self.now(shell.os).wall;
        let mut contents = self.contents.clone();
        let Some(slot) = contents.blocks.first_mut() else { return Err(Stop::Refused) };
        *slot = Some(Block {
            name: self.namespace.name().clone(),
            kind: self.namespace.kind(),
            everyday_reset: self.namespace.everyday_reset(),
            create_time: slot.as_ref().map_or(now, |block| block.create_time),
            modification_time: now,
            bucket: marks.bucket,
            bucket_base: marks.base,
            checksum: self.namespace.checksum(),
            serial: marks.mark,
            step: marks.step,
        });
        match self.write(shell, contents) {
            // The mutation: what was not made durable is used all the same.
            Err(Stop::Disk(Failure::Io)) if self.mutation == Mutation::FailedWriteBelieved => {}
            done => done?,
        }
        self.serial.commit(marks, shell.os.boot);
        Ok(())
    }

    fn write(&mut self, shell: &mut Shell<'_>, mut contents: Contents) -> Result<(), Stop> {
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
        let ms = gate_uniq96(&lease, last.ms, wall).map_err(|_| Stop::Refused)?;
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
        self.take_back();
        self.close96();
    }

    /// Joins a cluster, durably.
    ///
    /// # Errors
    /// [`Stop`]
    pub fn join(&mut self, shell: &mut Shell<'_>, cluster: ClusterId, terms: Terms) -> Result<(), Stop> {
        let holdings = Holdings { cluster: Some(cluster), terms: Some(terms), ..self.holdings.clone() };
        self.write_holdings(shell, holdings)?;
        self.cluster = Some((cluster, terms));
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
            suspend(&mut leases);
        }
        let kept: Leases = leases.iter().map(|(t, new)| (*t, common_part(self.leases.get(t), new))).collect();
        if kept != self.leases {
            self.close_all();
        }
        self.leases = kept;
        let grants = leases.values().filter_map(|view| match view {
            LeaseView::Missing => None,
            LeaseView::Held(grant) | LeaseView::Suspended(grant) | LeaseView::Expired(grant) => Some(grant.clone()),
        });
        let holdings = Holdings { leases: grants.collect(), ..self.holdings.clone() };
        self.write_holdings(shell, holdings)?;
        self.leases = leases;
        Ok(())
    }

    /// Notices a jump of the clock; then nothing is minted until the leases were renewed.
    pub fn watch_clock(&mut self, os: Now) {
        if self.time.look(os, 1).is_some() {
            self.jumps += 1;
            suspend(&mut self.leases);
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
        let marks = self.serial.marks_at_rest();
        if let Some(block) = contents.blocks.iter_mut().flatten().next() {
            block.serial = marks.mark;
        }
        let place = self.place96;
        let used_up_to = WallMs(place.ms.0 + i64::from(place.serial > 0));
        contents.header.uniq96_mark = used_up_to.min(contents.header.uniq96_mark);
        if contents == self.contents { Ok(()) } else { self.write(shell, contents) }
    }
}

fn suspend(leases: &mut Leases) {
    for view in leases.values_mut() {
        if let LeaseView::Held(grant) = view {
            *view = LeaseView::Suspended(grant.clone());
        }
    }
}

/// What may be used whether the change becomes durable or not.
fn common_part(before: Option<&LeaseView>, after: &LeaseView) -> LeaseView {
    match (before, after) {
        (Some(LeaseView::Held(old)), LeaseView::Held(new)) if old.key == new.key && old.g == new.g => {
            LeaseView::Held(Grant { from: old.from.max(new.from), until: old.until.min(new.until), ..old.clone() })
        }
        (Some(LeaseView::Suspended(old)), LeaseView::Held(_)) => LeaseView::Suspended(old.clone()),
        (Some(LeaseView::Expired(old)), LeaseView::Held(_)) => LeaseView::Expired(old.clone()),
        (_, LeaseView::Held(_)) => LeaseView::Missing,
        (_, other) => other.clone(),
    }
}

fn run64(stamp: &Stamp, bucket: u32, offset: UtcOffset, lease: Grant, start: u64, len: u64) -> Run {
    let Stamp::Uniq64 { prefix } = stamp else { unreachable!("the generator makes Uniq64") };
    let time = offset.hour_start(common::calendar::HourBucket(bucket));
    Run { uniq96: false, prefix: *prefix, start, len, time, lease }
}

fn run96(offset: UtcOffset, lease: &Grant, place: Place, n: u32) -> Result<Run, Stop> {
    let stamp = stamp_uniq96(offset, lease, place.ms).map_err(|_| Stop::Refused)?;
    let Stamp::Uniq96 { prefix } = stamp else { unreachable!("the stamp of Uniq96") };
    let (start, time, lease) = (place.serial.into(), place.ms, lease.clone());
    Ok(Run { uniq96: true, prefix, start, len: n.into(), time, lease })
}
