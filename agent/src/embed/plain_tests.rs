//! Plain numbers within an application.

use super::tests::code;
use super::*;
use crate::minter::Minter;
use crate::minter::kit::Kit;
use crate::sequences::tests::agent_of;
use crate::sequences::tests::masters::Masters;
use common::parameters::ClusterId;
use std::collections::BTreeSet;
use std::sync::Arc;

fn plain(minter: &Arc<Minter>, json: &str) -> Shared {
    let definition: Definition = serde_json::from_str(json).unwrap();
    minter.define(Namespace::define("plain".parse().unwrap(), &definition).unwrap()).unwrap();
    Shared::new(minter, "plain").unwrap()
}

fn counted(minter: &Minter) -> u64 {
    minter.names().minted().find(|(kind, _)| *kind == GeneratorKind::Segment).map_or(0, |(_, n)| n)
}

#[test]
fn plain_numbers_never_meet_on_any_way_and_none_is_left_out_but_the_rest_of_blocks() {
    let kit = Kit::in_memory();
    let minter = kit.start_bare();
    minter.feed_segments();
    let generator = plain(&minter, r#"{"kind":"segment","step":1000}"#);
    let all: Vec<u64> = std::thread::scope(|scope| {
        let mint = |nth: usize| {
            let generator = generator.clone();
            scope.spawn(move || {
                let block = generator.per_thread();
                let mut ids = Vec::new();
                for _ in 0..50_000 {
                    match nth % 3 {
                        0 => ids.push(block.get_segment().unwrap()),
                        1 => ids.push(generator.get_segment().unwrap()),
                        _ => generator.get_batch_segment(3, &mut ids).unwrap(),
                    }
                }
                ids
            })
        };
        let threads: Vec<_> = (0..6).map(mint).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let set: BTreeSet<_> = all.iter().collect();
    assert_eq!((set.len(), all.len()), (500_000, 500_000));
    assert_eq!(counted(&minter), 500_000, "what nobody was given is not counted");
    let largest = **set.last().unwrap();
    assert!(largest < 520_000, "{largest}: a border ends no thread's block");
}

#[test]
fn the_numbers_of_a_name_are_asked_for_as_what_they_are() {
    let kit = Kit::in_memory();
    let minter = kit.start();
    minter.feed_segments();
    let generator = plain(&minter, r#"{"kind":"segment","increment":5,"offset":2}"#);
    let block = generator.per_thread();
    assert_eq!(generator.get_segment(), Ok(7));
    assert_eq!([code(generator.get_uniq64()), code(block.get_uniq64())], [MintCode::UnknownGenerator; 2]);
    assert_eq!(generator.get_id(), Ok("12".to_owned()), "none was used up");
    let first = block.get_segment().unwrap();
    assert_eq!((first, block.get_segment()), (17, Ok(22)));
    assert_eq!(code(block.get_uniq64()), MintCode::UnknownGenerator, "not a place of the block");
    let others = Shared::new(&minter, "default").unwrap();
    assert!(others.get_uniq64().is_ok());
    assert_eq!([code(others.get_segment()), code(others.per_thread().get_segment())], [MintCode::UnknownGenerator; 2]);
}

#[test]
fn texts_are_as_the_definition_writes_them_and_numbers_stay_numbers_unless_they_are_hidden() {
    let kit = Kit::in_memory();
    let minter = kit.start_bare();
    minter.feed_segments();
    let generator = plain(&minter, r#"{"kind":"segment","encoding":{"form":"decimal","length":8,"prefix":"ORD-"}}"#);
    assert_eq!(generator.get_id(), Ok("ORD-00000001".to_owned()));
    assert_eq!(generator.get_segment(), Ok(2));
    let mut texts = Vec::new();
    generator.get_batch_id(2, &mut texts).unwrap();
    assert_eq!(texts, ["ORD-00000003", "ORD-00000004"]);

    let kit = Kit::in_memory();
    let minter = kit.start_bare();
    minter.feed_segments();
    let generator = plain(&minter, r#"{"kind":"segment","encoding":{"form":"sqids","length":8}}"#);
    assert_eq!(generator.get_id().map(|text| text.len()), Ok(8));
    assert_eq!(
        [code(generator.get_segment()), code(generator.per_thread().get_segment())],
        [MintCode::BadParameter; 2]
    );
}

#[test]
fn a_block_ends_with_the_right_to_its_numbers_and_with_its_name() {
    let kit = Kit::in_memory();
    let minter = kit.start();
    minter.feed_segments();
    let generator = plain(&minter, r#"{"kind":"segment"}"#);
    let block = generator.per_thread();
    let first = [block.get_segment().unwrap(), block.get_segment().unwrap(), block.get_segment().unwrap()];
    assert_eq!(first, [1, 2, 3]);
    minter.suspend().unwrap();
    assert!(block.get_segment().is_ok(), "no clock has a say");
    minter.hear_stranger("elsewhere:1", ClusterId(2)).unwrap();
    assert_eq!([code(block.get_segment()), code(generator.get_segment())], [MintCode::WrongCluster; 2]);
    minter.hear_own("elsewhere:1").unwrap();
    assert!(block.get_segment().unwrap() > 100, "what was held was given up");
    minter.retire(generator.generator().namespace());
    assert_eq!([code(block.get_segment()), code(generator.get_segment())], [MintCode::UnknownGenerator; 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_keys_end_with_the_name_for_who_has_had_them() {
    let masters = Masters::new("orders", 3_000, 100, i64::MAX as u64);
    let agent = agent_of(&masters.listen().await, 1 << 24, 63).await;
    masters.session(0).await;
    let sequences = Arc::clone(&agent.sequences);
    let name = sequences.name("orders", 1).await.unwrap();
    let (runtime, process) = (tokio::runtime::Handle::current(), Process::this().unwrap());
    let keys = super::Sequence { sequences, name, runtime, process };
    let next = || tokio::task::block_in_place(|| keys.get_next("5"));
    assert_eq!(next().unwrap(), 1);
    agent.minter.retire(&agent.minter.names().keyed("orders").unwrap());
    assert_eq!(code(next()), MintCode::UnknownGenerator);
}
