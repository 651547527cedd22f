//! `LeaseService` for agents: decode, queue, await the answer. Decides only who may connect at all.

use crate::driver::{Counters, Driver, Refused};
use crate::enroll::Enrollment;
use crate::lease::receipt::{told, told_by_name};
use crate::lease::{Event, Reply};
use crate::registry::AgentRegistry;
use crate::whitelist::Whitelist;
use common::account::ACCOUNTS_MAX;
use common::audit::{Actor, RefusedAt};
use common::certificate::REVOCATIONS_MAX;
use common::clock::Clock;
use common::lease::Grant;
use common::namespace::{GeneratorName, Namespace};
use common::parameters::{AgentId, EpochId, MasterId};
use common::setting::{Change, NETWORKS_MAX, Setting, SettingKey};
use common::time::Now;
use net::io::WriteTimeout;
use net::places::{Place, Places};
use net::rpc::connection::{Bounds, CALL_LEN_MAX};
use net::rpc::enroll::{CAS_LEN_MAX, EnrollRefusal, EnrollRequest, Enrolled};
use net::rpc::lease::{
    AgentCredentials, AgentReport, Changed, CredentialsRequest, DefineReply, DefineRequest, FindRequest, Found,
    HeartbeatReply, HeartbeatRequest, LeaseService, LeaseServiceRequest, ListRequest, ListedLease, Mode,
    NAMESPACES_PAGE_MAX, NameState, NamespacesRequest, Refusal, Registered, Rent, RentRequest, RestoreRequest,
    TerminateRequest, TokenRequest, report_interval_ms,
};
use net::rpc::ranges::{
    ADDRESS_LEN_MAX, KEEP_RANGES_MAX, KeepReply, KeepRequest, RAISED_MAX, RAISES_MAX, ROUTES_ASKED_MAX, ROUTES_MAX,
    RaiseRequest, RaisedAll, RoutesReply, RoutesRequest, SegmentGrant, SegmentRequest,
};
use net::rpc::transport::{Limits, accept};
use net::tls::{Listener, Remote, Stream};
use net::turns::CallerId;
use process::descriptors::Port;
use std::sync::Arc;
use std::time::Duration;
use tarpc::context::Context;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Limits of the agents' port.
pub const LIMITS: Limits = Limits {
    connections_max: 8_192,
    requests_per_connection_max: 64,
    frame_len_max: CALL_LEN_MAX,
    memory_max: 16 << 20,
};
/// Bytes that a page of leases or namespaces takes at most until it is sent: 200 records, in memory and in the frame.
const PAGE_WEIGHT: usize = 512 << 10;

/// Bytes that the list of an allocator's sections takes at most, in memory and in the frame: its ranges, with names of full length.
const KEEP_WEIGHT: usize = KEEP_RANGES_MAX * 192;
/// Bytes that the results of raises take at most.
const RAISES_WEIGHT: usize = (RAISED_MAX + RAISES_MAX) * 72;
/// Bytes that a route takes at most, with addresses of full length.
const ROUTE_WEIGHT: usize = 2 * ADDRESS_LEN_MAX + 96;
/// Bytes that all API keys and revocations take at most, in memory and in the frame, with patterns and names of full length.
const CREDENTIALS_WEIGHT: usize = ACCOUNTS_MAX * (3 << 10) + REVOCATIONS_MAX * 128;
/// Bytes that the whitelist takes at most.
const NETWORKS_WEIGHT: usize = NETWORKS_MAX * 48;

/// The descriptors that this port can use.
pub const DESCRIPTORS: Port = Port { most: LIMITS.connections_max, least: 256 };
/// Callers at once who are not on the whitelist and are told so; one more is disconnected without a word.
const REFUSED_MAX: usize = 64;
/// The longest stay of such a caller.
const REFUSED_PATIENCE: Duration = Duration::from_secs(2);
/// Connections at once of those who come for a certificate; one more is disconnected without a word.
const NEWCOMERS_MAX: usize = 64;
/// The longest stay of one.
const NEWCOMERS_PATIENCE: Duration = Duration::from_secs(10);
/// Limits of what they may have under way together.
const NEWCOMERS: Limits = Limits {
    connections_max: NEWCOMERS_MAX,
    requests_per_connection_max: 1,
    frame_len_max: 16 << 10,
    memory_max: 4 << 20,
};

