//! `history`: every range of IDs that left, with its caller and time, in rotating files; and who got an ID.
//!
//! One [`History`] writes for all names of an agent. Lines go through a queue of [`QUEUE_LEN_MAX`] bytes to a thread that
//! writes them, so no call waits for the disk. A name that requires its history ([`Mode::Required`]) refuses calls
//! before they take IDs while the disk does not take lines or the queue is half full, and after if a call's lines do not fit;
//! then its IDs are a gap. Otherwise ([`Mode::BestEffort`]) such lines are dropped and counted.
//!
//! What is certain: no ID leaves by a name that requires its history before its line is in the queue. What is in the queue when
//! the program is killed is lost, some milliseconds' worth; a machine that loses power forgets the last second
//! (`history/files.rs` says when files are made durable). [`History::end`] writes all. A line is no proof that the caller got
//! the answer: the connection may have ended, or a plugin of a higher order may have refused.
//!
//! However many lines one name has, others keep theirs (`history/condense.rs`).
//!
//! Numbers are a line for each range; strings and texts are looked at one by one, and those that
//! count up become one line (`history/line.rs`).

mod condense;
mod files;
mod find;
mod line;
#[cfg(test)]
mod tests;

pub use find::{Searched, find};
pub use line::{Form, Line};

use super::limiter::Limiter;
use super::{Call, Mode, Needs, Outgoing, Plugin, PluginRefusal};
use common::kind::{Form as KindForm, Kind};
use common::metrics::{Series, counter, gauge};
use files::Files;
use line::Writer;
use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of lines that wait to be written; as many may be under way.
pub const QUEUE_LEN_MAX: usize = 16 << 20;
/// Bytes that a file may have.
pub const FILE_LENS: RangeInclusive<u64> = 1 << 16..=1 << 40;
/// The number of files that may be kept.
pub const FILES: RangeInclusive<usize> = 2..=100_000;
/// The interval at which what was written is made durable.
const SYNC_EACH: Duration = Duration::from_secs(1);
/// The time after a failure until the disk is tried again.
const RETRY_EACH: Duration = Duration::from_millis(500);
/// Characters of the disk's reason that callers see.
const REASON_LEN_MAX: usize = 128;

/// The folder in which history is kept, and how much is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistorySettings {
    /// The folder, of this agent alone.
    pub folder: PathBuf,
    /// Bytes of a file at most, within [`FILE_LENS`].
    pub file_len_max: u64,
    /// Files that are kept, within [`FILES`]; of more the oldest become one.
    pub files_max: usize,
}

/// The reason why there is no history.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// Another program writes there.
    #[error("another program keeps its history in {0}; give each agent a folder of its own")]
    InUse(PathBuf),
    /// A setting is out of range.
    #[error("{what} of history is a number from {from} to {to}")]
    Setting {
        /// The setting.
        what: &'static str,
        /// The least,
        from: u64,
        /// and the most.
        to: u64,
    },
    /// The disk's reason.
    #[error("cannot {action} of history in {folder}: {source}")]
    Io {
        /// The action that was tried.
        action: &'static str,
        /// The folder.
        folder: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// There is no thread.
    #[error("cannot start the thread that writes history: {0}")]
    Thread(io::Error),
}

#[derive(Debug, Default)]
struct Queue {
    lines: Vec<u8>,
    /// The reason why the disk does not take lines.
    failing: Option<String>,
    ended: bool,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    dropped: AtomicU64,
    said: Limiter,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drop_lines(&self, lines: &[u8]) {
        let lines = lines.iter().filter(|byte| **byte == b'\n').count();
        self.dropped.fetch_add(u64::try_from(lines).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Series of what writes history.
pub(crate) const SERIES: &[Series<History>] = &[
    gauge("uniq_history_failing", "Whether the disk takes no lines of history at the moment.", |history| {
        history.failing().is_some().into()
    }),
    counter("uniq_history_dropped_lines_total", "Lines of history that were not written.", History::dropped),
];

/// The writer of history. Dropped, it writes what waits, as [`end`](Self::end) does.
#[derive(Debug)]
pub struct History {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl History {
    /// Takes the folder and starts the thread that writes.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn start(settings: &HistorySettings) -> Result<Arc<Self>, HistoryError> {
        let HistorySettings { folder, file_len_max, files_max } = settings;
        let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        if !FILE_LENS.contains(file_len_max) {
            return Err(HistoryError::Setting {
                what: "the size of a file",
                from: *FILE_LENS.start(),
                to: *FILE_LENS.end(),
            });
        }
        if !FILES.contains(files_max) {
            let (from, to) = (number(*FILES.start()), number(*FILES.end()));
            return Err(HistoryError::Setting { what: "the number of files", from, to });
        }
        let files = Files::start(folder, *file_len_max, *files_max)?;
        let shared = Arc::new(Shared::default());
        let writer = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("uniq-history".to_owned()).spawn(move || write_all(&writer, files));
        let thread = thread.map_err(HistoryError::Thread)?;
        Ok(Arc::new(Self { shared, thread: Mutex::new(Some(thread)) }))
    }

    /// Lines that were dropped since the start, because a name does not require them or the end came first.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// The reason why the disk takes no lines at the moment.
    pub fn failing(&self) -> Option<String> {
        self.shared.lock().failing.clone()
    }

    /// Writes what waits, makes it durable and lets go of the folder. A disk that still fails is tried once more. Calls
    /// that come later are refused by names that require their history.
    pub fn end(&self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // It panics at nothing that it knows of; if it does, the panic is in the log.
            let _ = thread.join();
        }
    }

    /// Tells whether a call's lines will be taken, as far as can be known before it takes IDs.
    fn has_room(&self) -> Result<(), PluginRefusal> {
        let queue = self.shared.lock();
        if let Some(why) = &queue.failing {
            return Err(PluginRefusal::unavailable(format!("history cannot be written: {why}")));
        }
        if queue.ended {
            return Err(PluginRefusal::unavailable("history is not written any more: this program ends"));
        }
        if queue.lines.len() > QUEUE_LEN_MAX / 2 {
            return Err(PluginRefusal::unavailable("history is not written as fast as IDs are asked for"));
        }
        Ok(())
    }

    fn push(&self, lines: &[u8]) -> Result<(), PluginRefusal> {
        let mut queue = self.shared.lock();
        if queue.ended || queue.lines.len() + lines.len() > QUEUE_LEN_MAX {
            return Err(PluginRefusal::unavailable("history is not written as fast as IDs are asked for"));
        }
        let idle = queue.lines.is_empty();
        queue.lines.extend_from_slice(lines);
        drop(queue);
        if idle {
            self.shared.changed.notify_all();
        }
        Ok(())
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.end();
    }
}

/// Whatever ends the thread: nothing is taken any more.
struct Ending<'a>(&'a Shared);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.ended = true;
        self.0.drop_lines(&std::mem::take(&mut queue.lines));
    }
}

