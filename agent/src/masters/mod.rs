//! The masters as this agent reaches them: shared connections to each, and the one loop that asks them in order.
//!
//! Two connections to a master are given out, opened when somebody wants them and closed when nobody does. One (`Lane::Calls`) is for
//! what is small and must not wait: heartbeats, tokens, renewals, reports, segments, raises. The other (`Lane::Lists`) is for answers that may be long:
//! names, sections, routes. All that want a connection while it is opened wait for the same attempt, each as long as it likes.
//!
//! A call that gets no answer ends nobody else's: if nothing that was sent later was answered either, the connection is given to nobody any
//! more, and calls that are under way on it keep their time. A renewal cuts its connection, because it must not arrive after its time
//! (`Line::renew`), and so does a question by which sections are left. A master that did not answer is asked last by everybody for a while.

mod line;
mod link;
mod notes;
mod report;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use line::Line;
pub(crate) use link::{CallError, Greeting};
pub use report::{LastRefusal, MasterInUse, Report};

use crate::minter::Minter;
use common::parameters::AgentId;
use futures::future::{BoxFuture, Shared};
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use link::Link;
use net::rpc::lease::{RETIRED_MAX, RetiredProof};
use net::tls::Tls;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

/// Time that a call may take; a grant that both masters must confirm takes up to three seconds.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(5);
/// Time that opening a connection may take, the introduction included.
pub(crate) const OPEN_LIMIT: Duration = Duration::from_secs(5);
/// A master that could not be reached is left alone for so long, however many want it.
const AGAIN: Duration = Duration::from_millis(300);
/// A master that did not answer is asked last for so long, unless it answers meanwhile,
const SILENCE: Duration = Duration::from_secs(30);
/// and gets no more than this, which is enough for one that answers again, where another one has answered.
const RESTED_LIMIT: Duration = Duration::from_millis(500);
/// A connection that nobody has used for so long is closed,
const IDLE: Duration = Duration::from_secs(20);
/// at the next look.
const LOOK: Duration = Duration::from_secs(5);
/// A connection for lists is not given to anybody after this: it is noticed soon that an address leads elsewhere by now.
pub(crate) const AGE_MAX: Duration = Duration::from_secs(60);

/// One of the two connections to a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// The one for what is small and must not wait.
    Calls,
    /// The one for answers that may be long.
    Lists,
}

/// The master that is asked first; the others follow in the order of the list.
pub(crate) enum First<'a> {
    Master(usize),
    /// The one behind that one, which is not asked itself.
    Others(usize),
    /// The one that answered the last question of its kind.
    Last(&'a Preferred),
    /// Another one each time.
    Turn(&'a AtomicUsize),
}

/// The master that answered the last question of a kind; at first the one in use.
#[derive(Debug, Default)]
pub(crate) struct Preferred(AtomicUsize);

impl Preferred {
    fn get(&self) -> Option<usize> {
        self.0.load(Ordering::Relaxed).checked_sub(1)
    }

    fn set(&self, at: usize) {
        self.0.store(at.saturating_add(1), Ordering::Relaxed);
    }
}

/// The way in which a question is put to the masters.
pub(crate) struct Ask<'a> {
    pub(crate) lane: Lane,
    pub(crate) first: First<'a>,
    /// Time for a connection to each,
    pub(crate) reach: Duration,
    /// and for each call.
    pub(crate) limit: Duration,
    /// Time after which the next master is asked as well, while the one before still has its own.
    pub(crate) patience: Duration,
}

impl<'a> Ask<'a> {
    /// With the usual time.
    pub(crate) fn new(lane: Lane, first: First<'a>) -> Self {
        Self { lane, first, reach: OPEN_LIMIT, limit: CALL_LIMIT, patience: Duration::MAX }
    }
}

/// A question that no answer ended.
#[derive(Debug, Default)]
pub(crate) struct Unanswered {
    /// Tells whether there were answers, of which none ended it.
    pub(crate) answered: bool,
    pub(crate) errors: Vec<CallError>,
}

