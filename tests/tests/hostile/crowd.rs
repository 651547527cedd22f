//! A crowd at an agent's TLS port that asks for nothing: callers with a certificate who are idle or slow, and handshakes that are half
//! done. A caller who works is served beside them, memory stays bounded, and what one crowd took is enough for
//! the next.
//!
//! `scripts/strangers.sh` runs it with ten thousand of them.

use super::invitations::Invited;
use net::tls::{Admits, ClientStream, Tls};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tests::certificates::get;
use tests::cluster::until;
use tests::gentle::Gentle;
use tests::variables;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Callers in the crowd if nothing is said.
const CROWD: u64 = 900;
/// Callers that come at the same time.
const AT_ONCE: usize = 16;
/// Memory that one of them takes of the agent at most, in bytes: `docs/operate/tls.md` says so.
const EACH_MAX: u64 = 80 << 10;
/// Memory that an agent takes besides, in bytes.
const MORE_MAX: u64 = 32 << 20;
/// Between two bytes of who is slow.
const SLOW: Duration = Duration::from_secs(2);
/// The time for which somebody works alone, and at least beside the crowd.
const WORKS: Duration = Duration::from_secs(3);
/// The beginning of a greeting that never goes on.
const HALF: &[u8] = &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];

async fn connected(tls: &Tls, at: SocketAddr) -> io::Result<ClientStream> {
    tls.connect(TcpStream::connect(at).await?, Admits::Agents).await
}

/// One of the crowd, by its number: idle, with half a greeting, or slow. It stays until the agent ends it, or it is dropped.
async fn one(nth: u64, tls: Tls, at: SocketAddr) -> io::Result<()> {
    match nth % 3 {
        0 => {
            let mut io = connected(&tls, at).await?;
            io.read(&mut [0; 1]).await.map(drop)
        }
        1 => {
            let mut io = TcpStream::connect(at).await?;
            io.write_all(HALF).await?;
            io.read(&mut [0; 1]).await.map(drop)
        }
        _ => {
            let mut io = connected(&tls, at).await?;
            for byte in b"GET /uniq64 HTTP/1.1\r\nHost: localhost\r\n".iter().cycle() {
                io.write_u8(*byte).await?;
                tokio::time::sleep(SLOW).await;
            }
            Ok(())
        }
    }
}

/// A crowd of so many, as they come to that port.
async fn came(crowd: u64, tls: &Tls, at: SocketAddr) -> JoinSet<io::Result<()>> {
    let (places, mut all) = (Arc::new(tokio::sync::Semaphore::new(AT_ONCE)), JoinSet::new());
    for nth in 0..crowd {
        let (place, tls) = (Arc::clone(&places).acquire_owned().await.unwrap(), tls.clone());
        all.spawn(async move {
            let stays = one(nth, tls, at);
            tokio::pin!(stays);
            // Its handshake is over by then, or it has none.
            let _ = tokio::time::timeout(Duration::from_millis(50), &mut stays).await;
            drop(place);
            stays.await
        });
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_that_asks_for_nothing_keeps_nobody_from_being_served() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let crowd = variables::number_or("UNIQ_CROWD", CROWD);
    let mut invited = Invited::begin(&[]).await;
    assert_eq!(invited.format_second(&invited.invite(0, &["master"])).status, Some(0));
    invited.cluster.masters[1].daemon.start().unwrap();
    let second = invited.cluster.masters[1].agent_listen;
    until("master 2 listens", || async { TcpStream::connect(second).await.ok() }).await.unwrap();
    let agent = invited.add_agent(&invited.invite(0, &["agent"]), &[]);
    let [good, others] = ["good", "others"].map(|name| invited.folder(name));
    for folder in [&good, &others] {
        net::enroll::redeem(&invited.invite(0, &["client"]), folder).await.unwrap();
    }
    let [good, others] = [good, others].map(|folder| Tls::load(folder.files()).unwrap());
    invited.becomes_ready(agent, &good).await;
    let daemon = &invited.cluster.agents[agent].daemon;
    let (http, memory) = (daemon.http, || daemon.memory().unwrap());
    let gentle = Gentle::start(&good, http, u64::MAX).await;
    tokio::time::sleep(WORKS).await;
    println!("alone {}", gentle.stop().await.unwrap());
    let (before, mut peaks) = (memory(), Vec::new());
    for _ in 0..2 {
        let gentle = Gentle::start(&good, http, u64::MAX).await;
        let began = Instant::now();
        let mut all = came(crowd, &others, http).await;
        let came = began.elapsed();
        tokio::time::sleep(WORKS).await;
        let peak = memory();
        // A newcomer finds a place, too.
        assert!(get(&good, Admits::Agents, http, "/uniq64").await.unwrap().contains(" 200 "));
        println!("beside {crowd} strangers, who came in {came:?}, {}", gentle.stop().await.unwrap());
        all.shutdown().await;
        println!("memory: {} KiB before, {} KiB at most, {} KiB after", before >> 10, peak >> 10, memory() >> 10);
        assert!(peak < before + crowd * EACH_MAX + MORE_MAX, "{peak} after {before}");
        peaks.push(peak);
    }
    // What an allocator keeps is used again.
    assert!(peaks[1] < peaks[0] + MORE_MAX, "{peaks:?}");
}
