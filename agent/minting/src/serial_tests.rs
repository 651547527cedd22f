use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const HOURLY: Rules = Rules { capacity: 1 << 31, buckets_per_day: 24, everyday_reset: false };
const T0: BootMs = BootMs(0);

fn marks(bucket: u32, base: u64, mark: u64, step: u32) -> Marks {
    Marks { bucket, base, mark, step }
}

/// Does what a shell does: plan, write, commit, take.
fn mint(serial: &mut Serial, bucket: u32, n: u32, now: BootMs) -> Option<Range<u64>> {
    match serial.plan(bucket, n, now) {
        Plan::Exhausted => return None,
        Plan::Write(marks) => serial.commit(marks, now),
        Plan::Ready => {}
    }
    let range = serial.take(n);
    assert_eq!(range.end - range.start, u64::from(n), "a plan that was carried out suffices");
    Some(range)
}

#[test]
fn a_new_bucket_and_its_base_are_written_before_its_first_id() {
    let serial = Serial::resume(HOURLY, marks(0, 0, 0, 10_000));
    assert_eq!(serial.plan(5, 1, T0), Plan::Write(marks(5, 0, 10_000, 10_000)));
    let used = Serial::resume(HOURLY, marks(5, 100, 10_100, 10_000));
    assert_eq!(used.plan(5, 1, T0), Plan::Write(marks(5, 100, 20_100, 10_000)), "all below the mark may be in use");
    assert_eq!(used.plan(6, 1, T0), Plan::Write(marks(6, 10_100, 20_100, 10_000)), "the counter runs on");
}

#[test]
fn a_batch_larger_than_the_step_reserves_its_size() {
    let serial = Serial::resume(HOURLY, marks(5, 0, 0, 10_000));
    assert_eq!(serial.plan(5, 100_000, T0), Plan::Write(marks(5, 0, 100_000, 10_000)));
}

#[test]
fn a_bucket_ends_at_its_capacity() {
    let rules = Rules { capacity: 1_000, buckets_per_day: 1, everyday_reset: false };
    let mut serial = Serial::resume(rules, marks(5, 300, 800, 100));
    assert_eq!((serial.capacity_left(5), serial.capacity_left(6)), (500, 1_000), "the next one has all of it");
    assert_eq!(serial.plan(5, 501, T0), Plan::Exhausted);
    assert_eq!(mint(&mut serial, 5, 500, T0), Some(800..1_300));
    assert_eq!((serial.plan(5, 1, T0), serial.plan_reserve(T0)), (Plan::Exhausted, None));
    assert_eq!(mint(&mut serial, 6, 1_000, T0), Some(1_300..2_300), "the next one has all of it again");
    assert_eq!(serial.plan(7, 1_001, T0), Plan::Exhausted, "more than a whole bucket");
}

#[test]
fn serials_near_the_end_of_the_counter_are_refused_not_wrapped() {
    let serial = Serial::resume(HOURLY, marks(5, u64::MAX - 5, u64::MAX - 2, 10_000));
    assert_eq!(serial.plan(5, 3, T0), Plan::Exhausted);
    assert_eq!(serial.plan(6, 3, T0), Plan::Exhausted);
}

#[test]
fn everyday_reset_starts_at_0_only_when_the_day_grows() {
    let daily = Rules { capacity: 1_000_000, buckets_per_day: 1, everyday_reset: true };
    let mut serial = Serial::resume(daily, marks(10, 0, 0, 1_000));
    assert_eq!(mint(&mut serial, 10, 7, T0), Some(0..7));
    assert_eq!(mint(&mut serial, 11, 5, T0), Some(0..5), "midnight");
    // The clock steps back over midnight: the gates keep the bucket, so the serial goes on.
    let kept = serial.bucket().max(10);
    assert_eq!(mint(&mut serial, kept, 5, T0), Some(5..10));
    let hourly = Rules { everyday_reset: true, ..HOURLY };
    let mut serial = Serial::resume(hourly, marks(23, 0, 0, 1_000));
    assert_eq!(mint(&mut serial, 23, 7, T0), Some(0..7));
    assert_eq!(mint(&mut serial, 24, 7, T0), Some(0..7), "the first hour of a day");
    assert_eq!(mint(&mut serial, 25, 7, T0), Some(7..14), "an hour later the counter runs on");
}

#[test]
fn steps_follow_the_load() {
    let rules = HOURLY;
    let mut serial = Serial::resume(rules, marks(5, 0, 0, 10_000));
    let mut reserve = |at_s: i64| {
        let now = BootMs(at_s * 1_000);
        let marks = serial.plan_reserve(now).unwrap();
        serial.commit(marks, now);
        marks.step
    };
    assert_eq!([reserve(0), reserve(9), reserve(18), reserve(28)], [10_000, 20_000, 40_000, 40_000]);
    assert_eq!([reserve(88), reserve(149), reserve(210)], [40_000, 20_000, 10_000]);
    let fast: Vec<_> = (0..30).map(|_| reserve(211)).collect();
    assert_eq!(fast.last(), Some(&STEP_MAX));
    let slow: Vec<_> = (1..30).map(|i| reserve(211 + i * 100)).collect();
    assert_eq!(slow.last(), Some(&Namespace::STEP_MIN));
}

