//! Strangers of every kind at every port, a log that cannot be written and few descriptors, all at once: no process ends, no port
//! closes, memory stays bounded, agents renew, readiness tells the truth, and a gentle client loses nothing.
//!
//! `scripts/strangers.sh` runs it for as long as it is told.

use super::certificates::ROLES;
use common::token::TokenType;
use net::rpc::mint::MintServiceClient;
use net::rpc::transport::{connect_as, deadline_in};
use net::tls::{Admits, Tls};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeMap;
use std::fs::File;
use std::time::{Duration, Instant};
use tests::certificates::{Authority, secure};
use tests::cluster::{Cluster, PATIENCE, until};
use tests::gentle::{Gentle, Kept};
use tests::lessee::Lessee;
use tests::strangers::{Speaks, Strangers, Target};
use tests::variables;

/// The time that it lasts if nothing is said, in seconds.
const SECONDS: u64 = 15;
/// The time for which the gentle client is alone before.
const ALONE: Duration = Duration::from_secs(2);
/// File descriptors that a process may have.
const DESCRIPTORS: u64 = 1_024;
/// Memory that no process may take beside what it had before the strangers came, in bytes.
const MORE_MAX: u64 = 64 << 20;
/// Memory that may stay in an allocator's hands when they have gone, in bytes.
const KEPT_MAX: u64 = 48 << 20;
/// Between two looks at everything.
const LOOK: Duration = Duration::from_millis(500);

const MIB: u64 = 1 << 20;

/// The way in which somebody speaks: with a certificate of that role, or by plain TCP.
type As<'a> = &'a dyn Fn(&str) -> Tls;

/// Every port of all, with fewer silent callers than it has places: the strangers' other kinds need some too.
fn targets(cluster: &Cluster, by: As<'_>) -> Vec<Target> {
    let [client, agent] = ["client/stranger", "agent/stranger"].map(by);
    let target = |at, speaks, held, tls: &Tls| Target { at, speaks, held, tls: tls.clone() };
    let mut targets = Vec::new();
    for master in &cluster.masters {
        targets.push(target(master.agent_listen, Speaks::LeaseRpc, 300, &agent));
        // Only the other master is let in there.
        targets.push(target(master.peer_listen, Speaks::PeerRpc, 40, &agent));
        targets.push(target(master.daemon.http, Speaks::Console, 20, &client));
    }
    for agent in &cluster.agents {
        targets.push(target(agent.daemon.http, Speaks::Mint, 300, &client));
        targets.push(target(agent.rpc_listen, Speaks::MintRpc, 40, &client));
    }
    targets
}

/// Connections to the HTTP of all, masters first. Also of them nobody may take the place.
async fn looking(cluster: &Cluster, tls: &Tls) -> anyhow::Result<Vec<Kept>> {
    let masters = cluster.masters.iter().map(|it| (it.daemon.http, Admits::Masters));
    let agents = cluster.agents.iter().map(|it| (it.daemon.http, Admits::Agents));
    let mut all = Vec::new();
    for (at, expected) in masters.chain(agents) {
        all.push(Kept::connect(tls, expected, at).await?);
    }
    Ok(all)
}

/// The ends of all leases, as the agents know them.
async fn ends(looks: &mut [Kept]) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for (nth, agent) in looks[2..].iter_mut().enumerate() {
        let (status, text) = agent.get("/status").await.unwrap();
        let told: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(status, 200, "{text}");
        for lease in told["leases"].as_array().unwrap() {
            let key = format!("{nth} {}/{}", lease["type"], lease["token"]);
            all.insert(key, lease["until"].as_str().unwrap().to_owned());
        }
    }
    all
}

