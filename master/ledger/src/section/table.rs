//! The table of sections and proposals, with the indexes that keep every question off a full scan.

use super::map::{ChangedRows, SectionMap};
use super::{HeldSection, Owned};
use ids::lease::Generation;
use ids::namespace::GeneratorName;
use ids::parameters::SessionId;
use ids::sequence::{Section, SectionKey, SectionOwner, SectionRange, SectionRecord};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The knowledge that one master has of every section that was ever given to somebody, and its proposals of those that are at home with it.
/// The first three maps are the truth; all else is derived from them and changes only with them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SectionTable {
    records: SectionMap<Owned>,
    preps: SectionMap<Owned>,
    /// Bounds that the other master said that it holds, of each section with a record.
    peer_has: SectionMap<u64>,
    /// Records that are listed for each session: those of which no proposal is open here.
    listed: BTreeMap<SessionId, SectionMap<Generation>>,
    /// The number of sections of each name each session has or is to have.
    counts: BTreeMap<SessionId, BTreeMap<GeneratorName, u32>>,
    /// Each owner once, however many sections it has.
    owners: BTreeMap<SessionId, Arc<SectionOwner>>,
}

/// Sections beside each other that are alike, or of which nothing is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The sections.
    pub range: SectionRange,
    /// The owner.
    pub held: Option<HeldSection>,
    /// The owner that they are proposed to have.
    pub prep: Option<Owned>,
}

/// The rows of records and proposals that are different after a change, for the store.
pub type ChangedRecords = ChangedRows<(Owned, u64)>;

impl SectionTable {
    /// The table with these records, each with what the other master holds, and these proposals.
    pub fn new(
        records: impl IntoIterator<Item = (SectionRecord, u64)>,
        preps: impl IntoIterator<Item = SectionRecord>,
    ) -> Self {
        let mut table = Self::default();
        for (SectionRecord { range, g, owner, max_seq }, peer_has) in records {
            table.put(&range, HeldSection { g, owner: Arc::new(owner), max_seq, peer_has });
        }
        for prep in preps {
            table.put_prep(prep);
        }
        table
    }

    /// One and the same owner is kept once.
    fn shared(&mut self, owner: Arc<SectionOwner>) -> Arc<SectionOwner> {
        match self.owners.get(&owner.session) {
            Some(known) if *known == owner => Arc::clone(known),
            _ => {
                self.owners.insert(owner.session, Arc::clone(&owner));
                owner
            }
        }
    }

    /// A section that was given to somebody.
    pub fn get(&self, key: &SectionKey) -> Option<HeldSection> {
        Some(held(self.records.get(key)?, self.peer_has.get(key)))
    }

    /// The record of a section that was given to somebody.
    pub fn owned(&self, key: &SectionKey) -> Option<&Owned> {
        self.records.get(key)
    }

    /// The proposal of it that waits for its confirmation.
    pub fn prep(&self, key: &SectionKey) -> Option<&Owned> {
        self.preps.get(key)
    }

    /// Pieces of a range, ascending and without a gap: each reaches as far as all is alike.
    pub fn pieces(&self, of: &SectionRange) -> impl Iterator<Item = Piece> {
        let (name, end) = (&of.name, of.to.0);
        let mut from = of.from.0;
        std::iter::from_fn(move || {
            if from >= end {
                return None;
            }
            let (prep, to) = self.preps.first_run(name, from..end);
            let (record, to) = self.records.first_run(name, from..to);
            let (peer_has, to) = self.peer_has.first_run(name, from..to);
            let held = record.map(|record| held(record, peer_has));
            let range = SectionRange { name: name.clone(), from: Section(from), to: Section(to) };
            from = to;
            Some(Piece { range, held, prep: prep.cloned() })
        })
    }

    /// All of a name from `from` on of which there is a record or a proposal, by pieces.
    pub fn of_name(&self, name: &GeneratorName, from: Section) -> impl Iterator<Item = Piece> {
        let all = self.ends(name).map(|(first, last)| (first.max(from), last.0.saturating_add(1)));
        let mut rest = all.map(|(from, to)| SectionRange { name: name.clone(), from, to: Section(to) });
        let pieces = std::iter::from_fn(move || {
            let range = rest.as_mut()?;
            let piece = self.pieces(range).next()?;
            range.from = piece.range.to;
            Some(piece)
        });
        pieces.filter(|piece| piece.held.is_some() || piece.prep.is_some())
    }

