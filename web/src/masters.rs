//! The console's view of the masters: one trait, and the rows it hands over.
//!
//! Whoever serves the console implements [`Masters`]; the console itself holds no state about leases and never sees the
//! ledger.

pub use crate::table::{LeaseFields, LeasePage, Order, Page, Search, SortBy};

use crate::agents::{AgentRow, SettingsRow};
use crate::axes::AxisRow;
use crate::sequences::{AllocatorRow, SectionFilter, SectionPage, SectionRow, SequenceRow};
use common::about::About;
#[allow(unused_imports, reason = "the description of the API names it")]
use common::about::AboutSource;
use common::audit::Action;
use common::certificate::Revocation;
use common::clock::TestClock;
use common::lease::{Lease, LeaseState, Prep};
use common::namespace::{Definition, GeneratorName, Namespace};
use common::parameters::{AgentId, ClusterParameters, MasterId, SessionId};
use common::time::WallMs;
use common::token::{POOL_LOW_PERCENT, TokenKey, TokenType};
use futures::future::BoxFuture;
use net::rpc::lease::Mode;
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The masters of one cluster, as one of the two sees them.
///
/// Every answer is a copy of the moment it was asked for; nothing here waits for the other master.
pub trait Masters: Send + Sync + 'static {
    /// The leases that match, in the order of their keys, `page` of them.
    ///
    /// # Errors
    /// [`Unavailable`] if this master cannot answer now.
    fn leases(&self, filter: LeaseFilter, page: Page) -> BoxFuture<'_, Result<LeasePage, Unavailable>>;

    /// Both masters, the one with id 1 first.
    ///
    /// # Errors
    /// [`Unavailable`] if this master cannot answer now.
    fn masters(&self) -> BoxFuture<'_, Result<Vec<MasterRow>, Unavailable>>;

    /// Counts of the values of each token type that are free, held, resting. [`count_pools`] does the counting.
    ///
    /// # Errors
    /// [`Unavailable`] if this master cannot answer now.
    fn pools(&self) -> BoxFuture<'_, Result<Vec<PoolRow>, Unavailable>>;

    /// Checks that a new lease can be granted now.
    ///
    /// # Errors
    /// The reason.
    fn readiness(&self) -> BoxFuture<'_, Result<(), String>>;

    /// Lines of this master's audit before line number `before` (all if `None`), the newest first, at most `count`.
    ///
    /// # Errors
    /// [`Unavailable`] if this master cannot answer now.
    fn audit(&self, before: Option<u64>, count: usize) -> BoxFuture<'_, Result<Vec<AuditRow>, Unavailable>>;

    /// The networks that may ask for leases.
    ///
    /// # Errors
    /// [`Unavailable`] if this master cannot answer now.
    fn whitelist(&self) -> BoxFuture<'_, Result<Vec<NetworkRow>, Unavailable>>;

    /// The generators' names and what they stand for, the predefined ones first.
    ///
    /// # Errors
    /// [`Unavailable`] if this master cannot answer now.
    fn namespaces(&self) -> BoxFuture<'_, Result<Vec<NamespaceRow>, Unavailable>>;

    /// The axes of all names of kind `segment`, by their names.
    ///
    /// # Errors
    /// [`Unavailable`] if this master cannot answer now.
    fn axes(&self) -> BoxFuture<'_, Result<Vec<AxisRow>, Unavailable>>;

    /// Sections of sequences that match, ascending by name and section, those beside each other with one owner and one state in one row.
    ///
    /// # Errors
    /// [`Unavailable`] if this master cannot answer now.
    fn sections(&self, filter: SectionFilter, page: SectionPage)
    -> BoxFuture<'_, Result<Vec<SectionRow>, Unavailable>>;

    /// All names of kind `sequence`, by their names, with who serves their sections. Only those of `set`, if it is given.
    ///
    /// # Errors
    /// [`Unavailable`] if this master cannot answer now.
    fn sequences(&self, set: Option<GeneratorName>) -> BoxFuture<'_, Result<Vec<SequenceRow>, Unavailable>>;

    /// The agents' sessions that serve sections or could, by their names.
    ///
    /// # Errors
    /// [`Unavailable`] if this master cannot answer now.
    fn allocators(&self) -> BoxFuture<'_, Result<Vec<AllocatorRow>, Unavailable>>;

    /// The agents: those who report, and those who only hold leases; by their names.
    ///
    /// # Errors
    /// [`Unavailable`] if this master cannot answer now.
    fn agents(&self) -> BoxFuture<'_, Result<Vec<AgentRow>, Unavailable>>;

    /// The cluster's parameters and this master's flags.
    ///
    /// # Errors
    /// [`Unavailable`] if this master cannot answer now.
    fn settings(&self) -> BoxFuture<'_, Result<SettingsRow, Unavailable>>;

    /// Lines of the audit about a token, the newest first, at most `count`; as far back as can be read at once.
    ///
    /// # Errors
    /// [`Unavailable`] if this master cannot answer now.
    fn history(&self, token: TokenKey, count: usize) -> BoxFuture<'_, Result<Vec<AuditRow>, Unavailable>>;

    /// All metrics in Prometheus' text format; those that have the names of generators only if `named`.
    fn metrics(&self, named: bool) -> BoxFuture<'_, String>;

    /// The time by this master's calendar; times on the page are shown relative to it.
    fn now(&self) -> WallMs;

    /// The test clock that this master runs by, if any: the page warns of it.
    fn test_clock(&self) -> Option<TestClock>;
}

