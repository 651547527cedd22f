//! Plain numbers over HTTP.

use super::tests::App;
use crate::minter::kit::Kit;
use common::namespace::{Definition, Namespace};

fn define(app: &App, name: &str, json: &str) {
    let definition: Definition = serde_json::from_str(json).unwrap();
    app.minter.define(Namespace::define(name.parse().unwrap(), &definition).unwrap()).unwrap();
}

fn app() -> App {
    let kit = Kit::in_memory();
    let minter = kit.start_bare();
    minter.feed_segments();
    let app = App::over(kit, minter);
    define(&app, "orders", r#"{"kind":"segment","first":1000}"#);
    app
}

#[tokio::test]
async fn numbers_come_in_every_form_there_is_and_need_no_lease() {
    let app = app();
    assert_eq!(app.get("/segment/orders").await.text(), "1000\n");
    assert_eq!(app.post("/segment/orders?n=3").await.text(), "1001\n1002\n1003\n");
    assert_eq!(app.get("/id/orders").await.text(), "1004\n");
    let json = app.accept("/segment/orders?n=2", "application/json").await;
    assert_eq!(json.text(), r#"{"ids":["1005","1006"]}"#);
    let packed = app.accept("/segment/orders?n=2", "application/octet-stream").await;
    assert_eq!(packed.body, [1007u64.to_be_bytes(), 1008u64.to_be_bytes()].concat());
    assert_eq!(app.problem("/uniq64").await, (503, "no_lease".to_owned()));
}

#[tokio::test]
async fn a_large_batch_is_whole_whatever_segments_it_comes_from() {
    let app = app();
    let answer = app.get("/segment/orders?n=100000").await;
    let numbers: Vec<u64> = answer.text().lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(numbers, (1_000..101_000).collect::<Vec<_>>());
}

#[tokio::test]
async fn increments_show_in_every_form_and_in_the_length() {
    let app = app();
    define(&app, "odd", r#"{"kind":"segment","increment":2,"offset":1,"first":4}"#);
    assert_eq!(app.get("/segment/odd?n=3").await.text(), "9\n11\n13\n");
    let packed = app.accept("/segment/odd?n=2", "application/octet-stream").await;
    assert_eq!(packed.body, [15u64.to_be_bytes(), 17u64.to_be_bytes()].concat());
    let json = app.accept("/segment/odd?n=2", "application/json").await;
    assert_eq!(json.text(), r#"{"ids":["19","21"]}"#);
    assert_eq!(json.header("content-length"), json.body.len().to_string());
}

#[tokio::test]
async fn texts_are_as_the_definition_writes_them_and_packed_numbers_are_numbers() {
    let app = app();
    define(&app, "bills", r#"{"kind":"segment","encoding":{"form":"decimal","length":8,"prefix":"B-"},"step":10000}"#);
    assert_eq!(app.get("/segment/bills").await.text(), "B-00000001\n");
    assert_eq!(app.post("/id/bills?n=2").await.text(), "B-00000002\nB-00000003\n");
    let json = app.accept("/segment/bills?n=2", "application/json").await;
    assert_eq!(json.text(), r#"{"ids":["B-00000004","B-00000005"]}"#);
    let packed = app.accept("/segment/bills?n=2", "application/octet-stream").await;
    assert_eq!(packed.body, [6u64.to_be_bytes(), 7u64.to_be_bytes()].concat());
    let many = app.get("/segment/bills?n=50000").await;
    let wanted: String = (8..50_008).map(|number| format!("B-{number:08}\n")).collect();
    assert_eq!((many.text() == wanted, many.header("content-length")), (true, wanted.len().to_string().as_str()));
    assert_eq!(app.problem("/segment/bills?format=hex").await, (400, "bad_parameter".to_owned()));
    assert_eq!(app.get("/explain/B-00000042").await.json()["names"], serde_json::json!(["bills"]));
    // With an increment, and in other digits.
    define(&app, "odd", r#"{"kind":"segment","increment":2,"offset":31,"encoding":{"form":"base32","length":3}}"#);
    assert_eq!(app.get("/segment/odd?n=3").await.text(), "011\n013\n015\n");
    // Whoever hides numbers gives no other form of them.
    define(&app, "short", r#"{"kind":"segment","encoding":{"form":"sqids","length":6}}"#);
    assert_eq!(app.get("/segment/short?n=20").await.text().lines().filter(|text| text.len() == 6).count(), 20);
    let packed = app.accept("/segment/short", "application/octet-stream").await;
    assert_eq!(packed.problem(), (400, "bad_parameter".to_owned()));
}

#[tokio::test]
async fn what_such_a_request_cannot_say_is_refused_and_costs_no_number() {
    let app = app();
    for bad in ["n=0", "n=100001", "n=x", "format=hex", "format=decimal", "biz=1", "n=1&n=1", "key=1"] {
        assert_eq!(app.problem(&format!("/segment/orders?{bad}")).await, (400, "bad_parameter".to_owned()), "{bad}");
    }
    for unknown in ["/segment/none", "/segment/default", "/uniq64/orders", "/segment"] {
        assert_eq!(app.problem(unknown).await.0, 404, "{unknown}");
    }
    define(&app, "small", r#"{"kind":"segment","step":10,"step_max":10,"step_min":10}"#);
    assert_eq!(app.problem("/segment/small?n=61").await, (400, "bad_parameter".to_owned()));
    assert_eq!(app.get("/segment/small?n=60").await.text().lines().count(), 60);
    assert_eq!(app.get("/segment/orders").await.text(), "1000\n", "nothing was lost");
}

#[tokio::test]
async fn what_is_held_is_shown_and_counted() {
    let app = app();
    app.get("/segment/orders?n=30").await;
    let seen = |view: &serde_json::Value| {
        let all = view.as_array().unwrap().clone();
        all.into_iter().find(|one| one["name"] == "orders").unwrap()
    };
    let mut view = seen(&app.get("/generators").await.json());
    for _ in 0..1_000 {
        if view["segments"]["next"].is_object() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        view = seen(&app.get("/generators").await.json());
    }
    assert_eq!(view["segments"]["current"], serde_json::json!({"first": "1030", "last": "1099"}));
    assert_eq!(view["segments"]["next"], serde_json::json!({"first": "1100", "last": "1199"}));
    assert_eq!((&view["segments"]["left"], view.get("serial"), &view["per"]), (&"170".into(), None, &"ever".into()));
    assert!(view.get("token_type").is_none());
    assert_eq!(seen(&app.get("/status").await.json()["generators"])["segments"]["fetched"], 2);
    let metrics = app.get("/metrics").await;
    for line in [
        "uniq_ids_minted_total{kind=\"segment\"} 30",
        "uniq_segments_fetched_total 2",
        "uniq_segment_numbers_fetched_total 200",
        "uniq_segment_window_numbers_left{name=\"orders\"}",
    ] {
        assert!(metrics.text().contains(line), "{line}: {}", metrics.text());
    }
}

#[tokio::test]
async fn nothing_is_read_from_a_plain_number() {
    let app = app();
    let answer = app.get("/explain/999").await;
    assert_eq!(answer.problem(), (400, "bad_parameter".to_owned()));
    assert!(answer.text().contains("plain number"), "{}", answer.text());
}

#[tokio::test]
async fn a_plain_number_is_of_the_names_that_may_have_given_it() {
    let app = app();
    define(&app, "snow", r#"{"kind":"layout","layout":"snowflake"}"#);
    define(&app, "invoices", r#"{"kind":"segment","first":1001}"#);
    let told = app.get("/explain/1001").await.json();
    assert_eq!(
        (&told["kind"], &told["names"]),
        (&"segment".into(), &serde_json::json!(["invoices", "orders"])),
        "{told}"
    );
    assert_eq!((&told["time"], &told["token"]), (&serde_json::Value::Null, &serde_json::Value::Null), "{told}");
    assert_eq!((&told["also"][0]["kind"], &told["also"][0]["names"][0]), (&"layout".into(), &"snow".into()), "{told}");
}

#[tokio::test]
async fn plugins_see_plain_numbers_too() {
    let app = app();
    define(&app, "few", r#"{"kind":"segment","plugins":[{"plugin":"quota","per_day":5},{"plugin":"stats"}]}"#);
    assert_eq!(app.get("/segment/few?n=4").await.text(), "1\n2\n3\n4\n");
    assert_eq!(app.problem("/segment/few?n=4").await, (429, "quota_exceeded".to_owned()));
    assert_eq!(app.get("/id/few").await.text(), "5\n", "a refusal takes none");
}
