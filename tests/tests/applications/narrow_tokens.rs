//! Layouts with a narrow token field: as many agents as the field has values are served, the next one is told why it is not,
//! and the other kinds' tokens stay.

use common::token::TokenType;
use net::rpc::lease::Refusal;
use std::collections::BTreeSet;
use std::sync::Arc;
use tests::cluster::{Cluster, until};
use tests::lessee::Lessee;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Values of 10 bits.
const SMALL: usize = 1_024;
/// Grants under way at a time.
const AT_ONCE: usize = 32;
/// Agents that need no small token.
const OTHERS: usize = 200;
/// All agents of this test are of one network, and none of them is known.
const NO_LIMITS: [(&str, &str); 3] =
    [("--network-share", "100"), ("--network-grants-per-hour", "0"), ("--pool-reserve", "0")];

/// The tokens that so many newcomers get, in no order.
async fn granted(cluster: &Cluster, count: usize, kind: TokenType) -> Vec<u32> {
    let [a, b] = [cluster.masters[0].agent_listen, cluster.masters[1].agent_listen];
    let (places, mut asking) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
    for nth in 0..count {
        let (lessee, places) = (Lessee::new(&format!("{kind}-{nth}")).unwrap(), Arc::clone(&places));
        asking.spawn(async move {
            let _place = places.acquire().await.unwrap();
            let order = if nth % 2 == 0 { [a, b] } else { [b, a] };
            lessee.obtain(order, kind).await.unwrap().key.value.0
        });
    }
    asking.join_all().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_and_twenty_four_agents_mint_a_10_bit_layout_and_the_next_one_is_told_why_not() {
    let mut cluster = Cluster::new().unwrap();
    for master in &mut cluster.masters {
        for (flag, value) in NO_LIMITS {
            master.daemon.set(flag, value);
        }
        master.daemon.start().unwrap();
    }
    for _ in 0..2 {
        let nth = cluster.add_agent(&[]).unwrap();
        cluster.agent(nth).unwrap().daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let url = cluster.agent_url(0, "generators/flake").unwrap();
    let definition = br#"{"kind":"layout","layout":"snowflake"}"#.to_vec();
    assert_eq!(cluster.client.ask("PUT", &url, definition).await.unwrap().status, 201);

    // The agents have a token each, which is none of the small ones, and the first use of the name gets a second one.
    let first = cluster.ask_agent(0, "layout/flake").await.unwrap();
    assert_eq!(first.status, 200, "{}", first.text());
    let own = first.text().trim().parse::<u64>().unwrap() >> 12 & 0x3ff;
    let mut small: BTreeSet<u32> = granted(&cluster, SMALL - 1, TokenType::Uint10Bit).await.into_iter().collect();
    small.insert(u32::try_from(own).unwrap());
    assert_eq!(small.len(), SMALL, "each of them once");
    assert!(small.last() < Some(&1_024));

    // The next agent, and the next who asks a master.
    let refused = cluster.ask_agent(1, "layout/flake").await.unwrap();
    assert_eq!((refused.status, refused.code()), (503, "no_lease".to_owned()), "{}", refused.text());
    assert!(refused.text().contains("uint-10bit"), "{}", refused.text());
    let master = Lessee::connect(cluster.masters[0].agent_listen).await.unwrap();
    let late = Lessee::new("late").unwrap();
    late.heartbeat(&master).await.unwrap().unwrap();
    let asked = || async {
        match late.request(&master, TokenType::Uint10Bit).await.unwrap() {
            Err(Refusal::Retry | Refusal::PeerAway) => None,
            answer => Some(answer),
        }
    };
    let (answer, _) = until("an answer", asked).await.unwrap();
    assert_eq!(answer.unwrap_err(), Refusal::PoolExhausted { token_type: TokenType::Uint10Bit });

    // What the other kinds use is there as before.
    let others = granted(&cluster, OTHERS, TokenType::Uint2).await;
    assert_eq!(others.iter().collect::<BTreeSet<_>>().len(), OTHERS);
    assert!(others.iter().all(|value| *value >= 1_024), "{others:?}");
    for agent in 0..2 {
        assert_eq!(cluster.ask_agent(agent, "uniq64").await.unwrap().status, 200);
    }
    cluster.all_ready().await.unwrap();
    assert_eq!(cluster.ask_agent(0, "layout/flake?n=1000").await.unwrap().status, 200);

    // A restart goes on with the small token.
    let daemon = &mut cluster.agent(0).unwrap().daemon;
    daemon.kill_9();
    daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    let again = cluster.ask_agent(0, "layout/flake").await.unwrap();
    assert_eq!(again.text().trim().parse::<u64>().unwrap() >> 12 & 0x3ff, own);
}
