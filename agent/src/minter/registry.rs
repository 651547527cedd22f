//! The generators of this agent: they are found without a lock, further ones are added, none is ever taken away.

use super::Generator;
use crate::refusal::Refusal;
use crate::ticks::{Place, TickWindow};
use arc_swap::{ArcSwap, Guard};
use common::kind::Kind;
use common::namespace::{GeneratorName, Namespace};
use common::setting::NAMESPACES_MAX;
use common::time::WallMs;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Those that always exist, and twice as many as the masters register: a name that is retired keeps its place until the next start.
const GENERATORS_MAX: usize = Kind::NAMED.len() + 2 * NAMESPACES_MAX;

/// Names are spread over so many maps: each further one copies its own, and not all there are.
const PARTS: usize = 256;

/// A map that is read without a lock, spread by names over [`PARTS`].
struct Spread<T>(Box<[ArcSwap<T>]>);

impl<T: Default> Spread<T> {
    fn new() -> Self {
        Self((0..PARTS).map(|_| ArcSwap::default()).collect())
    }

    #[inline]
    fn part(&self, name: &str) -> Option<&ArcSwap<T>> {
        self.0.get(usize::from(name.bytes().fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte))))
    }
}

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
    /// Counted before a window is closed, so that blocks cut from it end with it.
    ended: AtomicU64,
    /// Where it goes on while no window is open.
    place: AtomicI64,
}

impl AxisWindow {
    fn new(mark: WallMs) -> Self {
        let current = ArcSwap::from_pointee(TickWindow::closed());
        Self { current, ended: AtomicU64::new(0), place: AtomicI64::new(mark.0) }
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

    /// How many were closed so far.
    #[inline]
    pub(crate) fn ended(&self) -> &AtomicU64 {
        &self.ended
    }

    pub(super) fn open(&self, window: TickWindow) {
        self.current.store(Arc::new(window));
    }

    /// Only whoever has the state may do so.
    pub(super) fn close(&self) -> Option<Place> {
        self.ended.fetch_add(1, Ordering::Release);
        let place = self.load().close()?;
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
    slots: Box<[OnceLock<Arc<Generator>>]>,
    names: Spread<Names>,
    /// What stands before generators whose names have plugins; in [`Names`] behind the slots.
    plugged: Box<[OnceLock<Arc<Generator>>]>,
    /// Other names of the generators `default`, whose serials they share.
    aliases: Spread<BTreeMap<GeneratorName, Arc<Namespace>>>,
    /// Names by which nothing is minted any more; texts here, as in [`Names`].
    ended: ArcSwap<BTreeMap<String, (GeneratorName, Ended)>>,
}

impl Registry {
    pub(super) fn new() -> Self {
        Self {
            slots: (0..GENERATORS_MAX).map(|_| OnceLock::new()).collect(),
            names: Spread::new(),
            plugged: (0..2 * GENERATORS_MAX).map(|_| OnceLock::new()).collect(),
            aliases: Spread::new(),
            ended: ArcSwap::default(),
        }
    }

    pub(super) fn get(&self, kind: Kind, name: &str) -> Option<&Arc<Generator>> {
        let slot = *self.names.part(name)?.load().get(&kind)?.get(name)?;
        let slot = self.slots.get(slot).or_else(|| self.plugged.get(slot - GENERATORS_MAX));
        slot?.get()
    }

    /// The generator of its own that is served by that name, of whichever kind: the masters know one definition of a name.
    /// `default` exists for every kind.
    pub(super) fn of_name(&self, kind: Kind, name: &GeneratorName) -> Option<&Arc<Generator>> {
        let any = || Kind::NAMED.into_iter().find_map(|kind| self.get(kind, name.as_str()));
        let found = self.get(kind, name.as_str()).or_else(|| if name.is_default() { None } else { any() });
        found.map(Generator::beneath).filter(|generator| generator.namespace.name() == name)
    }

    /// What an alias stands for.
    pub(super) fn alias(&self, name: &GeneratorName) -> Option<Arc<Namespace>> {
        self.aliases.part(name.as_str())?.load().get(name).cloned()
    }

    /// All aliases.
    pub(super) fn aliases(&self) -> BTreeMap<GeneratorName, Arc<Namespace>> {
        let one = |(name, namespace): (&GeneratorName, &Arc<Namespace>)| (name.clone(), Arc::clone(namespace));
        self.aliases.0.iter().flat_map(|part| part.load().iter().map(one).collect::<Vec<_>>()).collect()
    }

    /// Serves the generator `default` by another name too, with what stands before it. Only one thread at a time may do so. `false` if there is no
    /// room, or no such generator.
    pub(super) fn add_alias(&self, namespace: Namespace, plugged: Option<Arc<Generator>>) -> bool {
        let (kind, name) = (namespace.kind(), namespace.name().clone());
        let Some(default) = self.get(kind, GeneratorName::DEFAULT) else { return false };
        let (slot, text) = (default.id, name.as_str());
        let (Some(aliases_part), Some(names_part)) = (self.aliases.part(text), self.names.part(text)) else {
            return false;
        };
        let mut aliases = BTreeMap::clone(&aliases_part.load());
        let mut names = Names::clone(&names_part.load());
        if self.aliases.0.iter().map(|part| part.load().len()).sum::<usize>() >= GENERATORS_MAX {
            return false;
        }
        let slot = match plugged {
            Some(plugged) => self.plug(plugged),
            None => Some(slot),
        };
        let Some(slot) = slot else { return false };
        names.entry(kind).or_default().insert(name.as_str().to_owned(), slot);
        aliases.insert(name, Arc::new(namespace));
        aliases_part.store(Arc::new(aliases));
        names_part.store(Arc::new(names));
        true
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

    /// The generator with that id.
    pub(super) fn by_id(&self, id: usize) -> Option<&Arc<Generator>> {
        self.slots.get(id)?.get()
    }

    /// All of them, in the order of their ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Generator>> {
        self.slots.iter().map_while(OnceLock::get)
    }

    /// Whether there is room for another one.
    pub(super) fn has_room(&self) -> bool {
        self.iter().count() < self.slots.len()
    }

    /// Where a name finds what stands before its generator; `None` if there is no room.
    fn plug(&self, mut plugged: Arc<Generator>) -> Option<usize> {
        for (place, slot) in self.plugged.iter().enumerate() {
            match slot.set(plugged) {
                Ok(()) => return Some(GENERATORS_MAX + place),
                Err(full) => plugged = full,
            }
        }
        None
    }

    /// Adds one whose id is the next, with what stands before it. Only one thread at a time may do so.
    ///
    /// # Errors
    /// If there is no room for it.
    pub(super) fn add(&self, generator: Arc<Generator>, plugged: Option<Arc<Generator>>) -> Result<(), &'static str> {
        let (kind, name) = (generator.namespace.kind(), generator.namespace.name().as_str().to_owned());
        let id = generator.id;
        if self.slots.get(id).is_none_or(|slot| slot.set(generator).is_err()) {
            return Err("more generators than there may be");
        }
        let place = match plugged {
            Some(plugged) => self.plug(plugged).ok_or("more names with plugins than there may be")?,
            None => id,
        };
        let part = self.names.part(&name).ok_or("a name of no part")?;
        let mut names = Names::clone(&part.load());
        names.entry(kind).or_default().insert(name, place);
        part.store(Arc::new(names));
        Ok(())
    }
}