/// The registry that agents' reports go to, with what is noted beside each.
#[derive(Clone)]
pub struct ReportContext {
    pub registry: AgentRegistry,
    pub clock: Clock,
    pub master: MasterId,
    pub counters: Arc<Counters>,
}

/// Serves agents on `listener` until `stop`, so many connections at a time.
pub async fn serve(
    port: impl Into<Listener>,
    connections_max: usize,
    driver: Driver,
    whitelist: Whitelist,
    (reporting, enrollment): (ReportContext, Option<Enrollment>),
    stop: CancellationToken,
) {
    let [refused, newcomers] = [REFUSED_MAX, NEWCOMERS_MAX].map(|most| Arc::new(Semaphore::new(most)));
    let (bounds, few) = (LIMITS.bounds(), NEWCOMERS.bounds());
    let handle = move |io, remote: Remote, place: Place| {
        let from = remote.from;
        let (driver, reporting, seat) = (driver.clone(), reporting.clone(), place.clone());
        let (whitelisted, enrollment) = (whitelist.clone(), enrollment.clone());
        let server = LeaseServer { driver, whitelist: whitelisted, reporting, enrollment, remote, place: seat };
        let admitted = whitelist.admits(from.ip());
        let (refused, bounds) = (Arc::clone(&refused), bounds.clone());
        let (newcomers, few) = (Arc::clone(&newcomers), few.clone());
        async move {
            let mut io: WriteTimeout<Stream> = io;
            if io.get_mut().opened().await.is_err() {
                return;
            }
            if server.remote.newcomer().is_some() {
                // Whoever comes for a certificate takes nothing from agents, and is gone soon.
                let Ok(_among_them) = newcomers.try_acquire() else { return };
                let served = async { net::serve_connection!(io, &place, &few, server.serve(), weight) };
                let _ = tokio::time::timeout(NEWCOMERS_PATIENCE, served).await;
                return;
            }
            if admitted {
                net::serve_connection!(io, &place, &bounds, server.serve(), weight);
                return;
            }
            tracing::warn!(%from, "refused: this address is not on the whitelist");
            // Each of its calls is answered with that reason, for as long as it takes an agent to make its first one.
            let Ok(_among_them) = refused.try_acquire() else { return };
            let bounds = Bounds { requests_max: 1, ..bounds };
            let told = async { net::serve_connection!(io, &place, &bounds, server.serve()) };
            let _ = tokio::time::timeout(REFUSED_PATIENCE, told).await;
        }
    };
    accept(port, Places::new(connections_max), stop, handle).await;
}

/// Bytes that the answer to a request takes at most until it is sent; 0 if that is little.
fn weight(request: &LeaseServiceRequest) -> usize {
    match request {
        LeaseServiceRequest::AgentCredentials { .. } => CREDENTIALS_WEIGHT,
        LeaseServiceRequest::ListTokens { .. }
        | LeaseServiceRequest::ListNamespaces { .. }
        | LeaseServiceRequest::FindNamespaces { .. } => PAGE_WEIGHT,
        LeaseServiceRequest::KeepSections { .. } => KEEP_WEIGHT,
        LeaseServiceRequest::RaiseSections { .. } => RAISES_WEIGHT,
        LeaseServiceRequest::SectionRoutes { request } => {
            let all = if request.all_from.is_some() { ROUTES_MAX } else { 0 };
            (all + request.sections.len().min(ROUTES_ASKED_MAX)) * ROUTE_WEIGHT + NETWORKS_WEIGHT
        }
        LeaseServiceRequest::Enroll { .. } => CAS_LEN_MAX + REVOCATIONS_MAX * 128 + CALL_LEN_MAX,
        _ => 0,
    }
}

#[derive(Clone)]
struct LeaseServer {
    driver: Driver,
    whitelist: Whitelist,
    reporting: ReportContext,
    /// The issuing of certificates, if this master has a CA.
    enrollment: Option<Enrollment>,
    remote: Remote,
    /// Kept for whoever holds a lease: one connection for each session, so that a holder has no more than one of them.
    place: Place,
}

fn refusal(refused: Refused) -> Refusal {
    match refused {
        Refused::Overloaded => Refusal::Overloaded,
        Refused::Stopping => Refusal::ShuttingDown,
        Refused::NoRoom => Refusal::DiskFull,
    }
}

