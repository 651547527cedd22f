//! The store on disk: sled, made durable.
//!
//! sled's `flush` ends in `sync_file_range`, which leaves the disk's write cache and the file's metadata alone; so every
//! commit is followed by an `fdatasync` of sled's log through a handle of our own. A damaged sled can open as an empty
//! database without an error; so every commit also writes how many records there are, and a store that holds less is
//! refused.

use super::record::{self, Counted, Meta};
use super::{Store, StoreError};
use crate::lease::ledger::Loaded;
use crate::lease::{Identity, Write};
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// The sub-directory of the data directory that sled has to itself.
const LEDGER_DIR: &str = "ledger";
/// Where a new store is made before it is renamed into place.
const LEDGER_NEW_DIR: &str = "ledger.new";
/// sled's log file inside it.
const LOG_FILE: &str = "db";
const CACHE_BYTES: u64 = 64 << 20;

/// A ledger's records on disk.
pub struct SledStore {
    db: sled::Db,
    log: File,
    meta: Meta,
}

impl SledStore {
    /// Makes the store of a new master in `dir`, whole or not at all.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if there is one; what the system says otherwise.
    pub fn format(dir: &Path, identity: Identity) -> Result<(), StoreError> {
        let (ledger, new) = (dir.join(LEDGER_DIR), dir.join(LEDGER_NEW_DIR));
        if ledger.exists() {
            return Err(StoreError::Exists(dir.to_owned()));
        }
        let io = |what, path: &Path| {
            let path = path.to_owned();
            move |source| StoreError::Io { what, path, source }
        };
        std::fs::create_dir_all(dir).map_err(io("create", dir))?;
        // Left over from a format that was cut off: it never was a store.
        if new.exists() {
            std::fs::remove_dir_all(&new).map_err(io("remove", &new))?;
        }
        let mut store = Self::engine(dir, &new)?;
        store.commit(&[Write::Identity(identity)], 0)?;
        drop(store);
        // 1. The new store's own directory entries. 2. Its name. After 1 a crash leaves no store, after 2 a whole one.
        sync_dir(&new)?;
        std::fs::rename(&new, &ledger).map_err(io("create", &ledger))?;
        sync_dir(dir)
    }

    /// Opens the store in `dir` and reads it whole.
    ///
    /// # Errors
    /// [`StoreError::Missing`], [`StoreError::Locked`], [`StoreError::Damaged`], or what the system says.
    pub fn open(dir: &Path) -> Result<(Self, Loaded), StoreError> {
        let ledger = dir.join(LEDGER_DIR);
        // sled would make an empty database here, and an empty ledger grants everything again.
        if !ledger.join(LOG_FILE).is_file() {
            let whole = !ledger.exists();
            let why = format!("{} is gone", ledger.join(LOG_FILE).display());
            return Err(if whole {
                StoreError::Missing(dir.to_owned())
            } else {
                StoreError::Damaged { dir: dir.to_owned(), why }
            });
        }
        let mut store = Self::engine(dir, &ledger)?;
        let rows = store.db.iter().map(|row| match row {
            Ok((key, value)) => Ok((key.to_vec(), value.to_vec())),
            Err(e) => Err(e.to_string()),
        });
        let loaded = catch_unwind(AssertUnwindSafe(|| record::load(rows)))
            .unwrap_or_else(|_| Err("the engine cannot read it".to_owned()));
        let (loaded, meta) = loaded.map_err(|why| StoreError::Damaged { dir: dir.to_owned(), why })?;
        store.meta = meta;
        Ok((store, loaded))
    }

    fn engine(dir: &Path, ledger: &Path) -> Result<Self, StoreError> {
        let config = sled::Config::new().path(ledger).flush_every_ms(None).cache_capacity(CACHE_BYTES);
        // sled panics on some damaged logs.
        let db = catch_unwind(AssertUnwindSafe(|| config.open()))
            .map_err(|_| StoreError::Damaged { dir: dir.to_owned(), why: "the engine cannot open it".to_owned() })?;
        let db = db.map_err(|e| match e {
            sled::Error::Io(e)
                if e.kind() == std::io::ErrorKind::Other || e.kind() == std::io::ErrorKind::WouldBlock =>
            {
                StoreError::Locked { dir: dir.to_owned(), why: e.to_string() }
            }
            sled::Error::Io(source) => StoreError::Io { what: "open", path: ledger.to_owned(), source },
            other => StoreError::Damaged { dir: dir.to_owned(), why: other.to_string() },
        })?;
        let path = ledger.join(LOG_FILE);
        let log = File::options().read(true).write(true).open(&path).map_err(|source| StoreError::Io {
            what: "open",
            path,
            source,
        })?;
        Ok(Self { db, log, meta: Meta::default() })
    }
}

impl Store for SledStore {
    fn commit(&mut self, writes: &[Write], lsn: u64) -> Result<(), StoreError> {
        let engine = |e: sled::Error| StoreError::Engine(e.to_string());
        let mut batch = sled::Batch::default();
        let mut pending: std::collections::BTreeMap<Vec<u8>, bool> = std::collections::BTreeMap::new();
        let mut meta = Meta { lsn, ..self.meta };
        for (key, value) in record::changes(writes).map_err(|e| StoreError::Engine(e.to_string()))? {
            let there = match pending.get(&key) {
                Some(there) => *there,
                None => self.db.contains_key(&key).map_err(engine)?,
            };
            let count = match record::counted(&key) {
                Some(Counted::Lease) => Some(&mut meta.leases),
                Some(Counted::Prep) => Some(&mut meta.preps),
                None => None,
            };
            if let Some(count) = count {
                *count = count.saturating_add((value.is_some() && !there).into());
                *count = count.saturating_sub((value.is_none() && there).into());
            }
            pending.insert(key.clone(), value.is_some());
            match value {
                Some(value) => batch.insert(key, value),
                None => batch.remove(key),
            }
        }
        let bytes = record::meta_bytes(&meta).map_err(|e| StoreError::Engine(e.to_string()))?;
        batch.insert(record::META_KEY, bytes);
        // 1. One atomic batch in sled's log. 2. The log to the kernel. 3. The kernel's pages and the file's length to
        // the disk. Before 3 a crash shows all of the batch or nothing; nobody was told of it yet either way.
        self.db.apply_batch(batch).map_err(engine)?;
        self.db.flush().map_err(engine)?;
        self.log.sync_data().map_err(|source| StoreError::Io {
            what: "make durable",
            path: PathBuf::from(LOG_FILE),
            source,
        })?;
        self.meta = meta;
        Ok(())
    }
}

fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|source| StoreError::Io {
        what: "make durable",
        path: dir.to_owned(),
        source,
    })
}
