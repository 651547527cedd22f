//! Two masters, and what comes of whatever happens to them.

use super::action::Action;
use super::disk::{Disk, Leases, Node, heartbeat, no_starts, plain};
use super::greetings::{self, GREETINGS_MAX, Met};
use super::twins::{self, Twin};
use super::world::{Joining, Link, Promises, Span, World};
use super::{Bounds, heal, inert, stays_proven};
use crate::kit::memo::Memo;
use crate::kit::node::{self, EXCHANGE, Serving};
use crate::kit::shared::{Shared, hash_of};
use common::audit::Actor;
use common::calendar::UtcOffset;
use common::lease::{Grant, LeaseState};
use common::parameters::{AgentId, ClusterParameters, EpochId, MasterId, SessionId};
use common::time::{DAY_MS, WallMs};
use common::token::TokenType;
use ledger::lease::{Event, Reply, RequestId};
use ledger::replication::join::{declare_lost, first_writes, taken_over};
use stateright::{Model, Property};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::lease::{Rent, RentRequest, TerminateRequest, TokenRequest};
use wire::peer::{JoinReply, JoinStep, PeerFrame, PeerMessage};

/// The hash of every join token in the model.
pub(super) const TOKEN: [u8; 32] = [7; 32];

/// No two promises to different sessions overlap.
pub const DISJOINT: &str = "I1: rectangles promised to different sessions are disjoint";
/// Each master's own invariants, and those of a single promise.
pub const SOUND: &str = "I5, I8 and what must hold inside one master";
/// A grant is known to both before an agent hears of it.
pub const BOTH_KNOW: &str = "I6: a grant is durable at both masters";
/// A closed record covers all promises of its grant.
pub const COVERED: &str = "I7: what is closed covers every promise of its grant";
/// Nothing is ever stuck.
pub const HEALS: &str = "once messages arrive again, every value is granted again";

/// Whoever was replaced, and reaches the survivor from wherever, hears of it.
pub const ANSWERED: &str = "a replaced master that has greeted the survivor serves nothing any more";

/// All that always holds.
pub const WHAT_HOLDS: [&str; 6] = [DISJOINT, SOUND, BOTH_KNOW, COVERED, HEALS, ANSWERED];

/// Two masters, their replacements, and everything that may befall them within the bounds.
#[derive(Clone, Debug)]
pub struct Masters {
    /// The bounds within which it goes.
    pub bounds: Bounds,
    pub(super) parameters: ClusterParameters,
    /// The outcomes of steps, by master, instant and event;
    steps: Arc<Memo<Outcome>>,
    /// and of meetings, by the two and how much of it arrived.
    meetings: Arc<Memo<Met>>,
}

/// The outcome of a step.
#[derive(Debug)]
struct Outcome {
    next: Shared<Node>,
    messages: Vec<Shared<PeerFrame>>,
    /// The answer that an agent was given.
    told: Option<(SessionId, Grant)>,
    /// An invariant that does not hold.
    broken: Option<String>,
}

impl Masters {
    /// The model within these bounds.
    ///
    /// # Errors
    /// Bounds that no cluster could have.
    pub fn new(bounds: Bounds) -> anyhow::Result<Self> {
        let parameters =
            ClusterParameters::new(bounds.lease_days, UtcOffset::default(), bounds.values.saturating_sub(1))?;
        Ok(Self { bounds, parameters, steps: Arc::new(Memo::new()), meetings: Arc::new(Memo::new()) })
    }

    pub(super) fn has(&self, twin: Twin) -> bool {
        self.bounds.twins.contains(&twin)
    }

    fn first_disk(&self, master: MasterId) -> Disk {
        let permit = Some(instant(self.bounds.permit_until_day));
        let part = Leases { permit_out: permit, ..Leases::default() };
        let mut disk = Disk::first(master, self.parameters, permit, part);
        // Where starts are part of the state, each has accepted the other's first.
        if self.bounds.greetings.is_none() || self.bounds.copied.is_none() {
            disk.lives = no_starts(false);
        }
        disk
    }

