//! The rest of each axis that one run of this master may still grant, and the use of each axis.
//!
//! An extent that both masters hold becomes a row of places here, in the same commit. Segments are taken from its beginning, and what was
//! taken is durable before anybody hears of it. A later run of this master has none of it: a disk that was put back would grant again
//! what it has forgotten.

use ids::namespace::GeneratorName;
use ids::segment::{MasterRun, Span};
use ids::time::{BootMs, DAY_MS, SpanMs};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Segments of a name that a master wants to have at least, of the length that was asked for last.
pub const SEGMENTS_MIN: u64 = 64;
/// Time for which a master's extents last, as it was used lately, when nothing else is said (`--solo-span`).
pub const SOLO_SPAN: SpanMs = SpanMs::seconds(24 * 3_600);
/// The range of `--solo-span`.
pub const SOLO_SPANS: std::ops::RangeInclusive<SpanMs> = SpanMs::seconds(60)..=SpanMs::seconds(30 * 24 * 3_600);
/// Rows of places of one name at most; beyond it no further extent is asked for.
pub const EXTENTS_MAX: usize = 64;
/// Half-lives of the recent use in a solo span: each is long beside the time that a segment lasts, so that the time from one to the
/// next changes little.
const HALVES: i64 = 8;
/// Factor of the recent use: when less is left, a further extent is asked for. It is checked at each beat, and the use counts most right
/// before half of it is forgotten: as much as two half-lives, or one and three quarters if the two masters' are forgotten at different
/// times. So ten and a half half-lives are left at that moment, and nine and a half until the next such one: eight make a solo span.
const KEPT: u64 = 6;
/// Factor of the recent use that is there after an extent came.
const WANTED: u64 = HALVES as u64;

/// The use of a name, newest counting most: half of it is forgotten after each half-life. Under a steady use it is once to twice what is
/// used in one of them, so what is wanted by it lasts for the solo span at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Use {
    sum: u64,
    at: BootMs,
}

impl Use {
    /// A recent use of `sum` places.
    pub const fn new(sum: u64, now: BootMs) -> Self {
        Self { sum, at: now }
    }

    /// The part of it that counts now.
    pub fn sum(&self, now: BootMs, half: SpanMs) -> u64 {
        let halves = (now - self.at).0.checked_div(half.0).unwrap_or(0);
        u32::try_from(halves).ok().and_then(|halves| self.sum.checked_shr(halves)).unwrap_or(0)
    }

    /// Places used in `day` at this rate. Right after a half-life the sum is what a steady use takes in one of them, and it grows from
    /// there until the next one.
    fn rate(&self, day: SpanMs, now: BootMs, half: SpanMs) -> u64 {
        let since = (now - self.at).0.checked_rem(half.0).unwrap_or(0).max(0);
        part(self.sum(now, half), day.0, half.0.saturating_add(since))
    }

    fn add(&mut self, n: u64, now: BootMs, half: SpanMs) {
        let halves = (now - self.at).0.checked_div(half.0).unwrap_or(0).max(0);
        let sum = self.sum(now, half).saturating_add(n);
        // Whole half-lives, so that what is used often is forgotten, too.
        let at = if self.sum == 0 { now } else { self.at + SpanMs(halves.saturating_mul(half.0)) };
        *self = Self { sum, at };
    }
}

/// `sum x times / of`, as far as numbers go.
fn part(sum: u64, times: i64, of: i64) -> u64 {
    let (times, of) = (u128::from(times.unsigned_abs()), u128::from(of.unsigned_abs()));
    let all = u128::from(sum).saturating_mul(times).checked_div(of).unwrap_or(0);
    u64::try_from(all).unwrap_or(u64::MAX)
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// The places that may still be granted, in the order in which they are.
    spans: Vec<Span>,
    /// Places of the longest segment that was asked for lately.
    longest: u32,
    own: Use,
    /// The other master's use, and its longest segment.
    other: (Use, u32),
    /// The use that the other master was told last.
    told: Option<(u64, u32)>,
}

