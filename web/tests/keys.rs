//! API keys: made with a role for masters or with actions and names for agents, replaced and removed by admins alone, and shown with what
//! they open and until when.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod sample;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use common::account::SecretHash;
use common::api_key::{AgentScope, ApiKey, FormerKey, KeyAction, KeyScope};
use common::clock::Clock;
use common::time::{HOUR_MS, SpanMs, WallMs};
use sample::ask::{BODY_MAX, few, get, json_of};
use sample::{KEY, SampleAccounts};
use serde_json::{Value, json};
use std::sync::Arc;
use tower::ServiceExt as _;
use web::{MasterMode, Role};

fn console(role: Role) -> (Arc<SampleAccounts>, Router) {
    let accounts = Arc::new(SampleAccounts::with_key_of(role));
    (Arc::clone(&accounts), web::router(Arc::new(few()), accounts.auth()))
}

async fn ask_as(key: &str, router: &Router, method: &str, address: &str, body: &Value) -> (StatusCode, Value) {
    let request = Request::builder().method(method).uri(address).header("host", "localhost");
    let request = request.header("authorization", format!("Bearer {key}")).header("content-type", "application/json");
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let response = router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), BODY_MAX).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

async fn ask(router: &Router, method: &str, address: &str, body: Value) -> (StatusCode, Value) {
    ask_as(KEY, router, method, address, &body).await
}

/// Makes a key; gives the answer, and the key itself.
async fn made(router: &Router, form: Value) -> (Value, String) {
    let (status, mut answer) = ask(router, "POST", "/api/keys", form).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    let key = answer.as_object_mut().unwrap().remove("key").unwrap().as_str().unwrap().to_owned();
    assert!(key.starts_with("uniq_") && key.len() == KEY.len(), "{key}");
    (answer, key)
}

/// The status of that key at the console, and what it is told if it is refused.
async fn let_in(router: &Router, key: &str) -> (u16, String) {
    let (status, answer) = ask_as(key, router, "GET", "/api/me", &Value::Null).await;
    if status == StatusCode::UNAUTHORIZED {
        assert_eq!(answer["code"], "login_required", "{answer}");
    }
    (status.as_u16(), answer["detail"].as_str().unwrap_or_default().to_owned())
}

fn agents_key(name: &str) -> ApiKey {
    let names = ["orders-*".parse().unwrap(), "default".parse().unwrap()].into();
    let scope = AgentScope { actions: [KeyAction::Mint, KeyAction::Status].into(), names, quota: None };
    ApiKey::new(name.parse().unwrap(), KeyScope::Agents(scope), SecretHash::of(name.as_bytes()))
}

fn now() -> WallMs {
    Clock::system().wall()
}

#[tokio::test]
async fn a_key_is_made_for_masters_or_for_agents() {
    let (_, router) = console(Role::Admin);
    let (row, key) = made(&router, json!({"name": "ops", "role": "operator"})).await;
    let ops = json!({"name": "ops", "role": "operator", "actions": null, "names": null, "per_second": null, "per_day": null, "until": null, "former_until": null});
    assert_eq!(row, ops);
    let (_, me) = ask_as(&key, &router, "GET", "/api/me", &Value::Null).await;
    assert_eq!(me, json!({"name": "key ops", "role": "operator", "csrf": null}));

    let form = json!({"name": "shop", "actions": ["status", "mint", "mint"], "names": ["orders-*", "default"], "per_second": 100});
    let (row, key) = made(&router, form).await;
    let shop = json!({
        "name": "shop", "role": null, "actions": ["mint", "status"], "names": ["default", "orders-*"], "per_second": 100, "per_day": null, "until": null,
        "former_until": null,
    });
    assert_eq!(row, shop);
    let refused = (401, "this API key is for agents: it opens nothing at masters".to_owned());
    assert_eq!(let_in(&router, &key).await, refused);

    let (row, key) = made(&router, json!({"name": "week", "role": "viewer", "days": 7})).await;
    assert!(row["until"].as_str().unwrap().ends_with('Z') && row["former_until"].is_null(), "{row}");
    assert_eq!(let_in(&router, &key).await.0, 200);

    let rows = json_of(&router, "/api/keys").await;
    let names: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["all", "ops", "shop", "week"]);
    assert_eq!((&rows[1], &rows[2], &rows[3]), (&ops, &shop, &row));
    assert!(!rows.to_string().contains("uniq_"), "no key is told again: {rows}");
}

