use super::write::WRITE_STEPS;
use super::*;

/// The state that a start finds after its predecessor died at the step with this name and number, of a write that raises the mark from 1000 to 2000
/// and the holdings from 1 to 2.
fn expected(steps: &[&str]) -> (StartKind, u64, u64) {
    let done = |name| steps[..steps.len() - 1].iter().filter(|step| **step == name).count();
    match done("rename") {
        0 => (StartKind::Resumed, 1000, 1),
        1 => (StartKind::Resumed, 1000, 2),
        _ => (StartKind::Resumed, 2000, 2),
    }
}

#[test]
fn a_process_that_dies_at_any_step_of_a_write_loses_nothing_it_was_promised() {
    let mut died = 0;
    for at in 1.. {
        let home = Home::new();
        drop(home.started());
        let disk = home.disk();
        let mut opened = home.open_on(&disk, THIRD).unwrap();
        disk.arm(at, Fault::Dies);
        opened.contents.blocks[0] = Some(block(2000));
        if opened.file.write(&mut opened.contents, &holdings(2)).is_ok() {
            break;
        }
        died += 1;
        drop(opened);
        let steps = disk.trace();
        let opened = home.open(THIRD);
        let (start, mark, rseq) = expected(&steps);
        assert_eq!((&opened.start, serial(&opened.contents), opened.holdings.rseq), (&start, mark, rseq), "{steps:?}");
        assert_eq!(opened.contents.header.session, SECOND, "a killed process keeps its tokens: {steps:?}");
        goes_on(&home, opened);
    }
    assert_eq!(died, WRITE_STEPS);
}

/// A clean stop hands serials back. Nothing vouches for the lower mark before it is whole: the process may still use the
/// higher one if the write fails.
#[test]
fn a_process_that_dies_while_it_lowers_a_mark_goes_on_as_before_or_with_a_new_session() {
    let mut starts = Vec::new();
    for at in 1.. {
        let home = Home::new();
        drop(home.started());
        let disk = home.disk();
        let mut opened = home.open_on(&disk, THIRD).unwrap();
        disk.arm(at, Fault::Dies);
        opened.contents.blocks[0] = Some(block(10));
        if opened.file.write(&mut opened.contents, &holdings(2)).is_ok() {
            break;
        }
        drop(opened);
        let opened = home.open(THIRD);
        starts.push((opened.start.to_string(), serial(&opened.contents)));
        goes_on(&home, opened);
    }
    starts.dedup();
    let expected = [("resumed", 1000), ("fresh (lineage_behind)", 10), ("resumed", 10)];
    assert_eq!(starts, expected.map(|(start, mark)| (start.to_owned(), mark)));
}

/// A name that is new: the file grows by its block.
fn grows(contents: &mut Contents) {
    contents.blocks.push(Some(Block { name: BlockName::from(&"more".parse().unwrap()), ..block(7) }));
}

/// The same in the place of a name that gives nothing any more.
fn gives_way(contents: &mut Contents) {
    contents.blocks[1] = Some(Block { name: BlockName::from(&"more".parse().unwrap()), ..block(7) });
    contents.header.names_from = NOW;
}

#[test]
fn a_process_that_dies_at_any_step_while_a_name_gets_its_block_resumes_with_all_blocks() {
    for change in [grows, gives_way] {
        let mut died = 0;
        for at in 1.. {
            let home = Home::new();
            drop(home.started());
            let disk = home.disk();
            let mut opened = home.open_on(&disk, THIRD).unwrap();
            let before = opened.contents.clone();
            disk.arm(at, Fault::Dies);
            change(&mut opened.contents);
            if opened.file.write(&mut opened.contents, &holdings(2)).is_ok() {
                break;
            }
            died += 1;
            let after = opened.contents.clone();
            drop(opened);
            let steps = disk.trace();
            let opened = home.open(THIRD);
            assert_eq!(opened.start, StartKind::Resumed, "{steps:?}");
            let placed = steps[..steps.len() - 1].iter().filter(|step| **step == "rename").count() > 1;
            let found = if placed { &after } else { &before };
            assert_eq!(opened.contents, *found, "{steps:?}");
            goes_on(&home, opened);
        }
        assert_eq!(died, WRITE_STEPS);
    }
}

