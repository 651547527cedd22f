//! `/login` and `/logout`.

use super::guard::{CSRF_HEADER, is_token};
use super::{Auth, Source, Who, proof, secret};
use crate::preferences::{self, Choice, Preferences};
use crate::problem::{Problem, ProblemBody};
use crate::words::{Words, fill};
use askama::Template;
use axum::Form;
use axum::extract::rejection::{FormRejection, QueryRejection};
use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use common::account::{Login, Person, SecretHash, User};
use common::audit::{Action, Actor, Note, RefusedAt};
use common::time::SECOND_MS;
use serde::Deserialize;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};
use utoipa::{IntoParams, ToSchema};

/// The longest address that somebody is led back to.
const NEXT_LEN_MAX: usize = 512;
/// Seconds for which the browser keeps the cookie; the server ends the login earlier if it is not used.
pub(super) const COOKIE_S: i64 = super::logins::AGE_MAX.0 / SECOND_MS;

/// The query of `GET /login`.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Next {
    /// Address of this console to go to afterwards.
    #[serde(default)]
    pub(super) next: String,
}

/// The form of `POST /login`.
#[derive(Deserialize, ToSchema)]
pub(crate) struct LoginForm {
    user: String,
    password: String,
    /// The one-time code of a user who has set them up.
    #[serde(default)]
    code: String,
    #[serde(default)]
    next: String,
}

/// The form of `POST /logout`.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct LogoutForm {
    /// The page's token; or in the header X-CSRF-Token.
    #[serde(default)]
    csrf: String,
}

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage<'a> {
    w: &'static Words,
    lang: &'static str,
    theme: &'static str,
    langs: Vec<Choice>,
    themes: Vec<Choice>,
    next: &'a str,
    user: &'a str,
    /// Empty if nothing is wrong.
    problem: &'a str,
    /// There is an identity provider, too.
    sso: bool,
}

/// The form to log in with, as a page.
#[utoipa::path(
    get, path = "/login", tag = "login", params(Next),
    responses((status = 200, description = "The form"), (status = 303, description = "You are logged in already"))
)]
pub(crate) async fn form(
    State(auth): State<Arc<Auth>>,
    query: Result<Query<Next>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let next = query.map(|Query(query)| query.next).unwrap_or_default();
    let (next, preferences) = (own_path(&next), Preferences::of(&headers));
    match auth.recognise(&headers).await {
        Ok(super::Entry::Login(..)) => Redirect::to(next).into_response(),
        _ => page(&auth, StatusCode::OK, (next, "", ""), preferences),
    }
}

/// Sets a cookie for the right name and password, and one-time code where the user has them.
#[utoipa::path(
    post, path = "/login", tag = "login",
    request_body(content = LoginForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 303, description = "You are in; the cookie is set"),
        (status = 401, description = "Wrong name, password or one-time code, as a page"),
        (status = 403, description = "`bad_origin`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 429, description = "Five failures in 15 minutes, by this name or from this address")
    )
)]
pub(crate) async fn log_in(
    State(auth): State<Arc<Auth>>,
    source: Option<Extension<Source>>,
    headers: HeaderMap,
    form: Result<Form<LoginForm>, FormRejection>,
) -> Response {
    let form = match form {
        Ok(Form(form)) => form,
        Err(e) => return Problem::bad_parameter(e.body_text()).into_response(),
    };
    let from = Source::address(source);
    let next = own_path(&form.next);
    match auth.log_in(&form.user, form.password, &form.code, from).await {
        Ok(cookie) => {
            let set = auth.set_cookie(&headers, &cookie, COOKIE_S);
            ([(header::SET_COOKIE, set)], Redirect::to(next)).into_response()
        }
        Err(refused) => refused.answer(&auth, next, &form.user, Preferences::of(&headers)),
    }
}

