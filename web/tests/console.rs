//! What the console answers: every route, its refusals, its headers, and the live view.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

mod sample;

use axum::Router;
use axum::body::{Body, BodyDataStream, to_bytes};
use axum::http::{Method, Request, Response, StatusCode};
use common::clock::TestClock;
use common::time::DAY_MS;
use common::token::TokenType;
use futures::StreamExt as _;
use sample::{Book, KEY, NOW, Sample, lease, many};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tower::ServiceExt as _;
use web::{AuditRow, LeaseStage, Role, Unavailable};

const BODY_MAX: usize = 64 << 20;
const HOSTILE: &str = "</td><script>alert('x')</script><img src=x onerror=alert(1)>\"'&\r\nevent: parts";

fn console(sample: Sample) -> (Arc<Sample>, Router) {
    let sample = Arc::new(sample);
    (Arc::clone(&sample), web::router(sample, Arc::new(Book::with_key()).door()))
}

fn few() -> Sample {
    Sample::new(vec![
        lease(TokenType::String2IncludeLetter, 46, LeaseStage::Held, "edge-01"),
        lease(TokenType::Uint2, 5, LeaseStage::Granting, "edge-02"),
        lease(TokenType::Uint2, 6, LeaseStage::Held, "orders-01"),
        lease(TokenType::Uint2, 7, LeaseStage::Ending, "edge-01"),
        lease(TokenType::Uint2, 4095, LeaseStage::Resting, "edge-010"),
    ])
}

async fn ask(router: &Router, method: Method, address: &str) -> Response<Body> {
    let request = Request::builder().method(method).uri(address).header("authorization", format!("Bearer {KEY}"));
    let request = request.body(Body::empty()).unwrap();
    router.clone().oneshot(request).await.unwrap()
}

async fn get(router: &Router, address: &str) -> (StatusCode, String, String) {
    let response = ask(router, Method::GET, address).await;
    let kind = response.headers().get("content-type").map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default();
    let status = response.status();
    let body = to_bytes(response.into_body(), BODY_MAX).await.unwrap();
    (status, kind, String::from_utf8(body.into()).unwrap())
}

