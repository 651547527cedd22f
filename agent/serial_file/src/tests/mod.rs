//! On the real file system, with a disk that can be told to fail, and a process that can be told to die, at any step.

mod format;
mod inspect;
mod kill;
mod names;
mod sections;
mod start;
mod write;

use super::disk::{Access, Disk, OsDisk, Stat};
use super::format::format_on;
use super::lineage::{BootId, Born, Fingerprint, Found, Lineage, judge};
use super::location::FileLocation;
use super::start::open_on;
use super::*;
use common::kind::Kind;
use common::lease::{Generation, Grant};
use common::parameters::{ClusterId, SessionId};
use common::time::WallMs;
use common::token::{TokenType, TokenValue};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const NOW: WallMs = WallMs(1_795_000_000_000);
const FIRST: SessionId = SessionId(0x1111);
const SECOND: SessionId = SessionId(0x2222);
const THIRD: SessionId = SessionId(0x3333);

/// A fault at the chosen step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The step is not done (a write: only by half), and reported so.
    Fails,
    /// The step is done, and yet reported as failed.
    DoneButFails,
    /// The process dies at it: it is not done (a write: only by half), and nothing after it.
    Dies,
}

/// The plan of a disk, and a trace of what was done.
#[derive(Default)]
struct Plan {
    /// The number of the step, counted from 1 since it was armed.
    at: usize,
    fault: Option<Fault>,
    dead: bool,
    trace: Vec<&'static str>,
    boot: Option<BootId>,
    /// The kind of file system that the folder is said to be on.
    kind: Option<FileSystemKind>,
    /// The number of that file system.
    fsid: Option<u64>,
    /// The deed of others meanwhile.
    meanwhile: Option<Meanwhile>,
}

/// Runs before every step of that name.
type Meanwhile = (&'static str, Box<dyn FnMut() + Send>);

/// The real disk, with a plan.
#[derive(Clone)]
struct FaultyDisk {
    os: Arc<OsDisk>,
    plan: Arc<Mutex<Plan>>,
}

impl std::fmt::Debug for FaultyDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FaultyDisk")
    }
}

impl FaultyDisk {
    fn new(folder: &Path) -> Self {
        Self { os: Arc::new(OsDisk::new(folder).unwrap()), plan: Arc::default() }
    }

    /// From now on: at the `at`-th step, this.
    fn arm(&self, at: usize, fault: Fault) {
        let mut plan = self.plan.lock().unwrap();
        plan.at = at;
        plan.fault = Some(fault);
        plan.trace.clear();
    }

    /// The steps since it was armed, the failed one included.
    fn trace(&self) -> Vec<&'static str> {
        self.plan.lock().unwrap().trace.clone()
    }

    fn step<T>(
        &self,
        name: &'static str,
        half: impl FnOnce() -> io::Result<()>,
        whole: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let meanwhile = {
            let mut plan = self.plan.lock().unwrap();
            plan.meanwhile.take_if(|(at, _)| *at == name)
        };
        if let Some((at, mut run)) = meanwhile {
            run();
            self.plan.lock().unwrap().meanwhile = Some((at, run));
        }
        let mut plan = self.plan.lock().unwrap();
        if plan.dead {
            return Err(io::Error::other("dead"));
        }
        plan.trace.push(name);
        let fault = plan.fault.filter(|_| plan.trace.len() == plan.at);
        plan.dead = fault == Some(Fault::Dies);
        drop(plan);
        match fault {
            None => whole(),
            Some(Fault::DoneButFails) => whole().and_then(|_| Err(io::Error::from_raw_os_error(5))),
            Some(Fault::Fails) => half().and_then(|()| Err(io::ErrorKind::StorageFull.into())),
            Some(Fault::Dies) => half().and_then(|()| Err(io::Error::other("dead"))),
        }
    }
}

fn nothing() -> io::Result<()> {
    Ok(())
}

impl Disk for FaultyDisk {
    type File = File;

