//! Templates of string IDs, accepted only with a proof that their IDs are unique.
//!
//! | field | stands for | characters |
//! |---|---|---|
//! | `{date:%Y%m%d}` | the day, in the cluster's UTC offset | by the specifiers: `%Y` 4, `%y` `%m` `%d` 2, `%j` 3, `%F` 10, `%%` 1 |
//! | `{biz:N}`, `{custom:N}` | what the caller gives, of A-Z a-z 0-9 | exactly N |
//! | `{token}` | the agent's token | 2 or 3 |
//! | `{serial:N}`, `{serial:N:36}` | the serial in radix 10 or 36, zero-padded, letters upper case | N, at most 19 or 12 |
//! | `{check:luhn}`, `{check:mod97}` | check digits over all that precedes | 1, 2 |
//!
//! Everything else stands for itself; a brace is written twice. There is one token and one serial, at most one `biz`,
//! one `custom` and one check, and one or more dates that together name the year and the day.
//!
//! The proof: every field has a fixed place and width, so two equal IDs have the same date, token and serial; one token
//! has one holder on one day, who never mints a serial twice on it. The caller's parts add nothing to it and can take
//! nothing away.

mod bound;
mod check;
mod date;
mod error;
mod overlap;
mod parse;
mod read;

pub use bound::{BoundTemplate, CallerParts};
pub(crate) use date::YEARS;
pub use error::{CallerError, TakeApartError, TemplateError};
pub use overlap::Overlap;
pub use read::{Part, PartKind, TakenApart};

use crate::token::TokenFamily;
use check::CheckKind;
use date::DateFormat;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The template of the string namespace `default`; its tokens are those of `string2-include-letter`.
pub const DEFAULT_TEMPLATE: &str = "{date:%Y%m%d}{biz:4}{token}{serial:8}{custom:2}";

/// A template whose IDs are all of one length, and unique for each day, token and serial.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "RawTemplate", into = "RawTemplate")]
pub struct Template {
    source: String,
    family: TokenFamily,
    pieces: Vec<Piece>,
    len: usize,
    serial: Serial,
    biz: Option<u32>,
    custom: Option<u32>,
}

#[derive(Serialize, Deserialize)]
struct RawTemplate {
    source: String,
    family: TokenFamily,
}

/// A piece of a template and its place in the ID, in characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Piece {
    place: Range<usize>,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum What {
    Literal(String),
    Date(DateFormat),
    Biz,
    Custom,
    Token,
    Serial(Serial),
    Check(CheckKind),
}

/// The form of the serial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Serial {
    radix: Radix,
    width: u32,
    /// radix ^ width.
    capacity: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Radix {
    Ten,
    ThirtySix,
}

impl Template {
    /// The longest ID, in characters.
    pub const LEN_MAX: usize = 128;
    /// The longest template, in bytes.
    pub const SOURCE_LEN_MAX: usize = 256;

    /// The text that it was parsed from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The family its tokens are of.
    pub fn family(&self) -> TokenFamily {
        self.family
    }

    /// Characters in each of its IDs, 1..=[`LEN_MAX`](Self::LEN_MAX).
    #[expect(clippy::len_without_is_empty, reason = "no template is empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Characters of the serial.
    pub fn serial_width(&self) -> u32 {
        self.serial.width
    }

    /// 10 or 36.
    pub fn serial_radix(&self) -> u32 {
        self.serial.radix.number()
    }

    /// Counts the IDs that one token has in one day: radix ^ width.
    pub fn capacity(&self) -> u64 {
        self.serial.capacity
    }

    /// Characters that the caller's `biz` must have; `None` if there is no such field.
    pub fn biz_len(&self) -> Option<u32> {
        self.biz
    }

    /// Counts how many of all characters may be letters as well as digits, if these are more than half of them, callers choose some of them,
    /// and no fixed letter or sign tells its strings from others. Such a template keeps out nearly every other one of its length.
    pub fn broad(&self) -> Option<(u32, u32)> {
        let open = |piece: &Piece| match &piece.what {
            What::Biz | What::Custom | What::Token | What::Serial(Serial { radix: Radix::ThirtySix, .. }) => {
                piece.place.len()
            }
            What::Literal(_) | What::Date(_) | What::Serial(_) | What::Check(_) => 0,
        };
        let tells = |piece: &Piece| match &piece.what {
            What::Literal(text) => text.bytes().any(|byte| !byte.is_ascii_digit()),
            _ => false,
        };
        let open: usize = self.pieces.iter().map(open).sum();
        let chosen = |piece: &Piece| matches!(piece.what, What::Biz | What::Custom);
        let broad = 2 * open > self.len && self.pieces.iter().any(chosen) && !self.pieces.iter().any(tells);
        broad.then(|| u32::try_from(open).ok().zip(u32::try_from(self.len).ok())).flatten()
    }

    /// Characters that the caller's `custom` must have; `None` if there is no such field.
    pub fn custom_len(&self) -> Option<u32> {
        self.custom
    }
}

impl Radix {
    const fn number(self) -> u32 {
        match self {
            Self::Ten => 10,
            Self::ThirtySix => 36,
        }
    }
}

impl What {
    fn kind(&self) -> PartKind {
        match self {
            Self::Literal(_) => PartKind::Literal,
            Self::Date(_) => PartKind::Date,
            Self::Biz => PartKind::Biz,
            Self::Custom => PartKind::Custom,
            Self::Token => PartKind::Token,
            Self::Serial(_) => PartKind::Serial,
            Self::Check(_) => PartKind::Check,
        }
    }
}

impl TryFrom<RawTemplate> for Template {
    type Error = TemplateError;
    fn try_from(raw: RawTemplate) -> Result<Self, TemplateError> {
        Self::parse(&raw.source, raw.family)
    }
}

impl From<Template> for RawTemplate {
    fn from(template: Template) -> Self {
        Self { source: template.source, family: template.family }
    }
}
