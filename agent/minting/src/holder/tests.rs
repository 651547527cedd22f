use super::*;
use ids::calendar::UtcOffset;
use ids::time::DAY_MS;
use ids::token::TokenValue;
use proptest::prelude::*;

const HOUR: SpanMs = SpanMs::seconds(3_600);
/// The middle of the dice: no jitter.
const MIDDLE: u64 = 1_000;

fn at(ms: i64) -> Now {
    Now { wall: WallMs(100 * DAY_MS + ms), boot: BootMs(ms) }
}

fn grant(token_type: TokenType, value: u32, days: i64) -> Grant {
    Grant {
        token_type,
        key: token_type.key(TokenValue(value)),
        g: Generation(1),
        from: WallMs(100 * DAY_MS),
        until: WallMs((100 + days) * DAY_MS),
        receipt: None,
    }
}

fn holder(held: &[Grant]) -> Holder {
    let wanted = BTreeSet::from([TokenType::Uint2, TokenType::String2IncludeLetter]);
    Holder::new(&wanted, held, 7, HOUR, at(0))
}

fn uint2_only(held: &[Grant]) -> Holder {
    Holder::new(&BTreeSet::from([TokenType::Uint2]), held, 7, HOUR, at(0))
}

fn next(holder: &mut Holder, ms: i64) -> Next {
    holder.next(at(ms), MIDDLE)
}

/// The command of a holder at `ms` apart from heartbeats, which are answered.
fn does(holder: &mut Holder, ms: i64) -> Option<Command> {
    loop {
        match next(holder, ms) {
            Next::Do(Command::Heartbeat) => holder.handle(at(ms), MIDDLE, &Event::HeartbeatAnswered),
            Next::Do(command) => return Some(command),
            Next::Wait(_) => return None,
        }
    }
}

fn renewal_of(command: Option<Command>) -> Renewal {
    let Some(Command::Renew { renewal, .. }) = command else { panic!("{command:?}") };
    renewal
}

#[test]
fn it_asks_for_each_type_at_once_and_soon_again_while_it_has_none() {
    let mut h = holder(&[]);
    let mut asked = BTreeSet::new();
    for _ in 0..2 {
        let Some(Command::Request(token_type)) = does(&mut h, 0) else { panic!() };
        asked.insert(token_type);
        h.handle(at(0), MIDDLE, &Event::NotGranted { token_type, patient: false });
    }
    assert_eq!(asked.len(), 2);
    assert_eq!(does(&mut h, 249), None);
    assert!(does(&mut h, 250).is_some());
}

#[test]
fn the_pause_without_a_lease_never_exceeds_two_seconds() {
    let mut h = uint2_only(&[]);
    let mut pauses = Vec::new();
    let mut now = 0;
    for _ in 0..20 {
        assert_eq!(does(&mut h, now), Some(Command::Request(TokenType::Uint2)));
        h.handle(at(now), MIDDLE, &Event::NotGranted { token_type: TokenType::Uint2, patient: false });
        let due = (now..).find(|ms| does(&mut h, *ms).is_some()).unwrap();
        pauses.push(due - now);
        now = due;
    }
    assert_eq!(pauses.first(), Some(&250));
    assert_eq!((pauses.iter().max(), pauses.last()), (Some(&2_000), Some(&2_000)));
}

#[test]
fn a_grant_is_held_and_renewed_after_the_interval() {
    let mut h = uint2_only(&[]);
    assert_eq!(does(&mut h, 0), Some(Command::Request(TokenType::Uint2)));
    let lease = grant(TokenType::Uint2, 5, 7);
    h.handle(at(10), MIDDLE, &Event::Granted(lease.clone()));
    assert_eq!(h.leases(), Leases::from([(TokenType::Uint2, LeaseView::Held(lease.clone()))]));
    assert_eq!(does(&mut h, HOUR.0 + 9), None);
    let renewal = renewal_of(does(&mut h, HOUR.0 + 10));
    assert_eq!(renewal, Renewal { rseq: 8, attempt: MIDDLE });
    let until = WallMs(lease.until.0 + 1);
    h.handle(at(HOUR.0 + 20), MIDDLE, &Event::Renewed { key: lease.key, g: lease.g, until, receipt: None });
    assert_eq!(h.leases(), Leases::from([(TokenType::Uint2, LeaseView::Held(Grant { until, ..lease }))]));
    assert_eq!(does(&mut h, 2 * HOUR.0 + 19), None);
    assert_eq!(renewal_of(does(&mut h, 2 * HOUR.0 + 20)).rseq, 9);
}

