//! The right to mint now: a range of serials that is durable and gated already, used without locks.
//!
//! Whoever opens a window has passed all gates for `[next, end)` and for every instant before `valid_until`. Taking `n`
//! serials is one atomic addition and two comparisons. Closing takes back exactly what nobody has taken; a thread that
//! was paused inside [`Window::take`] and adds after that gets nothing.

use crate::sync::{AtomicU64, Ordering};
use crossbeam_utils::CachePadded;
use ids::time::WallMs;
use std::ops::Range;
use std::sync::Arc;

/// The value of `next` in a closed window: above every serial, and as far below the overflow. Late additions start
/// here. [`Window::take`] looks before it adds, so no more of its come than there are threads; [`Window::take_one`] adds 1
/// each time, which would come to an end after some centuries.
const CLOSED: u64 = 1 << 63;

/// A range of serials with the prefix that they go with.
#[derive(Debug)]
pub struct Window<S> {
    /// The part that all its IDs share: time and token.
    pub prefix: S,
    /// The bucket that the prefix carries.
    pub bucket: u32,
    /// On a cache line of its own: an addition takes the line away from all other threads, and they read the rest of this for
    /// each serial.
    pub next: CachePadded<AtomicU64>,
    start: u64,
    end: u64,
    half: u64,
    /// The serial at which to say that the half is used, if that comes before it.
    tell: u64,
    /// The serial from which on callers have shares of what is left, and the end of the bucket's serials.
    shared: Range<u64>,
    /// Tells whether it reaches beyond the first of these.
    is_shared: bool,
    valid_until: WallMs,
}

/// The outcome of an attempt to take serials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Take {
    /// All of them: those from `start` on.
    All {
        /// The first.
        start: u64,
        /// This was the attempt that used up half of the window: time to reserve more.
        half_used: bool,
    },
    /// The last ones of this window, fewer than asked for.
    Some(Range<u64>),
    /// None: used up, or its time is over.
    None,
    /// None: it was closed. There may be a new one already.
    Closed,
}

/// A serial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct One {
    pub serial: u64,
    /// True if it used up half of the window: time to reserve more.
    pub half_used: bool,
}

/// A count of the windows of a series, or of an axis, that were ended: blocks that threads have cut from one end with it.
#[derive(Clone, Debug)]
pub struct Ends(Arc<CachePadded<AtomicU64>>);

impl Default for Ends {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(0).into()))
    }
}

impl Ends {
    /// The count to be remembered with a block, asked for before the block is cut.
    pub fn so_far(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Tells whether no window was ended since that count.
    #[inline]
    pub fn are_still(&self, so_far: u64) -> bool {
        self.0.load(Ordering::Relaxed) == so_far
    }

    /// Ends the blocks of a window that is closed. Not before: whoever saw the new count and still found the window open would have a
    /// block that outlives it.
    pub fn end(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

impl<S> Window<S> {
    /// A window over `serials`, good for instants before `valid_until`. Serials must lie below 2^62.
    pub fn open(prefix: S, bucket: u32, serials: Range<u64>, valid_until: WallMs) -> Self {
        let start = serials.start.min(CLOSED >> 1);
        let end = serials.end.clamp(start, CLOSED >> 1);
        let half = start + (end - start) / 2;
        Self {
            prefix,
            bucket,
            next: AtomicU64::new(start).into(),
            start,
            end,
            half,
            tell: u64::MAX,
            shared: u64::MAX..u64::MAX,
            is_shared: false,
            valid_until,
        }
    }

    /// Of a bucket whose serials of that range are given to callers in shares.
    #[must_use]
    pub fn shared(self, shared: Range<u64>) -> Self {
        let is_shared = self.end > shared.start;
        Self { shared, is_shared, ..self }
    }

    /// Says that its half is used already when all below this serial are.
    #[must_use]
    pub fn told_at(self, tell: u64) -> Self {
        let half = if tell > self.start { self.half.min(tell) } else { self.half };
        Self { half, tell, ..self }
    }

    /// A window in which there is nothing.
    pub fn closed(prefix: S) -> Self {
        Self {
            prefix,
            bucket: 0,
            next: AtomicU64::new(CLOSED).into(),
            start: 0,
            end: 0,
            half: 0,
            tell: u64::MAX,
            shared: u64::MAX..u64::MAX,
            is_shared: false,
            valid_until: WallMs(i64::MIN),
        }
    }

    /// The same window over other serials.
    pub fn with_serials(&self, serials: Range<u64>) -> Self
    where
        S: Clone,
    {
        let longer = Self::open(self.prefix.clone(), self.bucket, serials, self.valid_until);
        longer.told_at(self.tell).shared(self.shared.clone())
    }

    /// Takes `n` serials if `wall` is still in time. The caller owns what it gets for good, even if the window is
    /// closed right after.
    #[inline]
    pub fn take(&self, n: u32, wall: WallMs) -> Take {
        if wall >= self.valid_until {
            return if self.is_closed() { Take::Closed } else { Take::None };
        }
        let seen = self.next.load(Ordering::Relaxed);
        if seen >= self.end {
            return if seen >= CLOSED { Take::Closed } else { Take::None };
        }
        // Uniqueness needs nothing but that additions to one number happen one after the other.
        let start = self.next.fetch_add(u64::from(n), Ordering::Relaxed);
        let end = start + u64::from(n);
        if end <= self.end {
            Take::All { start, half_used: start < self.half && end >= self.half }
        } else if start < self.end {
            Take::Some(start..self.end)
        } else if start >= CLOSED {
            Take::Closed
        } else {
            Take::None
        }
    }

    /// [`take`](Self::take) of one serial, for those to whom it makes no difference why there is none.
    #[inline]
    pub fn take_one(&self, wall: WallMs) -> Option<One> {
        if wall >= self.valid_until {
            return None;
        }
        // Without a look before: it would fetch the cache line from another thread twice.
        let serial = self.next.fetch_add(1, Ordering::Relaxed);
        // `half` is the end of the first half: the one before it uses that up.
        (serial < self.end).then_some(One { serial, half_used: serial + 1 == self.half })
    }

    /// Ends it and gives back what nobody has taken; empty if there is nothing or it was closed before.
    pub fn close(&self) -> Range<u64> {
        let next = self.next.swap(CLOSED, Ordering::AcqRel);
        if next < self.end { next..self.end } else { self.end..self.end }
    }

    /// The first instant at which it gives nothing any more.
    pub fn valid_until(&self) -> WallMs {
        self.valid_until
    }

    /// Tells whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= CLOSED
    }

    /// The number of serials that there were in it.
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Tells whether there never was one.
    pub fn is_empty(&self) -> bool {
        self.end == self.start
    }

    /// The number of serials that were taken so far; 0 once it is closed: whoever closes it knows then.
    pub fn taken(&self) -> u64 {
        let next = self.next.load(Ordering::Acquire);
        if next >= CLOSED { 0 } else { next.min(self.end) - self.start }
    }

    /// Tells whether callers have shares of what is left of its bucket.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// The serials that are left in it and beyond it in its bucket, if callers have shares of them and it gives any: a closed window says
    /// nothing of what is left.
    pub fn left_to_share(&self) -> Option<u64> {
        let next = self.next.load(Ordering::Relaxed);
        (self.is_shared && next < self.end).then(|| self.shared.end.saturating_sub(next))
    }

    /// The number of serials that are left in it.
    pub fn left(&self) -> u64 {
        self.end.saturating_sub(self.next.load(Ordering::Relaxed))
    }
}
