//! Numbers that the environment gives to tests: how long they go on, and the seed that repeats one.

use std::str::FromStr;

/// The number in a variable of the environment, if it is there.
///
/// # Panics
/// If it is there and no number.
#[expect(clippy::panic, reason = "a test that was asked for something else than it would do does nothing")]
pub fn number<T: FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// The same, or else that one.
///
/// # Panics
/// As [`number`].
pub fn number_or<T: FromStr>(name: &str, default: T) -> T {
    number(name).unwrap_or(default)
}

/// `UNIQ_SEED`, or a random seed; printed, so that a run can be repeated.
///
/// # Panics
/// As [`number`].
#[expect(clippy::print_stdout, reason = "what a test prints is its report")]
pub fn seed() -> u64 {
    let seed = number("UNIQ_SEED").unwrap_or_else(|| rand::random::<u32>().into());
    println!("UNIQ_SEED={seed}");
    seed
}
