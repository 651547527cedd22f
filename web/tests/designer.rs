//! The designers of layouts and of templates: their pages, what their API says, and how a name is registered from them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod sample;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use common::namespace::{Definition, Namespace};
use net::rpc::lease::Refusal;
use sample::ask::{BODY_MAX, console, few, get, json_of};
use sample::{KEY, Sample, SampleAccounts};
use serde_json::{Value, json};
use std::sync::Arc;
use tower::ServiceExt as _;
use web::Role;

const OWN: &str = "bits=64&epoch=2024-01-01T00:00:00Z&unit_ms=1";

async fn refused(router: &Router, query: &str) -> String {
    refused_at(router, "/api/layout", query).await
}

async fn refused_at(router: &Router, path: &str, query: &str) -> String {
    let (status, kind, body) = get(router, &format!("{path}?{query}")).await;
    assert_eq!((status, kind.as_str()), (StatusCode::BAD_REQUEST, "application/problem+json"), "{query}: {body}");
    let problem: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(problem["code"], "bad_parameter");
    problem["detail"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_a_layout_gives_is_said_as_the_contract_says() {
    let (_, router) = console(few());
    let facts = json_of(&router, "/api/layout?layout=snowflake").await;
    assert_eq!(
        facts,
        json!({
            "definition": {"kind": "layout", "layout": "snowflake"},
            "preset": "snowflake", "bits": 64, "epoch": "2010-11-04T01:42:54.657Z", "unit_ms": 1,
            "fields": [
                {"field": "zero:1", "part": "zero", "bits": 1, "high": 63, "low": 63},
                {"field": "time:41", "part": "time", "bits": 41, "high": 62, "low": 22},
                {"field": "token:10", "part": "token", "bits": 10, "high": 21, "low": 12},
                {"field": "serial:12", "part": "serial", "bits": 12, "high": 11, "low": 0},
            ],
            "agents": 1_024, "per_tick": 4_096, "per_second": 4_096_000, "per_second_all": 4_194_304_000_u64,
            "last_day": "2080-07-10",
            "sorts_by_time": true, "safe_for_javascript": false, "fits_bigint": true,
            "example": {
                "decimal": "2123764570911674368", "hex": "1d7920a003c01000", "base32": "1TY90M01W0400", "uuid": null
            },
            "warnings": ["not_for_javascript"],
        })
    );
    let own = json_of(&router, &format!("/api/layout?{OWN}&fields=zero:2,time:40,token:10,serial:12")).await;
    assert_eq!(
        own["definition"],
        json!({
            "kind": "layout", "bits": 64, "epoch": "2024-01-01T00:00:00.000Z", "unit_ms": 1,
            "fields": ["zero:2", "time:40", "token:10", "serial:12"],
        })
    );
    let chosen = json_of(&router, "/api/layout?layout=snowflake&ahead_max_ms=50&encoding=hex").await;
    assert_eq!(
        chosen["definition"],
        json!({"kind": "layout", "layout": "snowflake", "ahead_max_ms": 50, "encoding": "hex"})
    );
    assert_eq!(chosen["example"]["text"], chosen["example"]["hex"]);
    let uuid = json_of(&router, "/api/layout?layout=uuid7").await;
    assert!(uuid["example"]["uuid"].as_str().is_some_and(|uuid| uuid.len() == 36), "{uuid}");
    for (preset, len) in [("xid", 20), ("ksuid", 27), ("typeid", 26)] {
        let own = json_of(&router, &format!("/api/layout?layout={preset}")).await;
        assert!(own["example"]["text"].as_str().is_some_and(|text| text.len() == len), "{own}");
    }
    assert_eq!(uuid["example"].get("text"), None, "it is the uuid");
}

#[tokio::test]
async fn what_is_no_layout_is_refused_with_the_reason() {
    let (_, router) = console(few());
    for (query, said) in [
        ("", "say layout"),
        ("layout=Leaf", "is not a layout; there are snowflake"),
        ("layout=leaf&bits=64", "leave out bits"),
        ("layout=uidgenerator", "its time ends at 2024-11-20"),
        ("layout=snowflake&epoch=2030-01-01T00:00:00Z", "has not come yet"),
        ("layout=snowflake&epoch=tomorrow", "is not an instant"),
        ("lay=x", "unknown parameter"),
        ("layout=snowflake&ahead_max_ms=-1", "is not a number of milliseconds"),
        ("layout=snowflake&encoding=strategy", "needs what only agents have"),
        ("bits=64", "epoch is missing"),
    ] {
        let detail = refused(&router, query).await;
        assert!(detail.contains(said), "{query}: {detail}");
    }
    let fields = |fields: &str| format!("{OWN}&fields={fields}");
    for (query, said) in [
        (fields("time:41,token:10,serial:12"), "the fields have 63 bits, and the number has 64"),
        (fields("zero:1,time:41,token:22"), "serial is missing"),
        (fields("time:%3Cscript%3E,token:10"), "no width that fits"),
        (fields(&"zero:1,".repeat(60)), "60 fields are too many"),
        (fields(&"x".repeat(600)), "at most 512 characters"),
        ("part=time&width=1&".repeat(80), "too many"),
    ] {
        let detail = refused(&router, query.trim_end_matches('&')).await;
        assert!(detail.contains(said) && detail.len() < 300, "{query}: {detail}");
    }
}

#[tokio::test]
async fn the_page_works_by_its_address_alone() {
    let (_, router) = console(few());
    let (_, _, html) = get(&router, "/designer").await;
    for text in ["<option value=\"snowflake\" selected>", "2080-07-10", "data-api=\"PUT /api/generators/{name}\""] {
        assert!(html.contains(text), "{text}: {html}");
    }
    let form = "/designer?was=snowflake&layout=snowflake&bits=64&epoch=2024-01-01T00:00:00Z&unit_ms=1";
    let rows =
        "&part=zero&width=1&value=&part=time&width=41&value=&part=token&width=10&value=&part=serial&width=12&value=";
    let (_, _, html) = get(&router, &format!("{form}{rows}")).await;
    assert!(
        html.contains("&#34;layout&#34;:&#34;snowflake&#34;,&#34;epoch&#34;:&#34;2024-01-01T00:00:00.000Z&#34;"),
        "{html}"
    );
    let (_, _, html) = get(&router, &format!("{form}{rows}&down=2")).await;
    assert!(html.contains("&#34;serial:12&#34;,&#34;token:10&#34;"), "moved: {html}");
    let (_, _, html) = get(&router, &format!("{form}{rows}&remove=0")).await;
    assert!(html.contains("63 of 64 bits") && html.contains("role=\"alert\">the fields have 63 bits"), "{html}");
    assert!(html.contains("data-unconfirmed=\"yes\" disabled") && !html.contains("id=\"definition\""), "{html}");
    for query in ["layout=x", "x=y", "bits=64", "layout=leaf&layout=leaf"] {
        let (status, kind, _) = get(&router, &format!("/designer?{query}")).await;
        assert_eq!((status, kind.as_str()), (StatusCode::BAD_REQUEST, "text/html; charset=utf-8"), "{query}");
    }
}

#[tokio::test]
async fn what_a_template_gives_is_said_as_the_contract_says() {
    let (sample, router) = console(few());
    let facts = json_of(&router, "/api/template?template=INV-%7Bdate:%25Y%25m%25d%7D-%7Btoken%7D%7Bserial:4%7D").await;
    let definition = json!({
        "kind": "string", "template": "INV-{date:%Y%m%d}-{token}{serial:4}", "token_type": "string2-include-letter",
        "everyday_reset": true, "step": 156, "scope": "kind",
    });
    let warning = facts["warnings"][0].as_str().unwrap();
    assert!(warning.contains("one caller can use up the 10000 IDs"), "{facts}");
    assert_eq!(
        facts,
        json!({
            "definition": definition, "length": 19,
            "parts": [
                {"part": "literal", "text": "INV-"}, {"part": "date", "text": "20261120"}, {"part": "literal", "text": "-"},
                {"part": "token", "text": "12"}, {"part": "serial", "text": "0042"},
            ],
            "examples": ["INV-20261120-120042", "INV-20261120-120043", "INV-20261120-130042"],
            "agents": 1_296, "capacity": 10_000, "per": "day", "per_day": "10000", "last_day": "9999-12-31",
            "collides": null, "reads_as": [], "warnings": [warning],
        })
    );
    // The same facts as those of a dry run.
    let accounts = Arc::new(SampleAccounts::with_key_of(Role::Operator));
    let tried = web::router(Arc::new(few()), accounts.auth());
    let (status, tried) = put(&tried, "orders?dry_run=true", &definition).await;
    assert_eq!(status, StatusCode::OK, "{tried}");
    for fact in ["definition", "examples", "capacity", "per", "per_day", "last_day"] {
        assert_eq!(tried[fact], facts[fact], "{fact}");
    }
    let mut bills = sample::namespace("bills", Some("INV-{date:%Y%m%d}-{serial:8}{token}"));
    let other = Definition::string("INV-{date:%Y%m%d}-{serial:4}{token}");
    bills.namespace = Namespace::define("bills".parse().unwrap(), &other).unwrap();
    sample.change(|state| state.namespaces = vec![bills]);
    let query = "/api/template?template=INV-%7Bdate:%25Y%25m%25d%7D-%7Btoken%7D%7Bserial:4%7D";
    let collides = json_of(&router, query).await["collides"].as_str().unwrap().to_owned();
    assert!(collides.contains("that of 'bills'") && collides.contains("INV-"), "{collides}");
    assert_eq!(json_of(&router, &format!("{query}&scope=own")).await["collides"], Value::Null);
    let page = get(&router, &query.replace("/api/", "/designer/")).await.2;
    assert!(page.contains("that of &#39;bills&#39;") && !page.contains("id=\"definition\""), "{page}");
}

#[tokio::test]
async fn what_is_no_template_is_refused_with_the_reason_and_its_place() {
    let (_, router) = console(few());
    let template = |text: &str| format!("template={text}");
    for (query, said) in [
        (String::new(), "say template"),
        ("scope=own".to_owned(), "say template"),
        ("template=".to_owned(), "without {token}"),
        (
            "template=%7Bdate:%25F%7D%7Byear%7D%7Btoken%7D".to_owned(),
            "after '{date:%F}': the template cannot be taken: 'year' is not a field",
        ),
        ("template=%7Bdate:%25y%7D%7Btoken%7D%7Bserial:4%7D".to_owned(), "the date does not name the year"),
        ("template=A%20B".to_owned(), "after 'A': the template cannot be taken: ' ' cannot stand in an ID"),
        ("template=%FF".to_owned(), "after '': "),
        ("template=a&token_type=uint2".to_owned(), "cannot use uint2 tokens"),
        ("template=a&token_type=%3Cb%3E".to_owned(), "'<b>' is not a token type"),
        ("template=a&scope=all".to_owned(), "unknown variant `all`"),
        ("template=a&template=b".to_owned(), "duplicate field"),
        ("temple=a".to_owned(), "unknown field `temple`"),
        (template(&"x".repeat(300)), "after 'xxx"),
        (template(&"x".repeat(600)), "template: at most 512 characters"),
        (format!("template=a&add={}", "x".repeat(600)), "add: at most 512 characters"),
    ] {
        let detail = refused_at(&router, "/api/template", &query).await;
        assert!(detail.contains(said) && detail.len() < 600, "{query}: {detail}");
    }
}

#[tokio::test]
async fn a_template_is_drawn_by_its_address_alone() {
    let (_, router) = console(few());
    let (_, _, html) = get(&router, "/designer/template").await;
    for text in [
        "value=\"INV-{date:%Y%m%d}-{token}{serial:6}\"",
        "aria-label=\"21 characters: fixed 4, date 8, fixed 1, token 2, serial 6\"",
        "<li class=\"serial\"><code>000042</code><span>serial</span></li>",
        "<li><code>INV-20261120-13000042</code></li>",
        "<dd>1,000,000</dd>",
        "<dd>9999-12-31</dd>",
        "data-api=\"PUT /api/generators/{name}\"",
        "href=\"/designer/template\" aria-current=\"page\"",
    ] {
        assert!(html.contains(text), "{text}: {html}");
    }
    let (_, _, html) = get(&router, "/designer/template?template=%7Bdate:%25F%7D%7Btoken%7D&add=%7Bserial:8%7D").await;
    assert!(html.contains("value=\"{date:%F}{token}{serial:8}\"") && html.contains("id=\"definition\""), "{html}");
    let (_, _, html) = get(&router, "/designer/template?template=%7Bdate:%25F%7D%7B%3Cscript%3E%7D").await;
    assert!(
        html.contains("<code>{date:%F}<mark>{&#60;script&#62;}</mark></code>") && !html.contains("<script>"),
        "{html}"
    );
    assert!(html.contains("10 characters: date 10") && !html.contains("id=\"definition\""), "{html}");
    assert!(html.contains("data-unconfirmed=\"yes\" disabled"), "{html}");
    for query in ["template=a&template=b", "x=y", &format!("template={}", "x".repeat(600))] {
        let (status, kind, _) = get(&router, &format!("/designer/template?{query}")).await;
        assert_eq!((status, kind.as_str()), (StatusCode::BAD_REQUEST, "text/html; charset=utf-8"), "{query}");
    }
}

#[tokio::test]
async fn the_script_gets_the_same_part_that_the_page_has() {
    let (_, router) = console(few());
    for (page, api, query) in [
        ("/designer", "/api/layout", "layout=js53"),
        ("/designer", "/api/layout", "layout=uidgenerator"),
        ("/designer", "/api/layout", "bits=64&epoch=x&unit_ms=1&fields=time:41"),
        ("/designer/template", "/api/template", ""),
        ("/designer/template", "/api/template", "template=%7Btoken%7D&scope=own&token_type=string3-only-number"),
    ] {
        let (_, _, page) = get(&router, &format!("{page}?{query}")).await;
        for (lang, same) in [("en", true), ("zh-CN", false)] {
            let request = Request::get(format!("{api}?{query}"))
                .header("host", "localhost")
                .header("authorization", format!("Bearer {KEY}"))
                .header("accept", "text/html")
                .header("cookie", format!("uniq_lang={lang}"));
            let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK, "what is refused says so in the part: {query}");
            let part = String::from_utf8(to_bytes(response.into_body(), BODY_MAX).await.unwrap().into()).unwrap();
            assert_eq!(page.contains(&part), same, "{query} {lang}: {part}");
        }
    }
}

async fn put(router: &Router, name: &str, body: &Value) -> (StatusCode, Value) {
    let request = Request::put(format!("/api/generators/{name}"))
        .header("host", "localhost")
        .header("authorization", format!("Bearer {KEY}"))
        .header("content-type", "application/json");
    let response = router.clone().oneshot(request.body(Body::from(body.to_string())).unwrap()).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), BODY_MAX).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn operators_register_names_and_the_audit_names_them() {
    let template = "{date:%Y%m%d}{token}{serial:8}";
    let definition = json!({"kind": "string", "template": template});
    for (role, status) in [
        (Role::Viewer, StatusCode::FORBIDDEN),
        (Role::Operator, StatusCode::CREATED),
        (Role::Admin, StatusCode::CREATED),
    ] {
        let (sample, accounts) = (Arc::new(few()), Arc::new(SampleAccounts::with_key_of(role)));
        sample.change(|state| state.namespaces = vec![sample::namespace("orders", Some(template))]);
        let router = web::router(Arc::clone(&sample) as _, Arc::clone(&accounts).auth());
        let (came, answer) = put(&router, "orders", &definition).await;
        assert_eq!(came, status, "{role}: {answer}");
        let done = accounts.done.lock().unwrap().clone();
        if status == StatusCode::CREATED {
            assert_eq!((&answer["name"], &answer["template"]), (&json!("orders"), &json!(template)));
            assert_eq!(done, ["key all changes orders"]);
        } else {
            assert!(done.is_empty(), "{done:?}");
        }
        let page = get(&router, "/designer").await.2;
        assert_eq!(page.contains("id=\"register\""), role >= Role::Operator, "{role}");
        sample.change(Sample::lose_peer);
        let page = get(&router, "/designer").await.2;
        assert_eq!(page.contains("data-unconfirmed=\"no\" disabled>"), role >= Role::Operator, "{role}: it waits");
    }
}

