//! A budget of the bytes that all connections of a listener may make a program keep.
//!
//! Requests and answers of the usual size are not counted: their number is bounded, and so is their size. Whatever is larger
//! comes out of one budget: frames as they grow, requests until they are answered, answers until they are sent. Nothing waits
//! for the budget without a bound: a frame has a time limit, a call its deadline, a request over HTTP is refused at once, and an
//! answer that nobody reads ends its connection. So whoever holds a part of it gives it back.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that connections share. Clones share them too.
#[derive(Clone, Debug)]
pub struct Budget {
    left: Arc<Semaphore>,
    bytes_max: u32,
}

/// A part of a budget; dropped, it goes back.
pub type Charge = OwnedSemaphorePermit;

impl Budget {
    /// A budget of so many bytes.
    pub fn new(bytes_max: u32) -> Self {
        Self { left: Arc::new(Semaphore::new(bytes_max as usize)), bytes_max }
    }

    /// Bytes that nobody holds.
    pub fn left(&self) -> usize {
        self.left.available_permits()
    }

    /// Waits for so many bytes, or for all there are if there are fewer.
    pub async fn take(&self, bytes: usize) -> Option<Charge> {
        // Nobody closes it.
        Arc::clone(&self.left).acquire_many_owned(self.within(bytes)).await.ok()
    }

    /// Takes so many bytes, if there are as many now.
    pub fn try_take(&self, bytes: usize) -> Option<Charge> {
        Arc::clone(&self.left).try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()
    }

    pub(crate) fn within(&self, bytes: usize) -> u32 {
        u32::try_from(bytes).unwrap_or(u32::MAX).min(self.bytes_max)
    }

    pub(crate) fn semaphore(&self) -> Arc<Semaphore> {
        Arc::clone(&self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gets_more_at_once_than_there_is() {
        let budget = Budget::new(1_000);
        let held = budget.try_take(600).unwrap();
        assert!(budget.try_take(401).is_none() && budget.try_take(usize::MAX).is_none());
        assert_eq!((budget.try_take(400).map(|taken| taken.num_permits()), budget.left()), (Some(400), 400));
        drop(held);
        assert!(budget.try_take(1_001).is_none() && budget.try_take(1_000).is_some());
    }
}