impl Unanswered {
    /// The errors in words, each with its master.
    pub(crate) fn why(&self) -> String {
        let all: Vec<_> = self.errors.iter().map(|error| format!("master {}: {error}", error.address())).collect();
        all.join("; ")
    }
}

/// All masters of an agent.
pub(crate) struct Masters {
    all: Vec<Arc<Master>>,
    pub(crate) agent_id: AgentId,
    pub(crate) tls: Tls,
    pub(crate) minter: Arc<Minter>,
    pub(crate) report: Arc<Report>,
    /// Proofs of pairings that are over, as any of them told them, for those that have not heard of it.
    retired: Mutex<Vec<RetiredProof>>,
    /// The runtime on which connections live, whoever asks for them.
    home: OnceLock<Handle>,
    open_limit_ms: AtomicU64,
}

/// One address.
struct Master {
    address: String,
    calls: Mutex<Slot>,
    lists: Mutex<Slot>,
    /// The moment since which it has not answered.
    silent: Mutex<Option<Instant>>,
    /// The last moment at which the address was heard to lead to another cluster.
    foreign: Mutex<Option<Instant>>,
}

type Opened = Result<(Arc<Link>, Greeting), CallError>;

/// The place of a connection.
enum Slot {
    /// The moment and the error of the last attempt, if it failed.
    Closed(Option<(Instant, CallError)>),
    Opening(Shared<BoxFuture<'static, Opened>>),
    Open(Arc<Link>),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Master {
    fn new(address: String) -> Self {
        let closed = || Mutex::new(Slot::Closed(None));
        Self { address, calls: closed(), lists: closed(), silent: Mutex::default(), foreign: Mutex::default() }
    }

    fn slot(&self, lane: Lane) -> MutexGuard<'_, Slot> {
        lock(match lane {
            Lane::Calls => &self.calls,
            Lane::Lists => &self.lists,
        })
    }

    /// Forgets that an attempt by the other lane failed a moment ago: the master is there.
    fn is_there(&self, lane: Lane) {
        let other = match lane {
            Lane::Calls => Lane::Lists,
            Lane::Lists => Lane::Calls,
        };
        let mut slot = self.slot(other);
        if matches!(&*slot, Slot::Closed(Some(_))) {
            *slot = Slot::Closed(None);
        }
    }

    fn failed(&self, why: &str) -> CallError {
        link::failed(&self.address, why)
    }

    fn answers(&self) {
        *lock(&self.silent) = None;
    }

    fn does_not_answer(&self) {
        let mut silent = lock(&self.silent);
        // One that is silent gets less time, and that says nothing of it.
        if silent.is_none_or(|since| since.elapsed() >= SILENCE) {
            *silent = Some(Instant::now());
        }
    }

    fn is_silent(&self) -> bool {
        lock(&self.silent).is_some_and(|since| since.elapsed() < SILENCE)
    }

    /// Gives this connection to nobody any more.
    fn retire(&self, lane: Lane, link: &Arc<Link>) {
        let mut slot = self.slot(lane);
        if matches!(&*slot, Slot::Open(open) if Arc::ptr_eq(open, link)) {
            *slot = Slot::Closed(None);
        }
    }

    /// Gives no connection to anybody any more that was begun before now: the address leads elsewhere.
    fn leave(&self) {
        *lock(&self.foreign) = Some(Instant::now());
        for lane in [Lane::Calls, Lane::Lists] {
            let mut slot = self.slot(lane);
            // An attempt that failed keeps its moment, so that the next one is not made at once.
            if matches!(&*slot, Slot::Open(_)) {
                *slot = Slot::Closed(None);
            }
        }
    }

    fn has_left_since(&self, began: Instant) -> bool {
        lock(&self.foreign).is_some_and(|heard| heard >= began)
    }

    /// Closes a connection that nobody holds or has used lately.
    fn sweep(&self, lane: Lane) {
        let mut slot = self.slot(lane);
        if matches!(&*slot, Slot::Open(link) if Arc::strong_count(link) == 1 && link.heard().elapsed() >= IDLE) {
            *slot = Slot::Closed(None);
        }
    }
}

impl Masters {
    /// Of an agent of that name, at these addresses (HOST:PORT).
    pub(crate) fn new(addresses: Vec<String>, agent_id: AgentId, tls: Tls, minter: Arc<Minter>) -> Arc<Self> {
        Arc::new(Self {
            all: addresses.into_iter().map(|address| Arc::new(Master::new(address))).collect(),
            agent_id,
            tls,
            minter,
            report: Arc::default(),
            retired: Mutex::default(),
            home: OnceLock::new(),
            open_limit_ms: AtomicU64::new(OPEN_LIMIT.as_millis() as u64),
        })
    }

