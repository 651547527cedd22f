//! Numbers of keys over HTTP.

use super::accept::Media;
use super::mint::{answer, media};
use super::openapi::{Numbers, ProblemBody};
use super::problem::Problem;
use super::sequence_body::{self, KEYS_MAX, Shown};
use super::upload::{self, Unread};
use super::{Agent, body, visitor};
use crate::access::Visitor;
use crate::plugin::Caller;
use crate::sequences::{Call, CallOutcome, Name, Outcome, Sequences};
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use common::api_key::KeyAction;
use common::encoding::{DECIMAL64, Encoding};
use common::kind::Kind;
use common::layout::Stretch;
use common::lease::Generation;
use common::parameters::ClusterId;
use common::sequence::{KEY_LEN_MAX, Route, Section, Slot};
use net::budget::{CallerBudget, CallerCharge};
use net::rpc::mint::{KeyAsked, MintCode, Passing};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Routes of an answer that is not JSON.
pub(super) const ROUTE_HEADER: &str = "uniq-route";
/// Bytes that stand around a number in an answer at most.
const AROUND_LEN_MAX: usize = 4;
/// Bytes of an error of one key in an answer.
const ERROR_LEN_MAX: usize = 512;
/// A body, in bytes: as many keys as there may be, as JSON writes them at its longest.
pub(super) const BODY_LEN_MAX: usize = KEYS_MAX * (6 * KEY_LEN_MAX + 40);
/// The bytes that a key that was read takes until it is answered, with what comes of it.
const KEY_WEIGHT: usize = size_of::<KeyAsked>() + size_of::<Outcome>();
/// The time that it may take to come.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The number that stands for a refused one in a packed answer: no key is ever given it.
const NONE: u64 = 0;

type KeyPath = Result<Path<(String, String)>, PathRejection>;

/// The address of numbers of a key, by GET and POST.
pub(super) const OF_A_KEY: &str = "/sequence/{name}/{key}";
/// The parameters that a request for numbers of one key may have.
pub(super) const OF_ONE_KEY: &[&str] = &["n", "g", "cluster", "forward", "format"];
/// The parameters of other requests about keys.
const OF_KEYS: &[&str] = &["g", "cluster", "forward", "format"];

/// The parts that a request may have beside its keys.
#[derive(Debug, Default)]
pub(super) struct KeyQuery {
    pub(super) n: Option<u32>,
    /// The caller's.
    pub(super) cluster: Option<ClusterId>,
    from: Option<u32>,
    /// True if the numbers are wanted as digits, whatever the name writes them by.
    digits: bool,
    pub(super) call: Call,
}

impl KeyQuery {
    /// With that caller.
    fn by(mut self, visitor: &Visitor) -> Self {
        self.call.from = Some(visitor.holder());
        self
    }

    /// The encoding of its answer's texts.
    pub(super) fn encoding<'a>(&self, name: &'a Name) -> &'a Arc<Encoding> {
        if self.digits { &DECIMAL64 } else { name.encoding() }
    }

    /// Of a request in which only `allowed` may stand, each once.
    pub(super) fn of(uri: &Uri, allowed: &[&str], n_max: u32) -> Result<Self, Problem> {
        let mut query = Self::default();
        if uri.query().is_none_or(str::is_empty) {
            return Ok(query);
        }
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|_| Problem::bad_parameter("the query is malformed: write name=value&name=value"))?;
        let mut seen = Vec::new();
        for (name, value) in &pairs {
            if !allowed.contains(&name.as_str()) {
                let name: String = name.chars().take(32).collect();
                let why = format!("there is no parameter '{name}' here; there are {}", allowed.join(", "));
                return Err(Problem::bad_parameter(why));
            }
            if seen.contains(&name) {
                return Err(Problem::bad_parameter(format!("{name} is there twice")));
            }
            seen.push(name);
            query.set(name, value, n_max)?;
        }
        Ok(query)
    }

    fn set(&mut self, name: &str, value: &str, n_max: u32) -> Result<(), Problem> {
        let shown: String = value.chars().take(32).collect();
        let wrong = |there: String| Problem::bad_parameter(format!("{name}: '{shown}' is not {there}"));
        let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
        let number = || value.parse::<u64>().ok().filter(|_| digits);
        let small = || number().and_then(|number| u32::try_from(number).ok());
        match name {
            "n" => {
                let n = small().filter(|n| (1..=n_max).contains(n));
                self.n = Some(n.ok_or_else(|| wrong(format!("a number from 1 to {n_max}")))?);
            }
            "g" => {
                let g = number().ok_or_else(|| wrong("the g of a route: a whole number".to_owned()))?;
                self.call.g = Some(Generation(g));
            }
            "cluster" => {
                let cluster = value
                    .parse()
                    .map_err(|_| wrong("the cluster of an answer with routes: 32 hexadecimal digits".to_owned()))?;
                self.cluster = Some(cluster);
            }
            "format" if value == "decimal" => self.digits = true,
            "format" => {
                return Err(wrong("decimal: there are that, and what the name writes its numbers by".to_owned()));
            }
            "from" => self.from = Some(small().ok_or_else(|| wrong("the number of a section".to_owned()))?),
            _ => {
                self.call.passing = match value {
                    "yes" => Passing::On,
                    "no" => Passing::Back,
                    _ => return Err(wrong("yes or no".to_owned())),
                };
            }
        }
        Ok(())
    }
}

