//! Names of kind layout on real agents: numbers bit for bit as their originals, none of them twice, whatever befalls the agents.

use serde_json::{Value, json};
use std::collections::HashSet;
use tests::client::{Answer, Media};
use tests::cluster::{Cluster, until, until_status};

/// Names that are registered, and IDs a request at most that each gives at once.
const NAMES: [(&str, &str, u32); 15] = [
    ("snow", r#"{"kind":"layout","layout":"snowflake"}"#, 5_000),
    ("snow2", r#"{"kind":"layout","layout":"leaf","encoding":"base62"}"#, 5_000),
    ("seconds", r#"{"kind":"layout","layout":"uidgenerator","epoch":"2024-01-01T00:00:00Z"}"#, 500),
    ("sony", r#"{"kind":"layout","layout":"sonyflake","ahead_max_ms":5000}"#, 500),
    ("js", r#"{"kind":"layout","layout":"js53","ahead_max_ms":10000}"#, 500),
    ("hours", r#"{"kind":"layout","layout":"hour53"}"#, 5_000),
    ("uuid", r#"{"kind":"layout","layout":"uuid7"}"#, 5_000),
    ("ulid", r#"{"kind":"layout","layout":"ulid"}"#, 5_000),
    (
        "typeid",
        r#"{"kind":"layout","layout":"typeid","encoding":{"form":"base32","case":"lower","prefix":"order_"}}"#,
        5_000,
    ),
    ("even", r#"{"kind":"layout","layout":"snowflake","scope":"own","spread":16}"#, 5_000),
    ("object", r#"{"kind":"layout","layout":"objectid"}"#, 5_000),
    ("xid", r#"{"kind":"layout","layout":"xid"}"#, 5_000),
    ("ksuid", r#"{"kind":"layout","layout":"ksuid"}"#, 5_000),
    ("insta", r#"{"kind":"layout","layout":"instagram","encoding":"hex"}"#, 1_000),
    ("short", r#"{"kind":"layout","layout":"discord","encoding":{"form":"sqids","length":14}}"#, 1_000),
];

/// IDs that were given, by what makes numbers equal: names with one layout share them.
#[derive(Default)]
struct Seen {
    ids: HashSet<(String, u128)>,
    texts: HashSet<(String, String)>,
}

impl Seen {
    /// `n` IDs of a name, as text.
    async fn take(&mut self, cluster: &Cluster, agent: usize, name: &str, n: u32) -> Result<Vec<String>, Answer> {
        let answer = cluster.ask_agent(agent, &format!("id/{name}?n={n}")).await.unwrap();
        if answer.status != 200 {
            return Err(answer);
        }
        let ids: Vec<String> = answer.text().lines().map(str::to_owned).collect();
        assert_eq!(ids.len(), n as usize, "{name}");
        for id in &ids {
            assert!(self.texts.insert((name.to_owned(), id.clone())), "{id} of {name} came twice");
        }
        Ok(ids)
    }

    /// `n` numbers of a name, packed.
    async fn take_packed(&mut self, cluster: &Cluster, agent: usize, name: &str, n: u32) -> Vec<u128> {
        let url = cluster.agent_url(agent, &format!("layout/{name}?n={n}")).unwrap();
        let answer = cluster.client.get_as(&url, Media::Packed).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        let width = answer.body.len() / n as usize;
        let number = |bytes: &[u8]| bytes.iter().fold(0u128, |number, byte| number << 8 | u128::from(*byte));
        let numbers: Vec<u128> = answer.body.chunks_exact(width).map(number).collect();
        let layout = if name.starts_with("snow") { "snow" } else { name };
        for number in &numbers {
            assert!(self.ids.insert((layout.to_owned(), *number)), "{number} of {name} came twice");
        }
        numbers
    }
}

async fn explain(cluster: &Cluster, agent: usize, id: &str) -> Vec<Value> {
    let answer = cluster.ask_agent(agent, &format!("explain/{id}")).await.unwrap().json().unwrap();
    let also = answer["also"].as_array().cloned().unwrap_or_default();
    std::iter::once(answer).chain(also).filter(|reading| reading["kind"] == "layout").collect()
}

async fn registered(cluster: &Cluster) {
    for (name, definition, _) in NAMES {
        let done =
            || async { [200, 201].contains(&cluster.put(0, name, definition).await.unwrap().status).then_some(()) };
        until("the name is registered", done).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_layout_is_served_everywhere_and_none_repeats_a_number_over_kills_and_restarts() {
    let mut cluster = Cluster::start(2, &[]).await.unwrap();
    registered(&cluster).await;
    let again = cluster.put(1, "snow", NAMES[0].1).await.unwrap();
    assert_eq!(again.status, 200, "{}", again.text());
    let other = cluster.put(1, "snow", r#"{"kind":"layout","layout":"discord"}"#).await.unwrap();
    assert_eq!((other.status, other.code().as_str()), (409, "generator_exists"));

    let mut seen = Seen::default();
    for round in 0..4 {
        for agent in [0, 1] {
            for (name, _, n) in NAMES {
                let served = || async {
                    let answer = cluster.ask_agent(agent, &format!("id/{name}")).await.ok()?;
                    (answer.status == 200).then_some(())
                };
                until("the name is served", served).await.unwrap();
                let ids = seen.take(&cluster, agent, name, n).await.map_err(|answer| answer.text()).unwrap();
                if name != "short" {
                    seen.take_packed(&cluster, agent, name, n).await;
                }
                let readings = explain(&cluster, agent, &ids[0]).await;
                assert!(!readings.is_empty(), "{}", ids[0]);
            }
        }
        // A clean stop, a kill, and both again.
        let client = cluster.client.clone();
        for nth in [0, 1] {
            let daemon = &mut cluster.agent(nth).unwrap().daemon;
            if (round + nth) % 2 == 0 {
                daemon.kill_9();
            } else {
                daemon.terminate().await.unwrap();
            }
            daemon.start().unwrap();
            until_status(&client, daemon, "/readyz", 200).await.unwrap();
        }
    }
    println!("{} numbers and {} texts, none twice", seen.ids.len(), seen.texts.len());
}

/// Two names of one layout, of which one is written in other pieces, are asked side by side: far more than a millisecond has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_names_of_one_layout_in_other_pieces_never_give_an_equal_number() {
    const BATCH: u32 = 50_000;
    let cluster = Cluster::start(1, &[]).await.unwrap();
    let definition = |fields: &[&str]| {
        json!({"kind": "layout", "bits": 64, "epoch": "2024-01-01T00:00:00Z", "unit_ms": 1, "fields": fields})
            .to_string()
    };
    let pieces = ["zero:1", "time:20", "time:21", "token:4", "token:6", "serial:12"];
    for (name, fields) in [("whole", ["zero:1", "time:41", "token:10", "serial:12"].as_slice()), ("pieces", &pieces)] {
        let done = || async { (cluster.put(0, name, &definition(fields)).await.unwrap().status == 201).then_some(()) };
        until("the name is registered", done).await.unwrap();
        let served = || async {
            let answer = cluster.ask_agent(0, &format!("id/{name}")).await.ok()?;
            (answer.status == 200).then_some(())
        };
        until("the name is served", served).await.unwrap();
    }
    let mut seen = HashSet::new();
    for _ in 0..5 {
        let [one, other] = ["whole", "pieces"].map(|name| {
            let (mut of, cluster) = (Seen::default(), &cluster);
            async move { of.take_packed(cluster, 0, name, BATCH).await }
        });
        let (one, other) = tokio::join!(one, other);
        for number in one.into_iter().chain(other) {
            assert!(seen.insert(number), "{number} came by both names");
        }
    }
    println!("{} numbers by two names, none twice", seen.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forms_codes_and_what_an_id_says_are_as_documented() {
    let cluster = Cluster::start(1, &[]).await.unwrap();
    registered(&cluster).await;
    let ask = async |path: &str| cluster.ask_agent(0, path).await.unwrap();
    let ready = || async { (ask("layout/snow").await.status == 200).then_some(()) };
    until("it mints", ready).await.unwrap();

    let decimal = ask("layout/snow?format=decimal").await.text().trim().to_owned();
    let readings = explain(&cluster, 0, &decimal).await;
    // Almost every number of enough bits is one of some time by others too.
    assert!(readings.iter().all(|reading| reading["preset"] != "discord"), "its name hides its numbers: {readings:?}");
    let snow = readings.iter().find(|reading| reading["preset"] == "snowflake").unwrap();
    assert_eq!((&snow["bits"], &snow["unit_ms"], &snow["texts"]["decimal"]), (&json!(64), &json!(1), &json!(decimal)));
    let first: Value = ask(&format!("explain/{decimal}")).await.json().unwrap();
    assert!(first["names"].as_array().unwrap().contains(&json!("snow")), "{first}");
    assert_eq!(snow["fields"], json!(["zero:1", "time:41", "token:10", "serial:12"]));
    let (hex, base32) = (ask("id/snow?format=hex").await.text(), ask("id/snow?format=base32").await.text());
    assert_eq!((hex.trim().len(), base32.trim().len()), (16, 13));
    let uuid = ask("id/uuid").await.text().trim().to_owned();
    assert!(uuid.len() == 36 && uuid.as_bytes()[14] == b'7', "{uuid}");
    for (name, prefix, len) in
        [("ulid", "", 26), ("typeid", "order_", 32), ("object", "", 24), ("xid", "", 20), ("ksuid", "", 27)]
    {
        let id = ask(&format!("id/{name}")).await.text().trim().to_owned();
        assert!(id.starts_with(prefix) && id.len() == len, "{name}: {id}");
        let readings = explain(&cluster, 0, &id).await;
        assert!(readings.iter().any(|reading| reading["names"] == json!([name])), "{name}: {id}: {readings:?}");
    }
    let js: u64 = ask("id/js").await.text().trim().parse().unwrap();
    assert!(js < 1 << 53, "{js}");
    let listed: Value = ask("generators").await.json().unwrap();
    let row = listed.as_array().unwrap().iter().find(|row| row["name"] == "snow").unwrap().clone();
    assert_eq!((&row["kind"], &row["per"], &row["capacity"]), (&json!("layout"), &json!("tick"), &json!(4_096)));
    // Of any kind by its name, as by its kind's address.
    assert_eq!(ask("id/default?format=hex").await.text().trim().len(), 16, "the Uniq64 of /uniq64");

    for (path, status, code) in [
        ("id/nobody", 404, "unknown_generator"),
        ("layout/default", 404, "unknown_generator"),
        ("uniq64/snow", 404, "unknown_generator"),
        ("id/snow?format=uri", 400, "bad_parameter"),
        ("id/short?format=decimal", 400, "bad_parameter"),
        ("id/snow?biz=AB", 400, "bad_parameter"),
        ("id/snow?n=0", 400, "bad_parameter"),
        ("id/seconds?n=100000", 400, "bad_parameter"),
    ] {
        let answer = ask(path).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{path}: {}", answer.text());
    }
    for (definition, why) in [
        (r#"{"kind":"layout","layout":"uidgenerator"}"#, "its time ends at 2024-11-20"),
        (r#"{"kind":"layout","layout":"snowflake","epoch":"2400-01-01T00:00:00Z"}"#, "has not come yet"),
        (r#"{"kind":"layout","layout":"twitter"}"#, "is not a layout; there are snowflake"),
        (r#"{"kind":"layout","layout":"snowflake","encoding":"ff1"}"#, "needs a secret"),
        (
            r#"{"kind":"layout","bits":64,"epoch":"2024-01-01T00:00:00Z","unit_ms":1,"fields":["time:42","serial:22"]}"#,
            "token is missing",
        ),
    ] {
        let answer = cluster.put(0, "bad", definition).await.unwrap();
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad_parameter"), "{}", answer.text());
        assert!(answer.text().contains(why), "{}", answer.text());
    }
}
