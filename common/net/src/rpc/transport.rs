//! tarpc over TCP with every bound set: frame length, deadlines, connections, requests in flight.
//!
//! tarpc 0.38 adds the deadline that a caller sends to the present `Instant`, which panics where the sum is beyond all time, and
//! hands it to a timer wheel, where a deadline of years panics, in the connection's own task. A server ([`super::connection`])
//! therefore looks at the deadline before anything else is decoded, and clamps it before tarpc sees it. A panic inside decoding
//! would still be an error that closes the connection.
//!
//! tarpc also takes whatever cannot be decoded for the end of the connection, and the caller is never told why. A call that is one,
//! but holds a value that breaks a rule of its type (an agent's name of 65 characters), is therefore answered there with that rule.

use super::connection::Bounds;
use crate::budget::Budget;
use crate::io::WriteTimeout;
use crate::listener;
use crate::places::{Place, Places};
use crate::tls::{Admits, ClientStream, Listener, Remote, Stream, Tls};
use crate::turns::{CallerId, newcomer_work};
use bincode::Options as _;
use bytes::{Bytes, BytesMut};
use futures::{FutureExt as _, Sink};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::fmt;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::time::{Duration, Instant};
use tarpc::tokio_serde::{Deserializer, Serializer};
use tarpc::{ClientMessage, Response};
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio_util::codec::{Framed, LengthDelimitedCodec};
use tokio_util::sync::CancellationToken;
pub use wire::FRAME_LEN_MAX;

/// The longest time that a caller may ask us to spend on a request.
pub const DEADLINE_MAX: Duration = Duration::from_secs(60);
/// Answers of one connection that wait to be written, whatever their size.
pub const UNSENT_ANSWERS_MAX: usize = 16;
/// The longest time that a new connection to a server may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest reason why a call cannot be read, in characters: parts of the call may be in it.
const UNREADABLE_CHARS_MAX: usize = 300;
/// The longest time from a caller's connection to its first whole request.
pub const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time that an answer may wait for the caller to read on; a [connection](super::connection) has less patience than that.
const WRITE_TIMEOUT: Duration = super::connection::WRITE_TIMEOUT.saturating_mul(2);

/// Limits of what one server takes on at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections; one more takes the place of the one that waits longest ([`Places`]), or is closed if all are at work.
    pub connections_max: usize,
    /// Requests in flight on one connection; one more is answered with an error.
    pub requests_per_connection_max: usize,
    /// The longest frame of a request, in bytes.
    pub frame_len_max: usize,
    /// Bytes of large requests and answers that all connections together may make us keep.
    pub memory_max: u32,
}

impl Limits {
    /// The bounds of each connection; all of them share a budget.
    pub fn bounds(&self) -> Bounds {
        let Self { requests_per_connection_max: requests_max, frame_len_max, memory_max, .. } = *self;
        Bounds { requests_max, frame_len_max, budget: Budget::new(memory_max) }
    }
}

fn framed<IO: tokio::io::AsyncRead + tokio::io::AsyncWrite>(io: IO) -> Framed<IO, LengthDelimitedCodec> {
    Framed::new(io, LengthDelimitedCodec::builder().max_frame_length(FRAME_LEN_MAX).new_codec())
}

/// The bincode that tarpc's own format speaks, bounded, with a panic inside decoding turned into an error.
struct Guarded<Item, SinkItem>(PhantomData<fn(SinkItem) -> Item>);

/// A message that came to a server.
#[derive(Debug)]
pub(super) enum Received<Req> {
    Message(ClientMessage<Req>),
    /// A call of this number that breaks a rule.
    Unreadable {
        id: u64,
        why: String,
    },
}

/// Stands for a call that is not read.
struct Unread;

impl<'de> Deserialize<'de> for Unread {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Ok(Self)
    }
}

fn beyond_all_time() -> bincode::Error {
    Box::new(bincode::ErrorKind::Custom("a deadline beyond all time".to_owned()))
}

/// Checks that the deadline of a message to a server is an instant at all. tarpc writes a [`ClientMessage`] as the number of
/// its variant, and a request (the first one) begins with the time until its deadline.
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

pub(super) fn codec() -> impl bincode::Options {
    bincode::DefaultOptions::new().with_limit(FRAME_LEN_MAX as u64)
}

fn invalid(why: &bincode::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_string())
}

/// Decodes all of it. A panic on the way is an error of another kind than a broken rule.
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, bincode::Error> {
    let panicked = || io::Error::new(io::ErrorKind::InvalidData, "it cannot be decoded");
    catch_unwind(AssertUnwindSafe(|| codec().deserialize(bytes))).unwrap_or_else(|_| Err(panicked().into()))
}

/// The number of a call; `None`: it is none.
fn call_id(bytes: &[u8]) -> Option<u64> {
    match codec().allow_trailing_bytes().deserialize::<ClientMessage<Unread>>(bytes) {
        Ok(ClientMessage::Request(request)) => Some(request.id),
        _ => None,
    }
}

