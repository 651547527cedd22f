//! The console on a socket: bounded, and done when it is told to stop.

use crate::door::{Door, Source};
use crate::live::Live;
use crate::masters::Masters;
use crate::routes::{self, Shared};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tower::ServiceExt as _;

/// The most connections at a time, if there are descriptors for them; the others wait in the listener's queue.
pub const CONNECTIONS_MAX: usize = 256;
/// How long a request's head may take to arrive, and how long a connection may idle between two requests.
const HEAD_MAX: Duration = Duration::from_secs(15);
/// The largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// How long requests may take to finish once the process is told to stop.
const STOP_MAX: Duration = Duration::from_secs(2);
/// The pause after an `accept` that failed: it fails when descriptors run out, and they come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the console on `listener` until `stop` resolves, so many connections at a time; then event streams end, and open requests within
/// 2 s.
pub async fn serve(
    listener: TcpListener,
    connections_max: usize,
    masters: Arc<dyn Masters>,
    door: Arc<Door>,
    stop: impl Future<Output = ()>,
) {
    let live = Live::new(Arc::clone(&masters), Arc::clone(&door));
    let router = routes::router(Shared { masters, live: Arc::clone(&live), door });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_MAX).max_buf_size(HEAD_BYTES_MAX);

    let seats = Arc::new(Semaphore::new(connections_max));
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = async {
            let seat = Arc::clone(&seats).acquire_owned().await;
            (seat, listener.accept().await)
        };
        let (seat, accepted) = tokio::select! {
            accepted = accepted => accepted,
            () = &mut stop => break,
        };
        let (stream, from) = match accepted {
            Ok((stream, address)) => (stream, Source(address.ip())),
            Err(error) => {
                tracing::warn!(%error, "the console could not accept a connection; trying again");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(router.clone().map_request(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(from);
            request
        }));
        let connection = http.serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a console connection ended early");
            }
            drop(seat);
        });
    }
    live.close();
    if tokio::time::timeout(STOP_MAX, graceful.shutdown()).await.is_err() {
        tracing::debug!("some console requests did not finish in time");
    }
}
