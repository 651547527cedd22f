//! The four ways in which an integer ID is written.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::{CalendarError, IdKind};
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

/// A name that is no text form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no text form; there are decimal, hex, base32, uri")]
pub struct UnknownTextForm(String);

/// Why a text is no ID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Not written that way.
    #[error("'{text}' is no {kind} in {form}: {wanted}")]
    Form {
        /// What it should be.
        kind: IdKind,
        /// In which form.
        form: TextForm,
        /// How that form is written.
        wanted: &'static str,
        /// The text, cut to a bounded length.
        text: String,
    },
    /// Not written in any of the forms.
    #[error("'{text}' is no {kind} in any form")]
    NoForm {
        /// What it should be.
        kind: IdKind,
        /// The text, cut to a bounded length.
        text: String,
    },
    /// Written well, but at a time that does not exist.
    #[error("'{text}' is no {kind}: {error}")]
    Calendar {
        /// What it should be.
        kind: IdKind,
        /// What does not exist.
        error: CalendarError,
        /// The text, cut to a bounded length.
        text: String,
    },
    /// Two forms give two IDs.
    #[error("'{text}' is one {kind} in {first} and another in {second}: say which form it is")]
    Ambiguous {
        /// What it should be.
        kind: IdKind,
        /// One form.
        first: TextForm,
        /// The other.
        second: TextForm,
        /// The text, cut to a bounded length.
        text: String,
    },
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
        Self::ALL
            .into_iter()
            .find(|form| form.name() == name)
            .ok_or_else(|| UnknownTextForm(name.chars().take(32).collect()))
    }
}

impl fmt::Display for TextForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
