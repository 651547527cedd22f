//! The server's end of a connection: frames in, answers out, and every byte that is kept accounted for.
//!
//! tarpc bounds how many requests are under way, not what they weigh: it keeps finished answers in a queue, and their handlers
//! in a second one, for as long as the other end reads nothing. Therefore
//!
//! - a frame's buffer grows with what has come of it, and beyond the first `READ_LEN` bytes only with the [`Budget`]; it
//!   must be whole within [`FRAME_TIMEOUT`];
//! - as long as `UNSENT_MAX` bytes wait to be sent no further request is taken from the connection;
//! - a call with a large answer takes its part of the budget before it is served, and a turn among those of its connection;
//!   the [`BudgetedReply`] carries both until its last byte is with the kernel (or in the 16 KiB that TLS may keep), or until it is dropped wherever tarpc has it;
//! - a call that breaks a rule of what it holds is answered here, without tarpc;
//! - an answer that the other end does not read ends the connection after [`WRITE_TIMEOUT`].

use super::ended::Ended;
use super::transport::{DEADLINE_MAX, FRAME_LEN_MAX, Received, codec, receive};
use crate::budget::{Budget, CallerCharge, Charge};
use crate::io::ByteStream;
use crate::pipeline::work_of;
use crate::places::Place;
use crate::turns::Wait;
use bincode::Options as _;
use bytes::{Buf as _, BufMut as _, BytesMut};
use futures::{Sink, Stream};
use serde::{Serialize, de::DeserializeOwned};
use std::collections::VecDeque;
use std::future::Future as _;
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tarpc::server::Serve;
use tarpc::{ClientMessage, Request, RequestName, Response, ServerError};
use tokio::sync::Semaphore;
use tokio::time::Sleep;
use tokio_util::sync::PollSemaphore;
pub use wire::CALL_LEN_MAX;

/// The longest time from the beginning of a frame to its end.
pub const FRAME_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time that an answer may wait for the other end to read on.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes that the other end has to read within [`WRITE_TIMEOUT`], if it does not read all.
const WRITE_STEP: usize = 64 << 10;
/// Bytes that a connection's buffer has without the budget.
const READ_LEN: usize = 8 << 10;
/// The longest frame of which the request is not counted, in bytes.
const FREE_REQUEST_LEN: usize = 512;
/// Bytes beyond which an answer takes its part of the budget first, if it may become longer.
const FREE_ANSWER_LEN: usize = 4 << 10;
/// Bytes beyond which an answer waits for its turn on its connection, if it may become longer.
const LARGE_ANSWER_LEN: usize = 64 << 10;
/// Large calls of one connection that are answered at the same time.
const LARGE_PER_CONNECTION: usize = 4;
/// Bytes waiting to be sent with which nothing further is taken from the connection.
const UNSENT_MAX: usize = 8 << 10;
/// Room for answers that a connection keeps when all is sent, in bytes.
const WRITE_LEN_KEPT: usize = 64 << 10;
/// The work that a call is beside its answer's bytes, in the small requests that [`crate::pipeline`] answers.
const CALL_WORK: u32 = 4;
/// Bytes of a frame that say its length.
const HEAD_LEN: usize = 4;

/// The bounds of what the connections of one listener may have under way.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Requests of one connection; one more is answered with an error.
    pub requests_max: usize,
    /// The longest frame, in bytes.
    pub frame_len_max: usize,
    /// The budget that all of them share.
    pub budget: Budget,
}

/// A request with its part of the budget, until it is answered.
#[derive(Debug)]
pub struct Charged<Req> {
    request: Req,
    charge: Option<Charge>,
}

impl<Req: RequestName> RequestName for Charged<Req> {
    fn name(&self) -> &str {
        self.request.name()
    }
}

/// An answer with what it keeps until it is sent.
#[derive(Debug)]
pub struct BudgetedReply<Resp> {
    body: Resp,
    kept: Option<Kept>,
}

/// A part of the budget, and a turn among the large calls of a connection.
#[derive(Debug)]
struct Kept {
    _turn: Option<Charge>,
    _bytes: Option<CallerCharge>,
}

/// A service whose answers are accounted for.
#[derive(Debug)]
pub struct Accounted<S, W> {
    service: S,
    account: Arc<Account<W>>,
}

#[derive(Debug)]
struct Account<W> {
    weigh: W,
    budget: Budget,
    place: Place,
    turns: Arc<Semaphore>,
}

