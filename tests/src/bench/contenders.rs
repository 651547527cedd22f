//! The servers that are compared, each as a process of its own, all of them pinned to one core.

use super::figures::Figures;
use crate::cluster::Cluster;
use anyhow::{Context as _, Result, bail};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The core of every server, and that of the generator.
pub const SERVER_CORE: &str = "0";
/// See [`SERVER_CORE`].
pub const GENERATOR_CORE: &str = "1";
/// The longest time that a server may take to listen.
const START_MAX: Duration = Duration::from_secs(30);
/// The folder in which Debian keeps PostgreSQL's programs, one folder for each version.
const POSTGRES: &str = "/usr/lib/postgresql";

/// A running server. Dropping it ends it.
pub struct Server {
    child: Option<Child>,
    /// The address at which it listens.
    pub address: SocketAddr,
    /// Its process.
    pub pid: u32,
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// All that is compared.
pub struct Contenders {
    /// Two masters and an agent.
    pub cluster: Cluster,
    /// The agent's HTTP.
    pub agent: Server,
    /// The agent's RPC.
    pub agent_rpc: Server,
    /// Bare servers of this program.
    pub hyper: Server,
    /// See [`super::peers::Peer`].
    pub axum: Server,
    /// A ready buffer of as many bytes as 10,000 packed IDs.
    pub packed_buffer: Server,
    /// The same for text.
    pub text_buffer: Server,
    /// A bare tarpc echo.
    pub echo: Server,
    /// In memory, and with an fsync before each answer; `None` if Redis is not installed.
    pub redis: Option<[Server; 2]>,
    /// `None` if PostgreSQL is not installed.
    pub postgres: Option<Postgres>,
}

impl Contenders {
    /// Starts them all.
    ///
    /// # Errors
    /// If one that is installed does not start.
    pub async fn start(batch: usize) -> Result<Self> {
        let mut cluster = Cluster::start(1, &["--threads", "1"]).await?;
        for daemon in cluster.daemons() {
            pin(daemon.pid().context("a process of the cluster has ended")?)?;
        }
        let agent = cluster.agents.first().context("no agent")?;
        let pid = agent.daemon.pid().context("the agent has ended")?;
        let agent = [agent.daemon.http, agent.rpc_listen].map(|address| Server { child: None, address, pid });
        let [agent, agent_rpc] = agent;
        let dir = cluster.dir().to_owned();
        let mut serve = |peer: &str, len: usize| -> Result<Server> {
            let address = cluster.port()?;
            let (listen, len) = (address.to_string(), len.to_string());
            let own = std::env::current_exe()?;
            start(&own, &["serve", peer, "--listen", &listen, "--len", &len], address, &dir)
        };
        Ok(Self {
            hyper: serve("hyper", 0)?,
            axum: serve("axum", 0)?,
            packed_buffer: serve("axum-buffer", batch * 8)?,
            // 19 digits and the end of the line.
            text_buffer: serve("axum-buffer", batch * 20)?,
            echo: serve("tarpc-echo", 0)?,
            redis: redis(&mut cluster)?,
            postgres: Postgres::start(&mut cluster)?,
            agent,
            agent_rpc,
            cluster,
        })
    }
}

/// Pins every thread of a process to the servers' core.
///
/// # Errors
/// If taskset cannot.
pub fn pin(pid: u32) -> Result<()> {
    let mut command = Command::new("taskset");
    command.args(["-a", "-c", "-p", SERVER_CORE, &pid.to_string()]).stdout(Stdio::null());
    if !command.status().context("cannot run taskset; install util-linux")?.success() {
        bail!("taskset cannot pin process {pid}");
    }
    Ok(())
}

/// Starts a program on the servers' core and waits until it listens.
fn start(program: &Path, args: &[&str], address: SocketAddr, dir: &Path) -> Result<Server> {
    let mut command = Command::new("taskset");
    command.args(["-c", SERVER_CORE]).arg(program).args(args).current_dir(dir);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
    wait_for(address, &mut child).with_context(|| format!("{} {args:?}", program.display()))?;
    // taskset becomes the program.
    Ok(Server { pid: child.id(), child: Some(child), address })
}

fn wait_for(address: SocketAddr, child: &mut Child) -> Result<()> {
    let began = Instant::now();
    while TcpStream::connect(address).is_err() {
        if let Some(status) = child.try_wait()? {
            bail!("ended with {status}");
        }
        if began.elapsed() > START_MAX {
            bail!("does not listen on {address}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|path| path.is_file())
}

/// Redis in memory, and with an fsync before each answer; `None` if it is not installed.
///
/// # Errors
/// If it does not start.
pub fn redis(cluster: &mut Cluster) -> Result<Option<[Server; 2]>> {
    let Some(program) = installed("redis-server") else { return Ok(None) };
    let mut one = |name: &str, more: &[&str]| -> Result<Server> {
        let (address, dir) = (cluster.port()?, cluster.dir().join(name));
        std::fs::create_dir(&dir)?;
        let port = address.port().to_string();
        let args = [&["--port", &port, "--bind", "127.0.0.1", "--save", ""], more].concat();
        start(&program, &args, address, &dir)
    };
    let memory = one("redis-memory", &["--appendonly", "no"])?;
    Ok(Some([memory, one("redis-always", &["--appendonly", "yes", "--appendfsync", "always"])?]))
}

/// A PostgreSQL server with one sequence.
pub struct Postgres {
    bin: PathBuf,
    dir: tempfile::TempDir,
    port: u16,
}

impl Postgres {
    fn start(cluster: &mut Cluster) -> Result<Option<Self>> {
        let Some(bin) = std::fs::read_dir(POSTGRES).ok().and_then(|mut versions| versions.next()) else {
            return Ok(None);
        };
        let bin = bin?.path().join("bin");
        if !bin.join("initdb").is_file() || !bin.join("pgbench").is_file() {
            return Ok(None);
        }
        let (dir, port) = (tempfile::tempdir()?, cluster.port()?.port());
        let server = Self { bin, dir, port };
        if rustix::process::geteuid().is_root() {
            let chown = Command::new("chown").arg("postgres").arg(server.dir.path()).status()?;
            if !chown.success() {
                return Ok(None);
            }
        }
        let (data, log) = (server.path("data"), server.path("log"));
        server.run("initdb", &["-D", &data, "-A", "trust", "-U", "postgres"])?;
        let options = format!("-p {} -k {} -c listen_addresses=127.0.0.1", port, server.dir.path().display());
        server.run("pg_ctl", &["-D", &data, "-l", &log, "-w", "-o", &options, "start"])?;
        let port = port.to_string();
        server.run("psql", &["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-c", "create sequence s"])?;
        std::fs::write(server.path("nextval"), "select nextval('s');\n")?;
        let own = std::fs::read_to_string(server.path("data/postmaster.pid"))?;
        pin(own.lines().next().context("no process")?.parse()?)?;
        Ok(Some(server))
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Runs one of its programs, as its own user if we are root: it refuses to be that.
    fn run(&self, program: &str, args: &[&str]) -> Result<String> {
        let path = self.bin.join(program);
        let mut command = if rustix::process::geteuid().is_root() {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(path);
            command
        } else {
            Command::new(path)
        };
        let ended = command.args(args).current_dir(self.dir.path()).stdin(Stdio::null()).stderr(Stdio::piped());
        // pg_ctl's server keeps its stdout, so that is not waited for.
        let ended = if program == "pg_ctl" { ended.stdout(Stdio::null()).stderr(Stdio::null()) } else { ended };
        let ended = ended.output().with_context(|| format!("cannot run {program}"))?;
        if !ended.status.success() {
            bail!("{program} {args:?}: {}", String::from_utf8_lossy(&ended.stderr));
        }
        Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
    }

    /// `nextval`, prepared, by 16 connections of its own load generator: it speaks a protocol of its own.
    ///
    /// # Errors
    /// If it fails.
    pub fn load(&self, seconds: u64) -> Result<Figures> {
        let (port, seconds, script) = (self.port.to_string(), seconds.max(1).to_string(), self.path("nextval"));
        #[rustfmt::skip]
        let args = ["-n", "-M", "prepared", "-c", "16", "-T", &seconds, "-f", &script, "-h", "127.0.0.1", "-p", &port,
            "-U", "postgres", "postgres"];
        let said = self.run("pgbench", &args)?;
        let tps = said.lines().find_map(|line| line.strip_prefix("tps = ")?.split_whitespace().next()?.parse().ok());
        Ok(Figures { per_second: tps.context("pgbench gave no figure")?, ..Figures::default() })
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = self.run("pg_ctl", &["-D", &self.path("data"), "-m", "immediate", "stop"]);
    }
}
