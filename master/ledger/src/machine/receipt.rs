//! Comparing what agents can prove ([`crate::lease::receipt`]) with what this ledger knows.

use super::agreement::Agreement;
use super::state::Ledger;
use crate::lease::receipt::{said, said_of_sections};
use crate::lease::{Alarm, Effects};
use crate::proof::{Proof, Purpose};
use ids::audit::{Actor, Cause};
use ids::lease::{Lease, LeaseState, Receipt};
use ids::parameters::{EpochId, SessionId};
use ids::sequence::SectionRange;
use ids::time::Now;
use wire::lease::{Refusal, RentRequest};
use wire::ranges::ShownReceipt;

impl<A> Ledger<A>
where
    Self: Agreement,
{
    /// Tells whether a master of this cluster promised that.
    pub(super) fn promised(&self, request: &RentRequest, receipt: &Receipt) -> bool {
        let Some(said) = said(request.key, request.g, request.session, receipt.from, receipt.until) else {
            return false;
        };
        let proof = Proof::from(receipt.proof);
        self.pairings().any(|pairing| proof.proves(*pairing, Purpose::Receipt, &said))
    }

    /// The present pairing, and those before.
    pub(super) fn pairings(&self) -> impl Iterator<Item = &EpochId> {
        self.identity.epoch.iter().chain(self.identity.former.iter().rev())
    }

    /// Compares what an allocator can prove of sections with what this ledger knows, once the tables are exchanged. A section is listed
    /// for an owner only when both ledgers hold that owner's `g`, as a record or as a proposal: who can prove a higher one was given the
    /// section by ledgers that have forgotten it since, with its name or without. `of`: those of them that are looked at. Whether it proves
    /// what it says, if that was looked at.
    ///
    /// # Errors
    /// [`Refusal::Reverted`] if both ledgers have.
    pub(super) fn compare_section_receipt(
        &mut self,
        now: Now,
        session: SessionId,
        shown: &ShownReceipt,
        of: &SectionRange,
        fx: &mut Effects,
    ) -> Result<bool, Refusal> {
        let ShownReceipt { sections, g, .. } = shown;
        let is_shown = sections.from <= of.from && of.to <= sections.to;
        if !self.is_complete() || !is_shown {
            return Ok(false);
        }
        // Of one section a look costs less than a proof, and nearly always ends it. Of a range it may cost as much as there are rows.
        if of.len() == 1 && self.sections.first_below(of, *g).is_none() || !self.shows_sections(session, shown) {
            return Ok(false);
        }
        let Some(forgotten) = self.sections.first_below(of, *g) else { return Ok(true) };
        // Of a name that gives no numbers any more nothing can be given twice. One that is unknown was forgotten, too: its owner, or another
        // agent, registers it again.
        if self.is_retired(&sections.name) {
            return Ok(true);
        }
        // A floor expects just this.
        if self.caution.floor.is_some_and(|floor| now.wall < floor.until) {
            return Ok(true);
        }
        self.on_reverted(Alarm::RevertedSection(forgotten), fx);
        Err(Refusal::Reverted)
    }

    /// Tells whether masters of this pairing, or of one before it, said that the session owned these sections.
    fn shows_sections(&self, session: SessionId, ShownReceipt { sections, g, receipt }: &ShownReceipt) -> bool {
        let Some(said) = said_of_sections(sections, *g, session) else { return false };
        let proof = Proof::from(receipt.0);
        self.pairings().any(|pairing| proof.proves(*pairing, Purpose::Section, &said))
    }

    /// Compares what the holder of a lease can prove with what this ledger knows, once the tables are exchanged.
    ///
    /// # Errors
    /// [`Refusal::Reverted`] if both ledgers have forgotten it. The holder goes on with what it has.
    pub(super) fn compare_receipt(&mut self, now: Now, request: &RentRequest, fx: &mut Effects) -> Result<(), Refusal> {
        let Some(receipt) = request.receipt.filter(|_| self.is_complete()) else { return Ok(()) };
        let key = request.key;
        // It was confirmed and answered elsewhere, and the confirmation is under way.
        let proposed = self.table.prep(key).is_some_and(|prep| (prep.g, prep.session) == (request.g, request.session));
        let known = self.table.lease(key);
        let agrees = |lease: &Lease| {
            (lease.g, lease.session) == (request.g, request.session) && receipt.until <= lease.until
                || lease.g > request.g && receipt.until <= lease.from
        };
        // Nearly always so; a proof costs more than a look.
        if proposed || known.is_some_and(agrees) || !self.promised(request, &receipt) {
            return Ok(());
        }
        match known.cloned() {
            Some(lease) if (lease.g, lease.session) == (request.g, request.session) => {
                fx.alarms.push(Alarm::LongerPromise(key, receipt.until));
                self.put_lease(key, Lease { until: receipt.until, ..lease }, fx);
                self.share(key, fx);
                return Ok(());
            }
            // What was granted in its place, by a ledger that had forgotten it, is not used any more.
            Some(lease) if lease.state != LeaseState::Closed && lease.from < receipt.until => {
                fx.by = Some(Cause::event(Actor::new("another holder of the token, with a receipt", "")));
                self.put_lease(key, Lease { deny: true, ..lease }, fx);
                self.share(key, fx);
            }
            _ => {}
        }
        // A floor expects just this.
        let floor = self.caution.floor.filter(|floor| now.wall < floor.until);
        if floor.is_none_or(|floor| receipt.until > floor.until || floor.allows(key.value, now.wall)) {
            self.on_reverted(Alarm::Reverted(key), fx);
        }
        Err(Refusal::Reverted)
    }
}
