//! TLS 1.3 (1.2 for old callers, where a program is told so) on every port and every connection between our programs, by certificates of one CA.
//!
//! A certificate says who its holder is, by one URI among the subject's alternative names: `uniq://master/1`,
//! `uniq://agent/NAME` or `uniq://client/NAME`. A port says which of them it [admits](Admits), and whoever connects says whom it
//! expects: between our programs the role counts and not the address, because an address says nothing about who may be there.
//! Browsers and other HTTP clients compare the address as usual, with the certificate's DNS names and addresses.
//!
//! The files are [read again](Tls::reload) while the program runs. No session is resumed: a handshake is judged by the certificates
//! of that moment, and a program connects rarely.

mod files;
mod role;
mod stream;
mod verify;

pub use files::{Files, TlsError, with_revoked};
pub(crate) use files::{revocations, valid_from_s};
pub use role::{Admits, Role, role_of};
pub use stream::{ClientStream, Listener, Remote, Stream};

use common::certificate::Revocation;
use common::metrics::{Series, counter, gauges};
use common::time::{SECOND_MS, WallMs};
use files::Material;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::version::TLS13;
use rustls::{CipherSuite, ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use verify::Verifier;
pub use verify::fingerprint;
use webpki::KeyUsage;

/// The interval at which the files are looked at.
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);
/// The remaining life of a certificate from which on the log warns.
const ENDS_SOON: Duration = Duration::from_secs(7 * 86_400);
/// The looks at the files between two such warnings: six hours.
const LOOKS_A_WARNING: u64 = 6 * 3_600 / RELOAD_INTERVAL.as_secs();

/// The protocol (ALPN) of who comes for a certificate.
const ENROLL: &[u8] = b"uniq-enroll";

static TLS13_ALONE: &[&SupportedProtocolVersion] = &[&TLS13];

static HANDSHAKES_FAILED: AtomicU64 = AtomicU64::new(0);
static RELOADS_FAILED: AtomicU64 = AtomicU64::new(0);
/// The end of the certificate of this master or agent, in seconds since 1970; 0: it has none.
static OWN_ENDS_S: AtomicU64 = AtomicU64::new(0);

/// The way in which a program speaks on its connections: with certificates, or plain TCP.
#[derive(Clone, Debug)]
pub struct Tls(Option<Arc<Current>>);

/// The certificates that are in use.
#[derive(Debug)]
struct Current {
    files: Files,
    provider: Arc<CryptoProvider>,
    /// The versions that ports speak.
    versions: &'static [&'static SupportedProtocolVersion],
    material: RwLock<Arc<Material>>,
    /// Revocations that the program was told of, beside those in the file of the CAs.
    told: RwLock<Arc<[Revocation]>>,
    /// Grows when a certificate that was believed may be revoked: open connections are judged anew then.
    revision: AtomicU64,
    /// The moment of the first look at the files,
    looked: Instant,
    /// and of the last one of [`Tls::look_now_and_then`], in milliseconds since then.
    looked_ms: AtomicU64,
}

