//! One agent by HTTP.

use crate::agents::{AgentReply, Question, Timeouts};
use crate::error::{Cause, Failure, refused};
use crate::settings::{Address, ApiKey};
use common::kind::Kind;
use common::lease::Generation;
use common::namespace::GeneratorName;
use common::parameters::ClusterIdError;
use common::sequence::{Route, Section, ServedAt};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, Uri};
use hyper_rustls::{HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use net::rpc::mint::{KeyAsked, KeyOutcome, MintCode, MintedNumbers, SequenceRoutes};
use net::tls::{Admits, Tls};
use serde::Deserialize;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tower::BoxError;
use tower::timeout::{Timeout, error::Elapsed};
use tower::util::BoxCloneSyncService;

const PACKED: &str = "application/octet-stream";
const JSON: &str = "application/json";
/// Bytes of the longest answer: [`BATCH_MAX`](crate::BATCH_MAX) strings of the longest template in JSON.
const ANSWER_LEN_MAX: usize = 32 << 20;
/// Bytes of an error that are read.
const PROBLEM_LEN_MAX: usize = 16 << 10;

#[derive(Deserialize)]
struct Ids {
    ids: Vec<String>,
}

/// Numbers of keys.
#[derive(Deserialize)]
struct Keys {
    ids: Vec<Option<String>>,
    #[serde(default)]
    errors: Vec<KeyError>,
    #[serde(default)]
    routes: Vec<Routed>,
}

#[derive(Deserialize)]
struct KeyError {
    at: usize,
    code: String,
}

#[derive(Deserialize)]
struct Routed {
    from: u32,
    to: u32,
    g: u64,
    http: String,
    rpc: String,
}

impl From<Routed> for Route {
    fn from(Routed { from, to, g, http, rpc }: Routed) -> Self {
        Self { from: Section(from), to: Section(to), address: ServedAt { http, rpc }, g: Generation(g) }
    }
}

#[derive(Deserialize)]
struct Routes {
    #[serde(default)]
    cluster: Option<String>,
    keys_per_section: u32,
    routes: Vec<Routed>,
    next: Option<u32>,
}

#[derive(Deserialize)]
struct Problem {
    code: String,
    #[serde(default)]
    detail: String,
}

/// Silence after which a connection is asked whether its other end still exists.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The longest time that a connection is kept for the next request: an agent ends it after a minute.
const IDLE_MAX: Duration = Duration::from_secs(45);

/// Connections to agents, which are kept open until what certificates it believes changes: an agent's may have been revoked.
pub(crate) struct HttpClient {
    timeouts: Timeouts,
    tls: Tls,
    /// The open ones, with the [`Tls::revision`] before the first of them was made.
    pool: Mutex<(Pool, u64)>,
}

type Pool = legacy::Client<Connector, Full<Bytes>>;

type Connector = BoxCloneSyncService<Uri, MaybeHttpsStream<TokioIo<TcpStream>>, BoxError>;

pub(crate) struct Http {
    client: Arc<HttpClient>,
    base: String,
    /// The header that shows the API key.
    shown: Option<HeaderValue>,
}

impl HttpClient {
    /// The client that all agents' connections come from, and that knows them by these certificates.
    pub(crate) fn new(timeouts: Timeouts, tls: &Tls) -> io::Result<Arc<Self>> {
        let pool = Mutex::new((Self::connected_by(timeouts, tls)?, tls.revision()));
        Ok(Arc::new(Self { timeouts, tls: tls.clone(), pool }))
    }

    fn pool(&self) -> io::Result<Pool> {
        let (mut kept, revision) = (self.pool.lock().unwrap_or_else(PoisonError::into_inner), self.tls.revision());
        if kept.1 != revision {
            *kept = (Self::connected_by(self.timeouts, &self.tls)?, revision);
        }
        Ok(kept.0.clone())
    }

    fn connected_by(timeouts: Timeouts, tls: &Tls) -> io::Result<Pool> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEP_ALIVE));
        let secured = HttpsConnectorBuilder::new().with_tls_config(tls.client_config(Admits::Agents)?);
        // The handshake's time is a part of it.
        let connector = Timeout::new(secured.https_or_http().enable_http1().wrap_connector(tcp), timeouts.connect());
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE_MAX);
        Ok(builder.build(BoxCloneSyncService::new(connector)))
    }
}

