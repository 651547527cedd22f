//! The generators of this agent: they are found without a lock, further ones are added, none is ever taken away.

use super::Generator;
use super::series::{SerialSeries, Series};
use super::writer::Writer;
use crate::engine::Engine;
use crate::plugin::Chain;
use crate::ticks::{Place, TickWindow};
use crate::window::Ends;
use arc_swap::{ArcSwap, Guard};
use common::kind::Kind;
use common::namespace::Namespace;
use common::setting::NAMESPACES_MAX;
use common::time::WallMs;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Those that always exist, and twice as many as the masters register: a name that is retired keeps its place until the next start.
const GENERATORS_MAX: usize = Kind::NAMED.len() + 2 * NAMESPACES_MAX;

/// The window of an axis of ticks.
#[derive(Debug)]
pub(crate) struct AxisWindow {
    current: ArcSwap<TickWindow>,
    ends: Ends,
    /// Where it goes on while no window is open.
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
    pub(super) fn close(&self) -> Option<Place> {
        let place = self.load().close();
        self.ends.end();
        let place = place?;
        self.place.store(place.ms.0, Ordering::Relaxed);
        Some(place)
    }
}

/// The windows of the axes of ticks, by the engine's numbers. None is ever taken away.
pub(super) struct Axes {
    windows: Box<[OnceLock<Arc<AxisWindow>>]>,
    /// The time mark that the former run left.
    mark: WallMs,
}

impl Axes {
    pub(super) fn new(mark: WallMs) -> Self {
        // Beside those of names, that of Uniq96.
        Self { windows: (0..=GENERATORS_MAX).map(|_| OnceLock::new()).collect(), mark }
    }

    /// That axis' window, a closed one if there was none; `None` if there is no room for it.
    pub(super) fn window(&self, at: usize) -> Option<Arc<AxisWindow>> {
        let slot = self.windows.get(at)?;
        Some(Arc::clone(slot.get_or_init(|| Arc::new(AxisWindow::new(self.mark)))))
    }

    /// That axis' window, if there is one.
    pub(super) fn known(&self, at: usize) -> Option<&AxisWindow> {
        self.windows.get(at)?.get().map(Arc::as_ref)
    }
}

pub(super) struct Registry {
    /// Generators by the engine's series, and from the end backwards those whose series is another's.
    slots: Box<[OnceLock<Arc<Generator>>]>,
    sharers: AtomicUsize,
}

impl Registry {
    pub(super) fn new() -> Self {
        Self { slots: (0..2 * GENERATORS_MAX).map(|_| OnceLock::new()).collect(), sharers: AtomicUsize::new(0) }
    }

    /// The generator in that slot.
    #[inline]
    pub(super) fn at(&self, slot: usize) -> Option<&Arc<Generator>> {
        self.slots.get(slot)?.get()
    }

    /// The generator of that kind that nobody has to register; they are added first.
    pub(super) fn default(&self, kind: Kind) -> Option<&Arc<Generator>> {
        let mut first = self.iter().take(Kind::NAMED.len());
        first.find(|it| it.kind() == kind && it.namespace().name().is_default())
    }

    /// The serials of that series of the engine.
    pub(super) fn serials(&self, id: usize) -> Option<&Arc<SerialSeries>> {
        self.at(id)?.series.serials()
    }

    /// Generators with a series of their own, in the engine's order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Generator>> {
        self.slots.iter().take(GENERATORS_MAX).map_while(OnceLock::get)
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Generator>> {
        self.iter().chain(self.slots.iter().rev().take(GENERATORS_MAX).map_while(OnceLock::get))
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
        axes: &Axes,
        namespace: Namespace,
        chain: Option<Arc<Chain>>,
        writer: Writer,
    ) -> Result<usize, String> {
        let id = engine.add(&namespace)?;
        let generator = Generator::new(namespace.clone(), Series::of(engine, axes, id, &namespace)?, chain, writer);
        let slot = self.slots.get(id).filter(|_| id < GENERATORS_MAX);
        let added = slot.and_then(|slot| slot.set(generator).ok());
        added.map(|()| id).ok_or_else(|| "there are more generators than there may be".to_owned())
    }

    /// Adds one whose series is another's, and gives its slot. `None` if there is no room for it.
    pub(super) fn share(&self, generator: Arc<Generator>) -> Option<usize> {
        let before = self.sharers.load(Ordering::Relaxed);
        let at = self.slots.len().checked_sub(before + 1).filter(|at| *at >= GENERATORS_MAX)?;
        self.slots.get(at)?.set(generator).ok()?;
        self.sharers.store(before + 1, Ordering::Relaxed);
        Some(at)
    }
}
