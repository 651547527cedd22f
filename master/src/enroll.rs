//! Certificates that a master issues to who is invited or has one, and its own.

use crate::driver::{Counters, Driver, Refused};
use crate::invitations::{Invitations, id_of};
use crate::lease::{Event, Reply};
use crate::tokens::TokenFlags;
use common::audit::{Action, Actor, Note, RefusedAt};
use common::certificate::Revocation;
use common::clock::Clock;
use common::parameters::AgentId;
use net::enroll::invitation::hex;
use net::enroll::{self, Begins, Ca, CaError, Invited, TlsFolder, next_look};
use net::rpc::enroll::{
    CAS_LEN_MAX, EnrollBy, EnrollRefusal, EnrollRequest, Enrolled, NAME_LEN_MAX, NAMES_MAX, TOKEN_LEN_MAX,
};
use net::tls::{Remote, Role, Tls, with_revoked};
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// The longest time between two looks at this master's own certificate.
const LOOK_INTERVAL: Duration = Duration::from_secs(3_600);
/// Certificates that are issued at the same time.
const ISSUED_AT_ONCE: usize = 4;
/// Certificates that a holder gets by renewals and tokens within the life of one.
const ISSUED_MAX: u32 = 64;
/// Holders whose certificates are counted; beyond them the count begins anew.
const HOLDERS_MAX: usize = 65_536;
/// Tries to write a line of the audit while the ledger has much to do, and the pause between two.
const NOTES_TRIED: u32 = 20;
const NOTE_PAUSE: Duration = Duration::from_millis(100);

/// The issuing of certificates by a running master.
#[derive(Clone)]
pub struct Enrollment(Arc<Issuing>);

/// The role of a certificate, and for a first one the invitation or the pod that got it.
type Issued = (Role, Option<String>);

struct Issuing {
    folder: TlsFolder,
    invitations: Invitations,
    tokens: TokenFlags,
    places: Arc<Semaphore>,
    tls: Tls,
    clock: Clock,
    life: Duration,
    driver: Driver,
    counters: Arc<Counters>,
    /// Certificates that each holder got by renewals and tokens since that moment.
    recent: Mutex<(Instant, HashMap<Role, u32>)>,
}

impl Enrollment {
    /// Certificates of this life, issued by the CA in that folder to who was invited or has a token.
    pub fn new(
        folder: TlsFolder,
        (invitations, tokens): (Invitations, TokenFlags),
        tls: Tls,
        (clock, life): (Clock, Duration),
        (driver, counters): (Driver, Arc<Counters>),
    ) -> Self {
        let places = Arc::new(Semaphore::new(ISSUED_AT_ONCE));
        let recent = Mutex::new((Instant::now(), HashMap::new()));
        Self(Arc::new(Issuing { folder, invitations, tokens, places, tls, clock, life, driver, counters, recent }))
    }

    /// Answers who came for a certificate.
    ///
    /// # Errors
    /// The reason why it gets none.
    pub async fn answer(&self, request: EnrollRequest, remote: Remote) -> Result<Enrolled, EnrollRefusal> {
        let from = remote.from;
        // A first certificate is given with its line of the audit alone.
        let is_first =
            matches!(&request, EnrollRequest::Certificate { by: EnrollBy::Invitation(_) | EnrollBy::Token(_), .. });
        let mut issued = match is_first && self.0.driver.is_full() {
            true => Err(EnrollRefusal::DiskFull),
            false => self.with(move |issuing| issuing.answer(&request, &remote)).await,
        };
        if let Ok((Some((role, Some(by))), _)) = &issued
            && let Err(why) = self.note(role, by, from).await
        {
            issued = Err(why);
        }
        match &issued {
            Ok((Some((role, _)), _)) => {
                self.0.counters.certificates_issued.fetch_add(1, Relaxed);
                tracing::info!(%from, %role, "issued a certificate");
            }
            Ok((None, _)) => {}
            Err(why) => {
                self.0.counters.certificates_refused.fetch_add(1, Relaxed);
                let who = Actor::new("somebody", &from.ip().to_canonical().to_string());
                self.0.counters.refusals.count(RefusedAt::Certificates, who, why.to_string());
                tracing::warn!(%from, %why, "issued no certificate");
            }
        }
        issued.map(|(_, enrolled)| enrolled)
    }

