//! The generator for HTTP and RESP: one thread, one epoll, any number of connections.
//!
//! *Closed loop*: each connection sends its requests (one, or several at once: pipelined), waits for all answers and
//! begins again. *Open loop*: requests are due at a fixed rate, whatever the server does; a request that finds every
//! connection busy waits, and its latency counts from the instant at which it was due, so that a server that stalls
//! cannot hide the requests it kept waiting.

use super::check::{Form, Seen};
use super::figures::{Figures, Latencies, processor_time};
use super::speak::{Protocol, Replies, Reply};
use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Events, Interest, Poll, Token};
use rustix::net::{AddressFamily, SocketType, bind, socket};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Bytes that are read at once.
const READ_LEN: usize = 256 << 10;
/// The longest time without any answer before the run is given up.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// The time that one look for events waits in a closed loop.
const LOOK: Duration = Duration::from_millis(100);
const EVENTS: usize = 1_024;

/// The load to make.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The address at which the server listens.
    pub target: SocketAddr,
    /// The Unix socket at which it is asked instead.
    pub unix: Option<PathBuf>,
    /// The address that its connections come from; `None`: the system chooses.
    pub from: Option<Ipv4Addr>,
    /// The protocol that it speaks.
    pub protocol: Protocol,
    /// Requests, which are sent in turn, over all connections.
    pub requests: Vec<Vec<u8>>,
    /// Connections, all open from the beginning.
    pub connections: usize,
    /// Requests sent at once on a connection.
    pub depth: usize,
    /// Open loop: requests a second over all connections. `None`: closed loop.
    pub rate: Option<f64>,
    /// Send each request once, and measure until all are answered.
    pub once: bool,
    /// Time before anything is measured.
    pub warmup: Duration,
    /// Time that is measured.
    pub duration: Duration,
    /// The form of the IDs that are checked; `None`: they are not looked at.
    pub check: Option<Form>,
    /// The server's process, to measure its processor time.
    pub pid: Option<u32>,
    /// True to show a bar while it runs.
    pub progress: bool,
}

/// An answer: when it was due or asked for since the end of the warm-up, and how long it took, in nanoseconds.
pub type Point = (u64, u64);

/// A connection of any kind.
trait Stream: Source + Read + Write {}

impl<S: Source + Read + Write> Stream for S {}

fn connect(plan: &Plan) -> Result<Box<dyn Stream>> {
    if let Some(path) = &plan.unix {
        return Ok(Box::new(
            UnixStream::connect(path).with_context(|| format!("cannot connect to {}", path.display()))?,
        ));
    }
    let stream = connect_from(plan.from, plan.target)
        .with_context(|| format!("cannot connect to {}; is the server running?", plan.target))?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(Box::new(TcpStream::from_std(stream)))
}

fn connect_from(from: Option<Ipv4Addr>, target: SocketAddr) -> io::Result<std::net::TcpStream> {
    let Some(from) = from else { return std::net::TcpStream::connect(target) };
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddrV4::new(from, 0))?;
    rustix::net::connect(&socket, &target)?;
    Ok(socket.into())
}

struct Connection {
    stream: Box<dyn Stream>,
    replies: Replies,
    /// The number of the request that it sends.
    sends: usize,
    /// Bytes of the requests at hand that are written.
    written: usize,
    /// Answers that have not come yet.
    waiting: usize,
    /// The instant at which the requests at hand were sent, or due.
    began: u64,
}

struct Run {
    plan: Plan,
    /// Bytes that a connection sends at once, in turn.
    requests: Vec<Vec<u8>>,
    next: usize,
    /// Every good answer, if it is to be kept.
    points: Option<Vec<Point>>,
    /// The end of the warm-up, in nanoseconds since the start.
    warm: u64,
    connections: Vec<Connection>,
    idle: VecDeque<usize>,
    start: Instant,
    good: Latencies,
    refused: Latencies,
    answers: u64,
    refusals: u64,
    bytes: u64,
    seen: Seen,
    /// Requests of the open loop that were sent.
    issued: u64,
    /// Times that something was sent on a connection.
    sends: usize,
}

/// Runs the plan.
///
/// # Errors
/// If the server does not answer, or not as the protocol has it.
pub fn run(plan: Plan) -> Result<Figures> {
    Ok(go(plan, None)?.0)
}

