//! Catalog that somebody wants IDs by and that are not served here: what they stand for is asked, and they are taken in use by a request that
//! fits that.

use super::{Catalog, name_of};
use crate::masters::{Ask, CallError, First, Lane, Line};
use crate::minter::Minter;
use crate::refusal::Refusal;
use common::namespace::{GeneratorName, Namespace};
use common::rpc::lease::{Found, NAMESPACES_PAGE_MAX, NameState, Refusal as Said, Registered, RetiredOnly};
use common::sequence::SequenceDefinition;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Between two questions about unknown names, if nothing new came of the first. Requests that come meanwhile wait for the next question,
/// which is about all of their names: each is answered by what the masters knew after it came, however many there are.
const LOOK_UP_PAUSE: Duration = Duration::from_millis(100);
/// Unknown names in one question; a request for one more is refused.
const LOOK_UP_NAMES_MAX: usize = NAMESPACES_PAGE_MAX;
/// Steps of a look-up at most: what a name stands for is asked, and then whether it may be taken in use, unless it stands for something else
/// by then.
const STEPS_MAX: usize = 4;

/// The sequence of that name, about which the masters may have to be asked; `fits` refuses what would get no number of it.
///
/// # Errors
/// As [`Minter::keyed`] and [`Catalog::look_up`].
pub(crate) async fn source_of_keys(
    minter: &Minter,
    names: Option<&Arc<Catalog>>,
    name: &str,
    fits: impl Fn(&SequenceDefinition) -> Result<(), Refusal>,
) -> Result<Arc<Namespace>, Refusal> {
    let known = minter.keyed(name);
    let (Some(names), Err(unknown)) = (names, &known) else { return known };
    let fits = |heard: &Namespace| fits(heard.sequences().ok_or_else(|| unknown.clone())?);
    Box::pin(names.look_up(name, fits)).await?;
    minter.keyed(name)
}

/// A name that is not served here, and what it stands for as far as this agent has heard: a request fits that.
#[derive(Debug)]
pub(crate) struct Unserved {
    name: GeneratorName,
    heard: Option<Namespace>,
}

impl Unserved {
    /// Tells whether another step gets further, after so many.
    pub(crate) fn has_further(&self, steps: usize) -> bool {
        steps == 0 || steps < STEPS_MAX && self.heard.is_some()
    }
}

/// Catalog about which the masters are to be asked.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Each with the number of the last request for it, and what it is to be taken in use as, if it is.
    names: BTreeMap<GeneratorName, (u64, Option<Namespace>)>,
    /// Requests so far.
    requests: u64,
}

/// What came of the last question about unknown names.
#[derive(Debug, Default)]
pub(super) struct Asked {
    at: Option<Instant>,
    /// It was asked after this request had come, and all before it.
    request: u64,
    outcome: Option<Result<(), String>>,
}

impl Catalog {
    /// Somebody wants an ID by a name that is not served here: perhaps the masters know it by now. They are asked after the
    /// request came, so a name that was registered before it is known then. The first ID of a name is given when both masters hold that
    /// it is in use, for which they are asked if the request `fits` what it stands for.
    ///
    /// # Errors
    /// [`Refusal::MastersUnavailable`] if none of them can say, or both are needed; [`Refusal::Overloaded`] if too many unknown names are
    /// asked for; what `fits` says.
    pub async fn look_up(&self, name: &str, fits: impl Fn(&Namespace) -> Result<(), Refusal>) -> Result<(), Refusal> {
        for steps in 0.. {
            match self.unserved(name, &fits)?.filter(|unserved| unserved.has_further(steps)) {
                Some(unserved) => self.step(unserved).await?,
                None => break,
            }
        }
        Ok(())
    }

    /// The name, if there may be such and it is not served here. About a request that does not fit what was heard of it nobody is asked:
    /// nothing would come of taking the name in use.
    ///
    /// # Errors
    /// What `fits` says.
    pub(crate) fn unserved(
        &self,
        name: &str,
        fits: impl Fn(&Namespace) -> Result<(), Refusal>,
    ) -> Result<Option<Unserved>, Refusal> {
        // A name has one definition: one of another kind is known.
        let unknown = self.minter.kind_of(name).is_none();
        let Some(name) = name.parse().ok().filter(|_| unknown) else { return Ok(None) };
        let heard = self.heard(&name);
        heard.as_ref().map_or(Ok(()), fits)?;
        Ok(Some(Unserved { name, heard }))
    }

    /// One step of that: has a name taken in use of which its request fits what was heard, and asks about one of which nothing was.
    ///
    /// # Errors
    /// As [`look_up`](Self::look_up).
    pub(crate) async fn step(&self, Unserved { name, heard }: Unserved) -> Result<(), Refusal> {
        let request = self.want(&name, heard)?;
        let mut asked = self.asked.lock().await;
        if asked.request < request {
            if let Some(at) = asked.at {
                tokio::time::sleep_until((at + LOOK_UP_PAUSE).into()).await;
            }
            let began = Instant::now();
            let (names, upto) = {
                let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
                let names = wanted.names.iter().map(|(name, (_, to_use))| (name.clone(), to_use.clone()));
                (names.collect(), wanted.requests)
            };
            let found = self.find(names).await;
            // What brought something new does so once.
            asked.at = (found != Ok(true)).then_some(began);
            (asked.request, asked.outcome) = (upto, Some(found.map(drop)));
            let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
            wanted.names.retain(|_, (request, _)| *request > upto);
        }
        asked.outcome.clone().unwrap_or(Ok(())).map_err(Refusal::MastersUnavailable)?;
        self.unused.why_not(&name).map_or(Ok(()), |why| Err(Refusal::MastersUnavailable(why)))
    }

