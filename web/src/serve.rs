//! The console on a socket: bounded, and done when it is told to stop.
//!
//! A connection has one of [`PLACES_MAX`] places; whoever keeps us waiting longest makes room for a newcomer. While all are
//! at work, newcomers have one of [`SPARE_MAX`] further places, where machines that watch this master are answered and
//! everybody else is told to come back: no console that is busy makes a master look dead.

use crate::auth::{Auth, Source};
use crate::live::Live;
use crate::masters::Masters;
use crate::routes;
use crate::shared::Shared;
use axum::Router;
use common::net::http::Heard;
use common::net::io::WriteTimeout;
use common::net::places::{Place, Places};
use hyper::Request;
use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;
use hyper_util::service::TowerToHyperService;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// The most connections at a time, if there are descriptors for them.
pub const CONNECTIONS_MAX: usize = PLACES_MAX + SPARE_MAX;
/// Those that are served everything.
const PLACES_MAX: usize = 256;
/// Those beyond them that are told that there are too many, or answered if they only ask how this master is,
const SPARE_MAX: usize = 64;
/// and which part of fewer these are.
const SPARE_PART: usize = 5;
/// How long a request's head may take to arrive, and how long a connection may idle between two requests.
const HEAD_MAX: Duration = Duration::from_secs(15);
/// How long an answer may wait for the other end to read on.
const WRITE_MAX: Duration = Duration::from_secs(30);
/// The largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// How long requests may take to finish once the process is told to stop.
const STOP_MAX: Duration = Duration::from_secs(2);
/// The pause after an `accept` that failed: it fails when descriptors run out, and they come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Which connections there are, and what each is served.
struct Site {
    places: Places,
    all: Router,
    spare_places: Places,
    spare: Router,
}

/// Serves the console on `listener` until `stop` resolves, so many connections at a time; then event streams end, and open
/// requests within 2 s.
pub async fn serve(
    listener: TcpListener,
    connections_max: usize,
    masters: Arc<dyn Masters>,
    auth: Arc<Auth>,
    stop: impl Future<Output = ()>,
) {
    let live = Live::new(Arc::clone(&masters), Arc::clone(&auth));
    let shared = Shared { masters, live: Arc::clone(&live), auth };
    let spare = (connections_max / SPARE_PART).clamp(1, SPARE_MAX);
    let site = Site {
        places: Places::new(connections_max.saturating_sub(spare).clamp(1, PLACES_MAX)),
        all: routes::router(shared.clone()),
        spare_places: Places::new(spare),
        spare: routes::spare_router(shared),
    };
    let stopped = CancellationToken::new();
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        match accepted {
            Ok((io, address)) => {
                let Some((place, router)) = site.welcome() else { continue };
                connections.spawn(serve_connection(io, address.ip(), place, router, stopped.clone()));
                site.places.settle().await;
            }
            Err(error) => {
                tracing::warn!(%error, "the console could not accept a connection; trying again");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    stopped.cancel();
    live.close();
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(STOP_MAX, ended).await.is_err() {
        tracing::debug!("some console requests did not finish in time");
    }
}

impl Site {
    /// A place for a newcomer, and what it gets there.
    fn welcome(&self) -> Option<(Place, Router)> {
        let at_all = self.places.take().map(|place| (place, self.all.clone()));
        at_all.or_else(|| Some((self.spare_places.take()?, self.spare.clone())))
    }
}

async fn serve_connection(io: TcpStream, from: IpAddr, place: Place, router: Router, stop: CancellationToken) {
    // Without it an answer may wait for the acknowledgement of the one before.
    let _ = io.set_nodelay(true);
    let service = TowerToHyperService::new(router.map_request(move |mut request: Request<Heard>| {
        request.extensions_mut().insert(Source(from));
        request
    }));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_MAX).max_buf_size(HEAD_BYTES_MAX);
    let io = WriteTimeout::new(io, WRITE_MAX, place.clone());
    if let Err(error) = common::net::http::serve(&http, io, service, &place, &stop).await {
        tracing::debug!(%error, "a console connection ended early");
    }
}
