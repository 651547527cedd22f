//! The agent's serial file in every state that it can come into, within bounds: nothing is minted twice, nobody is stuck;
//! and without one of the mechanisms, a duplicate. The counts of states are asserted, so that a model that has lost half
//! of what can happen is noticed. `scripts/model.sh` goes further.

use super::{large, memory, step_aside};
use models::file_model::Trouble::{self, *};
use models::file_model::Twin::{self, *};
use models::file_model::{Action, Bounds, DISJOINT, Deed, Files, GOES_ON, World};
use stateright::{Checker, HasDiscoveries, Model};
use std::time::Instant;

/// One process at a time, started twice, that writes once besides.
fn quiet() -> Bounds {
    Bounds {
        processes: 1,
        starts: 2,
        writes: 1,
        troubles: 0,
        trouble: &[],
        resume: false,
        days: 1,
        everyday_reset: false,
        serials: 6,
        renewals: 0,
        operator_pause: 1,
        heal_every: 1,
        twins: vec![],
    }
}

/// And so much goes wrong.
fn with(troubles: u8, trouble: &'static [Trouble]) -> Bounds {
    Bounds { troubles, trouble, ..quiet() }
}

/// All states within `bounds`, and what holds in them.
fn exhaust(name: &str, bounds: Bounds) -> usize {
    step_aside();
    let began = Instant::now();
    let checker = Files { bounds }.checker().threads(2).spawn_bfs().join();
    let (states, steps, depth) = (checker.unique_state_count(), checker.state_count(), checker.max_depth());
    println!("{name}: {states} states, {steps} steps, depth {depth}, {:.1?}, {}", began.elapsed(), memory());
    let broken = checker.discoveries().into_iter().map(|(what, path)| format!("{what}: {}", told(path.into_actions())));
    assert_eq!(broken.collect::<Vec<_>>(), [""; 0], "{name}");
    states
}

/// Counts the steps that lead to what must not be when this is taken away.
fn violation(what: &'static str, twin: Twin, bounds: Bounds) -> Option<usize> {
    step_aside();
    let model = Files { bounds: Bounds { twins: vec![twin], heal_every: u64::from(what == GOES_ON), ..bounds } };
    let checker = model.checker().finish_when(HasDiscoveries::Any).spawn_bfs().join();
    let found = checker.discovery(what).map(|path| path.into_actions());
    let states = checker.unique_state_count();
    println!("without {twin:?}: {states} states, {:?}", found.clone().map(told));
    found.map(|actions| actions.len())
}

/// A path, with steps in a row as their number.
fn told(actions: Vec<Action>) -> String {
    let texts: Vec<String> = actions.iter().map(|action| format!("{action:?}")).collect();
    let rows = texts.chunk_by(|one, next| one == next).map(|row| format!("{} {}", row.len(), row[0]));
    rows.collect::<Vec<_>>().join(", ")
}

/// Everything but a clone, after which no reboot may be resumed.
const ALL: &[Trouble] = &[Fault, PowerCut, Keep, PutBack, Touch, Move, Link, Remove, Copy];

#[test]
fn nothing_is_minted_twice_and_nobody_is_stuck() {
    let sets = [
        ("kills", quiet(), 1_049),
        ("faults and power cuts", Bounds { resume: true, ..with(1, &[Fault, PowerCut]) }, 8_572),
        ("two processes", Bounds { processes: 2, heal_every: 4, ..quiet() }, 12_871),
        ("two days", Bounds { days: 2, writes: 2, heal_every: 4, ..quiet() }, 7_706),
        ("a reset each day", Bounds { days: 2, writes: 2, everyday_reset: true, heal_every: 4, ..quiet() }, 7_668),
        ("renewals", Bounds { renewals: 1, ..with(1, &[Fault]) }, 3_421),
        ("a snapshot with the same device number", Bounds { heal_every: 8, ..with(1, &[Snapshot]) }, 49_338),
    ];
    let counts = sets.map(|(name, bounds, states)| (exhaust(name, bounds), states));
    assert_eq!(counts.map(|(found, _)| found), counts.map(|(_, states)| states));
}

