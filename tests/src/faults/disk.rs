//! The real disk with a fault at a chosen call, and with a memory of what is flushed.

use rustix::io::Errno;
use serial_file::{Access, BootId, Born, Contents, Disk, FileSystem, OsDisk, Stat, decode};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A fault at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The process dies, and the call is not done.
    DiesBefore,
    /// The process dies when half of the bytes are written.
    DiesWithin,
    /// The process dies, and the call is done.
    DiesAfter,
    /// ENOSPC. A write has written half of its bytes by then, as on a disk that becomes full.
    NoSpace,
    /// EIO, and nothing is done.
    Io,
    /// EIO, although it is done.
    DoneButIo,
}

impl Fault {
    /// All that kill.
    pub const KILLS: [Self; 3] = [Self::DiesBefore, Self::DiesWithin, Self::DiesAfter];
    /// All that a process survives.
    pub const ERRORS: [Self; 3] = [Self::NoSpace, Self::Io, Self::DoneButIo];

    /// Tells whether the process dies of it.
    pub fn kills(self) -> bool {
        Self::KILLS.contains(&self)
    }

    /// Tells whether it can happen to a call of that name.
    pub fn fits(self, call: &str) -> bool {
        match self {
            Self::DiesWithin => call == "write",
            Self::NoSpace => TAKES_ROOM.contains(&call),
            Self::DiesBefore | Self::DiesAfter | Self::Io | Self::DoneButIo => true,
        }
    }
}

/// Calls that a full disk can refuse.
const TAKES_ROOM: [&str; 7] = ["create", "create_after", "write", "fsync", "rename", "rename_new", "fsync_folder"];

/// A call of the disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// The method of [`Disk`].
    pub name: &'static str,
    /// On which file.
    pub file: String,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.file)
    }
}

/// A fault that has come to pass.
#[derive(Clone, Debug)]
pub struct Struck {
    /// The fault.
    pub fault: Fault,
    /// At the how manieth call of the operation, from 1 on.
    pub nth: usize,
    /// At which one.
    pub call: Call,
}

/// A disk that is worse than its faults: the twins show that these are noticed by the tests, since no program can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// fsync does nothing and says that it is done.
    NoFsync,
    /// A new version of the serial file never takes its place, and rename says that it did; but for that of a start.
    NoRename,
}

#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    flushed: bool,
}

/// Names and what is behind them.
type Names = BTreeMap<String, Content>;

#[derive(Default)]
struct State {
    /// At the how manieth call from when it was armed, and what.
    plan: Option<(usize, Fault)>,
    /// Calls of the operation, with whether they were done.
    calls: Vec<(Call, bool)>,
    struck: Option<Struck>,
    dead: bool,
    /// The files of this process by their descriptors.
    files: BTreeMap<RawFd, String>,
    /// The names that this process has written, with what is behind them.
    now: Names,
    /// The same when the folder was last flushed.
    kept: Names,
}

/// The product's disk, with faults.
pub struct FaultyDisk {
    os: OsDisk,
    lie: Option<Lie>,
    state: Mutex<State>,
}

impl fmt::Debug for FaultyDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultyDisk")
    }
}