#[test]
fn a_renewal_tried_again_is_the_same_renewal() {
    let lease = grant(TokenType::Uint2, 5, 7);
    let mut h = uint2_only(std::slice::from_ref(&lease));
    let first = renewal_of(does(&mut h, 0));
    let mut due = 0;
    for wait in [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000] {
        h.handle(at(due), 42, &Event::NotRenewed { key: lease.key, g: lease.g });
        h.handle(at(due), MIDDLE, &Event::HeartbeatAnswered);
        let not_yet = due + wait - wait / 10 - 1;
        assert_eq!(does(&mut h, not_yet), None, "sooner than {wait} ms");
        due += wait + wait / 10;
        assert_eq!(renewal_of(does(&mut h, due)), first);
    }
}

#[test]
fn a_lease_that_is_over_is_dropped_and_another_asked_for_at_once() {
    let lease = grant(TokenType::Uint2, 5, 7);
    let mut h = uint2_only(std::slice::from_ref(&lease));
    renewal_of(does(&mut h, 0));
    h.handle(at(1), MIDDLE, &Event::Ended { key: lease.key, g: Generation(9) });
    assert_eq!(h.leases().get(&TokenType::Uint2), Some(&LeaseView::Held(lease.clone())), "another generation");
    h.handle(at(1), MIDDLE, &Event::Ended { key: lease.key, g: lease.g });
    assert_eq!(h.leases().get(&TokenType::Uint2), Some(&LeaseView::Missing));
    assert_eq!(does(&mut h, 1), Some(Command::Request(TokenType::Uint2)));
}

#[test]
fn an_expired_lease_is_shown_as_such_and_asked_for_again() {
    let lease = grant(TokenType::Uint2, 5, 1);
    let mut h = uint2_only(std::slice::from_ref(&lease));
    renewal_of(does(&mut h, 0));
    h.handle(at(0), MIDDLE, &Event::NotRenewed { key: lease.key, g: lease.g });
    assert_eq!(does(&mut h, DAY_MS), Some(Command::Request(TokenType::Uint2)));
    assert_eq!(h.leases().get(&TokenType::Uint2), Some(&LeaseView::Expired(lease.clone())));
    h.handle(at(DAY_MS), MIDDLE, &Event::Granted(lease.clone()));
    assert_eq!(h.leases().get(&TokenType::Uint2), Some(&LeaseView::Expired(lease.clone())), "the old one again");
    assert_eq!(does(&mut h, DAY_MS + PATIENT_RETRY.0 - 1), None);
    assert!(does(&mut h, DAY_MS + PATIENT_RETRY.0).is_some());
    h.handle(
        at(DAY_MS),
        MIDDLE,
        &Event::Renewed { key: lease.key, g: lease.g, until: WallMs(i64::MAX), receipt: None },
    );
    assert_eq!(h.leases().get(&TokenType::Uint2), Some(&LeaseView::Expired(lease)), "a late renewal revives nothing");
}

#[test]
fn it_wakes_up_for_the_end_of_a_lease() {
    let mut h = Holder::new(&BTreeSet::from([TokenType::Uint2]), &[], 0, SpanMs::days(30), at(0));
    h.handle(at(0), MIDDLE, &Event::Granted(grant(TokenType::Uint2, 5, 1)));
    h.handle(at(DAY_MS - 100), MIDDLE, &Event::HeartbeatAnswered);
    assert_eq!(next(&mut h, DAY_MS - 100), Next::Wait(BootMs(DAY_MS)));
}

#[test]
fn after_a_jump_nothing_counts_until_it_was_renewed() {
    let lease = grant(TokenType::Uint2, 5, 7);
    let mut h = uint2_only(&[]);
    h.handle(at(0), MIDDLE, &Event::Granted(lease.clone()));
    h.handle(at(5), MIDDLE, &Event::ClockJumped);
    assert_eq!(h.leases().get(&TokenType::Uint2), Some(&LeaseView::Suspended(lease.clone())));
    renewal_of(does(&mut h, 5));
    h.handle(at(5), MIDDLE, &Event::NotRenewed { key: lease.key, g: lease.g });
    assert!(does(&mut h, 255).is_some(), "nothing can be minted, so it is urgent");
    h.handle(at(256), MIDDLE, &Event::Renewed { key: lease.key, g: lease.g, until: lease.until, receipt: None });
    assert_eq!(h.leases().get(&TokenType::Uint2), Some(&LeaseView::Held(lease)));
}

