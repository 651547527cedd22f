//! Axes at two real masters: what agents were granted of them is shown and counted, and an operator raises one.

use common::segment::Shown;
use net::rpc::lease::{DefineRequest, FindRequest, LeaseServiceClient, Refusal};
use net::rpc::ranges::{SegmentGrant, SegmentRequest};
use net::rpc::transport;
use serde_json::{Value, json};
use std::time::Duration;
use tests::cluster::{Cluster, until};
use tests::lessee::{CALL_MAX, Lessee};

/// A segment, as an agent asks for it.
async fn segment(
    who: &Lessee,
    master: &LeaseServiceClient,
    name: &str,
    wanted: u32,
    seen: Shown,
) -> Result<SegmentGrant, Refusal> {
    let (agent_id, session) = (who.agent_id.clone(), who.session);
    let request = SegmentRequest { agent_id, session, cluster: None, name: name.parse().unwrap(), wanted, seen };
    master.request_segment(transport::deadline_in(CALL_MAX), request).await.unwrap()
}

/// Takes a name in use, as an agent does before it gives the first number.
async fn take_in_use(who: &Lessee, master: &LeaseServiceClient, name: &str) {
    let find = FindRequest { cluster: None, names: vec![name.parse().unwrap()] };
    let found = master.find_namespaces(transport::deadline_in(CALL_MAX), find).await.unwrap().unwrap();
    let (agent_id, namespace) = (who.agent_id.clone(), found.names[0].namespace.clone());
    let request = DefineRequest { agent_id, cluster: None, caller: None, namespace };
    master.use_namespace(transport::deadline_in(CALL_MAX), request).await.unwrap().unwrap();
}

/// The axis of a name as a master shows it.
async fn axis(cluster: &Cluster, master: usize, name: &str) -> Value {
    let answer = cluster.client.console(cluster.masters[master].daemon.http, "/api/axes").await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json().unwrap().as_array().unwrap().iter().find(|row| row["name"] == name).cloned().unwrap_or_default()
}

/// A metric of a name.
async fn metric(cluster: &Cluster, master: usize, metric: &str, name: &str) -> Option<u64> {
    let http = cluster.masters[master].daemon.http;
    let nobody = cluster.client.get(&format!("http://{http}/metrics")).await.unwrap().text();
    assert!(nobody.contains("uniq_master_pool_") && !nobody.contains(name), "{nobody}");
    let text = cluster.client.console(http, "/metrics").await.unwrap().text();
    let line = format!("{metric}{{name=\"{name}\"}} ");
    text.lines().find_map(|it| it.strip_prefix(&line)).map(|value| value.parse().unwrap())
}

