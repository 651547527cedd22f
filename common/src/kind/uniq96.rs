//! Uniq96: 96 bits, one token's serials per millisecond.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::text::{self, Layout, ParseError, TextForm};
use super::{
    Bucket, CalendarError, Durable, Field, Form, Kind, LayoutError, Reading, Right, Spec, TextForms, YEAR_FIRST, Ymd,
    exists,
};
use crate::calendar::{Civil, UtcOffset};
use crate::digits::{fill_decimal, read_decimal};
use crate::time::WallMs;
use crate::token::{TokenType, TokenValue};
use serde::{Deserialize, Serialize};
use std::io::Write as _;

const SERIAL_BITS: u32 = 32;
const TOKEN_BITS: u32 = 16;
const MILLISECOND_BITS: u32 = 10;
const SECOND_BITS: u32 = 6;
const MINUTE_BITS: u32 = 6;
const HOUR_BITS: u32 = 5;
const DAY_BITS: u32 = 5;
const MONTH_BITS: u32 = 4;
const YEAR_BITS: u32 = 12;

// Within the upper 64 bits; the serial has the lower 32 to itself.
const MILLISECOND_SHIFT: u32 = TOKEN_BITS;
const SECOND_SHIFT: u32 = MILLISECOND_SHIFT + MILLISECOND_BITS;
const MINUTE_SHIFT: u32 = SECOND_SHIFT + SECOND_BITS;
const HOUR_SHIFT: u32 = MINUTE_SHIFT + MINUTE_BITS;
const DAY_SHIFT: u32 = HOUR_SHIFT + HOUR_BITS;
const MONTH_SHIFT: u32 = DAY_SHIFT + DAY_BITS;
const YEAR_SHIFT: u32 = MONTH_SHIFT + MONTH_BITS;

const _: () = assert!(YEAR_SHIFT + YEAR_BITS + SERIAL_BITS == 96, "the fields fill the 96 bits");
const _: () = assert!(YEAR_SHIFT + YEAR_BITS == 64 && SERIAL_BITS == u32::BITS, "upper part and serial do not mix");
const _: () = assert!(1 << TOKEN_BITS == Uniq96::TOKEN_MAX + 1 && 1 << MILLISECOND_BITS >= 1_000);
const _: () = assert!(1 << SECOND_BITS >= 60 && 1 << MINUTE_BITS >= 60 && 1 << HOUR_BITS >= 24);
const _: () = assert!(1 << DAY_BITS > 31 && 1 << MONTH_BITS > 12);
const _: () = assert!(YEAR_FIRST + (1 << YEAR_BITS) == Uniq96::YEAR_LAST + 1);

const SCHEME: &str = "uniq96://";
const HIGH_DIGITS: usize = 20;
const SERIAL_DIGITS: usize = 10;
// Base32 in two halves of ten digits, so that each is arithmetic on a word.
const HALF_DIGITS: usize = 10;
const HALF_BITS: u32 = 50;
const _: () = assert!(HALF_DIGITS as u32 * 5 == HALF_BITS && 2 * HALF_BITS >= 96);

pub(super) const SPEC: Spec = Spec {
    name: "uniq96",
    title: "Uniq96",
    right: Some(Right { token_type: TokenType::Uint2, token_types: &[TokenType::Uint2], wanted: "uint2" }),
    unit: Bucket::Millisecond,
    durable: Durable::Mark,
    form: Form::Number {
        year_last: Uniq96::YEAR_LAST,
        fields: &[
            (Field::Year, YEAR_BITS),
            (Field::Month, MONTH_BITS),
            (Field::Day, DAY_BITS),
            (Field::Hour, HOUR_BITS),
            (Field::Minute, MINUTE_BITS),
            (Field::Second, SECOND_BITS),
            (Field::Millisecond, MILLISECOND_BITS),
            (Field::Token, TOKEN_BITS),
            (Field::Serial, SERIAL_BITS),
        ],
        serials: 1 << SERIAL_BITS,
        decimal: |offset, at, token, serial| Ok(Uniq96::new(offset, at, token, serial)?.text(TextForm::Decimal)),
        refusal: |text| Uniq96::parse(text).err(),
    },
    numbers: None,
    definition: None,
    readings: |text, _| TextForm::ALL.into_iter().filter_map(|form| reading(text, form)).collect(),
};

fn reading(text: &str, form: TextForm) -> Option<Reading> {
    let id = Uniq96::parse_form(text, form).ok()?;
    let Uniq96Fields { civil: c, token, serial } = id.fields().ok()?;
    let date = Ymd { year: c.year, month: c.month, day: c.day };
    let time = format!("{date}T{:02}:{:02}:{:02}.{:03}", c.hour, c.minute, c.second, c.millisecond);
    let texts = TextForms::of(|form| id.text(form));
    Some(Reading::integer(Kind::Uniq96, form, time, token.0, serial, texts))
}

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

