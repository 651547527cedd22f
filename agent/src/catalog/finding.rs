//! Names that somebody wants IDs by and that are not served here: what they stand for is asked, and they are taken in use by a request that
//! fits that.

use super::{Catalog, name_of};
use crate::masters::{Ask, CallError, First, Lane};
use crate::minter::{Entry, Standing};
use crate::refusal::Refusal;
use common::namespace::{GeneratorName, Namespace};
use common::rpc::lease::{Found, NAMESPACES_PAGE_MAX, NameState, Refusal as Said, Registered, RetiredOnly};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
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

/// A name that is not served here, and what it stands for as far as this agent has heard: a request fits that.
#[derive(Debug)]
pub(crate) struct Unserved {
    name: GeneratorName,
    heard: Option<Arc<Namespace>>,
}

impl Unserved {
    /// Tells whether another step gets further, after so many.
    pub(crate) fn has_further(&self, steps: usize) -> bool {
        steps == 0 || steps < STEPS_MAX && self.heard.is_some()
    }
}

/// Names about which the masters are to be asked.
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
        let Some(name) = name.parse::<GeneratorName>().ok().filter(|_| unknown) else { return Ok(None) };
        let heard =
            self.minter.names.look(name.as_str(), |known| known.is_unused().then(|| Arc::clone(&known.namespace)));
        let heard = heard.flatten();
        heard.as_deref().map_or(Ok(()), fits)?;
        Ok(Some(Unserved { name, heard }))
    }

    /// One step of that: has a name taken in use of which its request fits what was heard, and asks about one of which nothing was.
    ///
    /// # Errors
    /// As [`look_up`](Self::look_up).
    pub(crate) async fn step(&self, Unserved { name, heard }: Unserved) -> Result<(), Refusal> {
        let request = self.want(&name, heard.as_deref().cloned())?;
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
        let why_unused = |known: &Arc<Entry>| match &known.standing {
            Standing::Unused(why) => why.clone(),
            _ => None,
        };
        let why = self.minter.names.look(name.as_str(), why_unused).flatten();
        why.map_or(Ok(()), |why| Err(Refusal::MastersUnavailable(why)))
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
        let (left, before) = (&std::sync::Mutex::new(names), self.minter.names.changes());
        let take_off = |known: &BTreeSet<GeneratorName>| {
            let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
            left.retain(|name, _| !known.contains(name));
            left.is_empty().then_some(())
        };
        // What one knows suffices, unless it is a name that the other one confirmed in this moment.
        let asked = self.masters.ask(Ask::new(Lane::Lists, First::Turn(&self.turn)), |line| async move {
            let names = left.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let (mut in_use, mut to_find, mut failed) = (Vec::new(), BTreeSet::new(), None::<String>);
            for (name, to_use) in names {
                match to_use {
                    None => _ = to_find.insert(name),
                    Some(namespace) if failed.is_none() => match line.use_namespace(namespace).await {
                        Ok(used) => in_use.push(used),
                        // It stands for something else by now, or for nothing.
                        Err(CallError::Refused {
                            refusal: Said::NoSuchName | Said::NameRetired | Said::NameTaken,
                            ..
                        }) => {
                            self.minter.names.note_why_unused(&name, None);
                            to_find.insert(name);
                        }
                        Err(error) => {
                            let why = format!("its first ID needs both masters: {}: {error}", line.address());
                            self.minter.names.note_why_unused(&name, Some(failed.insert(why).clone()));
                        }
                    },
                    Some(_) => self.minter.names.note_why_unused(&name, failed.clone()),
                }
            }
            let done = take_off(&in_use.iter().map(name_of).collect());
            // Kept by one write, however many they are.
            self.learned.fetch_or(!in_use.is_empty(), Ordering::Relaxed);
            self.learn_and_keep(in_use).await;
            if to_find.is_empty() {
                return Ok(done);
            }
            let found = line.find_namespaces(to_find.iter().cloned().collect()).await?;
            Ok(take_off(&self.hear(to_find, found).await))
        });
        match asked.await {
            Err(none) if !none.answered => Err(none.why()),
            _ => Ok(self.minter.names.changes() != before),
        }
    }

    /// Takes in what a master says of the names that it was asked about. Gives those that it knows.
    pub(super) async fn hear(&self, asked: BTreeSet<GeneratorName>, found: Found) -> BTreeSet<GeneratorName> {
        let found = self.completed(found);
        let known: BTreeSet<_> = found.iter().map(name_of).collect();
        let (unused, used): (Vec<_>, Vec<_>) = found.into_iter().partition(|one| one.state == NameState::Unused);
        self.minter.names.hear_unused(asked.into_iter().filter(|name| !known.contains(name)), unused);
        self.learned.fetch_or(!used.is_empty(), Ordering::Relaxed);
        self.learn_and_keep(used).await;
        known
    }

    /// Names that were asked about; of those that the masters know by name alone this agent knows what they stood for, if it served them.
    pub(super) fn completed(&self, found: Found) -> Vec<Registered> {
        let Found { mut names, retired } = found;
        let complete = |RetiredOnly { name, proof }: RetiredOnly| {
            let known = self.minter.names.look(name.as_str(), |known| known.kept()).flatten()?;
            Some(Registered { state: NameState::Retired, proof, ..known })
        };
        names.extend(retired.into_iter().filter_map(complete));
        names
    }
}
