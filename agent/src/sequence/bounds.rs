//! How far this session may have given numbers of its sections, and as which owner: what it has to remember to go on with them after a
//! restart.
//!
//! Once a master has listed all that is ours without a section, and no other one lists it, only the number is remembered. As its last owner
//! the session must not go on with it: masters that were put back since may give the same `g` once more, after somebody else. The number stays
//! for as long as the session does, although whoever loads a section begins at a master's bound: a master that was declared lost, and lives,
//! lists the section as it did, and has not heard of all that was raised at the other one. So there is a bound for each section that came to
//! the session, and with more than there may be ([`BOUNDS_MAX`]) another session begins at the next start.
//!
//! [`BOUNDS_MAX`]: crate::serial_file::BOUNDS_MAX
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::held::{Held, Standing};
use common::lease::Generation;
use common::namespace::GeneratorName;
use common::rpc::ranges::{NotRaised, Raise, Raised};
use common::sequence::Section;
use common::time::BootMs;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Of one section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bound {
    /// The number of the owner that we were last, and had waited for the one before to stop. `None`: somebody else may have been it since.
    pub g: Option<Generation>,
    /// We gave no number above it, as whichever owner.
    pub max_seq: u64,
}

/// Of all sections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    names: BTreeMap<GeneratorName, BTreeMap<u32, Bound>>,
    len: usize,
}

impl Bounds {
    /// What masters' answers allow: all of it is to be written down before any of it is used.
    pub fn granted<'a>(answers: impl IntoIterator<Item = (&'a Raise, &'a Result<Raised, NotRaised>)>) -> Self {
        let mut bounds = Self::default();
        for (raise, answer) in answers {
            if let Ok(Raised { max_seq, .. }) = answer {
                bounds.note(&raise.name, raise.section, Bound { g: Some(raise.g), max_seq: *max_seq });
            }
        }
        bounds
    }

    /// Of how many sections.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Of a section; `None`: this session gave no number of it.
    pub fn get(&self, name: &GeneratorName, section: Section) -> Option<Bound> {
        self.names.get(name)?.get(&section.0).copied()
    }

    /// Notes one. The later owner counts, or that somebody else may have been it, and the larger number, whoever gave it.
    pub fn note(&mut self, name: &GeneratorName, section: Section, bound: Bound) {
        let sections = match self.names.get_mut(name) {
            Some(sections) => sections,
            None => self.names.entry(name.clone()).or_default(),
        };
        match sections.get_mut(&section.0) {
            Some(known) => {
                known.g = bound.g.and(known.g.max(bound.g));
                known.max_seq = known.max_seq.max(bound.max_seq);
            }
            None => {
                sections.insert(section.0, bound);
                self.len += 1;
            }
        }
    }

    /// Notes all of these.
    pub fn note_all(&mut self, others: &Self) {
        for (name, section, bound) in others.all() {
            self.note(name, section, bound);
        }
    }

    /// All of them, ascending by name and section.
    pub fn all(&self) -> impl Iterator<Item = (&GeneratorName, Section, Bound)> {
        let of = |(name, sections)| std::iter::repeat(name).zip::<&BTreeMap<u32, Bound>>(sections);
        self.names.iter().flat_map(of).map(|(name, (section, bound))| (name, Section(*section), *bound))
    }

    /// Gives what is to be noted of the sections that are not listed for us now: somebody else may own them.
    pub fn lost(&self, listed: &BTreeMap<GeneratorName, Held>, now: BootMs) -> Self {
        let is_listed = |name, section| {
            let standing = listed.get(name).map(|held| held.standing(section, now));
            matches!(standing, Some(Standing::Served(_) | Standing::From(_)))
        };
        let mut lost = Self::default();
        for (name, section, bound) in self.all().filter(|(.., bound)| bound.g.is_some()) {
            if !is_listed(name, section) {
                lost.note(name, section, Bound { g: None, ..bound });
            }
        }
        lost
    }

    /// Cuts sections beside each other, `from` to before `to`, into parts that this owner gave numbers of (`true`), and others.
    pub fn parts(&self, name: &GeneratorName, from: u32, to: u32, g: Generation) -> Vec<(u32, u32, bool)> {
        let mut parts = Vec::new();
        let mut at = from;
        let given = self.names.get(name).into_iter().flat_map(|sections| sections.range(from..to.max(from)));
        for (section, _) in given.filter(|(_, bound)| bound.g == Some(g)) {
            if at < *section {
                parts.push((at, *section, false));
            }
            at = section.saturating_add(1);
            match parts.last_mut() {
                Some((_, end, true)) if *end == *section => *end = at,
                _ => parts.push((*section, at, true)),
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
    use super::super::held::HeldRange;
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
    fn of_sections_that_are_not_listed_now_only_the_number_is_kept() {
        let range = |from, to, since, until| {
            let (g, since, until) = (Generation(5), BootMs(since), BootMs(until));
            HeldRange { from, to, g, since, until }
        };
        let mut held = Held::default();
        for listed in [range(0, 1, 0, 200), range(1, 2, 150, 200), range(2, 3, 0, 100)] {
            held.hear(listed, BootMs(0), BootMs(0));
        }
        let (mut bounds, others) = (Bounds::default(), "others".parse().unwrap());
        (0..4).for_each(|section| bounds.note(&name(), Section(section), bound(5, 700)));
        bounds.note(&others, Section(0), bound(5, 700));
        let listed = BTreeMap::from([(name(), held)]);
        let lost = bounds.lost(&listed, BootMs(100));
        let number = Bound { g: None, max_seq: 700 };
        let (two, three) = ((&name(), Section(2), number), (&name(), Section(3), number));
        assert_eq!(lost.all().collect::<Vec<_>>(), [two, three, (&others, Section(0), number)]);
        bounds.note_all(&lost);
        assert_eq!(bounds.parts(&name(), 0, 4, Generation(5)), [(0, 2, true), (2, 4, false)]);
        assert_eq!((bounds.len(), bounds.get(&others, Section(0))), (5, Some(number)));
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
