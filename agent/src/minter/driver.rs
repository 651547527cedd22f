//! The engine under its lock, the queue of those who need it, the threads that may wait for the disk, and the end of all that.

use super::state::State;
use crate::plugin::{AccountHolder, CallerLimit, CallerPermit};
use crate::refusal::Refusal;
use common::parameters::SessionId;
use engine::broken;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Requests that wait for the slow path at once; one more is refused.
pub(super) const QUEUE_MAX: usize = 1_024;
/// Requests of one caller that do.
pub(super) const QUEUE_PART: usize = QUEUE_MAX / 2;
/// The time that a request waits for its turn, and then for the disk.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// The right to be the one in the slow path, as long as it lives, with a place in the queue if there was one.
pub(super) type Turn = (OwnedMutexGuard<()>, Option<Place>);

/// A place in the queue, of all and of its caller's.
pub(super) type Place = (OwnedSemaphorePermit, CallerPermit);

/// The slow path, which mints for one at a time.
pub struct Driver {
    state: Mutex<State>,
    /// Whoever has it is the one in the slow path; those who wait for it wait without a thread.
    turn: Arc<tokio::sync::Mutex<()>>,
    queue: Arc<Semaphore>,
    of_callers: CallerLimit,
    /// The runtime on which work waits for the disk, beside the callers.
    background: OnceLock<Handle>,
    gone: CancellationToken,
    gone_why: OnceLock<String>,
}

impl Driver {
    pub(super) fn new(state: State) -> Self {
        Self {
            state: Mutex::new(state),
            turn: Arc::default(),
            queue: Arc::new(Semaphore::new(QUEUE_MAX)),
            of_callers: CallerLimit::new(QUEUE_PART),
            background: OnceLock::new(),
            gone: CancellationToken::new(),
            gone_why: OnceLock::new(),
        }
    }

    /// A place for that caller among the requests that wait for the slow path.
    pub(super) fn place(&self, holder: Option<AccountHolder>) -> Result<Place, Refusal> {
        let full = |why| move || Refusal::Overloaded(why);
        let part = self.of_callers.take(holder, 1);
        let part = part.ok_or_else(full("too many of this caller's requests wait for the serial file"))?;
        let place = Arc::clone(&self.queue).try_acquire_owned().ok();
        Ok((place.ok_or_else(full("too many requests wait for the serial file"))?, part))
    }

    /// Waits for the slow path, for a while, in that place.
    pub(super) async fn turn(&self, place: Place) -> Result<Turn, Refusal> {
        let turn = tokio::time::timeout(PATIENCE, Arc::clone(&self.turn).lock_owned()).await;
        Ok((turn.map_err(|_| slow_disk())?, Some(place)))
    }

    /// Waits for the slow path before any request that is not queued yet, however long it takes.
    pub(super) async fn own_turn(&self) -> Turn {
        (Arc::clone(&self.turn).lock_owned().await, None)
    }

    /// Runs `work` on a thread that may block. Whoever waits for it gives up after a while; the work itself goes on.
    pub(super) async fn on_a_thread<T: Send + 'static>(
        turn: Turn,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let work = tokio::task::spawn_blocking(move || {
            let _until_done = turn;
            work()
        });
        match tokio::time::timeout(PATIENCE, work).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(_)) => Err(broken()),
            Err(_) => Err(slow_disk()),
        }
    }

    /// Lets the background reserve run there when a window is half used on a thread that has no runtime. The first word stays.
    pub fn reserve_on(&self, handle: Handle) {
        let _ = self.background.set(handle);
    }

    /// Does what may wait for the disk where it keeps nobody, if there is such a place.
    pub(super) fn in_background(&self, work: impl FnOnce() + Send + 'static) {
        match self.background.get().cloned().map_or_else(Handle::try_current, Ok) {
            Ok(handle) => drop(handle.spawn_blocking(work)),
            Err(_) => work(),
        }
    }

    pub(super) fn lock(&self) -> Result<MutexGuard<'_, State>, Refusal> {
        let Ok(state) = self.state.lock() else {
            self.give_up("a fault of this program; restart it to go on".to_owned());
            return Err(broken());
        };
        match (state.engine.is_ended(), self.gone()) {
            (false, _) => Ok(state),
            (true, Some(gone)) => Err(gone),
            (true, None) => Err(Refusal::Overloaded("this agent is shutting down")),
        }
    }

    /// The sessions that this one gives up, until a master has granted it a lease.
    pub(crate) fn former(&self) -> Vec<SessionId> {
        self.lock().map(|state| state.engine.former().to_vec()).unwrap_or_default()
    }

    /// Fetches no second segment while the first one is used: for comparisons only. Said before names
    /// are learned.
    ///
    /// # Errors
    /// If minting has ended.
    pub fn fetch_one_segment(&self) -> Result<(), Refusal> {
        self.lock()?.engine.fetch_one_segment();
        Ok(())
    }

    /// Keeps this part of each hour's and day's IDs, the last ones, for callers to have in shares: a percentage, [`RESERVED_PERCENT`]
    /// unless it is said.
    ///
    /// # Errors
    /// If nothing is minted any more.
    ///
    /// [`RESERVED_PERCENT`]: engine::RESERVED_PERCENT
    pub fn reserve_last(&self, percent: u8) -> Result<(), Refusal> {
        self.lock()?.engine.reserve_last(percent);
        Ok(())
    }

    /// Ends minting for good.
    pub(super) fn give_up(&self, why: String) {
        tracing::error!(%why, "minting ends");
        // The first reason is the one to report.
        let _ = self.gone_why.set(why);
        self.gone.cancel();
    }

    /// Resolves when minting has ended for good, because someone else has the serial file.
    pub async fn ended(&self) -> String {
        self.gone.cancelled().await;
        self.gone_why.get().cloned().unwrap_or_default()
    }

    /// Tells whether minting has ended for good.
    pub fn is_gone(&self) -> bool {
        self.gone.is_cancelled()
    }

    /// The reason why minting has ended for good, if it has.
    pub(super) fn gone(&self) -> Option<Refusal> {
        self.gone_why.get().cloned().map(Refusal::SerialFileIo)
    }
}

#[cfg(test)]
impl Driver {
    /// The state under the lock, also after the end.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Places that are left in the queue.
    pub(super) fn free_places(&self) -> usize {
        self.queue.available_permits()
    }
}

fn slow_disk() -> Refusal {
    Refusal::SerialFileIo(format!("the disk has not answered for {} s", PATIENCE.as_secs()))
}
