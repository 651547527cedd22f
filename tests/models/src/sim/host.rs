//! A machine with an agent on it: the real holder, told what its task tells it.

use super::disk::{Failure, Folder, Opened, Start};
use super::minter::{Minter, Run, Shell};
use super::rng::mix;
use super::sections::Keys;
use super::segments::Fetch;
use super::world::{Call, Caller, Event, Task, World};
use super::written::Written;
use common::lease::Generation;
use common::parameters::{AgentId, SessionId};
use common::segment::MasterRun;
use common::sequence::Section;
use common::time::{BootMs, HOUR_MS, Now, WallMs};
use common::token::{TokenKey, TokenType};
use minting::holder::{Command, Event as HolderEvent, Holder, LeaseView, Next};
use minting::refusal::Refusal;
use minting::sequence::Tenure;
use serial_file::{AfterReboot, Contents, Header, NUM_BLOCKS, SerialFileError, encode};
use std::collections::{BTreeMap, BTreeSet};
use wire::lease::TerminateRequest;

/// The longest pause between two looks while an agent has nothing to mint with.
const URGENT_MAX: i64 = 2 * HOUR_MS;
/// The pause where no value is free, which only days will change.
const PATIENT: (i64, i64) = (8 * HOUR_MS, 24 * HOUR_MS);
/// An agent notices within so long that a master is there again.
const CONNECTS: i64 = 20_000;
/// So long after that hardly anything is thinned: it tries again in time to be heard before anything is granted.
const SHOWS: i64 = 3 * 60_000;
/// Between two such attempts, at least.
const SHOW_GAP: i64 = 25_000;

/// A machine.
pub struct Host {
    /// The agent's name.
    pub id: AgentId,
    /// Its disk.
    pub folder: Folder,
    /// Earlier states of it.
    pub backups: Vec<Folder>,
    /// The error of its calendar, in milliseconds.
    pub wall_off: i64,
    /// The instant at which it was booted.
    pub booted_at: i64,
    /// The number of that boot.
    pub boot: u64,
    /// The rate of its own clock for sequences, in thousandths.
    pub rate: i64,
    /// The instant until which it stands still.
    pub paused_until: i64,
    /// For how long its own clock stood still with it, but for the last time.
    pub stood: i64,
    /// From when until when it did last.
    pub frozen: (i64, i64),
    /// Until when it may serve what is somebody else's by now, as it stood still with its clock: until a master answers what it asked
    /// since whose clock it can compare, and else until its spans end.
    pub behind_until: i64,
    /// Bounds of sections that were durable when it stood still last.
    pub bounds_then: BTreeMap<Section, u64>,
    /// The sections that it served when both disks were put back while it stood still: as far as these bounds, and for that time, nobody can
    /// tell it of owners since.
    pub excused_to: BTreeMap<Section, (Tenure, u64)>,
    /// The starts of masters whose clocks it can compare, and since when.
    pub heard: BTreeMap<usize, (MasterRun, BootMs)>,
    /// The number of processes that there were.
    pub life: u32,
    /// The process.
    pub proc: Option<Proc>,
    /// Its process dies right after it has given out IDs.
    pub dies_minting: bool,
    /// A copy that is taken away again.
    pub retired: bool,
    /// True if its agent serves sections.
    pub is_allocator: bool,
    /// The instant at which a client last got an ID of each kind, Uniq96 last.
    pub served: Vec<Option<i64>>,
    /// True if the last client was told that the clock is behind.
    pub clock_behind: bool,
    /// True if it was told that its serial file belongs to another cluster.
    pub foreign: bool,
}

impl Host {
    /// The leases that its process holds.
    pub fn leases(&self) -> impl Iterator<Item = (TokenKey, Generation, SessionId)> {
        let held = |proc: &Proc| {
            let session = proc.session;
            proc.minter.holdings().leases.iter().map(move |grant| (grant.key, grant.g, session)).collect::<Vec<_>>()
        };
        self.proc.iter().flat_map(held)
    }
}

