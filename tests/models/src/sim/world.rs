//! The world of one simulation: its time, its events, and everybody in it.

use super::Setup;
use super::episode::StoredSections;
use super::host::Host;
use super::master::{Answered, Asked, Asker, Master};
use super::mutation::Mutations;
use super::net::{Net, Node};
use super::operator::Joining;
use super::oracle::Oracle;
use super::queue::Queue;
use super::rng::{Rng, mix};
use super::sections::{LEASE, Question};
use super::shelf::Shelf;
use super::swarm::Swarm;
use common::time::{BootMs, Now, SpanMs, WallMs};
use ledger::lease::Event as LedgerEvent;
use std::collections::BTreeMap;
use wire::lease::{HeartbeatRequest, Mode, RentRequest, TerminateRequest, TokenRequest};
use wire::peer::PeerFrame;
use wire::ranges::{KeepRequest, RaiseRequest, RoutesRequest, SegmentRequest};

/// The first instant of every simulation.
pub const BEGIN: i64 = 1_795_000_000_000;
/// A beat of the masters while something changes: the product's own, or later on a machine that has much to do.
const BEAT: (i64, i64) = (1_000, 2_500);
/// After so long a change among the masters has been noticed: they go on alone after 10 s.
pub(super) const SETTLE: i64 = 15_000;
/// Events of one simulation at most: beyond it something goes round in circles.
const EVENTS_MAX: u64 = 5_000_000;

/// The question that an agent asks a master.
#[derive(Clone, Debug)]
pub enum Call {
    /// A heartbeat.
    Heartbeat(HeartbeatRequest),
    /// For a token.
    Token(TokenRequest),
    /// For a renewal.
    Rent(RentRequest),
    /// To give back.
    Terminate(TerminateRequest),
    /// For a segment.
    Segment(SegmentRequest),
    /// To keep sections.
    Keep(KeepRequest),
    /// To raise bounds of sections.
    Raise(RaiseRequest),
    /// The routes to those who serve sections.
    Routes(RoutesRequest),
}

/// The task of an agent that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// The one for leases.
    Leases,
    /// The one for segments: the engine's number of the call.
    Segments(u64),
    /// One of those that keep sections: at which address, and when it asked, by its machine's clock.
    Keep(usize, BootMs),
    /// The one that raises bounds.
    Raise,
    /// The one that asks for routes.
    Routes,
}

/// The origin of a call.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The host.
    pub host: usize,
    /// The process on it.
    pub life: u32,
    /// The number of the call; 0: nobody waits for an answer.
    pub rpc: u64,
    /// For what.
    pub task: Task,
}

impl Caller {
    /// The address that it calls from.
    fn address(&self) -> String {
        let [.., a, b, c] = self.host.to_be_bytes();
        format!("10.{a}.{b}.{c}")
    }
}

/// An event at an instant.
#[derive(Debug)]
pub enum Event {
    /// The masters' clocks tick.
    Beat(u64),
    /// Messages arrive at a master, by a connection from the second one.
    Message(usize, usize, Box<PeerFrame>),
    /// A call arrives at a master.
    Call(usize, Caller, Box<Call>),
    /// An answer arrives at an agent; `None`: the connection failed, or it waits no longer.
    Answer(Caller, Option<Box<Answered>>),
    /// An agent asks for the segment of that call, the first time or again.
    Fetch(usize, u32, u64),
    /// An agent's tasks that keep sections look what there is to do.
    Keeping(usize, u32),
    /// An agent's task that raises bounds does.
    Raising(usize, u32),
    /// A client's question for a number of a key is in the socket of that process.
    Question(usize, u32, Box<Question>),
    /// Another client wants a number of a key.
    Client,
    /// An episode begins.
    Episode,
    /// Something goes wrong within an episode.
    Sudden,
    /// Both disks are put back to what they were of sections.
    ForgetSections,
    /// An agent's task looks what there is to do.
    Wake(usize, u32),
    /// Clients want IDs.
    Mint(usize),
    /// Something goes wrong.
    Fault,
    /// Somebody looks after the masters.
    Operator,
    /// A new connection of an agent to a master stands.
    Connected(usize, u32),
    /// A master's process is started.
    StartMaster(usize),
    /// An agent's process is started.
    StartAgent(usize),
    /// A master's calendar is set right.
    MasterClockRight(usize),
    /// A host's calendar is set right.
    HostClockRight(usize),
    /// A master's store is put back.
    RollBack(usize),
    /// A survivor is put back to before its replacement joined.
    PutBackAwaiting(usize),
    /// The same, and the other one has perhaps seen no more.
    PutBack(usize),
    /// An agent is killed.
    Kill(usize),
    /// A copy of a host is taken away.
    Retire(usize),
    /// A master is declared lost.
    DeclareLost {
        /// The lost one.
        lost: usize,
        /// True if it lives on.
        zombie: bool,
    },
    /// The replacement does its next step.
    Join(usize),
    /// A zombie's machine is found and switched off.
    EndZombie(usize),
}

