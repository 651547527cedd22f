//! The pages: nothing from outside becomes markup, both languages are whole, and who may do what sees how.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod sample;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use common::about::{About, AboutSource};
use common::audit::Action;
use common::clock::TestClock;
use common::parameters::SessionId;
use sample::ask::{BODY_MAX, console, few, get, next_parts, watch};
use sample::sequences::Sequences;
use sample::{KEY, NOW, Sample, SampleAccounts};
use std::collections::BTreeSet;
use std::sync::Arc;
use tower::ServiceExt as _;
use web::{AgentState, AuditRow, Role, SectionState};

const HOSTILE: &str = "</td><script>alert('x')</script><img src=x onerror=alert(1)>\"'&\r\nevent: parts";

/// Every page, each with the part of the events that belongs to it.
const PAGES: [&str; 16] = [
    "/",
    "/leases",
    "/leases/uint2/6",
    "/agents",
    "/agents/edge-01",
    "/namespaces",
    "/namespaces/string/orders",
    "/axes",
    "/sequences",
    "/whitelist",
    "/audit",
    "/designer",
    "/designer/template",
    "/explain",
    "/users",
    "/settings",
];

/// A template may have most visible characters.
const HOSTILE_TEMPLATE: &str = "</td><script>alert('x')</script>'&{date:%Y%m%d}{token}{serial:8}";

/// Control characters are not taken; all the rest is.
fn hostile_about() -> About {
    let text = || "</td></textarea><script>alert('x')</script>\"'&".to_owned();
    let labels = [("a".to_owned(), text())].into();
    About::new(AboutSource { description: text(), application: text(), owner: text(), labels }).unwrap()
}

#[tokio::test]
async fn nothing_from_outside_becomes_markup() {
    let (sample, accounts) = (Arc::new(few()), Arc::new(SampleAccounts::with_key()));
    let router = web::router(Arc::clone(&sample) as _, Arc::clone(&accounts).auth());
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
        let mut line = sample::line(1, Action::Terminate, "uint2 6");
        (line.who, line.from, line.detail) = (hostile(), hostile(), hostile());
        let other = AuditRow { number: 2, subject: hostile(), ..line.clone() };
        state.audit = vec![line, other];
        accounts.audit.lock().unwrap().clone_from(&state.audit);
        let mut namespace = sample::namespace("orders", Some(HOSTILE_TEMPLATE));
        namespace.registered_by = hostile();
        namespace.about = hostile_about();
        state.namespaces = vec![namespace];
        let mut row = sample::sequences::sections("inbox", (0, 9), SectionState::Served, "edge-01");
        let mut name = sample::sequences::name_of("inbox", std::slice::from_ref(&row));
        let mut allocator = sample::sequences::allocator("edge-01", &["default"], 10);
        (name.set, row.set, row.owner.as_mut().unwrap().http) = (hostile(), hostile(), hostile());
        (allocator.http, allocator.sets) = (hostile(), vec![hostile()]);
        state.sequences = Sequences { rows: vec![row], names: vec![name], allocators: vec![allocator] };
    });
    for (page, shown) in PAGES.into_iter().zip([6, 6, 5, 5, 5, 4, 6, 1, 6, 1, 5, 1, 1, 1, 1, 1]) {
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
    let known =
        ["actions.js", "console.css", "console.js", "designer.js", "icon.svg", "icons.svg", "parts.js", "tastes.js"];
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
        let request = Request::get(page)
            .header("host", "localhost")
            .header("authorization", format!("Bearer {KEY}"))
            .header(name, value);
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
    let accounts = Arc::new(SampleAccounts::with_key());
    let actions = [common::audit::Action::Grant, common::audit::Action::Deny];
    let lines = (1..=250).map(|n| sample::line(n, actions[usize::from(n % 5 == 0)], &format!("uint2 {n}")));
    *accounts.audit.lock().unwrap() = lines.collect();
    let router = web::router(Arc::new(few()), Arc::clone(&accounts).auth());
    let rows = |html: &str| html.matches("<th role=\"rowheader\"").count();
    let (_, _, html) = get(&router, "/audit?by=all").await;
    assert!(rows(&html) == 100 && html.contains("id=\"line-250\"") && html.contains("before=151"), "{html}");
    let (_, _, html) = get(&router, "/audit?by=all&before=51").await;
    assert!(rows(&html) == 50 && html.contains("Newest lines") && !html.contains("Older lines"), "{html}");
    assert!(html.contains("id=\"pager-newest\" href=\"/audit?by=all"), "the filter stays: {html}");
    let (_, _, html) = get(&router, "/audit?action=lease.deny&actor=jane&about=uint2").await;
    assert!(rows(&html) == 50 && html.contains("value=\"jane\"") && html.contains("/leases/uint2/250"), "{html}");
    let (_, _, html) = get(&router, "/audit?actor=nobody").await;
    assert!(html.contains("No line matches."));
    for query in ["action=x", "before=x", "x=y"] {
        let status = get(&router, &format!("/audit?{query}")).await.0;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{query}");
    }
}

