//! Messages by which a program gets its certificate from a master.

use core::net::IpAddr;
use serde::{Deserialize, Serialize};

/// Bytes of a public key: a point of P-256, uncompressed (SEC 1, section 2.3.3).
pub const PUBLIC_KEY_LEN: usize = 65;
/// The most DNS names and IP addresses in a certificate.
pub const NAMES_MAX: usize = 32;
/// The longest of them, in bytes (RFC 1035, section 2.3.4).
pub const NAME_LEN_MAX: usize = 253;
/// The most bytes of a master's file of CAs that is passed on.
pub const CAS_LEN_MAX: usize = 256 << 10;

/// The most bytes of a token of a service account.
pub const TOKEN_LEN_MAX: usize = 8 << 10;

/// A request of who came for a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EnrollRequest {
    Certificate {
        /// The reason to issue one.
        by: EnrollBy,
        /// The public key that it is for, of [`PUBLIC_KEY_LEN`] bytes.
        public_key: Vec<u8>,
    },
    /// The CAs that are believed, for who has a certificate.
    Authorities,
}

/// The reason to issue a certificate.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EnrollBy {
    /// An invitation, of which this is the SHA-256.
    Invitation([u8; 32]),
    /// A token of the program's service account (a JSON Web Token, RFC 7519), of at most [`TOKEN_LEN_MAX`] bytes.
    Token(String),
    /// The certificate that the caller shows, of which the new one has the role, and these DNS names and IP addresses, which the present
    /// one has too.
    Certificate(Vec<String>),
}

/// Shows nothing that somebody else could use.
impl core::fmt::Debug for EnrollBy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Invitation(_) => f.write_str("Invitation(..)"),
            Self::Token(_) => f.write_str("Token(..)"),
            Self::Certificate(names) => f.debug_tuple("Certificate").field(names).finish(),
        }
    }
}

/// The answer to a request for a certificate.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Enrolled {
    /// A certificate of an agent or a client.
    Certificate {
        /// The certificate, in PEM form.
        certificate: String,
        /// The CAs that are believed, and what is revoked, in PEM form.
        cas: String,
        /// The DNS names and IP addresses in the certificate.
        names: Vec<String>,
    },
    /// The CAs that are believed, and what is revoked, in PEM form.
    Authorities(String),
    /// The CA itself, for the other master.
    Ca {
        /// The CAs that are believed, and what they revoked, in PEM form.
        cas: String,
        /// The CA's private key, in PEM form.
        key: String,
    },
}

/// Shows no key.
impl core::fmt::Debug for Enrolled {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Certificate { .. } => "Enrolled::Certificate",
            Self::Authorities(_) => "Enrolled::Authorities",
            Self::Ca { .. } => "Enrolled::Ca",
        })
    }
}

/// The reason why no certificate is issued.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum EnrollRefusal {
    /// The invitation was never made here, was altered, or is used up.
    #[error(
        "this invitation is unknown here: it was made by the other master, was altered, withdrawn or used already; ask for a new one (uniq_master \
         --invite, or the console)"
    )]
    Unknown,
    /// Its time is over.
    #[error("this invitation has ended; ask for a new one (uniq_master --invite, or the console)")]
    Ended,
    /// The caller is at an address from which it may not be used. No use of it is gone.
    #[error("this invitation may not be used from {0}: it is for programs of other networks")]
    Network(IpAddr),
    /// The token is not accepted.
    #[error("the token of the service account is not accepted: {0}")]
    Token(String),
    /// The caller shows no certificate, or one without these names.
    #[error("the certificate that was shown cannot be renewed: {0}")]
    Certificate(String),
    /// The public key is none.
    #[error("the public key is not an uncompressed point of P-256")]
    Key,
    /// The master has no CA, or it cannot be used.
    #[error("this master issues no certificates: {0}")]
    NoCa(String),
    /// The disk is full: nothing that must be durable can be promised. No use of the invitation is gone.
    #[error("this master's disk is full, and it issues nothing until there is room: make room there, and ask again")]
    DiskFull,
    /// The audit could not be written, and nothing is given without its line.
    #[error(
        "no certificate was given, because the audit cannot be written ({0}); a use of an invitation is gone, a token may be shown again"
    )]
    NotAudited(String),
    /// The holder got too many. It may have more when as long as one lives is over.
    #[error("{holder} got {max} certificates within the life of one: ask again later, and look who asks")]
    TooMany {
        /// The holder.
        holder: String,
        /// The most that it gets.
        max: u32,
    },
    /// Too many ask at once.
    #[error("this master issues other certificates just now; ask again")]
    Overloaded,
}
