//! Episodes: some minutes in which masters beat every second, allocators keep their sections and clients want numbers of keys, while
//! more goes wrong than in all the days around, and for shorter.

use super::disk::{Mishap, Plan, Point};
use super::master::{Asker, slot};
use super::net::Node;
use super::oracle::Oracle;
use super::ranges::rewritten;
use super::sections::{LEASE, Question};
use super::swarm::Theme;
use super::world::{Event, World};
use common::audit::Actor;
use common::sequence::SectionRange;
use common::sequence::{Section, SectionKey, SectionOrder, SectionRecord};
use common::time::{DAY_MS, HOUR_MS, SpanMs};
use ledger::lease::{Event as LedgerEvent, Write};
use ledger::section::SectionTable;
use minting::sequence::{Ownership, Tenure};
use std::collections::BTreeMap;

/// The shortest and the longest time that one lasts.
const SPAN: (i64, i64) = (15_000, 150_000);
/// The further time that it lasts where a master is about to be replaced.
const LONGER: i64 = 60_000;
/// The last one, in which nothing goes wrong: long enough for owners that are gone to be noticed, and for new ones to wait.
const LAST: i64 = 90_000;
/// The time when the disk of an owner dies in it: all sections have owners by then.
const DIES: i64 = LAST / 3;
/// In its last part whatever is to be served is.
const SETTLED: i64 = LAST - 4 * LEASE;
/// The time for which the sections of an owner that can give nothing are its own.
const HANDED_ON: SpanMs = SpanMs(5 * LEASE / 2);
/// Writes that a disk fails at most before it works again.
const DEAD_MAX: i64 = 100;
/// Between two questions of clients.
const ASKED: (i64, i64) = (30, 600);
/// Between two things that go wrong, or are wanted by operators.
const SUDDEN: (i64, i64) = (500, 30_000);
/// Numbers that one question wants at most.
const BATCH_MAX: i64 = 40;
/// The time that a question waits.
const PATIENCE: i64 = LEASE * 3 / 2;
/// Sections that clients ask for, and keys of each.
pub const SECTIONS: [u32; 3] = [0, 1, 100];
const KEYS: u32 = 2;
/// An order that was lost is excused for so long after the last answer that led to it: its lease, questions that wait, and processes
/// that are stopped.
const EXCUSED: i64 = 12 * LEASE;

/// The longest time that both masters are down for it.
const DOWN_MAX: i64 = 2 * LEASE;
/// After both disks were put back: long enough for two masters to meet, and for all agents to show what they were granted.
const CALM: i64 = 3 * 60_000;

/// Sections that a master's store holds.
pub struct StoredSections {
    master: usize,
    records: Vec<(SectionRecord, u64)>,
    preps: Vec<SectionRecord>,
}

/// The history of the numbers of keys, by which is checked what must hold of them.
#[derive(Default)]
pub struct Sequences {
    /// The greatest bound of each section that a master's disk held.
    durable: BTreeMap<Section, u64>,
    /// The newest record of each section that any master had.
    newest: BTreeMap<Section, SectionRecord>,
    /// Numbers that were given, by section and key.
    given: BTreeMap<(Section, u32), BTreeMap<u64, u64>>,
    /// The greatest of each.
    greatest: BTreeMap<(Section, u32), u64>,
    /// The instant at which each section was served last.
    served: BTreeMap<Section, i64>,
    /// Numbers.
    pub numbers: u64,
}

/// The sections of a record that clients ask for, one by one.
pub(super) fn each(record: &SectionRecord) -> impl Iterator<Item = SectionRecord> {
    let sections = SECTIONS.into_iter().filter(|at| (record.range.from.0..record.range.to.0).contains(at));
    sections.map(|at| {
        let range = SectionRange { from: Section(at), to: Section(at + 1), ..record.range.clone() };
        SectionRecord { range, ..record.clone() }
    })
}

impl Oracle {
    /// A master's disk holds these.
    pub fn sections_recorded(&mut self, writes: &[Write]) {
        for write in writes {
            if let Write::Sections { rows, .. } = write {
                rows.iter().flat_map(|(record, _)| each(record)).for_each(|record| self.section_recorded(&record));
            }
        }
    }

