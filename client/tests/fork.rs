//! A forked child never hands out what its parent has fetched, and does not touch its parent's connections.
#![allow(clippy::unwrap_used, clippy::panic)]

mod source;

use fork::{Fork, fork, waitpid};
use source::{Mood, Source};
use tokio::runtime::{Builder, Runtime};
use uniq_client::{Client, Error, Prefetch, Settings};

/// The exit status of a child that was refused.
const REFUSED: i32 = 42;
const GIVEN: i32 = 1;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_child_is_refused_and_its_parent_goes_on() {
    let runtime_here = runtime();
    let (address, _source) = runtime_here.block_on(Source::start(Mood::Well));
    let mut settings = Settings::new([address.as_str()]).unwrap();
    settings.prefetch = Some(Prefetch::default());
    let client = Client::new(settings).unwrap();
    assert_eq!(runtime_here.block_on(client.uniq64("default")), Ok(0));
    match fork().unwrap() {
        Fork::Child => {
            let here = runtime();
            let all = here.block_on(client.uniq64("default")) == Err(Error::Forked)
                && here.block_on(client.uniq64_batch("default", 2)) == Err(Error::Forked)
                && here.block_on(client.clone().uniq96()) == Err(Error::Forked)
                && here.block_on(client.uniq_string("default", "", "")) == Err(Error::Forked);
            // Nothing of the parent's may be dropped here.
            std::process::exit(if all { REFUSED } else { GIVEN });
        }
        Fork::Parent(child) => {
            let status = waitpid(child).unwrap();
            assert_eq!(fork::WEXITSTATUS(status), REFUSED, "status {status}");
        }
    }
    assert_eq!(runtime_here.block_on(client.uniq64("default")), Ok(1), "the parent goes on with its batch");
}
