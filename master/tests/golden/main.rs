//! Golden scripts: two real ledgers, mail that the script delivers, loses, doubles or holds back, and clocks that the
//! script sets. Each script under `scripts/` is named for what it claims; its expected output stands beside the input.
//! After a change that is meant: `UPDATE_GOLDENFILES=1 cargo nextest run -p master`, and read the difference.

use common::audit::Actor;
use common::calendar::UtcOffset;
use common::lease::Grant;
use common::namespace::{Definition, GeneratorKind, Namespace};
use common::rpc::PROTOCOL;
use common::rpc::lease::{ListRequest, RentRequest, TerminateRequest, TokenRequest};
use common::rpc::peer::{JoinReply, JoinStep, PeerFrame, PeerMessage};
use common::setting::Change;
use common::terms::{AgentId, ClusterId, EpochId, MasterId, SessionId, Terms};
use common::time::{BootMs, DAY_MS, HOUR_MS, Now, SECOND_MS, SpanMs, WallMs};
use common::token::TokenType;
use master::lease::join::{declare_lost, taken_over};
use master::lease::{Alarm, Effects, Event, Identity, Ledger, Reply, RequestId, Write};
use master::store::Store as _;
use master::store::memory::MemoryStore;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::str::FromStr;

mod show;
use show::{show_message, show_reply, show_setting, show_write, span};

/// Day 0 of every script: 2026-11-20.
const DAY_0: WallMs = WallMs(20_777 * DAY_MS);
const DAWN: Now = Now { wall: DAY_0, boot: BootMs(0) };

struct Master {
    id: MasterId,
    store: MemoryStore,
    ledger: Option<Ledger>,
    /// What its calendar differs from the script's.
    skew: SpanMs,
    backup: Option<MemoryStore>,
}

#[derive(Default)]
struct Script {
    masters: Vec<Master>,
    now: Now,
    mail: Vec<(MasterId, PeerFrame)>,
    held_back: Vec<(MasterId, PeerFrame)>,
    grants: BTreeMap<String, Grant>,
    rseq: BTreeMap<String, u64>,
    requests: BTreeMap<RequestId, String>,
    next_request: u64,
    joined: Option<JoinReply>,
    verbose: bool,
    audited: bool,
}

/// The hash of every join token in these scripts.
const TOKEN: [u8; 32] = [7; 32];

type Fail = Box<dyn Error>;

impl Script {
    fn identity(id: MasterId, cluster: u128, terms: Terms) -> Identity {
        let first = id == MasterId::One;
        Identity {
            master: id,
            cluster: first.then_some(ClusterId(cluster)),
            epoch: first.then_some(EpochId(cluster)),
            pair_epoch: 1,
            former: Vec::new(),
            paired: false,
            awaiting: None,
            terms,
        }
    }

    fn format(&mut self, id: MasterId, cluster: u128, terms: Terms) -> Result<(), Fail> {
        let store = MemoryStore::format(Self::identity(id, cluster, terms))?;
        self.masters.retain(|master| master.id != id);
        self.masters.push(Master { id, store, ledger: None, skew: SpanMs(0), backup: None });
        self.masters.sort_by_key(|master| master.id);
        Ok(())
    }

    fn start(&mut self, id: MasterId) -> Result<String, Fail> {
        let now = self.now_of(id)?;
        let master = self.master(id)?;
        let first = vec!["127.0.0.0/8".parse()?];
        let ledger = Ledger::start(master.store.load()?, now, 0, None, "test".to_owned()).with_first_whitelist(first);
        master.ledger = Some(ledger);
        self.event(id, Event::Connected)
    }

