//! Numbers of a form of our own: Uniq64, one token's serials per hour, and Uniq96, one token's serials per millisecond.

use super::{Bucket, Definable, Durable, Form, Kind, Known, Reading, Right, Spec, TextForm, TextForms};
use crate::calendar::{CalendarError, Civil, UtcOffset};
use crate::digits::{fill_decimal, read_decimal, shown};
use crate::encoding::{DECIMAL64, Encoding};
use crate::layout::{Calendar, Layout, LayoutDefinition, YEAR_FIRST};
use crate::namespace::Namespace;
use crate::time::{HOUR_MS, SpanMs, WallMs};
use crate::token::{TokenType, TokenValue};
use std::sync::{Arc, LazyLock};

/// The furthest that a Uniq96's millisecond may lie ahead of the clock before minting waits for it.
pub const UNIQ96_AHEAD_MAX: SpanMs = SpanMs::seconds(600);
/// Number of IDs that one token has in one hour.
pub const UNIQ64_SERIALS_PER_HOUR: u64 = 1 << 31;

/// The numbers of [`Kind::Uniq64`].
pub static UNIQ64: LazyLock<Numbers> = LazyLock::new(|| Numbers {
    kind: Kind::Uniq64,
    definition: defined(Layout::by_calendar(Calendar::new(7, SpanMs(HOUR_MS)), 12, 31), SpanMs(0)),
    decimal: Arc::clone(&DECIMAL64),
    hex: Arc::new(Encoding::in_form(64, TextForm::Hex)),
    base32: Arc::new(Encoding::in_form(64, TextForm::Base32)),
    wanted: [
        "1 to 20 digits without leading zeros, below 2^64",
        "16 digits of 0-9 a-f",
        "13 of 0-9 A-Z without I L O U, the first of 0-9 A-F",
        "uniq64://2026-11-20_13/TOKEN/SERIAL, years 2000 to 2127, token to 4095, serial below 2^31",
    ],
});

/// The numbers of [`Kind::Uniq96`].
pub static UNIQ96: LazyLock<Numbers> = LazyLock::new(|| Numbers {
    kind: Kind::Uniq96,
    definition: defined(Layout::by_calendar(Calendar::new(12, SpanMs(1)), 16, u32::BITS), UNIQ96_AHEAD_MAX),
    decimal: Arc::new(Encoding::split96()),
    hex: Arc::new(Encoding::in_form(96, TextForm::Hex)),
    base32: Arc::new(Encoding::in_form(96, TextForm::Base32)),
    wanted: [
        "30 digits: the upper 64 bits in 20, the serial in 10",
        "24 digits of 0-9 a-f",
        "20 of 0-9 A-Z without I L O U, the first 0 or 1",
        "uniq96://2026-11-20_13:05:06_999/TOKEN/SERIAL, years 2000 to 6095, token to 65535, serial below 2^32",
    ],
});

fn defined(layout: Layout, ahead_max: SpanMs) -> Arc<LayoutDefinition> {
    Arc::new(LayoutDefinition::of_kind(layout, ahead_max))
}

pub(super) const UNIQ64_SPEC: Spec = Spec {
    name: "uniq64",
    title: "Uniq64",
    right: Some(Right { token_type: TokenType::Uint2, token_types: &[TokenType::Uint2], wanted: "uint2" }),
    unit: Bucket::Hour,
    durable: Durable::Block { number: 1 },
    form: Form::Number(|| &UNIQ64),
    definition: Some(Definable { everyday_reset: false, shared_serials: true }),
    readings: |text, known| UNIQ64.readings(text, known),
};

pub(super) const UNIQ96_SPEC: Spec = Spec {
    name: "uniq96",
    title: "Uniq96",
    right: Some(Right { token_type: TokenType::Uint2, token_types: &[TokenType::Uint2], wanted: "uint2" }),
    unit: Bucket::Millisecond,
    durable: Durable::Mark,
    form: Form::Number(|| &UNIQ96),
    definition: None,
    readings: |text, known| UNIQ96.readings(text, known),
};

