//! A connection whose requests are answered in order out of its buffers, many at once: the loop of reading, answering and sending, for
//! any [`Protocol`].
//!
//! The answers to all whole requests that have come are written into one buffer and sent together. At a request that the protocol does
//! not answer itself, the connection and what was read of it are handed on.
//!
//! Bounds: the input of a connection holds one request of [`Protocol::REQUEST_LEN_MAX`]; the output is sent before it exceeds
//! `OUT_LEN`, however many requests are there and however much they ask for, so that a caller who does not read stops us from
//! reading too, and is dropped by [`WriteTimeout`](super::io::WriteTimeout). Nothing is held back while we wait for anything: what is
//! written is sent first.

use super::io::{ByteStream, Rewind};
use super::places::Place;
use bytes::BufMut as _;
use std::cell::RefCell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
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

/// Bytes of answers that are written before they are sent: half of ten thousand numbers in JSON, which so go in two.
const OUT_LEN: usize = 114 << 10;
/// Bytes of input that are read at once at first; a longer request makes room for itself.
const IN_LEN: usize = 4 << 10;
/// An output buffer that is larger than this is not kept while a connection waits.
const OUT_KEPT: usize = 4 << 10;
/// Bytes that a small answer may write beyond [`OUT_LEN`].
const OUT_SLACK: usize = 1 << 10;
/// Large buffers that a worker keeps for its connections: fresh from the system, each page of one costs more than the IDs
/// that are written into it.
const SPARES_MAX: usize = 16;
/// After so many buffers of one answer, other connections get their turn.
const BUFFERS_A_TURN: u32 = 2;

/// Bytes of an answer that are as much work as a small request.
const BYTES_A_REQUEST: u32 = 1 << 10;

/// The work that so many bytes of an answer are, in small requests.
pub(crate) fn work_of(bytes: impl TryInto<u32>) -> u32 {
    bytes.try_into().unwrap_or(u32::MAX) / BYTES_A_REQUEST
}

thread_local! {
    static SPARES: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A protocol whose requests are answered in the order in which they come.
pub trait Protocol {
    /// The longest request, in bytes.
    const REQUEST_LEN_MAX: usize;
    /// The interval at which an idle connection is looked at; the second time in a row it ends.
    const LOOK: Duration;

    /// Answers the request at the beginning of `input` into `out`, if that needs no waiting.
    fn answer(&mut self, input: &[u8], out: &mut Vec<u8>) -> Step;

    /// Answers the request for which [`answer`](Self::answer) said [`Step::Waits`], and [takes](Pipeline::take) it; or leaves it to be
    /// asked for once more, because now it may be answered.
    ///
    /// # Errors
    /// If the connection has ended.
    fn answer_waiting<IO: ByteStream>(
        &mut self,
        len: usize,
        pipeline: &mut Pipeline<'_, IO>,
    ) -> impl Future<Output = io::Result<()>> + Send;
}

/// The outcome for the request at the beginning of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The request had so many bytes and is answered.
    Answered(usize),
    /// The request has so many bytes and waits for something.
    Waits(usize),
    /// The request is there in part.
    Partial,
    /// The protocol does not answer it.
    HandOn,
}

/// A connection with its buffers.
pub struct Pipeline<'a, IO> {
    io: IO,
    place: &'a Place,
    input: Vec<u8>,
    /// The offset of the first request that is not answered yet.
    begin: usize,
    /// Answers that are not sent yet.
    pub out: Vec<u8>,
    answered: u64,
    /// Requests that are not counted as work yet.
    work: u32,
    input_max: usize,
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

impl<'a, IO: ByteStream> Pipeline<'a, IO> {
    /// A connection of which nothing was read.
    pub fn new(io: IO, place: &'a Place) -> Self {
        Self { io, place, input: Vec::new(), begin: 0, out: Vec::new(), answered: 0, work: 0, input_max: 0 }
    }

