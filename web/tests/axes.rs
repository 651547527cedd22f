//! Axes of plain numbers: how they stand is shown, and they are raised by whoever may and says twice what he means.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod sample;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use net::rpc::lease::Refusal;
use sample::ask::{BODY_MAX, few, get, json_of, next_parts, watch};
use sample::{KEY, Sample, SampleAccounts, agent, axis, segment};
use serde_json::{Value, json};
use std::sync::Arc;
use tower::ServiceExt as _;
use web::{AgentState, AxisRow, Role};

fn console(role: Role) -> (Arc<Sample>, Arc<SampleAccounts>, Router) {
    let (sample, accounts) = (Arc::new(few()), Arc::new(SampleAccounts::with_key_of(role)));
    sample.change(|state| {
        let raised = AxisRow { floor: 9_001, granted: 9_001, increment: 2, last_extent: None, ..axis("parcels") };
        let new = AxisRow { per_day: 0, lasts_days: None, other_holds: Some(false), ..raised };
        let old = AxisRow { retired: true, ..axis("was") };
        state.axes = vec![axis("orders"), new, old];
        state.namespaces = ["orders", "parcels"].map(segment).into();
        let mut was = segment("was");
        was.retired = true;
        state.namespaces.push(was);
    });
    let router = web::router(Arc::clone(&sample) as _, Arc::clone(&accounts).auth());
    (sample, accounts, router)
}

async fn post(router: &Router, address: &str, body: &str) -> (StatusCode, Value) {
    let request = Request::post(address).header("host", "localhost").header("authorization", format!("Bearer {KEY}"));
    let request = request.header("content-type", "application/json").body(Body::from(body.to_owned())).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), BODY_MAX).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn an_axis_is_told_with_how_long_it_lasts() {
    let (_, _, router) = console(Role::Viewer);
    let rows = json_of(&router, "/api/axes").await;
    let orders = json!({
        "name": "orders", "first": "1", "last": "9223372036854775807", "increment": "1", "offset": "0",
        "floor": "1", "granted": "128001", "free": "9223372036854647807",
        "last_extent": {"master": 2, "from": "64001", "to": "128000"},
        "left": "36000", "per_day": 24_000, "lasts_days": 384_307_168_202_278_u64, "other_holds": true,
        "shown": null, "hours_at_least": null, "retired": false,
    });
    assert_eq!(rows[0], orders);
    assert_eq!(rows[1]["last_extent"], Value::Null);
    for page in ["/axes", "/events/axes"] {
        let html = match page {
            "/axes" => get(&router, page).await.2,
            _ => next_parts(&mut watch(&router, page).await).await.unwrap()["rows"].as_str().unwrap().to_owned(),
        };
        for shown in [
            "href=\"/namespaces/segment/orders\"",
            "128,001",
            "64,001 to 128,000<span class=\"sub\">Master 2",
            "36,000<span class=\"sub\">1 d 12 h",
            "24,000",
            "more than 100 years",
            "raised to 9,001",
            "number = 0 + 2 × place",
        ] {
            assert!(html.contains(shown), "{page}: {shown}: {html}");
        }
        assert!(!html.contains("data-open=\"raise\""), "a viewer raises nothing: {html}");
    }
}

#[tokio::test]
async fn an_axis_that_ends_soon_or_has_ended_is_pointed_out() {
    let (sample, _, router) = console(Role::Viewer);
    for (free, left, per_day, shown) in [
        (240_000, 0, 24_000, "<span class=\"sub bad\">10 d</span>"),
        (0, 24_000, 24_000, "<span class=\"sub bad\">1 d</span>"),
        (0, 0, 0, "<span class=\"sub bad\">all of it is granted</span>"),
        (960_000, 0, 24_000, "<span class=\"sub\">40 d</span>"),
    ] {
        let lasts_days = AxisRow::days(free + left, per_day);
        sample.change(|state| state.axes = vec![AxisRow { free, left, per_day, lasts_days, ..axis("orders") }]);
        let html = get(&router, "/axes").await.2;
        assert!(html.contains(shown), "{shown}: {html}");
        let overview = get(&router, "/").await.2;
        assert_eq!(overview.contains("axis of orders"), shown.contains("bad"), "{shown}: {overview}");
    }
    sample.change(|state| state.axes.clear());
    assert!(get(&router, "/axes").await.2.contains("No name of kind segment is registered"));
}

