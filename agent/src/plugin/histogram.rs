//! The times that calls took, in so many buckets that a percentile is off by a sixteenth at most.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

/// Buckets of each doubling, as a power of two.
const SUB_BITS: u32 = 4;
const SUB: u64 = 1 << SUB_BITS;
/// Nanoseconds are told apart up to this power of two, about 18 minutes; what took longer counts as that long.
const BITS_MAX: u32 = 40;
const BUCKETS: usize = ((BITS_MAX - SUB_BITS + 1) as usize) << SUB_BITS;

/// Counts of durations. Adding is one atomic addition; reading beside it sees some of what is added meanwhile.
#[derive(Debug)]
pub(super) struct Histogram(Box<[AtomicU64]>);

impl Default for Histogram {
    fn default() -> Self {
        Self((0..BUCKETS).map(|_| AtomicU64::new(0)).collect())
    }
}

fn bucket(ns: u64) -> usize {
    let ns = ns.min((1 << BITS_MAX) - 1);
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(SUB_BITS + 1);
    // Below 2^(SUB_BITS + 1) each number has a bucket.
    let place = u64::from(shift) * SUB + (ns >> shift);
    usize::try_from(place).unwrap_or(usize::MAX)
}

/// The largest number of that bucket.
fn largest(bucket: usize) -> u64 {
    let bucket = u64::try_from(bucket).unwrap_or(u64::MAX);
    if bucket < 2 * SUB {
        return bucket;
    }
    let (shift, place) = (bucket / SUB - 1, bucket % SUB + SUB);
    ((place + 1) << shift) - 1
}

impl Histogram {
    /// Adds one.
    pub(super) fn add(&self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        if let Some(count) = self.0.get(bucket(ns)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Percentiles in thousandths, each the least duration that so many of a thousand did not exceed, and at most a
    /// sixteenth more. Zero if nothing was added.
    pub(super) fn per_mille<const N: usize>(&self, wanted: [u64; N]) -> [Duration; N] {
        let counts: Vec<u64> = self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        wanted.map(|wanted| {
            let rank = u128::from(total) * u128::from(wanted);
            let mut seen = 0u128;
            let at = counts.iter().position(|count| {
                seen += u128::from(*count);
                seen > 0 && seen * 1_000 >= rank
            });
            Duration::from_nanos(at.map_or(0, largest))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_follow_each_other_without_a_hole() {
        let mut last = None;
        for place in 0..BUCKETS {
            let top = largest(place);
            assert_eq!((bucket(top), bucket(top + 1)), (place, (place + 1).min(BUCKETS - 1)), "{place}");
            assert!(last.is_none_or(|last| top > last));
            last = Some(top);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(largest(BUCKETS - 1), (1 << BITS_MAX) - 1);
    }

    #[test]
    fn percentiles_of_nothing_and_of_one() {
        let histogram = Histogram::default();
        assert_eq!(histogram.per_mille([500, 999]), [Duration::ZERO; 2]);
        histogram.add(Duration::from_nanos(17));
        assert_eq!(histogram.per_mille([0, 500, 999, 1_000]), [Duration::from_nanos(17); 4]);
        histogram.add(Duration::MAX);
        assert_eq!(histogram.per_mille([500]), [Duration::from_nanos(17)]);
    }

    proptest! {
        #[test]
        fn a_percentile_is_off_by_a_sixteenth_at_most(mut all in prop::collection::vec(0u64..1 << 39, 1..300), wanted in 1u64..=1_000) {
            let histogram = Histogram::default();
            for ns in &all {
                histogram.add(Duration::from_nanos(*ns));
            }
            all.sort_unstable();
            let rank = (all.len() as u64 * wanted).div_ceil(1_000);
            let exact = all[rank as usize - 1];
            let [said] = histogram.per_mille([wanted]);
            let said = said.as_nanos() as u64;
            prop_assert!(exact <= said && said <= exact + exact / SUB, "{} {}", exact, said);
        }
    }
}
