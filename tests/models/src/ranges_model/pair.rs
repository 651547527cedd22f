//! Two masters, their replacements, and what befalls them: the same for an axis and for a section.

use super::disk::{self, Disk, Node, Ranges, WALL, permitted};
use super::net::{self, Delivered};
use super::twins::{self, Twin};
use crate::kit::memo::Memo;
use crate::kit::node::{self, Serving};
use crate::kit::shared::{Shared, hash_of};
use crate::model::stays_proven;
use common::audit::Actor;
use common::parameters::{EpochId, MasterId};
use common::setting::Setting;
use common::time::WallMs;
use ledger::lease::{Event, Reply, RequestId, Write};
use ledger::replication::join::{declare_lost, first_writes, section_taken_over};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use wire::peer::{JoinReply, JoinStep, PeerFrame};

/// The hash of every join token.
const TOKEN: [u8; 32] = [7; 32];

/// Events that may befall the masters.
#[derive(Clone, Debug)]
pub struct Befalls {
    /// Starts that prove their store, of either master.
    pub restarts: u8,
    /// Starts that cannot, though nothing was put back.
    pub reboots: u8,
    /// The master whose disk is put back, once, to any state it was in.
    pub put_back: Option<MasterId>,
    /// Both disks are put back, once, to any state before a section moved, if it was raised by no more than this above the lower of the two.
    pub revert: Option<u64>,
    /// Tells whether the quiet time after that lasts until all owners have shown what they hold; else it may end before.
    pub shown: bool,
    /// The masters that are declared lost, one after the other.
    pub lost: &'static [MasterId],
    /// True if the lost one is dead by then; otherwise it lives on.
    pub dead: bool,
    /// Messages in flight.
    pub messages_max: usize,
    /// Messages are kept even if they can change nothing any more.
    pub keep_inert: bool,
    /// Mechanisms that are taken away.
    pub twins: Vec<Twin>,
}

/// Something that can befall the masters. They are counted: 0 and 1 are the first two, 2 and on their replacements.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Deed {
    /// A master says again what was not confirmed.
    Beat { at: usize },
    /// A message arrives.
    Deliver { at: usize, id: u64, frame: Arc<PeerFrame> },
    /// A master greets the other one, which answers a page of its table.
    CutPage { at: usize, from: usize },
    /// That page arrives.
    TakePage { at: usize },
    /// A crash, and a new start.
    Restart { at: usize, proven: bool },
    /// Somebody copies this master's disk.
    Keep { at: usize },
    /// The copy is put back, and the master starts again.
    PutBack,
    /// Somebody copies both disks.
    KeepBoth,
    /// Both copies are put back, and the masters start again.
    Revert,
    /// Agents have had time to show what they hold.
    QuietEnds,
    /// The operator declares the other one lost.
    PeerLost { survivor: usize },
    /// The replacement joins, a step further.
    Join,
}

impl fmt::Debug for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Beat { at } => write!(f, "{at} beats"),
            Self::Deliver { at, frame, .. } => write!(f, "{at} receives {:?}", frame.message),
            Self::CutPage { at, from } => write!(f, "{from} answers its table to {at}"),
            Self::TakePage { at } => write!(f, "that table arrives at {at}"),
            Self::Restart { at, proven: true } => write!(f, "{at} crashes and starts again"),
            Self::Restart { at, proven: false } => write!(f, "{at} starts again and cannot prove its store"),
            Self::Keep { at } => write!(f, "somebody copies the disk of {at}"),
            Self::PutBack => write!(f, "the copy is put back"),
            Self::KeepBoth => write!(f, "somebody copies both disks"),
            Self::Revert => write!(f, "both copies are put back"),
            Self::QuietEnds => write!(f, "the quiet time is over"),
            Self::PeerLost { survivor } => write!(f, "the other one is declared lost at {survivor}"),
            Self::Join => write!(f, "the replacement joins, a step further"),
        }
    }
}

/// The progress of a replacement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Joining {
    No,
    Lost { survivor: usize },
    Begun { survivor: usize, disk: Shared<Disk> },
    Cut { survivor: usize, disk: Shared<Disk> },
}

