//! Callers who show an API key instead of a certificate: each gets what its key opens, at every agent, also without a master.

use net::tls::{Admits, Files, Tls};
use serde_json::{Value, json};
use std::net::SocketAddr;
use tests::certificates::{Authority, ask_with, get, metric, secure};
use tests::client;
use tests::cluster::{Cluster, until};
use uniq_client::{Client, Definition, Error, MintCode, Namespace, Settings, TlsFiles};

/// A cluster in which everything speaks TLS, and whoever has no certificate.
struct Keyed {
    cluster: Cluster,
    ca: Authority,
    anybody: Tls,
    /// A key of an admin.
    admin: String,
}

fn bearer(key: &str) -> String {
    format!("Authorization: Bearer {key}\r\n")
}

/// The status and the body of an answer.
fn parted(answer: &str) -> (u16, &str) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    (head.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0), body)
}

impl Keyed {
    async fn start() -> Self {
        let mut cluster = Cluster::new().unwrap();
        for _ in 0..2 {
            cluster.add_agent(&["--after-reboot", "resume"]).unwrap();
        }
        // The first key is made at the console by a login, which tests have over plain TCP alone.
        cluster.masters.iter_mut().for_each(|master| master.daemon.start().unwrap());
        let (http, console) = (client::Client::new().unwrap(), cluster.masters[0].daemon.http);
        let form = json!({ "name": "ops", "role": "admin" });
        let made = || async {
            let answer = http.change(console, "/api/keys", &form).await.ok()?;
            answer.json().ok()?.get("key")?.as_str().map(str::to_owned)
        };
        let admin = until("an admin's key is made", made).await.unwrap().0;
        for master in &mut cluster.masters {
            master.daemon.terminate().await.unwrap();
        }
        let ca = Authority::new(&cluster.dir().join("ca")).unwrap();
        let roles = ["uniq://master/1", "uniq://master/2", "uniq://agent/agent-1", "uniq://agent/agent-2"];
        for (nth, (daemon, role)) in cluster.daemons().zip(roles).enumerate() {
            secure(daemon, &ca.issue(&format!("program-{nth}"), &[role]).unwrap());
            daemon.start().unwrap();
        }
        let anybody = Tls::load(Files { ca: ca.ca(), own: None }).unwrap();
        let keyed = Self { cluster, ca, anybody, admin };
        let certified = keyed.ca.tls("client", "uniq://client/orders").unwrap();
        for nth in 0..2 {
            let ready = || async {
                let answer = get(&certified, Admits::Agents, keyed.http(nth), "/readyz").await.ok()?;
                answer.contains(" 200 ").then_some(())
            };
            until("an agent with TLS is ready", ready).await.unwrap();
        }
        keyed
    }

    fn http(&self, agent: usize) -> SocketAddr {
        self.cluster.agents[agent].daemon.http
    }

    /// The status and the body of what a master's API answers to the admin's key.
    async fn manage(&self, what: &str, body: &Value) -> (u16, Value) {
        let console = self.cluster.masters[0].daemon.http;
        let headers = bearer(&self.admin) + "Content-Type: application/json\r\n";
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let made = || async {
            let answer = ask_with(&self.anybody, Admits::Masters, console, (what, &headers), &body).await.ok()?;
            let (status, body) = parted(&answer);
            // Until the two have met.
            (status < 500).then(|| (status, serde_json::from_str(body).unwrap_or_default()))
        };
        until("the masters' API answers", made).await.unwrap().0
    }

    /// The status of a request by somebody without a certificate; 0 if there is no answer.
    async fn status(&self, agent: usize, what: &str, key: Option<&str>) -> u16 {
        let headers = key.map(bearer).unwrap_or_default();
        let definition = r#"{"kind":"uniq64"}"#;
        let body = if what.starts_with("PUT") { definition } else { "" };
        let asked = ask_with(&self.anybody, Admits::Agents, self.http(agent), (what, &headers), body).await;
        asked.map_or(0, |answer| parted(&answer).0)
    }

    /// Waits until each agent answers so.
    async fn until_all(&self, what: &str, key: Option<&str>, wanted: u16) {
        for agent in 0..self.cluster.agents.len() {
            let answers = || async { (self.status(agent, what, key).await == wanted).then_some(()) };
            until(&format!("agent {agent} answers {wanted} to {what}"), answers).await.unwrap();
        }
    }

