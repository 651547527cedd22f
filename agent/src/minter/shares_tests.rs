//! One caller does not use up the hour of all, or the places of those that wait.

use super::driver::QUEUE_PART;
use super::kit::{Kit, set_wall};
use super::segments::WAITING_PART;
use super::*;
use crate::plugin::{AccountHolder, By, Caller};
use common::kind::{Kind, UNIQ64_SERIALS_PER_HOUR};
use common::time::{HOUR_MS, SpanMs, WallMs};
use engine::RESERVED_PERCENT;
use net::rpc::mint::MintCode;

const RESERVE: u64 = UNIQ64_SERIALS_PER_HOUR / 100 * RESERVED_PERCENT as u64;

/// A quarter of an hour into the next hour, of whose Uniq64 so many are left. Not this one: a start notes what time it is.
fn left(kit: &Kit, left: u64) -> Arc<Minter> {
    let noon = {
        let minter = kit.start();
        let wall = minter.time().wall().0;
        WallMs(wall - wall.rem_euclid(HOUR_MS) + HOUR_MS + HOUR_MS / 4)
    };
    kit.preset_hour(noon, 1_000, UNIQ64_SERIALS_PER_HOUR - left);
    let minter = kit.start();
    set_wall(&minter, noon);
    minter
}

fn uniq64(minter: &Minter) -> &Arc<Generator> {
    minter.names().generator(Kind::Uniq64, "default").unwrap()
}

async fn by(minter: &Arc<Minter>, caller: &str, n: u32) -> Result<usize, Refusal> {
    let caller = Caller::Address(caller.parse().unwrap());
    minter.mint_by(uniq64(minter), n, caller).await.map(|runs| runs.len())
}

#[tokio::test]
async fn whoever_takes_all_of_an_hour_leaves_the_others_most_of_its_last_quarter() {
    let kit = Kit::new();
    let minter = left(&kit, RESERVE + 20_000_000);
    let mut taken = 0;
    let refused = loop {
        match by(&minter, "10.0.0.1", 4_000_000).await {
            Ok(n) => taken += n as u64,
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(refused.code(), MintCode::QuotaExceeded);
    let next_hour = refused.retry_after().unwrap().0;
    assert!((HOUR_MS / 2..HOUR_MS).contains(&next_hour), "{refused}");
    let most = 20_000_000 + RESERVE / 17 + 2 * u64::from(crate::serial::STEP_MAX);
    assert!((RESERVE / 20..most).contains(&taken), "{taken}");
    // On the short way, the long one, and as one of the same network.
    assert!(minter.try_one(uniq64(&minter)).is_none());
    assert!(by(&minter, "::ffff:10.0.0.1", 4_000_000).await.is_err());
    assert_eq!(by(&minter, "10.0.0.2", 4_000_000).await, Ok(4_000_000));
    assert_eq!(by(&minter, "10.0.0.2", 1).await, Ok(1));
    assert_eq!(minter.ready(), Ok(()), "others are served");
    // The application's own process has nobody to leave anything to.
    assert_eq!(minter.mint(uniq64(&minter), 50_000_000).await.unwrap().len(), 50_000_000);
    set_wall(&minter, minter.time().wall() + SpanMs(HOUR_MS));
    assert_eq!(by(&minter, "10.0.0.1", 4_000_000).await, Ok(4_000_000), "the next hour");
    assert!(minter.try_one(uniq64(&minter)).is_some());
}

#[tokio::test]
async fn one_call_does_not_reach_over_the_border_and_calls_of_many_networks_leave_something() {
    let kit = Kit::new();
    let minter = left(&kit, RESERVE + 10);
    assert!(by(&minter, "10.0.0.1", u32::MAX >> 4).await.is_err());
    for network in 0..16 {
        while by(&minter, &format!("2001:db8:0:{network:x}::1"), 4_000_000).await.is_ok() {}
    }
    assert!(by(&minter, "2001:db8:0:1::ffff", 4_000_000).await.is_err(), "a network of 64 bits is one caller");
    assert_eq!(by(&minter, "10.0.0.2", 4_000_000).await, Ok(4_000_000));
}

#[tokio::test]
async fn who_is_refused_a_share_costs_nobody_a_number() {
    let kit = Kit::new();
    let of_all = RESERVE + 1_000_000;
    let minter = left(&kit, of_all);
    let mut taken = by(&minter, "10.0.0.1", 1).await.unwrap() as u64;
    // The window has some, too few, and as many as are asked for would be too many for one.
    let Err(refused) = by(&minter, "10.0.0.1", u32::try_from(RESERVE).unwrap()).await else { panic!() };
    assert_eq!(refused.code(), MintCode::QuotaExceeded);
    for n in [4_000_000, 100_000, 10_000, 1_000, 100, 1] {
        while let Ok(runs) = minter.mint(uniq64(&minter), n).await {
            taken += runs.len() as u64;
        }
    }
    assert_eq!(taken, of_all);
}

#[tokio::test]
async fn without_a_reserved_part_all_of_it_is_anybodys() {
    let kit = Kit::new();
    let minter = left(&kit, 12_000_000);
    assert!(by(&minter, "10.0.0.1", 4_000_000).await.is_err());
    minter.driver().reserve_last(0).unwrap();
    for _ in 0..3 {
        assert_eq!(by(&minter, "10.0.0.1", 4_000_000).await, Ok(4_000_000));
    }
    assert_eq!(by(&minter, "10.0.0.1", 4_000_000).await.unwrap_err().code(), MintCode::SerialExhausted);
}

#[tokio::test]
async fn a_closed_window_says_nothing_of_what_is_left() {
    let kit = Kit::new();
    let minter = left(&kit, RESERVE);
    assert_eq!(by(&minter, "10.0.0.1", 1_000).await, Ok(1_000));
    minter.regate().unwrap();
    assert_eq!(by(&minter, "10.0.0.1", 1_000).await, Ok(1_000), "as much is left as before");
    minter.suspend().unwrap();
    assert_ne!(by(&minter, "10.0.0.2", 1_000).await.unwrap_err().code(), MintCode::QuotaExceeded);
}

/// One caller fills its part of the queue for the serial file, and of the places that wait for segments; others find some left.
#[tokio::test]
async fn whoever_waits_for_the_disk_as_often_as_he_may_keeps_nobody_else_from_it() {
    let kit = Kit::new();
    let minter = left(&kit, UNIQ64_SERIALS_PER_HOUR / 2);
    let greedy = Some(AccountHolder::of(By::Caller, Caller::Address("10.0.0.1".parse().unwrap())));
    let places: Vec<_> = (0..QUEUE_PART).map(|_| minter.driver.place(greedy).unwrap()).collect();
    // More than any window has.
    let refused = by(&minter, "10.0.0.1", 1_000_000).await.unwrap_err();
    assert!(refused.to_string().contains("this caller's requests"), "{refused}");
    for other in ["10.0.0.2", "127.0.0.1"] {
        assert_eq!(by(&minter, other, 1_000_000).await.unwrap(), 1_000_000, "{other}");
    }
    drop(places);
    assert_eq!(by(&minter, "10.0.0.1", 1_000_000).await.unwrap(), 1_000_000);

    let waiting: Vec<_> = (0..WAITING_PART).map(|_| minter.segments().waits(greedy).ok().unwrap()).collect();
    assert!(minter.segments().waits(greedy).is_err() && minter.segments().waits(None).is_ok());
    drop(waiting);
    assert!(minter.segments().waits(greedy).is_ok());
}
