//! One step of the product's code on a folder in memory.
//!
//! A process in the midst of a write is kept as what it knew when it began, and the answers that the disk has given it
//! since. For its next step the product's own code runs again from the beginning, is given those answers, does one step
//! more, and is stopped at the one after: whatever it says from then on is thrown away.

use super::Twin;
use super::folder::{Data, Flushed, Folder, Name};
use serial_file::{
    Access, BootId, Born, Disk, FileLocation, FileSystem, FileSystemId, FileSystemKind, Fingerprint, Holdings, Lineage,
    Stat, decode,
};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::{Arc, LazyLock};

/// The behaviour of the disk at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// All that it should.
    None,
    /// The disk does nothing (a write: only half), and says so.
    Fails,
    /// The disk does it, and yet says that it failed.
    DoneButFails,
}

/// An answer of the disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reply {
    Done,
    Seen(Option<Stat>),
    Opened(Option<Handle>),
    Read(Data),
    Locked(bool),
    Failed(io::ErrorKind),
}

/// An open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Handle(pub(super) u8);

/// A disk with its process.
pub(super) struct Run {
    pub(super) folder: Folder,
    pub(super) clock: u16,
    /// The answers so far.
    pub(super) log: Vec<Reply>,
    /// True if the process wants to go on after this step.
    pub(super) suspended: bool,
    /// True if there were more files than the model's disk holds.
    pub(super) full: bool,
    /// True if the fault could not happen at this step, or is another one's.
    pub(super) pointless: bool,
    answered: usize,
    /// Steps that it may do; the last one with the fault.
    credit: u32,
    fault: Fault,
    who: u8,
    twins: Vec<Twin>,
}

thread_local! {
    static RUN: RefCell<Option<Run>> = const { RefCell::new(None) };
}

impl Run {
    /// The process `who` at its next step, after the answers in `log`.
    pub(super) fn step(folder: Folder, clock: u16, log: Vec<Reply>, who: u8, fault: Fault, twins: &[Twin]) -> Self {
        let (suspended, full, pointless, answered) = (false, false, false, 0);
        let twins = twins.to_vec();
        Self { folder, clock, log, suspended, full, pointless, answered, credit: 1, fault, who, twins }
    }

    /// A process that nobody disturbs.
    pub(super) fn whole(folder: Folder, clock: u16) -> Self {
        Self { credit: u32::MAX, ..Self::step(folder, clock, Vec::new(), 0, Fault::None, &[]) }
    }

    /// The same disk, for a process that begins with something else.
    pub(super) fn again(self) -> Self {
        Self { log: Vec::new(), answered: 0, suspended: false, ..self }
    }

    /// Runs `code` on it.
    pub(super) fn with<T>(self, code: impl FnOnce() -> T) -> (Self, T) {
        RUN.set(Some(self));
        let done = code();
        match RUN.take() {
            Some(run) => (run, done),
            None => unreachable!("only this takes it"),
        }
    }

    fn has(&self, twin: Twin) -> bool {
        self.twins.contains(&twin)
    }

    fn next(&mut self, half: impl FnOnce(&mut Self), whole: impl FnOnce(&mut Self) -> Reply) -> Reply {
        if let Some(reply) = self.log.get(self.answered) {
            self.answered += 1;
            return reply.clone();
        }
        if self.credit == 0 {
            self.suspended = true;
            return Reply::Failed(io::ErrorKind::Interrupted);
        }
        self.credit -= 1;
        let reply = match self.fault {
            Fault::None => whole(self),
            Fault::Fails => {
                half(self);
                Reply::Failed(io::ErrorKind::Other)
            }
            Fault::DoneButFails => {
                whole(self);
                Reply::Failed(io::ErrorKind::Other)
            }
        };
        self.log.push(reply.clone());
        self.answered += 1;
        reply
    }

    fn stat_of(&self, number: u8) -> Option<Stat> {
        let mut stat = self.folder.stat(number)?;
        if self.has(Twin::NoCtime) {
            stat.identity.ctime_s = 0;
        }
        if self.has(Twin::NoBirth) {
            stat.born = Some(Born { s: 0, ns: 0 });
        }
        Some(stat)
    }

    fn create(&mut self, name: Name) -> Reply {
        if self.folder.at(name).is_some() {
            return Reply::Failed(io::ErrorKind::AlreadyExists);
        }
        let made = self.folder.create(name, self.clock).map(Handle);
        self.full |= made.is_none();
        Reply::Opened(made)
    }

