//! The masters of a process that is its own: the same service, over memory instead of a socket, so that all else of
//! an agent is as ever. Nobody outside the process can reach it.

use super::ledger::Ledger;
use common::clock::Clock;
use common::envelope::{self, Kind};
use common::lease::Grant;
use common::parameters::{ClusterId, ClusterParameters, MasterId};
use common::segment::MasterRun;
use common::setting::Change;
use futures::StreamExt as _;
use net::rpc::PROTOCOL;
use net::rpc::enroll::{EnrollRefusal, EnrollRequest, Enrolled};
use net::rpc::lease::{
    AgentCredentials, AgentReport, Changed, CredentialsRequest, DefineReply, DefineRequest, FindRequest, Found,
    HeartbeatReply, HeartbeatRequest, LeaseService, LeaseServiceRequest, LeaseServiceResponse, ListRequest,
    ListedLease, Mode, NAMESPACES_PAGE_MAX, NamespacesRequest, REPORT_INTERVAL_MAX_MS, Refusal, Registered, Rent,
    RentRequest, RestoreRequest, TerminateRequest, TokenRequest,
};
use net::rpc::ranges::{
    KeepReply, KeepRequest, RAISES_MAX, RaiseRequest, RaisedAll, RoutesReply, RoutesRequest, SegmentGrant,
    SegmentRequest,
};
use serial_file::{Access, Disk as _, OsDisk};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use tarpc::context::Context;
use tarpc::server::{BaseChannel, Channel as _};
use tarpc::{ClientMessage, Response, Transport};
use tokio::sync::Mutex;

/// The record that is kept.
const LEDGER: Kind = Kind { name: *b"DEVL", version: 2 };
/// The file of that record.
pub(super) const LEDGER_FILE: &str = "uniq_dev.ledger";
/// The same while it is written.
const LEDGER_NEW: &str = "uniq_dev.ledger.new";
/// A lease of sections: nobody waits long for what a process before had, and nobody else can want it.
const SECTION_LEASE_MS: u32 = 500;
/// Calls under way on one connection.
const IN_FLIGHT_MAX: usize = 64;

/// The masters of a process that is alone.
#[derive(Clone, Debug)]
pub(crate) struct Masters(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Held while a change becomes durable, so nobody waits for it on a thread of the runtime.
    state: Mutex<State>,
    /// The folder where it is kept, if it is.
    kept_in: Option<PathBuf>,
    clock: Clock,
    run: MasterRun,
}

#[derive(Debug)]
struct State {
    ledger: Ledger,
    kept: Option<Kept>,
}

/// The ledger's file in a folder, which is this process' alone as long as this lives.
#[derive(Debug)]
pub(super) struct Kept {
    /// Found by what is open, not by its name: whoever moves it takes the ledger along.
    folder: OsDisk,
    path: PathBuf,
    /// The file that was last read or put in place.
    ours: Option<File>,
}

impl Kept {
    /// Locks the folder; `None` if another process has it.
    pub(super) fn lock(folder: &Path) -> io::Result<Option<Self>> {
        let disk = OsDisk::new(folder)?;
        Ok(disk.try_lock_folder()?.then(|| Self { folder: disk, path: folder.to_owned(), ours: None }))
    }

    /// The ledger, if there is one.
    ///
    /// # Errors
    /// A text that says why it cannot be read.
    pub(super) fn read(&mut self) -> Result<Option<Ledger>, String> {
        let file = match self.folder.open(OsStr::new(LEDGER_FILE), Access::Read) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|e| e.to_string())?,
        };
        let bytes =
            self.folder.read(&file, envelope::HEADER_LEN + envelope::PAYLOAD_LEN_MAX).map_err(|e| e.to_string())?;
        let ledger = envelope::decode(LEDGER, &bytes).map_err(|e| e.to_string())?;
        self.ours = Some(file);
        Ok(Some(ledger))
    }

    /// Puts this ledger in the place of the one that was there, durable when this returns.
    fn write(&mut self, ledger: &Ledger) -> io::Result<()> {
        let (disk, at, new) = (&self.folder, OsStr::new(LEDGER_FILE), OsStr::new(LEDGER_NEW));
        let ours = self.ours.as_ref().map(|file| disk.stat(file)).transpose()?;
        let is_ours = match (ours, disk.stat_name(at)?) {
            (Some(ours), Some(there)) => ours.identity.same_file(&there.identity),
            (ours, there) => ours.is_none() && there.is_none(),
        };
        if !is_ours {
            // Wherever it went, another process may grant from it.
            return Err(io::Error::other("somebody else took it away or put another in its place; start again"));
        }
        let bytes = envelope::encode(LEDGER, ledger).map_err(io::Error::other)?;
        disk.unlink(new)?;
        let file = disk.create(new)?;
        disk.write(&file, &bytes)?;
        disk.fsync(&file)?;
        disk.rename(new, at)?;
        self.ours = Some(file);
        disk.fsync_folder()
    }
}

