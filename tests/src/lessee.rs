//! An agent's side of `LeaseService`, without the agent: who it is, and the calls it makes over the real transport.

use crate::cluster::PATIENCE;
use anyhow::{Result, bail};
use common::clock::TestClock;
use common::lease::{Generation, Grant};
use common::parameters::{AgentId, SessionId};
use common::token::{TokenKey, TokenType};
use net::rpc::PROTOCOL;
use net::rpc::lease::{
    AgentReport, HeartbeatReply, HeartbeatRequest, LeaseServiceClient, ListRequest, ListedLease, Refusal, Rent,
    RentRequest, RetiredProof, TerminateRequest, TokenRequest, report_interval_ms,
};
use net::rpc::transport;
use net::tls::{Admits, Tls};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The longest time that one call may take.
pub const CALL_MAX: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

/// The one who asks.
#[derive(Clone, Debug)]
pub struct Lessee {
    /// The name.
    pub agent_id: AgentId,
    /// The session.
    pub session: SessionId,
    /// The clock it says it runs by.
    pub test_clock: Option<TestClock>,
    /// Its certificate, if masters ask for one.
    pub tls: Tls,
}

impl Lessee {
    /// A new session for this name.
    ///
    /// # Errors
    /// If it is not an agent's name.
    pub fn new(agent_id: &str) -> Result<Self> {
        Ok(Self { agent_id: agent_id.parse()?, session: SessionId(rand::random()), test_clock: None, tls: Tls::PLAIN })
    }

    /// A connection to a master over plain TCP.
    ///
    /// # Errors
    /// If there is none to be had.
    pub async fn connect(master: SocketAddr) -> Result<LeaseServiceClient> {
        Self::connect_by(&Tls::PLAIN, master).await
    }

    /// A connection to a master, with its certificate if it has one.
    ///
    /// # Errors
    /// If there is none to be had.
    pub async fn connect_by(tls: &Tls, master: SocketAddr) -> Result<LeaseServiceClient> {
        let transport = transport::connect_as(&master.to_string(), tls, Admits::Masters).await?;
        Ok(LeaseServiceClient::new(tarpc::client::Config::default(), transport).spawn())
    }

    /// The first call on every connection.
    ///
    /// # Errors
    /// If the call fails; a refusal is an answer.
    pub async fn heartbeat(&self, master: &LeaseServiceClient) -> Result<Result<HeartbeatReply, Refusal>> {
        self.heartbeat_with(master, Vec::new()).await
    }

    /// The same, with what was heard about pairings that are over.
    ///
    /// # Errors
    /// If the call fails; a refusal is an answer.
    pub async fn heartbeat_with(
        &self,
        master: &LeaseServiceClient,
        retired: Vec<RetiredProof>,
    ) -> Result<Result<HeartbeatReply, Refusal>> {
        let request = HeartbeatRequest {
            protocol: PROTOCOL,
            agent_id: self.agent_id.clone(),
            session: self.session,
            cluster: None,
            test_clock: self.test_clock,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            wall: common::clock::Clock::system().wall(),
            retired,
        };
        Ok(master.heartbeat(transport::deadline_in(CALL_MAX), request).await?)
    }

    /// Reports how it fares until then, as often as the master wants it among so many, first after `phase` (0..1) of that;
    /// how often that was.
    ///
    /// # Errors
    /// If a call fails or is refused.
    pub async fn tell_until(
        self,
        master: LeaseServiceClient,
        until: tokio::time::Instant,
        among: usize,
        phase: f64,
    ) -> Result<u64> {
        let interval = Duration::from_millis(report_interval_ms(among));
        let mut due = tokio::time::Instant::now() + interval.mul_f64(phase);
        let mut reports = 0;
        while due < until {
            tokio::time::sleep_until(due).await;
            let report = AgentReport {
                cluster: None,
                agent_id: self.agent_id.clone(),
                session: self.session,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                fresh_because: None,
                uptime_ms: reports * 1_000,
                clock_offset_ms: 0,
                not_ready: None,
                alarm: None,
                stops: false,
                minted: reports * 1_000_000,
                scarcest: None,
                names: Vec::new(),
            };
            let wait_ms = master.report(transport::deadline_in(CALL_MAX), report).await??;
            due = tokio::time::Instant::now() + Duration::from_millis(wait_ms);
            reports += 1;
        }
        tokio::time::sleep_until(until).await;
        Ok(reports)
    }

