//! `stats`: how many IDs left by a name, how fast, how long calls took and why others got none.

use super::histogram::Histogram;
use super::{Call, Failure, Outgoing, Plugin};
use common::kind::Kind;
use common::metrics::{Labels, Series, counters, summary};
use common::namespace::GeneratorName;
use common::time::{BootMs, SECOND_MS};
use net::rpc::mint::MintCode;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Whole seconds that the rate is of.
const RATE_S: u32 = 10;
/// Seconds that are remembered: those, the one that is under way, and some that readers may be late by.
const SLOTS: usize = 16;
const _: () = assert!(SLOTS > RATE_S as usize + 1);

/// IDs in each of the last seconds: the second in the upper half, the count in the lower one.
#[derive(Debug, Default)]
struct Rate([AtomicU64; SLOTS]);

/// The second of an instant, within the bits that a slot has for it.
fn second(now: BootMs) -> u32 {
    // The lower half of 64 bits.
    u32::try_from(now.0.div_euclid(SECOND_MS) & i64::from(u32::MAX)).unwrap_or(0)
}

fn slot(second: u32) -> usize {
    usize::try_from(second).unwrap_or(0) % SLOTS
}

impl Rate {
    fn add(&self, now: BootMs, n: u32) {
        let second = second(now);
        let Some(slot) = self.0.get(slot(second)) else { return };
        let next = |packed: u64| {
            let (of, count) = (packed >> u32::BITS, packed & u64::from(u32::MAX));
            let before = if of == u64::from(second) { count } else { 0 };
            Some(u64::from(second) << u32::BITS | (before + u64::from(n)).min(u32::MAX.into()))
        };
        let _ = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// IDs a second, of the last whole seconds.
    fn per_second(&self, now: BootMs) -> f64 {
        let now = second(now);
        let counts = (1..=RATE_S).filter_map(|ago| {
            let second = now.wrapping_sub(ago);
            let packed = self.0.get(slot(second))?.load(Ordering::Relaxed);
            (packed >> u32::BITS == u64::from(second)).then_some(packed & u64::from(u32::MAX))
        });
        // Far below 2^52.
        #[allow(clippy::cast_precision_loss)]
        let sum = counts.sum::<u64>() as f64;
        sum / f64::from(RATE_S)
    }
}

/// The counts of one name.
#[derive(Debug)]
pub(super) struct Stats {
    calls: AtomicU64,
    ids: AtomicU64,
    rate: Rate,
    took: Histogram,
    refused: Vec<(MintCode, AtomicU64)>,
}

impl Stats {
    fn new() -> Self {
        let refused = MintCode::ALL.iter().map(|code| (*code, AtomicU64::new(0))).collect();
        Self {
            calls: AtomicU64::new(0),
            ids: AtomicU64::new(0),
            rate: Rate::default(),
            took: Histogram::default(),
            refused,
        }
    }

    fn snapshot(&self, kind: Kind, name: &GeneratorName, now: BootMs) -> StatsSnapshot {
        let [p50, p99, p999] = self.took.per_mille([500, 990, 999]);
        let refused = self.refused.iter().map(|(code, n)| (*code, n.load(Ordering::Relaxed)));
        StatsSnapshot {
            kind,
            name: name.clone(),
            calls: self.calls.load(Ordering::Relaxed),
            ids: self.ids.load(Ordering::Relaxed),
            ids_per_second: self.rate.per_second(now),
            p50,
            p99,
            p999,
            refused: refused.filter(|(_, n)| *n > 0).collect(),
        }
    }
}

impl Plugin for Stats {
    fn name(&self) -> &str {
        "stats"
    }

    fn done(&self, call: &Call<'_>, outgoing: &Outgoing<'_>) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.ids.fetch_add(call.n.into(), Ordering::Relaxed);
        self.rate.add(call.now.boot, call.n);
        self.took.add(outgoing.elapsed());
    }

