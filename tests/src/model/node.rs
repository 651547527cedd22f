//! One master of the model: what its disk holds, and the product's own `step` run on a ledger that was opened from it.

use common::lease::{Lease, Prep};
use common::parameters::MasterId;
use common::rpc::PROTOCOL;
use common::rpc::lease::Mode;
use common::rpc::peer::{Hello, Life, Memory, PeerFrame, PeerMessage};
use common::time::{BootMs, Now, SpanMs, WallMs};
use common::token::TokenKey;
use master::lease::Loaded;
use master::lease::{Alarm, Caution, Effects, Event, Identity, Lives, PeerObservations, Reply, Write};
use master::ledger::Ledger;
use master::store::lineage::Unproven;
use std::collections::BTreeMap;

/// When the ledger of a lone master is opened, when it has found itself alone, and when it has greeted: all before 0, at
/// which the step happens, and too close to each other for a beat in between.
const OPENED: BootMs = BootMs(-10_500);
const ALONE: BootMs = BootMs(-500);
const GREETED: BootMs = BootMs(-100);
pub(super) const STEP: BootMs = BootMs(0);
/// A beat is due, and the other master was heard lately.
const BEAT: BootMs = BootMs(1_000);
/// The exchange that an opened ledger waits for a page of.
pub(super) const EXCHANGE: u64 = 1;

/// What survives a crash: all that the writes of earlier steps left, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Disk {
    pub(super) identity: Identity,
    pub(super) permit_out: Option<WallMs>,
    pub(super) observed: PeerObservations,
    pub(super) caution: Caution,
    /// Its starts and the other's; where masters do not greet each other, only whether it was opened without proof and has not
    /// met the other since.
    pub(super) lives: Lives,
    pub(super) leases: BTreeMap<TokenKey, Lease>,
    pub(super) preps: BTreeMap<TokenKey, Prep>,
}

/// Whether a master serves everything, or only what it can do alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Serving {
    Alone,
    Ready,
}

/// A master.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) disk: Disk,
    /// What it believes beyond its disk; only a twin's master ever does.
    pub(super) beyond: Option<Disk>,
    pub(super) serving: Serving,
    /// A page of the other's table that was cut since this master started, and may arrive.
    pub(super) page: Option<Page>,
    /// Whether it has taken in a greeting since it started.
    pub(super) greeted: bool,
}

/// A page of a table, what the one that answers remembers, and in which life it answers.
pub(super) type Page = (Vec<(TokenKey, Lease)>, Vec<Prep>, Memory, Life);

/// What came of a step.
pub(super) struct Stepped {
    pub(super) writes: Vec<Write>,
    pub(super) messages: Vec<PeerFrame>,
    pub(super) reply: Option<Reply>,
    pub(super) serving: Serving,
    /// An invariant of one master that does not hold.
    pub(super) broken: Option<String>,
}

/// Nothing of the starts.
pub(super) fn no_starts(unproven: bool) -> Lives {
    Lives { unproven, ..Lives::default() }
}

impl Disk {
    /// Whether it was opened without proof, and has not met the other one since.
    pub(super) fn unmet(&self) -> bool {
        self.lives.unproven
    }

    /// Whether the starts are part of the state.
    pub(super) fn counts_starts(&self) -> bool {
        !self.lives.own.is_empty()
    }

    /// A disk of the other master of this pairing, in the life that is believed here: for messages in its name.
    pub(super) fn of_other(&self) -> Self {
        let identity = Identity { master: self.identity.master.other(), ..self.identity.clone() };
        let lives = Lives { own: self.lives.peer.into_iter().collect(), ..Lives::default() };
        Self { identity, lives, ..self.clone() }
    }

    pub(super) fn loaded(&self) -> Loaded {
        Loaded {
            identity: self.identity.clone(),
            lsn: 0,
            permit_out: self.permit_out,
            observed: self.observed,
            lives: self.lives.clone(),
            proven: if self.unmet() { Err(Unproven::NotMetSince) } else { Ok(()) },
            caution: self.caution,
            leases: self.leases.iter().map(|(key, lease)| (*key, lease.clone())).collect(),
            preps: self.preps.values().cloned().collect(),
            settings: Vec::new(),
            setting_preps: Vec::new(),
            run: None,
            cursors: Vec::new(),
            sections: Vec::new(),
            section_preps: Vec::new(),
            sections_cut: false,
            logins: Vec::new(),
        }
    }

