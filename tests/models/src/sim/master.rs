//! A master: the real ledger on a store that outlives it.

use super::episode::each;
use super::mutation::{Mutation, Mutations};
use super::net::Node;
use super::rng::mix;
use super::shelf::Shelf;
use super::world::{Caller, Event, World};
use common::lease::{Generation, LeaseState, Prep};
use common::parameters::{EpochId, MasterId, SessionId};
use common::sequence::Section;
use common::setting::SettingKey;
use common::time::{Now, SpanMs, WallMs};
use common::token::TokenKey;
use ledger::lease::Loaded;
use ledger::lease::{Alarm, Effects, Event as LedgerEvent, Limits, Reply, RequestId, Write};
use ledger::{Ledger, Salt, Snapshot};
use std::collections::BTreeMap;
use wire::lease::{HeartbeatReply, HeartbeatRequest, Refusal, Rent};
use wire::peer::{JoinReply, PeerFrame, PeerMessage};
use wire::ranges::SegmentGrant;

/// The one who waits for an answer.
#[derive(Clone, Debug)]
pub enum Asker {
    /// An agent, with its question.
    Agent(Caller, Asked),
    /// A replacement.
    Join,
    /// An operator, who sees what comes of it.
    Operator,
    /// The other master, or what takes itself for it: it is answered on the connection by which it asked.
    Peer(usize),
}

/// The question of an agent.
#[derive(Clone, Copy, Debug)]
pub enum Asked {
    /// A token for a session.
    Token(SessionId),
    /// A renewal.
    Rent(SessionId, TokenKey, Generation),
    /// To take a token back.
    Terminate(TokenKey),
    /// A segment for a session.
    Segment(SessionId),
    /// To keep its sections, a session.
    Keep(SessionId),
    /// Anything else of sections.
    Sections,
}

/// The answer to an agent.
#[derive(Clone, Debug)]
pub enum Answered {
    /// To its heartbeat, by the master's snapshot.
    Heartbeat(Result<HeartbeatReply, Refusal>),
    /// To anything else, by its ledger.
    Ledger(Reply),
}

/// The kind of a change that a master makes durable, by which its next steps are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A proposal.
    Proposed,
    /// A proposal that the other one asked for.
    Lent,
    /// A new grant.
    Granted,
    /// A longer lease, or any other change of a grant.
    Renewed,
    /// The beginning of an end.
    Closing,
    /// An end.
    Closed,
    /// A part of an axis that is proposed,
    Extending,
    /// or a master's own.
    Extended,
    /// A segment.
    Segment,
    /// The proposal of a section's next owner.
    Giving,
    /// A section's next owner.
    Given,
    /// A section's bound.
    Raised,
}

impl Step {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Proposed, Self::Lent, Self::Granted, Self::Renewed, Self::Closing, Self::Closed];

    /// Those of numbers that come in ranges.
    pub const RANGES: [Self; 6] =
        [Self::Extending, Self::Extended, Self::Segment, Self::Giving, Self::Given, Self::Raised];
}

/// The fault right after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    /// The master dies before it has said so to anybody.
    Dies,
    /// The other one does not hear of it, or it does not hear the other one.
    Cut,
    /// The master is lost, and the other one has not heard of it.
    Lost,
    /// The other one is lost, and was not heard any more.
    OtherLost,
    /// Nothing of what it says about that gets through.
    Unheard,
    /// Nor that, and its store is put back from a backup, of which the other one has seen more.
    RollsBack,
    /// The same, and the other one has perhaps seen no more.
    PutBack,
}

impl Trap {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Dies, Self::Cut, Self::Lost, Self::OtherLost, Self::Unheard, Self::RollsBack, Self::PutBack];
}

