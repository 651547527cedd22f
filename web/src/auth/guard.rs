//! The guard that every request passes first.

use super::{Auth, Entry, Role, Source, Who, sso};
use crate::problem::Problem;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use common::account::SecretHash;
use common::audit::{Actor, RefusedAt};
use common::hosts::HostError;
use futures::StreamExt as _;
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq as _;

/// Header of the token that a change by cookie needs.
pub(crate) const CSRF_HEADER: &str = "x-csrf-token";
/// Interval at which an event stream checks that its login goes on.
const WATCH_AGAIN: Duration = Duration::from_secs(5);

/// Tells whether a path needs no login: the way in, what machines watch, and what says how to speak to this program.
fn is_open(path: &str) -> bool {
    matches!(path, "/login" | "/login/sso" | sso::CALLBACK | "/healthz" | "/readyz" | "/metrics" | "/openapi.json")
        || path.starts_with("/assets/")
}

/// Tells whether everybody who is logged in may ask for a change; the handler knows the rest.
fn is_own_affair(path: &str) -> bool {
    let is_own_login =
        path.starts_with("/api/users/") && ["/password", "/second-factor"].iter().any(|end| path.ends_with(end));
    path == "/logout" || is_own_login || path.starts_with("/api/logins/")
}

/// Lets a request in with its [`Who`], or says why not.
pub(crate) async fn guard(State(auth): State<Arc<Auth>>, request: Request, next: Next) -> Response {
    let from = request.extensions().get().copied().map(Extension);
    let asked = format!("{} {}", request.method(), request.uri().path());
    let has_key = request.headers().contains_key(header::AUTHORIZATION);
    let (who, response) = match admit(&auth, request).await {
        Ok((request, login)) => {
            let who = request.extensions().get::<Who>().map(|who| who.name.clone());
            let response = next.run(request).await;
            let response = match login {
                Some(login) if is_events(response.headers()) => ends_with_login(response, Arc::clone(&auth), login),
                _ => response,
            };
            (who, response)
        }
        Err((who, refused)) => (who, refused),
    };
    // Without a key, who is told to log in has done nothing wrong.
    if response.status() == StatusCode::FORBIDDEN || (response.status() == StatusCode::UNAUTHORIZED && has_key) {
        let who = Actor::new(who.as_deref().unwrap_or("somebody"), &Source::address(from).to_string());
        auth.accounts().refused(RefusedAt::Console, who, format!("{asked}: {}", response.status().as_u16()));
    }
    response
}

/// Lets a request in, with the login that it has; or says who is refused, if that is known, and why.
async fn admit(auth: &Auth, mut request: Request) -> Result<(Request, Option<SecretHash>), (Option<String>, Response)> {
    let nobody = |why: Problem| (None, why.into_response());
    check_host(auth, &request).map_err(nobody)?;
    let path = request.uri().path();
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if !reads && !is_own_origin(request.headers()) {
        let why = "this came from another site's page; changes are taken from the console's own pages and from scripts";
        return Err(nobody(Problem::new(StatusCode::FORBIDDEN, "bad_origin", why)));
    }
    if is_open(path) {
        return Ok((request, None));
    }
    let (who, login) = match auth.recognise(request.headers()).await.map_err(nobody)? {
        Entry::Key(who) => (who, None),
        Entry::Login(who, hash) => (who, Some(hash)),
        Entry::Nobody => return Err((None, to_login(&request, reads))),
    };
    let refused = |why: Problem| (Some(who.name.clone()), why.into_response());
    // A form cannot send the header; the handler of /logout looks into the form.
    if !reads && path != "/logout" && !has_csrf_token(&who, request.headers()) {
        let why = format!("a change by cookie needs the header {CSRF_HEADER} with the page's token");
        return Err(refused(Problem::new(StatusCode::FORBIDDEN, "bad_csrf", why)));
    }
    if !reads && !is_own_affair(path) {
        who.clone().at_least(Role::Operator).map_err(refused)?;
    }
    request.extensions_mut().insert(who);
    Ok((request, login))
}

