//! One connection to one master: the introduction, and calls that end in time.

use super::strangers;
use crate::minter::{Membership, Minter};
use crate::timebase::Answer;
use common::clock::Clock;
use common::lease::{Grant, Receipt};
use common::namespace::{GeneratorName, Namespace};
use common::parameters::{AgentId, ClusterId, ClusterParameters, SessionId};
use common::rpc::PROTOCOL;
use common::rpc::lease::{
    AgentReport, Changed, DefineRequest, FindRequest, Found, HeartbeatReply, HeartbeatRequest, LeaseServiceClient,
    NamespacesRequest, RETIRED_MAX, Refusal, Registered, Rent, RentRequest, RestoreRequest, RetiredProof, TokenRequest,
};
use common::rpc::ranges::{KeepReply, KeepRequest, NotRaised, RaiseRequest, Raised, RoutesReply, RoutesRequest};
use common::rpc::ranges::{SegmentGrant, SegmentRequest};
use common::rpc::transport;
use common::segment::Shown;
use common::time::{Now, SpanMs};
use std::sync::Arc;
use std::time::Duration;

/// How long a call may take; a grant that both masters must confirm takes up to three seconds.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long beyond that we wait for the library to notice.
const CALL_SLACK: Duration = Duration::from_secs(1);
/// Calls in flight on one connection: one for all but segments, of which many names may need one at once.
const IN_FLIGHT_MAX: usize = 64;

/// Who calls.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) agent_id: AgentId,
    pub(crate) session: SessionId,
    pub(crate) clock: Clock,
    /// What any master said about pairings that are over, for those that have not heard of it.
    pub(crate) retired: Vec<RetiredProof>,
}

impl Caller {
    /// Keeps what a master said; the newest at the end, the oldest forgotten.
    pub(super) fn hear_of_ends(&mut self, retired: &[RetiredProof]) {
        for proof in retired.iter().take(RETIRED_MAX).rev() {
            self.retired.retain(|known| known != proof);
            self.retired.push(*proof);
        }
        let surplus = self.retired.len().saturating_sub(RETIRED_MAX);
        self.retired.drain(..surplus);
    }
}

/// Why a call did not do what it was for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The master answered, with a refusal.
    #[error("{refusal}")]
    Refused { address: String, refusal: Refusal },
    /// It did not answer, or not as a master of ours.
    #[error("{why}")]
    Failed { address: String, why: String },
}

impl CallError {
    /// Which master it is about.
    pub(crate) fn address(&self) -> &str {
        match self {
            Self::Refused { address, .. } | Self::Failed { address, .. } => address,
        }
    }

    /// Whether the other master may do better.
    pub(super) fn other_may_help(&self) -> bool {
        match self {
            Self::Failed { .. } => true,
            Self::Refused { refusal, .. } => !matches!(
                refusal,
                Refusal::Retry
                    | Refusal::Budget { .. }
                    | Refusal::NetworkShare { .. }
                    | Refusal::NetworkRate { .. }
                    | Refusal::Kept { .. }
            ),
        }
    }

    /// Whether only time will help.
    pub(super) fn is_patient(&self) -> bool {
        let Self::Refused { refusal, .. } = self else { return false };
        matches!(
            refusal,
            Refusal::Budget { .. }
                | Refusal::PoolExhausted { .. }
                | Refusal::NetworkShare { .. }
                | Refusal::NetworkRate { .. }
                | Refusal::Kept { .. }
        )
    }

    /// Whether the connection is of no use any more.
    pub(crate) fn ends_connection(&self) -> bool {
        match self {
            Self::Failed { .. } => true,
            Self::Refused { refusal, .. } => matches!(
                refusal,
                Refusal::ForeignCluster { .. }
                    | Refusal::Protocol { .. }
                    | Refusal::TestClock
                    | Refusal::ShuttingDown
                    // Told anew when the next one is opened, where minting is told of it.
                    | Refusal::NotAllowed
            ),
        }
    }
}

/// A connection on which the master has introduced itself as one of ours.
pub(crate) struct Link {
    client: LeaseServiceClient,
    pub(super) address: String,
    cluster: ClusterId,
    pub(super) parameters: ClusterParameters,
}

/// A master's answer to a heartbeat, with the moments around it.
pub(crate) struct Greeting {
    pub(super) reply: HeartbeatReply,
    pub(super) answer: Answer,
}

