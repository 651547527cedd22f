//! `simulate`: runs seeds of the simulation on all cores and says what came of them. See `scripts/simulate.sh`.

use clap::Parser;
use models::sim::gate::{Expected, expected, judge};
use models::sim::mutation::{Mutation, Mutations};
use models::sim::swarm::{Faults, Theme};
use models::sim::{Outcome, Setup, run};
use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Failing seeds that are told in words.
const TOLD_MAX: u64 = 5;
/// Between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(1);
/// The same where nobody watches.
const PROGRESS_LOG: Duration = Duration::from_secs(30);

#[derive(Parser)]
#[command(about = "Simulates clusters, one per seed, and looks for an ID that was given twice")]
struct Args {
    /// Number of seeds.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first one; with --gate only where it is given, else where a mechanism's seed is known to be.
    #[arg(long)]
    from: Option<u64>,
    /// Days of faults in each, before ten days of healing.
    #[arg(long, default_value_t = 60)]
    days: u16,
    /// Threads; by default one per core.
    #[arg(long)]
    threads: Option<usize>,
    /// Mechanisms to leave out, with + between them; then a failing seed is what is wanted, and the first one ends the run.
    #[arg(long, default_value = "none")]
    mutation: Mutations,
    /// Aim of every seed, instead of its own.
    #[arg(long)]
    theme: Option<Theme>,
    /// Kinds of faults to leave out, with + between them.
    #[arg(long, default_value = "none")]
    without: Faults,
    /// Leave out each mechanism in turn (or each of --mutation), with so many seeds at most, and say which seed shows it.
    #[arg(long)]
    gate: bool,
    /// Tell everything that happens, on standard error.
    #[arg(long)]
    trace: bool,
    /// Only say which mechanisms can be left out.
    #[arg(long)]
    list_mutations: bool,
}

#[derive(Default)]
struct Sum {
    faults: BTreeMap<&'static str, u64>,
    remedies: BTreeMap<&'static str, u64>,
    given: BTreeMap<&'static str, u64>,
    ids: u64,
    duplicates: u64,
    disorder: u64,
    reuses: u64,
    events: u64,
    stuck: u64,
    failed: u64,
    hash: u64,
}

impl Sum {
    fn add(&mut self, outcome: &Outcome) {
        for (kind, count) in &outcome.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        for (kind, count) in &outcome.remedies {
            *self.remedies.entry(kind).or_default() += count;
        }
        for (kind, count) in &outcome.given {
            *self.given.entry(kind).or_default() += count;
        }
        self.ids += outcome.ids;
        self.duplicates += outcome.duplicates;
        self.disorder += outcome.disorder;
        self.reuses += outcome.reuses;
        self.events += outcome.events;
        self.stuck += outcome.stuck;
        self.failed += u64::from(!outcome.fine());
        // Seeds end in any order; a sum does not mind.
        self.hash = self.hash.wrapping_add(outcome.hash);
    }
}

#[allow(clippy::print_stdout, reason = "the result is what the program is for")]
fn main() -> ExitCode {
    let args = Args::parse();
    if args.list_mutations {
        Mutation::ALL.iter().for_each(|mutation| println!("{mutation}"));
        return ExitCode::SUCCESS;
    }
    let threads = args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    if args.gate {
        return gate(&args, threads);
    }
    let (next, done, sum) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::new(Sum::default()));
    let began = Instant::now();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| work(&args, &next, &done, &sum))).collect();
        // A worker that panics ends the run, and says so.
        progress(&args, &done, &sum, began, || workers.iter().all(|worker| worker.is_finished()));
    });
    let sum = sum.into_inner().unwrap_or_default();
    let (seeds, seconds) = (done.into_inner(), began.elapsed().as_secs_f64());
    let faults: u64 = sum.faults.values().sum();
    for (kind, count) in sum.faults.iter().chain(&sum.remedies).chain(&sum.given) {
        println!("{count:>12}  {kind}");
    }
    println!(
        "{:.1} seeds/s on {threads} threads, {:.1} faults a day, {} events, {} values reused, {} seeds failed, hash {:016x}",
        seeds as f64 / seconds,
        faults as f64 / (seeds * u64::from(args.days)).max(1) as f64,
        sum.events,
        sum.reuses,
        sum.failed,
        sum.hash
    );
    println!(
        "seeds={seeds} days={} faults={faults} ids={} duplicates={} stuck={} disorder={}",
        seeds * u64::from(args.days),
        sum.ids,
        sum.duplicates,
        sum.stuck,
        sum.disorder
    );
    if sum.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Every mechanism in turn.
