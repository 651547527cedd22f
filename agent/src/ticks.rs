//! The right to mint IDs of a tick now: ticks up to a bound that is durable, serials within each. Uniq96 count by the
//! millisecond, layouts by what their definition says.
//!
//! The counter is one number, `ticks since the base << bits of the serial | serial`, moved by compare-and-swap: it follows the
//! clock and never goes back. A tick whose serials are used up makes way for the next one.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use common::calendar::UtcOffset;
use common::layout::{Layout, LayoutDefinition, Narrow, RandomBits, Spread};
use common::lease::Grant;
use common::time::{SpanMs, WallMs};
use common::token::TokenValue;
use crossbeam_utils::CachePadded;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bits of the serial of a Uniq96.
const UNIQ96_SERIAL_BITS: u32 = 32;
const CLOSED: u64 = u64::MAX;
/// The most ticks that one window counts, so that the counter cannot overflow.
const TICKS_MAX: u64 = 1 << 31;

/// How time is cut into ticks, and how many IDs a token has in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// The length of one.
    unit: SpanMs,
    /// Where one begins.
    epoch: WallMs,
    /// A token has 2 to the power of this many IDs in each, at most 2^32.
    serial_bits: u32,
    /// Whether what one request gets may lie in more than one tick.
    spanning: bool,
    /// The first instant that cannot be written.
    end: WallMs,
}

impl Ticks {
    /// Those of Uniq96: milliseconds, and all IDs of a request in one of them.
    pub const UNIQ96: Self = Self {
        unit: SpanMs(1),
        epoch: WallMs(0),
        serial_bits: UNIQ96_SERIAL_BITS,
        spanning: false,
        end: WallMs(i64::MAX),
    };

    /// Those of a layout.
    pub fn of(layout: &Layout) -> Self {
        let (unit, epoch, serial_bits) = (layout.unit(), layout.epoch(), layout.serial_bits());
        Self { unit, epoch, serial_bits, spanning: true, end: layout.end() }
    }

    /// When the tick of `t` begins.
    pub fn floor(&self, t: WallMs) -> WallMs {
        if self.unit.0 == 1 {
            return t;
        }
        WallMs(t.0.saturating_sub((t - self.epoch).0.rem_euclid(self.unit.0)))
    }

    /// When the first tick begins that does not begin before `t`.
    pub fn ceil(&self, t: WallMs) -> WallMs {
        let floor = self.floor(t);
        if floor == t { t } else { floor + self.unit }
    }

    /// IDs that a token has in one.
    pub fn serials(&self) -> u64 {
        1 << self.serial_bits
    }

    /// The first instant that cannot be written.
    pub fn end(&self) -> WallMs {
        self.end
    }

    /// Where one begins; what lies before cannot be written.
    pub fn epoch(&self) -> WallMs {
        self.epoch
    }

    /// When the tick begins that the last of `n` IDs from `place` on lies in.
    pub fn last_of(&self, place: Place, n: u32) -> WallMs {
        let (start, n) = (u64::from(place.serial), u64::from(n.max(1)));
        let ticks =
            if self.spanning { (start + n - 1) >> self.serial_bits } else { u64::from(start + n > self.serials()) };
        place.ms + SpanMs(self.unit.0.saturating_mul(i64::try_from(ticks).unwrap_or(i64::MAX)))
    }
}

/// What the numbers of a layout are made by under one lease.
#[derive(Debug)]
pub struct Numbers {
    /// The layout, and how its numbers are written.
    pub definition: Arc<LayoutDefinition>,
    /// The token; it fits.
    pub token: TokenValue,
    random: Arc<RandomBits>,
    /// Bits of the serial.
    serial_bits: u32,
    narrow: Option<Narrow>,
}

impl Numbers {
    /// Of a token that fits, with these random bits.
    pub fn new(definition: Arc<LayoutDefinition>, token: TokenValue, random: Arc<RandomBits>) -> Self {
        let layout = definition.layout();
        let (serial_bits, narrow) = (layout.serial_bits(), layout.narrow(token));
        Self { definition, token, random, serial_bits, narrow }
    }

