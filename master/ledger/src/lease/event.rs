//! The ledger's events and effects.

use crate::replication::lives::{Lives, Unproven};
use crate::section::{ChangedRecords, ChangedRows, Owned};
use ids::account::{Login, SecretHash};
use ids::audit::{Actor, Cause, Entry, Note};
use ids::lease::{Caution, Grant, Lease, Prep};
use ids::namespace::{GeneratorName, Namespace};
use ids::parameters::{AgentId, ClusterId, ClusterParameters, EpochId, MasterId, SessionId};
use ids::segment::{MasterRun, Span};
use ids::sequence::{SectionKey, SectionOrder, SectionRange, SectionRecord};
use ids::setting::{Change, Setting, SettingKey};
use ids::time::WallMs;
use ids::token::{TokenKey, TokenType};
use serde::{Deserialize, Serialize};
use wire::lease::{
    Changed, ListRequest, ListedLease, Refusal, Registered, Rent, RentRequest, TerminateRequest, TokenRequest,
};
use wire::peer::{JoinReply, JoinStep, PeerFrame, PeerMessage};
use wire::ranges::{
    KeepReply, KeepRequest, RaiseRequest, RaisedAll, RoutesReply, RoutesRequest, SegmentGrant, SegmentRequest,
};

/// Identifies a waiting request; drawn by the driver, never repeated within one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// This master's identity. Written when the store is formatted and when the two masters first meet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    pub master: MasterId,
    /// The cluster; master 1 draws it, master 2 takes it over at the first meeting.
    pub cluster: Option<ClusterId>,
    /// The pairing; drawn and taken over like the cluster.
    pub epoch: Option<EpochId>,
    /// Counts the pairings that this cluster has had; 1 is the first.
    pub pair_epoch: u64,
    /// The pairings before this one, the last one at the end; at most [`FORMER_MAX`]. Whoever still believes in one of
    /// them, from a backup or because it was replaced while it lived, is told that it is over.
    pub former: Vec<EpochId>,
    /// True once the two have met. From then on a freshly formatted peer is refused.
    pub paired: bool,
    pub parameters: ClusterParameters,
    /// The other master was declared lost and its replacement has not joined yet: the SHA-256 of the token it must show.
    pub awaiting: Option<TokenHash>,
}

/// Earlier pairings that are remembered: far more than disks are lost before a backup is worthless.
pub const FORMER_MAX: usize = 64;

/// The SHA-256 of a join token; the token itself is never kept.
pub type TokenHash = [u8; 32];

/// This master's notes about the other one and about itself, beside the leases. None of it is counted as a change of the
/// ledger: two masters that noted each other's notes would never come to rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PeerObservations {
    /// The instant until which the other allows this one to extend leases alone; `None` before its first permit, and
    /// once a new peer's snapshot was cut.
    pub permit_in: Option<WallMs>,
    /// The other's last change that was heard of.
    pub peer_lsn: u64,
    /// The other one knew more of this ledger than it holds, or of a later pairing: it serves nothing, across restarts
    /// too.
    pub rolled_back: bool,
    /// The latest time that this master's own calendar ever showed.
    pub clock_high: WallMs,
}

