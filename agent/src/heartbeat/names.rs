//! What generators' names stand for: the masters know, this agent asks them, and keeps what it learned beside the serial
//! file, so that it mints under the same names after a restart without any master.

use super::link::{CallError, Caller, Link};
use crate::minter::{Defined, Minter};
use crate::refusal::Refusal;
use common::clock::Clock;
use common::envelope::{self, Kind};
use common::namespace::{GeneratorName, Namespace};
use common::rpc::lease::{Changed, NAMESPACES_PAGE_MAX, Refusal as Said};
use common::terms::AgentId;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// The masters are asked for all names this often.
const REFRESH: Duration = Duration::from_secs(60);
/// Requests for unknown names ask masters that answer at most this often; those that come together ask once.
const ASK_PAUSE: Duration = Duration::from_secs(1);
/// Pages of names at most: all that there may be, and one.
const PAGES_MAX: usize = common::setting::NAMESPACES_MAX / NAMESPACES_PAGE_MAX + 2;
const KEPT: Kind = Kind { name: *b"NAMS", version: 1 };
const KEPT_SUFFIX: &str = ".generators";

/// What the masters are asked.
enum Question {
    Define(Namespace),
    Names,
}

enum Answer {
    Changed(Changed),
    Names(Vec<Namespace>),
}

/// The names, as this agent learns them.
pub struct Names {
    masters: Vec<String>,
    caller: Caller,
    minter: Arc<Minter>,
    kept_at: PathBuf,
    /// When the masters were last asked, and what came of it.
    asked: Mutex<Option<(Instant, Result<(), String>)>>,
}

impl Names {
    /// For an agent of that name at these masters (HOST:PORT). What it learns is kept beside `serial_file`.
    pub fn new(masters: Vec<String>, agent_id: AgentId, minter: Arc<Minter>, serial_file: &Path, clock: Clock) -> Self {
        let mut kept_at = serial_file.as_os_str().to_owned();
        kept_at.push(KEPT_SUFFIX);
        let caller = Caller { agent_id, session: minter.session(), clock, retired: Vec::new() };
        Self { masters, caller, minter, kept_at: kept_at.into(), asked: Mutex::default() }
    }

