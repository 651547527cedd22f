//! HTTP/1.1 on a connection that has a place.

use super::io::ByteStream;
use super::pipeline::work_of;
use super::places::{Place, RequestGuard};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::error::Error;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The work that a request is beside its answer's bytes, in the small ones that [`super::pipeline`] answers.
const REQUEST_WORK: u32 = 8;

/// The body of a request: while more of it is waited for, the connection is not at work.
#[derive(Debug)]
pub struct Heard {
    body: Incoming,
    place: Place,
    waits: bool,
}

/// The body of an answer: as long as it is not at its end, the connection is at work.
#[derive(Debug)]
pub struct BudgetedBody<B> {
    body: B,
    _asked: RequestGuard,
}

/// HTTP/1.1 for connections on which a request's head may have so many bytes and take so long, idle time before it included.
pub fn bounded(head_timeout: Duration, head_len_max: usize) -> http1::Builder {
    let mut http = http1::Builder::new();
    // Not `pipeline_flush`: it copies the answers to all requests that came together into one buffer without a bound,
    // and sends none while part of another request is there, not even the one that says what is wrong with it.
    http.timer(TokioTimer::new()).header_read_timeout(head_timeout).max_buf_size(head_len_max);
    http
}

/// Serves a connection until it ends or has to make room for another one. After `stop` the request under way is answered,
/// and no further one. `caller`, who it is, and the place are among the extensions of each request.
///
/// # Errors
/// A fault of the other end, or of the network.
pub async fn serve<IO, C, S, B>(
    http: &http1::Builder,
    io: IO,
    caller: C,
    service: S,
    place: &Place,
    stop: &CancellationToken,
) -> hyper::Result<()>
where
    IO: ByteStream,
    C: Clone + Send + Sync + 'static,
    S: Service<Request<Heard>, Response = Response<B>>,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let service = service_fn(|mut request: Request<Incoming>| {
        let sent = request.body().size_hint().lower();
        request.extensions_mut().insert(caller.clone());
        request.extensions_mut().insert(place.clone());
        let answering = service.call(request.map(|body| Heard { body, place: place.clone(), waits: false }));
        async move {
            // Whoever has to make room is dropped as a whole.
            place.turn(REQUEST_WORK.saturating_add(work_of(sent))).await;
            let asked = place.begin();
            let response = answering.await?;
            place.owes(work_of(response.body().size_hint().lower()));
            Ok::<_, S::Error>(response.map(|body| BudgetedBody { body, _asked: asked }))
        }
    });
    let mut connection = pin!(http.serve_connection(TokioIo::new(io), service));
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = place.has_to_go() => return Ok(()),
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        ended = connection => ended,
        () = place.has_to_go() => Ok(()),
    }
}

impl Body for Heard {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if polled.is_pending() != self.waits {
            self.waits = polled.is_pending();
            if self.waits { self.place.stalls() } else { self.place.goes_on() }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B: Body + Unpin> Body for BudgetedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
