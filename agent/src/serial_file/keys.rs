//! `<serial file>.keys`: the API keys for agents, as hashes, so that an agent knows them after a restart without any master.

use super::companion::{record, records};
use super::disk::Access;
use super::start::resolve;
use super::{Place, SerialFileError, StepError};
use crate::serial_file::Disk;
use common::envelope::{EnvelopeError, Kind};
use common::parameters::ClusterId;
use common::rpc::lease::AgentKeys;
use std::fmt;
use std::io;
use std::path::Path;

const RECORD: Kind = Kind { name: *b"AKEY", version: 1 };
/// The longest file, in bytes, far above as many keys as there may be. Nothing beyond it is ever read.
const FILE_LEN_MAX: usize = 4 << 20;

/// The keys as they are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptKeys {
    /// The cluster whose keys they are.
    pub cluster: ClusterId,
    /// The keys.
    pub keys: AgentKeys,
}

impl KeptKeys {
    /// Those that are kept beside that serial file, if some are.
    ///
    /// # Errors
    /// The reason why they cannot be read.
    pub(crate) fn read(serial_file: &Path) -> Result<Option<Self>, String> {
        let told = |e: &dyn fmt::Display| format!("the API keys beside {} cannot be read: {e}", serial_file.display());
        let (place, disk) = match resolve(serial_file) {
            Err(SerialFileError::NoFolder(_)) => return Ok(None),
            found => found.map_err(|e| told(&e))?,
        };
        match place.keys.read(&disk, Access::Read, FILE_LEN_MAX) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            read => Self::decode(&read.map_err(|e| told(&e))?.1).map(Some).map_err(|e| told(&e)),
        }
    }

    /// Keeps them beside that serial file, durable when this returns.
    ///
    /// # Errors
    /// The reason why not; those that were kept before are kept, or these are already.
    pub(crate) fn write(&self, serial_file: &Path) -> Result<(), String> {
        let (place, disk) = resolve(serial_file).map_err(|e| e.to_string())?;
        self.write_on(&disk, &place).map_err(|e| e.to_string())
    }

    fn write_on<F>(&self, disk: &dyn Disk<File = F>, place: &Place) -> Result<(), StepError> {
        let bytes = place.keys.step("write", record(RECORD, &self.cluster, 0, &self.keys))?;
        place.keys.replace(disk, &bytes, true)?;
        place.keys.step("flush the folder of", disk.fsync_folder())
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
