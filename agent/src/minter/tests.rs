use super::driver::QUEUE_MAX;
use super::kit::{Kit, held, set_wall};
use super::*;
use crate::holder::LeaseView;
use crate::run::Runs;
use common::kind::{Kind, UNIQ64, UNIQ64_SERIALS_PER_HOUR, UNIQ96};
use common::layout::Parts;
use common::time::{DAY_MS, HOUR_MS, SpanMs, WallMs};
use common::token::{TokenType, TokenValue};
use engine::{RESTART_WAIT_MAX, WRITE_RETRY};
use net::rpc::mint::MintCode;
use proptest::prelude::*;
use std::collections::HashSet;

/// The first step.
const STEP: u32 = Namespace::STEP_DEFAULT;

async fn uniq64(minter: &Arc<Minter>, n: u32) -> Result<Vec<Parts>, Refusal> {
    let runs = minter.mint(minter.names().generator(Kind::Uniq64, "default").unwrap(), n).await?;
    assert_eq!(runs.len(), n as usize);
    Ok(runs.numbers().map(|id| UNIQ64.layout().parts(id).unwrap()).collect())
}

async fn bits(minter: &Arc<Minter>, n: u32) -> Vec<u64> {
    let runs = minter.mint(minter.names().generator(Kind::Uniq64, "default").unwrap(), n).await;
    runs.iter().flat_map(|runs| runs.numbers().map(|id| id as u64).collect::<Vec<_>>()).collect()
}

async fn strings(minter: &Arc<Minter>, n: u32) -> Result<Vec<String>, Refusal> {
    let generator = Arc::clone(minter.names().generator(Kind::String, "default").unwrap());
    let caller = generator.namespace().template().unwrap().check_caller(Some("TEST"), Some("00")).unwrap();
    Ok(minter.mint(&generator, n).await?.texts(&caller))
}

#[track_caller]
fn code<T>(result: Result<T, Refusal>) -> MintCode {
    let Err(refusal) = result else { panic!("minted") };
    refusal.code()
}

/// Tomorrow at noon: no test runs over the end of the hour, and no mark of a file just made lies ahead.
fn a_noon(minter: &Minter) -> WallMs {
    WallMs(minter.time().wall().0 / DAY_MS * DAY_MS + DAY_MS + 12 * HOUR_MS)
}

fn start_at_noon(kit: &Kit) -> (Arc<Minter>, WallMs) {
    let minter = kit.start();
    let noon = a_noon(&minter);
    set_wall(&minter, noon);
    (minter, noon)
}

#[tokio::test]
async fn ids_carry_the_token_the_hour_and_serials_in_order() {
    let kit = Kit::new();
    let (minter, _) = start_at_noon(&kit);
    let ids = uniq64(&minter, 2 * STEP + 1).await.unwrap();
    assert!(ids.iter().all(|id| (id.tick % 24, id.token) == (12, TokenValue(7))));
    assert!(ids.iter().zip(0..).all(|(id, serial)| id.serial == serial), "a batch beyond the first step");
    let texts = strings(&minter, 2).await.unwrap();
    assert!(texts[0].ends_with("TEST070000000000") && texts[1].ends_with("TEST070000000100"), "{texts:?}");
    let counted: Vec<_> = minter.names().minted().map(|(_, n)| n).collect();
    assert_eq!(counted, [2 * u64::from(STEP) + 1, 0, 2, 0, 0, 0]);
}

#[tokio::test]
async fn a_clean_stop_leaves_no_gap_and_a_crash_repeats_nothing() {
    let kit = Kit::new();
    let (minter, noon) = start_at_noon(&kit);
    assert_eq!(uniq64(&minter, 3).await.unwrap()[2].serial, 2);
    minter.end().unwrap();
    assert_eq!(code(uniq64(&minter, 1).await), MintCode::Overloaded, "nothing is minted after the end");
    drop(minter);

    let minter = kit.start();
    set_wall(&minter, noon);
    assert_eq!(minter.session().start().to_string(), "resumed");
    assert_eq!(uniq64(&minter, 1).await.unwrap()[0].serial, 3);
    drop(minter);

    let minter = kit.start();
    set_wall(&minter, noon);
    assert!(uniq64(&minter, 1).await.unwrap()[0].serial >= STEP, "all that was reserved may be in use");
}

