//! Whole clusters in virtual time, for as many seeds as there is time for here; `scripts/simulate.sh` runs more.

use std::time::{Duration, Instant};
use tests::sim::mutation::Mutations;
use tests::sim::{Outcome, run};

/// Seeds at most.
const SEEDS_MAX: u64 = 500;
/// After so long no further seed is begun.
const PATIENCE: Duration = Duration::from_secs(50);
/// Seeds at least, however slow the machine.
const SEEDS_MIN: u64 = 20;
/// Days of faults in each.
const DAYS: i64 = 60;
/// Faults a day that there must be on the mean.
const FAULTS_MIN: u64 = 20;

fn replay(seed: u64) -> String {
    format!("scripts/simulate.sh --seeds 1 --from {seed} --days {DAYS} --trace")
}

#[test]
fn no_id_is_given_twice_and_service_returns() {
    let began = Instant::now();
    let (mut seeds, mut ids, mut faults, mut reuses) = (0, 0, 0, 0);
    while seeds < SEEDS_MIN || (seeds < SEEDS_MAX && began.elapsed() < PATIENCE) {
        seeds += 1;
        let outcome = run(seeds, DAYS, Mutations::NONE, false);
        assert!(outcome.fine(), "seed {seeds}: {:#?}\nreplay it: {}", outcome.told, replay(seeds));
        ids += outcome.ids;
        faults += outcome.fault_count();
        reuses += outcome.reuses;
    }
    let days = seeds * DAYS as u64;
    assert!(ids > 0 && reuses > seeds, "{reuses} values were reused in {seeds} seeds: nothing was tried");
    assert!(faults >= days * FAULTS_MIN, "{faults} faults in {days} days are too few");
    println!("seeds={seeds} days={days} faults={faults} ids={ids} duplicates=0 stuck=0");
}

#[test]
fn a_seed_decides_everything() {
    let history = |seed| -> Outcome { run(seed, 10, Mutations::NONE, false) };
    let first = history(7);
    let again = history(7);
    assert_eq!((first.hash, first.events, first.ids), (again.hash, again.events, again.ids));
    assert_ne!(first.hash, history(8).hash);
}
