//! The audit as files of JSON lines (`--audit-dir`), for programs that ship it or keep it for longer than the store does.
//!
//! A file is named by the number of its first line, only appended to, and followed by the next one beyond [`FILE_LEN_MAX`]; none is
//! removed here. A line has what `GET /api/audit` shows, the record as the store holds it and the record's hash, so that the chain is
//! followed over the files without a store, and the text of a line is known to be what the record says. Only lines that are durable
//! in the store are written: after a crash none is in a file that the store does not know.

use crate::driver::Counters;
use crate::store::Audit;
use crate::store::StoreError;
use crate::store::audit::{Hash, Head, Line, Walk, read};
use crate::store::reserve::free;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use common::audit::Entry;
use common::file::sync_folder;
use process::tasks::Watch;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

/// Length beyond which the next line begins a file, in bytes.
pub const FILE_LEN_MAX: u64 = 64 << 20;
/// The longest line, in bytes: each of its texts is bounded, and a character takes twelve bytes at most.
const LINE_LEN_MAX: usize = 32 << 10;
/// Lines that are read from the store at once.
const BATCH: usize = 1_000;
/// Time between two passes.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest wait for the end.
const STOP_MAX: Duration = Duration::from_secs(1);
/// Room that is left on the disk, in bytes.
const ROOM_MIN: u64 = 64 << 20;
const LOCK: &str = "audit.lock";
const PREFIX: &str = "audit-";
const SUFFIX: &str = ".jsonl";
/// Digits of the number in a file's name.
const DIGITS: usize = 12;
/// Whoever is in the folder's group may read and ship the files, though nothing else that a master writes.
const FOLDER_MODE: u32 = 0o750;
const FILE_MODE: u32 = 0o640;

/// A fault of the files.
#[derive(Debug, thiserror::Error)]
pub enum AuditFilesError {
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("another program writes the audit to {}: give each master a folder of its own (--audit-dir)", .0.display())]
    InUse(PathBuf),
    #[error("{}: {why}", file.display())]
    Damaged { file: PathBuf, why: String },
    #[error(
        "{} ends with line {number}, which is not in the audit of this store: the store was put back or replaced, or the file changed. \
         Move the folder away, and keep it", file.display()
    )]
    Foreign { file: PathBuf, number: u64 },
    #[error("less than {} MiB are free under {}, and the last ones are left to the store", ROOM_MIN >> 20, .0.display())]
    Room(PathBuf),
    #[error("{} holds no line of an audit", .0.display())]
    Empty(PathBuf),
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn io_at<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> AuditFilesError + 'a {
    move |source| AuditFilesError::Io { action, path: path.to_owned(), source }
}

/// A line of a file. It stays as it is: lines of former versions are compared with what is written today.
#[derive(Serialize)]
struct Written<'a> {
    number: u64,
    at: String,
    who: &'a str,
    from: &'a str,
    action: &'a str,
    subject: &'a str,
    detail: &'a str,
    hash: String,
    record: String,
}

#[derive(Deserialize)]
struct Recorded {
    record: String,
}

/// The line of a file for a record of the store, with its newline.
fn text_of(line: &Line, bytes: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let Entry { at, actor, action, subject, detail } = &line.entry;
    let written = Written {
        number: line.number,
        at: at.to_string(),
        who: actor.who(),
        from: actor.from(),
        action: action.code(),
        subject,
        detail,
        hash: Hash::of(bytes).to_string(),
        record: BASE64_STANDARD.encode(bytes),
    };
    let mut text = serde_json::to_vec(&written)?;
    text.push(b'\n');
    Ok(text)
}

/// The record in a line of a file, if all the rest of the line says the same.
fn record_of(text: &[u8]) -> Result<(Vec<u8>, Line), String> {
    let Recorded { record } =
        serde_json::from_slice(text).map_err(|e| format!("it is not a line of the audit: {e}"))?;
    let bytes = BASE64_STANDARD.decode(record).map_err(|e| format!("its record is damaged: {e}"))?;
    let line = read(&bytes).map_err(|e| format!("its record is damaged: {e}"))?;
    match text_of(&line, &bytes) {
        Ok(same) if same == text => Ok((bytes, line)),
        _ => Err("its text is not what its record says".to_owned()),
    }
}

