//! Names of generators.

use crate::digits::shown;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::str::FromStr;

/// A generator's name: 1 to 63 of a-z 0-9 . _ -, without a dot in front, so that it is no `.` or `..` of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GeneratorName(String);

/// A text that is not a generator's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a generator's name: write 1 to {max} of a-z 0-9 . _ -, and no dot in front", max = GeneratorName::LEN_MAX)]
pub struct NameError(String);

impl GeneratorName {
    /// The longest name, in characters: as long as a label of a host's name.
    pub const LEN_MAX: usize = 63;
    /// The name that exists for every kind.
    pub const DEFAULT: &'static str = "default";

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A number that stands for it in every version of this program: FNV-1a of its bytes.
    pub fn checksum(&self) -> u64 {
        super::fnv1a(self.0.as_bytes().iter())
    }

    /// Bytes that stand for it and for no other name: the first half of its SHA-256.
    pub fn digest(&self) -> [u8; 16] {
        let mut first = [0; 16];
        first.iter_mut().zip(Sha256::digest(&self.0)).for_each(|(to, byte)| *to = byte);
        first
    }

    /// Tells whether it is [`DEFAULT`](Self::DEFAULT).
    pub fn is_default(&self) -> bool {
        self.0 == Self::DEFAULT
    }
}

impl Default for GeneratorName {
    fn default() -> Self {
        Self(Self::DEFAULT.to_owned())
    }
}

impl FromStr for GeneratorName {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Self, NameError> {
        let fits = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-');
        if (1..=Self::LEN_MAX).contains(&text.len()) && !text.starts_with('.') && text.bytes().all(fits) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NameError(shown(text)))
        }
    }
}

impl TryFrom<String> for GeneratorName {
    type Error = NameError;
    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<GeneratorName> for String {
    fn from(name: GeneratorName) -> Self {
        name.0
    }
}

impl fmt::Display for GeneratorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
