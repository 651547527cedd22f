//! The slow path: gates, durable bounds, a new window. In this order.

use super::state::State;
use super::{Generator, MARK_AHEAD, Minter, Part, RESTART_WAIT_MAX, broken};
use crate::gate::{Bucket, Prefix, gate_uniq96, prefix_of_uniq96};
use crate::refusal::Refusal;
use crate::run::{Run, Runs};
use crate::serial::Plan;
use crate::uniq96::{Place, Take96, Window96};
use crate::window::Window;
use common::calendar::UtcOffset;
use common::lease::Grant;
use common::time::{SpanMs, WallMs};
use common::token::TokenType;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What came of the slow path of Uniq96.
pub(super) enum Refilled {
    /// IDs.
    Run(Run),
    /// The clock has to go on this far first.
    WaitFor(SpanMs),
}

impl Minter {
    /// Gives `n` IDs, of which `part` were taken before, and opens a window with what is there beyond them.
    pub(super) fn refill(&self, generator: &Generator, part: Option<Part>, n: u32) -> Result<Runs, Refusal> {
        let mut state = self.lock()?;
        if generator.ended.load(Ordering::Acquire) {
            let name = generator.namespace.name();
            return Err(self.generators.ended(name.as_str()).unwrap_or_else(broken));
        }
        state.take_back(generator)?;
        let serial = state.serial(generator)?;
        // Given back first, so that a refusal costs nothing. If others were taken above them, they are ours to use.
        let part = part.filter(|part| !serial.put_back(part.bucket, part.serials.clone()));
        let last = serial.bucket();
        let (lease, offset) = self.lease(generator.namespace.token_type())?;
        let bucket = generator.layout.gate(offset, &lease, last, self.wall()).map_err(|e| self.complete(e))?;
        let prefix = generator.layout.prefix(offset, &lease, &bucket)?;
        let mut missing = n;
        if let Some(Part { serials, .. }) = &part {
            missing -= u32::try_from(serials.end - serials.start).unwrap_or(n).min(n);
        }
        let taken = self.take_durably(&mut state, generator, &bucket, missing);
        self.open_rest(&mut state, generator, &bucket, &prefix)?;
        let taken = match taken {
            Ok(taken) => taken,
            Err(refusal) => {
                if let Some(part) = part {
                    state.keep_spare(generator, part.bucket, part.serials);
                }
                let spare = match &refusal {
                    Refusal::SerialExhausted { .. } => state.take_spare(generator, bucket.number(), n),
                    _ => None,
                };
                // Of this bucket, and given to nobody under any token.
                let start = spare.ok_or(refusal)?;
                generator.count(n);
                return Ok(Run { prefix, start, len: n }.into());
            }
        };
        let mut runs = Runs::default();
        if let Some(Part { prefix, serials, .. }) = part {
            runs.push(Run { prefix, start: serials.start, len: n - missing });
        }
        runs.push(Run { prefix, start: taken.start, len: missing });
        generator.count(n);
        Ok(runs)
    }

    /// `n` serials of the bucket, durable.
    fn take_durably(
        &self,
        state: &mut State,
        generator: &Generator,
        bucket: &Bucket,
        n: u32,
    ) -> Result<Range<u64>, Refusal> {
        match state.serial(generator)?.plan(bucket.number(), n, self.real_boot()) {
            Plan::Ready => {}
            Plan::Write(marks) => self.write_marks(state, generator, marks)?,
            Plan::Exhausted => {
                let capacity = generator.layout.rules(false).capacity;
                let retry = bucket.end() - self.wall();
                return Err(Refusal::SerialExhausted { unit: generator.layout.unit().name(), capacity, retry });
            }
        }
        Ok(state.serial(generator)?.take(n))
    }

    /// Opens a window with all that is there of the bucket, if the bucket is durable and the file still ours.
    fn open_rest(
        &self,
        state: &mut State,
        generator: &Generator,
        bucket: &Bucket,
        prefix: &Prefix,
    ) -> Result<(), Refusal> {
        let ended = state.ended;
        let serial = state.serial(generator)?;
        if serial.bucket() == bucket.number() && !ended {
            let window = Window::open(prefix.clone(), bucket.number(), serial.lend(), bucket.valid_until());
            generator.window.store(Arc::new(window));
        }
        Ok(())
    }

    /// Makes the next step durable while the window is half full, and lengthens the window by it. If that fails, the
    /// window goes on to its end.
    pub(super) fn reserve(&self, generator: &Generator) {
        // No turn is needed: nobody waits for this, and the lock keeps it apart from the slow path.
        if let Err(refusal) = self.try_reserve(generator) {
            tracing::debug!(%refusal, generator = %generator.namespace.name(), "no serials were reserved");
        }
    }

