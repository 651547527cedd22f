//! Granting: a change of ownership, which both masters make durable before the agent hears of it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::state::{Asked, Ledger};
use crate::lease::proposals::confirms;
use crate::lease::{Alarm, Effects, Reply, RequestId, rules};
use common::audit::{Actor, Cause};
use common::lease::{Caution, Generation, Grant, Lease, LeaseState, Prep};
use common::parameters::{AgentId, SessionId};
use common::rpc::lease::{FORMER_MAX, Mode, Refusal, TokenRequest};
use common::rpc::peer::PeerMessage;
use common::time::Now;
use common::token::{TokenKey, TokenType};

/// Requests for tokens that wait at once; one more is refused.
const WAITING_MAX: usize = 16_384;
/// Proposals sent again at one beat.
const RESEND_MAX: usize = 1_024;
/// The longest address kept for the operator's eyes, in characters.
const ADDRESS_CHARS_MAX: usize = 64;

impl Ledger {
    pub(super) fn on_token(
        &mut self,
        now: Now,
        id: RequestId,
        request: TokenRequest,
        address: String,
        fx: &mut Effects,
    ) {
        if let Err(refusal) = self.same_cluster(request.cluster) {
            return fx.reply(id, Reply::Token(Err(refusal)));
        }
        if let Err(refusal) = self.serves() {
            return fx.reply(id, Reply::Token(Err(refusal)));
        }
        let TokenRequest { agent_id, session, token_type, former, .. } = request;
        if let Some(grant) = self.held_by(now, &agent_id, session, token_type) {
            return fx.reply(id, Reply::Token(Ok(grant)));
        }
        let outcome = match self.proposed_to(&agent_id, session, token_type) {
            Some(prep) => {
                fx.send(PeerMessage::Propose { prep });
                Ok(())
            }
            None => self.begin_grant(now, &agent_id, session, token_type, (address, &former), fx),
        };
        match outcome {
            Err(refusal) => fx.reply(id, Reply::Token(Err(refusal))),
            Ok(()) if self.grants.waiting() >= WAITING_MAX => fx.reply(id, Reply::Token(Err(Refusal::Overloaded))),
            Ok(()) => self.grants.wait(now, ((agent_id, session, token_type), id), ()),
        }
    }

    fn begin_grant(
        &mut self,
        now: Now,
        agent_id: &AgentId,
        session: SessionId,
        token_type: TokenType,
        (address, former): (String, &[SessionId]),
        fx: &mut Effects,
    ) -> Result<(), Refusal> {
        self.may_grant(now)?;
        let address: String = address.chars().filter(|c| !c.is_control()).take(ADDRESS_CHARS_MAX).collect();
        // Only now: whoever is given up and yet lives, as the original of a copy, can be granted another token too.
        self.give_up(agent_id, session, former, &address, fx);
        self.within_limits(now, agent_id, &address, token_type)?;
        if self.propose(now, agent_id, session, token_type, address.clone(), fx) {
            return Ok(());
        }
        // None of ours is free: the other master may have one. Its proposal comes here to be confirmed, and with it the
        // answer for whoever waits.
        let agent_id = agent_id.clone();
        fx.send(PeerMessage::Ask { agent_id, session, token_type, address });
        Ok(())
    }

    /// A fresh start shows the sessions that its serial file had before: nobody uses their leases any more, so they are
    /// denied, as if they had been released. Their values rest like any other.
    fn give_up(
        &mut self,
        agent_id: &AgentId,
        session: SessionId,
        former: &[SessionId],
        address: &str,
        fx: &mut Effects,
    ) {
        let former = former.iter().take(FORMER_MAX).filter(|former| **former != session);
        let held = |session: &SessionId| {
            TokenType::ALL.into_iter().flat_map(|kind| self.table.of_session(*session, kind)).collect::<Vec<_>>()
        };
        let keys: Vec<(SessionId, TokenKey)> = former.flat_map(|s| held(s).into_iter().map(|key| (*s, key))).collect();
        for (session, key) in keys {
            let ours = |lease: &&Lease| rules::is_of(lease, agent_id, session);
            let open = |lease: &&Lease| !lease.deny && lease.state == LeaseState::Held;
            let Some(denied) = self.table.lease(key).filter(ours).filter(open).cloned() else { continue };
            fx.by = Some(Cause::event(Actor::new(agent_id.as_str(), address)));
            self.put_lease(key, Lease { deny: true, ..denied }, fx);
            self.share(key, fx);
        }
    }

