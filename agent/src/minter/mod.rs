//! Minting: joins the clock, the leases, the serials and the serial file.
//!
//! A request takes its serials from an open [`Window`], without locks and without waiting. When there is none, or it
//! is used up or out of date, it queues for the slow path: one at a time and on a thread that may block, the
//! [`Engine`] lets it pass all gates again, makes durable what has to be, and only then opens a new window.
//!
//! What nobody does here: hand out a serial, a bucket, a millisecond or a token that the engine has not let through.

mod background;
mod count;
mod demand;
mod keyed;
mod leases;
mod mint;
mod plugged;
mod ready;
mod registry;
mod segments;
mod state;
mod strangers;
mod view;

pub(crate) use crate::engine::Answer;
pub use crate::engine::{Membership, RESERVED_PERCENT, RESERVED_PERCENTS};
pub use crate::holder::Confirmation;
pub use background::CachedClock;
pub use count::NameTotal;
pub use mint::{Source, SourceRef};
pub(crate) use plugged::{Given, Leaves};
pub(crate) use registry::AxisWindow;
pub(crate) use segments::Wanted;
pub use segments::{SegmentCounters, SegmentInUse};
pub use view::{Counters, GeneratorView};

use crate::dev::Masters;
use crate::engine::{Engine, Published, RESUME_WAIT, UNIQ96_AXIS, broken};
use crate::gate::{Layout, Prefix};
use crate::holder::Leases;
use crate::plugin::{Plugins, Refusals, Shares};
use crate::refusal::{NAME_SHOWN_MAX, Refusal};
use crate::serial_file::{Opened, StartKind};
use crate::ticks::Reach;
use crate::timebase::Timebase;
use crate::window::Window;
use arc_swap::{ArcSwap, ArcSwapOption};
use common::clock::Clock;
use common::encoding::{Encoding, InvalidEncoding, Secrets};
use common::kind::Kind;
use common::layout::RandomBits;
use common::lease::Generation;
use common::namespace::{GeneratorName, Namespace};
use common::parameters::SessionId;
use common::strategy::Strategies;
use common::time::{BootMs, Now, SpanMs, WallMs};
use common::token::{TokenKey, TokenType};
use count::Tally;
use registry::{Axes, Ended, Registry};
use state::State;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::{Notify, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Requests that wait for the slow path at once; one more is refused.
const QUEUE_MAX: usize = 1_024;
/// How long a request waits for its turn, and then for the disk.
const PATIENCE: Duration = Duration::from_secs(5);

/// A named generator with its window.
#[derive(Debug)]
pub struct Generator {
    /// Its place among the serials.
    id: usize,
    number: u64,
    namespace: Namespace,
    layout: Layout,
    window: ArcSwap<Window<Prefix>>,
    /// Counted before a window is closed for good, so that blocks cut from it end with it.
    windows_ended: AtomicU64,
    /// The hour or day of its last IDs before this process; its windows know later ones.
    bucket_before: u32,
    /// The end of the hour or day of which it has nothing left, in milliseconds since 1970.
    exhausted_until: AtomicI64,
    /// If its IDs are of a tick: the axis, whose window names with the same layout share.
    axis: Option<Axis>,
    encoding: Option<Written>,
    /// Whether an ID was minted by its name: then the serial file knows of it.
    begun: AtomicBool,
    tally: Tally,
    /// Nothing is minted by its name any more: the registry says why.
    ended: AtomicBool,
    /// If its numbers come in segments.
    fetching: Option<Box<segments::Fetching>>,
    /// What stands before the generator that mints by its name.
    plugged: Option<plugged::Plugged>,
}

/// How the numbers of a name are written, or why they cannot be.
type Written = Result<Arc<Encoding>, InvalidEncoding>;

/// An axis of ticks and its window.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    at: usize,
    window: Arc<AxisWindow>,
    reach: Reach,
}

impl Generator {
    /// Its definition.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// How its numbers are written when nothing else is said; `None` of strings, and of Uniq64 in decimal.
    ///
    /// # Errors
    /// [`Refusal::CannotWrite`].
    pub fn encoding(&self) -> Result<Option<&Arc<Encoding>>, Refusal> {
        let encoding = self.encoding.as_ref().map(|encoding| encoding.as_ref()).transpose();
        encoding.map_err(|e| Refusal::CannotWrite(e.clone()))
    }

