//! Lines of the log that can come with every call: one a second, and how many were left out.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The least time between two lines.
const EACH: Duration = Duration::from_secs(1);

/// Lets one line through each second.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    /// The time at which the next line may come, in milliseconds since the first line of all.
    next_ms: AtomicU64,
    left_out: AtomicU64,
}

impl Limiter {
    /// Tells whether a line may come now; if so, how many were left out since the last one.
    pub(super) fn admit(&self) -> Option<u64> {
        static START: OnceLock<Instant> = OnceLock::new();
        let now = Instant::now();
        self.admit_at(now.saturating_duration_since(*START.get_or_init(|| now)))
    }

    fn admit_at(&self, now: Duration) -> Option<u64> {
        let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let next = self.next_ms.load(Ordering::Relaxed);
        let first = now.as_nanos() >= u128::from(next) * 1_000_000
            && self.next_ms.compare_exchange(next, ms(now + EACH), Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if first {
            return Some(self.left_out.swap(0, Ordering::Relaxed));
        }
        self.left_out.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_a_second_and_the_others_are_counted() {
        let limiter = Limiter::default();
        let at = |ms| limiter.admit_at(Duration::from_millis(ms));
        assert_eq!(
            [0, 1, 999, 1_000, 1_500, 5_000, 5_001].map(at),
            [Some(0), None, None, Some(2), None, Some(1), None]
        );
    }
}
