//! The system calls of the serial file, behind one small trait: each is a step at which a disk can fail or a process die.

use super::lineage::{BootId, Born, FileSystemId, Identity};
use common::attachment::{disk_sequence, mount_of};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, fstatfs, fstatvfs, openat, renameat, renameat_with, unlinkat};
use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, Metadata, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Bytes of a boot id at most, line end and all.
const BOOT_ID_LEN_MAX: u64 = 64;

/// The number of tries to make a file that must be born later than another, and the pause between them. The clock that a file system puts on its
/// files ticks every 1 to 10 ms; one that was set back is not waited for.
const TICK_TRIES_MAX: u32 = 32;
const TICK_PAUSE: Duration = Duration::from_millis(1);

/// The kind of file system that a folder is on: the kernel's number for it (`linux/magic.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileSystemKind(pub u32);

impl FileSystemKind {
    const OVERLAY: Self = Self(0x794c_7630);

    /// Kinds that only one kernel can have mounted at a time, and whose locks, rename, inode numbers and ctime are what
    /// the lineage goes by. What is not among them may be held by another machine without our seeing it.
    const LOCAL: [(Self, &str); 13] = [
        (Self(0xef53), "ext2, ext3 or ext4"),
        (Self(0x5846_5342), "XFS"),
        (Self(0x9123_683e), "btrfs"),
        (Self(0x0102_1994), "tmpfs"),
        (Self(0x8584_58f6), "ramfs"),
        (Self::OVERLAY, "overlay"),
        (Self(0x2fc1_2fc1), "ZFS"),
        (Self(0xf2f5_2010), "F2FS"),
        (Self(0xca45_1a4e), "bcachefs"),
        (Self(0x3153_464a), "JFS"),
        (Self(0x5265_4973), "ReiserFS"),
        (Self(0x3434), "NILFS"),
        (Self(0x2405_1905), "UBIFS"),
    ];

    /// Some of the others, by name, for whoever reads the refusal.
    const FOREIGN: [(Self, &str); 20] = [
        (Self(0x6969), "NFS"),
        (Self(0x517b), "SMB"),
        (Self(0xfe53_4d42), "SMB2"),
        (Self(0xff53_4d42), "CIFS"),
        (Self(0x5346_414f), "AFS"),
        (Self(0x6b41_4653), "AFS"),
        (Self(0x7375_7245), "Coda"),
        (Self(0x564c), "NCP"),
        (Self(0x00c3_6400), "Ceph"),
        (Self(0x6573_5546), "FUSE or virtiofs"),
        (Self(0x0102_1997), "9p"),
        (Self(0x0bd0_0bd0), "Lustre"),
        (Self(0x4750_4653), "GPFS"),
        (Self(0x7461_636f), "OCFS2"),
        (Self(0x0116_1970), "GFS2"),
        (Self(0x786f_4256), "a folder shared by VirtualBox"),
        (Self(0xbacb_acbc), "a folder shared by VMware"),
        (Self(0x2003_0528), "OrangeFS"),
        (Self(0x4d44), "FAT"),
        (Self(0x2011_bab0), "exFAT"),
    ];

    /// Tells whether it is known to be of this machine alone.
    pub fn is_local(self) -> bool {
        Self::LOCAL.iter().any(|(kind, _)| *kind == self)
    }
}

impl fmt::Display for FileSystemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::LOCAL.iter().chain(&Self::FOREIGN).find(|(kind, _)| kind == self) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "a file system of unknown kind ({:#x})", self.0),
        }
    }
}

/// The file system that a folder is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileSystem {
    pub kind: FileSystemKind,
    /// Its identity among those of its kind.
    pub id: FileSystemId,
}

/// The metadata of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stat {
    /// The identity that tells it from all others.
    pub identity: Identity,
    /// The number of names that it has.
    pub links: u64,
    pub kind: FileKind,
    /// Its length, in bytes.
    pub len: u64,
    /// The instant at which it was made; `None` if the file system does not tell.
    pub born: Option<Born>,
}

/// The kind of thing at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A file with bytes.
    Regular,
    SymbolicLink,
    /// A folder, a device, a pipe.
    Other,
}

/// The purpose for which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading in fact; but an overlay file system, as under containers, makes its own copy of an image's file only when
    /// it is opened for writing, and only the copy has a lock and a ctime of its own.
    ReadWrite,
}

/// One folder of a file system, by name within it. Every method is one step; none repairs or retries anything.
pub trait Disk: fmt::Debug + Send + Sync {
    /// An open file.
    type File;

    /// The file at `name` itself, not what a link there leads to; `None` if nothing is there.
    fn stat_name(&self, name: &OsStr) -> io::Result<Option<Stat>>;
    /// The open file.
    fn stat(&self, file: &Self::File) -> io::Result<Stat>;
    /// Opens what is there. Follows no link at `name`, waits for nobody (a pipe).
    fn open(&self, name: &OsStr, access: Access) -> io::Result<Self::File>;
    /// All bytes of a just opened file, but no more than `len_max` and one.
    fn read(&self, file: &Self::File, len_max: usize) -> io::Result<Vec<u8>>;
    /// Makes a new file with mode 0600. Refuses whatever is there, even a link that leads nowhere.
    fn create(&self, name: &OsStr) -> io::Result<Self::File>;
    /// [`create`](Self::create), a file that is born later than `born`; `None`, and nothing made, if the clock does not
    /// get there.
    fn create_after(&self, name: &OsStr, born: Born) -> io::Result<Option<Self::File>>;
    /// Locks the file for this opening of it (`flock`); `false` if it is locked already. Ends with the process.
    fn try_lock(&self, file: &Self::File) -> io::Result<bool>;
    /// Writes all bytes into a new file.
    fn write(&self, file: &Self::File, bytes: &[u8]) -> io::Result<()>;
    /// Returns when the file's bytes survive a power cut.
    fn fsync(&self, file: &Self::File) -> io::Result<()>;
    /// Puts `from` in the place of `to` at one stroke.
    fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()>;
    /// Names `from` `to`, unless something is there.
    fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()>;
    /// Returns when the names in the folder survive a power cut.
    fn fsync_folder(&self) -> io::Result<()>;
    /// Removes a name; well if it is not there.
    fn unlink(&self, name: &OsStr) -> io::Result<()>;
    /// The file system that the folder is on.
    fn file_system(&self) -> io::Result<FileSystem>;
    /// The kernel's random number of this boot of the machine.
    fn boot_id(&self) -> io::Result<BootId>;
    /// The kernel's number of the mount through which the folder is seen, which no other mount gets in this boot; `None` where the kernel
    /// gives numbers again (before 6.8), or nobody asks it.
    fn mount(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }
}

