//! Sequences at an agent: sections that both masters list for this process, the numbers of their keys, and the way to whoever serves the rest.
//!
//! [`crate::sequence`] decides; here are the clock, the locks, the masters' connections and those to other agents. A start of the program is a
//! session of its own to the masters, unless what the process before wrote down of its sections is proved to be all of it (`durable`): one
//! that went on without could load sections from a master that has not heard of the last raise.
//!
//! Calls read the clock after they were read themselves, and before they take a number; one that has to wait reads it again. No call waits
//! for ever, and only so many wait at once.

mod counts;
mod durable;
mod forward;
mod keep;
mod name;
mod raise;
mod routes;
mod serve;
#[cfg(feature = "server")]
#[cfg(test)]
pub(crate) mod tests;
mod unload;
mod waiting;

pub(crate) use counts::{COUNTED, GAUGES};
pub use counts::{Counts, SequenceView};
pub(crate) use name::{Name, admits};
pub use serve::{Call, CallOutcome, Outcome};

use crate::catalog::Catalog;
use crate::masters::Masters;
use crate::minter::{Minter, NumberSource};
use crate::plugin::Shares;
use crate::refusal::Refusal;
use crate::sequence::Allocator;
use arc_swap::ArcSwap;
use common::clock::Clock;
use common::namespace::{GeneratorName, Namespace};
#[cfg(feature = "server")]
use common::parameters::ClusterId;
use common::sequence::{SequenceDefinition, ServedAt, Slot};
use durable::Durable;
use forward::Forwards;
use keep::Hurried;
use raise::Raises;
use routes::Asks;
use serial_file::{BOUNDS_MAX, SectionFile, SectionsStart};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use waiting::{OfCallers, Rooms};

/// Memory for keys if nothing else is said, in bytes.
pub const MEMORY_DEFAULT: u64 = 1 << 30;
/// The least that one can work with: what is remembered of all sections that masters give to anybody takes half of it, however many of them
/// come to this agent, and the other half is for those that are in use and their keys.
pub const MEMORY_MIN: u64 = 16 << 20;
const _: () = assert!(2 * BOUNDS_MAX * unload::FLOOR_LEN <= MEMORY_MIN as usize);

/// Connections that callers have if nothing else is said.
const CONNECTIONS_DEFAULT: usize = 4_096;

/// The settings of an agent's sequences.
#[derive(Clone, Debug)]
pub struct SequenceSettings {
    /// The sets that we serve.
    pub sets: Vec<GeneratorName>,
    /// Memory for keys, in bytes.
    pub memory: u64,
    /// The address at which others reach us.
    pub address: ServedAt,
}

impl SequenceSettings {
    /// The address, if one of them is so, that leads whoever is told of it to its own machine, though there is a master elsewhere, and so
    /// perhaps other agents.
    fn address_of_this_machine_only<'a>(&self, mut masters: impl Iterator<Item = &'a str>) -> Option<&str> {
        let is_own = |at: &&str| {
            let host = at.rsplit_once(':').map_or(*at, |(host, _)| host).trim_matches(['[', ']']);
            host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        };
        let all_here = masters.all(|master| is_own(&master));
        [self.address.http.as_str(), self.address.rpc.as_str()].into_iter().find(is_own).filter(|_| !all_here)
    }
}

