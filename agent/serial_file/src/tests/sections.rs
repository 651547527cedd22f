//! The bounds of sections, with a process that dies or a disk that fails at any step, and files that others put there.

use super::*;
use crate::section_records::SectionsFreshReason;
use common::namespace::GeneratorName;
use common::parameters::AgentId;
use common::sequence::Section;
use common::time::BootMs;
use minting::sequence::{Bound, Bounds, Listed};

const SERVES: SessionId = SessionId(0x5e55);
const OTHER: SessionId = SessionId(0x07e5);
const SINCE_BOOT: BootMs = BootMs(1_000);

fn name() -> GeneratorName {
    "orders".parse().unwrap()
}

fn agent() -> AgentId {
    "agent-1".parse().unwrap()
}

fn bounds(of: &[(u32, u64)]) -> Bounds {
    let mut bounds = Bounds::default();
    for (section, max_seq) in of {
        bounds.note(&name(), Section(*section), Bound { g: Some(Generation(2)), max_seq: *max_seq });
    }
    bounds
}

fn at(file: &SectionFile, section: u32) -> u64 {
    file.bounds().get(&name(), Section(section)).map_or(0, |bound| bound.max_seq)
}

fn fresh(reason: SectionsFreshReason) -> SectionsStart {
    SectionsStart::Fresh(reason)
}

/// One process: the serial file, which has the lock, and the bounds.
struct Process {
    opened: Opened,
    file: SectionFile,
    start: SectionsStart,
}

impl Process {
    fn start(home: &Home) -> Self {
        Self::start_on(home, &home.disk())
    }

    fn start_on(home: &Home, disk: &FaultyDisk) -> Self {
        let opened = home.open_on(disk, THIRD).unwrap();
        let (file, start) = opened.sections(&agent(), OTHER);
        Self { opened, file, start }
    }

    fn note(&mut self, of: &[(u32, u64)]) -> bool {
        matches!(self.file.note(&bounds(of), SINCE_BOOT), Ok(Noted::Durable))
    }
}

/// A process has served sections 0 to 9 up to 100, and was killed. `adds`: it wrote more than once.
pub(super) fn served(adds: bool) -> Home {
    let home = Home::new();
    drop(home.started());
    let mut process = Process::start(&home);
    assert_eq!(process.start, fresh(SectionsFreshReason::NoBounds));
    process.file.begin(SERVES, SINCE_BOOT).unwrap();
    assert!(process.note(&(0..10).map(|section| (section, 100)).collect::<Vec<_>>()));
    if adds {
        assert!(process.note(&[(3, 200)]) && process.note(&[(3, 300), (4, 150)]));
    }
    home
}

fn resumed(home: &Home) -> Process {
    let process = Process::start(home);
    assert_eq!((&process.start, process.file.session()), (&SectionsStart::Resumed, SERVES), "{:?}", home.names());
    process
}

fn lost(home: &Home, why: &SectionsFreshReason) {
    let process = Process::start(home);
    assert_eq!((process.start, process.file.session()), (fresh(why.clone()), OTHER));
    assert!(process.file.bounds().is_empty());
}

#[test]
fn a_start_goes_on_with_what_was_written_last() {
    for adds in [false, true] {
        let home = served(adds);
        for _ in 0..2 {
            let process = resumed(&home);
            let expected = if adds { (300, 150, 100) } else { (100, 100, 100) };
            assert_eq!((at(&process.file, 3), at(&process.file, 4), at(&process.file, 5)), expected);
            assert_eq!((at(&process.file, 9), at(&process.file, 10)), (100, 0));
            assert_eq!(process.file.bounds().len(), if adds { 4 } else { 1 }, "those that are alike are one");
        }
        // The next process writes all of it anew, and adds to that.
        let mut process = resumed(&home);
        assert!(process.note(&[(4, 500)]) && process.note(&[(11, 1)]));
        drop(process);
        let process = resumed(&home);
        assert_eq!((at(&process.file, 4), at(&process.file, 11), at(&process.file, 5)), (500, 1, 100));
        let expected = ["F", "F.bounds", "F.lineage", "F.proof"];
        assert_eq!(home.names(), expected);
    }
}

