//! Service while all of the console's connections are at work.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

mod sample;

use sample::ask::few;
use sample::{KEY, SampleAccounts};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// The connections of `web::CONNECTIONS_MAX` that are served everything.
const CONNECTIONS_MAX: usize = 256;

async fn ask(address: SocketAddr, path: &str) -> TcpStream {
    let mut caller = TcpStream::connect(address).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n\r\n");
    caller.write_all(head.as_bytes()).await.unwrap();
    caller
}

/// The head of the answer, and whether the connection was closed after it.
async fn head(mut caller: TcpStream) -> (String, bool) {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("\r\n\r\n") {
        assert_ne!(caller.read_buf(&mut seen).await.unwrap(), 0, "{}", String::from_utf8_lossy(&seen));
    }
    let head = String::from_utf8_lossy(&seen).into_owned();
    let closes = head.contains("connection: close");
    if closes {
        caller.read_to_end(&mut seen).await.unwrap();
    }
    (head, closes)
}

#[tokio::test]
async fn a_console_that_is_busy_says_so_at_once_and_how_it_is() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let accounts = Arc::new(SampleAccounts { endless: true, ..SampleAccounts::with_key() });
    let server = tokio::spawn(web::serve(
        listener,
        web::CONNECTIONS_MAX,
        Arc::new(few()),
        Arc::clone(&accounts).auth(),
        CancellationToken::new(),
    ));
    let mut busy = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        busy.push(ask(address, "/api/audit/verify").await);
    }
    while accounts.asked.load(Ordering::SeqCst) < CONNECTIONS_MAX {
        tokio::task::yield_now().await;
    }
    for path in ["/healthz", "/readyz", "/metrics"] {
        let (head, closed) = head(ask(address, path).await).await;
        assert!(head.starts_with("HTTP/1.1 200 OK") && !closed, "{path}: {head}");
    }
    for path in ["/", "/api/leases", "/login", "/assets/console.css"] {
        let (head, closed) = head(ask(address, path).await).await;
        assert!(head.starts_with("HTTP/1.1 503 ") && head.contains("retry-after: ") && closed, "{path}: {head}");
    }
    // Silent ones among those keep out neither.
    let mut silent = Vec::new();
    for _ in 0..500 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    assert!(head(ask(address, "/readyz").await).await.0.starts_with("HTTP/1.1 200 OK"));
    // A place that comes back is given to the next one.
    busy.pop();
    loop {
        let (head, _) = head(ask(address, "/api/leases").await).await;
        if head.starts_with("HTTP/1.1 200 OK") {
            break;
        }
    }
    server.abort();
}
