//! A start: lock the file, believe it only if every byte fits, find out whether its session goes on.
//!
//! | step | what | a crash after it |
//! |---|---|---|
//! | S1 | find what is at the path: a regular file, no link | nothing was changed |
//! | S2 | open it, lock it (`flock` on the file itself) | nothing was changed, the lock is gone |
//! | S3 | the path still leads to what is locked, under no second name; else begin again | as after S2 |
//! | S4 | read and check it, unchanged meanwhile; else begin again | as after S2 |
//! | S5 | read the lineage, judge: resumed, and the start is done; or fresh | as after S2 |
//! | S6 | fresh: write the new session, with all marks as they are and no holdings (a whole write, W0 to L6) | fresh again |

use super::disk::{Access, Disk, FileKind, FileSystem, OsDisk, Stat};
use super::file::LockedFile;
use super::lineage::{self, BootId, FileSystemId, Fingerprint, Found, Identity, Next, given_up, judge};
use super::location::FileLocation;
use super::{AfterReboot, Contents, Holdings, SerialFile, SerialFileError, StartKind, layout};
use common::parameters::SessionId;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

/// The number of times that a start begins again when the file was replaced between opening and locking it. The one who replaces it
/// holds the lock of the new one, so a second round normally ends with "in use".
const ROUNDS_MAX: u32 = 8;

/// A serial file as a start finds it.
#[derive(Debug)]
pub struct Opened<F = File> {
    /// The file, locked until this is dropped.
    pub file: SerialFile<F>,
    pub contents: Contents,
    /// The holdings of the session; empty if it is a new one.
    pub holdings: Holdings,
    /// The way in which the session goes on, or another begins.
    pub start: StartKind,
    /// True if a session that goes on may mint only when a master has renewed a lease, however long that takes. Otherwise
    /// it waits for a moment only; see [`lineage::renew_first`].
    pub renew_first: bool,
}

/// Locks and reads the serial file at `path` and finds out whether its session goes on. If not, `new_session` (128 fresh
/// random bits) is durable in it before this returns; the marks stay as they are.
///
/// Only the last part of `path` is the file's own: a link there is refused. Links among the folders are followed once.
///
/// # Errors
/// [`SerialFileError`], naming the remedy, if the file is missing, damaged, of another version, in use or linked, or the
/// disk fails. Nothing is repaired.
pub fn open(path: &Path, after_reboot: AfterReboot, new_session: SessionId) -> Result<Opened, SerialFileError> {
    let (place, disk) = resolve(path)?;
    refuse_what_is_anothers(&place)?;
    open_on(Arc::new(disk), Arc::new(place), after_reboot, new_session)
}

/// The place of the file of that path, and the disk that it is on.
pub(super) fn resolve(path: &Path) -> Result<(FileLocation, OsDisk), SerialFileError> {
    let place = FileLocation::resolve(path)?;
    let disk = OsDisk::new(&place.folder).map_err(failed("open the folder of", &place))?;
    Ok((place, disk))
}

/// [`open`] on any disk.
///
/// # Errors
/// As [`open`].
pub fn open_on<F>(
    disk: Arc<dyn Disk<File = F>>,
    place: Arc<FileLocation>,
    after_reboot: AfterReboot,
    new_session: SessionId,
) -> Result<Opened<F>, SerialFileError> {
    let file_system = local_file_system(&*disk, &place)?;
    let boot = disk.boot_id().map_err(SerialFileError::BootId)?;
    let (file, stat, checksum, mut contents) = lock_and_read(&*disk, &place)?; // S1 to S4
    let write_counter = contents.header.write_counter;
    let found = read_lineage(&*disk, &place)?; // S5
    let machine = Machine { boot, file_system };
    let (now, start) = judge_file(&found, &stat, machine, checksum, &contents, after_reboot);
    let held = LockedFile { file, identity: stat.identity, write_counter };
    let former = match &start {
        StartKind::Resumed => Vec::new(),
        StartKind::Fresh(reason) => given_up(&found, &now, reason),
    };
    let renew_first = lineage::renew_first(&found, &now);
    if let (StartKind::Resumed, Found::Whole(lineage)) = (&start, found) {
        let file = SerialFile::new(place, disk, machine, held, contents.clone());
        let mut holdings = lineage.holdings;
        if renew_first {
            // A master can say of a lease that it has only one holder. Of a segment nobody can.
            holdings.segments.clear();
        }
        return Ok(Opened { file, contents, holdings, start, renew_first });
    }
    contents.header.session = new_session;
    let mut file = SerialFile::new(place, disk, machine, held, contents.clone());
    let holdings = Holdings { former, ..Holdings::default() };
    file.write(&mut contents, &holdings) // S6
        .map_err(|source| SerialFileError::Write { path: file.path().to_owned(), source })?;
    Ok(Opened { file, contents, holdings, start, renew_first: false })
}

/// The boot and the file system in which a file is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Machine {
    pub(super) boot: BootId,
    pub(super) file_system: FileSystemId,
}