/// Bounds that were noted count, whatever step the process dies at; or another session begins, which has nothing of the former.
#[test]
fn a_process_that_dies_at_any_step_goes_on_with_all_it_was_promised_or_not_at_all() {
    for (adds, steps) in [(false, 10), (true, 7)] {
        let mut ends = Vec::new();
        for step in 1.. {
            let home = served(true);
            let disk = home.disk();
            let mut process = Process::start_on(&home, &disk);
            if adds {
                assert!(process.note(&[(3, 400)]));
            }
            disk.arm(step, Fault::Dies);
            if process.note(&[(3, 999)]) {
                break;
            }
            let trace = disk.trace();
            drop(process);
            let mut next = Process::start(&home);
            let (before, after) = (if adds { 400 } else { 300 }, 999);
            let found = at(&next.file, 3);
            match &next.start {
                SectionsStart::Resumed => {
                    assert!([before, after].contains(&found), "{found} after {trace:?}");
                    assert_eq!((next.file.session(), at(&next.file, 5)), (SERVES, 100));
                    ends.push(if found == after { "new" } else { "old" });
                }
                SectionsStart::Fresh(reason) => {
                    assert_eq!((found, reason), (0, &SectionsFreshReason::Changed), "{trace:?}");
                    ends.push("fresh");
                }
            }
            // And it goes on from there.
            assert!(next.note(&[(3, 2_000)]), "{trace:?}");
            drop(next);
            let last = Process::start(&home);
            assert_eq!((last.start, at(&last.file, 3)), (SectionsStart::Resumed, 2_000), "after {trace:?}");
        }
        println!("adds: {adds}: {ends:?}");
        assert_eq!(ends.len(), steps);
        assert_eq!(
            ends.last(),
            Some(if adds { &"new" } else { &"fresh" }),
            "the last step is a flush, or the proof's rename"
        );
    }
}

/// Whatever step fails: the bounds may be used because they are durable, or because no start goes on; else it says that they may not.
#[test]
fn a_disk_that_fails_at_any_step_leaves_nothing_that_says_less_than_was_used() {
    let mut seen = BTreeSet::new();
    for fault in [Fault::Fails, Fault::DoneButFails] {
        for adds in [false, true] {
            for step in 1.. {
                let home = served(true);
                let disk = home.disk();
                let mut process = Process::start_on(&home, &disk);
                if adds {
                    assert!(process.note(&[(3, 400)]));
                }
                disk.arm(step, fault);
                let noted = process.file.note(&bounds(&[(3, 999)]), SINCE_BOOT);
                let failed = disk.trace().len() >= step && !matches!(noted, Ok(Noted::Durable));
                disk.arm(0, fault);
                // The disk works again; it is left alone for a while, and numbers are given on.
                assert!(matches!(
                    process.file.note(&bounds(&[(3, 1_500)]), SINCE_BOOT),
                    Ok(Noted::StillGivenUp | Noted::Durable)
                ));
                drop(process);
                let next = Process::start(&home);
                let found = at(&next.file, 3);
                match next.start {
                    SectionsStart::Resumed => assert_eq!(found, 1_500, "{fault:?} at {step}"),
                    SectionsStart::Fresh(_) => assert_eq!(found, 0),
                }
                seen.insert((adds, failed, next.start == SectionsStart::Resumed));
                if !failed {
                    break;
                }
            }
        }
    }
    assert!(seen.contains(&(true, true, false)) && seen.contains(&(false, true, false)), "{seen:?}");
}

#[test]
fn a_disk_that_works_again_gets_all_that_was_raised_meanwhile() {
    let home = served(true);
    let disk = home.disk();
    let mut process = Process::start_on(&home, &disk);
    disk.arm(3, Fault::Fails);
    assert!(matches!(process.file.note(&bounds(&[(3, 999)]), SINCE_BOOT), Ok(Noted::GivenUp(_))));
    let mut at_ms = |ms| process.file.note(&bounds(&[(5, 700)]), BootMs(SINCE_BOOT.0 + ms));
    assert!(matches!(at_ms(4_999), Ok(Noted::StillGivenUp)));
    assert!(matches!(at_ms(5_000), Ok(Noted::Durable)));
    drop(process);
    let process = resumed(&home);
    assert_eq!((at(&process.file, 3), at(&process.file, 5), at(&process.file, 4)), (999, 700, 150));
}

