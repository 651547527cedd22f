//! One agent by HTTP.

use crate::agents::{Answer, Question, Timeouts};
use crate::error::{Cause, Failure, refused};
use common::kind::Kind;
use common::lease::Generation;
use common::namespace::GeneratorName;
use common::parameters::ClusterIdError;
use common::rpc::mint::{KeyAsked, KeyOutcome, MintCode, MintedNumbers, SequenceRoutes};
use common::sequence::{Route, Section, ServedAt};
use reqwest::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Response};
use serde::Deserialize;
use std::time::Duration;

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

pub(crate) struct Http {
    client: reqwest::Client,
    base: String,
}

impl Http {
    /// The client that all agents' connections come from. No proxy: it could answer a question twice with the same IDs.
    pub(crate) fn shared(timeouts: Timeouts) -> Result<reqwest::Client, String> {
        let builder = reqwest::Client::builder().no_proxy().tcp_nodelay(true).connect_timeout(timeouts.connect());
        builder.redirect(reqwest::redirect::Policy::none()).build().map_err(|e| e.to_string())
    }

    pub(crate) fn new(client: &reqwest::Client, at: &str) -> Self {
        Self { client: client.clone(), base: format!("http://{at}") }
    }

    pub(crate) async fn ask(&self, question: &Question) -> Result<Answer, Failure> {
        match question {
            Question::Numbers { kind, name, n } => {
                let path = match kind {
                    Some(kind @ Kind::Uniq96) => format!("{kind}?n={n}"),
                    kind => format!("{}/{name}?n={n}", path_of(*kind)),
                };
                let body = self.mint(&path, PACKED).await?;
                // How wide they are only the definition says; all are as wide as each other.
                let len = body.len() / (*n as usize).max(1);
                if body.len() != len * *n as usize {
                    return Err(nonsense(format!("{} bytes are not {n} numbers", body.len())));
                }
                Ok(Answer::Numbers(match len {
                    8 => MintedNumbers::Narrow(body.as_chunks().0.iter().copied().map(u64::from_be_bytes).collect()),
                    12 | 16 => MintedNumbers::Wide(body.chunks_exact(len).map(wide).collect()),
                    _ => return Err(nonsense(format!("numbers of {len} bytes"))),
                }))
            }
            Question::Texts { kind, name, n, biz, custom } => {
                self.texts(format!("{}/{name}?n={n}", path_of(*kind)), biz, custom).await
            }
            Question::Keys { name, keys, g, cluster } => {
                let cluster = cluster.map(|cluster| format!("&cluster={cluster}")).unwrap_or_default();
                self.keys(name, keys, &format!("format=decimal&g={}{cluster}", g.0)).await
            }
            Question::Routes { name, from } => {
                let request = self.client.get(format!("{}/sequences/{name}/routes?from={}", self.base, from.0));
                let bytes = body(self.send(request).await?, ANSWER_LEN_MAX).await?;
                let said: Routes = serde_json::from_slice(&bytes).map_err(|e| nonsense(e.to_string()))?;
                let cluster = said.cluster.map(|cluster| cluster.parse()).transpose();
                Ok(Answer::Routes(SequenceRoutes {
                    cluster: cluster.map_err(|e: ClusterIdError| nonsense(e.to_string()))?,
                    keys_per_section: said.keys_per_section,
                    routes: said.routes.into_iter().map(Route::from).collect(),
                    next: said.next.map(Section),
                }))
            }
            Question::Define { namespace, dry_run } => {
                let name: &GeneratorName = namespace.name();
                let definition = serde_json::to_vec(&namespace.definition()).map_err(|e| nonsense(e.to_string()))?;
                let request = self.client.put(format!("{}/generators/{name}?dry-run={dry_run}", self.base));
                let response = self.send(request.header(CONTENT_TYPE, JSON).body(definition)).await?;
                let bytes = body(response, ANSWER_LEN_MAX).await?;
                serde_json::from_slice(&bytes).map(Answer::Defined).map_err(|e| nonsense(e.to_string()))
            }
        }
    }

