//! The two masters in every state they can come into, within bounds: no duplicate, nothing stuck; and without one of the
//! mechanisms, a duplicate. The counts of states are asserted, so that a model that has lost half of what can happen is
//! noticed. `scripts/model.sh` goes further.

use super::{large, memory, states, step_aside};
use common::lease::Generation;
use common::parameters::{MasterId, SessionId};
use common::time::{DAY_MS, WallMs};
use common::token::{TokenType, TokenValue};
use models::model::Twin::{self, *};
use models::model::{ANSWERED, Action, BOTH_KNOW, Bounds, DISJOINT, GREETINGS_MAX, Masters};
use stateright::{Checker, HasDiscoveries, Model, Property};
use std::time::Instant;
use wire::peer::{PeerFrame, PeerMessage};

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
        put_back: None,
        awaiting: false,
        revert: false,
        copied: None,
        greetings: None,
        release: false,
        messages_max: 64,
        every_clock: false,
        keep_inert_messages: false,
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
    step_aside();
    let began = Instant::now();
    let checker = Masters::new(bounds).unwrap().checker().threads(2).spawn_bfs().join();
    let (states, steps, depth) = (checker.unique_state_count(), checker.state_count(), checker.max_depth());
    println!("{name}: {states} states, {steps} steps, depth {depth}, {:.1?}, {}", began.elapsed(), memory());
    let broken = checker.discoveries().into_iter().map(|(what, path)| (what, path.into_actions()));
    assert_eq!(broken.collect::<Vec<_>>(), [], "{name}");
    states
}

/// Counts the steps that lead to a duplicate when this is taken away.
fn duplicate(twins: &[Twin], bounds: Bounds) -> Option<usize> {
    violation(DISJOINT, twins, bounds)
}

/// Counts the steps that lead to where `what` does not hold.
fn violation(what: &'static str, twins: &[Twin], bounds: Bounds) -> Option<usize> {
    step_aside();
    let model = Masters::new(Bounds { twins: twins.to_vec(), heal_every: 0, ..bounds }).unwrap();
    let checker = model.checker().finish_when(HasDiscoveries::Any).spawn_bfs().join();
    let path = checker.discovery(what).map(|path| path.into_actions());
    let found = path.as_ref().map(Vec::len);
    println!("without {twins:?}: {found:?} steps, {} states", checker.unique_state_count());
    if std::env::var_os("MODEL_PATHS").is_some() {
        println!("{path:#?}");
    }
    found
}

#[test]
fn a_pair_that_is_kept_promises_nothing_twice() {
    assert_eq!(exhaust("kept pair", kept_pair()), 2_474);
    assert_eq!(exhaust("tight days", Bounds { lease_days: 1, days: &[0, 1, 3], ..kept_pair() }), 1_632);
}

