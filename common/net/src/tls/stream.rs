//! A port and its connections: plain TCP, TCP with TLS, or a Unix socket.

use super::role::{Role, role_of};
use super::{Current, HANDSHAKES_FAILED};
use crate::listener::{Incoming, keep_alive};
use common::parameters::AgentId;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::Acceptor;
use rustls::{CertificateError, ServerConfig};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::client::TlsStream as ClientTls;
use tokio_rustls::server::TlsStream as ServerTls;
use tokio_rustls::{Accept, LazyConfigAcceptor, StartHandshake, TlsAcceptor};
use tokio_util::either::Either;
use webpki::KeyUsage;

/// Bytes of answers, as they are encrypted, that a connection keeps beyond what its owner counts: an answer of 1,000 IDs goes in one write.
const UNSENT_MAX: usize = 32 << 10;

/// The end of who connected.
pub type ClientStream = Either<TcpStream, ClientTls<TcpStream>>;

/// The address of callers at a Unix socket, which have none.
const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A listener whose connections are plain TCP, TLS, or of this machine alone.
pub struct Listener {
    socket: Socket,
    tls: Option<Secure>,
    kept_alive: bool,
}

/// The ways in which a handshake is answered.
#[derive(Clone)]
struct Secure {
    admitted: Arc<ServerConfig>,
    current: Arc<Current>,
    others: Option<Others>,
}

/// Those who are let in beside those who are admitted.
#[derive(Clone)]
enum Others {
    /// Callers that come for a certificate, and say so in their greeting.
    Newcomers(Arc<ServerConfig>),
    /// Everybody, while that is true.
    Anybody(Arc<ServerConfig>, Arc<AtomicBool>),
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Plain TCP.
impl From<TcpListener> for Listener {
    fn from(tcp: TcpListener) -> Self {
        Self { socket: Socket::Tcp(tcp), tls: None, kept_alive: false }
    }
}

/// A Unix socket. Callers are known by their user; the file's mode says who may connect.
impl From<UnixListener> for Listener {
    fn from(unix: UnixListener) -> Self {
        Self { socket: Socket::Unix(unix), tls: None, kept_alive: false }
    }
}

impl Listener {
    pub(super) fn secured(tcp: TcpListener, config: ServerConfig, current: Arc<Current>) -> Self {
        let tls = Some(Secure { admitted: Arc::new(config), current, others: None });
        Self { tls, ..Self::from(tcp) }
    }

    /// The same, and who greets with a protocol of this configuration gets that one.
    pub(super) fn admitting_newcomers(self, config: ServerConfig) -> Self {
        self.admitting(Others::Newcomers(Arc::new(config)))
    }

    /// The same, and everybody gets this configuration while `open` is true.
    pub(super) fn admitting_anybody(self, config: ServerConfig, open: Arc<AtomicBool>) -> Self {
        self.admitting(Others::Anybody(Arc::new(config), open))
    }

    fn admitting(mut self, others: Others) -> Self {
        if let Some(tls) = &mut self.tls {
            tls.others = Some(others);
        }
        self
    }

    /// The same, and its connections are [kept alive](keep_alive).
    #[must_use]
    pub fn kept_alive(self) -> Self {
        Self { kept_alive: true, ..self }
    }
}

/// Sends what is written at once: otherwise an answer may wait for the acknowledgement of the one before.
impl Incoming for Listener {
    type Io = Stream;

    async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        let (io, from) = match &self.socket {
            Socket::Tcp(tcp) => tcp.accept().await?,
            Socket::Unix(unix) => {
                let (io, _) = unix.accept().await?;
                let user = io.peer_cred()?.uid();
                return Ok((Stream::Unix(io, user), NOWHERE));
            }
        };
        let _ = io.set_nodelay(true);
        if self.kept_alive {
            let _ = keep_alive(&io);
        }
        Ok((Stream::new(io, from, self.tls.as_ref()), from))
    }
}

/// A connection that came to a [`Listener`]. The handshake is a part of what is first read or written, so that whoever waits for that
/// bounds it too, and nobody else waits for it.
pub enum Stream {
    /// Plain TCP.
    Plain(TcpStream),
    /// TLS.
    Tls(Box<Secured>),
    /// A Unix socket, with the caller's user.
    Unix(UnixStream, u32),
}

/// A connection with TLS, or on the way to it.
pub struct Secured {
    state: State,
    from: SocketAddr,
    handshake: Arc<Handshake>,
    current: Arc<Current>,
    /// The time of the handshake.
    opened: UnixTime,
    /// The [`Current::revision`] by which the caller's certificate was judged.
    judged: u64,
}