    fn section_recorded(&mut self, record: &SectionRecord) {
        let durable = self.sequences.durable.entry(record.range.from).or_default();
        *durable = record.max_seq.max(*durable);
        let newest = self.sequences.newest.entry(record.range.from).or_insert_with(|| record.clone());
        if record.g > newest.g {
            *newest = record.clone();
        }
    }

    /// The sections as whoever knows all of them would have them, after both masters have forgotten.
    pub fn sections(&self) -> Vec<SectionRecord> {
        let bound =
            |record: &SectionRecord| self.sequences.durable.get(&record.range.from).copied().unwrap_or_default();
        self.sequences
            .newest
            .values()
            .map(|record| SectionRecord { max_seq: bound(record), ..record.clone() })
            .collect()
    }

    /// Numbers reach a client: each once, in order, and below a bound that was durable before.
    fn key_given(&mut self, question: &Question, first: u64, by: &str, excused: bool, t: i64) {
        let Question { section, key, n, floor, .. } = *question;
        let last = first + u64::from(n) - 1;
        let sequences = &mut self.sequences;
        sequences.numbers += u64::from(n);
        sequences.served.insert(section, t);
        let durable = sequences.durable.get(&section).copied().unwrap_or_default();
        let greatest = sequences.greatest.entry((section, key)).or_default();
        *greatest = last.max(*greatest);
        let twice = super::numbers::add(sequences.given.entry((section, key)).or_default(), first, last + 1);
        let what = || format!("{first} to {last} of key {key} of section {} by {by}", section.0);
        if twice > 0 {
            self.duplicates += twice;
            self.violated(|| format!("{}: {twice} of them were given before", what()));
        }
        if last > durable {
            self.violated(|| format!("I14 {}: above {durable}, all that was durable", what()));
        }
        if first <= floor && !excused {
            self.disorder += 1;
            self.violated(|| format!("I16 {}: {floor} was answered before it was asked", what()));
        }
    }
}

impl World {
    /// An episode begins, and another one comes later.
    pub(super) fn on_episode(&mut self) {
        if self.healed || self.swarm.ranges.sequences.is_none() {
            return;
        }
        let days = if self.swarm.theme == Theme::Ranges { (HOUR_MS, 2 * DAY_MS) } else { (DAY_MS, 14 * DAY_MS) };
        let gap = self.rng.range(days.0, days.1);
        self.after(gap, Event::Episode);
        let up = self.current.iter().any(|m| self.masters[*m].ledger.is_some());
        if up && self.t >= self.calm_until {
            let span = self.rng.range(SPAN.0, SPAN.1);
            self.begin_episode(span);
        }
    }

    fn begin_episode(&mut self, span: i64) {
        self.tell(|| format!("an episode of {span} ms"));
        if self.t >= self.episode_until {
            self.after(1, Event::Client);
            let pause = self.rng.range(SUDDEN.0, SUDDEN.1);
            self.after(pause, Event::Sudden);
        }
        self.episode_until = self.t + span;
        self.busy(span);
        for h in 0..self.hosts.len() {
            self.join_episode(h);
        }
    }

    /// Something has begun that takes longer.
    pub(super) fn lengthen_episode(&mut self) {
        self.go_on_until(self.episode_until + LONGER);
    }

    fn go_on_until(&mut self, until: i64) {
        self.episode_until = self.episode_until.max(until);
        self.busy(self.episode_until - self.t);
    }

    /// A process keeps its sections as long as an episode lasts.
    pub(super) fn join_episode(&mut self, h: usize) {
        let wait = self.rng.range(1, LEASE / 3);
        let host = &self.hosts[h];
        if self.t < self.episode_until && host.proc.as_ref().is_some_and(|proc| proc.keys.is_some()) {
            let life = host.life;
            self.after(wait, Event::Keeping(h, life));
        }
    }

    /// The machines whose agents serve sections, copies among them.
    fn allocators(&self) -> Vec<usize> {
        (0..self.hosts.len()).filter(|h| self.hosts[*h].is_allocator && !self.hosts[*h].retired).collect()
    }

    /// Those that sections may be given to: there may be fewer tokens than agents.
    fn holders_of_leases(&self) -> Vec<usize> {
        let ledgers = || self.current.iter().filter_map(|m| self.masters[*m].ledger.as_ref());
        let holds = |h: &usize| {
            let host = &self.hosts[*h];
            let Some(session) = host.proc.as_ref().map(|proc| proc.session) else { return false };
            ledgers().all(|ledger| ledger.table().in_force(&host.id, session).is_some())
        };
        self.allocators().into_iter().filter(holds).collect()
    }

