//! Commands of a script, and their execution.

use super::script::{DAWN, Fail, LIVED, Script, operator, session};
use common::about::{About, AboutSource};
use common::account::{Role, User};
use common::audit::Actor;
use common::calendar::UtcOffset;
use common::lease::Grant;
use common::namespace::{Definition, Namespace, Scope, SegmentSpec};
use common::parameters::{AgentId, ClusterParameters, MasterId};
use common::segment::Shown;
use common::setting::Change;
use common::time::{DAY_MS, HOUR_MS, Now, SECOND_MS, SpanMs};
use common::token::{TokenType, TokenValue};
use master::lease::receipt::told;
use master::lease::{Event, Limits, Lives, Write};
use master::store::Store as _;
use net::rpc::lease::{ListRequest, NameState, RentRequest, TerminateRequest, TokenRequest};
use net::rpc::ranges::SegmentRequest;
use std::str::FromStr;

/// A master in a script: 1 or 2; 1 where none is named.
#[derive(Clone, Copy)]
pub(super) struct At(MasterId);

impl At {
    pub(super) fn id(self) -> MasterId {
        self.0
    }
}

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
pub(super) struct Length(SpanMs);

impl FromStr for Length {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is not a length of time: write 7d, 20h, 5m or 10s");
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
pub(super) enum Command {
    /// Two fresh masters that have met, at 00:00 of day 0.
    Pair {
        #[arg(key)]
        lease: Option<u8>,
        #[arg(key)]
        uint2_max: Option<u16>,
        /// Of each pool for one network, in percent.
        #[arg(key)]
        share: Option<u8>,
        /// Grants of a type to one network within an hour.
        #[arg(key)]
        per_hour: Option<u32>,
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
    /// Ends a master; its requests die with it, and so do the messages on its connections.
    Kill(At),
    /// Sets how far a master's calendar is off.
    Clock(At, Length),
    /// Sets how far an agent's is, which it tells both masters at each beat.
    AgentClock(String, Length),
    /// An agent (its session has the same name) asks for a token.
    Request {
        agent: String,
        #[arg(key, optional)]
        at: At,
        #[arg(key = "type")]
        token_type: Option<TokenType>,
        #[arg(key)]
        name: Option<String>,
        /// Sessions that it gives up, with commas between.
        #[arg(key)]
        former: Option<String>,
        /// Its address.
        #[arg(key)]
        from: Option<String>,
    },
    /// So many sessions, each of an agent of its own, ask for a token, one after the other, and all messages are delivered.
    Flood {
        count: u32,
        #[arg(key = "type")]
        token_type: Option<TokenType>,
        #[arg(key)]
        from: String,
        #[arg(key, optional)]
        at: At,
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
        #[arg(key)]
        name: Option<String>,
    },
    /// An agent gives back what it was granted, or tries to give back another's.
    Release {
        agent: String,
        #[arg(key, optional)]
        at: At,
        #[arg(key)]
        grant_of: Option<String>,
        #[arg(key)]
        name: Option<String>,
    },
    /// Lists what an agent's session has, asked of master 1.
    List {
        agent: String,
        #[arg(key)]
        name: Option<String>,
    },
    /// Declares the other master lost, on a killed survivor.
    PeerLost(At),
    /// Makes a replacement from the running other master, with the token of its `peer_lost`.
    Join(At),
    /// Says on a killed master that both disks were put back, and with which value it may go on at once, if with any.
    AfterRevert {
        id: At,
        /// The highest value that may have been granted.
        #[arg(key)]
        above: Option<u32>,
        /// Numbers that each section skips at least.
        #[arg(key)]
        skip: Option<u64>,
    },
    /// Copies a master's store away.
    Backup(At),
    /// Kills a master and puts its copied store back.
    Restore(At),
    /// A copy of a running master's store, from its backup, greets the other master: for the first time, or again.
    Twin(At),
    /// The next start of a killed master cannot prove that its store is the one it last wrote.
    Unproven(At),
    /// Delivers all messages, and those they cause, until none is left.
    Deliver {
        #[arg(key)]
        to: Option<At>,
    },
    /// Lets a second pass; what the masters say then is on the network, and not delivered yet.
    Beat,
    /// Loses all messages.
    Lose,
    /// Takes all messages off the network.
    Hold,
    /// Puts what was held back on the network.
    ReleaseMessages,
    /// Puts a copy of what was held back on the network.
    CopyMessages,
    /// An operator registers a namespace of kind string, or of kind uniq64 if no template is given.
    Define {
        name: String,
        #[arg(key)]
        template: Option<String>,
        /// True if it says that its scope is its own.
        #[arg(key, optional)]
        own: bool,
        #[arg(key, optional)]
        at: At,
    },
    /// A namespace of kind segment is registered and in use.
    DefineSegment {
        name: String,
        #[arg(key)]
        first: Option<u64>,
        #[arg(key)]
        last: Option<u64>,
        #[arg(key, optional)]
        at: At,
    },
    /// An agent wants so many numbers of a name.
    Segment {
        agent: String,
        name: String,
        wanted: u32,
        /// After the last one that it was ever granted.
        #[arg(key)]
        seen: Option<u64>,
        /// From which address.
        #[arg(key)]
        from: Option<String>,
        #[arg(key, optional)]
        at: At,
    },
    /// An operator says that it is not true that an agent was granted numbers up to there.
    Dismiss {
        name: String,
        last: u64,
        #[arg(key, optional)]
        at: At,
    },
    /// An operator raises an axis.
    RaiseAxis {
        name: String,
        to: u64,
        #[arg(key, optional)]
        at: At,
    },
    /// Shows how far axes are granted, and what each master may still grant of them.
    Axes,
    /// An agent is to give IDs by a namespace.
    Use {
        agent: String,
        name: String,
        #[arg(key)]
        template: Option<String>,
        #[arg(key, optional)]
        at: At,
    },
    /// An agent shows that a namespace of kind string was in use, or retired; without a proof it only says so.
    Serves {
        agent: String,
        name: String,
        #[arg(key)]
        template: String,
        #[arg(key, optional)]
        retired: bool,
        #[arg(key, optional)]
        unproved: bool,
        #[arg(key, optional)]
        at: At,
    },
    /// An operator retires a namespace.
    Retire {
        name: String,
        #[arg(key, optional)]
        at: At,
    },
    /// An operator notes a description of a name; none takes it back.
    Describe {
        name: String,
        #[arg(optional)]
        text: Option<String>,
        #[arg(key, optional)]
        at: At,
    },
    /// Leases all values of a range that are at home with a master, to a session each, and starts both masters anew.
    Taken {
        from: u32,
        to: u32,
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
    /// Sets what a master's flag allows beside loopback, from its next start on.
    AllowByFlag { network: String, at: At },
    /// An admin makes a viewer.
    AddViewer {
        name: String,
        #[arg(key, optional)]
        at: At,
    },
    /// A master proposes the first admin.
    FirstAdmin {
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
    /// An operator registers a sequence.
    DefineSequence {
        name: String,
        #[arg(key)]
        width: Option<u8>,
        #[arg(key)]
        step: Option<u32>,
        /// Keys of a section.
        #[arg(key)]
        keys: Option<u32>,
        #[arg(key)]
        allowance: Option<u64>,
        #[arg(key)]
        set: Option<String>,
        #[arg(key, optional)]
        at: At,
    },
    /// An allocator (its session has the same name) keeps its sections.
    Keep {
        agent: String,
        /// For how many sections of 100,000 keys it has memory.
        #[arg(key)]
        memory: Option<u64>,
        #[arg(key, optional)]
        leaves: bool,
        #[arg(key)]
        set: Option<String>,
        /// It shows the receipt of the last raise of this allocator.
        #[arg(key)]
        shows: Option<String>,
        #[arg(key, optional)]
        at: At,
    },
    /// An allocator raises a section, by a step or to a number.
    Raise {
        agent: String,
        name: String,
        section: u32,
        #[arg(key)]
        g: Option<u64>,
        #[arg(key)]
        to: Option<u64>,
        #[arg(key, optional)]
        at: At,
    },
    /// Somebody asks who serves sections, with commas between; those that nobody serves are given to somebody.
    Routes {
        name: String,
        sections: String,
        /// All from here on, too.
        #[arg(key)]
        all: Option<u32>,
        #[arg(key, optional)]
        at: At,
    },
    /// An operator gives a section to another agent.
    MoveSection {
        name: String,
        section: u32,
        agent: String,
        #[arg(key, optional)]
        at: At,
    },
    /// An operator lets the numbers of a section go on from there.
    RaiseSection {
        name: String,
        section: u32,
        to: u64,
        #[arg(key, optional)]
        at: At,
    },
    /// An operator takes all sections away from an agent, or gives it some again.
    Drain {
        agent: String,
        #[arg(key, optional)]
        off: bool,
        #[arg(key, optional)]
        at: At,
    },
    /// Shows what both know of sections.
    Sections,
    /// The settings both know.
    Settings,
    /// Shows the lines of the audit too.
    Audited,
    /// Time goes on, with the network or without it.
    Pass {
        span: Length,
        #[arg(key, optional)]
        cut: bool,
        /// Lived through from its beginning.
        #[arg(key, optional)]
        lived: bool,
    },
    /// Shows what both say of themselves.
    Condition,
    /// Shows what both know.
    Table,
    /// Shows greetings, heartbeats and the exchange of tables too, and what `pair` does.
    Verbose,
}

impl goldenscript::Runner for Script {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &goldenscript::Context) -> Result<String, Fail> {
        match command {
            Command::Pair { lease, uint2_max, share, per_hour } => {
                let usual = Limits::DEFAULT;
                let share_percent = share.unwrap_or(usual.share_percent);
                self.limits =
                    Limits { share_percent, grants_per_hour: per_hour.unwrap_or(usual.grants_per_hour), ..usual };
                let parameters =
                    ClusterParameters::new(lease.unwrap_or(7), UtcOffset::default(), uint2_max.unwrap_or(31))?;
                self.now = DAWN;
                let mut out = String::new();
                for id in [MasterId::One, MasterId::Two] {
                    self.format(id, 7, parameters)?;
                    out += &self.start(id)?;
                }
                out += &self.deliver(None)?;
                out += &self.pass(SpanMs::seconds(2), LIVED, true)?;
                return Ok(if self.verbose { out } else { String::new() });
            }
            Command::Format { id, cluster, lease } => {
                if self.now == Now::default() {
                    self.now = DAWN;
                }
                let parameters = ClusterParameters::new(lease.unwrap_or(7), UtcOffset::default(), 31)?;
                self.format(id.0, cluster.unwrap_or(7), parameters)?;
            }
            Command::Start(id) => return self.start(id.0),
            Command::Kill(id) => {
                self.master(id.0)?.ledger = None;
                self.requests.clear();
                self.messages.clear();
            }
            Command::AgentClock(agent, skew) => drop(self.agent_skews.insert(agent.clone(), skew.0)),
            Command::Clock(id, skew) => self.master(id.0)?.skew = skew.0,
            Command::Request { agent, at, token_type, name, former, from } => {
                let agent_id: AgentId = name.as_ref().unwrap_or(agent).parse()?;
                let token_type = token_type.unwrap_or(TokenType::Uint2);
                let former = former.iter().flat_map(|names| names.split(',')).map(session).collect();
                let request = TokenRequest { agent_id, session: session(agent), cluster: None, token_type, former };
                let address = from.clone().unwrap_or_else(|| "10.0.0.1:5".to_owned());
                return self.ask(agent, at.0, |id| Event::Token { id, request, address });
            }
            Command::Renew { agent, at, grant_of, again, attempt, name } => {
                let Grant { key, g, receipt, .. } = self.grant_of(grant_of.as_ref().unwrap_or(agent))?;
                let rseq = self.rseq.entry(agent.clone()).or_default();
                *rseq += u64::from(!again);
                let (rseq, attempt) = (*rseq, attempt.unwrap_or(*rseq));
                let (agent_id, session) = (name.as_ref().unwrap_or(agent).parse()?, session(agent));
                let request = RentRequest { agent_id, session, cluster: None, key, g, rseq, attempt, receipt };
                return self.ask(agent, at.0, |id| Event::Rent { id, request });
            }
            Command::Release { agent, at, grant_of, name } => {
                let Grant { key, g, .. } = self.grant_of(grant_of.as_ref().unwrap_or(agent))?;
                let agent_id = name.as_ref().unwrap_or(agent).parse()?;
                let request = TerminateRequest { agent_id, session: session(agent), key, g };
                return self.ask(agent, at.0, |id| Event::Terminate { id, request });
            }
            Command::List { agent, name } => {
                let agent_id = name.as_ref().unwrap_or(agent).parse()?;
                let request = ListRequest { agent_id, session: session(agent), after: None };
                return self.ask(agent, MasterId::One, |id| Event::List { id, request });
            }
            Command::Flood { count, token_type, from, at } => {
                return self.flood(*count, token_type.unwrap_or(TokenType::Uint2), from, at.0);
            }
            Command::PeerLost(id) => return self.peer_lost(id.0),
            Command::Join(id) => return self.join(id.0),
            Command::AfterRevert { id, above, skip } => {
                return self.after_revert(id.0, above.map(TokenValue), skip.unwrap_or(0));
            }
            Command::Restore(id) => {
                let master = self.master(id.0)?;
                master.ledger = None;
                master.store = master.backup.take().ok_or("no backup")?;
                self.messages.clear();
            }
            Command::Twin(id) => return self.twin(id.0),
            Command::Unproven(id) => {
                let master = self.master(id.0)?;
                let loaded = master.store.load()?;
                let lives = Lives { unproven: true, ..loaded.lives };
                master.store.commit(&[Write::Lives(lives)], loaded.lsn)?;
            }
            Command::Backup(id) => {
                let master = self.master(id.0)?;
                master.backup = Some(master.store.snapshot());
            }
            Command::Deliver { to } => return self.deliver(to.map(|to| to.0)),
            Command::Beat => return self.beat(SpanMs(SECOND_MS)),
            Command::Lose => {
                let lost = self.messages.len();
                self.messages.clear();
                return Ok(format!("{lost} lost\n"));
            }
            Command::Hold => {
                self.held_back.append(&mut self.messages);
                return Ok(format!("{} held back\n", self.held_back.len()));
            }
            Command::ReleaseMessages => self.messages.append(&mut self.held_back),
            Command::Define { name, template, own, at } => {
                let namespace = namespace(name, template.clone(), *own)?;
                return self.change(at.0, Change::Define(Box::new(namespace)));
            }
            Command::DefineSegment { name, first, last, at } => {
                let definition =
                    Definition::Segment(SegmentSpec { first: *first, last: *last, ..SegmentSpec::default() });
                let namespace = Box::new(Namespace::define(name.parse()?, &definition)?);
                return self.change(at.0, Change::Restore { namespace, retired: false, proved: false });
            }
            Command::Segment { agent, name, wanted, seen, from, at } => {
                let request = SegmentRequest {
                    agent_id: agent.parse()?,
                    session: session(agent),
                    cluster: None,
                    name: name.parse()?,
                    wanted: *wanted,
                    seen: seen.map_or_else(Shown::default, |to| self.shown(name, to)),
                };
                let address = from.clone().unwrap_or_else(|| "10.0.0.1".to_owned());
                return self.ask(&format!("{agent} for {name}"), at.0, |id| Event::Segment { id, request, address });
            }
            Command::Dismiss { name, last, at } => {
                return self.change(at.0, Change::Dismiss { name: name.parse()?, below: last.saturating_add(1) });
            }
            Command::RaiseAxis { name, to, at } => {
                return self.change(at.0, Change::Raise { name: name.parse()?, to: *to });
            }
            Command::Axes => return self.axes(),
            Command::Use { agent, name, template, at } => {
                let change = Change::Use(Box::new(namespace(name, template.clone(), false)?));
                let actor = Actor::new(agent, "10.0.0.1");
                return self.ask(agent, at.0, |id| Event::Change { id, change, actor });
            }
            Command::Serves { agent, name, template, retired, unproved, at } => {
                let namespace = namespace(name, Some(template.clone()), false)?;
                let state = if *retired { NameState::Retired } else { NameState::InUse };
                let pairing = self.master(at.0)?.store.load()?.identity.epoch.filter(|_| !unproved);
                let (shown, actor) = (Box::new(told(pairing, namespace, state)), Actor::new(agent, "10.0.0.1"));
                return self.ask(agent, at.0, |id| Event::Restore { id, shown, actor });
            }
            Command::Retire { name, at } => return self.change(at.0, Change::Retire(name.parse()?)),
            Command::Describe { name, text, at } => {
                let source = AboutSource { description: text.clone().unwrap_or_default(), ..AboutSource::default() };
                let (name, about) = (name.parse()?, Box::new(About::new(source)?));
                return self.change(at.0, Change::About { name, about });
            }
            Command::Taken { from, to, at } => return self.taken(*from..=*to, at.0),
            Command::Allow { network, at } => return self.change(at.0, Change::Allow(network.parse()?)),
            Command::Disallow { network, at } => return self.change(at.0, Change::Disallow(network.parse()?)),
            Command::AllowByFlag { network, at } => self.also_allowed.push((at.0, network.parse()?)),
            Command::AddViewer { name, at } => {
                let user = User { name: name.parse()?, role: Role::Viewer, phc: "$argon2id$".to_owned(), totp: None };
                return self.change(at.0, Change::AddUser(user));
            }
            Command::FirstAdmin { at } => {
                let user = User { name: "admin".parse()?, role: Role::Admin, phc: "$argon2id$".to_owned(), totp: None };
                return self.change(at.0, Change::FirstAdmin(user));
            }
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
            Command::CopyMessages => self.messages.extend(self.held_back.iter().cloned()),
            Command::Pass { span, cut, lived } => {
                let lived = if *lived { span.0 } else { LIVED };
                return self.pass(span.0, lived, !cut);
            }
            Command::Condition => return self.condition(),
            Command::Table => return self.table(),
            Command::Verbose => self.verbose = true,
            sections => return self.of_sections(sections),
        }
        Ok(String::new())
    }
}

fn namespace(name: &str, template: Option<String>, own: bool) -> Result<Namespace, Fail> {
    let definition = template.map_or_else(Definition::default, Definition::string);
    let definition = if own { definition.with_scope(Scope::Own) } else { definition };
    Ok(Namespace::define(name.parse()?, &definition)?)
}
