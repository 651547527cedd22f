//! What generators' names stand for: the masters know, this agent asks them, and keeps what it learned beside the serial
//! file, so that it mints under the same names after a restart without any master.

use super::link::{CallError, Caller, Link};
use super::name_rate::NameRate;
use crate::minter::{Defined, Minter, SourceRef};
use crate::refusal::Refusal;
use crate::serial_file::StartKind;
use common::clock::Clock;
use common::envelope::{self, EnvelopeError, Kind};
use common::kind::Kind as IdKind;
use common::namespace::{GeneratorName, Namespace};
use common::parameters::{AgentId, ClusterId};
use common::rpc::lease::{Changed, NAMESPACES_PAGE_MAX, Refusal as Said, Registered};
use common::rpc::mint::MintCode;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// The masters are asked for all names this often.
const REFRESH: Duration = Duration::from_secs(60);
/// Between two questions about unknown names. Requests that come meanwhile wait for the next question, which is about all
/// of their names: each is answered by what the masters knew after it came, however many there are.
const LOOK_UP_PAUSE: Duration = Duration::from_millis(100);
/// Unknown names in one question; a request for one more is refused.
const LOOK_UP_NAMES_MAX: usize = NAMESPACES_PAGE_MAX;
/// A master that did not answer gets only [`REST_LIMIT`] for a question about unknown names for so long, and is asked after the other
/// one: each question would wait for it.
const REST: Duration = Duration::from_secs(30);
/// What is enough for one that answers again.
const REST_LIMIT: Duration = Duration::from_millis(500);
/// Pages of names at most: all that there may be, and one.
const PAGES_MAX: usize = common::setting::NAMESPACES_MAX / NAMESPACES_PAGE_MAX + 2;
/// What is kept, in parts of so many names: an envelope has a bound. Each follows its length in bytes (u32, little-endian). Names that a
/// former version kept are asked for anew.
const KEPT: Kind = Kind { name: *b"NAMS", version: 3 };
const KEPT_PART_MAX: usize = NAMESPACES_PAGE_MAX;
/// Its owner's alone, as the serial file is.
const KEPT_MODE: u32 = 0o600;
const KEPT_SUFFIX: &str = ".generators";

/// The names as they are kept.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    /// The cluster that knows them by these definitions.
    cluster: Option<ClusterId>,
    /// True if a further part follows.
    more: bool,
    namespaces: Vec<Namespace>,
}

/// Where IDs of that kind and name come from. The masters may have heard of a name that is not known here, if there are
/// `names` by which they can be asked.
///
/// # Errors
/// As [`Minter::source`] and [`Names::look_up`].
pub async fn source_of<'a>(
    minter: &'a Arc<Minter>,
    names: Option<&Arc<Names>>,
    kind: IdKind,
    name: &str,
) -> Result<SourceRef<'a>, Refusal> {
    let known = minter.source(kind, name);
    let (Some(names), Err(_), Ok(parsed)) = (names, &known, name.parse::<GeneratorName>()) else { return known };
    // Few calls come here; the others should not carry the room that asking takes.
    Box::pin(async move { names.look_up(&parsed).await }).await?;
    minter.source(kind, name)
}

/// The kind of a name, about which the masters may have to be asked.
///
/// # Errors
/// [`Refusal::UnknownName`] if nobody knows it, and as [`Names::look_up`].
pub async fn kind_of(minter: &Minter, names: Option<&Arc<Names>>, name: &str) -> Result<IdKind, Refusal> {
    if let Some(kind) = minter.kind_of(name) {
        return Ok(kind);
    }
    if let (Some(names), Ok(name)) = (names, name.parse()) {
        Box::pin(names.look_up(&name)).await?;
    }
    minter.kind_of(name).ok_or_else(|| Refusal::unknown_name(name))
}

/// The sequence of that name, about which the masters may have to be asked.
///
/// # Errors
/// As [`Minter::keyed`] and [`Names::look_up`].
pub(crate) async fn source_of_keys(
    minter: &Minter,
    names: Option<&Arc<Names>>,
    name: &str,
) -> Result<Arc<Namespace>, Refusal> {
    let known = minter.keyed(name);
    let (Some(names), Err(_), Ok(parsed)) = (names, &known, name.parse::<GeneratorName>()) else { return known };
    Box::pin(names.look_up(&parsed)).await?;
    minter.keyed(name)
}

