//! The client library on real agents: by HTTP and RPC, with batches fetched in advance, while agents are killed.

use common::namespace::Scope;
use common::template::DEFAULT_TEMPLATE;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tests::client::Kind;
use tests::cluster::{Cluster, until_status};
use tests::oracle::{Ids, Oracle};
use tests::programs;
use tokio::task::JoinSet;
use uniq_client::{Client, Definition, Error, MintCode, Namespace, Prefetch, Preview, Settings, StringSpec};

const KILLS: usize = 4;
const TASKS: usize = 6;
/// IDs that must come between two kills.
const IDS_BETWEEN: usize = 20_000;

/// One agent by HTTP, the next by RPC, and so on.
fn of(cluster: &Cluster, prefetch: Option<Prefetch>) -> Client {
    let addresses = cluster.agents.iter().enumerate().map(|(nth, agent)| match nth % 2 {
        0 => format!("http://{}", agent.daemon.http),
        _ => format!("tarpc://{}", agent.rpc_listen),
    });
    let addresses: Vec<String> = addresses.collect();
    let mut settings = Settings::new(addresses.iter().map(String::as_str)).unwrap();
    (settings.prefetch, settings.timeout) = (prefetch, Duration::from_secs(20));
    Client::new(settings).unwrap()
}

/// Fetches IDs of every kind, one by one and in batches, until `stop`. No call may fail: another agent is always there.
async fn fetch(client: Client, oracle: Arc<Oracle>, stop: Arc<AtomicBool>) -> Result<(), Error> {
    while !stop.load(Ordering::Relaxed) {
        let mut ones = Vec::new();
        for _ in 0..500 {
            ones.push(client.uniq64("default").await?);
        }
        let wide = vec![client.uniq96().await?];
        let texts = client.uniq_string_batch("default", 100, "TEST", "00").await?;
        oracle.note(Kind::Uniq64.namespace(), "one by one", &Ids::Uniq64(ones));
        oracle.note(Kind::Uniq64.namespace(), "batch", &Ids::Uniq64(client.uniq64_batch("default", 300).await?));
        oracle.note(Kind::Uniq96.namespace(), "one", &Ids::Uniq96(wide));
        oracle.note(Kind::String.namespace(), "batch", &Ids::Text(texts));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_two_agents_gets_ids_while_each_of_them_is_killed_in_turn() {
    let mut cluster = Cluster::start(2, &[]).await.unwrap();
    let (oracle, stop) = (Arc::new(Oracle::default()), Arc::new(AtomicBool::new(false)));
    let mut tasks = JoinSet::new();
    for prefetch in [None, Some(Prefetch::new(200, Duration::from_secs(60)))] {
        let client = of(&cluster, prefetch);
        for _ in 0..TASKS / 2 {
            tasks.spawn(fetch(client.clone(), Arc::clone(&oracle), Arc::clone(&stop)));
        }
    }
    let web = cluster.client.clone();
    for kill in 0..KILLS {
        let goal = oracle.total() + IDS_BETWEEN;
        while oracle.total() < goal {
            if let Some(ended) = tasks.try_join_next() {
                panic!("a client gave up: {ended:?}");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let daemon = &mut cluster.agent(kill % 2).unwrap().daemon;
        daemon.kill_9();
        tokio::time::sleep(Duration::from_millis(300)).await;
        daemon.start().unwrap();
        until_status(&web, daemon, "/readyz", 200).await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap().unwrap();
    }
    let verdict = oracle.verdict();
    println!("{verdict}");
    assert_eq!(verdict.duplicates, 0, "{verdict}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_given_is_typed_alike_by_http_and_rpc() {
    let cluster = Cluster::start(2, &[]).await.unwrap();
    for nth in 0..2 {
        let address = match nth {
            0 => format!("http://{}", cluster.agents[0].daemon.http),
            _ => format!("tarpc://{}", cluster.agents[1].rpc_listen),
        };
        let client = Client::new(Settings::new([address.as_str()]).unwrap()).unwrap();
        let code = |error: Error| match error {
            Error::Refused { code, .. } => code,
            other => panic!("{other}"),
        };
        assert_eq!(code(client.uniq64("nosuch").await.unwrap_err()), MintCode::UnknownGenerator);
        let long = client.uniq_string("default", "TOOLONG", "00").await.unwrap_err();
        assert_eq!(code(long), MintCode::BadParameter);
        // The template is that of `default`, so the same strings may come under both names.
        let define = |everyday_reset| {
            let (scope, everyday_reset) = (Some(Scope::Own), Some(everyday_reset));
            let definition =
                Definition::String(StringSpec { scope, everyday_reset, ..StringSpec::of(DEFAULT_TEMPLATE) });
            Namespace::define("invoices".parse().unwrap(), &definition).unwrap()
        };
        let said = |preview: Preview| (preview.is_new, preview.warning);
        // Tried as often as anybody likes, it is as new as before; the answer is that of the call itself.
        let tried = client.try_generator(define(true)).await.unwrap();
        assert_eq!((tried.examples.len(), said(tried.clone())), (3, (nth == 0, None)), "{tried:?}");
        assert_eq!(client.try_generator(define(true)).await.map(|again| again.is_new), Ok(nth == 0));
        // The second agent is told what the first one has told the masters.
        let defined = client.define_generator(define(true)).await.unwrap();
        assert_eq!(
            (&defined.definition, defined.is_new, &defined.last_day),
            (&tried.definition, nth == 0, &tried.last_day)
        );
        assert_eq!(client.define_generator(define(true)).await.map(said), Ok((false, None)));
        // What would be refused is refused with the same code: another definition, or strings that may be those of another name.
        let conflict = Namespace::define("alike".parse().unwrap(), &Definition::string(DEFAULT_TEMPLATE)).unwrap();
        assert_eq!(code(client.try_generator(define(false)).await.unwrap_err()), MintCode::GeneratorExists);
        let alike = client.try_generator(conflict).await.unwrap_err().to_string();
        assert!(alike.contains("generator_conflict") && alike.contains("the same string"), "{alike}");
        // Over both protocols with a warning, as often as it is said.
        let short = Definition::string("SHORT-{date:%F}{token}{serial:4}");
        let short =
            client.define_generator(Namespace::define("short".parse().unwrap(), &short).unwrap()).await.unwrap();
        assert!(short.warning.is_some_and(|why| why.contains("use up the 10000 IDs")));
        assert_eq!(code(client.define_generator(define(false)).await.unwrap_err()), MintCode::GeneratorExists);
        assert!(client.uniq_string("invoices", "TEST", "00").await.is_ok());
    }
}

/// The example is the front page of the crate, to the letter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_of_the_front_page_runs() {
    let cluster = Cluster::start(1, &[]).await.unwrap();
    let agents =
        [format!("http://{}", cluster.agents[0].daemon.http), format!("tarpc://{}", cluster.agents[0].rpc_listen)];
    let dir = tempfile::tempdir().unwrap();
    let mut seen = HashSet::new();
    for agent in &agents {
        let ended = programs::run(&programs::example("fetch").unwrap(), &[agent], dir.path()).unwrap();
        assert_eq!(ended.status, Some(0), "{agent}: {ended:?}");
        let lines: Vec<&str> = ended.out.lines().collect();
        let (refused, ids) = lines.split_last().unwrap();
        assert!(ids.len() == 8 && ids[1].contains("SHOP"), "{agent}: {ended:?}");
        assert!(ids.iter().all(|id| seen.insert((*id).to_owned())), "an ID came twice: {ended:?} {seen:?}");
        assert_eq!(*refused, "refused: unknown_generator", "{agent}");
    }
}
