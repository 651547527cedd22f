//! What came of a step of one master, kept: masters stand alike in many states, and a step looks at nothing else.

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

/// All steps so far, by master, instant and event.
#[derive(Debug)]
pub(super) struct Steps(Vec<Mutex<HashMap<u64, Option<Arc<Outcome>>>>>);

impl Steps {
    pub(super) fn new() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
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
        let shard = self.0.get(key as usize % SHARDS)?;
        let known = shard.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        known.unwrap_or_else(|| {
            let outcome = step().map(Arc::new);
            shard.lock().unwrap_or_else(PoisonError::into_inner).insert(key, outcome.clone());
            outcome
        })
    }
}
