//! The masters of a process that is its own: the same service, over memory instead of a socket, so that all else of
//! an agent is as ever. Nobody outside the process can reach it.

use super::ledger::Ledger;
use common::clock::Clock;
use common::envelope::{self, Kind};
use common::lease::Grant;
use common::parameters::{ClusterId, ClusterParameters, MasterId};
use common::rpc::PROTOCOL;
use common::rpc::lease::{
    AgentReport, Changed, DefineRequest, FindRequest, Found, HeartbeatReply, HeartbeatRequest, LeaseService,
    LeaseServiceClient, ListRequest, ListedLease, Mode, NAMESPACES_PAGE_MAX, NamespacesRequest, REPORT_INTERVAL_MAX_MS,
    Refusal, Registered, Rent, RentRequest, RestoreRequest, TerminateRequest, TokenRequest,
};
use common::rpc::ranges::{
    KeepReply, KeepRequest, NotRaised, RAISES_MAX, RaiseRequest, Raised, RoutesReply, RoutesRequest, SegmentGrant,
    SegmentRequest,
};
use common::segment::MasterRun;
use common::setting::Change;
use futures::StreamExt as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use tarpc::client::Config;
use tarpc::context::Context;
use tarpc::server::{BaseChannel, Channel as _};

/// The record that is kept.
const LEDGER: Kind = Kind { name: *b"DEVL", version: 1 };
/// Its owner's alone, as the serial file is.
const LEDGER_MODE: u32 = 0o600;
/// A lease of sections: nobody waits long for what a process before had, and nobody else can want it.
const SECTION_LEASE_MS: u32 = 500;
/// Calls under way on one connection.
const IN_FLIGHT_MAX: usize = 64;

/// The masters of a process that is alone.
#[derive(Clone, Debug)]
pub(crate) struct Masters(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ledger: Mutex<Ledger>,
    /// Where it is kept, if it is.
    kept_at: Option<PathBuf>,
    clock: Clock,
    run: MasterRun,
}

/// The ledger that is kept at `path`, if there is one.
///
/// # Errors
/// A text that says why it cannot be read.
pub(super) fn kept(path: &Path) -> Result<Option<Ledger>, String> {
    match std::fs::read(path) {
        Ok(bytes) => envelope::decode(LEDGER, &bytes).map(Some).map_err(|e| e.to_string()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e.to_string()),
    }
}

fn keep(path: &Path, ledger: &Ledger) -> Result<(), String> {
    let bytes = envelope::encode(LEDGER, ledger).map_err(|e| e.to_string())?;
    common::file::replace(path, LEDGER_MODE, &bytes).map_err(|e| e.to_string())
}

impl Masters {
    /// With this ledger, written down at once if it is to be kept.
    ///
    /// # Errors
    /// A text that says why it cannot be written.
    pub(super) fn new(ledger: Ledger, kept_at: Option<PathBuf>, clock: Clock) -> Result<Self, String> {
        if let Some(path) = &kept_at {
            keep(path, &ledger)?;
        }
        let run = MasterRun(rand::random());
        Ok(Self(Arc::new(Inner { ledger: Mutex::new(ledger), kept_at, clock, run })))
    }

    /// Tells people of it, at each start and in `/status`.
    pub(crate) fn about(&self) -> String {
        let keeps = match self.0.kept_at.as_deref().and_then(Path::parent) {
            Some(folder) => format!("keeps what it gives in {}", folder.display()),
            None => "keeps nothing: its names end with it, and another start may give the same IDs".to_owned(),
        };
        format!("started with --dev: alone, for trying, without masters; {keeps}")
    }

    /// A connection.
    pub(crate) fn connect(&self) -> LeaseServiceClient {
        let (ours, theirs) = tarpc::transport::channel::bounded(IN_FLIGHT_MAX);
        let (requests, serve) = (BaseChannel::with_defaults(theirs).requests(), self.clone().serve());
        tokio::spawn(async move {
            let mut requests = pin!(requests);
            // An error is that the other end has gone. Each call of a connection has a place there, so here are no more than that.
            while let Some(Ok(request)) = requests.next().await {
                tokio::spawn(request.execute(serve.clone()));
            }
        });
        let mut config = Config::default();
        (config.max_in_flight_requests, config.pending_request_buffer) = (IN_FLIGHT_MAX, IN_FLIGHT_MAX);
        LeaseServiceClient::new(config, ours).spawn()
    }

