//! Segments and sequences: beside Uniq64, whose way they share, beside Redis's `INCR`, and in process beside an atomic counter.
//!
//! Everything has its turn in each round, who is compared right after one another; of a ratio the median of the rounds counts, and their
//! range is told. Rates are of numbers, not of calls, so that a call for ten thousand keys stands beside ten thousand `INCR`s.

use super::contenders::{GENERATOR_CORE, pin, redis};
use super::figures::Figures;
use super::report::{self, median};
use super::steady::{self, Noticed};
use super::{compare::BATCH, embedded};
use crate::cluster::{Cluster, until};
use anyhow::{Context as _, Result, bail, ensure};
use common::sequence::KEYS_PER_SECTION_DEFAULT;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A segment for whoever takes hundreds of millions a second: one lasts a moment, as for anybody else.
pub const LARGE_STEPS: &str = r#"{"kind":"segment","step":100000000,"step_max":1000000000}"#;
const SEGMENT: &str = "bench-segment";
const SEQUENCE: &str = "bench-sequence";
/// Different keys of calls for one key each.
const KEYS: usize = 1_000;
/// In a lane's arguments: the number of the round.
const ROUND: &str = "{round}";
/// The plot of the steady load, beside the page.
const PLOT: &str = "segments.svg";
/// A sequence that lets both agents serve sections before the one that is measured is used.
const BEFORE: &str = "bench-before";
/// Time in which agents announce that they serve sections.
const ANNOUNCED: Duration = Duration::from_secs(4);
/// New keys are so far from all others.
const NEW_AT: u32 = 1_000_000;
/// Lanes that ask for new keys, each for other ones.
const NEW_LANES: u32 = 6;

/// The extent of the measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The number of turns that everything has.
    pub rounds: usize,
    /// The length of each turn, in milliseconds.
    pub turn_ms: u64,
    /// Keys that nobody used before in each round.
    pub new_keys: u32,
    /// The length of each steady load.
    pub steady: Duration,
    /// The page in which the part on segments and sequences is put anew, if it is.
    pub report: Option<PathBuf>,
}

/// One load, round by round.
struct Lane {
    key: &'static str,
    name: &'static str,
    /// Numbers of an answer.
    each: f64,
    args: Vec<String>,
    /// Of a lane that asks for each key once: the first key in the first round, and how many each round has.
    new: Option<(u32, u32)>,
    runs: Vec<Figures>,
}

/// Lanes of one table.
struct Group {
    title: &'static str,
    lanes: Vec<Lane>,
}

/// Loads that are compared: ours, and what it stands beside.
const PAIRS: &[(&str, &str)] = &[
    ("segment_one", "uniq64_one"),
    ("segment_pipelined", "uniq64_pipelined"),
    ("segment_text", "uniq64_text"),
    ("segment_packed", "uniq64_packed"),
    ("sequence_one", "uniq64_one"),
    ("sequence_one", "incr_memory_one"),
    ("sequence_one", "incr_always_one"),
    ("client_one", "incr_memory_one"),
    ("client_one", "incr_always_one"),
    ("sequence_pipelined", "incr_memory_pipelined"),
    ("sequence_pipelined", "incr_always_pipelined"),
    ("sequence_many", "incr_memory_many"),
    ("sequence_many", "incr_always_many"),
    ("client_many", "incr_memory_many"),
    ("client_many", "incr_always_many"),
    ("new_one", "incr_memory_new_one"),
    ("new_one", "incr_always_new_one"),
    ("new_many", "incr_memory_new_many"),
    ("new_many", "incr_always_new_many"),
];

/// The servers to which the load goes.
struct Targets {
    agent: (SocketAddr, u32),
    /// `tarpc://` addresses and processes of both agents.
    agents: Vec<(String, u32)>,
    redis: Option<[(SocketAddr, u32); 2]>,
    /// The first key of a section that the first agent serves, and of one that the other one does, if it has any.
    first_keys: Vec<u32>,
}

