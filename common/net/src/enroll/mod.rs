//! The way of a program to its certificate: by an invitation to the first one, and with that to the next ones, until it is stopped.
//!
//! The program draws its key and sends the public half, so a private key never leaves its machine. The invitation says the SHA-256 of the
//! cluster's CA, so a first connection is as safe as later ones: whoever stands in between has no certificate of that CA.

mod ca;
mod folder;
pub mod invitation;

pub use ca::{Begins, Ca, CaError, Serial};
pub use folder::{SaveError, TlsFolder};
pub use invitation::{Invitation, InvitationRequest, Invited, Secret, Terms};
pub use rcgen::KeyPair;

use crate::rpc::lease::LeaseServiceClient;
use crate::rpc::transport::{CONNECT_TIMEOUT, connect_to_enroll, deadline_in};
use crate::tls::{Files, Role, Tls};
use rustls::pki_types::{CertificateDer, ServerName};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;
use wire::enroll::{EnrollBy, EnrollRefusal, EnrollRequest, Enrolled, NAMES_MAX, TOKEN_LEN_MAX};

/// The longest time between two looks at the CAs, and at how long the own certificate still lasts.
const LOOK_INTERVAL: Duration = Duration::from_secs(3_600);
const LOOK_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// The longest time until the first look,
const FIRST_LOOK: Duration = Duration::from_secs(60);
/// and to the next one when no master answered.
const RETRY_INTERVAL: Duration = Duration::from_secs(300);
/// The parts of a certificate's life between two looks, if that is shorter,
const LOOKS_A_LIFE: u32 = 12;
/// and the part of it that is left when it is renewed: a third.
const RENEWED_AT: u32 = 3;

/// The reason why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum EnrollError {
    /// The master cannot be asked, or is another one.
    #[error("cannot ask the master at {at} for a certificate: {why}")]
    Unasked {
        /// The master's address.
        at: String,
        /// The reason.
        why: String,
    },
    /// The master refuses.
    #[error(transparent)]
    Refused(#[from] EnrollRefusal),
    /// The file with the token of the program's service account cannot be read.
    #[error("cannot read the token in {file}, which the invitation names: {why}; nothing was used up")]
    Token {
        /// The file.
        file: String,
        /// The reason.
        why: String,
    },
    /// No key can be drawn.
    #[error("cannot draw a key: {0}")]
    Key(#[from] rcgen::Error),
    /// The certificate or the CAs that came are not kept.
    #[error("what came for {} is not kept, and what was there is there still: {why}", .folder.display())]
    Unkept {
        folder: PathBuf,
        /// The reason.
        why: SaveError,
    },
    /// The answer is no certificate for this program.
    #[error("the master at {at} issued something else than it was asked for: {why}")]
    Unusable {
        /// The master's address.
        at: String,
        /// The reason.
        why: String,
    },
}

/// The reason why an invitation brought an application no certificate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedeemError {
    /// The text is no invitation, or one for another kind of program. Nothing was used up.
    #[error("{0}")]
    NotForThis(String),
    /// The master gave none, or it cannot be kept. An invitation that was sent may be used up even so.
    #[error("{0}")]
    Failed(String),
}

/// Uses up an invitation of a program of this kind, given as its line, and keeps the certificate in that folder. Says whose it is.
///
/// # Errors
/// [`RedeemError`]
pub async fn redeem_line(
    line: &str,
    folder: &Path,
    kind: &str,
    is_for: impl FnOnce(&Invited) -> bool,
) -> Result<(Role, Files), RedeemError> {
    let invitation = line.parse::<Invitation>().map_err(|why| RedeemError::NotForThis(why.to_string()))?;
    if !is_for(&invitation.invited) {
        let why = format!("this invitation is for {}, and this is {kind}: it is not used up", invitation.invited);
        return Err(RedeemError::NotForThis(why));
    }
    let folder = TlsFolder::new(folder.to_owned());
    let role = redeem(&invitation, &folder).await.map_err(|why| RedeemError::Failed(why.to_string()))?;
    Ok((role, folder.files()))
}

