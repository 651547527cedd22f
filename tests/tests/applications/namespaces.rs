//! Generators' names on real agents: registered once, the same everywhere, kept while no master answers.

use serde_json::{Value, json};
use std::collections::HashSet;
use tests::client::Answer;
use tests::cluster::{Cluster, until, until_status};
use tests::programs::{generator, run};

const ORDERS: &str = r#"{"kind":"string","template":"{date:%Y%m%d}{biz:2}{token}{serial:6}{check:luhn}"}"#;
const LATE: &str = r#"{"kind":"string","template":"L{date:%Y%m%d}{biz:2}{token}{serial:6}{check:luhn}"}"#;

/// As many order numbers as asked for.
async fn orders(cluster: &Cluster, agent: usize, n: usize) -> Result<Vec<String>, Answer> {
    let answer = cluster.ask_agent(agent, &format!("string/orders?biz=DE&n={n}")).await.unwrap();
    if answer.status != 200 {
        return Err(answer);
    }
    Ok(answer.text().lines().map(str::to_owned).collect())
}

fn definition(template: &str) -> String {
    json!({"kind": "string", "template": template}).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_registered_at_one_agent_is_served_by_all_and_survives_every_restart() {
    let mut cluster = Cluster::start(2, &[]).await.unwrap();
    let mut seen = HashSet::new();
    let mut take = |ids: Vec<String>| {
        for id in ids {
            assert_eq!(id.len(), 8 + 2 + 2 + 6 + 1, "{id}");
            assert!(seen.insert(id.clone()), "{id} came twice");
        }
    };

    // In its first moment an agent may say that it has not heard from a master yet.
    let unknown = || async {
        let unknown = orders(&cluster, 0, 1).await.unwrap_err();
        assert!([404, 503].contains(&unknown.status), "{}", unknown.text());
        (unknown.status == 404).then(|| unknown.code())
    };
    assert_eq!(until("the masters know of no such name", unknown).await.unwrap().0, "unknown_generator");
    let created = cluster.put(0, "orders", ORDERS).await.unwrap();
    assert_eq!(created.status, 201, "{}", created.text());
    assert_eq!(created.json().unwrap()["capacity"], 1_000_000);
    for agent in [0, 1] {
        let again = cluster.put(agent, "orders", ORDERS).await.unwrap();
        assert_eq!(again.status, 200, "{}", again.text());
        let other = cluster.put(agent, "orders", &definition("{date:%Y%m%d}{token}{serial:6}")).await.unwrap();
        assert_eq!((other.status, other.code().as_str()), (409, "generator_exists"));
    }
    // The other agent serves it from the first request on.
    take(orders(&cluster, 0, 1_000).await.unwrap());
    take(orders(&cluster, 1, 1_000).await.unwrap());
    let listed: Value = cluster.ask_agent(1, "generators").await.unwrap().json().unwrap();
    assert!(listed.as_array().unwrap().iter().any(|row| row["name"] == "orders" && row["serial"] == 1_000), "{listed}");

    // Without any master: what is known is minted, also after a kill; what is new is refused.
    for nth in [0, 1] {
        cluster.master(nth).unwrap().daemon.kill_9();
    }
    take(orders(&cluster, 0, 100).await.unwrap());
    let client = cluster.client.clone();
    for nth in [0, 1] {
        let daemon = &mut cluster.agent(nth).unwrap().daemon;
        daemon.kill_9();
        daemon.start().unwrap();
        until_status(&client, daemon, "/readyz", 200).await.unwrap();
        take(orders(&cluster, nth, 1_000).await.unwrap());
    }
    let refused = cluster.put(0, "late", LATE).await.unwrap();
    assert_eq!((refused.status, refused.code().as_str()), (503, "masters_unavailable"), "{}", refused.text());
    let unknown = cluster.ask_agent(0, "string/late?biz=DE").await.unwrap();
    assert_eq!((unknown.status, unknown.code().as_str()), (503, "masters_unavailable"), "{}", unknown.text());

    // With one of them a name is refused, with both it is not.
    cluster.master(0).unwrap().daemon.start().unwrap();
    let alone = || async { cluster.put(0, "late", LATE).await.unwrap().text().contains("needs both").then_some(()) };
    until("one master alone says why", alone).await.unwrap();
    cluster.master(1).unwrap().daemon.start().unwrap();
    let both = || async { (cluster.put(0, "late", LATE).await.unwrap().status == 201).then_some(()) };
    until("both masters register it", both).await.unwrap();
    let (minted, _) = until("the other agent serves it", || async {
        let answer = cluster.ask_agent(1, "string/late?biz=DE&n=5").await.ok()?;
        (answer.status == 200).then(|| answer.text().lines().count())
    })
    .await
    .unwrap();
    assert_eq!(minted, 5);
    println!("{} order numbers, none twice", seen.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_longer_than_a_block_has_room_for_go_on_after_kills() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    let own = r#"{"kind":"uniq64","scope":"own"}"#;
    let longest = "n".repeat(63);
    // What each gives of its own; the first two begin alike.
    let names: [(&str, &str, &str); 5] = [
        ("payment-reference", own, "uniq64/payment-reference?n=100"),
        ("payment-reference.refunds", own, "uniq64/payment-reference.refunds?n=100"),
        (&longest, ORDERS, &format!("id/{longest}?biz=DE&n=100")),
        ("leaf-segment.test", r#"{"kind":"segment"}"#, "segment/leaf-segment.test?n=100"),
        ("conversation-messages", r#"{"kind":"sequence"}"#, "sequence/conversation-messages/alice"),
    ];
    for (name, definition, _) in names {
        assert_eq!(cluster.put(0, name, definition).await.unwrap().status, 201, "{name}");
    }
    let mut seen = HashSet::new();
    for _ in 0..3 {
        for (name, _, path) in names {
            let given = || async { cluster.ask_agent(0, path).await.ok().filter(|answer| answer.status == 200) };
            let (answer, _) = until("it gives IDs", given).await.unwrap();
            for id in answer.text().lines() {
                assert!(seen.insert((name, id.to_owned())), "{id} of {name} came twice");
            }
        }
        let client = cluster.client.clone();
        let daemon = &mut cluster.agent(0).unwrap().daemon;
        daemon.kill_9();
        daemon.start().unwrap();
        until_status(&client, daemon, "/readyz", 200).await.unwrap();
    }
    cluster.agent(0).unwrap().daemon.kill_9();
    let file = cluster.agents[0].serial_file();
    let args = ["--inspect", "--json", "--serial-file", file.to_str().unwrap()];
    let shown: Value =
        serde_json::from_str(&run(&generator().unwrap(), &args, &cluster.agents[0].dir).unwrap().out).unwrap();
    let blocks: Vec<_> =
        shown["blocks"].as_array().unwrap().iter().filter_map(|block| block["name"].as_str()).collect();
    for (name, ..) in &names[..3] {
        assert!(blocks.contains(name), "{blocks:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_could_repeat_or_makes_no_sense_is_refused_with_the_reason() {
    let cluster = Cluster::start(1, &[]).await.unwrap();
    for (name, definition, why) in [
        ("Orders", ORDERS.to_owned(), "1 to 63 of a-z 0-9 . _ -"),
        (&"n".repeat(64), ORDERS.to_owned(), "1 to 63 of a-z 0-9 . _ -"),
        (".a", ORDERS.to_owned(), "no dot in front"),
        ("a", String::new(), "not as agreed"),
        ("a", "[]".to_owned(), "not as agreed"),
        ("a", r#"{"kind":"uniq96"}"#.to_owned(), "uniq96"),
        ("a", r#"{"kind":"string"}"#.to_owned(), "needs a template"),
        ("a", r#"{"kind":"uniq64","template":"{token}"}"#.to_owned(), "template: unknown field"),
        ("a", r#"{"kind":"uniq64","colour":"red"}"#.to_owned(), "colour"),
        ("a", definition("{date:%Y%m}{token}{serial:6}"), "day"),
        ("a", definition("{date:%Y%m%d}{serial:6}"), "token"),
        ("a", definition("{date:%Y%m%d}{token}"), "serial"),
        ("a", format!("{ORDERS}{}", " ".repeat(5_000)), "at most 4096 bytes"),
    ] {
        let answer = cluster.put(0, name, &definition).await.unwrap();
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad_parameter"), "{definition}: {}", answer.text());
        assert!(answer.text().contains(why), "{definition}: {}", answer.text());
    }
    let answer = cluster.put(0, "default", ORDERS).await.unwrap();
    assert_eq!((answer.status, answer.code().as_str()), (409, "generator_exists"), "{}", answer.text());
    let numbers = cluster.put(0, "parcels", r#"{"kind":"uniq64"}"#).await.unwrap();
    assert_eq!(numbers.status, 201, "{}", numbers.text());
    assert_eq!(cluster.ask_agent(0, "uniq64/parcels?n=3").await.unwrap().text().lines().count(), 3);
    assert_eq!(cluster.ask_agent(0, "string/parcels").await.unwrap().status, 404, "the name is one of numbers");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_no_agent_can_serve_is_registered_with_a_warning() {
    let mut cluster = Cluster::start(1, &[]).await.unwrap();
    let served = cluster.put(0, "orders", ORDERS).await.unwrap();
    assert_eq!((served.status, served.json().unwrap().get("warning").cloned()), (201, None), "{}", served.text());
    let wide = r#"{"kind":"string","template":"W{date:%Y%m%d}{token}{serial:6}","token_type":"string3-only-number"}"#;
    for status in [201, 200] {
        let answer = cluster.put(0, "wide", wide).await.unwrap();
        let warning = answer.json().unwrap()["warning"].as_str().unwrap_or_default().to_owned();
        let says = ["string3-only-number", "--token-types", "no_lease"].iter().all(|word| warning.contains(word));
        assert!(answer.status == status && says, "{}", answer.text());
    }
    let refused = cluster.ask_agent(0, "string/wide").await.unwrap();
    assert_eq!((refused.status, refused.code().as_str()), (503, "no_lease"));

    // The masters know of all agents: none leases that type, until one does.
    let console = cluster.masters[0].daemon.http;
    let leased = async |name: &str| {
        let rows = cluster.client.console(console, "/api/namespaces").await.unwrap().json().unwrap();
        rows.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap()["leased"].as_bool().unwrap()
    };
    assert!(leased("orders").await && !leased("wide").await);
    let nth = cluster.add_agent(&["--token-types", "string3-only-number"]).unwrap();
    cluster.agent(nth).unwrap().daemon.start().unwrap();
    cluster.all_ready().await.unwrap();
    let console = cluster.masters[0].daemon.http;
    let rows = || async {
        let rows = cluster.client.console(console, "/api/namespaces").await.unwrap().json().unwrap();
        rows.as_array().unwrap().iter().any(|row| row["name"] == "wide" && row["leased"] == true).then_some(())
    };
    until("the masters see that the type is leased", rows).await.unwrap();
    assert_eq!(cluster.ask_agent(nth, "string/wide").await.unwrap().text().trim().len(), 1 + 8 + 3 + 6);
}
