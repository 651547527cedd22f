//! The product's own code without processes: models in every state within bounds, whole clusters in virtual time, and the gate that leaves
//! out each mechanism.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

mod file;
mod masters;
mod mutants;
mod ranges;
mod simulation;

use stateright::Model;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

// A quarter of what models do is to make and drop states, on two threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Leaves the processors to tests that wait for real seconds: what only computes uses what these leave.
fn step_aside() {
    let _ = rustix::process::nice(19);
}

/// Tells whether there is time for what takes minutes.
fn large() -> bool {
    std::env::var_os("MODEL").is_some_and(|size| size == "large")
}

/// The most memory that this process ever had, as the kernel says it.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default().replace('\t', " ")
}

/// The hash of every state, made `plain` of messages in flight; and how many states there were with them.
fn states<M>(model: &M, plain: impl Fn(M::State) -> M::State) -> (BTreeSet<u64>, usize)
where
    M: Model,
    M::State: Clone + Hash,
{
    step_aside();
    let hash = |world: &M::State| {
        let mut hasher = DefaultHasher::new();
        world.hash(&mut hasher);
        hasher.finish()
    };
    let mut queue = model.init_states();
    let mut seen: BTreeSet<u64> = queue.iter().map(hash).collect();
    let mut all = BTreeSet::new();
    while let Some(world) = queue.pop() {
        let mut actions = Vec::new();
        model.actions(&world, &mut actions);
        for next in actions.into_iter().filter_map(|action| model.next_state(&world, action)) {
            if seen.insert(hash(&next)) {
                queue.push(next);
            }
        }
        all.insert(hash(&plain(world)));
    }
    (all, seen.len())
}
