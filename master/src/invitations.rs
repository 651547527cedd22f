//! Invitations that a master makes, and keeps until they are used, withdrawn or over.
//!
//! An invitation is a file in the folder of certificates, named by a hash, so that who reads the folder has no invitation. It is removed, durably,
//! before anything is issued for it; a crash between the two costs the invitation and never gives two certificates. A copy of the disk has a
//! copy of the invitations, which is why they end.

use common::file;
use common::time::WallMs;
use net::enroll::invitation::hex;
use net::enroll::{Ca, CaError, Invitation, InvitationRequest, Invited, Secret, Terms, TlsFolder};
use net::rpc::enroll::EnrollRefusal;
use net::tls::{Role, fingerprint};
use process::settings;
use sha2::{Digest as _, Sha256};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const INVITATIONS: &str = "invitations";
const PRIVATE: u32 = 0o600;

/// The most invitations that are open at the same time.
pub const OPEN_MAX: usize = 1_000;
/// Digits of the name of an invitation's file by which people know it: too few to find the rest.
const ID_LEN: usize = 16;

/// An invitation as its master keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The programs that may still use it, and what it gives them.
    pub terms: Terms,
    /// The moment from which on it is none.
    pub ends: WallMs,
}

/// The reason why an invitation is not kept.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    #[error("{OPEN_MAX} invitations are open: withdraw some, or wait until they end")]
    TooMany,
    #[error("the folder of invitations cannot be written: {0}")]
    Unwritten(#[from] io::Error),
}

/// The invitations in a folder of certificates.
#[derive(Clone, Debug)]
pub struct Invitations {
    folder: PathBuf,
    /// The turn of who changes one: no use is taken from one that is withdrawn.
    changing: Arc<Mutex<()>>,
}

impl Invitations {
    pub fn new(folder: &TlsFolder) -> Self {
        Self { folder: folder.path().join(INVITATIONS), changing: Arc::default() }
    }

    fn file(&self, proof: &[u8; 32]) -> PathBuf {
        self.folder.join(name_of(proof))
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads all files; `None` for what is no invitation.
    fn all(&self) -> io::Result<Vec<(PathBuf, Option<Kept>)>> {
        let entries = match std::fs::read_dir(&self.folder) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        // Another process may be writing or removing one.
        let read = |path: PathBuf| std::fs::read_to_string(&path).ok().map(|text| (path, Kept::read(&text)));
        Ok(paths.into_iter().filter(|path| path.extension().is_none()).filter_map(read).collect())
    }

    /// Lists those that may still be used, with their ids, by their ends.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn open(&self, now: WallMs) -> io::Result<Vec<(String, Kept)>> {
        let open = |(path, kept): (PathBuf, Option<Kept>)| {
            Some((id_at(&path)?.to_owned(), kept.filter(|kept| now < kept.ends)?))
        };
        let mut open: Vec<_> = self.all()?.into_iter().filter_map(open).collect();
        open.sort_by(|(a, one), (b, other)| (one.ends, a).cmp(&(other.ends, b)));
        Ok(open)
    }

