use super::*;
use crate::minter::kit::{Kit, held, set_wall};
use crate::minter::{CachedClock, Minter};
use common::encoding::EncodingForm;
use common::kind::{UNIQ64, UNIQ64_SERIALS_PER_HOUR};
use common::time::{DAY_MS, HOUR_MS, SpanMs, WallMs};
use net::rpc::mint::MintCode;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn shared(minter: &Arc<Minter>) -> Shared {
    Shared::new(minter, "default").unwrap()
}

pub(super) fn code<T: std::fmt::Debug>(result: Result<T, MintError>) -> MintCode {
    match result.unwrap_err() {
        MintError::Refused(refusal) => refusal.code(),
        MintError::Forked => panic!("nobody forked"),
    }
}

#[test]
fn each_kind_comes_and_unknown_names_do_not() {
    let kit = Kit::new();
    let minter = kit.start();
    let generator = shared(&minter);
    let fields = UNIQ64.layout().parts(generator.get_uniq64().unwrap().into()).unwrap();
    assert_eq!((fields.token.0, fields.serial), (7, 0));
    let mut batch = Vec::new();
    generator.get_batch64(5, &mut batch).unwrap();
    assert_eq!(batch.iter().map(|id| id & 0x7fff_ffff).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert!(generator.get_uniq96().unwrap() < generator.get_uniq96().unwrap());
    let text = generator.get_uniq_string("SHOP", "xy").unwrap();
    assert!(text.len() == 24 && text.contains("SHOP07") && text.ends_with("xy"), "{text}");
    assert_eq!(code(generator.get_uniq_string("", "xy")), MintCode::BadParameter);
    let mut texts = Vec::new();
    generator.get_batch_string(3, "SHOP", "xy", &mut texts).unwrap();
    generator.per_thread().get_batch_string(2, "SHOP", "xy", &mut texts).unwrap();
    texts.push(text);
    assert!(texts.iter().all(|text| text.len() == 24 && text.ends_with("xy")), "{texts:?}");
    assert_eq!(texts.iter().collect::<BTreeSet<_>>().len(), 6, "{texts:?}");
    assert_eq!(code(generator.get_batch_string(1, "", "xy", &mut texts)), MintCode::BadParameter);
    assert_eq!(texts.len(), 6, "what is refused appends nothing");
    assert_eq!(Shared::new(&minter, "nosuch").err().map(|e| e.code()), Some(MintCode::UnknownGenerator));
}

#[test]
fn without_a_lease_each_way_says_why() {
    let kit = Kit::new();
    let minter = kit.start_bare();
    let generator = shared(&minter);
    let block = generator.per_thread();
    assert_eq!(code(generator.get_uniq64()), MintCode::NoLease);
    assert_eq!(code(generator.get_uniq96()), MintCode::NoLease);
    assert_eq!(code(generator.get_uniq_string("SHOP", "xy")), MintCode::NoLease);
    assert_eq!(code(block.get_uniq64()), MintCode::NoLease);
}

/// Mints until a block is cut that has more than the ID it gives.
fn cut_a_block(minter: &Minter, from: &dyn UniqGenerator) -> u64 {
    loop {
        let before = minted(minter)[0];
        let id = from.get_uniq64().unwrap();
        if minted(minter)[0] > before + 1 {
            return id;
        }
    }
}

#[test]
fn a_block_ends_with_its_window() {
    let kit = Kit::new();
    let minter = kit.start();
    let generator = shared(&minter);
    let block = generator.per_thread();
    let ways: [&dyn UniqGenerator; 2] = [&generator, &block];
    for from in ways {
        let first = cut_a_block(&minter, from);
        minter.suspend().unwrap();
        assert_eq!(code(from.get_uniq64()), MintCode::ClockSkew, "the rest of the block is void");
        minter.set_leases(held(7), 0).unwrap();
        assert!(cut_a_block(&minter, from) > first + 1);
        minter.set_leases(held(8), 0).unwrap();
        assert_eq!(UNIQ64.layout().parts(from.get_uniq64().unwrap().into()).unwrap().token.0, 8, "not the lost token");
        minter.set_leases(held(7), 0).unwrap();
    }
}

#[test]
fn a_thread_that_slept_past_the_end_of_the_hour_cannot_use_its_rest() {
    let kit = Kit::new();
    let minter = kit.start();
    let generator = shared(&minter);
    let block = generator.per_thread();
    let ways: [&dyn UniqGenerator; 2] = [&generator, &block];
    let before = ways.map(|from| UNIQ64.layout().parts(cut_a_block(&minter, from).into()).unwrap());
    let next_hour = minter.time().wall() + SpanMs(HOUR_MS);
    set_wall(&minter, next_hour);
    // The time is written down every few milliseconds; whoever slept past an hour finds it done.
    let passing = CachedClock::of(&minter).unwrap();
    while passing.wall() < next_hour {
        std::thread::yield_now();
    }
    for (from, before) in ways.into_iter().zip(before) {
        let after = UNIQ64.layout().parts(from.get_uniq64().unwrap().into()).unwrap();
        assert_ne!(before.tick, after.tick);
    }
}

#[test]
fn after_a_rest_a_thread_gives_later_ids_than_all_that_others_gave_before() {
    let kit = Kit::new();
    let minter = kit.start();
    let generator = shared(&minter);
    let time = CachedClock::of(&minter).unwrap();
    let mut last = 0;
    for _ in 0..20 {
        let many = |generator: &Shared| (0..2_000).map(|_| generator.get_uniq64().unwrap()).max().unwrap();
        // What is left of its own burst is older than what the other thread gives.
        many(&generator);
        let most = std::thread::scope(|scope| scope.spawn(|| many(&generator)).join().unwrap());
        let read = time.wall();
        while time.wall() == read {
            std::thread::yield_now();
        }
        let id = generator.get_uniq64().unwrap();
        assert!(id > most && most > last, "{last} {most} {id}");
        last = id;
    }
    assert_eq!(minted(&minter)[0], 20 * 4_001, "one at a time after a rest");
}

#[test]
fn after_a_rest_ids_are_later_also_where_their_ticks_lie_ahead_of_the_clock() {
    let kit = Kit::new();
    let minter = kit.start();
    let generator = shared(&minter);
    let time = CachedClock::of(&minter).unwrap();
    generator.get_uniq96().unwrap();
    let behind = WallMs(minter.time().wall().0 - 100_000);
    set_wall(&minter, behind);
    while time.wall() > behind + SpanMs(50_000) {
        std::thread::yield_now();
    }
    let many = |generator: &Shared| (0..2_000).map(|_| generator.get_uniq96().unwrap()).max().unwrap();
    many(&generator);
    let most = std::thread::scope(|scope| scope.spawn(|| many(&generator)).join().unwrap());
    let read = time.wall();
    while time.wall() < read + SpanMs(5) {
        std::thread::yield_now();
    }
    assert!(generator.get_uniq96().unwrap() > most);
}

#[test]
fn blocks_the_shared_way_and_batches_never_meet_while_windows_come_and_go() {
    let kit = Kit::new();
    let minter = kit.start();
    let generator = shared(&minter);
    let stop = AtomicBool::new(false);
    let ids: Vec<u64> = std::thread::scope(|scope| {
        let mint = |nth: usize| {
            let (generator, stop) = (generator.clone(), &stop);
            scope.spawn(move || {
                let block = generator.per_thread();
                let mut ids = Vec::new();
                for _ in 0..100_000 {
                    match nth % 3 {
                        0 => ids.push(block.get_uniq64().unwrap()),
                        1 => ids.push(generator.get_uniq64().unwrap()),
                        _ => generator.get_batch64(3, &mut ids).unwrap(),
                    }
                }
                stop.store(true, Ordering::Relaxed);
                ids
            })
        };
        let threads: Vec<_> = (0..6).map(mint).collect();
        while !stop.load(Ordering::Relaxed) {
            minter.regate().unwrap();
            std::thread::yield_now();
        }
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let set: BTreeSet<_> = ids.iter().collect();
    assert_eq!((set.len(), ids.len()), (1_000_000, 1_000_000));
    // What was taken and not given, of blocks and of windows that ended, is not counted.
    assert_eq!(minted(&minter), [1_000_000, 0, 0]);
}

#[test]
fn what_leaves_is_counted_on_every_way_and_a_block_as_a_whole_until_it_ends() {
    let kit = Kit::new();
    let minter = kit.start();
    let generator = shared(&minter);
    std::thread::scope(|scope| {
        let ten = || (0..10).for_each(|_| assert!(generator.get_uniq64().is_ok()));
        scope.spawn(ten).join().unwrap();
    });
    assert_eq!(minted(&minter), [10, 0, 0], "what that thread had left went with it");
    let block = generator.per_thread();
    block.get_uniq64().unwrap();
    assert_eq!(minted(&minter), [10 + 2_048, 0, 0], "a block of 2,048");
    drop(block);
    generator.get_batch64(3_000, &mut Vec::new()).unwrap();
    generator.get_batch_string(5, "SHOP", "xy", &mut Vec::new()).unwrap();
    generator.get_uniq_string("SHOP", "xy").unwrap();
    generator.get_uniq96().unwrap();
    assert_eq!(minted(&minter), [10 + 1 + 3_000, 1, 6], "the rest of the block was not given");
    // Larger than what is left of the window, and then refused.
    let step = common::namespace::Namespace::STEP_DEFAULT;
    generator.get_batch64(step, &mut Vec::new()).unwrap();
    let all = [u64::from(step) + 3_011, 1, 6];
    assert_eq!(minted(&minter), all);
    minter.suspend().unwrap();
    assert_eq!(code(generator.get_batch64(step, &mut Vec::new())), MintCode::ClockSkew);
    assert_eq!(minted(&minter), all, "what is refused is not counted");
}

/// Uniq64, Uniq96 and strings.
fn minted(minter: &Minter) -> [u64; 3] {
    let counted: Vec<u64> = minter.names().minted().map(|(_, n)| n).take(3).collect();
    counted.try_into().unwrap()
}

#[test]
fn the_reserve_is_made_without_a_runtime_too() {
    let kit = Kit::new();
    let minter = kit.start();
    let generator = shared(&minter);
    let step = common::namespace::Namespace::STEP_DEFAULT;
    for _ in 0..step * 3 {
        generator.get_uniq64().unwrap();
    }
    let writes = minter.disk().writes();
    assert!((3..=8).contains(&writes), "{writes} writes for three steps and a lease");
}

/// A layout with `serials` IDs a millisecond, as a power of two.
fn layout(minter: &Arc<Minter>, name: &str, serials: u32) -> Shared {
    let json = format!(
        r#"{{"kind":"layout","bits":64,"epoch":"2024-01-01T00:00:00Z","unit_ms":1,"token_type":"uint2",
        "fields":["zero:{}","time:39","token:12","serial:{serials}"]}}"#,
        13 - serials
    );
    let definition = serde_json::from_str(&json).unwrap();
    minter.define(Namespace::define(name.parse().unwrap(), &definition).unwrap()).unwrap();
    Shared::new(minter, name).unwrap()
}

fn numbers_counted(minter: &Minter) -> u64 {
    minter.names().minted().find(|(kind, _)| *kind == GeneratorKind::Layout).map_or(0, |(_, n)| n)
}

#[test]
fn numbers_never_meet_on_any_way_and_grow_on_each_while_windows_come_and_go() {
    for serials in [12, 4] {
        let kit = Kit::in_memory();
        let minter = kit.start();
        let generator = layout(&minter, "numbers", serials);
        let alike = layout(&minter, "alike", serials);
        let stop = AtomicBool::new(false);
        let all: Vec<u128> = std::thread::scope(|scope| {
            let mint = |nth: usize| {
                let (generator, stop) = (if nth < 3 { generator.clone() } else { alike.clone() }, &stop);
                scope.spawn(move || {
                    let block = generator.per_thread();
                    let mut ids = Vec::new();
                    for _ in 0..if serials == 12 { 50_000 } else { 2_000 } {
                        match nth % 3 {
                            0 => ids.push(block.get_number().unwrap()),
                            1 => ids.push(generator.get_number().unwrap()),
                            _ => generator.get_batch_number(3, &mut ids).unwrap(),
                        }
                    }
                    stop.store(true, Ordering::Relaxed);
                    assert!(ids.is_sorted(), "what one thread gets grows");
                    ids
                })
            };
            let threads: Vec<_> = (0..6).map(mint).collect();
            while !stop.load(Ordering::Relaxed) {
                minter.regate().unwrap();
                std::thread::yield_now();
            }
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        assert_eq!(numbers_counted(&minter), all.len() as u64, "and what nobody was given is not counted");
    }
}

#[test]
fn a_block_of_a_tick_ends_with_its_tick_its_window_and_its_name() {
    let kit = Kit::new();
    let minter = kit.start();
    let generator = layout(&minter, "numbers", 12);
    let block = generator.per_thread();
    // The first opens the window, the second cuts a block.
    let first = [block.get_number().unwrap(), block.get_number().unwrap()];
    let later = minter.time().wall() + SpanMs(1_000);
    set_wall(&minter, later);
    let passing = CachedClock::of(&minter).unwrap();
    while passing.wall() < later {
        std::thread::yield_now();
    }
    let next = block.get_number().unwrap();
    assert!((next >> 24) - (first[1] >> 24) >= 990, "not the time of the block");
    minter.suspend().unwrap();
    assert_eq!(code(block.get_number()), MintCode::ClockSkew, "the rest of the block is void");
    assert_eq!(code(generator.get_number()), MintCode::ClockSkew);
    minter.set_leases(held(8), 0).unwrap();
    for _ in 0..3 {
        let number = block.get_number().unwrap();
        assert!(number > next && number >> 12 & 0xfff == 8, "not the lost token: {number:x}");
    }
    minter.retire(generator.generator().namespace());
    assert_eq!([code(block.get_number()), code(generator.get_number())], [MintCode::UnknownGenerator; 2]);
}

#[test]
fn what_is_left_of_a_block_of_a_tick_ends_with_the_name() {
    let kit = Kit::new();
    let minter = kit.start();
    let long = r#"{"kind":"layout","bits":64,"epoch":"2024-01-01T00:00:00Z","unit_ms":10000,"token_type":"uint2",
        "fields":["zero:1","time:39","token:12","serial:12"]}"#;
    let namespace =
        |name: &str| Namespace::define(name.parse().unwrap(), &serde_json::from_str(long).unwrap()).unwrap();
    for name in ["one", "two"] {
        minter.define(namespace(name)).unwrap();
        let generator = Shared::new(&minter, name).unwrap();
        let block = generator.per_thread();
        let from: &dyn UniqGenerator = if name == "one" { &generator } else { &block };
        loop {
            let before = numbers_counted(&minter);
            from.get_number().unwrap();
            if numbers_counted(&minter) > before + 1 {
                break;
            }
        }
        minter.retire(generator.generator().namespace());
        assert_eq!(code(from.get_number()), MintCode::UnknownGenerator);
    }
}

#[test]
fn numbers_that_an_encoding_hides_leave_on_no_way() {
    let kit = Kit::new();
    let minter = kit.start();
    let encoding = Some(EncodingSource::Name(EncodingForm::Sqids));
    let definition = Definition::Layout(LayoutSpec { encoding, ..LayoutSpec::of("sonyflake") });
    minter.define(Namespace::define("veiled".parse().unwrap(), &definition).unwrap()).unwrap();
    let generator = Shared::new(&minter, "veiled").unwrap();
    let block = generator.per_thread();
    let mut texts = BTreeSet::new();
    for _ in 0..5 {
        assert!(texts.insert(generator.get_id().unwrap()) && texts.insert(block.get_id().unwrap()));
        let minted = numbers_counted(&minter);
        let refused = [generator.get_number(), block.get_number()].map(code);
        assert_eq!(refused, [MintCode::BadParameter; 2]);
        assert_eq!(code(generator.get_batch_number(3, &mut Vec::new())), MintCode::BadParameter);
        assert_eq!(numbers_counted(&minter), minted, "nothing is used up");
    }
}

/// A block goes on where the serial begins again within it, and no serial is lost.
#[test]
fn a_block_goes_on_where_the_serial_begins_again() {
    const LEFT: u64 = 500;
    let kit = Kit::new();
    let minter = kit.start();
    let noon = WallMs(minter.time().wall().0.div_euclid(DAY_MS) * DAY_MS + DAY_MS + 12 * HOUR_MS);
    drop(minter);
    let start = UNIQ64_SERIALS_PER_HOUR - LEFT;
    kit.preset_hour(noon, start, 0);
    let minter = kit.start();
    set_wall(&minter, noon);
    let generator = shared(&minter);
    let block = generator.per_thread();
    let serials = (0..2_000).map(|_| block.get_uniq64().unwrap() % UNIQ64_SERIALS_PER_HOUR);
    let expected = (0..2_000).map(|nth| (start + nth) % UNIQ64_SERIALS_PER_HOUR);
    assert_eq!(serials.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}
