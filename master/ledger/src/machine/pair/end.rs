//! Ending leases. The home starts, the other stops renewing and says so, and only then is the value closed: a renewal that the
//! other master gave in the meantime is never cut short.

use super::Pairwise;
use crate::lease::Effects;
use crate::machine::agreement::Agreement as _;
use crate::machine::state::Ledger;
use crate::replication::rules;
use ids::lease::{Generation, Lease, LeaseState};
use ids::time::WallMs;
use ids::token::TokenKey;
use wire::peer::PeerMessage;

impl Ledger<Pairwise> {
    pub(super) fn on_close(&mut self, key: TokenKey, g: Generation, until: WallMs, fx: &mut Effects) {
        if rules::home(key) == self.identity.master {
            return;
        }
        let known = self.table.lease(key);
        let Some(lease) = known.filter(|lease| lease.g == g) else {
            return fx.send(PeerMessage::Reject { key, record: known.cloned() });
        };
        // We renewed it further than the home knows: it is not over.
        if lease.state == LeaseState::Held && lease.until > until {
            return fx.send(PeerMessage::Reject { key, record: Some(lease.clone()) });
        }
        let until = lease.until.max(until);
        if lease.state == LeaseState::Held {
            let closing = Lease { state: LeaseState::Closing, until, ..lease.clone() };
            self.put_lease(key, closing, fx);
        }
        fx.send(PeerMessage::Closed { key, g, until });
    }

    pub(super) fn on_closed(&mut self, key: TokenKey, g: Generation, until: WallMs, fx: &mut Effects) {
        if rules::home(key) != self.identity.master {
            return;
        }
        let Some(lease) = self.table.lease(key).filter(|lease| lease.g == g) else { return };
        if lease.state != LeaseState::Closed {
            let closed = Lease { state: LeaseState::Closed, until: lease.until.max(until), ..lease.clone() };
            self.put_lease(key, closed, fx);
        }
        self.agreement.grants.over(&key);
        self.share(key, fx);
    }
}
