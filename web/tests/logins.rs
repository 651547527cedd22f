//! Logins: everybody sees and ends the own ones, admins all, and what is ended opens nothing any more. Invitations are admins' affair.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod sample;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, Response};
use common::account::User;
use sample::ask::{BODY_MAX, few, next_parts};
use sample::{KEY, SampleAccounts};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tower::ServiceExt as _;
use web::Role;

const PASSWORD: &str = "correct horse battery";

/// Somebody who asks: by a cookie with the token for changes, or by a key.
type Headers = Vec<(&'static str, String)>;

/// A console with an admin, a viewer, and a key of this role.
fn console(key: Role) -> (Arc<SampleAccounts>, Router) {
    let phc = web::hash(PASSWORD.as_bytes()).unwrap();
    let user = |name: &str, role| User { name: name.parse().unwrap(), role, phc: phc.clone(), totp: None };
    let users = Mutex::new(vec![user("admin", Role::Admin), user("olga", Role::Viewer)]);
    let accounts = Arc::new(SampleAccounts { users, ..SampleAccounts::with_key_of(key) });
    (Arc::clone(&accounts), web::router(Arc::new(few()), accounts.auth()))
}

fn by_key() -> Headers {
    vec![("authorization", format!("Bearer {KEY}"))]
}

async fn send(router: &Router, by: &Headers, method: &str, address: &str, body: String) -> Response<Body> {
    let request = Request::builder().method(method).uri(address).header("host", "localhost");
    let request = by.iter().fold(request, |request, (name, value)| request.header(*name, value));
    router.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap()
}

async fn ask(router: &Router, by: &Headers, method: &str, address: &str) -> (u16, String) {
    let response = send(router, by, method, address, String::new()).await;
    let status = response.status().as_u16();
    (status, String::from_utf8(to_bytes(response.into_body(), BODY_MAX).await.unwrap().into()).unwrap())
}

async fn json_of(router: &Router, by: &Headers, address: &str) -> Value {
    let (status, body) = ask(router, by, "GET", address).await;
    assert_eq!(status, 200, "{address}: {body}");
    serde_json::from_str(&body).unwrap()
}

async fn try_log_in(router: &Router, user: &str, code: &str) -> Response<Body> {
    let form = vec![("content-type", "application/x-www-form-urlencoded".to_owned())];
    let password = PASSWORD.replace(' ', "+");
    send(router, &form, "POST", "/login", format!("user={user}&password={password}&code={code}")).await
}

async fn log_in(router: &Router, user: &str) -> Headers {
    let answer = try_log_in(router, user, "").await;
    let cookie = answer.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let mut by = vec![("cookie", cookie)];
    let csrf = json_of(router, &by, "/api/me").await["csrf"].as_str().unwrap().to_owned();
    by.push(("x-csrf-token", csrf));
    by
}

/// The logins that somebody sees, each as its user and whether it is an own one and the current one.
async fn seen(router: &Router, by: &Headers) -> Vec<(String, bool, bool)> {
    let rows = json_of(router, by, "/api/logins").await;
    let seen = |row: &Value| (row["user"].as_str().unwrap().to_owned(), row["own"] == true, row["current"] == true);
    rows.as_array().unwrap().iter().map(seen).collect()
}

/// The id of somebody's own current login.
async fn id_of(router: &Router, by: &Headers) -> String {
    let rows = json_of(router, by, "/api/logins").await;
    let current = rows.as_array().unwrap().iter().find(|row| row["current"] == true).unwrap();
    current["id"].as_str().unwrap().to_owned()
}

async fn end(router: &Router, by: &Headers, id: &str) -> (u16, Value) {
    let (status, body) = ask(router, by, "DELETE", &format!("/api/logins/{id}")).await;
    let code = serde_json::from_str::<Value>(&body).unwrap_or_default()["code"].clone();
    (status, code)
}

async fn is_in(router: &Router, by: &Headers) -> bool {
    let (status, _) = ask(router, by, "GET", "/api/me").await;
    assert!(status == 200 || status == 401, "{status}");
    status == 200
}

fn not_found() -> (u16, Value) {
    (404, json!("not_found"))
}

#[tokio::test]
async fn everybody_sees_the_own_logins_and_admins_all() {
    let (accounts, router) = console(Role::Admin);
    let (admin, olga, again) =
        (log_in(&router, "admin").await, log_in(&router, "olga").await, log_in(&router, "olga").await);
    let row = |user: &str, own, current| (user.to_owned(), own, current);
    let mine = seen(&router, &olga).await;
    assert_eq!(mine.len(), 2);
    assert!(mine.contains(&row("olga", true, true)) && mine.contains(&row("olga", true, false)), "{mine:?}");
    let all = seen(&router, &admin).await;
    assert_eq!(all[0], row("admin", true, true), "the own ones come first");
    assert_eq!(all[1..], [row("olga", false, false), row("olga", false, false)]);
    assert_eq!(seen(&router, &by_key()).await.len(), 3);
    assert!(seen(&router, &by_key()).await.iter().all(|(_, own, current)| !own && !current));

    let rows = json_of(&router, &admin, "/api/logins").await;
    for row in rows.as_array().unwrap() {
        let id = row["id"].as_str().unwrap();
        assert!(id.len() == 16 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{row}");
        assert_eq!(row.as_object().unwrap().len(), 7, "{row}");
        let [began, used, ends] = ["began", "used", "ends"].map(|name| row[name].as_str().unwrap());
        assert!(began <= used && used < ends && ends.ends_with('Z'), "{row}");
    }
    for by in [&admin, &olga, &again] {
        let cookie = by[0].1.split('=').nth(1).unwrap();
        assert!(!rows.to_string().contains(cookie) && !rows.to_string().contains(&by[1].1), "a secret is told");
    }
    // Olga was changed at the other master: nothing of hers is a login any more, though she has not come back yet.
    accounts.users.lock().unwrap()[1].role = Role::Operator;
    assert_eq!(seen(&router, &admin).await, [row("admin", true, true)]);
}

#[tokio::test]
async fn own_logins_are_ended_by_everybody_and_others_by_admins() {
    let (accounts, router) = console(Role::Admin);
    let (admin, olga, again) =
        (log_in(&router, "admin").await, log_in(&router, "olga").await, log_in(&router, "olga").await);
    let admins = id_of(&router, &admin).await;
    for id in [admins.as_str(), "0000000000000000", "x", &admins[..15], &format!("{admins}0"), "%F0%9F%98%80"] {
        assert_eq!(end(&router, &olga, id).await, not_found(), "{id}");
    }
    assert!(is_in(&router, &admin).await);
    let without = vec![olga[0].clone()];
    assert_eq!(end(&router, &without, &id_of(&router, &again).await).await, (403, json!("bad_csrf")));

    accounts.noted.lock().unwrap().clear();
    let (other, own) = (id_of(&router, &again).await, id_of(&router, &olga).await);
    assert_eq!(end(&router, &olga, &other).await, (204, Value::Null));
    assert!(!is_in(&router, &again).await && is_in(&router, &olga).await);
    assert!(matches!(accounts.kept.lock().unwrap().last(), Some((hash, None)) if hash.to_string().starts_with(&other)));
    assert_eq!(end(&router, &olga, &other).await, not_found());
    assert_eq!(end(&router, &olga, &own).await, (204, Value::Null));
    assert!(!is_in(&router, &olga).await, "that was a logout");
    let page = send(&router, &olga, "GET", "/users", String::new()).await;
    assert_eq!((page.status().as_u16(), &page.headers()["location"]), (303, &"/login?next=/users".parse().unwrap()));
    assert!(accounts.noted.lock().unwrap().is_empty(), "as of logouts");

    for by in [&admin, &by_key()] {
        let olga = log_in(&router, "olga").await;
        let id = id_of(&router, &olga).await;
        assert_eq!(end(&router, by, &id).await, (204, Value::Null));
        assert!(!is_in(&router, &olga).await);
        let who = if by.len() == 2 { "admin" } else { "key all" };
        let line = format!("{who} login.end olga");
        assert_eq!(accounts.noted.lock().unwrap().last(), Some(&line));
    }
}

#[tokio::test]
async fn keys_of_others_than_admins_see_and_end_none() {
    for role in [Role::Viewer, Role::Operator] {
        let (_, router) = console(role);
        let olga = log_in(&router, "olga").await;
        assert_eq!(seen(&router, &by_key()).await, [], "{role}");
        assert_eq!(end(&router, &by_key(), &id_of(&router, &olga).await).await, not_found(), "{role}");
        assert!(is_in(&router, &olga).await && !ask(&router, &by_key(), "GET", "/users").await.1.contains("logins"));
    }
}

#[tokio::test]
async fn the_page_lists_them_with_a_button_that_waits_for_nobody() {
    let (_, router) = console(Role::Admin);
    let (admin, olga) = (log_in(&router, "admin").await, log_in(&router, "olga").await);
    let (admins, olgas) = (id_of(&router, &admin).await, id_of(&router, &olga).await);
    let button = |name: &str, id: &str| {
        format!(
            "<button type=\"button\" class=\"quiet danger\" data-open=\"end-login\" data-name=\"{name}\" data-id=\"{id}\">"
        )
    };
    let (_, page) = ask(&router, &olga, "GET", "/users").await;
    assert!(page.contains(&button("olga", &olgas)) && page.contains("<span class=\"tag\">this one</span>"), "{page}");
    assert!(!page.contains(&admins) && page.contains("At this master alone"), "{page}");
    let (_, page) = ask(&router, &admin, "GET", "/users").await;
    assert!(page.contains(&button("olga", &olgas)) && page.contains(&button("admin", &admins)), "{page}");
    assert!(
        page.contains("data-api=\"DELETE /api/logins/{id}\"") && page.contains("data-confirm=\"{name}\""),
        "{page}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_login_watches_ends_with_it() {
    let (_, router) = console(Role::Admin);
    let olga = log_in(&router, "olga").await;
    let answer = send(&router, &olga, "GET", "/events", String::new()).await;
    let mut events = answer.into_body().into_data_stream();
    assert!(next_parts(&mut events).await.is_some());
    assert_eq!(end(&router, &by_key(), &id_of(&router, &olga).await).await.0, 204);
    while next_parts(&mut events).await.is_some() {}
}

#[tokio::test]
async fn a_second_factor_is_set_up_by_its_owner_asked_for_and_given_up() {
    let (_, router) = console(Role::Admin);
    let (admin, olga) = (log_in(&router, "admin").await, log_in(&router, "olga").await);
    let address = "/api/users/olga/second-factor";
    let sent = async |by: &Headers, method: &str, body: Value| {
        let by = [by.clone(), vec![("content-type", "application/json".to_owned())]].concat();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        send(&router, &by, method, address, body).await.status().as_u16()
    };
    // The secret is drawn for the page, and its own at each look.
    let drawn = async || {
        let page = ask(&router, &olga, "GET", "/users").await.1;
        assert!(page.contains("<div class=\"qr wide\" role=\"img\"") && page.contains("<svg"), "{page}");
        let (_, rest) = page.split_once("name=\"secret\" class=\"mono\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let secret = drawn().await;
    assert_ne!(secret, drawn().await);
    let its = totp_rs::Builder::new().with_secret(totp_rs::Secret::try_from_base32(&secret).unwrap());
    let its = its.build_noncompliant();
    let code = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        its.generate(now.as_secs()).to_string()
    };
    let form = |code: &str, current: &str| json!({ "secret": secret, "code": code, "current": current });
    let other = json!({ "secret": "GEZDGNBV", "code": code(), "current": PASSWORD });
    for (by, form, status) in [
        (&olga, form(&code(), "not hers"), 403),
        (&olga, form("000 00", PASSWORD), 400),
        (&olga, other, 400),
        (&admin, form(&code(), PASSWORD), 403),
        (&by_key(), form(&code(), PASSWORD), 403),
    ] {
        assert_eq!(sent(by, "PUT", form.clone()).await, status, "{form}");
    }
    assert!(is_in(&router, &olga).await);
    assert_eq!(sent(&olga, "PUT", form(&code(), PASSWORD)).await, 200);
    assert!(!is_in(&router, &olga).await, "logins without it have ended");
    let users = json_of(&router, &admin, "/api/users").await;
    assert_eq!((&users[0]["second_factor"], &users[1]["second_factor"]), (&json!(false), &json!(true)), "{users}");

    for wrong in ["", "000000x", "1"] {
        assert_eq!(try_log_in(&router, "olga", wrong).await.status(), 401, "{wrong}");
    }
    let once = code();
    let shown = format!("{}+{}", &once[..3], &once[3..]);
    assert_eq!(try_log_in(&router, "olga", &shown).await.status(), 303);
    assert_eq!(try_log_in(&router, "olga", &once).await.status(), 401, "a code opens once");
    // Whoever lost the device is helped by an admin, a viewer helps nobody.
    assert_eq!(sent(&vec![], "DELETE", Value::Null).await, 401);
    assert_eq!(sent(&admin, "DELETE", Value::Null).await, 204);
    let olga = log_in(&router, "olga").await;
    assert_eq!(sent(&olga, "PUT", form(&code(), PASSWORD)).await, 200);
    let by_her_own = try_log_in(&router, "olga", &its.generate(0).to_string()).await.status();
    assert_eq!(by_her_own, 401, "a code of long ago");
}

#[tokio::test]
async fn admins_alone_invite_and_what_cannot_be_given_is_refused() {
    let (accounts, router) = console(Role::Admin);
    let (admin, olga) = (log_in(&router, "admin").await, log_in(&router, "olga").await);
    let invite = async |by: &Headers, form: Value| {
        let answer = send(&router, by, "POST", "/api/invitations", form.to_string()).await;
        let status = answer.status().as_u16();
        (status, serde_json::from_slice::<Value>(&to_bytes(answer.into_body(), BODY_MAX).await.unwrap()).unwrap())
    };
    let by = |headers: &Headers| [headers.clone(), vec![("content-type", "application/json".to_owned())]].concat();
    for (form, why) in [
        (json!({"role": "master"}), "uniq_master --invite master"),
        (json!({"role": "admin"}), "role: agent or client"),
        (json!({"role": "agent", "name": "a b"}), "name: "),
        (json!({"role": "agent", "name": "orders-1", "uses": 2}), "of one name there is one certificate"),
        (json!({"role": "client", "uses": 0}), "uses: "),
        (json!({"role": "client", "uses": 10_001}), "uses: "),
        (json!({"role": "client", "hours": 0}), "hours: 1 to 720"),
        (json!({"role": "client", "hours": 721}), "hours: 1 to 720"),
        (json!({"role": "client", "names": ["a b"]}), "names: "),
        (json!({"role": "client", "names": vec!["a.example"; 17]}), "names: "),
        (json!({"role": "client", "x": 1}), "unknown field"),
    ] {
        let (status, answer) = invite(&by(&admin), form.clone()).await;
        let detail = answer["detail"].as_str().unwrap();
        assert!(status == 400 && answer["code"] == "bad_parameter" && detail.contains(why), "{form}: {answer}");
    }
    accounts.refused.lock().unwrap().clear();
    assert_eq!(invite(&by(&olga), json!({"role": "agent"})).await.0, 403);
    let wrong_key = vec![("authorization", format!("Bearer {}x", &KEY[..KEY.len() - 1]))];
    assert_eq!(ask(&router, &wrong_key, "GET", "/api/leases").await.0, 401);
    assert_eq!(ask(&router, &Vec::new(), "GET", "/api/leases").await.0, 401, "of whom nobody needs to hear");
    assert_eq!(try_log_in(&router, "nobody", "").await.status().as_u16(), 401);
    assert_eq!(
        *accounts.refused.lock().unwrap(),
        [
            "olga at console: POST /api/invitations: 403",
            "somebody at console: GET /api/leases: 401",
            "somebody at login: a wrong name, password or one-time code"
        ]
    );
    assert_eq!(ask(&router, &olga, "GET", "/api/invitations").await.0, 403);
    assert!(!ask(&router, &olga, "GET", "/users").await.1.contains("/api/invitations"));
    assert!(accounts.invited.lock().unwrap().is_empty());

    let form = json!({"role": "agent", "name": "orders-1", "names": ["ids.example.com"], "networks": ["10.8.3.4/16"], "hours": 2});
    let (status, made) = invite(&by(&admin), form).await;
    let (invitation, open) = accounts.invited.lock().unwrap()[0].clone();
    assert_eq!((status, made["invitation"].as_str()), (201, Some(invitation.to_string().as_str())));
    assert_eq!((&made["role"], &made["uses"], &made["warning"]), (&json!("agent/orders-1"), &json!(1), &Value::Null));
    assert!(made["command"].as_str().unwrap().starts_with("uniq_generator --format"));
    let all = json_of(&router, &by_key(), "/api/invitations").await;
    assert_eq!(
        all,
        json!([{
            "id": open.id, "role": "agent/orders-1", "names": ["ids.example.com"], "uses": 1, "networks": ["10.8.0.0/16"],
            "until": made["until"],
        }])
    );
    let page = ask(&router, &admin, "GET", "/users").await.1;
    assert!(
        page.contains("invitation-0123456789abcdef") && !page.contains(&invitation.to_string()),
        "no secret is shown again"
    );
    assert_eq!(ask(&router, &olga, "DELETE", "/api/invitations/0123456789abcdef").await.0, 403);
    assert_eq!(ask(&router, &admin, "DELETE", "/api/invitations/0123456789abcdef").await.0, 204);
    assert_eq!(ask(&router, &admin, "DELETE", "/api/invitations/0123456789abcdef").await.0, 404);
    let (_, made) = invite(&by(&admin), json!({"role": "client", "at": "127.0.0.1:7101"})).await;
    assert_eq!(made["warning"], Value::Null, "somebody leads that address here");
    *accounts.invited_at.lock().unwrap() = "127.0.0.1:7101";
    let (_, made) = invite(&by(&admin), json!({"role": "client"})).await;
    assert!(made["warning"].as_str().unwrap().contains("on loopback"), "{made}");
}
