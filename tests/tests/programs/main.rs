//! Both programs as operators have them: command line, logs, metrics, load, and how they end, are killed and are cut off.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

mod bench;
mod cli;
mod crash;
mod logs;
mod long_lived_tasks;
mod metrics;
mod partition;
mod steady_state;