impl Targets {
    /// A lane with these arguments, which are separated by spaces.
    fn lane(key: &'static str, name: &'static str, each: usize, args: &str) -> Lane {
        let args = args.split_whitespace().map(str::to_owned).collect();
        Lane { key, name, each: each as f64, args, new: None, runs: Vec::new() }
    }

    /// At the first agent, by HTTP.
    fn http(&self, key: &'static str, name: &'static str, each: usize, more: &str) -> Lane {
        let (address, pid) = self.agent;
        Self::lane(key, name, each, &format!("http --target {address} --pid {pid} --json {more}"))
    }

    /// At both agents, through the client.
    fn client(&self, key: &'static str, name: &'static str, each: usize, more: &str) -> Lane {
        let agents = self.agents.iter().map(|(agent, pid)| format!("--agent {agent} --pid {pid} "));
        let first = self.first_keys.iter().map(|key| format!("--first-key {key} "));
        let of: String = agents.chain(first).collect();
        let args = format!("client --name {SEQUENCE} --json --keys {BATCH} --batch {each} {of} {more}");
        Self::lane(key, name, each, &args)
    }

    /// Keys that nobody used: one a call, and 10,000 a call. Redis's keys are other ones in each round, too.
    fn new_keys(&self, n: u32) -> Group {
        let (batch, first) = (BATCH as u32, self.first_keys.first().copied().unwrap_or(0).saturating_add(NEW_AT));
        let one = format!("--path /sequence/{SEQUENCE}/{{key}} --keys {n}");
        let many = format!("--path /sequence/{SEQUENCE} --body-keys {batch} --connections 4 --keys {}", n / batch);
        let mut lanes = vec![self.http("new_one", "GET /sequence/NAME/KEY", 1, &one)];
        lanes.extend(self.incr(["incr_memory_new_one", "incr_always_new_one"], &format!("--keys {n}")));
        lanes.push(self.http("new_many", "POST /sequence/NAME, 10,000 keys", BATCH, &many));
        let whole = format!("--keys {n} --depth {batch} --connections 4");
        lanes.extend(self.incr(["incr_memory_new_many", "incr_always_new_many"], &whole));
        for (lane, nth) in lanes.iter_mut().zip(0..) {
            lane.new = Some((first.saturating_add(n.saturating_mul(nth)), n.saturating_mul(NEW_LANES)));
        }
        Group { title: "Keys that nobody used, each asked for once: 64 connections, and 10,000 at once over 4", lanes }
    }

