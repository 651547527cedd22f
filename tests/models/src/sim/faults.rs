//! Everything that goes wrong.

use super::disk::{Folder, Mishap, Plan, Point};
use super::host::Host;
use super::master::{Master, Step, Trap, slot};
use super::net::Node;
use super::sections::LEASE;
use super::shelf::Shelf;
use super::swarm::{Fault, Theme};
use super::world::{Call, Caller, Event, SETTLE, Task, World};
use common::parameters::SessionId;
use common::time::{DAY_MS, HOUR_MS, WallMs};
use common::token::TokenType;
use wire::lease::{Mode, TokenRequest};

/// Machines at most, copies included.
const HOSTS_MAX: usize = 40;
/// Copies that run at the same time.
const COPIES_MAX: usize = 4;
/// Earlier states of a folder that are kept.
const BACKUPS_MAX: usize = 3;
/// Former masters that live on at the same time.
const ZOMBIES_MAX: usize = 2;
/// Masters there ever are, those that were replaced and copies included.
const MASTERS_MAX: usize = 24;
/// Long enough for one message to get lost, too short for anybody to be missed.
const MOMENT: i64 = 300;
/// The farthest that a calendar is set wrong.
const STEP_MAX: i64 = 400 * DAY_MS;

/// The two calendars are set wrong together by this at least, and differ by it at most.
const MINUTE_MS: i64 = 60_000;
/// And by this at most.
const MONTHS_MS: i64 = 150 * DAY_MS;
/// Long enough for two masters to meet, and for all agents to show what they hold.
const CALM: i64 = 5 * MINUTE_MS;
/// The first of the hosts that floods come from: no agent of ours is there.
const FLOOD_HOSTS: usize = 1 << 16;

impl World {
    /// A fault, and the next one.
    pub fn on_fault(&mut self) {
        if self.healed {
            return;
        }
        let gap = self.rng.range(1, 2 * self.swarm.fault_gap);
        self.after(gap, Event::Fault);
        if self.t < self.calm_until {
            return;
        }
        self.inflict_one();
    }

    /// A fault, whichever.
    pub(super) fn inflict_one(&mut self) {
        let fault = self.swarm.fault(&mut self.rng);
        self.keep_backups();
        self.tell(|| format!("fault: {fault}"));
        self.note(fault as u64);
        if self.inflict(fault) {
            self.count_fault(fault.word());
        }
    }

    fn keep_backups(&mut self) {
        if self.rng.chance(0.5) {
            return;
        }
        let h = self.rng.below(self.hosts.len());
        let host = &mut self.hosts[h];
        if host.backups.len() >= BACKUPS_MAX {
            host.backups.remove(0);
        }
        host.backups.push(host.folder.clone());
        if self.rng.chance(0.2) {
            self.pair_backup = self.snapshot_pair();
        }
        let m = self.current[self.rng.below(2)];
        let master = &mut self.masters[m];
        if let (Some(ledger), Some(store)) = (&master.ledger, &mut master.store)
            && self.rng.chance(0.4)
        {
            master.backup = Some((ledger.lsn(), store.snapshot()));
        }
    }

    /// A living master, rarely a former one.
    fn some_master(&mut self) -> usize {
        if self.rng.chance(0.9) { self.current[self.rng.below(2)] } else { self.rng.below(self.masters.len()) }
    }

