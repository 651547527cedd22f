//! A client that asks an agent for one ID after another, without haste, and must never be refused.

use crate::client::Client;
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// The time that it rests between two questions.
const REST: Duration = Duration::from_millis(20);
/// Refusals that are told.
const TOLD_MAX: usize = 5;

/// The client at work.
pub struct Gentle {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Result<Seen>>,
}

#[derive(Default)]
struct Seen {
    took: Vec<Duration>,
    ids: BTreeSet<String>,
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
    /// Asks there for IDs from now on. `anew`: after how many questions it connects anew.
    pub fn start(url: &str, anew: u64) -> Self {
        let (url, stop) = (url.to_owned(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let (mut client, mut seen, mut asked) = (Client::new()?, Seen::default(), 0);
            while !stopped.load(Relaxed) {
                let began = Instant::now();
                match client.get(&url).await {
                    Ok(answer) if answer.status == 200 && seen.ids.insert(answer.text()) => {
                        seen.took.push(began.elapsed())
                    }
                    Ok(answer) => seen.lost.push(format!("{}: {}", answer.status, answer.text())),
                    Err(e) => seen.lost.push(format!("{e:#}")),
                }
                asked += 1;
                if asked % anew == 0 {
                    client = Client::new()?;
                }
                tokio::time::sleep(REST).await;
            }
            Ok(seen)
        });
        Self { stop, task }
    }

    /// Ends it.
    ///
    /// # Errors
    /// If one of its questions was not answered with an ID that it had not got before.
    pub async fn stop(self) -> Result<Served> {
        self.stop.store(true, Relaxed);
        let Seen { mut took, lost, .. } = self.task.await??;
        if !lost.is_empty() {
            let told: Vec<_> = lost.iter().take(TOLD_MAX).collect();
            bail!("the gentle client got {} IDs and lost {}: {told:?}", took.len(), lost.len());
        }
        took.sort_unstable();
        let at = |part: usize| took.get(took.len() * part / 100).copied().context("the gentle client got nothing");
        Ok(Served { ids: took.len(), p50: at(50)?, p99: at(99)? })
    }
}
