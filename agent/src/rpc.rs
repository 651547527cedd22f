//! The same IDs over tarpc.

use crate::access::{Access, Visitor};
use crate::catalog::Catalog;
use crate::mint::{self, Form, MintRequest};
use crate::minter::{Generator, Minter};
use crate::plugin::Caller;
use crate::refusal::Refusal;
use crate::run::{Run, Runs, TEXT_LEN_USUAL};
use crate::sequences::Sequences;
use common::api_key::KeyAction;
use common::clock::Clock;
use common::encoding;
use common::kind::{self, Kind};
use common::namespace::{GeneratorName, Namespace};
use common::sequence::{Section, Slot};
use common::time::SECOND_MS;
use net::places::{Place, Places};
use net::rpc::connection::{Bounds, CALL_LEN_MAX};
use net::rpc::mint::{
    Defined, KeyAsked, KeyReply, KeysReply, MintFailure, MintService, MintServiceRequest, MintedNumbers, SequenceCall,
    SequenceRoutes,
};
use net::rpc::transport::{self, FRAME_LEN_MAX, Limits};
use net::tls::{Listener, Remote};
#[cfg(test)]
use net::turns::CallerId;
use sequences::Connected;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use tarpc::context::Context;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// The limits of a thread of an agent; the memory, and the places, are those of all.
pub const LIMITS: Limits = Limits {
    connections_max: 256,
    requests_per_connection_max: 1_024,
    frame_len_max: CALL_LEN_MAX,
    memory_max: 128 << 20,
};
/// The time within which a caller shows a key where one is needed.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a frame that are not IDs.
const FRAME_SLACK: usize = 1 << 10;
/// Bytes that bincode needs at most for a number of 64 and of 128 bits, and for the length of a text.
const U64_LEN_MAX: usize = 9;
const U128_LEN_MAX: usize = 17;
const TEXT_HEAD_LEN_MAX: usize = 9;
/// The result of a definition with as many plugins as there may be takes less, in bytes: in memory and in the frame.
const DEFINED_WEIGHT: usize = 16 << 10;
/// Bytes of the longest number in text.
const ENCODED_LEN_MAX: usize = encoding::LEN_MAX as usize;
/// The bytes that an allocation takes beside what was asked for: allocators round up, and have a head of their own.
const ALLOCATION_SLACK: usize = 32;
/// The bytes that a string takes at most until it is sent, in memory and in the frame,
const TEXT_WEIGHT: usize = 3 * kind::TEXT_LEN_MAX;
/// and all strings of an answer, which are shorter the more there are.
const TEXTS_WEIGHT_MAX: usize = 4 * FRAME_LEN_MAX;

/// The service.
#[derive(Clone)]
pub struct Server {
    minter: Arc<Minter>,
    batch_max: u32,
    /// The catalog to ask about names; `None`: there are only those that the minter was given.
    names: Option<Arc<Catalog>>,
    /// `None`: this agent has none.
    sequences: Option<Arc<Sequences>>,
    /// Of all listeners, as are the places.
    bounds: Bounds,
    places: Places,
    access: Arc<Access>,
    side: Side,
}

/// The scope of a service.
#[derive(Clone)]
enum Side {
    /// Listeners, with how many connections may have calls that wait for sections.
    Port(Arc<Semaphore>),
    /// A connection.
    Connection(Arc<Connected>),
}

/// The part of all connections on which nothing waits for sections.
const UNWAITING_PART: usize = 8;

/// As many of so many connections as may have calls that wait for sections.
fn may_wait(connections: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new((connections - connections / UNWAITING_PART).max(1)))
}

/// The service for the calls of a connection. tarpc moves the future of each call several times on its way, so that is one pointer, what
/// few calls need (waiting for the disk, the masters) is boxed, and the rest is small; a test holds it to that.
#[derive(Clone)]
struct Calls(Arc<Server>);

impl Deref for Calls {
    type Target = Server;
    fn deref(&self) -> &Server {
        &self.0
    }
}

