//! Millions of keys, as many to a call as it may have.

use super::{Keys, Troubles, lock};
use crate::client::Client;
use common::sequence::Slot;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Keys of a call: what agents take at most.
pub const KEYS_PER_CALL: u32 = 10_000;
/// The time that a client that got nothing waits before it asks again.
const PAUSE: Duration = Duration::from_millis(50);
/// Bytes of a number.
const NUMBER_LEN: usize = 8;

/// The numbers and refusals that all clients have seen.
#[derive(Debug, Default)]
struct Seen {
    numbers: AtomicU64,
    disorder: AtomicU64,
    refused: AtomicU64,
    /// By client: how often it has asked for each of its keys.
    rounds: Vec<AtomicU64>,
    troubles: Mutex<Troubles>,
    worst: Mutex<Option<String>>,
}

/// The way in which a client asks.
#[derive(Clone)]
enum Way {
    /// Any agent, which passes on what others serve.
    Any(Client, Vec<SocketAddr>),
    /// With routes of its own, by the library.
    Routes(uniq_client::Client),
}

/// Clients at work.
pub struct Bulk {
    stop: Arc<AtomicBool>,
    seen: Arc<Seen>,
    tasks: JoinSet<()>,
}

/// The findings of all clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Numbers received.
    pub numbers: u64,
    /// Numbers that were not greater than one that the same client had of the same key before.
    pub disorder: u64,
    /// Keys that got no number in a call that others got one in.
    pub refused: u64,
    /// Troubles of calls that gave nothing.
    pub troubles: Troubles,
    /// The first number that was not greater, in words.
    pub first: Option<String>,
}

impl Bulk {
    /// Starts clients, each with as many of the keys of `name`: every other one keeps routes. With `rest` a client rests after each answer as
    /// long as it took, and leaves half of the machine to what else happens.
    ///
    /// # Panics
    /// If the library does not take the addresses.
    pub fn start(
        client: &Client,
        agents: &[SocketAddr],
        name: &str,
        keys: Keys,
        clients: u32,
        rest: bool,
        seed: u64,
    ) -> Self {
        let rounds = (0..clients).map(|_| AtomicU64::new(0)).collect();
        let mut bulk =
            Self { stop: Arc::default(), seen: Arc::new(Seen { rounds, ..Seen::default() }), tasks: JoinSet::new() };
        for nth in 0..clients {
            let share = |of: u32| u64::from(keys.count) * u64::from(of) / u64::from(clients.max(1));
            let own = Range { start: low(share(nth)), end: low(share(nth + 1)) };
            let way = if nth.is_multiple_of(2) { Way::any(client, agents) } else { Way::routes(agents) };
            let one = One { way, name: name.to_owned(), keys, nth: nth as usize, rest, random: random(seed, nth) };
            bulk.tasks.spawn(one.run(own, Arc::clone(&bulk.stop), Arc::clone(&bulk.seen)));
        }
        bulk
    }

    /// The number of times that every key has been asked for at least, and was answered.
    pub fn rounds(&self) -> u64 {
        self.seen.rounds.iter().map(|rounds| rounds.load(SeqCst)).min().unwrap_or(0)
    }

    /// The findings so far.
    pub fn verdict(&self) -> Verdict {
        let seen = &self.seen;
        Verdict {
            numbers: seen.numbers.load(SeqCst),
            disorder: seen.disorder.load(SeqCst),
            refused: seen.refused.load(SeqCst),
            troubles: lock(&seen.troubles).clone(),
            first: lock(&seen.worst).clone(),
        }
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
        Ok(self.verdict())
    }
}

