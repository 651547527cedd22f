//! `PeerService`: what one master tells the other.

use wire::lease::Refusal;
pub use wire::peer::*;

/// The other master's inbox.
#[tarpc::service]
pub trait PeerService {
    /// Takes in messages or reports, and answers a greeting on the connection it came by: whoever asks hears the answer, be
    /// it the master that `--peer` names or one that was replaced or copied.
    async fn deliver(sealed: SealedFrame) -> Delivered;
    /// The replacement of a lost master asks for the survivor's ledger.
    async fn join(request: JoinRequest) -> Result<JoinReply, Refusal>;
}