/// The masters and what is under way between them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pair {
    /// The first two masters and, behind them, their replacements.
    pub(super) nodes: Vec<Shared<Node>>,
    /// All messages that were ever sent and can still change something, in the order of their hashes.
    messages: Vec<Shared<PeerFrame>>,
    /// Copies of disks of one moment.
    kept: Vec<(usize, Shared<Disk>)>,
    put_back: bool,
    pub(super) reverted: bool,
    joining: Joining,
    replaced: usize,
    /// Starts so far: each gets a number of its own.
    starts: u8,
    restarts: u8,
    reboots: u8,
    /// Dead ones: a bit for each.
    dead: u8,
    /// The first thing inside a master that did not hold.
    pub(super) broken: Option<String>,
}

/// The outcome of a step of one master.
#[derive(Debug)]
pub(super) struct Outcome {
    next: Shared<Node>,
    messages: Vec<Shared<PeerFrame>>,
    pub(super) replies: Vec<Reply>,
    broken: Option<String>,
}

/// An event, and what was heard before it.
pub(super) type Heard = (Vec<Event>, Event);

/// The product's masters, within bounds.
#[derive(Clone, Debug)]
pub(super) struct Masters {
    pub(super) befalls: Befalls,
    outcomes: Arc<Memo<Outcome>>,
    pages: Arc<Memo<(Shared<Node>, Shared<Node>)>>,
    first: [Shared<Disk>; 2],
}

impl Masters {
    /// Two that know one name.
    pub(super) fn new(befalls: Befalls, name: &Setting) -> anyhow::Result<Self> {
        let parameters = disk::parameters()?;
        let first = [MasterId::One, MasterId::Two].map(|id| Shared::new(disk::first(id, parameters, [name.clone()])));
        Ok(Self { befalls, outcomes: Arc::new(Memo::new()), pages: Arc::new(Memo::new()), first })
    }

    pub(super) fn has(&self, twin: Twin) -> bool {
        self.befalls.twins.contains(&twin)
    }

    pub(super) fn begin(&self) -> Pair {
        let node = |disk: &Shared<Disk>| Shared::new(Node::new(Disk::clone(disk), Serving::Ready));
        Pair {
            nodes: self.first.iter().map(node).collect(),
            messages: Vec::new(),
            kept: Vec::new(),
            put_back: false,
            reverted: false,
            joining: Joining::No,
            replaced: 0,
            starts: 0,
            restarts: 0,
            reboots: 0,
            dead: 0,
            broken: None,
        }
    }

    /// The outcome of the event that `of` stands for.
    fn outcome(&self, node: &Shared<Node>, of: u64, event: impl FnOnce() -> Option<Heard>) -> Option<Arc<Outcome>> {
        self.outcomes.of(hash_of(&(node.id(), of)), || {
            let (before, event) = event()?;
            Some(self.stepped(node, &before, event))
        })
    }

    fn stepped(&self, node: &Node, before: &[Event], mut event: Event) -> Outcome {
        let has = |twin| self.has(twin);
        let mut known = node.known().clone();
        let own_event = event.clone();
        twins::before(&has, &mut known, &mut event);
        let mut stepped = node::step(&known, node.serving, WALL, before, event);
        if node.serving < stepped.serving && stepped.known.observed.permit_in.is_none() {
            // Its first heartbeat.
            stepped.writes.push(Write::PeerObservations(permitted()));
            stepped.known.observed = permitted();
        }
        let mut broken = stepped.broken.take();
        if !self.befalls.twins.is_empty() {
            twins::after(&has, node.known(), &own_event, &mut stepped);
        }
        let next = node.after(&stepped, |write| twins::lost(&has, &own_event, write));
        if let Some(why) = super::segments::goes_back(node.known(), next.known()) {
            broken = Some(why);
        }
        let messages = stepped.messages.into_iter().map(Shared::new).collect();
        Outcome { next: Shared::new(next), messages, replies: stepped.replies, broken }
    }

    /// A step of one master: what it has heard before, which changes nothing on its disk, and the event. Both are told from all others by
    /// `of`, and made only if it was never tried.
    pub(super) fn step(
        &self,
        pair: &mut Pair,
        at: usize,
        of: &impl Hash,
        event: impl FnOnce() -> Option<Heard>,
    ) -> Option<Arc<Outcome>> {
        let outcome = self.outcome(pair.nodes.get(at)?, hash_of(of), event)?;
        if outcome.broken.is_some() {
            pair.broken.clone_from(&outcome.broken);
        }
        for frame in &outcome.messages {
            net::post(&mut pair.messages, frame.clone());
        }
        *pair.nodes.get_mut(at)? = outcome.next.clone();
        Some(outcome)
    }

