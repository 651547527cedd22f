//! Sections of sequences and segments of axes between real ledgers, with allocators that do what they have to: messages and answers come late, doubled, in any
//! order or never, masters are killed, put back and replaced while they live, agents are stopped, resumed and started fresh, clocks run at
//! different rates. No place of an axis is granted twice, no number of a key given twice, none above a bound that was durable before, and each is greater than every answer
//! before its question. Beside it, what goes wrong when a mechanism is left out.
//!
//! `UNIQ_SECTIONS_SEEDS=100000` tries that many runs of each kind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "sections/allocator.rs"]
mod allocator;
#[path = "sections/known.rs"]
mod known;
#[path = "sections/world.rs"]
mod world;

use world::{Bent, Plan, World};

const SEEDS: u64 = 400;
const HUNTED: u64 = 40_000;
const STEPS: u32 = 2_500;

/// The number of numbers that were given, or what went wrong first.
fn run(seed: u64, plan: Plan) -> Result<u64, String> {
    let mut world = World::new(seed, plan);
    for _ in 0..STEPS {
        world.step().map_err(|why| format!("seed {seed}: {why}"))?;
    }
    Ok(world.given())
}

fn holds(plan: Plan) {
    let seeds = std::env::var("UNIQ_SECTIONS_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    let given: u64 = (0..seeds).map(|seed| run(seed, plan).unwrap()).sum();
    assert!(given > 10 * seeds, "only {given} numbers in {seeds} runs: nothing was tried");
}

/// The first failure of the runs from the seed `first` on, which is known to find one.
fn broken(first: u64, plan: Plan) -> String {
    let found = (first..first + HUNTED).find_map(|seed| run(seed, plan).err());
    found.unwrap_or_else(|| panic!("nothing goes wrong with {:?}", plan.bent))
}

fn breaks(first: u64, plan: Plan, what: &str) {
    let found = broken(first, plan);
    assert!(found.contains(what), "{found}");
}

#[test]
fn numbers_come_once_and_in_order() {
    holds(Plan::default());
}

#[test]
fn disks_that_are_put_back_bring_no_number_again() {
    holds(Plan { put_back: true, ..Plan::default() });
}

#[test]
fn a_replaced_master_that_lives_brings_no_number_again() {
    // Whoever reaches it alone may get numbers out of order, until it hears that it is over.
    holds(Plan { replaced: true, ordered: false, ..Plan::default() });
}

#[test]
fn a_replaced_master_that_is_dead_brings_nothing_out_of_order() {
    holds(Plan { replaced: true, dead: true, ..Plan::default() });
}

#[test]
fn disks_put_back_while_masters_are_replaced_bring_no_number_again() {
    holds(Plan { replaced: true, put_back: true, ordered: false, ..Plan::default() });
}

#[test]
fn numbers_come_once_whatever_clocks_do() {
    holds(Plan { any_clock: true, ordered: false, ..Plan::default() });
    holds(Plan { any_clock: true, ordered: false, put_back: true, replaced: true, ..Plan::default() });
}

#[test]
fn without_the_wait_of_the_next_owner_the_order_is_lost() {
    breaks(102, Plan { bent: Some(Bent::NoWait), ..Plan::default() }, "order");
}

#[test]
fn without_the_larger_bound_in_confirmations_a_number_comes_twice() {
    breaks(
        10_077,
        Plan { bent: Some(Bent::ConfirmWithoutBound), any_clock: true, ordered: false, ..Plan::default() },
        "twice",
    );
}

#[test]
fn without_durable_raises_a_number_comes_twice_or_above_every_bound() {
    let found = broken(0, Plan { bent: Some(Bent::RaiseNotDurable), ordered: false, ..Plan::default() });
    assert!(found.contains("twice") || found.contains("above every bound"), "{found}");
}

#[test]
fn without_durable_proposals_the_order_is_lost() {
    let found = broken(2_064, Plan { bent: Some(Bent::PrepNotDurable), ..Plan::default() });
    assert!(found.contains("order") || found.contains("twice"), "{found}");
}

#[test]
fn where_sent_counts_as_held_a_lost_master_has_raised_too_far() {
    let plan = Plan { replaced: true, any_clock: true, ordered: false, ..Plan::default() };
    breaks(91, Plan { bent: Some(Bent::SentCountsAsHeld), ..plan }, "twice");
}

#[test]
fn without_the_allowance_at_a_loss_a_number_comes_twice() {
    let plan = Plan { replaced: true, any_clock: true, ordered: false, ..Plan::default() };
    breaks(64, Plan { bent: Some(Bent::NothingAddedAtALoss), ..plan }, "twice");
}

#[test]
fn where_a_disk_that_is_put_back_is_believed_a_number_comes_twice() {
    let plan = Plan { put_back: true, ordered: false, ..Plan::default() };
    breaks(3_314, Plan { bent: Some(Bent::PutBackIsBelieved), ..plan }, "twice");
}

#[test]
fn without_the_allowance_after_a_meeting_a_number_comes_twice() {
    let plan = Plan { put_back: true, any_clock: true, ordered: false, ..Plan::default() };
    breaks(134, Plan { bent: Some(Bent::NothingAddedAtAMeeting), ..plan }, "twice");
}

/// Segments with all that befalls masters: every place of the axis is granted once.
fn grants(plan: Plan) {
    let seeds = std::env::var("UNIQ_SECTIONS_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    let granted: u64 = (0..seeds)
        .map(|seed| {
            let mut world = World::new(seed, Plan { segments: true, ordered: false, ..plan });
            (0..STEPS).try_for_each(|_| world.step()).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
            world.granted()
        })
        .sum();
    assert!(granted > 100 * seeds, "only {granted} places in {seeds} runs: nothing was tried");
}

#[test]
fn every_place_of_an_axis_is_granted_once_whatever_befalls_the_masters() {
    grants(Plan::default());
    grants(Plan { put_back: true, ..Plan::default() });
    grants(Plan { replaced: true, ..Plan::default() });
    grants(Plan { replaced: true, dead: true, ..Plan::default() });
    grants(Plan { replaced: true, put_back: true, ..Plan::default() });
}

const SEGMENTS: Plan = Plan {
    put_back: true,
    replaced: true,
    dead: false,
    any_clock: true,
    ordered: false,
    segments: true,
    befalls: 3,
    bent: None,
};

#[test]
fn without_a_durable_cursor_places_are_granted_twice() {
    breaks(0, Plan { bent: Some(Bent::CursorNotDurable), ..SEGMENTS }, "granted twice");
}

#[test]
fn where_a_disk_that_is_put_back_goes_on_with_its_run_places_are_granted_twice() {
    let plan = Plan { replaced: false, ..SEGMENTS };
    breaks(0, Plan { bent: Some(Bent::PutBackIsBelieved), ..plan }, "twice");
}
