//! Uniq64: 64 bits, one token's serials per hour.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::text::{self, Layout, ParseError, TextForm};
use super::{
    Bucket, CalendarError, Definable, Durable, Field, Form, Kind, Known, LayoutError, Numbers, Reading, Right, Spec,
    TextForms, YEAR_FIRST, Ymd, exists,
};
use crate::calendar::{Civil, HourBucket, UtcOffset};
use crate::digits::read_decimal;
use crate::namespace::Namespace;
use crate::token::{TokenType, TokenValue};
use serde::{Deserialize, Serialize};
use std::io::Write as _;

const SERIAL_BITS: u32 = 31;
const TOKEN_BITS: u32 = 12;
const HOUR_BITS: u32 = 5;
const DAY_BITS: u32 = 5;
const MONTH_BITS: u32 = 4;
const YEAR_BITS: u32 = 7;

const TOKEN_SHIFT: u32 = SERIAL_BITS;
const HOUR_SHIFT: u32 = TOKEN_SHIFT + TOKEN_BITS;
const DAY_SHIFT: u32 = HOUR_SHIFT + HOUR_BITS;
const MONTH_SHIFT: u32 = DAY_SHIFT + DAY_BITS;
const YEAR_SHIFT: u32 = MONTH_SHIFT + MONTH_BITS;

const _: () = assert!(YEAR_SHIFT + YEAR_BITS == 64, "the fields fill the 64 bits");
const _: () = assert!(SERIAL_BITS + TOKEN_BITS + HOUR_BITS + DAY_BITS + MONTH_BITS + YEAR_BITS == 64);
const _: () = assert!(1 << TOKEN_BITS == Uniq64::TOKEN_MAX + 1 && 1u64 << SERIAL_BITS == UNIQ64_SERIALS_PER_HOUR);
const _: () = assert!(1 << HOUR_BITS >= 24 && 1 << DAY_BITS > 31 && 1 << MONTH_BITS > 12);
const _: () = assert!(YEAR_FIRST + (1 << YEAR_BITS) == Uniq64::YEAR_LAST + 1);

const SCHEME: &str = "uniq64://";

/// How many IDs one token has in one hour.
pub const UNIQ64_SERIALS_PER_HOUR: u64 = 1 << 31;

pub(super) const SPEC: Spec = Spec {
    name: "uniq64",
    title: "Uniq64",
    right: Some(Right { token_type: TokenType::Uint2, token_types: &[TokenType::Uint2], wanted: "uint2" }),
    unit: Bucket::Hour,
    durable: Durable::Block { number: 1 },
    form: Form::Number {
        year_last: Uniq64::YEAR_LAST,
        fields: &[
            (Field::Year, YEAR_BITS),
            (Field::Month, MONTH_BITS),
            (Field::Day, DAY_BITS),
            (Field::Hour, HOUR_BITS),
            (Field::Token, TOKEN_BITS),
            (Field::Serial, SERIAL_BITS),
        ],
        serials: UNIQ64_SERIALS_PER_HOUR,
        decimal: |offset, at, token, serial| {
            let prefix = Uniq64::prefix(offset, offset.hour_bucket(at), token)?;
            Ok(Uniq64::with_serial(prefix, serial).text(TextForm::Decimal))
        },
        refusal: |text| Uniq64::parse(text).err(),
    },
    numbers: Some(&Numbers {
        kind: Kind::Uniq64,
        prefix: |offset, hour, token| Uniq64::prefix(offset, HourBucket(hour), token),
        serial_mask: UNIQ64_SERIALS_PER_HOUR - 1,
        write: |first, n, form, after, out| {
            text::write((0..n.into()).map(|i: u64| Uniq64(first + i)), form, after, out)
        },
    }),
    definition: Some(Definable { everyday_reset: false, shared_serials: true }),
    readings: |text, known| {
        let shows = |namespace: &&Namespace| namespace.encoding().is_none_or(|source| source.form().hides().is_none());
        let names: Vec<_> = known.of(Kind::Uniq64).filter(shows).map(|it| it.name().clone()).collect();
        let plain = TextForm::ALL.into_iter().filter_map(|form| reading(text, form));
        let mut readings: Vec<_> = plain.map(|reading| Reading { names: names.clone(), ..reading }).collect();
        let encoded = known.of(Kind::Uniq64).filter_map(|namespace| encoded(text, namespace, known));
        let further: Vec<_> = encoded.filter(|it| readings.iter().all(|plain| plain.texts != it.texts)).collect();
        readings.extend(further);
        readings
    },
};

