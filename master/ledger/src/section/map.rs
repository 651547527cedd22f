//! Values of sections, run-length encoded: sections of one name beside each other that are alike are one row, however many they are.

use ids::namespace::GeneratorName;
use ids::sequence::{Section, SectionKey, SectionRange};
use rangemap::RangeMap;
use std::collections::BTreeMap;
use std::ops::{Bound, Range};

/// Knowledge of sections. Rows split where a value changes, and those that touch and agree are one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SectionMap<V: Clone + Eq> {
    names: BTreeMap<GeneratorName, RangeMap<u32, V>>,
    rows: usize,
}

/// The rows that are different after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedRows<V> {
    /// Begins of rows that are no more.
    pub gone: Vec<SectionKey>,
    /// Rows that are new, or reach further or less far than before.
    pub rows: Vec<(SectionRange, V)>,
}

impl<V: Clone + Eq> Default for SectionMap<V> {
    fn default() -> Self {
        Self { names: BTreeMap::new(), rows: 0 }
    }
}

impl<V: Clone + Eq> SectionMap<V> {
    /// The value of a section.
    pub fn get(&self, key: &SectionKey) -> Option<&V> {
        self.names.get(&key.name)?.get(&key.section.0)
    }

    /// The row that a section is in.
    pub fn row(&self, key: &SectionKey) -> Option<SectionRange> {
        let (row, _) = self.names.get(&key.name)?.get_key_value(&key.section.0)?;
        Some(range(&key.name, row))
    }

    /// Counts the rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Counts the rows of a name.
    pub fn len_of(&self, name: &GeneratorName) -> usize {
        self.names.get(name).map_or(0, RangeMap::len)
    }

    /// Tells whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Counts the sections in all rows.
    pub fn sections(&self) -> u64 {
        let rows = self.names.values().flat_map(RangeMap::iter);
        rows.map(|(row, _)| u64::from(row.end.saturating_sub(row.start))).sum()
    }

    /// The names of which there are rows, from `from` on.
    pub fn names(&self, from: Option<&GeneratorName>) -> impl Iterator<Item = &GeneratorName> {
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        self.names.range::<GeneratorName, _>((from, Bound::Unbounded)).map(|(name, _)| name)
    }

    /// The rows of a name from `from` on and before `to`, ascending; the first and the last one are cut there.
    pub fn rows_of(
        &self,
        name: &GeneratorName,
        from: u32,
        to: u32,
    ) -> impl DoubleEndedIterator<Item = (Range<u32>, &V)> {
        let rows = self.names.get(name).filter(|_| from < to).into_iter();
        let rows = rows.flat_map(move |rows| rows.overlapping(from..to));
        rows.map(move |(row, value)| (row.start.max(from)..row.end.min(to), value))
    }

    /// The rows of all names, ascending, or those after a section, which cuts the one that it is in.
    pub fn rows<'a>(&'a self, after: Option<&'a SectionKey>) -> impl Iterator<Item = (SectionRange, &'a V)> {
        let names = self.names(after.map(|key| &key.name));
        names.flat_map(move |name| {
            let after = after.filter(|key| key.name == *name);
            let from = after.map_or(0, |key| key.section.0.saturating_add(1));
            self.rows_of(name, from, u32::MAX).map(move |(row, value)| (range(name, &row), value))
        })
    }

    /// The rows that are in a range, cut where it begins and ends.
    pub fn within<'a>(&'a self, of: &'a SectionRange) -> impl Iterator<Item = (SectionRange, &'a V)> {
        let rows = self.rows_of(&of.name, of.from.0, of.to.0);
        rows.map(|(row, value)| (range(&of.name, &row), value))
    }

    /// The value at the beginning of a range, and where it ends to be so.
    pub fn first_run(&self, name: &GeneratorName, at: Range<u32>) -> (Option<&V>, u32) {
        match self.rows_of(name, at.start, at.end).next() {
            Some((row, value)) if row.start == at.start => (Some(value), row.end),
            Some((row, _)) => (None, row.start),
            None => (None, at.end),
        }
    }

    /// The runs of a range, with and without a value, ascending.
    pub fn runs(&self, of: &SectionRange) -> Vec<(SectionRange, Option<&V>)> {
        let (mut runs, mut from) = (Vec::new(), of.from.0);
        while from < of.to.0 {
            let (value, to) = self.first_run(&of.name, from..of.to.0);
            runs.push((range(&of.name, &(from..to)), value));
            from = to;
        }
        runs
    }

    /// Gives all sections of a range a value, or takes it from them.
    pub fn set(&mut self, of: &SectionRange, value: Option<V>) {
        if of.is_empty() {
            return;
        }
        let rows = match self.names.get_mut(&of.name) {
            Some(rows) => rows,
            None => self.names.entry(of.name.clone()).or_default(),
        };
        let before = rows.len();
        match value {
            Some(value) => rows.insert(of.from.0..of.to.0, value),
            None => rows.remove(of.from.0..of.to.0),
        }
        self.rows = self.rows.saturating_sub(before).saturating_add(rows.len());
        if rows.is_empty() {
            self.names.remove(&of.name);
        }
    }

    /// The same, and which rows it changed.
    pub fn change(&mut self, of: &SectionRange, value: Option<V>) -> ChangedRows<V> {
        let before = self.around(of);
        self.set(of, value);
        let after = self.around(of);
        let gone = before.keys().filter(|from| !after.contains_key(*from));
        let gone = gone.map(|from| SectionKey { name: of.name.clone(), section: Section(*from) }).collect();
        let new = after.into_iter().filter(|(from, row)| before.get(from) != Some(row));
        let rows = new.map(|(from, (to, value))| (range(&of.name, &(from..to)), value)).collect();
        ChangedRows { gone, rows }
    }

    /// The rows that are in a range or touch it.
    fn around(&self, of: &SectionRange) -> BTreeMap<u32, (u32, V)> {
        let window = of.from.0.saturating_sub(1)..of.to.0.saturating_add(1);
        let rows = self.names.get(&of.name).into_iter().flat_map(|rows| rows.overlapping(&window));
        rows.map(|(row, value)| (row.start, (row.end, value.clone()))).collect()
    }
}

fn range(name: &GeneratorName, row: &Range<u32>) -> SectionRange {
    SectionRange { name: name.clone(), from: Section(row.start), to: Section(row.end) }
}

#[cfg(test)]
#[path = "map_tests.rs"]
mod tests;
