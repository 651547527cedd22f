//! A cluster that gets all its certificates by invitations, and everybody who should get none by one.

use net::enroll::{self, Ca, EnrollError, Invitation, Secret, TlsFolder};
use net::rpc::enroll::{EnrollBy, EnrollRefusal, EnrollRequest};
use net::rpc::lease::{LeaseServiceClient, NamespacesRequest, Refusal};
use net::rpc::transport::{connect_to_enroll, deadline_in};
use net::tls::{Admits, Files, Role, Tls};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tests::certificates::{Authority, ask_with, get, metric};
use tests::client::ADMIN_PASSWORD;
use tests::cluster::{Cluster, until};
use tests::programs::{self, Ended};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use uniq_client::{Client, RedeemError, Settings, TlsFiles};

/// The life of a certificate that is renewed several times while a test looks.
const SHORT_LIFE: &str = "15s";

/// A cluster whose master 1 has made a CA, and runs.
pub(crate) struct Invited {
    pub(crate) cluster: Cluster,
}

impl Invited {
    pub(crate) async fn begin(flags: &[(&str, &str)]) -> Self {
        let mut cluster = Cluster::new().unwrap();
        for master in &mut cluster.masters {
            let folder = master.data_dir.join("tls");
            master.daemon.set("--tls-dir", folder.to_str().unwrap());
            flags.iter().for_each(|(flag, value)| master.daemon.set(flag, value));
        }
        // The one that was made with the store has the usual life.
        std::fs::remove_file(cluster.masters[0].data_dir.join("tls/own.pem")).unwrap();
        cluster.masters[0].daemon.start().unwrap();
        let begun = Self { cluster };
        let at = begun.cluster.masters[0].agent_listen;
        until("master 1 listens", || async { tokio::net::TcpStream::connect(at).await.ok() }).await.unwrap();
        begun
    }

    /// Runs `uniq_master --invite` beside a master, as it runs.
    pub(crate) fn try_invite(&self, master: usize, args: &[&str]) -> Ended {
        let daemon = &self.cluster.masters[master].daemon;
        let args: Vec<&str> =
            daemon.args.iter().map(String::as_str).chain(["--invite"]).chain(args.iter().copied()).collect();
        programs::run(&programs::master().unwrap(), &args, self.cluster.dir()).unwrap()
    }

    pub(crate) fn invite(&self, master: usize, args: &[&str]) -> Invitation {
        let ended = self.try_invite(master, args);
        assert_eq!(ended.status, Some(0), "{ended:?}");
        ended.out.parse().unwrap()
    }

    /// A file with that invitation.
    fn file(&self, invitation: &Invitation) -> PathBuf {
        let path = self.cluster.dir().join("invitation");
        std::fs::write(&path, format!("{invitation}\n")).unwrap();
        path
    }

    fn generator(&self, args: &[&str]) -> Ended {
        programs::run(&programs::generator().unwrap(), args, self.cluster.dir()).unwrap()
    }

    /// Formats master 2 with that invitation, in the place of its store.
    pub(crate) fn format_second(&self, invitation: &Invitation) -> Ended {
        let dir = &self.cluster.masters[1].data_dir;
        let _ = std::fs::remove_dir_all(dir);
        let file = self.file(invitation);
        #[rustfmt::skip]
        let args = [
            "--format", "--id", "2", "--data-dir", dir.to_str().unwrap(), "--invitation", file.to_str().unwrap(),
            "--certificate-life", SHORT_LIFE,
        ];
        programs::run(&programs::master().unwrap(), &args, self.cluster.dir()).unwrap()
    }

    /// Adds an agent whose serial file is made with that invitation, and starts it. Its name is that of its certificate.
    pub(crate) fn add_agent(&mut self, invitation: &Invitation, flags: &[&str]) -> usize {
        let dir = self.cluster.dir().join(format!("invited-{}", self.cluster.agents.len() + 1));
        std::fs::create_dir(&dir).unwrap();
        let nth = self.cluster.add_agent_in(dir, "unused", flags).unwrap();
        let (serial_file, file) = (self.cluster.agents[nth].serial_file(), self.file(invitation));
        let [serial_file, file] = [serial_file, file].map(|path| path.to_str().unwrap().to_owned());
        let ended = self.generator(&["--format", "--serial-file", &serial_file, "--invitation", &file]);
        assert_eq!(ended.status, Some(0), "{ended:?}");
        let daemon = &mut self.cluster.agents[nth].daemon;
        daemon.unset("--agent-id");
        daemon.start().unwrap();
        nth
    }