/// Asks the ledger and unwraps the one kind of answer that this kind of question has.
macro_rules! ask {
    ($driver:expr, $event:expr, $kind:path) => {
        match $driver.ask($event).await {
            Ok($kind(reply)) => reply,
            Ok(other) => {
                tracing::error!(?other, "the ledger answered another question");
                Err(Refusal::Retry)
            }
            Err(refused) => Err(refusal(refused)),
        }
    };
}

fn registered(setting: &Setting) -> Option<(Namespace, NameState)> {
    Some((setting.value.namespace()?.clone(), NameState::of(&setting.value)))
}

/// Names with the word of the masters of a pairing for them, which is made on this thread and not on the ledger's.
fn all_told((pairing, found): (Option<EpochId>, Vec<(Namespace, NameState)>)) -> Vec<Registered> {
    found.into_iter().map(|(namespace, state)| told(pairing, namespace, state)).collect()
}

impl LeaseServer {
    /// The whitelist may have changed since the connection was made. Who came for a certificate gets nothing else.
    fn allowed(&self) -> Result<(), Refusal> {
        // By its certificate, if it has one: by now it has shown it.
        self.place.is_of(CallerId::from(&self.remote));
        let admitted = self.remote.newcomer().is_none() && self.whitelist.admits(self.remote.from.ip());
        if admitted { Ok(()) } else { Err(self.refused("somebody", Refusal::NotAllowed)) }
    }

    /// Counts a refusal of who may not ask.
    fn refused(&self, who: &str, why: Refusal) -> Refusal {
        let who = Actor::new(who, &self.remote.from.ip().to_canonical().to_string());
        self.reporting.counters.refusals.count(RefusedAt::Agents, who, why.to_string());
        why
    }

    /// The issuing of certificates, for who came for one. The whitelist says who may be an agent, and not who may be invited.
    fn enrolling(&self) -> Result<&Enrollment, EnrollRefusal> {
        match (&self.enrollment, self.remote.newcomer()) {
            (Some(enrollment), Some(_)) => Ok(enrollment),
            (None, _) => Err(EnrollRefusal::NoCa("it has none".to_owned())),
            (Some(_), None) => Err(EnrollRefusal::NoCa("not on a connection like this one".to_owned())),
        }
    }

    /// As [`Self::allowed`], for a call in the name of that agent.
    fn allowed_for(&self, agent: &AgentId) -> Result<(), Refusal> {
        self.allowed()?;
        let wrong = || self.refused(agent.as_str(), Refusal::WrongCertificate { agent_id: agent.clone() });
        if self.remote.speaks_for(agent) { Ok(()) } else { Err(wrong()) }
    }

    /// That agent, and whoever asked it, at the address from which this connection comes.
    fn actor(&self, agent: &AgentId, caller: Option<&str>) -> Actor {
        let from = self.remote.from.to_string();
        match caller {
            Some(caller) => Actor::new(&format!("{caller} via {agent}"), &from),
            None => Actor::new(agent.as_str(), &from),
        }
    }

    /// The entries known of these names, with the masters' word for it.
    async fn found(&self, names: Vec<GeneratorName>) -> Result<Found, Refusal> {
        let found = self.driver.look(move |ledger, _| {
            let (mut known, mut retired) = (Vec::new(), Vec::new());
            for name in names.into_iter().take(NAMESPACES_PAGE_MAX) {
                let setting = ledger.settings_table().get(&SettingKey::Namespace(name.clone()));
                match setting.map(registered) {
                    Some(found) => known.extend(found),
                    None if ledger.settings_table().is_shortened(&name) => retired.push(name),
                    None => {}
                }
            }
            (ledger.identity().epoch, known, retired)
        });
        let (pairing, known, retired) = found.await.map_err(refusal)?;
        let retired = retired.into_iter().map(|name| told_by_name(pairing, name)).collect();
        Ok(Found { names: all_told((pairing, known)), retired })
    }

    /// Counts a renewal that is refused.
    fn counted<T>(&self, renewed: Result<T, Refusal>) -> Result<T, Refusal> {
        renewed.inspect_err(|why| self.reporting.counters.renewals.refused(why))
    }

    async fn rent(&self, request: RentRequest) -> Result<Rent, Refusal> {
        self.allowed_for(&request.agent_id)?;
        let session = request.session;
        let renewed = ask!(self.driver, move |id| Event::Rent { id, request }, Reply::Rent);
        match &renewed {
            Ok(Rent::Success { .. }) => self.place.keep(session.0),
            Ok(Rent::Rented | Rent::Unrented) => self.reporting.counters.renewals.ended(),
            Err(_) => {}
        }
        renewed
    }

