//! The generators of this agent: they are found without a lock, further ones are added, none is ever taken away.

use super::series::{SerialSeries, Series};
use super::writer::Writer;
use super::{Generator, Grants, Time};
use crate::gate::gate_ticks;
use crate::plugin::Chain;
use crate::refusal::Refusal;
use crate::ticks::{TickPosition, TickWindow};
use crate::window::Ends;
use arc_swap::{ArcSwap, Guard};
use common::kind::Kind;
use common::namespace::Namespace;
use common::setting::NAMESPACES_MAX;
use common::time::{SpanMs, WallMs};
use common::token::TokenType;
use engine::{Engine, TICK_WAIT_MAX};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Those that always exist, and twice as many as the masters register: a name that is retired keeps its place until the next start.
const GENERATORS_MAX: usize = Kind::PREDEFINED.len() + 2 * NAMESPACES_MAX;
/// Slots that are made at once.
const PART: usize = 256;

/// The window of an axis of ticks.
#[derive(Debug)]
pub(crate) struct AxisWindow {
    current: ArcSwap<TickWindow>,
    ends: Ends,
    /// The place where it goes on while no window is open.
    place: AtomicI64,
}

impl AxisWindow {
    fn new(mark: WallMs) -> Self {
        let current = ArcSwap::from_pointee(TickWindow::closed());
        Self { current, ends: Ends::default(), place: AtomicI64::new(mark.0) }
    }

    /// The tick that the next ID of it carries, or a later one.
    pub(super) fn reached(&self) -> WallMs {
        let open = self.load().reached();
        open.map_or_else(|| WallMs(self.place.load(Ordering::Relaxed)), |place| place.ms)
    }

    /// The one that is open now, or was last.
    #[inline]
    pub(crate) fn load(&self) -> Guard<Arc<TickWindow>> {
        self.current.load()
    }

    /// The count of those that were closed.
    pub(crate) fn ends(&self) -> &Ends {
        &self.ends
    }

    pub(super) fn open(&self, window: TickWindow) {
        self.current.store(Arc::new(window));
    }

    /// Only whoever has the state may do so.
    pub(super) fn close(&self) -> Option<TickPosition> {
        let place = self.load().close();
        self.ends.end();
        let place = place?;
        self.place.store(place.ms.0, Ordering::Relaxed);
        Some(place)
    }
}

type Part<T> = Box<[OnceLock<Arc<T>>]>;

/// Slots that are filled once and found without a lock. Their parts are made when they are needed: most agents have few names, and each start
/// would write to all of the memory.
struct Slots<T>(Box<[OnceLock<Part<T>>]>);

impl<T> Slots<T> {
    fn new(len: usize) -> Self {
        Self((0..len.div_ceil(PART)).map(|_| OnceLock::new()).collect())
    }

    /// The slot at that place; `None` if there is none.
    fn slot(&self, at: usize) -> Option<&OnceLock<Arc<T>>> {
        let part = self.0.get(at / PART)?.get_or_init(|| (0..PART).map(|_| OnceLock::new()).collect());
        part.get(at % PART)
    }

    #[inline]
    fn get(&self, at: usize) -> Option<&Arc<T>> {
        self.0.get(at / PART)?.get()?.get(at % PART)?.get()
    }

    /// Those in the first slots, as far as there is no gap.
    fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        (0..).map_while(|at| self.get(at))
    }
}

/// The windows of the axes of ticks, by the engine's numbers. None is ever taken away.
pub(super) struct Axes {
    windows: Slots<AxisWindow>,
    /// The time mark that the former run left.
    mark: WallMs,
}

impl Axes {
    fn new(mark: WallMs) -> Self {
        Self { windows: Slots::new(GENERATORS_MAX), mark }
    }

    /// That axis' window, a closed one if there was none; `None` if there is no room for it.
    pub(super) fn window(&self, at: usize) -> Option<Arc<AxisWindow>> {
        let slot = self.windows.slot(at)?;
        Some(Arc::clone(slot.get_or_init(|| Arc::new(AxisWindow::new(self.mark)))))
    }
}

/// See the module.
pub(crate) struct Registry {
    /// The windows of all axes of ticks.
    axes: Axes,
    /// Generators by the engine's series.
    own: Slots<Generator>,
    /// Those whose series is another's.
    sharing: Slots<Generator>,
    sharers: AtomicUsize,
}

impl Registry {
    pub(super) fn new(mark: WallMs) -> Self {
        let slots = || Slots::new(GENERATORS_MAX);
        Self { axes: Axes::new(mark), own: slots(), sharing: slots(), sharers: AtomicUsize::new(0) }
    }

