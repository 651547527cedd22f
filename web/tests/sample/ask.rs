//! Asks the console as a script with a key would.
#![allow(clippy::expect_used, reason = "tests")]

use super::{KEY, Sample, SampleAccounts, lease};
use axum::Router;
use axum::body::{Body, BodyDataStream, to_bytes};
use axum::http::{Method, Request, Response, StatusCode};
use common::token::TokenType;
use futures::StreamExt as _;
use serde_json::Value;
use std::sync::Arc;
use tower::ServiceExt as _;
use web::LeaseStage;

pub(crate) const BODY_MAX: usize = 64 << 20;

pub(crate) fn console(sample: Sample) -> (Arc<Sample>, Router) {
    let sample = Arc::new(sample);
    (Arc::clone(&sample), web::router(sample, Arc::new(SampleAccounts::with_key()).auth()))
}

pub(crate) fn few() -> Sample {
    Sample::new(vec![
        lease(TokenType::String2IncludeLetter, 46, LeaseStage::Held, "edge-01"),
        lease(TokenType::Uint2, 5, LeaseStage::Granting, "edge-02"),
        lease(TokenType::Uint2, 6, LeaseStage::Held, "orders-01"),
        lease(TokenType::Uint2, 7, LeaseStage::Ending, "edge-01"),
        lease(TokenType::Uint2, 4095, LeaseStage::Resting, "edge-010"),
    ])
}

pub(crate) async fn ask(router: &Router, method: Method, address: &str) -> Response<Body> {
    let request = Request::builder().method(method).uri(address).header("host", "localhost:7301");
    let request = request.header("authorization", format!("Bearer {KEY}"));
    let request = request.body(Body::empty()).unwrap();
    router.clone().oneshot(request).await.unwrap()
}

pub(crate) async fn get(router: &Router, address: &str) -> (StatusCode, String, String) {
    let response = ask(router, Method::GET, address).await;
    let kind = response.headers().get("content-type").map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default();
    let status = response.status();
    let body = to_bytes(response.into_body(), BODY_MAX).await.unwrap();
    (status, kind, String::from_utf8(body.into()).unwrap())
}

pub(crate) async fn json_of(router: &Router, address: &str) -> Value {
    let (status, kind, body) = get(router, address).await;
    assert_eq!((status, kind.as_str()), (StatusCode::OK, "application/json"), "{address}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// The next `parts` event of a stream.
pub(crate) async fn next_parts(events: &mut BodyDataStream) -> Option<Value> {
    loop {
        let text = String::from_utf8(events.next().await?.unwrap().into()).unwrap();
        if text.starts_with(':') {
            continue; // keep-alive
        }
        let data = text.strip_prefix("event: parts\ndata: ").and_then(|rest| rest.strip_suffix("\n\n"));
        return Some(serde_json::from_str(data.expect(&text)).unwrap());
    }
}

pub(crate) async fn watch(router: &Router, address: &str) -> BodyDataStream {
    let response = ask(router, Method::GET, address).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    response.into_body().into_data_stream()
}
