//! The agent: leases tokens from the masters and mints IDs by itself.

pub mod emit;
pub mod heartbeat;
pub mod holder;
pub mod http;
pub mod minter;
pub mod refusal;
pub mod rpc;
pub mod run;
pub mod serial;
pub mod serial_file;
pub mod timebase;
pub mod uniq96;
pub mod window;