/// Every process runs, and says that it is ready: all of them can do what they are for. Gives what each takes, in bytes.
async fn look(cluster: &mut Cluster, looks: &mut [Kept]) -> Vec<u64> {
    let mut memory = Vec::new();
    for (daemon, kept) in cluster.daemons().zip(looks) {
        let ended = daemon.ended();
        assert!(daemon.running(), "{} ended: {ended:?}", daemon.name);
        let (status, text) = kept.get("/readyz").await.unwrap_or_else(|e| panic!("{}: {e:#}", daemon.name));
        assert_eq!(status, 200, "{}: {text}", daemon.name);
        memory.push(daemon.memory().unwrap());
    }
    memory
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_at_once_ends_nothing() {
    everything_at_once(Cluster::new().unwrap(), None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_at_once_ends_nothing_where_tls_is_spoken() {
    let cluster = Cluster::new().unwrap();
    let ca = Authority::new(&cluster.dir().join("ca")).unwrap();
    everything_at_once(cluster, Some(ca)).await;
}

async fn everything_at_once(mut cluster: Cluster, ca: Option<Authority>) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let length = Duration::from_secs(variables::number_or("UNIQ_STRANGERS_SECONDS", SECONDS));
    let by = |role: &str| match &ca {
        Some(ca) => ca.tls(&role.replace('/', "-"), &format!("uniq://{role}")).unwrap(),
        None => Tls::PLAIN,
    };

    for master in &mut cluster.masters {
        master.daemon.set("--allow", "127.0.0.1/32");
    }
    for _ in 0..2 {
        cluster.add_agent(&["--renew-interval", "1s"]).unwrap();
    }
    for (daemon, role) in cluster.daemons().zip(ROLES) {
        if let Some(ca) = &ca {
            secure(daemon, &ca.issue(&daemon.name, &[role]).unwrap());
        }
        daemon.limit_descriptors(DESCRIPTORS);
        daemon.stderr_to(File::options().write(true).open("/dev/full").unwrap());
        daemon.start().unwrap();
    }
    let operator = by("client/operator");
    if ca.is_none() {
        let logged_in = || async { cluster.leases(0, "").await.ok() };
        until("somebody is logged in", logged_in).await.unwrap();
    }
    let ready = || async {
        let mut looks = looking(&cluster, &operator).await.ok()?;
        for kept in &mut looks {
            (kept.get("/readyz").await.ok()?.0 == 200).then_some(())?;
        }
        Some(looks)
    };
    let (mut looks, _) = until("all are ready", ready).await.unwrap();
    let before = look(&mut cluster, &mut looks).await;
    let http = cluster.agents[0].daemon.http;
    let gentle = Gentle::start(&operator, http, u64::MAX).await;
    tokio::time::sleep(ALONE).await;
    println!("alone, {}", gentle.stop().await.unwrap());
    let gentle = Gentle::start(&operator, http, u64::MAX).await;

    let strangers = Strangers::start(&targets(&cluster, &by), variables::seed());
    let (began, mut peak, mut looked) = (Instant::now(), before.clone(), 0);
    while began.elapsed() < length {
        for (peak, now) in peak.iter_mut().zip(look(&mut cluster, &mut looks).await) {
            *peak = (*peak).max(now);
        }
        looked += 1;
        tokio::time::sleep(LOOK).await;
    }
    let (were, since) = (ends(&mut looks).await, Instant::now());
    let are_renewed =
        |now: &BTreeMap<_, _>| were.iter().all(|(lease, until)| now.get(lease).is_some_and(|now| now > until));
    while !are_renewed(&ends(&mut looks).await) {
        assert!(since.elapsed() < PATIENCE, "both agents renew");
        tokio::time::sleep(LOOK).await;
    }
    assert!(were.len() >= 2, "{were:?}");
    let greeted = strangers.greeted();
    assert!(greeted.iter().all(|count| *count > 0), "{greeted:?}");
    if ca.is_none() {
        // With the login of before.
        assert!(!cluster.leases(0, "").await.unwrap().is_empty());
    }
    println!("{} strangers in {:?}; all were ready at each of {looked} looks", strangers.came(), began.elapsed());
    let served = gentle.stop().await;
    drop(strangers);

    let mib = |all: &[u64]| all.iter().map(|bytes| bytes / MIB).collect::<Vec<_>>();
    println!("memory in MiB: {:?} before, {:?} at most", mib(&before), mib(&peak));
    assert!(before.iter().zip(&peak).all(|(was, most)| *most < was + MORE_MAX));
    println!("beside them {}", served.unwrap());
    // Every port is open: for newcomers, for those who ask for IDs, between the masters.
    let newcomer = Lessee { tls: by("agent/newcomer"), ..Lessee::new("newcomer").unwrap() };
    let masters = [cluster.masters[0].agent_listen, cluster.masters[1].agent_listen];
    newcomer.obtain(masters, TokenType::Uint2).await.unwrap();
    for agent in &cluster.agents {
        let at = agent.rpc_listen.to_string();
        let ready = || async {
            let connection = connect_as(&at, &operator, Admits::Agents).await.ok()?;
            let rpc = MintServiceClient::new(tarpc::client::Config::default(), connection).spawn();
            rpc.ready(deadline_in(Duration::from_secs(5))).await.ok()?.ok()
        };
        until("an agent answers by RPC", ready).await.unwrap();
    }
    let daemons = || cluster.masters.iter().map(|m| &m.daemon).chain(cluster.agents.iter().map(|a| &a.daemon));
    let back = || async {
        let now: Vec<u64> = daemons().map(|d| d.memory().unwrap()).collect();
        before.iter().zip(&now).all(|(was, now)| *now < was + KEPT_MAX).then_some(now)
    };
    let (after, _) = until("memory is given back", back).await.unwrap();
    println!("memory in MiB afterwards: {:?}", mib(&after));
    let mut anew = looking(&cluster, &operator).await.unwrap();
    look(&mut cluster, &mut anew).await;
    let metrics = anew[0].get("/metrics").await.unwrap().1;
    let counts = metrics.lines().filter(|line| {
        ["uniq_rpc_conn", "uniq_log", "uniq_accept", "uniq_tls_handshake"].iter().any(|it| line.starts_with(it))
    });
    println!("{}", counts.collect::<Vec<_>>().join("\n"));
}
