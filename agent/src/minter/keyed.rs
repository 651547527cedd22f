//! Names of kind sequence: their numbers belong to keys, and need neither the serial file nor a lease. What is known of them stands here
//! beside all other names, since a name has one definition, of whichever kind; `sequences` gives their numbers, in the program.

use super::registry::Ended;
use super::{Defined, Minter};
use crate::refusal::{NAME_SHOWN_MAX, Refusal};
use arc_swap::ArcSwap;
use common::kind::Kind;
use common::namespace::{GeneratorName, Namespace};
use common::setting::NAMESPACES_MAX;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Notify;

/// By their names; texts here, because those of requests are.
type Names = BTreeMap<String, Arc<Namespace>>;

#[derive(Default)]
pub(super) struct Keyed {
    names: ArcSwap<Names>,
    learned: Notify,
}

impl Keyed {
    pub(super) fn contains(&self, name: &GeneratorName) -> bool {
        self.names.load().contains_key(name.as_str())
    }
}

impl Minter {
    /// Serves a further sequence. Whoever calls has the lock, and has looked for a generator of that name.
    pub(super) fn define_keyed(&self, namespace: Namespace) -> Result<Defined, Refusal> {
        let names = self.keyed.names.load();
        let name = namespace.name();
        if let Some(known) = names.get(name.as_str()) {
            if known.same_ids(&namespace) {
                return Ok(Defined::Known);
            }
            self.generators.end(name, Ended::Contradicted);
            return Err(Refusal::GeneratorConflict { name: name.clone() });
        }
        if names.len() >= 2 * NAMESPACES_MAX {
            return Err(Refusal::Overloaded("there are as many generators as there may be"));
        }
        if !namespace.plugins().is_empty() {
            return Err(Refusal::BadParameter("this version has no plugins for sequences".to_owned()));
        }
        let mut all = Names::clone(&names);
        all.insert(name.as_str().to_owned(), Arc::new(namespace));
        self.keyed.names.store(Arc::new(all));
        self.keyed.learned.notify_waiters();
        Ok(Defined::New)
    }

    /// The sequence of that name.
    ///
    /// # Errors
    /// [`Refusal::UnknownGenerator`], [`Refusal::GeneratorConflict`], [`Refusal::GeneratorRetired`].
    pub fn keyed(&self, name: &str) -> Result<Arc<Namespace>, Refusal> {
        if let Some(ended) = self.generators.ended(name) {
            return Err(ended);
        }
        let unknown = || {
            let name = name.chars().take(NAME_SHOWN_MAX).collect();
            Refusal::UnknownGenerator { kind: Kind::Sequence, name }
        };
        self.keyed.names.load().get(name).cloned().ok_or_else(unknown)
    }

    /// All sequences.
    pub fn keyed_names(&self) -> Arc<BTreeMap<String, Arc<Namespace>>> {
        self.keyed.names.load_full()
    }

    /// Resolves when a further sequence becomes known.
    pub(crate) async fn keyed_learned(&self) {
        self.keyed.learned.notified().await;
    }
}