    fn file_system(&self) -> FileSystemId {
        let fsid = if self.has(Twin::NoFileSystemId) { 0 } else { self.folder.volume.into() };
        FileSystemId { fsid, ..FileSystemId::default() }
    }

    /// A lineage that fits whatever file is there.
    fn forged(&self) -> Option<Data> {
        let number = self.folder.at(Name::File)?;
        let (stat, inode) = (self.stat_of(number)?, self.folder.inode(number)?);
        let header = decode(&inode.data).ok()?.header;
        let boot = boot_id(self.folder.boot)?;
        let (identity, write_counter, session) = (stat.identity, header.write_counter, header.session);
        let seen = Fingerprint { identity, write_counter, boot, session, file_system: self.file_system() };
        let lineage = Lineage { seen, next: None, holdings: Holdings::default() };
        lineage.encode().ok().map(Data::new)
    }
}

fn boot_id(boot: u8) -> Option<BootId> {
    boot.to_string().parse().ok()
}

/// The kind of all file systems here.
const EXT4: FileSystemKind = FileSystemKind(0xef53);

/// The disk of the process that is running in this thread.
#[derive(Debug)]
pub(super) struct MemoryDisk;

/// The disk.
pub(super) fn disk() -> Arc<dyn Disk<File = Handle>> {
    static DISK: LazyLock<Arc<MemoryDisk>> = LazyLock::new(|| Arc::new(MemoryDisk));
    Arc::clone(&*DISK) as Arc<dyn Disk<File = Handle>>
}

/// The place of the file. The folder is never looked at.
pub(super) fn place() -> Arc<FileLocation> {
    static PLACE: LazyLock<Option<Arc<FileLocation>>> =
        LazyLock::new(|| FileLocation::resolve(Path::new("/F")).ok().map(Arc::new));
    match &*PLACE {
        Some(place) => Arc::clone(place),
        None => unreachable!("there is always a root folder"),
    }
}

/// Turns an answer of the log into one of the product's.
fn run<T>(
    half: impl FnOnce(&mut Run),
    whole: impl FnOnce(&mut Run) -> Reply,
    answer: impl FnOnce(Reply) -> Option<T>,
) -> io::Result<T> {
    let reply = RUN.with_borrow_mut(|run| run.as_mut().map(|run| run.next(half, whole)));
    match reply {
        Some(Reply::Failed(kind)) => Err(kind.into()),
        other => other.and_then(answer).ok_or_else(|| io::ErrorKind::InvalidData.into()),
    }
}

/// A step that changes nothing: there is one way to fail.
fn look<T>(whole: impl FnOnce(&mut Run) -> Reply, answer: impl FnOnce(Reply) -> Option<T>) -> io::Result<T> {
    let once = |run: &mut Run| {
        run.pointless |= run.fault == Fault::DoneButFails;
        whole(run)
    };
    run(|_| {}, once, answer)
}

fn done(reply: Reply) -> Option<()> {
    (reply == Reply::Done).then_some(())
}

fn opened(reply: Reply) -> Option<Handle> {
    let Reply::Opened(file) = reply else { return None };
    file
}

fn name(name: &OsStr) -> io::Result<Name> {
    Name::of(name).ok_or_else(|| io::ErrorKind::InvalidFilename.into())
}

impl Disk for MemoryDisk {
    type File = Handle;

    fn stat_name(&self, at: &OsStr) -> io::Result<Option<Stat>> {
        let at = name(at)?;
        let seen = |reply| if let Reply::Seen(seen) = reply { Some(seen) } else { None };
        look(|run| Reply::Seen(run.folder.at(at).and_then(|number| run.stat_of(number))), seen)
    }

    fn stat(&self, file: &Handle) -> io::Result<Stat> {
        look(|run| Reply::Seen(run.stat_of(file.0)), |reply| if let Reply::Seen(seen) = reply { seen } else { None })
    }

    fn open(&self, at: &OsStr, _: Access) -> io::Result<Handle> {
        let at = name(at)?;
        let there = |run: &mut Run| match run.folder.at(at) {
            Some(number) => Reply::Opened(Some(Handle(number))),
            None => Reply::Failed(io::ErrorKind::NotFound),
        };
        look(there, opened)
    }