fn low(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn random(seed: u64, nth: u32) -> SmallRng {
    SmallRng::seed_from_u64(seed.wrapping_add(u64::from(nth)))
}

impl Way {
    fn any(client: &Client, agents: &[SocketAddr]) -> Self {
        Self::Any(client.clone(), agents.to_vec())
    }

    fn routes(agents: &[SocketAddr]) -> Self {
        let addresses: Vec<String> = agents.iter().map(|agent| format!("http://{agent}")).collect();
        #[allow(clippy::expect_used, reason = "a test's own addresses")]
        let client = uniq_client::Settings::new(addresses.iter().map(String::as_str))
            .and_then(|mut settings| {
                settings.timeout = Duration::from_secs(30);
                uniq_client::Client::new(settings)
            })
            .expect("addresses of agents");
        Self::Routes(client)
    }

    /// The first number of each key; 0 for none.
    async fn ask(&self, name: &str, asked: &Asked, random: &mut SmallRng) -> Result<Vec<u64>, String> {
        match self {
            Self::Any(client, agents) => {
                let Some(agent) = agents.get(random.random_range(0..agents.len().max(1))) else {
                    return Err("no agents".to_owned());
                };
                let url = format!("http://{agent}/sequence/{name}");
                let answer = match &asked.lines {
                    None => {
                        let body = asked.slots.iter().flat_map(|slot| u64::from(slot.0).to_be_bytes()).collect();
                        client.post_packed(&url, body).await
                    }
                    Some(lines) => client.post_lines(&url, lines.clone()).await,
                };
                let answer = answer.map_err(|_| "no answer".to_owned())?;
                if answer.status != 200 {
                    return Err(answer.code());
                }
                let (numbers, rest) = answer.body.as_chunks::<NUMBER_LEN>();
                if numbers.len() != asked.slots.len() || !rest.is_empty() {
                    return Err("a broken answer".to_owned());
                }
                Ok(numbers.iter().map(|number| u64::from_be_bytes(*number)).collect())
            }
            Self::Routes(client) => {
                let said = client.sequence_many(name, &asked.slots).await.map_err(|error| match error {
                    uniq_client::Error::Refused { code, .. } => format!("client: {}", code.as_str()),
                    uniq_client::Error::Unavailable(_) => "client: no answer".to_owned(),
                    other => format!("client: {other}"),
                })?;
                Ok(said.into_iter().map(|one| one.unwrap_or(0)).collect())
            }
        }
    }
}

/// The keys of a call.
struct Asked {
    slots: Vec<Slot>,
    /// The lines that are sent of them where they are texts.
    lines: Option<Vec<u8>>,
}

impl Asked {
    fn of(keys: Keys, from: u32, count: usize) -> Self {
        if !keys.text {
            return Self { slots: (from..).take(count).map(|nth| keys.nth(nth)).collect(), lines: None };
        }
        let texts: Vec<String> = (from..).take(count).map(|nth| keys.text(nth)).collect();
        #[allow(clippy::expect_used, reason = "a test's own keys")]
        let slots = texts.iter().map(|text| Slot::of(text).expect("a key")).collect();
        Self { slots, lines: Some(texts.join("\n").into_bytes()) }
    }
}

struct One {
    way: Way,
    name: String,
    keys: Keys,
    nth: usize,
    rest: bool,
    random: SmallRng,
}

impl One {
    async fn run(mut self, own: Range<u32>, stop: Arc<AtomicBool>, seen: Arc<Seen>) {
        let mut last = vec![0_u64; own.len()];
        while !stop.load(SeqCst) {
            let mut all = true;
            for (part, last) in last.chunks_mut(KEYS_PER_CALL as usize).enumerate() {
                if stop.load(SeqCst) {
                    return;
                }
                let from = own.start + low(part as u64) * KEYS_PER_CALL;
                let (asked, began) = (Asked::of(self.keys, from, last.len()), Instant::now());
                match self.way.ask(&self.name, &asked, &mut self.random).await {
                    Ok(numbers) => {
                        all &= seen.take(&asked.slots, last, &numbers);
                        if self.rest {
                            tokio::time::sleep(began.elapsed()).await;
                        }
                    }
                    Err(trouble) => {
                        all = false;
                        *lock(&seen.troubles).entry(trouble).or_default() += 1;
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
            if let Some(rounds) = seen.rounds.get(self.nth).filter(|_| all) {
                rounds.fetch_add(1, SeqCst);
            }
        }
    }
}

impl Seen {
    /// Takes in the numbers of keys; tells whether every key got one.
    fn take(&self, slots: &[Slot], last: &mut [u64], numbers: &[u64]) -> bool {
        let (mut given, mut refused) = (0, 0);
        for ((slot, last), number) in slots.iter().zip(last).zip(numbers) {
            if *number == 0 {
                refused += 1;
                continue;
            }
            given += 1;
            if *number <= *last {
                self.disorder.fetch_add(1, SeqCst);
                lock(&self.worst).get_or_insert_with(|| format!("key {}: {number} after {last}", slot.0));
            }
            *last = *number;
        }
        self.numbers.fetch_add(given, SeqCst);
        self.refused.fetch_add(refused, SeqCst);
        refused == 0
    }
}