impl Link {
    /// Connects and exchanges the first heartbeat. The caller's cluster is joined if it had none. Minting is told of which
    /// cluster the master is.
    pub(crate) async fn open(
        address: &str,
        caller: &Caller,
        minter: &Arc<Minter>,
    ) -> Result<(Self, Greeting), CallError> {
        let opened = Self::try_open(address, caller, minter).await;
        strangers::note(address, minter, &opened).await;
        opened
    }

    async fn try_open(address: &str, caller: &Caller, minter: &Arc<Minter>) -> Result<(Self, Greeting), CallError> {
        let failed = |why: String| CallError::Failed { address: address.to_owned(), why };
        let client = match minter.own_masters() {
            Some(own) => own.connect(),
            None => connect(address).await.map_err(|e| failed(format!("cannot connect: {e}")))?,
        };
        let membership = minter.membership();
        let greeting = greet(&client, address, caller, membership.cluster).await.map_err(|error| match error {
            CallError::Failed { why, .. } => failed(format!(
                "it does not answer as a master does ({why}): is this the --agent-listen address of one?"
            )),
            refused => refused,
        })?;
        ours(&greeting.reply, membership).map_err(|refusal| refused(address, refusal))?;
        check(&greeting.reply, caller, membership).map_err(failed)?;
        let (cluster, parameters) = (greeting.reply.cluster, greeting.reply.parameters);
        if membership.cluster.is_none() || membership.parameters.is_none() {
            let joined = minter.in_turn(move |minter| minter.join(cluster, parameters)).await;
            joined.and_then(|joined| joined).map_err(|e| failed(e.to_string()))?;
            tracing::info!(%cluster, %parameters, "joined a cluster");
        }
        Ok((Self { client, address: address.to_owned(), cluster, parameters }, greeting))
    }

    pub(super) async fn heartbeat(&self, caller: &Caller) -> Result<Greeting, CallError> {
        let greeting = greet(&self.client, &self.address, caller, Some(self.cluster)).await?;
        let membership = Membership { cluster: Some(self.cluster), parameters: Some(self.parameters) };
        ours(&greeting.reply, membership).map_err(|refusal| refused(&self.address, refusal))?;
        check(&greeting.reply, caller, membership).map_err(|why| self.failed(why))?;
        Ok(greeting)
    }

    pub(super) async fn request(
        &self,
        caller: &Caller,
        token_type: common::token::TokenType,
        former: Vec<SessionId>,
    ) -> Result<Grant, CallError> {
        let request = TokenRequest {
            agent_id: caller.agent_id.clone(),
            session: caller.session,
            cluster: Some(self.cluster),
            token_type,
            former,
        };
        let call = self.client.request_token(transport::deadline_in(CALL_TIMEOUT), request);
        in_time(&self.address, call).await
    }

    pub(super) async fn renew(
        &self,
        caller: &Caller,
        (key, g): (common::token::TokenKey, common::lease::Generation),
        renewal: crate::holder::Renewal,
        receipt: Option<Receipt>,
    ) -> Result<Rent, CallError> {
        let request = RentRequest {
            agent_id: caller.agent_id.clone(),
            session: caller.session,
            cluster: Some(self.cluster),
            key,
            g,
            rseq: renewal.rseq,
            attempt: renewal.attempt,
            receipt,
        };
        let call = self.client.rent_token(transport::deadline_in(CALL_TIMEOUT), request);
        in_time(&self.address, call).await
    }

    pub(super) async fn define(&self, caller: &Caller, namespace: Namespace) -> Result<Changed, CallError> {
        let request = DefineRequest { agent_id: caller.agent_id.clone(), cluster: Some(self.cluster), namespace };
        in_time(&self.address, self.client.define_namespace(transport::deadline_in(CALL_TIMEOUT), request)).await
    }

    pub(super) async fn restore(&self, caller: &Caller, shown: Registered) -> Result<Changed, CallError> {
        let request = RestoreRequest { agent_id: caller.agent_id.clone(), cluster: Some(self.cluster), shown };
        in_time(&self.address, self.client.restore_namespace(transport::deadline_in(CALL_TIMEOUT), request)).await
    }

    pub(super) async fn use_namespace(&self, caller: &Caller, namespace: Namespace) -> Result<Registered, CallError> {
        let request = DefineRequest { agent_id: caller.agent_id.clone(), cluster: Some(self.cluster), namespace };
        in_time(&self.address, self.client.use_namespace(transport::deadline_in(CALL_TIMEOUT), request)).await
    }

    pub(super) async fn namespaces_after(&self, after: Option<GeneratorName>) -> Result<Vec<Registered>, CallError> {
        let request = NamespacesRequest { cluster: Some(self.cluster), after };
        in_time(&self.address, self.client.list_namespaces(transport::deadline_in(CALL_TIMEOUT), request)).await
    }

