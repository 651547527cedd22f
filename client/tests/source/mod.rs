//! A source of numbers that counts, slow or broken where a test wants it: what the client makes of answers is tried here; with
//! real agents it is tried in `tests/tests/applications/clients.rs`.
#![allow(dead_code, reason = "each test file uses some of it")]
#![allow(clippy::unwrap_used)]

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The kind of answer that it gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// The numbers that were asked for.
    Well,
    /// As many at once, and the others refused.
    AtMost(u64),
    /// One less.
    Short,
    /// Half a number at the end.
    Half,
    /// A page of a proxy.
    Html,
    /// A problem document with such a code and `Retry-After: 7`.
    Problem(&'static str, u16),
    /// More than anybody asked for.
    Endless,
    /// Nothing, for as long as anyone waits.
    Silent,
}

/// The source.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    mood: Mood,
    next: Arc<AtomicU64>,
    /// Requests so far.
    pub(crate) requests: Arc<AtomicU64>,
}

impl Source {
    /// Its address, and itself.
    pub(crate) async fn start(mood: Mood) -> (String, Self) {
        let source = Self { mood, next: Arc::default(), requests: Arc::default() };
        let routes = Router::new()
            .route("/uniq64/{name}", post(numbers))
            .route("/id/{name}", post(of_any_kind))
            .with_state(source.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        (address, source)
    }
}

async fn of_any_kind(
    source: State<Source>,
    name: Path<String>,
    query: Query<BTreeMap<String, u64>>,
    headers: HeaderMap,
) -> Response {
    match headers.get(ACCEPT) {
        Some(accept) if accept == "application/octet-stream" => numbers(source, name, query).await,
        _ => texts(source, query).await,
    }
}

async fn texts(State(source): State<Source>, Query(query): Query<BTreeMap<String, u64>>) -> Response {
    let n = query.get("n").copied().unwrap_or(1);
    let first = source.next.fetch_add(n, Ordering::SeqCst);
    let ids: Vec<String> = (first..first + n).map(|id| format!("\"{id}\"")).collect();
    format!(r#"{{"ids":[{}]}}"#, ids.join(",")).into_response()
}

async fn numbers(
    State(source): State<Source>,
    Path(_): Path<String>,
    Query(query): Query<BTreeMap<String, u64>>,
) -> Response {
    source.requests.fetch_add(1, Ordering::SeqCst);
    let n = query.get("n").copied().unwrap_or(1);
    if matches!(source.mood, Mood::AtMost(max) if n > max) {
        let body = r#"{"code":"bad_parameter","detail":"too many at once"}"#;
        return (StatusCode::BAD_REQUEST, body).into_response();
    }
    let first = source.next.fetch_add(n, Ordering::SeqCst);
    let packed = |n: u64| (first..first + n).flat_map(u64::to_be_bytes).collect::<Vec<u8>>();
    match source.mood {
        Mood::Well | Mood::AtMost(_) => packed(n).into_response(),
        Mood::Short => packed(n - 1).into_response(),
        Mood::Half => packed(n).into_iter().take(4).collect::<Vec<u8>>().into_response(),
        Mood::Html => (StatusCode::BAD_GATEWAY, "<html>Bad Gateway</html>").into_response(),
        Mood::Problem(code, status) => {
            let body = format!(r#"{{"code":"{code}","detail":"for a test"}}"#);
            (StatusCode::from_u16(status).unwrap(), [("retry-after", "7")], body).into_response()
        }
        Mood::Endless => vec![0; 40 << 20].into_response(),
        Mood::Silent => {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            StatusCode::OK.into_response()
        }
    }
}
