//! A program that lost one of its long-lived tasks ends, with status 1 and a line that names it, instead of looking alive; a
//! write that never returns ends it too, and SIGTERM always does.
//!
//! The blows are dealt by a place in the programs that only builds with debug assertions have (`process::strike`).

use std::path::PathBuf;
use std::time::{Duration, Instant};
use tests::cluster::{Cluster, PATIENCE, until, until_status};
use tests::programs::Daemon;

/// A file that strikes the task named in it.
fn fate(cluster: &Cluster, name: &str) -> PathBuf {
    cluster.dir().join(format!("strike-{name}"))
}

fn strike(at: &PathBuf, task: &str, blow: &str) {
    let new = at.with_extension("new");
    std::fs::write(&new, format!("{task} {blow}\n")).unwrap();
    std::fs::rename(new, at).unwrap();
}

/// Waits until a process ends by itself. Gives its status, and its last line about a task, or its last one. What another thread is struck
/// by at the same moment may stand behind it, cut off anywhere.
async fn ended(daemon: &mut Daemon) -> (Option<i32>, String) {
    let began = Instant::now();
    loop {
        if let Some(status) = daemon.ended() {
            let log = daemon.log_text();
            let about_a_task = log.lines().rfind(|line| line.starts_with("the task '"));
            return (status.code(), about_a_task.or_else(|| log.lines().last()).unwrap_or_default().to_owned());
        }
        assert!(began.elapsed() < PATIENCE, "still runs\n{}", daemon.log_tail(20));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

const BLOWS: [(&str, &str); 2] = [("panic", "panicked"), ("end", "ended unexpectedly")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_without_one_of_its_tasks_ends() {
    let mut cluster = Cluster::new().unwrap();
    let client = cluster.client.clone();
    let at = fate(&cluster, "master-1");
    cluster.master(0).unwrap().daemon.env("UNIQ_TEST_STRIKE", at.to_str().unwrap());
    for task in ["agents", "peers", "link", "console", "ledger", "watchdog", "signals"] {
        for (blow, told) in BLOWS {
            let _ = std::fs::remove_file(&at);
            let daemon = &mut cluster.master(0).unwrap().daemon;
            daemon.start().unwrap();
            until_status(&client, daemon, "/healthz", 200).await.unwrap();
            strike(&at, task, blow);
            let (status, line) = ended(daemon).await;
            println!("{task} {blow}: {line}");
            assert_eq!(status, Some(1), "{task} {blow}: {line}");
            assert!(line.contains(&format!("'{task}' {told}")), "{task} {blow}: {line}");
        }
    }
}

/// They end when both masters have the user, and here there is only one of them at first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tasks_that_propose_an_admin_may_end_and_not_panic() {
    const TASKS: [&str; 2] = ["first-admin", "reset-admin"];
    let mut cluster = Cluster::new().unwrap();
    let client = cluster.client.clone();
    let at = fate(&cluster, "master-1");
    let daemon = &mut cluster.master(0).unwrap().daemon;
    daemon.env("UNIQ_TEST_STRIKE", at.to_str().unwrap());
    daemon.args.push("--reset-admin".to_owned());
    for task in TASKS {
        let _ = std::fs::remove_file(&at);
        daemon.start().unwrap();
        until_status(&client, daemon, "/healthz", 200).await.unwrap();
        strike(&at, task, "panic");
        let (status, line) = ended(daemon).await;
        assert_eq!(status, Some(1), "{line}");
        assert!(line.contains(&format!("'{task}' panicked")), "{line}");
    }
    for task in TASKS {
        strike(&at, task, "end");
        let daemon = &mut cluster.master(0).unwrap().daemon;
        daemon.start().unwrap();
        until_status(&client, daemon, "/healthz", 200).await.unwrap();
        // Ended at once, the first one proposes nobody: master 1 has no user of the pair until master 2 proposes its own.
        cluster.master(1).unwrap().daemon.start().unwrap();
        cluster.all_ready().await.unwrap();
        assert!(cluster.master(0).unwrap().daemon.running(), "{task}");
        for nth in [0, 1] {
            cluster.master(nth).unwrap().daemon.terminate().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_without_one_of_its_tasks_ends_and_goes_on_after_a_restart() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    let client = cluster.client.clone();
    let at = fate(&cluster, "agent-1");
    cluster.agent(0).unwrap().daemon.terminate().await.unwrap();
    cluster.agent(0).unwrap().daemon.env("UNIQ_TEST_STRIKE", at.to_str().unwrap());
    for task in ["heartbeat", "names", "segments", "sequences", "worker", "signals"] {
        for (blow, told) in BLOWS {
            let _ = std::fs::remove_file(&at);
            let daemon = &mut cluster.agent(0).unwrap().daemon;
            daemon.start().unwrap();
            until_status(&client, daemon, "/readyz", 200).await.unwrap();
            strike(&at, task, blow);
            let (status, line) = ended(daemon).await;
            println!("{task} {blow}: {line}");
            assert_eq!(status, Some(1), "{task} {blow}: {line}");
            assert!(line.contains(&format!("'{task}' {told}")), "{task} {blow}: {line}");
        }
    }
    std::fs::remove_file(&at).unwrap();
    cluster.agent(0).unwrap().daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    assert!(cluster.agent_status(0).await.unwrap().resumed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_thread_that_writes_the_log_lines_are_counted_and_all_else_goes_on() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    cluster.agent(0).unwrap().daemon.terminate().await.unwrap();
    let at = fate(&cluster, "agent-1");
    strike(&at, "log", "end");
    cluster.agent(0).unwrap().daemon.env("UNIQ_TEST_STRIKE", at.to_str().unwrap());
    cluster.agent(0).unwrap().daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    assert_eq!(cluster.ask_agent(0, "uniq64").await.unwrap().status, 200);
    let metrics = cluster.ask_agent(0, "metrics").await.unwrap();
    let dropped =
        metrics.text().lines().find_map(|line| line.strip_prefix("uniq_log_lines_dropped_total ")?.parse().ok());
    assert!(dropped.is_some_and(|lines: u64| lines > 0), "{}", metrics.text());
    let (status, _) = cluster.agent(0).unwrap().daemon.terminate().await.unwrap();
    assert!(status.success(), "{status}");
}

/// A write to the store that never returns, as sled's does after some that fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_never_returns_ends_the_master() {
    let mut cluster = Cluster::new().unwrap();
    let client = cluster.client.clone();
    let at = fate(&cluster, "master");
    for nth in [0, 1] {
        let daemon = &mut cluster.master(nth).unwrap().daemon;
        daemon.env("UNIQ_TEST_STRIKE", at.to_str().unwrap());
        daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    // From their next write on; the permits are renewed often enough for one to come, and a login is one.
    strike(&at, "commit", "hang");
    for nth in [0, 1] {
        let http = cluster.masters[nth].daemon.http;
        let client = client.clone();
        tokio::spawn(async move {
            let _ = client.console(http, "/api/masters").await;
        });
    }
    let hangs = || async {
        let url = format!("http://{}/readyz", cluster.masters[0].daemon.http);
        let answered = tokio::time::timeout(Duration::from_millis(500), client.get(&url)).await;
        (!matches!(answered, Ok(Ok(answer)) if answer.status == 200)).then_some(())
    };
    until("the ledger's thread of master 1 hangs", hangs).await.unwrap();
    // Told to stop, it does not wait for the write, nor for the watchdog.
    let (status, _) = cluster.master(0).unwrap().daemon.terminate().await.unwrap();
    let text = cluster.master(0).unwrap().daemon.log_text();
    let line = text.lines().last().unwrap_or_default();
    println!("{status}: {line}");
    assert!(status.code() == Some(1) && line.contains("told to stop"), "{status}: {line}");
    // Not told anything, it ends by the watchdog.
    let (status, line) = ended(&mut cluster.master(1).unwrap().daemon).await;
    println!("{status:?}: {line}");
    assert!(status == Some(1) && line.contains("a write to the store has not returned"), "{status:?}: {line}");
    // What is on the disk is whole.
    std::fs::remove_file(&at).unwrap();
    for nth in [0, 1] {
        cluster.master(nth).unwrap().daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
}
