//! One connection to one master, on which it has introduced itself as one of ours.

use super::{AGE_MAX, Lane, Masters, OPEN_LIMIT, lock};
use crate::minter::Membership;
use crate::timebase::ClockSample;
use common::clock::Clock;
use common::parameters::{ClusterId, ClusterParameters};
use common::time::{Now, SpanMs};
use futures::FutureExt as _;
use net::rpc::PROTOCOL;
use net::rpc::lease::{
    HeartbeatReply, HeartbeatRequest, LeaseServiceClient, LeaseServiceRequest, LeaseServiceResponse, Refusal,
};
use net::rpc::transport;
use net::tls::Admits;
use std::sync::Mutex;
use tarpc::client::NewClient;
use tarpc::{ClientMessage, Response};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

/// Calls in flight on one connection; segments, of which many names may need one at once, leave room for all else.
const IN_FLIGHT_MAX: usize = 64;

/// The reason why a call did not do what it was for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The master answered, with a refusal.
    #[error("{refusal}")]
    Refused { address: String, refusal: Refusal },
    /// The master did not answer, or not as one of ours.
    #[error("{why}")]
    Failed { address: String, why: String },
}

impl CallError {
    /// The address of the master.
    pub(crate) fn address(&self) -> &str {
        match self {
            Self::Refused { address, .. } | Self::Failed { address, .. } => address,
        }
    }

    /// Tells whether the other master may do better.
    pub(crate) fn other_may_help(&self) -> bool {
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

    /// Tells whether only time will help.
    pub(crate) fn is_patient(&self) -> bool {
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

    /// Tells whether the master belongs to another cluster.
    pub(super) fn is_foreign(&self) -> bool {
        matches!(self, Self::Refused { refusal: Refusal::ForeignCluster { .. }, .. })
    }

    /// Tells whether the connection is of no use any more.
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
                    | Refusal::WrongCertificate { .. }
            ),
        }
    }
}

/// A connection on which the master has introduced itself as one of ours.
pub(crate) struct Link {
    pub(super) client: LeaseServiceClient,
    /// The task that sends and receives; its end is that of the connection.
    dispatch: AbortHandle,
    pub(super) cluster: ClusterId,
    pub(super) parameters: ClusterParameters,
    opened: Instant,
    /// The moment of the last answer.
    heard: Mutex<Instant>,
}

/// A master's answer to a heartbeat, with the moments around it.
#[derive(Clone, Debug)]
pub(crate) struct Greeting {
    pub(crate) reply: HeartbeatReply,
    pub(crate) answer: ClockSample,
}

impl Link {
    /// Connects and exchanges the first heartbeat. The masters' cluster is joined if this agent was in none.
    pub(super) async fn open(masters: &Masters, address: &str) -> Result<(Self, Greeting), CallError> {
        let membership = masters.minter.grants().membership();
        let opened = timeout(masters.open_limit(), Self::introduced(masters, address, membership)).await;
        let (link, greeting) = opened.unwrap_or_else(|_| Err(failed(address, "no answer in time")))?;
        let (cluster, parameters) = (link.cluster, link.parameters);
        if membership.cluster.is_none() || membership.parameters.is_none() {
            let joined = masters.minter.in_turn(move |minter| minter.join(cluster, parameters)).await;
            joined.and_then(|joined| joined).map_err(|e| failed(address, e.to_string()))?;
            tracing::info!(%cluster, %parameters, "joined a cluster");
        }
        Ok((link, greeting))
    }

    async fn introduced(
        masters: &Masters,
        address: &str,
        membership: Membership,
    ) -> Result<(Self, Greeting), CallError> {
        let (client, dispatch) = match masters.minter.masters().own() {
            Some(own) => start(own.connect()),
            None => {
                let connected = transport::connect_as(address, &masters.tls, Admits::Masters).await;
                start(connected.map_err(|e| failed(address, format!("cannot connect: {e}")))?)
            }
        };
        let call = async |request| match client.heartbeat(transport::deadline_in(OPEN_LIMIT), request).await {
            Ok(said) => said.map_err(|refusal| refused(address, refusal)),
            Err(why) => Err(failed(
                address,
                format!(
                    "it does not answer as a master does ({why}): is this the --agent-listen address of one, and do both \
                     speak TLS, or neither (--tls-dir, --invitation)?"
                ),
            )),
        };
        let greeting = greet(masters, address, membership, call).await?;
        let HeartbeatReply { cluster, parameters, .. } = greeting.reply;
        let opened = Instant::now();
        let link = Self { client, dispatch, cluster, parameters, opened, heard: Mutex::new(opened) };
        Ok((link, greeting))
    }

    /// Tells whether it may be given to whoever asks for a connection of that lane.
    pub(super) fn lasts(&self, lane: Lane) -> bool {
        self.is_open() && (lane == Lane::Calls || !self.is_old())
    }

    pub(super) fn is_open(&self) -> bool {
        !self.dispatch.is_finished()
    }

