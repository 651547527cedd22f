//! The agent over HTTP: IDs, and what the agent knows of itself.
//!
//! Queries and headers are read to the letter, answers are never cacheable, and every error is a problem document.
//! Every bound is a constant here; what exceeds one is refused, or waits in the kernel's backlog.

mod about;
mod accept;
mod io;
mod mint;
mod problem;
mod query;
mod render;

use crate::heartbeat::Report;
use crate::minter::Minter;
use crate::refusal::Refusal;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::{get, on};
use bytes::Bytes;
use common::terms::AgentId;
use common::time::BootMs;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use io::Impatient;
use problem::Problem;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The most IDs in one answer when nothing else is said.
pub const BATCH_MAX_DEFAULT: u32 = 100_000;
/// The most that `--batch-max` may say.
pub const BATCH_MAX_LIMIT: u32 = 1_000_000;
/// Connections at once; one more waits in the kernel's backlog.
const CONNECTIONS_MAX: usize = 4_096;
/// Memory of answers that are not sent yet, in bytes; what would exceed it is refused.
const BODY_MEMORY_MAX: usize = 256 << 20;
/// A request's line and headers, in bytes. Bodies are not read at all.
const HEAD_LEN_MAX: usize = 16 << 10;
/// Header lines of a request.
const HEADERS_MAX: usize = 64;
/// How long a connection may take for a request's head, idle time before it included.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// How long an answer may wait for the other end to read on.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long open requests may take to end when the agent stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the listener waits after an error such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const _: () = assert!(BODY_MEMORY_MAX / mint::BODY_UNIT <= Semaphore::MAX_PERMITS);

/// What the routes work on.
pub struct Agent {
    minter: Arc<Minter>,
    report: Arc<Report>,
    agent_id: AgentId,
    batch_max: u32,
    body_memory: Arc<Semaphore>,
    /// Real machine time at the start.
    started: BootMs,
}

impl Agent {
    /// An agent of that name that gives up to `batch_max` IDs at once.
    pub fn new(minter: Arc<Minter>, report: Arc<Report>, agent_id: AgentId, batch_max: u32) -> Self {
        let started = minter.clock().link_now().boot;
        let body_memory = Arc::new(Semaphore::new(BODY_MEMORY_MAX / mint::BODY_UNIT));
        Self { minter, report, agent_id, batch_max, body_memory, started }
    }

    fn refused(&self, refusal: &Refusal) -> Problem {
        Problem::refused(refusal, self.minter.clock())
    }

    fn overloaded(&self, why: &'static str) -> Problem {
        self.refused(&Refusal::Overloaded(why))
    }
}

/// All routes.
pub fn router(agent: Agent) -> Router {
    use axum::routing::MethodFilter;
    let mint = MethodFilter::GET.or(MethodFilter::POST);
    Router::new()
        .route("/uniq64", on(mint, mint::uniq64))
        .route("/uniq64/{name}", on(mint, mint::uniq64_named))
        .route("/uniq96", on(mint, mint::uniq96))
        .route("/string", on(mint, mint::string))
        .route("/string/{name}", on(mint, mint::string_named))
        .route("/explain/{*id}", get(about::explained))
        .route("/generators", get(about::generators))
        .route("/status", get(about::status))
        .route("/healthz", get(about::healthz))
        .route("/readyz", get(about::readyz))
        .route("/metrics", get(about::metrics))
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .with_state(Arc::new(agent))
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

/// Serves until `stop`; then open requests may end within a few seconds, and what is still open is dropped.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let connections = TaskTracker::new();
    let cut_off = CancellationToken::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((io, place)) = accepted else { continue };
        let (router, stop, cut_off) = (router.clone(), stop.clone(), cut_off.clone());
        connections.spawn(async move {
            tokio::select! {
                () = cut_off.cancelled() => {}
                () = serve_connection(io, router, stop) => {}
            }
            drop(place);
        });
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(DRAIN_TIMEOUT, connections.wait()).await.is_err() {
        tracing::warn!(connections = connections.len(), "connections that did not end in time are dropped");
        cut_off.cancel();
        connections.wait().await;
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((io, _)) => {
            // Without it an answer may wait for the acknowledgement of the one before.
            let _ = io.set_nodelay(true);
            Some((io, place))
        }
        Err(error) => {
            tracing::debug!(%error, "a connection could not be accepted");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

async fn serve_connection(io: TcpStream, router: Router, stop: CancellationToken) {
    let mut http = hyper::server::conn::http1::Builder::new();
    // Not `pipeline_flush`: it copies the answers to all requests that came together into one buffer without a bound,
    // and sends none while part of another request is there, not even the one that says what is wrong with it.
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_LEN_MAX).max_headers(HEADERS_MAX);
    let io = TokioIo::new(Impatient::new(io, WRITE_TIMEOUT));
    let connection = http.serve_connection(io, TowerToHyperService::new(router));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, "a connection ended with an error");
    }
}

#[cfg(test)]
mod tests;
