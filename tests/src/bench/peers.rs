//! Servers that do nothing but answer: the floor that a server built of the same parts cannot go below.

use anyhow::{Context as _, Result};
use axum::Router;
use axum::http::{HeaderValue, header};
use axum::routing::get;
use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Response, body::Incoming};
use hyper_util::rt::TokioIo;
use net::io::WriteTimeout;
use net::places::{Place, Places};
use net::rpc::connection::{Accounted, Bounds, Connection};
use net::rpc::mint::MintFailure;
use net::rpc::transport;
use net::tls;
use std::convert::Infallible;
use std::net::SocketAddr;
use tarpc::context::Context;
use tarpc::server::{BaseChannel, Channel as _};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The answer of every bare server.
const HELLO: &[u8] = b"Hello, World!";
/// Connections of the echo.
const CONNECTIONS_MAX: usize = 1_024;
/// Memory that it may take for large requests, in bytes.
const MEMORY_MAX: u32 = 64 << 20;

/// A bare server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Peer {
    /// hyper's http1 builder: `pipeline_flush`, no Date, TCP_NODELAY.
    Hyper,
    /// axum's Router on the same.
    Axum,
    /// The same, answering with a ready buffer of `--len` bytes.
    AxumBuffer,
    /// A tarpc service with the signature of `uniq64` that answers with zeros.
    TarpcEcho,
}

/// The signature of `MintService::uniq64` without the minting.
#[tarpc::service]
pub trait Echo {
    /// `n` zeros.
    async fn echo(name: String, n: u32) -> Result<Vec<u64>, MintFailure>;
}

#[derive(Clone)]
struct EchoServer;

impl Echo for EchoServer {
    async fn echo(self, _: Context, _: String, n: u32) -> Result<Vec<u64>, MintFailure> {
        Ok(vec![0; n as usize])
    }
}

/// Serves for ever.
///
/// # Errors
/// If the address cannot be had.
pub async fn serve(peer: Peer, listen: SocketAddr, len: usize) -> Result<()> {
    let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    let buffer = Bytes::from(vec![b'7'; len]);
    let text = (header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    let router = Router::new().route("/", get(async || HELLO));
    let router = router.route("/buffer", get(move || std::future::ready(([text], buffer.clone()))));
    match peer {
        Peer::TarpcEcho => {
            let limits = transport::Limits {
                connections_max: CONNECTIONS_MAX,
                requests_per_connection_max: usize::MAX,
                frame_len_max: transport::FRAME_LEN_MAX,
                memory_max: MEMORY_MAX,
            };
            let bounds = limits.bounds();
            // As tarpc's own examples serve a connection: a task for each call.
            let handle = async move |io: WriteTimeout<tls::Stream>, place: Place, bounds: Bounds| {
                let channel = BaseChannel::with_defaults(Connection::new(io, &bounds, place.clone()));
                let echo = Accounted::new(EchoServer.serve(), |_: &_| 0, bounds.budget.clone(), place.clone());
                let spawn = async |call| drop(tokio::spawn(place.while_asked(call)));
                channel.execute(echo).for_each(spawn).await;
            };
            let stop = CancellationToken::new();
            let places = Places::new(CONNECTIONS_MAX);
            let handle = move |io, _, place| handle(io, place, bounds.clone());
            transport::accept(listener, places, stop, handle).await;
            Ok(())
        }
        Peer::Hyper => loop {
            let (io, _) = listener.accept().await?;
            io.set_nodelay(true)?;
            let hello = service_fn(async |_: hyper::Request<Incoming>| {
                let mut response = Response::new(Full::new(Bytes::from_static(HELLO)));
                response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
                Ok::<_, Infallible>(response)
            });
            tokio::spawn(http1().serve_connection(TokioIo::new(io), hello));
        },
        Peer::Axum | Peer::AxumBuffer => loop {
            let (io, _) = listener.accept().await?;
            io.set_nodelay(true)?;
            let service = hyper_util::service::TowerToHyperService::new(router.clone());
            tokio::spawn(http1().serve_connection(TokioIo::new(io), service));
        },
    }
}

fn http1() -> hyper::server::conn::http1::Builder {
    let mut http = hyper::server::conn::http1::Builder::new();
    http.pipeline_flush(true).auto_date_header(false);
    http
}