    fn read(&self, file: &Handle, _: usize) -> io::Result<Vec<u8>> {
        let bytes = |run: &mut Run| {
            let is_lineage = run.folder.at(Name::Lineage) == Some(file.0);
            let forged = if is_lineage && run.has(Twin::AnyLineage) { run.forged() } else { None };
            let data = forged.or_else(|| run.folder.inode(file.0).map(|inode| inode.data.clone()));
            Reply::Read(data.unwrap_or_else(|| Data::new(Vec::new())))
        };
        look(bytes, |reply| if let Reply::Read(data) = reply { Some(data.to_vec()) } else { None })
    }

    fn create(&self, at: &OsStr) -> io::Result<Handle> {
        let at = name(at)?;
        run(|_| {}, |run| run.create(at), opened)
    }

    fn create_after(&self, at: &OsStr, born: Born) -> io::Result<Option<Handle>> {
        let at = name(at)?;
        let make = |run: &mut Run| {
            let later = u16::try_from(born.s + 1).unwrap_or(u16::MAX);
            run.clock = run.clock.max(later);
            run.create(at)
        };
        run(|_| {}, make, opened).map(Some)
    }

    fn try_lock(&self, file: &Handle) -> io::Result<bool> {
        let lock = |run: &mut Run| {
            let (who, free_for_all) = (run.who, run.has(Twin::NoLock));
            let Some(inode) = run.folder.inode_mut(file.0) else { return Reply::Locked(false) };
            let ours = free_for_all || inode.lock.is_none_or(|by| by == who);
            if ours {
                inode.lock = Some(who);
            }
            Reply::Locked(ours)
        };
        run(|_| {}, lock, |reply| if let Reply::Locked(ours) = reply { Some(ours) } else { None })
    }

    fn write(&self, file: &Handle, bytes: &[u8]) -> io::Result<()> {
        let put = |run: &mut Run, len: usize| {
            if let Some(inode) = run.folder.inode_mut(file.0) {
                inode.data = Data::new(bytes.iter().copied().take(len).collect());
                inode.flushed = Flushed::No;
            }
            Reply::Done
        };
        run(|run| drop(put(run, bytes.len() / 2)), |run| put(run, bytes.len()), done)
    }

    fn fsync(&self, file: &Handle) -> io::Result<()> {
        let flush = |run: &mut Run, how: Flushed| {
            let lies = run.has(Twin::FilesNotFlushed);
            let inode = run.folder.inode_mut(file.0).filter(|inode| !lies && inode.flushed == Flushed::No);
            if let Some(inode) = inode {
                inode.flushed = how;
            }
            Reply::Done
        };
        run(|run| drop(flush(run, Flushed::Failed)), |run| flush(run, Flushed::Yes), done)
    }

    fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let (from, to) = (name(from)?, name(to)?);
        let put = |run: &mut Run| match run.folder.rename(from, to, run.clock) {
            true => Reply::Done,
            false => Reply::Failed(io::ErrorKind::NotFound),
        };
        run(|_| {}, put, done)
    }

    fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let (from, to) = (name(from)?, name(to)?);
        let put = |run: &mut Run| match (run.folder.at(to), run.folder.at(from)) {
            (Some(_), _) => Reply::Failed(io::ErrorKind::AlreadyExists),
            (None, None) => Reply::Failed(io::ErrorKind::NotFound),
            (None, Some(_)) => {
                run.folder.rename(from, to, run.clock);
                Reply::Done
            }
        };
        run(|_| {}, put, done)
    }

    fn fsync_folder(&self) -> io::Result<()> {
        let flush = |run: &mut Run| {
            if !run.has(Twin::NamesNotFlushed) {
                run.folder.flush_names();
            }
            Reply::Done
        };
        run(|_| {}, flush, done)
    }

    fn unlink(&self, at: &OsStr) -> io::Result<()> {
        let at = name(at)?;
        let remove = |run: &mut Run| {
            run.folder.set_name(at, None);
            Reply::Done
        };
        run(|_| {}, remove, done)
    }

    fn file_system(&self) -> io::Result<FileSystem> {
        let id = RUN.with_borrow(|run| run.as_ref().map(Run::file_system)).unwrap_or_default();
        Ok(FileSystem { kind: EXT4, id })
    }

    fn boot_id(&self) -> io::Result<BootId> {
        let boot =
            RUN.with_borrow(|run| run.as_ref().map(|run| if run.has(Twin::NoBootId) { 0 } else { run.folder.boot }));
        boot.and_then(boot_id).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}