/// A page of another site may have a name that leads here: see [`common::hosts`].
fn check_host(auth: &Auth, request: &Request) -> Result<(), Problem> {
    let named = request.headers().get_all(header::HOST).iter().map(HeaderValue::as_bytes);
    let target = request.uri().authority().map(|authority| authority.as_str());
    let checked = auth.hosts().check(request.version() == Version::HTTP_11, named, target);
    checked.map_err(|why| match why {
        HostError::Count(_) => Problem::new(StatusCode::BAD_REQUEST, "bad_host", why.to_string()),
        HostError::Unknown(_) => Problem::new(StatusCode::MISDIRECTED_REQUEST, "unknown_host", why.to_string()),
    })
}

/// People are led to the login and back; scripts, and the page's own requests, are told.
fn to_login(request: &Request, reads: bool) -> Response {
    let uri = request.uri();
    let is_api = uri.path() == "/api" || uri.path().starts_with("/api/");
    let accepts = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_events = uri.path() == "/events" || uri.path().starts_with("/events/");
    if !reads || is_api || is_events || accepts.contains("text/event-stream") {
        return Problem::login_required().into_response();
    }
    let back = uri.path_and_query().map_or("/", |path| path.as_str());
    let to = if back == "/" { "/login".to_owned() } else { format!("/login?next={}", escaped(back)) };
    Redirect::to(&to).into_response()
}

/// A text as the value of a query.
pub(super) fn escaped(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/-._~".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// Tells whether a browser says that one of our own pages asks. A caller that sends neither header is not a browser.
fn is_own_origin(headers: &HeaderMap) -> bool {
    let text = |name: header::HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if text(header::HeaderName::from_static("sec-fetch-site"))
        .is_some_and(|site| !matches!(site, "same-origin" | "none"))
    {
        return false;
    }
    let Some(origin) = text(header::ORIGIN) else { return true };
    let there = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    there.zip(text(header::HOST)).is_some_and(|(there, here)| there.eq_ignore_ascii_case(here))
}

/// Keys need none: no browser sends them by itself.
fn has_csrf_token(who: &Who, headers: &HeaderMap) -> bool {
    who.csrf.as_deref().is_none_or(|token| {
        let given = headers.get(CSRF_HEADER).map(HeaderValue::as_bytes).unwrap_or_default();
        is_token(given, token)
    })
}

/// Tells whether `given` is the token; how long that takes says nothing of it.
pub(crate) fn is_token(given: &[u8], token: &str) -> bool {
    given.ct_eq(token.as_bytes()).into()
}

fn is_events(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// Ends an answer when the login ends: who was thrown out must not go on watching.
fn ends_with_login(response: Response, auth: Arc<Auth>, login: SecretHash) -> Response {
    let over = async move {
        loop {
            tokio::time::sleep(WATCH_AGAIN).await;
            if matches!(auth.recognise_login(login).await, Ok(Entry::Nobody)) {
                return;
            }
        }
    };
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(over))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (header::HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn only_our_own_pages_and_no_pages_at_all_may_ask_for_changes() {
        let host = ("host", "10.0.0.1:7301");
        for (pairs, own) in [
            (vec![host], true),
            (vec![host, ("origin", "http://10.0.0.1:7301")], true),
            (vec![host, ("origin", "https://10.0.0.1:7301")], true),
            (vec![host, ("origin", "http://10.0.0.1:7301"), ("sec-fetch-site", "same-origin")], true),
            (vec![host, ("origin", "http://10.0.0.1:7302")], false),
            (vec![host, ("origin", "http://10.0.0.1")], false),
            (vec![host, ("origin", "http://evil.example")], false),
            (vec![host, ("origin", "http://10.0.0.1:7301.evil.example")], false),
            (vec![host, ("origin", "null")], false),
            (vec![host, ("origin", "")], false),
            (vec![host, ("origin", "file://10.0.0.1:7301")], false),
            (vec![host, ("sec-fetch-site", "cross-site")], false),
            (vec![host, ("sec-fetch-site", "same-site")], false),
            (vec![("origin", "http://10.0.0.1:7301")], false),
        ] {
            assert_eq!(is_own_origin(&headers(&pairs)), own, "{pairs:?}");
        }
    }

    #[test]
    fn the_way_back_is_escaped() {
        assert_eq!(escaped("/leases?type=uint2&a=%20#x"), "/leases%3Ftype%3Duint2%26a%3D%2520%23x");
    }
}