    fn look<T>(&self, look: impl FnOnce(&Ledger) -> T) -> T {
        look(&self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the ledger; what is kept is durable before this returns, and else nothing has changed.
    async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Ledger) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let inner = Arc::clone(&self.0);
        let changed = tokio::task::spawn_blocking(move || {
            let mut ledger = inner.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            let mut new = ledger.clone();
            let answer = change(&mut new)?;
            if let Some(path) = inner.kept_at.as_deref().filter(|_| new != *ledger)
                && let Err(error) = keep(path, &new)
            {
                tracing::error!(%error, file = %path.display(), "what was granted cannot be kept, so it is not granted");
                return Err(Refusal::DiskFull);
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
    async fn heartbeat(self, _: Context, request: HeartbeatRequest) -> Result<HeartbeatReply, Refusal> {
        if request.protocol != PROTOCOL {
            return Err(Refusal::Protocol { here: PROTOCOL });
        }
        self.look(|ledger| {
            ledger.same_cluster(request.cluster)?;
            Ok(HeartbeatReply {
                master: MasterId::One,
                cluster: ledger.cluster(),
                parameters: ClusterParameters::default(),
                mode: Mode::Ready,
                wall: self.0.clock.wall(),
                ahead: None,
                test_clock: self.0.clock.test_clock(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                denied: Vec::new(),
                retired: Vec::new(),
                names: ledger.digest_of_names(),
            })
        })
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
        Ok(self.look(|ledger| ledger.list(&request)))
    }

    async fn terminate_token(self, _: Context, request: TerminateRequest) -> Result<(), Refusal> {
        self.change(move |ledger| ledger.take_back(&request)).await
    }

    async fn define_namespace(self, _: Context, request: DefineRequest) -> Result<Changed, Refusal> {
        self.change_name(request.cluster, Change::Define(Box::new(request.namespace))).await
    }

    async fn restore_namespace(self, _: Context, request: RestoreRequest) -> Result<Changed, Refusal> {
        let RestoreRequest { cluster, shown, .. } = request;
        let retired = shown.state == common::rpc::lease::NameState::Retired;
        let namespace = Box::new(shown.namespace);
        self.change_name(cluster, Change::Restore { namespace, retired, proved: false }).await
    }

    async fn use_namespace(self, _: Context, request: DefineRequest) -> Result<Registered, Refusal> {
        let DefineRequest { cluster, namespace, .. } = request;
        let name = namespace.name().clone();
        self.change_name(cluster, Change::Use(Box::new(namespace))).await?;
        self.look(|ledger| ledger.name(&name)).ok_or(Refusal::NoSuchName)
    }

    async fn list_namespaces(self, _: Context, request: NamespacesRequest) -> Result<Vec<Registered>, Refusal> {
        self.look(|ledger| ledger.names(&request))
    }

    async fn find_namespaces(self, _: Context, request: FindRequest) -> Result<Found, Refusal> {
        let names = request.names.iter().take(NAMESPACES_PAGE_MAX);
        self.look(|ledger| {
            ledger.same_cluster(request.cluster)?;
            Ok(Found { names: names.filter_map(|name| ledger.name(name)).collect(), retired: Vec::new() })
        })
    }

    async fn request_segment(self, _: Context, request: SegmentRequest) -> Result<SegmentGrant, Refusal> {
        self.change(move |ledger| ledger.segment(&request)).await
    }

    async fn keep_sections(self, _: Context, request: KeepRequest) -> Result<KeepReply, Refusal> {
        let (run, boot) = (self.0.run, self.0.clock.boot());
        let mut ledger = self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        // Nothing of it is kept.
        let (sections, more) = ledger.keep(&request)?;
        Ok(KeepReply { lease_ms: SECTION_LEASE_MS, run, boot, sections, more })
    }

    async fn raise_sections(
        self,
        _: Context,
        request: RaiseRequest,
    ) -> Result<Vec<Result<Raised, NotRaised>>, Refusal> {
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
