//! The world that a script works on: two ledgers with their stores, the messages between them, and the time.

use super::show::{show_axis, show_floor, show_message, show_reply, show_setting, show_write, span};
use common::audit::Actor;
use common::lease::{Generation, Grant, Lease, Prep};
use common::parameters::{ClusterId, ClusterParameters, EpochId, MasterId, SessionId};
use common::segment::Shown;
use common::sequence::SectionKey;
use common::setting::Change;
use common::time::{BootMs, DAY_MS, Now, SECOND_MS, SpanMs, WallMs};
use common::token::{TokenFamily, TokenKey, TokenType, TokenValue};
use ipnet::IpNet;
use master::lease::remedy::{after_revert, floor_of};
use master::lease::{Alarm, Effects, Event, Identity, Limits, Loaded, Reply, RequestId, Unproven, Write};
use master::ledger::Ledger;
use master::replication::join::{declare_lost, first_writes, section_taken_over, taken_over};
use master::store::Store as _;
use master::store::memory::MemoryStore;
use net::rpc::lease::{Changed, TokenRequest};
use net::rpc::peer::{JoinReply, JoinStep, PeerFrame, PeerMessage};
use net::rpc::ranges::{Raised, RaisedSections, SegmentGrant, ShownReceipt};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::ops::RangeInclusive;

/// Day 0 of every script: 2026-11-20.
pub(super) const DAY_0: WallMs = WallMs(20_777 * DAY_MS);
pub(super) const DAWN: Now = Now { wall: DAY_0, boot: BootMs(0) };

pub(super) struct Master {
    id: MasterId,
    pub(super) store: MemoryStore,
    pub(super) ledger: Option<Ledger>,
    /// The difference of its calendar from the script's.
    pub(super) skew: SpanMs,
    pub(super) backup: Option<MemoryStore>,
    /// The ledger of a copy of its store that runs beside it.
    pub(super) twin: Option<Ledger>,
}

#[derive(Default)]
pub(super) struct Script {
    masters: Vec<Master>,
    pub(super) now: Now,
    pub(super) messages: Vec<(MasterId, PeerFrame)>,
    pub(super) held_back: Vec<(MasterId, PeerFrame)>,
    grants: BTreeMap<String, Grant>,
    /// All that were granted, by the name of the axis: none may overlap another.
    segments: BTreeMap<String, Vec<SegmentGrant>>,
    pub(super) rseq: BTreeMap<String, u64>,
    /// The raise that is asked for,
    pub(super) raising: Option<(String, SectionKey, Generation)>,
    /// and of each allocator the receipt of its last one.
    pub(super) receipts: BTreeMap<String, ShownReceipt>,
    pub(super) requests: BTreeMap<RequestId, String>,
    next_request: u64,
    /// The number of starts so far: each has a number of its own, as others have a random one.
    starts: u64,
    joined: Option<JoinReply>,
    pub(super) verbose: bool,
    pub(super) audited: bool,
    pub(super) limits: Limits,
    pub(super) also_allowed: Vec<(MasterId, IpNet)>,
    flooders: u32,
    pub(super) agent_skews: BTreeMap<String, SpanMs>,
}

/// The end of a long time that passes, which is lived through.
pub(super) const LIVED: SpanMs = SpanMs::seconds(20);
/// The hash of every join token in these scripts.
const TOKEN: [u8; 32] = [7; 32];

pub(super) type Fail = Box<dyn Error>;

impl Script {
    /// Gives what an agent shows that was granted numbers of a name up to there: with the proof, if somebody was.
    pub(super) fn shown(&self, name: &str, to: u64) -> Shown {
        let of_name = self.segments.get(name).into_iter().flatten();
        let granted = of_name.map(SegmentGrant::seen).find(|seen| seen.to == to);
        granted.unwrap_or(Shown { to, proof: None })
    }

    fn identity(id: MasterId, cluster: u128, parameters: ClusterParameters) -> Identity {
        let first = id == MasterId::One;
        Identity {
            master: id,
            cluster: first.then_some(ClusterId(cluster)),
            epoch: first.then_some(EpochId(cluster)),
            pair_epoch: 1,
            former: Vec::new(),
            paired: false,
            awaiting: None,
            parameters,
        }
    }