#[tokio::test]
async fn the_last_serials_of_an_hour_are_given_and_then_none() {
    let kit = Kit::new();
    let noon = a_noon(&kit.start());
    kit.preset_hour(noon, 1_000, UNIQ64_SERIALS_PER_HOUR - 500);
    let minter = kit.start();
    set_wall(&minter, noon + SpanMs(HOUR_MS - 90_000));
    let Err(refusal @ Refusal::SerialExhausted { retry, left: 500, .. }) = uniq64(&minter, 501).await else { panic!() };
    assert!(refusal.to_string().contains("500 are left here, for calls that want no more"), "{refusal}");
    assert!((SpanMs(88_000)..=SpanMs(90_000)).contains(&retry), "to the end of the hour: {retry:?}");
    let serials: Vec<_> = uniq64(&minter, 499).await.unwrap().iter().map(|id| u64::from(id.serial)).collect();
    let wrapped = (0..499u64).map(|i| (1_000 + UNIQ64_SERIALS_PER_HOUR - 500 + i) % UNIQ64_SERIALS_PER_HOUR);
    assert_eq!(serials, wrapped.collect::<Vec<_>>());
    assert_eq!(code(uniq64(&minter, 2).await), MintCode::SerialExhausted, "a refusal costs no serial");
    assert_eq!(uniq64(&minter, 1).await.unwrap()[0].serial, 999);
    assert_eq!(code(uniq64(&minter, 1).await), MintCode::SerialExhausted);
    set_wall(&minter, noon + SpanMs(HOUR_MS));
    let next = uniq64(&minter, 1).await.unwrap()[0];
    assert_eq!((next.tick % 24, next.serial), (13, 1_000), "the next hour has all of them again");
}

#[tokio::test]
async fn the_hour_goes_forward_with_the_clock_and_never_back() {
    let kit = Kit::new();
    let (minter, noon) = start_at_noon(&kit);
    let hour = async |at: i64| {
        set_wall(&minter, noon + SpanMs(at));
        uniq64(&minter, 1).await.map(|ids| (ids[0].tick % 24, ids[0].serial))
    };
    assert_eq!(hour(HOUR_MS - 60_000).await, Ok((12, 0)));
    assert_eq!(hour(HOUR_MS).await, Ok((13, 1)));
    assert_eq!(hour(HOUR_MS - 2_000).await, Ok((13, 2)), "set back by two seconds");
    minter.regate().unwrap();
    assert_eq!(hour(-60_000).await.unwrap_err().code(), MintCode::ClockBehind, "more than an hour");
    assert_eq!(hour(HOUR_MS).await, Ok((13, 3)), "nothing was lost");
}

