//! Connections as we see them: any that bytes go through, one whose other end must read what it asked for or is dropped, and one of which something
//! was read already.

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

/// Fails a write that makes no progress for a while, or while its connection has to make room for another one.
pub struct WriteTimeout<IO> {
    io: IO,
    patience: Duration,
    place: Place,
    /// Runs while a write is waiting.
    waiting: Option<Waiting>,
}

struct Waiting {
    patience: Pin<Box<Sleep>>,
    end: Pin<Box<WaitForCancellationFutureOwned>>,
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

    fn or_time_out<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            if self.waiting.take().is_some() {
                self.place.goes_on();
            }
            return polled;
        }
        let Self { patience, place, waiting, .. } = self;
        let waiting = waiting.get_or_insert_with(|| {
            place.stalls();
            let patience = tokio::time::sleep_until(Instant::now() + *patience);
            Waiting { patience: Box::pin(patience), end: Box::pin(place.end().cancelled_owned()) }
        });
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
        self.or_time_out(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.or_time_out(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_flush(cx);
        self.or_time_out(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_shutdown(cx);
        self.or_time_out(cx, polled)
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
    use crate::net::places::Places;
    use crate::net::turns::CallerId;
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
    async fn who_does_not_read_is_dropped_and_who_reads_slowly_is_not() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut near = WriteTimeout::new(near, Duration::from_secs(30), Places::new(1).take(CallerId::of(())).unwrap());
        let reader = tokio::spawn(async move {
            let mut got = [0; 8];
            for byte in &mut got {
                tokio::time::sleep(Duration::from_secs(20)).await;
                *byte = far.read_u8().await.unwrap();
            }
            (got, far)
        });
        near.write_all(b"slowly..").await.unwrap();
        let (got, far) = reader.await.unwrap();
        assert_eq!(&got, b"slowly..");
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
