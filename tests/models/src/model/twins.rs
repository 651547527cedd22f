//! The protocol with one of its mechanisms taken away: a model that could not find the duplicate there would prove nothing
//! where it finds none. The product's `step` stays as it is; what it is given, or what comes out of it, is bent.

use super::disk::{Disk, Node, Stepped};
use super::masters::{Masters, open};
use super::world::{Joining, World};
use crate::kit::node::Serving;
use common::lease::{Generation, Lease, LeaseState, Prep};
use common::parameters::MasterId;
use common::time::WallMs;
use common::token::{TokenKey, TokenType, TokenValue};
use ledger::lease::Loaded;
use ledger::lease::{Event, PeerObservations, Write};
use ledger::replication::rules;
use std::collections::BTreeMap;
use wire::lease::TokenRequest;
use wire::peer::{PeerFrame, PeerMessage};

/// A mechanism that is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Twin {
    /// The seed, taken literally: a master that is not a value's home proposes it too, and both confirm.
    BothPropose,
    /// A renewal is answered before it is durable.
    RenewalsNotDurable,
    /// A proposal is confirmed before the lease is durable.
    ConfirmBeforeDurable,
    /// A proposal is sent before it is durable.
    PrepNotDurable,
    /// Records from the other master replace one's own, older or not.
    MergeOverwrites,
    /// The home ends a lease without asking the other master.
    EndAlone,
    /// A proposal of a higher generation is confirmed whatever is known of the older one.
    ConfirmBlindly,
    /// A proposal that was not answered is forgotten.
    AbortedPrep,
    /// Any confirmation of a value confirms the proposal that stands.
    AnyConfirm,
    /// Messages of another pairing are believed.
    EpochIgnored,
    /// Declaring the other lost extends nothing.
    NoBump,
    /// A renewal reaches as far as the agent likes, whatever the other permits.
    NoPermit,
    /// A survivor keeps the permit of its lost peer when the new one takes its snapshot.
    PermitKeptAfterJoin,
    /// A survivor's proposals become leases, but are not extended.
    PrepNotExtended,
    /// A survivor's proposals stay proposals.
    PrepKept,
    /// A survivor's proposals are dropped.
    PrepForgotten,
    /// A master serves everything before it has read the other's table.
    ServeBeforeSync,
    /// A lease that is ending is renewed.
    RenewAfterClose,
    /// A master that is asked to end a lease does not look how far it renewed it itself.
    CloseIgnoresUntil,
    /// A lease that is given back, or denied, is free at once.
    DenyFrees,
    /// A start without proven lineage is taken for one with it; where its volume is attached is not compared.
    PutBackBelieved,
    /// Agents show no receipts.
    NoReceipts,
    /// At the meeting after a start without proven lineage nothing is lifted.
    NoLift,
    /// A master that may have forgotten a confirmation is not told what was proposed to it.
    ProposalsKeptBack,
    /// A copy of a store does not know that it may be one.
    CopyTrusted,
    /// A copy knows it, and promises nothing, but consents to what the other master asks.
    CopyConsents,
    /// Any life of the other master is believed, whichever greeted last, and whomever its words are meant for.
    AnyLifeBelieved,
    /// A master says more on a new connection before its greeting there was answered, as it may.
    SpeaksUnanswered,
    /// The starts in greetings are not compared.
    LivesIgnored,
    /// A replaced master that greets the survivor is answered at the address where the survivor expects its peer.
    AnsweredElsewhere,
    /// A master's disk is put back to what it was at the beginning, and nobody notices.
    RolledBackDisk,
    /// A survivor that awaits its replacement listens to nobody of the new pairing.
    TokenUsedIgnored,
}

/// Tells whether a master listens to the other one at all.
pub(super) fn hears(model: &Masters, known: &Disk) -> bool {
    known.identity.awaiting.is_none() || !model.has(Twin::TokenUsedIgnored)
}

/// Bends what a step is given.
pub(super) fn before(model: &Masters, known: &Disk, event: &mut Event) -> Disk {
    let mut bent = known.clone();
    match event {
        Event::Rent { request, .. } => {
            if model.has(Twin::NoPermit) {
                bent.observed.permit_in = Some(WallMs(i64::MAX));
            }
            if model.has(Twin::RenewAfterClose)
                && let Some(lease) = bent.leases.get_mut(&request.key)
            {
                lease.state = LeaseState::Held;
            }
        }
        Event::Message(frame) => {
            if model.has(Twin::CopyConsents) {
                bent.lives.unproven = false;
            }
            before_any(model, known, frame);
            before_messages(model, &mut bent, &mut frame.message);
        }
        _ => {}
    }
    bent
}

