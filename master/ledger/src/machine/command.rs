//! Operators' commands to a lease: renew or end. A renewal is this master's own affair, like its holder's; an end has to be agreed
//! on, and is answered only then.

use super::agreement::Agreement;
use super::state::Ledger;
use crate::lease::{Effects, Reply, RequestId, Write};
use crate::policy::rules;
use ids::audit::{Action, Actor, Entry};
use ids::lease::Lease;
use ids::time::Now;
use ids::token::TokenKey;
use wire::lease::Refusal;

impl<A> Ledger<A>
where
    Self: Agreement,
{
    /// Handles an operator's denial, of whoever's lease.
    pub(super) fn on_deny(&mut self, now: Now, id: RequestId, key: TokenKey, fx: &mut Effects) {
        let may = self.serves().and_then(|()| self.may_terminate(now));
        match may.and_then(|()| self.policy().terminable(key).cloned()) {
            Err(refusal) => fx.reply(id, Reply::Commanded(Err(refusal))),
            Ok(lease) => {
                let denied = Lease { deny: true, ..lease };
                self.put_lease(key, denied.clone(), fx);
                self.terminate(now, id, key, denied, fx);
            }
        }
    }

    /// Handles an operator's renewal, as long as the holder's own: it goes on from there.
    pub(super) fn on_extend(&mut self, now: Now, key: TokenKey, fx: &mut Effects) -> Result<Lease, Refusal> {
        self.serves()?;
        let lease = self.table.lease(key).filter(|lease| rules::still_good(lease, now)).ok_or(Refusal::NoLease)?;
        let until = rules::renewed_until(lease, now, &self.identity.parameters, self.alone_until());
        let renewed = Lease { until, renewed: lease.renewed.max(now.wall), ..lease.clone() };
        let actor = fx.by.clone().map_or_else(|| Actor::master(self.identity.master), |cause| cause.actor);
        let (subject, detail) = (format!("{} {key}", lease.token_type), format!("g{} until {until}", lease.g));
        fx.writes.push(Write::Audit(Entry::new(now.wall, actor, Action::Renew, &subject, &detail)));
        self.put_lease(key, renewed.clone(), fx);
        self.share(key, fx);
        Ok(renewed)
    }
}
