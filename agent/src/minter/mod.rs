//! Minting: joins the clock, the leases, the serials and the serial file.
//!
//! A request takes its serials from an open [`Window`](crate::window::Window), without locks and without waiting. When there is none, or it
//! is used up or out of date, it queues for the slow path: one at a time and on a thread that may block, the
//! [`Engine`] lets it pass all gates again, makes durable what has to be, and only then opens a new window.
//!
//! What nobody does here: hand out a serial, a bucket, a millisecond or a token that the engine has not let through.
//!
//! The [`Minter`] is made of parts that know nothing of each other but what they are handed, and joins them where IDs leave (`mint.rs`,
//! `give.rs`), where names are learned (`learn.rs`), and here, where the engine is asked:
//!
//! | part | what |
//! |---|---|
//! | [`Time`] | the machine's time with the masters' correction, and its jumps |
//! | [`Session`] | the line of the serial file that this start goes on with |
//! | [`Driver`] | the engine under its lock, the queue before it, the threads that may wait for the disk, and the end of minting |
//! | [`Disk`] | how writing fares |
//! | [`Grants`] | leases and cluster, as all see them without a lock, and the [`Demand`] for further leases |
//! | [`KnownMasters`] | what is known of the masters themselves |
//! | [`Names`] | what names stand for, and the generators and series by which they are minted |
//! | [`Extras`] | secrets, strategies and plugins that definitions may refer to |
//! | [`Segments`] | segments of plain numbers: what masters are to be asked for, what came, who waits |
//! | [`Calls`] | calls that get no IDs, and shares of the last ones |

mod calls;
mod count;
mod demand;
mod disk;
mod driver;
mod extras;
mod generator;
mod give;
mod grants;
mod learn;
mod masters;
mod mint;
mod names;
mod registry;
mod segments;
mod series;
mod session;
mod state;
mod time;
mod view;
mod writer;

pub use crate::holder::Confirmation;
pub use calls::Calls;
pub use count::NameTotal;
pub use demand::Demand;
pub use disk::Disk;
pub use driver::Driver;
pub(crate) use engine::SegmentOutcome;
pub use engine::{Membership, RESERVED_PERCENT, RESERVED_PERCENTS};
pub use extras::Extras;
pub use generator::Generator;
pub(crate) use give::{Leaves, Minted};
pub use grants::Grants;
pub use masters::KnownMasters;
pub use names::Names;
pub(crate) use names::{Entry, NumberSource, Step};
pub(crate) use segments::Wanted;
pub use segments::{SegmentCounters, SegmentInUse, Segments};
pub(crate) use series::{Block, SerialSeries, Series, TickSeries};
pub use session::Session;
pub use time::{CachedClock, Time};
pub use view::GeneratorView;

use crate::holder::Leases;
use crate::plugin::AccountHolder;
use crate::refusal::Refusal;
use crate::serial::caller_per_hour;
use common::clock::Clock;
use common::encoding::Secrets;
use common::layout::RandomBits;
use common::namespace::{At, GeneratorName, Namespace, Preview};
use common::parameters::{ClusterId, ClusterParameters};
use common::strategy::Strategies;
use common::token::TokenType;
use driver::{PATIENCE, Turn};
use engine::{Engine, RESUME_WAIT, broken};
use serial_file::Opened;
use state::{Hands, State};
use std::sync::Arc;
use writer::Writer;

/// Everything that mints.
pub struct Minter {
    time: Time,
    session: Session,
    driver: Driver,
    disk: Disk,
    grants: Grants,
    masters: KnownMasters,
    names: Names,
    extras: Extras,
    segments: Segments,
    calls: Calls,
}

impl Minter {
    /// Minting from an opened serial file with these namespaces, under `leases` until told otherwise.
    ///
    /// # Errors
    /// A text for the operator, if a block of the file belongs to another definition of its name.
    pub fn new(opened: Opened, namespaces: Vec<Namespace>, leases: Leases, clock: Clock) -> Result<Arc<Self>, String> {
        let Opened { file, contents, holdings, start, renew_first } = opened;
        let session = Session { id: contents.header.session, start };
        let kept = holdings.leases.iter().map(|grant| (grant.key, grant.g)).collect();
        let resumed_until = (!renew_first).then(|| clock.link_now().boot + RESUME_WAIT);
        let engine = Engine::new(contents, holdings, leases, resumed_until);
        let mut engine = engine.with_random_bits(RandomBits::new(rand::random()));
        let names = Names::new(engine.contents().header.time_mark);
        for namespace in namespaces {
            if !namespace.plugins().is_empty() {
                return Err(format!("'{}' has plugins: it is defined after the start", namespace.name()));
            }
            let writer = Writer::of(&namespace, Secrets::NONE, Strategies::NONE);
            let known = Arc::new(namespace.clone());
            let at = names.generators().add(&mut engine, namespace, None, writer)?;
            names.serve(known, NumberSource::Generator(at));
        }
        let grants = Grants::new(engine.published().clone(), kept);
        Ok(Arc::new(Self {
            time: Time::new(clock),
            session,
            driver: Driver::new(State { engine, file }),
            disk: Disk::default(),
            grants,
            masters: KnownMasters::default(),
            names,
            extras: Extras::default(),
            segments: Segments::default(),
            calls: Calls::default(),
        }))
    }

