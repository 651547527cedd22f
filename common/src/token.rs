//! Token types and values: what is leased, and how it is written.
//!
//! Six types as in the seed design, with its numbers on the wire. They draw from three families of values: `uint1` is a
//! part of `uint2`, and the digits-only strings are a part of those with letters. One value of a family has one holder
//! at a time whatever the type it was asked for under; otherwise `uint1` 5 and `uint2` 5, or "42" and "42", would be two
//! agents with one token.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A kind of token, with its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
#[repr(u8)]
pub enum TokenType {
    /// Two characters of 0-9 A-Z: 1,296 values.
    String2IncludeLetter = 2,
    /// Three characters of 0-9 A-Z: 46,656 values.
    String3IncludeLetter = 3,
    /// Two digits: 100 values, those of the two-character family without letters.
    String2OnlyNumber = 12,
    /// Three digits: 1,000 values, those of the three-character family without letters.
    String3OnlyNumber = 13,
    /// One byte: 256 values.
    Uint1 = 21,
    /// Two bytes: 65,536 values, of which the cluster uses those up to its `uint2_max`.
    Uint2 = 22,
}

/// A space of values in which one value has one holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TokenFamily {
    /// `string2-*`.
    String2,
    /// `string3-*`.
    String3,
    /// `uint*`.
    Uint,
}

/// A token: a value of a family. For strings it is the number that the characters spell in base 36.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TokenValue(pub u32);

/// What a lease is about: one value of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TokenKey {
    /// The space of values.
    pub family: TokenFamily,
    /// The value in it.
    pub value: TokenValue,
}

/// A number or a name that is not a token type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a token type; there are {names}", names = TokenType::NAMES.join(", "))]
pub struct UnknownTokenType(String);

const RADIX: u32 = 36;

/// With this part of a pool in use, in percent, operators are warned.
pub const POOL_LOW_PERCENT: u32 = 80;

impl TokenType {
    /// All of them, in the order of their wire numbers.
    pub const ALL: [Self; 6] = [
        Self::String2IncludeLetter,
        Self::String3IncludeLetter,
        Self::String2OnlyNumber,
        Self::String3OnlyNumber,
        Self::Uint1,
        Self::Uint2,
    ];

    const NAMES: [&'static str; 6] = [
        Self::String2IncludeLetter.name(),
        Self::String3IncludeLetter.name(),
        Self::String2OnlyNumber.name(),
        Self::String3OnlyNumber.name(),
        Self::Uint1.name(),
        Self::Uint2.name(),
    ];

    /// The number on the wire and on disk (seed design).
    pub const fn wire(self) -> u8 {
        self as u8
    }

    /// The name in flags, URLs and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::String2IncludeLetter => "string2-include-letter",
            Self::String3IncludeLetter => "string3-include-letter",
            Self::String2OnlyNumber => "string2-only-number",
            Self::String3OnlyNumber => "string3-only-number",
            Self::Uint1 => "uint1",
            Self::Uint2 => "uint2",
        }
    }

    /// The space from which its values come.
    pub const fn family(self) -> TokenFamily {
        match self {
            Self::String2IncludeLetter | Self::String2OnlyNumber => TokenFamily::String2,
            Self::String3IncludeLetter | Self::String3OnlyNumber => TokenFamily::String3,
            Self::Uint1 | Self::Uint2 => TokenFamily::Uint,
        }
    }

    /// Whether `value` may be granted under this type in a cluster whose largest `uint2` is `uint2_max`.
    pub fn admits(self, value: TokenValue, uint2_max: u16) -> bool {
        let digits_only =
            |width: u32| value.0 < RADIX.pow(width) && (0..width).all(|place| value.0 / RADIX.pow(place) % RADIX < 10);
        match self {
            Self::String2IncludeLetter => value.0 < RADIX.pow(2),
            Self::String3IncludeLetter => value.0 < RADIX.pow(3),
            Self::String2OnlyNumber => digits_only(2),
            Self::String3OnlyNumber => digits_only(3),
            Self::Uint1 => value.0 <= u32::from(u8::MAX).min(u32::from(uint2_max)),
            Self::Uint2 => value.0 <= u32::from(uint2_max),
        }
    }

    /// How many values it admits in a cluster whose largest `uint2` is `uint2_max`.
    pub fn size(self, uint2_max: u16) -> u32 {
        match self {
            Self::String2OnlyNumber => 100,
            Self::String3OnlyNumber => 1_000,
            Self::Uint1 => self.family().size(uint2_max.min(u8::MAX.into())),
            Self::String2IncludeLetter | Self::String3IncludeLetter | Self::Uint2 => self.family().size(uint2_max),
        }
    }

    /// The key under which a lease of `value` is kept.
    pub const fn key(self, value: TokenValue) -> TokenKey {
        TokenKey { family: self.family(), value }
    }
}