    /// Tells whether its address may lead elsewhere by now.
    pub(super) fn is_old(&self) -> bool {
        self.opened.elapsed() >= AGE_MAX
    }

    pub(super) fn heard(&self) -> Instant {
        *lock(&self.heard)
    }

    /// A call was answered.
    pub(super) fn hears(&self) {
        *lock(&self.heard) = Instant::now();
    }

    /// Ends it at once: nothing that was sent and has not arrived will.
    pub(super) fn cut(&self) {
        self.dispatch.abort();
    }
}

/// A client by that transport. What sends and receives runs until there is no client, or until it is aborted.
fn start<T>(transport: T) -> (LeaseServiceClient, AbortHandle)
where
    T: tarpc::Transport<ClientMessage<LeaseServiceRequest>, Response<LeaseServiceResponse>> + Send + 'static,
    T::TransportError: Send + Sync + 'static,
{
    let mut config = tarpc::client::Config::default();
    (config.max_in_flight_requests, config.pending_request_buffer) = (IN_FLIGHT_MAX, IN_FLIGHT_MAX);
    let NewClient { client, dispatch } = LeaseServiceClient::new(config, transport);
    let ended =
        dispatch.map(|ended| ended.unwrap_or_else(|error| tracing::debug!(%error, "a connection to a master broke")));
    (client, tokio::spawn(ended).abort_handle())
}

/// Exchanges a heartbeat by `call`, with a master that has to be of this membership.
pub(super) async fn greet(
    masters: &Masters,
    address: &str,
    membership: Membership,
    call: impl AsyncFnOnce(HeartbeatRequest) -> Result<HeartbeatReply, CallError>,
) -> Result<Greeting, CallError> {
    let clock = masters.minter.time().clock();
    let (sent, began) = clocks(clock);
    let request = HeartbeatRequest {
        protocol: PROTOCOL,
        agent_id: masters.agent_id.clone(),
        session: masters.minter.session().id(),
        cluster: membership.cluster,
        test_clock: clock.test_clock(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        wall: sent.wall,
        retired: masters.retired(),
    };
    let reply = call(request).await?;
    let (received, ended) = clocks(clock);
    ours(&reply, membership).map_err(|refusal| refused(address, refusal))?;
    check(&reply, clock, membership).map_err(|why| failed(address, why))?;
    masters.hear_of_ends(&reply.retired);
    let round_trip = SpanMs(ended.saturating_sub(began));
    let answer = ClockSample { sent, received, round_trip, wall: reply.wall, ahead: reply.ahead };
    Ok(Greeting { reply, answer })
}

/// The clocks as we go by them, and the machine's real time in milliseconds.
fn clocks(clock: Clock) -> (Now, i64) {
    (clock.now(), clock.link_now().boot.0)
}

pub(super) fn failed(address: &str, why: impl Into<String>) -> CallError {
    CallError::Failed { address: address.to_owned(), why: why.into() }
}

pub(super) fn refused(address: &str, refusal: Refusal) -> CallError {
    CallError::Refused { address: address.to_owned(), refusal }
}

/// Tells whether the master that answered is of our cluster. As a rule it says so itself; this is for one that does not.
fn ours(reply: &HeartbeatReply, membership: Membership) -> Result<(), Refusal> {
    match membership.cluster {
        Some(cluster) if cluster != reply.cluster => Err(Refusal::ForeignCluster { here: reply.cluster }),
        _ => Ok(()),
    }
}

/// Tells whether the master that answered goes by our clock and our parameters.
fn check(reply: &HeartbeatReply, clock: Clock, ours: Membership) -> Result<(), String> {
    if reply.test_clock != clock.test_clock() {
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

    use common::calendar::UtcOffset;
    use common::clock::TestClock;
    use common::parameters::MasterId;
    use common::time::WallMs;
    use net::rpc::lease::Mode;

    #[test]
    fn only_masters_of_the_same_cluster_terms_and_clock_are_ours() {
        let parameters = |days| ClusterParameters::new(days, UtcOffset::default(), 4_095).unwrap();
        let clock = Clock::system();
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
        assert_eq!(check(&reply, clock, member), Ok(()));
        let stranger = HeartbeatReply { cluster: ClusterId(2), ..reply.clone() };
        assert_eq!((ours(&reply, member), ours(&stranger, Membership::default())), (Ok(()), Ok(())));
        assert_eq!(ours(&stranger, member), Err(Refusal::ForeignCluster { here: ClusterId(2) }));
        assert_eq!(check(&reply, clock, Membership::default()), Ok(()), "a new session joins whom it meets first");
        for other in [
            HeartbeatReply { parameters: parameters(8), ..reply.clone() },
            HeartbeatReply { test_clock: Some(TestClock { scale: 2, epoch: WallMs(0) }), ..reply },
        ] {
            assert!(check(&other, clock, member).is_err(), "{other:?}");
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
