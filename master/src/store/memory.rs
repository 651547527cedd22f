//! The twin of the store on disk, for tests: the same records in memory.

use super::record::{self, Counted, Meta};
use super::{Audit, Draft, Store, StoreError, engine};
use crate::lease::{Identity, Loaded, Write};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Records in memory. Clones share them, so that a test can 'kill' a master and open what was committed.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    rows: Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>,
}

impl MemoryStore {
    /// A store with this identity and nothing else.
    ///
    /// # Errors
    /// See [`Store::commit`].
    pub fn of(identity: Identity) -> Result<Self, StoreError> {
        let store = Self::default();
        Self::format(&store, identity)?;
        Ok(store)
    }

    fn rows(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Vec<u8>>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of what is there now, which later commits do not change: a backup.
    pub fn snapshot(&self) -> Self {
        let rows = Self::rows(self).clone();
        Self { rows: Arc::new(Mutex::new(rows)) }
    }

    /// Reads what was committed.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub fn load(&self) -> Result<Loaded, String> {
        let rows = Self::rows(self);
        record::load(rows.iter().map(|(key, value)| Ok((key.clone(), value.clone())))).map(|(loaded, _)| loaded)
    }
}

/// The place of a store in memory, for messages.
const PLACE: &str = "memory";

/// A store in memory that is being made, and where.
#[derive(Debug)]
pub struct MemoryDraft {
    store: MemoryStore,
    place: MemoryStore,
}

impl Draft for MemoryDraft {
    fn commit(&mut self, writes: &[Write], lsn: u64) -> Result<(), StoreError> {
        self.store.commit(writes, lsn)
    }

    fn publish(self) -> Result<(), StoreError> {
        *MemoryStore::rows(&self.place) = std::mem::take(&mut *MemoryStore::rows(&self.store));
        Ok(())
    }
}

impl Audit for MemoryStore {
    fn rows(&self, range: Range<Vec<u8>>) -> impl DoubleEndedIterator<Item = Result<(Vec<u8>, Vec<u8>), StoreError>> {
        let rows =
            Self::rows(self).range(range).map(|(key, value)| Ok((key.clone(), value.clone()))).collect::<Vec<_>>();
        rows.into_iter()
    }
}

impl Store for MemoryStore {
    /// The records that its clones share.
    type Location = Self;
    type Draft = MemoryDraft;
    type Audit = Self;

    fn vacant(place: &Self) -> Result<(), StoreError> {
        if Self::rows(place).is_empty() { Ok(()) } else { Err(StoreError::Exists(PathBuf::from(PLACE))) }
    }

    fn draft(place: &Self) -> Result<MemoryDraft, StoreError> {
        Self::vacant(place)?;
        Ok(MemoryDraft { store: Self::default(), place: place.clone() })
    }

    fn open(place: &Self) -> Result<(Self, Loaded), StoreError> {
        if Self::rows(place).is_empty() {
            return Err(StoreError::Missing(PathBuf::from(PLACE)));
        }
        let loaded = place.load().map_err(|why| StoreError::Damaged { dir: PathBuf::from(PLACE), why })?;
        Ok((place.clone(), loaded))
    }

    fn audit(&self) -> Self {
        self.clone()
    }

    fn commit(&mut self, writes: &[Write], lsn: u64) -> Result<(), StoreError> {
        let mut rows = Self::rows(self);
        let known = rows.get(record::META_KEY).map(|bytes| record::read_meta(bytes)).transpose();
        let mut audit = known.map_err(engine)?.unwrap_or_default().audit;
        let changes = record::changes(writes, &mut audit).map_err(engine)?;
        for (key, value) in changes {
            match value {
                Some(value) => rows.insert(key, value),
                None => rows.remove(&key),
            };
        }
        let count = |what| rows.keys().filter(|key| record::counted(key) == Some(what)).count() as u64;
        let meta = Meta {
            lsn,
            leases: count(Counted::Lease),
            preps: count(Counted::Prep),
            settings: count(Counted::Setting),
            setting_preps: count(Counted::SettingPrep),
            sections: count(Counted::Section),
            section_preps: count(Counted::SectionPrep),
            audit,
        };
        let bytes = record::meta_bytes(&meta).map_err(engine)?;
        rows.insert(record::META_KEY.to_vec(), bytes);
        Ok(())
    }
}