    fn greet(&self, request: HeartbeatRequest) -> Result<HeartbeatReply, Refusal> {
        self.allowed_for(&request.agent_id)?;
        // An agent that hears this turns to the other master.
        if self.driver.is_full() {
            return Err(Refusal::DiskFull);
        }
        let (answer, over, doubts) = {
            let snapshot = self.driver.snapshot();
            let answer = snapshot.answer(self.reporting.clock.link_now(), &request);
            (answer, snapshot.is_over(&request.retired), snapshot.doubts_its_calendar())
        };
        if doubts && answer.is_ok() {
            let HeartbeatRequest { agent_id, session, wall, .. } = request;
            // The queue may be full; agents say it again.
            let _ = self.driver.tell(Event::AgentCalendar { agent_id, session, wall });
        }
        if over {
            // The queue may be full; agents bring it again.
            let _ = self.driver.tell(Event::Retired);
        }
        answer
    }

    async fn keep(&self, request: KeepRequest) -> Result<KeepReply, Refusal> {
        self.allowed_for(&request.agent_id)?;
        let session = request.session;
        let kept = ask!(self.driver, move |id| Event::Keep { id, request }, Reply::Keep);
        if kept.as_ref().is_ok_and(|kept| !kept.sections.is_empty()) {
            self.place.keep(session.0);
        }
        kept
    }
}

impl LeaseService for LeaseServer {
    async fn request_token(self, _: Context, request: TokenRequest) -> Result<Grant, Refusal> {
        self.allowed_for(&request.agent_id)?;
        let (address, session) = (self.remote.from.to_string(), request.session);
        let granted = ask!(self.driver, move |id| Event::Token { id, request, address }, Reply::Token);
        if granted.is_ok() {
            self.place.keep(session.0);
        }
        granted
    }

    async fn rent_token(self, _: Context, request: RentRequest) -> Result<Rent, Refusal> {
        let renewed = self.rent(request).await;
        self.counted(renewed)
    }

    async fn list_tokens(self, _: Context, request: ListRequest) -> Result<Vec<ListedLease>, Refusal> {
        self.allowed_for(&request.agent_id)?;
        ask!(self.driver, move |id| Event::List { id, request }, Reply::List)
    }

    async fn terminate_token(self, _: Context, request: TerminateRequest) -> Result<(), Refusal> {
        self.allowed_for(&request.agent_id)?;
        ask!(self.driver, move |id| Event::Terminate { id, request }, Reply::Terminate)
    }

    async fn define_namespace(self, _: Context, request: DefineRequest) -> Result<DefineReply, Refusal> {
        self.allowed_for(&request.agent_id)?;
        let DefineRequest { agent_id, cluster, caller, namespace } = request;
        let actor = self.actor(&agent_id, caller.as_deref());
        let driver = &self.driver;
        driver.snapshot().serves_cluster(cluster)?;
        let (name, namespace) = (namespace.name().clone(), Box::new(namespace));
        let outcome = ask!(driver, move |id| Event::Define { id, namespace, actor }, Reply::Change);
        // Whoever is told nothing of it asks.
        let known = self.found(vec![name]).await.unwrap_or_default();
        Ok(DefineReply { outcome, known })
    }

    async fn try_namespace(self, _: Context, request: DefineRequest) -> Result<DefineReply, Refusal> {
        self.allowed_for(&request.agent_id)?;
        let DefineRequest { agent_id, cluster, caller, namespace } = request;
        let actor = self.actor(&agent_id, caller.as_deref());
        self.driver.snapshot().serves_cluster(cluster)?;
        let (name, namespace) = (namespace.name().clone(), Box::new(namespace));
        let judged = self.driver.look(move |ledger, clock| {
            let now = clock.link_now();
            ledger.would_define(Now { wall: ledger.calendar().shown(now), ..now }, namespace, &actor)
        });
        let outcome = judged.await.map_err(refusal)?;
        let known = self.found(vec![name]).await.unwrap_or_default();
        Ok(DefineReply { outcome, known })
    }

    async fn restore_namespace(self, _: Context, request: RestoreRequest) -> Result<Changed, Refusal> {
        self.allowed_for(&request.agent_id)?;
        let RestoreRequest { agent_id, cluster, shown } = request;
        let actor = self.actor(&agent_id, None);
        self.driver.snapshot().serves_cluster(cluster)?;
        let shown = Box::new(shown);
        ask!(self.driver, move |id| Event::Restore { id, shown, actor }, Reply::Change)
    }

