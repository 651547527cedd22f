//! The agent over HTTP: IDs, and what the agent knows of itself.
//!
//! Requests for IDs are answered out of the connection's buffers (`front`); all others, and all of HTTP that is seldom used, go through hyper and
//! a router.
//!
//! Queries and headers are read to the letter, answers are never cacheable, and every error is a problem document.
//! Every bound is a constant here; what exceeds one is refused at once.

mod accept;
mod date;
mod front;
mod generators;
mod head;
mod key;
mod large;
mod mint;
mod openapi;
mod problem;
mod query;
mod render;
mod sequence;
mod sequence_body;
mod status;
mod upload;

use crate::access::{self, Access, Visitor};
use crate::catalog::Catalog;
use crate::masters::Report;
use crate::mint::MintService;
use crate::minter::Minter;
use crate::plugin::{Call, Caller};
use crate::refusal::Refusal;
use crate::sequences::Sequences;
use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::{Extensions, HeaderName, HeaderValue, StatusCode, Version, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post, put};
use bytes::Bytes;
use common::api_key::KeyAction;
use common::hosts::HostNames;
use common::kind::Kind;
use common::parameters::AgentId;
use common::time::BootMs;
use front::Front;
use hyper_util::service::TowerToHyperService;
use large::Large;
use net::budget::Budget;
use net::io::{ByteStream, Rewind, WriteTimeout};
use net::listener;
use net::pipeline::Pipeline;
use net::places::{Place, Places};
use net::tls::{Listener, Remote, Stream};
use net::turns::{CallerId, newcomer_work};
use problem::Problem;
use process::descriptors::Port;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// The most IDs in one answer when nothing else is said.
pub const BATCH_MAX_DEFAULT: u32 = 100_000;
/// Connections at once, if there are descriptors for them; one more takes the place of the one that waits longest, or is told
/// and closed if all are at work.
const CONNECTIONS_MAX: usize = 4_096;
/// Connections at once that are told so; one more is closed without a word.
const TURNED_AWAY_MAX: usize = 256;
/// The descriptors that it can use for both.
pub const DESCRIPTORS: Port = Port { most: CONNECTIONS_MAX + TURNED_AWAY_MAX, least: 64 };
/// The part of them for callers who are told that there are too many.
const TURNED_AWAY_PART: usize = 17;
/// The longest time that it may take.
const TURN_AWAY_TIMEOUT: Duration = Duration::from_secs(1);
/// Memory of answers that are not sent yet, in bytes; what would exceed it is refused.
const BODY_MEMORY_MAX: u32 = 256 << 20;
/// A request's line and headers, in bytes
const HEAD_LEN_MAX: usize = 16 << 10;
/// Header lines of a request.
const HEADERS_MAX: usize = 64;
/// The time that a connection may take for a request's head, idle time before it included.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// The time that an answer may wait for the other end to read on.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// The time that open requests may take to end when the agent stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);

/// The caller of a request with these extensions: each that passed [`admit`] has one.
fn visitor(extensions: &Extensions) -> Result<&Visitor, Problem> {
    extensions.get::<Visitor>().ok_or_else(Problem::not_found)
}

/// The state that the routes work on.
pub struct Agent {
    minter: Arc<Minter>,
    report: Arc<Report>,
    agent_id: AgentId,
    batch_max: u32,
    /// The catalog to ask about names; `None`: there are only those that the minter was given.
    names: Option<Arc<Catalog>>,
    /// `None`: this agent has none.
    sequences: Option<Arc<Sequences>>,
    access: Arc<Access>,
    body_memory: Budget,
    large: Large,
    /// Real machine time at the start.
    started: BootMs,
}

impl Agent {
    /// An agent of that name that gives up to `batch_max` IDs at once.
    pub fn new(minter: Arc<Minter>, report: Arc<Report>, agent_id: AgentId, batch_max: u32) -> Self {
        let started = minter.time().clock().link_now().boot;
        let body_memory = Budget::new(BODY_MEMORY_MAX);
        let large = Large::default();
        let (names, sequences, access) = (None, None, Arc::default());
        Self { minter, report, agent_id, batch_max, names, sequences, access, body_memory, large, started }
    }

    /// Judges callers by that.
    #[must_use]
    pub(crate) fn with_access(self, access: Arc<Access>) -> Self {
        Self { access, ..self }
    }

    /// Registers names with the masters, and asks them about unknown ones.
    #[must_use]
    pub fn with_names(self, names: Arc<Catalog>) -> Self {
        Self { names: Some(names), ..self }
    }

    /// Gives numbers of keys.
    #[must_use]
    pub fn with_sequences(self, sequences: Arc<Sequences>) -> Self {
        Self { sequences: Some(sequences), ..self }
    }

