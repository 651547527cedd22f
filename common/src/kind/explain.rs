//! Takes an ID apart without knowing where it came from.
//!
//! The length tells most: 16 hex digits, 13 of base32 and up to 20 decimal digits are a Uniq64; 24, 20 and 30 a Uniq96.
//! But a string of digits alone may look like either, sixteen digits may be hex or decimal, twenty a Uniq64 in decimal or
//! a Uniq96 in base32. Where a text reads in more than one way, all readings are given, the likeliest first: those of
//! the years up to 2127 (no Uniq64 goes further) before those beyond; among these strings, by the templates in the order
//! in which they were handed in, then Uniq64, then Uniq96, each in decimal, hex, base32, uri. Strings come first because
//! a template asks most of a text: a date that exists, in its place. A time that does not exist is not a reading.
//!
//! People and other programs write hex and UUIDs in capitals, base32 in small letters and O, I and L for its 0 and 1. Where letters
//! of either case mean the same digit such texts are read, too, after the text as it stands.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::{Bucket, Form, Kind, LayoutReading, ParseError, TextForm, Uniq64};
use crate::calendar::{Civil, UtcOffset};
use crate::digits::shown;
use crate::encoding::{EncodingForm, Secrets, WrittenAs};
use crate::layout::LayoutDefinition;
use crate::segment::NUMBER_MAX;
use crate::strategy::Strategies;
use crate::template::{Part, PartKind, Template};
use crate::time::WallMs;
use serde::Serialize;
use std::fmt;

/// The longest text that is looked at, in bytes: longer than any ID there is.
pub const TEXT_LEN_MAX: usize = 256;
const _: () = assert!(TEXT_LEN_MAX > Template::LEN_MAX);

/// All that an ID tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// The text.
    pub id: String,
    /// The first reading.
    #[serde(flatten)]
    pub reading: Reading,
    /// Other readings of the same text, if there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Reading>,
}

/// One way in which a text is an ID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reading {
    /// What it is.
    pub kind: Kind,
    /// The form it is written in; `None` for strings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<TextForm>,
    /// The time it carries, as far as `bucket` goes: `2026-11-20`, `2026-11-20T13:00:00` or `2026-11-20T13:05:06.999`.
    /// It is the time in the cluster's UTC offset, which an ID does not carry.
    pub time: String,
    /// The unit of that time: in it, token and serial are unique.
    pub bucket: Bucket,
    /// The token.
    pub token: TokenText,
    /// The serial. That of a wide template may exceed 2^53, where some readers of JSON round; `parts` has its digits.
    pub serial: u64,
    /// The same ID in all text forms; `None` for strings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub texts: Option<TextForms>,
    /// The template by which it reads; `None` for integers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// What it consists of; empty for integers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// The layout by which it reads; `None` for other kinds.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub layout: Option<LayoutReading>,
}

/// What a text may be read by beside the kinds that need no definition.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Of strings, in the order in which their readings are given.
    pub templates: &'a [&'a Template],
    /// Of layouts, likewise. Those that are equal give one reading.
    pub layouts: &'a [&'a LayoutDefinition],
    /// How names write their Uniq64, if not in decimal.
    pub written: &'a [&'a WrittenAs],
    /// What texts of `ff1` can be turned back by.
    pub secrets: &'a Secrets,
    /// What texts of strategies can be read by.
    pub strategies: &'a Strategies,
}

/// A token: a number in integers, characters in strings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum TokenText {
    /// Of a `uint` type.
    Number(u32),
    /// Of a string type.
    Characters(String),
}

/// One integer ID in all forms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TextForms {
    /// [`TextForm::Decimal`].
    pub decimal: String,
    /// [`TextForm::Hex`].
    pub hex: String,
    /// [`TextForm::Base32`].
    pub base32: String,
    /// [`TextForm::Uri`]; empty for layouts, which have none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uri: String,
}

