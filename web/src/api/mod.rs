//! The JSON API, and its description, which is made from the handlers and the types they answer with.

pub(crate) mod accounts;
mod axes;
mod backup;
mod invitations;
mod layout;
mod lease;
mod logins;
pub(crate) mod read;
mod revocations;
mod second_factor;
mod sequences;
mod setting;

use crate::auth::{Role, Source, Who, login, sso};
use crate::problem::{Problem, ProblemBody};
use crate::shared::Shared;
use axum::body::{Bytes, HttpBody as _};
use axum::extract::rejection::{BytesRejection, JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Extension, FromRequestParts, Json, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use common::audit::Actor;
use common::json;
use net::rpc::lease::Refusal;
use net::rpc::ranges::NotMoved;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::net::IpAddr;
use std::sync::OnceLock;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{IntoResponses, Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The description, as it is served.
static DESCRIPTION: OnceLock<String> = OnceLock::new();

/// Reasons why every change may be refused, whatever else its handler says.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "it is only described")]
pub(crate) enum ChangeErrors {
    /// `bad_parameter`
    #[response(status = 400, content_type = "application/problem+json")]
    BadParameter(ProblemBody),
    /// `masters_unavailable`, `overloaded`; where something is revoked, `clock_skew`
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
    let bare = OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(lease::renew))
        .routes(routes!(accounts::remove_user))
        .routes(routes!(accounts::remove_key))
        .routes(routes!(logins::end_login))
        .routes(routes!(invitations::withdraw))
        .routes(routes!(revocations::reinstate))
        .route_layer(from_fn(no_body));
    let without_parameters = bare
        .routes(routes!(lease::terminate))
        .routes(routes!(read::masters))
        .routes(routes!(read::pools))
        .routes(routes!(read::agents))
        .routes(routes!(read::settings))
        .routes(routes!(read::verify))
        .routes(routes!(setting::about))
        .routes(routes!(setting::retire))
        .routes(routes!(axes::axes))
        .routes(routes!(backup::export))
        .routes(routes!(axes::raise))
        .routes(routes!(axes::dismiss))
        .routes(routes!(sequences::move_section))
        .routes(routes!(sequences::raise_key))
        .routes(routes!(sequences::allocators))
        .routes(routes!(sequences::drain))
        .routes(routes!(accounts::me))
        .routes(routes!(accounts::users, accounts::add_user))
        .routes(routes!(accounts::set_password))
        .routes(routes!(accounts::set_role))
        .routes(routes!(second_factor::set, second_factor::remove))
        .routes(routes!(accounts::keys, accounts::add_key))
        .routes(routes!(accounts::rotate_key))
        .routes(routes!(logins::logins))
        .routes(routes!(invitations::invitations, invitations::invite))
        .routes(routes!(revocations::revocations, revocations::revoke))
        .routes(routes!(login::log_out))
        .routes(routes!(read::healthz))
        .routes(routes!(read::readyz))
        .routes(routes!(read::metrics))
        .routes(routes!(description))
        .route_layer(from_fn(no_query));
    without_parameters
        .routes(routes!(read::leases))
        .routes(routes!(read::explain))
        .routes(routes!(read::audit))
        .routes(routes!(setting::namespaces, setting::define))
        .routes(routes!(setting::register))
        .routes(routes!(sequences::sections))
        .routes(routes!(layout::layout))
        .routes(routes!(layout::template))
        .routes(routes!(backup::import))
        .routes(routes!(setting::whitelist, setting::allow, setting::disallow))
        .routes(routes!(login::form, login::log_in))
        .routes(routes!(sso::routes::begin))
        .routes(routes!(sso::routes::finish))
        .route_layer(from_fn(no_body_to_read))
}

/// Refuses a query where none is read: whoever wrote it wanted something by it.
async fn no_query(request: Request, next: Next) -> Response {
    match request.uri().query() {
        None | Some("") => next.run(request).await,
        Some(_) => {
            Problem::bad_parameter("there are no parameters here: leave out the '?' and what follows").into_response()
        }
    }
}

/// Refuses a body where none is read.
async fn no_body(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    Problem::bad_parameter("no body is read here: leave it out").into_response()
}

/// Refuses a body with a request that reads something.
async fn no_body_to_read(request: Request, next: Next) -> Response {
    if request.method().is_safe() { no_body(request, next).await } else { next.run(request).await }
}

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

/// The source of a request, for the audit.
type From = Option<Extension<Source>>;

/// The actor of a change, once it is sure that it may.
pub(crate) struct Caller {
    name: String,
    from: From,
    is_script: bool,
}

/// Somebody who may do what takes an operator.
pub(crate) struct Operator(Caller);

/// Somebody who may do what takes an admin.
pub(crate) struct Admin(Caller);

impl<S: Sync> FromRequestParts<S> for Operator {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Caller::of(parts, Role::Operator).map(Self)
    }
}

impl<S: Sync> FromRequestParts<S> for Admin {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Caller::of(parts, Role::Admin).map(Self)
    }
}

impl Caller {
    fn actor(&self) -> Actor {
        let from = self.from.as_ref().map(|Extension(Source(from))| from.to_string()).unwrap_or_default();
        Actor::new(&self.name, &from)
    }

    fn address(&self) -> IpAddr {
        Source::address(self.from)
    }

    fn of(parts: &Parts, role: Role) -> Result<Self, Problem> {
        let who: Who = parts.extensions.get().cloned().ok_or_else(Problem::login_required)?;
        caller(who, role, parts.extensions.get().copied().map(Extension))
    }

    /// Demands the name of what cannot be taken back once more; a script may leave it out.
    fn confirmed(&self, to: &str, name: &str, said: Option<&str>) -> Result<(), Problem> {
        if said.map_or(self.is_script, |said| said == name) {
            return Ok(());
        }
        Err(Problem::bad_parameter(format!("confirm: to {to} say {name} once more")))
    }
}

/// Lets only those go on who may.
fn caller(who: Who, role: Role, from: From) -> Result<Caller, Problem> {
    let is_script = who.csrf.is_none();
    Ok(Caller { name: who.at_least(role)?.name, from, is_script })
}

/// A body in JSON that is not read yet.
type Sent = Result<Json<Box<RawValue>>, JsonRejection>;

fn body<T: DeserializeOwned>(body: Sent) -> Result<T, Problem> {
    let Json(body) = body.map_err(|e| match e.status() {
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            Problem::new(e.status(), "bad_parameter", "send the body as application/json")
        }
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(e.status(), "bad_parameter", "the body is too large"),
        _ => Problem::bad_parameter(e.body_text()),
    })?;
    json::read(body.get().as_bytes()).map_err(Problem::bad_parameter)
}

/// A body in JSON that may be left out.
fn optional_body<T: DeserializeOwned>(body: Result<Bytes, BytesRejection>) -> Result<Option<T>, Problem> {
    let body = body.map_err(|e| Problem::new(e.status(), "bad_parameter", e.body_text()))?;
    if body.is_empty() { Ok(None) } else { json::read(&body).map(Some).map_err(Problem::bad_parameter) }
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