/// Machines' doing does not hide what somebody did.
#[tokio::test]
async fn what_machines_do_is_apart_from_what_people_do() {
    let (sample, accounts) = (Arc::new(few()), Arc::new(SampleAccounts::with_key()));
    let router = web::router(Arc::clone(&sample) as _, Arc::clone(&accounts).auth());
    sample.change(|state| {
        let extended = (2..=200).map(|number| sample::line(number, Action::Extend, &format!("axis-{number}")));
        state.audit = [sample::line(1, Action::Retire, "orders")].into_iter().chain(extended).collect();
        accounts.audit.lock().unwrap().clone_from(&state.audit);
    });
    let events = |html: &str| {
        let recent = html.split("id=\"recent\"").nth(1).unwrap().split("</section>").next().unwrap().to_owned();
        recent.split("<ul class=\"events\">").skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let lists = events(&get(&router, "/").await.2);
    let [people, machines] = lists.as_slice() else { panic!("{lists:?}") };
    assert!(people.contains("orders") && !people.contains("axis-"), "{people}");
    assert_eq!((machines.matches("axis-").count(), machines.contains("orders")), (3, false), "{machines}");

    let counts = async |query: &str| {
        let html = get(&router, &format!("/audit{query}")).await.2;
        (html.matches("<bdi>axis-").count(), html.matches("<bdi>orders").count())
    };
    for (query, found) in [
        ("", (0, 1)),
        ("?by=people", (0, 1)),
        ("?by=machines", (100, 0)),
        ("?by=all&before=3", (1, 1)),
        ("?action=axis.extend", (100, 0)),
        ("?about=axis-7", (11, 0)),
    ] {
        assert_eq!(counts(query).await, found, "{query}");
    }
    assert_eq!(get(&router, "/audit?by=nobody").await.0, StatusCode::BAD_REQUEST);
}

/// A page looks at so many lines that somebody may watch it, and says where to look on.
#[tokio::test]
async fn what_people_did_long_ago_is_found_behind_many_lines_of_machines() {
    let accounts = Arc::new(SampleAccounts::with_key());
    let router = web::router(Arc::new(few()), Arc::clone(&accounts).auth());
    for (machines, is_found) in [(9_000, true), (11_000, false)] {
        let extended = (2..=machines).map(|number| sample::line(number, Action::Extend, &format!("axis-{number}")));
        *accounts.audit.lock().unwrap() =
            [sample::line(1, Action::Retire, "sundries")].into_iter().chain(extended).collect();
        let overview = get(&router, "/").await.2;
        assert_eq!(overview.contains("sundries"), is_found, "{machines}: {overview}");
        let audit = get(&router, "/audit").await.2;
        assert_eq!(audit.contains("sundries"), is_found, "{machines}: {audit}");
        assert_eq!(audit.contains("older ones may"), !is_found, "{machines}: {audit}");
        assert_eq!(audit.contains("before=1001"), !is_found, "{machines}: {audit}");
    }
    assert!(get(&router, "/audit?by=people&before=1001").await.2.contains("sundries"));
}

#[tokio::test]
async fn no_id_stands_twice_on_the_page_of_an_agent_with_two_sessions() {
    let (sample, router) = console(few());
    sample.change(|all| {
        let mut other = sample::agent("edge-01", AgentState::Lost, &[1]);
        other.session = SessionId(7 << 100);
        all.agents = vec![sample::agent("edge-01", AgentState::Well, &[1]), other];
    });
    let html = get(&router, "/agents/edge-01").await.2;
    let ids: Vec<&str> = html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let once: BTreeSet<&str> = ids.iter().copied().collect();
    assert!(ids.len() > 10 && ids.len() == once.len() && html.contains("id=\"name-"), "{ids:?}");
}

/// An agent that was stopped as it should be is nobody's worry.
#[tokio::test]
async fn an_agent_that_was_stopped_raises_no_alarm() {
    let (sample, router) = console(few());
    for (state, alarms) in [(AgentState::Lost, true), (AgentState::Stopped, false)] {
        sample.change(|all| all.agents = vec![sample::agent("edge-01", state, &[1])]);
        let html = get(&router, "/").await.2;
        assert_eq!(html.contains("may still mint"), alarms, "{html}");
        let html = get(&router, "/agents").await.2;
        assert!(html.contains(&format!("class=\"pill {}\"", state.name())), "{html}");
    }
    assert!(get(&router, "/agents?state=stopped").await.2.contains("edge-01"));
}

#[tokio::test]
async fn an_id_is_explained_with_who_held_its_token() {
    let (_, router) = console(few());
    let id = common::kind::UNIQ64.parse("uniq64://2026-11-20_13/6/42").unwrap();
    let (_, _, html) = get(&router, &format!("/explain?id={id}")).await;
    assert!(html.contains("<svg class=\"bits\" role=\"img\" aria-label=\"64 bits, from the highest: year"), "{html}");
    for text in ["orders-01", "It holds the token now.", "uniq64://2026-11-20_13/6/42", "31 bits", "/leases/uint2/6"] {
        assert!(html.contains(text), "{text}: {html}");
    }
    let (_, _, html) = get(&router, "/explain?id=uniq64://2026-11-10_13/6/42").await;
    assert!(html.contains("No lease of this token at that time is known here"), "{html}");
}

#[tokio::test]
async fn the_names_that_may_have_given_an_id_are_said_and_the_likeliest_comes_first() {
    let (sample, router) = console(few());
    let snow = r#"{"kind":"layout","layout":"snowflake"}"#;
    sample.change(|state| {
        for (name, definition, in_use) in
            [("snow", snow, true), ("invoices", r#"{"kind":"segment"}"#, true), ("new", r#"{"kind":"segment"}"#, false)]
        {
            let definition = serde_json::from_str(definition).unwrap();
            state.namespaces.push(web::NamespaceRow { in_use, ..sample::defined(name, &definition) });
        }
    });
    let html = get(&router, "/explain?id=1001").await.2;
    let places =
        ["segment, written as decimal", "May have been given by", "invoices", "neither time nor token", "snow"];
    let found: Vec<_> = places.iter().map(|text| html.find(text).unwrap_or_else(|| panic!("{text}: {html}"))).collect();
    assert!(found.is_sorted(), "{found:?}: {html}");
    let told: serde_json::Value = serde_json::from_str(&get(&router, "/api/explain/1001").await.2).unwrap();
    assert_eq!(told["names"], serde_json::json!(["invoices"]), "what gave no ID yet did not give this one: {told}");
    assert_eq!(told["also"][0]["names"], serde_json::json!(["snow"]), "{told}");

    let short = serde_json::from_str(r#"{"kind":"uniq64","encoding":"sqids"}"#).unwrap();
    let name = common::namespace::Namespace::define("short".parse().unwrap(), &short).unwrap();
    let text = name.written().unwrap().plain(common::encoding::Secrets::NONE).unwrap().text(3_851_826_724_463_443_969);
    sample.change(|state| {
        state.namespaces.push(sample::defined("short", &short));
    });
    let html = get(&router, &format!("/explain?id={}", text.unwrap())).await.2;
    assert!(html.contains("short") && html.contains("gives them in this form alone"), "{html}");
}

#[tokio::test]
async fn buttons_are_there_for_those_who_may_press_them_and_wait_for_the_other_master() {
    for (role, terminate, allow) in
        [(Role::Viewer, false, false), (Role::Operator, true, false), (Role::Admin, true, true)]
    {
        let sample = Arc::new(few());
        let router = web::router(Arc::clone(&sample) as _, Arc::new(SampleAccounts::with_key_of(role)).auth());
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
async fn who_can_read_a_text_that_no_master_can_is_said() {
    let (sample, router) = console(few());
    sample.change(|state| {
        let ff1 = |length: u32| {
            format!(r#"{{"kind":"uniq64","encoding":{{"form":"ff1","length":{length},"secret":"0123456789abcdef"}}}}"#)
        };
        let tickets = r#"{"kind":"layout","layout":"snowflake","encoding":{"form":"strategy","strategy":"tickets"}}"#;
        for (name, definition) in [
            ("coupons", ff1(20)),
            ("codes", ff1(22)),
            ("tickets", tickets.to_owned()),
            ("plain", r#"{"kind":"uniq64","encoding":"base62"}"#.to_owned()),
        ] {
            let definition = serde_json::from_str(&definition).unwrap();
            state.namespaces.push(sample::defined(name, &definition));
        }
    });
    let told = async |id: &str| {
        let html = get(&router, &format!("/explain?id={id}")).await.2;
        html.split("id=\"elsewhere\">").nth(1).map(|rest| rest.split("</p>").next().unwrap().to_owned())
    };
    let (shorter, longer) = ("98765432109876543210", "9876543210987654321012");
    let said = told(shorter).await.unwrap();
    assert!(said.contains("masters: coupons, tickets.") && said.contains("--secret-file"), "{said}");
    assert!(told(longer).await.unwrap().contains("masters: codes, tickets."));
    assert!(told("ABCDEFGHJKLMNPQRSTUV").await.unwrap().contains("masters: tickets."), "it has letters");
    let api = get(&router, &format!("/api/explain/{longer}")).await.2;
    assert!(api.contains(r#""names":["codes"]"#) && api.contains("--secret-file"), "{api}");
    sample.change(|state| state.namespaces.retain(|row| row.namespace.name().as_str() == "plain"));
    assert_eq!(told(shorter).await, None);
}

#[tokio::test]
async fn a_name_that_is_used_no_more_can_be_retired_by_admins() {
    for (role, may) in [(Role::Viewer, false), (Role::Operator, false), (Role::Admin, true)] {
        let sample = Arc::new(few());
        let template = Some("{date:%Y%m%d}{token}{serial:8}");
        sample.change(|state| {
            let predefined =
                web::NamespaceRow { registered_by: String::new(), ..sample::namespace("default", template) };
            let retired = web::NamespaceRow { retired: true, ..sample::namespace("old", template) };
            state.namespaces = vec![predefined, retired, sample::namespace("orders", template)];
        });
        let router = web::router(Arc::clone(&sample) as _, Arc::new(SampleAccounts::with_key_of(role)).auth());
        let page = get(&router, "/namespaces").await.2;
        assert_eq!(page.matches("data-open=\"retire\"").count(), usize::from(may), "{role}: {page}");
        assert_eq!(page.contains("data-api=\"POST /api/namespaces/{name}/retire\""), may, "{role}");
        assert_eq!(page.contains("data-open=\"retire\" data-both data-name=\"orders\">"), may, "{role}");
        sample.change(Sample::lose_peer);
        let page = get(&router, "/namespaces").await.2;
        assert_eq!(page.contains("data-name=\"orders\" disabled>"), may, "{role}: it waits for the other master");
    }
}

#[tokio::test]
async fn a_calendar_that_jumped_is_shown_with_the_remedy() {
    let (sample, router) = console(few());
    let told = "The calendar of master 1 jumped ahead";
    assert!(!get(&router, "/").await.2.contains(told));
    sample.change(|state| state.masters[0].calendar_ahead_ms = Some(2 * common::time::HOUR_MS));
    let page = get(&router, "/").await.2;
    assert!(page.contains(told) && page.contains("restart that master"), "{page}");
    assert!(
        page.contains("It is 2 h ahead") && page.contains("Calendar jumped</dt><dd class=\"alarm\">+2 h"),
        "{page}"
    );
    let parts = next_parts(&mut watch(&router, "/events").await).await.unwrap();
    assert!(parts["status"].as_str().unwrap().contains(told), "{parts}");
}
