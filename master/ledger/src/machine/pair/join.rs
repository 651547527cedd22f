//! The snapshot that the replacement of a lost master is handed ([`crate::replication::join`]).

use super::Pairwise;
use crate::lease::{Effects, Identity, PeerObservations, TokenHash, Write};
use crate::machine::state::Ledger;
use crate::replication::rules::lifted;
use ids::audit::{Action, Actor, Entry};
use ids::parameters::MasterId;
use wire::lease::{Mode, Refusal};
use wire::peer::{Begun, JoinReply, JoinStep, PAGE_MAX};

impl Ledger<Pairwise> {
    pub(crate) fn on_join(
        &mut self,
        token: TokenHash,
        master: MasterId,
        step: JoinStep,
        fx: &mut Effects,
    ) -> Result<JoinReply, Refusal> {
        let identity = &self.identity;
        let (Some(awaited), Some(cluster), Some(epoch)) = (identity.awaiting, identity.cluster, identity.epoch) else {
            return Err(Refusal::JoinToken);
        };
        if awaited != token {
            return Err(Refusal::JoinToken);
        }
        if master != identity.master.other() {
            return Err(Refusal::JoinId(identity.master));
        }
        if self.mode() == Mode::RolledBack {
            return Err(Refusal::RolledBack);
        }
        match step {
            JoinStep::Begin => {
                self.cut_sections(fx)?;
                let identity = &self.identity;
                let begun = (identity.pair_epoch, identity.parameters, identity.former.clone());
                let (pair_epoch, parameters, former) = begun;
                // Unproven, it may have renewed by its lost peer's permit what it does not know of any more.
                if self.unmet() {
                    for (key, lease) in lifted(self.table.leases(), self.agreement.observed.permit_in) {
                        self.put_lease(key, lease, fx);
                    }
                }
                // From the cut on nothing is extended that the snapshot does not show.
                self.put_observed(PeerObservations { permit_in: None, ..self.agreement.observed }, fx);
                let caution = self.caution;
                Ok(JoinReply::Begun(Begun { cluster, epoch, pair_epoch, former, parameters, caution }))
            }
            JoinStep::Page { after } => {
                let (records, _, last) = self.table.page(after, false);
                let (settings, more) = if last { self.settings_table.page(None, 0) } else { Default::default() };
                Ok(JoinReply::Page { records, settings, more, last })
            }
            JoinStep::Settings { after } => {
                let (settings, more) = self.settings_table.page(Some(&after), 0);
                Ok(JoinReply::Settings { settings, more })
            }
            JoinStep::Sections { after } => {
                let (records, _, last) = self.sections.page(after.as_ref(), false, PAGE_MAX);
                Ok(JoinReply::Sections { records, last })
            }
            JoinStep::Done => {
                let actor = Actor::master(identity.master.other());
                let detail = format!("pairing {}", identity.pair_epoch);
                let entry = Entry::new(fx.at, actor, Action::Join, &format!("master {master}"), &detail);
                fx.writes.push(Write::Audit(entry));
                let joined = Identity { awaiting: None, ..identity.clone() };
                self.put_identity(joined, fx);
                Ok(JoinReply::Done)
            }
        }
    }
}
