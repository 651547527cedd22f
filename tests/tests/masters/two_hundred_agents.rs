//! Two masters, asked for tokens by many agents at the same moment, never sell one value twice.

use common::lease::Grant;
use common::parameters::SessionId;
use common::token::{TokenKey, TokenType};
use net::rpc::lease::Refusal;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tests::cluster::{Cluster, until_status};
use tests::lessee::Lessee;
use tests::variables;
use tokio::sync::{Barrier, Semaphore};
use tokio::task::JoinSet;

const AGENTS: usize = 200;

/// The number of those that ask at once in the first test: `UNIQ_AGENTS=4096` asks for every number of the default pool.
fn agents() -> usize {
    variables::number_or("UNIQ_AGENTS", AGENTS)
}
const KIND: TokenType = TokenType::Uint2;

fn lessees(count: usize) -> Vec<Lessee> {
    (0..count).map(|nth| Lessee::new(&format!("lessee-{nth}")).unwrap()).collect()
}

fn masters(cluster: &Cluster) -> [SocketAddr; 2] {
    [cluster.masters[0].agent_listen, cluster.masters[1].agent_listen]
}

/// All ask at once, half of them each master first. In the order of `lessees`.
async fn all_ask(lessees: &[Lessee], masters: [SocketAddr; 2]) -> Vec<Grant> {
    ask_by(lessees.len(), lessees, masters, &Arc::default()).await
}

/// The same, but only so many of them at a time; `granted` counts along.
async fn ask_by(
    at_once: usize,
    lessees: &[Lessee],
    masters: [SocketAddr; 2],
    granted: &Arc<AtomicUsize>,
) -> Vec<Grant> {
    let (start, places) = (Arc::new(Barrier::new(lessees.len())), Arc::new(Semaphore::new(at_once)));
    let mut asking = JoinSet::new();
    for (nth, lessee) in lessees.iter().cloned().enumerate() {
        let (start, places, granted) = (Arc::clone(&start), Arc::clone(&places), Arc::clone(granted));
        let [a, b] = masters;
        asking.spawn(async move {
            start.wait().await;
            let _place = places.acquire().await.unwrap();
            let order = if nth % 2 == 0 { [a, b] } else { [b, a] };
            let grant = lessee.obtain(order, KIND).await.unwrap();
            granted.fetch_add(1, Relaxed);
            (nth, grant)
        });
    }
    let mut grants = asking.join_all().await;
    grants.sort_by_key(|(nth, _)| *nth);
    grants.into_iter().map(|(_, grant)| grant).collect()
}