async fn json_of(router: &Router, address: &str) -> Value {
    let (status, kind, body) = get(router, address).await;
    assert_eq!((status, kind.as_str()), (StatusCode::OK, "application/json"), "{address}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// The next `parts` event of a stream.
async fn next_parts(events: &mut BodyDataStream) -> Option<Value> {
    loop {
        let text = String::from_utf8(events.next().await?.unwrap().into()).unwrap();
        if text.starts_with(':') {
            continue; // keep-alive
        }
        let data = text.strip_prefix("event: parts\ndata: ").and_then(|rest| rest.strip_suffix("\n\n"));
        return Some(serde_json::from_str(data.expect(&text)).unwrap());
    }
}

async fn watch(router: &Router, address: &str) -> BodyDataStream {
    let response = ask(router, Method::GET, address).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    response.into_body().into_data_stream()
}

#[tokio::test]
async fn a_lease_is_listed_as_the_contract_says() {
    let (_, router) = console(Sample::new(vec![lease(TokenType::Uint2, 5, LeaseStage::Held, "edge-01")]));
    let row = json!([{
        "type": "uint2", "token": "5", "state": "held", "agent_id": "edge-01",
        "session": format!("{:032x}", 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834_u128.wrapping_mul(6)),
        "address": "10.4.0.6:40005", "g": 6,
        "from": "2026-11-18T00:00:00.000Z", "until": "2026-11-27T12:35:06.000Z",
        "renewed": "2026-11-20T12:35:06.000Z", "reuse_at": "2026-11-29T00:00:00.000Z",
    }]);
    assert_eq!(json_of(&router, "/api/leases").await, row);
}

#[tokio::test]
async fn both_masters_are_listed() {
    let (sample, router) = console(few());
    sample.change(Sample::lose_peer);
    let rows = json_of(&router, "/api/masters").await;
    assert_eq!(
        rows[1],
        json!({
            "id": 2, "this": false, "mode": "silent", "last_heartbeat": "2026-11-20T13:05:06.000Z", "lsn": 18204,
            "clock_skew_ms": -12, "permit": null, "version": env!("CARGO_PKG_VERSION"),
        })
    );
    assert_eq!((&rows[0]["id"], &rows[0]["mode"]), (&json!(1), &json!("ready-alone")));
}

#[tokio::test]
async fn filters_narrow_the_list() {
    let (_, router) = console(few());
    for (query, tokens) in [
        ("", vec!["1A", "5", "6", "7", "4095"]),
        ("?type=&state=&agent=", vec!["1A", "5", "6", "7", "4095"]),
        ("?type=uint2", vec!["5", "6", "7", "4095"]),
        ("?state=held", vec!["1A", "6"]),
        ("?agent=edge-01", vec!["1A", "7"]),
        ("?agent=edge-01*", vec!["1A", "7", "4095"]),
        ("?agent=edge*&type=uint2&state=granting", vec!["5"]),
        ("?type=uint1", vec![]),
    ] {
        let rows = json_of(&router, &format!("/api/leases{query}")).await;
        let found: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["token"].as_str().unwrap()).collect();
        assert_eq!(found, tokens, "{query}");

        let (status, _, page) = get(&router, &format!("/leases{query}")).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(page.matches("<th role=\"rowheader\"").count(), tokens.len(), "{query}");
    }
}

#[tokio::test]
async fn what_a_filter_cannot_mean_is_refused() {
    let (_, router) = console(few());
    for query in [
        "type=uint3",
        "type=UINT2",
        "state=free",
        "agent=%3Cscript%3E",
        "agent=a%20b",
        "agent=*a",
        "typ=uint2",
        "type=uint2&type=uint1",
        "agent=%ff",
    ] {
        let (status, kind, body) = get(&router, &format!("/api/leases?{query}")).await;
        assert_eq!((status, kind.as_str()), (StatusCode::BAD_REQUEST, "application/problem+json"), "{query}: {body}");
        let problem: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&problem["code"], &problem["status"]), (&json!("bad_parameter"), &json!(400)), "{query}");

        let (status, kind, page) = get(&router, &format!("/leases?{query}")).await;
        assert_eq!((status, kind.as_str()), (StatusCode::BAD_REQUEST, "text/html; charset=utf-8"), "{query}");
        assert!(!page.contains("<script>"), "{page}");
        assert_eq!(get(&router, &format!("/events/leases?{query}")).await.0, StatusCode::BAD_REQUEST, "{query}");
    }
    for query in ["page=0", "page=x", "page=10001", "page=99999999999999999999"] {
        assert_eq!(get(&router, &format!("/leases?{query}")).await.0, StatusCode::BAD_REQUEST, "{query}");
    }
}

#[tokio::test]
async fn unknown_addresses_and_methods_are_refused_each_in_its_form() {
    let (_, router) = console(few());
    for address in ["/api", "/api/", "/api/nothing", "/api/leases/uint2/5"] {
        let (status, kind, body) = get(&router, address).await;
        assert_eq!((status, kind.as_str()), (StatusCode::NOT_FOUND, "application/problem+json"), "{address}");
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["code"], "not_found");
    }
    for address in ["/nothing", "/assets/nothing.js", "/assets/../Cargo.toml", "/assets/%2e%2e%2fCargo.toml", "/apish"]
    {
        let (status, kind, _) = get(&router, address).await;
        assert_eq!((status, kind.as_str()), (StatusCode::NOT_FOUND, "text/html; charset=utf-8"), "{address}");
    }
    for address in ["/", "/events", "/api/leases", "/api/masters", "/api/pools", "/healthz", "/readyz", "/metrics"] {
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS] {
            let response = ask(&router, method.clone(), address).await;
            assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{method} {address}");
            assert_eq!(response.headers()["content-type"], "application/problem+json");
            assert_eq!(response.headers()["allow"], "GET,HEAD", "{method} {address}");
        }
        assert_eq!(ask(&router, Method::HEAD, address).await.status(), StatusCode::OK, "HEAD {address}");
    }
}

#[tokio::test]
async fn every_answer_carries_the_headers() {
    let (sample, router) = console(few());
    let csp = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
               base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
    let check = async |method: Method, address: &str, cache: &str| {
        let response = ask(&router, method, address).await;
        let headers = response.headers();
        assert_eq!(headers["content-security-policy"], csp, "{address}");
        assert_eq!(headers["x-content-type-options"], "nosniff", "{address}");
        assert_eq!(headers["referrer-policy"], "same-origin", "{address}");
        let found = headers.get_all("cache-control").iter().collect::<Vec<_>>();
        assert_eq!(found, [cache], "{address}");
    };
    for address in ["/", "/?page=0", "/nothing", "/api", "/api/leases", "/api/leases?type=x", "/events", "/readyz"] {
        check(Method::GET, address, "no-store").await;
    }
    check(Method::POST, "/", "no-store").await;
    check(Method::GET, "/assets/console.js", "no-cache").await;
    sample.change(|state| state.unavailable = Some(Unavailable::Overloaded));
    check(Method::GET, "/", "no-store").await;
}