    /// Takes in what was kept from a former run. It is no source of truth: a name whose serials are in the serial file
    /// is only taken with the definition they were made by.
    pub async fn recall(&self) {
        let bytes = match std::fs::read(&self.kept_at) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return,
            Err(error) => return tracing::warn!(%error, file = %self.kept_at.display(), "no names could be recalled"),
        };
        match envelope::decode::<Vec<Namespace>>(KEPT, &bytes) {
            Ok(namespaces) => drop(self.learn(namespaces).await),
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

    /// Somebody asks for a name that is not known here: perhaps the masters know it by now.
    ///
    /// # Errors
    /// [`Refusal::MastersUnavailable`] if none of them can say.
    pub async fn look_up(&self) -> Result<(), Refusal> {
        self.refresh().await.map_err(Refusal::MastersUnavailable)
    }

    /// Fetches all names, unless that was just done.
    async fn refresh(&self) -> Result<(), String> {
        let arrived = Instant::now();
        let mut asked = self.asked.lock().await;
        if let Some((at, outcome)) = asked.as_ref() {
            // A failure counts only for those who waited for it: the masters may be back by now.
            let counts = *at >= arrived || (outcome.is_ok() && at.elapsed() < ASK_PAUSE);
            if counts {
                return outcome.clone();
            }
        }
        let outcome = match self.ask(&Question::Names).await {
            Ok(Answer::Changed(_)) => Ok(()),
            Ok(Answer::Names(namespaces)) => {
                if self.learn(namespaces.clone()).await {
                    self.keep(namespaces).await;
                }
                Ok(())
            }
            Err(e) => Err(e.to_string()),
        };
        *asked = Some((Instant::now(), outcome.clone()));
        outcome
    }

    /// Registers what a name stands for with the masters, and serves it from then on. `true` if it is new.
    ///
    /// # Errors
    /// [`Refusal::GeneratorExists`] if it stands for something else; [`Refusal::MastersUnavailable`] if the two masters
    /// could not confirm it, or do so in time: ask again.
    pub async fn define(&self, namespace: Namespace) -> Result<bool, Refusal> {
        let name = namespace.name().clone();
        let changed = match self.ask(&Question::Define(namespace.clone())).await {
            Ok(answer) => answer,
            Err(CallError::Refused { refusal: Said::NameTaken, .. }) => return Err(Refusal::GeneratorExists { name }),
            Err(CallError::Refused { refusal: refusal @ Said::TooMany { .. }, .. }) => {
                return Err(Refusal::BadParameter(refusal.to_string()));
            }
            Err(e) => return Err(Refusal::MastersUnavailable(e.to_string())),
        };
        // With all others: what is kept is the whole list.
        *self.asked.lock().await = None;
        if self.refresh().await.is_err() {
            self.learn(vec![namespace]).await;
        }
        Ok(matches!(changed, Answer::Changed(Changed::Done)))
    }

    /// The first answer that one of the masters gives; a refusal that the other one would repeat is an answer.
    async fn ask(&self, question: &Question) -> Result<Answer, CallError> {
        let mut reasons = Vec::new();
        for address in &self.masters {
            match self.ask_one(address, question).await {
                Ok(answer) => return Ok(answer),
                Err(e @ CallError::Refused { refusal: Said::NameTaken | Said::TooMany { .. }, .. }) => return Err(e),
                Err(e) => reasons.push(format!("{address}: {e}")),
            }
        }
        Err(CallError::Failed { address: String::new(), why: reasons.join("; ") })
    }

    async fn ask_one(&self, address: &str, question: &Question) -> Result<Answer, CallError> {
        let (link, _) = Link::open(address, &self.caller, &self.minter).await?;
        match question {
            Question::Define(namespace) => link.define(&self.caller, namespace.clone()).await.map(Answer::Changed),
            Question::Names => link.namespaces(PAGES_MAX).await.map(Answer::Names),
        }
    }

    /// Serves these too. `true` if one of them is new here.
    async fn learn(&self, namespaces: Vec<Namespace>) -> bool {
        let learned = self.minter.in_turn(move |minter| {
            let outcomes: Vec<_> = namespaces.into_iter().map(|n| (n.name().clone(), minter.define(n))).collect();
            outcomes
        });
        let outcomes = learned.await.unwrap_or_default();
        for (name, outcome) in &outcomes {
            match outcome {
                Ok(Defined::New) => tracing::info!(%name, "a generator of this name is served from now on"),
                Ok(Defined::Known) => {}
                Err(why) => tracing::error!(%name, %why, "this generator is not served"),
            }
        }
        outcomes.iter().any(|(_, outcome)| *outcome == Ok(Defined::New))
    }

    /// Keeps all of them beside the serial file. If that fails they are asked for anew after the next start.
    async fn keep(&self, namespaces: Vec<Namespace>) {
        let path = self.kept_at.clone();
        let kept = tokio::task::spawn_blocking(move || keep(&path, &namespaces)).await;
        if let Ok(Err(error)) = kept {
            tracing::warn!(%error, file = %self.kept_at.display(), "the names could not be kept");
        }
    }
}

/// A new file in the place of the old one: whoever reads it reads one of both.
fn keep(path: &Path, namespaces: &[Namespace]) -> std::io::Result<()> {
    let bytes = envelope::encode(KEPT, &namespaces).map_err(std::io::Error::other)?;
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let mut file = std::fs::File::create(&new)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    std::fs::rename(new, path)
}

impl Link {
    async fn namespaces(&self, pages_max: usize) -> Result<Vec<Namespace>, CallError> {
        let mut all = Vec::new();
        let mut after: Option<GeneratorName> = None;
        for _ in 0..pages_max {
            let page = self.namespaces_after(after).await?;
            let more = page.len() >= NAMESPACES_PAGE_MAX;
            after = page.last().map(|namespace| namespace.name().clone());
            all.extend(page);
            if !more {
                break;
            }
        }
        Ok(all)
    }
}
