//! Masters, allocators, what is under way between them, and what may befall all of them.

use super::allocator::{Allocator, LEASE};
use super::known::{SESSIONS, axis, lease, name_of, sequence};
use common::audit::Actor;
use common::calendar::UtcOffset;
use common::lease::Generation;
use common::namespace::GeneratorName;
use common::parameters::{ClusterId, ClusterParameters, EpochId, MasterId, SessionId};
use common::segment::{Shown, Span};
use common::sequence::{Section, SectionKey, SectionOrder, SectionRange, SectionRecord, ServedAt};
use common::time::{BootMs, Now, SpanMs, WallMs};
use master::lease::{Effects, Event, Identity, Reply, RequestId, Unproven, Write};
use master::ledger::Ledger;
use master::replication::join::{declare_lost, first_writes, section_taken_over};
use master::store::Store as _;
use master::store::memory::MemoryStore;
use net::rpc::peer::{JoinReply, JoinStep, PeerFrame, PeerMessage};
use net::rpc::ranges::{
    HeldSections, KeepRequest, Raise, RaiseRequest, RaiseTo, Raised, RoutesRequest, SegmentRequest,
};
use std::collections::{BTreeMap, BTreeSet};

/// The rule that is left out or done wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bent {
    NoWait,
    ConfirmWithoutBound,
    RaiseNotDurable,
    PrepNotDurable,
    SentCountsAsHeld,
    NothingAddedAtALoss,
    PutBackIsBelieved,
    NothingAddedAtAMeeting,
    CursorNotDurable,
}

/// The events and conditions of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub put_back: bool,
    pub replaced: bool,
    /// The master that is replaced is dead by then.
    pub dead: bool,
    /// Allocators go by no clock at all.
    pub any_clock: bool,
    pub ordered: bool,
    /// Masters are asked for segments of an axis, too.
    pub segments: bool,
    /// In so many of a hundred steps something befalls somebody.
    pub befalls: u64,
    pub bent: Option<Bent>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            put_back: false,
            replaced: false,
            dead: false,
            any_clock: false,
            ordered: true,
            segments: false,
            befalls: 3,
            bent: None,
        }
    }
}

pub(super) const ALLOWANCE: u64 = 12;
pub(super) const STEP: u32 = 3;
const DAY: i64 = 86_400_000;
/// Sections: two beside each other of a name that is at home with one master, which are one row as long as they are alike, and one of a name
/// that is at home with the other.
const SECTIONS: [u32; 3] = [1, 2, 3];
const TOKEN: [u8; 32] = [7; 32];

struct Node {
    id: MasterId,
    store: MemoryStore,
    ledger: Option<Ledger>,
    backup: Option<MemoryStore>,
    /// Replaced: it lives on, and nothing of it is used any more but by chance.
    over: bool,
    rate: i64,
    unproven: bool,
}

/// An answer on its way.
#[derive(Clone)]
enum Answer {
    Kept { sent: i64, listed: Vec<(u32, u64)> },
    Raised { section: u32, g: u64, from: u64, to: u64 },
}

enum Asked {
    Keep { sent: i64 },
    Raise { name: GeneratorName, g: u64 },
    Segment,
    Other,
}

struct Joining {
    step: u8,
    writes: Vec<Write>,
    identity: Option<Identity>,
}

pub(super) struct World {
    rng: u64,
    plan: Plan,
    t: i64,
    nodes: Vec<Node>,
    messages: Vec<PeerFrame>,
    cut_until: i64,
    allocators: Vec<Allocator>,
    asked: BTreeMap<RequestId, (usize, u64, Asked)>,
    answers: Vec<(usize, u64, Answer)>,
    next: u64,
    joining: Option<Joining>,
    losses: u8,
    reply: Option<Reply>,
    numbers: BTreeMap<u32, BTreeSet<u64>>,
    answered: BTreeMap<u32, u64>,
    durable: BTreeMap<u32, u64>,
    /// Every segment that a master granted, whether its answer arrived or not.
    segments: Vec<Span>,
    overlap: Option<Span>,
}

