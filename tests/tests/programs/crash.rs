//! Whoever is killed, and whenever: no ID is ever received twice, and a killed agent goes on with the token it had.
//!
//! Each round kills every agent and every master once, in an order drawn anew, with SIGKILL while clients fetch IDs of all
//! kinds from all agents, one by one and in batches. A killed master must know every lease that an agent was told of, and
//! how long the killed were away from service is measured. The short form is what every change must pass; `scripts/crash.sh` runs the long
//! one by setting `UNIQ_CRASH_ROUNDS` and `UNIQ_CRASH_IDS`.

use common::lease::Grant;
use common::token::TokenType;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tests::client::{Client, Kind, Media};
use tests::cluster::{AgentStatus, Cluster, PATIENCE, until, until_status};
use tests::lessee::Lessee;
use tests::load::{Load, Pace, Troubles};
use tests::oracle::Oracle;
use tests::programs::Daemon;
use tests::variables;
use tokio::task::JoinSet;

const AGENTS: usize = 3;
const ROUNDS: usize = 3;
const IDS: usize = 1_000_000;
/// The longest time that a killed process stays away, in milliseconds.
const AWAY_MS_MAX: u64 = 400;
/// More rounds than this are a long run, in which not every ID of clients that never rest would find room.
const ROUNDS_FULL: usize = 20;
/// The time that each client rests between two answers where the masters alone are tried.
const REST: Duration = Duration::from_millis(100);
/// Sessions that ask for a token while both masters are killed.
const ASKING: usize = 8;
/// IDs that must come between two kills, so that each kill hits a system at work.
const IDS_BETWEEN: usize = 5_000;

fn addresses(cluster: &Cluster) -> Vec<(String, SocketAddr)> {
    cluster.agents.iter().map(|a| (a.daemon.name.clone(), a.daemon.http)).collect()
}

