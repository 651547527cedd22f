//! IDs that were fetched in advance are handed out once, and not when they are old.
#![allow(clippy::unwrap_used)]

mod source;

use source::{Mood, Source};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinSet;
use uniq_client::{Client, Prefetch, Settings};

const TASKS: usize = 8;
const CALLS: usize = 1_000;
const BATCH: u32 = 100;

async fn fetch_all(max_age: Duration) -> (BTreeSet<u64>, u64) {
    let (address, source) = Source::start(Mood::Well).await;
    let mut settings = Settings::new([address.as_str()]).unwrap();
    settings.timeout = Duration::from_secs(30);
    settings.prefetch = Some(Prefetch::new(BATCH, max_age));
    let client = Client::new(settings).unwrap();
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let client = client.clone();
        tasks.spawn(async move {
            let mut ids = Vec::new();
            for _ in 0..CALLS {
                ids.push(client.uniq64("default").await.unwrap());
            }
            ids
        });
    }
    let ids: Vec<u64> = tasks.join_all().await.concat();
    let distinct: BTreeSet<u64> = ids.iter().copied().collect();
    assert_eq!(distinct.len(), ids.len(), "an ID was handed out twice");
    (distinct, source.requests.load(Ordering::SeqCst))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_id_of_a_batch_is_handed_out_once() {
    let (ids, requests) = fetch_all(Duration::from_secs(3_600)).await;
    assert_eq!(ids.len(), TASKS * CALLS);
    let least = (TASKS * CALLS) as u64 / u64::from(BATCH);
    assert!((least..=least + 2).contains(&requests), "{requests} requests");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_too_old_is_not_handed_out() {
    let (ids, requests) = fetch_all(Duration::ZERO).await;
    assert_eq!(ids.len(), TASKS * CALLS);
    // The first of each batch goes to the one who waited for it; nothing else of it is young enough.
    assert_eq!(requests, (TASKS * CALLS) as u64);
    assert!(ids.iter().all(|id| id % u64::from(BATCH) == 0));
}

#[tokio::test]
async fn a_batch_that_a_name_does_not_give_at_once_is_fetched_in_smaller_ones() {
    let (address, source) = Source::start(Mood::AtMost(20)).await;
    let mut settings = Settings::new([address.as_str()]).unwrap();
    settings.prefetch = Some(Prefetch::default());
    let client = Client::new(settings).unwrap();
    for number in 0..200 {
        assert_eq!(client.number("orders").await.unwrap(), number);
    }
    let requests = source.requests.load(Ordering::SeqCst);
    // 1,000 and 125 are refused once; 15 at a time come.
    assert!((16..=17).contains(&requests), "{requests} requests");
}

#[tokio::test]
async fn what_is_refused_whatever_the_batch_is_told_as_it_is() {
    let (address, source) = Source::start(Mood::AtMost(0)).await;
    let mut settings = Settings::new([address.as_str()]).unwrap();
    settings.prefetch = Some(Prefetch::new(2, Duration::from_secs(1)));
    let client = Client::new(settings).unwrap();
    for _ in 0..2 {
        let error = client.number("orders").await.unwrap_err();
        assert!(error.to_string().contains("too many at once"), "{error}");
    }
    assert_eq!(source.requests.load(Ordering::SeqCst), 4);
}
