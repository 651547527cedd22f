//! The hot path: a connection is served here as long as it asks for IDs, or for numbers of a key, and for nothing else.
//!
//! Most connections of an agent send the same request for IDs over and over, one at a time or many at once. For those,
//! what a general HTTP server does for each request (a map of headers, a body, a route, a response and its parts)
//! costs several times what the ID does. So the answers to all whole requests that have come are written into one
//! buffer and sent together; at a request that is not plain ([`super::head`]) or not for IDs, the connection
//! and what was read of it go over to hyper and the router, which serve it from there on.
//!
//! Bounds: the input of a connection holds one head of [`HEAD_LEN_MAX`]; the output is sent before it exceeds
//! [`OUT_LEN`], however many requests or IDs are asked for, so that a caller who does not read stops us from reading too,
//! and is dropped by [`WriteTimeout`](common::net::io::WriteTimeout). Nothing is held back while we wait for anything: what is
//! written is sent first.

use super::accept::Media;
use super::head::{self, Head, Plain};
use super::key::{self, KeyPlan};
use super::mint::{self, NoPlan, Unplanned};
use super::problem::Problem;
use super::render::Style;
use super::sequence::{self, ROUTE_HEADER};
use super::{Agent, HEAD_LEN_MAX, HEAD_TIMEOUT, Site};
use crate::minter::{Minted, Minter};
use crate::plugin::{Caller, Holder};
use crate::refusal::Refusal;
use crate::run::Runs;
use bytes::BufMut as _;
use common::clock::Clock;
use common::encoding::DECIMAL64;
use common::kind::Kind;
use common::net::io::{ByteStream, Rewind};
use common::net::places::Place;
use common::net::tls::Remote;
use common::sequence::{Route, Slot};
use std::cell::RefCell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::io::poll_read_buf;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// Bytes of answers that are written before they are sent.
const OUT_LEN: usize = 96 << 10;
/// Bytes of input that are read at once at first; a longer head makes room for itself.
const IN_LEN: usize = 4 << 10;
/// An output buffer that is larger than this is not kept while a connection waits.
const OUT_KEPT: usize = 4 << 10;
/// What an answer may write beyond [`OUT_LEN`]: an ID, or a head.
const OUT_SLACK: usize = 1 << 10;
/// Large buffers that a worker keeps for its connections: fresh from the system, each page of one costs more than the IDs
/// that are written into it.
const SPARES_MAX: usize = 4;
/// After so many buffers of one answer, other connections get their turn.
const BUFFERS_A_TURN: u32 = 2;
/// The interval at which an idle connection is looked at; the second time in a row it ends.
pub(super) const LOOK: Duration = Duration::from_millis(HEAD_TIMEOUT.as_millis() as u64 / 2);

thread_local! {
    static SPARES: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Makes `out` a large buffer with the same contents.
fn enlarge(out: &mut Vec<u8>) {
    let mut large = SPARES.with_borrow_mut(Vec::pop).unwrap_or_else(|| Vec::with_capacity(OUT_LEN + OUT_SLACK));
    large.append(out);
    *out = large;
}

/// Takes a large buffer away from a connection that waits, for the next one that needs it.
fn give_back(out: &mut Vec<u8>) {
    let mut large = std::mem::take(out);
    large.clear();
    SPARES.with_borrow_mut(|spares| {
        if spares.len() < SPARES_MAX && large.capacity() <= OUT_LEN + OUT_SLACK {
            spares.push(large);
        }
    });
}

/// A request, understood: what has to be done for it, however often it comes.
pub(super) enum Plan {
    /// IDs of a kind or name.
    Ids(mint::Plan),
    /// Numbers of a key.
    Key(KeyPlan),
}

impl Plan {
    /// The number of numbers that it asks for.
    fn n(&self) -> u32 {
        match self {
            Self::Ids(plan) => plan.n,
            Self::Key(plan) => plan.n,
        }
    }

    /// The kind and the name.
    fn asked_for(&self) -> (Kind, &str) {
        match self {
            Self::Ids(plan) => plan.asked_for(),
            Self::Key(plan) => (Kind::Sequence, plan.name.name().as_str()),
        }
    }
}

/// A request, byte by byte.
#[derive(Default)]
pub(super) struct Usual {
    bytes: Vec<u8>,
    /// The place of its key, if it has one.
    key: Range<usize>,
}

impl Usual {
    pub(super) fn learn(&mut self, plan: &Plan, plain: &Plain<'_>, input: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(input.get(..plain.len).unwrap_or_default());
        let path = plain.uri.path();
        let target = self.bytes.iter().position(|byte| *byte == b' ').map_or(0, |at| at + 1);
        self.key = match plan {
            Plan::Key(_) => target + path.rfind('/').map_or(path.len(), |at| at + 1)..target + path.len(),
            Plan::Ids(_) => 0..0,
        };
    }

    /// The length of the request at the beginning of `input`, if it differs from this one by its key at most; the plan is for that key then.
    #[inline(never)]
    pub(super) fn with_key(&self, plan: &mut KeyPlan, input: &[u8]) -> Option<usize> {
        let (before, after) = (self.bytes.get(..self.key.start)?, self.bytes.get(self.key.end..)?);
        let rest = input.strip_prefix(before)?;
        // Bytes that mean themselves in a path, and that cannot be its end.
        let is_plain = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
        let (key, rest) = rest.split_at_checked(rest.iter().take_while(is_plain).count())?;
        rest.strip_prefix(after)?;
        plan.slot = Slot::of_bytes(key).ok()?;
        Some(before.len() + key.len() + after.len())
    }
}

/// A connection that has not asked for anything but IDs yet.
pub(super) struct Front<'a, IO> {
    io: IO,
    remote: Remote,
    site: &'a Site,
    place: &'a Place,
    input: Vec<u8>,
    /// Where the first request begins that is not answered yet.
    begin: usize,
    out: Vec<u8>,
    /// The last request that was read, and what it asks for: the next one is mostly the same, but for its key.
    usual: Usual,
    plan: Option<Plan>,
    answered: u64,
}