#[tokio::test]
async fn a_form_that_is_no_key_is_refused_and_makes_none() {
    let (accounts, router) = console(Role::Admin);
    let either = "write either a role, for a key for masters, or actions and names, for one for agents";
    let some = "write at least one of actions, and 1 to 8 of names";
    let nine: Vec<_> = (0..9).map(|n| format!("name-{n}")).collect();
    for (form, told) in [
        (json!({"name": "x"}), either),
        (json!({"name": "x", "actions": ["mint"]}), either),
        (json!({"name": "x", "names": ["*"]}), either),
        (json!({"name": "x", "role": "viewer", "actions": ["mint"], "names": ["*"]}), either),
        (json!({"name": "x", "role": "root"}), "role: "),
        (json!({"name": "x", "actions": [], "names": ["*"]}), some),
        (json!({"name": "x", "actions": ["mint"], "names": []}), some),
        (json!({"name": "x", "actions": ["mint"], "names": nine}), some),
        (
            json!({"name": "x", "actions": ["write"], "names": ["*"]}),
            "actions: an action is mint, define, explain or status",
        ),
        (json!({"name": "x", "actions": ["mint"], "names": ["a*b"]}), "names: a pattern is a generator's name"),
        (
            json!({"name": "x", "actions": ["mint"], "names": ["*"], "per_second": 0}),
            "per_second is a number from 1 to",
        ),
        (
            json!({"name": "x", "actions": ["mint"], "names": ["*"], "per_day": 1_000_000_001}),
            "per_day is a number from 1 to",
        ),
        (json!({"name": "x", "role": "viewer", "per_day": 5}), "per_second and per_day are for keys for agents"),
        (json!({"name": "x", "role": "viewer", "days": 0}), "days: 1 to 3650"),
        (json!({"name": "x", "role": "viewer", "days": 3_651}), "days: 1 to 3650"),
        (json!({"name": "x", "role": "viewer", "days": -1}), "days"),
        (json!({"name": "X Y", "role": "viewer"}), "name: "),
        (json!({"name": "x", "role": "viewer", "hash": "00"}), "hash"),
    ] {
        let (status, answer) = ask(&router, "POST", "/api/keys", form.clone()).await;
        let detail = answer["detail"].as_str().unwrap();
        assert_eq!((status, &answer["code"]), (StatusCode::BAD_REQUEST, &json!("bad_parameter")), "{form}: {answer}");
        assert!(detail.contains(told), "{form}: {detail}");
    }
    let (status, answer) = ask(&router, "POST", "/api/keys", json!({"name": "all", "role": "viewer"})).await;
    assert_eq!((status, &answer["code"]), (StatusCode::CONFLICT, &json!("name_taken")), "{answer}");
    for (name, form, status, told) in [
        ("all", json!({"keep_hours": 721}), 400, "keep_hours: at most 720"),
        ("all", json!({"keep_hours": -1}), 400, "keep_hours"),
        ("all", json!({"hours": 1}), 400, "hours"),
        ("nobody", json!({}), 404, "there is no key of this name"),
    ] {
        let (found, answer) = ask(&router, "POST", &format!("/api/keys/{name}/rotate"), form.clone()).await;
        assert_eq!(found.as_u16(), status, "{form}: {answer}");
        assert!(answer["detail"].as_str().unwrap().contains(told), "{form}: {answer}");
    }
    assert_eq!(accounts.credentials.lock().unwrap().keys.len(), 1);
    assert_eq!(let_in(&router, KEY).await.0, 200, "it was not replaced");
}

