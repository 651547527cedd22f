use super::*;
use proptest::prelude::*;

fn at(from: u32, to: u32) -> SectionRange {
    range(&"orders".parse().unwrap(), &(from..to))
}

type Rows = Vec<(u32, u32, u8)>;

fn shown<'a>(rows: impl Iterator<Item = (SectionRange, &'a u8)>) -> Rows {
    rows.map(|(row, value)| (row.from.0, row.to.0, *value)).collect()
}

fn naive(all: &BTreeMap<u32, u8>) -> Rows {
    let mut rows: Rows = Vec::new();
    for (at, value) in all {
        match rows.last_mut() {
            Some(last) if (last.1, last.2) == (*at, *value) => last.1 = at + 1,
            _ => rows.push((*at, at + 1, *value)),
        }
    }
    rows
}

proptest! {
    /// However values come and go, the rows are as few as can be and hold exactly those that are there; and whoever writes down what each
    /// change says has the same rows.
    #[test]
    fn rows_are_those_of_a_naive_count(
        changes in proptest::collection::vec((0_u32..12, 1_u32..6, proptest::option::of(1_u8..3)), 0..60),
    ) {
        let (mut map, mut all, mut written) = (SectionMap::default(), BTreeMap::new(), BTreeMap::new());
        for (from, len, value) in changes {
            for section in from..from + len {
                match value {
                    Some(value) => all.insert(section, value),
                    None => all.remove(&section),
                };
            }
            let ChangedRows { gone, rows } = map.change(&at(from, from + len), value);
            written.retain(|from, _| !gone.iter().any(|key| key.section.0 == *from));
            written.extend(rows.iter().map(|(row, value)| (row.from.0, (row.to.0, *value))));
            prop_assert_eq!(shown(map.rows(None)), naive(&all));
            let stored: Rows = written.iter().map(|(from, (to, value))| (*from, *to, *value)).collect();
            prop_assert_eq!(stored, naive(&all));
            for last in 0..17 {
                let after = SectionKey { name: at(0, 1).name, section: Section(last) };
                let rest = all.range(last + 1..).map(|(at, value)| (*at, *value)).collect();
                prop_assert_eq!(shown(map.rows(Some(&after))), naive(&rest));
                prop_assert_eq!(map.get(&after), all.get(&last));
            }
            let runs = map.runs(&at(2, 9));
            prop_assert!(runs.iter().map(|(run, _)| run.from.0).eq([2].into_iter().chain(runs.iter().map(|(run, _)| run.to.0)).take(runs.len())));
            prop_assert_eq!(runs.last().map(|(run, _)| run.to.0), Some(9));
            for (run, value) in runs {
                prop_assert!((run.from.0..run.to.0).all(|section| all.get(&section) == value));
            }
            prop_assert_eq!((map.len(), usize::try_from(map.sections()).unwrap()), (naive(&all).len(), all.len()));
            prop_assert_eq!(map.is_empty(), all.is_empty());
        }
    }
}

#[test]
fn a_row_of_all_sections_is_as_cheap_as_one() {
    let mut map = SectionMap::default();
    map.set(&at(0, u32::MAX), Some(1));
    map.set(&at(7, 8), Some(2));
    assert_eq!((map.len(), map.sections()), (3, u32::MAX.into()));
    let ChangedRows { gone, rows } = map.change(&at(7, 8), Some(1));
    assert_eq!((gone.len(), rows), (2, vec![(at(0, u32::MAX), 1)]));
}