/// Events that are waited for beside input. They have a waker of their own, so that they are polled only when one of them
/// woke the connection, and not at each request.
struct Ends<'a, 'b> {
    stopped: Pin<&'a mut WaitForCancellationFuture<'b>>,
    has_to_go: Pin<&'a mut WaitForCancellationFuture<'b>>,
    look: Pin<&'a mut Sleep>,
    waker: Arc<EndsWaker>,
}

struct EndsWaker {
    /// Set at first, too: each of them has to be polled once to be heard.
    woken: AtomicBool,
    connection: Waker,
}

impl Wake for EndsWaker {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Release);
        self.connection.wake_by_ref();
    }
}

enum Woken {
    Input,
    /// The other end has closed, or we are to stop, or another connection needs the place.
    End,
    Look,
}

impl<'a, IO: ByteStream> Front<'a, IO> {
    pub(super) fn new(io: IO, remote: Remote, site: &'a Site, place: &'a Place) -> Self {
        Self {
            io,
            remote,
            site,
            place,
            input: Vec::new(),
            begin: 0,
            out: Vec::new(),
            usual: Usual::default(),
            plan: None,
            answered: 0,
        }
    }

    /// Answers until the connection ends, or until it asks for something else; then it is handed on.
    pub(super) async fn serve(mut self, stop: &CancellationToken) -> io::Result<Option<Rewind<IO>>> {
        let stopped = pin!(stop.cancelled());
        let has_to_go = pin!(self.place.has_to_go());
        let look = pin!(sleep(LOOK));
        let connection = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        let waker = Arc::new(EndsWaker { woken: AtomicBool::new(true), connection });
        let mut ends = Ends { stopped, has_to_go, look, waker };
        let (mut answered, mut idle) = (0, false);
        loop {
            if !self.answer_all().await? {
                let rest = self.input.split_off(self.begin);
                self.place.rests();
                return Ok(Some(Rewind::new(rest.into(), self.io)));
            }
            match self.read(&mut ends).await? {
                Woken::Input => {}
                Woken::End => return Ok(None),
                Woken::Look if idle && self.answered == answered => return Ok(None),
                Woken::Look => {
                    (idle, answered) = (self.answered == answered, self.answered);
                    ends.look.as_mut().reset(Instant::now() + LOOK);
                    ends.waker.woken.store(true, Release);
                }
            }
        }
    }

