//! Segments of plain numbers, between those who mint and those who ask the masters ([`crate::heartbeat`]).
//!
//! What has to be done for a name (a segment that came is to be made durable, a mark to be raised, a window to be lengthened) is
//! noted here, and done in the background for all names at once that need it at the time: so they share a write.

use super::series::SerialSeries;
use super::state::Hands;
use super::{Generator, PATIENCE};
use crate::plugin::{AccountHolder, CallerLimit, CallerPermit};
use crate::refusal::Refusal;
use crate::segments::Ask;
use arc_swap::ArcSwapOption;
use common::namespace::GeneratorName;
use engine::{Engine, SegmentOutcome, broken};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

/// The time that calls wait for a segment since none was there. Later ones are told at once why there is none.
const SEGMENT_WAIT: Duration = PATIENCE;
/// Calls that wait for segments at once, of all names; one more is refused.
const WAITING_MAX: usize = 8_192;
/// Calls of one caller that do.
pub(super) const WAITING_PART: usize = WAITING_MAX / 2;
/// The interval at which a thread of an application looks whether a segment has come.
pub(super) const LOOK: Duration = Duration::from_millis(1);

/// The series for which something is to be done, and the segments that masters are to be asked for.
#[derive(Debug)]
pub struct Segments {
    /// The series for which something is to be done, each with the answer to its call, if there is one: a name has one call under way.
    due: Mutex<BTreeMap<usize, Option<(u64, SegmentOutcome)>>>,
    /// At most one for each series.
    wanted: Mutex<Vec<Wanted>>,
    asked: Notify,
    /// True if somebody is about to do all that is due.
    queued: AtomicBool,
    waiting: Semaphore,
    of_callers: CallerLimit,
    fetched: AtomicU64,
    numbers: AtomicU64,
    failed: AtomicU64,
    waits: AtomicU64,
    waited_us: AtomicU64,
}

/// A segment that masters are to be asked for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    generator: Arc<Generator>,
    series: usize,
    pub(crate) ask: Ask,
}

impl Wanted {
    pub(crate) fn name(&self) -> &GeneratorName {
        self.generator.namespace().name()
    }

    /// Tells whether nobody mints by that name any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.generator.has_ended()
    }

    fn fetching(&self) -> Option<&Fetching> {
        self.generator.series.serials()?.fetching.as_deref()
    }
}

/// The state that a series of plain numbers has beside its window.
#[derive(Debug, Default)]
pub(super) struct Fetching {
    /// Told when a segment has come, or something else may have become of it.
    pub(super) changed: Notify,
    /// The instant since which calls wait for one.
    pending: Mutex<Option<Instant>>,
    /// The reason why the masters did not grant one.
    why: ArcSwapOption<String>,
    fetched: AtomicU64,
}

/// The counts of segments since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentCounters {
    /// Segments that masters granted,
    pub fetched: u64,
    /// and the numbers in them.
    pub numbers: u64,
    /// Rounds of all masters in which none granted one.
    pub failed: u64,
    /// Calls that had to wait for one,
    pub waits: u64,
    /// and how long all of them together, in microseconds.
    pub waited_us: u64,
}

/// The state of a name's numbers at the moment, without waiting for the disk.
#[derive(Clone, Debug)]
pub struct SegmentInUse {
    /// Its name.
    pub name: GeneratorName,
    /// The number of hundredths that are used of the numbers that were marked, at most 99.
    pub used_hundredths: u64,
    /// The number of them that are left.
    pub marked_left: u64,
}

/// A call that waits, as long as it lives.
pub(super) struct Waiting<'a> {
    segments: &'a Segments,
    since: Instant,
    _place: (SemaphorePermit<'a>, CallerPermit),
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let waited = u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.segments.waited_us.fetch_add(waited, Ordering::Relaxed);
    }
}

