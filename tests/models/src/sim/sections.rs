//! Sequences in the hands of agents: the product's allocator and sections, driven as the product's tasks drive them.
//!
//! A lease of sections is seconds long and a simulation months, so allocators keep sections only in episodes ([`super::episode`]). All
//! answers reach the cores, however late and often. A process that is stopped may be so with questions in its socket, or between reading its
//! clock and taking a number; its clock may be a hundredth too fast or too slow.

use super::host::Host;
use super::master::Answered;
use super::minter::Shell;
use super::mutation::{Mutation, Mutations};
use super::world::{Call, Caller, Event, Task, World};
use super::written::Written;
use common::namespace::{GeneratorName, Namespace};
use common::parameters::SessionId;
use common::sequence::{Section, SectionKey, SectionRange, SequenceDefinition, ServedAt};
use common::time::{BootMs, SpanMs};
use ledger::lease::Reply;
use minting::holder::Confirmation;
use minting::sequence::{
    Allocator, HeldRange, HeldRanges, Kept, Loads, NotKept, Ownership, RaiseOutcome, SectionState, Taken, Tenure,
};
use std::collections::BTreeMap;
use wire::ranges::{
    KeepRequest, RECEIPTS_MAX, Raise, RaiseRequest, RaiseTo, Raised, RaisedSections, RoutesRequest, ShownReceipt,
};

/// The time that an allocator serves after it asked, in milliseconds: the product's default.
pub const LEASE: i64 = 5_000;
/// The longest time that a span lasts by any clock.
const SPAN_MAX: i64 = LEASE + LEASE / 50;
/// A question that waits is looked at again that often.
const LOOK: i64 = 100;
/// The interval at which the routes of a section are asked for while questions wait for it.
const ROUTES_EVERY: i64 = 500;
/// Calls for bounds of which late answers are still told apart.
const ASKED_MAX: usize = 64;
/// The chance that a process is stopped between reading its clock and taking a number.
const STOPS: f64 = 0.02;

/// A client's question for the next number of a key.
#[derive(Clone, Debug)]
pub struct Question {
    /// Of which section.
    pub section: Section,
    /// The key in it.
    pub key: u32,
    /// Numbers that are asked for.
    pub n: u32,
    /// The greatest number of the key that somebody had before this was asked.
    pub floor: u64,
    /// Until when somebody waits for the answer.
    pub until: i64,
    /// True if it was passed on already.
    pub passed: bool,
    /// In which tenure the process found itself when it read the clock, if it was stopped then.
    pub found: Option<Tenure>,
    /// True if its machine had stood still with its clock by then, and no master had answered since.
    pub behind: bool,
}

/// A bound that is asked for, and in which tenure.
pub type Wanted = (Raise, Tenure);

/// The state of sequences in an agent's process.
pub struct Keys {
    written: Written,
    name: GeneratorName,
    definition: SequenceDefinition,
    allocator: Allocator,
    sections: BTreeMap<Section, SectionState>,
    loads: Loads,
    /// The call for bounds under way: its number, what is left of it, and how many masters are left.
    raising: Option<(u64, Vec<Wanted>, usize)>,
    turn: usize,
    /// Bounds that recent calls asked for.
    asked: BTreeMap<u64, Vec<Wanted>>,
    routes_asked: i64,
    /// The last raise of each section, and the owner's tenure; a mutation's only.
    last: BTreeMap<Section, (Tenure, Raised)>,
}

impl Keys {
    /// Of a process that starts now.
    pub fn new(namespace: &Namespace, written: Written, turn: usize, now: BootMs) -> Option<Self> {
        Some(Self {
            written,
            name: namespace.name().clone(),
            definition: namespace.sequences()?.clone(),
            allocator: Allocator::new(2, now),
            sections: BTreeMap::new(),
            loads: Loads::default(),
            raising: None,
            turn,
            asked: BTreeMap::new(),
            routes_asked: 0,
            last: BTreeMap::new(),
        })
    }

