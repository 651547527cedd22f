//! A hundred texts that would be code if they became markup, in every field that comes from outside.

use super::caller::{Answer, Caller, escaped, form};
use super::matrix::{described, pages};
use serde_json::json;

/// Texts that would run, in the shapes that break out of text, attributes, scripts, comments, addresses and headers.
const CORES: [&str; 25] = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<body onload=alert(1)>",
    "<iframe src=javascript:alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "<a href=javascript:alert(1)>x</a>",
    "<details open ontoggle=alert(1)>",
    "<math><mi//xlink:href=\"data:x,<script>alert(1)</script>\">",
    "<object data=data:text/html,<script>alert(1)</script>>",
    "<form action=javascript:alert(1)><input type=submit>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "<base href=//evil.example/>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<style>@import'//evil.example/x.css';</style>",
    "\" onmouseover=alert(1) x=\"",
    "' onfocus=alert(1) autofocus '",
    "\"><script>alert(1)</script>",
    "'></title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "--><script>alert(1)</script><!--",
    "]]><script>alert(1)</script>",
    "{{constructor.constructor('alert(1)')()}}<b>",
    "<x\u{0}onclick=alert(1)>\u{202e}",
];

/// Each of them plain, in capitals, with a line's end and an event's field in it, and as entities that somebody may undo.
fn texts() -> Vec<String> {
    let shapes: [fn(&str) -> String; 4] = [
        str::to_owned,
        str::to_uppercase,
        |core| format!("a\r\nevent: parts\r\n\r\n{core}"),
        |core| format!("&lt;{core}&#62;"),
    ];
    CORES.iter().flat_map(|core| shapes.iter().map(move |shape| shape(core))).collect()
}

/// Checks that an answer shows the text as what it is: text.
fn is_harmless(answer: &Answer, text: &str, what: &str) {
    assert!(answer.status < 500, "{what}: {answer:?}");
    let kind = answer.header("content-type");
    for (name, value) in &answer.headers {
        let value = String::from_utf8_lossy(value.as_bytes()).to_lowercase();
        assert!(!value.contains("alert(1)"), "{what}: the header {name} says {value}");
        assert!(name != "location" || value.starts_with('/') && !value.starts_with("//"), "{what}: led to {value}");
    }
    if kind.starts_with("text/html") {
        // What makes it markup is the first character that is not a letter; escaped, none of them stands as it is.
        for part in text.split("\r\n").filter(|part| part.contains(['<', '"', '\''])) {
            assert!(!answer.body.contains(part), "{what}: {part} is markup in {}", answer.body);
        }
    } else if !answer.body.is_empty() {
        let kinds = ["application/json", "application/problem+json", "text/plain", "text/event-stream"];
        assert!(kinds.iter().any(|known| kind.starts_with(known)), "{what}: sent as '{kind}'");
    }
    assert_eq!(answer.header("x-content-type-options"), "nosniff", "{what}");
}

/// Sends every text through every field. How many answers there were.
pub(crate) async fn walk(admin: &Caller, token: &str) -> usize {
    let nobody = Caller::nobody(admin.console);
    let (calls, _) = described(&nobody).await;
    let texts = texts();
    assert_eq!(texts.len(), 100);
    let mut shown = 0;
    for text in &texts {
        let quoted = escaped(text);
        let mut look = |answer: Answer, what: &str| {
            is_harmless(&answer, text, what);
            shown += 1;
        };
        // The path and the query of everything that is described, and of every page.
        for call in calls.iter().filter(|call| call.method == "GET") {
            let mut path = call.path.clone();
            for name in ["{id}", "{name}", "{type}", "{token}"] {
                path = path.replace(name, &quoted);
            }
            let parameters = call.about["parameters"].as_array().cloned().unwrap_or_default();
            for parameter in parameters.iter().filter(|parameter| parameter["in"] == "query") {
                let path = format!("{path}?{}={quoted}", parameter["name"].as_str().unwrap());
                look(admin.get(&path).await, &path);
            }
            look(admin.get(&path).await, &path);
        }
        for page in pages(token) {
            for field in [
                "type",
                "state",
                "agent",
                "page",
                "search",
                "sort",
                "token",
                "id",
                "next",
                "actor",
                "action",
                "about",
                "layout",
                "q",
                "application",
                "owner",
                "label",
                "kind",
            ] {
                let path = format!("{page}?{field}={quoted}");
                look(admin.get(&path).await, &path);
            }
            let path = format!("{}/{quoted}", page.trim_end_matches('/'));
            look(admin.get(&path).await, &path);
            look(nobody.get(&path).await, &path);
        }
        // What is kept, if it is taken, and shown to others.
        for (path, body) in [
            ("/api/users".to_owned(), json!({"name": text, "password": "correct horse", "role": "viewer"})),
            ("/api/users".to_owned(), json!({"name": "x", "password": "correct horse", "role": text})),
            ("/api/keys".to_owned(), json!({"name": text, "role": "viewer"})),
            ("/api/whitelist".to_owned(), json!({"range": text})),
            ("/api/namespaces".to_owned(), json!({"name": text, "kind": "uniq64"})),
            (
                "/api/namespaces".to_owned(),
                json!({"name": "x", "kind": "string", "template": text, "token_type": text}),
            ),
            (format!("/api/leases/uint2/{token}/terminate"), json!({"confirm": text})),
            (format!("/api/leases/{quoted}/{quoted}/renew"), json!(null)),
            (format!("/api/users/{quoted}/role"), json!({"role": "viewer"})),
        ] {
            let answer = admin.ask("POST", &path, &body).await;
            assert!(answer.status >= 400, "{path} took {text}: {answer:?}");
            look(answer, &path);
        }
        look(
            admin.with("content-type", "application/json").send("POST", "/api/keys", text.clone().into_bytes()).await,
            "body",
        );
        let user_agent: String = text.chars().filter(char::is_ascii_graphic).collect();
        look(
            admin.with("user-agent", user_agent.as_str()).with("accept-language", user_agent).get("/").await,
            "headers",
        );
    }
    // The form of the login locks out after five, so each of these is a fresh start of nothing: they are not let in.
    for text in texts.iter().take(5) {
        let login = form(&[("user", text), ("password", text), ("next", text)]);
        let answer = nobody.post_form("/login", login).await;
        assert_eq!(answer.status, 401);
        is_harmless(&answer, text, "/login");
        shown += 1;
    }
    for (path, what) in
        [("/api/audit?n=1000", "audit"), ("/api/users", "users"), ("/api/namespaces", "namespaces"), ("/", "/")]
    {
        let answer = admin.get(path).await;
        assert!(!answer.body.contains("alert(1)"), "{what} keeps what was refused");
    }
    shown
}