    /// Whether a window of its axis may be used by its name: it has not ended, and the serial file knows of it.
    fn gives_ticks(&self) -> bool {
        self.begun.load(Ordering::Acquire) && !self.ended.load(Ordering::Acquire)
    }

    /// The axis of ticks that its IDs are on.
    pub(crate) fn axis_window(&self) -> Option<&Arc<AxisWindow>> {
        self.axis.as_ref().map(|axis| &axis.window)
    }

    /// The same if it may be used by its name now, with where its IDs may lie; `None` if the long way has to be gone.
    pub(crate) fn ticks(&self) -> Option<(&AxisWindow, Reach)> {
        let axis = self.axis.as_ref().filter(|_| self.gives_ticks())?;
        Some((&axis.window, axis.reach))
    }

    /// Whether nothing is minted by its name any more. What was taken of a window that it shares is a gap then.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn kind(&self) -> Kind {
        self.namespace.kind()
    }
}

/// Everything that mints.
pub struct Minter {
    clock: Clock,
    /// Calendar minus machine time, in milliseconds.
    offset: AtomicI64,
    time: Mutex<Timebase>,
    /// How often the clock has jumped since the start.
    jumps: AtomicU64,
    published: ArcSwap<Published>,
    generators: Registry,
    keyed: keyed::Keyed,
    uniq96: Arc<AxisWindow>,
    /// The windows of all axes of ticks, that of Uniq96 first.
    axes: Axes,
    state: Mutex<State>,
    /// Whoever has it is the one in the slow path; those who wait for it wait without a thread.
    turn: Arc<tokio::sync::Mutex<()>>,
    queue: Arc<Semaphore>,
    why: ArcSwapOption<String>,
    stranger_heard: tokio::sync::Notify,
    /// Masters of our list whose whitelist does not have our address.
    refusing: Mutex<BTreeSet<String>>,
    demand: demand::Demand,
    desk: segments::Desk,
    /// What `ff1` writes by.
    secrets: OnceLock<Secrets>,
    /// What makes the texts of names whose encoding is a strategy.
    strategies: OnceLock<Strategies>,
    file_works: AtomicBool,
    /// Whether what was minted before lies ahead of the clock, as the operator was told.
    ahead: AtomicBool,
    /// Why bounds of sections cannot be written down.
    bounds_unwritten: ArcSwapOption<String>,
    counters: Counters,
    /// The last IDs of hours and days that callers took.
    shares: Mutex<Shares<usize>>,
    session: SessionId,
    start: StartKind,
    /// The leases that the session had when it was resumed.
    kept: Vec<(TokenKey, Generation)>,
    /// Told when the leases have changed.
    leases_changed: Notify,
    background: background::Background,
    gone: CancellationToken,
    gone_why: OnceLock<String>,
    /// Set once: before the first name that has plugins is learned.
    plugins: OnceLock<Plugins>,
    /// Those of a process that needs no others.
    own_masters: OnceLock<Masters>,
    refusals: Refusals,
}

type Turn = (OwnedMutexGuard<()>, Option<OwnedSemaphorePermit>);

