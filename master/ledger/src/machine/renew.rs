//! Renewing, giving back, listing: what one master can do alone.

use super::agreement::Agreement;
use super::state::Ledger;
use crate::lease::{Alarm, Effects};
use crate::policy::rules;
use ids::audit::{Actor, Cause};
use ids::lease::{Lease, LeaseState};
use ids::time::Now;
use wire::lease::{LIST_MAX, ListRequest, ListedLease, Refusal, Rent, RentRequest, TerminateRequest};

impl<A> Ledger<A>
where
    Self: Agreement,
{
    pub(super) fn on_rent(&mut self, now: Now, request: &RentRequest, fx: &mut Effects) -> Result<Rent, Refusal> {
        self.same_cluster(request.cluster)?;
        self.serves()?;
        self.compare_receipt(now, request, fx)?;
        let key = request.key;
        let proposed = self.table.prep(key).is_some_and(|prep| {
            prep.g == request.g && prep.session == request.session && prep.agent_id == request.agent_id
        });
        let Some(lease) = self.table.lease(key) else {
            return if proposed { Err(Refusal::Retry) } else { Ok(Rent::Unrented) };
        };
        if proposed || request.g > lease.g {
            // There is a newer grant than we know of: whoever confirmed it can renew, and we shall hear of it.
            return Err(Refusal::Retry);
        }
        if request.g < lease.g || !lease.is_of(&request.agent_id, request.session) {
            let taken = lease.state == LeaseState::Held && now.wall < lease.until;
            return Ok(if taken { Rent::Rented } else { Rent::Unrented });
        }
        // By its own receipt the promise is over: only what was lifted here, after something was forgotten, seems to go on, and
        // the value may be another's by now.
        let over = || request.receipt.is_some_and(|receipt| receipt.until <= now.wall);
        if !rules::still_good(lease, now) || (over() && !self.policy().may_hand_out(now, key, lease)) {
            return Ok(Rent::Unrented);
        }
        if rules::two_live_copies(lease, request.rseq, request.attempt) {
            fx.by = Some(Cause::event(Actor::new("two live copies of the holder", &lease.address)));
            let denied = Lease { deny: true, ..lease.clone() };
            self.put_lease(key, denied, fx);
            self.share(key, fx);
            fx.alarms.push(Alarm::Clone(key));
            return Ok(Rent::Unrented);
        }
        let (parameters, bound) = (&self.identity.parameters, self.alone_until());
        let renewed = Lease {
            until: rules::renewed_until(lease, now, parameters, bound),
            renewed: lease.renewed.max(now.wall),
            rseq: lease.rseq.max(request.rseq),
            attempt: request.attempt,
            ..lease.clone()
        };
        // What its holder can show was promised before, by whichever master. A proof costs more than a look, and nearly always this
        // renewal reaches further.
        let told = rules::told_until(&renewed, now, parameters, bound, None);
        let shown = request.receipt.filter(|receipt| receipt.until > told && self.promised(request, receipt));
        let until = rules::told_until(&renewed, now, parameters, bound, shown.map(|receipt| receipt.until));
        let receipt = self.receipt_for(key, &renewed, until);
        self.put_lease(key, renewed, fx);
        self.share(key, fx);
        Ok(Rent::Success { until, receipt })
    }

    /// Giving back is only a denial of further renewals: the value rests until its end like any other, because IDs of
    /// the running hour and day are out in the world.
    pub(super) fn on_terminate(
        &mut self,
        now: Now,
        request: &TerminateRequest,
        fx: &mut Effects,
    ) -> Result<(), Refusal> {
        self.serves()?;
        self.may_end(now)?;
        let lease = self.table.lease(request.key).ok_or(Refusal::NotHolder)?;
        if lease.g != request.g || !lease.is_of(&request.agent_id, request.session) {
            return Err(Refusal::NotHolder);
        }
        if rules::may_deny(lease) {
            fx.by = Some(Cause::event(Actor::new(request.agent_id.as_str(), &lease.address)));
            let denied = Lease { deny: true, ..lease.clone() };
            self.put_lease(request.key, denied, fx);
            self.share(request.key, fx);
        }
        Ok(())
    }

    pub(super) fn on_list(&self, now: Now, request: &ListRequest) -> Result<Vec<ListedLease>, Refusal> {
        self.serves()?;
        let bound = self.alone_until();
        let mut listed: Vec<ListedLease> = self
            .table
            .of_agent(&request.agent_id)
            .filter(|(_, key)| request.after.is_none_or(|after| *key > after))
            .filter_map(|(_, key)| {
                let lease = self.table.lease(key).filter(|lease| lease.is_of(&request.agent_id, request.session))?;
                Some(ListedLease { grant: self.grant_of(now, key, lease, bound), held: rules::may_deny(lease) })
            })
            .collect();
        listed.sort_by_key(|row| row.grant.key);
        listed.truncate(LIST_MAX);
        Ok(listed)
    }
}
