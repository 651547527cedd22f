//! Making the ledger's writes durable.
//!
//! One small trait, so that the ledger's rules do not know what carries them: [`sled::SledStore`] on disk, and
//! [`memory::MemoryStore`], its twin for tests, which can lose what was not committed.

pub mod audit;
pub mod check;
mod debris;
pub mod lineage;
pub mod memory;
pub mod record;
pub mod reserve;
pub mod sled;

use crate::lease::Write;
use std::path::{Path, PathBuf};

/// Where the ledger's records are kept.
pub trait Store: Send + 'static {
    /// Makes `writes` durable, all or none, in order, with the number of the last change. Returns only when a power
    /// failure would not lose them.
    ///
    /// # Errors
    /// Whatever keeps that from being certain. The caller must end the process: after a failed fsync nobody knows what
    /// is on the disk, and only a restart reads a known state.
    fn commit(&mut self, writes: &[Write], lsn: u64) -> Result<(), StoreError>;

    /// Whether there is room for further writes. While there is not, nothing may be asked to be written.
    fn room(&mut self) -> Room {
        Room::Enough { free: u64::MAX }
    }
}

/// The room on a store's disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Enough for whatever one commit may write.
    Enough {
        /// What is free.
        free: u64,
    },
    /// Too little.
    Scarce {
        /// What is free.
        free: u64,
    },
}

/// Why a store cannot be made, opened or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is none.
    #[error(
        "no master's store at {}. If this cluster ran before, do not format it anew: run `uniq_master --peer-lost` on the other \
         master, stopped, and --join here with the token that it prints. For the first start of a cluster make a store with \
         `uniq_master --format --data-dir {} --id 1` (or 2 on the other machine)",
        .0.display(), .0.display()
    )]
    Missing(PathBuf),
    /// There is one already.
    #[error("{} already holds a master's store; it is never overwritten. Give another --data-dir", .0.display())]
    Exists(PathBuf),
    /// Another process has it open.
    #[error("the store at {} is in use by another process: stop that master first ({why})", .dir.display())]
    Locked {
        /// The data directory.
        dir: PathBuf,
        /// What the system says.
        why: String,
    },
    /// What is there is not what was written.
    #[error(
        "the store at {} is damaged ({why}). It is not repaired: keep the directory for examination, and treat this \
         master's disk as lost",
        .dir.display()
    )]
    Damaged {
        /// The data directory.
        dir: PathBuf,
        /// What does not fit.
        why: String,
    },
    /// The disk is full.
    #[error(
        "the disk under {} is full: {} KiB are free, and a start needs {} KiB. Make room and start this master again; nothing \
         in its store was touched",
        .dir.display(), .free >> 10, .needed >> 10
    )]
    NoRoom {
        /// The data directory.
        dir: PathBuf,
        /// Bytes that are free.
        free: u64,
        /// Bytes that must be.
        needed: u64,
    },
    /// The system refused.
    #[error("cannot {what} {}: {source}", .path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The engine failed.
    #[error("the store failed: {0}")]
    Engine(String),
}

fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { what, path, source }
}