impl Cursor {
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Counts the places that may still be granted.
    pub fn left(&self) -> u64 {
        self.spans.iter().fold(0, |sum, span| sum.saturating_add(span.len()))
    }
}

/// The cursors of all axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cursors {
    run: MasterRun,
    half: SpanMs,
    /// The length of a day on this machine's clock.
    day: SpanMs,
    of: BTreeMap<GeneratorName, Cursor>,
    /// The place after the last one that agents showed of an axis, where both ledgers know of fewer.
    shown: BTreeMap<GeneratorName, u64>,
    /// The last name that the other one was told of, if there was no room for those behind it: they are next.
    told_to: Option<GeneratorName>,
}

impl Cursors {
    /// The cursors of a run that goes on; those of another one are nobody's.
    pub fn new(run: MasterRun, kept: impl IntoIterator<Item = (MasterRun, GeneratorName, Vec<Span>)>) -> Self {
        let own = kept.into_iter().filter(|(of, _, _)| *of == run);
        let of = own.map(|(_, name, spans)| (name, Cursor { spans, ..Cursor::default() })).collect();
        let mut cursors = Self { run, half: SpanMs(1), day: SpanMs(1), of, shown: BTreeMap::new(), told_to: None };
        cursors.last_for(SOLO_SPAN, 1);
        cursors
    }

    /// Sets the time that extents shall last for, on a clock that runs so many times faster than this machine's.
    pub fn last_for(&mut self, span: SpanMs, scale: u32) {
        let scale = i64::from(scale.max(1));
        self.half = SpanMs((span.0 / HALVES / scale).max(1));
        self.day = SpanMs((DAY_MS / scale).max(1));
    }

    pub const fn run(&self) -> MasterRun {
        self.run
    }

    /// All cursors, ascending by name.
    pub fn iter(&self) -> impl Iterator<Item = (&GeneratorName, &Cursor)> {
        self.of.iter()
    }

    pub fn get(&self, name: &GeneratorName) -> Option<&Cursor> {
        self.of.get(name)
    }

    /// Takes in an extent of this run that is durable.
    pub fn add(&mut self, name: &GeneratorName, span: Span) {
        let cursor = self.of.entry(name.clone()).or_default();
        match cursor.spans.last_mut() {
            Some(last) if last.to == span.from => last.to = span.to,
            _ => cursor.spans.push(span),
        }
    }

    /// Grants no place below `floor` any more. Returns whether that changes something.
    pub fn trim(&mut self, name: &GeneratorName, floor: u64) -> bool {
        let Some(cursor) = self.of.get_mut(name) else { return false };
        let before = cursor.spans.clone();
        cursor.spans.iter_mut().for_each(|span| span.from = span.from.max(floor.min(span.to)));
        cursor.spans.retain(|span| !span.is_empty());
        cursor.spans != before
    }

    /// Notes that an agent shows that the places before `seen` were granted of an axis, of which both ledgers know only those before
    /// `granted`. Returns whether that is news: of a name it is, once.
    pub fn show(&mut self, name: &GeneratorName, seen: u64, granted: u64) -> bool {
        if seen <= granted {
            return false;
        }
        let known = self.shown.insert(name.clone(), seen.max(self.shown(name, granted).unwrap_or(0)));
        known.is_none_or(|known| known <= granted)
    }

    pub fn keep_shown(&mut self, mut goes_on: impl FnMut(&GeneratorName, u64) -> bool) {
        self.shown.retain(|name, seen| goes_on(name, *seen));
    }

    /// All that agents showed, ascending by name.
    pub fn all_shown(&self) -> impl Iterator<Item = (GeneratorName, u64)> {
        self.shown.iter().map(|(name, seen)| (name.clone(), *seen))
    }

    /// The place after the last one that an agent showed of an axis, if it is beyond `granted`, as far as both ledgers know.
    pub fn shown(&self, name: &GeneratorName, granted: u64) -> Option<u64> {
        self.shown.get(name).copied().filter(|seen| *seen > granted)
    }