    fn walls(&self) -> impl Iterator<Item = WallMs> {
        self.bounds.days.iter().map(|day| instant(*day))
    }

    fn last_wall(&self) -> WallMs {
        self.walls().max().unwrap_or_default()
    }

    fn requests(&self, world: &World, at: usize, actions: &mut Vec<Action>) {
        let next = world.sessions_used() + 1;
        for session in (1..=next.min(self.bounds.sessions.into())).map(SessionId) {
            actions.extend(self.walls().map(|wall| Action::Request { at, session, wall }));
        }
        for (key, g, session) in world.promises.keys().copied() {
            actions.extend(self.walls().map(|wall| Action::Renew { at, key, g, session, wall }));
            if self.bounds.release {
                actions.push(Action::Release { at, key, g, session, wall: self.last_wall() });
            }
        }
    }

    fn deliveries(&self, world: &World, at: usize, node: &Node, actions: &mut Vec<Action>) {
        let other = node.id().other();
        let here = |frame: &&Shared<PeerFrame>| frame.from == other && world.reaches(at, frame.id());
        for messages in world.messages.iter().filter(here) {
            let by_the_clock = matches!(messages.message, PeerMessage::Heartbeat { .. });
            let deliver =
                |wall| Action::Deliver { at, id: messages.id(), frame: Box::new(PeerFrame::clone(messages)), wall };
            if self.bounds.every_clock {
                actions.extend(self.walls().map(deliver));
            } else if by_the_clock {
                actions.extend(self.bounds.heartbeat_days.iter().map(|day| deliver(instant(*day))));
            } else {
                actions.push(deliver(self.last_wall()));
            }
        }
    }

    fn replacements(&self, world: &World, actions: &mut Vec<Action>) {
        if world.joining != Joining::No {
            actions.push(Action::Join);
        }
        let Some(lost) = self.bounds.lost.get(world.replaced) else { return };
        for survivor in world.current() {
            // `--peer-lost` takes no unproven store, unless somebody vouches for it.
            if world.node(survivor).is_some_and(|node| node.id() != *lost && !node.disk.unmet()) {
                actions.push(Action::PeerLost { survivor });
            }
        }
    }

    /// Tells whether its disk is copied now, or the copy put back.
    fn may_be_put_back(&self, world: &World, at: usize, node: &Node) -> bool {
        let in_time = match (self.bounds.awaiting, world.kept.is_empty()) {
            (false, _) => world.replaced == 0,
            (true, true) => node.disk.identity.awaiting.is_some(),
            (true, false) => world.joining == Joining::No,
        };
        self.bounds.put_back == Some(node.disk.identity.master) && at < 2 && !world.put_back && in_time
    }

    /// A step of the product at one master, with all that comes of it.
    fn step(&self, mut world: World, at: usize, wall: WallMs, event: Event) -> Option<World> {
        let node = world.nodes.get(at)?.clone();
        if matches!(event, Event::Message(_)) && !twins::hears(self, node.known()) {
            return None;
        }
        let outcome =
            self.steps.of(hash_of(&(node.id(), wall, &event)), || self.outcome(&node, wall, event.clone()))?;
        if outcome.broken.is_some() {
            world.broken.clone_from(&outcome.broken);
        }
        let by_link = self.bounds.copied == Some(node.disk.identity.master.other());
        for frame in &outcome.messages {
            if by_link { world.post_by_link(frame.clone()) } else { world.post_shared(frame.clone()) }
        }
        if let Some((session, grant)) = &outcome.told {
            let span = Span { from: grant.from, until: grant.until };
            if let Some(broken) = world.promise(&outcome.next.disk, grant.key, grant.g, *session, span) {
                world.broken = Some(broken);
            }
        }
        if let Some(place) = world.nodes.get_mut(at) {
            *place = outcome.next.clone();
        }
        Some(world)
    }

