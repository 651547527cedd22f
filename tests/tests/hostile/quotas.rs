//! Whoever asks for all that there is gets much of it, and an honest caller is served throughout: real programs.

use common::kind::Kind;
use net::rpc::mint::{MintCode, MintServiceClient};
use net::rpc::transport::{connect, deadline_in};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tests::cluster::Cluster;

/// The length of the attack.
const ATTACK: Duration = Duration::from_secs(30);
/// Connections of whoever makes it.
const AT_ONCE: usize = 4;
const N: u32 = 20_000;
/// Strings of a day by the name that is attacked.
const A_DAY: u64 = 10_000_000;

fn from(address: &str) -> reqwest::Client {
    reqwest::Client::builder().local_address(Some(address.parse().unwrap())).no_proxy().build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_honest_caller_is_served_beside_one_who_takes_all_strings_of_a_day() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    cluster.all_ready().await.unwrap();
    let define = cluster.agent_url(0, "generators/orders").unwrap();
    let definition = json!({"kind": "string", "template": "O{date:%Y%m%d}{token}{serial:7}"}).to_string();
    let defined = cluster.client.ask("PUT", &define, definition.into_bytes()).await.unwrap();
    assert_eq!(defined.status, 201, "{}", defined.text());
    let url = cluster.agent_url(0, "string/orders").unwrap();

    let (stop, taken, refused) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let greedy: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let (url, stop) = (format!("{url}?n={N}"), Arc::clone(&stop));
            let (taken, refused) = (Arc::clone(&taken), Arc::clone(&refused));
            tokio::spawn(async move {
                let client = from("127.0.0.1");
                while !stop.load(Relaxed) {
                    let answer = client.get(&url).send().await.unwrap();
                    let (status, again) = (answer.status().as_u16(), answer.headers().contains_key("retry-after"));
                    let body = answer.bytes().await.unwrap();
                    match status {
                        200 => drop(taken.fetch_add(N.into(), Relaxed)),
                        _ => {
                            let text = String::from_utf8_lossy(&body);
                            assert!(status == 429 && again && text.contains("quota_exceeded"), "{status}: {text}");
                            refused.fetch_add(1, Relaxed);
                            tokio::time::sleep(Duration::from_millis(10)).await;
                        }
                    }
                }
            })
        })
        .collect();
    let (honest, began, mut asked) = (from("127.0.0.2"), Instant::now(), 0_u64);
    while began.elapsed() < ATTACK {
        let answer = honest.get(&url).send().await.unwrap();
        let status = answer.status().as_u16();
        assert_eq!(status, 200, "after {asked}: {}", answer.text().await.unwrap());
        asked += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let many = honest.get(format!("{url}?n={N}")).send().await.unwrap();
    assert_eq!(many.status().as_u16(), 200, "{}", many.text().await.unwrap());
    let ready = honest.get(cluster.agent_url(0, "readyz").unwrap()).send().await.unwrap();
    assert_eq!(ready.status().as_u16(), 200, "others are served");
    stop.store(true, Relaxed);
    for task in greedy {
        task.await.unwrap();
    }
    let (taken, refused) = (taken.load(Relaxed), refused.load(Relaxed));
    println!("one caller took {taken} and was refused {refused} times; the honest one was served {asked} times");
    // At midnight UTC a new day begins.
    assert!(refused > 0 && taken < 2 * A_DAY && taken > A_DAY / 2, "{taken} {refused}");

    // By RPC, and behind the router, it is the same caller.
    let transport = connect(&cluster.agents[0].rpc_listen.to_string()).await.unwrap();
    let rpc = MintServiceClient::new(tarpc::client::Config::default(), transport).spawn();
    let context = deadline_in(Duration::from_secs(10));
    let strings =
        rpc.texts(context, Some(Kind::String), "orders".to_owned(), N * 4, String::new(), String::new()).await.unwrap();
    assert_eq!(strings.unwrap_err().code, MintCode::QuotaExceeded);
    let routed = from("127.0.0.1");
    let id = cluster.agent_url(0, "healthz").unwrap();
    assert!(!routed.get(id).send().await.unwrap().bytes().await.unwrap().is_empty());
    let again = routed.get(format!("{url}?n={}", N * 4)).send().await.unwrap();
    assert_eq!(again.status().as_u16(), 429, "{}", again.text().await.unwrap());
    // Another name is another day's.
    let other = routed.get(cluster.agent_url(0, "string?biz=ABCD&custom=AB").unwrap()).send().await.unwrap();
    assert_eq!(other.status().as_u16(), 200);
}