/// A machine with a master on it.
pub struct Master {
    /// The one of the two that it is.
    pub id: MasterId,
    /// The process; `None` while it is down.
    pub ledger: Option<Ledger>,
    /// The snapshot that it answers heartbeats with; follows the ledger after each commit.
    pub(super) snapshot: Option<Snapshot>,
    /// The disk; `None` before the store is made, and after it was lost.
    pub store: Option<Shelf>,
    /// An earlier copy of the disk.
    pub backup: Option<(u64, Shelf)>,
    /// One from while it waited for a replacement that has joined since.
    pub awaiting_backup: Option<(u64, Shelf)>,
    /// Its store was put back, and its operator knows that it has to be replaced.
    pub condemned: bool,
    /// True if it was put back, and nobody knows: until it has met the other one, no operator may vouch for it.
    pub restored: bool,
    /// Its store is not the only one of its past, or not the newest: only such a master may stop for good.
    pub tampered: bool,
    /// The newest greeting that it was sent; a mutation's only.
    pub(super) greeting: Option<(usize, Box<PeerFrame>)>,
    /// True if it is on a machine that no master can be reached from: no messages of it, or to it, was ever on the way.
    pub cut_off: bool,
    /// The error of its calendar, in milliseconds.
    pub wall_off: i64,
    /// The instant until which it stands still.
    pub paused_until: i64,
    /// Its next commit fails: with effect, or without.
    pub fail_commit: Option<bool>,
    /// Something goes wrong at its next step of that kind.
    pub trap: Option<(Step, Trap)>,
    /// Leases that are durable.
    pub(super) mirror: BTreeMap<TokenKey, (Generation, WallMs)>,
    /// The same of sections.
    pub(super) bounds: BTreeMap<Section, (Generation, u64)>,
    /// Proposals of the other's values; a mutation's only.
    pub(super) foreign: BTreeMap<TokenKey, Prep>,
    permit: (Option<EpochId>, Option<WallMs>),
    waiting: BTreeMap<RequestId, Asker>,
    next_request: u64,
    /// The answer to a joining one.
    pub join_reply: Option<JoinReply>,
}

impl Master {
    /// A machine on which nothing runs.
    pub fn new(id: MasterId, store: Option<Shelf>) -> Self {
        Self {
            id,
            ledger: None,
            snapshot: None,
            store,
            backup: None,
            awaiting_backup: None,
            condemned: false,
            restored: false,
            tampered: false,
            greeting: None,
            cut_off: false,
            wall_off: 0,
            paused_until: 0,
            fail_commit: None,
            trap: None,
            mirror: BTreeMap::new(),
            bounds: BTreeMap::new(),
            foreign: BTreeMap::new(),
            permit: (None, None),
            waiting: BTreeMap::new(),
            next_request: 0,
            join_reply: None,
        }
    }

    /// Hours in which nothing happens are left out: for the ledger, and for the copy of it that answers heartbeats.
    pub(super) fn skip_quiet_time(&mut self, quiet: SpanMs) {
        if let Some(ledger) = &mut self.ledger {
            ledger.skip_quiet_time(quiet);
            if let Some(snapshot) = &mut self.snapshot {
                snapshot.follow(ledger, &[]);
            }
        }
    }

    /// The number of a new request.
    pub fn draw(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request)
    }

    /// Notes who waits.
    pub fn wait(&mut self, id: RequestId, asker: Asker) {
        self.waiting.insert(id, asker);
    }

    /// Tells whether that question still waits.
    pub fn asks(&self, id: RequestId) -> bool {
        self.waiting.contains_key(&id)
    }

    /// Answers a heartbeat; `None` while it is down.
    pub fn hear(&self, now: Now, request: &HeartbeatRequest) -> Option<Answered> {
        let snapshot = self.snapshot.as_ref()?;
        Some(Answered::Heartbeat(snapshot.answer(now, request)))
    }

    /// Reads what its disk holds.
    pub fn loaded(&mut self) -> Option<Loaded> {
        self.store.as_mut().map(Shelf::load)
    }

    /// Its snapshot after a commit.
    fn follow(&mut self, writes: &[Write]) {
        if let Some((snapshot, ledger)) = self.snapshot.as_mut().zip(self.ledger.as_ref()) {
            snapshot.follow(ledger, writes);
        }
    }

    /// The process ends. Whoever waits for it gives up in its own time.
    pub fn die(&mut self) {
        (self.ledger, self.snapshot) = (None, None);
        self.waiting.clear();
    }
}

