//! The hot path: a connection is served here as long as it asks for IDs, or for numbers of a key, and for nothing else.
//!
//! Most connections of an agent send the same request for IDs over and over, one at a time or many at once. For those,
//! what a general HTTP server does for each request (a map of headers, a body, a route, a response and its parts)
//! costs several times what the ID does. So they are answered out of the connection's buffers ([`net::pipeline`]); at
//! a request that is not plain ([`super::head`]) or not for IDs, the connection and what was read of it go over to hyper and the
//! router, which serve it from there on.

use super::accept::Media;
use super::head::{self, Head, Plain};
use super::key::{self, KeyPlan};
use super::mint::{self, NoPlan, Unplanned};
use super::problem::Problem;
use super::render::Style;
use super::sequence::{self, ROUTE_HEADER};
use super::{Agent, HEAD_LEN_MAX, HEAD_TIMEOUT, Site};
use crate::access::{self, Visitor};
use crate::minter::{Minted, Minter};
use crate::plugin::Caller;
use crate::refusal::Refusal;
use crate::run::Runs;
use common::clock::Clock;
use common::encoding::DECIMAL64;
use common::kind::Kind;
use common::sequence::{Route, Slot};
use net::io::ByteStream;
use net::pipeline::{Pipeline, Protocol, Step};
use net::places::Place;
use net::tls::Remote;
use std::io;
use std::ops::Range;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// The interval at which an idle connection is looked at; the second time in a row it ends.
pub(super) const LOOK: Duration = Duration::from_millis(HEAD_TIMEOUT.as_millis() as u64 / 2);

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

/// HTTP/1.1 on a connection that has not asked for anything but IDs yet.
pub(super) struct Front<'a> {
    visitor: Visitor,
    place: &'a Place,
    /// Tells whether its IDs are counted.
    is_metered: bool,
    /// The rights of callers by which it was judged; `None`: not yet.
    generation: Option<u64>,
    /// The `Authorization` header that it showed then.
    shown: Option<Vec<u8>>,
    site: &'a Site,
    /// The last request that was read, and what it asks for: the next one is mostly the same, but for its key.
    usual: Usual,
    plan: Option<Plan>,
    /// The name that the present request asks for, if it is not known here.
    unplanned: Option<Box<Unplanned>>,
    /// Steps that were taken to learn of the present request's name.
    steps: usize,
}

impl Protocol for Front<'_> {
    const REQUEST_LEN_MAX: usize = HEAD_LEN_MAX;
    const LOOK: Duration = LOOK;

    #[inline]
    fn answer(&mut self, input: &[u8], out: &mut Vec<u8>) -> Step {
        let known = match &mut self.plan {
            Some(Plan::Ids(_)) => input.starts_with(&self.usual.bytes).then_some(self.usual.bytes.len()),
            Some(Plan::Key(plan)) => self.usual.with_key(plan, input).filter(|_| plan.still_stands(&self.site.agent)),
            None => None,
        };
        let known = known.filter(|_| self.generation == Some(self.site.agent.access.generation()));
        match known.map_or_else(|| self.understand(input), Ok) {
            Ok(len) => {
                self.steps = 0;
                if self.try_answer(out) { Step::Answered(len) } else { Step::Waits(len) }
            }
            Err(step) => step,
        }
    }

    async fn answer_waiting<IO: ByteStream>(&mut self, len: usize, pipeline: &mut Pipeline<'_, IO>) -> io::Result<()> {
        match self.unplanned.take() {
            // Boxed: the loop is slower with the room that waiting takes.
            Some(unplanned) => Box::pin(self.look_up(&unplanned, len, pipeline)).await,
            None => {
                pipeline.take(len);
                self.answer_planned(pipeline).await
            }
        }
    }
}

impl<'a> Front<'a> {
    pub(super) fn new(remote: Remote, site: &'a Site, place: &'a Place) -> Self {
        let (visitor, usual) = (Visitor::unknown(remote), Usual::default());
        Self {
            visitor,
            place,
            is_metered: false,
            generation: None,
            shown: None,
            site,
            usual,
            plan: None,
            unplanned: None,
            steps: 0,
        }
    }

    /// Finds out what the caller may do, if that may be something else than at its last request.
    fn judge(&mut self, authorization: Option<&[u8]>) -> Result<(), Refusal> {
        let agent = &self.site.agent;
        let generation = Some(agent.access.generation());
        if self.generation == generation && self.shown.as_deref() == authorization {
            return Ok(());
        }
        // What was understood before was somebody else's.
        (self.plan, self.generation) = (None, None);
        let hash = authorization.map(access::hash_in).transpose()?;
        self.visitor = agent.access.visitor(self.visitor.remote(), hash, agent.minter.time().wall())?;
        self.place.is_of(self.visitor.caller_id());
        self.is_metered = self.visitor.is_metered();
        (self.generation, self.shown) = (generation, authorization.map(<[u8]>::to_vec));
        Ok(())
    }

    /// Reads the request at the beginning of `input`. Gives its length, once it has a plan.
    fn understand(&mut self, input: &[u8]) -> Result<usize, Step> {
        let plain = match head::read(input) {
            Head::Partial => return Err(Step::Partial),
            Head::Plain(plain) => plain,
            Head::Other => return Err(Step::HandOn),
        };
        match self.plan_for(&plain) {
            Ok(plan) => {
                self.usual.learn(&plan, &plain, input);
                self.plan = Some(plan);
                Ok(plain.len)
            }
            // The router would ask, too, and keep the connection: whoever is the first to ask for a name asks for it all day.
            Err(NoPlan::Unserved(unplanned)) => {
                self.unplanned = Some(unplanned);
                Err(Step::Waits(plain.len))
            }
            Err(NoPlan::NotForUs) => Err(Step::HandOn),
        }
    }