    fn inflict(&mut self, fault: Fault) -> bool {
        let m = self.some_master();
        match fault {
            Fault::MasterCrash => {
                let down = self.outage(DAY_MS);
                self.crash_master(m, down);
            }
            Fault::CommitFails => self.masters[m].fail_commit = Some(self.rng.chance(0.5)),
            Fault::BothCrash => {
                for m in self.current {
                    let down = self.outage(DAY_MS);
                    self.crash_master(m, down);
                }
            }
            Fault::PeerCut => {
                let other = self.current[slot(self.masters[m].id.other())];
                self.cut(Node::Master(m), Node::Master(other));
                self.unsettle();
            }
            Fault::MasterClock => return self.master_clock(m),
            Fault::MasterPause => {
                let span = self.outage(15 * DAY_MS);
                self.masters[m].paused_until = self.t + span;
                self.unsettle();
            }
            Fault::AtAStep => {
                self.masters[m].trap = Some(self.some_trap());
            }
            Fault::BothCalendars => self.both_calendars(),
            Fault::MasterCopy => return self.copy_master(),
            Fault::MasterTwin => return self.twin_master(),
            Fault::MasterReboot => {
                let down = self.outage(DAY_MS);
                self.crash_master(m, down);
                if let Some(store) = &mut self.masters[m].store {
                    store.disturb();
                }
            }
            Fault::DiskPutBack => {
                let m = self.current[self.rng.below(2)];
                return self.put_back(m);
            }
            Fault::PairReverted => return self.revert_pair(),
            Fault::Flood => self.flood(),
            Fault::DiskLost => return self.disk_lost(),
            Fault::RolledBack => {
                let m = self.current[self.rng.below(2)];
                return self.rolled_back(m);
            }
            _ => return self.inflict_agent(fault),
        }
        true
    }

    fn some_trap(&mut self) -> (Step, Trap) {
        if !self.swarm.ranges.names.is_empty() && self.rng.chance(0.5) {
            return (Step::RANGES[self.rng.below(Step::RANGES.len())], Trap::ALL[self.rng.below(Trap::ALL.len())]);
        }
        const IN_DOUBT: [(Step, Trap); 5] = [
            (Step::Lent, Trap::OtherLost),
            (Step::Proposed, Trap::OtherLost),
            (Step::Closing, Trap::OtherLost),
            (Step::Granted, Trap::Lost),
            (Step::Renewed, Trap::Lost),
        ];
        match self.swarm.theme {
            Theme::Replaced if self.rng.chance(0.8) => IN_DOUBT[self.rng.below(IN_DOUBT.len())],
            Theme::RolledBack if self.rng.chance(0.8) => {
                (Step::Renewed, [Trap::RollsBack, Trap::PutBack][self.rng.below(2)])
            }
            Theme::Ended => (Step::Closing, Trap::OtherLost),
            _ => (Step::ALL[self.rng.below(Step::ALL.len())], Trap::ALL[self.rng.below(Trap::ALL.len())]),
        }
    }

    /// Springs a trap at a master's step.
    pub(super) fn spring(&mut self, m: usize, trap: Trap) {
        let other = self.current[slot(self.masters[m].id.other())];
        self.tell(|| format!("at a step of master {m}: {trap:?}"));
        let (here, there) = (Node::Master(m), Node::Master(other));
        let lost = match trap {
            Trap::Dies => return,
            Trap::Cut => return self.cut(here, there),
            Trap::Unheard => return self.net.cut(here, there, self.t, self.t + MOMENT),
            Trap::RollsBack => {
                self.net.cut(here, there, self.t, self.t + MOMENT);
                let wait = self.rng.magnitude(MOMENT, HOUR_MS);
                return self.after(wait, Event::RollBack(m));
            }
            Trap::PutBack => {
                let wait = self.rng.magnitude(MOMENT, HOUR_MS);
                self.net.cut(here, there, self.t, self.t + wait + 1);
                return self.after(wait, Event::PutBack(m));
            }
            Trap::Lost => m,
            Trap::OtherLost => other,
        };
        if self.healed || !self.may_replace(lost) {
            return;
        }
        let within = self.t < self.episode_until;
        let notice = self.rng.magnitude(MOMENT, if within { 4 * LEASE } else { HOUR_MS });
        if within {
            self.lengthen_episode();
        }
        let survivor = if lost == m { there } else { here };
        self.net.cut(Node::Master(lost), survivor, self.t, self.t + notice + 1);
        let unanswered = if self.swarm.theme == Theme::Ended { 0.9 } else { 0.3 };
        if self.rng.chance(unanswered) {
            self.net.cut(survivor, Node::Master(lost), self.t, self.t + notice + 1);
        }
        let zombie = self.zombie_comes();
        self.after(notice, Event::DeclareLost { lost, zombie });
    }

    pub(super) fn may_replace(&mut self, lost: usize) -> bool {
        self.replacements < self.swarm.replacements_max && self.replaceable(lost)
    }

    /// Decides whether the next lost master lives on.
    pub(super) fn zombie_comes(&mut self) -> bool {
        self.former_masters() < ZOMBIES_MAX && self.rng.chance(0.5)
    }