#[tokio::test]
async fn what_the_lease_does_not_allow_is_refused_with_the_reason() {
    let kit = Kit::new();
    let minter = kit.start_bare();
    assert_eq!(code(uniq64(&minter, 1).await), MintCode::NoLease);
    assert_eq!(
        code(minter.mint(minter.names().generator(Kind::Uniq96, "default").unwrap(), 1).await),
        MintCode::NoLease
    );
    minter.grants().explain(Some("the other master is silent".to_owned()));
    assert!(minter.ready().unwrap_err().to_string().contains("the other master is silent"));
    drop(minter);

    // All kinds begin at noon: a clock that is set back to less than an hour before the lease begins goes on in the first hour
    // and day of it, if nothing later was minted.
    let (minter, _) = start_at_noon(&kit);
    minter.regate().unwrap();
    assert_eq!(minter.ready(), Ok(()));
    let Some(LeaseView::Held(lease)) = minter.grants().leases().remove(&TokenType::Uint2) else { panic!() };
    uniq64(&minter, 1).await.unwrap();
    minter.mint(minter.names().generator(Kind::Uniq96, "default").unwrap(), 1).await.unwrap();
    strings(&minter, 1).await.unwrap();
    for (wall, wanted) in [(lease.from + SpanMs(-60_000), MintCode::ClockBehind), (lease.until, MintCode::LeaseExpired)]
    {
        set_wall(&minter, wall);
        minter.regate().unwrap();
        assert_eq!(code(uniq64(&minter, 1).await), wanted);
        assert_eq!(code(minter.mint(minter.names().generator(Kind::Uniq96, "default").unwrap(), 1).await), wanted);
        assert_eq!(code(strings(&minter, 1).await), wanted);
        assert_eq!(code(minter.ready()), wanted);
    }
}

#[tokio::test]
async fn a_lost_lease_ends_minting_at_once_and_a_new_one_continues_with_its_token() {
    let kit = Kit::new();
    let (minter, _) = start_at_noon(&kit);
    assert_eq!(uniq64(&minter, 1).await.unwrap()[0].token, TokenValue(7));
    let mut lost = held(7);
    lost.insert(TokenType::Uint2, LeaseView::Missing);
    minter.set_leases(lost, 0).unwrap();
    assert_eq!(code(uniq64(&minter, 1).await), MintCode::NoLease);
    assert!(strings(&minter, 1).await.is_ok(), "the other lease is untouched");
    minter.set_leases(held(8), 0).unwrap();
    let id = uniq64(&minter, 1).await.unwrap()[0];
    assert_eq!((id.token, id.serial), (TokenValue(8), 1));
}

#[tokio::test]
async fn after_a_jump_only_a_renewal_that_the_holder_reports_later_counts() {
    let kit = Kit::new();
    let (minter, _) = start_at_noon(&kit);
    uniq64(&minter, 1).await.unwrap();
    minter.time().pretend_jump();
    assert!(minter.time().watch().is_some());
    minter.suspend().unwrap();
    assert_eq!(code(uniq64(&minter, 1).await), MintCode::ClockSkew);
    assert_eq!(
        code(minter.mint(minter.names().generator(Kind::Uniq96, "default").unwrap(), 1).await),
        MintCode::ClockSkew
    );
    minter.set_leases(held(7), 0).unwrap();
    assert_eq!(code(uniq64(&minter, 1).await), MintCode::ClockSkew, "from before the jump");
    minter.set_leases(held(7), 1).unwrap();
    assert!(uniq64(&minter, 1).await.is_ok());
}

#[tokio::test]
async fn a_clock_that_differs_too_much_from_the_masters_is_refused_until_it_agrees() {
    let kit = Kit::new();
    let minter = kit.start();
    uniq64(&minter, 1).await.unwrap();
    let hear = |off: i64| {
        let now = minter.time().clock().now();
        let wall = now.wall + SpanMs(off);
        let (_, regate) = minter.time().hear(&crate::timebase::ClockSample {
            sent: now,
            received: now,
            round_trip: SpanMs(0),
            wall,
            ahead: None,
        });
        assert!(regate);
        minter.regate().unwrap();
    };
    hear(301_000);
    assert_eq!(code(uniq64(&minter, 1).await), MintCode::ClockSkew);
    hear(0);
    assert!(uniq64(&minter, 1).await.is_ok());
}

#[tokio::test]
async fn a_token_beyond_uniq64_serves_uniq96() {
    let kit = Kit::new();
    let minter = kit.start();
    minter.set_leases(held(4_096), 0).unwrap();
    assert_eq!(code(uniq64(&minter, 1).await), MintCode::TokenOutOfRange);
    let ids = minter.mint(minter.names().generator(Kind::Uniq96, "default").unwrap(), 3).await.unwrap();
    assert!(ids.numbers().all(|id| UNIQ96.layout().parts(id).unwrap().token == TokenValue(4_096)));
}

