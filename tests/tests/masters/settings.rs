//! Definitions of generators' names, and the audit, at both masters of a real cluster.

use common::namespace::{Definition, Namespace, Scope};
use common::token::TokenType;
use net::rpc::lease::{Changed, DefineRequest, NamespacesRequest, Refusal};
use net::rpc::transport::deadline_in;
use serde_json::{Value, json};
use tests::client::Answer;
use tests::cluster::{Cluster, until, until_status};
use tests::lessee::{CALL_MAX, Lessee};
use tests::programs;

const TEMPLATE: &str = "{date:%Y%m%d}{token}{serial:6}";

fn namespace(name: &str, template: &str) -> Namespace {
    // The names here share a template.
    let definition = Definition::string(template).with_scope(Scope::Own);
    Namespace::define(name.parse().unwrap(), &definition).unwrap()
}

/// Registers a name at one of the masters.
async fn define(cluster: &Cluster, master: usize, namespace: Namespace) -> Result<Changed, Refusal> {
    let lessee = Lessee::new("registrar").unwrap();
    let client = Lessee::connect(cluster.masters[master].agent_listen).await.unwrap();
    let request = DefineRequest { agent_id: lessee.agent_id, cluster: None, caller: None, namespace };
    client.define_namespace(deadline_in(CALL_MAX), request).await.unwrap()?.outcome
}

/// The names a master knows, as agents are told.
async fn names(cluster: &Cluster, master: usize) -> Vec<String> {
    let client = Lessee::connect(cluster.masters[master].agent_listen).await.unwrap();
    let request = NamespacesRequest { cluster: None, after: None };
    let known = client.list_namespaces(deadline_in(CALL_MAX), request).await.unwrap().unwrap();
    known.iter().map(|one| one.namespace.name().to_string()).collect()
}

async fn get(cluster: &Cluster, master: usize, path: &str) -> Vec<serde_json::Value> {
    let console = cluster.masters[master].daemon.http;
    cluster.client.console(console, path).await.unwrap().json().unwrap().as_array().unwrap().clone()
}

/// Has something noted about a name, by one of the masters.
async fn note_about(cluster: &Cluster, master: usize, name: &str, note: &Value) -> Answer {
    let (console, path) = (cluster.masters[master].daemon.http, format!("/api/namespaces/{name}/about"));
    cluster.client.change_by(reqwest::Method::PUT, console, &path, note).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_known_to_both_masters_for_ever_and_every_change_is_audited_at_both() {
    let mut cluster = Cluster::new().unwrap();
    let audit_dirs = [0, 1].map(|nth| cluster.dir().join(format!("audit-{nth}")));
    for (master, dir) in cluster.masters.iter_mut().zip(&audit_dirs) {
        master.daemon.set("--audit-dir", dir.to_str().unwrap());
        master.daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
    // Names are at home with master 1; each master is asked.
    for (master, name) in [(0, "orders"), (1, "parcels"), (0, "parcels2"), (1, "orders2")] {
        assert_eq!(define(&cluster, master, namespace(name, TEMPLATE)).await, Ok(Changed::Done), "{name}");
        assert_eq!(define(&cluster, 1 - master, namespace(name, TEMPLATE)).await, Ok(Changed::AlreadySo), "{name}");
        let other = namespace(name, "{date:%Y%m%d}{token}{serial:9}");
        assert_eq!(define(&cluster, master, other).await, Err(Refusal::NameTaken), "{name}");
    }
    let lessee = Lessee::new("shop-7").unwrap();
    let at = [0, 1].map(|nth| cluster.masters[nth].agent_listen);
    let grant = lessee.obtain(at, TokenType::Uint2).await.unwrap();

    // What is noted about names, asked of either master.
    for (nth, name) in [(0, "orders"), (1, "parcels")] {
        let note = json!({"owner": format!("team {name}"), "labels": {"env": "prod"}});
        let noted = note_about(&cluster, nth, name, &note).await;
        assert_eq!((noted.status, &noted.json().unwrap()["about"]["owner"]), (200, &note["owner"]), "{noted:?}");
    }
    assert_eq!(note_about(&cluster, 1, "nobody", &json!({})).await.code(), "not_found");

    // Killed, both at once: what was answered is there.
    for nth in [0, 1] {
        cluster.master(nth).unwrap().daemon.kill_9();
    }
    for nth in [0, 1] {
        cluster.master(nth).unwrap().daemon.start().unwrap();
    }
    let client = cluster.client.clone();
    for nth in [0, 1] {
        until_status(&client, &mut cluster.master(nth).unwrap().daemon, "/readyz", 200).await.unwrap();
        assert_eq!(names(&cluster, nth).await, ["orders", "orders2", "parcels", "parcels2"]);
        let rows = get(&cluster, nth, "/api/namespaces").await;
        assert_eq!(rows.len(), 6, "with the two defaults: {rows:?}");
        let orders = rows.iter().find(|row| row["name"] == "orders").unwrap();
        assert_eq!((&orders["template"], &orders["capacity"]), (&TEMPLATE.into(), &1_000_000.into()), "{orders}");
        assert_eq!(
            (&orders["about"]["owner"], &orders["about"]["labels"]["env"]),
            (&"team orders".into(), &"prod".into())
        );
        let found = get(&cluster, nth, "/api/namespaces?label=env%3Dprod&owner=Team+parcels").await;
        assert!(found.len() == 1 && found[0]["name"] == "parcels", "{found:?}");
        assert_eq!(get(&cluster, nth, "/api/whitelist").await.len(), 2);
        let audit = get(&cluster, nth, "/api/audit").await;
        let subject = format!("uint2 {}", grant.key);
        let has = |action: &str, who: &str, subject: &str| {
            audit.iter().any(|row| row["action"] == action && row["who"] == who && row["subject"] == subject)
        };
        assert!(has("lease.grant", "shop-7", &subject), "{audit:?}");
        assert!(["orders", "orders2", "parcels", "parcels2"].iter().all(|n| has("namespace.define", "registrar", n)));
        assert!(["orders", "parcels"].iter().all(|name| has("namespace.about", "admin", name)), "{audit:?}");
        let newest = audit[0]["number"].as_u64().unwrap();
        let before = get(&cluster, nth, &format!("/api/audit?before={newest}&n=2")).await;
        assert_eq!(
            before.iter().map(|row| row["number"].as_u64().unwrap()).collect::<Vec<_>>(),
            [newest - 1, newest - 2]
        );
    }
    // While one is away nothing is registered.
    cluster.master(1).unwrap().daemon.terminate().await.unwrap();
    let refused = || async { define(&cluster, 0, namespace("late", TEMPLATE)).await.err() };
    let late = || async { (refused().await == Some(Refusal::PeerAway)).then_some(()) };
    until("the other master is known to be away", late).await.unwrap();

    let data_dir = cluster.masters[1].data_dir.to_str().unwrap().to_owned();
    let verify = ["--verify-audit", "--data-dir", &data_dir];
    let ended = programs::run(&programs::master().unwrap(), &verify, "/".as_ref()).unwrap();
    assert_eq!(ended.status, Some(0), "{ended:?}");
    assert!(ended.out.starts_with("the audit is whole: "), "{ended:?}");
    println!("{}", ended.out);
    // Its files end with the same line, and need no store.
    let last = ended.out.split_once("; ").unwrap().1;
    let files = ["--verify-audit", audit_dirs[1].to_str().unwrap()];
    let ended = programs::run(&programs::master().unwrap(), &files, "/".as_ref()).unwrap();
    assert!(ended.status == Some(0) && ended.out.ends_with(last), "{ended:?}");
    println!("{}", ended.out);
}