    /// Takes up to `wanted` places beside each other; `None` if there are none.
    pub fn take(&mut self, name: &GeneratorName, wanted: u32, now: BootMs) -> Option<Span> {
        let half = self.half;
        let cursor = self.of.get_mut(name)?;
        let first = cursor.spans.first_mut()?;
        let segment = first.take(wanted.into());
        cursor.spans.retain(|span| !span.is_empty());
        cursor.own.add(segment.len(), now, half);
        (!segment.is_empty()).then_some(segment)
    }

    /// Notes that somebody asks for that many places. That may be long after the last time, so no longer segment than this one
    /// counts for ever.
    pub fn asked(&mut self, name: &GeneratorName, wanted: u32, now: BootMs) {
        let half = self.half;
        let cursor = self.of.entry(name.clone()).or_default();
        let idle = cursor.own.sum(now, half) == 0;
        cursor.longest = if idle { wanted } else { cursor.longest.max(wanted) };
    }

    /// Notes the other master's use of a name.
    pub fn note_other(&mut self, name: &GeneratorName, sum: u64, longest: u32, now: BootMs) {
        self.of.entry(name.clone()).or_default().other = (Use::new(sum, now), longest);
    }

    /// Counts the further places that this master wants to have, and the least that is worth asking for; `None` as long as there is
    /// enough for a solo span, whenever it begins. Both masters' use counts: either may be the only one for a while.
    pub fn lacks(&self, name: &GeneratorName, now: BootMs) -> Option<(u64, u64)> {
        let cursor = self.of.get(name)?;
        let longest = u64::from(cursor.longest.max(cursor.other.1));
        let used = cursor.own.sum(now, self.half).saturating_add(cursor.other.0.sum(now, self.half));
        let least = longest.saturating_mul(SEGMENTS_MIN);
        let kept = used.saturating_mul(KEPT).max(least / 2);
        let wanted = used.saturating_mul(WANTED).max(least);
        let left = cursor.left();
        let lacks = left < kept && cursor.spans.len() < EXTENTS_MAX;
        lacks.then(|| (wanted.saturating_sub(left), longest))
    }

    /// Places of an axis that both masters grant in a day, at the recent rate: an estimate, that of the other master's part within a third,
    /// because it tells how much it is and not since when.
    pub fn per_day(&self, name: &GeneratorName, now: BootMs) -> u64 {
        let Some(cursor) = self.of.get(name) else { return 0 };
        let own = cursor.own.rate(self.day, now, self.half);
        // Once to twice what is used in a half-life.
        let other =
            part(cursor.other.0.sum(now, self.half), self.day.0.saturating_mul(2), self.half.0.saturating_mul(3));
        own.saturating_add(other)
    }

    /// Tells whether the other master said lately that it grants segments of an axis.
    pub fn other_grants(&self, name: &GeneratorName, now: BootMs) -> bool {
        self.of.get(name).is_some_and(|cursor| cursor.other.0.sum(now, self.half) > 0)
    }

    /// This one's use of a name of which the other master was told nothing yet; it counts as told.
    pub fn first_use(&mut self, name: &GeneratorName, now: BootMs) -> Option<(u64, u32)> {
        let half = self.half;
        let cursor = self.of.get_mut(name).filter(|cursor| cursor.told.is_none())?;
        cursor.told = Some((cursor.own.sum(now, half), cursor.longest));
        cursor.told
    }

