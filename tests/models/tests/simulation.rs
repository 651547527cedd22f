//! Whole clusters in virtual time: 500 seeds; `scripts/simulate.sh` runs more.

use models::sim::{Outcome, Setup, run};
use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds.
const SEEDS: u64 = 500;
/// Days of faults in each.
const DAYS: i64 = 60;
/// Faults a day that there must be on the mean.
const FAULTS_MIN: u64 = 20;

fn replay(seed: u64) -> String {
    format!("scripts/simulate.sh --seeds 1 --from {seed} --days {DAYS} --trace")
}

/// Takes the next seed until there is none left or one has failed.
fn work(next: &AtomicU64) -> Vec<(u64, Outcome)> {
    let mut done = Vec::new();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed > SEEDS {
            return done;
        }
        let outcome = run(&Setup::plain(seed, DAYS));
        if !outcome.fine() {
            next.store(SEEDS + 1, Ordering::Relaxed);
        }
        done.push((seed, outcome));
    }
}

#[test]
fn no_id_is_given_twice_and_service_returns() {
    let next = AtomicU64::new(1);
    let done: Vec<(u64, Outcome)> = std::thread::scope(|scope| {
        let other = scope.spawn(|| work(&next));
        let mut done = work(&next);
        done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        done
    });
    for (seed, outcome) in &done {
        assert!(outcome.fine(), "seed {seed}: {:#?}\nreplay it: {}", outcome.told, replay(*seed));
    }
    let sum = |count: fn(&Outcome) -> u64| done.iter().map(|(_, outcome)| count(outcome)).sum::<u64>();
    let (ids, faults, reuses) = (sum(|o| o.ids), sum(Outcome::fault_count), sum(|o| o.reuses));
    let days = SEEDS * DAYS as u64;
    assert!(ids > 0 && reuses > SEEDS, "{reuses} values were reused in {SEEDS} seeds: nothing was tried");
    assert!(faults >= days * FAULTS_MIN, "{faults} faults in {days} days are too few");
    for kind in ["numbers in segments", "numbers of keys"] {
        let given: u64 = done.iter().filter_map(|(_, outcome)| outcome.given.get(kind)).sum();
        assert!(given > 100 * SEEDS, "only {given} {kind} in {SEEDS} seeds: nothing was tried");
    }
    println!("seeds={SEEDS} days={days} faults={faults} ids={ids} duplicates=0 stuck=0 disorder=0");
}

#[test]
fn a_seed_decides_everything() {
    let history = |seed| -> Outcome { run(&Setup::plain(seed, 10)) };
    let first = history(7);
    let again = history(7);
    assert_eq!((first.hash, first.events, first.ids), (again.hash, again.events, again.ids));
    assert_ne!(first.hash, history(8).hash);
}
