//! Ending leases whose time is over. The home starts, the other stops renewing and says so, and only then is the value
//! closed: a renewal that the other master gave in the meantime is never cut short.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::state::Ledger;
use crate::lease::{Effects, rules};
use common::lease::{Generation, Lease, LeaseState};
use common::rpc::lease::Mode;
use common::rpc::peer::PeerMessage;
use common::time::{Now, SpanMs, WallMs};
use common::token::TokenKey;

/// Leases whose end is begun at one beat.
const CLOSE_MAX: usize = 256;

impl Ledger {
    pub(super) fn end_what_is_over(&mut self, now: Now, fx: &mut Effects) {
        // By a calendar that nobody vouches for leases would end that agents still hold.
        if self.mode() != Mode::Ready || !self.pair.heard(now) || self.calendar.far() {
            return;
        }
        let parameters = self.identity.parameters;
        let over = WallMs(now.wall.0.saturating_sub(parameters.grace().0)) + SpanMs(1);
        let may_close = |lease: &Lease| rules::may_close(lease, now, &parameters);
        let open = self.table.ended_before(over).filter(|key| self.table.lease(*key).is_some_and(may_close));
        for key in self.grants.resend(now, CLOSE_MAX, open) {
            if let Some(lease) = self.table.lease(key) {
                fx.send(PeerMessage::Close { key, g: lease.g, until: lease.until });
            }
        }
    }

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
        self.grants.over(&key);
        self.share(key, fx);
    }
}
