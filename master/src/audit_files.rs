//! The audit as files of JSON lines (`--audit-dir`), for programs that ship it or keep it for longer than the store does.
//!
//! A file is named by the number of its first line, only appended to, and followed by the next one beyond [`FILE_LEN_MAX`]; none is
//! removed here. A line has what `GET /api/audit` shows, the record as the store holds it and the record's hash, so that the chain is
//! followed over the files without a store, and the text of a line is known to be what the record says. Only lines that are durable
//! in the store are written: after a crash none is in a file that the store does not know.

use crate::admin::audit_row;
use crate::driver::Counters;
use crate::store::Audit;
use crate::store::StoreError;
use crate::store::audit::{Hash, Head, Line, Walk, read};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use common::file::sync_folder;
use process::tasks::Watch;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use web::AuditRow;

/// Length beyond which the next line begins a file, in bytes.
pub const FILE_LEN_MAX: u64 = 64 << 20;
/// The longest line, in bytes: each of its texts is bounded, and a character takes twelve bytes at most.
const LINE_LEN_MAX: usize = 32 << 10;
/// Lines that are read from the store at once.
const BATCH: usize = 1_000;
/// Time between two passes.
const PAUSE: Duration = Duration::from_secs(1);
const LOCK: &str = "audit.lock";
const PREFIX: &str = "audit-";
const SUFFIX: &str = ".jsonl";
/// Digits of the number in a file's name.
const DIGITS: usize = 12;
/// Whoever is in the folder's group may read and ship the files.
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
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn io_at<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> AuditFilesError + 'a {
    move |source| AuditFilesError::Io { action, path: path.to_owned(), source }
}

#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    row: AuditRow,
    hash: String,
    record: &'a str,
}

#[derive(Deserialize)]
struct Recorded {
    record: String,
}

/// The line of a file for a record of the store, with its newline.
fn text_of(line: Line, bytes: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let record = BASE64_STANDARD.encode(bytes);
    let mut text =
        serde_json::to_vec(&Written { row: audit_row(line), hash: Hash::of(bytes).to_string(), record: &record })?;
    text.push(b'\n');
    Ok(text)
}

/// The record in a line of a file, if all the rest of the line says the same.
fn record_of(text: &[u8]) -> Result<(Vec<u8>, Line), String> {
    let Recorded { record } =
        serde_json::from_slice(text).map_err(|e| format!("it is not a line of the audit: {e}"))?;
    let bytes = BASE64_STANDARD.decode(record).map_err(|e| format!("its record is damaged: {e}"))?;
    let line = read(&bytes).map_err(|e| format!("its record is damaged: {e}"))?;
    match text_of(line.clone(), &bytes) {
        Ok(same) if same == text => Ok((bytes, line)),
        _ => Err("its text is not what its record says".to_owned()),
    }
}

/// The numbers of the files' first lines, ascending.
fn first_lines(folder: &Path) -> Result<Vec<u64>, AuditFilesError> {
    let number = |name: &str| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse::<u64>().ok();
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(io_at("read", folder))? {
        let name = entry.map_err(io_at("read", folder))?.file_name();
        found.extend(name.to_str().and_then(number));
    }
    found.sort_unstable();
    Ok(found)
}

fn path_of(folder: &Path, first: u64) -> PathBuf {
    folder.join(format!("{PREFIX}{first:0DIGITS$}{SUFFIX}"))
}

/// A file that lines are appended to.
struct Open {
    path: PathBuf,
    file: File,
    len: u64,
}

/// Opens a file to append to it. A line that was torn by a crash is cut off. Returns the last line that is there.
fn open(path: PathBuf) -> Result<(Open, Option<Vec<u8>>), AuditFilesError> {
    let mut options = OpenOptions::new();
    options.create(true).read(true).append(true).mode(FILE_MODE);
    let mut file = options.open(&path).map_err(io_at("open", &path))?;
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
    /// True if the last write failed: then the files are read again before the next one.
    failed: bool,
    _lock: File,
}

impl<A: Audit> AuditFiles<A> {
    /// Takes the folder, which is made if it is not there, and goes on after the last line in it.
    ///
    /// # Errors
    /// The folder cannot be used, another program uses it, or what it holds is not of this audit.
    pub fn start(folder: &Path, audit: A) -> Result<Self, AuditFilesError> {
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder).map_err(io_at("create", folder))?;
        let path = folder.join(LOCK);
        let mut options = OpenOptions::new();
        let lock = options.create(true).truncate(false).write(true).mode(FILE_MODE).open(&path);
        let lock = lock.map_err(io_at("open", &path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(AuditFilesError::InUse(folder.to_owned())),
            Err(TryLockError::Error(source)) => return Err(io_at("lock", &path)(source)),
        }
        let mut files = Self { folder: folder.to_owned(), audit, last: 0, open: None, failed: false, _lock: lock };
        files.resume()?;
        Ok(files)
    }