impl Http {
    pub(crate) fn new(client: &Arc<HttpClient>, address: &Address, key: Option<&ApiKey>) -> Self {
        let shown = key.and_then(|key| HeaderValue::try_from(format!("Bearer {}", key.as_str())).ok());
        Self { client: Arc::clone(client), base: address.to_string(), shown }
    }

    pub(crate) async fn ask(&self, question: &Question) -> Result<AgentReply, Failure> {
        match question {
            Question::Numbers { kind, name, n } => {
                let body = self.mint(&format!("{}?n={n}", path_of(*kind, name)), PACKED).await?;
                // How wide they are only the definition says; all are as wide as each other.
                let len = body.len() / (*n as usize).max(1);
                if body.len() != len * *n as usize {
                    return Err(nonsense(format!("{} bytes are not {n} numbers", body.len())));
                }
                Ok(AgentReply::Numbers(match len {
                    8 => MintedNumbers::Narrow(body.as_chunks().0.iter().copied().map(u64::from_be_bytes).collect()),
                    12 | 16 => MintedNumbers::Wide(body.chunks_exact(len).map(wide).collect()),
                    _ => return Err(nonsense(format!("numbers of {len} bytes"))),
                }))
            }
            Question::Texts { kind, name, n, biz, custom } => {
                self.texts(format!("{}?n={n}", path_of(*kind, name)), biz, custom).await
            }
            Question::Keys { name, keys, g, cluster } => {
                let cluster = cluster.map(|cluster| format!("&cluster={cluster}")).unwrap_or_default();
                self.keys(name, keys, &format!("format=decimal&g={}{cluster}", g.0)).await
            }
            Question::Routes { name, from } => {
                let path = format!("/sequences/{name}/routes?from={}", from.0);
                let bytes = self.send(Method::GET, &path, &[], String::new()).await?;
                let said: Routes = serde_json::from_slice(&bytes).map_err(|e| nonsense(e.to_string()))?;
                let cluster = said.cluster.map(|cluster| cluster.parse()).transpose();
                Ok(AgentReply::Routes(SequenceRoutes {
                    cluster: cluster.map_err(|e: ClusterIdError| nonsense(e.to_string()))?,
                    keys_per_section: said.keys_per_section,
                    routes: said.routes.into_iter().map(Route::from).collect(),
                    next: said.next.map(Section),
                }))
            }
            Question::Define { namespace, dry_run } => {
                let name: &GeneratorName = namespace.name();
                let definition = serde_json::to_string(&namespace.definition()).map_err(|e| nonsense(e.to_string()))?;
                let path = format!("/generators/{name}?dry-run={dry_run}");
                let bytes = self.send(Method::PUT, &path, &[(CONTENT_TYPE, JSON)], definition).await?;
                serde_json::from_slice(&bytes).map(AgentReply::Defined).map_err(|e| nonsense(e.to_string()))
            }
        }
    }

    async fn texts(&self, mut path: String, biz: &str, custom: &str) -> Result<AgentReply, Failure> {
        for (key, part) in [("biz", biz), ("custom", custom)] {
            if !part.is_empty() {
                path.push_str(&format!("&{key}={part}"));
            }
        }
        let ids: Ids = serde_json::from_slice(&self.mint(&path, JSON).await?).map_err(|e| nonsense(e.to_string()))?;
        Ok(AgentReply::Texts(ids.ids))
    }