#[test]
fn the_clock_at_which_messages_arrives_changes_nothing() {
    assert_eq!(exhaust("every clock", Bounds { every_clock: true, ..kept_pair() }), 2_474);
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

/// One disk is put back to any state it was in. Few frames are in flight at once: enough for the duplicate to be found where
/// nothing is lifted.
fn put_back(master: MasterId) -> Bounds {
    Bounds { permit_until_day: 6, put_back: Some(master), heal_every: 64, messages_max: 3, ..kept_pair() }
}

#[test]
fn a_disk_that_is_put_back_promises_nothing_twice() {
    assert_eq!(exhaust("home put back", put_back(MasterId::Two)), 23_111);
    if large() {
        assert_eq!(exhaust("other put back", put_back(MasterId::One)), 27_004);
    }
}

#[test]
fn a_disk_that_is_put_back_and_believed_promises_twice() {
    assert_eq!(duplicate(&[PutBackBelieved], put_back(MasterId::Two)), Some(16));
    if large() {
        assert!(duplicate(&[NoLift], put_back(MasterId::Two)).is_some());
    }
}

/// Master 1 confirms a grant and answers its agent, and is then put back to before that. It meets master 2, which still waits
/// for the confirmation and is lost at once; its replacement is at home with the value.
#[test]
fn a_confirmation_that_was_forgotten_is_known_again_before_the_other_master_can_be_lost() {
    let bounds = || Bounds { put_back: Some(MasterId::One), lost: &[MasterId::Two], ..kept_pair() };
    let proposed = |to, session| {
        let to_it = proposal_to(session);
        Box::new(
            move |action: &Action| matches!(action, Action::Deliver { at, frame, .. } if *at == to && to_it(&frame.message)),
        ) as Step
    };
    let confirmed = |to, session| {
        let by_it = confirmation_to(session);
        Box::new(
            move |action: &Action| matches!(action, Action::Deliver { at, frame, .. } if *at == to && by_it(&frame.message)),
        ) as Step
    };
    let path = [
        this(Action::Keep { at: 0 }),
        asks(1, 1, 0),
        proposed(0, 1),
        asks(0, 1, 0),
        this(Action::PutBack { at: 0 }),
        this(Action::CutPage { at: 0, from: 1 }),
        this(Action::TakePage { at: 0 }),
        this(Action::PeerLost { survivor: 0 }),
        this(Action::Join),
        this(Action::Join),
        this(Action::Join),
        this(Action::CutPage { at: 2, from: 0 }),
        this(Action::TakePage { at: 2 }),
        this(Action::CutPage { at: 0, from: 2 }),
        this(Action::TakePage { at: 0 }),
        asks(2, 2, 0),
        proposed(0, 2),
        confirmed(2, 2),
        asks(2, 2, 0),
    ];
    assert_eq!(broken_by(&[], bounds(), &path), [""; 0]);
    assert!(broken_by(&[ProposalsKeptBack], bounds(), &path).contains(&DISJOINT));
}

/// The other one is declared lost after that, whenever.
#[test]
fn a_disk_that_is_put_back_before_the_other_is_lost_promises_nothing_twice() {
    let bounds = |id: MasterId, lost| Bounds { generations: 1, days: &[0, 5], lost, ..put_back(id) };
    let counts = [
        exhaust("other put back, home lost", bounds(MasterId::One, &[MasterId::Two])),
        exhaust("home put back, other lost", bounds(MasterId::Two, &[MasterId::One])),
    ];
    assert_eq!(counts, [156_085, 92_281]);
}

/// A survivor is put back to any state in which it awaited its replacement, which has joined and is there. It looks untouched.
fn awaiting(survivor: MasterId, lost: &'static [MasterId]) -> Bounds {
    let once =
        Bounds { generations: 1, days: &[0], messages_max: 2, permit_until_day: 6, heal_every: 8, ..kept_pair() };
    Bounds { awaiting: true, put_back: Some(survivor), lost, ..once }
}

#[test]
fn a_survivor_that_is_put_back_while_it_awaits_promises_nothing_twice() {
    let counts = |days| {
        let later = |bounds| Bounds { days, ..bounds };
        [
            exhaust("home put back while it awaits", later(awaiting(MasterId::Two, &[MasterId::One]))),
            exhaust("other put back while it awaits", later(awaiting(MasterId::One, &[MasterId::Two]))),
        ]
    };
    assert_eq!(counts(&[0]), [10_868, 19_514]);
    if large() {
        assert_eq!(counts(&[0, 5]), [29_582, 57_058]);
    }
}

#[test]
fn a_survivor_that_hears_nobody_while_it_awaits_promises_twice() {
    let found = |survivor, lost| duplicate(&[TokenUsedIgnored], awaiting(survivor, lost));
    assert_eq!(found(MasterId::Two, &[MasterId::One]), Some(22));
    if large() {
        assert_eq!(found(MasterId::One, &[MasterId::Two]), Some(20));
    }
}

/// Both disks are put back to any state they were in together.
fn reverted() -> Bounds {
    Bounds { permit_until_day: 6, revert: true, heal_every: 64, messages_max: 3, ..kept_pair() }
}

#[test]
fn two_disks_that_are_put_back_promise_nothing_twice_once_agents_have_shown_what_they_hold() {
    if large() {
        exhaust("both put back", reverted());
    }
}

#[test]
fn without_receipts_two_disks_that_are_put_back_promise_twice() {
    if large() {
        assert!(duplicate(&[NoReceipts], reverted()).is_some());
    }
}

/// A master's folder is copied. What is of no news to the original is of none to the copy, as long as that does nothing with it.
fn copied(master: MasterId) -> Bounds {
    Bounds { copied: Some(master), heal_every: 0, ..kept_pair() }
}

#[test]
fn a_copy_beside_its_original_promises_nothing() {
    let counts = [exhaust("other copied", copied(MasterId::One)), exhaust("home copied", copied(MasterId::Two))];
    assert_eq!(counts, [16_732, 18_032]);
}

#[test]
fn a_copy_that_does_not_know_it_promises_twice() {
    for twin in [CopyTrusted, CopyConsents] {
        assert!(duplicate(&[twin], copied(MasterId::One)).is_some(), "{twin:?}");
    }
}

/// A copy, its original and the other master greet each other on each new connection, each in a life of its own, and one of
/// them may start again.
fn greeting(copied_master: MasterId) -> Bounds {
    Bounds { greetings: Some(1), messages_max: 3, ..copied(copied_master) }
}

#[test]
fn copies_that_are_told_apart_by_their_starts_promise_nothing_twice() {
    let once = |id| Bounds { greetings: Some(0), generations: 1, sessions: 1, messages_max: 2, ..greeting(id) };
    let counts = [
        exhaust("other copied, greetings", once(MasterId::One)),
        exhaust("home copied, greetings", once(MasterId::Two)),
    ];
    assert_eq!(counts, [22_331, 23_283]);
    if large() {
        let again = |id| Bounds { greetings: Some(1), ..once(id) };
        let counts = [
            exhaust("other copied, greetings, a restart", again(MasterId::One)),
            exhaust("home copied, greetings, a restart", again(MasterId::Two)),
        ];
        assert_eq!(counts, [683_374, 909_428]);
    }
}

/// One step of a path.
type Step = Box<dyn Fn(&Action) -> bool>;

fn this(wanted: Action) -> Step {
    Box::new(move |action| *action == wanted)
}

fn connects(at: usize, with: usize) -> Step {
    this(Action::Greet { at, with, count: GREETINGS_MAX })
}

fn noon(day: i64) -> WallMs {
    WallMs(day * DAY_MS + DAY_MS / 2)
}

fn asks(at: usize, session: u128, day: i64) -> Step {
    this(Action::Request { at, session: SessionId(session), wall: noon(day) })
}

/// Something that a master said arrives; `life` is the mark of the life in which it said it, for those of the first two masters,
/// and a copy of one, their own number.
fn arrives(to: usize, life: u64, what: impl Fn(&PeerMessage) -> bool + 'static) -> Step {
    let said = move |frame: &PeerFrame| frame.life.mark == life && what(&frame.message);
    Box::new(move |action| matches!(action, Action::Deliver { at, frame, .. } if *at == to && said(frame)))
}

fn proposal_to(session: u128) -> impl Fn(&PeerMessage) -> bool {
    move |message| matches!(message, PeerMessage::Propose { prep } if prep.session == SessionId(session))
}

fn confirmation_to(session: u128) -> impl Fn(&PeerMessage) -> bool {
    move |message| matches!(message, PeerMessage::Confirm { prep } if prep.session == SessionId(session))
}

/// Gives what does not hold at the end of a path, gone as far as it can be.
fn broken_by(twins: &[Twin], bounds: Bounds, path: &[Step]) -> Vec<&'static str> {
    let model = Masters::new(Bounds { twins: twins.to_vec(), ..bounds }).unwrap();
    let mut world = model.init_states().remove(0);
    for step in path {
        let mut actions = Vec::new();
        model.actions(&world, &mut actions);
        let next = actions.into_iter().find(|action| step(action));
        world = next.and_then(|action| model.next_state(&world, action)).unwrap_or(world);
    }
    let broken = |what: &Property<Masters>| !(what.condition)(&model, &world);
    model.properties().into_iter().filter(broken).map(|what| what.name).collect()
}