/// Minutes of two cores, so only where `MODEL=large` asks for it, as `scripts/model.sh` does.
#[test]
fn nothing_is_minted_twice_within_large_bounds() {
    if !large() {
        return;
    }
    let with = |troubles, trouble| Bounds { heal_every: 16, ..with(troubles, trouble) };
    let twice = || Bounds { writes: 3, resume: true, days: 2, ..with(1, &[Fault, PowerCut]) };
    let sets = [
        ("any trouble", Bounds { resume: true, ..with(1, ALL) }, 126_372),
        ("a clone", with(1, &[Clone]), 49_338),
        ("copies put back", Bounds { starts: 3, writes: 2, ..with(2, &[Keep, PutBack]) }, 12_152_709),
        ("any two troubles", Bounds { resume: true, heal_every: 64, ..with(2, ALL) }, 5_871_169),
        (
            "two processes, any trouble",
            Bounds {
                processes: 2,
                ..with(1, &[Fault, PowerCut, Keep, PutBack, Touch, Move, Link, Remove, Copy, Clone])
            },
            2_207_758,
        ),
        ("two days", twice(), 368_817),
        ("a reset each day", Bounds { everyday_reset: true, ..twice() }, 354_937),
        ("renewals", Bounds { writes: 2, resume: true, renewals: 1, ..with(2, &[Fault, PowerCut]) }, 209_280),
    ];
    let counts = sets.map(|(name, bounds, states)| (exhaust(name, bounds), states));
    assert_eq!(counts.map(|(found, _)| found), counts.map(|(_, states)| states));
    println!("{} states of the serial file", counts.map(|(found, _)| found).iter().sum::<usize>());
}

#[test]
fn without_a_mechanism_a_serial_is_minted_twice() {
    let power = || Bounds { resume: true, writes: 2, ..with(1, &[PowerCut]) };
    let again = || Bounds { writes: 2, ..quiet() };
    assert!(violation(DISJOINT, NamesNotFlushed, power()).is_some());
    assert!(violation(DISJOINT, MintsBeforeDurable, again()).is_some());
    assert!(violation(DISJOINT, MintsAfterStop, again()).is_some());
    // What a power cut tears is never believed, so a file that was not flushed costs the file.
    assert!(violation(GOES_ON, FilesNotFlushed, power()).is_some());
    if !large() {
        return;
    }
    // The walks below, found and not told.
    assert!(violation(DISJOINT, FailedWriteCounts, Bounds { writes: 2, ..with(1, &[Fault]) }).is_some());
    assert!(violation(DISJOINT, AnyLineage, Bounds { writes: 2, ..with(1, &[Copy]) }).is_some());
    assert!(violation(DISJOINT, NoBootId, Bounds { writes: 2, ..with(1, &[Clone]) }).is_some());
    assert!(violation(DISJOINT, NoFileSystemId, Bounds { writes: 2, ..with(1, &[Snapshot]) }).is_some());
    assert!(violation(DISJOINT, NoLock, Bounds { processes: 2, ..again() }).is_some());
    assert!(violation(DISJOINT, NoCtime, Bounds { writes: 3, ..with(1, &[Copy]) }).is_some());
}

/// The model, led along a path.
struct Walk {
    model: Files,
    world: World,
}

impl Walk {
    fn new(bounds: Bounds) -> Self {
        let model = Files { bounds };
        let world = model.init_states().remove(0);
        Self { model, world }
    }

    fn can(&self, action: &Action) -> bool {
        let mut all = Vec::new();
        self.model.actions(&self.world, &mut all);
        all.contains(action)
    }

    /// If it can happen.
    fn act(&mut self, action: Action) -> &mut Self {
        if self.can(&action) {
            self.world = self.model.next_state(&self.world, action).unwrap();
        }
        self
    }

    fn deed(&mut self, deed: Deed) -> &mut Self {
        self.act(Action::Deed(deed))
    }

    fn steps(&mut self, who: usize, count: usize) -> &mut Self {
        (0..count).fold(self, |walk, _| walk.act(Action::Step { who }))
    }

    /// Until it is through with what it is doing.
    fn through(&mut self, who: usize) -> &mut Self {
        while self.can(&Action::Step { who }) {
            self.steps(who, 1);
        }
        self
    }

    fn start(&mut self, who: usize, at: u8) -> &mut Self {
        self.act(Action::Start { who, at, after_reboot_resume: false }).through(who)
    }

    /// Begins to write.
    fn begin(&mut self, who: usize) -> &mut Self {
        self.act(Action::Write { who, which: 0 })
    }

