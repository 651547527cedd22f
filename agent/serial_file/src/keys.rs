//! `<serial file>.keys`: the API keys for agents, as hashes, so that an agent knows them after a restart without any master.

use super::companion::{keep_beside, read_beside, record, records};
use common::envelope::{EnvelopeError, Kind};
use common::parameters::ClusterId;
use std::path::Path;
use wire::lease::AgentKeys;

const RECORD: Kind = Kind { name: *b"AKEY", version: 2 };
/// The longest file, in bytes, far above as many keys as there may be. Nothing beyond it is ever read.
const FILE_LEN_MAX: usize = 4 << 20;

/// The keys as they are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptKeys {
    /// The cluster whose keys they are.
    pub cluster: ClusterId,
    pub keys: AgentKeys,
}

impl KeptKeys {
    /// Those that are kept beside that serial file, if some are.
    ///
    /// # Errors
    /// The reason why they cannot be read.
    pub fn read(serial_file: &Path) -> Result<Option<Self>, String> {
        read_beside(serial_file, |place| &place.keys, FILE_LEN_MAX, Self::decode)
    }

    /// Keeps them beside that serial file, durable when this returns.
    ///
    /// # Errors
    /// The reason why they are not kept.
    pub fn write(&self, serial_file: &Path) -> Result<(), String> {
        keep_beside(serial_file, |place| &place.keys, record(RECORD, &self.cluster, 0, &self.keys))
    }

    fn decode(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        let mut kept = None;
        let cluster = records::<ClusterId, _>(RECORD, bytes, |keys: AgentKeys| kept = Some(keys))?;
        match (cluster, kept) {
            (Some(cluster), Some(keys)) => Ok(Self { cluster, keys }),
            _ => Err(EnvelopeError::Length { found: bytes.len() }),
        }
    }
}