    fn some_allocator(&mut self) -> usize {
        let all = self.allocators();
        all[self.rng.below(all.len())]
    }

    /// A client wants a number.
    pub(super) fn on_client(&mut self) {
        if self.t >= self.episode_until {
            return;
        }
        let gap = self.rng.range(ASKED.0, ASKED.1);
        self.after(gap, Event::Client);
        let (section, key) = (Section(SECTIONS[self.rng.below(SECTIONS.len())]), self.rng.below(KEYS as usize) as u32);
        let any = self.some_allocator();
        let knows = self.rng.chance(0.7);
        let h = self.who_serves(section).filter(|_| knows).unwrap_or(any);
        let floor = self.oracle.sequences.greatest.get(&(section, key)).copied().unwrap_or_default();
        let until = self.t + PATIENCE;
        let n = if self.rng.chance(0.3) { self.rng.magnitude(1, BATCH_MAX) as u32 } else { 1 };
        let question = Box::new(Question { section, key, n, floor, until, passed: false, found: None, behind: false });
        let (delay, life) = (self.latency(), self.hosts[h].life);
        self.after(delay, Event::Question(h, life, question));
    }

    pub(super) fn number_given(&mut self, question: &Question, number: u64, h: usize, tenure: Tenure) {
        // A machine that stood still with its clock cannot know it before a master has answered.
        let host = &self.hosts[h];
        let excused = |(of, bound): &(Tenure, u64)| *of == tenure && number <= *bound;
        let forgotten = host.excused_to.get(&question.section).is_some_and(excused);
        let behind = question.behind || host.behind_until > self.t || forgotten;
        let (t, excused) = (self.t, self.t < self.excused_until || behind);
        let by = format!("agent {h} as owner {}", tenure.g.0);
        self.tell(|| format!("{number} of key {} of section {} by {by}", question.key, question.section.0));
        self.oracle.key_given(question, number, &by, excused, t);
    }

    /// A master answers an allocator. One that was replaced, and lives, is believed by whoever reaches it alone: then numbers are not in order.
    pub(super) fn lists_sections(&mut self, m: usize) {
        if !self.current.contains(&m) && !self.masters[m].cut_off {
            self.excused_until = self.t + EXCUSED;
        }
    }

    /// Generations begin again: who remembers later ones serves beside the new owners.
    pub(super) fn excuse_order(&mut self, span: i64) {
        self.excused_until = self.excused_until.max(self.t + span + EXCUSED);
    }

    /// Something goes wrong within an episode, or an operator moves a section.
    pub(super) fn on_sudden(&mut self) {
        if self.healed || self.t >= self.episode_until {
            return;
        }
        let gap = self.rng.range(SUDDEN.0, SUDDEN.1);
        self.after(gap, Event::Sudden);
        match self.rng.below(14) {
            // A name is given away once, so whatever goes wrong with a proposal goes wrong with one of a move.
            0 | 1 | 9..14 => {
                let (section, to) = (Section(SECTIONS[self.rng.below(SECTIONS.len())]), self.some_allocator());
                self.move_section(section, to);
            }
            5 => self.lose_what_is_unheard(),
            6 => {
                let (h, span) = (self.some_allocator(), self.rng.range(LEASE, 6 * LEASE));
                self.stand_still(h, span);
            }
            7 => self.forget_sections(),
            8 => {
                let (h, writes) = (self.some_allocator(), self.rng.magnitude(1, DEAD_MAX) as u32);
                self.disk_dies(h, writes);
            }
            2 => {
                let h = self.some_allocator();
                let span = self.rng.magnitude(300, 3 * LEASE);
                self.hosts[h].paused_until = self.hosts[h].paused_until.max(self.t + span);
            }
            _ if self.t >= self.calm_until => self.inflict_one(),
            _ => {}
        }
    }

