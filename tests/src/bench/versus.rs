//! Two versions of the programs on one machine in one run: the same load on the older and the newer agent in turn.
//!
//! The machine's pace changes from moment to moment, so what is compared ran right after one another, who goes first
//! changes from round to round, and of all rounds the median counts. Each version lives in a process of its own
//! ([`keep`]), because the folder of the programs under test is one for a whole process.

use super::compare::BATCH;
use super::contenders::{GENERATOR_CORE, pin};
use super::figures::Figures;
use crate::client::Client;
use crate::cluster::{Cluster, PATIENCE};
use crate::programs::{BIN_DIR, Daemon};
use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Between two looks whether a program that was started anew serves.
const LOOK: Duration = Duration::from_millis(2);

/// The programs to compare, and the extent of the measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The folder with the older programs.
    pub old: PathBuf,
    /// The folder with the newer ones.
    pub new: PathBuf,
    /// The executables of `cargo bench -p uniq-agent --bench peers`, older and newer; minting in process is left out without.
    pub in_process: Option<(PathBuf, PathBuf)>,
    /// The number of turns that everything has.
    pub rounds: usize,
    /// The length of each turn, in milliseconds.
    pub turn_ms: u64,
}

/// The addresses and the process of a kept cluster's agent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Kept {
    http: SocketAddr,
    rpc: SocketAddr,
    pid: u32,
}

/// Times that programs of a kept cluster took from their start to their service, in milliseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Restarted {
    /// An agent with both masters there, to its first ID.
    agent: f64,
    /// A master with the other one and the agent there, until it is ready to grant.
    master: f64,
}

/// Starts two masters and an agent from the programs of this process, prints where the agent is, and keeps them until
/// standard input ends. Each batch scenario has a generator of its own for each of `rounds`: an hour has 2^31 serials.
/// For each line that comes in, the agent and then a master are ended and started again, and it prints how long that took.
///
/// # Errors
/// If something does not start.
pub async fn keep(rounds: usize) -> Result<()> {
    let mut cluster = Cluster::start(1, &["--threads", "1"]).await?;
    for daemon in cluster.daemons() {
        pin(daemon.pid().context("a process of the cluster has ended")?)?;
    }
    for name in (0..rounds).flat_map(|round| [format!("packed-{round}"), format!("text-{round}")]) {
        let url = cluster.agent_url(0, &format!("generators/{name}"))?;
        // A series of serials of its own; programs that know no scopes give each name one anyway.
        let definitions = [&br#"{"kind":"uniq64","scope":"own"}"#[..], br#"{"kind":"uniq64"}"#];
        let mut status = 0;
        for definition in definitions {
            status = cluster.client.ask("PUT", &url, definition.to_vec()).await?.status;
            if status != 400 {
                break;
            }
        }
        if status != 201 {
            bail!("cannot register {name}: {status}");
        }
    }
    let agent = cluster.agents.first().context("no agent")?;
    let pid = agent.daemon.pid().context("the agent has ended")?;
    let kept = Kept { http: agent.daemon.http, rpc: agent.rpc_listen, pid };
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&kept)?)?;
    while tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await?? > 0 {
        let (mints, grants) =
            (cluster.agent_url(0, "uniq64")?, format!("http://{}/readyz", cluster.master(1)?.daemon.http));
        let client = cluster.client.clone();
        let agent = restart(&mut cluster.agent(0)?.daemon, &client, &mints).await?;
        let master = restart(&mut cluster.master(1)?.daemon, &client, &grants).await?;
        cluster.all_ready().await?;
        writeln!(std::io::stdout(), "{}", serde_json::to_string(&Restarted { agent, master })?)?;
    }
    Ok(())
}

