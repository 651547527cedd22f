//! Masters of another cluster in our list, and names about which the masters contradict us: what stops minting until
//! somebody has looked.

use super::Minter;
use super::names::{Entry, NumberSource};
use crate::refusal::Refusal;
use common::parameters::ClusterId;
use std::sync::{Arc, PoisonError};

impl Minter {
    /// A master of our list belongs to another cluster, which may grant our tokens to others. Nothing is minted from now
    /// on, and the leases are given up durably, so that a restart does not mint with them either: our own masters give
    /// them again once that address leads to one of them.
    ///
    /// # Errors
    /// If minting has ended, or the leases could not be given up; nothing is minted then either. Say it again.
    pub(crate) fn hear_stranger(&self, address: &str, there: ClusterId) -> Result<(), Refusal> {
        let known = self.published.load().strangers.get(address) == Some(&there);
        let given_up = self.decide(|engine, hands| engine.hear_stranger(hands, address, there));
        if !known {
            if let Some(wrong) = self.wrong_cluster() {
                tracing::error!(%wrong, "minting stops");
            }
            self.stranger_heard.notify_waiters();
        }
        given_up
    }

    /// Tells whether the master at that address was of another cluster when it was last heard.
    pub(crate) fn is_stranger(&self, address: &str) -> bool {
        self.published.load().strangers.contains_key(address)
    }

    /// The master at that address is one of ours.
    ///
    /// # Errors
    /// If minting has ended.
    pub(crate) fn hear_own(&self, address: &str) -> Result<(), Refusal> {
        self.decide(|engine, hands| {
            engine.hear_own(hands, address);
            Ok(())
        })?;
        tracing::info!(%address, "this address leads to a master of our cluster again");
        Ok(())
    }

    /// The reason why nothing is minted, if that is because a master of our list belongs to another cluster.
    pub(crate) fn wrong_cluster(&self) -> Option<Refusal> {
        self.published.load().wrong_cluster()
    }

    /// Notes whether the whitelist of the master at that address has ours, as it says itself.
    pub(crate) fn hear_whitelist(&self, address: &str, allowed: bool) {
        // Nothing in it can be half done.
        let mut refusing = self.refusing.lock().unwrap_or_else(PoisonError::into_inner);
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
        let refusing = self.refusing.lock().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<&str> = refusing.iter().map(String::as_str).collect();
        (!all.is_empty()).then(|| {
            let at = all.join(", ");
            format!(
                "this agent is not allowed by the masters' whitelist, as said at {at}: its address is in none of the networks; an operator \
                 can allow one in the console"
            )
        })
    }

    /// Resolves when a master of another cluster is heard of.
    pub(crate) async fn stranger_heard(&self) {
        self.stranger_heard.notified().await;
    }

    /// What an operator of the masters has to know at once: code and sentence.
    pub(crate) fn alarm(&self) -> Option<String> {
        let refusal = self.contradiction(|_| true)?;
        Some(format!("{}: {refusal}", refusal.code()))
    }

    /// Gives what the masters contradict: the cluster, or one `of` our names.
    fn contradiction(&self, of: impl Fn(&Entry) -> bool) -> Option<Refusal> {
        let conflict = || Some(Refusal::GeneratorConflict { name: self.names.contradicted(of)? });
        self.wrong_cluster().or_else(conflict)
    }

    /// Tells whether numbers of sections that masters list for this process can be given at all.
    ///
    /// # Errors
    /// Why not. Its sections belong to somebody who can.
    pub(crate) fn may_give_sections(&self) -> Result<(), Refusal> {
        self.may_give(|name| name.place() == Some(NumberSource::Keys))
    }

    /// Tells whether anything of these names can be given, as far as that depends on more than a lease.
    ///
    /// # Errors
    /// The reason why not.
    pub(super) fn may_give(&self, of: impl Fn(&Entry) -> bool) -> Result<(), Refusal> {
        let unwritten = || Some(Refusal::BoundsUnwritten(self.bounds_unwritten.load().as_deref()?.clone()));
        self.contradiction(of).or_else(unwritten).map_or(Ok(()), Err)
    }

    /// Notes whether bounds of sections can be written down; `Some`: why not.
    pub(crate) fn note_bounds(&self, unwritten: Option<String>) {
        self.bounds_unwritten.store(unwritten.map(Arc::new));
    }
}