/// Why a text tells nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExplainError {
    /// Longer than any ID: [`TEXT_LEN_MAX`].
    #[error("{bytes} bytes are not an ID: the longest has {max}", max = Template::LEN_MAX)]
    TooLong {
        /// Bytes there are.
        bytes: usize,
    },
    /// It is nearly an integer.
    #[error("{error}; and it is not a string by any of the {templates} templates known here")]
    Nearly {
        /// What is wrong with it.
        error: ParseError,
        /// How many templates were tried.
        templates: usize,
    },
    /// A whole number that no kind with a time has.
    #[error(
        "{text} may be a plain number, of a segment or a sequence: nothing can be read from one, as it carries neither time nor \
         token. It is no {numbers}, and no string by any of the {templates} templates known here",
        numbers = numbers()
    )]
    Plain {
        /// The number.
        text: String,
        /// How many templates were tried.
        templates: usize,
    },
    /// Nothing fits.
    #[error(
        "'{text}' is not an ID: no {numbers} in decimal, hex, base32 or uri, and no string by any of the {templates} \
         templates known here",
        numbers = numbers()
    )]
    Nothing {
        /// The text, cut to a bounded length.
        text: String,
        /// How many templates were tried.
        templates: usize,
    },
}

/// The kinds that are numbers.
fn numbers() -> String {
    let numbers = Kind::ALL.into_iter().filter(|kind| matches!(kind.spec().form, Form::Number { .. }));
    numbers.map(Kind::name).collect::<Vec<_>>().join(" or ")
}

/// Every way in which `text` is an ID, by one of `templates`, as Uniq64 or as Uniq96, the likeliest first.
///
/// # Errors
/// [`ExplainError`] if there is none.
pub fn explain(text: &str, templates: &[&Template]) -> Result<Explained, ExplainError> {
    explain_known(
        text,
        &Known { templates, layouts: &[], written: &[], secrets: Secrets::NONE, strategies: Strategies::NONE },
    )
}

/// [`explain`], also by layouts, whose readings come last: almost every number of enough bits is one of some time.
///
/// # Errors
/// [`ExplainError`] if there is none.
pub fn explain_known(text: &str, known: &Known<'_>) -> Result<Explained, ExplainError> {
    if text.len() > TEXT_LEN_MAX {
        return Err(ExplainError::TooLong { bytes: text.len() });
    }
    let read =
        |text: &str| -> Vec<_> { Kind::ALL.into_iter().flat_map(|kind| (kind.spec().readings)(text, known)).collect() };
    let mut readings = read(text);
    for other in other_spellings(text) {
        for found in read(&other).into_iter().filter(|(_, reading)| reading.has_spellings()) {
            if !readings.contains(&found) {
                readings.push(found);
            }
        }
    }
    // Stable, so within each part the order is that of the kinds, and of what each gave.
    readings.sort_by_key(|(year, reading)| {
        (*year > Uniq64::YEAR_LAST, reading.template.is_none(), reading.layout.is_some())
    });
    let mut readings = readings.into_iter().map(|(_, reading)| reading);
    match readings.next() {
        Some(reading) => Ok(Explained { id: text.to_owned(), reading, also: readings.collect() }),
        None => Err(reason(text, known.templates.len())),
    }
}

/// The text as hex and UUIDs are written, and as base32 is, where it is written in another way.
fn other_spellings(text: &str) -> impl Iterator<Item = String> {
    let crockford = |letter: char| match letter.to_ascii_uppercase() {
        'O' => '0',
        'I' | 'L' => '1',
        other => other,
    };
    let spellings = [text.to_ascii_lowercase(), text.chars().map(crockford).collect()];
    spellings.into_iter().filter(move |spelling| spelling != text)
}

/// The refusal that helps most: what is wrong with a text that is nearly an integer, else what was tried.
fn reason(text: &str, templates: usize) -> ExplainError {
    let plain =
        text.parse().ok().filter(|number: &u64| (1..=NUMBER_MAX).contains(number) && number.to_string() == text);
    if plain.is_some() {
        return ExplainError::Plain { text: text.to_owned(), templates };
    }
    let refusals = Kind::ALL.into_iter().filter_map(|kind| match kind.spec().form {
        Form::Number { refusal, .. } => refusal(text),
        Form::Template { .. } | Form::Layout { .. } | Form::Plain | Form::Keyed => None,
    });
    let near = |e: &ParseError| match e {
        ParseError::Calendar { .. } => true,
        ParseError::Form { kind, .. } => text.starts_with(&format!("{kind}:")),
        ParseError::NoForm { .. } | ParseError::Ambiguous { .. } => false,
    };
    let nothing = ExplainError::Nothing { text: shown(text), templates };
    refusals.into_iter().find(near).map_or(nothing, |error| ExplainError::Nearly { error, templates })
}