    pub(super) fn format(&mut self, id: MasterId, cluster: u128, parameters: ClusterParameters) -> Result<(), Fail> {
        let store = MemoryStore::of(Self::identity(id, cluster, parameters))?;
        self.masters.retain(|master| master.id != id);
        self.masters.push(Master { id, store, ledger: None, skew: SpanMs(0), backup: None, twin: None });
        self.masters.sort_by_key(|master| master.id);
        Ok(())
    }

    pub(super) fn start(&mut self, id: MasterId) -> Result<String, Fail> {
        let now = self.now_of(id)?;
        self.starts += 1;
        let salt = self.starts;
        let limits = self.limits;
        let mut first = vec!["127.0.0.0/8".parse()?];
        first.extend(self.also_allowed.iter().filter(|(at, _)| *at == id).map(|(_, network)| *network));
        let master = self.master(id)?;
        let ledger = Ledger::start(master.store.load()?, now, salt, None, "test".to_owned())
            .with_first_whitelist(first)
            .with_limits(limits);
        master.ledger = Some(ledger);
        self.event(id, Event::Connected)
    }

    pub(super) fn master(&mut self, id: MasterId) -> Result<&mut Master, Fail> {
        self.masters.iter_mut().find(|master| master.id == id).ok_or_else(|| "no such master".into())
    }

    fn now_of(&mut self, id: MasterId) -> Result<Now, Fail> {
        let now = self.now;
        let skew = self.master(id)?.skew;
        Ok(Now { wall: now.wall + skew, boot: now.boot })
    }

    fn event(&mut self, id: MasterId, event: Event) -> Result<String, Fail> {
        let now = self.now_of(id)?;
        let master = self.master(id)?;
        let Some(ledger) = &mut master.ledger else { return Ok(format!("{id} is down\n")) };
        let mut fx = Effects::default();
        ledger.step(now, event, &mut fx);
        ledger.check()?;
        if !fx.writes.is_empty() {
            master.store.commit(&fx.writes, ledger.lsn())?;
        }
        let frames: Vec<_> = fx.messages.into_iter().map(|message| ledger.frame(message)).collect();
        let mut out = String::new();
        let audited = self.audited;
        let shown = |write: &&Write| match write {
            Write::Audit(_) => audited,
            write => self.verbose || write.counted(),
        };
        for write in fx.writes.iter().filter(shown) {
            writeln!(out, "{id} writes {}", show_write(write))?;
        }
        for frame in frames {
            let routine = matches!(
                frame.message,
                PeerMessage::Heartbeat { .. }
                    | PeerMessage::Hello(_)
                    | PeerMessage::Allows { .. }
                    | PeerMessage::SegmentsUsed { .. }
                    | PeerMessage::Pull { .. }
                    | PeerMessage::Page { .. }
                    | PeerMessage::Allocators { .. }
                    | PeerMessage::PullSettings { .. }
                    | PeerMessage::SettingsPage { .. }
                    | PeerMessage::PullSections { .. }
                    | PeerMessage::SectionPage { .. }
            );
            if self.verbose || !routine {
                writeln!(out, "{id} -> {}: {}", id.other(), show_message(&frame.message))?;
            }
            self.messages.push((id.other(), frame));
        }
        for (request, reply) in fx.replies {
            let agent = self.requests.remove(&request).ok_or("a reply to nobody")?;
            if let Reply::Token(Ok(grant)) = &reply {
                self.grants.insert(agent.clone(), grant.clone());
            }
            if let Reply::Segment(Ok(segment)) = &reply {
                let name = agent.rsplit(' ').next().unwrap_or_default().to_owned();
                let granted = self.segments.entry(name).or_default();
                let (from, to) = (segment.span.from, segment.span.to);
                if granted.iter().any(|known| known.span.from < to && from < known.span.to) {
                    return Err(format!("{agent} gets {from}..{to} a second time").into());
                }
                granted.push(*segment);
            }
            if let Reply::Raise(Ok(raised)) = &reply
                && let Some(RaisedSections { outcome: Ok(Raised { receipt: Some(receipt), .. }), .. }) =
                    raised.iter().flatten().next()
                && let Some((agent, key, g)) = self.raising.take()
            {
                self.receipts.insert(agent, ShownReceipt { sections: key.into(), g, receipt: *receipt });
            }
            if let Reply::Join(Ok(reply)) = &reply {
                self.joined = Some(reply.clone());
            }
            // Where there are no sequences nothing is said of them.
            if !matches!(&reply, Reply::Join(Ok(JoinReply::Sections { records, .. })) if records.is_empty()) {
                writeln!(out, "{id} answers {agent}: {}", show_reply(&reply))?;
            }
        }
        for alarm in fx.alarms {
            let alarm = match alarm {
                Alarm::PeerRefused(why) => format!("peer refused: {why}"),
                other => other.to_string(),
            };
            writeln!(out, "{id} alarms: {alarm}")?;
        }
        Ok(out)
    }

