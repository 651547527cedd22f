//! Whoever takes connections and does nothing with them keeps nobody else out: neither from the console of a master and what
//! machines ask it, nor from the ports of agents.
//!
//! Beside the strangers there are always an honest agent and a gentle client, and they lose nothing.

use common::parameters::SessionId;
use common::token::TokenType;
use net::rpc::PROTOCOL;
use net::rpc::lease::{HeartbeatRequest, LeaseServiceRequest};
use net::rpc::mint::{MintServiceClient, MintServiceRequest};
use net::rpc::transport::{connect, deadline_in};
use net::tls::{Admits, Tls};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::SocketAddr;
use std::time::Duration;
use tests::client::{ADMIN_PASSWORD, Client};
use tests::cluster::{Cluster, Master, PATIENCE, until};
use tests::gentle::{Gentle, Kept};
use tests::lessee::Lessee;
use tests::wire::call;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

/// Descriptors that these tests need, and the programs that they start.
const DESCRIPTORS: u64 = 12_000;
/// With so many descriptors a master has places for some hundred agents.
const FEW_DESCRIPTORS: u64 = 1_024;
/// Longer than any call here takes, and shorter than what a place is given back after by itself.
const CALL_MAX: Duration = Duration::from_secs(25);

/// The longest time that a stranger tries to be rid of its bytes.
const WRITE_MAX: Duration = Duration::from_millis(20);

/// `false`: this machine does not let a process have so many.
fn enough_descriptors() -> bool {
    let limit = getrlimit(Resource::Nofile);
    let enough = limit.maximum.is_none_or(|most| most >= DESCRIPTORS);
    if enough {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    } else {
        println!("left out: {DESCRIPTORS} descriptors cannot be had here, only {:?}", limit.maximum);
    }
    enough
}

/// A connection that says this, and reads nothing. It may well be closed again before it has said all.
async fn silent(port: SocketAddr, bytes: &[u8]) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 << 10).unwrap();
    let mut stream = socket.connect(port).await.ok()?;
    let _ = tokio::time::timeout(WRITE_MAX, stream.write_all(bytes)).await;
    Some(stream)
}

async fn many(port: SocketAddr, count: usize, bytes: &[u8]) -> Vec<TcpStream> {
    let mut held = Vec::new();
    for _ in 0..count {
        held.extend(silent(port, bytes).await);
    }
    held
}

/// Counts the times that an agent said that it has a connection to a master.
fn connected(cluster: &Cluster) -> usize {
    cluster.agents[0]
        .daemon
        .log_text()
        .lines()
        .filter(|line| line.contains("connected") && line.contains("mode"))
        .count()
}

