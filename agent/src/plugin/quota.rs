//! `quota`: so many IDs a second or a day by one name, for everybody together or for each caller.

use super::accounts::{AccountHolder, Accounts, Excess};
use super::{Call, Failure, Plugin, PluginRefusal, Stage};
use common::plugin::{By, QuotaSpec};
use net::rpc::mint::MintCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Callers that have accounts of their own in all quotas of an agent together: some 30 MB.
pub const ACCOUNTS_MAX: usize = 262_144;

/// The accounts that all quotas have.
#[derive(Clone, Debug, Default)]
pub(super) struct Room(Arc<AtomicUsize>);

/// One quota of one name.
#[derive(Debug)]
pub(super) struct Quota {
    by: By,
    accounts: Mutex<Accounts>,
    room: Room,
}

impl Quota {
    pub(super) fn new(spec: QuotaSpec, room: Room) -> Self {
        Self { by: spec.by(), accounts: Mutex::new(Accounts::new(spec)), room }
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let had = self.accounts.get_mut().unwrap_or_else(PoisonError::into_inner).len();
        self.room.0.fetch_sub(had, Ordering::Relaxed);
    }
}

impl Plugin for Quota {
    fn name(&self) -> &str {
        "quota"
    }

    fn before(&self, call: &Call<'_>) -> Result<(), PluginRefusal> {
        let holder = AccountHolder::of(self.by, call.caller);
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let had = accounts.len();
        // As many threads as are here at once may go one too far.
        let free = ACCOUNTS_MAX.saturating_sub(self.room.0.load(Ordering::Relaxed));
        let taken = accounts.take(call.now.boot, &holder, call.n, had + free);
        let has = accounts.len();
        if has >= had {
            self.room.0.fetch_add(has - had, Ordering::Relaxed);
        } else {
            self.room.0.fetch_sub(had - has, Ordering::Relaxed);
        }
        drop(accounts);
        taken.map_err(|excess| refusal(call, self.by, excess))
    }

    fn failed(&self, call: &Call<'_>, failure: &Failure<'_>) {
        match failure.stage {
            Stage::Before | Stage::Minting => {
                let holder = AccountHolder::of(self.by, call.caller);
                let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
                accounts.give_back(call.now.boot, &holder, call.n);
            }
            // Serials were used up for it.
            Stage::After | Stage::GivenUp => {}
        }
    }
}

fn refusal(call: &Call<'_>, by: By, excess: Excess) -> PluginRefusal {
    let whose = match by {
        By::Name => " by this name",
        By::Caller => " for one caller by this name",
    };
    let refusal =
        PluginRefusal::new(MintCode::QuotaExceeded, excess.told(format_args!("'{}'", call.name), whose, call.n));
    match excess.retry {
        Some(retry) => refusal.retry_after(retry),
        None => refusal,
    }
}