    /// Finds the last line in the files, and makes sure that the store has the same one.
    fn resume(&mut self) -> Result<(), AuditFilesError> {
        (self.open, self.last) = (None, 0);
        for first in first_lines(&self.folder)?.into_iter().rev() {
            let (open, last) = open(path_of(&self.folder, first))?;
            let file = open.path.clone();
            self.open.get_or_insert(open);
            let Some(text) = last else { continue };
            let (bytes, line) = record_of(&text)
                .map_err(|why| AuditFilesError::Damaged { file: file.clone(), why: format!("its last line: {why}") })?;
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

    /// Writes the lines that follow, up to this number, and makes them durable. Returns the number of the last line in the files.
    ///
    /// # Errors
    /// A file cannot be written, or the store not be read. The next call tries again.
    pub fn write(&mut self, durable: u64) -> Result<u64, AuditFilesError> {
        if self.failed {
            self.resume()?;
        }
        self.failed = true;
        while self.last < durable {
            self.write_some(durable)?;
        }
        self.failed = false;
        Ok(self.last)
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
            text.extend(text_of(line, &bytes).map_err(|e| io_at("write to", &self.folder)(e.into()))?);
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
        let mut open = match self.open.take() {
            // Not to one that somebody removed.
            Some(open) if open.len < FILE_LEN_MAX && first == next && open.path.exists() => open,
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
        open.len += text.len() as u64;
        (self.open, self.last) = (Some(open), last);
        Ok(())
    }
}

/// The thread that writes the files.
#[must_use]
pub struct Writer {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Writer {
    /// Begins to write what becomes durable, once a second.
    ///
    /// # Errors
    /// The operating system starts no thread.
    pub fn start<A: Audit>(mut files: AuditFiles<A>, counters: Arc<Counters>, watch: &Watch) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let guard = watch.guard("audit");
        let write = move || {
            let mut failed = false;
            loop {
                let ends = stopped.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout);
                match files.write(counters.audited.load(Relaxed)) {
                    Ok(last) => {
                        counters.audit_written.store(last, Relaxed);
                        if std::mem::take(&mut failed) {
                            tracing::info!("the audit is written to {} again", files.folder.display());
                        }
                    }
                    Err(why) if !failed => {
                        failed = true;
                        tracing::error!("the audit is not written to its files; it is tried again each second: {why}");
                    }
                    Err(_) => {}
                }
                if ends {
                    break;
                }
            }
            guard.done();
        };
        Ok(Self { stop, thread: Builder::new().name("audit".to_owned()).spawn(write)? })
    }

    /// Writes what has become durable until now, and ends.
    pub fn stop(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

/// A chain that was followed over files.
#[derive(Debug, PartialEq, Eq)]
pub struct Checked {
    pub files: usize,
    /// The number of the first line.
    pub first: u64,
    pub last: Head,
}

/// Follows the audit over the files in a folder, without a store. The first lines may be missing, in files that were moved away.
///
/// # Errors
/// A file cannot be read, or says something else than what was written.
pub fn check(folder: &Path) -> Result<Checked, AuditFilesError> {
    let mut walk = Walk::default();
    let mut checked = Checked { files: 0, first: 0, last: Head::default() };
    for number in first_lines(folder)? {
        let path = path_of(folder, number);
        let file = File::open(&path).map_err(io_at("open", &path))?;
        let mut reader = BufReader::new(file);
        let mut text = Vec::new();
        loop {
            text.clear();
            let line = (&mut reader).take(LINE_LEN_MAX as u64).read_until(b'\n', &mut text);
            if line.map_err(io_at("read", &path))? == 0 {
                break;
            }
            let line = record_of(&text).and_then(|(bytes, _)| walk.step(&bytes));
            let line = line.map_err(|why| AuditFilesError::Damaged {
                file: path.clone(),
                why: format!("after line {}: {why}", walk.head().number),
            })?;
            if checked.first == 0 {
                checked.first = line.number;
            }
        }
        checked.files += 1;
    }
    checked.last = walk.head();
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::audit::{Action, Actor, Entry};
    use common::time::WallMs;
    use std::ops::Range;
    use std::sync::Mutex;

    /// Lines by their number, and where they end.
    type Chain = (Head, Vec<(u64, Vec<u8>)>);

    /// An audit in memory that can drop its oldest lines.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Chain>>);

    impl Kept {
        fn add(&self, count: usize) -> u64 {
            let (head, lines) = &mut *self.0.lock().unwrap();
            for _ in 0..count {
                let actor = Actor::new("o\"\\\u{2028}\u{10ffff}", "10.0.0.1:5");
                let detail = format!("generation {}", head.number);
                lines.push(head.add(&Entry::new(WallMs(1), actor, Action::Key, "token 7", &detail)).unwrap());
            }
            head.number
        }

        fn drop_until(&self, number: u64) {
            self.0.lock().unwrap().1.retain(|(kept, _)| *kept > number);
        }
    }

    impl Audit for Kept {
        fn rows(
            &self,
            range: Range<Vec<u8>>,
        ) -> impl DoubleEndedIterator<Item = Result<(Vec<u8>, Vec<u8>), StoreError>> {
            let key = |number: u64| [&b"a"[..], &number.to_be_bytes()].concat();
            let rows = self.0.lock().unwrap().1.clone().into_iter().map(move |(number, bytes)| (key(number), bytes));
            rows.filter(|(key, _)| range.contains(key)).map(Ok).collect::<Vec<_>>().into_iter()
        }
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        first_lines(folder).unwrap().into_iter().map(|first| path_of(folder, first)).collect()
    }

    #[test]
    fn every_line_is_written_once_whatever_a_crash_tears() {
        let dir = tempfile::tempdir().unwrap();
        let audit = Kept::default();
        let start = || AuditFiles::start(dir.path(), audit.clone());
        // Neither an empty audit nor an empty file is a fault.
        assert_eq!(start().unwrap().write(0).unwrap(), 0);
        assert_eq!(start().unwrap().write(audit.add(3)).unwrap(), 3);
        let file = files(dir.path()).remove(0);
        let whole = fs::read(&file).unwrap();
        audit.add(1);
        for len in (0..whole.len()).rev() {
            File::options().write(true).open(&file).unwrap().set_len(len as u64).unwrap();
            assert_eq!(start().unwrap().write(3).unwrap(), 3);
            assert_eq!(fs::read(&file).unwrap(), whole, "torn at byte {len}");
        }
        // What is not durable is not written.
        let mut running = start().unwrap();
        assert_eq!(running.write(3).unwrap(), 3);
        assert!(matches!(start(), Err(AuditFilesError::InUse(_))));
        assert_eq!(running.write(4).unwrap(), 4);
        let checked = check(dir.path()).unwrap();
        assert_eq!(checked, Checked { files: 1, first: 1, last: audit.0.lock().unwrap().0 });
    }

    #[test]
    fn files_follow_each_other_and_the_first_ones_may_be_moved_away() {
        let dir = tempfile::tempdir().unwrap();
        let audit = Kept::default();
        let mut running = AuditFiles::start(dir.path(), audit.clone()).unwrap();
        for _ in 0..3 {
            running.write(audit.add(2 * BATCH)).unwrap();
            running.open.as_mut().unwrap().len = FILE_LEN_MAX;
        }
        assert_eq!(first_lines(dir.path()).unwrap(), [1, 2_001, 4_001]);
        fs::remove_file(path_of(dir.path(), 1)).unwrap();
        let checked = check(dir.path()).unwrap();
        assert_eq!((checked.files, checked.first, checked.last.number), (2, 2_001, 6_000));
        fs::remove_file(path_of(dir.path(), 2_001)).unwrap();
        drop(running);
        // A start goes on after the last one, and one of which the store dropped the last line after what it still has.
        let mut running = AuditFiles::start(dir.path(), audit.clone()).unwrap();
        assert_eq!(running.write(audit.add(1)).unwrap(), 6_001);
        drop(running);
        audit.add(5);
        audit.drop_until(6_003);
        let mut running = AuditFiles::start(dir.path(), audit.clone()).unwrap();
        assert_eq!(running.write(6_006).unwrap(), 6_006);
        assert_eq!(first_lines(dir.path()).unwrap(), [4_001, 6_004]);
        let gap = check(dir.path()).unwrap_err().to_string();
        assert!(gap.contains("after line 6001 comes line 6004"), "{gap}");
    }

    #[test]
    fn a_folder_that_is_gone_is_written_anew_once_it_is_back() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("audit");
        let audit = Kept::default();
        let mut running = AuditFiles::start(&folder, audit.clone()).unwrap();
        running.write(audit.add(3)).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        for _ in 0..2 {
            assert!(running.write(audit.add(1)).is_err());
        }
        fs::create_dir(&folder).unwrap();
        assert_eq!(running.write(5).unwrap(), 5);
        let checked = check(&folder).unwrap();
        assert_eq!((checked.first, checked.last.number), (1, 5));
    }

    #[test]
    fn what_was_changed_or_is_of_another_store_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let audit = Kept::default();
        AuditFiles::start(dir.path(), audit.clone()).unwrap().write(audit.add(3)).unwrap();
        let file = files(dir.path()).remove(0);
        let whole = fs::read(&file).unwrap();
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            fs::write(&file, &flipped).unwrap();
            assert!(check(dir.path()).is_err(), "byte {at} was changed");
        }
        fs::write(&file, &whole).unwrap();
        assert!(check(dir.path()).is_ok());
        // One that was put back, or another one.
        let (put_back, other) = (Kept::default(), Kept::default());
        put_back.add(2);
        let actor = Actor::new("another", "");
        for _ in 0..5 {
            let (head, lines) = &mut *other.0.lock().unwrap();
            lines.push(head.add(&Entry::new(WallMs(1), actor.clone(), Action::Key, "", "")).unwrap());
        }
        for store in [put_back, other] {
            let refused = AuditFiles::start(dir.path(), store).map(|_| ()).unwrap_err().to_string();
            assert!(refused.contains("ends with line 3, which is not in the audit of this store"), "{refused}");
        }
    }
}