    /// The plan of a request, if what it asks for can be had here.
    fn plan_for(&mut self, plain: &Plain<'_>) -> Result<Plan, NoPlan> {
        let Plain { uri, host, accept, authorization, .. } = plain;
        self.judge(*authorization)?;
        if !self.site.hosts.accept(host) {
            return Err(NoPlan::NotForUs);
        }
        let agent = &self.site.agent;
        // Keys first: that a request is for none is seen at its first bytes.
        if uri.path().starts_with(key::PATH) {
            KeyPlan::of(agent, uri, *accept, &self.visitor).map(Plan::Key)
        } else {
            mint::Plan::of(agent, uri, *accept, &self.visitor).map(Plan::Ids)
        }
    }

    /// Asks the masters about the name of a request of that length, or answers that it gets nothing.
    async fn look_up<IO: ByteStream>(
        &mut self,
        unplanned: &Unplanned,
        len: usize,
        pipeline: &mut Pipeline<'_, IO>,
    ) -> io::Result<()> {
        let Unplanned { name, kind, n, refusal } = unplanned;
        let agent = &self.site.agent;
        let learned = match &agent.names {
            Some(names) if name.has_further(self.steps) => pipeline.listening(names.step(name)).await?,
            _ => Err(refusal.clone()),
        };
        let Err(refusal) = learned else {
            self.steps += 1;
            return Ok(());
        };
        self.steps = 0;
        pipeline.take(len);
        agent.mint().tell(*kind, name.name().as_str(), *n, self.visitor.caller(), &refusal);
        write_problem(agent, &agent.refused(&refusal), &mut pipeline.out);
        Ok(())
    }

    /// Answers a request for one ID, which most are, if it can be had without waiting.
    #[inline]
    fn try_answer(&self, out: &mut Vec<u8>) -> bool {
        let agent = &self.site.agent;
        if self.is_metered {
            return false;
        }
        let (run, style) = match &self.plan {
            Some(Plan::Ids(mint::Plan { generator, n: 1, style })) => (agent.minter.try_one(generator), style),
            Some(Plan::Key(plan @ KeyPlan { n: 1, .. })) => {
                (agent.try_key(plan).map(|first| plan.run(first)), &plan.style)
            }
            _ => return false,
        };
        let Some(run) = run else { return false };
        style.write_whole(&run, out, |len, out| write_head(style.media, len, agent.minter.time().clock(), out));
        true
    }

    /// Answers one request by the plan at hand.
    async fn answer_planned<IO: ByteStream>(&self, pipeline: &mut Pipeline<'_, IO>) -> io::Result<()> {
        let Self { visitor, site, plan: Some(plan), .. } = self else { return Ok(()) };
        let agent = &*site.agent;
        // Without a place for its answer a request is refused before anything is given; but whoever waits does not hold one.
        let (n, caller) = (plan.n(), visitor.caller());
        let place = || mint::large_room(agent, n, caller);
        if let Err(refusal) = place().and_then(|_place| visitor.take(n, || agent.minter.time().now().boot)) {
            refuse(agent, plan, caller, &refusal, &mut pipeline.out);
            return Ok(());
        }
        let refusal = match plan {
            Plan::Ids(plan) => {
                let minting = agent.minter.give(&plan.generator, plan.n, plan.style.leaves(), caller);
                match pipeline.sending(minting).await?.and_then(|minted| Ok((minted, place()?))) {
                    Ok((Minted { runs, .. }, _place)) => return send(runs, &plan.style, &agent.minter, pipeline).await,
                    Err(refusal) => refusal,
                }
            }
            Plan::Key(key) => match pipeline.listening(agent.key(key)).await? {
                Ok((first, routes)) if routes.is_empty() => match place() {
                    Ok(_place) => return send(key.run(first).into(), &key.style, &agent.minter, pipeline).await,
                    Err(refusal) => refusal,
                },
                Ok((first, routes)) => {
                    write_with_routes(key, first, &routes, agent.minter.time().clock(), &mut pipeline.out);
                    return Ok(());
                }
                Err(problem) => {
                    let (kind, name) = plan.asked_for();
                    agent.tell(kind, name, n, caller, &problem);
                    write_problem(agent, &problem, &mut pipeline.out);
                    return Ok(());
                }
            },
        };
        refuse(agent, plan, caller, &refusal, &mut pipeline.out);
        Ok(())
    }
}

/// Writes an answer, and sends of it what exceeds the buffer.
async fn send<IO: ByteStream>(
    mut runs: Runs,
    style: &Style,
    minter: &Minter,
    pipeline: &mut Pipeline<'_, IO>,
) -> io::Result<()> {
    let len = style.len_of(&runs);
    pipeline.make_room(len);
    write_head(style.media, len, minter.time().clock(), &mut pipeline.out);
    style.start(&mut pipeline.out);
    pipeline
        .write_in_parts(|len, out| {
            style.fill(&mut runs, len, out);
            !runs.is_empty()
        })
        .await?;
    style.end(&mut pipeline.out);
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
        let mut sink = [0; 1 << 10];
        while let Ok(1..) = io.read(&mut sink).await {}
    }
}
