//! The sections of one name that masters list for this session, with the spans in which they may be served.

use ids::lease::Generation;
use ids::sequence::Section;
use ids::time::{BootMs, SpanMs};
use std::collections::BTreeMap;
use std::ops::Range;

/// Sections beside each other that are served alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeldRange {
    /// The first.
    pub from: u32,
    /// After the last.
    pub to: u32,
    /// Our number as the owner.
    pub g: Generation,
    /// The first instant at which they may be served: whoever had them before has stopped by then.
    pub since: BootMs,
    /// The first instant at which they may not be served any more.
    pub until: BootMs,
}

/// An unbroken time for which we serve a section. After a span that ended another one begins, even as the same owner: meanwhile others may
/// have served it, and masters that were put back since do not know of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenure {
    /// Our number as the owner.
    pub g: Generation,
    /// Its first instant.
    pub since: BootMs,
}

/// Our ownership of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ownership {
    /// The section is somebody else's, or nobody's.
    NotOurs,
    /// The section is ours, and served from this instant on.
    From(BootMs),
    /// Ours under this number until our lease ended.
    Over(Generation),
    /// The section is served.
    Served(Tenure),
}

impl HeldRange {
    /// Our ownership of its sections.
    #[inline]
    pub fn ownership(&self, now: BootMs) -> Ownership {
        if now >= self.until {
            Ownership::Over(self.g)
        } else if now < self.since {
            Ownership::From(self.since)
        } else {
            Ownership::Served(Tenure { g: self.g, since: self.since })
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        (self.g, self.since, self.until) == (other.g, other.since, other.until)
    }
}

/// All of a name's.
#[derive(Clone, Debug, Default)]
pub struct HeldRanges {
    /// By the first section; none overlaps another.
    ranges: BTreeMap<u32, HeldRange>,
}

impl HeldRanges {
    /// A master lists these sections, in an answer that came at `received`. What is known of an older owner gives way; of the same owner the
    /// span grows, if this answer says more, and its beginning stays: the wait counts from the answer that listed them first. If the span
    /// has ended, the next one begins at `again`; or as any other, if it ended by `anew`, a wait after a master's newest run was first heard:
    /// masters that were put back may have given them to somebody else since, and now to us under a `g` that we had before. A lower one says
    /// nothing as long as the higher one is remembered: a receipt of that is what masters learn from that they have forgotten it.
    pub fn hear(&mut self, listed: HeldRange, received: BootMs, again: BootMs, anew: Option<BootMs>) {
        let HeldRange { from, to, .. } = listed;
        if from >= to {
            return;
        }
        let mut at = from;
        for old in self.cut(from, to) {
            if at < old.from {
                self.put(HeldRange { from: at, to: old.from, ..listed });
            }
            at = old.to;
            self.put(match old.g.cmp(&listed.g) {
                std::cmp::Ordering::Less => HeldRange { from: old.from, to: old.to, ..listed },
                std::cmp::Ordering::Equal => {
                    let begins = old.until <= received && old.until < listed.until;
                    let again = if anew.is_some_and(|anew| old.until <= anew) { listed.since } else { again };
                    let since = if begins { old.since.max(again) } else { old.since };
                    HeldRange { since, until: old.until.max(listed.until), ..old }
                }
                std::cmp::Ordering::Greater => old,
            });
        }
        if at < to {
            self.put(HeldRange { from: at, ..listed });
        }
        self.join(from, to);
    }

    fn put(&mut self, range: HeldRange) {
        self.ranges.insert(range.from, range);
    }

    /// Takes out what lies in these sections, cut at their borders.
    fn cut(&mut self, from: u32, to: u32) -> Vec<HeldRange> {
        let before = self.ranges.range(..from).next_back().map(|(_, old)| *old).filter(|old| old.to > from);
        if let Some(old) = before {
            self.put(HeldRange { to: from, ..old });
            self.put(HeldRange { from, ..old });
        }
        let last = self.ranges.range(from..to).next_back().map(|(_, old)| *old).filter(|old| old.to > to);
        if let Some(old) = last {
            self.put(HeldRange { to, ..old });
            self.put(HeldRange { from: to, ..old });
        }
        let within: Vec<u32> = self.ranges.range(from..to).map(|(begin, _)| *begin).collect();
        within.iter().filter_map(|begin| self.ranges.remove(begin)).collect()
    }

    /// Puts together what lies beside each other and is alike, from just before `from` to just behind `to`.
    fn join(&mut self, from: u32, to: u32) {
        let begin = self.ranges.range(..from).next_back().map_or(from, |(begin, _)| *begin);
        let near: Vec<HeldRange> = self.ranges.range(begin..=to).map(|(_, range)| *range).collect();
        let mut last: Option<HeldRange> = None;
        for this in near {
            last = match last {
                Some(before) if before.to == this.from && before.is_like(&this) => {
                    self.ranges.remove(&this.from);
                    let both = HeldRange { to: this.to, ..before };
                    self.put(both);
                    Some(both)
                }
                _ => Some(this),
            };
        }
    }

    /// Forgets what ended that long ago, of time in which masters answered: they have answered again since `answered`. Listed again, it
    /// waits again.
    pub fn prune(&mut self, now: BootMs, answered: BootMs, after: SpanMs) {
        let is_over = |_: &u32, range: &mut HeldRange| range.until.max(answered) + after <= now;
        self.ranges.extract_if(.., is_over).for_each(drop);
    }