    pub(super) fn apply(&mut self, writes: &[Write]) {
        for write in writes {
            match write {
                Write::Lease(key, lease) => drop(self.leases.insert(*key, lease.clone())),
                Write::Prep(prep) => drop(self.preps.insert(prep.key, prep.clone())),
                Write::DropPrep(key) => drop(self.preps.remove(key)),
                Write::Identity(identity) => self.identity = identity.clone(),
                Write::PermitOut(permit) => self.permit_out = *permit,
                Write::PeerObservations(observed) => self.observed = *observed,
                Write::Caution(caution) => self.caution = *caution,
                Write::Lives(lives) if self.counts_starts() => self.lives = lives.clone(),
                Write::Lives(lives) => self.lives.unproven = lives.unproven,
                // The model has no settings, and the audit decides nothing.
                Write::Setting(_)
                | Write::DropSetting(_)
                | Write::SettingPrep(_)
                | Write::DropSettingPrep(_)
                | Write::Run(_)
                | Write::Cursor { .. }
                | Write::Audit(_)
                | Write::Login(..)
                | Write::Sections { .. }
                | Write::SectionPreps { .. }
                | Write::SectionsCut(_) => {}
            }
        }
    }

    /// Whether a running ledger knows exactly what this disk holds: nothing is believed that would not survive.
    fn is_all_of(&self, ledger: &Ledger) -> bool {
        ledger.identity() == &self.identity
            && ledger.permit_out() == self.permit_out
            && ledger.observed() == &self.observed
            && ledger.caution() == &self.caution
            && ledger.lives().unproven == self.unmet()
            && (!self.counts_starts() || ledger.lives() == &self.lives)
            && ledger.table().leases().eq(self.leases.iter().map(|(key, lease)| (*key, lease)))
            && ledger.table().preps().eq(self.preps.values())
    }

    /// Takes away what no rule of the protocol looks at; see the module's text.
    fn plain(&mut self) {
        self.observed = PeerObservations { peer_lsn: 0, clock_high: WallMs(0), ..self.observed };
        self.leases.values_mut().for_each(plain);
    }
}

pub(super) fn plain(lease: &mut Lease) {
    lease.renewed = lease.granted;
}

/// A message as it is kept in flight: without what is for operators' eyes and what only makes a receiver more careful. `None`:
/// it is not kept at all.
fn posted(message: PeerMessage) -> Option<PeerMessage> {
    Some(match message {
        // Greetings are steps of their own.
        PeerMessage::Hello(_) | PeerMessage::Pull { .. } => return None,
        PeerMessage::Ask { .. }
        | PeerMessage::NoneFree { .. }
        | PeerMessage::SegmentsUsed { .. }
        | PeerMessage::NumbersShown { .. } => return None,
        PeerMessage::Heartbeat { permit, .. } => PeerMessage::Heartbeat {
            lsn: 0,
            wall: WallMs(0),
            mode: Mode::Ready,
            permit,
            steady: true,
            read: WallMs(0),
            reverted: false,
        },
        PeerMessage::Sync { mut records, .. } => {
            records.iter_mut().for_each(|(_, lease)| plain(lease));
            PeerMessage::Sync { records, by: None }
        }
        PeerMessage::Page { exchange, after, mut records, proposals, settings, more, extents, memory, last } => {
            records.iter_mut().for_each(|(_, lease)| plain(lease));
            PeerMessage::Page { exchange, after, records, proposals, settings, more, extents, memory, last }
        }
        PeerMessage::Reject { key, mut record } => {
            record.iter_mut().for_each(plain);
            PeerMessage::Reject { key, record }
        }
        other => other,
    })
}

/// A message of the master that this is the disk of, in its present life, to the life of the other one that it accepted last.
fn frame(disk: &Disk, message: PeerMessage) -> PeerFrame {
    let Identity { master, cluster, epoch, .. } = disk.identity;
    let (life, to) = (disk.lives.present(), disk.lives.peer);
    PeerFrame { protocol: PROTOCOL, from: master, cluster, epoch, life, to, message }
}

impl Node {
    pub(super) fn new(disk: Disk, serving: Serving) -> Self {
        Self { disk, beyond: None, serving, page: None, greeted: false }
    }

    /// A start, written down where starts are part of the state; `mark` tells it from others.
    pub(super) fn started(mut disk: Disk, mark: usize) -> Self {
        if disk.counts_starts() {
            let mut ledger = start(&disk, Now { wall: WallMs(0), boot: STEP }, mark);
            let mut fx = Effects::default();
            ledger.step(Now { wall: WallMs(0), boot: STEP }, Event::Connected, &mut fx);
            disk.apply(&fx.writes);
        }
        Self::new(disk, Serving::Alone)
    }

    pub(super) fn id(&self) -> MasterId {
        self.disk.identity.master
    }

    /// What the running master believes.
    pub(super) fn known(&self) -> &Disk {
        self.beyond.as_ref().unwrap_or(&self.disk)
    }

