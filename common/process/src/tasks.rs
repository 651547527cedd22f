//! The long-lived tasks of a program: if one of them ends or panics before the program is told to stop, the process ends.
//!
//! A program that goes on without one of its tasks looks alive and is not: a port that is closed for good, an agent that
//! never speaks to a master again. A supervisor starts a process that ended anew; nobody does that for a task.

use super::{end, strike};
use std::future::Future;
use tokio_util::sync::CancellationToken;

/// Watches over tasks until `stop`.
#[derive(Clone, Debug)]
pub struct Watch {
    stop: CancellationToken,
}

impl Watch {
    /// Tasks may end once `stop` is cancelled.
    pub fn new(stop: CancellationToken) -> Self {
        Self { stop }
    }

    /// Runs work as a task that must not end before the program stops.
    pub async fn over(self, name: &'static str, work: impl Future<Output = ()>) {
        let _guard = self.guard(name);
        tokio::select! {
            () = work => {}
            () = strike::wait(name) => {}
        }
    }

    /// Runs work as a task that may end when it is done, and must not panic.
    pub async fn until_done(self, name: &'static str, work: impl Future<Output = ()>) {
        let guard = self.guard(name);
        tokio::select! {
            () = work => {}
            () = strike::wait(name) => {}
        }
        guard.done();
    }

    /// A guard for a thread: dropped, also by a panic, it ends the process, unless the program stops.
    pub fn guard(&self, name: &'static str) -> Guard {
        Guard { name, stop: self.stop.clone(), done: false }
    }
}

/// See [`Watch::guard`].
#[must_use]
#[derive(Debug)]
pub struct Guard {
    name: &'static str,
    stop: CancellationToken,
    done: bool,
}

impl Guard {
    /// The task has done what it was for.
    pub fn done(mut self) {
        self.done = true;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Self { name, .. } = self;
        if std::thread::panicking() {
            end::now(&format!("the task '{name}' panicked: the process exits, so that a restart finds it whole"));
        }
        if !self.done && !self.stop.is_cancelled() {
            end::now(&format!(
                "the task '{name}' ended unexpectedly: the process exits, so that a restart finds it whole"
            ));
        }
    }
}
