//! Plain numbers for one thread: blocks cut from the window, which are the thread's for good.
//!
//! They need neither lease nor clock, so a block ends with its name or the window's right (a master of another cluster was heard), and
//! not with the window.

use super::Shared;
use crate::gate::{Prefix, plain};
use crate::minter::{Generator, SerialSeries, Series};
use crate::window::Take;
use std::cell::Cell;
use std::sync::Arc;

/// Numbers cut from the window at once, and no more than a part of what the window has left: a segment may be short. What is left of a
/// block when its thread ends is a gap.
const BLOCK_MAX: u64 = 1_024;
const WINDOW_PARTS: u64 = 16;

/// A block of one generator's numbers.
pub(super) struct PlainBlock {
    series: Arc<SerialSeries>,
    /// The next place and the end, from the segment's first place on,
    next: Cell<u64>,
    end: Cell<u64>,
    /// its number, and how far it is to the next one.
    first: Cell<u64>,
    increment: Cell<u64>,
    /// How many windows had been ended when it was cut.
    ended: Cell<u64>,
}

impl PlainBlock {
    /// `None` if those are no plain numbers, or have plugins: those see every call.
    pub(super) fn of(generator: &Arc<Generator>) -> Option<Self> {
        let [next, end, first, increment, ended] = [0; 5].map(Cell::new);
        let Some(Series::Serials(series)) = generator.unguarded() else { return None };
        let series = Arc::clone(series);
        series.is_segment().then_some(Self { series, next, end, first, increment, ended })
    }

    /// The next number of the block, if it has one and is still good.
    #[inline]
    pub(super) fn take(&self) -> Option<u64> {
        let next = self.next.get();
        if next >= self.end.get() || !self.series.ends.are_still(self.ended.get()) {
            return None;
        }
        self.next.set(next + 1);
        Some(plain(self.first.get(), self.increment.get(), next))
    }

    /// Cuts the next block, and gives its first number. `None`: the long way has to be gone, which opens the next window.
    #[cold]
    #[inline(never)]
    pub(super) fn cut(&self, shared: &Shared) -> Option<u64> {
        self.leave();
        // Looked at first: a block of a window that is ended after this never looks new.
        self.ended.set(self.series.ends.so_far());
        let window = self.series.window();
        let Prefix::Plain { first, increment } = window.prefix else { return None };
        let wanted = (window.left() / WINDOW_PARTS).clamp(1, BLOCK_MAX);
        let block = match window.take(u32::try_from(wanted).unwrap_or(1), shared.minter.wall()) {
            Take::All { start, half_used } => {
                if half_used {
                    shared.minter.reserve_soon(&self.series);
                }
                start..start + wanted
            }
            Take::Some(last) => last,
            Take::None | Take::Closed => return None,
        };
        self.first.set(first);
        self.increment.set(increment);
        self.next.set(block.start);
        self.end.set(block.end);
        self.take()
    }

    /// What is left of the block is a gap. It was counted when the block was cut.
    fn leave(&self) {
        let left = self.end.get().saturating_sub(self.next.get());
        self.end.set(0);
        if left > 0 {
            self.series.take_off(left);
        }
    }
}

impl Drop for PlainBlock {
    fn drop(&mut self) {
        self.leave();
    }
}