/// The next number of a key, or several.
#[utoipa::path(
    get, path = "/sequence/{name}/{key}", tag = "ids", operation_id = "sequence",
    params(
        ("name" = String, Path, description = "The generator"),
        ("key" = String, Path, description = "1 to 128 bytes of text; a whole number below 2^32 has a counter of its own"),
        ("n" = Option<u32>, Query, description = "How many consecutive numbers; 1 unless it is said", minimum = 1, maximum = 1_000_000),
        ("g" = Option<u64>, Query, description = "The g of the route by which this agent was chosen, 0 without one: a newer route is added to the answer"),
        ("cluster" = Option<String>, Query, description = "The `cluster` of the answer with the routes: an agent of another one, to which the address leads by now, refuses"),
        ("forward" = Option<String>, Query, description = "`no`: if another agent serves the key, say which (421) and do not pass the call on"),
        ("format" = Option<String>, Query, description = "`decimal`: digits, of a name that has an encoding, too")
    ),
    responses(
        (status = 200, description = "The numbers: one a line; JSON, with `routes` if there are some to tell; packed", body = Numbers),
        (status = 400, description = "`bad_parameter`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "`unknown_generator`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 421, description = "`misdirected`, with `routes`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 429, description = "`serial_exhausted`, for ever", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "`segment_pending`, `masters_unavailable`, `wrong_cluster`, `overloaded`", body = ProblemBody, content_type = "application/problem+json")
    )
)]
pub(super) async fn one(State(agent): State<Arc<Agent>>, path: KeyPath, request: Request) -> Response {
    agent.one_told(path, request, OF_ONE_KEY, 1).await
}

/// The last number that may have been given for a key; nothing is given.
#[utoipa::path(
    get, path = "/sequence/{name}/{key}/current", tag = "ids",
    params(
        ("name" = String, Path, description = "The generator"),
        ("key" = String, Path, description = "The key"),
        ("g" = Option<u64>, Query, description = "As for numbers"),
        ("cluster" = Option<String>, Query, description = "As for numbers"),
        ("forward" = Option<String>, Query, description = "As for numbers"),
        ("format" = Option<String>, Query, description = "As for numbers")
    ),
    responses(
        (status = 200, description = "None larger was given for the key before, and the next one is larger; `0`, whatever the name's encoding is, if there was none", body = Numbers),
        (status = 400, description = "`bad_parameter`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "`unknown_generator`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 421, description = "`misdirected`, with `routes`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "`segment_pending`, `masters_unavailable`, `wrong_cluster`, `overloaded`", body = ProblemBody, content_type = "application/problem+json")
    )
)]
pub(super) async fn current(State(agent): State<Arc<Agent>>, path: KeyPath, request: Request) -> Response {
    agent.one_told(path, request, OF_KEYS, 0).await
}

