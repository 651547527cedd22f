//! The deciding part of a master: what is promised to whom.
//!
//! [`machine`] is the ledger itself: it takes events and hands back effects. What it is made of lies below it: [`lease`], the events
//! and records of leases; [`policy`], what may be granted, extended and ended by them; [`section`], who serves which keys; [`setting`], what
//! names stand for and who may ask; [`replication`], its view of the other master and the rules by which two masters agree.
//!
//! All of it is pure: no IO, no clock, no randomness, no locks. Who keeps the records, carries the messages and reads the clock is the
//! crate `master`.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod lease;
pub mod machine;
pub mod policy;
pub mod proof;
pub mod replication;
pub mod section;
pub mod setting;

pub use machine::{Condition, Ledger, Salt, Snapshot};
