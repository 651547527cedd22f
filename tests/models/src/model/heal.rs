//! Nothing is ever stuck: from any state, once both masters run, messages arrive and the calendar goes on, every value is
//! granted again.

use super::disk::{Disk, Leases};
use super::masters::{Masters, TOKEN, agent};
use super::world::World;
use crate::kit::shared::hash_of;
use common::audit::Actor;
use common::parameters::{EpochId, SessionId};
use common::time::{BootMs, Now, SpanMs, WallMs};
use common::token::{TokenKey, TokenType};
use ledger::Ledger;
use ledger::lease::remedy::{after_revert, floor_of};
use ledger::lease::{Effects, Event, Identity, Reply, RequestId};
use ledger::replication::join::{declare_lost, taken_over};
use std::collections::{BTreeSet, VecDeque};
use wire::lease::TokenRequest;
use wire::peer::{JoinStep, PeerFrame, PeerMessage};

/// Beats until all is well again. Two for the first heartbeats, four for a closing that was refused once, some to spare.
const BEATS_MAX: i64 = 20;
/// Frames that answer one beat; more of them never end.
const FRAMES_MAX: usize = 1_000;

/// Two ledgers that hear each other.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) ledgers: Vec<Ledger>,
    messages: VecDeque<PeerFrame>,
    pub(crate) replies: Vec<Reply>,
    granted: BTreeSet<TokenKey>,
    pub(crate) now: Now,
    /// By how much their machines' calendars are off.
    pub(crate) off: [SpanMs; 2],
    /// Tells whether nothing arrives.
    pub(crate) cut: bool,
    /// Tells whether each takes what its own machine shows for what the other's does, which is a twin's doing.
    pub(crate) own_read: bool,
}

/// Tells whether `world` heals; looked at in every `bounds.heal_every`th state, by its hash.
pub(super) fn sampled(model: &Masters, world: &World) -> bool {
    let every = model.bounds.heal_every;
    every == 0 || !hash_of(world).is_multiple_of(every) || heals(model, world)
}

/// Tells whether `world` heals.
pub(super) fn heals(model: &Masters, world: &World) -> bool {
    let mut disks: Vec<Disk> = world.current().filter_map(|at| world.node(at)).map(|node| node.disk.clone()).collect();
    // What an operator does after a revert that was shown.
    for disk in disks.iter_mut().filter(|_| world.reverted) {
        let floor = floor_of(&model.parameters, WallMs(0), None);
        // Not one beside which another may have joined.
        if let Ok(writes) = after_revert(&disk.loaded(), floor, 0, Actor::new("operator", ""), WallMs(0)) {
            disk.apply(&writes);
        }
    }
    // Nor does one go on that awaits who has joined: that one is told that it is lost.
    if disks.len() > 1 && disks.iter().any(|disk| disk.identity.awaiting.is_some()) {
        disks.retain(|disk| disk.identity.awaiting.is_none());
        for disk in &mut disks {
            let pairing = EpochId(u128::from(disk.identity.pair_epoch) + 1);
            let writes = declare_lost(&disk.loaded(), pairing, TOKEN, Actor::new("operator", ""), WallMs(0));
            disk.apply(&writes);
        }
    }
    // Far behind whatever was promised, and for a new pairing behind what could be.
    let ends =
        disks.iter().flat_map(|disk| disk.leases.values().map(|l| l.until).chain(disk.preps.values().map(|p| p.until)));
    // A meeting lifts what is open to what was permitted.
    let unmet = disks.iter().any(|disk| disk.unmet());
    let permits = disks.iter().filter(|_| unmet).flat_map(|disk| disk.permit_out.max(disk.observed.permit_in));
    let floors = disks.iter().filter_map(|disk| disk.caution.floor.map(|floor| floor.until));
    let wall = ends.chain(permits).chain(floors).max().unwrap_or_default() + SpanMs::days(3);
    let now = Now { wall, boot: BootMs(0) };
    if let [survivor] = disks.as_mut_slice() {
        let Some(new) = replace(survivor, now) else { return false };
        disks.push(new);
    }
    let ledgers = disks.iter().map(|disk| Ledger::start(disk.loaded(), now, 0, None, String::new())).collect();
    let Some(mut pair) = Pair::meet(ledgers, now) else { return false };
    if unmet {
        // What was lifted reaches as far as was permitted just before.
        pair.pass(model.parameters.solo());
        pair.pass(SpanMs::days(4));
    }
    (0..BEATS_MAX).any(|beat| pair.beat(beat) && pair.granted.len() == usize::from(model.bounds.values))
}