/// Numbers of many keys at once.
#[utoipa::path(
    post, path = "/sequence/{name}", tag = "ids", operation_id = "sequence_many",
    params(
        ("name" = String, Path, description = "The generator"),
        ("g" = Option<u64>, Query, description = "The highest g of the routes by which this agent was chosen, 0 without one"),
        ("cluster" = Option<String>, Query, description = "As for one key"),
        ("forward" = Option<String>, Query, description = "As for one key"),
        ("format" = Option<String>, Query, description = "As for one key")
    ),
    request_body(content = String, content_type = "text/plain", description = "Up to 10,000 keys: a key a line, or `{\"key\":..,\"n\":..}` a line; as application/octet-stream numbers of 8 bytes, big-endian"),
    responses(
        (status = 200, description = "The first number of each key in the order asked for. A key that got none: `!` and the code on its line; null in JSON, with the reason in `errors`; 0 packed", body = Numbers),
        (status = 400, description = "`bad_parameter`; nothing was given", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "`unknown_generator`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 421, description = "`misdirected`: no key got a number", body = ProblemBody, content_type = "application/problem+json"),
        (status = 429, description = "`serial_exhausted`: no key got a number", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "`segment_pending`, `masters_unavailable`, `wrong_cluster`, `overloaded`: no key got a number", body = ProblemBody, content_type = "application/problem+json")
    )
)]
pub(super) async fn many(
    State(agent): State<Arc<Agent>>,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let (head, sent) = request.into_parts();
    let answered = agent.many(&name, &head, sent).await;
    agent.or_told(answered, name.as_ref().map_or("", |Path(name)| name), 1, &head)
}

/// Lists which agent serves which sections of a name.
#[utoipa::path(
    get, path = "/sequences/{name}/routes", tag = "ids",
    params(
        ("name" = String, Path, description = "The generator"),
        ("from" = Option<u32>, Query, description = "The first section; `next` of the answer before")
    ),
    responses(
        (status = 200, description = "Routes, ascending; sections that nobody serves are not among them"),
        (status = 400, description = "`bad_parameter`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "`unknown_generator`", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "`masters_unavailable`; `overloaded`; `wrong_cluster`: another cluster's masters answer this agent", body = ProblemBody, content_type = "application/problem+json")
    )
)]
pub(super) async fn routes(
    State(agent): State<Arc<Agent>>,
    name: Result<Path<String>, PathRejection>,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
) -> Result<Response, Problem> {
    let Path(name) = name.map_err(|_| Problem::bad_parameter("the name is not text"))?;
    visitor.may(KeyAction::Mint, Some(&name)).map_err(|e| agent.turn_away(&name, visitor.caller(), &e))?;
    let query = KeyQuery::of(&uri, &["from"], agent.batch_max)?;
    let sequences = agent.sequences(&name)?;
    let said = sequences.routes(&name, Section(query.from.unwrap_or(0))).await.map_err(|e| agent.refused(&e))?;
    let document = json!({
        "name": name,
        "cluster": said.cluster.map(|cluster| cluster.to_string()),
        "keys_per_section": said.keys_per_section,
        "routes": said.routes.iter().map(shown).collect::<Vec<_>>(),
        "next": said.next.map(|Section(next)| next),
    });
    Ok(body(StatusCode::OK, HeaderValue::from_static("application/json"), document.to_string().into()))
}

impl Agent {
    fn sequences(&self, name: &str) -> Result<&Arc<Sequences>, Problem> {
        let none = || {
            self.refused(
                &self.minter.names().keyed(name).err().unwrap_or(crate::refusal::Refusal::SectionPending { why: None }),
            )
        };
        self.sequences.as_ref().ok_or_else(none)
    }

