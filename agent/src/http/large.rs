//! Places for large requests. Whoever reads slowly keeps one for as long as that takes, so one caller has a part of them alone.

use crate::plugin::{AccountHolder, By, Caller, CallerLimit, CallerPermit};
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
    of_callers: CallerLimit,
}

/// A place, until it is dropped. A request that is not large needs none.
pub(super) struct LargePermit<'a> {
    _taken: Option<(SemaphorePermit<'a>, CallerPermit)>,
}

impl Default for Large {
    fn default() -> Self {
        Self { all: Semaphore::new(LARGE_MAX), of_callers: CallerLimit::new(CALLER_MAX) }
    }
}

impl Large {
    /// A place for a request for `n` IDs of that caller, if it needs one; `None` if there is none.
    pub(super) fn take(&self, n: u32, caller: Caller<'_>) -> Option<LargePermit<'_>> {
        if n <= LARGE {
            return Some(LargePermit { _taken: None });
        }
        let all = self.all.try_acquire().ok()?;
        let part = self.of_callers.take(Some(AccountHolder::of(By::Caller, caller)), 1)?;
        Some(LargePermit { _taken: Some((all, part)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(of_six.len(), CALLER_MAX);
        assert_eq!(taken("127.0.0.1").len(), LARGE_MAX - 2 * CALLER_MAX);
        drop((of_one, of_six));
        assert_eq!(taken("::1").len(), LARGE_MAX);
    }
}
