//! Both masters as agents see them: they always agree, and do at once what a test says.

use crate::minter::kit::parameters;
use common::clock::Clock;
use common::lease::{Generation, Grant};
use common::namespace::GeneratorName;
use common::parameters::{ClusterId, MasterId, SessionId};
use common::segment::MasterRun;
use common::sequence::{Route, Section, ServedAt};
use net::places::{Place, Places};
use net::rpc::enroll::{EnrollRefusal, EnrollRequest, Enrolled};
use net::rpc::lease::{
    AgentCredentials, AgentReport, Changed, CredentialsRequest, DefineReply, DefineRequest, FindRequest, Found,
    HeartbeatReply, HeartbeatRequest, LeaseService, ListRequest, ListedLease, Mode, NamespacesRequest, Refusal,
    Registered, Rent, RentRequest, RestoreRequest, TerminateRequest, TokenRequest,
};
use net::rpc::ranges::{
    HeldSections, KeepReply, KeepRequest, NotRaised, Raise, RaiseRequest, RaiseTo, Raised, RaisedAll, RaisedSections,
    RoutesReply, RoutesRequest, SectionReceipt, SegmentGrant, SegmentRequest, Unserved,
};
use net::rpc::transport;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tarpc::context::Context;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[derive(Default)]
pub(crate) struct Record {
    pub(crate) g: u64,
    pub(crate) owner: Option<SessionId>,
    pub(crate) max_seq: u64,
}

pub(crate) struct State {
    pub(crate) clock: Clock,
    pub(crate) name: GeneratorName,
    pub(crate) networks: Vec<ipnet::IpNet>,
    pub(crate) lease_ms: u32,
    pub(crate) step: u64,
    pub(crate) last: u64,
    pub(crate) records: BTreeMap<u32, Record>,
    /// Allocators in the order in which they came.
    pub(crate) sessions: Vec<(SessionId, ServedAt)>,
    pub(crate) keeps: Vec<(usize, KeepRequest)>,
    pub(crate) raises: usize,
    /// Questions for routes.
    pub(crate) routes: usize,
    /// The first one grants no more than this alone.
    pub(crate) alone_up_to: Option<u64>,
    /// The count of raises that the first one did not grant for that.
    pub(crate) left_to_both: usize,
    /// The second one never answers about bounds.
    pub(crate) mute: bool,
    /// Questions that the second one did not answer, for which nobody waits any more.
    pub(crate) given_up: usize,
    /// The time that each takes for an answer to a keep; `None`: it refuses everything.
    pub(crate) answers: [Option<Duration>; 2],
    /// The number of sections that each lists in one answer.
    pub(crate) page: usize,
    /// The place of the session to which sections without an owner are given; by default of whoever came first.
    pub(crate) heir: usize,
    /// The reason that they give for sections that nobody serves.
    pub(crate) unserved: Option<Unserved>,
}

#[derive(Clone)]
pub(crate) struct Masters(pub(crate) Arc<Mutex<State>>);

#[derive(Clone)]
struct Master {
    at: usize,
    both: Masters,
}

/// Counts a question for whose answer nobody waits any more.
struct GivenUp(Masters);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.with(|state| state.given_up += 1);
    }
}

