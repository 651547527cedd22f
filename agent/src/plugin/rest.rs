//! Code of an application that panics every time: it is asked once a second only, so that callers cannot make it flood the log.

use common::time::{BootMs, SECOND_MS};
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

/// Panics in a row after which a plugin or a strategy is asked once a second only.
pub const PANICS_MAX: u32 = 16;
/// The interval at which it is asked then.
const EACH_MS: i64 = SECOND_MS;

/// The rest of a plugin that failed.
#[derive(Debug)]
pub(crate) struct Rest {
    /// In a row.
    panics: AtomicU32,
    /// The instant of the machine's time before which it is not asked.
    until: AtomicI64,
}

impl Default for Rest {
    fn default() -> Self {
        Self { panics: AtomicU32::new(0), until: AtomicI64::new(i64::MIN) }
    }
}

impl Rest {
    /// Notes that it panicked.
    pub(crate) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// A call came to an end without a panic.
    pub(crate) fn works(&self) {
        if self.panics.load(Ordering::Relaxed) != 0 {
            self.panics.store(0, Ordering::Relaxed);
        }
    }

    /// Tells whether it panics every time: then one call a second finds out whether it still does.
    pub(crate) fn rests(&self, now: BootMs) -> bool {
        if self.panics.load(Ordering::Relaxed) < PANICS_MAX {
            return false;
        }
        let until = self.until.load(Ordering::Relaxed);
        let next = now.0.saturating_add(EACH_MS);
        // Another thread that asks at the same time rests.
        now.0 < until || self.until.compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed).is_err()
    }
}
