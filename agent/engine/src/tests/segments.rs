//! Plain numbers: what is written when, and that no window reaches past what was.

use super::*;
use crate::SegmentOutcome;
use ids::namespace::Definition;
use ids::segment::Span;
use ids::setting::NAMESPACES_MAX;
use ids::token::TokenFamily;
use minting::segments::HELD_MAX;
use wire::ranges::SegmentGrant;

fn engine_with(fake: &mut Fake, json: &str) -> Engine {
    let header = Header { session: SessionId(1), time_mark: WallMs(0), write_counter: 0, names_from: WallMs(0) };
    let contents = Contents { header, blocks: vec![None, None] };
    let mut engine = Engine::new(contents, Holdings::default(), Leases::new(), None);
    let definition: Definition = serde_json::from_str(json).unwrap();
    let at = engine.add(&Namespace::define("plain".parse().unwrap(), &definition).unwrap()).unwrap();
    assert_eq!(at, AT);
    fake.asked.clear();
    engine
}

/// The only one: [`Fake`] has one window.
const AT: usize = 0;

fn refill(engine: &mut Engine, fake: &mut Fake, n: u32) -> Result<Option<Vec<u64>>, Refusal> {
    match engine.refill_segment(fake, AT, None, n)? {
        Refilled::Runs(runs) => Ok(Some(runs.numbers().map(|number| number as u64).collect())),
        Refilled::Pending(None) => Ok(None),
        other => panic!("{other:?}"),
    }
}

/// Grants what is asked for, from `from` on.
fn grant(engine: &mut Engine, fake: &mut Fake, from: u64) -> u64 {
    let asks = std::mem::take(&mut fake.asks);
    let [(AT, ask)] = asks[..] else { panic!("{asks:?}") };
    let span = Span { from, to: from + u64::from(ask.wanted) };
    engine.answered(AT, ask.call, SegmentOutcome::Granted(SegmentGrant { span, proof: None }));
    engine.tend(fake, [AT]).unwrap();
    span.to
}

fn held(engine: &Engine) -> Vec<(u64, u64, u64)> {
    let record = &engine.holdings().segments[&"plain".parse().unwrap()].record;
    assert!(record.held.len() <= HELD_MAX);
    record.held.iter().map(|held| (held.span.from, held.mark, held.span.to)).collect()
}

/// The numbers that the open window has.
fn open(fake: &Fake) -> Range<u64> {
    let Prefix::Plain { first, increment: 1 } = fake.window.prefix else { panic!("{:?}", fake.window) };
    let next = fake.window.next.load(minting::sync::Ordering::Relaxed);
    first + next..first + next + fake.window.left()
}

