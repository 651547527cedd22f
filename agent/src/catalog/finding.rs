//! Names that somebody wants IDs by and that are not served here: what they stand for is asked, and they are taken in use by a request that
//! fits that.

use super::{Catalog, name_of};
use crate::masters::{Ask, CallError, First, Lane, Line};
use crate::refusal::Refusal;
use common::namespace::{GeneratorName, Namespace};
use futures::{FutureExt as _, StreamExt as _, stream};
use net::rpc::lease::{Found, NAMESPACES_PAGE_MAX, NameState, Refusal as Said, Registered, RetiredOnly};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{OwnedMutexGuard, watch};

/// Questions about unknown names of which nothing new came: one each so long on average,
const FRUITLESS_EACH: Duration = Duration::from_millis(100);
/// and so many of them at once. Requests that come while one is asked, or has to wait, are for the next question, which is about all of their
/// names: each is answered by what the masters knew after it came, however many there are.
pub(super) const FRUITLESS_AT_ONCE: u32 = 50;
/// Names in one question; a request for one more is refused.
const LOOK_UP_NAMES_MAX: usize = NAMESPACES_PAGE_MAX;
/// Those of them of which this agent has not heard.
const UNHEARD_MAX: usize = LOOK_UP_NAMES_MAX / 4 * 3;
/// The time for names that are to be used, in one question: whoever waits for the next one waits for them.
const USE_TIME: Duration = Duration::from_secs(2);
/// Names of them that a master takes in use at once: it makes them durable together, and other calls have room beside them.
const USES_AT_ONCE: usize = 16;
/// Steps of a look-up at most: what a name stands for is asked, and then whether it may be taken in use, unless it stands for something else
/// by then.
const STEPS_MAX: usize = 4;

/// A name that is not served here.
#[derive(Debug)]
pub(crate) struct Unserved {
    name: GeneratorName,
    /// The meaning of it that this agent has heard of, if the request fits that.
    heard: Option<Arc<Namespace>>,
    /// The reason why it does not.
    pub(crate) unfit: Option<Refusal>,
}

impl Unserved {
    #[cfg(feature = "server")]
    pub(crate) fn name(&self) -> &GeneratorName {
        &self.name
    }

    /// Tells whether another step gets further, after so many.
    pub(crate) fn has_further(&self, steps: usize) -> bool {
        steps == 0 || steps < STEPS_MAX && self.heard.is_some()
    }
}

/// Names that somebody waits for, until the next question about such.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Each with what it is to be taken in use as, if it is.
    names: BTreeMap<GeneratorName, Option<Namespace>>,
    /// The outcome of that question.
    answer: watch::Sender<Option<Unservable>>,
}

/// The reasons why names that there are, or may be, cannot be served now.
type Unservable = BTreeMap<GeneratorName, Refusal>;

impl Catalog {
    /// Somebody wants an ID by a name that is not served here: perhaps the masters know it by now. They are asked after the
    /// request came, so a name that was registered before it is known then. The first ID of a name is given when both masters hold that
    /// it is in use, for which they are asked if the request `fits` what it stands for.
    ///
    /// # Errors
    /// [`Refusal::MastersUnavailable`] if none of them can say, or both are needed; [`Refusal::Overloaded`] if too many unknown names are
    /// asked for; what `fits` says.
    pub async fn look_up(
        self: &Arc<Self>,
        name: &str,
        fits: impl Fn(&Namespace) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        for steps in 0.. {
            match self.unserved(name, &fits) {
                Some(unserved) if unserved.has_further(steps) => self.step(&unserved).await?,
                Some(Unserved { unfit: Some(why), .. }) => return Err(why),
                _ => break,
            }
        }
        Ok(())
    }

    /// The name, if there may be such and it is not served here. One that is heard of and does not fit is not taken in use, but may have been
    /// taken back since then, and stand for something else by now.
    pub(crate) fn unserved(&self, name: &str, fits: impl Fn(&Namespace) -> Result<(), Refusal>) -> Option<Unserved> {
        // A name has one definition: one of another kind is known.
        let unknown = self.minter.names().kind_of(name).is_none();
        let name = name.parse::<GeneratorName>().ok().filter(|_| unknown)?;
        let heard =
            self.minter.names().look(name.as_str(), |known| known.is_unused().then(|| Arc::clone(&known.namespace)));
        let heard = heard.flatten();
        let unfit = heard.as_deref().and_then(|heard| fits(heard).err());
        Some(Unserved { name, heard: heard.filter(|_| unfit.is_none()), unfit })
    }

