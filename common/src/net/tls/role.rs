//! The roles that certificates give, and who is admitted where.

use crate::parameters::{AgentId, MasterId};
use rustls::pki_types::CertificateDer;
use std::fmt;
use std::str::FromStr;

/// The beginning of the URI that says a role.
const SCHEME: &str = "uniq://";

/// The holder of a certificate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// One of the two masters.
    Master(MasterId),
    /// The agent of this name.
    Agent(AgentId),
    /// An application that asks agents; its name obeys the rules of agents' names.
    Client(AgentId),
}

impl Role {
    /// The role that a certificate gives: the one URI of ours among its alternative names. `None`: it has none, or more than one.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
        let mut ours = certificate.valid_uri_names().filter(|uri| uri.starts_with(SCHEME));
        let role = ours.next()?.parse().ok()?;
        ours.next().is_none().then_some(role)
    }
}

impl FromStr for Role {
    type Err = ();
    fn from_str(uri: &str) -> Result<Self, ()> {
        let (role, name) = uri.strip_prefix(SCHEME).ok_or(())?.split_once('/').ok_or(())?;
        match role {
            "master" if name == "1" => Ok(Self::Master(MasterId::One)),
            "master" if name == "2" => Ok(Self::Master(MasterId::Two)),
            "agent" => name.parse().map(Self::Agent).map_err(|_| ()),
            "client" => name.parse().map(Self::Client).map_err(|_| ()),
            _ => Err(()),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Master(id) => write!(f, "{SCHEME}master/{id}"),
            Self::Agent(name) => write!(f, "{SCHEME}agent/{name}"),
            Self::Client(name) => write!(f, "{SCHEME}client/{name}"),
        }
    }
}

/// The callers that a port admits, or whom a caller expects at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Admits {
    /// Anybody, who is not asked for a certificate. Nobody is expected like that.
    Anyone,
    /// Anybody without a certificate, and agents and clients with theirs.
    Open,
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
            (Self::Anyone, _)
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
            Self::Anyone => f.write_str("anybody"),
            Self::Master(id) => write!(f, "master {id} ({SCHEME}master/{id})"),
            Self::Masters => write!(f, "a master ({SCHEME}master/1 or 2)"),
            Self::Agents => write!(f, "an agent ({SCHEME}agent/NAME)"),
            Self::Callers | Self::Open => write!(f, "an agent or a client ({SCHEME}agent/NAME or {SCHEME}client/NAME)"),
        }
    }
}