/// Each call has one.
impl<S: Clone, W> Clone for Accounted<S, W> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), account: Arc::clone(&self.account) }
    }
}

impl<S: Serve, W: Fn(&S::Req) -> usize> Accounted<S, W> {
    /// `weigh` says how many bytes the answer to a request may take at most, in memory and as a frame. The place is the connection's.
    pub fn new(service: S, weigh: W, budget: Budget, place: Place) -> Self {
        let turns = Arc::new(Semaphore::new(LARGE_PER_CONNECTION));
        Self { service, account: Arc::new(Account { weigh, budget, place, turns }) }
    }
}

impl<W> Account<W> {
    async fn keep(&self, bytes: usize) -> Kept {
        // Its turn first: who waits for one holds nothing that others wait for.
        let turn = if bytes > LARGE_ANSWER_LEN { Arc::clone(&self.turns).acquire_owned().await.ok() } else { None };
        Kept { _turn: turn, _bytes: self.budget.of(self.place.caller()).take(bytes).await }
    }
}

impl<S: Serve, W: Fn(&S::Req) -> usize> Serve for Accounted<S, W> {
    type Req = Charged<S::Req>;
    type Resp = BudgetedReply<S::Resp>;

    async fn serve(self, context: tarpc::context::Context, asked: Self::Req) -> Result<Self::Resp, ServerError> {
        let Charged { request, charge } = asked;
        let bytes = (self.account.weigh)(&request);
        // Boxed, because few calls need it and tarpc moves the future of each several times on its way.
        let kept = if bytes > FREE_ANSWER_LEN { Some(Box::pin(self.account.keep(bytes)).await) } else { None };
        if bytes > LARGE_ANSWER_LEN {
            // Others get their turn between two such calls of one connection, which would be made one after the other.
            tokio::task::yield_now().await;
        }
        let body = self.service.serve(context, request).await?;
        drop(charge);
        Ok(BudgetedReply { body, kept })
    }
}

/// A time limit that runs while something is waited for.
#[derive(Default)]
struct Patience(Option<Pin<Box<Sleep>>>);

impl Patience {
    fn stop(&mut self) {
        self.0 = None;
    }

    /// Tells whether it is over. It begins to run with the first question.
    fn is_over(&mut self, cx: &mut Context<'_>, length: Duration) -> bool {
        self.0.get_or_insert_with(|| Box::pin(tokio::time::sleep(length))).as_mut().poll(cx).is_ready()
    }
}

/// See the module.
pub struct Connection<IO, Req, Resp> {
    io: IO,
    place: Place,
    /// Its turns among those of other callers: it has one before the first byte, which a handshake may be needed for, and before each call.
    turns: Wait,
    is_new: bool,
    frame_len_max: usize,
    budget: Budget,
    /// The place where it waits for more of it.
    room: PollSemaphore,
    /// Bytes that were read and not yet taken; a frame at most, but for a few small ones.
    read: BytesMut,
    /// The part of the budget that it has.
    reading: Option<Charge>,
    late: Patience,
    /// Nothing more comes.
    ended: bool,
    /// Nothing further is taken until more is sent.
    paused: bool,
    /// Bytes that wait to be sent.
    write: BytesMut,
    unread: Patience,
    /// Bytes queued and sent since the connection began, and sent since patience began anew.
    queued: u64,
    sent: u64,
    step: usize,
    /// The parts of the budget that answers keep, each until so many bytes are sent.
    kept: VecDeque<(u64, Kept)>,
    of: PhantomData<fn(Resp) -> Req>,
}

/// The contents of a frame, with its part of the budget.
type Frame<Req> = (Received<Req>, Option<Charge>);

fn ended(why: Ended, text: &'static str) -> io::Error {
    why.note();
    let kind = if why == Ended::FrameTooLong { io::ErrorKind::InvalidData } else { io::ErrorKind::TimedOut };
    io::Error::new(kind, text)
}

impl<IO: ByteStream, Req: DeserializeOwned, Resp> Connection<IO, Req, Resp> {
    /// Nothing was read of it yet.
    pub fn new(io: IO, bounds: &Bounds, place: Place) -> Self {
        Self {
            io,
            turns: place.turns(),
            is_new: true,
            place,
            frame_len_max: bounds.frame_len_max.min(FRAME_LEN_MAX),
            budget: bounds.budget.clone(),
            room: PollSemaphore::new(bounds.budget.semaphore()),
            read: BytesMut::new(),
            reading: None,
            late: Patience::default(),
            ended: false,
            paused: false,
            write: BytesMut::new(),
            unread: Patience::default(),
            queued: 0,
            sent: 0,
            step: 0,
            kept: VecDeque::new(),
            of: PhantomData,
        }
    }