/// An agent's process.
pub struct Proc {
    pub(super) session: SessionId,
    pub(super) minter: Minter,
    pub(super) holder: Holder,
    pub(super) jumps: u64,
    pub(super) link: Option<usize>,
    pub(super) turn: usize,
    pub(super) call: Option<InFlight>,
    /// The number of the last call of any task,
    pub(super) rpc: u64,
    /// and of the last one for leases.
    pub(super) asked: u64,
    /// The segment that is asked for.
    pub(super) fetch: Option<Fetch>,
    /// The state of its sequences, if it serves them.
    pub(super) keys: Option<Keys>,
    /// Only time will help.
    pub(super) patient: bool,
    urgent: u32,
    /// Until then it shows what it holds as often as the product does.
    shows_until: i64,
}

#[derive(Clone, Debug)]
pub(super) struct InFlight {
    pub(super) command: Command,
    /// Masters that may still be tried.
    pub(super) left: u8,
    pub(super) target: usize,
    pub(super) sent: Now,
}

impl Proc {
    /// Tells whether it has a lease to mint under.
    pub fn holds(&self, os: Now) -> bool {
        let now = self.minter.now(os);
        let held = |view: &LeaseView| matches!(view, LeaseView::Held(grant) if now.wall < grant.until);
        self.minter.published().leases.get(&TokenType::Uint2).is_some_and(held)
    }
}

/// The type of token that an agent of that name leases, if agents do not all lease the same: a type with few values is a part of one
/// with more, so agents of different types lease from one pool. A copy of its folder goes by the same name.
fn token_type(id: &AgentId, mixed: bool) -> TokenType {
    let nth = id.as_str().bytes().map(usize::from).sum::<usize>();
    let types = [TokenType::Uint2, TokenType::Uint10Bit, TokenType::Uint5Bit];
    if mixed { types[nth % types.len()] } else { TokenType::Uint2 }
}

impl Host {
    /// The type of token that it leases.
    pub(super) fn token_type(&self, mixed: bool) -> TokenType {
        token_type(&self.id, mixed)
    }

    /// The time by its operating system's clocks.
    pub fn os(&self, t: i64) -> Now {
        Now { wall: WallMs(t + self.wall_off), boot: BootMs(t - self.booted_at + 1_000) }
    }
}

impl World {
    /// A new machine.
    pub fn add_host(&mut self, id: AgentId, folder: Folder, is_allocator: bool) -> usize {
        let boot = self.rng.next();
        let (booted_at, t) = (self.t - self.rng.range(0, HOUR_MS), self.t);
        let rate = [1_000, 990, 1_010][(boot % 3) as usize];
        self.hosts.push(Host {
            id,
            folder,
            backups: Vec::new(),
            wall_off: 0,
            booted_at,
            boot,
            rate,
            paused_until: t,
            stood: 0,
            frozen: (t, t),
            behind_until: i64::MIN,
            bounds_then: BTreeMap::new(),
            excused_to: BTreeMap::new(),
            heard: BTreeMap::new(),
            life: 0,
            proc: None,
            dies_minting: false,
            retired: false,
            is_allocator,
            served: vec![None; self.swarm.kinds.len() + 1],
            clock_behind: false,
            foreign: false,
        });
        let h = self.hosts.len() - 1;
        let wait = self.rng.range(0, 60_000);
        self.after(wait, Event::StartAgent(h));
        let wait = self.rng.range(60_000, self.swarm.mint);
        self.after(wait, Event::Mint(h));
        h
    }