    /// The first section of the piece that a section is in.
    pub fn piece_begin(&self, key: &SectionKey) -> Section {
        let begin = |row: Option<SectionRange>| row.map_or(Section(0), |row| row.from);
        let prep = match self.preps.row(key) {
            Some(row) => row.from,
            None => {
                let before = self.preps.rows_of(&key.name, 0, key.section.0).next_back();
                Section(before.map_or(0, |(row, _)| row.end))
            }
        };
        let record = self.records.row(key).map_or(key.section, |row| row.from);
        record.max(begin(self.peer_has.row(key))).max(prep)
    }

    /// The row of records that a section is in.
    pub fn row(&self, key: &SectionKey) -> Option<SectionRange> {
        self.records.row(key)
    }

    /// Counts the rows of records and proposals.
    pub fn len(&self) -> usize {
        self.records.len().saturating_add(self.preps.len())
    }

    /// Counts the rows of a name.
    pub fn len_of(&self, name: &GeneratorName) -> usize {
        self.records.len_of(name).saturating_add(self.preps.len_of(name))
    }

    /// Tells whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts the rows of proposals.
    pub fn preps_len(&self) -> usize {
        self.preps.len()
    }

    /// Counts the sections that are proposed to somebody.
    pub fn proposed(&self) -> u64 {
        self.preps.sections()
    }

    /// All records, ascending, by pieces of which the other master holds as much.
    pub fn all(&self) -> impl Iterator<Item = (SectionRange, HeldSection)> {
        self.records.rows(None).flat_map(|(row, owned)| {
            let runs = self.peer_has.runs(&row).into_iter();
            runs.map(|(range, peer_has)| (range, held(owned, peer_has)))
        })
    }

    /// All records by rows, as they are stored: with the least that the other master holds of any section of a row.
    pub fn stored(&self) -> impl Iterator<Item = (SectionRecord, u64)> {
        self.records.rows(None).map(|(row, owned)| {
            let least = self.least_held(&row);
            (owned.record(row), least)
        })
    }

    /// All proposals, ascending.
    pub fn preps(&self) -> impl Iterator<Item = SectionRecord> {
        self.preps.rows(None).map(|(range, prep)| prep.record(range))
    }

    /// Ranges of sections of one name from `from` on that are listed for somebody, ascending, and the record of the first one of each; the
    /// others have the same owner. None takes longer the more sections are in it.
    pub fn routes_of(&self, name: &GeneratorName, from: Section) -> impl Iterator<Item = (Section, Section, &Owned)> {
        // The next one of each owner, by where it begins: no two overlap.
        let mut next = BTreeMap::new();
        for listed in self.listed.values() {
            let mut rest = listed.rows_of(name, from.0, u32::MAX).map(|(row, _)| row);
            if let Some(row) = rest.next() {
                next.insert(row.start, (row.end, rest));
            }
        }
        let name = name.clone();
        std::iter::from_fn(move || {
            let (begin, (end, mut rest)) = next.pop_first()?;
            if let Some(row) = rest.next() {
                next.insert(row.start, (row.end, rest));
            }
            let first = SectionKey { name: name.clone(), section: Section(begin) };
            Some((Section(begin), Section(end), self.records.get(&first)?))
        })
    }

    /// The range of sections that are listed for one owner under one number which a section is in, and their owner.
    pub fn route(&self, key: &SectionKey) -> Option<(Section, Section, &Owned)> {
        let owned = self.records.get(key)?;
        let row = self.listed.get(&owned.owner.session)?.row(key)?;
        Some((row.from, row.to, owned))
    }

    /// The names of which there are sections or proposals, from `from` on.
    pub fn names(&self, from: Option<&GeneratorName>) -> impl Iterator<Item = &GeneratorName> {
        let mut records = self.records.names(from).peekable();
        let mut preps = self.preps.names(from).peekable();
        std::iter::from_fn(move || {
            let next = match (records.peek().copied(), preps.peek().copied()) {
                (Some(record), Some(prep)) => record.min(prep),
                (record, prep) => record.or(prep)?,
            };
            records.next_if_eq(&next);
            preps.next_if_eq(&next);
            Some(next)
        })
    }

    /// The first of these sections that is nobody's, or whose owners, proposed ones among them, are fewer than `g`.
    pub fn first_below(&self, range: &SectionRange, g: Generation) -> Option<SectionKey> {
        let known = |piece: &Piece| {
            let held = piece.held.as_ref().map(|held| held.g);
            held.max(piece.prep.as_ref().map(|prep| prep.g))
        };
        self.pieces(range).find(|piece| known(piece) < Some(g)).map(|piece| piece.range.first())
    }

