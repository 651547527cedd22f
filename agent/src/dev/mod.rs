//! The base of a start: a serial file and its masters, or, for laptops and tests, a process that is its own masters.
//!
//! Such a process is a cluster of its own, whose id no other has, and its masters are no port that anybody could reach. All else is the
//! agent's own code. What it would lose with its folder it keeps nowhere: a folder that it makes for itself goes when it ends, and
//! another start is another cluster, with another token. In a folder that it is given, what was granted is durable before it is used, so
//! nothing repeats there, whenever it is killed.

mod ledger;
mod masters;

pub(crate) use masters::Masters;

use crate::serial_file::{self, AfterReboot, NUM_BLOCKS_DEFAULT, Opened, SerialFileError};
use common::clock::Clock;
use common::parameters::SessionId;
use ledger::Ledger;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The serial file in its folder,
const SERIAL_FILE: &str = "uniq_generator.serial";
/// and what was granted.
const LEDGER: &str = "uniq_dev.ledger";
/// The address of the masters, in the log and in `/status`.
const ADDRESS: &str = "this process";
/// Says where what is temporary is; where nobody says it, that is
const TEMPORARY: &str = "TMPDIR";
/// in memory, if this machine has a folder there: nothing is to survive, so nothing has to wait for a disk.
const IN_MEMORY: &str = "/dev/shm";
/// Its owner's alone.
const FOLDER_MODE: u32 = 0o700;

/// The base that a start goes on with.
pub(crate) struct Base {
    pub(crate) opened: Opened,
    pub(crate) serial_file: PathBuf,
    /// Addresses of masters.
    pub(crate) masters: Vec<String>,
    /// If the process is its own masters.
    pub(crate) own: Option<Own>,
}

/// A process' own masters.
pub(crate) struct Own {
    pub(crate) masters: Masters,
    pub(crate) folder: Folder,
}

/// A reason for which there is no start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BaseError {
    #[error(transparent)]
    SerialFile(#[from] SerialFileError),
    #[error("{0}")]
    Folder(String),
}

/// A folder, removed when this is dropped if nobody asked to keep it.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    kept: bool,
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.kept
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            tracing::warn!(%error, folder = %self.path.display(), "the folder of this process was not removed");
        }
    }
}

impl Folder {
    /// The folder at `path`, made if it is not there.
    fn kept(path: &Path) -> Result<Self, BaseError> {
        let made = DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path);
        made.map_err(|e| failed("make", path, &e))?;
        Ok(Self { path: path.to_owned(), kept: true })
    }

    /// A new one, among what is temporary.
    fn temporary() -> Result<Self, BaseError> {
        let make = |among: PathBuf| {
            let path = among.join(format!("uniq-dev-{:032x}", rand::random::<u128>()));
            let made = DirBuilder::new().mode(FOLDER_MODE).create(&path);
            made.map(|()| Self { path: path.clone(), kept: false }).map_err(|e| failed("make", &path, &e))
        };
        match std::env::var_os(TEMPORARY) {
            Some(_) => make(std::env::temp_dir()),
            None => make(IN_MEMORY.into()).or_else(|_| make(std::env::temp_dir())),
        }
    }
}

fn failed(what: &str, folder: &Path, error: &io::Error) -> BaseError {
    BaseError::Folder(format!("cannot {what} the folder {}: {error}", folder.display()))
}

impl Base {
    /// A serial file, with these masters.
    ///
    /// # Errors
    /// [`BaseError`], naming the remedy.
    pub(crate) fn with_masters(
        serial_file: &Path,
        masters: Vec<String>,
        after_reboot: AfterReboot,
    ) -> Result<Self, BaseError> {
        let opened = serial_file::open(serial_file, after_reboot, SessionId(rand::random()))?;
        if opened.holdings.cluster.is_some_and(|cluster| cluster.is_for_trying()) {
            let file = serial_file.display();
            return Err(BaseError::Folder(format!(
                "{file} is of an agent that is its own masters (--dev): go on with it by --dev --dev-dir, or make another file by --format"
            )));
        }
        Ok(Self { opened, serial_file: serial_file.to_owned(), masters, own: None })
    }

    /// A process that is its own masters, which keeps what it grants in the folder `keep`, if there is one.
    ///
    /// # Errors
    /// [`BaseError`], naming the remedy.
    pub(crate) fn alone(keep: Option<&Path>, after_reboot: AfterReboot, clock: Clock) -> Result<Self, BaseError> {
        let folder = keep.map_or_else(Folder::temporary, Folder::kept)?;
        let serial_file = folder.path.join(SERIAL_FILE);
        let ledger_file = folder.path.join(LEDGER);
        // Whoever comes here at the same time is refused by one of these two: from then on the folder is ours.
        let is_new = !serial_file.try_exists().map_err(|e| failed("look into", &folder.path, &e))?;
        if is_new {
            serial_file::format(&serial_file, NUM_BLOCKS_DEFAULT, clock.wall(), SessionId(rand::random()))?;
        }
        let opened = serial_file::open(&serial_file, after_reboot, SessionId(rand::random()))?;
        let unusable = |why: &str| {
            BaseError::Folder(format!(
                "{} {why}: take another folder for --dev-dir, or remove this one if its IDs may come again",
                folder.path.display()
            ))
        };
        let ledger = match masters::kept(&ledger_file) {
            Ok(Some(ledger)) => ledger,
            Ok(None) if is_new => Ledger::new(rand::random()),
            Ok(None) => return Err(unusable(&format!("has a serial file, but no {LEDGER}"))),
            Err(why) => return Err(unusable(&format!("has an {LEDGER} that cannot be read ({why})"))),
        };
        if opened.holdings.cluster.is_some_and(|cluster| cluster != ledger.cluster()) {
            return Err(unusable("has a serial file of another cluster"));
        }
        let masters = Masters::new(ledger, keep.is_some().then_some(ledger_file), clock);
        let masters = masters.map_err(|why| unusable(&format!("cannot be written to ({why})")))?;
        tracing::warn!("{}", masters.about());
        Ok(Self { opened, serial_file, masters: vec![ADDRESS.to_owned()], own: Some(Own { masters, folder }) })
    }
}