    /// Writes into the audit who gets a certificate by which invitation or token, before anybody has it.
    async fn note(&self, role: &Role, by: &str, from: SocketAddr) -> Result<(), EnrollRefusal> {
        let actor = Actor::new(by, &from.ip().to_canonical().to_string());
        let mut note = Note::new(actor, Action::Certify, role.path());
        if matches!(role, Role::Master(_)) {
            note.detail = "with the key of the CA".to_owned();
        }
        // An invitation is used up by now: so it is tried for a while.
        for _ in 0..NOTES_TRIED {
            let note = Some(note.clone());
            match self.0.driver.ask(move |id| Event::KeepLogins { id, logins: Vec::new(), note }).await {
                Ok(Reply::Kept) => return Ok(()),
                Err(Refused::Overloaded) => tokio::time::sleep(NOTE_PAUSE).await,
                Err(why) => return Err(EnrollRefusal::NotAudited(why.to_string())),
                Ok(_) => break,
            }
        }
        Err(EnrollRefusal::NotAudited(Refused::Overloaded.to_string()))
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Issuing) -> Result<T, EnrollRefusal> + Send + 'static,
    ) -> Result<T, EnrollRefusal> {
        // Connections that come for a certificate are few, and end soon.
        let place = Arc::clone(&self.0.places).acquire_owned().await.map_err(|_| EnrollRefusal::Overloaded)?;
        let issuing = Arc::clone(&self.0);
        let work = tokio::task::spawn_blocking(move || {
            let _until_done = place;
            work(&issuing)
        });
        work.await.map_err(|_| EnrollRefusal::Overloaded)?
    }
}

impl Issuing {
    /// Read anew each time, so that an exchange of the CA needs no restart.
    fn ca(&self) -> Result<Ca, EnrollRefusal> {
        let no_ca = |why: String| EnrollRefusal::NoCa(why);
        let ca = Ca::load(&self.folder).map_err(|why| no_ca(why.to_string()))?;
        match ca.cas().len() {
            0..=CAS_LEN_MAX => Ok(ca),
            len => Err(no_ca(format!("ca.pem has {len} bytes, and {CAS_LEN_MAX} are passed on at most"))),
        }
    }

    /// The answer, with the role that a certificate was issued to and what it is known by in the audit, if it is a first one.
    fn answer(&self, request: &EnrollRequest, remote: &Remote) -> Result<(Option<Issued>, Enrolled), EnrollRefusal> {
        match request {
            EnrollRequest::Certificate { by, public_key } => {
                let (issued, enrolled) = self.issue(by, public_key, remote)?;
                Ok((Some(issued), enrolled))
            }
            EnrollRequest::Authorities if remote.role().is_some() => {
                Ok((None, Enrolled::Authorities(with_revoked(self.ca()?.cas(), &self.tls.revoked()))))
            }
            EnrollRequest::Authorities => Err(EnrollRefusal::Certificate("there is none".to_owned())),
        }
    }

    fn issue(&self, by: &EnrollBy, public_key: &[u8], remote: &Remote) -> Result<(Issued, Enrolled), EnrollRefusal> {
        let ca = self.ca()?;
        let address = remote.from.ip();
        let all = |names: Vec<String>| {
            let own = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
            let names: BTreeSet<String> =
                names.into_iter().chain(own).chain([address.to_canonical().to_string()]).collect();
            names.into_iter().collect()
        };
        let (shown, revoked) = (remote.newcomer().flatten(), self.tls.revoked());
        let (role, names, by) = match by {
            EnrollBy::Certificate(names) => {
                let (role, names) = self.renewed(remote, names)?;
                self.again(&role)?;
                (role, names, None)
            }
            EnrollBy::Invitation(proof) => {
                let terms = self.invitations.take(proof, address, self.clock.wall())?;
                (named(terms.invited)?, all(terms.names), Some(format!("invitation {}", id_of(proof))))
            }
            EnrollBy::Token(token) if token.len() > TOKEN_LEN_MAX => {
                return Err(EnrollRefusal::Token(format!("it has more than {TOKEN_LEN_MAX} bytes")));
            }
            EnrollBy::Token(token) => {
                let pod = self.tokens.pod(token).map_err(EnrollRefusal::Token)?;
                let is_newer = |it: &Revocation| it.role == pod.role && it.before_s() > pod.issued_s;
                if revoked.iter().chain(ca.revoked()).any(is_newer) {
                    let why = "it is older than the revocation of its pod's certificates: show a newer one";
                    return Err(EnrollRefusal::Token(why.to_owned()));
                }
                self.again(&pod.role)?;
                (pod.role, all(pod.names), Some(format!("pod of {}", pod.account)))
            }
        };
        if matches!(role, Role::Master(_)) {
            // What both masters hold to be revoked it learns when it joins.
            return Ok(((role, by), Enrolled::Ca { cas: ca.cas().to_owned(), key: ca.key() }));
        }
        let cas = with_revoked(ca.cas(), &revoked);
        let begins = match shown {
            Some(shown) if by.is_none() => Begins::With(shown),
            _ => Begins::After(&revoked),
        };
        let issued = ca.issue((&role, &names), public_key, (self.life, rand::random()), begins);
        let certificate = issued.map_err(|why| match why {
            CaError::PublicKey => EnrollRefusal::Key,
            why => EnrollRefusal::NoCa(why.to_string()),
        })?;
        Ok(((role, by), Enrolled::Certificate { certificate, cas, names }))
    }

