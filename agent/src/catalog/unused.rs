//! Names that are registered and by which nobody has given an ID yet, as far as this agent has heard.

use common::namespace::{GeneratorName, Namespace};
use common::rpc::lease::Registered;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A name by which no ID was given.
#[derive(Debug)]
struct Unused {
    namespace: Namespace,
    /// The reason why the masters did not take it down as in use when somebody wanted an ID.
    why: Option<String>,
}

/// No more than names that may be registered.
#[derive(Debug, Default)]
pub(super) struct UnusedNames(Mutex<BTreeMap<GeneratorName, Unused>>);

impl UnusedNames {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<GeneratorName, Unused>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<Namespace> {
        self.lock().values().map(|unused| unused.namespace.clone()).collect()
    }

    /// Gives the definition of such a name.
    pub(super) fn of(&self, name: &GeneratorName) -> Option<Namespace> {
        Some(self.lock().get(name)?.namespace.clone())
    }

    /// The reason why such a name could not be taken in use.
    pub(super) fn why_not(&self, name: &GeneratorName) -> Option<String> {
        self.lock().get(name)?.why.clone()
    }

    /// Notes why a name could not be taken in use; without a reason the one before stands.
    pub(super) fn note_why_not(&self, name: &GeneratorName, why: Option<&str>) {
        if let (Some(unused), Some(why)) = (self.lock().get_mut(name), why) {
            unused.why = Some(format!("its first ID needs both masters: {why}"));
        }
    }

    /// One of them is in use now.
    pub(super) fn remove(&self, name: &GeneratorName) {
        self.lock().remove(name);
    }

    /// A master says that of the names `asked` about these are unused. Tells whether one of them is new.
    pub(super) fn learn(&self, asked: &BTreeSet<GeneratorName>, unused: Vec<Registered>) -> bool {
        let (mut all, mut is_news) = (self.lock(), false);
        let mut before: BTreeMap<_, _> = asked.iter().filter_map(|name| all.remove_entry(name)).collect();
        for Registered { namespace, .. } in unused {
            let known = before.remove(namespace.name());
            is_news |= known.is_none_or(|known| known.namespace != namespace);
            all.insert(namespace.name().clone(), Unused { namespace, why: None });
        }
        is_news
    }

    /// A master lists all of them.
    pub(super) fn learn_all(&self, unused: Vec<Registered>) {
        let mut all = self.lock();
        let entry = |Registered { namespace, .. }: Registered| {
            let why = all.remove(namespace.name()).and_then(|unused| unused.why);
            (namespace.name().clone(), Unused { namespace, why })
        };
        let listed = unused.into_iter().map(entry).collect();
        *all = listed;
    }
}
