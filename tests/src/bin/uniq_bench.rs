//! `uniq_bench`: the load generator, the bare servers to compare with, and the comparison.

use anyhow::Result;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tests::bench::check::Form;
use tests::bench::figures::Figures;
use tests::bench::peers::{self, Peer};
use tests::bench::speak::{Protocol, http_post, http_request, resp_request};
use tests::bench::{client, compare, first, load, ranges, rpc, versus};

/// In a path or a command: a key.
const KEY: &str = "{key}";

/// Loads servers that give IDs, and checks that no ID comes twice.
///
/// Latencies are in microseconds. A closed loop (the default) keeps every connection busy; an open loop (--rate) sends
/// at a fixed rate whatever the server does, and counts the latency from the instant at which a request was due.
#[derive(Parser)]
#[command(name = "uniq_bench", version, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Load an HTTP/1.1 server: an agent, or any other that answers with a Content-Length
    Http(Http),
    /// Load a server that speaks Redis's protocol
    Resp(Resp),
    /// Load an agent over tarpc
    Rpc(Rpc),
    /// Ask agents for numbers of keys through the client with routes
    Client(Client),
    /// Be a bare server to compare with
    Serve(Serve),
    /// Start an agent and its peers, load them in turn, and print tables and ratios; scripts/bench.sh calls this
    Compare(Compare),
    /// Load segments, sequences, Uniq64 and Redis in turn, and print tables and ratios; scripts/ranges.sh calls this
    Ranges(Ranges),
    /// Time first calls, of keys, names and agents, on a cluster that has nothing else to do; scripts/first.sh calls this
    First(First),
    /// Load the agents of two versions in turn, and print the newer one's ratios; scripts/versus.sh calls this
    Versus(Versus),
    /// Keep a cluster of one version for `versus`, until standard input ends
    #[command(hide = true)]
    Keep(Keep),
}

#[derive(Args)]
struct Common {
    /// The server's address
    #[arg(long, value_name = "IP:PORT")]
    target: SocketAddr,

    /// Connections, all kept open
    #[arg(long, default_value_t = 64, value_name = "N")]
    connections: usize,

    /// Length of the measurement
    #[arg(long, default_value = "5s", value_parser = humantime::parse_duration, value_name = "TIME")]
    duration: Duration,

    /// Time under load before anything is measured
    #[arg(long, default_value = "1s", value_parser = humantime::parse_duration, value_name = "TIME")]
    warmup: Duration,

    /// The server's process, to measure the processor time that an answer takes it
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,

    /// Print the figures as one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Loop {
    /// Requests sent at once on each connection (pipelining); 1: each waits for the answer of the one before
    #[arg(long, default_value_t = 1, value_name = "N")]
    depth: usize,

    /// Open loop: requests a second over all connections, due whatever the server does
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,

    /// Send each request once, and measure from the first to the last answer, e.g. to ask for new keys; --depth is to divide their number
    #[arg(long, conflicts_with = "rate")]
    once: bool,

    /// Check that no ID comes twice; says how the IDs in the answers are written
    #[arg(long, value_name = "FORM")]
    check: Option<Check>,

    /// Show no progress bar
    #[arg(long)]
    quiet: bool,
}

#[derive(Args)]
struct Http {
    #[command(flatten)]
    common: Common,

    #[command(flatten)]
    how: Loop,

    /// Path to GET; {key} in it goes through the keys
    #[arg(long, default_value = "/uniq64", value_name = "PATH")]
    path: String,

    /// Connect from this address of the machine: agents tell callers apart by theirs
    #[arg(long, value_name = "IPV4", conflicts_with = "unix")]
    from: Option<Ipv4Addr>,

    /// Connect to this Unix socket; --target is what Host says then
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,

    #[command(flatten)]
    keys: Keys,

    /// POST so many keys, one a line, from the first key on; --keys is for how many such requests with other keys then
    #[arg(long, value_name = "N")]
    body_keys: Option<u32>,

    /// The Accept header, e.g. application/octet-stream; none if it is not given
    #[arg(long, value_name = "TYPE")]
    accept: Option<String>,
}

#[derive(Args)]
struct Resp {
    #[command(flatten)]
    common: Common,

    #[command(flatten)]
    how: Loop,

    /// The command, its words separated by spaces; {key} in it goes through the keys
    #[arg(long, default_value = "INCR uniq_bench", value_name = "COMMAND")]
    command: String,

    #[command(flatten)]
    keys: Keys,
}

#[derive(Args)]
struct Keys {
    /// Different keys, asked for in turn
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    keys: u32,

    /// The first key
    #[arg(long, default_value_t = 0, value_name = "KEY")]
    first_key: u32,
}