    /// The window of that axis of ticks, if there is one.
    pub(super) fn axis(&self, at: usize) -> Option<&AxisWindow> {
        self.axes.windows.get(at).map(Arc::as_ref)
    }

    /// The generator in that slot: one of those that share a series behind all others.
    #[inline]
    pub(super) fn at(&self, slot: usize) -> Option<&Arc<Generator>> {
        match slot.checked_sub(GENERATORS_MAX) {
            None => self.own.get(slot),
            Some(at) => self.sharing.get(at),
        }
    }

    /// The generator of that kind that nobody has to register; they are added first.
    pub(super) fn default(&self, kind: Kind) -> Option<&Arc<Generator>> {
        let mut first = self.iter().take(Kind::PREDEFINED.len());
        first.find(|it| it.kind() == kind && it.namespace().name().is_default())
    }

    /// The serials of that series of the engine.
    pub(super) fn serials(&self, id: usize) -> Option<&Arc<SerialSeries>> {
        self.at(id)?.series.serials()
    }

    /// Generators with a series of their own, in the engine's order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Generator>> {
        self.own.iter()
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Generator>> {
        self.iter().chain(self.sharing.iter())
    }

    /// Tells whether there is room for another one with a series of its own.
    pub(super) fn has_room(&self) -> bool {
        self.iter().count() < GENERATORS_MAX
    }

    /// Adds one with a series of its own, whose number in the engine is the next, and gives its slot. Only one thread at a time may do so.
    ///
    /// # Errors
    /// A text, if a block of the serial file belongs to another definition of its name, or there is no room for it.
    pub(super) fn add(
        &self,
        engine: &mut Engine,
        namespace: Namespace,
        chain: Option<Arc<Chain>>,
        writer: Writer,
    ) -> Result<usize, String> {
        let id = engine.add(&namespace)?;
        let generator =
            Generator::new(namespace.clone(), Series::of(engine, &self.axes, id, &namespace)?, chain, writer);
        let slot = self.own.slot(id).filter(|_| id < GENERATORS_MAX);
        let added = slot.and_then(|slot| slot.set(generator).ok());
        added.map(|()| id).ok_or_else(|| "there are more generators than there may be".to_owned())
    }

    /// Adds one whose series is another's, and gives its slot. `None` if there is no room for it.
    pub(super) fn share(&self, generator: Arc<Generator>) -> Option<usize> {
        let at = self.sharers.load(Ordering::Relaxed);
        self.sharing.slot(at).filter(|_| at < GENERATORS_MAX)?.set(generator).ok()?;
        self.sharers.store(at + 1, Ordering::Relaxed);
        Some(GENERATORS_MAX + at)
    }

    /// Wakes those who wait for a segment of these series.
    pub(super) fn tell_of(&self, series: BTreeSet<usize>) {
        let fetching = series.into_iter().filter_map(|at| self.serials(at)?.fetching.as_ref());
        fetching.for_each(|fetching| fetching.changed.notify_waiters());
    }

    /// Tells whether the clock has come near enough to the time that the next ID of each name would carry, by tokens of the types that
    /// are `wanted`, and whether names that always exist have IDs left.
    ///
    /// # Errors
    /// The reason why not.
    pub(super) fn ready(&self, wanted: &BTreeSet<TokenType>, grants: &Grants, time: &Time) -> Result<(), Refusal> {
        let wall = time.wall();
        for generator in self.iter().filter(|generator| !generator.has_ended()) {
            let Some(token_type) = generator.namespace().token_type().filter(|kind| wanted.contains(kind)) else {
                continue;
            };
            let (lease, offset) = grants.lease(token_type, time)?;
            match &generator.series {
                Series::Ticks(series) => {
                    let ticks = series.definition.layout().ticks(offset);
                    let waits = if ticks.spanning { TICK_WAIT_MAX.0.saturating_mul(time.scale().into()) } else { 0 };
                    let ahead_max = SpanMs(series.reach().ahead_max.0.saturating_add(waits));
                    gate_ticks(&ticks, &lease, series.window().reached(), wall, ahead_max).map(drop)?;
                }
                Series::Serials(series) => {
                    series.layout.gate(offset, &lease, series.last_bucket(), wall).map(drop)?;
                }
            }
        }
        let defaults = self.iter().filter(|generator| generator.namespace().name().is_default());
        defaults.filter_map(|generator| generator.series.serials()).try_for_each(|series| {
            let retry = WallMs(series.exhausted_until.load(Ordering::Relaxed)) - wall;
            let (unit, capacity) = (series.layout.unit().name(), series.layout.rules(false).capacity);
            if retry > SpanMs(0) { Err(Refusal::SerialExhausted { unit, capacity, left: 0, retry }) } else { Ok(()) }
        })
    }
}
