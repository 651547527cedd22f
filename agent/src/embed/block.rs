//! Numbers of one generator for one thread: cut from an open window in blocks, and checked one by one as they are given out.
//!
//! Numbers of every kind have the same blocks. What differs is how far two of them are apart, and until when they may be given out: those of a
//! tick until it is over, serials until their hour or the lease ends, plain numbers always. A block ends with its window, too, and with its
//! name.
//!
//! A block has one number, and each further one twice as many as long as they are used up in the same tick. What has no ticks ends with
//! the reading of the clock instead, so that what threads hold back is as old as that and no older. So who mints little gives its numbers
//! in order with those of others, and who mints much touches nothing that they write. A thread with a generator of its own
//! keeps what has no ticks, and cuts as much as it may.

use super::Shared;
use crate::gate::Prefix;
use crate::minter::{Block, Generator, Minter, Series};
use crate::run::Run;
use crate::window::Ends;
use common::kind::Kind;
use common::layout::Stretch;
use common::time::{SpanMs, WallMs};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// The most numbers that are cut at once. What is left of a block when its right ends, or its thread, is a gap.
const BLOCK_MAX: u32 = 2_048;
/// Kinds that a name can be of.
const KINDS: usize = Kind::ALL.len();
/// An instant before all others; the time from it to any that a clock shows has room in 64 bits.
const LONG_OVER: WallMs = WallMs(i64::MIN / 2);
/// A block has no more than this part of a tick.
const TICK_PARTS: u64 = 4;

/// Blocks of one generator.
pub(super) struct Blocks {
    generator: Arc<Generator>,
    /// `None` of a name with plugins, which see every call: there are no blocks of it.
    series: Option<Series>,
    id: u64,
    kind: Kind,
    /// The numbers at hand: the next one, how far each is from the one after it, and where they end.
    number: Cell<u64>,
    step: Cell<u64>,
    end: Cell<u64>,
    /// The rest of the block: from where a serial begins again, and numbers that are too wide.
    rest: RefCell<Option<Run>>,
    /// The end of the block's time, by the kind of number that is asked for: long over for every kind but its own.
    over: [Cell<WallMs>; KINDS],
    /// The count of windows that had ended before it was cut.
    ended: Cell<u64>,
    ends: Ends,
    /// Its length, and that of the shortest and the longest.
    length: Cell<u32>,
    shortest: u32,
    longest: u32,
    /// Set where serials are kept from one reading of the clock to the next.
    keeps: bool,
}

impl Blocks {
    /// Blocks of a generator, which a thread `keeps` if it has that to itself.
    pub(super) fn of(generator: &Arc<Generator>, keeps: bool) -> Self {
        let series = generator.unguarded().cloned();
        let longest = u32::try_from(generator.namespace().capacity() / TICK_PARTS).unwrap_or(u32::MAX);
        let longest = longest.clamp(1, BLOCK_MAX);
        let shortest = if keeps && matches!(series, Some(Series::Serials(_))) { longest } else { 1 };
        Self {
            id: generator.number(),
            kind: generator.kind(),
            generator: Arc::clone(generator),
            ends: series.as_ref().map(|series| series.ends().clone()).unwrap_or_default(),
            series,
            number: Cell::new(0),
            step: Cell::new(0),
            end: Cell::new(0),
            rest: RefCell::new(None),
            over: [const { Cell::new(LONG_OVER) }; KINDS],
            ended: Cell::new(0),
            length: Cell::new(shortest),
            shortest,
            longest,
            keeps,
        }
    }

    /// The number of the generator.
    #[inline]
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// The end of the block's time for calls that ask for that kind.
    #[inline(always)]
    fn over(&self, kind: Kind) -> WallMs {
        self.over.get(kind as usize).map_or(LONG_OVER, Cell::get)
    }

    /// Tells whether what is left of the block may be given to calls that ask for that kind.
    #[inline(always)]
    fn holds(&self, kind: Kind, wall: WallMs) -> bool {
        wall < self.over(kind) && self.ends.are_still(self.ended.get())
    }