    fn hear(&self, mut pair: Pair, at: usize, id: u64, frame: &Arc<PeerFrame>) -> Option<Pair> {
        self.step(&mut pair, at, &id, || Some((Vec::new(), Event::Message(Box::new(PeerFrame::clone(frame))))))?;
        Some(pair)
    }

    fn deliver(&self, to: &Shared<Node>, frame: &Shared<PeerFrame>) -> Option<Delivered> {
        let event = || Some((Vec::new(), Event::Message(Box::new(PeerFrame::clone(frame)))));
        let outcome = self.outcome(to, hash_of(&frame.id()), event)?;
        Some((outcome.next.clone(), outcome.messages.clone()))
    }

    fn restart(&self, mut pair: Pair, at: usize, disk: Disk, proven: bool) -> Option<Pair> {
        let begins = !proven && !self.has(Twin::PutBackBelieved);
        let mut node = Node::started(disk.clone(), (pair.starts + 2).into(), !begins);
        if begins && self.has(Twin::RunGoesOn) {
            (node.disk.run, node.disk.cursors) = (disk.run, disk.cursors.clone());
        }
        pair.starts += 1;
        *pair.nodes.get_mut(at)? = Shared::new(node);
        Some(pair)
    }

    fn peer_lost(&self, mut pair: Pair, survivor: usize) -> Option<Pair> {
        let mut disk = pair.nodes.get(survivor)?.disk.clone();
        if self.befalls.dead {
            let dead = pair.nodes.iter().enumerate().filter(|(_, node)| node.disk.id() != disk.id());
            pair.dead |= dead.fold(0, |bits, (at, _)| bits | 1 << at);
        }
        let pairing = EpochId(u128::from(disk.identity.pair_epoch) + 1);
        let mut writes = declare_lost(&disk.loaded(), pairing, TOKEN, Actor::new("operator", ""), WallMs(0));
        twins::after_declaring_lost(&|twin| self.has(twin), &disk, &mut writes);
        disk.apply(&writes);
        pair.joining = Joining::Lost { survivor };
        pair.replaced += 1;
        self.restart(pair, survivor, disk, true)
    }

    fn join(&self, mut pair: Pair) -> Option<Pair> {
        let (survivor, step) = match &pair.joining {
            Joining::No => return None,
            Joining::Lost { survivor } => (*survivor, JoinStep::Begin),
            Joining::Begun { survivor, .. } => (*survivor, JoinStep::Page { after: None }),
            Joining::Cut { survivor, .. } => (*survivor, JoinStep::Done),
        };
        let known = pair.nodes.get(survivor)?.clone();
        let master = known.disk.id().other();
        let ask = |step| {
            let event = Event::Join { id: RequestId(0), token: TOKEN, master, step };
            let mut stepped = node::step(known.known(), known.serving, WALL, &[], event);
            let reply = match stepped.replies.pop() {
                Some(Reply::Join(Ok(reply))) => Some(reply),
                _ => None,
            };
            (stepped, reply)
        };
        let (stepped, reply) = ask(step);
        let mut next = known.after(&stepped, |_| false);
        if self.has(Twin::GoesOnAfterCut) && matches!(pair.joining, Joining::Lost { .. }) {
            (next.disk.observed, next.disk.sections_cut) = (known.disk.observed, false);
            next.beyond = None;
        }
        pair.joining = match (reply?, pair.joining) {
            (JoinReply::Begun(begun), _) => {
                let (identity, _) = first_writes(master, begun);
                Joining::Begun { survivor, disk: Shared::new(Disk::of_replacement(identity, Ranges::default())) }
            }
            (JoinReply::Page { settings, .. }, Joining::Begun { disk, .. }) => {
                let mut disk = Disk::clone(&disk);
                disk.apply(&settings.into_iter().map(Write::Setting).collect::<Vec<_>>());
                let (_, sections) = ask(JoinStep::Sections { after: None });
                let Some(JoinReply::Sections { records, .. }) = sections else { return None };
                disk.apply(&records.into_iter().map(section_taken_over).collect::<Vec<_>>());
                Joining::Cut { survivor, disk: Shared::new(disk) }
            }
            (JoinReply::Done, Joining::Cut { disk, .. }) => {
                let node = Node::started(Disk::clone(&disk), (pair.starts + 2).into(), true);
                pair.starts += 1;
                pair.nodes.push(Shared::new(node));
                Joining::No
            }
            _ => return None,
        };
        *pair.nodes.get_mut(survivor)? = Shared::new(next);
        Some(pair)
    }