impl Server {
    /// A service that gives up to `batch_max` IDs at once.
    pub fn new(minter: Arc<Minter>, batch_max: u32) -> Self {
        let (places, side) = (Places::new(LIMITS.connections_max), Side::Port(may_wait(LIMITS.connections_max)));
        let (bounds, access) = (LIMITS.bounds(), Arc::default());
        Self { minter, batch_max, names: None, sequences: None, bounds, places, access, side }
    }

    /// Judges callers by that.
    #[must_use]
    pub(crate) fn with_access(self, access: Arc<Access>) -> Self {
        Self { access, ..self }
    }

    /// Registers names with the masters, and asks them about unknown ones.
    #[must_use]
    pub fn with_names(self, names: Arc<Catalog>) -> Self {
        Self { names: Some(names), ..self }
    }

    /// Gives numbers of keys.
    #[must_use]
    pub fn with_sequences(self, sequences: Arc<Sequences>) -> Self {
        Self { sequences: Some(sequences), ..self }
    }

    /// With so many connections at all listeners together.
    #[must_use]
    pub fn with_connections(self, connections_max: usize) -> Self {
        let connections_max = connections_max.max(1);
        Self { places: Places::new(connections_max), side: Side::Port(may_wait(connections_max)), ..self }
    }

    /// The service for the calls of somebody of this machine.
    #[cfg(test)]
    pub(crate) fn for_this_machine(self) -> Self {
        let place = Places::new(1).take(CallerId::of(())).expect("nobody else is here");
        let connected = Connected::new(Remote::here(), place, may_wait(1));
        Self { side: Side::Connection(Arc::new(connected)), ..self }
    }

    /// Serves until `stop`; then every connection ends.
    pub async fn run(self, port: impl Into<Listener>, stop: CancellationToken) {
        let places = self.places.clone();
        let handle = move |io, remote: Remote, place: Place| {
            let mut server = self.clone();
            if let Side::Port(may_wait) = &self.side {
                server.side = Side::Connection(Arc::new(Connected::new(remote, place.clone(), Arc::clone(may_wait))));
            }
            async move {
                let (bounds, batch_max) = (server.bounds.clone(), server.batch_max);
                // One of this connection: each call takes part in it.
                let minter = Arc::new(Arc::clone(&server.minter));
                let server = Arc::new(server);
                let calls = Calls(Arc::clone(&server));
                let asks = Arc::clone(&server);
                // Nothing is held for an answer that is a refusal.
                let weigh =
                    move |request: &_| if asks.opens(request) { weight(request, &minter, batch_max) } else { 0 };
                let served = async { net::serve_connection!(io, &place, &bounds, calls.serve(), weigh) };
                tokio::select! {
                    () = served => {}
                    () = server.stays_unknown() => {}
                }
            }
        };
        transport::accept(port, places, stop, handle).await;
    }

    /// Gives numbers, by the mint service.
    async fn runs(&self, kind: Option<Kind>, name: &str, n: u32) -> Result<Runs, MintFailure> {
        let visitor = self.may_mint(name, n).map_err(|e| self.refused(kind, named(name), n, &e))?;
        // A future that may have to wait costs more than most calls do.
        match self.at_hand(kind, name, n) {
            Some(run) => Ok(run.into()),
            None => Box::pin(self.minted(&visitor, kind, name, n)).await,
        }
    }

    async fn minted(&self, visitor: &Visitor, kind: Option<Kind>, name: &str, n: u32) -> Result<Runs, MintFailure> {
        let mut request = self.request(visitor, kind, name, n, Form::Numbers);
        request.n_max = request.n_max.min(in_a_frame(number_len_max(&self.minter, kind, name)));
        let minted = self.mint().ask(&request).await;
        minted.map(|minted| minted.runs).map_err(|e| failure(&e, self.minter.time().clock()))
    }

    /// One number, if no more are wanted and there is nothing to ask or to wait for.
    fn at_hand(&self, kind: Option<Kind>, name: &str, n: u32) -> Option<Run> {
        let generator = generator(&self.minter, kind, name).filter(|_| n == 1)?;
        generator.unguarded()?;
        self.minter.try_one(generator)
    }

