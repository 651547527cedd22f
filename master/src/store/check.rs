//! `--check-store`: what a store holds, without changing it.
//!
//! The engine cannot open a store without writing to it, so a copy in a folder for temporary files is opened instead; meanwhile
//! the store is locked, so that no master starts on it.

use super::reserve::{self, START_ROOM};
use super::sled::{LEDGER_DIR, hold, leftovers};
use super::{Audit as _, Store as _, StoreError, io, open};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The findings of a check.
#[derive(Debug)]
pub struct Report {
    /// The master, its cluster, and the last change of its ledger.
    pub lines: Vec<String>,
    /// Leftovers of writes that never finished; the next start removes them.
    pub debris: Vec<PathBuf>,
    /// The reason why a start would refuse the store.
    pub damage: Option<StoreError>,
}

/// Looks at the store in `dir` and changes nothing.
///
/// # Errors
/// [`StoreError::Missing`], [`StoreError::Locked`], or if it cannot be read or copied.
pub fn check(dir: &Path) -> Result<Report, StoreError> {
    let ledger = dir.join(LEDGER_DIR);
    if !ledger.exists() {
        return Err(StoreError::Missing(dir.to_owned()));
    }
    let mut lines = vec![format!("store: {}", dir.display())];
    // To the end of this function.
    let _held = hold(dir)?;
    let free = reserve::free(dir)?;
    let enough = if free < START_ROOM { ": too little for a start" } else { "" };
    lines.push(format!("room on its disk: {} KiB{enough}", free >> 10));
    let debris = leftovers(dir)?;
    let copy = Copy::of(&ledger)?;
    let damage = match open(&copy.0) {
        Ok((store, loaded)) => {
            let identity = &loaded.identity;
            let cluster = identity.cluster.map_or_else(|| "no cluster yet".to_owned(), |it| format!("cluster {it}"));
            lines.push(format!("master {} of {cluster}, pairing {}", identity.master, identity.pair_epoch));
            let leases = loaded.leases.len();
            let sections: u64 = loaded.sections.iter().map(|(record, _)| u64::from(record.range.len())).sum();
            lines.push(format!("last change: {}; leases: {leases}; sections of sequences: {sections}", loaded.lsn));
            let audit = store.audit();
            match audit.head().and_then(|head| audit.verify(head)) {
                Ok(count) => {
                    lines.push(format!("audit: whole, {count} lines"));
                    None
                }
                Err(why) => Some(StoreError::Damaged { dir: dir.to_owned(), why: format!("the audit: {why}") }),
            }
        }
        Err(StoreError::Damaged { why, .. }) => Some(StoreError::Damaged { dir: dir.to_owned(), why }),
        Err(other) => return Err(other),
    };
    Ok(Report { lines, debris, damage })
}

/// A copy that is gone when this is dropped.
struct Copy(PathBuf);

impl Copy {
    fn of(ledger: &Path) -> Result<Self, StoreError> {
        let place = std::env::temp_dir().join(format!("uniq-check-store-{:032x}", rand::random::<u128>()));
        // A ledger holds hashes of passwords: nobody else's business.
        DirBuilder::new().mode(0o700).create(&place).map_err(io("create", &place))?;
        let copy = Self(place);
        copy_folder(ledger, &copy.0.join(LEDGER_DIR))?;
        Ok(copy)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), StoreError> {
    std::fs::create_dir(to).map_err(io("create", to))?;
    for entry in std::fs::read_dir(from).map_err(io("read", from))? {
        let path = entry.map_err(io("read", from))?.path();
        let Some(name) = path.file_name() else { continue };
        let target = to.join(name);
        if path.is_dir() {
            copy_folder(&path, &target)?;
        } else {
            std::fs::copy(&path, &target).map_err(io("copy", &path))?;
        }
    }
    Ok(())
}
