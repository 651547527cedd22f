//! The generators of this agent: they are found without a lock, further ones are added, none is ever taken away.

use super::Generator;
use arc_swap::ArcSwap;
use common::namespace::GeneratorKind;
use common::setting::NAMESPACES_MAX;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Those that always exist, and as many as the masters register.
const GENERATORS_MAX: usize = GeneratorKind::ALL.len() + NAMESPACES_MAX;

/// Which slot a generator is in, by kind and name. The names are texts here, because those of requests are.
type Names = BTreeMap<GeneratorKind, BTreeMap<String, usize>>;

pub(super) struct Registry {
    slots: Box<[OnceLock<Arc<Generator>>]>,
    names: ArcSwap<Names>,
}

impl Registry {
    pub(super) fn new() -> Self {
        Self { slots: (0..GENERATORS_MAX).map(|_| OnceLock::new()).collect(), names: ArcSwap::default() }
    }

    pub(super) fn get(&self, kind: GeneratorKind, name: &str) -> Option<&Arc<Generator>> {
        let slot = *self.names.load().get(&kind)?.get(name)?;
        self.slots.get(slot)?.get()
    }

    /// All of them, in the order of their ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Generator>> {
        self.slots.iter().map_while(OnceLock::get)
    }

    /// The id of the next one; `None` if there is no room for it.
    pub(super) fn next_id(&self) -> Option<usize> {
        let id = self.iter().count();
        (id < self.slots.len()).then_some(id)
    }

    /// Adds one whose id is the next. Only one thread at a time may do so.
    pub(super) fn add(&self, generator: Arc<Generator>) {
        let (kind, name) = (generator.namespace.kind(), generator.namespace.name().as_str().to_owned());
        let id = generator.id;
        if self.slots.get(id).is_some_and(|slot| slot.set(generator).is_ok()) {
            let mut names = Names::clone(&self.names.load());
            names.entry(kind).or_default().insert(name, id);
            self.names.store(Arc::new(names));
        }
    }
}
