//! The agreement of a pair of masters.

use super::{Command, Pairwise};
use crate::lease::{Effects, RequestId};
use crate::machine::agreement::Agreement;
use crate::machine::state::{Asked, Ledger};
use crate::section::{HeldSection, Terms, rules as section_rules};
use ids::audit::Actor;
use ids::lease::{Lease, Prep};
use ids::namespace::GeneratorName;
use ids::parameters::AgentId;
use ids::sequence::{Section, SectionKey, SectionRange, SectionRecord};
use ids::setting::Change;
use ids::time::{Now, WallMs};
use ids::token::TokenKey;
use wire::lease::{Mode, Refusal};
use wire::peer::PeerMessage;

/// Requests for tokens that wait at once; one more is refused.
const WAITING_MAX: usize = 16_384;
/// Leases whose end is begun at one beat.
const CLOSE_MAX: usize = 256;
/// Commands that the other master has not confirmed, at once; one more is refused.
pub(super) const COMMANDS_MAX: usize = 256;

impl Agreement for Ledger<Pairwise> {
    fn serves(&self) -> Result<(), Refusal> {
        self.mode().serves()
    }

    fn is_complete(&self) -> bool {
        self.mode() == Mode::Ready
    }

    fn alone_until(&self) -> Option<WallMs> {
        self.agreement.observed.permit_in
    }

    fn may_grant(&self, now: Now) -> Result<(), Refusal> {
        self.may_set(now)?;
        self.policy().may_promise(now)?;
        self.clock_is_sane(now)
    }

    fn may_end(&self, now: Now) -> Result<(), Refusal> {
        let met = self.mode() == Mode::Ready && self.agreement.pair.heard(now);
        if met { Ok(()) } else { Err(Refusal::PeerAway) }
    }

    fn may_terminate(&self, now: Now) -> Result<(), Refusal> {
        self.may_end(now)?;
        if self.agreement.commands.len() >= COMMANDS_MAX { Err(Refusal::Overloaded) } else { Ok(()) }
    }

    fn may_set(&self, now: Now) -> Result<(), Refusal> {
        self.may_end(now)?;
        if self.agreement.pair.frozen() { Err(Refusal::PeerAway) } else { Ok(()) }
    }

    fn may_extend(&self, now: Now) -> Result<(), Refusal> {
        if self.extends_alone() { Ok(()) } else { self.may_set(now) }
    }

    fn extend(&mut self, now: Now, change: &Change, fx: &mut Effects) {
        if self.extends_alone() {
            return self.extend_by_itself(now, change, fx);
        }
        let actor = Actor::master(self.identity.master);
        self.want(now, change, &actor, fx);
    }

    fn tell_first_use(&mut self, now: Now, name: &GeneratorName, fx: &mut Effects) {
        self.tell_first_use_of(now, name, fx);
    }

    /// Sends a record of ours to the other master, so that both tables show the same.
    fn share(&self, key: TokenKey, fx: &mut Effects) {
        if let Some(lease) = self.table.lease(key) {
            fx.send(PeerMessage::Sync { records: vec![(key, lease.clone())], by: fx.by.clone() });
        }
    }

    fn grant(&mut self, now: Now, prep: Prep, fx: &mut Effects) {
        self.put_prep(prep.clone(), fx);
        self.agreement.grants.sent(now, prep.key);
        self.grant_again(prep, fx);
    }

    fn grant_again(&self, prep: Prep, fx: &mut Effects) {
        fx.send(PeerMessage::Propose { prep });
    }

    /// None of ours is free that may be granted yet: the other master may have one. Its proposal comes here to be confirmed, and with it
    /// the answer for whoever waits. If it has none either, ours that are granted last are next (`on_none_free`).
    fn borrow(&self, (agent_id, session, token_type): Asked, address: String, lower: bool, fx: &mut Effects) {
        fx.send(PeerMessage::Ask { agent_id, session, token_type, address, lower });
    }

    fn await_grant(&mut self, now: Now, asked: Asked, id: RequestId) -> Result<(), Refusal> {
        if self.agreement.grants.waiting() >= WAITING_MAX {
            return Err(Refusal::Overloaded);
        }
        self.agreement.grants.wait(now, (asked, id), ());
        Ok(())
    }

    fn end(&mut self, now: Now, over: Vec<TokenKey>, fx: &mut Effects) {
        for key in self.agreement.grants.resend(now, CLOSE_MAX, over.into_iter()) {
            if let Some(lease) = self.table.lease(key) {
                fx.send(PeerMessage::Close { key, g: lease.g, until: lease.until });
            }
        }
    }

    fn terminate(&mut self, now: Now, id: RequestId, key: TokenKey, denied: Lease, fx: &mut Effects) {
        self.share(key, fx);
        self.agreement.commands.insert(id, Command { by: fx.by.clone(), key, denied });
        self.agreement.commanded.sent(now, id);
        self.agreement.commanded.wait(now, id, ());
    }

    fn may_serve_sections(&self) -> Result<(), Refusal> {
        self.sections_are_served()
    }

    fn may_give_sections(&self, now: Now) -> Result<(), Refusal> {
        self.sections_are_served()?;
        // Agents come first that could show what both have forgotten.
        if self.caution.quiet {
            return Err(Refusal::Quiet);
        }
        // One that is still to read the tables answers no proposal, and what is proposed is served by nobody meanwhile.
        let other = self.agreement.pair.peer().and_then(|peer| peer.mode);
        if self.identity.awaiting.is_some() || other != Some(Mode::Ready) {
            return Err(Refusal::PeerAway);
        }
        self.may_set(now)
    }

    fn is_home_of(&self, name: &GeneratorName) -> bool {
        section_rules::home(name) == self.identity.master
    }

    fn raise_bound(&self, held: &HeldSection, terms: &Terms) -> u64 {
        self.bound_of(held, terms)
    }

    fn held_by_all(&self, held: &HeldSection, max_seq: u64) -> u64 {
        self.held_by_all_of(held, max_seq)
    }

    fn share_bound(&mut self, range: &SectionRange) {
        self.bound_was_raised(range);
    }

    fn give_sections(&mut self, now: Now, proposals: Vec<SectionRecord>, fx: &mut Effects) {
        self.propose_sections(now, proposals, fx);
    }

    fn ask_for_sections(&self, name: &GeneratorName, sections: Vec<Section>, fx: &mut Effects) {
        self.ask_home(name, sections, fx);
    }

    fn ask_move(&self, key: SectionKey, to: AgentId, fx: &mut Effects) {
        fx.send(PeerMessage::AskMove { key, to });
    }

    fn set(&mut self, now: Now, change: &Change, actor: &Actor, fx: &mut Effects) {
        self.want(now, change, actor, fx);
    }
}
