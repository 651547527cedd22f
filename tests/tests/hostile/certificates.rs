//! Every port of a cluster with certificates: who belongs there is served, and nobody else, whatever he shows.

use common::parameters::MasterId;
use common::token::TokenType;
use futures::StreamExt as _;
use net::rpc::lease::{LeaseServiceClient, Refusal};
use net::rpc::transport::connect_as;
use net::tls::{Admits, Files, Tls};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tests::certificates::{Authority, ask, get, metric, secure};
use tests::cluster::{Cluster, PATIENCE, until};
use tests::lessee::Lessee;
use tests::operator::{join_with, peer_lost};
use tests::programs::{self, Daemon};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use uniq_client::{Client, Definition, Namespace, SequenceSpec, Settings, Slot, TlsFiles};
use uniq_embed::{Embedded, UniqGenerator as _};

/// The time within which a port ends a connection that it does not admit.
const ENDED: Duration = Duration::from_secs(10);
/// The time within which a port has ended a connection on which nothing is asked: each of them does after a minute or less.
const BEGUN_MAX: Duration = Duration::from_secs(120);
/// The roles of the programs of a cluster with two agents.
pub(crate) const ROLES: [&str; 4] =
    ["uniq://master/1", "uniq://master/2", "uniq://agent/agent-1", "uniq://agent/agent-2"];

/// A cluster of two agents in which everything speaks TLS, started, and the CA of its certificates.
struct Secured {
    cluster: Cluster,
    ca: Authority,
    /// With the certificate of a client.
    client: Tls,
}

impl Secured {
    async fn start(flags: &[&str]) -> Self {
        let mut cluster = Cluster::new().unwrap();
        for _ in 0..2 {
            cluster.add_agent(flags).unwrap();
        }
        let ca = Authority::new(&cluster.dir().join("ca")).unwrap();
        ca.issue("revoked", &[ROLES[2]]).unwrap();
        std::fs::write(ca.ca(), [ca.pem(), &ca.revoked(&["revoked"]).unwrap()].concat()).unwrap();
        for (nth, (daemon, role)) in cluster.daemons().zip(ROLES).enumerate() {
            secure(daemon, &ca.issue(&format!("program-{nth}"), &[role]).unwrap());
            daemon.start().unwrap();
        }
        let client = ca.tls("client", "uniq://client/orders").unwrap();
        let secured = Self { cluster, ca, client };
        for nth in 0..2 {
            let ready = || async { secured.ask(nth, "/readyz").await.ok()?.contains(" 200 ").then_some(()) };
            until("an agent with TLS is ready", ready).await.unwrap();
        }
        secured
    }

    fn http(&self, agent: usize) -> SocketAddr {
        self.cluster.agents[agent].daemon.http
    }

    async fn ask(&self, agent: usize, path: &str) -> anyhow::Result<String> {
        get(&self.client, Admits::Agents, self.http(agent), path).await
    }

    async fn metric(&self, name: &str) -> u64 {
        metric(&self.ask(0, "/metrics").await.unwrap(), name)
    }

    fn settings(&self, scheme: &str) -> Settings {
        let agents = &self.cluster.agents;
        let at = agents.iter().map(|agent| if scheme == "https" { agent.daemon.http } else { agent.rpc_listen });
        let at: Vec<_> = at.map(|at| format!("{scheme}://{at}")).collect();
        let mut settings = Settings::new(at.iter().map(String::as_str)).unwrap();
        settings.tls = Some(self.files("client"));
        settings
    }

