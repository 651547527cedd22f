//! Young stores of masters: a pair that is parted as soon as it has met, a store that was formatted anew in the place of one that
//! belongs to a pair, and a cluster that was made after both stores of an earlier one were lost.

use net::budget::Budget;
use net::places::Places;
use net::rpc::connection::Bounds;
use net::rpc::lease::Refusal;
use net::rpc::peer::{Delivered, JoinReply, JoinRequest, PeerService, PeerServiceClient, SealedFrame};
use net::rpc::transport::{FRAME_LEN_MAX, connect, deadline_in};
use net::turns::CallerId;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tarpc::client::Config;
use tarpc::context::Context;
use tests::client::{ADMIN_PASSWORD, Client, Kind};
use tests::cluster::{Cluster, until, until_status};
use tests::load::{Load, Pace};
use tests::operator::{format_anew, join, peer_lost};
use tests::oracle::Oracle;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// A day in less than a second.
const SCALE: u32 = 100_000;

/// Passes on what one master says until the other one has met it, and nothing after that; nothing ever comes back.
#[derive(Clone)]
struct Parting {
    client: Client,
    console: SocketAddr,
    peer_listen: SocketAddr,
    met: watch::Sender<bool>,
}

impl Parting {
    /// Tells whether the other one knows that it has a peer.
    async fn has_met(&self) -> bool {
        let said = self.client.get(&format!("http://{}/readyz", self.console)).await.unwrap().text();
        !said.contains("has not met the other one yet")
    }
}

impl PeerService for Parting {
    async fn deliver(self, _: Context, sealed: SealedFrame) -> Delivered {
        if !*self.met.borrow() {
            let to = connect(&self.peer_listen.to_string()).await.unwrap();
            let to = PeerServiceClient::new(Config::default(), to).spawn();
            let _ = to.deliver(deadline_in(Duration::from_secs(30)), sealed).await.unwrap();
            self.met.send_replace(self.has_met().await);
        }
        Delivered { taken: true, answer: None }
    }

    async fn join(self, _: Context, _: JoinRequest) -> Result<JoinReply, Refusal> {
        Err(Refusal::Retry)
    }
}

/// Master 2 has heard one greeting of master 1, and then never anything again. Whoever has the first admin's password has it
/// still after master 1 was replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_password_outlives_a_pair_that_is_parted_as_soon_as_it_has_met() {
    let mut cluster = Cluster::new().unwrap();
    let client = cluster.client.clone();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (met, mut has_met) = watch::channel(false);
    let (console, peer_listen) = (cluster.masters[1].daemon.http, cluster.masters[1].peer_listen);
    let parting = Parting { client: client.clone(), console, peer_listen, met };
    let (between, nobody) = (listener.local_addr().unwrap().to_string(), cluster.port().unwrap().to_string());
    tokio::spawn(async move {
        let (io, _) = listener.accept().await.unwrap();
        let bounds = Bounds { requests_max: 1, frame_len_max: FRAME_LEN_MAX, budget: Budget::new(64 << 20) };
        let place = Places::new(1).take(CallerId::of(())).unwrap();
        net::serve_connection!(io, &place, &bounds, parting.serve());
    });
    for (master, peer) in cluster.masters.iter_mut().zip([between, nobody]) {
        master.daemon.unset("--admin-password-file");
        master.daemon.set("--peer", &peer);
    }
    for nth in [1, 0] {
        let daemon = &mut cluster.master(nth).unwrap().daemon;
        daemon.start().unwrap();
        until_status(&client, daemon, "/healthz", 200).await.unwrap();
    }
    let patience = Duration::from_secs(120);
    tokio::time::timeout(patience, has_met.wait_for(|met| *met)).await.expect("master 2 heard no greeting").unwrap();

    // Master 1 is gone with its disk; master 2 goes on with another one.
    let drawn = cluster.masters[0].data_dir.join("admin-password");
    let password = std::fs::read_to_string(&drawn).unwrap().trim().to_owned();
    cluster.masters[0].daemon.kill_9();
    std::fs::remove_dir_all(&cluster.masters[0].data_dir).unwrap();
    cluster.masters[1].daemon.terminate().await.unwrap();
    let token = peer_lost(&cluster.masters[1]).unwrap();
    let peers = [1, 0].map(|nth: usize| cluster.masters[nth].peer_listen);
    for (master, peer) in cluster.masters.iter_mut().zip(peers) {
        master.daemon.set("--peer", &peer.to_string());
    }
    let survivor = &mut cluster.masters[1].daemon;
    survivor.start().unwrap();
    until_status(&client, survivor, "/healthz", 200).await.unwrap();
    let joined = join(&token, &cluster.masters[0], peer_listen).unwrap();
    assert_eq!(joined.status, Some(0), "{joined:?}");
    cluster.masters[0].daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    for master in &cluster.masters {
        client.log_in(master.daemon.http, "admin", &password).await.unwrap();
        assert!(!master.data_dir.join("admin-password").exists(), "master {} drew another password", master.id);
    }
}