    /// The caller, if it may have numbers of keys by that name.
    fn may_mint<'a>(&self, head: &'a Parts, name: &str) -> Result<&'a Visitor, Problem> {
        let visitor = visitor(&head.extensions)?;
        visitor.may(KeyAction::Mint, Some(name)).map_err(|e| self.refused(&e))?;
        Ok(visitor)
    }

    /// Counts numbers of keys that a caller asks for.
    fn take(&self, visitor: &Visitor, n: u32) -> Result<(), Problem> {
        visitor.take(n, || self.minter.time().now().boot).map_err(|e| self.refused(&e))
    }

    /// A problem is told of, and counted.
    fn or_told(&self, answered: Result<Response, Problem>, name: &str, n: u32, head: &Parts) -> Response {
        answered.unwrap_or_else(|problem| {
            let caller = visitor(&head.extensions).map_or(Caller::Label(""), Visitor::caller);
            self.tell(Kind::Sequence, name, n, caller, &problem);
            problem.into_response()
        })
    }

    /// A call for numbers of one key: as many as it says, or `n`.
    async fn one_told(&self, path: KeyPath, request: Request, allowed: &[&str], n: u32) -> Response {
        let (head, _) = request.into_parts();
        let query = KeyQuery::of(&head.uri, allowed, self.batch_max);
        let n = query.as_ref().ok().and_then(|query| query.n).unwrap_or(n);
        let answered = self.one(&path, query, n, &head).await;
        self.or_told(answered, path.as_ref().map_or("", |Path((name, _))| name), n.max(1), &head)
    }

    /// `n` numbers of one key; with `n` 0 the last that may have been given.
    async fn one(
        &self,
        path: &KeyPath,
        query: Result<KeyQuery, Problem>,
        n: u32,
        head: &Parts,
    ) -> Result<Response, Problem> {
        let Ok(Path((name, key))) = path else {
            return Err(Problem::bad_parameter("the name and the key are text in UTF-8, percent-encoded"));
        };
        let visitor = self.may_mint(head, name)?;
        let query = query?.by(visitor);
        let (call, cluster, media) = (query.call, query.cluster, media(&head.headers));
        let slot = Slot::of(key).map_err(|e| Problem::bad_parameter(e.to_string()))?;
        let sequences = self.sequences(name)?;
        sequences.same_cluster(cluster).map_err(|e| self.refused(&e))?;
        let name = sequences.name(name, n).await.map_err(|e| self.refused(&e))?;
        self.take(visitor, n)?;
        let encoding = query.encoding(&name);
        let len = encoding.len_max() + AROUND_LEN_MAX;
        let memory = self.memory_of(visitor.caller());
        let room = || super::mint::room(&memory, n.max(1), len).map_err(|e| self.refused(&e));
        let held = room()?;
        let next = if n > 0 { sequences.try_next(&name, slot, n, call) } else { None };
        if let Some(first) = next {
            return Ok(written(encoding, media, first, n, &[], held));
        }
        // Whoever waits holds nothing that others need for their answers.
        drop(held);
        let (first, routes) = self.next_of(&name, slot, n, call).await?;
        let room = room()?;
        // No number of any key, and its text by the name's encoding would look like one.
        let encoding = if first == 0 { &DECIMAL64 } else { encoding };
        Ok(written(encoding, media, first, n.max(1), &routes, room))
    }

    /// The first of `n` numbers of one key, waited for if need be; with `n` 0 the last that may have been given. With the routes
    /// that the caller may not know.
    pub(super) async fn next_of(
        &self,
        name: &Arc<Name>,
        slot: Slot,
        n: u32,
        call: Call,
    ) -> Result<(u64, Vec<Route>), Problem> {
        let sequences = self.sequences(name.name().as_str())?;
        let CallOutcome { outcomes, routes } = Box::pin(sequences.next(name, &[KeyAsked { slot, n }], call)).await;
        match outcomes.first() {
            Some(Outcome::Given(first)) => Ok((*first, routes)),
            Some(Outcome::Refused(code)) => {
                let problem = self.refused(&sequences.refusal(name, *code));
                Err(problem.with_routes(routes.iter().map(shown).collect()))
            }
            None => Err(self.overloaded("this call got lost; ask again")),
        }
    }

    async fn many(
        &self,
        name: &Result<Path<String>, PathRejection>,
        head: &Parts,
        sent: Body,
    ) -> Result<Response, Problem> {
        let Ok(Path(name)) = name else { return Err(Problem::bad_parameter("the name is not text")) };
        let query = KeyQuery::of(&head.uri, OF_KEYS, self.batch_max)?;
        let visitor = self.may_mint(head, name)?;
        let query = query.by(visitor);
        let (call, cluster, media) = (query.call, query.cluster, media(&head.headers));
        let sequences = self.sequences(name)?;
        sequences.same_cluster(cluster).map_err(|e| self.refused(&e))?;
        // Before there is memory for its keys, if it is known here that the name gives no numbers of keys.
        if self.minter.names().kind_of(name).is_some() {
            sequences.name(name, 0).await.map_err(|e| self.refused(&e))?;
        }
        let memory = self.memory_of(visitor.caller());
        let (keys, _keys) = self.keys(head, sent, &memory).await?;
        let n = keys.iter().map(|key| key.n).max().unwrap_or(0);
        let name = sequences.name(name, n).await.map_err(|e| self.refused(&e))?;
        self.take(visitor, keys.iter().map(|key| key.n).fold(0, u32::saturating_add))?;
        let encoding = query.encoding(&name);
        let len = encoding.len_max() + AROUND_LEN_MAX;
        let each = if media == Media::Json { len + ERROR_LEN_MAX } else { len };
        let n = u32::try_from(keys.len()).unwrap_or(u32::MAX);
        let room = || super::mint::room(&memory, n, each).map_err(|e| self.refused(&e));
        // Without memory for its answer a call is refused before anything is given; but whoever waits does not hold it.
        drop(room()?);
        let CallOutcome { outcomes, routes } = Box::pin(sequences.next(&name, &keys, call)).await;
        let room = room()?;
        let first_refused = outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Refused(code) => Some(*code),
            Outcome::Given(_) => None,
        });
        let detail = |code| sequences.refusal(&name, code).to_string();
        match first_refused {
            Some(code) if !outcomes.iter().any(|outcome| matches!(outcome, Outcome::Given(_))) => {
                let problem = self.refused(&sequences.refusal(&name, code));
                Err(problem.with_routes(routes.iter().map(shown).collect()))
            }
            _ => Ok(each_written(encoding, media, &outcomes, &routes, detail, room)),
        }
    }

    /// Reads the keys of a call for many; with the memory that they and what comes of them take.
    async fn keys(
        &self,
        head: &Parts,
        sent: Body,
        memory: &CallerBudget,
    ) -> Result<(Vec<KeyAsked>, CallerCharge), Problem> {
        let text = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
        let too_long = || Problem::bad_parameter(format!("the keys have at most {BODY_LEN_MAX} bytes"));
        let no_memory = || self.overloaded("too many large calls are under way; ask again");
        let said = text(header::CONTENT_LENGTH).and_then(|len| len.parse::<u64>().ok());
        if said.is_some_and(|len| len > BODY_LEN_MAX as u64) {
            return Err(too_long());
        }
        let read = tokio::time::timeout(BODY_TIMEOUT, upload::read(sent, BODY_LEN_MAX, memory)).await;
        let too_slow = |_| Problem::bad_parameter(format!("the keys did not come within {} s", BODY_TIMEOUT.as_secs()));
        let (whole, _bytes) = read.map_err(too_slow)?.map_err(|why| match why {
            Unread::TooLong => too_long(),
            Unread::NoMemory => no_memory(),
            Unread::Broken => Problem::bad_parameter("the keys ended before all of them had come"),
        })?;
        // What is read from it: a key takes two bytes at least, with what ends its line.
        let keys_max = (whole.len() / 2 + 1).min(KEYS_MAX);
        let mut room = memory.try_take(keys_max * KEY_WEIGHT).ok_or_else(no_memory)?;
        let media_type = text(header::CONTENT_TYPE).and_then(|value| value.split(';').next()).map(str::trim);
        let mut keys = match media_type {
            Some(media) if media.eq_ignore_ascii_case("application/octet-stream") => sequence_body::packed(&whole)?,
            _ => sequence_body::lines(&whole, self.batch_max)?,
        };
        // Most keys are longer. The call may wait for seconds with what it keeps.
        keys.shrink_to_fit();
        room.keep(keys.len() * KEY_WEIGHT);
        Ok((keys, room))
    }
}