    /// Answers every whole request that is there. `false` if there is one that is not for us.
    async fn answer_all(&mut self) -> io::Result<bool> {
        let (mut asked, before) = (0, self.answered);
        loop {
            let input = self.input.get(self.begin..).unwrap_or_default();
            if input.is_empty() {
                break;
            }
            let known = match &mut self.plan {
                Some(Plan::Ids(_)) => input.starts_with(&self.usual.bytes).then_some(self.usual.bytes.len()),
                Some(Plan::Key(plan)) => {
                    self.usual.with_key(plan, input).filter(|_| plan.still_stands(&self.site.agent))
                }
                None => None,
            };
            let len = if let Some(len) = known {
                len
            } else {
                match head::read(input) {
                    Head::Partial if input.len() < HEAD_LEN_MAX => break,
                    Head::Plain(plain) => match self.plan_for(&plain) {
                        Ok(plan) => {
                            self.usual.learn(&plan, &plain, input);
                            self.plan = Some(plan);
                            asked = 0;
                            plain.len
                        }
                        // The router would ask, too, and keep the connection: whoever is the first to ask for a name asks for it all day.
                        Err(NoPlan::Unserved(unplanned)) => {
                            let len = plain.len;
                            // Boxed: the loop is slower with the room that waiting takes.
                            asked = Box::pin(self.look_up(&unplanned, len, asked)).await?;
                            continue;
                        }
                        Err(_) => return self.flush().await.map(|()| false),
                    },
                    _ => return self.flush().await.map(|()| false),
                }
            };
            self.begin += len;
            self.place.works();
            if !self.try_answer() {
                self.answer().await?;
            }
            self.answered += 1;
            if self.out.len() >= OUT_LEN {
                self.flush().await?;
            }
        }
        self.flush().await?;
        if self.answered > before {
            self.place.rests();
        }
        self.input.drain(..self.begin);
        self.begin = 0;
        if self.out.capacity() > OUT_KEPT {
            give_back(&mut self.out);
        }
        Ok(true)
    }

    /// What a request asks for, if it can be had here.
    fn plan_for(&self, plain: &Plain<'_>) -> Result<Plan, NoPlan> {
        let Plain { uri, host, accept, .. } = plain;
        if !self.site.hosts.accept(host) {
            return Err(NoPlan::NotForUs);
        }
        let agent = &self.site.agent;
        // Keys first: that a request is for none is seen at its first bytes.
        if uri.path().starts_with(key::PATH) {
            KeyPlan::of(agent, uri, *accept, Holder::at(&self.remote)).map(Plan::Key)
        } else {
            mint::Plan::of(agent, uri, *accept).map(Plan::Ids)
        }
    }

    /// Asks the masters about the name of a request of that length after so many steps, or answers that it gets nothing. Gives the steps since
    /// the last answer.
    async fn look_up(&mut self, unplanned: &Unplanned, len: usize, steps: usize) -> io::Result<usize> {
        let Unplanned { name, kind, n, refusal } = unplanned;
        let agent = &self.site.agent;
        self.place.works();
        let learned = match &agent.names {
            Some(names) if name.has_further(steps) => {
                now_or_while_asked(names.step(name), &mut self.io, &mut self.out, &mut self.input, &mut self.begin)
                    .await?
            }
            _ => Err(refusal.clone()),
        };
        let Err(refusal) = learned else { return Ok(steps + 1) };
        self.begin += len;
        agent.mint().tell(*kind, name.name().as_str(), *n, Caller::from(&self.remote), &refusal);
        write_problem(agent, &agent.refused(&refusal), &mut self.out);
        self.answered += 1;
        if self.out.len() >= OUT_LEN {
            self.flush().await?;
        }
        Ok(0)
    }

    /// Answers a request for one ID, which most are, if it can be had without waiting.
    #[inline]
    fn try_answer(&mut self) -> bool {
        let agent = &self.site.agent;
        let (run, style) = match &self.plan {
            Some(Plan::Ids(mint::Plan { generator, n: 1, style })) => (agent.minter.try_one(generator), style),
            Some(Plan::Key(plan @ KeyPlan { n: 1, .. })) => {
                (agent.try_key(plan).map(|first| plan.run(first)), &plan.style)
            }
            _ => return false,
        };
        let Some(run) = run else { return false };
        style.write_whole(&run, &mut self.out, |len, out| {
            write_head(style.media, len, agent.minter.time().clock(), out)
        });
        true
    }

