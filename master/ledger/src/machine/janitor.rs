//! Checks at intervals: leases whose time is over, and pools that are nearly used up.

use super::agreement::Agreement;
use super::state::Ledger;
use crate::lease::{Alarm, Effects};
use ids::time::{Now, SpanMs};
use ids::token::POOL_LOW_PERCENT;

/// Interval between two counts of the pools.
const COUNT_INTERVAL: SpanMs = SpanMs::seconds(10);

impl<A> Ledger<A>
where
    Self: Agreement,
{
    pub(super) fn end_what_is_over(&mut self, now: Now, fx: &mut Effects) {
        // By a calendar that nobody vouches for leases would end that agents still hold.
        if self.may_end(now).is_ok() && !self.calendar.far() {
            let over = self.policy().over(now).collect();
            self.end(now, over, fx);
        }
    }

    /// Tells operators, once, when most of a pool is in use.
    pub(super) fn look_at_pools(&mut self, now: Now, fx: &mut Effects) {
        if now.boot < self.look_at_pools_at {
            return;
        }
        self.look_at_pools_at = now.boot + COUNT_INTERVAL;
        let parameters = self.identity.parameters;
        for (token_type, free) in self.table.free(parameters.utc_offset().day_floor(now.wall)) {
            let size = token_type.size(parameters.uint2_max());
            if u64::from(size - free) * 100 < u64::from(size) * u64::from(POOL_LOW_PERCENT) {
                self.low.remove(&token_type);
            } else if self.low.insert(token_type) {
                fx.alarms.push(Alarm::PoolLow { token_type, free, size });
            }
        }
    }
}