#[tokio::test]
async fn a_names_own_page_shows_its_axis_and_who_uses_it() {
    let (sample, _, router) = console(Role::Operator);
    sample.change(|state| {
        let mut one = agent("edge-01", AgentState::Well, &[700]);
        let used = &mut one.report.as_mut().unwrap().names[0];
        (used.name, used.kind) = ("orders".to_owned(), "segment");
        state.agents = vec![one, agent("edge-02", AgentState::Well, &[700])];
    });
    let (status, _, html) = get(&router, "/namespaces/segment/orders").await;
    assert_eq!(status, StatusCode::OK, "{html}");
    for shown in ["128,001", "1 d 12 h", "data-open=\"raise\"", "id=\"raise\"", "edge-01", "1,200"] {
        assert!(html.contains(shown), "{shown}: {html}");
    }
    assert!(!html.contains("edge-02") && !html.contains("Tokens of its type"), "{html}");
    assert!(!html.contains("data-open=\"retire\""), "an operator does not retire: {html}");
    let html = get(&router, "/namespaces/segment/parcels").await.2;
    assert!(html.contains("Every agent can serve it") && html.contains("not used lately"), "{html}");
    let html = get(&router, "/namespaces/segment/was").await.2;
    assert!(!html.contains("data-open=\"raise\"") && !html.contains("id=\"raise\""), "{html}");
}