    /// Finds out as whom it serves sections; `false`: that is not sure yet.
    fn settle(&mut self, confirmation: Confirmation, shell: &mut Shell<'_>, now: BootMs) -> bool {
        if let Some(former) = self.written.settle(confirmation, shell, now) {
            self.allocator.resume(former);
        }
        self.written.session().is_some()
    }

    pub(super) fn ownership(&self, section: Section, now: BootMs, mutations: Mutations) -> Ownership {
        let held = self.allocator.held(&self.name);
        let found = held.map_or(Ownership::NotOurs, |held| held.ownership(section, now));
        let tenure = |held: &HeldRanges| {
            let range = held.ranges().find(|range| (range.from..range.to).contains(&section.0))?;
            Some(Tenure { g: range.g, since: range.since })
        };
        match found {
            Ownership::From(_) if mutations.has(Mutation::NoWaitOfNextOwner) => {
                held.and_then(tenure).map_or(found, Ownership::Served)
            }
            Ownership::Over(_) if mutations.has(Mutation::ServedPastSpan) => {
                held.and_then(tenure).map_or(found, Ownership::Served)
            }
            found => found,
        }
    }

    /// As whom masters know it, if it has been able to give nothing for so long.
    pub fn gives_nothing(&self, now: BootMs, span: SpanMs) -> Option<SessionId> {
        self.written.session().filter(|_| self.written.gives_nothing(now, span))
    }

    /// Tells whether it serves a section, as it believes.
    pub fn serves(&self, section: Section, now: BootMs, mutations: Mutations) -> bool {
        matches!(self.ownership(section, now, mutations), Ownership::Served(_))
    }

    fn take(&mut self, question: &Question, tenure: Tenure, now: BootMs, mutations: Mutations) -> Option<Taken> {
        let definition = &self.definition;
        let before = match mutations.has(Mutation::BoundsNotReadBack) {
            true => None,
            false => self.written.given_before(&self.name, question.section),
        };
        let begin = || SectionState::new(definition, tenure, before.unwrap_or(0));
        let state = self.sections.entry(question.section).or_insert_with(begin);
        if state.tenure() > tenure {
            return None;
        }
        if !(mutations.has(Mutation::NotLoadedAnew) && state.g() == tenure.g) {
            state.own(tenure);
        }
        if !state.is_loaded() {
            self.loads.load(definition, question.section, state, now);
        }
        if let Some((other, late)) = self.last.get(&question.section)
            && mutations.has(Mutation::RaiseAnswerOfAnotherG)
            && other.g != tenure.g
            && !state.is_loaded()
        {
            // The mutation: one that comes late counts for the owner that we are now.
            state.raised(definition, tenure, Ok(*late), now);
        }
        Some(state.take(definition, question.key, question.n, true, now))
    }

    /// Gathers the bounds that masters are to be asked for now.
    fn gather(&mut self, now: BootMs, shown: bool) -> Vec<Wanted> {
        let mut wanted: Vec<Wanted> = Vec::new();
        let held: Vec<_> = self.allocator.held(&self.name).into_iter().flat_map(HeldRanges::ranges).copied().collect();
        for (section, state) in &mut self.sections {
            let tenure = state.tenure();
            let covers = |(raise, other): &Wanted| {
                raise.to == RaiseTo::ByAStep
                    && *other == tenure
                    && (raise.sections.from..raise.sections.to).contains(section)
            };
            if !state.is_loaded() && wanted.iter().any(covers) {
                state.waits_for_others();
            } else {
                let raise = self.loads.raise((&self.name, &self.definition), &held, *section, state, now);
                wanted.extend(raise.map(|raise| (Raise { receipt: raise.receipt.filter(|_| shown), ..raise }, tenure)));
            }
        }
        wanted
    }

    /// Receipts of sections that it was granted and that masters list for it no more.
    fn receipts(&self, now: BootMs) -> Vec<ShownReceipt> {
        let Some(held) = self.allocator.held(&self.name) else { return Vec::new() };
        let lost = self.sections.iter().filter_map(|(section, state)| {
            let Ownership::Over(g) = held.ownership(*section, now) else { return None };
            let receipt = state.receipt().filter(|_| state.g() == g)?;
            let key = SectionKey { name: self.name.clone(), section: *section };
            Some(ShownReceipt { sections: key.into(), g, receipt })
        });
        let is_over = |range: &&HeldRange| matches!(range.ownership(now), Ownership::Over(_));
        let together = self.loads.receipts(&self.name, held.ranges().filter(is_over).copied());
        lost.chain(together).take(RECEIPTS_MAX).collect()
    }

