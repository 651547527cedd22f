//! The one way on which IDs leave a series: from an open window if it holds what is asked for, otherwise by the engine. What leaves
//! is counted here, whoever asked and however they wait: [`Minter::try_one`], [`Minter::mint_by`], [`Minter::mint_by_blocking`].
//! Only the blocks of an application's threads ([`crate::embed`]) give IDs without coming here; they are counted when they are cut
//! ([`super::count`]).

use super::driver::Turn;
use super::segments::LOOK;
use super::{Driver, Generator, Minter, PATIENCE, SegmentOutcome, SerialSeries, Series, TickSeries, Wanted};
use crate::plugin::{AccountHolder, By, Caller};
use crate::refusal::Refusal;
use crate::run::{Run, Runs};
use crate::window::One;
use common::time::SpanMs;
use engine::{Part, RESTART_WAIT_MAX, Refilled, TakenSerials, TakenTicks, broken, take, take_ticks};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The number of times that the fast path looks again while another thread replaces a window.
const SPINS: u32 = 64;

/// The IDs that the open window had.
enum Fast {
    All(Run),
    /// The window is used up now, and this was not enough.
    Some(Part),
    None,
}

/// The account of a caller; `None`: the application of this process.
fn account_of(caller: Caller<'_>) -> Option<AccountHolder> {
    (!matches!(caller, Caller::Label(_))).then(|| AccountHolder::of(By::Caller, caller))
}

impl Minter {
    /// One ID if nothing stands around minting by that name and an open window has it; `None` where `give` has to
    /// wait, to ask or to refuse. What that gives is the same; being a task costs it more than the ID does.
    #[inline]
    pub fn try_one(self: &Arc<Self>, generator: &Arc<Generator>) -> Option<Run> {
        if !generator.is_alone() || generator.has_ended() {
            return None;
        }
        match &generator.series {
            Series::Serials(series) => {
                let run = self.try_one_serial(series)?;
                if generator.has_ended() {
                    series.take_off(1);
                    return None;
                }
                Some(run)
            }
            Series::Ticks(series) => self.try_take_ticks(generator, series, 1).ok()?,
        }
    }

    #[inline]
    fn try_one_serial(self: &Arc<Self>, series: &Arc<SerialSeries>) -> Option<Run> {
        let window = series.window.load();
        // Who asks is looked at on the way on which others wait.
        if window.is_shared() {
            return None;
        }
        let One { serial, half_used } = window.take_one(self.time.wall_coarse())?;
        if half_used {
            self.reserve_soon(series);
        }
        Some(Run { prefix: window.prefix.clone(), start: serial, len: 1 })
    }

    /// Gives `n` IDs, at least 1, asking nobody: [`give`](Self::give) has asked. A caller of another process has a share of the last IDs of an
    /// hour, day or tick.
    pub(super) async fn mint_by(
        self: &Arc<Self>,
        generator: &Arc<Generator>,
        n: u32,
        caller: Caller<'_>,
    ) -> Result<Runs, Refusal> {
        let mut uncounted = account_of(caller);
        let part = match self.try_take(&mut uncounted, generator, n)? {
            Fast::All(run) => return Ok(run.into()),
            Fast::Some(part) => Some(part),
            Fast::None => None,
        };
        // Most calls never come here; those should not carry the room that waiting takes.
        Box::pin(self.mint_waiting(caller, uncounted, generator, (part, n))).await
    }

