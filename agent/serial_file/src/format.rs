//! `--format`: a new serial file, never over anything that is there.
//!
//! | step | what | a crash after it |
//! |---|---|---|
//! | F1 | nothing is at the path | nothing was changed |
//! | F2 | remove `<F>.format`, left over by a crash, unless another format is at work on it | nothing is at the path |
//! | F3 | create `<F>.format`, which must not be there, mode 0600 | as after F2; F2 of the next format removes it |
//! | F4 | lock it: it shall never be in place unlocked | as after F3 |
//! | F5 | write all bytes | as after F3, whole or torn |
//! | F6 | fsync it | as after F3 |
//! | F7 | rename it to the path, unless something is there by now | the file is there; after a power cut perhaps not |
//! | F8 | fsync the folder | the file is there |
//!
//! A lineage file that an earlier serial file left behind stays: the new file's session is none that it knows.

use super::SerialFileError;
use super::disk::{Access, Disk, FileKind};
use super::layout::{self, Contents, Header, NUM_BLOCKS};
use super::location::FileLocation;
use super::start::{failed, local_file_system, resolve};
use common::parameters::SessionId;
use common::time::WallMs;
use std::ffi::OsStr;
use std::io;
use std::path::Path;

/// Makes a serial file with `num_blocks` (2..=20000) blocks at `path`, of which the names `default` have theirs. Its time mark is `now`, so that it
/// never allows an instant before its own making; `random_session` (128 fresh random bits) stands in until its first
/// start draws another.
///
/// # Errors
/// [`SerialFileError`], naming the remedy; then nothing is at the path that was not there before, as far as the disk
/// allows.
pub fn format(path: &Path, num_blocks: u32, now: WallMs, random_session: SessionId) -> Result<(), SerialFileError> {
    if !NUM_BLOCKS.contains(&num_blocks) {
        return Err(SerialFileError::BlockCount(num_blocks));
    }
    let (place, disk) = resolve(path)?;
    format_on(&disk, &place, num_blocks, now, random_session)
}

/// [`format()`] on any disk.
///
/// # Errors
/// As [`format()`].
pub fn format_on<F>(
    disk: &dyn Disk<File = F>,
    place: &FileLocation,
    num_blocks: u32,
    now: WallMs,
    session: SessionId,
) -> Result<(), SerialFileError> {
    let header = Header { session, time_mark: now.max(WallMs(0)), write_counter: 0, names_from: WallMs(0) };
    let contents = Contents::new(num_blocks, header, now).map_err(|_| SerialFileError::BlockCount(num_blocks))?;
    let bytes = layout::encode(&contents).map_err(|_| SerialFileError::BlockCount(num_blocks))?;
    local_file_system(disk, place)?;
    if disk.stat_name(&place.file).map_err(failed("look at", place))?.is_some() {
        return Err(SerialFileError::Exists(place.path.clone())); // F1
    }
    remove_left_over(disk, place)?; // F2
    let file = disk.create(&place.file_format).map_err(failed("create", place))?; // F3
    make(disk, place, &file, &bytes).inspect_err(|_| clean_up(disk, place, &file))
}

/// F2.
fn remove_left_over<F>(disk: &dyn Disk<File = F>, place: &FileLocation) -> Result<(), SerialFileError> {
    let name = &place.file_format;
    let there = disk.stat_name(name).map_err(failed("look at what an earlier format left of", place))?;
    if there.is_some_and(|there| there.kind == FileKind::Regular) {
        let file = disk.open(name, Access::ReadWrite).map_err(failed("open what an earlier format left of", place))?;
        if !disk.try_lock(&file).map_err(failed("lock", place))? {
            return Err(SerialFileError::Locked(place.path.clone()));
        }
    }
    disk.unlink(name).map_err(failed("remove what an earlier format left of", place))
}

/// F4 to F8.
fn make<F>(disk: &dyn Disk<File = F>, place: &FileLocation, file: &F, bytes: &[u8]) -> Result<(), SerialFileError> {
    if !disk.try_lock(file).map_err(failed("lock", place))? {
        return Err(SerialFileError::Locked(place.path.clone())); // F4
    }
    disk.write(file, bytes).map_err(failed("write", place))?; // F5
    disk.fsync(file).map_err(failed("flush", place))?; // F6
    match disk.rename_new(&place.file_format, &place.file) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Err(SerialFileError::Exists(place.path.clone())),
        done => done.map_err(failed("put in place", place))?, // F7
    }
    disk.fsync_folder().map_err(failed("flush the folder of", place)) // F8
}

/// A format that fails leaves nothing, so that it can be tried again. We still hold the lock: no start has the file.
fn clean_up<F>(disk: &dyn Disk<File = F>, place: &FileLocation, file: &F) {
    let names: [&OsStr; 2] = [&place.file_format, &place.file];
    for name in names {
        if let (Ok(ours), Ok(Some(there))) = (disk.stat(file), disk.stat_name(name))
            && ours.identity.same_file(&there.identity)
        {
            disk.unlink(name).ok();
        }
    }
}
