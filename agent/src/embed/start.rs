//! Everything that an application needs to mint by itself: a serial file, leases, and the thread that keeps them.

use super::{MintError, Process, Sequence, Shared};
use crate::bootstrap::{Identity, Parts};
use crate::catalog::Catalog;
use crate::dev::{Base, BaseError, Folder};
use crate::extensions::Extensions;
use crate::heartbeat::{MASTERS_MAX, RENEW_INTERVALS};
use crate::metrics;
use crate::minter::Minter;
use crate::plugin::{Caller, Plugins, Refusals};
use crate::refusal::Refusal;
use crate::sequences::{MEMORY_MIN, Sequences};
use common::clock::Clock;
use common::namespace::{Namespace, Preview};
use common::parameters::AgentId;
use common::sequence::{SET_DEFAULT, ServedAt};
use common::time::{BootMs, SECOND_MS, SpanMs};
use common::token::TokenType;
use net::enroll::{self, TlsFolder};
use net::tls::{Files, Role, Tls};
use serial_file::{AfterReboot, SerialFileError};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The interval at which leases are renewed if nothing else is said.
const RENEW_INTERVAL: Duration = Duration::from_secs(3_600);
/// The interval at which [`Embedded::wait_ready`] looks.
const LOOK: Duration = Duration::from_millis(5);
/// The time that the end waits for the last word to the masters, and then for what is under way.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// The settings to start with: [`Settings::new`], and what shall differ.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The serial file, made by `uniq_generator --format`; no other process may use it.
    pub serial_file: PathBuf,
    /// The masters' `--agent-listen` addresses, 1 to 8.
    pub masters: Vec<String>,
    /// The name under which the masters know this process.
    pub agent_id: AgentId,
    /// The types of token to lease.
    pub token_types: BTreeSet<TokenType>,
    /// The interval at which leases are renewed, 1 s to 12 h.
    pub renew_interval: Duration,
    /// The effect of a reboot on the session. To resume is safe only where disks are never cloned and never reverted to a snapshot.
    pub after_reboot: AfterReboot,
    /// The certificates with which the masters and other agents are reached, whose own one is of `agent_id`; `None`: plain TCP. Those in a folder
    /// ([`Files::in_folder`]) are renewed by the agent.
    pub tls: Option<Files>,
    /// That the process is its own masters.
    alone: Option<Alone>,
}

/// The folder in which a process keeps what it grants itself, if it keeps it.
#[derive(Clone, Debug)]
struct Alone(Option<PathBuf>);

impl Settings {
    /// For an application's tests and for trying: no masters, no serial file, all kinds, sequences too; nothing is kept. The process is a
    /// cluster of its own, so another one, or another run, may give the same IDs: not for IDs that outlive it.
    #[must_use]
    pub fn dev(agent_id: AgentId) -> Self {
        Self { alone: Some(Alone(None)), ..Self::new("", [""; 0], agent_id) }
    }

    /// The same, but what it grants is kept in a folder, made if it is not there: no ID comes again in another run on it.
    #[must_use]
    pub fn dev_in(folder: impl AsRef<Path>, agent_id: AgentId) -> Self {
        Self { alone: Some(Alone(Some(folder.as_ref().to_owned()))), ..Self::dev(agent_id) }
    }

    /// The base that a start goes on with.
    fn base(&self, clock: Clock) -> Result<Base, StartError> {
        let base = match &self.alone {
            Some(_) if !(self.masters.is_empty() && self.serial_file.as_os_str().is_empty()) => {
                let why =
                    "a process of Settings::dev has its own masters and serial file: name none, or use Settings::new";
                return Err(StartError::Settings(why.to_owned()));
            }
            Some(Alone(keep)) => Base::alone(keep.as_deref(), self.after_reboot, clock),
            None if !(1..=MASTERS_MAX).contains(&self.masters.len()) => {
                return Err(StartError::Settings(format!("name 1 to {MASTERS_MAX} masters")));
            }
            None => Base::with_masters(&self.serial_file, self.masters.clone(), self.after_reboot),
        };
        base.map_err(|error| match error {
            BaseError::SerialFile(error) => error.into(),
            BaseError::Folder(why) => StartError::Settings(why),
        })
    }