#[test]
fn a_fault_at_any_step_while_a_name_gets_its_block_leaves_the_others_and_the_next_write_gives_it() {
    for (change, fault) in
        [grows, gives_way].into_iter().flat_map(|c| [Fault::Fails, Fault::DoneButFails].map(|f| (c, f)))
    {
        for at in 1..=WRITE_STEPS {
            let home = Home::new();
            drop(home.started());
            let disk = home.disk();
            let mut opened = home.open_on(&disk, THIRD).unwrap();
            let Opened { file, contents, .. } = &mut opened;
            let before = contents.clone();
            disk.arm(at, fault);
            change(contents);
            assert!(matches!(file.write(contents, &holdings(2)), Err(WriteError::Io(_))), "{:?}", disk.trace());
            // What was there before is still durable, whichever file is in place; others go on with it.
            *contents = before;
            contents.blocks[0] = Some(block(3000));
            file.write(contents, &holdings(3)).unwrap();
            change(contents);
            file.write(contents, &holdings(4)).unwrap();
            let written = contents.clone();
            assert_eq!(home.names(), ["F", "F.lineage"]);
            drop(opened);
            let opened = home.open(THIRD);
            assert_eq!((opened.start, opened.contents, opened.holdings), (StartKind::Resumed, written, holdings(4)));
        }
    }
}

/// A file used while the clock was an hour ahead of `NOW`.
fn ahead() -> Home {
    let home = Home::new();
    let mut opened = home.started();
    opened.contents.blocks[0] = Some(Block { bucket: 498_613, ..block(1000) });
    opened.contents.header.time_mark = WallMs(NOW.0 + 3_600_000);
    opened.file.write(&mut opened.contents, &holdings(1)).unwrap();
    home
}

#[test]
fn whatever_step_of_forgetting_the_clock_a_process_dies_at_no_session_mints_again_what_it_may_have_minted() {
    let mut found = BTreeSet::new();
    for fault in [Fault::Dies, Fault::Fails, Fault::DoneButFails] {
        for at in 1.. {
            let home = ahead();
            let disk = home.disk();
            disk.arm(at, fault);
            let done = forget_clock_on(Arc::new(disk.clone()), Arc::new(home.place()), NOW, THIRD);
            let steps = disk.trace();
            let opened = home.open(FIRST);
            let Contents { header, blocks } = &opened.contents;
            let mark = header.time_mark;
            let bucket = blocks[0].as_ref().unwrap().bucket;
            assert!([(WallMs(NOW.0 + 3_600_000), 498_613), (NOW, 0)].contains(&(mark, bucket)), "{steps:?}");
            if header.session == SECOND {
                assert_eq!((mark, &opened.start), (WallMs(NOW.0 + 3_600_000), &StartKind::Resumed), "{steps:?}");
            }
            found.insert((header.session, mark == NOW));
            if done.is_ok() {
                assert_eq!((&opened.start, header.session, mark), (&StartKind::Resumed, THIRD, NOW));
                assert_eq!(opened.holdings, Holdings { former: vec![SECOND], ..Holdings::default() });
                assert!(forget_clock(&home.path(), NOW, FIRST).unwrap_err().to_string().contains("in use"));
                break;
            }
            goes_on(&home, opened);
        }
    }
    let all = [(FIRST, false), (FIRST, true), (SECOND, false), (THIRD, true)];
    assert!(found.is_subset(&all.into()) && found.contains(&all[2]) && found.contains(&all[3]), "{found:?}");
}

/// A backup taken in the midst of a write has a lineage that names a file to come. Put back in place, onto a later file
/// that even got the same inode, it is another file: it was not born then.
#[test]
fn a_backup_from_the_midst_of_a_write_put_back_in_place_is_fresh() {
    let mut same_inode = 0;
    for _ in 0..8 {
        let home = Home::new();
        drop(home.started());
        let disk = home.disk();
        let mut opened = home.open_on(&disk, THIRD).unwrap();
        // Dies right after the rename of the serial file.
        disk.arm(13, Fault::Dies);
        opened.contents.blocks[0] = Some(block(2000));
        opened.file.write(&mut opened.contents, &holdings(2)).unwrap_err();
        assert_eq!(disk.trace().get(11), Some(&"rename"));
        drop(opened);
        let backup = (fs::read(home.path()).unwrap(), fs::read(home.lineage()).unwrap());
        let inode = fs::metadata(home.path()).unwrap().ino();
        let mut opened = home.open(THIRD);
        assert_eq!((&opened.start, serial(&opened.contents)), (&StartKind::Resumed, 2000));
        for mark in [3000, 4000, 5000, 6000] {
            opened.contents.blocks[0] = Some(block(mark));
            opened.file.write(&mut opened.contents, &holdings(3)).unwrap();
            if fs::metadata(home.path()).unwrap().ino() == inode {
                same_inode += 1;
                break;
            }
        }
        drop(opened);
        fs::write(home.path(), backup.0).unwrap();
        fs::write(home.lineage(), backup.1).unwrap();
        let opened = home.open(FIRST);
        assert!(matches!(opened.start, StartKind::Fresh(_)), "{:?}", opened.start);
    }
    println!("{same_inode} of 8 times the later file had the inode of the earlier one");
}

