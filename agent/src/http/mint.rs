//! The routes that give IDs.

use super::accept::{Media, negotiate};
use super::large::LargePermit;
use super::query::MintQuery;
use super::render::Style;
use super::{Agent, body, visitor};
use crate::access::Visitor;
use crate::catalog::Unserved;
use crate::mint::{Asked, Form, MintRequest};
use crate::minter::{Generator, Minted};
use crate::plugin::{AccountHolder, By, Caller};
use crate::refusal::Refusal;
use crate::run::Runs;
use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, on};
use bytes::Bytes;
use common::api_key::KeyAction;
use common::encoding::DECIMAL64;
use common::kind::{Form as KindForm, Kind, TextForm};
use common::namespace::GeneratorName;
use net::budget::{CallerBudget, CallerCharge};
use net::turns::CallerId;
use std::sync::Arc;

/// Answers with more IDs than this are written on a thread of their own where they are written at once: at some 5 ns an
/// ID the others would wait.
const INLINE_MAX: u32 = 4_000;

const NUMBERS: &[&str] = &["n", "format"];
const PLAIN: &[&str] = &["n"];
const STRINGS: &[&str] = &["n", "biz", "custom"];
const ANY: &[&str] = &["n", "format", "biz", "custom"];

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
    /// A request for IDs by a name that is not served here.
    Unserved(Box<Unplanned>),
    /// The router knows what to say.
    NotForUs,
}

/// A request that is understood but for what its name stands for.
#[derive(Debug)]
pub(super) struct Unplanned {
    pub(super) name: Unserved,
    pub(super) kind: Option<Kind>,
    pub(super) n: u32,
    /// The answer, if the masters do not know the name either, or as something that the request does not fit.
    pub(super) refusal: Refusal,
}

impl Unplanned {
    /// The reason why there is no plan for so many IDs by that name, if it stays unknown.
    pub(super) fn of(mut name: Unserved, kind: Option<Kind>, n: u32, unknown: Refusal) -> NoPlan {
        let refusal = name.unfit.take().unwrap_or(unknown);
        NoPlan::Unserved(Box::new(Self { name, kind, n, refusal }))
    }
}

/// The router says what is wrong.
impl From<Refusal> for NoPlan {
    fn from(_: Refusal) -> Self {
        Self::NotForUs
    }
}

impl Plan {
    /// The plan of that request, if it is for IDs, and understood, and their form has a length that is known before they are written.
    pub(super) fn of(agent: &Agent, uri: &Uri, accept: Option<&str>, visitor: &Visitor) -> Result<Self, NoPlan> {
        let unfit = || NoPlan::NotForUs;
        let path = uri.path().strip_prefix('/').ok_or_else(unfit)?;
        let (kind, name) = path.split_once('/').map_or((path, None), |(kind, name)| (kind, Some(name)));
        let kind = match name {
            Some(_) if kind == ANY_KIND => None,
            _ => Some(Kind::ALL.into_iter().find(|known| known.name() == kind).ok_or_else(unfit)?),
        };
        if name.is_some() && kind.is_some_and(|kind| kind.spec().definition.is_none()) {
            return Err(NoPlan::NotForUs);
        }
        let media = accept.map_or(Media::default(), negotiate);
        let query = MintQuery::of(uri, parameters(kind))?;
        let said = Said { kind, name: name.unwrap_or(GeneratorName::DEFAULT), query, media };
        visitor.may(KeyAction::Mint, Some(said.name))?;
        // Who asks makes no difference to what can be had.
        let request = said.request(Caller::Label(""), agent.batch_max)?;
        let asked = match agent.mint().known(&request) {
            Ok(asked) => asked,
            Err(refusal) => {
                let (unserved, n) = (agent.mint().to_look_up(&request), request.n);
                return Err(unserved.map_or(NoPlan::NotForUs, |name| Unplanned::of(name, kind, n, refusal)));
            }
        };
        let (n, generator) = (request.n, Arc::clone(asked.generator));
        // The router has room for what stands around minting; the loops of the short way have not.
        if !generator.is_alone() {
            return Err(NoPlan::NotForUs);
        }
        let style = style(&request, media, asked)?;
        if style.uri.is_some() {
            return Err(NoPlan::NotForUs);
        }
        Ok(Self { generator, n, style })
    }

