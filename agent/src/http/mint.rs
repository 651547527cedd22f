//! The routes that give IDs.

use super::accept::{Media, negotiate};
use super::problem::Problem;
use super::query::MintQuery;
use super::render::Style;
use super::{Agent, body};
use crate::heartbeat::source_of;
use crate::minter::Source;
use crate::run::Runs;
use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, on};
use bytes::Bytes;
use common::kind::{Form, Kind, TextForm};
use common::namespace::{GeneratorName, Namespace};
use common::net::budget::Charge;
use common::template::{CallerParts, Template};
use std::sync::Arc;
use tokio::sync::SemaphorePermit;

/// Answers with more IDs than this are written on a thread of their own where they are written at once: at some 5 ns an
/// ID the others would wait.
const INLINE_MAX: u32 = 4_000;
/// Requests for more IDs than this at once are large: some of them are served at the same time, further ones refused.
const LARGE: u32 = 20_000;
/// Large requests under way at once. Each gets turns of some 0.05 ms, so others wait for a few ms at most.
pub(super) const LARGE_MAX: usize = 32;

const NUMBERS: &[&str] = &["n", "format"];
const STRINGS: &[&str] = &["n", "biz", "custom"];

type Name = Result<Path<String>, PathRejection>;

/// A request for IDs, understood: what has to be done for it, however often it comes.
pub(super) struct Plan {
    pub(super) source: Source,
    pub(super) n: u32,
    pub(super) style: Style,
}

impl Plan {
    /// What that request asks for. `None` if it is not for IDs, or not understood, or for a form whose length is only
    /// known when it is written; the router knows what to say to those.
    pub(super) fn of(agent: &Agent, uri: &Uri, accept: Option<&str>) -> Option<Self> {
        let path = uri.path().strip_prefix('/')?;
        let (kind, name) = path.split_once('/').map_or((path, None), |(kind, name)| (kind, Some(name)));
        let kind = Kind::ALL.into_iter().find(|known| known.name() == kind)?;
        let media = accept.map_or(Some(Media::default()), negotiate)?;
        let asked = Asked { query: MintQuery::of(uri, parameters(kind)).ok()?, media };
        let n = asked.query.count(agent.batch_max).ok()?;
        if name.is_some() && kind.spec().definition.is_none() {
            return None;
        }
        let source = agent.minter.source(kind, name.unwrap_or(GeneratorName::DEFAULT)).ok()?;
        let style = match (&kind.spec().form, source.namespace()) {
            (Form::Template { .. }, Some(namespace)) => string_style(&asked, namespace).ok()?,
            _ => number_style(&asked).ok()?,
        };
        (style.form != TextForm::Uri).then_some(Self { source: source.cloned(), n, style })
    }
}

/// What a request for IDs of that kind may say.
fn parameters(kind: Kind) -> &'static [&'static str] {
    match kind.spec().form {
        Form::Number { .. } => NUMBERS,
        Form::Template { .. } => STRINGS,
    }
}

/// A place among the large requests, if `n` IDs are one.
pub(super) fn large_room(agent: &Agent, n: u32) -> Result<Option<SemaphorePermit<'_>>, Problem> {
    if n <= LARGE {
        return Ok(None);
    }
    let place = agent.large.try_acquire();
    place.map(Some).map_err(|_| agent.overloaded("too many large answers are under way; ask again or for fewer IDs"))
}

/// What a request asks for, read to the letter.
struct Asked {
    query: MintQuery,
    media: Media,
}

impl Asked {
    fn of(request: &Request, kind: Kind) -> Result<Self, Problem> {
        Ok(Self { query: MintQuery::of(request.uri(), parameters(kind))?, media: media(request.headers())? })
    }
}

/// The addresses of that kind's IDs: of the generator `default`, and of others if there are any.
pub(super) fn addresses(kind: Kind) -> (String, Option<String>) {
    (format!("/{kind}"), kind.spec().definition.as_ref().map(|_| format!("/{kind}/{{name}}")))
}

/// `router` with the routes to the IDs of each kind.
pub(super) fn routes(mut router: Router<Arc<Agent>>) -> Router<Arc<Agent>> {
    let methods = MethodFilter::GET.or(MethodFilter::POST);
    for kind in Kind::ALL {
        let (default, named) = addresses(kind);
        let mint = move |State(agent): State<Arc<Agent>>, request: Request| async move {
            agent.ids(kind, Some(GeneratorName::DEFAULT), request).await
        };
        router = router.route(&default, on(methods, mint));
        if let Some(named) = named {
            let mint = move |State(agent): State<Arc<Agent>>, name: Name, request: Request| async move {
                agent.ids(kind, text(&name), request).await
            };
            router = router.route(&named, on(methods, mint));
        }
    }
    router
}

impl Agent {
    /// IDs of that kind and name, or the reason why not, which is counted.
    async fn ids(&self, kind: Kind, name: Option<&str>, request: Request) -> Response {
        let asked = Asked::of(&request, kind);
        let answer = match name {
            Some(name) => self.mint(kind, name, asked).await,
            None => Err(Problem::unknown_generator("the name is not text")),
        };
        if let Err(Problem { code: Some(code), .. }) = &answer {
            self.minter.counters().refuse(*code);
        }
        answer.into_response()
    }