/// Master 1 is copied, and the way to it leads now to the copy, now to the original, so that both know of a grant. What the
/// original renews the copy does not know, and consents to its end. Deeper than all states could be walked.
#[test]
fn without_the_starts_in_greetings_copies_promise_twice() {
    let bounds = || Bounds { messages_max: 64, ..greeting(MasterId::One) };
    let key = TokenType::Uint2.key(TokenValue(0));
    let (g, session) = (Generation(1), SessionId(1));
    let path = [
        this(Action::Copy { at: 0 }),
        connects(1, 2),
        this(Action::CutPage { at: 2, from: 1 }),
        this(Action::TakePage { at: 2 }),
        connects(1, 0),
        asks(1, 1, 0),
        arrives(0, 1, proposal_to(1)),
        connects(1, 2),
        this(Action::Beat { at: 1, wall: noon(5) }),
        arrives(2, 1, proposal_to(1)),
        arrives(1, 2, confirmation_to(1)),
        asks(1, 1, 0),
        this(Action::Renew { at: 0, key, g, session, wall: noon(2) }),
        this(Action::Beat { at: 1, wall: noon(5) }),
        arrives(2, 1, |message| matches!(message, PeerMessage::Close { .. })),
        arrives(1, 2, |message| matches!(message, PeerMessage::Closed { .. })),
        asks(1, 2, 5),
        arrives(2, 1, proposal_to(2)),
        arrives(1, 2, confirmation_to(2)),
        asks(1, 2, 5),
    ];
    assert_eq!(broken_by(&[], bounds(), &path), [""; 0]);
    assert_eq!(broken_by(&[LivesIgnored], bounds(), &path), [DISJOINT]);
}