impl World {
    pub(super) fn new(seed: u64, plan: Plan) -> Self {
        let parameters = ClusterParameters::new(7, UtcOffset::default(), 31).unwrap();
        let mut world = Self {
            rng: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            plan,
            t: 1_000,
            nodes: Vec::new(),
            messages: Vec::new(),
            cut_until: 0,
            allocators: Vec::new(),
            asked: BTreeMap::new(),
            answers: Vec::new(),
            next: 1_000,
            joining: None,
            losses: 0,
            reply: None,
            numbers: BTreeMap::new(),
            answered: BTreeMap::new(),
            durable: BTreeMap::new(),
            segments: Vec::new(),
            overlap: None,
        };
        for id in [MasterId::One, MasterId::Two] {
            let identity = Identity {
                master: id,
                cluster: Some(ClusterId(7)),
                epoch: Some(EpochId(7)),
                pair_epoch: 1,
                former: Vec::new(),
                paired: true,
                parameters,
                awaiting: None,
            };
            let mut store = MemoryStore::of(identity).unwrap();
            let settings = [1, 3].map(sequence).into_iter().chain([axis()]).map(Write::Setting);
            let writes: Vec<Write> = settings.chain((1..=SESSIONS).map(lease)).collect();
            store.commit(&writes, 1).unwrap();
            let rate = 990 + world.below(21) as i64;
            world.nodes.push(Node { id, store, ledger: None, backup: None, over: false, rate, unproven: false });
        }
        for session in 1..=2 {
            let rate = 990 + world.below(21) as i64;
            world.allocators.push(Allocator {
                name: format!("a{session}"),
                session: SessionId(session),
                life: 0,
                rate,
                holds: BTreeMap::new(),
                file: BTreeMap::new(),
                stopped_until: 0,
            });
        }
        (0..2).for_each(|at| world.start(at));
        world
    }

    /// The number of places that were granted in segments.
    pub(super) fn granted(&self) -> u64 {
        self.segments.iter().map(|segment| segment.len()).sum()
    }

    pub(super) fn given(&self) -> u64 {
        self.numbers.values().map(|all| all.len() as u64).sum()
    }