/// The numbers of a kind: a layout with a calendar, and the forms in which they are written.
#[derive(Debug)]
pub struct Numbers {
    /// The kind.
    pub kind: Kind,
    definition: Arc<LayoutDefinition>,
    decimal: Arc<Encoding>,
    hex: Arc<Encoding>,
    base32: Arc<Encoding>,
    /// A description of each form, for messages.
    wanted: [&'static str; TextForm::ALL.len()],
}

/// The reason why a text is not an ID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Not written that way.
    #[error("'{text}' is no {kind} in {form}, which is {wanted}")]
    Form {
        /// The kind expected.
        kind: Kind,
        /// The form.
        form: TextForm,
        /// A description of that form.
        wanted: &'static str,
        /// The text, cut to a bounded length.
        text: String,
    },
    /// Not written in any of the forms.
    #[error("'{text}' is no {kind} in any form (decimal, hex, base32, uri)")]
    NoForm {
        /// The kind expected.
        kind: Kind,
        /// The text, cut to a bounded length.
        text: String,
    },
    /// Written well, but at a time that does not exist.
    #[error("'{text}' in {form} is no {kind} that was ever minted: {error}")]
    Calendar {
        /// The kind expected.
        kind: Kind,
        /// The form.
        form: TextForm,
        /// The part that does not exist.
        error: CalendarError,
        /// The text, cut to a bounded length.
        text: String,
    },
    /// Two forms give two IDs.
    #[error("'{text}' is one {kind} in {first} and another in {second}: say which form it is")]
    Ambiguous {
        /// The kind expected.
        kind: Kind,
        /// One form.
        first: TextForm,
        /// The other form.
        second: TextForm,
        /// The text, cut to a bounded length.
        text: String,
    },
}

impl Numbers {
    /// The layout; the serial stands in its lowest bits.
    pub fn layout(&self) -> &Layout {
        self.definition.layout()
    }

    /// The numbers as the definition of a name of kind layout.
    pub fn definition(&self) -> &Arc<LayoutDefinition> {
        &self.definition
    }

    /// The last year that fits; what comes after it is refused.
    pub fn year_last(&self) -> i32 {
        self.layout().calendar().map_or(YEAR_FIRST, Calendar::year_last)
    }

    /// The largest token that fits.
    fn token_max(&self) -> u32 {
        u32::try_from(self.layout().tokens() - 1).unwrap_or(u32::MAX)
    }

    /// The first instant that does not fit, by the calendar of that offset.
    pub fn end(&self, offset: UtcOffset) -> WallMs {
        offset.from_local(self.layout().end())
    }

    /// The encoding of that form; `None` of `uri`, which shows the parts of a number.
    pub fn encoding(&self, form: TextForm) -> Option<&Arc<Encoding>> {
        match form {
            TextForm::Decimal => Some(&self.decimal),
            TextForm::Hex => Some(&self.hex),
            TextForm::Base32 => Some(&self.base32),
            TextForm::Uri => None,
        }
    }

    /// Appends the number in that form; allocates nothing but what `out` needs to grow.
    pub fn write(&self, number: u128, form: TextForm, out: &mut Vec<u8>) {
        match self.encoding(form) {
            // Digits there are of every number.
            Some(encoding) => _ = encoding.write(number, out),
            None => self.write_uri(number, out),
        }
    }

    fn write_uri(&self, number: u128, out: &mut Vec<u8>) {
        let Some(Civil { year, month, day, hour, minute, second, millisecond }) = self.layout().civil(number) else {
            return;
        };
        let token = (number >> self.layout().serial_bits()) as u32 & self.token_max();
        let date = [
            ("://", year.unsigned_abs(), 4),
            ("-", month.into(), 2),
            ("-", day.into(), 2),
            ("_", hour.into(), 2),
            (":", minute.into(), 2),
            (":", second.into(), 2),
            // Bits that are no time can say more than 999 here, and are shown as they are.
            ("_", millisecond.into(), if millisecond < 1_000 { 3 } else { 4 }),
        ];
        out.extend_from_slice(self.kind.name().as_bytes());
        for (before, number, width) in date.into_iter().take(self.date_fields()) {
            out.extend_from_slice(before.as_bytes());
            let start = out.len();
            out.resize(start + width, b'0');
            fill_decimal(out.get_mut(start..).unwrap_or_default(), number.into());
        }
        for number in [u64::from(token), number as u64 & (self.layout().serials_per_tick() - 1)] {
            out.push(b'/');
            out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        }
    }