    fn failed(&mut self, wanted: &[Wanted], now: BootMs) {
        for (raise, tenure) in wanted {
            if let Some(state) = self.sections.get_mut(&raise.section) {
                state.failed(*tenure, now);
            }
        }
    }

    /// Takes answers in, if they are written down; what another master may answer otherwise is given back.
    fn raised(
        &mut self,
        asked: &[Wanted],
        answers: &[Vec<RaisedSections>],
        durable: bool,
        now: BootMs,
        mutations: Mutations,
    ) -> Vec<Wanted> {
        let mut left = Vec::new();
        for ((raise, tenure), answer) in asked.iter().zip(answers) {
            let said = self.loads.answered(*tenure, raise, answer, durable);
            let (Some(state), Some(said)) = (self.sections.get_mut(&raise.section), said) else { continue };
            let mut answer = said.outcome;
            if let Ok(raised) = &mut answer
                && mutations.has(Mutation::RaiseFromIgnored)
                && state.is_loaded()
            {
                raised.from = 0;
            }
            match (state.answered(&self.definition, *tenure, answer, durable, now), answer) {
                (RaiseOutcome::Used, Ok(raised)) => {
                    self.last.insert(raise.section, (*tenure, raised));
                }
                (RaiseOutcome::AskAnother, _) => {
                    let sections = SectionRange { name: self.name.clone(), from: said.from, to: said.to };
                    left.push((Raise { sections, ..raise.clone() }, *tenure));
                }
                (RaiseOutcome::Used | RaiseOutcome::Unwritten, _) => {}
            }
        }
        left
    }
}

impl Host {
    /// Its machine's own clock, as sequences go by it.
    pub(super) fn keys_now(&self, t: i64) -> BootMs {
        let (from, until) = self.frozen;
        let stood = self.stood + (t.min(until) - from).max(0);
        BootMs((t - self.booted_at - stood) * self.rate / 1_000)
    }
}

impl World {
    /// The next look of the tasks that keep sections.
    pub(super) fn on_keeping(&mut self, h: usize, life: u32) {
        let host = &self.hosts[h];
        if host.life != life || host.retired || self.t >= self.episode_until {
            return;
        }
        if host.paused_until > self.t {
            return self.after(host.paused_until - self.t, Event::Keeping(h, life));
        }
        let now = host.keys_now(self.t);
        if !self.knows_its_session(h, now) {
            return self.after(LOOK, Event::Keeping(h, life));
        }
        let far_side = self.masters.len() > 2 && h % 2 == 1;
        for at in 0..2 {
            let Some(proc) = &mut self.hosts[h].proc else { return };
            let Some(keys) = &mut proc.keys else { return };
            if keys.allocator.next_keep(at).is_some_and(|next| next <= now) {
                keys.allocator.asked(at, now);
                let may = self.with(h, |proc, shell| {
                    Ok(proc.keys.as_mut().is_none_or(|keys| keys.written.may_have_sections(shell, now)))
                });
                let Some(Ok(may)) = may else { return };
                let request = self.keep_request(h, !may && !self.mutations.has(Mutation::LeavesUnsaid));
                let target = self.at_address(at, far_side);
                self.call_for(h, target, Task::Keep(at, now), request.map(Call::Keep));
            }
        }
        let keys = self.hosts[h].proc.as_ref().and_then(|proc| proc.keys.as_ref());
        let due = keys.and_then(|keys| keys.allocator.next_deadline()).map_or(LEASE, |due| (due - now).0);
        self.after(due.max(10), Event::Keeping(h, life));
    }

