//! The routes that give IDs.

use super::accept::{Media, negotiate};
use super::large::Place;
use super::problem::Problem;
use super::query::MintQuery;
use super::render::Style;
use super::{Agent, CallerAddress, body};
use crate::heartbeat::{kind_of, source_of};
use crate::minter::{Generator, Minted};
use crate::plugin::Caller;
use crate::refusal::Refusal;
use crate::run::Runs;
use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, on};
use bytes::Bytes;
use common::clock::Clock;
use common::kind::{Form, Kind, TextForm};
use common::namespace::{GeneratorName, Namespace};
use common::net::budget::Charge;
use common::template::{CallerParts, Template};
use std::net::IpAddr;
use std::sync::Arc;

/// Answers with more IDs than this are written on a thread of their own where they are written at once: at some 5 ns an
/// ID the others would wait.
const INLINE_MAX: u32 = 4_000;

const NUMBERS: &[&str] = &["n", "format"];
const PLAIN: &[&str] = &["n"];
const STRINGS: &[&str] = &["n", "biz", "custom"];

/// In the place of a kind: whichever the name is of.
const ANY_KIND: &str = "id";
/// The address of IDs of a name of any kind.
pub(super) const OF_ANY_KIND: &str = "/id/{name}";

type Name = Result<Path<String>, PathRejection>;

/// A request for IDs, understood: what has to be done for it, however often it comes.
pub(super) struct Plan {
    pub(super) generator: Arc<Generator>,
    pub(super) n: u32,
    pub(super) style: Style,
}

/// The reason why there is no plan for a request.
#[derive(Debug)]
pub(super) enum NoPlan {
    /// It may be for IDs by that name, which is not known here yet.
    UnknownName(GeneratorName),
    /// The router knows what to say.
    NotForUs,
}

impl NoPlan {
    /// Of a request for a name of which there is nothing here.
    pub(super) fn of(agent: &Agent, name: &str) -> Self {
        let unknown = name.parse().ok().filter(|_| agent.names.is_some() && agent.minter.kind_of(name).is_none());
        unknown.map_or(Self::NotForUs, Self::UnknownName)
    }
}

/// The router says what is wrong.
impl From<Problem> for NoPlan {
    fn from(_: Problem) -> Self {
        Self::NotForUs
    }
}

impl Plan {
    /// The plan of that request, if it is for IDs, and understood, and their form has a length that is known before they are written.
    pub(super) fn of(agent: &Agent, uri: &Uri, accept: Option<&str>) -> Result<Self, NoPlan> {
        let unfit = || NoPlan::NotForUs;
        let path = uri.path().strip_prefix('/').ok_or_else(unfit)?;
        let (kind, name) = path.split_once('/').map_or((path, None), |(kind, name)| (kind, Some(name)));
        let kind = match name {
            Some(name) if kind == ANY_KIND => agent.minter.kind_of(name).ok_or_else(|| NoPlan::of(agent, name))?,
            _ => Kind::ALL.into_iter().find(|known| known.name() == kind).ok_or_else(unfit)?,
        };
        let media = accept.map_or(Media::default(), negotiate);
        let asked = Asked { query: MintQuery::of(uri, parameters(kind))?, media };
        let n = asked.query.count(agent.batch_max)?;
        if name.is_some() && kind.spec().definition.is_none() {
            return Err(NoPlan::NotForUs);
        }
        let name = name.unwrap_or(GeneratorName::DEFAULT);
        let generator = agent.minter.generator(kind, name).map_err(|_| NoPlan::of(agent, name))?;
        // The router has room for what stands around minting; the loops of the short way have not.
        if !generator.is_alone() {
            return Err(NoPlan::NotForUs);
        }
        let style = style(&asked, generator)?;
        if style.form == TextForm::Uri {
            return Err(NoPlan::NotForUs);
        }
        Ok(Self { generator: Arc::clone(generator), n, style })
    }

    /// The kind and the name.
    pub(super) fn asked_for(&self) -> (Kind, &str) {
        (self.generator.kind(), self.generator.namespace().name().as_str())
    }
}

/// What a request for IDs of that kind may say.
fn parameters(kind: Kind) -> &'static [&'static str] {
    match kind.spec().form {
        Form::Number { .. } | Form::Layout { .. } => NUMBERS,
        Form::Plain | Form::Keyed => PLAIN,
        Form::Template { .. } => STRINGS,
    }
}

/// How the IDs of that generator are written for a request.
fn style(asked: &Asked, generator: &Generator) -> Result<Style, Problem> {
    let namespace = generator.namespace();
    match (namespace.encoding(), namespace.template()) {
        (Some(_), _) => layout_style(asked, generator),
        (None, Some(template)) => string_style(asked, namespace, template),
        (None, None) => number_style(asked),
    }
}