    pub(crate) async fn redeem(&self, invitation: &Invitation) -> Result<Role, EnrollError> {
        enroll::redeem(invitation, &self.folder("redeemed")).await
    }

    pub(crate) fn folder(&self, name: &str) -> TlsFolder {
        TlsFolder::new(self.cluster.dir().join(name))
    }

    /// Waits until an agent is ready, as it says to whoever has this certificate.
    pub(crate) async fn becomes_ready(&self, agent: usize, tls: &Tls) {
        let http = self.cluster.agents[agent].daemon.http;
        let ready = || async { get(tls, Admits::Agents, http, "/readyz").await.ok()?.contains(" 200 ").then_some(()) };
        until("an invited agent is ready", ready).await.unwrap();
    }

    pub(crate) async fn counted(&self, tls: &Tls, name: &str) -> u64 {
        let page = get(tls, Admits::Masters, self.cluster.masters[0].daemon.http, "/metrics").await.unwrap();
        metric(&page, name)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_gets_its_certificates_by_invitations_and_renews_them_without_a_failed_request() {
    let mut invited = Invited::begin(&[("--certificate-life", SHORT_LIFE)]).await;
    let second = invited.format_second(&invited.invite(0, &["master"]));
    assert!(second.status == Some(0) && second.err.contains("got the cluster's CA"), "{second:?}");
    invited.cluster.masters[1].daemon.start().unwrap();
    // One whose name is drawn, invited by either master, and one with a name and an address.
    let at = invited.cluster.masters[1].agent_listen;
    until("master 2 listens", || async { tokio::net::TcpStream::connect(at).await.ok() }).await.unwrap();
    let drawn = invited.add_agent(&invited.invite(1, &["agent"]), &["--renew-interval", "1s"]);
    let named = invited.add_agent(&invited.invite(0, &["agent/orders-1@ids.example.com"]), &["--renew-interval", "1s"]);
    let file = invited.file(&invited.invite(0, &["client/billing"]));
    let folder = invited.folder("billing");
    let [path, file] = [folder.path(), &file].map(|path| path.to_str().unwrap().to_owned());
    let client = invited.generator(&["--tls-dir", &path, "--invitation", &file]);
    assert!(client.status == Some(0) && client.err.contains("uniq://client/billing"), "{client:?}");
    let tls = Tls::load(folder.files()).unwrap();
    for nth in [drawn, named] {
        invited.becomes_ready(nth, &tls).await;
    }
    let own = TlsFolder::new(PathBuf::from(format!("{}.tls", invited.cluster.agents[named].serial_file().display())));
    assert_eq!(own.role(), Role::of_path("agent/orders-1"));
    assert!(own.names().contains(&"ids.example.com".to_owned()), "{:?}", own.names());

    // An application that calls by the crate needs nobody to renew its certificate.
    let paid = invited.folder("payments");
    let by_invitation = invited.invite(0, &["client/payments"]).to_string();
    let masters: Vec<_> = invited.cluster.masters.iter().map(|it| it.agent_listen.to_string()).collect();
    let files = uniq_client::redeem(&by_invitation, paid.path()).await.unwrap();
    assert!(matches!(uniq_client::redeem(&by_invitation, paid.path()).await, Err(RedeemError::Failed(_))));
    let payments = client_of(&invited, named, files, &masters);
    let first = std::fs::read(paid.path().join("own.pem")).unwrap();

    // Each request has a connection of its own, so each meets the certificates of its moment.
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let load = {
        let (stop, asked, tls) = (Arc::clone(&stop), Arc::clone(&asked), tls.clone());
        let ports: Vec<_> = [drawn, named].map(|nth| invited.cluster.agents[nth].daemon.http).into();
        async move {
            while !stop.load(Relaxed) {
                payments.uniq64("default").await.unwrap();
                for http in &ports {
                    let answer = get(&tls, Admits::Agents, *http, "/uniq64").await.unwrap();
                    assert!(answer.contains(" 200 "), "{answer}");
                    asked.fetch_add(1, Relaxed);
                }
            }
        }
    };
    let load = tokio::spawn(load);
    let ends = async |nth: usize| {
        let page = get(&tls, Admits::Agents, invited.cluster.agents[nth].daemon.http, "/metrics").await.unwrap();
        metric(&page, "uniq_tls_certificate_end_seconds")
    };
    let master_ends = async || invited.counted(&tls, "uniq_tls_certificate_end_seconds").await;
    let before = [ends(drawn).await, ends(named).await, master_ends().await];
    // The client's own, which no agent renews.
    let renewed = || async {
        let ended = invited.generator(&["--renew-certificate", "--tls-dir", &path, "--masters", &masters.join(",")]);
        assert_eq!(ended.status, Some(0), "{ended:?}");
        tls.look().await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = [ends(drawn).await, ends(named).await, master_ends().await];
        before.iter().zip(now).all(|(before, now)| *before < now).then_some(())
    };
    until("all certificates are renewed", renewed).await.unwrap();
    let drawn = TlsFolder::new(PathBuf::from(format!("{}.tls", invited.cluster.agents[drawn].serial_file().display())));
    exchange_the_ca(&invited, [&own, &drawn, &paid, &folder], &tls, &masters.join(",")).await;
    stop.store(true, Relaxed);
    load.await.unwrap();
    assert_ne!(std::fs::read(paid.path().join("own.pem")).unwrap(), first);
    let newer = Files { ca: invited.folder("newer").cas_file(), ..paid.files() };
    assert!(Tls::load(newer).is_ok(), "it follows the CA");
    assert!(asked.load(Relaxed) > 0);
}

/// A client of one agent, which renews its certificate.
pub(crate) fn client_of(invited: &Invited, nth: usize, files: TlsFiles, masters: &[String]) -> Client {
    let agent = format!("https://{}", invited.cluster.agents[nth].daemon.http);
    let mut settings = Settings::new([agent.as_str()]).unwrap();
    (settings.tls, settings.masters) = (Some(files), masters.to_vec());
    Client::new(settings).unwrap()
}

/// Exchanges the CA as the page on TLS says, while everybody asks.
async fn exchange_the_ca(invited: &Invited, folders: [&TlsFolder; 4], tls: &Tls, masters: &str) {
    let [.., client] = folders;
    let kept: Vec<_> =
        invited.cluster.masters.iter().map(|master| TlsFolder::new(master.data_dir.join("tls"))).collect();
    let renew_client = async || {
        // A role gets so many certificates within the life of one.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let path = client.path().to_str().unwrap();
        let ended = invited.generator(&["--renew-certificate", "--tls-dir", path, "--masters", masters]);
        assert_eq!(ended.status, Some(0), "{ended:?}");
        tls.look().await.unwrap();
    };
    let newer = Ca::make(&invited.folder("newer")).unwrap();
    let follow = async |cas: String| {
        kept.iter().for_each(|kept| kept.save_cas(&cas).unwrap());
        let follows = |folder: &TlsFolder| std::fs::read_to_string(folder.cas_file()).unwrap() == cas;
        let followed = || async {
            renew_client().await;
            folders.into_iter().all(follows).then_some(())
        };
        until("everybody follows the CAs", followed).await.unwrap();
    };
    let older = std::fs::read_to_string(kept[0].cas_file()).unwrap();
    follow(format!("{older}{}", newer.cas())).await;
    kept.iter().for_each(|kept| kept.save_ca_key(&newer.key()).unwrap());
    let is_by_newer = |folder: &TlsFolder| {
        let files = Files { ca: invited.folder("newer").cas_file(), ..folder.files() };
        Tls::load(files).is_ok()
    };
    let exchanged = || async {
        renew_client().await;
        kept.iter().chain(folders).all(is_by_newer).then_some(())
    };
    until("all certificates are of the newer CA", exchanged).await.unwrap();
    follow(newer.cas().to_owned()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_gets_all_that_it_mints_with_by_the_crate() {
    let mut invited = Invited::begin(&[]).await;
    let second = invited.format_second(&invited.invite(0, &["master"]));
    assert_eq!(second.status, Some(0), "{second:?}");
    invited.cluster.masters[1].daemon.start().unwrap();
    let masters: Vec<_> = invited.cluster.masters.iter().map(|it| it.agent_listen.to_string()).collect();
    let [agent, client] = ["agent/orders-1", "client/billing"].map(|role| invited.invite(0, &[role]).to_string());
    let [serial_file, folder] = ["application.serial", "application.tls"].map(|name| invited.cluster.dir().join(name));
    let id = tokio::task::spawn_blocking(move || {
        use uniq_embed::{Embedded, RedeemError, SerialFileError, Settings, UniqGenerator as _, format, redeem};
        format(&serial_file).unwrap();
        assert!(matches!(format(&serial_file), Err(SerialFileError::Exists(_))), "a file that is there stays");
        assert!(matches!(redeem(&client, &folder), Err(RedeemError::NotForThis(_))));
        let (agent_id, files) = redeem(&agent, &folder).unwrap();
        assert_eq!(agent_id.as_str(), "orders-1");
        let mut settings = Settings::new(serial_file, masters, agent_id);
        settings.tls = Some(files);
        let agent = Embedded::start(settings).unwrap();
        agent.wait_ready(Duration::from_secs(60)).unwrap();
        agent.get_uniq_generator("default").unwrap().get_uniq64().unwrap()
    });
    assert!(id.await.unwrap() > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_gets_a_certificate_who_was_not_invited() {
    let invited = Invited::begin(&[]).await;
    let refused = |ended: Result<Role, EnrollError>| match ended {
        Err(EnrollError::Refused(why)) => why,
        other => panic!("{other:?}"),
    };
    // Used once, and again.
    let once = invited.invite(0, &["client/billing"]);
    assert_eq!(invited.redeem(&once).await.unwrap(), Role::of_path("client/billing").unwrap());
    assert_eq!(refused(invited.redeem(&once).await), EnrollRefusal::Unknown);
    let tls = Tls::load(invited.folder("redeemed").files()).unwrap();
    let issued = invited.counted(&tls, "uniq_master_certificates_issued_total").await;
    let count = invited.counted(&tls, "uniq_master_certificates_refused_total").await;
    assert_eq!((issued, count), (1, 1));
    // Several programs, and one more.
    let twice = invited.invite(0, &["agent", "--invite-uses", "2"]);
    let names = [invited.redeem(&twice).await.unwrap(), invited.redeem(&twice).await.unwrap()];
    assert!(names[0] != names[1]);
    assert_eq!(refused(invited.redeem(&twice).await), EnrollRefusal::Unknown);
    // Altered: of another role, another secret; and after its end.
    let mut other = invited.invite(0, &["client/billing"]);
    other.invited = "client/payments".parse().unwrap();
    assert_eq!(refused(invited.redeem(&other).await), EnrollRefusal::Unknown);
    let mut other = invited.invite(0, &["agent/orders-1"]);
    other.secret = Secret::Drawn([1; 32]);
    assert_eq!(refused(invited.redeem(&other).await), EnrollRefusal::Unknown);
    let late = invited.invite(0, &["agent/orders-1"]);
    for entry in std::fs::read_dir(invited.cluster.masters[0].data_dir.join("tls/invitations")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().enumerate().map(|(nth, line)| if nth == 1 { "1" } else { line }).collect();
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    }
    assert_eq!(refused(invited.redeem(&late).await), EnrollRefusal::Ended);
    // Another CA than the one that is there; and somebody between, with a certificate of his own CA.
    let good = invited.invite(0, &["client/billing"]);
    let mut other = good.clone();
    other.ca[0] ^= 1;
    assert!(matches!(invited.redeem(&other).await, Err(EnrollError::Unasked { .. })));
    let mut between = good.clone();
    between.at = man_in_the_middle(&invited.cluster).await;
    assert!(matches!(invited.redeem(&between).await, Err(EnrollError::Unasked { .. })));
    assert!(invited.redeem(&good).await.is_ok(), "nothing of it was used up");
    // For another role than the one who comes with it.
    let second = invited.format_second(&invited.invite(0, &["agent/orders-1"]));
    assert!(second.status == Some(1) && second.err.contains("this invitation is for agent/orders-1"), "{second:?}");
    assert!(!invited.cluster.masters[1].data_dir.join("ledger").exists());
    let master = invited.redeem(&invited.invite(0, &["master"])).await;
    assert!(matches!(&master, Err(EnrollError::Unusable { .. })), "{master:?}");
    // Who comes by mistake uses nothing up.
    let [serial_file, folder] = ["mistaken", "client"].map(|name| invited.cluster.dir().join(name));
    let [serial_file, folder] = [&serial_file, &folder].map(|path| path.to_str().unwrap().to_owned());
    for (role, flags, why) in [
        ("client/billing", &["--format"][..], "an application gets its certificate by --tls-dir"),
        ("client/billing", &[], "an application gets its certificate by --tls-dir"),
        ("master", &["--format"], "give it to uniq_master"),
        ("agent/orders-1", &["--format", "--agent-id", "orders-2"], "--agent-id is orders-2"),
        ("agent", &["--format", "--agent-id", "orders-2"], "invite agent/orders-2"),
    ] {
        let invitation = invited.invite(0, &[role]);
        let file = invited.file(&invitation);
        let args = [flags, &["--serial-file", &serial_file, "--invitation", file.to_str().unwrap()]].concat();
        let ended = invited.generator(&args);
        assert!(ended.status == Some(1) && ended.err.contains(why), "{role}: {ended:?}");
        if role == "client/billing" {
            let ended = invited.generator(&["--tls-dir", &folder, "--invitation", file.to_str().unwrap()]);
            assert_eq!(ended.status, Some(0), "it was used up: {ended:?}");
        }
    }
    let line = invited.invite(0, &["client"]).to_string();
    let shown = invited.generator(&["--tls-dir", &folder, "--invitation", &line]);
    assert!(shown.status == Some(1) && !shown.err.contains("secret="), "{shown:?}");
    // Who came for a certificate gets nothing else; a key that is none and names of somebody else's get none.
    who_came_gets_nothing_else(&invited, &tls).await;
    // A master without a CA invites nobody, and neither does one that speaks plain TCP.
    let second = invited.try_invite(1, &["agent"]);
    assert!(second.status == Some(1) && second.err.contains("issues no certificates"), "{second:?}");
    let args = [
        "--invite",
        "agent",
        "--peer",
        "127.0.0.1:1",
        "--data-dir",
        invited.cluster.masters[0].data_dir.to_str().unwrap(),
    ];
    let plain = programs::run(&programs::master().unwrap(), &args, invited.cluster.dir()).unwrap();
    assert!(plain.status == Some(1) && plain.err.contains("speaks plain TCP"), "{plain:?}");
}

/// An admin at master 1's console, by a login.
pub(crate) struct Console {
    tls: Tls,
    at: SocketAddr,
    headers: String,
}

impl Console {
    pub(crate) async fn log_in(invited: &Invited, tls: &Tls) -> Self {
        let at = invited.cluster.masters[0].daemon.http;
        let header = "Content-Type: application/x-www-form-urlencoded\r\n";
        let login = format!("user=admin&password={ADMIN_PASSWORD}");
        let answer = ask_with(tls, Admits::Masters, at, ("POST /login", header), &login).await.unwrap();
        let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        let cookie = cookie.split(';').next().unwrap();
        let mut console = Self { tls: tls.clone(), at, headers: format!("Cookie: {cookie}\r\n") };
        let (_, me) = console.ask("GET /api/me", "").await;
        console.headers = format!("{}X-CSRF-Token: {}\r\n", console.headers, me["csrf"].as_str().unwrap());
        console
    }

    pub(crate) async fn ask(&self, what: &str, body: &str) -> (String, Value) {
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let headers = format!("{}{kind}", self.headers);
        let answer = ask_with(&self.tls, Admits::Masters, self.at, (what, &headers), body).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().to_owned(), serde_json::from_str(body).unwrap_or_default())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_console_invites_and_withdraws_and_the_audit_tells_of_it() {
    let invited = Invited::begin(&[]).await;
    assert!(invited.redeem(&invited.invite(0, &["client/billing"])).await.is_ok());
    let tls = Tls::load(invited.folder("redeemed").files()).unwrap();
    let console = Console::log_in(&invited, &tls).await;
    let invite = async |form: Value| {
        let (status, made) = console.ask("POST /api/invitations", &form.to_string()).await;
        assert_eq!(status, "201", "{made}");
        let invitation: Invitation = made["invitation"].as_str().unwrap().parse().unwrap();
        (invitation, made["id"].as_str().unwrap().to_owned())
    };
    let open = async || console.ask("GET /api/invitations", "").await.1.as_array().unwrap().len();
    // Those of the command line are seen and withdrawn, too.
    let by_command_line = invited.invite(0, &["agent"]);
    let (named, used) = invite(json!({"role": "agent", "name": "orders-1", "names": ["ids.example.com"]})).await;
    let (_, twice) = invite(json!({"role": "client", "uses": 2, "hours": 720})).await;
    assert_eq!(open().await, 3);
    assert_eq!(invited.redeem(&named).await.unwrap(), Role::of_path("agent/orders-1").unwrap());
    assert_eq!(open().await, 2);
    for open in console.ask("GET /api/invitations", "").await.1.as_array().unwrap() {
        let what = format!("DELETE /api/invitations/{}", open["id"].as_str().unwrap());
        assert_eq!(
            (console.ask(&what, "").await.0, console.ask(&what, "").await.0),
            ("204".to_owned(), "404".to_owned())
        );
    }
    let gone = invited.redeem(&by_command_line).await;
    assert!(matches!(gone, Err(EnrollError::Refused(EnrollRefusal::Unknown))), "{gone:?}");
    let (status, why) = console.ask("POST /api/invitations", r#"{"role": "agent", "at": "nowhere"}"#).await;
    assert!(status == "400" && why["detail"].as_str().unwrap().contains("HOST:PORT"), "{why}");

    let refused = || async {
        let (_, lines) = console.ask("GET /api/audit?n=100&action=access.refuse", "").await;
        lines.as_array()?.iter().any(|line| line["subject"] == "certificates").then_some(())
    };
    until("the audit tells of who was refused", refused).await.unwrap();
    let (_, lines) = console.ask("GET /api/audit?n=100", "").await;
    let lines: Vec<_> = lines.as_array().unwrap().iter().collect();
    let told = |action: &str| lines.iter().filter(|line| line["action"] == action).collect::<Vec<_>>();
    assert_eq!((told("invitation.make").len(), told("invitation.withdraw").len()), (2, 2), "{lines:?}");
    let certified: Vec<_> = told("certificate.issue").iter().map(|line| line["subject"].as_str().unwrap()).collect();
    assert_eq!(certified, ["agent/orders-1", "client/billing"], "the newest first");
    let by = told("certificate.issue")[0]["who"].as_str().unwrap().to_owned();
    assert_eq!(by, format!("invitation {used}"));
    assert!(told("invitation.withdraw").iter().any(|line| line["detail"] == twice.as_str()), "{lines:?}");
}

async fn who_came_gets_nothing_else(invited: &Invited, tls: &Tls) {
    let at = invited.cluster.masters[0].agent_listen.to_string();
    let invitation = invited.invite(0, &["client"]);
    for (known, ca) in [(&Tls::PLAIN, Some(invitation.ca)), (tls, None)] {
        let io = connect_to_enroll(at.as_str(), known, ca).await.unwrap();
        let master = LeaseServiceClient::new(tarpc::client::Config::default(), io).spawn();
        let context = || deadline_in(Duration::from_secs(10));
        let request = NamespacesRequest { cluster: None, after: None };
        assert_eq!(master.list_namespaces(context(), request).await.unwrap(), Err(Refusal::NotAllowed));
        let by = EnrollBy::Invitation(invitation.proof());
        let ask = async |by: EnrollBy, public_key: Vec<u8>| {
            let request = EnrollRequest::Certificate { by, public_key };
            master.enroll(context(), request).await.unwrap().map(drop)
        };
        let key = enroll::KeyPair::generate().unwrap().public_key_raw().to_vec();
        let names = EnrollBy::Certificate(vec!["console.example.com".to_owned()]);
        assert!(matches!(ask(names, key).await, Err(EnrollRefusal::Certificate(_))));
        if ca.is_some() {
            let authorities = master.enroll(context(), EnrollRequest::Authorities).await.unwrap();
            assert!(matches!(authorities, Err(EnrollRefusal::Certificate(_))));
            assert_eq!(ask(by, vec![4; 64]).await, Err(EnrollRefusal::Key));
        }
    }
}

/// A server that stands between, with a certificate of a master by its own CA, which it shows too.
async fn man_in_the_middle(cluster: &Cluster) -> String {
    let ca = Authority::new(&cluster.dir().join("mallory")).unwrap();
    let files = ca.issue("master", &["uniq://master/1"]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let (certificate, key) = files.own.unwrap();
    let chain = [certificate, files.ca].map(|file| CertificateDer::from_pem_file(file).unwrap());
    let builder = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).unwrap().with_no_client_auth();
    let config = builder.with_single_cert(chain.into(), PrivateKeyDer::from_pem_file(key).unwrap()).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((io, _)) = listener.accept().await {
            if let Ok(mut io) = acceptor.accept(io).await {
                let _ = io.shutdown().await;
            }
        }
    });
    at
}
