//! Requests of agents to a master, and its answers.

pub use super::names::{
    Changed, DefineReply, DefineRequest, FindRequest, Found, NameProof, NameState, NamespacesRequest, Registered,
    RestoreRequest, RetiredOnly, refusal,
};
use super::ranges::NotMoved;
use ids::api_key::ApiKey;
use ids::certificate::Revocation;
use ids::kind::Kind;
use ids::lease::{Generation, Grant, Receipt};
use ids::namespace::GeneratorName;
use ids::parameters::{AgentId, ClusterId, ClusterParameters, MasterId, SessionId};
use ids::time::{SpanMs, TestClock, WallMs};
use ids::token::{TokenKey, TokenType};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The most leases that one `list_tokens` answers with; the rest by another call from the last key on.
pub const LIST_MAX: usize = 200;
/// The most namespaces that one `list_namespaces` answers with; the rest by another call from the last name on.
pub const NAMESPACES_PAGE_MAX: usize = 200;

/// The most ended leases that one answer to a heartbeat names: more than a session can have of all token types.
pub const DENIED_MAX: usize = 64;

/// The most sessions that a request for a token gives up.
pub const FORMER_MAX: usize = 16;

/// Interval of an agent's reports where it is one of few, and its pause after a report failed, in milliseconds of real time.
pub const REPORT_INTERVAL_MS: u64 = 5_000;
/// Milliseconds that each further agent adds to that: reports of a whole cluster come ten times a second at most, so that
/// operators who like to look do not cost the masters more than all leases.
pub const REPORT_INTERVAL_EACH_MS: u64 = 100;
/// The longest that an agent waits, whatever a master says.
pub const REPORT_INTERVAL_MAX_MS: u64 = 600_000;

/// Interval of the reports of each of so many agents, in milliseconds of real time.
pub fn report_interval_ms(agents: usize) -> u64 {
    let each = REPORT_INTERVAL_EACH_MS.saturating_mul(agents as u64);
    each.clamp(REPORT_INTERVAL_MS, REPORT_INTERVAL_MAX_MS)
}

/// The longest text in a report, in characters; whoever takes it in cuts the rest off.
pub const REPORT_CHARS_MAX: usize = 200;

/// A call for a token.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TokenRequest {
    pub agent_id: AgentId,
    /// The session that will hold the lease.
    pub session: SessionId,
    /// The cluster it belongs to; `None` if it never met one.
    pub cluster: Option<ClusterId>,
    /// The token type that it wants.
    pub token_type: TokenType,
    /// Sessions that the agent's serial file had before and that it gives up, the newest first; at most [`FORMER_MAX`]
    /// are read. To show a session is to prove that it was one's own. The leases of those under the same agent's
    /// name are denied, and do not count among the open ones that an agent may have.
    pub former: Vec<SessionId>,
}

/// A call for a renewal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RentRequest {
    pub agent_id: AgentId,
    /// The session that holds the lease.
    pub session: SessionId,
    /// The cluster it belongs to.
    pub cluster: Option<ClusterId>,
    /// The token.
    pub key: TokenKey,
    /// The number of the grant.
    pub g: Generation,
    /// Grows by one with each renewal; durable at the agent before it is sent.
    pub rseq: u64,
    /// Random for each `rseq`; the same again when the same renewal is tried again.
    pub attempt: u64,
    /// The newest receipt that the agent has for this lease.
    pub receipt: Option<Receipt>,
}

/// A call for the API keys that are for agents, and for what is revoked of certificates.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CredentialsRequest {
    pub agent_id: AgentId,
    /// The cluster it belongs to; `None` if it never met one.
    pub cluster: Option<ClusterId>,
    /// The list that it has.
    pub known: CredentialsVersion,
}

/// The version of the list of API keys and revocations, 0 before anybody made one, and the time of its last change, by which two lists of one version differ
/// after a master's disk was put back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CredentialsVersion {
    /// Grows by one with each change.
    pub version: u64,
    /// Time of the last change.
    pub at: WallMs,
}

