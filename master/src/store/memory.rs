//! The twin of the store on disk, for tests: the same records in memory.

use super::record::{self, Counted, Meta};
use super::{Store, StoreError};
use crate::lease::Loaded;
use crate::lease::Write;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

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
    pub fn format(identity: crate::lease::Identity) -> Result<Self, StoreError> {
        let mut store = Self::default();
        store.commit(&[Write::Identity(identity)], 0)?;
        Ok(store)
    }

    /// A copy of what is there now, which later commits do not change: a backup.
    pub fn snapshot(&self) -> Self {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Self { rows: Arc::new(Mutex::new(rows)) }
    }

    /// What was committed.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub fn load(&self) -> Result<Loaded, String> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        record::load(rows.iter().map(|(key, value)| Ok((key.clone(), value.clone())))).map(|(loaded, _)| loaded)
    }
}

impl Store for MemoryStore {
    fn commit(&mut self, writes: &[Write], lsn: u64) -> Result<(), StoreError> {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
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
            audit,
        };
        let bytes = record::meta_bytes(&meta).map_err(engine)?;
        rows.insert(record::META_KEY.to_vec(), bytes);
        Ok(())
    }
}

fn engine(e: common::envelope::EnvelopeError) -> StoreError {
    StoreError::Engine(e.to_string())
}
