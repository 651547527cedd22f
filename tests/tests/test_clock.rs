//! Rules that speak of days, on real programs, in seconds: `--test-clock` lets a day pass in a few of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

use std::time::{SystemTime, UNIX_EPOCH};
use tests::client::Kind;
use tests::cluster::{Cluster, until, until_status};
use tests::programs;

/// A day in about three seconds.
const SCALE: u64 = 28_800;

/// Two masters of a cluster with two numbers and leases of a day, running by a test clock from now on, and the flags
/// that make an agent run by it.
async fn fast_cluster() -> (Cluster, [String; 4]) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let test_clock = format!("{SCALE}@{now}");
    let mut cluster = Cluster::new().unwrap();
    for master in &mut cluster.masters {
        std::fs::remove_dir_all(&master.data_dir).unwrap();
        let (dir, id) = (master.data_dir.to_str().unwrap(), master.id.to_string());
        let args = ["--format", "--data-dir", dir, "--id", &id, "--lease-days", "1", "--uint2-max", "1"];
        let ended = programs::run(&programs::master().unwrap(), &args, "/".as_ref()).unwrap();
        assert_eq!(ended.status, Some(0), "{ended:?}");
        master.daemon.args.extend(["--test-clock".to_owned(), test_clock.clone()]);
        master.daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let flags = ["--test-clock", test_clock.as_str(), "--token-types", "uint2"].map(str::to_owned);
    (cluster, flags)
}

async fn start_agent(cluster: &mut Cluster, flags: &[String]) -> usize {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let nth = cluster.add_agent(&flags).unwrap();
    cluster.agent(nth).unwrap().daemon.start().unwrap();
    nth
}

/// The row of a token in a master's table.
async fn row(cluster: &Cluster, token: &str) -> Option<serde_json::Value> {
    let rows = cluster.leases(0, "type=uint2").await.ok()?;
    rows.into_iter().find(|row| row["token"] == token)
}

/// The day of an instant in RFC 3339.
fn day(instant: &serde_json::Value) -> String {
    instant.as_str().unwrap()[..10].to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_runs_out_rests_and_is_granted_again_only_when_its_rest_is_over() {
    let (mut cluster, flags) = fast_cluster().await;
    let client = cluster.client.clone();
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let nth = start_agent(&mut cluster, &flags).await;
        until_status(&client, &mut cluster.agent(nth).unwrap().daemon, "/readyz", 200).await.unwrap();
        tokens.push(cluster.agent_status(nth).await.unwrap().token("uint2").unwrap().to_owned());
    }
    let held = row(&cluster, &tokens[0]).await.unwrap();
    assert_eq!((held["state"].as_str(), held["g"].as_u64()), (Some("held"), Some(1)), "{held}");

    // Renewals go on: some days later the same agent still has it.
    let later = || async { row(&cluster, &tokens[0]).await.filter(|now| day(&now["until"]) > day(&held["reuse_at"])) };
    let (renewed, took) = until("the lease outlives its first term", later).await.unwrap();
    assert_eq!(renewed["g"].as_u64(), Some(1), "{renewed}");
    println!("held from {} to {} after {took:?}", day(&held["from"]), day(&renewed["until"]));

    // Its holder dies. A third agent waits for the value: through the lease, its end, and its rest.
    cluster.agent(0).unwrap().daemon.kill_9();
    let waiting = start_agent(&mut cluster, &flags).await;
    let resting = || async { row(&cluster, &tokens[0]).await.filter(|now| now["state"] == "resting") };
    let (rested, took) = until("the value rests", resting).await.unwrap();
    assert_eq!(rested["g"].as_u64(), Some(1), "{rested}");
    println!("rests since {took:?}, lease ended {}, reusable {}", day(&rested["until"]), day(&rested["reuse_at"]));
    let again = || async { row(&cluster, &tokens[0]).await.filter(|now| now["g"].as_u64() == Some(2)) };
    let (granted, took) = until("the value is granted again", again).await.unwrap();
    println!("granted again for {} after {took:?}", day(&granted["from"]));
    assert!(day(&granted["from"]) >= day(&rested["reuse_at"]), "{granted} before {rested}");
    assert_eq!(granted["agent_id"], "agent-3");
    until_status(&client, &mut cluster.agent(waiting).unwrap().daemon, "/readyz", 200).await.unwrap();

    // The dead one comes back with its old file: its lease is over, and there is none for it.
    let daemon = &mut cluster.agent(0).unwrap().daemon;
    daemon.start().unwrap();
    until_status(&client, daemon, "/healthz", 200).await.unwrap();
    for _ in 0..20 {
        let answer = cluster.ask_agent(0, Kind::Uniq64.path()).await.unwrap();
        assert_eq!(answer.status, 503, "{}", answer.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_without_masters_ends_with_its_lease() {
    let (mut cluster, flags) = fast_cluster().await;
    let client = cluster.client.clone();
    let nth = start_agent(&mut cluster, &flags).await;
    until_status(&client, &mut cluster.agent(nth).unwrap().daemon, "/readyz", 200).await.unwrap();
    for master in &mut cluster.masters {
        master.daemon.kill_9();
    }
    assert_eq!(cluster.ask_agent(nth, Kind::Uniq64.path()).await.unwrap().status, 200);
    let over = || async {
        let answer = cluster.ask_agent(nth, Kind::Uniq64.path()).await.ok()?;
        (answer.status == 503).then(|| answer.code())
    };
    let (code, took) = until("the lease is over", over).await.unwrap();
    println!("{code} after {took:?}");
    assert_eq!(code, "lease_expired");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_runs_by_another_clock_is_refused() {
    let (mut cluster, _) = fast_cluster().await;
    let client = cluster.client.clone();
    let nth = start_agent(&mut cluster, &["--token-types".to_owned(), "uint2".to_owned()]).await;
    let daemon = &mut cluster.agent(nth).unwrap().daemon;
    until_status(&client, daemon, "/healthz", 200).await.unwrap();
    let says = || async {
        let answer = cluster.ask_agent(nth, Kind::Uniq64.path()).await.ok()?;
        (answer.status == 503 && answer.text().contains("--test-clock")).then_some(())
    };
    until("the agent says why it has no lease", says).await.unwrap();
}