/// A place among the large requests, if `n` IDs are one.
pub(super) fn large_room(agent: &Agent, n: u32, from: Option<IpAddr>) -> Result<Place<'_>, Problem> {
    let why = "too many large answers are under way, of all callers or to your address; ask again or for fewer IDs";
    agent.large.take(n, from).ok_or_else(|| agent.overloaded(why))
}

/// What a request asks for, read to the letter.
struct Asked {
    query: MintQuery,
    media: Media,
}

impl Asked {
    fn of(uri: &Uri, headers: &HeaderMap, kind: Kind) -> Result<Self, Problem> {
        Ok(Self { query: MintQuery::of(uri, parameters(kind))?, media: media(headers) })
    }
}

/// The addresses of that kind's IDs: without a name if there are such, and by name if there are names.
pub(super) fn addresses(kind: Kind) -> (Option<String>, Option<String>) {
    let nameless = kind.spec().definition.is_none() || Kind::PREDEFINED.contains(&kind);
    // Whoever asks for a number of a sequence names its key, too.
    let by_name = kind.spec().definition.is_some() && !matches!(kind.spec().form, Form::Keyed);
    let named = by_name.then(|| format!("/{kind}/{{name}}"));
    (nameless.then(|| format!("/{kind}")), named)
}

/// `router` with the routes to the IDs of each kind.
pub(super) fn routes(mut router: Router<Arc<Agent>>) -> Router<Arc<Agent>> {
    let methods = MethodFilter::GET.or(MethodFilter::POST);
    for kind in Kind::ALL {
        let (default, named) = addresses(kind);
        if let Some(default) = default {
            let mint = move |State(agent): State<Arc<Agent>>, request: Request| async move {
                agent.ids(Some(kind), Some(GeneratorName::DEFAULT), request).await
            };
            router = router.route(&default, on(methods, mint));
        }
        if let Some(named) = named {
            let mint = move |State(agent): State<Arc<Agent>>, name: Name, request: Request| async move {
                agent.ids(Some(kind), text(&name), request).await
            };
            router = router.route(&named, on(methods, mint));
        }
    }
    let mint = move |State(agent): State<Arc<Agent>>, name: Name, request: Request| async move {
        agent.ids(None, text(&name), request).await
    };
    router.route(OF_ANY_KIND, on(methods, mint))
}

impl Agent {
    /// IDs of that name, and of that kind if it is said, or the reason why not, which is counted.
    async fn ids(&self, kind: Option<Kind>, name: Option<&str>, request: Request) -> Response {
        let (head, _) = request.into_parts();
        let caller = head.extensions.get::<CallerAddress>();
        let caller = caller.map_or(Caller::Label("unknown"), |CallerAddress(from)| Caller::Address(*from));
        let (mut of, mut n) = (kind, 1);
        let answer = match name {
            Some(name) => match self.kind(kind, name).await {
                Ok(kind) => {
                    of = Some(kind);
                    let asked = Asked::of(&head.uri, &head.headers, kind);
                    n = asked.as_ref().ok().and_then(|asked| asked.query.count(self.batch_max).ok()).unwrap_or(1);
                    self.mint(kind, name, asked, caller).await
                }
                Err(refusal) => Err(self.refused(&refusal)),
            },
            None => Err(Problem::unknown_generator("the name is not text")),
        };
        answer.unwrap_or_else(|problem| {
            let kind = of.unwrap_or(Kind::Uniq64);
            self.tell(kind, name.unwrap_or_default(), n, caller, &problem);
            problem.into_response()
        })
    }

    /// The kind that is asked for, or that of the name.
    async fn kind(&self, kind: Option<Kind>, name: &str) -> Result<Kind, Refusal> {
        match kind {
            Some(kind) => Ok(kind),
            None => kind_of(&self.minter, self.names.as_ref(), name).await,
        }
    }

