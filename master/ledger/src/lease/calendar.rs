//! The calendar that a master goes by.
//!
//! Safety uses no clock, but a calendar that is wrong for a minute can lock values up, or end leases, for as long as it was
//! ahead. The machine's own clock never steps: a calendar that jumps ahead of it is not followed until the other master, whose
//! own did not jump, shows the same, or until an operator starts this one anew. A jump of a day at most that has stood for
//! some minutes is a correction, as a time service makes it after a machine's start, and is followed by itself: otherwise
//! every agent with a right clock would have to refuse until somebody came.
//!
//! A longer one is followed if the other master's machine and the agents that are heard have shown the same for as long: two
//! machines that started with dead batteries and were set right. No single calendar moves a master, nor do agents alone, who
//! may lie: both masters' machines have to show it, and agents can only keep them from following ([`Witnesses`]).

use ids::parameters::SessionId;
use ids::time::{BootMs, Now, SpanMs, WallMs};
use std::collections::BTreeMap;

/// The largest step ahead of the machine's own clock that is followed at once.
pub const JUMP_MAX: SpanMs = SpanMs::seconds(300);
/// Time for which a jump has to stand, by the machine's own clock, before it counts as a correction.
pub const SETTLED: SpanMs = SpanMs::seconds(300);
/// The longest jump that counts as a correction, and is followed once it has stood.
pub const CORRECTION_MAX: SpanMs = SpanMs::days(1);
/// The furthest that a calendar may be, at a start, ahead of the latest time that both masters ever agreed on, to be
/// believed alone: longer than any lease, its rest and a permit.
pub const STANDSTILL_MAX: SpanMs = SpanMs::days(40);

/// Time for which an agent's calendar counts, longer than between two of its heartbeats.
pub const WITNESS_MAX: SpanMs = SpanMs::seconds(90);
/// Agents whose calendars are known at once.
pub const WITNESSES_MAX: usize = 1_024;

/// A master's knowledge of its calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Calendar {
    /// The reading that was followed last.
    last: Now,
    /// The reading that was furthest ahead of those that were followed.
    high: Now,
    /// The newest reading, followed or not.
    read: Now,
    /// Its lead over what is followed.
    ahead: Option<SpanMs>,
    /// The moment since which it has been about as far ahead as it is, by the machine's own clock.
    ahead_since: BootMs,
    /// The moment since which the other master's machine and the agents show the same as this one's, which is ahead.
    shared_since: Option<BootMs>,
    /// The latest instant that a standstill explains, if the calendar was further ahead than that at the start.
    far_after: Option<WallMs>,
    /// Factor by which calendars run faster than the machine's own clock: 1, but for a test clock.
    scale: i64,
}

impl Calendar {
    /// The calendar at a start; `agreed` is the latest time that both masters ever agreed on, 0 if none.
    pub(crate) fn start(now: Now, agreed: WallMs, scale: i64) -> Self {
        let longest = SpanMs(STANDSTILL_MAX.0.saturating_mul(scale));
        let explained = agreed + longest;
        let far_after = (agreed > WallMs(0) && now.wall > explained).then_some(explained);
        Self {
            last: now,
            high: now,
            read: now,
            ahead: None,
            ahead_since: now.boot,
            shared_since: None,
            far_after,
            scale,
        }
    }

    /// The calendar that the machine's own clock predicts, going on from `from`.
    fn expected(&self, from: Now, now: Now) -> WallMs {
        from.wall + SpanMs((now.boot - from.boot).0.saturating_mul(self.scale))
    }

    fn jumped(&self, now: Now) -> bool {
        self.is_jump(now.wall - self.expected(self.high, now))
    }

    /// Tells whether a calendar that leads by so much would not be followed at once.
    pub(crate) fn is_jump(&self, ahead: SpanMs) -> bool {
        ahead > SpanMs(JUMP_MAX.0.saturating_mul(self.scale))
    }

