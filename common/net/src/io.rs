//! Connections as we see them: any that bytes go through, one whose other end must read what it asked for in time or is dropped, and one of
//! which something was read already.

use super::places::Place;
use bytes::Bytes;
use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

/// A connection of any kind: a socket, something like TLS over it, or a pipe in a test.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<IO: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for IO {}

/// Bytes that the other end has to read while a write is let wait, if it does not read all.
const STEP: usize = 64 << 10;

/// Fails a write when the other end reads less than 64 KiB in a while, or while its connection has to make room for another one.
pub struct WriteTimeout<IO> {
    io: IO,
    patience: Duration,
    place: Place,
    /// There since a write had to wait, until enough was read since then, or all.
    waiting: Option<Waiting>,
}

struct Waiting {
    patience: Pin<Box<Sleep>>,
    end: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Bytes that were written meanwhile.
    written: usize,
    stalls: bool,
}

impl<IO: ByteStream> WriteTimeout<IO> {
    /// A connection that has this place, and an other end that may let a write wait for so long.
    pub fn new(io: IO, patience: Duration, place: Place) -> Self {
        Self { io, patience, place, waiting: None }
    }

    /// The connection itself.
    pub fn get_mut(&mut self) -> &mut IO {
        &mut self.io
    }

    fn written(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let Poll::Ready(done) = &polled else { return self.time_out(cx) };
        if let Some(waiting) = &mut self.waiting {
            if std::mem::take(&mut waiting.stalls) {
                self.place.goes_on();
            }
            waiting.written += done.as_ref().map_or(0, |bytes| *bytes);
            if waiting.written >= STEP {
                self.waiting = None;
            }
        }
        polled
    }

    /// After the last byte.
    fn flushed(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<()>>) -> Poll<io::Result<()>> {
        if polled.is_pending() {
            return self.time_out(cx);
        }
        if self.waiting.take().is_some_and(|waiting| waiting.stalls) {
            self.place.goes_on();
        }
        polled
    }

    fn time_out<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        let Self { patience, place, waiting, .. } = self;
        let waiting = waiting.get_or_insert_with(|| {
            let patience = tokio::time::sleep_until(Instant::now() + *patience);
            let end = Box::pin(place.end().cancelled_owned());
            Waiting { patience: Box::pin(patience), end, written: 0, stalls: false }
        });
        if !std::mem::replace(&mut waiting.stalls, true) {
            place.stalls();
        }
        if waiting.end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        ready!(waiting.patience.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<IO: ByteStream> AsyncRead for WriteTimeout<IO> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<IO: ByteStream> AsyncWrite for WriteTimeout<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(cx, buf);
        self.written(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.written(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_flush(cx);
        self.flushed(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_shutdown(cx);
        self.flushed(cx, polled)
    }
}

/// A connection of which something was read already.
pub struct Rewind<IO> {
    read: Bytes,
    io: IO,
}

impl<IO> Rewind<IO> {
    /// `read` comes before what comes from `io`.
    pub fn new(read: Bytes, io: IO) -> Self {
        Self { read, io }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Rewind<IO> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return Pin::new(&mut self.io).poll_read(cx, buf);
        }
        let len = self.read.len().min(buf.remaining());
        buf.put_slice(&self.read.split_to(len));
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Rewind<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::Places;
    use crate::turns::CallerId;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn what_was_read_already_is_read_again_first() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut near = Rewind::new(Bytes::from_static(b"GET /"), near);
        far.write_all(b"uniq64").await.unwrap();
        let mut got = [0; 11];
        near.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"GET /uniq64");
        near.write_all(b"answer").await.unwrap();
        let mut got = [0; 6];
        far.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"answer");
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_too_little_in_time_is_dropped_and_who_reads_slowly_is_not() {
        let all = |steps: usize| vec![7; steps * STEP];
        // The pieces of an answer that are read, one each 10 s, and whether it gets the rest.
        for (piece, is_served) in [(STEP, true), (STEP / 2, true), (STEP / 4, false), (0, false)] {
            let (near, mut far) = tokio::io::duplex(4);
            let place = Places::new(1).take(CallerId::of(())).unwrap();
            let mut near = WriteTimeout::new(near, Duration::from_secs(30), place);
            let reader = tokio::spawn(async move {
                let mut got = vec![0; piece];
                loop {
                    tokio::time::sleep(Duration::from_secs(10)).await;
                    if far.read_exact(&mut got).await.is_err() {
                        return;
                    }
                }
            });
            let written = near.write_all(&all(3)).await.map_err(|error| error.kind());
            assert_eq!(written, if is_served { Ok(()) } else { Err(io::ErrorKind::TimedOut) }, "{piece}");
            reader.abort();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn small_answers_have_each_their_time() {
        let (near, mut far) = tokio::io::duplex(4);
        let place = Places::new(1).take(CallerId::of(())).unwrap();
        let mut near = WriteTimeout::new(near, Duration::from_secs(30), place);
        let reader = tokio::spawn(async move {
            let mut got = [0; 8];
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_secs(20)).await;
                far.read_exact(&mut got).await.unwrap();
            }
            far
        });
        for _ in 0..10 {
            near.write_all(b"slowly..").await.unwrap();
            near.flush().await.unwrap();
        }
        let far = reader.await.unwrap();
        let error = near.write_all(b"not at all").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(far);
    }

    #[tokio::test]
    async fn who_does_not_read_makes_room_for_a_newcomer() {
        let (near, far) = tokio::io::duplex(4);
        let places = Places::new(1);
        let place = places.take(CallerId::of(())).unwrap();
        let asked = place.begin();
        let mut near = WriteTimeout::new(near, Duration::from_secs(3_600), place);
        let writing = tokio::spawn(async move { near.write_all(b"not at all").await });
        let newcomer = loop {
            match places.take(CallerId::of(())) {
                Some(place) => break place,
                None => tokio::task::yield_now().await,
            }
        };
        assert_eq!(writing.await.unwrap().unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
        drop((far, asked, newcomer));
    }
}
