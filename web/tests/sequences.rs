//! Sequences: who serves what is shown, and sections are moved and agents drained by whoever may and says twice what he means.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod sample;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use net::rpc::lease::Refusal;
use net::rpc::ranges::NotMoved;
use sample::ask::{BODY_MAX, few, get, json_of, next_parts, watch};
use sample::sequences::{Sequences, furnished, name_of, sections};
use sample::{KEY, Sample, SampleAccounts};
use serde_json::{Value, json};
use std::sync::Arc;
use tower::ServiceExt as _;
use web::{Role, SectionState};

fn console(role: Role) -> (Arc<Sample>, Arc<SampleAccounts>, Router) {
    let (sample, accounts) = (Arc::new(few()), Arc::new(SampleAccounts::with_key_of(role)));
    sample.change(|state| state.sequences = furnished());
    let router = web::router(Arc::clone(&sample) as _, Arc::clone(&accounts).auth());
    (sample, accounts, router)
}

async fn ask(router: &Router, method: &str, address: &str, body: &str) -> (StatusCode, Value) {
    let request = Request::builder().method(method).uri(address).header("host", "localhost");
    let request = request.header("authorization", format!("Bearer {KEY}")).header("content-type", "application/json");
    let response = router.clone().oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), BODY_MAX).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn sections_are_told_by_ranges_and_page_by_page() {
    let (_, _, router) = console(Role::Viewer);
    let rows = json_of(&router, "/api/sections").await;
    assert_eq!(rows.as_array().unwrap().len(), 6);
    let owner = |agent: &str| json!({"agent_id": agent, "session": rows[0]["owner"]["session"], "http": format!("{agent}:6200"), "rpc": format!("{agent}:6201")});
    let first = json!({
        "name": "inbox", "set": "default", "from": 0, "to": 4095, "state": "served", "g_from": 1, "g_to": 4,
        "owner": owner("edge-01"), "next": null, "max_seq": null,
    });
    assert_eq!(rows[0], first);
    assert_eq!(rows[0]["owner"]["session"].as_str().unwrap().len(), 12, "a whole session is told to nobody");
    assert_eq!((&rows[1]["state"], &rows[1]["max_seq"]), (&json!("proposed"), &json!(1_230_000)));
    assert_eq!(rows[1]["next"]["agent_id"], "edge-02");
    for (query, from) in [
        ("?name=orders", vec![0, 100]),
        ("?agent=edge-01", vec![0, 4_096]),
        ("?agent=edge-*&n=2", vec![0, 4_096]),
        ("?after=inbox/4095&n=2", vec![4_096, 4_097]),
        ("?after=inbox/9000", vec![0, 100]),
        ("?set=other", vec![]),
        ("?set=&name=&agent=&after=", vec![0, 4_096, 4_097, 4_101, 0, 100]),
    ] {
        let rows = json_of(&router, &format!("/api/sections{query}")).await;
        let found: Vec<u64> = rows.as_array().unwrap().iter().map(|row| row["from"].as_u64().unwrap()).collect();
        assert_eq!(found, from, "{query}");
    }
    for (query, why) in [
        ("?n=0", "1 to 1000"),
        ("?n=1001", "1 to 1000"),
        ("?after=inbox", "NAME/SECTION"),
        ("?after=inbox/-1", "NAME/SECTION"),
        ("?name=NO", "name"),
        ("?agent=a%20b", "agent"),
        ("?sets=default", "unknown field"),
    ] {
        let (status, problem) = ask(&router, "GET", &format!("/api/sections{query}"), "").await;
        assert_eq!((status, &problem["code"]), (StatusCode::BAD_REQUEST, &json!("bad_parameter")), "{query}");
        assert!(problem["detail"].as_str().unwrap().contains(why), "{query}: {problem}");
    }
}

#[tokio::test]
async fn a_sequences_own_page_counts_the_agents_that_can_serve_it() {
    let (sample, _, router) = console(Role::Viewer);
    let names = ["edge-01", "edge-02", "edge-03", "edge-04", "other-01", "not-one"];
    sample.change(|state| {
        let template = state.sequences.allocators[0].clone();
        let allocator = |name: &&str| web::AllocatorRow {
            agent_id: name.parse().unwrap(),
            sets: vec![if *name == "other-01" { "other" } else { "default" }.to_owned()],
            silent: *name == "edge-03",
            leaves: *name == "edge-04",
            draining: false,
            ..template.clone()
        };
        state.sequences.allocators = names[..5].iter().map(allocator).collect();
        state.agents = names.iter().map(|name| sample::agent(name, web::AgentState::Well, &[1])).collect();
        state.namespaces = vec![sample::sequences::sequence("inbox")];
    });
    let (status, _, html) = get(&router, "/namespaces/sequence/inbox").await;
    assert_eq!(status, StatusCode::OK, "{html}");
    assert!(html.contains("<dd>2</dd>") && !html.contains("No agent that takes sections"), "{html}");
    for name in names {
        let row = format!("id=\"agent-{name}-");
        assert_eq!(html.contains(&row), ["edge-01", "edge-02"].contains(&name), "{name}: {html}");
    }
    sample.change(|state| state.sequences.allocators.clear());
    assert!(get(&router, "/namespaces/sequence/inbox").await.2.contains("No agent that takes sections of this set"));
}