    /// Those of some names that are registered.
    pub(super) async fn find_namespaces(&self, names: Vec<GeneratorName>) -> Result<Found, CallError> {
        let request = FindRequest { cluster: Some(self.cluster), names };
        in_time(&self.address, self.client.find_namespaces(transport::deadline_in(CALL_TIMEOUT), request)).await
    }

    /// A further segment of up to `wanted` numbers of a name, for the call that asks for it; with 0 it is only shown that those before `seen`
    /// were granted.
    pub(super) async fn request_segment(
        &self,
        caller: &Caller,
        name: GeneratorName,
        wanted: u32,
        seen: Shown,
    ) -> Result<SegmentGrant, CallError> {
        let request = SegmentRequest {
            agent_id: caller.agent_id.clone(),
            session: caller.session,
            cluster: Some(self.cluster),
            name,
            wanted,
            seen,
        };
        in_time(&self.address, self.client.request_segment(transport::deadline_in(CALL_TIMEOUT), request)).await
    }

    /// Says how we fare, and hears after how many milliseconds to say it again.
    pub(super) async fn report(&self, mut report: AgentReport) -> Result<u64, CallError> {
        report.cluster = Some(self.cluster);
        in_time(&self.address, self.client.report(transport::deadline_in(CALL_TIMEOUT), report)).await
    }

    /// Keeps this session's sections. The cluster is this connection's. An answer that takes longer than `limit` is worth nothing.
    pub(crate) async fn keep_sections(
        &self,
        mut request: KeepRequest,
        limit: Duration,
    ) -> Result<KeepReply, CallError> {
        request.cluster = Some(self.cluster);
        in_time(&self.address, self.client.keep_sections(transport::deadline_in(limit), request)).await
    }

    /// Raises bounds of this session's sections; an answer for each, in the same order.
    pub(crate) async fn raise_sections(
        &self,
        mut request: RaiseRequest,
    ) -> Result<Vec<Result<Raised, NotRaised>>, CallError> {
        request.cluster = Some(self.cluster);
        let wanted = request.raises.len();
        let raised = self.client.raise_sections(transport::deadline_in(CALL_TIMEOUT), request);
        let raised = in_time(&self.address, raised).await?;
        if raised.len() != wanted {
            return Err(self.failed(format!("it answered {} raises of {wanted}", raised.len())));
        }
        Ok(raised)
    }

    /// Who serves which sections.
    pub(crate) async fn section_routes(&self, mut request: RoutesRequest) -> Result<RoutesReply, CallError> {
        request.cluster = Some(self.cluster);
        in_time(&self.address, self.client.section_routes(transport::deadline_in(CALL_TIMEOUT), request)).await
    }

    pub(super) fn failed(&self, why: String) -> CallError {
        CallError::Failed { address: self.address.clone(), why }
    }
}

async fn connect(address: &str) -> std::io::Result<LeaseServiceClient> {
    let transport = transport::connect(address).await?;
    let mut config = tarpc::client::Config::default();
    (config.max_in_flight_requests, config.pending_request_buffer) = (IN_FLIGHT_MAX, IN_FLIGHT_MAX);
    Ok(LeaseServiceClient::new(config, transport).spawn())
}