    /// Keeps an invitation of that SHA-256, and forgets those that have ended.
    ///
    /// # Errors
    /// [`KeepError`]
    pub fn keep(&self, proof: &[u8; 32], kept: &Kept, now: WallMs) -> Result<(), KeepError> {
        let _changing = self.changing();
        std::fs::create_dir_all(&self.folder)?;
        let (open, ended): (Vec<_>, Vec<_>) =
            self.all()?.into_iter().partition(|(_, kept)| kept.as_ref().is_some_and(|kept| now < kept.ends));
        for (path, _) in ended {
            match std::fs::remove_file(path) {
                Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why.into()),
                _ => {}
            }
        }
        // A master in the place of a lost one does not wait for others' invitations to end.
        if open.len() >= OPEN_MAX && !matches!(kept.terms.invited, Invited::As(Role::Master(_))) {
            return Err(KeepError::TooMany);
        }
        Ok(file::replace(&self.file(proof), PRIVATE, kept.text().as_bytes())?)
    }

    /// Withdraws the open invitation of that id, if there is one, durably. A use of it that has begun is finished.
    ///
    /// # Errors
    /// If the folder cannot be read, or the file removed.
    pub fn withdraw(&self, id: &str, now: WallMs) -> io::Result<()> {
        let _changing = self.changing();
        let open = |kept: &Option<Kept>| kept.as_ref().is_some_and(|kept| now < kept.ends);
        let is_it = |path: &Path| id_at(path).is_some_and(|known| known == id);
        match self.all()?.into_iter().find(|(path, kept)| is_it(path) && open(kept)) {
            Some((path, _)) => self.remove(&path),
            None => Ok(()),
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path).and_then(|()| file::sync_folder(&self.folder))
    }

    /// Takes one use of an invitation away for a program at that address, durably, and says what it gives.
    ///
    /// # Errors
    /// There is none, it has ended, it is for others, or its use cannot be noted.
    pub(crate) fn take(&self, proof: &[u8; 32], from: IpAddr, now: WallMs) -> Result<Terms, EnrollRefusal> {
        let _changing = self.changing();
        let path = self.file(proof);
        let text = std::fs::read_to_string(&path).map_err(|_| EnrollRefusal::Unknown)?;
        let mut kept = Kept::read(&text).ok_or(EnrollRefusal::Unknown)?;
        if kept.ends <= now {
            return Err(EnrollRefusal::Ended);
        }
        if !kept.terms.admit(from) {
            return Err(EnrollRefusal::Network(from.to_canonical()));
        }
        kept.terms.uses -= 1;
        let noted = match kept.terms.uses {
            0 => self.remove(&path),
            _ => file::replace(&path, PRIVATE, kept.text().as_bytes()),
        };
        noted.map_err(|why| EnrollRefusal::NoCa(format!("the use of an invitation cannot be noted: {why}")))?;
        Ok(kept.terms)
    }
}

/// The name of an invitation's file.
fn name_of(proof: &[u8; 32]) -> String {
    hex(&Sha256::digest(proof))
}

fn id_at(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.get(..ID_LEN)
}

/// The text by which people know an invitation.
pub fn id_of(proof: &[u8; 32]) -> String {
    name_of(proof).split_at(ID_LEN).0.to_owned()
}

impl Kept {
    fn text(&self) -> String {
        let Self { terms, ends } = self;
        let Terms { invited, names, uses, .. } = terms;
        format!("{invited}\n{}\n{uses}\n{}\n{}\n", ends.0, names.join(" "), terms.networks_text())
    }

    fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let (invited, ends) = (lines.next()?.parse().ok()?, WallMs(lines.next()?.parse().ok()?));
        let uses = lines.next()?.parse().ok().filter(|uses| *uses > 0)?;
        let names = lines.next()?.split_whitespace().map(str::to_owned).collect();
        // One that is not understood must not let everybody in.
        let networks = lines.next()?.split_whitespace().map(|it| it.parse().ok()).collect::<Option<_>>()?;
        Some(Self { terms: Terms { invited, names, uses, networks }, ends })
    }
}

