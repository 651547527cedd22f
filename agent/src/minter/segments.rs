//! Segments of plain numbers, between those who mint and those who ask the masters ([`crate::heartbeat`]).
//!
//! What has to be done for a name (a segment that came is to be made durable, a mark to be raised, a window to be lengthened) is
//! noted here, and done in the background for all names at once that need it at the time: so they share a write.

use super::series::SerialSeries;
use super::state::Hands;
use super::{Minter, PATIENCE};
use crate::engine::{Engine, SegmentOutcome, broken};
use crate::refusal::Refusal;
use crate::segments::Ask;
use arc_swap::ArcSwapOption;
use common::namespace::GeneratorName;
use common::segment::Shown;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The time that calls wait for a segment since none was there. Later ones are told at once why there is none.
const SEGMENT_WAIT: Duration = PATIENCE;
/// Calls that wait for segments at once, of all names; one more is refused.
const WAITING_MAX: u64 = 8_192;
/// The interval at which a thread of an application looks whether a segment has come.
pub(super) const LOOK: Duration = Duration::from_millis(1);

/// What is to be done for which series, and what masters are to be asked for.
#[derive(Debug, Default)]
pub(super) struct RefillQueue {
    /// The series for which something is to be done, each with the answer to its call, if there is one: a name has one call under way.
    due: Mutex<BTreeMap<usize, Option<(u64, SegmentOutcome)>>>,
    /// At most one for each series.
    wanted: Mutex<Vec<Wanted>>,
    asked: Notify,
    /// True if somebody is about to do all that is due.
    queued: AtomicBool,
    waiting: AtomicU64,
    fetched: AtomicU64,
    numbers: AtomicU64,
    failed: AtomicU64,
    waits: AtomicU64,
    waited_us: AtomicU64,
}

/// What masters are to be asked for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    series: usize,
    pub(crate) name: GeneratorName,
    pub(crate) ask: Ask,
}

/// The state that a series of plain numbers has beside its window.
#[derive(Debug, Default)]
pub(super) struct Fetching {
    /// Told when a segment has come, or something else may have become of it.
    pub(super) changed: Notify,
    /// Since when calls wait for one.
    pending: Mutex<Option<Instant>>,
    /// What kept the masters from granting one.
    why: ArcSwapOption<String>,
    fetched: AtomicU64,
}

/// How segments fared since the start.
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

/// What a name has at the moment, without waiting for the disk.
#[derive(Clone, Debug)]
pub struct SegmentInUse {
    /// Its name.
    pub name: GeneratorName,
    /// The number of hundredths that are used of the numbers that were marked, at most 99.
    pub used_hundredths: u64,
    /// How many of them are left.
    pub marked_left: u64,
}

/// A call that waits, as long as it lives.
pub(super) struct Waiting<'a> {
    refills: &'a RefillQueue,
    since: Instant,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.refills.waiting.fetch_sub(1, Ordering::Relaxed);
        let waited = u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.refills.waited_us.fetch_add(waited, Ordering::Relaxed);
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
}

impl Minter {
    /// Fetches no second segment while the first one is used: for comparisons only. Said before names
    /// are learned.
    ///
    /// # Errors
    /// If minting has ended.
    pub fn fetch_one_segment(&self) -> Result<(), Refusal> {
        self.lock()?.engine.fetch_one_segment();
        Ok(())
    }

    /// How segments fared since the start.
    pub fn segment_counters(&self) -> SegmentCounters {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let RefillQueue { fetched, numbers, failed, waits, waited_us, .. } = &self.refills;
        SegmentCounters {
            fetched: of(fetched),
            numbers: of(numbers),
            failed: of(failed),
            waits: of(waits),
            waited_us: of(waited_us),
        }
    }

    /// The names of which a segment is in use, in the order in which they were learned.
    pub fn segments_in_use(&self) -> impl Iterator<Item = SegmentInUse> {
        self.generators.iter().filter(|generator| !generator.has_ended()).filter_map(|generator| {
            let window = generator.series.serials().filter(|series| series.is_segment())?.window();
            let used = window.taken().saturating_mul(100).checked_div(window.len())?;
            let (name, marked_left) = (generator.namespace().name().clone(), window.left());
            Some(SegmentInUse { name, used_hundredths: used.min(99), marked_left })
        })
    }

    /// How far numbers were ever granted by a name, of those by which some were: what masters must know of, if they have
    /// forgotten nothing. Empty once minting has ended.
    pub(crate) fn segments_seen(&self) -> Vec<(GeneratorName, Shown)> {
        let seen = self.lock().map_or_else(|_| Vec::new(), |state| state.engine.segments_seen());
        let name = |series| Some(self.generators.at(series)?.namespace().name().clone());
        seen.into_iter().filter_map(|(series, seen)| Some((name(series)?, seen))).collect()
    }