    async fn mint(&self, kind: Kind, name: &str, asked: Result<Asked, Problem>) -> Result<Response, Problem> {
        let asked = asked?;
        let n = asked.query.count(self.batch_max)?;
        let spec = kind.spec();
        // A form that there is not is refused before a name that there is not; what a template takes, only its name tells.
        let style = match spec.form {
            Form::Number { .. } => Some(number_style(&asked)?),
            Form::Template { .. } => None,
        };
        let source = source_of(&self.minter, self.names.as_ref(), kind, name).await.map_err(|e| self.refused(&e))?;
        let style = match (style, source.namespace()) {
            (None, Some(namespace)) => string_style(&asked, namespace)?,
            (style, _) => style.map_or_else(|| number_style(&asked), Ok)?,
        };
        let room = self.room(n, &style)?;
        let runs = self.minter.mint(source, n).await;
        self.respond(runs.map_err(|e| self.refused(&e))?, n, style, room).await
    }

    /// Memory for the answer; taken before the IDs, so that none is thrown away.
    fn room(&self, n: u32, style: &Style) -> Result<Charge, Problem> {
        let room = self.body_memory.try_take((n as usize).saturating_mul(style.id_len_max()));
        room.ok_or_else(|| self.overloaded("too many large answers are under way; ask again or for fewer IDs"))
    }

    async fn respond(&self, runs: Runs, n: u32, style: Style, room: Charge) -> Result<Response, Problem> {
        let media = style.media;
        let bytes = if n <= INLINE_MAX {
            style.render(&runs)
        } else {
            let render = tokio::task::spawn_blocking(move || style.render(&runs)).await;
            render.map_err(|_| self.overloaded("the answer could not be written"))?
        };
        // The memory counts as taken until the last byte is sent.
        let bytes = Bytes::from_owner(Accounted { bytes, _room: room });
        Ok(body(StatusCode::OK, HeaderValue::from_static(media.content_type()), bytes))
    }
}

struct Accounted {
    bytes: Vec<u8>,
    _room: Charge,
}

impl AsRef<[u8]> for Accounted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// How the IDs are to be sent. A header that wants none of our types is refused: bytes that the caller cannot read
/// would be IDs lost.
fn media(headers: &HeaderMap) -> Result<Media, Problem> {
    let values = headers.get_all(header::ACCEPT);
    let mut texts = values.iter().filter_map(|value| value.to_str().ok());
    let wanted = match (texts.next(), texts.next()) {
        // What most clients send.
        (None, _) if values.iter().next().is_none() => return Ok(Media::default()),
        (Some("*/*"), None) => return Ok(Media::default()),
        (Some(one), None) => negotiate(one),
        _ => negotiate(&values.iter().filter_map(|value| value.to_str().ok()).collect::<Vec<_>>().join(",")),
    };
    wanted.ok_or_else(|| {
        Problem::bad_parameter("Accept: there are text/plain, application/json and application/octet-stream")
    })
}

fn number_style(asked: &Asked) -> Result<Style, Problem> {
    let (media, form) = (asked.media, asked.query.form()?);
    if media == Media::Packed && form.is_some() {
        return Err(Problem::bad_parameter("format: packed IDs have no text form; leave it out"));
    }
    Ok(Style { media, form: form.unwrap_or_default(), caller: CallerParts::default(), text_len: 0 })
}

fn string_style(asked: &Asked, namespace: &Namespace) -> Result<Style, Problem> {
    if asked.media == Media::Packed {
        return Err(Problem::bad_parameter("Accept: strings have no packed form; ask for text/plain or JSON"));
    }
    let Some(template) = namespace.template() else {
        return Err(Problem::unknown_generator("this generator has no template"));
    };
    let (biz, custom) = asked.query.parts();
    let caller = template.check_caller(biz, custom).map_err(|e| {
        Problem::bad_parameter(format!(
            "{e}; the request is {}",
            expected_request(namespace.kind(), namespace.name(), template)
        ))
    })?;
    Ok(Style { media: asked.media, form: TextForm::default(), caller, text_len: template.len() })
}

/// A request that would be understood, e.g. `/string?biz=AAAA&custom=AA`.
fn expected_request(kind: Kind, name: &GeneratorName, template: &Template) -> String {
    let path = if name.is_default() { format!("/{kind}") } else { format!("/{kind}/{name}") };
    let part = |name: &str, len: Option<u32>| len.map(|len| format!("{name}={}", "A".repeat(len as usize)));
    let parts = [part("biz", template.biz_len()), part("custom", template.custom_len())];
    let query = parts.into_iter().flatten().collect::<Vec<_>>().join("&");
    if query.is_empty() { path } else { format!("{path}?{query}") }
}

fn text(name: &Name) -> Option<&str> {
    name.as_ref().ok().map(|Path(name)| name.as_str())
}