    /// The calendar to go by at this reading.
    pub fn shown(&self, now: Now) -> WallMs {
        if self.jumped(now) { self.expected(self.last, now) } else { now.wall }
    }

    /// Takes in a reading. Returns it with the calendar to go by, and the calendar's lead if that begins now.
    pub(crate) fn follow(&mut self, now: Now) -> (Now, Option<SpanMs>) {
        self.read = now;
        if self.jumped(now) {
            let wall = self.expected(self.last, now);
            let (begins, ahead) = (self.ahead.is_none(), now.wall - wall);
            let tolerated = JUMP_MAX.0.saturating_mul(self.scale);
            if self.ahead.is_none_or(|before| ahead.0.saturating_sub(before.0).saturating_abs() > tolerated) {
                self.ahead_since = now.boot;
            }
            self.ahead = Some(ahead);
            let short = ahead.0 <= CORRECTION_MAX.0.saturating_mul(self.scale);
            if short && now.boot - self.ahead_since >= SETTLED {
                (self.last, self.high, self.ahead) = (now, now, None);
                return (now, None);
            }
            return (Now { wall, ..now }, self.ahead.filter(|_| begins));
        }
        self.ahead = None;
        self.last = now;
        if self.far_after.is_some_and(|far_after| now.wall <= far_after) {
            (self.far_after, self.high) = (None, now);
        }
        if now.wall >= self.expected(self.high, now) {
            self.high = now;
        }
        (now, None)
    }

    /// Lets the machine's own clock run on, for simulations, which leave out the hours in which nothing happens.
    pub(crate) fn skip(&mut self, span: SpanMs) {
        for reading in [&mut self.last, &mut self.high, &mut self.read] {
            reading.wall = reading.wall + span;
        }
    }

    /// The other master, whose own calendar neither jumped nor stood still for long, shows `theirs`: if this one's reading
    /// is the same, it is right.
    pub(crate) fn confirm(&mut self, theirs: WallMs) {
        if self.is_shown_by(theirs - self.read.wall) && !self.steady() {
            (self.last, self.high, self.ahead, self.far_after) = (self.read, self.read, None, None);
        }
    }

    /// Notes at each beat that the other master's machine and the agents show what this one's does, or do not, and follows the calendar,
    /// however far it is ahead, if they have for long enough.
    pub(crate) fn share(&mut self, shared: bool) -> bool {
        if self.ahead.is_none() || !shared {
            self.shared_since = None;
            return false;
        }
        let since = (*self.shared_since.get_or_insert(self.read.boot)).max(self.ahead_since);
        let follows = self.read.boot - since >= SETTLED;
        if follows {
            (self.last, self.high, self.ahead, self.shared_since) = (self.read, self.read, None, None);
        }
        follows
    }

    /// The machine's calendar as it was read last, followed or not.
    pub fn read(&self) -> WallMs {
        self.read.wall
    }

    /// True of a calendar that shows the same as the machine's, from which it was `apart` when both were read.
    pub(crate) fn is_shown_by(&self, apart: SpanMs) -> bool {
        apart.0.saturating_abs() <= JUMP_MAX.0.saturating_mul(self.scale)
    }

    /// Tells whether it runs with the machine's own clock, and began where it may have.
    pub fn steady(&self) -> bool {
        self.ahead.is_none() && !self.far()
    }

    /// Tells whether it began further ahead than a standstill explains.
    pub fn far(&self) -> bool {
        self.far_after.is_some()
    }

    pub fn ahead(&self) -> Option<SpanMs> {
        self.ahead
    }
}

/// Calendars of agents that were heard while this master's was ahead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Witnesses(BTreeMap<SessionId, Witness>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Witness {
    at: BootMs,
    holds: bool,
    alike: bool,
}

