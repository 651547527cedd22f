//! The fields of a layout: what stands in so many bits, and where.

use super::Unit;
use crate::digits::shown;
use std::fmt;
use std::str::FromStr;

/// The contents of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Always this number; 0 is written as `zero`.
    Const(u64),
    /// Ticks since the epoch.
    Time,
    /// A field of the calendar that stands for ticks.
    Calendar(Unit),
    /// The leased token.
    Token,
    /// The count within tick and token.
    Serial,
    /// Bits that say nothing.
    Random,
}

/// Bits of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Field {
    /// The contents.
    pub part: Part,
    /// The number of bits: 1 to 128.
    pub bits: u32,
}

/// The reason why a text is not a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// Not written like one.
    #[error(
        "'{0}' is not a field: write zero:N, const:N=V, time:N, token:N, serial:N, random:N, or year:N and what follows it in a calendar"
    )]
    Form(String),
    /// A width that cannot be.
    #[error("'{0}' has no width that fits: 1 to {BITS_MAX} bits")]
    Bits(String),
    /// A constant that its bits do not hold.
    #[error("'{0}' is a constant that does not fit its bits, or 0, which is written zero:N")]
    Const(String),
}

/// The widest field.
const BITS_MAX: u32 = 128;
/// The widest constant.
const CONST_BITS_MAX: u32 = 64;

/// The lowest `bits` bits.
pub(super) const fn mask(bits: u32) -> u128 {
    if bits >= u128::BITS { u128::MAX } else { (1 << bits) - 1 }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Const(0) => "zero",
            Self::Const(_) => "const",
            Self::Time => "time",
            Self::Calendar(unit) => return unit.fmt(f),
            Self::Token => "token",
            Self::Serial => "serial",
            Self::Random => "random",
        })
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            Part::Const(value @ 1..) => write!(f, "const:{}={value}", self.bits),
            part => write!(f, "{part}:{}", self.bits),
        }
    }
}

impl FromStr for Field {
    type Err = FieldError;
    fn from_str(text: &str) -> Result<Self, FieldError> {
        let form = || FieldError::Form(shown(text));
        let (name, rest) = text.split_once(':').ok_or_else(form)?;
        let (width, value) = rest.split_once('=').map_or((rest, None), |(width, value)| (width, Some(value)));
        let part = match (name, value) {
            ("zero", None) => Part::Const(0),
            ("const", Some(value)) => {
                Part::Const(crate::digits::read_decimal(value).ok_or_else(|| FieldError::Const(shown(text)))?)
            }
            ("time", None) => Part::Time,
            ("token", None) => Part::Token,
            ("serial", None) => Part::Serial,
            ("random", None) => Part::Random,
            (name, None) => Part::Calendar(Unit::named(name).ok_or_else(form)?),
            _ => return Err(form()),
        };
        let bits = crate::digits::read_decimal(width).and_then(|bits| u32::try_from(bits).ok());
        let bits = bits.filter(|bits| (1..=BITS_MAX).contains(bits)).ok_or_else(|| FieldError::Bits(shown(text)))?;
        match part {
            Part::Const(0) if name == "const" => Err(FieldError::Const(shown(text))),
            Part::Const(value) if bits < CONST_BITS_MAX && u128::from(value) > mask(bits) => {
                Err(FieldError::Const(shown(text)))
            }
            part => Ok(Self { part, bits }),
        }
    }
}

/// The fields' bits in as few fields as there can be: pieces that continue each other are one field, and so are constants side by
/// side. Layouts that write every number alike have the same joined fields.
pub(super) fn joined(fields: &[Field]) -> Vec<Field> {
    let mut joined: Vec<Field> = Vec::with_capacity(fields.len());
    let mut constant = Constant::default();
    for field in fields {
        if let Part::Const(value) = field.part {
            constant.append(value, field.bits);
            continue;
        }
        std::mem::take(&mut constant).put_into(&mut joined);
        match joined.last_mut().filter(|last| last.part == field.part) {
            Some(last) => last.bits += field.bits,
            None => joined.push(*field),
        }
    }
    constant.put_into(&mut joined);
    joined
}

/// Constant bits side by side.
#[derive(Default)]
struct Constant {
    value: u128,
    bits: u32,
}

impl Constant {
    fn append(&mut self, value: u64, bits: u32) {
        self.value = self.value.checked_shl(bits).unwrap_or(0) | u128::from(value);
        self.bits += bits;
    }

    /// Adds it as one field; as two if its number needs more bits than a field's constant has.
    fn put_into(self, fields: &mut Vec<Field>) {
        let Self { value, bits } = self;
        let low = value & mask(CONST_BITS_MAX);
        let split = [(value >> CONST_BITS_MAX, bits.saturating_sub(CONST_BITS_MAX)), (low, CONST_BITS_MAX)];
        let whole = [(value, bits)];
        let pieces: &[(u128, u32)] = if value == low { &whole } else { &split };
        let field =
            |(value, bits): &(u128, u32)| Some(Field { part: Part::Const(u64::try_from(*value).ok()?), bits: *bits });
        fields.extend(pieces.iter().filter(|(_, bits)| *bits > 0).filter_map(field));
    }
}

/// The places of the bits of one number in an ID.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Placement {
    /// Bits in all pieces.
    bits: u32,
    /// The least significant first.
    pieces: Vec<BitRun>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct BitRun {
    /// Its bits in the ID.
    mask: u128,
    /// The bits by which they stand higher there than in the number.
    up: u32,
}

impl Placement {
    /// A further piece, which stands below those that there are, in the number and in the ID.
    pub(super) fn add_below(&mut self, bits: u32, shift: u32) {
        for piece in &mut self.pieces {
            piece.up -= bits;
        }
        self.bits += bits;
        let mask = mask(bits) << shift;
        match self.pieces.first_mut() {
            // The fields of a calendar stand side by side.
            Some(above) if above.up == shift => above.mask |= mask,
            _ => self.pieces.insert(0, BitRun { mask, up: shift }),
        }
    }

    /// Counts the bits in all pieces.
    pub(super) fn bits(&self) -> u32 {
        self.bits
    }

    /// The place of its lowest bit in the ID; of none, above all.
    pub(super) fn lowest(&self) -> u32 {
        self.pieces.first().map_or(u32::MAX, |piece| piece.mask.trailing_zeros())
    }

    /// The place after its highest bit in the ID; of none, 0.
    pub(super) fn end(&self) -> u32 {
        self.pieces.last().map_or(0, |piece| u128::BITS - piece.mask.leading_zeros())
    }

    /// The bit at which it begins in the ID, if it stands there in one piece.
    pub(super) fn shift(&self) -> Option<u32> {
        match self.pieces[..] {
            [BitRun { up, .. }] => Some(up),
            _ => None,
        }
    }

    /// The number in its place; what does not fit is cut off.
    #[inline]
    pub(super) fn put(&self, number: u128) -> u128 {
        match self.pieces.as_slice() {
            [piece] => number << piece.up & piece.mask,
            pieces => pieces.iter().fold(0, |id, piece| id | number << piece.up & piece.mask),
        }
    }

    /// The number that stands in its place.
    #[inline]
    pub(super) fn get(&self, id: u128) -> u128 {
        self.pieces.iter().fold(0, |number, piece| number | (id & piece.mask) >> piece.up)
    }
}