    /// Fields of the date and the time.
    fn date_fields(&self) -> usize {
        if self.is_hourly() { 4 } else { 7 }
    }

    /// Tells that the time ends with the hour, and not with the millisecond.
    fn is_hourly(&self) -> bool {
        self.layout().unit() == SpanMs(HOUR_MS)
    }

    /// The number in that form.
    pub fn text(&self, number: u128, form: TextForm) -> String {
        let mut out = Vec::new();
        self.write(number, form, &mut out);
        // All forms are ASCII.
        String::from_utf8(out).unwrap_or_default()
    }

    /// The number whose text in one of the forms is exactly `text`. The forms differ in length, with one exception: sixteen
    /// decimal digits may be both hex and the number of a Uniq64 of the first days of 2000. That is refused as ambiguous.
    ///
    /// # Errors
    /// [`ParseError`] if there is none, or two.
    pub fn parse(&self, text: &str) -> Result<u128, ParseError> {
        let (kind, mut found) = (self.kind, None);
        let mut error = ParseError::NoForm { kind, text: shown(text) };
        for form in TextForm::ALL {
            match (self.parse_form(text, form), found) {
                (Ok(number), None) => found = Some((form, number)),
                (Ok(number), Some((first, other))) if number != other => {
                    return Err(ParseError::Ambiguous { kind, first, second: form, text: shown(text) });
                }
                // The reason that says most: a time that does not exist, or what is wrong behind a scheme.
                (Err(e @ ParseError::Calendar { .. }), _) => error = e,
                (Err(e), _) if form == TextForm::Uri && text.contains("://") => error = e,
                _ => {}
            }
        }
        found.map(|(_, number)| number).ok_or(error)
    }

    /// The number whose text in that form is exactly `text`.
    ///
    /// # Errors
    /// [`ParseError`] if there is none.
    pub fn parse_form(&self, text: &str, form: TextForm) -> Result<u128, ParseError> {
        let kind = self.kind;
        let calendar = |error| ParseError::Calendar { kind, form, error, text: shown(text) };
        let number = match self.encoding(form) {
            Some(encoding) => encoding.read(text),
            None => self.read_uri(text).map_err(calendar)?.filter(|number| self.text(*number, form) == text),
        };
        let wanted = TextForm::ALL.into_iter().zip(self.wanted).find(|(it, _)| *it == form);
        let wanted = wanted.map_or("", |(_, wanted)| wanted);
        let number = number.ok_or_else(|| ParseError::Form { kind, form, wanted, text: shown(text) })?;
        self.layout().civil(number).map_or(Ok(()), |civil| civil.check()).map_err(calendar)?;
        Ok(number)
    }

    /// A number of which `text` may be the `uri`. `Err` where the text names a time that cannot even be put into the bits.
    fn read_uri(&self, text: &str) -> Result<Option<u128>, CalendarError> {
        let Some((civil, token, serial)) = self.uri_fields(text) else { return Ok(None) };
        civil.check()?;
        let at = UtcOffset::default().instant(&civil);
        let prefix = at.and_then(|at| self.layout().prefix_at(UtcOffset::default(), at, token));
        Ok(prefix.map(|prefix| self.layout().fill(prefix, serial, 0)))
    }