/// The numbers of the files' first lines, ascending.
fn first_lines(folder: &Path) -> Result<Vec<u64>, AuditFilesError> {
    let number = |name: &str| {
        let number = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse::<u64>().ok()?;
        (*name == *name_of(number)).then_some(number)
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(io_at("read", folder))? {
        let name = entry.map_err(io_at("read", folder))?.file_name();
        found.extend(name.to_str().and_then(number));
    }
    found.sort_unstable();
    Ok(found)
}

fn name_of(first: u64) -> String {
    format!("{PREFIX}{first:0DIGITS$}{SUFFIX}")
}

fn path_of(folder: &Path, first: u64) -> PathBuf {
    folder.join(name_of(first))
}

/// Makes the folder, if it is not there.
fn make(folder: &Path) -> Result<(), AuditFilesError> {
    if !folder.exists() {
        fs::create_dir_all(folder).map_err(io_at("create", folder))?;
        let mode = Permissions::from_mode(FOLDER_MODE);
        fs::set_permissions(folder, mode).map_err(io_at("set the mode of", folder))?;
    }
    Ok(())
}

/// A file that lines are appended to.
struct Open {
    path: PathBuf,
    file: File,
    len: u64,
}

impl Open {
    /// Tells whether it is still the file of its name: whoever moves it away takes it with what is in it.
    fn is_there(&self) -> bool {
        let of = |about: fs::Metadata| (about.dev(), about.ino());
        self.file.metadata().is_ok_and(|own| fs::metadata(&self.path).is_ok_and(|there| of(there) == of(own)))
    }
}

/// Opens a file to append to it. A line that was torn by a crash is cut off. Returns the last line that is there.
fn open(path: PathBuf) -> Result<(Open, Option<Vec<u8>>), AuditFilesError> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).mode(FILE_MODE);
    let mut file = match options.clone().create_new(true).open(&path) {
        Err(there) if there.kind() == io::ErrorKind::AlreadyExists => {
            options.open(&path).map_err(io_at("open", &path))?
        }
        made => {
            let file = made.map_err(io_at("create", &path))?;
            file.set_permissions(Permissions::from_mode(FILE_MODE)).map_err(io_at("set the mode of", &path))?;
            file
        }
    };
    let tail = (|| {
        let len = file.metadata()?.len();
        let from = len.saturating_sub(2 * LINE_LEN_MAX as u64);
        file.seek(SeekFrom::Start(from))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail)?;
        Ok((from, tail))
    })();
    let (from, mut tail) = tail.map_err(io_at("read", &path))?;
    let whole = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if whole == 0 && from > 0 {
        return Err(AuditFilesError::Damaged {
            file: path,
            why: "it does not end with a line of the audit".to_owned(),
        });
    }
    let len = from + whole as u64;
    if whole < tail.len() {
        file.set_len(len).map_err(io_at("cut a torn line off", &path))?;
    }
    tail.truncate(whole);
    let begin = tail.iter().rev().skip(1).position(|byte| *byte == b'\n').map_or(0, |back| whole - 1 - back);
    let last = (whole > 0).then(|| tail.split_off(begin));
    Ok((Open { path, file, len }, last))
}

/// The files of one master's audit, to be written.
pub struct AuditFiles<A> {
    folder: PathBuf,
    audit: A,
    /// The number of the last line in the files.
    last: u64,
    /// The file that lines are appended to; none before the first line.
    open: Option<Open>,
    /// False before the first write and after one that failed: then the files are read before the next one.
    settled: bool,
    _lock: File,
}

