//! The file with the secrets that `ff1` encrypts by.

use anyhow::{Context as _, bail};
use common::encoding::Secrets;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// More than as many secrets as there may be, with comments.
const LEN_MAX: u64 = 64 << 10;
/// What nobody else may do with it.
const OTHERS: u32 = 0o007;

/// The secrets in a file, one a line.
///
/// # Errors
/// Why not, with the remedy; no secret is repeated in it. A file that everybody on the machine may read or write is refused.
pub fn read(path: &Path) -> anyhow::Result<Secrets> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("--secret-file {shown} cannot be opened"))?;
    let about = file.metadata().with_context(|| format!("--secret-file {shown} cannot be looked at"))?;
    if !about.is_file() {
        bail!("--secret-file {shown} is not a file");
    }
    if about.permissions().mode() & OTHERS != 0 {
        bail!("--secret-file {shown} is open to everybody on this machine: chmod 600 {shown}");
    }
    let mut text = String::new();
    let read = file.take(LEN_MAX + 1).read_to_string(&mut text);
    read.with_context(|| format!("--secret-file {shown} cannot be read as text"))?;
    if text.len() as u64 > LEN_MAX {
        bail!("--secret-file {shown} has more than {LEN_MAX} bytes");
    }
    text.parse().with_context(|| format!("--secret-file {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_others_may_read_or_that_is_none_is_refused_with_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secrets");
        let refusal = || format!("{:#}", read(&path).unwrap_err());
        assert!(refusal().contains("cannot be opened"));
        let with = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let secret = "5a".repeat(32);
        with(&secret, 0o604);
        assert!(refusal().contains("chmod 600"));
        with("", 0o600);
        assert!(refusal().contains("openssl rand -hex 32"));
        with(&format!("{secret}5"), 0o600);
        assert!(refusal().contains("line 1") && !refusal().contains("5a5a"));
        with(&"#".repeat(70_000), 0o600);
        assert!(refusal().contains("bytes"));
        with(&format!("# mine\n{secret}\n"), 0o640);
        assert_ne!(read(&path).unwrap(), Secrets::default());
        assert!(format!("{:#}", read(dir.path()).unwrap_err()).contains("is not a file"));
    }
}