    /// Gives what comes of it, whatever the other master and the messages are like.
    fn outcome(&self, node: &Node, wall: WallMs, mut event: Event) -> Option<Outcome> {
        let known = twins::before(self, node.known(), &mut event);
        let own_event = event.clone();
        let mut stepped = node::step(&known, node.serving, wall, &[], event);
        let mut broken = stepped.broken.take();
        if !self.bounds.twins.is_empty() {
            twins::after(self, node, &known, &mut stepped);
        }
        let lost_at_crash = twins::not_durable(self, &own_event);
        let next = node.after(&stepped, |_| lost_at_crash);
        let permit = next.disk.permit_out;
        if node.disk.permit_out.is_some() && permit < node.disk.permit_out {
            broken = Some("I8: a permit was taken back within a pairing".to_owned());
        }
        for frame in &stepped.messages {
            if matches!(frame.message, PeerMessage::Heartbeat { permit: sent, .. } if sent != permit) {
                broken = Some("I8: a permit was sent that is not durable".to_owned());
            }
        }
        let told = match (&own_event, stepped.replies.pop()) {
            (Event::Token { request, .. }, Some(Reply::Token(Ok(grant)))) => Some((request.session, grant)),
            (Event::Rent { request, .. }, Some(Reply::Rent(Ok(Rent::Success { until, .. })))) => {
                let before = known.leases.get(&request.key)?;
                let token_type = before.token_type;
                let (from, receipt) = (before.from, None);
                Some((request.session, Grant { token_type, key: request.key, g: request.g, from, until, receipt }))
            }
            _ => None,
        };
        let messages = stepped.messages.into_iter().map(Shared::new).collect();
        Some(Outcome { next: Shared::new(next), messages, told, broken })
    }

    /// A crash and a new start, and a silence long enough to go on alone.
    fn restarted(&self, world: &World, at: usize) -> Option<Node> {
        Some(Node::started(world.node(at)?.disk.clone(), at as u64, true))
    }

    fn peer_lost(&self, mut world: World, survivor: usize) -> Option<World> {
        let node = self.restarted(&world, survivor)?;
        let pairing = u128::from(node.disk.identity.pair_epoch) + 1;
        let loaded = twins::loaded_for_declaring_lost(self, &node.disk);
        let mut writes = declare_lost(&loaded, EpochId(pairing), TOKEN, Actor::new("operator", ""), WallMs(0));
        twins::after_declaring_lost(self, &node.disk, &mut writes);
        world.put_node(survivor, node.written(&writes));
        world.joining = Joining::Lost { survivor };
        // The replacement's connection leads to the survivor.
        world.link = Link::All;
        world.replaced += 1;
        Some(world)
    }

    fn join(&self, world: World) -> Option<World> {
        let (survivor, step) = match &world.joining {
            Joining::No => return None,
            Joining::Lost { survivor } => (*survivor, JoinStep::Begin),
            Joining::Begun { survivor, .. } => (*survivor, JoinStep::Page { after: None }),
            Joining::Cut { survivor, .. } => (*survivor, JoinStep::Done),
        };
        let known = world.node(survivor)?.clone();
        let (id, master) = (RequestId(0), known.id().other());
        let event = Event::Join { id, token: TOKEN, master, step };
        let mut stepped = node::step(known.known(), known.serving, self.last_wall(), &[], event);
        let mut next = known.after(&stepped, |_| false);
        twins::after_join(self, &known.disk, &mut next.disk);
        let mut world = world;
        world.joining = match (stepped.replies.pop(), world.joining) {
            (Some(Reply::Join(Ok(JoinReply::Begun(begun)))), _) => Joining::Begun { survivor, begun },
            (Some(Reply::Join(Ok(JoinReply::Page { mut records, .. }))), Joining::Begun { begun, .. }) => {
                records.iter_mut().for_each(|(_, lease)| plain(lease));
                Joining::Cut { survivor, begun, records }
            }
            (Some(Reply::Join(Ok(JoinReply::Done))), Joining::Cut { records, begun, .. }) => {
                let (identity, written) = first_writes(master, begun);
                let leases = records.into_iter().map(|(key, lease)| (key, taken_over(master, key, lease))).collect();
                let mut disk = Disk::of_replacement(identity, Leases { leases, ..Leases::default() });
                disk.apply(&[written]);
                world.nodes.push(Shared::new(Node::new(disk, Serving::Alone)));
                Joining::No
            }
            _ => return None,
        };
        world.put_node(survivor, next);
        Some(world)
    }

