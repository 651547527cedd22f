//! The second phase: nothing goes wrong any more, operators do what the manual says, and service must return. Service is
//! an ID of each kind, given to a client: neither a lease nor a master that says `ready` is one.

use super::CONVERGE_DAYS;
use super::world::{Event, World};
use common::parameters::ClusterParameters;
use common::time::{DAY_MS, WallMs};
use ledger::replication::rules;
use wire::lease::Mode;

/// Days of the second phase at most: a master that is replaced on its first day may lift leases of dead holders to the end
/// of a permit (30 days and an hour), whose last day is followed by the grace, and an agent that was told that nothing is
/// free asks again within a day; the rest is for what has to be done again and again.
pub const HEAL_DAYS_MAX: i64 = 70;
/// A promise is kept, however wrong the calendar was by which it was made: what was promised within these first days, or may
/// have been, is waited for,
const SETTLED_DAYS: i64 = 3;
/// with its rest and the day within which agents ask again; and a few leases with their rests, because an agent whose file was
/// changed learns that with the first lease that it is given, and where there are more agents than values one such agent comes
/// after the other.
const LAST_DAYS: i64 = 35;

impl World {
    /// Nothing goes wrong any more, and whatever is down is started.
    pub fn heal(&mut self) {
        self.healed = true;
        self.tell(|| "healed".to_owned());
        self.net.heal();
        self.deliver_all();
        for m in 0..self.masters.len() {
            (self.masters[m].wall_off, self.masters[m].paused_until) = (0, self.t);
            (self.masters[m].fail_commit, self.masters[m].trap) = (None, None);
            if !self.current.contains(&m) && self.joining.as_ref().is_none_or(|joining| joining.new != m) {
                // Switched off for good, also if it was down and about to be started again.
                self.masters[m].die();
                self.masters[m].store = None;
            }
        }
        for m in self.current {
            self.after(1_000, Event::StartMaster(m));
        }
        for h in 0..self.hosts.len() {
            let host = &mut self.hosts[h];
            (host.wall_off, host.dies_minting) = (0, false);
            host.folder.plan(None);
            self.go_on(h);
            if !self.holds(h) {
                // Its file may have been changed under it: better that it learns that now than with the first lease it is given.
                self.hosts[h].proc = None;
            }
            if h >= self.swarm.agents {
                self.retire(h);
            }
            self.after(1_000, Event::StartAgent(h));
        }
        self.busy(30_000);
    }

    /// Lets the second phase pass, until everybody whom service can return to has it.
    pub fn converge(&mut self) -> Vec<String> {
        let healed = self.t;
        let mut days_max = HEAL_DAYS_MAX;
        for day in 1.. {
            self.replace_the_lost();
            self.look_after_masters();
            self.run(healed + day * DAY_MS);
            self.ask_everybody(day > 1);
            if day <= SETTLED_DAYS {
                let far = self.farthest_promise().0 - healed;
                days_max = days_max.max(far / DAY_MS + LAST_DAYS);
            }
            let stuck = if day < CONVERGE_DAYS { continue } else { self.stuck() };
            if stuck.is_empty() {
                return self.serve_all_sections();
            }
            if day >= days_max {
                return stuck;
            }
        }
        Vec::new()
    }

    /// The latest time until which anything that a master knows of is promised, or may be by the other one.
    fn farthest_promise(&self) -> WallMs {
        let ledgers = || self.current.iter().filter_map(|m| self.masters[*m].ledger.as_ref());
        let leases = ledgers().flat_map(|ledger| ledger.table().leases().map(|(_, lease)| lease.until));
        let permits = ledgers().filter_map(|ledger| ledger.observed().permit_in.max(ledger.permit_out()));
        let floors = ledgers().filter_map(|ledger| ledger.caution().floor.map(|floor| floor.until));
        leases.chain(permits).chain(floors).max().unwrap_or_default()
    }

