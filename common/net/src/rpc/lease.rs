//! `LeaseService`: what agents ask of a master.

use ids::lease::Grant;
use wire::enroll::{EnrollRefusal, EnrollRequest, Enrolled};
pub use wire::lease::*;
use wire::ranges::{
    KeepReply, KeepRequest, RaiseRequest, RaisedAll, RoutesReply, RoutesRequest, SegmentGrant, SegmentRequest,
};

/// The leases of a cluster's tokens, as one of its two masters gives them.
#[tarpc::service]
pub trait LeaseService {
    /// A lease of `token_type` for the session that asks. The same session gets the same lease again; both masters must confirm a
    /// new one.
    async fn request_token(request: TokenRequest) -> Result<Grant, Refusal>;
    /// Renews a lease. One master is enough.
    async fn rent_token(request: RentRequest) -> Result<Rent, Refusal>;
    /// The leases that are recorded for the caller's session under its name, in the order of their keys, at most
    /// [`LIST_MAX`]. Nobody is told of another session's: who knows a session can renew and end its leases.
    async fn list_tokens(request: ListRequest) -> Result<Vec<ListedLease>, Refusal>;
    /// Gives a lease back: no renewal any more. The value rests until its end like any other.
    async fn terminate_token(request: TerminateRequest) -> Result<(), Refusal>;
    /// Registers what a generator's name stands for; both masters must confirm. The same again is [`Changed::AlreadySo`].
    async fn define_namespace(request: DefineRequest) -> Result<DefineReply, Refusal>;
    /// The registered namespaces that are not retired, in the order of their names, at most [`NAMESPACES_PAGE_MAX`].
    async fn list_namespaces(request: NamespacesRequest) -> Result<Vec<Registered>, Refusal>;
    /// Asks who the master is, how late it is, and what the parameters are. The first call on every connection.
    async fn heartbeat(request: HeartbeatRequest) -> Result<HeartbeatReply, Refusal>;
    /// Reports how the caller fares, for the operators' eyes: nothing depends on it, and nothing of it is kept on disk.
    /// The answer says after how many milliseconds of real time to report again, see [`report_interval_ms`].
    async fn report(report: AgentReport) -> Result<u64, Refusal>;
    /// Finds what is known of some names, retired ones too, at most [`NAMESPACES_PAGE_MAX`].
    async fn find_namespaces(request: FindRequest) -> Result<Found, Refusal>;
    /// Takes a name back that the masters have forgotten, or that it is in use, or retired. With their proof it is believed at once;
    /// without, one in use is registered as any other.
    async fn restore_namespace(request: RestoreRequest) -> Result<Changed, Refusal>;
    /// A segment of a name's axis, out of what this master was granted by both. Each call gets a further one.
    async fn request_segment(request: SegmentRequest) -> Result<SegmentGrant, Refusal>;
    /// An allocator keeps its sections: all that this master lists for it. To be asked of both masters.
    async fn keep_sections(request: KeepRequest) -> Result<KeepReply, Refusal>;
    /// Raises the bounds of sections that the caller serves, each for itself, in the order in which they were asked for.
    async fn raise_sections(request: RaiseRequest) -> Result<RaisedAll, Refusal>;
    /// Asks who serves which sections of a name. Those that are asked for and that nobody serves are given to somebody.
    async fn section_routes(request: RoutesRequest) -> Result<RoutesReply, Refusal>;
    /// Says that IDs are to be given by a name: from the answer on, and not before. Both masters hold it as in use then.
    async fn use_namespace(request: DefineRequest) -> Result<Registered, Refusal>;
    /// The answer that `define_namespace` would give now, as far as one master knows. Nothing is registered, nor is the other one asked.
    async fn try_namespace(request: DefineRequest) -> Result<DefineReply, Refusal>;
    /// The API keys that are for agents; `None` if the caller has that list, or a later one that this master may not have heard of yet.
    async fn agent_credentials(request: CredentialsRequest) -> Result<Option<AgentCredentials>, Refusal>;
    /// A certificate for who was invited, or has one that is to be renewed. On connections of those alone who came for it.
    async fn enroll(request: EnrollRequest) -> Result<Enrolled, EnrollRefusal>;
}