    /// One step of that: has a name taken in use of which its request fits what was heard, and asks about one of which nothing was.
    ///
    /// # Errors
    /// As [`look_up`](Self::look_up).
    pub(crate) async fn step(self: &Arc<Self>, Unserved { name, heard, .. }: &Unserved) -> Result<(), Refusal> {
        let mut answer = self.want(name.clone(), heard.as_deref().cloned())?;
        let lost = |_| Refusal::MastersUnavailable("the question about this name got lost; ask again".to_owned());
        let answer = answer.wait_for(Option::is_some).await.map_err(lost)?;
        let why = answer.as_ref().and_then(|unserved| unserved.get(name));
        // It may have become known by other words of theirs.
        why.filter(|_| self.minter.names().kind_of(name.as_str()).is_none()).cloned().map_or(Ok(()), Err)
    }

    /// Notes that somebody wants to know about a name, or to use it as that; gives what will come of the question.
    fn want(
        self: &Arc<Self>,
        name: GeneratorName,
        to_use: Option<Namespace>,
    ) -> Result<watch::Receiver<Option<Unservable>>, Refusal> {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        // It takes what is wanted as soon as that is not locked.
        if let Ok(pause) = Arc::clone(&self.asking).try_lock_owned() {
            let (asks, catalog) = (Arc::clone(self).ask_wanted(pause), Arc::downgrade(self));
            // On a runtime that does not end before the others that ask.
            self.masters.live_on(&Handle::current()).spawn(async move {
                if AssertUnwindSafe(asks).catch_unwind().await.is_err()
                    && let Some(catalog) = catalog.upgrade()
                {
                    // Whoever wants a name is told that the question got lost.
                    *catalog.wanted.lock().unwrap_or_else(PoisonError::into_inner) = Wanted::default();
                }
            });
        }
        // Names that nobody has heard of do not keep those out that are to be used.
        let unheard = || wanted.names.values().filter(|to_use| to_use.is_none()).count();
        let is_full = wanted.names.len() >= LOOK_UP_NAMES_MAX || to_use.is_none() && unheard() >= UNHEARD_MAX;
        if is_full && !wanted.names.contains_key(&name) {
            return Err(Refusal::Overloaded("too many unknown names are asked for; ask again"));
        }
        let before = wanted.names.remove(&name).flatten();
        wanted.names.insert(name, to_use.or(before));
        Ok(wanted.answer.subscribe())
    }

    /// Asks about all that is wanted, also if nobody waits for it any more, after the `pause` for those before.
    async fn ask_wanted(self: Arc<Self>, mut pause: OwnedMutexGuard<Option<Instant>>) {
        loop {
            if let Some(until) = *pause {
                tokio::time::sleep_until(until.into()).await;
            }
            let Wanted { names, answer } =
                std::mem::take(&mut *self.wanted.lock().unwrap_or_else(PoisonError::into_inner));
            let (began, before) = (Instant::now(), self.minter.names().changes());
            let found = Some(self.find(names).await);
            // What brought something new does so once.
            if self.minter.names().changes() == before {
                let rested = began.checked_sub(FRUITLESS_EACH * (FRUITLESS_AT_ONCE - 1));
                *pause = Some((*pause).max(rested).unwrap_or(began) + FRUITLESS_EACH);
            }
            let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
            if wanted.names.is_empty() {
                // In this order: whoever wants a name after it asks, and whoever has the answer finds nothing held here.
                drop((pause, wanted));
                drop(self);
                answer.send_replace(found);
                return;
            }
            drop(wanted);
            answer.send_replace(found);
        }
    }