    fn master(&mut self, id: MasterId) -> Result<&mut Master, Fail> {
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
        let me = ledger.identity().clone();
        let mut out = String::new();
        let audited = self.audited;
        let shown = |write: &&Write| match write {
            Write::Audit(_) => audited,
            write => self.verbose || write.counted(),
        };
        for write in fx.writes.iter().filter(shown) {
            writeln!(out, "{id} writes {}", show_write(write))?;
        }
        for message in fx.mail {
            let routine = matches!(
                message,
                PeerMessage::Heartbeat { .. }
                    | PeerMessage::Hello(_)
                    | PeerMessage::Pull { .. }
                    | PeerMessage::Page { .. }
            );
            if self.verbose || !routine {
                writeln!(out, "{id} -> {}: {}", id.other(), show_message(&message))?;
            }
            let frame = PeerFrame { protocol: PROTOCOL, from: id, cluster: me.cluster, epoch: me.epoch, message };
            self.mail.push((id.other(), frame));
        }
        for (request, reply) in fx.replies {
            let agent = self.requests.remove(&request).ok_or("a reply to nobody")?;
            if let Reply::Token(Ok(grant)) = &reply {
                self.grants.insert(agent.clone(), grant.clone());
            }
            if let Reply::Join(Ok(reply)) = &reply {
                self.joined = Some(reply.clone());
            }
            writeln!(out, "{id} answers {agent}: {}", show_reply(&reply))?;
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

    fn deliver(&mut self, to: Option<MasterId>) -> Result<String, Fail> {
        let mut out = String::new();
        for _ in 0..10_000 {
            let Some(at) = self.mail.iter().position(|(addressee, _)| to.is_none_or(|to| *addressee == to)) else {
                return Ok(out);
            };
            let (addressee, frame) = self.mail.remove(at);
            if self.master(addressee)?.ledger.is_some() {
                out += &self.event(addressee, Event::Mail(Box::new(frame)))?;
            }
        }
        Err("the masters never stop writing to each other".into())
    }

    fn ask(&mut self, agent: &str, at: MasterId, event: impl FnOnce(RequestId) -> Event) -> Result<String, Fail> {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.requests.insert(id, agent.to_owned());
        self.event(at, event(id))
    }

    fn grant_of(&self, agent: &str) -> Result<Grant, Fail> {
        self.grants.get(agent).cloned().ok_or_else(|| format!("{agent} has no grant").into())
    }

    /// Lets time pass, with mail delivered if the network is up. On long ways the calendars jump to the last seconds
    /// before the end, which are then lived through beat by beat.
    fn pass(&mut self, span: SpanMs, deliver: bool) -> Result<String, Fail> {
        let end = self.now.wall + span;
        let lived = SpanMs::seconds(20);
        if span.0 > lived.0 {
            self.now.wall = self.now.wall + SpanMs(span.0 - lived.0);
        }
        let mut out = String::new();
        while self.now.wall < end {
            let beat = SpanMs((end - self.now.wall).0.min(SECOND_MS));
            self.now = Now { wall: self.now.wall + beat, boot: self.now.boot + beat };
            for id in [MasterId::One, MasterId::Two] {
                if self.master(id).is_ok_and(|master| master.ledger.is_some()) {
                    out += &self.event(id, Event::Tick)?;
                }
            }
            if deliver {
                out += &self.deliver(None)?;
            } else {
                self.mail.clear();
            }
        }
        Ok(out)
    }

    fn peer_lost(&mut self, id: MasterId) -> Result<String, Fail> {
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

    fn next_epoch(&mut self) -> u128 {
        self.next_request += 1;
        u128::from(self.next_request) + 1_000
    }

    fn join(&mut self, id: MasterId) -> Result<String, Fail> {
        let mut out = String::new();
        let (mut records, mut taken_settings) = (Vec::new(), Vec::new());
        let mut identity = None;
        for step in [JoinStep::Begin, JoinStep::Page { after: None }, JoinStep::Done] {
            let request = RequestId(self.next_request);
            self.next_request += 1;
            self.requests.insert(request, format!("master {id}"));
            self.joined = None;
            out += &self.event(id.other(), Event::Join { id: request, token: TOKEN, master: id, step })?;
            match self.joined.take() {
                Some(JoinReply::Begun { cluster, epoch, pair_epoch, former, terms }) => {
                    let (cluster, epoch) = (Some(cluster), Some(epoch));
                    identity = Some(Identity {
                        master: id,
                        cluster,
                        epoch,
                        pair_epoch,
                        former,
                        paired: true,
                        terms,
                        awaiting: None,
                    });
                }
                Some(JoinReply::Page { records: page, settings, .. }) => (records, taken_settings) = (page, settings),
                Some(JoinReply::Done) => {
                    let mut store = MemoryStore::format(identity.clone().ok_or("never begun")?)?;
                    let taken = std::mem::take(&mut records).into_iter();
                    let writes = taken.map(|(key, lease)| Write::Lease(key, taken_over(id, key, lease)));
                    let writes = writes.chain(std::mem::take(&mut taken_settings).into_iter().map(Write::Setting));
                    store.commit(&writes.collect::<Vec<_>>(), 0)?;
                    self.masters.retain(|master| master.id != id);
                    self.masters.push(Master { id, store, ledger: None, skew: SpanMs(0), backup: None });
                    self.masters.sort_by_key(|master| master.id);
                }
                None => break,
            }
        }
        Ok(out)
    }

    fn change(&mut self, at: MasterId, change: Change) -> Result<String, Fail> {
        self.ask("the operator", at, |id| Event::Change { id, change, actor: operator() })
    }

    fn settings(&self) -> Result<String, Fail> {
        let mut out = String::new();
        for master in &self.masters {
            let Some(ledger) = &master.ledger else {
                writeln!(out, "{} is down", master.id)?;
                continue;
            };
            writeln!(out, "{} allows {:?}", master.id, ledger.book().whitelist())?;
            for setting in ledger.book().all() {
                writeln!(out, "  {}", show_setting(setting))?;
            }
            for prep in ledger.book().preps() {
                writeln!(out, "  proposed: {}", show_setting(prep))?;
            }
        }
        Ok(out)
    }

    fn table(&mut self) -> Result<String, Fail> {
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

fn operator() -> Actor {
    Actor::new("olga", "10.0.0.9")
}

fn session(agent: &str) -> SessionId {
    SessionId(agent.bytes().fold(0, |sum, b| sum * 256 + u128::from(b)))
}

/// A master in a script: 1 or 2; 1 where none is named.
#[derive(Clone, Copy)]
struct At(MasterId);

impl Default for At {
    fn default() -> Self {
        Self(MasterId::One)
    }
}

impl FromStr for At {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().ok().and_then(MasterId::from_number).map(Self).ok_or_else(|| "a master is 1 or 2".to_owned())
    }
}

/// A length of time in a script: a whole number and d, h, m or s.
#[derive(Clone, Copy)]
struct Length(SpanMs);

impl FromStr for Length {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is no length of time: write 7d, 20h, 5m or 10s");
        let (number, unit) = text.split_at(text.len().saturating_sub(1));
        let number: i64 = number.parse().map_err(|_| bad())?;
        let unit = match unit {
            "d" => DAY_MS,
            "h" => HOUR_MS,
            "m" => 60 * SECOND_MS,
            "s" => SECOND_MS,
            _ => return Err(bad()),
        };
        Ok(Self(SpanMs(number * unit)))
    }
}

#[derive(goldenscript::Command)]
enum Command {
    /// Two fresh masters that have met, at 00:00 of day 0.
    Pair {
        #[arg(key)]
        lease: Option<u8>,
        #[arg(key)]
        uint2_max: Option<u16>,
    },
    /// A fresh store, not started.
    Format {
        id: At,
        #[arg(key)]
        cluster: Option<u128>,
        #[arg(key)]
        lease: Option<u8>,
    },
    /// Starts a master from what its store holds.
    Start(At),
    /// Ends a master; its requests die with it, and so does mail on its connections.
    Kill(At),
    /// Sets how far a master's calendar is off.
    Clock(At, Length),
    /// An agent (its session has the same name) asks for a token.
    Request {
        agent: String,
        #[arg(key, optional)]
        at: At,
        #[arg(key = "type")]
        token_type: Option<TokenType>,
        #[arg(key)]
        name: Option<String>,
    },
    /// An agent renews what it was granted, or tries to renew another's.
    Renew {
        agent: String,
        #[arg(key, optional)]
        at: At,
        #[arg(key)]
        grant_of: Option<String>,
        /// The same renewal once more.
        #[arg(key, optional)]
        again: bool,
        #[arg(key)]
        attempt: Option<u64>,
    },
    /// An agent gives back what it was granted, or tries to give back another's.
    Release {
        agent: String,
        #[arg(key, optional)]
        at: At,
        #[arg(key)]
        grant_of: Option<String>,
    },
    /// What an agent has, asked of master 1.
    List(String),
    /// Declares the other master lost, on a killed survivor.
    PeerLost(At),
    /// Makes a replacement from the running other master, with the token of its `peer_lost`.
    Join(At),
    /// Copies a master's store away.
    Backup(At),
    /// Kills a master and puts its copied store back.
    Restore(At),
    /// Delivers all mail, and what it causes, until nothing is left.
    Deliver {
        #[arg(key)]
        to: Option<At>,
    },
    /// Loses all mail.
    Lose,
    /// Takes all mail off the network.
    Hold,
    /// Puts what was held back on the network.
    ReleaseMail,
    /// Puts a copy of what was held back on the network.
    CopyMail,
    /// An operator registers a namespace of kind string, or of kind uniq64 if no template is given.
    Define {
        name: String,
        #[arg(key)]
        template: Option<String>,
        #[arg(key, optional)]
        at: At,
    },
    /// An operator lets a network ask for leases.
    Allow {
        network: String,
        #[arg(key, optional)]
        at: At,
    },
    /// An operator does so no more.
    Disallow {
        network: String,
        #[arg(key, optional)]
        at: At,
    },
    /// An operator ends the lease that an agent was granted.
    Deny {
        agent: String,
        #[arg(key, optional)]
        at: At,
    },
    /// An operator renews the lease that an agent was granted.
    Extend {
        agent: String,
        #[arg(key, optional)]
        at: At,
    },
    /// The settings both know.
    Settings,
    /// Shows the lines of the audit too.
    Audited,
    /// Time goes on, with the network or without it.
    Pass {
        span: Length,
        #[arg(key, optional)]
        cut: bool,
    },
    /// What both know.
    Table,
    /// Shows greetings, heartbeats and the exchange of tables too, and what `pair` does.
    Verbose,
}

impl goldenscript::Runner for Script {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &goldenscript::Context) -> Result<String, Fail> {
        match command {
            Command::Pair { lease, uint2_max } => {
                let terms = Terms::new(lease.unwrap_or(7), UtcOffset::default(), uint2_max.unwrap_or(4095))?;
                self.now = DAWN;
                let mut out = String::new();
                for id in [MasterId::One, MasterId::Two] {
                    self.format(id, 7, terms)?;
                    out += &self.start(id)?;
                }
                out += &self.deliver(None)?;
                out += &self.pass(SpanMs::seconds(2), true)?;
                return Ok(if self.verbose { out } else { String::new() });
            }
            Command::Format { id, cluster, lease } => {
                if self.now == Now::default() {
                    self.now = DAWN;
                }
                let terms = Terms::new(lease.unwrap_or(7), UtcOffset::default(), 4095)?;
                self.format(id.0, cluster.unwrap_or(7), terms)?;
            }
            Command::Start(id) => return self.start(id.0),
            Command::Kill(id) => {
                self.master(id.0)?.ledger = None;
                self.requests.clear();
                self.mail.clear();
            }
            Command::Clock(id, skew) => self.master(id.0)?.skew = skew.0,
            Command::Request { agent, at, token_type, name } => {
                let agent_id: AgentId = name.as_ref().unwrap_or(agent).parse()?;
                let token_type = token_type.unwrap_or(TokenType::Uint2);
                let request = TokenRequest { agent_id, session: session(agent), cluster: None, token_type };
                return self.ask(agent, at.0, |id| Event::Token { id, request, address: "10.0.0.1:5".to_owned() });
            }
            Command::Renew { agent, at, grant_of, again, attempt } => {
                let Grant { key, g, .. } = self.grant_of(grant_of.as_ref().unwrap_or(agent))?;
                let rseq = self.rseq.entry(agent.clone()).or_default();
                *rseq += u64::from(!again);
                let (rseq, attempt) = (*rseq, attempt.unwrap_or(*rseq));
                let (agent_id, session) = (agent.parse()?, session(agent));
                let request = RentRequest { agent_id, session, cluster: None, key, g, rseq, attempt };
                return self.ask(agent, at.0, |id| Event::Rent { id, request });
            }
            Command::Release { agent, at, grant_of } => {
                let Grant { key, g, .. } = self.grant_of(grant_of.as_ref().unwrap_or(agent))?;
                let request = TerminateRequest { agent_id: agent.parse()?, session: session(agent), key, g };
                return self.ask(agent, at.0, |id| Event::Terminate { id, request });
            }
            Command::List(agent) => {
                let request = ListRequest { agent_id: agent.parse()?, after: None };
                return self.ask(agent, MasterId::One, |id| Event::List { id, request });
            }
            Command::PeerLost(id) => return self.peer_lost(id.0),
            Command::Join(id) => return self.join(id.0),
            Command::Restore(id) => {
                let master = self.master(id.0)?;
                master.ledger = None;
                master.store = master.backup.take().ok_or("no backup")?;
                self.mail.clear();
            }
            Command::Backup(id) => {
                let master = self.master(id.0)?;
                master.backup = Some(master.store.snapshot());
            }
            Command::Deliver { to } => return self.deliver(to.map(|to| to.0)),
            Command::Lose => {
                let lost = self.mail.len();
                self.mail.clear();
                return Ok(format!("{lost} lost\n"));
            }
            Command::Hold => {
                self.held_back.append(&mut self.mail);
                return Ok(format!("{} held back\n", self.held_back.len()));
            }
            Command::ReleaseMail => self.mail.append(&mut self.held_back),
            Command::Define { name, template, at } => {
                let kind = if template.is_some() { GeneratorKind::String } else { GeneratorKind::Uniq64 };
                let (token_type, everyday_reset, step) = (None, None, None);
                let definition = Definition { kind, token_type, template: template.clone(), everyday_reset, step };
                let namespace = Namespace::define(name.parse()?, &definition)?;
                return self.change(at.0, Change::Define(Box::new(namespace)));
            }
            Command::Allow { network, at } => return self.change(at.0, Change::Allow(network.parse()?)),
            Command::Disallow { network, at } => return self.change(at.0, Change::Disallow(network.parse()?)),
            Command::Deny { agent, at } => {
                let (key, actor) = (self.grant_of(agent)?.key, operator());
                return self.ask("the operator", at.0, |id| Event::Deny { id, key, actor });
            }
            Command::Extend { agent, at } => {
                let (key, actor) = (self.grant_of(agent)?.key, operator());
                return self.ask("the operator", at.0, |id| Event::Extend { id, key, actor });
            }
            Command::Settings => return self.settings(),
            Command::Audited => self.audited = true,
            Command::CopyMail => self.mail.extend(self.held_back.iter().cloned()),
            Command::Pass { span, cut } => return self.pass(span.0, !cut),
            Command::Table => return self.table(),
            Command::Verbose => self.verbose = true,
        }
        Ok(String::new())
    }
}

macro_rules! scripts {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts/", stringify!($name));
            goldenscript::run(&mut Script::default(), path).expect(path);
        })*

