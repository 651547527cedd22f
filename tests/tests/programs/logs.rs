//! A log that cannot be written, or that nobody reads, costs lines and nothing else; and strangers cannot fill it.

use common::parameters::MasterId;
use net::rpc::PROTOCOL;
use net::rpc::peer::{PeerServiceClient, Seal, SealedFrame};
use net::rpc::transport::{connect, deadline_in};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use tests::cluster::{Cluster, until};
use tests::lessee::CALL_MAX;
use tests::programs::Daemon;
use tests::wire::call;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The bytes that a pipe takes (pipe(7)).
const PIPE_LEN: usize = 65_536;
/// Connections by each of which a stranger causes a line.
const STRANGERS: usize = 300;
/// The most lines that so many may cause: a burst, what comes in meanwhile, and counts.
const LINES_MAX: usize = 60;

/// A connection that the whitelist refuses: the master closes it, and at once, since this caller says that it asks nothing.
async fn stranger(port: SocketAddr) {
    let mut stream = TcpStream::connect(port).await.unwrap();
    let _ = stream.shutdown().await;
    let _ = stream.read(&mut [0; 1]).await;
}

/// Both masters admit nobody, so that whoever connects for a lease is refused with a line in the log.
fn refuse_all(cluster: &mut Cluster) {
    for nth in [0, 1] {
        cluster.master(nth).unwrap().daemon.set("--allow", "198.51.100.0/24");
    }
}

