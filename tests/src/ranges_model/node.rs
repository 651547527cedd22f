//! One master of the models: the product's own `step`, run on a ledger that was opened from what its disk holds.

use super::disk::{Disk, permitted};
use crate::model::Shared;
use common::rpc::PROTOCOL;
use common::rpc::lease::Mode;
use common::rpc::peer::{Hello, Memory, PeerFrame, PeerMessage};
use common::segment::MasterRun;
use common::time::{BootMs, Now, WallMs};
use master::lease::{Alarm, Effects, Event, Reply, RequestId, Write};
use master::ledger::{Ledger, Salt};

/// When the ledger of a lone master is opened, when it has found itself alone, and when it has greeted: all before 0, at which the step
/// happens, and too close to each other for a beat in between.
const OPENED: BootMs = BootMs(-10_500);
const ALONE: BootMs = BootMs(-500);
const GREETED: BootMs = BootMs(-100);
const STEP: BootMs = BootMs(0);
/// A beat is due, and the other master was heard lately.
const BEAT: BootMs = BootMs(1_000);
/// Nothing here looks at a calendar.
const WALL: WallMs = WallMs(0);
/// The exchange that an opened ledger waits for a page of.
const EXCHANGE: u64 = 1;

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
    /// What it knows beyond its disk: what the other one holds of bounds. A twin's master believes more.
    pub(super) beyond: Option<Disk>,
    pub(super) serving: Serving,
    /// A page of the other's table that was cut since this master started, and may arrive.
    pub(super) page: Option<Shared<PeerFrame>>,
}

/// What came of a step.
pub(super) struct Stepped {
    pub(super) writes: Vec<Write>,
    pub(super) messages: Vec<PeerFrame>,
    pub(super) replies: Vec<Reply>,
    pub(super) serving: Serving,
    /// What is known after it, by the running ledger.
    pub(super) known: Disk,
    /// Something that does not hold inside this master.
    pub(super) broken: Option<String>,
}

/// What is kept in flight. Greetings and pages are steps of their own; what tells of use, clocks and who is alive decides nothing here.
fn is_posted(message: &PeerMessage) -> bool {
    matches!(
        message,
        PeerMessage::AskSetting { .. }
            | PeerMessage::ProposeSetting { .. }
            | PeerMessage::ConfirmSetting { .. }
            | PeerMessage::Settings { .. }
            | PeerMessage::ProposeSections { .. }
            | PeerMessage::ConfirmSections { .. }
            | PeerMessage::KnownSections { .. }
            | PeerMessage::RaisedSections { .. }
            | PeerMessage::HeldBounds { .. }
    )
}

/// A message of the master that this is the disk of, in its present life, to the life of the other one that it accepted last.
fn frame(disk: &Disk, message: PeerMessage) -> PeerFrame {
    let (from, cluster, epoch) = (disk.identity.master, disk.identity.cluster, disk.identity.epoch);
    let (life, to) = (disk.lives.present(), disk.lives.peer);
    PeerFrame { protocol: PROTOCOL, from, cluster, epoch, life, to, message }
}

impl Node {
    pub(super) fn new(disk: Disk, serving: Serving) -> Self {
        Self { disk, beyond: None, serving, page: None }
    }

    /// A start, written down. `mark` tells it from all others, and is the number of its run if one begins.
    pub(super) fn started(mut disk: Disk, mark: u8, proven: bool) -> Self {
        let mut loaded = disk.loaded();
        if !proven {
            loaded.proven = Err(master::lease::Unproven::Copied);
        }
        let salt = Salt { mark: mark.into(), run: MasterRun(mark.into()) };
        let now = Now { wall: WALL, boot: STEP };
        let mut ledger = Ledger::start(loaded, now, salt, None, String::new());
        let mut fx = Effects::default();
        ledger.step(now, Event::Connected, &mut fx);
        disk.apply(&fx.writes);
        Self::new(disk, Serving::Alone)
    }

