//! Token types and values: what is leased, and how it is written.
//!
//! Six types as in the seed design, with its numbers on the wire. They draw from three families of values: `uint1` is a
//! part of `uint2`, and the digits-only strings are a part of those with letters. One value of a family has one holder
//! at a time whatever the type it was asked for under; otherwise `uint1` 5 and `uint2` 5, or "42" and "42", would be two
//! agents with one token.
//!
//! The types `uint-5bit` to `uint-13bit` came later: they are the small values that layouts with a narrow token field need,
//! of the same family. Agents lease them when a name needs one ([`TokenType::is_on_demand`]).

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
    /// 5 bits: the values of `uint2` below 32.
    Uint5Bit = 35,
    /// 10 bits: the values of `uint2` below 1,024.
    Uint10Bit = 40,
    /// 12 bits: the values of `uint2` below 4,096.
    Uint12Bit = 42,
    /// 13 bits: the values of `uint2` below 8,192.
    Uint13Bit = 43,
}

/// A space of values in which one value has one holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TokenFamily {
    /// The types `string2-*`.
    String2,
    /// The types `string3-*`.
    String3,
    /// The types `uint*`.
    Uint,
}

/// A token: a value of a family. For strings it is the number that the characters spell in base 36.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TokenValue(pub u32);

/// The subject of a lease: one value of one family.
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

/// Part of a pool in use, in percent, from which on operators are warned.
pub const POOL_LOW_PERCENT: u32 = 80;

impl TokenType {
    /// All of them, in the order of their wire numbers.
    pub const ALL: [Self; 10] = [
        Self::String2IncludeLetter,
        Self::String3IncludeLetter,
        Self::String2OnlyNumber,
        Self::String3OnlyNumber,
        Self::Uint1,
        Self::Uint2,
        Self::Uint5Bit,
        Self::Uint10Bit,
        Self::Uint12Bit,
        Self::Uint13Bit,
    ];

    const NAMES: [&'static str; 10] = [
        Self::String2IncludeLetter.name(),
        Self::String3IncludeLetter.name(),
        Self::String2OnlyNumber.name(),
        Self::String3OnlyNumber.name(),
        Self::Uint1.name(),
        Self::Uint2.name(),
        Self::Uint5Bit.name(),
        Self::Uint10Bit.name(),
        Self::Uint12Bit.name(),
        Self::Uint13Bit.name(),
    ];

    /// The types that are a part of `uint2`, the narrowest first.
    const PARTS_OF_UINT2: [Self; 5] = [Self::Uint5Bit, Self::Uint1, Self::Uint10Bit, Self::Uint12Bit, Self::Uint13Bit];

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
            Self::Uint5Bit => "uint-5bit",
            Self::Uint10Bit => "uint-10bit",
            Self::Uint12Bit => "uint-12bit",
            Self::Uint13Bit => "uint-13bit",
        }
    }

    /// The space from which its values come.
    pub const fn family(self) -> TokenFamily {
        match self {
            Self::String2IncludeLetter | Self::String2OnlyNumber => TokenFamily::String2,
            Self::String3IncludeLetter | Self::String3OnlyNumber => TokenFamily::String3,
            Self::Uint1 | Self::Uint2 | Self::Uint5Bit | Self::Uint10Bit | Self::Uint12Bit | Self::Uint13Bit => {
                TokenFamily::Uint
            }
        }
    }

    /// Bits of its values if it is a number, whatever the cluster's `uint2_max`; `None` for characters.
    pub const fn bits(self) -> Option<u32> {
        match self {
            Self::Uint5Bit => Some(5),
            Self::Uint1 => Some(8),
            Self::Uint10Bit => Some(10),
            Self::Uint12Bit => Some(12),
            Self::Uint13Bit => Some(13),
            Self::Uint2 => Some(16),
            Self::String2IncludeLetter
            | Self::String3IncludeLetter
            | Self::String2OnlyNumber
            | Self::String3OnlyNumber => None,
        }
    }

    /// Tells whether an agent asks for one when a name needs it, beside the types that it was told to lease: a part of `uint2`.
    pub fn is_on_demand(self) -> bool {
        Self::PARTS_OF_UINT2.contains(&self)
    }

    /// The widest type whose values all fit so many bits: what a layout with such a token field leases. `None` for fewer than 5.
    /// From 12 bits on it is `uint2`: clusters have 4,096 values unless they were told otherwise, and an agent has one of those
    /// already.
    pub fn fitting(bits: u32) -> Option<Self> {
        if bits >= 12 {
            return Some(Self::Uint2);
        }
        Self::PARTS_OF_UINT2.into_iter().rfind(|kind| kind.bits().is_some_and(|own| own <= bits))
    }

    /// Tells whether `value` may be granted under this type in a cluster whose largest `uint2` is `uint2_max`.
    pub fn admits(self, value: TokenValue, uint2_max: u16) -> bool {
        let digits_only =
            |width: u32| value.0 < RADIX.pow(width) && (0..width).all(|place| value.0 / RADIX.pow(place) % RADIX < 10);
        match self {
            Self::String2IncludeLetter => value.0 < RADIX.pow(2),
            Self::String3IncludeLetter => value.0 < RADIX.pow(3),
            Self::String2OnlyNumber => digits_only(2),
            Self::String3OnlyNumber => digits_only(3),
            Self::Uint1 | Self::Uint2 | Self::Uint5Bit | Self::Uint10Bit | Self::Uint12Bit | Self::Uint13Bit => {
                value.0 < self.size(uint2_max)
            }
        }
    }

    /// Counts the values it admits in a cluster whose largest `uint2` is `uint2_max`.
    pub fn size(self, uint2_max: u16) -> u32 {
        match self {
            Self::String2OnlyNumber => 100,
            Self::String3OnlyNumber => 1_000,
            _ => {
                let all = self.family().size(uint2_max);
                self.bits().map_or(all, |bits| all.min(1 << bits))
            }
        }
    }

    /// The types that are a pool of their own in a cluster whose largest `uint2` is `uint2_max`: where `uint2` has no more
    /// values than a part of it, that part is not counted a second time.
    pub fn pools(uint2_max: u16) -> impl Iterator<Item = Self> {
        let is_all = move |kind: Self| {
            kind.bits().is_some_and(|bits| bits > 8) && kind.size(uint2_max) == Self::Uint2.size(uint2_max)
        };
        let is_seeds = |kind: Self| !kind.is_on_demand() || kind == Self::Uint1;
        let smallest = move |kind: Self| kind == Self::Uint5Bit && kind.size(uint2_max) == Self::Uint1.size(uint2_max);
        Self::ALL.into_iter().filter(move |kind| is_seeds(*kind) || !(is_all(*kind) || smallest(*kind)))
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

    /// Counts the values of the family in a cluster whose largest `uint2` is `uint2_max`.
    pub fn size(self, uint2_max: u16) -> u32 {
        match self.width() {
            Some(width) => RADIX.pow(width),
            None => u32::from(uint2_max) + 1,
        }
    }
}