impl Explained {
    /// The same with the readings first whose token was leased for the time that they say: by those the ID can have been minted.
    #[must_use]
    pub fn leased_first(self, leased: impl Fn(&Reading) -> bool) -> Self {
        let Self { id, reading, also } = self;
        let (mut first, rest): (Vec<_>, Vec<_>) = core::iter::once(reading.clone()).chain(also).partition(leased);
        first.extend(rest);
        let mut readings = first.into_iter();
        let reading = readings.next().unwrap_or(reading);
        Self { id, reading, also: readings.collect() }
    }
}

impl Reading {
    /// The instant that its time means in a cluster with that offset; layouts count in UTC wherever the cluster is.
    pub fn instant(&self, offset: UtcOffset) -> Option<WallMs> {
        let offset = if self.layout.is_some() { UtcOffset::default() } else { offset };
        let number =
            |from: usize, to: usize| self.time.get(from..to).map_or(Some(0), |digits| digits.parse::<u32>().ok());
        let small = |from, to| number(from, to).and_then(|n| u8::try_from(n).ok());
        offset.instant(&Civil {
            year: i32::try_from(number(0, 4)?).ok()?,
            month: small(5, 7)?,
            day: small(8, 10)?,
            hour: small(11, 13)?,
            minute: small(14, 16)?,
            second: small(17, 19)?,
            millisecond: u16::try_from(number(20, 23)?).ok()?,
        })
    }

    /// Tells whether it is written in digits that have more than one spelling.
    fn has_spellings(&self) -> bool {
        let encoding = self.layout.as_ref().map(|layout| layout.encoding);
        matches!(self.form, Some(TextForm::Hex | TextForm::Base32)) || encoding == Some(EncodingForm::Uuid.name())
    }

    /// That of a number.
    pub(super) fn integer(kind: Kind, form: TextForm, time: String, token: u32, serial: u32, texts: TextForms) -> Self {
        Self {
            kind,
            form: Some(form),
            time,
            bucket: kind.spec().unit,
            token: TokenText::Number(token),
            serial: serial.into(),
            texts: Some(texts),
            template: None,
            parts: Vec::new(),
            layout: None,
        }
    }
}

impl TextForms {
    pub(super) fn of(text: impl Fn(TextForm) -> String) -> Self {
        Self {
            decimal: text(TextForm::Decimal),
            hex: text(TextForm::Hex),
            base32: text(TextForm::Base32),
            uri: text(TextForm::Uri),
        }
    }
}

