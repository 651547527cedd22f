//! The wait of an agent one of whose masters belongs to another cluster: it stands still, and looks whether that changes.

use super::Task;
use crate::holder::{Event, LeaseView};
use crate::masters::{CALL_LIMIT, CallError, Greeting, Lane, Line, OPEN_LIMIT};
use futures::future::join_all;
use std::time::Duration;
use tokio::time::timeout;

/// Between two looks at the masters while one of them belongs to another cluster.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// The time that a master that is asked only for its cluster is waited for.
const GREET_TIMEOUT: Duration = Duration::from_secs(1);

impl Task {
    /// Gives up the leases, and looks again and again whether all masters are ours by now.
    pub(super) async fn stand_still(&mut self) {
        self.held = None;
        for grant in self.holder.leases().values().filter_map(LeaseView::grant).cloned().collect::<Vec<_>>() {
            self.take_in(Event::Ended { key: grant.key, g: grant.g }).await;
        }
        let mut ours = None;
        for greeted in join_all((0..self.masters.len()).map(|at| self.greet(at))).await {
            match greeted {
                Ok((line, greeting)) => {
                    self.greeted(&line, greeting).await;
                    ours = Some(line);
                }
                Err(error) => self.note(&error),
            }
        }
        // Its operators are to hear of it.
        self.held = ours;
        if tokio::time::Instant::now() >= self.tell_at {
            self.tell().await;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            () = self.minter.masters().stranger_heard() => {}
        }
    }

    /// Asks every master but that one for its cluster, before a token is asked for: a list that leads to two clusters is
    /// noticed before anything is minted. One that does not answer says nothing.
    pub(super) async fn greet_others(&self, used: usize) {
        let others = (0..self.masters.len()).filter(|at| *at != used);
        // What they say minting is told of.
        let _ = timeout(GREET_TIMEOUT, join_all(others.map(|at| self.greet(at)))).await;
    }

    async fn greet(&self, at: usize) -> Result<(Line, Greeting), CallError> {
        let reach = || self.masters.reach(at, Lane::Calls, OPEN_LIMIT, CALL_LIMIT);
        let mut line = reach().await?;
        if line.is_old() {
            line.retire();
            line = reach().await?;
        }
        let greeting = line.introduction().await?;
        Ok((line, greeting))
    }
}