/// A route as callers read it.
fn shown(route: &Route) -> Value {
    let Route { from, to, address, g } = route;
    let shown = Shown { from: from.0, to: to.0, g: g.0, http: &address.http, rpc: &address.rpc };
    serde_json::to_value(shown).unwrap_or_default()
}

/// `n` numbers from `first` on.
fn written(encoding: &Encoding, media: Media, first: u64, n: u32, routes: &[Route], room: CallerCharge) -> Response {
    with_routes(answer(media, numbers(encoding, media, first, n, routes), room), media, routes)
}

/// The body of an answer of `n` numbers from `first` on.
pub(super) fn numbers(encoding: &Encoding, media: Media, first: u64, n: u32, routes: &[Route]) -> Vec<u8> {
    let (numbers, mut out) = (Stretch { first: first.into(), step: 1, n }, Vec::new());
    match media {
        Media::Text => encoding.write_run(numbers, b"\n", &mut out),
        Media::Packed => encoding.pack_run(numbers, &mut out),
        Media::Json => {
            out.extend_from_slice(b"{\"ids\":[\"");
            encoding.write_run(numbers, b"\",\"", &mut out);
            out.truncate(out.len().saturating_sub(2));
            out.push(b']');
            end_json(routes, &mut out);
        }
    }
    out
}