#[tokio::test]
async fn a_failing_disk_stops_minting_at_the_bounds_and_not_before() {
    let kit = Kit::new();
    let (minter, _) = start_at_noon(&kit);
    uniq64(&minter, 1).await.unwrap();
    // Where the next file is to be made, something cannot be removed.
    let in_the_way = kit.path().with_file_name("serial.new");
    std::fs::create_dir(&in_the_way).unwrap();
    let last = async |n| uniq64(&minter, n).await.map(|ids| ids.last().unwrap().serial);
    assert_eq!(last(STEP - 1_000).await, Ok(STEP - 1_000));
    assert_eq!(code(uniq64(&minter, 1_000).await), MintCode::SerialFileIo);
    assert_eq!(code(minter.ready()), MintCode::SerialFileIo);
    assert_eq!(last(999).await, Ok(STEP - 1), "the rest is still there");
    assert_eq!(code(uniq64(&minter, 1).await), MintCode::SerialFileIo);
    std::fs::remove_dir(&in_the_way).unwrap();
    tokio::time::sleep(WRITE_RETRY.to_std()).await;
    assert_eq!(last(1).await, Ok(STEP));
    assert_eq!(minter.ready(), Ok(()));
}

#[tokio::test]
async fn a_failing_disk_keeps_the_next_hour_and_the_next_mark_shut() {
    let kit = Kit::new();
    let (minter, noon) = start_at_noon(&kit);
    uniq64(&minter, 1).await.unwrap();
    minter.mint(minter.names().generator(Kind::Uniq96, "default").unwrap(), 1).await.unwrap();
    std::fs::create_dir(kit.path().with_file_name("serial.new")).unwrap();
    set_wall(&minter, noon + SpanMs(HOUR_MS));
    for _ in 0..2 {
        assert_eq!(code(uniq64(&minter, 1).await), MintCode::SerialFileIo, "the hour is not durable");
        assert_eq!(
            code(minter.mint(minter.names().generator(Kind::Uniq96, "default").unwrap(), 1).await),
            MintCode::SerialFileIo,
            "the mark is passed"
        );
    }
}

#[tokio::test]
async fn a_file_that_someone_touched_ends_minting_for_good() {
    let kit = Kit::new();
    let (minter, _) = start_at_noon(&kit);
    uniq64(&minter, 1).await.unwrap();
    let bytes = std::fs::read(kit.path()).unwrap();
    std::fs::write(kit.path(), bytes).unwrap();
    assert_eq!(code(uniq64(&minter, STEP).await), MintCode::SerialFileIo);
    assert!(minter.driver().ended().await.contains("no longer ours"));
    assert_eq!(code(uniq64(&minter, 1).await), MintCode::SerialFileIo, "what was reserved is not used either");
    assert_eq!(
        code(minter.mint(minter.names().generator(Kind::Uniq96, "default").unwrap(), 1).await),
        MintCode::SerialFileIo
    );
    assert_eq!(code(minter.ready()), MintCode::SerialFileIo);
}

#[tokio::test]
async fn more_is_reserved_before_the_window_is_used_up() {
    let kit = Kit::new();
    let (minter, _) = start_at_noon(&kit);
    uniq64(&minter, 1).await.unwrap();
    let mark = |minter: &Minter| minter.driver.state().engine.contents().blocks[0].as_ref().unwrap().serial;
    let first = u64::from(STEP);
    assert_eq!(mark(&minter), first);
    uniq64(&minter, STEP / 2).await.unwrap();
    while mark(&minter) == first {
        tokio::task::yield_now().await;
    }
    assert_eq!(mark(&minter), 3 * first, "the first step did not last long, so the next is doubled");
}