    /// Adds, as actions, who may connect to whom.
    fn greetings(&self, world: &World, at: usize, node: &Node, actions: &mut Vec<Action>) {
        if self.bounds.greetings.is_none() {
            return;
        }
        let newest = world.newest_pairing();
        let replaced = node.disk.identity.pair_epoch < newest;
        for (with, other) in world.nodes.iter().enumerate().filter(|(_, other)| other.disk.identity.master != node.id())
        {
            let survivor = replaced && other.disk.identity.pair_epoch == newest;
            if survivor || self.bounds.copied.is_some() {
                actions.extend((1..=GREETINGS_MAX).map(|count| Action::Greet { at, with, count }));
            }
        }
    }

    /// A master connects to another. On the connection messages follow only if all that is to be said first was said, and both
    /// have taken the other's greeting in.
    fn greet(&self, mut world: World, at: usize, with: usize, count: usize) -> Option<World> {
        let met = self.meet(&mut world, at, with, count)?;
        let taken = met.complete && met.greeted == [true, true];
        match self.bounds.copied {
            Some(copied) if copied == world.node(with)?.id() => {
                let speaks = self.has(Twin::SpeaksUnanswered) && !world.node(at)?.disk.lives.peer_copied;
                world.link = if taken || speaks { Link::To(with) } else { Link::Broken };
            }
            Some(_) => {}
            None if met.complete => drop(world.answered.insert(at)),
            None => {}
        }
        Some(world)
    }

    /// All that the two say to each other of who they are, or the first `count` frames of it, beginning with `at`.
    fn meet(&self, world: &mut World, at: usize, with: usize, count: usize) -> Option<Arc<Met>> {
        let (asker, other) = (world.nodes.get(at)?.clone(), world.nodes.get(with)?.clone());
        let ends = [asker.id(), other.id()];
        let wall = self.last_wall();
        let meet = || Some(greetings::connect(self, &asker, &other, count, wall));
        let met = self.meetings.of(hash_of(&(ends, count)), meet)?;
        for (place, node) in [at, with].into_iter().zip(&met.nodes) {
            if node.disk.lives.peer_copied {
                world.link = Link::Broken;
            }
            if let Some(place) = world.nodes.get_mut(place) {
                *place = node.clone();
            }
        }
        Some(met)
    }

    /// Messages of a life of the other master that is not the accepted one are answered with a greeting on the connection they
    /// came by, if who sent them still lives in it. `None`: they are not.
    fn asked_to_greet(&self, world: &World, at: usize, frame: &PeerFrame) -> Option<World> {
        let here = world.node(at)?;
        let of_this_pairing = frame.epoch == here.disk.identity.epoch;
        if self.has(Twin::AnyLifeBelieved)
            || !of_this_pairing
            || !frame.is_answered(here.known().lives.present(), here.known().lives.peer)
        {
            return None;
        }
        let sent_it =
            |node: &Shared<Node>| node.disk.identity.master == frame.from && node.disk.lives.present() == frame.life;
        let sender = world.nodes.iter().position(sent_it)?;
        let mut after = world.clone();
        let met = self.meet(&mut after, at, sender, GREETINGS_MAX)?;
        let [here, sender] = &met.nodes;
        let accepted = here.disk.lives.peer == Some(sender.disk.lives.present());
        let both_stopped = here.disk.lives.peer_copied && sender.disk.observed.rolled_back;
        if met.complete && !accepted && !both_stopped && !here.disk.observed.rolled_back {
            after.broken = Some("who was asked to greet is neither accepted nor stopped".to_owned());
        }
        Some(after)
    }

    /// Tells whether `at` may be answered its table by `from`: always where greetings are left out.
    fn exchanges(&self, world: &World, at: usize, node: &Node, from: usize) -> bool {
        match world.link {
            Link::All => true,
            Link::Broken => false,
            Link::To(to) => node.greeted && (to == at || to == from),
        }
    }

