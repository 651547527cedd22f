//! Two masters with one axis, and with one section and its agents, in every state they can come into, within bounds: nothing is granted or
//! given twice, and numbers come in order; and without one of the mechanisms, something is. The counts of states are asserted, so that a
//! model that has lost half of what can happen is noticed. `scripts/model.sh` goes further.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

use super::{large, memory, states, step_aside};
use common::parameters::MasterId::{self, One, Two};
use models::ranges_model::Twin::{self, *};
use models::ranges_model::{
    ALLOWANCE, Axes, AxisBounds, BOUNDED, Befalls, ONCE, ORDERED, SERVED, SectionBounds, Sections, UNIQUE,
};
use models::ranges_model::{calendars, standstill};
use stateright::{Checker, Expectation, HasDiscoveries, Model};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

/// All states of `model`, and what holds in them, and can be reached.
fn exhaust<M>(name: &str, model: M) -> usize
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq,
{
    step_aside();
    let began = Instant::now();
    let checker = model.checker().threads(2).spawn_bfs().join();
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

/// The first property that does not hold, and how many steps lead there.
fn violation<M>(name: &str, model: M) -> Option<(&'static str, usize)>
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq,
{
    step_aside();
    let began = Instant::now();
    let checker = model.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let holds = |what: &str| {
        let mut all = checker.model().properties().into_iter();
        all.any(|it| it.name == what && it.expectation != Expectation::Sometimes)
    };
    let mut discoveries = checker.discoveries().into_iter();
    let path = discoveries.find(|(what, _)| holds(what)).map(|(what, path)| (what, path.into_actions()));
    let found = path.as_ref().map(|(what, path)| (*what, path.len()));
    println!("{name}: {found:?}, {} states, {:.1?}, {}", checker.unique_state_count(), began.elapsed(), memory());
    if std::env::var_os("MODEL_PATHS").is_some() {
        println!("{path:#?}");
    }
    found
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
        revert: None,
        shown: false,
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

/// Gives what goes wrong with the axis where this is taken away.
fn without(twin: Twin, befalls: Befalls) -> Option<&'static str> {
    let befalls = Befalls { twins: vec![twin], ..befalls };
    let name = format!("axis without {twin:?}, {:?} put back, {:?} lost", befalls.put_back, befalls.lost);
    violation(&name, Axes::new(AxisBounds { befalls, ..axis() }).unwrap()).map(|(what, _)| what)
}

fn lost(lost: &'static [MasterId]) -> Befalls {
    Befalls { lost, ..kept_pair() }
}

fn put_back(id: MasterId) -> Befalls {
    Befalls { put_back: Some(id), ..kept_pair() }
}

#[test]
fn every_place_is_granted_once() {
    let counts = [
        axes("axis", kept_pair()),
        axes("axis, a start", Befalls { restarts: 1, ..kept_pair() }),
        axes("axis, other put back", put_back(One)),
        axes("axis, other lost", lost(&[One])),
    ];
    assert_eq!(counts, [2_068, 48_995, 56_824, 66_091]);
}

/// Minutes, so only where `MODEL=large` asks for it, as `scripts/model.sh` does.
#[test]
fn every_place_is_granted_once_within_large_bounds() {
    if !large() {
        return;
    }
    axes("axis, an unproven start", Befalls { reboots: 1, ..kept_pair() });
    axes("axis, home put back", put_back(Two));
    axes("axis, home lost", lost(&[Two]));
    axes("axis, a start, other put back", Befalls { restarts: 1, ..put_back(One) });
    axes("axis, other put back, home lost", Befalls { put_back: Some(One), messages_max: 2, ..lost(&[Two]) });
    axes("axis, both lost", Befalls { messages_max: 2, ..lost(&[One, Two]) });
}

#[test]
fn without_a_mechanism_a_place_is_granted_twice() {
    let found = |twin, befalls| assert_eq!(without(twin, befalls), Some(ONCE), "{twin:?}");
    found(CursorNotDurable, Befalls { restarts: 1, ..kept_pair() });
    for id in [One, Two] {
        found(PutBackBelieved, put_back(id));
        found(RunGoesOn, put_back(id));
    }
    found(UsedBeforeConfirmed, lost(&[One]));
    found(UsedBeforeConfirmed, lost(&[Two]));
    found(PrepForgotten, lost(&[One]));
    // Where what is of no news may return, it stays in flight.
    found(ConfirmBlindly, Befalls { messages_max: 12, ..kept_pair() });
    if large() {
        found(ProposalsKeptBack, Befalls { put_back: Some(One), ..lost(&[Two]) });
        found(GoesOnAfterCut, lost(&[One, Two]));
        found(GoesOnAfterCut, lost(&[Two, One]));
    }
}

/// The clocks of the two agents differ by as much as they may.
fn section() -> SectionBounds {
    SectionBounds {
        home: Two,
        owners: 2,
        numbers: 3,
        lost_raises: false,
        any_clock: false,
        spans: 0,
        ordered: true,
        again: 0,
        fresh: 0,
        heals: false,
        given_again: false,
        befalls: Befalls { messages_max: 2, ..kept_pair() },
    }
}

/// No clock is looked at, and only uniqueness has to hold.
fn any_clock() -> SectionBounds {
    SectionBounds { any_clock: true, ordered: false, numbers: 4, ..section() }
}

/// An agent's process ends and starts again as the same session.
fn again() -> SectionBounds {
    SectionBounds { numbers: 3, again: 1, ..any_clock() }
}

fn sections(name: &str, bounds: SectionBounds) -> usize {
    exhaust(name, Sections::new(bounds).unwrap())
}

/// `bounds`, where that befalls the masters.
fn and(bounds: SectionBounds, befalls: Befalls) -> SectionBounds {
    SectionBounds { befalls: Befalls { messages_max: 2, ..befalls }, ..bounds }
}

#[test]
fn numbers_come_once_and_in_order() {
    let counts = [
        sections("section", section()),
        sections("section, a span that ended, two numbers", SectionBounds { numbers: 2, spans: 1, ..section() }),
        sections("section, any clock", any_clock()),
        sections("section, any clock, an agent starts again", SectionBounds { numbers: 2, ..again() }),
    ];
    assert_eq!(counts, [207_291, 788_513, 67_664, 60_541]);
}

/// An agent keeps its sections and can give nothing, from any state on.
fn unable() -> SectionBounds {
    SectionBounds { heals: true, numbers: 2, ..any_clock() }
}

#[test]
fn an_owner_that_keeps_and_cannot_give_is_followed_by_one_that_can() {
    assert_eq!(sections("section, an owner that cannot give", unable()), 6_469);
    if large() {
        sections("section, an owner that cannot give, four numbers", SectionBounds { numbers: 4, ..unable() });
    }
    let mut unsaid = unable();
    unsaid.befalls.twins = vec![LeavesUnsaid];
    let found = violation("section, an owner that cannot give and does not say so", Sections::new(unsaid).unwrap());
    assert_eq!(found.map(|(what, _)| what), Some(SERVED));
}

#[test]
fn a_machine_that_stands_still_with_its_clock_serves_nothing_past_a_lease() {
    step_aside();
    let depth = if large() { 12 } else { 10 };
    let walked = |compared| {
        let began = Instant::now();
        let walked = standstill::walk(depth, compared).unwrap();
        println!("a standing clock, compared: {compared}: {walked:?}, {:.1?}", began.elapsed());
        walked
    };
    let found = walked(true);
    assert_eq!(found.served_past, 0);
    if !large() {
        assert_eq!((found.sequences, found.seen), (1_048_576, 9_972));
    }
    assert!(walked(false).served_past > 0, "clocks are not compared");
}

#[test]
fn masters_that_started_by_wrong_calendars_follow_what_all_show_and_nothing_else() {
    step_aside();
    let depth = if large() { 4 } else { 3 };
    let walked = |own_read| {
        let began = Instant::now();
        let followed = calendars::walk(depth, own_read).unwrap();
        println!("wrong calendars, the other one's not looked at: {own_read}: {followed:?}, {:.1?}", began.elapsed());
        followed
    };
    let found = walked(false);
    assert_eq!((found.late, found.early, found.wrong), (0, 0, 0));
    if !large() {
        assert_eq!((found.sequences, found.right), (1_728, 36));
    }
    assert!(walked(true).early > 0, "one machine alone is followed");
}

/// Both disks are put back, an owner that was overtaken lives, and so does who overtook it. The quiet time may end at once.
fn reverted(numbers: u64) -> SectionBounds {
    SectionBounds { numbers, ..and(any_clock(), Befalls { revert: Some(ALLOWANCE), ..kept_pair() }) }
}

/// The same with one number more forgotten than either master may raise alone.
fn forgotten(shown: bool) -> SectionBounds {
    let befalls = Befalls { revert: Some(ALLOWANCE + 1), shown, ..kept_pair() };
    SectionBounds { numbers: 5, ..and(any_clock(), befalls) }
}

#[test]
fn numbers_come_once_after_both_disks_were_put_back() {
    assert_eq!(sections("section, both put back", reverted(5)), 310_159);
    if large() {
        sections("section, both put back, six numbers", reverted(6));
        sections("section, both put back, given again", SectionBounds { given_again: true, ..reverted(5) });
    }
}

/// Skips what both have forgotten as far as either may raise alone, so that receipts are needed beyond that only.
#[test]
fn without_a_mechanism_a_number_comes_twice_after_both_disks_were_put_back() {
    let without = |twins: &[Twin]| {
        let mut bounds = reverted(5);
        bounds.befalls.twins = twins.to_vec();
        let found = violation(&format!("section without {twins:?}, both put back"), Sections::new(bounds).unwrap());
        found.map(|(what, _)| what)
    };
    assert_eq!(without(&[RaiseFromIgnored]), Some(UNIQUE));
    assert_eq!(without(&[ReceiptsIgnored, NothingAddedAtAMeeting]), Some(UNIQUE));
    if large() {
        assert_eq!(without(&[ReceiptsIgnored]), None);
    }
}

/// Nobody is raised before later owners have had their time to show receipts.
#[test]
fn what_both_have_forgotten_comes_once_where_its_owner_shows_it() {
    assert_eq!(sections("section, both put back, more forgotten and shown", forgotten(true)), 454_598);
}

/// The cases that operators are told of (docs/understand/limits.md): an owner that is cut off while its receipt is looked for, and a next owner that begins
/// beyond what either master may raise alone, and no further.
#[test]
fn what_both_have_forgotten_beyond_an_allowance_may_come_twice() {
    let found = |name: &str, bounds| violation(name, Sections::new(bounds).unwrap()).map(|(what, _)| what);
    let unshown = found("section, both put back, more forgotten and not shown", forgotten(false));
    assert_eq!(unshown, Some(UNIQUE));
    if large() {
        let given_again = SectionBounds { given_again: true, ..forgotten(true) };
        assert_eq!(found("section, both put back, more forgotten, given again", given_again), Some(UNIQUE));
    }
}

/// Minutes, so only where `MODEL=large` asks for it, as `scripts/model.sh` does.
#[test]
fn numbers_come_once_and_in_order_within_large_bounds() {
    if !large() {
        return;
    }
    let small = || SectionBounds { numbers: 3, ..any_clock() };
    sections("section, a span that ended", SectionBounds { spans: 1, ..section() });
    sections("section, home the other one", SectionBounds { home: One, ..section() });
    sections("section, raises lost", SectionBounds { lost_raises: true, ..section() });
    sections("section, any clock, an agent starts again, three numbers", again());
    sections("section, an agent starts again", SectionBounds { again: 1, ..section() });
    sections("section, any clock, an agent starts fresh", SectionBounds { fresh: 1, ..any_clock() });
    sections("section, any clock, a start", and(small(), Befalls { restarts: 1, ..kept_pair() }));
    sections("section, any clock, an unproven start", and(any_clock(), Befalls { reboots: 1, ..kept_pair() }));
    for id in [One, Two] {
        sections(&format!("section, any clock, {id} put back"), and(any_clock(), put_back(id)));
    }
    sections("section, any clock, other lost", and(any_clock(), lost(&[One])));
    sections("section, any clock, home lost", and(any_clock(), lost(&[Two])));
    sections("section, a start", and(section(), Befalls { restarts: 1, messages_max: 1, ..kept_pair() }));
    sections("section, other dead and replaced", and(section(), Befalls { dead: true, ..lost(&[One]) }));
}

#[test]
fn without_a_mechanism_a_number_comes_twice_or_out_of_order() {
    let found = |twin, what, mut bounds: SectionBounds| {
        bounds.befalls.twins = vec![twin];
        let befalls = &bounds.befalls;
        let name = format!("section without {twin:?}, {:?} put back, {:?} lost", befalls.put_back, befalls.lost);
        let found = violation(&name, Sections::new(bounds).unwrap()).map(|(what, _)| what);
        assert_eq!(found, Some(what), "{twin:?}");
    };
    for twin in [NoWait, WaitOfALease, ServesPastItsLease] {
        found(twin, ORDERED, section());
    }
    for twin in [RaisedDuringPrep, RaisedForAnybody, ConfirmWithoutBound] {
        found(twin, UNIQUE, any_clock());
    }
    found(NothingWrittenDown, UNIQUE, again());
    found(RaiseNotDurable, BOUNDED, and(any_clock(), Befalls { restarts: 1, ..kept_pair() }));
    found(NothingAddedAtALoss, UNIQUE, and(any_clock(), lost(&[One])));
    for twin in [NothingAddedAtAMeeting, PutBackBelieved, ServesUnmet] {
        found(twin, UNIQUE, and(any_clock(), put_back(One)));
    }
    if !large() {
        return;
    }
    for twin in [LeaseFromReceipt, ListedDuringPrep] {
        found(twin, ORDERED, section());
    }
    for twin in [NothingAddedAtAMeeting, PutBackBelieved, ServesUnmet] {
        found(twin, UNIQUE, and(any_clock(), put_back(Two)));
    }
    found(ProposalsKeptBack, UNIQUE, and(any_clock(), put_back(One)));
    found(PrepForgotten, UNIQUE, and(any_clock(), lost(&[One])));
    found(SectionPrepNotDurable, UNIQUE, and(section(), Befalls { restarts: 1, ..kept_pair() }));
}

/// Masters, agents, and what was granted and given come into the same states whether messages that can change nothing any more are kept in
/// flight or taken out at once.
#[test]
fn messages_that_are_taken_out_hide_no_state() {
    let all = |keep_inert| Befalls { keep_inert, messages_max: usize::MAX, ..kept_pair() };
    let of_axis = |keep_inert| {
        let model = Axes::new(AxisBounds { places: 3, befalls: all(keep_inert), ..axis() }).unwrap();
        states(&model, |world| world.without_messages())
    };
    let of_section = |keep_inert| {
        let model = Sections::new(SectionBounds { numbers: 2, befalls: all(keep_inert), ..any_clock() }).unwrap();
        states(&model, |world| world.without_messages())
    };
    let mut counts = Vec::new();
    let mut compare = |[(reduced, few), (whole, many)]: [(BTreeSet<u64>, usize); 2]| {
        assert!(reduced == whole, "{} and {} states", reduced.len(), whole.len());
        counts.push((whole.len(), few, many));
    };
    compare([of_axis(false), of_axis(true)]);
    if large() {
        compare([of_section(false), of_section(true)]);
    }
    let known = [(177, 435, 39_673), (5_028, 32_134, 750_436)];
    assert!(known.starts_with(&counts), "{counts:?}");
}
