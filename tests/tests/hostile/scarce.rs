//! Whatever callers leave unfinished, unread or idle: memory stays bounded and is given back, there are descriptors for files,
//! agents renew, and a gentle client loses nothing.

use common::token::TokenType;
use net::rpc::connection::CALL_LEN_MAX;
use net::rpc::transport::FRAME_LEN_MAX;
use net::tls::Tls;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::SocketAddr;
use std::time::Duration;
use tests::cluster::{Cluster, until};
use tests::gentle::Gentle;
use tests::lessee::Lessee;
use tests::programs::Daemon;
use tests::wire::{call, uniq96};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Frames that are never whole: how many, how long, and why the master ends them. First longer ones than it takes, then a few
/// that it has room for, then more than it keeps for all of them together, twice.
const UNFINISHED: [(usize, usize, &str); 4] = [
    (250, FRAME_LEN_MAX, "frame_too_long"),
    (100, 16 << 10, "frame_late"),
    (1_500, CALL_LEN_MAX, "no_room"),
    (1_500, CALL_LEN_MAX, "no_room"),
];
/// Memory that a master may take for them beside what it had: its budget (`master::rpc::LIMITS`), and what so many connections need.
const MASTER_MORE_MAX: u64 = (16 + 64) << 20;
/// Calls for as many IDs as one may ask for, by somebody who reads no answer.
const CALLS: u64 = 300;
const IDS: u32 = 100_000;
/// Memory that an agent may take for them.
const AGENT_MORE_MAX: u64 = 96 << 20;
/// Memory that may stay in the allocator's hands afterwards.
const KEPT_MAX: u64 = 48 << 20;
/// The longest time that a caller tries to be rid of its bytes.
const WRITE: Duration = Duration::from_secs(1);

/// Descriptors that a process may have where nobody has raised the hard limit,
const DESCRIPTORS: u64 = 1_024;
/// and connections to each of its ports by callers who say nothing.
const IDLE: usize = 1_200;
/// The time that such a caller tries to connect: behind a full backlog that takes for ever.
const CONNECT: Duration = Duration::from_millis(100);

const MIB: u64 = 1 << 20;

/// This test's own limit on descriptors, as high as it may be.
fn many_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

/// The time at which the first lease of the agent was renewed last, as a master has it.
async fn renewed(cluster: &Cluster) -> String {
    cluster.leases(0, "agent=agent-1").await.unwrap()[0]["renewed"].to_string()
}

/// The agent renews on, and all processes say that they are ready.
async fn assert_renews(cluster: &mut Cluster) {
    cluster.all_ready().await.unwrap();
    let was = renewed(cluster).await;
    let again = || async { (renewed(cluster).await != was).then_some(()) };
    until("the agent renews", again).await.unwrap();
}

/// The same, and its masters grant to newcomers.
async fn assert_all_goes_on(cluster: &mut Cluster, beside: &str) {
    assert_renews(cluster).await;
    let newcomer = Lessee::new(&format!("new-{}", rand::random::<u32>())).unwrap();
    let masters = [cluster.masters[0].agent_listen, cluster.masters[1].agent_listen];
    newcomer.obtain(masters, TokenType::Uint2).await.unwrap_or_else(|e| panic!("{beside}: {e:#}"));
}

