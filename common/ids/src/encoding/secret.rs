//! Secrets that `ff1` encrypts under, that operators give to the programs in a file. A secret is kept by nobody else: no record, no
//! serial file and no frame has it. A definition names the one that it goes with by its [`SecretMark`], so that two agents never
//! write one name's numbers under different keys, which could give equal texts for different numbers.

use super::Key;
use super::{EncodingForm, EncodingParameters, EncodingSource};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::fmt;
use std::str::FromStr;
use zeroize::Zeroize as _;

/// Secrets in one file at most: the present one, and those of names that were registered before.
pub const SECRETS_MAX: usize = 16;

/// 32 random bytes. They are never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; Secret::LEN]);

/// The mark of a secret: 8 bytes that follow from it and do not lead back, as 16 digits of 0-9 a-f.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SecretMark([u8; SecretMark::LEN]);

/// The secrets that a program was given; the first one is for names that are registered from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secrets(Vec<Secret>);

/// The reason why a text is not a list of secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSecrets {
    /// A line that is none. It is not repeated here.
    #[error("line {line} is no secret, which is 64 digits of 0-9 a-f: make one with `openssl rand -hex 32`")]
    Line {
        /// The number of the line, from 1 on.
        line: usize,
    },
    /// None at all.
    #[error("there is no secret in it: make one with `openssl rand -hex 32`")]
    Empty,
    /// More secrets than there may be.
    #[error("there are more than {SECRETS_MAX} secrets in it")]
    TooMany,
}

/// A text that is no mark.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the mark of a secret is 16 digits of 0-9 a-f; leave it out, and the agent that is asked fills in its own")]
pub struct InvalidMark;

impl Secret {
    /// Bytes of a secret.
    pub const LEN: usize = 32;

    /// The secret of these bytes, which have to be random.
    pub const fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// HMAC-SHA256 of what it is for.
    #[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
    fn derive(&self, purpose: &[u8]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        mac.update(purpose);
        mac.finalize().into_bytes().into()
    }

    /// The mark that it is known by.
    pub fn mark(&self) -> SecretMark {
        let mut mark = [0; SecretMark::LEN];
        mark.iter_mut().zip(self.derive(b"uniq secret mark 1")).for_each(|(to, from)| *to = from);
        SecretMark(mark)
    }

    /// The key that `ff1` encrypts with. The same for all names: those that share their numbers never write two of them alike.
    pub fn key(&self) -> Key {
        Key::new(self.derive(b"uniq secret ff1 key 1"))
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.mark())
    }
}

impl SecretMark {
    /// Bytes of a mark.
    pub const LEN: usize = 8;
}

impl fmt::Display for SecretMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl From<SecretMark> for String {
    fn from(mark: SecretMark) -> Self {
        mark.to_string()
    }
}

impl TryFrom<String> for SecretMark {
    type Error = InvalidMark;
    fn try_from(text: String) -> Result<Self, InvalidMark> {
        bytes_of(&text).map(Self).ok_or(InvalidMark)
    }
}

/// The bytes that so many digits of 0-9 a-f spell.
fn bytes_of<const LEN: usize>(text: &str) -> Option<[u8; LEN]> {
    let digit = |c: &u8| matches!(c, b'0'..=b'9' | b'a'..=b'f').then(|| char::from(*c).to_digit(16)).flatten();
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != LEN || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; LEN];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = u8::try_from(digit(high)? << 4 | digit(low)?).ok()?;
    }
    Some(bytes)
}

/// One secret a line; empty lines and those that begin with # are passed over.
impl FromStr for Secrets {
    type Err = InvalidSecrets;
    fn from_str(text: &str) -> Result<Self, InvalidSecrets> {
        let mut secrets = Vec::new();
        for (nth, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if secrets.len() == SECRETS_MAX {
                return Err(InvalidSecrets::TooMany);
            }
            secrets.push(Secret(bytes_of(line).ok_or(InvalidSecrets::Line { line: nth + 1 })?));
        }
        if secrets.is_empty() { Err(InvalidSecrets::Empty) } else { Ok(Self(secrets)) }
    }
}

impl Secrets {
    /// Not a single one.
    pub const NONE: &'static Self = &Self(Vec::new());

    /// The key of that secret; `None` if it is not among these.
    pub fn key(&self, mark: SecretMark) -> Option<Key> {
        self.0.iter().find(|secret| secret.mark() == mark).map(Secret::key)
    }

    /// `source` with the mark of a secret in it, if it needs one and does not say which: that of `known`, by which the name was
    /// registered before, if there is such a secret here, or else of the first one. Without any secret it stays as it is.
    #[must_use]
    pub fn complete(&self, source: EncodingSource, known: Option<SecretMark>) -> EncodingSource {
        if source.form() != EncodingForm::Ff1 || source.secret().is_some() {
            return source;
        }
        let known = known.filter(|mark| self.key(*mark).is_some());
        let secret = known.or_else(|| self.0.first().map(Secret::mark));
        match source {
            EncodingSource::Name(form) => {
                EncodingSource::Parameters(EncodingParameters { form, secret, ..EncodingParameters::default() })
            }
            EncodingSource::Parameters(parameters) => {
                EncodingSource::Parameters(EncodingParameters { secret, ..parameters })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    #[test]
    fn a_file_has_a_secret_a_line_and_no_error_repeats_one() {
        let two = ONE.replace("00", "ff");
        let secrets: Secrets = format!("# of 2026\n{ONE}\n\n {two}\n").parse().unwrap();
        assert_eq!(secrets.0.len(), 2);
        // By another program's HMAC-SHA256: printf 'uniq secret mark 1' | openssl mac -digest SHA256 -macopt hexkey:000102.. HMAC
        assert_eq!(secrets.0[0].mark().to_string(), "4ff189113fbadb15");
        for (text, refused) in [
            ("", InvalidSecrets::Empty),
            ("# nothing\n", InvalidSecrets::Empty),
            (&ONE[1..], InvalidSecrets::Line { line: 1 }),
            (&ONE.to_uppercase(), InvalidSecrets::Line { line: 1 }),
            (&format!("{ONE}\n{ONE}0"), InvalidSecrets::Line { line: 2 }),
            (&format!("{ONE}\n").repeat(17), InvalidSecrets::TooMany),
        ] {
            assert_eq!(text.parse::<Secrets>(), Err(refused.clone()));
            assert!(!refused.to_string().contains("0102"), "{refused}");
        }
        assert!(!format!("{secrets:?}").contains("0102"), "{secrets:?}");
    }

    #[test]
    fn a_definition_is_completed_by_the_secret_that_its_name_has_or_by_the_first() {
        let (old, new) = (ONE.replace("00", "ff"), ONE);
        let secrets: Secrets = format!("{new}\n{old}").parse().unwrap();
        let [first, second] = [0, 1].map(|at: usize| secrets.0[at].mark());
        let completed = |known| secrets.complete(EncodingSource::Name(EncodingForm::Ff1), known).secret();
        assert_eq!(completed(None), Some(first));
        assert_eq!(
            completed(Some(second)),
            Some(second),
            "a program that registers again what it registered before a change"
        );
        assert_eq!(completed(Some(Secret::new([7; 32]).mark())), Some(first));
        assert_eq!(Secrets::default().complete(EncodingSource::Name(EncodingForm::Ff1), None).secret(), None);
        let hex = EncodingSource::Name(EncodingForm::Hex);
        assert_eq!(secrets.complete(hex.clone(), None), hex);
        assert!(secrets.key(second).is_some() && secrets.key(first) != secrets.key(second));
    }
}