impl FaultyDisk {
    /// The folder at `path`, without a fault so far.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn new(path: &Path, lie: Option<Lie>) -> io::Result<Self> {
        Ok(Self { os: OsDisk::new(path)?, lie, state: Mutex::default() })
    }

    /// At the `at`-th call from now on, this; only once. What does not fit that call becomes what fits any: a death before
    /// it, or EIO.
    pub fn arm(&self, at: usize, fault: Fault) {
        self.state().plan = Some((at, fault));
    }

    /// No fault is to come any more.
    pub fn disarm(&self) {
        self.state().plan = None;
    }

    /// A new operation: its calls are counted from here.
    pub fn begin(&self) {
        let mut state = self.state();
        (state.calls, state.struck) = (Vec::new(), None);
    }

    /// The calls of the operation, and whether each was done.
    pub fn calls(&self) -> Vec<(Call, bool)> {
        self.state().calls.clone()
    }

    /// The fault that struck in the operation.
    pub fn struck(&self) -> Option<Struck> {
        self.state().struck.clone()
    }

    /// Tells whether the process is dead.
    pub fn dead(&self) -> bool {
        self.state().dead
    }

    /// The contents of the serial file that this process has written and flushed last, its name included: what a power cut
    /// would leave.
    pub fn flushed(&self) -> Option<Contents> {
        let state = self.state();
        let content = state.kept.get("F").filter(|content| content.flushed)?;
        decode(&content.bytes).ok()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name_of(&self, file: &File) -> String {
        self.state().files.get(&file.as_raw_fd()).cloned().unwrap_or_default()
    }

    /// Tells whether the operation is a start: it alone asks for the boot.
    fn starts(&self) -> bool {
        self.state().calls.iter().any(|(call, _)| call.name == "boot_id")
    }

    /// One call: `whole` does it, `part` the half of it, and `note` remembers that it was done.
    fn call<T>(
        &self,
        name: &'static str,
        file: String,
        part: impl FnOnce() -> io::Result<()>,
        whole: impl FnOnce() -> io::Result<T>,
        note: impl FnOnce(&mut State, &T),
    ) -> io::Result<T> {
        let fault = self.count(Call { name, file })?;
        let done = match fault {
            None | Some(Fault::DiesAfter) => whole()?,
            // Where there is nothing to be done (no such file), the disk fails all the same.
            Some(Fault::DoneButIo) => whole().map_err(|_| Errno::IO)?,
            Some(Fault::DiesWithin | Fault::NoSpace) => {
                part()?;
                return Err(if self.dead() { dead() } else { Errno::NOSPC.into() });
            }
            Some(Fault::DiesBefore) => return Err(dead()),
            Some(Fault::Io) => return Err(Errno::IO.into()),
        };
        let mut state = self.state();
        if let Some((_, was_done)) = state.calls.last_mut() {
            *was_done = true;
        }
        note(&mut state, &done);
        match fault {
            Some(Fault::DiesAfter) => Err(dead()),
            Some(Fault::DoneButIo) => Err(Errno::IO.into()),
            _ => Ok(done),
        }
    }

    /// Counts a call and says what strikes at it.
    fn count(&self, call: Call) -> io::Result<Option<Fault>> {
        let mut state = self.state();
        if state.dead {
            return Err(dead());
        }
        state.calls.push((call.clone(), false));
        let Some((left, fault)) = &mut state.plan else { return Ok(None) };
        *left = left.saturating_sub(1);
        if *left > 0 {
            return Ok(None);
        }
        let fault = match *fault {
            fault if fault.fits(call.name) => fault,
            fault if fault.kills() => Fault::DiesBefore,
            _ => Fault::Io,
        };
        state.plan = None;
        state.dead = fault.kills();
        state.struck = Some(Struck { fault, nth: state.calls.len(), call });
        Ok(Some(fault))
    }
}

fn dead() -> io::Error {
    io::Error::other("the process is dead")
}

fn nothing() -> io::Result<()> {
    Ok(())
}