    pub(super) fn deliver(&mut self, to: Option<MasterId>) -> Result<String, Fail> {
        let mut out = String::new();
        for _ in 0..10_000 {
            let Some(at) = self.messages.iter().position(|(addressee, _)| to.is_none_or(|to| *addressee == to)) else {
                return Ok(out);
            };
            let (addressee, frame) = self.messages.remove(at);
            if self.master(addressee)?.ledger.is_some() {
                out += &self.event(addressee, Event::Message(Box::new(frame)))?;
            }
        }
        Err("the masters never stop writing to each other".into())
    }

    /// Lets a copy of a master's store greet the other master, over a connection of its own, until neither answers, and then send its
    /// first heartbeat.
    pub(super) fn twin(&mut self, id: MasterId) -> Result<String, Fail> {
        let now = self.now_of(id)?;
        self.starts += 1;
        let salt = self.starts;
        let master = self.master(id)?;
        let mut twin = match master.twin.take() {
            Some(twin) => twin,
            None => {
                let copy = master.backup.take().ok_or("no backup")?.load()?;
                let copy = Loaded { proven: Err(Unproven::Copied), ..copy };
                Ledger::start(copy, now, salt, None, "test".to_owned())
            }
        };
        let mut out = self.twin_step(id, &mut twin, now, Event::Connected)?;
        let beat = Now { boot: now.boot.max(twin.next_deadline()), ..now };
        out += &self.twin_step(id, &mut twin, beat, Event::Tick)?;
        writeln!(out, "the copy is {}", twin.condition(now).mode)?;
        self.master(id)?.twin = Some(twin);
        Ok(out)
    }

    fn twin_step(&mut self, id: MasterId, twin: &mut Ledger, now: Now, event: Event) -> Result<String, Fail> {
        let (mut out, mut events) = (String::new(), vec![event]);
        while !events.is_empty() {
            let mut fx = Effects::default();
            for event in events.drain(..) {
                twin.step(now, event, &mut fx);
            }
            for alarm in fx.alarms {
                writeln!(out, "the copy alarms: {alarm}")?;
            }
            for message in fx.messages {
                let greeting = RequestId(u64::MAX);
                let now = self.now_of(id.other())?;
                let other = self.master(id.other())?.ledger.as_mut().ok_or("the other master is down")?;
                let mut fx = Effects::default();
                other.step(now, Event::Greeting { id: greeting, frame: Box::new(twin.frame(message)) }, &mut fx);
                for alarm in fx.alarms {
                    writeln!(out, "{} alarms: {alarm}", id.other())?;
                }
                for (_, reply) in fx.replies {
                    let Reply::Greeted(answers) = reply else { return Err("a greeting is answered otherwise".into()) };
                    events.extend(answers.into_iter().map(|answer| Event::Message(Box::new(other.frame(answer)))));
                }
            }
        }
        Ok(out)
    }

    pub(super) fn ask(
        &mut self,
        agent: &str,
        at: MasterId,
        event: impl FnOnce(RequestId) -> Event,
    ) -> Result<String, Fail> {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.requests.insert(id, agent.to_owned());
        self.event(at, event(id))
    }