    /// Answers one request by the plan at hand.
    async fn answer(&mut self) -> io::Result<()> {
        let Self { io, remote, site, out, plan: Some(plan), input, begin, .. } = self else { return Ok(()) };
        let agent = &*site.agent;
        // Without a place for its answer a request is refused before anything is given; but whoever waits does not hold one.
        let (n, caller) = (plan.n(), Caller::from(&*remote));
        let place = || mint::large_room(agent, n, caller);
        if let Err(refusal) = place() {
            refuse(agent, plan, caller, &refusal, out);
            return Ok(());
        }
        let refusal = match plan {
            Plan::Ids(plan) => {
                let minting = agent.minter.give(&plan.generator, plan.n, plan.style.leaves(), caller);
                match now_or_after(minting, io, out).await?.and_then(|minted| Ok((minted, place()?))) {
                    Ok((Minted { runs, .. }, _place)) => return send(runs, &plan.style, &agent.minter, io, out).await,
                    Err(refusal) => refusal,
                }
            }
            Plan::Key(key) => match now_or_while_asked(agent.key(key), io, out, input, begin).await? {
                Ok((first, routes)) if routes.is_empty() => match place() {
                    Ok(_place) => return send(key.run(first).into(), &key.style, &agent.minter, io, out).await,
                    Err(refusal) => refusal,
                },
                Ok((first, routes)) => {
                    write_with_routes(key, first, &routes, agent.minter.time().clock(), out);
                    return Ok(());
                }
                Err(problem) => {
                    let (kind, name) = plan.asked_for();
                    agent.tell(kind, name, n, caller, &problem);
                    write_problem(agent, &problem, out);
                    return Ok(());
                }
            },
        };
        refuse(agent, plan, caller, &refusal, out);
        Ok(())
    }

    async fn flush(&mut self) -> io::Result<()> {
        flush(&mut self.io, &mut self.out).await
    }

    /// Waits for input, but not for ever.
    async fn read(&mut self, ends: &mut Ends<'_, '_>) -> io::Result<Woken> {
        let filled = self.input.len();
        // A head that has come in part is longer than usual; it may go up to its bound.
        let room = if filled == 0 { IN_LEN } else { HEAD_LEN_MAX.max(filled + 1) };
        self.input.reserve(room - filled);
        let mut buffer = (&mut self.input).limit(room - filled);
        poll_fn(|cx| match poll_read_buf(Pin::new(&mut self.io), cx, &mut buffer) {
            Poll::Ready(Ok(0)) => Poll::Ready(Ok(Woken::End)),
            Poll::Ready(read) => Poll::Ready(read.map(|_| Woken::Input)),
            Poll::Pending => ends.poll().map(Ok),
        })
        .await
    }
}

impl Ends<'_, '_> {
    fn poll(&mut self) -> Poll<Woken> {
        if !self.waker.woken.load(Relaxed) {
            return Poll::Pending;
        }
        // Before they are polled: what wakes us from here on is seen at the next turn.
        self.waker.woken.swap(false, AcqRel);
        let waker = Waker::from(Arc::clone(&self.waker));
        let cx = &mut Context::from_waker(&waker);
        // All of them, so that each knows this waker.
        if self.stopped.as_mut().poll(cx).is_ready() | self.has_to_go.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Woken::End);
        }
        self.look.as_mut().poll(cx).map(|()| Woken::Look)
    }
}

/// Takes what is there at once. Otherwise sends what is written already, and waits.
async fn now_or_after<T>(
    minting: impl Future<Output = T>,
    io: &mut impl ByteStream,
    out: &mut Vec<u8>,
) -> io::Result<T> {
    let mut minting = pin!(minting);
    match futures::poll!(minting.as_mut()) {
        Poll::Ready(minted) => Ok(minted),
        Poll::Pending => {
            // The IDs come first: they may be partly taken, and whoever waits for the disk waits longest.
            let (minted, flushed) = futures::join!(minting, flush(io, out));
            flushed.map(|()| minted)
        }
    }
}

/// The same of what may wait for seconds: given up if the other end closes meanwhile. What else comes from there is kept, as much as a head
/// may have; what is before `begin` is answered and goes.
async fn now_or_while_asked<T>(
    work: impl Future<Output = T>,
    io: &mut impl ByteStream,
    out: &mut Vec<u8>,
    input: &mut Vec<u8>,
    begin: &mut usize,
) -> io::Result<T> {
    let mut work = pin!(work);
    if let Poll::Ready(done) = futures::poll!(work.as_mut()) {
        return Ok(done);
    }
    input.drain(..std::mem::take(begin));
    {
        let mut flushing = pin!(flush(io, out));
        tokio::select! {
            done = work.as_mut() => return flushing.await.map(|()| done),
            flushed = flushing.as_mut() => flushed?,
        }
    }
    let mut heard = pin!(async {
        loop {
            let room = HEAD_LEN_MAX.saturating_sub(input.len());
            if room == 0 {
                std::future::pending::<()>().await;
            }
            if io.read_buf(&mut (&mut *input).limit(room)).await? == 0 {
                return Err::<Infallible, io::Error>(io::ErrorKind::ConnectionAborted.into());
            }
        }
    });
    tokio::select! {
        done = work => Ok(done),
        Err(gone) = heard.as_mut() => Err(gone),
    }
}