    fn uri_fields(&self, text: &str) -> Option<(Civil, TokenValue, u32)> {
        let number = |text: &str| u32::try_from(read_decimal(text)?).ok();
        let mut rest = text.strip_prefix(self.kind.name())?.strip_prefix("://")?.splitn(3, '/');
        let (date, token, serial) = (rest.next()?, number(rest.next()?)?, number(rest.next()?)?);
        let mut pieces = date.splitn(self.date_fields(), ['-', '_', ':']).map(number);
        let year = i32::try_from(pieces.next()??).ok()?;
        let mut small = || u8::try_from(pieces.next()??).ok();
        let (month, day, hour) = (small()?, small()?, small()?);
        let (minute, second) = if self.is_hourly() { (0, 0) } else { (small()?, small()?) };
        let millisecond = if self.is_hourly() { 0 } else { u16::try_from(pieces.next()??).ok()? };
        let civil = Civil { year, month, day, hour, minute, second, millisecond };
        let fits = (YEAR_FIRST..=self.year_last()).contains(&year)
            && token <= self.token_max()
            && u64::from(serial) < self.layout().serials_per_tick();
        fits.then_some((civil, TokenValue(token), serial))
    }

    fn readings(&self, text: &str, known: &Known<'_>) -> Vec<Reading> {
        let shows = |namespace: &&Namespace| namespace.encoding().is_none_or(|source| source.form().hides().is_none());
        let names: Vec<_> = known.of(self.kind).filter(shows).map(|it| it.name().clone()).collect();
        let plain = |form| {
            let reading = self.reading(self.parse_form(text, form).ok()?)?;
            Some(Reading { names: names.clone(), form: Some(form), ..reading })
        };
        let mut readings: Vec<_> = TextForm::ALL.into_iter().filter_map(plain).collect();
        let encoded = known.of(self.kind).filter_map(|namespace| self.encoded(text, namespace, known));
        let further: Vec<_> = encoded.filter(|it| readings.iter().all(|plain| plain.texts != it.texts)).collect();
        readings.extend(further);
        readings
    }

    /// The reading of a text that a name's encoding gives.
    fn encoded(&self, text: &str, namespace: &Namespace, known: &Known<'_>) -> Option<Reading> {
        let written = namespace.written()?;
        let Ok(encoding) = written.plain(known.secrets) else { return Reading::unread(namespace, written, text) };
        let number = encoding.read(text).or_else(|| encoding.read_spelled(text))?;
        let (names, hidden) = (vec![namespace.name().clone()], written.source().form().hides());
        Some(Reading { names, hidden, ..self.reading(number)? })
    }

