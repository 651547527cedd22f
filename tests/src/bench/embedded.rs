//! Numbers of segments in an application's own process, beside an atomic counter that keeps nothing over a crash.

use crate::cluster::{Cluster, PATIENCE};
use crate::programs;
use anyhow::{Result, ensure};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use uniq_embed::{Definition, Embedded, Namespace, Settings, Shared, UniqGenerator as _};

/// Numbers that a thread takes at once from the counter to compare with, as our blocks have them.
const BLOCK: u64 = 1_024;
/// Numbers of one run: some milliseconds' worth.
const RUN: u64 = 1 << 20;

/// A source of numbers.
struct Contender<'a> {
    name: &'static str,
    give: Box<dyn Fn(u64) -> Result<()> + Sync + 'a>,
    /// Nanoseconds of the processor a number: with one thread, and with two.
    runs: [Vec<f64>; 2],
}

fn contender<'a>(name: &'static str, give: impl Fn(u64) -> Result<()> + Sync + 'a) -> Contender<'a> {
    Contender { name, give: Box::new(give), runs: [Vec::new(), Vec::new()] }
}

fn processor() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), u32::try_from(used.tv_nsec).unwrap_or(0))
}

/// Processor time a number: of one thread, or of two that run at once, each of which gives as many.
fn run(give: &(dyn Fn(u64) -> Result<()> + Sync), threads: usize) -> Result<f64> {
    let barrier = Barrier::new(threads);
    let one = || {
        barrier.wait();
        let began = processor();
        give(RUN)?;
        Ok((processor() - began).as_secs_f64())
    };
    let used = std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        let ended = started.into_iter().map(|thread| thread.join().unwrap_or_else(|_| anyhow::bail!("a thread ended")));
        ended.sum::<Result<f64>>()
    })?;
    // Both threads give numbers at the same time.
    Ok(used * 1e9 / (RUN as f64 * (threads * threads) as f64))
}

fn contenders<'a>(counter: &'a AtomicU64, shared: &'a Shared) -> Vec<Contender<'a>> {
    vec![
        contender("atomic fetch_add, shared", |n| {
            for _ in 0..n {
                black_box(counter.fetch_add(1, Ordering::Relaxed));
            }
            Ok(())
        }),
        contender("segment, shared", |n| {
            for _ in 0..n {
                black_box(shared.get_segment()?);
            }
            Ok(())
        }),
        contender("atomic fetch_add, blocks of 1,024 for each thread", |n| {
            let mut block = 0..0;
            for _ in 0..n {
                let next = block.next().unwrap_or_else(|| {
                    let first = counter.fetch_add(BLOCK, Ordering::Relaxed);
                    block = first + 1..first + BLOCK;
                    first
                });
                black_box(next);
            }
            Ok(())
        }),
        contender("segment, blocks for each thread", |n| {
            let block = shared.per_thread();
            for _ in 0..n {
                black_box(block.get_segment()?);
            }
            Ok(())
        }),
    ]
}

/// A contender's name, and what a number takes in each round, in nanoseconds of the processor: with one thread, and with two.
pub type Measured = (&'static str, [Vec<f64>; 2]);

/// Measures what each contender takes for a number, in so many rounds.
///
/// # Errors
/// If there are no numbers.
pub fn measure(cluster: &Cluster, rounds: usize) -> Result<Vec<Measured>> {
    let masters: Vec<String> = cluster.masters.iter().map(|master| master.agent_listen.to_string()).collect();
    let dir = cluster.dir().join("embedded");
    std::fs::create_dir(&dir)?;
    let format = ["--format", "--serial-file", "bench.serial"];
    let ended = programs::run(&programs::generator()?, &format, &dir)?;
    ensure!(ended.status == Some(0), "--format failed: {ended:?}");
    let embedded = Embedded::start(Settings::new(dir.join("bench.serial"), &masters, "bench-1".parse()?))?;
    embedded.wait_ready(PATIENCE)?;
    let definition: Definition = serde_json::from_str(super::ranges::LARGE_STEPS)?;
    let shared = embedded.create_uniq_generator(Namespace::define("bench-embedded".parse()?, &definition)?)?;
    let counter = AtomicU64::new(0);
    let mut contenders = contenders(&counter, &shared);
    for _ in 0..rounds {
        for Contender { give, runs: [one, two], .. } in &mut contenders {
            one.push(run(give, 1)?);
            two.push(run(give, 2)?);
        }
    }
    Ok(contenders.into_iter().map(|contender| (contender.name, contender.runs)).collect())
}