/// Each way in which a log cannot be written, with what must be kept open meanwhile.
fn broken() -> [(&'static str, File, Option<std::io::PipeReader>); 3] {
    let gone = {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        File::from(OwnedFd::from(writer))
    };
    let (reader, mut writer) = std::io::pipe().unwrap();
    // As much as it takes, without anybody who reads.
    writer.write_all(&[b'\n'; PIPE_LEN]).unwrap();
    [
        ("whose reader is gone", gone, None),
        ("on a full disk", File::options().write(true).open("/dev/full").unwrap(), None),
        ("that nobody reads", File::from(OwnedFd::from(writer)), Some(reader)),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_cannot_be_written_costs_lines_and_nothing_else() {
    for (what, stderr, open) in broken() {
        let mut cluster = Cluster::new().unwrap();
        cluster.add_agent(&[]).unwrap();
        for daemon in cluster.daemons() {
            daemon.stderr_to(stderr.try_clone().unwrap());
            daemon.start().unwrap();
        }
        cluster.all_ready().await.unwrap_or_else(|e| panic!("a log {what}: {e:#}"));
        let https: Vec<SocketAddr> = cluster.daemons().map(|daemon| daemon.http).collect();
        // Behind a pipe that nobody reads they wait, as many as the queue takes.
        let failing = if open.is_none() { https } else { Vec::new() };
        for http in failing {
            let dropped = || async {
                (cluster.client.metric(http, "uniq_log_lines_dropped_total").await.unwrap() > 0).then_some(())
            };
            until("lines are dropped", dropped).await.unwrap_or_else(|e| panic!("a log {what}, {http}: {e:#}"));
        }
        for kind in ["uniq64", "uniq96", "string?biz=SHOP&custom=07"] {
            assert_eq!(cluster.ask_agent(0, kind).await.unwrap().status, 200, "a log {what}");
        }
        for daemon in cluster.daemons() {
            assert!(daemon.running(), "a log {what}: {} ended", daemon.name);
        }
        let daemons: Vec<&mut Daemon> = cluster.daemons().collect();
        for daemon in daemons {
            let (status, _) = daemon.terminate().await.unwrap();
            assert!(status.success(), "a log {what}: {} ended with {status}", daemon.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_callers_close_no_port_although_the_log_cannot_be_written() {
    for (what, stderr, _open) in broken() {
        let mut cluster = Cluster::new().unwrap();
        refuse_all(&mut cluster);
        for nth in [0, 1] {
            let daemon = &mut cluster.master(nth).unwrap().daemon;
            daemon.stderr_to(stderr.try_clone().unwrap());
            daemon.start().unwrap();
        }
        cluster.all_ready().await.unwrap();
        for _ in 0..30 {
            stranger(cluster.masters[0].agent_listen).await;
        }
        // The port is still served: what is refused there is closed, not left waiting.
        let closed = tokio::time::timeout(tests::cluster::PATIENCE, stranger(cluster.masters[0].agent_listen)).await;
        assert!(closed.is_ok(), "a log {what}: the agents' port is not served any more");
        assert!(cluster.master(0).unwrap().daemon.running(), "a log {what}");
    }
}

/// A request as tarpc frames it, with a deadline beyond all time.
fn hostile_deadline() -> Vec<u8> {
    call((u64::MAX, 0), 1, &())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_cause_few_lines_and_are_counted() {
    let mut cluster = Cluster::new().unwrap();
    refuse_all(&mut cluster);
    for nth in [0, 1] {
        let daemon = &mut cluster.master(nth).unwrap().daemon;
        daemon.env("RUST_BACKTRACE", "1");
        daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    let before = cluster.masters[0].daemon.log_text().lines().count();
    for _ in 0..STRANGERS {
        stranger(cluster.masters[0].agent_listen).await;
        // The port between the masters asks for no address.
        let mut peer = TcpStream::connect(cluster.masters[0].peer_listen).await.unwrap();
        peer.write_all(&hostile_deadline()).await.unwrap();
        let _ = peer.read(&mut [0; 1]).await;
    }
    // An ever new reason not to believe somebody is an ever new line.
    let transport = connect(&cluster.masters[0].peer_listen.to_string()).await.unwrap();
    let peer = PeerServiceClient::new(tarpc::client::Config::default(), transport).spawn();
    for nth in 0..STRANGERS {
        let protocol = PROTOCOL + 1 + u32::try_from(nth).unwrap();
        let seal = Seal::Proved([0; 32]);
        let frame = SealedFrame { protocol, from: MasterId::Two, seal, body: Vec::new() };
        let _ = peer.deliver(deadline_in(CALL_MAX), frame).await;
    }
    let http = cluster.masters[0].daemon.http;
    let left_out = cluster.client.metric(http, "uniq_log_lines_left_out_total").await.unwrap();
    assert!(left_out as usize > STRANGERS - LINES_MAX, "{left_out} left out");
    assert_eq!(cluster.client.metric(http, "uniq_log_lines_dropped_total").await.unwrap(), 0);
    let (status, _) = cluster.master(0).unwrap().daemon.terminate().await.unwrap();
    assert!(status.success(), "{status}");
    let text = cluster.masters[0].daemon.log_text();
    let lines = text.lines().count() - before;
    println!(
        "{STRANGERS} refused callers, as many hostile deadlines and foreign protocols: {lines} lines, {} bytes",
        text.len()
    );
    assert!(lines < LINES_MAX, "{lines} lines\n{text}");
    assert!(!text.contains("panicked"), "{text}");
    // The count of what was left out is told at the end at the latest; more may have been left out since it was read.
    let told = text.lines().filter(|line| line.contains("were left out"));
    let told: u64 =
        told.filter_map(|line| line.split("lines=").nth(1)?.split_whitespace().next()?.parse::<u64>().ok()).sum();
    assert!(told >= left_out, "{told} told, {left_out} counted\n{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_signals_end_nobody_and_sighup_reads_the_level_anew() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    let dir = cluster.dir().to_owned();
    let files: Vec<_> = cluster.daemons().map(|daemon| dir.join(format!("{}.toml", daemon.name))).collect();
    let mut daemons: Vec<&mut Daemon> = cluster.daemons().collect();
    for (daemon, file) in daemons.iter_mut().zip(&files) {
        daemon.terminate().await.unwrap();
        std::fs::write(file, "log = 'info'\n").unwrap();
        daemon.args.extend(["--config".to_owned(), file.to_str().unwrap().to_owned()]);
        daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    for (daemon, file) in cluster.daemons().zip(&files) {
        std::fs::write(file, "log = 'info,net=trace'\n").unwrap();
        let pid = Pid::from_raw(i32::try_from(daemon.pid().unwrap()).unwrap()).unwrap();
        for signal in [Signal::USR1, Signal::USR2, Signal::HUP] {
            kill_process(pid, signal).unwrap();
        }
    }
    for nth in 0..3 {
        let daemons: Vec<_> = cluster.daemons().collect();
        let daemon = &*daemons[nth];
        let heard = || async {
            let text = daemon.log_text();
            let words = ["SIGUSR1", "SIGUSR2", "level=info,net=trace"];
            words.iter().all(|word| text.contains(word)).then_some(())
        };
        until("the signals are heard", heard).await.unwrap_or_else(|e| panic!("{e:#}\n{}", daemon.log_tail(20)));
    }
    cluster.all_ready().await.unwrap();
    for daemon in cluster.daemons() {
        assert!(daemon.running() && daemon.terminate().await.unwrap().0.success());
    }
}
