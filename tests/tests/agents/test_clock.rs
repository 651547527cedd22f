//! Rules that speak of days, on real programs, in seconds: `--test-clock` lets a day pass in a few of them.

use common::lease::Generation;
use common::token::{TokenType, TokenValue};
use std::sync::{Arc, Mutex};
use tests::client::Kind;
use tests::cluster::{Cluster, until, until_status};
use tests::lessee::Lessee;
use tests::load::Load;
use tests::oracle::Oracle;

/// A day in about three seconds.
const SCALE: u32 = 28_800;

/// Two masters of a cluster with two numbers and leases of a day, running by a test clock from now on, and the flags
/// that make an agent run by it.
async fn fast_cluster() -> (Cluster, Vec<String>) {
    cluster_by(SCALE, &["--lease-days", "1", "--uint2-max", "1"]).await
}

async fn cluster_by(scale: u32, format: &[&str]) -> (Cluster, Vec<String>) {
    let mut cluster = Cluster::new().unwrap();
    let test_clock = cluster.run_by_test_clock(scale, format).unwrap();
    for master in &mut cluster.masters {
        master.daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let flags = ["--test-clock", test_clock.as_str(), "--token-types", "uint2"].map(str::to_owned);
    (cluster, flags.into())
}

async fn start_agent(cluster: &mut Cluster, flags: &[String]) -> usize {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let nth = cluster.add_agent(&flags).unwrap();
    cluster.agent(nth).unwrap().daemon.start().unwrap();
    nth
}

async fn ready_agent(cluster: &mut Cluster, flags: &[String]) -> usize {
    let nth = start_agent(cluster, flags).await;
    let client = cluster.client.clone();
    until_status(&client, &mut cluster.agent(nth).unwrap().daemon, "/readyz", 200).await.unwrap();
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

/// Does what an operator's tool does: ends the lease of numbers that an agent has, in the name of its own session.
async fn deny(cluster: &Cluster, nth: usize, test_clock: &str) {
    let (agent, status) = (&cluster.agents[nth], cluster.agent_status(nth).await.unwrap());
    let lease = status.leases.iter().find(|lease| lease.token_type == "uint2").unwrap();
    let session = agent.session().unwrap();
    let lessee =
        Lessee { session, test_clock: Some(test_clock.parse().unwrap()), ..Lessee::new(&agent.agent_id).unwrap() };
    let key = TokenType::Uint2.key(TokenValue(lease.token.parse().unwrap()));
    lessee.terminate(cluster.masters[0].agent_listen, key, Generation(lease.g)).await.unwrap();
}

/// Waits until a value has its second holder, which must not be before the rest after its first one was over.
async fn rests_and_is_granted_again(cluster: &Cluster, token: &str) {
    let first = Mutex::new(serde_json::Value::Null);
    let again = || async {
        let now = row(cluster, token).await?;
        if now["g"].as_u64() == Some(2) {
            return Some(now);
        }
        assert_eq!(now["g"].as_u64(), Some(1), "{now}");
        *first.lock().unwrap() = now;
        None
    };
    let (granted, took) = until("the value is granted again", again).await.unwrap();
    let first = first.into_inner().unwrap();
    let [until, reuse_at, from] = [&first["until"], &first["reuse_at"], &granted["from"]].map(day);
    println!(
        "{token}: last seen {}, lease to {until}, reusable {reuse_at}, granted for {from} after {took:?}",
        first["state"]
    );
    assert!(from >= reuse_at, "{granted} before {first}");
    assert_ne!(granted["agent_id"], "agent-1", "the dead one");
}

/// Waits until an agent has no lease to mint numbers with.
async fn stops_minting(cluster: &Cluster, nth: usize) {
    let stopped = || async {
        let answer = cluster.ask_agent(nth, Kind::Uniq64.path()).await.ok()?;
        (answer.status == 503).then(|| answer.code())
    };
    let (code, took) = until("the denied agent stops", stopped).await.unwrap();
    println!("agent-{} stopped {took:?} after it was denied: {code}", nth + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_runs_out_or_is_denied_and_is_granted_again_only_when_its_rest_is_over() {
    let (mut cluster, flags) = fast_cluster().await;
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let nth = ready_agent(&mut cluster, &flags).await;
        tokens.push(cluster.agent_status(nth).await.unwrap().token("uint2").unwrap().to_owned());
    }
    let held = row(&cluster, &tokens[0]).await.unwrap();
    assert_eq!((held["state"].as_str(), held["g"].as_u64()), (Some("held"), Some(1)), "{held}");

    // Renewals go on: some days later the same agent still has it.
    let later = || async { row(&cluster, &tokens[0]).await.filter(|now| day(&now["until"]) > day(&held["reuse_at"])) };
    let (renewed, took) = until("the lease outlives its first term", later).await.unwrap();
    assert_eq!(renewed["g"].as_u64(), Some(1), "{renewed}");
    println!("held from {} to {} after {took:?}", day(&held["from"]), day(&renewed["until"]));

    // The holder of one dies, that of the other is denied at full speed. It and a third agent wait for the values:
    // through the leases, their ends, and their rest.
    let waiting = start_agent(&mut cluster, &flags).await;
    let agents: Vec<_> = cluster.agents.iter().map(|a| (a.daemon.name.clone(), a.daemon.http)).collect();
    let oracle = Arc::new(Oracle::default());
    let load = Load::start(&cluster.client, &agents, &oracle, 3);
    until("IDs of both", || async { (oracle.total() > 20_000).then_some(()) }).await.unwrap();
    cluster.agent(0).unwrap().daemon.kill_9();
    deny(&cluster, 1, &flags[1]).await;
    stops_minting(&cluster, 1).await;
    tokio::join!(rests_and_is_granted_again(&cluster, &tokens[0]), rests_and_is_granted_again(&cluster, &tokens[1]));
    let client = cluster.client.clone();
    for nth in [1, waiting] {
        until_status(&client, &mut cluster.agent(nth).unwrap().daemon, "/readyz", 200).await.unwrap();
    }
    let goal = oracle.total() + 20_000;
    until("IDs of both again", || async { (oracle.total() > goal).then_some(()) }).await.unwrap();
    load.stop().await.unwrap();
    let verdict = oracle.verdict();
    println!("{verdict}");
    assert_eq!(verdict.duplicates, 0, "{verdict}");

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
async fn a_denied_agent_stops_at_its_next_heartbeat() {
    // A minute in a second, and twelve hours, the renewal that would tell it too, in twelve minutes: longer than this
    // test waits for anything.
    let (mut cluster, mut flags) = cluster_by(60, &["--uint2-max", "0"]).await;
    flags.extend(["--renew-interval", "12h"].map(str::to_owned));
    let nth = ready_agent(&mut cluster, &flags).await;
    let agents = [(cluster.agents[nth].daemon.name.clone(), cluster.agents[nth].daemon.http)];
    let oracle = Arc::new(Oracle::default());
    let load = Load::start(&cluster.client, &agents, &oracle, 4);
    until("some IDs", || async { (oracle.total() > 20_000).then_some(()) }).await.unwrap();
    let before = row(&cluster, "0").await.unwrap();
    deny(&cluster, nth, &flags[1]).await;
    stops_minting(&cluster, nth).await;
    // There is no other value, and this one rests: nobody gets it, not even who had it.
    let minted = oracle.total();
    let after = row(&cluster, "0").await.unwrap();
    assert_eq!(
        (&after["g"], &after["until"], &after["reuse_at"]),
        (&before["g"], &before["until"], &before["reuse_at"])
    );
    let other = start_agent(&mut cluster, &flags).await;
    let client = cluster.client.clone();
    until_status(&client, &mut cluster.agent(other).unwrap().daemon, "/healthz", 200).await.unwrap();
    let says = || async {
        let answer = cluster.ask_agent(other, Kind::Uniq64.path()).await.ok()?;
        assert_eq!(answer.status, 503, "{}", answer.text());
        answer.text().contains("no uint2 token is free").then_some(())
    };
    until("the other agent is told that none is free", says).await.unwrap();
    let troubles = load.stop().await.unwrap();
    let verdict = oracle.verdict();
    println!("{verdict}\n  of them {minted} until it stopped; then clients met: {troubles:?}");
    assert_eq!(verdict.duplicates, 0, "{verdict}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_without_masters_ends_with_its_lease() {
    let (mut cluster, flags) = fast_cluster().await;
    let nth = ready_agent(&mut cluster, &flags).await;
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

/// The middle of 2063, in milliseconds since 1970: in half a year the highest bit of a Uniq64 is set.
const MIDDLE_OF_2063: i64 = 2_950_473_600_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_says_a_year_ahead_that_its_numbers_will_outgrow_a_signed_column() {
    let mut cluster = Cluster::new().unwrap();
    // Twice as fast since the instant that makes it the middle of 2063 by now.
    let epoch = 2 * common::clock::Clock::system().wall().0 - MIDDLE_OF_2063;
    let test_clock = cluster.run_by(format!("2@{epoch}"), &[]).unwrap();
    cluster.masters.iter_mut().for_each(|master| master.daemon.start().unwrap());
    cluster.all_ready().await.unwrap();
    let nth = ready_agent(&mut cluster, &["--test-clock".to_owned(), test_clock]).await;
    let warned = || async { cluster.agents[nth].daemon.log_tail(200).contains("signed BIGINT").then_some(()) };
    until("the warning", warned).await.unwrap();
    let metrics = cluster.ask_agent(nth, "metrics").await.unwrap().text();
    let left = metrics.lines().find_map(|line| line.strip_prefix("uniq_uniq64_signed_seconds_left ")).unwrap();
    assert!((1..366 * 86_400).contains(&left.parse::<i64>().unwrap()), "{left}");
    let status = cluster.ask_agent(nth, "status").await.unwrap().json().unwrap();
    assert!(status["uniq64_signed_until"].as_str().unwrap().starts_with("2064-01-01"), "{status}");
    let id: u64 = cluster.ask_agent(nth, "uniq64").await.unwrap().text().trim().parse().unwrap();
    assert!(i64::try_from(id).is_ok());
}
