//! Calls of an agent to the masters, and their answers.

use super::host::InFlight;
use super::master::Answered;
use super::net::Node;
use super::world::{Call, Caller, Event, Task, World};
use common::time::Now;
use ledger::lease::Reply;
use minting::holder::{Command, Event as HolderEvent, check_grant};
use minting::timebase::ClockSample;
use wire::PROTOCOL;
use wire::lease::{HeartbeatReply, HeartbeatRequest, Refusal, Rent, RentRequest, TokenRequest};

/// The longest time that a call may take.
const CALL_TIMEOUT: i64 = 5_000;

impl World {
    pub(super) fn begin_call(&mut self, h: usize, command: Command) {
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
        let wall = self.hosts[h].os(self.t).wall;
        let heartbeat = || HeartbeatRequest {
            protocol: PROTOCOL,
            agent_id: agent_id.clone(),
            session,
            cluster,
            test_clock: None,
            version: String::new(),
            wall,
            retired: Vec::new(),
        };
        let call = match flight.command {
            Command::Heartbeat => Call::Heartbeat(heartbeat()),
            _ if greets => Call::Heartbeat(heartbeat()),
            Command::Request(token_type) => {
                let former = if self.swarm.gives_up { proc.minter.holdings().former.clone() } else { Vec::new() };
                Call::Token(TokenRequest { agent_id, session, cluster, token_type, former })
            }
            Command::Renew { key, g, renewal, .. } => {
                let promised = self.with(h, |proc, shell| proc.minter.promise_rseq(shell, renewal.rseq));
                match promised {
                    None => return,
                    Some(Err(_)) => return self.call_failed(h, None),
                    Some(Ok(())) => {}
                }
                let (rseq, attempt) = (renewal.rseq, renewal.attempt);
                let receipt = self.hosts[h].proc.as_ref().and_then(|proc| proc.holder.receipt(key, g));
                Call::Rent(RentRequest { agent_id, session, cluster, key, g, rseq, attempt, receipt })
            }
        };
        let host = &mut self.hosts[h];
        let (sent, life) = (host.os(self.t), host.life);
        let Some(proc) = &mut host.proc else { return };
        proc.rpc += 1;
        let caller = Caller { host: h, life, rpc: proc.rpc, task: Task::Leases };
        proc.asked = proc.rpc;
        proc.call = Some(InFlight { target, sent, ..flight });
        self.transmit(target, caller, call);
    }

    pub(super) fn transmit(&mut self, target: usize, caller: Caller, call: Call) {
        for delay in self.copies().into_iter().flatten() {
            self.after(delay, Event::Call(target, Caller { rpc: 0, ..caller }, Box::new(call.clone())));
        }
        if self.net.open(Node::Host(caller.host), Node::Master(target), self.t) && !self.lost() {
            let delay = self.latency();
            if self.masters[target].ledger.is_some() {
                self.after(delay, Event::Call(target, caller, Box::new(call)));
            } else if caller.rpc > 0 {
                self.after(delay, Event::Answer(caller, None));
            }
        } else {
            self.unanswered(caller);
        }
    }

    /// Nothing will come of a call, or perhaps nothing: its agent waits until it has waited long enough.
    pub(super) fn unanswered(&mut self, caller: Caller) {
        if caller.rpc > 0 {
            self.after(CALL_TIMEOUT, Event::Answer(caller, None));
        }
    }

    /// Finds who answers at an address: for some agents there is nobody but a former master that lives on.
    pub(super) fn address(&self, turn: usize, far_side: bool) -> usize {
        let zombie = |m: &usize| !self.current.contains(m) && self.masters[*m].ledger.is_some();
        let zombie = (0..self.masters.len()).rev().find(zombie).filter(|_| far_side);
        zombie.unwrap_or(self.current[turn % 2])
    }

    /// An answer, or none in time.
    pub fn on_answer(&mut self, caller: Caller, reply: Option<Box<Answered>>) {
        let h = caller.host;
        let host = &self.hosts[h];
        if host.life != caller.life || host.proc.is_none() {
            return;
        }
        let waits = || host.proc.as_ref().is_some_and(|proc| proc.asked == caller.rpc && proc.call.is_some());
        if caller.task == Task::Leases && !waits() {
            return;
        }
        if host.paused_until > self.t {
            return self.after(host.paused_until - self.t, Event::Answer(caller, reply));
        }
        match caller.task {
            Task::Leases => {}
            Task::Segments(call) => return self.on_segment(caller, call, reply),
            Task::Keep(..) | Task::Raise | Task::Routes => return self.on_sections(caller, reply),
        }
        let Some(flight) = host.proc.as_ref().and_then(|proc| proc.call.clone()) else { return };
        match reply.map(|reply| *reply) {
            Some(Answered::Heartbeat(Ok(reply))) => self.greeted(h, &flight, &reply),
            Some(Answered::Ledger(Reply::Token(Ok(grant)))) => {
                let fine =
                    check_grant(&grant, self.hosts[h].token_type(self.swarm.mixed_tokens), &self.swarm.parameters);
                if let Err(what) = fine {
                    self.oracle.violated(|| format!("agent {h} is granted what cannot be used: {what}"));
                }
                if let Some(session) = self.hosts[h].proc.as_ref().map(|proc| proc.session) {
                    self.oracle.taken(grant.key, grant.g, session);
                }
                self.take_in(h, HolderEvent::Granted(grant));
            }
            Some(Answered::Ledger(Reply::Rent(Ok(rent)))) => {
                let Command::Renew { key, g, .. } = flight.command else { return };
                self.take_in(
                    h,
                    match rent {
                        Rent::Success { until, receipt } => HolderEvent::Renewed { key, g, until, receipt },
                        Rent::Rented | Rent::Unrented => HolderEvent::Ended { key, g },
                    },
                );
            }
            Some(
                Answered::Heartbeat(Err(refusal))
                | Answered::Ledger(Reply::Token(Err(refusal)) | Reply::Rent(Err(refusal))),
            ) => {
                self.call_failed(h, Some(refusal));
            }
            _ => self.call_failed(h, None),
        }
    }

    fn greeted(&mut self, h: usize, flight: &InFlight, reply: &HeartbeatReply) {
        let dice = self.rng.next();
        let known = self.hosts[h].proc.as_ref().and_then(|proc| proc.minter.membership());
        if known.is_some_and(|(cluster, parameters)| cluster != reply.cluster || parameters != reply.parameters) {
            return self.oracle.violated(|| format!("agent {h} meets another cluster"));
        }
        let done = self.with(h, |proc, shell| {
            if known.is_none() {
                proc.minter.join(shell, reply.cluster, reply.parameters)?;
            }
            let round_trip = shell.os.boot - flight.sent.boot;
            let (received, wall, ahead) = (shell.os, reply.wall, reply.ahead);
            proc.minter.hear(shell, &ClockSample { sent: flight.sent, received, round_trip, wall, ahead });
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
    pub(super) fn end_call(&mut self, h: usize, pause: i64) {
        let life = self.hosts[h].life;
        if let Some(proc) = &mut self.hosts[h].proc {
            proc.call = None;
            self.after(pause, Event::Wake(h, life));
        }
    }

    /// No answer, or a refusal: the next master, or later.
    fn call_failed(&mut self, h: usize, refusal: Option<Refusal>) {
        let dice = self.rng.next();
        self.tell(|| format!("agent {h} is refused: {refusal:?}"));
        self.hosts[h].foreign |= matches!(refusal, Some(Refusal::ForeignCluster { .. }));
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
        proc.patient = patient;
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
            if shell.ended.is_some() {
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
}
