//! The settings of a cluster whose stores are lost are those of the next one: by an export, by real programs.

use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tests::client::Answer;
use tests::cluster::{Cluster, until};
use tests::operator::format_anew;

const TYPES: [&str; 2] = ["--token-types", "uint2,string2-include-letter"];
/// No token of the cluster before, which has one agent, lies above: numbers are granted from 1,024 on.
const ABOVE: [&str; 3] = ["--after-total-loss", "--above", "1100"];
const PLACES: u64 = 5_000;

async fn listed(cluster: &Cluster, master: usize, path: &str) -> Vec<Value> {
    let answer = cluster.client.console(cluster.masters[master].daemon.http, path).await.unwrap();
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json().unwrap().as_array().unwrap().clone()
}

/// Lists what an operator sees of names, but for who registered them.
async fn names(cluster: &Cluster, master: usize) -> Vec<Value> {
    let mut rows = listed(cluster, master, "/api/namespaces").await;
    rows.iter_mut().for_each(|row| ["registered_by", "leased"].iter().for_each(|field| row[*field] = Value::Null));
    rows
}

fn row<'a>(rows: &'a mut [Value], name: &str) -> &'a mut Value {
    rows.iter_mut().find(|row| row["name"] == name).unwrap()
}

async fn import(cluster: &Cluster, http: SocketAddr, file: &Value, query: &str) -> Answer {
    cluster.client.change(http, &format!("/api/import{query}"), file).await.unwrap()
}

async fn numbers(cluster: &Cluster, agent: usize) -> Vec<u64> {
    let answer = cluster.ask_agent(agent, "segment/parts?n=10").await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text().lines().map(|line| line.parse().unwrap()).collect()
}

