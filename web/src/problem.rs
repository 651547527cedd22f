//! Errors as `application/problem+json` (RFC 9457) with a stable `code`, and for people as a page.

use crate::masters::Unavailable;
use crate::preferences::Preferences;
use crate::words::Words;
use askama::Template;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use serde_json::json;
use utoipa::ToSchema;

/// Seconds after which a caller that is to come back may.
const RETRY_AFTER_S: u16 = 5;

/// An error, for the one who can act on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into() }
    }

    /// The reason, for people.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    pub(crate) fn bad_parameter(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_parameter", detail)
    }

    pub(crate) fn login_required() -> Self {
        let how = "log in at /login, or send an API key as `Authorization: Bearer KEY`";
        Self::new(StatusCode::UNAUTHORIZED, "login_required", how)
    }

    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "there is nothing at this address")
    }

    pub(crate) fn overloaded(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail)
    }

    /// The same, with where it happened before it.
    pub(crate) fn after(self, place: &str) -> Self {
        Self { detail: format!("{place}{}", self.detail), ..self }
    }

    fn title(&self) -> &'static str {
        self.status.canonical_reason().unwrap_or("Error")
    }

    /// The error as a page for people.
    pub(crate) fn into_page(self, preferences: Preferences) -> Response {
        let w = preferences.lang.words();
        let title = match self.status {
            StatusCode::BAD_REQUEST => w.error_400,
            StatusCode::FORBIDDEN => w.error_403,
            StatusCode::NOT_FOUND => w.error_404,
            StatusCode::SERVICE_UNAVAILABLE => w.error_503,
            _ => w.error_other,
        };
        let (lang, theme) = (preferences.lang.tag(), preferences.theme.name());
        let page = ErrorPage { w, lang, theme, title, detail: &self.detail };
        let mut response = match page.render() {
            Ok(html) => (self.status, Html(html)).into_response(),
            Err(_) => return self.into_response(),
        };
        self.add_retry_after(&mut response);
        response
    }

    fn add_retry_after(&self, response: &mut Response) {
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
        }
    }
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    w: &'static Words,
    lang: &'static str,
    theme: &'static str,
    title: &'a str,
    detail: &'a str,
}

impl From<Unavailable> for Problem {
    fn from(why: Unavailable) -> Self {
        let code = match why {
            Unavailable::Overloaded => "overloaded",
            Unavailable::ShuttingDown | Unavailable::Damaged | Unavailable::DiskFull => "masters_unavailable",
        };
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, why.to_string())
    }
}

impl From<askama::Error> for Problem {
    fn from(error: askama::Error) -> Self {
        tracing::error!(%error, "a page could not be rendered");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the page could not be rendered; the log says why")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = json!({
            "type": "about:blank",
            "title": self.title(),
            "status": self.status.as_u16(),
            "detail": self.detail,
            "code": self.code,
        });
        let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"))];
        let mut response = (self.status, kind, body.to_string()).into_response();
        self.add_retry_after(&mut response);
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// An error (RFC 9457).
#[derive(ToSchema)]
#[allow(dead_code, reason = "it is only described: what is written stands above")]
pub(crate) struct ProblemBody {
    /// Always `about:blank`.
    r#type: String,
    /// The status in words.
    title: String,
    /// The status.
    status: u16,
    /// The error and who can mend it, for people.
    detail: String,
    /// The error, for programs: it never changes.
    code: String,
}
