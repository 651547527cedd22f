//! A full disk under a master is refused service, never its store: the agents renew with the other master, no start takes the
//! store for damaged, and with room again all goes on.

use common::parameters::SessionId;
use common::token::{TokenKey, TokenType};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use tests::cluster::{Cluster, PATIENCE, until, until_status};
use tests::lessee::Lessee;
use tests::mounts::{self, Image, Kind, mount};
use tests::programs::{Ended, master, run};

const DISK_LEN: u64 = 64 << 20;
const LEASES: usize = 6;
/// The number of times that a master loses its right to write.
const FAILING_ROUNDS: usize = 3;

/// Writes until nothing more goes in.
fn fill(dir: &Path) {
    let mut file = File::options().create(true).append(true).open(dir.join("filler")).unwrap();
    for chunk in [1 << 20, 1 << 12, 1] {
        let zeros = vec![0; chunk];
        while file.write_all(&zeros).is_ok() && file.sync_all().is_ok() {}
    }
}

fn check_store(dir: &Path) -> Ended {
    run(&master().unwrap(), &["--check-store", "--data-dir", dir.to_str().unwrap()], "/".as_ref()).unwrap()
}

/// Every file below a folder with what it holds and when it was changed.
fn contents(dir: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else if !path.ends_with("filler") {
            let seen = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap());
            found.insert(path, seen);
        }
    }
    found
}

/// New sessions with a token each; none that is held already.
async fn sell(cluster: &Cluster, holders: &mut BTreeMap<TokenKey, SessionId>, name: &str) {
    let masters = [cluster.masters[0].agent_listen, cluster.masters[1].agent_listen];
    for nth in 0..LEASES {
        let lessee = Lessee::new(&format!("{name}-{nth}")).unwrap();
        let grant = lessee.obtain(masters, TokenType::Uint2).await.unwrap();
        let other = holders.insert(grant.key, lessee.session);
        assert!(other.is_none(), "token {} was sold to {other:?} and to {:?}", grant.key, lessee.session);
    }
}

