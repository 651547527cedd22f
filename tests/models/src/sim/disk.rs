//! An agent's disk in memory: files with the identities that a kernel would give them, on which the serial file's own code
//! works system call by system call; at each of them the disk can fail, the process die and the power go.

use super::mutation::{Mutation, Mutations};
use super::rng::Rng;
use common::parameters::SessionId;
use serial_file::{
    Access, AfterReboot, BootId, Born, Disk, FileKind, FileLocation, FileSystem, FileSystemId, FileSystemKind,
    Identity, SerialFileError, Stat, open_on,
};
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// The number of the first inode of a lineage file,
const LINEAGES: u64 = 100;
/// and of one of the bounds of sections.
const BOUNDS: u64 = 200;
/// The number of the one mount of each boot.
const MOUNT: u64 = 1;
/// ext4's number among file systems.
const LOCAL: FileSystemKind = FileSystemKind(0xef53);
/// Between the end of a process and the start of the next one, in milliseconds of the file system's clock.
const BETWEEN_STARTS: i64 = 20_000;
const NAMES: usize = 8;

/// The serial file in a process's hands.
pub type SerialFile = serial_file::SerialFile<Open>;
/// The bounds of sections beside it.
pub type SectionFile = serial_file::SectionFile<Open>;
/// The outcome of a start.
pub type Opened = serial_file::Opened<Open>;

/// At which step of a write something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Before this system call, or as it is made.
    Call(u32),
    /// All is done, but the caller does not hear of it.
    BeforeReturn,
}

impl Point {
    /// System calls of a whole write, about.
    const CALLS: i64 = 20;

    /// Any of them.
    pub fn draw(rng: &mut Rng) -> Self {
        if rng.chance(0.2) { Self::BeforeReturn } else { Self::Call(rng.range(0, Self::CALLS) as u32) }
    }
}

/// The event at that step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// The disk says no; `done`: although it did as it was told.
    Fails {
        /// See above.
        done: bool,
    },
    /// The disk is dead: it does nothing any more, as long as the write lasts.
    Dead,
    /// The process dies.
    Dies,
    /// The power goes: whatever was not flushed may be there or not.
    PowerCut,
}

/// The reason why a process is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The process ended itself: someone else has the file, or it cannot be opened.
    FileLoss,
    /// The process died.
    Died,
    /// And the machine's boot with it.
    PowerCut,
}

/// The mishap of the next writes.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The step at which it happens.
    pub point: Point,
    /// The event.
    pub mishap: Mishap,
    /// The number of times that it happens.
    pub times: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    File,
    Lineage,
    FileNew,
    LineageNew,
    Bounds,
    Proof,
    BoundsNew,
    ProofNew,
}

impl Name {
    /// The names that last, and that a power cut may set back. Bounds of sections count in their boot only.
    const LASTING: [Self; 2] = [Self::File, Self::Lineage];
    /// Those that a new file has before it takes the place of the old one.
    const PASSING: [Self; 4] = [Self::FileNew, Self::LineageNew, Self::BoundsNew, Self::ProofNew];

    fn of(name: &OsStr) -> io::Result<Self> {
        let place = place();
        let names = [
            (&place.file, Self::File),
            (&place.lineage.name, Self::Lineage),
            (&place.file_new, Self::FileNew),
            (&place.lineage.new, Self::LineageNew),
            (&place.bounds.name, Self::Bounds),
            (&place.proof.name, Self::Proof),
            (&place.bounds.new, Self::BoundsNew),
            (&place.proof.new, Self::ProofNew),
        ];
        let known = names.into_iter().find(|(known, _)| known.as_os_str() == name).map(|(_, name)| name);
        known.ok_or_else(|| ErrorKind::NotFound.into())
    }
}