/// What a text says that a name's encoding gives.
fn encoded(text: &str, namespace: &Namespace, known: &Known<'_>) -> Option<Reading> {
    let written = namespace.written()?;
    let Ok(encoding) = written.plain(known.secrets) else { return Reading::unread(namespace, written, text) };
    let number = encoding.read(text).or_else(|| encoding.read_spelled(text))?;
    let decimal = Uniq64(u64::try_from(number).ok()?).text(TextForm::Decimal);
    let reading = reading(&decimal, TextForm::Decimal)?;
    Some(Reading {
        names: vec![namespace.name().clone()],
        form: None,
        hidden: written.source().form().hides(),
        ..reading
    })
}

fn reading(text: &str, form: TextForm) -> Option<Reading> {
    let id = Uniq64::parse_form(text, form).ok()?;
    let Uniq64Fields { year, month, day, hour, token, serial } = id.fields().ok()?;
    let time = format!("{}T{hour:02}:00:00", Ymd { year, month, day });
    let texts = TextForms::of(|form| id.text(form));
    Some(Reading::integer(Kind::Uniq64, form, time, token.0, serial, texts))
}

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

const fn field(bits: u64, shift: u32, width: u32) -> u32 {
    ((bits >> shift) & ((1 << width) - 1)) as u32
}

impl Uniq64 {
    /// The largest token.
    pub const TOKEN_MAX: u32 = 4_095;
    /// The last year.
    pub const YEAR_LAST: i32 = 2127;

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
        let civil = offset.civil(offset.hour_start(hour));
        let year = civil.map_or(i32::MAX, |c| c.year);
        let refusal = LayoutError::YearOutOfRange { kind: Kind::Uniq64, year, last: Self::YEAR_LAST };
        let civil = civil.filter(|c| (YEAR_FIRST..=Self::YEAR_LAST).contains(&c.year)).ok_or(refusal)?;
        if token.0 > Self::TOKEN_MAX {
            return Err(LayoutError::TokenOutOfRange { kind: Kind::Uniq64, token: token.0, max: Self::TOKEN_MAX });
        }
        Ok(Self::pack(&civil, token.0))
    }

    /// The caller has checked that year and token fit.
    fn pack(civil: &Civil, token: u32) -> u64 {
        u64::from((civil.year - YEAR_FIRST).unsigned_abs()) << YEAR_SHIFT
            | u64::from(civil.month) << MONTH_SHIFT
            | u64::from(civil.day) << DAY_SHIFT
            | u64::from(civil.hour) << HOUR_SHIFT
            | u64::from(token) << TOKEN_SHIFT
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
        let fields = self.raw_fields();
        exists(&fields.civil())?;
        Ok(fields)
    }

    /// The fields as they stand in the bits, whether they exist or not.
    const fn raw_fields(self) -> Uniq64Fields {
        Uniq64Fields {
            year: YEAR_FIRST + field(self.0, YEAR_SHIFT, YEAR_BITS) as i32,
            month: field(self.0, MONTH_SHIFT, MONTH_BITS) as u8,
            day: field(self.0, DAY_SHIFT, DAY_BITS) as u8,
            hour: field(self.0, HOUR_SHIFT, HOUR_BITS) as u8,
            token: TokenValue(field(self.0, TOKEN_SHIFT, TOKEN_BITS)),
            serial: field(self.0, 0, SERIAL_BITS),
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

    /// The ID whose text in one of the forms is exactly `text`. The forms differ in length, with one exception: sixteen
    /// decimal digits may be both hex and the number of an ID of the first days of 2000. That is refused as ambiguous.
    ///
    /// # Errors
    /// [`ParseError`] if there is none, or two.
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
}

impl Uniq64Fields {
    /// The instant at which its hour begins, as calendar fields.
    pub fn civil(&self) -> Civil {
        Civil {
            year: self.year,
            month: self.month,
            day: self.day,
            hour: self.hour,
            minute: 0,
            second: 0,
            millisecond: 0,
        }
    }

    /// The hour the ID carries, in the cluster's offset. `None` only for fields that were put together by hand and do
    /// not exist.
    pub fn bucket(&self) -> Option<HourBucket> {
        // A bucket counts local hours, so any offset gives the same one.
        let offset = UtcOffset::default();
        offset.instant(&self.civil()).map(|t| offset.hour_bucket(t))
    }
}

impl Layout for Uniq64 {
    const KIND: Kind = Kind::Uniq64;

    fn wanted(form: TextForm) -> &'static str {
        match form {
            TextForm::Decimal => "1 to 20 digits without leading zeros, below 2^64",
            TextForm::Hex => "16 digits of 0-9 a-f",
            TextForm::Base32 => "13 of 0-9 A-Z without I L O U, the first of 0-9 A-F",
            TextForm::Uri => {
                "uniq64://2026-11-20_13/TOKEN/SERIAL, years 2000 to 2127, token to 4095, serial below 2^31"
            }
        }
    }

    fn push_text(self, form: TextForm, out: &mut Vec<u8>) {
        match form {
            TextForm::Decimal => out.extend_from_slice(itoa::Buffer::new().format(self.0).as_bytes()),
            TextForm::Hex => text::push_hex::<16>(self.0, out),
            TextForm::Base32 => text::push_base32::<13>(self.0, out),
            TextForm::Uri => {
                let Uniq64Fields { year, month, day, hour, token, serial } = self.raw_fields();
                // Writing to a Vec cannot fail.
                let _ = write!(out, "{SCHEME}{year:04}-{month:02}-{day:02}_{hour:02}/{}/{serial}", token.0);
            }
        }
    }

    fn decode(text: &str, form: TextForm) -> Result<Option<Self>, CalendarError> {
        Ok(match form {
            TextForm::Decimal => read_decimal(text).map(Self),
            TextForm::Hex if text.len() == 16 => u64::from_str_radix(text, 16).ok().map(Self),
            TextForm::Base32 => text::read_base32(text).and_then(|bits| u64::try_from(bits).ok()).map(Self),
            TextForm::Uri => return Self::decode_uri(text),
            TextForm::Hex => None,
        })
    }

    fn check(self) -> Result<(), CalendarError> {
        self.fields().map(|_| ())
    }
}

