//! Two masters and any number of agents as real processes on loopback, in a folder of their own.
//!
//! Whatever happens to the test, a panic included, dropping a [`Cluster`] kills every process it started. If the test
//! failed, it first prints the end of every log and says where the folder is; otherwise the folder goes too.

use crate::client::{ADMIN_PASSWORD, Answer, Client};
use crate::ports::Ports;
use crate::programs::{self, Daemon};
use anyhow::{Context as _, Result, bail, ensure};
use common::parameters::SessionId;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time that anything that must come to pass is waited for: far longer than it takes, for machines with much to do.
pub const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(25);
/// Lines of each log that a failed test prints.
const LOG_LINES: usize = 40;

/// A master as a process.
pub struct Master {
    /// The process.
    pub daemon: Daemon,
    /// 1 or 2.
    pub id: u8,
    /// The address at which agents ask.
    pub agent_listen: SocketAddr,
    /// The address at which the other master delivers.
    pub peer_listen: SocketAddr,
    /// Its store.
    pub data_dir: PathBuf,
}

/// An agent as a process.
pub struct Agent {
    /// The process.
    pub daemon: Daemon,
    /// Its name.
    pub agent_id: String,
    /// The address at which it serves RPC.
    pub rpc_listen: SocketAddr,
    /// Its own folder, with nothing in it but the serial file and its lineage.
    pub dir: PathBuf,
}

/// Sections beside each other, and the agent that serves them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Route {
    /// The first section.
    pub from: u64,
    /// The section behind the last one.
    pub to: u64,
    /// The agent's address for HTTP.
    pub http: String,
}

impl Agent {
    /// Its session, whole, as its serial file has it: nothing that it answers tells it.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn session(&self) -> Result<SessionId> {
        let bytes = std::fs::read(self.serial_file())?;
        let field = bytes.get(16..32).context("the serial file is too short")?;
        Ok(SessionId(u128::from_le_bytes(field.try_into()?)))
    }

    /// Its serial file.
    pub fn serial_file(&self) -> PathBuf {
        serial_file(&self.dir)
    }
}

fn serial_file(dir: &Path) -> PathBuf {
    dir.join("uniq_generator.serial")
}

/// A lease as an agent's `/status` tells of it, as far as tests compare it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldLease {
    /// The name of the token type.
    pub token_type: String,
    /// The token as text.
    pub token: String,
    /// The number of the grant.
    pub g: u64,
    /// The end, as it was written.
    pub until: String,
}

/// The status of an agent by its `/status`, as far as tests compare it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentStatus {
    /// The session, as it was written.
    pub session: String,
    /// True if the start continued an older session.
    pub resumed: bool,
    /// If it did not: why.
    pub fresh_because: Option<String>,
    /// Its leases, in order.
    pub leases: Vec<HeldLease>,
}

impl AgentStatus {
    /// The tokens with their types and generations: what a resumed agent must still have.
    pub fn tokens(&self) -> Vec<(String, String, u64)> {
        self.leases.iter().map(|l| (l.token_type.clone(), l.token.clone(), l.g)).collect()
    }

    /// The token held of a type.
    pub fn token(&self, token_type: &str) -> Option<&str> {
        self.leases.iter().find(|l| l.token_type == token_type).map(|l| l.token.as_str())
    }
}

/// The whole.
pub struct Cluster {
    /// Both, the one with id 1 first.
    pub masters: Vec<Master>,
    /// In the order in which they were added.
    pub agents: Vec<Agent>,
    /// For all requests.
    pub client: Client,
    ports: Ports,
    dir: Option<tempfile::TempDir>,
}