/// The product's ledger. The pools are so small, and all who ask so lawful, that nothing is kept from anybody.
pub(super) fn open(loaded: Loaded, now: Now, salt: impl Into<Salt>) -> Ledger {
    let limits = Limits { kept_percent: 0, ..Limits::DEFAULT };
    Ledger::start(loaded, now, salt, None, String::new()).with_limits(limits)
}

/// The place of a master in arrays.
pub fn slot(id: MasterId) -> usize {
    usize::from(id.number()) - 1
}

impl World {
    /// Starts a master's process, if it has a disk.
    pub fn start_master(&mut self, m: usize) {
        let (salt, now) = (self.rng.next(), self.master_now(m));
        let believed = self.mutations.has(Mutation::StoreCopyBelieved);
        let goes_on = self.mutations.has(Mutation::RunGoesOnAfterPutBack);
        let master = &mut self.masters[m];
        if master.ledger.is_some() {
            return;
        }
        if let Some(store) = master.store.as_mut().filter(|_| believed) {
            store.settle_lineage();
        }
        let Some(loaded) = master.loaded() else { return };
        master.mirror = loaded.leases.iter().map(|(key, lease)| (*key, (lease.g, lease.until))).collect();
        let records = loaded.sections.iter().flat_map(|(record, _)| each(record));
        let bounds = records.map(|record| (record.range.from, (record.g, record.max_seq)));
        master.bounds = bounds.collect();
        master.permit = (loaded.identity.epoch, loaded.permit_out);
        let drawn = Salt::from(salt);
        // The mutation: what a store that is not proven begins is the run that it had.
        let run = loaded.run.filter(|_| goes_on).unwrap_or(drawn.run);
        let ledger = open(loaded, now, Salt { run, ..drawn });
        master.snapshot = Some(Snapshot::of(&ledger));
        master.ledger = Some(ledger);
        self.tell(|| format!("master {m} starts"));
        if self.t < self.calm_until {
            self.connect_all();
        }
        self.unsettle();
        self.bend_start(m);
        self.step(m, LedgerEvent::Connected);
    }

    /// A master's process ends, to be started again.
    pub fn crash_master(&mut self, m: usize, down: i64) {
        if self.masters[m].ledger.is_some() {
            self.tell(|| format!("master {m} dies for {down} ms"));
            self.masters[m].die();
            self.unsettle();
            self.after(down, Event::StartMaster(m));
        }
    }

    /// Messages are taken in.
    pub fn receive(&mut self, m: usize, from: usize, frame: Box<PeerFrame>) {
        let Some(frame) = self.bend_messages(m, from, frame) else { return };
        let lives = self.masters[m].ledger.as_ref().map(|ledger| (ledger.lives().present(), ledger.lives().peer));
        if lives.is_some_and(|(own, accepted)| frame.is_answered(own, accepted)) {
            let id = self.masters[m].draw();
            self.masters[m].wait(id, Asker::Peer(from));
            self.step(m, LedgerEvent::Greeting { id, frame });
        } else {
            self.step(m, LedgerEvent::Message(frame));
        }
    }

    /// One event of a master, made durable, then sent.
    pub fn step(&mut self, m: usize, event: LedgerEvent) {
        let now = self.master_now(m);
        let Some(ledger) = &mut self.masters[m].ledger else { return };
        let mut fx = Effects::default();
        let asked_for =
            matches!(&event, LedgerEvent::Message(frame) if matches!(frame.message, PeerMessage::Ask { .. }));
        ledger.step(now, event, &mut fx);
        // Whatever it believes of a value changes only with a write.
        if !fx.writes.is_empty()
            && let Err(what) = ledger.check()
        {
            self.oracle.violated(|| format!("master {m}: {what}"));
        }
        let Effects { writes, messages, replies, alarms, .. } = &fx;
        if writes.is_empty() {
            self.masters[m].follow(&[]);
        }
        if !(writes.is_empty() && messages.is_empty() && replies.is_empty() && alarms.is_empty()) {
            self.carry_out(m, fx, asked_for);
        }
    }