impl Masters {
    /// With this ledger, written down at once if it is to be kept.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn new(ledger: Ledger, mut kept: Option<Kept>, clock: Clock) -> io::Result<Self> {
        kept.as_mut().map_or(Ok(()), |kept| kept.write(&ledger))?;
        let kept_in = kept.as_ref().map(|kept| kept.path.clone());
        let (run, state) = (MasterRun(rand::random()), Mutex::new(State { ledger, kept }));
        Ok(Self(Arc::new(Inner { state, kept_in, clock, run })))
    }

    /// Tells people of it, at each start and in `/status`.
    pub(crate) fn about(&self) -> String {
        let keeps = match &self.0.kept_in {
            Some(folder) => format!("keeps what it gives in {}", folder.display()),
            None => "keeps nothing: its names end with it, and another start may give the same IDs".to_owned(),
        };
        format!("started with --dev: alone, for trying, without masters; {keeps}")
    }

    /// The client's end of a connection.
    pub(crate) fn connect(
        &self,
    ) -> impl Transport<ClientMessage<LeaseServiceRequest>, Response<LeaseServiceResponse>> + use<> {
        let (ours, theirs) = tarpc::transport::channel::bounded(IN_FLIGHT_MAX);
        let (requests, serve) = (BaseChannel::with_defaults(theirs).requests(), self.clone().serve());
        tokio::spawn(async move {
            let mut requests = pin!(requests);
            // An error is that the other end has gone. Each call of a connection has a place there, so here are no more than that.
            while let Some(Ok(request)) = requests.next().await {
                tokio::spawn(request.execute(serve.clone()));
            }
        });
        ours
    }

    async fn look<T>(&self, look: impl FnOnce(&Ledger) -> T) -> T {
        look(&self.0.state.lock().await.ledger)
    }

    /// Changes the ledger; what is kept is durable before this returns, and else nothing has changed.
    async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Ledger) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let inner = Arc::clone(&self.0);
        let changed = tokio::task::spawn_blocking(move || {
            let mut state = inner.state.blocking_lock();
            let State { ledger, kept } = &mut *state;
            let mut new = ledger.clone();
            let answer = change(&mut new)?;
            if let Some(kept) = kept.as_mut().filter(|_| new != *ledger)
                && let Err(error) = kept.write(&new)
            {
                let folder = kept.path.display();
                tracing::error!(%error, %folder, "what was granted cannot be kept, so it is not granted");
                return Err(Refusal::NotKept { why: error.to_string() });
            }
            *ledger = new;
            Ok(answer)
        });
        changed.await.unwrap_or(Err(Refusal::ShuttingDown))
    }

    async fn change_name(&self, cluster: Option<ClusterId>, change: Change) -> Result<Changed, Refusal> {
        self.change(move |ledger| ledger.change_name(cluster, &change)).await
    }
}

impl LeaseService for Masters {
    async fn enroll(self, _: Context, _: EnrollRequest) -> Result<Enrolled, EnrollRefusal> {
        Err(EnrollRefusal::NoCa("there are no certificates here".to_owned()))
    }