    /// The length of the frame that has begun, its head included, as far as that is known.
    fn frame_len(&self) -> io::Result<Option<usize>> {
        let Some(head) = self.read.first_chunk::<HEAD_LEN>() else { return Ok(None) };
        let len = usize::try_from(u32::from_be_bytes(*head)).unwrap_or(usize::MAX);
        if len > self.frame_len_max {
            return Err(ended(Ended::FrameTooLong, "a frame is longer than this port takes"));
        }
        Ok(Some(HEAD_LEN + len))
    }

    /// Holds so much of the budget for what was read.
    fn poll_charge(&mut self, cx: &mut Context<'_>, bytes: usize) -> Poll<()> {
        let held = self.reading.as_ref().map_or(0, Charge::num_permits);
        let more = self.budget.within(bytes.saturating_sub(held));
        if more > 0
            && let Some(charge) = ready!(self.room.poll_acquire_many(cx, more))
        {
            match &mut self.reading {
                Some(held) => held.merge(charge),
                None => self.reading = Some(charge),
            }
        }
        Poll::Ready(())
    }

    /// The next frame, if it is whole.
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Frame<Req>>>> {
        let Some(len) = self.frame_len()? else { return Poll::Ready(Ok(None)) };
        if self.read.len() < len {
            return Poll::Ready(Ok(None));
        }
        if len > FREE_REQUEST_LEN {
            ready!(self.poll_charge(cx, len));
        }
        let charge = self.reading.take();
        self.place.owes(CALL_WORK.saturating_add(work_of(len)));
        let received = receive(self.read.get(HEAD_LEN..len).unwrap_or_default())?;
        let grown = self.read.capacity() > 2 * READ_LEN;
        self.read.advance(len);
        if self.read.is_empty() && grown {
            // A buffer that grew for one frame is not kept for the next.
            self.read = BytesMut::new();
        }
        self.late.stop();
        Poll::Ready(Ok(Some((received, charge))))
    }

    /// Room for more of the frame that has begun.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (len, capacity) = (self.read.len(), self.read.capacity());
        if capacity > len {
            return Poll::Ready(Ok(()));
        }
        let whole = self.frame_len()?.unwrap_or(HEAD_LEN);
        if whole <= READ_LEN && len < READ_LEN {
            self.read.reserve(READ_LEN - len);
            return Poll::Ready(Ok(()));
        }
        let larger = whole.min(2 * capacity.max(READ_LEN));
        ready!(self.poll_charge(cx, larger));
        let mut grown = BytesMut::with_capacity(larger);
        grown.extend_from_slice(&self.read);
        self.read = grown;
        Poll::Ready(Ok(()))
    }

    /// Waits for the rest of a frame, or for the budget, for a while.
    fn wait<T>(&mut self, cx: &mut Context<'_>, why: Ended) -> Poll<io::Result<T>> {
        if self.late.is_over(cx, FRAME_TIMEOUT) {
            return Poll::Ready(Err(ended(why, "a frame that began was not whole in time")));
        }
        Poll::Pending
    }

    fn poll_next_message(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<ClientMessage<Charged<Req>>>>> {
        loop {
            if self.write.len() >= UNSENT_MAX {
                // It is not the other end that lets the frame wait now.
                self.late.stop();
                self.paused = true;
                return Poll::Pending;
            }
            if self.is_new || !self.read.is_empty() {
                if self.place.poll_turn(&mut self.turns, cx, 1).is_pending() {
                    self.late.stop();
                    return Poll::Pending;
                }
                self.is_new = false;
            }
            match self.poll_frame(cx)? {
                Poll::Ready(Some((Received::Message(message), charge))) => {
                    return Poll::Ready(accounted(message, charge).map(Some));
                }
                Poll::Ready(Some((Received::Unreadable { id, why }, _))) => {
                    let detail = format!("this call cannot be read, and nothing was done: {why}");
                    let message = Err(ServerError::new(io::ErrorKind::InvalidInput, detail));
                    // tarpc knows nothing of it, and flushes after each look for requests.
                    self.queue(&Response::<()> { request_id: id, message })?;
                    continue;
                }
                Poll::Ready(None) => {}
                Poll::Pending => return self.wait(cx, Ended::NoRoom),
            }
            if self.ended {
                let whole = self.read.is_empty();
                return Poll::Ready(if whole { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) });
            }
            if self.poll_room(cx)?.is_pending() {
                return self.wait(cx, Ended::NoRoom);
            }
            match tokio_util::io::poll_read_buf(Pin::new(&mut self.io), cx, &mut self.read)? {
                Poll::Ready(0) => self.ended = true,
                Poll::Ready(_) => {}
                Poll::Pending if self.read.is_empty() => return Poll::Pending,
                Poll::Pending => return self.wait(cx, Ended::FrameLate),
            }
        }
    }
}