    fn certificates(&self) -> Result<Tls, StartError> {
        let Some(files) = self.tls.clone() else { return Ok(Tls::PLAIN) };
        Tls::load_for(files, &Role::Agent(self.agent_id.clone())).map_err(|e| StartError::Settings(e.to_string()))
    }

    /// Settings as those of the program `uniq_generator` if it is told no more than this.
    pub fn new(
        serial_file: impl Into<PathBuf>,
        masters: impl IntoIterator<Item = impl Into<String>>,
        agent_id: AgentId,
    ) -> Self {
        Self {
            serial_file: serial_file.into(),
            masters: masters.into_iter().map(Into::into).collect(),
            agent_id,
            token_types: BTreeSet::from([TokenType::Uint2, TokenType::String2IncludeLetter]),
            renew_interval: RENEW_INTERVAL,
            after_reboot: AfterReboot::Fresh,
            tls: None,
            alone: None,
        }
    }
}

/// A reason for which there is no start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The serial file cannot be used.
    #[error(transparent)]
    SerialFile(#[from] SerialFileError),
    /// The settings cannot be used.
    #[error("{0}")]
    Settings(String),
    /// The operating system refused a thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// An agent within this process. Dropping it ends minting and writes back what was not used; generators made from it say
/// so from then on. The serial file stays locked until the last of them is dropped too.
pub struct Embedded {
    minter: Arc<Minter>,
    names: Arc<Catalog>,
    sequences: Arc<Sequences>,
    process: Process,
    /// Real machine time at the start.
    started: BootMs,
    stop: CancellationToken,
    /// `None` once it has ended.
    runtime: Option<Runtime>,
    /// Tells the masters at the end that this process ends as it was told to.
    heartbeat: Option<JoinHandle<()>>,
    /// The folder of a process that is its own masters; it goes last.
    folder: Option<Folder>,
}

impl Embedded {
    /// Locks the serial file and begins to ask the masters for leases, without waiting for them.
    ///
    /// # Errors
    /// [`StartError`], naming the remedy.
    pub fn start(settings: Settings) -> Result<Self, StartError> {
        Self::start_with(settings, Plugins::new())
    }

    /// The same with [`Plugins`] of the application's own, or with history, for names whose definitions have such; or with
    /// [`Extensions`], which are strategies and a handler of refusals, too.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(settings: Settings, extensions: impl Into<Extensions>) -> Result<Self, StartError> {
        if !RENEW_INTERVALS.contains(&settings.renew_interval) {
            return Err(StartError::Settings("renew_interval: take a time from 1 s to 12 h".to_owned()));
        }
        let renew_interval = SpanMs(i64::try_from(settings.renew_interval.as_millis()).unwrap_or(i64::MAX));
        let clock = Clock::system();
        let started = clock.link_now().boot;
        let mut base = settings.base(clock)?;
        let (folder, is_alone) = (base.folder.take(), base.own.is_some());
        let tls = settings.certificates()?;
        let Settings { agent_id, token_types, masters, tls: settings_tls, .. } = settings;
        let identity = Identity { agent_id, token_types, renew_interval, clock, tls: tls.clone() };
        let parts = Parts::new(base, identity, extensions.into()).map_err(StartError::Settings)?;
        let (minter, names) = (Arc::clone(&parts.minter), Arc::clone(&parts.names));
        let process = Process::this().map_err(StartError::Settings)?;
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).thread_name("uniq-embedded").enable_all().build()?;
        minter.driver().reserve_on(runtime.handle().clone());
        parts.masters.live_on(runtime.handle());
        let stop = CancellationToken::new();
        if let Some(folder) = settings_tls.as_ref().and_then(Files::folder) {
            let folder = TlsFolder::new(folder.to_owned());
            runtime.spawn(enroll::keep(folder, masters, tls.clone(), stop.clone()));
        }
        runtime.spawn(tls.reload(stop.clone()));
        let (learning, until) = (Arc::clone(&names), stop.clone());
        let (done, recalled) = std::sync::mpsc::sync_channel(1);
        runtime.spawn(async move {
            learning.recall().await;
            let _ = done.send(());
            learning.run(until).await;
        });
        // A file is read: so that names of a former run are there from the beginning, with or without masters.
        let _ = recalled.recv();
        // Without a set, so that no section is given to it: nobody else could reach it. A process that is alone has no other.
        let sets = if is_alone { SET_DEFAULT.parse().into_iter().collect() } else { Vec::new() };
        let nowhere = ServedAt { http: String::new(), rpc: String::new() };
        let sequences = Arc::new(parts.sequences(sets, MEMORY_MIN, nowhere));
        runtime.spawn(Arc::clone(&sequences).run(stop.clone()));
        let (heartbeat, segments) = parts.tasks();
        runtime.spawn(segments.run(stop.clone()));
        let heartbeat = Some(runtime.spawn(heartbeat.run(stop.clone())));
        let runtime = Some(runtime);
        Ok(Self { minter, names, sequences, process, started, stop, runtime, heartbeat, folder })
    }

    /// The handler that is told of calls that get no IDs: a line of the log, until [`Refusals::set`] says otherwise.
    pub fn refusals(&self) -> &Refusals {
        self.minter.calls().refusals()
    }

    /// The plugins, and what `stats` and `history` say.
    pub fn plugins(&self) -> &Plugins {
        self.minter.extras().plugins()
    }

    /// All metrics in Prometheus' text format: those of an agent's `/metrics`, without the ones of its log and its listeners.
    pub fn metrics(&self) -> String {
        let uptime = self.minter.time().clock().link_now().boot - self.started;
        metrics::page(&self.minter, Some(&self.sequences), uptime.0 / SECOND_MS)
    }

    /// Waits until IDs of every wanted token type can be minted.
    ///
    /// # Errors
    /// The reason why they cannot, if that is still so after `patience`.
    pub fn wait_ready(&self, patience: Duration) -> Result<(), MintError> {
        let began = Instant::now();
        loop {
            self.process.check()?;
            match self.minter.ready() {
                Ok(()) => return Ok(()),
                Err(refusal) if began.elapsed() >= patience => return Err(refusal.into()),
                Err(_) => std::thread::sleep(LOOK),
            }
        }
    }

    /// The generators of that name; `default` is always there. If it is not known here the masters are asked, and the
    /// calling thread waits for them.
    ///
    /// # Errors
    /// [`Refusal::UnknownGenerator`]; [`Refusal::MastersUnavailable`] if it may exist, but no master can say;
    /// [`MintError::Forked`].
    pub fn get_uniq_generator(&self, name: &str) -> Result<Shared, MintError> {
        self.process.check()?;
        match Shared::new(&self.minter, name) {
            Err(unknown @ Refusal::UnknownGenerator { .. }) => {
                let (names, asked) = (Arc::clone(&self.names), name.to_owned());
                // Counters of keys are no generator of IDs.
                let fits = move |heard: &Namespace| heard.sequences().map_or(Ok(()), |_| Err(unknown.clone()));
                self.wait_for(async move { names.look_up(&asked, fits).await })??;
                Ok(Shared::new(&self.minter, name)?)
            }
            known => Ok(known?),
        }
    }

    /// The generators of a name that may be new: it is registered with the masters, both of which confirm it, and every
    /// agent serves it from then on. The calling thread waits for that.
    ///
    /// # Errors
    /// [`Refusal::GeneratorExists`] if the name stands for something else; [`Refusal::MastersUnavailable`] if it could not
    /// be confirmed; [`MintError::Forked`].
    pub fn create_uniq_generator(&self, namespace: Namespace) -> Result<Shared, MintError> {
        self.process.check()?;
        let name = namespace.name().clone();
        self.define(namespace)?;
        self.get_uniq_generator(name.as_str())
    }

    /// The counters of that name, which is of kind `sequence`. If it is not known here the masters are asked, and the calling thread waits
    /// for them.
    ///
    /// # Errors
    /// [`Refusal::UnknownGenerator`], also if it is of another kind; [`Refusal::MastersUnavailable`] if it may exist, but no master can
    /// say; [`MintError::Forked`].
    pub fn get_sequence(&self, name: &str) -> Result<Sequence, MintError> {
        self.process.check()?;
        let (sequences, asked) = (Arc::clone(&self.sequences), name.to_owned());
        let name = self.wait_for(async move { sequences.name(&asked, 0).await })??;
        let ended = || MintError::from(Refusal::Overloaded("this agent is ending"));
        let runtime = self.runtime.as_ref().ok_or_else(ended)?.handle().clone();
        Ok(Sequence { sequences: Arc::clone(&self.sequences), name, runtime, process: self.process.clone() })
    }

    /// The counters of a name that may be new: it is registered with the masters, both of which confirm it.
    ///
    /// # Errors
    /// As [`create_uniq_generator`](Self::create_uniq_generator).
    pub fn create_sequence(&self, namespace: Namespace) -> Result<Sequence, MintError> {
        self.process.check()?;
        let name = namespace.name().clone();
        self.define(namespace)?;
        self.get_sequence(name.as_str())
    }

    /// Tells what registering that would give (examples, IDs a day, the last day, whether the name is free), and registers nothing. The
    /// masters are asked, and the calling thread waits for them.
    ///
    /// # Errors
    /// As [`create_uniq_generator`](Self::create_uniq_generator).
    pub fn try_generator(&self, namespace: Namespace) -> Result<Preview, MintError> {
        self.process.check()?;
        self.defined(namespace, true)
    }

    fn define(&self, namespace: Namespace) -> Result<(), MintError> {
        let Preview { name, is_new, warning, .. } = self.defined(namespace, false)?;
        // An application has no answer to put it in.
        if let Some(warning) = warning.filter(|_| is_new) {
            tracing::warn!(%name, warning, "a name was registered");
        }
        Ok(())
    }

    fn defined(&self, namespace: Namespace, dry_run: bool) -> Result<Preview, MintError> {
        let (names, said) = (Arc::clone(&self.names), namespace.clone());
        let is_new = self.wait_for(async move { names.define(Caller::IN_PROCESS, &said, dry_run).await })??;
        Ok(self.minter.preview(Some(self.sequences.sets()), namespace, is_new))
    }

    /// Runs something on the thread of ours; the caller may be in a runtime of its own, so it waits as for any lock.
    fn wait_for<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Result<T, MintError> {
        let ended = || MintError::from(Refusal::Overloaded("this agent is ending"));
        let runtime = self.runtime.as_ref().ok_or_else(ended)?;
        let (done, answer) = std::sync::mpsc::sync_channel(1);
        runtime.spawn(async move {
            let _ = done.send(work.await);
        });
        answer.recv().map_err(|_| ended())
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if self.process.check().is_err() {
            // In a forked child there are none of the runtime's threads to wait for, and the file is the parent's.
            std::mem::forget((runtime, self.folder.take()));
            return;
        }
        self.stop.cancel();
        if let Err(error) = self.minter.end() {
            tracing::warn!(%error, "unused serials were not written back and are a gap");
        }
        // Waiting for a runtime is not allowed on a thread of another one, and the application may have one.
        let heartbeat = self.heartbeat.take();
        let ending = std::thread::Builder::new().spawn(move || {
            if let Some(heartbeat) = heartbeat {
                let _ = runtime.block_on(async { tokio::time::timeout(END_TIMEOUT, heartbeat).await });
            }
            runtime.shutdown_timeout(END_TIMEOUT);
        });
        if let Ok(ending) = ending {
            let _ = ending.join();
        }
        if let Some(history) = self.minter.extras().plugins().history() {
            history.end();
        }
    }
}
