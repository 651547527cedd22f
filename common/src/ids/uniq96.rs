//! Uniq96: 96 bits, one token's serials per millisecond.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::text::{ParseError, TextForm};
use super::{CalendarError, LayoutError};
use crate::calendar::{Civil, UtcOffset};
use crate::time::WallMs;
use crate::token::TokenValue;
use serde::{Deserialize, Serialize};

/// A 96-bit ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Uniq96 {
    // Time and token; stands first so that the derived order is the numbers'.
    high: u64,
    serial: u32,
}

/// The fields of a [`Uniq96`], all of which exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uniq96Fields {
    /// In the cluster's offset; the year is 2000..=6095.
    pub civil: Civil,
    /// 0..=65535.
    pub token: TokenValue,
    /// Any.
    pub serial: u32,
}

impl Uniq96 {
    /// The largest token.
    pub const TOKEN_MAX: u32 = 65_535;

    /// The ID with these bits, whether its fields exist or not; `None` if there are more than 96.
    pub const fn from_bits(bits: u128) -> Option<Self> {
        if bits >> 96 == 0 { Some(Self { high: (bits >> 32) as u64, serial: bits as u32 }) } else { None }
    }

    /// The ID as a number below 2^96.
    pub const fn bits(self) -> u128 {
        ((self.high as u128) << 32) | self.serial as u128
    }

    /// The ID as 12 bytes, the most significant first.
    pub const fn to_be_bytes(self) -> [u8; 12] {
        let [a, b, c, d, e, f, g, h] = self.high.to_be_bytes();
        let [i, j, k, l] = self.serial.to_be_bytes();
        [a, b, c, d, e, f, g, h, i, j, k, l]
    }

    /// The ID with these bytes, the most significant first.
    pub const fn from_be_bytes(bytes: [u8; 12]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = bytes;
        Self { high: u64::from_be_bytes([a, b, c, d, e, f, g, h]), serial: u32::from_be_bytes([i, j, k, l]) }
    }

    /// The upper 64 bits, time and token, of all IDs of that millisecond and token.
    ///
    /// # Errors
    /// [`LayoutError`] if the year is outside 2000..=6095 or the token above [`TOKEN_MAX`](Self::TOKEN_MAX).
    pub fn prefix(offset: UtcOffset, ms: WallMs, token: TokenValue) -> Result<u64, LayoutError> {
        let _ = (offset, ms, token);
        todo!()
    }

    /// The ID of a [`prefix`](Self::prefix) with that serial.
    #[inline]
    pub const fn with_serial(prefix: u64, serial: u32) -> Self {
        Self { high: prefix, serial }
    }

    /// The ID of that millisecond, token and serial.
    ///
    /// # Errors
    /// As [`prefix`](Self::prefix).
    pub fn new(offset: UtcOffset, ms: WallMs, token: TokenValue, serial: u32) -> Result<Self, LayoutError> {
        Ok(Self::with_serial(Self::prefix(offset, ms, token)?, serial))
    }

    /// The fields.
    ///
    /// # Errors
    /// [`CalendarError`] if they name no millisecond that exists.
    pub fn fields(self) -> Result<Uniq96Fields, CalendarError> {
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
    /// [`ParseError`] if there is none.
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
