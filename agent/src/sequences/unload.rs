//! Memory: when it gets scarce, keys of sections that were not asked for lately are forgotten. Each of them goes on from the highest number
//! of its section, so that costs gaps, and no question to a master.

use super::counts::add;
use super::name::Name;
use super::{Sequences, lock};
use common::time::BootMs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often it is looked.
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

    /// Forgets keys, if memory is scarce.
    pub(super) fn make_room(&self) {
        let part = |percent: u64| self.settings.memory / 100 * percent;
        if (self.memory.load(Ordering::Relaxed) as u64) < part(HIGH_PERCENT) {
            return;
        }
        let mut idle: Vec<(BootMs, Arc<Name>, u32)> = Vec::new();
        for name in self.served.load().values() {
            for shard in name.shards() {
                let shard = lock(shard);
                let kept = shard.iter().filter(|(_, entry)| !entry.state.is_empty());
                idle.extend(kept.map(|(section, entry)| (entry.state.used(), Arc::clone(name), *section)));
            }
        }
        idle.sort_unstable_by_key(|(used, ..)| *used);
        for (_, name, section) in idle {
            if self.memory.load(Ordering::Relaxed) as u64 <= part(LOW_PERCENT) {
                break;
            }
            let Some(shard) = name.shard(common::sequence::Section(section)) else { continue };
            if let Some(entry) = lock(shard).get_mut(&section) {
                let before = entry.state.len();
                entry.state.unload();
                self.account(before, entry.state.len());
                add(&self.counts.unloads, 1);
            }
        }
    }
}
