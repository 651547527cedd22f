//! The meaning of generators' names: the masters know, this agent asks them, and keeps what it learned beside the serial
//! file, so that it mints under the same names after a restart without any master.

mod defining;
mod finding;
mod rate;
mod refreshing;
#[cfg(test)]
mod tests;

#[cfg(feature = "server")]
pub(crate) use finding::Unserved;

use crate::masters::{Masters, Preferred};
use crate::minter::{Entry, Minter, Step};
use crate::refusal::Refusal;
use common::namespace::GeneratorName;
use finding::Wanted;
use net::rpc::lease::{NAMESPACES_PAGE_MAX, Registered};
use rate::NameRate;
use serial_file::KeptNames;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, PoisonError};
use std::time::Instant;
use tokio::sync::{Mutex, Semaphore};

/// Definitions under way at once; one more waits for its turn.
const DEFINES_MAX: usize = 8;

/// The names, as this agent learns them.
pub struct Catalog {
    masters: Arc<Masters>,
    minter: Arc<Minter>,
    serial_file: PathBuf,
    /// The [changes](crate::minter::Names::kept_changes) that the file of names beside it has.
    kept: Arc<std::sync::Mutex<u64>>,
    /// The master that is asked first the next time: each is heard now and then.
    turn: AtomicUsize,
    /// The master that answered the last definition.
    defined: Preferred,
    defines: Semaphore,
    /// Turns of dry runs, which take no budget: they hold up no definition.
    tries: Semaphore,
    /// The names that each caller registered lately.
    rate: NameRate,
    /// The masters' digest of all names ([`HeartbeatReply::names`](net::rpc::lease::HeartbeatReply::names)) when nothing was left to be
    /// learned or shown.
    seen: std::sync::Mutex<Option<u64>>,
    /// Tells whether names were learned since by somebody's request, which that number does not stand for.
    learned: AtomicBool,
    wanted: std::sync::Mutex<Wanted>,
    /// Whoever has it asks about wanted names, and not before then.
    asking: Arc<Mutex<Option<Instant>>>,
}

impl Catalog {
    /// The names as these masters know them. What is learned is kept beside `serial_file`.
    pub(crate) fn new(masters: Arc<Masters>, serial_file: &Path) -> Self {
        Self {
            minter: Arc::clone(&masters.minter),
            masters,
            serial_file: serial_file.to_owned(),
            kept: Arc::default(),
            turn: AtomicUsize::new(0),
            defined: Preferred::default(),
            defines: Semaphore::new(DEFINES_MAX),
            tries: Semaphore::new(1),
            rate: NameRate::default(),
            seen: std::sync::Mutex::default(),
            learned: AtomicBool::default(),
            wanted: std::sync::Mutex::default(),
            asking: Arc::default(),
        }
    }

    /// Serves these too, or no more, also after the next start.
    ///
    /// # Errors
    /// As [`learn`](Self::learn).
    async fn learn_and_keep(&self, registered: Vec<Registered>) -> Result<(), Refusal> {
        let learned = self.learn(registered).await;
        self.keep().await;
        learned
    }

    /// Serves these too, or no more.
    ///
    /// # Errors
    /// If minting has ended, or the disk takes too long: some of them may be served nevertheless.
    async fn learn(&self, mut registered: Vec<Registered>) -> Result<(), Refusal> {
        // Each minute all of them come, and hardly ever one that is new.
        registered.retain(|one| self.minter.names().step(one) != Step::Nothing);
        // The lock of the minter is free now and then, however many they are.
        for part in registered.chunks(NAMESPACES_PAGE_MAX) {
            let part = part.to_vec();
            self.minter.in_turn(move |minter| part.iter().try_for_each(|one| minter.learn(one))).await??;
        }
        Ok(())
    }

    /// Keeps all that is served beside the serial file, if it is not kept there yet.
    async fn keep(&self) {
        let (kept, minter, path) = (Arc::clone(&self.kept), Arc::clone(&self.minter), self.serial_file.clone());
        // A write goes on if nobody waits for it any more: the next one has its turn after it, and writes what there is then.
        let write = move || {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            let changes = minter.names().kept_changes();
            if *kept == changes {
                return;
            }
            let all =
                KeptNames { cluster: minter.grants().membership().cluster, names: minter.names().all(Entry::kept) };
            match all.write(&path) {
                Ok(()) => *kept = changes,
                Err(error) => tracing::warn!(%error, beside = %path.display(), "the names could not be kept"),
            }
        };
        let _ = tokio::task::spawn_blocking(write).await;
    }
}

fn name_of(one: &Registered) -> GeneratorName {
    one.namespace.name().clone()
}