/// The other end, as the handshake showed it.
#[derive(Debug, Default)]
struct Handshake {
    role: OnceLock<Role>,
    /// Set if it came for a certificate, with the one that it has, if it has one.
    newcomer: OnceLock<Option<CertificateDer<'static>>>,
}

enum State {
    /// On a port where others may come for a certificate, the greeting says who does.
    Greeting(LazyConfigAcceptor<TcpStream>, Secure),
    Opening(Accept<TcpStream>),
    Open(ServerTls<TcpStream>),
    Failed,
}

impl Stream {
    fn new(io: TcpStream, from: SocketAddr, tls: Option<&Secure>) -> Self {
        let Some(tls) = tls else { return Self::Plain(io) };
        let opening = |config: &Arc<ServerConfig>| TlsAcceptor::from(Arc::clone(config));
        let state = match &tls.others {
            Some(Others::Newcomers(_)) => {
                State::Greeting(LazyConfigAcceptor::new(Acceptor::default(), io), tls.clone())
            }
            Some(Others::Anybody(config, open)) if open.load(Relaxed) => State::Opening(opening(config).accept(io)),
            _ => State::Opening(opening(&tls.admitted).accept(io)),
        };
        // Before the handshake: what is revoked meanwhile is looked at again.
        let (current, judged) = (Arc::clone(&tls.current), tls.current.revision.load(Relaxed));
        Self::Tls(Box::new(Secured {
            state,
            from,
            handshake: Arc::default(),
            current,
            opened: UnixTime::now(),
            judged,
        }))
    }

    /// Ends the handshake, if there is one: from then on it is known who is at the other end.
    ///
    /// # Errors
    /// The handshake failed.
    pub async fn opened(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) | Self::Unix(..) => Ok(()),
            Self::Tls(secured) => std::future::poll_fn(|cx| secured.poll_open(cx).map_ok(drop)).await,
        }
    }

    /// Whoever is at the other end, which is at that address.
    pub fn remote(&self, from: SocketAddr) -> Remote {
        let (handshake, user) = match self {
            Self::Plain(_) => (None, None),
            Self::Tls(secured) => (Some(Arc::clone(&secured.handshake)), None),
            Self::Unix(_, user) => (None, Some(*user)),
        };
        Remote { from, handshake, user }
    }
}

/// Whoever is at the other end of a connection.
#[derive(Clone, Debug)]
pub struct Remote {
    /// The address from which it came.
    pub from: SocketAddr,
    /// Set once the handshake is over. `None`: it could show nothing.
    handshake: Option<Arc<Handshake>>,
    user: Option<u32>,
}

/// Whoever comes from there over plain TCP.
impl From<SocketAddr> for Remote {
    fn from(from: SocketAddr) -> Self {
        Self { from, handshake: None, user: None }
    }
}

impl Remote {
    /// Somebody of this machine, over plain TCP.
    pub fn here() -> Self {
        Self::from(NOWHERE)
    }

    /// The role in its certificate, if it showed one.
    pub fn role(&self) -> Option<&Role> {
        self.handshake.as_ref()?.role.get()
    }

    /// The certificate of who came for one; the inner `None`: it has none yet. The outer one: it came for something else.
    pub fn newcomer(&self) -> Option<Option<&CertificateDer<'static>>> {
        self.handshake.as_ref()?.newcomer.get().map(Option::as_ref)
    }

    /// The user of this machine that it is, if it came to a Unix socket.
    pub fn user(&self) -> Option<u32> {
        self.user
    }

    /// Tells whether it speaks TLS.
    pub(crate) fn is_over_tls(&self) -> bool {
        self.handshake.is_some()
    }

    /// Tells whether it could have shown a certificate and has not.
    pub fn is_anonymous(&self) -> bool {
        self.handshake.as_ref().is_some_and(|handshake| handshake.role.get().is_none())
    }

    /// Tells whether it may speak for that agent: by its certificate, or because there are none.
    pub fn speaks_for(&self, agent: &AgentId) -> bool {
        self.handshake.is_none() || matches!(self.role(), Some(Role::Agent(name)) if name == agent)
    }
}

impl Secure {
    /// Goes on with a handshake whose greeting has come.
    fn answer(&self, greeted: StartHandshake<TcpStream>) -> Accept<TcpStream> {
        let wanted: Vec<&[u8]> = greeted.client_hello().alpn().into_iter().flatten().collect();
        let newcomers = match &self.others {
            Some(Others::Newcomers(config)) => Some(config),
            _ => None,
        };
        let config = newcomers.filter(|config| config.alpn_protocols.iter().any(|ours| wanted.contains(&&ours[..])));
        let config = Arc::clone(config.unwrap_or(&self.admitted));
        drop(wanted);
        greeted.into_stream(config)
    }
}

