//! Counts what callers took of the last part of an hour's or a day's IDs, or of an hour's numbers of a key: each has at most a [part](SHARE_PARTS) of what is left, so that
//! however many come, each leaves nearly all that it finds.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::accounts::AccountHolder;
use crate::serial::SHARE_PARTS;
use std::collections::BTreeMap;

/// Callers that are told apart, of all names together; further ones have one share of each series together.
const CALLERS_MAX: usize = 65_536;

/// The IDs that callers took, by series: whatever `S` tells apart.
#[derive(Debug)]
pub(crate) struct Shares<S> {
    taken: BTreeMap<(S, AccountHolder), BucketUse>,
    /// Callers who found no account since what is over was looked for: that is done once for as many as there are accounts.
    unfound: usize,
    /// Tells whether the buckets of all series are the same hours.
    has_equal_buckets: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BucketUse {
    /// The hour, day or tick in which it was.
    bucket: u32,
    ids: u64,
}

impl<S> Default for Shares<S> {
    fn default() -> Self {
        Self { taken: BTreeMap::new(), unfound: 0, has_equal_buckets: false }
    }
}

impl<S: Ord> Shares<S> {
    /// Of series whose buckets are hours alike: no account is lost before its hour is over.
    pub(crate) fn by_hour() -> Self {
        Self { has_equal_buckets: true, ..Self::default() }
    }

    /// Counts `n` IDs of that series and bucket, in which `left` are left; `false`, and nothing is counted, if they are not the caller's to
    /// have. What was counted stays so, whatever becomes of the call: otherwise calls that are given up cost nothing.
    pub(crate) fn take(&mut self, (series, bucket): (S, u32), caller: &AccountHolder, n: u32, left: u64) -> bool {
        let mut key = (series, *caller);
        if !self.taken.contains_key(&key) && self.taken.len() >= CALLERS_MAX {
            if self.unfound == 0 {
                // Of series with other buckets it is not known what is over. Whoever loses an account so has another share, as a newcomer has.
                let all = self.has_equal_buckets;
                self.taken.retain(|(of, _), taken| (all || *of == key.0) && taken.bucket >= bucket);
            }
            self.unfound = (self.unfound + 1) % CALLERS_MAX;
            if self.taken.len() >= CALLERS_MAX {
                key.1 = AccountHolder::Everyone;
            }
            if self.taken.len() >= 2 * CALLERS_MAX && !self.taken.contains_key(&key) {
                return false;
            }
        }
        let had = self.taken.get(&key).filter(|taken| taken.bucket == bucket).map_or(0, |taken| taken.ids);
        let ids = had.saturating_add(n.into());
        if ids > left / SHARE_PARTS {
            return false;
        }
        self.taken.insert(key, BucketUse { bucket, ids });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(at: u32) -> AccountHolder {
        AccountHolder::Network(std::net::IpAddr::from(at.to_be_bytes()).into())
    }

    #[test]
    fn whoever_takes_most_leaves_nearly_all_to_others() {
        let (mut shares, mut left) = (Shares::default(), 25_000_000);
        let mut take = |at: u32, n: u32| {
            let taken = shares.take((0, 7), &caller(at), n, left);
            left -= if taken { u64::from(n) } else { 0 };
            taken
        };
        while take(1, 100_000) {}
        assert!(!take(1, 100_000) && take(2, 1_000_000), "another one has his share");
        for greedy in 3..18 {
            while take(greedy, 10_000) {}
        }
        assert!(take(1_000, 10_000) && left > 25_000_000 / 4, "{left}");
    }

    #[test]
    fn the_next_bucket_and_another_series_begin_anew() {
        let mut shares = Shares::default();
        assert!(shares.take((0, 7), &caller(1), 100, 1_600) && !shares.take((0, 7), &caller(1), 1, 1_600));
        assert!(shares.take((1, 7), &caller(1), 100, 1_600) && shares.take((0, 8), &caller(1), 100, 1_600));
    }

    /// Whoever opens accounts for many keys does not get another share of one.
    #[test]
    fn an_account_lasts_for_its_hour_where_all_buckets_are_hours() {
        let mut shares = Shares::by_hour();
        assert!(shares.take((0, 7), &caller(1), 100, 1_600) && !shares.take((0, 7), &caller(1), 1, 1_600));
        for series in 1..=3 * CALLERS_MAX as u32 {
            shares.take((series, 7), &caller(1), 1, 1_600);
        }
        assert!(!shares.take((0, 7), &caller(1), 1, 1_600) && shares.taken.len() <= 2 * CALLERS_MAX);
        // The next hour has room again, when it is looked for.
        for at in 0..=CALLERS_MAX as u32 {
            shares.take((0, 8), &caller(at), 1, 1_600_000);
        }
        assert!(shares.take((0, 8), &caller(1), 50_000, 1_600_000) && shares.taken.len() <= CALLERS_MAX + 1);
    }

    #[test]
    fn callers_without_end_share_one_account_and_no_memory() {
        let mut shares = Shares::default();
        for at in 0..2 * CALLERS_MAX as u32 {
            shares.take((0, 7), &caller(at), 1, 1_600_000);
        }
        assert!(shares.taken.len() <= CALLERS_MAX + 1);
        assert!(
            !shares.take((0, 7), &caller(u32::MAX), 50_000, 1_600_000),
            "it is not the first one without an account"
        );
        assert!(shares.take((0, 7), &caller(0), 50_000, 1_600_000), "who has one keeps it");
        for at in 0..=CALLERS_MAX as u32 {
            shares.take((0, 8), &caller(u32::MAX - at), 1, 1_600_000);
        }
        assert!(
            shares.take((0, 8), &caller(u32::MAX - CALLERS_MAX as u32), 50_000, 1_600_000),
            "the old hour is forgotten"
        );
        for at in 0..=CALLERS_MAX as u32 {
            shares.take((1, 3), &caller(at), 1, 1_600_000);
        }
        assert!(shares.take((1, 3), &caller(CALLERS_MAX as u32), 50_000, 1_600_000), "and another name's callers");
    }
}