fn assert_distinct(lessees: &[Lessee], grants: &[Grant]) {
    let mut holders: BTreeMap<TokenKey, SessionId> = BTreeMap::new();
    for (lessee, grant) in lessees.iter().zip(grants) {
        assert_eq!(grant.token_type, KIND);
        assert!(grant.from < grant.until, "{grant:?}");
        let other = holders.insert(grant.key, lessee.session);
        assert!(other.is_none(), "token {} was granted to {:?} and {:?}", grant.key, other, lessee.session);
    }
    assert_eq!(holders.len(), lessees.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_agents_at_once_get_two_hundred_tokens() {
    let cluster = {
        let mut cluster = Cluster::start(0, &[]).await.unwrap();
        cluster.all_ready().await.unwrap();
        cluster
    };
    let lessees = lessees(agents());
    let began = Instant::now();
    let grants = all_ask(&lessees, masters(&cluster)).await;
    println!("{} tokens in {:?}", grants.len(), began.elapsed());
    assert_distinct(&lessees, &grants);

    // Asked again, the other way round: the same sessions have the same tokens.
    let [a, b] = masters(&cluster);
    let again = all_ask(&lessees, [b, a]).await;
    let key = |grants: &[Grant]| grants.iter().map(|g| (g.key, g.g)).collect::<Vec<_>>();
    assert_eq!(key(&again), key(&grants));

    // Both masters have them on record, for the same sessions.
    for (lessee, grant) in lessees.iter().zip(&grants).step_by(10) {
        for master in masters(&cluster) {
            let listed = lessee.list(master).await.unwrap();
            assert_eq!(listed.len(), 1, "{listed:?}");
            assert_eq!(listed[0].grant.key, grant.key);
        }
    }
}

/// Both masters write down what was asked for meanwhile together, so all two hundred at once are granted between two looks at
/// the clock; in turns, the kill comes in the midst of them.
const AT_ONCE: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_killed_in_the_midst_sells_nothing_twice() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    let client = cluster.client.clone();
    for (round, gone) in [0, 1].into_iter().enumerate() {
        let lessees: Vec<_> = (0..AGENTS).map(|nth| Lessee::new(&format!("round-{round}-{nth}")).unwrap()).collect();
        let (asking, masters, granted) = (lessees.clone(), masters(&cluster), Arc::<AtomicUsize>::default());
        let counted = Arc::clone(&granted);
        let asking = tokio::spawn(async move { ask_by(AT_ONCE, &asking, masters, &counted).await });
        while granted.load(Relaxed) < AGENTS / 4 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let daemon = &mut cluster.master(gone).unwrap().daemon;
        daemon.kill_9();
        let before = granted.load(Relaxed);
        println!("master {} killed after {before} of {AGENTS} grants", gone + 1);
        assert!(before < AGENTS, "all was over before the kill, which then proves nothing");
        daemon.start().unwrap();
        let grants = asking.await.unwrap();
        assert_distinct(&lessees, &grants);
        until_status(&client, daemon, "/readyz", 200).await.unwrap();
    }

    // What the tables say at the end: no value has two holders, and both masters agree on each.
    let table = async |master: usize| {
        let rows = cluster.leases(master, "type=uint2").await.unwrap();
        let held = rows.iter().filter(|row| row["state"] == "held");
        let pairs: Vec<_> = held.map(|row| (row["token"].to_string(), row["session"].to_string())).collect();
        let map: BTreeMap<_, _> = pairs.iter().cloned().collect();
        assert_eq!(map.len(), pairs.len(), "a value stands twice in the table of master {}", master + 1);
        map
    };
    let (one, two) = (table(0).await, table(1).await);
    for (token, session) in &one {
        assert!(two.get(token).is_none_or(|other| other == session), "the masters differ on token {token}");
    }
    assert!(one.len() >= 2 * AGENTS, "only {} leases stand in the table", one.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_asks_both_masters_at_once_shares_no_token_with_another() {
    let cluster = Cluster::start(0, &[]).await.unwrap();
    let lessees = lessees(50);
    let mut asking = JoinSet::new();
    for lessee in lessees {
        for master in masters(&cluster) {
            let lessee = lessee.clone();
            asking.spawn(async move {
                let connection = Lessee::connect(master).await.unwrap();
                lessee.heartbeat(&connection).await.unwrap().unwrap();
                (lessee.session, lessee.request(&connection, KIND).await.unwrap())
            });
        }
    }
    let mut holders: BTreeMap<TokenKey, SessionId> = BTreeMap::new();
    while let Some(answer) = asking.join_next().await {
        match answer.unwrap() {
            (session, Ok(grant)) => {
                let holder = *holders.entry(grant.key).or_insert(session);
                assert_eq!(holder, session, "token {} has two holders", grant.key);
            }
            (_, Err(refusal)) => assert_eq!(refusal, Refusal::Retry),
        }
    }
    assert!(!holders.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_name_in_a_crash_loop_ends_at_its_budget_not_at_an_empty_pool() {
    let cluster = Cluster::start(0, &[]).await.unwrap();
    let budget = usize::from(common::parameters::ClusterParameters::BUDGET);
    for nth in 0..=budget {
        // A new session each time: what an agent that loses its file at each start looks like.
        let lessee = Lessee::new("forgetful").unwrap();
        let answer = lessee.obtain(masters(&cluster), KIND).await;
        if nth < budget {
            answer.unwrap();
        } else {
            let refusal = answer.unwrap_err().to_string();
            assert!(refusal.contains("--agent-id"), "{refusal}");
        }
    }
}
