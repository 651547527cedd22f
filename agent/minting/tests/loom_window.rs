//! Every interleaving of the window's atomics: the same source as in the agent, compiled against loom's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, dead_code, unreachable_pub)]

/// A stand-in for the agent's own `sync`, for the model.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
}
#[path = "../src/window.rs"]
mod window;

use ids::time::WallMs;
use loom::sync::Arc;
use loom::thread;
use window::{Ends, Take, Window};

const IN_TIME: WallMs = WallMs(0);

fn window(end: u64) -> Arc<Window<()>> {
    Arc::new(Window::open((), 1, 0..end, WallMs(1)))
}

fn serials(take: Take, n: u64) -> Vec<u64> {
    match take {
        Take::All { start, .. } => (start..start + n).collect(),
        Take::Some(rest) => rest.collect(),
        Take::None | Take::Closed => Vec::new(),
    }
}

/// All of `0..end`, each once.
fn assert_each_once(mut all: Vec<u64>, end: u64) {
    all.sort_unstable();
    assert_eq!(all, (0..end).collect::<Vec<_>>());
}

#[test]
fn two_takers_and_a_close_share_the_serials_without_loss() {
    loom::model(|| {
        let window = window(2);
        let takers = [2, 1].map(|n| {
            let window = Arc::clone(&window);
            thread::spawn(move || serials(window.take(n, IN_TIME), n.into()))
        });
        let mut all: Vec<u64> = window.close().collect();
        assert!(window.close().next().is_none(), "the rest is given back once");
        for taker in takers {
            all.extend(taker.join().unwrap());
        }
        assert_each_once(all, 2);
    });
}

#[test]
fn who_takes_one_by_one_past_the_end_loses_nothing_to_a_close() {
    loom::model(|| {
        let window = window(2);
        let one = |window: &Window<()>| window.take_one(IN_TIME).map(|one| one.serial);
        let other = {
            let window = Arc::clone(&window);
            thread::spawn(move || [one(&window), one(&window)])
        };
        let mut all: Vec<u64> = one(&window).into_iter().collect();
        all.extend(window.close());
        assert!(window.is_closed() && one(&window).is_none() && window.close().next().is_none());
        all.extend(other.join().unwrap().into_iter().flatten());
        assert_each_once(all, 2);
    });
}

#[test]
fn a_taker_that_is_late_gets_nothing_of_what_was_given_back() {
    loom::model(|| {
        let first = window(4);
        let late = {
            let first = Arc::clone(&first);
            thread::spawn(move || serials(first.take(3, IN_TIME), 3))
        };
        // Closed, and what was left opened again at once, as a reserve does.
        let rest = first.close();
        let second = Window::open((), 1, rest.clone(), WallMs(1));
        let mut all = serials(second.take(4, IN_TIME), 4);
        let len = rest.end - rest.start;
        assert_eq!(all.len() as u64, len.min(4));
        all.extend(late.join().unwrap());
        assert_each_once(all, 4);
    });
}

#[test]
fn half_is_noticed_once_by_one_of_them() {
    loom::model(|| {
        let window = window(4);
        let half = |take| u64::from(matches!(take, Take::All { half_used: true, .. }));
        let other = {
            let window = Arc::clone(&window);
            thread::spawn(move || half(window.take(1, IN_TIME)) + half(window.take(1, IN_TIME)))
        };
        let mine = half(window.take(1, IN_TIME)) + half(window.take(1, IN_TIME));
        assert_eq!(mine + other.join().unwrap(), 1);
    });
}

/// A thread cuts a block from a window that is ended for good meanwhile, in that order: it gets nothing that was given back, and once the
/// window has ended the block has, too.
fn cut_and_end(end: impl Fn(&Window<()>, &Ends) -> std::ops::Range<u64> + Sync + Send + 'static) {
    loom::model(move || {
        let (window, ends) = (window(4), Ends::default());
        let cutter = {
            let (window, ends) = (Arc::clone(&window), ends.clone());
            thread::spawn(move || {
                let so_far = ends.so_far();
                let block = serials(window.take(2, IN_TIME), 2);
                let given: Vec<u64> = block.iter().copied().filter(|_| ends.are_still(so_far)).collect();
                (so_far, block, given)
            })
        };
        let rest: Vec<u64> = end(&window, &ends).collect();
        let (so_far, block, given) = cutter.join().unwrap();
        assert!(given.iter().all(|serial| !rest.contains(serial)), "given {given:?}, taken back {rest:?}");
        assert!(block.is_empty() || !ends.are_still(so_far), "{block:?} outlives the window");
    });
}

#[test]
fn no_block_outlives_a_window_that_was_ended() {
    cut_and_end(|window, ends| {
        let rest = window.close();
        ends.end();
        rest
    });
}

/// The twin: a window that is counted as ended before it is closed leaves a block that was cut in between.
#[test]
#[should_panic(expected = "outlives the window")]
fn a_window_that_is_counted_as_ended_too_early_is_found() {
    cut_and_end(|window, ends| {
        ends.end();
        window.close()
    });
}

/// The twin: taking back what is left by reading and then closing loses or doubles serials, and the model finds it.
#[test]
#[should_panic]
fn a_take_back_in_two_steps_is_found() {
    loom::model(|| {
        let window = window(4);
        let taker = {
            let window = Arc::clone(&window);
            thread::spawn(move || serials(window.take(2, IN_TIME), 2))
        };
        let rest = 4 - window.left()..4;
        window.close();
        let mut all: Vec<u64> = rest.collect();
        all.extend(taker.join().unwrap());
        assert_each_once(all, 4);
    });
}
