//! An agent's serial file, its lease and its clock: on real files and file systems, and by real programs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

mod clock_steps;
mod file_faults;
mod file_systems;
mod formatted_file;
mod fresh_starts;
mod minting_bounds;
mod snapshots;
mod stopped;
mod test_clock;
