//! Values that IDs are made of: kinds, layouts, templates, encodings, definitions of names, tokens, leases, and time.
//!
//! All of it is pure: no IO, no clock, no randomness, no locks. Time comes in as an argument ([`time::Now`]).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![warn(missing_docs)]
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod about;
pub mod account;
pub mod api_key;
pub mod audit;
pub mod calendar;
pub mod certificate;
mod digits;
pub mod encoding;
pub mod envelope;
pub mod json;
pub mod kind;
pub mod layout;
pub mod lease;
pub mod namespace;
pub mod panics;
pub mod parameters;
pub mod plugin;
pub mod quota;
mod scope;
pub mod segment;
pub mod sequence;
pub mod setting;
pub mod strategy;
pub mod template;
pub mod time;
pub mod token;
