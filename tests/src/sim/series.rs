//! Minting with serials as the agent does it, without its threads: Uniq64 and strings.

use super::disk::Failure;
use super::minter::{Minter, Run, Shell, Stop};
use super::mutation::{Mutation, Mutations};
use agent::gate::{Layout, Prefix};
use agent::serial::{Marks, Plan, Rules, Serial};
use agent::serial_file::{Block, Contents};
use agent::window::{Take, Window};
use common::calendar::{DayBucket, HourBucket, UtcOffset};
use common::kind;
use common::lease::Grant;
use common::namespace::{Definition, Namespace};
use common::time::WallMs;
use common::token::{TokenFamily, TokenKey};
use std::ops::Range;

/// What a generator is.
#[derive(Clone, Debug)]
pub struct Kind {
    namespace: Namespace,
    layout: Layout,
    checksum: u64,
    /// How its serials behave.
    pub rules: Rules,
}

impl Kind {
    fn new(namespace: Namespace) -> Self {
        let layout = Layout::of(&namespace).expect("a kind with serials");
        let (checksum, rules) = (namespace.checksum(), layout.rules(namespace.everyday_reset()));
        Self { namespace, layout, checksum, rules }
    }

    /// Uniq64.
    pub fn uniq64() -> Self {
        Self::new(Namespace::default_of(kind::Kind::Uniq64))
    }

    /// Strings with a serial of so many digits.
    pub fn strings(width: usize, everyday_reset: bool) -> Self {
        let definition = Definition {
            kind: kind::Kind::String,
            token_type: None,
            template: Some(format!("{{date:%Y%m%d}}{{token}}{{serial:{width}}}")),
            everyday_reset: Some(everyday_reset),
            step: None,
            scope: None,
        };
        Self::new(Namespace::define("strings".parse().expect("a name"), &definition).expect("a definition"))
    }

    /// The block of one that was in use for long: its next serial is `serial`.
    pub fn used(&self, serial: u64, now: WallMs) -> Block {
        self.block(now, now, Marks { bucket: 0, base: serial, mark: serial, step: self.namespace.step() })
    }

    fn block(&self, create_time: WallMs, modification_time: WallMs, marks: Marks) -> Block {
        Block {
            name: self.namespace.name().clone(),
            kind: self.namespace.kind(),
            everyday_reset: self.rules.everyday_reset,
            create_time,
            modification_time,
            bucket: marks.bucket,
            bucket_base: marks.base,
            checksum: self.checksum,
            serial: marks.mark,
            step: marks.step,
        }
    }
}

/// A generator: its serials and its window.
pub struct Series {
    kind: Kind,
    pub(super) serial: Serial,
    window: Window<Prefix>,
    lease: Option<Grant>,
}

impl Series {
    /// Goes on where the file says.
    pub fn resume(kind: &Kind, at: usize, contents: &Contents, mutations: Mutations) -> Self {
        let block = contents.blocks.get(at).and_then(Option::as_ref);
        let fresh = Marks { step: kind.namespace.step(), ..Marks::default() };
        let mut marks =
            block.map_or(fresh, |b| Marks { bucket: b.bucket, base: b.bucket_base, mark: b.serial, step: b.step });
        if mutations.has(Mutation::ResumeBelowMark) {
            marks.mark -= u64::from(marks.step).min(marks.mark - marks.base);
        }
        let mut rules = kind.rules;
        if mutations.has(Mutation::WrapPastCapacity) {
            rules.capacity *= 4;
        }
        let window = Window::closed(Prefix::Void);
        Self { kind: kind.clone(), serial: Serial::resume(rules, marks), window, lease: None }
    }

    /// Ends its window.
    pub fn take_back(&mut self) {
        let rest = self.window.close();
        self.serial.put_back(self.window.bucket, rest);
    }

    fn run(&self, prefix: &Prefix, bucket: u32, offset: UtcOffset, lease: &Grant, start: u64, len: u64) -> Run {
        let (high, time) = match prefix {
            Prefix::Number { prefix: high, .. } => (*high, offset.hour_start(HourBucket(bucket))),
            _ => {
                let high = u64::from(bucket) << 32 | u64::from(lease.key.value.0);
                (high, offset.day_start(DayBucket(bucket)))
            }
        };
        let (prefix, capacity, lease) = (prefix.clone(), self.kind.rules.capacity, lease.clone());
        Run { prefix, high, capacity, start, len, time, lease }
    }

    fn run_of_window(&self, offset: UtcOffset, start: u64, len: u64) -> Run {
        let lease = self.lease.as_ref().expect("an open window has a lease");
        self.run(&self.window.prefix, self.window.bucket, offset, lease, start, len)
    }
}

/// Strings are minted under the leases of numbers, the value written as two characters: one lease per agent instead of
/// two, and as few values. One value has one text, so what is unique stays unique.
fn spelled(layout: &Layout, lease: &Grant) -> Grant {
    match layout {
        Layout::Number(_) => lease.clone(),
        Layout::Text(_) => {
            let key = TokenKey { family: TokenFamily::String2, value: lease.key.value };
            Grant { key, ..lease.clone() }
        }
    }
}

