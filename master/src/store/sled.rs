//! The store on disk: sled, made durable.
//!
//! sled's `flush` ends in `sync_file_range`, which leaves the disk's write cache and the file's metadata alone; so every
//! commit is followed by an `fdatasync` of sled's log through a handle of our own. A damaged sled can open as an empty or
//! an older database without an error; so every commit also writes how many records there are, and a small file beside
//! it, the anchor, keeps the number of the last change. A store that holds less than either says is refused.
//!
//! ```text
//! DATA_DIR/ledger/sled/    sled's own
//! DATA_DIR/ledger/anchor   one ANCH record: the numbers of the last durable change and of the last commit
//! DATA_DIR/ledger/lineage  the kernel's view of the anchor after its last write (`lineage.rs`)
//! DATA_DIR/reserve         room for a start on a full disk
//! ```

use super::lineage::LineageFile;
use super::record::{self, Meta};
use super::reserve::{self, Reserve};
use super::{Audit, Draft, Room, Store, StoreError, debris, engine, io};
use crate::lease::{Loaded, Write};
use common::envelope::{EnvelopeError, Kind, decode, encode};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The sub-directory of the data directory that holds the store.
pub(super) const LEDGER_DIR: &str = "ledger";
/// The sub-directory in which a new store is made before it is renamed into place.
const LEDGER_NEW_DIR: &str = "ledger.new";
/// The sub-directory of that which sled has to itself.
const SLED_DIR: &str = "sled";
/// Name of sled's log file.
const LOG_FILE: &str = "db";
/// The number of the last durable change, beside sled.
const ANCHOR_FILE: &str = "anchor";
const ANCHOR: Kind = Kind { name: *b"ANCH", version: 2 };
/// The anchor of a store without a lineage: the number of the last durable change alone.
const ANCHOR_1: Kind = Kind { name: *b"ANCH", version: 1 };
const ANCHOR_LEN_MAX: u64 = 64;
/// Attempts to open a locked store, and the pause between them.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(100);
/// Size of sled's cache, in bytes. Everything is read once, at the start, into the ledger; later only leaves that are
/// written, and the audit.
const CACHE_BYTES: u64 = 16 << 20;

/// A ledger's records on disk.
pub struct DiskStore {
    db: sled::Db,
    log: File,
    anchor: File,
    lineage: LineageFile,
    /// Counts the commits; `None` in a store that was written without a lineage.
    commits: Option<u64>,
    meta: Meta,
    reserve: Reserve,
}

/// Keeps every process from opening the store, without opening it, until what is returned is dropped. `None` if there is
/// nothing to lock.
///
/// # Errors
/// [`StoreError::Locked`].
pub(super) fn hold(dir: &Path) -> Result<Option<File>, StoreError> {
    let Ok(log) = File::open(dir.join(LEDGER_DIR).join(SLED_DIR).join(LOG_FILE)) else { return Ok(None) };
    flock(&log, FlockOperation::NonBlockingLockExclusive)
        .map_err(|e| StoreError::Locked { dir: dir.to_owned(), why: e.to_string() })?;
    Ok(Some(log))
}

/// Files that unfinished writes left in a store; the next start removes them.
///
/// # Errors
/// If its folder cannot be read.
pub(super) fn leftovers(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let sled = dir.join(LEDGER_DIR).join(SLED_DIR);
    if sled.is_dir() { debris::find(&sled) } else { Ok(Vec::new()) }
}

impl DiskStore {
    fn opened(dir: &Path, ledger: &Path) -> Result<Self, StoreError> {
        let config = sled::Config::new().path(ledger.join(SLED_DIR)).flush_every_ms(None).cache_capacity(CACHE_BYTES);
        debris::clear(&ledger.join(SLED_DIR), &ledger.join(SLED_DIR).join(LOG_FILE))?;
        let mut patience = LOCK_TRIES;
        let db = loop {
            // sled panics on some damaged logs.
            let opened = catch_unwind(AssertUnwindSafe(|| config.open())).map_err(|_| StoreError::Damaged {
                dir: dir.to_owned(),
                why: "the engine cannot open it".to_owned(),
            })?;
            match opened {
                Ok(db) => break db,
                // A master that is just ending may hold the lock for a moment longer.
                Err(sled::Error::Io(e)) if in_use(&e) && patience > 0 => {
                    patience -= 1;
                    std::thread::sleep(LOCK_PAUSE);
                }
                Err(sled::Error::Io(e)) if in_use(&e) => {
                    return Err(StoreError::Locked { dir: dir.to_owned(), why: e.to_string() });
                }
                Err(sled::Error::Io(source)) => {
                    return Err(StoreError::Io { what: "open", path: ledger.to_owned(), source });
                }
                Err(other) => return Err(StoreError::Damaged { dir: dir.to_owned(), why: other.to_string() }),
            }
        };
        let open = |path: PathBuf| {
            let file = File::options().read(true).write(true).open(&path);
            file.map_err(|source| StoreError::Io { what: "open", path, source })
        };
        let log = open(ledger.join(SLED_DIR).join(LOG_FILE))?;
        let anchor = open(ledger.join(ANCHOR_FILE))?;
        let lineage = LineageFile::open(ledger);
        let (commits, meta, reserve) = (None, Meta::default(), Reserve::of(dir));
        Ok(Self { db, log, anchor, lineage, commits, meta, reserve })
    }
}

