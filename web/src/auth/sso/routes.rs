//! `/login/sso`, and the way back from the identity provider.

use super::super::login::{COOKIE_S, Next, cookie_set, own_path, page};
use super::super::{Auth, Source, secret};
use super::{Back, Sso, SsoError};
use crate::auth::guard::escaped;
use crate::preferences::Preferences;
use crate::problem::Problem;
use crate::words::Words;
use askama::Template;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use common::audit::{Actor, RefusedAt};
use std::net::IpAddr;
use std::sync::Arc;

/// Seconds that somebody has at the provider.
const BEGUN_S: i64 = 600;

/// A page that leads on: a cookie that is for this console's own pages alone is not sent where another site led to.
#[derive(Template)]
#[template(path = "entered.html")]
struct EnteredPage<'a> {
    w: &'static Words,
    lang: &'static str,
    theme: &'static str,
    next: &'a str,
}

/// The way to the identity provider, where there is one.
#[utoipa::path(
    get, path = "/login/sso", tag = "login", params(Next),
    responses(
        (status = 303, description = "To the identity provider"),
        (status = 404, description = "This master has none, as a page"),
        (status = 503, description = "The identity provider cannot be asked, as a page")
    )
)]
pub(crate) async fn begin(
    State(auth): State<Arc<Auth>>,
    query: Result<Query<Next>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let preferences = Preferences::of(&headers);
    let Some(sso) = auth.sso() else { return Problem::not_found().into_page(preferences) };
    let next = query.map(|Query(query)| query.next).unwrap_or_default();
    let (next, secret) = (own_path(&next), secret().to_string());
    match sso.begin(&secret).await {
        Ok(to) => {
            let set = sso.begun_set(&auth.begun_cookie(), &format!("{secret}.{}", escaped(next)), BEGUN_S);
            ([(header::SET_COOKIE, set)], Redirect::to(&to)).into_response()
        }
        Err(why) => auth.not_entered(&why, Source::address(None), preferences),
    }
}

/// The way back from the identity provider.
#[utoipa::path(
    get, path = "/login/sso/callback", tag = "login",
    params(
        ("code" = Option<String>, Query, description = "The provider's code"),
        ("state" = Option<String>, Query, description = "What this console gave the provider"),
        ("iss" = Option<String>, Query, description = "The provider"),
        ("error" = Option<String>, Query, description = "Why the provider lets nobody in")
    ),
    responses(
        (status = 200, description = "You are in; the cookie is set, and the page leads on"),
        (status = 401, description = "You are not, or have no role here, as a page"),
        (status = 404, description = "This master has no identity provider, as a page"),
        (status = 503, description = "The identity provider cannot be asked, or is not set up as this console is, as a page")
    )
)]
pub(crate) async fn finish(
    State(auth): State<Arc<Auth>>,
    source: Option<Extension<Source>>,
    query: Result<Query<Back>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let preferences = Preferences::of(&headers);
    let Some(sso) = auth.sso() else { return Problem::not_found().into_page(preferences) };
    let from = Source::address(source);
    let back = query.map(|Query(back)| back).unwrap_or_default();
    let kept = auth.cookie_of(&headers, &auth.begun_cookie()).and_then(|kept| kept.split_once('.'));
    // Whoever keeps nothing has begun nothing: what follows from an empty secret anybody can know.
    let Some((secret, next)) = kept.filter(|(secret, _)| is_secret(secret)) else {
        return auth.not_entered(&SsoError::not_begun(), from, preferences);
    };
    match auth.enter(sso, &back, secret, from).await {
        Ok(cookie) => {
            let next = unescaped(next);
            let w = preferences.lang.words();
            let (lang, theme) = (preferences.lang.tag(), preferences.theme.name());
            let page = EnteredPage { w, lang, theme, next: own_path(&next) }.render();
            let cookies = [
                (header::SET_COOKIE, auth.login_set(&cookie, COOKIE_S, sso.is_by_tls())),
                (header::SET_COOKIE, sso.begun_set(&auth.begun_cookie(), "", 0)),
            ];
            match page {
                Ok(html) => (axum::response::AppendHeaders(cookies), Html(html)).into_response(),
                Err(why) => Problem::from(why).into_page(preferences),
            }
        }
        Err(why) => auth.not_entered(&why, from, preferences),
    }
}

/// Tells whether a text is one of ours: 64 hexadecimal digits.
fn is_secret(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The text that was escaped as the value of a query.
fn unescaped(text: &str) -> String {
    form_urlencoded::parse(text.as_bytes()).next().map(|(text, _)| text.into_owned()).unwrap_or_default()
}

impl Sso {
    /// The cookie of a login that has begun. The provider's site leads the browser back, so it is sent where other sites lead to.
    fn begun_set(&self, name: &str, value: &str, seconds: i64) -> String {
        // With `__Host-` no other host name, and nobody on the way, gives a browser one; it demands the whole site.
        let path = if self.is_by_tls() { "/" } else { "/login/sso" };
        cookie_set((name, value), seconds, (path, "Lax"), self.is_by_tls())
    }
}

impl Auth {
    /// The cookie of the login of who comes back from the provider.
    async fn enter(&self, sso: &Sso, back: &Back, secret: &str, from: IpAddr) -> Result<String, SsoError> {
        let person = sso.finish(back, secret).await?;
        let kept = self.begin(person, sso.proof(), from).await;
        kept.map_err(|why| SsoError::Provider(format!("this master cannot keep a login now: {}", why.detail())))
    }

    /// Says why nobody is logged in: all of it to who reads the log, and what helps to who tries.
    fn not_entered(&self, why: &SsoError, from: IpAddr, preferences: Preferences) -> Response {
        let w = preferences.lang.words();
        let (status, told) = match why {
            SsoError::Provider(_) => {
                tracing::error!(%why, "single sign-on does not work");
                return page(self, StatusCode::SERVICE_UNAVAILABLE, ("/", "", w.sso_unavailable), preferences);
            }
            SsoError::Wrong(_) => (StatusCode::UNAUTHORIZED, w.sso_wrong),
            SsoError::NoRole { .. } => (StatusCode::UNAUTHORIZED, w.sso_no_role),
        };
        tracing::warn!(%from, %why, "a login by single sign-on failed");
        let who = match why {
            SsoError::NoRole { name, .. } => format!("sso {name}"),
            _ => "somebody".to_owned(),
        };
        let told_why = match why {
            SsoError::NoRole { .. } => "single sign-on without a role".to_owned(),
            why => format!("single sign-on: {why}"),
        };
        self.accounts().refused(RefusedAt::Login, Actor::new(&who, &from.to_string()), told_why);
        page(self, status, ("/", "", told), preferences)
    }
}