impl fmt::Display for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(value) => write!(f, "{value}"),
            Self::Characters(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.id, self.reading)?;
        for reading in &self.also {
            write!(f, "\n\nor\n{reading}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Reading {
    /// A line for each field, without a newline at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.form, &self.layout) {
            (_, Some(layout)) => {
                writeln!(f, "  kind      {} in {}", self.kind, layout.encoding)?;
                let name = layout.preset.unwrap_or("of its own");
                writeln!(f, "  layout    {name}: {} bits, {}", layout.bits, layout.fields.join(" "))?;
            }
            (Some(form), None) => writeln!(f, "  kind      {} in {form}", self.kind)?,
            (None, None) => writeln!(f, "  kind      {}", self.kind)?,
        }
        match &self.layout {
            Some(layout) => writeln!(f, "  time      {} (of {} ms)", self.time, layout.unit_ms)?,
            None => writeln!(f, "  time      {} ({}, in the cluster's UTC offset)", self.time, self.bucket)?,
        }
        writeln!(f, "  token     {}", self.token)?;
        write!(f, "  serial    {}", self.serial)?;
        if let Some(texts) = &self.texts {
            let TextForms { decimal, hex, base32, uri } = texts;
            write!(f, "\n  decimal   {decimal}\n  hex       {hex}\n  base32    {base32}")?;
            if !uri.is_empty() {
                write!(f, "\n  uri       {uri}")?;
            }
        }
        if let Some(template) = &self.template {
            write!(f, "\n  template  {template}")?;
        }
        for Part { part, text } in &self.parts {
            // Date, token and serial stand above.
            if !matches!(part, PartKind::Date | PartKind::Token | PartKind::Serial) {
                write!(f, "\n  {:<9} {text}", part.to_string())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Namespace;
    use crate::template::DEFAULT_TEMPLATE;
    use crate::token::TokenFamily;

    fn default() -> Template {
        Template::parse(DEFAULT_TEMPLATE, TokenFamily::String2).unwrap()
    }

    #[test]
    fn nothing_is_read_from_a_plain_number() {
        for number in ["1", "1000", "9223372036854775807"] {
            let error = explain(number, &[]).unwrap_err();
            assert!(matches!(&error, ExplainError::Plain { text, .. } if text == number), "{error}");
        }
        for other in ["0", "-1", "01", "9223372036854775808", "99999999999999999999"] {
            assert!(!matches!(explain(other, &[]), Err(ExplainError::Plain { .. })), "{other}");
        }
    }

    #[test]
    fn letters_of_either_case_are_read_where_they_mean_the_same_digit() {
        let layout = |json: &str| {
            let name = "n".parse().unwrap();
            Namespace::define(name, &serde_json::from_str(json).unwrap()).unwrap().layout().cloned().unwrap()
        };
        let layouts = [
            r#"{"kind":"layout","layout":"uuid7"}"#,
            r#"{"kind":"layout","layout":"ulid"}"#,
            r#"{"kind":"layout","layout":"snowflake","encoding":"base62"}"#,
        ];
        let layouts = layouts.map(layout);
        let layouts: Vec<_> = layouts.iter().collect();
        let known = Known { layouts: &layouts, ..Known::NONE };
        let all = |text: &str| -> Vec<Reading> {
            let explained = explain_known(text, &known).unwrap();
            std::iter::once(explained.reading).chain(explained.also).collect()
        };
        for (text, own) in [
            ("35746FFF80000001", "35746fff80000001"),
            ("3ax3fzy000001", "3AX3FZY000001"),
            ("3aX3FzYOoooo1", "3AX3FZY000001"),
            ("3AX3FZY00000I", "3AX3FZY000001"),
            ("3AX3FZY00000l", "3AX3FZY000001"),
            // The example of RFC 9562.
            ("017F22E2-79B0-7CC3-98C4-DC0C0C07398F", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"),
            ("01m8c0awcn000000804c6wqtsj", "01M8C0AWCN000000804C6WQTSJ"),
        ] {
            let own = all(own);
            assert!(own.iter().filter(|reading| reading.has_spellings()).all(|one| all(text).contains(one)), "{text}");
            assert!(own.iter().any(Reading::has_spellings), "{text}");
        }
        let rfc = &all("017F22E2-79B0-7CC3-98C4-DC0C0C07398F")[0];
        assert_eq!(rfc.time, "2022-02-22T19:22:22.000Z");
        // Where case tells digits apart the other one is another ID.
        let of_base62 =
            |text: &str| all(text).into_iter().find(|it| it.layout.as_ref().is_some_and(|l| l.encoding == "base62"));
        assert_ne!(of_base62("0aZl8N0y58M"), of_base62("0AZL8N0Y58M"));
        // A text that is an ID as it stands is read as it stands first.
        assert_eq!(all("3AX3FZY000001")[0].form, Some(TextForm::Base32));
    }

    #[test]
    fn a_reading_whose_token_was_leased_then_comes_first() {
        let snowflake = r#"{"kind":"layout","layout":"snowflake"}"#;
        let namespace = Namespace::define("n".parse().unwrap(), &serde_json::from_str(snowflake).unwrap()).unwrap();
        let layout = namespace.layout().unwrap();
        let known = Known { layouts: &[layout], ..Known::NONE };
        // The first of these instants whose number has a calendar of a Uniq64, too.
        let twice = (0..1_000).map(|hours| WallMs(1_795_179_906_999 + hours * 3_600_000)).find_map(|at| {
            let number = (at.0 - 1_288_834_974_657) << 22 | 7 << 12 | 1;
            explain_known(&number.to_string(), &known).ok().filter(|it| !it.also.is_empty()).map(|it| (at, it))
        });
        let (at, explained) = twice.unwrap();
        assert_eq!((explained.reading.kind, explained.also[0].kind), (Kind::Uniq64, Kind::Layout));
        let leased = |reading: &Reading| {
            reading.token == TokenText::Number(7) && reading.instant("+08:00".parse().unwrap()) == Some(at)
        };
        let ordered = explained.clone().leased_first(leased);
        assert_eq!((ordered.reading.kind, ordered.also[0].kind), (Kind::Layout, Kind::Uniq64));
        assert_eq!(explained.clone().leased_first(|_| false), explained);
        assert_eq!(explained.clone().leased_first(|_| true), explained);
    }

    #[test]
    fn times_of_all_kinds_are_instants() {
        let of = |text: &str| explain(text, &[&default()]).unwrap().reading;
        let utc = 1_795_132_800_000;
        for (text, ms) in [
            ("20261120abCDZ90000004277", 0),
            ("uniq64://2026-11-20_13/4095/1", 13 * 3_600_000),
            ("001203693322717102070000000001", 13 * 3_600_000 + 306_999),
        ] {
            let hours = |n: i64| WallMs(utc + ms - n * 3_600_000);
            assert_eq!(of(text).instant("+00:00".parse().unwrap()), Some(hours(0)), "{text}");
            assert_eq!(of(text).instant("+08:00".parse().unwrap()), Some(hours(8)), "{text}");
        }
    }

    #[test]
    fn an_integer_tells_kind_time_token_serial_and_all_its_texts() {
        for text in ["uniq64://2026-11-20_13/4095/1", "3851826724463443969", "35746fff80000001", "3AX3FZY000001"] {
            let explained = explain(text, &[]).unwrap();
            let reading = &explained.reading;
            assert_eq!((reading.kind, reading.time.as_str()), (Kind::Uniq64, "2026-11-20T13:00:00"));
            assert_eq!((&reading.token, reading.serial, reading.bucket), (&TokenText::Number(4_095), 1, Bucket::Hour));
            assert_eq!(reading.texts.as_ref().unwrap().base32, "3AX3FZY000001");
            assert!(explained.also.is_empty());
        }
        let explained = explain("001203693322717102070000000001", &[]).unwrap();
        assert_eq!(explained.reading.time, "2026-11-20T13:05:06.999");
        assert_eq!((explained.reading.kind, explained.reading.form), (Kind::Uniq96, Some(TextForm::Decimal)));
    }

    #[test]
    fn a_string_tells_the_parts_of_its_template() {
        let template = default();
        let explained = explain("20261120abCDZ90000004277", &[&template]).unwrap();
        let reading = &explained.reading;
        assert_eq!((reading.kind, reading.time.as_str(), reading.serial), (Kind::String, "2026-11-20", 42));
        assert_eq!(reading.token, TokenText::Characters("Z9".to_owned()));
        let parts: Vec<_> = reading.parts.iter().map(|part| part.text.as_str()).collect();
        assert_eq!(parts, ["20261120", "abCD", "Z9", "00000042", "77"]);
        assert_eq!(
            explained.to_string(),
            "20261120abCDZ90000004277\n  kind      string\n  time      2026-11-20 (day, in the cluster's UTC offset)\n  \
             token     Z9\n  serial    42\n  template  {date:%Y%m%d}{biz:4}{token}{serial:8}{custom:2}\n  biz       abCD\n  \
             custom    77"
        );
    }

    #[test]
    fn a_text_that_reads_twice_gives_both_readings_in_order() {
        let forms = |text: &str, templates: &[&Template]| -> Vec<_> {
            let explained = explain(text, templates).unwrap();
            std::iter::once(&explained.reading).chain(&explained.also).map(|r| (r.kind, r.form)).collect()
        };
        let (hex, decimal) = (Some(TextForm::Hex), Some(TextForm::Decimal));
        assert_eq!(forms("9288674231451648", &[]), [(Kind::Uniq64, decimal), (Kind::Uniq64, hex)]);
        let base32 = (Kind::Uniq96, Some(TextForm::Base32));
        assert_eq!(forms("11111111111111111111", &[]), [(Kind::Uniq64, decimal), base32]);
        let (bare, other) = ("{date:%Y%m%d}{token}{serial:6}", "{date:%Y%m%d}{token}{serial:5}{biz:1}");
        let [bare, other] = [bare, other].map(|source| Template::parse(source, TokenFamily::String2).unwrap());
        let string = (Kind::String, None);
        let text = "2026112042000001";
        assert_eq!(forms(text, &[&other, &bare]), [string, string, (Kind::Uniq64, hex)]);
        let explained = explain(text, &[&other, &bare]).unwrap();
        assert_eq!(explained.reading.template.as_deref(), Some(other.source()));
    }

    /// An order number of digits alone reads as a Uniq96 of the year 2514 too; a Uniq64 of 2026 may look like a date of
    /// the year 3851. Neither is what its reader means.
    #[test]
    fn the_likeliest_reading_comes_first() {
        let explained = explain("202611200001420000000177", &[&default()]).unwrap();
        assert_eq!((explained.reading.kind, explained.reading.time.as_str()), (Kind::String, "2026-11-20"));
        assert_eq!(explained.also.iter().map(|r| r.kind).collect::<Vec<_>>(), [Kind::Uniq96]);
        let template = Template::parse("{date:%Y%m%d}{token}{serial:9}", TokenFamily::String2).unwrap();
        let explained = explain("3851010108594495488", &[&template]).unwrap();
        assert_eq!((explained.reading.kind, &explained.reading.time[..4]), (Kind::Uniq64, "2026"));
        assert_eq!(explained.also.iter().map(|r| r.kind).collect::<Vec<_>>(), [Kind::String]);
    }

    #[test]
    fn what_is_no_id_is_refused_with_the_nearest_reason() {
        let template = default();
        for (text, reason) in [
            ("", "no uniq64 or uniq96"),
            ("hello", "1 templates"),
            ("uniq64://2026-13-20_13/1/1", "no month 13"),
            ("uniq96://2026-11-20_13:05:06_999/65536/1", "token to 65535"),
            ("35e46fff80000001", "no month 15"),
            ("20261301abCDZ90000004277", "1 templates"),
            (&"9".repeat(10_000), "10000 bytes"),
        ] {
            let refusal = explain(text, &[&template]).unwrap_err().to_string();
            assert!(refusal.contains(reason), "{text}: {refusal}");
        }
    }

    /// The keys that programs read, at the top of the document.
    #[test]
    fn as_json_the_fields_stand_at_the_top() {
        let json = |text, templates: &[&Template]| serde_json::to_value(explain(text, templates).unwrap()).unwrap();
        let integer = json("35746fff80000001", &[]);
        assert_eq!(
            integer,
            serde_json::json!({
                "id": "35746fff80000001", "kind": "uniq64", "form": "hex", "time": "2026-11-20T13:00:00",
                "bucket": "hour", "token": 4095, "serial": 1,
                "texts": {
                    "decimal": "3851826724463443969", "hex": "35746fff80000001", "base32": "3AX3FZY000001",
                    "uri": "uniq64://2026-11-20_13/4095/1"
                }
            })
        );
        let string = json("20261120abCDZ90000004277", &[&default()]);
        assert_eq!(
            (&string["kind"], &string["token"], &string["serial"]),
            (&"string".into(), &"Z9".into(), &42.into())
        );
        assert_eq!(string["parts"][1], serde_json::json!({ "part": "biz", "text": "abCD" }));
    }
}
