//! The ledger's parts: its events and effects, and its records with their indexes. Nothing here knows of the ledger itself
//! ([`crate::machine`]).

pub mod calendar;
pub mod cursor;
pub mod event;
mod loaded;
pub mod proposals;
pub mod receipt;
pub mod remedy;
mod stride;
pub mod table;
pub mod takings;
pub mod usage;

pub use crate::replication::lives::{Lives, Unproven};
pub use event::{Alarm, Effects, Event, Identity, PeerObservations, Reply, RequestId, TokenHash, Write};
pub use ids::lease::Caution;
pub use loaded::Loaded;
pub use stride::Stride;
pub use usage::Limits;
