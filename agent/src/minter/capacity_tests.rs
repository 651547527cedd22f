//! The exact end of what a bucket holds: never one ID more, less, longer or equal to another.

use super::super::kit::{Kit, held, parameters, set_wall};
use super::*;
use crate::holder::LeaseView;
use common::kind::Kind;
use common::namespace::{Definition, Namespace, SegmentSpec, StringSpec};
use common::parameters::ClusterId;
use common::template::CallerParts;
use common::time::{DAY_MS, SpanMs, WallMs};
use common::token::TokenType;
use net::rpc::mint::MintCode;
use std::collections::BTreeMap;
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// A 4-digit serial that begins again each day.
const TEMPLATE: &str = "{date:%Y%m%d}{token}{serial:4}";
const A_DAY: usize = 10_000;
const TEXT_LEN: usize = 8 + 2 + 4;
const THREADS: usize = 64;
const MIDNIGHTS: usize = 100;
/// The time that the clock is stepped back after each midnight, and then forward again.
const STEP_BACK: SpanMs = SpanMs::seconds(20 * 60);

fn small(kit: &Kit) -> (Arc<Minter>, Arc<Generator>) {
    let definition = Definition::String(StringSpec { everyday_reset: Some(true), ..StringSpec::of(TEMPLATE) });
    let namespace = Namespace::define("small".parse().unwrap(), &definition).unwrap();
    let minter = kit.start_with(vec![namespace]);
    minter.join(ClusterId(1), parameters()).unwrap();
    // One lease over all the days, as if it had been renewed each of them.
    let mut leases = held(7);
    for view in leases.values_mut() {
        if let LeaseView::Held(grant) = view {
            grant.until = grant.until + SpanMs(2 * MIDNIGHTS as i64 * DAY_MS);
        }
    }
    minter.set_leases(leases, 0).unwrap();
    let generator = Arc::clone(minter.names().generator(Kind::String, "small").unwrap());
    assert_eq!(generator.namespace().token_type(), Some(TokenType::String2IncludeLetter));
    (minter, generator)
}

/// The texts that the threads have got so far, and how often they were told that the day is used up.
#[derive(Default)]
struct Got {
    texts: Mutex<Vec<String>>,
    count: AtomicUsize,
    exhausted: AtomicUsize,
    over: AtomicBool,
    trouble: Mutex<Option<Refusal>>,
}