    /// Tells whether masters are asked for sections: only once it is sure as whom.
    fn knows_its_session(&mut self, h: usize, now: BootMs) -> bool {
        let unconfirmed = self.mutations.has(Mutation::UnconfirmedGoesOn);
        let done = self.with(h, |proc, shell| {
            let Some(keys) = &mut proc.keys else { return Ok(false) };
            let confirmation = match unconfirmed {
                true => Confirmation::Given,
                false => proc.minter.published().confirmation(keys.written.kept()),
            };
            Ok(keys.settle(confirmation, shell, now))
        });
        matches!(done, Some(Ok(true)))
    }

    /// Finds who is reached at one of the two addresses: for some agents a former master that lives on.
    fn at_address(&self, at: usize, far_side: bool) -> usize {
        let id = self.masters[self.current[at]].id;
        let former = self.address(at, far_side);
        if self.masters[former].id == id { former } else { self.current[at] }
    }

    fn keep_request(&self, h: usize, leaves: bool) -> Option<KeepRequest> {
        let host = &self.hosts[h];
        let proc = host.proc.as_ref()?;
        let keys = proc.keys.as_ref()?;
        let shown = !self.mutations.has(Mutation::SectionReceiptsIgnored);
        let receipts = if shown { keys.receipts(host.keys_now(self.t)) } else { Vec::new() };
        let address = ServedAt { http: format!("10.0.0.{h}:1"), rpc: format!("10.0.0.{h}:2") };
        Some(KeepRequest {
            agent_id: host.id.clone(),
            session: keys.written.session()?,
            holder: proc.session,
            cluster: proc.minter.membership().map(|(cluster, _)| cluster),
            address,
            sets: vec![keys.definition.set().clone()],
            memory: 1 << 40,
            used: 0,
            per_second: 0,
            leaves,
            after: None,
            only: Vec::new(),
            receipts,
        })
    }

    fn call_for(&mut self, h: usize, target: usize, task: Task, call: Option<Call>) -> u64 {
        let life = self.hosts[h].life;
        let (Some(proc), Some(call)) = (&mut self.hosts[h].proc, call) else { return 0 };
        proc.rpc += 1;
        let rpc = proc.rpc;
        self.transmit(target, Caller { host: h, life, rpc, task }, call);
        rpc
    }

    /// A process that is stopped properly says so, once.
    pub(super) fn leave_sections(&mut self, h: usize) {
        let life = self.hosts[h].life;
        if self.t >= self.episode_until {
            return;
        }
        for target in self.current {
            if let Some(request) = self.keep_request(h, true) {
                self.transmit(target, Caller { host: h, life, rpc: 0, task: Task::Routes }, Call::Keep(request));
            }
        }
    }

    /// A client's question reaches an agent, or is looked at again.
    pub(super) fn on_question(&mut self, h: usize, life: u32, mut question: Box<Question>) {
        let (t, mutations) = (self.t, self.mutations);
        let host = &self.hosts[h];
        if host.life != life || host.retired {
            return;
        }
        if host.paused_until > t {
            return self.after(host.paused_until - t, Event::Question(h, life, question));
        }
        let now = host.keys_now(t);
        let Some(keys) = host.proc.as_ref().and_then(|proc| proc.keys.as_ref()) else { return };
        let found = match question.found.take() {
            Some(tenure) => Ownership::Served(tenure),
            None => keys.ownership(question.section, now, mutations),
        };
        match found {
            Ownership::Served(_) if self.rng.chance(STOPS) && !self.healed => {
                // Between the clock and the number.
                if let Ownership::Served(tenure) = found {
                    question.found = Some(tenure);
                    question.behind = self.hosts[h].behind_until > t;
                }
                let span = self.rng.magnitude(100, 3 * LEASE);
                self.hosts[h].paused_until = t + span;
                self.after(span + 1, Event::Question(h, life, question));
            }
            Ownership::Served(tenure) => self.take_number(h, life, question, tenure),
            Ownership::From(_) => self.look_again(h, life, question),
            Ownership::Over(_) | Ownership::NotOurs => self.pass_on(h, life, question),
        }
    }

