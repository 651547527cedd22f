//! The generators of this agent: they are found without a lock, further ones are added, none is ever taken away.

use super::Generator;
use super::series::SerialSeries;
use crate::refusal::Refusal;
use crate::ticks::{Place, TickWindow};
use crate::window::Ends;
use arc_swap::{ArcSwap, Guard};
use common::kind::Kind;
use common::namespace::GeneratorName;
use common::setting::NAMESPACES_MAX;
use common::time::WallMs;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Those that always exist, and twice as many as the masters register: a name that is retired keeps its place until the next start.
const GENERATORS_MAX: usize = Kind::NAMED.len() + 2 * NAMESPACES_MAX;

/// Names are spread over so many maps: each further one copies its own, and not all there are.
const PARTS: usize = 256;

/// Which slot a generator is in, by kind and name. The names are texts here, because those of requests are.
type Names = BTreeMap<Kind, BTreeMap<String, usize>>;

/// Why nothing is minted by a name that the masters know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// They say that it stands for something else than it does here, or did.
    Contradicted,
    /// It was retired.
    Retired,
}

impl Ended {
    pub(super) fn refusal(self, name: &GeneratorName) -> Refusal {
        match self {
            Self::Contradicted => Refusal::GeneratorConflict { name: name.clone() },
            Self::Retired => Refusal::GeneratorRetired { name: name.clone() },
        }
    }
}

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
    /// Generators by the engine's series.
    owners: Box<[OnceLock<Arc<Generator>>]>,
    /// Names of a series that is another's; in [`Names`] behind the owners.
    sharers: Box<[OnceLock<Arc<Generator>>]>,
    sharers_len: AtomicUsize,
    /// Read without a lock, spread by names over [`PARTS`].
    names: Box<[ArcSwap<Names>]>,
    /// Names by which nothing is minted any more; texts here, as in [`Names`].
    ended: ArcSwap<BTreeMap<String, (GeneratorName, Ended)>>,
}

fn slots() -> Box<[OnceLock<Arc<Generator>>]> {
    (0..GENERATORS_MAX).map(|_| OnceLock::new()).collect()
}

impl Registry {
    pub(super) fn new() -> Self {
        Self {
            owners: slots(),
            sharers: slots(),
            sharers_len: AtomicUsize::new(0),
            names: (0..PARTS).map(|_| ArcSwap::default()).collect(),
            ended: ArcSwap::default(),
        }
    }

    #[inline]
    fn part(&self, name: &str) -> Option<&ArcSwap<Names>> {
        self.names.get(usize::from(name.bytes().fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte))))
    }

    pub(super) fn get(&self, kind: Kind, name: &str) -> Option<&Arc<Generator>> {
        let place = *self.part(name)?.load().get(&kind)?.get(name)?;
        let slot = self.owners.get(place).or_else(|| self.sharers.get(place - GENERATORS_MAX));
        slot?.get()
    }

    /// The generator that is served by that name, of whichever kind: the masters know one definition of a name. `default` exists for
    /// every kind.
    pub(super) fn of_name(&self, kind: Kind, name: &GeneratorName) -> Option<&Arc<Generator>> {
        let any = || Kind::NAMED.into_iter().find_map(|kind| self.get(kind, name.as_str()));
        self.get(kind, name.as_str()).or_else(|| if name.is_default() { None } else { any() })
    }

    /// Why nothing is minted by that name any more.
    pub(super) fn ended(&self, name: &str) -> Option<Refusal> {
        let ended = self.ended.load();
        let (name, why) = ended.get(name)?;
        Some(why.refusal(name))
    }

    /// One `of` the names about which the masters contradict what is served here, or was.
    pub(super) fn contradicted(&self, of: impl Fn(&GeneratorName) -> bool) -> Option<GeneratorName> {
        let ended = self.ended.load();
        ended.values().find(|(name, why)| *why == Ended::Contradicted && of(name)).map(|(name, _)| name.clone())
    }

    /// Nothing is minted by that name from now on. Only one thread at a time may say so.
    pub(super) fn end(&self, name: &GeneratorName, why: Ended) {
        let known = self.ended.load();
        if known.get(name.as_str()).is_some_and(|(_, known)| *known == why) {
            return;
        }
        let mut all = BTreeMap::clone(&known);
        if all.len() < GENERATORS_MAX {
            all.insert(name.as_str().to_owned(), (name.clone(), why));
            self.ended.store(Arc::new(all));
        }
    }

    /// The generator whose series of the engine that is.
    pub(super) fn by_id(&self, id: usize) -> Option<&Arc<Generator>> {
        self.owners.get(id)?.get()
    }

    /// The serials of that series of the engine.
    pub(super) fn serials(&self, id: usize) -> Option<&Arc<SerialSeries>> {
        self.by_id(id)?.series.serials()
    }

    /// Generators with a series of their own, in the engine's order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Generator>> {
        self.owners.iter().map_while(OnceLock::get)
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Generator>> {
        self.iter().chain(self.sharers.iter().map_while(OnceLock::get))
    }

    /// Tells whether there is room for another one with a series of its own.
    pub(super) fn has_room(&self) -> bool {
        self.iter().count() < self.owners.len()
    }

    /// Adds one with a series of its own, whose number in the engine is the next. Only one thread at a time may do so. `None` if there
    /// is no room for it.
    pub(super) fn add(&self, id: usize, generator: Arc<Generator>) -> Option<()> {
        self.put(self.owners.get(id)?, id, generator)
    }

    /// The same of one whose series is another's.
    pub(super) fn share(&self, generator: Arc<Generator>) -> Option<()> {
        let at = self.sharers_len.load(Ordering::Relaxed);
        self.put(self.sharers.get(at)?, GENERATORS_MAX + at, generator)?;
        self.sharers_len.store(at + 1, Ordering::Relaxed);
        Some(())
    }

    fn put(&self, slot: &OnceLock<Arc<Generator>>, place: usize, generator: Arc<Generator>) -> Option<()> {
        let (kind, name) = (generator.kind(), generator.namespace().name().as_str().to_owned());
        let part = self.part(&name)?;
        slot.set(generator).ok()?;
        let mut names = Names::clone(&part.load());
        names.entry(kind).or_default().insert(name, place);
        part.store(Arc::new(names));
        Some(())
    }
}