    fn reading(&self, number: u128) -> Option<Reading> {
        let parts = self.layout().parts(number)?;
        let time = self.layout().time_text(parts.time);
        Some(Reading::of_number(self.kind, &parts, time, TextForms::of(|form| self.text(number, form))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn civil(date: (i32, u8, u8), time: (u8, u8, u8, u16)) -> Civil {
        let ((year, month, day), (hour, minute, second, millisecond)) = (date, time);
        Civil { year, month, day, hour, minute, second, millisecond }
    }

    fn id(numbers: &Numbers, minutes: i16, civil: &Civil, token: u32, serial: u32) -> u128 {
        let offset = UtcOffset::from_minutes(minutes).unwrap();
        let at = offset.instant(civil).unwrap();
        numbers.layout().fill(numbers.layout().prefix_at(offset, at, TokenValue(token)).unwrap(), serial, 0)
    }

    #[test]
    fn the_layouts_are_those_of_the_tables() {
        for (numbers, bits, fields) in [
            (&*UNIQ64, 64, "year:7 month:4 day:5 hour:5 token:12 serial:31"),
            (&*UNIQ96, 96, "year:12 month:4 day:5 hour:5 minute:6 second:6 millisecond:10 token:16 serial:32"),
        ] {
            let layout = numbers.layout();
            let told = layout.fields().iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            assert_eq!((layout.bits(), told.as_str()), (bits, fields));
            assert!(layout.sorts_by_time(), "{fields}");
        }
    }

    /// Field edges against texts that another program worked out from the layouts' tables.
    #[test]
    fn golden_at_the_edges_of_every_field() {
        const MAX: u32 = (1 << 31) - 1;
        let last = (23, 59, 59, 999);
        for (date, time, token, serial, texts) in [
            ((2000, 1, 1), last, 0, 0, ["0021000000000000", "0088000000000", "2000-01-01_00/0/0"]),
            ((2000, 1, 1), last, 0, 1, ["0021000000000001", "0088000000001", "2000-01-01_00/0/1"]),
            ((2026, 11, 20), last, 4_095, 1, ["35746fff80000001", "3AX3FZY000001", "2026-11-20_13/4095/1"]),
            ((2024, 2, 29), last, 7, MAX, ["305db803ffffffff", "30QDR0FZZZZZZ", "2024-02-29_23/7/2147483647"]),
            ((2127, 12, 31), last, 4_095, MAX, ["ff9fbfffffffffff", "FZ7XZZZZZZZZZ", "2127-12-31_23/4095/2147483647"]),
        ] {
            let [hex, base32, uri] = texts;
            let hour = uri.get(11..13).unwrap().parse().unwrap();
            let number = id(&UNIQ64, -210, &civil(date, (hour, time.1, time.2, time.3)), token, serial);
            let uri = format!("uniq64://{uri}");
            assert_eq!(number, u128::from_str_radix(hex, 16).unwrap());
            let expected = [number.to_string().as_str(), hex, base32, &uri].map(str::to_owned);
            assert_eq!(TextForm::ALL.map(|form| UNIQ64.text(number, form)), expected);
            for (form, text) in TextForm::ALL.into_iter().zip(&expected) {
                assert_eq!(UNIQ64.parse_form(text, form), Ok(number));
            }
        }
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
                civil((2024, 2, 29), last),
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
                civil((6095, 12, 31), last),
                65_535,
                u32::MAX,
                "184458974323062865914294967295",
                "fffcfdfbefe7ffffffffffff",
                "1ZZWZQXYZSZZZZZZZZZZ",
                "6095-12-31_23:59:59_999/65535/4294967295",
            ),
        ] {
            let number = id(&UNIQ96, 345, &civil, token, serial);
            let uri = format!("uniq96://{uri}");
            assert_eq!(TextForm::ALL.map(|form| UNIQ96.text(number, form)), [decimal, hex, base32, &uri]);
            let time = UtcOffset::default().instant(&civil).unwrap();
            let parts = UNIQ96.layout().parts(number).unwrap();
            assert_eq!((parts.time, parts.token, parts.serial), (time, TokenValue(token), serial));
            for text in TextForm::ALL.map(|form| UNIQ96.text(number, form)) {
                assert_eq!(UNIQ96.parse(&text), Ok(number));
            }
        }
    }

    #[test]
    fn years_and_tokens_beyond_the_field_are_refused() {
        let offset = UtcOffset::default();
        let at = |year| offset.instant(&civil((year, 6, 1), (0, 0, 0, 0))).unwrap();
        for (numbers, last, max) in [(&*UNIQ64, 2127, 4_095), (&*UNIQ96, 6095, 65_535)] {
            let prefix = |at, token| numbers.layout().prefix_at(offset, at, TokenValue(token));
            assert_eq!(numbers.year_last(), last);
            for year in [-1, 1970, 1999, last + 1, 9999] {
                assert_eq!(prefix(at(year), 0), None, "{year}");
            }
            assert_eq!([i64::MIN, i64::MAX].map(|ms| prefix(WallMs(ms), 0)), [None, None]);
            assert_eq!(prefix(at(2026), max + 1), None);
            assert!(prefix(at(last), max).is_some());
        }
    }

    #[test]
    fn the_last_tick_of_the_first_and_the_last_year_fits() {
        let offset = UtcOffset::from_minutes(-210).unwrap();
        let is_written =
            |numbers: &Numbers, at| numbers.layout().prefix_at(offset, WallMs(at), TokenValue(0)).is_some();
        for (numbers, last) in [(&*UNIQ64, 2127), (&*UNIQ96, 6095)] {
            let first = offset.instant(&civil((2000, 1, 1), (0, 0, 0, 0))).unwrap().0;
            assert!(is_written(numbers, first) && !is_written(numbers, first - 1));
            let end = offset.instant(&civil((last, 12, 31), (23, 59, 59, 999))).unwrap().0;
            assert!(is_written(numbers, end) && !is_written(numbers, end + 1));
            assert_eq!(numbers.end(offset), WallMs(end + 1));
        }
    }

    #[test]
    fn times_that_do_not_exist_are_named() {
        for (civil, field, value) in [
            (civil((2026, 0, 1), (0, 0, 0, 0)), "month", 0),
            (civil((2026, 13, 1), (0, 0, 0, 0)), "month", 13),
            (civil((2026, 4, 31), (0, 0, 0, 0)), "day", 31),
            (civil((2026, 2, 29), (0, 0, 0, 0)), "day", 29),
            (civil((2100, 2, 29), (0, 0, 0, 0)), "day", 29),
            (civil((2026, 1, 0), (0, 0, 0, 0)), "day", 0),
            (civil((2026, 1, 1), (24, 0, 0, 0)), "hour", 24),
            (civil((2026, 1, 1), (0, 60, 0, 0)), "minute", 60),
            (civil((2026, 1, 1), (0, 0, 60, 0)), "second", 60),
            (civil((2026, 1, 1), (0, 0, 0, 1_000)), "millisecond", 1_000),
        ] {
            let Civil { year, month, day, hour, minute, second, millisecond } = civil;
            let date = (year as u128 - 2000) << 14 | u128::from(month) << 10 | u128::from(day) << 5 | u128::from(hour);
            let time = u128::from(minute) << 16 | u128::from(second) << 10 | u128::from(millisecond);
            for (numbers, number) in [(&*UNIQ64, date << 43), (&*UNIQ96, (date << 22 | time) << 48)] {
                if numbers.is_hourly() && !["month", "day", "hour"].contains(&field) {
                    continue;
                }
                assert_eq!(numbers.layout().parts(number), None);
                for form in TextForm::ALL {
                    let refusal = numbers.parse_form(&numbers.text(number, form), form).unwrap_err().to_string();
                    assert!(refusal.contains(&format!("no {field} {value}")), "{refusal}");
                }
            }
        }
        let refusal = UNIQ64.parse("uniq64://2026-16-01_00/0/0").unwrap_err().to_string();
        assert!(refusal.contains("there is no month 16 (2026-16-01)"), "{refusal}");
    }

    #[test]
    fn sixteen_digits_that_read_twice_are_refused_and_read_by_their_form() {
        let first = id(&UNIQ64, 0, &civil((2000, 1, 2), (3, 0, 0, 0)), 4, 5);
        let text = UNIQ64.text(first, TextForm::Decimal);
        assert_eq!(text.len(), 16);
        assert!(matches!(UNIQ64.parse(&text), Err(ParseError::Ambiguous { .. })));
        assert_eq!(UNIQ64.parse_form(&text, TextForm::Decimal), Ok(first));
        let other = UNIQ64.parse_form(&text, TextForm::Hex).unwrap();
        assert_eq!(UNIQ64.text(other, TextForm::Hex), text);
    }

    #[test]
    fn more_than_their_bits_are_none() {
        assert_eq!(UNIQ96.layout().parts(1 << 96), None);
        for (form, text) in [(TextForm::Base32, "2".to_owned() + &"0".repeat(19)), (TextForm::Hex, "f".repeat(25))] {
            assert!(UNIQ96.parse_form(&text, form).is_err());
        }
        assert!(UNIQ96.parse_form(&"9".repeat(30), TextForm::Decimal).is_err());
        let serial = format!("{}4294967296", "0".repeat(20));
        assert!(UNIQ96.parse_form(&serial, TextForm::Decimal).is_err(), "a serial of 33 bits");
    }
}
