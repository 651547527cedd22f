//! Clients that fetch plain numbers (segments) of many names from all agents through whatever happens to the processes, and the oracle
//! that knows all of them.

use crate::client::{Client, Media};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// Numbers asked for at once.
const SIZES: &[u32] = &[1, 1, 10, 100, 1_000, 10_000];
/// The time that a client that got none waits before it asks again.
const PAUSE: Duration = Duration::from_millis(20);

/// Every number of every name that any client received, as runs of numbers that follow on each other.
#[derive(Debug, Default)]
pub struct Numbers {
    runs: Mutex<BTreeMap<String, Vec<(u64, u64)>>>,
    total: AtomicU64,
}

/// The findings of the oracle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Numbers received.
    pub numbers: u64,
    /// Those that came more than once, each time after the first.
    pub duplicates: u64,
    /// Between the least and the greatest of each name, those that nobody received.
    pub gaps: u64,
    /// The greatest number of any name.
    pub greatest: u64,
}

impl Numbers {
    /// Takes in what one request gave.
    pub fn take(&self, name: &str, numbers: &[u64]) {
        let mut all = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let runs = all.entry(name.to_owned()).or_default();
        for number in numbers {
            match runs.last_mut() {
                Some((_, end)) if *end == *number => *end += 1,
                _ => runs.push((*number, number + 1)),
            }
        }
        self.total.fetch_add(numbers.len() as u64, Relaxed);
    }

    /// The number of all of them.
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// Looks at all of them.
    pub fn verdict(&self) -> Verdict {
        let mut verdict = Verdict::default();
        for runs in self.runs.lock().unwrap_or_else(PoisonError::into_inner).values_mut() {
            runs.sort_unstable();
            let mut reached = runs.first().map_or(0, |(from, _)| *from);
            for (from, to) in runs.iter() {
                verdict.numbers += to - from;
                verdict.duplicates += reached.min(*to).saturating_sub(*from);
                verdict.gaps += from.saturating_sub(reached);
                reached = reached.max(*to);
            }
            verdict.greatest = verdict.greatest.max(reached.saturating_sub(1));
        }
        verdict
    }
}

/// The numbers of an answer.
///
/// # Errors
/// If it is none that the media type allows.
pub fn read(media: Media, body: &[u8]) -> anyhow::Result<Vec<u64>> {
    Ok(match media {
        Media::Packed => {
            anyhow::ensure!(body.len().is_multiple_of(8), "{} bytes are no numbers", body.len());
            let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
            body.chunks_exact(8).map(number).collect()
        }
        Media::Text => std::str::from_utf8(body)?.lines().map(str::parse).collect::<Result<_, _>>()?,
        Media::Json => {
            let json: serde_json::Value = serde_json::from_slice(body)?;
            let ids = json.get("ids").and_then(serde_json::Value::as_array).cloned().unwrap_or_default();
            ids.iter().map(|id| Ok(id.as_str().unwrap_or_default().parse()?)).collect::<anyhow::Result<_>>()?
        }
    })
}

/// Clients at work.
pub struct Load {
    stop: Arc<AtomicBool>,
    troubles: Arc<Mutex<BTreeMap<String, u64>>>,
    tasks: JoinSet<anyhow::Result<()>>,
}

impl Load {
    /// So many clients for each agent, each of which asks for numbers of these names by turns drawn from the seed.
    pub fn start(
        client: &Client,
        agents: &[SocketAddr],
        names: &[String],
        numbers: &Arc<Numbers>,
        clients: usize,
        seed: u64,
    ) -> Self {
        Self::paced(client, agents, names, numbers, clients, seed, Duration::ZERO)
    }

    /// The same, with one request of a client in `every` at most, for what depends on a use that is steady: clients that ask as fast as
    /// they can use what the machine has to spare at the moment.
    pub fn paced(
        client: &Client,
        agents: &[SocketAddr],
        names: &[String],
        numbers: &Arc<Numbers>,
        clients: usize,
        seed: u64,
        every: Duration,
    ) -> Self {
        let mut load = Self { stop: Arc::default(), troubles: Arc::default(), tasks: JoinSet::new() };
        for (nth, agent) in agents.iter().flat_map(|agent| std::iter::repeat_n(agent, clients)).enumerate() {
            let mut random = SmallRng::seed_from_u64(seed.wrapping_add(nth as u64));
            let (client, numbers, names, agent) = (client.clone(), Arc::clone(numbers), names.to_vec(), *agent);
            let (stop, troubles) = (Arc::clone(&load.stop), Arc::clone(&load.troubles));
            load.tasks.spawn(async move {
                let mut ticks = (!every.is_zero()).then(|| tokio::time::interval(every));
                if let Some(ticks) = &mut ticks {
                    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                }
                while !stop.load(Relaxed) {
                    if let Some(ticks) = &mut ticks {
                        ticks.tick().await;
                    }
                    let Some(name) = names.get(random.random_range(0..names.len())) else { return Ok(()) };
                    let n = SIZES.get(random.random_range(0..SIZES.len())).copied().unwrap_or(1);
                    let media = if random.random_bool(0.5) { Media::Text } else { Media::Json };
                    // Texts of the longest batches cost the clients more than the agents.
                    let media = if n > 1_000 || random.random_bool(0.3) { Media::Packed } else { media };
                    let url = format!("http://{agent}/segment/{name}?n={n}");
                    let trouble = match client.get_as(&url, media).await {
                        Ok(answer) if answer.status == 200 => {
                            let got = read(media, &answer.body)?;
                            anyhow::ensure!(got.len() == n as usize, "{} numbers of {name} instead of {n}", got.len());
                            numbers.take(name, &got);
                            continue;
                        }
                        Ok(answer) => answer.code(),
                        Err(_) => "no answer".to_owned(),
                    };
                    *troubles.lock().unwrap_or_else(PoisonError::into_inner).entry(trouble).or_default() += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                Ok(())
            });
        }
        load
    }

    /// Counts of what clients were told beside numbers so far, by code.
    pub fn troubles(&self) -> BTreeMap<String, u64> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends all clients, and says what they were told beside numbers.
    ///
    /// # Errors
    /// If one of them got an answer that is none.
    pub async fn stop(mut self) -> anyhow::Result<BTreeMap<String, u64>> {
        self.stop.store(true, Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        Ok(self.troubles())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oracle_sees_what_came_twice_and_what_is_missing() {
        let numbers = Numbers::default();
        numbers.take("a", &[1, 2, 3, 7, 8]);
        numbers.take("b", &[3, 4]);
        assert_eq!(numbers.verdict(), Verdict { numbers: 7, duplicates: 0, gaps: 3, greatest: 8 });
        numbers.take("a", &[4, 5, 6]);
        assert_eq!(numbers.verdict(), Verdict { numbers: 10, duplicates: 0, gaps: 0, greatest: 8 });
        numbers.take("a", &[2, 3, 4, 9]);
        assert_eq!(numbers.verdict(), Verdict { numbers: 14, duplicates: 3, gaps: 0, greatest: 9 });
        numbers.take("b", &[4]);
        assert_eq!(numbers.verdict().duplicates, 4);
        assert_eq!(numbers.total(), 15);
    }
}
