//! Notes for minting of what any answer of a master says of its cluster and its whitelist.

use super::CallError;
use crate::minter::Minter;
use net::rpc::lease::Refusal;
use std::sync::Arc;

/// Lets minting know of which cluster the master at an address is and whether it allows us to ask, if that could be found out. That it is one of
/// ours only a new connection tells: the address of an older one may lead elsewhere by now.
pub(super) async fn note(address: &str, minter: &Arc<Minter>, outcome: Result<(), &CallError>) {
    let of = address.to_owned();
    match outcome {
        Ok(()) => {
            minter.masters().hear_whitelist(address, true);
            if minter.grants().stranger(address).is_none() {
                return;
            }
            let heard = minter.in_turn(move |minter| minter.hear_own(&of)).await;
            if let Err(refusal) = heard.and_then(|done| done) {
                tracing::error!(%refusal, %address, "this master is one of our cluster, but that could not be written down yet; trying again");
            }
        }
        Err(CallError::Refused { refusal: Refusal::NotAllowed, .. }) => minter.masters().hear_whitelist(address, false),
        Err(CallError::Refused { refusal: Refusal::ForeignCluster { here }, .. }) => {
            let there = *here;
            let heard = minter.in_turn(move |minter| minter.hear_stranger(&of, there)).await;
            if let Err(refusal) = heard.and_then(|done| done) {
                tracing::error!(%refusal, "the leases could not be given up durably; trying again");
            }
        }
        // What it would say now is not known.
        Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::minter::kit::Kit;
    use common::parameters::ClusterId;
    use std::sync::mpsc;

    /// On one thread: whoever blocks it keeps the disk's answer from coming.
    #[tokio::test]
    async fn a_master_of_ours_is_taken_in_without_keeping_others_from_running() {
        let kit = Kit::new();
        let minter = kit.start();
        minter.hear_stranger("there", ClusterId(9)).unwrap();
        let (answered, answer) = mpsc::channel();
        let disk = minter.hold_the_disk(answer);
        let heard = Ok(());
        tokio::join!(note("there", &minter, heard), async { answered.send(()).unwrap() });
        assert!(disk.join().unwrap(), "the thread was blocked until the disk gave up");
        assert!(minter.grants().stranger("there").is_none() && minter.grants().wrong_cluster().is_none());
    }
}