    /// What the running master believes.
    pub(super) fn known(&self) -> &Disk {
        self.beyond.as_ref().unwrap_or(&self.disk)
    }

    /// Makes the writes of a step durable. `lost`: those only seem so, which is a twin's doing.
    pub(super) fn after(&self, stepped: &Stepped, lost: impl Fn(&Write) -> bool) -> Self {
        let mut next = Self { serving: stepped.serving, ..self.clone() };
        if next.serving == Serving::Ready {
            next.page = None;
            if self.serving == Serving::Alone && stepped.known.observed.permit_in.is_none() {
                // Its first heartbeat.
                next.disk.observed = permitted();
            }
        }
        let kept: Vec<Write> = stepped.writes.iter().filter(|write| !lost(write)).cloned().collect();
        next.disk.apply(&kept);
        let known = Disk { observed: next.disk.observed, ..stepped.known.clone() };
        next.beyond = Some(known).filter(|known| *known != next.disk);
        next
    }
}

/// A ledger as it is opened from this disk by its product, led by its own events to where this master is.
fn opened(known: &Disk, serving: Serving) -> Ledger {
    let other = known.of_other();
    let mut unheard = Effects::default();
    let mut hear = |ledger: &mut Ledger, boot, message| {
        let now = Now { wall: WALL, boot };
        ledger.step(now, Event::Message(Box::new(frame(&other, message))), &mut unheard);
    };
    let salt = Salt { mark: EXCHANGE - 1, run: known.run.unwrap_or(MasterRun(0)) };
    let start =
        |boot| Ledger::start(known.loaded(), Now { wall: WALL, boot }, salt, None, String::new()).already_begun();
    let mut ledger = match serving {
        Serving::Alone => {
            let mut ledger = start(OPENED);
            ledger.step(Now { wall: WALL, boot: ALONE }, Event::Tick, &mut Effects::default());
            // Nobody speaks to one that waits for a replacement, unless its token was used.
            if known.identity.awaiting.is_some() {
                return ledger;
            }
            hear(&mut ledger, GREETED, hello(known));
            ledger
        }
        Serving::Ready => {
            let mut ledger = start(STEP);
            hear(&mut ledger, STEP, hello(known));
            ledger
        }
    };
    let sequences =
        known.settings.values().filter_map(|setting| setting.value.namespace()).any(|n| n.sequences().is_some());
    let (boot, ready) = if serving == Serving::Ready { (STEP, true) } else { (GREETED, false) };
    if sequences || ready {
        hear(&mut ledger, boot, page(Vec::new(), Vec::new()));
    }
    if ready {
        if sequences {
            let (records, proposals) = (Vec::new(), Vec::new());
            hear(
                &mut ledger,
                boot,
                PeerMessage::SectionPage { exchange: EXCHANGE, after: None, records, proposals, last: true },
            );
        }
        let (mode, permit) = (Mode::Ready, known.observed.permit_in);
        hear(
            &mut ledger,
            boot,
            PeerMessage::Heartbeat { lsn: 0, wall: WALL, mode, permit, steady: true, read: WALL, reverted: false },
        );
    }
    ledger
}