/// Ends everything, and makes both stores and the agent anew.
async fn lose_all(cluster: &mut Cluster) {
    for agent in &mut cluster.agents {
        agent.daemon.terminate().await.unwrap();
        std::fs::remove_dir_all(&agent.dir).unwrap();
    }
    cluster.agents.clear();
    for nth in [0, 1] {
        cluster.masters[nth].daemon.kill_9();
        format_anew(&cluster.masters[nth], &ABOVE).unwrap();
        cluster.masters[nth].daemon.start().unwrap();
    }
    cluster.all_ready().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_exported_is_there_again_after_both_stores_were_lost_and_goes_on_above_what_was_granted() {
    let mut cluster = Cluster::start(1, &TYPES).await.unwrap();
    let (client, one) = (cluster.client.clone(), cluster.masters[0].daemon.http);
    for definition in [
        json!({"name": "plain", "kind": "uniq64", "encoding": "base32"}),
        json!({"name": "orders", "kind": "string", "template": "ORD-{date:%Y%m%d}{token}{serial:6}"}),
        json!({"name": "flakes", "kind": "layout", "layout": "snowflake"}),
        json!({"name": "parts", "kind": "segment", "step": 100}),
        json!({"name": "keyed", "kind": "sequence"}),
        json!({"name": "gone", "kind": "uniq64"}),
    ] {
        assert_eq!(client.change(one, "/api/namespaces", &definition).await.unwrap().status, 201, "{definition}");
    }
    for path in ["uniq64/plain", "string/orders", "segment/parts", "sequence/keyed/7", "uniq64/gone"] {
        cluster.all_give(path).await.unwrap();
    }
    let about = json!({"owner": "team-pay", "labels": {"env": "prod"}});
    let method = reqwest::Method::PUT;
    assert_eq!(client.change_by(method, one, "/api/namespaces/orders/about", &about).await.unwrap().status, 200);
    for (path, body, status) in [
        ("/api/namespaces/gone/retire", json!({"confirm": "gone"}), 200),
        ("/api/users", json!({"name": "vera", "password": "correct horse", "role": "operator"}), 201),
        ("/api/whitelist", json!({"range": "10.7.0.0/16"}), 200),
        ("/api/revocations", json!({"role": "client", "name": "billing"}), 201),
    ] {
        assert_eq!(client.change(one, path, &body).await.unwrap().status, status, "{path}");
    }
    let given = numbers(&cluster, 0).await;

    let vera = client.log_in(one, "vera", "correct horse").await.unwrap();
    let refused = reqwest::Client::new().get(format!("http://{one}/api/export")).header("cookie", vera).send();
    assert_eq!(refused.await.unwrap().status(), 403);
    let mut file = client.console(one, "/api/export").await.unwrap().json().unwrap();
    assert!(!file.to_string().contains("argon2"), "{file}");
    let mut before = names(&cluster, 0).await;
    let networks = listed(&cluster, 0, "/api/whitelist").await;
    let users = listed(&cluster, 0, "/api/users").await;
    let revoked = listed(&cluster, 0, "/api/revocations").await;
    lose_all(&mut cluster).await;
    assert_ne!(names(&cluster, 0).await, before);

    // Plain numbers begin where the operator says, not below what was granted, and nothing else comes in before.
    let granted: u64 =
        row(file["names"].as_array_mut().unwrap(), "parts")["granted"].as_str().unwrap().parse().unwrap();
    assert!(given.iter().all(|number| *number < granted), "{given:?} of {granted}");
    for (first, why) in [(None, "parts: add `first`"), (Some(granted - 1), "was granted already")] {
        row(file["names"].as_array_mut().unwrap(), "parts")["first"] =
            first.map_or(Value::Null, |it| json!(it.to_string()));
        if first.is_none() {
            row(file["names"].as_array_mut().unwrap(), "parts").as_object_mut().unwrap().remove("first");
        }
        let answer = import(&cluster, one, &file, "").await;
        assert_eq!((answer.status, answer.code()), (400, "bad_parameter".to_owned()), "{}", answer.text());
        assert!(answer.text().contains(why), "{}", answer.text());
    }
    let first = granted + PLACES;
    row(file["names"].as_array_mut().unwrap(), "parts")["first"] = json!(first.to_string());
    let new = names(&cluster, 0).await;
    let would = import(&cluster, one, &file, "?dry_run=true").await;
    assert_eq!(would.status, 200, "{}", would.text());
    assert_eq!(names(&cluster, 0).await, new, "only to be said");
    let did = import(&cluster, one, &file, "").await;
    assert_eq!(did.status, 200, "{}", did.text());
    let (mut would, did) = (would.json().unwrap(), did.json().unwrap());
    assert_eq!((&would["dry_run"], &did["dry_run"]), (&json!(true), &json!(false)));
    would["dry_run"] = json!(false);
    assert_eq!(would, did);
    assert_eq!((&did["names"], &did["retired"]), (&json!({"new": 6, "there": 0}), &json!(["keyed"])));
    assert_eq!((&did["users"], &did["networks"]["new"]), (&json!({"new": 1, "there": 1}), &json!(1)));

    // All is as it was, but that names count as used, and numbers by key have to be asked of another name.
    for name in ["plain", "orders", "flakes", "parts", "keyed"] {
        row(&mut before, name)["in_use"] = json!(true);
    }
    row(&mut before, "parts")["first"] = json!(first.to_string());
    let capacity = row(&mut before, "parts")["capacity"].as_u64().unwrap();
    row(&mut before, "parts")["capacity"] = json!(capacity - (first - 1));
    row(&mut before, "keyed")["retired"] = json!(true);
    for master in [0, 1] {
        assert_eq!(names(&cluster, master).await, before);
        assert_eq!(listed(&cluster, master, "/api/whitelist").await, networks);
        assert_eq!(listed(&cluster, master, "/api/users").await, users);
        assert_eq!(listed(&cluster, master, "/api/revocations").await, revoked);
    }
    let lines = listed(&cluster, 0, "/api/audit?action=settings.import").await;
    assert_eq!((lines.len(), &lines[0]["who"], &lines[0]["subject"]), (1, &json!("admin"), &json!("10 changes")));

    // Once more it changes nothing.
    let again = import(&cluster, cluster.masters[1].daemon.http, &file, "").await;
    assert_eq!(again.status, 200, "{}", again.text());
    assert_eq!(again.json().unwrap()["names"], json!({"new": 0, "there": 6}));
    assert_eq!(names(&cluster, 1).await, before);

    // Nobody knows vera's password until an admin sets one.
    assert!(client.log_in(one, "vera", "correct horse").await.is_err());
    let password = json!({"password": "another horse"});
    assert_eq!(client.change(one, "/api/users/vera/password", &password).await.unwrap().status, 200);
    client.log_in(one, "vera", "another horse").await.unwrap();

    let agent = cluster.add_agent(&TYPES).unwrap();
    cluster.agent(agent).unwrap().daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    for path in ["uniq64/plain", "string/orders", "segment/parts"] {
        cluster.all_give(path).await.unwrap();
    }
    let goes_on = numbers(&cluster, agent).await;
    assert!(goes_on.iter().all(|number| *number >= first), "{goes_on:?} from {first}");
    for (name, kind) in [("gone", "uniq64"), ("keyed", "sequence")] {
        let answer = client.change(one, "/api/namespaces", &json!({"name": name, "kind": kind})).await.unwrap();
        assert_eq!((answer.status, answer.code()), (409, "generator_exists".to_owned()), "{}", answer.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_that_ends_when_a_master_stops_goes_on_when_it_is_sent_again() {
    const NAMES: usize = 1_000;
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    let one = cluster.masters[0].daemon.http;
    let name = |nth: usize| json!({"name": format!("n{nth}"), "retired": false, "definition": {"kind": "uniq64"}, "about": {"owner": "jane"}});
    let names = (0..NAMES).map(name).collect::<Vec<_>>();
    let file = json!({"version": 1, "utc_offset": "+00:00", "networks": ["10.7.0.0/16"], "users": [], "names": names});
    let (client, sent) = (cluster.client.clone(), file.clone());
    let importing = tokio::spawn(async move { client.change(one, "/api/import", &sent).await.unwrap() });
    let registered = async || listed(&cluster, 0, "/api/namespaces").await.len();
    until("some names are there", async || (registered().await > 50).then_some(())).await.unwrap();
    cluster.masters[1].daemon.kill_9();
    let broken = importing.await.unwrap();
    assert_eq!((broken.status, broken.code()), (503, "masters_unavailable".to_owned()), "{}", broken.text());
    let why = broken.text();
    assert!(
        why.contains("changes are made; send the same file again") && why.contains(&format!("{}", 2 * NAMES + 1)),
        "{why}"
    );
    let some = listed(&cluster, 0, "/api/namespaces").await.len();
    assert!(some < NAMES, "{some} names came in before the other master was stopped");
    println!("{some} of {NAMES}: {why}");

    cluster.masters[1].daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    let (whole, _) = until("all of it is there", async || {
        let answer = import(&cluster, cluster.masters[1].daemon.http, &file, "").await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        (answer.status == 200).then_some(answer)
    })
    .await
    .unwrap();
    let whole = whole.json().unwrap();
    assert!(whole["names"]["there"].as_u64().unwrap() > 40, "{whole}");
    for master in [0, 1] {
        let rows = listed(&cluster, master, "/api/namespaces").await;
        let its = rows
            .iter()
            .filter(|row| row["about"]["owner"] == "jane" && row["in_use"] == true && row["retired"] == false);
        assert_eq!(its.count(), NAMES);
    }
}
