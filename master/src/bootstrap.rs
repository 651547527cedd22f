//! The first admin of a cluster, the one that an operator on the machine lets in again, and where their passwords come from.

use anyhow::{Context as _, bail};
use common::account::{Role, User};
use common::parameters::MasterId;
use common::setting::Change;
use std::io::Read as _;
use std::path::{Path, PathBuf};

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
    proposed: impl Iterator<Item = User>,
) -> anyhow::Result<Option<User>> {
    let drawn = dir.join(PASSWORD_FILE);
    let password = match given {
        Some(file) => read_to_set(file)?,
        None if drawn.exists() => read(&drawn)?,
        None if id == MasterId::One => draw(&drawn)?,
        None => return Ok(None),
    };
    with_password(&password, proposed).map(Some)
}

/// A reset of the user `admin`: to the role admin, and to a password that is known on this machine.
pub struct Reset {
    /// The file that has the password.
    file: PathBuf,
    /// The password; `None` as long as it is not known whether one has to be drawn.
    password: Option<String>,
    /// The user as it was last asked for.
    wanted: Option<User>,
}

impl Reset {
    /// One to the password in `given`, else to one that is drawn and put into the data directory.
    ///
    /// # Errors
    /// The file cannot be read, or holds no password.
    pub fn new(dir: &Path, given: Option<&Path>) -> anyhow::Result<Self> {
        let password = given.map(read_to_set).transpose()?;
        let file = given.map_or_else(|| dir.join(PASSWORD_FILE), Path::to_owned);
        Ok(Self { file, password, wanted: None })
    }

    /// The file that has the password.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The next change of these users; `None` if there is nothing to do. `proposed` are those whom the other master has not
    /// confirmed yet. Where no password was given one is drawn at the first call, unless the one in the data directory is that of `admin`:
    /// another start with the same flag changes nothing. Takes as long as checking passwords does.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn next(&mut self, users: &[User], proposed: &[User]) -> anyhow::Result<Option<Change>> {
        let all = users.iter().chain(proposed).chain(&self.wanted);
        let known: Vec<User> = all.filter(|user| user.name.as_str() == FIRST_ADMIN).cloned().collect();
        let is_its = |password: &String| known.iter().any(|user| web::verify(password.as_bytes(), &user.phc));
        let password = match &self.password {
            Some(password) => password.clone(),
            None => match read(&self.file).ok().filter(is_its) {
                Some(password) => password,
                None => draw(&self.file)?,
            },
        };
        let wanted = User { role: Role::Admin, totp: None, ..with_password(&password, known.into_iter())? };
        let change = towards(users, &wanted);
        (self.password, self.wanted) = (Some(password), Some(wanted));
        Ok(change)
    }
}

/// The next change by which `wanted` is one of the users; `None` if it is. Each leaves all others as they are when it is made, so that
/// what somebody else changes meanwhile stays.
fn towards(users: &[User], wanted: &User) -> Option<Change> {
    let User { name, role, phc, totp } = wanted.clone();
    match users.iter().find(|user| user.name == name) {
        None => Some(Change::AddUser(wanted.clone())),
        // First the password: whoever knows the old one must not get the role.
        Some(known) if known.phc != phc => Some(Change::SetPassword { name, phc }),
        Some(known) if known.totp != totp => Some(Change::SetTotp { name, secret: totp }),
        Some(known) if known.role != role => Some(Change::SetRole { name, role }),
        Some(_) => None,
    }
}

/// The one of `known` whose password it is, else `admin` with this password.
fn with_password(password: &str, mut known: impl Iterator<Item = User>) -> anyhow::Result<User> {
    if let Some(same) = known.find(|user| web::verify(password.as_bytes(), &user.phc)) {
        return Ok(same);
    }
    let phc = web::hash(password.as_bytes()).context("the system gives no random numbers")?;
    Ok(User { name: FIRST_ADMIN.parse()?, role: Role::Admin, phc, totp: None })
}

