//! Leftovers of writes that never finished, and how they are told from damage.
//!
//! sled writes a new index of its log as `snap.N.generating`, flushes it and renames it to `snap.N`. Where the disk is full, or
//! the process is killed in the midst of it, the first name stays, empty or cut short. At its next start sled takes any name
//! that begins with `snap.` for an index, this one too, and calls the whole store corrupt; without it sled goes on from the
//! index before and the log, which hold all that was ever made durable. So a file of that name is never part of the store.
//!
//! Other leftovers of a kill or a full disk need nothing from us:
//!
//! * the end of the log that was not written whole: sled finds by its checksums where it ends, and nobody was told of more;
//! * blobs past that end, which sled removes; an older `snap.N` beside a newer one, of which it takes the newer;
//! * an empty `conf`, which it writes anew;
//! * `ledger.new/`, a store that was never published, and `admin-password.new`: made anew by whoever needs them;
//! * a short `reserve`: [`super::reserve`] makes it anew; an empty `lineage`: then the start is not proven.
//!
//! Anything else that does not fit is damage.

use super::{StoreError, io};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::{Path, PathBuf};

const UNFINISHED_BEGIN: &str = "snap.";
const UNFINISHED_END: &str = ".generating";

/// The leftovers in sled's folder.
///
/// # Errors
/// If it cannot be read.
pub(super) fn find(sled: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(sled).map_err(io("read", sled))? {
        let entry = entry.map_err(io("read", sled))?;
        let name = entry.file_name();
        let unfinished =
            name.to_str().is_some_and(|name| name.starts_with(UNFINISHED_BEGIN) && name.ends_with(UNFINISHED_END));
        if unfinished && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Removes the leftovers, unless a running master has the log open: then they may be what it is writing.
///
/// # Errors
/// If one cannot be removed.
pub(super) fn clear(sled: &Path, log: &Path) -> Result<(), StoreError> {
    let found = find(sled)?;
    if found.is_empty() {
        return Ok(());
    }
    let log = File::open(log).map_err(io("open", log))?;
    // sled takes the same lock before it writes anything.
    if flock(&log, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(());
    }
    for file in found {
        tracing::info!(file = %file.display(), "left over from a write that never finished; removed");
        std::fs::remove_file(&file).map_err(io("remove", &file))?;
    }
    Ok(())
}