/// A number that comes as a text.
fn whole(text: &serde_json::Value) -> u64 {
    text.as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_axis_is_shown_as_it_is_granted_and_raised_by_an_operator_for_ever() {
    let mut cluster = Cluster::start(0, &[]).await.unwrap();
    cluster.all_ready().await.unwrap();
    let [one, two] = [0, 1].map(|master| cluster.masters[master].daemon.http);
    let client = cluster.client.clone();
    let (first, last) = ("1000", 1_000_000_u64);
    let orders = json!({"name": "orders", "kind": "segment", "first": first, "last": last, "step": 100});
    assert_eq!(client.change(one, "/api/namespaces", &orders).await.unwrap().status, 201);
    let other = json!({"name": "text", "kind": "uniq64"});
    assert_eq!(client.change(one, "/api/namespaces", &other).await.unwrap().status, 201);
    let new = axis(&cluster, 0, "orders").await;
    let expected = json!({
        "name": "orders", "first": "1000", "last": last.to_string(), "increment": "1", "offset": "0", "floor": "1000", "granted": "1000",
        "free": "999001", "last_extent": null, "left": "0", "per_day": 0, "lasts_days": null, "other_holds": false,
        "shown": null, "hours_at_least": 2, "retired": false,
    });
    assert_eq!(new, expected);

    // Segments by either master: each has its own extents, and says of the other what it knows.
    let agent = Lessee::new("by-hand").unwrap();
    let mut masters = Vec::new();
    for master in &cluster.masters {
        let master = Lessee::connect(master.agent_listen).await.unwrap();
        agent.heartbeat(&master).await.unwrap().unwrap();
        masters.push(master);
    }
    // Nothing is granted of a name before it is in use.
    let unused = segment(&agent, &masters[1], "orders", 100, Shown::default()).await;
    assert_eq!(unused, Err(Refusal::NoSuchName));
    take_in_use(&agent, &masters[0], "orders").await;
    let mut granted = Vec::new();
    for master in &masters {
        for _ in 0..3 {
            granted.push(segment(&agent, master, "orders", 100, Shown::default()).await.unwrap().span);
        }
    }
    // Who says without a proof that it has more stops nothing.
    let forged = Shown { to: 1 << 63, proof: Some([7; 32]) };
    for master in &masters {
        assert_eq!(segment(&agent, master, "orders", 0, forged).await, Ok(SegmentGrant::default()));
    }
    let not_shown = json!({"last": 5, "confirm": "orders"});
    let answer = client.change(one, "/api/axes/orders/dismiss", &not_shown).await.unwrap();
    assert_eq!((answer.status, answer.code()), (409, "not_shown".to_owned()), "{}", answer.text());
    granted.sort_unstable();
    assert!(granted.windows(2).all(|pair| pair[0].to <= pair[1].from), "{granted:?}");
    for master in [0, 1] {
        let row = axis(&cluster, master, "orders").await;
        assert!(whole(&row["granted"]) > granted[5].from, "{row}");
        assert!(whole(&row["left"]) >= 3_200 && row["per_day"].as_u64().unwrap() > 0, "{row}");
        assert!(whole(&row["last_extent"]["to"]) < whole(&row["granted"]), "{row}");
        let count = async |name: &str| metric(&cluster, master, name, "orders").await.unwrap();
        assert_eq!(count("uniq_master_segments_total").await, 3);
        assert_eq!(count("uniq_master_segment_places_total").await, 300);
        // The other master has one by the time that it is asked.
        let waits = count("uniq_master_segment_waits_total").await;
        assert!(waits >= u64::from(master == 0), "the first call waits for an extent");
        assert!(count("uniq_master_extents_total").await >= 1);
        assert_eq!(count("uniq_master_axis_granted").await, whole(&row["granted"]));
        assert_eq!(count("uniq_master_axis_left").await, whole(&row["left"]));
        assert_eq!(metric(&cluster, master, "uniq_master_axis_granted", "text").await, None);
    }
    let (row, _) = until("each hears that the other one grants", async || {
        let [one, two] = [axis(&cluster, 0, "orders").await, axis(&cluster, 1, "orders").await];
        (one["other_holds"] == true && two["other_holds"] == true).then_some(one)
    })
    .await
    .unwrap();
    let before = whole(&row["granted"]);

    // Not without saying the name, not lower, not beyond its end, not what is none.
    for (path, body, status, code, why) in [
        ("orders", json!({"to": 500_000}), 400, "bad_parameter", "say orders once more"),
        ("orders", json!({"to": before - 1, "confirm": "orders"}), 409, "not_raised", "an axis is never lowered"),
        ("orders", json!({"to": last + 1, "confirm": "orders"}), 409, "not_raised", "ends with 1000000"),
        ("text", json!({"to": 500_000, "confirm": "text"}), 404, "not_found", ""),
        ("nobody", json!({"to": 500_000, "confirm": "nobody"}), 404, "not_found", ""),
    ] {
        let answer = client.change(two, &format!("/api/axes/{path}/raise"), &body).await.unwrap();
        assert_eq!((answer.status, answer.code()), (status, code.to_owned()), "{body}: {}", answer.text());
        assert!(answer.text().contains(why), "{body}: {}", answer.text());
    }
    let raise = json!({"to": "500000", "confirm": "orders"});
    let answer = client.change(two, "/api/axes/orders/raise", &raise).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        (&answer.json().unwrap()["floor"], &answer.json().unwrap()["name"]),
        (&json!("500000"), &json!("orders"))
    );
    let again = client.change(one, "/api/axes/orders/raise", &raise).await.unwrap();
    assert_eq!(again.status, 200, "it is so: {}", again.text());
    for (nth, master) in masters.iter().enumerate() {
        let next = segment(&agent, master, "orders", 100, Shown::default()).await.unwrap().span;
        assert!(next.from >= 500_000, "{next:?}");
        assert_eq!(axis(&cluster, nth, "orders").await["floor"], "500000");
        assert_eq!(metric(&cluster, nth, "uniq_master_axis_raises_total", "orders").await, Some(1));
        let http = cluster.masters[nth].daemon.http;
        let lines = client.console(http, "/api/audit?action=axis.raise").await.unwrap().json().unwrap();
        assert_eq!(lines.as_array().unwrap().len(), 1, "{lines}");
        assert_eq!((&lines[0]["who"], &lines[0]["detail"]), (&json!("admin"), &json!("nothing below place 500000")));
    }

    // Alone no master raises, and it says why.
    cluster.master(0).unwrap().daemon.terminate().await.unwrap();
    let higher = json!({"to": 900_000, "confirm": "orders"});
    let (answer, _) = until("the other one is missed", async || {
        let answer = client.change(two, "/api/axes/orders/raise", &higher).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        (answer.status == 503 && answer.text().contains("start the other master")).then_some(answer)
    })
    .await
    .unwrap();
    assert_eq!(answer.code(), "masters_unavailable");
    assert_eq!(axis(&cluster, 1, "orders").await["floor"], "500000");
}
