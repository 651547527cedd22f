//! The folder in which a program keeps the certificate that a master issued to it.

use crate::tls::{Files, Role, Tls, TlsError, role_of};
use common::file;
use rcgen::KeyPair;
use rustix::fs::FlockOperation;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const CA_KEY: &str = "ca.key";
/// The beginning of its first line, which says the names in the certificate.
const NAMES: &str = "Names:";
/// The folder in which what came is tried before it takes the place of what is there.
const TRIAL: &str = "new";
/// Mode of the folder: its owner's alone.
const FOLDER_MODE: u32 = 0o700;
const PRIVATE: u32 = 0o600;
const PUBLIC: u32 = 0o644;

/// A folder with `ca.pem` and `own.pem`, the certificate and its key, which its program keeps up to date; at a master with `ca.key`, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFolder(PathBuf);

/// The reason why what came is not kept.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// A file cannot be written.
    #[error("cannot be written: {0}")]
    File(#[from] io::Error),
    /// It is not usable.
    #[error(transparent)]
    Unusable(#[from] TlsError),
    /// It gives another role.
    #[error("it is of another role than was asked for")]
    Role,
}

impl TlsFolder {
    /// The folder at that path, which need not be there.
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The files of the program.
    pub fn files(&self) -> Files {
        Files::in_folder(&self.0)
    }

    /// The file with the CAs that are believed.
    pub fn cas_file(&self) -> PathBuf {
        self.files().ca
    }

    /// The file with the CA's private key.
    pub fn ca_key_file(&self) -> PathBuf {
        self.0.join(CA_KEY)
    }

    /// Tells whether it is there, also if it cannot be read: who was invited never speaks plain TCP because of that.
    pub fn is_there(&self) -> bool {
        !matches!(self.0.try_exists(), Ok(false))
    }

    /// Tells whether what is in it came by an invitation, or from the CA in it, and not from elsewhere.
    pub fn is_enrolled(&self) -> bool {
        std::fs::read_to_string(self.own()).is_ok_and(|own| own.starts_with(NAMES))
    }

    /// The certificate at the end of its chain.
    pub fn end_of_chain(&self) -> Option<CertificateDer<'static>> {
        CertificateDer::pem_file_iter(self.own()).ok()?.flatten().last()
    }

    /// The role in its certificate, if it has one that can be read.
    pub fn role(&self) -> Option<Role> {
        CertificateDer::from_pem_file(self.own()).ok().as_ref().and_then(role_of)
    }

    /// The DNS names and IP addresses in its certificate.
    pub fn names(&self) -> Vec<String> {
        let own = std::fs::read_to_string(self.own()).unwrap_or_default();
        let names = own.lines().next().and_then(|line| line.strip_prefix(NAMES)).unwrap_or_default();
        names.split_whitespace().map(str::to_owned).collect()
    }

    /// The time since its certificate was issued.
    pub fn age(&self) -> Option<Duration> {
        let issued = std::fs::metadata(self.own()).and_then(|file| file.modified()).ok()?;
        SystemTime::now().duration_since(issued).ok()
    }

    /// Puts a certificate there, with its key, the CAs and the names in it, once all of that together is known to be good.
    ///
    /// # Errors
    /// It is not usable, or not of this role; or a file cannot be written. What was there is there still.
    pub fn save(
        &self,
        (certificate, key): (&str, &KeyPair),
        cas: &str,
        names: &[String],
        is_expected: impl FnOnce(&Role) -> bool,
    ) -> Result<Role, SaveError> {
        let own = format!("{NAMES} {}\n{certificate}{}", names.join(" "), key.serialize_pem());
        let _alone = self.alone()?;
        let role = self.tried(cas, Some(&own))?.filter(is_expected).ok_or(SaveError::Role)?;
        self.put_cas(cas)?;
        file::replace(&self.own(), PRIVATE, own.as_bytes())?;
        Ok(role)
    }

    /// Puts the CAs there, if the certificate that is there is still good by them.
    ///
    /// # Errors
    /// It is not; or a file cannot be written. What was there is there still.
    pub fn save_cas(&self, cas: &str) -> Result<(), SaveError> {
        let _alone = self.alone()?;
        if self.own().exists() {
            self.tried(cas, None)?;
        }
        Ok(self.put_cas(cas)?)
    }

    /// Tries these CAs with that certificate and key, or with those that are there, in a folder beside. Says whose the certificate is.
    fn tried(&self, cas: &str, own: Option<&str>) -> Result<Option<Role>, SaveError> {
        let trial = Self(self.0.join(TRIAL));
        trial.make()?;
        file::replace(&trial.cas_file(), PUBLIC, cas.as_bytes())?;
        if let Some(own) = own {
            file::replace(&trial.own(), PRIVATE, own.as_bytes())?;
        }
        let files = if own.is_some() { trial.files() } else { Files { ca: trial.cas_file(), ..self.files() } };
        let role = Tls::load(files).map(|tls| tls.role());
        std::fs::remove_dir_all(&trial.0)?;
        Ok(role?)
    }

    fn put_cas(&self, cas: &str) -> io::Result<()> {
        match std::fs::read(self.cas_file()) {
            Ok(same) if same == cas.as_bytes() => Ok(()),
            _ => file::replace(&self.cas_file(), PUBLIC, cas.as_bytes()),
        }
    }

    /// Keeps other programs that write there waiting until it is dropped.
    fn alone(&self) -> io::Result<File> {
        self.make()?;
        let folder = File::open(&self.0)?;
        rustix::fs::flock(&folder, FlockOperation::LockExclusive)?;
        Ok(folder)
    }

    /// Puts the CA's private key there.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save_ca_key(&self, key: &str) -> io::Result<()> {
        self.make()?;
        file::replace(&self.ca_key_file(), PRIVATE, key.as_bytes())
    }

    fn own(&self) -> PathBuf {
        self.files().own.map_or_else(PathBuf::new, |(own, _)| own)
    }

    fn make(&self) -> io::Result<()> {
        if self.0.exists() {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(&self.0)?;
        file::sync_folder(self.0.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))
    }
}
