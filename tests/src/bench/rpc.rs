//! The generator for tarpc: so many calls in flight on each connection, all the time.

use super::check::Seen;
use super::figures::{Figures, Latencies, processor_time};
use super::peers::EchoClient;
use anyhow::{Context as _, Result, bail};
use futures::stream::{FuturesUnordered, StreamExt as _};
use net::rpc::mint::MintServiceClient;
use net::rpc::transport::{connect, deadline_in};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The longest time that a call may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The method to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Call {
    /// `uniq64` of `MintService`.
    Uniq64,
    /// The bare echo that `uniq_bench serve tarpc-echo` answers.
    Echo,
}

/// The calls to make.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The address at which the server listens.
    pub target: SocketAddr,
    /// The method to call.
    pub call: Call,
    /// IDs asked for in a call.
    pub n: u32,
    /// Connections.
    pub connections: usize,
    /// Calls in flight on each.
    pub in_flight: usize,
    /// Time before anything is measured.
    pub warmup: Duration,
    /// Time that is measured.
    pub duration: Duration,
    /// The server's process, to measure its processor time.
    pub pid: Option<u32>,
}

#[derive(Clone)]
enum Client {
    Mint(MintServiceClient),
    Echo(EchoClient),
}

impl Client {
    async fn call(&self, n: u32) -> Result<(Instant, Vec<u64>)> {
        let began = Instant::now();
        let ids = match self {
            Self::Mint(client) => client.uniq64(deadline_in(PATIENCE), String::new(), n).await??,
            Self::Echo(client) => client.echo(deadline_in(PATIENCE), String::new(), n).await??,
        };
        Ok((began, ids))
    }
}

/// Runs the plan.
///
/// # Errors
/// If the server does not answer, or with an error.
pub async fn run(plan: Plan) -> Result<Figures> {
    let mut config = tarpc::client::Config::default();
    config.max_in_flight_requests = plan.in_flight;
    config.pending_request_buffer = plan.in_flight;
    let target = plan.target.to_string();
    let mut clients = Vec::new();
    for _ in 0..plan.connections {
        let lost = || format!("cannot connect to {target}; is the server running?");
        clients.push(match plan.call {
            Call::Uniq64 => {
                Client::Mint(MintServiceClient::new(config.clone(), connect(&target).await.with_context(lost)?).spawn())
            }
            Call::Echo => {
                Client::Echo(EchoClient::new(config.clone(), connect(&target).await.with_context(lost)?).spawn())
            }
        });
    }
    let mut calls = FuturesUnordered::new();
    let call = |client: Client| async move { (client.call(plan.n).await, client) };
    for client in &clients {
        for _ in 0..plan.in_flight {
            calls.push(call(client.clone()));
        }
    }
    let (start, mut measured) = (Instant::now(), None);
    let (mut latencies, mut answers, mut seen) = (Latencies::new()?, 0u64, Seen::default());
    loop {
        let Some((answer, client)) = calls.next().await else { bail!("no call was made") };
        let (began, ids) = answer?;
        let now = Instant::now();
        latencies.note(u64::try_from((now - began).as_nanos()).unwrap_or(u64::MAX));
        answers += 1;
        if plan.call == Call::Uniq64 {
            ids.iter().for_each(|id| seen.note((*id).into()));
        }
        calls.push(call(client));
        match measured {
            None if now - start >= plan.warmup => {
                latencies.clear();
                answers = 0;
                measured = Some((now, plan.pid.and_then(processor_time)));
            }
            Some((since, processor)) if now - since >= plan.duration => {
                let seconds = (now - since).as_secs_f64();
                let used = plan.pid.and_then(processor_time).zip(processor).map(|(end, start)| end - start);
                return Ok(Figures {
                    seconds,
                    requests: answers,
                    per_second: answers as f64 / seconds,
                    latency: latencies.spread(),
                    checked: seen.count(),
                    duplicates: seen.duplicates(),
                    server_us: used.map(|used| used.as_secs_f64() * 1e6 / (answers.max(1) as f64)),
                    ..Figures::default()
                });
            }
            _ => {}
        }
    }
}