    /// Has connections live on that runtime; otherwise it is that of whoever asks first.
    pub(crate) fn live_on(self: &Arc<Self>, runtime: &Handle) -> &Handle {
        self.home.get_or_init(|| {
            runtime.spawn(sweep(Arc::downgrade(self)));
            runtime.clone()
        })
    }

    /// Has nobody wait longer than that for a connection that is opened from now on.
    pub(crate) fn open_within(&self, limit: Duration) {
        self.open_limit_ms.store(u64::try_from(limit.min(OPEN_LIMIT).as_millis()).unwrap_or(0), Ordering::Relaxed);
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn addresses(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|master| master.address.as_str())
    }

    /// The place of the one that the heartbeat goes to.
    pub(crate) fn in_use(&self) -> Option<usize> {
        let in_use = self.report.master()?;
        self.addresses().position(|address| address == in_use.address)
    }

    /// The places of those to be asked, in that order; those that do not answer are the last.
    pub(crate) fn order(&self, first: &First<'_>) -> Vec<usize> {
        let count = self.all.len();
        let from = match first {
            First::Master(at) | First::Others(at) => *at,
            First::Last(preferred) => preferred.get().or_else(|| self.in_use()).unwrap_or(0),
            First::Turn(turn) => turn.fetch_add(1, Ordering::Relaxed),
        };
        let left_out = usize::from(matches!(first, First::Others(_)));
        let turns = (left_out..count).map(|step| (from % count + step) % count);
        let is_silent = |at: &usize| self.all.get(*at).is_some_and(|master| master.is_silent());
        let (silent, mut order): (Vec<_>, Vec<_>) = turns.partition(is_silent);
        order.extend(silent);
        order
    }

