//! A machine with an agent on it: the real holder, told what its task tells it.

use super::disk::{Failure, Folder, Opened, SerialFile};
use super::minter::{Minter, Run, Shell, Stop};
use super::net::Node;
use super::rng::mix;
use super::swarm::Mutation;
use super::world::{Call, Caller, Event, World};
use agent::holder::{Command, Event as HolderEvent, Holder, LeaseView, Next, check_grant};
use agent::serial_file::{AfterReboot, Contents, Header, encode};
use agent::timebase::Answer;
use common::rpc::PROTOCOL;
use common::rpc::lease::{
    HeartbeatReply, HeartbeatRequest, Refusal, Rent, RentRequest, TerminateRequest, TokenRequest,
};
use common::terms::{AgentId, SessionId};
use common::time::{BootMs, HOUR_MS, Now, WallMs};
use common::token::TokenType;
use master::lease::Reply;
use std::collections::BTreeSet;

/// How long a call may take.
const CALL_TIMEOUT: i64 = 5_000;
/// The longest pause between two looks while an agent has nothing to mint with.
const URGENT_MAX: i64 = HOUR_MS;

/// A machine.
pub struct Host {
    /// The agent's name.
    pub id: AgentId,
    /// Its disk.
    pub folder: Folder,
    /// Earlier states of it.
    pub backups: Vec<Folder>,
    /// How wrong its calendar is.
    pub wall_off: i64,
    /// When it was booted.
    pub booted_at: i64,
    /// Which boot that was.
    pub boot: u64,
    /// It stands still until then.
    pub paused_until: i64,
    /// How many processes there were.
    pub life: u32,
    /// The process.
    pub proc: Option<Proc>,
    /// A copy that is taken away again.
    pub retired: bool,
}

/// An agent's process.
pub struct Proc {
    session: SessionId,
    minter: Minter,
    holder: Holder,
    jumps: u64,
    link: Option<usize>,
    turn: usize,
    call: Option<InFlight>,
    rpc: u64,
    urgent: u32,
}

#[derive(Clone, Debug)]
struct InFlight {
    command: Command,
    /// Masters that may still be tried.
    left: u8,
    target: usize,
    sent: Now,
}

impl Proc {
    /// Whether it has a lease to mint under.
    pub fn holds(&self, os: Now) -> bool {
        let now = self.minter.now(os);
        let held = |view: &LeaseView| matches!(view, LeaseView::Held(grant) if now.wall < grant.until);
        self.minter.leases().get(&TokenType::Uint2).is_some_and(held)
    }
}

impl Host {
    /// What its operating system's clocks say.
    pub fn os(&self, t: i64) -> Now {
        Now { wall: WallMs(t + self.wall_off), boot: BootMs(t - self.booted_at + 1_000) }
    }
}

