//! One master of a model: what its disk holds, and the product's own `step` run on a ledger that was opened from it. Of the ledger a model
//! looks at one part, and the disk holds that and who the master is.

use super::shared::Shared;
use common::parameters::{ClusterId, ClusterParameters, EpochId, MasterId};
use common::segment::MasterRun;
use common::time::{BootMs, Now, SpanMs, WallMs};
use ledger::lease::{
    Alarm, Caution, Effects, Event, Identity, Lives, Loaded, PeerObservations, Reply, Unproven, Write,
};
use ledger::{Ledger, Salt};
use std::fmt::Debug;
use std::hash::Hash;
use std::ops::{Deref, DerefMut};
use wire::PROTOCOL;
use wire::lease::Mode;
use wire::peer::{Hello, Life, Memory, PeerFrame, PeerMessage};

/// The instants at which the ledger of a lone master is opened, has found itself alone, and has greeted: all before 0, at which the step
/// happens, and too close to each other for a beat in between.
const OPENED: BootMs = BootMs(-10_500);
const ALONE: BootMs = BootMs(-500);
const GREETED: BootMs = BootMs(-100);
pub(crate) const STEP: BootMs = BootMs(0);
/// A beat is due, and the other master was heard lately.
const BEAT: BootMs = BootMs(1_000);
/// The exchange that an opened ledger waits for a page of.
pub(crate) const EXCHANGE: u64 = 1;

/// A part of a ledger.
pub(crate) trait Part: Clone + Debug + Eq + Hash {
    /// Tells whether starts are part of the state of every disk, also of one that was never opened.
    const STARTS: bool;

    /// Adds it to what a ledger is opened from.
    fn load(&self, loaded: &mut Loaded);
    /// Makes a write durable, if it is of this part.
    fn apply(&mut self, write: &Write);
    /// The first thing of it that a running ledger knows otherwise: it would be believed and not survive.
    fn differs_from(&self, ledger: &Ledger) -> Option<&'static str>;
    /// Takes away what no rule of the protocol looks at.
    fn plain(&mut self) {}
    /// Notes what a running ledger knows beyond any disk.
    fn note(&mut self, _ledger: &Ledger) {}
    /// The instant until which this master lets the other one go on alone.
    fn permit_out(&self) -> Option<WallMs>;
    /// The messages by which an opened ledger that has greeted comes to where its master is.
    fn heard(&self, serving: Serving, _observed: &PeerObservations) -> Vec<PeerMessage> {
        if serving == Serving::Ready { vec![page()] } else { Vec::new() }
    }
    /// A message as it is kept in flight. `None`: it is not kept at all.
    fn posted(message: PeerMessage) -> Option<PeerMessage>;
}

/// The part that survives a crash: all that the writes of earlier steps left, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Disk<P> {
    pub(crate) identity: Identity,
    pub(crate) observed: PeerObservations,
    pub(crate) caution: Caution,
    /// Its starts and the other's; where masters do not greet each other, only whether it was opened without proof and has not
    /// met the other since.
    pub(crate) lives: Lives,
    pub(crate) part: P,
}

/// The services of a master: all of them, or only those that it can give alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Serving {
    Alone,
    Ready,
}

/// A master.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node<P> {
    pub(crate) disk: Disk<P>,
    /// The disk with what it knows beyond it. A twin's master believes more.
    pub(crate) beyond: Option<Disk<P>>,
    pub(crate) serving: Serving,
    /// A page of the other's table that was cut since this master started, and may arrive.
    pub(crate) page: Option<Shared<PeerFrame>>,
    /// True if it has taken in a greeting since it started, where that is part of the state.
    pub(crate) greeted: bool,
}

/// The outcome of a step.
pub(crate) struct Stepped<P> {
    pub(crate) writes: Vec<Write>,
    pub(crate) messages: Vec<PeerFrame>,
    pub(crate) replies: Vec<Reply>,
    pub(crate) serving: Serving,
    /// The disk as the running ledger knows it after the step.
    pub(crate) known: Disk<P>,
    /// Something that does not hold inside this master.
    pub(crate) broken: Option<String>,
}

impl<P> Deref for Disk<P> {
    type Target = P;
    fn deref(&self) -> &P {
        &self.part
    }
}

impl<P> DerefMut for Disk<P> {
    fn deref_mut(&mut self) -> &mut P {
        &mut self.part
    }
}

impl<P: Part> Disk<P> {
    /// The disk of a master that has met the other one in the first start of both.
    pub(crate) fn first(master: MasterId, parameters: ClusterParameters, permit_in: Option<WallMs>, part: P) -> Self {
        let identity = Identity {
            master,
            cluster: Some(ClusterId(1)),
            epoch: Some(EpochId(1)),
            pair_epoch: 1,
            former: Vec::new(),
            paired: true,
            parameters,
            awaiting: None,
        };
        let life = |id: MasterId| Life { start: 1, mark: u64::from(id.number()) - 1 };
        let lives = Lives { own: vec![life(master)], peer: Some(life(master.other())), ..Lives::default() };
        let observed = PeerObservations { permit_in, ..PeerObservations::default() };
        Self { observed, lives, ..Self::of_replacement(identity, part) }
    }

