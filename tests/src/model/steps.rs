//! What came of a step of one master, kept: masters stand alike in many states, and a step looks at nothing else.

use super::greetings::Met;
use super::node::Node;
use super::world::{Shared, hash_of};
use common::lease::Grant;
use common::parameters::SessionId;
use common::rpc::peer::PeerFrame;
use common::time::WallMs;
use master::lease::Event;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// So many locks, so that two threads seldom wait for each other.
const SHARDS: usize = 64;

/// What came of a step.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) next: Shared<Node>,
    pub(super) messages: Vec<Shared<PeerFrame>>,
    /// What an agent was told.
    pub(super) told: Option<(SessionId, Grant)>,
    /// An invariant that does not hold.
    pub(super) broken: Option<String>,
}

/// Who meets, by the hashes of the two, and how many frames of it arrive.
type Meeting = ([u64; 2], usize);

/// All steps so far, by master, instant and event; and all meetings, by the two and how much of it arrived.
#[derive(Debug)]
pub(super) struct Steps {
    outcomes: Vec<Mutex<HashMap<u64, Option<Arc<Outcome>>>>>,
    meetings: Mutex<HashMap<Meeting, Arc<Met>>>,
}

impl Steps {
    pub(super) fn new() -> Self {
        Self { outcomes: (0..SHARDS).map(|_| Mutex::default()).collect(), meetings: Mutex::default() }
    }

    /// What comes of `event` at `node`; `step` finds out if it was never tried.
    pub(super) fn of(
        &self,
        node: &Shared<Node>,
        wall: WallMs,
        event: &Event,
        step: impl FnOnce() -> Option<Outcome>,
    ) -> Option<Arc<Outcome>> {
        let key = hash_of(&(node.id(), wall, event));
        let shard = self.outcomes.get(key as usize % SHARDS)?;
        let known = shard.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        known.unwrap_or_else(|| {
            let outcome = step().map(Arc::new);
            shard.lock().unwrap_or_else(PoisonError::into_inner).insert(key, outcome.clone());
            outcome
        })
    }

    /// What comes of so many greetings between these two; `meet` finds out if it was never tried.
    pub(super) fn of_meeting(&self, ends: [u64; 2], count: usize, meet: impl FnOnce() -> Met) -> Arc<Met> {
        let known = self.meetings.lock().unwrap_or_else(PoisonError::into_inner).get(&(ends, count)).cloned();
        known.unwrap_or_else(|| {
            let met = Arc::new(meet());
            self.meetings.lock().unwrap_or_else(PoisonError::into_inner).insert((ends, count), met.clone());
            met
        })
    }
}