impl Got {
    /// Waits until that is so, unless a thread was told something else than that the day is used up.
    fn until(&self, what: impl Fn(&Self) -> bool) {
        while !what(self) {
            assert_eq!(*self.trouble.lock().unwrap(), None);
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

fn mint_until_told(minter: &Arc<Minter>, generator: &Arc<Generator>, got: &Got, n: u32) {
    let mut mine = Vec::new();
    while !got.over.load(Ordering::Relaxed) {
        match minter.mint_blocking(generator, n) {
            Ok(runs) => {
                let texts = runs.texts(&CallerParts::default());
                got.count.fetch_add(texts.len(), Ordering::Relaxed);
                mine.extend(texts);
            }
            // The clock may be set on between the look at it and the answer, so there may be nothing left to wait for.
            Err(Refusal::SerialExhausted { unit: "day", capacity, retry, .. })
                if capacity == A_DAY as u64 && retry.0 <= DAY_MS + STEP_BACK.0 =>
            {
                got.exhausted.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(other) => {
                *got.trouble.lock().unwrap() = Some(other);
                got.over.store(true, Ordering::Relaxed);
            }
        }
    }
    got.texts.lock().unwrap().extend(mine);
}

#[test]
fn a_day_of_ten_thousand_has_exactly_those_over_a_hundred_midnights_with_the_clock_set_back_at_each() {
    let kit = Kit::in_memory();
    let (minter, generator) = small(&kit);
    let first = WallMs(minter.time().wall().0 / DAY_MS * DAY_MS + DAY_MS);
    set_wall(&minter, first);
    let got = Got::default();
    std::thread::scope(|scope| {
        for nth in 0..THREADS {
            let (minter, generator, got) = (&minter, &generator, &got);
            // Batches too. 10,000 is not a multiple of 3: some thread is refused a batch and others use up what is left.
            scope.spawn(move || mint_until_told(minter, generator, got, if nth % 8 == 0 { 3 } else { 1 }));
        }
        let until = |count: usize| got.until(|got| got.count.load(Ordering::Relaxed) >= count);
        let step = |wall| {
            set_wall(&minter, wall);
            minter.regate().unwrap();
        };
        for day in 0..MIDNIGHTS {
            let midnight = first + SpanMs(day as i64 * DAY_MS);
            set_wall(&minter, midnight);
            until(day * A_DAY + A_DAY / 5);
            step(midnight + SpanMs(-STEP_BACK.0));
            until(day * A_DAY + A_DAY / 2);
            step(midnight + STEP_BACK);
            until((day + 1) * A_DAY);
            // Everybody asks once more and gets nothing.
            let told = got.exhausted.load(Ordering::Relaxed) + THREADS;
            got.until(|got| got.exhausted.load(Ordering::Relaxed) >= told);
            assert_eq!(got.count.load(Ordering::Relaxed), (day + 1) * A_DAY, "day {day}");
        }
        got.over.store(true, Ordering::Relaxed);
    });
    let texts = got.texts.into_inner().unwrap();
    let different: HashSet<&String> = texts.iter().collect();
    assert_eq!((texts.len(), different.len()), (MIDNIGHTS * A_DAY, MIDNIGHTS * A_DAY));
    assert!(texts.iter().all(|text| text.len() == TEXT_LEN));
    let mut days: BTreeMap<&str, usize> = BTreeMap::new();
    texts.iter().for_each(|text| *days.entry(&text[..8]).or_default() += 1);
    assert_eq!(days.len(), MIDNIGHTS);
    assert!(days.values().all(|count| *count == A_DAY), "{days:?}");
}

#[test]
fn serials_of_a_request_that_came_to_nothing_are_given_to_others() {
    let kit = Kit::in_memory();
    let (minter, generator) = small(&kit);
    set_wall(&minter, WallMs(minter.time().wall().0 / DAY_MS * DAY_MS + DAY_MS));
    let mut count = minter.mint_blocking(&generator, 1).unwrap().len();
    // One asks for more than the window holds, takes all of it, and is held up; others use up the day. The window may grow
    // in the background between a look at it and the asking: then once more.
    let (part, n) = loop {
        let n = u32::try_from(generator.series.serials().unwrap().window.load().left()).unwrap() + 1;
        match minter.try_take(&mut None, &generator, n).unwrap() {
            Fast::Some(part) => break (part, n),
            Fast::All(run) => count += run.len as usize,
            Fast::None => count += minter.mint_blocking(&generator, 1).unwrap().len(),
        }
    };
    let held_up = Run::from(part.clone());
    let held_up = held_up.start..held_up.start + u64::from(held_up.len);
    while let Ok(runs) = minter.mint_blocking(&generator, 1) {
        count += runs.len();
    }
    let kept = usize::try_from(held_up.end - held_up.start).unwrap();
    assert_eq!(count, A_DAY - kept);
    let refused = minter.refill(None, &generator, Some(part), n);
    let all_of_it = |left| usize::try_from(left) == Ok(kept);
    assert!(matches!(refused, Err(Refusal::SerialExhausted { left, .. }) if all_of_it(left)), "{refused:?}");
    let serials: Vec<String> = (0..kept)
        .map(|_| {
            minter.mint_blocking(&generator, 1).unwrap().texts(&CallerParts::default())[0][TEXT_LEN - 4..].to_owned()
        })
        .collect();
    assert_eq!(serials, held_up.map(|serial| format!("{serial:04}")).collect::<Vec<_>>());
    assert!(minter.mint_blocking(&generator, 1).is_err());
}

#[tokio::test]
async fn more_than_a_day_holds_is_refused_for_good_and_costs_nothing() {
    let kit = Kit::new();
    let (minter, generator) = small(&kit);
    let never = |refused: Result<Runs, Refusal>| {
        let refusal = refused.unwrap_err();
        assert_eq!((refusal.code(), refusal.retry_after()), (MintCode::BadParameter, None));
        assert!(refusal.to_string().contains("at most 10000 by this name"), "{refusal}");
    };
    never(minter.mint(&generator, 10_001).await);
    minter.mint(&generator, 1).await.unwrap();
    never(minter.mint(&generator, 10_001).await);
    never(minter.mint_blocking(&generator, 10_001));
    let Err(refusal) = minter.mint(&generator, 10_000).await else { panic!() };
    assert!(refusal.retry_after().is_some() && refusal.to_string().contains(" 9999 are left"), "{refusal}");
    minter.mint(&generator, 9_999).await.unwrap();
    let Err(refusal) = minter.mint(&generator, 1).await else { panic!() };
    assert!(refusal.to_string().starts_with("all 10000 serials of this day are used up"), "{refusal}");
}

/// A part that is taken for a call that is refused has nowhere to go once others were given numbers above it.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_for_more_numbers_than_a_window_has_takes_none_of_them() {
    let kit = Kit::new();
    let minter = kit.start_with(vec![
        Namespace::define("orders".parse().unwrap(), &Definition::Segment(SegmentSpec::default())).unwrap(),
    ]);
    minter.join(ClusterId(1), parameters()).unwrap();
    minter.set_leases(held(7), 0).unwrap();
    minter.feed_segments();
    let orders = || minter.names().generator(Kind::Segment, "orders").unwrap();
    let mut given = Vec::new();
    for _ in 0..3 {
        minter.mint(orders(), 1).await.unwrap().narrow_into(&mut given);
        assert!(orders().series.serials().unwrap().window.load().left() > 0);
        let taken = minter.try_take(&mut None, orders(), u32::MAX).unwrap();
        assert!(matches!(taken, Fast::None));
        let refused = minter.mint(orders(), u32::MAX).await.unwrap_err();
        assert!(refused.to_string().contains("at most"), "{refused}");
    }
    assert_eq!(given, [given[0], given[0] + 1, given[0] + 2]);
}
