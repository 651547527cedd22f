//! With one master stopped all goes on but new leases; with both back, those too.

use std::sync::Arc;
use std::time::Duration;
use tests::cluster::{Cluster, until, until_status};
use tests::load::Load;
use tests::oracle::Oracle;

const RENEW: [&str; 2] = ["--renew-interval", "1s"];

/// The end of the agent's lease of numbers, as the master's table has it.
async fn lease_end(cluster: &Cluster, master: usize, agent_id: &str) -> Option<String> {
    let rows = cluster.leases(master, &format!("agent={agent_id}")).await.ok()?;
    let row = rows.iter().find(|row| row["type"] == "uint2" && row["state"] == "held")?;
    Some(row["until"].as_str()?.to_owned())
}

/// Waits until the lease ends later than it did: times in RFC 3339 and one offset sort as text.
async fn renewed(cluster: &Cluster, master: usize, agent_id: &str) {
    let before = lease_end(cluster, master, agent_id).await.expect("the lease stands in the table");
    let grown = || async { lease_end(cluster, master, agent_id).await.filter(|end| *end > before) };
    let (end, took) = until("the lease is renewed", grown).await.unwrap();
    println!("{agent_id} renewed at master {}: {before} -> {end} in {took:?}", master + 1);
}

async fn goes_on_without(gone: usize) {
    let mut cluster = Cluster::start(2, &RENEW).await.unwrap();
    let client = cluster.client.clone();
    let (oracle, left) = (Arc::new(Oracle::default()), 1 - gone);
    let agents: Vec<_> = cluster.agents.iter().map(|a| (a.daemon.name.clone(), a.daemon.http)).collect();
    let mut load = Load::start(&client, &agents, &oracle, 1);

    let (status, took) = cluster.master(gone).unwrap().daemon.terminate().await.unwrap();
    println!("master {} stopped in {took:?} with {status}", gone + 1);
    assert!(status.success(), "SIGTERM is a clean stop, not {status}");

    // Minting goes on, renewal goes on.
    let minted = oracle.total();
    until("IDs without that master", || async { (oracle.total() > minted + 20_000).then_some(()) }).await.unwrap();
    renewed(&cluster, left, "agent-1").await;

    // An agent's restart goes on, killed or stopped.
    for kill in [true, false] {
        let before = cluster.agent_status(0).await.unwrap();
        let daemon = &mut cluster.agent(0).unwrap().daemon;
        if kill {
            daemon.kill_9();
        } else {
            assert!(daemon.terminate().await.unwrap().0.success());
        }
        daemon.start().unwrap();
        until_status(&client, daemon, "/readyz", 200).await.unwrap();
        let after = cluster.agent_status(0).await.unwrap();
        assert!(after.resumed && after.tokens() == before.tokens(), "{after:?} after {before:?}");
    }
    renewed(&cluster, left, "agent-1").await;
    renewed(&cluster, left, "agent-2").await;

    // A new agent needs both.
    let new = cluster.add_agent(&RENEW).unwrap();
    cluster.agent(new).unwrap().daemon.start().unwrap();
    let daemon = &mut cluster.agent(new).unwrap().daemon;
    until_status(&client, daemon, "/healthz", 200).await.unwrap();
    for _ in 0..10 {
        for kind in tests::client::KINDS {
            let answer = cluster.ask_agent(new, kind.path()).await.unwrap();
            assert_eq!((answer.status, answer.code().as_str()), (503, "no_lease"), "{}", answer.text());
        }
        assert_eq!(cluster.ask_agent(new, "readyz").await.unwrap().status, 503);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    load.check().unwrap();

    // Both are back.
    let daemon = &mut cluster.master(gone).unwrap().daemon;
    daemon.start().unwrap();
    until_status(&client, daemon, "/readyz", 200).await.unwrap();
    let mints = || async {
        let mut answers = Vec::new();
        for kind in tests::client::KINDS {
            answers.push(cluster.ask_agent(new, kind.path()).await.ok()?);
        }
        answers.iter().all(|answer| answer.status == 200).then_some(())
    };
    let ((), took) = until("the new agent mints all kinds", mints).await.unwrap();
    println!("the new agent minted {took:?} after both masters were ready again (goal: 10 s)");

    let troubles = load.stop().await.unwrap();
    let verdict = oracle.verdict();
    println!("{verdict}\n  meanwhile clients met: {troubles:?}");
    assert_eq!(verdict.duplicates, 0, "{verdict}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_but_new_leases_goes_on_without_master_1() {
    goes_on_without(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_but_new_leases_goes_on_without_master_2() {
    goes_on_without(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_mint_and_restart_without_any_master() {
    let mut cluster = Cluster::start(1, &RENEW).await.unwrap();
    let client = cluster.client.clone();
    let before = cluster.agent_status(0).await.unwrap();
    for master in &mut cluster.masters {
        master.daemon.kill_9();
    }
    let daemon = &mut cluster.agent(0).unwrap().daemon;
    daemon.kill_9();
    daemon.start().unwrap();
    until_status(&client, daemon, "/readyz", 200).await.unwrap();
    let after = cluster.agent_status(0).await.unwrap();
    assert!(after.resumed && after.tokens() == before.tokens(), "{after:?} after {before:?}");
    for kind in tests::client::KINDS {
        let answer = cluster.ask_agent(0, kind.path()).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    // A whole restart of everything: both masters come back from their own stores and renew.
    for master in &mut cluster.masters {
        master.daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    renewed(&cluster, 0, "agent-1").await;
}