#[tokio::test]
async fn allocators_are_told_with_their_load() {
    let (_, _, router) = console(Role::Viewer);
    let rows = json_of(&router, "/api/allocators").await;
    let first = json!({
        "agent_id": "edge-01", "session": rows[0]["session"], "sets": ["default"], "http": "edge-01:6200",
        "rpc": "edge-01:6201", "sections": 4_097, "memory_used": 100_663_296, "memory_limit": 536_870_912,
        "per_second": 12_400, "last_keep": "2026-11-20T13:05:05.000Z", "silent": false, "draining": true,
        "leaves": false,
    });
    assert_eq!(rows[0], first);
    assert_eq!((&rows[2]["last_keep"], &rows[2]["silent"]), (&Value::Null, &json!(true)));
}

#[tokio::test]
async fn a_section_is_moved_by_an_operator_who_says_which_one() {
    let (_, accounts, router) = console(Role::Operator);
    for body in [r#"{"to":"edge-02"}"#, r#"{"to":"edge-02","confirm":"inbox/42"}"#] {
        accounts.done.lock().unwrap().clear();
        let (status, moved) = ask(&router, "POST", "/api/sections/inbox/42/move", body).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{moved}");
        assert_eq!(moved, json!({"name": "inbox", "section": 42, "to": "edge-02", "home": 2}));
        assert_eq!(*accounts.done.lock().unwrap(), ["key all moves inbox/42 to edge-02"]);
    }
    accounts.done.lock().unwrap().clear();
    for (address, body, why) in [
        ("/api/sections/inbox/42/move", r#"{}"#, "missing field `to`"),
        ("/api/sections/inbox/42/move", r#"{"to":"a b"}"#, "to"),
        ("/api/sections/inbox/42/move", r#"{"to":"edge-02","confirm":"inbox/4"}"#, "say inbox/42 once more"),
        ("/api/sections/inbox/42/move", r#"{"to":"edge-02","confirm":""}"#, "say inbox/42 once more"),
        ("/api/sections/inbox/42/move", r#"{"to":"edge-02","g":1}"#, "unknown field `g`"),
        ("/api/sections/inbox/4294967296/move", r#"{"to":"edge-02"}"#, "NAME/SECTION"),
        ("/api/sections/inbox/+4/move", r#"{"to":"edge-02"}"#, "NAME/SECTION"),
        ("/api/sections/NO/4/move", r#"{"to":"edge-02"}"#, "NAME/SECTION"),
    ] {
        let (status, problem) = ask(&router, "POST", address, body).await;
        assert_eq!((status, &problem["code"]), (StatusCode::BAD_REQUEST, &json!("bad_parameter")), "{body}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(why), "{body}: {problem}");
    }
    assert!(accounts.done.lock().unwrap().is_empty(), "nothing was asked of the masters");
    refused(&accounts, &router, "/api/sections/inbox/42/move", r#"{"to":"edge-02"}"#).await;
    let (_, accounts, router) = console(Role::Viewer);
    let (status, problem) = ask(&router, "POST", "/api/sections/inbox/42/move", r#"{"to":"edge-02"}"#).await;
    assert_eq!((status, &problem["code"]), (StatusCode::FORBIDDEN, &json!("forbidden")));
    assert!(accounts.done.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_key_is_raised_by_an_operator_who_says_of_which_name() {
    let (_, accounts, router) = console(Role::Operator);
    let address = "/api/sequence/inbox/user%2F42/raise";
    for body in [r#"{"to":5000000001}"#, r#"{"to":"5000000001","confirm":"inbox"}"#] {
        accounts.done.lock().unwrap().clear();
        let (status, raised) = ask(&router, "POST", address, body).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{raised}");
        assert_eq!(raised, json!({"name": "inbox", "section": 0, "to": "5000000001", "home": 2}));
        let slot = common::sequence::Slot::of("user/42").unwrap().0;
        assert_eq!(*accounts.done.lock().unwrap(), [format!("key all raises inbox/{slot} to 5000000001")]);
    }
    accounts.done.lock().unwrap().clear();
    let long = format!("/api/sequence/inbox/{}/raise", "k".repeat(129));
    for (address, body, why) in [
        (address, "{}", "missing field `to`"),
        (address, r#"{"to":-1}"#, "to"),
        (address, r#"{"to":1,"confirm":"inbox/42"}"#, "say inbox once more"),
        (address, r#"{"to":1,"step":1}"#, "unknown field `step`"),
        ("/api/sequence/NO/4/raise", r#"{"to":1}"#, "name"),
        (long.as_str(), r#"{"to":1}"#, "at most 128 bytes"),
    ] {
        let (status, problem) = ask(&router, "POST", address, body).await;
        assert_eq!((status, &problem["code"]), (StatusCode::BAD_REQUEST, &json!("bad_parameter")), "{body}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(why), "{body}: {problem}");
    }
    assert!(accounts.done.lock().unwrap().is_empty(), "nothing was asked of the masters");
    let (_, accounts, router) = console(Role::Viewer);
    let (status, problem) = ask(&router, "POST", address, r#"{"to":1}"#).await;
    assert_eq!((status, &problem["code"]), (StatusCode::FORBIDDEN, &json!("forbidden")));
    assert!(accounts.done.lock().unwrap().is_empty());
}

/// Whatever the masters refuse is told with a status, a code and a remedy.
async fn refused(accounts: &SampleAccounts, router: &Router, address: &str, body: &str) {
    let agent_id = || "edge-02".parse().unwrap();
    let set = || "large".parse().unwrap();
    let conflict = (StatusCode::CONFLICT, "not_moved");
    for (refusal, (status, code), why) in [
        (NotMoved::NoSuchSection { last: 9 }, (StatusCode::NOT_FOUND, "not_found"), "0 to 9"),
        (NotMoved::NoSuchAgent { agent_id: agent_id() }, (StatusCode::NOT_FOUND, "not_found"), "list of allocators"),
        (NotMoved::UnderWay { to: agent_id() }, conflict, "wait until it is there"),
        (NotMoved::Silent { agent_id: agent_id() }, conflict, "start it, or take another"),
        (NotMoved::OtherSet { agent_id: agent_id(), set: set() }, conflict, "--sets large"),
        (NotMoved::Leaves { agent_id: agent_id() }, conflict, "let it serve again"),
        (NotMoved::Full { agent_id: agent_id() }, conflict, "--sequence-memory"),
        (NotMoved::Alone { set: set() }, conflict, "start another agent with --sets large"),
        (NotMoved::NotHome { home: 2 }, conflict, "master 2: ask that one"),
        (NotMoved::NoSuchNumber { last: 9 }, conflict, "1 to 9"),
        (NotMoved::Nobody { set: set() }, conflict, "start one with --sets large"),
        (NotMoved::TooManyUnderWay, conflict, "wait until some"),
    ] {
        *accounts.refusal.lock().unwrap() = Some(Refusal::NotMoved(refusal));
        let (found, problem) = ask(router, "POST", address, body).await;
        assert_eq!((found, &problem["code"]), (status, &json!(code)), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(why), "{problem}");
    }
    for (refusal, status, code, why) in [
        (Refusal::NoSuchName, StatusCode::NOT_FOUND, "not_found", "no such name"),
        (Refusal::NameRetired, StatusCode::CONFLICT, "generator_exists", "retired"),
        (Refusal::PeerAway, StatusCode::SERVICE_UNAVAILABLE, "masters_unavailable", "start the other master"),
    ] {
        *accounts.refusal.lock().unwrap() = Some(refusal);
        let (found, problem) = ask(router, "POST", address, body).await;
        assert_eq!((found, &problem["code"]), (status, &json!(code)), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(why), "{problem}");
    }
}

#[tokio::test]
async fn an_agent_is_drained_and_that_is_taken_back() {
    let (_, accounts, router) = console(Role::Operator);
    let drain = "/api/allocators/edge-02/drain";
    for (body, on) in [
        (r#"{"drain":true}"#, true),
        (r#"{"drain":true,"confirm":"edge-02"}"#, true),
        (r#"{"drain":false}"#, false),
        (r#"{"drain":false,"confirm":"edge-02"}"#, false),
    ] {
        accounts.done.lock().unwrap().clear();
        let (status, row) = ask(&router, "POST", drain, body).await;
        assert_eq!((status, row), (StatusCode::OK, json!({"agent_id": "edge-02", "draining": on, "sections": 7})));
        assert_eq!(*accounts.done.lock().unwrap(), [format!("key all drains edge-02: {on}")]);
    }
    accounts.done.lock().unwrap().clear();
    for (address, body, why) in [
        (drain, r#"{}"#, "missing field `drain`"),
        (drain, r#"{"drain":"yes"}"#, "invalid type"),
        (drain, r#"{"drain":true,"confirm":"edge-01"}"#, "say edge-02 once more"),
        (drain, r#"{"drain":true,"confirm":""}"#, "say edge-02 once more"),
        ("/api/allocators/a%20b/drain", r#"{"drain":true}"#, "agent"),
    ] {
        let (status, problem) = ask(&router, "POST", address, body).await;
        assert_eq!((status, &problem["code"]), (StatusCode::BAD_REQUEST, &json!("bad_parameter")), "{body}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(why), "{body}: {problem}");
    }
    assert!(accounts.done.lock().unwrap().is_empty(), "nothing was asked of the masters");
    refused(&accounts, &router, drain, r#"{"drain":true}"#).await;
    let (_, accounts, router) = console(Role::Viewer);
    let (status, problem) = ask(&router, "POST", drain, r#"{"drain":false}"#).await;
    assert_eq!((status, &problem["code"]), (StatusCode::FORBIDDEN, &json!("forbidden")));
    assert!(accounts.done.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_page_shows_who_serves_what_without_colour_too() {
    let (sample, _, router) = console(Role::Operator);
    for page in ["/sequences", "/events/sequences"] {
        let html = match page {
            "/sequences" => get(&router, page).await.2,
            _ => {
                let parts = next_parts(&mut watch(&router, page).await).await.unwrap();
                ["map", "rows", "allocators"].map(|part| parts[part].as_str().unwrap().to_owned()).concat()
            }
        };
        for shown in [
            "aria-label=\"Sections 0 to 9,000 of inbox: 0 to 4,095: edge-01; 4,096 to 4,096: edge-01 (proposed); \
             4,097 to 4,100: edge-02 (waiting); 4,101 to 9,000: edge-02\"",
            "fill=\"url(#owner-0)\"",
            "9,001 of 42,950 sections given",
            "5 moving",
            "40 served by nobody",
            "goes to edge-02",
            "4,097 to 4,100",
            "1,230,000",
            "0 of 42,950 sections given",
            "drained",
            "silent",
            "96 MiB of 512 MiB",
            "18.7 %",
            "12,400",
            "data-open=\"move\" data-both data-name=\"inbox\" data-from=\"4096\" data-to=\"4096\"",
            "data-open=\"drain\" data-both data-agent=\"edge-02\"",
            "data-run=\"undrain\" data-agent=\"edge-01\"",
        ] {
            assert!(html.contains(shown), "{page}: {shown}: {html}");
        }
    }
    let html = get(&router, "/sequences").await.2;
    assert!(html.contains("none is refused") && html.contains("half of --sequence-lease"), "{html}");
    assert!(html.contains("<option value=\"edge-03\">"), "{html}");
    sample.change(Sample::lose_peer);
    let html = get(&router, "/sequences").await.2;
    assert!(html.contains("data-agent=\"edge-02\" disabled"), "a drain needs both masters: {html}");
    assert!(html.contains("data-run=\"undrain\" data-agent=\"edge-01\">"), "taking it back does not: {html}");
    sample.change(|state| state.sequences = Sequences::default());
    let html = get(&router, "/sequences").await.2;
    assert!(html.contains("No name of kind sequence is registered") && html.contains("No agent serves sequences"));
    let (_, _, router) = console(Role::Viewer);
    let html = get(&router, "/sequences").await.2;
    assert!(!html.contains("data-open") && !html.contains("undrain"), "a viewer changes nothing: {html}");
}

#[tokio::test]
async fn the_page_is_narrowed_and_cut_into_pages() {
    let (sample, _, router) = console(Role::Viewer);
    let html = get(&router, "/sequences?name=orders&agent=edge-*").await.2;
    assert!(html.contains("id=\"section-orders-100\"") && !html.contains("id=\"section-inbox-0\""), "{html}");
    assert!(html.contains("id=\"bar-orders\"") && !html.contains("id=\"bar-inbox\""), "{html}");
    assert!(html.contains("value=\"edge-*\"") && html.contains("id=\"pager-count\""), "{html}");
    let (status, _, html) = get(&router, "/sequences?after=no").await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{html}");
    sample.change(|state| {
        let row = |at: u32| sections("inbox", (at * 2, at * 2), SectionState::Served, "edge-01");
        state.sequences.rows = (0..250).map(row).collect();
        state.sequences.names = (0..45).map(|nth| name_of(&format!("name-{nth}"), &[])).collect();
    });
    let html = get(&router, "/sequences").await.2;
    assert_eq!(html.matches("id=\"section-inbox-").count(), 20);
    assert!(html.contains("href=\"/sequences?set=&#38;name=&#38;agent=&#38;after=inbox%2F38\""), "{html}");
    assert!(html.contains("and 33 more names") && !html.contains("id=\"bar-name-12\""), "{html}");
    let html = get(&router, "/sequences?after=inbox%2F458").await.2;
    assert_eq!(html.matches("id=\"section-inbox-").count(), 20);
    assert!(html.contains("id=\"pager-first\"") && !html.contains("id=\"pager-next\""), "{html}");
}
