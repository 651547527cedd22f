//! The state of writing to the disk.

use crate::refusal::Refusal;
use arc_swap::ArcSwapOption;
use serial_file::WriteError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counts of what was written, and the reason why something cannot be.
#[derive(Debug, Default)]
pub struct Disk {
    /// True if the last write of the serial file failed.
    has_failed: AtomicBool,
    bounds_unwritten: ArcSwapOption<String>,
    writes: AtomicU64,
    write_failures: AtomicU64,
}

impl Disk {
    /// Notes what came of a write of the serial file.
    pub(super) fn written(&self, done: Result<(), WriteError>) -> Result<(), WriteError> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let failed = self.has_failed.swap(done.is_err(), Ordering::Relaxed);
        match &done {
            Ok(()) if failed => tracing::info!("the serial file can be written again"),
            Err(WriteError::Io(e)) => {
                tracing::error!(error = %e, "the serial file cannot be written; what was reserved is still minted");
                self.write_failures.fetch_add(1, Ordering::Relaxed);
            }
            Ok(()) | Err(WriteError::Lost(_)) => {}
        }
        done
    }

    /// The reason why nothing is ready, if that is because the last write of the serial file failed.
    pub(super) fn failed(&self) -> Option<Refusal> {
        let why = || Refusal::SerialFileIo("its last write failed; the log says why".to_owned());
        self.has_failed.load(Ordering::Relaxed).then(why)
    }

    /// Writes of the serial file and its lineage, failed ones included.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Writes that failed.
    pub fn write_failures(&self) -> u64 {
        self.write_failures.load(Ordering::Relaxed)
    }

    /// Notes whether bounds of sections can be written down; `Some`: why not.
    pub(crate) fn note_bounds(&self, unwritten: Option<String>) {
        self.bounds_unwritten.store(unwritten.map(Arc::new));
    }

    /// The reason why nothing is given, if that is because bounds of sections cannot be written down.
    pub(super) fn bounds_unwritten(&self) -> Option<Refusal> {
        Some(Refusal::BoundsUnwritten(self.bounds_unwritten.load().as_deref()?.clone()))
    }
}
