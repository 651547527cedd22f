//! The roles that certificates give, and who is admitted where.

pub use common::certificate::Role;
use common::certificate::SCHEME;
use common::parameters::MasterId;
use rustls::pki_types::CertificateDer;
use std::fmt;

/// The role that a certificate gives: the one URI of ours among its alternative names. `None`: it has none, or more than one.
pub fn role_of(certificate: &CertificateDer<'_>) -> Option<Role> {
    let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
    let mut ours = certificate.valid_uri_names().filter(|uri| uri.starts_with(SCHEME));
    let role = ours.next()?.parse().ok()?;
    ours.next().is_none().then_some(role)
}

/// The callers that a port admits, or whom a caller expects at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Admits {
    /// Anybody, who is not asked for a certificate. Nobody is expected like that.
    Anyone,
    /// Anybody without a certificate, and agents and clients with theirs.
    Open,
    /// Anybody without a certificate, and whoever has one, who come for one.
    Newcomers,
    /// That master.
    Master(MasterId),
    /// Either master.
    Masters,
    /// Any agent.
    Agents,
    /// Agents and clients.
    Callers,
}

impl Admits {
    /// Tells whether the holder of such a certificate is one of them.
    pub fn admits(self, role: Option<&Role>) -> bool {
        match (self, role) {
            (Self::Anyone | Self::Newcomers, _)
            | (Self::Masters, Some(Role::Master(_)))
            | (Self::Agents, Some(Role::Agent(_)))
            | (Self::Callers | Self::Open, Some(Role::Agent(_) | Role::Client(_)))
            | (Self::Open, None) => true,
            (Self::Master(id), Some(Role::Master(holder))) => id == *holder,
            _ => false,
        }
    }
}

impl fmt::Display for Admits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anyone | Self::Newcomers => f.write_str("anybody"),
            Self::Master(id) => write!(f, "master {id} ({SCHEME}master/{id})"),
            Self::Masters => write!(f, "a master ({SCHEME}master/1 or 2)"),
            Self::Agents => write!(f, "an agent ({SCHEME}agent/NAME)"),
            Self::Callers | Self::Open => write!(f, "an agent or a client ({SCHEME}agent/NAME or {SCHEME}client/NAME)"),
        }
    }
}
