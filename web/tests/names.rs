//! Names as people manage them: what is noted about them is found, shown and changed, and who serves a name is shown.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod sample;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use common::kind::Kind;
use common::namespace::Namespace;
use net::rpc::lease::Refusal;
use sample::ask::{BODY_MAX, few, get, json_of, next_parts, watch};
use sample::{KEY, Sample, SampleAccounts, about, agent, furnish, namespace};
use serde_json::{Value, json};
use std::sync::Arc;
use tower::ServiceExt as _;
use web::{AgentState, CapacityRow, HeldRow, Role};

fn console(role: Role) -> (Arc<Sample>, Arc<SampleAccounts>, Router) {
    let (sample, accounts) = (Arc::new(few()), Arc::new(SampleAccounts::with_key_of(role)));
    sample.change(|state| {
        furnish(state);
        let mut shop = namespace("shop-orders", None);
        shop.about = about("Orders of the shop", "shop", "team-shop", &[("env", "test")]);
        let mut old = namespace("old", None);
        (old.retired, old.about) = (true, about("", "shop", "", &[]));
        state.namespaces.extend([shop, old]);
        state.namespaces[0].registered_by.clear();
    });
    let router = web::router(Arc::clone(&sample) as _, Arc::clone(&accounts).auth());
    (sample, accounts, router)
}

async fn put(router: &Router, address: &str, body: &Value) -> (StatusCode, Value) {
    let request = Request::put(address).header("host", "localhost").header("authorization", format!("Bearer {KEY}"));
    let request = request.header("content-type", "application/json").body(Body::from(body.to_string())).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), BODY_MAX).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

