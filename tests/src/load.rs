//! Clients that fetch IDs of all kinds from all agents, in batches and one by one, through whatever happens to the
//! processes, and hand every ID they receive to the oracle.

use crate::client::{Client, Kind, Media};
use crate::oracle::Oracle;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

/// IDs asked for at once: mostly large, so that millions come together, and single ones, which take another path.
const SIZES: &[usize] = &[1, 1, 7, 1_000, 4_000, 10_000];
/// The same where a test runs so long that every ID received would not find room: as many requests, smaller batches.
const SIZES_LONG: &[usize] = &[1, 1, 7, 100, 100, 400];
/// The time that a client that got no IDs waits before it asks again.
const PAUSE: Duration = Duration::from_millis(20);

/// Counts of what the clients were told, beside IDs: by error code, or `no connection`, or `broken off`.
pub type Troubles = BTreeMap<String, u64>;

/// The pace at which clients work.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The time that each rests after each answer.
    pub rest: Duration,
    sizes: &'static [usize],
}

impl Pace {
    /// One request after the other.
    pub const FULL: Self = Self { rest: Duration::ZERO, sizes: SIZES };
    /// For hours: the IDs of 1,000 kills in some 2 GB.
    pub const LONG: Self = Self { rest: Duration::from_millis(20), sizes: SIZES_LONG };

    /// With a rest, for tests of many processes at once.
    pub const fn resting(rest: Duration) -> Self {
        Self { rest, sizes: SIZES }
    }
}

/// Clients at work.
pub struct Load {
    stop: Arc<AtomicBool>,
    troubles: Arc<Mutex<Troubles>>,
    tasks: JoinSet<Result<(), String>>,
}

impl Load {
    /// One client for each agent and kind. `seed` decides who asks for how much in which form. They leave the processor to what happens
    /// meanwhile.
    pub fn start(client: &Client, agents: &[(String, SocketAddr)], oracle: &Arc<Oracle>, seed: u64) -> Self {
        Self::paced(client, agents, oracle, seed, Pace::resting(PAUSE))
    }

    /// The same, at another pace.
    pub fn paced(
        client: &Client,
        agents: &[(String, SocketAddr)],
        oracle: &Arc<Oracle>,
        seed: u64,
        pace: Pace,
    ) -> Self {
        let mut load = Self { stop: Arc::default(), troubles: Arc::default(), tasks: JoinSet::new() };
        let mut seed = seed;
        for (name, address) in agents {
            for kind in crate::client::KINDS {
                seed = seed.wrapping_add(1);
                let work = Work {
                    client: client.clone(),
                    agent: name.clone(),
                    url: format!("http://{address}/{}", kind.path()),
                    kind,
                    oracle: Arc::clone(oracle),
                    troubles: Arc::clone(&load.troubles),
                    pace,
                };
                load.tasks.spawn(work.run(SmallRng::seed_from_u64(seed), Arc::clone(&load.stop)));
            }
        }
        load
    }

    /// Stops the clients once each has its last answer, and says what they were told.
    ///
    /// # Errors
    /// If an answer broke the contract: an ID in a form it should not have, an error without a code.
    pub async fn stop(mut self) -> Result<Troubles, String> {
        self.stop.store(true, Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.map_err(|e| e.to_string())??;
        }
        Ok(self.troubles.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Looks whether every client is still at work.
    ///
    /// # Errors
    /// The reason why one of them ended: an answer that broke the contract.
    pub fn check(&mut self) -> Result<(), String> {
        match self.tasks.try_join_next() {
            Some(ended) => ended.map_err(|e| e.to_string())?.and(Err("a client ended early".to_owned())),
            None => Ok(()),
        }
    }
}

struct Work {
    client: Client,
    agent: String,
    url: String,
    kind: Kind,
    oracle: Arc<Oracle>,
    troubles: Arc<Mutex<Troubles>>,
    pace: Pace,
}

impl Work {
    async fn run(self, mut random: SmallRng, stop: Arc<AtomicBool>) -> Result<(), String> {
        while !stop.load(Relaxed) {
            let sizes = self.pace.sizes;
            let n = sizes.get(random.random_range(0..sizes.len())).copied().unwrap_or(1);
            let media = match random.random_range(0..3) {
                0 => Media::Json,
                1 if self.kind != Kind::String => Media::Packed,
                _ => Media::Text,
            };
            if !self.once(n, media).await? {
                tokio::time::sleep(PAUSE).await;
            }
            if !self.pace.rest.is_zero() {
                tokio::time::sleep(self.pace.rest).await;
            }
        }
        Ok(())
    }

    async fn once(&self, n: usize, media: Media) -> Result<bool, String> {
        let url = if n == 1 { self.url.clone() } else { format!("{}&n={n}", self.url) };
        let Ok(answer) = self.client.get_as(&url, media).await else {
            self.trouble("no connection");
            return Ok(false);
        };
        if answer.status != 200 {
            let code = answer.code();
            if code.is_empty() {
                return Err(format!("{url}: {} without a code: {}", answer.status, answer.text()));
            }
            self.trouble(&code);
            return Ok(false);
        }
        let ids = answer.ids(self.kind, media).map_err(|e| format!("{url}: {e:#}"))?;
        let source = format!("{} {:?} n={n} {}", self.agent, self.kind, media.mime());
        self.oracle.note(self.kind.namespace(), &source, &ids);
        if !answer.whole {
            self.trouble("broken off");
        } else if ids.len() != n {
            return Err(format!("{url}: {} IDs, not {n}", ids.len()));
        }
        Ok(answer.whole)
    }

    fn trouble(&self, what: &str) {
        *self.troubles.lock().unwrap_or_else(PoisonError::into_inner).entry(what.to_owned()).or_default() += 1;
    }
}
