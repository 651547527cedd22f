//! A master: half of the pair that leases tokens.
//!
//! The rooms, from the inside out. [`ledger`] decides what is promised to whom: a crate of its own, which waits for nothing and talks to
//! nobody, and whose modules stand here too. [`replication`] has the link that carries what it says to the other master. [`store`] makes the ledger's writes durable. [`driver`] is the one loop that joins them: take events, step, make
//! durable, and only then send and reply. [`rpc`] and [`admin`] decode, queue and await; they decide nothing. [`registry`] is
//! what agents said of themselves lately, for the operators' eyes.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub use ledger::{self, lease, policy, proof, section, setting};

pub mod accounts;
pub mod admin;
mod agents;
pub mod audit_files;
mod axes;
pub mod bootstrap;
mod commands;
pub mod config;
pub mod driver;
pub mod enroll;
pub mod invitations;
pub mod invite;
pub mod metrics;
pub mod refusal_tally;
pub mod registry;
pub mod remedy;
pub mod replication;
pub mod rpc;
pub mod section_tally;
mod sequences;
pub mod sso;
pub mod store;
pub mod tally;
pub mod tokens;
pub mod watchdog;
pub mod whitelist;
