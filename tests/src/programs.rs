//! The places of the two programs, and the start and end of one of them.

use anyhow::{Context as _, Result, bail, ensure};
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The environment variable that names the folder with both programs.
pub const BIN_DIR: &str = "UNIQ_BIN_DIR";
/// The longest time that a process may take to end by itself before a test gives up on it.
pub const END_MAX: Duration = Duration::from_secs(60);
/// A relative [`BIN_DIR`] is taken from here: a test runs in the folder of its crate, whoever starts it seldom does.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const POLL: Duration = Duration::from_millis(10);

/// The path of `uniq_master`.
///
/// # Errors
/// If the programs are not there and cannot be built.
pub fn master() -> Result<PathBuf> {
    program("uniq_master")
}

/// The path of `uniq_generator`.
///
/// # Errors
/// If the programs are not there and cannot be built.
pub fn generator() -> Result<PathBuf> {
    program("uniq_generator")
}

/// An example of one of the crates, which stands beside this test's own folder.
///
/// # Errors
/// If it was not built.
pub fn example(name: &str) -> Result<PathBuf> {
    let test = std::env::current_exe().context("cannot tell where this test is")?;
    let path = test.parent().and_then(Path::parent).context("this test is not in a folder of cargo's")?;
    let path = path.join("examples").join(name);
    if !path.is_file() {
        bail!("there is no {}: build it with `cargo build --workspace --examples`", path.display());
    }
    Ok(path)
}

/// The folder with both programs, once it is known.
static DIR: OnceLock<Result<PathBuf, String>> = OnceLock::new();

/// Takes both programs from this folder, whatever the environment says; to be called before one of them is needed.
///
/// # Errors
/// If they are not there, or others are in use.
pub fn take_from(dir: &Path) -> Result<()> {
    let dir = with_both(std::path::absolute(dir)?)?;
    ensure!(DIR.set(Ok(dir)).is_ok(), "programs of another folder are in use");
    Ok(())
}

fn program(name: &str) -> Result<PathBuf> {
    let dir = DIR.get_or_init(|| find().map_err(|e| format!("{e:#}")));
    match dir {
        Ok(dir) => Ok(dir.join(name)),
        Err(why) => bail!("{why}"),
    }
}

/// The folder that [`BIN_DIR`] names; without it, the one above this test's own, where cargo is asked to bring both
/// programs up to date first: a stale program would answer for yesterday's code.
fn find() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os(BIN_DIR) {
        return with_both(Path::new(WORKSPACE).join(dir)).with_context(|| format!("{BIN_DIR} is set"));
    }
    let test = std::env::current_exe().context("cannot tell where this test is")?;
    let dir = test
        .ancestors()
        .find(|dir| dir.ends_with("debug") || dir.ends_with("release"))
        .context("this test is not in a folder of cargo's; set UNIQ_BIN_DIR")?;
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "--bins", "-p", "uniq-master", "-p", "uniq-agent"]);
    build.current_dir(WORKSPACE);
    if dir.ends_with("release") {
        build.arg("--release");
    }
    let status = build.status().context("cannot run cargo; set UNIQ_BIN_DIR to a folder with both programs")?;
    if !status.success() {
        bail!("`cargo build --bins -p uniq-master -p uniq-agent` failed: the programs under test do not build");
    }
    Ok(dir.to_owned())
}

/// The folder, if both programs are in it.
fn with_both(dir: PathBuf) -> Result<PathBuf> {
    for name in ["uniq_master", "uniq_generator"] {
        let path = dir.join(name);
        ensure!(path.is_file(), "there is no {}: build it with `cargo build --bins`", path.display());
    }
    Ok(dir)
}

/// A command with no `UNIQ_*` variable in its environment: they are flags, and a developer's own must not leak in.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("UNIQ_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a program that is to end by itself, at most [`END_MAX`].
///
/// # Errors
/// If it cannot be started or does not end; then it is killed.
pub fn run(program: &Path, args: &[&str], dir: &Path) -> Result<Ended> {
    let files = tempfile::tempdir()?;
    let (out, err) = (files.path().join("out"), files.path().join("err"));
    let mut child = command(program)
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(File::create(&out)?)
        .stderr(File::create(&err)?)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let deadline = Instant::now() + END_MAX;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            bail!("{} {args:?} was still running after {END_MAX:?}", program.display());
        }
        std::thread::sleep(POLL);
    };
    Ok(Ended {
        status: status.code(),
        out: String::from_utf8_lossy(&std::fs::read(out)?).into_owned(),
        err: String::from_utf8_lossy(&std::fs::read(err)?).into_owned(),
    })
}

/// The end of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its exit status; `None` if a signal ended it.
    pub status: Option<i32>,
    /// The text that it wrote to stdout.
    pub out: String,
    /// The text that it wrote to stderr.
    pub err: String,
}

/// A program that serves until it is ended. Dropping it kills it.
///
/// It stays in the process group of the test: whoever ends that group (a terminal, a test runner at its time limit)
/// ends the servers with it, even when the test is given no chance to clean up.
pub struct Daemon {
    /// The name by which the test calls it.
    pub name: String,
    /// The address at which it serves HTTP.
    pub http: SocketAddr,
    /// Arguments that it is started with; a change counts from the next start on.
    pub args: Vec<String>,
    program: PathBuf,
    log: PathBuf,
    child: Option<Child>,
    env: Vec<(String, String)>,
    stderr: Option<File>,
}