    fn carry_out(&mut self, m: usize, mut fx: Effects, asked_for: bool) {
        for alarm in &fx.alarms {
            self.tell(|| format!("master {m}: {alarm}"));
            if let Alarm::RolledBack { .. } | Alarm::Copied = alarm
                && !self.masters[m].tampered
            {
                self.oracle
                    .violated(|| format!("master {m} stops for good, and nothing has happened to its store: {alarm}"));
            }
            if let Alarm::Conflict(_) = alarm {
                self.oracle.violated(|| format!("I1 master {m}: {alarm}"));
            }
        }
        let mut dies = false;
        let mut trap = None;
        if !fx.writes.is_empty() {
            trap = self.sprung(m, &fx.writes, asked_for);
            let counted = fx.writes.iter().any(Write::counted);
            let plan = if counted { self.masters[m].fail_commit.take() } else { None };
            dies = plan.is_some() || trap == Some(Trap::Dies);
            if plan != Some(false) {
                self.commit(m, &fx.writes);
                self.masters[m].follow(&fx.writes);
                self.check_snapshot(m);
            }
        }
        if let Some(trap) = trap {
            self.spring(m, trap);
        }
        if !dies || self.mutations.has(Mutation::SendBeforeCommit) {
            let messages = std::mem::take(&mut fx.messages);
            for message in messages {
                self.send(m, message);
            }
            for (id, reply) in fx.replies {
                self.reply(m, id, reply);
            }
        }
        if dies {
            let down = self.outage(3_600_000);
            self.crash_master(m, down);
        }
    }

    /// Checks that heartbeats are answered with what the ledger holds, whatever way it came there.
    fn check_snapshot(&mut self, m: usize) {
        let Some((snapshot, ledger)) = self.masters[m].snapshot.as_ref().zip(self.masters[m].ledger.as_ref()) else {
            return;
        };
        if *snapshot != Snapshot::of(ledger) {
            let snapshot = format!("{snapshot:?}");
            self.oracle.violated(|| format!("master {m} has another snapshot than its ledger: {snapshot}"));
        }
    }

    /// Gives the trap if one of these writes is the step that it waited for.
    fn sprung(&mut self, m: usize, writes: &[Write], asked_for: bool) -> Option<Trap> {
        let master = &mut self.masters[m];
        let (wanted, trap) = master.trap?;
        let extends = writes.iter().any(|write| matches!(write, Write::Setting(_)));
        let step = |write: &Write| match write {
            Write::SettingPrep(prep) if matches!(prep.key, SettingKey::Axis(_)) => Some(Step::Extending),
            Write::Cursor { .. } if extends => Some(Step::Extended),
            Write::Cursor { .. } => Some(Step::Segment),
            Write::SectionPreps { rows, .. } if !rows.is_empty() => Some(Step::Giving),
            Write::Sections { rows, .. } => {
                let mut all = rows.iter().flat_map(|(record, _)| each(record));
                let given = |it: common::sequence::SectionRecord| {
                    master.bounds.get(&it.range.from).is_none_or(|(g, _)| *g != it.g)
                };
                Some(if all.any(given) { Step::Given } else { Step::Raised })
            }
            Write::Prep(_) if asked_for => Some(Step::Lent),
            Write::Prep(_) => Some(Step::Proposed),
            Write::Lease(key, lease) => Some(match lease.state {
                LeaseState::Closing => Step::Closing,
                LeaseState::Closed => Step::Closed,
                LeaseState::Held if master.mirror.get(key).is_some_and(|(g, _)| *g == lease.g) => Step::Renewed,
                LeaseState::Held => Step::Granted,
            }),
            _ => None,
        };
        if !writes.iter().any(|write| step(write) == Some(wanted)) {
            return None;
        }
        master.trap = None;
        Some(trap)
    }