    /// Numbers of keys, with what the query says of the routes by which the agent was chosen. The number of a slot is a key of that slot, so
    /// keys need not be sent as they were written.
    async fn keys(&self, name: &GeneratorName, keys: &[KeyAsked], by: &str) -> Result<AgentReply, Failure> {
        let base = format!("/sequence/{name}");
        let (method, path, lines) = match keys {
            [KeyAsked { slot, n: 0 }] => (Method::GET, format!("{base}/{}/current?{by}", slot.0), String::new()),
            [KeyAsked { slot, n }] => (Method::POST, format!("{base}/{}?n={n}&{by}", slot.0), String::new()),
            keys => {
                let line = |key: &KeyAsked| format!("{{\"key\":{},\"n\":{}}}\n", key.slot.0, key.n);
                (Method::POST, format!("{base}?{by}"), keys.iter().map(line).collect())
            }
        };
        let said = match self.send(method, &path, &[(ACCEPT, JSON), (CONTENT_TYPE, "text/plain")], lines).await {
            Ok(bytes) => bytes,
            // No other agent has more of them.
            Err(Failure::Here(Cause::Cannot { code: code @ MintCode::SerialExhausted, .. })) => {
                return Ok(AgentReply::Keys(vec![KeyOutcome::Refused(code); keys.len()], Vec::new()));
            }
            Err(failure) => return Err(failure),
        };
        let said: Keys = serde_json::from_slice(&said).map_err(|e| nonsense(e.to_string()))?;
        let code = |at: usize| {
            let error = said.errors.iter().find(|error| error.at == at)?;
            MintCode::ALL.iter().copied().find(|code| code.as_str() == error.code)
        };
        let outcome = |(at, id): (usize, &Option<String>)| match id {
            Some(id) => id.parse().map(KeyOutcome::Given).map_err(|_| nonsense(format!("'{id:.40}' is no number"))),
            None => Ok(KeyOutcome::Refused(code(at).unwrap_or(MintCode::SegmentPending))),
        };
        let outcomes: Vec<KeyOutcome> = said.ids.iter().enumerate().map(outcome).collect::<Result<_, _>>()?;
        let outcomes = match keys {
            // The others follow on the first.
            [KeyAsked { n, .. }] if outcomes.len() == (*n).max(1) as usize => outcomes.into_iter().take(1).collect(),
            [_] => return Err(nonsense("another number of numbers than was asked for".to_owned())),
            _ => outcomes,
        };
        Ok(AgentReply::Keys(outcomes, said.routes.into_iter().map(Route::from).collect()))
    }

    /// Sends a POST: nothing on the way may answer it from a cache, or ask again on its own.
    async fn mint(&self, path: &str, accept: &'static str) -> Result<Vec<u8>, Failure> {
        self.send(Method::POST, &format!("/{path}"), &[(ACCEPT, accept)], String::new()).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, &'static str)],
        body: String,
    ) -> Result<Vec<u8>, Failure> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        if let Some(shown) = &self.shown {
            request = request.header(AUTHORIZATION, shown);
        }
        let request = request.body(Full::from(body)).map_err(|e| Failure::Here(Cause::Connection(e.to_string())))?;
        let pool = self.client.pool().map_err(|e| Failure::Here(Cause::Connection(e.to_string())))?;
        let response = pool.request(request).await.map_err(|e| failed(&e))?;
        let status = response.status();
        if status.is_success() {
            return read(response, ANSWER_LEN_MAX).await;
        }
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let retry_after = seconds.map(Duration::from_secs);
        let problem: Problem = serde_json::from_slice(&read(response, PROBLEM_LEN_MAX).await?)
            .map_err(|_| nonsense(format!("status {status} without a problem document")))?;
        let code = MintCode::ALL.iter().copied().find(|code| code.as_str() == problem.code);
        let code = code.ok_or_else(|| nonsense(format!("status {status}, {}: {}", problem.code, problem.detail)))?;
        Err(refused(code, problem.detail, retry_after))
    }
}

async fn read(response: Response<Incoming>, len_max: usize) -> Result<Vec<u8>, Failure> {
    match Limited::new(response.into_body(), len_max).collect().await {
        Ok(body) => Ok(body.to_bytes().into()),
        Err(why) if why.is::<LengthLimitError>() => Err(nonsense(format!("more than {len_max} bytes"))),
        Err(why) => Err(failed(why.as_ref())),
    }
}

/// The path to a name's IDs; kinds without names have one of their own.
fn path_of(kind: Option<Kind>, name: &GeneratorName) -> String {
    match kind {
        None => format!("id/{name}"),
        Some(kind) if kind.spec().definition.is_none() => kind.to_string(),
        Some(kind) => format!("{kind}/{name}"),
    }
}

fn wide(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |id, byte| id << 8 | u128::from(*byte))
}

fn nonsense(what: String) -> Failure {
    Failure::Here(Cause::Answer(what))
}

fn failed(error: &(dyn std::error::Error + 'static)) -> Failure {
    // The reason stands in the innermost one.
    let mut reason = error;
    loop {
        if reason.is::<Elapsed>() {
            return Failure::Here(Cause::Timeout);
        }
        match reason.source() {
            Some(source) => reason = source,
            None => return Failure::Here(Cause::Connection(reason.to_string())),
        }
    }
}
