//! Connections as we see them: one whose other end must read what it asked for or is dropped, and one of which something
//! was read already.

use bytes::Bytes;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Fails a write that makes no progress for a while.
pub(super) struct Impatient<IO> {
    io: IO,
    patience: Duration,
    /// Runs while a write is waiting.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Impatient<IO> {
    pub(super) fn new(io: IO, patience: Duration) -> Self {
        Self { io, patience, waiting: None }
    }

    fn or_time_out<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.waiting = None;
            return polled;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + patience)));
        ready!(waiting.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for Impatient<IO> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Impatient<IO> {
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
pub(super) struct Rewound<IO> {
    read: Bytes,
    io: IO,
}

impl<IO> Rewound<IO> {
    pub(super) fn new(read: Bytes, io: IO) -> Self {
        Self { read, io }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Rewound<IO> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return Pin::new(&mut self.io).poll_read(cx, buf);
        }
        let len = self.read.len().min(buf.remaining());
        buf.put_slice(&self.read.split_to(len));
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Rewound<IO> {
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn what_was_read_already_is_read_again_first() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut near = Rewound::new(Bytes::from_static(b"GET /"), near);
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
        let mut near = Impatient::new(near, Duration::from_secs(30));
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
}
