//! Calls that get no IDs: who is told of them, how many there are, and what they may have of the last IDs of an hour or day.

use crate::plugin::{AccountHolder, Call, Refusals, Shares};
use crate::refusal::Refusal;
use net::rpc::mint::MintCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// See the module.
#[derive(Debug, Default)]
pub struct Calls {
    handler: Refusals,
    refused: [AtomicU64; MintCode::ALL.len()],
    shares: Mutex<Shares<usize>>,
}

impl Calls {
    /// The handler that is told of calls that get no IDs.
    pub fn refusals(&self) -> &Refusals {
        &self.handler
    }

    /// Counts a request that was refused, for whatever reason. Whoever answers it calls this.
    pub fn refuse(&self, code: MintCode) {
        if let Some(refused) = self.refused.get(code as usize) {
            refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Requests refused, by code.
    pub fn refused(&self) -> impl Iterator<Item = (MintCode, u64)> {
        MintCode::ALL.iter().copied().zip(self.refused.iter().map(|n| n.load(Ordering::Relaxed)))
    }

    /// Tells of a call that gets no IDs, and counts it.
    #[cold]
    #[inline(never)]
    pub(crate) fn tell(&self, call: &Call<'_>, refusal: &Refusal) {
        self.refuse(refusal.code());
        self.handler.tell_refusal(call, refusal);
    }

    /// The same of one that HTTP refused in its own words.
    #[cfg(feature = "server")]
    #[cold]
    #[inline(never)]
    pub(crate) fn tell_failure(&self, call: &Call<'_>, failure: &crate::plugin::Failure<'_>) {
        self.refuse(failure.code);
        self.handler.tell(call, failure);
    }

    /// Takes a share of the IDs that are `left` in a bucket of a series; tells whether the caller may have it.
    pub(super) fn take_share(&self, of: (usize, u32), caller: &AccountHolder, n: u32, left: u64) -> bool {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner).take(of, caller, n, left)
    }
}