impl Secured {
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&mut ServerTls<TcpStream>>> {
        if let State::Greeting(greeting, tls) = &mut self.state {
            self.state = match ready!(Pin::new(greeting).poll(cx)) {
                Ok(greeted) => State::Opening(tls.answer(greeted)),
                Err(why) => return Poll::Ready(Err(self.failed(why))),
            };
        }
        if let State::Opening(accept) = &mut self.state {
            self.state = match ready!(Pin::new(accept).poll(cx)) {
                Ok(mut io) => {
                    io.get_mut().1.set_buffer_limit(Some(UNSENT_MAX));
                    let certificate = io.get_ref().1.peer_certificates().and_then(<[_]>::first);
                    if let Some(role) = certificate.and_then(role_of) {
                        let _ = self.handshake.role.set(role);
                    }
                    if io.get_ref().1.alpn_protocol().is_some() {
                        let _ = self.handshake.newcomer.set(certificate.map(|own| own.clone().into_owned()));
                    }
                    State::Open(io)
                }
                Err(why) => return Poll::Ready(Err(self.failed(why))),
            };
        }
        if self.judged != self.current.revision.load(Relaxed) {
            self.judge_anew()?;
        }
        Poll::Ready(match &mut self.state {
            State::Open(io) => Ok(io),
            State::Greeting(..) | State::Opening(_) | State::Failed => Err(io::ErrorKind::NotConnected.into()),
        })
    }

    /// Ends the connection if the caller's certificate was revoked since it was shown. That it has expired, or that its CA is gone, is judged
    /// when the caller connects again.
    fn judge_anew(&mut self) -> io::Result<()> {
        self.judged = self.current.revision.load(Relaxed);
        let State::Open(io) = &self.state else { return Ok(()) };
        let Some([own, others @ ..]) = io.get_ref().1.peer_certificates() else { return Ok(()) };
        match self.current.judge((own, others), KeyUsage::client_auth(), self.opened) {
            Err(why @ rustls::Error::InvalidCertificate(CertificateError::Revoked)) => {
                tracing::warn!(from = %self.from, "a connection is ended: its certificate was revoked");
                self.state = State::Failed;
                Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
            }
            _ => Ok(()),
        }
    }

    fn failed(&mut self, why: io::Error) -> io::Error {
        // Who looks whether the port is open says nothing and goes.
        if why.kind() != io::ErrorKind::UnexpectedEof {
            HANDSHAKES_FAILED.fetch_add(1, Relaxed);
            tracing::warn!(from = %self.from, %why, "a TLS handshake failed");
        }
        self.state = State::Failed;
        why
    }

    fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(io) => Pin::new(io).poll_read(cx, buf),
            Self::Unix(io, _) => Pin::new(io).poll_read(cx, buf),
            Self::Tls(secured) => match ready!(secured.poll_open(cx)) {
                Ok(io) => Pin::new(io).poll_read(cx, buf),
                Err(why) => Poll::Ready(Err(why)),
            },
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(io) => Pin::new(io).poll_write(cx, buf),
            Self::Unix(io, _) => Pin::new(io).poll_write(cx, buf),
            Self::Tls(secured) => match ready!(secured.poll_open(cx)) {
                Ok(io) => Pin::new(io).poll_write(cx, buf),
                Err(why) => Poll::Ready(Err(why)),
            },
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(io) => Pin::new(io).poll_write_vectored(cx, bufs),
            Self::Unix(io, _) => Pin::new(io).poll_write_vectored(cx, bufs),
            Self::Tls(secured) => match ready!(secured.poll_open(cx)) {
                Ok(io) => Pin::new(io).poll_write_vectored(cx, bufs),
                Err(why) => Poll::Ready(Err(why)),
            },
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(io) => Pin::new(io).poll_flush(cx),
            Self::Unix(io, _) => Pin::new(io).poll_flush(cx),
            Self::Tls(secured) if secured.is_open() => match ready!(secured.poll_open(cx)) {
                Ok(io) => Pin::new(io).poll_flush(cx),
                Err(why) => Poll::Ready(Err(why)),
            },
            // Nothing was written.
            Self::Tls(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(io) => Pin::new(io).poll_shutdown(cx),
            Self::Unix(io, _) => Pin::new(io).poll_shutdown(cx),
            Self::Tls(secured) if secured.is_open() => match ready!(secured.poll_open(cx)) {
                Ok(io) => Pin::new(io).poll_shutdown(cx),
                Err(why) => Poll::Ready(Err(why)),
            },
            Self::Tls(_) => Poll::Ready(Ok(())),
        }
    }
}