impl Witnesses {
    /// Notes that a session's machine shows the same as the master's, or does not, and that it holds a lease, or none.
    pub(crate) fn hear(&mut self, now: BootMs, session: SessionId, holds: bool, alike: bool) {
        if self.0.len() >= WITNESSES_MAX && !self.0.contains_key(&session) {
            self.0.retain(|_, witness| now - witness.at < WITNESS_MAX);
        }
        if self.0.len() >= WITNESSES_MAX && !self.0.contains_key(&session) {
            // Anybody can invent a session, and nobody a lease.
            let invented = self.0.iter().find(|(_, witness)| holds && !witness.holds).map(|(session, _)| *session);
            let Some(invented) = invented else { return };
            self.0.remove(&invented);
        }
        self.0.insert(session, Witness { at: now, holds, alike });
    }

    /// True if most of those heard lately show the same, of those who hold leases, or, where none of them is heard, of all.
    pub(crate) fn agree(&self, now: BootMs) -> bool {
        let recent = || self.0.values().filter(|witness| now - witness.at < WITNESS_MAX);
        let known = recent().any(|witness| witness.holds);
        let counted = || recent().filter(|witness| witness.holds || !known);
        let (all, alike) = (counted().count(), counted().filter(|witness| witness.alike).count());
        2 * alike > all
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::time::{DAY_MS, HOUR_MS};

    fn at(wall: i64, boot: i64) -> Now {
        Now { wall: WallMs(wall), boot: BootMs(boot) }
    }

    const BEGAN: i64 = 20_000 * DAY_MS;

    #[test]
    fn a_jump_ahead_is_not_followed_and_forgotten_when_it_ends() {
        let mut calendar = Calendar::start(at(BEGAN, 0), WallMs(0), 1);
        let (now, began) = calendar.follow(at(BEGAN + 1_000 + HOUR_MS, 1_000));
        assert_eq!((now, began), (at(BEGAN + 1_000, 1_000), Some(SpanMs(HOUR_MS))));
        let (now, again) = calendar.follow(at(BEGAN + 2_000 + HOUR_MS, 2_000));
        assert_eq!((now, again), (at(BEGAN + 2_000, 2_000), None), "it is said once");
        assert!(!calendar.steady());
        assert_eq!(calendar.follow(at(BEGAN + 3_000, 3_000)), (at(BEGAN + 3_000, 3_000), None));
        assert!(calendar.steady());
    }

    #[test]
    fn a_jump_that_stands_is_a_correction_unless_it_is_far() {
        let mut calendar = Calendar::start(at(BEGAN, 0), WallMs(0), 1);
        let ahead = |boot: i64, by: i64| at(BEGAN + boot + by, boot);
        for boot in [1_000, 150_000, 300_000] {
            let (now, _) = calendar.follow(ahead(boot, HOUR_MS));
            assert_eq!(now, at(BEGAN + boot, boot), "not yet");
        }
        // It goes further ahead: that is another jump.
        for boot in [301_000, 600_000] {
            assert_eq!(calendar.follow(ahead(boot, 2 * HOUR_MS)).0, at(BEGAN + boot, boot), "not yet");
        }
        assert_eq!(calendar.follow(ahead(601_000, 2 * HOUR_MS)), (ahead(601_000, 2 * HOUR_MS), None));
        assert!(calendar.steady());
        let mut calendar = Calendar::start(at(BEGAN, 0), WallMs(0), 1);
        for boot in [1_000, 301_000, 90_000_000] {
            assert_eq!(
                calendar.follow(ahead(boot, 2 * DAY_MS)).0,
                at(BEGAN + boot, boot),
                "a wrong day is not followed"
            );
        }
    }

    #[test]
    fn a_longer_jump_is_followed_when_all_have_shown_it_for_as_long() {
        let days = 3 * DAY_MS;
        let mut calendar = Calendar::start(at(BEGAN, 0), WallMs(0), 1);
        assert!(!calendar.share(true), "nothing is ahead");
        for (second, shared) in [(1, true), (200, true), (250, false), (251, true), (301, true), (550, true)] {
            calendar.follow(at(BEGAN + days + second * 1_000, second * 1_000));
            assert!(!calendar.share(shared), "not for long enough at {second} s");
        }
        let now = at(BEGAN + days + 551_000, 551_000);
        assert_eq!(calendar.follow(now).0, at(BEGAN + 551_000, 551_000));
        assert!(calendar.share(true) && calendar.steady());
        assert_eq!(calendar.follow(now), (now, None));
        // Another jump begins anew.
        calendar.follow(at(BEGAN + 2 * days + 600_000, 600_000));
        assert!(!calendar.share(true));
        calendar.follow(at(BEGAN + 3 * days + 899_000, 899_000));
        assert!(!calendar.share(true));
        calendar.follow(at(BEGAN + 3 * days + 901_000, 901_000));
        assert!(!calendar.share(true), "it went further ahead");
    }

    #[test]
    fn most_agents_that_hold_leases_decide_and_who_holds_none_only_among_themselves() {
        let mut witnesses = Witnesses::default();
        assert!(!witnesses.agree(BootMs(0)), "nobody");
        let hear = |witnesses: &mut Witnesses, session, holds, alike| {
            witnesses.hear(BootMs(0), SessionId(session), holds, alike);
            witnesses.agree(BootMs(0))
        };
        assert!(hear(&mut witnesses, 1, false, true));
        assert!(!hear(&mut witnesses, 2, false, false), "a half is not most");
        assert!(hear(&mut witnesses, 3, true, true), "one that holds a lease");
        for liar in 10..5_000 {
            assert!(hear(&mut witnesses, liar, false, false), "as many as like to");
        }
        assert!(witnesses.0.len() <= WITNESSES_MAX);
        assert!(!hear(&mut witnesses, 4, true, false), "there is room for who holds a lease");
        assert!(hear(&mut witnesses, 5, true, true));
        assert!(!witnesses.agree(BootMs(0) + WITNESS_MAX), "that was long ago");
    }

    #[test]
    fn a_step_back_is_followed_and_so_is_the_way_forth_again() {
        let mut calendar = Calendar::start(at(BEGAN, 0), WallMs(0), 1);
        for now in
            [at(BEGAN + 1_000 - HOUR_MS, 1_000), at(BEGAN + 600_000 - HOUR_MS, 600_000), at(BEGAN + 601_000, 601_000)]
        {
            assert_eq!(calendar.follow(now), (now, None));
        }
    }

    #[test]
    fn slow_corrections_are_followed() {
        let mut calendar = Calendar::start(at(BEGAN, 0), WallMs(0), 1);
        for minute in 1..200 {
            let now = at(BEGAN + minute * 60_000 + minute * 10_000, minute * 60_000);
            assert_eq!(calendar.follow(now), (now, None));
        }
    }

    #[test]
    fn what_the_other_one_shows_without_a_jump_is_right() {
        let mut calendar = Calendar::start(at(BEGAN, 0), WallMs(0), 1);
        let ahead = at(BEGAN + HOUR_MS, 1_000);
        calendar.follow(ahead);
        calendar.confirm(WallMs(BEGAN + 1_000));
        assert!(!calendar.steady(), "the other one shows something else");
        calendar.confirm(WallMs(BEGAN + HOUR_MS - 2_000));
        assert!(calendar.steady());
        assert_eq!(calendar.follow(ahead), (ahead, None));
    }

    #[test]
    fn a_start_after_a_long_standstill_is_not_believed_alone() {
        let agreed = WallMs(BEGAN);
        assert!(!Calendar::start(at(BEGAN + 39 * DAY_MS, 0), agreed, 1).far());
        let mut calendar = Calendar::start(at(BEGAN + 41 * DAY_MS, 0), agreed, 1);
        assert!(calendar.far() && !calendar.steady());
        assert!(!Calendar::start(at(BEGAN + 41 * DAY_MS, 0), WallMs(0), 1).far(), "never agreed, or forgotten");
        calendar.follow(at(BEGAN + 41 * DAY_MS, 0));
        calendar.confirm(WallMs(BEGAN + 41 * DAY_MS));
        assert!(calendar.steady());
    }
}