/// The place of the serial file on each of these disks.
fn place() -> &'static Arc<FileLocation> {
    static PLACE: OnceLock<Arc<FileLocation>> = OnceLock::new();
    PLACE.get_or_init(|| Arc::new(FileLocation::new(PathBuf::from("/disk"), OsStr::new("F"))))
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) bytes: Vec<u8>,
    inode: u64,
    ctime: i64,
    born: i64,
    flushed: bool,
    /// Whoever has it locked has the other end of this.
    lock: Weak<()>,
}

type Shared = Arc<Mutex<Node>>;

/// A file that is open.
#[derive(Clone, Debug)]
pub struct Open {
    node: Shared,
    opening: Arc<()>,
}

pub(super) fn locked<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
pub(super) struct Files {
    device: u64,
    pub(super) boot: BootId,
    names: [Option<Shared>; NAMES],
    /// For each lasting name, what it led to since the folder was last flushed.
    past: [Vec<Option<Shared>>; Name::LASTING.len()],
    /// The file system's clock, in milliseconds: no two changes look alike.
    clock: i64,
    /// All files that are there or open.
    made: Vec<Weak<Mutex<Node>>>,
    plan: Option<Plan>,
    /// The plan that is still to happen in the write under way.
    due: Option<Plan>,
    /// The process that works here is no more.
    ended: Option<Failure>,
    /// Someone else had his hands on the file since the last start.
    touched: bool,
}

enum Step {
    Well,
    Fails { done: bool },
    Gone,
}

impl Files {
    fn step(&mut self) -> Step {
        if self.ended.is_some() {
            return Step::Gone;
        }
        let Some(Plan { point: Point::Call(calls), mishap, .. }) = &mut self.due else { return Step::Well };
        if *calls > 0 {
            *calls -= 1;
            return Step::Well;
        }
        let mishap = *mishap;
        self.due = None;
        match mishap {
            Mishap::Fails { done } => Step::Fails { done },
            Mishap::Dead => {
                self.due = Some(Plan { point: Point::Call(0), mishap, times: 1 });
                Step::Fails { done: false }
            }
            Mishap::Dies => self.end(Failure::Died),
            Mishap::PowerCut => self.end(Failure::PowerCut),
        }
    }

    fn end(&mut self, failure: Failure) -> Step {
        self.ended = Some(failure);
        Step::Gone
    }

    pub(super) fn at(&self, name: Name) -> Option<&Shared> {
        self.names[name as usize].as_ref()
    }

    fn set(&mut self, name: Name, to: Option<Shared>) {
        let before = std::mem::replace(&mut self.names[name as usize], to);
        if let Some(past) = self.past.get_mut(name as usize) {
            past.push(before);
        }
    }

    fn now(&mut self) -> i64 {
        self.clock += 1;
        self.clock
    }

    fn make(&mut self, name: Name, bytes: Vec<u8>, flushed: bool) -> Shared {
        let first = match name {
            Name::File | Name::FileNew => 1,
            Name::Lineage | Name::LineageNew => LINEAGES,
            Name::Bounds | Name::Proof | Name::BoundsNew | Name::ProofNew => BOUNDS,
        };
        self.made.retain(|node| node.strong_count() > 0);
        let used: Vec<u64> = self.made.iter().filter_map(Weak::upgrade).map(|node| locked(&node).inode).collect();
        // A free number is used again at once, as file systems do; not that of a file that is there or open.
        let inode = (first..).find(|inode| !used.contains(inode)).unwrap_or(first);
        let clock = self.now();
        let node = Node { bytes, inode, ctime: clock, born: clock, flushed, lock: Weak::new() };
        let node = Arc::new(Mutex::new(node));
        self.made.push(Arc::downgrade(&node));
        node
    }