impl<A: Audit> AuditFiles<A> {
    /// Takes the folder, which is made if it is not there, for this master alone.
    ///
    /// # Errors
    /// The folder cannot be made or locked, or another program uses it.
    pub fn start(folder: &Path, audit: A) -> Result<Self, AuditFilesError> {
        make(folder)?;
        let path = folder.join(LOCK);
        let mut options = OpenOptions::new();
        let lock = options.create(true).truncate(false).write(true).mode(FILE_MODE).open(&path);
        let lock = lock.map_err(io_at("open", &path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(AuditFilesError::InUse(folder.to_owned())),
            Err(TryLockError::Error(source)) => return Err(io_at("lock", &path)(source)),
        }
        Ok(Self { folder: folder.to_owned(), audit, last: 0, open: None, settled: false, _lock: lock })
    }

    /// Finds the last line in the files, and makes sure that the store has the same one.
    fn resume(&mut self) -> Result<(), AuditFilesError> {
        make(&self.folder)?;
        (self.open, self.last) = (None, 0);
        for first in first_lines(&self.folder)?.into_iter().rev() {
            let (open, last) = open(path_of(&self.folder, first))?;
            let file = open.path.clone();
            self.open.get_or_insert(open);
            let Some(text) = last else { continue };
            let (bytes, line) = record_of(&text).map_err(|why| AuditFilesError::Damaged {
                file: file.clone(),
                why: format!("its last line: {why}. Move the folder away, and keep it"),
            })?;
            match self.audit.lines_after(line.number.saturating_sub(1)).next().transpose()? {
                Some((_, known)) if known == bytes => {}
                // The store has dropped it since.
                Some((oldest, _)) if oldest.number > line.number => {}
                _ => return Err(AuditFilesError::Foreign { file, number: line.number }),
            }
            self.last = line.number;
            break;
        }
        Ok(())
    }

    /// Writes some of the lines that follow, up to this number, and makes them durable. Returns the number of the last line in the files.
    ///
    /// # Errors
    /// A file cannot be written, the store not be read, or what the folder holds is not of this audit. The next call tries again.
    pub fn write(&mut self, durable: u64) -> Result<u64, AuditFilesError> {
        if !std::mem::take(&mut self.settled) {
            self.resume()?;
        }
        if self.last < durable {
            self.write_some(durable)?;
        }
        self.settled = true;
        Ok(self.last)
    }

    /// Leaves the last of a disk to the store, which may be on the same one: without room a master promises nothing.
    fn check_room(&self) -> Result<(), AuditFilesError> {
        if free(&self.folder)? < ROOM_MIN {
            return Err(AuditFilesError::Room(self.folder.clone()));
        }
        Ok(())
    }

    fn write_some(&mut self, durable: u64) -> Result<(), AuditFilesError> {
        let (mut text, mut first, mut last) = (Vec::new(), None, self.last);
        for row in self.audit.lines_after(self.last).take(BATCH) {
            let (line, bytes) = row?;
            if line.number > durable {
                break;
            }
            first.get_or_insert(line.number);
            last = line.number;
            text.extend(text_of(&line, &bytes).map_err(|e| io_at("write to", &self.folder)(e.into()))?);
        }
        let missing = || format!("line {} is missing in the store", self.last.saturating_add(1));
        let first = first.ok_or_else(|| AuditFilesError::Damaged { file: self.folder.clone(), why: missing() })?;
        let next = self.last.saturating_add(1);
        if first > next && self.last > 0 {
            let (until, folder) = (first - 1, self.folder.display());
            tracing::warn!(
                "the store dropped lines {next} to {until} of the audit before they were written to {folder}"
            );
        }
        self.check_room()?;
        let mut open = match self.open.take() {
            Some(open) if open.len < FILE_LEN_MAX && first == next && open.is_there() => open,
            _ => {
                let (new, _) = open(path_of(&self.folder, first))?;
                sync_folder(&self.folder).map_err(io_at("make durable", &self.folder))?;
                new
            }
        };
        let written = open.file.write_all(&text).and_then(|()| open.file.sync_data());
        if let Err(source) = written {
            // What may not have reached the disk is written again.
            let _ = open.file.set_len(open.len);
            return Err(io_at("write to", &open.path)(source));
        }
        if open.is_there() {
            open.len += text.len() as u64;
            (self.open, self.last) = (Some(open), last);
        }
        Ok(())
    }
}

/// The thread that writes the files.
#[must_use]
pub struct Writer {
    stop: Sender<()>,
    /// Closed when the thread ends.
    ended: Receiver<()>,
}

impl Writer {
    /// Begins to write what becomes durable, once a second.
    ///
    /// # Errors
    /// The operating system starts no thread.
    pub fn start<A: Audit>(mut files: AuditFiles<A>, counters: Arc<Counters>, watch: &Watch) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let (ends_here, ended) = channel();
        let guard = watch.guard("audit");
        let write = move || {
            let _ends_here: Sender<()> = ends_here;
            let (mut failed, mut behind) = (None, false);
            loop {
                let pause = if behind { Duration::ZERO } else { PAUSE };
                let ends = stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout);
                let durable = counters.audited.load(Relaxed);
                match files.write(durable) {
                    Ok(last) => {
                        counters.audit_written.store(last, Relaxed);
                        behind = last < durable;
                        if failed.take().is_some() {
                            tracing::info!("the audit is written to {} again", files.folder.display());
                        }
                    }
                    Err(why) => {
                        behind = false;
                        let why = why.to_string();
                        if failed.as_ref() != Some(&why) {
                            tracing::error!(
                                "the audit is not written to its files; it is tried again each second: {why}"
                            );
                            failed = Some(why);
                        }
                    }
                }
                if ends && !behind {
                    break;
                }
            }
            guard.done();
        };
        Builder::new().name("audit".to_owned()).spawn(write)?;
        Ok(Self { stop, ended })
    }

    /// Writes what has become durable until now, and ends. A disk that hangs is not waited for: the next start goes on from there.
    pub fn stop(self) {
        drop(self.stop);
        if self.ended.recv_timeout(STOP_MAX) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the last lines of the audit are not in its files yet: the next start writes them");
        }
    }
}

