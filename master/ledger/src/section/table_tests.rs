use super::*;
use crate::section::tests::{held, key, record};
use proptest::prelude::*;

fn range(name: &str, from: u32, to: u32) -> SectionRange {
    SectionRange { name: name.parse().unwrap(), from: Section(from), to: Section(to) }
}

fn put(table: &mut SectionTable, name: &str, at: u32, its: HeldSection) {
    table.put(&range(name, at, at + 1), its);
}

fn listed(table: &SectionTable, session: u128) -> Vec<(u32, u32, u64)> {
    let rows = table.listed(SessionId(session)).into_iter().flat_map(|listed| listed.rows(None));
    rows.map(|(row, g)| (row.from.0, row.to.0, g.0)).collect()
}

fn routes(table: &SectionTable, from: u32) -> Vec<(u32, u32, u128)> {
    let name = "a".parse().unwrap();
    table.routes_of(&name, Section(from)).map(|(from, to, its)| (from.0, to.0, its.owner.session.0)).collect()
}

#[test]
fn routes_are_the_ranges_of_all_owners_in_order_and_the_first_one_is_cut() {
    let mut table = SectionTable::default();
    table.put(&range("a", 0, 10), held(1, 7, 0, 0));
    [3, 4, 8].into_iter().for_each(|at| put(&mut table, "a", at, held(2, 8, 0, 0)));
    put(&mut table, "a", 9, held(2, 7, 0, 0));
    put(&mut table, "b", 1, held(1, 9, 0, 0));
    let all = [(0, 3, 7), (3, 5, 8), (5, 8, 7), (8, 9, 8), (9, 10, 7)];
    assert_eq!(routes(&table, 0), all);
    assert_eq!(routes(&table, 4), [&[(4, 5, 8)], &all[2..]].concat());
    assert_eq!((routes(&table, 9), routes(&table, 10)), (vec![(9, 10, 7)], vec![]));
    let of = |at| table.route(&key("a", at)).map(|(from, to, its)| (from.0, to.0, its.owner.session.0));
    assert_eq!([0, 2, 4, 8, 9].map(of), [(0, 3, 7), (0, 3, 7), (3, 5, 8), (8, 9, 8), (9, 10, 7)].map(Some));
    assert_eq!(of(10), None);
}

#[test]
fn a_receipt_of_several_sections_is_compared_with_each_of_them() {
    let mut table = SectionTable::default();
    table.put(&range("a", 1, 5), held(2, 7, 0, 0));
    let below = |table: &SectionTable, from, to, g| {
        table.first_below(&range("a", from, to), Generation(g)).map(|key| key.section.0)
    };
    assert_eq!((below(&table, 1, 5, 2), below(&table, 2, 4, 1), below(&table, 1, 5, 3)), (None, None, Some(1)));
    assert_eq!(
        (below(&table, 0, 5, 2), below(&table, 1, 6, 2), below(&table, 9, u32::MAX, 1)),
        (Some(0), Some(5), Some(9))
    );
    assert_eq!((below(&table, 3, 3, 9), below(&table, 4, 2, 9)), (None, None), "there is none in it");
    put(&mut table, "a", 3, held(1, 7, 0, 0));
    assert_eq!(below(&table, 1, 5, 2), Some(3));
    table.put_prep(record("a", 3, 2, 8, 0));
    assert_eq!(below(&table, 1, 5, 2), None, "it is proposed under that number");
    table.remove(&range("a", 2, 3));
    assert_eq!(below(&table, 1, 5, 2), Some(2));
}

#[test]
fn a_section_that_is_proposed_to_somebody_is_listed_for_nobody() {
    let mut table = SectionTable::default();
    table.put(&range("a", 1, 4), held(1, 7, 0, 0));
    assert_eq!(listed(&table, 7), [(1, 4, 1)]);
    table.put_prep(record("a", 2, 2, 8, 0));
    assert_eq!(listed(&table, 7), [(1, 2, 1), (3, 4, 1)]);
    assert!(listed(&table, 8).is_empty());
    assert_eq!(table.counts(SessionId(8)).map(|(_, count)| count).collect::<Vec<_>>(), [1]);
    assert_eq!(routes(&table, 0), [(1, 2, 7), (3, 4, 7)]);
    assert!(table.route(&key("a", 2)).is_none());
    table.drop_prep(&range("a", 2, 3));
    put(&mut table, "a", 2, held(2, 8, 0, 0));
    assert_eq!((listed(&table, 7), listed(&table, 8)), (vec![(1, 2, 1), (3, 4, 1)], vec![(2, 3, 2)]));
}

