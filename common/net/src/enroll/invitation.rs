//! Invitations: one line, by which a program gets its first certificate from a master, and knows that it is the right one.

use crate::rpc::peer::JoinToken;
use crate::tls::Role;
use ipnet::IpNet;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Programs that one invitation without a name may be for.
pub const USES: RangeInclusive<u32> = 1..=10_000;
/// Times for which an invitation may be valid: a minute to 30 days.
pub const VALID: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(30 * 86_400);
/// Networks that one invitation may name.
pub const NETWORKS_MAX: usize = 16;
/// The time for which it is valid if nothing else is said.
pub const VALID_DEFAULT: Duration = Duration::from_secs(3_600);

const SCHEME: &str = "uniq-invitation://";

/// The role that an invitation gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invited {
    /// Exactly this one.
    As(Role),
    /// An agent, under a name that is drawn for it.
    Agent,
    /// A client, under a name that is drawn for it.
    Client,
}

/// An invitation. Whoever has one with a secret before it is used or has ended can take the role that it gives.
#[derive(Clone, PartialEq, Eq)]
pub struct Invitation {
    /// The master's `--agent-listen`, as the invited program reaches it: a host and a port.
    pub at: String,
    /// The role that it gives.
    pub invited: Invited,
    /// The SHA-256 of the cluster's CA.
    pub ca: [u8; 32],
    /// The proof that a program shows for it.
    pub secret: Secret,
}

/// The proof that a program shows for its invitation.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// Random bits that nobody guesses.
    Drawn([u8; 32]),
    /// A token of the program's service account, which its cluster writes into this file: such an invitation is no secret.
    TokenFile(PathBuf),
}

/// The role that an invitation gives, and the programs that may use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The role that it gives.
    pub invited: Invited,
    /// DNS names and IP addresses that the certificate has, beside the address that is asked from.
    pub names: Vec<String>,
    /// The number of programs that may use it, in [`USES`].
    pub uses: u32,
    /// The networks from which it may be used, [`NETWORKS_MAX`] at most; all if there are none.
    pub networks: Vec<IpNet>,
}

impl Terms {
    /// The networks from which it may be used, with blanks between them.
    pub fn networks_text(&self) -> String {
        self.networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    /// The programs that may use it, in words.
    pub fn programs(&self) -> String {
        let plural = if self.uses == 1 { "" } else { "s" };
        let from = if self.networks.is_empty() { String::new() } else { format!(" of {}", self.networks_text()) };
        format!("{} program{plural}{from}", self.uses)
    }

    /// Tells whether a program at that address may use it.
    pub fn admit(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.is_empty() || self.networks.iter().any(|network| network.contains(&address))
    }
}

/// A wish for an invitation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvitationRequest {
    pub terms: Terms,
    /// The time for which it is valid, in [`VALID`].
    pub valid: Duration,
    /// The master's `--agent-listen`, as the invited program reaches it; `None`: as this master knows it.
    pub at: Option<String>,
}

/// The reason why a text is no invitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an invitation is one line that begins with {SCHEME}, as `uniq_master --invite` printed it")]
pub struct InvitationError;

impl Invitation {
    /// The SHA-256 of the whole line, by which the master knows it: an invitation that was altered is another one.
    pub fn proof(&self) -> [u8; 32] {
        Sha256::digest(self.to_string()).into()
    }
}

impl Invited {
    /// The most programs that an invitation for this can be for: of one name there is one certificate.
    pub const fn uses_max(&self) -> u32 {
        match self {
            Self::As(_) => 1,
            Self::Agent | Self::Client => *USES.end(),
        }
    }

    /// The command that takes the invitation from its standard input, where the invited program runs.
    pub const fn command(&self) -> &'static str {
        match self {
            Self::As(Role::Master(_)) => "uniq_master --format --id 2 --data-dir DIR --invitation -",
            Self::As(Role::Agent(_)) | Self::Agent => "uniq_generator --format --serial-file FILE --invitation -",
            Self::As(Role::Client(_)) | Self::Client => "uniq_generator --tls-dir FOLDER --invitation -",
        }
    }
}

impl fmt::Display for Invited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::As(role) => f.write_str(&role.path()),
            Self::Agent => f.write_str("agent"),
            Self::Client => f.write_str("client"),
        }
    }
}

impl FromStr for Invited {
    type Err = InvitationError;
    fn from_str(text: &str) -> Result<Self, InvitationError> {
        match text {
            "agent" => Ok(Self::Agent),
            "client" => Ok(Self::Client),
            text => Role::of_path(text).map(Self::As).ok_or(InvitationError),
        }
    }
}

impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}?ca={}&", self.at, self.invited, hex(&self.ca))?;
        match &self.secret {
            Secret::Drawn(bits) => write!(f, "secret={}", hex(bits)),
            Secret::TokenFile(path) => write!(f, "token-file={}", path.display()),
        }
    }
}