/// A chain that was followed over files.
#[derive(Debug, PartialEq, Eq)]
pub struct Checked {
    pub files: usize,
    /// The number of the first line.
    pub first: u64,
    pub last: Head,
    /// True if an unfinished line follows: a crash tore it, or it is being written.
    pub torn: bool,
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files, first, last, torn } = self;
        let plural = if *files == 1 { "" } else { "s" };
        write!(
            f,
            "lines {first} to {} in {files} file{plural}; line {} has the hash {}",
            last.number, last.number, last.hash
        )?;
        match torn {
            true => f.write_str("; an unfinished line follows, which a crash tore or which is being written"),
            false => Ok(()),
        }
    }
}

/// Follows the audit over the files in a folder, without a store. The first lines may be missing, in files that were moved away.
///
/// # Errors
/// A file cannot be read, or says something else than what was written; or no line is there.
pub fn check(folder: &Path) -> Result<Checked, AuditFilesError> {
    let mut walk = Walk::default();
    let mut checked = Checked { files: 0, first: 0, last: Head::default(), torn: false };
    for number in first_lines(folder)? {
        let path = path_of(folder, number);
        let file = File::open(&path).map_err(io_at("open", &path))?;
        let mut reader = BufReader::new(file);
        let mut text = Vec::new();
        let damaged = |after: u64, why: String| AuditFilesError::Damaged {
            file: path.clone(),
            why: format!("after line {after}: {why}"),
        };
        if checked.torn {
            return Err(damaged(walk.head().number, "an unfinished line in the midst of the audit".to_owned()));
        }
        loop {
            text.clear();
            let line = (&mut reader).take(LINE_LEN_MAX as u64).read_until(b'\n', &mut text);
            if line.map_err(io_at("read", &path))? == 0 {
                break;
            }
            if text.last() != Some(&b'\n') && text.len() < LINE_LEN_MAX {
                checked.torn = true;
                break;
            }
            let line = record_of(&text).and_then(|(bytes, _)| walk.step(&bytes));
            let line = line.map_err(|why| damaged(walk.head().number, why))?;
            if checked.first == 0 {
                checked.first = line.number;
            }
        }
        checked.files += 1;
    }
    checked.last = walk.head();
    match checked.first {
        0 => Err(AuditFilesError::Empty(folder.to_owned())),
        _ => Ok(checked),
    }
}

#[cfg(test)]
#[path = "audit_files_tests.rs"]
mod tests;