    fn client(&self, scheme: &str, key: &str) -> Client {
        let agents = &self.cluster.agents;
        let at = agents.iter().map(|agent| if scheme == "https" { agent.daemon.http } else { agent.rpc_listen });
        let at: Vec<_> = at.map(|at| format!("{scheme}://{at}")).collect();
        let mut settings = Settings::new(at.iter().map(String::as_str)).unwrap();
        settings.tls = Some(TlsFiles { ca: self.ca.ca(), own: None });
        settings.api_key = Some(key.parse().unwrap());
        Client::new(settings).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_opens_what_it_is_for_at_every_agent_until_it_is_revoked() {
    let mut keyed = Keyed::start().await;
    let mint = "GET /uniq64";
    // Without any key, nobody without a certificate gets past the handshake.
    assert_eq!(keyed.status(0, mint, None).await, 0);
    let form = json!({ "name": "shop", "actions": ["mint"], "names": ["default", "orders*"], "days": 30 });
    let (status, made) = keyed.manage("POST /api/keys", &form).await;
    assert_eq!((status, &made["names"]), (201, &json!(["default", "orders*"])), "{made}");
    let shop = made["key"].as_str().unwrap().to_owned();
    keyed.until_all(mint, Some(&shop), 200).await;
    for (what, key, status) in [
        (mint, None, 401),
        (mint, Some(keyed.admin.as_str()), 401),
        (mint, Some("uniq_0"), 401),
        ("GET /uniq64/other", Some(&shop), 403),
        ("GET /sequence/other/7", Some(&shop), 403),
        ("PUT /generators/orders", Some(&shop), 403),
        ("PUT /generators/orders", None, 401),
        ("GET /status", Some(&shop), 403),
        ("GET /metrics", None, 401),
        ("GET /explain/1", Some(&shop), 403),
        ("GET /uniq64/orders", Some(&shop), 404),
        ("GET /healthz", None, 200),
    ] {
        assert_eq!(keyed.status(0, what, key).await, status, "{what} {key:?}");
    }
    registered_by(&keyed, "registrar").await;
    // At a master it opens nothing.
    let console = keyed.cluster.masters[0].daemon.http;
    let refused =
        ask_with(&keyed.anybody, Admits::Masters, console, ("GET /api/leases", &bearer(&shop)), "").await.unwrap();
    assert!(parted(&refused).0 == 401 && refused.contains("for agents"), "{refused}");
    // The same by the client, over both protocols.
    for scheme in ["https", "tarpcs"] {
        let client = keyed.client(scheme, &shop);
        assert!(client.uniq64("default").await.unwrap() > 0, "{scheme}");
        let namespace = Namespace::define("orders".parse().unwrap(), &Definition::default()).unwrap();
        for refused in [client.define_generator(namespace).await.map(drop), client.uniq64("other").await.map(drop)] {
            assert!(matches!(&refused, Err(Error::Refused { code: MintCode::Forbidden, .. })), "{scheme}: {refused:?}");
        }
    }
    let certified = keyed.ca.tls("client", "uniq://client/orders").unwrap();
    let page = get(&certified, Admits::Agents, keyed.http(0), "/metrics").await.unwrap();
    for (code, least) in [("login_required", 5), ("forbidden", 5)] {
        let counted = metric(&page, &format!("uniq_refusals_total{{code=\"{code}\"}}"));
        assert!(counted >= least, "{code}: {counted}");
    }
    let shop = replaced(&keyed, &shop).await;
    // Known also without a master, and after a restart.
    for master in &mut keyed.cluster.masters {
        master.daemon.terminate().await.unwrap();
    }
    let daemon = &mut keyed.cluster.agents[0].daemon;
    daemon.terminate().await.unwrap();
    daemon.start().unwrap();
    keyed.until_all(mint, Some(&shop), 200).await;
    assert_eq!(keyed.status(0, mint, None).await, 401);
    // Revoked, and nobody without a certificate is let in any more.
    keyed.cluster.masters.iter_mut().for_each(|master| master.daemon.start().unwrap());
    assert_eq!(keyed.manage("DELETE /api/keys/shop", &Value::Null).await.0, 204);
    keyed.until_all(mint, Some(&shop), 0).await;
    let certified = get(&certified, Admits::Agents, keyed.http(0), "/uniq64").await.unwrap();
    assert!(certified.contains(" 200 "), "{certified}");
}

/// Registers a name by a key of that name, and finds the key in the audit.
async fn registered_by(keyed: &Keyed, key: &str) {
    let form = json!({ "name": key, "actions": ["define"], "names": ["bills"] });
    let (_, made) = keyed.manage("POST /api/keys", &form).await;
    keyed.until_all("PUT /generators/bills", made["key"].as_str(), 200).await;
    let (_, lines) = keyed.manage("GET /api/audit?action=namespace.define", &Value::Null).await;
    let by: Vec<_> = lines.as_array().into_iter().flatten().map(|line| line["who"].clone()).collect();
    assert!(by.contains(&json!(format!("key:{key} via agent-1"))), "{lines}");
    assert_eq!(keyed.manage(&format!("DELETE /api/keys/{key}"), &Value::Null).await.0, 204);
}

/// Replaces the key of that name: both open the same for a while. Gives the new one.
async fn replaced(keyed: &Keyed, shop: &str) -> String {
    let (status, made) = keyed.manage("POST /api/keys/shop/rotate", &json!({ "keep_hours": 1 })).await;
    let newer = made["key"].as_str().unwrap_or_default().to_owned();
    assert!(status == 200 && newer != shop && made["former_until"].is_string(), "{status} {made}");
    keyed.until_all("GET /uniq64", Some(&newer), 200).await;
    assert_eq!(keyed.status(0, "GET /uniq64", Some(shop)).await, 200);
    let (status, made) = keyed.manage("POST /api/keys/shop/rotate", &json!({ "keep_hours": 0 })).await;
    let newest = made["key"].as_str().unwrap_or_default().to_owned();
    assert_eq!(status, 200);
    keyed.until_all("GET /uniq64", Some(&newest), 200).await;
    let refused =
        [keyed.status(1, "GET /uniq64", Some(shop)).await, keyed.status(1, "GET /uniq64", Some(&newer)).await];
    assert_eq!(refused, [401, 401]);
    newest
}
