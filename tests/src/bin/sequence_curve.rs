//! The cost of sequences to the masters and to an agent's memory as agents, keys and steps grow: one line for each point of the curve.
#![allow(clippy::print_stdout, reason = "a tool that prints what it measured")]

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tests::cluster::{Cluster, until};
use tests::keyed::Keys;
use tests::keyed::bulk::Bulk;

/// The longest time that the first number of each key may take to come.
const LOAD_MAX: Duration = Duration::from_secs(300);

/// Masters and agents of their own on loopback, and clients that ask for every key again and again, 10,000 to a call. Set
/// UNIQ_BIN_DIR to programs that are built already.
#[derive(Debug, Parser)]
struct Args {
    /// Seconds for which each point is measured.
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// Clients, each with its part of the keys.
    #[arg(long, default_value_t = 2)]
    clients: u32,
}

/// One point.
#[derive(Clone, Copy)]
struct Point {
    agents: usize,
    keys: u32,
    sections: u32,
    step: u32,
}

/// From which one thing at a time is changed.
const BASE: Point = Point { agents: 2, keys: 1_000_000, sections: 4_000, step: 100 };

fn points() -> Vec<Point> {
    let agents = [1, 4].map(|agents| Point { agents, ..BASE });
    let keys = [10_000, 100_000, 4_000_000].map(|keys| Point { keys, ..BASE });
    let sections = [400, 40_000].map(|sections| Point { sections, ..BASE });
    let steps = [10, 1_000, 10_000].map(|step| Point { step, ..BASE });
    [vec![BASE], agents.into(), keys.into(), sections.into(), steps.into()].concat()
}

/// The sum of a metric over some processes.
async fn metric(cluster: &Cluster, at: &[SocketAddr], name: &str) -> Result<f64> {
    let mut sum = 0.0;
    for at in at {
        let answer = cluster.client.get(&format!("http://{at}/metrics")).await?;
        let text = answer.text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        sum += line.with_context(|| format!("{at} has no metric {name}"))?.trim().parse::<f64>()?;
    }
    Ok(sum)
}

struct Counted {
    at: Instant,
    numbers: u64,
    raises: f64,
    commits: f64,
}

async fn measure(point: Point, args: &Args) -> Result<()> {
    let cluster = Cluster::start(point.agents, &["--sequence-memory", "4294967296"]).await?;
    let masters: Vec<SocketAddr> = cluster.masters.iter().map(|master| master.daemon.http).collect();
    let agents: Vec<SocketAddr> = cluster.agents.iter().map(|agent| agent.daemon.http).collect();
    let definition = format!(r#"{{"kind":"sequence","step":{}}}"#, point.step);
    let url = cluster.agent_url(0, "generators/curve")?;
    let done = || async {
        let answer = cluster.client.ask("PUT", &url, definition.clone().into_bytes()).await.ok()?;
        [200, 201].contains(&answer.status).then_some(())
    };
    until("the name is registered", done).await?;
    let resident = || cluster.agents.iter().map(|agent| agent.daemon.memory().unwrap_or(0)).sum::<u64>();
    let (before, began) = (resident(), Instant::now());
    let keys = Keys { count: point.keys, sections: point.sections, per_section: 100_000, text: false };
    let bulk = Bulk::start(&cluster.client, &agents, "curve", keys, args.clients, false, 1);
    while bulk.rounds() == 0 {
        ensure!(began.elapsed() < LOAD_MAX, "not every key came within {LOAD_MAX:?}: {:?}", bulk.verdict());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let loaded = began.elapsed();
    let counted = async || -> Result<Counted> {
        Ok(Counted {
            at: Instant::now(),
            numbers: bulk.verdict().numbers,
            raises: metric(&cluster, &agents, "uniq_sequence_raises_total").await?,
            commits: metric(&cluster, &masters, "uniq_master_commits_total").await?,
        })
    };
    let one = counted().await?;
    tokio::time::sleep(Duration::from_secs(args.seconds)).await;
    let two = counted().await?;
    let memory = metric(&cluster, &agents, "uniq_sequence_memory_bytes").await?;
    let grown = resident().saturating_sub(before);
    let verdict = bulk.stop().await?;
    ensure!(verdict.disorder == 0, "numbers out of order: {verdict:?}");
    let seconds = two.at.duration_since(one.at).as_secs_f64();
    println!(
        "{:>6} {:>9} {:>8} {:>6} {:>8.1} {:>12.0} {:>9.1} {:>9.1} {:>9.0} {:>9.0}",
        point.agents,
        point.keys,
        point.sections,
        point.step,
        loaded.as_secs_f64(),
        (two.numbers - one.numbers) as f64 / seconds,
        (two.raises - one.raises) / seconds,
        (two.commits - one.commits) / seconds,
        memory / f64::from(point.sections),
        grown as f64 / f64::from(point.sections),
    );
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    println!("agents      keys sections   step   load s    numbers/s  raises/s commits/s  B/section RSS B/sec.");
    for point in points() {
        measure(point, &args).await?;
    }
    println!("(commits of both masters; B/section: what agents count for keys; RSS: what their processes grew by)");
    Ok(())
}
