//! A master's store that is not what was written is never taken for a young one, whose values are free.

use common::parameters::SessionId;
use common::token::{TokenKey, TokenType};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tests::cluster::{Cluster, PATIENCE};
use tests::lessee::Lessee;
use tests::programs::{master, run};

const LEASES: usize = 20;

/// Every file below a folder.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// The largest file of the store in a data directory: its log.
fn largest(dir: &Path) -> PathBuf {
    files(&dir.join("ledger")).into_iter().max_by_key(|file| std::fs::metadata(file).unwrap().len()).unwrap()
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_tree(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

/// New sessions with a token each. Panics if one of them is held already.
async fn sell(cluster: &Cluster, holders: &mut BTreeMap<TokenKey, SessionId>, name: &str, count: usize) {
    let masters = [cluster.masters[0].agent_listen, cluster.masters[1].agent_listen];
    for nth in 0..count {
        let lessee = Lessee::new(&format!("{name}-{nth}")).unwrap();
        // Every other one asks the other master first.
        let order = if nth % 2 == 0 { masters } else { [masters[1], masters[0]] };
        let grant = lessee.obtain(order, TokenType::Uint2).await.unwrap();
        let other = holders.insert(grant.key, lessee.session);
        assert!(other.is_none(), "token {} was sold to {other:?} and to {:?}", grant.key, lessee.session);
    }
}

#[tokio::test]
async fn a_damaged_store_stops_the_start() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    sell(&cluster, &mut BTreeMap::new(), "lessee", LEASES).await;
    cluster.master(0).unwrap().daemon.kill_9();
    let intact = cluster.masters[0].data_dir.clone();
    let each = |dir: &Path, change: fn(&Path)| files(dir).iter().for_each(|file| change(file));
    type Damage<'a> = (&'a str, Box<dyn Fn(&Path) + 'a>);
    let damages: [Damage; 6] = [
        ("every file emptied", Box::new(|dir| each(dir, |file| std::fs::write(file, "").unwrap()))),
        ("every file gone", Box::new(|dir| each(dir, |file| std::fs::remove_file(file).unwrap()))),
        (
            "every byte another",
            Box::new(|dir| {
                each(dir, |file| {
                    let bytes: Vec<u8> = std::fs::read(file).unwrap().iter().map(|byte| !byte).collect();
                    std::fs::write(file, bytes).unwrap();
                });
            }),
        ),
        ("the log gone", Box::new(|dir| std::fs::remove_file(largest(dir)).unwrap())),
        ("the log emptied", Box::new(|dir| std::fs::write(largest(dir), "").unwrap())),
        ("the log blanked", Box::new(|dir| std::fs::write(largest(dir), vec![0; 1 << 19]).unwrap())),
    ];
    for (what, damage) in damages {
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join("d");
        copy_tree(&intact, &copy);
        damage(&copy);
        let any = "127.0.0.1:0";
        #[rustfmt::skip]
        let args = [
            "--data-dir", "d", "--peer", "127.0.0.1:1", "--agent-listen", any, "--peer-listen", any, "--web-listen", any,
        ];
        let ended = run(&master().unwrap(), &args, dir.path()).unwrap();
        println!("{what}: {}", ended.err.trim());
        assert_eq!(ended.status, Some(1), "{what}: {ended:?}");
        assert!(ended.err.lines().last().is_some_and(|line| line.contains("store")), "{what}: {ended:?}");
    }
}

/// Puts another folder in the place of a killed master's store, and starts it. If it starts, it must have learned from
/// its peer what it forgot, and sell nothing twice; not to start, or to serve nothing, is as good.
async fn forgets_nothing_that_its_peer_knows(forget: impl Fn(&Path, &Path)) {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    let client = cluster.client.clone();
    let data_dir = cluster.masters[0].data_dir.clone();
    let backup = cluster.dir().join("backup");
    cluster.master(0).unwrap().daemon.kill_9();
    copy_tree(&data_dir, &backup);
    cluster.master(0).unwrap().daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    let mut holders = BTreeMap::new();
    sell(&cluster, &mut holders, "before", LEASES).await;

    cluster.master(0).unwrap().daemon.kill_9();
    forget(&data_dir, &backup);
    let daemon = &mut cluster.master(0).unwrap().daemon;
    daemon.start().unwrap();
    let http = daemon.http;
    let began = std::time::Instant::now();
    loop {
        if let Some(ended) = cluster.master(0).unwrap().daemon.ended() {
            println!("not started: {ended}");
            assert_eq!(ended.code(), Some(1));
            return;
        }
        match client.get(&format!("http://{http}/readyz")).await {
            Ok(answer) if answer.text().contains("must be replaced") => {
                return println!("serves nothing: {}", answer.text().trim());
            }
            Ok(answer) if answer.status == 200 => break,
            _ => assert!(began.elapsed() < PATIENCE, "neither ready, nor ended, nor rolled back"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    cluster.all_ready().await.unwrap();
    sell(&cluster, &mut holders, "after", 5 * LEASES).await;
    for master in 0..2 {
        let held = cluster.leases(master, "type=uint2&state=held").await.unwrap().len();
        assert_eq!(held, holders.len(), "master {} does not know all holders", master + 1);
    }
}

#[tokio::test]
async fn a_log_that_lost_its_end_frees_nothing() {
    forgets_nothing_that_its_peer_knows(|data_dir, _| {
        let log = largest(data_dir);
        std::fs::File::options().write(true).open(log).unwrap().set_len(1_000).unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_store_restored_from_a_backup_frees_nothing() {
    forgets_nothing_that_its_peer_knows(|data_dir, backup| {
        std::fs::remove_dir_all(data_dir).unwrap();
        copy_tree(backup, data_dir);
    })
    .await;
}

/// As root, the way a runbook is followed in a hurry; then as the service's user.
#[test]
fn a_command_leaves_nothing_behind_that_the_services_user_cannot_open() {
    const USER: &str = "nobody";
    if !rustix::process::geteuid().is_root() {
        return println!("left out: only root can run programs as another user");
    }
    let dir = tempfile::tempdir().unwrap();
    let (program, store) = (dir.path().join("uniq_master"), dir.path().join("m1"));
    // Where that user can run it, wherever it was built.
    std::fs::copy(master().unwrap(), &program).unwrap();
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let store = store.to_str().unwrap();
    assert!(run(&program, &["--format", "--data-dir", store, "--id", "1"], dir.path()).unwrap().status == Some(0));
    tests::mounts::run("chown", ["-R", USER, store]).unwrap();
    let before = files(Path::new(store));
    for act in ["--verify-audit", "--peer-lost"] {
        let ended = run(&program, &[act, "--data-dir", store], dir.path()).unwrap();
        assert!(ended.status == Some(1) && ended.err.contains("belongs to the user"), "{act}: {}", ended.err);
        assert_eq!(files(Path::new(store)), before, "{act}");
    }
    let arguments = ["-u", USER, "--", program.to_str().unwrap(), "--verify-audit", "--data-dir", store];
    let ended = run(Path::new("runuser"), &arguments, dir.path()).unwrap();
    assert!(ended.status == Some(0) && ended.out.contains("the audit is whole"), "{} {}", ended.out, ended.err);
}
