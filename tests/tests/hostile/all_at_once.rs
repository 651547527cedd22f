//! Strangers of every kind at every port, a log that cannot be written and few descriptors, all at once: no process ends, no port
//! closes, memory stays bounded, agents renew, readiness tells the truth, and a gentle client loses nothing.
//!
//! `scripts/strangers.sh` runs it for as long as it is told.

use common::token::TokenType;
use net::rpc::mint::MintServiceClient;
use net::rpc::transport::{connect, deadline_in};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::time::{Duration, Instant};
use tests::client::Client;
use tests::cluster::{Cluster, until};
use tests::gentle::Gentle;
use tests::lessee::Lessee;
use tests::strangers::{Speaks, Strangers, Target};
use tests::variables;

/// The time that it lasts if nothing is said, in seconds.
const SECONDS: u64 = 15;
/// File descriptors that a process may have.
const DESCRIPTORS: u64 = 1_024;
/// Memory that no process may take beside what it had before the strangers came, in bytes.
const MORE_MAX: u64 = 64 << 20;
/// Memory that may stay in an allocator's hands when they have gone, in bytes.
const KEPT_MAX: u64 = 48 << 20;
/// Between two looks at everything.
const LOOK: Duration = Duration::from_millis(500);

const MIB: u64 = 1 << 20;

/// Every port of all, with fewer silent callers than it has places: the strangers' other kinds need some too.
fn targets(cluster: &Cluster) -> Vec<Target> {
    let mut targets = Vec::new();
    for master in &cluster.masters {
        targets.push(Target { at: master.agent_listen, speaks: Speaks::LeaseRpc, held: 300 });
        targets.push(Target { at: master.peer_listen, speaks: Speaks::PeerRpc, held: 40 });
        targets.push(Target { at: master.daemon.http, speaks: Speaks::Console, held: 20 });
    }
    for agent in &cluster.agents {
        targets.push(Target { at: agent.daemon.http, speaks: Speaks::Mint, held: 300 });
        targets.push(Target { at: agent.rpc_listen, speaks: Speaks::MintRpc, held: 40 });
    }
    targets
}

/// The time at which each agent's first lease was renewed last.
async fn renewed(cluster: &Cluster) -> Vec<String> {
    let mut all = Vec::new();
    for agent in &cluster.agents {
        let rows = cluster.leases(0, &format!("agent={}", agent.agent_id)).await.unwrap();
        all.push(rows[0]["renewed"].to_string());
    }
    all
}

/// Every process runs, and says that it is ready: all of them can do what they are for. Gives what each takes, in bytes.
async fn look(cluster: &mut Cluster, client: &Client) -> Vec<u64> {
    let mut memory = Vec::new();
    for daemon in cluster.daemons() {
        let ended = daemon.ended();
        assert!(daemon.running(), "{} ended: {ended:?}", daemon.name);
        let ready = client.get(&format!("http://{}/readyz", daemon.http)).await;
        let ready = ready.unwrap_or_else(|e| panic!("{}: {e:#}", daemon.name));
        assert_eq!(ready.status, 200, "{}: {}", daemon.name, ready.text());
        memory.push(daemon.memory().unwrap());
    }
    memory
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_at_once_ends_nothing() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let length = Duration::from_secs(variables::number_or("UNIQ_STRANGERS_SECONDS", SECONDS));
    let seed = variables::seed();

    let mut cluster = Cluster::new().unwrap();
    let client = cluster.client.clone();
    for master in &mut cluster.masters {
        master.daemon.set("--allow", "127.0.0.1/32");
    }
    for _ in 0..2 {
        cluster.add_agent(&["--renew-interval", "1s"]).unwrap();
    }
    for daemon in cluster.daemons() {
        daemon.limit_descriptors(DESCRIPTORS);
        daemon.stderr_to(File::options().write(true).open("/dev/full").unwrap());
        daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    // Of this connection too nobody may take the place.
    let before = look(&mut cluster, &client).await;
    let was_renewed = renewed(&cluster).await;
    let gentle = Gentle::start(&cluster.agent_url(0, "uniq64").unwrap(), u64::MAX);

    let strangers = Strangers::start(&targets(&cluster), seed);
    let (began, mut peak, mut looks) = (Instant::now(), before.clone(), 0);
    while began.elapsed() < length {
        for (peak, now) in peak.iter_mut().zip(look(&mut cluster, &client).await) {
            *peak = (*peak).max(now);
        }
        looks += 1;
        tokio::time::sleep(LOOK).await;
    }
    let again = || async {
        let now = renewed(&cluster).await;
        now.iter().zip(&was_renewed).all(|(now, was)| now != was).then_some(())
    };
    until("both agents renew", again).await.unwrap();
    println!("{} strangers in {:?}; all were ready at each of {looks} looks", strangers.came(), began.elapsed());
    let served = gentle.stop().await;
    drop(strangers);

    let mib = |all: &[u64]| all.iter().map(|bytes| bytes / MIB).collect::<Vec<_>>();
    println!("memory in MiB: {:?} before, {:?} at most", mib(&before), mib(&peak));
    assert!(before.iter().zip(&peak).all(|(was, most)| *most < was + MORE_MAX));
    println!("{}", served.unwrap());
    // Every port is open: for newcomers, for those who ask for IDs, between the masters.
    let newcomer = Lessee::new("newcomer").unwrap();
    let masters = [cluster.masters[0].agent_listen, cluster.masters[1].agent_listen];
    newcomer.obtain(masters, TokenType::Uint2).await.unwrap();
    for nth in 0..cluster.agents.len() {
        let at = cluster.agents[nth].rpc_listen.to_string();
        let ready = || async {
            let rpc = MintServiceClient::new(tarpc::client::Config::default(), connect(&at).await.ok()?).spawn();
            rpc.ready(deadline_in(Duration::from_secs(5))).await.ok()?.ok()
        };
        until("an agent answers by RPC", ready).await.unwrap();
    }
    let anew = Client::new().unwrap();
    let back = || async {
        let now: Vec<u64> = cluster
            .masters
            .iter()
            .map(|m| &m.daemon)
            .chain(cluster.agents.iter().map(|a| &a.daemon))
            .map(|d| d.memory().unwrap())
            .collect();
        before.iter().zip(&now).all(|(was, now)| *now < was + KEPT_MAX).then_some(now)
    };
    let (after, _) = until("memory is given back", back).await.unwrap();
    println!("memory in MiB afterwards: {:?}", mib(&after));
    look(&mut cluster, &anew).await;
    let metrics = anew.get(&format!("http://{}/metrics", cluster.masters[0].daemon.http)).await.unwrap().text();
    let counts = metrics.lines().filter(|line| {
        line.starts_with("uniq_rpc_conn") || line.starts_with("uniq_log") || line.starts_with("uniq_accept")
    });
    println!("{}", counts.collect::<Vec<_>>().join("\n"));
}
