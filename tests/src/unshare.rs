//! Tests in kernel namespaces of their own: each runs in there as a process of its own. Whatever becomes of it, the kernel clears
//! everything away with its last process, and nothing of it is ever seen outside.

use crate::programs;
use anyhow::{Context as _, Result, bail, ensure};
use std::process::Command;

/// Set for the test inside.
const INSIDE: &str = "UNIQ_INSIDE";
/// As root, and as anybody where the kernel lets users have namespaces of their own.
const WAYS: [&[&str]; 2] = [&[], &["--user", "--map-root-user"]];

/// Namespaces and what they are needed for.
pub struct Namespaces {
    /// Flags of unshare(1).
    pub flags: &'static [&'static str],
    /// Commands of a shell that come before the test.
    pub setup: &'static str,
    /// Commands of a shell that show that the test can do what it needs.
    pub probe: &'static str,
    /// The environment variable by whose value `required` a test that cannot have them fails instead of leaving itself out.
    pub wanted: &'static str,
    /// Words for what is not there then.
    pub what: &'static str,
}

impl Namespaces {
    /// Runs a test inside: the one whose function the closure of type `Test` stands in. Says so if it is left out.
    ///
    /// # Errors
    /// If it fails, if the programs are missing, or if the namespaces are that are required.
    #[allow(clippy::print_stdout, reason = "a test says that it was left out")]
    pub fn run<Test>(&self, test: impl FnOnce() -> Result<()>) -> Result<()> {
        if std::env::var_os(INSIDE).is_some() {
            return test();
        }
        let mut failed = Vec::new();
        for way in WAYS {
            match self.shell(way, self.probe).output() {
                Ok(probe) if probe.status.success() => return self.run_inside(way, name_of::<Test>()?),
                Ok(probe) => failed.push(format!("{way:?}: {}", String::from_utf8_lossy(&probe.stderr).trim())),
                Err(e) => failed.push(format!("{way:?}: cannot run unshare: {e}")),
            }
        }
        let why = format!("{} cannot be had here ({})", self.what, failed.join("; "));
        if std::env::var_os(self.wanted).is_some_and(|wanted| wanted == "required") {
            bail!("{}=required, but {why}", self.wanted);
        }
        println!("LEFT OUT: {why}");
        Ok(())
    }

    fn shell(&self, way: &[&str], script: &str) -> Command {
        let mut command = Command::new("unshare");
        let path = std::env::var("PATH").unwrap_or_default();
        command.args(way).args(self.flags).args(["sh", "-c", &format!("{} && {script}", self.setup), "sh"]);
        // Where ip, nft and mkfs are, and where a user's PATH does not lead.
        command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
        command
    }

    fn run_inside(&self, way: &[&str], name: &str) -> Result<()> {
        // Built out here: in there is no way to anything.
        let programs = programs::master()?;
        let programs = programs.parent().context("programs without a folder")?;
        let mut command = self.shell(way, "exec \"$@\"");
        command.arg(std::env::current_exe()?).args(["--exact", name, "--nocapture", "--test-threads=1"]);
        let status = command.env(INSIDE, "1").env(programs::BIN_DIR, programs).status()?;
        ensure!(status.success(), "inside: {status}");
        Ok(())
    }
}

/// The name of the test that a closure stands in, by which its program finds it: a program that finds none runs none, and ends well.
fn name_of<Test>() -> Result<&'static str> {
    let path = std::any::type_name::<Test>().split_once("::").context("a type without a path")?.1;
    let name = path.split("::{{closure}}").next().unwrap_or(path);
    let tests = Command::new(std::env::current_exe()?).args(["--list", "--exact", name]).output()?;
    ensure!(String::from_utf8_lossy(&tests.stdout).contains(&format!("{name}: test")), "there is no test {name}");
    Ok(name)
}

/// Runs a test to its end on a runtime of its own.
///
/// # Errors
/// If there are no threads for it.
pub fn block_on(test: impl Future<Output = ()>) -> Result<()> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(test);
    Ok(())
}
