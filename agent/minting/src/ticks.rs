//! The right to mint IDs of a tick now: ticks up to a bound that is durable, serials within each.
//!
//! The counter is one number, `ticks since the base << bits of the serial | serial`, moved by compare-and-swap: it follows the
//! clock and never goes back. A tick whose serials are used up makes way for the next one.

use crossbeam_utils::CachePadded;
use ids::layout::{LayoutDefinition, Numbers, RandomBits, Spread, Ticks};
use ids::time::{SpanMs, WallMs};
use ids::token::TokenValue;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const CLOSED: u64 = u64::MAX;
/// The most ticks that one window counts, so that the counter cannot overflow.
const TICKS_MAX: u64 = 1 << 31;

/// The parts of a window's numbers beside time and serial.
#[derive(Clone, Debug)]
pub struct Made {
    /// The layout, and how far names with it may go.
    pub definition: Arc<LayoutDefinition>,
    /// The token; it fits.
    pub token: TokenValue,
    /// For random bits.
    pub random: Arc<RandomBits>,
}

impl Made {
    fn numbers(&self, tick: u64) -> Option<Numbers> {
        self.definition.layout().numbers(tick, self.token, &self.random)
    }
}

/// A place on an axis of ticks: the next ID will carry this or a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TickPosition {
    /// The instant at which the tick begins.
    pub ms: WallMs,
    /// The serial in it.
    pub serial: u32,
}

/// The places where IDs may lie on an axis by one of the names that share it.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    /// The furthest ahead of the clock.
    pub ahead_max: SpanMs,
    /// Places where a tick that nothing was taken of yet begins.
    pub spread: Spread,
}

impl From<SpanMs> for Reach {
    fn from(ahead_max: SpanMs) -> Self {
        Self { ahead_max, spread: Spread::default() }
    }
}

impl From<&LayoutDefinition> for Reach {
    fn from(definition: &LayoutDefinition) -> Self {
        Self { ahead_max: definition.ahead_max(), spread: definition.spread() }
    }
}

/// The ticks before a bound, under one lease.
#[derive(Debug)]
pub struct TickWindow {
    ticks: Ticks,
    /// The other parts of the numbers; `None` if there is nothing in it.
    made: Option<Made>,
    /// The beginning of the tick that ticks are counted from, and its number in the layout.
    base: WallMs,
    first_tick: u64,
    /// The numbers of the first tick, and unless by a calendar of all that follow. At hand, because after a locked instruction each load that
    /// depends on another one is waited for.
    line: Option<Numbers>,
    /// On a cache line of its own: whoever moves it takes the line away from all other threads, and they read the rest of this for
    /// each ID.
    counter: CachePadded<AtomicU64>,
    /// The number of ticks from the base on that may be used: those that begin before the durable mark and the end of the lease.
    bound: u64,
    /// From the tick on that begins then it is time to move the mark.
    ask_from: WallMs,
    asked: AtomicBool,
}

/// The outcome of an attempt to take serials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeTicks {
    /// All of them, from this counter on.
    All {
        /// The counter of the first one.
        start: u64,
        /// This was the first attempt in the second half of the window: time to move the mark.
        half_used: bool,
    },
    /// None: the bound is reached, or the clock is too far behind.
    None,
    /// None: it was closed. There may be a new one already.
    Closed,
}

impl TickWindow {
    /// A window from `place`, where a tick begins, on to `bound`.
    pub fn open(made: Made, ticks: Ticks, place: TickPosition, bound: WallMs) -> Self {
        let bound = bound.min(ticks.end);
        let span = u64::try_from((ticks.ceil(bound) - place.ms).0).unwrap_or(0);
        let unit = u64::try_from(ticks.unit.0).unwrap_or(1).max(1);
        // None of a place that cannot be written: there are no numbers of the window then.
        let first_tick = ticks.number(place.ms);
        Self {
            ticks,
            line: first_tick.and_then(|tick| made.numbers(tick)),
            made: Some(made),
            base: place.ms,
            first_tick: first_tick.unwrap_or_default(),
            counter: AtomicU64::new(u64::from(place.serial)).into(),
            bound: (span / unit).min(TICKS_MAX),
            ask_from: place.ms + SpanMs((bound - place.ms).0 / 2),
            asked: AtomicBool::new(false),
        }
    }