#[test]
fn where_any_life_is_believed_a_grant_is_unknown_to_the_copy_that_greeted_last() {
    let bounds = Bounds { greetings: Some(0), generations: 1, sessions: 1, ..greeting(MasterId::Two) };
    assert_eq!(violation(BOTH_KNOW, &[AnyLifeBelieved], bounds), Some(7));
}

/// Master 2 is copied, and the copy greets master 1 in its place. The original still has its connection, and proposes over it.
/// Then master 1 is lost, and the copy grants the same to another. Deeper than all states could be walked.
#[test]
fn where_any_life_is_believed_copies_promise_twice() {
    let bounds = || Bounds { messages_max: 64, lost: &[MasterId::One], ..greeting(MasterId::Two) };
    let path = [
        this(Action::Copy { at: 1 }),
        connects(2, 0),
        connects(0, 2),
        this(Action::CutPage { at: 2, from: 0 }),
        this(Action::TakePage { at: 2 }),
        asks(1, 1, 0),
        arrives(0, 1, proposal_to(1)),
        asks(0, 1, 0),
        this(Action::PeerLost { survivor: 2 }),
        this(Action::Join),
        this(Action::Join),
        this(Action::Join),
        this(Action::CutPage { at: 3, from: 2 }),
        this(Action::TakePage { at: 3 }),
        this(Action::CutPage { at: 2, from: 3 }),
        this(Action::TakePage { at: 2 }),
        asks(2, 2, 0),
        arrives(3, 2, proposal_to(2)),
        arrives(2, 0, confirmation_to(2)),
        asks(2, 2, 0),
    ];
    assert_eq!(broken_by(&[], bounds(), &path), [""; 0]);
    let broken = broken_by(&[AnyLifeBelieved], bounds(), &path);
    assert!(broken.contains(&DISJOINT), "{broken:?}");
}

/// Master 2 is copied, and the copy and master 1 meet: what is open is lifted to what was permitted. Later the way leads to the
/// original for a moment. What it is permitted then, it may promise, and the copy never hears of it.
#[test]
fn where_any_life_takes_in_what_is_meant_for_another_copies_promise_twice() {
    let days = Bounds { lease_days: 30, days: &[0, 16, 32, 50], heartbeat_days: &[50], ..greeting(MasterId::Two) };
    let bounds = || Bounds { permit_until_day: 46, messages_max: 64, ..days.clone() };
    let (key, g, session) = (TokenType::Uint2.key(TokenValue(0)), Generation(1), SessionId(1));
    let renews = |day| this(Action::Renew { at: 1, key, g, session, wall: noon(day) });
    let more =
        |message: &PeerMessage| matches!(message, PeerMessage::Heartbeat { permit, .. } if *permit > Some(noon(50)));
    let path = [
        asks(1, 1, 0),
        arrives(0, 1, proposal_to(1)),
        arrives(1, 0, confirmation_to(1)),
        asks(1, 1, 0),
        this(Action::Copy { at: 1 }),
        connects(2, 0),
        connects(0, 2),
        this(Action::CutPage { at: 2, from: 0 }),
        this(Action::TakePage { at: 2 }),
        renews(16),
        arrives(0, 2, |message| matches!(message, PeerMessage::Heartbeat { .. })),
        this(Action::Greet { at: 0, with: 1, count: 1 }),
        this(Action::Beat { at: 0, wall: noon(50) }),
        arrives(1, 0, more),
        renews(32),
        connects(0, 2),
        this(Action::Beat { at: 2, wall: noon(50) }),
        arrives(0, 2, |message| matches!(message, PeerMessage::Close { .. })),
        arrives(2, 0, |message| matches!(message, PeerMessage::Closed { .. })),
        asks(2, 2, 50),
        arrives(0, 2, proposal_to(2)),
        arrives(2, 0, confirmation_to(2)),
        asks(2, 2, 50),
    ];
    assert_eq!(broken_by(&[], bounds(), &path), [""; 0]);
    // What is meant for the copy is not taken in by the original.
    assert_eq!(broken_by(&[SpeaksUnanswered], bounds(), &path), [""; 0]);
    let broken = broken_by(&[SpeaksUnanswered, AnyLifeBelieved], bounds(), &path);
    assert!(broken.contains(&DISJOINT), "{broken:?}");
}

