//! In-process minting beside the generators of other crates: `cargo bench -p uniq-agent --bench peers [-- --quick]`.
//!
//! The contenders take turns, many short runs each, and the median of each counts, so that a machine with other work
//! favours nobody. Times are of the processor (what a thread was on it for), except for generators that sleep: their
//! real time is shown where it is more than half again. Two threads run at once, each with its own count.
//! Everything of ours is on a real serial file with its durable mark.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]
#![allow(missing_docs)]

mod fixture;

use agent::embed::{Definition, Embedded, Namespace, Settings, Shared, UniqGenerator};
use ferroid::define_snowflake_id;
use ferroid::generator::{AtomicSnowflakeGenerator, LockSnowflakeGenerator};
use ferroid::time::MonotonicClock;
use fixture::Fixture;
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

define_snowflake_id!(Wide, u64, reserved: 0, timestamp: 41, machine_id: 1, sequence: 22);

/// Mints so many IDs on this thread.
type Mint = Box<dyn Fn(u32) + Sync>;

struct Contender {
    name: &'static str,
    /// The number of IDs that one run has: some milliseconds' worth.
    n: u32,
    mint: Mint,
    /// Nanoseconds an ID with one thread: processor, real; and with two.
    runs: [Vec<(f64, f64)>; 2],
}

fn contender(name: &'static str, n: u32, mint: impl Fn(u32) + Sync + 'static) -> Contender {
    Contender { name, n, mint: Box::new(mint), runs: [Vec::new(), Vec::new()] }
}

thread_local! {
    static COUNTER: Cell<u64> = const { Cell::new(0) };
}

fn coarse() -> i64 {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    now.tv_sec * 1_000 + now.tv_nsec / 1_000_000
}

fn processor() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec as u32)
}

/// Segments so long that refills do not count.
const SEGMENTS: &str = r#"{"kind":"segment","step":100000000,"step_max":1000000000}"#;

/// Plain numbers, which need masters.
fn segments(alone: &Embedded) -> Shared {
    let definition: Definition = serde_json::from_str(SEGMENTS).unwrap();
    alone.create_uniq_generator(Namespace::define("plain".parse().unwrap(), &definition).unwrap()).unwrap()
}