impl FromStr for Invitation {
    type Err = InvitationError;
    fn from_str(line: &str) -> Result<Self, InvitationError> {
        let parts = || {
            let (whereto, proof) = line.trim().strip_prefix(SCHEME)?.split_once('?')?;
            let (at, invited) = whereto.split_once('/')?;
            let (ca, proof) = proof.strip_prefix("ca=")?.split_once('&')?;
            let (kind, proof) = proof.split_once('=')?;
            let invited: Invited = invited.parse().ok()?;
            let secret = match (kind, &invited) {
                ("secret", _) => Secret::Drawn(unhex(proof)?),
                // Its name is in the token.
                ("token-file", Invited::Agent | Invited::Client) => Secret::TokenFile(token_file(proof).ok()?),
                _ => return None,
            };
            let (host, port) = at.rsplit_once(':')?;
            port.parse::<u16>().ok().filter(|port| *port > 0 && !host.is_empty())?;
            Some(Self { at: at.to_owned(), invited, ca: unhex(ca)?, secret })
        };
        parts().ok_or(InvitationError)
    }
}

/// Shows no secret.
impl fmt::Debug for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Invitation({} at {})", self.invited, self.at)
    }
}

/// Reads the path of a file with a token: one line, from the root of the file system on.
///
/// # Errors
/// A text that says so.
pub fn token_file(text: &str) -> Result<PathBuf, String> {
    let fits = text.starts_with('/') && text.trim() == text && !text.chars().any(char::is_control);
    fits.then(|| PathBuf::from(text))
        .ok_or_else(|| "write the file's whole path, such as /var/run/secrets/uniq/token".to_owned())
}

/// The bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads 64 hexadecimal digits, as a join token has them.
fn unhex(text: &str) -> Option<[u8; 32]> {
    text.parse().ok().map(|JoinToken(bytes)| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written_and_an_altered_one_is_another() {
        for invited in ["agent", "client", "agent/orders-1", "client/billing", "master/2"] {
            let invited: Invited = invited.parse().unwrap();
            let secret = Secret::Drawn([7; 32]);
            let written = Invitation { at: "10.0.0.1:7101".to_owned(), invited, ca: [0xab; 32], secret };
            let line = written.to_string();
            let read: Invitation = format!("{line}\n").parse().unwrap();
            assert_eq!((&read, read.proof()), (&written, written.proof()));
            for (part, other) in [("10.0.0.1", "10.0.0.2"), ("/", "/agent/x"), ("ab", "aa"), ("07", "08")] {
                let altered = line.replacen(part, other, usize::from(part != "/") + 3);
                let read: Result<Invitation, _> = altered.parse();
                assert!(read.is_err() || read.unwrap().proof() != written.proof(), "{altered}");
            }
        }
    }

    #[test]
    fn one_by_a_token_names_its_file_and_no_program() {
        let ca = "0".repeat(64);
        let line = |role: &str, file: &str| format!("{SCHEME}h:1/{role}?ca={ca}&token-file={file}");
        for role in ["agent", "client"] {
            let read: Invitation = line(role, "/var/run/secrets/a=b&c?d").parse().unwrap();
            assert!(matches!(&read.secret, Secret::TokenFile(path) if path.ends_with("a=b&c?d")));
            assert_eq!(read.to_string(), line(role, "/var/run/secrets/a=b&c?d"));
        }
        for (role, file) in [("agent/orders-1", "/token"), ("master/2", "/token"), ("agent", "token"), ("agent", "")] {
            assert!(line(role, file).parse::<Invitation>().is_err(), "{role} {file}");
        }
    }

    #[test]
    fn networks_say_from_where() {
        let terms = |networks: &[&str]| Terms {
            invited: Invited::Agent,
            names: Vec::new(),
            uses: 1,
            networks: networks.iter().map(|it| it.parse().unwrap()).collect(),
        };
        let admits = |networks: &[&str], address: &str| terms(networks).admit(address.parse().unwrap());
        assert!(admits(&[], "192.0.2.1") && admits(&["10.0.0.0/8", "fd00::/8"], "::ffff:10.1.2.3"));
        assert!(admits(&["10.0.0.0/8", "fd00::/8"], "fd00::1") && !admits(&["10.0.0.0/8"], "11.0.0.1"));
    }

    #[test]
    fn what_is_no_invitation_is_refused() {
        let good = format!("{SCHEME}h:1/agent?ca={}&secret={}", "0".repeat(64), "f".repeat(64));
        assert!(good.parse::<Invitation>().is_ok());
        for (part, other) in [
            (SCHEME, "http://"),
            ("h:1", "h"),
            ("agent", "operator"),
            ("agent", "agent/"),
            ("agent", "master/3"),
            ("ca=0", "ca="),
            ("ca=0", "ca=00"),
            ("ca=0", "ca=x"),
            ("&secret=", "&token="),
            ("&secret=", "&token-file="),
            ("&secret=", "&secret"),
        ] {
            assert!(good.replacen(part, other, 1).parse::<Invitation>().is_err(), "{part} {other}");
        }
        assert!("".parse::<Invitation>().is_err());
    }
}
