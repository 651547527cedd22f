//! The one loop that accepts connections: what a port speaks is its own affair, but all of them take in newcomers, bear an
//! `accept` that fails, and end in the same way.
//!
//! Each connection is a task of its own. What a newcomer gets, the port says: it takes one of its [`Places`] and is served, or
//! hears that there is none, or is disconnected without a word. A connection is any [`ByteStream`]: whatever comes before it can
//! be served, such as a handshake, is part of its own task, where nobody else waits for it.

use super::io::ByteStream;
use super::places::Places;
use rustix::net::sockopt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The pause after an `accept` that failed: it fails when descriptors run out, and they come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Silence after which a connection is asked whether its other end still exists.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(15);
/// Interval at which it is asked again.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Questions without an answer after which a connection is given up.
const KEEP_ALIVE_COUNT: u32 = 3;

static ACCEPTS_FAILED: AtomicU64 = AtomicU64::new(0);

/// A source of connections.
pub trait Incoming {
    /// The type of the connections.
    type Io: ByteStream;

    /// Waits for the next one, and says from where it is. Dropped while it waits, it has taken none.
    ///
    /// # Errors
    /// An error of the operating system; the next call may do better.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Io, SocketAddr)>> + Send;
}

/// Lets the kernel notice an other end that vanished without a word: its machine died, or the network between was cut until it
/// gave up. Otherwise a connection that may be silent for as long as it likes would keep its place for ever, and the port
/// between the masters has few.
///
/// # Errors
/// An error of the operating system.
pub fn keep_alive(io: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(io, true)?;
    sockopt::set_tcp_keepidle(io, KEEP_ALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(io, KEEP_ALIVE_INTERVAL)?;
    Ok(sockopt::set_tcp_keepcnt(io, KEEP_ALIVE_COUNT)?)
}

/// Accepts connections until `stop`, and carries out for each what `welcome` says; `None`: it is disconnected at once. Those that
/// have to make room for a newcomer in `places` are gone before the next one is accepted. A failure to accept is counted, told to
/// `failed`, and tried again.
///
/// Returns the connections that are still open, to be [ended](end) or, dropped, cut. Nobody can connect any more.
pub async fn accept<L: Incoming, F: Future<Output = ()> + Send + 'static>(
    listener: L,
    places: &Places,
    stop: &CancellationToken,
    welcome: impl Fn(L::Io, SocketAddr) -> Option<F>,
    failed: impl Fn(io::Error),
) -> JoinSet<()> {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return connections,
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((io, from)) => {
                if let Some(work) = welcome(io, from) {
                    connections.spawn(work);
                }
                places.settle().await;
            }
            Err(error) => {
                ACCEPTS_FAILED.fetch_add(1, Relaxed);
                failed(error);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Lets connections end by themselves `within` this. Says how many did not, and were cut.
pub async fn end(mut connections: JoinSet<()>, within: Duration) -> usize {
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(within, ended).await.is_ok() {
        return 0;
    }
    let cut = connections.len();
    connections.shutdown().await;
    cut
}

/// Connections that no listener of this program could accept, since the start.
pub fn accepts_failed() -> u64 {
    ACCEPTS_FAILED.load(Relaxed)
}

#[cfg(test)]
mod tests {
    use super::super::tls::{Listener, Stream};
    use super::super::turns::CallerId;
    use super::*;
    use std::cell::RefCell;
    use std::net::{IpAddr, Ipv4Addr};
    use std::rc::Rc;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
    use tokio::net::TcpListener;
    use tokio::sync::{Mutex, mpsc};

    const FROM: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

    /// Pipes, and errors, in the order in which they are sent.
    struct Pipes(Mutex<mpsc::UnboundedReceiver<io::Result<DuplexStream>>>);

    impl Incoming for Pipes {
        type Io = DuplexStream;

        async fn accept(&self) -> io::Result<(DuplexStream, SocketAddr)> {
            match self.0.lock().await.recv().await {
                Some(accepted) => accepted.map(|io| (io, FROM)),
                None => std::future::pending().await,
            }
        }
    }

    type Callers = mpsc::UnboundedSender<io::Result<DuplexStream>>;

    fn pipes() -> (Callers, Pipes) {
        let (callers, accepted) = mpsc::unbounded_channel();
        (callers, Pipes(Mutex::new(accepted)))
    }

    fn call(callers: &Callers) -> DuplexStream {
        let (near, far) = tokio::io::duplex(64);
        callers.send(Ok(near)).unwrap();
        far
    }

    /// Gives back each byte, and breaks at a zero.
    async fn echo(mut io: DuplexStream) {
        while let Ok(byte) = io.read_u8().await {
            assert_ne!(byte, 0, "a zero came");
            io.write_u8(byte).await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_accept_that_fails_is_counted_and_told_and_a_connection_that_breaks_ends_alone() {
        let (callers, pipes) = pipes();
        let (places, stop, told) = (Places::new(2), CancellationToken::new(), Rc::new(RefCell::new(Vec::new())));
        let before = accepts_failed();
        let mut first = call(&callers);
        for _ in 0..3 {
            callers.send(Err(io::ErrorKind::ConnectionAborted.into())).unwrap();
        }
        let mut second = call(&callers);
        let says = async {
            for (far, byte) in [(&mut first, 0), (&mut second, 7)] {
                far.write_u8(byte).await.unwrap();
            }
            assert!(first.read_u8().await.is_err(), "broken");
            assert_eq!(second.read_u8().await.unwrap(), 7);
            stop.cancel();
        };
        let failed = |error: io::Error| told.borrow_mut().push(error.kind());
        let (open, ()) = tokio::join!(accept(pipes, &places, &stop, |io, _| Some(echo(io)), failed), says);
        assert_eq!(*told.borrow(), [io::ErrorKind::ConnectionAborted; 3]);
        assert_eq!(accepts_failed() - before, 3);
        drop(open);
        assert!(second.read_u8().await.is_err(), "dropped, they are cut");
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_stop_nobody_comes_in_and_what_does_not_end_in_time_is_cut() {
        let (callers, pipes) = pipes();
        let (places, stop) = (Places::new(2), CancellationToken::new());
        let welcome = |mut io: DuplexStream, from| {
            assert_eq!(from, FROM);
            let (place, stop) = (places.take(CallerId::of(()))?, stop.clone());
            Some(async move {
                let _asked = place.begin();
                if io.read_u8().await.unwrap() == 1 {
                    stop.cancelled().await;
                    io.write_u8(2).await.unwrap();
                } else {
                    std::future::pending().await
                }
            })
        };
        let (mut ends, mut hangs) = (call(&callers), call(&callers));
        let mut crowded = call(&callers);
        let says = async {
            ends.write_u8(1).await.unwrap();
            hangs.write_u8(3).await.unwrap();
            assert!(crowded.read_u8().await.is_err(), "all places are at work");
            stop.cancel();
        };
        let (open, ()) = tokio::join!(accept(pipes, &places, &stop, welcome, |_| ()), says);
        assert!(callers.is_closed());
        assert_eq!(end(open, Duration::from_secs(3)).await, 1);
        assert_eq!(ends.read_u8().await.unwrap(), 2, "it ended by itself");
        assert!(hangs.read_u8().await.is_err());
        assert_eq!(end(JoinSet::new(), Duration::ZERO).await, 0);
    }

    #[tokio::test]
    async fn sockets_send_at_once_and_are_kept_alive_where_they_may_be_silent() {
        for kept in [false, true] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let at = listener.local_addr().unwrap();
            let port = if kept { Listener::from(listener).kept_alive() } else { Listener::from(listener) };
            let (accepted, _caller) = tokio::join!(port.accept(), TcpStream::connect(at));
            let (Stream::Plain(io), _) = accepted.unwrap() else { panic!("nothing was said of TLS") };
            assert!(io.nodelay().unwrap());
            assert_eq!(sockopt::socket_keepalive(&io).unwrap(), kept);
            assert!(!kept || sockopt::tcp_keepidle(&io).unwrap() == KEEP_ALIVE_IDLE);
        }
    }
}