    fn cut_page(&self, mut pair: Pair, at: usize, from: usize) -> Option<Pair> {
        let (asker, other) = (pair.nodes.get(at)?, pair.nodes.get(from)?);
        let met = self.pages.of(hash_of(&(asker.id(), other.id())), || {
            let (asker, other) = disk::cut_page(asker, other)?;
            Some((Shared::new(asker), Shared::new(other)))
        })?;
        *pair.nodes.get_mut(at)? = met.0.clone();
        *pair.nodes.get_mut(from)? = met.1.clone();
        Some(pair)
    }

    /// Adds what may befall the masters.
    pub(super) fn deeds(&self, pair: &Pair, unshown: bool, deeds: &mut Vec<Deed>) {
        for (at, node) in pair.living() {
            deeds.push(Deed::Beat { at });
            let here = |frame: &&Shared<PeerFrame>| frame.from == node.disk.id().other();
            let deliver = |frame: &Shared<PeerFrame>| Deed::Deliver { at, id: frame.id(), frame: frame.arc() };
            deeds.extend(pair.messages.iter().filter(here).map(deliver));
            if node.serving == Serving::Alone {
                let others = pair.living().filter(|(_, other)| may_meet(node, other));
                deeds.extend(others.map(|(from, _)| Deed::CutPage { at, from }));
                deeds.extend(node.page.is_some().then_some(Deed::TakePage { at }));
            }
            if pair.restarts < self.befalls.restarts {
                deeds.push(Deed::Restart { at, proven: true });
            }
            if pair.reboots < self.befalls.reboots && pair.others_have_met(at) {
                deeds.push(Deed::Restart { at, proven: false });
            }
            let kept = self.befalls.put_back == Some(node.disk.id()) && at < 2 && pair.replaced == 0;
            if kept && !pair.put_back && pair.kept.is_empty() {
                deeds.push(Deed::Keep { at });
            }
        }
        if let Some(forgotten) = self.befalls.revert.filter(|_| !pair.reverted) {
            if pair.kept.is_empty() {
                deeds.extend(pair.messages.is_empty().then_some(Deed::KeepBoth));
            } else if pair.sections_moved(forgotten) {
                deeds.push(Deed::Revert);
            }
        }
        let quiet = pair.reverted && pair.living().any(|(_, node)| node.disk.caution.quiet);
        if quiet && !(self.befalls.shown && unshown) {
            deeds.push(Deed::QuietEnds);
        }
        if let [(at, _)] = &*pair.kept
            && pair.replaced == 0
            && pair.others_have_met(*at)
        {
            deeds.push(Deed::PutBack);
        }
        if pair.joining != Joining::No {
            deeds.push(Deed::Join);
        } else if let Some(lost) = self.befalls.lost.get(pair.replaced) {
            let survives = |node: &Node| {
                node.disk.id() != *lost && node.disk.identity.pair_epoch == pair.newest() && !node.disk.unmet()
            };
            let survivors = pair.living().filter(|(_, node)| survives(node));
            deeds.extend(survivors.map(|(survivor, _)| Deed::PeerLost { survivor }));
        }
    }