impl Minter {
    /// Minting from an opened serial file with these namespaces, under `leases` until told otherwise.
    ///
    /// # Errors
    /// A text for the operator, if a block of the file belongs to another definition of its name.
    pub fn new(opened: Opened, namespaces: Vec<Namespace>, leases: Leases, clock: Clock) -> Result<Arc<Self>, String> {
        let Opened { file, contents, holdings, start, renew_first } = opened;
        let session = contents.header.session;
        let kept = holdings.leases.iter().map(|grant| (grant.key, grant.g)).collect();
        let resumed_until = (!renew_first).then(|| clock.link_now().boot + RESUME_WAIT);
        let engine = Engine::new(contents, holdings, leases, resumed_until);
        let mut engine = engine.with_random_bits(RandomBits::new(rand::random()));
        let (generators, axes) = (Registry::new(), Axes::new(engine.contents().header.uniq96_mark));
        for namespace in namespaces {
            if !namespace.plugins().is_empty() || plugged::texts_of(&namespace).is_some() {
                return Err(format!(
                    "'{}' has plugins, a strategy or an encoding of Uniq64: it is defined after the start",
                    namespace.name()
                ));
            }
            let id = engine.add(&namespace)?;
            let generator = generator(id, namespace, (engine.bucket_of(id), engine.axis_of(id)), &axes, None)?;
            generators.add(Arc::new(generator), None)?;
        }
        let time = Timebase::start(clock.now());
        let published = engine.published().clone();
        let state = State { engine, file };
        Ok(Arc::new(Self {
            clock,
            offset: AtomicI64::new(time.offset()),
            time: Mutex::new(time),
            jumps: AtomicU64::new(0),
            published: ArcSwap::from_pointee(published),
            generators,
            keyed: keyed::Keyed::default(),
            uniq96: axes.window(UNIQ96_AXIS).ok_or("there is no room for Uniq96")?,
            axes,
            state: Mutex::new(state),
            turn: Arc::default(),
            queue: Arc::new(Semaphore::new(QUEUE_MAX)),
            why: ArcSwapOption::empty(),
            stranger_heard: tokio::sync::Notify::new(),
            refusing: Mutex::default(),
            demand: demand::Demand::default(),
            desk: segments::Desk::default(),
            secrets: OnceLock::new(),
            strategies: OnceLock::new(),
            file_works: AtomicBool::new(true),
            ahead: AtomicBool::new(false),
            bounds_unwritten: ArcSwapOption::empty(),
            counters: Counters::default(),
            shares: Mutex::default(),
            session,
            start,
            kept,
            leases_changed: Notify::new(),
            background: background::Background::default(),
            gone: CancellationToken::new(),
            gone_why: OnceLock::new(),
            plugins: OnceLock::new(),
            own_masters: OnceLock::new(),
            refusals: Refusals::default(),
        }))
    }

    /// Writes names whose encoding needs a secret by these. Said once, before names are learned.
    pub fn keep_secrets(&self, secrets: Secrets) {
        // The first ones stay.
        let _ = self.secrets.set(secrets);
    }

    /// What it was told to write by.
    pub fn secrets(&self) -> &Secrets {
        self.secrets.get().unwrap_or(Secrets::NONE)
    }

    /// Writes names whose encoding is a strategy by these. Said once, before names are learned.
    pub fn keep_strategies(&self, strategies: Strategies) {
        // The first ones stay.
        let _ = self.strategies.set(strategies);
    }

    /// What it was told to write by.
    pub fn strategies(&self) -> &Strategies {
        self.strategies.get().unwrap_or(Strategies::NONE)
    }

    /// Asks these, and no others. Said once, before anybody is asked.
    pub(crate) fn keep_masters(&self, masters: Masters) {
        let _ = self.own_masters.set(masters);
    }

    /// The masters that this process is itself, if it is.
    pub(crate) fn own_masters(&self) -> Option<&Masters> {
        self.own_masters.get()
    }

    fn encoding_of(&self, namespace: &Namespace) -> Option<Written> {
        namespace.written_by(self.secrets(), self.strategies()).transpose()
    }

    /// Whether the IDs of that name can be written here.
    ///
    /// # Errors
    /// [`Refusal::CannotWrite`].
    pub fn can_write(&self, namespace: &Namespace) -> Result<(), Refusal> {
        namespace.written_by(self.secrets(), self.strategies()).map(drop).map_err(Refusal::CannotWrite)
    }

    /// The generator of that kind and name.
    ///
    /// # Errors
    /// [`Refusal::UnknownGenerator`], also for what could not be a name; [`Refusal::GeneratorConflict`],
    /// [`Refusal::GeneratorRetired`].
    pub fn generator(&self, kind: Kind, name: &str) -> Result<&Arc<Generator>, Refusal> {
        if let Some(ended) = self.generators.ended(name) {
            return Err(ended);
        }
        let found = self.generators.get(kind, name);
        found.ok_or_else(|| Refusal::UnknownGenerator { kind, name: name.chars().take(NAME_SHOWN_MAX).collect() })
    }

