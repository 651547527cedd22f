//! Granting: a change of ownership, which is agreed on before the agent hears of it.

use super::agreement::Agreement;
use super::state::Ledger;
use crate::lease::{Effects, Reply, RequestId};
use crate::policy::rules::may_deny;
use ids::audit::{Actor, Cause};
use ids::lease::Lease;
use ids::parameters::{AgentId, SessionId};
use ids::time::Now;
use ids::token::{TokenKey, TokenType};
use wire::lease::{FORMER_MAX, Refusal, TokenRequest};

/// The longest address kept for the operator's eyes, in characters.
const ADDRESS_CHARS_MAX: usize = 64;

impl<A> Ledger<A>
where
    Self: Agreement,
{
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
        if let Some((key, lease)) = self.policy().held_by(now, &agent_id, session, token_type) {
            return fx.reply(id, Reply::Token(Ok(self.grant_with_receipt(now, key, lease, self.alone_until()))));
        }
        let begun = match self.policy().proposed_to(&agent_id, session, token_type).cloned() {
            Some(prep) => {
                self.grant_again(prep, fx);
                Ok(())
            }
            None => self.begin_grant(now, &agent_id, session, token_type, (address, &former), fx),
        };
        let waits = begun.and_then(|()| self.await_grant(now, (agent_id, session, token_type), id));
        if let Err(refusal) = waits {
            fx.reply(id, Reply::Token(Err(refusal)));
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
        self.policy().within_limits(now, agent_id, &address, token_type)?;
        let own = self.policy().next_grant(now, agent_id, session, token_type, address.clone(), false);
        let lower = own.as_ref().is_some_and(|prep| prep.key.is_granted_last());
        match own.filter(|_| !lower) {
            Some(prep) => self.grant(now, prep, fx),
            None => self.borrow((agent_id.clone(), session, token_type), address, lower, fx),
        }
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
            let open = |lease: &&Lease| lease.is_of(agent_id, session) && may_deny(lease);
            let Some(denied) = self.table.lease(key).filter(open).cloned() else { continue };
            fx.by = Some(Cause::event(Actor::new(agent_id.as_str(), address)));
            self.put_lease(key, Lease { deny: true, ..denied }, fx);
            self.share(key, fx);
        }
    }
}
