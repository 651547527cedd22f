//! Granting: proposed by the home, confirmed by the other, and answered when both hold it.

use super::Pairwise;
use crate::lease::proposals::confirms;
use crate::lease::{Alarm, Effects, Reply, RequestId};
use crate::machine::agreement::Agreement as _;
use crate::machine::state::{Asked, Ledger};
use crate::replication::rules;
use ids::lease::{Grant, Lease, Prep};
use ids::time::Now;
use ids::token::TokenKey;
use std::ops::RangeInclusive;
use wire::lease::{Mode, Refusal};
use wire::peer::PeerMessage;

/// Proposals sent again at one beat at most.
const RESEND_MAX: usize = 1_024;

/// The requests that wait for one thing.
fn waiting_for(asked: &Asked) -> RangeInclusive<(Asked, RequestId)> {
    (asked.clone(), RequestId(0))..=(asked.clone(), RequestId(u64::MAX))
}

impl Ledger<Pairwise> {
    pub(super) fn on_ask(&mut self, now: Now, asked: Asked, address: String, lower: bool, fx: &mut Effects) {
        let (agent_id, session, token_type) = asked;
        let granted = self.may_grant(now).map(|()| self.policy());
        let why = match granted {
            // It has others, and shall not wait for what cannot be had here.
            Err(refusal) if lower => refusal,
            Err(_) => return,
            Ok(policy) => {
                if let Some((key, _)) = policy.held_by(now, &agent_id, session, token_type) {
                    return self.share(key, fx);
                }
                if let Some(prep) = policy.proposed_to(&agent_id, session, token_type) {
                    return fx.send(PeerMessage::Propose { prep: prep.clone() });
                }
                match policy.within_limits(now, &agent_id, &address, token_type) {
                    Err(refusal) => refusal,
                    Ok(()) => match policy.next_grant(now, &agent_id, session, token_type, address.clone(), lower) {
                        Some(prep) => return self.grant(now, prep, fx),
                        None => policy.none_free(now, token_type),
                    },
                }
            }
        };
        fx.send(PeerMessage::NoneFree { agent_id, session, token_type, address, why });
    }

    /// Grants what is granted last to whoever still waits, because the other master has nothing either; this may be said twice, or late.
    pub(super) fn on_none_free(&mut self, now: Now, asked: Asked, address: String, why: Refusal, fx: &mut Effects) {
        let (agent_id, session, token_type) = &asked;
        let waits = self.agreement.grants.is_awaited(waiting_for(&asked)) && self.may_grant(now).is_ok();
        let policy = self.policy();
        let has_one = policy.held_by(now, agent_id, *session, *token_type).is_some()
            || policy.proposed_to(agent_id, *session, *token_type).is_some();
        if waits
            && !has_one
            && policy.within_limits(now, agent_id, &address, *token_type).is_ok()
            && let Some(prep) = policy.next_grant(now, agent_id, *session, *token_type, address, false)
        {
            return self.grant(now, prep, fx);
        }
        let why = match why {
            Refusal::PoolExhausted { .. } => policy.none_free(now, *token_type),
            other => other,
        };
        if !has_one {
            self.answer(asked, &Err(why), fx);
        }
    }

    pub(super) fn on_propose(&mut self, now: Now, prep: Prep, fx: &mut Effects) {
        let key = prep.key;
        let parameters = self.identity.parameters;
        let plausible = rules::plausible(key, prep.token_type, prep.from, prep.until, &parameters);
        if !plausible || rules::home(key) == self.identity.master {
            return fx.alarms.push(Alarm::Implausible(key));
        }
        let silent = self.caution.reverted || self.caution.quiet;
        if self.agreement.pair.frozen() || silent || self.mode() == Mode::RolledBack {
            return;
        }
        let known = self.table.lease(key);
        if known.is_some_and(|lease| rules::same_grant(lease, &prep)) {
            fx.send(PeerMessage::Confirm { prep });
        } else if rules::may_confirm(known, &prep, &parameters) && self.policy().above_floor(key, prep.from) {
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
                self.agreement.pair.freeze();
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
        if rules::may_confirm(known, prep, &self.identity.parameters) && self.policy().above_floor(key, prep.from) {
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
        if !self.policy().may_hand_out(now, key, lease) {
            return;
        }
        let grant = self.grant_with_receipt(now, key, lease, self.alone_until());
        let asked = (lease.agent_id.clone(), lease.session, lease.token_type);
        self.answer(asked, &Ok(grant), fx);
    }

    fn answer(&mut self, asked: Asked, reply: &Result<Grant, Refusal>, fx: &mut Effects) {
        for (_, id) in self.agreement.grants.answered(waiting_for(&asked)) {
            fx.reply(id, Reply::Token(reply.clone()));
        }
    }

    /// Sends again at each beat what was not confirmed, and gives up on those who waited too long.
    pub(crate) fn retry_grants(&mut self, now: Now, fx: &mut Effects) {
        if self.agreement.pair.heard(now) {
            let open = self.table.preps().map(|prep| prep.key);
            for prep in
                self.agreement.grants.resend(now, RESEND_MAX, open).into_iter().filter_map(|key| self.table.prep(key))
            {
                fx.send(PeerMessage::Propose { prep: prep.clone() });
            }
        }
        for (_, id) in self.agreement.grants.give_up(now) {
            fx.reply(id, Reply::Token(Err(Refusal::Retry)));
        }
    }
}
