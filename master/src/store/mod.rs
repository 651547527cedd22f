//! Making the ledger's writes durable.
//!
//! [`Store`] says all that the programs need of one: to make it whole or not at all, to open and read it, to commit, and to read
//! the audit meanwhile. [`DiskStore`] keeps it on disk; [`memory::MemoryStore`] is its twin for tests, which can lose what was
//! not committed. The programs name neither: [`vacant`], [`draft`] and [`open`] say which one they use, and nothing but this
//! room knows its engine.

pub mod audit;
pub mod check;
mod debris;
pub mod lineage;
pub mod memory;
pub mod record;
pub mod reserve;
mod sled;

pub use self::sled::DiskStore;
use crate::lease::{Identity, Loaded, Write};
use audit::{Head, Line};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Checks that a store can be made in this data directory; changes nothing.
///
/// # Errors
/// See [`Store::vacant`].
pub fn vacant(dir: &Path) -> Result<(), StoreError> {
    DiskStore::vacant(dir)
}

/// Begins a new store in this data directory.
///
/// # Errors
/// See [`Store::draft`].
pub fn draft(dir: &Path) -> Result<impl Draft + use<>, StoreError> {
    DiskStore::draft(dir)
}

/// Opens the store in this data directory and reads it whole.
///
/// # Errors
/// See [`Store::open`].
pub fn open(dir: &Path) -> Result<(impl Store + use<>, Loaded), StoreError> {
    DiskStore::open(dir)
}

/// A place for the ledger's records. One process has it open at a time.
pub trait Store: Sized + Send + 'static {
    type Location: ?Sized;
    type Draft: Draft;
    type Audit: Audit;

    /// Checks that a store can be made there; changes nothing.
    ///
    /// # Errors
    /// [`StoreError::Exists`].
    fn vacant(place: &Self::Location) -> Result<(), StoreError>;

    /// Begins a new store. It is none until it is published.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if there is one; otherwise an error of the operating system.
    fn draft(place: &Self::Location) -> Result<Self::Draft, StoreError>;

    /// Makes the store of a new master, whole or not at all.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if there is one; otherwise an error of the operating system.
    fn format(place: &Self::Location, identity: Identity) -> Result<(), StoreError> {
        let mut draft = Self::draft(place)?;
        draft.commit(&[Write::Identity(identity)], 0)?;
        draft.publish()
    }

    /// Opens a store and reads it whole.
    ///
    /// # Errors
    /// [`StoreError::Missing`], [`StoreError::Locked`], [`StoreError::Damaged`], or what the system says.
    fn open(place: &Self::Location) -> Result<(Self, Loaded), StoreError>;

    /// A way to read the audit while the store is written.
    fn audit(&self) -> Self::Audit;

    /// Makes `writes` durable, all or none, in order, with the number of the last change. Returns only when a power
    /// failure would not lose them.
    ///
    /// # Errors
    /// The reason that keeps that from being certain. The caller must end the process: after a failed fsync nobody
    /// knows what is on the disk, and only a restart reads a known state.
    fn commit(&mut self, writes: &[Write], lsn: u64) -> Result<(), StoreError>;

    /// Tells whether there is room for further writes. While there is not, nothing may be asked to be written.
    fn room(&mut self) -> Room {
        Room::Enough { free: u64::MAX }
    }
}

/// A store that is being made.
pub trait Draft {
    /// Adds to it.
    ///
    /// # Errors
    /// See [`Store::commit`].
    fn commit(&mut self, writes: &[Write], lsn: u64) -> Result<(), StoreError>;

    /// Makes it the store of its place.
    ///
    /// # Errors
    /// An error of the operating system; then there is none.
    fn publish(self) -> Result<(), StoreError>;
}

