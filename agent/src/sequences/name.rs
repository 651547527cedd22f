//! One name: which of its sections we may serve, and those that are in memory. Sections are in shards, each behind a lock of its own that is
//! held for one key at a time.

use super::counts::SequenceView;
use super::lock;
use super::routes::NameRoutes;
use super::waiting::Rooms;
use crate::refusal::Refusal;
use crate::sequence::{HeldRange, Loads, Ownership, SectionState};
use arc_swap::ArcSwap;
use common::encoding::{DECIMAL64, Encoding, Secrets};
use common::kind::Kind;
use common::namespace::{GeneratorName, Namespace};
use common::sequence::{Section, SectionKey, SequenceDefinition};
use common::strategy::Strategies;
use common::time::BootMs;
use crossbeam_utils::CachePadded;
use net::rpc::ranges::ShownReceipt;
use rangemap::RangeMap;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// Locks of a name. More than there are cores, so that two calls seldom want the same.
const SHARDS: usize = 64;

/// A section in memory.
pub(super) struct Entry {
    pub(super) state: SectionState,
    /// True if whoever asks masters for bounds has been told of it.
    pub(super) queued: bool,
}

/// Some of a name's sections.
#[derive(Default)]
pub(super) struct Shard {
    /// Those in memory.
    entries: HashMap<u32, Entry>,
}

impl Deref for Shard {
    type Target = HashMap<u32, Entry>;
    fn deref(&self) -> &Self::Target {
        &self.entries
    }
}

impl DerefMut for Shard {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.entries
    }
}

pub(crate) struct Name {
    namespace: Arc<Namespace>,
    pub(super) definition: SequenceDefinition,
    /// The encoding of its numbers where they leave as texts.
    encoding: Arc<Encoding>,
    held: ArcSwap<Vec<HeldRange>>,
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    /// Numbers, by section, above which none was given before it was forgotten to make room. Neighbours are one entry, as at the masters, which keep a
    /// bounded number of such.
    floors: Mutex<RangeMap<u32, u64>>,
    pub(super) loads: Mutex<Loads>,
    pub(super) routes: Mutex<NameRoutes>,
    /// Places for calls that wait for its sections.
    pub(super) waiting: Rooms,
    /// Told whenever it is another agent than before that serves a section, or is known to, this one included,
    pub(super) changed: Notify,
    /// and whenever something came of bounds that masters were asked for.
    pub(super) raised: Notify,
}

impl Name {
    pub(super) fn new(namespace: &Arc<Namespace>, definition: &SequenceDefinition, connections: usize) -> Self {
        // None that needs a secret or a strategy is one of a sequence.
        let encoding = namespace.written_by(Secrets::NONE, Strategies::NONE).ok().flatten();
        Self {
            definition: definition.clone(),
            encoding: encoding.unwrap_or_else(|| Arc::clone(&DECIMAL64)),
            namespace: Arc::clone(namespace),
            held: ArcSwap::default(),
            shards: (0..SHARDS).map(|_| CachePadded::default()).collect(),
            floors: Mutex::default(),
            loads: Mutex::default(),
            routes: Mutex::default(),
            waiting: Rooms::of_one(connections),
            changed: Notify::new(),
            raised: Notify::new(),
        }
    }

    pub(crate) fn definition(&self) -> &SequenceDefinition {
        &self.definition
    }

    pub(crate) fn name(&self) -> &GeneratorName {
        self.namespace.name()
    }

    pub(crate) fn encoding(&self) -> &Arc<Encoding> {
        &self.encoding
    }

    /// Checks that so many numbers of a key may be asked for at once.
    ///
    /// # Errors
    /// As [`admits`].
    pub(crate) fn admits(&self, n: u32) -> Result<(), Refusal> {
        admits(&self.namespace, n)
    }

    /// Says what masters list for us.
    pub(super) fn publish(&self, held: impl Iterator<Item = HeldRange>) {
        self.held.store(Arc::new(held.collect()));
    }

    /// The ranges that masters list for us, ascending.
    #[inline]
    pub(super) fn held(&self) -> arc_swap::Guard<Arc<Vec<HeldRange>>> {
        self.held.load()
    }