/// Every page, each with the part of the events that belongs to it.
const PAGES: [&str; 10] = [
    "/",
    "/leases",
    "/leases/uint2/6",
    "/agents",
    "/namespaces",
    "/whitelist",
    "/audit",
    "/explain",
    "/users",
    "/settings",
];

#[tokio::test]
async fn nothing_from_outside_becomes_markup() {
    let (sample, book) = (Arc::new(few()), Arc::new(Book::with_key()));
    let router = web::router(Arc::clone(&sample) as _, Arc::clone(&book).door());
    let hostile = || HOSTILE.to_owned();
    sample.change(|state| {
        for lease in &mut state.leases {
            lease.address = hostile();
        }
        state.masters[1].version = Some(hostile());
        state.ready = Err(hostile());
        let mut agent = sample::agent("edge-01", web::AgentState::Well, &[1, 2, 3]);
        agent.address = hostile();
        let report = agent.report.as_mut().unwrap();
        (report.version, report.fresh_because, report.not_ready) = (hostile(), Some(hostile()), Some(hostile()));
        report.scarcest.as_mut().unwrap().name = hostile();
        state.agents = vec![agent];
        let mut line = sample::line(1, common::audit::Action::Deny, "uint2 6");
        (line.who, line.from, line.detail) = (hostile(), hostile(), hostile());
        let other = AuditRow { number: 2, subject: hostile(), ..line.clone() };
        state.audit = vec![line, other];
        book.audit.lock().unwrap().clone_from(&state.audit);
        let mut namespace = sample::namespace("orders", Some("{date:%Y%m%d}{token}{serial:8}"));
        namespace.registered_by = hostile();
        namespace.definition.token_type = Some(hostile());
        state.namespaces = vec![namespace];
    });
    for (page, shown) in PAGES.into_iter().zip([6, 6, 5, 5, 2, 1, 5, 1, 1, 1]) {
        let (status, _, html) = get(&router, page).await;
        assert_eq!(status, StatusCode::OK, "{page}: {html}");
        let parts =
            next_parts(&mut watch(&router, &format!("/events{}", page.trim_end_matches('/'))).await).await.unwrap();
        let live: String = parts.as_object().unwrap().values().map(|html| html.as_str().unwrap()).collect();
        assert!(html.matches("alert(").count() >= 2 * shown, "{page}: as text, {shown} times at least: {html}");
        for html in [html, live] {
            assert!(!html.contains("<script>alert") && !html.contains("<img src=x"), "{page}: {html}");
        }
    }
    let (_, _, html) = get(&router, "/explain?id=%3Cscript%3Ealert(1)%3C/script%3E").await;
    assert!(html.contains("alert(1)") && !html.contains("<script>alert"), "{html}");
}

#[tokio::test]
async fn pages_have_no_code_or_style_of_their_own_and_nothing_from_elsewhere() {
    let (sample, router) = console(few());
    sample.change(|state| state.test_clock = Some(TestClock { scale: 3_600, epoch: NOW }));
    let mut assets = std::collections::BTreeSet::new();
    for page in PAGES.into_iter().chain(["/login", "/nothing"]) {
        let (_, _, html) = get(&router, page).await;
        for foreign in [" style=", "<style", "javascript:", "http://", "https://", "src=\"//", " onclick", " onload"] {
            assert!(!html.contains(foreign), "{page}: {foreign}");
        }
        assert_eq!(html.matches("<script").count(), html.matches("<script src=\"/assets/").count(), "{page}");
        let linked = html.split("=\"/assets/").skip(1).map(|rest| rest.split(['"', '#']).next().unwrap().to_owned());
        assets.extend(linked);
    }
    let known = ["actions.js", "console.css", "console.js", "icon.svg", "icons.svg", "parts.js", "tastes.js"];
    assert_eq!(assets.iter().map(String::as_str).collect::<Vec<_>>(), known);
    for asset in assets {
        let (status, kind, body) = get(&router, &format!("/assets/{asset}")).await;
        assert!(status == StatusCode::OK && !body.is_empty(), "{asset}");
        let expected = match asset.rsplit('.').next() {
            Some("css") => "text/css",
            Some("js") => "text/javascript",
            _ => "image/svg+xml",
        };
        assert_eq!(kind, expected);
    }
    let (_, _, html) = get(&router, "/").await;
    assert!(html.contains("Time runs 3,600 times faster since 2026-11-20 13:05:06 UTC"), "{html}");
}

