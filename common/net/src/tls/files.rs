//! The files with certificates, and what is made of them.

use super::ENDS_SOON;
use super::role::{Role, role_of};
use common::audit::{TOLD_CHARS, cleared};
use common::certificate::{Revocation, RevocationError};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, OtherError, RootCertStore};
use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use webpki::{
    CertRevocationList, EndEntityCert, ExpirationPolicy, KeyUsage, OwnedCertRevocationList, RevocationOptionsBuilder,
    UnknownStatusPolicy,
};

/// The beginning of a list of revoked certificates.
const LIST: &[u8] = b"-----BEGIN X509 CRL-----";
/// The beginning of a line that revokes a holder's certificates, in any case.
const REVOKED: &str = "Revoked:";
/// The longest file that is read, in bytes.
const LEN_MAX: u64 = 1 << 20;

/// The files with a program's certificates, in PEM form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificates of the CAs that are believed: one, or while it is exchanged, the old and the new one. Their lists of revoked
    /// certificates, and lines that revoke those of a holder, may stand among them.
    pub ca: PathBuf,
    /// The program's own certificate, followed by those between it and the CA, and its private key. `None`: the program has none, and only
    /// connects to ports that admit anybody.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// The reason why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {why}", .path.display())]
    Unread {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A file holds something else.
    #[error("{} holds no {wanted} in PEM form", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// The thing that was looked for.
        wanted: &'static str,
    },
    /// A list or a line that revokes cannot be read.
    #[error("what {} says is revoked cannot be used: {why}", .path.display())]
    List {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The key is of another kind, or of another certificate.
    #[error("the key in {} cannot be used with the certificate in {}: {why}; give the key that this certificate was issued for", .key.display(), .cert.display())]
    Key {
        /// The key's file.
        key: PathBuf,
        /// The certificate's file.
        cert: PathBuf,
        /// The reason.
        why: String,
    },
    /// The certificate is of somebody else.
    #[error(
        "the certificate in {} is of {}, and this is {own}: its subject's alternative names must hold that URI, and no other uniq://",
        .cert.display(), .found.as_ref().map_or_else(|| "nobody".to_owned(), Role::to_string)
    )]
    Holder {
        /// The certificate's file.
        cert: PathBuf,
        /// The role that it gives.
        found: Option<Role>,
        /// The role that it has to give.
        own: Role,
    },
    /// The certificate would be refused by everybody.
    #[error("the certificate in {} would be refused: {why}; issue one by the CA in {}", .cert.display(), .ca.display())]
    Refused {
        /// The certificate's file.
        cert: PathBuf,
        /// The CA's file.
        ca: PathBuf,
        /// The reason.
        why: String,
    },
}

/// Keys and certificates, made of the files.
pub(super) struct Material {
    /// The files' bytes, by which a change is noticed.
    bytes: Vec<Vec<u8>>,
    roots: RootCertStore,
    /// Lists of revoked certificates, of those CAs that gave one.
    lists: Vec<CertRevocationList<'static>>,
    /// Revocations by holder, whichever CA issued the certificate.
    revoked: Vec<Revocation>,
    pub(super) own: Option<Arc<CertifiedKey>>,
    pub(super) role: Option<Role>,
    /// The end of the own certificate, in seconds since 1970.
    pub(super) ends_s: Option<u64>,
}

/// No key and no certificate in a log.
impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Material").field("role", &self.role).field("ends_s", &self.ends_s).finish_non_exhaustive()
    }
}

impl Material {
    /// Believes that CA alone.
    ///
    /// # Errors
    /// If it is no certificate.
    pub(super) fn believing(ca: &CertificateDer<'_>) -> Result<Self, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(ca.clone().into_owned())?;
        Ok(Self::of(roots))
    }

    /// Believes these CAs, and nothing is revoked.
    fn of(roots: RootCertStore) -> Self {
        let (lists, revoked) = (Vec::new(), Vec::new());
        Self { bytes: Vec::new(), roots, lists, revoked, own: None, role: None, ends_s: None }
    }