    /// All spans end now.
    pub fn end(&mut self, now: BootMs) {
        self.ranges.values_mut().for_each(|range| range.until = range.until.min(now));
    }

    /// Our ownership of a section.
    pub fn ownership(&self, section: Section, now: BootMs) -> Ownership {
        let range = self.ranges.range(..=section.0).next_back().map(|(_, range)| range);
        range.filter(|range| section.0 < range.to).map_or(Ownership::NotOurs, |range| range.ownership(now))
    }

    /// Ranges of these sections, ascending, cut at their borders.
    pub fn among(&self, sections: &Range<u32>) -> impl Iterator<Item = HeldRange> {
        let Range { start, end } = sections.clone();
        let first = self.ranges.range(..=start).next_back().map_or(start, |(from, _)| *from);
        let near = self.ranges.range(first..end.max(first)).map(|(_, range)| *range);
        let cut = move |range: HeldRange| HeldRange { from: range.from.max(start), to: range.to.min(end), ..range };
        near.map(cut).filter(|range| range.from < range.to)
    }

    /// All of them, ascending.
    pub fn ranges(&self) -> impl Iterator<Item = &HeldRange> {
        self.ranges.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(from: u32, to: u32, g: u64, since: i64, until: i64) -> HeldRange {
        HeldRange { from, to, g: Generation(g), since: BootMs(since), until: BootMs(until) }
    }

    #[test]
    fn a_span_has_its_beginning_and_its_end() {
        let mut held = HeldRanges::default();
        let hear =
            |held: &mut HeldRanges, listed, received| held.hear(listed, BootMs(received), BootMs(received), None);
        let served = |g, since| Ownership::Served(Tenure { g: Generation(g), since: BootMs(since) });
        hear(&mut held, range(0, 4, 2, 100, 200), 0);
        let ownership = |held: &HeldRanges, section, now| held.ownership(Section(section), BootMs(now));
        assert_eq!(ownership(&held, 4, 150), Ownership::NotOurs);
        assert_eq!(ownership(&held, 3, 99), Ownership::From(BootMs(100)));
        assert_eq!(ownership(&held, 3, 100), served(2, 100));
        assert_eq!(ownership(&held, 3, 199), served(2, 100));
        assert_eq!(ownership(&held, 3, 200), Ownership::Over(Generation(2)));
        // Listed again: no new wait, a longer span; an older answer changes nothing.
        hear(&mut held, range(2, 3, 2, 180, 280), 180);
        hear(&mut held, range(2, 3, 2, 10, 110), 190);
        hear(&mut held, range(2, 3, 1, 0, 999), 190);
        assert_eq!(ownership(&held, 2, 279), served(2, 100));
        assert_eq!(ownership(&held, 2, 280), Ownership::Over(Generation(2)));
        // Another owner's number: all begins anew.
        hear(&mut held, range(2, 3, 3, 500, 600), 270);
        assert_eq!(ownership(&held, 2, 250), Ownership::From(BootMs(500)));
        // After a span that ended another one begins, as the same owner.
        hear(&mut held, range(0, 2, 2, 999, 350), 220);
        assert_eq!(
            (ownership(&held, 1, 220), ownership(&held, 3, 220)),
            (served(2, 220), Ownership::Over(Generation(2)))
        );
        // One that is on its way to an end is over at once.
        held.end(BootMs(230));
        assert_eq!(ownership(&held, 1, 230), Ownership::Over(Generation(2)));
        held.prune(BootMs(340), BootMs(250), SpanMs(100));
        assert_eq!(held.ranges().count(), 3, "masters have not answered for that long");
        held.prune(BootMs(360), BootMs(0), SpanMs(100));
        assert_eq!(held.ranges().count(), 0);
    }

    proptest! {
        /// As if each section were kept by itself.
        #[test]
        fn ranges_are_what_their_sections_are(
            said in proptest::collection::vec((0u32..40, 0u32..12, 1u64..4, 0i64..50, 50i64..100), 0..40),
        ) {
            let mut held = HeldRanges::default();
            let mut plain: BTreeMap<u32, HeldRange> = BTreeMap::new();
            for (from, len, g, since, until) in said {
                held.hear(range(from, from + len, g, since, until), BootMs(0), BootMs(0), None);
                for section in from..from + len {
                    let new = HeldRange { from: section, to: section + 1, ..range(from, from + len, g, since, until) };
                    let old = plain.entry(section).or_insert(new);
                    if old.g < new.g {
                        *old = new;
                    } else if old.g == new.g {
                        old.until = old.until.max(new.until);
                    }
                }
            }
            for section in 0..60 {
                for now in [0, 25, 49, 50, 75, 100] {
                    let expected = plain.get(&section).map_or(Ownership::NotOurs, |one| one.ownership(BootMs(now)));
                    prop_assert_eq!(held.ownership(Section(section), BootMs(now)), expected);
                }
            }
            for (from, to) in (0..60).flat_map(|from| [(from, from), (from, from + 1), (from, 45)]) {
                let among = held.among(&(from..to)).flat_map(|one| one.from..one.to).collect::<Vec<_>>();
                prop_assert_eq!(among, plain.keys().copied().filter(|at| (from..to).contains(at)).collect::<Vec<_>>());
            }
            let all: Vec<_> = held.ranges().collect();
            for pair in all.windows(2) {
                prop_assert!(pair[0].to < pair[1].from || !pair[0].is_like(pair[1]));
            }
        }
    }
}