/// Everything.
pub struct World {
    /// All chance.
    pub rng: Rng,
    /// The nature of the seed.
    pub swarm: Swarm,
    /// Mechanisms that are left out.
    pub mutations: Mutations,
    /// The oracle of what must hold.
    pub oracle: Oracle,
    /// True time, in milliseconds.
    pub t: i64,
    /// The masters' monotone time. While nothing changes it stands still but for a second a beat: that thins the
    /// heartbeats, and to a ledger it is as good a machine's clock as any.
    link: i64,
    link_at_beat: i64,
    busy_until: i64,
    /// The instant at which the clocks last began to run for whoever waits for what the other master cannot say.
    waits_since: i64,
    unsettled_until: i64,
    next_beat: i64,
    beat: u64,
    queue: Queue,
    /// All masters there ever were.
    pub masters: Vec<Master>,
    /// The masters that are reached at the two addresses.
    pub current: [usize; 2],
    /// A replacement under way.
    pub joining: Option<Joining>,
    /// Replacements so far.
    pub replacements: usize,
    /// The contents of both masters' disks at one instant, and whose they were.
    pub pair_backup: Option<[(usize, Shelf); 2]>,
    /// Sections that they held, to be put back.
    pub sections_backup: Option<[StoredSections; 2]>,
    /// All machines of agents.
    pub hosts: Vec<Host>,
    /// The network.
    pub net: Net,
    /// Faults so far, by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Remedies of operators for masters so far, by kind.
    pub remedies: BTreeMap<&'static str, u64>,
    /// Until then nothing goes wrong, and no messages are lost.
    pub calm_until: i64,
    /// Until then allocators keep their sections.
    pub episode_until: i64,
    /// Before that the numbers of a key need not be in order.
    pub excused_until: i64,
    /// No faults any more.
    pub healed: bool,
    /// Of the history so far.
    pub hash: u64,
    /// Events so far.
    pub events: u64,
    trace: bool,
}

impl World {
    /// A world without anybody in it.
    pub fn new(setup: &Setup) -> Self {
        let Setup { seed, mutations, trace, .. } = *setup;
        let mut rng = Rng::new(seed);
        let swarm = Swarm::draw(&mut rng, setup);
        let oracle = Oracle::new(swarm.parameters.utc_offset());
        Self {
            rng,
            oracle,
            swarm,
            mutations,
            t: BEGIN,
            link: 1_000_000,
            link_at_beat: 0,
            busy_until: BEGIN + 30_000,
            waits_since: BEGIN,
            unsettled_until: 0,
            next_beat: i64::MAX,
            beat: 0,
            queue: Queue::default(),
            masters: Vec::new(),
            current: [0, 1],
            joining: None,
            replacements: 0,
            pair_backup: None,
            sections_backup: None,
            hosts: Vec::new(),
            net: Net::default(),
            faults: BTreeMap::new(),
            remedies: BTreeMap::new(),
            calm_until: BEGIN,
            episode_until: BEGIN,
            excused_until: BEGIN,
            healed: false,
            hash: seed,
            events: 0,
            trace,
        }
    }

