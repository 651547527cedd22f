//! What generators' names stand for: the masters know, this agent asks them, and keeps what it learned beside the serial
//! file, so that it mints under the same names after a restart without any master.

mod defining;
mod finding;
mod kept;
mod rate;
mod refreshing;
#[cfg(test)]
mod tests;
mod unused;

pub(crate) use finding::{Unserved, source_of_keys};
pub use kept::kept_names;

use crate::masters::{Masters, Preferred};
use crate::minter::{Defined, Minter};
use crate::refusal::Refusal;
use common::kind::Kind;
use common::namespace::{GeneratorName, Namespace};
use common::rpc::lease::{NAMESPACES_PAGE_MAX, NameState, Registered};
use common::setting::NAMESPACES_MAX;
use finding::{Asked, Wanted};
use kept::{keep, kept_at};
use rate::NameRate;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, PoisonError};
use tokio::sync::{Mutex, Semaphore};
use unused::UnusedNames;

/// Retired names that are remembered, to show them to masters that have forgotten it.
const RETIRED_MAX: usize = NAMESPACES_MAX;
/// Definitions under way at once; one more waits for its turn.
const DEFINES_MAX: usize = 8;

/// The names, as this agent learns them.
pub struct Catalog {
    masters: Arc<Masters>,
    minter: Arc<Minter>,
    kept_at: PathBuf,
    /// Which of the masters is asked first the next time: each is heard now and then.
    turn: AtomicUsize,
    /// The master that answered the last definition.
    defined: Preferred,
    defines: Semaphore,
    /// Turns of dry runs, which take no budget: they hold up no definition.
    tries: Semaphore,
    /// The names that each caller registered lately.
    rate: NameRate,
    /// The masters' word on each name that is served, and on each that was and is retired.
    known: std::sync::Mutex<BTreeMap<GeneratorName, Registered>>,
    /// Names that are registered and by which nobody has given an ID yet.
    unused: UnusedNames,
    /// The masters' digest of all names ([`HeartbeatReply::names`](common::rpc::lease::HeartbeatReply::names)) when nothing was left to be
    /// learned or shown.
    seen: std::sync::Mutex<Option<u64>>,
    /// Tells whether names were learned since by somebody's request, which that number does not stand for.
    learned: AtomicBool,
    /// Why each name that is not served is not, as it was logged. No more than names that may be registered.
    said: std::sync::Mutex<BTreeMap<GeneratorName, String>>,
    wanted: std::sync::Mutex<Wanted>,
    /// Whoever has it asks about wanted names.
    asked: Mutex<Asked>,
}

impl Catalog {
    /// The names as these masters know them. What is learned is kept beside `serial_file`.
    pub(crate) fn new(masters: Arc<Masters>, serial_file: &Path) -> Self {
        Self {
            minter: Arc::clone(&masters.minter),
            masters,
            kept_at: kept_at(serial_file),
            turn: AtomicUsize::new(0),
            defined: Preferred::default(),
            defines: Semaphore::new(DEFINES_MAX),
            tries: Semaphore::new(1),
            rate: NameRate::default(),
            known: std::sync::Mutex::default(),
            unused: UnusedNames::default(),
            seen: std::sync::Mutex::default(),
            learned: AtomicBool::default(),
            said: std::sync::Mutex::default(),
            wanted: std::sync::Mutex::default(),
            asked: Mutex::default(),
        }
    }

    /// Gives what a name stands for, whether IDs are given by it or not yet.
    pub fn definition(&self, kind: Kind, name: &GeneratorName) -> Option<Namespace> {
        self.minter.definition(kind, name).or_else(|| self.heard(name).filter(|heard| heard.kind() == kind))
    }

    /// Gives the definition of a name by which nobody has given an ID yet, as far as this agent has heard.
    pub(crate) fn heard(&self, name: &GeneratorName) -> Option<Namespace> {
        self.unused.of(name)
    }

    /// Names that are registered and by which nobody has given an ID yet, as far as this agent has heard.
    pub fn unused(&self) -> Vec<Namespace> {
        self.unused.all()
    }

    /// Serves these too, or no more, also after the next start. `true` if something is new.
    async fn learn_and_keep(&self, registered: Vec<Registered>) -> bool {
        let is_news = self.learn(registered).await;
        if is_news {
            self.keep().await;
        }
        is_news
    }

    /// Serves these too, or no more. `true` if something is new.
    async fn learn(&self, mut registered: Vec<Registered>) -> bool {
        {
            // Each minute all of them come, and hardly ever one that is new.
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            // What was retired stays so, whatever masters say that have forgotten it.
            let is_news = |one: &Registered| match known.get(one.namespace.name()) {
                Some(known) => known != one && (known.state != NameState::Retired || one.state == NameState::Retired),
                None => true,
            };
            registered.retain(is_news);
        }
        let mut news = false;
        // The lock of the minter is free now and then, however many they are.
        for part in registered.chunks(NAMESPACES_PAGE_MAX) {
            news |= self.learn_part(part.to_vec()).await;
        }
        news
    }

    async fn learn_part(&self, registered: Vec<Registered>) -> bool {
        let learned = self.minter.in_turn(move |minter| {
            let one = |one: Registered| {
                let outcome = match one.state {
                    NameState::Retired => minter.retire(&one.namespace).map(|()| None),
                    NameState::InUse | NameState::Unused => minter.define(one.namespace.clone()).map(Some),
                };
                (one, outcome)
            };
            registered.into_iter().map(one).collect::<Vec<_>>()
        });
        let mut news = false;
        for (one, outcome) in learned.await.unwrap_or_default() {
            let name = one.namespace.name().clone();
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            match outcome {
                Ok(Some(Defined::New)) => {
                    news = true;
                    tracing::info!(%name, "a generator of this name is served from now on");
                    known.insert(name, one);
                }
                Ok(Some(Defined::Known)) => {
                    news = true;
                    known.insert(name, one);
                }
                Ok(None) => {
                    // Of those that were never served here others know.
                    let was_served = known.remove(&name).is_some();
                    if was_served {
                        news = true;
                        tracing::info!(%name, "this name was retired: no more IDs by it");
                    }
                    let retired = || known.values().filter(|known| known.state == NameState::Retired).count();
                    if was_served && one.proof.is_some() && retired() < RETIRED_MAX {
                        known.insert(name, one);
                    }
                }
                Err(why) => {
                    // It is not taken over by the next start either.
                    news |= known.remove(&name).is_some();
                    if self.is_news(&name, &why) {
                        tracing::error!(%name, %why, "this generator is not served");
                    }
                }
            }
        }
        news
    }

    /// Whether this was not said of that name yet: the masters are asked every minute.
    fn is_news(&self, name: &GeneratorName, why: &Refusal) -> bool {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.insert(name.clone(), why.to_string()).as_ref() != Some(&why.to_string())
    }

    /// Keeps all that is served beside the serial file. If that fails they are asked for anew after the next start.
    async fn keep(&self) {
        let path = self.kept_at.clone();
        let names: Vec<Registered> = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.values().cloned().collect()
        };
        let cluster = self.minter.membership().cluster;
        let kept = tokio::task::spawn_blocking(move || keep(&path, cluster, &names)).await;
        if let Ok(Err(error)) = kept {
            tracing::warn!(%error, file = %self.kept_at.display(), "the names could not be kept");
        }
    }
}

fn name_of(one: &Registered) -> GeneratorName {
    one.namespace.name().clone()
}
