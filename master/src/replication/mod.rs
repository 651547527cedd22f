//! The connection that carries the messages to the other master ([`link`]), who may have one ([`places`]), and what fetches the ledger for a
//! replacement ([`joining`]). What this master thinks of the other one is the crate `ledger`'s.

pub use ledger::replication::{join, lives, pair, rules, seal};

pub mod joining;
pub mod link;
pub mod places;