    fn take_number(&mut self, h: usize, life: u32, question: Box<Question>, tenure: Tenure) {
        let (now, mutations) = (self.hosts[h].keys_now(self.t), self.mutations);
        let Some(keys) = self.hosts[h].proc.as_mut().and_then(|proc| proc.keys.as_mut()) else { return };
        let taken = keys.take(&question, tenure, now, mutations);
        if let Some(Taken::From(number)) = taken {
            self.note(number);
            self.number_given(&question, number, h, tenure);
        } else if taken != Some(Taken::Ended) {
            self.look_again(h, life, question);
        }
        self.raise_bounds(h);
    }

    fn look_again(&mut self, h: usize, life: u32, question: Box<Question>) {
        if self.t < question.until {
            self.after(LOOK, Event::Question(h, life, question));
        }
    }

    /// Another agent serves it, as far as anybody knows; if nobody does, masters are asked to give it to somebody.
    fn pass_on(&mut self, h: usize, life: u32, mut question: Box<Question>) {
        let Some(keys) = self.hosts[h].proc.as_mut().and_then(|proc| proc.keys.as_mut()) else { return };
        if self.t - keys.routes_asked >= ROUTES_EVERY {
            keys.routes_asked = self.t;
            let name = keys.name.clone();
            let request = RoutesRequest { cluster: None, name, sections: vec![question.section], all_from: None };
            let target = self.current[self.rng.below(2)];
            self.call_for(h, target, Task::Routes, Some(Call::Routes(request)));
        }
        match self.who_serves(question.section).filter(|other| *other != h && !question.passed) {
            Some(other) => {
                question.passed = true;
                let (delay, life) = (self.latency(), self.hosts[other].life);
                self.after(delay, Event::Question(other, life, question));
            }
            None => self.look_again(h, life, question),
        }
    }

    /// One of those agents that believe that they serve a section.
    pub(super) fn who_serves(&mut self, section: Section) -> Option<usize> {
        let serves = |host: &Host| {
            let keys = host.proc.as_ref().and_then(|proc| proc.keys.as_ref());
            keys.is_some_and(|keys| keys.serves(section, host.keys_now(self.t), self.mutations))
        };
        let all: Vec<usize> = (0..self.hosts.len()).filter(|h| serves(&self.hosts[*h])).collect();
        (!all.is_empty()).then(|| all[self.rng.below(all.len())])
    }

    /// Asks for all bounds that are wanted, if no call is under way.
    pub(super) fn raise_bounds(&mut self, h: usize) {
        let life = self.hosts[h].life;
        let now = self.hosts[h].keys_now(self.t);
        let Some(keys) = self.hosts[h].proc.as_mut().and_then(|proc| proc.keys.as_mut()) else { return };
        if keys.raising.is_some() {
            return;
        }
        let shown = !self.mutations.has(Mutation::SectionReceiptsIgnored);
        let raises = keys.gather(now, shown);
        if !raises.is_empty() {
            self.send_raises(h, raises, 2);
        } else if keys.sections.values().any(SectionState::wants) && self.t < self.episode_until {
            self.after(LOOK, Event::Raising(h, life));
        }
    }

    pub(super) fn on_raising(&mut self, h: usize, life: u32) {
        if self.hosts[h].life == life && self.hosts[h].paused_until <= self.t {
            self.raise_bounds(h);
        }
    }

    fn send_raises(&mut self, h: usize, wanted: Vec<Wanted>, left: usize) {
        let far_side = self.masters.len() > 2 && h % 2 == 1;
        let id = self.hosts[h].id.clone();
        let Some(proc) = &mut self.hosts[h].proc else { return };
        let cluster = proc.minter.membership().map(|(cluster, _)| cluster);
        let Some(keys) = &mut proc.keys else { return };
        let (Some(session), at) = (keys.written.session(), keys.turn % 2) else { return };
        let raises = wanted.iter().map(|(raise, _)| raise.clone()).collect();
        let request = RaiseRequest { agent_id: id, session, cluster, raises };
        let target = self.at_address(at, far_side);
        let rpc = self.call_for(h, target, Task::Raise, Some(Call::Raise(request)));
        let Some(keys) = self.hosts[h].proc.as_mut().and_then(|proc| proc.keys.as_mut()) else { return };
        keys.asked.insert(rpc, wanted.clone());
        if keys.asked.len() > ASKED_MAX {
            keys.asked.pop_first();
        }
        keys.raising = Some((rpc, wanted, left));
    }