impl Uniq64 {
    fn decode_uri(text: &str) -> Result<Option<Self>, CalendarError> {
        let Some(([year, month, day, hour], token, serial)) = text::read_uri(text, SCHEME) else { return Ok(None) };
        let small = |number: u16| u8::try_from(number).ok();
        let (Some(month), Some(day), Some(hour)) = (small(month), small(day), small(hour)) else { return Ok(None) };
        let civil = Civil { year: year.into(), month, day, hour, minute: 0, second: 0, millisecond: 0 };
        let fits = (YEAR_FIRST..=Self::YEAR_LAST).contains(&civil.year)
            && token <= Self::TOKEN_MAX
            && u64::from(serial) < UNIQ64_SERIALS_PER_HOUR;
        if !fits {
            return Ok(None);
        }
        exists(&civil)?;
        Ok(Some(Self::with_serial(Self::pack(&civil, token), serial)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::WallMs;

    fn id(year: i32, month: u8, day: u8, hour: u8, token: u32, serial: u32) -> Uniq64 {
        let offset = UtcOffset::from_minutes(-210).unwrap();
        let civil = Civil { year, month, day, hour, minute: 59, second: 59, millisecond: 999 };
        let bucket = offset.hour_bucket(offset.instant(&civil).unwrap());
        Uniq64::with_serial(Uniq64::prefix(offset, bucket, TokenValue(token)).unwrap(), serial)
    }

    /// Field edges against numbers that another program worked out from the layout's table.
    #[test]
    fn golden_at_the_edges_of_every_field() {
        const MAX: u32 = (1 << 31) - 1;
        for (id, bits, hex, base32, uri) in [
            (id(2000, 1, 1, 0, 0, 0), 0x0021_0000_0000_0000, "0021000000000000", "0088000000000", "2000-01-01_00/0/0"),
            (id(2000, 1, 1, 0, 0, 1), 0x0021_0000_0000_0001, "0021000000000001", "0088000000001", "2000-01-01_00/0/1"),
            (
                id(2026, 11, 20, 13, 4_095, 1),
                0x3574_6fff_8000_0001,
                "35746fff80000001",
                "3AX3FZY000001",
                "2026-11-20_13/4095/1",
            ),
            (
                id(2024, 2, 29, 23, 7, MAX),
                0x305d_b803_ffff_ffff,
                "305db803ffffffff",
                "30QDR0FZZZZZZ",
                "2024-02-29_23/7/2147483647",
            ),
            (
                id(2127, 12, 31, 23, 4_095, MAX),
                0xff9f_bfff_ffff_ffff,
                "ff9fbfffffffffff",
                "FZ7XZZZZZZZZZ",
                "2127-12-31_23/4095/2147483647",
            ),
        ] {
            assert_eq!(id.bits(), bits, "{uri}");
            assert_eq!(id.text(TextForm::Decimal), bits.to_string());
            assert_eq!(id.text(TextForm::Hex), hex);
            assert_eq!(id.text(TextForm::Base32), base32);
            assert_eq!(id.text(TextForm::Uri), format!("uniq64://{uri}"));
            for form in TextForm::ALL {
                assert_eq!(Uniq64::parse_form(&id.text(form), form), Ok(id));
            }
        }
    }

    #[test]
    fn years_and_tokens_beyond_the_field_are_refused() {
        let offset = UtcOffset::default();
        let hour = |year| {
            let civil = Civil { year, month: 6, day: 1, hour: 0, minute: 0, second: 0, millisecond: 0 };
            offset.hour_bucket(offset.instant(&civil).unwrap())
        };
        for year in [1970, 1999, 2128, 9999] {
            let refusal = LayoutError::YearOutOfRange { kind: Kind::Uniq64, year, last: 2127 };
            assert_eq!(Uniq64::prefix(offset, hour(year), TokenValue(0)), Err(refusal));
        }
        assert!(Uniq64::prefix(offset, HourBucket(u32::MAX), TokenValue(0)).is_err());
        let refusal = LayoutError::TokenOutOfRange { kind: Kind::Uniq64, token: 4_096, max: 4_095 };
        assert_eq!(Uniq64::prefix(offset, hour(2026), TokenValue(4_096)), Err(refusal));
        assert!(Uniq64::prefix(offset, hour(2127), TokenValue(4_095)).is_ok());
    }

    #[test]
    fn a_serial_past_the_hour_never_reaches_the_token() {
        let prefix = id(2026, 11, 20, 13, 0, 0).bits();
        assert_eq!(Uniq64::with_serial(prefix, 1 << 31), Uniq64::with_serial(prefix, 0));
        assert_eq!(Uniq64::with_serial(prefix, u32::MAX).fields().unwrap().token, TokenValue(0));
    }

    #[test]
    fn times_that_do_not_exist_are_named() {
        let civil = |year, month, day, hour| Civil { year, month, day, hour, minute: 0, second: 0, millisecond: 0 };
        for (civil, field, value) in [
            (civil(2026, 0, 1, 0), "month", 0),
            (civil(2026, 13, 1, 0), "month", 13),
            (civil(2026, 4, 31, 0), "day", 31),
            (civil(2026, 2, 29, 0), "day", 29),
            (civil(2026, 1, 0, 0), "day", 0),
            (civil(2026, 1, 1, 24), "hour", 24),
        ] {
            let id = Uniq64::from_bits(Uniq64::pack(&civil, 0));
            let error = id.fields().unwrap_err();
            assert_eq!((error.field, error.value), (field, value));
            for form in TextForm::ALL {
                let refusal = Uniq64::parse_form(&id.text(form), form).unwrap_err();
                assert!(refusal.to_string().contains(&format!("no {field} {value}")), "{refusal}");
            }
        }
        let refusal = Uniq64::parse("uniq64://2026-13-01_00/0/0").unwrap_err().to_string();
        assert!(refusal.contains("there is no month 13 (2026-13-01)"), "{refusal}");
    }

    #[test]
    fn sixteen_digits_that_read_twice_are_refused_and_read_by_their_form() {
        let first = id(2000, 1, 2, 3, 4, 5);
        let text = first.text(TextForm::Decimal);
        assert_eq!(text.len(), 16);
        assert!(matches!(Uniq64::parse(&text), Err(ParseError::Ambiguous { .. })));
        assert_eq!(Uniq64::parse_form(&text, TextForm::Decimal), Ok(first));
        assert_eq!(Uniq64::parse_form(&text, TextForm::Hex).unwrap().text(TextForm::Hex), text);
    }

    #[test]
    fn the_bucket_comes_back() {
        let offset = UtcOffset::from_minutes(480).unwrap();
        let hour = offset.hour_bucket(WallMs(1_795_179_906_999));
        let id = Uniq64::from_bits(Uniq64::prefix(offset, hour, TokenValue(1)).unwrap());
        assert_eq!(id.fields().unwrap().bucket(), Some(hour));
    }
}
