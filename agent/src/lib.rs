//! The agent: leases tokens from the masters and mints IDs by itself.
//!
//! The crate `minting`, whose modules stand here too, and the crate `engine` decide; [`minter`] and the crate `serial_file` carry their
//! decisions out; [`plugin`] is what stands around minting by a name; [`embed`] lets an application mint in its own process;
//! [`extensions`] is what applications add; `dev` is what a process without masters has instead; [`catalog`], [`heartbeat`], [`http`]
//! and [`rpc`] talk, on the threads of [`workers`].
#![warn(missing_docs)]
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub use minting::{gate, holder, refusal, run, segments, sequence, serial, ticks, timebase, window, years};

#[cfg(feature = "server")]
mod access;
mod bootstrap;
pub mod catalog;
#[cfg(feature = "server")]
pub mod config;
mod dev;
pub mod embed;
pub mod extensions;
pub mod heartbeat;
#[cfg(feature = "server")]
pub mod http;
pub mod masters;
pub mod metrics;
mod mint;
pub mod minter;
pub mod plugin;
#[cfg(feature = "server")]
pub mod program;
#[cfg(feature = "server")]
pub mod rpc;
#[cfg(feature = "server")]
pub mod secret_file;
pub mod sequences;
#[cfg(feature = "server")]
pub mod unix_socket;
#[cfg(feature = "server")]
pub mod workers;