    /// As it is found after the next start of the machine: of what was not flushed, anything.
    fn cut(&mut self, rng: &mut Rng) {
        for name in Name::LASTING {
            let mut candidates = std::mem::take(&mut self.past[name as usize]);
            candidates.push(self.at(name).cloned());
            let left = candidates.swap_remove(rng.below(candidates.len()));
            if let Some(node) = &left {
                let mut node = locked(node);
                if !std::mem::replace(&mut node.flushed, true) {
                    let kept = node.bytes.len() * rng.below(3) / 2;
                    node.bytes.truncate(kept);
                }
            }
            self.names[name as usize] = left;
        }
        for name in Name::PASSING {
            self.names[name as usize] = None;
        }
    }

    pub(super) fn stat(&self, node: &Shared) -> Stat {
        let links = self.names.iter().flatten().filter(|named| Arc::ptr_eq(named, node)).count() as u64;
        let node = locked(node);
        let (ctime_s, ctime_ns) = (node.ctime / 1_000, node.ctime % 1_000 * 1_000_000);
        let identity = Identity { device: self.device, inode: node.inode, ctime_s, ctime_ns };
        let born = Some(Born { s: node.born / 1_000, ns: (node.born % 1_000 * 1_000_000) as u32 });
        Stat { identity, links, kind: FileKind::Regular, len: node.bytes.len() as u64, born }
    }
}

/// A folder with a serial file, and the disk that it is on.
#[derive(Debug)]
pub struct Folder(Arc<Medium>);

#[derive(Debug)]
struct Medium(Mutex<Files>);

/// The same files on another disk: nobody has them open there, and nothing is left to be flushed.
impl Clone for Folder {
    fn clone(&self) -> Self {
        let files = self.files();
        let copy = |node: &Shared| {
            let Node { bytes, inode, ctime, born, .. } = &*locked(node);
            let (bytes, lock) = (bytes.clone(), Weak::new());
            Arc::new(Mutex::new(Node { bytes, inode: *inode, ctime: *ctime, born: *born, flushed: true, lock }))
        };
        let names = files.names.each_ref().map(|node| node.as_ref().map(copy));
        Self(Arc::new(Medium(Mutex::new(Files {
            device: files.device,
            boot: files.boot,
            made: names.iter().flatten().map(Arc::downgrade).collect(),
            names,
            past: Default::default(),
            clock: files.clock,
            plan: files.plan,
            due: None,
            ended: None,
            touched: files.touched,
        }))))
    }
}

impl Folder {
    /// Empty, on a device of its own.
    pub fn new(device: u64) -> Self {
        Self(Arc::new(Medium(Mutex::new(Files {
            device,
            boot: boot_id(0),
            names: Default::default(),
            past: Default::default(),
            clock: 1,
            made: Vec::new(),
            plan: None,
            due: None,
            ended: None,
            touched: false,
        }))))
    }