    /// One way, the other, or both.
    fn cut(&mut self, a: Node, b: Node) {
        let until = self.t + self.outage(20 * DAY_MS);
        let way = self.rng.below(3);
        if way != 1 {
            self.net.cut(a, b, self.t, until);
        }
        if way != 0 {
            self.net.cut(b, a, self.t, until);
        }
    }

    fn clock_step(&mut self) -> i64 {
        // Small steps are those that an agent follows without a word.
        let most = if self.rng.chance(0.3) { HOUR_MS } else { STEP_MAX };
        let step = self.rng.magnitude(1_000, most);
        if self.rng.chance(0.5) { step } else { -step }
    }

    fn master_clock(&mut self, m: usize) -> bool {
        let other = self.current[slot(self.masters[m].id.other())];
        if self.masters[other].wall_off != 0 && !self.swarm.both_clocks {
            return false;
        }
        self.masters[m].wall_off = self.clock_step();
        let right = self.outage(5 * DAY_MS);
        self.after(right, Event::MasterClockRight(m));
        true
    }

    /// A copy of a data directory, on a machine that no master can be reached from.
    fn copy_master(&mut self) -> bool {
        let m = self.current[self.rng.below(2)];
        if self.former_masters() >= ZOMBIES_MAX || self.masters.len() >= MASTERS_MAX {
            return false;
        }
        let (id, Some(store)) = (self.masters[m].id, &mut self.masters[m].store) else { return false };
        let mut store = store.snapshot();
        store.disturb();
        self.masters.push(Master::new(id, Some(store)));
        let copy = self.masters.len() - 1;
        self.masters[copy].cut_off = true;
        let stay = self.rng.magnitude(HOUR_MS, 40 * DAY_MS);
        for other in 0..copy {
            for (from, to) in [(copy, other), (other, copy)] {
                self.net.cut(Node::Master(from), Node::Master(to), self.t, self.t + stay + 1);
            }
        }
        self.tell(|| format!("master {copy} is a copy of master {m}"));
        self.after(stay, Event::EndZombie(copy));
        self.start_master(copy);
        true
    }

    /// A copy of a data directory in its master's place, and the other master reached by both: where it connects to leads to the
    /// copy from now on.
    fn twin_master(&mut self) -> bool {
        let m = self.current[self.rng.below(2)];
        if self.former_masters() >= ZOMBIES_MAX || self.masters.len() >= MASTERS_MAX || !self.may_replace(m) {
            return false;
        }
        let (id, Some(store)) = (self.masters[m].id, &mut self.masters[m].store) else { return false };
        let mut store = store.snapshot();
        store.disturb();
        let mut twin = Master::new(id, Some(store));
        (twin.restored, twin.tampered) = (true, true);
        self.masters[m].tampered = true;
        self.masters.push(twin);
        let twin = self.masters.len() - 1;
        self.current[slot(id)] = twin;
        let stay = self.rng.magnitude(HOUR_MS, 10 * DAY_MS);
        self.tell(|| format!("master {twin} is a copy of master {m}, in its place"));
        self.after(stay, Event::EndZombie(m));
        self.start_master(twin);
        true
    }

    /// Counts the running masters that are not of the pair: copies, and those that were replaced.
    fn former_masters(&self) -> usize {
        (0..self.masters.len()).filter(|m| !self.current.contains(m) && self.masters[*m].ledger.is_some()).count()
    }

    /// A store is put back, and nobody thinks anything of it.
    pub(super) fn put_back(&mut self, m: usize) -> bool {
        if self.healed || !self.current.contains(&m) {
            return false;
        }
        // With the other one put back too, or rolled back, no store would know any more what was promised: the end of a
        // cluster, after which a new one begins (`--after-total-loss`).
        if !self.may_replace(m) {
            return false;
        }
        let Some((lsn, backup)) = &mut self.masters[m].backup else { return false };
        let (lsn, mut store) = (*lsn, backup.snapshot());
        store.disturb();
        self.tell(|| format!("master {m} is put back to change {lsn}"));
        self.masters[m].die();
        self.masters[m].store = Some(store);
        (self.masters[m].restored, self.masters[m].tampered) = (true, true);
        let down = self.outage(DAY_MS);
        self.after(down, Event::StartMaster(m));
        true
    }

