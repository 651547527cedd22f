//! Two masters with one axis, and with one section and its agents, in every state they can come into, within bounds: nothing is granted or
//! given twice, and numbers come in order; and without one of the mechanisms, something is. The counts of states are asserted, so that a
//! model that has lost half of what can happen is noticed. `scripts/model.sh` goes further.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

use common::parameters::MasterId;
use stateright::{Checker, Expectation, HasDiscoveries, Model};
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;
use tests::ranges_model::Twin::{self, *};
use tests::ranges_model::{Axes, AxisBounds, Befalls, ONCE, SectionBounds, Sections};

/// All states of `model`, and what holds in them, and can be reached.
fn exhaust<M>(name: &str, model: M) -> usize
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq,
{
    let began = Instant::now();
    let mut checker = model.checker().threads(2);
    if let Ok(n) = std::env::var("MODEL_STATES") {
        checker = checker.target_state_count(n.parse().unwrap());
    }
    let checker = checker.spawn_bfs().join();
    let (states, steps, depth) = (checker.unique_state_count(), checker.state_count(), checker.max_depth());
    println!("{name}: {states} states, {steps} steps, depth {depth}, {:.1?}, {}", began.elapsed(), memory());
    let found = checker.discoveries();
    for what in checker.model().properties() {
        let path = found.get(what.name).map(|path| path.clone().into_actions());
        match what.expectation {
            Expectation::Sometimes => assert!(path.is_some(), "{name}: never: {}", what.name),
            _ => assert!(path.is_none(), "{name}: {}: {path:#?}", what.name),
        }
    }
    states
}

/// How many steps lead to where `what` does not hold.
fn violation<M>(name: &str, what: &'static str, model: M) -> Option<usize>
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq,
{
    let began = Instant::now();
    let checker = model.checker().threads(2).finish_when(HasDiscoveries::Any).spawn_bfs().join();
    let path = checker.discovery(what).map(|path| path.into_actions());
    let found = path.as_ref().map(Vec::len);
    println!("{name}: {found:?} steps, {} states, {:.1?}", checker.unique_state_count(), began.elapsed());
    if std::env::var_os("MODEL_PATHS").is_some() {
        println!("{path:#?}");
    }
    found
}

fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default().replace('\t', " ")
}

/// Whether there is time for what takes minutes.
fn large() -> bool {
    std::env::var_os("MODEL").is_some_and(|size| size == "large")
}

/// Two sessions, one of which wants one place at a time and the other two; nothing befalls anybody but loss, delay and doubling.
fn axis() -> AxisBounds {
    AxisBounds { places: 5, wanted: &[1, 2], befalls: kept_pair() }
}

/// Nothing befalls anybody but loss, delay and doubling.
fn kept_pair() -> Befalls {
    Befalls {
        restarts: 0,
        reboots: 0,
        put_back: None,
        lost: &[],
        dead: false,
        messages_max: 3,
        keep_inert: false,
        twins: vec![],
    }
}

fn axes(name: &str, befalls: Befalls) -> usize {
    exhaust(name, Axes::new(AxisBounds { befalls, ..axis() }).unwrap())
}

fn twice(twins: &[Twin], befalls: Befalls) -> Option<usize> {
    let befalls = Befalls { twins: twins.to_vec(), ..befalls };
    violation(&format!("without {twins:?}"), ONCE, Axes::new(AxisBounds { befalls, ..axis() }).unwrap())
}

#[test]
fn every_place_is_granted_once() {
    axes("axis", kept_pair());
    axes("axis, a restart", Befalls { restarts: 1, ..kept_pair() });
    axes("axis, a reboot", Befalls { reboots: 1, ..kept_pair() });
    for id in [MasterId::One, MasterId::Two] {
        axes("axis, put back", Befalls { put_back: Some(id), ..kept_pair() });
    }
    axes("axis, other lost", Befalls { lost: &[MasterId::One], ..kept_pair() });
    axes("axis, home lost", Befalls { lost: &[MasterId::Two], ..kept_pair() });
}

#[test]
fn without_a_mechanism_a_place_is_granted_twice() {
    assert!(twice(&[CursorNotDurable], Befalls { restarts: 1, ..kept_pair() }).is_some());
    for id in [MasterId::One, MasterId::Two] {
        assert!(twice(&[PutBackBelieved], Befalls { put_back: Some(id), ..kept_pair() }).is_some());
        assert!(twice(&[RunGoesOn], Befalls { put_back: Some(id), ..kept_pair() }).is_some());
    }
}

/// The clocks of the two agents differ by as much as they may.
fn section() -> SectionBounds {
    SectionBounds {
        home: MasterId::Two,
        owners: 2,
        numbers: 3,
        lost_raises: false,
        any_clock: false,
        ordered: true,
        again: 0,
        fresh: 0,
        befalls: Befalls { messages_max: 2, ..kept_pair() },
    }
}

fn sections(name: &str, bounds: SectionBounds) -> usize {
    exhaust(name, Sections::new(bounds).unwrap())
}

#[test]
fn numbers_come_once_and_in_order() {
    sections("section", section());
}
