//! The file beside the serial file in which an agent keeps the names that it served, so that it serves them after a restart without any
//! master, and can show those that were retired.

use common::envelope::{self, EnvelopeError, Kind};
use common::namespace::Namespace;
use common::parameters::ClusterId;
use common::rpc::lease::{NAMESPACES_PAGE_MAX, NameState, Registered};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The record that is kept, in parts of so many names: an envelope has a bound. Each follows its length in bytes (u32, little-endian). Names that a
/// former version kept are asked for anew.
const KEPT: Kind = Kind { name: *b"NAMS", version: 6 };
const KEPT_PART_MAX: usize = NAMESPACES_PAGE_MAX;
/// Its owner's alone, as the serial file is.
const KEPT_MODE: u32 = 0o600;
const KEPT_SUFFIX: &str = ".generators";

/// The names as they are kept.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The cluster that knows them by these definitions.
    pub(super) cluster: Option<ClusterId>,
    /// True if a further part follows.
    more: bool,
    pub(super) names: Vec<Registered>,
}

/// The names that the agent of that serial file has learned and keeps beside it; none if it has none yet.
///
/// # Errors
/// The reason why they cannot be read.
pub fn kept_names(serial_file: &Path) -> Result<Vec<Namespace>, String> {
    let names = recalled(&kept_at(serial_file))?.map(|kept| kept.names).unwrap_or_default();
    let served = names.into_iter().filter(|one| one.state == NameState::InUse);
    Ok(served.map(|one| one.namespace).collect())
}

/// All that the file at `path` says, if there is one.
///
/// # Errors
/// The reason why it cannot be read.
pub(super) fn recalled(path: &Path) -> Result<Option<Kept>, String> {
    let told = |e: &dyn std::fmt::Display| format!("the names in {} cannot be read: {e}", path.display());
    match std::fs::read(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        read => kept_in(&read.map_err(|e| told(&e))?).map(Some).map_err(|e| told(&e)),
    }
}

pub(super) fn kept_at(serial_file: &Path) -> PathBuf {
    let mut path = serial_file.as_os_str().to_owned();
    path.push(KEPT_SUFFIX);
    path.into()
}

/// Reads all that a file says, or nothing of it.
fn kept_in(bytes: &[u8]) -> Result<Kept, EnvelopeError> {
    let cut = || EnvelopeError::Length { found: bytes.len() };
    let mut all: Option<Kept> = None;
    let mut rest = bytes;
    while let Some((len, tail)) = rest.split_first_chunk() {
        let len = usize::try_from(u32::from_le_bytes(*len)).map_err(|_| cut())?;
        let (part, tail) = tail.split_at_checked(len).ok_or_else(cut)?;
        let Kept { cluster, more, names } = envelope::decode(KEPT, part)?;
        match &mut all {
            Some(all) if all.more && all.cluster == cluster => {
                all.names.extend(names);
                all.more = more;
            }
            Some(_) => return Err(cut()),
            None => all = Some(Kept { cluster, more, names }),
        }
        rest = tail;
    }
    all.filter(|all| rest.is_empty() && !all.more).ok_or_else(cut)
}

fn kept_bytes(cluster: Option<ClusterId>, names: &[Registered]) -> Result<Vec<u8>, EnvelopeError> {
    let (mut bytes, mut rest) = (Vec::new(), names);
    loop {
        let (part, after) = rest.split_at(rest.len().min(KEPT_PART_MAX));
        let part = envelope::encode(KEPT, &Kept { cluster, more: !after.is_empty(), names: part.to_vec() })?;
        bytes.extend(u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(part);
        if after.is_empty() {
            return Ok(bytes);
        }
        rest = after;
    }
}

pub(super) fn keep(path: &Path, cluster: Option<ClusterId>, names: &[Registered]) -> std::io::Result<()> {
    let bytes = kept_bytes(cluster, names).map_err(std::io::Error::other)?;
    common::file::replace(path, KEPT_MODE, &bytes)
}
