//! The proof that nobody else touched the serial file.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use common::lease::Grant;
use common::terms::{ClusterId, Terms};
use serde::{Deserialize, Serialize};

/// What the holder of the file holds besides its marks; durable in `<serial file>.lineage`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holdings {
    /// The cluster it belongs to, once known.
    pub cluster: Option<ClusterId>,
    /// That cluster's parameters, once known.
    pub terms: Option<Terms>,
    /// Its leases.
    pub leases: Vec<Grant>,
    /// The number of its newest renewal.
    pub rseq: u64,
}

/// What a start makes of another boot id (`--after-reboot`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AfterReboot {
    /// A reboot ends the session: the disk may be a clone whose original lives on.
    #[default]
    Fresh,
    /// A reboot does not end it. Safe only where disks are never cloned.
    Resume,
}

/// Why a start does not continue the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FreshReason {
    /// There is no lineage file: this is the first start after `--format`, or it was removed.
    NoLineage,
}

/// Whether a start continues the session of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartKind {
    /// Nobody but us touched the file: same session, same tokens, on at the durable marks.
    Resumed,
    /// A new session, with new tokens; the marks are kept.
    Fresh(FreshReason),
}