/// The operator lets a new master join, from the first step on.
fn replace(survivor: &mut Disk, now: Now) -> Option<Disk> {
    let master = survivor.identity.master.other();
    if survivor.identity.awaiting.is_some() {
        for step in [JoinStep::Begin, JoinStep::Done] {
            let mut ledger = Ledger::start(survivor.loaded(), now, 0, None, String::new());
            let mut fx = Effects::default();
            ledger.step(now, Event::Join { id: RequestId(0), token: TOKEN, master, step }, &mut fx);
            if !matches!(fx.replies.first(), Some((_, Reply::Join(Ok(_))))) {
                return None;
            }
            survivor.apply(&fx.writes);
        }
    }
    let identity = Identity { master, awaiting: None, ..survivor.identity.clone() };
    let leases = survivor.leases.iter().map(|(key, lease)| (*key, taken_over(master, *key, lease.clone()))).collect();
    let new = Disk::of_replacement(identity, Leases { leases, ..Leases::default() });
    Some(Disk { caution: survivor.caution, ..new })
}

impl Pair {
    /// Both connect, and all is said that there is to say. `None`: it never ends.
    pub(crate) fn meet(ledgers: Vec<Ledger>, now: Now) -> Option<Self> {
        let (messages, replies, granted) = (VecDeque::new(), Vec::new(), BTreeSet::new());
        let (off, cut, own_read) = ([SpanMs(0); 2], false, false);
        let mut pair = Self { ledgers, messages, replies, granted, now, off, cut, own_read };
        (0..pair.ledgers.len()).all(|at| pair.step(at, Event::Connected)).then_some(pair)
    }

    /// Days in which nothing happens.
    fn pass(&mut self, span: SpanMs) {
        self.now = Now { wall: self.now.wall + span, ..self.now };
        self.ledgers.iter_mut().for_each(|ledger| ledger.skip_quiet_time(span));
    }

    /// A second later: both beat, all their messages arrive, and for each value somebody new asks. `false`: it never ends.
    fn beat(&mut self, beat: i64) -> bool {
        self.now = Now { boot: self.now.boot + SpanMs::seconds(1), ..self.now };
        for at in 0..self.ledgers.len() {
            if !self.step(at, Event::Tick) {
                return false;
            }
            let session = SessionId(1_000 + u128::from(beat.unsigned_abs()));
            let Some(agent_id) = agent(session) else { return false };
            let request =
                TokenRequest { agent_id, session, cluster: None, token_type: TokenType::Uint2, former: Vec::new() };
            if !self.step(at, Event::Token { id: RequestId(0), request, address: String::new() }) {
                return false;
            }
        }
        true
    }

    /// Handles an event, and all that is said about it. `false`: it never ends.
    pub(crate) fn step(&mut self, at: usize, event: Event) -> bool {
        self.replies.clear();
        self.one(at, event);
        for _ in 0..FRAMES_MAX {
            let Some(frame) = self.messages.pop_front() else { return true };
            let to = self.ledgers.iter().position(|ledger| ledger.identity().master == frame.from.other());
            let Some(to) = to else { return false };
            self.one(to, Event::Message(Box::new(frame)));
        }
        false
    }

    /// The time that its machine shows.
    pub(crate) fn read(&self, at: usize) -> Now {
        let off = self.off.get(at).copied().unwrap_or_default();
        Now { wall: self.now.wall + off, ..self.now }
    }

    fn one(&mut self, at: usize, mut event: Event) {
        let now = self.read(at);
        let Some(ledger) = self.ledgers.get_mut(at) else { return };
        if let Event::Message(frame) = &mut event
            && let PeerMessage::Heartbeat { read, .. } = &mut frame.message
            && self.own_read
        {
            *read = now.wall;
        }
        let mut fx = Effects::default();
        ledger.step(now, event, &mut fx);
        let said = fx.messages.into_iter().filter(|_| !self.cut);
        self.messages.extend(said.map(|message| ledger.frame(message)));
        for (_, reply) in fx.replies {
            if let Reply::Token(Ok(grant)) = &reply {
                self.granted.insert(grant.key);
            }
            self.replies.push(reply);
        }
    }
}