#[test]
fn what_can_be_neither_written_nor_removed_must_not_be_used() {
    let home = served(true);
    let disk = home.disk();
    let mut process = Process::start_on(&home, &disk);
    disk.arm(1, Fault::Dies);
    for _ in 0..3 {
        assert!(process.file.note(&bounds(&[(3, 999)]), SINCE_BOOT).is_err());
    }
    drop(process);
    assert_eq!(at(&resumed(&home).file, 3), 300);
}

#[test]
fn a_copy_of_the_folder_has_nothing_of_it() {
    let home = served(true);
    let copy = Home { folder: tempfile::tempdir().unwrap() };
    for file in home.names() {
        fs::copy(home.folder.path().join(&file), copy.folder.path().join(&file)).unwrap();
    }
    lost(&copy, &SectionsFreshReason::Session);
    resumed(&home);
}

/// Somebody puts files back while the serial file stays as it is.
#[test]
fn files_that_are_put_back_in_place_or_touched_are_not_gone_on_with() {
    type Deed = fn(&Path, &[Vec<u8>; 2]);
    let deeds: [(&str, Deed); 7] = [
        ("both, in place", |folder, [bounds, proof]| {
            fs::write(folder.join("F.bounds"), bounds).unwrap();
            fs::write(folder.join("F.proof"), proof).unwrap();
        }),
        ("the proof", |folder, [_, proof]| fs::write(folder.join("F.proof"), proof).unwrap()),
        ("the bounds", |folder, [bounds, _]| fs::write(folder.join("F.bounds"), bounds).unwrap()),
        ("both, by rename", |folder, [bounds, proof]| {
            for (file, bytes) in [("F.bounds", bounds), ("F.proof", proof)] {
                fs::write(folder.join("x"), bytes).unwrap();
                fs::rename(folder.join("x"), folder.join(file)).unwrap();
            }
        }),
        ("cut", |folder, _| {
            let file = fs::File::options().write(true).open(folder.join("F.bounds")).unwrap();
            file.set_len(file.metadata().unwrap().len() - 1).unwrap();
        }),
        ("touched", |folder, _| {
            until_it_shows(&folder.join("F.bounds"), || {
                fs::set_permissions(folder.join("F.bounds"), std::os::unix::fs::PermissionsExt::from_mode(0o640))
                    .unwrap();
            });
        }),
        ("linked", |folder, _| fs::hard_link(folder.join("F.bounds"), folder.join("second")).unwrap()),
    ];
    for (what, deed) in deeds {
        let home = served(false);
        let folder = home.folder.path();
        let backup = ["F.bounds", "F.proof"].map(|file| fs::read(folder.join(file)).unwrap());
        let mut process = resumed(&home);
        assert!(process.note(&[(3, 999)]));
        drop(process);
        deed(folder, &backup);
        let process = Process::start(&home);
        assert_eq!(process.start, fresh(SectionsFreshReason::Changed), "{what}");
        assert_eq!((at(&process.file, 3), &process.opened.start), (0, &StartKind::Resumed), "{what}");
    }
}