#[tokio::test]
async fn uniq96_follow_the_clock_and_wait_for_the_mark_after_a_crash() {
    let kit = Kit::new();
    let minter = kit.start();
    let place = |runs: &Runs| {
        let parts = UNIQ96.layout().parts(runs.numbers().last().unwrap()).unwrap();
        (parts.time, parts.serial)
    };
    let before = minter.time().wall();
    let first = place(&minter.mint(minter.names().generator(Kind::Uniq96, "default").unwrap(), 100_000).await.unwrap());
    assert!(before <= first.0 && first.0 <= minter.time().wall() && first.1 == 99_999);
    let mark = minter.driver.state().engine.contents().header.time_mark;
    assert!(mark > first.0);
    drop(minter);
    let minter = kit.start();
    let second = place(&minter.mint(minter.names().generator(Kind::Uniq96, "default").unwrap(), 1).await.unwrap());
    assert!(second.0 >= mark, "every millisecond below the mark may be in use");
    assert!(second.0 <= minter.time().wall(), "it waited for the clock");
    set_wall(&minter, second.0 + SpanMs(-500_000));
    let third = place(&minter.mint(minter.names().generator(Kind::Uniq96, "default").unwrap(), 1).await.unwrap());
    assert_eq!(third, (second.0, second.1 + 1), "the clock went back, the time in the IDs does not");
    set_wall(&minter, second.0 + SpanMs(-700_000));
    assert_eq!(
        code(minter.mint(minter.names().generator(Kind::Uniq96, "default").unwrap(), 1).await),
        MintCode::ClockBehind
    );
    minter.end().unwrap();
    assert_eq!(minter.driver.state().engine.contents().header.time_mark, third.0 + SpanMs(1));
}

#[tokio::test]
async fn renewals_are_numbered_durably_and_leases_survive_a_restart() {
    let kit = Kit::new();
    let minter = kit.start();
    minter.promise_rseq(5).unwrap();
    minter.promise_rseq(4).unwrap();
    drop(minter);
    let opened = kit.open();
    assert_eq!(opened.holdings.rseq, 5);
    assert_eq!((opened.holdings.leases.len(), opened.holdings.parameters), (2, Some(super::kit::parameters())));
}

#[tokio::test]
async fn a_lease_counts_when_it_is_durable_and_a_loss_at_once() {
    let kit = Kit::new();
    let (minter, _) = start_at_noon(&kit);
    uniq64(&minter, 1).await.unwrap();
    let in_the_way = kit.path().with_file_name("serial.lineage.new");
    std::fs::create_dir(&in_the_way).unwrap();
    assert_eq!(code(minter.set_leases(held(8), 0)), MintCode::SerialFileIo);
    assert_eq!(code(uniq64(&minter, 1).await), MintCode::NoLease, "the old one is lost, the new one not durable");
    assert_eq!(code(minter.promise_rseq(9)), MintCode::SerialFileIo);
    std::fs::remove_dir(&in_the_way).unwrap();
    minter.set_leases(held(8), 0).unwrap();
    assert_eq!(uniq64(&minter, 1).await.unwrap()[0].token, TokenValue(8));
    drop(minter);
    assert_eq!(kit.open().holdings.rseq, 0, "what was not promised");
}

#[tokio::test]
async fn one_request_too_many_in_the_queue_is_refused() {
    let kit = Kit::new();
    let minter = kit.start();
    let turn = minter.driver.own_turn().await;
    let waiting: Vec<_> = (0..QUEUE_MAX)
        .map(|_| {
            let minter = Arc::clone(&minter);
            tokio::spawn(async move { uniq64(&minter, 1).await })
        })
        .collect();
    while minter.driver.free_places() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(code(uniq64(&minter, 1).await), MintCode::Overloaded);
    drop(turn);
    for task in waiting {
        assert!(task.await.unwrap().is_ok());
    }
}

