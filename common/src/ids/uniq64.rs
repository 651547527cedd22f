//! Uniq64: 64 bits, one token's serials per hour.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::text::{ParseError, TextForm};
use super::{CalendarError, LayoutError};
use crate::calendar::{HourBucket, UtcOffset};
use crate::token::TokenValue;
use serde::{Deserialize, Serialize};

/// How many IDs one token has in one hour.
pub const UNIQ64_SERIALS_PER_HOUR: u64 = 1 << 31;

/// A 64-bit ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Uniq64(u64);

/// The fields of a [`Uniq64`], all of which exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uniq64Fields {
    /// 2000..=2127.
    pub year: i32,
    /// 1..=12.
    pub month: u8,
    /// 1..=31.
    pub day: u8,
    /// 0..=23.
    pub hour: u8,
    /// 0..=4095.
    pub token: TokenValue,
    /// 0..2^31.
    pub serial: u32,
}

impl Uniq64 {
    /// The largest token.
    pub const TOKEN_MAX: u32 = 4_095;

    /// The ID with these bits, whether its fields exist or not: [`fields`](Self::fields) judges that.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The ID as a number.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The bits of the ID of that hour and token whose serial is 0.
    ///
    /// # Errors
    /// [`LayoutError`] if the year is outside 2000..=2127 or the token above [`TOKEN_MAX`](Self::TOKEN_MAX).
    pub fn prefix(offset: UtcOffset, hour: HourBucket, token: TokenValue) -> Result<u64, LayoutError> {
        let _ = (offset, hour, token);
        todo!()
    }

    /// The ID of a [`prefix`](Self::prefix) with that serial, modulo [`UNIQ64_SERIALS_PER_HOUR`].
    #[inline]
    pub const fn with_serial(prefix: u64, serial: u32) -> Self {
        Self(prefix | (serial as u64 & (UNIQ64_SERIALS_PER_HOUR - 1)))
    }

    /// The fields.
    ///
    /// # Errors
    /// [`CalendarError`] if they name no hour that exists.
    pub fn fields(self) -> Result<Uniq64Fields, CalendarError> {
        todo!()
    }

    /// Appends the ID in that form; allocates nothing but what `out` needs to grow.
    pub fn write_text(&self, form: TextForm, out: &mut Vec<u8>) {
        let _ = (form, out);
        todo!()
    }

    /// The ID in that form.
    pub fn text(&self, form: TextForm) -> String {
        let mut out = Vec::new();
        self.write_text(form, &mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    /// The ID whose text in one of the forms is exactly `text`.
    ///
    /// # Errors
    /// [`ParseError`] if there is none, or if two forms give two IDs.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let _ = text;
        todo!()
    }

    /// The ID whose text in that form is exactly `text`.
    ///
    /// # Errors
    /// [`ParseError`] if there is none.
    pub fn parse_form(text: &str, form: TextForm) -> Result<Self, ParseError> {
        let _ = (text, form);
        todo!()
    }
}

impl Uniq64Fields {
    /// The hour the ID carries, in the cluster's offset.
    pub fn bucket(&self) -> HourBucket {
        todo!()
    }
}