#[test]
fn without_the_serial_files_session_there_are_no_sections() {
    // The serial file is another one, formatted in its place.
    let home = served(true);
    fs::remove_file(home.path()).unwrap();
    format(&home.path(), 3, NOW, FIRST).unwrap();
    lost(&home, &SectionsFreshReason::Session);
    // It resumes its own, and what lies beside it is still not its.
    lost(&home, &SectionsFreshReason::Session);
    // Its session is another one since: touched.
    let home = served(true);
    until_it_shows(&home.path(), || {
        fs::set_permissions(home.path(), std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap()
    });
    lost(&home, &SectionsFreshReason::Session);
    lost(&home, &SectionsFreshReason::Session);
    // The machine was rebooted; whoever tells tokens to go on does not tell sections.
    let home = served(true);
    let disk = home.disk();
    disk.plan.lock().unwrap().boot = Some("0b".parse().unwrap());
    let opened = open_on(Arc::new(disk), Arc::new(home.place()), AfterReboot::Resume, THIRD).unwrap();
    assert_eq!(
        (&opened.start, opened.sections(&agent(), OTHER).1),
        (&StartKind::Resumed, fresh(SectionsFreshReason::Reboot))
    );
    // Masters raise sections for the agent of that name alone.
    let home = served(true);
    let opened = home.open_on(&home.disk(), THIRD).unwrap();
    let renamed = opened.sections(&"agent-2".parse().unwrap(), OTHER);
    assert_eq!((renamed.0.session(), renamed.1), (OTHER, fresh(SectionsFreshReason::AgentId)));
    drop(opened);
    // The lineage leaves room for a second copy.
    let home = served(true);
    let opened = Opened { renew_first: true, ..home.open_on(&home.disk(), THIRD).unwrap() };
    assert_eq!(opened.sections(&agent(), OTHER).1, fresh(SectionsFreshReason::SecondCopy));
}

#[test]
fn who_begins_anew_leaves_nothing_to_go_on_with() {
    let home = served(true);
    let mut process = resumed(&home);
    process.file.begin(OTHER, SINCE_BOOT).unwrap();
    drop(process);
    assert_eq!(home.names(), ["F", "F.lineage"]);
    lost(&home, &SectionsFreshReason::NoBounds);
}

#[test]
fn the_log_is_written_anew_before_it_gets_long() {
    let home = served(false);
    let mut process = resumed(&home);
    // Every other one, so that each is by itself.
    let all: Vec<(u32, u64)> = (0..5_000).map(|nth| (2 * nth, 1)).collect();
    assert!(process.note(&all));
    let len = || fs::metadata(home.folder.path().join("F.bounds")).unwrap().len();
    let anew = len();
    let mut longest = 0;
    for round in 102..140 {
        let raised: Vec<(u32, u64)> = all.iter().map(|(section, _)| (*section, round)).collect();
        assert!(process.note(&raised));
        longest = longest.max(len());
    }
    assert!(longest > 2 * anew && longest < anew + (1 << 20) + anew, "{anew} to {longest} bytes");
    drop(process);
    let process = resumed(&home);
    assert_eq!((at(&process.file, 0), at(&process.file, 9_998), process.file.bounds().len()), (139, 139, 5_005));
}

#[test]
fn of_sections_that_were_lost_the_number_is_gone_on_with_and_the_owner_is_not() {
    let home = served(true);
    let mut process = resumed(&home);
    let lost = |file: &SectionFile| file.bounds().lost(&Listed::default(), SINCE_BOOT);
    assert!(matches!(process.file.note(&lost(&process.file), SINCE_BOOT), Ok(Noted::Durable)));
    assert!(process.note(&[(4, 160)]));
    drop(process);
    let process = resumed(&home);
    let owners = |section| process.file.bounds().get(&name(), Section(section));
    assert_eq!(owners(3), Some(Bound { g: None, max_seq: 300 }));
    assert_eq!(owners(4), Some(Bound { g: Some(Generation(2)), max_seq: 160 }), "it was its owner again");
    assert_eq!((process.file.bounds().len(), lost(&process.file).len()), (4, 1));
}

#[test]
fn more_sections_than_masters_give_end_what_is_written_and_not_the_service() {
    let home = served(false);
    let mut process = resumed(&home);
    let most = u32::try_from(BOUNDS_MAX).unwrap();
    // Every other one, so that each is by itself, behind those that are there as one.
    let all: Vec<(u32, u64)> = (6..most + 5).map(|nth| (2 * nth, 7)).collect();
    assert!(process.note(&all), "as many as there are");
    drop(process);
    let mut process = resumed(&home);
    assert_eq!(at(&process.file, 2 * most + 8), 7);
    assert!(matches!(process.file.note(&bounds(&[(2 * most + 10, 1)]), SINCE_BOOT), Ok(Noted::GivenUp(_))));
    for section in 2 * most + 12..2 * most + 22 {
        assert!(matches!(process.file.note(&bounds(&[(section, 1)]), SINCE_BOOT), Ok(Noted::StillGivenUp)));
    }
    assert_eq!(process.file.bounds().len(), BOUNDS_MAX + 1, "no more are remembered");
    drop(process);
    lost(&home, &SectionsFreshReason::NoBounds);
}
