//! Certificates that an admin revokes at one master: nobody believes them any more, on whichever connection and whoever issued them.

use super::invitations::{Console, Invited, client_of};
use net::enroll;
use net::tls::{Admits, ClientStream, Tls};
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;
use tests::certificates::get;
use tests::cluster::until;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The time within which an open connection answers or ends.
const ANSWERED: Duration = Duration::from_secs(10);

/// Asks for an ID on a connection that stays open. `None`: it was ended.
async fn mint_on(io: &mut ClientStream) -> Option<String> {
    let asked = async {
        io.write_all(b"GET /uniq64 HTTP/1.1\r\nHost: localhost\r\n\r\n").await.ok()?;
        let mut answer = vec![0; 4_096];
        let len = io.read(&mut answer).await.ok().filter(|len| *len > 0)?;
        Some(String::from_utf8_lossy(&answer[..len]).into_owned())
    };
    tokio::time::timeout(ANSWERED, asked).await.expect("it neither answered nor ended")
}

async fn open(tls: &Tls, at: SocketAddr) -> ClientStream {
    tls.connect(TcpStream::connect(at).await.unwrap(), Admits::Agents).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_revoked_at_one_master_is_believed_nowhere_whoever_issued_it() {
    let mut invited = Invited::begin(&[]).await;
    assert_eq!(invited.format_second(&invited.invite(0, &["master"])).status, Some(0));
    invited.cluster.masters[1].daemon.start().unwrap();
    let [first, second] = [0, 1].map(|nth| invited.cluster.masters[nth].agent_listen);
    until("master 2 listens", || async { TcpStream::connect(second).await.ok() }).await.unwrap();
    let orders = invited.add_agent(&invited.invite(0, &["agent/orders-1"]), &["--renew-interval", "1s"]);
    // Issued by the other master than the one at which they are revoked.
    let folders = ["billing", "payments"].map(|name| invited.folder(name));
    for folder in &folders {
        let name = folder.path().file_name().unwrap().to_str().unwrap();
        enroll::redeem(&invited.invite(1, &[&format!("client/{name}")]), folder).await.unwrap();
    }
    let [billing, payments] = folders.each_ref().map(|folder| Tls::load(folder.files()).unwrap());
    invited.becomes_ready(orders, &payments).await;
    let http = invited.cluster.agents[orders].daemon.http;
    let [mut of_billing, mut of_payments] = [open(&billing, http).await, open(&payments, http).await];
    for io in [&mut of_billing, &mut of_payments] {
        assert!(mint_on(io).await.unwrap().contains(" 200 "));
    }

    let console = Console::log_in(&invited, &payments).await;
    let revoke = async |role: &str, name: &str| {
        console.ask("POST /api/revocations", &json!({"role": role, "name": name}).to_string()).await
    };
    for (role, name, why) in
        [("master", "2", "exchange the CA"), ("user", "a", "agent or client"), ("client", "a b", "name")]
    {
        let (status, said) = revoke(role, name).await;
        assert!(status == "400" && said["detail"].as_str().unwrap().contains(why), "{said}");
    }
    // Certificates are valid from an hour before they are issued, in whole seconds.
    let (status, revoked) = revoke("client", "billing").await;
    assert_eq!((status.as_str(), revoked["role"].as_str()), ("201", Some("client/billing")), "{revoked}");
    assert_eq!(console.ask("GET /api/revocations", "").await.1, json!([revoked]));
    // Neither master renews it, from the moment on at which that is answered.
    for at in [first, second] {
        assert!(enroll::renew(&at.to_string(), &billing, &folders[0]).await.is_err(), "{at}");
    }
    // Whoever is refused sees the alert, or that its connection is gone before it could be read.
    let refused = || async {
        let why = get(&billing, Admits::Agents, http, "/uniq64").await.err()?.to_string();
        why.contains("CertificateRevoked").then_some(())
    };
    until("the agent has heard of it", refused).await.unwrap();
    assert_eq!(mint_on(&mut of_billing).await, None, "an open connection went on");
    assert!(mint_on(&mut of_payments).await.unwrap().contains(" 200 "));
    // What it is invited to later is believed at once, and by the agent, whose folder says what is revoked, too.
    enroll::redeem(&invited.invite(0, &["client/billing"]), &folders[0]).await.unwrap();
    let newer = Tls::load(folders[0].files()).unwrap();
    assert!(get(&newer, Admits::Agents, http, "/uniq64").await.unwrap().contains(" 200 "));
    let cas = std::fs::read_to_string(folders[0].cas_file()).unwrap();
    assert!(cas.starts_with(&format!("Revoked: client/billing {}\n", revoked["before"].as_str().unwrap())), "{cas}");

    // An agent that is revoked renews nothing, neither at new nor at open connections.
    assert_eq!(revoke("agent", "orders-1").await.0, "201");
    let ended = || async {
        let log = invited.cluster.masters.iter().map(|master| master.daemon.log_text()).collect::<String>();
        log.contains("a connection is ended: its certificate was revoked").then_some(())
    };
    until("a master ends its connection", ended).await.unwrap();
    // Nothing is asked of it any more by an application that reads so, on connections that are open either.
    let application = client_of(&invited, orders, folders[1].files(), &[]);
    application.uniq64("default").await.unwrap();
    let revoked = console.ask("GET /api/revocations", "").await.1;
    let before = revoked[0]["before"].as_str().unwrap();
    let cas = std::fs::read_to_string(folders[1].cas_file()).unwrap();
    folders[1].save_cas(&format!("Revoked: agent/orders-1 {before}\n{cas}")).unwrap();
    let refused_by = || async { application.uniq64("default").await.err() };
    let (why, _) = until("the application refuses the agent", refused_by).await.unwrap();
    assert!(why.to_string().to_lowercase().contains("revoked"), "{why}");
    assert_eq!(console.ask("DELETE /api/revocations/agent/orders-1", "").await.0, "204");
    invited.becomes_ready(orders, &newer).await;

    // An agent that starts while no master can be reached knows it still.
    invited.cluster.agents[orders].daemon.terminate().await.unwrap();
    for master in &mut invited.cluster.masters {
        master.daemon.kill_9();
    }
    invited.cluster.agents[orders].daemon.start().unwrap();
    let answers = || async { get(&newer, Admits::Agents, http, "/healthz").await.ok() };
    until("the agent is back", answers).await.unwrap();
    assert!(get(&billing, Admits::Agents, http, "/healthz").await.is_err());
    until("the agent says why", refused).await.unwrap();
}
