//! The product's own code without processes: models in every state within bounds, whole clusters in virtual time, and the gate that leaves
//! out each mechanism.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

mod file;
mod masters;
mod mutants;
mod ranges;
mod simulation;

// A quarter of what models do is to make and drop states, on two threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Leaves the processors to tests that wait for real seconds: what only computes uses what these leave.
fn step_aside() {
    let _ = rustix::process::nice(19);
}
