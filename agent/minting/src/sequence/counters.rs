//! `cur_seq` of the keys of one section.
//!
//! Few keys of a section are kept one by one, many as a table: 8 bytes for each key of the section, 4 where numbers have 32 bits. A key that
//! was not asked for since is where all keys begin (`base`), and costs nothing.

use ids::sequence::Width;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::convert::Infallible;

/// Bytes that a key costs which is kept by itself: its place, its number, and its part of the nodes of the map.
const SPARSE_LEN: usize = 24;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Store {
    /// By the key's place.
    Few(BTreeMap<u32, u64>),
    /// 0: not asked for yet.
    Narrow(Box<[u32]>),
    /// 0: not asked for yet.
    Wide(Box<[u64]>),
}

/// The last number of each key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Counters {
    base: u64,
    /// Keys of the section.
    keys: u32,
    width: Width,
    store: Store,
}

impl Counters {
    /// All keys at `base`.
    pub const fn new(width: Width, keys: u32, base: u64) -> Self {
        Self { base, keys, width, store: Store::Few(BTreeMap::new()) }
    }

    /// The number at which keys are that were not asked for.
    pub const fn base(&self) -> u64 {
        self.base
    }

    /// The last number of a key.
    #[inline]
    pub fn current(&self, at: u32) -> u64 {
        let stored = match &self.store {
            Store::Few(keys) => keys.get(&at).copied(),
            Store::Narrow(keys) => keys.get(at as usize).copied().map(u64::from),
            Store::Wide(keys) => keys.get(at as usize).copied(),
        };
        stored.unwrap_or(0).max(self.base)
    }

    /// Lets `next` say a key's next last number by the one that it has, in one search. What it refuses changes nothing; `full` refuses a
    /// key that would take more memory.
    ///
    /// # Errors
    /// The refusal.
    #[inline]
    pub fn step<E>(&mut self, at: u32, full: Option<E>, next: impl FnOnce(u64) -> Result<u64, E>) -> Result<(), E> {
        let base = self.base;
        match &mut self.store {
            Store::Few(keys) => match keys.entry(at) {
                Entry::Occupied(mut key) => *key.get_mut() = next(base.max(*key.get()))?,
                Entry::Vacant(key) => {
                    let number = next(base)?;
                    if let Some(full) = full {
                        return Err(full);
                    }
                    key.insert(number);
                    if keys.len().saturating_mul(SPARSE_LEN) >= self.table_len() {
                        self.tabulate();
                    }
                }
            },
            Store::Narrow(keys) => {
                if let Some(key) = keys.get_mut(at as usize) {
                    // A number of 32 bits fits; what does not would be a mistake of ours, and stays above all that there are.
                    *key = u32::try_from(next(base.max(u64::from(*key)))?).unwrap_or(u32::MAX);
                }
            }
            Store::Wide(keys) => {
                if let Some(key) = keys.get_mut(at as usize) {
                    *key = next(base.max(*key))?;
                }
            }
        }
        Ok(())
    }

    /// Bytes of all keys in a table.
    const fn table_len(&self) -> usize {
        let key = match self.width {
            Width::W32 => size_of::<u32>(),
            Width::W63 => size_of::<u64>(),
        };
        (self.keys as usize).saturating_mul(key)
    }

    #[cold]
    fn tabulate(&mut self) {
        let mut table = match self.width {
            Width::W32 => Store::Narrow(vec![0; self.keys as usize].into()),
            Width::W63 => Store::Wide(vec![0; self.keys as usize].into()),
        };
        std::mem::swap(&mut table, &mut self.store);
        if let Store::Few(few) = table {
            for (at, number) in few {
                let _: Result<(), Infallible> = self.step(at, None, |_| Ok(number));
            }
        }
    }

    /// Memory that they take, in bytes.
    pub fn len(&self) -> usize {
        match &self.store {
            Store::Few(keys) => keys.len().saturating_mul(SPARSE_LEN),
            Store::Narrow(_) | Store::Wide(_) => self.table_len(),
        }
    }

    /// Tells whether no key was asked for.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all keys: each of them goes on from `base`, which must not be below any of them.
    pub fn forget(&mut self, base: u64) {
        self.base = self.base.max(base);
        self.store = Store::Few(BTreeMap::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(counters: &mut Counters, at: u32, number: u64) {
        let _: Result<(), Infallible> = counters.step(at, None, |_| Ok(number));
    }

    #[test]
    fn many_keys_take_no_more_than_a_table() {
        for (width, table) in [(Width::W63, 8_000), (Width::W32, 4_000)] {
            let mut counters = Counters::new(width, 1_000, 5);
            assert_eq!(counters.step(7, Some("full"), Ok), Err("full"));
            assert_eq!(counters.step(7, None, Err), Err(5));
            assert!(counters.is_empty());
            for at in 0..1_000 {
                set(&mut counters, at, u64::from(at) + 6);
                assert!(counters.len() <= table, "{} after {at}", counters.len());
            }
            assert_eq!(counters.len(), table);
            assert_eq!(counters.step(7, Some("full"), Ok), Ok(()));
            assert!((0..1_000).all(|at| counters.current(at) == u64::from(at) + 6));
            counters.forget(2_000);
            assert_eq!((counters.len(), counters.current(7), counters.current(999)), (0, 2_000, 2_000));
        }
    }

    proptest! {
        #[test]
        fn each_key_has_the_number_that_it_was_given(
            narrow: bool, keys in 2u32..200, base in 0u64..50,
            sets in proptest::collection::vec((0u32..200, 1u64..100), 0..300),
        ) {
            let width = if narrow { Width::W32 } else { Width::W63 };
            let mut counters = Counters::new(width, keys, base);
            let mut plain = BTreeMap::new();
            for (at, more) in sets.into_iter().filter(|(at, _)| *at < keys) {
                let refused = counters.step(at, None, Err);
                prop_assert_eq!(refused, Err(plain.get(&at).copied().unwrap_or(base)));
                let mut number = 0;
                let stepped: Result<(), Infallible> = counters.step(at, None, |current| {
                    number = current + more;
                    Ok(number)
                });
                prop_assert_eq!(stepped, Ok(()));
                plain.insert(at, number);
            }
            for at in 0..keys {
                prop_assert_eq!(counters.current(at), plain.get(&at).copied().unwrap_or(base));
            }
        }
    }
}