/// The API keys that are for agents, and what is revoked of certificates.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AgentCredentials {
    /// The version of the whole list.
    pub version: CredentialsVersion,
    /// The keys of it that are for agents.
    pub keys: Vec<ApiKey>,
    /// The certificates that are not believed any more.
    pub revoked: Vec<Revocation>,
}

/// The answer to a renewal, with the seed's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rent {
    /// Code 0: renewed.
    Success {
        /// The first instant that may no longer be written into an ID; durable at the master.
        until: WallMs,
        /// The master's word for it.
        receipt: Option<Receipt>,
    },
    /// 1: another session holds that token.
    Rented,
    /// 2: nobody does, or it may not be renewed: ended, expired, denied.
    Unrented,
}

/// A call for a list.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ListRequest {
    pub agent_id: AgentId,
    /// The session that holds the leases.
    pub session: SessionId,
    /// Only those after this key.
    pub after: Option<TokenKey>,
}

/// A row of `list_tokens`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ListedLease {
    /// The lease as its holder sees it.
    pub grant: Grant,
    /// True if it can still be renewed.
    pub held: bool,
}

/// A call to give a lease back.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TerminateRequest {
    pub agent_id: AgentId,
    /// The session that holds it; another one is refused.
    pub session: SessionId,
    /// The token.
    pub key: TokenKey,
    /// The number of the grant.
    pub g: Generation,
}

/// An agent's heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HeartbeatRequest {
    /// The version of the protocol that the agent speaks.
    pub protocol: u32,
    pub agent_id: AgentId,
    pub session: SessionId,
    /// The cluster it belongs to; `None` if it never met one.
    pub cluster: Option<ClusterId>,
    /// The test clock it runs by, if any.
    pub test_clock: Option<TestClock>,
    /// Its program's version.
    pub version: String,
    /// Its machine's calendar.
    pub wall: WallMs,
    /// Proofs from any master of pairings that are over; at most [`RETIRED_MAX`], the newest at the end.
    pub retired: Vec<RetiredProof>,
}

/// A master's answer to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HeartbeatReply {
    /// The master that answers.
    pub master: MasterId,
    pub cluster: ClusterId,
    /// The cluster's parameters.
    pub parameters: ClusterParameters,
    /// The master's mode at the moment.
    pub mode: Mode,
    /// The calendar that it goes by.
    pub wall: WallMs,
    /// The lead of its machine's calendar over that, if it jumped and is not followed.
    pub ahead: Option<SpanMs>,
    /// The test clock it runs by, if any.
    pub test_clock: Option<TestClock>,
    /// Its program's version.
    pub version: String,
    /// The session's leases that were denied or given back and whose time is not over yet: they are not to be used any
    /// more. At most [`DENIED_MAX`].
    pub denied: Vec<(TokenKey, Generation)>,
    /// The pairings that are over, the last ones; at most [`RETIRED_MAX`].
    pub retired: Vec<RetiredProof>,
    /// A number that stands for what all names stand for: two masters that hold the same say the same.
    pub names: u64,
}

/// The most proofs of ended pairings that a heartbeat or its answer carries.
pub const RETIRED_MAX: usize = 4;

/// A proof that a pairing is over, which only a master that knows the pairing's id can make or recognise. Masters hand it to
/// agents, and agents to every master they talk to, so that one that was replaced hears of it although it cannot reach the
/// other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RetiredProof(pub [u8; 32]);

