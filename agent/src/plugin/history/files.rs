//! The rotating files of history in their folder.
//!
//! `history.lock` is locked by the one program that writes; `history-NNNNNNNNNN.log` are the files, a higher number is later. The
//! first line of each says what it is and its version. Files are only ever appended to:
//!
//! 1. Lines are written by one `write` for each piece. After a crash of the program what was written is there.
//! 2. A write that failed is cut off again; if that fails too, its torn line is ended by the next start or the next try, and
//!    readers pass over it by its checksum.
//! 3. `fdatasync` each second at most, before a file is left for the next one, and at the end: a machine that loses power
//!    forgets what was written since.
//! 4. The next file is made, its name made durable, and only then the oldest ones become one (`condense.rs`): by a thread of its own, so
//!    that nobody waits for it but the end, and who fills a file faster than that.

use super::HistoryError;
use super::condense::condense;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

/// The first line of each file.
pub(super) const HEADER: &[u8] = b"uniq-history 1\n";
const LOCK: &str = "history.lock";
const PREFIX: &str = "history-";
const SUFFIX: &str = ".log";
/// Of files, and of the folder if it is made here.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;
/// The bits of a mode that say what a file is.
const S_IFMT: u32 = 0o170_000;
/// Digits of a file's number.
const DIGITS: usize = 10;

/// The files' numbers, ascending.
pub(super) fn numbers(folder: &Path) -> io::Result<Vec<u64>> {
    let number = |name: &str| -> Option<u64> {
        let digits = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
        if digits.len() != DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        digits.parse().ok()
    };
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        numbers.extend(entry?.file_name().to_str().and_then(number));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The path of the file of that number.
pub(super) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{PREFIX}{number:0DIGITS$}{SUFFIX}"))
}

/// Opens a file of history, made if there is none, for this user alone: callers' addresses stand in it. What is none, such as a link that
/// somebody laid there to a file of this user, is refused.
pub(super) fn ours(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let opened = options.create(true).truncate(false).mode(FILE_MODE).custom_flags(flags).open(path);
    let named = |why: &str| io::Error::other(format!("{} {why}: move it away", path.display()));
    let file = opened
        .map_err(|e| if e.raw_os_error() == Some(Errno::LOOP.raw_os_error()) { named("is a link") } else { e })?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(named("is not a file"));
    }
    if about.permissions().mode() & !S_IFMT != FILE_MODE {
        file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    }
    Ok(file)
}

#[derive(Debug)]
struct Open {
    file: File,
    number: u64,
    /// Of whole lines, in bytes.
    len: u64,
}

/// The files, to be written to.
#[derive(Debug)]
pub(super) struct Files {
    folder: PathBuf,
    file_len_max: u64,
    files_max: usize,
    /// The last file; `None` before the first line, and after a failure.
    open: Option<Open>,
    dirty: bool,
    /// The thread that makes the oldest files one.
    condensing: Option<JoinHandle<io::Result<()>>>,
    _lock: File,
}

impl Drop for Files {
    fn drop(&mut self) {
        // Said by the thread itself.
        let _ = self.condensed();
    }
}

impl Files {
    /// Takes the folder, which is made if there is none, for this program alone.
    pub(super) fn start(folder: &Path, file_len_max: u64, files_max: usize) -> Result<Self, HistoryError> {
        let io = |action: &'static str| move |source| HistoryError::Io { action, folder: folder.to_owned(), source };
        fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder).map_err(io("make the folder"))?;
        let lock = ours(OpenOptions::new().write(true), &folder.join(LOCK)).map_err(io("open the lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(HistoryError::InUse(folder.to_owned())),
            Err(TryLockError::Error(source)) => return Err(io("lock")(source)),
        }
        numbers(folder).map_err(io("list"))?;
        let folder = folder.to_owned();
        Ok(Self { folder, file_len_max, files_max, open: None, dirty: false, condensing: None, _lock: lock })
    }

