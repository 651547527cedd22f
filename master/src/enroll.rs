//! Certificates for who is invited: invitations on this master's disk, and what is issued for them.
//!
//! An invitation is a file in the folder of certificates, named by a hash, so that who reads the folder has no invitation. It is removed, durably,
//! before anything is issued for it; a crash between the two costs the invitation and never gives two certificates. A copy of the disk has a
//! copy of the invitations, which is why they end.

use crate::driver::Counters;
use common::clock::Clock;
use common::file;
use common::parameters::AgentId;
use common::time::WallMs;
use net::enroll::invitation::hex;
use net::enroll::{self, Ca, CaError, Invited, TlsFolder, next_look};
use net::rpc::enroll::{CAS_LEN_MAX, EnrollBy, EnrollRefusal, EnrollRequest, Enrolled, NAME_LEN_MAX, NAMES_MAX};
use net::tls::{Remote, Role, Tls};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

const INVITATIONS: &str = "invitations";
const PRIVATE: u32 = 0o600;
/// The longest time between two looks at this master's own certificate.
const LOOK_INTERVAL: Duration = Duration::from_secs(3_600);
/// Certificates that are issued at the same time.
const ISSUED_AT_ONCE: usize = 4;

/// An invitation as its master keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The role that it gives.
    pub invited: Invited,
    /// The moment from which on it is none.
    pub ends: WallMs,
    /// The number of programs that may still use it.
    pub uses: u32,
    /// DNS names and IP addresses that its certificate has, beside the address that is asked from.
    pub names: Vec<String>,
}

/// The invitations in a folder of certificates.
#[derive(Clone, Debug)]
pub struct Invitations(TlsFolder);

impl Invitations {
    pub fn new(folder: TlsFolder) -> Self {
        Self(folder)
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join(INVITATIONS)
    }

    fn file(&self, proof: &[u8; 32]) -> PathBuf {
        self.folder().join(hex(&Sha256::digest(proof)))
    }

    /// Keeps an invitation of that SHA-256, and forgets those that have ended.
    ///
    /// # Errors
    /// If a file cannot be written or removed.
    pub fn keep(&self, proof: &[u8; 32], kept: &Kept, now: WallMs) -> io::Result<()> {
        std::fs::create_dir_all(self.folder())?;
        for entry in std::fs::read_dir(self.folder())? {
            let path = entry?.path();
            // The master itself may be writing or removing one.
            let ended = |text: String| Kept::read(&text).is_none_or(|kept| kept.ends <= now);
            if path.extension().is_none() && std::fs::read_to_string(&path).is_ok_and(ended) {
                match std::fs::remove_file(path) {
                    Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
                    _ => {}
                }
            }
        }
        file::replace(&self.file(proof), PRIVATE, kept.text().as_bytes())
    }

    /// Takes one use of an invitation away, durably, and says what it gives.
    ///
    /// # Errors
    /// There is none, it has ended, or its use cannot be noted.
    fn take(&self, proof: &[u8; 32], now: WallMs) -> Result<Kept, EnrollRefusal> {
        let path = self.file(proof);
        let text = std::fs::read_to_string(&path).map_err(|_| EnrollRefusal::Unknown)?;
        let mut kept = Kept::read(&text).ok_or(EnrollRefusal::Unknown)?;
        if kept.ends <= now {
            return Err(EnrollRefusal::Ended);
        }
        kept.uses -= 1;
        let noted = match kept.uses {
            0 => std::fs::remove_file(&path).and_then(|()| file::sync_folder(&self.folder())),
            _ => file::replace(&path, PRIVATE, kept.text().as_bytes()),
        };
        noted.map_err(|why| EnrollRefusal::NoCa(format!("the use of an invitation cannot be noted: {why}")))?;
        Ok(kept)
    }
}

impl Kept {
    fn text(&self) -> String {
        let Self { invited, ends, uses, names } = self;
        format!("{invited}\n{}\n{uses}\n{}\n", ends.0, names.join(" "))
    }

    fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let (invited, ends) = (lines.next()?.parse().ok()?, WallMs(lines.next()?.parse().ok()?));
        let uses = lines.next()?.parse().ok().filter(|uses| *uses > 0)?;
        let names = lines.next()?.split_whitespace().map(str::to_owned).collect();
        Some(Self { invited, ends, uses, names })
    }
}

/// The issuing of certificates by a running master.
#[derive(Clone)]
pub struct Enrollment(Arc<Issuing>);

struct Issuing {
    folder: TlsFolder,
    invitations: Mutex<Invitations>,
    places: Arc<Semaphore>,
    tls: Tls,
    clock: Clock,
    life: Duration,
    counters: Arc<Counters>,
}

impl Enrollment {
    /// Certificates of this life, issued by the CA in that folder.
    pub fn new(folder: TlsFolder, tls: Tls, clock: Clock, life: Duration, counters: Arc<Counters>) -> Self {
        let invitations = Mutex::new(Invitations::new(folder.clone()));
        let places = Arc::new(Semaphore::new(ISSUED_AT_ONCE));
        Self(Arc::new(Issuing { folder, invitations, places, tls, clock, life, counters }))
    }