    /// The service that understands and answers requests for IDs.
    fn mint(&self) -> MintService<'_> {
        MintService::new(&self.minter, self.names.as_ref())
    }

    fn refused(&self, refusal: &Refusal) -> Problem {
        Problem::refused(refusal, self.minter.time().clock())
    }

    /// A refusal of a caller who may not, which is told of and counted.
    #[cold]
    fn turn_away(&self, name: &str, caller: Caller<'_>, refusal: &Refusal) -> Problem {
        self.mint().tell(None, name, 1, caller, refusal);
        self.refused(refusal)
    }

    /// Tells of a request for numbers of keys that gets none, and counts it.
    #[cold]
    fn tell(&self, kind: Kind, name: &str, n: u32, caller: Caller<'_>, problem: &Problem) {
        if let Some(failure) = problem.failure() {
            let now = self.minter.time().now();
            self.minter.calls().tell_failure(&Call { kind, name, n, caller, now }, &failure);
        }
    }

    fn overloaded(&self, why: &'static str) -> Problem {
        self.refused(&Refusal::Overloaded(why))
    }
}

/// All routes.
fn router(agent: Arc<Agent>) -> Router {
    let explains = Router::new()
        .route("/explain/{*id}", get(status::explained))
        .route_layer(from_fn_with_state((Arc::clone(&agent), KeyAction::Explain), may));
    let shows = Router::new()
        .route("/generators", get(status::generators))
        .route("/status", get(status::status))
        .route("/metrics", get(status::metrics))
        .route_layer(from_fn_with_state((Arc::clone(&agent), KeyAction::Status), may));
    // What watches programs, and what says how to speak to this one, need no login.
    let of_the_agent = Router::new()
        .route("/healthz", get(status::healthz))
        .route("/readyz", get(status::readyz))
        .route("/openapi.json", get(openapi::description))
        .merge(explains)
        .merge(shows)
        .route_layer(from_fn(no_query));
    mint::routes(of_the_agent)
        .route("/sequence/{name}/{key}", get(sequence::one).post(sequence::one))
        .route("/sequence/{name}/{key}/current", get(sequence::current))
        .route("/sequences/{name}/routes", get(sequence::routes))
        .route_layer(from_fn(no_body))
        .route("/generators/{name}", put(generators::define))
        .route("/sequence/{name}", post(sequence::many))
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .with_state(agent)
}

/// Finds out what the caller may do, by the key that it shows or by its connection.
async fn admit(State(agent): State<Arc<Agent>>, mut request: Request, next: Next) -> Response {
    // A probe says that a program lives, whatever its key does.
    let is_open = openapi::OPEN.contains(&request.uri().path());
    let shown = match one_of(&request, &header::AUTHORIZATION) {
        Ok(shown) => shown.filter(|_| !is_open).map(|value| access::hash_in(value.as_bytes())).transpose(),
        Err(problem) => return problem.into_response(),
    };
    let Some(remote) = request.extensions().get::<Remote>() else { return Problem::not_found().into_response() };
    let visitor = shown.and_then(|shown| agent.access.visitor(remote, shown, agent.minter.time().wall()));
    let (nobody, mut response) = match visitor {
        Ok(visitor) => {
            let nobody = visitor.is_nobody();
            if let Some(place) = request.extensions().get::<Place>() {
                place.is_of(visitor.caller_id());
            }
            request.extensions_mut().insert(visitor);
            (nobody, next.run(request).await)
        }
        Err(refusal) => (remote.is_anonymous(), agent.turn_away("", Caller::from(remote), &refusal).into_response()),
    };
    if nobody {
        // A connection of a stranger takes no place that idle callers need.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The header of that name, which may be there once.
fn one_of<'a>(request: &'a Request, name: &HeaderName) -> Result<Option<&'a HeaderValue>, Problem> {
    let mut values = request.headers().get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        _ => Err(Problem::bad_parameter(format!("the header {name} is there twice"))),
    }
}