        /// A script that no test names would never run.
        #[test]
        fn every_script_is_run() {
            let named = [$(stringify!($name)),*];
            let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts");
            for entry in std::fs::read_dir(dir).expect(dir) {
                let file = entry.expect(dir).file_name().into_string().expect("a name");
                assert!(named.contains(&file.as_str()), "{file} is named by no test");
            }
        }
    };
}

scripts! {
    a_change_of_settings_needs_both
    a_name_never_stands_for_two_things
    a_proposal_of_a_setting_survives_a_replacement
    an_operators_orders_are_audited_on_both
    an_order_is_answered_when_both_have_written_it_down
    a_clone_is_denied
    a_grant_needs_both
    a_late_confirmation_proves_nothing
    a_master_left_behind_in_an_earlier_pairing_serves_nothing
    a_lone_master_renews_and_grants_nothing
    a_proposal_survives_a_restart
    a_released_lease_rests_like_any_other
    a_renewal_elsewhere_is_never_cut_short
    a_replaced_master_that_lives_extends_nothing_past_its_permit
    a_rolled_back_master_serves_nothing
    a_session_that_asks_again_gets_the_same
    a_value_is_granted_again_only_after_its_rest
    an_agent_has_a_budget
    an_empty_pool_borrows_from_the_other
    both_asked_at_once_grant_different_values
    an_old_clock_is_noticed
    clocks_far_apart_grant_nothing
    doubled_and_stale_mail_changes_nothing
    only_the_holder_may_renew
    sync_merges_and_never_overwrites
    the_first_meeting_makes_the_cluster
    the_other_master_may_answer_a_retry
    what_is_not_the_peer_is_refused
}
