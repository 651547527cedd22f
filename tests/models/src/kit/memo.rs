//! Outcomes of steps of one master, kept: masters stand alike in many states, and a step looks at nothing else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// So many locks, so that two threads seldom wait for each other.
const SHARDS: usize = 64;

/// By what was asked.
type Known<T> = HashMap<u64, Option<Arc<T>>>;

/// Outcomes by the hash of what they are outcomes of.
#[derive(Debug)]
pub(crate) struct Memo<T>(Vec<Mutex<Known<T>>>);

impl<T> Memo<T> {
    pub(crate) fn new() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
    }

    /// The outcome of `key`; `find` finds it if it was never asked for.
    pub(crate) fn of(&self, key: u64, find: impl FnOnce() -> Option<T>) -> Option<Arc<T>> {
        let shard = self.0.get(key as usize % SHARDS)?;
        let known = shard.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        known.unwrap_or_else(|| {
            let outcome = find().map(Arc::new);
            shard.lock().unwrap_or_else(PoisonError::into_inner).insert(key, outcome.clone());
            outcome
        })
    }
}
