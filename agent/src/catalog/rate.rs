//! The number of names that one caller of an agent may register, by whatever listener it comes: a part of what the masters let this agent register
//! for all, so that none uses that up.

use crate::refusal::Refusal;
use common::setting::{CALLER_NAME_EACH, CALLER_NAMES_AT_ONCE};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// After how long an address may register another name.
const EACH: Duration = Duration::from_millis(CALLER_NAME_EACH.0.unsigned_abs());
/// Addresses that are remembered; of more, those that have waited longest are forgotten.
const ADDRESSES_MAX: usize = 4_096;

/// When each address will have no registration to its account: a moment ahead for each of its last ones.
#[derive(Debug, Default)]
pub(super) struct NameRate(Mutex<BTreeMap<IpAddr, Instant>>);

impl NameRate {
    /// Counts a registration, or with `dry_run` only says whether it would be counted.
    ///
    /// # Errors
    /// [`Refusal::TooManyNames`]; then it is not counted.
    pub(super) fn count(&self, from: IpAddr, now: Instant, dry_run: bool) -> Result<(), Refusal> {
        let from = from.to_canonical();
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let even = accounts.get(&from).copied().unwrap_or(now).max(now) + EACH;
        if even - now > EACH * CALLER_NAMES_AT_ONCE {
            return Err(Refusal::TooManyNames { from, max: CALLER_NAMES_AT_ONCE, each: CALLER_NAME_EACH });
        }
        if dry_run {
            return Ok(());
        }
        if accounts.len() >= ADDRESSES_MAX && !accounts.contains_key(&from) {
            accounts.retain(|_, even| *even > now);
            let first = accounts.iter().min_by_key(|(_, even)| **even).map(|(address, _)| *address);
            if let Some(first) = first.filter(|_| accounts.len() >= ADDRESSES_MAX) {
                accounts.remove(&first);
            }
        }
        accounts.insert(from, even);
        Ok(())
    }

    /// Takes a registration back that made no new name.
    pub(super) fn give_back(&self, from: IpAddr) {
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(even) = accounts.get_mut(&from.to_canonical()) {
            *even = even.checked_sub(EACH).unwrap_or(*even);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_burst_and_then_one_now_and_then() {
        let (rate, now) = (NameRate::default(), Instant::now());
        let (one, other): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let dressed: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        for _ in 0..CALLER_NAMES_AT_ONCE {
            rate.count(one, now, true).unwrap();
            rate.count(one, now, false).unwrap();
        }
        assert!(matches!(rate.count(dressed, now, false), Err(Refusal::TooManyNames { .. })));
        assert!(matches!(rate.count(dressed, now, true), Err(Refusal::TooManyNames { .. })));
        assert_eq!(rate.count(other, now, false), Ok(()));
        assert_eq!(rate.count(one, now + EACH, false), Ok(()));
        assert!(rate.count(one, now + EACH, false).is_err());
        rate.give_back(one);
        assert_eq!(rate.count(one, now + EACH, false), Ok(()));
        for n in 0..2 * ADDRESSES_MAX as u32 {
            rate.count(IpAddr::from(n.to_be_bytes()), now, false).unwrap();
        }
        assert!(rate.0.lock().unwrap().len() <= ADDRESSES_MAX);
    }
}