    /// For whoever reads the history.
    pub fn tell(&self, what: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("{} {}", WallMs(self.t), what());
        }
    }

    /// Takes something into the hash of the history.
    pub fn note(&mut self, what: u64) {
        self.hash = mix(self.hash.rotate_left(5) ^ what ^ self.t as u64);
    }

    /// Something happens later.
    pub fn after(&mut self, delay: i64, event: Event) {
        self.queue.push(self.t + delay.max(0), event);
    }

    /// Whatever is under way to masters arrives now, in its order: messages that are ten days late would be a fault.
    pub fn deliver_all(&mut self) {
        self.queue.hasten(self.t + 1, |event| matches!(event, Event::Message(..) | Event::Call(..)));
    }

    /// A short while.
    pub fn latency(&mut self) -> i64 {
        self.rng.range(1, 60)
    }

    /// The masters' clocks run for so long.
    pub fn busy(&mut self, span: i64) {
        self.busy_until = self.busy_until.max(self.t + span);
        self.beat_soon();
    }

    /// Somebody waits for what comes of a message that is lost, and shall be told to ask again. Once a minute: what is never
    /// confirmed is sent again at each beat, for as long as the network is cut.
    pub(super) fn busy_for_who_waits(&mut self) {
        if self.t - self.waits_since >= 60_000 {
            self.waits_since = self.t;
            self.busy(4_000);
        }
    }

    /// The masters' clocks run until both have noticed who is there, but not for long.
    pub fn unsettle(&mut self) {
        self.unsettled_until = self.t + SETTLE;
        self.beat_soon();
    }

    fn clocks_run_until(&self) -> i64 {
        self.busy_until.max(self.unsettled_until)
    }

    /// Tells whether each running master does what it does when it hears the other one, or when it does not.
    fn settled(&self) -> bool {
        let runs = |m: usize| self.masters[m].paused_until <= self.t;
        self.current.iter().zip([self.current[1], self.current[0]]).all(|(m, other)| {
            let Some(ledger) = self.masters[*m].ledger.as_ref().filter(|_| runs(*m)) else { return true };
            let reached = self.net.open(Node::Master(other), Node::Master(*m), self.t);
            let hears = reached && runs(other) && self.masters[other].ledger.is_some();
            match ledger.mode() {
                Mode::Ready => hears && ledger.pair().heard(self.master_now(*m)),
                Mode::ReadyAlone => !hears,
                Mode::RolledBack => true,
                Mode::Syncing => false,
            }
        })
    }

    /// Tells whether both masters are there, and one lets agents show first what both may have forgotten.
    fn quiet(&self) -> bool {
        let ledgers = || self.current.iter().filter_map(|m| self.masters[*m].ledger.as_ref());
        let ready = ledgers().filter(|ledger| ledger.mode() == Mode::Ready).count() == self.current.len();
        ready && ledgers().any(|ledger| ledger.caution().quiet)
    }

    fn beat_soon(&mut self) {
        if self.next_beat > self.t + BEAT.1 {
            self.schedule_beat(BEAT.0);
        }
    }

    fn schedule_beat(&mut self, delay: i64) {
        self.beat += 1;
        self.next_beat = self.t + delay;
        self.after(delay, Event::Beat(self.beat));
    }

    /// A master's clocks.
    pub fn master_now(&self, m: usize) -> Now {
        Now { wall: WallMs(self.t + self.masters[m].wall_off), boot: BootMs(self.link) }
    }

    /// Runs until `until`, or until nothing holds any more.
    pub fn run(&mut self, until: i64) {
        while let Some((at, event)) = self.queue.pop(until) {
            self.go_on_to(at);
            self.events += 1;
            if self.events > EVENTS_MAX {
                self.oracle.violated(|| "the simulation goes round in circles".to_owned());
            }
            if self.oracle.violations > 0 {
                return;
            }
            self.happen(event);
        }
        self.go_on_to(until);
    }

    fn go_on_to(&mut self, at: i64) {
        let runs = (at.min(self.clocks_run_until()) - self.t).max(0);
        let quiet = SpanMs(at - self.t - runs);
        if quiet.0 > 0 {
            self.masters.iter_mut().for_each(|master| master.skip_quiet_time(quiet));
        }
        self.link += runs;
        self.t = at;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Beat(number) if number == self.beat => self.on_beat(),
            Event::Beat(_) => {}
            Event::Message(m, from, frame) => self.on_messages(m, from, frame),
            Event::Call(m, caller, call) => self.on_call(m, caller, *call),
            Event::Answer(caller, reply) => self.on_answer(caller, reply),
            Event::Fetch(h, life, call) => self.ask_for_segment(h, life, call),
            Event::Keeping(h, life) => self.on_keeping(h, life),
            Event::Raising(h, life) => self.on_raising(h, life),
            Event::Question(h, life, question) => self.on_question(h, life, question),
            Event::Client => self.on_client(),
            Event::Episode => self.on_episode(),
            Event::Sudden => self.on_sudden(),
            Event::ForgetSections => self.on_forget_sections(),
            Event::Wake(h, life) => self.wake(h, life),
            Event::Mint(h) => self.on_mint(h),
            Event::Fault => self.on_fault(),
            Event::Operator => self.on_operator(),
            Event::Connected(h, life) => self.on_connected(h, life),
            Event::StartMaster(m) => self.start_master(m),
            Event::StartAgent(h) => self.start_agent(h),
            Event::MasterClockRight(m) => self.masters[m].wall_off = 0,
            Event::HostClockRight(h) => self.hosts[h].wall_off = 0,
            Event::RollBack(m) => drop(self.rolled_back(m)),
            Event::PutBackAwaiting(m) => self.put_back_awaiting(m),
            Event::PutBack(m) => drop(self.put_back(m)),
            Event::Kill(h) => self.kill(h),
            Event::Retire(h) => self.retire(h),
            Event::DeclareLost { lost, zombie } => self.declare_lost(lost, zombie),
            Event::Join(m) => self.on_join(m),
            Event::EndZombie(m) => self.masters[m].die(),
        }
    }

    fn on_beat(&mut self) {
        self.link = self.link.max(self.link_at_beat + BEAT.0);
        self.link_at_beat = self.link;
        for m in 0..self.masters.len() {
            if self.masters[m].paused_until <= self.t {
                self.bend_beat(m);
                self.step(m, LedgerEvent::Tick);
            }
        }
        self.next_beat = i64::MAX;
        if self.swarm.ranges.sequences.is_some() && self.quiet() {
            // Sections wait for it, and it ends by the masters' own clocks.
            self.busy_until = self.busy_until.max(self.t + 2 * BEAT.1);
        }
        if self.t < self.unsettled_until && self.settled() {
            self.unsettled_until = self.t;
        }
        let idle = self.swarm.idle_beat;
        let (least, most) = if self.t < self.clocks_run_until() { BEAT } else { (idle / 2, idle) };
        let delay = self.rng.range(least, most);
        self.schedule_beat(delay);
    }

    fn on_messages(&mut self, m: usize, from: usize, frame: Box<PeerFrame>) {
        let paused = self.masters[m].paused_until - self.t;
        if paused > 0 {
            return self.after(paused + 1, Event::Message(m, from, frame));
        }
        self.receive(m, from, frame);
    }

    fn on_call(&mut self, m: usize, caller: Caller, mut call: Call) {
        let paused = self.masters[m].paused_until - self.t;
        if paused > 0 {
            self.unanswered(caller);
            return self.after(paused + 1, Event::Call(m, caller, Box::new(call)));
        }
        if self.masters[m].ledger.is_none() {
            return self.answer(m, caller, None);
        }
        self.bend_call(m, &mut call);
        let (id, address) = (self.masters[m].draw(), caller.address());
        let (asked, event) = match call {
            Call::Heartbeat(request) => {
                let told = self.masters[m].hear(self.master_now(m), &request);
                let doubts = self.masters[m].ledger.as_ref().is_some_and(|ledger| ledger.calendar().ahead().is_some());
                if doubts && told.is_some() {
                    let HeartbeatRequest { agent_id, session, wall, .. } = request;
                    self.step(m, LedgerEvent::AgentCalendar { agent_id, session, wall });
                }
                return self.answer(m, caller, told.map(Box::new));
            }
            Call::Token(request) => (Asked::Token(request.session), LedgerEvent::Token { id, request, address }),
            Call::Rent(request) => {
                (Asked::Rent(request.session, request.key, request.g), LedgerEvent::Rent { id, request })
            }
            Call::Terminate(request) => (Asked::Terminate(request.key), LedgerEvent::Terminate { id, request }),
            Call::Segment(request) => (Asked::Segment(request.session), LedgerEvent::Segment { id, request, address }),
            Call::Keep(request) => {
                self.lists_sections(m);
                (Asked::Keep(request.session), LedgerEvent::Keep { id, request })
            }
            Call::Raise(request) => (Asked::Sections, LedgerEvent::Raise { id, request }),
            Call::Routes(request) => (Asked::Sections, LedgerEvent::Routes { id, request, address }),
        };
        self.masters[m].wait(id, Asker::Agent(caller, asked));
        self.step(m, event);
        // Also if it died of the question.
        if self.masters[m].asks(id) || self.masters[m].ledger.is_none() {
            self.unanswered(caller);
        }
    }

    /// Sends an answer on its way.
    pub fn answer(&mut self, m: usize, caller: Caller, reply: Option<Box<Answered>>) {
        // Nobody waits for the answer to a copy.
        if caller.rpc == 0 {
            return;
        }
        if caller.task != Task::Leases {
            // They are told apart by what they answer, so that whoever waits takes none twice: here they come twice, and late.
            for delay in self.copies().into_iter().flatten() {
                self.after(delay, Event::Answer(caller, reply.clone()));
            }
        }
        if self.net.open(Node::Master(m), Node::Host(caller.host), self.t) && !self.lost() {
            let delay = self.latency();
            self.after(delay, Event::Answer(caller, reply));
        } else {
            self.unanswered(caller);
        }
    }

    /// Decides whether a message is lost.
    pub fn lost(&mut self) -> bool {
        let p = self.swarm.loss;
        !self.healed && self.t >= self.calm_until && self.rng.chance(p)
    }

    /// Draws the times after which further copies of a message arrive, if there are any.
    pub fn copies(&mut self) -> [Option<i64>; 2] {
        if self.healed {
            return [None, None];
        }
        let (doubled, stored, max) = (self.swarm.doubled, self.swarm.stored, self.swarm.stored_max);
        let doubled = self.rng.chance(doubled).then(|| self.rng.magnitude(1, 10_000));
        let stored = self.rng.chance(stored).then(|| self.rng.magnitude(1_000, max));
        [doubled, stored]
    }

    /// Counts a fault.
    pub fn count_fault(&mut self, kind: &'static str) {
        *self.faults.entry(kind).or_default() += 1;
    }

    /// A span of the length of outages: a second to `max`. Most are short: were they all of any length, with twenty a
    /// day hardly anything would ever be granted.
    pub fn outage(&mut self, max: i64) -> i64 {
        if self.t < self.episode_until {
            return self.rng.magnitude(200, 4 * LEASE).min(max);
        }
        let long = self.swarm.long_outages;
        let usual = if self.rng.chance(long) { max } else { self.swarm.outage_max.min(max) };
        self.rng.magnitude(1_000, usual)
    }

    /// The first beat.
    pub fn begin(&mut self) {
        self.schedule_beat(BEAT.0);
    }
}
