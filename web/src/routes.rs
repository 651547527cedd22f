//! The routes of the console.

use crate::api;
use crate::auth::{Auth, guard};
use crate::design::TemplateDraft;
use crate::masters::Masters;
use crate::pages::{self, Context, View, Visitor, What};
use crate::preferences::Preferences;
use crate::problem::Problem;
use crate::shared::Shared;
use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware;
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use rust_embed::RustEmbed;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::set_header::SetResponseHeaderLayer;
use tower_http::timeout::TimeoutLayer;

/// A policy that allows nothing from elsewhere, no code in the page, and no frames.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The longest time until the answer to a request begins; a live page's answer begins at once.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// The largest body of a request, in bytes: a form or a small JSON object.
const BODY_LEN_MAX: usize = 64 * 1024;

#[derive(RustEmbed)]
#[folder = "assets/"]
struct Assets;

/// All routes, with the headers that every answer carries.
pub(crate) fn router(shared: Shared) -> axum::Router {
    let auth = Arc::clone(&shared.auth);
    let routes = axum::Router::new()
        .route("/", get(page))
        .route("/leases", get(page))
        .route("/leases/{type}/{token}", get(page))
        .route("/agents", get(page))
        .route("/agents/{agent}", get(page))
        .route("/namespaces", get(page))
        .route("/namespaces/{kind}/{name}", get(page))
        .route("/axes", get(page))
        .route("/sequences", get(page))
        .route("/whitelist", get(page))
        .route("/audit", get(page))
        .route("/designer", get(designer))
        .route("/designer/template", get(template_designer))
        .route("/explain", get(explain))
        .route("/users", get(users))
        .route("/settings", get(page))
        .route("/events", get(events))
        .route("/events/{*page}", get(events))
        .route("/assets/{*path}", get(asset))
        .merge(api::router())
        .fallback(nothing_here)
        .method_not_allowed_fallback(read_only)
        .with_state(shared)
        .layer(middleware::from_fn_with_state(auth, guard::guard));
    dressed(routes)
}

/// Routes for callers while the console has no place: they say how this master is, and tell everybody else to come back.
pub(crate) fn spare_router(shared: Shared) -> axum::Router {
    let auth = Arc::clone(&shared.auth);
    let routes = axum::Router::new()
        .route("/healthz", get(api::read::healthz))
        .route("/readyz", get(api::read::readyz))
        .route("/metrics", get(api::read::metrics))
        .method_not_allowed_fallback(read_only)
        .with_state(shared)
        .layer(middleware::from_fn_with_state(auth, guard::guard))
        .fallback(come_back);
    dressed(routes)
}

