//! A serial file among real tools and on real file systems: copied, restored, layered, read-only, full, and after a power
//! cut; and more than one process that wants it.
//!
//! What needs something mounted runs in a mount namespace (`tests::mounts`); where that, or one kind of file system, cannot
//! be had, the test says so and leaves it out. Root may write whatever the mode of a file forbids, so a folder that cannot
//! be written is one that is mounted read-only or marked as immutable.

use common::account::User;
use common::kind;
use common::lease::{Generation, Grant};
use common::parameters::{ClusterId, MasterId, SessionId};
use common::time::WallMs;
use common::token::{TokenType, TokenValue};
use serial_file::{
    AfterReboot, Block, BlockName, Contents, FileLocation, FileLoss, Holdings, Opened, SerialFileError, WriteError,
    format, open, open_on,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tests::cluster::{Cluster, until, until_status};
use tests::faults::{Fault, FaultyDisk, Lie};
use tests::mounts::{self, Image, Kind, mount, run};
use tests::oracle::Oracle;
use tests::programs::{self, Daemon};

const NOW: WallMs = WallMs(1_795_000_000_000);

fn block(serial: u64) -> Block {
    Block {
        name: BlockName::from(&"default".parse().unwrap()),
        kind: kind::Kind::Uniq64,
        everyday_reset: false,
        create_time: NOW,
        modification_time: NOW,
        bucket: 498_611,
        bucket_base: 0,
        checksum: 1,
        serial,
        step: 1_000,
    }
}

fn holdings() -> Holdings {
    let key = TokenType::Uint2.key(TokenValue(7));
    let grant = Grant {
        token_type: TokenType::Uint2,
        key,
        g: Generation(1),
        from: NOW,
        until: WallMs(NOW.0 + 1),
        receipt: None,
    };
    Holdings { cluster: Some(ClusterId(9)), parameters: None, leases: vec![grant], rseq: 1, ..Holdings::default() }
}

fn serial(contents: &Contents) -> u64 {
    contents.blocks[0].as_ref().map_or(0, |block| block.serial)
}

fn try_start(file: &Path) -> Result<Opened, SerialFileError> {
    open(file, AfterReboot::Fresh, SessionId(rand::random()))
}

fn advance(opened: &mut Opened, to: u64) -> Result<(), WriteError> {
    opened.contents.blocks[0] = Some(block(to));
    opened.file.write(&mut opened.contents, &holdings())
}

/// A folder with a serial file whose session has a lease and a mark.
fn folder(at: &Path, mark: u64) -> PathBuf {
    fs::create_dir_all(at).unwrap();
    let file = at.join("F");
    format(&file, 3, NOW, SessionId(rand::random())).unwrap();
    advance(&mut try_start(&file).unwrap(), mark).unwrap();
    file
}

/// Tells how a start there goes on: its kind and its mark. Only who resumes has a lease.
fn start(file: &Path) -> (String, u64) {
    let opened = try_start(file).unwrap();
    let resumed = opened.start.to_string() == "resumed";
    assert_eq!(opened.holdings == holdings(), resumed, "{:?} with {:?}", opened.start, opened.holdings);
    (opened.start.to_string(), serial(&opened.contents))
}

/// Tools that copy all that is in a folder into another one: `$1` into `$2`. The last one needs a file system that can.
const COPIES: [(&str, &str); 6] = [
    ("cp -a", r#"cp -a "$1/." "$2""#),
    ("cp --reflink=auto", r#"cp -a --reflink=auto "$1/." "$2""#),
    ("tar", r#"tar -C "$1" -cf - . | tar -C "$2" -xpf -"#),
    ("rsync -a", r#"rsync -a --ignore-times "$1/" "$2/""#),
    ("rsync -a --inplace", r#"rsync -a --ignore-times --inplace "$1/" "$2/""#),
    ("cp --reflink=always", r#"cp -a --reflink=always "$1/." "$2""#),
];

/// Copies by a script; fails if the tool is not there or did not do it.
fn copy(script: &str, from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    let script = format!("set -e; {script}");
    run("sh", ["-c", &script, "sh", from.to_str().unwrap(), to.to_str().unwrap()]).map(drop)
}

#[test]
fn a_copy_by_any_tool_is_fresh_and_the_original_resumes() {
    let dir = tempfile::tempdir().unwrap();
    for (nth, (tool, script)) in COPIES.into_iter().enumerate() {
        let [original, copied] = ["original", "copy"].map(|name| dir.path().join(format!("{name}-{nth}")));
        let file = folder(&original, 1_000);
        // In use while it is copied, as a backup would find it.
        let running = try_start(&file).unwrap();
        if let Err(why) = copy(script, &original, &copied) {
            println!("{tool}: left out, {why}");
            assert!(tool == "cp --reflink=always" || tool.starts_with("rsync"), "{tool}: {why}");
            continue;
        }
        assert_eq!(start(&copied.join("F")), ("fresh (file_copied)".to_owned(), 1_000), "{tool}");
        drop(running);
        assert_eq!(start(&file), ("resumed".to_owned(), 1_000), "{tool}");
        println!("{tool}: the copy is fresh, the original resumes");
    }
}

#[test]
fn an_older_file_put_back_by_any_tool_is_fresh() {
    let dir = tempfile::tempdir().unwrap();
    for (nth, (tool, script)) in COPIES.into_iter().enumerate() {
        for with_lineage in [true, false] {
            let name = |what: &str| dir.path().join(format!("{what}-{nth}-{with_lineage}"));
            let file = folder(&name("at-work"), 1_000);
            if copy(script, &name("at-work"), &name("backup")).is_err() {
                continue;
            }
            advance(&mut try_start(&file).unwrap(), 2_000).unwrap();
            if !with_lineage {
                fs::remove_file(name("backup").join("F.lineage")).unwrap();
            }
            copy(script, &name("backup"), &name("at-work")).unwrap();
            let (kind, mark) = start(&file);
            println!("{tool}, lineage put back: {with_lineage}: {kind}");
            assert_eq!(mark, 1_000);
            let reasons: &[&str] =
                if with_lineage { &["fresh (file_changed)", "fresh (file_copied)"] } else { &["fresh (file_behind)"] };
            assert!(reasons.contains(&kind.as_str()), "{tool}: {kind}");
        }
    }
}

/// A backup that finds nothing to do touches nothing, and nothing is lost.
#[test]
fn a_restore_of_what_is_there_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (at_work, backup) = (dir.path().join("at-work"), dir.path().join("backup"));
    let file = folder(&at_work, 1_000);
    let rsync = r#"rsync -a "$1/" "$2/""#;
    if let Err(why) = copy(rsync, &at_work, &backup).and_then(|()| copy(rsync, &backup, &at_work)) {
        return println!("left out, {why}");
    }
    assert_eq!(start(&file), ("resumed".to_owned(), 1_000));
}

/// A folder that another program serves (FUSE): taken away when this is dropped, and with it that program.
struct Served(PathBuf);

impl Served {
    /// `bindfs`, which passes everything on to a folder beside it. `None` where it cannot be had.
    fn new(of: &Path, at: &Path) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        match run("bindfs", [of, at]) {
            Ok(_) => Some(Self(at.to_owned())),
            Err(why) => {
                println!("a folder served by FUSE is left out: {why:#}");
                None
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = run("umount", [&self.0]);
    }
}

#[test]
fn where_another_program_serves_the_folder_nothing_is_formatted_and_nothing_starts() {
    mounts::enter(|dir| {
        let (plain, served) = (dir.join("plain"), dir.join("served"));
        let file = folder(&plain, 1_000);
        let Some(_served) = Served::new(&plain, &served) else { return };
        let program = programs::generator().unwrap();
        let same = served.join("F");
        assert_eq!(fs::read(&same).unwrap(), fs::read(&file).unwrap(), "it is the same file by another way");
        let new = served.join("new");
        for args in [
            vec!["--format", "--serial-file", new.to_str().unwrap()],
            vec!["--serial-file", same.to_str().unwrap(), "--masters", "127.0.0.1:1"],
        ] {
            let ended = programs::run(&program, &args, dir).unwrap();
            println!("{args:?}: {ended:?}");
            assert_eq!(ended.status, Some(1), "{ended:?}");
            let said = format!("{ended:?}");
            assert!(said.contains("FUSE") && said.contains("local disk"), "no reason and remedy: {said}");
        }
        assert!(!new.exists());
        // Nothing has changed of it: where it is, its session goes on.
        assert_eq!(start(&file), ("resumed".to_owned(), 1_000));
    })
    .unwrap();
}

#[test]
fn every_container_of_an_image_has_a_session_of_its_own_and_keeps_it() {
    mounts::enter(|dir| {
        // Its layers are on a file system that can be one: not every temporary folder is.
        let layers = dir.join("layers");
        mount("tmpfs", "size=16m", "none", &layers).unwrap();
        let image = layers.join("image");
        let inside = folder(&image, 1_000);
        let mut sessions = vec![try_start(&inside).unwrap().contents.header.session];
        for nth in 0..3 {
            let [upper, work, merged] = ["upper", "work", "merged"].map(|name| layers.join(format!("{name}-{nth}")));
            fs::create_dir(&upper).unwrap();
            fs::create_dir(&work).unwrap();
            let [lower, upper, work] = [&image, &upper, &work].map(|path| path.display().to_string());
            let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
            if let Err(why) = mount("overlay", &options, "none", &merged) {
                return println!("overlay file systems are left out: {why}");
            }
            let file = merged.join("F");
            let mut opened = try_start(&file).unwrap();
            assert!(opened.start.to_string().starts_with("fresh ("), "container {nth}: {:?}", opened.start);
            assert_eq!((serial(&opened.contents), &opened.holdings), (1_000, &Holdings::default()));
            println!("container {nth}: {}", opened.start);
            assert!(matches!(try_start(&file), Err(SerialFileError::Locked(_))), "a second process in container {nth}");
            advance(&mut opened, 2_000).unwrap();
            sessions.push(opened.contents.header.session);
            drop(opened);
            assert_eq!(start(&file), ("resumed".to_owned(), 2_000), "container {nth}, started again");
        }
        assert_eq!(start(&inside), ("resumed".to_owned(), 1_000), "the image itself");
        sessions.sort_unstable();
        sessions.dedup();
        assert_eq!(sessions.len(), 4, "two containers have one session");
    })
    .unwrap();
}

/// The write fails, and says at which step.
fn fails(opened: &mut Opened, to: u64) -> std::io::ErrorKind {
    match advance(opened, to) {
        Err(WriteError::Io(step)) => step.source.kind(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_folder_that_cannot_be_written_stops_starts_and_writes_and_nothing_else() {
    mounts::enter(|dir| {
        let home = dir.join("home");
        let file = folder(&home, 1_000);
        run("mount", [Path::new("--bind"), &home, &home]).unwrap();
        let remount = |how: &str| run("mount", ["-o", &format!("remount,bind,{how}"), home.to_str().unwrap()]);
        let running = try_start(&file).unwrap();
        let busy = remount("ro").unwrap_err().to_string();
        assert!(
            busy.contains("busy"),
            "the kernel lets nobody make a folder read-only while an agent has its file: {busy}"
        );
        drop(running);
        remount("ro").unwrap();
        let refused = try_start(&file).unwrap_err().to_string();
        assert!(refused.contains(file.to_str().unwrap()) && refused.contains("Read-only file system"), "{refused}");
        remount("rw").unwrap();
        assert_eq!(start(&file), ("resumed".to_owned(), 1_000), "nothing was touched");

        let flag = |how: &str, what: &Path| run("chattr", [Path::new(how), what]);
        if let Err(why) = flag("+i", &home) {
            return println!("immutable files are left out: {why}");
        }
        assert_eq!(start(&file), ("resumed".to_owned(), 1_000), "a start that goes on writes nothing");
        let mut opened = try_start(&file).unwrap();
        assert_eq!(fails(&mut opened, 2_000), std::io::ErrorKind::PermissionDenied);
        flag("-i", &home).unwrap();
        advance(&mut opened, 2_000).unwrap();

        // To mark the file itself is to touch it.
        flag("+i", &file).unwrap();
        assert!(matches!(advance(&mut opened, 3_000), Err(WriteError::Lost(FileLoss::Changed))));
        drop(opened);
        let refused = try_start(&file).unwrap_err().to_string();
        flag("-i", &file).unwrap();
        assert!(refused.contains("Operation not permitted"), "{refused}");
        assert_eq!(start(&file), ("fresh (file_changed)".to_owned(), 2_000));
    })
    .unwrap();
}

/// The real programs, the agent's folder on a file system of sixteen pages.
#[test]
fn an_agent_on_a_full_disk_mints_what_it_reserved_and_goes_on_when_there_is_room() {
    mounts::enter_async(async || full_disk().await).unwrap();
}

async fn full_disk() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    let home = cluster.dir().join("small");
    mount("tmpfs", "size=64k", "none", &home).unwrap();
    let file = home.join("uniq_generator.serial");
    let args = ["--format", "--serial-file", file.to_str().unwrap()];
    assert_eq!(programs::run(&programs::generator().unwrap(), &args, &home).unwrap().status, Some(0));
    let nth = cluster.add_agent_in(home.clone(), "small", &[]).unwrap();
    let client = cluster.client.clone();
    cluster.agent(nth).unwrap().daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    let before = cluster.agent_status(nth).await.unwrap();
    let oracle = Oracle::default();
    let ids = async |cluster: &Cluster| {
        let answer = cluster.ask_agent(nth, "uniq64?n=20000").await.unwrap();
        if let Ok(ids) = answer.ids(tests::client::Kind::Uniq64, tests::client::Media::Text) {
            oracle.note("uniq64", "small", &ids);
        }
        (answer.status, answer.code())
    };
    assert_eq!(ids(&cluster).await.0, 200);
    let filler = home.join("filler");
    let full = fs::write(&filler, vec![0; 1 << 20]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    let (code, _) = until("what was reserved is used up", || async {
        let (status, code) = ids(&cluster).await;
        (status != 200).then_some(code)
    })
    .await
    .unwrap();
    println!("{} IDs until {code}", oracle.total());
    assert_eq!(code, "serial_file_io");
    until_status(&client, &mut cluster.agent(nth).unwrap().daemon, "/readyz", 503).await.unwrap();

    // Killed meanwhile: a start that goes on needs no room, but its first ID does.
    let daemon = &mut cluster.agent(nth).unwrap().daemon;
    daemon.kill_9();
    daemon.start().unwrap();
    until_status(&client, daemon, "/healthz", 200).await.unwrap();
    let after = cluster.agent_status(nth).await.unwrap();
    assert!(after.resumed && after.session == before.session && after.tokens() == before.tokens(), "{after:?}");
    assert_eq!(ids(&cluster).await, (503, "serial_file_io".to_owned()));
    fs::remove_file(&filler).unwrap();
    until("it mints again", || async { (ids(&cluster).await.0 == 200).then_some(()) }).await.unwrap();
    until_status(&client, &mut cluster.agent(nth).unwrap().daemon, "/readyz", 200).await.unwrap();
    let verdict = oracle.verdict();
    assert_eq!(verdict.duplicates, 0, "{verdict}");
}

/// After a power cut at the `at`-th call of a write that raises the mark by 1000 from `mark`; `None` if it has no such
/// call. Says how the next start goes on, told to resume after a reboot.
fn cut_at(image: &mut Image, dir: &Path, at: usize, mark: u64, lie: Option<Lie>) -> Option<(String, u64)> {
    let file = image.folder().join("F");
    // A first write here: what the one before it left behind is flushed.
    let disk = Arc::new(FaultyDisk::new(image.folder(), lie).unwrap());
    let place = Arc::new(FileLocation::resolve(&file).unwrap());
    let mut opened = open_on(Arc::clone(&disk) as _, place, AfterReboot::Resume, SessionId(rand::random())).unwrap();
    disk.arm(at, Fault::DiesAfter);
    let died = advance(&mut opened, mark + 1_000).is_err();
    drop((opened, disk));
    image.cut_power().unwrap();
    mounts::pretend_boot(rand::random(), dir).unwrap();
    let opened = open(&file, AfterReboot::Resume, SessionId(rand::random())).unwrap();
    let found = (opened.start.to_string(), serial(&opened.contents));
    drop(opened);
    if lie.is_none() {
        // Through to the end, so that the next cut begins with a file whose session holds something.
        advance(&mut open(&file, AfterReboot::Resume, SessionId(0)).unwrap(), mark + 2_000).unwrap();
    }
    died.then_some(found.clone()).or_else(|| {
        println!("  after the whole write: {found:?}");
        assert!(lie.is_some() || found == ("resumed".to_owned(), mark + 1_000), "what has returned is lost: {found:?}");
        None
    })
}

#[test]
fn after_a_power_cut_in_the_midst_of_a_write_nothing_is_below_what_was_promised() {
    mounts::enter(|dir| {
        for kind in [Kind::Ext4, Kind::Xfs] {
            match Image::new(kind, dir) {
                Ok(mut image) => cut_everywhere(kind, &mut image, dir),
                Err(why) => println!("power cuts on {kind:?} are left out: {why:#}"),
            }
        }
    })
    .unwrap();
}

fn cut_everywhere(kind: Kind, image: &mut Image, dir: &Path) {
    let file = folder(image.folder(), 1_000);
    let (mut mark, mut resumed, mut cuts) = (1_000, 0, 0);
    for at in 1.. {
        let Some((start, found)) = cut_at(image, dir, at, mark, None) else { break };
        println!("  {kind:?}, after call {at}: {start}, {found} where {mark} was promised");
        assert!([mark, mark + 1_000].contains(&found), "call {at}: {start} at {found}");
        resumed += u32::from(start == "resumed");
        (mark, cuts) = (mark + 2_000, at);
    }
    println!("{kind:?}: {resumed} of {cuts} cuts were resumed from");
    assert_eq!(cuts, 20, "a write has twenty calls");

    // Twin: on a disk that flushes nothing, a write that has returned is lost.
    let resumable = || open(&file, AfterReboot::Resume, SessionId(rand::random())).unwrap();
    let promised = serial(&resumable().contents) + 1_000;
    assert_eq!(cut_at(image, dir, usize::MAX, promised - 1_000, Some(Lie::NoFsync)), None);
    let found = serial(&resumable().contents);
    println!("{kind:?}, twin: {found} where {promised} was promised");
    assert!(found < promised);
}

/// Once the user is proposed no other password is ever drawn.
#[test]
fn the_first_password_is_durable_before_its_user_is_proposed() {
    mounts::enter(|dir| {
        for kind in [Kind::Ext4, Kind::Xfs] {
            let mut image = match Image::new(kind, dir) {
                Ok(image) => image,
                Err(why) => {
                    println!("{kind:?} is left out: {why:#}");
                    continue;
                }
            };
            let admin = |image: &Image, proposed: Vec<User>| {
                master::bootstrap::admin(image.folder(), None, MasterId::One, proposed.into_iter()).unwrap().unwrap()
            };
            let user = admin(&image, Vec::new());
            image.cut_power().unwrap();
            assert_eq!(admin(&image, vec![user.clone()]), user, "{kind:?}: the password is another one");
        }
    })
    .unwrap();
}

/// The copies of a file system that can let two files share their blocks.
#[test]
fn a_reflinked_copy_is_fresh_and_the_original_resumes() {
    mounts::enter(|dir| {
        let image = match Image::new(Kind::Xfs, dir) {
            Ok(image) => image,
            Err(why) => return println!("left out: {why:#}"),
        };
        let (_, script) = COPIES[5];
        let [original, copied] = ["original", "copy"].map(|name| image.folder().join(name));
        let file = folder(&original, 1_000);
        copy(script, &original, &copied).unwrap();
        assert_eq!(start(&copied.join("F")), ("fresh (file_copied)".to_owned(), 1_000));
        advance(&mut try_start(&file).unwrap(), 2_000).unwrap();
        // The older file over the newer one, sharing the blocks of the copy.
        copy(script, &copied, &original).unwrap();
        let (kind, mark) = start(&file);
        assert_eq!(mark, 1_000);
        assert!(kind.starts_with("fresh ("), "{kind}");
        println!("put back: {kind}");
    })
    .unwrap();
}
/// More than one process started on one file at the same moment: one has it, the others end and say why.
#[tokio::test]
async fn of_all_that_start_on_one_file_at_once_one_lives() {
    const AT_ONCE: usize = 5;
    let dir = tempfile::tempdir().unwrap();
    let program = programs::generator().unwrap();
    assert_eq!(programs::run(&program, &["--format"], dir.path()).unwrap().status, Some(0));
    let file = dir.path().join("uniq_generator.serial");
    for round in 0..3 {
        let daemon = |nth: usize| {
            #[rustfmt::skip]
            let args = [
                "--serial-file", file.to_str().unwrap(), "--masters", "127.0.0.1:1", "--http-listen", "127.0.0.1:0",
                "--rpc-listen", "127.0.0.1:0",
            ];
            let log = dir.path().join(format!("log-{round}-{nth}"));
            let name = format!("agent {nth}");
            Daemon::new(&name, program.clone(), args.map(str::to_owned).into(), "127.0.0.1:1".parse().unwrap(), log)
        };
        let mut daemons: Vec<Daemon> = (0..AT_ONCE).map(daemon).collect();
        daemons.iter_mut().for_each(|daemon| daemon.start().unwrap());
        let daemons = std::sync::Mutex::new(daemons);
        until("all but one end", || async {
            let alive = daemons.lock().unwrap().iter_mut().filter_map(|daemon| daemon.running().then_some(())).count();
            assert!(alive > 0, "all have ended");
            (alive == 1).then_some(())
        })
        .await
        .unwrap();
        for daemon in daemons.lock().unwrap().iter_mut() {
            if daemon.running() {
                continue;
            }
            assert_eq!(daemon.ended().and_then(|status| status.code()), Some(1));
            assert!(daemon.log_tail(5).contains("in use by another process"), "{}", daemon.log_tail(5));
        }
        // The one that is left is killed with its Daemon, and the next round goes on with its file.
    }
}