    /// The number with that counter from the beginning of a tick on: the serial goes on into further ticks.
    #[inline]
    pub fn number(&self, tick: u64, counter: u64) -> u128 {
        let tick = tick + (counter >> self.serial_bits);
        let serial = counter & ((1 << self.serial_bits) - 1);
        match &self.narrow {
            // A window gives no tick that does not fit.
            Some(narrow) => narrow.number(tick, serial).into(),
            None => self.wide(tick, serial),
        }
    }

    fn wide(&self, tick: u64, serial: u64) -> u128 {
        let layout = self.definition.layout();
        let prefix = layout.prefix(tick, self.token).unwrap_or_default();
        let number = layout.fill(prefix, serial as u32, 0);
        if layout.random_bits() == 0 { number } else { layout.fill(number, 0, self.random.of(number)) }
    }
}

/// A place on an axis of ticks: the next ID will carry this or a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// When the tick begins.
    pub ms: WallMs,
    /// The serial in it.
    pub serial: u32,
}

/// Where IDs may lie on an axis by one of the names that share it.
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

/// The ticks before a bound, with the lease they belong to.
#[derive(Debug)]
pub struct TickWindow {
    /// The lease.
    pub lease: Option<Grant>,
    /// The offset in which the calendar fields of Uniq96 are counted.
    pub offset: UtcOffset,
    /// What numbers of a layout are made by; `None`: they are Uniq96.
    pub numbers: Option<Arc<Numbers>>,
    ticks: Ticks,
    /// When the tick begins that ticks are counted from, and its number in the layout.
    base: WallMs,
    first_tick: u64,
    /// As in the numbers, but at hand: after a locked instruction each load that depends on another one is waited for.
    narrow: Option<Narrow>,
    /// On a cache line of its own: whoever moves it takes the line away from all other threads, and they read the rest of this for
    /// each ID.
    counter: CachePadded<AtomicU64>,
    /// How many ticks from the base on may be used: those that begin before the durable mark and the end of the lease.
    bound: u64,
    /// From the tick on that begins then it is time to move the mark.
    ask_from: WallMs,
    asked: AtomicBool,
}

/// What came of an attempt to take serials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeTicks {
    /// All of them, from this place on.
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

/// Serials that were taken, as the window counts them.
struct Counted {
    start: u64,
    half_used: bool,
}

/// Why there are none.
enum Nothing {
    /// The bound is reached, or the clock is too far behind.
    Left,
    Closed,
}

/// Serials of one tick that one thread has for itself.
#[derive(Clone, Copy, Debug)]
pub struct TickBlock {
    /// The counter of the next one.
    pub next: u64,
    /// After the last one.
    pub end: u64,
    /// The number of the next one.
    pub number: u128,
    /// How far each is from the next one; `None`: [`TickWindow::number_of`] tells.
    pub step: Option<u64>,
    /// When the tick is over; from then on its time is old.
    pub over: WallMs,
}

impl TickWindow {
    /// A window from `place`, where a tick begins, on to `bound`.
    pub fn open(
        lease: Grant,
        offset: UtcOffset,
        numbers: Option<Arc<Numbers>>,
        ticks: Ticks,
        place: Place,
        bound: WallMs,
    ) -> Self {
        let bound = bound.min(ticks.end);
        let span = u64::try_from((ticks.ceil(bound) - place.ms).0).unwrap_or(0);
        let unit = u64::try_from(ticks.unit.0).unwrap_or(1).max(1);
        let first_tick = numbers.as_ref().and_then(|numbers| numbers.definition.layout().tick(place.ms));
        let narrow = numbers.as_ref().and_then(|numbers| numbers.narrow);
        Self {
            lease: Some(lease),
            offset,
            numbers,
            ticks,
            base: place.ms,
            first_tick: first_tick.unwrap_or_default(),
            narrow,
            counter: AtomicU64::new(u64::from(place.serial)).into(),
            bound: (span / unit).min(TICKS_MAX),
            ask_from: place.ms + SpanMs((bound - place.ms).0 / 2),
            asked: AtomicBool::new(false),
        }
    }

    /// A window in which there is nothing.
    pub fn closed() -> Self {
        Self {
            lease: None,
            offset: UtcOffset::default(),
            numbers: None,
            ticks: Ticks::UNIQ96,
            base: WallMs(0),
            first_tick: 0,
            narrow: None,
            counter: AtomicU64::new(CLOSED).into(),
            bound: 0,
            ask_from: WallMs(i64::MIN),
            asked: AtomicBool::new(true),
        }
    }