    /// The kind of the generator that has this name; that of `default` is Uniq64. `None` if there is none here.
    pub fn kind_of(&self, name: &str) -> Option<Kind> {
        let keyed = || self.keyed(name).ok().map(|_| Kind::Sequence);
        Kind::NAMED.into_iter().find(|kind| self.generators.get(*kind, name).is_some()).or_else(keyed)
    }

    /// Waits for the slow path among other requests; before that, if IDs are wanted, for a lease that has to be asked for
    /// first, and for the renewal that a resumed session begins with.
    async fn queue_up(&self, wanted: Option<TokenType>) -> Result<Turn, Refusal> {
        let place = Arc::clone(&self.queue).try_acquire_owned();
        let place = place.map_err(|_| Refusal::Overloaded("too many requests wait for the serial file"))?;
        if let Some(token_type) = wanted {
            self.leased(token_type).await;
            self.resumed(token_type).await;
        }
        let turn = tokio::time::timeout(PATIENCE, Arc::clone(&self.turn).lock_owned()).await;
        Ok((turn.map_err(|_| slow_disk())?, Some(place)))
    }

    /// Runs `work` on a thread that may block. Whoever waits for it gives up after a while; the work itself goes on.
    async fn on_a_thread<T: Send + 'static>(
        self: &Arc<Self>,
        turn: Turn,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let minter = Arc::clone(self);
        let work = tokio::task::spawn_blocking(move || {
            let _until_done = turn;
            work(&minter)
        });
        match tokio::time::timeout(PATIENCE, work).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(_)) => Err(broken()),
            Err(_) => Err(slow_disk()),
        }
    }

    /// Runs `work` on a thread that may block, before any request that is not queued yet.
    pub(crate) async fn in_turn<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        self.on_a_thread((turn, None), work).await
    }

    /// What time it is: the machine's own time with the masters' correction.
    #[inline]
    pub fn wall(&self) -> WallMs {
        WallMs(self.clock.boot().0.saturating_add(self.offset.load(Ordering::Relaxed)))
    }

    /// Calendar and machine time, as fast as the clock runs.
    pub fn now(&self) -> Now {
        let boot = self.clock.boot();
        Now { wall: WallMs(boot.0.saturating_add(self.offset.load(Ordering::Relaxed))), boot }
    }

    /// Machine time as it is, even by a test clock.
    fn real_boot(&self) -> BootMs {
        self.clock.link_now().boot
    }

    /// How many times faster than real time the clock runs.
    fn scale(&self) -> u32 {
        self.clock.test_clock().map_or(1, |test| test.scale)
    }

    /// The clock that everything goes by.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The unbroken line of the serial file.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Whether this start continued it.
    pub fn start(&self) -> &StartKind {
        &self.start
    }

    /// Tells whether minting has ended for good.
    pub fn is_gone(&self) -> bool {
        self.gone.is_cancelled()
    }

    /// Resolves when minting has ended for good, because someone else has the serial file.
    pub async fn gone(&self) -> String {
        self.gone.cancelled().await;
        self.gone_why.get().cloned().unwrap_or_default()
    }

    /// What the masters said last when they did not do as asked; it completes what callers are told.
    pub fn explain(&self, why: Option<String>) {
        self.why.store(why.map(Arc::new));
    }

    fn why(&self) -> String {
        self.why.load().as_deref().cloned().unwrap_or_else(|| "the masters have not granted one yet".to_owned())
    }
}

/// What became of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defined {
    /// It is served from now on.
    New,
    /// It was served before.
    Known,
}