    /// Notes what masters are to be asked for.
    pub(super) fn want(&self, series: usize, ask: Ask) {
        if let Some(generator) = self.generators.at(series) {
            locked(&self.refills.wanted).push(Wanted { series, name: generator.namespace().name().clone(), ask });
            self.refills.asked.notify_one();
        }
    }

    /// Waits until masters are to be asked for something.
    pub(crate) async fn wanted(&self) -> Vec<Wanted> {
        loop {
            let wanted = std::mem::take(&mut *locked(&self.refills.wanted));
            if !wanted.is_empty() {
                return wanted;
            }
            self.refills.asked.notified().await;
        }
    }

    /// Takes the outcome of a call for a segment, or of one round of such calls.
    pub(crate) fn heard(self: &Arc<Self>, wanted: &Wanted, answer: SegmentOutcome) {
        let Wanted { series, ask, .. } = wanted;
        if let (SegmentOutcome::Granted(grant), Some(series)) = (answer, self.generators.serials(*series)) {
            self.refills.fetched.fetch_add(1, Ordering::Relaxed);
            self.refills.numbers.fetch_add(grant.span.len(), Ordering::Relaxed);
            if let Some(fetching) = &series.fetching {
                fetching.fetched.fetch_add(1, Ordering::Relaxed);
                *locked(&fetching.pending) = None;
                fetching.why.store(None);
            }
        }
        let mut due = locked(&self.refills.due);
        let its = due.entry(*series).or_default();
        *its = Some(later(*its, (ask.call, answer)));
        drop(due);
        self.tend_soon();
    }

    /// No master granted one yet; why. It is asked for again.
    pub(crate) fn heard_nothing(&self, wanted: &Wanted, why: String) {
        self.refills.failed.fetch_add(1, Ordering::Relaxed);
        if let Some(fetching) = self.generators.serials(wanted.series).and_then(|it| it.fetching.as_ref()) {
            fetching.why.store(Some(Arc::new(why)));
        }
    }

    /// Tells whether nobody mints by that name any more.
    pub(crate) fn has_ended(&self, wanted: &Wanted) -> bool {
        self.generators.at(wanted.series).is_none_or(|generator| generator.has_ended())
    }

    /// Raises the marks of this series soon, and lengthens its window.
    pub(super) fn tend_to(self: &Arc<Self>, series: &SerialSeries) {
        self.is_due(series);
        self.tend_soon();
    }

    /// Whoever is next to do what is due raises the marks of this series, too, so that names that wait for their turn share a write.
    pub(super) fn is_due(&self, series: &SerialSeries) {
        if series.is_segment() {
            locked(&self.refills.due).entry(series.id).or_default();
        }
    }

    fn tend_soon(self: &Arc<Self>) {
        if !self.refills.queued.swap(true, Ordering::AcqRel) {
            let minter = Arc::clone(self);
            self.in_background(move || minter.tend());
        }
    }

    /// Does all that is due, in the background.
    fn tend(&self) {
        let done = self.decide(|engine, hands| {
            // First: what is noted from now on is done by somebody else.
            self.refills.queued.store(false, Ordering::Release);
            Ok(self.do_what_is_due(engine, hands))
        });
        match done {
            Ok(series) => self.tell_of(series),
            Err(refusal) => {
                self.refills.queued.store(false, Ordering::Release);
                tracing::debug!(%refusal, "segments are not tended any more");
            }
        }
    }

    /// Does all that is due, in one write, and gives those series for which there was an answer. Only who waits for those is to be told:
    /// others would look again, find what they found, and be told of that.
    pub(super) fn do_what_is_due(&self, engine: &mut Engine, hands: &mut Hands<'_>) -> BTreeSet<usize> {
        let due = std::mem::take(&mut *locked(&self.refills.due));
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

    /// Wakes those who wait for a segment of these series.
    pub(super) fn tell_of(&self, series: BTreeSet<usize>) {
        let fetching = series.into_iter().filter_map(|at| self.generators.serials(at)?.fetching.as_ref());
        fetching.for_each(|fetching| fetching.changed.notify_waiters());
    }

    /// A call begins to wait for a segment.
    pub(super) fn waits(&self) -> Result<Waiting<'_>, Refusal> {
        if self.refills.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX {
            self.refills.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Refusal::Overloaded("too many requests wait for segments"));
        }
        self.refills.waits.fetch_add(1, Ordering::Relaxed);
        Ok(Waiting { refills: &self.refills, since: Instant::now() })
    }

    /// The time that a call which needs a segment of that series may still wait for one. Where others take what comes, it does not wait
    /// longer than where nothing comes.
    pub(super) fn segment_left(&self, series: &SerialSeries, call: &Waiting<'_>) -> Result<Duration, Refusal> {
        let fetching = series.fetching.as_ref().ok_or_else(broken)?;
        let own = SEGMENT_WAIT.checked_sub(call.since.elapsed()).ok_or_else(|| fetching.pending())?;
        Ok(fetching.left()?.min(own))
    }
}