    /// Judges a certificate by the CAs, the time and what the file of the CAs revokes.
    ///
    /// # Errors
    /// The reason why it is not believed.
    pub(super) fn judge(
        &self,
        provider: &CryptoProvider,
        (certificate, intermediates): (&CertificateDer<'_>, &[CertificateDer<'_>]),
        usage: KeyUsage,
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        // First, so that nothing else that is wrong with it hides that it is revoked.
        Self::is_not_revoked(&self.revoked, certificate)?;
        let lists: Vec<_> = self.lists.iter().collect();
        // A list that is out of date says more than none, and a CA may have none.
        let revocation = RevocationOptionsBuilder::new(&lists).ok().map(|options| {
            options
                .with_status_policy(UnknownStatusPolicy::Allow)
                .with_expiration_policy(ExpirationPolicy::Ignore)
                .build()
        });
        let end_entity = EndEntityCert::try_from(certificate).map_err(refused)?;
        let algorithms = provider.signature_verification_algorithms.all;
        let (roots, none) = (&self.roots.roots, None);
        let judged = end_entity.verify_for_usage(algorithms, roots, intermediates, now, usage, revocation, none);
        judged.map(drop).map_err(refused)
    }

    /// Judges a certificate by these revocations of holders.
    ///
    /// # Errors
    /// It is revoked.
    pub(super) fn is_not_revoked(
        revoked: &[Revocation],
        certificate: &CertificateDer<'_>,
    ) -> Result<(), rustls::Error> {
        if revoked.is_empty() {
            return Ok(());
        }
        let role = role_of(certificate);
        let before_s = revoked.iter().filter(|one| Some(&one.role) == role.as_ref()).map(Revocation::before_s).max();
        let Some(before_s) = before_s else { return Ok(()) };
        if valid_from_s(certificate) < before_s { Err(CertificateError::Revoked.into()) } else { Ok(()) }
    }

    /// The numbers of CAs, and of lists and lines that revoke.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.roots.len(), self.lists.len() + self.revoked.len())
    }

    /// Tells whether something that a former file revoked is not revoked by this one.
    pub(super) fn revokes_less_than(&self, former: &Self) -> bool {
        let still = |one: &Revocation| self.revoked.iter().any(|it| it.role == one.role && it.before >= one.before);
        self.lists.len() < former.lists.len() || !former.revoked.iter().all(still)
    }

    /// Judges the own certificate as others will: a client's as that of a caller, the others' as that of a server, too. Returns its end, in
    /// seconds since 1970.
    fn check(&self, key: &CertifiedKey, provider: &CryptoProvider) -> Result<u64, rustls::Error> {
        let [end_entity, intermediates @ ..] = &key.cert[..] else {
            return Err(rustls::Error::NoCertificatesPresented);
        };
        let judged = |usage, now| self.judge(provider, (end_entity, intermediates), usage, now);
        judged(KeyUsage::client_auth(), UnixTime::now())?;
        if !matches!(self.role, Some(Role::Client(_))) {
            judged(KeyUsage::server_auth(), UnixTime::now())?;
        }
        // Its end is told by who judges it as if that had passed.
        match judged(KeyUsage::client_auth(), UnixTime::since_unix_epoch(Duration::from_secs(u64::MAX))) {
            Err(rustls::Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
                Ok(not_after.as_secs())
            }
            _ => Ok(u64::MAX),
        }
    }

    /// Warns if the own certificate ends soon.
    pub(super) fn warn_of_its_end(&self) {
        let Some(ends_s) = self.ends_s else { return };
        let left = Duration::from_secs(ends_s.saturating_sub(UnixTime::now().as_secs()));
        if left < ENDS_SOON {
            let hours = left.as_secs() / 3_600;
            tracing::warn!(
                hours,
                "this program's certificate ends: put a new one into its files, which are read while it runs"
            );
        }
    }
}

/// The certificate and its key: one file, so that whoever reads it never sees one of both anew.
const OWN: &str = "own.pem";

impl Files {
    /// The files in a folder that an invitation filled: `ca.pem`, and `own.pem` with the certificate and its key.
    pub fn in_folder(folder: &Path) -> Self {
        let own = folder.join(OWN);
        Self { ca: folder.join("ca.pem"), own: Some((own.clone(), own)) }
    }

    /// The folder in which they are, if it is such a one.
    pub fn folder(&self) -> Option<&Path> {
        let folder = self.ca.parent()?;
        (*self == Self::in_folder(folder)).then_some(folder)
    }

    /// The error of who was given somebody else's certificate.
    pub(super) fn of_another(&self, found: Option<Role>, own: &Role) -> TlsError {
        let cert = self.own.as_ref().map_or(&self.ca, |(cert, _)| cert);
        TlsError::Holder { cert: cert.clone(), found, own: own.clone() }
    }

