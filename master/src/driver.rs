//! The one loop of a master: take events, step, make durable, and only then send and reply.
//!
//! The loop runs on a thread of its own, because it waits for the disk. Everything that has come in meanwhile is stepped
//! together and made durable by one commit (group commit), so a thousand agents that start at once do not wait for a
//! thousand fsyncs each after the other.
//!
//! A failed commit, one that does not return (`watchdog.rs`) and a panic in the ledger all end the process: after any of them
//! nobody knows what is on the disk or in memory, and a restart reads a known state.
//!
//! While the disk has no room the loop stands still, as if the process were stopped: it steps nothing, drops messages, refuses
//! requests, and can be read. Nothing is written then, so no write can fail for want of room.

use crate::lease::{Alarm, Effects, Event, Reply, RequestId, Write};
use crate::ledger::{Ledger, Snapshot};
use crate::refusal_tally::RefusalTally;
use crate::section_tally::SectionTally;
use crate::setting::SettingsTable;
use crate::store::{Room, Store};
use crate::tally::{AxisTally, OpenCalls, RenewalTally};
use crate::watchdog::{self, EndOnPanic, Pulse};
use common::clock::Clock;
use net::rpc::peer::PeerFrame;
use process::{end, strike};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Events in the loop's queue at most; one more is refused as overload.
pub const QUEUE_MAX: usize = 16_384;
/// Events that share one commit at most.
pub const BATCH_MAX: usize = 4_096;
/// Messages that wait for the link at most; more are dropped, as any message may be.
pub const OUTBOX_MAX: usize = 16_384;
/// The longest wait for an input.
const PATIENCE: Duration = Duration::from_secs(1);

type RequestResult = Result<Reply, Refused>;
type Query = Box<dyn FnOnce(&Ledger, &Clock) + Send>;

enum Input {
    Ask(Box<dyn FnOnce(RequestId) -> Event + Send>, oneshot::Sender<RequestResult>),
    Tell(Box<Event>),
    Look(Query),
    Stop,
}

/// A handle to the loop. Cheap to clone.
#[derive(Clone)]
pub struct Driver {
    queue: SyncSender<Input>,
    stopping: Arc<AtomicBool>,
    snapshot: Arc<RwLock<Snapshot>>,
    full: Arc<AtomicBool>,
}

/// The reason why the loop did not take something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("too many requests are waiting")]
    Overloaded,
    #[error("the master is shutting down")]
    Stopping,
    #[error("this master's disk is full")]
    NoRoom,
}

/// The loop's thread; joining it waits for the last commit.
pub struct Running {
    thread: JoinHandle<()>,
    queue: SyncSender<Input>,
    stopping: Arc<AtomicBool>,
}

/// Counts of what the loop has done since it started, for the metrics.
#[derive(Debug, Default)]
pub struct Counters {
    pub commits: AtomicU64,
    /// The number of the last line of the audit that is durable,
    pub audited: AtomicU64,
    /// and of the last one in the files of `--audit-dir`.
    pub audit_written: AtomicU64,
    pub events: AtomicU64,
    /// Messages that were dropped because the queue to the link was full.
    pub messages_dropped: AtomicU64,
    /// Users and addresses that were locked out of the console.
    pub lockouts: AtomicU64,
    /// Certificates that were issued to who was invited, or renewed,
    pub certificates_issued: AtomicU64,
    /// and requests for one that were refused.
    pub certificates_refused: AtomicU64,
    /// Bytes that are free on the store's disk, as far as that is known.
    pub room: AtomicU64,
    pub axes: AxisTally,
    pub sections: SectionTally,
    pub renewals: RenewalTally,
    pub refusals: RefusalTally,
}

/// Starts the loop. Messages to the other master come out of the receiver; `follow` is told of the
/// ledger's settings, at once and whenever they change.
///
/// # Errors
/// An error of the operating system, if it cannot start a thread.
pub fn start(
    ledger: Ledger,
    store: impl Store,
    clock: Clock,
    counters: Arc<Counters>,
    follow: impl Fn(&SettingsTable) + Send + 'static,
) -> std::io::Result<(Driver, Running, mpsc::Receiver<PeerFrame>)> {
    let (queue, inbox) = sync_channel(QUEUE_MAX);
    let (messages, outbox) = mpsc::channel(OUTBOX_MAX);
    let stopping = Arc::new(AtomicBool::new(false));
    follow(ledger.settings_table());
    let snapshot = Arc::new(RwLock::new(Snapshot::of(&ledger)));
    let followed = Arc::clone(&snapshot);
    let (waiting, next_request) = (HashMap::new(), 0);
    let (full, pulse) = (Arc::new(AtomicBool::new(false)), Arc::new(Pulse::default()));
    watchdog::start(Arc::clone(&pulse))?;
    let mut state = Loop {
        ledger,
        store,
        clock,
        messages,
        waiting,
        next_request,
        open_calls: OpenCalls::default(),
        counters,
        follow,
        snapshot: followed,
        full: Arc::clone(&full),
        pulse,
    };
    let thread = std::thread::Builder::new().name("ledger".to_owned()).spawn(move || {
        let _end_on_panic = EndOnPanic;
        state.run(&inbox);
    })?;
    let driver = Driver { queue: queue.clone(), stopping: Arc::clone(&stopping), snapshot, full };
    Ok((driver, Running { thread, queue, stopping }, outbox))
}