    fn snapshot_pair(&mut self) -> Option<[(usize, Shelf); 2]> {
        let [one, two] = self.current;
        let ready = |m: usize| self.masters[m].ledger.as_ref().is_some_and(|ledger| ledger.mode() == Mode::Ready);
        if !ready(one) || !ready(two) {
            return None;
        }
        let mut copy = |m: usize| Some((m, self.masters[m].store.as_mut()?.snapshot()));
        Some([copy(one)?, copy(two)?])
    }

    /// Both stores are put back to one instant: neither knows of anything that the other does not.
    fn revert_pair(&mut self) -> bool {
        let Some(mut backup) = self.pair_backup.take().filter(|b| [b[0].0, b[1].0] == self.current) else {
            return false;
        };
        let [one, two] = self.current;
        if !self.replaceable(one) || !self.replaceable(two) {
            return false;
        }
        let known = backup[0].1.load().leases.iter().map(|(key, lease)| (*key, lease.g)).collect();
        let forgets = self.oracle.is_forgotten_by(&known, WallMs(self.t));
        if forgets && self.rng.chance(0.5) {
            self.quieten();
        }
        let held: Vec<_> = self.hosts.iter().filter(|host| !host.retired).flat_map(Host::leases).collect();
        let unnoticed = self.all_are_heard() && self.oracle.is_all_held(&held, WallMs(self.t - DAY_MS));
        // Mostly where it matters: a later moment may have more to forget, and what is noticed holds up all grants for weeks.
        if !(forgets && unnoticed || self.rng.chance(0.01)) {
            self.pair_backup = Some(backup);
            return false;
        }
        self.oracle.forgotten = true;
        self.excuse_order(MINUTE_MS);
        for (m, mut store) in backup {
            let loaded = store.load();
            let mut raised = self.above_all_given(&loaded);
            if unnoticed {
                raised.extend(self.sections_as_they_are(&loaded));
            }
            store.commit_as_is(raised);
            store.disturb();
            self.masters[m].die();
            self.masters[m].store = Some(store);
            (self.masters[m].restored, self.masters[m].tampered) = (true, true);
        }
        if unnoticed {
            // Nobody notices, and every holder shows what it was promised; what nobody was told of is not a promise.
            self.oracle.forget_untaken();
            let down = self.rng.range(1_000, 30_000);
            self.calm_until = self.t + down + CALM;
            self.current.into_iter().for_each(|m| self.after(down, Event::StartMaster(m)));
            let names = self.rng.range(0, 5);
            self.newcomers(names, down, CALM);
        } else {
            // A promise whose holder cannot be heard is what masters do not see: whoever puts both back says so at once.
            self.say_both_are_old();
        }
        true
    }

    /// A moment in which everybody runs and is reached.
    fn quieten(&mut self) {
        self.net.heal();
        for m in self.current {
            (self.masters[m].wall_off, self.masters[m].paused_until) = (0, self.t);
        }
        for h in 0..self.hosts.len() {
            self.hosts[h].wall_off = 0;
            self.go_on(h);
            if !self.hosts[h].retired {
                self.start_agent(h);
            }
        }
    }

    /// Tells whether every agent runs, reaches both masters and no other in their places, has what it was promised still on its disk, and all
    /// calendars are right.
    fn all_are_heard(&self) -> bool {
        let reached = |h: usize, m: usize| {
            self.net.open(Node::Host(h), Node::Master(m), self.t)
                && self.net.open(Node::Master(m), Node::Host(h), self.t)
        };
        let heard = |h: usize| {
            let host = &self.hosts[h];
            host.retired
                || host.proc.as_ref().is_some_and(|proc| proc.call.is_none() && host.folder.is_untouched())
                    && host.paused_until <= self.t
                    && host.wall_off == 0
                    && self.current.iter().all(|m| reached(h, *m))
        };
        let [one, two] = self.current.map(Node::Master);
        let met = self.net.open(one, two, self.t) && self.net.open(two, one, self.t);
        let up = |m: &usize| self.masters[*m].wall_off == 0 && self.masters[*m].paused_until <= self.t;
        // Agents on the far side reach a former master or a copy alone, as long as there is one.
        let alone = self.current.contains(&self.address(0, true));
        met && alone && self.current.iter().all(up) && (0..self.hosts.len()).all(heard)
    }