/// Ends the login.
#[utoipa::path(
    post, path = "/logout", tag = "login",
    request_body(content = LogoutForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 303, description = "You are out; the cookie is gone"),
        (status = 403, description = "`bad_csrf`, `bad_origin`", body = ProblemBody, content_type = "application/problem+json")
    ),
    security(("login" = ["viewer"]))
)]
pub(crate) async fn log_out(
    State(auth): State<Arc<Auth>>,
    who: Who,
    headers: HeaderMap,
    form: Result<Form<LogoutForm>, FormRejection>,
) -> Response {
    let in_form = form.map(|Form(form)| form.csrf).unwrap_or_default();
    let given = headers.get(CSRF_HEADER).map_or(in_form.as_bytes(), HeaderValue::as_bytes);
    if who.csrf.as_deref().is_some_and(|token| !is_token(given, token)) {
        return Problem::new(StatusCode::FORBIDDEN, "bad_csrf", "logging out needs the page's token").into_response();
    }
    if let Some(cookie) = auth.cookie(&headers) {
        let over = auth.logins().close(SecretHash::of(cookie.as_bytes()));
        if let Err(why) = auth.accounts.keep(over.into_iter().collect(), None).await {
            return Problem::from(why).into_response();
        }
    }
    ([(header::SET_COOKIE, auth.set_cookie(&headers, "", 0))], Redirect::to("/login")).into_response()
}

/// The reason why somebody was not let in.
enum LoginError {
    Wrong,
    LockedOut { minutes: i64 },
    Unavailable(Problem),
}

impl LoginError {
    fn answer(self, auth: &Auth, next: &str, user: &str, preferences: Preferences) -> Response {
        let w = preferences.lang.words();
        match self {
            Self::Wrong => page(auth, StatusCode::UNAUTHORIZED, (next, user, w.wrong_login), preferences),
            Self::LockedOut { minutes } => {
                let why = fill(w.locked_out, &[&minutes.to_string()]);
                let retry_after = HeaderValue::from(minutes.saturating_mul(60));
                let page = page(auth, StatusCode::TOO_MANY_REQUESTS, (next, user, &why), preferences);
                ([(header::RETRY_AFTER, retry_after)], page).into_response()
            }
            Self::Unavailable(problem) => problem.into_page(preferences),
        }
    }
}

impl Auth {
    /// A cookie for the right name and password, with the one-time code where one is needed.
    async fn log_in(&self, name: &str, password: String, code: &str, from: IpAddr) -> Result<String, LoginError> {
        let user = self.check(name, password, Some(code), from).await?;
        let proof = proof(&user);
        self.begin(Person::User(user.name), proof, from).await.map_err(LoginError::Unavailable)
    }

