//! What an operator does to a pair of masters by the command line.

use crate::cluster::Master;
use crate::programs::{self, Ended};
use anyhow::{Context as _, Result, bail};
use std::net::SocketAddr;
use std::path::Path;

fn run(args: &[&str]) -> Result<Ended> {
    programs::run(&programs::master()?, args, Path::new("/"))
}

fn data_dir(master: &Master) -> Result<&str> {
    master.data_dir.to_str().context("the data directory's name is no text")
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
    let (id, survivor) = (replacement.id.to_string(), survivor.to_string());
    run(&["--join", token, "--data-dir", data_dir(replacement)?, "--id", &id, "--peer", &survivor])
}