    /// Takes `n` serials, at least 1, from the clock's tick on, or from the last one used if that is later. Those of Uniq96 are
    /// all of one tick. None may lie beyond that reach.
    #[inline]
    pub fn take(&self, n: u32, wall: WallMs, reach: impl Into<Reach>) -> TakeTicks {
        match self.take_counters(n, wall, reach.into()) {
            Ok(Counted { start, half_used }) => TakeTicks::All { place: self.place(start), half_used },
            Err(Nothing::Closed) => TakeTicks::Closed,
            Err(Nothing::Left) => TakeTicks::None,
        }
    }

    /// Takes up to `n` serials of one tick, for numbers of a layout, and at most a quarter of it. With them, whether it is time to move
    /// the mark.
    pub fn take_block(&self, n: u32, wall: WallMs, reach: Reach) -> Option<(TickBlock, bool)> {
        self.numbers.as_ref()?;
        let quarter = u32::try_from(self.ticks.serials() / 4).unwrap_or(u32::MAX);
        let n = n.min(quarter).max(1);
        let Counted { start, half_used } = self.take_counters(n, wall, reach).ok()?;
        // A block has one time. What lies in the next tick is a gap.
        let tick = start >> self.ticks.serial_bits;
        let end = (start + u64::from(n)).min((tick + 1) << self.ticks.serial_bits);
        let step = self.narrow.map(|narrow| narrow.step());
        let block = TickBlock { next: start, end, number: self.number_of(start)?, step, over: self.begins(tick + 1) };
        Some((block, half_used))
    }

    /// The number of a counter that was taken of this window; `None` of Uniq96.
    #[inline]
    pub fn number_of(&self, counter: u64) -> Option<u128> {
        let Some(narrow) = &self.narrow else { return Some(self.numbers.as_ref()?.number(self.first_tick, counter)) };
        let bits = self.ticks.serial_bits;
        Some(narrow.number(self.first_tick + (counter >> bits), counter & ((1 << bits) - 1)).into())
    }

