//! The secrets that `ff1` encrypts by, from a file or from the environment.

use anyhow::{Context as _, bail};
use common::encoding::Secrets;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use zeroize::Zeroizing;

/// More than as many secrets as there may be, with comments.
const LEN_MAX: u64 = 64 << 10;
/// The permissions of everybody else in a file's mode; a file of secrets has none of them.
const OTHERS: u32 = 0o007;

/// The variable of the environment that has secrets instead of a file, separated by commas. There is no flag of that name: what is
/// on a command line everybody on the machine can read.
pub const VARIABLE: &str = "UNIQ_SECRETS";

/// The secrets in that file, or those of the environment; none if there are neither.
///
/// # Errors
/// The reason why not, with the remedy; no secret is repeated in it. Of a file and the environment it can only be one: which of both is the
/// first would be a guess.
pub fn given(path: Option<&Path>, environment: Option<OsString>) -> anyhow::Result<Secrets> {
    match (path, environment) {
        (Some(path), None) => read(path),
        (None, Some(text)) => {
            let text = text.into_string().map_err(|_| anyhow::anyhow!("{VARIABLE} is not text"))?;
            let lines = Zeroizing::new(Zeroizing::new(text).replace(',', "\n"));
            lines.parse().context(VARIABLE)
        }
        (Some(_), Some(_)) => bail!("there are secrets in --secret-file and in {VARIABLE}: give them in one of both"),
        (None, None) => Ok(Secrets::default()),
    }
}

/// The secrets in a file, one a line.
///
/// # Errors
/// The reason why not, with the remedy; no secret is repeated in it. A file that everybody on the machine may read or write is refused.
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
    // As long as it may be: a text that grows leaves what it was behind.
    let mut text = Zeroizing::new(String::with_capacity(usize::try_from(LEN_MAX + 1).unwrap_or(0)));
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

    #[test]
    fn the_environment_has_them_in_the_place_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secrets");
        let [one, two] = ["5a", "6b"].map(|digits| digits.repeat(32));
        std::fs::write(&path, format!("{one}\n{two}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let variable = |text: &str| Some(OsString::from(text));
        let both = variable(&format!("{one},{two}"));
        assert_eq!(given(None, both.clone()).unwrap(), given(Some(&path), None).unwrap());
        assert_eq!(given(None, None).unwrap(), Secrets::default());
        let refusal = |path, environment| format!("{:#}", given(path, environment).unwrap_err());
        assert!(refusal(Some(&path), both).contains("one of both"));
        let bad = refusal(None, variable(&format!("{one},{one}x")));
        assert!(bad.contains("UNIQ_SECRETS: line 2") && !bad.contains("5a5a"), "{bad}");
    }
}