impl Keys {
    /// A request for each key, or one if none is named in the text.
    fn requests(&self, text: &str, request: impl Fn(&str) -> Vec<u8>) -> Vec<Vec<u8>> {
        let keys = if text.contains(KEY) { self.keys } else { 1 };
        (0..keys).map(|nth| request(&text.replace(KEY, &self.first_key.saturating_add(nth).to_string()))).collect()
    }
}

#[derive(Args)]
struct Client {
    /// An agent, tarpc://HOST:PORT or http://HOST:PORT; more than once
    #[arg(long = "agent", required = true, value_name = "ADDRESS")]
    agents: Vec<String>,

    /// The sequence
    #[arg(long, value_name = "NAME")]
    name: String,

    /// First key of a range; more than once: they are taken from the ranges in turn
    #[arg(long = "first-key", default_values_t = [0], value_name = "KEY")]
    first_keys: Vec<u32>,

    /// Different keys
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    keys: u32,

    /// Keys of a call
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batch: u32,

    /// Calls in flight
    #[arg(long, default_value_t = 64, value_name = "N")]
    in_flight: usize,

    /// Length of the measurement
    #[arg(long, default_value = "5s", value_parser = humantime::parse_duration, value_name = "TIME")]
    duration: Duration,

    /// Time under load before anything is measured
    #[arg(long, default_value = "1s", value_parser = humantime::parse_duration, value_name = "TIME")]
    warmup: Duration,

    /// A process of an agent, to measure the processor time that an answer takes; more than once
    #[arg(long = "pid", value_name = "PID")]
    pids: Vec<u32>,

    /// Print the figures as one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Ranges {
    /// Number of turns of everything
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,

    /// Length of each turn, in milliseconds
    #[arg(long, default_value_t = 700, value_name = "MS")]
    turn_ms: u64,

    /// Keys that nobody used before in each round, a multiple of 10,000
    #[arg(long, default_value_t = 200_000, value_name = "N", value_parser = clap::value_parser!(u32).range(10_000..=2_000_000))]
    new_keys: u32,

    /// Length of each steady load on small segments
    #[arg(long, default_value = "8s", value_parser = humantime::parse_duration, value_name = "TIME")]
    steady: Duration,

    /// Put the part on segments and sequences of this page anew
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

#[derive(Args)]
struct Rpc {
    #[command(flatten)]
    common: Common,

    /// The call to make
    #[arg(long, default_value = "uniq64", value_name = "CALL")]
    call: rpc::Call,

    /// IDs asked for in a call
    #[arg(long, default_value_t = 1, value_name = "N")]
    n: u32,

    /// Calls in flight on each connection
    #[arg(long, default_value_t = 64, value_name = "N")]
    in_flight: usize,
}

#[derive(Args)]
struct Serve {
    /// The server to be
    peer: Peer,

    /// Address to listen at
    #[arg(long, value_name = "IP:PORT")]
    listen: SocketAddr,

    /// Bytes of the ready buffer
    #[arg(long, default_value_t = 80_000, value_name = "N")]
    len: usize,
}

#[derive(Args)]
struct Compare {
    /// Number of turns of everything; an agent's serial file has room for the generators of so many rounds
    #[arg(long, default_value_t = 15, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=40))]
    rounds: u16,

    /// Length of each turn, in milliseconds
    #[arg(long, default_value_t = 1_000, value_name = "MS")]
    turn_ms: u64,

    /// Write the report there, its plots into a folder beside it
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Output of `cargo bench -p uniq-agent --bench peers`, to be part of the report
    #[arg(long, value_name = "FILE")]
    in_process: Option<PathBuf>,
}

#[derive(Args)]
struct First {
    /// The folder with the programs; without it, the one that UNIQ_BIN_DIR names
    #[arg(long, value_name = "DIR")]
    bins: Option<PathBuf>,

    /// Scenarios to measure, one after the other; more than once
    #[arg(long = "part", value_name = "PART", default_values = ["names", "keys", "restarts", "away", "many"])]
    parts: Vec<first::Part>,
}

#[derive(Args)]
struct Versus {
    /// The folder with the older programs
    #[arg(long, value_name = "DIR")]
    old: PathBuf,

    /// The folder with the newer programs
    #[arg(long, value_name = "DIR")]
    new: PathBuf,

    /// The older executable of `cargo bench -p uniq-agent --bench peers`
    #[arg(long, value_name = "FILE", requires = "new_peers")]
    old_peers: Option<PathBuf>,

    /// The newer one
    #[arg(long, value_name = "FILE", requires = "old_peers")]
    new_peers: Option<PathBuf>,