/// The names, as this agent learns them.
pub struct Names {
    masters: Vec<String>,
    caller: Caller,
    minter: Arc<Minter>,
    kept_at: PathBuf,
    /// Which of the masters is asked first the next time: each is heard now and then.
    turn: AtomicUsize,
    /// When each master did not answer a question about unknown names the last time.
    failed: std::sync::Mutex<BTreeMap<String, Instant>>,
    /// The names that each caller registered lately.
    rate: NameRate,
    /// What the masters said of each name that is served.
    known: std::sync::Mutex<BTreeMap<GeneratorName, Namespace>>,
    /// Why each name that is not served is not, as it was logged. No more than names that may be registered.
    said: std::sync::Mutex<BTreeMap<GeneratorName, String>>,
    wanted: std::sync::Mutex<Wanted>,
    /// Whoever has it asks about wanted names.
    asked: Mutex<Asked>,
}

/// Unknown names about which the masters are to be asked.
#[derive(Debug, Default)]
struct Wanted {
    /// Each with the number of the last request for it.
    names: BTreeMap<GeneratorName, u64>,
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
    /// For an agent of that name at these masters (HOST:PORT). What it learns is kept beside `serial_file`.
    pub fn new(masters: Vec<String>, agent_id: AgentId, minter: Arc<Minter>, serial_file: &Path, clock: Clock) -> Self {
        let caller = Caller { agent_id, session: minter.session(), clock, retired: Vec::new() };
        Self {
            masters,
            caller,
            minter,
            kept_at: kept_at(serial_file),
            turn: AtomicUsize::new(0),
            failed: std::sync::Mutex::default(),
            rate: NameRate::default(),
            known: std::sync::Mutex::default(),
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
                let all = kept.namespaces.into_iter().map(|namespace| Registered { namespace, retired: false });
                self.learn(all.collect()).await;
            }
            Ok(_) => tracing::info!("the names of a former session are not taken over; the masters are asked"),
            Err(error) => {
                tracing::warn!(%error, file = %self.kept_at.display(), "the names kept there are asked for anew");
            }
        }
    }

    /// Asks the masters for all names now and then, until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        loop {
            if let Err(why) = self.refresh().await {
                tracing::debug!(%why, "the names could not be asked for");
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(REFRESH) => {}
            }
        }
    }

    /// Somebody asks for a name that is not known here: perhaps the masters know it by now. They are asked after the
    /// request came, so a name that was registered before it is known then.
    ///
    /// # Errors
    /// [`Refusal::MastersUnavailable`] if none of them can say; [`Refusal::Overloaded`] if too many unknown names are
    /// asked for.
    pub async fn look_up(&self, name: &GeneratorName) -> Result<(), Refusal> {
        let request = self.want(name)?;
        let mut asked = self.asked.lock().await;
        if asked.request < request {
            if let Some(at) = asked.at {
                tokio::time::sleep_until((at + LOOK_UP_PAUSE).into()).await;
            }
            asked.at = Some(Instant::now());
            let (names, upto) = {
                let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
                (wanted.names.keys().cloned().collect::<BTreeSet<_>>(), wanted.requests)
            };
            let outcome = self.find(names).await;
            (asked.request, asked.outcome) = (upto, Some(outcome));
            let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
            wanted.names.retain(|_, request| *request > upto);
        }
        asked.outcome.clone().unwrap_or(Ok(())).map_err(Refusal::MastersUnavailable)
    }

    /// Notes that somebody wants to know about a name; gives the number of the request.
    fn want(&self, name: &GeneratorName) -> Result<u64, Refusal> {
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
        wanted.names.insert(name.clone(), request);
        Ok(request)
    }

    /// Asks the masters about these names: one after the other, until all are known. A name that both have confirmed may
    /// for a moment be known to one of them only.
    async fn find(&self, mut names: BTreeSet<GeneratorName>) -> Result<(), String> {
        let (mut answered, mut reasons) = (false, Vec::new());
        let (resting, others): (Vec<_>, Vec<_>) = self.in_turn().partition(|address| self.rests(address));
        for address in others.iter().chain(&resting) {
            if names.is_empty() {
                break;
            }
            let asked = self.find_at(address, names.iter().cloned().collect());
            // What one knows suffices, unless it is a name that the other one confirmed in this moment.
            let came = if answered && resting.contains(address) {
                let late = |_| CallError::Failed { address: (*address).clone(), why: "no answer in time".to_owned() };
                tokio::time::timeout(REST_LIMIT, asked).await.map_err(late).flatten()
            } else {
                asked.await
            };
            self.note_silence(address, &came);
            match came {
                Ok(found) => {
                    answered = true;
                    for one in &found {
                        names.remove(one.namespace.name());
                    }
                    self.learn_and_keep(found).await;
                }
                Err(e) => reasons.push(format!("{address}: {e}")),
            }
        }
        if answered || names.is_empty() { Ok(()) } else { Err(reasons.join("; ")) }
    }

    /// Whether a master did not answer lately.
    fn rests(&self, address: &str) -> bool {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get(address).is_some_and(|at| at.elapsed() < REST)
    }

    fn note_silence<T>(&self, address: &str, came: &Result<T, CallError>) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(came, Err(CallError::Failed { .. })) {
            failed.remove(address);
        } else if failed.get(address).is_none_or(|at| at.elapsed() >= REST) {
            // One that rests had less time, and that says nothing of it.
            failed.insert(address.to_owned(), Instant::now());
        }
    }

    async fn find_at(&self, address: &str, names: Vec<GeneratorName>) -> Result<Vec<Registered>, CallError> {
        let (link, _) = Link::open(address, &self.caller, &self.minter).await?;
        link.find_namespaces(names).await
    }

    /// Fetches all names from one of the masters that answers.
    pub(super) async fn refresh(&self) -> Result<(), String> {
        let mut reasons = Vec::new();
        for address in self.in_turn() {
            match self.list_at(address).await {
                Ok(all) => {
                    let listed = all.iter().map(|one| one.namespace.name().clone()).collect();
                    self.learn_and_keep(all).await;
                    return self.restore_at(address, &listed).await.map_err(|e| format!("{address}: {e}"));
                }
                Err(e) => reasons.push(format!("{address}: {e}")),
            }
        }
        Err(reasons.join("; "))
    }

    /// Asks about what is served here and not among the names that a master lists, and registers it again if it was not retired: both
    /// masters may have been put back to before it was registered. Until those agents that can be heard have said so, masters that may have
    /// been put back register nothing new ([`Said::Quiet`], 90 s; [`REFRESH`] is shorter).
    async fn restore_at(&self, address: &str, listed: &BTreeSet<GeneratorName>) -> Result<(), CallError> {
        let mut forgotten: BTreeMap<GeneratorName, Namespace> = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.iter().filter(|(name, _)| !listed.contains(name)).map(|(n, of)| (n.clone(), of.clone())).collect()
        };
        if forgotten.is_empty() {
            return Ok(());
        }
        let (link, _) = Link::open(address, &self.caller, &self.minter).await?;
        let unlisted: Vec<GeneratorName> = forgotten.keys().cloned().collect();
        for page in unlisted.chunks(NAMESPACES_PAGE_MAX) {
            let found = link.find_namespaces(page.to_vec()).await?;
            forgotten.retain(|name, _| !found.iter().any(|one| one.namespace.name() == name));
            self.learn_and_keep(found).await;
        }
        for namespace in forgotten.into_values() {
            let name = namespace.name().clone();
            match link.restore(&self.caller, namespace.clone()).await {
                Ok(Changed::Done) => tracing::warn!(
                    %name,
                    "the masters had forgotten this name, as they have if their stores were put back: it is registered again"
                ),
                Ok(Changed::AlreadySo) => {}
                Err(CallError::Refused { refusal: Said::NameRetired, .. }) => {
                    self.learn_and_keep(vec![Registered { namespace, retired: true }]).await;
                }
                Err(CallError::Refused { refusal: why @ (Said::NameTaken | Said::Collides { .. }), .. }) => {
                    tracing::error!(%name, %why, "the masters had forgotten this name and do not take it back: no more IDs by it");
                    let _ = self.minter.in_turn(move |minter| minter.contradicted(&namespace)).await;
                    self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
                    self.keep().await;
                }
                Err(refused @ CallError::Refused { .. }) => {
                    tracing::debug!(%name, %refused, "a name that the masters have forgotten is not registered again yet");
                }
                Err(failed) => return Err(failed),
            }
        }
        Ok(())
    }

    async fn list_at(&self, address: &str) -> Result<Vec<Registered>, CallError> {
        let (link, _) = Link::open(address, &self.caller, &self.minter).await?;
        link.namespaces(PAGES_MAX).await
    }

    /// All masters, another one first each time.
    fn in_turn(&self) -> impl Iterator<Item = &String> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.masters.len().max(1);
        self.masters.iter().cycle().skip(turn).take(self.masters.len())
    }

    /// As [`define`](Self::define), for a caller from that address, which may register so many names at once and no more.
    ///
    /// # Errors
    /// [`Refusal::TooManyNames`], and as [`define`](Self::define).
    pub async fn define_for(&self, from: Option<IpAddr>, namespace: Namespace) -> Result<bool, Refusal> {
        // Whoever registers again what there is registers nothing: that is what programs do at their start.
        let known = self.minter.definition(namespace.kind(), namespace.name());
        let counts = known.is_none_or(|known| !namespace.is_met_by(&known));
        let Some(from) = from.filter(|_| counts) else { return self.define(namespace).await };
        self.rate.count(from, Instant::now())?;
        let defined = self.define(namespace).await;
        if defined != Ok(true) {
            self.rate.give_back(from);
        }
        defined
    }

    /// Registers what a name stands for with the masters, and serves it from then on. `true` if it is new.
    ///
    /// # Errors
    /// [`Refusal::GeneratorExists`] if it stands for something else; [`Refusal::NotRegistered`] if it may give what
    /// another name gives, or was retired; [`Refusal::GeneratorConflict`] if this agent knew it as something else;
    /// [`Refusal::MastersUnavailable`] if the two masters could not confirm it, or do so in time: ask again.
    pub async fn define(&self, namespace: Namespace) -> Result<bool, Refusal> {
        // What is registered goes on as long as it lasts, and programs say it again at each start.
        if let Err(why) = namespace.check_new(self.minter.wall())
            && !self.is_registered(&namespace).await
        {
            return Err(Refusal::BadParameter(why.to_string()));
        }
        let (kind, name, token_type) = (namespace.kind(), namespace.name().clone(), namespace.token_type());
        let changed = match self.define_somewhere(&namespace).await {
            Ok(changed) => changed,
            Err(CallError::Refused { refusal: Said::NameTaken, .. }) => {
                // What it stands for is learned now: this agent may know it as something else.
                let _ = self.look_up(&name).await;
                return Err(Refusal::GeneratorExists { name });
            }
            Err(CallError::Refused { refusal, .. }) if code_of(&refusal).is_some() => {
                let _ = self.look_up(&name).await;
                let code = code_of(&refusal).unwrap_or(MintCode::BadParameter);
                return Err(Refusal::NotRegistered { code, why: refusal.to_string() });
            }
            Err(e) => return Err(Refusal::MastersUnavailable(e.to_string())),
        };
        // As the masters hold it, which may differ in what makes no difference to IDs. If they do not answer now, the first
        // request asks again.
        let known = self.look_up(&name).await;
        match self.minter.generator(kind, name.as_str()) {
            Err(conflict @ Refusal::GeneratorConflict { .. }) => Err(conflict),
            _ => {
                if let Err(why) = known {
                    tracing::debug!(%name, %why, "a name that was registered is served at its first request");
                }
                if let Some(why) = token_type.and_then(|token_type| self.minter.never_leases(token_type)) {
                    tracing::warn!(%name, "registered, but {why}");
                }
                Ok(changed == Changed::Done)
            }
        }
    }

    /// Whether the name stands for that already; the masters may have to be asked.
    async fn is_registered(&self, namespace: &Namespace) -> bool {
        let known = || self.minter.definition(namespace.kind(), namespace.name());
        let is_met = || known().is_some_and(|known| namespace.is_met_by(&known));
        is_met() || self.look_up(namespace.name()).await.is_ok() && is_met()
    }

    /// The first answer that one of the masters gives; a refusal that the other one would repeat is an answer.
    async fn define_somewhere(&self, namespace: &Namespace) -> Result<Changed, CallError> {
        let mut reasons = Vec::new();
        for address in &self.masters {
            let done = match Link::open(address, &self.caller, &self.minter).await {
                Ok((link, _)) => link.define(&self.caller, namespace.clone()).await,
                Err(e) => Err(e),
            };
            match done {
                Ok(changed) => return Ok(changed),
                Err(CallError::Refused { refusal, address })
                    if refusal == Said::NameTaken || code_of(&refusal).is_some() =>
                {
                    return Err(CallError::Refused { refusal, address });
                }
                Err(e) => reasons.push(format!("{address}: {e}")),
            }
        }
        Err(CallError::Failed { address: String::new(), why: reasons.join("; ") })
    }

    async fn learn_and_keep(&self, registered: Vec<Registered>) {
        if self.learn(registered).await {
            self.keep().await;
        }
    }

    /// Serves these too, or no more. `true` if something is new.
    async fn learn(&self, mut registered: Vec<Registered>) -> bool {
        {
            // Each minute all of them come, and hardly ever one that is new.
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            registered.retain(|one| one.retired || known.get(one.namespace.name()) != Some(&one.namespace));
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
            let one = |Registered { namespace, retired }: Registered| {
                let outcome = match retired {
                    true => minter.retire(&namespace).map(|()| None),
                    false => minter.define(namespace.clone()).map(Some),
                };
                (namespace, outcome)
            };
            registered.into_iter().map(one).collect::<Vec<_>>()
        });
        let mut news = false;
        for (namespace, outcome) in learned.await.unwrap_or_default() {
            let name = namespace.name().clone();
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            match outcome {
                Ok(Some(Defined::New)) => {
                    news = true;
                    tracing::info!(%name, "a generator of this name is served from now on");
                    known.insert(name, namespace);
                }
                Ok(Some(Defined::Known)) => {}
                Ok(None) => {
                    if known.remove(&name).is_some() {
                        news = true;
                        tracing::info!(%name, "this name was retired: no more IDs by it");
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
        let namespaces: Vec<Namespace> = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.values().cloned().collect()
        };
        let cluster = self.minter.membership().cluster;
        let kept = tokio::task::spawn_blocking(move || keep(&path, cluster, &namespaces)).await;
        if let Ok(Err(error)) = kept {
            tracing::warn!(%error, file = %self.kept_at.display(), "the names could not be kept");
        }
    }
}

/// The code by which callers are told that a definition is refused, whichever master is asked.
fn code_of(refusal: &Said) -> Option<MintCode> {
    match refusal {
        Said::TooMany { .. } | Said::SmallSections { .. } => Some(MintCode::BadParameter),
        Said::Collides { .. } => Some(MintCode::GeneratorConflict),
        Said::NameRetired => Some(MintCode::GeneratorExists),
        Said::NamesRate { .. } => Some(MintCode::QuotaExceeded),
        _ => None,
    }
}

/// The names that the agent of that serial file has learned and keeps beside it; none if it has none yet.
///
/// # Errors
/// Why they cannot be read.
pub fn kept_names(serial_file: &Path) -> Result<Vec<Namespace>, String> {
    let path = kept_at(serial_file);
    let told = |e: &dyn std::fmt::Display| format!("the names in {} cannot be read: {e}", path.display());
    match std::fs::read(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(told(&e)),
        Ok(bytes) => kept_in(&bytes).map(|kept| kept.namespaces).map_err(|e| told(&e)),
    }
}

fn kept_at(serial_file: &Path) -> PathBuf {
    let mut path = serial_file.as_os_str().to_owned();
    path.push(KEPT_SUFFIX);
    path.into()
}

/// Reads all that a file says, or nothing of it.
fn kept_in(bytes: &[u8]) -> Result<Kept, EnvelopeError> {
    let cut = || EnvelopeError::Length { found: bytes.len() };
    let mut all: Option<Kept> = None;
    let mut rest = bytes;
    while let Some((len, tail)) = rest.split_first_chunk() {
        let len = usize::try_from(u32::from_le_bytes(*len)).map_err(|_| cut())?;
        let (part, tail) = tail.split_at_checked(len).ok_or_else(cut)?;
        let Kept { cluster, more, namespaces } = envelope::decode(KEPT, part)?;
        match &mut all {
            Some(all) if all.more && all.cluster == cluster => {
                all.namespaces.extend(namespaces);
                all.more = more;
            }
            Some(_) => return Err(cut()),
            None => all = Some(Kept { cluster, more, namespaces }),
        }
        rest = tail;
    }
    all.filter(|all| rest.is_empty() && !all.more).ok_or_else(cut)
}

fn kept_bytes(cluster: Option<ClusterId>, namespaces: &[Namespace]) -> Result<Vec<u8>, EnvelopeError> {
    let mut bytes = Vec::new();
    let mut parts = namespaces.chunks(KEPT_PART_MAX);
    let mut next = parts.next().unwrap_or_default();
    loop {
        let following = parts.next();
        let part = envelope::encode(KEPT, &Kept { cluster, more: following.is_some(), namespaces: next.to_vec() })?;
        bytes.extend(u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(part);
        match following {
            Some(following) => next = following,
            None => return Ok(bytes),
        }
    }
}

fn keep(path: &Path, cluster: Option<ClusterId>, namespaces: &[Namespace]) -> std::io::Result<()> {
    let bytes = kept_bytes(cluster, namespaces).map_err(std::io::Error::other)?;
    common::file::replace(path, KEPT_MODE, &bytes)
}

impl Link {
    async fn namespaces(&self, pages_max: usize) -> Result<Vec<Registered>, CallError> {
        let mut all = Vec::new();
        let mut after: Option<GeneratorName> = None;
        for _ in 0..pages_max {
            let page = self.namespaces_after(after).await?;
            let more = page.len() >= NAMESPACES_PAGE_MAX;
            after = page.last().map(|one: &Registered| one.namespace.name().clone());
            all.extend(page);
            if !more {
                break;
            }
        }
        Ok(all)
    }
}