    /// IDs as their definition writes them.
    async fn written(
        &self,
        kind: Option<Kind>,
        name: &str,
        n: u32,
        biz: &str,
        custom: &str,
    ) -> Result<Vec<String>, MintFailure> {
        let visitor = self.may_mint(name, n).map_err(|e| self.refused(kind, named(name), n, &e))?;
        let [biz, custom] = [biz, custom].map(|text| Some(text).filter(|text| !text.is_empty()));
        let request = MintRequest { biz, custom, ..self.request(&visitor, kind, name, n, Form::Texts) };
        let minted = self.mint().ask(&request).await.map_err(|e| failure(&e, self.minter.time().clock()))?;
        Ok(minted.texts.unwrap_or_default())
    }

    fn request<'a>(
        &self,
        visitor: &'a Visitor,
        kind: Option<Kind>,
        name: &'a str,
        n: u32,
        form: Form,
    ) -> MintRequest<'a> {
        let name = named(name);
        let texts_max = |len| in_a_frame(len + TEXT_HEAD_LEN_MAX);
        let (biz, custom, caller, n_max) = (None, None, visitor.caller(), self.batch_max);
        MintRequest { kind, name, n, biz, custom, form, caller, n_max, texts_max }
    }

    fn mint(&self) -> mint::MintService<'_> {
        mint::MintService::new(&self.minter, self.names.as_ref())
    }

    /// The caller, by the key that it showed on this connection or by the connection.
    ///
    /// # Errors
    /// [`Refusal::LoginRequired`]: that key has ended.
    fn visitor(&self) -> Result<Arc<Visitor>, Refusal> {
        let now = || self.minter.time().wall();
        match self.connected() {
            Some(connected) => connected.visitor(&self.access, now),
            None => Err(Refusal::LoginRequired("this is no connection")),
        }
    }

    /// The caller, if it may do that by that name.
    fn may(&self, action: KeyAction, name: &str) -> Result<Arc<Visitor>, Refusal> {
        let visitor = self.visitor()?;
        visitor.may(action, Some(name))?;
        Ok(visitor)
    }

    /// The caller, if it may have so many IDs by that name; they are counted.
    fn may_mint(&self, name: &str, n: u32) -> Result<Arc<Visitor>, Refusal> {
        let visitor = self.may(KeyAction::Mint, named(name))?;
        // More than a call may ask for is refused for that.
        visitor.take(if n <= self.batch_max { n } else { 0 }, || self.minter.time().now().boot)?;
        Ok(visitor)
    }

    /// Tells whether the caller may make that call.
    fn opens(&self, request: &MintServiceRequest) -> bool {
        let (action, name) = match request {
            MintServiceRequest::Numbers { name, .. } | MintServiceRequest::Texts { name, .. } => {
                (KeyAction::Mint, named(name))
            }
            MintServiceRequest::Sequence { call, .. }
            | MintServiceRequest::SequenceMany { call, .. }
            | MintServiceRequest::SequenceCurrent { call, .. } => (KeyAction::Mint, call.name.as_str()),
            MintServiceRequest::SequenceRoutes { name, .. } => (KeyAction::Mint, name.as_str()),
            MintServiceRequest::DefineGenerator { namespace, .. } => (KeyAction::Define, namespace.name().as_str()),
            MintServiceRequest::Authenticate { .. } | MintServiceRequest::Ready {} => return true,
        };
        self.may(action, name).is_ok()
    }

    /// Ends when the caller has shown neither a certificate nor a key in time where one is needed; never if it has.
    async fn stays_unknown(&self) {
        tokio::time::sleep(LOGIN_TIMEOUT).await;
        if !self.visitor().is_ok_and(|visitor| visitor.is_nobody()) {
            std::future::pending::<()>().await;
        }
    }

    /// The caller, if this serves a connection.
    fn connected(&self) -> Option<&Connected> {
        match &self.side {
            Side::Port(_) => None,
            Side::Connection(connected) => Some(connected),
        }
    }

    /// Of a definition that is refused.
    fn failure(&self, refusal: &Refusal) -> MintFailure {
        self.minter.calls().refuse(refusal.code());
        failure(refusal, self.minter.time().clock())
    }

    /// Of a call that is refused, and told of.
    fn refused(&self, kind: Option<Kind>, name: &str, n: u32, refusal: &Refusal) -> MintFailure {
        let visitor = self.visitor();
        let caller = visitor.as_deref().map_or(Caller::Label("unknown"), Visitor::caller);
        self.mint().tell(kind, name, n, caller, refusal);
        failure(refusal, self.minter.time().clock())
    }
}