fn names(rows: &Value) -> Vec<String> {
    rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn names_are_found_by_what_is_noted_about_them() {
    let (_, _, router) = console(Role::Viewer);
    for (query, found) in [
        ("", vec!["default", "invoices", "shop-orders", "old"]),
        ("?q=", vec!["default", "invoices", "shop-orders", "old"]),
        ("?q=ORDERS", vec!["shop-orders"]),
        ("?q=numbers+on", vec!["invoices"]),
        ("?q=eu-west", vec!["invoices"]),
        ("?q=nobody", vec![]),
        ("?application=shop", vec!["shop-orders", "old"]),
        ("?application=shop&owner=team-shop", vec!["shop-orders"]),
        ("?label=env%3Dprod", vec!["invoices"]),
        ("?label=env", vec!["invoices", "shop-orders"]),
        ("?kind=string", vec!["invoices"]),
        ("?kind=uniq64&label=env", vec!["shop-orders"]),
    ] {
        let rows = json_of(&router, &format!("/api/namespaces{query}")).await;
        assert_eq!(names(&rows), found, "{query}");
        let (status, _, html) = get(&router, &format!("/namespaces{query}")).await;
        assert_eq!(status, StatusCode::OK, "{query}");
        for name in ["default", "invoices", "shop-orders", "old"] {
            let shown = html.contains(&format!("/{name}\"><bdi>"));
            assert_eq!(shown, found.contains(&name), "{query}: {name}: {html}");
        }
        assert!(html.contains(&format!("{} of 4 names", found.len())), "{query}: {html}");
        assert_eq!(html.contains("No name matches"), found.is_empty(), "{query}");
        let live = next_parts(&mut watch(&router, &format!("/events/namespaces{query}")).await).await.unwrap();
        assert_eq!(live["rows"].as_str().unwrap().matches("<bdi>").count() > 0, !found.is_empty(), "{query}");
    }
    for query in ["?kind=uniq96", "?label=%3Dprod", "?labels=env", "?q=%01"] {
        for page in ["/api/namespaces", "/namespaces"] {
            assert_eq!(get(&router, &format!("{page}{query}")).await.0, StatusCode::BAD_REQUEST, "{page}{query}");
        }
    }
    let rows = json_of(&router, "/api/namespaces?q=invoices").await;
    let noted = json!({"description": "Numbers on invoices", "application": "billing", "owner": "team-pay",
                       "labels": {"env": "prod", "region": "eu-west-1"}});
    assert_eq!(rows[0]["about"], noted);
}

#[tokio::test]
async fn what_is_noted_is_replaced_whole_and_what_is_wrong_with_it_is_said() {
    let (_, accounts, router) = console(Role::Operator);
    let (status, row) = put(&router, "/api/namespaces/invoices/about", &json!({"owner": "team-pay"})).await;
    assert_eq!((status, &row["name"]), (StatusCode::OK, &json!("invoices")), "{row}");
    assert_eq!(*accounts.done.lock().unwrap(), ["key all changes about invoices"]);
    let many: serde_json::Map<String, Value> = (0..17).map(|n| (format!("k{n}"), json!(""))).collect();
    for (body, why) in [
        (json!({"owner": "x".repeat(65)}), "owner has 65 characters: shorten it to 64"),
        (json!({"description": "x".repeat(257)}), "shorten it to 256"),
        (json!({"application": "a\nb"}), "application has a control character"),
        (json!({"labels": {"Env": "prod"}}), "'Env' is no key of a label"),
        (json!({"labels": many}), "leave out some, 16 is the most"),
        (json!({"owners": "x"}), "owners"),
        (json!({"labels": "env=prod"}), "labels"),
    ] {
        let (status, problem) = put(&router, "/api/namespaces/invoices/about", &body).await;
        assert_eq!((status, &problem["code"]), (StatusCode::BAD_REQUEST, &json!("bad_parameter")), "{body}");
        assert!(problem["detail"].as_str().unwrap().contains(why), "{body}: {problem}");
    }
    let (status, problem) = put(&router, "/api/namespaces/No/about", &json!({})).await;
    assert_eq!((status, &problem["code"]), (StatusCode::BAD_REQUEST, &json!("bad_parameter")), "{problem}");
    for (refusal, status, code) in [
        (Refusal::NoSuchName, StatusCode::NOT_FOUND, "not_found"),
        (Refusal::NameRetired, StatusCode::CONFLICT, "generator_exists"),
        (Refusal::AboutsFull { max: 9 }, StatusCode::CONFLICT, "too_many"),
        (Refusal::PeerAway, StatusCode::SERVICE_UNAVAILABLE, "masters_unavailable"),
    ] {
        *accounts.refusal.lock().unwrap() = Some(refusal);
        let (found, problem) = put(&router, "/api/namespaces/old/about", &json!({})).await;
        assert_eq!((found, &problem["code"]), (status, &json!(code)), "{problem}");
    }
    let (_, _, router) = console(Role::Viewer);
    assert_eq!(put(&router, "/api/namespaces/invoices/about", &json!({})).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_names_page_shows_what_is_noted_and_what_agents_say_of_it() {
    let (sample, _, router) = console(Role::Admin);
    sample.change(|state| {
        let text = Kind::String.default_token_type().unwrap().name();
        let plugins = serde_json::from_value(json!([{"plugin": "quota", "per_day": 10_000}])).unwrap();
        let namespace = &mut state.namespaces[1].namespace;
        let definition = namespace.definition().with_plugins(plugins);
        *namespace = Namespace::define(namespace.name().clone(), &definition).unwrap();
        let held = |token: &str| HeldRow {
            token_type: text,
            token: token.to_owned(),
            until: common::time::WallMs(state.now.0 + 1_000_000),
        };
        let [mut one, mut two, other] =
            ["text-1", "text-2", "number-1"].map(|name| agent(name, AgentState::Well, &[700]));
        (one.tokens, two.tokens) = (vec![held("1A"), held("1B")], vec![held("1C")]);
        let left = |agent: &mut web::AgentRow, left| {
            let (name, kind) = ("invoices".to_owned(), "string");
            agent.report.as_mut().unwrap().scarcest = Some(CapacityRow { name, kind, left, of: 1_000 });
        };
        left(&mut one, 900);
        left(&mut two, 125);
        two.state = AgentState::Late;
        state.agents = vec![one, two, other];
    });
    let (status, _, html) = get(&router, "/namespaces/string/invoices").await;
    assert_eq!(status, StatusCode::OK, "{html}");
    for shown in [
        "<title>Name invoices",
        "Numbers on invoices",
        "value=\"team-pay\"",
        ">\nenv=prod\nregion=eu-west-1\n</textarea>",
        "href=\"/namespaces?label=env%3Dprod\"",
        "href=\"/audit?about=invoices\"",
        "data-open=\"retire\"",
        "data-confirm=\"{name}\"",
        // Three tokens of 100 million each, 1,200 IDs a second by each of two agents, and the one that has least left.
        "300,000,000 a day",
        "2,400",
        "199,980 of 200,000 calls",
        "1.530 ms",
        "12.5 % <span class=\"sub\"><bdi>text-2</bdi>",
        "href=\"/leases/string2-include-letter/1A\"",
        "{&#34;plugin&#34;:&#34;quota&#34;,&#34;per_day&#34;:10000}",
    ] {
        assert!(html.contains(shown), "{shown}: {html}");
    }
    let place = |text: &str| html.find(text).unwrap_or_else(|| panic!("no {text}: {html}"));
    assert!(place("id=\"agent-text-2") < place("id=\"agent-text-1") && !html.contains("number-1"), "{html}");

    // What always exists has no note and is not retired; what was retired is not changed any more.
    for name in ["uniq64/default", "uniq64/old"] {
        let (status, _, html) = get(&router, &format!("/namespaces/{name}")).await;
        assert_eq!(status, StatusCode::OK, "{name}");
        assert!(!html.contains("data-open=\"retire\"") && !html.contains("id=\"note\""), "{name}: {html}");
    }
    assert!(get(&router, "/namespaces/uniq64/old").await.2.contains("retired: gives no more IDs"));
    for nothing in ["uniq64/invoices", "string/nobody", "uniq96/default", "string/NO", "string", "string/a/b"] {
        assert_eq!(get(&router, &format!("/namespaces/{nothing}")).await.0, StatusCode::NOT_FOUND, "{nothing}");
    }
    let (_, _, router) = console(Role::Viewer);
    let (_, _, html) = get(&router, "/namespaces/string/invoices").await;
    assert!(!html.contains("data-open=\"retire\"") && !html.contains("id=\"note\""), "{html}");
    assert!(html.contains("No agent holds a token of type"), "{html}");
}

#[tokio::test]
async fn a_dry_run_tells_what_a_name_would_give_and_registers_nothing() {
    let (_, accounts, router) = console(Role::Operator);
    let (address, dry) = ("/api/generators/bills", "/api/generators/bills?dry_run=true");
    let bills = json!({"kind": "string", "template": "B{date:%Y%m%d}{token}{serial:6}"});
    let (status, answer) = put(&router, dry, &bills).await;
    assert_eq!((status, &answer["new"], &answer["per_day"]), (StatusCode::OK, &json!(true), &json!("1000000")));
    assert_eq!(answer["examples"], json!(["B2026112012000042", "B2026112012000043", "B2026112013000042"]));
    assert_eq!((&answer["definition"]["step"], &answer["last_day"]), (&json!(15_625), &json!("9999-12-31")));
    assert_eq!(*accounts.done.lock().unwrap(), Vec::<String>::new(), "nothing was asked to be done");
    assert_eq!(
        put(&router, "/api/generators/bills?dry-run=true", &bills).await,
        (status, answer),
        "as agents spell it"
    );
    assert_eq!(*accounts.done.lock().unwrap(), Vec::<String>::new());
    let repeats = json!({"kind": "string", "template": "B{date:%Y%m%d}{token}"});
    assert_eq!(put(&router, dry, &repeats).await, put(&router, address, &repeats).await);
    for refusal in [Refusal::NameTaken, Refusal::NameRetired, Refusal::PeerAway, Refusal::TooMany { max: 9 }] {
        *accounts.refusal.lock().unwrap() = Some(refusal);
        let (status, problem) = put(&router, dry, &bills).await;
        assert_eq!(put(&router, address, &bills).await, (status, problem.clone()));
        assert!(!status.is_success(), "{problem}");
    }
    // It would be the real call to whoever does not know that spelling.
    for bad in ["dryrun=true", "dry-run=1", "dry-run=true&dry_run=true"] {
        assert_eq!(
            put(&router, &format!("/api/generators/bills?{bad}"), &bills).await.0,
            StatusCode::BAD_REQUEST,
            "{bad}"
        );
    }
    let (_, _, router) = console(Role::Viewer);
    assert_eq!(put(&router, dry, &bills).await.0, StatusCode::FORBIDDEN);
}
