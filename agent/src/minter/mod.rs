//! Minting: joins the clock, the leases, the serials and the serial file.
//!
//! A request takes its serials from an open [`Window`](crate::window::Window), without locks and without waiting. When there is none, or it
//! is used up or out of date, it queues for the slow path: one at a time and on a thread that may block, the
//! [`Engine`] lets it pass all gates again, makes durable what has to be, and only then opens a new window.
//!
//! What nobody does here: hand out a serial, a bucket, a millisecond or a token that the engine has not let through.

mod background;
mod count;
mod demand;
mod generator;
mod give;
mod learn;
mod leases;
mod mint;
mod names;
mod ready;
mod registry;
mod segments;
mod series;
mod state;
mod strangers;
mod view;
mod writer;

pub(crate) use crate::engine::SegmentOutcome;
pub use crate::engine::{Membership, RESERVED_PERCENT, RESERVED_PERCENTS};
pub use crate::holder::Confirmation;
pub use background::CachedClock;
pub use count::NameTotal;
pub use generator::Generator;
pub(crate) use give::{Leaves, Minted};
pub(crate) use names::{Entry, LocalState, Names, NumberSource, Step};
pub(crate) use segments::Wanted;
pub use segments::{SegmentCounters, SegmentInUse};
pub(crate) use series::{Block, SerialSeries, Series, TickSeries};
pub use view::{Counters, GeneratorView};

use crate::dev::Masters;
use crate::engine::{Engine, Published, RESUME_WAIT, broken};
use crate::holder::Leases;
use crate::plugin::{Plugins, Refusals, Shares};
use crate::refusal::Refusal;
use crate::serial_file::{Opened, StartKind};
use crate::timebase::Timebase;
use arc_swap::{ArcSwap, ArcSwapOption};
use common::clock::Clock;
use common::encoding::Secrets;
use common::kind::Kind;
use common::layout::RandomBits;
use common::lease::Generation;
use common::namespace::{GeneratorName, Namespace};
use common::parameters::SessionId;
use common::strategy::Strategies;
use common::time::{BootMs, Now, WallMs};
use common::token::{TokenKey, TokenType};
use registry::{Axes, Registry};
use state::State;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::{Notify, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use writer::Writer;

/// Requests that wait for the slow path at once; one more is refused.
const QUEUE_MAX: usize = 1_024;
/// The time that a request waits for its turn, and then for the disk.
const PATIENCE: Duration = Duration::from_secs(5);

/// Everything that mints.
pub struct Minter {
    clock: Clock,
    /// Calendar minus machine time, in milliseconds.
    offset: AtomicI64,
    time: Mutex<Timebase>,
    /// The number of times that the clock has jumped since the start.
    jumps: AtomicU64,
    published: ArcSwap<Published>,
    generators: Registry,
    /// The table of what names stand for.
    pub(crate) names: Names,
    /// Told when a further sequence becomes known.
    keyed_learned: Notify,
    /// The windows of all axes of ticks.
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
    refills: segments::RefillQueue,
    /// What `ff1` writes by.
    secrets: OnceLock<Secrets>,
    /// What makes the texts of names whose encoding is a strategy.
    strategies: OnceLock<Strategies>,
    file_works: AtomicBool,
    /// True if what was minted before lies ahead of the clock, as the operator was told.
    ahead: AtomicBool,
    /// The reason why bounds of sections cannot be written down.
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
        let (generators, names, axes) = (Registry::new(), Names::new(), Axes::new(engine.contents().header.time_mark));
        for namespace in namespaces {
            if !namespace.plugins().is_empty() {
                return Err(format!("'{}' has plugins: it is defined after the start", namespace.name()));
            }
            let writer = Writer::of(&namespace, Secrets::NONE, Strategies::NONE);
            let known = Arc::new(namespace.clone());
            let at = generators.add(&mut engine, &axes, namespace, None, writer)?;
            names.serve(known, NumberSource::Generator(at));
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
            names,
            keyed_learned: Notify::new(),
            axes,
            state: Mutex::new(state),
            turn: Arc::default(),
            queue: Arc::new(Semaphore::new(QUEUE_MAX)),
            why: ArcSwapOption::empty(),
            stranger_heard: tokio::sync::Notify::new(),
            refusing: Mutex::default(),
            demand: demand::Demand::default(),
            refills: segments::RefillQueue::default(),
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

    /// Tells whether the IDs of that name can be written here.
    ///
    /// # Errors
    /// [`Refusal::CannotWrite`].
    pub fn can_write(&self, namespace: &Namespace) -> Result<(), Refusal> {
        namespace.written_by(self.secrets(), self.strategies()).map(drop).map_err(Refusal::CannotWrite)
    }

    /// The generator of that kind and name; of a kind without names the one that there is.
    ///
    /// # Errors
    /// [`Refusal::UnknownGenerator`], also for what could not be a name; [`Refusal::GeneratorConflict`],
    /// [`Refusal::GeneratorRetired`].
    pub fn generator(&self, kind: Kind, name: &str) -> Result<&Arc<Generator>, Refusal> {
        let name = if kind.spec().definition.is_some() { name } else { GeneratorName::DEFAULT };
        let found = match self.names.look(name, |known| known.source()).transpose()? {
            Some(Some(NumberSource::Generator(slot))) => self.generators.at(slot).filter(|it| it.kind() == kind),
            Some(Some(NumberSource::Keys) | None) => None,
            None => self.generators.default(kind).filter(|_| name == GeneratorName::DEFAULT),
        };
        found.ok_or_else(|| Refusal::unknown(kind, name))
    }

    /// The kind of the generator that has this name. `None` if there is none here.
    pub fn kind_of(&self, name: &str) -> Option<Kind> {
        let is_known = |known: &Arc<Entry>| matches!(known.local, LocalState::Served(_) | LocalState::Ended(..));
        let known = self.names.look(name, |known| is_known(known).then(|| known.namespace.kind()));
        known.unwrap_or_else(|| (name == GeneratorName::DEFAULT).then(Kind::default))
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

    /// The number of times faster than real time the clock runs.
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

    /// Tells whether this start continued it.
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

fn slow_disk() -> Refusal {
    Refusal::SerialFileIo(format!("the disk has not answered for {} s", PATIENCE.as_secs()))
}

#[cfg(test)]
mod blocks_tests;
#[cfg(test)]
mod give_tests;
#[cfg(test)]
pub(crate) mod kit;
#[cfg(test)]
mod ready_tests;
#[cfg(test)]
mod segment_tests;
#[cfg(test)]
mod shares_tests;
#[cfg(test)]
mod tests;