/// Ends a program and starts it again. Gives the milliseconds from the start until `url` answers 200.
async fn restart(daemon: &mut Daemon, client: &Client, url: &str) -> Result<f64> {
    daemon.terminate().await?;
    let began = Instant::now();
    daemon.start()?;
    pin(daemon.pid().context("it has ended")?)?;
    while !client.get(url).await.is_ok_and(|answer| answer.status == 200) {
        if began.elapsed() > PATIENCE {
            bail!("{url} is not served {PATIENCE:?} after a restart\n{}", daemon.log_tail(40));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

/// A version under load. Dropping it ends its processes.
struct Version {
    keeper: Child,
    says: BufReader<ChildStdout>,
    kept: Kept,
}

impl Version {
    fn start(programs: &Path, rounds: usize) -> Result<Self> {
        let programs = std::fs::canonicalize(programs).with_context(|| format!("no folder {}", programs.display()))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["keep", "--rounds", &rounds.to_string()]).env(BIN_DIR, &programs);
        let mut keeper = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (mut line, mut says) = (String::new(), BufReader::new(keeper.stdout.take().context("no output")?));
        says.read_line(&mut line)?;
        let kept = serde_json::from_str(&line).with_context(|| format!("{} did not start", programs.display()))?;
        Ok(Self { keeper, says, kept })
    }

    fn restart(&mut self) -> Result<Restarted> {
        writeln!(self.keeper.stdin.as_mut().context("no input")?)?;
        let mut line = String::new();
        self.says.read_line(&mut line)?;
        serde_json::from_str(&line).context("it did not start again")
    }

    fn load(&self, lane: &Lane, round: usize, turn_ms: u64) -> Result<Figures> {
        let target = if lane.command == "rpc" { self.kept.rpc } else { self.kept.http };
        let mut command = Command::new("taskset");
        command.args(["-c", GENERATOR_CORE]).arg(std::env::current_exe()?).arg(lane.command);
        command.args(["--target", &target.to_string(), "--pid", &self.kept.pid.to_string(), "--json"]);
        command.args(lane.args.iter().map(|arg| arg.replace(ROUND, &round.to_string())));
        command.args(["--warmup", "300ms", "--duration", &format!("{turn_ms}ms")]);
        let ended = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        if !ended.status.success() {
            bail!("the load '{}' failed: {}", lane.key, String::from_utf8_lossy(&ended.stdout));
        }
        Ok(serde_json::from_slice(&ended.stdout)?)
    }
}

impl Drop for Version {
    fn drop(&mut self) {
        // The end of its input ends it, and with it all processes of its cluster.
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// In a lane's arguments: the number of the round.
const ROUND: &str = "{round}";

struct Lane {
    key: &'static str,
    command: &'static str,
    args: Vec<String>,
}

fn lanes() -> Vec<Lane> {
    let lane = |key, command, args: &[&str]| {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        Lane { key, command, args }
    };
    let [packed, text] = ["packed", "text"].map(|name| format!("/uniq64/{name}-{ROUND}?n={BATCH}"));
    vec![
        lane("one", "http", &["--check", "decimal"]),
        lane("pipelined", "http", &["--depth", "16", "--check", "decimal"]),
        lane("packed", "http", &["--path", &packed, "--connections", "16", "--accept", "application/octet-stream"]),
        lane("text", "http", &["--path", &text, "--connections", "16"]),
        lane("tarpc", "rpc", &["--connections", "1", "--in-flight", "1000"]),
    ]
}

/// Measures both in turn and prints, for each scenario, `RATIO name=value` and the quartiles of its rounds: newer to older of
/// answers a second and, inverted, of processor time and of the time from a start to service; above 1 the newer one is better.
///
/// # Errors
/// If something does not start, does not answer, or gives an ID twice.
pub fn run(plan: &Plan) -> Result<()> {
    let mut versions = [Version::start(&plan.old, plan.rounds)?, Version::start(&plan.new, plan.rounds)?];
    let mut rates: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut processor: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut twice = 0;
    for round in 0..plan.rounds {
        for lane in &lanes() {
            let mut seen = [Figures::default(), Figures::default()];
            let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            for version in order {
                let (Some(version), Some(place)) = (versions.get(version), seen.get_mut(version)) else { continue };
                *place = version.load(lane, round, plan.turn_ms)?;
                twice += place.duplicates;
            }
            let [old, new] = seen;
            rates.entry(lane.key).or_default().push(new.per_second / old.per_second);
            if let (Some(old), Some(new)) = (old.server_us, new.server_us) {
                processor.entry(lane.key).or_default().push(old / new);
            }
        }
    }
    let (mut restarts, mut took) = (BTreeMap::new(), BTreeMap::new());
    for round in 0..plan.rounds {
        let [first, second] = &mut versions;
        let (old, new) = if round % 2 == 0 {
            (first.restart()?, second.restart()?)
        } else {
            let new = second.restart()?;
            (first.restart()?, new)
        };
        for (key, old, new) in [("restart_agent", old.agent, new.agent), ("restart_master", old.master, new.master)] {
            restarts.entry(key).or_insert_with(Vec::new).push(old / new);
            let (olds, news): &mut (Vec<f64>, Vec<f64>) = took.entry(key).or_default();
            olds.push(old);
            news.push(new);
        }
    }
    drop(versions);
    let mut out = std::io::stdout().lock();
    for (key, values) in rates {
        writeln!(out, "RATIO {key}={}", Spread(values))?;
    }
    for (key, values) in processor {
        writeln!(out, "RATIO {key}_processor={}", Spread(values))?;
    }
    for (key, values) in restarts {
        writeln!(out, "RATIO {key}={}", Spread(values))?;
    }
    for (key, (old, new)) in took {
        writeln!(out, "{key} in milliseconds: older {}; newer {}", Spread(old), Spread(new))?;
    }
    if let Some((old, new)) = &plan.in_process {
        let mut ns: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for round in 0..plan.rounds.div_ceil(3) {
            let (first, second) = if round % 2 == 0 { (old, new) } else { (new, old) };
            let (first, second) = (in_process(first)?, in_process(second)?);
            let (old, new) = if round % 2 == 0 { (first, second) } else { (second, first) };
            for (name, old) in old {
                if let Some(new) = new.get(&name) {
                    ns.entry(name).or_default().push(old / new);
                }
            }
        }
        for (name, values) in ns {
            writeln!(out, "RATIO {name}={}", Spread(values))?;
        }
    }
    if twice > 0 {
        bail!("{twice} IDs came twice");
    }
    Ok(())
}

/// Nanoseconds an ID of our own generators, as the bench prints them in its table: with one thread and with two.
fn in_process(bench: &Path) -> Result<BTreeMap<String, f64>> {
    let ended = Command::new(bench).args(["--bench", "--quick"]).stdin(Stdio::null()).output();
    let ended = ended.with_context(|| format!("cannot run {}", bench.display()))?;
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    let mut found = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("uniq")) {
        let figures: Vec<f64> = line.split_whitespace().rev().take(2).filter_map(|word| word.parse().ok()).collect();
        let [two, one] = figures[..] else { continue };
        let name: String = line.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == ' ').to_owned();
        let name = name.replace([',', ' '], "_").replace("__", "_");
        found.insert(format!("{name}_1_thread"), one);
        found.insert(format!("{name}_2_threads"), two);
    }
    if found.is_empty() {
        bail!("{} printed no figures: {text}", bench.display());
    }
    Ok(found)
}

/// The values that the rounds gave: shown as their median, and in brackets between what the middle half of them lies.
pub struct Spread(pub Vec<f64>);

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut values = self.0.clone();
        values.sort_by(f64::total_cmp);
        let at = |quarters: usize| values.get(values.len() * quarters / 4).copied().unwrap_or(f64::NAN);
        write!(f, "{:.3} ({:.3} to {:.3})", at(2), at(1), at(3))
    }
}