/// The reason why this master could not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    #[error("this master has too many requests waiting; ask again")]
    Overloaded,
    #[error("this master cannot read what it wrote; its log says more")]
    Damaged,
    /// The process ends. Open event streams end with it.
    #[error("this master is shutting down")]
    ShuttingDown,
    #[error("this master's disk is full: it promises nothing until there is room, and the other master renews")]
    DiskFull,
}

/// The stage of a lease's life, in the words of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LeaseStage {
    /// Proposed by its home master, not confirmed by the other yet.
    Granting,
    /// Granted, and may be renewed.
    Held,
    /// Not renewed any more (released, terminated or run out), but not yet ended at both masters.
    Ending,
    /// Ended at both; nobody may have the value before `reuse_at`.
    Resting,
}

/// A filter of leases. An empty one wants all.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseFilter {
    /// Only those asked for under this type.
    pub token_type: Option<TokenType>,
    /// Only those in this stage.
    pub stage: Option<LeaseStage>,
    /// Only those of these agents.
    pub agent: Option<AgentPattern>,
    pub token: Option<TokenKey>,
    /// Only those in which this text occurs.
    pub search: Option<Search>,
}

/// An agent's whole name, or with a final `*` the beginning of one (no name contains that character).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentPattern {
    text: String,
    prefix: bool,
}

/// A lease as the console and its API show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct LeaseRow {
    /// The type it was asked for under.
    #[serde(rename = "type", serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub token_type: TokenType,
    /// The token.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub token: TokenKey,
    /// The stage of its life.
    #[serde(rename = "state")]
    pub stage: LeaseStage,
    /// The agent that holds it.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub agent_id: AgentId,
    /// The session that holds it: its first twelve digits, because with all of them one could take the lease.
    #[serde(serialize_with = "as_shown")]
    #[schema(value_type = String)]
    pub session: SessionId,
    /// Address that it was asked for from; empty if unknown.
    pub address: String,
    /// The number of this grant of the value.
    pub g: u64,
    /// The first instant that may be written into an ID.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub from: WallMs,
    /// The first instant that may not.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub until: WallMs,
    /// Time of the grant or the last renewal; `None` while it is being granted.
    #[serde(serialize_with = "as_text_or_null")]
    #[schema(value_type = Option<String>)]
    pub renewed: Option<WallMs>,
    /// The instant from which the value could have its next holder if it were not renewed any more.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub reuse_at: WallMs,
}

/// A holder of whose certificates the older ones are not believed any more.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RevocationRow {
    /// The holder: `agent/NAME` or `client/NAME`.
    pub(crate) role: String,
    /// The first instant from which on its certificates are believed.
    pub(crate) before: String,
}

impl From<&Revocation> for RevocationRow {
    fn from(revoked: &Revocation) -> Self {
        Self { role: revoked.role.path(), before: revoked.before.to_string() }
    }
}

/// A master as the console and its API show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct MasterRow {
    /// 1 or 2.
    #[serde(serialize_with = "as_number")]
    #[schema(value_type = u8)]
    pub id: MasterId,
    /// True of the master that answers.
    pub this: bool,
    /// The state of the master.
    #[schema(value_type = String)]
    pub mode: MasterMode,
    /// Time at which it was last heard of; `None` if never. For the one that answers: now.
    #[serde(serialize_with = "as_text_or_null")]
    #[schema(value_type = Option<String>)]
    pub last_heartbeat: Option<WallMs>,
    /// Its last durable change, as far as known.
    pub lsn: Option<u64>,
    /// Its clock minus that of the one that answers, in milliseconds; `None` if unknown.
    pub clock_skew_ms: Option<i64>,
    /// The instant until which it may extend leases without the other; `None` if nothing was allowed yet.
    #[serde(serialize_with = "as_text_or_null")]
    #[schema(value_type = Option<String>)]
    pub permit: Option<WallMs>,
    /// Its program's version, as far as known.
    pub version: Option<String>,
    /// The lead of its machine's calendar after a jump, in milliseconds, which it does not follow; `None` if there was none, or it is not heard.
    pub calendar_ahead_ms: Option<i64>,
}

