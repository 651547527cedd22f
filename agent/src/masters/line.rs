//! Calls to a master, each of which ends in time.

use super::link::{CallError, Greeting, Link, failed, greet, refused};
use super::{Lane, Master, Masters, notes};
use crate::holder::Renewal;
use crate::minter::Membership;
use common::lease::{Generation, Grant, Receipt};
use common::namespace::{GeneratorName, Namespace};
#[cfg(feature = "server")]
use common::parameters::ClusterId;
use common::parameters::{AgentId, ClusterParameters, SessionId};
use common::segment::Shown;
use common::token::{TokenKey, TokenType};
#[cfg(feature = "server")]
use net::rpc::lease::{AgentCredentials, CredentialsRequest, CredentialsVersion};
use net::rpc::lease::{
    AgentReport, Changed, DefineReply, DefineRequest, FindRequest, Found, NamespacesRequest, Refusal, Registered, Rent,
    RentRequest, RestoreRequest, TokenRequest,
};
use net::rpc::ranges::{
    KeepReply, KeepRequest, RaiseRequest, RaisedAll, RoutesReply, RoutesRequest, SegmentGrant, SegmentRequest,
};
use net::rpc::transport;
use std::sync::Arc;
use std::time::Duration;
use tarpc::client::RpcError;
use tarpc::context::Context;
use tokio::time::{Instant, timeout};

/// A way to one master, on which each call has the same time.
#[derive(Clone)]
pub(crate) struct Line {
    pub(super) masters: Arc<Masters>,
    pub(super) master: Arc<Master>,
    /// The place of the master.
    pub(crate) at: usize,
    pub(super) lane: Lane,
    pub(super) link: Arc<Link>,
    pub(super) limit: Duration,
    /// The introduction, for those that waited for it.
    pub(super) introduced: Option<Greeting>,
}

/// A call that cuts its connection unless it is answered, also if whoever waits for it gives up.
struct Unanswered<'a>(Option<&'a Line>);

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(line) = self.0 {
            line.retire();
            line.link.cut();
        }
    }
}