    /// The kind and the name.
    pub(super) fn asked_for(&self) -> (Kind, &str) {
        (self.generator.kind(), self.generator.namespace().name().as_str())
    }
}

/// Parameters that a request for IDs of that kind may have; what names of any kind take, their definitions tell.
fn parameters(kind: Option<Kind>) -> &'static [&'static str] {
    match kind.map(|kind| &kind.spec().form) {
        None => ANY,
        Some(KindForm::Number { .. } | KindForm::Layout { .. }) => NUMBERS,
        Some(KindForm::Plain | KindForm::Keyed) => PLAIN,
        Some(KindForm::Template { .. }) => STRINGS,
    }
}

/// The form in which the IDs of a request are written.
fn style(request: &MintRequest<'_>, media: Media, asked: Asked<'_>) -> Result<Style, Refusal> {
    let Asked { generator, parts: caller } = asked;
    let form = match request.form {
        Form::Streamed(form) => form,
        Form::Numbers | Form::Texts => None,
    };
    let template = generator.namespace().template();
    let (encoding, uri) = match (generator.encoding()?, generator.kind().numbers()) {
        (Some(own), _) => (Some(form.map_or_else(|| Arc::clone(own), |form| Arc::new(own.plain(form)))), None),
        (None, Some(numbers)) => match form.unwrap_or_default() {
            TextForm::Uri => (numbers.encoding(TextForm::Decimal).cloned(), Some(numbers)),
            form => (numbers.encoding(form).cloned(), None),
        },
        // What is neither a kind's own number nor a text is a plain number.
        (None, None) => (template.is_none().then(|| Arc::clone(&DECIMAL64)), None),
    };
    Ok(Style { media, encoding, uri, caller, text_len: template.map_or(0, |template| template.len()) })
}

/// A place among the large requests, if `n` IDs are one.
pub(super) fn large_room<'a>(agent: &'a Agent, n: u32, caller: Caller<'_>) -> Result<LargePermit<'a>, Refusal> {
    let why = "too many large answers are under way, of all callers or to you; ask again or for fewer IDs";
    agent.large.take(n, caller).ok_or(Refusal::Overloaded(why))
}

/// A request, read to the letter.
struct Said<'u> {
    kind: Option<Kind>,
    name: &'u str,
    query: MintQuery,
    media: Media,
}

impl Said<'_> {
    fn request<'a>(&'a self, caller: Caller<'a>, n_max: u32) -> Result<MintRequest<'a>, Refusal> {
        let (n, form, (biz, custom)) = (self.query.count(n_max)?, self.query.form()?, self.query.parts());
        let form = match (self.media, form) {
            (Media::Packed, Some(_)) => {
                let why = "format: packed IDs have no text form; leave it out";
                return Err(Refusal::BadParameter(why.to_owned()));
            }
            (Media::Packed, None) => Form::Numbers,
            (Media::Text | Media::Json, form) => Form::Streamed(form),
        };
        let Self { kind, name, .. } = *self;
        Ok(MintRequest { kind, name, n, biz, custom, form, caller, n_max, texts_max: |_| u32::MAX })
    }
}