/// Waits until `more` further IDs came.
async fn more_ids(oracle: &Oracle, load: &mut Load, more: usize) {
    let goal = oracle.total() + more;
    let mut seen = oracle.total();
    let mut since = Instant::now();
    while oracle.total() < goal {
        load.check().unwrap();
        if oracle.total() > seen {
            (seen, since) = (oracle.total(), Instant::now());
        }
        assert!(since.elapsed() < PATIENCE, "no ID came for {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The time from the start of a process to its service, for each restart.
#[derive(Default)]
struct Restarts(Vec<Duration>);

impl Restarts {
    fn line(&mut self, who: &str) -> String {
        self.0.sort_unstable();
        let at = |percent: usize| self.0[(self.0.len() - 1) * percent / 100];
        let (p50, p99, max) = (at(50), at(99), at(100));
        format!("{} restarts of {who}: serving after {p50:?} (p50), {p99:?} (p99), {max:?} (longest)", self.0.len())
    }
}

/// Starts the killed process, and says how long it took until it served.
async fn restart(client: &Client, daemon: &mut Daemon) -> Duration {
    let began = Instant::now();
    daemon.start().unwrap();
    until_status(client, daemon, "/readyz", 200).await.unwrap();
    began.elapsed()
}

/// A killed agent goes on with what it had, whatever it was doing.
async fn kill_and_restart_agent(cluster: &mut Cluster, nth: usize, away: Duration) -> Duration {
    let before = cluster.agent_status(nth).await.unwrap();
    assert!(!before.leases.is_empty(), "agent {nth} is at work without a lease: {before:?}");
    let client = cluster.client.clone();
    let daemon = &mut cluster.agent(nth).unwrap().daemon;
    daemon.kill_9();
    tokio::time::sleep(away).await;
    let took = restart(&client, daemon).await;
    let after = cluster.agent_status(nth).await.unwrap();
    assert!(after.resumed, "agent {nth} did not resume: {after:?}");
    assert_eq!(after.session, before.session, "agent {nth} lost its session");
    assert_eq!(after.tokens(), before.tokens(), "agent {nth} came back with other tokens");
    took
}

/// A killed master knows every lease that an agent was told of, to its end or beyond.
async fn kill_and_restart_master(cluster: &mut Cluster, nth: usize, away: Duration) -> Duration {
    let client = cluster.client.clone();
    let mut told = Vec::new();
    for agent in 0..cluster.agents.len() {
        told.push(cluster.agent_status(agent).await.unwrap());
    }
    let daemon = &mut cluster.master(nth).unwrap().daemon;
    daemon.kill_9();
    tokio::time::sleep(away).await;
    let took = restart(&client, daemon).await;
    assert_knows(cluster, nth, &told).await;
    took
}

/// A master knows every lease that these agents were told of, to its end or beyond.
async fn assert_knows(cluster: &Cluster, nth: usize, told: &[AgentStatus]) {
    let rows = cluster.leases(nth, "").await.unwrap();
    for status in told {
        for lease in &status.leases {
            let is_it = |row: &&serde_json::Value| row["type"] == lease.token_type && row["token"] == lease.token;
            let row = rows.iter().find(is_it).unwrap_or_else(|| panic!("{lease:?} is lost: {rows:?}"));
            assert_eq!((row["g"].as_u64(), row["session"].as_str()), (Some(lease.g), Some(status.session.as_str())));
            assert_eq!(row["state"], "held", "{row}");
            assert!(row["until"].as_str().unwrap() >= lease.until.as_str(), "{row} is shorter than {lease:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_id_comes_twice_while_every_process_is_killed_in_turn() {
    let rounds = variables::number_or("UNIQ_CRASH_ROUNDS", ROUNDS);
    let ids = variables::number_or("UNIQ_CRASH_IDS", IDS);
    let seed = variables::seed();
    let mut random = <rand::rngs::SmallRng as rand::SeedableRng>::seed_from_u64(seed);

    let mut cluster = Cluster::start(AGENTS, &["--renew-interval", "1s"]).await.unwrap();
    let oracle = Arc::new(Oracle::default());
    let pace = if rounds > ROUNDS_FULL { Pace::LONG } else { Pace::FULL };
    let mut load = Load::paced(&cluster.client, &addresses(&cluster), &oracle, seed, pace);

    let (mut agents, mut masters) = (Restarts::default(), Restarts::default());
    let mut victims: Vec<usize> = (0..AGENTS + 2).collect();
    for round in 0..rounds {
        rand::seq::SliceRandom::shuffle(&mut victims[..], &mut random);
        for victim in &victims {
            more_ids(&oracle, &mut load, IDS_BETWEEN).await;
            let away = Duration::from_millis(rand::RngExt::random_range(&mut random, 0..=AWAY_MS_MAX));
            match victim.checked_sub(AGENTS) {
                None => agents.0.push(kill_and_restart_agent(&mut cluster, *victim, away).await),
                Some(nth) => masters.0.push(kill_and_restart_master(&mut cluster, nth, away).await),
            }
        }
        println!("round {} of {rounds}: {} IDs so far", round + 1, oracle.total());
    }
    while oracle.total() < ids {
        more_ids(&oracle, &mut load, IDS_BETWEEN).await;
    }
    let troubles = load.stop().await.unwrap();
    // First, because hundreds of millions of IDs take minutes to sort.
    println!("  {}\n  {}", agents.line("agents"), masters.line("masters"));
    let verdict = oracle.verdict();
    println!("{verdict}\n  meanwhile clients met: {troubles:?}");
    println!("  kills={} duplicates={}", agents.0.len() + masters.0.len(), verdict.duplicates);
    assert!(verdict.total() >= ids);
    assert_eq!(verdict.counts.len(), tests::client::KINDS.len(), "not every kind was minted: {verdict}");
    assert_eq!(verdict.duplicates, 0, "{verdict}");
    assert_harmless(&troubles);
}

/// A kill may break an answer off or leave nobody to connect to. A resumed agent has its lease and all it needs to mint
/// but perhaps the second after its last Uniq96, so no other trouble has a reason.
fn assert_harmless(troubles: &Troubles) {
    let harmless = ["no connection", "broken off", "clock_behind"];
    assert!(troubles.keys().all(|code| harmless.contains(&code.as_str())), "clients met {troubles:?}");
}

/// Leases that were asked for, at both masters by turns, while both masters were killed.
async fn asked_for_in_the_midst(round: usize, masters: [SocketAddr; 2]) -> Vec<(Lessee, Grant)> {
    let mut asking = JoinSet::new();
    for nth in 0..ASKING {
        let lessee = Lessee::new(&format!("round-{round}-{nth}")).unwrap();
        let [a, b] = masters;
        let order = if nth % 2 == 0 { [a, b] } else { [b, a] };
        asking.spawn(async move {
            let grant = lessee.obtain(order, TokenType::Uint2).await.unwrap();
            (lessee, grant)
        });
    }
    asking.join_all().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_masters_killed_and_started_together_forget_nothing_and_grant_nothing_twice() {
    let rounds = variables::number_or("UNIQ_CRASH_ROUNDS", ROUNDS);
    let seed = variables::seed();
    let mut random = <rand::rngs::SmallRng as rand::SeedableRng>::seed_from_u64(seed);
    let mut cluster = Cluster::new().unwrap();
    for master in &mut cluster.masters {
        // All rounds ask from one address, in less than an hour.
        master.daemon.set("--network-share", "100");
        master.daemon.set("--network-grants-per-hour", "0");
        master.daemon.start().unwrap();
    }
    for _ in 0..2 {
        let nth = cluster.add_agent(&["--renew-interval", "1s"]).unwrap();
        cluster.agents[nth].daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let (client, oracle) = (cluster.client.clone(), Arc::new(Oracle::default()));
    let mut load = Load::paced(&client, &addresses(&cluster), &oracle, seed, Pace::resting(REST));
    let masters = [cluster.masters[0].agent_listen, cluster.masters[1].agent_listen];
    let (mut restarts, mut granted) = (Restarts::default(), Vec::new());
    for round in 0..rounds {
        more_ids(&oracle, &mut load, IDS_BETWEEN).await;
        let mut told = Vec::new();
        for agent in 0..cluster.agents.len() {
            told.push(cluster.agent_status(agent).await.unwrap());
        }
        let asking = tokio::spawn(asked_for_in_the_midst(round, masters));
        let pause = Duration::from_millis(rand::RngExt::random_range(&mut random, 0..=AWAY_MS_MAX / 4));
        tokio::time::sleep(pause).await;
        for master in &mut cluster.masters {
            master.daemon.kill_9();
        }
        let began = Instant::now();
        for master in &mut cluster.masters {
            master.daemon.start().unwrap();
        }
        for master in &mut cluster.masters {
            until_status(&client, &mut master.daemon, "/readyz", 200).await.unwrap();
        }
        restarts.0.push(began.elapsed());
        granted.extend(asking.await.unwrap());
        for nth in 0..2 {
            assert_knows(&cluster, nth, &told).await;
        }
    }
    let values: BTreeSet<_> = granted.iter().map(|(_, grant)| grant.key).collect();
    assert_eq!(values.len(), granted.len(), "a token was granted twice: {granted:?}");
    for (lessee, grant) in &granted {
        for master in masters {
            let listed = lessee.list(master).await.unwrap();
            let known = listed.iter().any(|row| (row.grant.key, row.grant.g) == (grant.key, grant.g));
            assert!(known, "{grant:?} is lost: {listed:?}");
        }
    }
    let troubles = load.stop().await.unwrap();
    let verdict = oracle.verdict();
    println!("{verdict}\n  meanwhile clients met: {troubles:?}\n  {}", restarts.line("both masters"));
    println!("  {} tokens granted in the midst", granted.len());
    assert_eq!(verdict.duplicates, 0, "{verdict}");
    assert!(troubles.is_empty(), "agents need no master to mint: {troubles:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_oracle_sees_what_two_clusters_mint_that_know_nothing_of_each_other() {
    // The twin of all the others: the same programs without the masters' agreement, so that a token is sold twice.
    let (one, mut two) = (Cluster::start(1, &[]).await.unwrap(), Cluster::start(1, &[]).await.unwrap());
    let number = |status: AgentStatus| status.token("uint2").expect("a lease of numbers").to_owned();
    let token = number(one.agent_status(0).await.unwrap());
    let mut nth = 0;
    // Which master an agent asks first is chance, and each sells its own half of the values.
    while number(two.agent_status(nth).await.unwrap()) != token {
        nth = two.add_agent(&[]).unwrap();
        two.agent(nth).unwrap().daemon.start().unwrap();
        two.all_ready().await.unwrap();
    }
    let oracle = Oracle::default();
    for (cluster, nth) in [(&one, 0), (&two, nth)] {
        let url = cluster.agent_url(nth, "uniq64?n=10000").unwrap();
        let answer = cluster.client.get_as(&url, Media::Packed).await.unwrap();
        let ids = answer.ids(Kind::Uniq64, Media::Packed).unwrap();
        oracle.note(Kind::Uniq64.namespace(), &url, &ids);
    }
    let verdict = oracle.verdict();
    println!("{} of {} IDs came twice", verdict.duplicates, verdict.total());
    assert!(verdict.duplicates > 0, "the oracle is blind: {verdict}");
}

/// Copies a folder's files as `cp -a` would: same names, same bytes, other inodes.
fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_an_agents_folder_gets_another_token() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    let oracle = Arc::new(Oracle::default());
    let client = cluster.client.clone();
    let load = Load::start(&client, &addresses(&cluster), &oracle, variables::seed());
    until("some IDs", || async { (oracle.total() > 10_000).then_some(()) }).await.unwrap();
    let original = cluster.agent_status(0).await.unwrap();

    // Killed, not stopped: the copy has all that the original would go on from, used or not.
    cluster.agent(0).unwrap().daemon.kill_9();
    let copy = cluster.dir().join("copy");
    copy_folder(&cluster.agents[0].dir, &copy);
    let agent_id = cluster.agents[0].agent_id.clone();
    let second = cluster.add_agent_in(copy, &agent_id, &[]).unwrap();
    cluster.agent(0).unwrap().daemon.start().unwrap();
    cluster.agent(second).unwrap().daemon.start().unwrap();
    cluster.all_ready().await.unwrap();

    let (resumed, copied) = (cluster.agent_status(0).await.unwrap(), cluster.agent_status(second).await.unwrap());
    assert!(resumed.resumed && resumed.tokens() == original.tokens(), "the original: {resumed:?}, not {original:?}");
    assert!(!copied.resumed, "the copy continued a session that is not its own: {copied:?}");
    assert_ne!(copied.session, original.session);
    for lease in &original.leases {
        let other = copied.token(&lease.token_type).expect("the copy has a lease of each type");
        assert_ne!(other, lease.token, "two sessions hold one token: {original:?} {copied:?}");
    }

    let both = Load::start(&client, &addresses(&cluster), &oracle, variables::seed());
    let goal = oracle.total() + 100_000;
    until("more IDs from both", || async { (oracle.total() > goal).then_some(()) }).await.unwrap();
    load.stop().await.unwrap();
    both.stop().await.unwrap();
    for nth in [0, second] {
        let answer = client.get_as(&cluster.agent_url(nth, "uniq64?n=10").unwrap(), Media::Text).await.unwrap();
        oracle.note(Kind::Uniq64.namespace(), "at the end", &answer.ids(Kind::Uniq64, Media::Text).unwrap());
    }
    let verdict = oracle.verdict();
    println!("{verdict}");
    assert_eq!(verdict.duplicates, 0, "{verdict}");
}
