//! What agents that have their leases cost the masters: signs of life every minute, renewals every hour, reports as often as
//! the masters want them, and nothing else.
//!
//! The short form shows that a few agents' steady state is steady: nothing is refused, everything is renewed.
//! `scripts/steady.sh` runs 4,096 agents for minutes with the release build and prints what the masters used of a core.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

use common::lease::Grant;
use common::rpc::lease::{LeaseServiceClient, Rent};
use common::token::TokenType;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tests::cluster::Cluster;
use tests::lessee::Lessee;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// How often a real agent says that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(60);
/// How often it renews.
const RENEWAL: Duration = Duration::from_secs(3_600);
/// Agents that ask for their first lease at once.
const STARTING: usize = 64;

/// The short form squeezes an hour of each agent into this, to see every call in it.
const SHORT: (usize, Duration) = (32, Duration::from_secs(3));

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// An agent with a lease and the connection it keeps.
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
    async fn start(nth: usize, masters: [SocketAddr; 2]) -> Self {
        let lessee = Lessee::new(&format!("steady-{nth}")).unwrap();
        let grant = lessee.obtain(masters, TokenType::Uint2).await.unwrap();
        // Half of them at each master, as chance would have it.
        let master = Lessee::connect(masters[nth % 2]).await.unwrap();
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
    let agents = setting("UNIQ_STEADY_AGENTS").map_or(SHORT.0, |agents| agents as usize);
    let long = setting("UNIQ_STEADY_SECONDS").map(Duration::from_secs);
    let (span, heartbeat, renewal) = match long {
        Some(span) => (span, HEARTBEAT, RENEWAL),
        None => (SHORT.1, SHORT.1 / 60, SHORT.1),
    };
    let mut cluster = Cluster::new().unwrap();
    for master in &mut cluster.masters {
        // All of them are on this machine.
        master.daemon.set("--network-share", "100");
        master.daemon.set("--pool-reserve", "0");
        master.daemon.set("--network-grants-per-hour", "0");
        master.daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let masters = [cluster.masters[0].agent_listen, cluster.masters[1].agent_listen];
    let places = Arc::new(Semaphore::new(STARTING));
    let mut starting = JoinSet::new();
    let began = Instant::now();
    for nth in 0..agents {
        let places = Arc::clone(&places);
        starting.spawn(async move {
            let _place = places.acquire_owned().await.unwrap();
            Steady::start(nth, masters).await
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
        "{heartbeats} signs of life, {renewals} renewals and {reports} reports in {took:?}; masters have {memory:?} MiB in memory"
    );
    println!(
        "agents={agents} seconds={:.0} master1={:.2}% master2={:.2}% both={:.2}% of a core",
        took.as_secs_f64(),
        share(&used[0]),
        share(&used[1]),
        share(&used.iter().sum())
    );
    let expected = |interval: Duration| agents as u64 * (span.as_millis() / interval.as_millis()) as u64;
    assert!(heartbeats >= expected(heartbeat), "{heartbeats} signs of life, not {}", expected(heartbeat));
    assert!(renewals >= expected(renewal), "{renewals} renewals, not {}", expected(renewal));
}
