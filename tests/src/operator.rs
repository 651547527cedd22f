//! Work of an operator on a pair of masters by the command line.

use crate::cluster::Master;
use crate::programs::{self, Ended};
use anyhow::{Context as _, Result, bail};
use std::net::SocketAddr;
use std::path::Path;

fn run(args: &[&str]) -> Result<Ended> {
    programs::run(&programs::master()?, args, Path::new("/"))
}

fn data_dir(master: &Master) -> Result<&str> {
    master.data_dir.to_str().context("the data directory's name is not text")
}

/// Declares the other master lost on a stopped one; gives the join token.
///
/// # Errors
/// If it is refused, or prints no token.
pub fn peer_lost(survivor: &Master) -> Result<String> {
    let ended = run(&["--peer-lost", "--data-dir", data_dir(survivor)?])?;
    let token = ended.out.trim().to_owned();
    if ended.status != Some(0) || token.len() != 64 {
        bail!("--peer-lost failed: {ended:?}");
    }
    Ok(token)
}

/// Makes the store of `replacement` from the survivor whose `--peer-listen` is given.
///
/// # Errors
/// If the program cannot be run; a refusal is an answer.
pub fn join(token: &str, replacement: &Master, survivor: SocketAddr) -> Result<Ended> {
    join_with(token, replacement, survivor, &[])
}

/// The same with further flags.
///
/// # Errors
/// As [`join`].
pub fn join_with(token: &str, replacement: &Master, survivor: SocketAddr, flags: &[&str]) -> Result<Ended> {
    let (id, survivor) = (replacement.id.to_string(), survivor.to_string());
    let args = ["--join", token, "--data-dir", data_dir(replacement)?, "--id", &id, "--peer", &survivor];
    run(&args.iter().chain(flags).copied().collect::<Vec<_>>())
}

/// A command on a stopped master's store, such as `--after-revert`, with further flags.
///
/// # Errors
/// If the program cannot be run; a refusal is an answer.
pub fn remedy(master: &Master, command: &str, flags: &[&str]) -> Result<Ended> {
    let args = [command, "--data-dir", data_dir(master)?];
    run(&args.iter().chain(flags).copied().collect::<Vec<_>>())
}

/// Makes the store of a stopped master anew, as that of a new cluster, with further flags.
///
/// # Errors
/// If the old one cannot be removed, or `--format` fails.
pub fn format_anew(master: &Master, flags: &[&str]) -> Result<Ended> {
    std::fs::remove_dir_all(&master.data_dir)?;
    let id = master.id.to_string();
    let args = ["--format", "--data-dir", data_dir(master)?, "--id", &id];
    let ended = run(&args.iter().chain(flags).copied().collect::<Vec<_>>())?;
    if ended.status != Some(0) {
        bail!("--format failed: {ended:?}");
    }
    Ok(ended)
}

/// Copies a stopped master's folder away.
///
/// # Errors
/// If it cannot be copied.
pub fn keep(master: &Master) -> Result<()> {
    copy(&master.data_dir, &kept(master))
}

/// Puts the copy back in the place of a stopped master's folder.
///
/// # Errors
/// If it cannot be copied.
pub fn put_back(master: &Master) -> Result<()> {
    std::fs::remove_dir_all(&master.data_dir)?;
    copy(&kept(master), &master.data_dir)
}

fn kept(master: &Master) -> std::path::PathBuf {
    master.data_dir.with_extension("kept")
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status()?;
    if !status.success() {
        bail!("cannot copy {} to {}: {status}", from.display(), to.display());
    }
    Ok(())
}
