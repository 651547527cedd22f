//! An agent at a Unix socket: programs of its machine ask there without TCP and without certificates, and are known by their user.

use net::tls::Files;
use rustix::fs::{Uid, chown};
use rustix::thread::set_thread_uid;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use tests::certificates::Authority;
use tests::cluster::{Cluster, until, until_status};
use tests::ports::Ports;
use tests::programs::{self, Daemon};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

/// Asks at a socket and gives the whole answer.
async fn ask(socket: &Path, what: &str, body: &str) -> std::io::Result<String> {
    let mut io = UnixStream::connect(socket).await?;
    let head = format!("{what} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    io.write_all(format!("{head}Content-Type: application/json\r\n\r\n{body}").as_bytes()).await?;
    let mut got = String::new();
    io.read_to_string(&mut got).await?;
    Ok(got)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_of_the_machine_ask_at_a_socket_and_are_known_by_their_user() {
    let mut cluster = Cluster::start(1, &["--threads", "2"]).await.unwrap();
    let client = cluster.client.clone();
    let (socket, past) = (cluster.dir().join("agent.sock"), cluster.dir().join("past"));
    let agent = cluster.agent(0).unwrap();
    agent.daemon.terminate().await.unwrap();
    let listen = format!("{},unix:{}", agent.daemon.http, socket.display());
    agent.daemon.set("--history-dir", past.to_str().unwrap());
    agent.daemon.set("--http-listen", &listen);
    agent.daemon.env("UNIQ_SOCKET_MODE", "640");
    agent.daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    let made = std::fs::symlink_metadata(&socket).unwrap();
    assert_eq!(made.mode() & 0o777, 0o640);

    // The front and the router, one ID and many, by two users and by an address: each has an account of its own.
    let body = r#"{"kind":"uniq64","plugins":[{"plugin":"quota","per_day":3,"by":"caller"},{"plugin":"history"}]}"#;
    assert!(ask(&socket, "PUT /generators/orders", body).await.unwrap().contains(" 201 "));
    let kept = ask(&socket, "GET /uniq64/orders?n=2", "").await.unwrap();
    assert!(kept.contains(" 200 "), "{kept}");
    let mut io = UnixStream::connect(&socket).await.unwrap();
    io.write_all("GET /uniq64/orders HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2).as_bytes()).await.unwrap();
    let mut got = Vec::new();
    while !String::from_utf8_lossy(&got).contains("quota_exceeded") {
        assert!(io.read_buf(&mut got).await.unwrap() > 0, "{}", String::from_utf8_lossy(&got));
    }
    assert!(String::from_utf8_lossy(&got).starts_with("HTTP/1.1 200 OK"));
    assert_eq!(cluster.ask_agent(0, "uniq64/orders?n=3").await.unwrap().status, 200);
    if rustix::process::geteuid() == Uid::ROOT {
        let (nobody, at) = (Uid::from_raw(65_534), socket.clone());
        chown(&socket, Some(nobody), None).unwrap();
        std::fs::set_permissions(cluster.dir(), std::fs::Permissions::from_mode(0o755)).unwrap();
        // The kernel knows a user for each thread, and tells the agent of the one that connected.
        let asked = std::thread::spawn(move || {
            set_thread_uid(nobody).unwrap();
            let mut io = std::os::unix::net::UnixStream::connect(at).unwrap();
            io.write_all(b"GET /uniq64/orders?n=3 HTTP/1.0\r\n\r\n").unwrap();
            std::io::read_to_string(io).unwrap()
        });
        let got = asked.join().unwrap();
        assert!(got.contains(" 200 "), "{got}");
    }
    let id = kept.split("\r\n\r\n").nth(1).unwrap().lines().next().unwrap();
    let user = format!("uid:{}", rustix::process::geteuid().as_raw());
    let found = || async {
        let args = ["--history", id, "--history-dir", past.to_str().unwrap()];
        let ended = programs::run(&programs::generator().unwrap(), &args, cluster.dir()).unwrap();
        ended.out.contains(&user).then_some(())
    };
    until("history names the user", found).await.unwrap();

    // What a killed run has left makes way for the next one; at a clean stop it goes.
    let agent = cluster.agent(0).unwrap();
    agent.daemon.kill_9();
    assert!(socket.exists());
    agent.daemon.start().unwrap();
    until_status(&client, &mut agent.daemon, "/readyz", 200).await.unwrap();
    assert!(ask(&socket, "GET /uniq64", "").await.unwrap().contains(" 200 "));
    let at = format!("unix:{}", socket.display());
    let second = ["--dev", "--http-listen", &at, "--rpc-listen", "127.0.0.1:0"];
    let second = programs::run(&programs::generator().unwrap(), &second, agent.dir.as_path()).unwrap();
    assert!(second.status == Some(1) && second.err.contains("somebody listens there already"), "{second:?}");
    assert!(ask(&socket, "GET /uniq64", "").await.unwrap().contains(" 200 "));
    agent.daemon.terminate().await.unwrap();
    assert!(!socket.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_a_socket_alone_nobody_needs_a_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let (ca, mut ports) = (Authority::new(&dir.path().join("ca")).unwrap(), Ports::take().unwrap());
    let Files { own, ca } = ca.issue("agent", &["uniq://agent/agent-1"]).unwrap();
    let ((cert, key), rpc) = (own.unwrap(), ports.port().unwrap());
    let socket = dir.path().join("agent.sock");
    let config = dir.path().join("agent.toml");
    let text = [
        format!("http_listen = ['unix:{}']\nrpc_listen = '{rpc}'\nagent_id = 'agent-1'\ndev = true", socket.display()),
        format!("tls_cert = {cert:?}\ntls_key = {key:?}\ntls_ca = {ca:?}\nsocket_mode = '600'"),
    ];
    std::fs::write(&config, text.join("\n")).unwrap();
    let args = ["--config", config.to_str().unwrap()].map(str::to_owned).to_vec();
    let mut daemon = Daemon::new("dev", programs::generator().unwrap(), args, rpc, dir.path().join("log"));
    daemon.start().unwrap();
    let ready = || async { ask(&socket, "GET /readyz", "").await.ok()?.contains(" 200 ").then_some(()) };
    until("the agent is ready", ready).await.unwrap();
    for (what, body, status) in [
        ("PUT /generators/inbox", r#"{"kind":"sequence"}"#, " 201 "),
        ("GET /sequence/inbox/customer-1", "", " 200 "),
        ("GET /uniq96?n=3&format=uri", "", " 200 "),
        ("GET /openapi.json", "", " 200 "),
    ] {
        let got = ask(&socket, what, body).await.unwrap();
        assert!(got.contains(status), "{what}: {got}");
    }
    daemon.terminate().await.unwrap();
    assert!(!socket.exists());
}
