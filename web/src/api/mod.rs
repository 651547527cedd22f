//! The JSON API, and its description, which is made from the handlers and the types they answer with.

mod accounts;
mod axes;
mod layout;
mod lease;
pub(crate) mod read;
mod sequences;
mod setting;

use crate::auth::{Role, Source, Who, login};
use crate::problem::{Problem, ProblemBody};
use crate::shared::Shared;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Extension, Json, Path, Query};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use common::audit::Actor;
use common::rpc::lease::Refusal;
use common::rpc::ranges::NotMoved;
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::sync::OnceLock;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{IntoResponses, Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The description, as it is served.
static DESCRIPTION: OnceLock<String> = OnceLock::new();

/// What every change may be refused with, whatever else its handler says.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "it is only described")]
pub(crate) enum Refused {
    /// `bad_parameter`
    #[response(status = 400, content_type = "application/problem+json")]
    BadParameter(ProblemBody),
    /// `masters_unavailable`, `overloaded`
    #[response(status = 503, content_type = "application/problem+json")]
    Unavailable(ProblemBody),
}

/// Both ways in; the role that a call needs stands as its scope.
struct SecuritySchemes;

impl Modify for SecuritySchemes {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let components = api.components.get_or_insert_default();
        let key =
            HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("An API key made in the console."));
        components.add_security_scheme("key", SecurityScheme::Http(key.build()));
        let how = "The cookie that POST /login sets, whose name ends in the master's number. A change needs the page's \
                   CSRF token in the header X-CSRF-Token too.";
        let cookie = ApiKey::Cookie(ApiKeyValue::with_description("uniq_master_1", how));
        components.add_security_scheme("login", SecurityScheme::ApiKey(cookie));
    }
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "The API of a UniqGenerator master",
        description = "Leases, masters, settings, users and the audit of one cluster, as one of its two masters has them. \
                       Every error is an application/problem+json with a stable `code`."
    ),
    modifiers(&SecuritySchemes),
    components(schemas(ProblemBody))
)]
struct Description;

fn described() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(read::leases))
        .routes(routes!(lease::renew))
        .routes(routes!(lease::terminate))
        .routes(routes!(read::masters))
        .routes(routes!(read::pools))
        .routes(routes!(read::agents))
        .routes(routes!(read::settings))
        .routes(routes!(read::explain))
        .routes(routes!(read::audit))
        .routes(routes!(read::verify))
        .routes(routes!(setting::namespaces, setting::define))
        .routes(routes!(setting::about))
        .routes(routes!(setting::retire))
        .routes(routes!(setting::register))
        .routes(routes!(axes::axes))
        .routes(routes!(axes::raise))
        .routes(routes!(axes::dismiss))
        .routes(routes!(sequences::sections))
        .routes(routes!(sequences::move_section))
        .routes(routes!(sequences::allocators))
        .routes(routes!(sequences::drain))
        .routes(routes!(layout::layout))
        .routes(routes!(setting::whitelist, setting::allow, setting::disallow))
        .routes(routes!(accounts::me))
        .routes(routes!(accounts::users, accounts::add_user))
        .routes(routes!(accounts::remove_user))
        .routes(routes!(accounts::set_password))
        .routes(routes!(accounts::set_role))
        .routes(routes!(accounts::keys, accounts::add_key))
        .routes(routes!(accounts::remove_key))
        .routes(routes!(login::form, login::log_in))
        .routes(routes!(login::log_out))
        .routes(routes!(read::healthz))
        .routes(routes!(read::readyz))
        .routes(routes!(read::metrics))
        .routes(routes!(description))
}

/// All of it.
pub(crate) fn router() -> axum::Router<Shared> {
    let (router, api) = described().split_for_parts();
    DESCRIPTION.get_or_init(|| api.to_json().unwrap_or_default());
    router
}

/// The description of this API.
#[utoipa::path(get, path = "/openapi.json", tag = "program", responses((status = 200, description = "OpenAPI 3.1")))]
pub(crate) async fn description() -> impl IntoResponse {
    let json = DESCRIPTION.get().map(String::as_str).unwrap_or_default();
    ([(header::CONTENT_TYPE, "application/json")], json)
}

/// Where a request came from, for the audit.
type From = Option<Extension<Source>>;

/// Who wants a change, once it is sure that it may.
struct Caller {
    name: String,
    from: From,
}

impl Caller {
    fn actor(&self) -> Actor {
        let from = self.from.as_ref().map(|Extension(Source(from))| from.to_string()).unwrap_or_default();
        Actor::new(&self.name, &from)
    }
}

