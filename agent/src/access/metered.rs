//! A key with what was taken by it here.

use crate::plugin::Account;
use crate::refusal::Refusal;
use common::api_key::{ApiKey, KeyAction};
use common::quota::IdQuota;
use common::time::BootMs;
use std::sync::{Arc, Mutex, PoisonError};

/// A key with what was taken by it here, in this run.
#[derive(Debug)]
pub(crate) struct KnownKey {
    pub(crate) key: ApiKey,
    /// Shared by all that the key of this name has been, so that replacing it gives nothing anew.
    account: Arc<Mutex<Account>>,
}

impl KnownKey {
    /// The key as it is now, after those that were known before.
    pub(super) fn after(before: &[Arc<Self>], key: ApiKey) -> Self {
        let same = before.iter().find(|known| known.key.name == key.name);
        Self { account: same.map(|known| Arc::clone(&known.account)).unwrap_or_default(), key }
    }

    pub(super) fn opens(&self, action: KeyAction, name: Option<&str>) -> bool {
        self.key.agents().is_some_and(|scope| scope.opens(action, name))
    }

    pub(super) fn quota(&self) -> Option<IdQuota> {
        self.key.agents()?.quota
    }

    /// Counts `n` IDs. What was counted stays so, whatever becomes of the call.
    ///
    /// # Errors
    /// [`Refusal::KeyUsedUp`]; then nothing is counted.
    pub(super) fn take(&self, n: u32, now: impl FnOnce() -> BootMs) -> Result<(), Refusal> {
        let Some(quota) = self.quota() else { return Ok(()) };
        let mut account = self.account.lock().unwrap_or_else(PoisonError::into_inner);
        account.take(quota, now(), n).map_err(|excess| {
            let why = excess.told(format_args!("this agent's part of the API key {}", self.key.name), "", n);
            Refusal::KeyUsedUp { why, retry: excess.retry }
        })
    }
}