impl Current {
    fn material(&self) -> Arc<Material> {
        Arc::clone(&self.material.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn told(&self) -> Arc<[Revocation]> {
        Arc::clone(&self.told.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Judges a certificate by the CAs and all that is revoked at this moment.
    fn judge(
        &self,
        chain: (&CertificateDer<'_>, &[CertificateDer<'_>]),
        usage: KeyUsage,
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        Material::is_not_revoked(&self.told(), chain.0)?;
        self.material().judge(&self.provider, chain, usage, now)
    }
}

impl Tls {
    /// Plain TCP: nobody is known, and everybody who reaches a port may use it.
    pub const PLAIN: Self = Self(None);

    /// Certificates in these files.
    ///
    /// # Errors
    /// The reason why they cannot be used, with the remedy.
    pub fn load(files: Files) -> Result<Self, TlsError> {
        let provider = Arc::new(provider());
        let material = RwLock::new(Arc::new(files.read(&provider)?));
        Ok(Self(Some(Arc::new(Current {
            files,
            provider,
            versions: TLS13_ALONE,
            material,
            told: RwLock::new(Arc::from([])),
            revision: AtomicU64::new(0),
            looked: Instant::now(),
            looked_ms: AtomicU64::new(0),
        }))))
    }

    /// The same, whose ports speak TLS 1.2, too.
    #[must_use]
    pub fn with_tls12(mut self) -> Self {
        if let Some(current) = self.0.as_mut().and_then(Arc::get_mut) {
            current.versions = rustls::ALL_VERSIONS;
        }
        self
    }

    /// The same, whose own certificate has to be of this holder.
    ///
    /// # Errors
    /// As [`Self::load`], and [`TlsError::Holder`].
    pub fn load_for(files: Files, own: &Role) -> Result<Self, TlsError> {
        let tls = Self::load(files.clone())?;
        match tls.role() {
            Some(role) if role == *own => {
                tls.0.iter().for_each(|current| OWN_ENDS_S.store(current.material().ends_s.unwrap_or(0), Relaxed));
                Ok(tls)
            }
            found => Err(files.of_another(found, own)),
        }
    }

    /// Tells whether it is plain TCP.
    pub fn is_plain(&self) -> bool {
        self.0.is_none()
    }

    /// The same, or plain TCP where a listener says so.
    pub fn unless(&self, plain: bool) -> Self {
        if plain { Self::PLAIN } else { self.clone() }
    }

    /// The scheme of its HTTP addresses.
    pub fn scheme(&self) -> &'static str {
        if self.is_plain() { "http" } else { "https" }
    }

    /// Judges a certificate of a caller by the CAs, the lists and the time of this moment.
    ///
    /// # Errors
    /// The reason why it is not believed.
    pub fn believes(&self, certificate: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        let Some(current) = &self.0 else { return Err(rustls::Error::NoCertificatesPresented) };
        current.judge((certificate, &[]), KeyUsage::client_auth(), UnixTime::now())
    }

    /// Believes none of these any more, beside what the file of the CAs revokes; connections of their holders end at the next byte that comes
    /// or goes.
    pub fn revoke(&self, revoked: &[Revocation]) {
        let Some(current) = &self.0 else { return };
        if *current.told() != *revoked {
            *current.told.write().unwrap_or_else(PoisonError::into_inner) = Arc::from(revoked);
            current.revision.fetch_add(1, Relaxed);
        }
    }

    /// A number that is another one after a certificate that was believed may have been revoked: connections that were made before may lead to
    /// who is not believed any more.
    pub fn revision(&self) -> u64 {
        self.0.as_ref().map_or(0, |current| current.revision.load(Relaxed))
    }

    /// The revocations that it was [told](Self::revoke) of.
    pub fn revoked(&self) -> Arc<[Revocation]> {
        self.0.as_ref().map_or_else(|| Arc::from([]), |current| current.told())
    }

    /// Time until the program's own certificate ends.
    pub fn remaining(&self) -> Option<Duration> {
        let ends_s = self.0.as_ref()?.material().ends_s?;
        Some(Duration::from_secs(ends_s.saturating_sub(UnixTime::now().as_secs())))
    }

    /// The role in the program's own certificate.
    pub fn role(&self) -> Option<Role> {
        self.0.as_ref()?.material().role.clone()
    }

    /// A port that admits these callers, if there are certificates by which to know them.
    ///
    /// # Errors
    /// `InvalidInput` if the certificates cannot be used for it.
    pub fn port(&self, tcp: TcpListener, admits: Admits) -> io::Result<Listener> {
        match &self.0 {
            Some(current) => current.secured(tcp, admits),
            None => Ok(Listener::from(tcp)),
        }
    }

    /// The same, where whoever shows no certificate is let in, too, while `open` is true: to show something else.
    ///
    /// # Errors
    /// As [`Self::port`].
    pub fn port_open_while(&self, tcp: TcpListener, admits: Admits, open: Arc<AtomicBool>) -> io::Result<Listener> {
        let Some(current) = &self.0 else { return Ok(Listener::from(tcp)) };
        let anybody = current.server_config(Admits::Open)?;
        Ok(current.secured(tcp, admits)?.admitting_anybody(anybody, open))
    }

    /// The same, where others may come for a certificate, too: who says so in its greeting.
    ///
    /// # Errors
    /// As [`Self::port`].
    pub fn port_to_enroll(&self, tcp: TcpListener, admits: Admits) -> io::Result<Listener> {
        let Some(current) = &self.0 else { return Ok(Listener::from(tcp)) };
        let mut newcomers = current.server_config(Admits::Newcomers)?;
        newcomers.alpn_protocols = vec![ENROLL.to_vec()];
        Ok(current.secured(tcp, admits)?.admitting_newcomers(newcomers))
    }

    /// The handshake of who comes to a master for a certificate: it knows the master by that CA's SHA-256, or by the certificates it has.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn connect_to_enroll(&self, io: TcpStream, ca: Option<[u8; 32]>) -> io::Result<ClientStream> {
        let mut config = match ca {
            Some(ca) => {
                let provider = Arc::new(provider());
                let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
                let builder = builder.with_protocol_versions(TLS13_ALONE).map_err(invalid)?.dangerous();
                builder.with_custom_certificate_verifier(Arc::new(Verifier::pinned(provider, ca))).with_no_client_auth()
            }
            None => self.client_config(Admits::Masters)?,
        };
        (config.alpn_protocols, config.resumption) = (vec![ENROLL.to_vec()], Resumption::disabled());
        let address: IpAddr = io.peer_addr()?.ip();
        let connector = TlsConnector::from(Arc::new(config));
        Ok(Either::Right(connector.connect(ServerName::from(address), io).await?))
    }

    /// The handshake of who connected, and expects somebody of that role at the other end.
    ///
    /// # Errors
    /// An error of the network, or `InvalidData` if somebody else is there. That we are refused shows at the first answer.
    pub async fn connect(&self, io: TcpStream, expected: Admits) -> io::Result<ClientStream> {
        if self.is_plain() {
            return Ok(Either::Left(io));
        }
        let address: IpAddr = io.peer_addr()?.ip();
        let connector = TlsConnector::from(Arc::new(self.client_config(expected)?));
        Ok(Either::Right(connector.connect(ServerName::from(address), io).await?))
    }

    /// The configuration for a library that makes its own connections to somebody of that role. With plain TCP it believes nobody.
    ///
    /// # Errors
    /// `InvalidInput` if the certificates cannot be used for it.
    pub fn client_config(&self, expected: Admits) -> io::Result<ClientConfig> {
        let provider = match &self.0 {
            Some(current) => Arc::clone(&current.provider),
            None => Arc::new(provider()),
        };
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(TLS13_ALONE).map_err(invalid)?;
        let mut config = match &self.0 {
            Some(current) => {
                let verifier = Arc::new(Verifier::new(Arc::clone(current), expected));
                let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
                builder.with_client_cert_resolver(Arc::clone(current) as _)
            }
            None => builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth(),
        };
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    /// Looks at the files beside the caller's work if the last look is a while ago: for who has no task of its own. What cannot be used changes
    /// nothing.
    pub fn look_now_and_then(&self) {
        let Some(current) = &self.0 else { return };
        let now_ms = u64::try_from(current.looked.elapsed().as_millis()).unwrap_or(u64::MAX);
        let before = current.looked_ms.load(Relaxed);
        let due = now_ms.saturating_sub(before) >= RELOAD_INTERVAL.as_millis() as u64;
        if due && current.looked_ms.compare_exchange(before, now_ms, Relaxed, Relaxed).is_ok() {
            let looking = Arc::clone(current);
            tokio::task::spawn_blocking(move || {
                if let Err(why) = looking.look() {
                    tracing::warn!(%why, "the certificates have changed and cannot be used; those before are kept");
                }
            });
        }
    }

    /// Uses what the files hold now: for who has just written them.
    ///
    /// # Errors
    /// The files cannot be used, and change nothing.
    pub async fn look(&self) -> Result<(), TlsError> {
        let Some(current) = self.0.clone() else { return Ok(()) };
        let looked = tokio::task::spawn_blocking(move || current.look()).await;
        looked.unwrap_or(Ok(false)).map(drop)
    }

    /// Looks at the files again and again until `stop`, and uses what they hold then. Files that cannot be used are told once and change nothing.
    pub async fn reload(self, stop: CancellationToken) {
        let Some(current) = self.0 else { return };
        let (mut unusable, mut looks) = (None, 0_u64);
        loop {
            if looks.is_multiple_of(LOOKS_A_WARNING) {
                current.material().warn_of_its_end();
            }
            looks += 1;
            if stop.run_until_cancelled(tokio::time::sleep(RELOAD_INTERVAL)).await.is_none() {
                return;
            }
            let looking = Arc::clone(&current);
            let Ok(found) = tokio::task::spawn_blocking(move || looking.look()).await else { continue };
            match found {
                Ok(false) => unusable = None,
                Ok(true) => {
                    unusable = None;
                    let (cas, revocations) = current.material().counts();
                    tracing::info!(cas, revocations, "the certificates were read again, and are used from now on");
                }
                Err(why) => {
                    let why = why.to_string();
                    if unusable.as_ref() != Some(&why) {
                        RELOADS_FAILED.fetch_add(1, Relaxed);
                        tracing::error!(%why, "the certificates have changed and cannot be used; those before are kept");
                    }
                    unusable = Some(why);
                }
            }
        }
    }
}

impl Current {
    /// A port that admits these callers.
    fn secured(self: &Arc<Self>, tcp: TcpListener, admits: Admits) -> io::Result<Listener> {
        Ok(Listener::secured(tcp, self.server_config(admits)?, Arc::clone(self)))
    }

    fn server_config(self: &Arc<Self>, admits: Admits) -> io::Result<ServerConfig> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider));
        let builder = builder.with_protocol_versions(self.versions).map_err(invalid)?;
        let builder = match admits {
            Admits::Anyone => builder.with_no_client_auth(),
            admits => builder.with_client_cert_verifier(Arc::new(Verifier::new(Arc::clone(self), admits))),
        };
        let mut config = builder.with_cert_resolver(Arc::clone(self) as _);
        config.ignore_client_order = true;
        // Of TLS 1.2 only what binds a session to its handshake (RFC 7627).
        config.require_ems = true;
        (config.session_storage, config.send_tls13_tickets) = (Arc::new(NoServerSessionStorage {}), 0);
        Ok(config)
    }

    /// Takes over what has changed. Says whether anything has.
    fn look(&self) -> Result<bool, TlsError> {
        let former = self.material();
        let Some((material, fault)) = self.files.read_anew(&self.provider, &former)? else { return Ok(false) };
        if let Some(own) = former.role.as_ref().filter(|own| material.role.as_ref() != Some(own)) {
            return Err(self.files.of_another(material.role, own));
        }
        if material.revokes_less_than(&former) {
            tracing::warn!(
                "something that was revoked is not revoked any more by the file of the CAs: it was taken back, or an older file was put back"
            );
        }
        if matches!(material.role, Some(Role::Master(_) | Role::Agent(_))) {
            OWN_ENDS_S.store(material.ends_s.unwrap_or(0), Relaxed);
        }
        *self.material.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(material);
        self.revision.fetch_add(1, Relaxed);
        fault.map_or(Ok(true), Err)
    }
}

