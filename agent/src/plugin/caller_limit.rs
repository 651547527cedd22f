//! A finite thing that callers hold for a while, such as places in a queue, of which one caller has a part: others find some of it left.

use super::accounts::AccountHolder;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The units that each caller holds, at most so many. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct CallerLimit {
    most: usize,
    /// Callers that hold none are not in it.
    held: Arc<Mutex<BTreeMap<AccountHolder, usize>>>,
}

/// Units that a caller holds, until it is dropped.
#[derive(Debug)]
pub(crate) struct CallerPermit {
    limit: CallerLimit,
    holder: Option<AccountHolder>,
    units: usize,
}

impl CallerLimit {
    pub(crate) fn new(most: usize) -> Self {
        Self { most: most.max(1), held: Arc::default() }
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<AccountHolder, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many more units for that caller, or for this process; `None`: with them the caller would have more than its part. Whoever asks for
    /// more than there are at all has them all.
    pub(crate) fn take(&self, holder: Option<AccountHolder>, units: usize) -> Option<CallerPermit> {
        let units = units.min(self.most);
        let holder = holder.and_then(AccountHolder::counted);
        if let Some(holder) = holder {
            let mut held = self.held();
            let its = held.entry(holder).or_default();
            if *its + units > self.most {
                return None;
            }
            *its += units;
        }
        Some(CallerPermit { limit: self.clone(), holder, units })
    }
}

impl Drop for CallerPermit {
    fn drop(&mut self) {
        let Some(holder) = self.holder else { return };
        let mut held = self.limit.held();
        if let Some(its) = held.get_mut(&holder) {
            *its -= self.units;
            if *its == 0 {
                held.remove(&holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{By, Caller};
    use super::*;
    use net::tls::Role;

    #[test]
    fn one_caller_has_a_part_and_gives_it_back() {
        let limit = CallerLimit::new(8);
        let of = |caller| Some(AccountHolder::of(By::Caller, caller));
        let from = |address: &str| of(Caller::Address(address.parse().unwrap()));
        let taken = |holder| -> Vec<_> { std::iter::from_fn(|| limit.take(holder, 1)).take(100).collect() };
        let of_one = taken(from("10.0.0.1"));
        assert!(of_one.len() == 8 && limit.take(from("::ffff:10.0.0.1"), 1).is_none());
        let of_six = taken(from("2001:db8::1"));
        assert!(of_six.len() == 8 && limit.take(from("2001:db8::2"), 1).is_none(), "one network");
        let role: Role = "uniq://client/billing".parse().unwrap();
        assert_eq!(taken(of(Caller::Certificate(&role))).len(), 8);
        for uncounted in [None, of(Caller::User(7)), from("127.0.0.2"), from("::1"), from("::ffff:127.0.0.1")] {
            assert_eq!(taken(uncounted).len(), 100, "{uncounted:?}");
        }
        drop((of_one, of_six));
        let many = limit.take(from("10.0.0.1"), 5);
        assert!(limit.take(from("10.0.0.1"), 4).is_none() && limit.take(from("10.0.0.1"), 3).is_some());
        assert!(limit.take(from("10.0.0.2"), 100).is_some(), "all that there are");
        drop(many);
        assert!(limit.held().is_empty());
    }
}
