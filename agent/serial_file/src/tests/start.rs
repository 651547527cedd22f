use super::*;
use std::os::unix::fs::{PermissionsExt as _, symlink};

fn refused(home: &Home) -> String {
    let before = (fs::read(home.path()).ok(), fs::read(home.lineage()).ok());
    let error = home.try_open(THIRD).unwrap_err().to_string();
    assert_eq!((fs::read(home.path()).ok(), fs::read(home.lineage()).ok()), before, "nothing is repaired silently");
    assert!(!error.contains('\n'), "{error}");
    error
}

/// Starts after `change`, the last acknowledged write having been 1000 serials, and tells how the session goes on.
fn start_after(change: impl FnOnce(&Home)) -> StartKind {
    let home = Home::new();
    drop(home.started());
    change(&home);
    let opened = home.open(THIRD);
    assert_eq!(serial(&opened.contents), 1000);
    assert_eq!(opened.contents.header.time_mark, NOW);
    match opened.start {
        StartKind::Resumed => {
            assert_eq!((opened.contents.header.session, &opened.holdings), (SECOND, &holdings(1)));
        }
        StartKind::Fresh(_) => {
            let gives_up = Holdings { former: opened.holdings.former.clone(), ..Holdings::default() };
            assert_eq!((opened.contents.header.session, &opened.holdings), (THIRD, &gives_up));
            let durable = decode(&fs::read(home.path()).unwrap()).unwrap();
            assert_eq!(durable, opened.contents, "the new session is in the file before it is used");
        }
    }
    opened.start
}

fn fresh(reason: FreshReason) -> StartKind {
    StartKind::Fresh(reason)
}

#[test]
fn a_missing_file_stops_the_start_and_names_the_remedy() {
    let home = Home::new();
    fs::remove_file(home.path()).unwrap();
    let error = refused(&home);
    assert!(error.starts_with("no serial file at /"), "{error}");
    assert!(error.contains(&format!("`uniq_generator --format --serial-file {}`", home.place().path.display())));
}

#[test]
fn every_flipped_byte_stops_the_start() {
    let home = Home::new();
    drop(home.started());
    let bytes = fs::read(home.path()).unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x01;
        fs::write(home.path(), &damaged).unwrap();
        let error = refused(&home);
        assert!(
            error.contains("is not a serial file to go on with") && error.contains("--format"),
            "byte {at}: {error}"
        );
    }
    fs::write(home.path(), &bytes).unwrap();
    assert_eq!(serial(&home.open(THIRD).contents), 1000);
}

#[test]
fn every_other_length_stops_the_start() {
    let home = Home::new();
    drop(home.started());
    let bytes = fs::read(home.path()).unwrap();
    for len in 0..bytes.len() {
        fs::write(home.path(), &bytes[..len]).unwrap();
        assert!(refused(&home).contains("bytes"), "cut to {len}");
    }
    for more in [1, 68, FILE_LEN_MAX, 4 * FILE_LEN_MAX] {
        fs::write(home.path(), [bytes.clone(), vec![0; more]].concat()).unwrap();
        assert!(refused(&home).contains("bytes where 276 are due"));
    }
}

#[test]
fn another_version_is_named() {
    let home = Home::new();
    let mut bytes = fs::read(home.path()).unwrap();
    bytes[0] = 2;
    fs::write(home.path(), bytes).unwrap();
    let error = refused(&home);
    assert!(error.contains("version 2, this program reads 1") && error.contains("--format"), "{error}");
}

