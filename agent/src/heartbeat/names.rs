//! What generators' names stand for: the masters know, this agent asks them, and keeps what it learned beside the serial
//! file, so that it mints under the same names after a restart without any master.

use super::kept_names::{keep, kept_at, kept_in};
use super::name_rate::NameRate;
use super::unused_names::UnusedNames;
use crate::masters::{Ask, CallError, First, Lane, Line, Masters, Preferred};
use crate::minter::{Defined, Minter};
use crate::refusal::Refusal;
use crate::serial_file::StartKind;
use common::kind::Kind as IdKind;
use common::namespace::{GeneratorName, Namespace};
use common::rpc::lease::{
    Changed, DefineReply, Found, NAMESPACES_PAGE_MAX, NameState, Refusal as Said, Registered, RetiredOnly,
};
use common::rpc::mint::MintCode;
use common::sequence::SequenceDefinition;
use common::setting::NAMESPACES_MAX;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;

/// The masters are asked for all names this often.
const REFRESH: Duration = Duration::from_secs(60);
/// After this long they are asked again if they did not answer, or not take back what they have forgotten, and after twice as long each
/// further time.
const SAY_AGAIN: Duration = Duration::from_secs(2);
/// Retired names that are remembered, to show them to masters that have forgotten it.
const RETIRED_MAX: usize = NAMESPACES_MAX;
/// Between two questions about unknown names, if nothing new came of the first. Requests that come meanwhile wait for the next question,
/// which is about all of their names: each is answered by what the masters knew after it came, however many there are.
const LOOK_UP_PAUSE: Duration = Duration::from_millis(100);
/// Unknown names in one question; a request for one more is refused.
const LOOK_UP_NAMES_MAX: usize = NAMESPACES_PAGE_MAX;
/// Definitions under way at once; one more waits for its turn.
const DEFINES_MAX: usize = 8;
/// Pages of names at most: all that there may be, and one.
const PAGES_MAX: usize = NAMESPACES_MAX / NAMESPACES_PAGE_MAX + 2;

/// Steps of a look-up at most: what a name stands for is asked, and then whether it may be taken in use, unless it stands for something else
/// by then.
const STEPS_MAX: usize = 4;

/// The sequence of that name, about which the masters may have to be asked; `fits` refuses what would get no number of it.
///
/// # Errors
/// As [`Minter::keyed`] and [`Names::look_up`].
pub(crate) async fn source_of_keys(
    minter: &Minter,
    names: Option<&Arc<Names>>,
    name: &str,
    fits: impl Fn(&SequenceDefinition) -> Result<(), Refusal>,
) -> Result<Arc<Namespace>, Refusal> {
    let known = minter.keyed(name);
    let (Some(names), Err(unknown)) = (names, &known) else { return known };
    let fits = |heard: &Namespace| fits(heard.sequences().ok_or_else(|| unknown.clone())?);
    Box::pin(names.look_up(name, fits)).await?;
    minter.keyed(name)
}

/// The names, as this agent learns them.
pub struct Names {
    masters: Arc<Masters>,
    minter: Arc<Minter>,
    kept_at: PathBuf,
    /// Which of the masters is asked first the next time: each is heard now and then.
    turn: AtomicUsize,
    /// The master that answered the last definition.
    defined: Preferred,
    defines: Semaphore,
    /// Turns of dry runs, which take no budget: they hold up no definition.
    tries: Semaphore,
    /// The names that each caller registered lately.
    rate: NameRate,
    /// The masters' word on each name that is served, and on each that was and is retired.
    known: std::sync::Mutex<BTreeMap<GeneratorName, Registered>>,
    /// Names that are registered and by which nobody has given an ID yet.
    unused: UnusedNames,
    /// The masters' digest of all names ([`HeartbeatReply::names`](common::rpc::lease::HeartbeatReply::names)) when nothing was left to be
    /// learned or shown.
    seen: std::sync::Mutex<Option<u64>>,
    /// Tells whether names were learned since by somebody's request, which that number does not stand for.
    learned: AtomicBool,
    /// Why each name that is not served is not, as it was logged. No more than names that may be registered.
    said: std::sync::Mutex<BTreeMap<GeneratorName, String>>,
    wanted: std::sync::Mutex<Wanted>,
    /// Whoever has it asks about wanted names.
    asked: Mutex<Asked>,
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

/// Names about which the masters are to be asked.
#[derive(Debug, Default)]
struct Wanted {
    /// Each with the number of the last request for it, and what it is to be taken in use as, if it is.
    names: BTreeMap<GeneratorName, (u64, Option<Namespace>)>,
    /// Requests so far.
    requests: u64,
}

/// What came of the last question about unknown names.
#[derive(Debug, Default)]
struct Asked {
    at: Option<Instant>,
    /// It was asked after this request had come, and all before it.
    request: u64,
    outcome: Option<Result<(), String>>,
}

impl Names {
    /// The names as these masters know them. What is learned is kept beside `serial_file`.
    pub(crate) fn new(masters: Arc<Masters>, serial_file: &Path) -> Self {
        Self {
            minter: Arc::clone(&masters.minter),
            masters,
            kept_at: kept_at(serial_file),
            turn: AtomicUsize::new(0),
            defined: Preferred::default(),
            defines: Semaphore::new(DEFINES_MAX),
            tries: Semaphore::new(1),
            rate: NameRate::default(),
            known: std::sync::Mutex::default(),
            unused: UnusedNames::default(),
            seen: std::sync::Mutex::default(),
            learned: AtomicBool::default(),
            said: std::sync::Mutex::default(),
            wanted: std::sync::Mutex::default(),
            asked: Mutex::default(),
        }
    }