/// As a new caller, within a while.
async fn soon<T>(what: &str, work: impl Future<Output = anyhow::Result<T>>) -> T {
    let done = tokio::time::timeout(CALL_MAX, work).await;
    done.unwrap_or_else(|_| panic!("{what}: no answer within {CALL_MAX:?}")).unwrap_or_else(|e| panic!("{what}: {e:#}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_do_not_read_take_nobody_the_console() {
    assert!(enough_descriptors());
    let cluster = Cluster::start(1, &[]).await.unwrap();
    let http = cluster.masters[0].daemon.http;
    let honest = cluster.client.clone();
    honest.console(http, "/api/masters").await.unwrap();
    let large = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
    let half_head = b"GET / HTTP/1.1\r\nHost: lo";
    let form = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 40";
    let half_body = format!("POST /login HTTP/1.1\r\nHost: localhost\r\n{form}\r\n\r\nuser=adm");
    let mut held = Vec::new();
    for (what, bytes) in [
        ("600 that do not read a large page", &large[..]),
        ("600 with half a head", half_head),
        ("600 with half a body", half_body.as_bytes()),
    ] {
        held.extend(many(http, 600, bytes).await);
        for path in ["/readyz", "/metrics", "/healthz"] {
            let answer = soon(what, Client::new().unwrap().get(&format!("http://{http}{path}"))).await;
            assert_eq!(answer.status, 200, "{what}: {path}: {}", answer.text());
        }
        let cookie = soon(what, Client::new().unwrap().log_in(http, "admin", ADMIN_PASSWORD)).await;
        assert!(cookie.contains('='), "{what}: {cookie}");
        // Whoever was logged in goes on.
        let answer = soon(what, honest.console(http, "/api/masters")).await;
        assert_eq!(answer.status, 200, "{what}: {}", answer.text());
        println!("{what}: answered beside them");
    }
    drop(held);
    // All places come back: so many connections are served at once, and none of them has to make room.
    let mut streams = Vec::new();
    for _ in 0..200 {
        let mut kept = Kept::connect(&Tls::PLAIN, Admits::Masters, http).await.unwrap();
        assert_eq!(kept.get("/healthz").await.unwrap(), (200, "ok\n".to_owned()));
        streams.push(kept);
    }
    for kept in &mut streams {
        assert_eq!(kept.get("/healthz").await.unwrap(), (200, "ok\n".to_owned()));
    }
    let lessee = Lessee::new("after").unwrap();
    let masters = [cluster.masters[0].agent_listen, cluster.masters[1].agent_listen];
    lessee.obtain(masters, TokenType::Uint2).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_to_an_agent_keep_no_newcomer_out() {
    if !enough_descriptors() {
        return;
    }
    let cluster = Cluster::start(1, &["--threads", "2"]).await.unwrap();
    let (http, rpc) = (cluster.agents[0].daemon.http, cluster.agents[0].rpc_listen);
    let gentle = Gentle::start(&Tls::PLAIN, http, u64::MAX).await;
    let transport = connect(&rpc.to_string()).await.unwrap();
    let line = MintServiceClient::new(tarpc::client::Config::default(), transport).spawn();
    let mint = async || {
        let ids = line.uniq64(deadline_in(CALL_MAX), String::new(), 10).await;
        assert_eq!(ids.expect("the gentle caller's connection stays").unwrap().len(), 10);
    };
    mint().await;
    let asked = b"GET /uniq64 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let ready = call((20, 0), 1, &MintServiceRequest::Ready {});
    for (what, http_bytes, rpc_bytes) in [
        ("silent callers", &b""[..], &b""[..]),
        ("callers with half a request", b"GET /uniq64 HT", &[0, 0]),
        ("callers that asked once", asked, &ready),
    ] {
        let mut held = Vec::new();
        for part in 0..11 {
            held.extend(many(http, 400, http_bytes).await);
            held.extend(many(rpc, 120, rpc_bytes).await);
            mint().await;
            if part < 9 {
                continue;
            }
            // As many as there are places, and more.
            let answer = soon(what, Client::new().unwrap().get(&format!("http://{http}/uniq64"))).await;
            assert_eq!(answer.status, 200, "{what}: {}", answer.text());
            soon(what, async {
                let transport = connect(&rpc.to_string()).await?;
                let newcomer = MintServiceClient::new(tarpc::client::Config::default(), transport).spawn();
                Ok(newcomer.ready(deadline_in(CALL_MAX)).await??)
            })
            .await;
        }
        println!("{what}: {} of them keep nobody out", held.len());
        // Those that are closed and not yet noticed are none of the next kind.
        drop(held);
        tokio::time::sleep(Duration::from_millis(500)).await;
        mint().await;
    }
    println!("on one connection {}", gentle.stop().await.unwrap());
}

fn heartbeat(nth: u128) -> HeartbeatRequest {
    HeartbeatRequest {
        protocol: PROTOCOL,
        agent_id: "stranger".parse().unwrap(),
        session: SessionId(nth),
        cluster: None,
        test_clock: None,
        version: String::new(),
        wall: common::clock::Clock::system().wall(),
        retired: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_strangers_at_a_masters_port_for_agents_make_room_and_agents_do_not() {
    if !enough_descriptors() {
        return;
    }
    let mut cluster = Cluster::new().unwrap();
    cluster.add_agent(&["--renew-interval", "1s"]).unwrap();
    for master in &mut cluster.masters {
        // Then it has few places for agents.
        master.daemon.limit_descriptors(FEW_DESCRIPTORS);
    }
    for daemon in cluster.daemons() {
        daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let gentle = Gentle::start(&Tls::PLAIN, cluster.agents[0].daemon.http, u64::MAX).await;
    let renewed = || async {
        let lease = cluster.leases(0, "agent=agent-1").await.ok()?.first()?.clone();
        (lease["renewed"] != lease["from"] && lease["renewed"].is_string()).then_some(lease["renewed"].clone())
    };
    let (before, _) = until("a renewal", renewed).await.unwrap();
    let connections = connected(&cluster);
    assert!(connections > 0);
    let log = cluster.agents[0].daemon.log_text();
    let uses = |master: &&Master| log.contains(&format!("connected address={}", master.agent_listen));
    let port = cluster.masters.iter().find(uses).expect(&log).agent_listen;
    // More than there are places, each of which asks something that it may ask.
    let mut held = Vec::new();
    for nth in 0..1_500u128 {
        let bytes = call((20, 0), 1, &LeaseServiceRequest::Heartbeat { request: heartbeat(nth) });
        held.extend(silent(port, &bytes).await);
    }
    let newcomer = Lessee::new("newcomer").unwrap();
    soon("a newcomer", async {
        let master = Lessee::connect(port).await?;
        newcomer.heartbeat(&master).await??;
        newcomer.request(&master, TokenType::Uint2).await??;
        Ok(())
    })
    .await;
    println!("{} strangers keep nobody out", held.len());
    let later = || async { renewed().await.filter(|later| *later != before) };
    until("a renewal among them", later).await.unwrap();
    assert_eq!(connected(&cluster), connections, "the agent kept its connection");
    gentle.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_for_nothing_in_time_is_disconnected() {
    let cluster = Cluster::start(1, &[]).await.unwrap();
    let ready = call((20, 0), 1, &MintServiceRequest::Ready {});
    let heartbeat = call((20, 0), 1, &LeaseServiceRequest::Heartbeat { request: heartbeat(1) });
    let ports = [(cluster.agents[0].rpc_listen, &ready), (cluster.masters[0].agent_listen, &heartbeat)];
    let (mut asked, mut silent) = (Vec::new(), Vec::new());
    for (port, whole) in ports {
        let mut stream = TcpStream::connect(port).await.unwrap();
        stream.write_all(whole).await.unwrap();
        assert!(stream.read(&mut [0; 4_096]).await.unwrap() > 0);
        asked.push((stream, whole));
        for said in [&[][..], &[0, 0], &whole[..whole.len() - 1]] {
            let mut stream = TcpStream::connect(port).await.unwrap();
            stream.write_all(said).await.unwrap();
            silent.push((stream, port, said.len()));
        }
    }
    for (mut stream, port, said) in silent {
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut [0; 64])).await;
        let read = read.unwrap_or_else(|_| panic!("{port}: who said {said} bytes is still there"));
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
    // Later than all of them, on the connections that were made first.
    for (mut stream, whole) in asked {
        stream.write_all(whole).await.unwrap();
        assert!(stream.read(&mut [0; 4_096]).await.unwrap() > 0);
    }
}
