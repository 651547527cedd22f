//! Counts of IDs that left a series, told without touching the way on which they leave.
//!
//! A window counts by itself: taking serials moves the place where it goes on. So the sum is what its windows had when they
//! ended, and what was taken of the one that is open now. Serials that were taken and not given out are taken off again:
//! the rest of a window that was too small for a request, and the rest of a thread's block when the thread or the block's
//! right ends. Until then a block counts as a whole.
//!
//! Ticks do not count: some are left out as the clock goes on, and names with one layout share them. So IDs of ticks are counted
//! beside the window, as they are taken.

use super::series::SerialSeries;
use super::{Generator, Names};
use crate::gate::Prefix;
use crate::plugin::StatsSnapshot;
use crate::window::Window;
use common::kind::Kind;
use common::namespace::GeneratorName;
use net::rpc::lease::CallsServed;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The counters of a series.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Of windows that have ended, and beside windows; less what was given back. Below 0 while that was taken of the window
    /// that is open.
    settled: AtomicI64,
    /// The most that was ever said: a counter does not go back.
    said: AtomicU64,
}

impl Tally {
    pub(super) fn add(&self, n: u64) {
        self.settled.fetch_add(i64::try_from(n).unwrap_or(i64::MAX), Ordering::Release);
    }

    pub(super) fn take_off(&self, n: u64) {
        self.settled.fetch_sub(i64::try_from(n).unwrap_or(i64::MAX), Ordering::Release);
    }

    /// All so far, with what `open` says of the window that is open.
    pub(super) fn total(&self, open: impl FnOnce() -> u64) -> u64 {
        // First: a window that ends meanwhile is missed for a moment, and never counted twice.
        let settled = self.settled.load(Ordering::Acquire);
        let sum = settled.saturating_add(i64::try_from(open()).unwrap_or(i64::MAX));
        let sum = u64::try_from(sum).unwrap_or(0);
        self.said.fetch_max(sum, Ordering::Relaxed).max(sum)
    }
}

impl SerialSeries {
    /// Ends a window of it and gives back what nobody has taken. Only whoever has the state may do so.
    pub(super) fn close(&self, window: &Window<Prefix>) -> Range<u64> {
        let ended_before = window.is_closed();
        let rest = window.close();
        if !ended_before {
            self.tally.add(window.len() - (rest.end - rest.start));
        }
        rest
    }
}

/// The totals of a name since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameTotal {
    /// IDs that left.
    pub minted: u64,
    /// The calls that its plugin `stats` counted; `None` if it has none.
    pub calls: Option<CallsServed>,
}

impl Names {
    /// IDs minted since the start, by kind: all that left, on whichever way, in a request or within an application. A
    /// thread's block counts when it is cut, so up to 2,047 a thread and name are counted that were not given out, or not yet.
    pub fn minted(&self) -> impl Iterator<Item = (Kind, u64)> {
        Kind::ALL.into_iter().map(|kind| {
            let of_kind = self.generators().iter().filter(|it| it.kind() == kind);
            (kind, of_kind.map(|it| it.series.minted()).sum())
        })
    }

    /// The same by name, with how calls fared where the plugin `stats` counts them, as it says. Names that share the series of `default` are
    /// counted together, as that, unless they have `stats`: what those count is taken off `default`.
    pub fn minted_by_name(&self, stats: Vec<StatsSnapshot>) -> BTreeMap<(Kind, GeneratorName), NameTotal> {
        let total = |minted| NameTotal { minted, calls: None };
        let of = |it: &Arc<Generator>| ((it.kind(), it.namespace().name().clone()), total(it.series.minted()));
        let mut all: BTreeMap<_, NameTotal> = self.generators().iter().filter(|it| it.has_name()).map(of).collect();
        for it in stats {
            // What callers did wrong, and what their own quota refused, is not a failure.
            let failed = it.refused.iter().filter(|(code, _)| code.http_status() >= 500).map(|(_, n)| n).sum();
            let p99_us = u32::try_from(it.p99.as_micros()).unwrap_or(u32::MAX);
            let calls = Some(CallsServed { served: it.calls, failed, p99_us });
            let default = (it.kind, GeneratorName::default());
            if !all.contains_key(&(it.kind, it.name.clone()))
                && let Some(default) = all.get_mut(&default)
            {
                default.minted = default.minted.saturating_sub(it.ids);
            }
            all.insert((it.kind, it.name), NameTotal { minted: it.ids, calls });
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_never_goes_back() {
        let tally = Tally::default();
        tally.take_off(300);
        assert_eq!(tally.total(|| 0), 0, "not yet told by the window that is open");
        assert_eq!(tally.total(|| 1_000), 700);
        tally.add(1_000);
        tally.take_off(200);
        assert_eq!(tally.total(|| 0), 700, "it said so before");
        assert_eq!(tally.total(|| 900), 1_400);
    }
}
