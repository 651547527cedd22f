//! A client that asks an agent for one ID after another, without haste, and must never be refused.

use anyhow::{Context as _, Result, bail};
use net::tls::{Admits, ClientStream, Tls};
use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The time that it rests between two questions.
const REST: Duration = Duration::from_millis(20);
/// The longest time for a connection, and for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Refusals that are told.
const TOLD_MAX: usize = 5;

/// A connection that is kept from one request to the next, by plain TCP or by TLS.
pub struct Kept {
    io: ClientStream,
    at: SocketAddr,
}

impl Kept {
    /// Connects there.
    ///
    /// # Errors
    /// If there is no connection, or somebody else is there.
    pub async fn connect(tls: &Tls, expected: Admits, at: SocketAddr) -> Result<Self> {
        let connected = async { tls.connect(TcpStream::connect(at).await?, expected).await };
        let io = timeout(ANSWER_MAX, connected).await.context("no connection in time")??;
        Ok(Self { io, at })
    }

    /// The status and the body of the answer to a GET.
    ///
    /// # Errors
    /// If the connection ends before that, or what comes is no HTTP.
    pub async fn get(&mut self, path: &str) -> Result<(u16, String)> {
        timeout(ANSWER_MAX, self.answered(path)).await.context("no answer in time")?
    }

    async fn answered(&mut self, path: &str) -> Result<(u16, String)> {
        self.io.write_all(format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.at).as_bytes()).await?;
        let mut seen = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&seen);
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let head = head.to_ascii_lowercase();
                let len = head.lines().find_map(|line| line.strip_prefix("content-length: ")).context("no length")?;
                let len = len.parse::<usize>()?;
                if body.len() > len {
                    bail!("more than was said: {text:?}");
                }
                if body.len() == len {
                    let status = head.split(' ').nth(1).context("no status")?.parse()?;
                    return Ok((status, body.to_owned()));
                }
            }
            if self.io.read_buf(&mut seen).await? == 0 {
                bail!("closed by the other end after {:?}", String::from_utf8_lossy(&seen));
            }
        }
    }
}

/// The client at work.
pub struct Gentle {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Seen>,
}

#[derive(Default)]
struct Seen {
    took: Vec<Duration>,
    ids: BTreeSet<u64>,
    lost: Vec<String>,
}

/// The service that it got.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// IDs it got: one for each question.
    pub ids: usize,
    /// The time that half of the answers took at most,
    pub p50: Duration,
    /// and 99 of 100.
    pub p99: Duration,
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ids, p50, p99 } = self;
        write!(f, "the gentle client got {ids} IDs and lost none: p50 {p50:?}, p99 {p99:?}")
    }
}

impl Gentle {
    /// Connects, and asks the agent there for IDs from now on. `anew`: after how many questions it connects anew.
    pub async fn start(tls: &Tls, at: SocketAddr, anew: u64) -> Self {
        let first = Kept::connect(tls, Admits::Agents, at).await.ok();
        let (tls, stop) = (tls.clone(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let (mut kept, mut seen, mut asked) = (first, Seen::default(), 0);
            while !stopped.load(Relaxed) {
                let began = Instant::now();
                match asked_once(&mut kept, &tls, at).await {
                    Ok((200, text)) if text.trim_end().parse().is_ok_and(|id| seen.ids.insert(id)) => {
                        seen.took.push(began.elapsed());
                    }
                    Ok((status, text)) => seen.lost.push(format!("{status}: {text}")),
                    Err(e) => {
                        seen.lost.push(format!("{e:#}"));
                        kept = None;
                    }
                }
                asked += 1;
                if asked % anew == 0 {
                    kept = None;
                }
                tokio::time::sleep(REST).await;
            }
            seen
        });
        Self { stop, task }
    }

    /// Ends it.
    ///
    /// # Errors
    /// If one of its questions was not answered with an ID that it had not got before.
    pub async fn stop(self) -> Result<Served> {
        self.stop.store(true, Relaxed);
        let Seen { mut took, lost, .. } = self.task.await?;
        if !lost.is_empty() {
            let told: Vec<_> = lost.iter().take(TOLD_MAX).collect();
            bail!("the gentle client got {} IDs and lost {}: {told:?}", took.len(), lost.len());
        }
        took.sort_unstable();
        let at = |part: usize| took.get(took.len() * part / 100).copied().context("the gentle client got nothing");
        Ok(Served { ids: took.len(), p50: at(50)?, p99: at(99)? })
    }
}

async fn asked_once(kept: &mut Option<Kept>, tls: &Tls, at: SocketAddr) -> Result<(u16, String)> {
    let kept = match kept {
        Some(kept) => kept,
        none => none.insert(Kept::connect(tls, Admits::Agents, at).await?),
    };
    kept.get("/uniq64").await
}