    pub(super) fn commit(&mut self, m: usize, writes: &[Write]) {
        let trace = |world: &Self, write: &Write| world.tell(|| format!("master {m} writes {write:?}"));
        for write in writes.iter().filter(|write| write.counted()) {
            trace(self, write);
        }
        let master = &mut self.masters[m];
        let (Some(ledger), Some(store)) = (&master.ledger, &mut master.store) else { return };
        if self.mutations == Mutations::NONE {
            store.commit(writes.iter().cloned(), ledger.lsn());
            store.settle_lineage();
            self.oracle.sections_recorded(writes);
        } else {
            let lsn = ledger.lsn();
            let kept = self.bend_writes(m, writes);
            self.oracle.sections_recorded(&kept);
            if let Some(store) = &mut self.masters[m].store {
                store.commit(kept, lsn);
                store.settle_lineage();
            }
        }
        let master = &mut self.masters[m];
        for write in writes {
            match write {
                Write::Lease(key, lease) => {
                    let was = master.mirror.insert(*key, (lease.g, lease.until));
                    self.oracle.recorded(*key, lease, was);
                }
                Write::Identity(identity) if identity.epoch != master.permit.0 => {
                    master.permit = (identity.epoch, None);
                }
                Write::PermitOut(permit) => {
                    if *permit < master.permit.1 {
                        self.oracle.violated(|| format!("I8 master {m}: its permit shrinks"));
                    }
                    master.permit.1 = *permit;
                }
                Write::Setting(setting) => self.oracle.axis_recorded(setting),
                Write::Sections { rows, .. } => {
                    let all = rows.iter().flat_map(|(record, _)| each(record));
                    master.bounds.extend(all.map(|record| (record.range.from, (record.g, record.max_seq))));
                }
                _ => {}
            }
        }
    }

    pub(super) fn send(&mut self, m: usize, message: PeerMessage) {
        let message = self.bend_message(message);
        let Some(ledger) = &self.masters[m].ledger else { return };
        let other = ledger.identity().master.other();
        let frame = Box::new(ledger.frame(message));
        let message = &frame.message;
        if let PeerMessage::Heartbeat { permit: Some(permit), .. } = message
            && self.mutations == Mutations::NONE
            && Some(*permit) > self.masters[m].permit.1
        {
            self.oracle.violated(|| format!("I8 master {m} sends a permit that is not durable"));
        }
        if self.forge(m, message) {
            return;
        }
        if self.masters[m].cut_off {
            return;
        }
        let to = self.current[slot(other)];
        for delay in self.copies().into_iter().flatten() {
            // A stored copy may come to whoever is there by then, or to a former master that lives on.
            let other = if self.rng.chance(0.9) { to } else { self.rng.below(self.masters.len()) };
            let to = if self.masters[other].cut_off { to } else { other };
            self.after(delay, Event::Message(to, m, frame.clone()));
        }
        let open = self.net.open(Node::Master(m), Node::Master(to), self.t) && !self.lost();
        if open && self.masters[to].ledger.is_some() {
            let delay = self.latency();
            self.after(delay, Event::Message(to, m, frame));
        } else if let PeerMessage::Ask { .. }
        | PeerMessage::NoneFree { .. }
        | PeerMessage::Confirm { .. }
        | PeerMessage::AskSetting { .. }
        | PeerMessage::ProposeSetting { .. }
        | PeerMessage::ConfirmSetting { .. } = frame.message
        {
            self.busy_for_who_waits();
        }
    }

    fn answer_greeting(&mut self, m: usize, to: usize, message: PeerMessage) {
        self.answer_challenge(m, &message);
        let Some(ledger) = &self.masters[m].ledger else { return };
        let frame = Box::new(ledger.frame(message));
        let open = self.net.open(Node::Master(m), Node::Master(to), self.t) && !self.masters[m].cut_off;
        if open && !self.lost() && self.masters[to].ledger.is_some() {
            let delay = self.latency();
            self.after(delay, Event::Message(to, m, frame));
        }
    }