#[tokio::test]
async fn an_axis_is_raised_by_an_operator_to_the_last_digit() {
    let (_, accounts, router) = console(Role::Operator);
    for body in [
        r#"{"to":9007199254740993}"#,
        r#"{"to":"9007199254740993","confirm":"orders"}"#,
        r#"{"to":"9007199254740993"}"#,
    ] {
        accounts.done.lock().unwrap().clear();
        let (status, row) = post(&router, "/api/axes/orders/raise", body).await;
        assert_eq!((status, &row["name"]), (StatusCode::OK, &json!("orders")), "{body}: {row}");
        assert_eq!(*accounts.done.lock().unwrap(), ["key all changes axis of orders", "raised to 9007199254740993"]);
    }
    accounts.done.lock().unwrap().clear();
    for (address, body, why) in [
        ("/api/axes/orders/raise", r#"{}"#, "missing field `to`"),
        ("/api/axes/orders/raise", r#"{"to":5,"confirm":"order"}"#, "say orders once more"),
        ("/api/axes/orders/raise", r#"{"to":5,"confirm":""}"#, "say orders once more"),
        ("/api/axes/orders/raise", r#"{"to":-5}"#, "a whole number"),
        ("/api/axes/orders/raise", r#"{"to":5.5}"#, "a whole number"),
        ("/api/axes/orders/raise", r#"{"to":18446744073709551616}"#, "a whole number"),
        ("/api/axes/orders/raise", r#"{"to":"5e3"}"#, "a whole number"),
        ("/api/axes/orders/raise", r#"{"to":5,"for":1}"#, "unknown field `for`"),
        ("/api/axes/orders/raise", "", "EOF"),
        ("/api/axes/NO/raise", r#"{"to":5}"#, "name"),
    ] {
        let (status, problem) = post(&router, address, body).await;
        assert_eq!((status, &problem["code"]), (StatusCode::BAD_REQUEST, &json!("bad_parameter")), "{body}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(why), "{body}: {problem}");
    }
    assert!(accounts.done.lock().unwrap().is_empty(), "nothing was asked of the masters");
    for (refusal, status, code, why) in [
        (Refusal::NotRaised { granted: 70, last: 99 }, StatusCode::CONFLICT, "not_raised", "a place from 70 to 99"),
        (Refusal::NoSuchName, StatusCode::NOT_FOUND, "not_found", "no"),
        (Refusal::NameRetired, StatusCode::CONFLICT, "generator_exists", "retired"),
        (Refusal::PeerAway, StatusCode::SERVICE_UNAVAILABLE, "masters_unavailable", "start the other master"),
    ] {
        *accounts.refusal.lock().unwrap() = Some(refusal);
        let (found, problem) = post(&router, "/api/axes/orders/raise", r#"{"to":5}"#).await;
        assert_eq!((found, &problem["code"]), (status, &json!(code)), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(why), "{problem}");
    }
    let (_, accounts, router) = console(Role::Viewer);
    let (status, problem) = post(&router, "/api/axes/orders/raise", r#"{"to":5}"#).await;
    assert_eq!((status, &problem["code"]), (StatusCode::FORBIDDEN, &json!("forbidden")));
    assert!(accounts.done.lock().unwrap().is_empty());
}

/// Places that agents show and the masters do not know stop a name: they are pointed out on its row and in the overview, with both ways on,
/// and an operator says that they are not true by the place that is named.
#[tokio::test]
async fn what_agents_show_of_an_axis_is_pointed_out_and_dismissed_by_an_operator() {
    let (sample, accounts, router) = console(Role::Operator);
    sample.change(|state| {
        state.axes = vec![AxisRow { shown: Some(500), hours_at_least: Some(3), ..axis("orders") }];
    });
    let html = get(&router, "/axes").await.2;
    for shown in [
        "up to place 500, which the masters do not know",
        "data-open=\"dismiss\"",
        "data-last=\"500\"",
        "within 4 hours",
    ] {
        assert!(html.contains(shown), "{shown}: {html}");
    }
    assert!(get(&router, "/").await.2.contains("orders: an agent shows that it was granted numbers up to place 500"));
    for body in [r#"{"last":500}"#, r#"{"last":"500","confirm":"orders"}"#] {
        accounts.done.lock().unwrap().clear();
        let (status, row) = post(&router, "/api/axes/orders/dismiss", body).await;
        assert_eq!((status, &row["shown"]), (StatusCode::OK, &json!("500")), "{body}: {row}");
        assert_eq!(*accounts.done.lock().unwrap(), ["key all changes axis of orders", "dismissed below 501"]);
    }
    accounts.done.lock().unwrap().clear();
    for (body, why) in [(r#"{}"#, "missing field `last`"), (r#"{"last":5,"confirm":"order"}"#, "say orders once more")]
    {
        let (status, problem) = post(&router, "/api/axes/orders/dismiss", body).await;
        assert_eq!((status, &problem["code"]), (StatusCode::BAD_REQUEST, &json!("bad_parameter")), "{body}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(why), "{body}: {problem}");
    }
    assert!(accounts.done.lock().unwrap().is_empty(), "nothing was asked of the masters");
    *accounts.refusal.lock().unwrap() = Some(Refusal::NotShown { name: "orders".parse().unwrap(), last: 5 });
    let (status, problem) = post(&router, "/api/axes/orders/dismiss", r#"{"last":5}"#).await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("not_shown")), "{problem}");
    let (_, accounts, router) = console(Role::Viewer);
    let (status, problem) = post(&router, "/api/axes/orders/dismiss", r#"{"last":500}"#).await;
    assert_eq!((status, &problem["code"]), (StatusCode::FORBIDDEN, &json!("forbidden")));
    assert!(accounts.done.lock().unwrap().is_empty());
    assert!(!get(&router, "/axes").await.2.contains("data-open=\"dismiss\""), "a viewer says nothing of it");
}

#[tokio::test]
async fn names_of_ranges_are_registered_by_the_form_of_the_page() {
    let (sample, accounts, router) = console(Role::Operator);
    let page = get(&router, "/namespaces").await.2;
    for field in
        ["first", "last", "increment", "offset", "threshold", "width", "keys_per_section", "solo_allowance", "set"]
    {
        assert!(page.contains(&format!("name=\"{field}\"")), "{field}: {page}");
    }
    sample.change(|state| state.namespaces.push(sample::segment("invoices")));
    let body =
        r#"{"name":"invoices","kind":"segment","first":"9007199254740993","increment":"2","threshold":30,"step":500}"#;
    let (status, row) = post(&router, "/api/namespaces", body).await;
    assert_eq!((status, &row["kind"]), (StatusCode::CREATED, &json!("segment")), "{row}");
    assert_eq!(*accounts.done.lock().unwrap(), ["key all changes invoices"]);
    for (body, why) in [
        (r#"{"name":"a","kind":"segment","increment":"0"}"#, "again and again"),
        (r#"{"name":"a","kind":"segment","first":"9","last":"8"}"#, "lies above last 8"),
        (r#"{"name":"a","kind":"segment","first":"1e3"}"#, "a whole number"),
        (r#"{"name":"a","kind":"segment","set":"x"}"#, "set"),
        (r#"{"name":"a","kind":"sequence","width":"64"}"#, "64"),
        (r#"{"name":"a","kind":"sequence","width":"319"}"#, "319 is too large here"),
        (r#"{"name":"a","kind":"sequence","width":33}"#, "32 or 63"),
        (r#"{"name":"a","kind":"segment","first":null}"#, "first: null says nothing"),
        (r#"{"name":"a","kind":"segment","step":null}"#, "step: null says nothing"),
        (r#"{"name":"a","kind":"segment","kind":"uniq64"}"#, "'kind' is there twice"),
        (r#"{"name":"a","kind":"segment","first":"1","first":"2"}"#, "'first' is there twice"),
        (r#"{"name":"a","kind":"sequence","keys_per_section":0}"#, "0"),
        (r#"{"name":"a","kind":"uniq64","first":"9"}"#, "first"),
    ] {
        let (status, problem) = post(&router, "/api/namespaces", body).await;
        assert_eq!((status, &problem["code"]), (StatusCode::BAD_REQUEST, &json!("bad_parameter")), "{body}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(why), "{body}: {problem}");
    }
}
