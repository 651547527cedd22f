//! The parts that both programs have in common as processes: their settings, log, signals, long-lived tasks, and how they end.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod descriptors;
pub mod dump;
pub mod end;
mod limit;
pub mod log;
pub mod program;
pub mod settings;
pub mod signals;
pub mod strike;
pub mod tasks;