/// An admin who was proposed before anybody heard of it does not stand in the way of another password.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_password_that_was_given_last_before_the_masters_met_is_the_first_one() {
    let mut cluster = Cluster::new().unwrap();
    let client = cluster.client.clone();
    let file = cluster.dir().join("first-password").display().to_string();
    for master in &mut cluster.masters {
        master.daemon.unset("--admin-password-file");
    }
    let daemon = &mut cluster.master(0).unwrap().daemon;
    daemon.start().unwrap();
    until_status(&client, daemon, "/healthz", 200).await.unwrap();
    daemon.terminate().await.unwrap();
    daemon.set("--admin-password-file", &file);
    for master in &mut cluster.masters {
        master.daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    for master in &cluster.masters {
        client.log_in(master.daemon.http, "admin", ADMIN_PASSWORD).await.unwrap();
    }
}

/// The store of master `nth` is formatted anew while the other one remembers it: both say what happened and what to do, and
/// that works.
async fn formatted_anew_in_place(nth: usize) {
    let mut cluster = Cluster::start(1, &["--renew-interval", "1s"]).await.unwrap();
    let client = cluster.client.clone();
    let held = cluster.agent_status(0).await.unwrap().tokens();
    cluster.masters[nth].daemon.terminate().await.unwrap();
    let gone = Instant::now();
    format_anew(&cluster.masters[nth], &[]).unwrap();
    cluster.masters[nth].daemon.start().unwrap();
    for master in &cluster.masters {
        let url = format!("http://{}/readyz", master.daemon.http);
        let said = || async {
            let answer = client.get(&url).await.ok()?;
            let named = ["formatted anew", "--peer-lost", "--join"].iter().all(|word| answer.text().contains(word));
            (answer.status == 503 && named).then(|| answer.text())
        };
        let (said, _) = until("it says that a store was formatted anew", said).await.unwrap();
        // Long before the one that is gone counts as silent.
        println!("master {}, {:?} after the other store was there last: {said}", master.id, gone.elapsed());
        assert!(gone.elapsed() < Duration::from_millis(3_500), "{:?}", gone.elapsed());
        let log = master.daemon.log_text();
        assert!(log.contains("formatted anew") && !log.contains("older than"), "{log}");
    }

    let other = 1 - nth;
    for nth in [nth, other] {
        cluster.masters[nth].daemon.terminate().await.unwrap();
    }
    let token = peer_lost(&cluster.masters[other]).unwrap();
    std::fs::remove_dir_all(&cluster.masters[nth].data_dir).unwrap();
    let survivor = &mut cluster.masters[other].daemon;
    survivor.start().unwrap();
    until_status(&client, survivor, "/healthz", 200).await.unwrap();
    let joined = join(&token, &cluster.masters[nth], cluster.masters[other].peer_listen).unwrap();
    assert_eq!(joined.status, Some(0), "{joined:?}");
    cluster.masters[nth].daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    assert_eq!(cluster.agent_status(0).await.unwrap().tokens(), held, "leases go on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_formatted_anew_in_the_place_of_a_lost_one_is_told_from_it() {
    tokio::join!(formatted_anew_in_place(0), formatted_anew_in_place(1));
}

/// The one number there is belongs to an agent of a cluster whose stores are lost, and that never hears of the new one. There
/// it is granted when the days are over that the operator was told, and not before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_floor_after_a_total_loss_ends_after_its_days() {
    let mut cluster = Cluster::new().unwrap();
    let client = cluster.client.clone();
    let test_clock = cluster.run_by_test_clock(SCALE, &["--uint2-max", "0"]).unwrap();
    let flags = ["--test-clock", &test_clock, "--token-types", "uint2"];
    for master in &mut cluster.masters {
        master.daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let old = cluster.add_agent(&flags).unwrap();
    cluster.agent(old).unwrap().daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    // Both masters can grant, and say what they have none of.
    let used_up = client.get(&format!("http://{}/readyz", cluster.masters[0].daemon.http)).await.unwrap();
    assert!(used_up.status == 200 && used_up.text().starts_with("ready\n"), "{used_up:?}");
    assert!(used_up.text().contains("no uint2 token is free"), "{used_up:?}");

    for master in &mut cluster.masters {
        master.daemon.kill_9();
    }
    let format = ["--uint2-max", "0", "--after-total-loss", "--test-clock", &test_clock];
    let said = cluster.masters.iter().map(|master| format_anew(master, &format).unwrap().err).collect::<Vec<_>>();
    let floor = |said: &str| said.split("granted before ").nth(1)?.get(..10).map(str::to_owned);
    let floor = said.iter().map(|said| floor(said).unwrap()).max().unwrap();
    // Elsewhere, so that the old agent, which would stop when it hears them, never does.
    let (one, two) = (cluster.masters[0].data_dir.clone(), cluster.masters[1].data_dir.clone());
    let nowhere = cluster.port().unwrap();
    let second = cluster.another_master("new-2", 2, two, nowhere).unwrap();
    let first = cluster.another_master("new-1", 1, one, second.peer_listen).unwrap();
    let second = cluster.with_other_peer(&second, first.peer_listen).unwrap();
    cluster.masters = vec![first, second];
    for master in &mut cluster.masters {
        master.daemon.set("--test-clock", &test_clock);
        master.daemon.start().unwrap();
    }
    let new = cluster.add_agent(&flags).unwrap();
    cluster.agent(new).unwrap().daemon.start().unwrap();
    let mut waited = Vec::new();
    for master in &cluster.masters {
        let asked = [master.daemon.http, cluster.agents[new].daemon.http].map(|http| format!("http://{http}/readyz"));
        let waits = || async {
            let (master, agent) = tokio::join!(client.get(&asked[0]), client.get(&asked[1]));
            let waits = master.is_ok_and(|it| it.status == 503 && it.text().contains("nothing is granted before"));
            (waits || agent.is_ok_and(|it| it.status == 200)).then_some(waits)
        };
        waited.push(until("it waits for the floor's end, or grants", waits).await.unwrap().0);
    }
    // Neither has minted yet: with one number at one time they would give the same serials.
    let oracle = Arc::new(Oracle::default());
    let agents: Vec<_> = cluster.agents.iter().map(|a| (a.daemon.name.clone(), a.daemon.http)).collect();
    let load = Load::paced(&client, &agents, &oracle, 11, Pace::resting(Duration::from_millis(20)));
    until_status(&client, &mut cluster.agent(new).unwrap().daemon, "/readyz", 200).await.unwrap();
    let rows = cluster.leases(0, "type=uint2").await.unwrap();
    let from = rows[0]["from"].as_str().unwrap();
    let goal = oracle.total() + 5_000;
    until("IDs of the new holder", || async { (oracle.total() > goal).then_some(()) }).await.unwrap();
    let over = cluster.ask_agent(old, Kind::Uniq64.path()).await.unwrap();
    load.stop().await.unwrap();
    let verdict = oracle.verdict();
    println!("granted from {from}, the floor was {floor}; {verdict}");
    assert_eq!(verdict.duplicates, 0, "{verdict}");
    assert!(from.get(..10).unwrap() >= floor.as_str(), "granted from {from}, before {floor}");
    assert_eq!((waited, over.status), (vec![true, true], 503), "{}", over.text());
}

/// Master 2 is told who they are in answer to its own greeting: what master 1 says next over a connection of its own proves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_greets_first_two_fresh_masters_meet_without_a_warning() {
    for order in [[0, 1], [1, 0]] {
        let mut cluster = Cluster::new().unwrap();
        let client = cluster.client.clone();
        for nth in order {
            let daemon = &mut cluster.master(nth).unwrap().daemon;
            daemon.start().unwrap();
            until_status(&client, daemon, "/healthz", 200).await.unwrap();
        }
        cluster.all_ready().await.unwrap();
        for master in &cluster.masters {
            let log = master.daemon.log_tail(100);
            assert!(!log.contains("is silent") && !log.contains("is refused"), "{order:?}: {log}");
        }
    }
}