    /// Takes what the other master has not been told of this one's use, at most `max` names; it counts as told. Names that change all the
    /// time keep none from its turn.
    pub fn news(&mut self, now: BootMs, max: usize) -> Vec<(GeneratorName, u64, u32)> {
        let half = self.half;
        let is_news = |(name, cursor): (&GeneratorName, &mut Cursor)| {
            let use_now = (cursor.own.sum(now, half), cursor.longest);
            let known = cursor.told.unwrap_or_default();
            (known != use_now).then(|| {
                cursor.told = Some(use_now);
                (name.clone(), use_now.0, use_now.1)
            })
        };
        let after = match self.told_to.take() {
            Some(last) => (Bound::Excluded(last), Bound::Unbounded),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let news: Vec<_> = self.of.range_mut(after).filter_map(is_news).take(max).collect();
        self.told_to = news.last().filter(|_| news.len() == max).map(|(name, ..)| name.clone());
        news
    }

    /// Tells all again, because the other master may have forgotten what it was told.
    pub fn tell_anew(&mut self) {
        self.of.values_mut().for_each(|cursor| cursor.told = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: MasterRun = MasterRun(1);

    fn name(text: &str) -> GeneratorName {
        text.parse().unwrap()
    }

    fn at(hours: i64) -> BootMs {
        BootMs(1_000 + hours * 3_600_000)
    }

    #[test]
    fn only_what_its_own_run_was_granted_is_granted_on() {
        let kept = |run| (run, name("a"), vec![Span { from: 1, to: 9 }]);
        assert_eq!(Cursors::new(RUN, [kept(MasterRun(2))]).get(&name("a")), None);
        let mut cursors = Cursors::new(RUN, [kept(RUN)]);
        assert_eq!(cursors.take(&name("a"), 5, at(0)), Some(Span { from: 1, to: 6 }));
        assert_eq!(cursors.take(&name("a"), 5, at(0)), Some(Span { from: 6, to: 9 }), "what there is");
        assert_eq!(cursors.take(&name("a"), 5, at(0)), None);
        assert_eq!(cursors.take(&name("b"), 5, at(0)), None);
    }

    #[test]
    fn extents_beside_each_other_are_one_row_and_a_raise_cuts_what_lies_below() {
        let mut cursors = Cursors::new(RUN, []);
        for (from, to) in [(1, 5), (5, 9), (20, 30)] {
            cursors.add(&name("a"), Span { from, to });
        }
        let spans = |cursors: &Cursors| cursors.get(&name("a")).unwrap().spans().to_vec();
        assert_eq!(spans(&cursors), [Span { from: 1, to: 9 }, Span { from: 20, to: 30 }]);
        assert!(cursors.trim(&name("a"), 4) && !cursors.trim(&name("a"), 4));
        assert_eq!(spans(&cursors), [Span { from: 4, to: 9 }, Span { from: 20, to: 30 }]);
        assert!(cursors.trim(&name("a"), 25));
        assert_eq!(spans(&cursors), [Span { from: 25, to: 30 }]);
        assert!(cursors.trim(&name("a"), 100) && spans(&cursors).is_empty());
    }

    #[test]
    fn what_is_wanted_lasts_for_the_solo_span_whichever_master_is_asked() {
        let mut cursors = Cursors::new(RUN, []);
        let a = name("a");
        cursors.asked(&a, 100, at(0));
        assert_eq!(cursors.lacks(&a, at(0)), Some((6_400, 100)), "64 segments");
        // 1,000 an hour for two days, in segments of 100.
        let mut place = 1;
        for hour in 0..48 {
            for _ in 0..10 {
                cursors.add(&a, Span { from: place, to: place + 100 });
                place += 100;
                cursors.asked(&a, 100, at(hour));
                assert_eq!(cursors.take(&a, 100, at(hour)).map(Span::len), Some(100));
            }
        }
        let (wanted, _) = cursors.lacks(&a, at(48)).unwrap();
        assert!((22_000..=48_000).contains(&wanted), "{wanted} for a day");
        let mut other = Cursors::new(MasterRun(2), []);
        for (name, sum, longest) in cursors.news(at(47), 10) {
            other.note_other(&name, sum, longest, at(47));
        }
        assert_eq!(other.lacks(&a, at(47)), cursors.lacks(&a, at(47)), "the other one wants as much");
        assert_eq!(cursors.news(at(47), 10), []);
        assert_eq!(other.lacks(&a, at(47 + 96)), Some((6_400, 100)), "and not for ever");
        other.add(&a, Span { from: 1, to: 3_201 });
        assert_eq!(other.lacks(&a, at(143)), None, "half is there");
    }

    #[test]
    fn names_that_change_all_the_time_keep_none_from_its_turn() {
        let mut cursors = Cursors::new(RUN, []);
        let mut told = Vec::new();
        for minute in 0..4 {
            let now = BootMs(1_000 + minute * 60_000);
            for text in ["a", "b", "c", "d", "e"] {
                cursors.add(&name(text), Span { from: 1, to: 100 });
                cursors.take(&name(text), 1, now);
            }
            told.push(cursors.news(now, 2).into_iter().map(|(name, ..)| name.to_string()).collect::<String>());
        }
        // All of them, and from the first one on again.
        assert_eq!(told, ["ab", "cd", "e", "ab"]);
    }

    #[test]
    fn there_is_enough_for_the_solo_span_at_every_moment_of_a_steady_use() {
        let (mut both, a) = ([1, 2].map(|run| Cursors::new(MasterRun(run), [])), name("a"));
        let (mut end, mut least, mut most) = (1, u64::MAX, 0);
        for minute in 0..96 * 60 {
            let now = BootMs(1_000 + minute * 60_000);
            // 144,000 places a day of one master, and 72,000 of the other one.
            for (of, segments) in [(0, 4), (1, 2)] {
                both[of].asked(&a, 25, now);
                for _ in 0..segments {
                    both[of].take(&a, 25, now);
                }
                for (name, sum, longest) in both[of].news(now, 10) {
                    both[1 - of].note_other(&name, sum, longest, now);
                }
                let Some((wanted, _)) = both[of].lacks(&a, now) else { continue };
                both[of].add(&a, Span { from: end, to: end + wanted });
                end += wanted;
            }
            // Four half-lives, until the use is known.
            if minute >= 12 * 60 {
                for left in both.iter().map(|cursors| cursors.get(&a).unwrap().left()) {
                    (least, most) = (least.min(left), most.max(left));
                }
            }
        }
        assert!(least >= 216_000 && most <= 2 * 216_000 + 1_000, "{least} to {most} were left for 216,000 a day");
    }

    #[test]
    fn the_use_of_a_day_is_told_by_that_of_the_last_hours_whenever_one_looks() {
        let (mut cursors, a) = (Cursors::new(RUN, []), name("a"));
        cursors.add(&a, Span { from: 1, to: 1_000_000_000 });
        assert_eq!(cursors.per_day(&a, at(0)), 0);
        for minute in 0..48 * 60 {
            let now = BootMs(1_000 + minute * 60_000);
            cursors.take(&a, 100, now);
            // 144,000 a day.
            let told = cursors.per_day(&a, now);
            assert!(minute < 24 * 60 || (140_000..=148_000).contains(&told), "{told} at minute {minute}");
        }
        let mut other = Cursors::new(MasterRun(2), []);
        assert!(!other.other_grants(&a, at(48)));
        for (name, sum, longest) in cursors.news(at(48), 10) {
            other.note_other(&name, sum, longest, at(48));
        }
        let told = other.per_day(&a, at(48));
        assert!(other.other_grants(&a, at(48)) && (95_000..=193_000).contains(&told), "{told}");
        // A clock that runs 24 times faster makes a day of an hour.
        let mut fast = Cursors::new(RUN, []);
        fast.last_for(SOLO_SPAN, 24);
        fast.add(&a, Span { from: 1, to: 1_000_000 });
        for minute in 0..120 {
            fast.take(&a, 100, BootMs(1_000 + minute * 60_000));
        }
        let told = fast.per_day(&a, at(2));
        assert!((5_500..=6_500).contains(&told), "{told}");
        assert_eq!((cursors.per_day(&a, at(48 + 240)), cursors.per_day(&name("b"), at(0))), (0, 0));
    }

    #[test]
    fn a_long_segment_of_long_ago_is_forgotten() {
        let mut cursors = Cursors::new(RUN, []);
        let a = name("a");
        cursors.add(&a, Span { from: 1, to: 1_000_000 });
        cursors.asked(&a, 5_000, at(0));
        cursors.take(&a, 5_000, at(0));
        cursors.asked(&a, 10, at(1));
        assert_eq!(cursors.get(&a).unwrap().longest, 5_000);
        cursors.asked(&a, 10, at(96));
        assert_eq!(cursors.get(&a).unwrap().longest, 10);
    }
}
