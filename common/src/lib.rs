//! The parts that every room of UniqGenerator shares: ids and their layouts, tokens, leases, time, and the wire.
//!
//! Everything here but [`attachment`], [`clock`], [`mod@file`], [`net`], [`rpc`] and [`process`] is pure: no IO, no clock, no randomness,
//! no locks. Time comes in as an argument ([`time::Now`]).
#![warn(missing_docs)]
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod about;
pub mod account;
pub mod attachment;
pub mod audit;
pub mod calendar;
pub mod clock;
mod digits;
pub mod encoding;
pub mod envelope;
pub mod file;
pub mod hosts;
pub mod json;
pub mod kind;
pub mod layout;
pub mod lease;
pub mod metrics;
pub mod namespace;
#[cfg(feature = "rpc")]
pub mod net;
pub mod panics;
pub mod parameters;
pub mod plugin;
#[cfg(feature = "cli")]
pub mod process;
#[cfg(feature = "rpc")]
pub mod rpc;
mod scope;
pub mod segment;
pub mod sequence;
pub mod setting;
#[cfg(feature = "cli")]
pub mod settings;
pub mod strategy;
pub mod template;
pub mod time;
pub mod token;