    /// A master is not heard any more, goes on alone for a while, and is lost or put back to what it was; and whoever served by its word dies
    /// before it could show anybody else how far it went.
    fn lose_what_is_unheard(&mut self) {
        let m = self.current[self.rng.below(2)];
        let other = self.current[slot(self.masters[m].id.other())];
        if !self.may_replace(m) || self.t < self.calm_until {
            return;
        }
        let master = &mut self.masters[m];
        let Some((ledger, store)) = master.ledger.as_ref().zip(master.store.as_mut()) else { return };
        let backup = (ledger.lsn(), store.snapshot());
        let span = self.rng.range(500, 4 * LEASE);
        self.lengthen_episode();
        self.net.cut(Node::Master(m), Node::Master(other), self.t, self.t + span + LEASE);
        if self.rng.chance(0.5) {
            self.masters[m].backup = Some(backup);
            self.after(span, Event::PutBack(m));
        } else {
            let zombie = self.zombie_comes();
            self.after(span, Event::DeclareLost { lost: m, zombie });
        }
        for h in self.allocators() {
            if self.rng.chance(0.5) {
                self.after(span - 1, Event::Kill(h));
            }
        }
    }

    /// So many writes of an agent fail, while it goes on running and talking.
    fn disk_dies(&mut self, h: usize, writes: u32) {
        self.tell(|| format!("the disk of agent {h} dies for {writes} writes"));
        let plan = Plan { point: Point::Call(0), mishap: Mishap::Dead, times: writes };
        self.hosts[h].folder.plan(Some(plan));
        self.count_fault("disk-dies");
    }

    /// A machine stands still together with its clock, for longer than others wait.
    fn stand_still(&mut self, h: usize, span: i64) {
        let (t, bounds) = (self.t, self.oracle.sequences.durable.clone());
        let host = &mut self.hosts[h];
        if host.paused_until > t {
            return;
        }
        host.stood += (host.frozen.1.min(t) - host.frozen.0).max(0);
        (host.frozen, host.paused_until, host.behind_until) = ((t, t + span), t + span, i64::MAX);
        host.bounds_then = bounds;
        self.tell(|| format!("agent {h} stands still with its clock for {span} ms"));
    }

    /// A section moves, and both disks are put back to before that, while nobody says so. Sometimes that is before its next owner gave more
    /// than is skipped; who had it before sees nothing of all that, and who has it then forgets it, too.
    fn forget_sections(&mut self) {
        let Some(backup) = self.sections_of_both().filter(|_| self.t >= self.calm_until) else { return };
        let unseen = self.rng.chance(0.5);
        let span = if unseen { (LEASE, 3 * LEASE) } else { (3 * LEASE, 8 * LEASE) };
        let span = self.rng.range(span.0, span.1);
        self.lengthen_episode();
        self.sections_backup = Some(backup);
        self.after(span, Event::ForgetSections);
        let section = Section(SECTIONS[self.rng.below(SECTIONS.len())]);
        let before = self.who_serves(section);
        let to = self.some_allocator();
        self.move_section(section, to);
        if let Some(before) = before.filter(|before| unseen && *before != to) {
            self.stand_still(before, span + DOWN_MAX + LEASE);
            for h in self.allocators().into_iter().filter(|h| *h != before) {
                self.after(span, Event::Kill(h));
            }
        }
    }

    fn sections_of_both(&mut self) -> Option<[StoredSections; 2]> {
        let [one, two] = self.current;
        let mut of = |m: usize| {
            let loaded = self.masters[m].loaded()?;
            Some(StoredSections { master: m, records: loaded.sections, preps: loaded.section_preps })
        };
        Some([of(one)?, of(two)?])
    }