/// The state of a master, as the one that answers sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MasterMode {
    /// The mode that it reports.
    Says(Mode),
    /// Nothing was heard of it for longer than a peer may be silent, or ever.
    Silent,
}

/// A line of the audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct AuditRow {
    /// Its number in this master's audit.
    pub number: u64,
    /// Time of the change.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub at: WallMs,
    /// The actor.
    pub who: String,
    /// Address that the actor called from; empty if unknown.
    pub from: String,
    /// The action, as a stable name such as `lease.grant`.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub action: Action,
    /// The subject of the action.
    pub subject: String,
    /// Details of the action.
    pub detail: String,
}

/// A network whose agents may ask for leases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct NetworkRow {
    /// The network in CIDR notation.
    pub network: String,
}

/// A name, and what it is to stand for.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub(crate) struct Named {
    /// 1..=63 of a-z 0-9 . _ -, without a dot in front.
    pub(crate) name: String,
    /// Its definition.
    #[serde(flatten)]
    pub(crate) definition: Definition,
}

fn named<S: Serializer>(namespace: &Namespace, to: S) -> Result<S::Ok, S::Error> {
    Named { name: namespace.name().to_string(), definition: namespace.definition() }.serialize(to)
}

/// A generator's name and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct NamespaceRow {
    /// The name, and its definition with nothing left out.
    #[serde(flatten, serialize_with = "named")]
    #[schema(value_type = Named)]
    pub namespace: Namespace,
    /// The note about it; that may change.
    #[schema(value_type = AboutSource)]
    pub about: About,
    /// The number of IDs that one token can give in an hour (`uniq64`) or a day (`string`).
    pub capacity: u64,
    /// The account that registered it, or retired it; empty for those that always exist.
    pub registered_by: String,
    /// True if it gives no more IDs.
    pub retired: bool,
    /// Tells whether IDs are or were given by it. Before, it can be taken back and stand for anything.
    pub in_use: bool,
    /// True if any agent holds a lease of its token type; if none does, every agent answers `no_lease` for it.
    pub leased: bool,
}

/// Counts of the values of a token type by stage. The types share values (`uint1` is a part of `uint2`), so these rows do not add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct PoolRow {
    /// The type.
    #[serde(rename = "type", serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub token_type: TokenType,
    /// The number of its values.
    pub size: u32,
    /// Values that can be granted now.
    pub free: u32,
    /// Values being granted or held.
    pub held: u32,
    /// Values ending or resting.
    pub resting: u32,
}

impl LeaseStage {
    /// All of them, in the order of a lease's life.
    pub const ALL: [Self; 4] = [Self::Granting, Self::Held, Self::Ending, Self::Resting];

    /// The name in URLs and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Granting => "granting",
            Self::Held => "held",
            Self::Ending => "ending",
            Self::Resting => "resting",
        }
    }

    /// The stage of `lease` at `now`; `None` if its rest is over and the value is free.
    pub fn of(lease: &Lease, now: WallMs, parameters: &ClusterParameters) -> Option<Self> {
        match lease.state {
            LeaseState::Closed => (now < parameters.reuse_at(lease.until)).then_some(Self::Resting),
            LeaseState::Held if !lease.deny && now < lease.until => Some(Self::Held),
            LeaseState::Held | LeaseState::Closing => Some(Self::Ending),
        }
    }
}

impl FromStr for LeaseStage {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|stage| stage.name() == name).ok_or_else(|| {
            let name: String = name.chars().take(64).collect();
            format!("'{name}' is not a state of a lease; there are granting, held, ending, resting")
        })
    }
}

impl AgentPattern {
    pub fn matches(&self, agent: &AgentId) -> bool {
        if self.prefix { agent.as_str().starts_with(&self.text) } else { agent.as_str() == self.text }
    }
}

