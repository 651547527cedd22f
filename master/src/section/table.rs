//! The table of sections and proposals, with the indexes that keep every question off a full scan.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::spans::Spans;
use super::{Held, Proposed};
use common::lease::Generation;
use common::namespace::GeneratorName;
use common::parameters::SessionId;
use common::sequence::{Section, SectionKey, SectionOwner, SectionRange, SectionRecord};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// What one master knows of every section that was ever given to somebody, and what it proposes of those that are at home with it. The
/// two maps are the truth; all else is derived from them and changes only with them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SectionTable {
    names: BTreeMap<GeneratorName, Sections>,
    /// What is listed for each session: its records of which no proposal is open here.
    listed: BTreeMap<SessionId, Spans>,
    /// How many sections of each name each session has or is to have.
    counts: BTreeMap<SessionId, BTreeMap<GeneratorName, u32>>,
    /// Each owner once, however many sections it has.
    owners: BTreeMap<SessionId, Arc<SectionOwner>>,
    records: usize,
    preps: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Sections {
    records: BTreeMap<Section, Held>,
    preps: BTreeMap<Section, Proposed>,
}

impl SectionTable {
    /// The table with these records, each with what the other master holds, and these proposals.
    pub fn new(
        records: impl IntoIterator<Item = (SectionRecord, u64)>,
        preps: impl IntoIterator<Item = SectionRecord>,
    ) -> Self {
        let mut table = Self::default();
        for (SectionRecord { key, g, owner, max_seq }, peer_has) in records {
            let owner = table.shared(owner);
            table.put(&key, Held { g, owner, max_seq, peer_has });
        }
        for prep in preps {
            table.put_prep(prep);
        }
        table
    }

    /// One and the same owner is kept once.
    fn shared(&mut self, owner: SectionOwner) -> Arc<SectionOwner> {
        match self.owners.get(&owner.session) {
            Some(known) if **known == owner => Arc::clone(known),
            _ => {
                let owner = Arc::new(owner);
                self.owners.insert(owner.session, Arc::clone(&owner));
                owner
            }
        }
    }

    /// A section that was given to somebody.
    pub fn get(&self, key: &SectionKey) -> Option<&Held> {
        self.names.get(&key.name)?.records.get(&key.section)
    }

    /// The proposal of it that waits for its confirmation.
    pub fn prep(&self, key: &SectionKey) -> Option<&Proposed> {
        self.names.get(&key.name)?.preps.get(&key.section)
    }

    /// How many sections there are, those that are proposed for the first time among them.
    pub fn len(&self) -> usize {
        self.records.saturating_add(self.preps)
    }