    /// Writes whole lines, as many of the first ones as fit the file, and says how many bytes those have.
    ///
    /// # Errors
    /// The disk's; then none of them counts as written.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let first_len = lines.iter().position(|byte| *byte == b'\n').map_or(lines.len(), |end| end + 1);
        let mut open = self.opened()?;
        let len_max = self.file_len_max;
        let room = |open: &Open| usize::try_from(len_max.saturating_sub(open.len)).unwrap_or(usize::MAX);
        if room(&open) < first_len && open.len > HEADER.len() as u64 {
            open = self.rotate(open)?;
        }
        // The last line's end within the room; a file has one line at least.
        let within = lines.get(..room(&open).min(lines.len())).unwrap_or_default();
        let len = within.iter().rposition(|byte| *byte == b'\n').map_or(first_len, |end| end + 1);
        let piece = lines.get(..len).unwrap_or(lines);
        let written = open.file.write_all(piece);
        if let Err(failed) = written {
            // Whatever of it is there would be written again.
            let _ = open.file.set_len(open.len);
            return Err(failed);
        }
        open.len += piece.len() as u64;
        self.dirty = true;
        self.open = Some(open);
        Ok(piece.len())
    }

    /// Makes durable what was written.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if let (true, Some(open)) = (self.dirty, &self.open) {
            self.dirty = false;
            if let Err(failed) = open.file.sync_data() {
                // A second try would say nothing of what the first one lost.
                self.open = None;
                return Err(failed);
            }
        }
        Ok(())
    }

    /// Tells whether there is something to be made durable.
    pub(super) fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// The file that lines go to. After a failure it is found anew.
    fn opened(&mut self) -> io::Result<Open> {
        if let Some(open) = self.open.take() {
            return Ok(open);
        }
        let number = numbers(&self.folder)?.last().copied().unwrap_or(1);
        self.open_file(number)
    }

    fn open_file(&self, number: u64) -> io::Result<Open> {
        let path = path(&self.folder, number);
        let mut file = ours(OpenOptions::new().append(true).read(true), &path)?;
        let mut len = file.metadata()?.len();
        if len < HEADER.len() as u64 {
            // New, or its making was interrupted.
            if len > 0 {
                file.set_len(0)?;
            }
            file.write_all(HEADER)?;
            common::file::sync_folder(&self.folder)?;
            len = HEADER.len() as u64;
        } else {
            let mut last = [0];
            file.seek(SeekFrom::Start(len - 1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                len += 1;
            }
        }
        Ok(Open { file, number, len })
    }

    fn rotate(&mut self, open: Open) -> io::Result<Open> {
        open.file.sync_data()?;
        let next = self.open_file(open.number + 1)?;
        self.condensed()?;
        let (folder, len_max, files_max) = (self.folder.clone(), self.file_len_max, self.files_max);
        let shrink = move || shrink(&folder, len_max, files_max);
        self.condensing = Some(std::thread::Builder::new().name("uniq-condense".to_owned()).spawn(shrink)?);
        Ok(next)
    }

    /// Waits until the oldest files are one.
    fn condensed(&mut self) -> io::Result<()> {
        let Some(condensing) = self.condensing.take() else { return Ok(()) };
        condensing.join().unwrap_or_else(|_| Err(io::Error::other("the thread that condenses history panicked")))
    }
}

/// Makes one of the oldest files, if there are more than are kept.
fn shrink(folder: &Path, len_max: u64, files_max: usize) -> io::Result<()> {
    let numbers = numbers(folder)?;
    let excess = numbers.len().saturating_sub(files_max);
    let Some(oldest) = numbers.get(..=excess).filter(|_| excess > 0) else { return Ok(()) };
    let Err(failed) = condense(folder, oldest, len_max) else { return Ok(()) };
    tracing::warn!(%failed, "the oldest files of history could not be made one: they are removed, whatever names they tell of");
    for number in oldest.iter().take(excess) {
        match fs::remove_file(path(folder, *number)) {
            Err(failed) if failed.kind() != io::ErrorKind::NotFound => return Err(failed),
            _ => {}
        }
    }
    Ok(())
}