/// An event that the ledger steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// An agent wants a token. `address` is for the operator's eyes.
    Token {
        id: RequestId,
        request: TokenRequest,
        address: String,
    },
    Rent {
        id: RequestId,
        request: RentRequest,
    },
    /// An agent gives a lease back.
    Terminate {
        id: RequestId,
        request: TerminateRequest,
    },
    /// An agent asks for the leases it has.
    List {
        id: RequestId,
        request: ListRequest,
    },
    /// The replacement of a lost master, which is going to be `master`, wants the ledger.
    Join {
        id: RequestId,
        token: TokenHash,
        master: MasterId,
        step: JoinStep,
    },
    /// Somebody wants a setting changed.
    Change {
        id: RequestId,
        change: Change,
        actor: Actor,
    },
    /// An agent registers a name. To [`Reply::Change`].
    Define {
        id: RequestId,
        namespace: Box<Namespace>,
        actor: Actor,
    },
    /// An agent shows a name as masters told it, which this ledger does not know so. To [`Reply::Change`].
    Restore {
        id: RequestId,
        shown: Box<Registered>,
        actor: Actor,
    },
    /// An operator ends a lease: no renewal any more.
    Deny {
        id: RequestId,
        key: TokenKey,
        actor: Actor,
    },
    /// An operator renews a lease by hand.
    Extend {
        id: RequestId,
        key: TokenKey,
        actor: Actor,
    },
    /// Somebody logged in or out at this master's console, or used the login: the logins as they are now (`None` is
    /// over), and a line for this master's audit; or such a line alone.
    KeepLogins {
        id: RequestId,
        logins: Vec<(SecretHash, Option<Login>)>,
        note: Option<Note>,
    },
    /// An agent wants a segment.
    Segment {
        id: RequestId,
        request: SegmentRequest,
        address: String,
    },
    /// An allocator keeps its sections.
    Keep {
        id: RequestId,
        request: KeepRequest,
    },
    /// An allocator raises bounds of its sections.
    Raise {
        id: RequestId,
        request: RaiseRequest,
    },
    /// Somebody asks who serves which sections.
    Routes {
        id: RequestId,
        request: RoutesRequest,
        address: String,
    },
    /// An operator moves or raises a section. Answered by [`Reply::Ordered`].
    Section {
        id: RequestId,
        key: SectionKey,
        order: SectionOrder,
        actor: Actor,
    },
    /// An operator takes all sections away from an agent, a few at a time, if `on`, or lets it have sections again.
    /// Answered by [`Reply::Ordered`].
    Drain {
        id: RequestId,
        agent_id: AgentId,
        on: bool,
        actor: Actor,
    },
    /// A message from the other master.
    Message(Box<PeerFrame>),
    /// A greeting from the other master, or one that was; the answers go back to whoever sent it.
    Greeting {
        id: RequestId,
        frame: Box<PeerFrame>,
    },
    /// An agent brought the proof that this master's pairing is over.
    Retired,
    /// An agent's calendar, of interest while this master's is ahead of what it goes by.
    AgentCalendar {
        agent_id: AgentId,
        session: SessionId,
        wall: WallMs,
    },
    /// Somebody wrote to the peer port who is not believed, for this reason. Nothing of it is kept but this, for the operator.
    Stranger(String),
    /// A new connection to the other master was made.
    Connected,
    /// Nothing happened, but a deadline may have passed.
    Tick,
}

/// A durable change. All writes of a batch reach the disk together or not at all, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// A value's newest grant.
    Lease(TokenKey, Lease),
    Prep(Prep),
    /// A proposal that became a lease or was overtaken.
    DropPrep(TokenKey),
    Identity(Identity),
    /// The instant until which the other master may extend leases alone; `None` in a new pairing. Durable before it is sent.
    PermitOut(Option<WallMs>),
    PeerObservations(PeerObservations),
    Lives(Lives),
    Caution(Caution),
    /// A setting that both masters hold, or will.
    Setting(Setting),
    /// A setting of a name of which nothing but a digest is kept.
    DropSetting(SettingKey),
    /// A proposal of a setting.
    SettingPrep(Setting),
    /// A proposal of a setting that became one or was overtaken.
    DropSettingPrep(SettingKey),
    /// The run of this master that goes on from here; `None`: the next start begins a new one, whatever its store proves.
    Run(Option<MasterRun>),
    /// The places that a run has left of its extents of an axis, in the order in which they are granted; nothing is kept if there are none.
    Cursor {
        run: MasterRun,
        name: GeneratorName,
        spans: Vec<Span>,
    },
    /// Somebody who is logged in at this master's console, or no longer is.
    Login(SecretHash, Option<Login>),
    /// A line of the audit; the store chains them.
    Audit(Entry),
    /// Rows of sections that were given to somebody, each with what the other master holds of its `max_seq`; `gone`: the
    /// begins of rows that are no more.
    Sections {
        gone: Vec<SectionKey>,
        rows: Vec<(SectionRecord, u64)>,
    },
    /// Rows of proposals to give sections to somebody; `gone`: the begins of rows that are no more.
    SectionPreps {
        gone: Vec<SectionKey>,
        rows: Vec<SectionRecord>,
    },
    /// True once the sections were cut for the replacement that is awaited: from then on they are raised by the allowance only.
    SectionsCut(bool),
}

impl Write {
    /// A row of sections, with what the other master holds of them.
    pub fn sections(record: SectionRecord, held: u64) -> Self {
        Self::Sections { gone: Vec::new(), rows: vec![(record, held)] }
    }

    /// Tells whether it counts as a change of the ledger.
    pub fn counted(&self) -> bool {
        !matches!(
            self,
            Self::PeerObservations(_)
                | Self::Lives(_)
                | Self::Caution(_)
                | Self::Audit(_)
                | Self::Login(..)
                | Self::Run(_)
                | Self::SectionsCut(_)
        )
    }
}

