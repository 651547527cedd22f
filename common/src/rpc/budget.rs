//! What all connections of a listener may make a program keep, in bytes, and why connections were ended.
//!
//! Requests and answers of the usual size are not counted: their number is bounded, and so is their size. Whatever is larger
//! comes out of one budget: frames as they grow, requests until they are answered, answers until they are sent. Nothing waits
//! for the budget without a bound: a frame has a time limit, a call its deadline, and an answer that nobody reads ends its
//! connection. So whoever holds a part of it gives it back.

use crate::net::listener;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that connections share. Clones share them too.
#[derive(Clone, Debug)]
pub struct Budget {
    left: Arc<Semaphore>,
    bytes_max: u32,
}

/// A part of a budget; dropped, it goes back.
pub type Charge = OwnedSemaphorePermit;

impl Budget {
    /// So many bytes.
    pub fn new(bytes_max: u32) -> Self {
        Self { left: Arc::new(Semaphore::new(bytes_max as usize)), bytes_max }
    }

    /// Bytes that nobody holds.
    pub fn left(&self) -> usize {
        self.left.available_permits()
    }

    /// Waits for so many bytes, or for all there are if there are fewer.
    pub async fn take(&self, bytes: usize) -> Option<Charge> {
        // Nobody closes it.
        Arc::clone(&self.left).acquire_many_owned(self.within(bytes)).await.ok()
    }

    pub(super) fn within(&self, bytes: usize) -> u32 {
        u32::try_from(bytes).unwrap_or(u32::MAX).min(self.bytes_max)
    }

    pub(super) fn semaphore(&self) -> Arc<Semaphore> {
        Arc::clone(&self.left)
    }
}

/// Why a connection was ended although its other end had not closed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A frame longer than the port takes.
    FrameTooLong,
    /// A frame that began and was not whole in time.
    FrameLate,
    /// A frame for which the budget had no room in time.
    NoRoom,
    /// Answers that were not read in time.
    Unread,
}

impl Ended {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::FrameTooLong, Self::FrameLate, Self::NoRoom, Self::Unread];

    /// Its name in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FrameTooLong => "frame_too_long",
            Self::FrameLate => "frame_late",
            Self::NoRoom => "no_room",
            Self::Unread => "unread",
        }
    }

    fn count(self) -> &'static AtomicU64 {
        static COUNTS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
        let [too_long, late, no_room, unread] = &COUNTS;
        match self {
            Self::FrameTooLong => too_long,
            Self::FrameLate => late,
            Self::NoRoom => no_room,
            Self::Unread => unread,
        }
    }

    pub(super) fn note(self) {
        self.count().fetch_add(1, Ordering::Relaxed);
    }

    /// How many connections ended so since the start.
    pub fn total(self) -> u64 {
        self.count().load(Ordering::Relaxed)
    }
}

/// The counts, as a program's `/metrics` shows them.
pub fn metrics() -> String {
    let name = "uniq_rpc_connections_ended_total";
    let mut text = format!("# HELP {name} RPC connections that were ended, by reason.\n# TYPE {name} counter\n");
    for why in Ended::ALL {
        let _ = writeln!(text, "{name}{{why=\"{}\"}} {}", why.as_str(), why.total());
    }
    text + &listener::metrics()
}