/// Steps of a fresh start: two of preparation, nine of S1 to S5, and the write.
const START_STEPS: usize = 2 + 9 + WRITE_STEPS;

/// A file in whose place a copy of it was put; its next start is fresh.
fn restored() -> Home {
    let home = Home::new();
    drop(home.started());
    let copy = home.folder.path().join("copy");
    fs::copy(home.path(), &copy).unwrap();
    fs::rename(&copy, home.path()).unwrap();
    home
}

/// The holdings but for sessions that it gives up.
fn held(opened: &Opened) -> Holdings {
    Holdings { former: Vec::new(), ..opened.holdings.clone() }
}

#[test]
fn a_process_that_dies_at_any_step_of_a_fresh_start_keeps_the_marks_and_no_token() {
    let mut died = 0;
    for at in 1.. {
        let home = restored();
        let disk = home.disk();
        disk.arm(at, Fault::Dies);
        if home.open_on(&disk, THIRD).is_ok() {
            break;
        }
        died += 1;
        let steps = disk.trace();
        let opened = home.open(FIRST);
        assert_eq!(serial(&opened.contents), 1000);
        assert_eq!(held(&opened), Holdings::default(), "the tokens of the old session are not a copy's: {steps:?}");
        assert!(!opened.holdings.former.contains(&SECOND), "nor is it a copy's to give them up: {steps:?}");
        let session = opened.contents.header.session;
        match opened.start {
            // It died with the new file in place and named in the lineage; nobody has used the session it drew.
            StartKind::Resumed => {
                assert_eq!(session, THIRD);
                let done = &steps[..steps.len() - 1];
                assert!(done.iter().filter(|step| **step == "rename").count() >= 2, "{steps:?}");
            }
            StartKind::Fresh(_) => assert_eq!(session, FIRST, "{steps:?}"),
        }
        goes_on(&home, opened);
    }
    assert_eq!(died, START_STEPS);
}

#[test]
fn a_start_that_fails_at_any_step_names_it_and_the_next_one_works() {
    for fault in [Fault::Fails, Fault::DoneButFails] {
        let mut failed = 0;
        for at in 1.. {
            let home = restored();
            let disk = home.disk();
            disk.arm(at, fault);
            let Err(error) = home.open_on(&disk, THIRD) else { break };
            failed += 1;
            let shown = error.to_string();
            assert!(
                matches!(
                    error,
                    SerialFileError::Io { .. }
                        | SerialFileError::BootId(_)
                        | SerialFileError::Write { source: WriteError::Io(_), .. }
                ),
                "{shown}"
            );
            assert!(!shown.contains('\n'));
            let opened = home.open(FIRST);
            assert_eq!(serial(&opened.contents), 1000);
            assert_eq!(held(&opened), Holdings::default());
            goes_on(&home, opened);
        }
        assert_eq!(failed, START_STEPS);
    }
}

/// The file is as usable as ever: it is written, dropped, and resumes.
fn goes_on(home: &Home, mut opened: Opened) {
    opened.contents.blocks[0] = Some(block(9000));
    opened.file.write(&mut opened.contents, &holdings(9)).unwrap();
    let session = opened.contents.header.session;
    drop(opened);
    assert_eq!(home.names().iter().filter(|name| name.ends_with("new")).count(), 0, "{:?}", home.names());
    let opened = home.open(SessionId(0));
    assert_eq!((opened.start, opened.contents.header.session), (StartKind::Resumed, session));
    assert_eq!((serial(&opened.contents), opened.holdings), (9000, holdings(9)));
}

/// Twin of the write's steps: the way they replace, overwriting in place, leaves a file that stops every start if the
/// process dies in the midst of it.
#[test]
fn twin_a_file_overwritten_in_place_does_not_survive_a_death() {
    let home = Home::new();
    let mut opened = home.started();
    opened.contents.blocks[0] = Some(block(2000));
    let bytes = encode(&opened.contents).unwrap();
    drop(opened);
    fs::write(home.path(), &bytes[..bytes.len() / 2]).unwrap();
    assert!(matches!(home.try_open(THIRD), Err(SerialFileError::Damaged { .. })));
}
