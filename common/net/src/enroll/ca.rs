//! The cluster's CA. Both masters have its key, so either issues and renews certificates.

use super::folder::TlsFolder;
use super::invitation::hex;
use crate::tls::{Role, revocations, valid_from_s};
use common::certificate::Revocation;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SignatureAlgorithm, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use sha2::{Digest as _, Sha256};
use std::time::{Duration, SystemTime};
use wire::enroll::PUBLIC_KEY_LEN;

/// The life of a CA: ten years.
const CA_LIFE: Duration = Duration::from_secs(3_650 * 86_400);
/// The time before its issue from which on a certificate is valid, for clocks that are behind.
const BACKDATED: Duration = Duration::from_secs(3_600);
/// The lines around a certificate in PEM form.
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
/// The most characters of a role in a certificate's common name (RFC 5280, appendix A: 64).
const COMMON_NAME_MAX: usize = 64;

/// The number of a certificate.
pub type Serial = [u8; 16];

/// The reason why a CA issues nothing.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// A file cannot be read or written.
    #[error("{what} in {folder}: {why}")]
    File {
        /// The file.
        what: &'static str,
        folder: String,
        /// The reason.
        why: String,
    },
    /// The CA's certificate is missing among those believed.
    #[error(
        "ca.pem in {0} has no CA of the key in ca.key with the name that this program gives one, 'UniqGenerator CA' and the hash of its key"
    )]
    Stranger(String),
    /// A certificate cannot be made.
    #[error("no certificate can be made: {0}")]
    Unmade(#[from] rcgen::Error),
    /// The public key is none.
    #[error("the public key is not an uncompressed point of P-256")]
    PublicKey,
}

/// The key of the cluster's CA, with the certificates that are believed.
pub struct Ca {
    issuer: Issuer<'static, KeyPair>,
    own: CertificateDer<'static>,
    own_pem: String,
    cas: String,
    /// Revocations in `ca.pem`.
    revoked: Vec<Revocation>,
}

/// A public key that somebody sent.
struct Sent<'a>(&'a [u8]);

impl PublicKeyData for Sent<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

/// The CA's name follows from its key, so that the key alone is enough to issue.
fn parameters(key: &KeyPair) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(&name_of(key));
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn name_of(key: &KeyPair) -> String {
    let digest = Sha256::digest(key.subject_public_key_info());
    format!("UniqGenerator CA {}", hex(digest.get(..8).unwrap_or_default()))
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// Sets the time in which a certificate is valid: from an hour ago on, or from another second since 1970.
fn valid_for(params: &mut CertificateParams, life: Duration, from_s: impl FnOnce(u64) -> u64) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let from = Duration::from_secs(from_s(now.saturating_sub(BACKDATED).as_secs()));
    let epoch = date_time_ymd(1970, 1, 1);
    (params.not_before, params.not_after) = (epoch + from, epoch + now + life);
}

/// The beginning of a certificate's time.
#[derive(Clone, Copy, Debug)]
pub enum Begins<'a> {
    /// A first one: now, and after what these revoke of its holder.
    After(&'a [Revocation]),
    /// A renewed one: with this. What comes of a certificate that was stolen is revoked with it, whatever the one who renewed it knew.
    With(&'a CertificateDer<'a>),
}

impl Ca {
    /// Makes a CA and keeps it in that folder. One that is there already stays.
    ///
    /// # Errors
    /// The reason why it cannot be kept there.
    pub fn make(folder: &TlsFolder) -> Result<Self, CaError> {
        if folder.ca_key_file().exists() {
            return Self::load(folder);
        }
        let key = KeyPair::generate()?;
        let mut params = parameters(&key);
        valid_for(&mut params, CA_LIFE, |from_s| from_s);
        let own = params.self_signed(&key)?;
        Self::keep(folder, &own.pem(), &key.serialize_pem())
    }

    /// Keeps a CA of somewhere else in that folder.
    ///
    /// # Errors
    /// The reason why it cannot be kept there.
    pub fn keep(folder: &TlsFolder, cas: &str, key: &str) -> Result<Self, CaError> {
        let unkept = |why: &dyn ToString| file("the CA cannot be kept", folder, why);
        folder.save_cas(cas).map_err(|why| unkept(&why))?;
        folder.save_ca_key(key).map_err(|why| unkept(&why))?;
        Self::load(folder)
    }