impl<IO: ByteStream, Req, Resp> Connection<IO, Req, Resp> {
    /// Sends what waits, until less than `enough` does.
    fn poll_send(&mut self, cx: &mut Context<'_>, enough: usize) -> Poll<io::Result<()>> {
        while self.write.len() >= enough.max(1) {
            match Pin::new(&mut self.io).poll_write(cx, &self.write)? {
                Poll::Ready(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(len) => self.has_sent(len, cx),
                Poll::Pending if self.unread.is_over(cx, WRITE_TIMEOUT) => {
                    return Poll::Ready(Err(ended(Ended::Unread, "answers were not read in time")));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn queue<T: Serialize>(&mut self, response: &Response<T>) -> io::Result<()> {
        let len = codec().serialized_size(response).map_err(io::Error::other)?;
        let (len, head) = (usize::try_from(len).unwrap_or(usize::MAX), u32::try_from(len).unwrap_or(u32::MAX));
        self.write.reserve(HEAD_LEN.saturating_add(len));
        self.write.put_u32(head);
        let unbounded = bincode::DefaultOptions::new();
        unbounded.serialize_into((&mut self.write).writer(), response).map_err(io::Error::other)?;
        self.queued += (HEAD_LEN + len) as u64;
        self.place.owes(work_of(len));
        Ok(())
    }

    fn has_sent(&mut self, len: usize, cx: &Context<'_>) {
        self.write.advance(len);
        self.sent += len as u64;
        self.step += len;
        if self.step >= WRITE_STEP || self.write.is_empty() {
            self.step = 0;
            self.unread.stop();
        }
        while self.kept.front().is_some_and(|(until, _)| *until <= self.sent) {
            self.kept.pop_front();
        }
        if self.write.is_empty() && self.write.capacity() > WRITE_LEN_KEPT {
            self.write = BytesMut::new();
        }
        if self.paused && self.write.len() < UNSENT_MAX {
            // tarpc reads before it writes, and would not come back by itself.
            self.paused = false;
            cx.waker().wake_by_ref();
        }
    }
}

fn accounted<Req>(message: ClientMessage<Req>, charge: Option<Charge>) -> io::Result<ClientMessage<Charged<Req>>> {
    Ok(match message {
        ClientMessage::Request(Request { mut context, id, message }) => {
            context.deadline = context.deadline.min(Instant::now() + DEADLINE_MAX);
            ClientMessage::Request(Request { context, id, message: Charged { request: message, charge } })
        }
        ClientMessage::Cancel { trace_context, request_id } => ClientMessage::Cancel { trace_context, request_id },
        _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "a message of an unknown kind")),
    })
}

impl<IO: ByteStream, Req: DeserializeOwned, Resp> Stream for Connection<IO, Req, Resp> {
    type Item = io::Result<ClientMessage<Charged<Req>>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_next_message(cx).map(Result::transpose)
    }
}

impl<IO: ByteStream, Req, Resp: Serialize> Sink<Response<BudgetedReply<Resp>>> for Connection<IO, Req, Resp> {
    type Error = io::Error;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = this.poll_send(cx, UNSENT_MAX);
        this.paused |= polled.is_pending();
        polled
    }

    fn start_send(self: Pin<&mut Self>, response: Response<BudgetedReply<Resp>>) -> io::Result<()> {
        let this = self.get_mut();
        let Response { request_id, message } = response;
        let (message, kept) = match message {
            Ok(BudgetedReply { body, kept }) => (Ok(body), kept),
            Err(error) => (Err(error), None),
        };
        let response = Response { request_id, message };
        this.queue(&response)?;
        this.kept.extend(kept.map(|kept| (this.queued, kept)));
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx, 1))?;
        Pin::new(&mut this.io).poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx, 1))?;
        Pin::new(&mut this.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