    fn failed(&self, _: &Call<'_>, failure: &Failure<'_>) {
        if let Some((_, n)) = self.refused.iter().find(|(code, _)| *code == failure.code) {
            n.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The counts of a name's `stats` at an instant.
#[derive(Clone, Debug, PartialEq)]
pub struct StatsSnapshot {
    /// The kind.
    pub kind: Kind,
    /// The name.
    pub name: GeneratorName,
    /// Calls that got their IDs, since the start.
    pub calls: u64,
    /// IDs that left, since the start.
    pub ids: u64,
    /// IDs a second, of the last ten whole seconds.
    pub ids_per_second: f64,
    /// The longest time that half of the calls that got IDs took, since the start, from the first plugin to the last one; up to a
    /// sixteenth too long. Without the network, and without the answer being written.
    pub p50: Duration,
    /// 99 of 100.
    pub p99: Duration,
    /// 999 of 1,000.
    pub p999: Duration,
    /// Calls that got none, since the start, by code; only codes that came.
    pub refused: Vec<(MintCode, u64)>,
}

/// Those of all names.
#[derive(Debug, Default)]
pub(super) struct Table(Mutex<BTreeMap<(Kind, GeneratorName), Arc<Stats>>>);

impl Table {
    /// Those of that name, which begin with the first time that they are asked for.
    pub(super) fn of(&self, kind: Kind, name: &GeneratorName) -> Arc<Stats> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(table.entry((kind, name.clone())).or_insert_with(|| Arc::new(Stats::new())))
    }

    pub(super) fn forget(&self, kind: Kind, name: &GeneratorName) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&(kind, name.clone()));
    }

    pub(super) fn snapshot(&self, now: BootMs) -> Vec<StatsSnapshot> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        table.iter().map(|((kind, name), stats)| stats.snapshot(*kind, name, now)).collect()
    }
}

/// Series of the names that have `stats`.
pub(crate) const SERIES: &[Series<[StatsSnapshot]>] = &[
    counters("uniq_name_ids_total", "IDs that left, of names with stats.", &["kind", "name"], |names, out| {
        names.iter().for_each(|it| out.of([&it.kind, &it.name], it.ids));
    }),
    counters("uniq_name_refusals_total", "Calls that got no IDs, of names with stats.", BY_CODE, |names, out| {
        for StatsSnapshot { kind, name, refused, .. } in names {
            refused.iter().for_each(|(code, n)| out.of([kind, name, code], n));
        }
    }),
    summary(
        "uniq_name_seconds",
        "How long calls that got IDs took, of names with stats.",
        BY_QUANTILE,
        |names, out| {
            for StatsSnapshot { kind, name, calls, p50, p99, p999, .. } in names {
                for (quantile, took) in [("0.5", p50), ("0.99", p99), ("0.999", p999)] {
                    out.of([kind, name, &quantile], format_args!("{:.9}", took.as_secs_f64()));
                }
                out.count([kind, name], calls);
            }
        },
    ),
];
const BY_CODE: Labels = &["kind", "name", "code"];
const BY_QUANTILE: Labels = &["kind", "name", "quantile"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_of_the_last_ten_whole_seconds() {
        let rate = Rate::default();
        for second in 0..100 {
            rate.add(BootMs(second * 1_000), 30);
            rate.add(BootMs(second * 1_000 + 999), 20);
        }
        assert_eq!(rate.per_second(BootMs(100_000)), 50.0);
        assert_eq!(rate.per_second(BootMs(105_500)), 25.0);
        assert_eq!(rate.per_second(BootMs(111_000)), 0.0);
        rate.add(BootMs(120_000), u32::MAX);
        rate.add(BootMs(120_000), u32::MAX);
        assert_eq!(rate.per_second(BootMs(121_000)), f64::from(u32::MAX) / 10.0);
        rate.add(BootMs(-1), 10);
        assert_eq!(rate.per_second(BootMs(0)), 1.0);
    }
}