/// Everything at once: requests of all sizes on several threads, while windows are closed and opened again, hours pass,
/// the token changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn under_load_and_change_no_id_comes_twice() {
    let kit = Kit::new();
    let (minter, noon) = start_at_noon(&kit);
    let generator = Arc::clone(minter.names().generator(Kind::Uniq64, "default").unwrap());
    let clients: Vec<_> = (0..4u32)
        .map(|client| {
            let (minter, generator) = (Arc::clone(&minter), Arc::clone(&generator));
            tokio::spawn(async move {
                let mut mine = Vec::new();
                for i in 0..1_500 {
                    let n = [1, 3, 700, 40][(i + client as usize) % 4];
                    let runs = minter.mint(&generator, n).await.unwrap();
                    runs.narrow_into(&mut mine);
                }
                mine
            })
        })
        .collect();
    let changing = Arc::clone(&minter);
    let changes = tokio::task::spawn_blocking(move || {
        for i in 0..40u32 {
            changing.regate().unwrap();
            set_wall(&changing, noon + SpanMs(i64::from(i) * HOUR_MS / 4));
            changing.set_leases(held(7 + i % 2), 0).unwrap();
        }
    });
    let mut seen = HashSet::new();
    for client in clients {
        for id in client.await.unwrap() {
            assert!(seen.insert(id), "{id} came twice");
        }
    }
    changes.await.unwrap();
    assert_eq!(seen.len(), 1_500 * (1 + 3 + 700 + 40));
}

#[derive(Clone, Debug)]
enum Step {
    Mint(u32),
    Strings(u32),
    Uniq96(u32),
    Clock(i64),
    Regate,
    Reserve,
    Token(u32),
    Crash,
    Stop,
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (1u32..3_000).prop_map(Step::Mint),
        1 => (STEP - 10..STEP + 10).prop_map(Step::Mint),
        3 => (1u32..5_000).prop_map(Step::Strings),
        2 => (1u32..5_000).prop_map(Step::Uniq96),
        3 => (-5_000_000i64..10_000_000).prop_map(Step::Clock),
        1 => Just(Step::Regate),
        1 => Just(Step::Reserve),
        1 => (7u32..9).prop_map(Step::Token),
        1 => Just(Step::Crash),
        1 => Just(Step::Stop),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// The oracle is the set of every ID that came out, over crashes, stops, steps of the clock and other tokens.
    #[test]
    fn whatever_happens_in_whatever_order_no_id_comes_twice(script in proptest::collection::vec(steps(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let kit = Kit::new();
            let (mut minter, mut wall) = start_at_noon(&kit);
            let (mut numbers, mut wide, mut texts) = (HashSet::new(), HashSet::new(), HashSet::new());
            let mut token = 7;
            for step in script {
                match step {
                    Step::Mint(n) => {
                        for id in bits(&minter, n).await {
                            assert!(numbers.insert(id), "{id:?} came twice");
                        }
                    }
                    Step::Strings(n) => {
                        for id in strings(&minter, n).await.unwrap_or_default() {
                            assert!(texts.insert(id.clone()), "{id} came twice");
                        }
                    }
                    Step::Uniq96(n) => {
                        for id in minter.mint(minter.names().generator(Kind::Uniq96, "default").unwrap(), n).await.unwrap_or_default().numbers() {
                            assert!(wide.insert(id), "{id:?} came twice");
                        }
                    }
                    Step::Clock(by) => {
                        wall = wall + SpanMs(by);
                        set_wall(&minter, wall);
                    }
                    Step::Regate => minter.regate().unwrap(),
                    Step::Reserve => minter.reserve(minter.names().generator(Kind::Uniq64, "default").unwrap().series.serials().unwrap()),
                    Step::Token(value) => {
                        token = value;
                        minter.set_leases(held(token), 0).unwrap();
                    }
                    Step::Crash | Step::Stop => {
                        if matches!(step, Step::Stop) {
                            minter.end().unwrap();
                        }
                        // A reserve may be under way on another thread; the file is locked until it is done.
                        while Arc::strong_count(&minter) > 1 {
                            tokio::task::yield_now().await;
                        }
                        drop(minter);
                        minter = kit.start();
                        minter.set_leases(held(token), 0).unwrap();
                        // A start takes its time; otherwise its first ID by ticks would wait for it.
                        wall = wall + RESTART_WAIT_MAX;
                        set_wall(&minter, wall);
                    }
                }
            }
        });
    }
}