    fn stat_name(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        self.step("stat_name", nothing, || self.os.stat_name(name))
    }
    fn stat(&self, file: &File) -> io::Result<Stat> {
        self.step("stat", nothing, || self.os.stat(file))
    }
    fn open(&self, name: &OsStr, access: Access) -> io::Result<File> {
        self.step("open", nothing, || self.os.open(name, access))
    }
    fn read(&self, file: &File, len_max: usize) -> io::Result<Vec<u8>> {
        self.step("read", nothing, || self.os.read(file, len_max))
    }
    fn create(&self, name: &OsStr) -> io::Result<File> {
        self.step("create", nothing, || self.os.create(name))
    }
    fn create_after(&self, name: &OsStr, born: Born) -> io::Result<Option<File>> {
        self.step("create_after", nothing, || self.os.create_after(name, born))
    }
    fn try_lock(&self, file: &File) -> io::Result<bool> {
        self.step("try_lock", nothing, || self.os.try_lock(file))
    }
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<()> {
        self.step("write", || self.os.write(file, &bytes[..bytes.len() / 2]), || self.os.write(file, bytes))
    }
    fn fsync(&self, file: &File) -> io::Result<()> {
        self.step("fsync", nothing, || self.os.fsync(file))
    }
    fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.step("rename", nothing, || self.os.rename(from, to))
    }
    fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.step("rename_new", nothing, || self.os.rename_new(from, to))
    }
    fn fsync_folder(&self) -> io::Result<()> {
        self.step("fsync_folder", nothing, || self.os.fsync_folder())
    }
    fn unlink(&self, name: &OsStr) -> io::Result<()> {
        self.step("unlink", nothing, || self.os.unlink(name))
    }
    fn file_system(&self) -> io::Result<FileSystem> {
        let (kind, fsid) = {
            let plan = self.plan.lock().unwrap();
            (plan.kind, plan.fsid)
        };
        self.step("file_system", nothing, || {
            let FileSystem { kind: real, id } = self.os.file_system()?;
            let id = FileSystemId { fsid: fsid.unwrap_or(id.fsid), ..id };
            Ok(FileSystem { kind: kind.unwrap_or(real), id })
        })
    }
    fn boot_id(&self) -> io::Result<BootId> {
        let boot = self.plan.lock().unwrap().boot;
        self.step("boot_id", nothing, || boot.map_or_else(|| self.os.boot_id(), Ok))
    }
    /// As if there were one everywhere that the kernel numbers.
    fn mount(&self) -> io::Result<Option<u64>> {
        Ok(Some(1))
    }
}

/// A folder with a freshly formatted serial file of three blocks.
struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let home = Self { folder: tempfile::tempdir().unwrap() };
        format(&home.path(), 3, NOW, FIRST).unwrap();
        home
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("F")
    }

    fn lineage(&self) -> PathBuf {
        self.folder.path().join("F.lineage")
    }

    fn place(&self) -> FileLocation {
        FileLocation::resolve(&self.path()).unwrap()
    }

    fn disk(&self) -> FaultyDisk {
        FaultyDisk::new(self.folder.path())
    }

    fn try_open(&self, session: SessionId) -> Result<Opened, SerialFileError> {
        open(&self.path(), AfterReboot::Fresh, session)
    }

    fn open(&self, session: SessionId) -> Opened {
        self.try_open(session).unwrap()
    }

    /// Opens it on a disk with a plan.
    fn open_on(&self, disk: &FaultyDisk, session: SessionId) -> Result<Opened, SerialFileError> {
        open_on(Arc::new(disk.clone()), Arc::new(self.place()), AfterReboot::Fresh, session)
    }

    /// A first start in session `SECOND`, with 1000 serials and holdings number 1 made durable.
    fn started(&self) -> Opened {
        let mut opened = self.open(SECOND);
        assert_eq!(opened.start, StartKind::Fresh(FreshReason::NoLineage));
        opened.contents.blocks[0] = Some(block(1000));
        opened.file.write(&mut opened.contents, &holdings(1)).unwrap();
        opened.holdings = holdings(1);
        opened
    }

    /// The names in the folder, sorted.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn block(serial: u64) -> Block {
    Block {
        name: BlockName::from(&"default".parse().unwrap()),
        kind: Kind::Uniq64,
        everyday_reset: false,
        create_time: NOW,
        modification_time: NOW,
        bucket: 498_611,
        bucket_base: 0,
        checksum: 0x0123_4567_89ab_cdef,
        serial,
        step: 1000,
    }
}

/// The holdings after the `rseq`-th renewal.
fn holdings(rseq: u64) -> Holdings {
    let grant = Grant {
        token_type: TokenType::Uint2,
        key: TokenType::Uint2.key(TokenValue(7)),
        g: Generation(1),
        from: NOW,
        until: WallMs(NOW.0 + i64::try_from(rseq).unwrap()),
        receipt: None,
    };
    Holdings { cluster: Some(ClusterId(9)), parameters: None, leases: vec![grant], rseq, ..Holdings::default() }
}

fn serial(contents: &Contents) -> u64 {
    contents.blocks[0].as_ref().map_or(0, |block| block.serial)
}

/// Does something to a file until its ctime shows it: on some kernels that clock ticks only every few milliseconds.
fn until_it_shows(path: &Path, mut change: impl FnMut()) {
    let ctime = || fs::metadata(path).map(|meta| (meta.ctime(), meta.ctime_nsec())).unwrap();
    let before = ctime();
    loop {
        change();
        if ctime() != before {
            return;
        }
        std::thread::yield_now();
    }
}