const fn field(bits: u64, shift: u32, width: u32) -> u32 {
    ((bits >> shift) & ((1 << width) - 1)) as u32
}

impl Uniq96 {
    /// The largest token.
    pub const TOKEN_MAX: u32 = 65_535;
    /// The last year.
    pub const YEAR_LAST: i32 = 6095;

    /// The ID with these bits, whether its fields exist or not; `None` if there are more than 96.
    pub const fn from_bits(bits: u128) -> Option<Self> {
        if bits >> 96 == 0 { Some(Self { high: (bits >> SERIAL_BITS) as u64, serial: bits as u32 }) } else { None }
    }

    /// The ID as a number below 2^96.
    pub const fn bits(self) -> u128 {
        ((self.high as u128) << SERIAL_BITS) | self.serial as u128
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
        let civil = offset.civil(ms);
        let year = civil.map_or(if ms.0 < 0 { i32::MIN } else { i32::MAX }, |c| c.year);
        let refusal = LayoutError::YearOutOfRange { kind: Kind::Uniq96, year, last: Self::YEAR_LAST };
        let civil = civil.filter(|c| (YEAR_FIRST..=Self::YEAR_LAST).contains(&c.year)).ok_or(refusal)?;
        if token.0 > Self::TOKEN_MAX {
            return Err(LayoutError::TokenOutOfRange { kind: Kind::Uniq96, token: token.0, max: Self::TOKEN_MAX });
        }
        Ok(Self::pack(&civil, token.0))
    }

    /// The caller has checked that year and token fit.
    fn pack(civil: &Civil, token: u32) -> u64 {
        u64::from((civil.year - YEAR_FIRST).unsigned_abs()) << YEAR_SHIFT
            | u64::from(civil.month) << MONTH_SHIFT
            | u64::from(civil.day) << DAY_SHIFT
            | u64::from(civil.hour) << HOUR_SHIFT
            | u64::from(civil.minute) << MINUTE_SHIFT
            | u64::from(civil.second) << SECOND_SHIFT
            | u64::from(civil.millisecond) << MILLISECOND_SHIFT
            | u64::from(token)
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
        let fields = self.raw_fields();
        exists(&fields.civil)?;
        Ok(fields)
    }

    /// The fields as they stand in the bits, whether they exist or not.
    const fn raw_fields(self) -> Uniq96Fields {
        let high = self.high;
        Uniq96Fields {
            civil: Civil {
                year: YEAR_FIRST + field(high, YEAR_SHIFT, YEAR_BITS) as i32,
                month: field(high, MONTH_SHIFT, MONTH_BITS) as u8,
                day: field(high, DAY_SHIFT, DAY_BITS) as u8,
                hour: field(high, HOUR_SHIFT, HOUR_BITS) as u8,
                minute: field(high, MINUTE_SHIFT, MINUTE_BITS) as u8,
                second: field(high, SECOND_SHIFT, SECOND_BITS) as u8,
                millisecond: field(high, MILLISECOND_SHIFT, MILLISECOND_BITS) as u16,
            },
            token: TokenValue(field(high, 0, TOKEN_BITS)),
            serial: self.serial,
        }
    }

    /// Appends the ID in that form; allocates nothing but what `out` needs to grow.
    #[inline]
    pub fn write_text(&self, form: TextForm, out: &mut Vec<u8>) {
        self.push_text(form, out);
    }

    /// The ID in that form.
    pub fn text(&self, form: TextForm) -> String {
        let mut out = Vec::new();
        self.push_text(form, &mut out);
        // All forms are ASCII.
        String::from_utf8(out).unwrap_or_default()
    }