    /// The first and the last section of a name of which there is a record or a proposal.
    pub fn ends(&self, name: &GeneratorName) -> Option<(Section, Section)> {
        let rows = || self.records.rows_of(name, 0, u32::MAX).map(|(row, _)| row);
        let preps = || self.preps.rows_of(name, 0, u32::MAX).map(|(row, _)| row);
        let first = rows().next().into_iter().chain(preps().next()).map(|row| row.start).min()?;
        let last = rows().next_back().into_iter().chain(preps().next_back()).map(|row| row.end).max()?;
        Some((Section(first), Section(last.saturating_sub(1))))
    }

    /// The records above `after` and up to `to` (`None`: to the end), by rows that are cut there.
    pub fn between(&self, after: Option<&SectionKey>, to: Option<&SectionKey>) -> Vec<SectionRange> {
        let rows = self.records.rows(after).map(|(row, _)| row);
        rows.map_while(|row| cut(row, to.map(|to| (&to.name, to.section.0.saturating_add(1))))).collect()
    }

    /// Gives what follows `after`, ascending: the records, the proposals if they are wanted too, and whether that was all. Not more than
    /// `max` rows of both together; a row that reaches beyond the page is cut, so that whatever is said of one section is on one page.
    pub fn page(
        &self,
        after: Option<&SectionKey>,
        with_preps: bool,
        max: usize,
    ) -> (Vec<SectionRecord>, Vec<SectionRecord>, bool) {
        let one_more = max.saturating_add(1);
        let records: Vec<_> = self.records.rows(after).take(one_more).collect();
        let preps: Vec<_> = self.preps.rows(after).take(if with_preps { one_more } else { 0 }).collect();
        let mut begins: Vec<SectionKey> = records.iter().chain(&preps).map(|(row, _)| row.first()).collect();
        begins.sort_unstable();
        let next = begins.get(max);
        let before = next.map(|next| (&next.name, next.section.0));
        let cut = |rows: Vec<(SectionRange, &Owned)>| -> Vec<SectionRecord> {
            let rows = rows.into_iter().map_while(|(row, owned)| Some(owned.record(cut(row, before)?)));
            rows.collect()
        };
        (cut(records), cut(preps), next.is_none())
    }

    /// The sections that this master lists for a session.
    pub fn listed(&self, session: SessionId) -> Option<&SectionMap<Generation>> {
        self.listed.get(&session)
    }

    /// The sessions that have sections or are to have some.
    pub fn owners(&self) -> impl Iterator<Item = SessionId> {
        self.counts.keys().copied()
    }

    /// The number of sections of each name a session has or is to have.
    pub fn counts(&self, session: SessionId) -> impl Iterator<Item = (&GeneratorName, u32)> {
        self.counts.get(&session).into_iter().flatten().map(|(name, count)| (name, *count))
    }

    /// Counts the sections of one name that a session has or is to have.
    pub fn count_of(&self, session: SessionId, name: &GeneratorName) -> u32 {
        self.counts.get(&session).and_then(|counts| counts.get(name)).copied().unwrap_or_default()
    }

    /// Finds who has, or is to have, the nearest sections before and after a range, not further away than `reach`.
    pub fn neighbours(&self, of: &SectionRange, reach: u32) -> [Option<SessionId>; 2] {
        let (from, to) = (of.from.0, of.to.0);
        let before = |map: &SectionMap<Owned>| {
            let last = map.rows_of(&of.name, from.saturating_sub(reach), from).next_back();
            last.map(|(row, its)| (row.end, its.owner.session))
        };
        let after = |map: &SectionMap<Owned>| {
            let first = map.rows_of(&of.name, to, to.saturating_add(reach)).next();
            first.map(|(row, its)| (row.start, its.owner.session))
        };
        // Whom it is proposed to counts, if both are as near.
        let nearer = |prep: Option<(u32, SessionId)>, record: Option<(u32, SessionId)>, is: fn(&u32, &u32) -> bool| {
            let record = record.filter(|record| prep.is_none_or(|prep| is(&record.0, &prep.0)));
            record.or(prep).map(|(_, session)| session)
        };
        [
            nearer(before(&self.preps), before(&self.records), u32::gt),
            nearer(after(&self.preps), after(&self.records), u32::lt),
        ]
    }

