//! The present state of a master of a pair, for those who look at it.

use super::Pairwise;
use crate::lease::Alarm;
use crate::machine::agreement::Condition;
use crate::machine::state::Ledger;
use ids::time::Now;
use wire::lease::Mode;

impl Ledger<Pairwise> {
    pub fn mode(&self) -> Mode {
        self.agreement.pair.mode()
    }

    /// The mode, with what an operator has to know.
    pub fn condition(&self, now: Now) -> Condition {
        Condition { mode: self.mode(), why: self.lacks(now) }
    }

    fn lacks(&self, now: Now) -> Option<String> {
        let pair = &self.agreement.pair;
        let heard = pair.heard(now);
        if let Some(why) = pair.refused(now) {
            return Some(format!("the other master is refused: {why}"));
        }
        if pair.frozen() {
            return Some("the ledgers of the two masters contradict each other; see the log".to_owned());
        }
        Some(match self.mode() {
            Mode::Syncing if !self.identity.paired => {
                "this master has not met the other one yet: start it, and check --peer on both".to_owned()
            }
            Mode::Syncing if let Some(why) = pair.unproven() => Alarm::Unproven(why.clone()).to_string(),
            Mode::Syncing => "this master is still synchronising with the other one".to_owned(),
            Mode::RolledBack if self.identity.awaiting.is_some() => Alarm::TokenUsed.to_string(),
            Mode::RolledBack => {
                "this master's ledger is older than it once was, a copy of it runs, or its pairing is over: it must be \
                 replaced; the log says why"
                    .to_owned()
            }
            Mode::ReadyAlone if heard => Alarm::NotHeard.to_string(),
            Mode::ReadyAlone => "the other master is silent: renewals only, no new leases".to_owned(),
            Mode::Ready if !heard => "the other master is silent: no new leases".to_owned(),
            Mode::Ready => return self.held_back(now),
        })
    }

    /// The reason why something cannot be done although the other master is there, with the remedy.
    fn held_back(&self, now: Now) -> Option<String> {
        let promise = self.policy().may_promise(now).err().map(|refusal| refusal.to_string());
        promise.or_else(|| self.wrong_clock(now)).or_else(|| {
            let waits = self.agreement.observed.permit_in.is_none();
            waits.then(|| "the other master has not allowed this one to renew alone yet: in a moment".to_owned())
        })
    }
}
