//! What the agent does when one of its masters belongs to another cluster: it stands still, and looks whether that changes.

use super::Task;
use super::link::{CallError, Caller, Link};
use crate::holder::{Event, LeaseView};
use crate::minter::Minter;
use common::parameters::ClusterId;
use common::rpc::lease::Refusal;
use futures::future::join_all;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks at the masters while one of them belongs to another cluster.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// How long a master that is asked only for its cluster is waited for.
const GREET_TIMEOUT: Duration = Duration::from_secs(1);

impl CallError {
    /// The cluster of the master, if that is another one than ours.
    pub(super) fn foreign_cluster(&self) -> Option<ClusterId> {
        match self {
            Self::Refused { refusal: Refusal::ForeignCluster { here }, .. } => Some(*here),
            _ => None,
        }
    }
}

/// Lets minting know of which cluster the master at an address is and whether it allows us to ask, if that could be found out.
pub(super) async fn note<T>(address: &str, minter: &Arc<Minter>, outcome: &Result<T, CallError>) {
    let of = address.to_owned();
    match outcome {
        Ok(_) => minter.hear_whitelist(address, true),
        Err(CallError::Refused { refusal: Refusal::NotAllowed, .. }) => minter.hear_whitelist(address, false),
        // What it would say now is not known.
        Err(_) => {}
    }
    match outcome {
        Ok(_) if minter.is_stranger(address) => {
            let heard = minter.in_turn(move |minter| minter.hear_own(&of)).await;
            if let Err(refusal) = heard.and_then(|done| done) {
                tracing::error!(%refusal, %address, "this master is one of ours, which cannot be taken in yet; trying again");
            }
        }
        Ok(_) => {}
        Err(error) => {
            let Some(there) = error.foreign_cluster() else { return };
            let heard = minter.in_turn(move |minter| minter.hear_stranger(&of, there)).await;
            if let Err(refusal) = heard.and_then(|done| done) {
                tracing::error!(%refusal, "the leases could not be given up durably; trying again");
            }
        }
    }
}

impl Task {
    /// Gives up the leases, and looks again and again whether all masters are ours by now.
    pub(super) async fn stand_still(&mut self) {
        self.link = None;
        for grant in self.holder.leases().values().filter_map(LeaseView::grant).cloned().collect::<Vec<_>>() {
            self.take_in(Event::Ended { key: grant.key, g: grant.g }).await;
        }
        let mut ours = None;
        for address in self.masters.clone() {
            match Link::open(&address, &self.caller, &self.minter).await {
                Ok((link, greeting)) => {
                    self.greeted(&address, greeting).await;
                    ours = Some(link);
                }
                Err(error) => self.note(&error),
            }
        }
        // Its operators are to hear of it.
        self.link = ours;
        if tokio::time::Instant::now() >= self.tell_at {
            self.tell().await;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            () = self.minter.stranger_heard() => {}
        }
    }

    /// Asks every master but the one in use for its cluster, before a token is asked for: a list that leads to two clusters
    /// is noticed before anything is minted. One that does not answer says nothing.
    pub(super) async fn greet_others(&self) {
        let (minter, caller) = (&self.minter, &self.caller);
        let used = self.link.as_ref().map(|link| link.address.clone());
        let others = self.masters.iter().filter(|address| Some(*address) != used.as_ref());
        join_all(others.map(|address| greet(address, caller, minter))).await;
    }
}

async fn greet(address: &str, caller: &Caller, minter: &Arc<Minter>) {
    // What it says is taken in by `open`.
    let _ = tokio::time::timeout(GREET_TIMEOUT, Link::open(address, caller, minter)).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::minter::kit::Kit;
    use std::sync::mpsc;

    /// On one thread: whoever blocks it keeps the disk's answer from coming.
    #[tokio::test]
    async fn a_master_of_ours_is_taken_in_without_keeping_others_from_running() {
        let kit = Kit::new();
        let minter = kit.start();
        minter.hear_stranger("there", ClusterId(9)).unwrap();
        let (answered, answer) = mpsc::channel();
        let disk = minter.hold_the_disk(answer);
        let heard: Result<(), CallError> = Ok(());
        tokio::join!(note("there", &minter, &heard), async { answered.send(()).unwrap() });
        assert!(disk.join().unwrap(), "the thread was blocked until the disk gave up");
        assert!(!minter.is_stranger("there") && minter.wrong_cluster().is_none());
    }
}