    pub(super) fn condition(&mut self) -> Result<String, Fail> {
        let mut out = String::new();
        for id in [MasterId::One, MasterId::Two] {
            let now = self.now_of(id)?;
            let Some(ledger) = self.master(id)?.ledger.as_ref() else { continue };
            let condition = ledger.condition(Now { wall: ledger.calendar().shown(now), ..now });
            let why = condition.why.unwrap_or_else(|| "nothing lacks".to_owned());
            writeln!(out, "{id} {}: {why}", condition.mode)?;
            for of in [id, id.other()] {
                if let Some(ahead) = ledger.calendar_ahead_of(of, now) {
                    writeln!(out, "{id} sees the calendar of {of} lead by {} s", ahead.0 / 1_000)?;
                }
            }
        }
        Ok(out)
    }

    pub(super) fn grant_of(&self, agent: &str) -> Result<Grant, Fail> {
        self.grants.get(agent).cloned().ok_or_else(|| format!("{agent} has no grant").into())
    }

    /// Lets time pass, with messages delivered if the network is up. On long ways the calendars jump to the last seconds
    /// before the end, which are then lived through beat by beat.
    pub(super) fn pass(&mut self, span: SpanMs, lived: SpanMs, deliver: bool) -> Result<String, Fail> {
        let end = self.now.wall + span;
        if span.0 > lived.0 {
            let left_out = SpanMs(span.0 - lived.0);
            self.now.wall = self.now.wall + left_out;
            for ledger in self.masters.iter_mut().filter_map(|master| master.ledger.as_mut()) {
                ledger.skip_quiet_time(left_out);
            }
        }
        let mut out = String::new();
        while self.now.wall < end {
            out += &self.beat(SpanMs((end - self.now.wall).0.min(SECOND_MS)))?;
            if deliver {
                out += &self.deliver(None)?;
            } else {
                self.messages.clear();
            }
        }
        Ok(out)
    }

    pub(super) fn beat(&mut self, span: SpanMs) -> Result<String, Fail> {
        let mut out = String::new();
        self.now = Now { wall: self.now.wall + span, boot: self.now.boot + span };
        for id in [MasterId::One, MasterId::Two] {
            if self.master(id).is_ok_and(|master| master.ledger.is_some()) {
                out += &self.event(id, Event::Tick)?;
                for (agent, skew) in self.agent_skews.clone() {
                    let (agent_id, session, wall) = (agent.parse()?, session(&agent), self.now.wall + skew);
                    out += &self.event(id, Event::AgentCalendar { agent_id, session, wall })?;
                }
            }
        }
        Ok(out)
    }

    pub(super) fn peer_lost(&mut self, id: MasterId) -> Result<String, Fail> {
        let epoch = EpochId(self.next_epoch());
        let master = self.master(id)?;
        master.ledger = None;
        let loaded = master.store.load()?;
        let (operator, at) = (Actor::new("operator", ""), DAY_0);
        let writes = declare_lost(&loaded, epoch, TOKEN, operator, at);
        master.store.commit(&writes, loaded.lsn + 1)?;
        let shown =
            writes.iter().filter(|write| write.counted()).map(|write| format!("{id} writes {}\n", show_write(write)));
        Ok(shown.collect())
    }

    /// Nothing that a forgotten ledger may have promised until now is granted by this master.
    pub(super) fn after_revert(&mut self, id: MasterId, above: Option<TokenValue>, skip: u64) -> Result<String, Fail> {
        let now = self.now_of(id)?.wall;
        let master = self.master(id)?;
        master.ledger = None;
        let loaded = master.store.load()?;
        let floor = floor_of(&loaded.identity.parameters, now, above);
        match after_revert(&loaded, floor, skip, Actor::new("operator", ""), now) {
            Ok(writes) => master.store.commit(&writes, loaded.lsn + 1)?,
            Err(why) => return Ok(format!("{id} is left as it was: {why}\n")),
        }
        Ok(format!("{id} grants {}\n", show_floor(floor)))
    }