/// The real thing: a folder of the operating system's. What [`open`](super::open) and [`format`](super::format()) work on.
///
/// It is public for those who put something between the serial file and its folder, as fault tests do: they implement
/// [`Disk`] by passing each call on to one of these, and hand that to [`open_on`](super::open_on) or
/// [`format_on`](super::format_on).
#[derive(Debug)]
pub struct OsDisk {
    folder: File,
}

impl OsDisk {
    /// The folder at `path`. It is held open: what is done by name is done there, wherever it is moved to.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn new(path: &Path) -> io::Result<Self> {
        Ok(Self { folder: File::open(path)? })
    }

    /// Locks the folder itself (`flock`) as long as this lives; `false` if it is locked already.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn try_lock_folder(&self) -> io::Result<bool> {
        self.try_lock(&self.folder)
    }

    fn open_at(&self, name: &OsStr, flags: OFlags) -> io::Result<File> {
        let mode = if flags.contains(OFlags::CREATE) { Mode::RUSR | Mode::WUSR } else { Mode::empty() };
        Ok(openat(&self.folder, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode)?.into())
    }
}

impl From<&Metadata> for Stat {
    fn from(meta: &Metadata) -> Self {
        let kind = match meta.file_type() {
            kind if kind.is_file() => FileKind::Regular,
            kind if kind.is_symlink() => FileKind::SymbolicLink,
            _ => FileKind::Other,
        };
        let identity =
            Identity { device: meta.dev(), inode: meta.ino(), ctime_s: meta.ctime(), ctime_ns: meta.ctime_nsec() };
        Self { identity, links: meta.nlink(), kind, len: meta.len(), born: born(meta) }
    }
}

/// The instant at which a file was made; a time before 1970 is a clock that nobody set, and says nothing.
fn born(meta: &Metadata) -> Option<Born> {
    let since = meta.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Born { s: i64::try_from(since.as_secs()).ok()?, ns: since.subsec_nanos() })
}

impl Disk for OsDisk {
    type File = File;

    fn stat_name(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match self.open_at(name, OFlags::PATH) {
            Ok(file) => self.stat(&file).map(Some),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn stat(&self, file: &File) -> io::Result<Stat> {
        Ok(Stat::from(&file.metadata()?))
    }

    fn open(&self, name: &OsStr, access: Access) -> io::Result<File> {
        let access = match access {
            Access::Read => OFlags::RDONLY,
            Access::ReadWrite => OFlags::RDWR,
        };
        self.open_at(name, access | OFlags::NONBLOCK)
    }

    fn read(&self, file: &File, len_max: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        file.take(len_max as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn create(&self, name: &OsStr) -> io::Result<File> {
        self.open_at(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
    }

    fn create_after(&self, name: &OsStr, born: Born) -> io::Result<Option<File>> {
        for _ in 0..TICK_TRIES_MAX {
            let file = self.create(name)?;
            if self.stat(&file)?.born.is_some_and(|later| later > born) {
                return Ok(Some(file));
            }
            self.unlink(name)?;
            std::thread::sleep(TICK_PAUSE);
        }
        Ok(None)
    }

    fn try_lock(&self, file: &File) -> io::Result<bool> {
        match file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn fsync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.folder, from, &self.folder, to)?)
    }

    fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat_with(&self.folder, from, &self.folder, to, RenameFlags::NOREPLACE)?)
    }

    fn fsync_folder(&self) -> io::Result<()> {
        self.folder.sync_all()
    }

    fn unlink(&self, name: &OsStr) -> io::Result<()> {
        match unlinkat(&self.folder, name, AtFlags::empty()) {
            Err(rustix::io::Errno::NOENT) => Ok(()),
            done => Ok(done?),
        }
    }

    fn file_system(&self) -> io::Result<FileSystem> {
        // The kernel's numbers have 32 bits; on some machines the field is wider, and signed.
        let kind = FileSystemKind(fstatfs(&self.folder)?.f_type as u32);
        let mount = if kind == FileSystemKind::OVERLAY { Some(mount_of(&self.folder)?.0) } else { None };
        let disk = disk_sequence(self.folder.metadata()?.dev());
        Ok(FileSystem { kind, id: FileSystemId { fsid: fstatvfs(&self.folder)?.f_fsid, disk, mount } })
    }

    fn boot_id(&self) -> io::Result<BootId> {
        let mut text = String::new();
        File::open(BOOT_ID)?.take(BOOT_ID_LEN_MAX).read_to_string(&mut text)?;
        text.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("{BOOT_ID} has no boot id")))
    }

    fn mount(&self) -> io::Result<Option<u64>> {
        let (mount, unique) = mount_of(&self.folder)?;
        Ok(unique.then_some(mount))
    }
}