    async fn mint_waiting(
        self: &Arc<Self>,
        caller: Caller<'_>,
        mut uncounted: Option<AccountHolder>,
        generator: &Arc<Generator>,
        (mut part, n): (Option<Part>, u32),
    ) -> Result<Runs, Refusal> {
        let holder = account_of(caller);
        let (mut waited, mut waits) = (Duration::ZERO, None);
        let serials = generator.series.serials();
        loop {
            serials.into_iter().for_each(|series| self.segments.is_due(series));
            let turn = self.queue_up(holder, generator.namespace().token_type()).await?;
            if part.is_none() {
                // Whoever was before us may have opened a window.
                match self.try_take(&mut uncounted, generator, n)? {
                    Fast::All(run) => return Ok(run.into()),
                    Fast::Some(rest) => part = Some(rest),
                    Fast::None => {}
                }
            }
            // First, so that no change is missed.
            let fetching = serials.and_then(|series| series.fetching.as_ref());
            let changed = fetching.map(|fetching| fetching.changed.notified());
            // Where callers are counted it is the end of this, whatever comes of it.
            match self.refill_on_a_thread(turn, uncounted.take(), generator, part.take(), n).await? {
                Refilled::Runs(runs) => return Ok(runs),
                Refilled::WaitFor(span) => tokio::time::sleep(self.wait(generator, span, &mut waited)?).await,
                Refilled::Pending(rest) => {
                    part = rest;
                    let (Some(series), Some(changed)) = (serials, changed) else { return Err(broken()) };
                    let call = waits.take().map_or_else(|| self.segments.waits(holder), Ok)?;
                    // Whichever of both it was is looked at again.
                    let _ = tokio::time::timeout(series.segment_left(&call)?, changed).await;
                    waits = Some(call);
                }
            }
        }
    }

    /// The same for this process, waiting on this thread; not for tasks.
    pub(super) fn mint_by_blocking(self: &Arc<Self>, generator: &Arc<Generator>, n: u32) -> Result<Runs, Refusal> {
        let (mut waited, mut waits, mut kept) = (Duration::ZERO, None, None);
        let serials = generator.series.serials();
        loop {
            let part = match kept.take() {
                Some(part) => Some(part),
                None => match self.try_take(&mut None, generator, n)? {
                    Fast::All(run) => return Ok(run.into()),
                    Fast::Some(part) => Some(part),
                    Fast::None => {
                        if let Some(token_type) = generator.namespace().token_type() {
                            self.grants.settle_blocking(token_type, &self.time);
                        }
                        None
                    }
                },
            };
            serials.into_iter().for_each(|series| self.segments.is_due(series));
            match self.refill(None, generator, part, n)? {
                Refilled::Runs(runs) => return Ok(runs),
                Refilled::WaitFor(span) => std::thread::sleep(self.wait(generator, span, &mut waited)?),
                Refilled::Pending(rest) => {
                    kept = rest;
                    let series = serials.ok_or_else(broken)?;
                    let call = waits.take().map_or_else(|| self.segments.waits(None), Ok)?;
                    std::thread::sleep(series.segment_left(&call)?.min(LOOK));
                    waits = Some(call);
                }
            }
        }
    }

    /// The time to wait until it is worth trying again.
    ///
    /// # Errors
    /// If that, and what was `waited` before, is longer than a caller waits: [`Refusal::ClockBehind`], or
    /// [`Refusal::SerialExhausted`] where others take what ticks of a layout have.
    fn wait(&self, generator: &Generator, span: SpanMs, waited: &mut Duration) -> Result<Duration, Refusal> {
        let wait = self.time.clock().real(span.to_std()) + Duration::from_millis(1);
        if *waited + wait > RESTART_WAIT_MAX.to_std() + PATIENCE {
            let namespace = generator.namespace();
            return Err(if namespace.segments().is_some() {
                let why =
                    format!("this session was resumed, and a master has to know of it first: {}", self.grants.why());
                Refusal::SegmentPending { why }
            } else if namespace.layout().is_some() {
                let (unit, capacity) = (namespace.kind().spec().unit.name(), namespace.capacity());
                Refusal::SerialExhausted { unit, capacity, left: 0, retry: span }
            } else {
                Refusal::ClockBehind { behind: span, retry: span }
            });
        }
        *waited += wait;
        Ok(wait)
    }