impl<Item: DeserializeOwned, SinkItem> Deserializer<Item> for Guarded<Item, SinkItem> {
    type Error = io::Error;
    fn deserialize(self: Pin<&mut Self>, bytes: &BytesMut) -> Result<Item, io::Error> {
        decode(bytes).map_err(|why| invalid(&why))
    }
}

/// Decodes a message that came to a server. A deadline that is none is refused before anything is decoded, and what is a call,
/// but holds something that cannot be, is told from what is not a call at all.
pub(super) fn receive<Req: DeserializeOwned>(bytes: &[u8]) -> io::Result<Received<Req>> {
    deadline_is_one(bytes).map_err(|why| invalid(&why))?;
    decode(bytes).map(Received::Message).or_else(|why| match (&*why, call_id(bytes)) {
        // What serde and our types say of a value; everything else says that these bytes are not a call.
        (bincode::ErrorKind::Custom(rule), Some(id)) => {
            let why = rule.chars().take(UNREADABLE_CHARS_MAX).collect();
            Ok(Received::Unreadable { id, why })
        }
        _ => Err(invalid(&why)),
    })
}

impl<Item, SinkItem: Serialize> Serializer<SinkItem> for Guarded<Item, SinkItem> {
    type Error = io::Error;
    fn serialize(self: Pin<&mut Self>, item: &SinkItem) -> Result<Bytes, io::Error> {
        codec().serialize(item).map(Bytes::from).map_err(io::Error::other)
    }
}

/// The client's end of a connection to `address` (host:port), where somebody of a role is `expected` if there are certificates. It may take
/// up to [`CONNECT_TIMEOUT`].
///
/// # Errors
/// An error of the network, `TimedOut`, or `InvalidData` if somebody else is there.
pub async fn connect_as<Req, Resp>(
    address: impl ToSocketAddrs + fmt::Debug + Copy,
    tls: &Tls,
    expected: Admits,
) -> io::Result<
    impl futures::Stream<Item = io::Result<Response<Resp>>> + Sink<ClientMessage<Req>, Error = io::Error> + Send + 'static,
>
where
    Req: Serialize + Send + 'static,
    Resp: DeserializeOwned + Send + 'static,
{
    let io = opened(address, async |io| tls.connect(io, expected).await).await?;
    Ok(tarpc::serde_transport::new(framed(io), Guarded(PhantomData)))
}

/// As [`connect_as`], to a master for a certificate; see [`Tls::connect_to_enroll`].
///
/// # Errors
/// As [`connect_as`].
pub async fn connect_to_enroll<Req, Resp>(
    address: impl ToSocketAddrs + fmt::Debug + Copy,
    tls: &Tls,
    ca: Option<[u8; 32]>,
) -> io::Result<
    impl futures::Stream<Item = io::Result<Response<Resp>>> + Sink<ClientMessage<Req>, Error = io::Error> + Send + 'static,
>
where
    Req: Serialize + Send + 'static,
    Resp: DeserializeOwned + Send + 'static,
{
    let io = opened(address, async |io| tls.connect_to_enroll(io, ca).await).await?;
    Ok(tarpc::serde_transport::new(framed(io), Guarded(PhantomData)))
}

/// A new connection on which this handshake has been made.
async fn opened(
    address: impl ToSocketAddrs + fmt::Debug + Copy,
    handshake: impl AsyncFnOnce(TcpStream) -> io::Result<ClientStream>,
) -> io::Result<ClientStream> {
    let connected = async {
        let io = TcpStream::connect(address).await?;
        io.set_nodelay(true)?;
        listener::keep_alive(&io)?;
        // What we gave up on must not arrive later: after a cut the kernel would deliver a renewal that was long since made at
        // the other master and followed by further ones, and that looks like a second live copy of the agent.
        io.set_zero_linger()?;
        handshake(io).await
    };
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("no connection to {address:?} in time"));
    tokio::time::timeout(CONNECT_TIMEOUT, connected).await.map_err(late)?
}

/// As [`connect_as`], over plain TCP.
///
/// # Errors
/// An error of the network, or `TimedOut`.
pub async fn connect<Req, Resp>(
    address: impl ToSocketAddrs + fmt::Debug + Copy,
) -> io::Result<
    impl futures::Stream<Item = io::Result<Response<Resp>>> + Sink<ClientMessage<Req>, Error = io::Error> + Send + 'static,
>
where
    Req: Serialize + Send + 'static,
    Resp: DeserializeOwned + Send + 'static,
{
    connect_as(address, &Tls::PLAIN, Admits::Anyone).await
}

/// The longest that a call may take. A deadline beyond what the machine's clock can say would not be one.
const CALL_MAX: Duration = Duration::from_secs(365 * 86_400);

/// A context whose deadline is `timeout` from now, or a year if that is less; tarpc's own default is ten seconds.
pub fn deadline_in(timeout: Duration) -> tarpc::context::Context {
    let mut context = tarpc::context::current();
    context.deadline = Instant::now() + timeout.min(CALL_MAX);
    context
}