impl FromStr for AgentPattern {
    type Err = String;
    fn from_str(pattern: &str) -> Result<Self, String> {
        let (text, prefix) = pattern.strip_suffix('*').map_or((pattern, false), |text| (text, true));
        if !(prefix && text.is_empty()) {
            text.parse::<AgentId>().map_err(|e| format!("{e}; a final * stands for any ending"))?;
        }
        Ok(Self { text: text.to_owned(), prefix })
    }
}

impl fmt::Display for AgentPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.text, if self.prefix { "*" } else { "" })
    }
}

impl LeaseFilter {
    /// Tells whether a lease with these properties is wanted.
    pub fn admits(&self, lease: &LeaseFields<'_>) -> bool {
        self.token_type.is_none_or(|wanted| wanted == lease.token_type)
            && self.stage.is_none_or(|wanted| wanted == lease.stage)
            && self.token.is_none_or(|wanted| wanted == lease.token)
            && self.agent.as_ref().is_none_or(|wanted| wanted.matches(lease.agent_id))
            && self.search.as_ref().is_none_or(|wanted| wanted.finds(lease))
    }
}

impl LeaseRow {
    /// The row of a lease that is in `stage`.
    pub fn of_lease(key: TokenKey, lease: &Lease, stage: LeaseStage, parameters: &ClusterParameters) -> Self {
        Self {
            token_type: lease.token_type,
            token: key,
            stage,
            agent_id: lease.agent_id.clone(),
            session: lease.session,
            address: lease.address.clone(),
            g: lease.g.0,
            from: lease.from,
            until: lease.until,
            renewed: Some(lease.renewed),
            reuse_at: parameters.reuse_at(lease.until),
        }
    }

    /// The row of a proposal that waits for its confirmation.
    pub fn of_prep(prep: &Prep, parameters: &ClusterParameters) -> Self {
        Self {
            token_type: prep.token_type,
            token: prep.key,
            stage: LeaseStage::Granting,
            agent_id: prep.agent_id.clone(),
            session: prep.session,
            address: prep.address.clone(),
            g: prep.g.0,
            from: prep.from,
            until: prep.until,
            renewed: None,
            reuse_at: parameters.reuse_at(prep.until),
        }
    }
}

impl From<Mode> for MasterMode {
    fn from(mode: Mode) -> Self {
        Self::Says(mode)
    }
}

impl fmt::Display for MasterMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Says(mode) => mode.fmt(f),
            Self::Silent => f.write_str("silent"),
        }
    }
}

impl Serialize for MasterMode {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl PoolRow {
    /// Tells whether most of it is in use, so that the rest is kept for agents and networks that are known.
    pub fn is_low(&self) -> bool {
        let used = u64::from(self.size.saturating_sub(self.free));
        used * 100 >= u64::from(self.size) * u64::from(POOL_LOW_PERCENT)
    }
}

/// Counts the pools of a cluster whose largest `uint2` is `uint2_max`, from every value that is not free.
pub fn count_pools(uint2_max: u16, taken: impl Iterator<Item = (TokenKey, LeaseStage)>) -> Vec<PoolRow> {
    let mut pools: Vec<PoolRow> = TokenType::pools(uint2_max)
        .map(|token_type| {
            let size = token_type.size(uint2_max);
            PoolRow { token_type, size, free: size, held: 0, resting: 0 }
        })
        .collect();
    for (key, stage) in taken {
        let shared = |pool: &&mut PoolRow| {
            pool.token_type.family() == key.family && pool.token_type.admits(key.value, uint2_max)
        };
        for pool in pools.iter_mut().filter(shared) {
            pool.free = pool.free.saturating_sub(1);
            match stage {
                LeaseStage::Granting | LeaseStage::Held => pool.held += 1,
                LeaseStage::Ending | LeaseStage::Resting => pool.resting += 1,
            }
        }
    }
    pools
}

/// A session's beginning: see [`SessionId::shown`].
pub(crate) fn as_shown<S: Serializer>(session: &SessionId, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&session.shown())
}

pub(crate) fn as_text<T: fmt::Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

pub(crate) fn as_text_or_null<T: fmt::Display, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => to.collect_str(value),
        None => to.serialize_none(),
    }
}

pub(crate) fn as_number<S: Serializer>(id: &MasterId, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u8(id.number())
}

pub(crate) fn as_number_or_null<S: Serializer>(id: &Option<MasterId>, to: S) -> Result<S::Ok, S::Error> {
    match id {
        Some(id) => to.serialize_u8(id.number()),
        None => to.serialize_none(),
    }
}

#[cfg(test)]
#[path = "masters_tests.rs"]
mod tests;