fn hello(known: &Disk) -> PeerMessage {
    PeerMessage::Hello(Hello {
        lsn: 0,
        seen: 0,
        parameters: known.identity.parameters,
        wall: WALL,
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
}

fn page(settings: Vec<common::setting::Setting>, extents: Vec<common::setting::Setting>) -> PeerMessage {
    let (records, proposals, memory, more) = (Vec::new(), Vec::new(), Memory::default(), false);
    PeerMessage::Page {
        exchange: EXCHANGE,
        after: None,
        records,
        proposals,
        settings,
        more,
        extents,
        memory,
        last: true,
    }
}

/// Runs the product's `step` on what `known` is the disk of: `before` are events that it has heard already, and has nothing to write of,
/// and [`Event::Tick`] is a beat.
pub(super) fn step(known: &Disk, serving: Serving, before: &[Event], event: Event) -> Stepped {
    let boot = if event == Event::Tick { BEAT } else { STEP };
    let mut ledger = opened(known, serving);
    let mut fx = Effects::default();
    for event in before {
        ledger.step(Now { wall: WALL, boot: STEP }, event.clone(), &mut Effects::default());
    }
    ledger.step(Now { wall: WALL, boot }, event, &mut fx);
    let mut after = known.clone();
    after.apply(&fx.writes);
    let mut broken = ledger.check().err();
    if let Some(what) = after.differs_from(&ledger) {
        broken =
            Some(format!("the ledger believes what its writes do not say of its {what}: {ledger:?} and {after:?}"));
    }
    after.note_peer_has(&ledger);
    for alarm in &fx.alarms {
        if matches!(
            alarm,
            Alarm::SettingConflict(_)
                | Alarm::SectionConflict(_)
                | Alarm::ImplausibleSetting(_)
                | Alarm::ImplausibleSection(_)
        ) {
            broken = Some(alarm.to_string());
        }
    }
    let messages = fx.messages.into_iter().filter(is_posted).map(|message| ledger.frame(message)).collect();
    let replies = fx.replies.into_iter().map(|(_, reply)| reply).collect();
    let serving = if ledger.mode() == Mode::Ready { Serving::Ready } else { Serving::Alone };
    Stepped { writes: fx.writes, messages, replies, serving, known: after, broken }
}

/// `asker` connects to `other`, both greet, and `other` answers a page of its table. `None`: it does not.
pub(super) fn cut_page(asker: &Node, other: &Node) -> Option<(Node, Node)> {
    let now = Now { wall: WALL, boot: STEP };
    let (mut asks, mut answers) = (opened(asker.known(), asker.serving), opened(other.known(), other.serving));
    let (mut of_asker, mut of_other) = (Effects::default(), Effects::default());
    asks.step(now, Event::Connected, &mut of_asker);
    let greeting = of_asker.messages.drain(..).find(|message| matches!(message, PeerMessage::Hello(_)))?;
    let frame = Box::new(asks.frame(greeting));
    answers.step(now, Event::Greeting { id: RequestId(0), frame }, &mut of_other);
    let greeted = of_other.replies.drain(..).find_map(|(_, reply)| match reply {
        Reply::Greeted(messages) => messages.into_iter().find(|message| matches!(message, PeerMessage::Hello(_))),
        _ => None,
    })?;
    let frame = Box::new(answers.frame(greeted));
    asks.step(now, Event::Message(frame), &mut of_asker);
    if asks.lives().peer != Some(answers.lives().present()) || answers.lives().peer != Some(asks.lives().present()) {
        return None;
    }
    let unmet = asker.known().unmet();
    let section_page = asks.frame(PeerMessage::PullSections { exchange: EXCHANGE, after: None, unmet });
    let pull = asks.frame(PeerMessage::Pull { exchange: EXCHANGE, after: None, unmet, retired: 0 });
    let sequences =
        asker.known().settings.values().filter_map(|it| it.value.namespace()).any(|n| n.sequences().is_some());
    for frame in [Some(pull), sequences.then_some(section_page)].into_iter().flatten() {
        of_other.messages.clear();
        answers.step(now, Event::Message(Box::new(frame)), &mut of_other);
    }
    let is_page = |message: &PeerMessage| matches!(message, PeerMessage::Page { .. } | PeerMessage::SectionPage { .. });
    let page = of_other.messages.drain(..).find(is_page)?;
    let (mut asker, mut other) = (asker.clone(), other.clone());
    asker.page = Some(Shared::new(answers.frame(page)));
    for (node, writes) in [(&mut asker, &of_asker.writes), (&mut other, &of_other.writes)] {
        node.disk.apply(writes);
        if let Some(beyond) = &mut node.beyond {
            beyond.apply(writes);
            beyond.observed = node.disk.observed;
        }
        let same = node.beyond.as_ref() == Some(&node.disk);
        node.beyond = node.beyond.take().filter(|_| !same);
    }
    Some((asker, other))
}
