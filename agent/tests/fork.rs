//! A forked child never hands out its parent's IDs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../benches/fixture/mod.rs"]
mod fixture;

use agent::embed::{MintError, Shared, UniqGenerator};
use fork::{Fork, fork, waitpid};

/// What the child says with its exit status: it was refused each ID, as a fork; or it got one.
const REFUSED: i32 = 42;
const GIVEN: i32 = 1;

#[test]
fn a_child_is_refused_and_its_parent_goes_on() {
    let kit = fixture::Fixture::new();
    let generator = Shared::new(&kit.minter, "default").unwrap();
    let block = generator.per_thread();
    // A window is open and a block is cut, so that the child finds IDs ready to be given out.
    let before = [generator.get_uniq64().unwrap(), block.get_uniq64().unwrap(), block.get_uniq64().unwrap()];
    match fork().unwrap() {
        Fork::Child => {
            let forked = |refused: bool| if refused { REFUSED } else { GIVEN };
            let all = block.get_uniq64() == Err(MintError::Forked)
                && block.get_uniq64() == Err(MintError::Forked)
                && generator.get_uniq64() == Err(MintError::Forked)
                && generator.clone().get_uniq96() == Err(MintError::Forked)
                && generator.get_uniq_string("SHOP", "01") == Err(MintError::Forked)
                && generator.get_batch64(1, &mut Vec::new()) == Err(MintError::Forked);
            // Nothing of the parent's may be dropped or flushed here.
            std::process::exit(forked(all));
        }
        Fork::Parent(child) => {
            let status = waitpid(child).unwrap();
            assert_eq!(fork::WEXITSTATUS(status), REFUSED, "status {status}");
        }
    }
    let after = [generator.get_uniq64().unwrap(), block.get_uniq64().unwrap()];
    assert!(after.iter().all(|id| !before.contains(id)));
    assert_eq!(after[1], before[2] + 1, "the parent's block goes on");
}