    /// Answers who came for a certificate.
    ///
    /// # Errors
    /// The reason why it gets none.
    pub async fn answer(&self, request: EnrollRequest, remote: Remote) -> Result<Enrolled, EnrollRefusal> {
        let from = remote.from;
        let issued = self.with(move |issuing| issuing.answer(&request, &remote)).await;
        match &issued {
            Ok((Some(role), _)) => {
                self.0.counters.certificates_issued.fetch_add(1, Relaxed);
                tracing::info!(%from, %role, "issued a certificate");
            }
            Ok((None, _)) => {}
            Err(why) => {
                self.0.counters.certificates_refused.fetch_add(1, Relaxed);
                tracing::warn!(%from, %why, "issued no certificate");
            }
        }
        issued.map(|(_, enrolled)| enrolled)
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

    /// The answer, and the role that a certificate was issued to.
    fn answer(&self, request: &EnrollRequest, remote: &Remote) -> Result<(Option<Role>, Enrolled), EnrollRefusal> {
        match request {
            EnrollRequest::Certificate { by, public_key } => {
                let (role, enrolled) = self.issue(by, public_key, remote)?;
                Ok((Some(role), enrolled))
            }
            EnrollRequest::Authorities if remote.role().is_some() => {
                Ok((None, Enrolled::Authorities(self.ca()?.cas().to_owned())))
            }
            EnrollRequest::Authorities => Err(EnrollRefusal::Certificate("there is none".to_owned())),
        }
    }

    fn issue(&self, by: &EnrollBy, public_key: &[u8], remote: &Remote) -> Result<(Role, Enrolled), EnrollRefusal> {
        let ca = self.ca()?;
        let (role, names) = match by {
            EnrollBy::Certificate(names) => self.renewed(remote, names)?,
            EnrollBy::Invitation(proof) => {
                let invitations = self.invitations.lock().unwrap_or_else(PoisonError::into_inner);
                let kept = invitations.take(proof, self.clock.wall())?;
                let address = remote.from.ip().to_canonical().to_string();
                let own = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
                let names: BTreeSet<String> = kept.names.into_iter().chain(own).chain([address]).collect();
                (named(kept.invited)?, names.into_iter().collect())
            }
        };
        let cas = ca.cas().to_owned();
        if matches!(role, Role::Master(_)) {
            return Ok((role, Enrolled::Ca { cas, key: ca.key() }));
        }
        let issued = ca.issue(&self.folder, (&role, &names), public_key, (self.life, rand::random()));
        let certificate = issued.map_err(|why| match why {
            CaError::PublicKey => EnrollRefusal::Key,
            why => EnrollRefusal::NoCa(why.to_string()),
        })?;
        Ok((role, Enrolled::Certificate { certificate, cas, names }))
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

    fn kept(ends: i64, uses: u32) -> Kept {
        let names = vec!["10.0.0.1".to_owned(), "ids.example.com".to_owned()];
        Kept { invited: "agent/orders-1".parse().unwrap(), ends: WallMs(ends), uses, names }
    }

    #[test]
    fn an_invitation_is_used_as_often_as_it_says_and_before_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let invitations = Invitations::new(TlsFolder::new(dir.path().to_owned()));
        let take = |proof: u8, now| invitations.take(&[proof; 32], WallMs(now));
        assert_eq!(take(1, 0), Err(EnrollRefusal::Unknown));
        for (proof, uses) in [(1, 1), (2, 2), (3, 1)] {
            invitations.keep(&[proof; 32], &kept(1_000, uses), WallMs(0)).unwrap();
        }
        assert_eq!(take(1, 999).unwrap(), Kept { uses: 0, ..kept(1_000, 1) });
        assert_eq!(take(1, 999), Err(EnrollRefusal::Unknown));
        assert_eq!(take(2, 0).unwrap().uses, 1);
        assert_eq!(take(2, 0).unwrap().uses, 0);
        assert_eq!(take(2, 0), Err(EnrollRefusal::Unknown));
        assert_eq!(take(3, 1_000), Err(EnrollRefusal::Ended));
        // A disk that is put back brings a used one back, until its end and not beyond.
        invitations.keep(&[5; 32], &kept(1_000, 1), WallMs(0)).unwrap();
        let before = std::fs::read(invitations.file(&[5; 32])).unwrap();
        assert!(take(5, 0).is_ok() && take(5, 0) == Err(EnrollRefusal::Unknown));
        std::fs::write(invitations.file(&[5; 32]), before).unwrap();
        assert_eq!(take(5, 1_000), Err(EnrollRefusal::Ended));
        // What has ended goes with the next one, and so does what nobody can read.
        std::fs::write(invitations.file(&[9; 32]), "agent\n").unwrap();
        assert_eq!(take(9, 0), Err(EnrollRefusal::Unknown));
        invitations.keep(&[4; 32], &kept(5_000, 1), WallMs(2_000)).unwrap();
        assert_eq!(std::fs::read_dir(invitations.folder()).unwrap().count(), 1);
    }

    #[test]
    fn names_that_an_invitation_does_not_say_are_drawn() {
        let [one, other] = [named(Invited::Agent).unwrap(), named(Invited::Agent).unwrap()];
        assert!(one != other && one.to_string().starts_with("uniq://agent/agent-"));
        assert!(named(Invited::Client).unwrap().to_string().starts_with("uniq://client/client-"));
    }
}
