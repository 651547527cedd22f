//! The one way on which IDs leave: from an open window if it holds what is asked for, otherwise by the engine. What leaves
//! is counted here, whoever asked and however they wait: [`Minter::try_mint`], [`Minter::mint`], [`Minter::mint_blocking`].
//! Only the windows that a thread of an application knows by itself ([`crate::embed`]) give IDs without coming here; they
//! count by themselves ([`super::count`]).

use super::segments::LOOK;
use super::{AxisWindow, Generator, Minter, PATIENCE, Turn};
use crate::engine::{Part, RESTART_WAIT_MAX, Refilled, Taken, TakenTicks, UNIQ96_AXIS, broken, take, take_ticks};
use crate::gate::UNIQ96_AHEAD_MAX;
use crate::plugin::{By, Caller, Holder};
use crate::refusal::Refusal;
use crate::run::{Run, Runs};
use crate::ticks::Reach;
use crate::window::One;
use common::kind::Kind;
use common::namespace::Namespace;
use common::time::SpanMs;
use common::token::TokenType;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How often the fast path looks again while another thread replaces a window.
const SPINS: u32 = 64;

/// Where IDs come from. It is to [`SourceRef`] what an `Option<T>` is to an `Option<&T>`.
#[derive(Clone, Copy, Debug)]
pub enum Source<G = Arc<Generator>> {
    /// The serials of a named generator.
    Serials(G),
    /// The ticks of a named generator of kind layout.
    Ticks(G),
    /// The milliseconds of Uniq96, which has no names.
    Uniq96,
    /// A named generator with plugins before it: only `mint_for` gives IDs of it.
    Plugged(G),
}

/// A [`Source`] that is looked at.
pub type SourceRef<'a> = Source<&'a Arc<Generator>>;

impl Source {
    /// The same, looked at.
    #[inline]
    pub fn as_ref(&self) -> SourceRef<'_> {
        match self {
            Self::Serials(generator) => Source::Serials(generator),
            Self::Ticks(generator) => Source::Ticks(generator),
            Self::Uniq96 => Source::Uniq96,
            Self::Plugged(generator) => Source::Plugged(generator),
        }
    }
}

impl<'a> SourceRef<'a> {
    /// The same, to be kept.
    pub fn cloned(self) -> Source {
        match self {
            Self::Serials(generator) => Source::Serials(Arc::clone(generator)),
            Self::Ticks(generator) => Source::Ticks(Arc::clone(generator)),
            Self::Uniq96 => Source::Uniq96,
            Self::Plugged(generator) => Source::Plugged(Arc::clone(generator)),
        }
    }

    /// How it was defined, if it has a definition.
    pub fn namespace(self) -> Option<&'a Namespace> {
        match self {
            Self::Serials(generator) | Self::Ticks(generator) | Self::Plugged(generator) => Some(generator.namespace()),
            Self::Uniq96 => None,
        }
    }

    /// The named generator, if it is one.
    pub(super) fn generator(self) -> Option<&'a Arc<Generator>> {
        match self {
            Self::Serials(generator) | Self::Ticks(generator) | Self::Plugged(generator) => Some(generator),
            Self::Uniq96 => None,
        }
    }

    /// The type of token that it takes; `None`: it takes a range of numbers.
    fn token_type(self) -> Option<TokenType> {
        self.namespace().map_or_else(|| Kind::Uniq96.default_token_type(), Namespace::token_type)
    }
}

impl<'a> From<&'a Arc<Generator>> for SourceRef<'a> {
    fn from(generator: &'a Arc<Generator>) -> Self {
        if generator.is_plugged() {
            return Self::Plugged(generator);
        }
        if generator.axis.is_some() { Self::Ticks(generator) } else { Self::Serials(generator) }
    }
}

/// Who asks a name with plugins without asking them gets nothing.
#[cold]
fn not_so() -> Refusal {
    Refusal::Overloaded("this name has plugins, and was asked without them")
}

/// What the open window had.
enum Fast {
    All(Run),
    /// It is used up now, and this was not enough.
    Some(Part),
    None,
}