    /// Starts the agent of a machine.
    pub fn start_agent(&mut self, h: usize) {
        let session = SessionId(self.rng.wide());
        let rule = if self.swarm.resume_after_reboot { AfterReboot::Resume } else { AfterReboot::Fresh };
        let mutations = self.mutations;
        let host = &mut self.hosts[h];
        if host.proc.is_some() || host.retired {
            return;
        }
        let start = Start { boot: host.boot, rule, session, mutations };
        match host.folder.open(&start, &mut self.rng) {
            Ok(opened) => self.run_agent(h, opened),
            Err((None, SerialFileError::Missing(_) | SerialFileError::Damaged { .. })) => {
                self.format(h);
                self.after(1_000, Event::StartAgent(h));
            }
            Err((ended, _)) => self.process_ended(h, ended.unwrap_or(Failure::FileLoss)),
        }
    }

    fn run_agent(&mut self, h: usize, opened: Opened) {
        let turn = self.rng.below(2);
        let (renew, mutations, t) = (self.swarm.renew, self.mutations, self.t);
        let host = &mut self.hosts[h];
        let os = host.os(t);
        let session = opened.contents.header.session;
        let start = opened.start.to_string();
        let (held, rseq) = (opened.holdings.leases.clone(), opened.holdings.rseq);
        let wanted = BTreeSet::from([host.token_type(self.swarm.mixed_tokens)]);
        let holder = Holder::new(&wanted, &held, rseq, renew, os);
        let now = host.keys_now(t);
        let sequences = self.swarm.ranges.sequences.as_ref().filter(|_| host.is_allocator);
        let keys = sequences.and_then(|namespace| {
            let (file, start) = opened.sections(&host.id, SessionId(self.rng.wide()));
            let written = Written::new(file, &start, &held, SessionId(self.rng.wide()));
            Keys::new(namespace, written, turn, now)
        });
        let minter = Minter::new(opened, &self.swarm.kinds, holder.leases(), os, mutations);
        host.life += 1;
        host.heard.clear();
        host.excused_to.clear();
        let (life, jumps) = (host.life, minter.jumps);
        let proc = Proc {
            session,
            minter,
            holder,
            jumps,
            link: None,
            turn,
            call: None,
            rpc: 0,
            asked: 0,
            fetch: None,
            keys,
            patient: false,
            urgent: 0,
            shows_until: 0,
        };
        host.proc = Some(proc);
        self.tell(|| format!("agent {h} starts: {start}, session {session}"));
        self.note(mix(session.0 as u64));
        self.after(10, Event::Wake(h, life));
        self.join_episode(h);
        // Clients do not wait for it to have heard from a master.
        if self.rng.chance(0.5) {
            self.mint(h);
        }
    }

    /// A new serial file in the place of whatever is there.
    pub fn format(&mut self, h: usize) {
        let session = SessionId(self.rng.wide());
        let mark = self.hosts[h].os(self.t).wall.max(WallMs(0));
        let header = Header { session, time_mark: mark, write_counter: 0, names_from: WallMs(0) };
        // Some agents have come far: their serials are about to begin anew.
        let mut blocks = Vec::new();
        for kind in &self.swarm.kinds {
            let counts = kind.counts();
            let before = (counts && self.rng.chance(0.3)).then(|| self.rng.magnitude(1, 5_000) as u64);
            let laps = self.rng.range(1, 3) as u64;
            blocks.push(before.map(|left| kind.used((laps * kind.rules.capacity).saturating_sub(left), mark)));
        }
        blocks.resize(blocks.len().max(*NUM_BLOCKS.start() as usize), None);
        let bytes = encode(&Contents { header, blocks }).expect("a file of ours");
        self.hosts[h].folder.put(bytes);
    }

    /// The process is gone.
    pub fn process_ended(&mut self, h: usize, why: Failure) {
        self.tell(|| format!("agent {h} ends: {why:?}"));
        if why == Failure::PowerCut {
            self.reboot(h);
        }
        self.hosts[h].proc = None;
        let down = self.outage(HOUR_MS);
        self.after(down, Event::StartAgent(h));
    }

    /// The machine boots anew.
    pub fn reboot(&mut self, h: usize) {
        let boot = self.rng.next();
        let host = &mut self.hosts[h];
        (host.boot, host.booted_at, host.proc) = (boot, self.t, None);
        host.folder.cut(&mut self.rng);
    }