/// Bends who says it.
pub(super) fn before_any(model: &Masters, known: &Disk, frame: &mut PeerFrame) {
    if model.has(Twin::EpochIgnored) {
        frame.epoch = known.identity.epoch;
    }
    if model.has(Twin::AnyLifeBelieved) {
        (frame.life, frame.to) = (known.lives.peer.unwrap_or_default(), None);
    }
}

fn before_messages(model: &Masters, bent: &mut Disk, message: &mut PeerMessage) {
    match message {
        PeerMessage::Sync { records, .. } | PeerMessage::Page { records, .. } if model.has(Twin::MergeOverwrites) => {
            for (key, _) in records {
                bent.leases.remove(key);
            }
        }
        PeerMessage::Close { key, g, until } if model.has(Twin::CloseIgnoresUntil) => {
            if let Some(lease) = bent.leases.get_mut(key).filter(|lease| lease.g == *g) {
                lease.until = lease.until.min(*until);
            }
        }
        PeerMessage::Propose { prep } if model.has(Twin::ConfirmBlindly) => {
            bent.leases.retain(|key, lease| *key != prep.key || lease.g >= prep.g);
        }
        PeerMessage::Confirm { prep } if model.has(Twin::AnyConfirm) => {
            if let Some(stands) = bent.preps.get(&prep.key) {
                *prep = stands.clone();
            }
        }
        _ => {}
    }
}

/// Bends what a master knows when it meets the other one.
pub(super) fn before_meeting(model: &Masters, known: &Disk) -> Disk {
    let mut bent = known.clone();
    if model.has(Twin::LivesIgnored) {
        bent.lives.peer_ended.clear();
    }
    bent
}

/// Bends a greeting before `known` takes it in; `false`: it never comes there.
pub(super) fn before_greeting(model: &Masters, known: &Disk, frame: &mut PeerFrame) -> bool {
    let PeerMessage::Hello(hello) = &mut frame.message else { return true };
    if !hears(model, known) {
        return false;
    }
    if model.has(Twin::LivesIgnored) {
        let newest = hello.lives.last().copied();
        hello.lives.extend(known.lives.peer.into_iter().chain(newest));
        (hello.accepted, hello.copied) = (None, false);
    }
    hello.retired.is_none() || !model.has(Twin::AnsweredElsewhere)
}

/// Bends what came of a step of `node`, which was given `known`.
pub(super) fn after(model: &Masters, node: &Node, known: &Disk, stepped: &mut Stepped) {
    for write in &mut stepped.writes {
        if let Write::PeerObservations(observed) = write
            && model.has(Twin::NoPermit)
        {
            *observed = PeerObservations { permit_in: known.observed.permit_in, ..*observed };
        }
    }
    for frame in &stepped.messages {
        if let PeerMessage::Close { key, .. } = &frame.message
            && model.has(Twin::EndAlone)
            && let Some(lease) = known.leases.get(key)
        {
            stepped.writes.push(Write::Lease(*key, Lease { state: LeaseState::Closed, ..lease.clone() }));
        }
    }
    stepped.known = node.knowing(&stepped.writes);
}

/// Tells whether a crash loses what this event wrote, although it was answered.
pub(super) fn not_durable(model: &Masters, event: &Event) -> bool {
    match event {
        Event::Rent { .. } => model.has(Twin::RenewalsNotDurable),
        Event::Token { .. } => model.has(Twin::PrepNotDurable),
        Event::Message(frame) => {
            model.has(Twin::ConfirmBeforeDurable) && matches!(frame.message, PeerMessage::Propose { .. })
        }
        _ => false,
    }
}

pub(super) fn loaded_for_declaring_lost(model: &Masters, disk: &Disk) -> Loaded {
    let permit_out = disk.permit_out.filter(|_| !model.has(Twin::NoBump));
    Loaded { permit_out, ..disk.loaded() }
}