#[tokio::test]
async fn a_key_that_is_replaced_goes_on_for_its_hours() {
    let (accounts, router) = console(Role::Admin);
    let (row, first) = made(&router, json!({"name": "ops", "role": "viewer", "days": 30})).await;
    let rotate = async |form: Value| {
        let (status, answer) = ask(&router, "POST", "/api/keys/ops/rotate", form).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        assert_eq!((&answer["role"], &answer["until"]), (&row["role"], &row["until"]), "it opens the same");
        let kept =
            accounts.credentials.lock().unwrap().keys.iter().find(|key| key.name.as_str() == "ops").unwrap().clone();
        assert_eq!(answer["former_until"], kept.former.unwrap().until.to_string());
        answer["key"].as_str().unwrap().to_owned()
    };
    let second = rotate(json!({})).await;
    for key in [&first, &second] {
        assert_eq!(let_in(&router, key).await.0, 200);
    }
    // Its hours are over.
    for key in accounts.credentials.lock().unwrap().keys.iter_mut() {
        key.former = key.former.map(|former| FormerKey { until: now(), ..former });
    }
    let ended = (401, "this is not an API key of this cluster, or one that has ended".to_owned());
    assert_eq!((let_in(&router, &first).await, let_in(&router, &second).await.0), (ended.clone(), 200));

    let third = rotate(json!({"keep_hours": 0})).await;
    assert_eq!((let_in(&router, &second).await, let_in(&router, &third).await.0), (ended.clone(), 200));
    // Of those that went before only the last one goes on.
    let fourth = rotate(json!({"keep_hours": 720})).await;
    let fifth = rotate(json!({"keep_hours": 720})).await;
    let statuses = [let_in(&router, &third).await.0, let_in(&router, &fourth).await.0, let_in(&router, &fifth).await.0];
    assert_eq!(statuses, [401, 200, 200]);
    // The end of the key is that of both.
    for key in accounts.credentials.lock().unwrap().keys.iter_mut().filter(|key| key.name.as_str() == "ops") {
        key.until = Some(now());
    }
    assert_eq!((let_in(&router, &fourth).await, let_in(&router, &fifth).await), (ended.clone(), ended.clone()));

    let (status, _) = ask(&router, "DELETE", "/api/keys/ops", Value::Null).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let (status, answer) = ask(&router, "DELETE", "/api/keys/ops", Value::Null).await;
    assert_eq!((status, &answer["code"]), (StatusCode::NOT_FOUND, &json!("not_found")), "{answer}");
}

#[tokio::test]
async fn keys_are_an_admins_affair() {
    for role in [Role::Viewer, Role::Operator] {
        let (accounts, router) = console(role);
        accounts.credentials.lock().unwrap().keys.push(agents_key("shop"));
        let before = accounts.credentials.lock().unwrap().keys.clone();
        for (method, address, body) in [
            ("GET", "/api/keys", Value::Null),
            ("POST", "/api/keys", json!({"name": "x", "role": "viewer"})),
            ("POST", "/api/keys", json!({"name": "x", "actions": ["mint"], "names": ["*"]})),
            ("POST", "/api/keys/shop/rotate", json!({"keep_hours": 1})),
            ("DELETE", "/api/keys/shop", Value::Null),
        ] {
            let (status, answer) = ask(&router, method, address, body).await;
            assert_eq!((status, &answer["code"]), (StatusCode::FORBIDDEN, &json!("forbidden")), "{role}: {address}");
        }
        assert_eq!(*accounts.credentials.lock().unwrap().keys, before, "{role}");
        let html = get(&router, "/users").await.2;
        assert!(!html.contains("shop") && !html.contains("/api/keys"), "{role}: {html}");
    }
}

