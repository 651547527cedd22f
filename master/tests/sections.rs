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

use world::{Bent, Course, World};

const SEEDS: u64 = 400;
const HUNTED: u64 = 40_000;
const STEPS: u32 = 2_500;

/// The number of numbers that were given, or what went wrong first.
fn run(seed: u64, course: Course) -> Result<u64, String> {
    let mut world = World::new(seed, course);
    for _ in 0..STEPS {
        world.step().map_err(|why| format!("seed {seed}: {why}"))?;
    }
    Ok(world.given())
}

fn holds(course: Course) {
    let seeds = std::env::var("UNIQ_SECTIONS_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    let given: u64 = (0..seeds).map(|seed| run(seed, course).unwrap()).sum();
    assert!(given > 10 * seeds, "only {given} numbers in {seeds} runs: nothing was tried");
}

/// Something goes wrong in one of the runs, and it is this.
fn broken(course: Course) -> String {
    let found = (0..HUNTED).find_map(|seed| run(seed, course).err());
    found.unwrap_or_else(|| panic!("nothing goes wrong with {:?}", course.bent))
}

fn breaks(course: Course, what: &str) {
    let found = broken(course);
    assert!(found.contains(what), "{found}");
}

#[test]
fn numbers_come_once_and_in_order() {
    holds(Course::default());
}

#[test]
fn disks_that_are_put_back_bring_no_number_again() {
    holds(Course { put_back: true, ..Course::default() });
}

#[test]
fn a_replaced_master_that_lives_brings_no_number_again() {
    // Whoever reaches it alone may get numbers out of order, until it hears that it is over.
    holds(Course { replaced: true, ordered: false, ..Course::default() });
}

#[test]
fn a_replaced_master_that_is_dead_brings_nothing_out_of_order() {
    holds(Course { replaced: true, dead: true, ..Course::default() });
}

#[test]
fn disks_put_back_while_masters_are_replaced_bring_no_number_again() {
    holds(Course { replaced: true, put_back: true, ordered: false, ..Course::default() });
}

#[test]
fn numbers_come_once_whatever_clocks_do() {
    holds(Course { any_clock: true, ordered: false, ..Course::default() });
    holds(Course { any_clock: true, ordered: false, put_back: true, replaced: true, ..Course::default() });
}

#[test]
fn without_the_wait_of_the_next_owner_the_order_is_lost() {
    breaks(Course { bent: Some(Bent::NoWait), ..Course::default() }, "order");
}

#[test]
fn without_the_larger_bound_in_confirmations_a_number_comes_twice() {
    breaks(
        Course { bent: Some(Bent::ConfirmWithoutBound), any_clock: true, ordered: false, ..Course::default() },
        "twice",
    );
}

#[test]
fn without_durable_raises_a_number_comes_twice_or_above_every_bound() {
    let found = broken(Course { bent: Some(Bent::RaiseNotDurable), ordered: false, ..Course::default() });
    assert!(found.contains("twice") || found.contains("above every bound"), "{found}");
}

#[test]
fn without_durable_proposals_the_order_is_lost() {
    let found = broken(Course { bent: Some(Bent::PrepNotDurable), ..Course::default() });
    assert!(found.contains("order") || found.contains("twice"), "{found}");
}

#[test]
fn where_sent_counts_as_held_a_lost_master_has_raised_too_far() {
    let course = Course { replaced: true, any_clock: true, ordered: false, ..Course::default() };
    breaks(Course { bent: Some(Bent::SentCountsAsHeld), ..course }, "twice");
}

#[test]
fn without_the_allowance_at_a_loss_a_number_comes_twice() {
    let course = Course { replaced: true, any_clock: true, ordered: false, ..Course::default() };
    breaks(Course { bent: Some(Bent::NothingAddedAtALoss), ..course }, "twice");
}

#[test]
fn where_a_disk_that_is_put_back_is_believed_a_number_comes_twice() {
    let course = Course { put_back: true, ordered: false, ..Course::default() };
    breaks(Course { bent: Some(Bent::PutBackIsBelieved), ..course }, "twice");
}

#[test]
fn without_the_allowance_after_a_meeting_a_number_comes_twice() {
    let course = Course { put_back: true, any_clock: true, ordered: false, ..Course::default() };
    breaks(Course { bent: Some(Bent::NothingAddedAtAMeeting), ..course }, "twice");
}

/// Segments with all that befalls masters: every place of the axis is granted once.
fn grants(course: Course) {
    let seeds = std::env::var("UNIQ_SECTIONS_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    let granted: u64 = (0..seeds)
        .map(|seed| {
            let mut world = World::new(seed, Course { segments: true, ordered: false, ..course });
            (0..STEPS).try_for_each(|_| world.step()).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
            world.granted()
        })
        .sum();
    assert!(granted > 100 * seeds, "only {granted} places in {seeds} runs: nothing was tried");
}

#[test]
fn every_place_of_an_axis_is_granted_once_whatever_befalls_the_masters() {
    grants(Course::default());
    grants(Course { put_back: true, ..Course::default() });
    grants(Course { replaced: true, ..Course::default() });
    grants(Course { replaced: true, dead: true, ..Course::default() });
    grants(Course { replaced: true, put_back: true, ..Course::default() });
}

const SEGMENTS: Course = Course {
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
    breaks(Course { bent: Some(Bent::CursorNotDurable), ..SEGMENTS }, "granted twice");
}

#[test]
fn where_a_disk_that_is_put_back_goes_on_with_its_run_places_are_granted_twice() {
    let course = Course { replaced: false, ..SEGMENTS };
    breaks(Course { bent: Some(Bent::PutBackIsBelieved), ..course }, "twice");
}
