use super::*;
use std::os::unix::fs::PermissionsExt as _;

/// A running agent to whose file something happens. It must notice at its next write of either kind, stay out of the
/// file, and say so ever after.
fn taken_after(change: impl Fn(&Home)) -> FileLoss {
    let mut noticed = Vec::new();
    for holdings_only in [false, true] {
        let home = Home::new();
        let mut opened = home.started();
        change(&home);
        let before = (fs::read(home.path()).ok(), fs::read(home.lineage()).ok(), home.names());
        let Opened { file, contents, .. } = &mut opened;
        contents.blocks[0] = Some(block(2000));
        let first = if holdings_only { file.write_holdings(&holdings(2)) } else { file.write(contents, &holdings(2)) };
        let Err(WriteError::Lost(taken)) = first else { panic!("{first:?}") };
        noticed.push(taken);
        assert!(matches!(file.write(contents, &holdings(2)), Err(WriteError::Lost(again)) if again == taken));
        assert!(matches!(file.write_holdings(&holdings(2)), Err(WriteError::Lost(again)) if again == taken));
        assert_eq!((fs::read(home.path()).ok(), fs::read(home.lineage()).ok(), home.names()), before);
    }
    assert_eq!(noticed[0], noticed[1]);
    noticed[0]
}

#[test]
fn what_was_written_is_what_the_next_start_finds() {
    let home = Home::new();
    let mut opened = home.started();
    let Opened { file, contents, .. } = &mut opened;
    contents.header.time_mark = WallMs(NOW.0 + 3_000);
    contents.blocks[0] = Some(block(u64::MAX));
    contents.blocks[2] =
        Some(Block { name: BlockName::from(&"orders".parse().unwrap()), kind: Kind::String, ..block(5) });
    file.write(contents, &holdings(2)).unwrap();
    file.write_holdings(&holdings(3)).unwrap();
    assert_eq!(contents.header.write_counter, 3);
    assert_eq!(home.names(), ["F", "F.lineage"], "nothing is left over");
    for path in [home.path(), home.lineage()] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o7777, 0o600);
    }
    let written = contents.clone();
    drop(opened);
    let opened = home.open(THIRD);
    assert_eq!((opened.start, opened.contents, opened.holdings), (StartKind::Resumed, written, holdings(3)));
    assert_eq!(opened.file.path(), home.place().path);
}

#[test]
fn every_write_is_flushed_before_it_is_put_in_place_and_before_it_returns() {
    let home = Home::new();
    drop(home.started());
    let disk = home.disk();
    let mut opened = home.open_on(&disk, THIRD).unwrap();
    disk.arm(0, Fault::Fails);
    opened.file.write(&mut opened.contents, &holdings(2)).unwrap();
    let file = ["unlink", "create", "try_lock", "write", "fsync"];
    let announced = ["stat", "unlink", "create_after", "write", "rename"];
    let place = ["rename", "stat_name", "stat"];
    let lineage = ["unlink", "create", "write", "rename", "fsync", "fsync_folder"];
    assert_eq!(disk.trace(), [&["stat_name"], &file[..], &announced, &place, &lineage].concat());
    assert_eq!(disk.trace().len(), WRITE_STEPS);
    disk.arm(0, Fault::Fails);
    opened.contents.blocks[0] = Some(block(10));
    opened.file.write(&mut opened.contents, &holdings(2)).unwrap();
    assert_eq!(disk.trace(), [&["stat_name"], &file[..], &place, &lineage].concat(), "a lowered mark is not announced");
    disk.arm(0, Fault::Fails);
    opened.file.write_holdings(&holdings(3)).unwrap();
    assert_eq!(disk.trace(), [&["stat_name"], &lineage[..]].concat());
}

#[test]
fn a_file_that_is_gone_or_another_is_noticed() {
    assert_eq!(taken_after(|home| fs::remove_file(home.path()).unwrap()), FileLoss::Missing);
    let other = |home: &Home| home.folder.path().join("other");
    assert_eq!(taken_after(|home| fs::rename(home.path(), other(home)).unwrap()), FileLoss::Missing);
    let replaced = |home: &Home| {
        fs::copy(home.path(), other(home)).unwrap();
        fs::rename(other(home), home.path()).unwrap();
    };
    assert_eq!(taken_after(replaced), FileLoss::Replaced);
    let formatted = |home: &Home| {
        fs::remove_file(home.path()).unwrap();
        format(&home.path(), 3, NOW, THIRD).unwrap();
        drop(home.open(THIRD));
    };
    assert_eq!(taken_after(formatted), FileLoss::Replaced);
}