/// Without masters a resumed session waits for a moment, for a renewal that would tell of it, and then goes on; its first ID
/// comes after a write of the file, so that a copy made before that differs from now on.
#[tokio::test]
async fn a_resumed_session_without_masters_waits_for_a_moment_and_writes_its_file_first() {
    for kind in [Kind::Uniq64, Kind::Uniq96, Kind::String] {
        let kit = Kit::new();
        let began = std::time::Instant::now();
        let minter = kit.start_resumed(false);
        let counter = || minter.driver.state().engine.contents().header.write_counter;
        let before = counter();
        assert_eq!(code(minter.ready()), MintCode::NoLease);
        match kind {
            Kind::Uniq64 => drop(uniq64(&minter, 1).await.unwrap()),
            Kind::Uniq96 => {
                drop(minter.mint(minter.names().generator(Kind::Uniq96, "default").unwrap(), 1).await.unwrap())
            }
            _ => drop(strings(&minter, 1).await.unwrap()),
        }
        assert!(began.elapsed() >= RESUME_WAIT.to_std(), "it came at once");
        assert!(counter() > before, "nothing was written");
        assert_eq!(minter.ready(), Ok(()));
    }
}

#[test]
fn in_process_a_resumed_session_waits_too() {
    let kit = Kit::new();
    let began = std::time::Instant::now();
    let minter = kit.start_resumed(false);
    let generator = Arc::clone(minter.names().generator(Kind::Uniq64, "default").unwrap());
    assert_eq!(minter.mint_blocking(&generator, 3).unwrap().len(), 3);
    assert!(began.elapsed() >= RESUME_WAIT.to_std(), "it came at once");
}

#[tokio::test]
async fn where_the_lineage_leaves_room_for_a_copy_only_a_renewal_will_do() {
    let kit = Kit::new();
    let minter = kit.start_resumed(true);
    tokio::time::sleep(RESUME_WAIT.to_std()).await;
    assert_eq!(code(minter.ready()), MintCode::NoLease);
    let asking = {
        let minter = Arc::clone(&minter);
        tokio::spawn(async move { uniq64(&minter, 1).await.map(|ids| ids[0].token) })
    };
    minter.set_leases(held(7), 0).unwrap();
    assert_eq!(asking.await.unwrap(), Ok(TokenValue(7)), "whoever waited goes on when it was renewed");
}

/// The promise of `mint` about refusals: nothing is given twice, and what a request took from the window before it was refused a place in the queue
/// is a gap, smaller than what it asked for.
#[tokio::test]
async fn a_refusal_for_want_of_a_place_leaves_a_gap_and_no_duplicate() {
    let kit = Kit::new();
    let (minter, _) = start_at_noon(&kit);
    let first = uniq64(&minter, STEP - 10).await.unwrap();
    let places: Vec<_> = (0..QUEUE_MAX).map(|_| minter.driver.place(None).unwrap()).collect();
    assert_eq!(code(uniq64(&minter, 100).await), MintCode::Overloaded);
    drop(places);
    let after = uniq64(&minter, 100).await.unwrap();
    let (last, next) = (first.last().unwrap().serial, after[0].serial);
    assert!((last + 1..=last + 100).contains(&next), "{next} after {last}");
    let all: HashSet<u32> = first.iter().chain(&after).map(|id| id.serial).collect();
    assert_eq!(all.len(), first.len() + after.len());
}