    #[inline]
    fn try_take(
        self: &Arc<Self>,
        uncounted: &mut Option<AccountHolder>,
        generator: &Arc<Generator>,
        n: u32,
    ) -> Result<Fast, Refusal> {
        if generator.has_ended() {
            return Err(self.names.why_ended(generator));
        }
        match &generator.series {
            Series::Serials(series) => {
                let taken = self.try_take_serials(uncounted, series, n)?;
                // Looked at again after it was taken: the window may be one of the others that share the series.
                if generator.has_ended() {
                    if let Fast::All(run) = &taken {
                        series.take_off(run.len.into());
                    }
                    return Err(self.names.why_ended(generator));
                }
                Ok(taken)
            }
            Series::Ticks(series) => Ok(self.try_take_ticks(generator, series, n)?.map_or(Fast::None, Fast::All)),
        }
    }

    #[inline]
    fn try_take_serials(
        self: &Arc<Self>,
        uncounted: &mut Option<AccountHolder>,
        series: &Arc<SerialSeries>,
        n: u32,
    ) -> Result<Fast, Refusal> {
        for _ in 0..SPINS {
            let window = series.window.load();
            // A part of numbers that come in segments has nowhere to go if all of them are refused and others took some above it.
            if series.is_segment() && window.left() < n.into() {
                return Ok(Fast::None);
            }
            if uncounted.is_some()
                && let Some(left) = window.left_to_share()
                && window.valid_until() > self.time.wall_coarse()
            {
                self.count_share(uncounted, series, (window.bucket, left), n)?;
            }
            match take(&window, n, self.time.wall_coarse()) {
                TakenSerials::All { run, half_used } => {
                    if half_used {
                        self.reserve_soon(series);
                    }
                    return Ok(Fast::All(run));
                }
                TakenSerials::Some(part) => {
                    // The request that wants more is not answered yet.
                    series.take_off(part.len());
                    return Ok(Fast::Some(part));
                }
                TakenSerials::None => return Ok(Fast::None),
                TakenSerials::Closed => std::hint::spin_loop(),
            }
        }
        Ok(Fast::None)
    }

    /// Counts a call, once, into what its caller may have of the IDs that are left in the bucket.
    #[cold]
    fn count_share(
        &self,
        uncounted: &mut Option<AccountHolder>,
        series: &SerialSeries,
        (bucket, left): (u32, u64),
        n: u32,
    ) -> Result<(), Refusal> {
        let Some(caller) = uncounted.take() else { return Ok(()) };
        if self.calls.take_share((series.id, bucket), &caller, n, left) {
            return Ok(());
        }
        let offset = self.grants.utc_offset();
        let retry = series.layout.end(offset, bucket) - self.time.wall();
        Err(Refusal::ShareUsedUp { unit: series.layout.unit().name(), retry })
    }

