//! The four ways in which a number of a kind is written, and how they are read: exactly, or not at all. Layouts have all but the last.
//!
//! | form | Uniq64 | Uniq96 |
//! |---|---|---|
//! | decimal | the number, 1 to 20 digits, no leading zero | 30 digits: the upper 64 bits in 20, the serial in 10 |
//! | hex | 16 digits of 0-9 a-f | 24 digits |
//! | base32 | 13 digits, the first of 0-9 A-F | 20 digits, the first 0 or 1 |
//! | uri | `uniq64://2026-11-20_13/4095/1` | `uniq96://2026-11-20_13:05:06_999/65535/1` |
//!
//! Base32 is Douglas Crockford's alphabet (no I, L, O, U) in upper case. His aliases (`o` for 0, lower case) are not
//! taken: a text that is not an ID's own text would be a second name of that ID.

use super::alphabet::{Alphabet, Digits};
use super::{Encoding, EncodingForm, Way, ones};
use crate::digits::shown;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A way of writing an integer ID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TextForm {
    /// Uniq64: the number. Uniq96: the upper 64 bits in 20 digits, then the serial in 10.
    #[default]
    Decimal,
    /// 16 or 24 digits of 0-9 a-f.
    Hex,
    /// 13 or 20 digits of Crockford's alphabet, upper case.
    Base32,
    /// `uniq64://2026-11-20_13/4095/1` or `uniq96://2026-11-20_13:05:06_999/65535/1`.
    Uri,
}

/// A name that is not a text form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a text form; there are decimal, hex, base32, uri")]
pub struct UnknownTextForm(String);

impl TextForm {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Decimal, Self::Hex, Self::Base32, Self::Uri];

    /// The form of every number that the encoding is, if it is one.
    pub(crate) const fn of(encoding: EncodingForm) -> Option<Self> {
        match encoding {
            EncodingForm::Decimal => Some(Self::Decimal),
            EncodingForm::Hex => Some(Self::Hex),
            EncodingForm::Base32 => Some(Self::Base32),
            _ => None,
        }
    }

    /// The name in flags and URLs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Decimal => "decimal",
            Self::Hex => "hex",
            Self::Base32 => "base32",
            Self::Uri => "uri",
        }
    }
}

impl FromStr for TextForm {
    type Err = UnknownTextForm;
    fn from_str(name: &str) -> Result<Self, UnknownTextForm> {
        Self::ALL.into_iter().find(|form| form.name() == name).ok_or_else(|| UnknownTextForm(shown(name)))
    }
}

impl fmt::Display for TextForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Encoding {
    /// The encoding of the same numbers in one of the forms that every number has; `uri` is none of them, and is decimal here.
    #[must_use]
    pub fn plain(&self, form: TextForm) -> Self {
        Self::in_form(self.bits, form)
    }

    /// An encoding of numbers of `bits` bits in a form.
    pub(crate) fn in_form(bits: u32, form: TextForm) -> Self {
        let fixed = |alphabet: Alphabet| {
            let needed = alphabet.digits_for(ones(bits));
            Way::Fixed(Digits::new(alphabet, needed))
        };
        let way = match form {
            TextForm::Hex => fixed(Alphabet::hex()),
            TextForm::Base32 => fixed(Alphabet::crockford()),
            TextForm::Decimal | TextForm::Uri => Way::Decimal,
        };
        Self { bits, prefix: Box::default(), respelled: None, way }
    }

    /// Numbers of 96 bits in decimal digits of fixed length: those of the lowest 32 bits behind those of the bits above them.
    pub(crate) fn split96() -> Self {
        Self { bits: u64::BITS + u32::BITS, prefix: Box::default(), respelled: None, way: Way::Split }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_others_are_refused_with_the_list() {
        for form in TextForm::ALL {
            assert_eq!(form.to_string().parse(), Ok(form));
        }
        for bad in ["", "Hex", "hex ", "base64", "é"] {
            assert!(bad.parse::<TextForm>().unwrap_err().to_string().contains("base32"), "{bad}");
        }
    }
}
