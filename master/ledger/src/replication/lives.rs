//! The starts of the two masters: how two living copies of one store, or one that was put back, are told from a master that
//! was merely started again.
//!
//! A master keeps its lives since the last one that the other is known to have accepted, and shows them in its greeting.
//! The other remembers the last life it accepted. If that is not among those shown, somebody has forgotten something: two
//! stores go on from the same past, or the one that remembers was put back itself.
//!
//! Every message names the life in which it is said, and only the accepted one is believed. Else a master whose copy has
//! greeted in its place, by another connection, would go on over the connection that it has: it greets there no more, and
//! what it grants the copy never learns. Whoever speaks in another life is asked to greet, and that shows which of the two it
//! is: one that was started again, or one of two. A message names the life that it is meant for, too: what is said to a copy
//! does not count where a connection leads to the original still, as a permit that the copy would not know of.
//!
//! A copy that greets first looks like a master that was started again, and is accepted. So the lives that ended by that are
//! remembered: the original that goes on in one of them is known by it, even if the copy's start changed the ledger.

use serde::{Deserialize, Serialize};
use wire::peer::Life;

/// The most lives that are kept of starts that the other master has not accepted yet. Beyond it those in between are
/// forgotten: the first is the one that it accepted, the last ones are the likeliest that it has met since. Should the other one
/// have accepted one in between, this master is taken for a copy; that takes as many starts, without one in which it heard the
/// other one.
pub const LIVES_MAX: usize = 512;

/// The most ended lives of the other master that are remembered.
pub const ENDED_MAX: usize = 64;

/// This master's memory of its own and the other's starts. Not counted as a change of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lives {
    /// This master's: the last one that the other is known to have accepted, and all since; the present one at the end.
    pub own: Vec<Life>,
    /// The last life of the other master that this one accepted.
    pub peer: Option<Life>,
    /// Lives of the other master that ended before the accepted one began, as it said itself; the latest at the end, at most [`ENDED_MAX`].
    pub peer_ended: Vec<Life>,
    /// Two stores of the other master were seen that go on from the same past: none of them is believed any more.
    pub peer_copied: bool,
    /// The store was not proven to be the untouched one when it was opened, and has not met the other master since.
    pub unproven: bool,
}

/// The reason why a store is not proven to be the untouched one that its master last wrote. It may be all the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Unproven {
    #[error("it has no lineage: the file `lineage` was removed")]
    Missing,
    #[error("its lineage is not to be believed: {0}")]
    Damaged(String),
    /// The machine was restarted since, or it is another one.
    #[error("the machine was rebooted since, or it is another one")]
    Rebooted,
    /// The anchor is another file.
    #[error("it is a copy, or was put back from one")]
    Copied,
    /// Its file system was away in between.
    #[error(
        "its disk was detached and attached anew since, or what is on no disk of its own (btrfs, ZFS, tmpfs, overlay) was mounted anew: it \
         may have been put back meanwhile"
    )]
    Attached,
    #[error("it was touched since its master last wrote it: put back in place, linked, or its mode or owner changed")]
    Touched,
    /// Anchor and lineage are of different commits.
    #[error("a part of it was put back: its anchor and its lineage are of different commits")]
    Mixed,
    #[error("an earlier start of it was not proven, and it has not met the other master since")]
    NotMetSince,
}

/// The relation of a row of lives to one that is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    /// The row goes on from it.
    Yes,
    /// The row goes on from the same past in another way.
    Otherwise,
    /// The row begins later than what is remembered: whoever remembers has forgotten what it accepted since.
    Later,
}

impl Follows {
    fn of(row: &[Life], remembered: Option<Life>) -> Self {
        let Some(remembered) = remembered else { return Self::Yes };
        if row.contains(&remembered) {
            Self::Yes
        } else if row.first().is_some_and(|first| remembered.start < first.start) {
            Self::Later
        } else {
            Self::Otherwise
        }
    }
}

impl Lives {
    /// This start of the master; the default before its store was ever opened.
    pub fn present(&self) -> Life {
        self.own.last().copied().unwrap_or_default()
    }

    /// Begins a start, with a random mark.
    pub(crate) fn begin(&mut self, mark: u64, proven: bool) {
        self.unproven |= !proven;
        let start = self.own.last().map_or(0, |last| last.start).saturating_add(1);
        self.own.push(Life { start, mark });
        if self.own.len() > LIVES_MAX {
            self.own.remove(1);
        }
    }

