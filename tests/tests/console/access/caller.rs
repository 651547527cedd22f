//! Somebody who asks a console, in all the ways that authentication must tell apart.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {} {}", self.status, self.body))
    }

    /// The code of a problem.
    pub(crate) fn code(&self) -> String {
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        self.json()["code"].as_str().unwrap().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

/// A caller with the headers it sends with everything.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    http: reqwest::Client,
    pub(crate) console: SocketAddr,
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Caller {
    pub(crate) fn nobody(console: SocketAddr) -> Self {
        let http = reqwest::Client::builder().no_proxy().redirect(Policy::none()).timeout(Duration::from_secs(60));
        Self { http: http.build().unwrap(), console, headers: Vec::new() }
    }

    pub(crate) fn with(&self, name: &'static str, value: impl Into<String>) -> Self {
        let mut other = self.clone();
        other.headers.retain(|(known, _)| *known != name);
        other.headers.push((name, value.into()));
        other
    }

    pub(crate) fn without(&self, name: &str) -> Self {
        let mut other = self.clone();
        other.headers.retain(|(known, _)| *known != name);
        other
    }

    pub(crate) fn key(&self, key: &str) -> Self {
        self.with("authorization", format!("Bearer {key}"))
    }

    /// The same at another console.
    pub(crate) fn at(&self, console: SocketAddr) -> Self {
        Self { console, ..self.clone() }
    }

    /// Logs in; the new caller has the cookie and the token for changes.
    pub(crate) async fn log_in(&self, user: &str, password: &str) -> Result<Self, Answer> {
        self.log_in_with_code(user, password, "").await
    }

    /// The same with a one-time code.
    pub(crate) async fn log_in_with_code(&self, user: &str, password: &str, code: &str) -> Result<Self, Answer> {
        let form = form(&[("user", user), ("password", password), ("code", code)]);
        let answer = self.post_form("/login", form).await;
        if answer.status != 303 {
            return Err(answer);
        }
        let cookie = answer.header("set-cookie").split(';').next().unwrap().to_owned();
        let inside = self.with("cookie", cookie);
        let me = inside.get("/api/me").await.json();
        Ok(inside.with("x-csrf-token", me["csrf"].as_str().unwrap()))
    }

    pub(crate) async fn post_form(&self, path: &str, form: String) -> Answer {
        let kind = "application/x-www-form-urlencoded";
        self.with("content-type", kind).send("POST", path, form.into_bytes()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, Vec::new()).await
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.with("content-type", "application/json").send(method, path, body).await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: Vec<u8>) -> Answer {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        let url = format!("http://{}{path}", self.console);
        let request = self.http.request(method.parse().unwrap(), &url).headers(headers).body(body);
        let answer = request.send().await.unwrap_or_else(|e| panic!("{method} {path}: {e}"));
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        // A live page has no end.
        let endless = headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
        let body = if endless { String::new() } else { answer.text().await.unwrap() };
        Answer { status, headers, body }
    }
}

/// A form's body.
pub(crate) fn form(fields: &[(&str, &str)]) -> String {
    fields.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect::<Vec<_>>().join("&")
}

/// A text as one piece of an address, or a form's value.
pub(crate) fn escaped(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// Makes a user of each role, and a key of each. The callers as both, by role.
pub(crate) async fn everybody(admin: &Caller) -> Vec<(&'static str, Caller, Caller)> {
    let mut all = Vec::new();
    for role in ["viewer", "operator", "admin"] {
        let password = format!("the {role}'s password");
        let user = json!({"name": format!("a-{role}"), "password": password, "role": role});
        let made = admin.ask("POST", "/api/users", &user).await;
        assert_eq!(made.status, 201, "{made:?}");
        let key = admin.ask("POST", "/api/keys", &json!({"name": format!("k-{role}"), "role": role})).await;
        assert_eq!(key.status, 201, "{key:?}");
        let outside = Caller::nobody(admin.console);
        let person = outside.log_in(&format!("a-{role}"), &password).await.unwrap();
        all.push((role, person, outside.key(key.json()["key"].as_str().unwrap())));
    }
    all
}