    /// Answers until the connection ends, or until it asks for something else; then it is handed on.
    ///
    /// # Errors
    /// If it cannot be read from or written to.
    pub async fn serve<P: Protocol>(
        mut self,
        mut protocol: P,
        stop: &CancellationToken,
    ) -> io::Result<Option<Rewind<IO>>> {
        self.input_max = P::REQUEST_LEN_MAX;
        let stopped = pin!(stop.cancelled());
        let has_to_go = pin!(self.place.has_to_go());
        let look = pin!(sleep(P::LOOK));
        let connection = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        let waker = Arc::new(EndsWaker { woken: AtomicBool::new(true), connection });
        let mut ends = Ends { stopped, has_to_go, look, waker };
        let (mut answered, mut idle) = (0, false);
        loop {
            if !self.place.turn(1).await {
                return Ok(None);
            }
            if !self.answer_all(&mut protocol).await? {
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
                    ends.look.as_mut().reset(Instant::now() + P::LOOK);
                    ends.waker.woken.store(true, Release);
                }
            }
        }
    }

    /// Answers every whole request that is there. `false` if there is one that is not for us.
    async fn answer_all<P: Protocol>(&mut self, protocol: &mut P) -> io::Result<bool> {
        let before = self.answered;
        loop {
            let input = self.input.get(self.begin..).unwrap_or_default();
            if input.is_empty() {
                break;
            }
            match protocol.answer(input, &mut self.out) {
                Step::Answered(len) => {
                    self.place.works();
                    self.take(len);
                }
                Step::Waits(len) => {
                    self.place.works();
                    protocol.answer_waiting(len, self).await?;
                }
                Step::Partial if input.len() < P::REQUEST_LEN_MAX => break,
                Step::Partial | Step::HandOn => return self.flush().await.map(|()| false),
            }
            if self.out.len() >= OUT_LEN {
                self.flush().await?;
                turn(self.place).await?;
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

    /// Takes a request of so many bytes as answered.
    pub fn take(&mut self, len: usize) {
        self.begin += len;
        self.answered += 1;
        self.work += 1;
    }

    async fn flush(&mut self) -> io::Result<()> {
        // Also what is never read, or is the last of a connection.
        self.place.owes(std::mem::take(&mut self.work).saturating_add(work_of(self.out.len())));
        flush(&mut self.io, &mut self.out).await
    }

    /// Does work that may wait for the disk: at once if it can; otherwise what is written already is sent meanwhile.
    ///
    /// # Errors
    /// If it cannot be sent.
    pub async fn sending<T>(&mut self, work: impl Future<Output = T>) -> io::Result<T> {
        let mut work = pin!(work);
        match futures::poll!(work.as_mut()) {
            Poll::Ready(done) => Ok(done),
            Poll::Pending => {
                // The work comes first: IDs may be partly taken, and whoever waits for the disk waits longest.
                let (done, flushed) = futures::join!(work, flush(&mut self.io, &mut self.out));
                flushed.map(|()| done)
            }
        }
    }

    /// The same of work that may wait for seconds: given up if the other end closes meanwhile. What else comes from there is kept, as
    /// much as a request may have; what is answered goes.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn listening<T>(&mut self, work: impl Future<Output = T>) -> io::Result<T> {
        let mut work = pin!(work);
        if let Poll::Ready(done) = futures::poll!(work.as_mut()) {
            return Ok(done);
        }
        self.input.drain(..std::mem::take(&mut self.begin));
        {
            let mut flushing = pin!(flush(&mut self.io, &mut self.out));
            tokio::select! {
                done = work.as_mut() => return flushing.await.map(|()| done),
                flushed = flushing.as_mut() => flushed?,
            }
        }
        let Self { io, input, input_max, .. } = self;
        let mut heard = pin!(async {
            loop {
                let room = input_max.saturating_sub(input.len());
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

    /// Makes room for an answer of so many bytes, or for as much of it as is written before it is sent.
    pub fn make_room(&mut self, len: usize) {
        if len > OUT_KEPT && self.out.capacity() < OUT_LEN {
            let fresh = || Vec::with_capacity(OUT_LEN + OUT_SLACK);
            let mut large = SPARES.with_borrow_mut(Vec::pop).unwrap_or_else(fresh);
            large.append(&mut self.out);
            self.out = large;
        }
    }

    /// Writes a long answer: `fill` adds to the buffer up to a length, and tells whether there is more; then what is written is sent.
    ///
    /// # Errors
    /// If it cannot be sent.
    pub async fn write_in_parts(&mut self, mut fill: impl FnMut(usize, &mut Vec<u8>) -> bool) -> io::Result<()> {
        let mut buffers = 0;
        while fill(OUT_LEN, &mut self.out) {
            self.flush().await?;
            buffers += 1;
            if buffers % BUFFERS_A_TURN == 0 {
                // Whoever has his turn writes into it while it is in the processor's cache.
                give_back(&mut self.out);
                tokio::task::yield_now().await;
                turn(self.place).await?;
                self.make_room(OUT_LEN);
            }
        }
        Ok(())
    }

    /// Waits for input, but not for ever.
    async fn read(&mut self, ends: &mut Ends<'_, '_>) -> io::Result<Woken> {
        let filled = self.input.len();
        // A request that has come in part is longer than usual; it may go up to its bound.
        let room = if filled == 0 { IN_LEN } else { self.input_max.max(filled + 1) };
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

/// Takes a large buffer away from a connection that waits, for the next one that needs it.
fn give_back(out: &mut Vec<u8>) {
    let mut large = std::mem::take(out);
    large.clear();
    SPARES.with_borrow_mut(|spares| {
        if spares.len() < SPARES_MAX && (OUT_LEN..=OUT_LEN + OUT_SLACK).contains(&large.capacity()) {
            spares.push(large);
        }
    });
}

/// Waits for the next turn of the caller.
async fn turn(place: &Place) -> io::Result<()> {
    let came = place.turn(1).await;
    came.then_some(()).ok_or_else(|| io::ErrorKind::ConnectionAborted.into())
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

#[cfg(test)]
mod tests {
    use super::super::places::Places;
    use super::super::turns::CallerId;
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use tokio::io::DuplexStream;

    /// Lines, given back in capitals: `later` waits first, and `other` is for somebody else.
    struct Lines;

    impl Protocol for Lines {
        const REQUEST_LEN_MAX: usize = 16;
        const LOOK: Duration = Duration::from_secs(1);

        fn answer(&mut self, input: &[u8], out: &mut Vec<u8>) -> Step {
            let Some(len) = input.iter().position(|byte| *byte == b'\n').map(|at| at + 1) else { return Step::Partial };
            match &input[..len] {
                b"later\n" => return Step::Waits(len),
                b"other\n" => return Step::HandOn,
                line => out.extend(line.to_ascii_uppercase()),
            }
            Step::Answered(len)
        }

        async fn answer_waiting<IO: ByteStream>(
            &mut self,
            len: usize,
            pipeline: &mut Pipeline<'_, IO>,
        ) -> io::Result<()> {
            pipeline.take(len);
            pipeline.listening(sleep(Duration::from_millis(10))).await?;
            let mut parts = [[b'L'; 4 << 10]; 2].iter();
            let fill = |_, out: &mut Vec<u8>| parts.next().map(|part| out.extend(part)).is_some();
            pipeline.write_in_parts(fill).await?;
            pipeline.out.push(b'\n');
            Ok(())
        }
    }

    /// The outcome of a connection on which that comes in pieces of so many bytes, with what was read of it and sent back.
    async fn said(pieces: usize, text: &str) -> (io::Result<Option<Rewind<DuplexStream>>>, String) {
        let (near, mut far) = tokio::io::duplex(1 << 10);
        let (places, stop) = (Places::new(1), CancellationToken::new());
        let place = places.take(CallerId::of(())).unwrap();
        let served = async { Pipeline::new(near, &place).serve(Lines, &stop).await };
        let asked = async {
            for piece in text.as_bytes().chunks(pieces) {
                far.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
            let (mut got, lines) = (Vec::new(), text.split("other").take(1).flat_map(|own| own.matches('\n')).count());
            while got.iter().filter(|byte| **byte == b'\n').count() < lines && far.read_buf(&mut got).await.unwrap() > 0
            {
            }
            stop.cancel();
            String::from_utf8(got).unwrap().replace(&"L".repeat(8 << 10), "L")
        };
        tokio::join!(served, asked)
    }

    #[tokio::test(start_paused = true)]
    async fn requests_of_any_protocol_are_answered_in_order_and_the_rest_is_handed_on() {
        for pieces in [1, 5, 1_000] {
            let (ended, got) = said(pieces, "a\nlater\nb\nlater\n").await;
            assert!(ended.unwrap().is_none(), "stopped");
            assert_eq!(got, "A\nL\nB\nL\n", "in pieces of {pieces}");
            let (handed_on, got) = said(pieces, "a\nother\nb\n").await;
            let (mut rest, mut read) = (handed_on.unwrap().unwrap(), [0; 6]);
            rest.read_exact(&mut read).await.unwrap();
            assert_eq!((got.as_str(), &read), ("A\n", b"other\n"));
        }
        let (too_long, _) = said(1_000, "a line that is too long").await;
        assert!(too_long.unwrap().is_some(), "the next one may say so");
    }

    /// A connection of that caller on which so many requests are sent at a time, over and over, and the count of those that were answered.
    fn ask_on(places: &Places, caller: CallerId, at_a_time: usize) -> Arc<AtomicUsize> {
        let (near, mut far) = tokio::io::duplex(1 << 10);
        let (place, stop, answered) =
            (places.take(caller).unwrap(), CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
        tokio::spawn(async move { Pipeline::new(near, &place).serve(Lines, &stop).await.map(drop) });
        let counts = Arc::clone(&answered);
        tokio::spawn(async move {
            let (asked, mut answers) = (b"a\n".repeat(at_a_time), b"..".repeat(at_a_time));
            loop {
                far.write_all(&asked).await.unwrap();
                far.read_exact(&mut answers).await.unwrap();
                counts.fetch_add(at_a_time, Relaxed);
            }
        });
        answered
    }

    #[tokio::test]
    async fn a_caller_with_many_connections_leaves_others_their_turns() {
        let places = Places::new(100);
        let greedy: Vec<_> = (0..50).map(|_| ask_on(&places, CallerId::of("greedy"), 256)).collect();
        let gentle = ask_on(&places, CallerId::of("gentle"), 1);
        while gentle.load(Relaxed) < 1_000 {
            tokio::task::yield_now().await;
        }
        let greedy: usize = greedy.iter().map(|answered| answered.load(Relaxed)).sum();
        // Some 64 requests are done for the one between two of the other, which is not always there; without turns 50 times 256.
        assert!(greedy < 1_000 * 512, "{greedy}");
    }
}
