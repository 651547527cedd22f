//! The accounts of people who use the console, with passwords. Both masters confirm each change of them, as of any
//! [setting](crate::setting).
//!
//! No password is ever in here, only what it can be checked against.

use crate::time::WallMs;
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::str::FromStr;

/// People, and API keys, at most, each.
pub const ACCOUNTS_MAX: usize = 256;
/// The longest name, in bytes.
pub const NAME_LEN_MAX: usize = 32;
/// The most characters of a name or a subject that an identity provider gives somebody.
pub const EXTERNAL_CHARS_MAX: usize = 255;
/// The longest password hash in PHC's form, in bytes.
pub const PHC_LEN_MAX: usize = 192;
/// The beginning of every password hash.
const PHC_BEGIN: &str = "$argon2id$";

/// The rights of an account. Each role may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Read everything but users and keys.
    Viewer,
    /// Renew and terminate leases, register namespaces.
    Operator,
    /// Change the whitelist, users and keys.
    Admin,
}

impl Role {
    /// All of them, ascending.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Admin];

    /// The name in JSON and on the page.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|role| role.name() == name);
        found.ok_or_else(|| "a role is viewer, operator or admin".to_owned())
    }
}

/// The name of a person or of a key: 1..=[`NAME_LEN_MAX`] of a-z 0-9 . _ -, beginning with a letter or a digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct AccountName(String);

/// A text that is not an account's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to {NAME_LEN_MAX} of a-z 0-9 . _ - and begins with a letter or a digit")]
pub struct AccountNameError;

impl AccountName {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AccountName {
    type Err = AccountNameError;
    fn from_str(text: &str) -> Result<Self, AccountNameError> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let begins = text.bytes().next().is_some_and(plain);
        let fits = text.len() <= NAME_LEN_MAX && text.bytes().all(|b| plain(b) || b"._-".contains(&b));
        if begins && fits { Ok(Self(text.to_owned())) } else { Err(AccountNameError) }
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for AccountName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A person who may use the console.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct User {
    /// The name.
    pub name: AccountName,
    /// The role.
    pub role: Role,
    /// The password's hash in PHC's form, argon2id.
    pub phc: String,
    /// The secret of the one-time codes that a login needs beside the password; `None`: it needs none.
    pub totp: Option<TotpSecret>,
}

impl User {
    /// Tells whether a master can have written it.
    pub fn plausible(&self) -> bool {
        self.phc.len() <= PHC_LEN_MAX
            && self.phc.starts_with(PHC_BEGIN)
            && self.phc.bytes().all(|b| b.is_ascii_graphic())
    }
}

impl fmt::Debug for User {
    /// Without the hash: what is logged is read by many.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "User({} {})", self.name, self.role)
    }
}

/// A secret of 160 bits that somebody's device makes one-time codes of (TOTP, RFC 6238: SHA-1, six digits, steps of 30 s).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TotpSecret(pub [u8; 20]);

impl fmt::Debug for TotpSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TotpSecret(..)")
    }
}

/// A SHA-256 of a secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SecretHash(pub [u8; 32]);

impl SecretHash {
    /// The hash of that secret.
    pub fn of(secret: &[u8]) -> Self {
        Self(Sha256::digest(secret).into())
    }
}

impl fmt::Display for SecretHash {
    /// 64 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(..)")
    }
}

/// A person who uses the console.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Person {
    /// A user with a password, whose role both masters hold.
    User(AccountName),
    /// Somebody whom an identity provider let in.
    External {
        /// The claim `sub`, by which alone the provider tells people apart: 1..=[`EXTERNAL_CHARS_MAX`] characters.
        subject: String,
        /// The name, for people to read: of as many.
        name: String,
        /// The role that the provider gave at the login.
        role: Role,
    },
}

impl Person {
    /// Tells whether it is the same person, whatever name and role a provider gave at another login.
    pub fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::User(one), Self::User(other)) => one == other,
            (Self::External { subject, .. }, Self::External { subject: other, .. }) => subject == other,
            _ => false,
        }
    }
}

impl fmt::Display for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => name.fmt(f),
            // No user has a space in the name.
            Self::External { name, .. } => write!(f, "sso {name}"),
        }
    }
}

/// Somebody who is logged in at one master's console. It is kept by that master alone, under the SHA-256 of what the
/// browser holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Login {
    /// The person.
    pub person: Person,
    /// The SHA-256 of the user's record as it was: another password or role, or another user of that name, ends it. Of somebody external,
    /// of the settings by which the role was given.
    pub proof: SecretHash,
    /// The token that a page must show to change anything.
    pub csrf: SecretHash,
    /// Time of the login, by the system's calendar.
    pub began: WallMs,
    /// Time of the last use, to within some minutes.
    pub used: WallMs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for good in ["a", "admin", "0", "jane.doe-2_x", &"a".repeat(NAME_LEN_MAX)] {
            assert_eq!(good.parse::<AccountName>().unwrap().as_str(), good);
        }
        for bad in ["", "A", ".a", "-a", "a b", "a/b", "é", "a\n", "<b>", &"a".repeat(NAME_LEN_MAX + 1)] {
            assert!(bad.parse::<AccountName>().is_err(), "{bad}");
        }
        assert!(serde_json::from_str::<AccountName>("\"A\"").is_err());
    }

    #[test]
    fn roles_are_ordered_and_have_names() {
        assert!(Role::Viewer < Role::Operator && Role::Operator < Role::Admin);
        for role in Role::ALL {
            assert_eq!(role.name().parse(), Ok(role));
        }
        assert!("root".parse::<Role>().is_err());
    }

    #[test]
    fn people_are_told_apart_by_what_nobody_can_change() {
        let user = |name: &str| Person::User(name.parse().unwrap());
        let external = |subject: &str, name: &str, role| {
            let [subject, name] = [subject, name].map(str::to_owned);
            Person::External { subject, name, role }
        };
        let one = external("1", "jane", Role::Viewer);
        assert!(one.is(&external("1", "jane.doe", Role::Admin)) && !one.is(&external("2", "jane", Role::Viewer)));
        assert!(user("jane").is(&user("jane")) && !user("jane").is(&user("olga")));
        assert!(!user("jane").is(&external("jane", "jane", Role::Admin)));
        assert_eq!([user("jane").to_string(), one.to_string()], ["jane", "sso jane"]);
    }

    #[test]
    fn a_user_shows_no_hash() {
        let user =
            User { name: "a".parse().unwrap(), role: Role::Admin, phc: "$argon2id$secret".to_owned(), totp: None };
        assert!(user.plausible());
        assert_eq!(format!("{user:?}"), "User(a admin)");
        assert!(!User { phc: "plain".to_owned(), ..user }.plausible());
    }
}
