//! `<serial file>.generators`: the names that an agent served, so that it serves them after a restart without any master, and can show those
//! that were retired.

use super::companion::{keep_beside, read_beside, record, records};
use common::envelope::{EnvelopeError, Kind};
use common::namespace::Namespace;
use common::parameters::ClusterId;
use std::io;
use std::path::Path;
use wire::lease::{NAMESPACES_PAGE_MAX, NameState, Registered};

/// A record of the log: the cluster, how many names the file has, and [`NAMESPACES_PAGE_MAX`] of them at most. Names that a former version kept are asked for anew.
const RECORD: Kind = Kind { name: *b"NAMS", version: 7 };
/// The longest file, in bytes, far above as many names as an agent knows. Nothing beyond it is ever read.
const FILE_LEN_MAX: usize = 128 << 20;

/// The names as they are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptNames {
    /// The cluster that knows them by these definitions.
    pub cluster: Option<ClusterId>,
    pub names: Vec<Registered>,
}

/// The names that the agent of that serial file has learned and keeps beside it; none if it has none yet.
///
/// # Errors
/// The reason why they cannot be read.
pub fn kept_names(serial_file: &Path) -> Result<Vec<Namespace>, String> {
    let names = KeptNames::read(serial_file)?.map(|kept| kept.names).unwrap_or_default();
    let served = names.into_iter().filter(|one| one.state == NameState::InUse);
    Ok(served.map(|one| one.namespace).collect())
}

impl KeptNames {
    /// All that is kept beside that serial file, if something is.
    ///
    /// # Errors
    /// The reason why it cannot be read.
    pub fn read(serial_file: &Path) -> Result<Option<Self>, String> {
        read_beside(serial_file, |place| &place.names, FILE_LEN_MAX, Self::decode)
    }

    /// Keeps them beside that serial file, durable when this returns.
    ///
    /// # Errors
    /// The reason why it is not kept.
    pub fn write(&self, serial_file: &Path) -> Result<(), String> {
        keep_beside(serial_file, |place| &place.names, self.encode())
    }

    pub(super) fn encode(&self) -> io::Result<Vec<u8>> {
        let of = (self.cluster, self.names.len() as u64);
        let mut pages: Vec<_> = self.names.chunks(NAMESPACES_PAGE_MAX).collect();
        if pages.is_empty() {
            // One that says that there are none.
            pages.push(&[]);
        }
        let records: io::Result<Vec<_>> = (0..).zip(pages).map(|(nth, page)| record(RECORD, &of, nth, page)).collect();
        Ok(records?.concat())
    }

    /// Reads all that a file says, or nothing of it.
    fn decode(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        let mut names = Vec::new();
        match records::<(Option<ClusterId>, u64), _>(RECORD, bytes, |page: Vec<Registered>| names.extend(page))? {
            Some((cluster, len)) if len == names.len() as u64 => Ok(Self { cluster, names }),
            _ => Err(EnvelopeError::Length { found: bytes.len() }),
        }
    }
}