    /// Proposes a free value that is at home here. `false`: there is none for this agent.
    fn propose(
        &mut self,
        now: Now,
        agent_id: &AgentId,
        session: SessionId,
        token_type: TokenType,
        address: String,
        fx: &mut Effects,
    ) -> bool {
        let parameters = self.identity.parameters;
        let today = parameters.utc_offset().day_floor(now.wall);
        let Ok(spared) = self.spared(agent_id, &address, token_type, today) else { return false };
        let allowed = |value| self.may_propose(value, spared, today);
        let Some(key) = self.table.pick(token_type, today, allowed) else { return false };
        let must_prove = self.table.usage().must_prove(&address);
        let prep = Prep {
            key,
            g: self.table.lease(key).map_or(Generation::default(), |lease| lease.g).next(),
            token_type,
            agent_id: agent_id.clone(),
            session,
            address,
            granted: now.wall,
            from: today,
            until: rules::first_until(now, &parameters, must_prove),
        };
        self.put_prep(prep.clone(), fx);
        self.grants.sent(now, key);
        fx.send(PeerMessage::Propose { prep });
        true
    }

    pub(super) fn on_ask(
        &mut self,
        now: Now,
        agent_id: &AgentId,
        session: SessionId,
        token_type: TokenType,
        address: String,
        fx: &mut Effects,
    ) {
        if self.may_grant(now).is_err() {
            return;
        }
        if let Some(grant) = self.held_by(now, agent_id, session, token_type) {
            return self.share(grant.key, fx);
        }
        if let Some(prep) = self.proposed_to(agent_id, session, token_type) {
            return fx.send(PeerMessage::Propose { prep });
        }
        let why = match self.within_limits(now, agent_id, &address, token_type) {
            Err(refusal) => refusal,
            Ok(()) if self.propose(now, agent_id, session, token_type, address, fx) => return,
            Ok(()) => self.none_free(now, token_type),
        };
        fx.send(PeerMessage::NoneFree { agent_id: agent_id.clone(), session, token_type, why });
    }

    /// The other master has none for somebody who asked here.
    pub(super) fn on_none_free(&mut self, now: Now, asked: Asked, why: Refusal, fx: &mut Effects) {
        let why = match why {
            Refusal::PoolExhausted { .. } => self.none_free(now, asked.2),
            other => other,
        };
        self.answer(asked, &Err(why), fx);
    }

    pub(super) fn on_propose(&mut self, now: Now, prep: Prep, fx: &mut Effects) {
        let key = prep.key;
        let parameters = self.identity.parameters;
        let plausible = rules::plausible(key, prep.token_type, prep.from, prep.until, &parameters);
        if !plausible || rules::home(key) == self.identity.master {
            return fx.alarms.push(Alarm::Implausible(key));
        }
        let silent = self.caution.reverted || self.caution.quiet;
        if self.pair.frozen() || silent || self.mode() == Mode::RolledBack {
            return;
        }
        let known = self.table.lease(key);
        if known.is_some_and(|lease| rules::same_grant(lease, &prep)) {
            fx.send(PeerMessage::Confirm { prep });
        } else if rules::may_confirm(known, &prep, &parameters) && self.above_floor(key, prep.from) {
            self.put_lease(key, Lease::from_prep(&prep), fx);
            fx.send(PeerMessage::Confirm { prep });
        } else {
            return fx.send(PeerMessage::Reject { key, record: known.cloned() });
        }
        // Both hold it now, or will: whoever asked here for that session can be answered from here.
        self.answer_waiting(now, key, fx);
    }

    pub(super) fn on_confirm(&mut self, now: Now, echo: &Prep, fx: &mut Effects) {
        let key = echo.key;
        if !confirms(echo, self.table.prep(key)) {
            return;
        }
        self.drop_prep(key, fx);
        self.put_lease(key, Lease::from_prep(echo), fx);
        self.answer_waiting(now, key, fx);
    }

    pub(super) fn on_reject(&mut self, now: Now, key: TokenKey, record: Option<Lease>, fx: &mut Effects) {
        let behind = record.as_ref().map(|theirs| theirs.g);
        if let Some(theirs) = record {
            self.merge_all(now, vec![(key, theirs)], fx);
        }
        // The other one knows less than we do: tell it.
        if self.table.lease(key).is_some_and(|mine| behind.is_none_or(|theirs| theirs < mine.g)) {
            self.share(key, fx);
        }
        self.end_if_never_confirmed(key, fx);
    }

    /// Merges what the other master knows; used by every message that carries records.
    pub(super) fn merge_all(&mut self, now: Now, records: Vec<(TokenKey, Lease)>, fx: &mut Effects) {
        for (key, theirs) in records {
            if !rules::plausible(key, theirs.token_type, theirs.from, theirs.until, &self.identity.parameters) {
                fx.alarms.push(Alarm::Implausible(key));
                continue;
            }
            let mine = self.table.lease(key);
            let Some(mut merged) = rules::merge(self.identity.master, key, mine, &theirs) else {
                self.pair.freeze();
                fx.alarms.push(Alarm::Conflict(key));
                continue;
            };
            // It may have been lifted to what the other one was permitted, and that one has forgotten its renewals.
            let lifted = self.table.prep(key).filter(|prep| prep.g == merged.g && prep.until > merged.until);
            let lifted = lifted.map(|prep| prep.until);
            merged.until = lifted.unwrap_or(merged.until);
            let changed = mine != Some(&merged);
            if self.table.prep(key).is_some_and(|prep| prep.g <= merged.g) {
                self.drop_prep(key, fx);
            }
            if changed {
                self.put_lease(key, merged, fx);
            }
            if lifted.is_some() {
                self.share(key, fx);
            }
            self.answer_waiting(now, key, fx);
        }
    }