/// Values in a row, and which of them are granted before others.
///
/// Values that fit 12 bits are what Uniq64 needs; among these the small ones are what layouts with narrow tokens need. So those
/// of 11 and 12 bits go first, then ever smaller ones, and at last those that not even Uniq64 can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tier {
    /// The family of its values.
    pub family: TokenFamily,
    /// The first value.
    pub first: u32,
    /// The one after the last.
    pub end: u32,
}

impl TokenFamily {
    /// All values of the family, those that are to be granted first at the beginning.
    pub fn tiers(self) -> impl Iterator<Item = Tier> {
        const UINT: &[(u32, u32)] = &[(1_024, 4_096), (256, 1_024), (32, 256), (0, 32), (4_096, 1 << 16)];
        const CHARACTERS: &[(u32, u32)] = &[(0, RADIX.pow(3))];
        let tiers = if self.width().is_some() { CHARACTERS } else { UINT };
        tiers.iter().map(move |(first, end)| Tier { family: self, first: *first, end: *end })
    }
}

impl Tier {
    /// The one in which a value stands.
    pub fn of(key: TokenKey) -> Self {
        let mut tiers = key.family.tiers();
        let all = Self { family: key.family, first: 0, end: u32::MAX };
        tiers.find(|tier| (tier.first..tier.end).contains(&key.value.0)).unwrap_or(all)
    }
}

impl TokenKey {
    /// True if it is of the tier that is granted when nothing else is left, in a family that has several.
    pub fn is_granted_last(self) -> bool {
        let tier = Tier::of(self);
        self.family.tiers().last() == Some(tier) && self.family.tiers().next() != Some(tier)
    }

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
        assert_eq!(TokenType::ALL.map(TokenType::wire), [2, 3, 12, 13, 21, 22, 35, 40, 42, 43]);
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
        assert_eq!(
            TokenType::ALL.map(|kind| count(kind, 4095)),
            [1_296, 46_656, 100, 1_000, 256, 4_096, 32, 1_024, 4_096, 4_096]
        );
        assert_eq!(count(TokenType::Uint2, 65_535), 65_536);
        assert_eq!(count(TokenType::Uint1, 99), 100);
    }

    #[test]
    fn a_narrow_field_leases_the_widest_type_that_fits_it() {
        use TokenType::{Uint1, Uint2, Uint5Bit, Uint10Bit};
        for (bits, fitting) in [(5, Uint5Bit), (7, Uint5Bit), (8, Uint1), (9, Uint1), (10, Uint10Bit), (11, Uint10Bit)]
        {
            assert_eq!(TokenType::fitting(bits), Some(fitting), "{bits}");
        }
        assert_eq!(
            (TokenType::fitting(4), TokenType::fitting(12), TokenType::fitting(22)),
            (None, Some(Uint2), Some(Uint2))
        );
    }

    #[test]
    fn every_value_is_in_one_tier_and_a_narrow_type_ends_with_one() {
        for family in TokenFamily::ALL {
            let mut tiers: Vec<_> = family.tiers().map(|tier| (tier.first, tier.end)).collect();
            tiers.sort_unstable();
            let gapless = tiers.windows(2).all(|pair| pair[0].1 == pair[1].0);
            assert!(gapless && tiers[0].0 == 0 && tiers.last().unwrap().1 >= family.size(u16::MAX), "{tiers:?}");
        }
        let ends: Vec<u32> = TokenFamily::Uint.tiers().map(|tier| tier.end).collect();
        let narrow = TokenType::PARTS_OF_UINT2.iter().filter(|kind| kind.bits() < Some(13));
        assert!(narrow.map(|kind| kind.size(u16::MAX)).all(|size| ends.contains(&size)));
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
