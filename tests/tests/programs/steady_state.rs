//! The cost to the masters of agents that have their leases: heartbeats every minute, renewals every hour, reports as often as
//! the masters want them, and nothing else.
//!
//! The short form shows that a few agents' steady state is steady: nothing is refused, everything is renewed.
//! `scripts/steady.sh` runs 4,096 agents for minutes with the release build and prints what the masters used of a core.

use common::lease::Grant;
use common::token::TokenType;
use net::rpc::lease::{LeaseServiceClient, Rent};
use net::tls::{Admits, Tls};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tests::certificates::{Authority, get, secure};
use tests::cluster::{Cluster, until};
use tests::lessee::Lessee;
use tests::variables;
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::JoinSet;

/// The interval at which a real agent says that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(60);
/// The interval at which it renews.
const RENEWAL: Duration = Duration::from_secs(3_600);
/// Agents that ask for their first lease at once.
const STARTING: usize = 64;

/// The short form squeezes an hour of each agent into this, to see every call in it.
const SHORT: (usize, Duration) = (32, Duration::from_secs(3));

/// Agents that a pool of uint2 tokens holds at most.
const AGENTS_MAX: usize = 1 << 16;
/// Agents that it holds if nothing is said.
const POOL: usize = 1 << 12;
/// Connections that a master takes from agents at most, less some for those that ask for their first lease.
const CONNECTIONS_MAX: usize = 8_192 - 2 * STARTING;
/// Descriptors for all else than connections, of this test and of each master.
const DESCRIPTORS_RESERVED: usize = 1_024;

/// The room that the pool and the descriptors give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Room {
    /// The largest uint2 token, if the usual one is too small.
    uint2_max: Option<usize>,
    /// Connections to both masters; if they are fewer than agents, several agents share one.
    connections: usize,
}

/// Room for so many agents with so many file descriptors, or why there is none, in one sentence.
fn room(agents: usize, descriptors: usize) -> Result<Room, String> {
    if !(1..=AGENTS_MAX).contains(&agents) {
        return Err(format!(
            "{agents} agents cannot have a lease each: a pool of uint2 tokens holds 1 to {AGENTS_MAX}"
        ));
    }
    // This test has all of them, each master its half.
    let connections = agents.min(descriptors.saturating_sub(DESCRIPTORS_RESERVED)).min(2 * CONNECTIONS_MAX);
    if connections < 2 {
        return Err(format!(
            "{agents} agents cannot be tried with {descriptors} file descriptors: raise the hard limit (ulimit -Hn) above \
             {DESCRIPTORS_RESERVED}"
        ));
    }
    Ok(Room { uint2_max: (agents > POOL).then(|| agents - 1), connections })
}

#[test]
fn what_pool_and_descriptors_cannot_hold_is_refused_with_a_sentence() {
    assert_eq!(room(4_096, 20_000), Ok(Room { uint2_max: None, connections: 4_096 }));
    assert_eq!(room(4_097, 20_000), Ok(Room { uint2_max: Some(4_096), connections: 4_097 }));
    assert_eq!(room(65_535, 20_000), Ok(Room { uint2_max: Some(65_534), connections: 2 * CONNECTIONS_MAX }));
    assert_eq!(room(65_535, 4_096), Ok(Room { uint2_max: Some(65_534), connections: 3_072 }));
    for (agents, descriptors, why) in
        [(0, 20_000, "1 to 65536"), (65_537, 20_000, "1 to 65536"), (10, 1_024, "ulimit -Hn")]
    {
        let refused = room(agents, descriptors).unwrap_err();
        assert!(refused.contains(why) && refused.lines().count() == 1, "{refused}");
    }
}

/// An agent with a lease and a connection, its own or one that it shares.
struct Steady {
    lessee: Lessee,
    master: LeaseServiceClient,
    grant: Grant,
}

#[derive(Default)]
struct Calls {
    heartbeats: AtomicU64,
    renewals: AtomicU64,
    reports: AtomicU64,
}

impl Steady {
    async fn start(
        nth: usize,
        masters: [SocketAddr; 2],
        ca: Option<&Authority>,
        shared: &[OnceCell<LeaseServiceClient>],
    ) -> Self {
        let name = format!("steady-{nth}");
        let tls = ca.map_or(Tls::PLAIN, |ca| ca.tls(&name, &format!("uniq://agent/{name}")).unwrap());
        let lessee = Lessee { tls: tls.clone(), ..Lessee::new(&name).unwrap() };
        let grant = lessee.obtain(masters, TokenType::Uint2).await.unwrap();
        // Half of them at each master, as chance would have it. Made when its first agent is about to speak: a master ends a
        // connection that says nothing for some seconds.
        let connection = nth % shared.len();
        let connected = async || Lessee::connect_by(&tls, masters[connection % 2]).await.unwrap();
        let master = shared[connection].get_or_init(connected).await.clone();
        lessee.heartbeat(&master).await.unwrap().unwrap();
        Self { lessee, master, grant }
    }