/// Runs the plan and keeps each good answer: some millions of them are much memory.
///
/// # Errors
/// As [`run`].
pub fn run_point_by_point(plan: Plan) -> Result<(Figures, Vec<Point>)> {
    go(plan, Some(Vec::new()))
}

/// Bytes that are sent at once: `depth` of the requests each, until every request was sent.
fn sent_at_once(requests: &[Vec<u8>], depth: usize) -> Vec<Vec<u8>> {
    let mut endless = requests.iter().cycle();
    let groups = requests.len().div_ceil(depth.max(1));
    (0..groups).map(|_| endless.by_ref().take(depth).flatten().copied().collect()).collect()
}

fn go(plan: Plan, points: Option<Vec<Point>>) -> Result<(Figures, Vec<Point>)> {
    let mut poll = Poll::new()?;
    let mut connections = Vec::with_capacity(plan.connections);
    for nth in 0..plan.connections {
        let mut stream = connect(&plan)?;
        poll.registry().register(&mut *stream, Token(nth), Interest::READABLE | Interest::WRITABLE)?;
        let replies = Replies::new(plan.protocol, plan.check);
        connections.push(Connection { stream, replies, sends: 0, written: 0, waiting: 0, began: 0 });
    }
    let mut run = Run {
        requests: sent_at_once(&plan.requests, plan.depth),
        next: 0,
        points,
        warm: 0,
        idle: (0..plan.connections).collect(),
        connections,
        start: Instant::now(),
        good: Latencies::new()?,
        refused: Latencies::new()?,
        answers: 0,
        refusals: 0,
        bytes: 0,
        seen: Seen::default(),
        issued: 0,
        sends: 0,
        plan,
    };
    let figures = run.go(&mut poll)?;
    Ok((figures, run.points.unwrap_or_default()))
}

impl Run {
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn go(&mut self, poll: &mut Poll) -> Result<Figures> {
        let mut events = Events::with_capacity(EVENTS);
        let mut buffer = vec![0; READ_LEN];
        let bar = self.bar();
        let mut measured: Option<(Instant, Option<Duration>)> = None;
        let (mut last_answer, mut answers_before) = (Instant::now(), 0);
        loop {
            let elapsed = self.start.elapsed();
            match measured {
                None if elapsed >= self.plan.warmup => {
                    self.forget();
                    answers_before = 0;
                    measured = Some((Instant::now(), self.plan.pid.and_then(processor_time)));
                }
                Some((since, processor)) if self.is_over(since) => {
                    bar.finish_and_clear();
                    return Ok(self.figures(since.elapsed(), processor));
                }
                _ => {}
            }
            if self.answers + self.refusals > answers_before {
                (last_answer, answers_before) = (Instant::now(), self.answers + self.refusals);
                bar.set_position(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
            } else if last_answer.elapsed() > SILENCE_MAX {
                bail!("no answer for {SILENCE_MAX:?}");
            }
            self.issue()?;
            // An open loop has to be on time, so it does not sleep.
            let timeout = if self.plan.rate.is_some() { Duration::ZERO } else { LOOK };
            match poll.poll(&mut events, Some(timeout)) {
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            for event in &events {
                let Token(nth) = event.token();
                if event.is_writable() {
                    self.write(nth)?;
                }
                if event.is_readable() {
                    self.read(nth, &mut buffer)?;
                }
            }
        }
    }

    fn is_over(&self, since: Instant) -> bool {
        match self.plan.once {
            true => self.all_sent() && self.idle.len() == self.connections.len(),
            false => since.elapsed() >= self.plan.duration,
        }
    }

    fn all_sent(&self) -> bool {
        self.plan.once && self.sends >= self.requests.len()
    }

    fn bar(&self) -> ProgressBar {
        if !self.plan.progress || self.plan.once {
            return ProgressBar::hidden();
        }
        let total = self.plan.warmup + self.plan.duration;
        let bar = ProgressBar::new(u64::try_from(total.as_millis()).unwrap_or(u64::MAX));
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {percent}% {msg}") {
            bar.set_style(style);
        }
        bar
    }

    /// The end of the warm-up. What was noted of IDs stays: they must not come twice either.
    fn forget(&mut self) {
        self.good.clear();
        self.refused.clear();
        (self.answers, self.refusals, self.bytes) = (0, 0, 0);
        self.warm = self.now();
    }

    /// Sends on idle connections what is to be sent now.
    fn issue(&mut self) -> Result<()> {
        while !self.idle.is_empty() && !self.all_sent() {
            let now = self.now();
            let began = match self.plan.rate {
                None => now,
                Some(rate) => {
                    let due = (self.issued as f64 / rate * 1e9) as u64;
                    if due > now {
                        break;
                    }
                    self.issued += self.plan.depth as u64;
                    due
                }
            };
            let Some(nth) = self.idle.pop_front() else { break };
            if let Some(connection) = self.connections.get_mut(nth) {
                (connection.began, connection.written, connection.waiting) = (began, 0, self.plan.depth);
                connection.sends = self.next;
                self.next = (self.next + 1) % self.requests.len().max(1);
                self.sends += 1;
            }
            self.write(nth)?;
        }
        Ok(())
    }

    fn write(&mut self, nth: usize) -> Result<()> {
        let Some(connection) = self.connections.get_mut(nth) else { return Ok(()) };
        while connection.waiting > 0
            && let Some(requests) = self.requests.get(connection.sends)
            && let Some(rest) = requests.get(connection.written..).filter(|rest| !rest.is_empty())
        {
            match connection.stream.write(rest) {
                Ok(written) => connection.written += written,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e).context("the server closed a connection"),
            }
        }
        Ok(())
    }

