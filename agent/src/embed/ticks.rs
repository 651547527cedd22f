//! Numbers of a layout for one thread: serials of one tick in blocks, checked one by one.
//!
//! A thread's first block in a tick has one serial, and each further one in the same tick twice as many. So who mints little leaves
//! the others their ticks and gives its numbers in order with theirs, and who mints much touches nothing that they write.

use crate::minter::{AxisWindow, Generator, Minter, Series, TickSeries};
use crate::ticks::TickWindow;
use common::time::WallMs;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// The longest block. What is left of one when its tick or its window ends, or its thread, is a gap.
const BLOCK_MAX: u32 = 1_024;

/// Blocks of one generator.
pub(super) struct TickBlocks {
    id: u64,
    generator: Arc<Generator>,
    /// `None` if it has none: then there are no blocks.
    series: Option<Arc<TickSeries>>,
    /// Its axis, at hand.
    axis: Option<Arc<AxisWindow>>,
    next: Cell<u64>,
    end: Cell<u64>,
    /// The number of the next one, and how far it is to the one after that; 0: the layout is wide.
    number: Cell<u64>,
    step: Cell<u64>,
    /// When the block's tick is over.
    over: Cell<WallMs>,
    /// The window that it was cut from, and how many had been closed before.
    window: RefCell<Option<Arc<TickWindow>>>,
    ended: Cell<u64>,
    /// How long the next block is.
    length: Cell<u32>,
}

impl TickBlocks {
    pub(super) fn new(generator: Arc<Generator>) -> Self {
        let (next, end, number, step) = (Cell::new(0), Cell::new(0), Cell::new(0), Cell::new(0));
        let (over, length, ended) = (Cell::new(WallMs(i64::MIN)), Cell::new(1), Cell::new(0));
        let series = match generator.unguarded() {
            Some(Series::Ticks(series)) => Some(Arc::clone(series)),
            Some(Series::Serials(_)) | None => None,
        };
        let axis = series.as_ref().map(|series| Arc::clone(series.window()));
        let (id, window) = (generator.number(), RefCell::new(None));
        Self { id, generator, series, axis, next, end, number, step, over, window, ended, length }
    }

    /// Whose they are.
    #[inline]
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// The counter of the next serial of the block, if it still has one, its tick is not over, and its window is open.
    #[inline(always)]
    fn serial(&self, wall: WallMs) -> Option<u64> {
        let next = self.next.get();
        if next >= self.end.get()
            || wall >= self.over.get()
            || !self.axis.as_ref()?.ends().are_still(self.ended.get())
            || self.generator.has_ended()
        {
            return None;
        }
        self.next.set(next + 1);
        Some(next)
    }

    /// The next number of the block, if its layout is [narrow](common::layout::Narrow): in a register, where 128 bits would go through
    /// memory in halves and be read as a whole, which costs more than all the rest.
    #[inline(always)]
    pub(super) fn narrow(&self, wall: WallMs) -> Option<u64> {
        let (number, step) = (self.number.get(), self.step.get());
        if step == 0 {
            return None;
        }
        self.serial(wall)?;
        self.number.set(number.wrapping_add(step));
        Some(number)
    }

    /// The next number of a block whose layout is wide, or the first one of the next block.
    #[inline(never)]
    pub(super) fn wide_or_cut(&self, wall: WallMs, minter: &Arc<Minter>) -> Option<u128> {
        if self.step.get() == 0
            && let Some(serial) = self.serial(wall)
        {
            return self.window.borrow().as_ref()?.number_of(serial);
        }
        self.cut(minter)
    }

    /// Cuts the next block, and gives its first number. `None`: the long way has to be gone.
    #[cold]
    fn cut(&self, minter: &Arc<Minter>) -> Option<u128> {
        let used_up = self.next.get() >= self.end.get();
        let length = if used_up { (self.length.get() * 2).min(BLOCK_MAX) } else { 1 };
        self.leave();
        // Of a name with plugins there is none.
        let series = self.series.as_ref().filter(|series| series.has_begun() && !self.generator.has_ended())?;
        let axis = series.window();
        // Looked at first: a block of a window that is ended after this never looks new.
        self.ended.set(axis.ends().so_far());
        let window = axis.load();
        let wall = minter.wall();
        let length = if wall >= self.over.get() { 1 } else { length };
        let (block, half_used) = window.take_block(length, wall, series.reach())?;
        if half_used {
            minter.extend_soon(series);
        }
        // Looked at again after it was taken: nobody closes a window for one of the names that share it.
        if self.generator.has_ended() {
            return None;
        }
        self.length.set(length);
        series.count(u32::try_from(block.end - block.next).unwrap_or(BLOCK_MAX));
        self.next.set(block.next + 1);
        self.end.set(block.end);
        let step = block.step.unwrap_or_default();
        self.step.set(step);
        self.number.set((block.number as u64).wrapping_add(step));
        self.over.set(block.over);
        self.window.replace(Some(Arc::clone(&window)));
        Some(block.number)
    }

    /// What is left of the block is a gap, and was counted when it was cut.
    fn leave(&self) {
        let left = self.end.get().saturating_sub(self.next.get());
        self.end.set(0);
        if left > 0 {
            self.series.iter().for_each(|series| series.take_off(left));
        }
    }
}

impl Drop for TickBlocks {
    fn drop(&mut self) {
        self.leave();
    }
}
