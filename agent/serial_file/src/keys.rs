//! `<serial file>.keys`: the API keys for agents, as hashes, and what is revoked of certificates, so that an agent knows them after a restart
//! without any master.

use super::companion::{keep_beside, read_beside, record, records};
use common::envelope::{EnvelopeError, Kind};
use common::parameters::ClusterId;
use std::path::Path;
use wire::lease::AgentCredentials;

const RECORD: Kind = Kind { name: *b"AKEY", version: 3 };
/// The longest file, in bytes, far above as many of both as there may be. Nothing beyond it is ever read.
const FILE_LEN_MAX: usize = 4 << 20;

/// The list as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptCredentials {
    /// The cluster whose list it is.
    pub cluster: ClusterId,
    pub credentials: AgentCredentials,
}

impl KeptCredentials {
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
        keep_beside(serial_file, |place| &place.keys, record(RECORD, &self.cluster, 0, &self.credentials))
    }

    fn decode(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        let mut kept = None;
        let cluster = records::<ClusterId, _>(RECORD, bytes, |credentials: AgentCredentials| kept = Some(credentials))?;
        match (cluster, kept) {
            (Some(cluster), Some(credentials)) => Ok(Self { cluster, credentials }),
            _ => Err(EnvelopeError::Length { found: bytes.len() }),
        }
    }
}