/// Serves one connection, which has this place, until it ends, within [`Bounds`]. Requests run beside each other. When the connection ends, so does
/// what it had under way. The last argument, if any, says how many bytes the answer to a request may take; without it answers
/// are small.
///
/// A macro, because the future that tarpc's generated code returns can be named only where the service is known.
#[macro_export]
macro_rules! serve_connection {
    ($io:expr, $place:expr, $bounds:expr, $service:expr) => {
        $crate::serve_connection!($io, $place, $bounds, $service, |_: &_| 0)
    };
    ($io:expr, $place:expr, $bounds:expr, $service:expr, $weigh:expr) => {{
        use ::futures::StreamExt as _;
        use ::tarpc::server::{BaseChannel, Channel as _};
        let place: &$crate::places::Place = $place;
        let bounds: &$crate::rpc::connection::Bounds = $bounds;
        let config = ::tarpc::server::Config { pending_response_buffer: $crate::rpc::transport::UNSENT_ANSWERS_MAX };
        let channel = BaseChannel::new(config, $crate::rpc::connection::Connection::new($io, bounds, place.clone()));
        let service = $crate::rpc::connection::Accounted::new($service, $weigh, bounds.budget.clone(), place.clone());
        channel
            .max_concurrent_requests(bounds.requests_max)
            .execute(service)
            .for_each(|request| $crate::rpc::transport::run(place.while_asked(request)))
            .await;
    }};
}

/// Answers a call: at once if it need not wait, as most do, and else in a task of its own, which tarpc aborts with the channel.
/// Polled by its connection as long as it waits, each would cost more the more there are. One that panics ends alone.
pub async fn run(call: impl Future<Output = ()> + Send + 'static) {
    let mut call = Box::pin(AssertUnwindSafe(call).catch_unwind());
    if futures::poll!(call.as_mut()).is_pending() {
        tokio::spawn(call);
    }
}

/// Accepts connections until `stop`, as many as there are places, and runs `handle` on each; then all of them end. A caller for
/// whom nobody makes room is disconnected at once; one that asks for nothing within [`FIRST_REQUEST_TIMEOUT`], or does not read
/// its answers, is disconnected then.
pub async fn accept<H, F>(port: impl Into<Listener>, places: Places, stop: CancellationToken, handle: H)
where
    H: Fn(WriteTimeout<Stream>, Remote, Place) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let seats = places.clone();
    let welcome = move |io: Stream, from| {
        let remote = io.remote(from);
        let place = seats.take(CallerId::from(&remote))?;
        place.owes(newcomer_work(&remote));
        let work = handle(WriteTimeout::new(io, WRITE_TIMEOUT, place.clone()), remote, place.clone());
        Some(async move {
            tokio::select! {
                () = place.over(FIRST_REQUEST_TIMEOUT) => {}
                () = work => {}
            }
        })
    };
    drop(listener::accept(port.into().kept_alive(), &places, &stop, welcome, |_| ()).await);
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::parameters::AgentId;
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
            let refused = receive::<Body>(&request(left)).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidData, "{left:?}");
            assert!(!DECODED.load(Ordering::Relaxed), "{left:?}");
        }
        // The same bytes with a deadline of a day are a request: the check looks at the right place.
        let taken = receive::<Body>(&request((86_400, 0)));
        let _ = std::panic::take_hook();
        assert!(matches!(taken.unwrap(), Received::Message(ClientMessage::Request(request)) if request.id == 7));
        assert!(DECODED.load(Ordering::Relaxed) && !PANICKED.load(Ordering::Relaxed));
    }

    #[test]
    fn a_call_that_breaks_a_rule_is_told_from_what_is_no_call() {
        let call = |id: u64, name: &str| {
            let bytes = codec().serialize(&(0u32, (1u64, 0u32), [1u8; 16], 1u64, 1u32, id, name)).unwrap();
            BytesMut::from(&bytes[..])
        };
        let read = |bytes: &BytesMut| receive::<AgentId>(bytes);
        assert!(matches!(read(&call(7, "agent")).unwrap(), Received::Message(ClientMessage::Request(_))));
        for name in ["", "a b", "a\0", &"x".repeat(65), &"x".repeat(1 << 20)] {
            let Received::Unreadable { id: 9, why } = read(&call(9, name)).unwrap() else { panic!("{name}") };
            assert_eq!(why, "an agent's name has 1 to 64 characters of A-Z a-z 0-9 . _ : -");
        }
        // Half a call, and one whose number cannot be read. What has more behind it is a call, of another version.
        let whole = call(9, "a b");
        for end in 0..whole.len() {
            assert!(read(&BytesMut::from(&whole[..end])).is_err(), "{end}");
        }
        let more = read(&BytesMut::from(&[&call(9, "agent")[..], &[0]].concat()[..])).unwrap();
        assert!(matches!(more, Received::Unreadable { id: 9, .. }), "{more:?}");
    }
}