    #[inline]
    fn take_counters(&self, n: u32, wall: WallMs, reach: Reach) -> Result<Counted, Nothing> {
        let mut seen = self.counter.load(Ordering::Relaxed);
        loop {
            if seen == CLOSED {
                return Err(Nothing::Closed);
            }
            let Some((start, last)) = self.next(seen, n, wall, reach) else { return Err(Nothing::Left) };
            // What is beyond the last serial of a tick carries into the next one, from serial 0 on, which is right.
            let after = start + u64::from(n);
            match self.counter.compare_exchange_weak(seen, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    // Looked at before it is set: else each further one would take the line away from the others.
                    let half_used = last >= self.ask_from
                        && !self.asked.load(Ordering::Relaxed)
                        && !self.asked.swap(true, Ordering::Relaxed);
                    return Ok(Counted { start, half_used });
                }
                Err(now) => seen = now,
            }
        }
    }

    /// Where `n` serials may begin, and when the tick of the last one begins.
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

    /// When a tick begins.
    #[inline]
    fn begins(&self, tick: u64) -> WallMs {
        self.base + SpanMs(self.ticks.unit.0.saturating_mul(i64::try_from(tick).unwrap_or(i64::MAX)))
    }

    fn place(&self, counter: u64) -> Place {
        let serial = (counter & (self.ticks.serials() - 1)) as u32;
        Place { ms: self.begins(counter >> self.ticks.serial_bits), serial }
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.counter.load(Ordering::Relaxed) == CLOSED
    }

    /// The place that it has come to; `None` if it was closed.
    pub fn reached(&self) -> Option<Place> {
        let counter = self.counter.load(Ordering::Relaxed);
        (counter != CLOSED).then(|| self.place(counter))
    }

    /// Ends it and gives back the place that it had come to; `None` if it was closed before.
    pub fn close(&self) -> Option<Place> {
        let counter = self.counter.swap(CLOSED, Ordering::AcqRel);
        (counter != CLOSED).then(|| self.place(counter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::layout::LayoutSpec;
    use common::lease::Generation;
    use common::token::{TokenType, TokenValue};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const AHEAD: SpanMs = crate::gate::UNIQ96_AHEAD_MAX;

    fn lease() -> Grant {
        Grant {
            token_type: TokenType::Uint2,
            key: TokenType::Uint2.key(TokenValue(1)),
            g: Generation(1),
            from: WallMs(0),
            until: WallMs(i64::MAX),
            receipt: None,
        }
    }

    fn of(ticks: Ticks, ms: i64, serial: u32, bound: i64) -> TickWindow {
        TickWindow::open(lease(), UtcOffset::default(), None, ticks, Place { ms: WallMs(ms), serial }, WallMs(bound))
    }

    fn window(ms: i64, serial: u32, bound: i64) -> TickWindow {
        of(Ticks::UNIQ96, ms, serial, bound)
    }

    /// Ticks of 10 ms from 3 on, with eight serials each.
    const COARSE: Ticks =
        Ticks { unit: SpanMs(10), epoch: WallMs(3), serial_bits: 3, spanning: true, end: WallMs(1_000_003) };

    fn taken(w: &TickWindow, n: u32, wall: i64) -> Option<(i64, u32)> {
        match w.take(n, WallMs(wall), AHEAD) {
            TakeTicks::All { place, .. } => Some((place.ms.0, place.serial)),
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
    fn ticks_begin_where_the_epoch_says() {
        let at = [2, 3, 4, 12, 13].map(WallMs);
        assert_eq!(at.map(|t| COARSE.floor(t).0), [-7, 3, 3, 3, 13]);
        assert_eq!(at.map(|t| COARSE.ceil(t).0), [3, 3, 13, 13, 13]);
        assert_eq!((Ticks::UNIQ96.floor(WallMs(-5)), Ticks::UNIQ96.ceil(WallMs(7))), (WallMs(-5), WallMs(7)));
        let place = Place { ms: WallMs(13), serial: 6 };
        assert_eq!([1, 2, 3, 10, 11].map(|n| COARSE.last_of(place, n).0), [13, 13, 23, 23, 33]);
        let last = Place { ms: WallMs(13), serial: u32::MAX };
        assert_eq!([1, 2, u32::MAX].map(|n| Ticks::UNIQ96.last_of(last, n).0), [13, 14, 14]);
    }

    #[test]
    fn a_batch_goes_on_into_ticks_that_are_not_too_far_ahead() {
        let take = |w: &TickWindow, n, wall, ahead| match w.take(n, WallMs(wall), SpanMs(ahead)) {
            TakeTicks::All { place, .. } => Some((place.ms.0, place.serial)),
            _ => None,
        };
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
        assert_eq!((take(&w, 1, 1_003, 0), w.close()), (None, Some(Place { ms: WallMs(1_003), serial: 0 })));
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
    fn numbers_of_a_layout_count_on_into_the_next_tick() {
        let definition = Arc::new(LayoutDefinition::new(&LayoutSpec::of("snowflake")).unwrap());
        let numbers = Numbers::new(definition, TokenValue(5), Arc::default());
        assert_eq!(numbers.number(7, 4_095), 7 << 22 | 5 << 12 | 4_095);
        assert_eq!(numbers.number(7, 4_096), 8 << 22 | 5 << 12);
        let definition = Arc::new(LayoutDefinition::new(&LayoutSpec::of("uuid7")).unwrap());
        let numbers = Numbers::new(Arc::clone(&definition), TokenValue(5), Arc::default());
        let parts = definition.layout().parts(numbers.number(7, 9)).unwrap();
        assert_eq!((parts.tick, parts.token, parts.serial), (7, TokenValue(5), 9));
        assert!(parts.random != 0 && numbers.number(7, 9) == numbers.number(7, 9));
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
                if let TakeTicks::All { place, .. } = w.take(n, WallMs(wall), SpanMs(ahead)) {
                    prop_assert_eq!((place.ms.0 - 3) % 10, 0);
                    let start = (place.ms.0 - 3) as u64 / 10 * 8 + u64::from(place.serial);
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
                if let TakeTicks::All { place, .. } = w.take(n, WallMs(wall), AHEAD) {
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