/// A number, or a refusal, for each key.
fn each_written(
    encoding: &Encoding,
    media: Media,
    outcomes: &[Outcome],
    routes: &[Route],
    detail: impl Fn(MintCode) -> String,
    room: CallerCharge,
) -> Response {
    let mut out = Vec::with_capacity(outcomes.len() * (encoding.len_max() + AROUND_LEN_MAX));
    // Digits there are of every number.
    let write = |number: u64, out: &mut Vec<u8>| _ = encoding.write(number.into(), out);
    let mut errors = Vec::new();
    if media == Media::Json {
        out.extend_from_slice(b"{\"ids\":[");
    }
    for (at, outcome) in outcomes.iter().enumerate() {
        match (media, outcome) {
            (Media::Text, Outcome::Given(number)) => {
                write(*number, &mut out);
                out.push(b'\n');
            }
            (Media::Text, Outcome::Refused(code)) => out.extend_from_slice(format!("!{code}\n").as_bytes()),
            (Media::Packed, Outcome::Given(number)) => out.extend_from_slice(&number.to_be_bytes()),
            (Media::Packed, Outcome::Refused(_)) => out.extend_from_slice(&NONE.to_be_bytes()),
            (Media::Json, outcome) => {
                if at > 0 {
                    out.push(b',');
                }
                match outcome {
                    Outcome::Given(number) => {
                        out.push(b'"');
                        write(*number, &mut out);
                        out.push(b'"');
                    }
                    Outcome::Refused(code) => {
                        out.extend_from_slice(b"null");
                        errors.push(json!({ "at": at, "code": code.as_str(), "detail": detail(*code) }));
                    }
                }
            }
        }
    }
    if media == Media::Json {
        out.push(b']');
        if !errors.is_empty() {
            out.extend_from_slice(b",\"errors\":");
            out.extend_from_slice(Value::from(errors).to_string().as_bytes());
        }
        end_json(routes, &mut out);
    }
    with_routes(answer(media, out, room), media, routes)
}

/// The end of a JSON answer, with the routes that there are to tell.
fn end_json(routes: &[Route], out: &mut Vec<u8>) {
    if !routes.is_empty() {
        out.extend_from_slice(b",\"routes\":");
        let routes: Vec<Value> = routes.iter().map(shown).collect();
        out.extend_from_slice(Value::from(routes).to_string().as_bytes());
    }
    out.push(b'}');
}

/// Routes of an answer that is not JSON stand in its head, a line each.
fn with_routes(mut response: Response, media: Media, routes: &[Route]) -> Response {
    for line in route_lines(media, routes) {
        response.headers_mut().append(ROUTE_HEADER, line);
    }
    response
}

/// The values of those lines.
pub(super) fn route_lines(media: Media, routes: &[Route]) -> impl Iterator<Item = HeaderValue> {
    let routes = if media == Media::Json { &[] } else { routes };
    routes.iter().filter_map(|Route { from, to, address, g }| {
        let line = format!("{}-{}; g={g}; http={}; rpc={}", from.0, to.0, address.http, address.rpc);
        HeaderValue::from_str(&line).ok()
    })
}
