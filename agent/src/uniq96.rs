//! The right to mint Uniq96 now: milliseconds up to a bound that is durable, serials within each.
//!
//! The counter is one number, `(millisecond - base) << 32 | serial`, moved by compare-and-swap: it follows the clock
//! and never goes back. A millisecond whose serials are used up makes way for the next one.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::gate::UNIQ96_AHEAD_MAX;
use common::calendar::UtcOffset;
use common::lease::Grant;
use common::time::{SpanMs, WallMs};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SERIAL_BITS: u32 = 32;
const CLOSED: u64 = u64::MAX;
/// The longest stretch of milliseconds that one window counts, so that the counter cannot overflow.
const STRETCH_MAX: SpanMs = SpanMs(1 << 31);

/// A place on the axis of Uniq96: the next ID will carry this or a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The millisecond.
    pub ms: WallMs,
    /// The serial in it.
    pub serial: u32,
}

/// The milliseconds before a bound, with the lease they belong to.
#[derive(Debug)]
pub struct Window96 {
    /// The lease.
    pub lease: Option<Grant>,
    /// The offset in which the calendar fields are counted.
    pub offset: UtcOffset,
    base: WallMs,
    counter: AtomicU64,
    /// The first millisecond that may not be used: the durable mark, or the end of the lease.
    bound: WallMs,
    /// From this millisecond on it is time to move the mark.
    ask_from: WallMs,
    asked: AtomicBool,
}

/// What came of an attempt to take serials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take96 {
    /// All of them, in one millisecond from this serial on.
    All {
        /// Where they begin.
        place: Place,
        /// This was the first attempt in the second half of the window: time to move the mark.
        half_used: bool,
    },
    /// None: the bound is reached, or the clock is too far behind.
    None,
    /// None: it was closed. There may be a new one already.
    Closed,
}

impl Window96 {
    /// A window from `place` on to `bound`.
    pub fn open(lease: Grant, offset: UtcOffset, place: Place, bound: WallMs) -> Self {
        let bound = bound.min(place.ms + STRETCH_MAX);
        let half = SpanMs((bound - place.ms).0 / 2);
        Self {
            lease: Some(lease),
            offset,
            base: place.ms,
            counter: AtomicU64::new(u64::from(place.serial)),
            bound,
            ask_from: place.ms + half,
            asked: AtomicBool::new(false),
        }
    }

    /// A window in which there is nothing.
    pub fn closed() -> Self {
        Self {
            lease: None,
            offset: UtcOffset::default(),
            base: WallMs(0),
            counter: AtomicU64::new(CLOSED),
            bound: WallMs(i64::MIN),
            ask_from: WallMs(i64::MIN),
            asked: AtomicBool::new(true),
        }
    }