    /// The ID whose text in one of the forms is exactly `text`. The forms differ in length, so none reads twice.
    ///
    /// # Errors
    /// [`ParseError`] if there is none.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        text::parse(text)
    }

    /// The ID whose text in that form is exactly `text`.
    ///
    /// # Errors
    /// [`ParseError`] if there is none.
    pub fn parse_form(text: &str, form: TextForm) -> Result<Self, ParseError> {
        text::parse_form(text, form)
    }

    fn decode_decimal(text: &str) -> Option<Self> {
        let (high, serial) = text.split_at_checked(HIGH_DIGITS)?;
        Some(Self { high: read_decimal(high)?, serial: u32::try_from(read_decimal(serial)?).ok()? })
    }

    fn decode_uri(text: &str) -> Result<Option<Self>, CalendarError> {
        let Some(([year, month, day, hour, minute, second, millisecond], token, serial)) = text::read_uri(text, SCHEME)
        else {
            return Ok(None);
        };
        let small = |number: u16| u8::try_from(number).ok();
        let date = small(month).zip(small(day)).zip(small(hour));
        let Some((((month, day), hour), (minute, second))) = date.zip(small(minute).zip(small(second))) else {
            return Ok(None);
        };
        let civil = Civil { year: year.into(), month, day, hour, minute, second, millisecond };
        if !(YEAR_FIRST..=Self::YEAR_LAST).contains(&civil.year) || token > Self::TOKEN_MAX {
            return Ok(None);
        }
        exists(&civil)?;
        Ok(Some(Self::with_serial(Self::pack(&civil, token), serial)))
    }
}

impl Layout for Uniq96 {
    const KIND: Kind = Kind::Uniq96;