#[test]
fn what_is_no_plain_file_is_refused() {
    let home = Home::new();
    drop(home.started());
    let other = home.folder.path().join("other");
    fs::hard_link(home.path(), &other).unwrap();
    assert!(refused(&home).contains("2 names"));
    fs::remove_file(home.path()).unwrap();
    symlink(&other, home.path()).unwrap();
    assert!(refused(&home).contains("symbolic link"));
    fs::remove_file(home.path()).unwrap();
    fs::create_dir(home.path()).unwrap();
    assert!(home.try_open(THIRD).unwrap_err().to_string().contains("not a regular file"));
    fs::remove_dir(home.path()).unwrap();
    // A pipe that nobody writes: it must be refused, not waited for.
    rustix::fs::mknodat(rustix::fs::CWD, home.path(), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(home.try_open(THIRD).unwrap_err().to_string().contains("not a regular file"));
    assert!(matches!(
        open(&home.folder.path().join("no/F"), AfterReboot::Fresh, THIRD),
        Err(SerialFileError::NoFolder(_))
    ));
}

#[test]
fn the_first_start_is_fresh_and_the_next_one_resumes() {
    let home = Home::new();
    let opened = home.open(SECOND);
    assert_eq!(opened.start, fresh(FreshReason::NoLineage));
    assert_eq!(opened.contents.header.session, SECOND);
    assert_eq!(opened.contents.header.write_counter, 1);
    assert_eq!(home.names(), ["F", "F.lineage"]);
    drop(opened);
    let opened = home.open(THIRD);
    assert_eq!((opened.start, opened.contents.header.session), (StartKind::Resumed, SECOND));
    assert_eq!(opened.contents.header.write_counter, 1, "a start that resumes writes nothing");
}

#[test]
fn after_a_drop_the_session_resumes() {
    assert_eq!(start_after(|_| ()), StartKind::Resumed);
    // Reading it, by whatever program, is not touching it; nor is moving its folder.
    assert_eq!(
        start_after(|home| {
            fs::read(home.path()).unwrap();
            fs::copy(home.path(), home.folder.path().join("copy")).unwrap();
            inspect(&home.path()).unwrap();
        }),
        StartKind::Resumed
    );
}

#[test]
fn a_copied_folder_starts_fresh_and_the_original_resumes() {
    let (home, elsewhere) = (Home::new(), Home { folder: tempfile::tempdir().unwrap() });
    drop(home.started());
    fs::copy(home.path(), elsewhere.path()).unwrap();
    fs::copy(home.lineage(), elsewhere.lineage()).unwrap();
    let copy = elsewhere.open(THIRD);
    assert_eq!((copy.start, serial(&copy.contents)), (fresh(FreshReason::FileCopied), 1000));
    assert_eq!(copy.holdings, Holdings::default());
    assert_eq!(home.open(THIRD).start, StartKind::Resumed);
}

#[test]
fn whatever_is_done_to_the_file_in_place_makes_it_fresh() {
    let same_bytes = |home: &Home| {
        let bytes = fs::read(home.path()).unwrap();
        until_it_shows(&home.path(), || fs::write(home.path(), &bytes).unwrap());
    };
    assert_eq!(start_after(same_bytes), fresh(FreshReason::FileChanged));
    let chmod = |home: &Home| {
        until_it_shows(&home.path(), || fs::set_permissions(home.path(), fs::Permissions::from_mode(0o600)).unwrap());
    };
    assert_eq!(start_after(chmod), fresh(FreshReason::FileChanged));
    let touch = |home: &Home| {
        let file = File::options().write(true).open(home.path()).unwrap();
        until_it_shows(&home.path(), || file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap());
    };
    assert_eq!(start_after(touch), fresh(FreshReason::FileChanged));
    let moved = |home: &Home| {
        let other = home.folder.path().join("other");
        until_it_shows(&home.path(), || {
            fs::rename(home.path(), &other).unwrap();
            fs::rename(&other, home.path()).unwrap();
        });
    };
    assert_eq!(start_after(moved), fresh(FreshReason::FileChanged));
    let linked = |home: &Home| {
        let other = home.folder.path().join("other");
        until_it_shows(&home.path(), || {
            fs::hard_link(home.path(), &other).unwrap();
            fs::remove_file(&other).unwrap();
        });
    };
    assert_eq!(start_after(linked), fresh(FreshReason::FileChanged));
    let replaced = |home: &Home| {
        let other = home.folder.path().join("other");
        fs::copy(home.path(), &other).unwrap();
        fs::rename(&other, home.path()).unwrap();
    };
    assert_eq!(start_after(replaced), fresh(FreshReason::FileCopied));
}

/// Twin of the ctime: without it, the same bytes restored in place would go on with tokens that another may have used
/// since the copy was made.
#[test]
fn twin_without_the_ctime_a_restored_file_resumes() {
    let home = Home::new();
    drop(home.started());
    let bytes = fs::read(home.path()).unwrap();
    until_it_shows(&home.path(), || fs::write(home.path(), &bytes).unwrap());
    let found = Found::decode(&fs::read(home.lineage()).unwrap());
    let Found::Whole(Lineage { seen: then, .. }) = &found else { panic!("{found:?}") };
    let stat = Stat::from(&fs::metadata(home.path()).unwrap());
    let header = decode(&bytes).unwrap().header;
    let mut now =
        Fingerprint { identity: stat.identity, write_counter: header.write_counter, session: header.session, ..*then };
    assert_eq!(judge(&found, &now, None, AfterReboot::Fresh), fresh(FreshReason::FileChanged));
    now.identity.ctime_s = then.identity.ctime_s;
    now.identity.ctime_ns = then.identity.ctime_ns;
    assert_eq!(judge(&found, &now, None, AfterReboot::Fresh), StartKind::Resumed);
}

#[test]
fn an_older_file_put_back_is_fresh_with_or_without_its_lineage() {
    for with_lineage in [false, true] {
        let home = Home::new();
        let mut opened = home.started();
        let old = (fs::read(home.path()).unwrap(), fs::read(home.lineage()).unwrap());
        opened.contents.blocks[0] = Some(block(2000));
        opened.file.write(&mut opened.contents, &holdings(2)).unwrap();
        drop(opened);
        fs::write(home.path(), old.0).unwrap();
        if with_lineage {
            fs::write(home.lineage(), old.1).unwrap();
        }
        let opened = home.open(THIRD);
        let reason = if with_lineage { FreshReason::FileCopied } else { FreshReason::FileBehind };
        assert_eq!(opened.start, fresh(reason));
        assert_eq!(opened.contents.header.session, THIRD, "its marks are too low, so its tokens must not be used");
    }
}

#[test]
fn a_lineage_of_other_times_proves_nothing() {
    assert_eq!(start_after(|home| fs::remove_file(home.lineage()).unwrap()), fresh(FreshReason::NoLineage));
    let cut = |home: &Home| {
        let bytes = fs::read(home.lineage()).unwrap();
        fs::write(home.lineage(), &bytes[..bytes.len() - 1]).unwrap();
    };
    assert!(matches!(start_after(cut), StartKind::Fresh(FreshReason::LineageDamaged(_))));
    let endless = |home: &Home| File::options().write(true).open(home.lineage()).unwrap().set_len(1 << 40).unwrap();
    assert!(matches!(start_after(endless), StartKind::Fresh(FreshReason::LineageDamaged(_))));

    // Deleted and formatted anew, the lineage of the old file left there.
    let home = Home::new();
    drop(home.started());
    fs::remove_file(home.path()).unwrap();
    format(&home.path(), 3, NOW, THIRD).unwrap();
    assert_eq!(home.open(FIRST).start, fresh(FreshReason::OtherSession));

    // Its older lineage put back.
    let home = Home::new();
    let mut opened = home.started();
    let old = fs::read(home.lineage()).unwrap();
    opened.file.write(&mut opened.contents, &holdings(2)).unwrap();
    drop(opened);
    fs::write(home.lineage(), old).unwrap();
    assert_eq!(home.open(THIRD).start, fresh(FreshReason::LineageBehind));
}

#[test]
fn a_reboot_is_fresh_unless_told_otherwise() {
    for after_reboot in [AfterReboot::Fresh, AfterReboot::Resume] {
        let home = Home::new();
        drop(home.started());
        let disk = home.disk();
        disk.plan.lock().unwrap().boot = Some("2a".parse().unwrap());
        let opened = open_on(Arc::new(disk), Arc::new(home.place()), after_reboot, THIRD).unwrap();
        match after_reboot {
            AfterReboot::Fresh => assert_eq!(opened.start, fresh(FreshReason::Reboot)),
            AfterReboot::Resume => {
                assert_eq!((opened.start, &opened.holdings), (StartKind::Resumed, &holdings(1)));
            }
        }
        assert_eq!(serial(&opened.contents), 1000);
    }
}

/// A snapshot that is mounted in its original's place, with the device number that this gave back: all that a file shows
/// is the same, and only the file system knows that it is another.
#[test]
fn a_file_in_a_snapshot_of_its_file_system_is_fresh() {
    let home = Home::new();
    drop(home.started());
    let disk = home.disk();
    let real = disk.os.file_system().unwrap().id.fsid;
    disk.plan.lock().unwrap().fsid = Some(real ^ 1);
    let opened = home.open_on(&disk, THIRD).unwrap();
    assert_eq!((opened.start, opened.holdings), (fresh(FreshReason::FileCopied), Holdings::default()));
}

#[test]
fn a_fresh_start_writes_down_what_it_gives_up_until_it_may_forget() {
    let home = Home::new();
    drop(home.started());
    let boot = |nth: u8, session: SessionId| {
        let disk = home.disk();
        disk.plan.lock().unwrap().boot = Some(nth.to_string().parse().unwrap());
        home.open_on(&disk, session).unwrap()
    };
    assert_eq!(boot(1, THIRD).holdings.former, [SECOND]);
    let mut third = boot(2, SessionId(0x4444));
    assert_eq!(third.holdings.former, [THIRD, SECOND], "no master has heard of it yet");
    third.file.write_holdings(&holdings(1)).unwrap();
    drop(third);
    assert_eq!(boot(3, FIRST).holdings.former, [SessionId(0x4444)]);
    fs::write(home.lineage(), b"torn").unwrap();
    assert_eq!(boot(4, SECOND).holdings.former, [FIRST], "the serial file itself says which session it had");
}

#[test]
fn a_second_process_is_refused_as_long_as_the_first_lives() {
    let home = Home::new();
    let mut first = home.started();
    let error = refused(&home);
    assert!(error.contains("in use by another process") && error.contains("--serial-file"), "{error}");
    // The lock is on the file; it must follow when each write replaces the file.
    first.file.write(&mut first.contents, &holdings(2)).unwrap();
    assert!(matches!(home.try_open(THIRD), Err(SerialFileError::Locked(_))));
    drop(first);
    assert_eq!(home.open(THIRD).start, StartKind::Resumed);
}

#[test]
fn a_start_that_locked_a_file_just_replaced_looks_again() {
    let home = Home::new();
    let mut first = home.started();
    let disk = home.disk();
    let old = File::open(home.path()).unwrap();
    // The first writes when the second has opened the file but not locked it yet.
    let first = Arc::new(Mutex::new(first.file.write(&mut first.contents, &holdings(2)).map(|()| first).unwrap()));
    let writer = Arc::clone(&first);
    disk.plan.lock().unwrap().meanwhile = Some((
        "try_lock",
        Box::new(move || {
            let Opened { file, contents, .. } = &mut *writer.lock().unwrap();
            file.write(contents, &holdings(3)).unwrap();
        }),
    ));
    // Twin: the lock alone does not tell; nobody holds the file that was replaced.
    assert!(old.try_lock().is_ok());
    assert!(matches!(home.open_on(&disk, THIRD), Err(SerialFileError::Locked(_) | SerialFileError::Restless(_))));
    assert!(disk.trace().iter().filter(|step| **step == "try_lock").count() > 1, "{:?}", disk.trace());
    disk.plan.lock().unwrap().meanwhile = None;
    assert!(matches!(home.open_on(&disk, THIRD), Err(SerialFileError::Locked(_))));
}

#[test]
fn a_file_that_is_replaced_for_ever_ends_the_start() {
    let home = Home::new();
    let (disk, path) = (home.disk(), home.path());
    disk.plan.lock().unwrap().meanwhile = Some((
        "try_lock",
        Box::new(move || {
            let other = path.with_extension("other");
            fs::copy(&path, &other).unwrap();
            fs::rename(&other, &path).unwrap();
        }),
    ));
    assert!(matches!(home.open_on(&disk, SECOND), Err(SerialFileError::Restless(_))));
    assert_eq!(disk.trace().iter().filter(|step| **step == "try_lock").count(), 8);
}