    /// One client comes to each agent and wants one ID of each kind.
    fn ask_everybody(&mut self, mends: bool) {
        for h in 0..self.hosts.len() {
            let mut behind = false;
            for at in 0..=self.swarm.kinds.len() {
                self.mint_kind(h, at, 1, &mut false);
                behind |= self.hosts[h].clock_behind;
            }
            let foreign = std::mem::take(&mut self.hosts[h].foreign);
            if (behind || foreign) && mends {
                // Its clock is right, and its last IDs are of a time that is far away, or its file is of a cluster that is lost: a
                // new serial file, a new token.
                self.tell(|| format!("agent {h} is given a new serial file"));
                self.format(h);
                if foreign {
                    self.hosts[h].folder.put_lineage(None);
                }
                self.hosts[h].proc = None;
                self.after(1_000, Event::StartAgent(h));
            }
        }
    }

    /// Everyone whom service has not returned to. There are seeds with more agents than tokens: then every token must be
    /// of use to somebody.
    fn stuck(&self) -> Vec<String> {
        if self.oracle.violations > 0 {
            return Vec::new();
        }
        let mut found = Vec::new();
        for m in self.current {
            match &self.masters[m].ledger {
                Some(ledger) if ledger.mode() == Mode::Ready => {}
                Some(ledger) => found.push(format!("stuck: master {m} is {}", ledger.mode())),
                None => found.push(format!("stuck: master {m} is down")),
            }
        }
        let here: Vec<usize> = (0..self.hosts.len()).filter(|h| !self.hosts[*h].retired).collect();
        let lately = |at: &Option<i64>| at.is_some_and(|at| at > self.t - DAY_MS);
        let idle: Vec<usize> = here.iter().copied().filter(|h| !self.hosts[*h].served.iter().all(lately)).collect();
        let values = self.swarm.parameters.uint2_max() as usize + 1;
        let served = here.len() - idle.len();
        if served < here.len().min(values) {
            found.extend(idle.into_iter().map(|h| self.describe_idle(h, values)));
            found.extend(self.current.iter().filter_map(|m| self.describe_values(*m)));
        }
        found
    }

    fn holds(&self, h: usize) -> bool {
        let host = &self.hosts[h];
        host.proc.as_ref().is_some_and(|proc| proc.holds(host.os(self.t)))
    }

    /// Describes what a master knows of each value at home there: days to the end of its lease, and what keeps it.
    fn describe_values(&self, m: usize) -> Option<String> {
        let ledger = self.masters[m].ledger.as_ref()?;
        let mut values = Vec::new();
        for (key, lease) in ledger.table().leases().filter(|(key, _)| rules::home(*key) == self.masters[m].id) {
            let days = (lease.until.0 - self.t) as f64 / DAY_MS as f64;
            values.push(format!("{} {:?} of {} for {days:.1} d", key.value.0, lease.state, lease.agent_id));
        }
        let preps: Vec<u32> = ledger.table().preps().map(|prep| prep.key.value.0).collect();
        Some(format!("stuck: values of master {m}: {}; proposed: {preps:?}", values.join(", ")))
    }

    fn describe_idle(&self, h: usize, values: usize) -> String {
        let host = &self.hosts[h];
        let holds = self.holds(h);
        let days = |at: &Option<i64>| at.map_or("never".to_owned(), |at| format!("{} d ago", (self.t - at) / DAY_MS));
        let served: Vec<String> = host.served.iter().map(days).collect();
        let open = |m: usize| self.masters[m].ledger.as_ref().map_or(0, |l| l.table().of_agent(&host.id).count());
        let open = self.current.iter().map(|m| open(*m)).max().unwrap_or(0);
        format!(
            "stuck: agent {h} gave out Uniq64, strings, Uniq96 {}; it holds a lease: {holds}; its name has {open} of {} open \
             leases, and there are {values} values",
            served.join(", "),
            ClusterParameters::BUDGET
        )
    }
}