    fn both_calendars(&mut self) {
        let step = self.rng.magnitude(MINUTE_MS, MONTHS_MS);
        let step = if self.rng.chance(0.8) { step } else { -step };
        let span = self.outage(5 * DAY_MS);
        for m in self.current {
            self.masters[m].wall_off = step + self.rng.range(-MINUTE_MS, MINUTE_MS);
            let right = span + self.rng.range(0, 3_000);
            self.after(right, Event::MasterClockRight(m));
        }
        self.busy(SETTLE);
    }

    /// Whoever wants more tokens than one agent may have takes a new name for each.
    fn flood(&mut self) {
        let values = i64::from(self.swarm.parameters.uint2_max()) + 1;
        let (names, span) = (self.rng.magnitude(2, 2 * values), self.rng.magnitude(1_000, HOUR_MS));
        self.newcomers(names, 0, span);
        self.busy(SETTLE);
    }

    /// So many new agents ask for their first token within `span`, which begins after `pause`.
    fn newcomers(&mut self, names: i64, pause: i64, span: i64) {
        let caller = Caller { host: FLOOD_HOSTS + self.rng.below(2), life: 0, rpc: 0, task: Task::Leases };
        for _ in 0..names {
            let agent_id = format!("fresh-{:08x}", self.rng.next() as u32).parse().expect("a name");
            let session = SessionId(self.rng.wide());
            let request =
                TokenRequest { agent_id, session, cluster: None, token_type: TokenType::Uint2, former: Vec::new() };
            let (target, delay) = (self.current[self.rng.below(2)], pause + self.rng.range(0, span));
            self.after(delay, Event::Call(target, caller, Box::new(Call::Token(request))));
        }
    }

    fn disk_lost(&mut self) -> bool {
        let lost = self.current[self.rng.below(2)];
        if !self.may_replace(lost) {
            return false;
        }
        let zombie = self.zombie_comes();
        if zombie {
            self.declare_lost(lost, true);
        } else {
            // The disk is gone; it takes a while until someone does something.
            self.masters[lost].die();
            self.masters[lost].store = None;
            let notice = self.rng.magnitude(60_000, 3 * DAY_MS);
            self.after(notice, Event::DeclareLost { lost, zombie: false });
        }
        true
    }

    /// A survivor is put back to before its replacement joined.
    pub fn put_back_awaiting(&mut self, m: usize) {
        if let Some(backup) = self.masters[m].awaiting_backup.take() {
            self.masters[m].backup = Some(backup);
            if self.rolled_back(m) {
                self.tell(|| format!("master {m} is put back to before the join"));
                self.count_fault("put-back-awaiting");
            }
        }
    }

    /// A master's store is put back from a backup, if there is one and that can be noticed.
    pub fn rolled_back(&mut self, m: usize) -> bool {
        if self.healed || !self.current.contains(&m) {
            return false;
        }
        let other = self.current[slot(self.masters[m].id.other())];
        let reached = self.net.open(Node::Master(m), Node::Master(other), self.t)
            && self.net.open(Node::Master(other), Node::Master(m), self.t)
            && self.masters[other].paused_until <= self.t
            && self.masters[m].paused_until <= self.t;
        // The greeting gets through; a disk that is put back while the other cannot be heard is a fault of its own.
        if !reached || !self.may_replace(m) || !self.roll_back(m) {
            return false;
        }
        let loss = std::mem::replace(&mut self.swarm.loss, 0.0);
        self.start_master(m);
        self.greet_now(m, other);
        self.swarm.loss = loss;
        let notice = self.rng.magnitude(60_000, DAY_MS);
        if self.masters[m].condemned {
            self.after(notice, Event::DeclareLost { lost: m, zombie: false });
        }
        true
    }