    /// Asks one master after the other, until `call` gets something: the next one when the one before has failed or has kept it waiting.
    ///
    /// # Errors
    /// [`Unanswered`] if none of them gave it.
    pub(crate) async fn ask<T, F>(self: &Arc<Self>, ask: Ask<'_>, call: impl Fn(Line) -> F) -> Result<T, Unanswered>
    where
        F: Future<Output = Result<Option<T>, CallError>>,
    {
        let Ask { lane, first, reach, limit, patience } = ask;
        let call = &call;
        let mut none = Unanswered::default();
        let mut order = self.order(&first).into_iter();
        let mut asked = FuturesUnordered::new();
        loop {
            if let Some((at, master)) = order.next().and_then(|at| Some((at, self.all.get(at)?))) {
                // What the others know suffices as a rule.
                let at_most = if none.answered && master.is_silent() { RESTED_LIMIT } else { Duration::MAX };
                asked.push(async move {
                    let answer = async { call(self.reach(at, lane, reach, limit).await?).await };
                    let answer = timeout(at_most, answer).await;
                    (at, answer.unwrap_or_else(|_| Err(master.failed("no answer in time"))))
                });
            }
            let patience = if order.len() > 0 { patience } else { Duration::MAX };
            match timeout(patience, asked.next()).await {
                Ok(Some((at, Ok(Some(got))))) => {
                    if let First::Last(preferred) = first {
                        preferred.set(at);
                    }
                    return Ok(got);
                }
                Ok(Some((_, Ok(None)))) => none.answered = true,
                Ok(Some((_, Err(error)))) => none.errors.push(error),
                Ok(None) => return Err(none),
                Err(_) => {}
            }
        }
    }

    /// A line to that master by this lane, on which each call may take `limit`. It is opened if it is not open; an attempt goes on
    /// after `reach`, for others.
    pub(crate) async fn reach(
        self: &Arc<Self>,
        at: usize,
        lane: Lane,
        reach: Duration,
        limit: Duration,
    ) -> Result<Line, CallError> {
        let none = || CallError::Failed { address: String::new(), why: "there is no such master".to_owned() };
        let master = self.all.get(at).ok_or_else(none)?;
        let line = |link, introduced| {
            let (masters, master) = (Arc::clone(self), Arc::clone(master));
            Line { masters, master, at, lane, link, limit, introduced }
        };
        let opening = {
            let mut slot = master.slot(lane);
            match &*slot {
                Slot::Open(link) if link.lasts(lane) => return Ok(line(Arc::clone(link), None)),
                Slot::Closed(Some((when, why))) if when.elapsed() < AGAIN => return Err(why.clone()),
                Slot::Opening(opening) if opening.peek().is_none() => opening.clone(),
                // One that has ended and is still here ended by a fault.
                Slot::Opening(_) | Slot::Open(_) | Slot::Closed(_) => {
                    let opening = self.begin_opening(master, lane);
                    *slot = Slot::Opening(opening.clone());
                    opening
                }
            }
        };
        let Ok(opened) = timeout(reach, opening).await else {
            master.does_not_answer();
            return Err(master.failed("no connection in time"));
        };
        opened.map(|(link, greeting)| line(link, Some(greeting)))
    }

    /// An attempt that goes on whoever waits for it. To be called with the slot locked, so that it is there when the attempt ends.
    fn begin_opening(self: &Arc<Self>, master: &Arc<Master>, lane: Lane) -> Shared<BoxFuture<'static, Opened>> {
        let home = self.home.get().unwrap_or_else(|| self.live_on(&Handle::current()));
        let (masters, opened) = (Arc::clone(self), Arc::clone(master));
        let opening = home.spawn(async move { masters.open(&opened, lane).await });
        let ending = master.failed("this agent is ending");
        opening.map(|opened| opened.unwrap_or(Err(ending))).boxed().shared()
    }

    async fn open(&self, master: &Master, lane: Lane) -> Opened {
        let began = Instant::now();
        let mut opened = Link::open(self, &master.address).await.map(|(link, greeting)| (Arc::new(link), greeting));
        if opened.is_ok() && master.has_left_since(began) {
            opened = Err(master.failed("its address leads elsewhere by now"));
        }
        notes::note(&master.address, &self.minter, opened.as_ref().map(|_| ())).await;
        if opened.as_ref().is_err_and(CallError::is_foreign) {
            master.leave();
        }
        match &opened {
            Err(CallError::Failed { .. }) => master.does_not_answer(),
            _ => master.answers(),
        }
        if opened.is_ok() {
            master.is_there(lane);
        }
        *master.slot(lane) = match &opened {
            Ok((link, _)) => Slot::Open(Arc::clone(link)),
            Err(why) => Slot::Closed(Some((Instant::now(), why.clone()))),
        };
        opened
    }

    fn open_limit(&self) -> Duration {
        Duration::from_millis(self.open_limit_ms.load(Ordering::Relaxed))
    }

    fn retired(&self) -> Vec<RetiredProof> {
        lock(&self.retired).clone()
    }

    /// Keeps what a master said about pairings that are over; the newest at the end, the oldest forgotten.
    fn hear_of_ends(&self, retired: &[RetiredProof]) {
        let mut known = lock(&self.retired);
        for proof in retired.iter().take(RETIRED_MAX).rev() {
            known.retain(|other| other != proof);
            known.push(*proof);
        }
        let surplus = known.len().saturating_sub(RETIRED_MAX);
        known.drain(..surplus);
    }
}

/// Closes connections that nobody uses, for as long as there are masters to reach.
async fn sweep(masters: Weak<Masters>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(masters) = masters.upgrade() else { return };
        for master in &masters.all {
            master.sweep(Lane::Calls);
            master.sweep(Lane::Lists);
        }
    }
}
