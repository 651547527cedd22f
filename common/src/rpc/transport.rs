//! tarpc over TCP with every bound set: frame length, deadlines, connections, requests in flight.
//!
//! tarpc 0.38 adds the deadline that a caller sends to the present `Instant`, which panics where the sum is beyond all time, and
//! hands it to a timer wheel, where a deadline of years panics, in the connection's own task. [`server`] therefore looks at the
//! deadline before anything else is decoded, and clamps it before tarpc sees it. A panic inside decoding would still be an error
//! that closes the connection.

use bincode::Options as _;
use bytes::{Bytes, BytesMut};
use futures::{Sink, Stream, TryStreamExt as _};
use rustix::net::sockopt;
use serde::{Serialize, de::DeserializeOwned};
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tarpc::tokio_serde::{Deserializer, Serializer};
use tarpc::{ClientMessage, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::codec::{Framed, LengthDelimitedCodec};
use tokio_util::sync::CancellationToken;

/// The longest frame, in bytes: 100,000 Uniq96 in one answer, or 256 records of full length in one page.
pub const FRAME_LEN_MAX: usize = 4 << 20;
/// The longest time that a caller may ask us to spend on a request.
pub const DEADLINE_MAX: Duration = Duration::from_secs(60);
/// How long a new connection to a server may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a listener waits after an error such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A connection on which nothing was heard for this long is asked whether its other end still exists,
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(15);
/// again after this long,
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// and is given up after so many questions without an answer.
const KEEP_ALIVE_COUNT: u32 = 3;

/// Lets the kernel notice a caller that vanished without a word: its machine died, or the network between was cut until it
/// gave up. Otherwise each such connection would keep its place for ever, and the port between the masters has few.
fn keep_alive(io: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(io, true)?;
    sockopt::set_tcp_keepidle(io, KEEP_ALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(io, KEEP_ALIVE_INTERVAL)?;
    Ok(sockopt::set_tcp_keepcnt(io, KEEP_ALIVE_COUNT)?)
}

/// What one server takes on at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections; one more waits in the kernel's backlog.
    pub connections_max: usize,
    /// Requests in flight on one connection; one more is answered with an error.
    pub requests_per_connection_max: usize,
}

fn framed<IO: tokio::io::AsyncRead + tokio::io::AsyncWrite>(io: IO) -> Framed<IO, LengthDelimitedCodec> {
    Framed::new(io, LengthDelimitedCodec::builder().max_frame_length(FRAME_LEN_MAX).new_codec())
}

/// The bincode that tarpc's own format speaks, bounded, with a panic inside decoding turned into an error. What the check
/// refuses is not decoded.
struct Guarded<Item, SinkItem> {
    check: fn(&[u8]) -> Result<(), bincode::Error>,
    of: PhantomData<fn(SinkItem) -> Item>,
}

impl<Item, SinkItem> Guarded<Item, SinkItem> {
    fn new(check: fn(&[u8]) -> Result<(), bincode::Error>) -> Self {
        Self { check, of: PhantomData }
    }
}

fn beyond_all_time() -> bincode::Error {
    Box::new(bincode::ErrorKind::Custom("a deadline beyond all time".to_owned()))
}

/// Whether the deadline of a message to a server is an instant at all. tarpc writes a [`ClientMessage`] as the number of its
/// variant, and a request (the first one) begins with the time until its deadline.
fn deadline_is_one(bytes: &[u8]) -> Result<(), bincode::Error> {
    const REQUEST: u32 = 0;
    let begin = || codec().allow_trailing_bytes();
    let kind: u32 = begin().deserialize(bytes)?;
    if kind != REQUEST {
        return Ok(());
    }
    let (_, left): (u32, Duration) = begin().deserialize(bytes)?;
    Instant::now().checked_add(left).map(drop).ok_or_else(beyond_all_time)
}

fn codec() -> impl bincode::Options {
    bincode::DefaultOptions::new().with_limit(FRAME_LEN_MAX as u64)
}

impl<Item: DeserializeOwned, SinkItem> Deserializer<Item> for Guarded<Item, SinkItem> {
    type Error = io::Error;
    fn deserialize(self: Pin<&mut Self>, bytes: &BytesMut) -> Result<Item, io::Error> {
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let decoded = (self.check)(bytes).and_then(|()| {
            catch_unwind(AssertUnwindSafe(|| codec().deserialize(bytes)))
                .unwrap_or_else(|_| Err(Box::new(bincode::ErrorKind::Custom("it cannot be decoded".to_owned()))))
        });
        decoded.map_err(|e| invalid(e.to_string()))
    }
}

impl<Item, SinkItem: Serialize> Serializer<SinkItem> for Guarded<Item, SinkItem> {
    type Error = io::Error;
    fn serialize(self: Pin<&mut Self>, item: &SinkItem) -> Result<Bytes, io::Error> {
        codec().serialize(item).map(Bytes::from).map_err(io::Error::other)
    }
}

type Inbound<Req> = Result<ClientMessage<Req>, io::Error>;

/// The server's end of a connection, safe against what a caller may send.
pub fn server<Req, Resp, IO>(
    io: IO,
) -> impl Stream<Item = Inbound<Req>> + Sink<Response<Resp>, Error = io::Error> + Send + 'static
where
    Req: DeserializeOwned + Send + 'static,
    Resp: Serialize + Send + 'static,
    IO: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + 'static,
{
    tarpc::serde_transport::new(framed(io), Guarded::new(deadline_is_one)).map_ok(|mut message| {
        if let ClientMessage::Request(request) = &mut message {
            request.context.deadline = request.context.deadline.min(Instant::now() + DEADLINE_MAX);
        }
        message
    })
}

/// The client's end of a connection to `address` (host:port), which may take up to [`CONNECT_TIMEOUT`].
///
/// # Errors
/// What the network says, or `TimedOut`.
pub async fn connect<Req, Resp>(
    address: &str,
) -> io::Result<
    impl Stream<Item = io::Result<Response<Resp>>> + Sink<ClientMessage<Req>, Error = io::Error> + Send + 'static,
>
where
    Req: Serialize + Send + 'static,
    Resp: DeserializeOwned + Send + 'static,
{
    let io = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address))
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, format!("no connection to {address} in time")))??;
    io.set_nodelay(true)?;
    keep_alive(&io)?;
    // What we gave up on must not arrive later: after a cut the kernel would deliver a renewal that was long since made at
    // the other master and followed by further ones, and that looks like a second live copy of the agent.
    io.set_zero_linger()?;
    Ok(tarpc::serde_transport::new(framed(io), Guarded::new(|_| Ok(()))))
}