    fn inflict_agent(&mut self, fault: Fault) -> bool {
        let h = self.rng.below(self.hosts.len());
        if self.hosts[h].retired {
            return false;
        }
        match fault {
            Fault::AgentKill => self.kill(h),
            Fault::DyingMint => self.hosts[h].dies_minting = true,
            Fault::AgentStop => {
                self.stop_agent(h);
                self.kill(h);
            }
            Fault::AgentWrite => {
                let point = Point::draw(&mut self.rng);
                let fails = Mishap::Fails { done: self.rng.chance(0.3) };
                let mishap = [fails, Mishap::Dies, Mishap::PowerCut][self.rng.below(3)];
                // A disk that is full stays full for a while; then, often, somebody starts the process anew.
                let full = mishap == fails && self.rng.chance(0.5);
                let times = if full { self.rng.range(2, 30) as u32 } else { 1 };
                self.hosts[h].folder.plan(Some(Plan { point, mishap, times }));
                if full && self.rng.chance(0.5) {
                    let wait = self.rng.magnitude(1_000, DAY_MS);
                    self.after(wait, Event::Kill(h));
                }
            }
            Fault::AgentReboot => {
                self.reboot(h);
                self.kill(h);
            }
            Fault::AgentClock => {
                self.hosts[h].wall_off = self.clock_step();
                // A clock is often wrong from the start.
                if self.rng.chance(0.3) {
                    self.kill(h);
                }
                let right = self.outage(5 * DAY_MS);
                self.after(right, Event::HostClockRight(h));
            }
            Fault::AgentPause => self.hosts[h].paused_until = self.t + self.outage(15 * DAY_MS),
            Fault::AgentCut => {
                let m = self.some_master();
                self.cut(Node::Host(h), Node::Master(m));
            }
            Fault::FolderCopy | Fault::ImageClone => return self.copy(h, fault == Fault::ImageClone),
            Fault::Restore => return self.restore(h),
            Fault::Format => {
                self.format(h);
                if self.rng.chance(0.5) {
                    self.hosts[h].folder.put_lineage(None);
                }
                if self.rng.chance(0.5) {
                    self.kill(h);
                }
            }
            Fault::Touch => self.hosts[h].folder.touch(),
            Fault::Release => self.release(h),
            _ => return false,
        }
        true
    }

    /// An agent dies and is started again.
    pub fn kill(&mut self, h: usize) {
        self.hosts[h].proc = None;
        let down = self.outage(DAY_MS);
        self.after(down, Event::StartAgent(h));
    }

    /// A copy of the folder on another machine: as new files, or with the whole image of the disk.
    fn copy(&mut self, h: usize, image: bool) -> bool {
        let copies = self.hosts.iter().skip(self.swarm.agents).filter(|host| !host.retired).count();
        if copies >= COPIES_MAX || self.hosts.len() >= HOSTS_MAX {
            return false;
        }
        let mut folder = self.hosts[h].folder.clone();
        if !image {
            let device = self.rng.next();
            let (file, lineage) = (folder.file(), folder.lineage());
            folder = Folder::new(device);
            folder.put_lineage(lineage);
            folder.put_bounds(&self.hosts[h].folder);
            if let Some(file) = file {
                folder.put(file);
            }
        }
        folder.plan(None);
        let id = self.hosts[h].id.clone();
        let copy = self.add_host(id, folder, self.hosts[h].is_allocator);
        let stay = self.rng.magnitude(HOUR_MS, 10 * DAY_MS);
        self.after(stay, Event::Retire(copy));
        true
    }

    /// Back from a backup: the file, its lineage, or both; in the same file, or as a new one; running or not.
    fn restore(&mut self, h: usize) -> bool {
        let (kept, what, in_place) = (self.hosts[h].backups.len(), self.rng.below(3), self.rng.chance(0.5));
        if kept == 0 {
            return false;
        }
        let backup = self.hosts[h].backups[self.rng.below(kept)].clone();
        let folder = &self.hosts[h].folder;
        if what != 1 {
            folder.put_lineage(backup.lineage());
        }
        if let Some(file) = backup.file().filter(|_| what != 0) {
            if in_place {
                folder.overwrite(file)
            } else {
                folder.put(file)
            }
            if what == 2 {
                folder.put_bounds(&backup);
            }
        }
        if self.rng.chance(0.7) {
            self.kill(h);
        }
        true
    }
}