    /// At both Redis servers, if there are some.
    fn incr(&self, keys: [&'static str; 2], more: &str) -> impl Iterator<Item = Lane> {
        let names = ["Redis INCR, in memory", "Redis INCR, appendfsync always"];
        let servers = keys.into_iter().zip(names).zip(self.redis.into_iter().flatten());
        servers.map(move |((key, name), (address, pid))| {
            let args = format!("resp --target {address} --pid {pid} --json {more}");
            let mut lane = Self::lane(key, name, 1, &args);
            // One argument with a space in it.
            lane.args.extend(["--command".to_owned(), "INCR k{key}".to_owned()]);
            lane
        })
    }
}

fn groups(to: &Targets, new_keys: u32) -> Vec<Group> {
    let first = to.first_keys.first().copied().unwrap_or(0);
    let one_key = format!("--path /sequence/{SEQUENCE}/{{key}} --first-key {first} --keys {KEYS}");
    let (segment, uniq64) = (format!("--path /segment/{SEGMENT} --check decimal"), "--check decimal");
    let many_keys = format!("--path /sequence/{SEQUENCE} --first-key {first} --body-keys {BATCH} --connections 4");
    let batch = |path: &str, more: &str| format!("--path {path}?n={BATCH} --connections 16 {more}");
    let packed = "--accept application/octet-stream";
    let singles = |keys: [&'static str; 3], incr: [&'static str; 2], depth: usize| {
        let [of_segment, of_uniq64, of_sequence] = keys;
        let deep = |args: &str| format!("{args} --depth {depth}");
        let mut lanes = vec![
            to.http(of_segment, "GET /segment/NAME", 1, &deep(&segment)),
            to.http(of_uniq64, "GET /uniq64", 1, &deep(uniq64)),
            to.http(of_sequence, "GET /sequence/NAME/KEY", 1, &deep(&one_key)),
        ];
        lanes.extend(to.incr(incr, &deep(&format!("--keys {KEYS}"))));
        lanes
    };
    let mut one = singles(["segment_one", "uniq64_one", "sequence_one"], ["incr_memory_one", "incr_always_one"], 1);
    one.push(to.client("client_one", "client with routes, two agents, 64 calls in flight", 1, "--in-flight 64"));
    let pipelined = singles(
        ["segment_pipelined", "uniq64_pipelined", "sequence_pipelined"],
        ["incr_memory_pipelined", "incr_always_pipelined"],
        16,
    );
    let mut many = vec![
        to.http("sequence_many", "POST /sequence/NAME, 10,000 keys", BATCH, &many_keys),
        to.client("client_many", "client with routes, two agents, 10,000 keys a call", BATCH, "--in-flight 4"),
    ];
    let whole = format!("--keys {BATCH} --depth {BATCH} --connections 4");
    many.extend(to.incr(["incr_memory_many", "incr_always_many"], &whole));
    let (of_segment, of_uniq64) = (format!("/segment/{SEGMENT}"), |form: &str| format!("/uniq64/{form}-{ROUND}"));
    let batches = vec![
        to.http("segment_text", "GET /segment/NAME, text", BATCH, &batch(&of_segment, "")),
        to.http("uniq64_text", "GET /uniq64/NAME, text", BATCH, &batch(&of_uniq64("text"), "")),
        to.http("segment_packed", "GET /segment/NAME, packed", BATCH, &batch(&of_segment, packed)),
        to.http("uniq64_packed", "GET /uniq64/NAME, packed", BATCH, &batch(&of_uniq64("packed"), packed)),
    ];
    vec![
        Group { title: "One number a call, 64 connections", lanes: one },
        Group { title: "One number a call, 16 calls pipelined on each of 64 connections", lanes: pipelined },
        Group { title: "Batches of 10,000", lanes: batches },
        Group { title: "10,000 keys at once; Redis: 10,000 INCR pipelined; 4 connections", lanes: many },
        to.new_keys(new_keys),
    ]
}

fn turn(lane: &mut Lane, turn_ms: u64, round: usize) -> Result<()> {
    let args = lane.args.iter().map(|arg| arg.replace(ROUND, &round.to_string()));
    let mut command = Command::new("taskset");
    command.args(["-c", GENERATOR_CORE]).arg(std::env::current_exe()?).args(args);
    match lane.new {
        Some((first, span)) => {
            let first = first.saturating_add(span.saturating_mul(u32::try_from(round)?));
            command.args(["--once", "--first-key", &first.to_string()]);
        }
        None => drop(command.args(["--warmup", "300ms", "--duration", &format!("{turn_ms}ms")])),
    }
    let ended = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !ended.status.success() {
        bail!("the load '{}' failed: {}", lane.key, String::from_utf8_lossy(&ended.stdout));
    }
    let figures: Figures = serde_json::from_slice(&ended.stdout)?;
    ensure!(figures.refused == 0, "the load '{}' was refused {} times", lane.key, figures.refused);
    ensure!(figures.duplicates == 0, "the load '{}' got {} numbers twice", lane.key, figures.duplicates);
    lane.runs.push(figures);
    Ok(())
}

/// The first key of the widest range of sections of each agent.
async fn first_keys(cluster: &Cluster, agents: &[String]) -> Result<Vec<u32>> {
    let routes = cluster.routes(SEQUENCE).await?;
    let of = |agent: &String| {
        let its = routes.iter().filter(|route| route.http == *agent);
        let widest = its.max_by_key(|route| route.to - route.from)?;
        u32::try_from(widest.from).ok()?.checked_mul(KEYS_PER_SECTION_DEFAULT)
    };
    let keys: Option<_> = agents.iter().map(of).collect();
    keys.with_context(|| format!("not every agent serves sections: {routes:?}"))
}

/// Uses each key once, so that its section is loaded where it will be asked for.
async fn use_keys(cluster: &Cluster, first_keys: &[u32]) -> Result<()> {
    for first in first_keys {
        let body: String = (*first..first + BATCH as u32).map(|key| format!("{key}\n")).collect();
        let url = cluster.agent_url(0, &format!("sequence/{SEQUENCE}"))?;
        let client = &cluster.client;
        let used = async || {
            let answer = client.ask("POST", &url, body.clone().into_bytes()).await.ok()?;
            (answer.status == 200 && !answer.text().contains('!')).then_some(())
        };
        until("the keys are served", used).await?;
    }
    Ok(())
}

/// Starts everything, measures, and prints tables and ratios.
///
/// # Errors
/// If something does not start, does not answer, or gives a number twice.
pub async fn run(plan: Plan) -> Result<()> {
    let machine = report::machine();
    eprintln!("Starting two masters, two agents and Redis ...");
    let mut cluster = Cluster::start(2, &["--threads", "1"]).await?;
    for daemon in cluster.daemons() {
        pin(daemon.pid().context("a process of the cluster has ended")?)?;
    }
    let servers = redis(&mut cluster)?;
    if servers.is_none() {
        eprintln!("redis-server is not installed: its figures are left out");
    }
    cluster.register(SEGMENT, LARGE_STEPS).await?;
    for name in [BEFORE, SEQUENCE] {
        cluster.register(name, r#"{"kind":"sequence"}"#).await?;
        cluster.all_give(&format!("sequence/{name}/0")).await?;
        tokio::time::sleep(ANNOUNCED).await;
    }
    let mut agents = Vec::new();
    for agent in &cluster.agents {
        agents.push((agent.daemon.http, agent.rpc_listen, agent.daemon.pid().context("an agent has ended")?));
    }
    let addresses: Vec<String> = agents.iter().map(|(http, ..)| http.to_string()).collect();
    let first_keys = first_keys(&cluster, &addresses).await?;
    use_keys(&cluster, &first_keys).await?;
    let (http, _, pid) = agents.first().copied().context("no agent")?;
    let targets = Targets {
        agent: (http, pid),
        agents: agents.iter().map(|(_, rpc, pid)| (format!("tarpc://{rpc}"), *pid)).collect(),
        redis: servers.as_ref().map(|servers| servers.each_ref().map(|server| (server.address, server.pid))),
        first_keys,
    };
    let mut groups = groups(&targets, plan.new_keys);
    for round in 0..plan.rounds {
        for name in ["text", "packed"] {
            cluster.register(&format!("{name}-{round}"), r#"{"kind":"uniq64","scope":"own"}"#).await?;
        }
        for lane in groups.iter_mut().flat_map(|group| &mut group.lanes) {
            turn(lane, plan.turn_ms, round)?;
        }
        eprintln!("round {} of {}", round + 1, plan.rounds);
    }
    drop(servers);
    eprintln!("A steady load on small segments ...");
    let noticed = steady::measure(&mut cluster, plan.rounds.min(3), plan.steady).await?;
    eprintln!("In process ...");
    let (cluster, in_process) = tokio::task::spawn_blocking(move || {
        let measured = embedded::measure(&cluster, 9);
        (cluster, measured)
    })
    .await?;
    drop(cluster);
    let text = part(&plan, &machine, &groups, &noticed, &in_process?);
    writeln!(std::io::stdout(), "{text}")?;
    if let Some(path) = &plan.report {
        report::write_ranges(path, &text)?;
        let folder = path.with_extension("");
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(PLOT), steady::picture(&noticed))?;
    }
    Ok(())
}

/// A ratio of each round: the median, and the range.
fn ratio(values: &[f64]) -> (f64, f64, f64) {
    let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(low, high), it| (low.min(*it), high.max(*it)));
    (median(values.iter().copied()), least, most)
}

fn ratios(groups: &[Group]) -> String {
    let lane = |key: &str| groups.iter().flat_map(|group| &group.lanes).find(|lane| lane.key == key);
    let mut text = "| numbers, ours to the other's | rate | processor |\n|---|---:|---:|\n".to_owned();
    for (ours, other) in PAIRS {
        let (Some(our), Some(their)) = (lane(ours), lane(other)) else { continue };
        let each = |figure: fn(&Lane, &Figures) -> f64| {
            let runs = our.runs.iter().zip(&their.runs);
            let (middle, least, most) =
                ratio(&runs.map(|(one, two)| figure(our, one) / figure(their, two)).collect::<Vec<_>>());
            format!("{middle:.2} ({least:.2} to {most:.2})")
        };
        let rate = each(|lane, run| run.per_second * lane.each);
        // More is better for us, as with rates.
        let processor = each(|lane, run| lane.each / run.server_us.unwrap_or(f64::NAN));
        let _ = writeln!(text, "| {ours}_to_{other} | {rate} | {processor} |");
    }
    text
}

fn table(group: &Group) -> String {
    let mut text =
        "| | M numbers/s | p50 us | p999 us | server's processor, ns a number |\n|---|---:|---:|---:|---:|\n"
            .to_owned();
    for Lane { name, each, runs, .. } in &group.lanes {
        let of = |figure: fn(&Figures) -> f64| median(runs.iter().map(figure));
        let (rate, p50, p999) =
            (of(|run| run.per_second) * each / 1e6, of(|run| run.latency.p50), of(|run| run.latency.p999));
        let ns = of(|run| run.server_us.unwrap_or(f64::NAN)) * 1e3 / each;
        let _ = writeln!(text, "| {name} | {rate:.3} | {p50:.0} | {p999:.0} | {ns:.1} |");
    }
    text
}

/// The part of the page.
fn part(
    plan: &Plan,
    machine: &str,
    groups: &[Group],
    noticed: &[Noticed],
    in_process: &[(&str, [Vec<f64>; 2])],
) -> String {
    let mut text = include_str!("ranges.md").to_owned();
    let _ = writeln!(
        text,
        "\n{machine}; {} rounds of {} ms each; medians, and in brackets the range.",
        plan.rounds, plan.turn_ms
    );
    let _ = writeln!(text, "\n{}", ratios(groups));
    for group in groups {
        let _ = writeln!(text, "### {}\n\n{}", group.title, table(group));
    }
    let _ =
        writeln!(text, "### In process\n\n| ns of the processor a number | 1 thread | 2 threads |\n|---|---:|---:|");
    for (name, [one, two]) in in_process {
        let _ = writeln!(text, "| {name} | {:.2} | {:.2} |", ratio(one).0, ratio(two).0);
    }
    let _ = writeln!(
        text,
        "\n### A new segment while the load goes on\n\n{} requests a second, due whatever the agent does, for {:.0} s; a latency counts \
         from when its request was due.\n\n| | p50 us | p99 us | p999 us | slowest, us |\n|---|---:|---:|---:|---:|",
        steady::RATE,
        plan.steady.as_secs_f64()
    );
    for one in noticed {
        let of = |figure: fn(&Figures) -> f64| median(one.runs.iter().map(figure));
        let (p50, p99, max) = (of(|run| run.latency.p50), of(|run| run.latency.p99), of(|run| run.latency.max));
        let _ = writeln!(text, "| {} | {p50:.0} | {p99:.0} | {:.0} | {max:.0} |", one.title, one.p999());
    }
    if let Some(folder) = plan.report.as_deref().and_then(Path::file_stem) {
        let _ = writeln!(text, "\n![Latency over time]({}/{PLOT})", folder.to_string_lossy());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_is_measured() {
        let server = ("127.0.0.1:1".parse().unwrap(), 1);
        let targets = Targets { agent: server, agents: Vec::new(), redis: Some([server; 2]), first_keys: vec![0] };
        let groups = groups(&targets, 20_000);
        let keys: Vec<&str> = groups.iter().flat_map(|group| &group.lanes).map(|lane| lane.key).collect();
        for (ours, other) in PAIRS {
            assert!(keys.contains(ours) && keys.contains(other), "{ours} {other}");
        }
        let different: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(different.len(), keys.len());
        let new: Vec<_> = groups.iter().flat_map(|group| &group.lanes).filter_map(|lane| lane.new).collect();
        assert_eq!(new.len(), NEW_LANES as usize);
    }
}