/// Adds the bounds of every request and the headers that every answer carries.
fn dressed(routes: axum::Router) -> axum::Router {
    routes
        .layer(DefaultBodyLimit::max(BODY_LEN_MAX))
        // Whoever sends a body slowly, or asks for what takes long, keeps one of few connections.
        .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, ANSWER_MAX))
        .layer(CatchPanicLayer::custom(|_| {
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "this request failed; the log says why")
                .into_response()
        }))
        .layer(always(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY))
        .layer(always(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        // Not `no-referrer`: with that browsers hide from us, too, from where a form comes.
        .layer(always(header::REFERRER_POLICY, "same-origin"))
        .layer(always(header::X_FRAME_OPTIONS, "DENY"))
        .layer(always(header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"))
        .layer(always(header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"))
        .layer(SetResponseHeaderLayer::if_not_present(header::CACHE_CONTROL, HeaderValue::from_static("no-store")))
}

fn always(name: header::HeaderName, value: &'static str) -> SetResponseHeaderLayer<HeaderValue> {
    SetResponseHeaderLayer::overriding(name, HeaderValue::from_static(value))
}

fn at<'a>(masters: &'a Arc<dyn Masters>, auth: &'a Auth) -> Context<'a> {
    Context { masters: masters.as_ref(), commands: auth.commands() }
}

/// A page. Its errors are pages too.
async fn page(
    State(masters): State<Arc<dyn Masters>>,
    State(auth): State<Arc<Auth>>,
    visitor: Visitor,
    what: Result<What, Problem>,
) -> Result<Html<String>, Response> {
    let preferences = visitor.preferences;
    let rendered = async { pages::page(&at(&masters, &auth), &visitor, what?).await };
    rendered.await.map(Html).map_err(|problem| problem.into_page(preferences))
}

async fn explain(
    State(masters): State<Arc<dyn Masters>>,
    State(auth): State<Arc<Auth>>,
    visitor: Visitor,
    query: Result<Query<ExplainQuery>, QueryRejection>,
) -> Result<Html<String>, Response> {
    let preferences = visitor.preferences;
    let rendered = async { pages::explained(&at(&masters, &auth), &visitor, &checked(query)?.id).await };
    rendered.await.map(Html).map_err(|problem| problem.into_page(preferences))
}

/// `GET /designer`, with a layout as its query.
async fn designer(
    State(masters): State<Arc<dyn Masters>>,
    State(auth): State<Arc<Auth>>,
    visitor: Visitor,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<Html<String>, Response> {
    let preferences = visitor.preferences;
    let rendered = async { pages::designer(&at(&masters, &auth), &visitor, checked(query)?).await };
    rendered.await.map(Html).map_err(|problem| problem.into_page(preferences))
}

/// `GET /designer/template`, with a template as its query.
async fn template_designer(
    State(masters): State<Arc<dyn Masters>>,
    State(auth): State<Arc<Auth>>,
    visitor: Visitor,
    query: Result<Query<TemplateDraft>, QueryRejection>,
) -> Result<Html<String>, Response> {
    let preferences = visitor.preferences;
    let rendered = async { pages::template_designer(&at(&masters, &auth), &visitor, checked(query)?).await };
    rendered.await.map(Html).map_err(|problem| problem.into_page(preferences))
}

/// `GET /users`: users and keys for admins, the own password for everybody.
async fn users(
    State(masters): State<Arc<dyn Masters>>,
    State(auth): State<Arc<Auth>>,
    visitor: Visitor,
) -> Result<Html<String>, Response> {
    let preferences = visitor.preferences;
    pages::users(&at(&masters, &auth), &auth, &visitor)
        .await
        .map(Html)
        .map_err(|problem| problem.into_page(preferences))
}

/// `GET /events` and, with the path of a page behind it, the changes of that page, as server-sent events.
async fn events(
    State(shared): State<Shared>,
    visitor: Visitor,
    what: Result<What, Problem>,
) -> Result<Response, Problem> {
    let events = shared.live.watch(View { key: visitor.key(), what: what? })?;
    let no_store = [(header::CACHE_CONTROL, "no-store")];
    Ok((no_store, Sse::new(events).keep_alive(KeepAlive::default())).into_response())
}

/// The query of `GET /explain`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExplainQuery {
    #[serde(default)]
    id: String,
}

/// `GET /assets/..`: what the page is made of. Kept by browsers, but asked about each time.
async fn asset(Path(path): Path<String>, headers: HeaderMap) -> Response {
    let Some(file) = Assets::get(&path) else { return Problem::not_found().into_page(Preferences::default()) };
    let hash = file.metadata.sha256_hash().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let tag = format!("\"{hash}\"");
    let cached = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let about = [
        (header::CONTENT_TYPE, file.metadata.mimetype().to_owned()),
        (header::CACHE_CONTROL, "no-cache".to_owned()),
        (header::ETAG, tag),
    ];
    if cached { (StatusCode::NOT_MODIFIED, about).into_response() } else { (about, file.data).into_response() }
}

async fn nothing_here(uri: Uri, headers: HeaderMap) -> Response {
    let is_api = uri.path() == "/api" || uri.path().starts_with("/api/");
    if is_api {
        Problem::not_found().into_response()
    } else {
        Problem::not_found().into_page(Preferences::of(&headers))
    }
}

/// Tells a caller for whom there is no place to come back, and closes the connection, so that the next one finds a place.
async fn come_back(uri: Uri, headers: HeaderMap) -> Response {
    let why = Problem::overloaded("all of the console's connections are at work; close some, or come back");
    let is_api = uri.path() == "/api" || uri.path().starts_with("/api/");
    let answer = if is_api { why.into_response() } else { why.into_page(Preferences::of(&headers)) };
    ([(header::CONNECTION, HeaderValue::from_static("close"))], answer).into_response()
}

async fn read_only() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "this address does not take this method; `Allow` says which",
    )
}

fn checked<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Problem> {
    query.map(|Query(query)| query).map_err(|e| Problem::bad_parameter(e.body_text()))
}