    pub(super) fn frame(&self, message: PeerMessage) -> PeerFrame {
        frame(&self.disk, message)
    }

    /// A crash and a new start, and a silence long enough to go on alone.
    pub(super) fn restarted(&self, mark: usize) -> Self {
        Self::started(self.disk.clone(), mark)
    }

    /// Makes writes durable, and notes how the master serves now. `lost_at_crash`: they only seem durable, which is a
    /// twin's doing.
    pub(super) fn after(&self, writes: &[Write], serving: Serving, lost_at_crash: bool) -> Self {
        let page = self.page.clone().filter(|_| serving == Serving::Alone);
        let mut next = Self { serving, page, ..self.clone() };
        if lost_at_crash && !writes.is_empty() {
            next.beyond.get_or_insert_with(|| self.disk.clone());
        } else {
            next.disk.apply(writes);
            next.disk.plain();
        }
        if let Some(beyond) = &mut next.beyond {
            beyond.apply(writes);
            beyond.plain();
        }
        next.beyond = next.beyond.filter(|beyond| *beyond != next.disk);
        next
    }
}

fn start(disk: &Disk, now: Now, mark: usize) -> Ledger {
    Ledger::start(disk.loaded(), now, u64::try_from(mark).unwrap_or_default(), None, String::new())
}

/// A ledger as it is opened from this disk by its product, led by its own events to where this master is.
pub(super) fn opened(known: &Disk, serving: Serving, wall: WallMs) -> Ledger {
    let other = known.of_other();
    let from_other = |message| Event::Message(Box::new(frame(&other, message)));
    let hello = |wall| {
        PeerMessage::Hello(Hello {
            lsn: 0,
            seen: 0,
            parameters: known.identity.parameters,
            wall,
            test_clock: None,
            version: String::new(),
            answer: false,
            retired: None,
            lives: known.lives.peer.into_iter().collect(),
            accepted: None,
            copied: false,
            awaits: false,
            challenge: None,
            echo: None,
            users: None,
        })
    };
    let mut unheard = Effects::default();
    match serving {
        Serving::Alone => {
            let mut ledger = start(known, Now { wall, boot: OPENED }, 0).already_begun();
            ledger.step(Now { wall, boot: ALONE }, Event::Tick, &mut unheard);
            // Nobody speaks to one that waits for a replacement, unless its token was used.
            if known.identity.awaiting.is_none() {
                ledger.step(Now { wall, boot: GREETED }, from_other(hello(wall)), &mut unheard);
            }
            ledger
        }
        Serving::Ready => {
            // Becoming ready allows the other master more, and that was written down when it did. By this calendar there is
            // no more to allow.
            let allowed = |permit: WallMs| wall.min(permit + SpanMs(-known.identity.parameters.solo().0));
            let now = Now { wall: known.permit_out.map_or(wall, allowed), boot: STEP };
            // By the calendar of the step, so that it is not a jump.
            let start = Now { wall: wall.max(now.wall), ..now };
            let mut ledger = self::start(known, start, 0).already_begun();
            let page = PeerMessage::Page {
                exchange: EXCHANGE,
                after: None,
                records: Vec::new(),
                proposals: Vec::new(),
                settings: Vec::new(),
                more: false,
                extents: Vec::new(),
                memory: Memory::default(),
                last: true,
            };
            ledger.step(now, from_other(hello(now.wall)), &mut unheard);
            ledger.step(now, from_other(page), &mut unheard);
            ledger
        }
    }
}

/// Runs the product's `step` on what `known` is the disk of. A [`Event::Tick`] is a beat.
pub(super) fn step(known: &Disk, serving: Serving, wall: WallMs, event: Event) -> Stepped {
    let boot = if event == Event::Tick { BEAT } else { STEP };
    let mut ledger = opened(known, serving, wall);
    let mut fx = Effects::default();
    ledger.step(Now { wall, boot }, event, &mut fx);
    let mut after = known.clone();
    after.apply(&fx.writes);
    let mut broken = ledger.check().err();
    if !after.is_all_of(&ledger) {
        broken = Some(format!("the ledger believes what its writes do not say: {ledger:?} and {after:?}"));
    }
    for alarm in &fx.alarms {
        if matches!(alarm, Alarm::Conflict(_) | Alarm::Implausible(_) | Alarm::Clone(_)) {
            broken = Some(alarm.to_string());
        }
    }
    let messages = fx.messages.into_iter().filter_map(posted).map(|message| ledger.frame(message)).collect();
    let serving = if ledger.mode() == Mode::Ready { Serving::Ready } else { Serving::Alone };
    Stepped { writes: fx.writes, messages, reply: fx.replies.pop().map(|(_, reply)| reply), serving, broken }
}