    /// That of a replacement, before its first start.
    pub(crate) fn of_replacement(identity: Identity, part: P) -> Self {
        let (observed, caution, lives) = (PeerObservations::default(), Caution::default(), Lives::default());
        Self { identity, observed, caution, lives, part }
    }

    pub(crate) fn id(&self) -> MasterId {
        self.identity.master
    }

    /// Tells whether it was opened without proof, and has not met the other one since.
    pub(crate) fn unmet(&self) -> bool {
        self.lives.unproven
    }

    /// Tells whether the starts are part of the state.
    fn counts_starts(&self) -> bool {
        P::STARTS || !self.lives.own.is_empty()
    }

    pub(crate) fn loaded(&self) -> Loaded {
        let mut loaded = Loaded {
            identity: self.identity.clone(),
            lsn: 0,
            permit_out: self.part.permit_out(),
            observed: self.observed,
            lives: self.lives.clone(),
            proven: if self.unmet() { Err(Unproven::NotMetSince) } else { Ok(()) },
            caution: self.caution,
            leases: Vec::new(),
            preps: Vec::new(),
            settings: Vec::new(),
            setting_preps: Vec::new(),
            run: None,
            cursors: Vec::new(),
            sections: Vec::new(),
            section_preps: Vec::new(),
            sections_cut: false,
            logins: Vec::new(),
        };
        self.part.load(&mut loaded);
        loaded
    }

    pub(crate) fn apply(&mut self, writes: &[Write]) {
        self.write(writes);
        self.plain();
    }

    fn write(&mut self, writes: &[Write]) {
        for write in writes {
            match write {
                Write::Identity(identity) => self.identity = identity.clone(),
                Write::PeerObservations(observed) => self.observed = *observed,
                Write::Caution(caution) => self.caution = *caution,
                Write::Lives(lives) if self.counts_starts() => self.lives = lives.clone(),
                Write::Lives(lives) => self.lives.unproven = lives.unproven,
                write => self.part.apply(write),
            }
        }
    }

    /// Takes away what no rule of the protocol looks at; see the text of the model of leases.
    fn plain(&mut self) {
        self.observed = PeerObservations { peer_lsn: 0, clock_high: WallMs(0), ..self.observed };
        self.part.plain();
    }

    fn differs_from(&self, ledger: &Ledger) -> Option<&'static str> {
        let starts = ledger.lives().unproven != self.unmet() || (self.counts_starts() && ledger.lives() != &self.lives);
        let differs = [
            ("identity", ledger.identity() != &self.identity),
            ("observations", ledger.observed() != &self.observed),
            ("caution", ledger.caution() != &self.caution),
            ("starts", starts),
        ];
        let differs = differs.into_iter().find(|(_, differs)| *differs).map(|(what, _)| what);
        differs.or_else(|| self.part.differs_from(ledger))
    }

    /// A message of this master, in its present life, to the life of the other one that it accepted last.
    fn frame(&self, message: PeerMessage) -> PeerFrame {
        let Identity { master: from, cluster, epoch, .. } = self.identity;
        PeerFrame { protocol: PROTOCOL, from, cluster, epoch, life: self.lives.present(), to: self.lives.peer, message }
    }

    /// A message of the other one of this pairing to this one, in the life that is believed here.
    fn frame_of_other(&self, message: PeerMessage) -> PeerFrame {
        let (life, to) = (self.lives.peer.unwrap_or_default(), Some(self.lives.present()));
        PeerFrame { from: self.id().other(), life, to, ..self.frame(message) }
    }

    /// Opens it in the midst of a start, which goes on with its run.
    fn start(&self, now: Now) -> Ledger {
        let loaded = self.loaded();
        let run = loaded.run.unwrap_or(MasterRun(0));
        start(loaded, now, Salt { mark: 0, run }).already_begun()
    }

    /// A ledger as it is opened from this disk by its product, led by its own events to where its master is.
    pub(crate) fn opened(&self, serving: Serving, wall: WallMs) -> Ledger {
        let mut unheard = Effects::default();
        let (mut ledger, now) = if serving == Serving::Alone {
            let mut ledger = self.start(Now { wall, boot: OPENED });
            ledger.step(Now { wall, boot: ALONE }, Event::Tick, &mut unheard);
            // Nobody speaks to one that waits for a replacement, unless its token was used.
            if self.identity.awaiting.is_some() {
                return ledger;
            }
            (ledger, Now { wall, boot: GREETED })
        } else {
            // Becoming ready allows the other master more, and that was written down when it did. By this calendar there is
            // no more to allow.
            let allowed = |permit: WallMs| wall.min(permit + SpanMs(-self.identity.parameters.solo().0));
            let now = Now { wall: self.permit_out().map_or(wall, allowed), boot: STEP };
            // By the calendar of the step, so that it is not a jump.
            (self.start(Now { wall: wall.max(now.wall), ..now }), now)
        };
        let greeting = [hello(self, now.wall)];
        for message in greeting.into_iter().chain(self.heard(serving, &self.observed)) {
            ledger.step(now, Event::Message(Box::new(self.frame_of_other(message))), &mut unheard);
        }
        ledger
    }
}

