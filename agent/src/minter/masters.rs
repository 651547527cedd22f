//! Knowledge of the masters themselves: those that this process is, those that refuse its address, and word of another cluster's.

use crate::dev::Masters;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::Notify;

/// See the module.
#[derive(Default)]
pub struct KnownMasters {
    /// Those of a process that needs no others.
    own: OnceLock<Masters>,
    /// Masters of our list whose whitelist does not have our address.
    refusing: Mutex<BTreeSet<String>>,
    strangers: Notify,
}

impl KnownMasters {
    /// Asks these, and no others. Said once, before anybody is asked.
    pub(crate) fn keep(&self, masters: Masters) {
        let _ = self.own.set(masters);
    }

    /// The masters that this process is itself, if it is.
    pub(crate) fn own(&self) -> Option<&Masters> {
        self.own.get()
    }

    fn refusing(&self) -> MutexGuard<'_, BTreeSet<String>> {
        // Nothing in it can be half done.
        self.refusing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes whether the whitelist of the master at that address has ours, as it says itself.
    pub(crate) fn hear_whitelist(&self, address: &str, allowed: bool) {
        let mut refusing = self.refusing();
        if allowed {
            // It is one setting of both, and the other one may never be asked again.
            if !std::mem::take(&mut *refusing).is_empty() {
                tracing::info!(%address, "the whitelist of this master has the address of this agent again");
            }
        } else if refusing.insert(address.to_owned()) {
            tracing::error!(
                %address,
                "the address of this agent is outside the whitelist of this master, which renews nothing of it: allow its network in the \
                 console, or leases end in days and sections of sequences in seconds"
            );
        }
    }

    /// The masters whose whitelist does not have our address, in words; `None` if there is none.
    pub fn outside_whitelist(&self) -> Option<String> {
        let refusing = self.refusing();
        let all: Vec<&str> = refusing.iter().map(String::as_str).collect();
        (!all.is_empty()).then(|| {
            let at = all.join(", ");
            format!(
                "this agent is not allowed by the masters' whitelist, as said at {at}: its address is in none of the networks; an operator \
                 can allow one in the console"
            )
        })
    }

    /// Tells whoever waits for it that a master of another cluster was heard of.
    pub(super) fn tell_of_stranger(&self) {
        self.strangers.notify_waiters();
    }

    /// Resolves when a master of another cluster is heard of.
    pub(crate) async fn stranger_heard(&self) {
        self.strangers.notified().await;
    }
}