    async fn mint(
        &self,
        kind: Kind,
        name: &str,
        asked: Result<Asked, Problem>,
        caller: Caller<'_>,
    ) -> Result<Response, Problem> {
        let asked = asked?;
        if matches!(kind.spec().form, Form::Keyed) {
            let why = "this name gives each key numbers of its own: ask at /sequence/NAME/KEY";
            return Err(Problem::bad_parameter(why));
        }
        let n = asked.query.count(self.batch_max)?;
        // A form that there is not is refused before a name that there is not; what others take, only their names tell.
        if let Form::Number { .. } = kind.spec().form {
            number_style(&asked)?;
        }
        let generator = source_of(&self.minter, self.names.as_ref(), kind, name).await;
        let generator = generator.map_err(|e| self.refused(&e))?;
        let style = style(&asked, generator)?;
        let len = style.id_len_max();
        let keeps = generator.keeps_texts();
        // Where texts are in memory one by one, and then in the answer, a place among the large requests is held meanwhile.
        let len = if keeps { 2 * len + size_of::<String>() } else { len };
        let from = match caller {
            Caller::Address(from) => Some(from),
            Caller::Label(_) => None,
        };
        let _large = keeps.then(|| large_room(self, n, from)).transpose()?;
        // Without memory for its answer a request is refused before anything is given; but whoever waits does not hold it.
        let held = Some(self.room(n, len)?).filter(|_| keeps);
        let minted = self.minter.give(generator, n, style.leaves(), caller).await;
        let minted = minted.map_err(|e| self.refused(&e))?;
        let room = held.map_or_else(|| self.room(n, len), Ok)?;
        match minted {
            Minted { runs, texts: None } => self.respond(runs, n, style, room).await,
            Minted { texts: Some(texts), .. } => Ok(answer(style.media, style.render_texts(&texts), room)),
        }
    }

    /// Memory for the answer.
    pub(super) fn room(&self, n: u32, id_len_max: usize) -> Result<Charge, Problem> {
        let room = self.body_memory.try_take((n as usize).saturating_mul(id_len_max));
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
        Ok(answer(media, bytes, room))
    }
}

/// An answer whose memory counts as taken until the last byte is sent.
pub(super) fn answer(media: Media, bytes: Vec<u8>, room: Charge) -> Response {
    let bytes = Bytes::from_owner(Accounted { bytes, _room: room });
    body(StatusCode::OK, HeaderValue::from_static(media.content_type()), bytes)
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

/// Reads the form in which the IDs are to be sent.
pub(super) fn media(headers: &HeaderMap) -> Media {
    let mut values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    match (values.next(), values.next()) {
        // What most clients send.
        (None | Some("*/*"), None) => Media::default(),
        (Some(one), None) => negotiate(one),
        (first, second) => negotiate(&first.into_iter().chain(second).chain(values).collect::<Vec<_>>().join(",")),
    }
}

fn number_style(asked: &Asked) -> Result<Style, Problem> {
    let (media, form) = (asked.media, asked.query.form()?);
    if media == Media::Packed && form.is_some() {
        return Err(Problem::bad_parameter("format: packed IDs have no text form; leave it out"));
    }
    Ok(Style { media, form: form.unwrap_or_default(), caller: CallerParts::default(), text_len: 0, encoding: None })
}

fn layout_style(asked: &Asked, generator: &Generator) -> Result<Style, Problem> {
    let (media, form) = (asked.media, asked.query.form()?);
    let own = generator.encoding().map_err(|e| Problem::refused(&e, Clock::system()))?;
    let own = own.ok_or_else(|| Problem::unknown_generator("this generator has no layout"))?;
    let encoding = match form {
        Some(_) if media == Media::Packed => {
            return Err(Problem::bad_parameter("format: packed IDs have no text form; leave it out"));
        }
        Some(_) if generator.namespace().written().is_some() => {
            return Err(Problem::bad_parameter("format: this name has an encoding; leave format out"));
        }
        Some(TextForm::Uri) => {
            return Err(Problem::bad_parameter("format: layouts have no uri; there are decimal, hex and base32"));
        }
        Some(_) if own.hides() => {
            return Err(Problem::bad_parameter(
                "format: this name's encoding is there to hide the numbers; leave format out",
            ));
        }
        Some(form) => Arc::new(own.plain(form)),
        None if media == Media::Packed && own.hides() => {
            return Err(Problem::bad_parameter(
                "Accept: this name's encoding is there to hide the numbers; ask for text/plain or JSON",
            ));
        }
        None => Arc::clone(own),
    };
    // What the form is stands in the encoding: none of them is `uri`, whose length nobody knows before.
    Ok(Style { media, form: TextForm::Decimal, caller: CallerParts::default(), text_len: 0, encoding: Some(encoding) })
}

fn string_style(asked: &Asked, namespace: &Namespace, template: &Template) -> Result<Style, Problem> {
    if asked.media == Media::Packed {
        return Err(Problem::bad_parameter("Accept: strings have no packed form; ask for text/plain or JSON"));
    }
    let (biz, custom) = asked.query.parts();
    let caller = template.check_caller(biz, custom).map_err(|e| {
        Problem::bad_parameter(format!(
            "{e}; the request is {}",
            expected_request(namespace.kind(), namespace.name(), template)
        ))
    })?;
    Ok(Style { media: asked.media, form: TextForm::default(), caller, text_len: template.len(), encoding: None })
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