    async fn use_namespace(self, _: Context, request: DefineRequest) -> Result<Registered, Refusal> {
        self.allowed_for(&request.agent_id)?;
        let DefineRequest { agent_id, cluster, caller, namespace } = request;
        let actor = self.actor(&agent_id, caller.as_deref());
        self.driver.snapshot().serves_cluster(cluster)?;
        let (name, change) = (namespace.name().clone(), Change::Use(Box::new(namespace)));
        ask!(self.driver, move |id| Event::Change { id, change, actor }, Reply::Change)?;
        self.found(vec![name]).await?.names.pop().ok_or(Refusal::NoSuchName)
    }

    async fn list_namespaces(self, _: Context, request: NamespacesRequest) -> Result<Vec<Registered>, Refusal> {
        self.allowed()?;
        let NamespacesRequest { cluster, after } = request;
        self.driver.snapshot().serves_cluster(cluster)?;
        let page = self.driver.look(move |ledger, _| {
            let names = ledger.settings_table().names_after(after.as_ref()).take(NAMESPACES_PAGE_MAX);
            (ledger.identity().epoch, names.filter_map(registered).collect())
        });
        page.await.map(all_told).map_err(refusal)
    }

    async fn find_namespaces(self, _: Context, request: FindRequest) -> Result<Found, Refusal> {
        self.allowed()?;
        let FindRequest { cluster, names } = request;
        self.driver.snapshot().serves_cluster(cluster)?;
        self.found(names).await
    }

    async fn heartbeat(self, _: Context, request: HeartbeatRequest) -> Result<HeartbeatReply, Refusal> {
        let answer = self.greet(request);
        self.counted(answer)
    }

    async fn request_segment(self, _: Context, request: SegmentRequest) -> Result<SegmentGrant, Refusal> {
        self.allowed_for(&request.agent_id)?;
        let address = self.remote.from.to_string();
        ask!(self.driver, move |id| Event::Segment { id, request, address }, Reply::Segment)
    }

    async fn keep_sections(self, _: Context, request: KeepRequest) -> Result<KeepReply, Refusal> {
        let kept = self.keep(request).await;
        self.counted(kept)
    }

    async fn raise_sections(self, _: Context, request: RaiseRequest) -> Result<RaisedAll, Refusal> {
        self.allowed_for(&request.agent_id)?;
        ask!(self.driver, move |id| Event::Raise { id, request }, Reply::Raise)
    }

    async fn section_routes(self, _: Context, request: RoutesRequest) -> Result<RoutesReply, Refusal> {
        self.allowed()?;
        let address = self.remote.from.to_string();
        ask!(self.driver, move |id| Event::Routes { id, request, address }, Reply::Routes)
    }

    async fn agent_credentials(
        self,
        _: Context,
        request: CredentialsRequest,
    ) -> Result<Option<AgentCredentials>, Refusal> {
        self.allowed_for(&request.agent_id)?;
        let CredentialsRequest { cluster, known, .. } = request;
        self.driver.snapshot().serves_cluster(cluster)?;
        let listed = self
            .driver
            .look(move |ledger, _| ledger.settings_table().agent_credentials(known, ledger.mode() == Mode::Ready));
        listed.await.map_err(refusal)
    }

    async fn enroll(self, _: Context, request: EnrollRequest) -> Result<Enrolled, EnrollRefusal> {
        self.enrolling()?.answer(request, self.remote.clone()).await
    }

    async fn report(self, _: Context, report: AgentReport) -> Result<u64, Refusal> {
        self.allowed_for(&report.agent_id)?;
        self.driver.snapshot().serves_cluster(report.cluster)?;
        let (agent_id, session) = (report.agent_id.clone(), report.session);
        let holds =
            self.driver.look(move |ledger, _| ledger.table().holds(&agent_id, session)).await.map_err(refusal)?;
        let ReportContext { registry, clock, master, .. } = &self.reporting;
        let address = self.remote.from.to_string();
        if holds {
            self.place.keep(session.0);
            registry.take_in(report, &address, *master, clock.wall());
        } else {
            self.place.keep_no_more();
            registry.take_in_newcomer(report, &address, *master, clock.wall());
        }
        Ok(report_interval_ms(registry.len()))
    }
}