    /// Asks one master for a token, once.
    ///
    /// # Errors
    /// If the call fails; a refusal is an answer.
    pub async fn request(&self, master: &LeaseServiceClient, kind: TokenType) -> Result<Result<Grant, Refusal>> {
        self.request_instead_of(master, kind, Vec::new()).await
    }

    /// The same, giving up former sessions.
    ///
    /// # Errors
    /// If the call fails; a refusal is an answer.
    pub async fn request_instead_of(
        &self,
        master: &LeaseServiceClient,
        token_type: TokenType,
        former: Vec<SessionId>,
    ) -> Result<Result<Grant, Refusal>> {
        let (agent_id, session) = (self.agent_id.clone(), self.session);
        let request = TokenRequest { agent_id, session, cluster: None, token_type, former };
        Ok(master.request_token(transport::deadline_in(CALL_MAX), request).await?)
    }

    /// Asks for a token until one comes, as an agent does: another master at once after a failure or a refusal that
    /// may pass.
    ///
    /// # Errors
    /// If a refusal is final, or nothing came within [`PATIENCE`].
    pub async fn obtain(&self, masters: [SocketAddr; 2], kind: TokenType) -> Result<Grant> {
        let began = Instant::now();
        let mut last = "no answer".to_owned();
        for master in masters.into_iter().cycle() {
            if began.elapsed() > PATIENCE {
                bail!("{} got no token within {PATIENCE:?}; last: {last}", self.agent_id);
            }
            match self.try_at(master, kind).await {
                Ok(Ok(grant)) => return Ok(grant),
                Ok(Err(refusal)) if may_pass(&refusal) => last = refusal.to_string(),
                Ok(Err(refusal)) => bail!("{} was refused: {refusal}", self.agent_id),
                Err(e) => last = format!("{e:#}"),
            }
            tokio::time::sleep(PAUSE).await;
        }
        bail!("no master to ask")
    }

    async fn try_at(&self, master: SocketAddr, kind: TokenType) -> Result<Result<Grant, Refusal>> {
        let master = Self::connect_by(&self.tls, master).await?;
        if let Err(refusal) = self.heartbeat(&master).await? {
            return Ok(Err(refusal));
        }
        self.request(&master, kind).await
    }

    /// Gives a lease back; nobody can renew it any more.
    ///
    /// # Errors
    /// If the call fails or is refused.
    pub async fn terminate(&self, master: SocketAddr, key: TokenKey, g: Generation) -> Result<()> {
        let master = Self::connect_by(&self.tls, master).await?;
        self.heartbeat(&master).await??;
        let request = TerminateRequest { agent_id: self.agent_id.clone(), session: self.session, key, g };
        Ok(master.terminate_token(transport::deadline_in(CALL_MAX), request).await??)
    }

    /// Renews a lease at one master, once.
    ///
    /// # Errors
    /// If the call fails; a refusal is an answer.
    pub async fn renew(&self, master: &LeaseServiceClient, grant: &Grant, rseq: u64) -> Result<Result<Rent, Refusal>> {
        let request = RentRequest {
            agent_id: self.agent_id.clone(),
            session: self.session,
            cluster: None,
            key: grant.key,
            g: grant.g,
            rseq,
            attempt: rand::random(),
            receipt: grant.receipt,
        };
        Ok(master.rent_token(transport::deadline_in(CALL_MAX), request).await?)
    }

    /// The leases that a master has on record for this session.
    ///
    /// # Errors
    /// If the call fails or is refused.
    pub async fn list(&self, master: SocketAddr) -> Result<Vec<ListedLease>> {
        let master = Self::connect_by(&self.tls, master).await?;
        self.heartbeat(&master).await??;
        self.listed(&master).await
    }

    /// The same over a connection on which a heartbeat was sent.
    ///
    /// # Errors
    /// If the call fails or is refused.
    pub async fn listed(&self, master: &LeaseServiceClient) -> Result<Vec<ListedLease>> {
        let request = ListRequest { agent_id: self.agent_id.clone(), session: self.session, after: None };
        Ok(master.list_tokens(transport::deadline_in(CALL_MAX), request).await??)
    }
}

fn may_pass(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::Syncing | Refusal::PeerAway | Refusal::Retry | Refusal::Overloaded | Refusal::ShuttingDown
    )
}
