//! The log: lines on stderr that nobody ever waits for.
//!
//! Whoever logs hands a line to a bounded queue and goes on; one thread writes. What finds no room in the queue, because
//! nobody reads the pipe, or cannot be written, because the reader is gone or the disk is full, is dropped and counted. A
//! subscriber that writes by itself would report such an error with `eprintln!`, which panics for the same reason; and the
//! queue of `tracing-appender` says at its end on *stdout* that the pipe is full.

use super::limit::Limit;
use super::strike;
use crate::settings::LogFormat;
use common::metrics::{Series, counter};
use std::io::{IsTerminal as _, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, reload};

/// The beginning of every filter, unless it says otherwise. tarpc opens a span for each request and writes the request's number
/// and deadline into it as text; nothing of ours is ever logged inside, and it costs about as much as the request itself.
const QUIET: &str = "tarpc=warn";
/// Lines that wait to be written; one more is dropped.
const QUEUE_MAX: usize = 1_024;
/// The longest line, in bytes; the rest of it is cut off.
const LINE_LEN_MAX: usize = 16 << 10;
/// Interval between two lines that say how many were left out.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// The longest time that the last lines may take: behind stderr may be a pipe that nobody reads.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(200);
/// Interval at which a flush checks whether all is written.
const FLUSH_POLL: Duration = Duration::from_millis(2);

static LOG: OnceLock<Log> = OnceLock::new();

struct Log {
    lines: Lines,
    limit: Limit,
    filter: reload::Handle<EnvFilter, Registry>,
}

/// Sends log lines to stderr: those of `level` (or a filter such as `info,master=debug`), coloured on a terminal. What tarpc
/// says below a warning is left out unless the filter names it. A panic becomes a log line too.
///
/// # Errors
/// A text for the operator, if there is no such level, or no thread to be had.
pub fn start(level: &str, format: LogFormat) -> Result<(), String> {
    let (filter, handle) = reload::Layer::new(filter(level)?);
    let limit = Limit::default();
    let lines = Lines::start(limit.clone())?;
    let log = tracing_subscriber::fmt::layer()
        .with_writer(lines.clone())
        .with_ansi(std::io::stderr().is_terminal())
        .log_internal_errors(false);
    let log = match format {
        LogFormat::Text => log.boxed(),
        LogFormat::Json => log.json().boxed(),
    };
    let registry = tracing_subscriber::registry().with(filter).with(limit.clone()).with(log);
    registry.try_init().map_err(|e| format!("the log cannot be started: {e}"))?;
    let _ = LOG.set(Log { lines, limit, filter: handle });
    // The hook of the standard library writes to stderr by itself, and waits there for as long as nobody reads.
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.to_string().replace('\n', " ");
        match std::backtrace::Backtrace::capture() {
            trace if trace.status() == std::backtrace::BacktraceStatus::Captured => tracing::error!("{text}\n{trace}"),
            _ => tracing::error!("{text}"),
        }
    }));
    Ok(())
}

/// Lets the running log follow another level or filter.
///
/// # Errors
/// A text for the operator, if there is no such level.
pub fn set_level(level: &str) -> Result<(), String> {
    let filter = filter(level)?;
    match LOG.get() {
        Some(log) => log.filter.reload(filter).map_err(|e| e.to_string()),
        None => Ok(()),
    }
}

fn filter(level: &str) -> Result<EnvFilter, String> {
    let filter = if level.contains("tarpc") { level.to_owned() } else { format!("{QUIET},{level}") };
    EnvFilter::try_new(filter).map_err(|e| format!("--log {level}: {e}"))
}

/// Lines that could not be written since the start.
pub fn dropped() -> u64 {
    LOG.get().map_or(0, |log| log.lines.counts.dropped.load(Ordering::Relaxed))
}

/// Lines left out since the start because there were too many of their kind.
pub fn left_out() -> u64 {
    LOG.get().map_or(0, |log| log.limit.total())
}

/// Series of both counts.
pub const SERIES: &[Series<()>] = &[
    counter("uniq_log_lines_dropped_total", "Log lines that could not be written.", |()| dropped()),
    counter("uniq_log_lines_left_out_total", LEFT_OUT, |()| left_out()),
];
const LEFT_OUT: &str = "Log lines left out because there were too many of their kind.";

/// Waits until the lines so far are written, if that can be in time.
pub fn flush() {
    let Some(log) = LOG.get() else { return };
    log.limit.report();
    let began = Instant::now();
    while log.lines.counts.waiting.load(Ordering::Acquire) > 0 && began.elapsed() < FLUSH_TIMEOUT {
        std::thread::sleep(FLUSH_POLL);
    }
}

#[derive(Default)]
struct Counts {
    waiting: AtomicU64,
    dropped: AtomicU64,
}

/// The way to the thread that writes.
#[derive(Clone)]
struct Lines {
    queue: SyncSender<Vec<u8>>,
    counts: Arc<Counts>,
}

impl Lines {
    fn start(limit: Limit) -> Result<Self, String> {
        let (queue, lines) = sync_channel(QUEUE_MAX);
        let counts = Arc::new(Counts::default());
        let written = Arc::clone(&counts);
        let writer = std::thread::Builder::new().name("log".to_owned());
        writer
            .spawn(move || write_all(&lines, &written, &limit, &mut std::io::stderr()))
            .map_err(|e| format!("the log's thread cannot be started: {e}"))?;
        Ok(Self { queue, counts })
    }
}

fn write_all(lines: &Receiver<Vec<u8>>, counts: &Counts, limit: &Limit, out: &mut impl Write) {
    let mut reported = Instant::now();
    while !strike::here("log") {
        match lines.recv_timeout(REPORT_INTERVAL.saturating_sub(reported.elapsed())) {
            Ok(line) => {
                if out.write_all(&line).is_err() {
                    counts.dropped.fetch_add(1, Ordering::Relaxed);
                }
                counts.waiting.fetch_sub(1, Ordering::Release);
            }
            Err(RecvTimeoutError::Timeout) => {
                limit.report();
                reported = Instant::now();
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = &'a Self;
    fn make_writer(&'a self) -> &'a Self {
        self
    }
}

impl Write for &Lines {
    /// One line, whole: the subscriber hands over each with one call. Never fails.
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let mut kept = line.to_vec();
        if kept.len() > LINE_LEN_MAX {
            kept.truncate(LINE_LEN_MAX);
            kept.push(b'\n');
        }
        self.counts.waiting.fetch_add(1, Ordering::Relaxed);
        if self.queue.try_send(kept).is_err() {
            self.counts.waiting.fetch_sub(1, Ordering::Release);
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full disk.
    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_cannot_be_written_or_finds_no_place_is_counted_and_is_no_error() {
        let (queue, lines) = sync_channel(QUEUE_MAX);
        let counts = Arc::new(Counts::default());
        let log = Lines { queue, counts: Arc::clone(&counts) };
        // Nobody writes yet, as if nobody read the pipe.
        for _ in 0..QUEUE_MAX + 7 {
            (&log).write_all(b"a line\n").unwrap();
        }
        assert_eq!(counts.dropped.load(Ordering::Relaxed), 7);
        (&log).write_all(&[b'x'; 2 * LINE_LEN_MAX]).unwrap();
        drop(log);
        write_all(&lines, &counts, &Limit::default(), &mut Full);
        assert_eq!(counts.dropped.load(Ordering::Relaxed), 8 + QUEUE_MAX as u64);
        assert_eq!(counts.waiting.load(Ordering::Relaxed), 0);
    }
}
