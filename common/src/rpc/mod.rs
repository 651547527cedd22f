//! The wire: three tarpc services and the transport they share.
//!
//! Requests travel as the index of a generated enum, so methods and variants are only ever appended, and whoever meets
//! says first which [`PROTOCOL`] it speaks.

pub mod connection;
pub mod ended;
pub mod lease;
pub mod mint;
pub mod names;
pub mod peer;
pub mod ranges;
pub mod transport;

/// Grows with every change of the wire that older programs cannot read.
pub const PROTOCOL: u32 = 12;