#[test]
fn records_and_proposals_of_a_name_come_together_in_order() {
    let mut table = SectionTable::default();
    assert_eq!(table.ends(&"a".parse().unwrap()), None);
    [1, 3, 4].into_iter().for_each(|at| put(&mut table, "a", at, held(1, 7, 0, 0)));
    [0, 3, 9].into_iter().for_each(|at| drop(table.put_prep(record("a", at, 2, 8, 0))));
    put(&mut table, "b", 5, held(1, 7, 0, 0));
    let all = |from| {
        let name = "a".parse().unwrap();
        let all = table.of_name(&name, Section(from));
        all.map(|it| (it.range.from.0, it.held.is_some(), it.prep.is_some())).collect::<Vec<_>>()
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
        (0..5).for_each(|at| put(&mut table, name, at, held(1, 7, at.into(), 0)));
        table.put(&range(name, 5, 1_000), held(1, 7, 9, 0));
        (3..7).for_each(|at| drop(table.put_prep(record(name, at, 2, 8, at.into()))));
        table.put_prep(record(name, 900, 2, 8, 9));
    }
    let (mut after, mut records, mut preps) = (None, BTreeMap::new(), BTreeMap::new());
    loop {
        let (page, proposed, last) = table.page(after.as_ref(), true, 3);
        assert!(page.len() + proposed.len() <= 3);
        let next = page.iter().chain(&proposed).map(|record| record.range.last()).max();
        let begin = page.iter().chain(&proposed).map(|record| record.range.first()).min();
        assert!(after < begin, "no page says anything of what another one has said");
        after = next;
        for (all, page) in [(&mut records, page), (&mut preps, proposed)] {
            for SectionRecord { range, max_seq, .. } in page {
                all.extend((range.from.0..range.to.0).map(|at| ((range.name.clone(), at), max_seq)));
            }
        }
        if last {
            break;
        }
    }
    assert_eq!((records.len(), preps.len()), (2_000, 10));
    assert!(
        records.iter().all(|((_, at), max_seq)| *max_seq == u64::from((*at).min(9)).max(if *at > 4 { 9 } else { 0 }))
    );
    let between = table.between(Some(&key("a", 3)), Some(&key("b", 1)));
    assert_eq!(between, [range("a", 4, 5), range("a", 5, 1_000), range("b", 0, 1), range("b", 1, 2)]);
    assert_eq!(table.between(Some(&key("a", 6)), Some(&key("a", 8))), [range("a", 7, 9)]);
}

#[test]
fn the_nearest_on_either_side_are_neighbours() {
    let mut table = SectionTable::default();
    put(&mut table, "a", 10, held(1, 7, 0, 0));
    table.put_prep(record("a", 12, 1, 8, 0));
    let near = |at, reach| {
        let neighbours = table.neighbours(&(&key("a", at)).into(), reach);
        neighbours.map(|session| session.map(|session| session.0))
    };
    assert_eq!(near(11, 5), [Some(7), Some(8)]);
    assert_eq!(near(14, 5), [Some(8), None]);
    assert_eq!(near(20, 5), [None, None]);
    assert_eq!(near(u32::MAX - 1, 5), [None, None]);
}

/// A raise splits one section off, and it joins its neighbours again when they are alike.
#[test]
fn a_section_leaves_its_row_and_joins_it_again() {
    let mut table = SectionTable::default();
    table.put(&range("a", 0, 100), held(1, 7, 5, 5));
    let changed = table.put(&range("a", 50, 51), held(1, 7, 9, 5));
    assert_eq!((changed.gone.len(), changed.rows.len(), table.len()), (0, 3, 3));
    assert_eq!(table.row(&key("a", 3)), Some(range("a", 0, 50)));
    table.put(&range("a", 0, 50), held(1, 7, 9, 5));
    let changed = table.put(&range("a", 51, 100), held(1, 7, 9, 9));
    assert_eq!(changed.gone, [key("a", 51)]);
    // Of the row is written what the other master holds of all of it; each section's own is known on.
    assert_eq!(
        changed.rows.iter().map(|(row, (_, held))| (row.clone(), *held)).collect::<Vec<_>>(),
        [(range("a", 0, 100), 5)]
    );
    assert_eq!([50, 51].map(|at| table.get(&key("a", at)).unwrap().peer_has), [5, 9]);
    table.note_peer_has(&range("a", 0, 1_000), 20);
    assert_eq!(table.all().collect::<Vec<_>>(), [(range("a", 0, 100), held(1, 7, 9, 9))]);
}

proptest! {
    /// Whatever is written, the indexes are those of a table that is made anew from the records, and the rows that are written down are
    /// those that are there.
    #[test]
    fn indexes_follow_the_records(
        changes in proptest::collection::vec((0_u32..6, 1_u32..5, 1_u64..4, 1_u128..4, 0_u8..5), 0..60),
    ) {
        let mut table = SectionTable::default();
        let (mut records, mut preps) = (BTreeMap::new(), BTreeMap::new());
        for (at, len, g, session, what) in changes {
            let range = range("a", at, at + len);
            let mut changed = None;
            let mut proposed = None;
            match what {
                0 => {
                    // Nobody ever holds less.
                    let known = table.pieces(&range).filter_map(|it| Some(it.held?.peer_has)).max();
                    let peer_has = known.unwrap_or_default().max(g / 2).min(g);
                    changed = Some(table.put(&range, held(g, session, g, peer_has)));
                }
                1 => {
                    let prep = record("a", at, g, u64::try_from(session).unwrap(), g);
                    proposed = Some(table.put_prep(SectionRecord { range, ..prep }));
                }
                2 => changed = Some(table.remove(&range)),
                3 => table.note_peer_has(&range, g),
                _ => proposed = Some(table.drop_prep(&range)),
            }
            if let Some(ChangedRows { gone, rows }) = changed {
                gone.iter().for_each(|key| drop(records.remove(key)));
                records.extend(rows.into_iter().map(|(row, its)| (row.first(), (row, its))));
            }
            if let Some(ChangedRows { gone, rows }) = proposed {
                gone.iter().for_each(|key| drop(preps.remove(key)));
                preps.extend(rows.into_iter().map(|(row, its)| (row.first(), (row, its))));
            }
            let again = SectionTable::new(
                records.values().map(|(row, (its, held))| (its.record(row.clone()), *held)),
                preps.values().map(|(row, its): &(SectionRange, Owned)| its.record(row.clone())),
            );
            prop_assert_eq!(&again.listed, &table.listed);
            prop_assert_eq!(&again.counts, &table.counts);
            prop_assert_eq!((&again.records, &again.preps), (&table.records, &table.preps));
            for (range, written) in again.all() {
                prop_assert!(table.pieces(&range).all(|it| it.held.is_some_and(|held| held.peer_has >= written.peer_has)));
            }
        }
    }
}