/// Waits until a process ended by itself. Gives its last line.
async fn ended(cluster: &mut Cluster) -> (Option<i32>, String) {
    let began = std::time::Instant::now();
    loop {
        let daemon = &mut cluster.master(0).unwrap().daemon;
        if let Some(status) = daemon.ended() {
            return (status.code(), daemon.log_text().lines().last().unwrap_or_default().to_owned());
        }
        assert!(began.elapsed() < PATIENCE, "still runs\n{}", daemon.log_tail(20));
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// `small` mounts a file system of [`DISK_LEN`] bytes at a folder.
async fn fills_up(small: impl FnOnce(&Path)) {
    let mut cluster = Cluster::new().unwrap();
    let client = cluster.client.clone();
    let dir = cluster.masters[0].data_dir.clone();
    fs::remove_dir_all(&dir).unwrap();
    fs::create_dir(&dir).unwrap();
    small(&dir);
    let format = run(&master().unwrap(), &["--format", "--id", "1", "--data-dir", dir.to_str().unwrap()], "/".as_ref());
    assert_eq!(format.unwrap().status, Some(0));
    for nth in [0, 1] {
        cluster.master(nth).unwrap().daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let agent = cluster.add_agent(&["--renew-interval", "1s"]).unwrap();
    cluster.agent(agent).unwrap().daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    let mut holders = BTreeMap::new();
    sell(&cluster, &mut holders, "before").await;
    assert!(dir.join("reserve").exists(), "no room is set apart");

    fill(&dir);
    let daemon = &mut cluster.master(0).unwrap().daemon;
    let why = until_status(&client, daemon, "/readyz", 503).await.unwrap();
    let full = |text: &str| text.contains("disk is full");
    let http = cluster.masters[0].daemon.http;
    let says_full = || async {
        let answer = client.get(&format!("http://{http}/readyz")).await.ok()?;
        full(&answer.text()).then_some(())
    };
    until("master 1 says that its disk is full", says_full).await.unwrap();
    println!("{}: {}", why.status, why.text());
    // The agent renews with the other one, to the end.
    let with_two = || async {
        let status = cluster.ask_agent(agent, "status").await.ok()?.json().ok()?;
        (status["master"]["id"] == 2 && status["ready"] == true).then_some(status["leases"][0]["until"].clone())
    };
    let (first, _) = until("the agent is with master 2", with_two).await.unwrap();
    let renewed = || async { with_two().await.filter(|until| *until != first) };
    until("master 2 renews", renewed).await.unwrap();

    // With room again it goes on by itself, although the other one was started anew meanwhile.
    cluster.master(1).unwrap().daemon.kill_9();
    cluster.master(1).unwrap().daemon.start().unwrap();
    until_status(&client, &mut cluster.master(1).unwrap().daemon, "/healthz", 200).await.unwrap();
    fs::remove_file(dir.join("filler")).unwrap();
    cluster.all_ready().await.unwrap();
    sell(&cluster, &mut holders, "between").await;
    fill(&dir);
    until("master 1 says again that its disk is full", says_full).await.unwrap();

    // Killed and started on the full disk, again and again, as a supervisor does: what was set apart is enough for one start;
    // whoever fills that too is refused, and the store is not touched.
    let mut refused = 0;
    for round in 0..4 {
        cluster.master(0).unwrap().daemon.kill_9();
        let before = contents(&dir.join("ledger"));
        cluster.master(0).unwrap().daemon.start().unwrap();
        if round == 0 {
            until_status(&client, &mut cluster.master(0).unwrap().daemon, "/healthz", 200).await.unwrap();
            assert!(!dir.join("reserve").exists(), "the reserve was not given up");
        } else {
            let (status, line) = ended(&mut cluster).await;
            println!("{line}");
            assert!(status == Some(1) && line.contains("is full") && line.contains("Make room"), "{status:?}: {line}");
            assert_eq!(contents(&dir.join("ledger")), before);
            refused += 1;
        }
        fill(&dir);
    }
    assert_eq!(refused, 3);
    let before = contents(&dir);
    let checked = check_store(&dir);
    println!("{}", checked.out);
    assert!(
        checked.status == Some(0) && checked.out.contains("whole") && checked.out.contains("too little"),
        "{checked:?}"
    );
    assert_eq!(contents(&dir), before, "--check-store changed something");

    fs::remove_file(dir.join("filler")).unwrap();
    cluster.master(0).unwrap().daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    assert!(dir.join("reserve").exists(), "no room is set apart again");
    sell(&cluster, &mut holders, "after").await;
    for nth in [0, 1] {
        // The agent's tokens are there too.
        let held = cluster.leases(nth, "type=uint2&state=held").await.unwrap().len();
        assert_eq!(held, holders.len() + 1, "master {} does not know all holders", nth + 1);
    }
}

#[test]
fn a_full_tmpfs_is_refused_service_and_never_the_store() {
    mounts::enter_async(async || {
        fills_up(|at| mount("tmpfs", &format!("size={DISK_LEN}"), "none", at).unwrap()).await;
    })
    .unwrap();
}

#[test]
fn a_full_ext4_is_refused_service_and_never_the_store() {
    mounts::enter_async(async || {
        let place = tempfile::tempdir().unwrap();
        match Image::with_len(Kind::Ext4, place.path(), DISK_LEN) {
            Ok(image) => {
                fills_up(|at| {
                    mounts::run("mount", ["--bind", image.folder().to_str().unwrap(), at.to_str().unwrap()]).unwrap();
                })
                .await;
                // Nothing holds it any more.
                drop(image);
            }
            Err(why) => println!("left out: {why:#}"),
        }
    })
    .unwrap();
}

#[tokio::test]
async fn what_an_unfinished_write_left_is_no_damage_and_damage_is_still_told() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    let mut holders = BTreeMap::new();
    sell(&cluster, &mut holders, "before").await;
    cluster.master(0).unwrap().daemon.kill_9();
    let dir = cluster.masters[0].data_dir.clone();
    let sled = dir.join("ledger/sled");
    // What sled leaves where the disk is full: it names the newest index, so that sled would take it.
    let left = ["snap.7FFFFFFFFFFFFFF0.generating", "snap.7FFFFFFFFFFFFFFF.generating"];
    fs::write(sled.join(left[0]), "").unwrap();
    fs::write(sled.join(left[1]), "cut short in the midst of").unwrap();
    let checked = check_store(&dir);
    assert_eq!(checked.status, Some(0), "{checked:?}");
    assert!(left.iter().all(|name| checked.out.contains(name)) && sled.join(left[0]).exists(), "{checked:?}");
    cluster.master(0).unwrap().daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    assert!(left.iter().all(|name| !sled.join(name).exists()));
    sell(&cluster, &mut holders, "after").await;
    // A running master's store is left alone.
    let in_use = check_store(&dir);
    assert!(in_use.status == Some(1) && in_use.err.contains("in use"), "{in_use:?}");

    // An index that was whole once is not a leftover.
    cluster.master(0).unwrap().daemon.kill_9();
    fs::write(sled.join("snap.7FFFFFFFFFFFFFFF"), "not an index").unwrap();
    let checked = check_store(&dir);
    assert!(checked.status == Some(1) && checked.err.contains("damaged"), "{checked:?}");
    cluster.master(0).unwrap().daemon.start().unwrap();
    let (status, line) = ended(&mut cluster).await;
    assert!(status == Some(1) && line.contains("damaged"), "{status:?}: {line}");
}

/// Every write to a file fails from some moment on, whatever the engine was about to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_fails_ends_the_master_and_leaves_its_store_whole() {
    let mut cluster = Cluster::new().unwrap();
    cluster.master(0).unwrap().daemon.survive_file_limit();
    for nth in [0, 1] {
        cluster.master(nth).unwrap().daemon.start().unwrap();
    }
    let mut holders = BTreeMap::new();
    for round in 0..FAILING_ROUNDS {
        cluster.all_ready().await.unwrap();
        sell(&cluster, &mut holders, &format!("round-{round}")).await;
        let daemon = &mut cluster.master(0).unwrap().daemon;
        daemon.kill_9();
        let (mut log, stderr) = std::io::pipe().unwrap();
        daemon.stderr_to(File::from(OwnedFd::from(stderr)));
        daemon.start().unwrap();
        // The test's own end of the pipe, so that it ends with the process.
        daemon.stderr_to(File::options().write(true).open("/dev/null").unwrap());
        let said = std::thread::spawn(move || {
            let mut text = String::new();
            log.read_to_string(&mut text).map(|_| text)
        });
        cluster.all_ready().await.unwrap();
        let daemon = &mut cluster.master(0).unwrap().daemon;
        let pid = Pid::from_raw(i32::try_from(daemon.pid().unwrap()).unwrap());
        let nothing = Rlimit { current: Some(0), maximum: Some(0) };
        prlimit(pid, Resource::Fsize, nothing).unwrap();
        // Whoever asks for a lease makes both masters write.
        let lessee = Lessee::new(&format!("late-{round}")).unwrap();
        let masters = [cluster.masters[0].agent_listen, cluster.masters[1].agent_listen];
        let asking =
            tokio::spawn(
                async move { lessee.obtain(masters, TokenType::Uint2).await.map(|g| (g.key, lessee.session)) },
            );
        let (status, _) = ended(&mut cluster).await;
        let text = said.join().unwrap().unwrap();
        // The store's own threads meet the same limit, and may log it behind the line that ends the process.
        let why = text.lines().find(|line| line.contains("the process exits"));
        println!("{why:?}");
        assert!(status == Some(1) && why.is_some(), "{status:?}: {text}");
        assert_eq!(check_store(&dir_of(&cluster)).status, Some(0));
        cluster.master(0).unwrap().daemon.start().unwrap();
        // It is granted when both are back, and to nobody else before.
        let (key, session) = asking.await.unwrap().unwrap();
        assert!(holders.insert(key, session).is_none(), "token {key} was sold twice");
    }
    cluster.all_ready().await.unwrap();
    sell(&cluster, &mut holders, "after").await;
}

fn dir_of(cluster: &Cluster) -> PathBuf {
    cluster.masters[0].data_dir.clone()
}

#[tokio::test]
async fn a_store_is_nobody_elses_business() {
    use std::os::unix::fs::PermissionsExt as _;
    let cluster = Cluster::start(0, &[]).await.unwrap();
    let dir = &cluster.masters[0].data_dir;
    let mut files: Vec<PathBuf> = contents(dir).into_keys().collect();
    files.extend([dir.clone(), dir.join("ledger"), dir.join("ledger/sled")]);
    for file in files {
        let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", file.display());
    }
}

#[test]
fn a_full_disk_under_a_history_refuses_before_ids_are_taken_and_loses_no_line() {
    mounts::enter_async(async || {
        let mut cluster = Cluster::new().unwrap();
        let folder = cluster.dir().join("past");
        fs::create_dir(&folder).unwrap();
        mount("tmpfs", "size=1m", "none", &folder).unwrap();
        for nth in [0, 1] {
            cluster.master(nth).unwrap().daemon.start().unwrap();
        }
        cluster.all_ready().await.unwrap();
        let agent = cluster.add_agent(&["--history-dir", folder.to_str().unwrap()]).unwrap();
        cluster.agent(agent).unwrap().daemon.start().unwrap();
        cluster.all_ready().await.unwrap();
        let url = cluster.agent_url(agent, "generators/orders").unwrap();
        let definition = br#"{"kind":"uniq64","plugins":[{"plugin":"history"}]}"#;
        assert_eq!(cluster.client.ask("PUT", &url, definition.to_vec()).await.unwrap().status, 201);
        let one = || async { cluster.ask_agent(agent, "uniq64/orders").await.unwrap() };
        let mut given = vec![one().await.text()];

        fill(&folder);
        // What the queue takes before the thread finds the disk full is given, and written later.
        let refused = || async {
            let answer = one().await;
            if answer.status == 200 {
                return Err(answer.text());
            }
            Ok(answer)
        };
        let refusal = loop {
            match refused().await {
                Ok(refusal) => break refusal,
                Err(id) => given.push(id),
            }
        };
        assert!(refusal.status == 503 && refusal.text().contains("No space left on device"), "{}", refusal.text());

        fs::remove_file(folder.join("filler")).unwrap();
        let again = || async { Some(one().await).filter(|answer| answer.status == 200) };
        given.push(until("the history is written again", again).await.unwrap().0.text());
        cluster.agent(agent).unwrap().daemon.terminate().await.unwrap();
        for id in given {
            let args = ["--history", id.trim(), "--history-dir", folder.to_str().unwrap()];
            let found = run(&tests::programs::generator().unwrap(), &args, "/".as_ref()).unwrap();
            assert_eq!(found.status, Some(0), "{id}: {}", found.err);
        }
    })
    .unwrap();
}