    fn reply(&mut self, m: usize, id: RequestId, mut reply: Reply) {
        let Some(asker) = self.masters[m].waiting.remove(&id) else { return };
        let (caller, asked) = match asker {
            Asker::Agent(caller, asked) => (caller, asked),
            Asker::Join => {
                if let Reply::Join(Ok(reply)) = reply {
                    self.masters[m].join_reply = Some(reply);
                }
                return;
            }
            Asker::Operator => return,
            Asker::Peer(from) => {
                if let Reply::Greeted(messages) = reply {
                    messages.into_iter().for_each(|message| self.answer_greeting(m, from, message));
                }
                return;
            }
        };
        self.bend_reply(m, &mut reply, asked);
        self.bend_promise(m, &mut reply, asked);
        match (&reply, asked) {
            (Reply::Token(Ok(grant)), Asked::Token(session)) => {
                self.tell(|| format!("master {m} grants {grant:?} to {session}"));
                self.durable(m, grant.key, grant.g, grant.until);
                self.permitted(m, (grant.key, grant.g, session), grant.until);
                self.oracle.promised(grant.key, grant.g, session, Some(grant.from), grant.until);
                self.note(mix(u64::from(grant.key.value.0)) ^ grant.g.0);
            }
            (Reply::Rent(Ok(Rent::Success { until, .. })), Asked::Rent(session, key, g)) => {
                self.tell(|| format!("master {m} renews {key} g{g} until {until}"));
                self.durable(m, key, g, *until);
                self.permitted(m, (key, g, session), *until);
                self.oracle.promised(key, g, session, None, *until);
                self.note(mix(u64::from(key.value.0)) ^ until.0 as u64);
            }
            (Reply::Terminate(Ok(())), Asked::Terminate(key)) => self.free_at_once(key),
            (Reply::Segment(Ok(SegmentGrant { span, .. })), Asked::Segment(session)) => {
                self.tell(|| format!("master {m} grants places {} to {} to {session}", span.from, span.to));
                self.oracle.segment_granted(*span, session);
                self.note(mix(span.from) ^ span.to);
            }
            _ => {}
        }
        self.answer(m, caller, Some(Box::new(Answered::Ledger(reply))));
    }

    /// I5: nothing is promised for longer than before, and than the other master permits. Whatever the record was lifted to: of a
    /// lift the other one may never hear.
    fn permitted(&mut self, m: usize, promise: (TokenKey, Generation, SessionId), until: WallMs) {
        let permit = self.masters[m].ledger.as_ref().and_then(|ledger| ledger.observed().permit_in);
        let asserted = self.mutations == Mutations::NONE || self.mutations.has(Mutation::LiftedIsTold);
        if asserted
            && permit.is_none_or(|permit| until > permit)
            && self.oracle.promised_until(promise).is_some_and(|told| until > told)
        {
            let (key, g, _) = promise;
            self.oracle.violated(|| format!("I5 master {m} promises {key} g{g} until {until}, longer than permitted"));
        }
    }

    /// I5: no promise exceeds the promiser's durable record.
    fn durable(&mut self, m: usize, key: TokenKey, g: Generation, until: WallMs) {
        let known = self.masters[m].mirror.get(&key).copied();
        if self.mutations == Mutations::NONE && known.is_none_or(|known| known.0 != g || known.1 < until) {
            self.oracle.violated(|| format!("I5 master {m} promises {key} g{g} until {until}, which is not durable"));
        }
    }
}

impl World {
    /// The two masters greet each other, and these messages are neither lost nor late.
    pub fn greet_now(&mut self, a: usize, b: usize) {
        for (from, to) in [(a, b), (b, a)] {
            let now = self.master_now(from);
            let Some(ledger) = &mut self.masters[from].ledger else { continue };
            let mut fx = Effects::default();
            ledger.step(now, LedgerEvent::Connected, &mut fx);
            let frames: Vec<_> = fx.messages.into_iter().map(|message| Box::new(ledger.frame(message))).collect();
            for frame in frames {
                self.receive(to, from, frame);
            }
        }
    }
}