    /// A proposal that nobody who knows what is known here would confirm: the grant before it was ended, and lifted by the other
    /// master after that, to what this one may have promised and forgotten; or a floor was set since. It stands for ever
    /// otherwise, and its value with it. It is not dropped, because the other one may have confirmed it, answered, and forgotten
    /// that: it becomes a lease that nobody renews, and ends like any other.
    fn end_if_never_confirmed(&mut self, key: TokenKey, fx: &mut Effects) {
        let Some(prep) = self.table.prep(key) else { return };
        let known = self.table.lease(key);
        if rules::may_confirm(known, prep, &self.identity.parameters) && self.above_floor(key, prep.from) {
            return;
        }
        let until = known.map_or(prep.until, |known| known.until.max(prep.until));
        let granted = Lease { until, ..Lease::from_prep(prep) };
        let asked = (prep.agent_id.clone(), prep.session, prep.token_type);
        self.drop_prep(key, fx);
        self.put_lease(key, granted.clone(), fx);
        self.put_lease(key, Lease { deny: true, ..granted }, fx);
        self.share(key, fx);
        self.answer(asked, &Err(Refusal::Retry), fx);
    }

    /// Answers everybody who waits for what `key` now is.
    pub(super) fn answer_waiting(&mut self, now: Now, key: TokenKey, fx: &mut Effects) {
        let Some(lease) = self.table.lease(key) else { return };
        if !self.may_hand_out(now, key, lease) {
            return;
        }
        let grant = self.grant_with_receipt(key, lease);
        let asked = (lease.agent_id.clone(), lease.session, lease.token_type);
        self.answer(asked, &Ok(grant), fx);
    }

    fn answer(&mut self, asked: Asked, reply: &Result<Grant, Refusal>, fx: &mut Effects) {
        let all = (asked.clone(), RequestId(0))..=(asked, RequestId(u64::MAX));
        for (_, id) in self.grants.answered(all) {
            fx.reply(id, Reply::Token(reply.clone()));
        }
    }

    /// At each beat: send again what was not confirmed, and give up on those who waited too long.
    pub(super) fn press_grants(&mut self, now: Now, fx: &mut Effects) {
        if self.pair.heard(now) {
            let open = self.table.preps().map(|prep| prep.key);
            for prep in self.grants.resend(now, RESEND_MAX, open).into_iter().filter_map(|key| self.table.prep(key)) {
                fx.send(PeerMessage::Propose { prep: prep.clone() });
            }
        }
        for (_, id) in self.grants.give_up(now) {
            fx.reply(id, Reply::Token(Err(Refusal::Retry)));
        }
    }

    fn held_by(&self, now: Now, agent_id: &AgentId, session: SessionId, token_type: TokenType) -> Option<Grant> {
        self.table.of_session(session, token_type).find_map(|key| {
            let lease = self.table.lease(key)?;
            let holds = rules::is_of(lease, agent_id, session) && self.may_hand_out(now, key, lease);
            holds.then(|| self.grant_with_receipt(key, lease))
        })
    }

    /// Whether a lease may be handed to its session, which does not have it or has lost it. Not while this ledger may have
    /// forgotten what came after: that the lease ended, and that its value was granted to somebody else; nor ever after the end
    /// that it had before it was lifted, because whoever it was granted to then may not have shown it. Whoever holds it does not
    /// ask for it, but renews it, and shows its receipt.
    pub(super) fn may_hand_out(&self, now: Now, key: TokenKey, lease: &Lease) -> bool {
        let Caution { quiet, reverted, floor } = *self.caution();
        let below = floor.is_some_and(|floor| now.wall < floor.until && !floor.allows(key.value, lease.from));
        let known = rules::still_good(lease, now) && rules::goes_on_by_itself(lease, now, &self.identity.parameters);
        known && !quiet && !reverted && !below
    }

    fn proposed_to(&self, agent_id: &AgentId, session: SessionId, token_type: TokenType) -> Option<Prep> {
        let mine = |prep: &&Prep| prep.session == session && prep.agent_id == *agent_id;
        self.table.of_session(session, token_type).find_map(|key| self.table.prep(key).filter(mine)).cloned()
    }

    fn may_grant(&self, now: Now) -> Result<(), Refusal> {
        if self.mode() != Mode::Ready || !self.pair.heard(now) || self.pair.frozen() {
            return Err(Refusal::PeerAway);
        }
        self.may_promise(now)?;
        self.clock_is_sane(now)
    }
}
