//! Leases: the promise as an agent sees it, and the record the masters keep of it.
//!
//! A lease is a rectangle on the IDs' own time axis: one token, the instants `[from, until)`. An agent may write a time
//! into an ID only if it lies in there, so uniqueness is a matter of sets, not of clocks.

use crate::parameters::{AgentId, SessionId};
use crate::time::{SpanMs, WallMs};
use crate::token::{TokenKey, TokenType, TokenValue};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Counts the grants of a value; 1 is the first one. Grows with each grant, on both masters or not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Generation(pub u64);

impl Generation {
    /// The next grant's.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A lease in the holder's hands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Grant {
    /// The type it was asked for under.
    pub token_type: TokenType,
    /// The token.
    pub key: TokenKey,
    /// The number of this grant of the value.
    pub g: Generation,
    /// The first instant that may be written into an ID.
    pub from: WallMs,
    /// The first instant that may not.
    pub until: WallMs,
    /// The master's word for it; `None` from a program that gave none.
    pub receipt: Option<Receipt>,
}

/// A master's word for what it promised, which only the two masters of the pairing can have written. The holder keeps it
/// and shows it when it renews: masters whose disks were put back learn from it what they have forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Receipt {
    /// The first instant that may be written into an ID.
    pub from: WallMs,
    /// The first instant that may not.
    pub until: WallMs,
    /// The proof, which only masters can make or read.
    pub proof: [u8; 32],
}

/// Nothing that may be out in the world from a ledger that is lost is granted again before it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Floor {
    /// The day from whose first instant on everything may be granted.
    pub until: WallMs,
    /// The value above which others may be granted until then, in each family; `None`: none at all.
    pub above: Option<TokenValue>,
}

impl Floor {
    /// Tells whether a grant of `value` that begins at `from` cannot meet anything from before.
    pub fn allows(&self, value: TokenValue, from: WallMs) -> bool {
        from >= self.until || self.above.is_some_and(|above| value > above)
    }

    /// The floor that allows only what both allow.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        Self { until: self.until.max(other.until), above: self.above.zip(other.above).map(|(a, b)| a.max(b)) }
    }
}

/// Restraints that keep a master from promising, across restarts, until something has happened. Not counted as a change of its ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Caution {
    /// Neither store was proven when the two met: both may have forgotten the same. Until the agents have had time to show what
    /// they hold, nothing is granted.
    pub quiet: bool,
    /// An agent has proved that both ledgers were put back: nothing is granted until an operator says how to go on.
    pub reverted: bool,
    /// The bound of what a ledger before this one may have promised.
    pub floor: Option<Floor>,
}

/// Length of a first grant from the start of its day on, to a network many of whose leases were never renewed: to the end of
/// the next day. The first renewal makes it as long as any other, so one that nobody follows up ends by itself, and early.
pub const UNPROVED_SPAN: SpanMs = SpanMs::days(2);

impl Grant {
    /// Tells whether it is such a short first grant, and better renewed at once.
    pub fn is_unproved(&self) -> bool {
        self.until - self.from == UNPROVED_SPAN
    }
}

/// The state of a lease between its grant and the next one of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LeaseState {
    /// Granted; may be renewed.
    Held,
    /// Ended at the master that is not its home: no renewal, but the home may not know that yet.
    Closing,
    /// Ended at both, as far as this master knows for sure. Only such a value is granted again, after its rest.
    Closed,
}

/// A proposal that the home master has made and the other has not confirmed yet. Never dropped, never aborted: the
/// other may have confirmed it, and answered the agent, long ago.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Prep {
    /// The token.
    pub key: TokenKey,
    /// The number that this grant of it would have.
    pub g: Generation,
    /// The type it was asked for under.
    pub token_type: TokenType,
    /// The agent that asked.
    pub agent_id: AgentId,
    /// The session.
    pub session: SessionId,
    /// The address that it asked from, as text for the operator; empty if unknown.
    pub address: String,
    /// Time of the proposal.
    pub granted: WallMs,
    /// The first instant that may be written into an ID.
    pub from: WallMs,
    /// The first instant that may not.
    pub until: WallMs,
}

/// A master's record of the newest grant of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lease {
    /// The number of this grant of the value.
    pub g: Generation,
    /// The state of the lease.
    pub state: LeaseState,
    /// The type it was asked for under.
    pub token_type: TokenType,
    /// The agent that holds it.
    pub agent_id: AgentId,
    /// The session.
    pub session: SessionId,
    /// The address that it was asked for from, as text for the operator; empty if unknown.
    pub address: String,
    /// Time of the proposal.
    pub granted: WallMs,
    /// Time at which this master, or the other as far as known, last renewed it; `granted` if never.
    pub renewed: WallMs,
    /// The first instant that may be written into an ID.
    pub from: WallMs,
    /// The first instant that may not. Only grows within one `g`.
    pub until: WallMs,
    /// True if it is not renewed any more: released by its holder or terminated by an operator. Nothing frees the value early.
    pub deny: bool,
    /// The number of the holder's newest renewal.
    pub rseq: u64,
    /// The random mark of that renewal; the same `rseq` with another mark means two live copies.
    pub attempt: u64,
}

impl Lease {
    /// The lease that a confirmed proposal becomes.
    pub fn from_prep(prep: &Prep) -> Self {
        Self {
            g: prep.g,
            state: LeaseState::Held,
            token_type: prep.token_type,
            agent_id: prep.agent_id.clone(),
            session: prep.session,
            address: prep.address.clone(),
            granted: prep.granted,
            renewed: prep.granted,
            from: prep.from,
            until: prep.until,
            deny: false,
            rseq: 0,
            attempt: 0,
        }
    }

    /// Tells whether it is this session's, asked for under this name. A session alone is not enough: who learned of one, and not
    /// under which name it is known, has no claim to what it holds.
    pub fn is_of(&self, agent_id: &AgentId, session: SessionId) -> bool {
        self.session == session && self.agent_id == *agent_id
    }

    /// The grant that its holder is told.
    pub fn grant(&self, key: TokenKey) -> Grant {
        Grant { token_type: self.token_type, key, g: self.g, from: self.from, until: self.until, receipt: None }
    }
}