/// Writes an answer, and sends of it what exceeds the buffer.
async fn send(
    mut runs: Runs,
    style: &Style,
    minter: &Minter,
    io: &mut impl ByteStream,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let len = style.len_of(&runs);
    if len > OUT_KEPT && out.capacity() < OUT_LEN {
        enlarge(out);
    }
    write_head(style.media, len, minter.time().clock(), out);
    style.start(out);
    let mut buffers = 0;
    loop {
        style.fill(&mut runs, OUT_LEN, out);
        if runs.is_empty() {
            break;
        }
        flush(io, out).await?;
        buffers += 1;
        if buffers % BUFFERS_A_TURN == 0 {
            tokio::task::yield_now().await;
        }
    }
    style.end(out);
    Ok(())
}

fn write_head(media: Media, len: usize, clock: Clock, out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-type: ");
    out.extend_from_slice(media.content_type().as_bytes());
    end_head(len, clock, out);
}

/// An answer with numbers of a key and the routes that its caller may not know, as the router writes it.
#[cold]
fn write_with_routes(plan: &KeyPlan, first: u64, routes: &[Route], clock: Clock, out: &mut Vec<u8>) {
    let media = plan.style.media;
    let encoding = plan.style.encoding.as_deref().unwrap_or(&DECIMAL64);
    let body = sequence::numbers(encoding, media, first, plan.n, routes);
    out.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-type: ");
    out.extend_from_slice(media.content_type().as_bytes());
    out.extend_from_slice(b"\r\ncache-control: no-store");
    for line in sequence::route_lines(media, routes) {
        out.extend_from_slice(format!("\r\n{ROUTE_HEADER}: ").as_bytes());
        out.extend_from_slice(line.as_bytes());
    }
    end_length(body.len(), clock, out);
    out.extend_from_slice(&body);
}

/// The headers that all answers have, and the end of the head.
fn end_head(len: usize, clock: Clock, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\ncache-control: no-store");
    end_length(len, clock, out);
}

/// The length, and the end of the head.
fn end_length(len: usize, clock: Clock, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\ncontent-length: ");
    out.extend_from_slice(itoa::Buffer::new().format(len).as_bytes());
    out.extend_from_slice(b"\r\ndate: ");
    super::date::write(clock, out);
    out.extend_from_slice(b"\r\n\r\n");
}

/// Tells of a refused request, and writes the answer.
#[cold]
#[inline(never)]
fn refuse(agent: &Agent, plan: &Plan, caller: Caller<'_>, refusal: &Refusal, out: &mut Vec<u8>) {
    let (kind, name) = plan.asked_for();
    agent.mint().tell(Some(kind), name, plan.n(), caller, refusal);
    write_problem(agent, &agent.refused(refusal), out);
}

fn write_problem(agent: &Agent, problem: &Problem, out: &mut Vec<u8>) {
    problem.write_start(out);
    let document = problem.document();
    end_head(document.len(), agent.minter.time().clock(), out);
    out.extend_from_slice(document.as_bytes());
}

async fn flush(io: &mut impl ByteStream, out: &mut Vec<u8>) -> io::Result<()> {
    if !out.is_empty() {
        io.write_all(out).await?;
        // A socket has sent it by now; what encrypts may not have.
        io.flush().await?;
        out.clear();
    }
    Ok(())
}

/// Tells a caller that there are too many, and closes.
pub(super) async fn turn_away(mut io: impl ByteStream, agent: &Agent) {
    let problem = agent.overloaded("there are too many connections; close some, or ask another agent");
    let mut out = Vec::new();
    if let Some(code) = problem.code {
        agent.minter.calls().refuse(code);
    }
    write_problem(agent, &problem, &mut out);
    if io.write_all(&out).await.is_ok() && io.shutdown().await.is_ok() {
        // Closed with a request unread, the kernel would throw our answer away.
        let mut sink = [0; IN_LEN];
        while let Ok(1..) = tokio::io::AsyncReadExt::read(&mut io, &mut sink).await {}
    }
}