    async fn texts(&self, mut path: String, biz: &str, custom: &str) -> Result<Answer, Failure> {
        for (key, part) in [("biz", biz), ("custom", custom)] {
            if !part.is_empty() {
                path.push_str(&format!("&{key}={part}"));
            }
        }
        let ids: Ids = serde_json::from_slice(&self.mint(&path, JSON).await?).map_err(|e| nonsense(e.to_string()))?;
        Ok(Answer::Texts(ids.ids))
    }

    /// Numbers of keys, with what the query says of the routes by which the agent was chosen. The number of a slot is a key of that slot, so
    /// keys need not be sent as they were written.
    async fn keys(&self, name: &GeneratorName, keys: &[KeyAsked], by: &str) -> Result<Answer, Failure> {
        let base = format!("{}/sequence/{name}", self.base);
        let request = match keys {
            [KeyAsked { slot, n: 0 }] => self.client.get(format!("{base}/{}/current?{by}", slot.0)),
            [KeyAsked { slot, n }] => self.client.post(format!("{base}/{}?n={n}&{by}", slot.0)),
            keys => {
                let lines: String =
                    keys.iter().map(|key| format!("{{\"key\":{},\"n\":{}}}\n", key.slot.0, key.n)).collect();
                self.client.post(format!("{base}?{by}")).header(CONTENT_TYPE, "text/plain").body(lines)
            }
        };
        let said = match self.send(request.header(ACCEPT, JSON)).await {
            Ok(response) => body(response, ANSWER_LEN_MAX).await?,
            // No other agent has more of them.
            Err(Failure::Here(Cause::Cannot { code: code @ MintCode::SerialExhausted, .. })) => {
                return Ok(Answer::Keys(vec![KeyOutcome::Refused(code); keys.len()], Vec::new()));
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
        Ok(Answer::Keys(outcomes, said.routes.into_iter().map(Route::from).collect()))
    }

    /// Sends a POST: nothing on the way may answer it from a cache, or ask again on its own.
    async fn mint(&self, path: &str, accept: &str) -> Result<Vec<u8>, Failure> {
        let request = self.client.request(Method::POST, format!("{}/{path}", self.base)).header(ACCEPT, accept);
        let response = self.send(request).await?;
        body(response, ANSWER_LEN_MAX).await
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let response = request.send().await.map_err(|e| failed(&e))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let retry_after = seconds.map(Duration::from_secs);
        let bytes = body(response, PROBLEM_LEN_MAX).await?;
        let problem: Problem = serde_json::from_slice(&bytes)
            .map_err(|_| nonsense(format!("status {status} without a problem document")))?;
        let code = MintCode::ALL.iter().copied().find(|code| code.as_str() == problem.code);
        let code = code.ok_or_else(|| nonsense(format!("status {status}, {}: {}", problem.code, problem.detail)))?;
        Err(refused(code, problem.detail, retry_after))
    }
}

async fn body(mut response: Response, len_max: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|e| failed(&e))? {
        if bytes.len() + chunk.len() > len_max {
            return Err(nonsense(format!("more than {len_max} bytes")));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// The first part of the path to a name's IDs.
fn path_of(kind: Option<Kind>) -> String {
    kind.map_or_else(|| "id".to_owned(), |kind| kind.to_string())
}

fn wide(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |id, byte| id << 8 | u128::from(*byte))
}

fn nonsense(what: String) -> Failure {
    Failure::Here(Cause::Answer(what))
}

fn failed(error: &reqwest::Error) -> Failure {
    if error.is_timeout() {
        return Failure::Here(Cause::Timeout);
    }
    // The reason stands in the innermost one.
    let mut reason: &dyn std::error::Error = error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    Failure::Here(Cause::Connection(reason.to_string()))
}