#[test]
fn a_file_that_was_touched_is_noticed() {
    let mode = |home: &Home| fs::set_permissions(home.path(), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(taken_after(|home| until_it_shows(&home.path(), || mode(home))), FileLoss::Changed);
    let restored = |home: &Home| {
        let bytes = fs::read(home.path()).unwrap();
        until_it_shows(&home.path(), || fs::write(home.path(), &bytes).unwrap());
    };
    assert_eq!(taken_after(restored), FileLoss::Changed);
    assert_eq!(
        taken_after(|home| fs::hard_link(home.path(), home.folder.path().join("other")).unwrap()),
        FileLoss::Linked
    );
}

#[test]
fn a_file_once_lost_is_not_ours_again_when_it_comes_back() {
    let home = Home::new();
    let mut opened = home.started();
    let other = home.folder.path().join("other");
    fs::rename(home.path(), &other).unwrap();
    assert!(matches!(opened.file.write_holdings(&holdings(2)), Err(WriteError::Lost(FileLoss::Missing))));
    fs::rename(&other, home.path()).unwrap();
    assert!(matches!(opened.file.write_holdings(&holdings(2)), Err(WriteError::Lost(FileLoss::Missing))));
}

#[test]
fn a_file_put_at_a_temporary_name_in_the_midst_of_a_write_is_not_written_into() {
    let home = Home::new();
    drop(home.started());
    let disk = home.disk();
    let mut opened = home.open_on(&disk, THIRD).unwrap();
    for name in ["F.new", "F.lineage.new"] {
        let path = home.folder.path().join(name);
        let trap = path.clone();
        // Before each file that a write makes: the trap is sprung at the one whose name it has.
        disk.plan.lock().unwrap().meanwhile = Some((
            "create",
            Box::new(move || {
                fs::write(&trap, "foreign").unwrap();
            }),
        ));
        let written = opened.file.write(&mut opened.contents, &holdings(2));
        assert!(
            matches!(&written, Err(WriteError::Io(e)) if e.source.kind() == io::ErrorKind::AlreadyExists),
            "{name}"
        );
        disk.plan.lock().unwrap().meanwhile = None;
        opened.file.write(&mut opened.contents, &holdings(3)).unwrap();
        assert!(!path.exists());
    }
}

#[test]
fn a_file_replaced_in_the_midst_of_a_write_is_noticed() {
    // Another file in its place after our rename: it must not be taken for ours.
    let home = Home::new();
    drop(home.started());
    let (disk, path) = (home.disk(), home.path());
    let mut opened = home.open_on(&disk, THIRD).unwrap();
    let mut looks = 0;
    disk.plan.lock().unwrap().meanwhile = Some((
        "stat_name",
        Box::new(move || {
            looks += 1;
            if looks != 2 {
                return;
            }
            let other = path.with_extension("other");
            fs::copy(&path, &other).unwrap();
            fs::rename(&other, &path).unwrap();
        }),
    ));
    let written = opened.file.write(&mut opened.contents, &holdings(2));
    assert!(matches!(written, Err(WriteError::Lost(FileLoss::Replaced))), "{written:?}");
}

#[test]
fn left_overs_and_traps_at_the_temporary_names_do_no_harm() {
    let home = Home::new();
    let mut opened = home.started();
    let victim = home.folder.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    for name in ["F.new", "F.lineage.new"] {
        std::os::unix::fs::symlink(&victim, home.folder.path().join(name)).unwrap();
    }
    opened.file.write(&mut opened.contents, &holdings(2)).unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    for name in ["F.new", "F.lineage.new"] {
        fs::write(home.folder.path().join(name), vec![b'x'; 100_000]).unwrap();
    }
    opened.file.write(&mut opened.contents, &holdings(3)).unwrap();
    assert_eq!(home.names(), ["F", "F.lineage", "victim"]);
    drop(opened);
    assert_eq!(home.open(THIRD).holdings, holdings(3));
}

#[test]
fn contents_of_another_session_or_of_fewer_blocks_are_not_written() {
    let home = Home::new();
    let mut opened = home.started();
    let before = fs::read(home.path()).unwrap();
    let changes: [fn(&mut Contents); 4] = [
        |contents| contents.header.session = FIRST,
        |contents| contents.blocks.truncate(contents.blocks.len() - 1),
        |contents| contents.header.time_mark = WallMs(-1),
        |contents| contents.blocks[1] = contents.blocks[0].clone(),
    ];
    for change in changes {
        let mut contents = opened.contents.clone();
        change(&mut contents);
        let written = opened.file.write(&mut contents, &holdings(2));
        assert!(
            matches!(&written, Err(WriteError::Io(e)) if e.source.kind() == io::ErrorKind::InvalidInput),
            "{written:?}"
        );
        assert_eq!(fs::read(home.path()).unwrap(), before);
    }
    let too_many = Holdings { leases: vec![holdings(1).leases[0].clone(); 400_000], ..holdings(1) };
    assert!(matches!(opened.file.write_holdings(&too_many), Err(WriteError::Io(_))));
    opened.file.write(&mut opened.contents, &holdings(2)).unwrap();
}

/// Steps of a write that lowers a mark.
const LOWERING_STEPS: usize = 15;
/// Steps of any other whole write.
pub(super) const WRITE_STEPS: usize = 20;

#[test]
fn a_fault_at_any_step_leaves_the_old_bounds_and_the_next_write_works() {
    for fault in [Fault::Fails, Fault::DoneButFails] {
        for at in 1..=WRITE_STEPS {
            let home = Home::new();
            drop(home.started());
            let disk = home.disk();
            let mut opened = home.open_on(&disk, THIRD).unwrap();
            let Opened { file, contents, .. } = &mut opened;
            disk.arm(at, fault);
            contents.blocks[0] = Some(block(2000));
            let written = file.write(contents, &holdings(2));
            let steps = disk.trace();
            assert!(matches!(written, Err(WriteError::Io(_))), "{fault:?} {steps:?}: {written:?}");
            let on_disk = decode(&fs::read(home.path()).unwrap()).unwrap();
            assert!([1000, 2000].contains(&serial(&on_disk)), "the old bounds are durable: {steps:?}");

            contents.blocks[0] = Some(block(3000));
            file.write(contents, &holdings(3)).unwrap();
            let trace = disk.trace();
            assert!(trace[at..].contains(&"create"), "the next try makes a new file: {trace:?}");
            let written = contents.clone();
            assert_eq!(home.names(), ["F", "F.lineage"]);
            assert!(matches!(home.try_open(FIRST), Err(SerialFileError::Locked(_))), "{fault:?} {steps:?}");
            drop(opened);
            let opened = home.open(THIRD);
            assert_eq!((opened.start, opened.contents, opened.holdings), (StartKind::Resumed, written, holdings(3)));
        }
        let home = Home::new();
        let disk = home.disk();
        let mut opened = home.open_on(&disk, SECOND).unwrap();
        disk.arm(WRITE_STEPS + 1, fault);
        opened.file.write(&mut opened.contents, &holdings(2)).unwrap();
    }
}

/// A clean stop hands serials back; the write fails after its rename, and then holdings are written. The lineage must
/// not vouch for marks that the caller was told are not durable.
#[test]
fn holdings_after_a_failed_write_come_with_the_marks_that_hold() {
    for fault in [Fault::Fails, Fault::DoneButFails] {
        for at in 1..=LOWERING_STEPS {
            let home = Home::new();
            drop(home.started());
            let disk = home.disk();
            let mut opened = home.open_on(&disk, THIRD).unwrap();
            let Opened { file, contents, .. } = &mut opened;
            contents.blocks[0] = Some(block(1500));
            file.write(contents, &holdings(1)).unwrap();
            disk.arm(at, fault);
            contents.blocks[0] = Some(block(10));
            file.write(contents, &holdings(2)).unwrap_err();
            let steps = disk.trace();
            file.write_holdings(&holdings(3)).unwrap();
            drop(opened);
            let opened = home.open(THIRD);
            assert_eq!((&opened.start, opened.holdings), (&StartKind::Resumed, holdings(3)), "{fault:?} {steps:?}");
            assert_eq!(serial(&opened.contents), 1500, "{fault:?} {steps:?}");
        }
    }
}

/// Twin of the above: a lineage written right away for the file in place resumes below what may have been minted.
#[test]
fn twin_a_lineage_for_unconfirmed_marks_resumes_below_them() {
    let home = Home::new();
    drop(home.started());
    let disk = home.disk();
    let mut opened = home.open_on(&disk, THIRD).unwrap();
    disk.arm(12, Fault::Fails);
    opened.contents.blocks[0] = Some(block(10));
    opened.file.write(&mut opened.contents, &holdings(2)).unwrap_err();
    assert_eq!(disk.trace().get(6..12), Some(&["rename", "stat_name", "stat", "unlink", "create", "write"][..]));
    drop(opened);
    let Found::Whole(mut lineage) = Found::decode(&fs::read(home.lineage()).unwrap()) else { panic!() };
    lineage.seen.identity = Stat::from(&fs::metadata(home.path()).unwrap()).identity;
    lineage.seen.write_counter = decode(&fs::read(home.path()).unwrap()).unwrap().header.write_counter;
    fs::write(home.lineage(), lineage.encode().unwrap()).unwrap();
    let opened = home.open(THIRD);
    assert_eq!((opened.start, serial(&opened.contents)), (StartKind::Resumed, 10), "although 1000 were promised");
}

#[test]
fn a_fault_at_any_step_of_holdings_leaves_marks_and_session() {
    for fault in [Fault::Fails, Fault::DoneButFails] {
        for at in 1..=7 {
            let home = Home::new();
            drop(home.started());
            for retry in [false, true] {
                let disk = home.disk();
                let mut opened = home.open_on(&disk, THIRD).unwrap();
                disk.arm(at, fault);
                assert!(matches!(opened.file.write_holdings(&holdings(2)), Err(WriteError::Io(_))));
                if retry {
                    opened.file.write_holdings(&holdings(3)).unwrap();
                }
                drop(opened);
                let opened = home.open(THIRD);
                assert_eq!((opened.start, serial(&opened.contents)), (StartKind::Resumed, 1000));
                let rseq = opened.holdings.rseq;
                assert!(if retry { rseq == 3 } else { [1, 2].contains(&rseq) }, "{rseq}");
            }
        }
    }
}

#[test]
fn a_disk_that_fails_twice_at_the_worst_moments_is_survived() {
    // The fsync of the new file, the rename of its announcement, its own, both looks at it, and the last three steps of
    // the lineage.
    const WORST: [usize; 9] = [6, 11, 12, 13, 14, 15, 18, 19, 20];
    for first in WORST {
        for second in WORST {
            let home = Home::new();
            drop(home.started());
            let disk = home.disk();
            let mut opened = home.open_on(&disk, THIRD).unwrap();
            let Opened { file, contents, .. } = &mut opened;
            // After a failure from its own rename on, the next write announces nothing.
            let second_at = if first >= 12 && second >= 12 { second - 5 } else { second };
            for (at, mark) in [(first, 2000), (second_at, 3000)] {
                disk.arm(at, Fault::DoneButFails);
                contents.blocks[0] = Some(block(mark));
                assert!(matches!(file.write(contents, &holdings(2)), Err(WriteError::Io(_))), "{first} {second}");
            }
            disk.arm(0, Fault::Fails);
            contents.blocks[0] = Some(block(4000));
            file.write(contents, &holdings(3)).unwrap();
            drop(opened);
            let opened = home.open(THIRD);
            assert_eq!((opened.start, serial(&opened.contents)), (StartKind::Resumed, 4000), "{first} {second}");
        }
    }
}

#[test]
fn a_full_disk_is_told_and_passes() {
    let home = Home::new();
    drop(home.started());
    let disk = home.disk();
    let mut opened = home.open_on(&disk, THIRD).unwrap();
    disk.arm(5, Fault::Fails);
    let error = opened.file.write(&mut opened.contents, &holdings(2)).unwrap_err();
    assert_eq!(disk.trace().get(4), Some(&"write"));
    assert!(error.to_string().starts_with("cannot write the new serial file: "), "{error}");
    assert_eq!(home.names(), ["F", "F.lineage"], "half a file takes room that the disk lacks");
}
