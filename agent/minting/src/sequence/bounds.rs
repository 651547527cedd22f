//! The bounds up to which this session may have given numbers of its sections, and as which owner: what it has to remember to go on with them after a
//! restart.
//!
//! Once a master has listed all that is ours without a section, and no other one lists it, or we have to wait for it or have it under another
//! `g`, only the number is remembered. As its last owner the session must not go on with it: masters that were put back since may give the same `g` once more, after somebody else. The number stays
//! for as long as the session does, although whoever loads a section begins at a master's bound: a master that was declared lost, and lives,
//! lists the section as it did, and has not heard of all that was raised at the other one. So there is a bound for all sections of which the
//! session gave numbers, one for those beside each other that are alike, and with more than there may be (`BOUNDS_MAX` of the serial file) another session begins at
//! the next start. Of sections that were raised together each counts as given up to their bound.

use super::allocator::Listed;
use super::held::{Ownership, Tenure};
use ids::lease::Generation;
use ids::namespace::GeneratorName;
use ids::segment::MasterRun;
use ids::sequence::Section;
use ids::time::BootMs;
use rangemap::RangeMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use wire::ranges::{Raise, Raised, RaisedSections};

/// Of one section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bound {
    /// The number of the owner that we were last, and had waited for the one before to stop. `None`: somebody else may have been it since.
    pub g: Option<Generation>,
    /// We gave no number above it, as whichever owner.
    pub max_seq: u64,
}

/// Runs of masters that are remembered: more than any cluster has masters.
pub const RUNS_MAX: usize = 8;

/// Of all sections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    names: BTreeMap<GeneratorName, RangeMap<u32, Bound>>,
    /// The newest runs in which masters told us what they list, for so long that nothing is left of what they told us in others.
    runs: Vec<MasterRun>,
}

impl Bound {
    /// Both of one section: the later owner counts, or that somebody else may have been it, and the larger number, whoever gave it.
    fn after(self, known: Self) -> Self {
        Self { g: self.g.and(known.g.max(self.g)), max_seq: known.max_seq.max(self.max_seq) }
    }
}