#[tokio::test]
async fn pages_speak_the_readers_language() {
    let (_, router) = console(few());
    let page_in = async |name: &str, value: &str, page: &str| {
        let request = Request::get(page).header("authorization", format!("Bearer {KEY}")).header(name, value);
        let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        String::from_utf8(to_bytes(response.into_body(), BODY_MAX).await.unwrap().into()).unwrap()
    };
    for page in PAGES.into_iter().chain(["/login", "/nothing", "/leases?type=x"]) {
        for (name, value, lang) in [
            ("accept-language", "zh-CN,zh;q=0.9,en;q=0.8", "zh-CN"),
            ("accept-language", "de", "en"),
            ("cookie", "a=b; uniq_lang=zh-CN; uniq_theme=dark", "zh-CN"),
            ("cookie", "uniq_lang=%3Cscript%3E; uniq_theme=x\"y", "en"),
        ] {
            let html = page_in(name, value, page).await;
            assert!(html.contains(&format!("<html lang=\"{lang}\"")), "{page} {value}");
            let has_chinese = html.replace("简体中文", "").chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c));
            assert_eq!(has_chinese, lang == "zh-CN", "{page} {value}");
            assert_eq!(html.contains("data-theme=\"dark\""), value.contains("theme=dark"), "{page}");
        }
    }
}

#[tokio::test]
async fn agents_show_how_they_fare_and_what_needs_a_look_comes_first() {
    use web::AgentState::{Late, Lost, Well};
    let (sample, router) = console(few());
    sample.change(|state| {
        state.agents = vec![
            sample::agent("a-well", Well, &[1_000, 2_000]),
            sample::agent("b-late", Late, &[]),
            sample::agent("c-lost", Lost, &[]),
        ];
        let report = state.agents[0].report.as_mut().unwrap();
        report.clock_offset_ms = -20_000;
    });
    let (_, _, html) = get(&router, "/agents").await;
    let place = |text: &str| html.find(text).unwrap_or_else(|| panic!("no {text}: {html}"));
    assert!(place("c-lost") < place("b-late") && place("b-late") < place("a-well"));
    assert!(html.contains("2,000") && html.contains("3 of 3 agents") && html.contains("\u{2212}20.0 s"), "{html}");
    let (_, _, html) = get(&router, "/agents?search=LATE&state=late").await;
    assert!(html.contains("b-late") && !html.contains("a-well") && html.contains("1 of 3 agents"));
    for query in ["state=x", "page=0", "x=y"] {
        assert_eq!(get(&router, &format!("/agents?{query}")).await.0, StatusCode::BAD_REQUEST, "{query}");
    }
    let (_, _, html) = get(&router, "/").await;
    for alarm in
        ["Agent a-well: its machine\u{2019}s clock is \u{2212}20.0 s off.", "Agent c-lost has not reported since"]
    {
        assert!(html.contains(alarm), "{alarm}: {html}");
    }
}

#[tokio::test]
async fn the_audit_can_be_filtered_and_read_to_its_beginning() {
    let book = Arc::new(Book::with_key());
    let actions = [common::audit::Action::Grant, common::audit::Action::Deny];
    let lines = (1..=250).map(|n| sample::line(n, actions[usize::from(n % 5 == 0)], &format!("uint2 {n}")));
    *book.audit.lock().unwrap() = lines.collect();
    let router = web::router(Arc::new(few()), Arc::clone(&book).door());
    let rows = |html: &str| html.matches("<th role=\"rowheader\"").count();
    let (_, _, html) = get(&router, "/audit").await;
    assert!(rows(&html) == 100 && html.contains("id=\"line-250\"") && html.contains("before=151"), "{html}");
    let (_, _, html) = get(&router, "/audit?before=51").await;
    assert!(rows(&html) == 50 && html.contains("Newest lines") && !html.contains("Older lines"), "{html}");
    let (_, _, html) = get(&router, "/audit?action=lease.deny&actor=jane&about=uint2").await;
    assert!(rows(&html) == 50 && html.contains("value=\"jane\"") && html.contains("/leases/uint2/250"), "{html}");
    let (_, _, html) = get(&router, "/audit?actor=nobody").await;
    assert!(html.contains("No line matches."));
    for query in ["action=x", "before=x", "x=y"] {
        let status = get(&router, &format!("/audit?{query}")).await.0;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{query}");
    }
}