impl Minter {
    /// Where IDs of that kind and name come from.
    ///
    /// # Errors
    /// As [`generator`](Self::generator).
    pub fn source(&self, kind: Kind, name: &str) -> Result<SourceRef<'_>, Refusal> {
        match kind {
            Kind::Uniq96 => Ok(Source::Uniq96),
            _ => self.generator(kind, name).map(SourceRef::from),
        }
    }

    /// One ID if an open window has it; `None` where [`mint`](Self::mint) has to wait or to refuse. What `mint` gives is the
    /// same; being a task costs it more than the ID does.
    #[inline]
    pub fn try_mint(self: &Arc<Self>, from: SourceRef<'_>) -> Option<Run> {
        match from {
            Source::Serials(generator) => self.try_mint_serial(generator),
            Source::Ticks(_) | Source::Uniq96 | Source::Plugged(_) => self.try_mint_tick(from),
        }
    }

    /// [`try_mint`](Self::try_mint) of an ID of a tick; out of line, as what it calls.
    #[inline(never)]
    fn try_mint_tick(self: &Arc<Self>, from: SourceRef<'_>) -> Option<Run> {
        match from {
            Source::Serials(_) | Source::Plugged(_) => None,
            Source::Ticks(generator) => self.try_take_layout(generator, 1).ok()?,
            Source::Uniq96 => self.try_take_uniq96(1).ok()?,
        }
    }

    #[inline]
    fn try_mint_serial(self: &Arc<Self>, generator: &Arc<Generator>) -> Option<Run> {
        let window = generator.window.load();
        // Who asks is looked at on the way on which others wait.
        if window.is_shared() {
            return None;
        }
        let One { serial, half_used } = window.take_one(self.wall_coarse())?;
        if half_used {
            self.reserve_soon(generator);
        }
        Some(Run { prefix: window.prefix.clone(), start: serial, len: 1 })
    }

    /// `n` IDs, at least 1; Uniq96 are all of one millisecond.
    ///
    /// # Errors
    /// Any [`Refusal`]; then no ID was given. Serials that the window still had, fewer than were asked for, may be a gap:
    /// if nobody else took serials meanwhile they are given back, but not by a request that found no place in the queue or
    /// waited too long. A gap lowers what is left of the hour or day; it repeats nothing.
    pub async fn mint(self: &Arc<Self>, from: SourceRef<'_>, n: u32) -> Result<Runs, Refusal> {
        self.mint_by(None, from, n).await
    }

    /// The same for a caller of another process, who has a share of the last IDs of an hour or day.
    ///
    /// # Errors
    /// As [`mint`](Self::mint); [`Refusal::ShareUsedUp`].
    pub(crate) async fn mint_by(
        self: &Arc<Self>,
        caller: Option<Caller<'_>>,
        from: SourceRef<'_>,
        n: u32,
    ) -> Result<Runs, Refusal> {
        let mut uncounted = caller.map(|caller| Holder::of(By::Caller, caller));
        let part = match self.try_take(&mut uncounted, from, n)? {
            Fast::All(run) => return Ok(run.into()),
            Fast::Some(part) => Some(part),
            Fast::None => None,
        };
        // Most calls never come here; those should not carry the room that waiting takes.
        Box::pin(self.mint_waiting(uncounted, from, part, n)).await
    }

    async fn mint_waiting(
        self: &Arc<Self>,
        mut uncounted: Option<Holder>,
        from: SourceRef<'_>,
        mut part: Option<Part>,
        n: u32,
    ) -> Result<Runs, Refusal> {
        let (mut waited, mut waits) = (Duration::ZERO, None);
        loop {
            from.generator().into_iter().for_each(|generator| self.is_due(generator));
            let turn = self.queue_up(from.token_type()).await?;
            if part.is_none() {
                // Whoever was before us may have opened a window.
                match self.try_take(&mut uncounted, from, n)? {
                    Fast::All(run) => return Ok(run.into()),
                    Fast::Some(rest) => part = Some(rest),
                    Fast::None => {}
                }
            }
            // First, so that no change is missed.
            let fetching = from.generator().and_then(|generator| generator.fetching.as_ref());
            let changed = fetching.map(|fetching| fetching.changed.notified());
            // Where callers are counted it is the end of this, whatever comes of it.
            match self.refill_on_a_thread(turn, uncounted.take(), from, part.take(), n).await? {
                Refilled::Runs(runs) => return Ok(runs),
                Refilled::WaitFor(span) => tokio::time::sleep(self.wait(from, span, &mut waited)?).await,
                Refilled::Pending(rest) => {
                    part = rest;
                    let (Some(generator), Some(changed)) = (from.generator(), changed) else { return Err(broken()) };
                    let call = waits.take().map_or_else(|| self.waits(), Ok)?;
                    // Whichever of both it was is looked at again.
                    let _ = tokio::time::timeout(self.segment_left(generator, &call)?, changed).await;
                    waits = Some(call);
                }
            }
        }
    }

    /// `n` IDs, at least 1, as [`mint`](Self::mint) gives them. Waits for the disk on this thread if no window holds; not for
    /// tasks.
    ///
    /// # Errors
    /// As [`mint`](Self::mint).
    pub fn mint_blocking(self: &Arc<Self>, from: SourceRef<'_>, n: u32) -> Result<Runs, Refusal> {
        let (mut waited, mut waits, mut kept) = (Duration::ZERO, None, None);
        loop {
            let part = match kept.take() {
                Some(part) => Some(part),
                None => match self.try_take(&mut None, from, n)? {
                    Fast::All(run) => return Ok(run.into()),
                    Fast::Some(part) => Some(part),
                    Fast::None => {
                        if let Some(token_type) = from.token_type() {
                            self.resumed_blocking(token_type);
                        }
                        None
                    }
                },
            };
            from.generator().into_iter().for_each(|generator| self.is_due(generator));
            match self.refill(None, from, part, n)? {
                Refilled::Runs(runs) => return Ok(runs),
                Refilled::WaitFor(span) => std::thread::sleep(self.wait(from, span, &mut waited)?),
                Refilled::Pending(rest) => {
                    kept = rest;
                    let generator = from.generator().ok_or_else(broken)?;
                    let call = waits.take().map_or_else(|| self.waits(), Ok)?;
                    std::thread::sleep(self.segment_left(generator, &call)?.min(LOOK));
                    waits = Some(call);
                }
            }
        }
    }

    /// How long to wait until it is worth trying again.
    ///
    /// # Errors
    /// If that, and what was `waited` before, is longer than a caller waits: [`Refusal::ClockBehind`], or
    /// [`Refusal::SerialExhausted`] where others take what ticks of a layout have.
    fn wait(&self, from: SourceRef<'_>, span: SpanMs, waited: &mut Duration) -> Result<Duration, Refusal> {
        let wait = self.clock.real(span.to_std()) + Duration::from_millis(1);
        if *waited + wait > RESTART_WAIT_MAX.to_std() + PATIENCE {
            return Err(match from.namespace() {
                Some(namespace) if namespace.segments().is_some() => {
                    let why = format!("this session was resumed, and a master has to know of it first: {}", self.why());
                    Refusal::SegmentPending { why }
                }
                Some(namespace) if namespace.layout().is_some() => {
                    let (unit, capacity) = (namespace.kind().spec().unit.name(), namespace.capacity());
                    Refusal::SerialExhausted { unit, capacity, left: 0, retry: span }
                }
                _ => Refusal::ClockBehind { behind: span, retry: span },
            });
        }
        *waited += wait;
        Ok(wait)
    }

    #[inline]
    fn try_take(
        self: &Arc<Self>,
        uncounted: &mut Option<Holder>,
        from: SourceRef<'_>,
        n: u32,
    ) -> Result<Fast, Refusal> {
        match from {
            Source::Serials(generator) => self.try_take_serials(uncounted, generator, n),
            Source::Ticks(generator) => Ok(self.try_take_layout(generator, n)?.map_or(Fast::None, Fast::All)),
            Source::Uniq96 => Ok(self.try_take_uniq96(n)?.map_or(Fast::None, Fast::All)),
            Source::Plugged(_) => Err(not_so()),
        }
    }

    #[inline]
    fn try_take_serials(
        self: &Arc<Self>,
        uncounted: &mut Option<Holder>,
        generator: &Arc<Generator>,
        n: u32,
    ) -> Result<Fast, Refusal> {
        for _ in 0..SPINS {
            let window = generator.window.load();
            // A part of numbers that come in segments has nowhere to go if all of them are refused and others took some above it.
            if generator.is_segment() && window.left() < n.into() {
                return Ok(Fast::None);
            }
            if uncounted.is_some()
                && let Some(left) = window.left_to_share()
                && window.valid_until() > self.wall_coarse()
            {
                self.count_share(uncounted, generator, (window.bucket, left), n)?;
            }
            match take(&window, n, self.wall_coarse()) {
                Taken::All { run, half_used } => {
                    if half_used {
                        self.reserve_soon(generator);
                    }
                    return Ok(Fast::All(run));
                }
                Taken::Some(part) => {
                    // The request that wants more is not answered yet.
                    generator.take_off(part.len());
                    return Ok(Fast::Some(part));
                }
                Taken::None => return Ok(Fast::None),
                Taken::Closed => std::hint::spin_loop(),
            }
        }
        Ok(Fast::None)
    }

    /// Counts a call, once, into what its caller may have of the IDs that are left in the bucket.
    #[cold]
    fn count_share(
        &self,
        uncounted: &mut Option<Holder>,
        generator: &Generator,
        (bucket, left): (u32, u64),
        n: u32,
    ) -> Result<(), Refusal> {
        let Some(caller) = uncounted.take() else { return Ok(()) };
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if shares.take((generator.id, bucket), &caller, n, left) {
            return Ok(());
        }
        let offset = self.membership().parameters.map(|parameters| parameters.utc_offset()).unwrap_or_default();
        let retry = generator.layout.end(offset, bucket) - self.wall();
        Err(Refusal::ShareUsedUp { unit: generator.layout.unit().name(), retry })
    }

    /// Keeps this part of each hour's and day's IDs, the last ones, for callers to have in shares: a percentage, [`RESERVED_PERCENT`]
    /// unless it is said.
    ///
    /// # Errors
    /// If nothing is minted any more.
    ///
    /// [`RESERVED_PERCENT`]: crate::engine::RESERVED_PERCENT
    pub fn reserve_last(&self, percent: u8) -> Result<(), Refusal> {
        self.lock()?.engine.reserve_last(percent);
        Ok(())
    }

    /// Out of line: within the loops that give one serial after another its code costs them a tenth.
    #[inline(never)]
    fn try_take_uniq96(self: &Arc<Self>, n: u32) -> Result<Option<Run>, Refusal> {
        let taken = self.try_take_ticks(UNIQ96_AXIS, &self.uniq96, n, UNIQ96_AHEAD_MAX.into())?;
        if taken.is_some() {
            self.counters.mint_uniq96(n);
        }
        Ok(taken)
    }

    #[inline(never)]
    fn try_take_layout(self: &Arc<Self>, generator: &Arc<Generator>, n: u32) -> Result<Option<Run>, Refusal> {
        let Some(axis) = generator.axis.as_ref().filter(|_| generator.gives_ticks()) else { return Ok(None) };
        let taken = self.try_take_ticks(axis.at, &axis.window, n, axis.reach)?;
        // The window is not this name's alone, so nobody has closed it when the name ended. What was taken is a gap then.
        if taken.is_none() || generator.ended.load(Ordering::Acquire) {
            return Ok(None);
        }
        generator.count(n);
        Ok(taken)
    }

    /// Moves the mark and lengthens the window that this name uses, in the background.
    #[cold]
    pub(crate) fn extend_soon(self: &Arc<Self>, generator: &Generator) {
        if let Some(axis) = &generator.axis {
            let (minter, axis) = (Arc::clone(self), axis.at);
            self.in_background(move || minter.extend_ticks(axis));
        }
    }

    #[inline]
    fn try_take_ticks(
        self: &Arc<Self>,
        axis: usize,
        window: &AxisWindow,
        n: u32,
        reach: Reach,
    ) -> Result<Option<Run>, Refusal> {
        for _ in 0..SPINS {
            let window = window.load();
            match take_ticks(&window, n, self.wall(), reach)? {
                TakenTicks::All { run, half_used } => {
                    if half_used {
                        let minter = Arc::clone(self);
                        self.in_background(move || minter.extend_ticks(axis));
                    }
                    return Ok(Some(run));
                }
                TakenTicks::Closed => std::hint::spin_loop(),
                TakenTicks::None => return Ok(None),
            }
        }
        Ok(None)
    }

    async fn refill_on_a_thread(
        self: &Arc<Self>,
        turn: Turn,
        uncounted: Option<Holder>,
        from: SourceRef<'_>,
        part: Option<Part>,
        n: u32,
    ) -> Result<Refilled, Refusal> {
        let from = from.cloned();
        self.on_a_thread(turn, move |minter| minter.refill(uncounted, from.as_ref(), part, n)).await?
    }

    /// The engine's way, unless no more IDs leave by this generator's name.
    fn refill(
        &self,
        mut uncounted: Option<Holder>,
        from: SourceRef<'_>,
        part: Option<Part>,
        n: u32,
    ) -> Result<Refilled, Refusal> {
        let mut answered = BTreeSet::new();
        let refilled = self.decide(|engine, hands| match from {
            Source::Serials(generator) | Source::Ticks(generator) if generator.ended.load(Ordering::Acquire) => {
                let name = generator.namespace.name();
                Err(self.generators.ended(name.as_str()).unwrap_or_else(broken))
            }
            Source::Serials(generator) if generator.is_segment() => {
                let part = engine.give_back(hands, generator.id, part);
                answered = self.do_what_is_due(engine, hands);
                let refilled = engine.refill_segment(hands, generator.id, part, n);
                self.want(engine.take_asks());
                refilled
            }
            Source::Serials(generator) => {
                if uncounted.is_some()
                    && let Some(left) =
                        engine.left_to_share(generator.id, self.wall(), generator.window.load().left(), n)?
                {
                    self.count_share(&mut uncounted, generator, left, n)
                        .inspect_err(|_| engine.keep_part(generator.id, part.clone()))?;
                }
                let refilled = engine.refill(hands, generator.id, part, n).map(Refilled::Runs);
                if let Err(Refusal::SerialExhausted { retry, .. }) = &refilled {
                    let left = engine.serial_view(generator.id, self.wall(), generator.window.load().left());
                    if left.is_ok_and(|view| view.capacity_left == 0) {
                        generator.exhausted_until.store((self.wall() + *retry).0, Ordering::Relaxed);
                    }
                }
                refilled
            }
            Source::Ticks(generator) => engine.refill_layout(hands, generator.id, n),
            Source::Uniq96 => engine.refill_uniq96(hands, n),
            Source::Plugged(_) => Err(not_so()),
        });
        self.tell_of(answered);
        let refilled = refilled?;
        match (&refilled, from) {
            (Refilled::Runs(_), Source::Serials(generator)) => generator.count(n),
            (Refilled::Runs(_), Source::Ticks(generator)) => {
                generator.begun.store(true, Ordering::Release);
                generator.count(n);
            }
            (Refilled::Runs(_), Source::Uniq96) => self.counters.mint_uniq96(n),
            (Refilled::Runs(_), Source::Plugged(_)) | (Refilled::WaitFor(_) | Refilled::Pending(_), _) => {}
        }
        Ok(refilled)
    }

    /// Makes the next step durable while the window is half full, and lengthens the window by it. If that fails, the
    /// window goes on to its end. No turn is needed: nobody waits for this, and the lock keeps it apart from the slow path.
    pub(super) fn reserve(&self, generator: &Generator) {
        if let Err(refusal) = self.decide(|engine, hands| engine.reserve(hands, generator.id)) {
            tracing::debug!(%refusal, generator = %generator.namespace.name(), "no serials were reserved");
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