#[tokio::test]
async fn the_page_says_what_a_key_opens_and_when_it_ends() {
    let (accounts, router) = console(Role::Admin);
    let (now, days) = (now(), |days| SpanMs::days(days));
    let former = |until| Some(FormerKey { hash: SecretHash([1; 32]), until });
    accounts.credentials.lock().unwrap().keys.extend([
        ApiKey { until: Some(now), ..agents_key("over") },
        ApiKey { until: Some(now + days(6)), former: former(now), ..agents_key("soon") },
        ApiKey { until: Some(now + days(8)), former: former(now + days(1)), ..agents_key("later") },
    ]);
    let html = get(&router, "/users").await.2;
    let row = |name: &str| {
        let rest = html.split(&format!("<tr role=\"row\" id=\"key-{name}\">")).nth(1).unwrap();
        rest.split("</tr>").next().unwrap().to_owned()
    };
    let all = row("all");
    assert!(all.contains("<span class=\"pill role-admin\">admin</span>") && all.contains("no end"), "{all}");
    for (name, tone) in [("over", Some("bad\">ended")), ("soon", Some("warn\">ends soon")), ("later", None)] {
        let row = row(name);
        assert!(row.contains("<span class=\"pill\">agents</span> mint, status"), "{row}");
        assert!(row.contains("default orders-*") && row.contains("<time datetime=\""), "{row}");
        assert_eq!(row.matches("class=\"pill ").count(), usize::from(tone.is_some()), "{row}");
        assert!(tone.is_none_or(|tone| row.contains(&format!("<span class=\"pill {tone}</span>"))), "{row}");
        assert_eq!(row.contains("the key before it: until"), name == "later", "{row}");
        assert!(row.contains(&format!("data-open=\"rotate-key\" data-both data-name=\"{name}\"")), "{row}");
    }
    for shown in [
        "<input id=\"new-key-mint\" name=\"actions\" data-list type=\"checkbox\" value=\"mint\">",
        "name=\"keep_hours\" type=\"number\" min=\"0\" max=\"720\" value=\"24\"",
        "name=\"days\" type=\"number\" min=\"1\" max=\"3650\"",
    ] {
        assert!(html.contains(shown), "{shown}: {html}");
    }
}

#[tokio::test]
async fn by_a_wrong_clock_no_certificate_is_revoked() {
    let (sample, accounts) = (Arc::new(few()), Arc::new(SampleAccounts::with_key_of(Role::Admin)));
    let router = web::router(Arc::clone(&sample) as _, Arc::clone(&accounts).auth());
    let revoke = async || ask(&router, "POST", "/api/revocations", json!({"role": "client", "name": "billing"})).await;
    let set = |nth: usize, ahead: Option<i64>, skew: i64| {
        sample.change(|state| {
            state.masters.iter_mut().for_each(|row| row.calendar_ahead_ms = None);
            (state.masters[nth].calendar_ahead_ms, state.masters[1].clock_skew_ms) = (ahead, Some(skew));
        });
    };
    for (nth, ahead, skew) in [(0, Some(HOUR_MS), 0), (1, Some(HOUR_MS), 0), (0, None, 300_001), (0, None, -300_001)] {
        set(nth, ahead, skew);
        let (status, answer) = revoke().await;
        assert_eq!((status, &answer["code"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("clock_skew")), "{answer}");
    }
    assert!(accounts.credentials.lock().unwrap().revoked.is_empty());
    // Of one who is away nothing is known: whether it can be without is for the masters to say.
    set(1, Some(HOUR_MS), 900_000);
    let mode = sample.state.lock().unwrap().masters[1].mode;
    sample.change(|state| state.masters[1].mode = MasterMode::Silent);
    assert_eq!(revoke().await.0, StatusCode::CREATED);
    accounts.credentials.lock().unwrap().revoked.clear();
    sample.change(|state| state.masters[1].mode = mode);
    set(0, None, 300_000);
    assert_eq!(revoke().await.0, StatusCode::CREATED);
    assert_eq!(accounts.credentials.lock().unwrap().revoked.len(), 1);
}