#[tokio::test]
async fn an_id_is_explained_with_who_held_its_token() {
    let (_, router) = console(few());
    let id = common::ids::Uniq64::parse("uniq64://2026-11-20_13/6/42").unwrap();
    let (_, _, html) = get(&router, &format!("/explain?id={}", id.text(common::ids::TextForm::Decimal))).await;
    for text in ["orders-01", "It holds the token now.", "uniq64://2026-11-20_13/6/42", "31 bits", "/leases/uint2/6"] {
        assert!(html.contains(text), "{text}: {html}");
    }
    let (_, _, html) = get(&router, "/explain?id=uniq64://2026-11-10_13/6/42").await;
    assert!(html.contains("No lease of this token at that time is known here"), "{html}");
}

#[tokio::test]
async fn buttons_are_there_for_those_who_may_press_them_and_wait_for_the_other_master() {
    for (role, terminate, allow) in
        [(Role::Viewer, false, false), (Role::Operator, true, false), (Role::Admin, true, true)]
    {
        let sample = Arc::new(few());
        let router = web::router(Arc::clone(&sample) as _, Arc::new(Book::with_key_of(role)).door());
        let lease = get(&router, "/leases/uint2/6").await.2;
        assert_eq!(lease.contains("data-open=\"terminate\""), terminate, "{role}");
        assert_eq!(get(&router, "/whitelist").await.2.contains("data-api=\"POST /api/whitelist\""), allow, "{role}");
        assert_eq!(get(&router, "/users").await.2.contains("data-api=\"POST /api/users\""), allow, "{role}");
        assert!(!lease.contains("disabled>"), "{lease}");
        sample.change(Sample::lose_peer);
        let lease = get(&router, "/leases/uint2/6").await.2;
        assert_eq!(lease.contains("disabled>Terminate"), terminate, "{lease}");
        assert_eq!(lease.contains("<p class=\"gate\">Changes need both masters"), terminate);
    }
    let (_, router) = console(few());
    for (token, may) in
        [("uint2/5", false), ("uint2/7", false), ("uint2/9", false), ("string2-include-letter/1A", true)]
    {
        let (status, _, lease) = get(&router, &format!("/leases/{token}")).await;
        assert_eq!((status, lease.contains("data-open=\"terminate\"")), (StatusCode::OK, may), "{token}");
    }
    for token in ["uint3/5", "uint2/x", "uint2/05", "string2-include-letter/1a", "uint2/"] {
        let status = get(&router, &format!("/leases/{token}")).await.0;
        assert!(status == StatusCode::BAD_REQUEST || status == StatusCode::NOT_FOUND, "{token}: {status}");
    }
}

