//! Everything in turn, over and over, on one machine in one run.
//!
//! Machines differ, and one machine differs from minute to minute; so only ratios count, each of two figures that were
//! measured right after one another, and of several such rounds the median. Beside the ratio of answers a second there is
//! one of the processor time that an answer takes its server, which other work on the machine disturbs less.

use super::contenders::{Contenders, GENERATOR_CORE, Server};
use super::figures::Figures;
use super::report;
use crate::cluster::Cluster;
use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// In a lane's arguments: the number of the round.
const ROUND: &str = "{round}";

/// IDs in a batch.
pub const BATCH: usize = 10_000;

/// The extent of the measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The number of turns that everything has.
    pub rounds: usize,
    /// The length of each turn, in milliseconds.
    pub turn_ms: u64,
    /// The file to which the report is written, if it is.
    pub report: Option<PathBuf>,
    /// The file with what `cargo bench -p uniq-agent --bench peers` printed, to be part of the report.
    pub in_process: Option<PathBuf>,
}

/// The measurements of one contender in one scenario, round by round.
pub struct Lane {
    /// The contender.
    pub name: &'static str,
    /// Figures of its runs.
    pub runs: Vec<Figures>,
    load: Load,
}

/// Contenders that did the same.
pub struct Scenario {
    /// Short, for ratios and file names.
    pub key: &'static str,
    /// For people.
    pub title: &'static str,
    /// Ours first.
    pub lanes: Vec<Lane>,
}

enum Load {
    /// Arguments of this program.
    Own(Vec<String>),
    Postgres,
}

impl Lane {
    fn new(name: &'static str, command: &str, server: &Server, more: &[&str]) -> Self {
        let (target, pid) = (server.address.to_string(), server.pid.to_string());
        let args = [&[command, "--target", &target, "--pid", &pid, "--json"], more].concat();
        Self { name, runs: Vec::new(), load: Load::Own(args.into_iter().map(str::to_owned).collect()) }
    }

    fn turn(&mut self, contenders: &Contenders, turn_ms: u64, round: usize) -> Result<()> {
        let figures = match &self.load {
            Load::Own(args) => {
                let args = args.iter().map(|arg| arg.replace(ROUND, &round.to_string()));
                let mut command = Command::new("taskset");
                command.args(["-c", GENERATOR_CORE]).arg(std::env::current_exe()?).args(args);
                command.args(["--warmup", "300ms", "--duration", &format!("{turn_ms}ms")]);
                let ended = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
                if !ended.status.success() {
                    bail!("the load on {} failed: {}", self.name, String::from_utf8_lossy(&ended.stdout));
                }
                serde_json::from_slice(&ended.stdout)?
            }
            Load::Postgres => contenders.postgres.as_ref().context("no PostgreSQL")?.load(turn_ms / 1_000)?,
        };
        self.runs.push(figures);
        Ok(())
    }
}

fn scenarios(c: &Contenders) -> Vec<Scenario> {
    let singles = |depth: &str| {
        let depth = ["--depth", depth];
        let checked = [&depth[..], &["--check", "decimal"]].concat();
        let root = [&depth[..], &["--path", "/"]].concat();
        let mut lanes = vec![
            Lane::new("uniq_generator, GET /uniq64", "http", &c.agent, &checked),
            Lane::new("bare hyper", "http", &c.hyper, &root),
            Lane::new("bare axum", "http", &c.axum, &root),
        ];
        if let Some([memory, always]) = &c.redis {
            lanes.push(Lane::new("Redis INCR, in memory", "resp", memory, &checked));
            lanes.push(Lane::new("Redis INCR, appendfsync always", "resp", always, &checked));
        }
        lanes
    };
    let mut one = singles("1");
    if c.postgres.is_some() {
        one.push(Lane { name: "PostgreSQL nextval, prepared, 16 conn.", runs: Vec::new(), load: Load::Postgres });
    }
    let [packed_path, text_path] = BATCH_NAMES.map(|name| format!("/uniq64/{name}{ROUND}?n={BATCH}"));
    let text = ["--path", &text_path, "--connections", "16"];
    let packed = ["--path", &packed_path, "--connections", "16", "--accept", "application/octet-stream"];
    let buffer = ["--path", "/buffer", "--connections", "16"];
    let calls = ["--connections", "1", "--in-flight", "1000"];
    let echo = [&calls[..], &["--call", "echo"]].concat();
    let (agent, ready) = ("uniq_generator", "a ready buffer, axum");
    let scenario = |key, title, lanes| Scenario { key, title, lanes };
    vec![
        scenario("one", "One ID a request, 64 keep-alive connections", one),
        scenario("pipelined", "One ID a request, 64 connections, 16 requests pipelined on each", singles("16")),
        scenario(
            "packed",
            "Batches of 10,000, packed (80,000 bytes)",
            vec![Lane::new(agent, "http", &c.agent, &packed), Lane::new(ready, "http", &c.packed_buffer, &buffer)],
        ),
        scenario(
            "text",
            "Batches of 10,000, text (200,000 bytes)",
            vec![Lane::new(agent, "http", &c.agent, &text), Lane::new(ready, "http", &c.text_buffer, &buffer)],
        ),
        scenario(
            "tarpc",
            "tarpc, one connection, 1,000 calls in flight",
            vec![Lane::new(agent, "rpc", &c.agent_rpc, &calls), Lane::new("bare tarpc echo", "rpc", &c.echo, &echo)],
        ),
    ]
}

/// Batches take hundreds of millions of IDs a second, and a scope has 2^31 an hour: each round has generators with scopes of
/// their own, as an application with that appetite would.
const BATCH_NAMES: [&str; 2] = ["packed-", "text-"];

async fn name_generators(cluster: &Cluster, round: usize) -> Result<()> {
    for name in BATCH_NAMES {
        cluster.register(&format!("{name}{round}"), r#"{"kind":"uniq64","scope":"own"}"#).await?;
    }
    Ok(())
}

/// Starts everything, measures, and prints tables and ratios.
///
/// # Errors
/// If something does not start, does not answer, or gives an ID twice.
pub async fn run(plan: Plan) -> Result<()> {
    let machine = report::machine();
    eprintln!("Starting two masters, an agent and its peers ...");
    let contenders = Contenders::start(BATCH).await?;
    if contenders.redis.is_none() {
        eprintln!("redis-server is not installed: its figures are left out");
    }
    if contenders.postgres.is_none() {
        eprintln!("PostgreSQL is not installed: its figures are left out");
    }
    let mut scenarios = scenarios(&contenders);
    let turns = scenarios.iter().map(|scenario| scenario.lanes.len()).sum::<usize>() * plan.rounds;
    let bar = ProgressBar::new(turns as u64);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    for round in 0..plan.rounds {
        name_generators(&contenders.cluster, round).await?;
        for lane in scenarios.iter_mut().flat_map(|scenario| &mut scenario.lanes) {
            bar.set_message(lane.name);
            lane.turn(&contenders, plan.turn_ms, round)?;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    drop(contenders);
    let in_process = plan.in_process.as_deref().map(std::fs::read_to_string).transpose()?;
    report::print(&scenarios, &machine)?;
    if let Some(path) = &plan.report {
        report::write(path, &scenarios, &machine, in_process.as_deref(), &plan)?;
    }
    let twice: u64 = scenarios.iter().flat_map(|s| &s.lanes).flat_map(|l| &l.runs).map(|run| run.duplicates).sum();
    if twice > 0 {
        bail!("{twice} IDs came twice");
    }
    Ok(())
}