/// The last serials of a window, fewer than were asked for.
type Part = (u32, Range<u64>, Run);

impl Minter {
    /// `n` IDs of a generator.
    ///
    /// # Errors
    /// [`Stop`]; what is in `out` counts all the same.
    pub fn mint(&mut self, shell: &mut Shell<'_>, at: usize, n: u32, out: &mut Vec<Run>) -> Result<(), Stop> {
        let (wall, offset) = (self.now(shell.os).wall, self.offset());
        let series = &self.series[at];
        let part = match series.window.take(n, wall) {
            Take::All { start, half_used } => {
                out.push(series.run_of_window(offset, start, n.into()));
                // In the agent another thread does this, or comes too late.
                if half_used && shell.rng.chance(0.8) {
                    return self.reserve(shell, at);
                }
                return Ok(());
            }
            Take::Some(serials) => {
                let run = series.run_of_window(offset, serials.start, 0);
                Some((series.window.bucket, serials, run))
            }
            Take::None | Take::Closed => None,
        };
        self.refill(shell, at, part, n, out)
    }

    fn refill(
        &mut self,
        shell: &mut Shell<'_>,
        at: usize,
        part: Option<Part>,
        n: u32,
        out: &mut Vec<Run>,
    ) -> Result<(), Stop> {
        let series = &mut self.series[at];
        series.take_back();
        let part = part.filter(|(bucket, serials, _)| !series.serial.put_back(*bucket, serials.clone()));
        let last = if self.mutations.has(Mutation::BucketsGoBack) { 0 } else { series.serial.bucket() };
        let layout = series.kind.layout.clone();
        let (lease, offset) = self.lease()?;
        let wall = self.now(shell.os).wall;
        let bucket = layout.gate(offset, &lease, last, wall).map_err(|refusal| Stop::of(&refusal))?;
        let prefix = layout.prefix(offset, &spelled(&layout, &lease), &bucket).map_err(|_| Stop::Refused)?;
        let number = bucket.number();
        let mut missing = n;
        if let Some((_, serials, mut run)) = part {
            let len = u32::try_from(serials.end - serials.start).unwrap_or(n).min(n);
            missing -= len;
            run.len = len.into();
            out.push(run);
        }
        let taken = self.take_durably(shell, at, number, missing, |series, start| {
            out.push(series.run(&prefix, number, offset, &lease, start, missing.into()));
        });
        let series = &mut self.series[at];
        if series.serial.bucket() == number && !matches!(taken, Err(Stop::Disk(Failure::Taken))) {
            let serials = series.serial.lend();
            let mut valid_until = bucket.valid_until();
            if self.mutations.has(Mutation::WindowOutlivesLease) {
                valid_until = bucket.end();
            }
            series.window = Window::open(prefix, number, serials, valid_until);
            series.lease = Some(lease);
        }
        taken
    }

    fn take_durably(
        &mut self,
        shell: &mut Shell<'_>,
        at: usize,
        bucket: u32,
        n: u32,
        mut give: impl FnMut(&Series, u64),
    ) -> Result<(), Stop> {
        match self.series[at].serial.plan(bucket, n, shell.os.boot) {
            Plan::Ready => {}
            Plan::Write(marks) => {
                if self.mutations.has(Mutation::MintBeforeDurable) {
                    let mut early = self.series[at].serial.clone();
                    early.commit(marks, shell.os.boot);
                    give(&self.series[at], early.take(n).start);
                    self.write_marks(shell, at, marks)?;
                    self.series[at].serial.take(n);
                    return Ok(());
                }
                self.write_marks(shell, at, marks)?;
            }
            Plan::Exhausted => return Err(Stop::Refused),
        }
        let start = self.series[at].serial.take(n).start;
        give(&self.series[at], start);
        Ok(())
    }

    fn reserve(&mut self, shell: &mut Shell<'_>, at: usize) -> Result<(), Stop> {
        let Some(marks) = self.series[at].serial.plan_reserve(shell.os.boot) else { return Ok(()) };
        match self.write_marks(shell, at, marks) {
            Err(Stop::Disk(Failure::Io)) => return Ok(()),
            done => done?,
        }
        let series = &mut self.series[at];
        if series.serial.put_back(series.window.bucket, series.window.close()) {
            series.window = series.window.with_serials(series.serial.lend());
        }
        Ok(())
    }

    fn write_marks(&mut self, shell: &mut Shell<'_>, at: usize, marks: Marks) -> Result<(), Stop> {
        let now = self.now(shell.os).wall;
        let mut contents = self.contents.clone();
        let Some(slot) = contents.blocks.get_mut(at) else { return Err(Stop::Refused) };
        let created = slot.as_ref().map_or(now, |block| block.create_time);
        *slot = Some(self.series[at].kind.block(created, now, marks));
        match self.write(shell, contents) {
            // The mutation: what was not made durable is used all the same.
            Err(Stop::Disk(Failure::Io)) if self.mutations.has(Mutation::FailedWriteBelieved) => {}
            done => done?,
        }
        self.series[at].serial.commit(marks, shell.os.boot);
        Ok(())
    }
}