#[allow(clippy::print_stdout, reason = "the result is what the program is for")]
fn gate(args: &Args, threads: usize) -> ExitCode {
    let (mut caught, mut modelled, mut redundant, mut wrong) = (0, 0, 0, 0);
    let asked = |mutation: &&Mutation| args.mutation == Mutations::NONE || args.mutation.has(**mutation);
    for mutation in Mutation::ALL.iter().filter(asked) {
        let (fine, line) = judge(*mutation, args.from, args.seeds, args.days.into(), threads);
        println!("{line}");
        match expected(*mutation) {
            _ if !fine => wrong += 1,
            Expected::Redundant(_) => redundant += 1,
            Expected::Modelled(_) => modelled += 1,
            _ => caught += 1,
        }
    }
    let all = caught + modelled + redundant + wrong;
    println!("mutations={all} caught={caught} modelled={modelled} redundant={redundant} wrong={wrong}");
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn work(args: &Args, next: &AtomicU64, done: &AtomicU64, sum: &Mutex<Sum>) {
    loop {
        let n = next.fetch_add(1, Ordering::Relaxed);
        if n >= args.seeds {
            return;
        }
        let seed = args.from.unwrap_or(1) + n;
        let (days, mutations, theme, trace) = (args.days.into(), args.mutation, args.theme, args.trace);
        let outcome = run(&Setup { seed, days, mutations, theme, without: args.without, ranges: true, trace });
        let Ok(mut sum) = sum.lock() else { return };
        sum.add(&outcome);
        done.fetch_add(1, Ordering::Relaxed);
        if outcome.fine() {
            continue;
        }
        if args.mutation != Mutations::NONE {
            next.store(args.seeds, Ordering::Relaxed);
        }
        if sum.failed <= TOLD_MAX {
            let mutation = args.mutation;
            let mut also = args.theme.map(|theme| format!(" --theme {theme}")).unwrap_or_default();
            if args.without != Faults::NONE {
                also += &format!(" --without {}", args.without);
            }
            eprintln!("\nseed {seed} failed:");
            outcome.told.iter().for_each(|what| eprintln!("  {what}"));
            eprintln!(
                "replay it: scripts/simulate.sh --seeds 1 --from {seed} --days {} --mutation {mutation}{also} --trace",
                args.days
            );
        }
    }
}

fn progress(args: &Args, done: &AtomicU64, sum: &Mutex<Sum>, began: Instant, is_over: impl Fn() -> bool) {
    let screen = std::io::stderr().is_terminal();
    let mut told = Instant::now();
    loop {
        let finished = done.load(Ordering::Relaxed);
        let (failed, faults, ids, duplicates) =
            sum.lock().map_or((0, 0_u64, 0, 0), |sum| (sum.failed, sum.faults.values().sum(), sum.ids, sum.duplicates));
        if finished >= args.seeds || is_over() || (failed > 0 && args.mutation != Mutations::NONE) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
        if told.elapsed() >= if screen { PROGRESS } else { PROGRESS_LOG } {
            told = Instant::now();
            let rate = finished as f64 / began.elapsed().as_secs_f64();
            let left = (args.seeds - finished) as f64 / rate.max(0.001);
            let (begin, end) = if screen { ("\r", "") } else { ("", "\n") };
            let percent = finished * 100 / args.seeds.max(1);
            eprint!(
                "{begin}{finished}/{} seeds {percent} % {rate:.1}/s {left:.0} s left, {failed} failed, {faults} faults \
                 {ids} IDs {duplicates} duplicates {end}",
                args.seeds
            );
            let _ = std::io::stderr().flush();
        }
    }
    if screen {
        eprintln!();
    }
}
