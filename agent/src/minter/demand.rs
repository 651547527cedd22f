//! Tokens that a name needs and that this agent was not told to lease: small ones, for layouts with a narrow token field. They
//! are asked for when the name is first used, so that agents that only know the name leave them to those that serve it.

use common::token::TokenType;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The time that the calls that need such a lease wait for the first answer of the masters. Later ones are told at once why there is
/// none.
const GRANT_WAIT: Duration = Duration::from_secs(2);

/// The types of token that were asked for in this run, and since when.
#[derive(Debug, Default)]
pub struct Demand {
    since: Mutex<BTreeMap<TokenType, Instant>>,
    heard: Notify,
}

impl Demand {
    fn since(&self) -> std::sync::MutexGuard<'_, BTreeMap<TokenType, Instant>> {
        // Plain times: whatever a panic left behind is as good as any.
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a lease of that type asked for if there is none; whether there is (`has`), `None` if nobody asks for one yet. How long it is
    /// worth waiting for it; `None` if it is not.
    pub(super) fn left(&self, token_type: TokenType, has: Option<bool>) -> Option<Duration> {
        if has == Some(true) {
            return None;
        }
        let mut demanded = self.since();
        let since = match (demanded.get(&token_type), has) {
            (Some(since), _) => *since,
            // It is asked for anyway, as the flags say.
            (None, Some(_)) => return None,
            (None, None) => {
                demanded.insert(token_type, Instant::now());
                self.heard.notify_one();
                Instant::now()
            }
        };
        GRANT_WAIT.checked_sub(since.elapsed()).filter(|left| !left.is_zero())
    }

    /// The types that are asked for because a name needs them.
    pub(crate) fn types(&self) -> BTreeSet<TokenType> {
        self.since().keys().copied().collect()
    }

    /// A run before this one needed leases of these types and has them: they are renewed, and what they are for is minted on.
    pub fn resume(&self, types: &BTreeSet<TokenType>) {
        let mut demanded = self.since();
        for token_type in types {
            demanded.entry(*token_type).or_insert_with(Instant::now);
        }
    }

    /// Waits until a further type is asked for.
    pub(crate) async fn heard(&self) {
        self.heard.notified().await;
    }
}
