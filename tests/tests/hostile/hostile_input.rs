//! Whatever bytes reach a port: the process stays alive, keeps its memory, and still serves everybody else.
//!
//! Each test attacks every port of both programs in one way and then asks for all that a healthy system gives: IDs of
//! all kinds, a new lease (which needs both masters and the link between them), and readiness.

use bincode::Options as _;
use common::audit::Actor;
use common::lease::{Lease, LeaseState};
use common::parameters::{ClusterId, ClusterParameters, EpochId, MasterId, SessionId};
use common::setting::Change;
use common::time::WallMs;
use common::token::{TokenKey, TokenType};
use net::rpc::PROTOCOL;
use net::rpc::lease::{HeartbeatRequest, LeaseServiceRequest, Mode, Refusal, TokenRequest};
use net::rpc::peer::{Content, Hello, Life, Memory, PeerMessage, PeerServiceClient, Seal, SealedFrame};
use net::rpc::transport::{FRAME_LEN_MAX, connect, deadline_in};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use std::net::SocketAddr;
use std::time::Duration;
use tests::cluster::{Cluster, until_status};
use tests::lessee::Lessee;
use tests::variables;
use tests::wire::{call, frame, method_of};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Memory that no attack may make a process take. A process at rest takes some tens of megabytes.
const MEMORY_MAX: u64 = 400 << 20;
/// The time that an attacker waits for an answer that need not come.
const LISTEN: Duration = Duration::from_millis(20);
/// Callers at once that say nothing: a good part of what each port takes, but for the masters' own.
const SILENT: usize = 200;
/// The same for the port between the masters: more than it has room for.
const SILENT_PEERS: usize = 40;
/// The longest time that it tries to be rid of its bytes.
const WRITE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Speaks {
    Http,
    Rpc,
}

fn ports(cluster: &Cluster) -> Vec<(String, SocketAddr, Speaks)> {
    let mut ports = Vec::new();
    for master in &cluster.masters {
        let name = &master.daemon.name;
        ports.push((format!("{name} agents"), master.agent_listen, Speaks::Rpc));
        ports.push((format!("{name} peer"), master.peer_listen, Speaks::Rpc));
        ports.push((format!("{name} web"), master.daemon.http, Speaks::Http));
    }
    for agent in &cluster.agents {
        ports.push((format!("{} http", agent.daemon.name), agent.daemon.http, Speaks::Http));
        ports.push((format!("{} rpc", agent.daemon.name), agent.rpc_listen, Speaks::Rpc));
    }
    ports
}

/// All that a healthy system gives.
async fn assert_well(cluster: &mut Cluster, after: &str) {
    let client = cluster.client.clone();
    for daemon in cluster.daemons() {
        let ended = daemon.ended();
        assert!(daemon.running(), "{after}: {} ended: {ended:?}\n{}", daemon.name, daemon.log_tail(30));
        let memory = daemon.memory().unwrap();
        assert!(memory < MEMORY_MAX, "{after}: {} takes {} MiB", daemon.name, memory >> 20);
        until_status(&client, daemon, "/readyz", 200).await.unwrap();
    }
    for kind in tests::client::KINDS {
        let answer = cluster.ask_agent(0, &format!("{}&n=100", kind.path())).await.unwrap();
        assert_eq!(answer.status, 200, "{after}: {}", answer.text());
    }
    let lessee = Lessee::new(&format!("after-{}", rand::random::<u32>())).unwrap();
    let masters = [cluster.masters[0].agent_listen, cluster.masters[1].agent_listen];
    lessee.obtain(masters, TokenType::Uint2).await.unwrap_or_else(|e| panic!("{after}: no new lease: {e:#}"));
    let transport = connect(&cluster.agents[0].rpc_listen.to_string()).await.unwrap();
    let rpc = net::rpc::mint::MintServiceClient::new(tarpc::client::Config::default(), transport).spawn();
    rpc.ready(deadline_in(Duration::from_secs(30))).await.unwrap().unwrap();
}

/// Sends bytes on a connection of their own and reads what comes back for a moment.
async fn send(port: SocketAddr, bytes: &[u8]) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(port).await.ok()?;
    // A server may well stop reading, or never begin to.
    let _ = tokio::time::timeout(WRITE, stream.write_all(bytes)).await;
    let mut answer = [0; 4096];
    let _ = tokio::time::timeout(LISTEN, stream.read(&mut answer)).await;
    Some(stream)
}