    fn next_epoch(&mut self) -> u128 {
        self.next_request += 1;
        u128::from(self.next_request) + 1_000
    }

    pub(super) fn join(&mut self, id: MasterId) -> Result<String, Fail> {
        let mut out = String::new();
        let (mut records, mut taken_settings) = (Vec::new(), Vec::new());
        let mut begin = None;
        let mut sections = Vec::new();
        let pages = [JoinStep::Page { after: None }, JoinStep::Sections { after: None }];
        for step in [JoinStep::Begin].into_iter().chain(pages).chain([JoinStep::Done]) {
            let request = RequestId(self.next_request);
            self.next_request += 1;
            self.requests.insert(request, format!("master {id}"));
            self.joined = None;
            out += &self.event(id.other(), Event::Join { id: request, token: TOKEN, master: id, step })?;
            match self.joined.take() {
                Some(JoinReply::Begun(begun)) => begin = Some(first_writes(id, begun)),
                Some(JoinReply::Page { records: page, settings, more: false, .. }) => {
                    (records, taken_settings) = (page, settings);
                }
                Some(JoinReply::Page { .. } | JoinReply::Settings { .. }) => {
                    return Err("more settings than a page has".into());
                }
                Some(JoinReply::Sections { records, .. }) => sections = records,
                Some(JoinReply::Done) => {
                    let (identity, caution) = begin.take().ok_or("never begun")?;
                    let mut store = MemoryStore::of(identity)?;
                    let taken = std::mem::take(&mut records).into_iter();
                    let writes = taken.map(|(key, lease)| Write::Lease(key, taken_over(id, key, lease)));
                    let writes = writes.chain(std::mem::take(&mut taken_settings).into_iter().map(Write::Setting));
                    let writes = writes.chain([caution]);
                    let writes = writes.chain(std::mem::take(&mut sections).into_iter().map(section_taken_over));
                    store.commit(&writes.collect::<Vec<_>>(), 0)?;
                    self.masters.retain(|master| master.id != id);
                    self.masters.push(Master { id, store, ledger: None, skew: SpanMs(0), backup: None, twin: None });
                    self.masters.sort_by_key(|master| master.id);
                }
                None => break,
            }
        }
        Ok(out)
    }

    pub(super) fn change(&mut self, at: MasterId, change: Change) -> Result<String, Fail> {
        let now = self.now_of(at)?;
        let would = self
            .master(at)?
            .ledger
            .as_ref()
            .map(|ledger| ledger.would_change(Now { wall: ledger.calendar().shown(now), ..now }, &change));
        let out = self.ask("the operator", at, |id| Event::Change { id, change, actor: operator() })?;
        // A dry run says what becomes of it.
        let told = match &would {
            Some(Ok(Changed::Done)) | None => !out.contains("refused: ") && !out.contains("AlreadySo"),
            Some(Ok(Changed::AlreadySo)) => out.contains("AlreadySo"),
            Some(Err(why)) => out.contains(&format!("refused: {why}")),
        };
        if !told {
            return Err(format!("a dry run says {would:?}, and it is: {out}").into());
        }
        Ok(out)
    }

    /// Lets so many new agents ask from one address, and counts what becomes of them by the answer.
    pub(super) fn flood(
        &mut self,
        count: u32,
        token_type: TokenType,
        from: &str,
        at: MasterId,
    ) -> Result<String, Fail> {
        let mut answers: BTreeMap<String, u32> = BTreeMap::new();
        for _ in 0..count {
            self.flooders += 1;
            let agent = format!("flooder-{}", self.flooders);
            let request = TokenRequest {
                agent_id: agent.parse()?,
                session: session(&agent),
                cluster: None,
                token_type,
                former: Vec::new(),
            };
            let address = from.to_owned();
            let mut out = self.ask(&agent, at, |id| Event::Token { id, request, address })?;
            out += &self.deliver(None)?;
            let said = format!("answers {agent}: ");
            let answer = out.lines().find_map(|line| line.split_once(&said)).map_or("nothing", |(_, answer)| answer);
            let answer = if answer.starts_with("granted") { "granted" } else { answer };
            *answers.entry(answer.to_owned()).or_default() += 1;
        }
        Ok(answers.into_iter().map(|(answer, count)| format!("{count} x {answer}\n")).collect())
    }