    /// Lives for `span`, with calls as far apart as said, the first ones after `phase` (0..1) of that,
    /// one of `among` agents.
    async fn live(
        self,
        span: Duration,
        heartbeat: Duration,
        renewal: Duration,
        (among, phase): (usize, f64),
        calls: &Calls,
    ) {
        let began = tokio::time::Instant::now();
        let (mut beat_at, mut renew_at) = (began + heartbeat.mul_f64(phase), began + renewal.mul_f64(phase));
        let told = self.lessee.clone().tell_until(self.master.clone(), began + span, among, phase);
        let told = tokio::spawn(told);
        let mut rseq = 0;
        while beat_at.min(renew_at) < began + span {
            tokio::time::sleep_until(beat_at.min(renew_at)).await;
            if beat_at <= renew_at {
                beat_at += heartbeat;
                self.lessee.heartbeat(&self.master).await.unwrap().unwrap();
                calls.heartbeats.fetch_add(1, Relaxed);
            } else {
                renew_at += renewal;
                rseq += 1;
                let rent = self.lessee.renew(&self.master, &self.grant, rseq).await.unwrap().unwrap();
                assert!(matches!(rent, Rent::Success { until, .. } if until >= self.grant.until), "{rent:?}");
                calls.renewals.fetch_add(1, Relaxed);
            }
        }
        tokio::time::sleep_until(began + span).await;
        calls.reports.fetch_add(told.await.unwrap().unwrap(), Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_that_have_their_leases_cost_little() {
    let agents = variables::number_or("UNIQ_STEADY_AGENTS", SHORT.0);
    let long = variables::number("UNIQ_STEADY_SECONDS").map(Duration::from_secs);
    let (span, heartbeat, renewal) = match long {
        Some(span) => (span, HEARTBEAT, RENEWAL),
        None => (SHORT.1, SHORT.1 / 60, SHORT.1),
    };
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let descriptors = maximum.map_or(usize::MAX, |most| most as usize);
    let Room { uint2_max, connections } = match room(agents, descriptors) {
        Ok(room) => room,
        Err(why) => {
            println!("{why}");
            std::process::exit(1);
        }
    };
    let mut cluster = Cluster::new().unwrap();
    if let Some(most) = uint2_max {
        cluster.format_anew(&["--uint2-max", &most.to_string()]).unwrap();
    }
    let ca = variables::number::<u8>("UNIQ_STEADY_TLS").map(|_| Authority::new(&cluster.dir().join("ca")).unwrap());
    if ca.is_some() && connections < agents {
        println!(
            "{agents} agents with certificates need as many connections, and there are {connections}: raise ulimit -Hn"
        );
        std::process::exit(1);
    }
    for (nth, master) in cluster.masters.iter_mut().enumerate() {
        if let Some(ca) = &ca {
            let role = format!("uniq://master/{}", nth + 1);
            secure(&mut master.daemon, &ca.issue(&format!("master-{nth}"), &[&role]).unwrap());
        }
        // All of them are on this machine.
        master.daemon.set("--network-share", "100");
        master.daemon.set("--pool-reserve", "0");
        master.daemon.set("--network-grants-per-hour", "0");
        master.daemon.start().unwrap();
    }
    let ca = Arc::new(ca);
    match &*ca {
        None => cluster.all_ready().await.unwrap(),
        Some(ca) => {
            let operator = ca.tls("operator", "uniq://client/operator").unwrap();
            for master in &cluster.masters {
                let asked = || get(&operator, Admits::Masters, master.daemon.http, "/readyz");
                let ready = || async { asked().await.ok()?.contains(" 200 ").then_some(()) };
                until("a master with TLS is ready", ready).await.unwrap();
            }
        }
    }
    let masters = [cluster.masters[0].agent_listen, cluster.masters[1].agent_listen];
    let places = Arc::new(Semaphore::new(STARTING));
    if connections < agents {
        println!("{descriptors} file descriptors: {agents} agents share {connections} connections");
    }
    let shared: Arc<Vec<OnceCell<LeaseServiceClient>>> = Arc::new((0..connections).map(|_| OnceCell::new()).collect());
    let mut starting = JoinSet::new();
    let began = Instant::now();
    for nth in 0..agents {
        let (places, shared, ca) = (Arc::clone(&places), Arc::clone(&shared), Arc::clone(&ca));
        starting.spawn(async move {
            let _place = places.acquire_owned().await.unwrap();
            Steady::start(nth, masters, Option::as_ref(&ca), &shared).await
        });
    }
    let steady = starting.join_all().await;
    println!("{agents} agents have a lease and a connection after {:?}", began.elapsed());

    let calls = Arc::new(Calls::default());
    let cpu = || cluster.masters.iter().map(|master| master.daemon.cpu().unwrap()).collect::<Vec<_>>();
    let (before, began) = (cpu(), Instant::now());
    let mut living = JoinSet::new();
    for (nth, agent) in steady.into_iter().enumerate() {
        let (calls, phase) = (Arc::clone(&calls), nth as f64 / agents as f64);
        living.spawn(async move { agent.live(span, heartbeat, renewal, (agents, phase), &calls).await });
    }
    living.join_all().await;
    let (after, took) = (cpu(), began.elapsed());
    let used: Vec<Duration> = before.iter().zip(&after).map(|(before, after)| *after - *before).collect();
    let share = |used: &Duration| 100.0 * used.as_secs_f64() / took.as_secs_f64();
    let (heartbeats, renewals) = (calls.heartbeats.load(Relaxed), calls.renewals.load(Relaxed));
    let memory: Vec<u64> = cluster.masters.iter().map(|master| master.daemon.memory().unwrap() >> 20).collect();
    let reports = calls.reports.load(Relaxed);
    println!(
        "{heartbeats} heartbeats, {renewals} renewals and {reports} reports in {took:?}; masters have {memory:?} MiB in memory"
    );
    println!(
        "agents={agents} seconds={:.0} master1={:.2}% master2={:.2}% both={:.2}% of a core",
        took.as_secs_f64(),
        share(&used[0]),
        share(&used[1]),
        share(&used.iter().sum())
    );
    let expected = |interval: Duration| agents as u64 * (span.as_millis() / interval.as_millis()) as u64;
    assert!(heartbeats >= expected(heartbeat), "{heartbeats} heartbeats, not {}", expected(heartbeat));
    assert!(renewals >= expected(renewal), "{renewals} renewals, not {}", expected(renewal));
}
