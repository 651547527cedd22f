//! A copy of a master's store beside its original, one that was put back, and one whose peer does not hear it: what a master
//! promises alone, it promises only on the store that it last wrote itself.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tests::client::{Kind, Media};
use tests::cluster::{Cluster, Master, until, until_status};
use tests::load::{Load, Pace};
use tests::operator::{join, peer_lost};
use tests::oracle::Oracle;
use tests::programs;

/// A day in less than a second.
const SCALE: u32 = 100_000;
/// The remedy that a master names that must not go on alone.
const REMEDY: &str = "--vouch-untouched";

/// `cp -a`, as an operator would.
fn copy(from: &Path, to: &Path) {
    let args = ["-a", from.to_str().unwrap(), to.to_str().unwrap()];
    let ended = programs::run(Path::new("cp"), &args, Path::new("/")).unwrap();
    assert_eq!(ended.status, Some(0), "{ended:?}");
}

async fn mode(cluster: &Cluster, master: &Master) -> String {
    let row = cluster.master_row(master.daemon.http).await;
    row.map_or_else(|e| e.to_string(), |row| row["mode"].as_str().unwrap_or_default().to_owned())
}

/// Waits until a master says in its log that it may not go on alone; gives what `/readyz` says.
async fn holds_back(cluster: &Cluster, master: &mut Master) -> String {
    until("it says that it waits for the other one", || async {
        master.daemon.log_tail(1_000).contains("has not been met since it started").then_some(())
    })
    .await
    .unwrap();
    assert_eq!(mode(cluster, master).await, "syncing");
    let answer = until_status(&cluster.client, &mut master.daemon, "/readyz", 503).await.unwrap();
    assert!(answer.text().contains(REMEDY), "{}", answer.text());
    answer.text()
}