    /// Asks the masters about these names, and has them take in use those that are to be: one after the other, until all are known. A name
    /// that both have confirmed may for a moment be known to one of them only.
    pub(super) async fn find(&self, names: BTreeMap<GeneratorName, Option<Namespace>>) -> Unservable {
        let (left, unserved) = (&std::sync::Mutex::new(names), &std::sync::Mutex::new(BTreeMap::new()));
        let take_off = |known: &BTreeSet<GeneratorName>| {
            let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
            left.retain(|name, _| !known.contains(name));
            unserved.lock().unwrap_or_else(PoisonError::into_inner).retain(|name, _| !known.contains(name));
            left.is_empty().then_some(())
        };
        let stays_unserved = &|name, why: &Refusal| {
            unserved.lock().unwrap_or_else(PoisonError::into_inner).insert(name, why.clone());
        };
        // What one knows suffices, unless it is a name that the other one confirmed in this moment.
        let asked = self.masters.ask(Ask::new(Lane::Lists, First::Turn(&self.turn)), |line| async move {
            let names = left.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let (in_use, to_find) = taken_in_use(&line, names, stays_unserved).await;
            let used: BTreeSet<_> = in_use.iter().map(name_of).collect();
            let done = take_off(&used);
            // Kept by one write, however many they are.
            self.learned.fetch_or(!in_use.is_empty(), Ordering::Relaxed);
            if let Err(why) = self.learn_and_keep(in_use).await {
                used.into_iter().for_each(|name| stays_unserved(name, &why));
            }
            if to_find.is_empty() {
                return Ok(done);
            }
            let found = line.find_namespaces(to_find.iter().cloned().collect()).await?;
            let (known, learned) = self.hear(to_find, found).await;
            let done = take_off(&known);
            if let Err(why) = learned {
                let is_unused =
                    |name: &GeneratorName| self.minter.names().look(name.as_str(), |known| known.is_unused());
                let used = known.into_iter().filter(|name| is_unused(name) != Some(true));
                used.for_each(|name| stays_unserved(name, &why));
            }
            Ok(done)
        });
        let asked = asked.await;
        let mut unserved = std::mem::take(&mut *unserved.lock().unwrap_or_else(PoisonError::into_inner));
        if let Err(none) = asked
            && !none.answered
        {
            let why = Refusal::MastersUnavailable(none.why());
            let left = std::mem::take(&mut *left.lock().unwrap_or_else(PoisonError::into_inner));
            unserved.extend(left.into_keys().map(|name| (name, why.clone())));
        }
        unserved
    }

    /// Takes in what a master says of the names that it was asked about. Gives those that it knows, and whether they were learned.
    pub(super) async fn hear(
        &self,
        asked: BTreeSet<GeneratorName>,
        found: Found,
    ) -> (BTreeSet<GeneratorName>, Result<(), Refusal>) {
        let found = self.completed(found);
        let known: BTreeSet<_> = found.iter().map(name_of).collect();
        let (unused, used): (Vec<_>, Vec<_>) = found.into_iter().partition(|one| one.state == NameState::Unused);
        self.minter.names().hear_unused(asked.into_iter().filter(|name| !known.contains(name)), unused);
        self.learned.fetch_or(!used.is_empty(), Ordering::Relaxed);
        let learned = self.learn_and_keep(used).await;
        (known, learned)
    }

    /// Names that were asked about; of those that the masters know by name alone this agent may know what they stood for.
    pub(super) fn completed(&self, found: Found) -> Vec<Registered> {
        let Found { mut names, retired } = found;
        let complete = |RetiredOnly { name, proof }: RetiredOnly| {
            let namespace = self.minter.names().look(name.as_str(), |known| Namespace::clone(&known.namespace))?;
            Some(Registered { namespace, state: NameState::Retired, proof })
        };
        names.extend(retired.into_iter().filter_map(complete));
        names
    }
}

/// Has a master take the names in use that are to be. Gives those that are, and those that it is still to be asked about; all others
/// `stay` unused, and why.
async fn taken_in_use(
    line: &Line,
    names: BTreeMap<GeneratorName, Option<Namespace>>,
    stay: &impl Fn(GeneratorName, &Refusal),
) -> (Vec<Registered>, BTreeSet<GeneratorName>) {
    let (mut in_use, mut to_find, mut to_use) = (Vec::new(), BTreeSet::new(), Vec::new());
    for (name, namespace) in names {
        match namespace {
            None => _ = to_find.insert(name),
            Some(namespace) => to_use.push((name, namespace)),
        }
    }
    let (began, failed) = (Instant::now(), &OnceLock::new());
    let take = |(name, namespace)| async move {
        if began.elapsed() > USE_TIME {
            failed.get_or_init(|| Refusal::Overloaded("many names give their first ID at once; ask again"));
        }
        if let Some(why) = failed.get() {
            return (name, Err(Some(why.clone())));
        }
        let used = line.use_namespace(namespace).await.map_err(|error| match error {
            // It stands for something else by now, or for nothing.
            CallError::Refused { refusal: Said::NoSuchName | Said::NameRetired | Said::NameTaken, .. } => None,
            error => {
                let why = || format!("its first ID needs both masters: {}: {error}", line.address());
                Some(failed.get_or_init(|| Refusal::MastersUnavailable(why())).clone())
            }
        });
        (name, used)
    };
    let mut taken = stream::iter(to_use).map(take).buffer_unordered(USES_AT_ONCE);
    while let Some((name, used)) = taken.next().await {
        match used {
            Ok(used) => in_use.push(used),
            Err(None) => _ = to_find.insert(name),
            Err(Some(why)) => stay(name, &why),
        }
    }
    (in_use, to_find)
}