/// The password in a file, if it may be set.
fn read_to_set(file: &Path) -> anyhow::Result<String> {
    let password = read(file)?;
    web::acceptable(&password, FIRST_ADMIN)
        .map_err(|why| anyhow::anyhow!("the first line of {} is not a password to set: {why}", file.display()))?;
    Ok(password)
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
    // Durable before the user is proposed: once both masters hold it, no other password is drawn by itself.
    common::file::replace(file, PASSWORD_MODE, format!("{password}\n").as_bytes())
        .with_context(|| format!("cannot write the admin's password to {}", file.display()))?;
    Ok(password)
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::account::TotpSecret;
    use common::setting::{Outcome, SettingValue};
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

    /// The users after a change, as both masters would hold them.
    fn changed(users: &[User], change: &Change) -> Vec<User> {
        match change.outcome(Some(&SettingValue::Users(users.to_vec())), &[]) {
            Outcome::Becomes(SettingValue::Users(users)) => users,
            outcome => panic!("{change:?}: {outcome:?}"),
        }
    }

    /// The users after a reset, and how many changes it took.
    fn reset(reset: &mut Reset, mut users: Vec<User>) -> (Vec<User>, usize) {
        let mut changes = 0;
        while let Some(change) = reset.next(&users, &[]).unwrap() {
            users = changed(&users, &change);
            changes += 1;
        }
        (users, changes)
    }

    fn user(name: &str, role: Role, password: &str) -> User {
        User { name: name.parse().unwrap(), role, phc: web::hash(password.as_bytes()).unwrap(), totp: None }
    }

    #[test]
    fn a_reset_gives_the_admin_a_password_and_leaves_all_others() {
        let dir = tempfile::tempdir().unwrap();
        let given = dir.path().join("given");
        std::fs::write(&given, "correct horse\n").unwrap();
        let (bob, zoe) = (user("bob", Role::Viewer, "bob's own word"), user("zoe", Role::Admin, "zoe's own word"));
        let is = |name: &str, role, password: &str| user(name, role, password);
        for (admin, needed) in [
            (None, 1),
            (Some(is(FIRST_ADMIN, Role::Admin, "another word")), 1),
            (Some(is(FIRST_ADMIN, Role::Viewer, "another word")), 2),
            (Some(is(FIRST_ADMIN, Role::Viewer, "correct horse")), 1),
            (Some(is(FIRST_ADMIN, Role::Admin, "correct horse")), 0),
        ] {
            let before: Vec<User> = admin.into_iter().chain([bob.clone(), zoe.clone()]).collect();
            let (after, changes) = reset(&mut Reset::new(dir.path(), Some(&given)).unwrap(), before);
            assert_eq!(changes, needed);
            assert!(after[0].role == Role::Admin && web::verify(b"correct horse", &after[0].phc), "{after:?}");
            assert_eq!(after[1..], [bob.clone(), zoe.clone()]);
        }
        assert!(!dir.path().join(PASSWORD_FILE).exists());
        std::fs::write(&given, "short\n").unwrap();
        assert!(Reset::new(dir.path(), Some(&given)).is_err());
    }

    #[test]
    fn the_role_comes_after_the_password() {
        let (before, after) = (user(FIRST_ADMIN, Role::Viewer, "known to many"), user(FIRST_ADMIN, Role::Admin, "new"));
        let first = towards(std::slice::from_ref(&before), &after);
        assert!(matches!(first, Some(Change::SetPassword { .. })), "{first:?}");
        // Whoever has lost the password may have lost the device too.
        let before = User { totp: Some(TotpSecret([1; 20])), role: Role::Viewer, ..after.clone() };
        let next = towards(std::slice::from_ref(&before), &after);
        assert_eq!(next, Some(Change::SetTotp { name: after.name.clone(), secret: None }));
    }

    #[test]
    fn a_password_is_drawn_for_a_reset_unless_the_one_that_was_drawn_still_counts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(PASSWORD_FILE);
        std::fs::write(&file, "the first one, changed since\n").unwrap();
        let lost = user(FIRST_ADMIN, Role::Admin, "nobody knows it");
        let begin = || Reset::new(dir.path(), None).unwrap();
        let (users, changes) = reset(&mut begin(), vec![lost.clone()]);
        let drawn = std::fs::read_to_string(&file).unwrap();
        assert!(changes == 1 && web::verify(drawn.trim().as_bytes(), &users[0].phc));
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, PASSWORD_MODE);
        // Another start changes nothing, also one before the other master has confirmed what was proposed.
        assert_eq!(reset(&mut begin(), users.clone()), (users.clone(), 0));
        let again = begin().next(std::slice::from_ref(&lost), &users).unwrap();
        assert_eq!(again, Some(Change::SetPassword { name: users[0].name.clone(), phc: users[0].phc.clone() }));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), drawn);
        // Asked for again because nobody confirmed it, it is the same change.
        let mut once = begin();
        let first = once.next(std::slice::from_ref(&lost), &[]).unwrap();
        assert!(first.is_some() && first == once.next(std::slice::from_ref(&lost), &[]).unwrap());
        // A password that was changed since is set anew.
        let (users, changes) = reset(&mut begin(), vec![lost]);
        let other = std::fs::read_to_string(&file).unwrap();
        assert!(changes == 1 && other != drawn && web::verify(other.trim().as_bytes(), &users[0].phc));
    }
}
