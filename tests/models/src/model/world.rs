//! A state of the model: the masters, the messages in flight, and every promise ever made.

use super::disk::{Disk, Node};
use crate::kit::shared::Shared;
use common::lease::{Generation, Lease, LeaseState, Receipt};
use common::parameters::{ClusterParameters, MasterId, SessionId};
use common::time::WallMs;
use common::token::TokenKey;
use ledger::lease::receipt::receipt;
use std::collections::{BTreeMap, BTreeSet};
use wire::peer::{Begun, PeerFrame};

/// Promises to agents, by value, grant and session: the rectangle as far as it was ever lengthened.
pub(super) type Promises = BTreeMap<(TokenKey, Generation, SessionId), Span>;

/// From here to there, the second instant excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Span {
    pub(super) from: WallMs,
    pub(super) until: WallMs,
}

/// The progress of a replacement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Joining {
    /// Nobody is being replaced.
    No,
    /// The other master was declared lost on this one.
    Lost { survivor: usize },
    /// The new one asked for the ledger.
    Begun { survivor: usize, begun: Begun },
    /// And has it.
    Cut { survivor: usize, begun: Begun, records: Vec<(TokenKey, Lease)> },
}

/// The nodes to which the connection of a master leads, the other of which was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Link {
    /// To all of that name: greetings are left out.
    All,
    /// Nowhere.
    Broken,
    /// To this one, which was greeted on it.
    To(usize),
}

/// A state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The first two masters and, behind them, their replacements. All of them live on.
    pub(super) nodes: Vec<Shared<Node>>,
    /// All messages that were ever sent, in the order of their hashes: any of them may arrive at any time, again and again, or never.
    pub(super) messages: Vec<Shared<PeerFrame>>,
    pub(super) promises: Shared<Promises>,
    pub(super) joining: Joining,
    /// Copies of disks of one moment, to be put back.
    pub(super) kept: Vec<(usize, Shared<Disk>)>,
    /// Promises that there were when both were put back, and that were not shown since.
    pub(super) unshown: Shared<BTreeSet<(TokenKey, Generation, SessionId)>>,
    /// True if both were put back.
    pub(super) reverted: bool,
    /// True if the disk that may be put back was.
    pub(super) put_back: bool,
    /// Replacements that were begun.
    pub(super) replaced: usize,
    /// The nodes to which the connection of the master that was not copied leads.
    pub(super) link: Link,
    /// To whom messages in flight were sent, where that matters.
    pub(super) sent_to: Shared<BTreeMap<u64, BTreeSet<usize>>>,
    /// Starts, where they are counted.
    pub(super) starts: u8,
    /// Replaced masters that have greeted the survivor and were answered.
    pub(super) answered: BTreeSet<usize>,
    /// The first invariant, other than that of the promises, that did not hold.
    pub(super) broken: Option<String>,
}

impl World {
    pub(super) fn node(&self, at: usize) -> Option<&Node> {
        self.nodes.get(at).map(|node| &**node)
    }

    pub(super) fn put_node(&mut self, at: usize, node: Node) {
        if let Some(place) = self.nodes.get_mut(at)
            && **place != node
        {
            *place = Shared::new(node);
        }
    }

    pub(super) fn post(&mut self, frame: PeerFrame) {
        self.post_shared(Shared::new(frame));
    }

    pub(super) fn post_shared(&mut self, frame: Shared<PeerFrame>) {
        if let Err(place) = self.messages.binary_search_by_key(&frame.id(), Shared::id) {
            self.messages.insert(place, frame);
        }
    }

    /// The same without messages that can change nothing any more.
    #[must_use]
    pub fn without_inert_messages(mut self) -> Self {
        super::inert::take_out(&mut self);
        self
    }

    /// The pairing that was begun last.
    pub(super) fn newest_pairing(&self) -> u64 {
        self.nodes.iter().map(|node| node.disk.identity.pair_epoch).max().unwrap_or_default()
    }

    /// The masters of the pairing that was begun last: two, or one that waits for the other.
    pub(super) fn current(&self) -> impl Iterator<Item = usize> {
        let newest = self.newest_pairing();
        let current = move |(_, node): &(usize, &Shared<Node>)| node.disk.identity.pair_epoch == newest;
        self.nodes.iter().enumerate().filter(current).map(|(at, _)| at)
    }

    /// Sessions are alike: one is used only after those before it.
    pub(super) fn sessions_used(&self) -> u128 {
        let promised = self.promises.keys().map(|(_, _, session)| session.0);
        let disks = || self.nodes.iter().map(|node| node.known());
        let leased = disks().flat_map(|disk| disk.leases.values().map(|lease| lease.session.0));
        let proposed = disks().flat_map(|disk| disk.preps.values().map(|prep| prep.session.0));
        promised.chain(leased).chain(proposed).max().unwrap_or_default()
    }

    pub(super) fn generation_max(&self) -> u64 {
        let disks = || self.nodes.iter().map(|node| node.known());
        let leased = disks().flat_map(|disk| disk.leases.values().map(|lease| lease.g.0));
        leased.chain(disks().flat_map(|disk| disk.preps.values().map(|prep| prep.g.0))).max().unwrap_or_default()
    }

