//! The console on a socket: bounded, and done when it is told to stop.
//!
//! A connection has one of [`PLACES_MAX`] places; whoever keeps us waiting longest makes room for a newcomer. While all are
//! at work, newcomers have one of [`SPARE_MAX`] further places, where machines that watch this master are answered and
//! everybody else is told to come back: no console that is busy makes a master look dead.

use crate::auth::{Auth, Source};
use crate::live::Live;
use crate::masters::Masters;
use crate::routes;
use crate::shared::{Shared, Turn};
use axum::Router;
use hyper_util::service::TowerToHyperService;
use net::io::{ByteStream, WriteTimeout};
use net::places::{Place, Places};
use net::tls::Listener;
use net::turns::CallerId;
use net::{http, listener};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The most connections at a time, if there are descriptors for them.
pub const CONNECTIONS_MAX: usize = PLACES_MAX + SPARE_MAX;
/// Connections at a time that are served everything, at most.
const PLACES_MAX: usize = 256;
/// Connections at a time, beyond those, that are told that there are too many, or answered if they only ask how this master is, at most.
const SPARE_MAX: usize = 64;
/// Divisor of the connections that there are descriptors for: no more than this part of them is spare.
const SPARE_PART: usize = 5;
/// The longest time that a request's head may take to arrive, and that a connection may idle between two requests.
const HEAD_MAX: Duration = Duration::from_secs(15);
/// The longest time that an answer may wait for the other end to read on.
const WRITE_MAX: Duration = Duration::from_secs(30);
/// The largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// The longest time that requests may take to finish once the process is told to stop.
const STOP_MAX: Duration = Duration::from_secs(2);

/// The connections there are, and what each is served.
struct Site {
    places: Places,
    all: Router,
    spare_places: Places,
    spare: Router,
}

/// Serves the console on `port` until `stop`, so many connections at a time; then event streams end, and open requests
/// within 2 s.
pub async fn serve(
    port: impl Into<Listener>,
    connections_max: usize,
    masters: Arc<dyn Masters>,
    auth: Arc<Auth>,
    stop: CancellationToken,
) {
    let live = Live::new(Arc::clone(&masters), Arc::clone(&auth));
    let shared = Shared { masters, live: Arc::clone(&live), auth, turn: Turn::default() };
    let spare = (connections_max / SPARE_PART).clamp(1, SPARE_MAX);
    let site = Site {
        places: Places::new(connections_max.saturating_sub(spare).clamp(1, PLACES_MAX)),
        all: routes::router(shared.clone()),
        spare_places: Places::new(spare),
        spare: routes::spare_router(shared),
    };
    let welcome = |io, from: SocketAddr| {
        let (place, router) = site.welcome(from.ip())?;
        Some(serve_connection(io, from.ip(), place, router, stop.clone()))
    };
    let failed = |error| tracing::warn!(%error, "the console could not accept a connection; trying again");
    let connections = listener::accept(port.into(), &site.places, &stop, welcome, failed).await;
    live.close();
    if listener::end(connections, STOP_MAX).await > 0 {
        tracing::debug!("some console requests did not finish in time");
    }
}

impl Site {
    /// A place for a newcomer, and what it gets there.
    fn welcome(&self, from: IpAddr) -> Option<(Place, Router)> {
        let caller = CallerId::at(from);
        let at_all = self.places.take(caller).map(|place| (place, self.all.clone()));
        at_all.or_else(|| Some((self.spare_places.take(caller)?, self.spare.clone())))
    }
}

async fn serve_connection(io: impl ByteStream, from: IpAddr, place: Place, router: Router, stop: CancellationToken) {
    let io = WriteTimeout::new(io, WRITE_MAX, place.clone());
    let (http, service) = (http::bounded(HEAD_MAX, HEAD_BYTES_MAX), TowerToHyperService::new(router));
    if let Err(error) = http::serve(&http, io, Source(from), service, &place, &stop).await {
        tracing::debug!(%error, "a console connection ended early");
    }
}