/// Copies a master's folder while the process stands still, as a snapshot of its volume does.
fn copy_while_it_runs(master: &mut Master, to: &Path) {
    let pid = Pid::from_raw(i32::try_from(master.daemon.pid().unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let seen = waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED).unwrap().unwrap();
    assert!(seen.stopped(), "{seen:?}");
    copy(&master.data_dir, to);
    kill_process(pid, Signal::CONT).unwrap();
}

/// Waits until a master has this mode.
async fn until_mode(cluster: &Cluster, master: &Master, wanted: &str) {
    until(wanted, || async { (mode(cluster, master).await == wanted).then_some(()) }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_beside_its_original_renews_nothing_that_the_pair_grants_again() {
    let mut cluster = Cluster::new().unwrap();
    let client = cluster.client.clone();
    let test_clock = cluster.run_by_test_clock(SCALE, &["--lease-days", "20", "--uint2-max", "1"]).unwrap();
    for master in &mut cluster.masters {
        master.daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let flags = ["--test-clock", &test_clock, "--token-types", "uint2"];
    for _ in 0..2 {
        let nth = cluster.add_agent(&flags).unwrap();
        cluster.agent(nth).unwrap().daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();

    // Master 1 is stopped, its folder copied, both started. The copy cannot reach master 2, and agent 1 reaches only it.
    cluster.masters[0].daemon.terminate().await.unwrap();
    let dir = cluster.dir().join("copied");
    copy(&cluster.masters[0].data_dir, &dir);
    let nobody = cluster.port().unwrap();
    let mut twin = cluster.another_master("copy", 1, dir, nobody).unwrap();
    twin.daemon.set("--test-clock", &test_clock);
    twin.daemon.start().unwrap();
    cluster.masters[0].daemon.start().unwrap();
    let daemon = &mut cluster.agent(0).unwrap().daemon;
    daemon.terminate().await.unwrap();
    daemon.set("--masters", &twin.agent_listen.to_string());
    daemon.start().unwrap();

    // Another agent waits for a number at the pair, and gets that of agent 1 when its lease is over.
    let new = cluster.add_agent(&flags).unwrap();
    cluster.agent(new).unwrap().daemon.start().unwrap();
    let oracle = Arc::new(Oracle::default());
    let agents: Vec<_> = cluster.agents.iter().map(|a| (a.daemon.name.clone(), a.daemon.http)).collect();
    until_status(&client, &mut cluster.agent(new).unwrap().daemon, "/readyz", 200).await.unwrap();
    // Both have minted nothing yet, so with one token they would give the same serials.
    let load = Load::paced(&client, &agents, &oracle, 10, Pace::resting(Duration::from_millis(5)));
    let goal = oracle.total() + 20_000;
    until("IDs of the new holder", || async { (oracle.total() > goal).then_some(()) }).await.unwrap();
    let over = cluster.ask_agent(0, Kind::Uniq64.path()).await.unwrap();
    load.stop().await.unwrap();
    let verdict = oracle.verdict();
    println!("{verdict}");
    assert_eq!(verdict.duplicates, 0, "{verdict}");
    assert_eq!(over.status, 503, "nobody renewed it: {}", over.text());
    println!("{}", holds_back(&cluster, &mut twin).await);
}

/// Master 1 is stopped, its folder copied, both started, and both reach master 2: nobody can tell which of them goes on, so
/// neither does, master 2 says so, and nothing that either promised is granted again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_copies_that_both_meet_the_other_master_both_stop() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    let client = cluster.client.clone();
    // Else the original would propose its first user again, and the copy be the one of the two that is behind.
    let told = "both masters hold the first user";
    until(told, || async { cluster.masters[0].daemon.log_text().contains(told).then_some(()) }).await.unwrap();
    cluster.masters[0].daemon.terminate().await.unwrap();
    let dir = cluster.dir().join("copied");
    copy(&cluster.masters[0].data_dir, &dir);
    let peer = cluster.masters[1].peer_listen;
    let mut twin = cluster.another_master("copy", 1, dir, peer).unwrap();
    twin.daemon.start().unwrap();
    cluster.masters[0].daemon.start().unwrap();
    // Each of the three has agents of its own that ask from the first moment on, and so do those that ask all.
    let ask = [&cluster.masters[0], &twin, &cluster.masters[1]].map(|master| master.agent_listen.to_string());
    let all = ask.join(",");
    for masters in ask.iter().chain([&all, &all]) {
        let nth = cluster.add_agent(&["--renew-interval", "1s"]).unwrap();
        let daemon = &mut cluster.agent(nth).unwrap().daemon;
        daemon.set("--masters", masters);
        daemon.start().unwrap();
        until_status(&client, daemon, "/healthz", 200).await.unwrap();
    }
    let oracle = Arc::new(Oracle::default());
    let agents: Vec<_> = cluster.agents.iter().map(|a| (a.daemon.name.clone(), a.daemon.http)).collect();
    let load = Load::paced(&client, &agents, &oracle, 13, Pace::resting(Duration::from_millis(20)));
    for copy in [&cluster.masters[0], &twin] {
        until_mode(&cluster, copy, "rolled-back").await;
    }
    let said = "two stores of the other master are heard";
    until("master 2 says so", || async { cluster.masters[1].daemon.log_text().contains(said).then_some(()) })
        .await
        .unwrap();
    let why = until_status(&client, &mut cluster.masters[1].daemon, "/readyz", 503).await.unwrap().text();
    assert!(why.contains("--peer-lost"), "{why}");

    // Neither may be the one to go on with, also after a restart; with another one in their place all agents are served.
    for copy in [&mut cluster.masters[0], &mut twin] {
        copy.daemon.terminate().await.unwrap();
        let refused = peer_lost(copy).unwrap_err().to_string();
        assert!(refused.contains("must not go on alone"), "{refused}");
        copy.daemon.start().unwrap();
        until_status(&client, &mut copy.daemon, "/readyz", 503).await.unwrap();
    }
    until_mode(&cluster, &twin, "rolled-back").await;
    cluster.masters[0].daemon.terminate().await.unwrap();
    cluster.masters[1].daemon.terminate().await.unwrap();
    let token = peer_lost(&cluster.masters[1]).unwrap();
    cluster.masters[1].daemon.start().unwrap();
    until_status(&client, &mut cluster.masters[1].daemon, "/healthz", 200).await.unwrap();
    std::fs::remove_dir_all(&cluster.masters[0].data_dir).unwrap();
    let joined = join(&token, &cluster.masters[0], peer).unwrap();
    assert_eq!(joined.status, Some(0), "{joined:?}");
    cluster.masters[0].daemon.start().unwrap();
    for nth in [0, 1] {
        until_status(&client, &mut cluster.masters[nth].daemon, "/readyz", 200).await.unwrap();
    }
    for nth in [0, 2, 3, 4] {
        until_status(&client, &mut cluster.agent(nth).unwrap().daemon, "/readyz", 200).await.unwrap();
    }
    let goal = oracle.total() + 10_000;
    until("more IDs", || async { (oracle.total() > goal).then_some(()) }).await.unwrap();
    load.stop().await.unwrap();
    let verdict = oracle.verdict();
    println!("{verdict}");
    assert_eq!(verdict.duplicates, 0, "{verdict}");
}

/// A copy of master 1's folder is started while master 1 runs. The copy greets master 2, which takes it for master 1 started
/// again; master 1 keeps the connections that it has, over which nobody greets any more. What it says there is not believed,
/// and so all three learn of it: else it would go on granting, and the copy, once master 2 is lost, would grant the same again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_a_running_master_is_noticed_though_nothing_is_connected_anew() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    let dir = cluster.dir().join("copied");
    copy_while_it_runs(&mut cluster.masters[0], &dir);
    let peer = cluster.masters[1].peer_listen;
    let connected = |master: &Master| master.daemon.log_text().matches("connected to the other master").count();
    let before = [0, 1].map(|nth| connected(&cluster.masters[nth]));
    let mut twin = cluster.another_master("copy", 1, dir, peer).unwrap();
    twin.daemon.start().unwrap();
    for copy in [&twin, &cluster.masters[0]] {
        until_mode(&cluster, copy, "rolled-back").await;
    }
    let said = "two stores of the other master are heard";
    until("master 2 says so", || async { cluster.masters[1].daemon.log_text().contains(said).then_some(()) })
        .await
        .unwrap();
    assert_eq!(
        [0, 1].map(|nth| connected(&cluster.masters[nth])),
        before,
        "a new connection would have begun with a greeting"
    );
    // The agent, whose lease is as good as before, goes on.
    let oracle = Oracle::default();
    let url = cluster.agent_url(0, "uniq64?n=1000").unwrap();
    oracle.note(
        "uniq64",
        "agent 0",
        &cluster.client.get_as(&url, Media::Text).await.unwrap().ids(Kind::Uniq64, Media::Text).unwrap(),
    );
    let verdict = oracle.verdict();
    assert_eq!((verdict.total(), verdict.duplicates), (1_000, 0), "{verdict}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alone_the_untouched_store_goes_on_and_a_copy_waits_for_an_operators_word() {
    let mut cluster = Cluster::start(1, &["--renew-interval", "1s"]).await.unwrap();
    for master in &mut cluster.masters {
        master.daemon.kill_9();
    }
    let dir = cluster.dir().join("copied");
    copy(&cluster.masters[0].data_dir, &dir);

    // Killed, copied and started again it is still the store that its master last wrote.
    cluster.masters[0].daemon.start().unwrap();
    until_mode(&cluster, &cluster.masters[0], "ready-alone").await;
    cluster.masters[0].daemon.kill_9();

    let peer = cluster.masters[1].peer_listen;
    let mut twin = cluster.another_master("copy", 1, dir, peer).unwrap();
    let refused = peer_lost(&twin).unwrap_err().to_string();
    assert!(refused.contains(REMEDY), "{refused}");
    twin.daemon.start().unwrap();
    holds_back(&cluster, &mut twin).await;
    // Started again it has met nobody since.
    twin.daemon.kill_9();
    twin.daemon.start().unwrap();
    let said = until_status(&cluster.client, &mut twin.daemon, "/readyz", 503).await.unwrap().text();
    assert!(said.contains(REMEDY), "{said}");
    twin.daemon.kill_9();
    twin.daemon.args.push(REMEDY.to_owned());
    twin.daemon.start().unwrap();
    until_mode(&cluster, &twin, "ready-alone").await;
    let rows = cluster.client.console(twin.daemon.http, "/api/audit").await.unwrap().text();
    assert!(rows.contains("master.vouch"), "{rows}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_master_that_hears_and_is_not_heard_renews() {
    let mut cluster = Cluster::start(1, &["--renew-interval", "1s"]).await.unwrap();
    let nobody = cluster.port().unwrap().to_string();
    let only = cluster.masters[0].agent_listen.to_string();
    let daemon = &mut cluster.agents[0].daemon;
    daemon.kill_9();
    daemon.set("--masters", &only);
    let master = &mut cluster.masters[0].daemon;
    master.terminate().await.unwrap();
    master.set("--peer", &nobody);
    master.start().unwrap();
    cluster.agents[0].daemon.start().unwrap();
    until_mode(&cluster, &cluster.masters[0], "ready-alone").await;
    let end = || async {
        let rows = cluster.leases(0, "agent=agent-1&type=uint2&state=held").await.ok()?;
        Some(rows.first()?["until"].as_str()?.to_owned())
    };
    let before = end().await.unwrap();
    until("the lease is renewed", || async { end().await.filter(|end| *end > before) }).await.unwrap();
    let url = format!("http://{}/readyz", cluster.masters[0].daemon.http);
    let said = cluster.client.get_as(&url, Media::Text).await.unwrap();
    assert!(said.status == 503 && said.text().contains("--peer here"), "{}", said.text());
}