/// A context whose deadline is `timeout` from now; tarpc's own default is ten seconds.
pub fn deadline_in(timeout: Duration) -> tarpc::context::Context {
    let mut context = tarpc::context::current();
    context.deadline = Instant::now() + timeout;
    context
}

/// Serves one connection until it ends. Requests run beside each other, at most `requests_max` of them; one more is
/// answered with an error. When the connection ends, so does what it had under way.
///
/// A macro, because the future that tarpc's generated code returns can be named only where the service is known.
#[macro_export]
macro_rules! serve_connection {
    ($io:expr, $requests_max:expr, $service:expr) => {{
        use ::futures::StreamExt as _;
        use ::tarpc::server::{BaseChannel, Channel as _};
        let channel = BaseChannel::with_defaults($crate::rpc::transport::server($io));
        channel
            .max_concurrent_requests($requests_max)
            .execute($service)
            .for_each_concurrent(None, |request| request)
            .await;
    }};
}

/// Accepts connections until `stop`, at most `connections_max` at once, and runs `handle` on each in a task of its own.
/// A caller that `admit` refuses is disconnected at once.
pub async fn accept<H, F>(
    listener: TcpListener,
    connections_max: usize,
    stop: CancellationToken,
    admit: impl Fn(SocketAddr) -> bool,
    handle: H,
) where
    H: Fn(TcpStream, SocketAddr) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(connections_max));
    loop {
        let taken = tokio::select! {
            () = stop.cancelled() => return,
            place = Arc::clone(&places).acquire_owned() => place,
        };
        let Ok(place) = taken else { return };
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((io, from)) if admit(from) => {
                let _ = io.set_nodelay(true);
                let _ = keep_alive(&io);
                let work = handle(io, from);
                let stop = stop.clone();
                tokio::spawn(async move {
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = work => {}
                    }
                    drop(place);
                });
            }
            Ok(_) => {}
            // Out of descriptors, or the caller is gone already: the next one may do better.
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A deadline as tarpc writes it, with a body that says whether it was decoded.
    static DECODED: AtomicBool = AtomicBool::new(false);

    #[derive(Debug)]
    struct Body;

    impl<'de> Deserialize<'de> for Body {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            DECODED.store(true, Ordering::Relaxed);
            Ok(Self)
        }
    }

    #[test]
    fn a_deadline_beyond_all_time_is_refused_without_a_panic() {
        let request = |left: (u64, u32)| {
            // Variant, deadline; the trace context (two ids and a flag), the request's number.
            let bytes = codec().serialize(&(0u32, left, [1u8; 16], 1u64, 1u32, 7u64)).unwrap();
            BytesMut::from(&bytes[..])
        };
        // What decoding would do with it: a panic, which is caught, but not before it was told on stderr.
        static PANICKED: AtomicBool = AtomicBool::new(false);
        std::panic::set_hook(Box::new(|_| PANICKED.store(true, Ordering::Relaxed)));
        for left in [(u64::MAX, 0), (u64::MAX, 999_999_999), (u64::MAX / 2 + 1, 0), (u64::MAX, u32::MAX)] {
            let mut guarded = Guarded::<ClientMessage<Body>, ()>::new(deadline_is_one);
            let refused = Pin::new(&mut guarded).deserialize(&request(left)).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidData, "{left:?}");
            assert!(!DECODED.load(Ordering::Relaxed), "{left:?}");
        }
        // The same bytes with a deadline of a day are a request: the check looks at the right place.
        let mut guarded = Guarded::<ClientMessage<Body>, ()>::new(deadline_is_one);
        let taken = Pin::new(&mut guarded).deserialize(&request((86_400, 0)));
        let _ = std::panic::take_hook();
        assert!(matches!(taken.unwrap(), ClientMessage::Request(request) if request.id == 7));
        assert!(DECODED.load(Ordering::Relaxed) && !PANICKED.load(Ordering::Relaxed));
    }
}
