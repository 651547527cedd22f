//! The agent.

pub mod serial_file;