    fn try_reserve(&self, generator: &Generator) -> Result<(), Refusal> {
        let mut state = self.lock()?;
        if generator.window.load().is_closed() {
            return Ok(());
        }
        let Some(marks) = state.serial(generator)?.plan_reserve(self.real_boot()) else { return Ok(()) };
        self.write_marks(&mut state, generator, marks)?;
        let window = generator.window.load_full();
        let serial = state.serial(generator)?;
        if serial.put_back(window.bucket, generator.close(&window)) {
            let longer = window.with_serials(serial.lend());
            generator.window.store(Arc::new(longer));
        }
        Ok(())
    }

    /// Closes every window. What is left in them is taken back.
    pub(super) fn close_all(&self, state: &mut State) {
        for generator in self.generators.iter() {
            // Only a generator that is not ours has no serial.
            let _ = state.take_back(generator);
        }
        self.close_uniq96(state);
    }

    fn close_uniq96(&self, state: &mut State) {
        if let Some(place) = self.uniq96.load().close() {
            state.place96 = place;
        }
    }

    /// Gives `n` Uniq96 and opens a window up to the mark, which is moved if it is near.
    pub(super) fn refill_uniq96(&self, n: u32) -> Result<Refilled, Refusal> {
        let mut state = self.lock()?;
        self.close_uniq96(&mut state);
        let (lease, offset) = self.lease(TokenType::Uint2)?;
        let (wall, last) = (self.wall(), state.place96);
        let ahead = last.ms - wall;
        if !state.settled96 && ahead > SpanMs(0) && ahead <= self.scaled(RESTART_WAIT_MAX) {
            return Ok(Refilled::WaitFor(ahead));
        }
        state.settled96 = true;
        let ms = gate_uniq96(&lease, last.ms, wall).map_err(|e| self.complete(e))?;
        let place = if ms > last.ms { Place { ms, serial: 0 } } else { last };
        self.move_mark96(&mut state, ms)?;
        self.open_uniq96(&mut state, lease, offset, place);
        let window = self.uniq96.load();
        match (window.take(n, wall), &window.lease) {
            (Take96::All { place, .. }, Some(lease)) => {
                let prefix = prefix_of_uniq96(offset, lease, place.ms)?;
                Ok(Refilled::Run(Run { prefix, start: u64::from(place.serial), len: n }))
            }
            // The bound is the end of the lease, a millisecond away.
            _ => Err(self.expired(&window)),
        }
    }

    /// Makes a later mark durable if less than half of the stretch is left. If that fails, what is left is used.
    fn move_mark96(&self, state: &mut State, ms: WallMs) -> Result<(), Refusal> {
        let stretch = self.scaled(MARK_AHEAD);
        let left = state.contents.header.uniq96_mark - ms;
        if left.0 > stretch.0 / 2 {
            return Ok(());
        }
        let moved = self.write_mark96(state, ms + stretch);
        // One millisecond more than the one at hand, for one whose serials are used up.
        if left > SpanMs(1) { Ok(()) } else { moved }
    }

    fn open_uniq96(&self, state: &mut State, lease: Grant, offset: UtcOffset, place: Place) {
        let bound = state.contents.header.uniq96_mark.min(lease.until);
        state.place96 = place;
        self.uniq96.store(Arc::new(Window96::open(lease, offset, place, bound)));
    }

    fn expired(&self, window: &Window96) -> Refusal {
        let until = window.lease.as_ref().map_or(WallMs(0), |lease| lease.until);
        Refusal::LeaseExpired { token_type: TokenType::Uint2, until, why: self.why() }
    }

    /// Moves the mark while the window is half used, and lengthens the window. If that fails, the window goes on to its
    /// end.
    pub(super) fn extend_uniq96(&self) {
        if let Err(refusal) = self.try_extend_uniq96() {
            tracing::debug!(%refusal, "the Uniq96 mark was not moved");
        }
    }

    fn try_extend_uniq96(&self) -> Result<(), Refusal> {
        let mut state = self.lock()?;
        let window = self.uniq96.load_full();
        let Some(lease) = window.lease.clone().filter(|_| !window.is_closed()) else { return Ok(()) };
        let now = self.wall().max(state.place96.ms);
        self.write_mark96(&mut state, now + self.scaled(MARK_AHEAD))?;
        if let Some(place) = window.close() {
            self.open_uniq96(&mut state, lease, window.offset, place);
        }
        Ok(())
    }
}
