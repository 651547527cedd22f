//! A store's contents.

use super::event::{Identity, PeerObservations};
use crate::replication::lives::{Lives, Unproven};
use ids::account::{Login, SecretHash};
use ids::lease::{Caution, Lease, Prep};
use ids::namespace::GeneratorName;
use ids::segment::{MasterRun, Span};
use ids::sequence::SectionRecord;
use ids::setting::Setting;
use ids::time::WallMs;
use ids::token::TokenKey;

/// The contents of a store when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub identity: Identity,
    /// The last durable change.
    pub lsn: u64,
    pub permit_out: Option<WallMs>,
    pub observed: PeerObservations,
    pub lives: Lives,
    /// The proof that this is the store that this master last wrote, untouched: no copy, not put back, not on another
    /// disk; and that it met the other master since it was last not so.
    pub proven: Result<(), Unproven>,
    pub caution: Caution,
    pub leases: Vec<(TokenKey, Lease)>,
    pub preps: Vec<Prep>,
    pub settings: Vec<Setting>,
    pub setting_preps: Vec<Setting>,
    /// The run that this store belonged to; `None` if it never had one, or an operator's word ended it.
    pub run: Option<MasterRun>,
    /// The places that runs of this master had left of their extents.
    pub cursors: Vec<(MasterRun, GeneratorName, Vec<Span>)>,
    /// Sections, each with what the other master holds of its `max_seq`.
    pub sections: Vec<(SectionRecord, u64)>,
    /// Proposals of sections without confirmation.
    pub section_preps: Vec<SectionRecord>,
    /// True once they were cut for the replacement that is awaited.
    pub sections_cut: bool,
    /// Logins at this master's console. The ledger has no part in it.
    pub logins: Vec<(SecretHash, Login)>,
}