/// An answer to a waiting request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Token(Result<Grant, Refusal>),
    Rent(Result<Rent, Refusal>),
    Terminate(Result<(), Refusal>),
    List(Result<Vec<ListedLease>, Refusal>),
    Join(Result<JoinReply, Refusal>),
    Change(Result<Changed, Refusal>),
    /// The lease as it is now, to [`Event::Deny`] and [`Event::Extend`].
    Commanded(Result<Lease, Refusal>),
    Greeted(Vec<PeerMessage>),
    Segment(Result<SegmentGrant, Refusal>),
    Keep(Result<KeepReply, Refusal>),
    /// Outcomes in the order of the question.
    Raise(Result<RaisedAll, Refusal>),
    Routes(Result<RoutesReply, Refusal>),
    /// The answer to [`Event::KeepLogins`] once it is durable.
    Kept,
    /// The answer to [`Event::Section`] and [`Event::Drain`] once that is begun.
    Ordered(Result<(), Refusal>),
}

/// A fault that an operator must know. Each is raised when it begins, not each time it is found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Alarm {
    #[error(
        "this master's store is not proven to be the one it last wrote ({0}), and the other master has not been met since it \
         started: it promises nothing before. Start the other one; or, if you know that this store was not copied, put \
         back or reverted and that no copy of it runs, start this one with --vouch-untouched"
    )]
    Unproven(Unproven),
    /// The other one is heard, but the tables are not exchanged.
    #[error(
        "the other master is heard, but does not answer: this one goes on alone, with renewals only. Does --peer here lead \
         to it, and does the network let this one through to it?"
    )]
    NotHeard,
    #[error("the other master is silent: no new leases until it is back")]
    PeerSilent,
    #[error("the other master is heard again")]
    PeerHeard,
    #[error("the other master is refused: {0}")]
    PeerRefused(String),
    #[error("the clocks of the two masters differ by {0} ms: check both machines' time service")]
    ClockSkew(i64),
    #[error(
        "this master's ledger ends at change {mine}, but the other master has seen change {seen} of it: its disk was \
         rolled back, restored or lost. It serves nothing any more. Stop it, run `uniq_master --peer-lost` on the other \
         one, and let a new one --join"
    )]
    RolledBack { mine: u64, seen: u64 },
    #[error(
        "another store goes on from the same past as this master's: one of them is a copy, or was put back from a backup. \
         This one serves nothing any more, and the other master believes neither. Stop every copy, run \
         `uniq_master --peer-lost` on the other master, and let a new one --join"
    )]
    Copied,
    #[error(
        "two stores of the other master are heard that go on from the same past: one of them is a copy, or was put back from \
         a backup. Neither is believed any more, and both are told to stop. This one goes on alone; run \
         `uniq_master --peer-lost` on it, and let a new one --join"
    )]
    PeerCopied,
    #[error("this machine's clock is {0} ms behind what it once showed: no new leases until it is right")]
    ClockBehind(i64),
    /// Another pairing took this one's place.
    #[error(
        "this master belongs to a pairing that is over: it was replaced, or its disk is a backup from before a replacement. \
         It serves nothing any more. If it is the one that shall go on, run `uniq_master --peer-lost` on the other one \
         and let a new one --join in its place"
    )]
    Replaced,
    /// A replacement has joined this survivor, which does not know of it.
    #[error(
        "this master waits for a replacement to join, but one has joined already: this store was put back to before that, or is a \
         copy from then. It serves nothing any more. Stop it, run `uniq_master --peer-lost` on the other one, and let a new one \
         --join in its place"
    )]
    TokenUsed,
    /// The two were started with different whitelists, and have none of their own yet.
    #[error(
        "the two masters were started with different --allow: {here} here, {there} at the other one; each lets agents in by \
         its own, and the first change of the whitelist begins with both together. Give both the same"
    )]
    WhitelistsDiffer { here: String, there: String },
    #[error(
        "only {free} of {size} {token_type} tokens are free, and the last ones are kept for agents and networks that are \
         known: see in the console who holds them, and terminate the leases that are not needed"
    )]
    PoolLow { token_type: TokenType, free: u32, size: u32 },
    /// Two live copies of one agent.
    #[error(
        "token {0}: two live copies of one agent's session ask for renewals. The lease is denied; find out which machine \
         or serial file was cloned"
    )]
    Clone(TokenKey),
    /// Two holders of one grant: the ledger of one of the masters is not what it was.
    #[error(
        "token {0} has two different holders in the two masters' ledgers; no lease is granted any more. \
         Stop both masters and compare them before anything else"
    )]
    Conflict(TokenKey),
    /// Both ledgers are older than what an agent holds.
    #[error(
        "token {0}: an agent shows a promise of these masters that neither ledger holds: both disks were put back to an \
         earlier state. Nothing is granted any more; agents go on with what they hold. Stop both masters and run \
         `uniq_master --after-revert` on both (docs/operate/runbook/disks-put-back.md)"
    )]
    Reverted(TokenKey),
    #[error(
        "section {0}: an agent shows that these masters gave it the section after all that either ledger knows: both disks were put back \
         to an earlier state. Nothing is granted any more, and sections are neither listed nor raised. Stop both masters and run \
         `uniq_master --after-revert` on both (docs/operate/runbook/disks-put-back.md)"
    )]
    RevertedSection(SectionKey),
    #[error(
        "the other master has seen proof that both ledgers were put back to an earlier state: nothing is granted any more. \
         Stop both masters and run `uniq_master --after-revert` on both"
    )]
    RevertedThere,
    /// A lease was promised further than this ledger knows.
    #[error("token {0}: its holder shows a promise until {1}, which this ledger did not hold: it holds it now")]
    LongerPromise(TokenKey, WallMs),
    #[error(
        "this machine's calendar jumped {0} ms ahead of its own clock; this master goes on by its own clock. Correct the \
         calendar; if it is right now, both masters follow it when both machines and the agents have shown it for five minutes; \
         to have it followed at once, restart this master"
    )]
    CalendarAhead(i64),
    #[error(
        "this machine's calendar, the other master's and the agents' have agreed for long enough: it is followed from now on"
    )]
    CalendarShared,
    /// A peer's record that no peer could have.
    #[error("the other master sent an impossible record of token {0}; it was dropped")]
    Implausible(TokenKey),
    /// The two masters' settings contradict each other.
    #[error(
        "the setting '{0}' differs in the two masters' ledgers at one version; nothing is granted or changed any more. \
         Stop both masters and compare them before anything else"
    )]
    SettingConflict(SettingKey),
    /// A setting that no peer could have.
    #[error("the other master sent an impossible setting '{0}'; it was dropped")]
    ImplausibleSetting(SettingKey),
    /// The two masters let allocators serve for different times.
    #[error(
        "the two masters were started with different --sequence-lease: {here} ms here, {there} ms at the other one. The longer one applies \
         until both are started with the same"
    )]
    SequenceLeasesDiffer { here: i64, there: i64 },
    #[error(
        "section {0} has two different owners in the two masters' ledgers at once: the order of its numbers is not kept until it is given \
         to another agent. Find out which disk was put back"
    )]
    SectionConflict(SectionRange),
    /// An agent was granted numbers of an axis that both ledgers know nothing of; the sentence that it is refused with.
    #[error("{0}")]
    NumbersForgotten(String),
    /// A section of the other master's that cannot be.
    #[error("the other master sent an impossible record of section {0}; it was dropped")]
    ImplausibleSection(SectionRange),
}