async fn greet(
    client: &LeaseServiceClient,
    address: &str,
    caller: &Caller,
    cluster: Option<ClusterId>,
) -> Result<Greeting, CallError> {
    let (sent, began) = clocks(caller.clock);
    let request = HeartbeatRequest {
        protocol: PROTOCOL,
        agent_id: caller.agent_id.clone(),
        session: caller.session,
        cluster,
        test_clock: caller.clock.test_clock(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        wall: sent.wall,
        retired: caller.retired.clone(),
    };
    let reply = in_time(address, client.heartbeat(transport::deadline_in(CALL_TIMEOUT), request)).await?;
    let (received, ended) = clocks(caller.clock);
    let round_trip = SpanMs(ended.saturating_sub(began));
    let answer = Answer { sent, received, round_trip, wall: reply.wall, ahead: reply.ahead };
    Ok(Greeting { reply, answer })
}

/// The clocks as we go by them, and the machine's real time in milliseconds.
fn clocks(clock: Clock) -> (Now, i64) {
    (clock.now(), clock.link_now().boot.0)
}

async fn in_time<T>(
    address: &str,
    call: impl Future<Output = Result<Result<T, Refusal>, tarpc::client::RpcError>>,
) -> Result<T, CallError> {
    let failed = |why: String| CallError::Failed { address: address.to_owned(), why };
    match tokio::time::timeout(CALL_TIMEOUT + CALL_SLACK, call).await {
        Err(_) => Err(failed("no answer in time".to_owned())),
        Ok(Err(e)) => Err(failed(e.to_string())),
        Ok(Ok(Err(refusal))) => Err(CallError::Refused { address: address.to_owned(), refusal }),
        Ok(Ok(Ok(value))) => Ok(value),
    }
}

fn refused(address: &str, refusal: Refusal) -> CallError {
    CallError::Refused { address: address.to_owned(), refusal }
}

/// Whether the master that answered is of our cluster. As a rule it says so itself; this is for one that does not.
fn ours(reply: &HeartbeatReply, membership: Membership) -> Result<(), Refusal> {
    match membership.cluster {
        Some(cluster) if cluster != reply.cluster => Err(Refusal::ForeignCluster { here: reply.cluster }),
        _ => Ok(()),
    }
}

/// Whether the master that answered goes by our clock and our parameters.
fn check(reply: &HeartbeatReply, caller: &Caller, ours: Membership) -> Result<(), String> {
    if reply.test_clock != caller.clock.test_clock() {
        return Err("it runs by another --test-clock".to_owned());
    }
    match ours.parameters {
        Some(parameters) if parameters != reply.parameters => {
            Err(format!("its parameters are {}, ours are {parameters}", reply.parameters))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_pairings_are_kept_once_and_the_newest_ones() {
        let clock = Clock::system();
        let mut caller = Caller { agent_id: "a".parse().unwrap(), session: SessionId(1), clock, retired: Vec::new() };
        let proof = |n| RetiredProof([n; 32]);
        // A master names the last one first.
        caller.hear_of_ends(&[proof(2), proof(1)]);
        caller.hear_of_ends(&[proof(2), proof(1)]);
        assert_eq!(caller.retired, [proof(1), proof(2)]);
        caller.hear_of_ends(&[proof(6), proof(5), proof(4), proof(3), proof(9)]);
        assert_eq!(caller.retired, [proof(3), proof(4), proof(5), proof(6)]);
    }
    use common::calendar::UtcOffset;
    use common::clock::TestClock;
    use common::parameters::MasterId;
    use common::rpc::lease::Mode;
    use common::time::WallMs;

    #[test]
    fn only_masters_of_the_same_cluster_terms_and_clock_are_ours() {
        let parameters = |days| ClusterParameters::new(days, UtcOffset::default(), 4_095).unwrap();
        let caller = Caller {
            agent_id: "a".parse().unwrap(),
            session: SessionId(1),
            clock: Clock::system(),
            retired: Vec::new(),
        };
        let reply = HeartbeatReply {
            master: MasterId::One,
            cluster: ClusterId(1),
            parameters: parameters(7),
            mode: Mode::Ready,
            wall: WallMs(0),
            ahead: None,
            test_clock: None,
            version: String::new(),
            denied: Vec::new(),
            retired: Vec::new(),
            names: 0,
        };
        let member = Membership { cluster: Some(ClusterId(1)), parameters: Some(parameters(7)) };
        assert_eq!(check(&reply, &caller, member), Ok(()));
        let stranger = HeartbeatReply { cluster: ClusterId(2), ..reply.clone() };
        assert_eq!((ours(&reply, member), ours(&stranger, Membership::default())), (Ok(()), Ok(())));
        assert_eq!(ours(&stranger, member), Err(Refusal::ForeignCluster { here: ClusterId(2) }));
        assert_eq!(check(&reply, &caller, Membership::default()), Ok(()), "a new session joins whom it meets first");
        for other in [
            HeartbeatReply { parameters: parameters(8), ..reply.clone() },
            HeartbeatReply { test_clock: Some(TestClock { scale: 2, epoch: WallMs(0) }), ..reply },
        ] {
            assert!(check(&other, &caller, member).is_err(), "{other:?}");
        }
    }

    #[test]
    fn refusals_say_where_to_go_on() {
        let refused = |refusal| CallError::Refused { address: String::new(), refusal };
        assert!(refused(Refusal::PeerAway).other_may_help() && !refused(Refusal::PeerAway).ends_connection());
        assert!(!refused(Refusal::Retry).other_may_help());
        assert!(refused(Refusal::ShuttingDown).ends_connection());
        assert!(refused(Refusal::PoolExhausted { token_type: common::token::TokenType::Uint2 }).is_patient());
    }
}
