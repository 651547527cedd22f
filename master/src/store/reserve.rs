//! Room on the disk: how much there must be, and a file beside the store that keeps some of it.
//!
//! Below [`ROOM_MIN`] the ledger stands still, as if its process were stopped for a while: nothing is promised that may find no
//! room, and what was promised is on the disk. A start writes too (sled puts the end of its log in order, and makes a new index):
//! if the disk has become full meanwhile, the reserve is given up for that, and made again when there is room.

use super::{Room, StoreError, io};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Room on the disk, in bytes, below which the ledger stands still: several times what one commit may write.
pub const ROOM_MIN: u64 = 8 << 20;
/// Room, in bytes, that the disk must have before the ledger goes on, so that it does not stop and go.
const ROOM_AGAIN: u64 = 2 * ROOM_MIN;
/// Bytes that a start may write.
pub const START_ROOM: u64 = 4 << 20;
/// Bytes that the reserve keeps.
pub const RESERVE_LEN: u64 = 8 << 20;
/// Name of the reserve in the data directory.
const RESERVE_FILE: &str = "reserve";
/// Bytes written at once where a file system cannot set room apart without writing.
const CHUNK: usize = 1 << 16;

/// The room in a data directory.
#[derive(Debug)]
pub(super) struct Reserve {
    dir: PathBuf,
    kept: bool,
    scarce: bool,
}

/// Bytes that this process may still write to the disk under `dir`.
///
/// # Errors
/// An error of the operating system.
pub fn free(dir: &Path) -> Result<u64, StoreError> {
    let seen = statvfs(dir).map_err(|e| io("look at", dir)(e.into()))?;
    Ok(seen.f_bavail.saturating_mul(seen.f_frsize))
}

/// Makes sure that a start finds room: gives the reserve up if need be.
///
/// # Errors
/// [`StoreError::NoRoom`] if that is not enough.
pub(super) fn make_room_for_a_start(dir: &Path) -> Result<(), StoreError> {
    if free(dir)? >= START_ROOM {
        return Ok(());
    }
    give_up(dir);
    match free(dir)? {
        enough if enough >= START_ROOM => Ok(()),
        free => Err(StoreError::NoRoom { dir: dir.to_owned(), free, needed: START_ROOM }),
    }
}

/// Gives the room of the reserve back to the disk.
pub(super) fn give_up(dir: &Path) {
    let file = dir.join(RESERVE_FILE);
    if std::fs::remove_file(&file).is_ok() {
        tracing::warn!(file = %file.display(), "the disk is full: the reserve is given up");
        // Some file systems have the room only after their journal is written.
        let _ = common::file::sync_folder(dir);
    }
}

impl Reserve {
    /// Looks after the reserve of the store in `dir`.
    pub(super) fn of(dir: &Path) -> Self {
        let whole = std::fs::metadata(dir.join(RESERVE_FILE)).is_ok_and(|file| file.len() == RESERVE_LEN);
        Self { dir: dir.to_owned(), kept: whole, scarce: false }
    }

    /// The room there is now; makes the reserve if it is missing and there is plenty.
    pub(super) fn room(&mut self) -> Room {
        // A file system that does not answer that question does not fill up either, as far as we can know.
        let Ok(free) = free(&self.dir) else { return Room::Enough { free: u64::MAX } };
        if !self.kept && free >= RESERVE_LEN + ROOM_AGAIN {
            // Whatever keeps it from being made: there is room without it.
            self.kept = true;
            if let Err(error) = self.keep() {
                tracing::warn!(%error, "no room could be set apart for starts on a full disk");
            }
        }
        self.scarce = free < if self.scarce { ROOM_AGAIN } else { ROOM_MIN };
        if self.scarce { Room::Scarce { free } } else { Room::Enough { free } }
    }

    fn keep(&self) -> Result<(), StoreError> {
        let path = self.dir.join(RESERVE_FILE);
        let file = File::create(&path).map_err(io("create", &path))?;
        let made = match fallocate(&file, FallocateFlags::empty(), 0, RESERVE_LEN) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => write_out(&file),
            done => done.map_err(std::io::Error::from),
        };
        made.map_err(|e| {
            let _ = std::fs::remove_file(&path);
            io("set room apart in", &path)(e)
        })
    }
}

fn write_out(mut file: &File) -> std::io::Result<()> {
    let zeros = vec![0; CHUNK];
    let chunks = RESERVE_LEN.div_ceil(CHUNK as u64);
    (0..chunks).try_for_each(|_| file.write_all(&zeros))?;
    file.set_len(RESERVE_LEN)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_kept_given_up_and_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(RESERVE_FILE);
        let mut reserve = Reserve::of(dir.path());
        assert!(matches!(reserve.room(), Room::Enough { .. }), "this test needs some room");
        assert_eq!(std::fs::metadata(&file).unwrap().len(), RESERVE_LEN);
        give_up(dir.path());
        assert!(!file.exists());
        give_up(dir.path());
        // Cut short by a kill in the midst of making it.
        std::fs::write(&file, "short").unwrap();
        let mut reserve = Reserve::of(dir.path());
        reserve.room();
        assert_eq!(std::fs::metadata(&file).unwrap().len(), RESERVE_LEN);
        assert!(make_room_for_a_start(dir.path()).is_ok() && file.exists());
    }

    #[test]
    fn a_folder_that_cannot_be_looked_at_is_an_error() {
        assert!(free(Path::new("/nowhere/at/all")).is_err());
    }
}
