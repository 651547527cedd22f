//! The agents that serve sections, as clients and agents tell each other.

use super::Section;
use crate::lease::Generation;
use serde::{Deserialize, Serialize};

/// The address at which an agent is reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServedAt {
    /// By HTTP: `host:port`.
    pub http: String,
    /// By RPC: `host:port`.
    pub rpc: String,
}

/// Sections beside each other and the agent that serves them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Route {
    /// The first.
    pub from: Section,
    /// After the last.
    pub to: Section,
    /// The address at which the agent is reached.
    pub address: ServedAt,
    /// The owner's number: of two routes that contradict each other the one with the higher counts.
    pub g: Generation,
}
