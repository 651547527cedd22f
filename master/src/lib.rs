//! A master: half of the pair that leases tokens.
//!
//! The rooms, from the inside out. [`ledger`] decides what is promised to whom: a pure machine that takes events and hands
//! back effects. What it is made of lies below it, pure too: [`lease`], the events and records of leases; [`policy`], what may be
//! granted, extended and ended by them; [`setting`], what names stand for and who may ask; [`replication`], its view of the other
//! master and the rules by which two masters agree, and beside that the link that carries the messages. [`store`] makes the ledger's writes durable. [`driver`] is the one loop that joins them: take events, step, make
//! durable, and only then send and reply. [`rpc`] and [`admin`] decode, queue and await; they decide nothing. [`registry`] is
//! what agents said of themselves lately, for the operators' eyes.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod accounts;
pub mod admin;
mod agents;
mod axes;
pub mod bootstrap;
mod commands;
pub mod config;
pub mod driver;
pub mod lease;
pub mod ledger;
pub mod metrics;
pub mod policy;
pub mod proof;
pub mod registry;
pub mod remedy;
pub mod replication;
pub mod rpc;
pub mod section;
pub mod section_tally;
mod sequences;
pub mod setting;
pub mod store;
pub mod tally;
pub mod watchdog;
pub mod whitelist;