#[tokio::test]
async fn a_known_asset_is_not_sent_again() {
    let (_, router) = console(few());
    let first = ask(&router, Method::GET, "/assets/console.css").await;
    let again = Request::get("/assets/console.css").header("if-none-match", &first.headers()["etag"]);
    let again = router.oneshot(again.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
}

#[tokio::test]
async fn the_table_is_shown_in_pages_and_listed_whole() {
    let (_, router) = console(Sample::new(many(9_210)));
    let rows = json_of(&router, "/api/leases").await;
    let tokens: Vec<_> =
        rows.as_array().unwrap().iter().map(|row| (row["type"].clone(), row["token"].clone())).collect();
    let all: Vec<_> = many(9_210).iter().map(|row| (json!(row.token_type.name()), json!(row.token.text()))).collect();
    assert_eq!(tokens, all);

    let rows_of = |page: &str| page.matches("<th role=\"rowheader\"").count();
    let (_, _, first) = get(&router, "/leases").await;
    assert_eq!(rows_of(&first), 200);
    assert!(first.contains("1\u{2013}200 of 9,210 leases") && first.contains("href=\"/leases?page=2\""), "{first}");
    let (_, _, last) = get(&router, "/leases?page=47").await;
    assert_eq!(rows_of(&last), 10);
    assert!(last.contains("9,201\u{2013}9,210 of 9,210 leases") && !last.contains("rel=\"next\""));
    let (status, _, beyond) = get(&router, "/leases?page=10000&state=held").await;
    assert!(status == StatusCode::OK && beyond.contains("nothing on this page"));
    assert!(beyond.contains("href=\"/leases?state=held&#38;page="), "{beyond}");
}

#[tokio::test]
async fn an_empty_table_is_a_list_and_a_hint() {
    let (_, router) = console(Sample::new(Vec::new()));
    assert_eq!(json_of(&router, "/api/leases").await, json!([]));
    assert!(get(&router, "/leases").await.2.contains("No lease yet"));
    assert!(get(&router, "/leases?state=held").await.2.contains("No lease matches"));
}

#[tokio::test]
async fn pools_say_what_is_free() {
    let (_, router) = console(few());
    let pools = json_of(&router, "/api/pools").await;
    let of = |name: &str| pools.as_array().unwrap().iter().find(|row| row["type"] == name).unwrap().clone();
    assert_eq!(of("uint2"), json!({"type": "uint2", "size": 4096, "free": 4092, "held": 2, "resting": 2}));
    assert_eq!(of("uint1"), json!({"type": "uint1", "size": 256, "free": 253, "held": 2, "resting": 1}));
    assert_eq!(of("string2-only-number")["free"], 100);
    assert_eq!(of("string2-include-letter")["held"], 1);
}

#[tokio::test]
async fn readiness_and_health_are_two_things() {
    let (sample, router) = console(few());
    assert_eq!(get(&router, "/readyz").await.0, StatusCode::OK);
    sample.change(Sample::lose_peer);
    let (status, kind, body) = get(&router, "/readyz").await;
    assert_eq!((status, kind.as_str()), (StatusCode::SERVICE_UNAVAILABLE, "application/problem+json"));
    assert!(body.contains("the other master is silent"), "{body}");
    assert_eq!(get(&router, "/healthz").await.0, StatusCode::OK);
    let (_, kind, metrics) = get(&router, "/metrics").await;
    assert!(kind.starts_with("text/plain; version=0.0.4") && metrics.contains("uniq_master_up 1"));
    assert!(get(&router, "/").await.2.contains("<strong>Master 2 is silent</strong>"));
}

#[tokio::test]
async fn a_master_that_cannot_answer_says_so() {
    let (sample, router) = console(few());
    for (why, code) in [(Unavailable::Overloaded, "overloaded"), (Unavailable::ShuttingDown, "masters_unavailable")] {
        sample.change(|state| state.unavailable = Some(why));
        for address in ["/api/leases", "/api/masters", "/api/pools"] {
            let (status, _, body) = get(&router, address).await;
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["code"], code);
        }
        let (status, kind, _) = get(&router, "/").await;
        assert_eq!((status, kind.as_str()), (StatusCode::SERVICE_UNAVAILABLE, "text/html; charset=utf-8"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_watcher_gets_the_whole_view_and_then_what_changes() {
    let (sample, router) = console(few());
    let mut events = watch(&router, "/events/leases?type=uint2").await;
    let whole = next_parts(&mut events).await.unwrap();
    let names: Vec<_> = whole.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["pager", "rows", "status"]);
    let (_, _, page) = get(&router, "/leases?type=uint2").await;
    for (name, html) in whole.as_object().unwrap() {
        assert!(page.contains(html.as_str().unwrap()), "{name} is the same as in the page");
    }

    sample.change(|state| state.leases[1].stage = LeaseStage::Held);
    let change = next_parts(&mut events).await.unwrap();
    assert_eq!(change.as_object().unwrap().keys().collect::<Vec<_>>(), ["rows"]);
    assert!(!change["rows"].as_str().unwrap().contains("granting"));

    sample.change(Sample::lose_peer);
    let change = next_parts(&mut events).await.unwrap();
    assert_eq!(change.as_object().unwrap().keys().collect::<Vec<_>>(), ["status"]);
    assert!(change["status"].as_str().unwrap().contains("Master 2 is silent"));

    // What is out of this watcher's view is no news to it.
    let mut overview = watch(&router, "/events").await;
    next_parts(&mut overview).await.unwrap();
    sample.change(|state| drop(state.leases.remove(0)));
    let change = next_parts(&mut overview).await.unwrap();
    assert_eq!(change.as_object().unwrap().keys().collect::<Vec<_>>(), ["pools", "tiles"]);
    sample.change(|state| state.leases[0].stage = LeaseStage::Ending);
    assert!(next_parts(&mut events).await.unwrap().get("rows").is_some());
}

#[tokio::test(start_paused = true)]
async fn one_poller_serves_all_watchers_and_rests_without_them() {
    let (sample, router) = console(few());
    let mut watchers = Vec::new();
    for _ in 0..20 {
        watchers.push(watch(&router, "/events/leases").await);
    }
    for events in &mut watchers {
        assert!(next_parts(events).await.unwrap().get("rows").is_some());
    }
    assert_eq!(sample.asked.load(Ordering::SeqCst), 1, "twenty watchers of one view are one question");

    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    let asked = sample.asked.load(Ordering::SeqCst);
    assert!((60..=62).contains(&asked), "once a second, not {asked} times a minute");

    drop(watchers);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let asked = sample.asked.load(Ordering::SeqCst);
    tokio::time::sleep(std::time::Duration::from_secs(3_600)).await;
    assert_eq!(sample.asked.load(Ordering::SeqCst), asked, "nobody watches, nobody asks");
    assert!(next_parts(&mut watch(&router, "/events/leases").await).await.is_some(), "and it wakes up again");
}

#[tokio::test(start_paused = true)]
async fn there_are_so_many_seats_and_no_more() {
    let (_, router) = console(few());
    let mut watchers = Vec::new();
    for _ in 0..64 {
        watchers.push(watch(&router, "/events/leases").await);
    }
    let (status, kind, body) = get(&router, "/events").await;
    assert_eq!((status, kind.as_str()), (StatusCode::SERVICE_UNAVAILABLE, "application/problem+json"));
    assert!(body.contains("\"overloaded\""), "{body}");
    assert_eq!(get(&router, "/").await.0, StatusCode::OK, "the page itself needs no seat");
    watchers.pop();
    assert!(
        next_parts(&mut watch(&router, "/events/leases").await).await.is_some(),
        "a seat that is left is free again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_master_that_stumbles_does_not_end_the_live_view() {
    let (sample, router) = console(few());
    let mut events = watch(&router, "/events/leases").await;
    next_parts(&mut events).await.unwrap();
    sample.change(|state| state.unavailable = Some(Unavailable::Overloaded));
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    sample.change(|state| {
        state.unavailable = None;
        state.now.0 += DAY_MS;
    });
    assert!(next_parts(&mut events).await.unwrap().get("rows").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_panic_behind_the_trait_costs_one_answer() {
    let (sample, router) = console(few());
    let mut events = watch(&router, "/events/leases").await;
    next_parts(&mut events).await.unwrap();
    sample.change(|state| state.broken = true);
    assert!(next_parts(&mut events).await.is_none(), "its watchers are sent away");
    let (status, _, body) = get(&router, "/api/leases").await;
    assert!(status == StatusCode::INTERNAL_SERVER_ERROR && !body.contains("told to break"), "{body}");
    sample.change(|state| state.broken = false);
    assert_eq!(get(&router, "/api/leases").await.0, StatusCode::OK);
    assert!(next_parts(&mut watch(&router, "/events/leases").await).await.is_some(), "and served when they come back");
}

#[tokio::test]
async fn stopping_ends_open_event_streams() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let door = Arc::new(Book::with_key()).door();
    let server = tokio::spawn(web::serve(listener, Arc::new(few()), door, async { drop(stopped.await) }));

    let mut browser = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!("GET /events HTTP/1.1\r\nHost: console\r\nAuthorization: Bearer {KEY}\r\n\r\n");
    browser.write_all(head.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("event: parts") {
        assert_ne!(browser.read_buf(&mut seen).await.unwrap(), 0, "{}", String::from_utf8_lossy(&seen));
    }
    stop.send(()).unwrap();
    // The chunked body is ended properly: a browser sees an end, not a broken connection.
    browser.read_to_end(&mut seen).await.unwrap();
    assert!(seen.ends_with(b"0\r\n\r\n"));
    server.await.unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
