//! Holders of certificates, and the revocation of what they hold.

use crate::parameters::{AgentId, MasterId};
use crate::time::{SECOND_MS, WallMs};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Revocations at most that both masters hold.
pub const REVOCATIONS_MAX: usize = 1_024;

/// The last second of the year 9999: no certificate says a later one (RFC 5280, section 4.1.2.5).
pub const BEFORE_MAX: WallMs = WallMs(253_402_300_799_000);

/// The beginning of the URI that says a role.
pub const SCHEME: &str = "uniq://";

/// The holder of a certificate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Role {
    /// One of the two masters.
    Master(MasterId),
    /// The agent of this name.
    Agent(AgentId),
    /// An application that asks agents; its name obeys the rules of agents' names.
    Client(AgentId),
}

impl Role {
    /// The role as its URI has it behind the scheme: `master/1`, `agent/NAME` or `client/NAME`.
    pub fn path(&self) -> String {
        match self {
            Self::Master(id) => format!("master/{id}"),
            Self::Agent(name) => format!("agent/{name}"),
            Self::Client(name) => format!("client/{name}"),
        }
    }

    /// Reads what [`Self::path`] writes.
    pub fn of_path(path: &str) -> Option<Self> {
        match path.split_once('/')? {
            ("master", "1") => Some(Self::Master(MasterId::One)),
            ("master", "2") => Some(Self::Master(MasterId::Two)),
            ("agent", name) => name.parse().map(Self::Agent).ok(),
            ("client", name) => name.parse().map(Self::Client).ok(),
            _ => None,
        }
    }
}

impl FromStr for Role {
    type Err = ();
    fn from_str(uri: &str) -> Result<Self, ()> {
        uri.strip_prefix(SCHEME).and_then(Self::of_path).ok_or(())
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.path())
    }
}

/// The revocation of all certificates of a holder that are valid from before an instant. It needs no list of what was issued, so either
/// master revokes what the other one issued, and what neither did.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Revocation {
    /// The holder.
    pub role: Role,
    /// The first instant from which on its certificates are believed, in whole seconds, as certificates say it.
    pub before: WallMs,
}

impl Revocation {
    /// The revocation of all that was issued to that holder before this second.
    pub fn at(role: Role, now: WallMs) -> Self {
        Self { role, before: WallMs(now.0.div_euclid(SECOND_MS).saturating_mul(SECOND_MS)) }
    }

    /// Seconds since 1970 of [`Self::before`].
    pub fn before_s(&self) -> u64 {
        u64::try_from(self.before.0 / SECOND_MS).unwrap_or(0)
    }

    /// Tells whether both masters can hold it. A master's certificate is none of theirs to revoke: they could not agree on anything any more.
    pub(crate) fn plausible(&self) -> bool {
        !matches!(self.role, Role::Master(_))
            && (WallMs(0)..=BEFORE_MAX).contains(&self.before)
            && self.before.0 % SECOND_MS == 0
    }
}

/// `client/billing 2026-05-01T12:00:00.000Z`
impl fmt::Display for Revocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.role.path(), self.before)
    }
}

/// A text that is not a revocation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a revocation is written ROLE TIME, such as client/billing 2026-05-01T12:00:00Z")]
pub struct RevocationError;

impl FromStr for Revocation {
    type Err = RevocationError;
    fn from_str(text: &str) -> Result<Self, RevocationError> {
        let (role, before) = text.trim().split_once(' ').ok_or(RevocationError)?;
        let before = chrono::DateTime::parse_from_rfc3339(before.trim()).map_err(|_| RevocationError)?;
        let revoked = Self::at(Role::of_path(role).ok_or(RevocationError)?, WallMs(before.timestamp_millis()));
        if (WallMs(0)..=BEFORE_MAX).contains(&revoked.before) { Ok(revoked) } else { Err(RevocationError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revocation_reads_as_it_is_written_and_has_whole_seconds() {
        let revoked = Revocation::at(Role::of_path("client/a:b").unwrap(), WallMs(1_777_636_800_999));
        assert_eq!(revoked.to_string(), "client/a:b 2026-05-01T12:00:00.000Z");
        assert_eq!(revoked.to_string().parse(), Ok(revoked.clone()));
        assert_eq!(" client/a:b  2026-05-01T14:00:00+02:00 ".parse(), Ok(revoked.clone()));
        assert_eq!((revoked.before_s(), revoked.plausible()), (1_777_636_800, true));
        for wrong in [
            "",
            "client/a",
            "client/a yesterday",
            "nobody/a 2026-05-01T12:00:00Z",
            "client/a 1969-12-31T23:59:59Z",
            "client/a 9999-12-31T23:59:59-23:59",
            "uniq://client/a 2026-05-01T12:00:00Z",
        ] {
            assert_eq!(wrong.parse::<Revocation>(), Err(RevocationError), "{wrong}");
        }
        let master = Revocation::at(Role::Master(MasterId::One), WallMs(0));
        assert!(!master.plausible());
    }
}