fn contenders(kits: &[Fixture; 2], alone: &Embedded) -> Vec<Contender> {
    let shared = |kit: &Fixture| Shared::new(&kit.minter, "default").unwrap();
    let (ours, for_blocks) = (shared(&kits[0]), shared(&kits[1]));
    let of = |name: &str| Shared::new(&kits[0].minter, name).unwrap();
    let (wide, batches, uuids, narrow) = (of("wide"), of("wide"), of("uuid"), of("snowflake"));
    let for_layout_blocks = of("wide");
    let (wider, numbers) = (shared(&kits[0]), segments(alone));
    let for_number_blocks = numbers.clone();
    let (plain, clocked, locked) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::new(0u64));
    let atomic = AtomicSnowflakeGenerator::<Wide, _>::new(0, MonotonicClock::<1>::default());
    let lock = LockSnowflakeGenerator::<Wide, _>::new(0, MonotonicClock::<1>::default());
    let snowflake = Mutex::new(snowflake::SnowflakeIdGenerator::new(1, 1));
    vec![
        contender("thread-local counter (floor)", 4_000_000, |n| {
            for _ in 0..n {
                COUNTER.with(|counter| counter.set(black_box(counter.get() + 1)));
            }
        }),
        contender("atomic fetch_add, shared", 500_000, move |n| {
            for _ in 0..n {
                black_box(plain.fetch_add(1, Ordering::Relaxed));
            }
        }),
        contender("fetch_add + coarse clock, shared", 500_000, move |n| {
            for _ in 0..n {
                black_box(coarse());
                black_box(clocked.fetch_add(1, Ordering::Relaxed));
            }
        }),
        contender("uniq64, shared", 500_000, move |n| {
            for _ in 0..n {
                black_box(ours.get_uniq64().unwrap());
            }
        }),
        contender("uniq64, per-thread blocks", 4_000_000, move |n| {
            let block = for_blocks.per_thread();
            for _ in 0..n {
                black_box(block.get_uniq64().unwrap());
            }
        }),
        contender("layout, 22-bit serial, shared", 3_000_000, move |n| {
            for _ in 0..n {
                black_box(wide.get_number().unwrap());
            }
        }),
        contender("layout, 22-bit serial, per-thread blocks", 1_000_000, move |n| {
            let block = for_layout_blocks.per_thread();
            for _ in 0..n {
                black_box(block.get_number().unwrap());
            }
        }),
        contender("layout, 22-bit serial, batches of 1,000", 1_000_000, move |n| {
            let mut numbers = Vec::new();
            for _ in 0..n / 1_000 {
                numbers.clear();
                batches.get_batch_number(1_000, &mut numbers).unwrap();
                black_box(&numbers);
            }
        }),
        contender("uniq96, shared", 100_000, move |n| {
            for _ in 0..n {
                black_box(wider.get_uniq96().unwrap());
            }
        }),
        contender("segment, shared", 500_000, move |n| {
            for _ in 0..n {
                black_box(numbers.get_segment().unwrap());
            }
        }),
        contender("segment, per-thread blocks", 4_000_000, move |n| {
            let block = for_number_blocks.per_thread();
            for _ in 0..n {
                black_box(block.get_segment().unwrap());
            }
        }),
        contender("layout uuid7, shared", 300_000, move |n| {
            for _ in 0..n {
                black_box(uuids.get_number().unwrap());
            }
        }),
        contender("layout snowflake, shared (4096/ms)", 20_000, move |n| {
            for _ in 0..n {
                black_box(narrow.get_number().unwrap());
            }
        }),
        contender("mutex + coarse clock", 300_000, move |n| {
            for _ in 0..n {
                let mut serial = locked.lock().unwrap();
                *serial += 1;
                black_box((*serial, coarse()));
            }
        }),
        contender("ferroid atomic, 22-bit sequence", 300_000, move |n| {
            for _ in 0..n {
                black_box(atomic.next_id(|_| std::hint::spin_loop()));
            }
        }),
        contender("ferroid lock, 22-bit sequence", 300_000, move |n| {
            for _ in 0..n {
                black_box(lock.try_next_id(|_| std::hint::spin_loop()).unwrap());
            }
        }),
        contender("uuid v4", 100_000, |n| {
            for _ in 0..n {
                black_box(uuid::Uuid::new_v4());
            }
        }),
        contender("uuid v7", 100_000, |n| {
            for _ in 0..n {
                black_box(uuid::Uuid::now_v7());
            }
        }),
        contender("ulid", 100_000, |n| {
            for _ in 0..n {
                black_box(ulid::Ulid::generate());
            }
        }),
        contender("rs-snowflake in a mutex (4096/ms)", 20_000, move |n| {
            for _ in 0..n {
                black_box(snowflake.lock().unwrap().generate());
            }
        }),
    ]
}

/// Processor and real time of one run on this thread, nanoseconds an ID.
fn measure(mint: &Mint, n: u32) -> (f64, f64) {
    // What is durable for a second, as the marks of ours, was used up while the others had their turns: that is paid for a
    // second of IDs, and a run is a few milliseconds of them.
    mint(n / 100);
    let (real, used) = (Instant::now(), processor());
    mint(n);
    let (used, real) = (processor() - used, real.elapsed());
    (used.as_secs_f64() * 1e9 / f64::from(n), real.as_secs_f64() * 1e9 / f64::from(n))
}

