//! A master that says what a test tells it to.

use super::*;
use net::rpc::enroll::{EnrollRefusal, EnrollRequest, Enrolled};
use net::rpc::lease::{AgentCredentials, CredentialsRequest, NAMESPACES_PAGE_MAX};

/// The answers of a master, and the questions that it was asked.
pub(crate) struct Records {
    pub(super) parameters: ClusterParameters,
    pub(super) grant: Result<u32, Said>,
    pub(super) rent: Result<fn(WallMs) -> Rent, Said>,
    pub(super) requests: Vec<TokenRequest>,
    pub(crate) rents: Vec<RentRequest>,
    pub(super) reports: Vec<AgentReport>,
    pub(crate) finds: Vec<Vec<GeneratorName>>,
    /// Names that were to be taken in use.
    pub(crate) uses: usize,
    /// The calls that have names used before the first of them is answered.
    pub(crate) uses_awaited: usize,
    pub(crate) keys: Option<AgentCredentials>,
    pub(crate) registered: Vec<Registered>,
    pub(crate) retired: Vec<RetiredOnly>,
    pub(crate) restore: Result<(), Said>,
    pub(crate) names: u64,
    pub(crate) cluster: ClusterId,
    pub(super) closing: bool,
    pub(super) denied: Vec<(TokenKey, Generation)>,
    pub(super) id: MasterId,
    /// The lead of its calendar over ours.
    pub(super) ahead: SpanMs,
    pub(crate) heartbeats: u32,
    /// Segments asked for, what is said instead of granting one, the next place, and how many are granted at most.
    pub(super) segments: Vec<SegmentRequest>,
    pub(crate) no_segment: Option<Said>,
    pub(super) place: u64,
    pub(super) granted_max: u64,
    /// Connections that came.
    pub(crate) connections: usize,
    /// True if who asks for segments, or sends heartbeats, is not answered.
    pub(crate) holds_segments: bool,
    pub(crate) holds_heartbeats: bool,
}

#[derive(Clone)]
pub(crate) struct Master(Arc<Mutex<Records>>);

pub(super) fn success(now: WallMs) -> Rent {
    Rent::Success { until: now + SpanMs(20 * DAY_MS), receipt: None }
}

impl Records {
    /// The answer to such a definition.
    fn judge(&self, wanted: &Namespace) -> Result<DefineReply, Said> {
        self.restore.clone()?;
        let known = self.registered.iter().find(|one| one.namespace.name() == wanted.name());
        let outcome = match known {
            Some(one) if one.namespace == *wanted => Ok(Changed::AlreadySo),
            Some(_) => Err(Said::NameTaken),
            None => Ok(Changed::Done),
        };
        Ok(DefineReply { outcome, known: Found { names: Vec::from_iter(known.cloned()), retired: Vec::new() } })
    }
}

/// A name by which IDs are given.
pub(crate) fn in_use(namespace: Namespace) -> Registered {
    Registered { namespace, state: NameState::InUse, proof: Some(NameProof([1; 32])) }
}

impl Master {
    pub(crate) fn new(grant: Result<u32, Said>) -> Self {
        let (requests, rents) = (Vec::new(), Vec::new());
        Self(Arc::new(Mutex::new(Records {
            parameters: parameters(),
            grant,
            rent: Ok(success),
            requests,
            rents,
            reports: Vec::new(),
            finds: Vec::new(),
            uses: 0,
            uses_awaited: 0,
            keys: None,
            registered: Vec::new(),
            retired: Vec::new(),
            restore: Ok(()),
            names: 0,
            cluster: ClusterId(1),
            closing: false,
            denied: Vec::new(),
            id: MasterId::One,
            ahead: SpanMs(0),
            heartbeats: 0,
            segments: Vec::new(),
            no_segment: None,
            place: 1,
            granted_max: u64::MAX,
            connections: 0,
            holds_segments: false,
            holds_heartbeats: false,
        })))
    }

    /// The other one of the two, with its calendar off by as much.
    pub(crate) fn other(ahead: SpanMs) -> Self {
        let master = Self::new(Ok(1));
        master.with(|records| (records.id, records.ahead) = (MasterId::Two, ahead));
        master
    }

    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut Records) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }

    pub(crate) async fn listen(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let master = self.clone();
        let limits = transport::Limits {
            connections_max: 8,
            requests_per_connection_max: 64,
            frame_len_max: transport::FRAME_LEN_MAX,
            memory_max: 64 << 20,
        };
        let bounds = limits.bounds();
        let handle = move |io, _, place: Place| {
            let (master, bounds) = (master.clone(), bounds.clone());
            async move {
                master.with(|records| records.connections += 1);
                net::serve_connection!(io, &place, &bounds, master.serve());
            }
        };
        tokio::spawn(transport::accept(listener, Places::new(8), CancellationToken::new(), handle));
        address
    }
}

impl LeaseService for Master {
    async fn enroll(self, _: tarpc::context::Context, _: EnrollRequest) -> Result<Enrolled, EnrollRefusal> {
        Err(EnrollRefusal::NoCa("there are no certificates here".to_owned()))
    }

    async fn request_token(self, _: Context, request: TokenRequest) -> Result<Grant, Said> {
        let token_type = request.token_type;
        self.with(|records| records.requests.push(request));
        let value = self.with(|records| records.grant.clone())?;
        let from = UtcOffset::default().day_floor(Clock::system().wall());
        let key = token_type.key(TokenValue(value));
        Ok(Grant { token_type, key, g: Generation(1), from, until: from + SpanMs(7 * DAY_MS), receipt: None })
    }

