//! A generator for one thread: serials in blocks, checked one by one.

use super::plain::PlainBlock;
use super::ticks::TickBlocks;
use super::{MintError, Shared, UniqGenerator};
use crate::gate::Prefix;
use crate::minter::{SerialSeries, Series};
use crate::run::Run;
use crate::window::Take;
use common::time::WallMs;
use std::cell::Cell;
use std::sync::Arc;

/// Serials cut from the window at once. What is left of a block when its thread ends, or its window does, is a gap.
const BLOCK: u32 = 1_024;

/// The generators of one name, for the thread that has this.
pub struct PerThread {
    shared: Shared,
    /// The series that blocks are cut from. Plugins see every call, so their names have no blocks.
    series: Option<Arc<SerialSeries>>,
    /// The block: its IDs from the next one on, and its right.
    next: Cell<u64>,
    end: Cell<u64>,
    /// IDs of the same block that do not follow on those: there the serial begins again at 0.
    rest: Cell<(u64, u64)>,
    /// The number of the window that it was cut from.
    window: Cell<u64>,
    valid_until: Cell<WallMs>,
    /// Of a layout.
    ticks: Option<TickBlocks>,
    /// Of plain numbers.
    plain: Option<PlainBlock>,
}

impl PerThread {
    pub(super) fn new(shared: Shared) -> Self {
        Self {
            series: match shared.numbers().ok().and_then(|generator| generator.unguarded()) {
                Some(Series::Serials(series)) => Some(Arc::clone(series)),
                Some(Series::Ticks(_)) | None => None,
            },
            ticks: shared.ticks().ok().cloned().map(TickBlocks::new),
            plain: shared.numbers().ok().and_then(PlainBlock::of),
            shared,
            next: Cell::new(0),
            end: Cell::new(0),
            rest: Cell::new((0, 0)),
            window: Cell::new(0),
            valid_until: Cell::new(WallMs(i64::MIN)),
        }
    }

    /// The next ID of the block, if it still has one and its right holds.
    #[inline]
    fn taken(&self) -> Option<u64> {
        let next = self.next.get();
        if next < self.end.get()
            && let Some(series) = &self.series
            && series.ends.are_still(self.window.get())
            && self.shared.time.wall() < self.valid_until.get()
            && self.shared.process.check().is_ok()
        {
            self.next.set(next + 1);
            return Some(next);
        }
        None
    }

    /// Goes on where the serial begins again, or cuts a block from the window that is open now.
    #[cold]
    #[inline(never)]
    fn cut(&self) -> Result<u64, MintError> {
        if self.next.get() >= self.end.get() {
            let (start, end) = self.rest.take();
            self.next.set(start);
            self.end.set(end);
            if let Some(id) = self.taken() {
                return Ok(id);
            }
        }
        self.shared.process.check()?;
        self.leave();
        let (Some(series), Ok(generator)) = (&self.series, self.shared.numbers()) else {
            return self.shared.get_uniq64();
        };
        if generator.has_ended() {
            return self.shared.get_uniq64();
        }
        // Looked at first: a block of a window that is ended after this never looks new.
        let number = series.ends.so_far();
        let window = series.window();
        let Prefix::Number(numbers) = &window.prefix else { return self.shared.get_uniq64() };
        let block = match window.take(BLOCK, self.shared.minter.wall()) {
            Take::All { start, half_used } => {
                if half_used {
                    self.shared.minter.reserve_soon(series);
                }
                start..start + u64::from(BLOCK)
            }
            Take::Some(last) => last,
            // The long way, which opens the next window.
            Take::None | Take::Closed => return self.shared.get_uniq64(),
        };
        // Looked at again after it was taken: the window that is open now may be one of the others that share the series.
        if generator.has_ended() {
            series.take_off(block.end - block.start);
            return self.shared.get_uniq64();
        }
        let len = u32::try_from(block.end - block.start).unwrap_or(BLOCK);
        let run = Run { prefix: Prefix::Number(numbers.clone()), start: block.start, len };
        let mut stretches = run.stretches().map(|it| (it.first as u64, it.first as u64 + u64::from(it.n)));
        let Some((first, end)) = stretches.next() else { return self.shared.get_uniq64() };
        self.rest.set(stretches.next().unwrap_or_default());
        self.window.set(number);
        self.valid_until.set(window.valid_until());
        self.next.set(first + 1);
        self.end.set(end);
        Ok(first)
    }
}

impl PerThread {
    /// What is left of the block is a gap. It was counted when the block was cut.
    fn leave(&self) {
        let rest = self.rest.take();
        let left = self.end.get().saturating_sub(self.next.get()) + (rest.1 - rest.0);
        self.end.set(0);
        if left > 0
            && let Some(series) = &self.series
        {
            series.take_off(left);
        }
    }
}

impl Drop for PerThread {
    fn drop(&mut self) {
        self.leave();
    }
}

impl UniqGenerator for PerThread {
    #[inline]
    fn get_uniq64(&self) -> Result<u64, MintError> {
        if let Some(id) = self.taken() {
            return Ok(id);
        }
        self.cut()
    }

    fn get_uniq96(&self) -> Result<u128, MintError> {
        self.shared.get_uniq96()
    }

    #[inline(always)]
    fn get_number(&self) -> Result<u128, MintError> {
        self.shared.process.check()?;
        if let Some(ticks) = &self.ticks {
            let wall = self.shared.time.wall();
            if let Some(number) = ticks.narrow(wall) {
                return Ok(number.into());
            }
            if let Some(number) = ticks.wide_or_cut(wall, &self.shared.minter) {
                return Ok(number);
            }
        }
        self.shared.long_way_to_a_number()
    }

    fn get_batch_number(&self, n: u32, ids: &mut Vec<u128>) -> Result<(), MintError> {
        self.shared.get_batch_number(n, ids)
    }

    #[inline]
    fn get_segment(&self) -> Result<u64, MintError> {
        self.shared.process.check()?;
        match self.plain.as_ref().and_then(|block| block.take().or_else(|| block.cut(&self.shared))) {
            Some(number) => Ok(number),
            None => self.shared.get_segment(),
        }
    }

    fn get_batch_segment(&self, n: u32, ids: &mut Vec<u64>) -> Result<(), MintError> {
        self.shared.get_batch_segment(n, ids)
    }

    fn get_id(&self) -> Result<String, MintError> {
        self.shared.get_id()
    }

    fn get_batch_id(&self, n: u32, ids: &mut Vec<String>) -> Result<(), MintError> {
        self.shared.get_batch_id(n, ids)
    }

    fn get_uniq_string(&self, biz: &str, custom: &str) -> Result<String, MintError> {
        self.shared.get_uniq_string(biz, custom)
    }

    fn get_batch64(&self, n: u32, ids: &mut Vec<u64>) -> Result<(), MintError> {
        self.shared.get_batch64(n, ids)
    }

    fn get_batch_string(&self, n: u32, biz: &str, custom: &str, texts: &mut Vec<String>) -> Result<(), MintError> {
        self.shared.get_batch_string(n, biz, custom, texts)
    }
}
