//! IDs of a tick by definition: what is durable first, who shares an axis, and what is refused.

use super::*;
use ids::namespace::{Definition, LayoutSpec};
use minting::run::Runs;
use minting::ticks::Reach;
use serial_file::{Block, BlockName, NUM_BLOCKS};

pub(super) fn layout(name: &str, json: &str) -> Namespace {
    let said: LayoutSpec = serde_json::from_str(&json.replacen(r#""kind":"layout","#, "", 1)).unwrap();
    // What the engine here has a lease of.
    let token_type = said.token_type.clone().or(Some("uint2".to_owned()));
    Namespace::define(name.parse().unwrap(), &Definition::Layout(LayoutSpec { token_type, ..said })).unwrap()
}

pub(super) fn snowflake(name: &str) -> Namespace {
    layout(name, r#"{"kind":"layout","layout":"snowflake"}"#)
}

/// Seconds, a thousandth of what a token has of them, and nothing ahead of the clock.
fn seconds(name: &str) -> Namespace {
    let json = r#"{"kind":"layout","bits":64,"epoch":"2024-01-01T00:00:00.500Z","unit_ms":1000,
        "fields":["zero:1","time:30","token:16","serial:17"],"ahead_max_ms":0}"#;
    layout(name, json)
}

fn numbers(engine: &mut Engine, fake: &mut Fake, at: usize, n: u32) -> Vec<u128> {
    match engine.refill_ticks(fake, at, n).unwrap() {
        Refilled::Runs(runs) => runs.numbers().collect(),
        other => panic!("{other:?}"),
    }
}

/// Like the one with a lease, with names of layouts; their numbers are those they are given by.
fn with_layouts(fake: &mut Fake, names: &[Namespace], mark: WallMs) -> Engine {
    let mut engine = with_a_lease(fake);
    engine.contents.header.time_mark = mark;
    engine.contents.blocks = vec![None; 4];
    engine.mark_at_start = mark;
    for name in names {
        engine.add(name).unwrap();
    }
    engine
}

#[test]
fn names_with_one_layout_share_their_numbers_unless_one_is_on_its_own() {
    let fake = &mut Fake::new();
    let own = layout("own", r#"{"kind":"layout","layout":"leaf","scope":"own"}"#);
    let discord = layout("discord", r#"{"kind":"layout","layout":"discord"}"#);
    let leaf = layout("leaf", r#"{"kind":"layout","layout":"leaf"}"#);
    let mut engine = with_layouts(fake, &[snowflake("one"), leaf, own, discord], WallMs(0));
    assert_eq!([0, 1, 2, 3, 4].map(|at| engine.axis_of(at)), [None, Some(0), Some(0), Some(1), Some(2)]);
    let one = numbers(&mut engine, fake, 1, 3);
    let two = numbers(&mut engine, fake, 2, 3);
    assert_eq!((two[0], one[0] & 0xfff), (one[2] + 1, 0), "they count on");
    assert_eq!(numbers(&mut engine, fake, 3, 3), one, "on its own it counts by itself");
    assert_eq!(one[0] >> 12 & 0x3ff, 7, "the token");
    assert_eq!((one[0] >> 22) as i64 + 1_288_834_974_657, NOON.0);
}

#[test]
fn a_spread_begins_each_tick_elsewhere_and_no_number_comes_twice_or_before_another() {
    let fake = &mut Fake::new();
    let name = layout("one", r#"{"kind":"layout","layout":"snowflake","spread":16,"ahead_max_ms":1}"#);
    let reach = Reach::from(name.layout().unwrap());
    // The other one opens windows as well.
    let mut engine = with_layouts(fake, &[name, snowflake("two")], WallMs(0));
    let (mut last, mut firsts) = (0, [0; 16]);
    for nth in 0..3_200u32 {
        fake.pass(50);
        if nth % 3 == 0 {
            let other = numbers(&mut engine, fake, 2, 1);
            assert!(other[0] > last && other[0].trailing_zeros() >= 12, "it has no spread");
            last = other[0];
            fake.pass(50);
        }
        // A tick and more of it now and then, and by both ways.
        let n = if nth % 40 == 0 { 5_000 } else { 1 };
        let open = take_ticks(&fake.ticks[0], n, fake.wall, reach);
        let all: Vec<u128> = match open {
            TakenTicks::All { run, .. } if nth % 2 == 0 => Runs::from(run).numbers().collect(),
            _ => match engine.refill_ticks(fake, 1, n).unwrap() {
                Refilled::Runs(runs) => runs.numbers().collect(),
                Refilled::WaitFor(span) => {
                    fake.pass(span.0);
                    continue;
                }
                other @ Refilled::Pending(_) => panic!("{other:?}"),
            },
        };
        assert_eq!(all.len(), n as usize);
        for number in all {
            assert!(number > last, "{number} after {last}");
            last = number;
            firsts[(number % 16) as usize] += u32::from(n == 1);
        }
    }
    assert!(firsts.iter().all(|count| (100..300).contains(count)), "{firsts:?}");
    // All that a request may ask for comes, wherever the tick began.
    fake.pass(60_000);
    assert_eq!(numbers(&mut engine, fake, 1, 2 * 4_096 - 15).len(), 2 * 4_096 - 15);
    assert_eq!(code(engine.refill_ticks(fake, 1, 2 * 4_096 - 14)), MintCode::BadParameter);
}

#[test]
fn the_first_id_of_a_name_needs_its_block_and_the_mark_in_one_write() {
    let fake = &mut Fake::new();
    let mut engine = with_layouts(fake, &[snowflake("one"), snowflake("two")], WallMs(0));
    refill_uniq96(fake, &mut engine, 1).unwrap();
    fake.asked.clear();
    numbers(&mut engine, fake, 1, 1);
    assert_eq!(fake.asked, ["write", "open ticks"], "though the mark is far enough");
    fake.asked.clear();
    numbers(&mut engine, fake, 1, 1);
    assert_eq!(fake.asked, ["open ticks"]);
    fake.fails = Some(full);
    assert_eq!(code(engine.refill_ticks(fake, 2, 1)), MintCode::SerialFileIo, "nothing without the block");
    fake.fails = None;
    engine.forget_failure();
    numbers(&mut engine, fake, 2, 1);
    let block =
        |name: &str| engine.contents().blocks.iter().flatten().find(|block| block.name.to_string() == name).cloned();
    let (one, two) = (block("one").unwrap(), block("two").unwrap());
    assert_eq!((one.kind, one.serial, one.checksum), (Kind::Layout, 0, snowflake("one").checksum_in(ClusterId(1))));
    assert_ne!(one.checksum, two.checksum);
    engine.contents.blocks.retain(Option::is_some);
    let used = engine.contents.blocks.len();
    let third = engine.add(&snowflake("three")).unwrap();
    numbers(&mut engine, fake, third, 1);
    assert_eq!(engine.contents.blocks.len(), used + 1, "the file grows");
    let others = (used..*NUM_BLOCKS.end() as usize - 1)
        .map(|n| Some(Block { name: BlockName::from(&format!("n{n}").parse().unwrap()), ..one.clone() }));
    engine.contents.blocks.extend(others);
    let fourth = engine.add(&snowflake("four")).unwrap();
    let refused = engine.refill_ticks(fake, fourth, 1).unwrap_err();
    assert_eq!(refused, Refusal::SerialFileFull { blocks: 20_000 });
    engine.retire(&snowflake("two"));
    numbers(&mut engine, fake, fourth, 1);
    assert!(engine.contents.header.names_from >= NOON, "whoever goes on with the other begins later");
    numbers(&mut engine, fake, 1, 1);
    let other = layout("one", r#"{"kind":"layout","layout":"discord"}"#);
    assert!(engine.add(&other).unwrap_err().contains("another definition"));
}

#[test]
fn after_a_restart_ids_go_on_in_the_first_tick_that_begins_at_the_mark() {
    for (mark, first) in [(-1_000, -500), (-500, -500), (-499, 500), (0, 500), (500, 500), (501, 1_500)] {
        let fake = &mut Fake::new();
        let mut engine = with_layouts(fake, &[seconds("s")], NOON + SpanMs(mark));
        if first > 0 {
            // Of a second that may be in use there is nothing.
            assert!(
                matches!(engine.refill_ticks(fake, 1, 1), Ok(Refilled::WaitFor(span)) if span == SpanMs(first)),
                "{mark}"
            );
            fake.pass(first);
        }
        let ids = numbers(&mut engine, fake, 1, 2);
        let definition = seconds("s");
        let parts = ids.iter().map(|id| definition.layout().unwrap().layout().parts(*id).unwrap());
        let seen: Vec<_> = parts.map(|parts| ((parts.time - NOON).0, parts.serial)).collect();
        assert_eq!(seen, [(first, 0), (first, 1)], "{mark}");
        assert!(engine.contents().header.time_mark > NOON + SpanMs(first));
        engine.end(fake).unwrap();
        assert_eq!(engine.contents().header.time_mark, NOON + SpanMs(first + 1), "a tick that was begun is used up");
    }
}

#[test]
fn what_is_used_up_is_waited_for_and_what_never_fits_is_refused() {
    let fake = &mut Fake::new();
    let js = layout("js", r#"{"kind":"layout","layout":"js53","ahead_max_ms":200}"#);
    let mut engine = with_layouts(fake, &[js, seconds("s")], WallMs(0));
    let refused = engine.refill_ticks(fake, 1, 3_073).unwrap_err().to_string();
    assert!(refused.contains("at most 3072 by this name at once"), "{refused}");
    let first = numbers(&mut engine, fake, 1, 3_072);
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 3_072);
    assert!(matches!(engine.refill_ticks(fake, 1, 1), Ok(Refilled::WaitFor(SpanMs(100)))), "three ticks ahead");
    fake.pass(100);
    assert!(numbers(&mut engine, fake, 1, 1)[0] > first[3_071]);
    numbers(&mut engine, fake, 2, 1 << 17);
    assert!(
        matches!(engine.refill_ticks(fake, 2, 1), Ok(Refilled::WaitFor(SpanMs(400)))),
        "nothing is ahead of the clock"
    );
    fake.wall = fake.wall + SpanMs(-1_600);
    assert!(
        matches!(engine.refill_ticks(fake, 2, 1), Ok(Refilled::WaitFor(SpanMs(2_000)))),
        "it was set back a little"
    );
    fake.wall = fake.wall + SpanMs(-1);
    let far = engine.refill_ticks(fake, 2, 1).unwrap_err();
    assert_eq!(far, Refusal::ClockBehind { behind: SpanMs(2_001), retry: SpanMs(1) }, "it was set back further");
}

#[test]
fn tokens_and_times_that_do_not_fit_are_refused() {
    let fake = &mut Fake::new();
    let narrow = r#"{"kind":"layout","bits":64,"epoch":"2024-01-01T00:00:00Z","unit_ms":1,
        "fields":["zero:1","time:41","token:2","serial:20"]}"#;
    let mut engine = with_layouts(fake, &[layout("narrow", narrow), snowflake("one")], WallMs(0));
    let refused = engine.refill_ticks(fake, 1, 1).unwrap_err();
    assert_eq!(refused.code(), MintCode::TokenOutOfRange);
    assert!(refused.to_string().contains("has room for 4 tokens (0 to 3)"), "{refused}");
    let end = snowflake("one").layout().unwrap().layout().end();
    let mut leases = lease();
    for view in leases.values_mut() {
        let LeaseView::Held(grant) = view else { continue };
        grant.until = WallMs(i64::MAX);
    }
    engine.set_leases(fake, leases, false).unwrap();
    fake.wall = end + SpanMs(-1);
    numbers(&mut engine, fake, 2, 1);
    assert_eq!(code(engine.refill_ticks(fake, 2, 4_096)), MintCode::ClockSkew, "its last one does not fit");
    fake.wall = end;
    assert_eq!(code(engine.refill_ticks(fake, 2, 1)), MintCode::ClockSkew);
    // Before the epoch, by a calendar that all the cluster was given.
    let fake = &mut Fake::new();
    let mut engine = with_layouts(fake, &[seconds("s")], WallMs(0));
    let mut leases = lease();
    for view in leases.values_mut() {
        let LeaseView::Held(grant) = view else { continue };
        grant.from = WallMs(0);
    }
    engine.set_leases(fake, leases, false).unwrap();
    fake.wall = WallMs(seconds("s").layout().unwrap().layout().epoch().0 - 1);
    assert_eq!(code(engine.refill_ticks(fake, 1, 1)), MintCode::ClockSkew);
    fake.pass(1);
    numbers(&mut engine, fake, 1, 1);
}

#[test]
fn no_tick_begins_before_its_lease_or_at_its_end() {
    let fake = &mut Fake::new();
    let mut engine = with_layouts(fake, &[seconds("s")], WallMs(0));
    // The lease begins at midnight, in the middle of a tick.
    fake.wall = WallMs(20_000 * DAY_MS);
    assert!(matches!(engine.refill_ticks(fake, 1, 1), Ok(Refilled::WaitFor(SpanMs(500)))));
    fake.pass(500);
    let definition = seconds("s");
    let id = numbers(&mut engine, fake, 1, 1)[0];
    assert_eq!(definition.layout().unwrap().layout().parts(id).unwrap().time, WallMs(20_000 * DAY_MS + 500));
    fake.wall = WallMs(20_007 * DAY_MS - 1);
    numbers(&mut engine, fake, 1, 1);
    fake.pass(1);
    assert_eq!(code(engine.refill_ticks(fake, 1, 1)), MintCode::LeaseExpired);
}