    /// Reads all of them.
    pub(super) fn read(&self, provider: &Arc<CryptoProvider>) -> Result<Material, TlsError> {
        self.make(self.bytes()?, None, provider).and_then(|(material, fault)| fault.map_or(Ok(material), Err))
    }

    /// As [`Self::read`]; `None`: they are what they were. If nothing is wrong but that the own certificate is over, the CAs and lists are taken
    /// all the same, and the fault is told.
    pub(super) fn read_anew(
        &self,
        provider: &Arc<CryptoProvider>,
        former: &Material,
    ) -> Result<Option<(Material, Option<TlsError>)>, TlsError> {
        let bytes = self.bytes()?;
        if bytes == former.bytes {
            return Ok(None);
        }
        self.make(bytes, Some(former), provider).map(Some)
    }

    fn bytes(&self) -> Result<Vec<Vec<u8>>, TlsError> {
        let own = self.own.iter().flat_map(|(cert, key)| [cert, key]);
        std::iter::once(&self.ca).chain(own).map(|path| read(path)).collect()
    }

    fn make(
        &self,
        bytes: Vec<Vec<u8>>,
        former: Option<&Material>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<(Material, Option<TlsError>), TlsError> {
        let mut material = self.believed(bytes.first().map_or(&[], Vec::as_slice))?;
        if let (Some(paths), [_, cert, key]) = (&self.own, &bytes[..]) {
            let key = certified(paths, cert, key, provider)?;
            material.role = key.end_entity_cert().ok().and_then(role_of);
            match material.check(&key, provider) {
                Ok(ends_s) => (material.own, material.ends_s) = (Some(Arc::new(key)), Some(ends_s)),
                Err(why) => {
                    let former = former.filter(|_| is_over(&why));
                    let (cert, ca) = (paths.0.clone(), self.ca.clone());
                    let fault = TlsError::Refused { cert, ca, why: without_time(why) };
                    let Some(former) = former else { return Err(fault) };
                    // The bytes, too, so that the next look tells it again.
                    (material.bytes, material.own) = (former.bytes.clone(), former.own.clone());
                    (material.role, material.ends_s) = (former.role.clone(), former.ends_s);
                    return Ok((material, Some(fault)));
                }
            }
        }
        Ok((Material { bytes, ..material }, None))
    }

    /// The CAs of the file, and what it revokes.
    fn believed(&self, bytes: &[u8]) -> Result<Material, TlsError> {
        let empty = || TlsError::Empty { path: self.ca.clone(), wanted: "certificate" };
        let unusable = |why| TlsError::List { path: self.ca.clone(), why };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(bytes) {
            roots.add(certificate.map_err(|_| empty())?).map_err(|_| empty())?;
        }
        let mut lists: Vec<CertRevocationList<'static>> = Vec::new();
        for list in CertificateRevocationListDer::pem_slice_iter(bytes) {
            let list = list.map_err(|e| unusable(e.to_string()))?;
            let list: CertRevocationList<'_> =
                OwnedCertRevocationList::from_der(&list).map_err(|e| unusable(e.to_string()))?.into();
            // Of two only one would count, and one of two CAs of that name would not believe the other's list.
            if lists.iter().any(|other| other.issuer() == list.issuer()) {
                return Err(unusable("there are two of one CA: give the newer one alone".to_owned()));
            }
            if roots.roots.iter().filter(|root| root.subject.as_ref() == list.issuer()).count() > 1 {
                return Err(unusable("two CAs have the name of the one that gave it".to_owned()));
            }
            lists.push(list);
        }
        // What stands behind another block in its line is not seen by the reader, and would revoke nothing.
        if bytes.windows(LIST.len()).filter(|window| *window == LIST).count() != lists.len() {
            return Err(unusable("its first line has to stand alone".to_owned()));
        }
        let revoked = revocations(bytes).map_err(unusable)?;
        if roots.is_empty() { Err(empty()) } else { Ok(Material { lists, revoked, ..Material::of(roots) }) }
    }
}

/// The lines of the file of the CAs that revoke a holder's certificates; or which of them does not, and why.
pub(crate) fn revocations(bytes: &[u8]) -> Result<Vec<Revocation>, String> {
    let is_one = |begin: &[u8]| begin.eq_ignore_ascii_case(REVOKED.as_bytes());
    let mut found = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| line.windows(REVOKED.len()).any(is_one)) {
        let text = String::from_utf8_lossy(line);
        let (text, shown) = (text.trim(), cleared(&text, TOLD_CHARS));
        // What stands behind something else in its line would revoke nothing.
        let rest = text.split_at_checked(REVOKED.len()).filter(|(begin, _)| is_one(begin.as_bytes()));
        let (_, rest) = rest.ok_or_else(|| format!("'{shown}': it has to stand alone in its line"))?;
        found.push(rest.parse().map_err(|why: RevocationError| format!("'{shown}': {why}"))?);
    }
    Ok(found)
}

