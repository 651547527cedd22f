//! Beside its module and not in it, because that one is also compiled against loom's atomics (tests/loom_window.rs).

use crate::window::*;
use ids::time::WallMs;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::Ordering;

const IN_TIME: WallMs = WallMs(0);

fn window(serials: Range<u64>) -> Window<()> {
    Window::open((), 1, serials, WallMs(1_000))
}

#[test]
fn a_window_gives_each_serial_once_and_then_nothing() {
    let w = window(10..20);
    assert_eq!(w.take(4, IN_TIME), Take::All { start: 10, half_used: false });
    assert_eq!(w.take(1, IN_TIME), Take::All { start: 14, half_used: true });
    assert_eq!(w.take(8, IN_TIME), Take::Some(15..20), "the one that straddles the end owns up to it");
    assert_eq!(w.take(1, IN_TIME), Take::None);
    assert_eq!(w.close(), 20..20, "what the last one took beyond the end is not given back");
}

#[test]
fn one_by_one_is_the_same_as_any_other_number() {
    for (start, end) in [(0, 1), (10, 12), (10, 20), (7, 18)] {
        let (one, any) = (window(start..end), window(start..end));
        for _ in start..=end {
            let taken = match any.take(1, IN_TIME) {
                Take::All { start, half_used } => Some(One { serial: start, half_used }),
                _ => None,
            };
            assert_eq!(one.take_one(IN_TIME), taken);
        }
        assert_eq!(one.close(), any.close());
    }
    let w = window(0..10);
    assert_eq!(w.take_one(WallMs(1_000)), None);
    w.close();
    assert_eq!((w.take_one(IN_TIME), w.is_closed()), (None, true));
}

#[test]
fn its_time_ends_it() {
    let w = window(0..10);
    assert_eq!(w.take(1, WallMs(1_000)), Take::None);
    assert_eq!(w.take(1, WallMs(999)), Take::All { start: 0, half_used: false });
}

#[test]
fn a_closed_window_gives_back_the_rest_exactly_and_nothing_to_anyone() {
    let w = window(10..20);
    assert_eq!(w.take(3, IN_TIME), Take::All { start: 10, half_used: false });
    assert_eq!(w.close(), 13..20);
    assert_eq!(w.take(1, IN_TIME), Take::Closed);
    assert!(w.close().is_empty(), "the rest is given back once");
    assert_eq!((w.left(), w.is_closed()), (0, true));
}

#[test]
fn it_says_how_many_it_had_has_given_and_has() {
    let w = window(10..20);
    assert_eq!((w.len(), w.is_empty(), w.taken(), w.left(), w.valid_until()), (10, false, 0, 10, WallMs(1_000)));
    w.take(3, IN_TIME);
    assert_eq!((w.len(), w.taken(), w.left()), (10, 3, 7));
    w.take(9, IN_TIME);
    assert_eq!((w.taken(), w.left()), (10, 0), "no more than there were, though more was added");
    w.close();
    assert_eq!((w.len(), w.taken(), w.left()), (10, 0, 0), "whoever closed it knows how many were taken");
    let none = Window::closed(());
    assert_eq!((none.len(), none.is_empty(), none.taken(), none.left(), none.is_closed()), (0, true, 0, 0, true));
    let other = w.with_serials(30..35);
    assert_eq!((other.bucket, other.len(), other.valid_until()), (1, 5, WallMs(1_000)));
    assert_eq!(other.take(5, IN_TIME), Take::All { start: 30, half_used: true });
}

#[test]
fn late_and_huge_additions_do_not_overflow() {
    let w = window(0..1);
    w.close();
    for _ in 0..1_000 {
        // As a thread does that had looked before the window was closed.
        w.next.fetch_add(u64::from(u32::MAX), Ordering::Relaxed);
        assert_eq!(w.take(u32::MAX, IN_TIME), Take::Closed);
    }
    let far = Window::open((), 1, u64::MAX - 5..u64::MAX, WallMs(1_000));
    assert_eq!(far.take(3, IN_TIME), Take::None, "serials that no layout has are not given");
}

#[test]
fn half_is_noticed_once_however_it_is_crossed() {
    for n in 1..=10 {
        let w = window(0..100);
        let noticed = (0..100 / n).filter(|_| matches!(w.take(n, IN_TIME), Take::All { half_used: true, .. }));
        assert_eq!(noticed.count(), 1, "in steps of {n}");
    }
}

/// Threads mint from whatever window is there while one closes it and opens the rest again, over and over.
#[test]
fn threads_never_share_a_serial_and_none_is_lost() {
    const SERIALS: u64 = 200_000;
    let current = arc_swap::ArcSwap::from_pointee(window(0..SERIALS));
    let mint = &|n: u32| {
        let mut mine = Vec::new();
        loop {
            match current.load().take(n, IN_TIME) {
                Take::All { start, .. } => mine.extend(start..start + u64::from(n)),
                Take::Some(rest) => mine.extend(rest),
                Take::None => return mine,
                Take::Closed => std::thread::yield_now(),
            }
        }
    };
    let given: Vec<u64> = std::thread::scope(|scope| {
        let threads = [1, 2, 7, 64].map(|n| scope.spawn(move || mint(n)));
        loop {
            let rest = current.load().close();
            let done = rest.is_empty();
            current.store(std::sync::Arc::new(window(rest)));
            if done {
                break;
            }
            std::thread::yield_now();
        }
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let (set, count) = (given.iter().collect::<BTreeSet<_>>(), given.len() as u64);
    assert_eq!((set.len() as u64, count), (SERIALS, SERIALS));
}