/// [`judge`], with what was found at the path.
pub(super) fn judge_file(
    found: &Found,
    stat: &Stat,
    Machine { boot, file_system }: Machine,
    checksum: u64,
    contents: &Contents,
    after_reboot: AfterReboot,
) -> (Fingerprint, StartKind) {
    let (write_counter, session) = (contents.header.write_counter, contents.header.session);
    let Identity { device, inode, .. } = stat.identity;
    let as_next = stat.born.map(|born| Next { device, inode, born, write_counter, checksum });
    let now = Fingerprint { identity: stat.identity, write_counter, boot, session, file_system };
    (now, judge(found, &now, as_next.as_ref(), after_reboot))
}

/// The locked file, what it looks like, its checksum, what it says.
pub(super) type Read<F> = (F, Stat, u64, Contents);

pub(super) fn lock_and_read<F>(disk: &dyn Disk<File = F>, place: &FileLocation) -> Result<Read<F>, SerialFileError> {
    for _ in 0..ROUNDS_MAX {
        if let Some(found) = lock_once(disk, place)? {
            return Ok(found);
        }
    }
    Err(SerialFileError::Restless(place.path.clone()))
}

/// S1 to S4; `None` if the file was replaced or changed meanwhile.
fn lock_once<F>(disk: &dyn Disk<File = F>, place: &FileLocation) -> Result<Option<Read<F>>, SerialFileError> {
    refuse_what_is_no_file(disk, place)?; // S1
    let file = match disk.open(&place.file, Access::ReadWrite) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed("open", place))?,
    };
    if !disk.try_lock(&file).map_err(failed("lock", place))? {
        return Err(SerialFileError::Locked(place.path.clone())); // S2
    }
    let stat = disk.stat(&file).map_err(failed("look at", place))?;
    if disk.stat_name(&place.file).map_err(failed("look at", place))? != Some(stat) {
        return Ok(None); // S3
    }
    if stat.links != 1 {
        return Err(SerialFileError::HardLinked { path: place.path.clone(), links: stat.links });
    }
    let bytes = disk.read(&file, layout::FILE_LEN_MAX).map_err(failed("read", place))?;
    if disk.stat(&file).map_err(failed("look at", place))? != stat {
        return Ok(None); // S4
    }
    let contents = layout::decode(&bytes).map_err(damaged(place))?;
    let checksum = layout::stored_checksum(&bytes).unwrap_or_default();
    Ok(Some((file, stat, checksum, contents)))
}

/// A write makes new files, which belong to whoever runs this and are open to nobody else: as root it would take the file from its user.
pub(super) fn refuse_what_is_anothers(place: &FileLocation) -> Result<(), SerialFileError> {
    let me = rustix::process::geteuid().as_raw();
    match std::fs::symlink_metadata(&place.path) {
        Ok(meta) if meta.uid() != me => {
            Err(SerialFileError::OtherUser { path: place.path.clone(), owner: meta.uid(), me })
        }
        // What else may be wrong is said by who opens it.
        _ => Ok(()),
    }
}

/// S1: what is at the path is a regular file of its own.
pub(super) fn refuse_what_is_no_file<F>(
    disk: &dyn Disk<File = F>,
    place: &FileLocation,
) -> Result<(), SerialFileError> {
    let path = || place.path.clone();
    match disk.stat_name(&place.file).map_err(failed("look at", place))?.map(|stat| stat.kind) {
        Some(FileKind::Regular) => Ok(()),
        Some(FileKind::SymbolicLink) => Err(SerialFileError::SymbolicLink(path())),
        Some(FileKind::Other) => Err(SerialFileError::NotAFile(path())),
        None => Err(SerialFileError::Missing(path())),
    }
}

/// The lineage file. One that cannot be read (as opposed to: makes no sense) is an error: it would cost a token at each
/// start, and someone can mend it.
pub(super) fn read_lineage<F>(disk: &dyn Disk<File = F>, place: &FileLocation) -> Result<Found, SerialFileError> {
    match place.lineage.read(disk, Access::Read, lineage::FILE_LEN_MAX) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Found::Missing),
        read => Ok(Found::decode(&read.map_err(failed("read the lineage of", place))?.1)),
    }
}

/// The file system that the folder is on, unless another machine might have the same files.
pub(super) fn local_file_system<F>(
    disk: &dyn Disk<File = F>,
    place: &FileLocation,
) -> Result<FileSystemId, SerialFileError> {
    let FileSystem { kind, id } = disk.file_system().map_err(failed("find the file system of", place))?;
    if kind.is_local() { Ok(id) } else { Err(SerialFileError::NotLocal { path: place.path.clone(), kind }) }
}

pub(super) fn damaged(place: &FileLocation) -> impl Fn(layout::LayoutError) -> SerialFileError {
    |reason| SerialFileError::Damaged { path: place.path.clone(), reason }
}

pub(super) fn failed(action: &'static str, place: &FileLocation) -> impl Fn(io::Error) -> SerialFileError {
    move |source| SerialFileError::Io { action, path: place.path.clone(), source }
}