/// Lets only those go on who may.
fn caller(who: Who, role: Role, from: From) -> Result<Caller, Problem> {
    Ok(Caller { name: who.at_least(role)?.name, from })
}

fn body<T>(body: Result<Json<T>, JsonRejection>) -> Result<T, Problem> {
    body.map(|Json(body)| body).map_err(|e| match e.status() {
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            Problem::new(e.status(), "bad_parameter", "send the body as application/json")
        }
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(e.status(), "bad_parameter", "the body is too large"),
        _ => Problem::bad_parameter(e.body_text()),
    })
}

fn query<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Problem> {
    query.map(|Query(query)| query).map_err(|e| Problem::bad_parameter(e.body_text()))
}

fn path<T>(path: Result<Path<T>, PathRejection>) -> Result<T, Problem> {
    path.map(|Path(path)| path).map_err(|e| Problem::bad_parameter(e.body_text()))
}

/// A text that is read with its own rules.
fn read_as<T: std::str::FromStr<Err: std::fmt::Display>>(what: &str, text: &str) -> Result<T, Problem> {
    text.parse().map_err(|e| Problem::bad_parameter(format!("{what}: {e}")))
}

/// A whole number in JSON, or its digits as a text: JavaScript and many readers of JSON round numbers from 2^53 on, and an axis that is
/// raised to a rounded place may give a number again that another system gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Whole(u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Digits;
        impl Visitor<'_> for Digits {
            type Value = Whole;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number from 0 to {}, or its digits as a text", u64::MAX)
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Whole, E> {
                Ok(Whole(number))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Whole, E> {
                let digits = text.trim();
                let number = digits.parse().ok().filter(|_| digits.bytes().all(|digit| digit.is_ascii_digit()));
                number.map(Whole).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        from.deserialize_any(Digits)
    }
}

impl core::convert::From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        use StatusCode as S;
        let (status, code) = match refusal {
            Refusal::NameTaken => (S::CONFLICT, "name_taken"),
            Refusal::TooMany { .. } | Refusal::AboutsFull { .. } => (S::CONFLICT, "too_many"),
            Refusal::LastAdmin => (S::CONFLICT, "last_admin"),
            Refusal::NoLease => (S::CONFLICT, "no_lease"),
            Refusal::NoSuchUser | Refusal::NoSuchName => (S::NOT_FOUND, "not_found"),
            Refusal::NotRaised { .. } => (S::CONFLICT, "not_raised"),
            Refusal::NotShown { .. } => (S::CONFLICT, "not_shown"),
            Refusal::NameRetired => (S::CONFLICT, "generator_exists"),
            Refusal::Collides { .. } => (S::CONFLICT, "generator_conflict"),
            Refusal::NotMoved(NotMoved::NoSuchSection { .. } | NotMoved::NoSuchAgent { .. }) => {
                (S::NOT_FOUND, "not_found")
            }
            Refusal::NotMoved(_) | Refusal::NobodyTakes => (S::CONFLICT, "not_moved"),
            Refusal::Overloaded => (S::SERVICE_UNAVAILABLE, "overloaded"),
            _ => (S::SERVICE_UNAVAILABLE, "masters_unavailable"),
        };
        let remedy = match refusal {
            Refusal::PeerAway => ": start the other master, or mend the link between the two, and try again",
            Refusal::Retry => ": it may still come true; look again in a moment",
            Refusal::RolledBack => ": see `uniq_master --peer-lost` in the operators' guide",
            _ => "",
        };
        Self::new(status, code, format!("{refusal}{remedy}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_to_the_last_digit_and_nothing_else_is() {
        let read = |json: &str| serde_json::from_str::<Whole>(json).map(|whole| whole.0);
        for (json, number) in [
            ("0", 0),
            ("9007199254740993", 9_007_199_254_740_993),
            ("\"9007199254740993\"", 9_007_199_254_740_993),
            ("\" 18446744073709551615 \"", u64::MAX),
        ] {
            assert_eq!(read(json).unwrap(), number, "{json}");
        }
        for json in
            ["-1", "1.0", "1e3", "18446744073709551616", "\"\"", "\"+1\"", "\"1,000\"", "\"-1\"", "null", "[1]", "true"]
        {
            let refusal = read(json).unwrap_err().to_string();
            assert!(refusal.contains("a whole number from 0 to"), "{json}: {refusal}");
        }
    }
}
