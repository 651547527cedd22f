//! Each mechanism of the protocol is left out once, and a simulation must find what goes wrong then. `scripts/mutants.sh`
//! also tries those that are listed as redundant or found by a model only, and the models' twins.

use models::sim::gate::{Expected, expected, judge};
use models::sim::mutation::Mutation;

/// Seeds for each mechanism at most; a handful is enough for most.
const SEEDS: u64 = 1_500;
/// Days of faults in each.
const DAYS: i64 = 60;
/// The least number of mechanisms that a seed finds missing.
const CAUGHT_MIN: usize = 30;

#[test]
fn no_mechanism_is_left_out_unnoticed() {
    let needed = |mutation: &&Mutation| matches!(expected(**mutation), Expected::Caught | Expected::CaughtIn(_));
    let judged: Vec<(bool, String)> =
        Mutation::ALL.iter().filter(needed).map(|mutation| judge(*mutation, None, SEEDS, DAYS, 2)).collect();
    for (_, line) in &judged {
        println!("{line}");
    }
    let missed: Vec<&String> = judged.iter().filter(|(fine, _)| !fine).map(|(_, line)| line).collect();
    assert!(missed.is_empty(), "{missed:#?}");
    assert!(judged.len() >= CAUGHT_MIN, "only {} mechanisms were tried", judged.len());
}
