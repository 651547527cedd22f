//! Tokens that a name needs and that this agent was not told to lease: small ones, for layouts with a narrow token field. They
//! are asked for when the name is first used, so that agents that only know the name leave them to those that serve it.

use super::Minter;
use common::token::TokenType;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The time that the calls that need such a lease wait for the first answer of the masters. Later ones are told at once why there is
/// none.
const GRANT_WAIT: Duration = Duration::from_secs(2);

/// What was asked for in this run, and since when.
#[derive(Debug, Default)]
pub(super) struct Demand {
    since: Mutex<BTreeMap<TokenType, Instant>>,
    heard: Notify,
}

impl Demand {
    fn since(&self) -> std::sync::MutexGuard<'_, BTreeMap<TokenType, Instant>> {
        // Plain times: whatever a panic left behind is as good as any.
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Minter {
    /// Has a lease of that type asked for, if it is one to be asked for on demand and there is none. How long it is worth
    /// waiting for it; `None` if it is not.
    pub(super) fn demand(&self, token_type: TokenType) -> Option<Duration> {
        if !token_type.is_on_demand() {
            return None;
        }
        let has = self.published.load().leases.get(&token_type).map(|view| view.grant().is_some());
        if has == Some(true) {
            return None;
        }
        let mut demanded = self.demand.since();
        let since = match (demanded.get(&token_type), has) {
            (Some(since), _) => *since,
            // It is asked for anyway, as the flags say.
            (None, Some(_)) => return None,
            (None, None) => {
                demanded.insert(token_type, Instant::now());
                self.demand.heard.notify_one();
                Instant::now()
            }
        };
        GRANT_WAIT.checked_sub(since.elapsed()).filter(|left| !left.is_zero())
    }

    /// The types that are asked for because a name needs them.
    pub(crate) fn demanded(&self) -> BTreeSet<TokenType> {
        self.demand.since().keys().copied().collect()
    }

    /// A run before this one needed leases of these types and has them: they are renewed, and what they are for is minted on.
    pub fn demanded_before(&self, types: &BTreeSet<TokenType>) {
        let mut demanded = self.demand.since();
        for token_type in types {
            demanded.entry(*token_type).or_insert_with(Instant::now);
        }
    }

    /// Waits until a further type is asked for.
    pub(crate) async fn demand_heard(&self) {
        self.demand.heard.notified().await;
    }

    /// Waits for a lease that has to be asked for first, for a moment. What came of it the gates say.
    pub(super) async fn leased(&self, token_type: TokenType) {
        loop {
            // First, so that no change is missed.
            let changed = self.leases_changed.notified();
            let Some(left) = self.demand(token_type) else { return };
            // Whichever of both it was is looked at again.
            let _ = tokio::time::timeout(left, changed).await;
        }
    }
}
