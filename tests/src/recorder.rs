//! A wire between two masters that remembers every frame one of them sent, so that it can be sent again much later.
//!
//! Frames are kept as the bytes they were: a length of four bytes, big-endian, and a body. Nothing is understood here.

use anyhow::{Context as _, Result, bail};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The most bytes that are remembered; what comes later is passed on only.
pub const BYTES_MAX: usize = 64 << 20;
/// The longest time that a replayed frame's answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(30);

type Frames = Arc<Mutex<Vec<Vec<u8>>>>;

/// The wire. Dropping it cuts it.
pub struct Recorder {
    frames: Frames,
    task: JoinHandle<()>,
}

impl Recorder {
    /// Passes on what comes to `listen`, to `to`, and answers back; remembers the frames of the first direction.
    ///
    /// # Errors
    /// If it cannot listen.
    pub async fn start(listen: SocketAddr, to: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
        let frames = Frames::default();
        let kept = Arc::clone(&frames);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((from, _)) = listener.accept().await {
                connections.spawn(pass_on(from, to, Arc::clone(&kept)));
            }
        });
        Ok(Self { frames, task })
    }

    /// The frames that were sent so far, each with its length in front.
    pub fn frames(&self) -> Vec<Vec<u8>> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass_on(from: TcpStream, to: SocketAddr, frames: Frames) -> Result<()> {
    let to = TcpStream::connect(to).await?;
    from.set_nodelay(true)?;
    to.set_nodelay(true)?;
    let ((from_read, mut from_write), (mut to_read, to_write)) = (from.into_split(), to.into_split());
    tokio::select! {
        done = remember(from_read, to_write, frames) => done,
        done = tokio::io::copy(&mut to_read, &mut from_write) => { done?; Ok(()) }
    }
}

async fn remember(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, frames: Frames) -> Result<()> {
    loop {
        let mut frame = from.read_u32().await?.to_be_bytes().to_vec();
        let body = frame.first_chunk().map_or(0, |length| u32::from_be_bytes(*length)) as usize;
        frame.resize(4 + body, 0);
        from.read_exact(frame.get_mut(4..).unwrap_or_default()).await?;
        to.write_all(&frame).await?;
        let mut frames = frames.lock().unwrap_or_else(PoisonError::into_inner);
        if frames.iter().map(Vec::len).sum::<usize>() + frame.len() <= BYTES_MAX {
            frames.push(frame);
        }
    }
}

/// Sends one recorded frame again, on a connection of its own, and waits until it was answered.
///
/// # Errors
/// If it is not answered: then nobody can say that it was taken in.
pub async fn replay(frame: &[u8], to: SocketAddr) -> Result<()> {
    let mut connection = TcpStream::connect(to).await?;
    connection.write_all(frame).await?;
    match tokio::time::timeout(ANSWER_MAX, connection.read_u32()).await {
        Ok(length) => length.map(|_| ()).context("the connection was closed without an answer"),
        Err(_) => bail!("no answer in {ANSWER_MAX:?}"),
    }
}