    fn wanted(form: TextForm) -> &'static str {
        match form {
            TextForm::Decimal => "30 digits: the upper 64 bits in 20, the serial in 10",
            TextForm::Hex => "24 digits of 0-9 a-f",
            TextForm::Base32 => "20 of 0-9 A-Z without I L O U, the first 0 or 1",
            TextForm::Uri => {
                "uniq96://2026-11-20_13:05:06_999/TOKEN/SERIAL, years 2000 to 6095, token to 65535, serial below 2^32"
            }
        }
    }

    fn push_text(self, form: TextForm, out: &mut Vec<u8>) {
        match form {
            TextForm::Decimal => {
                let mut digits = [0; HIGH_DIGITS + SERIAL_DIGITS];
                let (high, serial) = digits.split_at_mut(HIGH_DIGITS);
                fill_decimal(high, self.high);
                fill_decimal(serial, self.serial.into());
                out.extend_from_slice(&digits);
            }
            TextForm::Hex => {
                text::push_hex::<16>(self.high, out);
                text::push_hex::<8>(self.serial.into(), out);
            }
            TextForm::Base32 => {
                text::push_base32::<HALF_DIGITS>((self.bits() >> HALF_BITS) as u64, out);
                text::push_base32::<HALF_DIGITS>(self.bits() as u64, out);
            }
            TextForm::Uri => {
                let Uniq96Fields { civil: c, token, serial } = self.raw_fields();
                // Writing to a Vec cannot fail.
                let _ = write!(out, "{SCHEME}{:04}-{:02}-{:02}_{:02}:", c.year, c.month, c.day, c.hour);
                let _ = write!(out, "{:02}:{:02}_{:03}/{}/{serial}", c.minute, c.second, c.millisecond, token.0);
            }
        }
    }

    fn decode(text: &str, form: TextForm) -> Result<Option<Self>, CalendarError> {
        Ok(match form {
            TextForm::Decimal => Self::decode_decimal(text),
            TextForm::Hex if text.len() == 24 => u128::from_str_radix(text, 16).ok().and_then(Self::from_bits),
            TextForm::Base32 => text::read_base32(text).and_then(Self::from_bits),
            TextForm::Uri => return Self::decode_uri(text),
            TextForm::Hex => None,
        })
    }

    fn check(self) -> Result<(), CalendarError> {
        self.fields().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn civil(date: (i32, u8, u8), time: (u8, u8, u8, u16)) -> Civil {
        let ((year, month, day), (hour, minute, second, millisecond)) = (date, time);
        Civil { year, month, day, hour, minute, second, millisecond }
    }

    /// Field edges against texts that another program worked out from the layout's table.
    #[test]
    fn golden_at_the_edges_of_every_field() {
        let offset = UtcOffset::from_minutes(345).unwrap();
        for (civil, token, serial, decimal, hex, base32, uri) in [
            (
                civil((2000, 1, 1), (0, 0, 0, 0)),
                0,
                0,
                "000002902710697328640000000000",
                "000108000000000000000000",
                "00011000000000000000",
                "2000-01-01_00:00:00_000/0/0",
            ),
            (
                civil((2026, 11, 20), (13, 5, 6, 999)),
                65_535,
                1,
                "001203693322717102070000000001",
                "01aba3451be7ffff00000001",
                "00DBMD2HQSZZZW000001",
                "2026-11-20_13:05:06_999/65535/1",
            ),
            (
                civil((2024, 2, 29), (23, 59, 59, 999)),
                4_095,
                u32::MAX,
                "001089110073277849594294967295",
                "0182edfbefe70fffffffffff",
                "00C2XQXYZSRFZZZZZZZZ",
                "2024-02-29_23:59:59_999/4095/4294967295",
            ),
            (
                civil((2128, 1, 31), (0, 0, 0, 1)),
                4_096,
                1 << 31,
                "005770149061638922242147483648",
                "0801f8000001100080000000",
                "0201Z000008G02000000",
                "2128-01-31_00:00:00_001/4096/2147483648",
            ),
            (
                civil((6095, 12, 31), (23, 59, 59, 999)),
                65_535,
                u32::MAX,
                "184458974323062865914294967295",
                "fffcfdfbefe7ffffffffffff",
                "1ZZWZQXYZSZZZZZZZZZZ",
                "6095-12-31_23:59:59_999/65535/4294967295",
            ),
        ] {
            let id = Uniq96::new(offset, offset.instant(&civil).unwrap(), TokenValue(token), serial).unwrap();
            let uri = format!("uniq96://{uri}");
            assert_eq!(TextForm::ALL.map(|form| id.text(form)), [decimal, hex, base32, &uri]);
            assert_eq!(id.fields(), Ok(Uniq96Fields { civil, token: TokenValue(token), serial }));
            assert_eq!(Uniq96::from_be_bytes(id.to_be_bytes()), id);
            for text in TextForm::ALL.map(|form| id.text(form)) {
                assert_eq!(Uniq96::parse(&text), Ok(id));
            }
        }
    }

    #[test]
    fn years_and_tokens_beyond_the_field_are_refused() {
        let offset = UtcOffset::default();
        let at = |year| offset.instant(&civil((year, 6, 1), (0, 0, 0, 0))).unwrap();
        for year in [-1, 1970, 1999, 6096, 9999] {
            let refusal = LayoutError::YearOutOfRange { kind: Kind::Uniq96, year, last: 6095 };
            assert_eq!(Uniq96::new(offset, at(year), TokenValue(0), 0), Err(refusal));
        }
        for ms in [i64::MIN, i64::MAX] {
            assert!(Uniq96::new(offset, WallMs(ms), TokenValue(0), 0).is_err());
        }
        let refusal = LayoutError::TokenOutOfRange { kind: Kind::Uniq96, token: 65_536, max: 65_535 };
        assert_eq!(Uniq96::new(offset, at(2026), TokenValue(65_536), 0), Err(refusal));
    }

    #[test]
    fn the_last_millisecond_of_the_first_and_the_last_year_fits() {
        let offset = UtcOffset::from_minutes(-210).unwrap();
        for (year, edge) in
            [(2000, civil((2000, 1, 1), (0, 0, 0, 0))), (6095, civil((6095, 12, 31), (23, 59, 59, 999)))]
        {
            let at = offset.instant(&edge).unwrap();
            assert_eq!(Uniq96::new(offset, at, TokenValue(0), 0).unwrap().fields().unwrap().civil, edge);
            let beyond = WallMs(if year == 2000 { at.0 - 1 } else { at.0 + 1 });
            assert!(Uniq96::new(offset, beyond, TokenValue(0), 0).is_err());
        }
    }

    #[test]
    fn times_that_do_not_exist_are_named() {
        for (civil, field, value) in [
            (civil((2026, 13, 1), (0, 0, 0, 0)), "month", 13),
            (civil((2100, 2, 29), (0, 0, 0, 0)), "day", 29),
            (civil((2026, 1, 1), (24, 0, 0, 0)), "hour", 24),
            (civil((2026, 1, 1), (0, 60, 0, 0)), "minute", 60),
            (civil((2026, 1, 1), (0, 0, 60, 0)), "second", 60),
            (civil((2026, 1, 1), (0, 0, 0, 1_000)), "millisecond", 1_000),
        ] {
            let id = Uniq96::with_serial(Uniq96::pack(&civil, 0), 0);
            assert_eq!(id.fields().map_err(|e| (e.field, e.value)), Err((field, value)));
            for form in TextForm::ALL {
                let refusal = Uniq96::parse_form(&id.text(form), form).unwrap_err();
                assert!(refusal.to_string().contains(&format!("no {field} {value}")), "{refusal}");
            }
        }
    }

    #[test]
    fn more_than_96_bits_are_none() {
        assert_eq!(Uniq96::from_bits(1 << 96), None);
        assert_eq!(Uniq96::from_bits((1 << 96) - 1).map(Uniq96::bits), Some((1 << 96) - 1));
        for (form, text) in [(TextForm::Base32, "2".to_owned() + &"0".repeat(19)), (TextForm::Hex, "f".repeat(25))] {
            assert!(Uniq96::parse_form(&text, form).is_err());
        }
        assert!(Uniq96::parse_form(&"9".repeat(30), TextForm::Decimal).is_err());
    }
}
