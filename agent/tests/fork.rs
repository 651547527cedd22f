//! A forked child never hands out its parent's IDs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use agent::embed::{Definition, Embedded, MintError, Namespace, Settings, UniqGenerator};
use fork::{Fork, fork, waitpid};
use std::collections::BTreeSet;
use std::time::Duration;

/// The exit status by which the child says that it was refused each ID, as a fork; or that it got one.
const REFUSED: i32 = 42;
const GIVEN: i32 = 1;

type Way = fn(&dyn UniqGenerator) -> Result<String, MintError>;

/// Ways to an ID of each kind, by the name that has it.
const WAYS: [(&str, Way); 9] = [
    ("default", |from| Ok(from.get_uniq64()?.to_string())),
    ("default", |from| Ok(from.get_uniq96()?.to_string())),
    ("default", |from| from.get_uniq_string("SHOP", "01")),
    ("default", |from| batch(|ids| from.get_batch64(1, ids))),
    ("narrow", |from| Ok(from.get_number()?.to_string())),
    ("wide", |from| Ok(from.get_number()?.to_string())),
    ("wide", |from| batch(|ids| from.get_batch_number(1, ids))),
    ("plain", |from| Ok(from.get_segment()?.to_string())),
    ("plain", |from| from.get_id()),
];

fn batch<T: ToString>(mint: impl FnOnce(&mut Vec<T>) -> Result<(), MintError>) -> Result<String, MintError> {
    let mut ids = Vec::new();
    mint(&mut ids)?;
    Ok(ids[0].to_string())
}

#[test]
fn a_child_is_refused_and_its_parent_goes_on() {
    let embedded = Embedded::start(Settings::dev("forks".parse().unwrap())).unwrap();
    embedded.wait_ready(Duration::from_secs(10)).unwrap();
    let segment: Definition = serde_json::from_str(r#"{"kind":"segment"}"#).unwrap();
    for (name, definition) in
        [("narrow", Definition::layout("sonyflake")), ("wide", Definition::layout("uuid7")), ("plain", segment)]
    {
        embedded.create_uniq_generator(Namespace::define(name.parse().unwrap(), &definition).unwrap()).unwrap();
    }
    let generators = WAYS.map(|(name, way)| {
        let shared = embedded.get_uniq_generator(name).unwrap();
        let block = shared.per_thread();
        (shared, block, way)
    });
    let all = || generators.iter().flat_map(|(shared, block, way)| [way(shared), way(block)]);
    // Windows are open and blocks are cut, so that the child finds IDs ready to be given out.
    let before: Vec<String> = (0..5).flat_map(|_| all()).map(Result::unwrap).collect();
    match fork().unwrap() {
        Fork::Child => {
            let refused = |id: Result<String, MintError>| id == Err(MintError::Forked);
            let forked = all().chain(all()).all(refused) && embedded.get_uniq_generator("default").is_err();
            // Nothing of the parent's may be dropped or flushed here.
            std::process::exit(if forked { REFUSED } else { GIVEN });
        }
        Fork::Parent(child) => {
            let status = waitpid(child).unwrap();
            assert_eq!(fork::WEXITSTATUS(status), REFUSED, "status {status}");
        }
    }
    let after: Vec<String> = all().map(Result::unwrap).collect();
    let different: BTreeSet<_> = before.iter().chain(&after).collect();
    assert_eq!(different.len(), before.len() + after.len());
    let [last, next] = [&before[before.len() - 2 * WAYS.len() + 1], &after[1]].map(|id| id.parse::<u64>().unwrap());
    assert_eq!(next, last + 1, "the parent's block goes on");
}
