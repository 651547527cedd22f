//! Changes that the console can ask for: one trait, whose every change names who wants it.

use crate::masters::{AuditRow, LeaseRow, Unavailable};
use crate::sequences::{Drained, KeyRaised, SectionMoved};
use common::audit::{Action, Actor};
use common::namespace::GeneratorName;
use common::parameters::AgentId;
use common::sequence::{SectionKey, Slot};
use common::setting::Change;
use common::token::TokenKey;
use futures::future::BoxFuture;
use net::rpc::lease::{Changed, Refusal};
use serde::Serialize;

/// Changes, and the questions asked before and after them.
pub trait Commands: Send + Sync + 'static {
    /// The lease of a token; `None` if it is free.
    ///
    /// # Errors
    /// [`Unavailable`] if this master cannot answer now.
    fn lease(&self, key: TokenKey) -> BoxFuture<'_, Result<Option<LeaseRow>, Unavailable>>;

    /// Renews a lease as its holder would. This master can do it alone. The lease as it is then.
    ///
    /// # Errors
    /// The masters' reason.
    fn renew(&self, key: TokenKey, by: Actor) -> BoxFuture<'_, Result<LeaseRow, Refusal>>;

    /// Ends a lease: no renewal any more. It needs both masters. The lease as it is then.
    ///
    /// # Errors
    /// The masters' reason.
    fn terminate(&self, key: TokenKey, by: Actor) -> BoxFuture<'_, Result<LeaseRow, Refusal>>;

    /// Changes a setting. Returns when both masters hold it durably.
    ///
    /// # Errors
    /// The masters' reason.
    fn change(&self, change: Change, by: Actor) -> BoxFuture<'_, Result<Changed, Refusal>>;

    /// Tells what would become of a change, and makes none: nothing is written, nor is the other master asked.
    ///
    /// # Errors
    /// The reason by which it would be refused.
    fn would_change(&self, change: Change) -> BoxFuture<'_, Result<Changed, Refusal>>;

    /// Gives a section of a sequence to another agent. Returns when that is begun.
    ///
    /// # Errors
    /// The masters' reason.
    fn move_section(&self, key: SectionKey, to: AgentId, by: Actor) -> BoxFuture<'_, Result<SectionMoved, Refusal>>;

    /// Lets the numbers of a key go on from `to`, and those of all other keys of its section. Returns when that is begun.
    ///
    /// # Errors
    /// The masters' reason.
    fn raise_key(
        &self,
        name: GeneratorName,
        slot: Slot,
        to: u64,
        by: Actor,
    ) -> BoxFuture<'_, Result<KeyRaised, Refusal>>;

    /// Takes all sections away from an agent, or lets it have sections again. Returns when that is begun.
    ///
    /// # Errors
    /// The masters' reason.
    fn drain(&self, agent_id: AgentId, on: bool, by: Actor) -> BoxFuture<'_, Result<Drained, Refusal>>;

    /// Lines of the audit before line number `before`, the newest first, at most `count` of those that are wanted `among` so many.
    ///
    /// # Errors
    /// [`Unavailable`] if this master cannot answer now.
    fn find_in_audit(
        &self,
        wanted: AuditFilter,
        before: Option<u64>,
        count: usize,
        among: usize,
    ) -> BoxFuture<'_, Result<AuditPart, Unavailable>>;

    /// Walks this master's whole audit.
    ///
    /// # Errors
    /// [`Unavailable`] if this master cannot do it now.
    fn verify_audit(&self) -> BoxFuture<'_, Result<AuditCheck, Unavailable>>;
}

/// Lines of the audit that match a filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditPart {
    /// The newest first.
    pub rows: Vec<AuditRow>,
    /// The number of the line before which to go on; `None` if there are no older ones.
    pub older: Option<u64>,
}

/// A filter of audit lines. An empty one wants all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AuditFilter {
    /// Only those whose actor's name contains this.
    pub actor: Option<String>,
    /// Only actions that begin so: `lease.deny`, or `lease.` for all of leases.
    pub action: Option<String>,
    /// Only those whose subject contains this.
    pub about: Option<String>,
    /// Only what masters and agents do by themselves ([`Action::is_automatic`]), or only the rest.
    pub automatic: Option<bool>,
}

impl AuditFilter {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Tells whether a line with these texts is wanted.
    pub fn admits(&self, actor: &str, action: Action, subject: &str) -> bool {
        self.actor.as_deref().is_none_or(|wanted| actor.contains(wanted))
            && self.action.as_deref().is_none_or(|wanted| action.code().starts_with(wanted))
            && self.automatic.is_none_or(|wanted| action.is_automatic() == wanted)
            && self.about.as_deref().is_none_or(|wanted| subject.contains(wanted))
    }
}

/// The result of walking the audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct AuditCheck {
    /// True if every line follows from the one before it, to the last that was written.
    pub whole: bool,
    /// The number of lines.
    pub lines: u64,
    /// The number of the last line.
    pub last: u64,
    /// The last line's SHA-256. Kept elsewhere it also shows a chain that was made anew.
    pub hash: String,
    /// The fault, if there is one; `null` if it is whole.
    pub problem: Option<String>,
}