impl Line {
    /// Tells whether both are by one connection.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.link, &other.link)
    }

    /// Tells whether calls can still be answered on it, even if nobody else is given it any more.
    pub(crate) fn is_open(&self) -> bool {
        self.link.is_open()
    }

    /// Tells whether its address may lead elsewhere by now.
    pub(crate) fn is_old(&self) -> bool {
        self.link.is_old()
    }

    pub(crate) fn address(&self) -> &str {
        &self.master.address
    }

    pub(crate) fn parameters(&self) -> &ClusterParameters {
        &self.link.parameters
    }

    /// The error that the master is of no use, for that reason; nobody gets this connection any more.
    pub(crate) fn failed(&self, why: impl Into<String>) -> CallError {
        self.retire();
        failed(self.address(), why)
    }

    pub(crate) fn refused(&self, refusal: Refusal) -> CallError {
        refused(self.address(), refusal)
    }

    /// The introduction, if this is the first to be told of it, and otherwise a heartbeat.
    pub(crate) async fn introduction(&mut self) -> Result<Greeting, CallError> {
        match self.introduced.take() {
            Some(greeting) => Ok(greeting),
            None => self.heartbeat().await,
        }
    }

    pub(crate) async fn heartbeat(&self) -> Result<Greeting, CallError> {
        let membership = Membership { cluster: Some(self.link.cluster), parameters: Some(self.link.parameters) };
        let call = async |request| self.within(self.link.client.heartbeat(self.context(), request)).await;
        let greeting = greet(&self.masters, self.address(), membership, call).await;
        match &greeting {
            Ok(_) => self.masters.minter.masters().hear_whitelist(self.address(), true),
            Err(why) => self.ended(why).await,
        }
        greeting
    }

    pub(crate) async fn request_token(
        &self,
        token_type: TokenType,
        former: Vec<SessionId>,
    ) -> Result<Grant, CallError> {
        let (agent_id, session) = self.caller();
        let request = TokenRequest { agent_id, session, cluster: Some(self.link.cluster), token_type, former };
        self.within(self.link.client.request_token(self.context(), request)).await
    }

    /// Renews a lease. If no answer comes the connection is cut, whoever else has calls on it: after a cut of the network the kernel would
    /// deliver a renewal that was long since made at the other master and followed by further ones, and that looks like a second live copy
    /// of the agent.
    pub(crate) async fn renew(
        &self,
        (key, g): (TokenKey, Generation),
        renewal: Renewal,
        receipt: Option<Receipt>,
    ) -> Result<Rent, CallError> {
        let (agent_id, session) = self.caller();
        let (cluster, Renewal { rseq, attempt }) = (Some(self.link.cluster), renewal);
        let request = RentRequest { agent_id, session, cluster, key, g, rseq, attempt, receipt };
        self.within_or_cut(self.link.client.rent_token(self.context(), request)).await
    }

    /// Registers a name for that caller, or with `dry_run` only asks what would come of that.
    pub(crate) async fn define(
        &self,
        caller: String,
        namespace: Namespace,
        dry_run: bool,
    ) -> Result<DefineReply, CallError> {
        let (agent_id, cluster, caller) = (self.caller().0, Some(self.link.cluster), Some(caller));
        let request = DefineRequest { agent_id, cluster, caller, namespace };
        if dry_run {
            return self.within(self.link.client.try_namespace(self.context(), request)).await;
        }
        self.within(self.link.client.define_namespace(self.context(), request)).await
    }

    pub(crate) async fn restore(&self, shown: Registered) -> Result<Changed, CallError> {
        let request = RestoreRequest { agent_id: self.caller().0, cluster: Some(self.link.cluster), shown };
        self.within(self.link.client.restore_namespace(self.context(), request)).await
    }

    pub(crate) async fn use_namespace(&self, namespace: Namespace) -> Result<Registered, CallError> {
        let (agent_id, cluster, caller) = (self.caller().0, Some(self.link.cluster), None);
        let request = DefineRequest { agent_id, cluster, caller, namespace };
        self.within(self.link.client.use_namespace(self.context(), request)).await
    }

    pub(crate) async fn namespaces_after(&self, after: Option<GeneratorName>) -> Result<Vec<Registered>, CallError> {
        let request = NamespacesRequest { cluster: Some(self.link.cluster), after };
        self.within(self.link.client.list_namespaces(self.context(), request)).await
    }

    /// Finds those of some names that are registered.
    pub(crate) async fn find_namespaces(&self, names: Vec<GeneratorName>) -> Result<Found, CallError> {
        let request = FindRequest { cluster: Some(self.link.cluster), names };
        self.within(self.link.client.find_namespaces(self.context(), request)).await
    }

    /// The API keys for agents, if they are others than those of that version, and the cluster whose keys they are.
    #[cfg(feature = "server")]
    pub(crate) async fn agent_credentials(
        &self,
        known: CredentialsVersion,
    ) -> Result<Option<(ClusterId, AgentCredentials)>, CallError> {
        let cluster = self.link.cluster;
        let request = CredentialsRequest { agent_id: self.caller().0, cluster: Some(cluster), known };
        let keys = self.within(self.link.client.agent_credentials(self.context(), request)).await?;
        Ok(keys.map(|keys| (cluster, keys)))
    }

    /// A further segment of up to `wanted` numbers of a name, for the call that asks for it; with 0 it is only shown that those before `seen`
    /// were granted.
    pub(crate) async fn request_segment(
        &self,
        name: GeneratorName,
        wanted: u32,
        seen: Shown,
    ) -> Result<SegmentGrant, CallError> {
        let (agent_id, session) = self.caller();
        let request = SegmentRequest { agent_id, session, cluster: Some(self.link.cluster), name, wanted, seen };
        self.within(self.link.client.request_segment(self.context(), request)).await
    }

    /// Says how we fare, and hears after how many milliseconds to say it again.
    pub(crate) async fn report(&self, report: AgentReport) -> Result<u64, CallError> {
        let report = AgentReport { cluster: Some(self.link.cluster), ..report };
        self.within(self.link.client.report(self.context(), report)).await
    }

    /// Keeps this session's sections, or leaves them; that is not to arrive after a later one that keeps them. The cluster is this connection's.
    pub(crate) async fn keep_sections(&self, request: KeepRequest) -> Result<KeepReply, CallError> {
        let request = KeepRequest { cluster: Some(self.link.cluster), ..request };
        let leaves = request.leaves;
        let call = self.link.client.keep_sections(self.context(), request);
        if leaves { self.within_or_cut(call).await } else { self.within(call).await }
    }

    /// Raises bounds of this session's sections; an answer for each, in the same order.
    pub(crate) async fn raise_sections(&self, request: RaiseRequest) -> Result<RaisedAll, CallError> {
        let request = RaiseRequest { cluster: Some(self.link.cluster), ..request };
        let wanted = request.raises.len();
        let raised = self.within(self.link.client.raise_sections(self.context(), request)).await?;
        if raised.len() != wanted {
            return Err(self.failed(format!("it answered {} raises of {wanted}", raised.len())));
        }
        Ok(raised)
    }

    /// Asks who serves which sections.
    pub(crate) async fn section_routes(&self, request: RoutesRequest) -> Result<RoutesReply, CallError> {
        let request = RoutesRequest { cluster: Some(self.link.cluster), ..request };
        self.within(self.link.client.section_routes(self.context(), request)).await
    }

    fn caller(&self) -> (AgentId, SessionId) {
        (self.masters.agent_id.clone(), self.masters.minter.session().id())
    }

    fn context(&self) -> Context {
        transport::deadline_in(self.limit)
    }

    /// Gives this connection to nobody any more.
    pub(crate) fn retire(&self) {
        self.master.retire(self.lane, &self.link);
    }

    /// Takes in that the master is of no use by this connection, if that is so, and what it says of itself.
    async fn ended(&self, why: &CallError) {
        if why.is_foreign() {
            self.master.leave();
        } else if why.ends_connection() {
            self.retire();
        }
        notes::note(self.address(), &self.masters.minter, Err(why)).await;
    }

    /// Waits for a call that must not arrive after its time: if there is no answer, the connection is cut.
    async fn within_or_cut<T>(
        &self,
        call: impl Future<Output = Result<Result<T, Refusal>, RpcError>>,
    ) -> Result<T, CallError> {
        let mut unanswered = Unanswered(Some(self));
        let watched = async {
            let came = call.await;
            if let Ok(_) | Err(RpcError::Server(_)) = came {
                unanswered.0 = None;
            }
            came
        };
        self.within(watched).await
    }

    /// Waits for a call within its time.
    async fn within<T>(
        &self,
        call: impl Future<Output = Result<Result<T, Refusal>, RpcError>>,
    ) -> Result<T, CallError> {
        let began = Instant::now();
        let came = timeout(self.limit, call).await.unwrap_or(Err(RpcError::DeadlineExceeded));
        if let Ok(_) | Err(RpcError::Server(_)) = came {
            self.link.hears();
            self.master.answers();
        }
        match came {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(refusal)) => {
                let error = self.refused(refusal);
                self.ended(&error).await;
                Err(error)
            }
            // It refuses this call alone.
            Err(why @ RpcError::Server(_)) => Err(failed(self.address(), why.to_string())),
            Err(RpcError::DeadlineExceeded) => {
                if self.link.heard() <= began {
                    self.retire();
                    self.master.does_not_answer();
                }
                Err(failed(self.address(), "no answer in time"))
            }
            Err(why) => Err(self.failed(why.to_string())),
        }
    }
}