    /// The next number at hand, if it is of that kind; in a register: 128 bits would go through memory in halves and be read as a whole,
    /// which costs more than all the rest.
    #[inline(always)]
    pub(super) fn take(&self, kind: Kind, wall: WallMs) -> Option<u64> {
        let number = self.number.get();
        // Both are negative while there are numbers and their time is not over. One branch for the two: of three or more in a line of the
        // cache each costs as much as all that it decides about.
        let left = number.wrapping_sub(self.end.get()) as i64;
        let time = wall.0.wrapping_sub(self.over(kind).0);
        if left & time >= 0 || !self.ends.are_still(self.ended.get()) {
            return None;
        }
        // Those of Uniq64 follow on each other, which need not be looked up.
        let step = if kind == Kind::Uniq64 { 1 } else { self.step.get() };
        self.number.set(number.wrapping_add(step));
        Some(number)
    }

    /// The next number of that kind, at hand or not, or the first of the next block. `None`: the slow path has to be taken, which opens the
    /// next window.
    #[inline]
    pub(super) fn take_or_cut(&self, kind: Kind, shared: &Shared) -> Option<u128> {
        let wall = shared.time.wall();
        if let Some(number) = self.take(kind, wall) {
            return Some(number.into());
        }
        let series = self.series.as_ref().filter(|_| self.kind == kind)?;
        if self.holds(kind, wall)
            && let Some(number) = self.go_on()
        {
            return Some(number);
        }
        self.cut(series, wall, &shared.minter)
    }

    /// Takes the next numbers of the rest at hand, and gives the first of them.
    #[inline]
    fn go_on(&self) -> Option<u128> {
        let mut rest = self.rest.borrow_mut();
        let run = rest.as_mut()?;
        let Some(Stretch { first, step, n }) = stretch(run) else {
            *rest = None;
            return None;
        };
        (run.start, run.len) = (run.start + u64::from(n), run.len - n);
        self.step.set(step);
        self.number.set((first as u64).wrapping_add(step));
        self.end.set((first as u64).wrapping_add(step.wrapping_mul(n.into())));
        Some(first)
    }

    #[cold]
    fn cut(&self, series: &Series, written: WallMs, minter: &Arc<Minter>) -> Option<u128> {
        let wall = minter.time().wall();
        let now = if matches!(series, Series::Ticks(_)) { wall } else { written };
        let used_up = self.left() == 0 && now < self.over(self.kind);
        let length = if used_up { (self.length.get() * 2).min(self.longest) } else { self.shortest };
        self.leave();
        // Looked at first: a block of a window that is ended after this never looks new.
        let ended = self.ends.so_far();
        if self.generator.has_ended() {
            return None;
        }
        // At the end of what there is a whole block may have no room.
        let Block { run, over, half_used } = series.take_block(length, wall).or_else(|| series.take_block(1, wall))?;
        // Looked at again after it was taken: the window that is open now may be one of the others that share the series.
        let number = if self.generator.has_ended() {
            series.take_off(run.len.into());
            None
        } else {
            self.length.set(run.len.max(self.shortest));
            self.ended.set(ended);
            let lasts = self.keeps || matches!(series, Series::Ticks(_));
            let over = if lasts { over } else { over.min(written + SpanMs(1)) };
            self.over.get(self.kind as usize).inspect(|cell| cell.set(over));
            self.rest.replace(Some(run));
            self.go_on()
        };
        // Last: without a runtime it writes the file here, and what is told of that may mint.
        if half_used {
            match series {
                Series::Serials(series) => minter.reserve_soon(series),
                Series::Ticks(series) => minter.extend_soon(series),
            }
        }
        number
    }

    fn left(&self) -> u64 {
        let at_hand = match self.end.get().wrapping_sub(self.number.get()) {
            0 => 0,
            distance => distance / self.step.get(),
        };
        at_hand + self.rest.borrow().as_ref().map_or(0, |run| run.len.into())
    }

    /// Leaves the rest of the block as a gap. It was counted when the block was cut, and is taken off the count.
    fn leave(&self) {
        let left = self.left();
        self.end.set(self.number.get());
        self.rest.take();
        if left > 0
            && let Some(series) = &self.series
        {
            series.take_off(left);
        }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The first numbers of a run that are equally far from each other; of those that may be wider than 64 bits, one.
#[inline]
pub(super) fn stretch(run: &Run) -> Option<Stretch> {
    let stretch = run.stretches().next()?;
    let is_wide = matches!(&run.prefix, Prefix::Number(numbers) if !numbers.are_narrow());
    Some(if is_wide { Stretch { n: 1, ..stretch } } else { stretch })
}