/// The name that a call means.
fn named(name: &str) -> &str {
    if name.is_empty() { GeneratorName::DEFAULT } else { name }
}

/// The generator that a call means, if it is known here.
fn generator<'a>(minter: &'a Minter, kind: Option<Kind>, name: &str) -> Option<&'a Arc<Generator>> {
    let name = named(name);
    let kind = kind.or_else(|| minter.names().kind_of(name))?;
    minter.names().generator(kind, name).ok()
}

/// Bytes that a number of that name takes at most in a frame. A name that is not known here yet may turn out to have the longest.
fn number_len_max(minter: &Minter, kind: Option<Kind>, name: &str) -> usize {
    match generator(minter, kind, name) {
        Some(generator) if generator.namespace().numbers().is_none_or(|of| of.layout().bits() <= u64::BITS) => {
            U64_LEN_MAX
        }
        _ => U128_LEN_MAX,
    }
}

/// As many IDs of so many bytes as fit a frame.
fn in_a_frame(id_len_max: usize) -> u32 {
    u32::try_from((FRAME_LEN_MAX - FRAME_SLACK) / id_len_max.max(1)).unwrap_or(u32::MAX)
}

fn failure(refusal: &Refusal, clock: Clock) -> MintFailure {
    let retry_after_s = retry_after_s(refusal, clock);
    MintFailure { code: refusal.code(), detail: refusal.to_string(), retry_after_s }
}

/// The bytes that a text of that name takes at most until it is sent, in memory and in the frame. A name that is not known here yet may turn out to
/// have the longest texts.
fn text_weight(minter: &Arc<Minter>, kind: Option<Kind>, name: &str) -> usize {
    let Some(generator) = generator(minter, kind, name) else { return TEXT_WEIGHT };
    let template = generator.namespace().template();
    let len = template.map_or(ENCODED_LEN_MAX, |template| template.len());
    // Written into a buffer that is doubled until they fit.
    let buffer = len.next_power_of_two().max(TEXT_LEN_USUAL);
    buffer + len + size_of::<String>() + TEXT_HEAD_LEN_MAX + ALLOCATION_SLACK
}

/// The bytes that the answer to a request takes at most until it is sent.
fn weight(request: &MintServiceRequest, minter: &Arc<Minter>, batch_max: u32) -> usize {
    // More than that is refused.
    let ids = |n: u32| if n <= batch_max { n as usize } else { 0 };
    match request {
        // In memory and in the frame, each at most one byte longer than in memory.
        MintServiceRequest::Numbers { kind, name, n } => ids(*n) * (2 * number_len_max(minter, *kind, name) - 1),
        MintServiceRequest::Texts { kind, name, n, .. } => {
            (ids(*n) * text_weight(minter, *kind, name)).min(TEXTS_WEIGHT_MAX)
        }
        MintServiceRequest::SequenceMany { keys, .. } => sequences::weight(keys.len()),
        MintServiceRequest::DefineGenerator { .. } => DEFINED_WEIGHT,
        MintServiceRequest::SequenceRoutes { .. } => sequences::ROUTES_WEIGHT,
        MintServiceRequest::Sequence { .. }
        | MintServiceRequest::Authenticate { .. }
        | MintServiceRequest::SequenceCurrent { .. }
        | MintServiceRequest::Ready {} => 0,
    }
}

