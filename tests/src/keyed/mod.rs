//! Clients that ask for numbers of keys (kind `sequence`) through whatever happens to the processes, and the oracles that see
//! every answer: each is greater than all that was known of its key before it was asked for.
//!
//! [`bulk`]: millions of keys, thousands to a call, each key asked for by one client, so that what grows also never repeats.
//! [`probe`]: a key in each of some sections, asked for at every agent all the time: the order between clients, how long nobody serves a
//! section, and which calls are refused.

pub mod bulk;
pub mod probe;

use common::sequence::Slot;
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keys that there can be.
const SLOTS: u64 = 1 << 32;

/// Counts of what clients met that was no number, by its code.
pub type Troubles = BTreeMap<String, u64>;

/// Keys in use, evenly over the sections of a name.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// The number of keys.
    pub count: u32,
    /// Sections that they lie in.
    pub sections: u32,
    /// Keys that a section could have.
    pub per_section: u32,
    /// True if keys are texts, which come to lie anywhere, instead of numbers.
    pub text: bool,
}

impl Keys {
    fn span(self) -> u64 {
        (u64::from(self.sections) * u64::from(self.per_section)).min(SLOTS)
    }

    /// The key with this number, from 0.
    pub fn nth(self, nth: u32) -> Slot {
        let slot = u64::from(nth) * self.span() / u64::from(self.count.max(1));
        Slot(u32::try_from(slot).unwrap_or(u32::MAX))
    }

    /// The same, where keys are texts: as if drawn at random, and the same each time.
    pub fn text(self, nth: u32) -> String {
        let mixed = SmallRng::seed_from_u64(nth.into()).next_u64();
        format!("user-{mixed:016x}")
    }

    /// A key in the middle of a section, from 0.
    pub fn within(self, section: u32) -> Slot {
        let slot = u64::from(section) * u64::from(self.per_section) + u64::from(self.per_section / 2);
        Slot(u32::try_from(slot.min(self.span().saturating_sub(1))).unwrap_or(u32::MAX))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