    /// A window in which there is nothing.
    pub fn closed() -> Self {
        let (base, end) = (WallMs(0), WallMs(0));
        Self {
            ticks: Ticks { unit: SpanMs(1), epoch: base, begin: base, end, serial_bits: 0, spanning: false },
            made: None,
            base,
            first_tick: 0,
            line: None,
            counter: AtomicU64::new(CLOSED).into(),
            bound: 0,
            ask_from: WallMs(i64::MIN),
            asked: AtomicBool::new(true),
        }
    }

    /// The end of the tick of a counter.
    pub fn over(&self, counter: u64) -> WallMs {
        self.begins((counter >> self.ticks.serial_bits) + 1)
    }

    /// The numbers of the tick of a counter that was taken of this window, and its serial among them.
    #[inline]
    pub fn numbers_of(&self, counter: u64) -> Option<(Numbers, u64)> {
        let tick = counter >> self.ticks.serial_bits;
        let numbers =
            self.line.as_ref()?.later(tick).or_else(|| self.made.as_ref()?.numbers(self.first_tick + tick))?;
        Some((numbers, counter & (self.ticks.serials() - 1)))
    }

    /// Takes `n` serials, at least 1, from the clock's tick on, or from the last one used if that is later. By a calendar they are all of
    /// one tick. None may lie beyond that reach.
    #[inline]
    pub fn take(&self, n: u32, wall: WallMs, reach: impl Into<Reach>) -> TakeTicks {
        let (mut seen, reach) = (self.counter.load(Ordering::Relaxed), reach.into());
        loop {
            if seen == CLOSED {
                return TakeTicks::Closed;
            }
            let Some((start, last)) = self.next(seen, n, wall, reach) else { return TakeTicks::None };
            // What is beyond the last serial of a tick carries into the next one, from serial 0 on, which is right.
            let after = start + u64::from(n);
            match self.counter.compare_exchange_weak(seen, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    // Looked at before it is set: else each further one would take the line away from the others.
                    let half_used = last >= self.ask_from
                        && !self.asked.load(Ordering::Relaxed)
                        && !self.asked.swap(true, Ordering::Relaxed);
                    return TakeTicks::All { start, half_used };
                }
                Err(now) => seen = now,
            }
        }
    }

    /// Finds where `n` serials may begin, and when the tick of the last one begins.
    #[inline]
    fn next(&self, counter: u64, n: u32, wall: WallMs, reach: Reach) -> Option<(u64, WallMs)> {
        let (bits, n) = (self.ticks.serial_bits, u64::from(n.max(1)));
        let now = self.ticks_until(wall);
        let mut start = if now > counter >> bits {
            // Before it is shifted, because a clock may stand anywhere.
            if now >= self.bound {
                return None;
            }
            now << bits | u64::from(reach.spread.first_serial(self.first_tick + now))
        } else {
            counter
        };
        if !self.ticks.spanning && (start & (self.ticks.serials() - 1)) + n > self.ticks.serials() {
            start = ((start >> bits) + 1) << bits;
        }
        let last = (start + n - 1) >> bits;
        let begins = self.begins(last);
        (last < self.bound && begins - wall <= reach.ahead_max).then_some((start, begins))
    }

    /// Whole ticks from the base on to `wall`.
    #[inline]
    fn ticks_until(&self, wall: WallMs) -> u64 {
        let since = u64::try_from((wall - self.base).0).unwrap_or(0);
        match u64::try_from(self.ticks.unit.0) {
            Ok(unit @ 2..) => since / unit,
            _ => since,
        }
    }

    /// The instant at which a tick begins.
    #[inline]
    fn begins(&self, tick: u64) -> WallMs {
        self.base + SpanMs(self.ticks.unit.0.saturating_mul(i64::try_from(tick).unwrap_or(i64::MAX)))
    }

    /// The place of a counter.
    fn place(&self, counter: u64) -> TickPosition {
        let serial = (counter & (self.ticks.serials() - 1)) as u32;
        TickPosition { ms: self.begins(counter >> self.ticks.serial_bits), serial }
    }

    /// Tells whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.counter.load(Ordering::Relaxed) == CLOSED
    }

    /// The place that it has come to; `None` if it was closed.
    pub fn reached(&self) -> Option<TickPosition> {
        let counter = self.counter.load(Ordering::Relaxed);
        (counter != CLOSED).then(|| self.place(counter))
    }

    /// Ends it and gives back the place that it had come to; `None` if it was closed before.
    pub fn close(&self) -> Option<TickPosition> {
        let counter = self.counter.swap(CLOSED, Ordering::AcqRel);
        (counter != CLOSED).then(|| self.place(counter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::calendar::UtcOffset;
    use ids::kind::{UNIQ96, UNIQ96_AHEAD_MAX};
    use ids::layout::LayoutSpec;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const AHEAD: SpanMs = UNIQ96_AHEAD_MAX;

    fn made(definition: &Arc<LayoutDefinition>) -> Made {
        Made { definition: Arc::clone(definition), token: TokenValue(1), random: Arc::default() }
    }

    fn of(ticks: Ticks, ms: i64, serial: u32, bound: i64) -> TickWindow {
        TickWindow::open(made(UNIQ96.definition()), ticks, TickPosition { ms: WallMs(ms), serial }, WallMs(bound))
    }

    fn window(ms: i64, serial: u32, bound: i64) -> TickWindow {
        of(MILLISECONDS, ms, serial, bound)
    }

    /// Ticks of 10 ms from 3 on, with eight serials each.
    const COARSE: Ticks = Ticks {
        unit: SpanMs(10),
        epoch: WallMs(3),
        begin: WallMs(3),
        end: WallMs(1_000_003),
        serial_bits: 3,
        spanning: true,
    };

    /// As those of Uniq96, but from 1970 on.
    const MILLISECONDS: Ticks = Ticks {
        unit: SpanMs(1),
        epoch: WallMs(0),
        begin: WallMs(0),
        end: WallMs(i64::MAX),
        serial_bits: 32,
        spanning: false,
    };

    fn place(w: &TickWindow, taken: TakeTicks) -> Option<(i64, u32)> {
        match taken {
            TakeTicks::All { start, .. } => Some((w.place(start).ms.0, w.place(start).serial)),
            _ => None,
        }
    }

    fn taken(w: &TickWindow, n: u32, wall: i64) -> Option<(i64, u32)> {
        place(w, w.take(n, WallMs(wall), AHEAD))
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
        assert_eq!(w.close(), Some(TickPosition { ms: WallMs(1_001), serial: 4 }));
        assert_eq!((w.take(1, WallMs(1_002), AHEAD), w.close()), (TakeTicks::Closed, None));
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
        let noticed = |wall| matches!(w.take(1, WallMs(wall), AHEAD), TakeTicks::All { half_used: true, .. });
        assert_eq!([noticed(499), noticed(500), noticed(501)], [false, true, false]);
    }

    #[test]
    fn a_batch_goes_on_into_ticks_that_are_not_too_far_ahead() {
        let take = |w: &TickWindow, n, wall, ahead| place(w, w.take(n, WallMs(wall), SpanMs(ahead)));
        let w = of(COARSE, 103, 5, 1_003);
        assert_eq!(take(&w, 3, 109, 0), Some((103, 5)), "the rest of the tick");
        assert_eq!(take(&w, 1, 112, 0), None, "the next one has not begun");
        assert_eq!(take(&w, 1, 113, 0), Some((113, 0)));
        assert_eq!(take(&w, 16, 114, 18), None, "its last one would lie in the tick of 133");
        assert_eq!(take(&w, 16, 114, 19), Some((113, 1)));
        assert_eq!(take(&w, 1, 114, 19), Some((133, 1)), "and others go on there");
        assert_eq!(take(&w, 1, 999, 0), Some((993, 0)), "the last tick before the bound");
        assert_eq!(take(&w, 8, 999, 1_000), None);
        assert_eq!(take(&w, 7, 999, 0), Some((993, 1)));
        assert_eq!((take(&w, 1, 1_003, 0), w.close()), (None, Some(TickPosition { ms: WallMs(1_003), serial: 0 })));
        let w = of(COARSE, 999_993, 0, i64::MAX);
        assert_eq!(
            (take(&w, 8, 999_999, 0), take(&w, 1, 1_000_003, 0)),
            (Some((999_993, 0)), None),
            "what can be written"
        );
        assert_eq!(take(&of(COARSE, 3, 0, 14), 9, 3, 100), Some((3, 0)), "a tick that begins before the bound counts");
        assert_eq!(take(&of(COARSE, 3, 0, 13), 9, 3, 100), None);
        assert_eq!(take(&of(COARSE, 3, 0, i64::MAX), 1, i64::MAX, 0), None, "whatever the clock says");
    }

    #[test]
    fn numbers_are_those_of_their_ticks_and_serials_whether_they_count_on_or_not() {
        let at = WallMs(1_764_253_800_000);
        for (definition, minutes) in [
            (Arc::new(LayoutDefinition::new(&LayoutSpec::of("snowflake")).unwrap()), 0),
            (Arc::new(LayoutDefinition::new(&LayoutSpec::of("sonyflake")).unwrap()), 345),
            (Arc::new(LayoutDefinition::new(&LayoutSpec::of("uuid7")).unwrap()), 0),
            (Arc::new(LayoutDefinition::new(&LayoutSpec::of("xid")).unwrap()), 0),
            (Arc::clone(UNIQ96.definition()), 345),
        ] {
            let offset = UtcOffset::from_minutes(minutes).unwrap();
            let (layout, ticks) = (definition.layout(), definition.layout().ticks(offset));
            let from = TickPosition { ms: ticks.floor(at), serial: 4 };
            let window = TickWindow::open(made(&definition), ticks, from, at + SpanMs::seconds(100));
            let (mut wall, mut last) = (at, 0);
            for n in [1, 5, u32::try_from(ticks.serials() - 1).unwrap(), 2, 3] {
                let TakeTicks::All { start, .. } = window.take(n, wall, definition.ahead_max()) else { panic!() };
                let (place, (numbers, serial)) = (window.place(start), window.numbers_of(start).unwrap());
                let number = numbers.number(serial);
                let parts = layout.parts(number).unwrap();
                assert_eq!((parts.tick, parts.serial), (ticks.number(place.ms).unwrap(), place.serial));
                assert!(parts.token == TokenValue(1) && number > last);
                (wall, last) = (wall + SpanMs(ticks.unit.0 / 2), numbers.number(serial + u64::from(n) - 1));
                assert!(last >= number);
            }
        }
    }

    proptest! {
        #[test]
        fn whatever_the_clock_does_no_tick_gives_a_serial_twice(
            steps in proptest::collection::vec((-200i64..200, 1u32..30, 0i64..100, any::<bool>()), 1..200)
        ) {
            let mut w = of(COARSE, 3, 0, 10_003);
            let (mut next, mut wall) = (0u64, 3i64);
            for (step, n, ahead, reopen) in steps {
                wall += step;
                if let Some((ms, serial)) = place(&w, w.take(n, WallMs(wall), SpanMs(ahead))) {
                    prop_assert_eq!((ms - 3) % 10, 0);
                    let start = (ms - 3) as u64 / 10 * 8 + u64::from(serial);
                    prop_assert!(start >= next, "{start} after {next}");
                    next = start + u64::from(n);
                    let last = 3 + ((next - 1) / 8 * 10) as i64;
                    prop_assert!(last < 10_003 && last - wall <= ahead, "{last} at {wall}");
                }
                if reopen {
                    let place = w.close().unwrap();
                    w = of(COARSE, place.ms.0, place.serial, 10_003);
                }
            }
        }

        #[test]
        fn whatever_the_clock_does_no_id_comes_twice(
            steps in proptest::collection::vec((-2_000i64..2_000, 1u32..1_000_000_000, any::<bool>()), 1..200)
        ) {
            let mut w = window(0, 0, 100_000);
            let (mut last, mut wall) = (None, 0i64);
            for (step, n, reopen) in steps {
                wall += step;
                if let Some((ms, serial)) = taken(&w, n, wall) {
                    prop_assert!(last < Some((ms, u64::from(serial))), "{last:?} then {ms}, {serial}");
                    let end = u64::from(serial) + u64::from(n) - 1;
                    prop_assert!(end <= u64::from(u32::MAX) && ms < 100_000);
                    last = Some((ms, end));
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
