//! Values that many states have in common, known by their hash.

use ahash::RandomState;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Something that many states have in common, known by its hash.
#[derive(Debug)]
pub(crate) struct Shared<T> {
    id: u64,
    value: Arc<T>,
}

impl<T: Hash> Shared<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { id: hash_of(&value), value: Arc::new(value) }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn arc(&self) -> Arc<T> {
        Arc::clone(&self.value)
    }
}

/// A hash of a value, the same in every run on a machine.
pub(crate) fn hash_of(value: &impl Hash) -> u64 {
    RandomState::with_seeds(1, 2, 3, 4).hash_one(value)
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self { id: self.id, value: Arc::clone(&self.value) }
    }
}

impl<T> std::ops::Deref for Shared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl<T> Eq for Shared<T> {}

impl<T> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.id.hash(hasher);
    }
}