    /// Counts a certificate of who may ask for as many as it likes.
    fn again(&self, role: &Role) -> Result<(), EnrollRefusal> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, of) = &mut *recent;
        if since.elapsed() >= self.life || of.len() >= HOLDERS_MAX {
            (*since, *of) = (Instant::now(), HashMap::new());
        }
        let count = of.entry(role.clone()).or_default();
        if *count >= ISSUED_MAX {
            return Err(EnrollRefusal::TooMany { holder: role.path(), max: ISSUED_MAX });
        }
        *count += 1;
        Ok(())
    }

    /// The role and the names of a certificate that is to be renewed: those that it has. It may have been revoked since it was shown.
    fn renewed(&self, remote: &Remote, names: &[String]) -> Result<(Role, Vec<String>), EnrollRefusal> {
        let wrong = |why: &str| EnrollRefusal::Certificate(why.to_owned());
        let shown = remote.newcomer().flatten().ok_or_else(|| wrong("there is none"))?;
        self.tls.believes(shown).map_err(|why| wrong(&why.to_string()))?;
        let role = remote.role().ok_or_else(|| wrong("it gives no role"))?;
        if matches!(role, Role::Master(_)) {
            return Err(wrong("a master renews its own"));
        }
        if names.len() > NAMES_MAX || names.iter().any(|name| name.len() > NAME_LEN_MAX) {
            return Err(wrong(&format!(
                "it has more than {NAMES_MAX} names, or longer ones than {NAME_LEN_MAX} bytes"
            )));
        }
        if let Some(other) = names.iter().find(|name| !enroll::is_of(shown, name)) {
            return Err(wrong(&format!("it is not of '{other}'")));
        }
        Ok((role.clone(), names.to_vec()))
    }
}

/// The role that an invitation gives; names that it does not say are drawn, so that nobody takes another's.
fn named(invited: Invited) -> Result<Role, EnrollRefusal> {
    let drawn = |kind: &str| {
        let random: [u8; 6] = rand::random();
        format!("{kind}-{}", hex(&random)).parse::<AgentId>().map_err(|why| EnrollRefusal::NoCa(why.to_string()))
    };
    Ok(match invited {
        Invited::As(role) => role,
        Invited::Agent => Role::Agent(drawn("agent")?),
        Invited::Client => Role::Client(drawn("client")?),
    })
}

/// Renews a master's own certificate in time, until `stop`.
pub async fn keep_own(
    folder: TlsFolder,
    (role, names): (Role, Vec<String>),
    tls: Tls,
    life: Duration,
    stop: CancellationToken,
) {
    while next_look(&folder, &tls, LOOK_INTERVAL, &stop).await.is_some() {
        let (folder, role, names) = (folder.clone(), role.clone(), names.clone());
        let ensure = move || ensure_own(&folder, &role, &names, life);
        let ensured = match tokio::task::spawn_blocking(ensure).await {
            Ok(Ok(true)) => tls.look().await.map_err(anyhow::Error::from).map(|()| true),
            Ok(ensured) => ensured,
            Err(_) => return,
        };
        match ensured {
            Ok(true) => tracing::info!("this master's certificate was renewed"),
            Ok(false) => {}
            Err(why) => tracing::error!("this master's certificate cannot be renewed: {why:#}"),
        }
    }
}

/// Issues a master's own certificate anew if it has none, if it ends soon, or if it is of other names or another CA. Says whether it did.
///
/// # Errors
/// The reason why there is none.
pub fn ensure_own(folder: &TlsFolder, role: &Role, names: &[String], life: Duration) -> anyhow::Result<bool> {
    let ca = Ca::load(folder)?;
    let good = |tls: Tls| tls.role().as_ref() == Some(role) && tls.remaining().is_some_and(|left| left > life / 3);
    let is_by_it = folder.end_of_chain().as_ref() == Some(ca.own());
    if is_by_it && folder.names() == names && Tls::load(folder.files()).is_ok_and(good) {
        return Ok(false);
    }
    ca.issue_own(folder, (role, names), (life, rand::random()))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_an_invitation_does_not_say_are_drawn() {
        let [one, other] = [named(Invited::Agent).unwrap(), named(Invited::Agent).unwrap()];
        assert!(one != other && one.to_string().starts_with("uniq://agent/agent-"));
        assert!(named(Invited::Client).unwrap().to_string().starts_with("uniq://client/client-"));
    }
}