/// Uses an invitation of an agent or a client up, and keeps the certificate in that folder. Says the role that it has.
///
/// # Errors
/// The reason why there is none. An invitation that was sent may be used up even so.
pub async fn redeem(invitation: &Invitation, folder: &TlsFolder) -> Result<Role, EnrollError> {
    let key = KeyPair::generate()?;
    let by = match &invitation.secret {
        Secret::Drawn(_) => EnrollBy::Invitation(invitation.proof()),
        Secret::TokenFile(file) => {
            let file = file.clone();
            let read = tokio::task::spawn_blocking(move || token_in(&file)).await;
            EnrollBy::Token(read.map_err(|why| unusable(&invitation.at, &why.to_string()))??)
        }
    };
    let at = &invitation.at;
    let enrolled = ask(at, &Tls::PLAIN, Some(invitation.ca), request(by, &key)).await?;
    save(enrolled, at, &key, folder, |role| match &invitation.invited {
        Invited::As(invited) => role == invited,
        Invited::Agent => matches!(role, Role::Agent(_)),
        Invited::Client => matches!(role, Role::Client(_)),
    })
}

/// Reads a token. What is none is sent to nobody: an invitation may name any file.
fn token_in(file: &Path) -> Result<String, EnrollError> {
    let wrong = |why: String| EnrollError::Token { file: file.display().to_string(), why };
    let len_max = u64::try_from(TOKEN_LEN_MAX).unwrap_or(u64::MAX);
    let text = common::file::read_text(file, len_max).map_err(|why| wrong(why.to_string()))?;
    let is_base64 =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    match text.trim() {
        token if token.split('.').count() == 3 && token.split('.').all(is_base64) => Ok(token.to_owned()),
        _ => Err(wrong("it is no JSON Web Token".to_owned())),
    }
}

/// Uses an invitation of the other master up: the CA's certificate and those believed beside it, and its private key, in PEM form.
///
/// # Errors
/// As [`redeem`].
pub async fn redeem_as_master(invitation: &Invitation) -> Result<(String, String), EnrollError> {
    let at = &invitation.at;
    // What a master shows it makes itself, by the CA.
    let request = EnrollRequest::Certificate { by: EnrollBy::Invitation(invitation.proof()), public_key: Vec::new() };
    match ask(at, &Tls::PLAIN, Some(invitation.ca), request).await? {
        Enrolled::Ca { cas, key } => Ok((cas, key)),
        Enrolled::Certificate { .. } | Enrolled::Authorities(_) => Err(unusable(at, "a certificate, and not the CA")),
    }
}

/// Renews the certificate in that folder.
///
/// # Errors
/// The reason why it is as it was.
pub async fn renew(at: &str, tls: &Tls, folder: &TlsFolder) -> Result<Role, EnrollError> {
    let key = KeyPair::generate()?;
    let request = request(EnrollBy::Certificate(folder.names()), &key);
    save(ask(at, tls, None, request).await?, at, &key, folder, |role| tls.role().as_ref() == Some(role))
}

/// Keeps the certificate in that folder good until `stop`, if it came by an invitation: brings the CAs and what is revoked
/// up to date, and renews the certificate in time, by one of these masters.
pub async fn keep(folder: TlsFolder, masters: Vec<String>, tls: Tls, stop: CancellationToken) {
    if !folder.is_enrolled() {
        return;
    }
    let mut longest = FIRST_LOOK;
    while let Some(due) = next_look(&folder, &tls, longest, &stop).await {
        longest = RETRY_INTERVAL;
        for at in &masters {
            let done = if due { renew(at, &tls, &folder).await.map(drop) } else { follow(at, &tls, &folder).await };
            let looked = tls.look().await.map_err(|why| unusable(at, &why.to_string()));
            match done.and(looked) {
                Ok(()) if due => tracing::info!(master = %at, "the certificate was renewed"),
                Ok(()) => {}
                Err(why) => {
                    tracing::warn!(%why, "the certificate is as it was; another master, or the next look, may do it");
                    continue;
                }
            }
            longest = LOOK_INTERVAL;
            break;
        }
    }
}

