//! The base of a start: a serial file and its masters, or, for laptops and tests, a process that is its own masters.
//!
//! Such a process is a cluster of its own, whose id no other has, and its masters are no port that anybody could reach. All else is the
//! agent's own code. What it would lose with its folder it keeps nowhere: a folder that it makes for itself goes when it ends, and
//! another start is another cluster, with another token. In a folder that it is given, what was granted is durable before it is used, so
//! nothing repeats there, whenever it is killed.

mod ledger;
mod masters;

pub(crate) use masters::Masters;

use common::clock::Clock;
use common::parameters::SessionId;
use ledger::Ledger;
use masters::{Kept, LEDGER_FILE};
use serial_file::{self, AfterReboot, NUM_BLOCKS_DEFAULT, Opened, SerialFileError};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The serial file in its folder.
const SERIAL_FILE: &str = "uniq_generator.serial";
/// The address of the masters, in the log and in `/status`.
const ADDRESS: &str = "this process";
/// The variable that says where temporary files are.
const TEMPORARY: &str = "TMPDIR";
/// The place of temporary files where nobody says another: nothing is to survive, so nothing has to wait for a disk.
const IN_MEMORY: &str = "/dev/shm";
/// Its owner's alone.
const FOLDER_MODE: u32 = 0o700;

/// The base that a start goes on with.
pub(crate) struct Base {
    pub(crate) opened: Opened,
    pub(crate) serial_file: PathBuf,
    /// Addresses of masters.
    pub(crate) masters: Vec<String>,
    /// Those that the process is itself, if it is.
    pub(crate) own: Option<Masters>,
    /// Their folder, to be dropped when nothing writes into it any more.
    pub(crate) folder: Option<Folder>,
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

/// The refusal of a folder, with what else helps than another one.
fn refused(folder: &Path, why: &str, or: &str) -> BaseError {
    BaseError::Folder(format!("{} {why}: take another folder for --dev-dir, or {or}", folder.display()))
}

fn in_use(folder: &Path) -> BaseError {
    refused(folder, "is in use by another process", "end that one")
}

fn unusable(folder: &Path, why: &str) -> BaseError {
    refused(folder, why, "remove this one if its IDs may come again")
}

/// The fault of a serial file that nobody named, so that no other one can be named either.
fn of_folder(folder: &Path, error: SerialFileError) -> BaseError {
    use SerialFileError as E;
    match error {
        E::Locked(_) => in_use(folder),
        E::NotLocal { kind, .. } => refused(folder, &format!("is on {kind}"), "put a local disk there"),
        E::Exists(_) | E::NotAFile(_) | E::SymbolicLink(_) => {
            unusable(folder, "has something else where its serial file belongs")
        }
        E::HardLinked { links, .. } => unusable(folder, &format!("has a serial file with {links} names (hard links)")),
        E::Damaged { reason, .. } => unusable(folder, &format!("has a serial file that is damaged ({reason})")),
        E::Missing(_) | E::NoFolder(_) | E::NoName(_) | E::LongName { .. } | E::Restless(_) => {
            refused(folder, "is being changed", "end who does that")
        }
        other => other.into(),
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
        Ok(Self { opened, serial_file: serial_file.to_owned(), masters, own: None, folder: None })
    }

    /// A process that is its own masters, which keeps what it grants in the folder `keep`, if there is one.
    ///
    /// | step | what | a kill after it |
    /// |---|---|---|
    /// | D1 | make the folder, lock it (`flock` on the folder itself) | an empty folder |
    /// | D2 | write the ledger; it is refused if there is none and a serial file is there | a ledger that granted nothing |
    /// | D3 | make the serial file, if there is none | all that a later start needs |
    ///
    /// A serial file is never older than its ledger, and one that is gone costs a session: what the ledger granted is not granted again.
    ///
    /// # Errors
    /// [`BaseError`], naming the remedy.
    pub(crate) fn alone(keep: Option<&Path>, after_reboot: AfterReboot, clock: Clock) -> Result<Self, BaseError> {
        let folder = keep.map_or_else(Folder::temporary, Folder::kept)?;
        let (at, serial_file) = (&folder.path, folder.path.join(SERIAL_FILE));
        let lock = || Kept::lock(at).map_err(|e| failed("lock", at, &e))?.ok_or_else(|| in_use(at));
        let mut kept = folder.kept.then(lock).transpose()?;
        let is_new = !serial_file.try_exists().map_err(|e| failed("look into", at, &e))?;
        let ledger = match kept.as_mut().map_or(Ok(None), Kept::read) {
            Ok(Some(ledger)) => ledger,
            Ok(None) if is_new => Ledger::new(rand::random()),
            Ok(None) => return Err(unusable(at, &format!("has a serial file, but no {LEDGER_FILE}"))),
            Err(why) => return Err(unusable(at, &format!("has an {LEDGER_FILE} that cannot be read ({why})"))),
        };
        let cluster = ledger.cluster();
        let masters = Masters::new(ledger, kept, clock);
        let masters = masters.map_err(|e| unusable(at, &format!("cannot be written to ({e})")))?;
        if is_new {
            serial_file::format(&serial_file, NUM_BLOCKS_DEFAULT, clock.wall(), SessionId(rand::random()))
                .map_err(|e| of_folder(at, e))?;
        }
        let opened = serial_file::open(&serial_file, after_reboot, SessionId(rand::random()));
        let opened = opened.map_err(|e| of_folder(at, e))?;
        if opened.holdings.cluster.is_some_and(|there| there != cluster) {
            return Err(unusable(at, "has a serial file of another cluster"));
        }
        tracing::warn!("{}", masters.about());
        let masters_at = vec![ADDRESS.to_owned()];
        Ok(Self { opened, serial_file, masters: masters_at, own: Some(masters), folder: Some(folder) })
    }
}
