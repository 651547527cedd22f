//! The serial file in use.
use super::{AfterReboot, Contents, Holdings, StartKind};
use common::terms::SessionId;
use common::time::WallMs;
use std::path::{Path, PathBuf};

/// The serial file, locked by this process.
#[derive(Debug)]
pub struct SerialFile {
    path: PathBuf,
}

/// What a start finds.
#[derive(Debug)]
pub struct Opened {
    /// The file, locked.
    pub file: SerialFile,
    /// What it says.
    pub contents: Contents,
    /// What the session holds; empty if it is a new one.
    pub holdings: Holdings,
    /// Whether the session goes on.
    pub start: StartKind,
}

/// Why there is no serial file to work with. Every message names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum SerialFileError {
    /// Nothing at the path.
    #[error("no serial file at {0}: make one with `uniq_generator --format --serial-file {0}`")]
    Missing(PathBuf),
}

/// Why a change did not become durable.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The disk did not do its part. The bounds of the last successful write hold; it may be tried again.
    #[error("the serial file cannot be written: {0}")]
    Io(std::io::Error),
    /// Someone else has the file: stop minting and end the process.
    #[error("the serial file is no longer ours: {0}")]
    Taken(String),
}

/// Makes a serial file with `num_blocks` (1..=10000) empty blocks; never over anything that is there.
///
/// # Errors
/// See [`SerialFileError`].
pub fn format(path: &Path, _num_blocks: u32, _now: WallMs, _random_session: SessionId) -> Result<(), SerialFileError> {
    Err(SerialFileError::Missing(path.to_owned()))
}

/// Locks and reads the serial file and finds out whether its session goes on; if not, `new_session` is durable in it
/// before this returns.
///
/// # Errors
/// See [`SerialFileError`].
pub fn open(path: &Path, _after_reboot: AfterReboot, _new_session: SessionId) -> Result<Opened, SerialFileError> {
    Err(SerialFileError::Missing(path.to_owned()))
}

impl SerialFile {
    /// Where it is, with its folder resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes `contents` and `holdings` durable; only when this returns may what they allow be used. Counts
    /// `contents.header.write_counter` up, also when it fails.
    ///
    /// # Errors
    /// [`WriteError::Io`]: the old bounds hold, try again. [`WriteError::Taken`]: end the process.
    pub fn write(&mut self, _contents: &mut Contents, _holdings: &Holdings) -> Result<(), WriteError> {
        Err(WriteError::Io(std::io::ErrorKind::Unsupported.into()))
    }

    /// Makes `holdings` durable while the marks stay as they are.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_holdings(&mut self, _holdings: &Holdings) -> Result<(), WriteError> {
        Err(WriteError::Io(std::io::ErrorKind::Unsupported.into()))
    }
}
