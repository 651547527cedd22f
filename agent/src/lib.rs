//! The agent: leases tokens from the masters and mints IDs by itself.
//!
//! The pure rooms decide ([`engine`], [`holder`], [`serial`], [`window`], [`ticks`], [`gate`], [`timebase`]); [`serial_file`]
//! and [`minter`] carry their decisions out; [`plugin`] is what stands around minting by a name; [`embed`] lets an
//! application mint in its own process; [`extensions`] is what applications add; `dev` is what a process without masters has instead; [`catalog`], [`heartbeat`], [`http`] and [`rpc`] talk, on the
//! threads of [`workers`].
#![warn(missing_docs)]
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod bootstrap;
pub mod catalog;
#[cfg(feature = "server")]
pub mod config;
mod dev;
pub mod embed;
pub mod engine;
pub mod extensions;
pub mod gate;
pub mod heartbeat;
pub mod holder;
#[cfg(feature = "server")]
pub mod http;
pub mod masters;
pub mod metrics;
mod mint;
pub mod minter;
pub mod plugin;
#[cfg(feature = "server")]
pub mod program;
pub mod refusal;
#[cfg(feature = "server")]
pub mod rpc;
pub mod run;
#[cfg(feature = "server")]
pub mod secret_file;
pub mod segments;
pub mod sequence;
pub mod sequences;
pub mod serial;
pub mod serial_file;
mod sync;
pub mod ticks;
pub mod timebase;
pub mod window;
#[cfg(feature = "server")]
pub mod workers;
pub mod years;

#[cfg(test)]
mod window_tests;