/// The audit, to be read. What it shows is durable or about to be.
pub trait Audit: Clone + Send + Sync + 'static {
    /// The store's records with keys in `range`, ascending.
    fn rows(&self, range: Range<Vec<u8>>) -> impl DoubleEndedIterator<Item = Result<(Vec<u8>, Vec<u8>), StoreError>>;

    /// The lines after line number `last`, ascending, each with its bytes.
    fn lines_after(&self, last: u64) -> impl Iterator<Item = Result<(Line, Vec<u8>), StoreError>> {
        self.rows(record::audit_key(last.saturating_add(1))..vec![record::AUDIT_TAG + 1]).map(|row| {
            let (_, bytes) = row?;
            Ok((audit::read(&bytes).map_err(engine)?, bytes))
        })
    }

    /// The newest lines before line number `before`, at most `count`; and the number before which to look on, if that was not all.
    ///
    /// # Errors
    /// An error of the engine, or a line that is none.
    fn newest(&self, before: Option<u64>, count: usize) -> Result<(Vec<Line>, Option<u64>), StoreError> {
        self.newest_of(before, count, count, |_| true)
    }

    /// The newest lines before line number `before` that `wanted` accepts, at most `count` of them, among `scan_max`; and the number
    /// before which to look on, if that was not all.
    ///
    /// # Errors
    /// An error of the engine, or a line that is none.
    fn newest_of(
        &self,
        before: Option<u64>,
        scan_max: usize,
        count: usize,
        wanted: impl Fn(&Line) -> bool,
    ) -> Result<(Vec<Line>, Option<u64>), StoreError> {
        let end = before.map_or_else(|| vec![record::AUDIT_TAG + 1], record::audit_key);
        let (mut lines, mut looked_at) = (Vec::new(), None);
        for row in self.rows(vec![record::AUDIT_TAG]..end).rev().take(scan_max) {
            let line = audit::read(&row?.1).map_err(engine)?;
            looked_at = Some(line.number);
            if wanted(&line) {
                lines.push(line);
            }
            if lines.len() >= count {
                break;
            }
        }
        Ok((lines, looked_at.filter(|number| *number > 1)))
    }

    /// The end of the chain, as the last commit wrote it.
    ///
    /// # Errors
    /// A sentence that says why that cannot be read.
    fn head(&self) -> Result<Head, String> {
        let key = record::META_KEY.to_vec();
        let meta = self.rows(key.clone()..[key, vec![0]].concat()).next().ok_or("the count of records is missing")?;
        let (_, meta) = meta.map_err(|e| e.to_string())?;
        Ok(record::read_meta(&meta).map_err(|e| e.to_string())?.audit)
    }

    /// Walks the whole chain, which ends at `head`; lines that were written since are left alone. Returns how many lines
    /// there are.
    ///
    /// # Errors
    /// A sentence that says what does not fit.
    fn verify(&self, head: Head) -> Result<u64, String> {
        let mut walk = audit::Walk::default();
        for row in self.rows(vec![record::AUDIT_TAG]..record::audit_key(head.number.saturating_add(1))) {
            let (key, bytes) = row.map_err(|e| e.to_string())?;
            let line = walk.step(&bytes)?;
            if key != record::audit_key(line.number) {
                return Err(format!("line {} stands under another's key", line.number));
            }
        }
        walk.end(head)
    }
}

/// The room on a store's disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Enough for whatever one commit may write.
    Enough {
        free: u64,
    },
    Scarce {
        free: u64,
    },
}

/// The reason why a store cannot be made, opened or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(
        "no master's store at {}. If this cluster ran before, do not format it anew: run `uniq_master --peer-lost` on the other \
         master, stopped, and --join here with the token that it prints. For the first start of a cluster make a store with \
         `uniq_master --format --data-dir {} --id 1` (or 2 on the other machine)",
        .0.display(), .0.display()
    )]
    Missing(PathBuf),
    #[error("{} already holds a master's store; it is never overwritten. Give another --data-dir", .0.display())]
    Exists(PathBuf),
    #[error("the store at {} is in use by another process: stop that master first ({why})", .dir.display())]
    Locked { dir: PathBuf, why: String },
    #[error(
        "the store at {} belongs to the user with the number {owner}, and this runs as {me}: that user could not open what it would \
         leave there. Run the same command as that user (runuser -u NAME -- uniq_master ...)",
        .dir.display()
    )]
    OtherUser { dir: PathBuf, owner: u32, me: u32 },
    #[error(
        "the store at {} has format {found}, and this program reads {known}: start the version that wrote it. No record of it was changed",
        .dir.display()
    )]
    OtherVersion { dir: PathBuf, found: u16, known: u16 },
    #[error(
        "the store at {} is damaged ({why}). It is not repaired: keep the directory for examination, and treat this \
         master's disk as lost",
        .dir.display()
    )]
    Damaged { dir: PathBuf, why: String },
    #[error(
        "the disk under {} is full: {} KiB are free, and a start needs {} KiB. Make room and start this master again; nothing \
         in its store was touched",
        .dir.display(), .free >> 10, .needed >> 10
    )]
    NoRoom { dir: PathBuf, free: u64, needed: u64 },
    #[error("cannot {what} {}: {source}", .path.display())]
    Io { what: &'static str, path: PathBuf, source: std::io::Error },
    #[error("the store failed: {0}")]
    Engine(String),
}

fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { what, path, source }
}

fn engine(e: impl std::fmt::Display) -> StoreError {
    StoreError::Engine(e.to_string())
}