    pub(super) fn files(&self) -> MutexGuard<'_, Files> {
        locked(&self.0.0)
    }

    fn bytes(&self, name: Name) -> Option<Vec<u8>> {
        self.files().at(name).map(|node| locked(node).bytes.clone())
    }

    /// The serial file's bytes.
    pub fn file(&self) -> Option<Vec<u8>> {
        self.bytes(Name::File)
    }

    /// The lineage's.
    pub fn lineage(&self) -> Option<Vec<u8>> {
        self.bytes(Name::Lineage)
    }

    /// Sets what happens at the next writes.
    pub fn plan(&self, plan: Option<Plan>) {
        self.files().plan = plan;
    }

    /// Touches the file without changing it.
    pub fn touch(&self) {
        let mut files = self.files();
        let now = files.now();
        if let Some(node) = files.at(Name::File) {
            locked(node).ctime = now;
        }
        files.touched = true;
    }

    /// Another's bytes in a new file.
    pub fn put(&self, bytes: Vec<u8>) {
        let mut files = self.files();
        let node = files.make(Name::File, bytes, true);
        files.names[Name::File as usize] = Some(node);
        files.past[Name::File as usize].clear();
        files.touched = true;
    }

    /// Another's bytes in the same file.
    pub fn overwrite(&self, bytes: Vec<u8>) {
        self.touch();
        let node = self.files().at(Name::File).cloned();
        match node {
            Some(node) => locked(&node).bytes = bytes,
            None => self.put(bytes),
        }
    }

    /// Another lineage, or none.
    pub fn put_lineage(&self, bytes: Option<Vec<u8>>) {
        let mut files = self.files();
        let node = bytes.map(|bytes| files.make(Name::Lineage, bytes, true));
        files.names[Name::Lineage as usize] = node;
        files.past[Name::Lineage as usize].clear();
    }

    /// Another's bounds of sections with their proof, in new files.
    pub fn put_bounds(&self, other: &Self) {
        for name in [Name::Bounds, Name::Proof] {
            let bytes = other.bytes(name);
            let mut files = self.files();
            let node = bytes.map(|bytes| files.make(name, bytes, true));
            files.names[name as usize] = node;
        }
    }

    /// Keeps what a power cut leaves.
    pub fn cut(&self, rng: &mut Rng) {
        self.files().cut(rng);
    }

    /// Tells whether nobody else had his hands on the file that a process holds.
    pub fn is_untouched(&self) -> bool {
        !self.files().touched
    }

    /// A write begins: now what was planned for it may happen.
    pub fn begin(&self) {
        let mut files = self.files();
        files.due = files.plan;
        files.plan = files.plan.filter(|plan| plan.times > 1).map(|plan| Plan { times: plan.times - 1, ..plan });
    }

    /// A write has come to its end. Gives why its process is no more, if it is not.
    pub fn finish(&self, rng: &mut Rng) -> Option<Failure> {
        let mut files = self.files();
        if let Some(Plan { point: Point::BeforeReturn, mishap, .. }) = files.due.take() {
            files.ended = files.ended.or(match mishap {
                Mishap::Fails { .. } | Mishap::Dead => None,
                Mishap::Dies => Some(Failure::Died),
                Mishap::PowerCut => Some(Failure::PowerCut),
            });
        }
        if files.ended == Some(Failure::PowerCut) {
            files.cut(rng);
        }
        files.ended
    }

    /// A process starts here, in this boot of the machine.
    ///
    /// # Errors
    /// The file's state; and why it is no more, if it is not.
    pub fn open(&self, start: &Start, rng: &mut Rng) -> Result<Opened, (Option<Failure>, SerialFileError)> {
        {
            let mut files = self.files();
            (files.boot, files.ended, files.touched) = (boot_id(start.boot), None, false);
            files.clock += BETWEEN_STARTS;
        }
        self.overlook(start.mutations);
        let former = if start.mutations.has(Mutation::SegmentsKeptByFresh) { self.holdings() } else { None };
        self.begin();
        let opened =
            open_on(Arc::clone(&self.0) as Arc<dyn Disk<File = Open>>, place().clone(), start.rule, start.session);
        match (self.finish(rng), opened) {
            (None, Ok(mut opened)) => {
                if let Some(former) = former
                    && opened.holdings.segments.is_empty()
                {
                    opened.holdings.segments = former.segments;
                }
                Ok(opened)
            }
            (ended, Err(error)) => Err((ended, error)),
            (ended, Ok(_)) => Err((ended, SerialFileError::Missing(place().path.clone()))),
        }
    }
}

/// The circumstances of a start.
pub struct Start {
    /// The boot's number.
    pub boot: u64,
    /// The rule by which it goes after another boot.
    pub rule: AfterReboot,
    /// The session of a fresh start.
    pub session: SessionId,
    /// Rules that are left out.
    pub mutations: Mutations,
}

/// A boot's number as the kernel's random one.
fn boot_id(number: u64) -> BootId {
    format!("{number:x}").parse().expect("hexadecimal digits")
}

