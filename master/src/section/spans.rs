//! The sections of one session as compact ranges, kept so while they change: allocators ask for them every other second.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use common::lease::Generation;
use common::namespace::GeneratorName;
use common::rpc::ranges::HeldSections;
use common::sequence::{Section, SectionKey, SectionRange};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Ranges of sections, each with the number of their owner. Those that touch and agree in it are one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Spans(BTreeMap<GeneratorName, BTreeMap<u32, (u32, Generation)>>);

impl Spans {
    /// Adds a section that is not among them.
    pub fn add(&mut self, name: &GeneratorName, section: Section, g: Generation) {
        let spans = match self.0.get_mut(name) {
            Some(spans) => spans,
            None => self.0.entry(name.clone()).or_default(),
        };
        let (mut from, mut to) = (section.0, section.0.saturating_add(1));
        if let Some((before, (end, its))) = spans.range(..from).next_back()
            && (*end, *its) == (from, g)
        {
            from = *before;
        }
        if let Some((end, _)) = spans.get(&to).copied().filter(|(_, its)| *its == g) {
            spans.remove(&to);
            to = end;
        }
        spans.insert(from, (to, g));
    }

    /// Removes a section that is among them.
    pub fn remove(&mut self, name: &GeneratorName, section: Section) {
        let Some(spans) = self.0.get_mut(name) else { return };
        let Some((from, (to, g))) = spans.range(..=section.0).next_back().map(|(from, span)| (*from, *span)) else {
            return;
        };
        if to <= section.0 {
            return;
        }
        spans.remove(&from);
        if from < section.0 {
            spans.insert(from, (section.0, g));
        }
        let after = section.0.saturating_add(1);
        if after < to {
            spans.insert(after, (to, g));
        }
        if spans.is_empty() {
            self.0.remove(name);
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    /// How many sections there are in them.
    pub fn sections(&self) -> u64 {
        let all = self.0.values().flat_map(BTreeMap::iter);
        all.map(|(from, (to, _))| u64::from(to.saturating_sub(*from))).sum()
    }

    /// All of them, ascending; or those after a section, which cuts the one that it is in.
    pub fn held(&self, after: Option<&SectionKey>) -> impl Iterator<Item = HeldSections> {
        let begin = after.map(|key| (&key.name, key.section.0.saturating_add(1)));
        let first = begin.map_or(Bound::Unbounded, |(name, _)| Bound::Included(name));
        self.0.range::<GeneratorName, _>((first, Bound::Unbounded)).flat_map(move |(name, spans)| {
            let least = begin.filter(|(of, _)| *of == name).map_or(0, |(_, least)| least);
            ranges(spans, least).map(|(from, to, g)| HeldSections { name: name.clone(), from, to, g, fresh: None })
        })
    }

    /// Those of them that are among these, ascending.
    pub fn within(&self, range: &SectionRange) -> impl Iterator<Item = HeldSections> {
        let SectionRange { name, from: least, to: end } = range.clone();
        let all = self.0.get(&name).into_iter().flat_map(move |spans| ranges(spans, least.0));
        let within = all.take_while(move |(from, ..)| *from < end);
        within.map(move |(from, to, g)| HeldSections { name: name.clone(), from, to: to.min(end), g, fresh: None })
    }

    /// Those of a name from `least` on, ascending: from where, and up to which section.
    pub fn of_name(&self, name: &GeneratorName, least: Section) -> impl Iterator<Item = (Section, Section)> {
        self.0.get(name).into_iter().flat_map(move |spans| ranges(spans, least.0)).map(|(from, to, _)| (from, to))
    }

    /// All sections of a name, the last ones first.
    pub fn from_the_end_of(&self, name: &GeneratorName) -> impl Iterator<Item = Section> {
        let spans = self.0.get(name).into_iter().flat_map(|spans| spans.iter().rev());
        spans.flat_map(|(from, (to, _))| (*from..*to).rev().map(Section))
    }
}

/// Those from `least` on; the one that it is in is cut.
fn ranges(
    spans: &BTreeMap<u32, (u32, Generation)>,
    least: u32,
) -> impl Iterator<Item = (Section, Section, Generation)> {
    let cut = spans.range(..least).next_back().filter(|(_, (to, _))| *to > least);
    let all = cut.into_iter().chain(spans.range(least..));
    all.map(move |(from, (to, g))| (Section((*from).max(least)), Section(*to), *g))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name() -> GeneratorName {
        "orders".parse().unwrap()
    }

    fn naive(all: &BTreeMap<u32, u64>) -> Vec<(u32, u32, u64)> {
        let mut spans: Vec<(u32, u32, u64)> = Vec::new();
        for (at, g) in all {
            match spans.last_mut() {
                Some(last) if (last.1, last.2) == (*at, *g) => last.1 = at + 1,
                _ => spans.push((*at, at + 1, *g)),
            }
        }
        spans
    }

    proptest! {
        /// However sections come and go, the ranges are as few as can be and hold exactly those that are there.
        #[test]
        fn ranges_are_those_of_a_naive_count(changes in proptest::collection::vec((0_u32..12, 1_u64..3), 0..80)) {
            let (mut spans, mut all) = (Spans::default(), BTreeMap::new());
            for (at, g) in changes {
                match all.remove(&at) {
                    Some(_) => spans.remove(&name(), Section(at)),
                    None => {
                        all.insert(at, g);
                        spans.add(&name(), Section(at), Generation(g));
                    }
                }
                let shown = |span: HeldSections| (span.from.0, span.to.0, span.g.0);
                let held: Vec<_> = spans.held(None).map(shown).collect();
                prop_assert_eq!(&held, &naive(&all));
                // The rest after any section is what a count of the rest gives.
                for last in 0..12 {
                    let after = SectionKey { name: name(), section: Section(last) };
                    let rest: BTreeMap<u32, u64> = all.range(last + 1..).map(|(at, g)| (*at, *g)).collect();
                    prop_assert_eq!(spans.held(Some(&after)).map(shown).collect::<Vec<_>>(), naive(&rest));
                }
                for (from, to) in (0..12).flat_map(|from| (from..=12).map(move |to| (from, to))) {
                    let range = SectionRange { name: name(), from: Section(from), to: Section(to) };
                    let some: BTreeMap<u32, u64> = all.range(from..to).map(|(at, g)| (*at, *g)).collect();
                    prop_assert_eq!(spans.within(&range).map(shown).collect::<Vec<_>>(), naive(&some));
                }
                prop_assert_eq!(spans.len(), held.len());
                prop_assert_eq!(usize::try_from(spans.sections()).unwrap(), all.len());
                prop_assert_eq!(spans.is_empty(), all.is_empty());
                let backwards: Vec<u32> = spans.from_the_end_of(&name()).map(|section| section.0).collect();
                prop_assert_eq!(backwards, all.keys().rev().copied().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn what_is_not_among_them_is_not_removed() {
        let mut spans = Spans::default();
        spans.remove(&name(), Section(1));
        spans.add(&name(), Section(3), Generation(1));
        spans.remove(&name(), Section(4));
        spans.remove(&name(), Section(2));
        assert_eq!(spans.len(), 1);
    }
}
