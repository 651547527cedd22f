//! Memory: when it gets scarce, keys of sections that were not asked for lately are forgotten. Each of them goes on from the highest number
//! of its section, so that costs gaps, and no question to a master. If that is not enough, the sections themselves are forgotten, but for that
//! number: masters give more of them to an agent than it may have memory for, or have given them to others since. When such a one is asked for
//! again, it is loaded from a master.

use super::counts::add;
use super::name::Name;
use super::{Sequences, lock};
use common::sequence::Section;
use common::time::BootMs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Memory that is taken by what is remembered of sections beside each other that were forgotten, in bytes: their places, their number, and a part
/// of the nodes of the map.
pub(super) const FLOOR_LEN: usize = 32;
/// The interval at which it is looked.
const LOOK: Duration = Duration::from_millis(500);
/// In hundredths of all memory: from here on keys are forgotten,
const HIGH_PERCENT: u64 = 90;
/// until so much is left in use.
const LOW_PERCENT: u64 = 75;

impl Sequences {
    pub(super) async fn watch_memory(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            self.make_room();
        }
    }

    /// Forgets keys, and then sections, if memory is scarce.
    pub(super) fn make_room(&self) {
        let part = |percent: u64| self.settings.memory / 100 * percent;
        if (self.memory.load(Ordering::Relaxed) as u64) < part(HIGH_PERCENT) {
            return;
        }
        let mut idle: Vec<(BootMs, Arc<Name>, u32)> = Vec::new();
        for name in self.served.load().values() {
            for shard in name.shards() {
                let shard = lock(shard);
                idle.extend(shard.iter().map(|(section, entry)| (entry.state.used(), Arc::clone(name), *section)));
            }
        }
        idle.sort_unstable_by_key(|(used, ..)| *used);
        let scarce = || self.memory.load(Ordering::Relaxed) as u64 > part(LOW_PERCENT);
        for (_, name, section) in idle.iter().take_while(|_| scarce()) {
            self.forget_keys(name, *section);
        }
        for (_, name, section) in idle.iter().take_while(|_| scarce()) {
            self.forget_section(name, *section);
        }
        for name in self.served.load().values().take_while(|_| scarce()) {
            self.change_loads(name, |loads| loads.forget_others(&name.held()));
        }
    }

    fn forget_keys(&self, name: &Name, section: u32) {
        let Some(shard) = name.shard(Section(section)) else { return };
        if let Some(entry) = lock(shard).get_mut(&section).filter(|entry| !entry.state.is_empty()) {
            let before = entry.state.len();
            entry.state.unload();
            self.account(before, entry.state.len());
            add(&self.counts.unloads, 1);
        }
    }

    /// Only what no master is asked about: its answer counts for what asked for it.
    fn forget_section(&self, name: &Name, section: u32) {
        let Some(shard) = name.shard(Section(section)) else { return };
        let mut shard = lock(shard);
        let Some(entry) = shard.get(&section).filter(|entry| !entry.queued) else { return };
        if let Some(floor) = entry.state.at_rest(&name.definition, self.clock.boot()) {
            let before = entry.state.len();
            shard.remove(&section);
            self.account(before, 0);
            self.account_floors(name.forget(section, floor));
        }
    }

    /// Counts memory for what is remembered of forgotten sections, in so many entries more, or fewer.
    pub(super) fn account_floors(&self, entries: isize) {
        let len = entries.unsigned_abs().saturating_mul(FLOOR_LEN);
        if entries > 0 { self.account(0, len) } else { self.account(len, 0) }
    }
}
