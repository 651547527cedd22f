//! Blocks of the serial file: every name that is minted by gets one, and those of retired names return.

use super::kit::{Kit, set_wall};
use super::*;
use common::kind::{Kind, UNIQ64};
use common::layout::Parts;
use common::namespace::{Definition, Scope, Uniq64Spec};
use common::time::{DAY_MS, HOUR_MS, SpanMs, WallMs};

fn own(name: &str) -> Namespace {
    let definition = Definition::Uniq64(Uniq64Spec { scope: Some(Scope::Own), ..Uniq64Spec::default() });
    Namespace::define(name.parse().unwrap(), &definition).unwrap()
}

async fn one(minter: &Arc<Minter>, name: &str) -> Result<Parts, Refusal> {
    let runs = minter.mint(minter.names().generator(Kind::Uniq64, name)?, 1).await?;
    Ok(runs.numbers().next().and_then(|id| UNIQ64.layout().parts(id)).unwrap())
}

/// Of the file as it is durable: how many blocks it has, and the names of those that are used.
fn blocks(minter: &Minter) -> (usize, Vec<String>) {
    let state = minter.driver.state();
    let blocks = &state.engine.contents().blocks;
    (blocks.len(), blocks.iter().flatten().map(|block| block.name.to_string()).collect())
}

#[tokio::test]
async fn more_names_than_the_file_had_blocks_are_served_and_default_needs_none_of_theirs() {
    let kit = Kit::in_memory();
    let minter = kit.start();
    let names: Vec<String> = (0..120).map(|n| format!("n{n}")).collect();
    for name in &names {
        minter.define(own(name)).unwrap();
        one(&minter, name).await.unwrap();
    }
    let last = one(&minter, "n119").await.unwrap();
    assert_eq!(blocks(&minter).0, 122, "ten at first");
    one(&minter, "default").await.unwrap();
    assert_eq!(minter.ready(), Ok(()));
    drop(minter);

    let minter = kit.start();
    assert_eq!(minter.session().start().to_string(), "resumed");
    minter.define(own("n119")).unwrap();
    let next = one(&minter, "n119").await.unwrap();
    assert!((next.tick, next.serial) > (last.tick, last.serial), "{next:?} after {last:?}");
}

#[tokio::test]
async fn the_block_of_a_retired_name_returns_when_its_hour_is_over_and_whoever_goes_on_by_it_repeats_nothing() {
    let kit = Kit::new();
    let minter = kit.start();
    let noon = WallMs(minter.time().wall().0 / DAY_MS * DAY_MS + DAY_MS + 12 * HOUR_MS);
    set_wall(&minter, noon + SpanMs(60_000));
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        minter.define(own(name)).unwrap();
        assert_eq!(one(&minter, name).await.unwrap().tick % 24, 12);
    }
    minter.retire(&own("a"));
    minter.define(own("early")).unwrap();
    one(&minter, "early").await.unwrap();
    let (len, names) = blocks(&minter);
    assert!(len == 11 && names.contains(&"a".to_owned()), "{names:?}: its hour is not over");
    set_wall(&minter, noon + SpanMs(HOUR_MS));
    minter.define(own("late")).unwrap();
    one(&minter, "late").await.unwrap();
    let (len, names) = blocks(&minter);
    assert!(len == 11 && !names.contains(&"a".to_owned()) && names.contains(&"late".to_owned()), "{names:?}");
    drop(minter);

    // The masters were put back to before it was retired, and the clock is behind.
    let minter = kit.start();
    set_wall(&minter, noon + SpanMs(30 * 60_000));
    minter.define(own("a")).unwrap();
    assert_eq!(one(&minter, "a").await.unwrap().tick % 24, 13, "it gave IDs in the hour before");
}
