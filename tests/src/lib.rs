//! Parts that the tests of the whole share: real processes on loopback, clients that note every ID they receive, and the
//! oracle that must never see one twice.
//!
//! Nothing here knows how the programs work inside, except [`faults`], which runs the agent's own code on faulty disks: the others are
//! started, asked and killed like anybody's.

pub mod bench;
pub mod browser;
pub mod certificates;
pub mod client;
pub mod cluster;
pub mod faults;
pub mod gentle;
pub mod keyed;
pub mod lessee;
pub mod load;
pub mod mounts;
pub mod netns;
pub mod operator;
pub mod oracle;
pub mod plain;
pub mod ports;
pub mod programs;
pub mod recorder;
pub mod strangers;
pub mod tokens;
pub mod unshare;
pub mod variables;
pub mod wire;