impl TokenFamily {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::String2, Self::String3, Self::Uint];

    /// Characters of a token in a string ID; `None` for numbers.
    pub const fn width(self) -> Option<u32> {
        match self {
            Self::String2 => Some(2),
            Self::String3 => Some(3),
            Self::Uint => None,
        }
    }

    /// How many values the family has in a cluster whose largest `uint2` is `uint2_max`.
    pub fn size(self, uint2_max: u16) -> u32 {
        match self.width() {
            Some(width) => RADIX.pow(width),
            None => u32::from(uint2_max) + 1,
        }
    }
}

impl TokenKey {
    /// The token as a person sees it: the characters of a string token, the decimal number of a `uint` one.
    pub fn text(self) -> String {
        match self.family.width() {
            None => self.value.0.to_string(),
            Some(width) => (0..width)
                .rev()
                .filter_map(|place| char::from_digit(self.value.0 / RADIX.pow(place) % RADIX, RADIX))
                .map(|c| c.to_ascii_uppercase())
                .collect(),
        }
    }

    /// The key whose [`text`](Self::text) is `text`, or `None`. Exact: no signs, spaces, lower case or leading zeros.
    pub fn parse(family: TokenFamily, text: &str) -> Option<Self> {
        let radix = if family.width().is_some() { RADIX } else { 10 };
        let key = Self { family, value: TokenValue(u32::from_str_radix(text, radix).ok()?) };
        (text.len() <= 5 && key.text() == text).then_some(key)
    }
}

impl From<TokenType> for u8 {
    fn from(kind: TokenType) -> Self {
        kind.wire()
    }
}

impl TryFrom<u8> for TokenType {
    type Error = UnknownTokenType;
    fn try_from(wire: u8) -> Result<Self, UnknownTokenType> {
        Self::ALL.into_iter().find(|kind| kind.wire() == wire).ok_or_else(|| UnknownTokenType(wire.to_string()))
    }
}

impl FromStr for TokenType {
    type Err = UnknownTokenType;
    fn from_str(name: &str) -> Result<Self, UnknownTokenType> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownTokenType(name.chars().take(64).collect()))
    }
}

impl fmt::Display for TokenType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_has_as_many_values_as_it_admits() {
        for uint2_max in [0, 15, 255, 256, 4_095] {
            for kind in TokenType::ALL {
                let admitted = (0..kind.family().size(uint2_max)).filter(|v| kind.admits(TokenValue(*v), uint2_max));
                assert_eq!(admitted.count(), kind.size(uint2_max) as usize, "{kind} of {uint2_max}");
            }
        }
    }

    #[test]
    fn wire_numbers_are_the_seeds() {
        assert_eq!(TokenType::ALL.map(TokenType::wire), [2, 3, 12, 13, 21, 22]);
        for kind in TokenType::ALL {
            assert_eq!(TokenType::try_from(kind.wire()), Ok(kind));
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert!(TokenType::try_from(4).is_err());
        assert!("uint3".parse::<TokenType>().unwrap_err().to_string().contains("uint2"));
    }

    #[test]
    fn each_type_has_the_values_it_says() {
        let count = |kind: TokenType, max| (0..70_000).filter(|v| kind.admits(TokenValue(*v), max)).count();
        assert_eq!(TokenType::ALL.map(|kind| count(kind, 4095)), [1_296, 46_656, 100, 1_000, 256, 4_096]);
        assert_eq!(count(TokenType::Uint2, 65_535), 65_536);
        assert_eq!(count(TokenType::Uint1, 99), 100);
    }

    #[test]
    fn a_digits_only_token_is_the_same_value_as_with_letters() {
        let key = TokenKey::parse(TokenFamily::String2, "42").unwrap();
        assert!(
            TokenType::String2OnlyNumber.admits(key.value, 0) && TokenType::String2IncludeLetter.admits(key.value, 0)
        );
        assert!(!TokenType::String2OnlyNumber.admits(TokenKey::parse(TokenFamily::String2, "4A").unwrap().value, 0));
    }

    #[test]
    fn text_is_injective_and_exact() {
        for family in TokenFamily::ALL {
            let mut seen = std::collections::BTreeSet::new();
            for value in 0..family.size(u16::MAX) {
                let key = TokenKey { family, value: TokenValue(value) };
                let text = key.text();
                assert_eq!(TokenKey::parse(family, &text), Some(key));
                assert!(seen.insert(text));
            }
        }
        for bad in ["", "1", "a1", "+1", "001", "é", "99999999999"] {
            assert_eq!(TokenKey::parse(TokenFamily::String2, bad), None, "{bad}");
        }
        assert_eq!(TokenKey::parse(TokenFamily::Uint, "007"), None);
    }
}