/// Replaced masters greet the survivor, from whatever address.
fn heard() -> Bounds {
    Bounds { greetings: Some(0), generations: 1, sessions: 1, days: &[0, 32], heal_every: 64, ..replaced_once() }
}

#[test]
fn a_replaced_master_that_is_heard_serves_nothing_any_more() {
    assert_eq!(exhaust("replaced and heard", heard()), 18_740);
}

#[test]
fn without_an_answer_where_it_asked_a_replaced_master_goes_on() {
    assert_eq!(violation(ANSWERED, &[AnsweredElsewhere], heard()), Some(9));
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
fn without_the_bump_a_replaced_master_promises_twice() {
    if !large() {
        return;
    }
    assert!(duplicate(&[NoBump], replaced_once()).is_some());
}

#[test]
fn what_another_rule_covers_is_redundant() {
    let tight = || Bounds { lease_days: 1, days: &[0, 1, 3], ..kept_pair() };
    for twin in [EndAlone, ConfirmBlindly, AnyConfirm, ServeBeforeSync] {
        assert_eq!(duplicate(&[twin], tight()), None, "{twin:?}");
    }
}

/// Minutes of two cores, so only where `MODEL=large` asks for it, as `scripts/model.sh` does.
#[test]
fn nothing_is_promised_twice_within_large_bounds() {
    if !large() {
        return;
    }
    let once = |lost| Bounds { generations: 1, ..replaced(lost) };
    let sets = [
        ("other replaced, permits as they were", Bounds { days: &[0, 32], ..replaced_once() }, Some(63_220)),
        (
            "other replaced, one session",
            Bounds { sessions: 1, days: &[0, 32], ..once(&[MasterId::One]) },
            Some(223_989),
        ),
        ("other replaced, three instants", once(&[MasterId::One]), Some(610_743)),
        // Too many to be counted anew with each change of the protocol: what holds in them is looked at all the same.
        ("other replaced, two grants", Bounds { days: &[0, 32], ..replaced(&[MasterId::One]) }, None),
        ("other replaced, three instants, two grants", replaced(&[MasterId::One]), None),
        ("home replaced, two grants", Bounds { days: &[0, 32], ..replaced(&[MasterId::Two]) }, None),
    ];
    let mut all = 0;
    for (name, bounds, counted) in sets {
        let found = exhaust(name, Bounds { heal_every: 256, ..bounds });
        assert_eq!(found, counted.unwrap_or(found), "{name}");
        all += found;
    }
    println!("{all} states of the masters");
}

/// The states are the same whether such messages are kept in flight or taken out at once.
#[test]
fn messages_that_are_taken_out_hides_no_state() {
    let mut sets = vec![
        (Bounds { generations: 1, ..kept_pair() }, (914, 3_506)),
        (kept_pair(), (2_474, 19_366)),
        (Bounds { lease_days: 1, days: &[0, 1, 3], ..kept_pair() }, (1_632, 10_684)),
    ];
    if large() {
        let once = Bounds { generations: 1, sessions: 1, days: &[0, 32], ..replaced_once() };
        sets.push((once, (14_980, 64_300)));
    }
    for (bounds, counts) in sets {
        let all = |keep_inert_messages| {
            let bounds = Bounds { keep_inert_messages, messages_max: usize::MAX, heal_every: 0, ..bounds.clone() };
            states(&Masters::new(bounds).unwrap(), |world| world.without_inert_messages())
        };
        let ((reduced, _), (whole, with_it)) = (all(false), all(true));
        assert!(reduced == whole, "{} and {} states", reduced.len(), whole.len());
        assert_eq!((whole.len(), with_it), counts);
    }
}