/// The audit of a store on disk.
#[derive(Clone)]
pub struct DiskAudit {
    db: sled::Db,
}

impl Audit for DiskAudit {
    fn rows(&self, range: Range<Vec<u8>>) -> impl DoubleEndedIterator<Item = Result<(Vec<u8>, Vec<u8>), StoreError>> {
        let row = |(key, value): (sled::IVec, sled::IVec)| (key.to_vec(), value.to_vec());
        self.db.range(range).map(move |found| found.map(row).map_err(engine))
    }
}

/// A store on disk that is being made.
pub struct DiskDraft {
    dir: PathBuf,
    store: DiskStore,
}

impl Draft for DiskDraft {
    fn commit(&mut self, writes: &[Write], lsn: u64) -> Result<(), StoreError> {
        self.store.commit(writes, lsn)
    }

    fn publish(self) -> Result<(), StoreError> {
        let Self { dir, store } = self;
        drop(store);
        let (new, ledger) = (dir.join(LEDGER_NEW_DIR), dir.join(LEDGER_DIR));
        // 1. The new store's own directory entries. 2. Its name. After 1 a crash leaves no store, after 2 a whole one.
        sync_dir(&new.join(SLED_DIR))?;
        sync_dir(&new)?;
        std::fs::rename(&new, &ledger).map_err(io("create", &ledger))?;
        sync_dir(&dir)
    }
}

impl Store for DiskStore {
    type Location = Path;
    type Draft = DiskDraft;
    type Audit = DiskAudit;

    fn vacant(dir: &Path) -> Result<(), StoreError> {
        if dir.join(LEDGER_DIR).exists() { Err(StoreError::Exists(dir.to_owned())) } else { Ok(()) }
    }

    fn draft(dir: &Path) -> Result<DiskDraft, StoreError> {
        let new = dir.join(LEDGER_NEW_DIR);
        Self::vacant(dir)?;
        std::fs::create_dir_all(dir).map_err(io("create", dir))?;
        // Left over from a draft that was never published.
        if new.exists() {
            std::fs::remove_dir_all(&new).map_err(io("remove", &new))?;
        }
        let sled = new.join(SLED_DIR);
        std::fs::create_dir_all(&sled).map_err(io("create", &sled))?;
        let anchor = new.join(ANCHOR_FILE);
        File::create_new(&anchor).map_err(io("create", &anchor))?;
        Ok(DiskDraft { dir: dir.to_owned(), store: Self::opened(dir, &new)? })
    }

    fn open(dir: &Path) -> Result<(Self, Loaded), StoreError> {
        let ledger = dir.join(LEDGER_DIR);
        if !ledger.exists() {
            return Err(StoreError::Missing(dir.to_owned()));
        }
        let owner = std::fs::metadata(&ledger).map_err(io("look at", &ledger))?.uid();
        let me = rustix::process::geteuid().as_raw();
        if owner != me {
            return Err(StoreError::OtherUser { dir: dir.to_owned(), owner, me });
        }
        let damaged = |why: String| StoreError::Damaged { dir: dir.to_owned(), why };
        // sled would make an empty database here, and an empty ledger grants everything again.
        for file in [ledger.join(SLED_DIR).join(LOG_FILE), ledger.join(ANCHOR_FILE)] {
            if !file.is_file() {
                return Err(damaged(format!("{} is gone", file.display())));
            }
        }
        let own = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(&ledger, own).map_err(io("make private", &ledger))?;
        reserve::make_room_for_a_start(dir)?;
        let mut store = match Self::opened(dir, &ledger) {
            // Filled up since we looked, or there is a quota that only the write meets.
            Err(StoreError::Io { source, .. }) if is_full(&source) => {
                reserve::give_up(dir);
                Self::opened(dir, &ledger)?
            }
            opened => opened?,
        };
        if let Ok(Some(meta)) = store.db.get(record::META_KEY)
            && let Err(EnvelopeError::Version { found, known }) = record::read_meta(&meta)
        {
            return Err(StoreError::OtherVersion { dir: dir.to_owned(), found, known });
        }
        let rows = store.db.iter().map(|row| match row {
            Ok((key, value)) => Ok((key.to_vec(), value.to_vec())),
            Err(e) => Err(e.to_string()),
        });
        let loaded = catch_unwind(AssertUnwindSafe(|| record::load(rows)))
            .unwrap_or_else(|_| Err("the engine cannot read it".to_owned()));
        let (loaded, meta) = loaded.map_err(damaged)?;
        let mut anchor = Vec::new();
        (&store.anchor)
            .take(ANCHOR_LEN_MAX)
            .read_to_end(&mut anchor)
            .map_err(|e| damaged(format!("the anchor: {e}")))?;
        let (anchor, commits) = read_anchor(&anchor).map_err(|e| damaged(format!("the anchor: {e}")))?;
        if loaded.lsn < anchor {
            return Err(damaged(format!("it ends at change {}, but change {anchor} was made durable", loaded.lsn)));
        }
        (store.meta, store.commits) = (meta, commits);
        let proven = store.lineage.proves(&store.anchor, commits).and(loaded.proven);
        Ok((store, Loaded { proven, ..loaded }))
    }