#[test]
fn a_resumed_lease_of_a_type_no_longer_wanted_is_left_alone() {
    let other = grant(TokenType::Uint1, 5, 7);
    let h = uint2_only(&[other]);
    assert_eq!(h.leases(), Leases::from([(TokenType::Uint2, LeaseView::Missing)]));
}

#[test]
fn only_grants_that_the_terms_allow_are_taken() {
    let parameters = ClusterParameters::new(7, UtcOffset::default(), 4_095).unwrap();
    let good = grant(TokenType::Uint2, 4_095, 7);
    let check = |grant: &Grant| check_grant(grant, TokenType::Uint2, &parameters);
    assert_eq!(check(&good), Ok(()));
    let family = grant(TokenType::String2IncludeLetter, 5, 7).key;
    for bad in [
        grant(TokenType::Uint1, 5, 7),
        grant(TokenType::Uint2, 4_096, 7),
        Grant { key: family, ..good.clone() },
        Grant { until: good.from, ..good.clone() },
        Grant { from: WallMs(good.from.0 + 1), ..good.clone() },
    ] {
        assert!(check(&bad).is_err(), "{bad:?}");
    }
}

fn events() -> impl Strategy<Value = Event> {
    let key = TokenType::Uint2.key(TokenValue(5));
    let g = (0u64..3).prop_map(Generation);
    prop_oneof![
        Just(Event::HeartbeatAnswered),
        Just(Event::HeartbeatFailed),
        Just(Event::ClockJumped),
        (0u64..3, -1i64..20)
            .prop_map(|(g, days)| Event::Granted(Grant { g: Generation(g), ..grant(TokenType::Uint2, 5, days) })),
        any::<bool>().prop_map(|patient| Event::NotGranted { token_type: TokenType::Uint2, patient }),
        (g.clone(), -1i64..20).prop_map(move |(g, days)| {
            Event::Renewed { key, g, until: WallMs((100 + days) * DAY_MS), receipt: None }
        }),
        g.clone().prop_map(move |g| Event::NotRenewed { key, g }),
        g.prop_map(move |g| Event::Ended { key, g }),
    ]
}

proptest! {
    /// Whatever happens in whatever order: it always goes on asking, never faster than it should, a new renewal always
    /// has a higher number, and what it shows as held is never past its end nor after a jump without a renewal.
    #[test]
    fn it_never_falls_silent_and_never_trusts_what_it_should_not(
        steps in proptest::collection::vec((0i64..DAY_MS, any::<u64>(), events()), 1..80)
    ) {
        let mut h = uint2_only(&[]);
        let (mut now, mut highest, mut jumped) = (0, Renewal { rseq: 7, attempt: 0 }, false);
        for (passed, dice, event) in steps {
            now += passed;
            match h.next(at(now), dice) {
                Next::Wait(due) => prop_assert!(due > BootMs(now) && due - BootMs(now) <= SpanMs(HEARTBEAT_INTERVAL.0 * 11 / 10)),
                Next::Do(Command::Renew { renewal, .. }) => {
                    prop_assert!(renewal.rseq > highest.rseq || renewal == highest);
                    highest = renewal;
                }
                Next::Do(_) => {}
            }
            h.handle(at(now), dice, &event);
            h.next(at(now), dice);
            match event {
                Event::ClockJumped => jumped = true,
                Event::Granted(_) | Event::Renewed { .. } => jumped = false,
                _ => {}
            }
            if let Some(LeaseView::Held(grant)) = h.leases().get(&TokenType::Uint2) {
                prop_assert!(grant.until > at(now).wall && !jumped);
            }
        }
    }
}

#[test]
fn heartbeats_go_on_beside_frequent_renewals() {
    let lease = grant(TokenType::Uint2, 5, 7);
    let wanted = BTreeSet::from([TokenType::Uint2]);
    let mut h = Holder::new(&wanted, std::slice::from_ref(&lease), 0, SpanMs::seconds(1), at(0));
    let mut heartbeats = 0;
    for ms in 0..6 * HEARTBEAT_INTERVAL.0 {
        while let Next::Do(command) = next(&mut h, ms) {
            let event = match command {
                Command::Heartbeat => Event::HeartbeatAnswered,
                _ => Event::Renewed { key: lease.key, g: lease.g, until: lease.until, receipt: None },
            };
            heartbeats += u32::from(event == Event::HeartbeatAnswered);
            h.handle(at(ms), MIDDLE, &event);
        }
    }
    assert_eq!(heartbeats, 6);
}

