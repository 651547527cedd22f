//! A budget of the bytes that all connections of a listener may make a program keep.
//!
//! Requests and answers of the usual size are not counted: their number is bounded, and so is their size. Whatever is larger
//! comes out of one budget: frames as they grow, requests until they are answered, answers until they are sent. Nothing waits
//! for the budget without a bound: a frame has a time limit, a call its deadline, a request over HTTP is refused at once, and an
//! answer that nobody reads ends its connection. So whoever holds a part of it gives it back. And one caller has three quarters of it at
//! most, however many connections it has: others find some left.

use super::turns::CallerId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The part of a budget that one caller may have, in hundredths.
const CALLER_PERCENT: u64 = 75;
/// Callers that are known before those who hold nothing are forgotten.
const CALLERS_KEPT: usize = 1_024;

/// Bytes that connections share. Clones share them too.
#[derive(Clone, Debug)]
pub struct Budget {
    left: Arc<Semaphore>,
    bytes_max: u32,
    /// The parts of callers, of which each has left what is not taken.
    of_callers: Arc<Mutex<BTreeMap<CallerId, Weak<Semaphore>>>>,
}

/// A budget as one caller has it.
#[derive(Clone, Debug)]
pub struct CallerBudget {
    all: Budget,
    own: Arc<Semaphore>,
}

/// A part of a budget that a caller has; dropped, it goes back.
#[derive(Debug)]
pub struct CallerCharge {
    own: Charge,
    all: Charge,
}

/// A part of a budget; dropped, it goes back.
pub type Charge = OwnedSemaphorePermit;

impl Budget {
    /// A budget of so many bytes.
    pub fn new(bytes_max: u32) -> Self {
        Self { left: Arc::new(Semaphore::new(bytes_max as usize)), bytes_max, of_callers: Arc::default() }
    }

    /// The same as that caller has it.
    pub fn of(&self, caller: CallerId) -> CallerBudget {
        let mut parts = self.of_callers.lock().unwrap_or_else(PoisonError::into_inner);
        let own = parts.get(&caller).and_then(Weak::upgrade).unwrap_or_else(|| {
            if parts.len() >= CALLERS_KEPT {
                parts.retain(|_, part| part.strong_count() > 0);
            }
            let own = Arc::new(Semaphore::new(self.of_one() as usize));
            parts.insert(caller, Arc::downgrade(&own));
            own
        });
        CallerBudget { all: self.clone(), own }
    }

    /// The bytes that one caller may have.
    fn of_one(&self) -> u32 {
        u32::try_from(u64::from(self.bytes_max) * CALLER_PERCENT / 100).unwrap_or(self.bytes_max)
    }

    /// Bytes that nobody holds.
    pub fn left(&self) -> usize {
        self.left.available_permits()
    }

    pub(crate) fn within(&self, bytes: usize) -> u32 {
        u32::try_from(bytes).unwrap_or(u32::MAX).min(self.bytes_max)
    }

    pub(crate) fn semaphore(&self) -> Arc<Semaphore> {
        Arc::clone(&self.left)
    }
}

impl CallerBudget {
    /// Waits for so many bytes, or for all that the caller may have if these are fewer.
    pub async fn take(&self, bytes: usize) -> Option<CallerCharge> {
        let bytes = self.all.within(bytes).min(self.all.of_one());
        // Nobody closes them. Its own first: who waits for that holds nothing that others wait for.
        let own = Arc::clone(&self.own).acquire_many_owned(bytes).await.ok()?;
        Some(CallerCharge { own, all: self.all.semaphore().acquire_many_owned(bytes).await.ok()? })
    }

    /// Takes so many bytes, if there are as many now.
    pub fn try_take(&self, bytes: usize) -> Option<CallerCharge> {
        let bytes = u32::try_from(bytes).ok()?;
        let own = Arc::clone(&self.own).try_acquire_many_owned(bytes).ok()?;
        Some(CallerCharge { own, all: self.all.semaphore().try_acquire_many_owned(bytes).ok()? })
    }
}

impl CallerCharge {
    /// The bytes that it is.
    pub fn bytes(&self) -> usize {
        self.all.num_permits()
    }

    /// Adds what the same caller took of the same budget.
    pub fn merge(&mut self, other: Self) {
        self.own.merge(other.own);
        self.all.merge(other.all);
    }

    /// Gives back what is more than that.
    pub fn keep(&mut self, bytes: usize) {
        let more = self.bytes().saturating_sub(bytes);
        drop((self.own.split(more), self.all.split(more)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(nth: usize) -> CallerId {
        CallerId::of(nth)
    }

    #[test]
    fn nobody_gets_more_at_once_than_there_is_and_one_caller_three_quarters() {
        let budget = Budget::new(1_000);
        let [one, two] = [1, 2].map(|nth| budget.of(caller(nth)));
        let mut held = one.try_take(600).unwrap();
        assert!(one.try_take(151).is_none() && budget.of(caller(1)).try_take(151).is_none());
        assert!(two.try_take(401).is_none() && two.try_take(usize::MAX).is_none());
        let other = two.try_take(400).unwrap();
        assert_eq!((other.bytes(), budget.left()), (400, 0));
        drop(other);
        held.merge(one.try_take(150).unwrap());
        held.keep(100);
        assert_eq!((held.bytes(), budget.left()), (100, 900));
        drop(held);
        assert!(one.try_take(751).is_none() && one.try_take(750).is_some());
    }

    #[tokio::test]
    async fn whoever_waits_for_its_own_part_keeps_nobody_else_waiting() {
        let budget = Budget::new(1_000);
        let [one, two] = [1, 2].map(|nth| budget.of(caller(nth)));
        let held = one.take(usize::MAX).await.unwrap();
        assert_eq!(held.bytes(), 750);
        let (mut more, all) = (Box::pin(one.take(10)), two.take(250));
        assert!(futures::poll!(&mut more).is_pending());
        assert_eq!(all.await.unwrap().bytes(), 250);
        drop(held);
        assert_eq!(more.await.unwrap().bytes(), 10);
    }

    #[test]
    fn callers_who_hold_nothing_are_forgotten() {
        let budget = Budget::new(1_000);
        let held = budget.of(caller(0)).try_take(700);
        (0..3 * CALLERS_KEPT).for_each(|nth| drop(budget.of(caller(nth))));
        assert!(budget.of_callers.lock().unwrap().len() <= CALLERS_KEPT);
        assert!(budget.of(caller(0)).try_take(51).is_none());
        drop(held);
        assert!(budget.of(caller(0)).try_take(51).is_some());
    }
}
