//! The kinds of IDs: what each of them is, how it is written, and how it is taken apart again.
//!
//! The differences from kind to kind stand in a module of the kind's own, as a constant [`Spec`] and the functions in it:
//! others ask [`Kind::spec`]. A further kind of numbers ([`Numbers`]) is a layout with a calendar, and a line in each of the
//! lists here: HTTP, metrics, `explain` and the console know it by that. What is typed for each kind (calls by RPC, of clients,
//! and in process) is written for it, and so is how a kind is minted that is neither numbers of 64 bits, nor a template, nor
//! numbered by the clock.
//!
//! | kind | right | unit of time | durable in the serial file | definition |
//! |---|---|---|---|---|
//! | [`Kind::Uniq64`] | a `uint2` token up to 4095 | hour | a block for all names, or for one whose scope is its own | no template |
//! | [`Kind::String`] | a token of a string type | day | a block for each name | a template |
//! | [`Kind::Layout`] | a `uint1` or `uint2` token that fits its bits | a tick | the time mark in the header, and a block that says which definition it is; where ticks are longer than 10 s, serials in that block | a layout ([`crate::layout`]), an encoding |
//! | [`Kind::Uniq96`] | a `uint2` token | millisecond | the time mark in the header | none: it has no names |
//! | [`Kind::Segment`] | a segment of the name's axis | none | segments and their marks, in the lineage file | an axis and steps ([`crate::segment`]) |
//! | [`Kind::Sequence`] | a section of the name's keys | none | bounds of sections, in `F.bounds` beside the serial file `F` | keys and steps ([`crate::sequence`]) |
//!
//! Two kinds are numbers of a form of our own, both packed from the most significant bit on, so that a larger number is never an earlier time:
//!
//! | number | fields and bits |
//! |---|---|
//! | [`UNIQ64`] | year-2000: 7, month: 4, day: 5, hour: 5, token: 12, serial: 31 |
//! | [`UNIQ96`] | year-2000: 12, month: 4, day: 5, hour: 5, minute: 6, second: 6, millisecond: 10, token: 16, serial: 32 |
//!
//! Calendar fields are those of the cluster's one UTC offset, which the ID does not carry. A layout refuses what does
//! not fit its fields: a year that wrapped would be an ID that came back.
//!
//! Text forms ([`TextForm`]) are exact both ways: what parses is what would be written, to the letter. All but the
//! decimal Uniq64 have a fixed width, so the texts sort as the numbers do.

mod explain;
mod layout;
mod plain;
mod string;
mod uniq;

pub use explain::{ExplainError, Explained, Known, Reading, TEXT_LEN_MAX, TextForms, TokenText, explain};
pub use layout::LayoutReading;
pub use uniq::{Numbers, ParseError, UNIQ64, UNIQ64_SERIALS_PER_HOUR, UNIQ96, UNIQ96_AHEAD_MAX};

pub use crate::calendar::{CalendarError, Ymd};
pub use crate::encoding::{TextForm, UnknownTextForm};

use crate::digits::shown;
use crate::layout::{Preset, TICK_MAX};
use crate::time::{DAY_MS, HOUR_MS, SpanMs};
use crate::token::TokenType;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A kind of ID. Those that have names come first: records keep a kind by its place here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Kind {
    /// Numbers of 64 bits, which `default` gives unless another kind is said.
    #[default]
    Uniq64,
    /// Characters by a template.
    String,
    /// Numbers whose bits the definition says.
    Layout,
    /// Plain numbers that masters hand out in segments.
    Segment,
    /// A counter for each key.
    Sequence,
    /// Numbers of 96 bits. No definition is of this kind: it keeps no serial, so it has no names.
    Uniq96,
}