impl Cluster {
    /// Two formatted stores, nothing started.
    ///
    /// # Errors
    /// If the programs, ports or folders cannot be had.
    pub fn new() -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("uniq-test-").tempdir()?;
        let mut ports = Ports::take()?;
        let mut at = || -> Result<[SocketAddr; 3]> { Ok([ports.port()?, ports.port()?, ports.port()?]) };
        let (one, two) = (at()?, at()?);
        let masters = [(1, one, two), (2, two, one)];
        let masters = masters.map(|(id, own, other)| new_master(dir.path(), id, own, other));
        let masters = masters.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(Self { masters, agents: Vec::new(), client: Client::new()?, ports, dir: Some(dir) })
    }

    /// Both masters and `agents` agents with these further flags, all of them ready.
    ///
    /// # Errors
    /// If one of them does not become ready.
    pub async fn start(agents: usize, flags: &[&str]) -> Result<Self> {
        let mut cluster = Self::new()?;
        for master in &mut cluster.masters {
            master.daemon.start()?;
        }
        for _ in 0..agents {
            let nth = cluster.add_agent(flags)?;
            cluster.agent(nth)?.daemon.start()?;
        }
        cluster.all_ready().await?;
        Ok(cluster)
    }

    /// Formats both stores anew with these further flags, before anything is started.
    ///
    /// # Errors
    /// If a store cannot be formatted.
    pub fn format_anew(&mut self, format: &[&str]) -> Result<()> {
        for master in &self.masters {
            std::fs::remove_dir_all(&master.data_dir)?;
            let id = master.id.to_string();
            let args = ["--format", "--data-dir", text(&master.data_dir)?, "--id", &id];
            let args: Vec<_> = args.iter().chain(format).copied().collect();
            let ended = programs::run(&programs::master()?, &args, "/".as_ref())?;
            if ended.status != Some(0) {
                bail!("--format failed: {ended:?}");
            }
        }
        Ok(())
    }

    /// The same, and lets both masters run by a clock `scale` times faster from now on. Gives what an agent needs as
    /// `--test-clock`.
    ///
    /// # Errors
    /// If a store cannot be formatted.
    pub fn run_by_test_clock(&mut self, scale: u32, format: &[&str]) -> Result<String> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_millis();
        self.run_by(format!("{scale}@{now}"), format)
    }

    /// The same by this test clock.
    ///
    /// # Errors
    /// If a store cannot be formatted.
    pub fn run_by(&mut self, test_clock: String, format: &[&str]) -> Result<String> {
        self.format_anew(format)?;
        for master in &mut self.masters {
            master.daemon.set("--test-clock", &test_clock);
        }
        Ok(test_clock)
    }

    /// The folder that everything is in.
    pub fn dir(&self) -> &Path {
        self.dir.as_ref().map_or(Path::new("."), tempfile::TempDir::path)
    }

    /// One more port of our own.
    ///
    /// # Errors
    /// If they are used up.
    pub fn port(&mut self) -> Result<SocketAddr> {
        self.ports.port()
    }

    /// Another process for master `id`, on ports of its own, over the store in `data_dir` (which may not be there yet),
    /// with the master at `peer` as the other one. Not started, and not one of [`masters`](Self::masters).
    ///
    /// # Errors
    /// If ports are used up.
    pub fn another_master(&mut self, name: &str, id: u8, data_dir: PathBuf, peer: SocketAddr) -> Result<Master> {
        let own = [self.ports.port()?, self.ports.port()?, self.ports.port()?];
        master_with(self.dir(), name, id, data_dir, own, peer)
    }

    /// The same store and the same ports as that of a master, but with the master at `peer` as the other one. Not
    /// started.
    ///
    /// # Errors
    /// If its folder's name is not text.
    pub fn with_other_peer(&self, master: &Master, peer: SocketAddr) -> Result<Master> {
        let own = [master.agent_listen, master.peer_listen, master.daemon.http];
        let name = format!("master-{}-again", master.id);
        master_with(self.dir(), &name, master.id, master.data_dir.clone(), own, peer)
    }

    /// A new agent with a freshly formatted serial file, not started. Says which it is.
    ///
    /// # Errors
    /// If the file cannot be formatted or ports are used up.
    pub fn add_agent(&mut self, flags: &[&str]) -> Result<usize> {
        let dir = self.dir().join(format!("agent-{}", self.agents.len() + 1));
        std::fs::create_dir(&dir)?;
        let file = serial_file(&dir);
        let ended = programs::run(&programs::generator()?, &["--format", "--serial-file", text(&file)?], &dir)?;
        if ended.status != Some(0) {
            bail!("--format failed: {ended:?}");
        }
        let agent_id = format!("agent-{}", self.agents.len() + 1);
        self.add_agent_in(dir, &agent_id, flags)
    }

    /// An agent whose folder is there already, not started. Says which it is.
    ///
    /// # Errors
    /// If ports are used up.
    pub fn add_agent_in(&mut self, dir: PathBuf, agent_id: &str, flags: &[&str]) -> Result<usize> {
        let nth = self.agents.len();
        let (http, rpc_listen) = (self.ports.port()?, self.ports.port()?);
        let masters: Vec<_> = self.masters.iter().map(|m| m.agent_listen.to_string()).collect();
        let (masters, http_text, rpc_text) = (masters.join(","), http.to_string(), rpc_listen.to_string());
        let file = serial_file(&dir);
        #[rustfmt::skip]
        let args = [
            "--serial-file", text(&file)?, "--masters", &masters, "--agent-id", agent_id,
            "--http-listen", &http_text, "--rpc-listen", &rpc_text,
        ];
        let args = args.iter().chain(flags).map(|arg| (*arg).to_owned()).collect();
        let name = format!("agent-{}", nth + 1);
        let log = self.dir().join(format!("{name}.log"));
        let daemon = Daemon::new(&name, programs::generator()?, args, http, log);
        self.agents.push(Agent { daemon, agent_id: agent_id.to_owned(), rpc_listen, dir });
        Ok(nth)
    }

    /// An agent, by the number that [`add_agent`](Self::add_agent) said.
    ///
    /// # Errors
    /// If there is none.
    pub fn agent(&mut self, nth: usize) -> Result<&mut Agent> {
        self.agents.get_mut(nth).context("no such agent")
    }

    /// A master, by its id less one.
    ///
    /// # Errors
    /// If there is none.
    pub fn master(&mut self, nth: usize) -> Result<&mut Master> {
        self.masters.get_mut(nth).context("no such master")
    }

    /// Every process, masters first.
    pub fn daemons(&mut self) -> impl Iterator<Item = &mut Daemon> {
        let masters = self.masters.iter_mut().map(|m| &mut m.daemon);
        masters.chain(self.agents.iter_mut().map(|a| &mut a.daemon))
    }

    /// Waits until every process that was started is ready.
    ///
    /// # Errors
    /// If one of them is not within [`PATIENCE`].
    pub async fn all_ready(&mut self) -> Result<()> {
        let client = self.client.clone();
        for daemon in self.daemons() {
            if daemon.pid().is_some() {
                until_status(&client, daemon, "/readyz", 200).await?;
            }
        }
        Ok(())
    }

    /// The URL at which an agent answers, with a path.
    ///
    /// # Errors
    /// If there is no such agent.
    pub fn agent_url(&self, nth: usize, path: &str) -> Result<String> {
        let agent = self.agents.get(nth).context("no such agent")?;
        Ok(format!("http://{}/{path}", agent.daemon.http))
    }

    /// Has each agent give something, as a number of a key: so it hears of the name now, and not when it next looks, within a minute.
    ///
    /// # Errors
    /// If one of them does not within [`PATIENCE`].
    pub async fn all_give(&self, path: &str) -> Result<()> {
        for nth in 0..self.agents.len() {
            let given = || async { (self.ask_agent(nth, path).await.ok()?.status == 200).then_some(()) };
            until(&format!("agent {nth} gives {path}"), given).await?;
        }
        Ok(())
    }

    /// Asks an agent.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn ask_agent(&self, nth: usize, path: &str) -> Result<Answer> {
        self.client.get(&self.agent_url(nth, path)?).await
    }

    /// Asks an agent what it says of itself.
    ///
    /// # Errors
    /// If it does not answer, or not as the contract says.
    pub async fn agent_status(&self, nth: usize) -> Result<AgentStatus> {
        let answer = self.ask_agent(nth, "status").await?;
        let json = answer.json()?;
        read_status(&json).with_context(|| format!("/status is not as agreed: {json}"))
    }

    /// Registers a name as an operator does, at a master's console.
    ///
    /// # Errors
    /// If it is not registered.
    pub async fn register(&self, name: &str, definition: &str) -> Result<()> {
        let console = self.masters.first().context("no master")?.daemon.http;
        let (path, definition) = (format!("/api/generators/{name}"), serde_json::from_str(definition)?);
        // By a connection of its own: one that was idle for long may be about to be closed.
        let answer = Client::new()?.change_by("PUT".parse()?, console, &path, &definition).await?;
        ensure!(answer.status == 201, "cannot register {name}: {}", answer.text());
        Ok(())
    }

    /// All ranges of a sequence's sections that are served, as a master says.
    ///
    /// # Errors
    /// If the first agent cannot say.
    pub async fn routes(&self, name: &str) -> Result<Vec<Route>> {
        #[derive(Deserialize)]
        struct Page {
            routes: Vec<Route>,
            next: Option<u64>,
        }
        let (mut from, mut routes) = (0, Vec::new());
        loop {
            let page = self.ask_agent(0, &format!("sequences/{name}/routes?from={from}")).await?.json()?;
            let page: Page = serde_json::from_value(page)?;
            routes.extend(page.routes);
            match page.next {
                Some(next) => from = next,
                None => return Ok(routes),
            }
        }
    }

    /// The answer of an agent that is to register a name.
    ///
    /// # Errors
    /// If there is no such agent, or it does not answer.
    pub async fn put(&self, agent: usize, name: &str, definition: impl AsRef<str>) -> Result<Answer> {
        let url = self.agent_url(agent, &format!("generators/{name}"))?;
        self.client.ask("PUT", &url, definition.as_ref().as_bytes().to_vec()).await
    }

    /// The masters' table of leases, as one of them has it.
    ///
    /// # Errors
    /// If it does not answer with a list.
    pub async fn leases(&self, master: usize, query: &str) -> Result<Vec<serde_json::Value>> {
        let master = self.masters.get(master).context("no such master")?;
        let answer = self.client.console(master.daemon.http, &format!("/api/leases?{query}")).await?;
        let rows = answer.json()?;
        rows.as_array().cloned().with_context(|| format!("{}: not a list: {rows}", answer.status))
    }

    /// Asks a master what it says of itself to operators.
    ///
    /// # Errors
    /// If it does not answer as agreed.
    pub async fn master_row(&self, http: SocketAddr) -> Result<serde_json::Value> {
        let rows = self.client.console(http, "/api/masters").await?.json()?;
        let own = |rows: &serde_json::Value| {
            rows.as_array()?.iter().find(|row| row.get("this").and_then(|this| this.as_bool()) == Some(true)).cloned()
        };
        own(&rows).with_context(|| format!("no row of its own: {rows}"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        for daemon in self.daemons() {
            let ended = daemon.ended();
            daemon.kill_9();
            if failed {
                eprintln!("{}", daemon.log_tail(LOG_LINES));
                if let Some(status) = ended {
                    eprintln!("---- {} had ended by itself: {status}", daemon.name);
                }
            }
        }
        if failed && let Some(dir) = self.dir.take() {
            eprintln!("---- everything is kept in {}", dir.keep().display());
        }
    }
}

/// Asks `path` of a process until it answers with `status`, and gives that answer.
///
/// # Errors
/// If the process ends, or does not answer so within [`PATIENCE`]; says what it answered last.
pub async fn until_status(client: &Client, daemon: &mut Daemon, path: &str, status: u16) -> Result<Answer> {
    let url = format!("http://{}{path}", daemon.http);
    let began = Instant::now();
    let mut last = "nothing".to_owned();
    while began.elapsed() < PATIENCE {
        match client.get(&url).await {
            Ok(answer) if answer.status == status => return Ok(answer),
            Ok(answer) => last = format!("{} {}", answer.status, answer.text()),
            Err(e) => last = format!("{e:#}"),
        }
        if let Some(ended) = daemon.ended() {
            bail!("{} ended with {ended} before {path} gave {status}\n{}", daemon.name, daemon.log_tail(LOG_LINES));
        }
        tokio::time::sleep(POLL).await;
    }
    bail!("{}{path} did not give {status} in {PATIENCE:?}; last came: {last}", daemon.name)
}

/// Asks until `holds` gives something, at most [`PATIENCE`]. Says also how long that took.
///
/// # Errors
/// If it never does; `what` says what was waited for.
pub async fn until<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut holds: impl FnMut() -> F,
) -> Result<(T, Duration)> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some(value) = holds().await {
            return Ok((value, began.elapsed()));
        }
        tokio::time::sleep(POLL).await;
    }
    bail!("waited {PATIENCE:?} in vain: {what}")
}