/// The most memory that it took within a while, in bytes.
async fn peak(daemon: &Daemon, seconds: u64) -> u64 {
    let mut peak = 0;
    for _ in 0..seconds * 10 {
        peak = peak.max(daemon.memory().unwrap());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    peak
}

async fn assert_given_back(daemon: &Daemon, before: u64) {
    let back = || async { (daemon.memory().unwrap() < before + KEPT_MAX).then_some(()) };
    until("the memory is given back", back)
        .await
        .unwrap_or_else(|e| panic!("{e:#}: {} MiB before, {} MiB after", before / MIB, daemon.memory().unwrap() / MIB));
}

/// A connection with all of a frame but its last byte.
async fn unfinished(port: SocketAddr, len: usize) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(port).await.ok()?;
    let mut bytes = vec![1; 4 + len - 1];
    bytes[..4].copy_from_slice(&u32::try_from(len).unwrap().to_be_bytes());
    let _ = tokio::time::timeout(WRITE, stream.write_all(&bytes)).await;
    Some(stream)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_that_are_never_whole_cost_a_master_little_and_not_for_long() {
    many_descriptors();
    let mut cluster = Cluster::start(1, &["--renew-interval", "1s"]).await.unwrap();
    let (port, http) = (cluster.masters[0].agent_listen, cluster.masters[0].daemon.http);
    let gentle = Gentle::start(&Tls::PLAIN, cluster.agents[0].daemon.http, 10).await;
    let before = cluster.masters[0].daemon.memory().unwrap();
    let client = cluster.client.clone();
    for (number, len, why) in UNFINISHED {
        let name = format!("uniq_rpc_connections_ended_total{{why=\"{why}\"}}");
        let was = client.metric(http, &name).await.unwrap();
        let mut held = Vec::new();
        for _ in 0..number {
            held.extend(unfinished(port, len).await);
        }
        let peak = peak(&cluster.masters[0].daemon, 3).await;
        println!("{number} frames of {len} bytes less one: {} MiB before, {} MiB", before / MIB, peak / MIB);
        assert!(peak < before + MASTER_MORE_MAX, "{} MiB before, {} MiB", before / MIB, peak / MIB);
        assert_all_goes_on(&mut cluster, why).await;
        // The master ends them by itself, and says why; but whoever never made a whole call is ended sooner, by the limit for the
        // first one, which is not counted.
        if why == "frame_too_long" {
            let counted = || async { (client.metric(http, &name).await.unwrap() > was).then_some(()) };
            until("they are ended and counted", counted).await.unwrap();
        }
        for mut stream in held {
            let ended = tokio::time::timeout(Duration::from_secs(60), stream.read(&mut [0; 1])).await;
            assert!(matches!(ended, Ok(Ok(0) | Err(_))), "it still stands");
        }
    }
    let after = cluster.masters[0].daemon.memory().unwrap();
    println!("{} MiB afterwards", after / MIB);
    assert!(after < before + MASTER_MORE_MAX);
    assert_all_goes_on(&mut cluster, "afterwards").await;
    println!("{}", gentle.stop().await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_for_much_and_reads_nothing_costs_an_agent_little_and_not_for_long() {
    let mut cluster = Cluster::start(1, &["--renew-interval", "1s"]).await.unwrap();
    let (port, http) = (cluster.agents[0].rpc_listen, cluster.agents[0].daemon.http);
    let gentle = Gentle::start(&Tls::PLAIN, cluster.agents[0].daemon.http, 10).await;
    let before = cluster.agents[0].daemon.memory().unwrap();
    let mut stream = TcpStream::connect(port).await.unwrap();
    let calls: Vec<u8> = (0..CALLS).flat_map(|id| call((60, 0), id, &uniq96(IDS))).collect();
    let _ = tokio::time::timeout(WRITE, stream.write_all(&calls)).await;
    let peak = peak(&cluster.agents[0].daemon, 8).await;
    println!("{CALLS} answers of {IDS} IDs: {} MiB before, {} MiB", before / MIB, peak / MIB);
    assert!(peak < before + AGENT_MORE_MAX, "{} MiB before, {} MiB", before / MIB, peak / MIB);
    // Others are served meanwhile, also by RPC and with large answers.
    assert_eq!(cluster.ask_agent(0, "uniq96?n=100000").await.unwrap().status, 200);
    assert_all_goes_on(&mut cluster, "beside a caller that does not read").await;
    let client = &cluster.client;
    let name = "uniq_rpc_connections_ended_total{why=\"unread\"}";
    let counted = || async { (client.metric(http, name).await.unwrap() > 0).then_some(()) };
    until("the connection is ended and counted", counted).await.unwrap();
    assert_given_back(&cluster.agents[0].daemon, before).await;
    println!("{}", gentle.stop().await.unwrap());
}

/// Callers who connect and say nothing.
async fn idle(port: SocketAddr) -> Vec<TcpStream> {
    let mut held = Vec::new();
    for _ in 0..IDLE {
        if let Ok(Ok(stream)) = tokio::time::timeout(CONNECT, TcpStream::connect(port)).await {
            held.push(stream);
        }
    }
    held
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_leave_descriptors_for_files() {
    many_descriptors();
    let mut cluster = Cluster::new().unwrap();
    cluster.add_agent(&["--renew-interval", "1s"]).unwrap();
    for daemon in cluster.daemons() {
        daemon.limit_descriptors(DESCRIPTORS);
        daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let client = cluster.client.clone();
    let (agent, master) = (cluster.agents[0].daemon.http, cluster.masters[0].daemon.http);
    let gentle = Gentle::start(&Tls::PLAIN, cluster.agents[0].daemon.http, u64::MAX).await;
    let mut held = Vec::new();
    for port in [agent, cluster.agents[0].rpc_listen, cluster.masters[0].agent_listen] {
        held.extend(idle(port).await);
    }
    println!("{} idle connections beside {DESCRIPTORS} descriptors", held.len());
    // Serials are reserved again and again, and each time a file is written anew.
    let writes = "uniq_serial_file_writes_total";
    let was = client.metric(agent, writes).await.unwrap();
    let mut batches = 0;
    while client.metric(agent, writes).await.unwrap() < was + 3 {
        for path in ["uniq64?n=100000", "string?biz=ABCD&custom=xy&n=100000"] {
            let answer = cluster.ask_agent(0, path).await.unwrap();
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        }
        batches += 1;
        assert!(batches < 500, "nothing is written");
    }
    assert_eq!(client.metric(agent, "uniq_serial_file_write_failures_total").await.unwrap(), 0);
    assert_renews(&mut cluster).await;
    // The port is never without descriptors for whom it has a place.
    for http in [agent, master] {
        assert_eq!(client.metric(http, "uniq_accept_failures_total").await.unwrap(), 0, "{http}");
    }
    for daemon in cluster.daemons() {
        let log = daemon.log_text();
        assert!(log.contains("file descriptors") && log.contains("limit=1024"), "{log}");
    }
    println!("{}", gentle.stop().await.unwrap());
    drop(held);
    assert_all_goes_on(&mut cluster, "afterwards").await;
}

/// Sections are kept, raised, written down and passed on beside them, over connections to a master that are made anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_leave_descriptors_for_sections() {
    many_descriptors();
    let mut cluster = Cluster::new().unwrap();
    for _ in 0..2 {
        cluster.add_agent(&[]).unwrap();
    }
    for master in &mut cluster.masters {
        master.daemon.set("--sequence-lease", "2");
    }
    for daemon in cluster.daemons() {
        daemon.limit_descriptors(DESCRIPTORS);
        daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let client = cluster.client.clone();
    let agents = [cluster.agents[0].daemon.http, cluster.agents[1].daemon.http];
    let definition = r#"{"kind":"sequence","keys_per_section":1000,"step":10,"solo_allowance":1000000}"#;
    let put = format!("http://{}/generators/inbox", agents[0]);
    let registered = || async {
        let answer = client.ask("PUT", &put, definition.as_bytes().to_vec()).await.ok()?;
        [200, 201].contains(&answer.status).then_some(())
    };
    until("the name is registered", registered).await.unwrap();
    // One key in each of ten sections, asked of both agents in turn, so that some of the calls are passed on.
    let mut last = [0_u64; 10];
    let mut all_keys = async |what: &str| {
        for round in 0..6 {
            for (nth, last) in last.iter_mut().enumerate() {
                let url = format!("http://{}/sequence/inbox/{}?n=5", agents[(nth + round) % 2], nth * 1_000 + 1);
                let next = || async {
                    let answer = client.get(&url).await.ok().filter(|answer| answer.status == 200)?;
                    Some(answer.text().lines().map(|line| line.parse().unwrap()).collect::<Vec<u64>>())
                };
                let (numbers, _) = until(&format!("{what}: a number of key {nth}"), next).await.unwrap();
                assert!(numbers[0] > *last && numbers.is_sorted(), "{what}: {numbers:?} after {last}");
                *last = numbers[4];
            }
        }
    };
    all_keys("at the start").await;
    let mut held = Vec::new();
    for agent in &cluster.agents {
        for port in [agent.daemon.http, agent.rpc_listen] {
            held.extend(idle(port).await);
        }
    }
    println!("{} idle connections beside {DESCRIPTORS} descriptors", held.len());
    all_keys("beside idle connections").await;
    for nth in 0..2 {
        cluster.masters[nth].daemon.kill_9();
        cluster.masters[nth].daemon.start().unwrap();
        all_keys("with a master that was started again").await;
        cluster.all_ready().await.unwrap();
    }
    for http in agents {
        assert_eq!(client.metric(http, "uniq_accept_failures_total").await.unwrap(), 0, "{http}");
        assert_eq!(client.metric(http, "uniq_sequence_unwritten_total").await.unwrap(), 0, "{http}");
    }
}