#[test]
fn a_step_is_a_small_part_of_a_bucket() {
    for (capacity, step) in [(1, 1), (10, 1), (6_400, 100), (100_000_000, 10_000)] {
        let rules = Rules { capacity, buckets_per_day: 1, everyday_reset: false };
        let serial = Serial::resume(rules, marks(5, 0, 0, 10_000));
        assert_eq!(serial.plan_reserve(T0).unwrap().step, step);
    }
}

#[test]
fn a_clean_stop_leaves_no_gap_and_a_crash_leaves_one() {
    let mut serial = Serial::resume(HOURLY, marks(5, 0, 0, 10_000));
    mint(&mut serial, 5, 3, T0);
    let crashed = Serial::resume(HOURLY, serial.marks());
    assert_eq!(crashed.next(), 10_000);
    let stopped = Serial::resume(HOURLY, serial.marks_at_rest());
    assert_eq!(stopped.next(), 3);
}

#[test]
fn only_the_last_serials_can_be_put_back() {
    let mut serial = Serial::resume(HOURLY, marks(5, 0, 0, 10_000));
    let first = mint(&mut serial, 5, 3, T0).unwrap();
    let second = mint(&mut serial, 5, 3, T0).unwrap();
    assert!(!serial.put_back(5, first), "there are others above them");
    assert!(!serial.put_back(4, second.clone()), "of another bucket");
    assert!(serial.put_back(5, second.clone()));
    assert_eq!(serial.take(1), second.start..second.start + 1);
}

/// One thing that may happen to a generator.
#[derive(Clone, Debug)]
enum Step {
    /// A request for n.
    Mint(u32),
    /// The window is opened with all that is there, and so many are used of it.
    Window(u32),
    /// A reserve in the background.
    Reserve,
    /// A write that fails leaves everything as it was.
    FailedWrite(u32),
    /// Time passes, or the clock is set back: the bucket may only follow forward.
    Clock(i64),
    /// A crash and a start.
    Crash,
    /// A clean stop and a start.
    Stop,
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u32..500).prop_map(Step::Mint),
        4 => (0u32..3_000).prop_map(Step::Window),
        1 => Just(Step::Reserve),
        1 => (1u32..500).prop_map(Step::FailedWrite),
        2 => (-3i64..4).prop_map(Step::Clock),
        1 => Just(Step::Crash),
        1 => Just(Step::Stop),
    ]
}

proptest! {
    /// The oracle is the set of every (bucket, serial as written): none may come twice, whatever happens in whatever
    /// order.
    #[test]
    fn no_serial_is_given_twice_in_a_bucket(
        script in proptest::collection::vec(steps(), 1..60), everyday_reset: bool, hourly: bool, capacity in 1u64..5_000
    ) {
        let rules = Rules { capacity, buckets_per_day: if hourly { 24 } else { 1 }, everyday_reset };
        let mut serial = Serial::resume(rules, marks(0, 0, 0, 100));
        let mut seen = BTreeSet::new();
        let (mut clock, mut now) = (50i64, 0);
        for step in script {
            now += 1_000;
            let bucket = serial.bucket().max(u32::try_from(clock).unwrap());
            let mut given = 0..0;
            match step {
                Step::Mint(n) => given = mint(&mut serial, bucket, n, BootMs(now)).unwrap_or_default(),
                Step::Window(used) => {
                    if bucket == serial.bucket() {
                        let lent = serial.lend();
                        if let Some(marks) = serial.plan_reserve(BootMs(now)) {
                            serial.commit(marks, BootMs(now));
                        }
                        let middle = (lent.start + u64::from(used)).min(lent.end);
                        given = lent.start..middle;
                        prop_assert!(serial.put_back(bucket, middle..lent.end));
                    }
                }
                Step::Reserve => {
                    if let Some(marks) = serial.plan_reserve(BootMs(now)) {
                        serial.commit(marks, BootMs(now));
                    }
                }
                Step::FailedWrite(n) => { serial.plan(bucket, n, BootMs(now)); }
                Step::Clock(by) => clock = (clock + by).max(0),
                Step::Crash => serial = Serial::resume(rules, serial.marks()),
                Step::Stop => serial = Serial::resume(rules, serial.marks_at_rest()),
            }
            let written = serial.bucket();
            for n in given {
                prop_assert!(n < serial.marks().mark, "{n} is not durable");
                prop_assert!(seen.insert((written, n % capacity)), "bucket {written}, serial {n} came twice");
            }
        }
    }
}