    fn cut_page(&self, mut world: World, at: usize, from: usize) -> Option<World> {
        let asking = world.node(at)?.clone();
        let unmet = asking.disk.unmet() && !self.has(Twin::NoLift);
        let mut pull = asking.frame(PeerMessage::Pull { exchange: EXCHANGE, after: None, unmet, retired: 0 });
        let other = world.node(from).filter(|other| twins::hears(self, other.known()))?.clone();
        twins::before_any(self, other.known(), &mut pull);
        let stepped = node::step(other.known(), other.serving, self.last_wall(), &[], Event::Message(Box::new(pull)));
        let mut page = stepped.messages.into_iter().find(|frame| matches!(frame.message, PeerMessage::Page { .. }))?;
        if let PeerMessage::Page { proposals, .. } = &mut page.message
            && self.has(Twin::ProposalsKeptBack)
        {
            proposals.clear();
        }
        // It is meant for whoever has asked.
        page.to = None;
        world.put_node(from, other.written(&stepped.writes));
        world.put_node(at, Node { page: Some(Shared::new(page)), ..asking });
        Some(world)
    }

    fn take_page(&self, world: World, at: usize) -> Option<World> {
        let page = world.node(at)?.page.clone()?;
        self.step(world, at, self.last_wall(), Event::Message(Box::new(PeerFrame::clone(&page))))
    }

    /// So do both. Agents that hold something have not shown it yet.
    fn revert(&self, mut world: World) -> World {
        for (at, kept) in std::mem::take(&mut world.kept) {
            let disk = Disk { lives: no_starts(!self.has(Twin::PutBackBelieved)), ..Disk::clone(&kept) };
            world.put_node(at, Node::new(disk, Serving::Alone));
        }
        world.messages.clear();
        world.unshown = Shared::new(world.promises.keys().copied().collect());
        world.reverted = true;
        world
    }

    /// The copy of its disk takes the place of what there is. What its life before has sent and was not received then
    /// never is: the connection ended with the process.
    fn put_back(&self, mut world: World, at: usize) -> Option<World> {
        let (_, kept) = world.kept.pop()?;
        let mut disk = Disk::clone(&kept);
        // Where it awaited, all that the kernel shows of it is as it was; the volume was never detached.
        disk.lives.unproven = !self.bounds.awaiting && !stays_proven(!self.has(Twin::PutBackBelieved));
        let id = disk.identity.master;
        world.messages.retain(|messages| messages.from != id);
        // Nor is a page of its table taken in: the greeting of its next life begins another exchange.
        for other in 0..world.nodes.len() {
            let Some(node) = world.node(other).filter(|node| node.page.is_some() && other != at).cloned() else {
                continue;
            };
            world.put_node(other, Node { page: None, ..node });
        }
        world.put_node(at, Node::new(disk, Serving::Alone));
        world.put_back = true;
        if self.bounds.awaiting {
            self.reach_again(&mut world, at)?;
        }
        Some(world)
    }

    /// Its replacement is there, and connects to it before it serves anything. It takes the token that was used for one that is not.
    fn reach_again(&self, world: &mut World, survivor: usize) -> Option<()> {
        let newest = world.nodes.len().checked_sub(1)?;
        self.meet(world, newest, survivor, GREETINGS_MAX)?;
        world.joining = Joining::Lost { survivor };
        if !world.node(survivor)?.disk.observed.rolled_back {
            world.broken = Some("a survivor that hears who has joined, and awaits, goes on".to_owned());
        }
        Some(())
    }

    /// Within the bounds, and something new.
    fn kept(&self, before: &World, mut after: World) -> Option<World> {
        if self.bounds.heartbeat_days.is_empty() {
            after.messages.retain(|messages| !matches!(messages.message, PeerMessage::Heartbeat { .. }));
        }
        // Where a disk is put back, or another pairing or any life believed, what was inert may matter again.
        let may_return =
            [Twin::RolledBackDisk, Twin::EpochIgnored, Twin::AnyLifeBelieved].into_iter().any(|twin| self.has(twin));
        if !self.bounds.keep_inert_messages && !may_return {
            inert::take_out(&mut after);
        }
        after.forget_sent();
        let within =
            after.generation_max() <= self.bounds.generations && after.messages.len() <= self.bounds.messages_max;
        (within && after != *before).then_some(after)
    }
}