/// The thread: writes what comes until it is told to end.
fn write_all(shared: &Shared, mut files: Files) {
    let _ending = Ending(shared);
    let (mut batch, mut synced) = (Vec::new(), Instant::now());
    loop {
        let mut queue = shared.lock();
        while queue.lines.is_empty() && !queue.ended {
            if !files.is_dirty() {
                queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let rest = SYNC_EACH.saturating_sub(synced.elapsed());
            if rest.is_zero() {
                break;
            }
            queue = shared.changed.wait_timeout(queue, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::swap(&mut batch, &mut queue.lines);
        let ended = queue.ended;
        drop(queue);
        let all = write_batch(shared, &mut files, &batch);
        batch.clear();
        if ended || synced.elapsed() >= SYNC_EACH {
            synced = Instant::now();
            if let Err(failed) = files.sync() {
                wait(shared, &failed);
            }
        }
        let mut queue = shared.lock();
        if all {
            queue.failing = None;
        }
        if ended && (queue.lines.is_empty() || !all) {
            break;
        }
    }
}

/// Writes these lines, however long it takes. `false` if the end came before; the rest counts as dropped.
fn write_batch(shared: &Shared, files: &mut Files, batch: &[u8]) -> bool {
    let mut rest = batch;
    while !rest.is_empty() {
        match files.write(rest) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(failed) if wait(shared, &failed) => {}
            Err(_) => break,
        }
    }
    shared.drop_lines(rest);
    rest.is_empty()
}

/// Says that the disk fails, and waits before it is tried again. `false` if the end has come: then it is not.
fn wait(shared: &Shared, failed: &io::Error) -> bool {
    let mut queue = shared.lock();
    if let Some(left_out) = shared.said.admit() {
        tracing::error!(%failed, left_out, "history cannot be written; names that require it give no IDs");
    }
    queue.failing = Some(failed.to_string().chars().take(REASON_LEN_MAX).collect());
    if queue.ended {
        return false;
    }
    let end = Instant::now() + RETRY_EACH;
    loop {
        let rest = end.saturating_duration_since(Instant::now());
        // Whoever ends has it tried once more.
        if rest.is_zero() || queue.ended {
            return true;
        }
        queue = shared.changed.wait_timeout(queue, rest).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// The plugin that writes the history of one name.
#[derive(Debug)]
pub(super) struct Recorder {
    history: Arc<History>,
    mode: Mode,
}

impl Recorder {
    pub(super) fn new(history: Arc<History>, mode: Mode) -> Self {
        Self { history, mode }
    }
}

impl Plugin for Recorder {
    fn name(&self) -> &str {
        "history"
    }

    fn needs(&self, kind: Kind) -> Needs {
        match kind.spec().form {
            KindForm::Number { .. } | KindForm::Plain | KindForm::Keyed => Needs::Ranges,
            KindForm::Template { .. } | KindForm::Layout { .. } => Needs::Texts,
        }
    }

    fn before(&self, _: &Call<'_>) -> Result<(), PluginRefusal> {
        match self.mode {
            Mode::Required => self.history.has_room(),
            Mode::BestEffort => Ok(()),
        }
    }

    fn after(&self, call: &Call<'_>, outgoing: &Outgoing<'_>) -> Result<(), PluginRefusal> {
        let mut lines = Vec::new();
        let mut writer = Writer::new(call, &mut lines, QUEUE_LEN_MAX);
        let written = if outgoing.texts().is_empty() {
            outgoing.ranges().iter().try_for_each(|range| writer.numbers(&range.first, &range.last, range.count.into()))
        } else {
            writer.texts(outgoing.texts())
        };
        let taken = match written {
            Ok(()) => self.history.push(&lines),
            Err(line::Full) => {
                Err(PluginRefusal::unavailable("history holds no answer as large as this; ask for fewer IDs"))
            }
        };
        match (taken, self.mode) {
            (Err(_), Mode::BestEffort) => {
                self.history.shared.dropped.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            (taken, _) => taken,
        }
    }
}
