//! The time: the machine's own time, which never steps, plus an offset that the masters correct.
//!
//! No ID's uniqueness rests on this; it decides how true the written times are, and when to refuse rather than write
//! nonsense.

use ids::time::{Now, SpanMs, WallMs};

/// A step of the operating system's calendar against the machine's own time beyond this is a jump.
pub const JUMP_MAX: SpanMs = SpanMs::seconds(5);
/// A calendar that differs from the masters' by more than this is refused.
pub const SKEW_MAX: SpanMs = SpanMs::seconds(300);
/// A clock that is set back by less than this needs no new gates: buckets and milliseconds may lie ahead of it.
pub const SET_BACK_MAX: SpanMs = SpanMs::seconds(1);
/// An answer that took longer than this says nothing about the time.
pub const ROUND_TRIP_MAX: SpanMs = SpanMs::seconds(5);

/// The offset and what is known of the operating system's calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timebase {
    /// Calendar minus machine time.
    offset: i64,
    /// The same of the operating system, when it was last looked at.
    os_offset: i64,
    /// The difference of the operating system's calendar from the masters', if that is too large.
    skew: Option<Skew>,
}

/// A master's calendar, as it came by an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockSample {
    /// Our operating system's clocks when we asked.
    pub sent: Now,
    /// The same when the answer came.
    pub received: Now,
    /// The time that it took in real time, whatever clock we run by.
    pub round_trip: SpanMs,
    /// The calendar that the master goes by, in between.
    pub wall: WallMs,
    /// The lead of its machine's calendar over that, if it jumped and is not followed.
    pub ahead: Option<SpanMs>,
}

/// The difference of the operating system's calendar from the masters'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Skew {
    /// Never negative.
    pub by: SpanMs,
    /// True if it shows what the master's own machine does, and the master does not go by.
    pub disputed: bool,
}

impl ClockSample {
    /// Tells whether it came soon enough to say anything about the time.
    pub fn tells(&self) -> bool {
        self.round_trip <= ROUND_TRIP_MAX && self.received.boot >= self.sent.boot
    }

    /// The master's calendar minus our machine time: the least that it can be.
    fn earliest(&self) -> i64 {
        self.wall.0.saturating_sub(self.received.boot.0)
    }

    /// The most that it can be.
    fn latest(&self) -> i64 {
        self.wall.0.saturating_sub(self.sent.boot.0)
    }
}

/// The change that an answer made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing: it took too long to say anything.
    TooSlow,
    /// Our time moved by so much; mostly by nothing.
    Moved(SpanMs),
}

impl Timebase {
    /// The operating system's time, until a master says better.
    pub fn start(os: Now) -> Self {
        let offset = difference(os);
        Self { offset, os_offset: offset, skew: None }
    }

    /// Calendar minus machine time, in milliseconds.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// The difference of the operating system's calendar from the masters', if that is too large to mint.
    pub fn skew(&self) -> Option<Skew> {
        self.skew
    }

    /// Looks at the operating system's clocks again. `scale` is how much faster than real time they run.
    ///
    /// Gives by how much the calendar was stepped, if by more than [`JUMP_MAX`]: someone set the clock, or this machine
    /// is a copy of another one, woken later.
    pub fn look(&mut self, os: Now, scale: u32) -> Option<SpanMs> {
        let step = difference(os).saturating_sub(self.os_offset);
        if step.saturating_abs() <= JUMP_MAX.0.saturating_mul(scale.into()) {
            return None;
        }
        self.os_offset = difference(os);
        Some(SpanMs(step))
    }

    /// The distance of the operating system's calendar from the one that the answer came from, if that is too far to mint.
    pub fn skewed_by(answer: &ClockSample) -> Option<SpanMs> {
        if !answer.tells() {
            return None;
        }
        let os = difference(answer.received);
        let off = SpanMs(answer.earliest().saturating_sub(os).max(os.saturating_sub(answer.latest())).max(0));
        (off > SKEW_MAX).then_some(off)
    }

    fn is_disputed(answer: &ClockSample) -> bool {
        answer
            .ahead
            .is_some_and(|ahead| Self::skewed_by(&ClockSample { wall: answer.wall + ahead, ..*answer }).is_none())
    }

    /// Takes a master's time. Gives what it changed, and whether windows have to pass the gates again.
    pub fn correct(&mut self, answer: &ClockSample) -> (Heard, bool) {
        let skew_before = self.skew;
        let heard = self.hear(answer);
        let set_back = matches!(heard, Heard::Moved(by) if by < SpanMs(-SET_BACK_MAX.0));
        (heard, set_back || self.skew != skew_before)
    }

    /// Takes a master's time: its calendar stood at `wall` at some moment of the round trip. What that does not
    /// contradict stays as it is; otherwise it is taken to have been the middle.
    fn hear(&mut self, answer: &ClockSample) -> Heard {
        if !answer.tells() {
            return Heard::TooSlow;
        }
        self.skew = Self::skewed_by(answer).map(|by| Skew { by, disputed: Self::is_disputed(answer) });
        let (earliest, latest) = (answer.earliest(), answer.latest());
        if (earliest..=latest).contains(&self.offset) {
            return Heard::Moved(SpanMs(0));
        }
        let middle = earliest.saturating_add(latest.saturating_sub(earliest) / 2);
        let moved = SpanMs(middle.saturating_sub(self.offset));
        self.offset = middle;
        Heard::Moved(moved)
    }
}

