//! Judges the certificate of the other end: by the CA, by its time, and by its role.

use super::Current;
use super::files::Material;
use super::role::{Admits, Role, role_of};
use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;
use webpki::KeyUsage;

/// The SHA-256 of a certificate.
pub fn fingerprint(certificate: &CertificateDer<'_>) -> [u8; 32] {
    Sha256::digest(certificate).into()
}

/// Judges the other end's certificate, and whom it is of.
#[derive(Debug)]
pub(super) struct Verifier {
    believed: Believed,
    provider: Arc<CryptoProvider>,
    admits: Admits,
}

/// The CAs by which a certificate is judged.
#[derive(Debug)]
enum Believed {
    /// Those of the moment.
    Current(Arc<Current>),
    /// The one of this SHA-256, which the other end shows.
    Pinned([u8; 32]),
}

/// The certificate is in order, and its holder has no business here.
struct WrongRole {
    role: Option<Role>,
    expected: Admits,
}

impl fmt::Display for WrongRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.role {
            Some(role) => write!(f, "the certificate is of {role}: expected {}", self.expected),
            None => write!(f, "the certificate gives no role, or more than one: expected {}", self.expected),
        }
    }
}

/// In words: it is what rustls shows.
impl fmt::Debug for WrongRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for WrongRole {}

impl Verifier {
    pub(super) fn new(current: Arc<Current>, admits: Admits) -> Self {
        let provider = Arc::clone(&current.provider);
        Self { believed: Believed::Current(current), provider, admits }
    }

    /// Judges a master by its CA, of which no more is known than this.
    pub(super) fn pinned(provider: Arc<CryptoProvider>, ca: [u8; 32]) -> Self {
        Self { believed: Believed::Pinned(ca), provider, admits: Admits::Masters }
    }

    fn judge(
        &self,
        chain: (&CertificateDer<'_>, &[CertificateDer<'_>]),
        usage: KeyUsage,
        now: UnixTime,
    ) -> Result<(), Error> {
        match &self.believed {
            Believed::Current(current) => current.judge(chain, usage, now)?,
            Believed::Pinned(ca) => {
                let shown = chain.1.iter().find(|shown| fingerprint(shown) == *ca);
                let material = Material::believing(shown.ok_or(CertificateError::UnknownIssuer)?)?;
                material.judge(&self.provider, chain, usage, now)?;
            }
        }
        let role = role_of(chain.0);
        // Whoever shows a certificate has to be somebody.
        if role.is_some() && self.admits.admits(role.as_ref()) {
            return Ok(());
        }
        let wrong = WrongRole { role, expected: self.admits };
        Err(CertificateError::Other(OtherError(Arc::new(wrong))).into())
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Verifier {
    fn client_auth_mandatory(&self) -> bool {
        !matches!(self.admits, Admits::Open | Admits::Newcomers)
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // The CA may change while this is borrowed, and our programs have one certificate each.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.judge((end_entity, intermediates), KeyUsage::client_auth(), now)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.judge((end_entity, intermediates), KeyUsage::server_auth(), now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.material().own.clone()
    }
}

impl ResolvesClientCert for Current {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.material().own.clone()
    }

    fn has_certs(&self) -> bool {
        self.material().own.is_some()
    }
}