    async fn rent_token(self, _: Context, request: RentRequest) -> Result<Rent, Said> {
        self.with(|records| records.rents.push(request));
        self.with(|records| records.rent.clone()).map(|rent| rent(Clock::system().wall()))
    }

    async fn list_tokens(self, _: Context, _: ListRequest) -> Result<Vec<ListedLease>, Said> {
        Ok(Vec::new())
    }

    async fn terminate_token(self, _: Context, _: TerminateRequest) -> Result<(), Said> {
        Ok(())
    }

    async fn define_namespace(self, _: Context, request: DefineRequest) -> Result<DefineReply, Said> {
        self.with(|records| {
            let mut reply = records.judge(&request.namespace)?;
            if reply.outcome == Ok(Changed::Done) {
                let new = Registered { namespace: request.namespace, state: NameState::Unused, proof: None };
                records.registered.push(new.clone());
                reply.known.names.push(new);
            }
            Ok(reply)
        })
    }

    async fn try_namespace(self, _: Context, request: DefineRequest) -> Result<DefineReply, Said> {
        self.with(|records| records.judge(&request.namespace))
    }

    async fn restore_namespace(self, _: Context, request: RestoreRequest) -> Result<Changed, Said> {
        self.with(|records| match records.restore.clone() {
            Ok(()) => {
                let name = request.shown.namespace.name();
                records.registered.retain(|one| one.namespace.name() != name);
                records.registered.push(request.shown);
                Ok(Changed::Done)
            }
            Err(refusal) => Err(refusal),
        })
    }

    async fn use_namespace(self, _: Context, request: DefineRequest) -> Result<Registered, Said> {
        self.with(|records| records.uses += 1);
        while self.with(|records| records.uses < records.uses_awaited) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.with(|records| {
            let its = |one: &&mut Registered| one.namespace == request.namespace;
            let one = records.registered.iter_mut().find(its).ok_or(Said::NoSuchName)?;
            records.restore.clone()?;
            *one = in_use(request.namespace);
            Ok(one.clone())
        })
    }

    async fn list_namespaces(self, _: Context, request: NamespacesRequest) -> Result<Vec<Registered>, Said> {
        let is_later = |one: &&Registered| request.after.as_ref().is_none_or(|after| one.namespace.name() > after);
        Ok(self.with(|records| {
            records.registered.sort_by(|a, b| a.namespace.name().cmp(b.namespace.name()));
            let living = records.registered.iter().filter(|one| one.state != NameState::Retired).filter(is_later);
            living.take(NAMESPACES_PAGE_MAX).cloned().collect()
        }))
    }

    async fn agent_credentials(
        self,
        _: Context,
        request: CredentialsRequest,
    ) -> Result<Option<AgentCredentials>, Said> {
        Ok(self.with(|records| records.keys.clone().filter(|keys| request.known != keys.version)))
    }

    async fn find_namespaces(self, _: Context, request: FindRequest) -> Result<Found, Said> {
        let names = request.names.clone();
        self.with(|records| records.finds.push(request.names));
        let known = self.with(|records| records.registered.clone());
        let retired = self.with(|records| records.retired.clone());
        Ok(Found {
            names: known.into_iter().filter(|one| names.contains(one.namespace.name())).collect(),
            retired: retired.into_iter().filter(|one| names.contains(&one.name)).collect(),
        })
    }

    async fn request_segment(self, _: Context, request: SegmentRequest) -> Result<SegmentGrant, Said> {
        if self.with(|records| records.holds_segments) {
            std::future::pending::<()>().await;
        }
        self.with(|records| {
            let wanted = u64::from(request.wanted).min(records.granted_max);
            records.segments.push(request);
            if let Some(refusal) = &records.no_segment {
                return Err(refusal.clone());
            }
            let from = records.place;
            records.place += wanted;
            Ok(SegmentGrant { span: Span { from, to: records.place }, proof: Some([7; 32]) })
        })
    }

    async fn keep_sections(self, _: Context, _: KeepRequest) -> Result<KeepReply, Said> {
        Err(Said::PeerAway)
    }

    async fn raise_sections(self, _: Context, _: RaiseRequest) -> Result<RaisedAll, Said> {
        Err(Said::PeerAway)
    }

    async fn section_routes(self, _: Context, _: RoutesRequest) -> Result<RoutesReply, Said> {
        Err(Said::PeerAway)
    }

    async fn report(self, _: Context, report: AgentReport) -> Result<u64, Said> {
        self.with(|records| {
            records.reports.push(report);
            if records.closing { Err(Said::ShuttingDown) } else { Ok(5_000) }
        })
    }

    async fn heartbeat(self, _: Context, _: HeartbeatRequest) -> Result<HeartbeatReply, Said> {
        if self.with(|records| records.holds_heartbeats) {
            std::future::pending::<()>().await;
        }
        Ok(HeartbeatReply {
            names: self.with(|records| records.names),
            master: self.with(|records| records.id),
            cluster: self.with(|records| records.cluster),
            parameters: self.with(|records| records.parameters),
            mode: Mode::Ready,
            wall: self.with(|records| {
                records.heartbeats += 1;
                Clock::system().wall() + records.ahead
            }),
            ahead: None,
            test_clock: None,
            version: String::new(),
            denied: self.with(|records| records.denied.clone()),
            retired: Vec::new(),
        })
    }
}
