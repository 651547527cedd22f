//! Remedies that operators apply by the manual so that masters go on: the product's own, each on a stopped master, and none but
//! where what the operator says by it is true.

use super::master::{Master, slot};
use super::mutation::Mutation;
use super::operator::STEP_MAX;
use super::shelf::Shelf;
use super::world::{Event, World};
use common::audit::Actor;
use common::time::{DAY_MS, HOUR_MS, WallMs};
use ledger::lease::Loaded;
use ledger::lease::remedy::{after_revert, floor_of, forget_clock, vouch};
use ledger::lease::{Caution, Write};
use minting::timebase::SKEW_MAX;
use wire::lease::Mode;

/// Between two looks at the masters while things go wrong.
const ROUNDS: (i64, i64) = (HOUR_MS, 3 * DAY_MS);

fn operator() -> Actor {
    Actor::new("operator", "")
}

impl World {
    /// An operator reads what the masters say, and does what it asks for; one thing at a time.
    pub fn look_after_masters(&mut self) {
        if let Some(joining) = &self.joining {
            let survivor = joining.survivor;
            return self.vouch_for(survivor);
        }
        // Whoever mends something looks at the calendars first, as the manual says.
        let right = |m: &usize| self.masters[*m].wall_off == 0 && self.masters[*m].paused_until <= self.t;
        if !self.current.iter().all(right) {
            return;
        }
        let now = WallMs(self.t);
        if self.current.into_iter().all(|m| self.is_gone(m)) {
            return self.begin_anew();
        }
        if self.current.into_iter().any(|m| self.calendar_holds_back(m)) {
            for m in self.current {
                self.tell(|| format!("--forget-clock on master {m}"));
                self.mend(m, 0, |loaded| Some(forget_clock(loaded, operator(), now)));
            }
            return self.count_remedy("forget-clock");
        }
        if self.both_are_old() {
            return self.say_both_are_old();
        }
        for m in self.current {
            let ledger = self.masters[m].ledger.as_ref();
            if ledger.is_some_and(|ledger| ledger.calendar().ahead().is_some()) {
                // It was behind when it started, and is right now.
                let down = self.outage(STEP_MAX);
                self.crash_master(m, down);
            } else {
                self.vouch_for(m);
            }
        }
    }

    /// `--vouch-untouched`, if a master waits for that word and it is true: for one that waits for its replacement, too, which alone knows
    /// how far it raised sections.
    fn vouch_for(&mut self, m: usize) {
        let waits = self.masters[m].ledger.as_ref().is_some_and(|ledger| ledger.mode() == Mode::Syncing);
        if waits && self.may_vouch(m) {
            self.tell(|| format!("--vouch-untouched for master {m}"));
            let now = WallMs(self.t);
            self.mend(m, 0, |loaded| vouch(loaded, operator(), now));
            self.count_remedy("vouch-untouched");
        }
    }

    /// `--after-revert` on both masters.
    pub(super) fn say_both_are_old(&mut self) {
        let now = WallMs(self.t);
        // By the operator's word the two have forgotten grants: their generations come again, after the floor.
        self.oracle.forgotten = true;
        self.excuse_order(STEP_MAX);
        let skips =
            self.current.map(|m| self.masters[m].loaded().map_or(0, |loaded| self.sections_forgotten(&loaded).0));
        let skip = skips[0].max(skips[1]);
        for m in self.current {
            self.tell(|| format!("--after-revert on master {m}"));
            self.masters[m].restored = false;
            let ignored = self.mutations.has(Mutation::FloorIgnored);
            let Some(loaded) = self.masters[m].loaded() else { continue };
            let mut raised = self.above_all_given(&loaded);
            raised.extend(self.sections_forgotten(&loaded).1);
            self.mend(m, 1, |loaded| {
                let floor = floor_of(&loaded.identity.parameters, now.max(loaded.observed.clock_high), None);
                let mut writes = after_revert(loaded, floor, skip, operator(), now).ok()?;
                writes.extend(raised);
                if ignored {
                    writes.push(Write::Caution(Caution::default()));
                }
                Some(writes)
            });
        }
        self.count_remedy("after-revert");
    }

    /// Whoever has no disk, or one that was rolled back, is replaced.
    pub(super) fn replace_the_lost(&mut self) {
        for m in self.current {
            // Whoever has met the other one has forgotten nothing any more.
            if self.masters[m].ledger.as_ref().is_some_and(|ledger| ledger.mode() == Mode::Ready) {
                self.masters[m].restored = false;
            }
            if self.is_gone(m) || self.masters[m].condemned || self.is_strange(m) {
                self.declare_lost(m, false);
            }
            // Two stores of it were seen: all of them are stopped.
            let other = self.current[slot(self.masters[m].id.other())];
            if self.masters[other].loaded().is_some_and(|loaded| loaded.lives.peer_copied) {
                let id = self.masters[m].id;
                self.masters.iter_mut().filter(|master| master.id == id).for_each(Master::die);
                self.declare_lost(m, false);
            }
        }
    }