#[test]
fn a_resumed_lease_is_renewed_first_and_urgently() {
    let lease = grant(TokenType::Uint2, 5, 7);
    let mut h = uint2_only(std::slice::from_ref(&lease)).resumed();
    let view = |h: &Holder| h.leases().remove(&TokenType::Uint2).unwrap();
    assert_eq!(view(&h), LeaseView::Resumed(lease.clone()));
    let first = renewal_of(does(&mut h, 0));
    h.handle(at(0), MIDDLE, &Event::NotRenewed { key: lease.key, g: lease.g });
    assert_eq!(view(&h), LeaseView::Resumed(lease.clone()));
    assert_eq!(renewal_of(does(&mut h, 250)), first, "soon again, and the same one");
    h.handle(at(251), MIDDLE, &Event::Renewed { key: lease.key, g: lease.g, until: lease.until, receipt: None });
    assert_eq!(view(&h), LeaseView::Held(lease.clone()));
    // The renewal says that it is ours; the later end that it brings is not used before it is durable.
    let before = uint2_only(std::slice::from_ref(&lease)).resumed().leases();
    let longer = Grant { until: lease.until + SpanMs(1), ..lease.clone() };
    let after = |grant: &Grant| Leases::from([(TokenType::Uint2, LeaseView::Held(grant.clone()))]);
    assert_eq!(usable_before_durable(&before, &after(&longer)), after(&lease));
    let other = grant(TokenType::Uint2, 6, 7);
    let none = Leases::from([(TokenType::Uint2, LeaseView::Missing)]);
    assert_eq!(usable_before_durable(&before, &after(&other)), none, "another lease is not durable");
    let mut suspended = before;
    suspend(&mut suspended);
    assert_eq!(suspended.remove(&TokenType::Uint2), Some(LeaseView::Suspended(lease)));
}

/// The time that the masters have is asked for as soon as ours was stepped, and often while it is said to be wrong.
#[test]
fn a_clock_that_was_corrected_is_noticed_within_seconds() {
    let lease = grant(TokenType::Uint2, 5, 7);
    let mut h = uint2_only(std::slice::from_ref(&lease));
    let renewal = renewal_of(does(&mut h, 0));
    let renewed = Event::Renewed { key: lease.key, g: lease.g, until: lease.until, receipt: None };
    assert_eq!(renewal.rseq, 8);
    h.handle(at(0), MIDDLE, &renewed);
    h.handle(at(0), MIDDLE, &Event::HeartbeatAnswered);
    h.handle(at(0), MIDDLE, &Event::ClockSkewed);
    assert!(matches!(next(&mut h, 0), Next::Wait(due) if due == BootMs(SKEWED_INTERVAL.0)));
    assert_eq!(next(&mut h, SKEWED_INTERVAL.0), Next::Do(Command::Heartbeat));
    h.handle(at(SKEWED_INTERVAL.0), MIDDLE, &Event::HeartbeatAnswered);
    assert!(matches!(next(&mut h, SKEWED_INTERVAL.0), Next::Wait(due) if due > BootMs(HEARTBEAT_INTERVAL.0)));

    h.handle(at(6_000), MIDDLE, &Event::ClockJumped);
    renewal_of(Some(match next(&mut h, 6_000) {
        Next::Do(command) => command,
        wait => panic!("{wait:?}"),
    }));
    h.handle(at(6_000), MIDDLE, &renewed);
    assert_eq!(next(&mut h, 6_000), Next::Do(Command::Heartbeat), "not in a minute");
}

/// One answer is enough: the restart of an agent with many types waits for one renewal.
#[test]
fn the_first_renewal_that_is_answered_resumes_all_leases() {
    let (number, text) = (grant(TokenType::Uint2, 5, 7), grant(TokenType::String2IncludeLetter, 6, 7));
    let mut h = holder(&[number.clone(), text.clone()]).resumed();
    let Some(Command::Renew { key, g, .. }) = does(&mut h, 0) else { panic!() };
    assert!(h.leases().values().all(|view| matches!(view, LeaseView::Resumed(_))));
    h.handle(at(0), MIDDLE, &Event::Renewed { key, g, until: number.until, receipt: None });
    assert!(h.leases().values().all(|view| matches!(view, LeaseView::Held(_))), "{:?}", h.leases());
    assert!(
        matches!(does(&mut h, 0), Some(Command::Renew { key: other, .. }) if other != key),
        "the other one is next"
    );
}
