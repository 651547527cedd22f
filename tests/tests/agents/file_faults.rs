//! The serial file's own code on real files, killed at each of its system calls, and with each of them failing: no ID
//! comes twice, none is given that the file does not allow, and each fault is answered as the documents say.
//!
//! The short form strikes with every fault at every call of every operation once, and then at random for a while.
//! `scripts/faults.sh` goes on for as many kills as wanted, by `UNIQ_FAULT_KILLS`; a run is replayed by its seed.

use models::sim::rng::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use tests::faults::{Agent, Coverage, Fault, Ledger, Lie, Op};
use tests::variables;

/// Agents that are tried at the same time, each in its own folder: most of the time they wait for the disk.
const AGENTS: u32 = 4;
const KILLS: u64 = 200;
const TOLD_EVERY: u64 = 1_000;

/// Calls of each operation. A new one is a new step at which a process can die: it belongs into the tables of
/// `agent/serial_file/src` and `docs/understand/serial-file.md`.
const CALLS: [(Op, usize); 15] = [
    (Op::Format, 10),
    (Op::FormatAgain, 12),
    (Op::StartFresh, 31),
    (Op::StartResumed, 11),
    (Op::Join, 7),
    (Op::Lease, 7),
    (Op::Promise, 7),
    (Op::Hour, 20),
    (Op::More, 20),
    (Op::Reserve, 20),
    (Op::Day, 20),
    (Op::Mark, 20),
    (Op::Extend, 20),
    (Op::Again, 17),
    (Op::End, 15),
];

/// Strikes at every call of every operation with these faults, in a few folders at the same time.
fn strike_everywhere(faults: &[Fault]) -> Coverage {
    let (began, ledger) = (Instant::now(), Arc::new(Ledger::default()));
    let parts: Vec<_> = (0..AGENTS).map(|nth| CALLS.into_iter().skip(nth as usize).step_by(AGENTS as usize)).collect();
    let coverage = std::thread::scope(|scope| {
        let agents: Vec<_> = (0..)
            .zip(parts)
            .map(|(nth, part)| {
                let ledger = &ledger;
                scope.spawn(move || {
                    let (mut agent, mut coverage) =
                        (Agent::new(nth, AGENTS, ledger, None).unwrap(), Coverage::default());
                    for (op, calls) in part {
                        let counted = agent.strike_at_every_call(op, faults, &mut coverage).unwrap();
                        assert_eq!(counted, calls, "{op:?}");
                    }
                    coverage
                })
            })
            .collect();
        let mut all = Coverage::default();
        agents.into_iter().for_each(|agent| all.add(&agent.join().unwrap()));
        all
    });
    println!("{coverage}\n  {} IDs, {:.1?}", ledger.ids(), began.elapsed());
    let (duplicates, told) = ledger.verdict();
    assert_eq!(duplicates, 0, "{told:?}");
    assert_eq!(coverage.steps(), CALLS.iter().map(|(_, calls)| calls).sum::<usize>(), "not every step was struck");
    for (op, calls) in CALLS {
        for fault in faults.iter().filter(|fault| fault.fits("stat")) {
            let struck = coverage.calls_of(op, |other| other == *fault);
            assert_eq!(struck, (1..=calls).collect(), "{op:?} was not struck by {fault:?} at each call");
        }
    }
    coverage
}

#[test]
fn a_kill_at_any_call_of_any_operation_costs_no_token_that_the_table_does_not_say_and_repeats_no_id() {
    let coverage = strike_everywhere(&Fault::KILLS);
    assert_eq!(coverage.errors(), 0);
}

#[test]
fn a_full_or_failing_disk_at_any_call_of_any_operation_is_answered_and_passes() {
    let coverage = strike_everywhere(&Fault::ERRORS);
    assert_eq!(coverage.kills(), 0);
}

#[test]
fn lives_drawn_from_a_seed_repeat_no_id() {
    let wanted = variables::number_or("UNIQ_FAULT_KILLS", KILLS);
    let seed = variables::seed();
    println!("UNIQ_FAULT_KILLS={wanted}");
    let (began, ledger, kills) = (Instant::now(), Arc::new(Ledger::default()), AtomicU64::new(0));
    let coverage = std::thread::scope(|scope| {
        let agents: Vec<_> = (0..AGENTS)
            .map(|nth| {
                let (ledger, kills) = (&ledger, &kills);
                let share = wanted / u64::from(AGENTS) + u64::from(u64::from(nth) < wanted % u64::from(AGENTS));
                scope.spawn(move || lives(nth, share, seed, ledger, kills))
            })
            .collect();
        let mut all = Coverage::default();
        agents.into_iter().for_each(|agent| all.add(&agent.join().unwrap()));
        all
    });
    let (duplicates, told) = ledger.verdict();
    println!("{coverage}\n  {} IDs, {:.1?}, seed {seed}", ledger.ids(), began.elapsed());
    let (kills, steps, faults) = (coverage.kills(), coverage.steps(), coverage.kills() + coverage.errors());
    println!("  kills={kills} steps={steps} faults={faults} duplicates={duplicates}");
    assert_eq!(duplicates, 0, "{told:?}");
    assert!(kills >= wanted);
}

/// Lives of one agent until it was killed so often.
fn lives(nth: u32, kills: u64, seed: u64, ledger: &Arc<Ledger>, total: &AtomicU64) -> Coverage {
    let (mut agent, mut coverage) = (Agent::new(nth, AGENTS, ledger, None).unwrap(), Coverage::default());
    let mut rng = Rng::new(seed.wrapping_add(nth.into()));
    for life in 0.. {
        let before = coverage.kills();
        if before >= kills {
            break;
        }
        agent.random_life(&mut rng, &mut coverage).unwrap();
        assert!(agent.violations.is_empty(), "seed {seed}, agent {nth}, life {life}: {:?}", agent.violations);
        if coverage.kills() > before {
            let so_far = total.fetch_add(1, Relaxed) + 1;
            if so_far.is_multiple_of(TOLD_EVERY) {
                let (duplicates, _) = ledger.verdict();
                println!("{so_far} kills so far, {} IDs, {duplicates} of them twice", ledger.ids());
            }
        }
    }
    coverage
}

/// Lives on a disk that lies, until something is noticed.
fn noticed(lie: Lie) -> (Vec<String>, u64) {
    let ledger = Arc::new(Ledger::default());
    let (mut agent, mut coverage) = (Agent::new(0, 1, &ledger, Some(lie)).unwrap(), Coverage::default());
    let mut rng = Rng::new(1);
    for _ in 0..200 {
        agent.random_life(&mut rng, &mut coverage).unwrap();
        if ledger.verdict().0 > 0 {
            break;
        }
    }
    (std::mem::take(&mut agent.violations), ledger.verdict().0)
}

/// Twins: without what the disk promises, the same lives show what these tests look for.
#[test]
fn twin_a_disk_that_does_not_flush_is_noticed() {
    let (violations, _) = noticed(Lie::NoFsync);
    assert!(violations.iter().any(|what| what.contains("before anything was durable")), "{violations:?}");
}

#[test]
fn twin_a_disk_that_loses_a_new_file_gives_ids_twice() {
    let (violations, duplicates) = noticed(Lie::NoRename);
    println!("{duplicates} IDs came twice; {:?}", violations.first());
    assert!(duplicates > 0 && !violations.is_empty());
}