    /// Lets the process do something with its file. `None` if it ended of it, or is not there.
    pub(super) fn with<R>(
        &mut self,
        h: usize,
        work: impl FnOnce(&mut Proc, &mut Shell<'_>) -> Result<R, Refusal>,
    ) -> Option<Result<R, Refusal>> {
        let host = &mut self.hosts[h];
        let os = host.os(self.t);
        let mut shell = Shell { folder: &host.folder, rng: &mut self.rng, os, ended: None };
        let done = work(host.proc.as_mut()?, &mut shell);
        if let Some(failure) = shell.ended {
            self.process_ended(h, failure);
            return None;
        }
        Some(done)
    }

    /// The agent's task: what is there to do?
    pub fn wake(&mut self, h: usize, life: u32) {
        let host = &self.hosts[h];
        if host.life != life || host.proc.as_ref().is_none_or(|proc| proc.call.is_some()) {
            return;
        }
        if host.paused_until > self.t {
            return self.after(host.paused_until - self.t + 1, Event::Wake(h, life));
        }
        let dice = self.rng.next();
        let next = self.with(h, |proc, shell| {
            proc.minter.watch_clock(shell);
            if proc.minter.jumps != proc.jumps {
                proc.jumps = proc.minter.jumps;
                proc.holder.handle(proc.minter.now(shell.os), dice, &HolderEvent::ClockJumped);
                publish(proc, shell);
            }
            let next = proc.holder.next(proc.minter.now(shell.os), dice);
            if let Next::Wait(_) = next {
                publish(proc, shell);
            }
            Ok(next)
        });
        match next {
            Some(Ok(Next::Do(command))) => self.begin_call(h, command),
            Some(Ok(Next::Wait(due))) => self.wait(h, life, due),
            Some(Err(_)) => self.after(60_000, Event::Wake(h, life)),
            None => {}
        }
    }

    /// Lets what the agent holds be renewed within moments, and its receipts be shown.
    pub(super) fn on_connected(&mut self, h: usize, life: u32) {
        if self.hosts[h].life != life || self.hosts[h].paused_until > self.t {
            return;
        }
        let (dice, t) = (self.rng.next(), self.t);
        let done = self.with(h, |proc, shell| {
            proc.shows_until = t + SHOWS;
            proc.holder.handle(proc.minter.now(shell.os), dice, &HolderEvent::Connected);
            Ok(())
        });
        if done.is_some() {
            self.after(1, Event::Wake(h, life));
        }
    }

    /// All agents that are there connect to a master that was started anew. That is left out but where what they show decides
    /// something: where both masters have forgotten, and nobody noticed.
    pub(super) fn connect_all(&mut self) {
        for h in 0..self.hosts.len() {
            let life = self.hosts[h].life;
            let pause = self.rng.range(100, CONNECTS);
            if self.hosts[h].proc.is_some() {
                self.after(pause, Event::Connected(h, life));
            }
        }
    }

    /// The next look. Heartbeats are left out while nothing changes, as if the agent stood still.
    fn wait(&mut self, h: usize, life: u32, due: BootMs) {
        let os = self.hosts[h].os(self.t);
        let Some(proc) = &mut self.hosts[h].proc else { return };
        let due = (due - os.boot).0.max(1);
        let delay = if self.t < proc.shows_until {
            due.max(SHOW_GAP)
        } else if proc.holds(os) {
            proc.urgent = 0;
            let renew = self.swarm.renew.0;
            self.rng.range(renew / 4, renew / 2)
        } else if proc.patient {
            self.rng.range(PATIENT.0, PATIENT.1)
        } else {
            proc.urgent = (proc.urgent + 2).min(20);
            due.max(1_000 << proc.urgent).min(URGENT_MAX).max(due)
        };
        self.after(delay, Event::Wake(h, life));
    }

    /// Clients come by again and again.
    pub fn on_mint(&mut self, h: usize) {
        if self.hosts[h].retired {
            return;
        }
        self.mint(h);
        // Clients come in bursts: what goes wrong between two requests of one minute is another matter than between hours.
        let burst = self.rng.chance(0.4);
        let gap = self.rng.range(1_000, if burst { 60_000 } else { self.swarm.mint });
        self.after(gap, Event::Mint(h));
    }

    pub(super) fn mint(&mut self, h: usize) {
        if self.hosts[h].proc.is_none() || self.hosts[h].paused_until > self.t {
            return;
        }
        let mut gave = false;
        for _ in 0..self.rng.range(1, 3) {
            let n = self.rng.magnitude(1, 3_000);
            let at = self.rng.below(1 + self.swarm.kinds.len());
            let ended = !self.mint_kind(h, at, n, &mut gave);
            if ended {
                break;
            }
        }
        if gave && std::mem::take(&mut self.hosts[h].dies_minting) {
            self.hosts[h].proc = None;
            let down = self.rng.magnitude(100, 60_000);
            self.after(down, Event::StartAgent(h));
        }
    }

    /// A client wants `n` IDs of a kind, of which Uniq96 is the last. `false`: there is no process (any more).
    pub(super) fn mint_kind(&mut self, h: usize, at: usize, n: i64, gave: &mut bool) -> bool {
        if self.swarm.kinds.get(at).is_some_and(|kind| kind.segments().is_some()) {
            return self.give_numbers(h, at, n, gave);
        }
        let host = &self.hosts[h];
        let Some(proc) = &host.proc else { return false };
        let (session, wall) = (proc.session, proc.minter.now(host.os(self.t)).wall);
        let mut runs: Vec<Run> = Vec::new();
        let n = self.swarm.kinds.get(at).map_or(n, |kind| n.min(kind.rules.capacity as i64)) as u32;
        let done = self.with(h, |proc, shell| proc.minter.mint(shell, at, n, &mut runs));
        // What was given out before something failed is out in the world too.
        for run in runs.iter().filter(|run| run.len > 0) {
            *gave = true;
            self.note(run.high ^ mix(run.start));
            self.oracle.minted(run, session, wall);
        }
        let host = &mut self.hosts[h];
        host.clock_behind = matches!(done, Some(Err(Refusal::ClockBehind { .. })));
        if let Some(Ok(())) = done {
            host.served[at] = Some(self.t);
        }
        done.is_some()
    }

    /// A clean stop.
    pub fn stop_agent(&mut self, h: usize) {
        self.leave_sections(h);
        self.with(h, |proc, shell| proc.minter.end(shell));
        self.hosts[h].proc = None;
    }

    /// The agent's lease is given back, while it goes on.
    pub fn release(&mut self, h: usize) {
        let host = &self.hosts[h];
        let Some(proc) = &host.proc else { return };
        let Some(grant) = proc.minter.holdings().leases.first() else { return };
        let request = TerminateRequest { agent_id: host.id.clone(), session: proc.session, key: grant.key, g: grant.g };
        let target = self.current[self.rng.below(2)];
        let caller = Caller { host: h, life: host.life, rpc: 0, task: Task::Leases };
        self.transmit(target, caller, Call::Terminate(request));
    }

    /// Whoever stood still goes on at once.
    pub fn go_on(&mut self, h: usize) {
        let host = &mut self.hosts[h];
        host.paused_until = self.t;
        host.frozen.1 = host.frozen.1.min(self.t);
        if host.proc.is_some() {
            self.end_call(h, 1_000);
        }
    }

    /// A copy is taken away.
    pub fn retire(&mut self, h: usize) {
        let host = &mut self.hosts[h];
        (host.retired, host.proc) = (true, None);
    }
}

fn publish(proc: &mut Proc, shell: &mut Shell<'_>) {
    let leases = proc.holder.leases();
    if proc.minter.differs_from(&leases) {
        // A failure is told to the log; what was gained is not used.
        let _ = proc.minter.set_leases(shell, leases, proc.jumps);
    }
}