/// The properties of a kind.
#[derive(Debug)]
pub struct Spec {
    /// The name in URLs, JSON and metrics.
    pub name: &'static str,
    /// The name of its IDs in sentences.
    pub title: &'static str,
    /// The token that an agent has to lease to mint it; `None`: it takes a range of numbers, and no token.
    pub right: Option<Right>,
    /// The unit of time that an ID carries: in it, token and serial are unique.
    pub unit: Bucket,
    /// The state that the serial file keeps of it.
    pub durable: Durable,
    /// The form of an ID.
    pub form: Form,
    /// The contents that a definition may have; `None`: there are no names of this kind.
    pub definition: Option<Definable>,
    /// Every way in which a text is an ID of this kind, by one of the names if it takes one.
    pub(crate) readings: fn(&str, &Known<'_>) -> Vec<Reading>,
}

/// The right to mint a kind: a leased token.
#[derive(Debug)]
pub struct Right {
    /// The type of token when nothing else is said.
    pub token_type: TokenType,
    /// The types that will do.
    pub token_types: &'static [TokenType],
    /// The token types in words.
    pub wanted: &'static str,
}

/// The state of a kind that is durable before its IDs are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// Serials: a block for each series, with this number of the kind in its flags.
    Block {
        /// The number of the kind in blocks; not 0.
        number: u8,
    },
    /// Time: the mark in the header.
    Mark,
    /// Ranges that masters granted: with the leases, in the lineage file.
    Ranges {
        /// The number of the kind, which no block has.
        number: u8,
    },
}

/// The form of the IDs of a kind.
#[derive(Debug)]
pub enum Form {
    /// Numbers of a layout with a calendar.
    Number(fn() -> &'static Numbers),
    /// Strings of a template, which has a capacity of its own.
    Template {
        /// The template of `default`.
        default: &'static str,
    },
    /// Numbers of a layout, which has a capacity and an end of its own. There is no `default`.
    Layout {
        /// A layout that will do.
        example: Preset,
    },
    /// Whole numbers in decimal that carry neither time nor token, as many as the name's axis has. There is no `default`.
    Plain,
    /// The same, a sequence for each key. A request names the key.
    Keyed,
}

/// The contents that a definition of a kind may have.
#[derive(Debug)]
pub struct Definable {
    /// True if the serial starts anew each day when nothing else is said.
    pub everyday_reset: bool,
    /// True if all names whose scope is the kind draw from one series of serials.
    pub shared_serials: bool,
}

/// A number or a name that is not a kind of generator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a kind of generator; there are {names}", names = Kind::NAMED.map(Kind::name).join(", "))]
pub struct UnknownKind(String);

impl Kind {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 6] = [Self::Uniq64, Self::Uniq96, Self::String, Self::Layout, Self::Segment, Self::Sequence];
    /// Kinds that have names.
    pub const NAMED: [Self; 5] = [Self::Uniq64, Self::String, Self::Layout, Self::Segment, Self::Sequence];
    /// Kinds of which there is a generator that nobody has to register: `default` where there are names.
    pub const PREDEFINED: [Self; 3] = [Self::Uniq64, Self::String, Self::Uniq96];

    /// The properties of the kind.
    pub const fn spec(self) -> &'static Spec {
        match self {
            Self::Uniq64 => &uniq::UNIQ64_SPEC,
            Self::String => &string::SPEC,
            Self::Layout => &layout::SPEC,
            Self::Segment => &plain::SEGMENT,
            Self::Sequence => &plain::SEQUENCE,
            Self::Uniq96 => &uniq::UNIQ96_SPEC,
        }
    }

    /// The name in URLs, JSON and metrics.
    pub const fn name(self) -> &'static str {
        self.spec().name
    }

    /// The number in the serial file's flags, or one that no block has; 0 if it has no names.
    pub const fn number(self) -> u8 {
        match self.spec().durable {
            Durable::Block { number } | Durable::Ranges { number } => number,
            Durable::Mark => 0,
        }
    }

    /// The numbers that its IDs are, if they are of a form of our own.
    pub fn numbers(self) -> Option<&'static Numbers> {
        match self.spec().form {
            Form::Number(numbers) => Some(numbers()),
            _ => None,
        }
    }

    /// Tells whether the serial file has blocks of it.
    pub const fn has_blocks(self) -> bool {
        matches!(self.spec().durable, Durable::Block { .. })
    }

    /// The type of token it uses when nothing else is said; `None` if it uses none.
    pub fn default_token_type(self) -> Option<TokenType> {
        self.spec().right.as_ref().map(|right| right.token_type)
    }
}

