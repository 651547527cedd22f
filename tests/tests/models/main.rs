//! The product's own code without processes: models in every state within bounds, whole clusters in virtual time, and the gate that leaves
//! out each mechanism.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

mod file;
mod masters;
mod mutants;
mod ranges;
mod simulation;
