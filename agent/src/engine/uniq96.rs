//! Uniq96: IDs whose millisecond is durable ahead of its use, and whose serial begins anew in each.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::{Effects, Engine, MARK_AHEAD, RESTART_WAIT_MAX, complete, scaled};
use crate::gate::{gate_uniq96, prefix_of_uniq96};
use crate::refusal::Refusal;
use crate::run::{Run, Runs};
use crate::uniq96::{Place, Take96, Window96};
use common::calendar::UtcOffset;
use common::kind::Kind;
use common::lease::Grant;
use common::time::{SpanMs, WallMs};

/// What came of the long way to Uniq96.
#[derive(Debug)]
pub enum Refilled {
    /// IDs.
    Runs(Runs),
    /// The clock has to go on this far first.
    WaitFor(SpanMs),
}

/// What an open window of Uniq96 gave.
#[derive(Debug)]
pub enum Taken96 {
    /// All that was asked for; `half_used`: it is time to [`extend_uniq96`](Engine::extend_uniq96).
    All {
        /// The IDs.
        run: Run,
        /// This was the first in the second half of the window.
        half_used: bool,
    },
    /// Nothing: its bound is reached, or the clock is too far behind.
    None,
    /// Nothing: it was closed. There may be a new one already.
    Closed,
}

/// `n` Uniq96 of an open window, all of one millisecond.
///
/// # Errors
/// If the year does not fit.
pub fn take_uniq96(window: &Window96, n: u32, wall: WallMs) -> Result<Taken96, Refusal> {
    Ok(match (window.take(n, wall), &window.lease) {
        (Take96::All { place, half_used }, Some(lease)) => {
            let prefix = prefix_of_uniq96(window.offset, lease, place.ms)?;
            Taken96::All { run: Run { prefix, start: u64::from(place.serial), len: n }, half_used }
        }
        (Take96::Closed, _) => Taken96::Closed,
        _ => Taken96::None,
    })
}

impl Engine {
    pub(super) fn close_uniq96(&mut self, effects: &mut impl Effects) {
        self.axis.open = None;
        if let Some(place) = effects.close_uniq96() {
            self.axis.place = place;
        }
    }

    /// Gives `n` Uniq96, at least 1, and opens a window up to the mark, which is moved if it is near.
    ///
    /// # Errors
    /// Any [`Refusal`]; then no ID was given.
    pub fn refill_uniq96(&mut self, effects: &mut impl Effects, n: u32) -> Result<Refilled, Refusal> {
        self.close_uniq96(effects);
        let token_type = Kind::Uniq96.default_token_type();
        let (lease, offset) = self.lease(effects, token_type)?;
        let (wall, last) = (effects.wall(), self.axis.place);
        let ahead = last.ms - wall;
        if !self.axis.settled && ahead > SpanMs(0) && ahead <= scaled(effects, RESTART_WAIT_MAX) {
            return Ok(Refilled::WaitFor(ahead));
        }
        self.axis.settled = true;
        let ms = gate_uniq96(&lease, last.ms, wall).map_err(|e| complete(effects, e))?;
        let place = if ms > last.ms { Place { ms, serial: 0 } } else { last };
        self.move_mark96(effects, ms)?;
        let until = lease.until;
        let window = self.window96(lease, offset, place);
        let taken = take_uniq96(&window, n, wall)?;
        effects.open_uniq96(window);
        match taken {
            Taken96::All { run, .. } => Ok(Refilled::Runs(run.into())),
            // The bound is the end of the lease, a millisecond away.
            _ => Err(Refusal::LeaseExpired { token_type, until, why: effects.why() }),
        }
    }

    /// Makes a later mark durable if less than half of the stretch is left. If that fails, what is left is used.
    fn move_mark96(&mut self, effects: &mut impl Effects, ms: WallMs) -> Result<(), Refusal> {
        let stretch = scaled(effects, MARK_AHEAD);
        let left = self.contents.header.uniq96_mark - ms;
        if left.0 > stretch.0 / 2 {
            return Ok(());
        }
        let moved = self.write_mark96(effects, ms + stretch);
        // One millisecond more than the one at hand, for one whose serials are used up.
        if left > SpanMs(1) && !self.ended { Ok(()) } else { moved }
    }

    /// A window from `place` on to the mark, or to the end of the lease.
    fn window96(&mut self, lease: Grant, offset: UtcOffset, place: Place) -> Window96 {
        let bound = self.contents.header.uniq96_mark.min(lease.until);
        self.axis.place = place;
        self.axis.open = Some((lease.clone(), offset));
        Window96::open(lease, offset, place, bound)
    }

    /// Moves the mark while the window is half used, and lengthens the window.
    ///
    /// # Errors
    /// If it cannot be written; the window goes on to its end then.
    pub fn extend_uniq96(&mut self, effects: &mut impl Effects) -> Result<(), Refusal> {
        if self.axis.open.is_none() {
            return Ok(());
        }
        let now = effects.wall().max(self.axis.place.ms);
        self.write_mark96(effects, now + scaled(effects, MARK_AHEAD))?;
        if let Some((lease, offset)) = self.axis.open.take()
            && let Some(place) = effects.close_uniq96()
        {
            let window = self.window96(lease, offset, place);
            effects.open_uniq96(window);
        }
        Ok(())
    }
}