impl Daemon {
    /// A program that is not started yet. All its starts append to `log`.
    pub fn new(name: &str, program: PathBuf, args: Vec<String>, http: SocketAddr, log: PathBuf) -> Self {
        Self { name: name.to_owned(), http, args, program, log, child: None, env: Vec::new(), stderr: None }
    }

    /// Another program in its place, with the same flags, from the next start on.
    pub fn run_by(&mut self, program: PathBuf) {
        self.program = program;
    }

    /// Sets a variable of its environment, from the next start on.
    pub fn env(&mut self, name: &str, value: &str) {
        self.env.push((name.to_owned(), value.to_owned()));
    }

    /// Sends its stderr there instead of to its log, from the next start on.
    pub fn stderr_to(&mut self, file: File) {
        self.stderr = Some(file);
    }

    /// Gives a flag another value, from the next start on; adds it if it was not there.
    pub fn set(&mut self, flag: &str, value: &str) {
        let old = self.args.iter().position(|arg| arg == flag).and_then(|at| self.args.get_mut(at + 1));
        match old {
            Some(old) => value.clone_into(old),
            None => self.args.extend([flag.to_owned(), value.to_owned()]),
        }
    }

    /// Leaves a flag and its value out, from the next start on.
    pub fn unset(&mut self, flag: &str) {
        if let Some(at) = self.args.iter().position(|arg| arg == flag) {
            self.args.drain(at..(at + 2).min(self.args.len()));
        }
    }

    /// Lets it run in a network namespace, from the next start on.
    pub fn run_inside(&mut self, namespace: &Path) {
        // nsenter becomes the program: the process id stays that of the program.
        let program = std::mem::replace(&mut self.program, PathBuf::from("nsenter"));
        let inside = [format!("--net={}", namespace.display()), program.display().to_string()];
        self.args.splice(0..0, inside);
    }

    /// Lets it have so many file descriptors at most, from the next start on.
    pub fn limit_descriptors(&mut self, most: u64) {
        // prlimit becomes the program: the process id stays that of the program.
        let program = std::mem::replace(&mut self.program, PathBuf::from("prlimit"));
        let limited = [format!("--nofile={most}:{most}"), program.display().to_string()];
        self.args.splice(0..0, limited);
    }

    /// From the next start on a write past a limit on the length of files (`RLIMIT_FSIZE`) fails instead of ending the process.
    pub fn survive_file_limit(&mut self) {
        // Ignored signals stay so when the shell becomes the program; the process id stays the same too.
        let program = std::mem::replace(&mut self.program, PathBuf::from("sh"));
        let shell = ["-c", "trap '' XFSZ; exec \"$0\" \"$@\""].map(str::to_owned);
        self.args.splice(0..0, shell.into_iter().chain([program.display().to_string()]));
    }

    /// Starts it.
    ///
    /// # Errors
    /// If it runs already or cannot be started.
    pub fn start(&mut self) -> Result<()> {
        if self.running() {
            bail!("{} runs already", self.name);
        }
        let log = File::options().create(true).append(true).open(&self.log)?;
        let stderr = self.stderr.as_ref().map(File::try_clone).transpose()?;
        let child = command(&self.program)
            .args(&self.args)
            .envs(self.env.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(stderr.unwrap_or(log))
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        self.child = Some(child);
        Ok(())
    }

    /// Its process id, if it was started and not ended by us.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Tells whether it runs.
    pub fn running(&mut self) -> bool {
        matches!(self.child.as_mut().map(Child::try_wait), Some(Ok(None)))
    }

    /// The status with which it ended, if it did so by itself.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().ok()?
    }

    /// Ends it as a power cut would, but for the disk: SIGKILL, and waits until it is gone.
    pub fn kill_9(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Asks it to end, and waits for it, at most [`END_MAX`]. Says how it ended and how long that took.
    ///
    /// # Errors
    /// If it does not run or does not end.
    pub async fn terminate(&mut self) -> Result<(ExitStatus, Duration)> {
        let mut child = self.child.take().with_context(|| format!("{} does not run", self.name))?;
        let began = Instant::now();
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM)?;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok((status, began.elapsed()));
            }
            if began.elapsed() > END_MAX {
                let _ = child.kill();
                let _ = child.wait();
                bail!("{} still ran {END_MAX:?} after SIGTERM\n{}", self.name, self.log_tail(40));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Memory it has in RAM, in bytes.
    ///
    /// # Errors
    /// If it does not run.
    pub fn memory(&self) -> Result<u64> {
        let pid = self.pid().with_context(|| format!("{} does not run", self.name))?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(kib.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
    }

    /// Processor time that it has used so far, of all its threads, in user mode and in the kernel's.
    ///
    /// # Errors
    /// If it does not run.
    pub fn cpu(&self) -> Result<Duration> {
        let pid = self.pid().with_context(|| format!("{} does not run", self.name))?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // proc(5): the second field may hold anything, even blanks, but ends with the last parenthesis.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let ticks: u64 = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        let ticks_a_second = rustix::param::clock_ticks_per_second();
        Ok(Duration::from_millis(ticks * 1_000 / ticks_a_second.max(1)))
    }

    /// Its log.
    pub fn log_text(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The last lines of its log.
    pub fn log_tail(&self, lines: usize) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let skip = text.lines().count().saturating_sub(lines);
        let tail: Vec<_> = text.lines().skip(skip).collect();
        format!("---- {} ({}), last {lines} lines\n{}", self.name, self.log.display(), tail.join("\n"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill_9();
    }
}