/// Refuses an action that the caller may not do.
async fn may(State((agent, action)): State<(Arc<Agent>, KeyAction)>, request: Request, next: Next) -> Response {
    let refused = match visitor(request.extensions()) {
        Ok(visitor) => visitor.may(action, None).map_err(|refusal| agent.turn_away("", visitor.caller(), &refusal)),
        Err(problem) => Err(problem),
    };
    match refused {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
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
    Problem::bad_parameter("no body is read here: parameters stand in the address, as in ?n=5").into_response()
}

/// Refuses what is asked under a name that is not ours: see [`common::hosts`].
async fn known_host(State(hosts): State<Arc<HostNames>>, request: Request, next: Next) -> Response {
    let named = request.headers().get_all(header::HOST).iter().map(HeaderValue::as_bytes);
    let target = request.uri().authority().map(|authority| authority.as_str());
    match hosts.check(request.version() == Version::HTTP_11, named, target) {
        Ok(()) => next.run(request).await,
        Err(why) => Problem::host(&why).into_response(),
    }
}

/// An answer that nothing between us and the caller may keep: an ID from a cache would be an ID given twice.
fn body(status: StatusCode, content_type: HeaderValue, bytes: Bytes) -> Response {
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The site that a listener serves: the routes, and the agent for the requests that need no route.
#[derive(Clone)]
pub struct Site {
    agent: Arc<Agent>,
    router: Router,
    /// The names under which it may be asked.
    hosts: Arc<HostNames>,
    /// Connections of all listeners.
    places: Places,
    /// Connections of all listeners that are being told that there are too many.
    turned_away: Arc<Semaphore>,
}

impl Site {
    /// All routes of that agent, which may be asked under these names.
    pub fn new(agent: Agent, hosts: HostNames) -> Self {
        let (agent, hosts) = (Arc::new(agent), Arc::new(hosts));
        Self {
            router: router(Arc::clone(&agent))
                .layer(from_fn_with_state(Arc::clone(&agent), admit))
                .layer(from_fn_with_state(Arc::clone(&hosts), known_host)),
            agent,
            hosts,
            places: Places::new(CONNECTIONS_MAX),
            turned_away: Arc::new(Semaphore::new(TURNED_AWAY_MAX)),
        }
    }

    /// With so many descriptors for connections.
    #[must_use]
    pub fn with_descriptors(self, descriptors: usize) -> Self {
        let turned_away = Arc::new(Semaphore::new(turned_away_of(descriptors)));
        Self { places: Places::new(connections_of(descriptors)), turned_away, ..self }
    }
}

/// The number of descriptors, of so many, that are for callers who are told that there are too many.
fn turned_away_of(descriptors: usize) -> usize {
    (descriptors / TURNED_AWAY_PART).clamp(1, TURNED_AWAY_MAX)
}

/// The number of descriptors that are for connections that are served.
pub fn connections_of(descriptors: usize) -> usize {
    descriptors.saturating_sub(turned_away_of(descriptors)).min(CONNECTIONS_MAX)
}

/// Serves until `stop`; then open requests may end within a few seconds, and what is still open is dropped. Several
/// threads may serve the same site, each on a listener of its own.
pub async fn serve(port: impl Into<Listener>, site: Site, stop: CancellationToken) {
    let site = Arc::new(site);
    let welcome = |io: Stream, from| {
        let remote = io.remote(from);
        welcome(io, remote, &site, &stop)
    };
    let failed = |error| tracing::debug!(%error, "a connection could not be accepted");
    let connections = listener::accept(port.into(), &site.places, &stop, welcome, failed).await;
    let cut = listener::end(connections, DRAIN_TIMEOUT).await;
    if cut > 0 {
        tracing::warn!(connections = cut, "connections that did not end in time are dropped");
    }
}

/// Serves a connection if there is a place for it, and otherwise tells it so, at once.
fn welcome<IO: ByteStream>(
    io: IO,
    remote: Remote,
    site: &Arc<Site>,
    stop: &CancellationToken,
) -> Option<impl Future<Output = ()> + use<IO>> {
    let place = match site.places.take(CallerId::from(&remote)) {
        Some(place) => Ok(place),
        None => Err(Arc::clone(&site.turned_away).try_acquire_owned().ok()?),
    };
    let (site, stop) = (Arc::clone(site), stop.clone());
    Some(async move {
        match place {
            Ok(place) => serve_connection(io, remote, &site, &place, &stop).await,
            Err(_among_them) => {
                // Boxed: every connection would have room for what few need.
                let told = Box::pin(front::turn_away(io, &site.agent));
                let _ = tokio::time::timeout(TURN_AWAY_TIMEOUT, told).await;
            }
        }
    })
}

async fn serve_connection<IO: ByteStream>(
    io: IO,
    remote: Remote,
    site: &Site,
    place: &Place,
    stop: &CancellationToken,
) {
    if !place.turn(newcomer_work(&remote)).await {
        return;
    }
    let io = WriteTimeout::new(io, WRITE_TIMEOUT, place.clone());
    match Pipeline::new(io, place).serve(Front::new(remote.clone(), site, place), stop).await {
        Ok(None) => {}
        Ok(Some(io)) => serve_anything(io, remote, site.router.clone(), place, stop).await,
        Err(error) => tracing::trace!(%error, "a connection ended with an error"),
    }
}

/// The rest of a connection that asked for something else than IDs.
async fn serve_anything<IO: ByteStream>(
    io: Rewind<WriteTimeout<IO>>,
    remote: Remote,
    router: Router,
    place: &Place,
    stop: &CancellationToken,
) {
    let mut http = net::http::bounded(HEAD_TIMEOUT, HEAD_LEN_MAX);
    http.max_headers(HEADERS_MAX);
    let served = net::http::serve(&http, io, remote, TowerToHyperService::new(router), place, stop);
    if let Err(error) = served.await {
        tracing::trace!(%error, "a connection ended with an error");
    }
}

#[cfg(test)]
mod access_tests;
#[cfg(test)]
mod front_tests;
#[cfg(test)]
mod plugged_tests;
#[cfg(test)]
mod segment_tests;
#[cfg(test)]
mod sequence_tests;
#[cfg(test)]
mod strategy_tests;
#[cfg(test)]
mod tests;