    /// The CA in that folder.
    ///
    /// # Errors
    /// There is none, or it cannot be used.
    pub fn load(folder: &TlsFolder) -> Result<Self, CaError> {
        let key = std::fs::read_to_string(folder.ca_key_file());
        let key = key.map_err(|why| file("ca.key cannot be read", folder, &why))?;
        let key = KeyPair::from_pem(&key).map_err(|why| file("ca.key is no private key", folder, &why))?;
        let cas = std::fs::read_to_string(folder.cas_file());
        let cas = cas.map_err(|why| file("ca.pem cannot be read", folder, &why))?;
        let public = key.subject_public_key_info();
        // What is issued names its CA by the name that follows from the key.
        let name = name_of(&key);
        let is_own = |ca: &CertificateDer<'_>| {
            webpki::anchor_from_trusted_cert(ca)
                .is_ok_and(|ca| public.ends_with(&ca.subject_public_key_info) && ca.subject.ends_with(name.as_bytes()))
        };
        let mut blocks = cas.split_inclusive(END).filter_map(|block| {
            let block = block.get(block.find(BEGIN)?..)?;
            Some((CertificateDer::from_pem_slice(block.as_bytes()).ok()?, format!("{block}\n")))
        });
        let own = blocks.find(|(ca, _)| is_own(ca));
        let (own, own_pem) = own.ok_or_else(|| CaError::Stranger(folder.path().display().to_string()))?;
        let unread = |why: String| file("ca.pem revokes something that cannot be read", folder, &why);
        let revoked = revocations(cas.as_bytes()).map_err(unread)?;
        Ok(Self { issuer: Issuer::new(parameters(&key), key), own, own_pem, cas, revoked })
    }

    /// The CA's own certificate.
    pub fn own(&self) -> &CertificateDer<'static> {
        &self.own
    }

    /// The CAs that are believed, and what is revoked, in PEM form.
    pub fn cas(&self) -> &str {
        &self.cas
    }

    /// The revocations in `ca.pem`.
    pub fn revoked(&self) -> &[Revocation] {
        &self.revoked
    }

    /// The CA's private key, in PEM form.
    pub fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Issues a certificate, in PEM form. `names` are DNS names and IP addresses; the serial number is random, so that nobody has the same as
    /// another.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn issue(
        &self,
        (role, names): (&Role, &[String]),
        public_key: &[u8],
        (life, serial): (Duration, Serial),
        begins: Begins<'_>,
    ) -> Result<String, CaError> {
        if public_key.len() != PUBLIC_KEY_LEN || public_key.first() != Some(&4) {
            return Err(CaError::PublicKey);
        }
        let mut params = CertificateParams::new(names)?;
        params.subject_alt_names.push(SanType::URI(role.to_string().as_str().try_into()?));
        let common: String = role.path().chars().take(COMMON_NAME_MAX).collect();
        params.distinguished_name = named(&common);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.serial_number = Some(serial.to_vec().into());
        valid_for(&mut params, life, |from_s| match begins {
            Begins::With(shown) => valid_from_s(shown),
            Begins::After(told) => {
                let its = self.revoked.iter().chain(told).filter(|revocation| revocation.role == *role);
                its.map(Revocation::before_s).fold(from_s, u64::max)
            }
        });
        Ok(params.signed_by(&Sent(public_key), &self.issuer)?.pem())
    }

    /// Issues the certificate of a master, and keeps it in its folder. The CA's own follows it: who was invited knows the master by that.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn issue_own(
        &self,
        folder: &TlsFolder,
        (role, names): (&Role, &[String]),
        valid: (Duration, Serial),
    ) -> Result<(), CaError> {
        let key = KeyPair::generate()?;
        let certificate = self.issue((role, names), key.public_key_raw(), valid, Begins::After(&[]))?;
        let chain = format!("{certificate}{}", self.own_pem);
        let saved = folder.save((&chain, &key), &self.cas, names, |found| found == role);
        saved.map(drop).map_err(|why| file("own.pem cannot be kept", folder, &why))
    }
}