impl Bounds {
    /// Bounds that masters' answers to raises allow: all of it is to be written down before any of it is used.
    pub fn granted<'a>(answers: impl IntoIterator<Item = (&'a Raise, &'a Vec<RaisedSections>)>) -> Self {
        let mut bounds = Self::default();
        for (raise, answer) in answers {
            for RaisedSections { from, to, outcome } in answer {
                if let Ok(Raised { max_seq, .. }) = *outcome {
                    bounds.note_range(&raise.sections.name, from.0..to.0, Bound { g: Some(raise.g), max_seq });
                }
            }
        }
        bounds
    }

    /// Counts them, one for sections beside each other that are alike.
    pub fn len(&self) -> usize {
        self.names.values().map(RangeMap::len).sum()
    }

    /// Tells whether nothing is noted.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.runs.is_empty()
    }

    /// The runs of masters.
    pub fn runs(&self) -> &[MasterRun] {
        &self.runs
    }

    /// Notes a run of a master, and forgets of too many the one that was noted longest ago.
    pub fn note_run(&mut self, run: MasterRun) {
        self.runs.retain(|known| *known != run);
        self.runs.push(run);
        let old = self.runs.len().saturating_sub(RUNS_MAX);
        self.runs.drain(..old);
    }

    /// Of a section; `None`: this session gave no number of it.
    pub fn get(&self, name: &GeneratorName, section: Section) -> Option<Bound> {
        self.names.get(name)?.get(&section.0).copied()
    }

    /// Notes one of a section.
    pub fn note(&mut self, name: &GeneratorName, section: Section, bound: Bound) {
        self.note_range(name, section.0..section.0.saturating_add(1), bound);
    }

    /// Notes one of each of these sections.
    pub fn note_range(&mut self, name: &GeneratorName, sections: Range<u32>, bound: Bound) {
        if sections.is_empty() {
            return;
        }
        let bounds = match self.names.get_mut(name) {
            Some(bounds) => bounds,
            None => self.names.entry(name.clone()).or_default(),
        };
        let cut = |known: &Range<u32>| known.start.max(sections.start)..known.end.min(sections.end);
        let known: Vec<_> = bounds.overlapping(&sections).map(|(of, known)| (cut(of), bound.after(*known))).collect();
        bounds.insert(sections, bound);
        known.into_iter().for_each(|(of, both)| bounds.insert(of, both));
    }

    /// Notes all of these.
    pub fn note_all(&mut self, others: &Self) {
        for (name, sections, bound) in others.all() {
            self.note_range(name, sections, bound);
        }
        others.runs.iter().for_each(|run| self.note_run(*run));
    }

    /// All of them, ascending by name and section.
    pub fn all(&self) -> impl Iterator<Item = (&GeneratorName, Range<u32>, Bound)> {
        self.names.iter().flat_map(|(name, bounds)| bounds.iter().map(move |(of, bound)| (name, of.clone(), *bound)))
    }

    /// Gives what is to be noted of the sections that we do not serve now as the owner that is noted: somebody else may own them; and of runs,
    /// if one is new.
    pub fn lost(&self, listed: &Listed, now: BootMs) -> Self {
        let mut lost = Self::default();
        if listed.runs.iter().any(|run| !self.runs.contains(run)) {
            listed.runs.iter().for_each(|run| lost.note_run(*run));
        }
        for (name, sections, bound) in self.all().filter(|(.., bound)| bound.g.is_some()) {
            let gone = Bound { g: None, ..bound };
            let mut at = sections.start;
            for range in listed.names.get(name).into_iter().flat_map(|held| held.among(&sections)) {
                // Under another number, and whenever we have to wait, somebody else may have had it.
                let ours = |Tenure { g, .. }: Tenure| bound.g == Some(g);
                if matches!(range.ownership(now), Ownership::Served(tenure) if ours(tenure)) {
                    lost.note_range(name, at..range.from, gone);
                    at = range.to;
                }
            }
            lost.note_range(name, at..sections.end, gone);
        }
        lost
    }

    /// Cuts sections beside each other, `from` to before `to`, into parts that this owner gave numbers of (`true`), and others.
    pub fn parts(&self, name: &GeneratorName, from: u32, to: u32, g: Generation) -> Vec<(u32, u32, bool)> {
        let mut parts = Vec::new();
        let mut at = from;
        let given = self.names.get(name).filter(|_| from < to);
        let given = given.into_iter().flat_map(|bounds| bounds.overlapping(from..to));
        for (sections, _) in given.filter(|(_, bound)| bound.g == Some(g)) {
            let (begin, end) = (sections.start.max(from), sections.end.min(to));
            if at < begin {
                parts.push((at, begin, false));
            }
            at = end;
            match parts.last_mut() {
                Some((_, last, true)) if *last == begin => *last = end,
                _ => parts.push((begin, end, true)),
            }
        }
        if at < to {
            parts.push((at, to, false));
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::super::held::{HeldRange, HeldRanges};
    use super::*;
    use proptest::prelude::*;

    fn name() -> GeneratorName {
        "orders".parse().unwrap()
    }

    fn bound(g: u64, max_seq: u64) -> Bound {
        Bound { g: Some(Generation(g)), max_seq }
    }

    #[test]
    fn neither_the_owner_nor_the_number_goes_back() {
        let mut bounds = Bounds::default();
        bounds.note(&name(), Section(3), bound(2, 500));
        bounds.note(&name(), Section(3), bound(3, 100));
        assert_eq!(bounds.get(&name(), Section(3)), Some(bound(3, 500)));
        bounds.note(&name(), Section(3), bound(2, 700));
        assert_eq!(bounds.get(&name(), Section(3)), Some(bound(3, 700)));
        assert_eq!((bounds.len(), bounds.get(&name(), Section(4))), (1, None));
        assert_eq!(bounds.get(&"others".parse().unwrap(), Section(3)), None);
    }

    #[test]
    fn of_sections_that_are_not_served_now_as_that_owner_only_the_number_is_kept() {
        let range = |from, to, g, since, until| {
            let (g, since, until) = (Generation(g), BootMs(since), BootMs(until));
            HeldRange { from, to, g, since, until }
        };
        let mut held = HeldRanges::default();
        let waits = range(3, 4, 5, 150, 200);
        for listed in [range(0, 2, 5, 0, 200), range(2, 3, 5, 0, 100), waits, range(4, 5, 4, 0, 200)] {
            held.hear(listed, BootMs(0), BootMs(0), None);
        }
        let (mut bounds, others) = (Bounds::default(), "others".parse().unwrap());
        (0..6).for_each(|section| bounds.note(&name(), Section(section), bound(5, 700)));
        bounds.note(&others, Section(0), bound(5, 700));
        let listed = Listed { names: BTreeMap::from([(name(), held)]), runs: vec![MasterRun(7)] };
        let lost = bounds.lost(&listed, BootMs(100));
        assert_eq!(lost.runs(), [MasterRun(7)]);
        let number = Bound { g: None, max_seq: 700 };
        assert_eq!(lost.all().collect::<Vec<_>>(), [(&name(), 2..6, number), (&others, 0..1, number)]);
        bounds.note_all(&lost);
        assert_eq!(bounds.parts(&name(), 0, 6, Generation(5)), [(0, 2, true), (2, 6, false)]);
        assert_eq!((bounds.len(), bounds.get(&others, Section(0))), (3, Some(number)));
        assert!(bounds.lost(&listed, BootMs(100)).is_empty(), "once is enough");
        // As its owner again, and raised.
        bounds.note(&name(), Section(3), bound(5, 600));
        assert_eq!(bounds.get(&name(), Section(3)), Some(bound(5, 700)));
    }

    #[test]
    fn what_is_listed_is_cut_where_the_owner_is_known() {
        let mut bounds = Bounds::default();
        for (section, g) in [(2, 5), (3, 5), (4, 6), (6, 5)] {
            bounds.note(&name(), Section(section), bound(g, 1));
        }
        let parts = |from, to, g| bounds.parts(&name(), from, to, Generation(g));
        assert_eq!(parts(0, 9, 5), [(0, 2, false), (2, 4, true), (4, 6, false), (6, 7, true), (7, 9, false)]);
        assert_eq!(parts(2, 4, 5), [(2, 4, true)]);
        assert_eq!(parts(0, 9, 7), [(0, 9, false)]);
        assert_eq!((parts(5, 5, 5), parts(6, 2, 5)), (vec![], vec![]));
        assert_eq!(bounds.parts(&"others".parse().unwrap(), 0, 2, Generation(5)), [(0, 2, false)]);
    }

    proptest! {
        /// As if each section were noted by itself, and in as few entries as can be.
        #[test]
        fn ranges_are_what_their_sections_are(
            noted in proptest::collection::vec((0u32..30, 0u32..12, proptest::option::of(1u64..3), 1u64..4), 0..30),
            listed in proptest::collection::vec((0u32..30, 0u32..12, 0i64..3), 0..8),
        ) {
            let (mut bounds, mut plain) = (Bounds::default(), BTreeMap::<u32, Bound>::new());
            for (from, len, g, max_seq) in noted {
                let bound = Bound { g: g.map(Generation), max_seq };
                bounds.note_range(&name(), from..from + len, bound);
                for section in from..from + len {
                    let known = plain.get(&section).map_or(bound, |known| bound.after(*known));
                    plain.insert(section, known);
                }
            }
            let all: Vec<_> = bounds.all().collect();
            prop_assert!(all.windows(2).all(|pair| pair[0].1.end < pair[1].1.start || pair[0].2 != pair[1].2));
            prop_assert_eq!(all.len(), bounds.len());
            let mut held = HeldRanges::default();
            for (from, len, until) in listed {
                let range = HeldRange {
                    from, to: from + len, g: Generation(1), since: BootMs(0), until: BootMs(until),
                };
                held.hear(range, BootMs(0), BootMs(0), None);
            }
            let names = BTreeMap::from([(name(), held.clone())]);
            let lost = bounds.lost(&Listed { names, runs: Vec::new() }, BootMs(1));
            for section in (0..50).map(Section) {
                let known = plain.get(&section.0).copied();
                prop_assert_eq!(bounds.get(&name(), section), known);
                let served = |known: &Bound| match held.ownership(section, BootMs(1)) {
                    Ownership::Served(tenure) => known.g == Some(tenure.g),
                    _ => false,
                };
                let number = known.filter(|known| known.g.is_some() && !served(known)).map(|known| Bound { g: None, ..known });
                prop_assert_eq!(lost.get(&name(), section), number);
            }
        }

        #[test]
        fn parts_are_all_of_what_was_listed(
            noted in proptest::collection::vec((0u32..40, 1u64..3), 0..40), from in 0u32..40, len in 0u32..40,
        ) {
            let mut bounds = Bounds::default();
            noted.iter().for_each(|(section, g)| bounds.note(&name(), Section(*section), bound(*g, 1)));
            let parts = bounds.parts(&name(), from, from + len, Generation(2));
            let listed: Vec<(u32, bool)> =
                parts.iter().flat_map(|(from, to, ours)| (*from..*to).map(|section| (section, *ours))).collect();
            let ours = |section| bounds.get(&name(), Section(section)).is_some_and(|bound| bound.g == Some(Generation(2)));
            prop_assert_eq!(listed, (from..from + len).map(|section| (section, ours(section))).collect::<Vec<_>>());
            prop_assert!(parts.windows(2).all(|pair| pair[0].2 != pair[1].2), "no more than it takes: {:?}", parts);
        }
    }
}
