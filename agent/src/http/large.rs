//! Places for large requests. Whoever reads slowly keeps one for as long as that takes, so one caller has a part of them alone.

use crate::plugin::{AccountHolder, By, Caller};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Requests for more IDs than this at once are large: some of them are served at the same time, further ones refused.
const LARGE: u32 = 20_000;
/// Large requests that are served at the same time. Each gets turns of some 0.05 ms, so others wait for a few ms at most.
pub(super) const LARGE_MAX: usize = 32;
/// Large requests of one caller that are. Those of this machine without a certificate may have all: what stands in front of an agent asks for
/// many.
pub(super) const CALLER_MAX: usize = LARGE_MAX / 4;

/// The places.
pub(super) struct Large {
    all: Semaphore,
    /// The places that each caller has; none is here without any.
    taken: Mutex<BTreeMap<AccountHolder, usize>>,
}

/// A place, until it is dropped. A request that is not large needs none.
pub(super) struct LargePermit<'a> {
    large: &'a Large,
    holder: Option<AccountHolder>,
    _permit: Option<SemaphorePermit<'a>>,
}

impl Default for Large {
    fn default() -> Self {
        Self { all: Semaphore::new(LARGE_MAX), taken: Mutex::default() }
    }
}

impl Large {
    fn taken(&self) -> MutexGuard<'_, BTreeMap<AccountHolder, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a request for `n` IDs from there, if it needs one; `None` if there is none.
    pub(super) fn take(&self, n: u32, caller: Caller<'_>) -> Option<LargePermit<'_>> {
        if n <= LARGE {
            return Some(LargePermit { large: self, holder: None, _permit: None });
        }
        let permit = self.all.try_acquire().ok()?;
        let is_of_this_machine = match caller {
            Caller::Address(from) => from.to_canonical().is_loopback(),
            Caller::Certificate(_) | Caller::Key(_) => false,
            Caller::User(_) | Caller::Label(_) => true,
        };
        let holder = (!is_of_this_machine).then(|| AccountHolder::of(By::Caller, caller));
        if let Some(holder) = holder {
            let mut taken = self.taken();
            let its = taken.entry(holder).or_default();
            if *its >= CALLER_MAX {
                return None;
            }
            *its += 1;
        }
        Some(LargePermit { large: self, holder, _permit: Some(permit) })
    }
}

impl Drop for LargePermit<'_> {
    fn drop(&mut self) {
        let Some(holder) = self.holder else { return };
        let mut taken = self.large.taken();
        if let Some(its) = taken.get_mut(&holder) {
            *its = its.saturating_sub(1);
            if *its == 0 {
                taken.remove(&holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::tls::Role;

    #[test]
    fn one_caller_has_a_part_and_this_machine_all() {
        let large = Large::default();
        let from = |address: &str| Caller::Address(address.parse().unwrap());
        let taken = |address: &str| -> Vec<_> { std::iter::from_fn(|| large.take(LARGE + 1, from(address))).collect() };
        let of_one = taken("10.0.0.1");
        assert_eq!(of_one.len(), CALLER_MAX);
        assert!(large.take(LARGE + 1, from("::ffff:10.0.0.1")).is_none());
        assert!(large.take(LARGE, from("10.0.0.1")).is_some(), "it is not large");
        let of_six = taken("2001:db8::1");
        assert!(of_six.len() == CALLER_MAX && large.take(LARGE + 1, from("2001:db8::2")).is_none());
        assert_eq!(taken("127.0.0.1").len(), LARGE_MAX - 2 * CALLER_MAX);
        let role: Role = "uniq://client/billing".parse().unwrap();
        let certified = || large.take(LARGE + 1, Caller::Certificate(&role));
        drop(of_six);
        let of_client: Vec<_> = std::iter::from_fn(certified).collect();
        assert_eq!(of_client.len(), CALLER_MAX);
        drop((of_one, of_client));
        assert!(large.taken().is_empty());
        assert_eq!(taken("::1").len(), LARGE_MAX);
    }
}
