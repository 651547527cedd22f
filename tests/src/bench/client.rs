//! The generator for numbers of keys through the crate `uniq-client`, which learns the routes and asks the agent that serves a key.

use super::figures::{Figures, Latencies, processor_time};
use anyhow::{Context as _, Result, bail};
use common::sequence::Slot;
use futures::stream::{FuturesUnordered, StreamExt as _};
use std::time::{Duration, Instant};
use uniq_client::{Client, Settings};

/// The calls to make.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Agents, as the client takes them: `tarpc://HOST:PORT` or `http://HOST:PORT`.
    pub agents: Vec<String>,
    /// The sequence.
    pub name: String,
    /// First keys of the ranges.
    pub first_keys: Vec<u32>,
    /// Keys in all, taken from the ranges in turn.
    pub keys: u32,
    /// Keys asked for in a call.
    pub batch: u32,
    /// Calls in flight.
    pub in_flight: usize,
    /// Time before anything is measured.
    pub warmup: Duration,
    /// Time that is measured.
    pub duration: Duration,
    /// The agents' processes, to measure their processor time.
    pub pids: Vec<u32>,
}

/// A call, from the key with that number on.
async fn call(client: &Client, name: &str, keys: &[Slot], nth: usize, batch: usize) -> Result<(Instant, u64)> {
    let began = Instant::now();
    let of = |at: usize| keys.get(at % keys.len().max(1)).copied().context("no key");
    if batch == 1 {
        client.sequence(name, of(nth)?).await?;
        return Ok((began, 1));
    }
    let asked = (nth..nth + batch).map(of).collect::<Result<Vec<_>>>()?;
    let given = client.sequence_many(name, &asked).await?;
    if let Some(code) = given.iter().find_map(|one| one.err()) {
        bail!("a key got no number: {code}");
    }
    Ok((began, given.len() as u64))
}

fn processor(pids: &[u32]) -> Option<Duration> {
    pids.iter().map(|pid| processor_time(*pid)).sum()
}

/// Runs the plan.
///
/// # Errors
/// If a key gets no number.
pub async fn run(plan: Plan) -> Result<Figures> {
    let client = Client::new(Settings::new(plan.agents.iter().map(String::as_str))?)?;
    let ranges = plan.first_keys.len().max(1) as u32;
    let key = |nth: u32| Some(Slot(plan.first_keys.get((nth % ranges) as usize)?.saturating_add(nth / ranges)));
    let keys: Vec<Slot> = (0..plan.keys).filter_map(key).collect();
    let (batch, mut next) = (plan.batch as usize, 0);
    let mut calls = FuturesUnordered::new();
    let mut begin = || {
        let nth = next;
        next += batch;
        call(&client, &plan.name, &keys, nth, batch)
    };
    (0..plan.in_flight).for_each(|_| calls.push(begin()));
    let (start, mut measured) = (Instant::now(), None);
    let (mut latencies, mut answers, mut numbers) = (Latencies::new()?, 0u64, 0u64);
    loop {
        let (began, given) = calls.next().await.context("no call was made")??;
        let now = Instant::now();
        latencies.note(u64::try_from((now - began).as_nanos()).unwrap_or(u64::MAX));
        (answers, numbers) = (answers + 1, numbers + given);
        calls.push(begin());
        match measured {
            None if now - start >= plan.warmup => {
                latencies.clear();
                (answers, numbers) = (0, 0);
                measured = Some((now, processor(&plan.pids)));
            }
            Some((since, before)) if now - since >= plan.duration => {
                let seconds = (now - since).as_secs_f64();
                let used = processor(&plan.pids).zip(before).map(|(end, start)| end.saturating_sub(start));
                return Ok(Figures {
                    seconds,
                    requests: answers,
                    per_second: answers as f64 / seconds,
                    latency: latencies.spread(),
                    checked: numbers,
                    server_us: used.map(|used| used.as_secs_f64() * 1e6 / (answers.max(1) as f64)),
                    ..Figures::default()
                });
            }
            _ => {}
        }
    }
}