    /// Notes that the other master accepted this life: older ones are of no use any more.
    pub(crate) fn accepted(&mut self, life: Life) {
        if let Some(at) = self.own.iter().rposition(|own| *own == life) {
            self.own.drain(..at);
        }
    }

    /// Accepts the last one of the lives that the other master shows: those before it have ended.
    pub(crate) fn accept(&mut self, shown: &[Life]) {
        let Some((life, before)) = shown.split_last().filter(|(life, _)| self.peer != Some(**life)) else { return };
        let is_new = |ended: &Life| ended != life && !self.peer_ended.contains(ended);
        let ended: Vec<Life> = self.peer.iter().chain(before).copied().filter(is_new).collect();
        self.peer_ended.extend(ended);
        self.peer_ended.dedup();
        self.peer_ended.drain(..self.peer_ended.len().saturating_sub(ENDED_MAX));
        self.peer = Some(*life);
    }

    /// Tells whether somebody goes on in a life that has ended: then there are two stores, of which the other began as a copy.
    pub(crate) fn outlived(&self, shown: &[Life]) -> bool {
        shown.last().is_some_and(|life| self.peer_ended.contains(life))
    }

    /// Compares the lives that the other master shows with the one that was accepted last.
    pub(crate) fn peer_follows(&self, shown: &[Life]) -> Follows {
        Follows::of(shown, self.peer)
    }

    /// Compares this master's lives with the one that the other accepted last.
    pub(crate) fn follow(&self, accepted: Option<Life>) -> Follows {
        Follows::of(&self.own, accepted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_follows_and_a_copy_does_not() {
        let mut peer = Lives::default();
        let mut store = Lives::default();
        store.begin(7, true);
        assert_eq!(peer.peer_follows(&store.own), Follows::Yes, "the first meeting");
        peer.peer = store.own.last().copied();
        // Started several times before it is heard of again, also if it never learns that it was accepted.
        store.begin(8, true);
        store.begin(9, true);
        assert_eq!((peer.peer_follows(&store.own), store.follow(peer.peer)), (Follows::Yes, Follows::Yes));
        let (mut original, mut copy) = (store.clone(), store.clone());
        original.begin(10, true);
        copy.begin(11, false);
        assert!(copy.unproven && !original.unproven);
        for first in [&original, &copy] {
            let (mut peer, second) = (peer.clone(), if *first == original { &copy } else { &original });
            assert_eq!(peer.peer_follows(&first.own), Follows::Yes);
            peer.peer = first.own.last().copied();
            assert_eq!(peer.peer_follows(&second.own), Follows::Otherwise);
            assert_eq!(second.follow(peer.peer), Follows::Otherwise);
        }
        // An original outlives its copies, however often they were started, and whether it was itself heard of before.
        for accepted in [peer.peer, None] {
            let mut peer = Lives { peer: accepted, ..peer.clone() };
            peer.accept(&original.own);
            assert!(!peer.outlived(&original.own) && !peer.outlived(&copy.own));
            let mut hot = original.clone();
            for mark in 20..23 {
                hot.begin(mark, false);
                peer.accept(&hot.own);
                assert!(peer.outlived(&original.own) && !peer.outlived(&hot.own));
            }
        }
        // The other master itself was put back: it has forgotten what it accepted.
        let accepted = original.own.last().copied().unwrap();
        original.accepted(accepted);
        assert_eq!(original.own, [accepted]);
        assert_eq!(peer.peer_follows(&original.own), Follows::Later);
        assert_eq!(original.follow(peer.peer), Follows::Later);
    }

    #[test]
    fn what_is_kept_is_bounded_and_keeps_both_ends() {
        let mut other = Lives::default();
        (1..=1_000).for_each(|mark| other.accept(&[Life { start: mark, mark }]));
        let remembered = (other.peer_ended.len(), other.peer_ended[ENDED_MAX - 1].start, other.peer.unwrap().start);
        assert_eq!(remembered, (ENDED_MAX, 999, 1_000));
        let mut lives = Lives::default();
        (1..=1_000).for_each(|mark| lives.begin(mark, true));
        assert_eq!(lives.own.len(), LIVES_MAX);
        let end = |life: Option<&Life>| life.map(|life| (life.start, life.mark));
        assert_eq!((end(lives.own.first()), end(lives.own.last())), (Some((1, 1)), Some((1_000, 1_000))));
        lives.accepted(Life { start: 5_000, mark: 1 });
        assert_eq!(lives.own.len(), LIVES_MAX, "a life of nobody changes nothing");
    }
}
