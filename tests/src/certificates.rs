//! A CA for tests, and certificates of every kind that it can issue, good or not.

use crate::programs::Daemon;
use anyhow::{Context as _, Result};
use net::tls::{Admits, Files, Tls};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, date_time_ymd,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The years in which a certificate is valid unless a test says otherwise.
const YEARS: (i32, i32) = (2020, 2100);

/// A CA whose certificates are files in a folder.
pub struct Authority {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    /// The number of the last certificate of each name.
    issued: Mutex<BTreeMap<String, u64>>,
}

impl Authority {
    /// A new one; its certificates go into `dir`.
    ///
    /// # Errors
    /// If nothing can be written there.
    pub fn new(dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(dir)?;
        let mut params = CertificateParams::new([])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        std::fs::write(dir.join("ca.pem"), &pem)?;
        Ok(Self { dir: dir.to_owned(), issuer: Issuer::new(params, key), pem, issued: Mutex::default() })
    }

    /// Its own certificate, in PEM form.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Its own certificate.
    pub fn ca(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// Issues a certificate that gives these roles, for this machine: files `NAME.pem` and `NAME.key`.
    ///
    /// # Errors
    /// If a role is no URI, or the files cannot be written.
    pub fn issue(&self, name: &str, roles: &[&str]) -> Result<Files> {
        self.issue_for(name, roles, YEARS)
    }

    /// The same, valid from the first day of one year to that of another.
    ///
    /// # Errors
    /// As [`Self::issue`].
    pub fn issue_for(&self, name: &str, roles: &[&str], (from, to): (i32, i32)) -> Result<Files> {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()])?;
        for role in roles {
            params.subject_alt_names.push(SanType::URI((*role).try_into()?));
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        let number = {
            let mut issued = self.issued.lock().unwrap_or_else(PoisonError::into_inner);
            let number = issued.values().max().unwrap_or(&0) + 1;
            issued.insert(name.to_owned(), number);
            number
        };
        params.serial_number = Some(number.into());
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let [cert_file, key_file] = ["pem", "key"].map(|end| self.dir.join(format!("{name}.{end}")));
        std::fs::write(&cert_file, certificate.pem())?;
        std::fs::write(&key_file, key.serialize_pem())?;
        Ok(Files { ca: self.ca(), own: Some((cert_file, key_file)) })
    }

    /// A list by which the last certificates of these names are revoked, in PEM form.
    ///
    /// # Errors
    /// If it cannot be signed.
    pub fn revoked(&self, names: &[&str]) -> Result<String> {
        let issued = self.issued.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers = names.iter().filter_map(|name| issued.get(*name));
        let revoked = numbers.map(|number| RevokedCertParams {
            serial_number: (*number).into(),
            revocation_time: date_time_ymd(YEARS.0, 2, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(YEARS.0, 2, 1),
            next_update: date_time_ymd(YEARS.0, 3, 1),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Ok(list.signed_by(&self.issuer)?.pem()?)
    }

    /// Speaks with a certificate of this role.
    ///
    /// # Errors
    /// As [`Self::issue`].
    pub fn tls(&self, name: &str, role: &str) -> Result<Tls> {
        Tls::load(self.issue(name, &[role])?).context("certificates just made")
    }
}

/// Lets a program speak TLS, from its next start on.
pub fn secure(daemon: &mut Daemon, files: &Files) {
    let own = files.own.iter().flat_map(|(cert, key)| [("--tls-cert", cert), ("--tls-key", key)]);
    for (flag, file) in own.chain([("--tls-ca", &files.ca)]) {
        daemon.set(flag, &file.to_string_lossy());
    }
}

/// The answer to a GET, its head included, over a connection of its own.
///
/// # Errors
/// If there is no connection, or nothing is answered.
pub async fn get(tls: &Tls, expected: Admits, at: SocketAddr, path: &str) -> Result<String> {
    ask(tls, expected, at, &format!("GET {path}"), "").await
}

/// The value of a metric on a page of them; 0 if it is not there.
pub fn metric(page: &str, name: &str) -> u64 {
    page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap_or_default()
}

/// The answer to a request with that method, path and body, its head included, over a connection of its own.
///
/// # Errors
/// As [`get`].
pub async fn ask(tls: &Tls, expected: Admits, at: SocketAddr, what: &str, body: &str) -> Result<String> {
    ask_with(tls, expected, at, (what, ""), body).await
}

/// The same with further headers, each with the end of its line.
///
/// # Errors
/// As [`get`].
pub async fn ask_with(
    tls: &Tls,
    expected: Admits,
    at: SocketAddr,
    (what, headers): (&str, &str),
    body: &str,
) -> Result<String> {
    let mut io = tls.connect(TcpStream::connect(at).await?, expected).await?;
    let len = body.len();
    let head = format!("{what} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n{headers}Content-Length: {len}\r\n\r\n");
    io.write_all([&head, body].concat().as_bytes()).await?;
    let mut answer = String::new();
    // An end without a farewell is one too.
    if let Err(why) = io.read_to_string(&mut answer).await
        && answer.is_empty()
    {
        return Err(why.into());
    }
    Ok(answer)
}