impl Driver {
    /// Hands in a request and waits for its answer.
    ///
    /// # Errors
    /// [`Refused`], at once.
    pub async fn ask(&self, event: impl FnOnce(RequestId) -> Event + Send + 'static) -> Result<Reply, Refused> {
        let (answer, answered) = oneshot::channel();
        self.put(Input::Ask(Box::new(event), answer))?;
        answered.await.unwrap_or(Err(Refused::Stopping))
    }

    /// Tells whether the disk is full, so that nothing that must be durable can be promised.
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Hands in something that has no answer.
    ///
    /// # Errors
    /// [`Refused`], at once.
    pub fn tell(&self, event: Event) -> Result<(), Refused> {
        self.put(Input::Tell(Box::new(event)))
    }

    /// Reads the ledger between two steps. The state that `look` finds may not be durable yet.
    ///
    /// # Errors
    /// [`Refused`], at once.
    pub async fn look<T: Send + 'static>(
        &self,
        view: impl FnOnce(&Ledger, &Clock) -> T + Send + 'static,
    ) -> Result<T, Refused> {
        let (answer, answered) = oneshot::channel();
        self.put(Input::Look(Box::new(move |ledger, clock| {
            // The asker may have gone away meanwhile.
            let _ = answer.send(view(ledger, clock));
        })))?;
        answered.await.map_err(|_| Refused::Stopping)
    }

    /// A snapshot of the ledger after its last commit, without the way to the loop. Never kept across an `await`: the loop waits
    /// for it.
    pub fn snapshot(&self) -> RwLockReadGuard<'_, Snapshot> {
        // A panic of the loop, the only one that writes, ends the process.
        self.snapshot.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, input: Input) -> Result<(), Refused> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err(Refused::Stopping);
        }
        self.queue.try_send(input).map_err(|e| match e {
            TrySendError::Full(_) => Refused::Overloaded,
            TrySendError::Disconnected(_) => Refused::Stopping,
        })
    }
}

impl Running {
    /// Takes in nothing more, finishes what is queued, and returns when the loop has ended.
    pub fn stop(self) {
        self.stopping.store(true, Ordering::Relaxed);
        // The queue may be full: then wait for a place, the loop is emptying it.
        if self.queue.send(Input::Stop).is_ok() {
            let _ = self.thread.join();
        }
    }
}

struct Loop<S, F> {
    ledger: Ledger,
    store: S,
    clock: Clock,
    messages: mpsc::Sender<PeerFrame>,
    /// The answers that requests wait for.
    waiting: HashMap<RequestId, oneshot::Sender<RequestResult>>,
    next_request: u64,
    /// Calls for segments that are not answered, for the metrics.
    open_calls: OpenCalls,
    counters: Arc<Counters>,
    follow: F,
    snapshot: Arc<RwLock<Snapshot>>,
    full: Arc<AtomicBool>,
    pulse: Arc<Pulse>,
}