impl Default for Segments {
    fn default() -> Self {
        let [fetched, numbers, failed, waits, waited_us] = [const { AtomicU64::new(0) }; 5];
        let (waiting, of_callers) = (Semaphore::new(WAITING_MAX), CallerLimit::new(WAITING_PART));
        let (due, wanted, asked, queued) = <(Mutex<_>, Mutex<_>, Notify, AtomicBool)>::default();
        Self { due, wanted, asked, queued, waiting, of_callers, fetched, numbers, failed, waits, waited_us }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Plain values: whatever a panic left behind is as good as any.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The answer to the later one of two calls: the earlier one was given up, and its answer, if it came last, is not waited for.
pub(super) fn later(known: Option<(u64, SegmentOutcome)>, new: (u64, SegmentOutcome)) -> (u64, SegmentOutcome) {
    known.filter(|known| known.0 > new.0).unwrap_or(new)
}

impl Fetching {
    /// The time that a call that needs a segment may still wait for one.
    fn left(&self) -> Result<Duration, Refusal> {
        let since = *locked(&self.pending).get_or_insert_with(Instant::now);
        let left = SEGMENT_WAIT.checked_sub(since.elapsed()).filter(|left| !left.is_zero());
        left.ok_or_else(|| self.pending())
    }

    fn pending(&self) -> Refusal {
        let why = self.why.load().as_deref().cloned();
        Refusal::SegmentPending { why: why.unwrap_or_else(|| "none of them has granted as many yet".to_owned()) }
    }
}

impl SerialSeries {
    /// Segments that came since the start.
    pub(super) fn segments_fetched(&self) -> u64 {
        self.fetching.as_ref().map_or(0, |fetching| fetching.fetched.load(Ordering::Relaxed))
    }

    /// The time that a call which needs a segment of it may still wait for one. Where others take what comes, it does not wait
    /// longer than where nothing comes.
    pub(super) fn segment_left(&self, call: &Waiting<'_>) -> Result<Duration, Refusal> {
        let fetching = self.fetching.as_ref().ok_or_else(broken)?;
        let own = SEGMENT_WAIT.checked_sub(call.since.elapsed()).ok_or_else(|| fetching.pending())?;
        Ok(fetching.left()?.min(own))
    }
}

impl Segments {
    /// The counts of segments since the start.
    pub fn counters(&self) -> SegmentCounters {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Self { fetched, numbers, failed, waits, waited_us, .. } = self;
        SegmentCounters {
            fetched: of(fetched),
            numbers: of(numbers),
            failed: of(failed),
            waits: of(waits),
            waited_us: of(waited_us),
        }
    }

    /// Notes what masters are to be asked for.
    pub(super) fn want(&self, generator: &Arc<Generator>, series: usize, ask: Ask) {
        locked(&self.wanted).push(Wanted { generator: Arc::clone(generator), series, ask });
        self.asked.notify_one();
    }

    /// Waits until masters are to be asked for something.
    pub(crate) async fn wanted(&self) -> Vec<Wanted> {
        loop {
            let wanted = std::mem::take(&mut *locked(&self.wanted));
            if !wanted.is_empty() {
                return wanted;
            }
            self.asked.notified().await;
        }
    }

    /// Notes the outcome of a call for a segment, or of one round of such calls, as something to be done.
    pub(super) fn note(&self, wanted: &Wanted, answer: SegmentOutcome) {
        if let (SegmentOutcome::Granted(grant), Some(fetching)) = (answer, wanted.fetching()) {
            self.fetched.fetch_add(1, Ordering::Relaxed);
            self.numbers.fetch_add(grant.span.len(), Ordering::Relaxed);
            fetching.fetched.fetch_add(1, Ordering::Relaxed);
            *locked(&fetching.pending) = None;
            fetching.why.store(None);
        }
        let mut due = locked(&self.due);
        let its = due.entry(wanted.series).or_default();
        *its = Some(later(*its, (wanted.ask.call, answer)));
    }

    /// No master granted one yet; why. It is asked for again.
    pub(crate) fn heard_nothing(&self, wanted: &Wanted, why: String) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        if let Some(fetching) = wanted.fetching() {
            fetching.why.store(Some(Arc::new(why)));
        }
    }

    /// Whoever is next to do what is due raises the marks of this series, too, so that names that wait for their turn share a write.
    pub(super) fn is_due(&self, series: &SerialSeries) {
        if series.is_segment() {
            locked(&self.due).entry(series.id).or_default();
        }
    }

    /// Tells whether nobody is about to do all that is due: the caller is from now on.
    pub(super) fn begin(&self) -> bool {
        !self.queued.swap(true, Ordering::AcqRel)
    }

    /// Leaves what is noted from now on to somebody else.
    pub(super) fn begun(&self) {
        self.queued.store(false, Ordering::Release);
    }

    /// Does all that is due, in one write, and gives those series for which there was an answer. Only who waits for those is to be told:
    /// others would look again, find what they found, and be told of that.
    pub(super) fn do_what_is_due(&self, engine: &mut Engine, hands: &mut Hands<'_>) -> BTreeSet<usize> {
        let due = std::mem::take(&mut *locked(&self.due));
        let mut answered = BTreeSet::new();
        for (at, (call, answer)) in due.iter().filter_map(|(at, answer)| Some((*at, (*answer)?))) {
            engine.answered(at, call, answer);
            answered.insert(at);
        }
        if let Err(refusal) = engine.tend(hands, due.into_keys()) {
            tracing::debug!(%refusal, "segments were not made durable in advance");
        }
        answered
    }

    /// A call of that caller begins to wait for a segment.
    pub(super) fn waits(&self, holder: Option<AccountHolder>) -> Result<Waiting<'_>, Refusal> {
        let full = |why| move || Refusal::Overloaded(why);
        let part = self.of_callers.take(holder, 1);
        let part = part.ok_or_else(full("too many of this caller's requests wait for segments"))?;
        let place = self.waiting.try_acquire().ok().ok_or_else(full("too many requests wait for segments"))?;
        self.waits.fetch_add(1, Ordering::Relaxed);
        Ok(Waiting { segments: self, since: Instant::now(), _place: (place, part) })
    }
}