fn random_bytes(random: &mut SmallRng, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.random()).collect()
}

fn random() -> SmallRng {
    SmallRng::seed_from_u64(variables::seed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_on_every_port() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    let mut random = random();
    for (_, port, _) in ports(&cluster) {
        for _ in 0..30 {
            let len = random.random_range(1..4096);
            send(port, &random_bytes(&mut random, len)).await;
        }
        for text in ["\r\n\r\n", "\0\0\0\0", "GET", "SSH-2.0-x\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\x7c\x03\x03"] {
            send(port, text.as_bytes()).await;
        }
    }
    assert_well(&mut cluster, "garbage").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_that_claim_to_be_huge() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    let over = u32::try_from(FRAME_LEN_MAX).unwrap() + 1;
    for (name, port, speaks) in ports(&cluster) {
        if speaks == Speaks::Http {
            continue;
        }
        let mut held = Vec::new();
        // Just below the limit a length may be true, so nothing is refused before the bytes come: many at once, held
        // open, must still not make the process set that memory aside for each.
        for len in [u32::MAX, i32::MAX.unsigned_abs(), over, over - 1].repeat(40) {
            let bytes = [&len.to_be_bytes()[..], &[0; 64]].concat();
            held.extend(send(port, &bytes).await);
        }
        // A frame of the largest size whose contents claim a vector of all there is.
        let claim = [&[0xfd; 9][..], &[0xff; 64]].concat();
        send(port, &frame(&claim)).await;
        send(port, &frame(&vec![0xff; FRAME_LEN_MAX])).await;
        assert_well(&mut cluster, &format!("huge frames at {name}")).await;
        drop(held);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_of_random_contents() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    let mut random = random();
    for (_, port, speaks) in ports(&cluster) {
        if speaks == Speaks::Http {
            continue;
        }
        let mut stream = TcpStream::connect(port).await.unwrap();
        for nth in 0..1_500u32 {
            let len = random.random_range(0..120);
            let mut payload = random_bytes(&mut random, len);
            // Most frames begin like a true call, so that decoding gets further than the first byte.
            if nth % 4 != 0 {
                let head =
                    [&[0, random.random_range(0..9), 0][..], &[0; 16], &[7, 1, random.random_range(0..9)]].concat();
                payload = [head, payload].concat();
            }
            if stream.write_all(&frame(&payload)).await.is_err() || nth % 10 == 0 {
                let _ = tokio::time::timeout(Duration::from_millis(1), stream.read(&mut [0; 4096])).await;
                stream = TcpStream::connect(port).await.unwrap();
            }
        }
    }
    assert_well(&mut cluster, "random frames").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlines_beyond_all_time() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    let years = |years: u64| (years * 365 * 86_400, 0);
    let deadlines = [
        (0, 0),
        years(3),
        years(10_000),
        years(1_000_000_000),
        (u64::MAX, 999_999_999),
        (u64::MAX, u32::MAX),
        (1, u32::MAX),
    ];
    for (name, port, speaks) in ports(&cluster) {
        if speaks == Speaks::Http {
            continue;
        }
        for deadline in deadlines {
            // Any method: the head is read before the message, and a short message is an error of its own.
            for method in 0..=method_of(&LeaseServiceRequest::Heartbeat { request: heartbeat() }) {
                for id in [0, u64::MAX] {
                    send(port, &call(deadline, id, &method)).await;
                    send(port, &call(deadline, id, &(method, heartbeat()))).await;
                }
            }
            // And a whole call, which the deadline alone may keep from being answered.
            send(port, &call(deadline, 1, &LeaseServiceRequest::Heartbeat { request: heartbeat() })).await;
        }
        assert_well(&mut cluster, &format!("deadlines at {name}")).await;
    }
}

fn heartbeat() -> HeartbeatRequest {
    HeartbeatRequest {
        protocol: PROTOCOL,
        agent_id: "stranger".parse().unwrap(),
        session: SessionId(1),
        cluster: None,
        test_clock: None,
        version: "x".to_owned(),
        wall: common::clock::Clock::system().wall(),
        retired: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_with_contents_that_no_agent_sends() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    let long = "x".repeat(1 << 15);
    for (name, port) in [0, 1].map(|nth| (nth, cluster.masters[nth].agent_listen)) {
        let honest = Lessee::connect(port).await.unwrap();
        let soon = || deadline_in(Duration::from_secs(30));
        // Another protocol, another cluster, a version of 32 KiB: answers, not ends.
        for version in ["", "\n\u{1b}[2J", &long] {
            let request = HeartbeatRequest { version: version.to_owned(), ..heartbeat() };
            let _ = honest.heartbeat(soon(), request).await;
        }
        for request in [
            HeartbeatRequest { protocol: u32::MAX, ..heartbeat() },
            HeartbeatRequest { cluster: Some(ClusterId(1)), ..heartbeat() },
            HeartbeatRequest { test_clock: Some("1000@0".parse().unwrap()), ..heartbeat() },
        ] {
            assert!(honest.heartbeat(soon(), request.clone()).await.unwrap().is_err(), "{request:?} was taken");
        }
        // A name that no agent may have, and a token type that is none.
        let heartbeat_number = method_of(&LeaseServiceRequest::Heartbeat { request: heartbeat() });
        for agent_id in ["", "two words", "<script>", "line\nbreak", &long] {
            let message = (heartbeat_number, PROTOCOL, agent_id, 1u128, None::<u128>, None::<(u32, i64)>, "x", 0u8);
            send(port, &call((10, 0), 1, &message)).await;
        }
        for token_type in [0u8, 1, 4, 23, 255] {
            let request = TokenRequest {
                agent_id: "stranger".parse().unwrap(),
                session: SessionId(1),
                cluster: None,
                token_type: TokenType::Uint2,
                former: Vec::new(),
            };
            let request_number = method_of(&LeaseServiceRequest::RequestToken { request });
            send(port, &call((10, 0), 1, &(request_number, "stranger", 1u128, None::<u128>, token_type, 0u8))).await;
        }
        assert_well(&mut cluster, &format!("contents at master {}", name + 1)).await;
    }
    for master in 0..2 {
        let rows = cluster.leases(master, "").await.unwrap();
        let names: Vec<_> = rows.iter().map(|row| row["agent_id"].to_string()).collect();
        assert!(names.iter().all(|name| name.contains("agent-1") || name.contains("after-")), "{names:?}");
    }
}

/// A connection to the port between the masters.
async fn peer_port(cluster: &Cluster, nth: usize) -> PeerServiceClient {
    let transport = connect(&cluster.masters[nth].peer_listen.to_string()).await.unwrap();
    PeerServiceClient::new(tarpc::client::Config::default(), transport).spawn()
}

/// Whoever proves nothing is told nothing. The connection may be closed meanwhile.
async fn told_nothing(peer: &PeerServiceClient, sealed: SealedFrame) {
    if let Ok(delivered) = peer.deliver(deadline_in(Duration::from_secs(30)), sealed).await {
        assert_eq!(delivered.answer, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strangers_messages_between_the_masters_is_not_believed() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    let before = cluster.leases(0, "agent=agent-1").await.unwrap();
    assert_eq!(before.len(), 2);
    let value = cluster.agent_status(0).await.unwrap().token("uint2").unwrap().parse().unwrap();
    let key = TokenKey { family: TokenType::Uint2.family(), value: common::token::TokenValue(value) };
    let g = common::lease::Generation(1);
    let hello = |parameters| {
        PeerMessage::Hello(Hello {
            seen: u64::MAX,
            lsn: u64::MAX,
            parameters,
            wall: WallMs(i64::MAX),
            test_clock: None,
            version: "x".repeat(1 << 12),
            answer: true,
            retired: None,
            lives: vec![Life { start: 1, mark: 1 }],
            accepted: Some(Life { start: 2, mark: 2 }),
            copied: true,
            awaits: false,
            challenge: Some(1),
            echo: Some(1),
            users: None,
        })
    };
    let parameters = |days| ClusterParameters::new(days, Default::default(), 4095).unwrap();
    // The agent's lease as if it were over: whoever believes it grants the token again.
    let closed = Lease {
        g,
        state: LeaseState::Closed,
        agent_id: "agent-1".parse().unwrap(),
        session: SessionId(1),
        token_type: TokenType::Uint2,
        from: WallMs(0),
        until: WallMs(1),
        deny: true,
        rseq: 0,
        attempt: 0,
        address: String::new(),
        granted: WallMs(0),
        renewed: WallMs(0),
    };
    let messages = [
        hello(parameters(7)),
        hello(parameters(1)),
        PeerMessage::Heartbeat {
            lsn: u64::MAX,
            wall: WallMs(i64::MIN),
            mode: Mode::Ready,
            permit: Some(WallMs(i64::MAX)),
            steady: true,
            read: WallMs(i64::MAX),
            reverted: true,
        },
        PeerMessage::Pull { exchange: 1, after: None, unmet: true, retired: 0 },
        PeerMessage::Page {
            exchange: 1,
            after: None,
            records: Vec::new(),
            proposals: Vec::new(),
            settings: Vec::new(),
            more: true,
            extents: Vec::new(),
            memory: Memory::default(),
            last: true,
        },
        PeerMessage::Close { key, g, until: WallMs(0) },
        PeerMessage::Closed { key, g, until: WallMs(i64::MAX) },
        PeerMessage::Reject { key, record: None },
        PeerMessage::NoneFree {
            agent_id: "a".parse().unwrap(),
            session: SessionId(1),
            token_type: TokenType::Uint2,
            address: String::new(),
            why: Refusal::Retry,
        },
        PeerMessage::Sync { records: vec![(key, closed)], by: None },
        PeerMessage::AskSetting {
            change: Change::Allow("203.0.113.0/24".parse().unwrap()),
            actor: Actor::new("a forged operator", "10.0.0.9"),
        },
    ];
    // The cluster's name, as any agent is told it.
    let asking = Lessee::new("asking").unwrap();
    let told = asking.heartbeat(&Lessee::connect(cluster.masters[0].agent_listen).await.unwrap()).await.unwrap();
    let truly = told.unwrap().cluster;
    for (nth, master) in [MasterId::One, MasterId::Two].into_iter().enumerate() {
        for message in &messages {
            let peer = peer_port(&cluster, nth).await;
            for (from, seal) in [
                (master.other(), Seal::Unmet { cluster: None, epoch: None }),
                (master.other(), Seal::Unmet { cluster: Some(truly), epoch: None }),
                (master.other(), Seal::Unmet { cluster: Some(truly), epoch: Some(EpochId(0)) }),
                (master.other(), Seal::Unmet { cluster: Some(ClusterId(1)), epoch: Some(EpochId(1)) }),
                (master.other(), Seal::Proved([0; 32])),
                (master, Seal::Unmet { cluster: Some(truly), epoch: None }),
            ] {
                for count in [1, 10, 300] {
                    let body =
                        Content::Messages { life: Life::default(), to: None, messages: vec![message.clone(); count] };
                    let body = bincode::DefaultOptions::new().serialize(&body).unwrap();
                    let sealed = SealedFrame { protocol: PROTOCOL, from, seal: seal.clone(), body };
                    told_nothing(&peer, sealed.clone()).await;
                    told_nothing(&peer, SealedFrame { protocol: PROTOCOL + 1, ..sealed }).await;
                }
            }
        }
        assert_well(&mut cluster, &format!("a stranger's messages to master {}", nth + 1)).await;
    }
    for master in 0..2 {
        let after = cluster.leases(master, "agent=agent-1").await.unwrap();
        let plain = |rows: &[serde_json::Value]| {
            let mut rows: Vec<_> =
                rows.iter().map(|row| ["type", "token", "state", "session", "g"].map(|f| row[f].to_string())).collect();
            rows.sort();
            rows
        };
        assert_eq!(plain(&after), plain(&before), "at master {}", master + 1);
        let whitelist = cluster.client.console(cluster.masters[master].daemon.http, "/api/whitelist").await.unwrap();
        assert!(!whitelist.text().contains("203.0.113"), "{}", whitelist.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_requests_and_slow_ones() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    let request = |speaks| match speaks {
        Speaks::Http => b"POST /uniq64?n=5 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n01234".to_vec(),
        Speaks::Rpc => call((10, 0), 1, &LeaseServiceRequest::Heartbeat { request: heartbeat() }),
    };
    // Half, then gone.
    for (_, port, speaks) in ports(&cluster) {
        let bytes = request(speaks);
        for end in (0..bytes.len()).step_by(3) {
            drop(send(port, &bytes[..end]).await);
        }
    }
    assert_well(&mut cluster, "half requests").await;

    // Half, and never the rest; and others a byte at a time.
    let mut held = Vec::new();
    for (_, port, speaks) in ports(&cluster) {
        let bytes = request(speaks);
        for nth in 0..40 {
            held.extend(send(port, &bytes[..bytes.len() * nth / 40]).await);
        }
        for _ in 0..10 {
            let (mut stream, bytes) = (TcpStream::connect(port).await.unwrap(), bytes.clone());
            tokio::spawn(async move {
                for byte in bytes {
                    if stream.write_all(&[byte]).await.is_err() {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            });
        }
    }
    for nth in 0..5 {
        assert_well(&mut cluster, &format!("slow requests, look {nth}")).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    drop(held);
    assert_well(&mut cluster, "slow requests gone").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_say_nothing_do_not_keep_others_out_for_ever() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    for (name, port, speaks) in ports(&cluster) {
        let began: &[u8] = match speaks {
            Speaks::Http => b"GET /uniq64 HTT",
            Speaks::Rpc => &[0, 0],
        };
        let mut held = Vec::new();
        let silent = if name.contains("peer") { SILENT_PEERS } else { SILENT };
        for nth in 0..silent {
            let mut stream = TcpStream::connect(port).await.unwrap();
            if nth % 2 == 0 {
                // The port between the masters may have closed it already.
                let _ = stream.write_all(began).await;
            }
            held.push(stream);
        }
        // Whoever had a connection must make a new one, among all the silent ones.
        for nth in 0..2 {
            let daemon = &mut cluster.master(nth).unwrap().daemon;
            if daemon.name != name.split(' ').next().unwrap() {
                daemon.kill_9();
                daemon.start().unwrap();
            }
        }
        assert_well(&mut cluster, &format!("{silent} silent callers at {name}")).await;
        drop(held);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_that_is_out_of_proportion() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    let long = "a".repeat(200_000);
    let headers: String = (0..5_000).map(|nth| format!("X-{nth}: {nth}\r\n")).collect();
    let get = |target: &str, more: &str| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n").into_bytes();
    let requests = [
        get(&format!("/{long}"), ""),
        get(&format!("/uniq64?{long}={long}"), ""),
        get("/uniq64", &format!("X-Long: {long}\r\n")),
        get("/uniq64", &headers),
        get("/uniq64", &format!("Accept: {}\r\n", "text/plain,".repeat(5_000))),
        get("/../../../../etc/passwd", ""),
        get("/%2e%2e/%2e%2e/%00%ff%zz", ""),
        get("/explain/%F0%9F%92%A9%00", ""),
        get("/string?biz=%FF%FE&custom=%00", ""),
        b"POST /uniq64 HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999\r\n\r\n".to_vec(),
        b"POST /uniq64 HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n".to_vec(),
        b"POST /uniq64 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec(),
        b"GET /uniq64 HTTP/9.9\r\n\r\n".to_vec(),
        get("/uniq64", "").repeat(2_000),
        get("/uniq64?n=100000", "").repeat(20),
    ];
    for (name, port, speaks) in ports(&cluster) {
        if speaks == Speaks::Http {
            let mut held = Vec::new();
            for request in &requests {
                // Several at once, and nobody reads their answers.
                for _ in 0..5 {
                    held.extend(send(port, request).await);
                }
            }
            assert_well(&mut cluster, &format!("HTTP out of proportion at {name}")).await;
        }
    }

    // A body where none belongs, larger than any that does.
    for (_, port, speaks) in ports(&cluster) {
        if speaks == Speaks::Http {
            for (method, path) in
                [("POST", "uniq64"), ("PUT", "generators/x"), ("POST", "login"), ("POST", "api/leases")]
            {
                let _ = cluster.client.ask(method, &format!("http://{port}/{path}"), vec![b'x'; 20 << 20]).await;
            }
        }
    }
    assert_well(&mut cluster, "large bodies").await;
}
