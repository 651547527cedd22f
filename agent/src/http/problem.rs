//! Errors as `application/problem+json` (RFC 9457) with a stable `code`. None of them contains an ID.

use super::body;
use crate::plugin::{Failure, Stage};
use crate::refusal::Refusal;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use common::clock::Clock;
use common::hosts::HostError;
use common::time::{SECOND_MS, SpanMs};
use net::rpc::mint::MintCode;
use serde_json::{Value, json};
use std::time::Duration;

const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");

/// A problem, for the one who can act on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    status: StatusCode,
    /// One of the stable codes; `None` for what HTTP itself has a word for.
    pub(super) code: Option<MintCode>,
    code_text: &'static str,
    detail: String,
    retry_after_s: Option<u64>,
    /// The routes by which to ask instead.
    routes: Vec<Value>,
}

impl Problem {
    /// The same with routes by which another agent can be asked.
    pub(super) fn with_routes(self, routes: Vec<Value>) -> Self {
        Self { routes, ..self }
    }

    /// A refusal; when to ask again is told in the caller's real time.
    pub(super) fn refused(refusal: &Refusal, clock: Clock) -> Self {
        let retry_after_s = refusal.retry_after().map(|span| {
            let real_ms = clock.real(span.to_std()).as_millis();
            u64::try_from(real_ms.div_ceil(SECOND_MS.unsigned_abs().into())).unwrap_or(u64::MAX).max(1)
        });
        Self { retry_after_s, ..Self::of(refusal.code(), refusal.to_string()) }
    }

    /// The same for somebody who asked for nothing but whether it works: not now, whatever the code stands for elsewhere.
    pub(super) fn unavailable(self) -> Self {
        Self { status: StatusCode::SERVICE_UNAVAILABLE, ..self }
    }

    pub(super) fn bad_parameter(detail: impl Into<String>) -> Self {
        Self::of(MintCode::BadParameter, detail.into())
    }

    pub(super) fn not_found() -> Self {
        let detail =
            "there is nothing at this address: IDs are at /uniq64, /uniq96, /string, /id/NAME, /layout/NAME, /segment/NAME and \
             /sequence/NAME/KEY, the rest at /sequences/NAME/routes, /explain/ID, /generators, /status, /healthz, /readyz, /metrics, \
             /openapi.json"
                .to_owned();
        Self::of_http(StatusCode::NOT_FOUND, "not_found", detail)
    }

    pub(super) fn method_not_allowed() -> Self {
        let detail = "this address does not take that method; the Allow header lists those it takes".to_owned();
        Self::of_http(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
    }

    /// A request under a name that is not ours, or under none or several.
    pub(super) fn host(why: &HostError) -> Self {
        let (status, code_text) = match why {
            HostError::Count(_) => (StatusCode::BAD_REQUEST, "bad_host"),
            HostError::Unknown(_) => (StatusCode::MISDIRECTED_REQUEST, "unknown_host"),
        };
        Self::of_http(status, code_text, why.to_string())
    }

    fn of(code: MintCode, detail: String) -> Self {
        let status = StatusCode::from_u16(code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { code: Some(code), ..Self::of_http(status, code.as_str(), detail) }
    }

    fn of_http(status: StatusCode, code_text: &'static str, detail: String) -> Self {
        Self { status, code: None, code_text, detail, retry_after_s: None, routes: Vec::new() }
    }

    /// The failure that the handler of refusals is told; `None` of what is not about IDs.
    pub(super) fn failure(&self) -> Option<Failure<'_>> {
        let ms = |s: u64| SpanMs(i64::try_from(s).unwrap_or(i64::MAX).saturating_mul(SECOND_MS));
        Some(Failure {
            code: self.code?,
            detail: &self.detail,
            retry: self.retry_after_s.map(ms),
            stage: Stage::Minting,
            plugin: None,
            elapsed: Duration::ZERO,
        })
    }
}

impl Problem {
    fn title(&self) -> &'static str {
        self.status.canonical_reason().unwrap_or("Error")
    }

    /// The document.
    pub(super) fn document(&self) -> String {
        let mut document = json!({
            "type": "about:blank",
            "title": self.title(),
            "status": self.status.as_u16(),
            "detail": self.detail,
            "code": self.code_text,
        });
        if let (false, Some(document)) = (self.routes.is_empty(), document.as_object_mut()) {
            document.insert("routes".to_owned(), self.routes.clone().into());
        }
        document.to_string()
    }

    /// Appends the head of an answer, without the end of its last line and without what all answers have.
    pub(super) fn write_start(&self, out: &mut Vec<u8>) {
        let (status, title) = (self.status.as_u16(), self.title());
        out.extend_from_slice(format!("HTTP/1.1 {status} {title}\r\n").as_bytes());
        if let Some(seconds) = self.retry_after_s {
            out.extend_from_slice(format!("retry-after: {seconds}\r\n").as_bytes());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            out.extend_from_slice(b"www-authenticate: Bearer\r\n");
        }
        out.extend_from_slice(b"content-type: ");
        out.extend_from_slice(MEDIA_TYPE.as_bytes());
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = body(self.status, MEDIA_TYPE, self.document().into());
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
