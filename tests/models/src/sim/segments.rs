//! Segments of plain numbers: what an agent's task does to have them (`agent/src/heartbeat/segments.rs` in the product), and what clients get.
//!
//! The task asks one master after the other, again and again; between two rounds it waits longer and longer, up to hours, because it is
//! left out that it asks every other second for as long as no master is there. All answers reach the engine, late and doubled ones too: it
//! takes one for the call that waits for it.

use super::master::Answered;
use super::minter::Minter;
use super::mutation::Mutation;
use super::rng::mix;
use super::world::{Call, Caller, Event, Task, World};
use common::namespace::GeneratorName;
use common::time::HOUR_MS;
use engine::SegmentOutcome;
use ledger::lease::Reply;
use minting::segments::Ask;
use wire::lease::Refusal;
use wire::ranges::{SegmentGrant, SegmentRequest};

/// Between two rounds at first,
const PAUSE_MIN: i64 = 100;
/// and at most.
const PAUSE_MAX: i64 = 2 * HOUR_MS;

/// A segment that is asked for.
#[derive(Clone, Debug)]
pub struct Fetch {
    ask: Ask,
    name: GeneratorName,
    /// The master that is asked, and the number of those that have been in this round.
    turn: usize,
    asked: usize,
    /// The number of those that said that there are no more.
    ended: usize,
    pause: i64,
    /// The call under way.
    rpc: u64,
}

impl World {
    /// A client wants `n` numbers. `false`: there is no process (any more).
    pub(super) fn give_numbers(&mut self, h: usize, at: usize, n: i64, gave: &mut bool) -> bool {
        let Some(proc) = &self.hosts[h].proc else { return false };
        let session = proc.session;
        let mut places = Vec::new();
        let done = self.with(h, |proc, shell| proc.minter.give_numbers(shell, at, n as u32, &mut places));
        // What was given out before something failed is out in the world too.
        for span in places {
            *gave = true;
            self.note(mix(span.from) ^ span.to);
            self.tell(|| format!("agent {h} gives places {} to {}", span.from, span.to));
            self.oracle.numbers_given(span, session);
        }
        if let Some(Ok(())) = done {
            self.hosts[h].served[at] = Some(self.t);
        }
        self.fetch_segments(h);
        done.is_some()
    }

    /// Begins to ask for what the engine wants.
    fn fetch_segments(&mut self, h: usize) {
        let host = &mut self.hosts[h];
        let life = host.life;
        let Some(proc) = &mut host.proc else { return };
        // An agent has one name of this kind, and a name one call under way.
        if let Some((name, ask)) = proc.minter.take_asks().pop() {
            let (turn, call) = (self.rng.below(2), ask.call);
            proc.fetch = Some(Fetch { ask, name, turn, asked: 0, ended: 0, pause: PAUSE_MIN, rpc: 0 });
            self.after(1, Event::Fetch(h, life, call));
        }
    }

    /// Asks the master whose turn it is.
    pub(super) fn ask_for_segment(&mut self, h: usize, life: u32, call: u64) {
        let far_side = self.masters.len() > 2 && h % 2 == 1;
        let host = &self.hosts[h];
        if host.life != life || host.retired {
            return;
        }
        if host.paused_until > self.t {
            return self.after(host.paused_until - self.t, Event::Fetch(h, life, call));
        }
        let Some(proc) = &host.proc else { return };
        let Some(fetch) = proc.fetch.clone().filter(|fetch| fetch.ask.call == call) else { return };
        let target = self.address(fetch.turn, far_side);
        let request = SegmentRequest {
            agent_id: host.id.clone(),
            session: proc.session,
            cluster: proc.minter.membership().map(|(cluster, _)| cluster),
            name: fetch.name.clone(),
            wanted: fetch.ask.wanted,
            seen: fetch.ask.seen,
        };
        let Some(proc) = &mut self.hosts[h].proc else { return };
        proc.rpc += 1;
        let rpc = proc.rpc;
        proc.fetch = Some(Fetch { rpc, ..fetch });
        self.transmit(target, Caller { host: h, life, rpc, task: Task::Segments(call) }, Call::Segment(request));
    }

    /// An answer to one of those calls, or none in time.
    pub(super) fn on_segment(&mut self, caller: Caller, call: u64, reply: Option<Box<Answered>>) {
        let h = caller.host;
        let reply = reply.map(|reply| *reply);
        if let Some(Answered::Ledger(Reply::Segment(Ok(grant)))) = reply {
            return self.take_segment(h, call, grant);
        }
        let refusal = match reply {
            Some(Answered::Ledger(Reply::Segment(Err(refusal)))) => Some(refusal),
            _ => None,
        };
        let jitter = 0.5 + self.rng.unit() / 2.0;
        let Some(proc) = &mut self.hosts[h].proc else { return };
        let Some(fetch) = proc.fetch.as_mut().filter(|fetch| fetch.rpc == caller.rpc) else { return };
        fetch.rpc = 0;
        fetch.asked += 1;
        fetch.turn += 1;
        fetch.ended += usize::from(matches!(refusal, Some(Refusal::AxisEnded { .. })));
        if fetch.asked < 2 {
            return self.after(1, Event::Fetch(h, caller.life, call));
        }
        if fetch.ended == 2 {
            proc.fetch = None;
            return self.answered(h, call, SegmentOutcome::Ended);
        }
        (fetch.asked, fetch.ended) = (0, 0);
        let pause = (fetch.pause as f64 * jitter) as i64;
        fetch.pause = (fetch.pause * 2).min(PAUSE_MAX);
        self.after(pause, Event::Fetch(h, caller.life, call));
    }

    fn take_segment(&mut self, h: usize, call: u64, grant: SegmentGrant) {
        let twice = self.mutations.has(Mutation::AnswerTakenTwice);
        let Some(proc) = &mut self.hosts[h].proc else { return };
        let waiting = proc.fetch.as_ref().map(|fetch| fetch.ask.call);
        // The mutation: whatever comes is taken for the answer that is waited for.
        let call = waiting.filter(|_| twice).unwrap_or(call);
        if waiting == Some(call) {
            proc.fetch = None;
        }
        self.answered(h, call, SegmentOutcome::Granted(grant));
        // Whoever waited for it.
        if waiting == Some(call) && self.rng.chance(0.5) {
            self.mint(h);
        }
    }

    fn answered(&mut self, h: usize, call: u64, answer: SegmentOutcome) {
        let done = self.with(h, |proc, shell| Minter::segment_answered(&mut proc.minter, shell, call, answer));
        if done.is_some() {
            self.fetch_segments(h);
        }
    }
}