impl World {
    /// A new machine.
    pub fn add_host(&mut self, id: AgentId, folder: Folder) -> usize {
        let boot = self.rng.next();
        let (booted_at, t) = (self.t - self.rng.range(0, HOUR_MS), self.t);
        self.hosts.push(Host {
            id,
            folder,
            backups: Vec::new(),
            wall_off: 0,
            booted_at,
            boot,
            paused_until: t,
            life: 0,
            proc: None,
            retired: false,
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
        let believe_all = self.mutation == Mutation::AnyLineageResumes;
        let host = &mut self.hosts[h];
        if host.proc.is_some() || host.retired {
            return;
        }
        let opened = SerialFile::open(&mut host.folder, host.boot, rule, believe_all, session, &mut self.rng);
        match opened {
            None => {
                self.format(h);
                self.after(1_000, Event::StartAgent(h));
            }
            Some(Err(failure)) => {
                self.process_ended(h, failure);
            }
            Some(Ok(opened)) => self.run_agent(h, opened),
        }
    }

    fn run_agent(&mut self, h: usize, opened: Opened) {
        let turn = self.rng.below(2);
        let (renew, mutation, t) = (self.swarm.renew, self.mutation, self.t);
        let host = &mut self.hosts[h];
        let os = host.os(t);
        let session = opened.contents.header.session;
        let start = opened.start.to_string();
        let (held, rseq) = (opened.holdings.leases.clone(), opened.holdings.rseq);
        let holder = Holder::new(&BTreeSet::from([TokenType::Uint2]), &held, rseq, renew, os);
        let minter = Minter::new(opened, holder.leases(), os, mutation);
        host.life += 1;
        let (life, jumps) = (host.life, minter.jumps);
        let proc = Proc { session, minter, holder, jumps, link: None, turn, call: None, rpc: 0, urgent: 0 };
        host.proc = Some(proc);
        self.tell(|| format!("agent {h} starts: {start}, session {session}"));
        self.note(mix(session.0 as u64));
        self.after(10, Event::Wake(h, life));
    }

    /// A new serial file in the place of whatever is there.
    pub fn format(&mut self, h: usize) {
        let session = SessionId(self.rng.wide());
        let host = &mut self.hosts[h];
        let mark = host.os(self.t).wall.max(WallMs(0));
        let header = Header { session, uniq96_mark: mark, write_counter: 0 };
        let bytes = encode(&Contents { header, blocks: vec![None] }).expect("an empty file");
        host.folder.put(bytes);
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
    }

    /// Lets the process do something with its file. `None` if it ended of it, or is not there.
    fn with<R>(
        &mut self,
        h: usize,
        work: impl FnOnce(&mut Proc, &mut Shell<'_>) -> Result<R, Stop>,
    ) -> Option<Result<R, Stop>> {
        let host = &mut self.hosts[h];
        let os = host.os(self.t);
        let mut shell = Shell { folder: &mut host.folder, rng: &mut self.rng, os };
        let done = work(host.proc.as_mut()?, &mut shell);
        match done {
            Err(Stop::Disk(failure)) if failure != Failure::Io => {
                self.process_ended(h, failure);
                None
            }
            done => Some(done),
        }
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
            proc.minter.watch_clock(shell.os);
            if proc.minter.jumps != proc.jumps {
                proc.jumps = proc.minter.jumps;
                proc.holder.handle(proc.minter.now(shell.os), dice, &HolderEvent::ClockJumped);
                publish(proc, shell)?;
            }
            let next = proc.holder.next(proc.minter.now(shell.os), dice);
            if let Next::Wait(_) = next {
                publish(proc, shell)?;
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

    /// The next look. Signs of life are left out while nothing changes, as if the agent stood still.
    fn wait(&mut self, h: usize, life: u32, due: BootMs) {
        let os = self.hosts[h].os(self.t);
        let Some(proc) = &mut self.hosts[h].proc else { return };
        let due = (due - os.boot).0.max(1);
        let delay = if proc.holds(os) {
            proc.urgent = 0;
            let renew = self.swarm.renew.0;
            self.rng.range(renew / 4, renew / 2)
        } else {
            proc.urgent = (proc.urgent + 1).min(20);
            due.max(1_000 << proc.urgent).min(URGENT_MAX).max(due)
        };
        self.after(delay, Event::Wake(h, life));
    }

    fn begin_call(&mut self, h: usize, command: Command) {
        let Some(proc) = &mut self.hosts[h].proc else { return };
        let sent = Now::default();
        proc.call = Some(InFlight { command, left: 2, target: 0, sent });
        self.send_call(h);
    }

    /// Sends what the call in flight is for, to the master whose turn it is.
    fn send_call(&mut self, h: usize) {
        let sides = usize::from(self.masters.len() > 2) * h % 2;
        let agent_id = self.hosts[h].id.clone();
        let Some(proc) = &self.hosts[h].proc else { return };
        let Some(flight) = proc.call.clone() else { return };
        let cluster = proc.minter.membership().map(|(cluster, _)| cluster);
        let (session, link) = (proc.session, proc.link);
        let target = link.unwrap_or_else(|| self.address(proc.turn, sides == 1));
        let greets = link.is_none();
        let heartbeat = || HeartbeatRequest {
            protocol: PROTOCOL,
            agent_id: agent_id.clone(),
            session,
            cluster,
            test_clock: None,
            version: String::new(),
        };
        let call = match flight.command {
            Command::Heartbeat => Call::Heartbeat(heartbeat()),
            _ if greets => Call::Heartbeat(heartbeat()),
            Command::Request(token_type) => Call::Token(TokenRequest { agent_id, session, cluster, token_type }),
            Command::Renew { key, g, renewal, .. } => {
                let promised = self.with(h, |proc, shell| proc.minter.promise_rseq(shell, renewal.rseq));
                match promised {
                    None => return,
                    Some(Err(_)) => return self.call_failed(h, None),
                    Some(Ok(())) => {}
                }
                let (rseq, attempt) = (renewal.rseq, renewal.attempt);
                Call::Rent(RentRequest { agent_id, session, cluster, key, g, rseq, attempt })
            }
        };
        let host = &mut self.hosts[h];
        let (sent, life) = (host.os(self.t), host.life);
        let Some(proc) = &mut host.proc else { return };
        proc.rpc += 1;
        let caller = Caller { host: h, life, rpc: proc.rpc };
        proc.call = Some(InFlight { target, sent, ..flight });
        self.transmit(target, caller, call);
        self.after(CALL_TIMEOUT, Event::Timeout(caller));
    }

    fn transmit(&mut self, target: usize, caller: Caller, call: Call) {
        for delay in self.copies().into_iter().flatten() {
            self.after(delay, Event::Call(target, Caller { rpc: 0, ..caller }, Box::new(call.clone())));
        }
        if self.net.open(Node::Host(caller.host), Node::Master(target), self.t) && !self.lost() {
            let delay = self.latency();
            self.after(delay, Event::Call(target, caller, Box::new(call)));
        }
    }

    /// Who answers at an address: for some agents a former master that lives on.
    fn address(&self, turn: usize, far_side: bool) -> usize {
        let current = self.current[turn % 2];
        let id = self.masters[current].id;
        let zombie = |m: &usize| self.masters[*m].id == id && *m != current && self.masters[*m].ledger.is_some();
        (0..self.masters.len()).rev().find(zombie).filter(|_| far_side).unwrap_or(current)
    }

    /// An answer, or none in time.
    pub fn on_answer(&mut self, caller: Caller, reply: Option<Box<Reply>>) {
        let h = caller.host;
        let host = &self.hosts[h];
        let waits = host.life == caller.life
            && host.proc.as_ref().is_some_and(|proc| proc.rpc == caller.rpc && proc.call.is_some());
        if !waits {
            return;
        }
        if host.paused_until > self.t {
            return self.after(host.paused_until - self.t, Event::Answer(caller, reply));
        }
        let Some(flight) = host.proc.as_ref().and_then(|proc| proc.call.clone()) else { return };
        match reply.map(|reply| *reply) {
            Some(Reply::Heartbeat(Ok(reply))) => self.greeted(h, &flight, &reply),
            Some(Reply::Token(Ok(grant))) => {
                let fine = check_grant(&grant, TokenType::Uint2, &self.swarm.terms);
                if let Err(what) = fine {
                    self.oracle.violated(|| format!("agent {h} is granted what cannot be used: {what}"));
                }
                self.take_in(h, HolderEvent::Granted(grant));
            }
            Some(Reply::Rent(Ok(rent))) => {
                let Command::Renew { key, g, .. } = flight.command else { return };
                self.take_in(
                    h,
                    match rent {
                        Rent::Success { until } => HolderEvent::Renewed { key, g, until },
                        Rent::Rented | Rent::Unrented => HolderEvent::Ended { key, g },
                    },
                );
            }
            Some(Reply::Heartbeat(Err(refusal)) | Reply::Token(Err(refusal)) | Reply::Rent(Err(refusal))) => {
                self.call_failed(h, Some(refusal));
            }
            _ => self.call_failed(h, None),
        }
    }

    fn greeted(&mut self, h: usize, flight: &InFlight, reply: &HeartbeatReply) {
        let dice = self.rng.next();
        let known = self.hosts[h].proc.as_ref().and_then(|proc| proc.minter.membership());
        if known.is_some_and(|(cluster, terms)| cluster != reply.cluster || terms != reply.terms) {
            return self.oracle.violated(|| format!("agent {h} meets another cluster"));
        }
        let done = self.with(h, |proc, shell| {
            if known.is_none() {
                proc.minter.join(shell, reply.cluster, reply.terms)?;
            }
            let round_trip = shell.os.boot - flight.sent.boot;
            proc.minter.hear(&Answer { sent: flight.sent, received: shell.os, round_trip, wall: reply.wall });
            proc.holder.handle(proc.minter.now(shell.os), dice, &HolderEvent::HeartbeatAnswered);
            proc.link = Some(flight.target);
            Ok(())
        });
        match done {
            None => {}
            Some(Err(_)) => self.call_failed(h, None),
            Some(Ok(())) if flight.command == Command::Heartbeat => self.end_call(h, 1),
            Some(Ok(())) => self.send_call(h),
        }
    }

    /// The call is over; the task goes on.
    fn end_call(&mut self, h: usize, pause: i64) {
        let life = self.hosts[h].life;
        if let Some(proc) = &mut self.hosts[h].proc {
            proc.call = None;
            self.after(pause, Event::Wake(h, life));
        }
    }

    /// No answer, or a refusal: the next master, or later.
    fn call_failed(&mut self, h: usize, refusal: Option<Refusal>) {
        let dice = self.rng.next();
        let Some(proc) = &mut self.hosts[h].proc else { return };
        let Some(flight) = &mut proc.call else { return };
        let other_may_help = refusal.as_ref().is_none_or(|r| !matches!(r, Refusal::Retry | Refusal::Budget { .. }));
        flight.left -= 1;
        if other_may_help {
            proc.link = None;
            proc.turn += 1;
            if flight.left > 0 {
                return self.send_call(h);
            }
        }
        let patient = matches!(refusal, Some(Refusal::Budget { .. } | Refusal::PoolExhausted { .. }));
        let event = match flight.command.clone() {
            Command::Heartbeat => HolderEvent::HeartbeatFailed,
            Command::Request(token_type) => HolderEvent::NotGranted { token_type, patient },
            Command::Renew { key, g, .. } => HolderEvent::NotRenewed { key, g },
        };
        self.with(h, |proc, shell| {
            proc.holder.handle(proc.minter.now(shell.os), dice, &event);
            Ok(())
        });
        self.end_call(h, 20);
    }

    /// Tells the holder and makes what it gained durable; if that fails, the holder has not heard of it.
    fn take_in(&mut self, h: usize, event: HolderEvent) {
        let dice = self.rng.next();
        let done = self.with(h, |proc, shell| {
            let mut holder = proc.holder.clone();
            let now = proc.minter.now(shell.os);
            holder.handle(now, dice, &event);
            let set = proc.minter.set_leases(shell, holder.leases(), proc.jumps);
            if matches!(set, Err(Stop::Disk(failure)) if failure != Failure::Io) {
                return set;
            }
            let failed = match (&set, event) {
                (Err(_), HolderEvent::Granted(grant)) => {
                    Some(HolderEvent::NotGranted { token_type: grant.token_type, patient: false })
                }
                (Err(_), HolderEvent::Renewed { key, g, .. }) => Some(HolderEvent::NotRenewed { key, g }),
                _ => None,
            };
            match failed {
                Some(failed) => proc.holder.handle(now, dice, &failed),
                None => proc.holder = holder,
            }
            Ok(())
        });
        if done.is_some() {
            self.end_call(h, 1);
            self.mint(h);
        }
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

    fn mint(&mut self, h: usize) {
        let host = &self.hosts[h];
        let Some(proc) = host.proc.as_ref().filter(|_| host.paused_until <= self.t) else { return };
        let session = proc.session;
        let mut runs: Vec<Run> = Vec::new();
        for _ in 0..self.rng.range(1, 3) {
            let n = self.rng.magnitude(1, 3_000) as u32;
            let done = if self.rng.chance(0.7) {
                self.with(h, |proc, shell| proc.minter.mint(shell, n, &mut runs))
            } else {
                self.with(h, |proc, shell| proc.minter.mint96(shell, n, &mut runs))
            };
            if done.is_none() {
                break;
            }
        }
        for run in runs.iter().filter(|run| run.len > 0) {
            self.note(run.prefix ^ mix(run.start));
            self.oracle.minted(run, session);
        }
    }

    /// A clean stop.
    pub fn stop_agent(&mut self, h: usize) {
        self.with(h, |proc, shell| proc.minter.end(shell));
        self.hosts[h].proc = None;
    }

    /// The agent's lease is given back, while it goes on.
    pub fn release(&mut self, h: usize) {
        let host = &self.hosts[h];
        let Some(proc) = &host.proc else { return };
        let Some(grant) = proc.minter.holdings.leases.first() else { return };
        let request = TerminateRequest { agent_id: host.id.clone(), session: proc.session, key: grant.key, g: grant.g };
        let target = self.current[self.rng.below(2)];
        let caller = Caller { host: h, life: host.life, rpc: 0 };
        self.transmit(target, caller, Call::Terminate(request));
    }

    /// Whoever stood still goes on at once.
    pub fn go_on(&mut self, h: usize) {
        let host = &mut self.hosts[h];
        host.paused_until = self.t;
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

fn publish(proc: &mut Proc, shell: &mut Shell<'_>) -> Result<(), Stop> {
    let leases = proc.holder.leases();
    if leases == *proc.minter.leases() {
        return Ok(());
    }
    match proc.minter.set_leases(shell, leases, proc.jumps) {
        // Told to the log; what was gained is not used.
        Err(Stop::Disk(Failure::Io)) => Ok(()),
        done => done,
    }
}