fn retry_after_s(refusal: &Refusal, clock: Clock) -> u32 {
    let seconds = |span: common::time::SpanMs| {
        let ms = clock.real(span.to_std()).as_millis();
        u32::try_from(ms.div_ceil(SECOND_MS.unsigned_abs().into())).unwrap_or(u32::MAX).max(1)
    };
    refusal.retry_after().map_or(0, seconds)
}

impl MintService for Calls {
    async fn numbers(self, _: Context, kind: Option<Kind>, name: String, n: u32) -> Result<MintedNumbers, MintFailure> {
        Ok(self.runs(kind, &name, n).await?.minted())
    }

    async fn texts(
        self,
        _: Context,
        kind: Option<Kind>,
        name: String,
        n: u32,
        biz: String,
        custom: String,
    ) -> Result<Vec<String>, MintFailure> {
        Box::pin(self.written(kind, &name, n, &biz, &custom)).await
    }

    async fn define_generator(self, _: Context, namespace: Namespace, dry_run: bool) -> Result<Defined, MintFailure> {
        let visitor = self.may(KeyAction::Define, namespace.name().as_str());
        let visitor = visitor.map_err(|e| self.refused(None, namespace.name().as_str(), 1, &e))?;
        let defined = match &self.names {
            Some(names) => Box::pin(names.define(visitor.caller(), &namespace, dry_run)).await,
            None => Err(Refusal::MastersUnavailable("this agent asks no masters about names".to_owned())),
        };
        let is_new = defined.map_err(|e| self.failure(&e))?;
        let sets = self.sequences.as_deref().map(Sequences::sets);
        Ok(Defined(Box::new(self.minter.preview(sets, namespace, is_new))))
    }

    async fn authenticate(self, _: Context, key: String) -> Result<(), MintFailure> {
        let now = || self.minter.time().wall();
        let none = Err(Refusal::LoginRequired("this is no connection"));
        let shown = self.connected().map_or(none, |connected| connected.show(&key, &self.access, now));
        shown.map_err(|e| self.failure(&e))
    }

    async fn ready(self, _: Context) -> Result<(), MintFailure> {
        self.minter.ready().map_err(|e| failure(&e, self.minter.time().clock()))
    }

    async fn sequence(self, _: Context, call: SequenceCall, slot: Slot, n: u32) -> Result<KeyReply, MintFailure> {
        let next = Box::pin(self.next_of(&call, slot, n)).await;
        next.map_err(|e| self.refused(Some(Kind::Sequence), &call.name, n, &e))
    }

    async fn sequence_many(
        self,
        _: Context,
        call: SequenceCall,
        keys: Vec<KeyAsked>,
    ) -> Result<KeysReply, MintFailure> {
        let next = Box::pin(self.next_of_many(&call, &keys)).await;
        next.map_err(|e| self.refused(Some(Kind::Sequence), &call.name, 1, &e))
    }

    async fn sequence_current(self, _: Context, call: SequenceCall, slot: Slot) -> Result<KeyReply, MintFailure> {
        let current = Box::pin(self.keyed(&call, &[KeyAsked { slot, n: 0 }])).await;
        let current = current.map(sequences::of_one);
        current.map_err(|e| self.refused(Some(Kind::Sequence), &call.name, 1, &e))
    }

    async fn sequence_routes(self, _: Context, name: String, from: Section) -> Result<SequenceRoutes, MintFailure> {
        let routes = match (&self.sequences, self.may(KeyAction::Mint, &name)) {
            (_, Err(refusal)) => Err(refusal),
            (Some(sequences), Ok(_)) => Box::pin(sequences.routes(&name, from)).await,
            (None, Ok(_)) => Err(sequences::none(&name)),
        };
        routes.map_err(|e| self.refused(Some(Kind::Sequence), &name, 1, &e))
    }
}

#[path = "rpc_sequences.rs"]
mod sequences;
#[cfg(test)]
#[path = "rpc_tests.rs"]
mod tests;
