//! The parts that both programs have in common as processes: their flags, log, signals, long-lived tasks, and how they end.

pub mod descriptors;
pub mod dump;
pub mod end;
mod limit;
pub mod log;
pub mod program;
pub mod signals;
pub mod strike;
pub mod tasks;
