//! IDs of short ticks. Their time is durable ahead of its use, and their serial begins anew in each tick.
//!
//! An axis is a place in time that IDs go on from: one for each layout whose names share their numbers, one for each name whose
//! scope is its own. All of them have one durable mark, in the header of the serial file: no tick begins at or after
//! it, so what goes on at the first tick that does repeats nothing, whatever was minted before. One write moves it for all.

use super::serials::Part;
use super::series::Series;
use super::{Effects, Engine, MARK_AHEAD, RESTART_WAIT_MAX, broken, complete, scaled};
use ids::layout::Ticks;
use ids::time::{SpanMs, WallMs};
use minting::gate::{Prefix, gate_ticks, unwritten};
use minting::refusal::Refusal;
use minting::run::{Run, Runs};
use minting::serial::Marks;
use minting::ticks::{Made, Reach, TakeTicks, TickPosition, TickWindow};
use std::sync::Arc;

/// The time that a request for numbers of a layout waits, in real time, for the clock to come near enough to the next tick.
pub const TICK_WAIT_MAX: SpanMs = SpanMs::seconds(2);

/// The result of the slow path to IDs.
#[derive(Debug)]
pub enum Refilled {
    /// IDs.
    Runs(Runs),
    /// The clock has to go on this far first.
    WaitFor(SpanMs),
    /// A segment has to come from the masters first. What was taken before comes back.
    Pending(Option<Part>),
}

/// The outcome of taking from an open window.
#[derive(Debug)]
pub enum TakenTicks {
    /// All that was asked for; `half_used`: it is time to [`extend_ticks`](Engine::extend_ticks).
    All {
        /// The IDs.
        run: Run,
        /// The end of the tick of the first one; from then on its time is old.
        over: WallMs,
        /// This was the first in the second half of the window.
        half_used: bool,
    },
    /// Nothing: its bound is reached, or the clock is too far behind.
    None,
    /// Nothing: it was closed. There may be a new one already.
    Closed,
}

/// `n` IDs of an open window.
#[inline]
pub fn take_ticks(window: &TickWindow, n: u32, wall: WallMs, reach: impl Into<Reach>) -> TakenTicks {
    match window.take(n, wall, reach) {
        // A window has no tick that does not fit.
        TakeTicks::All { start, half_used } => match window.numbers_of(start) {
            Some((numbers, serial)) => {
                let run = Run { prefix: Prefix::Number(numbers), start: serial, len: n };
                TakenTicks::All { run, over: window.over(start), half_used }
            }
            None => TakenTicks::None,
        },
        TakeTicks::Closed => TakenTicks::Closed,
        TakeTicks::None => TakenTicks::None,
    }
}

/// The place where the IDs of some names go on.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// The next place; while a window is open, where it began. Before the first one, the mark of the former run.
    pub(super) place: TickPosition,
    /// True if the clock has passed the mark of the former run, or was waited for long enough.
    pub(super) settled: bool,
    /// The right with which the window that is open was opened.
    open: Option<Right>,
}

/// The right that a window is opened with.
#[derive(Clone, Debug)]
struct Right {
    made: Made,
    ticks: Ticks,
    /// The end of the lease.
    until: WallMs,
}

impl Axis {
    pub(super) fn new(mark: WallMs) -> Self {
        Self { place: TickPosition { ms: mark, serial: 0 }, settled: false, open: None }
    }

    /// The first instant that no ID of it carries.
    pub(super) fn used_up_to(&self) -> WallMs {
        WallMs(self.place.ms.0.saturating_add(i64::from(self.place.serial > 0)))
    }
}

impl Engine {
    /// The axis that a name's IDs are on, which is that of others with the same layout; a new one if there is none.
    pub(super) fn axis_for(&mut self, series: &Series) -> Option<usize> {
        series.layout.by_ticks()?;
        let same = |other: &&Series| other.axis.is_some() && other.namespace.shares_ticks(&series.namespace);
        let shared = self.series.iter().find(same).and_then(|other| other.axis);
        Some(shared.unwrap_or_else(|| {
            self.axes.push(Axis::new(self.mark_at_start));
            self.axes.len() - 1
        }))
    }

    /// The axis of a series, if its IDs are on one.
    pub fn axis_of(&self, series: usize) -> Option<usize> {
        self.series.get(series)?.axis
    }

    pub(super) fn close_axes(&mut self, effects: &mut impl Effects) {
        for axis in 0..self.axes.len() {
            self.close_axis(effects, axis);
        }
    }

    fn close_axis(&mut self, effects: &mut impl Effects, at: usize) {
        let place = effects.close_ticks(at);
        if let Some(axis) = self.axes.get_mut(at) {
            axis.open = None;
            axis.place = place.unwrap_or(axis.place);
        }
    }

