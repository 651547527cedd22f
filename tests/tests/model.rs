//! The two masters in every state they can come into, within bounds: no duplicate, nothing stuck; and without one of the
//! mechanisms, a duplicate. The counts of states are asserted, so that a model that has lost half of what can happen is
//! noticed. `scripts/model.sh` goes further.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

use common::terms::MasterId;
use stateright::{Checker, HasDiscoveries, Model};
use std::time::{Duration, Instant};
use tests::model::Twin::{self, *};
use tests::model::{Bounds, DISJOINT, Masters, WHAT_HOLDS};

/// One value, two sessions, two grants of it, nobody replaced.
fn kept_pair() -> Bounds {
    Bounds {
        values: 1,
        sessions: 2,
        generations: 2,
        lease_days: 3,
        days: &[0, 2, 5],
        heartbeat_days: &[],
        permit_until_day: 10_000,
        lost: &[],
        release: false,
        mail_max: 64,
        every_clock: false,
        keep_inert_mail: false,
        heal_every: 1,
        twins: vec![],
    }
}

/// One of the two is declared lost, and lives on. A permit reaches past a lease, so that what it bounds is seen.
fn replaced(lost: &'static [MasterId]) -> Bounds {
    Bounds { lease_days: 30, days: &[0, 16, 32], heartbeat_days: &[0], permit_until_day: 46, lost, ..kept_pair() }
}

/// All states within `bounds`, and what holds in them.
fn exhaust(name: &str, bounds: Bounds) -> usize {
    let began = Instant::now();
    let checker = Masters::new(bounds).unwrap().checker().threads(2).spawn_bfs().join();
    let (states, steps, depth) = (checker.unique_state_count(), checker.state_count(), checker.max_depth());
    println!("{name}: {states} states, {steps} steps, depth {depth}, {:.1?}, {}", began.elapsed(), memory());
    let broken = checker.discoveries().into_iter().map(|(what, path)| (what, path.into_actions()));
    assert_eq!(broken.collect::<Vec<_>>(), [], "{name}");
    states
}

/// How many steps lead to a duplicate when this is taken away.
fn duplicate(twins: &[Twin], bounds: Bounds) -> Option<usize> {
    let model = Masters::new(Bounds { twins: twins.to_vec(), heal_every: 0, ..bounds }).unwrap();
    let checker = model.checker().finish_when(HasDiscoveries::Any).spawn_bfs().join();
    let found = checker.discovery(DISJOINT).map(|path| path.into_actions().len());
    println!("without {twins:?}: {found:?} steps, {} states", checker.unique_state_count());
    found
}

fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default().replace('\t', " ")
}

#[test]
fn a_pair_that_is_kept_promises_nothing_twice() {
    assert_eq!(exhaust("kept pair", kept_pair()), 1_574);
    assert_eq!(exhaust("tight days", Bounds { lease_days: 1, days: &[0, 1, 3], ..kept_pair() }), 1_332);
}

#[test]
fn the_clock_at_which_mail_arrives_changes_nothing() {
    assert_eq!(exhaust("every clock", Bounds { every_clock: true, ..kept_pair() }), 1_574);
}

#[test]
fn without_a_mechanism_a_kept_pair_promises_twice() {
    let found = |twins: &[Twin]| duplicate(twins, kept_pair());
    // Each rule of the two pairs covers for the other.
    let steps = [
        found(&[RenewalsNotDurable]),
        found(&[CloseIgnoresUntil]),
        found(&[EndAlone, ConfirmBlindly]),
        found(&[RenewAfterClose, ConfirmBlindly]),
    ];
    assert_eq!(steps.map(Option::unwrap), [12, 11, 9, 11]);
    let tight = |twins: &[Twin]| {
        let bounds = Bounds { lease_days: 1, days: &[0, 1, 3], release: twins == [DenyFrees], ..kept_pair() };
        duplicate(twins, bounds)
    };
    let steps =
        [tight(&[BothPropose]), tight(&[AbortedPrep, AnyConfirm]), tight(&[DenyFrees]), tight(&[RolledBackDisk])];
    assert_eq!(steps.map(Option::unwrap), [6, 7, 8, 10]);
}

/// The permits stay what they were at the beginning: fewer states, and enough of them.
fn replaced_once() -> Bounds {
    Bounds { heartbeat_days: &[], ..replaced(&[MasterId::One]) }
}

#[test]
fn without_a_mechanism_a_replaced_master_promises_twice() {
    assert!(duplicate(&[PrepForgotten], replaced_once()).is_some());
}

#[test]
#[ignore = "takes minutes; scripts/model.sh runs it"]
fn without_the_bump_a_replaced_master_promises_twice() {
    assert!(duplicate(&[NoBump], replaced_once()).is_some());
}

#[test]
fn what_another_rule_covers_is_redundant() {
    let tight = || Bounds { lease_days: 1, days: &[0, 1, 3], ..kept_pair() };
    for twin in [EndAlone, ConfirmBlindly, AnyConfirm, ServeBeforeSync] {
        assert_eq!(duplicate(&[twin], tight()), None, "{twin:?}");
    }
}

/// As far as `MODEL_SECONDS` (600 if not given) for each lets it go; a run that was not cut short is exhaustive.
#[test]
#[ignore = "takes long; scripts/model.sh runs it"]
fn large_bounds() {
    let seconds = std::env::var("MODEL_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(600);
    let all = [
        ("three sessions, three grants", Bounds { sessions: 3, generations: 3, days: &[0, 2, 5, 10], ..kept_pair() }),
        ("two values", Bounds { values: 2, ..kept_pair() }),
        ("given back", Bounds { release: true, ..kept_pair() }),
        ("home replaced", replaced(&[MasterId::Two])),
        ("other replaced", replaced(&[MasterId::One])),
        ("both replaced in turn", replaced(&[MasterId::Two, MasterId::One])),
    ];
    for (name, bounds) in all {
        let began = Instant::now();
        let model = Masters::new(Bounds { heal_every: 64, ..bounds }).unwrap();
        let checker = model.checker().threads(2).timeout(Duration::from_secs(seconds)).spawn_bfs().join();
        let whole = if began.elapsed() < Duration::from_secs(seconds) { "exhaustive" } else { "cut short" };
        let (states, steps, depth) = (checker.unique_state_count(), checker.state_count(), checker.max_depth());
        println!(
            "{name}: {whole}, {states} states, {steps} steps, depth {depth}, {:.1?}, {}",
            began.elapsed(),
            memory()
        );
        for what in WHAT_HOLDS {
            checker.assert_no_discovery(what);
        }
    }
}
