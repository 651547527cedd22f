//! The first admin of a cluster, and where its password comes from.

use anyhow::{Context as _, bail};
use common::account::{Role, User};
use common::parameters::MasterId;
use std::io::Read as _;
use std::path::Path;

const FIRST_ADMIN: &str = "admin";
/// Name of the file in the data directory that a drawn password is written to.
pub const PASSWORD_FILE: &str = "admin-password";
/// Characters that a password is drawn from; none looks like another.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// Characters of a drawn password: 120 bits.
const DRAWN_LEN: usize = 24;
/// Mode of the file with the password.
const PASSWORD_MODE: u32 = 0o600;

/// The user `admin`, for a cluster that has no users yet: with the password in `given`, else with the one in the data
/// directory, which is drawn and written there once, by master 1 alone, so that both masters do not draw different ones.
/// `None` at master 2 without a file: the first admin comes from the other master. One of `proposed`, from an earlier start,
/// stays what it is if this is its password.
///
/// # Errors
/// The file cannot be read or written, or holds no password.
pub fn admin(
    dir: &Path,
    given: Option<&Path>,
    id: MasterId,
    mut proposed: impl Iterator<Item = User>,
) -> anyhow::Result<Option<User>> {
    let drawn = dir.join(PASSWORD_FILE);
    let password = match given {
        Some(file) => {
            let password = read(file)?;
            web::acceptable(&password, FIRST_ADMIN).map_err(|why| {
                anyhow::anyhow!("the first line of {} is not a password to set: {why}", file.display())
            })?;
            password
        }
        None if drawn.exists() => read(&drawn)?,
        None if id == MasterId::One => draw(&drawn)?,
        None => return Ok(None),
    };
    if let Some(same) = proposed.find(|user| web::verify(password.as_bytes(), &user.phc)) {
        return Ok(Some(same));
    }
    let phc = web::hash(password.as_bytes()).context("the system gives no random numbers")?;
    Ok(Some(User { name: FIRST_ADMIN.parse()?, role: Role::Admin, phc }))
}

fn read(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let opened =
        std::fs::File::open(file).with_context(|| format!("cannot read the admin's password in {}", file.display()))?;
    let len_max = u64::try_from(web::PASSWORD_LEN_MAX + 2)?;
    opened.take(len_max).read_to_string(&mut text).with_context(|| format!("cannot read {}", file.display()))?;
    let password = text.lines().next().unwrap_or_default();
    if password.is_empty() || password.len() > web::PASSWORD_LEN_MAX {
        bail!("the first line of {} is not a password of at most {} bytes", file.display(), web::PASSWORD_LEN_MAX);
    }
    Ok(password.to_owned())
}

fn draw(file: &Path) -> anyhow::Result<String> {
    let random: [u8; DRAWN_LEN] = rand::random();
    let letters = random.iter().filter_map(|byte| LETTERS.get(usize::from(byte % 32)));
    let password: String = letters.map(|letter| char::from(*letter)).collect();
    // Durable before the user is proposed: once both masters hold it, no other password is ever drawn.
    common::file::replace(file, PASSWORD_MODE, format!("{password}\n").as_bytes())
        .with_context(|| format!("cannot write the admin's first password to {}", file.display()))?;
    Ok(password)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter::empty;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_password_is_drawn_once_and_by_one_master() {
        let dir = tempfile::tempdir().unwrap();
        assert!(admin(dir.path(), None, MasterId::Two, empty()).unwrap().is_none());
        assert!(admin(dir.path(), None, MasterId::One, empty()).unwrap().is_some());
        let file = dir.path().join(PASSWORD_FILE);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let first = std::fs::read_to_string(&file).unwrap();
        assert_eq!(first.trim().len(), DRAWN_LEN);
        let user = admin(dir.path(), None, MasterId::One, empty()).unwrap().unwrap();
        assert_eq!((std::fs::read_to_string(&file).unwrap(), user.role), (first, Role::Admin));
        // One with the same password stays as it was proposed; one with another does not.
        let other = User { phc: web::hash(b"another password").unwrap(), ..user.clone() };
        let again =
            |proposed: Vec<User>| admin(dir.path(), None, MasterId::One, proposed.into_iter()).unwrap().unwrap();
        assert_eq!(again(vec![other.clone(), user.clone()]), user);
        assert_ne!(again(vec![other.clone()]), other);
    }

    #[test]
    fn a_given_password_must_be_one() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("given");
        assert!(admin(dir.path(), Some(&file), MasterId::Two, empty()).is_err(), "there is none");
        for (text, taken) in [("correct horse\nmore\n", true), ("short", false), ("", false), ("\nx", false)] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(admin(dir.path(), Some(&file), MasterId::Two, empty()).is_ok(), taken, "{text}");
        }
        assert!(!dir.path().join(PASSWORD_FILE).exists());
    }
}