fn difference(os: Now) -> i64 {
    os.wall.0.saturating_sub(os.boot.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::time::BootMs;
    use proptest::prelude::*;

    fn os(wall: i64, boot: i64) -> Now {
        Now { wall: WallMs(wall), boot: BootMs(boot) }
    }

    fn answer(sent: Now, received: Now, wall: i64) -> ClockSample {
        ClockSample { sent, received, round_trip: received.boot - sent.boot, wall: WallMs(wall), ahead: None }
    }

    #[test]
    fn who_shows_what_the_masters_machine_does_is_told_so() {
        let mut time = Timebase::start(os(0, 0));
        for (wall, ahead, disputed) in
            [(-400_000, None, false), (-400_000, Some(400_000), true), (-800_000, Some(400_000), false)]
        {
            let answer = ClockSample { ahead: ahead.map(SpanMs), ..answer(os(0, 0), os(0, 0), wall) };
            time.hear(&answer);
            assert_eq!(time.skew(), Some(Skew { by: SpanMs(-wall), disputed }), "{wall} {ahead:?}");
        }
        time.hear(&answer(os(0, 0), os(0, 0), 0));
        assert_eq!(time.skew(), None);
    }

    #[test]
    fn a_step_beyond_five_seconds_is_a_jump_and_noticed_once() {
        let mut time = Timebase::start(os(100_000, 1_000));
        assert_eq!(time.look(os(106_000, 2_000), 1), None, "5 s are allowed");
        assert_eq!(time.look(os(107_001, 2_000), 1), Some(SpanMs(6_001)));
        assert_eq!(time.look(os(108_001, 3_000), 1), None);
        assert_eq!(time.look(os(100_001, 3_000), 1), Some(SpanMs(-8_000)));
        assert_eq!(time.offset(), 99_000, "our own time does not follow a step");
        let mut fast = Timebase::start(os(0, 0));
        assert_eq!(fast.look(os(60_000, 0), 60), None, "a second of a test clock is a pause of 17 ms");
    }

    #[test]
    fn small_steps_add_up() {
        let mut time = Timebase::start(os(0, 0));
        assert_eq!(time.look(os(3_000, 0), 1), None);
        assert_eq!(time.look(os(6_000, 0), 1), Some(SpanMs(6_000)));
    }

    #[test]
    fn a_master_corrects_the_offset_by_the_middle_of_the_trip() {
        let mut time = Timebase::start(os(50_000, 0));
        let heard = time.hear(&answer(os(60_000, 10_000), os(60_100, 10_100), 61_000));
        assert_eq!((heard, time.offset()), (Heard::Moved(SpanMs(950)), 50_950));
        let again = time.hear(&answer(os(70_000, 20_000), os(70_300, 20_300), 71_000));
        assert_eq!(again, Heard::Moved(SpanMs(0)), "within what the trip leaves open nothing moves");
        let slow = answer(os(70_000, 20_000), os(75_001, 25_001), 0);
        assert_eq!((time.hear(&slow), time.offset(), time.skew()), (Heard::TooSlow, 50_950, None));
    }

    #[test]
    fn more_than_five_minutes_are_refused_until_they_are_corrected() {
        let mut time = Timebase::start(os(0, 0));
        let at = |off: i64| answer(os(1_000, 1_000), os(1_000, 1_000), 1_000 + off);
        for (off, skew) in [(300_000, None), (300_001, Some(300_001)), (-300_001, Some(300_001)), (0, None)] {
            time.hear(&at(off));
            assert_eq!(time.skew().map(|skew| skew.by), skew.map(SpanMs), "{off} ms off");
        }
    }

    #[test]
    fn windows_pass_the_gates_again_where_the_clock_is_set_back_or_what_is_wrong_with_it_has_changed() {
        let mut time = Timebase::start(os(0, 0));
        let mut correct = |off: i64| time.correct(&answer(os(1_000, 1_000), os(1_000, 1_000), 1_000 + off));
        let moved = |by| Heard::Moved(SpanMs(by));
        assert_eq!(correct(0), (moved(0), false));
        assert_eq!(correct(5_000), (moved(5_000), false), "forward");
        assert_eq!(correct(4_000), (moved(-1_000), false), "a second back lies within what buckets may be ahead");
        assert_eq!(correct(2_999), (moved(-1_001), true));
        assert_eq!(correct(300_001), (moved(297_002), true), "now it is too far off");
        assert_eq!(correct(300_001), (moved(0), false), "that was known");
        assert_eq!(correct(300_000), (moved(-1), true), "and now it is not");
    }

    proptest! {
        #[test]
        fn the_error_is_at_most_half_the_trip(start in -99_999i64..99_999, there in 0i64..2_500, back in 0i64..2_500) {
            let mut time = Timebase::start(os(start, 0));
            time.hear(&answer(os(start, 0), os(start + there + back, there + back), there));
            // The master's calendar is equal to the machine's time here, so the true offset is 0.
            prop_assert!(time.offset().abs() <= there + back);
            if start.abs() > there + back {
                prop_assert!(time.offset().abs() <= (there + back + 1) / 2 + 1);
            }
        }

        #[test]
        fn no_clock_makes_it_panic(walls in proptest::array::uniform6(any::<i64>())) {
            let [a, b, c, d, e, f] = walls;
            let mut time = Timebase::start(os(a, b));
            time.look(os(c, d), u32::MAX);
            let round_trip = SpanMs(0);
            time.hear(&ClockSample { sent: os(e, f), received: os(a, d), round_trip, wall: WallMs(c), ahead: None });
        }
    }
}