impl Medium {
    /// A system call.
    fn call<T>(&self, work: impl FnOnce(&mut Files) -> io::Result<T>) -> io::Result<T> {
        let mut files = locked(&self.0);
        match files.step() {
            Step::Well => work(&mut files),
            Step::Fails { done } => {
                if done {
                    work(&mut files)?;
                }
                Err(ErrorKind::StorageFull.into())
            }
            Step::Gone => Err(ErrorKind::Interrupted.into()),
        }
    }
}

impl Disk for Medium {
    type File = Open;

    fn stat_name(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        let name = Name::of(name)?;
        self.call(|files| Ok(files.at(name).map(|node| files.stat(node))))
    }

    fn stat(&self, file: &Open) -> io::Result<Stat> {
        self.call(|files| Ok(files.stat(&file.node)))
    }

    fn open(&self, name: &OsStr, _: Access) -> io::Result<Open> {
        let name = Name::of(name)?;
        self.call(|files| {
            let node = files.at(name).cloned().ok_or(ErrorKind::NotFound)?;
            Ok(Open { node, opening: Arc::default() })
        })
    }

    fn read(&self, file: &Open, len_max: usize) -> io::Result<Vec<u8>> {
        self.call(|_| Ok(locked(&file.node).bytes.iter().copied().take(len_max + 1).collect()))
    }

    fn create(&self, name: &OsStr) -> io::Result<Open> {
        let name = Name::of(name)?;
        self.call(|files| {
            if files.at(name).is_some() {
                return Err(ErrorKind::AlreadyExists.into());
            }
            let node = files.make(name, Vec::new(), false);
            files.names[name as usize] = Some(Arc::clone(&node));
            Ok(Open { node, opening: Arc::default() })
        })
    }

    /// No two changes look alike, so each file is born later than all before.
    fn create_after(&self, name: &OsStr, _: Born) -> io::Result<Option<Open>> {
        self.create(name).map(Some)
    }

    fn try_lock(&self, file: &Open) -> io::Result<bool> {
        self.call(|_| {
            let mut node = locked(&file.node);
            if node.lock.upgrade().is_some() {
                return Ok(false);
            }
            node.lock = Arc::downgrade(&file.opening);
            Ok(true)
        })
    }

    fn write(&self, file: &Open, bytes: &[u8]) -> io::Result<()> {
        self.call(|files| {
            let now = files.now();
            let mut node = locked(&file.node);
            node.bytes.extend_from_slice(bytes);
            (node.ctime, node.flushed) = (now, false);
            Ok(())
        })
    }

    fn fsync(&self, file: &Open) -> io::Result<()> {
        self.call(|_| {
            locked(&file.node).flushed = true;
            Ok(())
        })
    }

    fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let (from, to) = (Name::of(from)?, Name::of(to)?);
        self.call(|files| {
            let node = files.names[from as usize].take().ok_or(ErrorKind::NotFound)?;
            let now = files.now();
            locked(&node).ctime = now;
            files.set(to, Some(node));
            Ok(())
        })
    }

    fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let there = Name::of(to)?;
        self.call(|files| if files.at(there).is_some() { Err(ErrorKind::AlreadyExists.into()) } else { Ok(()) })?;
        self.rename(from, to)
    }

    fn fsync_folder(&self) -> io::Result<()> {
        self.call(|files| {
            files.past = Default::default();
            Ok(())
        })
    }

    fn unlink(&self, name: &OsStr) -> io::Result<()> {
        let name = Name::of(name)?;
        self.call(|files| {
            files.names[name as usize] = None;
            Ok(())
        })
    }

    fn file_system(&self) -> io::Result<FileSystem> {
        self.call(|files| {
            let id = FileSystemId { fsid: files.device, disk: None, mount: None };
            Ok(FileSystem { kind: LOCAL, id })
        })
    }

    fn boot_id(&self) -> io::Result<BootId> {
        self.call(|files| Ok(files.boot))
    }

    /// Gives a mount that stays for as long as a boot lasts.
    fn mount(&self) -> io::Result<Option<u64>> {
        Ok(Some(MOUNT))
    }
}