    fn files(&self, name: &str) -> TlsFiles {
        let dir = self.cluster.dir().join("ca");
        let own = ["pem", "key"].map(|end| dir.join(format!("{name}.{end}")));
        TlsFiles { ca: dir.join("ca.pem"), own: Some(own.into()) }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_belongs_there_is_served_over_tls_alone() {
    let mut secured = Secured::start(&["--renew-interval", "1s"]).await;
    // Each protocol, with numbers of keys whose section the other agent may serve.
    for scheme in ["https", "tarpcs"] {
        let client = Client::new(secured.settings(scheme)).unwrap();
        let name = format!("inbox-{scheme}").parse().unwrap();
        assert!(client.uniq64("default").await.unwrap() > 0, "{scheme}");
        let spec = SequenceSpec { keys_per_section: Some(1_000), ..SequenceSpec::default() };
        let definition = Definition::Sequence(spec);
        client.define_generator(Namespace::define(name, &definition).unwrap()).await.unwrap();
        let name = format!("inbox-{scheme}");
        for section in 0..8_u32 {
            assert!(client.sequence(&name, Slot(section * 1_000 + 1)).await.unwrap() > 0, "{scheme}");
        }
    }
    // Answers of many records come whole.
    let many = secured.ask(0, "/uniq64?n=100000").await.unwrap();
    assert_eq!(many.split_once("\r\n\r\n").unwrap().1.lines().count(), 100_000);
    // A console, without a certificate of the operator's.
    let anybody = Tls::load(Files { ca: secured.ca.ca(), own: None }).unwrap();
    let console = secured.cluster.masters[0].daemon.http;
    let login = get(&anybody, Admits::Masters, console, "/login").await.unwrap();
    assert!(login.contains(" 200 "), "{login}");
    // Plain TCP is no way to any port.
    let masters = &secured.cluster.masters;
    let ports =
        [secured.http(0), secured.cluster.agents[0].rpc_listen, masters[0].agent_listen, masters[0].peer_listen];
    for port in ports.into_iter().chain([console]) {
        let mut io = TcpStream::connect(port).await.unwrap();
        io.write_all(b"GET /uniq64 HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(ENDED, io.read_to_end(&mut answer)).await;
        assert!(ended.is_ok() && !answer.windows(4).any(|four| four == b"HTTP"), "{port}: {answer:?}");
    }
    // Neither is half a handshake, nor one that is never begun: both are ended as whoever asks for nothing is.
    let mut held = Vec::new();
    for port in ports.into_iter().chain([console]) {
        for begun in [&b""[..], &[22, 3, 1, 2, 0, 1, 0, 1]] {
            let mut io = TcpStream::connect(port).await.unwrap();
            io.write_all(begun).await.unwrap();
            held.push((port, io));
        }
    }
    for (port, mut io) in held {
        let ended = tokio::time::timeout(BEGUN_MAX, io.read(&mut [0; 1])).await;
        assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{port}: {ended:?}");
    }
    // A master that starts again is found, and one is enough for renewals.
    secured.cluster.masters[1].daemon.kill_9();
    secured.cluster.masters[1].daemon.start().unwrap();
    let ready = || async { secured.ask(1, "/readyz").await.ok()?.contains(" 200 ").then_some(()) };
    until("all goes on", ready).await.unwrap();
    assert!(secured.ask(1, "/uniq64").await.unwrap().contains(" 200 "));
}

/// A handshake with any certificate, also one that our programs would not show, and what is read after it.
async fn shown(own: Option<&Files>, roots: &Path, at: SocketAddr) -> std::io::Result<usize> {
    shown_by(rustls::ALL_VERSIONS, own, roots, at).await
}

/// The same by one of these versions of TLS.
async fn shown_by(
    versions: &[&'static SupportedProtocolVersion],
    own: Option<&Files>,
    roots: &Path,
    at: SocketAddr,
) -> std::io::Result<usize> {
    let mut trusted = RootCertStore::empty();
    trusted.add(CertificateDer::from_pem_file(roots).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
    let builder = builder.with_root_certificates(trusted);
    let config = match own.and_then(|files| files.own.as_ref()) {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let chain = CertificateDer::pem_file_iter(cert).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap()).unwrap()
        }
    };
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let io = TcpStream::connect(at).await?;
    let mut io = TlsConnector::from(Arc::new(config)).connect(name, io).await?;
    // Whoever was refused may hear of it at the first write, but is told why by what can still be read.
    let _ = io.write_all(b"GET /uniq64 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    let mut byte = [0; 1];
    tokio::time::timeout(ENDED, io.read(&mut byte)).await?
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_else_is_served_whatever_he_shows() {
    let secured = Secured::start(&[]).await;
    let (ca, dir) = (&secured.ca, secured.cluster.dir());
    let other = Authority::new(&dir.join("other-ca")).unwrap();
    let [master, agent, client] = ["uniq://master/2", "uniq://agent/agent-1", "uniq://client/orders"];
    // What belongs at none of the ports.
    let nowhere = [
        ("no certificate", None),
        ("of another CA", Some(other.issue("agent", &[agent]).unwrap())),
        ("expired", Some(ca.issue_for("expired", &[agent], (2020, 2021)).unwrap())),
        ("not yet valid", Some(ca.issue_for("early", &[agent], (2090, 2100)).unwrap())),
        (
            "revoked",
            Some(Files {
                ca: ca.ca(),
                own: Some(["pem", "key"].map(|end| dir.join("ca/revoked").with_extension(end)).into()),
            }),
        ),
        ("without a role", Some(ca.issue("nobody", &[]).unwrap())),
        ("of two roles", Some(ca.issue("both", &[agent, client]).unwrap())),
        ("of an unknown role", Some(ca.issue("unknown", &["uniq://operator/x"]).unwrap())),
    ];
    let roles = [master, agent, client, "uniq://master/1"];
    let roles = roles.map(|role| (role, Some(ca.issue(&role.replace('/', "-"), &[role]).unwrap())));
    let masters = &secured.cluster.masters;
    let agents = &secured.cluster.agents;
    // Each port of an agent and of master 1, with the roles that it admits.
    let ports: [(&str, SocketAddr, &[&str]); 4] = [
        ("an agent's HTTP", agents[0].daemon.http, &[agent, client]),
        ("an agent's RPC", agents[0].rpc_listen, &[agent, client]),
        ("a master's port for agents", masters[0].agent_listen, &[agent]),
        ("a master's port for the other", masters[0].peer_listen, &[master]),
    ];
    for (port, at, admitted) in ports {
        for (what, own) in nowhere.iter().chain(&roles) {
            let was = secured.metric("uniq_tls_handshake_failures_total").await;
            let read = shown(own.as_ref(), &ca.ca(), at).await;
            if admitted.contains(what) {
                // HTTP answers; RPC ends a connection that sends nonsense, without a word.
                let ended = read.as_ref().is_err_and(|why| why.kind() == ErrorKind::UnexpectedEof);
                assert!(read.is_ok() || ended, "{port}, {what}: {read:?}");
                continue;
            }
            let why = read.expect_err(&format!("{port} was served: {what}"));
            assert!(why.to_string().contains("alert"), "{port}, {what}: {why}");
            if port.starts_with("an agent") {
                let counted = secured.metric("uniq_tls_handshake_failures_total").await;
                assert_eq!(counted, was + 1, "{port}, {what}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_shows_no_certificate_mints_where_that_is_allowed_and_registers_no_names() {
    let secured = Secured::start(&["--open-mint"]).await;
    let (ca, http, rpc) = (&secured.ca, secured.http(0), secured.cluster.agents[0].rpc_listen);
    let anybody = Tls::load(Files { ca: ca.ca(), own: None }).unwrap();
    let billing = ca.tls("billing", "uniq://client/billing").unwrap();
    let orders = r#"{"kind":"uniq64","scope":"own","plugins":[{"plugin":"quota","by":"caller","per_day":3}]}"#;
    let register = async |tls: &Tls, path: &str| {
        ask(tls, Admits::Agents, http, &format!("PUT /generators/{path}"), orders).await.unwrap()
    };
    for path in ["orders", "orders?dry-run"] {
        let refused = register(&anybody, path).await;
        assert!(refused.contains(" 401 ") && refused.contains("\"login_required\""), "{path}: {refused}");
    }
    // The same over RPC.
    let settings = |own: Option<TlsFiles>| {
        let mut settings = Settings::new([format!("tarpcs://{rpc}").as_str()]).unwrap();
        settings.tls = Some(own.unwrap_or(TlsFiles { ca: ca.ca(), own: None }));
        settings
    };
    let namespace = || Namespace::define("by-rpc".parse().unwrap(), &Definition::default()).unwrap();
    let client = Client::new(settings(None)).unwrap();
    assert!(client.uniq64("default").await.unwrap() > 0);
    let refused = client.define_generator(namespace()).await.unwrap_err().to_string();
    assert!(refused.contains("shows a certificate"), "{refused}");
    Client::new(settings(Some(secured.files("client")))).unwrap().define_generator(namespace()).await.unwrap();
    // Whoever has one is known by it: two callers of one address have an account each, and so has the address.
    assert!(register(&billing, "orders").await.contains(" 201 "));
    for (who, tls) in [("billing", &billing), ("orders", &secured.client), ("nobody", &anybody)] {
        for taken in 0..4 {
            let got = get(tls, Admits::Agents, http, "/uniq64/orders").await.unwrap();
            assert!(got.contains(if taken < 3 { " 200 " } else { " 429 " }), "{who}, {taken}: {got}");
        }
    }
    // A certificate that is none of ours is worse than none.
    let other = Authority::new(&secured.cluster.dir().join("other-ca")).unwrap();
    for own in [other.issue("client", &["uniq://client/orders"]), ca.issue("nobody", &[]), ca.issue("two", &[ROLES[1]])]
    {
        for at in [http, rpc] {
            let why = shown(Some(own.as_ref().unwrap()), &ca.ca(), at).await.expect_err("it was served");
            assert!(why.to_string().contains("alert"), "{why}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_without_tls_1_3_are_served_where_the_program_is_told_so() {
    let secured = Secured::start(&["--tls-1-2"]).await;
    let (ca, revoked) = (&secured.ca, secured.cluster.dir().join("ca/revoked"));
    let revoked = Files { ca: ca.ca(), own: Some((revoked.with_extension("pem"), revoked.with_extension("key"))) };
    let [client, agent] =
        [("old", "uniq://client/old"), ("agent", ROLES[2])].map(|(name, role)| ca.issue(name, &[role]).unwrap());
    let (http, master) = (secured.http(0), secured.cluster.masters[0].agent_listen);
    for versions in [&[&TLS12][..], &[&TLS13], rustls::ALL_VERSIONS] {
        assert_eq!(shown_by(versions, Some(&client), &ca.ca(), http).await.unwrap(), 1, "{versions:?}");
        for own in [None, Some(&revoked)] {
            shown_by(versions, own, &ca.ca(), http).await.expect_err("it was served");
        }
    }
    let refused = shown_by(&[&TLS12], Some(&agent), &ca.ca(), master).await.unwrap_err();
    assert!(refused.to_string().contains("ProtocolVersion"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_speaks_for_itself_alone() {
    let secured = Secured::start(&[]).await;
    let mallory = secured.ca.tls("mallory", "uniq://agent/mallory").unwrap();
    for master in &secured.cluster.masters {
        let lessee = Lessee::new("agent-1").unwrap();
        let transport = connect_as(master.agent_listen, &mallory, Admits::Masters).await.unwrap();
        let connection = LeaseServiceClient::new(tarpc::client::Config::default(), transport).spawn();
        let said = [
            lessee.heartbeat(&connection).await.unwrap().map(drop),
            lessee.request(&connection, TokenType::Uint2).await.unwrap().map(drop),
        ];
        for said in said {
            let refused = said.expect_err("it spoke for another agent");
            assert!(matches!(&refused, Refusal::WrongCertificate { agent_id } if agent_id.as_str() == "agent-1"));
            assert!(refused.to_string().contains("uniq://agent/agent-1"), "{refused}");
        }
        // For itself it may.
        let own = Lessee::new("mallory").unwrap();
        own.heartbeat(&connection).await.unwrap().unwrap();
    }
    // Whoever is at a master's address has to be one.
    let wrong = connect_as::<(), ()>(secured.http(0), &mallory, Admits::Masters).await.err().unwrap();
    assert!(wrong.to_string().contains("uniq://agent/agent-1: expected a master"), "{wrong}");
    let peer = Admits::Master(MasterId::Two);
    let wrong = connect_as::<(), ()>(secured.cluster.masters[0].peer_listen, &mallory, peer).await.err().unwrap();
    assert!(wrong.to_string().contains("uniq://master/1: expected master 2"), "{wrong}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_and_cas_are_exchanged_without_a_failed_request() {
    let mut secured = Secured::start(&["--renew-interval", "1s"]).await;
    let mut settings = secured.settings("https");
    // Each request over a connection of its own would hide nothing; those that are kept open are the usual case.
    settings.rest = Duration::ZERO;
    let client = Client::new(settings).unwrap();
    let load = tokio::spawn(async move {
        let mut given = 0_u64;
        loop {
            client.uniq64("default").await.unwrap_or_else(|e| panic!("after {given} IDs: {e}"));
            given += 1;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    let reread = |daemon: &Daemon| daemon.log_text().matches("the certificates were read again").count();
    let dir = secured.cluster.dir().join("ca");
    let new = Authority::new(&secured.cluster.dir().join("new-ca")).unwrap();
    let both = format!("{}{}", secured.ca.pem(), new.pem());
    let (orders, lost) = ("uniq://client/orders", new.issue("lost", &["uniq://client/lost"]).unwrap());
    let last = [new.pem(), &new.revoked(&["lost"]).unwrap()].concat();
    for (round, cas) in [(1, &both), (2, &both), (3, &last)] {
        if round == 2 {
            let names = ["program-0", "program-1", "program-2", "program-3", "client"];
            for (name, role) in names.into_iter().zip(ROLES.into_iter().chain([orders])) {
                let made = new.issue(name, &[role]).unwrap().own.unwrap();
                // A moment in which the one is new and the other old is borne: the pair is used once it fits.
                std::fs::copy(made.1, dir.join(format!("{name}.key"))).unwrap();
                std::fs::copy(made.0, dir.join(format!("{name}.pem"))).unwrap();
            }
        } else {
            std::fs::write(dir.join("ca.pem"), cas).unwrap();
        }
        for daemon in secured.cluster.daemons() {
            let daemon = &*daemon;
            let taken = || async { (reread(daemon) >= round).then_some(()) };
            until("the files are read again", taken).await.unwrap();
            // With the list that was there at the start.
            assert!(daemon.log_text().contains("is not revoked any more by the file of the CAs"));
        }
    }
    assert!(!load.is_finished(), "{:?}", load.await);
    load.abort();
    // Who was issued by the old CA, or revoked by the new one, is a stranger by now, and everybody else is at home.
    for (own, alert) in [(secured.ca.issue("old", &[orders]).unwrap(), "UnknownCA"), (lost, "CertificateRevoked")] {
        let why = shown(Some(&own), &new.ca(), secured.http(0)).await.unwrap_err().to_string();
        assert!(why.contains(alert), "{why}");
    }
    let client = new.tls("client", orders).unwrap();
    for nth in 0..2 {
        assert!(get(&client, Admits::Agents, secured.http(nth), "/uniq64").await.unwrap().contains(" 200 "));
    }
    // Files that cannot be used change nothing, and are told: those of another agent, and what is no certificate.
    let daemon = &secured.cluster.agents[0].daemon;
    let told = async |what: &str| {
        until(what, || async { daemon.log_text().contains(what).then_some(()) }).await.unwrap();
    };
    for end in ["key", "pem"] {
        std::fs::copy(dir.join(format!("program-3.{end}")), dir.join(format!("program-2.{end}"))).unwrap();
    }
    told("is of uniq://agent/agent-2, and this is uniq://agent/agent-1").await;
    std::fs::write(dir.join("program-2.pem"), "nonsense").unwrap();
    told("holds no certificate in PEM form").await;
    let page = || async { get(&client, Admits::Agents, secured.http(0), "/metrics").await.ok() };
    assert!(!page().await.unwrap().contains("uniq_tls_reload_failures_total 0"));
    assert!(page().await.unwrap().contains("uniq_tls_certificate_end_seconds 4102444800"));
    // Whoever is revoked himself tells it, and follows the list all the same.
    let late = new.issue("late", &[orders]).unwrap();
    let list = new.revoked(&["lost", "late", "program-3"]).unwrap();
    std::fs::write(dir.join("ca.pem"), [new.pem(), &list].concat()).unwrap();
    let daemon = &secured.cluster.agents[1].daemon;
    until("it was revoked", || async { daemon.log_text().contains("it was revoked").then_some(()) }).await.unwrap();
    let why = shown(Some(&late), &new.ca(), secured.http(1)).await.unwrap_err().to_string();
    assert!(why.contains("CertificateRevoked"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_master_is_replaced_by_who_shows_its_certificate() {
    let mut secured = Secured::start(&["--renew-interval", "1s"]).await;
    let status = secured.ask(0, "/status").await.unwrap();
    let tokens = |status: &str| status.split("\"token\"").skip(1).map(|rest| rest[..40].to_owned()).collect::<Vec<_>>();
    secured.cluster.masters[1].daemon.kill_9();
    std::fs::remove_dir_all(&secured.cluster.masters[1].data_dir).unwrap();
    secured.cluster.masters[0].daemon.terminate().await.unwrap();
    let token = peer_lost(&secured.cluster.masters[0]).unwrap();
    secured.cluster.masters[0].daemon.start().unwrap();
    let console = secured.cluster.masters[0].daemon.http;
    let alive = || async { get(&secured.client, Admits::Masters, console, "/healthz").await.ok().map(drop) };
    until("the survivor is back", alive).await.unwrap();
    let (survivor, lost) = (secured.cluster.masters[0].peer_listen, &secured.cluster.masters[1]);
    let flags = |name: &str| {
        let own = ["pem", "key"].map(|end| secured.ca.ca().with_file_name(format!("{name}.{end}")));
        let [cert, key, ca] = [&own[0], &own[1], &secured.ca.ca()].map(|file| file.to_str().unwrap().to_owned());
        ["--tls-cert".to_owned(), cert, "--tls-key".to_owned(), key, "--tls-ca".to_owned(), ca]
    };
    // Whoever has the token alone is not the lost master: without a certificate, or with one of another role.
    for (flags, why) in [(Vec::new(), "with --tls-cert"), (flags("program-2").to_vec(), "uniq://agent/agent-1")] {
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        let refused = join_with(&token, lost, survivor, &flags).unwrap();
        assert!(refused.status == Some(1) && refused.err.contains(why), "{refused:?}");
        assert!(!lost.data_dir.exists(), "something was written");
    }
    let flags = flags("program-1");
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let joined = join_with(&token, lost, survivor, &flags).unwrap();
    assert_eq!(joined.status, Some(0), "{joined:?}");
    secured.cluster.masters[1].daemon.start().unwrap();
    let ready = || async { secured.ask(1, "/readyz").await.ok()?.contains(" 200 ").then_some(()) };
    until("all goes on", ready).await.unwrap();
    assert_eq!(tokens(&secured.ask(0, "/status").await.unwrap()), tokens(&status), "leases go on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_with_an_agent_of_its_own_shows_that_agents_certificate() {
    let secured = Secured::start(&[]).await;
    let file = secured.cluster.dir().join("shop.serial");
    let args = ["--format", "--serial-file", file.to_str().unwrap()];
    assert_eq!(programs::run(&programs::generator().unwrap(), &args, Path::new("/")).unwrap().status, Some(0));
    let start = |tls: Option<Files>| {
        let masters = secured.cluster.masters.iter().map(|master| master.agent_listen.to_string());
        let mut settings = uniq_embed::Settings::new(&file, masters, "shop-1".parse().unwrap());
        settings.tls = tls;
        Embedded::start(settings)
    };
    let another = secured.ca.issue("shop-2", &["uniq://agent/shop-2"]).unwrap();
    let refused = start(Some(another)).map(drop).unwrap_err().to_string();
    assert!(refused.contains("is of uniq://agent/shop-2, and this is uniq://agent/shop-1"), "{refused}");
    let shop = start(Some(secured.ca.issue("shop-1", &["uniq://agent/shop-1"]).unwrap())).unwrap();
    shop.wait_ready(PATIENCE).unwrap();
    let name = Namespace::define("shop".parse().unwrap(), &Definition::default()).unwrap();
    let ids = shop.create_uniq_generator(name).unwrap();
    assert_ne!(ids.get_uniq64().unwrap(), ids.get_uniq64().unwrap());
    assert!(secured.ask(0, "/uniq64/shop").await.unwrap().contains(" 200 "), "the name is everybody's");
}

/// A way to `to` that keeps what callers send.
async fn recorded(to: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (at, sent) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let keep = Arc::clone(&sent);
    tokio::spawn(async move {
        let (mut near, _) = listener.accept().await.unwrap();
        let mut far = TcpStream::connect(to).await.unwrap();
        let ((mut from, mut back), (mut answers, mut on)) = (near.split(), far.split());
        let forward = async {
            let mut buffer = [0; 4_096];
            while let Ok(len @ 1..) = from.read(&mut buffer).await {
                keep.lock().unwrap().extend_from_slice(&buffer[..len]);
                on.write_all(&buffer[..len]).await.unwrap();
            }
        };
        let _ = tokio::join!(forward, tokio::io::copy(&mut answers, &mut back));
    });
    (at, sent)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_heard_on_the_network_has_no_effect_when_it_is_sent_again() {
    // Each costs a handshake: ten thousand take minutes, and are scripts/prove.sh's.
    let times = std::env::var("UNIQ_REPLAYS").map_or(200, |times| times.parse().unwrap());
    let secured = Secured::start(&[]).await;
    let master = secured.cluster.masters[0].agent_listen;
    let tls = secured.ca.tls("lessee", "uniq://agent/lessee").unwrap();
    let (way, sent) = recorded(master).await;
    let connection = async |at| {
        let transport = connect_as(at, &tls, Admits::Masters).await.unwrap();
        LeaseServiceClient::new(tarpc::client::Config::default(), transport).spawn()
    };
    // A grant and a renewal, as somebody between the two hears them.
    let (lessee, heard) = (Lessee::new("lessee").unwrap(), connection(way).await);
    lessee.heartbeat(&heard).await.unwrap().unwrap();
    let grant = lessee.request(&heard, TokenType::Uint2).await.unwrap().unwrap();
    lessee.renew(&heard, &grant, 1).await.unwrap().unwrap();
    drop(heard);
    let sent = sent.lock().unwrap().clone();
    let direct = connection(master).await;
    lessee.heartbeat(&direct).await.unwrap().unwrap();
    let leases = async || lessee.listed(&direct).await.unwrap();
    let before = leases().await;
    let sent = &sent;
    let again = futures::stream::iter(0..times).for_each_concurrent(16, |_| async move {
        let mut io = TcpStream::connect(master).await.unwrap();
        let _ = io.write_all(sent).await;
        let mut answer = Vec::new();
        let _ = io.read_to_end(&mut answer).await;
        // The master's part of a handshake, and then an alert: nothing that a call is answered by.
        assert!(answer.len() < 4_096, "{} bytes", answer.len());
    });
    again.await;
    assert_eq!(leases().await, before);
}

#[tokio::test]
async fn certificates_that_cannot_be_used_end_the_start_with_the_remedy() {
    let mut cluster = Cluster::new().unwrap();
    cluster.add_agent(&[]).unwrap();
    let cluster_dir = cluster.dir().to_owned();
    let ca = Authority::new(&cluster_dir.join("ca")).unwrap();
    let other = Authority::new(&cluster_dir.join("other-ca")).unwrap();
    let good = ca.issue("good", &["uniq://agent/agent-1"]).unwrap();
    let list = ca.revoked(&["good"]).unwrap();
    let cas = |name: &str, parts: &[&str]| {
        let file = cluster_dir.join(name);
        std::fs::write(&file, parts.concat()).unwrap();
        file
    };
    let revoked = cas("revoked.pem", &[ca.pem(), &list]);
    let torn = cas("torn.pem", &[ca.pem(), "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"]);
    let glued = cas("glued.pem", &[ca.pem().trim_end(), &list]);
    let twice = cas("twice.pem", &[ca.pem(), &list, &ca.revoked(&[]).unwrap()]);
    let namesakes = cas("namesakes.pem", &[ca.pem(), other.pem(), &list]);
    let with = |ca: &Path, cert: &Files, key: &Files| {
        let own = (cert.own.clone().unwrap().0, key.own.clone().unwrap().1);
        Files { ca: ca.to_owned(), own: Some(own) }
    };
    let wrong = [
        (
            ca.issue("another", &["uniq://agent/agent-2"]).unwrap(),
            "is of uniq://agent/agent-2, and this is uniq://agent/agent-1",
        ),
        (ca.issue("nobody", &[]).unwrap(), "is of nobody"),
        (ca.issue_for("expired", &["uniq://agent/agent-1"], (2020, 2021)).unwrap(), "expired"),
        (with(&other.ca(), &good, &good), "would be refused: it was issued by another CA"),
        (with(&revoked, &good, &good), "would be refused: it was revoked"),
        (with(&torn, &good, &good), "is revoked cannot be used"),
        (with(&glued, &good, &good), "its first line has to stand alone"),
        (with(&twice, &good, &good), "there are two of one CA"),
        (with(&namesakes, &good, &good), "two CAs have the name"),
        (with(&ca.ca(), &good, &ca.issue("second", &["uniq://agent/agent-1"]).unwrap()), "was issued for"),
        (with(Path::new("/nowhere/ca.pem"), &good, &good), "cannot read /nowhere/ca.pem"),
        (with(&good.own.clone().unwrap().1, &good, &good), "holds no certificate"),
    ];
    for (files, remedy) in wrong {
        let daemon = &mut cluster.agent(0).unwrap().daemon;
        secure(daemon, &files);
        daemon.start().unwrap();
        let mut ended = None;
        for _ in 0..1_000 {
            ended = daemon.ended();
            if ended.is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(ended.and_then(|status| status.code()), Some(1), "{remedy}");
        let log = daemon.log_text();
        assert!(log.contains(remedy) && !log.contains("panicked"), "{remedy}: {log}");
    }
}

#[test]
fn the_script_makes_certificates_that_programs_take() {
    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("tls");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/certificates.sh");
    let run = |args: &[&str]| {
        let ran = std::process::Command::new(&script).args(args).output().unwrap();
        (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
    };
    let folder = made.to_str().unwrap();
    let (status, said) = run(&[folder, "master/1@10.0.0.1", "agent/orders-1@ids.example.com,::1", "client/billing"]);
    assert_eq!(status, Some(0), "{said}");
    // Made anew by the same CA.
    assert_eq!(run(&["--days", "7", folder, "client/billing"]).0, Some(0));
    for (name, role) in [
        ("master-1", "uniq://master/1"),
        ("agent-orders-1", "uniq://agent/orders-1"),
        ("client-billing", "uniq://client/billing"),
    ] {
        let own = Some((made.join(format!("{name}.pem")), made.join(format!("{name}.key"))));
        let tls = Tls::load(Files { ca: made.join("ca.pem"), own }).unwrap();
        assert_eq!(tls.role().unwrap().to_string(), role);
    }
    // What was made for a role is refused, also what has been replaced since; the others are not, nor is what is made later.
    let load = |name: &str| {
        let own = Some((made.join(format!("{name}.pem")), made.join(format!("{name}.key"))));
        Tls::load(Files { ca: made.join("ca.pem"), own })
    };
    for end in ["pem", "key"] {
        std::fs::copy(made.join(format!("client-billing.{end}")), made.join(format!("stolen.{end}"))).unwrap();
    }
    assert_eq!(run(&[folder, "client/billing"]).0, Some(0));
    // Certificates are dated in whole seconds, and what is made in the second of its revocation is believed.
    std::thread::sleep(Duration::from_millis(1_100));
    for (role, name, left) in [
        ("client/billing", "client-billing", vec!["master-1", "agent-orders-1"]),
        ("agent/orders-1", "agent-orders-1", vec!["master-1"]),
        // Once more changes nothing.
        ("client/billing", "client-billing", vec!["master-1"]),
    ] {
        let (status, said) = run(&["--revoke", folder, role]);
        assert_eq!(status, Some(0), "{said}");
        for revoked in [name, "stolen"] {
            assert!(load(revoked).unwrap_err().to_string().contains("it was revoked"), "{revoked}");
        }
        left.into_iter().for_each(|left| drop(load(left).unwrap()));
    }
    assert_eq!(run(&[folder, "client/billing"]).0, Some(0));
    load("client-billing").unwrap();
    assert!(load("stolen").unwrap_err().to_string().contains("it was revoked"));
    let cas = std::fs::read_to_string(made.join("ca.pem")).unwrap();
    assert_eq!(cas.lines().filter(|line| line.starts_with("Revoked: ")).count(), 2, "{cas}");
    std::fs::write(made.join("ca.pem"), format!("revoked: client/billing yesterday\n{cas}")).unwrap();
    assert!(load("client-billing").unwrap_err().to_string().contains("ROLE TIME"));
    std::fs::write(made.join("ca.pem"), cas).unwrap();
    let nowhere = dir.path().join("nowhere");
    for (args, remedy) in [
        (&["--revoke", folder, "nobody"][..], "is no role"),
        (&["--revoke", nowhere.to_str().unwrap(), "client/billing"], "there is no CA"),
        (&["--revoke", folder], "for whom"),
        (&[folder, "operator/x"], "is no role"),
        (&[folder], "for whom"),
        (&["--days", "0", folder, "client/x"], "a number of days"),
    ] {
        let (status, said) = run(args);
        assert!(status == Some(2) && said.contains(remedy), "{args:?}: {said}");
    }
    assert!(!nowhere.exists());
}
