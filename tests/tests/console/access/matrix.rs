//! Every route, asked by everybody who may not: all refused, and nothing is changed.

use super::caller::{Answer, Caller, everybody};
use serde_json::{Value, json};
use tests::cluster::until;

/// One call that the console describes.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: String,
    /// As it is described, with its parameters in braces.
    pub(crate) path: String,
    /// The least role; `None`: everybody may.
    pub(crate) role: Option<String>,
    /// The description.
    pub(crate) about: Value,
}

/// Reads what the console says that it can do.
pub(crate) async fn described(caller: &Caller) -> (Vec<Call>, Value) {
    let api = caller.get("/openapi.json").await.json();
    assert_eq!(api["openapi"], "3.1.0");
    let mut calls = Vec::new();
    for (path, item) in api["paths"].as_object().unwrap() {
        for (method, about) in item.as_object().unwrap() {
            let scope = |security: &Value| security["login"][0].as_str().map(str::to_owned);
            // Where no login is needed, too, one may only show more.
            let security = about["security"].as_array().filter(|all| all.iter().all(|one| *one != json!({})));
            let role = security.and_then(|all| all.iter().find_map(scope));
            calls.push(Call { method: method.to_uppercase(), path: path.clone(), role, about: about.clone() });
        }
    }
    (calls, api)
}