/// The state of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AgentReport {
    /// The cluster it belongs to; `None` if it never met one.
    pub cluster: Option<ClusterId>,
    /// Its name.
    pub agent_id: AgentId,
    pub session: SessionId,
    /// Its program's version.
    pub version: String,
    /// The reason why its start began a new session; `None` if it went on with the one it had.
    pub fresh_because: Option<String>,
    /// Time since its start, in milliseconds of real time.
    pub uptime_ms: u64,
    /// Its time minus its machine's, in milliseconds.
    pub clock_offset_ms: i64,
    /// The reason why it cannot mint IDs of every wanted type; `None` if it can.
    pub not_ready: Option<String>,
    /// The alarm that an operator has to know at once, beginning with its code (`generator_conflict`, `wrong_cluster`).
    pub alarm: Option<String>,
    /// Says that it is about to end, as it was told to.
    pub stops: bool,
    /// IDs minted since the start, of all kinds.
    pub minted: u64,
    /// The generator that has the smallest part of its IDs of this hour, day or tick left.
    pub scarcest: Option<Capacity>,
    /// The names that it minted most by since its last report, busiest first; at most [`NAMES_REPORTED_MAX`].
    pub names: Vec<NameUse>,
}

/// Names in one report at most.
pub const NAMES_REPORTED_MAX: usize = 16;

/// An agent's use of one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NameUse {
    pub name: GeneratorName,
    /// The kind of its IDs.
    pub kind: Kind,
    /// IDs a second since the last report.
    pub per_second: u32,
    /// Counts of its plugin `stats`, if it has it.
    pub calls: Option<CallsServed>,
}

/// Results of calls for IDs since an agent's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CallsServed {
    /// Calls that got their IDs.
    pub served: u64,
    /// Calls that did not, for another reason than the caller's own.
    pub failed: u64,
    /// The longest time that 99 of 100 calls that got IDs took, in microseconds, without the network.
    pub p99_us: u32,
}

/// The IDs that a generator has left.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Capacity {
    pub name: GeneratorName,
    /// The kind of its IDs.
    pub kind: Kind,
    /// IDs left in this hour (`uniq64`) or day (`string`).
    pub left: u64,
    /// IDs that one token has in it.
    pub of: u64,
}

/// The mode of a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// Just started: exchanges tables with the other, serves nothing.
    Syncing,
    /// The master serves everything.
    Ready,
    /// The other is silent: renewals and reading only.
    ReadyAlone,
    /// The other remembers changes of this ledger that it does not hold any more: serves nothing, ever again.
    RolledBack,
}

impl Mode {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Syncing, Self::Ready, Self::ReadyAlone, Self::RolledBack];

    /// Tells whether a master in this mode serves agents at all.
    ///
    /// # Errors
    /// The reason why it does not.
    pub fn serves(self) -> Result<(), Refusal> {
        match self {
            Self::Syncing => Err(Refusal::Syncing),
            Self::RolledBack => Err(Refusal::RolledBack),
            Self::Ready | Self::ReadyAlone => Ok(()),
        }
    }

    /// Tells whether the mode never ends.
    pub fn is_final(self) -> bool {
        self == Self::RolledBack
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syncing => "syncing",
            Self::Ready => "ready",
            Self::ReadyAlone => "ready-alone",
            Self::RolledBack => "rolled-back",
        })
    }
}