    /// Takes in what was kept from a former run, if that was of the cluster in which this session goes on: a name outlives
    /// neither. It is not a source of truth: a name whose serials are in the serial file is only taken with the definition
    /// they were made by.
    pub async fn recall(&self) {
        let bytes = match std::fs::read(&self.kept_at) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return,
            Err(error) => return tracing::warn!(%error, file = %self.kept_at.display(), "no names could be recalled"),
        };
        let here = self.minter.membership().cluster;
        let resumed = *self.minter.start() == StartKind::Resumed;
        match kept_in(&bytes) {
            Ok(kept) if resumed && here.is_some() && kept.cluster == here => {
                let retired: Vec<_> =
                    kept.names.iter().filter(|one| one.state == NameState::Retired).cloned().collect();
                self.learn(kept.names).await;
                let named = retired.into_iter().map(|one| (one.namespace.name().clone(), one));
                self.known.lock().unwrap_or_else(PoisonError::into_inner).extend(named);
            }
            Ok(_) => tracing::info!("the names of a former session are not taken over; the masters are asked"),
            Err(error) => {
                tracing::warn!(%error, file = %self.kept_at.display(), "the names kept there are asked for anew");
            }
        }
    }

    /// Asks the masters for all names now and then, and at once when a new connection shows that they know others, until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut again = SAY_AGAIN;
        loop {
            let done = self.refresh().await;
            if let Err(why) = &done {
                tracing::debug!(%why, "the names could not be asked for");
            }
            let pause = if done == Ok(true) { REFRESH } else { again };
            again = if done == Ok(true) { SAY_AGAIN } else { (2 * again).min(REFRESH) };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
                () = self.others_are_known() => again = SAY_AGAIN,
            }
        }
    }

    /// Waits until a new connection shows that the masters know other names than when they were asked.
    async fn others_are_known(&self) {
        while Some(self.masters.report.names().await) == *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
            && !self.learned.load(Ordering::Relaxed)
        {}
    }

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

    /// Gives what a name stands for, whether IDs are given by it or not yet.
    pub fn definition(&self, kind: IdKind, name: &GeneratorName) -> Option<Namespace> {
        self.minter.definition(kind, name).or_else(|| self.heard(name).filter(|heard| heard.kind() == kind))
    }

    /// Gives the definition of a name by which nobody has given an ID yet, as far as this agent has heard.
    pub(crate) fn heard(&self, name: &GeneratorName) -> Option<Namespace> {
        self.unused.of(name)
    }

    /// Names that are registered and by which nobody has given an ID yet, as far as this agent has heard.
    pub fn unused(&self) -> Vec<Namespace> {
        self.unused.all()
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
    async fn find(&self, names: BTreeMap<GeneratorName, Option<Namespace>>) -> Result<bool, String> {
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
    async fn hear(&self, asked: &BTreeSet<GeneratorName>, found: Found) -> (BTreeSet<GeneratorName>, bool) {
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

    /// Names that were asked about; of those that the masters know by name alone this agent knows what they stood for, if it served them.
    fn completed(&self, found: Found) -> Vec<Registered> {
        let Found { mut names, retired } = found;
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let complete = |RetiredOnly { name, proof }: RetiredOnly| {
            let namespace = known.get(&name)?.namespace.clone();
            Some(Registered { namespace, state: NameState::Retired, proof })
        };
        names.extend(retired.into_iter().filter_map(complete));
        names
    }

    /// Fetches all names from one of the masters that answers, and shows it what it has forgotten. `true` if it took all of that.
    pub(super) async fn refresh(&self) -> Result<bool, String> {
        let ask = Ask::new(Lane::Lists, First::Turn(&self.turn));
        let done = self.masters.ask(ask, |line| async move { self.refresh_at(line).await.map(Some) });
        done.await.map_err(|none| none.why())
    }

    async fn refresh_at(&self, mut line: Line) -> Result<bool, CallError> {
        let names = line.introduction().await?.reply.names;
        let learned = self.learned.swap(false, Ordering::Relaxed);
        let (unused, used): (Vec<_>, Vec<_>) =
            all_names(&line).await?.into_iter().partition(|one| one.state == NameState::Unused);
        let listed = used.iter().map(|one| one.namespace.name().clone()).collect();
        self.learn_and_keep(used).await;
        self.unused.learn_all(unused);
        let others = learned || *self.seen.lock().unwrap_or_else(PoisonError::into_inner) != Some(names);
        let done = self.show_forgotten(&line, &listed, others).await?;
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = done.then_some(names);
        Ok(done)
    }

    /// Asks about what is served here and not among the names in use that a master lists, if it knows `others` than the last time also
    /// about what is retired here, and shows it what it does not know so: both masters may have been put back. Masters that may have been
    /// register nothing new until those agents that can be heard have shown theirs ([`Said::Quiet`], 90 s). `true` if it took all of it.
    async fn show_forgotten(
        &self,
        line: &Line,
        listed: &BTreeSet<GeneratorName>,
        others: bool,
    ) -> Result<bool, CallError> {
        let mut forgotten: BTreeMap<GeneratorName, Registered> = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let missing = |(name, one): &(&GeneratorName, &Registered)| match one.state {
                NameState::Retired => others,
                NameState::InUse | NameState::Unused => !listed.contains(*name),
            };
            known.iter().filter(missing).map(|(name, one)| (name.clone(), one.clone())).collect()
        };
        let unlisted: Vec<GeneratorName> = forgotten.keys().cloned().collect();
        for page in unlisted.chunks(NAMESPACES_PAGE_MAX) {
            let mut found = self.completed(line.find_namespaces(page.to_vec()).await?);
            // Whoever knows that a name is retired knows no less than whoever says that it is in use.
            let later = |one: &Registered| match forgotten.get(one.namespace.name()).map(|known| known.state) {
                Some(NameState::Retired) => one.state == NameState::Retired,
                _ => one.state != NameState::Unused,
            };
            found.retain(later);
            forgotten.retain(|name, _| !found.iter().any(|one| one.namespace.name() == name));
            self.learn_and_keep(found).await;
        }
        let mut all = true;
        for shown in forgotten.into_values() {
            let (name, retired, namespace) =
                (shown.namespace.name().clone(), shown.state == NameState::Retired, shown.namespace.clone());
            match line.restore(shown).await {
                Ok(Changed::Done) => tracing::warn!(
                    %name, retired,
                    "the masters had forgotten this name, as they have if their stores were put back: they know it again"
                ),
                Ok(Changed::AlreadySo) => {}
                Err(CallError::Refused { refusal: why @ (Said::NameTaken | Said::Collides { .. }), .. })
                    if !retired =>
                {
                    tracing::error!(%name, %why, "the masters had forgotten this name and do not take it back: no more IDs by it");
                    let _ = self.minter.in_turn(move |minter| minter.contradicted(&namespace)).await;
                    self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
                    self.keep().await;
                }
                Err(CallError::Refused { refusal: why @ (Said::NameTaken | Said::NotShownRetired), .. }) => {
                    tracing::error!(%name, %why, "the masters had forgotten that this name is retired, and do not take it back");
                    self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
                    self.keep().await;
                }
                Err(refused @ CallError::Refused { .. }) => {
                    all = false;
                    tracing::debug!(%name, %refused, "a name that the masters have forgotten is not taken back yet");
                }
                Err(failed) => return Err(failed),
            }
        }
        Ok(all)
    }

    /// As [`define`](Self::define), for a caller from that address, which may register so many names at once and no more.
    ///
    /// # Errors
    /// [`Refusal::TooManyNames`], and as [`define`](Self::define).
    pub async fn define_for(&self, from: Option<IpAddr>, namespace: Namespace) -> Result<bool, Refusal> {
        let Some(from) = from.filter(|_| self.counts(&namespace)) else { return self.define(namespace).await };
        self.rate.count(from, Instant::now())?;
        let defined = self.define(namespace).await;
        if defined != Ok(true) {
            self.rate.give_back(from);
        }
        defined
    }

    /// The answer that [`define_for`](Self::define_for) would give now; nothing is registered or counted.
    ///
    /// # Errors
    /// As [`define_for`](Self::define_for).
    pub async fn try_for(&self, from: Option<IpAddr>, namespace: &Namespace) -> Result<bool, Refusal> {
        if let Some(from) = from.filter(|_| self.counts(namespace)) {
            self.rate.check(from, Instant::now())?;
        }
        self.judged(namespace, true).await
    }

    /// Tells whether a registration counts; one of what there is does not: programs register at each start.
    fn counts(&self, namespace: &Namespace) -> bool {
        let known = self.definition(namespace.kind(), namespace.name());
        known.is_none_or(|known| !namespace.is_met_by(&known))
    }

    /// Registers what a name stands for with the masters, and serves it from then on. `true` if it is new.
    ///
    /// # Errors
    /// [`Refusal::GeneratorExists`] if it stands for something else; [`Refusal::NotRegistered`] if it may give what
    /// another name gives, or was retired; [`Refusal::GeneratorConflict`] if this agent knew it as something else;
    /// [`Refusal::MastersUnavailable`] if the two masters could not confirm it, or do so in time: ask again.
    pub async fn define(&self, namespace: Namespace) -> Result<bool, Refusal> {
        let is_new = self.judged(&namespace, false).await?;
        if let Some(why) = namespace.token_type().and_then(|token_type| self.minter.never_leases(token_type)) {
            tracing::warn!(name = %namespace.name(), "registered, but {why}");
        }
        Ok(is_new)
    }

    /// Tells whether the name is new, as the masters and this agent see it; registers it then unless `dry_run`.
    async fn judged(&self, namespace: &Namespace, dry_run: bool) -> Result<bool, Refusal> {
        // What is registered goes on as long as it lasts, and programs say it again at each start.
        if let Err(why) = namespace.check_new(self.minter.wall())
            && !self.is_registered(namespace).await
        {
            return Err(Refusal::BadParameter(why.to_string()));
        }
        let changed = self.define_somewhere(namespace, dry_run).await?;
        let generator = self.minter.generator(namespace.kind(), namespace.name().as_str());
        match generator {
            Err(conflict @ Refusal::GeneratorConflict { .. }) => Err(conflict),
            _ => Ok(changed == Changed::Done),
        }
    }

    /// Whether the name stands for that already; the masters may have to be asked.
    async fn is_registered(&self, namespace: &Namespace) -> bool {
        let known = || self.definition(namespace.kind(), namespace.name());
        let is_met = || known().is_some_and(|known| namespace.is_met_by(&known));
        is_met() || self.find(BTreeMap::from([(namespace.name().clone(), None)])).await.is_ok() && is_met()
    }

    /// The first answer that one of the masters gives; a refusal that the other one would repeat is an answer. It says what the name stands
    /// for as the masters hold it, which may differ in what makes no difference to IDs, and as something else than this agent knows.
    async fn define_somewhere(&self, namespace: &Namespace, dry_run: bool) -> Result<Changed, Refusal> {
        let turns = if dry_run { &self.tries } else { &self.defines };
        let (name, _turn) = (namespace.name(), turns.acquire().await);
        let asked = self.masters.ask(Ask::new(Lane::Lists, First::Last(&self.defined)), |line| async move {
            let DefineReply { outcome, known } = line.define(namespace.clone(), dry_run).await?;
            let answer = match outcome {
                Ok(changed) => Ok(changed),
                Err(Said::NameTaken) => Err(Refusal::GeneratorExists { name: name.clone() }),
                Err(refusal) => match code_of(&refusal) {
                    Some(code) => Err(Refusal::NotRegistered { code, why: refusal.to_string() }),
                    None => return Err(line.refused(refusal)),
                },
            };
            self.hear(&BTreeSet::from([name.clone()]), known).await;
            Ok(Some(answer))
        });
        asked.await.unwrap_or_else(|none| Err(Refusal::MastersUnavailable(none.why())))
    }

    /// Serves these too, or no more, also after the next start. `true` if something is new.
    async fn learn_and_keep(&self, registered: Vec<Registered>) -> bool {
        let is_news = self.learn(registered).await;
        if is_news {
            self.keep().await;
        }
        is_news
    }

    /// Serves these too, or no more. `true` if something is new.
    async fn learn(&self, mut registered: Vec<Registered>) -> bool {
        {
            // Each minute all of them come, and hardly ever one that is new.
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            // What was retired stays so, whatever masters say that have forgotten it.
            let is_news = |one: &Registered| match known.get(one.namespace.name()) {
                Some(known) => known != one && (known.state != NameState::Retired || one.state == NameState::Retired),
                None => true,
            };
            registered.retain(is_news);
        }
        let mut news = false;
        // The lock of the minter is free now and then, however many they are.
        for part in registered.chunks(NAMESPACES_PAGE_MAX) {
            news |= self.learn_part(part.to_vec()).await;
        }
        news
    }

    async fn learn_part(&self, registered: Vec<Registered>) -> bool {
        let learned = self.minter.in_turn(move |minter| {
            let one = |one: Registered| {
                let outcome = match one.state {
                    NameState::Retired => minter.retire(&one.namespace).map(|()| None),
                    NameState::InUse | NameState::Unused => minter.define(one.namespace.clone()).map(Some),
                };
                (one, outcome)
            };
            registered.into_iter().map(one).collect::<Vec<_>>()
        });
        let mut news = false;
        for (one, outcome) in learned.await.unwrap_or_default() {
            let name = one.namespace.name().clone();
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            match outcome {
                Ok(Some(Defined::New)) => {
                    news = true;
                    tracing::info!(%name, "a generator of this name is served from now on");
                    known.insert(name, one);
                }
                Ok(Some(Defined::Known)) => {
                    news = true;
                    known.insert(name, one);
                }
                Ok(None) => {
                    // Of those that were never served here others know.
                    let was_served = known.remove(&name).is_some();
                    if was_served {
                        news = true;
                        tracing::info!(%name, "this name was retired: no more IDs by it");
                    }
                    let retired = || known.values().filter(|known| known.state == NameState::Retired).count();
                    if was_served && one.proof.is_some() && retired() < RETIRED_MAX {
                        known.insert(name, one);
                    }
                }
                Err(why) => {
                    // It is not taken over by the next start either.
                    news |= known.remove(&name).is_some();
                    if self.is_news(&name, &why) {
                        tracing::error!(%name, %why, "this generator is not served");
                    }
                }
            }
        }
        news
    }

    /// Whether this was not said of that name yet: the masters are asked every minute.
    fn is_news(&self, name: &GeneratorName, why: &Refusal) -> bool {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.insert(name.clone(), why.to_string()).as_ref() != Some(&why.to_string())
    }

    /// Keeps all that is served beside the serial file. If that fails they are asked for anew after the next start.
    async fn keep(&self) {
        let path = self.kept_at.clone();
        let names: Vec<Registered> = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.values().cloned().collect()
        };
        let cluster = self.minter.membership().cluster;
        let kept = tokio::task::spawn_blocking(move || keep(&path, cluster, &names)).await;
        if let Ok(Err(error)) = kept {
            tracing::warn!(%error, file = %self.kept_at.display(), "the names could not be kept");
        }
    }
}

/// The code by which callers are told that a definition is refused, whichever master is asked.
fn code_of(refusal: &Said) -> Option<MintCode> {
    match refusal {
        Said::TooMany { .. } | Said::SmallSections { .. } | Said::BroadTemplate { .. } => Some(MintCode::BadParameter),
        Said::Collides { .. } => Some(MintCode::GeneratorConflict),
        Said::NameRetired => Some(MintCode::GeneratorExists),
        Said::NamesRate { .. } => Some(MintCode::QuotaExceeded),
        _ => None,
    }
}

fn name_of(one: &Registered) -> GeneratorName {
    one.namespace.name().clone()
}

async fn all_names(line: &Line) -> Result<Vec<Registered>, CallError> {
    let mut all = Vec::new();
    let mut after: Option<GeneratorName> = None;
    for _ in 0..PAGES_MAX {
        let page = line.namespaces_after(after).await?;
        let more = page.len() >= NAMESPACES_PAGE_MAX;
        after = page.last().map(name_of);
        all.extend(page);
        if !more {
            break;
        }
    }
    Ok(all)
}
