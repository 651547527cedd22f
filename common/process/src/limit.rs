//! A limit of the lines of one kind in the log: a burst, then one from time to time, and the count of those left out.
//!
//! Strangers can cause lines: a refused address, a foreign protocol, a login that fails. Without a bound they fill the disk
//! with them. The kind is where in the code the line comes from, so that a flood of one hides no other.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::callsite::Identifier;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// Lines of one kind that may follow each other at once.
const BURST: u32 = 10;
/// Interval at which one more line of a kind may come after those.
const ONE_IN: Duration = Duration::from_secs(10);
/// The target of the lines that say how many were left out: there are few of them.
const TARGET: &str = "log";

/// The state of each kind; there are as many as places in the code that log.
#[derive(Clone, Default)]
pub(super) struct Limit {
    kinds: Arc<Mutex<HashMap<Identifier, Kind>>>,
    left_out: Arc<AtomicU64>,
}

struct Kind {
    lines: Bucket,
    left_out: u64,
    place: &'static Metadata<'static>,
}

/// A token bucket.
#[derive(Debug)]
struct Bucket {
    tokens: u32,
    /// Time at which the last token came.
    filled: Instant,
}

impl Bucket {
    fn full(now: Instant) -> Self {
        Self { tokens: BURST, filled: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        let gained = now.saturating_duration_since(self.filled).as_secs() / ONE_IN.as_secs();
        if gained > 0 {
            self.tokens = self.tokens.saturating_add(u32::try_from(gained).unwrap_or(BURST)).min(BURST);
            self.filled = now;
        }
        let taken = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        taken
    }
}

impl Limit {
    /// Tells whether another line of this kind may be written.
    fn admits(&self, place: &'static Metadata<'static>, now: Instant) -> bool {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let kind =
            kinds.entry(place.callsite()).or_insert_with(|| Kind { lines: Bucket::full(now), left_out: 0, place });
        let fine = kind.lines.take(now);
        if !fine {
            kind.left_out = kind.left_out.saturating_add(1);
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
        fine
    }

    /// Says how many lines of each kind were left out since this was said last.
    pub(super) fn report(&self) {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let counts: Vec<_> = kinds
            .values_mut()
            .filter(|kind| kind.left_out > 0)
            .map(|kind| (std::mem::take(&mut kind.left_out), kind.place))
            .collect();
        drop(kinds);
        for (lines, place) in counts {
            let (at, line) = (place.target(), place.line().unwrap_or_default());
            tracing::warn!(target: TARGET, lines, kind = %format_args!("{at}:{line}"), "log lines of one kind were left out");
        }
    }

    /// Counts the lines that were left out since the start.
    pub(super) fn total(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }
}

impl<S: Subscriber> Layer<S> for Limit {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let place = event.metadata();
        // Who asks for debug lines wants all of them.
        *place.level() > Level::INFO || place.target() == TARGET || self.admits(place, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_then_one_from_time_to_time() {
        let start = Instant::now();
        let mut bucket = Bucket::full(start);
        let passed = (0..1_000).filter(|_| bucket.take(start)).count();
        assert_eq!(passed, BURST as usize);
        assert!(!bucket.take(start + ONE_IN - Duration::from_millis(1)));
        assert!(bucket.take(start + ONE_IN));
        assert!(!bucket.take(start + ONE_IN));
        // However long it was quiet, no more than a burst.
        let later = start + 1_000 * ONE_IN;
        assert_eq!((0..1_000).filter(|_| bucket.take(later)).count(), BURST as usize);
    }

    #[test]
    fn one_kind_that_floods_hides_no_other_and_is_counted() {
        let limit = Limit::default();
        let subscriber = {
            use tracing_subscriber::layer::SubscriberExt as _;
            tracing_subscriber::registry().with(limit.clone())
        };
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..25 {
                tracing::warn!("a kind that floods");
            }
            tracing::warn!("another");
            tracing::debug!("not counted");
        });
        let kinds = limit.kinds.lock().unwrap();
        let mut left_out: Vec<u64> = kinds.values().map(|kind| kind.left_out).collect();
        left_out.sort_unstable();
        assert_eq!((left_out, limit.total()), (vec![0, 15], 15));
    }
}