/// The reason why a master did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// This master has not synchronised with the other one yet.
    #[error("this master is still synchronising with the other one")]
    Syncing,
    /// A change of ownership needs both masters.
    #[error("the other master is silent, and this change needs both")]
    PeerAway,
    /// The two masters have not agreed in time; ask again.
    #[error("the masters have not agreed yet; ask again")]
    Retry,
    /// The agent has as many open leases of this type as it may have.
    #[error(
        "agent '{agent_id}' has {open} open or resting leases of this type, the most allowed: they end by themselves; \
         if several agents share this name, give each its own --agent-id"
    )]
    Budget {
        agent_id: AgentId,
        /// The number it has, those that were denied and still rest included.
        open: u32,
    },
    /// No value of this type is free.
    #[error("no {token_type} token is free; ask again when a lease has ended and its token has rested")]
    PoolExhausted {
        /// The token type that was asked for.
        token_type: TokenType,
    },
    /// The caller belongs to another cluster.
    #[error(
        "this master belongs to cluster {here}, the caller to another: check --masters, or format a new serial file"
    )]
    ForeignCluster {
        /// This master's cluster.
        here: ClusterId,
    },
    /// The caller speaks another protocol.
    #[error("this master speaks protocol {here}; install the same version of both programs")]
    Protocol {
        /// This master's protocol.
        here: u32,
    },
    /// The caller runs by another test clock.
    #[error("this master runs by another --test-clock")]
    TestClock,
    /// Not the holder.
    #[error("this lease belongs to another agent or session")]
    NotHolder,
    /// Too much to do.
    #[error("this master has too many requests waiting; ask again")]
    Overloaded,
    /// The process ends.
    #[error("this master is shutting down")]
    ShuttingDown,
    /// This master's ledger is older than it once was.
    #[error("this master's ledger is older than it once was; it serves nothing until it is replaced")]
    RolledBack,
    /// A receipt proves that both ledgers are older than they once were.
    #[error(
        "both masters' ledgers are older than what agents hold: their disks were put back. Nothing is granted until an \
         operator has run `uniq_master --after-revert` on both; go on with what you hold"
    )]
    Reverted,
    /// The promises that a lost ledger may have made are not over yet.
    #[error("this cluster's ledger replaces one that was lost: nothing is granted before {until}")]
    NotBefore {
        /// The day from which on leases are granted.
        until: WallMs,
    },
    /// Agents come first that could show what both masters have forgotten.
    #[error(
        "both masters started on stores that may have been put back: new leases, names and numbers in a moment, ask again"
    )]
    Quiet,
    /// The clocks of the two masters are too far apart.
    #[error(
        "the clocks of the two masters are more than {max_s} s apart, or behind what they once were: no new leases"
    )]
    ClockSkew {
        /// The most that is tolerated, in seconds.
        max_s: u32,
    },
    /// A join token that is wrong, used up, or for the other master.
    #[error("this join token is not valid here; run `uniq_master --peer-lost` on the stopped survivor for a new one")]
    JoinToken,
    /// The caller's address is not on the whitelist.
    #[error(
        "not allowed by the masters' whitelist: this address is in none of its networks; an operator can allow one in the console (--allow \
         at first)"
    )]
    NotAllowed,
    /// The caller's certificate is not of the agent in whose name it calls.
    #[error(
        "the caller's certificate is not of agent '{agent_id}': give that agent one with uniq://agent/{agent_id} among its subject's \
         alternative names, or start it with the --agent-id that its certificate says"
    )]
    WrongCertificate {
        /// The agent in whose name it calls.
        agent_id: AgentId,
    },
    /// The name stands for something else.
    #[error("this name is registered with another definition, which never changes: take another name")]
    NameTaken,
    /// There is no room for one more.
    #[error("there are {max} already, the most there may be")]
    TooMany {
        /// The bound.
        max: u32,
    },
    /// There is no such lease, or it is over or denied already.
    #[error("there is no lease of this token that could be renewed or ended")]
    NoLease,
    /// There is nobody of that name.
    #[error("there is no user of that name")]
    NoSuchUser,
    /// Nobody could manage users any more.
    #[error("this is the last admin: make another one first")]
    LastAdmin,
    /// Its disk is full.
    #[error("this master's disk is full: it promises nothing until there is room; ask the other one")]
    DiskFull,
    /// The name was retired.
    #[error("this name was retired: it gives no more IDs and never stands for anything else; take another name")]
    NameRetired,
    /// There is no such name, or it is one that always exists.
    #[error("no such name is registered; those that always exist are neither retired nor described")]
    NoSuchName,
    /// The strings of two names cannot be proved to differ.
    #[error("{}", collides(name, template, example))]
    Collides {
        /// The other name.
        name: GeneratorName,
        template: String,
        /// A string that both can write; empty if none was found.
        example: String,
    },
    /// The caller's network has as many open leases of this type as it may have.
    #[error(
        "agents of {network} have {open} open leases of {token_type} tokens, the most for one network: they end by themselves; \
         if all of them are wanted, raise --network-share at both masters"
    )]
    NetworkShare {
        network: String,
        /// The number it has.
        open: u32,
        /// The token type that was asked for.
        token_type: TokenType,
    },
    /// The caller's network was granted as many tokens of this type within an hour as it may have.
    #[error(
        "agents of {network} were granted {count} {token_type} tokens within an hour, the most for one network: later ones \
         wait their turn; if all of them are wanted, raise --network-grants-per-hour at both masters"
    )]
    NetworkRate {
        network: String,
        /// The number it was granted.
        count: u32,
        /// The token type that was asked for.
        token_type: TokenType,
    },
    /// The last free values are not for newcomers.
    #[error(
        "the last free {token_type} tokens are kept for agents and networks that have held a lease for an hour or longer: terminate \
         in the console the leases that are not needed, wait until leases have ended, or lower --pool-reserve at both masters"
    )]
    Kept {
        /// The token type that was asked for.
        token_type: TokenType,
    },
    /// Somebody with the right token wants to be the master that is there.
    #[error("this survivor is master {0} itself: run it again with --id {other}, the one that is replaced", other = .0.other())]
    JoinId(MasterId),
    /// The caller's network registered as many names lately as it may.
    #[error(
        "{count} names were registered from {network} within {span_s} s, the most for one network: ask again later; an operator at a \
         master's console has no such bound"
    )]
    NamesRate {
        network: String,
        /// The number it registered.
        count: u32,
        /// Within which time, in seconds.
        span_s: u32,
    },
    /// There is no room for what is to be noted about a name.
    #[error(
        "what is noted about all names would be longer than {max} bytes: shorten descriptions and labels, or empty those of retired \
         names"
    )]
    AboutsFull {
        /// The bound, in bytes.
        max: u32,
    },
    /// All numbers of a segment's axis that this master may give were given, and there are no more on the axis.
    #[error("there are no more numbers of '{name}' here: its axis has ended")]
    AxisEnded { name: GeneratorName },
    /// An axis is raised to where something is granted already, or beyond its end.
    #[error(
        "the axis is granted up to place {granted} already, and ends with {last}: an axis is never lowered; raise it to a place from \
         {granted} to {last}"
    )]
    NotRaised {
        /// The place before which all is granted.
        granted: u64,
        /// Its last place.
        last: u64,
    },
    /// This master has no numbers of that axis at the moment, and gets further ones only with the other master.
    #[error(
        "this master has no more numbers of '{name}' at the moment, and gets further ones only together with the other one"
    )]
    NoNumbers { name: GeneratorName },
    /// An allocator said of itself what cannot be.
    #[error("an agent that serves sequences says at most {sets} sets, and addresses of at most {address} bytes")]
    NoAllocator {
        /// Sets at most.
        sets: u32,
        /// Bytes of an address at most.
        address: u32,
    },
    /// An agent registers no name with such small sections.
    #[error(
        "keys_per_section below {least} takes many of the sections that all names have together: say {least} or more, or have an operator \
         register the name at a master (`POST /api/namespaces`, or the page Namespaces of its console)"
    )]
    SmallSections {
        /// The least number of keys that it may say.
        least: u32,
    },
    /// Only who holds a lease serves sections.
    #[error(
        "this session holds no lease, or an operator ended it: sections are served by agents that hold one, of whichever type. An agent \
         asks for one by itself"
    )]
    ServesWithoutLease,
    /// One network has as many agents that serve sections as it may.
    #[error(
        "{max} agents of this network serve sections already, which is as many as one network may have: stop one of them first"
    )]
    AllocatorsOfNetwork {
        /// The largest number that it may have.
        max: u32,
    },
    /// Nobody could take a section, or it is not one that could be given.
    #[error(
        "the section cannot be given to that agent: it must be heard here, serve the set of the name, have memory left for it, and not \
         be drained; and the section must not be under way to another one"
    )]
    NobodyTakes,
    /// The survivor of a lost master may be older than it once was, and it alone knew how far the sections went.
    #[error(
        "this master's store is not proven to be the one it last wrote, and it alone knew how far the sequences went: start it with \
         --vouch-untouched if it was not copied or put back, then let the new one join"
    )]
    SurvivorUnproven,
    /// The order of an operator about sections cannot be carried out.
    #[error(transparent)]
    NotMoved(NotMoved),
    /// An agent was granted numbers that both ledgers know nothing of.
    #[error(
        "an agent was granted numbers of '{name}' up to place {last}, and both masters' ledgers know only of those before place {granted}: \
         they are older than they once were. No number of it is granted before an operator {}; or, if no agent was ever granted \
         these numbers, says so (`POST /api/axes/{name}/dismiss` with \"last\": \"{last}\")",
        go_on(name, *last, *end)
    )]
    NumbersForgotten {
        name: GeneratorName,
        /// The place from which on, by both ledgers, nothing was granted.
        granted: u64,
        /// The last place that the agent was granted.
        last: u64,
        /// The last place of the axis.
        end: u64,
    },
    /// Nobody shows what an operator says not to be true.
    #[error(
        "no agent shows that it was granted numbers of '{name}' up to place {last}: say the place that the alarm says, which is `shown` \
         of the name in `GET /api/axes`"
    )]
    NotShown {
        name: GeneratorName,
        /// The place that was said.
        last: u64,
    },
    /// A session or its network was granted as many places of an axis within the hour as it may.
    #[error(
        "{} was granted {max} places of '{name}' by this master within an hour, as many as it may be: ask again in {wait_s} s",
        if *network { "this network" } else { "this session" }
    )]
    PlacesAnHour {
        name: GeneratorName,
        /// True if the whole network is counted.
        network: bool,
        /// The largest number that it may have.
        max: u64,
        /// Seconds until the next hour begins.
        wait_s: u32,
    },
    /// An agent registers no template that keeps most others of its length out.
    #[error(
        "{open} of the {len} characters of this template's strings may be letters as well as digits, and no fixed letter or sign tells them \
         from others: it would keep nearly every other template of its length out. Write a fixed letter or a '-' into it, or have an \
         operator register the name at a master (`POST /api/namespaces`, or the page Namespaces of its console)"
    )]
    BroadTemplate {
        /// The number of characters that may be either.
        open: u32,
        /// The number of all characters.
        len: u32,
    },
    /// Nothing shows that masters of this cluster held a name as retired.
    #[error("nothing shows that a master of this cluster held this name as retired: only an operator retires names")]
    NotShownRetired,
    /// A process that is its own masters cannot write down what it would grant.
    #[error("grants cannot be saved, so nothing is granted: {why}; check the disk and the folder of --dev-dir")]
    NotKept {
        /// The operating system's message.
        why: String,
    },
}

fn go_on(name: &GeneratorName, last: u64, end: u64) -> String {
    let raises = || format!("raises its axis to {} or higher (`POST /api/axes/{name}/raise`)", last.saturating_add(1));
    let retires = "retires it and registers another name, for nothing of its axis is left";
    if last < end { raises() } else { retires.to_owned() }
}

fn collides(name: &GeneratorName, template: &str, example: &str) -> String {
    let why = match example {
        "" => format!("it cannot be proved that this template's strings differ from those of '{name}' ({template})"),
        _ => format!("this template and that of '{name}' ({template}) can give the same string, e.g. {example}"),
    };
    why + ": give it another length, a letter where the other has digits, or a '-' where the other has letters or digits; or say \
           \"scope\":\"own\" if it is fine that both names give equal IDs"
}