    /// How many of a name there are.
    pub fn len_of(&self, name: &GeneratorName) -> usize {
        self.names.get(name).map_or(0, |all| all.records.len().saturating_add(all.preps.len()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many proposals there are.
    pub fn preps_len(&self) -> usize {
        self.preps
    }

    /// All sections, ascending.
    pub fn all(&self) -> impl Iterator<Item = (SectionKey, &Held)> {
        self.names.iter().flat_map(|(name, sections)| {
            let key = |section: &Section| SectionKey { name: name.clone(), section: *section };
            sections.records.iter().map(move |(section, held)| (key(section), held))
        })
    }

    /// All proposals, ascending.
    pub fn preps(&self) -> impl Iterator<Item = SectionRecord> {
        self.names.iter().flat_map(|(name, sections)| {
            let key = |section: &Section| SectionKey { name: name.clone(), section: *section };
            sections.preps.iter().map(move |(section, prep)| prep.record(key(section)))
        })
    }

    /// Ranges of sections of one name from `from` on that are listed for somebody, ascending, and the record of the first one of each; the
    /// others have the same owner. None takes longer the more sections are in it.
    pub fn routes_of(&self, name: &GeneratorName, from: Section) -> impl Iterator<Item = (Section, Section, &Held)> {
        // The next one of each owner, by where it begins: no two overlap.
        let mut next = BTreeMap::new();
        for spans in self.listed.values() {
            let mut rest = spans.of_name(name, from);
            if let Some((begin, end)) = rest.next() {
                next.insert(begin, (end, rest));
            }
        }
        let records = self.names.get(name).map(|all| &all.records);
        std::iter::from_fn(move || {
            let (begin, (end, mut rest)) = next.pop_first()?;
            if let Some((from, to)) = rest.next() {
                next.insert(from, (to, rest));
            }
            Some((begin, end, records?.get(&begin)?))
        })
    }

    /// The names of which there are sections or proposals, from `from` on.
    pub fn names(&self, from: Option<&GeneratorName>) -> impl Iterator<Item = &GeneratorName> {
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        self.names.range::<GeneratorName, _>((from, Bound::Unbounded)).map(|(name, _)| name)
    }

    /// All of a name from `from` on, ascending: the record, the proposal, or both.
    pub fn of_name(
        &self,
        name: &GeneratorName,
        from: Section,
    ) -> impl Iterator<Item = (Section, Option<&Held>, Option<&Proposed>)> {
        self.names.get(name).into_iter().flat_map(move |sections| {
            let mut records = sections.records.range(from..).peekable();
            let mut preps = sections.preps.range(from..).peekable();
            std::iter::from_fn(move || {
                let next = match (records.peek(), preps.peek()) {
                    (Some((record, _)), Some((prep, _))) => **record.min(prep),
                    (Some((record, _)), None) => **record,
                    (None, Some((prep, _))) => **prep,
                    (None, None) => return None,
                };
                let held = records.next_if(|(section, _)| **section == next).map(|(_, held)| held);
                let prep = preps.next_if(|(section, _)| **section == next).map(|(_, prep)| prep);
                Some((next, held, prep))
            })
        })
    }

    /// The first of these sections that is nobody's, or whose owners, proposed ones among them, are fewer than `g`.
    pub fn first_below(&self, range: &SectionRange, g: Generation) -> Option<SectionKey> {
        let mut next = range.from;
        for (section, held, prep) in self.of_name(&range.name, range.from) {
            let known = held.map(|held| held.g).max(prep.map(|prep| prep.g));
            if section != next || next >= range.to || known < Some(g) {
                break;
            }
            next = Section(section.0.saturating_add(1));
        }
        (next < range.to).then(|| SectionKey { name: range.name.clone(), section: next })
    }

    /// The first and the last section of a name of which there is a record or a proposal.
    pub fn ends(&self, name: &GeneratorName) -> Option<(Section, Section)> {
        let Sections { records, preps } = self.names.get(name)?;
        let first = records.keys().next().into_iter().chain(preps.keys().next()).min()?;
        let last = records.keys().next_back().into_iter().chain(preps.keys().next_back()).max()?;
        Some((*first, *last))
    }

    /// Those of a name above `after` and up to `to` (`None`: to the end of the name) of which there is a record.
    pub fn between(&self, after: Option<&SectionKey>, to: Option<&SectionKey>) -> Vec<SectionKey> {
        let keys = self.after(after).map(|(key, _)| key);
        keys.take_while(|key| to.is_none_or(|to| key <= to)).collect()
    }

    fn after(&self, after: Option<&SectionKey>) -> impl Iterator<Item = (SectionKey, &Held)> {
        let first = after.map_or(Bound::Unbounded, |key| Bound::Included(key.name.clone()));
        self.names.range((first, Bound::Unbounded)).flat_map(move |(name, sections)| {
            let start = after_in(after, name);
            let key = |section: &Section| SectionKey { name: name.clone(), section: *section };
            sections.records.range((start, Bound::Unbounded)).map(move |(section, held)| (key(section), held))
        })
    }

    fn preps_after(&self, after: Option<&SectionKey>) -> impl Iterator<Item = SectionRecord> {
        let first = after.map_or(Bound::Unbounded, |key| Bound::Included(key.name.clone()));
        self.names.range((first, Bound::Unbounded)).flat_map(move |(name, sections)| {
            let start = after_in(after, name);
            let key = |section: &Section| SectionKey { name: name.clone(), section: *section };
            sections.preps.range((start, Bound::Unbounded)).map(move |(section, prep)| prep.record(key(section)))
        })
    }

    /// What follows `after`, ascending: the records, the proposals if they are wanted too, and whether that was all. Not more than
    /// `max` of both together; whatever is said of one section is on one page.
    pub fn page(
        &self,
        after: Option<&SectionKey>,
        with_preps: bool,
        max: usize,
    ) -> (Vec<SectionRecord>, Vec<SectionRecord>, bool) {
        let one_more = max.saturating_add(1);
        let mut records: Vec<_> = self.after(after).take(one_more).map(|(key, held)| held.record(key)).collect();
        let wanted = if with_preps { one_more } else { 0 };
        let mut preps: Vec<_> = self.preps_after(after).take(wanted).collect();
        let mut keys: Vec<_> = records.iter().chain(&preps).map(|record| record.key.clone()).collect();
        keys.sort_unstable();
        let next = keys.get(max).cloned();
        if let Some(next) = &next {
            records.retain(|record| record.key < *next);
            preps.retain(|record| record.key < *next);
        }
        (records, preps, next.is_none())
    }

    /// What this master lists for a session.
    pub fn listed(&self, session: SessionId) -> Option<&Spans> {
        self.listed.get(&session)
    }

    /// Who has sections or is to have some.
    pub fn owners(&self) -> impl Iterator<Item = SessionId> {
        self.counts.keys().copied()
    }

    /// How many sections of each name a session has or is to have.
    pub fn counts(&self, session: SessionId) -> impl Iterator<Item = (&GeneratorName, u32)> {
        self.counts.get(&session).into_iter().flatten().map(|(name, count)| (name, *count))
    }

    /// Who has, or is to have, the nearest sections before and after one, not further away than `reach`.
    pub fn neighbours(&self, key: &SectionKey, reach: u32) -> [Option<SessionId>; 2] {
        let Some(sections) = self.names.get(&key.name) else { return [None, None] };
        let at = key.section.0;
        let (low, high) = (Section(at.saturating_sub(reach)), Section(at.saturating_add(reach)));
        let before = (Bound::Included(low), Bound::Excluded(key.section));
        let after = (Bound::Excluded(key.section), Bound::Included(high.max(Section(at.saturating_add(1)))));
        let of =
            |record: Option<(&Section, &Held)>, prep: Option<(&Section, &Proposed)>, nearer: fn(u32, u32) -> bool| {
                let prep = prep.map(|(section, prep)| (section.0, prep.owner.session));
                let record = record.map(|(section, held)| (section.0, held.owner.session));
                match (prep, record) {
                    (Some(prep), Some(record)) if nearer(record.0, prep.0) => Some(record.1),
                    (prep, record) => prep.or(record).map(|(_, session)| session),
                }
            };
        [
            of(sections.records.range(before).next_back(), sections.preps.range(before).next_back(), |a, b| a > b),
            of(sections.records.range(after).next(), sections.preps.range(after).next(), |a, b| a < b),
        ]
    }

    /// Writes a record.
    pub fn put(&mut self, key: &SectionKey, held: Held) {
        let owner = self.shared(SectionOwner::clone(&held.owner));
        self.change(key, |sections| drop(sections.records.insert(key.section, Held { owner, ..held })));
    }

    /// What the other master says that it holds of it.
    pub fn note_peer_has(&mut self, key: &SectionKey, peer_has: u64) {
        let held = self.names.get_mut(&key.name).and_then(|sections| sections.records.get_mut(&key.section));
        if let Some(held) = held {
            held.peer_has = held.peer_has.max(peer_has.min(held.max_seq));
        }
    }

    /// Writes a proposal.
    pub fn put_prep(&mut self, prep: SectionRecord) {
        let SectionRecord { key, g, owner, max_seq } = prep;
        let owner = self.shared(owner);
        self.change(&key, |sections| drop(sections.preps.insert(key.section, Proposed { g, owner, max_seq })));
    }

    /// Removes a proposal that was confirmed, or that a newer owner overtook.
    pub fn drop_prep(&mut self, key: &SectionKey) {
        self.change(key, |sections| drop(sections.preps.remove(&key.section)));
    }

    /// Removes all that is known of a section.
    pub fn remove(&mut self, key: &SectionKey) {
        self.change(key, |sections| {
            sections.records.remove(&key.section);
            sections.preps.remove(&key.section);
        });
        if self.len_of(&key.name) == 0 {
            self.names.remove(&key.name);
        }
    }

    fn change(&mut self, key: &SectionKey, change: impl FnOnce(&mut Sections)) {
        self.unindex(key);
        let sections = match self.names.get_mut(&key.name) {
            Some(sections) => sections,
            None => self.names.entry(key.name.clone()).or_default(),
        };
        change(sections);
        self.index(key);
    }

    /// Who is counted for a section: whom it is proposed to, else whose it is.
    fn counted(&self, key: &SectionKey) -> Option<SessionId> {
        self.prep(key).map(|prep| prep.owner.session).or_else(|| self.get(key).map(|held| held.owner.session))
    }

    fn is_listed(&self, key: &SectionKey) -> Option<(SessionId, Generation)> {
        self.get(key).filter(|_| self.prep(key).is_none()).map(|held| (held.owner.session, held.g))
    }

    fn unindex(&mut self, key: &SectionKey) {
        self.records = self.records.saturating_sub(self.get(key).is_some().into());
        self.preps = self.preps.saturating_sub(self.prep(key).is_some().into());
        if let Some((session, _)) = self.is_listed(key)
            && let Some(spans) = self.listed.get_mut(&session)
        {
            spans.remove(&key.name, key.section);
            if spans.is_empty() {
                self.listed.remove(&session);
            }
        }
        if let Some(session) = self.counted(key)
            && let Some(counts) = self.counts.get_mut(&session)
        {
            if let Some(count) = counts.get_mut(&key.name) {
                *count = count.saturating_sub(1);
            }
            counts.retain(|_, count| *count > 0);
            if counts.is_empty() {
                self.counts.remove(&session);
                self.owners.remove(&session);
            }
        }
    }

    fn index(&mut self, key: &SectionKey) {
        self.records = self.records.saturating_add(self.get(key).is_some().into());
        self.preps = self.preps.saturating_add(self.prep(key).is_some().into());
        if let Some((session, g)) = self.is_listed(key) {
            self.listed.entry(session).or_default().add(&key.name, key.section, g);
        }
        if let Some(session) = self.counted(key) {
            let counts = self.counts.entry(session).or_default();
            let count = counts.entry(key.name.clone()).or_default();
            *count = count.saturating_add(1);
        }
    }
}

fn after_in(after: Option<&SectionKey>, name: &GeneratorName) -> Bound<Section> {
    after.filter(|key| key.name == *name).map_or(Bound::Unbounded, |key| Bound::Excluded(key.section))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section::tests::{held, key, record};
    use proptest::prelude::*;

    fn listed(table: &SectionTable, session: u128) -> Vec<(u32, u32, u64)> {
        let spans = table.listed(SessionId(session)).into_iter().flat_map(|spans| spans.held(None));
        spans.map(|span| (span.from.0, span.to.0, span.g.0)).collect()
    }

    fn routes(table: &SectionTable, from: u32) -> Vec<(u32, u32, u128)> {
        let name = "a".parse().unwrap();
        table.routes_of(&name, Section(from)).map(|(from, to, held)| (from.0, to.0, held.owner.session.0)).collect()
    }

    #[test]
    fn routes_are_the_ranges_of_all_owners_in_order_and_the_first_one_is_cut() {
        let mut table = SectionTable::default();
        (0..10).for_each(|at| table.put(&key("a", at), held(1, 7, 0, 0)));
        [3, 4, 8].into_iter().for_each(|at| table.put(&key("a", at), held(2, 8, 0, 0)));
        table.put(&key("a", 9), held(2, 7, 0, 0));
        table.put(&key("b", 1), held(1, 9, 0, 0));
        let all = [(0, 3, 7), (3, 5, 8), (5, 8, 7), (8, 9, 8), (9, 10, 7)];
        assert_eq!(routes(&table, 0), all);
        assert_eq!(routes(&table, 4), [&[(4, 5, 8)], &all[2..]].concat());
        assert_eq!((routes(&table, 9), routes(&table, 10)), (vec![(9, 10, 7)], vec![]));
    }

    #[test]
    fn a_receipt_of_several_sections_is_compared_with_each_of_them() {
        let mut table = SectionTable::default();
        (1..5).for_each(|at| table.put(&key("a", at), held(2, 7, 0, 0)));
        let below = |table: &SectionTable, from, to, g| {
            let range = SectionRange { name: key("a", 0).name, from: Section(from), to: Section(to) };
            table.first_below(&range, Generation(g)).map(|key| key.section.0)
        };
        assert_eq!((below(&table, 1, 5, 2), below(&table, 2, 4, 1), below(&table, 1, 5, 3)), (None, None, Some(1)));
        assert_eq!(
            (below(&table, 0, 5, 2), below(&table, 1, 6, 2), below(&table, 9, u32::MAX, 1)),
            (Some(0), Some(5), Some(9))
        );
        assert_eq!((below(&table, 3, 3, 9), below(&table, 4, 2, 9)), (None, None), "there is none in it");
        table.put(&key("a", 3), held(1, 7, 0, 0));
        assert_eq!(below(&table, 1, 5, 2), Some(3));
        table.put_prep(record("a", 3, 2, 8, 0));
        assert_eq!(below(&table, 1, 5, 2), None, "it is proposed under that number");
        table.remove(&key("a", 2));
        assert_eq!(below(&table, 1, 5, 2), Some(2));
    }

    #[test]
    fn a_section_that_is_proposed_to_somebody_is_listed_for_nobody() {
        let mut table = SectionTable::default();
        (1..=3).for_each(|at| table.put(&key("a", at), held(1, 7, 0, 0)));
        assert_eq!(listed(&table, 7), [(1, 4, 1)]);
        table.put_prep(record("a", 2, 2, 8, 0));
        assert_eq!(listed(&table, 7), [(1, 2, 1), (3, 4, 1)]);
        assert!(listed(&table, 8).is_empty());
        assert_eq!(table.counts(SessionId(8)).map(|(_, count)| count).collect::<Vec<_>>(), [1]);
        assert_eq!(routes(&table, 0), [(1, 2, 7), (3, 4, 7)]);
        table.drop_prep(&key("a", 2));
        table.put(&key("a", 2), held(2, 8, 0, 0));
        assert_eq!((listed(&table, 7), listed(&table, 8)), (vec![(1, 2, 1), (3, 4, 1)], vec![(2, 3, 2)]));
    }

    #[test]
    fn records_and_proposals_of_a_name_come_together_in_order() {
        let mut table = SectionTable::default();
        assert_eq!(table.ends(&"a".parse().unwrap()), None);
        [1, 3, 4].into_iter().for_each(|at| table.put(&key("a", at), held(1, 7, 0, 0)));
        [0, 3, 9].into_iter().for_each(|at| table.put_prep(record("a", at, 2, 8, 0)));
        table.put(&key("b", 5), held(1, 7, 0, 0));
        let all = |from| {
            let all = table.of_name(&"a".parse().unwrap(), Section(from)).collect::<Vec<_>>();
            all.into_iter().map(|(at, held, prep)| (at.0, held.is_some(), prep.is_some())).collect::<Vec<_>>()
        };
        let whole = [(0, false, true), (1, true, false), (3, true, true), (4, true, false), (9, false, true)];
        assert_eq!((all(0), all(4)), (whole.to_vec(), whole[3..].to_vec()));
        assert_eq!(table.ends(&"a".parse().unwrap()), Some((Section(0), Section(9))));
        let names = |from: &str| table.names(Some(&from.parse().unwrap())).map(|it| it.as_str()).collect::<Vec<_>>();
        assert_eq!((names("a"), names("aa"), table.names(None).count()), (vec!["a", "b"], vec!["b"], 2));
    }

    #[test]
    fn pages_hold_all_of_a_section_and_miss_none() {
        let mut table = SectionTable::default();
        for name in ["a", "b"] {
            (0..5).for_each(|at| table.put(&key(name, at), held(1, 7, 0, 0)));
            (3..7).for_each(|at| table.put_prep(record(name, at, 2, 8, 0)));
        }
        let (mut after, mut records, mut preps) = (None, Vec::new(), Vec::new());
        loop {
            let (page, proposed, last) = table.page(after.as_ref(), true, 3);
            assert!(page.len() + proposed.len() <= 3);
            after = page.iter().chain(&proposed).map(|record| record.key.clone()).max();
            records.extend(page);
            preps.extend(proposed);
            if last {
                break;
            }
        }
        assert_eq!((records.len(), preps.len()), (10, 8));
        assert_eq!(table.between(Some(&key("a", 3)), Some(&key("b", 1))), [key("a", 4), key("b", 0), key("b", 1)]);
    }

    #[test]
    fn the_nearest_on_either_side_are_neighbours() {
        let mut table = SectionTable::default();
        table.put(&key("a", 10), held(1, 7, 0, 0));
        table.put_prep(record("a", 12, 1, 8, 0));
        let near = |at, reach| table.neighbours(&key("a", at), reach).map(|session| session.map(|session| session.0));
        assert_eq!(near(11, 5), [Some(7), Some(8)]);
        assert_eq!(near(14, 5), [Some(8), None]);
        assert_eq!(near(20, 5), [None, None]);
        assert_eq!(near(u32::MAX, 5), [None, None]);
    }

    proptest! {
        /// Whatever is written, the indexes are those of a table that is made anew from the records.
        #[test]
        fn indexes_follow_the_records(
            changes in proptest::collection::vec((0_u32..6, 1_u64..4, 1_u128..4, 0_u8..4), 0..60),
        ) {
            let mut table = SectionTable::default();
            for (at, g, session, what) in changes {
                match what {
                    0 => table.put(&key("a", at), held(g, session, g, 0)),
                    1 => table.put_prep(record("a", at, g, u64::try_from(session).unwrap(), g)),
                    2 => table.remove(&key("a", at)),
                    _ => table.drop_prep(&key("a", at)),
                }
                let records = table.all().map(|(key, held)| (held.record(key), held.peer_has));
                let again = SectionTable::new(records.collect::<Vec<_>>(), table.preps().collect::<Vec<_>>());
                prop_assert_eq!(&again.listed, &table.listed);
                prop_assert_eq!(&again.counts, &table.counts);
                prop_assert_eq!((again.records, again.preps), (table.records, table.preps));
            }
        }
    }
}