    /// Number of turns of everything
    #[arg(long, default_value_t = 15, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=40))]
    rounds: u16,

    /// Length of each turn, in milliseconds
    #[arg(long, default_value_t = 1_000, value_name = "MS")]
    turn_ms: u64,
}

#[derive(Args)]
struct Keep {
    /// For how many rounds generators are registered
    #[arg(long, value_name = "N")]
    rounds: u16,
}

#[derive(Clone, Copy, ValueEnum)]
enum Check {
    /// Decimal numbers, one a line; RESP integers
    Decimal,
    /// 8 bytes each
    Packed64,
    /// 12 bytes each
    Packed96,
}

impl Check {
    fn form(self) -> Form {
        match self {
            Self::Decimal => Form::Decimal,
            Self::Packed64 => Form::Packed(8),
            Self::Packed96 => Form::Packed(12),
        }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(code) => code,
        Err(e) => {
            eprintln!("uniq_bench: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    let (figures, json) = match cli.command {
        Command::Http(http) => {
            let plan = plan(&http.common, &http.how, Protocol::Http, http_requests(&http));
            (load::run(load::Plan { unix: http.unix.clone(), from: http.from, ..plan })?, http.common.json)
        }
        Command::Resp(resp) => {
            let requests = resp.keys.requests(&resp.command, resp_request);
            (load::run(plan(&resp.common, &resp.how, Protocol::Resp, requests))?, resp.common.json)
        }
        Command::Rpc(call) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            (runtime.block_on(rpc::run(rpc_plan(&call)))?, call.common.json)
        }
        Command::Client(client) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let Client { agents, name, first_keys, keys, batch, in_flight, duration, warmup, pids, json } = client;
            let plan = client::Plan { agents, name, first_keys, keys, batch, in_flight, warmup, duration, pids };
            (runtime.block_on(client::run(plan))?, json)
        }
        Command::Serve(serve) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(peers::serve(serve.peer, serve.listen, serve.len))?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Compare(Compare { rounds, turn_ms, report, in_process }) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(compare::run(compare::Plan { rounds: rounds.into(), turn_ms, report, in_process }))?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Ranges(Ranges { rounds, turn_ms, new_keys, steady, report }) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(ranges::run(ranges::Plan { rounds: rounds.into(), turn_ms, new_keys, steady, report }))?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::First(First { bins, parts }) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(first::run(bins, &parts))?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Versus(Versus { old, new, old_peers, new_peers, rounds, turn_ms }) => {
            let in_process = old_peers.zip(new_peers);
            versus::run(&versus::Plan { old, new, in_process, rounds: rounds.into(), turn_ms })?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Keep(Keep { rounds }) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(versus::keep(rounds.into()))?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    print(&figures, json)?;
    if figures.duplicates > 0 {
        eprintln!("uniq_bench: {} IDs came twice", figures.duplicates);
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(figures: &Figures, json: bool) -> Result<()> {
    let text = if json { serde_json::to_string(figures)? } else { figures.text() };
    Ok(writeln!(std::io::stdout(), "{text}")?)
}

fn http_requests(http: &Http) -> Vec<Vec<u8>> {
    let (host, accept, keys) = (http.common.target.to_string(), http.accept.as_deref(), &http.keys);
    match http.body_keys {
        None => keys.requests(&http.path, |path| http_request(&host, path, accept)),
        Some(n) => {
            let bodies = (0..keys.keys).map(|body| keys.first_key.saturating_add(body.saturating_mul(n)));
            let lines = |from: u32| -> String { (0..n).map(|nth| format!("{}\n", from.saturating_add(nth))).collect() };
            bodies.map(|from| http_post(&host, &http.path, accept, lines(from).as_bytes())).collect()
        }
    }
}

fn plan(common: &Common, how: &Loop, protocol: Protocol, requests: Vec<Vec<u8>>) -> load::Plan {
    load::Plan {
        target: common.target,
        unix: None,
        from: None,
        protocol,
        requests,
        connections: common.connections,
        depth: how.depth,
        rate: how.rate,
        once: how.once,
        warmup: if how.once { Duration::ZERO } else { common.warmup },
        duration: common.duration,
        check: how.check.map(Check::form),
        pid: common.pid,
        progress: !how.quiet && !common.json,
    }
}

fn rpc_plan(call: &Rpc) -> rpc::Plan {
    rpc::Plan {
        target: call.common.target,
        call: call.call,
        n: call.n,
        connections: call.common.connections,
        in_flight: call.in_flight,
        warmup: call.common.warmup,
        duration: call.common.duration,
        pid: call.common.pid,
    }
}