    fn audit(&self) -> DiskAudit {
        DiskAudit { db: self.db.clone() }
    }

    fn commit(&mut self, writes: &[Write], lsn: u64) -> Result<(), StoreError> {
        let mut batch = sled::Batch::default();
        let mut pending: std::collections::BTreeMap<Vec<u8>, bool> = std::collections::BTreeMap::new();
        let mut meta = Meta { lsn, ..self.meta };
        for (key, value) in record::changes(writes, &mut meta.audit).map_err(engine)? {
            if let Some(what) = record::counted(&key) {
                let there = match pending.get(&key) {
                    Some(there) => *there,
                    None => self.db.contains_key(&key).map_err(engine)?,
                };
                let count = meta.count(what);
                *count = count.saturating_add((value.is_some() && !there).into());
                *count = count.saturating_sub((value.is_none() && there).into());
            }
            pending.insert(key.clone(), value.is_some());
            match value {
                Some(value) => batch.insert(key, value),
                None => batch.remove(key),
            }
        }
        let bytes = record::meta_bytes(&meta).map_err(engine)?;
        batch.insert(record::META_KEY, bytes);
        // 1. One atomic batch in sled's log. 2. The log to the kernel. 3. The kernel's pages and the file's length to
        // the disk. Before 3 a crash shows all of the batch or nothing; nobody was told of it yet either way.
        self.lineage.begin();
        self.db.apply_batch(batch).map_err(engine)?;
        self.db.flush().map_err(engine)?;
        let io = |file| io("make durable", Path::new(file));
        self.log.sync_data().map_err(io(LOG_FILE))?;
        // 4. The anchor, in place (its few bytes share a sector), never ahead of the log. After a crash before it the
        // store is longer than the anchor says, which is fine.
        let commits = self.commits.unwrap_or_default().saturating_add(1);
        let anchor = encode(ANCHOR, &(lsn, commits)).map_err(engine)?;
        self.anchor.write_all_at(&anchor, 0).and_then(|()| self.anchor.sync_data()).map_err(io(ANCHOR_FILE))?;
        // 5. What the anchor looks like now. After a crash before it the lineage still says that a commit had begun.
        self.lineage.done(&self.anchor, commits);
        (self.meta, self.commits) = (meta, Some(commits));
        Ok(())
    }

    fn room(&mut self) -> Room {
        self.reserve.room()
    }
}

fn is_full(e: &std::io::Error) -> bool {
    matches!(e.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

/// The last durable change, and the number of commits.
fn read_anchor(bytes: &[u8]) -> Result<(u64, Option<u64>), EnvelopeError> {
    match decode::<(u64, u64)>(ANCHOR, bytes) {
        Ok((lsn, commits)) => Ok((lsn, Some(commits))),
        Err(EnvelopeError::Version { .. }) => decode(ANCHOR_1, bytes).map(|lsn| (lsn, None)),
        Err(e) => Err(e),
    }
}

/// sled wraps a lock that is taken in an error of kind `Other`.
fn in_use(e: &std::io::Error) -> bool {
    matches!(e.kind(), std::io::ErrorKind::Other | std::io::ErrorKind::WouldBlock)
}

fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    common::file::sync_folder(dir).map_err(|source| StoreError::Io {
        what: "make durable",
        path: dir.to_owned(),
        source,
    })
}
