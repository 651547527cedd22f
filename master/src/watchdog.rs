//! Ends the process when the ledger's thread does not come back.
//!
//! A write that fails inside the store's engine can leave it waiting for ever for a thread of its own that is gone. Then nothing is
//! promised any more, and nothing says so: the console's thread is well. A restart reads what really is on the disk.

use process::{end, strike};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Builder;
use std::time::Duration;

/// Interval between two looks.
const LOOK: Duration = Duration::from_millis(250);
/// Looks in a row that may find no progress: 15 s, several times what a slow disk takes. Looks are counted, and no clock is
/// read: a machine that was suspended is not to blame.
const LOOKS_MAX: u32 = 60;

/// The progress of the ledger's thread, which comes back at least once a second.
#[derive(Debug, Default)]
pub struct Pulse {
    /// Grows with each step; odd while a write to the store is under way.
    steps: AtomicU64,
}

impl Pulse {
    /// Notes that the thread is alive.
    pub fn beat(&self) {
        self.steps.fetch_add(2, Ordering::Relaxed);
    }

    /// Notes that a write to the store begins or has returned.
    pub fn writing(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }
}

/// Watches for as long as somebody else holds the pulse.
///
/// # Errors
/// An error of the operating system, if it cannot start a thread.
pub fn start(pulse: Arc<Pulse>) -> std::io::Result<()> {
    let watch = move || {
        let _guard = EndOnPanic;
        let mut seen = Stillness::default();
        while Arc::strong_count(&pulse) > 1 {
            std::thread::sleep(LOOK);
            let steps = pulse.steps.load(Ordering::Relaxed);
            if seen.look(steps) >= LOOKS_MAX {
                let what = if steps % 2 == 1 { "a write to the store" } else { "the ledger" };
                let limit = LOOK * LOOKS_MAX;
                end::now(&format!(
                    "{what} has not returned for {limit:?}: the process exits, so that a restart reads what really is on the disk"
                ));
            }
            if strike::here("watchdog") {
                end::now("the task 'watchdog' ended unexpectedly: the process exits, so that a restart finds it whole");
            }
        }
    };
    Builder::new().name("watchdog".to_owned()).spawn(watch).map(drop)
}

/// Counts the looks in a row that found no progress.
#[derive(Debug, Default)]
struct Stillness {
    steps: u64,
    looks: u32,
}

impl Stillness {
    fn look(&mut self, steps: u64) -> u32 {
        self.looks = if steps == self.steps { self.looks.saturating_add(1) } else { 0 };
        self.steps = steps;
        self.looks
    }
}

/// A thread of a master without which it must not go on.
pub(crate) struct EndOnPanic;

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let thread = std::thread::current().name().unwrap_or("?").to_owned();
            end::now(&format!(
                "the task '{thread}' panicked: the process exits, so that a restart reads a known state"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_thread_that_never_moves_stands_still() {
        let mut seen = Stillness::default();
        for steps in 1..100 {
            assert_eq!(seen.look(steps), 0);
        }
        assert_eq!((1..=LOOKS_MAX).map(|_| seen.look(99)).last(), Some(LOOKS_MAX));
        assert_eq!(seen.look(100), 0);
    }
}
