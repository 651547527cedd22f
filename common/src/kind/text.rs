//! The four ways in which an integer ID is written, and how they are read: exactly, or not at all.
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
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::{CalendarError, Kind};
use crate::digits::{fill_digits, read_decimal, shown};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

const HEX: &[u8; 16] = b"0123456789abcdef";
const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

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

/// Why a text is not an ID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Not written that way.
    #[error("'{text}' is no {kind} in {form}, which is {wanted}")]
    Form {
        /// What it should be.
        kind: Kind,
        /// In which form.
        form: TextForm,
        /// How that form is written.
        wanted: &'static str,
        /// The text, cut to a bounded length.
        text: String,
    },
    /// Not written in any of the forms.
    #[error("'{text}' is no {kind} in any form (decimal, hex, base32, uri)")]
    NoForm {
        /// What it should be.
        kind: Kind,
        /// The text, cut to a bounded length.
        text: String,
    },
    /// Written well, but at a time that does not exist.
    #[error("'{text}' in {form} is no {kind} that was ever minted: {error}")]
    Calendar {
        /// What it should be.
        kind: Kind,
        /// In which form.
        form: TextForm,
        /// What does not exist.
        error: CalendarError,
        /// The text, cut to a bounded length.
        text: String,
    },
    /// Two forms give two IDs.
    #[error("'{text}' is one {kind} in {first} and another in {second}: say which form it is")]
    Ambiguous {
        /// What it should be.
        kind: Kind,
        /// One form.
        first: TextForm,
        /// The other.
        second: TextForm,
        /// The text, cut to a bounded length.
        text: String,
    },
}

/// What a layout needs to be written and read.
pub(super) trait Layout: Copy + PartialEq {
    /// Its name in messages.
    const KIND: Kind;

    /// How a form is written, for messages.
    fn wanted(form: TextForm) -> &'static str;

    /// Appends its text.
    fn push_text(self, form: TextForm, out: &mut Vec<u8>);

    /// An ID of which `text` may be the text: [`parse_form`] compares. `Err` where the text names a time that cannot
    /// even be put into the bits.
    fn decode(text: &str, form: TextForm) -> Result<Option<Self>, CalendarError>;

    /// Whether its fields exist.
    fn check(self) -> Result<(), CalendarError>;
}

/// Appends the texts of IDs, each with what stands behind it.
pub(super) fn write<L: Layout>(ids: impl Iterator<Item = L>, form: TextForm, after: &[u8], out: &mut Vec<u8>) {
    for id in ids {
        id.push_text(form, out);
        out.extend_from_slice(after);
    }
}

/// The ID whose text in that form is exactly `text`.
pub(super) fn parse_form<L: Layout>(text: &str, form: TextForm) -> Result<L, ParseError> {
    let calendar = |error| ParseError::Calendar { kind: L::KIND, form, error, text: shown(text) };
    let exact = |id: &L| {
        let mut own = Vec::with_capacity(text.len());
        id.push_text(form, &mut own);
        own == text.as_bytes()
    };
    let id = L::decode(text, form).map_err(calendar)?.filter(exact).ok_or_else(|| ParseError::Form {
        kind: L::KIND,
        form,
        wanted: L::wanted(form),
        text: shown(text),
    })?;
    id.check().map_err(calendar)?;
    Ok(id)
}

/// The ID whose text in one of the forms is exactly `text`.
pub(super) fn parse<L: Layout>(text: &str) -> Result<L, ParseError> {
    let mut found: Option<(TextForm, L)> = None;
    let mut error = ParseError::NoForm { kind: L::KIND, text: shown(text) };
    for form in TextForm::ALL {
        match (parse_form::<L>(text, form), found) {
            (Ok(id), None) => found = Some((form, id)),
            (Ok(id), Some((first, other))) if id != other => {
                return Err(ParseError::Ambiguous { kind: L::KIND, first, second: form, text: shown(text) });
            }
            // The reason that says most: a time that does not exist, or what is wrong behind a scheme.
            (Err(e @ ParseError::Calendar { .. }), _) => error = e,
            (Err(e), _) if form == TextForm::Uri && text.contains("://") => error = e,
            _ => {}
        }
    }
    found.map(|(_, id)| id).ok_or(error)
}

/// Appends the last `N` hex digits of `bits`.
pub(super) fn push_hex<const N: usize>(bits: u64, out: &mut Vec<u8>) {
    let mut field = [0; N];
    fill_digits::<16, _>(&mut field, bits, HEX);
    out.extend_from_slice(&field);
}

/// Appends the last `N` base32 digits of `bits`.
pub(super) fn push_base32<const N: usize>(bits: u64, out: &mut Vec<u8>) {
    let mut field = [0; N];
    fill_digits::<32, _>(&mut field, bits, CROCKFORD);
    out.extend_from_slice(&field);
}

/// The number that `text` spells in Crockford's alphabet, if it fits 128 bits.
pub(super) fn read_base32(text: &str) -> Option<u128> {
    let mut bits = 0u128;
    for byte in text.bytes().take(27) {
        let digit = CROCKFORD.iter().position(|c| *c == byte)?;
        bits = bits.checked_mul(32)? | digit as u128;
    }
    (text.len() <= 26).then_some(bits)
}

/// The pieces of a uri behind its scheme: `N` numbers of the date, the token, the serial.
pub(super) fn read_uri<const N: usize>(text: &str, scheme: &str) -> Option<([u16; N], u32, u32)> {
    let mut rest = text.strip_prefix(scheme)?.splitn(3, '/');
    let (date, token, serial) = (rest.next()?, rest.next()?, rest.next()?);
    let mut numbers = [0; N];
    let mut pieces = date.splitn(N, ['-', '_', ':']);
    for number in &mut numbers {
        *number = u16::try_from(read_decimal(pieces.next()?)?).ok()?;
    }
    let number = |text| u32::try_from(read_decimal(text)?).ok();
    Some((numbers, number(token)?, number(serial)?))
}

impl TextForm {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Decimal, Self::Hex, Self::Base32, Self::Uri];

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

    #[test]
    fn base32_is_crockfords() {
        assert_eq!(read_base32("16J"), Some(1_234));
        for letter in ["I", "L", "O", "U", "a", "é", "0000000000000000000000000000"] {
            assert_eq!(read_base32(letter), None, "{letter}");
        }
    }
}