fn text(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

impl State {
    fn opened(&mut self, file: &File, name: &str) {
        self.files.insert(file.as_raw_fd(), name.to_owned());
    }

    fn created(&mut self, file: &File, name: &str) {
        self.opened(file, name);
        self.now.insert(name.to_owned(), Content::default());
    }

    fn content(&mut self, file: &File) -> Option<&mut Content> {
        let name = self.files.get(&file.as_raw_fd())?;
        self.now.get_mut(name)
    }

    fn renamed(&mut self, from: &str, to: &str) {
        if let Some(content) = self.now.remove(from) {
            self.now.insert(to.to_owned(), content);
        }
        self.files.retain(|_, name| name != to);
        for name in self.files.values_mut().filter(|name| *name == from) {
            to.clone_into(name);
        }
    }
}

impl Disk for FaultyDisk {
    type File = File;

    fn stat_name(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        self.call("stat_name", text(name), nothing, || self.os.stat_name(name), |_, _| ())
    }

    fn stat(&self, file: &File) -> io::Result<Stat> {
        self.call("stat", self.name_of(file), nothing, || self.os.stat(file), |_, _| ())
    }

    fn open(&self, name: &OsStr, access: Access) -> io::Result<File> {
        let note = |state: &mut State, file: &File| state.opened(file, &text(name));
        self.call("open", text(name), nothing, || self.os.open(name, access), note)
    }

    fn read(&self, file: &File, len_max: usize) -> io::Result<Vec<u8>> {
        self.call("read", self.name_of(file), nothing, || self.os.read(file, len_max), |_, _| ())
    }

    fn create(&self, name: &OsStr) -> io::Result<File> {
        let note = |state: &mut State, file: &File| state.created(file, &text(name));
        self.call("create", text(name), nothing, || self.os.create(name), note)
    }

    fn create_after(&self, name: &OsStr, born: Born) -> io::Result<Option<File>> {
        let note = |state: &mut State, file: &Option<File>| {
            if let Some(file) = file {
                state.created(file, &text(name));
            }
        };
        self.call("create_after", text(name), nothing, || self.os.create_after(name, born), note)
    }

    fn try_lock(&self, file: &File) -> io::Result<bool> {
        self.call("try_lock", self.name_of(file), nothing, || self.os.try_lock(file), |_, _| ())
    }

    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<()> {
        let half = bytes.get(..bytes.len() / 2).unwrap_or_default();
        let note = |state: &mut State, (): &()| {
            if let Some(content) = state.content(file) {
                *content = Content { bytes: bytes.to_vec(), flushed: false };
            }
        };
        let name = self.name_of(file);
        self.call("write", name, || self.os.write(file, half), || self.os.write(file, bytes), note)
    }

    fn fsync(&self, file: &File) -> io::Result<()> {
        let lies = self.lie == Some(Lie::NoFsync);
        let whole = || if lies { Ok(()) } else { self.os.fsync(file) };
        let note = |state: &mut State, (): &()| {
            if let Some(content) = state.content(file) {
                content.flushed = !lies;
            }
        };
        self.call("fsync", self.name_of(file), nothing, whole, note)
    }

    fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let lies = self.lie == Some(Lie::NoRename) && to == "F" && !self.starts();
        let whole = || if lies { Ok(()) } else { self.os.rename(from, to) };
        let note = |state: &mut State, (): &()| state.renamed(&text(from), &text(to));
        self.call("rename", format!("{} {}", text(from), text(to)), nothing, whole, note)
    }

    fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let note = |state: &mut State, (): &()| state.renamed(&text(from), &text(to));
        let file = format!("{} {}", text(from), text(to));
        self.call("rename_new", file, nothing, || self.os.rename_new(from, to), note)
    }

    fn fsync_folder(&self) -> io::Result<()> {
        let note = |state: &mut State, (): &()| state.kept = state.now.clone();
        let lies = self.lie == Some(Lie::NoFsync);
        let whole = || if lies { Ok(()) } else { self.os.fsync_folder() };
        self.call("fsync_folder", ".".to_owned(), nothing, whole, note)
    }

    fn unlink(&self, name: &OsStr) -> io::Result<()> {
        let note = |state: &mut State, (): &()| drop(state.now.remove(&text(name)));
        self.call("unlink", text(name), nothing, || self.os.unlink(name), note)
    }

    fn file_system(&self) -> io::Result<FileSystem> {
        self.call("file_system", ".".to_owned(), nothing, || self.os.file_system(), |_, _| ())
    }

    fn boot_id(&self) -> io::Result<BootId> {
        self.call("boot_id", "/proc".to_owned(), nothing, || self.os.boot_id(), |_, _| ())
    }
}