/// The first second in which a certificate is valid, since 1970: whoever judges it by that time says it first, before who issued it.
pub(crate) fn valid_from_s(certificate: &CertificateDer<'_>) -> u64 {
    let (epoch, usage) = (UnixTime::since_unix_epoch(Duration::ZERO), KeyUsage::client_auth());
    let Ok(certificate) = EndEntityCert::try_from(certificate) else { return 0 };
    match certificate.verify_for_usage(&[], &[], &[], epoch, usage, None, None) {
        Err(webpki::Error::CertNotValidYet { not_before, .. }) => not_before.as_secs(),
        _ => 0,
    }
}

/// The file of the CAs with these lines before it.
pub fn with_revoked(cas: &str, revoked: &[Revocation]) -> String {
    let lines: String = revoked.iter().map(|revocation| format!("{REVOKED} {revocation}\n")).collect();
    lines + cas
}

/// The reason as rustls says it, which makes an alert of it.
fn refused(why: webpki::Error) -> rustls::Error {
    use webpki::Error::{
        BadDer, CertExpired, CertNotValidYet, CertRevoked, InvalidSignatureForPublicKey, RequiredEkuNotFoundContext,
        UnknownIssuer,
    };
    rustls::Error::InvalidCertificate(match why {
        CertExpired { time, not_after } => CertificateError::ExpiredContext { time, not_after },
        CertNotValidYet { time, not_before } => CertificateError::NotValidYetContext { time, not_before },
        CertRevoked => CertificateError::Revoked,
        // Of the latter kind is a CA of the same name.
        UnknownIssuer | InvalidSignatureForPublicKey => CertificateError::UnknownIssuer,
        RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        BadDer => CertificateError::BadEncoding,
        other => CertificateError::Other(OtherError(Arc::new(other))),
    })
}

/// Tells whether a certificate was good once: it has expired, or was revoked.
fn is_over(why: &rustls::Error) -> bool {
    use CertificateError::{ExpiredContext, Revoked};
    matches!(why, rustls::Error::InvalidCertificate(ExpiredContext { .. } | Revoked))
}

/// A reason that reads the same at every look.
fn without_time(why: rustls::Error) -> String {
    use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext, Revoked, UnknownIssuer};
    match why {
        rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. }) => "it has expired".to_owned(),
        rustls::Error::InvalidCertificate(NotValidYet | NotValidYetContext { .. }) => "it is not valid yet".to_owned(),
        rustls::Error::InvalidCertificate(Revoked) => "it was revoked".to_owned(),
        rustls::Error::InvalidCertificate(UnknownIssuer) => "it was issued by another CA".to_owned(),
        rustls::Error::InvalidCertificate(CertificateError::Other(why)) => why.to_string(),
        rustls::Error::InvalidCertificate(why) => why.to_string(),
        why => why.to_string(),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(LEN_MAX).read_to_end(&mut bytes));
    let unread = |why: String| TlsError::Unread { path: path.to_owned(), why };
    match read.map_err(|e| unread(e.to_string()))? as u64 {
        LEN_MAX => Err(unread(format!("it has {LEN_MAX} bytes or more"))),
        _ => Ok(bytes),
    }
}

fn certified(
    (cert, key): &(PathBuf, PathBuf),
    chain: &[u8],
    private: &[u8],
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let chain = chain.ok_or_else(|| TlsError::Empty { path: cert.clone(), wanted: "certificate" })?;
    let private = PrivateKeyDer::from_pem_slice(private)
        .map_err(|_| TlsError::Empty { path: key.clone(), wanted: "private key" })?;
    CertifiedKey::from_der(chain, private, provider).map_err(|why| TlsError::Key {
        key: key.clone(),
        cert: cert.clone(),
        why: why.to_string(),
    })
}