    /// Somebody who is logged in shows the password once more.
    pub(crate) async fn prove(&self, name: &str, password: String, from: IpAddr) -> Result<(), Problem> {
        match self.check(name, password, None, from).await {
            Ok(_) => Ok(()),
            Err(LoginError::Unavailable(problem)) => Err(problem),
            Err(LoginError::Wrong) => {
                let why = "current: this is not your present password";
                Err(Problem::new(StatusCode::FORBIDDEN, "wrong_password", why))
            }
            Err(LoginError::LockedOut { minutes }) => {
                let why = format!("too many wrong passwords; try again in {minutes} min");
                Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "locked_out", why))
            }
        }
    }

    /// The user of that name, if this is its password, and the code is one of its own; `None`: whoever shows the password has shown a code before.
    async fn check(&self, name: &str, password: String, code: Option<&str>, from: IpAddr) -> Result<User, LoginError> {
        let began = self.now();
        self.lockout()
            .attempt(name, from, began)
            .map_err(|out| LoginError::LockedOut { minutes: (out.until - began).0.max(0) / (60 * SECOND_MS) + 1 })?;
        let user = self.user(name).await.map_err(LoginError::Unavailable)?;
        let phc = user.as_ref().map(|user| user.phc.clone());
        let fits = self.passwords.verify(password, phc).await;
        let fits = fits.map_err(|why| LoginError::Unavailable(why.into()))?;
        match user {
            Some(user) if fits && code.is_none_or(|code| self.takes_code(&user, code)) => {
                self.lockout().forgive(name, from, self.now());
                Ok(user)
            }
            user => {
                self.failed(user, name, from);
                Err(LoginError::Wrong)
            }
        }
    }

    /// Takes the one-time code, of a user who has them; each opens once.
    fn takes_code(&self, user: &User, code: &str) -> bool {
        let Some(secret) = user.totp else { return true };
        self.used_codes.lock().unwrap_or_else(PoisonError::into_inner).take(&user.name, secret, code, self.now())
    }

    /// Notes a failed login. Others have failed while this one waited for its turn.
    fn failed(&self, user: Option<User>, name: &str, from: IpAddr) {
        tracing::warn!(%from, known = user.is_some(), "a login failed");
        // Not by what name: somebody may have typed a password there.
        let who = Actor::new("somebody", &from.to_string());
        self.accounts.refused(RefusedAt::Login, who, "a wrong name, password or one-time code".to_owned());
        let [name_locked, address_locked] = self.lockout().has_locked(name, from, self.now());
        if let Some(user) = user.filter(|_| name_locked) {
            self.note_lockout(user.name.to_string(), from);
        }
        if address_locked {
            self.note_lockout(format!("address {from}"), from);
        }
    }

    /// Beside the answer, which must take as long as that to a name nobody has.
    fn note_lockout(&self, whom: String, from: IpAddr) {
        let accounts = Arc::clone(&self.accounts);
        let note = Note::new(Actor::new("somebody", &from.to_string()), Action::LockOut, whom);
        tokio::spawn(async move {
            if let Err(why) = accounts.keep(Vec::new(), Some(note)).await {
                tracing::warn!(%why, "a lockout could not be written down");
            }
        });
    }

    /// The cookie of a new login.
    pub(super) async fn begin(&self, person: Person, proof: SecretHash, from: IpAddr) -> Result<String, Problem> {
        let (cookie, now) = (secret().to_string(), self.now());
        let who = person.to_string();
        let mut note = Note::new(Actor::new(&who, &from.to_string()), Action::LogIn, who);
        if let Person::External { subject, role, .. } = &person {
            note.detail = format!("as {role}; {subject} of the identity provider");
        }
        let login = Login { person, proof, csrf: secret(), began: now, used: now };
        let kept = self.logins().open(SecretHash::of(cookie.as_bytes()), login, now);
        self.accounts.keep(kept, Some(note)).await?;
        Ok(cookie)
    }

    /// `Secure` wherever the browser speaks TLS, with us or with what stands before us; on loopback it may speak without.
    fn set_cookie(&self, headers: &HeaderMap, value: &str, seconds: i64) -> String {
        let origin = headers.get(header::ORIGIN).map(HeaderValue::as_bytes).unwrap_or_default();
        let plain = self.settings.loopback || origin.starts_with(b"http://");
        let secure = self.settings.tls || origin.starts_with(b"https://") || !plain;
        self.login_set(value, seconds, secure)
    }

    /// The cookie of a login.
    pub(super) fn login_set(&self, value: &str, seconds: i64, secure: bool) -> String {
        cookie_set((&self.settings.cookie, value), seconds, ("/", "Strict"), secure)
    }
}

/// A cookie that no script reads, as `Set-Cookie` has it, for so many seconds; with none left it goes.
pub(super) fn cookie_set(
    (name, value): (&str, &str),
    seconds: i64,
    (path, same_site): (&str, &str),
    secure: bool,
) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{name}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite={same_site}{secure}")
}

/// The form, with an address to go on to, a user, and what is wrong.
pub(super) fn page(
    auth: &Auth,
    status: StatusCode,
    (next, user, problem): (&str, &str, &str),
    preferences: Preferences,
) -> Response {
    let Preferences { lang, theme } = preferences;
    let w = lang.words();
    let (langs, themes) = (preferences::langs(lang), preferences::themes(theme, w));
    let page = LoginPage {
        w,
        lang: lang.tag(),
        theme: theme.name(),
        langs,
        themes,
        next,
        user,
        problem,
        sso: auth.sso().is_some(),
    };
    match page.render() {
        Ok(html) => (status, Html(html)).into_response(),
        Err(e) => Problem::from(e).into_response(),
    }
}

/// The address to go on to, if it is one of ours.
pub(super) fn own_path(next: &str) -> &str {
    let own = next.starts_with('/') && !next.starts_with("//") && next.len() <= NEXT_LEN_MAX;
    let plain = next.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
    if own && plain { next } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_led_elsewhere() {
        for own in ["/", "/leases?type=uint2", "/agents/edge-01"] {
            assert_eq!(own_path(own), own);
        }
        let long = format!("/{}", "x".repeat(NEXT_LEN_MAX));
        for other in ["", "//evil.example", "/\\evil.example", "https://evil.example", "evil", "/a\r\nb", "/é", &long]
        {
            assert_eq!(own_path(other), "/", "{other}");
        }
    }
}