#[tokio::test]
async fn what_cannot_be_registered_says_why() {
    let accounts = Arc::new(SampleAccounts::with_key_of(Role::Operator));
    let router = web::router(Arc::new(few()), Arc::clone(&accounts).auth());
    let uniq64 = json!({"kind": "uniq64"});
    for (name, body, said) in [
        ("Orders", &uniq64, "is not a generator's name"),
        ("orders", &json!({"kind": "string"}), "needs a template"),
        ("orders", &json!({"kind": "uniq64", "steps": 1}), "unknown field"),
        ("orders", &json!({}), "missing field"),
        ("orders", &json!([]), "invalid"),
    ] {
        let (status, problem) = put(&router, name, body).await;
        assert_eq!((status, &problem["code"]), (StatusCode::BAD_REQUEST, &json!("bad_parameter")), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(said), "{problem}");
    }
    assert!(accounts.done.lock().unwrap().is_empty(), "nobody was asked");
    let collides = Refusal::Collides {
        name: "other".parse().unwrap(),
        template: "{date:%Y%m%d}{token}{serial:8}".to_owned(),
        example: "20261120".to_owned(),
    };
    for (refusal, status, code) in [
        (Refusal::NameTaken, StatusCode::CONFLICT, "generator_exists"),
        (Refusal::NameRetired, StatusCode::CONFLICT, "generator_exists"),
        (collides, StatusCode::CONFLICT, "generator_conflict"),
        (Refusal::TooMany { max: 1_024 }, StatusCode::CONFLICT, "too_many"),
        (Refusal::PeerAway, StatusCode::SERVICE_UNAVAILABLE, "masters_unavailable"),
    ] {
        *accounts.refusal.lock().unwrap() = Some(refusal);
        let (came, problem) = put(&router, "orders", &uniq64).await;
        assert_eq!((came, &problem["code"]), (status, &json!(code)), "{problem}");
    }
}