    async fn heartbeat(self, _: Context, request: HeartbeatRequest) -> Result<HeartbeatReply, Refusal> {
        if request.protocol != PROTOCOL {
            return Err(Refusal::Protocol { here: PROTOCOL });
        }
        let clock = self.0.clock;
        let answer = |ledger: &Ledger| {
            ledger.same_cluster(request.cluster)?;
            Ok(HeartbeatReply {
                master: MasterId::One,
                cluster: ledger.cluster(),
                parameters: ClusterParameters::default(),
                mode: Mode::Ready,
                wall: clock.wall(),
                ahead: None,
                test_clock: clock.test_clock(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                denied: Vec::new(),
                retired: Vec::new(),
                names: ledger.digest_of_names(),
            })
        };
        self.look(answer).await
    }

    async fn request_token(self, _: Context, request: TokenRequest) -> Result<Grant, Refusal> {
        let (now, dice) = (self.0.clock.wall(), rand::random::<u32>());
        self.change(move |ledger| ledger.grant(now, &request, dice)).await
    }

    async fn rent_token(self, _: Context, request: RentRequest) -> Result<Rent, Refusal> {
        let now = self.0.clock.wall();
        self.change(move |ledger| ledger.renew(now, &request)).await
    }

    async fn list_tokens(self, _: Context, request: ListRequest) -> Result<Vec<ListedLease>, Refusal> {
        Ok(self.look(|ledger| ledger.list(&request)).await)
    }

    async fn terminate_token(self, _: Context, request: TerminateRequest) -> Result<(), Refusal> {
        self.change(move |ledger| ledger.take_back(&request)).await
    }

    async fn define_namespace(self, _: Context, request: DefineRequest) -> Result<DefineReply, Refusal> {
        let name = request.namespace.name().clone();
        let outcome = self.change_name(request.cluster, Change::Define(Box::new(request.namespace))).await;
        let names = self.look(|ledger| ledger.name(&name)).await.into_iter().collect();
        Ok(DefineReply { outcome, known: Found { names, retired: Vec::new() } })
    }

    async fn try_namespace(self, _: Context, request: DefineRequest) -> Result<DefineReply, Refusal> {
        let DefineRequest { cluster, namespace, .. } = request;
        let (name, change) = (namespace.name().clone(), Change::Define(Box::new(namespace)));
        self.look(|ledger| {
            let would = ledger.would_change_name(cluster, &change);
            let outcome = would.map(|changes| if changes.is_some() { Changed::Done } else { Changed::AlreadySo });
            Ok(DefineReply { outcome, known: Found { names: Vec::from_iter(ledger.name(&name)), retired: Vec::new() } })
        })
        .await
    }

    async fn restore_namespace(self, _: Context, request: RestoreRequest) -> Result<Changed, Refusal> {
        let RestoreRequest { cluster, shown, .. } = request;
        let retired = shown.state == net::rpc::lease::NameState::Retired;
        let namespace = Box::new(shown.namespace);
        self.change_name(cluster, Change::Restore { namespace, retired, proved: false }).await
    }

    async fn use_namespace(self, _: Context, request: DefineRequest) -> Result<Registered, Refusal> {
        let DefineRequest { cluster, namespace, .. } = request;
        let name = namespace.name().clone();
        self.change_name(cluster, Change::Use(Box::new(namespace))).await?;
        self.look(|ledger| ledger.name(&name)).await.ok_or(Refusal::NoSuchName)
    }

    async fn list_namespaces(self, _: Context, request: NamespacesRequest) -> Result<Vec<Registered>, Refusal> {
        self.look(|ledger| ledger.names(&request)).await
    }

    async fn agent_credentials(self, _: Context, _: CredentialsRequest) -> Result<Option<AgentCredentials>, Refusal> {
        // Nobody can make one here.
        Ok(None)
    }

    async fn find_namespaces(self, _: Context, request: FindRequest) -> Result<Found, Refusal> {
        let names = request.names.iter().take(NAMESPACES_PAGE_MAX);
        self.look(|ledger| {
            ledger.same_cluster(request.cluster)?;
            Ok(Found { names: names.filter_map(|name| ledger.name(name)).collect(), retired: Vec::new() })
        })
        .await
    }

    async fn request_segment(self, _: Context, request: SegmentRequest) -> Result<SegmentGrant, Refusal> {
        self.change(move |ledger| ledger.segment(&request)).await
    }

    async fn keep_sections(self, _: Context, request: KeepRequest) -> Result<KeepReply, Refusal> {
        let (run, boot) = (self.0.run, self.0.clock.boot());
        // Nothing of it is kept.
        let (sections, more) = self.0.state.lock().await.ledger.keep(&request)?;
        Ok(KeepReply { lease_ms: SECTION_LEASE_MS, run, boot, sections, more })
    }

    async fn raise_sections(self, _: Context, request: RaiseRequest) -> Result<RaisedAll, Refusal> {
        if request.raises.len() > RAISES_MAX {
            return Err(Refusal::TooMany { max: u32::try_from(RAISES_MAX).unwrap_or(u32::MAX) });
        }
        self.change(move |ledger| {
            ledger.same_cluster(request.cluster)?;
            Ok(request.raises.iter().map(|raise| ledger.raise(request.session, raise)).collect())
        })
        .await
    }

    async fn section_routes(self, _: Context, request: RoutesRequest) -> Result<RoutesReply, Refusal> {
        self.change(move |ledger| ledger.routes(&request)).await
    }

    async fn report(self, _: Context, _: AgentReport) -> Result<u64, Refusal> {
        // No operator looks.
        Ok(REPORT_INTERVAL_MAX_MS)
    }
}
