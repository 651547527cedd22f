use super::*;
use std::os::unix::fs::{PermissionsExt as _, symlink};

/// Everything but the message is the same for all of them: nothing was made, nothing was changed.
fn refused(path: &Path) -> String {
    let before: Vec<_> =
        path.parent().into_iter().flat_map(fs::read_dir).flatten().map(|e| e.unwrap().path()).collect();
    let error = format(path, 3, NOW, FIRST).unwrap_err().to_string();
    let after: Vec<_> = path.parent().into_iter().flat_map(fs::read_dir).flatten().map(|e| e.unwrap().path()).collect();
    assert_eq!(before, after);
    assert!(!error.contains('\n'));
    error
}

#[test]
fn a_formatted_file_has_the_seeds_length_and_only_its_owner_may_read_it() {
    for num_blocks in [2, 100, 20_000] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("uniq_generator.serial");
        format(&path, num_blocks, NOW, FIRST).unwrap();
        let meta = fs::metadata(&path).unwrap();
        assert_eq!(meta.len(), 72 + u64::from(num_blocks) * 68);
        assert_eq!(meta.permissions().mode() & 0o7777, 0o600);
        let contents = decode(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(contents.header, Header { session: FIRST, time_mark: NOW, write_counter: 0, names_from: WallMs(0) });
        let used: Vec<_> = contents.blocks.iter().flatten().map(|block| (block.name.to_string(), block.kind)).collect();
        assert_eq!(
            used,
            [Kind::Uniq64, Kind::String].map(|kind| ("default".to_owned(), kind)),
            "no other name takes theirs"
        );
        assert!(contents.blocks.iter().flatten().all(|block| (block.bucket, block.serial) == (0, 0)));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left over");
    }
    for num_blocks in [0, 1, 20_001] {
        let folder = tempfile::tempdir().unwrap();
        let error = format(&folder.path().join("F"), num_blocks, NOW, FIRST).unwrap_err().to_string();
        assert!(error.contains("2 to 20000") && error.contains("--num-blocks"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn what_is_there_is_never_overwritten() {
    let home = Home::new();
    let before = fs::read(home.path()).unwrap();
    let error = refused(&home.path());
    assert!(error.contains("exists already") && error.contains("move it away"), "{error}");
    assert_eq!(fs::read(home.path()).unwrap(), before);

    let folder = home.folder.path().join("folder");
    fs::create_dir(&folder).unwrap();
    assert!(refused(&folder).contains("exists already"));
    let link = home.folder.path().join("link");
    symlink("nowhere", &link).unwrap();
    assert!(refused(&link).contains("exists already"));
    assert!(!home.folder.path().join("nowhere").exists());
}

#[test]
fn a_path_that_can_hold_no_file_is_refused_with_the_remedy() {
    let home = Home::new();
    let error = refused(&home.folder.path().join("missing/F"));
    assert!(error.contains("is not a folder") && error.contains("mkdir -p"), "{error}");
    assert!(refused(&home.path().join("F")).contains("is not a folder"));
    assert!(refused(&home.folder.path().join("x/")).contains("does not name a file"));
    assert!(refused(&home.folder.path().join("..")).contains("does not name a file"));
    assert!(refused(Path::new("/")).contains("does not name a file"));
    assert!(refused(Path::new("")).contains("does not name a file"));
    let longest = "x".repeat(255 - ".generators.new".len());
    let error = refused(&home.folder.path().join(format!("{longest}x")));
    assert!(error.contains("too long") && error.contains("240 bytes"), "{error}");
    let path = home.folder.path().join(longest);
    format(&path, 2, NOW, FIRST).unwrap();
    assert_eq!(open(&path, AfterReboot::Fresh, SECOND).unwrap().start, StartKind::Fresh(FreshReason::NoLineage));
    KeptNames::default().write(&path).unwrap();
}

/// FUSE has many names, and what nobody has heard of may be anything.
#[test]
fn a_file_system_that_is_not_known_to_be_local_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home { folder };
    let disk = home.disk();
    let on = |kind| disk.plan.lock().unwrap().kind = Some(FileSystemKind(kind));
    let kinds = [
        (0x6969, "NFS"),
        (0x6573_5546, "FUSE or virtiofs"),
        (0x0102_1997, "9p"),
        (0x0bd0_0bd0, "Lustre"),
        (0x4750_4653, "GPFS"),
        (0x7461_636f, "OCFS2"),
        (0x0116_1970, "GFS2"),
        (0x1234_5678, "unknown kind (0x12345678)"),
    ];
    for (kind, name) in kinds {
        on(kind);
        let error = format_on(&disk, &home.place(), 3, NOW, FIRST).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("local disk (ext4"), "{error}");
    }
    assert!(home.names().is_empty(), "nothing was made");
    format(&home.path(), 3, NOW, FIRST).unwrap();
    assert!(matches!(home.open_on(&disk, SECOND), Err(SerialFileError::NotLocal { .. })));
    on(0x9123_683e);
    assert!(matches!(home.open_on(&disk, SECOND).unwrap().start, StartKind::Fresh(_)), "btrfs is local");
}

#[test]
fn the_steps_come_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home { folder };
    let disk = home.disk();
    format_on(&disk, &home.place(), 3, NOW, FIRST).unwrap();
    let steps =
        ["stat_name", "stat_name", "unlink", "create", "try_lock", "write", "fsync", "rename_new", "fsync_folder"];
    assert_eq!(disk.trace(), [&["file_system"], &steps[..]].concat());
}

#[test]
fn a_format_that_dies_at_any_step_leaves_a_whole_file_or_none() {
    let mut died = 0;
    for at in 1.. {
        let home = Home { folder: tempfile::tempdir().unwrap() };
        let disk = home.disk();
        disk.arm(at, Fault::Dies);
        if format_on(&disk, &home.place(), 3, NOW, FIRST).is_ok() {
            break;
        }
        died += 1;
        let steps = disk.trace();
        assert_eq!(home.path().exists(), steps.last() == Some(&"fsync_folder"), "{steps:?}");
        if !home.path().exists() {
            format(&home.path(), 3, NOW, FIRST).unwrap();
        }
        assert_eq!(home.names(), ["F"], "{steps:?}");
        assert_eq!(home.open(SECOND).start, StartKind::Fresh(FreshReason::NoLineage));
    }
    assert_eq!(died, 10);
}

#[test]
fn a_format_that_fails_at_any_step_leaves_nothing_and_can_be_tried_again() {
    for fault in [Fault::Fails, Fault::DoneButFails] {
        let mut failed = 0;
        for at in 1.. {
            let home = Home { folder: tempfile::tempdir().unwrap() };
            let disk = home.disk();
            disk.arm(at, fault);
            let Err(error) = format_on(&disk, &home.place(), 3, NOW, FIRST) else { break };
            failed += 1;
            assert!(matches!(error, SerialFileError::Io { .. }), "{error}");
            assert!(!home.path().exists(), "{:?}", disk.trace());
            format(&home.path(), 3, NOW, FIRST).unwrap();
            assert_eq!(home.names(), ["F"]);
        }
        assert_eq!(failed, 10);
    }
}

#[test]
fn two_formats_at_once_make_one_file() {
    let home = Home { folder: tempfile::tempdir().unwrap() };
    let (place, disk) = (home.place(), home.disk());
    // The second begins when the first is about to write.
    let results = Arc::new(Mutex::new(Vec::new()));
    let (second, path) = (Arc::clone(&results), home.path());
    disk.plan.lock().unwrap().meanwhile =
        Some(("write", Box::new(move || second.lock().unwrap().push(format(&path, 3, NOW, SECOND)))));
    format_on(&disk, &place, 3, NOW, FIRST).unwrap();
    assert!(matches!(results.lock().unwrap()[..], [Err(SerialFileError::Locked(_))]));
    assert_eq!(decode(&fs::read(home.path()).unwrap()).unwrap().header.session, FIRST);
    assert_eq!(home.names(), ["F"]);

    // The second is through before the first gets to its rename.
    let home = Home { folder: tempfile::tempdir().unwrap() };
    let (place, disk, path) = (home.place(), home.disk(), home.path());
    let source = tempfile::tempdir().unwrap();
    let other = source.path().join("other");
    format(&other, 5, NOW, SECOND).unwrap();
    disk.plan.lock().unwrap().meanwhile = Some((
        "rename_new",
        Box::new(move || {
            fs::copy(&other, &path).unwrap();
        }),
    ));
    assert!(matches!(format_on(&disk, &place, 3, NOW, FIRST), Err(SerialFileError::Exists(_))));
    assert_eq!(decode(&fs::read(home.path()).unwrap()).unwrap().header.session, SECOND);
    assert_eq!(home.names(), ["F"]);
}