    pub(super) fn on_forget_sections(&mut self) {
        let Some(backup) = self.sections_backup.take() else { return };
        let [one, two] = self.current;
        let Some(now) = self.sections_of_both().filter(|_| self.t >= self.calm_until && !self.healed) else { return };
        if backup.each_ref().map(|it| it.master) != self.current || !self.replaceable(one) || !self.replaceable(two) {
            return;
        }
        // What one master may not have raised alone is more than anything can cover if its owner is gone.
        let Some(allowance) = self.swarm.ranges.sequences.as_ref().and_then(|name| name.sequences()) else { return };
        let allowance = allowance.solo_allowance();
        let covered = self.oracle.sequences.durable.iter().all(|(section, durable)| {
            let known = backup.iter().map(|it| {
                let has = |it: &&SectionRecord| it.range.from <= *section && *section < it.range.to;
                it.records.iter().map(|(record, _)| record).find(has).map(|record| record.max_seq)
            });
            known.min().flatten().is_some_and(|known| *durable <= known.saturating_add(allowance))
        });
        if !covered {
            return;
        }
        self.tell(|| "both disks are put back to what they were of sections".to_owned());
        let (t, mutations) = (self.t, self.mutations);
        for host in self.hosts.iter_mut().filter(|host| host.frozen.1 > t) {
            let (now, keys) = (host.keys_now(t), host.proc.as_ref().and_then(|proc| proc.keys.as_ref()));
            let served = |section: &Section| match keys?.ownership(*section, now, mutations) {
                Ownership::Served(tenure) => Some(tenure),
                _ => None,
            };
            let bounds = host.bounds_then.iter();
            host.excused_to = bounds.filter_map(|(at, bound)| Some((*at, (served(at)?, *bound)))).collect();
        }
        let down = self.rng.range(500, DOWN_MAX);
        for (was, is) in backup.into_iter().zip(now) {
            let table = |it: StoredSections| SectionTable::new(it.records, it.preps);
            let writes = rewritten(&table(is), &table(StoredSections { master: was.master, ..was }));
            let master = &mut self.masters[was.master];
            master.die();
            if let Some(store) = &mut master.store {
                store.commit_as_is(writes.into());
                store.disturb();
            }
            master.restored = true;
            self.after(down, Event::StartMaster(was.master));
        }
        // Nothing is raised before owners have had their time to show what was forgotten.
        self.go_on_until(self.t + down + CALM);
        self.calm_until = self.calm_until.max(self.t + down + CALM);
        self.count_fault("sections-forgotten");
    }

    fn move_section(&mut self, section: Section, to: usize) {
        let Some(namespace) = &self.swarm.ranges.sequences else { return };
        let key = SectionKey { name: namespace.name().clone(), section };
        let to = self.hosts[to].id.clone();
        let m = self.current[self.rng.below(2)];
        if self.masters[m].paused_until > self.t {
            return;
        }
        let id = self.masters[m].draw();
        self.masters[m].wait(id, Asker::Operator);
        self.tell(|| format!("master {m} is to move {key} to {to}"));
        self.step(
            m,
            LedgerEvent::Section { id, key, order: SectionOrder::Move(to), actor: Actor::new("operator", "") },
        );
    }

    /// After everything was healed: an episode in which each section has to be served, although the disk of an owner dies.
    pub(super) fn serve_all_sections(&mut self) -> Vec<String> {
        if self.swarm.ranges.sequences.is_none() || self.oracle.violations > 0 {
            return Vec::new();
        }
        let began = self.t;
        self.begin_episode(LAST);
        self.run(began + DIES);
        let holders = self.holders_of_leases();
        let owner = SECTIONS.into_iter().find_map(|section| self.who_serves(Section(section)));
        if let Some(owner) = owner.filter(|owner| holders.iter().any(|h| h != owner)) {
            self.disk_dies(owner, u32::MAX);
        }
        self.run(began + LAST + 1_000);
        let served = |section: &u32| {
            self.oracle.sequences.served.get(&Section(*section)).is_some_and(|at| *at >= began + SETTLED)
        };
        if self.oracle.violations > 0 || self.holders_of_leases().is_empty() {
            return Vec::new();
        }
        let left = SECTIONS.into_iter().filter(|section| !served(section));
        let mut stuck: Vec<String> =
            left.map(|section| format!("stuck: section {section} is served by nobody")).collect();
        // As the masters have them: under the same `g` another one may have had a section before both forgot that.
        let tables = self.sections_of_both().into_iter().flatten();
        let records: Vec<SectionRecord> = tables.flat_map(|table| table.records).map(|(record, _)| record).collect();
        for (h, host) in self.hosts.iter().enumerate() {
            let keys = host.proc.as_ref().and_then(|proc| proc.keys.as_ref());
            let Some(session) = keys.and_then(|keys| keys.gives_nothing(host.keys_now(self.t), HANDED_ON)) else {
                continue;
            };
            let its = records.iter().filter(|record| record.owner.session == session);
            stuck.extend(its.map(|record| format!("stuck: {} is agent {h}'s, which can give nothing", record.range)));
        }
        stuck
    }
}