#[test]
fn a_segment_and_its_mark_are_durable_before_a_number_of_it_is_given() {
    let fake = &mut Fake::new();
    let mut engine = engine_with(fake, r#"{"kind":"segment","step":8000}"#);
    assert_eq!(refill(&mut engine, fake, 1), Ok(None));
    assert_eq!(fake.asked, ["interrupt", "open"], "nothing is written for what is not there");
    fake.asked.clear();
    grant(&mut engine, fake, 1_001);
    assert_eq!(fake.asked, ["interrupt", "open", "write", "interrupt", "open"]);
    assert_eq!((held(&engine), open(fake)), (vec![(1_001, 1_101, 1_801)], 1_001..1_101), "an eighth of it");
    fake.asked.clear();
    assert_eq!(refill(&mut engine, fake, 5), Ok(Some((1_001..1_006).collect())));
    assert_eq!(fake.asked, ["interrupt", "open"], "durable already");
    assert_eq!(open(fake), 1_006..1_101, "never past the mark");
}

#[test]
fn what_could_not_be_written_is_not_given() {
    let fake = &mut Fake::new();
    let mut engine = engine_with(fake, r#"{"kind":"segment","step":8000}"#);
    assert_eq!(refill(&mut engine, fake, 1), Ok(None));
    let [(AT, ask)] = std::mem::take(&mut fake.asks)[..] else { panic!() };
    engine.answered(
        AT,
        ask.call,
        SegmentOutcome::Granted(SegmentGrant { span: Span { from: 1, to: 801 }, proof: None }),
    );
    fake.fails = Some(full);
    assert_eq!(engine.tend(fake, [AT]).map_err(|e| e.code()), Err(MintCode::SerialFileIo));
    assert!(fake.window.is_empty() && engine.holdings().segments.is_empty());
    assert_eq!(refill(&mut engine, fake, 1).map_err(|e| e.code()), Err(MintCode::SerialFileIo));
    fake.fails = None;
    fake.pass(WRITE_RETRY.0);
    assert_eq!(refill(&mut engine, fake, 1), Ok(Some(vec![1])), "the segment was not lost");
    engine.end(fake).unwrap();
    assert_eq!(held(&engine), [(1, 2, 801)], "a clean stop gives back all but that one");
}

#[test]
fn a_border_needs_no_write_and_a_window_never_crosses_it() {
    let fake = &mut Fake::new();
    let mut engine = engine_with(fake, r#"{"kind":"segment","step":1000,"step_max":1000,"threshold":50}"#);
    refill(&mut engine, fake, 1).unwrap();
    grant(&mut engine, fake, 1);
    let mut given: Vec<u64> = Vec::new();
    for _ in 0..90 {
        given.extend(refill(&mut engine, fake, 1).unwrap().unwrap());
        engine.tend(fake, [AT]).unwrap();
        if given.len() == 50 {
            grant(&mut engine, fake, 201);
        }
        let window = open(fake);
        assert!(window.is_empty() || window.start == given.len() as u64 + 1 && window.end <= 101, "{window:?}");
    }
    fake.asked.clear();
    given.extend(refill(&mut engine, fake, 15).unwrap().unwrap());
    assert_eq!(fake.asked, ["interrupt", "open"], "of both, without a write");
    assert_eq!(given, (1..=100).chain(201..=205).collect::<Vec<_>>());
    assert_eq!(open(fake).start, 206);
}

#[test]
fn parts_of_windows_are_used_and_never_twice() {
    let fake = &mut Fake::new();
    let mut engine = engine_with(fake, r#"{"kind":"segment","step":800}"#);
    refill(&mut engine, fake, 1).unwrap();
    grant(&mut engine, fake, 1);
    assert_eq!(open(fake), 1..11);
    let TakenSerials::Some(part) = take(&fake.window, 15, fake.wall) else { panic!() };
    // Another call is served meanwhile, so the part is its taker's.
    let other = refill(&mut engine, fake, 2).unwrap().unwrap();
    let Refilled::Runs(runs) = engine.refill_segment(fake, AT, Some(part), 15).unwrap() else { panic!() };
    let own: Vec<u64> = runs.numbers().map(|number| number as u64).collect();
    assert_eq!((own.len(), other.len()), (15, 2));
    assert!(own.iter().all(|number| !other.contains(number)), "{own:?} {other:?}");
    // What has to wait for a segment keeps its part.
    let left = open(fake);
    let TakenSerials::Some(part) = take(&fake.window, 70, fake.wall) else { panic!("{left:?}") };
    assert!(matches!(engine.refill_segment(fake, AT, Some(part), 70), Ok(Refilled::Pending(None))));
    assert_eq!(open(fake), left, "given back");
}

#[test]
fn places_near_the_end_of_all_numbers_are_given_too() {
    let fake = &mut Fake::new();
    let first = ids::segment::NUMBER_MAX - 9;
    let mut engine = engine_with(fake, &format!(r#"{{"kind":"segment","first":{first},"step":100}}"#));
    refill(&mut engine, fake, 1).unwrap();
    grant(&mut engine, fake, first);
    let numbers = refill(&mut engine, fake, 10).unwrap().unwrap();
    assert_eq!(numbers, (first..=ids::segment::NUMBER_MAX).collect::<Vec<_>>());
    let [(AT, ask)] = std::mem::take(&mut fake.asks)[..] else { panic!() };
    engine.answered(AT, ask.call, SegmentOutcome::Ended);
    let refusal = refill(&mut engine, fake, 1).unwrap_err();
    assert_eq!((refusal.code(), refusal.retry_after()), (MintCode::SerialExhausted, None));
}

#[test]
fn increments_and_offsets_make_the_numbers() {
    let fake = &mut Fake::new();
    let mut engine = engine_with(fake, r#"{"kind":"segment","increment":3,"offset":2,"first":0}"#);
    refill(&mut engine, fake, 1).unwrap();
    grant(&mut engine, fake, 10);
    assert_eq!(refill(&mut engine, fake, 3), Ok(Some(vec![32, 35, 38])));
}

#[test]
fn a_call_for_more_than_can_be_held_is_refused_and_costs_nothing() {
    let fake = &mut Fake::new();
    let mut engine = engine_with(fake, r#"{"kind":"segment","step":10,"step_max":10,"step_min":10}"#);
    assert_eq!(refill(&mut engine, fake, 61).map_err(|e| e.code()), Err(MintCode::BadParameter));
    assert_eq!(refill(&mut engine, fake, 60), Ok(None));
    let mut from = 1;
    for _ in 0..6 {
        assert_eq!(refill(&mut engine, fake, 60), Ok(None));
        from = grant(&mut engine, fake, from);
    }
    assert_eq!(refill(&mut engine, fake, 60), Ok(Some((1..=60).collect())));
}

#[test]
fn a_name_that_has_ended_has_no_segments() {
    let fake = &mut Fake::new();
    let mut engine = engine_with(fake, r#"{"kind":"segment","step":8000}"#);
    refill(&mut engine, fake, 1).unwrap();
    grant(&mut engine, fake, 1);
    engine.take_back(fake, AT).unwrap();
    engine.end_segments(AT);
    engine.tend(fake, [AT]).unwrap();
    assert!(fake.window.is_closed() && engine.holdings().segments.is_empty());
    assert!(refill(&mut engine, fake, 1).is_err());
}

/// Names of this process, from the second one on, that are granted what they ask for.
fn add_names(engine: &mut Engine, fake: &mut Fake, names: Range<usize>) -> Vec<usize> {
    let definition: Definition = serde_json::from_str(r#"{"kind":"segment"}"#).unwrap();
    let name = |nth: usize| Namespace::define(format!("name-{nth}").parse().unwrap(), &definition).unwrap();
    let added: Vec<usize> = names.map(|nth| engine.add(&name(nth)).unwrap()).collect();
    for at in &added {
        assert!(matches!(engine.refill_segment(fake, *at, None, 1), Ok(Refilled::Pending(None))));
    }
    for (at, ask) in std::mem::take(&mut fake.asks) {
        let span = Span { from: 1, to: 1 + u64::from(ask.wanted) };
        engine.answered(at, ask.call, SegmentOutcome::Granted(SegmentGrant { span, proof: None }));
    }
    added
}

#[test]
fn as_many_names_hold_segments_as_may_live_and_one_more_keeps_none_from_its_marks() {
    let fake = &mut Fake::new();
    let mut engine = engine_with(fake, r#"{"kind":"segment"}"#);
    refill(&mut engine, fake, 1).unwrap();
    grant(&mut engine, fake, 1);
    let all = add_names(&mut engine, fake, 1..NAMESPACES_MAX);
    engine.tend(fake, all).unwrap();
    assert_eq!(engine.holdings().segments.len(), NAMESPACES_MAX);
    // One more, in one round with the first one, whose next mark is due.
    let before = held(&engine);
    let more = add_names(&mut engine, fake, NAMESPACES_MAX..NAMESPACES_MAX + 1)[0];
    let _ = fake.window.next.fetch_add(fake.window.left(), minting::sync::Ordering::Relaxed);
    engine.tend(fake, [AT, more]).unwrap();
    assert!(held(&engine) > before, "{before:?}");
    let refused = engine.refill_segment(fake, more, None, 1);
    assert!(matches!(refused, Err(Refusal::Overloaded(_))), "{refused:?}");
    // Once another one ends, it has room.
    engine.end_segments(1);
    assert!(matches!(engine.refill_segment(fake, more, None, 1), Ok(Refilled::Runs(_))));
}

#[test]
fn segments_of_names_that_this_process_never_met_give_way_when_there_is_no_room() {
    let fake = &mut Fake::new();
    let mut before = engine_with(fake, r#"{"kind":"segment"}"#);
    let all = add_names(&mut before, fake, 1..NAMESPACES_MAX + 1);
    before.tend(fake, all).unwrap();
    assert_eq!(before.holdings().segments.len(), NAMESPACES_MAX);
    let contents = before.contents().clone();
    let mut engine = Engine::new(contents, before.holdings().clone(), Leases::new(), Some(BootMs(0)));
    let at = add_names(&mut engine, fake, NAMESPACES_MAX + 1..NAMESPACES_MAX + 2)[0];
    assert!(matches!(engine.refill_segment(fake, at, None, 1), Ok(Refilled::Runs(_))));
    assert_eq!(engine.holdings().segments.len(), 1);
}

const KEPT: Grant = Grant {
    token_type: TokenType::Uint2,
    key: TokenKey { family: TokenFamily::Uint, value: TokenValue(5) },
    g: Generation(1),
    from: WallMs(0),
    until: WallMs(i64::MAX),
    receipt: None,
};

/// An engine that resumes with a segment and, if any, a lease.
fn resumed(fake: &mut Fake, lease: Option<Grant>, resumed_until: Option<BootMs>) -> Engine {
    fake.asks.clear();
    let mut before = engine_with(fake, r#"{"kind":"segment","step":100}"#);
    assert_eq!(refill(&mut before, fake, 1), Ok(None));
    grant(&mut before, fake, 1);
    assert!(refill(&mut before, fake, 1).unwrap().is_some());
    let holdings = Holdings { leases: lease.clone().into_iter().collect(), ..before.holdings().clone() };
    let view = lease.map_or(LeaseView::Missing, LeaseView::Resumed);
    let leases = [(TokenType::Uint2, view)].into();
    let mut engine = Engine::new(before.contents().clone(), holdings, leases, resumed_until);
    engine.add(&before.series[AT].namespace.clone()).unwrap();
    // What the process before had masters asked for.
    fake.asks.clear();
    engine
}

fn waits(engine: &mut Engine, fake: &mut Fake) -> bool {
    matches!(engine.refill_segment(fake, AT, None, 1), Ok(Refilled::WaitFor(_)))
}

#[test]
fn a_resumed_session_gives_no_kept_number_before_a_master_has_renewed_what_it_kept() {
    let fake = &mut Fake::new();
    let mut engine = resumed(fake, Some(KEPT), None);
    assert!(waits(&mut engine, fake), "nothing was renewed");
    // A lease of another type is granted to every copy of a session.
    let other = Grant { token_type: TokenType::Uint1, g: Generation(9), ..KEPT };
    let with = |kept| [(TokenType::Uint2, kept), (TokenType::Uint1, LeaseView::Held(other.clone()))].into();
    engine.set_leases(fake, with(LeaseView::Resumed(KEPT)), false).unwrap();
    assert!(waits(&mut engine, fake), "a new lease tells nothing");
    engine.set_leases(fake, with(LeaseView::Held(KEPT)), false).unwrap();
    assert!(refill(&mut engine, fake, 1).unwrap().is_some_and(|numbers| numbers[0] > 1));
}

#[test]
fn where_no_master_answers_a_resumed_session_goes_on_after_a_moment() {
    let fake = &mut Fake::new();
    let mut engine = resumed(fake, Some(KEPT), Some(fake.real_boot() + SpanMs(1_500)));
    assert!(waits(&mut engine, fake));
    let mut engine = resumed(fake, Some(KEPT), Some(fake.real_boot()));
    assert!(!waits(&mut engine, fake));
}

#[test]
fn what_a_denied_session_or_one_without_a_lease_had_kept_is_dropped() {
    let fake = &mut Fake::new();
    let mut engine = resumed(fake, Some(KEPT), None);
    engine.set_leases(fake, [(TokenType::Uint2, LeaseView::Missing)].into(), false).unwrap();
    assert!(nothing_is_held(&engine), "durably");
    let mut engine = resumed(fake, None, Some(fake.real_boot()));
    assert_eq!(refill(&mut engine, fake, 1), Ok(None), "nobody could tell of a copy");
    // A lease whose time is over says nothing of copies.
    let mut engine = resumed(fake, Some(KEPT), Some(fake.real_boot()));
    engine.set_leases(fake, [(TokenType::Uint2, LeaseView::Expired(KEPT))].into(), false).unwrap();
    assert!(refill(&mut engine, fake, 1).unwrap().is_some());
}

fn nothing_is_held(engine: &Engine) -> bool {
    engine.holdings().segments.values().all(|segments| segments.record.held.is_empty())
}

/// A name of which a resumed session kept a segment, added late, as one is that an agent hears of after its start.
fn add_late(engine: &mut Engine) -> usize {
    let definition: Definition = serde_json::from_str(r#"{"kind":"segment","step":100}"#).unwrap();
    engine.add(&Namespace::define("plain".parse().unwrap(), &definition).unwrap()).unwrap()
}

#[test]
fn what_a_denied_session_had_kept_does_not_come_back_after_a_write_that_failed() {
    let fake = &mut Fake::new();
    let mut engine = resumed(fake, Some(KEPT), None);
    fake.fails = Some(full);
    assert!(engine.set_leases(fake, [(TokenType::Uint2, LeaseView::Missing)].into(), false).is_err());
    let late = add_late(&mut engine);
    assert!(
        engine.series[late].segments.as_ref().unwrap().durable().held.is_empty(),
        "nothing of a name that comes late"
    );
    fake.fails = None;
    fake.pass(WRITE_RETRY.0 + 1);
    // Marks of other IDs are written first: what is given up is not said again with them.
    let mut marked = engine.clone();
    marked.write_mark(fake, WallMs(1)).unwrap();
    assert!(nothing_is_held(&marked));
    // The masters grant another token to each copy of a session.
    let new = Grant { g: Generation(7), ..KEPT };
    engine.set_leases(fake, [(TokenType::Uint2, LeaseView::Held(new))].into(), false).unwrap();
    assert!(nothing_is_held(&engine), "durably: {:?}", engine.holdings().segments);
    let shown = &engine.holdings().segments[&"plain".parse().unwrap()];
    assert_eq!(shown.record.seen.to, 11, "how far it was granted is known on");
    assert!(fake.asked.contains(&"write"), "and it counts as a write of the file: {:?}", fake.asked);
    assert_eq!(refill(&mut engine, fake, 1), Ok(None));
}

#[test]
fn a_resumed_session_whose_lease_is_gone_asks_for_other_numbers_instead_of_waiting_for_ever() {
    let fake = &mut Fake::new();
    let mut engine = resumed(fake, Some(KEPT), None);
    engine.set_leases(fake, [(TokenType::Uint2, LeaseView::Expired(KEPT))].into(), false).unwrap();
    assert!(waits(&mut engine, fake), "a master may renew it still");
    let new = Grant { g: Generation(7), ..KEPT };
    engine.set_leases(fake, [(TokenType::Uint2, LeaseView::Held(new))].into(), false).unwrap();
    assert!(nothing_is_held(&engine), "a copy has them, and the same leave: {:?}", engine.holdings().segments);
    assert_eq!(refill(&mut engine, fake, 1), Ok(None));
    grant(&mut engine, fake, 1_001);
    assert_eq!(refill(&mut engine, fake, 1), Ok(Some(vec![1_001])));
}
