//! A key in each of some sections, asked for all the time by a client at each agent: so that a key is without service only if it is at all of
//! them, and not because its client waits for one that stands still.

use super::{Keys, Troubles, lock};
use crate::client::Client;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The time that a client waits between two calls for one key.
const PAUSE: Duration = Duration::from_millis(100);
/// The same after a call that gave none.
const PAUSE_REFUSED: Duration = Duration::from_millis(20);

/// The knowledge of one key.
#[derive(Debug, Default)]
struct Key {
    /// The greatest number that anybody has received.
    greatest: AtomicU64,
    /// The time at which it came, in milliseconds since all began.
    at: AtomicU64,
    /// The longest time between two numbers since it was last asked for.
    gap: AtomicU64,
    all: Mutex<Vec<u64>>,
}

/// The clients, and what they know.
pub struct Probes {
    stop: Arc<AtomicBool>,
    seen: Arc<Seen>,
    tasks: JoinSet<()>,
}

struct Seen {
    began: Instant,
    keys: Vec<Key>,
    disorder: AtomicU64,
    troubles: Mutex<Troubles>,
    worst: Mutex<Option<String>>,
}

/// The events of the keys since this was last asked.
#[derive(Clone, Debug)]
pub struct Since {
    /// The longest time between two numbers of one key, in milliseconds, by key; ascending.
    pub gaps_ms: Vec<u64>,
    /// Calls that gave no number, by code.
    pub troubles: Troubles,
}

/// The findings in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Numbers received.
    pub numbers: u64,
    /// Numbers that came twice.
    pub duplicates: u64,
    /// Numbers that were not greater than one that somebody had received before they were asked for.
    pub disorder: u64,
    /// The first of them, in words.
    pub first: Option<String>,
}

impl Since {
    /// The longest of all.
    pub fn longest_ms(&self) -> u64 {
        self.gaps_ms.last().copied().unwrap_or(0)
    }

    /// The one in the middle.
    pub fn median_ms(&self) -> u64 {
        self.gaps_ms.get(self.gaps_ms.len() / 2).copied().unwrap_or(0)
    }

    /// Calls that an agent refused: not those whose agent or connection was gone.
    pub fn refused(&self) -> u64 {
        self.troubles.iter().filter(|(code, _)| *code != "no answer").map(|(_, count)| count).sum()
    }
}

impl Probes {
    /// Asks for a key in each of `sections` of `name`, by a client at each agent.
    pub fn start(client: &Client, agents: &[SocketAddr], name: &str, keys: Keys, sections: &[u32]) -> Self {
        let seen = Arc::new(Seen {
            began: Instant::now(),
            keys: sections.iter().map(|_| Key::default()).collect(),
            disorder: AtomicU64::new(0),
            troubles: Mutex::default(),
            worst: Mutex::default(),
        });
        let mut probes = Self { stop: Arc::default(), seen, tasks: JoinSet::new() };
        for (nth, section) in sections.iter().enumerate() {
            for agent in agents {
                let url = format!("http://{agent}/sequence/{name}/{}", keys.within(*section).0);
                let one = One { client: client.clone(), url, nth };
                probes.tasks.spawn(one.run(Arc::clone(&probes.stop), Arc::clone(&probes.seen)));
            }
        }
        probes
    }

    /// Counts the keys that gave no number since an instant.
    pub fn silent_since(&self, instant: Instant) -> usize {
        let since = self.seen.ms_of(instant);
        self.seen.keys.iter().filter(|key| key.at.load(SeqCst) <= since).count()
    }

    /// Gives what happened since this was last asked, in which every gap that lasts on counts, too.
    pub fn since(&self) -> Since {
        let now = self.seen.ms_of(Instant::now());
        let gap = |key: &Key| key.gap.swap(0, SeqCst).max(now.saturating_sub(key.at.load(SeqCst)));
        let mut gaps_ms: Vec<u64> = self.seen.keys.iter().map(gap).collect();
        gaps_ms.sort_unstable();
        Since { gaps_ms, troubles: std::mem::take(&mut *lock(&self.seen.troubles)) }
    }

    /// Ends all clients. What they found.
    ///
    /// # Errors
    /// If one of them panicked.
    pub async fn stop(mut self) -> anyhow::Result<Verdict> {
        self.stop.store(true, SeqCst);
        while let Some(ended) = self.tasks.join_next().await {
            ended?;
        }
        let mut verdict = Verdict {
            disorder: self.seen.disorder.load(SeqCst),
            first: lock(&self.seen.worst).clone(),
            ..Verdict::default()
        };
        for key in &self.seen.keys {
            let mut all = std::mem::take(&mut *lock(&key.all));
            all.sort_unstable();
            verdict.numbers += all.len() as u64;
            verdict.duplicates += all.windows(2).filter(|pair| matches!(pair, [a, b] if a == b)).count() as u64;
        }
        Ok(verdict)
    }
}

struct One {
    client: Client,
    url: String,
    nth: usize,
}

impl One {
    async fn run(self, stop: Arc<AtomicBool>, seen: Arc<Seen>) {
        while !stop.load(SeqCst) {
            let before = seen.greatest(self.nth);
            let trouble = match self.client.get(&self.url).await {
                Ok(answer) if answer.status == 200 => match answer.text().trim().parse() {
                    Ok(number) => {
                        seen.take(self.nth, before, number);
                        tokio::time::sleep(PAUSE).await;
                        continue;
                    }
                    Err(_) => format!("not a number: {}", answer.text()),
                },
                Ok(answer) => answer.code(),
                Err(_) => "no answer".to_owned(),
            };
            *lock(&seen.troubles).entry(trouble).or_default() += 1;
            tokio::time::sleep(PAUSE_REFUSED).await;
        }
    }
}

impl Seen {
    fn ms_of(&self, instant: Instant) -> u64 {
        u64::try_from(instant.saturating_duration_since(self.began).as_millis()).unwrap_or(u64::MAX)
    }

    fn greatest(&self, nth: usize) -> u64 {
        self.keys.get(nth).map_or(0, |key| key.greatest.load(SeqCst))
    }

    fn take(&self, nth: usize, before: u64, number: u64) {
        let Some(key) = self.keys.get(nth) else { return };
        if number <= before {
            self.disorder.fetch_add(1, SeqCst);
            lock(&self.worst).get_or_insert_with(|| format!("key {nth}: {number} after {before}"));
        }
        key.greatest.fetch_max(number, SeqCst);
        let now = self.ms_of(Instant::now());
        let last = key.at.fetch_max(now, SeqCst);
        key.gap.fetch_max(now.saturating_sub(last), SeqCst);
        lock(&key.all).push(number);
    }
}