    fn read(&mut self, nth: usize, buffer: &mut [u8]) -> Result<()> {
        loop {
            let Some(connection) = self.connections.get_mut(nth) else { return Ok(()) };
            let len = match connection.stream.read(buffer) {
                Ok(0) => bail!("the server closed a connection"),
                Ok(len) => len,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(e).context("the server closed a connection"),
            };
            let now = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let latency = now.saturating_sub(connection.began);
            let (good, refused, points) = (&mut self.good, &mut self.refused, &mut self.points);
            let since = connection.began.checked_sub(self.warm).filter(|_| self.warm > 0);
            let (answers, refusals, waiting) = (&mut self.answers, &mut self.refusals, &mut connection.waiting);
            let mut extra = false;
            let fed = connection.replies.feed(buffer.get(..len).unwrap_or_default(), &mut self.seen, |reply| {
                match reply {
                    Reply::Good => {
                        good.note(latency);
                        if let (Some(points), Some(since)) = (points.as_mut(), since) {
                            points.push((since, latency));
                        }
                        *answers += 1;
                    }
                    Reply::Refused(_) => {
                        refused.note(latency);
                        *refusals += 1;
                    }
                }
                match waiting.checked_sub(1) {
                    Some(left) => *waiting = left,
                    None => extra = true,
                }
            });
            fed.map_err(anyhow::Error::msg)?;
            if extra {
                bail!("the server sent more answers than there were requests");
            }
            self.bytes += len as u64;
            if connection.waiting == 0 {
                self.idle.push_back(nth);
                self.issue()?;
            }
            // A short read has emptied the socket; the next bytes come with an event of their own.
            if len < buffer.len() {
                return Ok(());
            }
        }
    }

    fn figures(&mut self, elapsed: Duration, processor: Option<Duration>) -> Figures {
        let seconds = elapsed.as_secs_f64();
        let used = self.plan.pid.and_then(processor_time).zip(processor).map(|(end, start)| end.saturating_sub(start));
        let due = self.plan.rate.map_or(0, |rate| (self.now() as f64 / 1e9 * rate) as u64);
        let seen = std::mem::take(&mut self.seen);
        Figures {
            seconds,
            requests: self.answers,
            per_second: self.answers as f64 / seconds,
            bytes_per_second: self.bytes as f64 / seconds,
            latency: self.good.spread(),
            refused: self.refusals,
            refused_latency: self.refused.spread(),
            unsent: due.saturating_sub(self.issued),
            checked: seen.count(),
            duplicates: seen.duplicates(),
            server_us: used.map(|used| used.as_secs_f64() * 1e6 / (self.answers.max(1) as f64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_sent_in_its_turn() {
        let requests = [b"a".to_vec(), b"b".to_vec(), b"c".to_vec()];
        assert_eq!(sent_at_once(&requests, 1), [b"a", b"b", b"c"]);
        assert_eq!(sent_at_once(&requests, 2), [b"ab", b"ca"]);
        assert_eq!(sent_at_once(&requests, 7), [b"abcabca"]);
        assert_eq!(sent_at_once(&requests[..1], 3), [b"aaa"]);
    }
}