fn start(loaded: Loaded, now: Now, salt: Salt) -> Ledger {
    Ledger::start(loaded, now, salt, None, String::new())
}

fn hello<P>(known: &Disk<P>, wall: WallMs) -> PeerMessage {
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
}

/// A page of a table in which nothing is.
pub(crate) fn page() -> PeerMessage {
    PeerMessage::Page {
        exchange: EXCHANGE,
        after: None,
        records: Vec::new(),
        proposals: Vec::new(),
        settings: Vec::new(),
        more: false,
        extents: Vec::new(),
        memory: Memory::default(),
        last: true,
    }
}

impl<P: Part> Node<P> {
    pub(crate) fn new(disk: Disk<P>, serving: Serving) -> Self {
        Self { disk, beyond: None, serving, page: None, greeted: false }
    }

    /// A start, written down where starts are part of the state; `mark` tells it from others, and is the number of its run if one begins.
    pub(crate) fn started(mut disk: Disk<P>, mark: u64, proven: bool) -> Self {
        if disk.counts_starts() {
            let mut loaded = disk.loaded();
            if !proven {
                loaded.proven = Err(Unproven::Copied);
            }
            let now = Now { wall: WallMs(0), boot: STEP };
            let salt = Salt { mark, run: MasterRun(mark.into()) };
            let (mut ledger, mut fx) = (start(loaded, now, salt), Effects::default());
            ledger.step(now, Event::Connected, &mut fx);
            disk.apply(&fx.writes);
        }
        Self::new(disk, Serving::Alone)
    }

    pub(crate) fn id(&self) -> MasterId {
        self.disk.id()
    }

    /// The disk as the running master believes it to be.
    pub(crate) fn known(&self) -> &Disk<P> {
        self.beyond.as_ref().unwrap_or(&self.disk)
    }

    pub(crate) fn frame(&self, message: PeerMessage) -> PeerFrame {
        self.disk.frame(message)
    }

    /// Makes the writes of a step durable, and notes how the master serves now. `lost`: those only seem durable, which is a twin's doing.
    pub(crate) fn after(&self, stepped: &Stepped<P>, lost: impl Fn(&Write) -> bool) -> Self {
        let kept: Vec<Write> = stepped.writes.iter().filter(|write| !lost(write)).cloned().collect();
        self.next(&kept, stepped.known.clone(), stepped.serving)
    }

    /// Makes writes durable that come of no step, or of one that changes nothing else.
    pub(crate) fn written(&self, writes: &[Write]) -> Self {
        self.next(writes, self.knowing(writes), self.serving)
    }

    /// The disk as it is believed to be after these writes.
    pub(crate) fn knowing(&self, writes: &[Write]) -> Disk<P> {
        let mut known = self.known().clone();
        known.apply(writes);
        known
    }

    fn next(&self, writes: &[Write], known: Disk<P>, serving: Serving) -> Self {
        let page = self.page.clone().filter(|_| serving == Serving::Alone);
        let mut disk = self.disk.clone();
        disk.apply(writes);
        let beyond = Some(known).filter(|known| *known != disk);
        Self { disk, beyond, serving, page, greeted: self.greeted }
    }
}

/// Runs the product's `step` on what `known` is the disk of: `before` are events that it has heard already, and has nothing to write of,
/// and [`Event::Tick`] is a beat.
pub(crate) fn step<P: Part>(
    known: &Disk<P>,
    serving: Serving,
    wall: WallMs,
    before: &[Event],
    event: Event,
) -> Stepped<P> {
    let boot = if event == Event::Tick { BEAT } else { STEP };
    let mut ledger = known.opened(serving, wall);
    for event in before {
        ledger.step(Now { wall, boot: STEP }, event.clone(), &mut Effects::default());
    }
    let mut fx = Effects::default();
    ledger.step(Now { wall, boot }, event, &mut fx);
    let mut after = known.clone();
    after.write(&fx.writes);
    let mut broken = ledger.check().err();
    if let Some(what) = after.differs_from(&ledger) {
        broken =
            Some(format!("the ledger believes what its writes do not say of its {what}: {ledger:?} and {after:?}"));
    }
    for alarm in &fx.alarms {
        if matches!(
            alarm,
            Alarm::Conflict(_)
                | Alarm::Implausible(_)
                | Alarm::Clone(_)
                | Alarm::SettingConflict(_)
                | Alarm::SectionConflict(_)
                | Alarm::ImplausibleSetting(_)
                | Alarm::ImplausibleSection(_)
        ) {
            broken = Some(alarm.to_string());
        }
    }
    after.plain();
    after.note(&ledger);
    let messages = fx.messages.into_iter().filter_map(P::posted).map(|message| ledger.frame(message)).collect();
    let replies = fx.replies.into_iter().map(|(_, reply)| reply).collect();
    let serving = if ledger.mode() == Mode::Ready { Serving::Ready } else { Serving::Alone };
    Stepped { writes: fx.writes, messages, replies, serving, known: after, broken }
}