    /// An agent hears that this is its own. Returns which invariant of a promise does not hold.
    pub(super) fn promise(
        &mut self,
        by: &Disk,
        key: TokenKey,
        g: Generation,
        session: SessionId,
        span: Span,
    ) -> Option<String> {
        let mut promises = Promises::clone(&self.promises);
        let permitted = |until: WallMs| by.observed.permit_in.is_some_and(|permit| until <= permit);
        // Whatever the record was lifted to: of a lift the other master may never hear.
        let longer = promises.get(&(key, g, session)).is_some_and(|told| span.until > told.until);
        if longer && !permitted(span.until) {
            return Some(format!("I5: a promise of {key} g{g} is longer than before, and than the permit"));
        }
        let entry = promises.entry((key, g, session)).or_insert(span);
        if entry.from != span.from {
            return Some(format!("one grant of {key} begins at two instants"));
        }
        entry.until = entry.until.max(span.until);
        if promises != *self.promises {
            self.promises = Shared::new(promises);
        }
        let record = by.leases.get(&key).filter(|lease| lease.g == g && lease.session == session);
        if record.is_none_or(|lease| lease.until < span.until || lease.from != span.from) {
            return Some(format!("I5: a promise of {key} g{g} exceeds its promiser's durable record"));
        }
        None
    }

    /// The receipt by which its holder can show a promise.
    pub(super) fn receipt(&self, promise: (TokenKey, Generation, SessionId)) -> Option<Receipt> {
        let span = self.promises.get(&promise)?;
        let (key, g, session) = promise;
        let pairing = self.nodes.first()?.disk.identity.epoch?;
        receipt(pairing, key, g, session, (span.from, span.until))
    }

    /// Its holder has shown it to a master that serves everything.
    pub(super) fn show(&mut self, promise: (TokenKey, Generation, SessionId)) {
        if self.unshown.contains(&promise) {
            let mut unshown = BTreeSet::clone(&self.unshown);
            unshown.remove(&promise);
            self.unshown = Shared::new(unshown);
        }
    }

    /// I1: what was promised to different sessions is disjoint, after rounding out to days.
    pub(super) fn disjoint(&self, parameters: &ClusterParameters) -> bool {
        let offset = parameters.utc_offset();
        let days = |span: &Span| (offset.day_floor(span.from), offset.day_ceil(span.until));
        let all: Vec<_> = self.promises.iter().collect();
        all.iter().enumerate().all(|(i, ((key, _, session), span))| {
            let (from, until) = days(span);
            all.iter().skip(i + 1).filter(|((k, _, s), _)| k == key && s != session).all(|(_, other)| {
                let (other_from, other_until) = days(other);
                until <= other_from || other_until <= from
            })
        })
    }

    /// I6: a grant that an agent heard of is known, durably, to both masters of the pairing that made it.
    pub(super) fn both_know(&self) -> bool {
        if self.reverted {
            return true;
        }
        // One whose disk was put back has forgotten, until it meets the other one.
        // So has one that awaits who has joined already.
        let joined = self.current().nth(1).is_some();
        let forgot = |disk: &&Disk| disk.unmet() || (joined && disk.identity.awaiting.is_some());
        let nodes = self.current().filter_map(|at| self.node(at));
        let current: Vec<&Disk> = nodes.map(|node| &node.disk).filter(|disk| !forgot(disk)).collect();
        self.promises.keys().all(|(key, g, _)| {
            let knows = |disk: &&&Disk| {
                disk.leases.get(key).is_some_and(|lease| lease.g >= *g)
                    || disk.preps.get(key).is_some_and(|prep| prep.g >= *g)
            };
            [MasterId::One, MasterId::Two].into_iter().all(|id| {
                let of_it = || current.iter().filter(|disk| disk.identity.master == id);
                let others = || current.iter().filter(|disk| disk.identity.master != id);
                let believed = |disk: &&&Disk| others().any(|other| other.lives.peer == Some(disk.lives.present()));
                // Of two copies the one that is believed does, and if none is, any.
                match of_it().find(believed) {
                    Some(disk) => knows(&disk),
                    None => of_it().next().is_none() || of_it().any(|disk| knows(&disk)),
                }
            })
        })
    }

    /// A replaced master that was answered serves nothing any more.
    pub(super) fn answered_stopped(&self) -> bool {
        self.answered.iter().all(|at| self.node(*at).is_some_and(|node| node.disk.observed.rolled_back))
    }

    /// Messages by that connection.
    pub(super) fn post_by_link(&mut self, frame: Shared<PeerFrame>) {
        match self.link {
            Link::All => self.post_shared(frame),
            Link::Broken => {}
            Link::To(to) => {
                let mut sent_to = BTreeMap::clone(&self.sent_to);
                if sent_to.entry(frame.id()).or_default().insert(to) {
                    self.sent_to = Shared::new(sent_to);
                }
                self.post_shared(frame);
            }
        }
    }

    /// Tells whether messages in flight may come to `at`.
    pub(super) fn reaches(&self, at: usize, messages: u64) -> bool {
        self.sent_to.get(&messages).is_none_or(|to| to.contains(&at))
    }

    /// Forgets to whom messages were sent that are in flight no more.
    pub(super) fn forget_sent(&mut self) {
        let in_flight = |id: &u64| self.messages.binary_search_by_key(id, Shared::id).is_ok();
        if !self.sent_to.keys().all(in_flight) {
            let kept = self.sent_to.iter().filter(|(id, _)| in_flight(id)).map(|(id, to)| (*id, to.clone())).collect();
            self.sent_to = Shared::new(kept);
        }
    }

    /// I7: what is closed anywhere carries an end that covers every promise of its grant.
    pub(super) fn closed_covers(&self) -> bool {
        if self.reverted {
            return true;
        }
        self.nodes.iter().all(|node| {
            node.disk.leases.iter().filter(|(_, lease)| lease.state == LeaseState::Closed).all(|(key, lease)| {
                let of_it = self.promises.iter().filter(|((k, g, _), _)| k == key && *g == lease.g);
                of_it.clone().all(|(_, span)| span.until <= lease.until)
            })
        })
    }
}