    /// The time that minting goes by.
    #[inline]
    pub fn time(&self) -> &Time {
        &self.time
    }

    /// The line of the serial file that this start goes on with.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The slow path, and the end of minting.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// The state of writing.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// The leases and the cluster.
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Knowledge of the masters themselves.
    pub fn masters(&self) -> &KnownMasters {
        &self.masters
    }

    /// The meaning of names.
    #[inline]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The things that definitions may refer to.
    pub fn extras(&self) -> &Extras {
        &self.extras
    }

    /// Segments of plain numbers.
    pub fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Calls that get no IDs.
    pub fn calls(&self) -> &Calls {
        &self.calls
    }

    /// Waits for the slow path among other requests; before that, if IDs are wanted, for a lease that has to be asked for
    /// first, and for the renewal that a resumed session begins with.
    async fn queue_up(&self, holder: Option<AccountHolder>, wanted: Option<TokenType>) -> Result<Turn, Refusal> {
        let place = self.driver.place(holder)?;
        if let Some(token_type) = wanted {
            self.grants.settle(token_type, &self.time).await;
        }
        self.driver.turn(place).await
    }

    /// Runs `work` on a thread that may block, before any request that is not queued yet.
    pub(crate) async fn in_turn<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let (turn, minter) = (self.driver.own_turn().await, Arc::clone(self));
        Driver::on_a_thread(turn, move || work(&minter)).await
    }

    /// Lets the engine decide something.
    fn decide<T>(
        &self,
        question: impl FnOnce(&mut Engine, &mut Hands<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut state = self.driver.lock()?;
        let (engine, mut hands) = state.parts(self);
        question(engine, &mut hands)
    }

    /// Joins a cluster: durable, and for the life of the session.
    ///
    /// # Errors
    /// If it cannot be written, or the session belongs to another cluster already.
    pub fn join(&self, cluster: ClusterId, parameters: ClusterParameters) -> Result<(), Refusal> {
        self.decide(|engine, hands| engine.join(hands, cluster, parameters))
    }

    /// Makes durable that renewals up to this number may have been sent.
    ///
    /// # Errors
    /// If it cannot be written; then the renewal must not be sent.
    pub fn promise_rseq(&self, rseq: u64) -> Result<(), Refusal> {
        self.decide(|engine, hands| engine.promise_rseq(hands, rseq))
    }

    /// Takes over the holder's leases. What is lost is not used from this moment on, whatever else happens; what is
    /// gained is used once it is durable. `jumps` is how many jumps of the clock the holder has heard of.
    ///
    /// # Errors
    /// If it cannot be written; then what was gained is not used.
    pub fn set_leases(&self, leases: Leases, jumps: u64) -> Result<(), Refusal> {
        self.decide(|engine, hands| {
            let jumped = self.time.jumps() != jumps;
            engine.set_leases(hands, leases, jumped)
        })?;
        self.tell_if_ahead();
        Ok(())
    }

    /// Suspends every lease after a jump.
    ///
    /// # Errors
    /// If minting has ended.
    pub(crate) fn suspend(&self) -> Result<(), Refusal> {
        self.decide(|engine, hands| {
            engine.suspend(hands);
            Ok(())
        })
    }

    /// Lets every window pass the gates again, after the time changed.
    ///
    /// # Errors
    /// If minting has ended.
    pub(crate) fn regate(&self) -> Result<(), Refusal> {
        self.decide(|engine, hands| {
            let skew = self.time.skew();
            engine.regate(hands, skew);
            Ok(())
        })?;
        self.tell_if_ahead();
        Ok(())
    }

    /// Ends minting and writes back what was reserved and not used, so that a clean stop leaves no gap.
    ///
    /// # Errors
    /// If it cannot be written; then the next start begins at the durable marks, and the serials below are a gap.
    pub fn end(&self) -> Result<(), Refusal> {
        self.decide(|engine, hands| engine.end(hands))
    }

    /// A master of our list belongs to another cluster, which may grant our tokens to others. Nothing is minted from now
    /// on, and the leases are given up durably, so that a restart does not mint with them either: our own masters give
    /// them again once that address leads to one of them.
    ///
    /// # Errors
    /// If minting has ended, or the leases could not be given up; nothing is minted then either. Say it again.
    pub(crate) fn hear_stranger(&self, address: &str, there: ClusterId) -> Result<(), Refusal> {
        let known = self.grants.stranger(address) == Some(there);
        let given_up = self.decide(|engine, hands| engine.hear_stranger(hands, address, there));
        if !known {
            if let Some(wrong) = self.grants.wrong_cluster() {
                tracing::error!(%wrong, "minting stops");
            }
            self.masters.tell_of_stranger();
        }
        given_up
    }

    /// The master at that address is one of ours.
    ///
    /// # Errors
    /// If minting has ended.
    pub(crate) fn hear_own(&self, address: &str) -> Result<(), Refusal> {
        self.decide(|engine, hands| {
            engine.hear_own(hands, address);
            Ok(())
        })?;
        tracing::info!(%address, "this address leads to a master of our cluster again");
        Ok(())
    }

    /// The alarm that an operator of the masters has to see at once: code and sentence.
    pub(crate) fn alarm(&self) -> Option<String> {
        let refusal = self.contradiction(|_| true)?;
        Some(format!("{}: {refusal}", refusal.code()))
    }

    /// Gives what the masters contradict: the cluster, or one `of` our names.
    fn contradiction(&self, of: impl Fn(&Entry) -> bool) -> Option<Refusal> {
        let conflict = || Some(Refusal::GeneratorConflict { name: self.names.contradicted(of)? });
        self.grants.wrong_cluster().or_else(conflict)
    }

    /// Tells whether numbers of sections that masters list for this process can be given at all.
    ///
    /// # Errors
    /// The reason why not. Its sections belong to somebody who can.
    pub(crate) fn may_give_sections(&self) -> Result<(), Refusal> {
        self.may_give(|name| name.place() == Some(NumberSource::Keys))
    }

    /// Tells whether anything of these names can be given, as far as that depends on more than a lease.
    fn may_give(&self, of: impl Fn(&Entry) -> bool) -> Result<(), Refusal> {
        self.contradiction(of).or_else(|| self.disk.bounds_unwritten()).map_or(Ok(()), Err)
    }

    /// Tells whether IDs of every wanted type can be minted now, by every name that this agent serves.
    ///
    /// # Errors
    /// The reason why not.
    pub fn ready(&self) -> Result<(), Refusal> {
        self.driver.gone().or_else(|| self.disk.failed()).map_or(Ok(()), Err)?;
        self.may_give(|_| true)?;
        let wanted = self.grants.ready(&self.time)?;
        self.names.generators().ready(&wanted, &self.grants, &self.time)
    }

    /// Tells the operator once if what was minted before lies ahead of the clock.
    fn tell_if_ahead(&self) {
        let ahead = self.ready().err().filter(|refusal| matches!(refusal, Refusal::ClockBehind { .. }));
        if self.time.note_ahead(ahead.is_some()) {
            return;
        }
        if let Some(refusal) = ahead {
            tracing::error!(%refusal, "this agent is not ready: the times of its last IDs lie ahead of the clock");
        }
    }

    /// All generators, for that caller, or for this process. Waits for the disk if it is being written.
    ///
    /// # Errors
    /// If minting has ended or the disk does not answer.
    pub(crate) async fn view(self: &Arc<Self>, holder: Option<AccountHolder>) -> Result<Vec<GeneratorView>, Refusal> {
        let (turn, minter) = (self.queue_up(holder, None).await?, Arc::clone(self));
        let view = move || minter.names.view(&minter.driver.lock()?.engine, minter.time.wall());
        Driver::on_a_thread(turn, view).await?
    }

    /// The result of a definition that was made here or tried, where sections of these sets are served; with a warning to whoever
    /// registers that name here, if nobody, or not everybody, may get IDs by it.
    pub(crate) fn preview(&self, sets: Option<&[GeneratorName]>, namespace: Namespace, is_new: bool) -> Preview {
        // As it is served, which may be as it was registered long ago.
        let namespace = self.names.definition(namespace.kind(), namespace.name()).unwrap_or(namespace);
        let Self { time, grants, extras, .. } = self;
        let (secrets, strategies) = (extras.secrets(), extras.strategies());
        let at = At { now: time.wall(), offset: grants.utc_offset(), secrets, strategies };
        let width = namespace.sequences().map(|definition| definition.width());
        let no_tokens = namespace.token_type().and_then(|token_type| grants.never_leases(token_type));
        let warning = no_tokens.or_else(|| other_set(sets, &namespace)).or_else(|| namespace.used_up_in_a_day());
        let key_per_hour_by_caller = width.and_then(caller_per_hour);
        Preview { is_new, warning, key_per_hour_by_caller, ..namespace.preview(&at) }
    }
}

/// The reason why this agent gives no numbers of a sequence itself, if it does not. A misspelt set is served by nobody.
fn other_set(sets: Option<&[GeneratorName]>, namespace: &Namespace) -> Option<String> {
    let set = namespace.sequences()?.set();
    let sets = sets.filter(|sets| !sets.contains(set))?;
    let served = sets.iter().map(GeneratorName::as_str).collect::<Vec<_>>().join(", ");
    Some(format!(
        "this agent serves no sections of the set '{set}' (it serves: {served}): numbers come from agents that were started with it \
         among their --sets, and while there is none, from nobody"
    ))
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
