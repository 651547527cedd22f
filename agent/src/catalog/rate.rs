//! The number of names that one caller of an agent may register, by whatever listener it comes: a part of what the masters let this agent register
//! for all, so that none uses that up.

use crate::plugin::{AccountHolder, By, Caller};
use crate::refusal::Refusal;
use common::setting::{CALLER_NAME_EACH, CALLER_NAMES_AT_ONCE};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time after which a caller may register another name.
const EACH: Duration = Duration::from_millis(CALLER_NAME_EACH.0.unsigned_abs());
/// Callers that are remembered; of more, those that have waited longest are forgotten.
const CALLERS_MAX: usize = 4_096;

/// The moment at which each caller will have no registration to its account: ahead by one interval for each of its last ones.
#[derive(Debug, Default)]
pub(super) struct NameRate(Mutex<BTreeMap<AccountHolder, Instant>>);

impl NameRate {
    /// Counts a registration, or with `dry_run` only says whether it would be counted.
    ///
    /// # Errors
    /// [`Refusal::TooManyNames`]; then it is not counted.
    pub(super) fn count(&self, caller: Caller<'_>, now: Instant, dry_run: bool) -> Result<(), Refusal> {
        let (holder, mut accounts) =
            (AccountHolder::of(By::Caller, caller), self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let even = accounts.get(&holder).copied().unwrap_or(now).max(now) + EACH;
        if even - now > EACH * CALLER_NAMES_AT_ONCE {
            return Err(Refusal::TooManyNames {
                caller: caller.to_string(),
                max: CALLER_NAMES_AT_ONCE,
                each: CALLER_NAME_EACH,
            });
        }
        if dry_run {
            return Ok(());
        }
        if accounts.len() >= CALLERS_MAX && !accounts.contains_key(&holder) {
            accounts.retain(|_, even| *even > now);
            let first = accounts.iter().min_by_key(|(_, even)| **even).map(|(holder, _)| *holder);
            if let Some(first) = first.filter(|_| accounts.len() >= CALLERS_MAX) {
                accounts.remove(&first);
            }
        }
        accounts.insert(holder, even);
        Ok(())
    }

    /// Takes a registration back that made no new name.
    pub(super) fn give_back(&self, caller: Caller<'_>) {
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(even) = accounts.get_mut(&AccountHolder::of(By::Caller, caller)) {
            *even = even.checked_sub(EACH).unwrap_or(*even);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_has_its_burst_and_then_one_now_and_then() {
        let (rate, now) = (NameRate::default(), Instant::now());
        let of = |address: &str| Caller::Address(address.parse().unwrap());
        let (one, other, dressed) = (of("10.0.0.1"), of("10.0.0.2"), of("::ffff:10.0.0.1"));
        for _ in 0..CALLER_NAMES_AT_ONCE {
            rate.count(one, now, true).unwrap();
            rate.count(one, now, false).unwrap();
        }
        assert!(matches!(rate.count(dressed, now, false), Err(Refusal::TooManyNames { .. })));
        assert!(matches!(rate.count(dressed, now, true), Err(Refusal::TooManyNames { .. })));
        assert_eq!(rate.count(other, now, false), Ok(()));
        // One machine has as many addresses of a network as it likes.
        for n in 0..CALLER_NAMES_AT_ONCE {
            rate.count(of(&format!("2001:db8::{n:x}")), now, false).unwrap();
        }
        assert!(rate.count(of("2001:db8::ffff"), now, false).is_err());
        assert_eq!(rate.count(of("2001:db8:0:1::1"), now, false), Ok(()));
        assert_eq!(rate.count(one, now + EACH, false), Ok(()));
        assert!(rate.count(one, now + EACH, false).is_err());
        rate.give_back(one);
        assert_eq!(rate.count(one, now + EACH, false), Ok(()));
        for n in 0..2 * CALLERS_MAX as u32 {
            rate.count(Caller::Address(n.to_be_bytes().into()), now, false).unwrap();
        }
        assert!(rate.0.lock().unwrap().len() <= CALLERS_MAX);
    }
}