    /// Handles what masters say of sections.
    pub(super) fn on_sections(&mut self, caller: Caller, reply: Option<Box<Answered>>) {
        let h = caller.host;
        let received = self.hosts[h].keys_now(self.t);
        let late = self.mutations.has(Mutation::LateKeepBelieved);
        let unseen = self.mutations.has(Mutation::StandstillUnseen);
        let since = self.hosts[h].keys_now(self.hosts[h].frozen.1);
        let reply = reply.map(|reply| *reply);
        if let (Task::Keep(at, sent), Some(Answered::Ledger(Reply::Keep(Ok(reply))))) = (&caller.task, &reply) {
            let host = &mut self.hosts[h];
            let began = host.heard.get(at).filter(|(run, _)| *run == reply.run).map_or(received, |(_, began)| *began);
            host.heard.insert(*at, (reply.run, began));
            if *sent >= since {
                let until = if began < since { self.t } else { self.t + SPAN_MAX };
                host.behind_until = host.behind_until.min(until);
            }
        }
        let Some(keys) = self.hosts[h].proc.as_mut().and_then(|proc| proc.keys.as_mut()) else { return };
        match (caller.task, reply) {
            (Task::Keep(at, sent), Some(Answered::Ledger(Reply::Keep(Ok(mut reply))))) => {
                if unseen {
                    reply.boot = BootMs(0);
                }
                let sent = if late { received } else { sent };
                let kept = keys.allocator.handle(received, at, &Kept { sent, received, reply });
                let lost = keys.allocator.take_lost(received);
                if let Err(NotKept::StoodStill(_)) = kept {
                    (self.hosts[h].behind_until, self.hosts[h].heard) = (self.t, BTreeMap::new());
                }
                if let Err(why @ NotKept::Lease(_)) = kept {
                    self.oracle.violated(|| format!("agent {h} is told nonsense of its sections: {why}"));
                }
                if let Some(listed) = lost {
                    let _ = self.with(h, |proc, shell| {
                        Ok(proc.keys.as_mut().map(|keys| keys.written.note_lost(&listed, shell, received)))
                    });
                }
            }
            (Task::Keep(at, _), _) => keys.allocator.failed(at),
            (Task::Raise, Some(Answered::Ledger(Reply::Raise(Ok(answers))))) => self.on_raised(caller, &answers),
            (Task::Raise, _) => self.on_raised(caller, &[]),
            _ => {}
        }
    }

    fn on_raised(&mut self, caller: Caller, answers: &[Vec<RaisedSections>]) {
        let h = caller.host;
        let now = self.hosts[h].keys_now(self.t);
        let Some(keys) = self.hosts[h].proc.as_mut().and_then(|proc| proc.keys.as_mut()) else { return };
        let asked = keys.asked.get(&caller.rpc).cloned().unwrap_or_default();
        let noted = self.with(h, |proc, shell| {
            Ok(proc.keys.as_mut().is_some_and(|keys| keys.written.note(&asked, answers, shell, now)))
        });
        // Unless its process ended of it.
        let Some(Ok(durable)) = noted else { return };
        let mutations = self.mutations;
        let Some(keys) = self.hosts[h].proc.as_mut().and_then(|proc| proc.keys.as_mut()) else { return };
        let left = if answers.is_empty() { asked } else { keys.raised(&asked, answers, durable, now, mutations) };
        let Some((_, _, masters)) = keys.raising.take_if(|(rpc, _, _)| *rpc == caller.rpc) else { return };
        if left.is_empty() {
            return self.raise_bounds(h);
        }
        keys.turn += 1;
        if masters > 1 {
            return self.send_raises(h, left, masters - 1);
        }
        keys.failed(&left, now);
        let life = caller.life;
        self.after(LOOK, Event::Raising(h, life));
    }
}
