//! The starts of the two masters, by a random number each: how two living copies of one store, or one that was put back,
//! are told from a master that was merely started again.
//!
//! A master keeps its lives since the last one that the other is known to have accepted, and shows them in its greeting.
//! The other remembers the last life it accepted. A greeting fits if that life is among those shown; if it is not, two
//! stores go on from the same past.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use common::rpc::peer::Life;
use serde::{Deserialize, Serialize};

/// The most lives that are kept of starts that the other master has not accepted yet. Beyond it those in between are
/// forgotten: the first is the one that it accepted, the last ones are the likeliest that it has met since.
pub const LIVES_MAX: usize = 64;

/// What a master remembers of its own and the other's starts. Not counted as a change of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lives {
    /// This master's: the last one that the other is known to have accepted, and all since; the present one at the end.
    pub own: Vec<Life>,
    /// The last life of the other master that this one accepted.
    pub peer: Option<Life>,
    /// Two stores of the other master were seen that go on from the same past: none of them is believed any more.
    pub peer_copied: bool,
    /// The store was not proven to be the untouched one when it was opened, and has not met the other master since.
    pub unproven: bool,
}

#[cfg_attr(not(test), allow(dead_code, reason = "the greeting is to show them"))]
impl Lives {
    /// A start.
    pub(crate) fn begin(&mut self, life: Life, proven: bool) {
        self.unproven |= !proven;
        if self.own.last() != Some(&life) {
            self.own.push(life);
        }
        if self.own.len() > LIVES_MAX {
            self.own.remove(1);
        }
    }

    /// The other master accepted this life: older ones are of no use any more.
    pub(crate) fn accepted(&mut self, life: Life) {
        if let Some(at) = self.own.iter().rposition(|own| *own == life) {
            self.own.drain(..at);
        }
    }

    /// Whether the other master, which shows these lives, goes on from the one that was accepted last.
    pub(crate) fn peer_follows(&self, shown: &[Life]) -> bool {
        self.peer.is_none_or(|peer| shown.contains(&peer))
    }

    /// Whether this master's store goes on from the life that the other accepted last.
    pub(crate) fn follow(&self, accepted: Option<Life>) -> bool {
        accepted.is_none_or(|life| self.own.contains(&life))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_follows_and_a_copy_does_not() {
        let mut peer = Lives::default();
        let mut store = Lives::default();
        store.begin(Life(1), true);
        assert!(peer.peer_follows(&store.own), "the first meeting");
        peer.peer = Some(Life(1));
        // Started several times before it is heard of again, also if it never learns that it was accepted.
        store.begin(Life(2), true);
        store.begin(Life(3), true);
        assert!(peer.peer_follows(&store.own) && store.follow(peer.peer));
        let (mut original, mut copy) = (store.clone(), store);
        original.begin(Life(4), true);
        copy.begin(Life(5), false);
        assert!(copy.unproven && !original.unproven);
        assert!(peer.peer_follows(&copy.own));
        peer.peer = Some(Life(5));
        copy.accepted(Life(5));
        assert_eq!(copy.own, [Life(5)]);
        assert!(!peer.peer_follows(&original.own) && !original.follow(peer.peer));
    }

    #[test]
    fn what_is_kept_is_bounded_and_keeps_both_ends() {
        let mut lives = Lives::default();
        (0..1_000).for_each(|life| lives.begin(Life(life), true));
        assert_eq!(lives.own.len(), LIVES_MAX);
        assert_eq!((lives.own.first(), lives.own.last()), (Some(&Life(0)), Some(&Life(999))));
        lives.begin(Life(999), true);
        assert_eq!(lives.own.len(), LIVES_MAX, "one start is one life");
        lives.accepted(Life(5_000));
        assert_eq!(lives.own.len(), LIVES_MAX, "a life of nobody changes nothing");
    }
}