impl<S: Store, F: Fn(&SettingsTable)> Loop<S, F> {
    fn run(&mut self, inbox: &Receiver<Input>) {
        loop {
            if strike::here("ledger") {
                end::now(
                    "the task 'ledger' ended unexpectedly: the process exits, so that a restart reads a known state",
                );
            }
            self.pulse.beat();
            let now = self.clock.link_now();
            // While the disk is full nothing that is due is done: nobody has to look for it all the time.
            let due = if self.full.load(Ordering::Relaxed) {
                PATIENCE
            } else {
                (self.ledger.next_deadline() - now.boot).to_std()
            };
            let patience = due.min(PATIENCE);
            let first = match inbox.recv_timeout(patience) {
                Ok(input) => Some(input),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if self.round(first, inbox) {
                return;
            }
        }
    }

    /// Steps whatever has come in, then carries out all of it. `true`: the end was among it.
    fn round(&mut self, first: Option<Input>, inbox: &Receiver<Input>) -> bool {
        let mut fx = Effects::default();
        let mut stop = false;
        let first_request = RequestId(self.next_request);
        let (full, had_met) = (self.is_full(), self.ledger.identity().paired);
        if first.is_none() && !full {
            self.step(Event::Tick, &mut fx);
        }
        let mut looks = Vec::new();
        for input in first.into_iter().chain(inbox.try_iter().take(BATCH_MAX)) {
            match input {
                Input::Ask(_, answer) if full => {
                    // The asker may have gone away meanwhile.
                    let _ = answer.send(Err(Refused::NoRoom));
                }
                Input::Tell(_) if full => {}
                Input::Ask(event, answer) => {
                    let id = RequestId(self.next_request);
                    self.next_request += 1;
                    self.waiting.insert(id, answer);
                    let event = event(id);
                    self.open_calls.note(&event);
                    self.step(event, &mut fx);
                }
                Input::Tell(event) => self.step(*event, &mut fx),
                Input::Look(query) => looks.push(query),
                Input::Stop => stop = true,
            }
        }
        self.carry_out(first_request, fx);
        if !had_met && self.ledger.identity().paired {
            // Whatever was said before proves nothing to the other one, which would otherwise wait until a silence is over.
            let mut fx = Effects::default();
            self.step(Event::Connected, &mut fx);
            self.carry_out(RequestId(self.next_request), fx);
        }
        for look in looks {
            look(&self.ledger, &self.clock);
        }
        stop
    }

    fn is_full(&mut self) -> bool {
        let (free, full) = match self.store.room() {
            Room::Enough { free } => (free, false),
            Room::Scarce { free } => (free, true),
        };
        self.counters.room.store(free, Ordering::Relaxed);
        if self.full.swap(full, Ordering::Relaxed) != full {
            match full {
                true => {
                    tracing::error!(
                        free_kib = free >> 10,
                        "the disk under the store is full: this master promises nothing until there is room again"
                    );
                    // Nothing comes of what waits, either, as long as it lasts.
                    for (_, answer) in self.waiting.drain() {
                        let _ = answer.send(Err(Refused::NoRoom));
                    }
                }
                false => tracing::info!(free_kib = free >> 10, "the disk under the store has room again"),
            }
        }
        full
    }

    fn step(&mut self, event: Event, fx: &mut Effects) {
        self.counters.events.fetch_add(1, Ordering::Relaxed);
        self.ledger.step(self.clock.link_now(), event, fx);
    }

    /// `first` is the first request of this round.
    fn carry_out(&mut self, first: RequestId, fx: Effects) {
        for alarm in &fx.alarms {
            match alarm {
                Alarm::PeerHeard => tracing::info!("{alarm}"),
                // Apart from the others: whoever reaches the port can cause any number of them, and what is left out of one kind
                // of line must not hide another.
                Alarm::PeerRefused(_) => tracing::warn!("{alarm}"),
                Alarm::Conflict(_) | Alarm::Copied | Alarm::PeerCopied => tracing::error!("{alarm}"),
                _ => tracing::warn!("{alarm}"),
            }
        }
        if !fx.writes.is_empty() {
            self.pulse.writing();
            strike::here("commit");
            if let Err(e) = self.store.commit(&fx.writes, self.ledger.lsn()) {
                end::now(&format!("{e}: the process exits, so that a restart reads what really is on the disk"));
            }
            self.pulse.writing();
            self.counters.commits.fetch_add(1, Ordering::Relaxed);
            let lines = fx.writes.iter().filter(|write| matches!(write, Write::Audit(_))).count();
            self.counters.audited.fetch_add(lines as u64, Ordering::Relaxed);
            if fx.writes.iter().any(|write| matches!(write, Write::Setting(_) | Write::SettingPrep(_))) {
                (self.follow)(self.ledger.settings_table());
            }
        }
        self.snapshot.write().unwrap_or_else(PoisonError::into_inner).follow(&self.ledger, &fx.writes);
        let own = (self.ledger.identity().master, self.ledger.run());
        self.open_calls.count(&fx, first, own, &self.counters.axes);
        let lease = self.ledger.allocators().lease();
        self.counters.sections.count(&fx, self.clock.link_now().boot, lease);
        for message in fx.messages {
            let frame = self.ledger.frame(message);
            if self.messages.try_send(frame).is_err() {
                self.counters.messages_dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
        for (id, reply) in fx.replies {
            if let Some(answer) = self.waiting.remove(&id) {
                // The asker may have gone away meanwhile.
                let _ = answer.send(Ok(reply));
            }
        }
    }
}