    /// Out of line: within the loops that give one serial after another its code costs them a tenth.
    #[inline(never)]
    fn try_take_ticks(
        self: &Arc<Self>,
        generator: &Generator,
        series: &Arc<TickSeries>,
        n: u32,
    ) -> Result<Option<Run>, Refusal> {
        if !series.has_begun() {
            return Ok(None);
        }
        for _ in 0..SPINS {
            let window = series.window().load();
            match take_ticks(&window, n, self.time.wall(), series.reach()) {
                TakenTicks::All { run, half_used, .. } => {
                    if half_used {
                        self.extend_soon(series);
                    }
                    // The window is not this name's alone, so nobody has closed it when the name ended. What was taken is a gap then.
                    if generator.has_ended() {
                        return Ok(None);
                    }
                    series.count(n);
                    return Ok(Some(run));
                }
                TakenTicks::Closed => std::hint::spin_loop(),
                TakenTicks::None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Moves the mark and lengthens the window of that axis, in the background.
    #[cold]
    pub(crate) fn extend_soon(self: &Arc<Self>, series: &TickSeries) {
        let (minter, axis) = (Arc::clone(self), series.axis);
        self.driver.in_background(move || minter.extend_ticks(axis));
    }

    /// Makes the next step of serials durable, in the background.
    #[cold]
    pub(crate) fn reserve_soon(self: &Arc<Self>, series: &Arc<SerialSeries>) {
        if series.is_segment() {
            self.segments.is_due(series);
            return self.tend_soon();
        }
        let (minter, series) = (Arc::clone(self), Arc::clone(series));
        self.driver.in_background(move || minter.reserve(&series));
    }

    /// Takes the outcome of a call for a segment, or of one round of such calls.
    pub(crate) fn heard(self: &Arc<Self>, wanted: &Wanted, answer: SegmentOutcome) {
        self.segments.note(wanted, answer);
        self.tend_soon();
    }

    /// Does what is due for segments, in the background.
    fn tend_soon(self: &Arc<Self>) {
        if self.segments.begin() {
            let minter = Arc::clone(self);
            self.driver.in_background(move || minter.tend());
        }
    }

    fn tend(&self) {
        let done = self.decide(|engine, hands| {
            // First: what is noted from now on is done by somebody else.
            self.segments.begun();
            Ok(self.segments.do_what_is_due(engine, hands))
        });
        match done {
            Ok(series) => self.names.generators().tell_of(series),
            Err(refusal) => {
                self.segments.begun();
                tracing::debug!(%refusal, "segments are not tended any more");
            }
        }
    }

    async fn refill_on_a_thread(
        self: &Arc<Self>,
        turn: Turn,
        uncounted: Option<AccountHolder>,
        generator: &Arc<Generator>,
        part: Option<Part>,
        n: u32,
    ) -> Result<Refilled, Refusal> {
        let (minter, generator) = (Arc::clone(self), Arc::clone(generator));
        Driver::on_a_thread(turn, move || minter.refill(uncounted, &generator, part, n)).await?
    }

    /// The engine's way, unless no more IDs leave by this generator's name.
    fn refill(
        &self,
        mut uncounted: Option<AccountHolder>,
        generator: &Generator,
        part: Option<Part>,
        n: u32,
    ) -> Result<Refilled, Refusal> {
        let mut answered = BTreeSet::new();
        let refilled = self.decide(|engine, hands| match &generator.series {
            _ if generator.has_ended() => Err(self.names.why_ended(generator)),
            Series::Serials(series) if series.is_segment() => {
                let part = engine.give_back(hands, series.id, part);
                answered = self.segments.do_what_is_due(engine, hands);
                engine.refill_segment(hands, series.id, part, n)
            }
            Series::Serials(series) => {
                if uncounted.is_some()
                    && let Some(left) =
                        engine.left_to_share(series.id, self.time.wall(), series.window.load().left(), n)?
                {
                    self.count_share(&mut uncounted, series, left, n)
                        .inspect_err(|_| engine.keep_part(series.id, part.clone()))?;
                }
                let refilled = engine.refill(hands, series.id, part, n).map(Refilled::Runs);
                if let Err(Refusal::SerialExhausted { retry, .. }) = &refilled {
                    let left = engine.serial_view(series.id, self.time.wall(), series.window.load().left());
                    if left.is_ok_and(|view| view.capacity_left == 0) {
                        series.exhausted_until.store((self.time.wall() + *retry).0, Ordering::Relaxed);
                    }
                }
                refilled
            }
            Series::Ticks(series) => engine.refill_ticks(hands, series.id, n),
        });
        self.names.generators().tell_of(answered);
        let refilled = refilled?;
        if let Refilled::Runs(_) = &refilled {
            match &generator.series {
                Series::Serials(series) => series.tally.add(n.into()),
                Series::Ticks(series) => {
                    series.begin();
                    series.count(n);
                }
            }
        }
        Ok(refilled)
    }

    /// Makes the next step durable while the window is half full, and lengthens the window by it. If that fails, the
    /// window goes on to its end. No turn is needed: nobody waits for this, and the lock keeps it apart from the slow path.
    pub(super) fn reserve(&self, series: &SerialSeries) {
        if let Err(refusal) = self.decide(|engine, hands| engine.reserve(hands, series.id)) {
            tracing::debug!(%refusal, series = series.id, "no serials were reserved");
        }
    }

    /// The same for the ticks of an axis.
    fn extend_ticks(&self, axis: usize) {
        if let Err(refusal) = self.decide(|engine, hands| engine.extend_ticks(hands, axis)) {
            tracing::debug!(%refusal, "the time mark was not moved");
        }
    }
}

#[cfg(test)]
#[path = "capacity_tests.rs"]
mod tests;