/// The effects of a step, to be carried out in this order: make `writes` durable together, then the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    pub writes: Vec<Write>,
    /// Messages to the other master; any of them may be lost.
    pub messages: Vec<PeerMessage>,
    /// Answers to whoever sent the message at hand.
    pub answers: Vec<PeerMessage>,
    pub replies: Vec<(RequestId, Reply)>,
    pub alarms: Vec<Alarm>,
    /// Sections that have a next owner as of this step, who is not the first one.
    pub moved: Vec<SectionRange>,
    /// The time of the event at hand, for the audit.
    pub at: WallMs,
    /// The operator who caused it, for the audit.
    pub by: Option<Cause>,
}

impl Effects {
    /// Writes rows of sections that changed.
    pub(crate) fn write_sections(&mut self, changed: ChangedRecords) {
        let ChangedRows { gone, rows } = changed;
        let rows: Vec<_> = rows.into_iter().map(|(range, (owned, held))| (owned.record(range), held)).collect();
        if !gone.is_empty() || !rows.is_empty() {
            self.writes.push(Write::Sections { gone, rows });
        }
    }

    /// Writes rows of proposals of sections that changed.
    pub(crate) fn write_section_preps(&mut self, changed: ChangedRows<Owned>) {
        let ChangedRows { gone, rows } = changed;
        let rows: Vec<_> = rows.into_iter().map(|(range, prep)| prep.record(range)).collect();
        if !gone.is_empty() || !rows.is_empty() {
            self.writes.push(Write::SectionPreps { gone, rows });
        }
    }

    pub(crate) fn send(&mut self, message: PeerMessage) {
        self.messages.push(message);
    }

    pub(crate) fn answer(&mut self, message: PeerMessage) {
        self.answers.push(message);
    }

    pub(crate) fn reply(&mut self, id: RequestId, reply: Reply) {
        self.replies.push((id, reply));
    }

    /// Replies with what comes of work that adds to these effects.
    pub(crate) fn reply_with(&mut self, id: RequestId, work: impl FnOnce(&mut Self) -> Reply) {
        let reply = work(self);
        self.reply(id, reply);
    }
}