    /// Gives `n` IDs of a tick, at least 1, and opens a window up to the mark, which is moved if it is near. Several ticks may be used up for
    /// one request, as far ahead of the clock as the name may go.
    ///
    /// # Errors
    /// Any [`Refusal`]; then no ID was given. [`Refusal::BadParameter`] if `n` are more than one request can get.
    pub fn refill_ticks(&mut self, effects: &mut impl Effects, of: usize, n: u32) -> Result<Refilled, Refusal> {
        let series = self.series.get(of).ok_or_else(broken)?;
        let layout = series.layout.clone();
        let (definition, at) = layout.by_ticks().zip(series.axis).ok_or_else(broken)?;
        let token_type = series.namespace.token_type().ok_or_else(broken)?;
        if u64::from(n) > definition.batch_max() {
            return Err(Refusal::BadParameter(format!(
                "n: at most {} by this name at once: a token has {} IDs in a tick of {} ms, and they may lie {} ms ahead of the \
                 clock",
                definition.batch_max(),
                definition.layout().serials_per_tick(),
                definition.layout().unit().0,
                definition.ahead_max().0
            )));
        }
        let reach = Reach::from(&**definition);
        self.close_axis(effects, at);
        let (lease, offset) = self.lease(effects, token_type)?;
        let (wall, ticks, token) = (effects.wall(), definition.layout().ticks(offset), lease.key.value);
        if !definition.layout().admits(token) {
            return Err(unwritten(definition.layout(), offset, &lease));
        }
        let axis = self.axes.get_mut(at).ok_or_else(broken)?;
        let ahead = ticks.ceil(axis.place.ms) - wall;
        if !axis.settled && ahead > SpanMs(0) && ahead <= scaled(effects, RESTART_WAIT_MAX) {
            return Ok(Refilled::WaitFor(ahead));
        }
        axis.settled = true;
        // What is used up comes back soon, so who asks waits; by a calendar, which may go far ahead, they are refused.
        let waits = if ticks.spanning { scaled(effects, TICK_WAIT_MAX) } else { SpanMs(0) };
        let furthest = SpanMs(reach.ahead_max.0.saturating_add(waits.0));
        let ms = gate_ticks(&ticks, &lease, axis.place.ms, wall, furthest).map_err(|e| complete(effects, e))?;
        let tick = ticks.number(ms).unwrap_or_default();
        let place =
            if ms > axis.place.ms { TickPosition { ms, serial: reach.spread.first_serial(tick) } } else { axis.place };
        let last = ticks.last_of(place.ms, place.serial, n);
        let too_far = last - (wall + reach.ahead_max);
        if ticks.spanning && too_far > SpanMs(0) {
            return Ok(Refilled::WaitFor(too_far));
        }
        if place.ms < ticks.begin || last >= ticks.end {
            return Err(unwritten(definition.layout(), offset, &lease));
        }
        self.move_mark(effects, last, of)?;
        let made = Made { definition: Arc::clone(definition), token, random: Arc::clone(&self.random) };
        let until = lease.until;
        let window = self.window_on(at, Right { made, ticks, until }, place).ok_or_else(broken)?;
        let taken = take_ticks(&window, n, wall, reach);
        effects.open_ticks(at, window);
        match taken {
            TakenTicks::All { run, .. } => Ok(Refilled::Runs(run.into())),
            // The bound is the end of the lease, a tick away.
            _ => Err(Refusal::LeaseExpired { token_type, until, why: effects.why() }),
        }
    }

    /// Makes a later mark durable if less than half of the stretch is left, and with it the block of a name that has none. If
    /// that fails, what is left is used, but not without the block.
    fn move_mark(&mut self, effects: &mut impl Effects, last: WallMs, of: usize) -> Result<(), Refusal> {
        let stretch = scaled(effects, MARK_AHEAD);
        let left = self.contents.header.time_mark - last;
        let series = self.series.get(of).ok_or_else(broken)?;
        if !series.needs_block(&self.contents) {
            if left.0 > stretch.0 / 2 {
                return Ok(());
            }
            let moved = self.write_mark(effects, last + stretch);
            // One millisecond more than the one at hand, for one whose serials are used up.
            return if left > SpanMs(1) && !self.ended { Ok(()) } else { moved };
        }
        let marks = Marks { step: series.namespace.step(), ..Marks::default() };
        let mut contents = self.contents_with(effects, of, marks)?;
        contents.header.time_mark = contents.header.time_mark.max(last + stretch);
        self.write_contents(effects, contents)
    }

    /// A window from `place` on to the mark, or to the end of the lease.
    fn window_on(&mut self, at: usize, right: Right, place: TickPosition) -> Option<TickWindow> {
        let axis = self.axes.get_mut(at)?;
        let bound = self.contents.header.time_mark.min(right.until);
        let window = TickWindow::open(right.made.clone(), right.ticks, place, bound);
        (axis.place, axis.open) = (place, Some(right));
        Some(window)
    }

    /// Moves the mark while the window of an axis is half used, and lengthens the window.
    ///
    /// # Errors
    /// If it cannot be written; the window goes on to its end then.
    pub fn extend_ticks(&mut self, effects: &mut impl Effects, at: usize) -> Result<(), Refusal> {
        let Some(axis) = self.axes.get(at).filter(|axis| axis.open.is_some()) else { return Ok(()) };
        let now = effects.wall().max(axis.place.ms);
        self.write_mark(effects, now + scaled(effects, MARK_AHEAD))?;
        if let Some(right) = self.axes.get_mut(at).and_then(|axis| axis.open.take())
            && let Some(place) = effects.close_ticks(at)
            && let Some(window) = self.window_on(at, right, place)
        {
            effects.open_ticks(at, window);
        }
        Ok(())
    }
}
