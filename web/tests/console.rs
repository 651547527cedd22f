//! Answers of the console: every route, its refusals, its headers, and the live view.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

mod sample;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use common::account::{Role, User};
use common::time::DAY_MS;
use common::token::TokenType;
use futures::StreamExt as _;
use sample::ask::{ask, console, few, get, json_of, next_parts, watch};
use sample::{KEY, Sample, SampleAccounts, lease, many};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tower::ServiceExt as _;
use web::{LeaseStage, Unavailable};

#[tokio::test]
async fn a_lease_is_listed_as_the_contract_says() {
    let (_, router) = console(Sample::new(vec![lease(TokenType::Uint2, 5, LeaseStage::Held, "edge-01")]));
    let row = json!([{
        "type": "uint2", "token": "5", "state": "held", "agent_id": "edge-01",
        // As much as tells it from others: the whole is a secret.
        "session": &format!("{:032x}", 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834_u128.wrapping_mul(6))[..12],
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
            "calendar_ahead_ms": null,
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

#[tokio::test]
async fn a_known_asset_is_not_sent_again() {
    let (_, router) = console(few());
    let first = ask(&router, Method::GET, "/assets/console.css").await;
    let again = Request::get("/assets/console.css")
        .header("host", "localhost")
        .header("if-none-match", &first.headers()["etag"]);
    let again = router.oneshot(again.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
}

/// A page of another site whose name leads here must not read the console in a visitor's browser.
#[tokio::test]
async fn the_console_answers_to_its_own_names_only() {
    let (_, router) = console(few());
    for (hosts, status) in [
        (&["localhost:7301"][..], StatusCode::OK),
        (&["10.0.0.1"], StatusCode::OK),
        (&[], StatusCode::BAD_REQUEST),
        (&["localhost", "localhost"], StatusCode::BAD_REQUEST),
        (&["evil.example:7301"], StatusCode::MISDIRECTED_REQUEST),
    ] {
        for address in ["/healthz", "/login", "/api/leases", "/assets/console.css"] {
            let request = Request::get(address).header("authorization", format!("Bearer {KEY}"));
            let request = hosts.iter().fold(request, |request, host| request.header("host", *host));
            let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            assert_eq!(response.status(), status, "{hosts:?} {address}");
        }
    }
}

/// Guesses that are sent at once get no further than those that are sent one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn guesses_at_once_are_no_more_than_one_after_the_other() {
    let phc = web::hash(b"correct horse battery").unwrap();
    let admin = User { name: "admin".parse().unwrap(), role: Role::Admin, phc, totp: None };
    let accounts = Arc::new(SampleAccounts { users: Mutex::new(vec![admin]), ..SampleAccounts::default() });
    let router = web::router(Arc::new(few()), accounts.auth());
    let guess = |n: usize, password: String| {
        let router = router.clone();
        async move {
            let mut request = Request::post("/login").header("host", "localhost");
            request = request.header("content-type", "application/x-www-form-urlencoded");
            let body = Body::from(format!("user=admin&password={password}&next=%2F{n}"));
            router.oneshot(request.body(body).unwrap()).await.unwrap().status()
        }
    };
    // Sixteen at a time, as each is answered: those that begin later have read the clock later than those that are looked at.
    let answers = futures::stream::iter((0..160).map(|n| tokio::spawn(guess(n, format!("wrong-{n}")))));
    let answers: Vec<StatusCode> = answers.buffer_unordered(16).map(Result::unwrap).collect().await;
    let looked_at = answers.iter().filter(|status| **status == StatusCode::UNAUTHORIZED).count();
    let locked_out = answers.iter().filter(|status| **status == StatusCode::TOO_MANY_REQUESTS).count();
    assert_eq!((looked_at, locked_out), (5, 155), "{answers:?}");
    assert_eq!(guess(0, "correct+horse+battery".to_owned()).await, StatusCode::TOO_MANY_REQUESTS);
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
    assert!(metrics.contains("orders"), "{metrics}");
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

    // What is out of this watcher's view is not news to it.
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
    let stop = tokio_util::sync::CancellationToken::new();
    let auth = Arc::new(SampleAccounts::with_key()).auth();
    let server = tokio::spawn(web::serve(listener, web::CONNECTIONS_MAX, Arc::new(few()), auth, stop.clone()));

    let mut browser = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!("GET /events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n\r\n");
    browser.write_all(head.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("event: parts") {
        assert_ne!(browser.read_buf(&mut seen).await.unwrap(), 0, "{}", String::from_utf8_lossy(&seen));
    }
    stop.cancel();
    // The chunked body is ended properly: a browser sees an end, not a broken connection.
    browser.read_to_end(&mut seen).await.unwrap();
    assert!(seen.ends_with(b"0\r\n\r\n"));
    server.await.unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
