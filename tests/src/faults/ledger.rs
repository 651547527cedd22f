//! Every ID that was handed out, as ranges of serials: one run of millions takes as little room as one ID.

use crate::oracle::{Ids, Oracle};
use agent::gate::Prefix;
use agent::run::Runs;
use common::kind::{TextForm, UNIQ64_SERIALS_PER_HOUR, UNIQ96};
use common::layout::Numbers;
use common::template::CallerParts;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Serials of one millisecond of Uniq96.
const UNIQ96_SERIALS: u64 = 1 << 32;
/// So many IDs of each request are also kept as they reach a client.
const WHOLE: usize = 16;

/// Everything of an ID but its serial: which layout it has, and its bits or its text with serial 0.
type Series = (u8, Vec<u8>);

#[derive(Default)]
struct Inner {
    /// Ranges by their beginnings; those that meet are one.
    given: BTreeMap<Series, BTreeMap<u64, u64>>,
    ids: u64,
    duplicates: u64,
    told: Vec<String>,
}

/// The ledger. Shared by all agents of a test.
#[derive(Default)]
pub struct Ledger {
    inner: Mutex<Inner>,
    /// The same IDs as clients have them, a few of each request.
    sample: Oracle,
}

impl Ledger {
    /// Notes what a request gave; `caller` has its parts of a string.
    pub fn note(&self, runs: &Runs, caller: &CallerParts, source: &str) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        for run in runs.iter() {
            let (prefix, capacity) = series(&run.prefix, caller);
            let (start, len) = (run.start % capacity, u64::from(run.len));
            // A run that comes to the end of the serials goes on with the first.
            let straight = len.min(capacity - start);
            let ranges = inner.given.entry(prefix.clone()).or_default();
            let twice = take(ranges, start, straight) + take(ranges, 0, len - straight);
            inner.ids += len;
            inner.duplicates += twice;
            if twice > 0 {
                inner.told.push(format!("{twice} of {len} IDs from {prefix:?} serial {start} on, by {source}"));
            }
        }
        drop(inner);
        let is_wide = runs.iter().any(|run| matches!(run.prefix, Prefix::Number(Numbers::Wide(_))));
        let ids = runs.numbers().take(WHOLE);
        let (namespace, ids) = match is_wide {
            true => ("uniq96", Ids::Text(ids.map(|id| UNIQ96.text(id, TextForm::Hex)).collect())),
            false => ("uniq64", Ids::Uniq64(ids.map(|id| id as u64).collect())),
        };
        if !ids.is_empty() {
            self.sample.note(namespace, source, &ids);
        }
    }

    /// The number of IDs.
    pub fn ids(&self) -> u64 {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).ids
    }

    /// The number of those that came twice, and the first of them.
    pub fn verdict(&self) -> (u64, Vec<String>) {
        let sample = self.sample.verdict();
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = inner.duplicates.max(sample.duplicates as u64);
        (seen, inner.told.iter().take(5).cloned().chain((sample.duplicates > 0).then(|| sample.to_string())).collect())
    }
}

fn series(prefix: &Prefix, caller: &CallerParts) -> (Series, u64) {
    match prefix {
        Prefix::Void => ((0, Vec::new()), 1),
        Prefix::Number(numbers) => {
            let of = |tag| (tag, numbers.number(0).to_be_bytes().to_vec());
            match numbers {
                Numbers::Narrow(_) => (of(1), UNIQ64_SERIALS_PER_HOUR),
                Numbers::Wide(_) => (of(2), UNIQ96_SERIALS),
                // No operation here mints them yet.
                Numbers::Mixed { .. } => (of(4), u64::MAX),
            }
        }
        // No operation here mints them yet: places are those of one segment.
        Prefix::Plain { first, increment } => ((5, [*first, *increment].map(u64::to_be_bytes).concat()), u64::MAX),
        Prefix::Text { bound, capacity } => {
            let mut text = Vec::new();
            bound.write(caller, 0, &mut text);
            ((3, text), *capacity)
        }
    }
}

/// Adds a range, and says how many of it were there.
fn take(ranges: &mut BTreeMap<u64, u64>, start: u64, len: u64) -> u64 {
    let (mut from, mut to, mut twice) = (start, start + len, 0);
    if len == 0 {
        return 0;
    }
    let meets: Vec<(u64, u64)> =
        ranges.range(..=to).rev().take_while(|(_, end)| **end >= from).map(|(a, b)| (*a, *b)).collect();
    for (a, b) in meets {
        twice += b.min(start + len).saturating_sub(a.max(start));
        (from, to) = (from.min(a), to.max(b));
        ranges.remove(&a);
    }
    ranges.insert(from, to);
    twice
}

#[cfg(test)]
mod tests {
    use super::take;
    use std::collections::BTreeMap;

    #[test]
    fn what_was_there_is_counted_and_what_meets_is_one() {
        let mut ranges = BTreeMap::new();
        assert_eq!([take(&mut ranges, 10, 10), take(&mut ranges, 30, 10), take(&mut ranges, 20, 5)], [0; 3]);
        assert_eq!(ranges, BTreeMap::from([(10, 25), (30, 40)]));
        assert_eq!(take(&mut ranges, 24, 7), 2, "one at each end");
        assert_eq!(ranges, BTreeMap::from([(10, 40)]));
        assert_eq!([take(&mut ranges, 0, 100), take(&mut ranges, 0, 1), take(&mut ranges, 100, 1)], [30, 1, 0]);
    }
}
