//! Every state that a serial file, its lineage and the processes that use them can come into, within bounds.
//!
//! What is walked is the product itself: its start, its writes, its `--format` on a disk in memory, its serials. A process
//! may be stopped between any two calls of the disk, and anything may happen there.
//!
//! # What can happen
//!
//! A process starts, mints, reserves serials, goes on to the next day, writes what it holds, stops cleanly, and is killed
//! at any step. A second one does the same at the same file, or at a copy. The power goes, and of the names not yet
//! flushed any part is there afterwards, and of the files not yet flushed all, half or nothing. A call of the disk does
//! nothing and fails, or is done and reported as failed; what a failed fsync left is never durable. An operator keeps a
//! copy of either file, puts it back in place or as a new file, touches, moves away and back, links, removes, formats
//! anew, copies both files elsewhere, clones the disk for another machine, mounts a snapshot of it under the device number
//! of the original.
//!
//! # What the disk is like
//!
//! As unkind as a real one may be. A free inode number is used again at once, and a copy has the same device and numbers
//! as the original. The file system's clock stands still except where a file must be born later than another, and before
//! each thing an operator does: what a process does in between has one ctime. That clock is never set back.
//!
//! # What was left out, and why that hides nothing
//!
//! * *More blocks, other kinds, Uniq96*: each is one more number in the same bytes, raised by the same write.
//! * *Leases and masters*: a session is what tokens are bound to; that two sessions share none is the other model's.
//! * *Reading the boot id and the kind of file system* are not steps: they do not change while a process lives.
//! * *Names of files half made* after a power cut: whoever makes one removes what is there, which a kill shows.

mod files;
mod folder;
mod heal;
mod operator;
mod process;
mod run;
mod world;

pub use files::{Action, DISJOINT, Files, GOES_ON, ROOM};
pub use operator::{Deed, Trouble};
pub use world::World;

/// The bounds of a model.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Processes at once, 1 or 2.
    pub processes: usize,
    /// Starts and formats of all processes, at most 7.
    pub starts: u8,
    /// Writes of all processes, that of a fresh start not counted.
    pub writes: u8,
    /// Things that go wrong, or that an operator does.
    pub troubles: u8,
    /// The kinds of those.
    pub trouble: &'static [Trouble],
    /// True if a start may be told `--after-reboot resume`.
    pub resume: bool,
    /// Days, at most 2.
    pub days: u32,
    /// True if serials restart with each day.
    pub everyday_reset: bool,
    /// No mark goes beyond this, at most 8.
    pub serials: u64,
    /// Renewals that a process writes down.
    pub renewals: u64,
    /// The time by which the clock goes on before each thing an operator does.
    pub operator_pause: u16,
    /// In one state out of this many it is tried whether a process can start and mint; 0: in none.
    pub heal_every: u64,
    /// Mechanisms that are taken away.
    pub twins: Vec<Twin>,
}

impl Bounds {
    fn has(&self, twin: Twin) -> bool {
        self.twins.contains(&twin)
    }
}

/// A mechanism that is taken away: a model that could not find the duplicate there would prove nothing where it finds none. The
/// product's code stays as it is; the disk lies to it, or what it says is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Twin {
    /// The fsync of a folder does nothing.
    NamesNotFlushed,
    /// The fsync of a file does nothing.
    FilesNotFlushed,
    /// Serials that a write allows are minted before the write is through.
    MintsBeforeDurable,
    /// A write that failed is taken for one that did not.
    FailedWriteCounts,
    /// After a clean stop has handed serials back, they are minted.
    MintsAfterStop,
    /// Any lineage fits any file.
    AnyLineage,
    /// A file's ctime does not tell.
    NoCtime,
    /// Nor does when it was made.
    NoBirth,
    /// Nor does the boot id.
    NoBootId,
    /// Nor does the file system's own number.
    NoFileSystemId,
    /// Anyone gets the lock.
    NoLock,
}