/// Waits until the certificate in that folder is to be looked at, so long at most. Says whether it is to be renewed: a third of its life is
/// left. `None`: it is over.
pub async fn next_look(folder: &TlsFolder, tls: &Tls, longest: Duration, stop: &CancellationToken) -> Option<bool> {
    let life = folder.age().unwrap_or_default() + tls.remaining().unwrap_or(LOOK_INTERVAL);
    let pause = (life / LOOKS_A_LIFE).clamp(LOOK_INTERVAL_MIN, longest);
    // Those who were started together do not ask together.
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().subsec_nanos();
    let pause = pause / 2 + (pause / 2).mul_f64(f64::from(nanos) / 1e9);
    stop.run_until_cancelled(tokio::time::sleep(pause)).await?;
    Some(tls.remaining().is_some_and(|remaining| remaining < life / RENEWED_AT))
}

/// Tells whether a text is a DNS name or an IP address that a certificate can have.
pub fn is_name(name: &str) -> bool {
    !name.ends_with('.') && ServerName::try_from(name).is_ok()
}

/// Tells whether an invitation can say these names: there is room for those that are added when it is used.
pub fn are_names(names: &[String]) -> bool {
    names.len() <= NAMES_MAX / 2 && names.iter().all(|name| is_name(name))
}

/// Tells whether a certificate has that DNS name or IP address.
pub fn is_of(certificate: &CertificateDer<'_>, name: &str) -> bool {
    let name = ServerName::try_from(name);
    let certificate = webpki::EndEntityCert::try_from(certificate);
    certificate.is_ok_and(|it| name.is_ok_and(|name| it.verify_is_valid_for_subject_name(&name).is_ok()))
}

async fn follow(at: &str, tls: &Tls, folder: &TlsFolder) -> Result<(), EnrollError> {
    match ask(at, tls, None, EnrollRequest::Authorities).await? {
        Enrolled::Authorities(cas) => folder.save_cas(&cas).map_err(|why| unkept(folder, why)),
        _ => Err(unusable(at, "something else than the CAs")),
    }
}

async fn connected(at: &str, tls: &Tls, ca: Option<[u8; 32]>) -> Result<LeaseServiceClient, EnrollError> {
    let hint = "is it running, reached at its --agent-listen, and of the cluster that made the invitation? Nothing was used up";
    let unasked = |why: io::Error| EnrollError::Unasked { at: at.to_owned(), why: format!("{why}; {hint}") };
    let connection = connect_to_enroll(at, tls, ca).await.map_err(unasked)?;
    Ok(LeaseServiceClient::new(tarpc::client::Config::default(), connection).spawn())
}

async fn ask(at: &str, tls: &Tls, ca: Option<[u8; 32]>, request: EnrollRequest) -> Result<Enrolled, EnrollError> {
    let answer = connected(at, tls, ca).await?.enroll(deadline_in(CONNECT_TIMEOUT), request).await;
    let hint = "is that its --agent-listen, and if a certificate is renewed, is it neither revoked nor over?";
    Ok(answer.map_err(|why| EnrollError::Unasked { at: at.to_owned(), why: format!("{why}; {hint}") })??)
}

/// A request for a certificate of that key.
fn request(by: EnrollBy, key: &KeyPair) -> EnrollRequest {
    EnrollRequest::Certificate { by, public_key: key.public_key_raw().to_vec() }
}

fn unusable(at: &str, why: &str) -> EnrollError {
    EnrollError::Unusable { at: at.to_owned(), why: why.to_owned() }
}

fn unkept(folder: &TlsFolder, why: SaveError) -> EnrollError {
    EnrollError::Unkept { folder: folder.path().to_owned(), why }
}

/// Keeps a certificate in the folder, and says whose it is.
fn save(
    enrolled: Enrolled,
    at: &str,
    key: &KeyPair,
    folder: &TlsFolder,
    is_expected: impl FnOnce(&Role) -> bool,
) -> Result<Role, EnrollError> {
    let Enrolled::Certificate { certificate, cas, names } = enrolled else {
        return Err(unusable(at, "the CA, which is for masters: use this invitation with uniq_master"));
    };
    folder.save((&certificate, key), &cas, &names, is_expected).map_err(|why| unkept(folder, why))
}