    /// The same now and then while things go wrong.
    pub(super) fn on_operator(&mut self) {
        if self.healed {
            return;
        }
        self.replace_the_lost();
        self.look_after_masters();
        let pause = self.rng.range(ROUNDS.0, ROUNDS.1);
        self.after(pause, Event::Operator);
    }

    /// Tells whether nothing can go on from its store.
    fn is_gone(&mut self, m: usize) -> bool {
        self.masters[m].loaded().is_none_or(|loaded| loaded.observed.rolled_back)
    }

    /// Tells whether it was put back to a time at which the other one was another, so that the two never meet: whoever put it back
    /// knows which one to replace.
    fn is_strange(&mut self, m: usize) -> bool {
        let other = self.current[slot(self.masters[m].id.other())];
        let waits = |m: usize| self.masters[m].ledger.as_ref().is_some_and(|ledger| ledger.mode() != Mode::Ready);
        let known = self.masters[m].restored && !self.masters[other].restored;
        waits(m) && waits(other) && (known || self.awaits_in_vain(m))
    }

    /// Tells whether it waits for a replacement that has joined long since.
    fn awaits_in_vain(&mut self, m: usize) -> bool {
        self.joining.is_none() && self.masters[m].loaded().is_some_and(|loaded| loaded.identity.awaiting.is_some())
    }

    /// Tells whether the masters say that both ledgers are old; or one is lost, and the operator knows that the other is old.
    fn both_are_old(&mut self) -> bool {
        let said = |loaded: &Loaded| loaded.caution.reverted;
        let [one, two] = self.current;
        self.current.into_iter().any(|m| self.masters[m].loaded().is_some_and(|loaded| said(&loaded)))
            || [(one, two), (two, one)].into_iter().any(|(a, b)| {
                let known = self.masters[b].restored;
                (self.is_gone(a) || self.awaits_in_vain(a))
                    && known
                    && self.masters[b].loaded().is_some_and(|loaded| loaded.proven.is_err())
            })
    }

    /// Both ledgers are lost: two new masters, `--format --after-total-loss`, and new serial files for all agents.
    fn begin_anew(&mut self) {
        self.tell(|| "the cluster begins anew".to_owned());
        self.oracle.forgotten = true;
        let identities = self.draw_cluster();
        let floor = floor_of(&self.swarm.parameters, WallMs(self.t), None);
        self.masters.iter_mut().for_each(Master::die);
        for (m, identity) in self.current.into_iter().zip(identities) {
            self.masters[m].store = None;
            let mut store = Shelf::format(identity.clone());
            store.commit([Write::Caution(Caution { floor: Some(floor), ..Caution::default() })], 0);
            store.commit(self.names(), 0);
            let loaded = store.load();
            store.commit(self.above_all_given(&loaded).into_iter().chain(self.sections_as_they_are(&loaded)), 0);
            self.masters.push(Master::new(identity.master, Some(store)));
            self.current[slot(identity.master)] = self.masters.len() - 1;
            self.after(STEP_MAX, Event::StartMaster(self.masters.len() - 1));
        }
        for h in 0..self.hosts.len() {
            if !self.hosts[h].retired {
                self.format(h);
                self.hosts[h].folder.put_lineage(None);
                self.kill(h);
            }
        }
        self.count_remedy("after-total-loss");
    }

    fn count_remedy(&mut self, word: &'static str) {
        *self.remedies.entry(word).or_default() += 1;
    }

    /// Tells whether it says that the calendars once showed a later time, or a far one now.
    fn calendar_holds_back(&mut self, m: usize) -> bool {
        let far = self.masters[m].ledger.as_ref().is_some_and(|ledger| ledger.calendar().far());
        let high = self.masters[m].loaded().map(|loaded| loaded.observed.clock_high);
        far || high.is_some_and(|high| high > WallMs(self.t) + SKEW_MAX)
    }

    /// Tells whether an operator may say that this store is untouched: it was merely booted anew, and no copy of it runs, nor did
    /// one ever go on from a later state.
    fn may_vouch(&mut self, m: usize) -> bool {
        let id = self.masters[m].id;
        let copied = self.masters.iter().any(|other| other.cut_off && other.id == id && other.ledger.is_some());
        let other = self.current[slot(id.other())];
        let unreached = self.masters[other].ledger.is_none();
        let unproven = self.masters[m].loaded().is_some_and(|loaded| loaded.proven.is_err());
        unproven && unreached && !copied && !self.masters[m].restored && !self.masters[m].condemned
    }

    /// Stops a master, writes into its store what `remedy` makes of it as so many changes, and starts it again.
    fn mend(&mut self, m: usize, changes: u64, remedy: impl FnOnce(&Loaded) -> Option<Vec<Write>>) {
        self.masters[m].die();
        let (Some(loaded), Some(store)) = (self.masters[m].loaded(), &mut self.masters[m].store) else { return };
        if let Some(writes) = remedy(&loaded) {
            // What a program of ours has written, the next one finds as it was left.
            store.settle_lineage();
            self.oracle.sections_recorded(&writes);
            store.commit(writes, loaded.lsn + changes);
        }
        let pause = self.outage(STEP_MAX);
        self.after(pause, Event::StartMaster(m));
    }
}
