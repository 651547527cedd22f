//! The wire: three tarpc services and the transport they share.
//!
//! Requests and answers are data of the crate `wire`, whose modules stand here too. Requests travel as the index of a generated
//! enum, so methods are only ever appended.

pub use wire::{PROTOCOL, enroll, names, ranges};

pub mod connection;
pub mod ended;
pub mod lease;
pub mod mint;
pub mod peer;
pub mod transport;