pub(super) fn after_declaring_lost(model: &Masters, disk: &Disk, writes: &mut Vec<Write>) {
    let of_a_prep = |key: &TokenKey, g: Generation| disk.preps.get(key).filter(|prep| prep.g == g);
    if model.has(Twin::PrepNotExtended) {
        for write in writes.iter_mut() {
            if let Write::Lease(key, lease) = write
                && let Some(prep) = of_a_prep(key, lease.g)
            {
                lease.until = prep.until;
            }
        }
    }
    let kept = model.has(Twin::PrepKept);
    if kept || model.has(Twin::PrepForgotten) {
        writes.retain(|write| match write {
            Write::Lease(key, lease) => of_a_prep(key, lease.g).is_none(),
            Write::DropPrep(_) => !kept,
            _ => true,
        });
    }
}

pub(super) fn after_join(model: &Masters, before: &Disk, after: &mut Disk) {
    if model.has(Twin::PermitKeptAfterJoin) {
        after.observed.permit_in = before.observed.permit_in;
    }
}

/// Frees at both what is given back, with [`Twin::DenyFrees`].
pub(super) fn after_release(model: &Masters, mut world: World, key: TokenKey) -> World {
    if model.has(Twin::DenyFrees) {
        for at in 0..world.nodes.len() {
            let Some(mut node) = world.node(at).cloned() else { continue };
            if let Some(lease) = node.disk.leases.get_mut(&key) {
                (lease.state, lease.until) = (LeaseState::Closed, lease.from);
            }
            world.put_node(at, node);
        }
    }
    world
}

/// A master proposes a value that is not at home there.
pub(super) fn both_propose(
    model: &Masters,
    world: &World,
    at: usize,
    request: &TokenRequest,
    wall: WallMs,
) -> Option<World> {
    let node = world.node(at).filter(|node| model.has(Twin::BothPropose) && node.id() == MasterId::One)?;
    let key = TokenType::Uint2.key(TokenValue(0));
    let known = node.known().leases.get(&key);
    let today = model.parameters.utc_offset().day_floor(wall);
    let free = known.is_none_or(|lease| !open(lease.state) && model.parameters.reuse_at(lease.until) <= today);
    if !free || node.known().preps.contains_key(&key) {
        return None;
    }
    let prep = Prep {
        key,
        g: known.map_or(Generation::default(), |lease| lease.g).next(),
        token_type: TokenType::Uint2,
        agent_id: request.agent_id.clone(),
        session: request.session,
        address: String::new(),
        granted: wall,
        from: today,
        until: wall + model.parameters.lease(),
    };
    let mut world = world.clone();
    world.post(node.frame(PeerMessage::Propose { prep: prep.clone() }));
    let proposed = node.written(&[Write::Prep(prep)]);
    world.put_node(at, proposed);
    Some(world)
}

/// A home confirms another one's proposal of its value, by the rule for those that are not at home.
pub(super) fn confirm_anywhere(model: &Masters, world: &World, at: usize, frame: &PeerFrame) -> Option<World> {
    let node = world.node(at).filter(|node| model.has(Twin::BothPropose) && node.id() == MasterId::Two)?;
    let PeerMessage::Propose { prep } = &frame.message else { return None };
    let known = node.known().leases.get(&prep.key);
    let again = known.is_some_and(|lease| rules::same_grant(lease, prep));
    if !again && !rules::may_confirm(known, prep, &model.parameters) {
        return Some(world.clone());
    }
    let mut world = world.clone();
    world.post(node.frame(PeerMessage::Confirm { prep: prep.clone() }));
    let writes = if again { Vec::new() } else { vec![Write::Lease(prep.key, Lease::from_prep(prep))] };
    let confirmed = node.written(&writes);
    world.put_node(at, confirmed);
    Some(world)
}

/// Does what happens by itself where a mechanism is missing.
pub(super) fn act(mut world: World, at: usize, twin: Twin) -> Option<World> {
    let node = world.node(at)?.clone();
    let next = match twin {
        Twin::AbortedPrep => {
            let drops: Vec<Write> = node.known().preps.keys().map(|key| Write::DropPrep(*key)).collect();
            node.written(&drops)
        }
        Twin::ServeBeforeSync if node.disk.identity.awaiting.is_none() => {
            Node { serving: Serving::Ready, page: None, ..node }
        }
        Twin::RolledBackDisk if at < 2 && world.joining == Joining::No => {
            let mut disk = node.disk;
            (disk.leases, disk.preps) = (BTreeMap::new(), BTreeMap::new());
            Node::new(disk, Serving::Alone)
        }
        _ => return None,
    };
    world.put_node(at, next);
    Some(world)
}