impl Masters {
    pub(crate) fn new(name: &str, lease_ms: u32, step: u64, last: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            clock: Clock::system(),
            name: name.parse().unwrap(),
            lease_ms,
            step,
            last,
            records: BTreeMap::new(),
            sessions: Vec::new(),
            keeps: Vec::new(),
            raises: 0,
            routes: 0,
            alone_up_to: None,
            left_to_both: 0,
            mute: false,
            given_up: 0,
            answers: [Some(Duration::ZERO); 2],
            page: usize::MAX,
            heir: 0,
            unserved: None,
            networks: vec!["127.0.0.0/8".parse().unwrap()],
        })))
    }

    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }

    /// Their addresses.
    pub(crate) async fn listen(&self) -> Vec<String> {
        let mut addresses = Vec::new();
        for at in 0..2 {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            addresses.push(listener.local_addr().unwrap().to_string());
            let master = Master { at, both: self.clone() };
            let limits = transport::Limits {
                connections_max: 32,
                requests_per_connection_max: 64,
                frame_len_max: transport::FRAME_LEN_MAX,
                memory_max: 64 << 20,
            };
            let bounds = limits.bounds();
            let handle = move |io, _, place: Place| {
                let (master, bounds) = (master.clone(), bounds.clone());
                async move {
                    net::serve_connection!(io, &place, &bounds, master.serve());
                }
            };
            tokio::spawn(transport::accept(listener, Places::new(32), CancellationToken::new(), handle));
        }
        addresses
    }

    /// The allocator at that place, once it has come.
    pub(crate) async fn session(&self, nth: usize) -> SessionId {
        loop {
            if let Some((session, _)) = self.with(|state| state.sessions.get(nth).cloned()) {
                return session;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Gives sections to that allocator.
    pub(crate) fn give(&self, sections: std::ops::Range<u32>, owner: SessionId) {
        self.with(|state| {
            for section in sections {
                let record = state.records.entry(section).or_insert(Record::default());
                (record.g, record.owner) = (record.g + 1, Some(owner));
            }
        });
    }
}

impl State {
    fn route(&self, section: u32) -> Option<Route> {
        let record = self.records.get(&section)?;
        let (_, address) = self.sessions.iter().find(|(session, _)| Some(*session) == record.owner)?;
        let (from, to) = (Section(section), Section(section + 1));
        Some(Route { from, to, address: address.clone(), g: Generation(record.g) })
    }

    /// Sections beside each other of which it came to the same are one part of the answer; all of it is one receipt.
    fn raise_all(&mut self, at: usize, session: SessionId, raise: &Raise) -> Vec<RaisedSections> {
        let mut all: Vec<RaisedSections> = Vec::new();
        for section in raise.sections.from.0..raise.sections.to.0 {
            let (from, to) = (Section(section), Section(section + 1));
            let outcome = self.raise(at, session, section, raise);
            match all.last_mut().filter(|last| last.outcome == outcome) {
                Some(last) => last.to = to,
                None => all.push(RaisedSections { from, to, outcome }),
            }
        }
        all
    }

    fn raise(&mut self, at: usize, session: SessionId, section: u32, raise: &Raise) -> Result<Raised, NotRaised> {
        let record = self.records.get_mut(&section).ok_or(NotRaised::Unknown)?;
        if record.owner != Some(session) || record.g != raise.g.0 {
            return Err(NotRaised::OtherOwner);
        }
        let from = record.max_seq;
        if at == 0 && self.alone_up_to.is_some_and(|last| from >= last) {
            self.left_to_both += 1;
            return Err(NotRaised::Allowance);
        }
        if from >= self.last {
            return Err(NotRaised::UsedUp);
        }
        let to = match raise.to {
            RaiseTo::ByAStep => from + self.step,
            RaiseTo::Number(number) => number.max(from),
        };
        record.max_seq = to.min(self.last);
        Ok(Raised { from, max_seq: record.max_seq, receipt: Some(SectionReceipt([7; 32])) })
    }
}

impl Master {
    fn answers(&self) -> Result<Duration, Refusal> {
        self.both.with(|state| state.answers[self.at]).ok_or(Refusal::Syncing)
    }
}

impl LeaseService for Master {
    async fn enroll(self, _: Context, _: EnrollRequest) -> Result<Enrolled, EnrollRefusal> {
        Err(EnrollRefusal::NoCa("there are no certificates here".to_owned()))
    }

    async fn keep_sections(self, _: Context, request: KeepRequest) -> Result<KeepReply, Refusal> {
        let late = self.answers()?;
        let reply = self.both.with(|state| {
            if !state.sessions.iter().any(|(session, _)| *session == request.session) {
                state.sessions.push((request.session, request.address.clone()));
            }
            state.keeps.push((self.at, request.clone()));
            let ours = state.records.iter().filter(|(_, record)| record.owner == Some(request.session));
            let after = request.after.as_ref().map(|key| key.section.0);
            let ours = ours.filter(|(section, _)| after.is_none_or(|after| **section > after));
            let only = |section: u32| {
                let mut only = request.only.iter();
                request.only.is_empty() || only.any(|range| (range.from.0..range.to.0).contains(&section))
            };
            let ours = ours.filter(|(section, _)| only(**section));
            let mut listed: Vec<HeldSections> = Vec::new();
            for (section, record) in ours {
                let (from, to, g) = (Section(*section), Section(section + 1), Generation(record.g));
                match listed.last_mut().filter(|last| (last.to, last.g) == (from, g)) {
                    Some(last) => last.to = to,
                    None => listed.push(HeldSections { name: state.name.clone(), from, to, g }),
                }
            }
            let mut sections = listed.into_iter();
            let page = sections.by_ref().take(state.page).collect();
            let run = MasterRun(self.at as u128);
            let boot = state.clock.boot();
            KeepReply { lease_ms: state.lease_ms, run, boot, sections: page, more: sections.next().is_some() }
        });
        tokio::time::sleep(late).await;
        Ok(reply)
    }

    async fn raise_sections(self, _: Context, request: RaiseRequest) -> Result<RaisedAll, Refusal> {
        self.answers()?;
        if self.at == 1 && self.both.with(|state| state.mute) {
            let _asked = GivenUp(self.both.clone());
            std::future::pending::<()>().await;
        }
        Ok(self.both.with(|state| {
            state.raises += request.raises.len();
            request.raises.iter().map(|raise| state.raise_all(self.at, request.session, raise)).collect()
        }))
    }

    async fn section_routes(self, _: Context, request: RoutesRequest) -> Result<RoutesReply, Refusal> {
        self.answers()?;
        Ok(self.both.with(|state| {
            state.routes += 1;
            for Section(section) in &request.sections {
                let heir = state.sessions.get(state.heir).map(|(session, _)| *session);
                let record = state.records.entry(*section).or_insert(Record::default());
                if record.owner.is_none() && heir.is_some() {
                    (record.g, record.owner) = (record.g + 1, heir);
                }
            }
            let asked = request.sections.iter().map(|section| section.0);
            let all = request.all_from.into_iter().flat_map(|from| state.records.range(from.0..).map(|(at, _)| *at));
            let mut wanted: Vec<u32> = asked.chain(all).collect();
            wanted.sort_unstable();
            wanted.dedup();
            let routes = wanted.into_iter().filter_map(|at| state.route(at)).collect();
            let networks = state.networks.clone();
            RoutesReply { routes, next: None, unserved: state.unserved.clone(), networks }
        }))
    }

    async fn heartbeat(self, _: Context, request: HeartbeatRequest) -> Result<HeartbeatReply, Refusal> {
        self.answers()?;
        Ok(HeartbeatReply {
            master: if self.at == 0 { MasterId::One } else { MasterId::Two },
            cluster: ClusterId(1),
            parameters: parameters(),
            mode: Mode::Ready,
            wall: Clock::system().wall(),
            ahead: None,
            test_clock: request.test_clock,
            version: String::new(),
            denied: Vec::new(),
            retired: Vec::new(),
            names: 0,
        })
    }

    async fn request_token(self, _: Context, _: TokenRequest) -> Result<Grant, Refusal> {
        Err(Refusal::PeerAway)
    }
    async fn rent_token(self, _: Context, _: RentRequest) -> Result<Rent, Refusal> {
        Err(Refusal::PeerAway)
    }
    async fn list_tokens(self, _: Context, _: ListRequest) -> Result<Vec<ListedLease>, Refusal> {
        Err(Refusal::PeerAway)
    }
    async fn terminate_token(self, _: Context, _: TerminateRequest) -> Result<(), Refusal> {
        Err(Refusal::PeerAway)
    }
    async fn define_namespace(self, _: Context, _: DefineRequest) -> Result<DefineReply, Refusal> {
        Err(Refusal::PeerAway)
    }
    async fn try_namespace(self, _: Context, _: DefineRequest) -> Result<DefineReply, Refusal> {
        Err(Refusal::PeerAway)
    }
    async fn restore_namespace(self, _: Context, _: RestoreRequest) -> Result<Changed, Refusal> {
        Err(Refusal::PeerAway)
    }
    async fn use_namespace(self, _: Context, _: DefineRequest) -> Result<Registered, Refusal> {
        Err(Refusal::PeerAway)
    }
    async fn list_namespaces(self, _: Context, _: NamespacesRequest) -> Result<Vec<Registered>, Refusal> {
        Err(Refusal::PeerAway)
    }
    async fn agent_credentials(self, _: Context, _: CredentialsRequest) -> Result<Option<AgentCredentials>, Refusal> {
        Ok(None)
    }
    async fn find_namespaces(self, _: Context, _: FindRequest) -> Result<Found, Refusal> {
        Err(Refusal::PeerAway)
    }
    async fn request_segment(self, _: Context, _: SegmentRequest) -> Result<SegmentGrant, Refusal> {
        Err(Refusal::PeerAway)
    }
    async fn report(self, _: Context, _: AgentReport) -> Result<u64, Refusal> {
        Ok(60_000)
    }
}
