//! Rules of what may be granted, to whom, and of what a session may be handed again.

use super::{Policy, rules};
use ids::lease::{Caution, Floor, Generation, Lease, Prep};
use ids::parameters::{AgentId, SessionId};
use ids::time::{Now, WallMs};
use ids::token::{TokenKey, TokenType};
use wire::lease::Refusal;

impl<'a> Policy<'a> {
    /// Tells whether anything may be granted, as far as this master's own past is concerned.
    ///
    /// # Errors
    /// The reason why nothing may.
    pub(crate) fn may_promise(&self, now: Now) -> Result<(), Refusal> {
        if self.caution.reverted {
            return Err(Refusal::Reverted);
        }
        if self.caution.quiet {
            return Err(Refusal::Quiet);
        }
        match self.caution.floor {
            Some(Floor { until, above: None }) if self.today(now) < until => Err(Refusal::NotBefore { until }),
            _ => Ok(()),
        }
    }

    /// Tells whether a name may be registered, as far as this master's own past is concerned: it may have forgotten that
    /// the name stood for something else, or another one that gives the same IDs. Agents say again which names they serve
    /// before.
    ///
    /// # Errors
    /// The reason why none may.
    pub(crate) fn may_name(&self) -> Result<(), Refusal> {
        match self.caution {
            Caution { reverted: true, .. } => Err(Refusal::Reverted),
            Caution { quiet: true, .. } => Err(Refusal::Quiet),
            _ => Ok(()),
        }
    }

    /// Tells whether the floor lets `key` be granted from `from` on.
    pub(crate) fn above_floor(&self, key: TokenKey, from: WallMs) -> bool {
        self.caution.floor.is_none_or(|floor| floor.allows(key.value, from))
    }

    /// The grant of a free value to whoever asks, or of a `lower` one, which is granted before those that are granted last; `None`: there
    /// is none for this agent.
    pub(crate) fn next_grant(
        &self,
        now: Now,
        agent_id: &AgentId,
        session: SessionId,
        token_type: TokenType,
        address: String,
        lower: bool,
    ) -> Option<Prep> {
        let today = self.today(now);
        let spared = self.spared(agent_id, &address, token_type, today).ok()?;
        let allowed = self.table.pick(token_type, today, |value| self.is_allowed(value, spared, today));
        let key = allowed.filter(|key| !(lower && key.is_granted_last()))?;
        let must_prove = self.table.usage().must_prove(&address);
        Some(Prep {
            key,
            g: self.table.lease(key).map_or(Generation::default(), |lease| lease.g).next(),
            token_type,
            agent_id: agent_id.clone(),
            session,
            address,
            granted: now.wall,
            from: today,
            until: rules::first_until(now, self.parameters, must_prove),
        })
    }

    /// The reason why there was no value to grant.
    pub(crate) fn none_free(&self, now: Now, token_type: TokenType) -> Refusal {
        let today = self.today(now);
        match self.table.pick(token_type, today, |value| self.is_allowed(value, None, today)) {
            Some(_) => Refusal::Kept { token_type },
            None => Refusal::PoolExhausted { token_type },
        }
    }

    /// The lease of a type that a session has and may be handed again.
    pub(crate) fn held_by(
        &self,
        now: Now,
        agent_id: &AgentId,
        session: SessionId,
        token_type: TokenType,
    ) -> Option<(TokenKey, &'a Lease)> {
        let held =
            |key: &TokenKey, lease: &&Lease| lease.is_of(agent_id, session) && self.may_hand_out(now, *key, lease);
        let its = self.table.of_session(session, token_type);
        its.filter_map(|key| Some((key, self.table.lease(key)?))).find(|(key, lease)| held(key, lease))
    }

    /// The proposal that is under way for a session.
    pub(crate) fn proposed_to(
        &self,
        agent_id: &AgentId,
        session: SessionId,
        token_type: TokenType,
    ) -> Option<&'a Prep> {
        let its = |prep: &&Prep| prep.session == session && prep.agent_id == *agent_id;
        self.table.of_session(session, token_type).find_map(|key| self.table.prep(key).filter(its))
    }

    /// Tells whether a lease may be handed to its session, which does not have it or has lost it. Not while this ledger may have
    /// forgotten what came after: that the lease ended, and that its value was granted to somebody else; nor ever after the end
    /// that it had before it was lifted, because whoever it was granted to then may not have shown it. Whoever holds it does not
    /// ask for it, but renews it, and shows its receipt.
    pub(crate) fn may_hand_out(&self, now: Now, key: TokenKey, lease: &Lease) -> bool {
        let Caution { quiet, reverted, floor } = *self.caution;
        let below = floor.is_some_and(|floor| now.wall < floor.until && !floor.allows(key.value, lease.from));
        let known = rules::still_good(lease, now) && rules::goes_on_by_itself(lease, now, self.parameters);
        known && !quiet && !reverted && !below
    }

    fn today(&self, now: Now) -> WallMs {
        self.parameters.utc_offset().day_floor(now.wall)
    }
}