impl Minter {
    /// Serves a further generator, as the masters define it. Blocks while the serial file is written.
    ///
    /// # Errors
    /// [`Refusal::GeneratorConflict`] if it stands for something else here; then nothing is minted by that name any more.
    /// Others if there is no room, or minting has ended.
    pub(crate) fn define(&self, namespace: Namespace) -> Result<Defined, Refusal> {
        // Before the lock, for which all names wait: a strategy of an application may take its time to get ready.
        let kind = namespace.kind();
        let known = self.generators.alias(namespace.name()).is_some()
            || self.generators.of_name(kind, namespace.name()).is_some();
        let encoding = if known { None } else { self.encoding_of(&namespace) };
        let mut state = self.lock()?;
        let name = namespace.name().clone();
        let conflict = || Refusal::GeneratorConflict { name: name.clone() };
        if let Some(known) = self.generators.alias(&name) {
            if known.same_ids(&namespace) {
                return Ok(Defined::Known);
            }
            self.generators.end(&name, Ended::Contradicted);
            return Err(conflict());
        }
        if let Some(known) = self.generators.of_name(namespace.kind(), &name) {
            if known.namespace.same_ids(&namespace) && !known.ended.load(Ordering::Acquire) {
                return Ok(Defined::Known);
            }
            self.end_generator(&mut state, known, Ended::Contradicted);
            return Err(conflict());
        }
        let full = || Refusal::Overloaded("there are as many generators as there may be");
        if namespace.shares_serials() {
            let default = self.generators.get(namespace.kind(), GeneratorName::DEFAULT).cloned();
            let plugged = match default {
                Some(default) => self.plugged(&namespace, &default, encoding).ok_or_else(full)?,
                None => return Err(full()),
            };
            return if self.generators.add_alias(namespace, plugged) { Ok(Defined::New) } else { Err(full()) };
        }
        if !self.generators.has_room() {
            return Err(full());
        }
        if namespace.sequences().is_some() {
            return self.define_keyed(namespace);
        }
        if self.keyed.contains(&name) {
            self.generators.end(&name, Ended::Contradicted);
            return Err(conflict());
        }
        if Layout::of(&namespace).is_none() {
            return Err(Refusal::UnknownGenerator { kind: namespace.kind(), name: name.to_string() });
        }
        let id = state.engine.add(&namespace).map_err(|_| {
            self.generators.end(&name, Ended::Contradicted);
            conflict()
        })?;
        let at = (state.engine.bucket_of(id), state.engine.axis_of(id));
        let generator = generator(id, namespace.clone(), at, &self.axes, encoding.clone());
        let generator = Arc::new(generator.map_err(|_| conflict())?);
        let plugged = self.plugged(&namespace, &generator, encoding).ok_or_else(full)?;
        self.generators.add(generator, plugged).map_err(|_| full())?;
        Ok(Defined::New)
    }
}

fn generator(
    id: usize,
    namespace: Namespace,
    (bucket_before, axis): (u32, Option<usize>),
    axes: &Axes,
    encoding: Option<Written>,
) -> Result<Generator, String> {
    let kind = namespace.kind();
    let layout = Layout::of(&namespace).ok_or_else(|| format!("a generator of kind {kind} keeps no serials"))?;
    let window = ArcSwap::from_pointee(Window::closed(Prefix::Void));
    let axis = axis.map(|at| {
        let window = axes.window(at).ok_or("there are more layouts than there may be")?;
        let reach = namespace.layout().map_or_else(|| SpanMs(0).into(), Reach::from);
        Ok::<_, String>(Axis { at, window, reach })
    });
    let axis = axis.transpose()?;
    let (number, windows_ended, exhausted_until) =
        (Generator::next_number(), AtomicU64::new(0), AtomicI64::new(i64::MIN));
    let (tally, begun, ended) = (Tally::default(), AtomicBool::new(false), AtomicBool::new(false));
    let fetching = namespace.segments().map(|_| Box::default());
    Ok(Generator {
        id,
        number,
        namespace,
        layout,
        window,
        windows_ended,
        bucket_before,
        exhausted_until,
        axis,
        encoding,
        begun,
        tally,
        ended,
        fetching,
        plugged: None,
    })
}

fn slow_disk() -> Refusal {
    Refusal::SerialFileIo(format!("the disk has not answered for {} s", PATIENCE.as_secs()))
}

#[cfg(test)]
mod blocks_tests;
#[cfg(test)]
pub(crate) mod kit;
#[cfg(test)]
mod plugged_tests;
#[cfg(test)]
mod ready_tests;
#[cfg(test)]
mod segment_tests;
#[cfg(test)]
mod shares_tests;
#[cfg(test)]
mod tests;