/// The same on two threads at once: the time in which both together make an ID.
fn measure_two(mint: &Mint, n: u32) -> (f64, f64) {
    let barrier = Barrier::new(2);
    let run = || {
        barrier.wait();
        measure(mint, n)
    };
    let (one, two) = std::thread::scope(|scope| {
        let other = scope.spawn(run);
        (run(), other.join().unwrap())
    });
    let together = |a: f64, b: f64| 1.0 / (1.0 / a + 1.0 / b);
    (together(one.0, two.0), together(one.1, two.1))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Contender {
    /// Nanoseconds an ID; of the processor, or real where it mostly waits.
    fn ns(&self, threads: usize) -> f64 {
        let runs = &self.runs[threads - 1];
        let (used, real) = (median(runs.iter().map(|run| run.0)), median(runs.iter().map(|run| run.1)));
        // Whoever spins or sleeps until the next millisecond gives no more IDs for it.
        if self.name.contains("/ms") { real.max(used) } else { used }
    }
}

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let rounds = if quick { 7 } else { 31 };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let kits = [Fixture::new(), Fixture::new()];
    kits.iter().for_each(|kit| kit.minter.driver().reserve_on(runtime.handle().clone()));
    let alone = Embedded::start(Settings::dev("bench".parse().unwrap())).unwrap();
    alone.wait_ready(Duration::from_secs(10)).unwrap();
    let mut all = contenders(&kits, &alone);
    // Warm: the step of serials grows to what the pace needs.
    for contender in &all {
        (0..3).for_each(|_| _ = measure(&contender.mint, contender.n));
    }
    for _ in 0..rounds {
        for contender in &mut all {
            let (one, two) = (measure(&contender.mint, contender.n), measure_two(&contender.mint, contender.n));
            contender.runs[0].push(one);
            contender.runs[1].push(two);
        }
    }
    println!("{:40} {:>9} {:>10}", "ns of the processor per ID", "1 thread", "2 threads");
    for contender in &all {
        println!("{:40} {:9.2} {:10.2}", contender.name, contender.ns(1), contender.ns(2));
    }
    let found = |name: &str| all.iter().find(|c| c.name.starts_with(name)).unwrap();
    let ns = |name: &str, threads| found(name).ns(threads);
    let ratio = |name: &str, value: f64| println!("RATIO {name}={value:.3}");
    // The machine's pace changes from moment to moment: what ran right after one another is compared, and the median counts.
    let of_rounds = |(one, threads): (&str, usize), (other, by): (&str, usize)| {
        let pairs = found(one).runs[threads - 1].iter().zip(&found(other).runs[by - 1]);
        median(pairs.map(|(one, other)| one.0 / other.0))
    };
    let (shared, blocks) = ("uniq64, shared", "uniq64, per-thread");
    ratio("inprocess_shared_to_layout_shared", of_rounds((shared, 1), ("layout, 22-bit serial, shared", 1)));
    ratio(
        "inprocess_shared_to_layout_shared_two_threads",
        of_rounds((shared, 2), ("layout, 22-bit serial, shared", 2)),
    );
    ratio("inprocess_shared_to_fetch_add_and_clock", of_rounds((shared, 1), ("fetch_add + coarse", 1)));
    ratio("inprocess_block_to_thread_local", of_rounds((blocks, 1), ("thread-local", 1)));
    ratio("inprocess_block_two_threads_to_one", of_rounds((blocks, 1), (blocks, 2)));
    let crates = all.iter().skip_while(|c| !c.name.starts_with("ferroid"));
    let best = |threads| crates.clone().map(|c| c.ns(threads)).fold(f64::INFINITY, f64::min);
    ratio("inprocess_best_crate_to_shared", best(1) / ns("uniq64, shared", 1));
    ratio("inprocess_best_crate_to_block", best(1) / ns("uniq64, per-thread", 1));
    ratio("inprocess_best_crate_to_block_two_threads", best(2) / ns("uniq64, per-thread", 2));
    let layouts = ["layout, 22-bit serial, shared", "layout, 22-bit serial, per-thread"];
    ratio("inprocess_best_crate_to_layout_shared", best(1) / ns(layouts[0], 1));
    ratio("inprocess_best_crate_to_layout_block", best(1) / ns(layouts[1], 1));
    ratio("inprocess_best_crate_to_layout_block_two_threads", best(2) / ns(layouts[1], 2));
    let written: u64 = kits.iter().map(|kit| kit.minter.disk().writes()).sum();
    println!("the serial files were written {written} times");
    drop(all);
    runtime.shutdown_timeout(Duration::from_secs(1));
}