    fn random(&mut self) -> u64 {
        self.rng = self.rng.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.rng;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn request(&mut self) -> RequestId {
        self.next += 1;
        RequestId(self.next)
    }

    fn now_of(&self, at: usize) -> Now {
        Now { wall: WallMs(20_777 * DAY + self.t), boot: BootMs(self.t * self.nodes[at].rate / 1_000) }
    }

    fn start(&mut self, at: usize) {
        let now = self.now_of(at);
        self.next += 1;
        let salt = self.next;
        let mut loaded = self.nodes[at].store.load().unwrap();
        if self.nodes[at].unproven {
            loaded.proven = Err(Unproven::Copied);
        }
        self.nodes[at].unproven = false;
        let ledger = Ledger::start(loaded, now, salt, None, "test".to_owned()).with_sequence_lease(SpanMs(LEASE));
        self.nodes[at].ledger = Some(ledger);
        self.event(at, Event::Connected).unwrap();
    }

    fn event(&mut self, at: usize, event: Event) -> Result<(), String> {
        let now = self.now_of(at);
        let bent = self.plan.bent;
        let raises = matches!(event, Event::Raise { .. });
        let asks_for_segment = matches!(event, Event::Segment { .. });
        let meets = matches!(&event, Event::Message(frame) if matches!(frame.message, PeerMessage::SectionPage { .. }));
        let mut ledger = self.nodes[at].ledger.take();
        let Some(ledger_now) = ledger.as_mut() else { return Ok(()) };
        let mut fx = Effects::default();
        let before = (raises && bent == Some(Bent::RaiseNotDurable)).then(|| ledger_now.sections().clone());
        ledger_now.step(now, event, &mut fx);
        ledger_now.check()?;
        let kept = |write: &Write| match write {
            Write::SectionPreps { .. } => bent != Some(Bent::PrepNotDurable),
            // The first one, with an extent, is; those after segments are not.
            Write::Cursor { .. } => !(asks_for_segment && bent == Some(Bent::CursorNotDurable)),
            _ => true,
        };
        let mut writes: Vec<Write> = fx.writes.iter().filter(|write| kept(write)).cloned().collect();
        if let Some(before) = before {
            for (record, peer_has) in writes.iter_mut().flat_map(rows_mut) {
                let known = before.pieces(&record.range).filter_map(|piece| Some(piece.held?.max_seq));
                record.max_seq = known.min().unwrap_or_default();
                *peer_has = record.max_seq.min(*peer_has);
            }
        }
        if meets && bent == Some(Bent::NothingAddedAtAMeeting) {
            for (record, peer_has) in writes.iter_mut().flat_map(rows_mut) {
                record.max_seq = *peer_has;
            }
        }
        if !writes.is_empty() {
            self.nodes[at].store.commit(&writes, ledger_now.lsn()).map_err(|e| e.to_string())?;
        }
        self.note_durable(&writes);
        let mut back = Vec::new();
        for message in fx.messages {
            if let (PeerMessage::RaisedSections { bounds }, Some(Bent::SentCountsAsHeld)) = (&message, bent) {
                back.push(PeerMessage::HeldBounds { bounds: bounds.clone() });
            }
            let mut frame = ledger_now.frame(message);
            match &mut frame.message {
                PeerMessage::ConfirmSections { records } if bent == Some(Bent::ConfirmWithoutBound) => {
                    records.iter_mut().for_each(|record| record.max_seq = 0);
                }
                _ => {}
            }
            if self.cut_until <= self.t {
                self.messages.push(frame);
            }
        }
        // As if the other one had said so.
        let echoes: Vec<PeerFrame> = back.into_iter().map(|message| echo(ledger_now, message)).collect();
        let believed = meets && bent == Some(Bent::NothingAddedAtAMeeting);
        self.nodes[at].ledger = ledger;
        for (id, reply) in fx.replies {
            self.answer(id, reply);
        }
        if believed && !writes.is_empty() {
            // What is in memory is what was written.
            self.start(at);
        }
        for frame in echoes {
            self.event(at, Event::Message(Box::new(frame)))?;
        }
        Ok(())
    }

    fn note_durable(&mut self, writes: &[Write]) {
        for write in writes {
            let Write::Sections { rows, .. } = write else { continue };
            for (SectionRecord { range, max_seq, .. }, _) in rows {
                let of_name = SECTIONS.into_iter().filter(|section| name_of(*section) == range.name);
                for section in of_name.filter(|section| (range.from.0..range.to.0).contains(section)) {
                    let durable = self.durable.entry(section).or_default();
                    *durable = (*max_seq).max(*durable);
                }
            }
        }
    }

    fn answer(&mut self, id: RequestId, reply: Reply) {
        let Some((who, life, asked)) = self.asked.remove(&id) else {
            self.reply = Some(reply);
            return;
        };
        let answers: Vec<Answer> = match (asked, reply) {
            (Asked::Keep { sent }, Reply::Keep(Ok(kept))) => {
                let among = |held: &HeldSections| {
                    let (name, sections, g) = (held.name.clone(), held.from.0..held.to.0, held.g.0);
                    let of_name = SECTIONS.into_iter().filter(move |at| name_of(*at) == name && sections.contains(at));
                    of_name.map(move |at| (at, g))
                };
                vec![Answer::Kept { sent, listed: kept.sections.iter().flat_map(among).collect() }]
            }
            (Asked::Segment, Reply::Segment(Ok(segment))) => {
                let segment = segment.span;
                let overlaps = |known: &&Span| known.from < segment.to && segment.from < known.to;
                self.overlap = self.segments.iter().find(overlaps).copied().or(self.overlap);
                self.segments.push(segment);
                return;
            }
            (Asked::Raise { name, g }, Reply::Raise(Ok(raised))) => {
                let of_name = SECTIONS.into_iter().filter(|at| name_of(*at) == name);
                let raised = of_name.filter_map(|section| {
                    let said = raised.iter().flatten().find(|said| said.has(Section(section)))?;
                    let Raised { from, max_seq: to, .. } = said.outcome.ok()?;
                    Some(Answer::Raised { section, g, from, to })
                });
                raised.collect()
            }
            _ => return,
        };
        // Each section of a raise is loaded when it is first asked for.
        for answer in answers {
            if self.one_in(12) {
                continue;
            }
            self.answers.push((who, life, answer.clone()));
            if self.one_in(12) {
                self.answers.push((who, life, answer));
            }
        }
    }

    /// One thing happens.
    pub(super) fn step(&mut self) -> Result<(), String> {
        if self.below(100) < self.plan.befalls {
            return self.befall();
        }
        match self.below(97) {
            0..=11 => self.pass()?,
            12..=30 => self.deliver()?,
            31..=55 => self.call()?,
            56..=75 => self.hear(),
            _ => self.give()?,
        }
        Ok(())
    }

    fn pass(&mut self) -> Result<(), String> {
        let most = if self.one_in(20) { 4_000 } else { 700 };
        self.t += self.below(most) as i64 + 1;
        for at in 0..self.nodes.len() {
            self.event(at, Event::Tick)?;
        }
        Ok(())
    }

    fn deliver(&mut self) -> Result<(), String> {
        for _ in 0..6 {
            if self.messages.is_empty() {
                return Ok(());
            }
            // Mostly in order; some come late.
            let at = if self.one_in(4) { self.below(self.messages.len() as u64) as usize } else { 0 };
            let frame = if self.one_in(15) { self.messages[at].clone() } else { self.messages.remove(at) };
            if self.cut_until > self.t || self.one_in(20) {
                continue;
            }
            let to: Vec<usize> = (0..self.nodes.len()).filter(|at| self.nodes[*at].id == frame.from.other()).collect();
            for to in to {
                self.event(to, Event::Message(Box::new(frame.clone())))?;
            }
        }
        let late = self.messages.len().saturating_sub(60);
        self.messages.drain(..late);
        Ok(())
    }

    fn awake(&mut self) -> Option<usize> {
        let who = self.below(self.allocators.len() as u64) as usize;
        (self.allocators[who].stopped_until <= self.t).then_some(who)
    }

    fn call(&mut self) -> Result<(), String> {
        let Some(who) = self.awake() else { return Ok(()) };
        let at = self.below(self.nodes.len() as u64) as usize;
        if self.plan.segments && self.one_in(2) {
            return self.call_for_segment(who, at);
        }
        let all = self.one_in(2);
        let (id, section, what) = (self.request(), SECTIONS[self.below(3) as usize], self.below(10));
        let it = &self.allocators[who];
        let (agent_id, session, life, now) = (it.name.parse().unwrap(), it.session, it.life, it.now(self.t));
        let event = match what {
            0..=4 => {
                self.asked.insert(id, (who, life, Asked::Keep { sent: now }));
                let request = KeepRequest {
                    agent_id,
                    session,
                    holder: session,
                    cluster: None,
                    address: ServedAt { http: "a:1".to_owned(), rpc: "a:2".to_owned() },
                    sets: vec!["default".parse().unwrap()],
                    memory: 1 << 40,
                    used: 0,
                    per_second: 0,
                    leaves: false,
                    after: None,
                    only: Vec::new(),
                    receipts: Vec::new(),
                };
                Event::Keep { id, request }
            }
            5 => {
                self.asked.insert(id, (who, life, Asked::Other));
                let name = name_of(section);
                let sections = SECTIONS.into_iter().filter(|it| *it == section || all && name_of(*it) == name);
                let sections = sections.map(Section).collect();
                let request = RoutesRequest { cluster: None, name, sections, all_from: None };
                Event::Routes { id, request, address: "10.0.0.1".to_owned() }
            }
            _ => {
                let Some(hold) = it.holds.get(&section) else { return Ok(()) };
                let to = hold.loaded.map_or(RaiseTo::ByAStep, |(_, max)| RaiseTo::Number(max + u64::from(STEP)));
                let g = hold.g;
                // One that is loaded takes with it what lies beside it.
                let name = name_of(section);
                let loads = |at: &u32| *at == section || to == RaiseTo::ByAStep && name_of(*at) == name;
                let among: Vec<u32> = SECTIONS.into_iter().filter(loads).collect();
                let (from, end) = (among[0], among[among.len() - 1] + 1);
                self.asked.insert(id, (who, life, Asked::Raise { name: name.clone(), g }));
                let sections = SectionRange { name, from: Section(from), to: Section(end) };
                let raises = vec![Raise { section: Section(section), sections, g: Generation(g), to, receipt: None }];
                Event::Raise { id, request: RaiseRequest { agent_id, session, cluster: None, raises } }
            }
        };
        self.event(at, event)
    }

    fn call_for_segment(&mut self, who: usize, at: usize) -> Result<(), String> {
        let (id, wanted) = (self.request(), self.below(30) as u32 + 1);
        let it = &self.allocators[who];
        let (agent_id, session, life) = (it.name.parse().unwrap(), it.session, it.life);
        self.asked.insert(id, (who, life, Asked::Segment));
        let name = "orders".parse().unwrap();
        let request = SegmentRequest { agent_id, session, cluster: None, name, wanted, seen: Shown::default() };
        self.event(at, Event::Segment { id, request, address: "10.0.0.1".to_owned() })?;
        self.overlap.map_or(Ok(()), |segment| Err(format!("places of {segment:?} were granted twice")))
    }

    fn hear(&mut self) {
        if self.answers.is_empty() {
            return;
        }
        let at = self.below(self.answers.len() as u64) as usize;
        if self.allocators[self.answers[at].0].stopped_until > self.t {
            return;
        }
        let (who, life, answer) = self.answers.remove(at);
        let (plan, t) = (self.plan, self.t);
        let it = &mut self.allocators[who];
        if it.life != life {
            return;
        }
        let now = it.now(t);
        match answer {
            Answer::Kept { sent, listed } => it.on_kept(now, sent, &listed, plan.bent),
            Answer::Raised { section, g, from, to } => it.on_raised(now, section, g, from, to, plan.any_clock),
        }
    }

    fn give(&mut self) -> Result<(), String> {
        let Some(who) = self.awake() else { return Ok(()) };
        let section = SECTIONS[self.below(3) as usize];
        let answered = self.answered.get(&section).copied().unwrap_or_default();
        let it = &mut self.allocators[who];
        it.read_call(section, answered);
        if self.below(3) == 0 {
            return Ok(());
        }
        let (any_clock, t) = (self.plan.any_clock, self.t);
        let it = &mut self.allocators[who];
        let now = it.now(t);
        let Some((number, before)) = it.give(now, section, any_clock) else { return Ok(()) };
        let whom = format!("{} of section {section} to {}", number, it.name);
        if !self.numbers.entry(section).or_default().insert(number) {
            return Err(format!("{whom}: given twice"));
        }
        if number > self.durable.get(&section).copied().unwrap_or_default() {
            return Err(format!("{whom}: above every bound"));
        }
        if self.plan.ordered && number <= before {
            return Err(format!("{whom}: out of order, {before} was answered before its question"));
        }
        let answered = self.answered.entry(section).or_default();
        *answered = number.max(*answered);
        Ok(())
    }

    fn befall(&mut self) -> Result<(), String> {
        let at = self.below(self.nodes.len() as u64) as usize;
        match self.below(12) {
            0 => self.cut_until = self.t + self.below(6 * LEASE as u64) as i64,
            1 | 2 => {
                let who = self.below(self.allocators.len() as u64) as usize;
                let span = self.below(3 * LEASE as u64) as i64;
                self.allocators[who].stopped_until = self.t + span;
            }
            3 => {
                let who = self.below(self.allocators.len() as u64) as usize;
                self.allocators[who].resume();
            }
            4 if self.one_in(2) => {
                let who = self.below(self.allocators.len() as u64) as usize;
                let session = SessionId(self.allocators[who].session.0 + 2);
                if session.0 <= SESSIONS {
                    self.allocators[who].start_fresh(session);
                }
            }
            5 | 6 => {
                let id = self.request();
                let who = self.below(2) as usize;
                let section = SECTIONS[self.below(3) as usize];
                let durable = self.durable.get(&section).copied().unwrap_or_default();
                let order = match self.below(3) {
                    0 => SectionOrder::Raise(durable + 1 + self.below(40)),
                    _ => SectionOrder::Move(self.allocators[who].name.parse().unwrap()),
                };
                let key = SectionKey { name: name_of(section), section: Section(section) };
                self.event(at, Event::Section { id, key, order, actor: Actor::new("olga", "") })?;
            }
            7 if self.nodes[at].ledger.is_some() && self.joining.is_none() => {
                self.nodes[at].ledger = None;
                self.start(at);
            }
            8 if self.plan.put_back => self.nodes[at].backup = Some(self.nodes[at].store.snapshot()),
            9 if self.plan.put_back && self.joining.is_none() && self.is_known_elsewhere(at) => {
                if let Some(backup) = self.nodes[at].backup.take() {
                    self.nodes[at].store = backup;
                    self.nodes[at].unproven = self.plan.bent != Some(Bent::PutBackIsBelieved);
                    self.start(at);
                }
            }
            10 if self.plan.replaced => self.replace(at)?,
            11 if self.joining.is_some() => self.join()?,
            _ => {}
        }
        Ok(())
    }

    /// Tells whether the other master of the pair has met it in its present start, and so knows all that is forgotten if this one is put back.
    /// Of two that are put back before they meet nobody knows what both have forgotten.
    fn is_known_elsewhere(&self, at: usize) -> bool {
        let others = self.nodes.iter().enumerate().filter(|(other, node)| *other != at && !node.over);
        let met = |ledger: &Ledger| ledger.pair().unproven().is_none();
        others.map(|(_, node)| node.ledger.as_ref().is_some_and(met)).next().unwrap_or(false)
    }

    /// The other master is declared lost on `at`, or its replacement makes a step.
    fn replace(&mut self, at: usize) -> Result<(), String> {
        if self.joining.is_some() {
            return self.join();
        }
        let other = self.nodes.iter().position(|node| !node.over && node.id == self.nodes[at].id.other());
        let (Some(other), false, true) = (other, self.nodes[at].over, self.losses < 2) else { return Ok(()) };
        let loaded = self.nodes[at].store.load()?;
        let unmet = self.nodes[at].ledger.as_ref().is_none_or(|ledger| ledger.pair().unproven().is_some());
        if loaded.observed.rolled_back || unmet || loaded.identity.awaiting.is_some() {
            return Ok(());
        }
        self.losses += 1;
        self.nodes[other].over = true;
        if self.plan.dead {
            self.nodes[other].ledger = None;
        }
        self.next += 1;
        let epoch = EpochId(self.next.into());
        let mut writes = declare_lost(&loaded, epoch, TOKEN, Actor::new("operator", ""), WallMs(0));
        if self.plan.bent == Some(Bent::NothingAddedAtALoss) {
            for (record, peer_has) in writes.iter_mut().flat_map(rows_mut) {
                record.max_seq = record.max_seq.saturating_sub(ALLOWANCE);
                *peer_has = record.max_seq;
            }
        }
        self.nodes[at].store.commit(&writes, loaded.lsn + 1).map_err(|e| e.to_string())?;
        self.note_durable(&writes);
        self.nodes[at].backup = None;
        self.start(at);
        self.joining = Some(Joining { step: 0, writes: Vec::new(), identity: None });
        Ok(())
    }

    fn join(&mut self) -> Result<(), String> {
        let Some(survivor) = self.nodes.iter().position(|node| !node.over) else { return Ok(()) };
        let Some(mut joining) = self.joining.take() else { return Ok(()) };
        let step = match joining.step {
            0 => JoinStep::Begin,
            1 => JoinStep::Page { after: None },
            2 => JoinStep::Sections { after: None },
            _ => JoinStep::Done,
        };
        let (id, master) = (self.request(), self.nodes[survivor].id.other());
        self.reply = None;
        self.event(survivor, Event::Join { id, token: TOKEN, master, step })?;
        let Some(Reply::Join(Ok(reply))) = self.reply.take() else {
            self.joining = Some(joining);
            return Ok(());
        };
        joining.step += 1;
        match reply {
            JoinReply::Begun(begun) => {
                let (identity, caution) = first_writes(master, begun);
                joining.identity = Some(identity);
                joining.writes.push(caution);
            }
            JoinReply::Page { settings, records, more: false, .. } => {
                joining.writes.extend(records.into_iter().map(|(key, lease)| Write::Lease(key, lease)));
                joining.writes.extend(settings.into_iter().map(Write::Setting));
            }
            JoinReply::Page { .. } | JoinReply::Settings { .. } => {
                return Err("more settings than a page has".to_owned());
            }
            JoinReply::Sections { records, .. } => {
                joining.writes.extend(records.into_iter().map(section_taken_over));
            }
            JoinReply::Done => {
                let mut store = MemoryStore::of(joining.identity.unwrap()).map_err(|e| e.to_string())?;
                store.commit(&joining.writes, 0).map_err(|e| e.to_string())?;
                let rate = 990 + self.below(21) as i64;
                let node = Node { id: master, store, ledger: None, backup: None, over: false, rate, unproven: false };
                self.nodes.push(node);
                self.start(self.nodes.len() - 1);
                return Ok(());
            }
        }
        self.joining = Some(joining);
        Ok(())
    }
}

/// The rows of sections that a write has.
fn rows_mut(write: &mut Write) -> &mut [(SectionRecord, u64)] {
    match write {
        Write::Sections { rows, .. } => rows,
        _ => &mut [],
    }
}

fn echo(ledger: &Ledger, message: PeerMessage) -> PeerFrame {
    let own = ledger.frame(message);
    let life = ledger.lives().peer.unwrap_or_default();
    PeerFrame { from: own.from.other(), life, to: Some(own.life), ..own }
}