    /// Gives the pair that comes of it.
    pub(super) fn befall(&self, mut pair: Pair, deed: Deed) -> Option<Pair> {
        match deed {
            Deed::Beat { at } => {
                self.step(&mut pair, at, &"beat", || Some((Vec::new(), Event::Tick)))?;
                Some(pair)
            }
            Deed::Deliver { at, id, frame } => self.hear(pair, at, id, &frame),
            Deed::CutPage { at, from } => self.cut_page(pair, at, from),
            Deed::TakePage { at } => {
                let page = pair.nodes.get(at)?.page.clone()?;
                self.hear(pair, at, page.id(), &page.arc())
            }
            Deed::Restart { at, proven } => {
                let disk = pair.nodes.get(at)?.disk.clone();
                if proven {
                    pair.restarts += 1
                } else {
                    pair.reboots += 1
                }
                self.restart(pair, at, disk, proven)
            }
            Deed::Keep { at } => {
                pair.kept = vec![(at, Shared::new(pair.nodes.get(at)?.disk.clone()))];
                Some(pair)
            }
            Deed::KeepBoth => {
                let disks = pair.nodes.iter().map(|node| Shared::new(node.disk.clone()));
                pair.kept = disks.enumerate().collect();
                Some(pair)
            }
            Deed::Revert => {
                pair.reverted = true;
                pair.messages.clear();
                for (at, disk) in std::mem::take(&mut pair.kept) {
                    pair = self.restart(pair, at, Disk::clone(&disk), false)?;
                }
                // Until they have met neither serves anything.
                let met =
                    [Deed::CutPage { at: 0, from: 1 }, Deed::CutPage { at: 1, from: 0 }, Deed::TakePage { at: 0 }];
                met.into_iter().try_fold(pair, |pair, deed| self.befall(pair, deed))
            }
            Deed::QuietEnds => {
                for place in pair.nodes.iter_mut().filter(|node| node.disk.caution.quiet) {
                    let mut node = Node::clone(place);
                    let known = [Some(&mut node.disk), node.beyond.as_mut()];
                    known.into_iter().flatten().for_each(|disk| disk.caution.quiet = false);
                    *place = Shared::new(node);
                }
                Some(pair)
            }
            Deed::PutBack => {
                let (at, disk) = pair.kept.pop()?;
                pair.put_back = true;
                self.restart(pair, at, Disk::clone(&disk), stays_proven(!self.has(Twin::PutBackBelieved)))
            }
            Deed::PeerLost { survivor } => self.peer_lost(pair, survivor),
            Deed::Join => self.join(pair),
        }
    }

    /// Takes out what can change nothing any more, unless it is kept. `false`: too much is in flight.
    pub(super) fn tidy(&self, pair: &mut Pair) -> bool {
        // Where anything is confirmed, what was of no news may be again.
        if !self.befalls.keep_inert && !self.has(Twin::ConfirmBlindly) {
            let deliver = |to: &Shared<Node>, frame: &Shared<PeerFrame>| self.deliver(to, frame);
            let Pair { nodes, messages, .. } = pair;
            messages.retain(|frame| !net::is_inert(nodes, frame, &deliver, 0));
        }
        pair.messages.len() <= self.befalls.messages_max
    }
}

/// Two that may be in each other's pairing: the product says who is believed.
fn may_meet(a: &Node, b: &Node) -> bool {
    a.disk.id() != b.disk.id() && a.disk.identity.epoch == b.disk.identity.epoch
}

impl Pair {
    pub(super) fn forget_messages(&mut self) {
        self.messages.clear();
    }

    /// Those that are not dead.
    pub(super) fn living(&self) -> impl Iterator<Item = (usize, &Node)> {
        let all = self.nodes.iter().enumerate().filter(|(at, _)| self.dead & 1 << at == 0);
        all.map(|(at, node)| (at, &**node))
    }

    /// Tells whether each section has moved since the copies were made, and was raised by no more than this.
    fn sections_moved(&self, forgotten: u64) -> bool {
        self.nodes.iter().flat_map(|node| node.disk.sections.iter()).all(|(key, (record, _))| {
            let mut kept = self.kept.iter().map(|(_, disk)| disk.sections.get(key));
            kept.all(|kept| {
                kept.is_some_and(|(kept, _)| kept.g < record.g && record.max_seq <= kept.max_seq + forgotten)
            })
        })
    }

    /// The number of the newest pairing.
    pub(super) fn newest(&self) -> u64 {
        self.nodes.iter().map(|node| node.disk.identity.pair_epoch).max().unwrap_or_default()
    }

    /// Of two that are put back before they meet nobody knows what both have forgotten.
    fn others_have_met(&self, at: usize) -> bool {
        let current = self.nodes.iter().enumerate().filter(|(_, node)| node.disk.identity.pair_epoch == self.newest());
        current.filter(|(other, _)| *other != at).all(|(_, node)| !node.disk.unmet())
    }
}