/// All sequences of an agent.
pub struct Sequences {
    settings: SequenceSettings,
    masters: Arc<Masters>,
    address_looked_at: Once,
    clock: Clock,
    minter: Arc<Minter>,
    /// The catalog to ask about names; `None`: there are only those that the minter was given.
    names: Option<Arc<Catalog>>,
    durable: Durable,
    allocator: Mutex<Allocator>,
    /// The place from which receipts of lost sections are taken next.
    receipts_from: AtomicUsize,
    served: ArcSwap<BTreeMap<String, Arc<Name>>>,
    /// Memory of sections and keys, in bytes.
    memory: AtomicUsize,
    counts: Counts,
    /// The numbers that callers took of keys of 32 bits that are asked for much.
    shares: Mutex<Shares<(GeneratorName, Slot)>>,
    raises: Raises,
    asks: Asks,
    forwards: Forwards,
    /// As many as callers have over HTTP, where each that waits keeps one.
    connections: usize,
    waiting: Rooms,
    of_callers: OfCallers,
    /// Sections, by master, for which calls wait, and which it is asked for at once.
    hurried: Box<[Hurried]>,
    /// Told when a master is to be asked sooner for all of ours than it was to be.
    kept_sooner: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sequences {
    /// Of a program that starts now.
    pub(crate) fn new(settings: SequenceSettings, masters: Arc<Masters>, names: Option<Arc<Catalog>>) -> Self {
        let minter = Arc::clone(&masters.minter);
        let clock = minter.time().clock();
        let allocator = Allocator::new(masters.len(), clock.boot());
        Self {
            clock,
            minter,
            names,
            durable: Durable::none(),
            allocator: Mutex::new(allocator),
            receipts_from: AtomicUsize::new(0),
            served: ArcSwap::default(),
            memory: AtomicUsize::new(0),
            counts: Counts::default(),
            shares: Mutex::new(Shares::by_hour()),
            raises: Raises::default(),
            asks: Asks::default(),
            forwards: Forwards::new(CONNECTIONS_DEFAULT),
            connections: CONNECTIONS_DEFAULT,
            waiting: Rooms::of_all(CONNECTIONS_DEFAULT),
            of_callers: OfCallers::new(CONNECTIONS_DEFAULT),
            hurried: (0..masters.len()).map(|_| Hurried::default()).collect(),
            kept_sooner: Notify::new(),
            settings,
            masters,
            address_looked_at: Once::new(),
        }
    }

    /// With this file of bounds; `found` says whether their session goes on.
    #[must_use]
    pub fn with_bounds(self, file: SectionFile, found: &SectionsStart) -> Self {
        Self { durable: Durable::new(file, found), ..self }
    }

    /// With callers that have so many HTTP connections: some stay for calls that need not wait.
    #[must_use]
    pub fn with_connections(self, connections: usize) -> Self {
        let (forwards, waiting) = (Forwards::new(connections), Rooms::of_all(connections));
        let of_callers = OfCallers::new(connections);
        Self { forwards, connections, waiting, of_callers, ..self }
    }

    /// Keeps sections, raises bounds and learns routes until `stop`; then the masters are told that this process leaves.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let session = tokio::select! {
            () = stop.cancelled() => return,
            session = self.settle() => session,
        };
        let all = 0..self.masters.len();
        let keeps = all.clone().map(|at| Arc::clone(&self).keep(at, session, stop.clone()));
        let hurried = all.map(|at| self.keep_hurried(at, session, &stop));
        let tasks = async {
            tokio::join!(
                self.raise(session),
                self.raise_left(session),
                self.ask_routes(),
                self.watch_memory(),
                self.note_lost(),
                futures::future::join_all(hurried)
            );
        };
        tokio::select! {
            _ = futures::future::join_all(keeps) => {}
            () = tasks => {}
        }
    }

    /// The name as it is served here, for calls for up to `n` numbers of a key; the masters may have to be asked about it.
    ///
    /// # Errors
    /// [`Refusal::UnknownGenerator`], [`Refusal::BadParameter`], and all that asking may come to.
    pub(crate) async fn name(&self, name: &str, n: u32) -> Result<Arc<Name>, Refusal> {
        if let Some(wrong) = self.minter.grants().wrong_cluster() {
            return Err(wrong);
        }
        let known = match (self.minter.names().keyed(name), &self.names) {
            (Err(_), Some(names)) => {
                Box::pin(names.look_up(name, |heard| admits(heard, n))).await?;
                self.minter.names().keyed(name)?
            }
            (known, _) => known?,
        };
        let served = self.serve(&known)?;
        served.admits(n)?;
        Ok(served)
    }

    /// Tells whether a call may come from a caller of that cluster; `None`: it does not say.
    ///
    /// # Errors
    /// [`Refusal::CallOfAnotherCluster`]: an address that the caller knows from long ago leads here by now.
    #[cfg(feature = "server")]
    pub(crate) fn same_cluster(&self, caller: Option<ClusterId>) -> Result<(), Refusal> {
        match (caller, self.minter.grants().membership().cluster) {
            (Some(there), Some(here)) if there != here => Err(Refusal::CallOfAnotherCluster { here, there }),
            _ => Ok(()),
        }
    }

    /// Tells whether what a caller says of its cluster is true now, and will be: this agent belongs to that one, or the caller says nothing.
    #[cfg(feature = "server")]
    pub(crate) fn is_of(&self, cluster: Option<ClusterId>) -> bool {
        cluster.is_none() || cluster == self.minter.grants().membership().cluster
    }

    /// The name as it is served here, if nobody has to be asked about it and its numbers may be given.
    #[cfg(feature = "server")]
    pub(crate) fn known(&self, name: &str) -> Option<Arc<Name>> {
        if self.minter.grants().wrong_cluster().is_some() {
            return None;
        }
        self.serve(&self.minter.names().keyed(name).ok()?).ok()
    }

    /// Looks again whether numbers of a name may be given, for a call that learned of the name before.
    ///
    /// # Errors
    /// The reason why not.
    pub(crate) fn gives(&self, name: &Name) -> Result<(), Refusal> {
        self.minter.grants().wrong_cluster().map_or(Ok(()), Err)?;
        self.minter.names().keyed(name.name().as_str()).map(drop)
    }

    /// The name's sections, made when they are needed first.
    fn serve(&self, namespace: &Arc<Namespace>) -> Result<Arc<Name>, Refusal> {
        let text = namespace.name().as_str();
        let definition = namespace.sequences().ok_or_else(|| Refusal::unknown_name(text))?;
        if let Some(name) = self.served.load().get(text) {
            return Ok(Arc::clone(name));
        }
        // The lock keeps a master's answer from being published between the two lines.
        let allocator = lock(&self.allocator);
        let mut all = BTreeMap::clone(&self.served.load());
        if let Some(name) = all.get(text) {
            return Ok(Arc::clone(name));
        }
        let name = Arc::new(Name::new(namespace, definition, self.connections));
        self.publish(&name, allocator.held(namespace.name()));
        all.insert(text.to_owned(), Arc::clone(&name));
        self.served.store(Arc::new(all));
        Ok(name)
    }

    /// The sets that this agent serves.
    pub fn sets(&self) -> &[GeneratorName] {
        &self.settings.sets
    }

    /// Tells whether it serves that one.
    pub fn serves_set(&self, set: &GeneratorName) -> bool {
        self.settings.sets.contains(set)
    }

    /// Tells whether there is a sequence that this agent serves.
    fn is_needed(&self) -> bool {
        let is_served = |one: &SequenceDefinition| self.serves_set(one.set());
        let names = self.minter.names();
        names.any(|name| name.place() == Some(NumberSource::Keys) && name.namespace.sequences().is_some_and(is_served))
    }

    /// Sections are about to be served: others have to reach this agent then. Said once.
    fn look_at_address(&self) {
        self.address_looked_at.call_once(|| {
            let alone = self.minter.masters().own().is_some();
            if let Some(at) = self.settings.address_of_this_machine_only(self.masters.addresses()).filter(|_| !alone) {
                tracing::warn!(
                    %at,
                    "this agent advertises an address that leads other machines to themselves: give its \
                     addresses with --advertise-http and --advertise-rpc"
                );
            }
        });
    }

    /// The counts since the start.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The state of all sequences.
    pub fn view(&self) -> SequenceView {
        let now = self.clock.boot();
        let (lease, masters_answering) = {
            let allocator = lock(&self.allocator);
            (allocator.lease(), allocator.answering())
        };
        let mut view = SequenceView {
            lease_ms: lease.0,
            masters_answering,
            memory: self.memory.load(Ordering::Relaxed),
            memory_max: self.settings.memory,
            ..SequenceView::default()
        };
        for name in self.served.load().values() {
            name.look(now, &mut view);
        }
        view
    }

    /// The state of one name: its sections alone.
    pub fn view_of(&self, name: &str) -> SequenceView {
        let mut view = SequenceView::default();
        if let Some(name) = self.served.load().get(name) {
            name.look(self.clock.boot(), &mut view);
        }
        view
    }

    /// Tells whether another section or key may be kept beside what is accounted for and these bytes.
    fn has_room(&self, more: usize) -> bool {
        (self.memory.load(Ordering::Relaxed).saturating_add(more) as u64) < self.settings.memory
    }

    /// Counts memory that was taken or given back.
    fn account(&self, before: usize, after: usize) {
        if after > before {
            self.memory.fetch_add(after - before, Ordering::Relaxed);
        } else if before > after {
            self.memory.fetch_sub(before - after, Ordering::Relaxed);
        }
    }
}