    /// Takes `n` serials of one millisecond: the clock's, or the last one used if that is later.
    #[inline]
    pub fn take(&self, n: u32, wall: WallMs) -> Take96 {
        let mut seen = self.counter.load(Ordering::Relaxed);
        loop {
            if seen == CLOSED {
                return Take96::Closed;
            }
            let Some(place) = self.next_place(seen, n, wall) else { return Take96::None };
            // A last serial of u32::MAX carries into the next millisecond with serial 0, which is right.
            let after = self.pack(place) + u64::from(n);
            match self.counter.compare_exchange_weak(seen, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    let half_used = place.ms >= self.ask_from && !self.asked.swap(true, Ordering::Relaxed);
                    return Take96::All { place, half_used };
                }
                Err(now) => seen = now,
            }
        }
    }

    fn next_place(&self, counter: u64, n: u32, wall: WallMs) -> Option<Place> {
        let last = self.unpack(counter);
        let place = if wall > last.ms {
            Place { ms: wall, serial: 0 }
        } else if u64::from(last.serial) + u64::from(n) > 1 << SERIAL_BITS {
            Place { ms: last.ms + SpanMs(1), serial: 0 }
        } else {
            last
        };
        (place.ms < self.bound && place.ms - wall <= UNIQ96_AHEAD_MAX).then_some(place)
    }

    fn pack(&self, place: Place) -> u64 {
        let ms = u64::try_from((place.ms - self.base).0).unwrap_or(0);
        (ms << SERIAL_BITS) | u64::from(place.serial)
    }

    fn unpack(&self, counter: u64) -> Place {
        let ms = i64::try_from(counter >> SERIAL_BITS).unwrap_or(0);
        Place { ms: self.base + SpanMs(ms), serial: (counter & u64::from(u32::MAX)) as u32 }
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.counter.load(Ordering::Relaxed) == CLOSED
    }

    /// Ends it and gives back the place that it had come to; `None` if it was closed before.
    pub fn close(&self) -> Option<Place> {
        let counter = self.counter.swap(CLOSED, Ordering::AcqRel);
        (counter != CLOSED).then(|| self.unpack(counter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::lease::Generation;
    use common::token::{TokenType, TokenValue};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn window(ms: i64, serial: u32, bound: i64) -> Window96 {
        let lease = Grant {
            token_type: TokenType::Uint2,
            key: TokenType::Uint2.key(TokenValue(1)),
            g: Generation(1),
            from: WallMs(0),
            until: WallMs(i64::MAX),
            receipt: None,
        };
        Window96::open(lease, UtcOffset::default(), Place { ms: WallMs(ms), serial }, WallMs(bound))
    }

    fn taken(w: &Window96, n: u32, wall: i64) -> Option<(i64, u32)> {
        match w.take(n, WallMs(wall)) {
            Take96::All { place, .. } => Some((place.ms.0, place.serial)),
            _ => None,
        }
    }

    #[test]
    fn it_follows_the_clock_and_never_goes_back() {
        let w = window(1_000, 5, 2_000);
        assert_eq!(taken(&w, 2, 900), Some((1_000, 5)));
        assert_eq!(taken(&w, 1, 1_000), Some((1_000, 7)));
        assert_eq!(taken(&w, 3, 1_001), Some((1_001, 0)));
        assert_eq!(taken(&w, 1, 1_000), Some((1_001, 3)), "the clock went back");
        assert_eq!(taken(&w, 1, 2_000), None, "the bound");
        assert!(!w.is_closed());
        assert_eq!(w.close(), Some(Place { ms: WallMs(1_001), serial: 4 }));
        assert_eq!((w.take(1, WallMs(1_002)), w.close()), (Take96::Closed, None));
        assert!(w.is_closed());
    }

    #[test]
    fn a_full_millisecond_makes_way_for_the_next() {
        let w = window(1_000, u32::MAX - 1, 2_000);
        assert_eq!(taken(&w, 1, 1_000), Some((1_000, u32::MAX - 1)));
        assert_eq!(taken(&w, 1, 1_000), Some((1_000, u32::MAX)), "the last serial is used");
        assert_eq!(taken(&w, 1, 1_000), Some((1_001, 0)));
        let w = window(1_000, u32::MAX - 1, 2_000);
        assert_eq!(taken(&w, 3, 1_000), Some((1_001, 0)), "a batch has one millisecond");
        let w = window(1_999, u32::MAX, 2_000);
        assert_eq!(taken(&w, 2, 1_000), None, "not even the next one may pass the bound");
    }

    #[test]
    fn a_clock_too_far_behind_is_refused() {
        let w = window(10_000_000, 0, 20_000_000);
        assert_eq!(taken(&w, 1, 10_000_000 - 600_000), Some((10_000_000, 0)));
        assert_eq!(taken(&w, 1, 10_000_000 - 600_001), None);
    }

    #[test]
    fn the_second_half_is_noticed_once() {
        let w = window(0, 0, 1_000);
        let noticed = |wall| matches!(w.take(1, WallMs(wall)), Take96::All { half_used: true, .. });
        assert_eq!([noticed(499), noticed(500), noticed(501)], [false, true, false]);
    }

    proptest! {
        #[test]
        fn whatever_the_clock_does_no_id_comes_twice(
            steps in proptest::collection::vec((-2_000i64..2_000, 1u32..1_000_000_000, any::<bool>()), 1..200)
        ) {
            let mut w = window(0, 0, 100_000);
            let (mut last, mut wall) = (None, 0i64);
            for (step, n, reopen) in steps {
                wall += step;
                if let Take96::All { place, .. } = w.take(n, WallMs(wall)) {
                    prop_assert!(last < Some((place.ms, u64::from(place.serial))), "{last:?} then {place:?}");
                    let end = u64::from(place.serial) + u64::from(n) - 1;
                    prop_assert!(end <= u64::from(u32::MAX) && place.ms < WallMs(100_000));
                    last = Some((place.ms, end));
                }
                if reopen {
                    let place = w.close().unwrap();
                    w = window(place.ms.0, place.serial, 100_000);
                }
            }
        }
    }

    #[test]
    fn threads_never_share_an_id() {
        let w = window(0, 0, 1_000_000);
        let mint = &|thread: i64| {
            let take = |i: i64| taken(&w, 3, (i * (thread + 1)) % 500).unwrap();
            (0..10_000).map(take).flat_map(|(ms, s)| [(ms, s), (ms, s + 1), (ms, s + 2)]).collect::<Vec<_>>()
        };
        let given: Vec<_> = std::thread::scope(|scope| {
            let threads = [0, 1, 2, 3].map(|thread| scope.spawn(move || mint(thread)));
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let (set, count) = (given.iter().collect::<BTreeSet<_>>(), given.len());
        assert_eq!((set.len(), count), (120_000, 120_000));
    }
}
