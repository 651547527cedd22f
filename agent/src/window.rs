//! The right to mint now: a range of serials that is durable and gated already, used without locks.
//!
//! Whoever opens a window has passed all gates for `[next, end)` and for every instant before `valid_until`. Taking `n`
//! serials is one atomic addition and two comparisons. Closing takes back exactly what nobody has taken; a thread that
//! was paused inside [`Window::take`] and adds after that gets nothing.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use common::time::WallMs;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where `next` stands in a closed window: above every serial, and as far below the overflow. Late additions start
/// here; [`Window::take`] looks before it adds, so no more of them come than there are threads.
const CLOSED: u64 = 1 << 63;

/// A range of serials with the stamp that they go with.
#[derive(Debug)]
pub struct Window<S> {
    /// What all its IDs have in common: time and token.
    pub stamp: S,
    /// The bucket that the stamp carries.
    pub bucket: u32,
    next: AtomicU64,
    end: u64,
    half: u64,
    valid_until: WallMs,
}

/// What came of an attempt to take serials.
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

impl<S> Window<S> {
    /// A window over `serials`, good for instants before `valid_until`. Serials must lie below 2^62.
    pub fn open(stamp: S, bucket: u32, serials: Range<u64>, valid_until: WallMs) -> Self {
        let start = serials.start.min(CLOSED >> 1);
        let end = serials.end.clamp(start, CLOSED >> 1);
        let half = start + (end - start) / 2;
        Self { stamp, bucket, next: AtomicU64::new(start), end, half, valid_until }
    }

    /// A window in which there is nothing.
    pub fn closed(stamp: S) -> Self {
        Self { stamp, bucket: 0, next: AtomicU64::new(CLOSED), end: 0, half: 0, valid_until: WallMs(i64::MIN) }
    }

    /// The same window over other serials.
    pub fn with_serials(&self, serials: Range<u64>) -> Self
    where
        S: Clone,
    {
        Self::open(self.stamp.clone(), self.bucket, serials, self.valid_until)
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

    /// Ends it and gives back what nobody has taken; empty if there is nothing or it was closed before.
    pub fn close(&self) -> Range<u64> {
        let next = self.next.swap(CLOSED, Ordering::AcqRel);
        if next < self.end { next..self.end } else { self.end..self.end }
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= CLOSED
    }

    /// How many serials are left in it.
    pub fn left(&self) -> u64 {
        self.end.saturating_sub(self.next.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const IN_TIME: WallMs = WallMs(0);

    fn window(serials: Range<u64>) -> Window<()> {
        Window::open((), 1, serials, WallMs(1_000))
    }

    #[test]
    fn a_window_gives_each_serial_once_and_then_nothing() {
        let w = window(10..20);
        assert_eq!(w.take(4, IN_TIME), Take::All { start: 10, half_used: false });
        assert_eq!(w.take(1, IN_TIME), Take::All { start: 14, half_used: true });
        assert_eq!(w.take(8, IN_TIME), Take::Some(15..20), "the one that straddles the end owns up to it");
        assert_eq!(w.take(1, IN_TIME), Take::None);
        assert_eq!(w.close(), 20..20, "what the last one took beyond the end is not given back");
    }

    #[test]
    fn its_time_ends_it() {
        let w = window(0..10);
        assert_eq!(w.take(1, WallMs(1_000)), Take::None);
        assert_eq!(w.take(1, WallMs(999)), Take::All { start: 0, half_used: false });
    }

    #[test]
    fn a_closed_window_gives_back_the_rest_exactly_and_nothing_to_anyone() {
        let w = window(10..20);
        assert_eq!(w.take(3, IN_TIME), Take::All { start: 10, half_used: false });
        assert_eq!(w.close(), 13..20);
        assert_eq!(w.take(1, IN_TIME), Take::Closed);
        assert!(w.close().is_empty(), "the rest is given back once");
        assert_eq!((w.left(), w.is_closed()), (0, true));
    }

    #[test]
    fn late_and_huge_additions_do_not_overflow() {
        let w = window(0..1);
        w.close();
        for _ in 0..1_000 {
            // As a thread does that had looked before the window was closed.
            w.next.fetch_add(u64::from(u32::MAX), Ordering::Relaxed);
            assert_eq!(w.take(u32::MAX, IN_TIME), Take::Closed);
        }
        let far = Window::open((), 1, u64::MAX - 5..u64::MAX, WallMs(1_000));
        assert_eq!(far.take(3, IN_TIME), Take::None, "serials that no layout has are not given");
    }

    #[test]
    fn half_is_noticed_once_however_it_is_crossed() {
        for n in 1..=10 {
            let w = window(0..100);
            let noticed = (0..100 / n).filter(|_| matches!(w.take(n, IN_TIME), Take::All { half_used: true, .. }));
            assert_eq!(noticed.count(), 1, "in steps of {n}");
        }
    }

    /// Threads mint from whatever window is there while one closes it and opens the rest again, over and over.
    #[test]
    fn threads_never_share_a_serial_and_none_is_lost() {
        const SERIALS: u64 = 200_000;
        let current = arc_swap::ArcSwap::from_pointee(window(0..SERIALS));
        let mint = &|n: u32| {
            let mut mine = Vec::new();
            loop {
                match current.load().take(n, IN_TIME) {
                    Take::All { start, .. } => mine.extend(start..start + u64::from(n)),
                    Take::Some(rest) => mine.extend(rest),
                    Take::None => return mine,
                    Take::Closed => std::thread::yield_now(),
                }
            }
        };
        let given: Vec<u64> = std::thread::scope(|scope| {
            let threads = [1, 2, 7, 64].map(|n| scope.spawn(move || mint(n)));
            loop {
                let rest = current.load().close();
                let done = rest.is_empty();
                current.store(std::sync::Arc::new(window(rest)));
                if done {
                    break;
                }
                std::thread::yield_now();
            }
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let (set, count) = (given.iter().collect::<BTreeSet<_>>(), given.len() as u64);
        assert_eq!((set.len() as u64, count), (SERIALS, SERIALS));
    }
}