/// The addresses of that kind's IDs: without a name if there are such, and by name if there are names.
pub(super) fn addresses(kind: Kind) -> (Option<String>, Option<String>) {
    let nameless = Kind::PREDEFINED.contains(&kind);
    // Whoever asks for a number of a sequence names its key, too.
    let by_name = kind.spec().definition.is_some() && !matches!(kind.spec().form, KindForm::Keyed);
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
        let visitor = match visitor(&head.extensions) {
            Ok(visitor) => visitor,
            Err(problem) => return problem.into_response(),
        };
        let caller = visitor.caller();
        let said = name.ok_or_else(|| Refusal::unknown_name("")).and_then(|name| {
            visitor.may(KeyAction::Mint, Some(name))?;
            let query = MintQuery::of(&head.uri, parameters(kind))?;
            Ok(Said { kind, name, query, media: media(&head.headers) })
        });
        let request = said.as_ref().map_err(Refusal::clone).and_then(|said| said.request(caller, self.batch_max));
        let n = request.as_ref().map_or(1, |request| request.n);
        let answer = match request {
            Ok(request) => match visitor.take(n, || self.minter.time().now().boot) {
                Ok(()) => self.answer(&request, media(&head.headers)).await,
                Err(refusal) => Err(refusal),
            },
            Err(refusal) => Err(refusal),
        };
        answer.unwrap_or_else(|refusal| {
            self.mint().tell(kind, name.unwrap_or_default(), n, caller, &refusal);
            self.refused(&refusal).into_response()
        })
    }

    async fn answer(&self, request: &MintRequest<'_>, media: Media) -> Result<Response, Refusal> {
        let asked = self.mint().understand(request).await?;
        let (n, generator) = (request.n, asked.generator);
        let style = style(request, media, asked)?;
        let keeps = generator.keeps_texts();
        let len = style.id_len_max();
        // Where texts are in memory one by one, and then in the answer, a place among the large requests is held meanwhile.
        let len = if keeps { 2 * len + size_of::<String>() } else { len };
        let _large = keeps.then(|| large_room(self, n, request.caller)).transpose()?;
        // Without memory for its answer a request is refused before anything is given; but whoever waits does not hold it.
        let memory = self.memory_of(request.caller);
        let held = Some(room(&memory, n, len)?).filter(|_| keeps);
        let minted = self.minter.give(generator, n, style.leaves(), request.caller).await?;
        let room = held.map_or_else(|| room(&memory, n, len), Ok)?;
        match minted {
            Minted { runs, texts: None } => self.respond(runs, n, style, room).await,
            Minted { texts: Some(texts), .. } => Ok(answer(style.media, style.render_texts(&texts), room)),
        }
    }

    /// Memory for bodies and answers of that caller.
    pub(super) fn memory_of(&self, caller: Caller<'_>) -> CallerBudget {
        self.body_memory.of(CallerId::of(AccountHolder::of(By::Caller, caller)))
    }

    async fn respond(&self, runs: Runs, n: u32, style: Style, room: CallerCharge) -> Result<Response, Refusal> {
        let media = style.media;
        let bytes = if n <= INLINE_MAX {
            style.render(&runs)
        } else {
            let render = tokio::task::spawn_blocking(move || style.render(&runs)).await;
            render.map_err(|_| Refusal::Overloaded("the answer could not be written"))?
        };
        Ok(answer(media, bytes, room))
    }
}

/// Memory for an answer of so many IDs.
pub(super) fn room(memory: &CallerBudget, n: u32, id_len_max: usize) -> Result<CallerCharge, Refusal> {
    let room = memory.try_take((n as usize).saturating_mul(id_len_max));
    let why = "too many large answers are under way, of all callers or to you; ask again or for fewer IDs";
    room.ok_or(Refusal::Overloaded(why))
}

/// An answer whose memory counts as taken until the last byte is sent.
pub(super) fn answer(media: Media, bytes: Vec<u8>, room: CallerCharge) -> Response {
    let bytes = Bytes::from_owner(Accounted { bytes, _room: room });
    body(StatusCode::OK, HeaderValue::from_static(media.content_type()), bytes)
}

struct Accounted {
    bytes: Vec<u8>,
    _room: CallerCharge,
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

fn text(name: &Name) -> Option<&str> {
    name.as_ref().ok().map(|Path(name)| name.as_str())
}