/// The reason why no invitation is made.
#[derive(Debug, thiserror::Error)]
pub enum InviteError {
    #[error(transparent)]
    NoCa(#[from] CaError),
    #[error("{0}")]
    Address(String),
    #[error(transparent)]
    Unkept(#[from] KeepError),
}

/// The invitations of a master that has the CA.
#[derive(Clone, Debug)]
pub struct Inviting {
    folder: TlsFolder,
    invitations: Invitations,
    at: String,
}

impl Inviting {
    /// Invitations by the CA in that folder, to this address of the master if nothing else is said.
    pub fn new(folder: TlsFolder, at: String) -> Self {
        let invitations = Invitations::new(&folder);
        Self { folder, invitations, at }
    }

    /// The address under which invited programs reach this master if nothing else is said.
    pub fn at(&self) -> &str {
        &self.at
    }

    /// The files that are kept of them.
    pub fn kept(&self) -> &Invitations {
        &self.invitations
    }

    /// Makes an invitation, and keeps what is to be known of it.
    ///
    /// # Errors
    /// [`InviteError`]
    pub fn make(&self, request: InvitationRequest, now: WallMs) -> Result<(Invitation, Kept), InviteError> {
        let InvitationRequest { terms, valid, at } = request;
        let invitation = self.by(Secret::Drawn(rand::random()), terms.invited.clone(), at)?;
        let ends = WallMs(now.0.saturating_add(i64::try_from(valid.as_millis()).unwrap_or(i64::MAX)));
        let kept = Kept { terms, ends };
        self.invitations.keep(&invitation.proof(), &kept, now)?;
        Ok((invitation, kept))
    }

    /// The invitation by that proof, of which nothing is kept.
    ///
    /// # Errors
    /// [`InviteError`]
    pub fn by(&self, secret: Secret, invited: Invited, at: Option<String>) -> Result<Invitation, InviteError> {
        let at = at.map_or_else(|| Ok(self.at.clone()), |at| settings::host_port(&at)).map_err(InviteError::Address)?;
        let ca = Ca::load(&self.folder)?;
        Ok(Invitation { at, invited, ca: fingerprint(ca.own()), secret })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(ends: i64, uses: u32) -> Kept {
        let names = vec!["10.0.0.1".to_owned(), "ids.example.com".to_owned()];
        let networks = vec!["10.0.0.0/8".parse().unwrap()];
        let terms = Terms { invited: "agent/orders-1".parse().unwrap(), names, uses, networks };
        Kept { terms, ends: WallMs(ends) }
    }

    #[test]
    fn an_invitation_is_used_as_often_as_it_says_and_before_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let invitations = Invitations::new(&TlsFolder::new(dir.path().to_owned()));
        let take_at = |at: &str, proof: u8, now| invitations.take(&[proof; 32], at.parse().unwrap(), WallMs(now));
        let take = |proof, now| take_at("::ffff:10.1.2.3", proof, now);
        assert_eq!(take(1, 0), Err(EnrollRefusal::Unknown));
        for (proof, uses) in [(1, 1), (2, 2), (3, 1)] {
            invitations.keep(&[proof; 32], &kept(1_000, uses), WallMs(0)).unwrap();
        }
        // Who is elsewhere uses none of it up.
        let elsewhere = "11.0.0.1".parse().unwrap();
        assert_eq!(take_at("11.0.0.1", 1, 999), Err(EnrollRefusal::Network(elsewhere)));
        assert_eq!(take(1, 999).unwrap(), Terms { uses: 0, ..kept(1_000, 1).terms });
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
        // One that is withdrawn opens nothing, and what has ended is open no more.
        invitations.keep(&[6; 32], &kept(1_000, 2), WallMs(0)).unwrap();
        let open = |now| invitations.open(WallMs(now)).unwrap().into_iter().map(|(id, _)| id).collect::<Vec<_>>();
        assert!(open(999).contains(&id_of(&[6; 32])) && open(1_000).is_empty());
        for other in ["", "..", &id_of(&[7; 32]), &name_of(&[6; 32])] {
            invitations.withdraw(other, WallMs(0)).unwrap();
        }
        invitations.withdraw(&id_of(&[6; 32]), WallMs(1_000)).unwrap();
        assert!(take(6, 0).is_ok());
        invitations.withdraw(&id_of(&[6; 32]), WallMs(0)).unwrap();
        assert_eq!(take(6, 0), Err(EnrollRefusal::Unknown));
        // What has ended goes with the next one, and so does what nobody can read.
        std::fs::write(invitations.file(&[9; 32]), "agent\n9999999999999\n1\n\n10.0.0.0/99\n").unwrap();
        assert_eq!(take(9, 0), Err(EnrollRefusal::Unknown));
        invitations.keep(&[4; 32], &kept(5_000, 1), WallMs(2_000)).unwrap();
        assert_eq!(std::fs::read_dir(&invitations.folder).unwrap().count(), 1);
        // Nobody uses the folder up, nor keeps a master from coming by that.
        for nth in 1..OPEN_MAX {
            let proof = Sha256::digest(nth.to_le_bytes()).into();
            std::fs::write(invitations.file(&proof), kept(5_000, 1).text()).unwrap();
        }
        assert!(matches!(invitations.keep(&[7; 32], &kept(5_000, 1), WallMs(0)), Err(KeepError::TooMany)));
        let terms = Terms { invited: "master/2".parse().unwrap(), ..kept(5_000, 1).terms };
        let master = Kept { terms, ends: WallMs(5_000) };
        invitations.keep(&[7; 32], &master, WallMs(0)).unwrap();
    }
}