    pub(super) fn taken(&mut self, values: RangeInclusive<u32>, home: MasterId) -> Result<String, Fail> {
        let now = self.now.wall;
        let lease = |value| {
            let key = TokenKey { family: TokenFamily::Uint, value: TokenValue(value) };
            let (agent_id, session) = (format!("taker-{value}").parse()?, session(&format!("taker-{value}")));
            let (g, token_type, until) = (Generation(1), TokenType::Uint2, now + SpanMs::days(7));
            let address = format!("10.1.{}.{}:5", value / 256, value % 256);
            let prep = Prep { key, g, token_type, agent_id, session, address, granted: now, from: DAY_0, until };
            Ok::<_, Fail>(Write::Lease(key, Lease::from_prep(&prep)))
        };
        let values = values.filter(|value| (value % 2 == 1) == (home == MasterId::One));
        let writes = values.map(lease).collect::<Result<Vec<_>, _>>()?;
        for id in [MasterId::One, MasterId::Two] {
            let master = self.master(id)?;
            master.ledger = None;
            let lsn = master.store.load()?.lsn;
            master.store.commit(&writes, lsn)?;
            self.start(id)?;
        }
        self.deliver(None)?;
        self.pass(SpanMs::seconds(2), LIVED, true).map(|_| String::new())
    }

    pub(super) fn ledgers(&self) -> impl Iterator<Item = (MasterId, Option<&Ledger>)> {
        self.masters.iter().map(|master| (master.id, master.ledger.as_ref()))
    }

    pub(super) fn settings(&self) -> Result<String, Fail> {
        let mut out = String::new();
        for master in &self.masters {
            let Some(ledger) = &master.ledger else {
                writeln!(out, "{} is down", master.id)?;
                continue;
            };
            writeln!(out, "{} allows {:?}", master.id, ledger.settings_table().whitelist())?;
            for setting in ledger.settings_table().all() {
                writeln!(out, "  {}", show_setting(setting))?;
            }
            for prep in ledger.settings_table().preps() {
                writeln!(out, "  proposed: {}", show_setting(prep))?;
            }
        }
        Ok(out)
    }

    pub(super) fn axes(&self) -> Result<String, Fail> {
        let mut out = String::new();
        for master in &self.masters {
            let Some(ledger) = &master.ledger else {
                writeln!(out, "{} is down", master.id)?;
                continue;
            };
            for (name, axis) in ledger.settings_table().axes() {
                writeln!(out, "{} {name} {}", master.id, show_axis(axis))?;
            }
            for (name, cursor) in ledger.cursors().iter() {
                let spans: Vec<String> =
                    cursor.spans().iter().map(|span| format!("{}..{}", span.from, span.to)).collect();
                writeln!(out, "  has of {name}: {}", spans.join(" "))?;
            }
        }
        Ok(out)
    }

    pub(super) fn table(&mut self) -> Result<String, Fail> {
        let mut out = String::new();
        for master in &self.masters {
            let Some(ledger) = &master.ledger else {
                writeln!(out, "{} is down", master.id)?;
                continue;
            };
            writeln!(out, "{} {}", master.id, ledger.mode())?;
            for (key, lease) in ledger.table().leases() {
                writeln!(
                    out,
                    "  {key} g{} {:?} {} {}{}",
                    lease.g,
                    lease.state,
                    lease.agent_id,
                    span(lease.from, lease.until),
                    if lease.deny { " denied" } else { "" }
                )?;
            }
            for prep in ledger.table().preps() {
                writeln!(out, "  {} g{} proposed to {}", prep.key, prep.g, prep.agent_id)?;
            }
        }
        Ok(out)
    }
}

pub(super) fn operator() -> Actor {
    Actor::new("olga", "10.0.0.9")
}

pub(super) fn session(agent: &str) -> SessionId {
    SessionId(agent.bytes().fold(0, |sum, b| sum * 256 + u128::from(b)))
}