impl Model for Masters {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let disks = [MasterId::One, MasterId::Two].map(|id| self.first_disk(id));
        let mut world = World {
            nodes: Vec::new(),
            messages: Vec::new(),
            promises: Shared::new(Promises::new()),
            joining: Joining::No,
            replaced: 0,
            kept: Vec::new(),
            unshown: Shared::new(BTreeSet::new()),
            link: match (self.bounds.greetings, self.bounds.copied) {
                (Some(_), Some(copied)) => Link::To(usize::from(copied.number()) - 1),
                _ => Link::All,
            },
            sent_to: Shared::new(BTreeMap::new()),
            starts: 0,
            answered: BTreeSet::new(),
            reverted: false,
            put_back: false,
            broken: None,
        };
        for disk in disks {
            let node = Node::new(disk, Serving::Ready);
            let permit = node.disk.permit_out;
            // Where nobody is replaced a permit never matters.
            if !self.bounds.heartbeat_days.is_empty() {
                world.post(node.frame(heartbeat(permit)));
            }
            world.nodes.push(Shared::new(node));
        }
        vec![world]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (at, node) in world.nodes.iter().enumerate() {
            self.requests(world, at, actions);
            actions.push(Action::Beat { at, wall: self.last_wall() });
            self.deliveries(world, at, node, actions);
            if self.bounds.copied.is_none() || self.bounds.greetings.is_none_or(|starts| world.starts < starts) {
                actions.push(Action::Restart { at });
            }
            self.greetings(world, at, node, actions);
            if self.bounds.copied == Some(node.disk.identity.master) && world.nodes.len() == 2 {
                actions.push(Action::Copy { at });
            }
            // A copy exchanges no tables where greetings are left out: the starts in them tell it from its original.
            let is_copy = at >= 2 && self.bounds.copied.is_some() && self.bounds.greetings.is_none();
            if node.serving == Serving::Alone && !is_copy {
                let others = world.nodes.iter().enumerate().filter(|(_, other)| other.id() != node.id());
                let linked = |from: &usize| self.exchanges(world, at, node, *from);
                actions.extend(others.map(|(from, _)| from).filter(linked).map(|from| Action::CutPage { at, from }));
                actions.push(Action::TakePage { at });
            }
            if self.may_be_put_back(world, at, node) {
                actions.push(if !world.kept.is_empty() { Action::PutBack { at } } else { Action::Keep { at } });
            }
            actions.extend(self.bounds.twins.iter().map(|twin| Action::Twin { at, twin: *twin }));
        }
        if self.bounds.revert && !world.reverted {
            actions.push(if world.kept.is_empty() { Action::KeepBoth } else { Action::Revert });
        }
        let quiet = |node: &&Shared<Node>| node.disk.caution.quiet;
        if world.nodes.iter().find(quiet).is_some() && world.unshown.is_empty() {
            actions.extend((0..world.nodes.len()).map(|at| Action::QuietEnds { at }));
        }
        self.replacements(world, actions);
    }

    fn next_state(&self, before: &World, action: Action) -> Option<World> {
        let world = before.clone();
        let id = RequestId(0);
        let after = match action {
            Action::Request { at, session, wall } => {
                let request = TokenRequest {
                    agent_id: agent(session)?,
                    session,
                    cluster: None,
                    token_type: TokenType::Uint2,
                    former: Vec::new(),
                };
                match twins::both_propose(self, &world, at, &request, wall) {
                    Some(proposed) => Some(proposed),
                    None => self.step(world, at, wall, Event::Token { id, request, address: String::new() }),
                }
            }
            Action::Renew { at, key, g, session, wall } => {
                let agent_id = agent(session)?;
                let shown = self.bounds.revert && !self.has(Twin::NoReceipts);
                let receipt = if shown { world.receipt((key, g, session)) } else { None };
                let request = RentRequest { agent_id, session, cluster: None, key, g, rseq: 0, attempt: 0, receipt };
                let mut after = self.step(world, at, wall, Event::Rent { id, request })?;
                if after.node(at)?.serving == Serving::Ready {
                    after.show((key, g, session));
                }
                Some(after)
            }
            Action::Release { at, key, g, session, wall } => {
                let request = TerminateRequest { agent_id: agent(session)?, session, key, g };
                let denied = self.step(world, at, wall, Event::Terminate { id, request })?;
                Some(twins::after_release(self, denied, key))
            }
            Action::Beat { at, wall } => self.step(world, at, wall, Event::Tick),
            Action::Deliver { at, mut frame, wall, .. } => match twins::confirm_anywhere(self, &world, at, &frame) {
                Some(confirmed) => Some(confirmed),
                None => match self.asked_to_greet(&world, at, &frame) {
                    Some(greeted) => Some(greeted),
                    None => {
                        if let PeerMessage::Heartbeat { wall: theirs, .. } = &mut frame.message {
                            *theirs = wall;
                        }
                        self.step(world, at, wall, Event::Message(frame))
                    }
                },
            },
            Action::CutPage { at, from } => self.cut_page(world, at, from),
            Action::TakePage { at } => self.take_page(world, at),
            Action::Restart { at } => {
                let restarted = self.restarted(&world, at)?;
                let mut world = world;
                if self.bounds.copied.is_some() && self.bounds.greetings.is_some() {
                    world.starts += 1;
                    if world.link == Link::To(at) || self.bounds.copied == Some(restarted.id().other()) {
                        world.link = Link::Broken;
                    }
                }
                world.put_node(at, restarted);
                Some(world)
            }
            Action::Greet { at, with, count } => self.greet(world, at, with, count),
            Action::Keep { at } => {
                let mut world = world;
                world.kept = vec![(at, Shared::new(world.node(at)?.disk.clone()))];
                Some(world)
            }
            Action::PutBack { at } => self.put_back(world, at),
            Action::KeepBoth => {
                let mut world = world;
                let copies = world.nodes.iter().enumerate().map(|(at, node)| (at, Shared::new(node.disk.clone())));
                world.kept = copies.collect();
                Some(world)
            }
            Action::Revert => Some(self.revert(world)),
            Action::QuietEnds { at } => {
                let mut world = world;
                let mut node = world.node(at)?.clone();
                node.disk.caution.quiet = false;
                world.put_node(at, node);
                Some(world)
            }
            Action::Copy { at } => {
                // Without its lineage a copy takes itself for what it was copied from.
                let mut disk = world.node(at)?.disk.clone();
                disk.lives.unproven |= !self.has(Twin::CopyTrusted);
                let copy = Node::started(disk, world.nodes.len() as u64, true);
                let mut world = world;
                world.nodes.push(Shared::new(copy));
                Some(world)
            }
            Action::PeerLost { survivor } => self.peer_lost(world, survivor),
            Action::Join => self.join(world),
            Action::Twin { at, twin } => twins::act(world, at, twin),
        };
        self.kept(before, after?)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![Property::always(DISJOINT, |model: &Self, world: &World| world.disjoint(&model.parameters))];
        if self.bounds.twins.is_empty() {
            all.push(Property::always(SOUND, |_, world: &World| world.broken.is_none()));
            all.push(Property::always(COVERED, |_, world: &World| world.closed_covers()));
            all.push(Property::always(HEALS, heal::sampled));
        }
        if self.bounds.twins.is_empty() || self.has(Twin::AnyLifeBelieved) {
            all.push(Property::always(BOTH_KNOW, |_, world: &World| world.both_know()));
        }
        if self.bounds.greetings.is_some() {
            all.push(Property::always(ANSWERED, |_, world: &World| world.answered_stopped()));
        }
        all
    }
}

pub(super) fn instant(day: i64) -> WallMs {
    WallMs(day * DAY_MS + DAY_MS / 2)
}

pub(super) fn agent(session: SessionId) -> Option<AgentId> {
    format!("a{}", session.0).parse().ok()
}

/// Tells whether an agent could still be told of this record.
pub(super) fn open(state: LeaseState) -> bool {
    state != LeaseState::Closed
}