/// The addresses of pages: what the console serves and does not describe.
pub(crate) fn pages(token: &str) -> Vec<String> {
    let routes = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/src/routes.rs");
    let routes = std::fs::read_to_string(routes).unwrap();
    // What is served while there is no place is described, and stands behind the pages.
    let routes = routes.split("fn spare_router").next().unwrap();
    let all = routes.split(".route(\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned());
    let all = all.map(|path| path.replace("{type}", "uint2").replace("{token}", token).replace("{*page}", "leases"));
    let all =
        all.map(|path| path.replace("{kind}", "uniq64").replace("{name}", "victim-name").replace("{agent}", "agent-1"));
    let pages: Vec<String> = all.filter(|path| !path.starts_with("/assets")).collect();
    assert!(pages.iter().all(|path| !path.contains('{')), "a page that this test does not know: {pages:?}");
    assert!(pages.contains(&"/".to_owned()), "{pages:?}");
    pages
}

/// The lease and the agent that calls are about.
struct Victims {
    /// Of a held `uint2` lease.
    token: String,
    /// An agent that serves sequences.
    agent: String,
    /// A key that opens everything at agents.
    agents_key: String,
    /// The login of another user.
    login: String,
}

/// A path and a body with which the call would do something, if it were let in.
fn effective(call: &Call, Victims { token, agent, login, .. }: &Victims) -> (String, Value) {
    let named = match (call.method.as_str(), call.path.as_str()) {
        (_, path) if path.starts_with("/api/users/{name}") => "victim",
        (_, "/api/keys/{name}" | "/api/keys/{name}/rotate") => "victim-key",
        (_, "/api/namespaces/{name}/retire" | "/api/namespaces/{name}/about") => "victim-name",
        (_, "/api/axes/{name}/raise" | "/api/axes/{name}/dismiss") => "victim-axis",
        (_, "/api/sections/{name}/{section}/move" | "/api/sequence/{name}/{key}/raise") => "victim-seq",
        _ => "unnamed",
    };
    let path = call.path.replace("{name}", named).replace("{type}", "uint2").replace("{token}", token);
    let id = if call.path == "/api/logins/{id}" { login.as_str() } else { "3574880000000000" };
    let path = path.replace("{id}", id).replace("/api/layout", "/api/layout?layout=snowflake");
    let path = path.replace("/api/template", "/api/template?template=%7Bdate:%25F%7D%7Btoken%7D%7Bserial:8%7D");
    let path =
        path.replace("{role}", "client").replace("{section}", "7").replace("{key}", "100007").replace("{agent}", agent);
    let body = match (call.method.as_str(), call.path.as_str()) {
        ("GET", _) | (_, "/logout" | "/login") => Value::Null,
        ("POST", "/api/users") => json!({"name": "intruder", "password": "correct horse", "role": "admin"}),
        ("POST", "/api/users/{name}/role") => json!({"role": "admin"}),
        ("POST", "/api/users/{name}/password") => json!({"password": "correct horse"}),
        ("PUT", "/api/users/{name}/second-factor") => {
            json!({"secret": "A4DQOBYHA4DQOBYHA4DQOBYHA4DQOBYH", "code": "000000", "current": "correct horse"})
        }
        ("DELETE", "/api/users/{name}/second-factor") => json!({"current": "correct horse"}),
        ("POST", "/api/keys") => json!({"name": "intruder", "role": "admin"}),
        ("POST", "/api/invitations") => json!({"role": "agent"}),
        ("POST", "/api/revocations") => json!({"role": "client", "name": "victim"}),
        ("DELETE", "/api/revocations/{role}/{name}") => Value::Null,
        ("POST", "/api/keys/{name}/rotate") => json!({"keep_hours": 1}),
        ("POST", "/api/namespaces") => json!({"name": "intruder", "kind": "uniq64"}),
        ("PUT", "/api/generators/{name}") => json!({"kind": "uniq64"}),
        ("POST", "/api/namespaces/{name}/retire") => json!({"confirm": "victim-name"}),
        ("PUT", "/api/namespaces/{name}/about") => json!({"owner": "an intruder", "labels": {"a": "b"}}),
        ("POST", "/api/axes/{name}/raise") => json!({"to": 1_000, "confirm": "victim-axis"}),
        ("POST", "/api/axes/{name}/dismiss") => json!({"last": 1_000, "confirm": "victim-axis"}),
        ("POST", "/api/sections/{name}/{section}/move") => json!({"to": agent, "confirm": "victim-seq/7"}),
        ("POST", "/api/sequence/{name}/{key}/raise") => json!({"to": 50_000, "confirm": "victim-seq"}),
        ("POST", "/api/allocators/{agent}/drain") => json!({"drain": true, "confirm": agent}),
        ("POST", "/api/import") => {
            json!({"version": 1, "utc_offset": "+00:00", "names": [], "users": [], "networks": ["10.0.0.0/8"]})
        }
        ("POST", "/api/whitelist") => json!({"range": "10.0.0.0/8"}),
        ("DELETE", "/api/whitelist") => json!({"range": "127.0.0.0/8", "confirm": "127.0.0.0/8"}),
        ("POST", "/api/leases/{type}/{token}/terminate") => json!({"confirm": format!("uint2/{token}")}),
        ("POST", "/api/leases/{type}/{token}/renew") => Value::Null,
        ("DELETE", "/api/users/{name}" | "/api/keys/{name}" | "/api/logins/{id}" | "/api/invitations/{id}") => {
            Value::Null
        }
        other => panic!("a change that this test does not know: say what would be effective for {other:?}"),
    };
    (path, body)
}

/// Everything that a change could change, as the console shows it.
async fn state(admin: &Caller) -> Vec<Value> {
    let mut all = Vec::new();
    let settings = ["/api/users", "/api/keys", "/api/whitelist", "/api/namespaces", "/api/axes", "/api/sections"];
    for path in settings.into_iter().chain(["/api/revocations", "/api/leases", "/api/audit?n=1000"]) {
        let answer = admin.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let mut found = answer.json();
        if path.starts_with("/api/audit") {
            // That somebody was refused is all that there is to see of it.
            found.as_array_mut().unwrap().retain(|line| line["action"] != "access.refuse");
        }
        all.push(found);
    }
    let logins = admin.get("/api/logins").await.json();
    // Whoever asks uses one.
    all.push(logins.as_array().unwrap().iter().map(|login| login["id"].clone()).collect());
    all
}

fn rank(role: &str) -> usize {
    ["viewer", "operator", "admin"].iter().position(|known| *known == role).unwrap()
}

/// The headers that an answer carries, whatever it is; exactly these, and those of the transport.
pub(crate) fn assert_headers(answer: &Answer, what: &str) {
    let csp = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
               base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
    for (name, value) in [
        ("content-security-policy", csp),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        let found: Vec<_> = answer.headers.get_all(name).iter().collect();
        assert_eq!(found, [value], "{name} of {what}");
    }
    const OTHERS: [&str; 10] = [
        "content-type",
        "content-length",
        "transfer-encoding",
        "date",
        "allow",
        "location",
        "set-cookie",
        "retry-after",
        "www-authenticate",
        "vary",
    ];
    for name in answer.headers.keys() {
        let known = name.as_str().starts_with("cross-origin-")
            || OTHERS.contains(&name.as_str())
            || [
                "content-security-policy",
                "x-content-type-options",
                "x-frame-options",
                "referrer-policy",
                "cache-control",
            ]
            .contains(&name.as_str());
        assert!(known, "{what} has a header {name}");
    }
}

/// Asks everything of everybody. `admin` is let in; `token` is that of a `uint2` lease that the agent holds.
pub(crate) async fn walk(admin: &Caller, agent: &Caller, token: &str) -> usize {
    for (path, body) in [
        ("/api/users", json!({"name": "victim", "password": "correct horse", "role": "viewer"})),
        ("/api/keys", json!({"name": "victim-key", "role": "viewer"})),
        ("/api/namespaces", json!({"name": "victim-name", "kind": "uniq64"})),
        ("/api/namespaces", json!({"name": "victim-axis", "kind": "segment"})),
        ("/api/namespaces", json!({"name": "victim-seq", "kind": "sequence"})),
    ] {
        assert_eq!(admin.ask("POST", path, &body).await.status, 201);
    }
    // Agents serve sections of names that are in use.
    assert_eq!(agent.get("/sequence/victim-seq/7").await.status, 200);
    // Nothing of them is under way any more.
    let served = || async {
        let all = admin.get("/api/sections").await.json();
        (all[0]["state"] == "served").then_some(())
    };
    until("this master knows who serves them", served).await.unwrap();
    let allocator = || async {
        let all = admin.get("/api/allocators").await.json();
        all[0]["agent_id"].as_str().map(str::to_owned)
    };
    let (agent, _) = until("an agent serves sequences", allocator).await.unwrap();
    let form = json!({"name": "agents", "actions": ["mint", "define", "explain", "status"], "names": ["*"]});
    let made = admin.ask("POST", "/api/keys", &form).await.json();
    let agents_key = made["key"].as_str().unwrap().to_owned();
    Caller::nobody(admin.console).log_in("victim", "correct horse").await.unwrap();
    let logins = admin.get("/api/logins").await.json();
    let login = logins.as_array().unwrap().iter().find(|login| login["user"] == "victim").unwrap();
    let login = login["id"].as_str().unwrap().to_owned();
    let victims = &Victims { token: token.to_owned(), agent, agents_key, login };
    let everybody = everybody(admin).await;
    let nobody = Caller::nobody(admin.console);
    let (calls, _) = described(&nobody).await;
    let reader = &everybody[2].2;
    let before = state(reader).await;
    let mut asked = 0;
    for call in &calls {
        asked += refused(call, &nobody, &everybody, victims).await;
        assert_eq!(state(reader).await, before, "{} {} changed something", call.method, call.path);
    }
    for page in pages(token) {
        asked += page_is_closed(&page, &nobody, &everybody).await;
    }
    assert_eq!(state(reader).await, before, "a page changed something");
    asked + admitted(&calls, &everybody, victims).await
}

/// Callers whom nobody knows, each in another way.
fn strangers(nobody: &Caller, person: &Caller, victims: &Victims) -> [Caller; 7] {
    [
        nobody.clone(),
        nobody.key("uniq_0000000000000000000000000000000000000000000000000000000000000000"),
        nobody.key(&victims.agents_key),
        nobody.key(""),
        nobody.with("authorization", "Basic YWRtaW46YWRtaW4="),
        nobody.with("cookie", "uniq_master_1=00; uniq_master_2=00"),
        // A key that is none is not made good by a login.
        person.key("uniq_wrong"),
    ]
}

/// Asks for one call as everybody who may not. How often.
async fn refused(call: &Call, nobody: &Caller, everybody: &[(&str, Caller, Caller)], victims: &Victims) -> usize {
    let (path, body) = effective(call, victims);
    let mut asked = 0;
    let mut expect = async |caller: &Caller, method: &str, status: u16, code: &str, why: &str| {
        let answer = caller.ask(method, &path, &body).await;
        let what = format!("{method} {path} {why}");
        assert_eq!(answer.status, status, "{what}: {answer:?}");
        assert_eq!(answer.code(), code, "{what}");
        assert_headers(&answer, &what);
        asked += 1;
    };
    let method = call.method.as_str();
    let origin = format!("http://{}", nobody.console);
    if method != "GET" {
        for foreign in ["http://evil.example", "null", "http://127.0.0.1:1", &format!("{origin}.evil.example")] {
            for caller in [nobody, &everybody[2].1, &everybody[2].2] {
                expect(&caller.with("origin", foreign), method, 403, "bad_origin", "from another site").await;
            }
        }
        for site in ["cross-site", "same-site"] {
            let caller = everybody[2].1.with("sec-fetch-site", site);
            expect(&caller, method, 403, "bad_origin", "fetched by another site").await;
        }
    }
    let Some(role) = &call.role else { return asked };
    for caller in &strangers(nobody, &everybody[2].1, victims) {
        expect(caller, method, 401, "login_required", "as nobody").await;
        expect(&caller.with("origin", &origin), method, 401, "login_required", "as nobody of this site").await;
    }
    for (has, person, key) in everybody.iter().filter(|(has, ..)| rank(has) < rank(role)) {
        expect(person, method, 403, "forbidden", &format!("as the person {has}")).await;
        expect(key, method, 403, "forbidden", &format!("as the key {has}")).await;
    }
    if method == "GET" {
        return asked;
    }
    // The victim's password and second factor are an admin's affair, though one's own are everybody's.
    if ["/password", "/second-factor"].iter().any(|end| call.path.ends_with(end)) {
        expect(&everybody[0].2, method, 403, "forbidden", "as a viewer's key").await;
        expect(&everybody[1].1, method, 403, "forbidden", "as an operator, for somebody else").await;
    }
    // So is another's login, of which nobody else is told whether it is there.
    if call.path == "/api/logins/{id}" {
        for caller in [&everybody[0].1, &everybody[0].2, &everybody[1].1, &everybody[1].2] {
            expect(caller, method, 404, "not_found", "for somebody else").await;
        }
    }
    for (has, person, _) in everybody.iter().filter(|(has, ..)| rank(has) >= rank(role)) {
        for (token, why) in [(None, "without a token"), (Some(""), "empty"), (Some("0000"), "short")] {
            let caller = token.map_or(person.without("x-csrf-token"), |token| person.with("x-csrf-token", token));
            expect(&caller, method, 403, "bad_csrf", &format!("as {has}, {why}")).await;
        }
        let anothers = everybody.iter().find(|(other, ..)| other != has).unwrap();
        let anothers = anothers.1.headers.iter().find(|(name, _)| *name == "x-csrf-token").unwrap().1.clone();
        expect(&person.with("x-csrf-token", anothers), method, 403, "bad_csrf", &format!("as {has}, another's")).await;
    }
    asked + get_for_a_change(call, &path, &body, everybody).await
}

/// A change that is asked for by a method that cannot change anything.
async fn get_for_a_change(call: &Call, path: &str, body: &Value, everybody: &[(&str, Caller, Caller)]) -> usize {
    for caller in [&everybody[2].1, &everybody[2].2] {
        for method in ["GET", "HEAD"] {
            let answer = caller.ask(method, path, body).await;
            let reads = ["users", "keys", "invitations", "revocations", "namespaces", "whitelist"];
            let reads = path.strip_prefix("/api/").is_some_and(|what| reads.contains(&what));
            // What is read takes no body: whoever sends one wanted something else.
            let status = if !reads {
                405
            } else if body.is_null() {
                200
            } else {
                400
            };
            assert_eq!(answer.status, status, "{method} {path} for {}", call.method);
        }
        // One address with two changes.
        let both = if path.ends_with("/second-factor") { "PUT" } else { call.method.as_str() };
        for method in ["PUT", "PATCH", "OPTIONS"].into_iter().filter(|method| ![both, &call.method].contains(method)) {
            let answer = caller.ask(method, path, body).await;
            assert_eq!(answer.status, 405, "{method} {path}: {answer:?}");
        }
    }
    10
}

async fn page_is_closed(page: &str, nobody: &Caller, everybody: &[(&str, Caller, Caller)]) -> usize {
    let answer = nobody.get(page).await;
    assert_headers(&answer, page);
    let to = answer.header("location").to_owned();
    match page {
        events if events.starts_with("/events") => assert_eq!(answer.status, 401, "{answer:?}"),
        _ => assert!(answer.status == 303 && to.starts_with("/login"), "{page}: {answer:?}"),
    }
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        assert_eq!(nobody.ask(method, page, &Value::Null).await.status, 401, "{method} {page}");
        let answer = everybody[2].1.ask(method, page, &Value::Null).await;
        assert_eq!(answer.status, 405, "{method} {page}: {answer:?}");
    }
    for (role, person, key) in everybody {
        for caller in [person, key] {
            let answer = caller.get(page).await;
            assert!(answer.status == 200 || answer.status == 403, "{page} as {role}: {answer:?}");
            assert!(answer.status == 200 || *role != "admin", "{page}: an admin may see all");
            assert_headers(&answer, page);
        }
    }
    9 + 2 * everybody.len()
}

/// Everybody may what the description says.
async fn admitted(calls: &[Call], everybody: &[(&str, Caller, Caller)], victims: &Victims) -> usize {
    let mut asked = 0;
    for call in calls.iter().filter(|call| call.method == "GET") {
        for (role, person, key) in everybody {
            if call.role.as_ref().is_some_and(|least| rank(role) < rank(least)) {
                continue;
            }
            for caller in [person, key] {
                let answer = caller.get(&effective(call, victims).0).await;
                let fine = match call.path.as_str() {
                    // Keys do not log in.
                    "/login" => [200, 303].contains(&answer.status),
                    // This cluster has no identity provider.
                    "/login/sso" | "/login/sso/callback" => answer.status == 404,
                    _ => answer.status == 200,
                };
                assert!(fine, "{} as {role}: {answer:?}", call.path);
                assert_headers(&answer, &call.path);
                asked += 1;
            }
        }
    }
    asked
}