fn new_master(dir: &Path, id: u8, own: [SocketAddr; 3], other: [SocketAddr; 3]) -> Result<Master> {
    let name = format!("master-{id}");
    let data_dir = dir.join(&name);
    let args = ["--format", "--data-dir", text(&data_dir)?, "--id", &id.to_string()];
    let ended = programs::run(&programs::master()?, &args, dir)?;
    if ended.status != Some(0) {
        bail!("--format failed: {ended:?}");
    }
    let [_, peer, _] = other;
    master_with(dir, &name, id, data_dir, own, peer)
}

fn master_with(
    dir: &Path,
    name: &str,
    id: u8,
    data_dir: PathBuf,
    own: [SocketAddr; 3],
    peer: SocketAddr,
) -> Result<Master> {
    let [agent_listen, peer_listen, web] = own;
    let data = text(&data_dir)?.to_owned();
    // Both masters are given the same one: then each lets its first user in before it has met the other.
    let password = dir.join("first-password");
    std::fs::write(&password, ADMIN_PASSWORD)?;
    #[rustfmt::skip]
    let args = [
        "--data-dir", &data, "--agent-listen", &agent_listen.to_string(), "--peer-listen", &peer_listen.to_string(),
        "--web-listen", &web.to_string(), "--peer", &peer.to_string(), "--admin-password-file", text(&password)?,
    ]
    .map(str::to_owned);
    let log = dir.join(format!("{name}.log"));
    let daemon = Daemon::new(name, programs::master()?, args.into(), web, log);
    Ok(Master { daemon, id, agent_listen, peer_listen, data_dir })
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}

fn read_status(json: &serde_json::Value) -> Option<AgentStatus> {
    let plain = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let lease = |row: &serde_json::Value| {
        Some(HeldLease {
            token_type: row.get("type")?.as_str()?.to_owned(),
            token: plain(row.get("token")?),
            g: row.get("g")?.as_u64()?,
            until: plain(row.get("until")?),
        })
    };
    let mut leases = json.get("leases")?.as_array()?.iter().map(lease).collect::<Option<Vec<_>>>()?;
    leases.sort();
    let start = json.get("start")?.as_str()?;
    Some(AgentStatus {
        session: json.get("session")?.as_str()?.to_owned(),
        resumed: start == "resumed",
        fresh_because: json.get("start_reason").and_then(|reason| reason.as_str()).map(str::to_owned),
        leases,
    })
}
