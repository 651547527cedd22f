//! Places for large requests. Whoever reads slowly keeps one for as long as that takes, so one network has a part of them alone.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Requests for more IDs than this at once are large: some of them are served at the same time, further ones refused.
const LARGE: u32 = 20_000;
/// Large requests that are served at the same time. Each gets turns of some 0.05 ms, so others wait for a few ms at most.
pub(super) const LARGE_MAX: usize = 32;
/// Large requests of callers of one network that are: an IPv4 address, or the network that one IPv6 host usually has. Callers of this machine may have all: what
/// stands in front of an agent asks for many.
pub(super) const NETWORK_MAX: usize = LARGE_MAX / 4;
/// The bits of an IPv6 address that say which network it is of.
const NETWORK_BITS: u32 = 64;

/// The places.
pub(super) struct Large {
    all: Semaphore,
    /// The places that each network has; none is here without any.
    taken: Mutex<BTreeMap<IpAddr, usize>>,
}

/// A place, until it is dropped. A request that is not large needs none.
pub(super) struct LargePermit<'a> {
    large: &'a Large,
    network: Option<IpAddr>,
    _permit: Option<SemaphorePermit<'a>>,
}

impl Default for Large {
    fn default() -> Self {
        Self { all: Semaphore::new(LARGE_MAX), taken: Mutex::default() }
    }
}

impl Large {
    fn taken(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a request for `n` IDs from there, if it needs one; `None` if there is none.
    pub(super) fn take(&self, n: u32, from: Option<IpAddr>) -> Option<LargePermit<'_>> {
        if n <= LARGE {
            return Some(LargePermit { large: self, network: None, _permit: None });
        }
        let permit = self.all.try_acquire().ok()?;
        let network = from.map(network_of).filter(|network| !network.is_loopback());
        if let Some(network) = network {
            let mut taken = self.taken();
            let its = taken.entry(network).or_default();
            if *its >= NETWORK_MAX {
                return None;
            }
            *its += 1;
        }
        Some(LargePermit { large: self, network, _permit: Some(permit) })
    }
}

impl Drop for LargePermit<'_> {
    fn drop(&mut self) {
        let Some(network) = self.network else { return };
        let mut taken = self.large.taken();
        if let Some(its) = taken.get_mut(&network) {
            *its = its.saturating_sub(1);
            if *its == 0 {
                taken.remove(&network);
            }
        }
    }
}

fn network_of(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> NETWORK_BITS << NETWORK_BITS))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_network_has_a_part_and_this_machine_all() {
        let large = Large::default();
        let from = |address: &str| Some(address.parse().unwrap());
        let taken = |address: &str| -> Vec<_> { std::iter::from_fn(|| large.take(LARGE + 1, from(address))).collect() };
        let of_one = taken("10.0.0.1");
        assert_eq!(of_one.len(), NETWORK_MAX);
        assert!(large.take(LARGE + 1, from("::ffff:10.0.0.1")).is_none());
        assert!(large.take(LARGE, from("10.0.0.1")).is_some(), "it is not large");
        let of_six = taken("2001:db8::1");
        assert!(of_six.len() == NETWORK_MAX && large.take(LARGE + 1, from("2001:db8::2")).is_none());
        assert_eq!(taken("127.0.0.1").len(), LARGE_MAX - 2 * NETWORK_MAX);
        drop((of_one, of_six));
        assert!(large.taken().is_empty());
        assert_eq!(taken("::1").len(), LARGE_MAX);
    }
}
