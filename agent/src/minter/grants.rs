//! The masters' grants, as minting sees it without a lock: leases and the cluster they are of.

use super::PATIENCE;
use super::demand::Demand;
use super::time::{TICK, Time};
use crate::holder::{Confirmation, Leases};
use crate::refusal::Refusal;
use arc_swap::{ArcSwap, ArcSwapOption};
use common::calendar::UtcOffset;
use common::kind::{Reading, TokenText};
use common::lease::{Generation, Grant};
use common::parameters::ClusterId;
use common::time::SpanMs;
use common::token::{TokenFamily, TokenKey, TokenType, TokenValue};
use engine::{Membership, Published};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// [`PATIENCE`], as a span of the clock's.
const PATIENCE_MS: SpanMs = SpanMs::seconds(PATIENCE.as_secs() as i64);

/// The engine's last published state, and those who wait for more.
pub struct Grants {
    published: ArcSwap<Published>,
    /// Told when something was published.
    changed: Notify,
    /// The leases that the session had when it was resumed.
    kept: Vec<(TokenKey, Generation)>,
    /// The masters' last words when they did not do as asked.
    why: ArcSwapOption<String>,
    demand: Demand,
}

impl Grants {
    pub(super) fn new(published: Published, kept: Vec<(TokenKey, Generation)>) -> Self {
        Self {
            published: ArcSwap::from_pointee(published),
            changed: Notify::new(),
            kept,
            why: ArcSwapOption::empty(),
            demand: Demand::default(),
        }
    }

    pub(super) fn publish(&self, published: &Published) {
        self.published.store(Arc::new(published.clone()));
        self.changed.notify_waiters();
    }

    /// Leases that are asked for because a name needs them.
    pub fn demand(&self) -> &Demand {
        &self.demand
    }

    /// The leases as minting sees them.
    pub fn leases(&self) -> Leases {
        self.published.load().leases.clone()
    }

    /// The cluster this agent belongs to.
    pub fn membership(&self) -> Membership {
        self.published.load().membership
    }

    /// The offset in which that counts; UTC while it is not known.
    pub(super) fn utc_offset(&self) -> UtcOffset {
        self.membership().parameters.map(|parameters| parameters.utc_offset()).unwrap_or_default()
    }

    /// The masters' decision on the leases that a resumed session kept.
    pub fn confirmation(&self) -> Confirmation {
        self.published.load().confirmation(&self.kept)
    }

    /// The cluster of the master at that address if it was another one when it was last heard.
    pub(crate) fn stranger(&self, address: &str) -> Option<ClusterId> {
        self.published.load().strangers.get(address).copied()
    }

    /// The reason why nothing is minted, if that is because a master of our list belongs to another cluster.
    pub(crate) fn wrong_cluster(&self) -> Option<Refusal> {
        self.published.load().wrong_cluster()
    }

    /// The lease to mint under, and the offset in which its cluster counts.
    pub(super) fn lease(&self, token_type: TokenType, time: &Time) -> Result<(Grant, UtcOffset), Refusal> {
        self.published.load().lease(token_type, time.real_boot(), || self.why())
    }

    /// Tells whether this agent has a lease of the token of that reading which spans its time.
    pub fn leases_token_of(&self, reading: &Reading) -> bool {
        let Some(at) = reading.instant(self.utc_offset()) else { return false };
        let Some(token) = &reading.token else { return false };
        let same = |grant: &Grant| match token {
            TokenText::Number(token) => grant.key.family == TokenFamily::Uint && grant.key.value == TokenValue(*token),
            TokenText::Characters(token) => grant.key.family != TokenFamily::Uint && grant.key.text() == *token,
        };
        let spans = |grant: &Grant| grant.from <= at && at < grant.until;
        self.published.load().leases.values().filter_map(|view| view.grant()).any(|grant| same(grant) && spans(grant))
    }

    /// The reason that keeps this agent from ever minting by tokens of that type, if there is one: it does not ask for any.
    pub fn never_leases(&self, token_type: TokenType) -> Option<String> {
        let asked = token_type.is_on_demand() || self.published.load().leases.contains_key(&token_type);
        (!asked).then(|| {
            format!(
                "this agent leases no {token_type} tokens and answers no_lease for this name; agents that shall serve it need \
                 {token_type} in --token-types"
            )
        })
    }

    /// The types by which names shall be minted, if there is a lease of each that spans the time. Those that only a name has asked for do
    /// not count: where the masters have no such token left, the other names go on.
    ///
    /// # Errors
    /// The reason why not.
    pub(super) fn ready(&self, time: &Time) -> Result<BTreeSet<TokenType>, Refusal> {
        let (demanded, wall) = (self.demand.types(), time.wall());
        let wanted: BTreeSet<_> =
            self.published.load().leases.keys().filter(|kind| !demanded.contains(kind)).copied().collect();
        for token_type in &wanted {
            let (grant, _) = self.lease(*token_type, time)?;
            if wall >= grant.until {
                return Err(Refusal::LeaseExpired { token_type: *token_type, until: grant.until, why: self.why() });
            }
            if wall < grant.from {
                let behind = grant.from - wall;
                return Err(Refusal::ClockBehind { behind, retry: behind });
            }
        }
        Ok(wanted)
    }

    /// The masters' last words when they did not do as asked; it completes what callers are told.
    pub fn explain(&self, why: Option<String>) {
        self.why.store(why.map(Arc::new));
    }

    pub(super) fn why(&self) -> String {
        self.why.load().as_deref().cloned().unwrap_or_else(|| "the masters have not granted one yet".to_owned())
    }

    /// Has a lease of that type asked for, if it is one to be asked for on demand and there is none. How long it is worth
    /// waiting for it; `None` if it is not.
    fn demand_left(&self, token_type: TokenType) -> Option<Duration> {
        let has = || self.published.load().leases.get(&token_type).map(|view| view.grant().is_some());
        token_type.is_on_demand().then(has).and_then(|has| self.demand.left(token_type, has))
    }

    /// The time that a lease of that type may still wait for the renewal that a resumed session begins with; `None` if it does
    /// not.
    fn resumption_left(&self, token_type: TokenType, time: &Time) -> Option<Duration> {
        let left = self.published.load().resumption_left(token_type, time.real_boot(), PATIENCE_MS);
        left.map(SpanMs::to_std)
    }

    async fn changed_until(&self, left: impl Fn() -> Option<Duration>) {
        loop {
            // First, so that no change is missed.
            let changed = self.changed.notified();
            let Some(left) = left() else { return };
            // Whichever of both it was is looked at again.
            let _ = tokio::time::timeout(left, changed).await;
        }
    }

    /// Waits for a lease that has to be asked for first, for a moment; then for the renewal that a resumed session begins with, at most
    /// [`RESUME_WAIT`](engine::RESUME_WAIT), or [`PATIENCE`] where nothing else will do. What came of it the gates say.
    pub(super) async fn settle(&self, token_type: TokenType, time: &Time) {
        self.changed_until(|| self.demand_left(token_type)).await;
        let resumed = self.changed_until(|| self.resumption_left(token_type, time));
        let _ = tokio::time::timeout(PATIENCE, resumed).await;
    }

    /// The same on this thread.
    pub(super) fn settle_blocking(&self, token_type: TokenType, time: &Time) {
        let mut waited = Duration::ZERO;
        let waits = || self.demand_left(token_type).is_some() || self.resumption_left(token_type, time).is_some();
        while waited < PATIENCE && waits() {
            std::thread::sleep(TICK);
            waited += TICK;
        }
    }
}