fn file(what: &'static str, folder: &TlsFolder, why: &dyn ToString) -> CaError {
    CaError::File { what, folder: folder.path().display().to_string(), why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::{Tls, dated_now, with_revoked};

    const LIFE: Duration = Duration::from_secs(86_400);

    #[test]
    fn a_ca_issues_what_is_believed_and_by_its_key_alone() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| TlsFolder::new(dir.path().join(name)));
        let ca = Ca::make(&one).unwrap();
        let role = Role::of_path("master/1").unwrap();
        let names = ["127.0.0.1".to_owned(), "ids.example.com".to_owned()];
        ca.issue_own(&one, (&role, &names), (LIFE, [1; 16])).unwrap();
        assert_eq!(one.names(), ["127.0.0.1", "ids.example.com"]);
        let tls = Tls::load_for(one.files(), &role).unwrap();
        assert!(tls.remaining().unwrap() <= LIFE && tls.remaining().unwrap() > LIFE / 2);
        // The other master issues what the first one believes; and the CA stays what it is.
        Ca::keep(&other, ca.cas(), &ca.key()).unwrap();
        let copied = Ca::make(&other).unwrap();
        assert_eq!(copied.own(), ca.own());
        copied.issue_own(&other, (&Role::of_path("master/2").unwrap(), &[]), (LIFE, [2; 16])).unwrap();
        assert_eq!(Tls::load(other.files()).unwrap().role(), Role::of_path("master/2"));
        // After an exchange the older one is still believed, and the newer one issues.
        let newer = Ca::make(&TlsFolder::new(dir.path().join("newer"))).unwrap();
        Ca::keep(&one, &format!("{}{}", ca.cas(), newer.cas()), &newer.key()).unwrap();
        assert_eq!(Ca::load(&one).unwrap().own(), newer.own());
        // What would make the certificate that is there useless is not taken over.
        assert!(one.save_cas(newer.cas()).is_err());
        one.save_cas(ca.cas()).unwrap();
        assert!(matches!(Ca::load(&one), Err(CaError::Stranger(_))));
        assert!(matches!(
            ca.issue((&role, &[]), &[4; 64], (LIFE, [3; 16]), Begins::After(&[])),
            Err(CaError::PublicKey)
        ));
    }

    #[test]
    fn what_is_revoked_is_refused_and_what_is_issued_after_that_is_believed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = TlsFolder::new(dir.path().join("tls"));
        let ca = Ca::make(&folder).unwrap();
        let [role, other] = ["client/a", "client/b"].map(|path| Role::of_path(path).unwrap());
        let key = KeyPair::generate().unwrap();
        let issued_by = |role: &Role, serial: u8, begins: Begins<'_>| {
            let pem = ca.issue((role, &[]), key.public_key_raw(), (LIFE, [serial; 16]), begins).unwrap();
            CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
        };
        let issued = |role: &Role, serial, revoked: &[Revocation]| issued_by(role, serial, Begins::After(revoked));
        let revoked = [Revocation::at(role.clone(), dated_now())];
        let [its, others, after] = [issued(&role, 1, &[]), issued(&other, 2, &revoked), issued(&role, 3, &revoked)];
        ca.issue_own(&folder, (&other, &[]), (LIFE, [4; 16])).unwrap();
        let refused = Err(rustls::Error::InvalidCertificate(rustls::CertificateError::Revoked));
        let judged = |tls: &Tls| [&its, &others, &after].map(|certificate| tls.believes(certificate));
        let tls = Tls::load(folder.files()).unwrap();
        assert_eq!(judged(&tls), [Ok(()), Ok(()), Ok(())]);
        tls.revoke(&revoked);
        assert_eq!(judged(&tls), [refused.clone(), Ok(()), Ok(())]);
        assert_eq!(tls.believes(&issued(&role, 5, &[])), refused, "by a master that has not heard of it");
        let [renewed, renewed_after] = [&its, &after].map(|shown| issued_by(&role, 7, Begins::With(shown)));
        assert_eq!((tls.believes(&renewed), tls.believes(&renewed_after)), (refused.clone(), Ok(())));
        tls.revoke(&[]);
        assert_eq!(judged(&tls), [Ok(()), Ok(()), Ok(())]);
        // The file says the same, and a CA that reads it dates what it issues after that.
        folder.save_cas(&with_revoked(ca.cas(), &revoked)).unwrap();
        assert_eq!(judged(&Tls::load(folder.files()).unwrap()), [refused, Ok(()), Ok(())]);
        let ca = Ca::load(&folder).unwrap();
        ca.issue_own(&folder, (&role, &[]), (LIFE, [6; 16])).unwrap();
        assert_eq!(Tls::load(folder.files()).unwrap().role(), Some(role));
        for wrong in ["Revoked: client/a\n", "x Revoked: client/a 2026-01-01T00:00:00Z\n", "REVOKED:\n"] {
            let why = folder.save_cas(&format!("{wrong}{}", ca.cas())).unwrap_err().to_string();
            assert!(why.contains(wrong.trim()), "{why}");
        }
    }
}