    /// The shard of a section. `None` never comes: there are as many as are counted.
    #[inline]
    pub(super) fn shard(&self, section: Section) -> Option<&Mutex<Shard>> {
        self.shards.get(section.0 as usize % SHARDS).map(|shard| &**shard)
    }

    /// Remembers that no number above this was given of a section that is forgotten. By how many entries there are more, or fewer, now.
    pub(super) fn forget(&self, section: u32, floor: u64) -> isize {
        self.change_floors(|floors| floors.insert(section..section.saturating_add(1), floor)).1
    }

    /// Takes back what is remembered of a section that was forgotten. By how many entries there are more, or fewer, now.
    pub(super) fn recall(&self, section: u32) -> (Option<u64>, isize) {
        self.change_floors(|floors| {
            let floor = floors.get(&section).copied();
            if floor.is_some() {
                floors.remove(section..section.saturating_add(1));
            }
            floor
        })
    }

    fn change_floors<T>(&self, change: impl FnOnce(&mut RangeMap<u32, u64>) -> T) -> (T, isize) {
        let mut floors = lock(&self.floors);
        let before = floors.len();
        let done = change(&mut floors);
        (done, floors.len().cast_signed() - before.cast_signed())
    }

    pub(super) fn shards(&self) -> impl Iterator<Item = &Mutex<Shard>> {
        self.shards.iter().map(|shard| &**shard)
    }

    /// The receipts of sections whose span has ended.
    pub(super) fn receipts(&self, now: BootMs) -> impl Iterator<Item = ShownReceipt> {
        let held = self.held();
        let lost = held.iter().filter(|range| matches!(range.ownership(now), Ownership::Over(_))).copied();
        let together = lock(&self.loads).receipts(self.name(), lost);
        let alone = self.shards().flat_map(move |shard| {
            let of = |(section, entry): (&u32, &Entry)| {
                let Ownership::Over(g) = ownership(&held, Section(*section), now) else { return None };
                let receipt = entry.state.receipt().filter(|_| entry.state.g() == g)?;
                Some(ShownReceipt {
                    sections: SectionKey { name: self.name().clone(), section: Section(*section) }.into(),
                    g,
                    receipt,
                })
            };
            lock(shard).iter().filter_map(of).collect::<Vec<_>>()
        });
        together.into_iter().chain(alone)
    }

    pub(super) fn look(&self, now: BootMs, view: &mut SequenceView) {
        for range in self.held().iter() {
            let sections = u64::from(range.to - range.from);
            match range.ownership(now) {
                Ownership::Served(_) => view.sections += sections,
                Ownership::From(_) => view.sections_waiting += sections,
                Ownership::Over(_) | Ownership::NotOurs => {}
            }
        }
        for shard in self.shards() {
            view.loaded += lock(shard).values().filter(|entry| entry.state.is_loaded()).count() as u64;
        }
    }
}

/// Checks that a name gives keys so many numbers at once: no more than one master may grant alone, or each call would wait for both in vain.
///
/// # Errors
/// [`Refusal::UnknownGenerator`]; [`Refusal::BadParameter`], with the most that there are.
pub(crate) fn admits(namespace: &Namespace, n: u32) -> Result<(), Refusal> {
    let name = namespace.name();
    let definition = namespace.sequences().ok_or_else(|| Refusal::unknown(Kind::Sequence, name.as_str()))?;
    let most = definition.solo_allowance();
    if u64::from(n) <= most {
        return Ok(());
    }
    Err(Refusal::BadParameter(format!(
        "n: {n} is more than '{name}' gives at once, at most {most}: ask for fewer, or register a name with a larger solo_allowance"
    )))
}

/// The range that a section is in, of those that masters list.
#[inline]
fn range_of(held: &[HeldRange], section: Section) -> Option<&HeldRange> {
    let after = held.partition_point(|range| range.from <= section.0);
    after.checked_sub(1).and_then(|at| held.get(at)).filter(|range| section.0 < range.to)
}

/// Our ownership of a section, by what masters list.
#[inline]
pub(super) fn ownership(held: &[HeldRange], section: Section, now: BootMs) -> Ownership {
    range_of(held, section).map_or(Ownership::NotOurs, |range| range.ownership(now))
}
