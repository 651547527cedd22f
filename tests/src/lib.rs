//! Parts that the tests of the whole share: real processes on loopback, clients that note every ID they receive, and the
//! oracle that must never see one twice.
//!
//! Nothing here knows how the programs work inside, except [`sim`], the simulation of whole clusters, and [`model`] and [`ranges_model`],
//! which walk the states of the masters' own ledger: the others are started, asked and killed like anybody's.

pub mod bench;
pub mod browser;
pub mod certificates;
pub mod client;
pub mod cluster;
pub mod faults;
pub mod file_model;
pub mod gentle;
pub mod keyed;
mod kit;
pub mod lessee;
pub mod load;
pub mod model;
pub mod mounts;
pub mod netns;
pub mod operator;
pub mod oracle;
pub mod plain;
pub mod plain_ids;
pub mod ports;
pub mod programs;
pub mod ranges_model;
pub mod recorder;
pub mod sim;
pub mod strangers;
pub mod unshare;
pub mod variables;
pub mod wire;
