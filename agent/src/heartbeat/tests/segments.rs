//! Segments: who is asked, which answers count, and what callers hear meanwhile.

use super::*;
use common::segment::Shown;
use net::rpc::mint::MintCode;
use std::collections::BTreeSet;

fn namespace(name: &str, json: &str) -> Namespace {
    let definition: Definition = serde_json::from_str(json).unwrap();
    Namespace::define(name.parse().unwrap(), &definition).unwrap()
}

fn orders() -> Namespace {
    namespace("orders", r#"{"kind":"segment","step":1000}"#)
}

/// An agent that only fetches segments.
fn fetching(minter: &Arc<Minter>, masters: &[String]) -> CancellationToken {
    let stop = CancellationToken::new();
    tokio::spawn(Segments::new(masters_at(masters, minter)).run(stop.clone()));
    stop
}

async fn numbers(minter: &Arc<Minter>, name: &str, n: u32) -> Result<Vec<u64>, Refusal> {
    let source = minter.names().generator(Kind::Segment, name)?;
    Ok(minter.mint(source, n).await?.numbers().map(|number| number as u64).collect())
}

fn started(kit: &Kit) -> Arc<Minter> {
    let minter = kit.start();
    minter.define(orders()).unwrap();
    minter
}

#[tokio::test]
async fn the_first_call_of_a_name_waits_for_its_first_segment_and_the_next_one_comes_in_time() {
    let (kit, master) = (Kit::in_memory(), Master::new(Ok(1)));
    let minter = started(&kit);
    let _stop = fetching(&minter, &[master.listen().await]).drop_guard();
    assert_eq!(numbers(&minter, "orders", 1).await.unwrap(), [1]);
    assert_eq!(master.with(|records| records.segments[0].wanted), 100, "a tenth at first");
    for number in 2..=20 {
        assert_eq!(numbers(&minter, "orders", 1).await.unwrap(), [number]);
    }
    until("the second one, at the threshold", || master.with(|records| records.segments.len()) == 2).await;
    assert_eq!(master.with(|records| records.segments[1].seen), Shown { to: 101, proof: Some([7; 32]) });
    let mut given = BTreeSet::new();
    for nth in 0..5_000 {
        let number = numbers(&minter, "orders", 1).await.unwrap()[0];
        assert!(given.insert(number), "{number} came twice, the second time as call {nth}");
    }
    assert_eq!((given.first(), given.last()), (Some(&21), Some(&5_020)), "one master: no gap");
    let counters = minter.segments().counters();
    assert!(counters.fetched >= 3 && counters.waits >= 1, "{counters:?}");
    assert_eq!(counters.fetched, master.with(|records| records.segments.len() as u64));
}

#[tokio::test]
async fn a_batch_is_served_across_segments_and_a_large_one_asks_for_as_many() {
    let (kit, master) = (Kit::in_memory(), Master::new(Ok(1)));
    let minter = started(&kit);
    let _stop = fetching(&minter, &[master.listen().await]).drop_guard();
    assert_eq!(numbers(&minter, "orders", 90).await.unwrap(), (1..=90).collect::<Vec<_>>());
    until("the second one", || minter.segments().counters().fetched == 2).await;
    assert_eq!(numbers(&minter, "orders", 30).await.unwrap(), (91..=120).collect::<Vec<_>>());
    assert_eq!(numbers(&minter, "orders", 100_000).await.unwrap(), (121..=100_120).collect::<Vec<_>>());
    // A master that has little left gives less than was asked for.
    master.with(|records| records.granted_max = 60_000);
    let more = numbers(&minter, "orders", 150_000).await.unwrap();
    assert_eq!(more.len(), more.iter().collect::<BTreeSet<_>>().len());
    assert!(more.iter().all(|number| *number > 100_120));
}

#[tokio::test]
async fn the_other_master_is_asked_at_once_and_then_first() {
    let (kit, cannot, can) = (Kit::in_memory(), Master::new(Ok(1)), Master::new(Ok(2)));
    cannot.with(|records| records.no_segment = Some(Said::PeerAway));
    let minter = started(&kit);
    let masters = [nobody().await, cannot.listen().await, can.listen().await];
    let _stop = fetching(&minter, &masters).drop_guard();
    assert_eq!(numbers(&minter, "orders", 1).await.unwrap(), [1]);
    let asked = cannot.with(|records| records.segments.len());
    assert_eq!(numbers(&minter, "orders", 500).await.unwrap(), (2..=501).collect::<Vec<_>>());
    assert_eq!(cannot.with(|records| records.segments.len()), asked, "who granted one is asked first");
}

#[tokio::test]
async fn with_the_masters_away_numbers_flow_until_both_segments_are_used_and_then_it_is_pending() {
    let (kit, master) = (Kit::in_memory(), Master::new(Ok(1)));
    let minter = started(&kit);
    let _stop = fetching(&minter, &[master.listen().await]).drop_guard();
    numbers(&minter, "orders", 50).await.unwrap();
    until("the second one", || minter.segments().counters().fetched == 2).await;
    master.with(|records| records.no_segment = Some(Said::PeerAway));
    // Neither lease nor clock has a say.
    minter.time().pretend_jump();
    minter.in_turn(Minter::suspend).await.unwrap().unwrap();
    let left = 100 + 100 - 50;
    let too_many = numbers(&minter, "orders", left + 1);
    let refusal = too_many.await.unwrap_err();
    assert_eq!((refusal.code(), refusal.retry_after()), (MintCode::SegmentPending, Some(SpanMs(1_000))));
    assert!(refusal.to_string().contains("needs both"), "{refusal}");
    for number in 51..=200 {
        assert_eq!(numbers(&minter, "orders", 1).await.unwrap(), [number], "nothing was lost by the refusal");
    }
    let began = std::time::Instant::now();
    assert_eq!(numbers(&minter, "orders", 1).await.unwrap_err().code(), MintCode::SegmentPending);
    assert!(began.elapsed() < Duration::from_secs(2), "who comes later is told at once");
    master.with(|records| records.no_segment = None);
    until("the next one", || minter.segments().counters().fetched == 3).await;
    assert_eq!(numbers(&minter, "orders", 1).await.unwrap(), [201]);
}

/// Both masters may have been put back to before they granted it, or to before its name was registered: then they compare nothing until an
/// agent has brought the name back.
#[tokio::test]
async fn what_was_granted_is_shown_on_each_new_connection_until_the_master_takes_notice() {
    let (kit, master) = (Kit::in_memory(), Master::new(Ok(1)));
    let minter = started(&kit);
    let (masters, stop) = (masters_at(&[master.listen().await], &minter), CancellationToken::new());
    let report = Arc::clone(&masters.report);
    let segments = Segments::new(masters);
    let _stop = stop.clone().drop_guard();
    tokio::spawn(segments.run(stop));
    let shown = || master.with(|records| records.segments.iter().filter(|asked| asked.wanted == 0).count());
    report.has_connected();
    assert_eq!(numbers(&minter, "orders", 1).await.unwrap(), [1]);
    assert_eq!(shown(), 0, "nothing was granted when it connected");
    for not_compared in [Said::Syncing, Said::NoSuchName] {
        let before = shown();
        master.with(|records| records.no_segment = Some(not_compared));
        report.has_connected();
        until("it is shown again", || shown() >= before + 2).await;
        let last = master.with(|records| records.segments.last().cloned()).unwrap();
        assert_eq!((last.name.as_str(), last.wanted, last.seen.to), ("orders", 0, 101));
        master.with(|records| records.no_segment = None);
        let before = shown();
        until("the master has answered", || shown() > before).await;
    }
    assert_eq!(
        numbers(&minter, "orders", 99).await.unwrap(),
        (2..=100).collect::<Vec<_>>(),
        "nothing was taken by that"
    );
}

#[tokio::test]
async fn an_axis_has_ended_when_every_master_says_so() {
    let (kit, one, two) = (Kit::in_memory(), Master::new(Ok(1)), Master::other(SpanMs(0)));
    let ended = || Some(Said::AxisEnded { name: "orders".parse().unwrap() });
    one.with(|records| records.no_segment = ended());
    two.with(|records| records.no_segment = Some(Said::Overloaded));
    let minter = started(&kit);
    let _stop = fetching(&minter, &[one.listen().await, two.listen().await]).drop_guard();
    let refusal = numbers(&minter, "orders", 1).await.unwrap_err();
    assert_eq!(refusal.code(), MintCode::SegmentPending, "the other one may have some");
    two.with(|records| records.no_segment = ended());
    let code = || {
        let minter = Arc::clone(&minter);
        async move { numbers(&minter, "orders", 1).await.unwrap_err() }
    };
    let waited = tokio::time::timeout(PATIENCE, async {
        while code().await.code() != MintCode::SerialExhausted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.unwrap();
    let refusal = code().await;
    assert_eq!(refusal.retry_after(), None);
    assert!(refusal.to_string().contains("are used up"), "{refusal}");
}

#[tokio::test]
async fn nothing_is_asked_for_or_given_while_a_master_is_of_another_cluster() {
    let (kit, master) = (Kit::in_memory(), Master::new(Ok(1)));
    let minter = started(&kit);
    let _stop = fetching(&minter, &[master.listen().await]).drop_guard();
    numbers(&minter, "orders", 1).await.unwrap();
    minter.in_turn(|minter| minter.hear_stranger("elsewhere:1", ClusterId(2))).await.unwrap().unwrap();
    assert_eq!(numbers(&minter, "orders", 1).await.unwrap_err().code(), MintCode::WrongCluster);
    minter.in_turn(|minter| minter.hear_own("elsewhere:1")).await.unwrap().unwrap();
    assert_eq!(numbers(&minter, "orders", 1).await.unwrap(), [101], "what was held was given up");
}

#[tokio::test]
async fn a_clean_stop_loses_no_number_and_a_fresh_start_drops_them() {
    let (kit, master) = (Kit::new(), Master::new(Ok(1)));
    let address = master.listen().await;
    let minter = started(&kit);
    let stop = fetching(&minter, std::slice::from_ref(&address));
    assert_eq!(numbers(&minter, "orders", 7).await.unwrap().last(), Some(&7));
    stop.cancel();
    minter.end().unwrap();
    until("the task to end", || Arc::strong_count(&minter) == 1).await;
    drop(minter);
    let minter = started(&kit);
    let stop = fetching(&minter, std::slice::from_ref(&address));
    assert_eq!(numbers(&minter, "orders", 1).await.unwrap(), [8]);
    // As after a kill: what was marked may have been given.
    stop.cancel();
    until("the task to end", || Arc::strong_count(&minter) == 1).await;
    drop(minter);
    let minter = started(&kit);
    let stop = fetching(&minter, std::slice::from_ref(&address));
    let next = numbers(&minter, "orders", 1).await.unwrap()[0];
    assert!((9..=8 + 13).contains(&next), "{next}: a step of the mark at most");
    stop.cancel();
    until("the task to end", || Arc::strong_count(&minter) == 1).await;
    drop(minter);
    // A copy is another file: its session is a new one.
    let copy = kit.path().with_extension("copy");
    std::fs::copy(kit.path(), &copy).unwrap();
    std::fs::rename(copy, kit.path()).unwrap();
    let minter = started(&kit);
    let _stop = fetching(&minter, &[address]).drop_guard();
    assert_eq!(numbers(&minter, "orders", 1).await.unwrap(), [101]);
}

#[tokio::test]
async fn segments_of_a_name_that_was_defined_otherwise_say_nothing() {
    let (kit, master) = (Kit::new(), Master::new(Ok(1)));
    let address = master.listen().await;
    let minter = started(&kit);
    let stop = fetching(&minter, std::slice::from_ref(&address));
    numbers(&minter, "orders", 7).await.unwrap();
    stop.cancel();
    minter.end().unwrap();
    until("the task to end", || Arc::strong_count(&minter) == 1).await;
    drop(minter);
    let minter = kit.start();
    minter.define(namespace("orders", r#"{"kind":"segment","increment":10}"#)).unwrap();
    let _stop = fetching(&minter, &[address]).drop_guard();
    assert_eq!(numbers(&minter, "orders", 3).await.unwrap(), [1_010, 1_020, 1_030]);
}

#[tokio::test]
async fn names_that_need_segments_at_the_same_time_share_writes() {
    const NAMES: usize = 200;
    let (kit, master) = (Kit::in_memory(), Master::new(Ok(1)));
    let minter = kit.start();
    for name in 0..NAMES {
        minter.define(namespace(&format!("name-{name}"), r#"{"kind":"segment"}"#)).unwrap();
    }
    let before = minter.disk().writes();
    let (release, held) = std::sync::mpsc::channel();
    let disk = minter.hold_the_disk(held);
    let _stop = fetching(&minter, &[master.listen().await]).drop_guard();
    let calls: Vec<_> = (0..NAMES)
        .map(|name| {
            let minter = Arc::clone(&minter);
            tokio::spawn(async move { numbers(&minter, &format!("name-{name}"), 1).await.unwrap() })
        })
        .collect();
    release.send(()).unwrap();
    disk.join().unwrap();
    for call in calls {
        assert_eq!(call.await.unwrap().len(), 1);
    }
    let writes = minter.disk().writes() - before;
    assert!(writes <= NAMES as u64 / 2, "{writes} writes");
}

#[tokio::test]
async fn names_that_go_on_after_a_restart_share_writes_too() {
    const NAMES: usize = 100;
    let (kit, master) = (Kit::in_memory(), Master::new(Ok(1)));
    let address = master.listen().await;
    let begin = || {
        let minter = kit.start();
        for name in 0..NAMES {
            minter.define(namespace(&format!("name-{name}"), r#"{"kind":"segment"}"#)).unwrap();
        }
        minter
    };
    let each = |minter: &Arc<Minter>| {
        let call = |name: usize| {
            let minter = Arc::clone(minter);
            tokio::spawn(async move { numbers(&minter, &format!("name-{name}"), 1).await.unwrap()[0] })
        };
        (0..NAMES).map(call).collect::<Vec<_>>()
    };
    let minter = begin();
    let stop = fetching(&minter, std::slice::from_ref(&address));
    let mut given = BTreeSet::new();
    for call in each(&minter) {
        given.insert(call.await.unwrap());
    }
    stop.cancel();
    until("the task to end", || Arc::strong_count(&minter) == 1).await;
    drop(minter);
    let minter = begin();
    let before = minter.disk().writes();
    let (release, held) = std::sync::mpsc::channel();
    let disk = minter.hold_the_disk(held);
    let calls = each(&minter);
    tokio::task::yield_now().await;
    release.send(()).unwrap();
    disk.join().unwrap();
    for call in calls {
        assert!(given.insert(call.await.unwrap()), "a number of the run before");
    }
    let writes = minter.disk().writes() - before;
    assert!(writes <= NAMES as u64 / 4, "{writes} writes");
}

/// The segment that a name uses ends with it, also for who holds its generator.
#[tokio::test]
async fn a_name_that_was_retired_gives_no_more() {
    let (kit, master) = (Kit::in_memory(), Master::new(Ok(1)));
    let minter = started(&kit);
    let _stop = fetching(&minter, &[master.listen().await]).drop_guard();
    numbers(&minter, "orders", 1).await.unwrap();
    let generator = Arc::clone(minter.names().generator(Kind::Segment, "orders").unwrap());
    minter.in_turn(|minter| minter.retire(&orders())).await.unwrap();
    let refusal = minter.mint(&generator, 1).await.unwrap_err();
    assert_eq!(refusal.code(), MintCode::UnknownGenerator, "{refusal}");
    assert!(minter.try_one(&generator).is_none());
}

#[test]
fn what_a_definition_leaves_out_is_as_usual() {
    let usual = orders();
    assert_eq!(usual.segments().unwrap().threshold(), 20);
}