    /// Notes that somebody wants to know about a name, or to use it as that; gives the number of the request.
    fn want(&self, name: &GeneratorName, to_use: Option<Namespace>) -> Result<u64, Refusal> {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted.names.len() >= LOOK_UP_NAMES_MAX && !wanted.names.contains_key(name) {
            if self.asked.try_lock().is_err() {
                return Err(Refusal::Overloaded("too many unknown names are asked for; ask again"));
            }
            // Nobody waits for an answer about them any more.
            wanted.names.clear();
        }
        wanted.requests += 1;
        let request = wanted.requests;
        let before = wanted.names.remove(name).and_then(|(_, to_use)| to_use);
        wanted.names.insert(name.clone(), (request, to_use.or(before)));
        Ok(request)
    }

    /// Asks the masters about these names, and has them take in use those that are to be: one after the other, until all are known. A name
    /// that both have confirmed may for a moment be known to one of them only. `true` if something new came of it.
    pub(super) async fn find(&self, names: BTreeMap<GeneratorName, Option<Namespace>>) -> Result<bool, String> {
        let (left, is_news) = (&std::sync::Mutex::new(names), &AtomicBool::new(false));
        let take_off = |known: &BTreeSet<GeneratorName>| {
            let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
            left.retain(|name, _| !known.contains(name));
            left.is_empty()
        };
        // What one knows suffices, unless it is a name that the other one confirmed in this moment.
        let asked = self.masters.ask(Ask::new(Lane::Lists, First::Turn(&self.turn)), |line| async move {
            let names = left.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let (to_use, to_find): (Vec<_>, Vec<_>) = names.into_iter().partition(|(_, to_use)| to_use.is_some());
            let (taken, refused) = self.take_in_use(&line, to_use.into_iter().filter_map(|(_, to_use)| to_use)).await;
            let to_find: BTreeSet<_> = to_find.into_iter().map(|(name, _)| name).chain(refused).collect();
            is_news.fetch_or(!taken.is_empty(), Ordering::Relaxed);
            if !take_off(&taken) && !to_find.is_empty() {
                let found = line.find_namespaces(to_find.iter().cloned().collect()).await?;
                let (known, news) = self.hear(&to_find, found).await;
                is_news.fetch_or(news, Ordering::Relaxed);
                return Ok(take_off(&known).then_some(()));
            }
            Ok(take_off(&taken).then_some(()))
        });
        match asked.await {
            Err(none) if !none.answered => Err(none.why()),
            _ => Ok(is_news.load(Ordering::Relaxed)),
        }
    }

    /// Takes in what a master says of these names. Gives those that it knows, and whether something is new.
    pub(super) async fn hear(&self, asked: &BTreeSet<GeneratorName>, found: Found) -> (BTreeSet<GeneratorName>, bool) {
        let found = self.completed(found);
        let known = found.iter().map(name_of).collect();
        let (unused, used): (Vec<_>, Vec<_>) = found.into_iter().partition(|one| one.state == NameState::Unused);
        let is_news = self.unused.learn(asked, unused);
        self.learned.fetch_or(!used.is_empty(), Ordering::Relaxed);
        (known, self.learn_and_keep(used).await | is_news)
    }

    /// Has the masters take these down as in use, and serves them then; gives those with which that was done, and those that stand for
    /// something else by now, or for nothing.
    async fn take_in_use(
        &self,
        line: &Line,
        unused: impl IntoIterator<Item = Namespace>,
    ) -> (BTreeSet<GeneratorName>, Vec<GeneratorName>) {
        let (mut failed, mut in_use, mut refused) = (None::<String>, Vec::new(), Vec::new());
        for namespace in unused {
            let name = namespace.name().clone();
            if failed.is_none() {
                match line.use_namespace(namespace).await {
                    Ok(used) => {
                        in_use.push(used);
                        continue;
                    }
                    Err(CallError::Refused {
                        refusal: Said::NoSuchName | Said::NameRetired | Said::NameTaken, ..
                    }) => {
                        refused.push(name);
                        continue;
                    }
                    Err(error) => failed = Some(format!("{}: {error}", line.address())),
                }
            }
            self.unused.note_why_not(&name, failed.as_deref());
        }
        let taken: BTreeSet<_> = in_use.iter().map(name_of).collect();
        taken.iter().for_each(|name| self.unused.remove(name));
        // Kept by one write, however many they are.
        self.learned.fetch_or(!in_use.is_empty(), Ordering::Relaxed);
        self.learn_and_keep(in_use).await;
        (taken, refused)
    }

    /// Catalog that were asked about; of those that the masters know by name alone this agent knows what they stood for, if it served them.
    pub(super) fn completed(&self, found: Found) -> Vec<Registered> {
        let Found { mut names, retired } = found;
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let complete = |RetiredOnly { name, proof }: RetiredOnly| {
            let namespace = known.get(&name)?.namespace.clone();
            Some(Registered { namespace, state: NameState::Retired, proof })
        };
        names.extend(retired.into_iter().filter_map(complete));
        names
    }
}