impl TryFrom<u8> for Kind {
    type Error = UnknownKind;
    /// Reads the number in a block of the serial file.
    fn try_from(number: u8) -> Result<Self, UnknownKind> {
        let mut blocks = Self::NAMED.into_iter().filter(|kind| kind.has_blocks());
        blocks.find(|kind| kind.number() == number).ok_or_else(|| UnknownKind(number.to_string()))
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;
    /// Only those that have names.
    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        Self::NAMED.into_iter().find(|kind| kind.name() == name).ok_or_else(|| UnknownKind(shown(name)))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The unit of time that an ID carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bucket {
    /// The unit of strings.
    Day,
    /// The unit of Uniq64.
    Hour,
    /// The unit of Uniq96.
    Millisecond,
    /// Layouts: as long as the definition says.
    Tick,
    /// Plain numbers carry no time: they are counted once and for all.
    Ever,
}

impl Bucket {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Hour => "hour",
            Self::Millisecond => "millisecond",
            Self::Tick => "tick",
            Self::Ever => "ever",
        }
    }

    /// The length; of a tick the shortest whose beginning stands in the serial file.
    pub const fn span(self) -> SpanMs {
        match self {
            Self::Day => SpanMs(DAY_MS),
            Self::Hour => SpanMs(HOUR_MS),
            Self::Millisecond => SpanMs(1),
            Self::Tick => TICK_MAX,
            Self::Ever => SpanMs(i64::MAX),
        }
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_their_numbers_and_names() {
        assert_eq!(Kind::NAMED.map(Kind::number), [1, 2, 3, 4, 5]);
        assert_eq!(Kind::ALL.map(Kind::name), ["uniq64", "uniq96", "string", "layout", "segment", "sequence"]);
        for kind in Kind::NAMED {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            assert_eq!(Kind::try_from(kind.number()).ok(), kind.has_blocks().then_some(kind));
        }
        assert!(Kind::try_from(0).is_err());
        let refusal = "uniq96".parse::<Kind>().unwrap_err().to_string();
        assert_eq!(refusal, "'uniq96' is not a kind of generator; there are uniq64, string, layout, segment, sequence");
    }

    /// Records and messages hold these bytes, and definitions these words.
    #[test]
    fn a_kind_is_kept_by_its_place() {
        for (kind, place) in Kind::NAMED.into_iter().chain([Kind::Uniq96]).zip(0u32..) {
            assert_eq!(bincode::serialize(&kind).unwrap(), place.to_le_bytes());
            assert_eq!(bincode::deserialize::<Kind>(&place.to_le_bytes()).unwrap(), kind);
            assert_eq!(serde_json::from_str::<Kind>(&format!("\"{kind}\"")).unwrap(), kind);
        }
        assert!(bincode::deserialize::<Kind>(&6u32.to_le_bytes()).is_err());
    }

    #[test]
    fn what_the_lists_say_and_what_the_kinds_say_is_the_same() {
        let mut named = Kind::ALL.to_vec();
        named.retain(|kind| kind.spec().definition.is_some());
        assert_eq!(named, Kind::NAMED);
        for kind in Kind::ALL {
            let Spec { right, durable, definition, unit, .. } = kind.spec();
            assert!(right.as_ref().is_none_or(|right| right.token_types.contains(&right.token_type)), "{kind}");
            assert_eq!(matches!(durable, Durable::Ranges { .. }), right.is_none(), "{kind}: a token or ranges");
            let kept = matches!(durable, Durable::Block { .. } | Durable::Ranges { .. });
            assert_eq!(kept, definition.is_some(), "{kind}: a name is a series, or has ranges");
            assert!(*unit == Bucket::Ever || DAY_MS % unit.span().0 == 0, "{kind}: no unit crosses a day");
            let Some(numbers) = kind.numbers() else { continue };
            assert_eq!(numbers.kind, kind);
            // A tick is what their serials are unique in, and an agent has a block of it or a mark.
            assert_eq!(numbers.layout().unit(), unit.span(), "{kind}");
        }
    }
}