    /// Writes the record of all sections of a range.
    pub fn put(&mut self, range: &SectionRange, held: HeldSection) -> ChangedRecords {
        let HeldSection { g, owner, max_seq, peer_has } = held;
        self.unindex(range);
        let owner = self.shared(owner);
        self.peer_has.set(range, Some(peer_has));
        let changed = self.records.change(range, Some(Owned { g, owner, max_seq }));
        self.index(range);
        self.with_peer_has(changed)
    }

    fn with_peer_has(&self, changed: ChangedRows<Owned>) -> ChangedRecords {
        let rows = changed.rows.into_iter().map(|(row, owned)| {
            let least = self.least_held(&row);
            (row, (owned, least))
        });
        ChangedRows { rows: rows.collect(), gone: changed.gone }
    }

    /// The least that the other master holds of a row's sections. Less only allows less.
    fn least_held(&self, row: &SectionRange) -> u64 {
        let held = self.peer_has.rows_of(&row.name, row.from.0, row.to.0).map(|(_, held)| *held);
        held.min().unwrap_or_default()
    }

    /// Notes what the other master says that it holds of these.
    pub fn note_peer_has(&mut self, range: &SectionRange, peer_has: u64) {
        for Piece { range, held, .. } in self.pieces(range).collect::<Vec<_>>() {
            if let Some(held) = held {
                self.peer_has.set(&range, Some(held.peer_has.max(peer_has.min(held.max_seq))));
            }
        }
    }

    /// Writes a proposal.
    pub fn put_prep(&mut self, prep: SectionRecord) -> ChangedRows<Owned> {
        let SectionRecord { range, g, owner, max_seq } = prep;
        self.unindex(&range);
        let owner = self.shared(Arc::new(owner));
        let changed = self.preps.change(&range, Some(Owned { g, owner, max_seq }));
        self.index(&range);
        changed
    }

    /// Removes proposals that were confirmed, or that a newer owner overtook.
    pub fn drop_prep(&mut self, range: &SectionRange) -> ChangedRows<Owned> {
        self.unindex(range);
        let changed = self.preps.change(range, None);
        self.index(range);
        changed
    }

    /// Removes the records of a range.
    pub fn remove(&mut self, range: &SectionRange) -> ChangedRecords {
        self.unindex(range);
        self.peer_has.set(range, None);
        let changed = self.records.change(range, None);
        self.index(range);
        self.with_peer_has(changed)
    }

    fn unindex(&mut self, range: &SectionRange) {
        for Piece { range, held, prep } in self.pieces(range).collect::<Vec<_>>() {
            let owner = held.as_ref().map(|held| held.owner.session);
            if let Some(session) = owner.filter(|_| prep.is_none())
                && let Some(listed) = self.listed.get_mut(&session)
            {
                listed.set(&range, None);
                if listed.is_empty() {
                    self.listed.remove(&session);
                }
            }
            // Whom they are proposed to is counted, else whose they are.
            if let Some(session) = prep.map(|prep| prep.owner.session).or(owner)
                && let Some(counts) = self.counts.get_mut(&session)
            {
                if let Some(count) = counts.get_mut(&range.name) {
                    *count = count.saturating_sub(range.len());
                    if *count == 0 {
                        counts.remove(&range.name);
                    }
                }
                if counts.is_empty() {
                    self.counts.remove(&session);
                    self.owners.remove(&session);
                }
            }
        }
    }

    fn index(&mut self, range: &SectionRange) {
        for Piece { range, held, prep } in self.pieces(range).collect::<Vec<_>>() {
            if let Some(held) = held.as_ref().filter(|_| prep.is_none()) {
                self.listed.entry(held.owner.session).or_default().set(&range, Some(held.g));
            }
            if let Some(session) = prep.map(|prep| prep.owner.session).or(held.map(|held| held.owner.session)) {
                let counts = self.counts.entry(session).or_default();
                let count = counts.entry(range.name.clone()).or_default();
                *count = count.saturating_add(range.len());
            }
        }
    }
}

fn held(owned: &Owned, peer_has: Option<&u64>) -> HeldSection {
    let Owned { g, owner, max_seq } = owned.clone();
    HeldSection { g, owner, max_seq, peer_has: peer_has.copied().unwrap_or_default() }
}

/// A row, or what of it is before a section; `None`: all of it is behind.
fn cut(row: SectionRange, before: Option<(&GeneratorName, u32)>) -> Option<SectionRange> {
    let Some((name, end)) = before else { return Some(row) };
    if row.name < *name {
        return Some(row);
    }
    let to = Section(row.to.0.min(end));
    (row.name == *name && row.from < to).then_some(SectionRange { to, ..row })
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
