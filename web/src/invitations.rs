//! Invitations by which programs get their first certificate from this master.

use crate::masters::Unavailable;
use common::audit::Actor;
use common::time::WallMs;
use futures::future::BoxFuture;
use net::enroll::{Invitation, InvitationRequest, Terms, invitation};

/// The most hours for which an invitation is valid.
pub(crate) const HOURS_MAX: u64 = invitation::VALID.end().as_secs() / 3_600;
/// The most programs that one invitation is for.
pub(crate) const USES_MAX: u32 = *invitation::USES.end();

/// The invitations of one master: the other one does not know them.
pub trait Invitations: Send + Sync + 'static {
    /// The address under which invited programs reach this master if nothing else is said.
    ///
    /// # Errors
    /// [`NotInvited::NoCa`]
    fn invited_at(&self) -> Result<&str, NotInvited>;

    /// Lists those that may still be used, by their ends; none without a CA.
    ///
    /// # Errors
    /// [`NotInvited`]
    fn invitations(&self) -> BoxFuture<'_, Result<Vec<OpenInvitation>, NotInvited>>;

    /// Makes an invitation. It is returned this once, and kept nowhere.
    ///
    /// # Errors
    /// [`NotInvited`]
    fn invite(
        &self,
        request: InvitationRequest,
        by: Actor,
    ) -> BoxFuture<'_, Result<(Invitation, OpenInvitation), NotInvited>>;

    /// Withdraws an invitation.
    ///
    /// # Errors
    /// [`NotInvited`]
    fn withdraw(&self, id: String, by: Actor) -> BoxFuture<'_, Result<(), NotInvited>>;
}

/// An invitation that may still be used, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenInvitation {
    /// The first 16 hexadecimal digits of a hash of it.
    pub id: String,
    /// The programs that may still use it, and what it gives them.
    pub terms: Terms,
    /// The instant from which on it is none.
    pub ends: WallMs,
}

/// The reason why nothing was done about an invitation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotInvited {
    #[error("this master issues no certificates: {0}")]
    NoCa(String),
    #[error("at: {0}")]
    Address(String),
    #[error("{0}")]
    TooMany(String),
    #[error("there is no open invitation of this id at this master")]
    NotFound,
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}
