//! Counts of RPC connections that were ended, by reason.

use crate::listener;
use common::metrics::{Series, counter, counters};
use std::sync::atomic::{AtomicU64, Ordering};

/// The reason why a connection was ended although its other end had not closed it.
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

    /// Counts the connections that ended so since the start.
    pub fn total(self) -> u64 {
        self.count().load(Ordering::Relaxed)
    }
}

/// The counts, and the connections that were never taken in.
pub const SERIES: &[Series<()>] = &[
    counters("uniq_rpc_connections_ended_total", "RPC connections that were ended, by reason.", &["why"], |(), out| {
        Ended::ALL.iter().for_each(|why| out.of([&why.as_str()], why.total()));
    }),
    counter("uniq_accept_failures_total", "Connections that could not be accepted.", |()| listener::accepts_failed()),
];