/// The time by which certificates are dated: the calendar of this machine, also where a program runs by a test clock.
pub fn dated_now() -> WallMs {
    WallMs(i64::try_from(UnixTime::now().as_secs()).unwrap_or(i64::MAX).saturating_mul(SECOND_MS))
}

/// Counts of handshakes and reloads that failed, and the end of this program's certificate.
pub const SERIES: &[Series<()>] = &[
    counter(
        "uniq_tls_handshake_failures_total",
        "Connections that ended in the TLS handshake: no certificate, one that is not believed, or one of a role that has no business there.",
        |()| HANDSHAKES_FAILED.load(Relaxed),
    ),
    counter("uniq_tls_reload_failures_total", "Changes of the certificates' files that could not be used.", |()| {
        RELOADS_FAILED.load(Relaxed)
    }),
    gauges(
        "uniq_tls_certificate_end_seconds",
        "The end of this program's certificate, in seconds since 1970; not there with plain TCP.",
        &[],
        |(), out| match OWN_ENDS_S.load(Relaxed) {
            0 => {}
            ends_s => out.of([], ends_s),
        },
    ),
];

/// The cipher suites, those first that cost least where the processor has AES. Those of TLS 1.2 encrypt and authenticate at once, under keys
/// that no later theft of a certificate's key gives away.
pub(crate) fn provider() -> CryptoProvider {
    use CipherSuite::{
        TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS13_AES_128_GCM_SHA256,
    };
    const FIRST: [CipherSuite; 3] =
        [TLS13_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256];
    let mut provider = ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| !FIRST.contains(&suite.suite()));
    provider
}

fn invalid(why: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