    fn write(&mut self, who: usize) -> &mut Self {
        self.begin(who).through(who)
    }

    fn mint(&mut self) -> &mut Self {
        self.act(Action::Mint { who: 0 })
    }

    fn kill(&mut self) -> &mut Self {
        self.act(Action::Kill { who: 0 })
    }

    fn holds(&self) -> bool {
        self.model.properties().iter().all(|what| (what.condition)(&self.model, &self.world))
    }
}

/// Tells whether all holds along a path, as far as it can be gone.
fn holds(twins: &[Twin], bounds: Bounds, path: fn(&mut Walk) -> &mut Walk) -> bool {
    path(&mut Walk::new(Bounds { twins: twins.to_vec(), ..bounds })).holds()
}

#[test]
fn on_one_path_a_mechanism_is_all_between_us_and_a_duplicate() {
    let bounds = || Bounds { processes: 2, writes: 5, ..with(4, ALL) };
    type Way = fn(&mut Walk) -> &mut Walk;
    let ways: [(Twin, Way); 6] = [
        (FailedWriteCounts, |walk| {
            walk.start(0, 0).begin(0).act(Action::Fault { who: 0, done: false }).through(0).mint().kill();
            walk.start(0, 0).write(0)
        }),
        (AnyLineage, |walk| copied(walk, Deed::Copy)),
        (NoCtime, |walk| copied(walk, Deed::Copy)),
        (NoBootId, |walk| copied(walk, Deed::Clone)),
        (NoFileSystemId, |walk| copied(walk, Deed::Snapshot)),
        (NoLock, |walk| walk.start(0, 0).write(0).start(1, 0).begin(1).steps(1, 1).write(0).through(1)),
    ];
    for (twin, path) in ways {
        let bounds = match twin {
            NoBootId => Bounds { trouble: &[Clone], ..bounds() },
            NoFileSystemId => Bounds { trouble: &[Snapshot], ..bounds() },
            _ => bounds(),
        };
        assert!(holds(&[], bounds.clone(), path), "{twin:?}");
        assert!(!holds(&[twin], bounds, path), "{twin:?}");
    }
}

/// The original goes on for a while, and then the copy.
fn copied(walk: &mut Walk, deed: Deed) -> &mut Walk {
    walk.start(0, 0).write(0).deed(deed).write(0).mint().mint().kill().start(0, 1).write(0)
}

/// Steps of a write until its lineage names the file to come.
const ANNOUNCED: usize = 11;

/// The lineage of the midst of a write, and the file of that write, put back in place onto a later file with the same
/// inode. What tells them apart is when they were made.
#[test]
fn without_the_birth_of_a_file_a_lineage_from_the_midst_of_a_write_fits_a_later_one() {
    let bounds = || Bounds { writes: 4, ..with(4, &[Keep, PutBack]) };
    let put_back = |walk: &mut Walk| {
        walk.start(0, 0).begin(0).steps(0, ANNOUNCED).deed(Deed::KeepLineage).through(0).deed(Deed::KeepFile).mint();
        walk.write(0).mint().write(0).mint().kill().deed(Deed::PutFileInPlace).deed(Deed::PutLineage);
        walk.start(0, 0).write(0).holds()
    };
    assert!(put_back(&mut Walk::new(bounds())));
    assert!(!put_back(&mut Walk::new(Bounds { twins: vec![NoBirth], ..bounds() })));
}

/// The file moved away in the midst of the write that is to replace it, and back again with the lineage from the midst of
/// its own. What tells is how long after its making it was put in place; somebody quicker than that is not noticed.
#[test]
fn a_file_moved_out_of_the_way_of_a_write_is_not_believed_when_it_is_moved_back() {
    let moved_back = |operator_pause| {
        let bounds = Bounds { writes: 3, operator_pause, ..with(4, &[Keep, Move, PutBack]) };
        holds(&[], bounds, |walk| {
            walk.start(0, 0).begin(0).steps(0, ANNOUNCED).deed(Deed::KeepLineage).through(0).mint();
            walk.begin(0).steps(0, 1).deed(Deed::MoveAway).through(0).mint().kill();
            walk.deed(Deed::MoveBack).deed(Deed::PutLineage).start(0, 0).write(0)
        })
    };
    assert!(moved_back(11));
    assert!(!moved_back(1));
}
