//! Takes an ID apart without knowing where it came from.
//!
//! The length tells most: 16 hex digits, 13 of base32 and up to 20 decimal digits are a Uniq64; 24, 20 and 30 a Uniq96.
//! But a string of digits alone may look like either, sixteen digits may be hex or decimal, and almost every number is one of
//! some time by a layout. Where a text reads in more than one way, all readings are given, each with the names that may have
//! given it, the likeliest first ([`Age`], then [`By`]). A time that does not exist is not a reading.
//!
//! Names whose numbers carry no time, or are written in a way that cannot be turned back here, may have given a text of which
//! nothing else can be told: a reading without a time.
//!
//! People and other programs write hex and UUIDs in capitals, base32 in small letters and O, I and L for its 0 and 1. Where letters
//! of either case mean the same digit such texts are read, too, after those that are as likely and read to the letter.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::{Bucket, Form, Kind, LayoutReading, ParseError, TextForm};
use crate::calendar::{Civil, UtcOffset};
use crate::digits::shown;
use crate::encoding::{EncodingForm, Secrets, WrittenAs};
use crate::namespace::{GeneratorName, Namespace};
use crate::segment::NUMBER_MAX;
use crate::strategy::Strategies;
use crate::template::{Part, PartKind, Template};
use crate::time::{SpanMs, WallMs};
use serde::Serialize;
use std::fmt;

/// The longest text that is looked at, in bytes: longer than any ID there is.
pub const TEXT_LEN_MAX: usize = 256;
const _: () = assert!(TEXT_LEN_MAX > Template::LEN_MAX);
/// Readings that are told apart; further ones are left out.
const READINGS_MAX: usize = 64;
/// Names that a reading says; further ones are counted.
const NAMES_MAX: usize = 16;
/// How old an ID is at most that is likelier than one without a time.
const YOUNG_MAX: SpanMs = SpanMs::days(366);
/// How far an ID may seem to lie ahead: by the cluster's UTC offset, which is not known here, and by names that may run ahead.
const AHEAD_MAX: SpanMs = SpanMs::days(1);

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
    /// The names that may have given it, the first few of them; empty for Uniq96, which has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<GeneratorName>,
    /// How many names there are beside these.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_names: usize,
    /// The form it is written in; `None` for strings and encodings of a name's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<TextForm>,
    /// By what its text hides the number, and who can read it, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<&'static str>,
    /// The time it carries, as far as `bucket` goes: `2026-11-20`, `2026-11-20T13:00:00` or `2026-11-20T13:05:06.999`.
    /// It is the time in the cluster's UTC offset, which an ID does not carry. `None` of plain numbers and of what cannot be
    /// read here, like token and serial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The unit of that time: in it, token and serial are unique.
    pub bucket: Bucket,
    /// The token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenText>,
    /// The serial. That of a wide template may exceed 2^53, where some readers of JSON round; `parts` has its digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<u64>,
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

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
const fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// What a text is read by.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// What names stand for, in the order in which their readings are given.
    pub names: &'a [&'a Namespace],
    /// What texts of `ff1` can be turned back by.
    pub secrets: &'a Secrets,
    /// What texts of strategies can be read by.
    pub strategies: &'a Strategies,
    /// The time: no ID of a later one has been minted.
    pub now: WallMs,
}

/// Ages of readings, the likeliest first: people ask about young IDs, and an ID of a time to come is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Age {
    /// Of the last [`YOUNG_MAX`].
    Young,
    /// Older, or without a time.
    Old,
    /// Of a time to come.
    ToCome,
}

/// What a text reads by, what asks most of a text first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    /// A date that exists, in its place.
    Template,
    /// An encoding or an axis of a name.
    Name,
    Layout,
    /// A calendar that needs no name.
    Calendar,
    /// A strategy that is not here, which may have written anything.
    Strategy,
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

/// Every way in which `text` is an ID, the likeliest first.
///
/// # Errors
/// [`ExplainError`] if there is none.
pub fn explain(text: &str, known: &Known<'_>) -> Result<Explained, ExplainError> {
    if text.len() > TEXT_LEN_MAX {
        return Err(ExplainError::TooLong { bytes: text.len() });
    }
    let mut readings = readings(text, known);
    for other in other_spellings(text) {
        let tolerant = self::readings(&other, known).into_iter().filter(Reading::has_spellings);
        let further: Vec<_> = tolerant.filter(|found| !readings.contains(found)).collect();
        readings.extend(further);
    }
    // Stable, so what is as likely stays in the order of the kinds and names, and what reads to the letter before the rest.
    readings.sort_by_key(|reading| (reading.age(known.now), reading.by()));
    let mut readings = readings.into_iter();
    match readings.next() {
        Some(reading) => Ok(Explained { id: text.to_owned(), reading, also: readings.collect() }),
        None => Err(reason(text, known.of(Kind::String).count())),
    }
}

/// All readings to the letter, each once with all names that may have given it.
fn readings(text: &str, known: &Known<'_>) -> Vec<Reading> {
    let mut all: Vec<(Reading, Vec<GeneratorName>)> = Vec::new();
    for mut found in Kind::ALL.into_iter().flat_map(|kind| (kind.spec().readings)(text, known)) {
        let names = std::mem::take(&mut found.names);
        let room = all.len() < READINGS_MAX;
        match all.iter_mut().find(|(reading, _)| *reading == found) {
            Some((_, of)) => of.extend(names),
            None if room => all.push((found, names)),
            None => {}
        }
    }
    let named = |(reading, mut names): (Reading, Vec<GeneratorName>)| {
        let more_names = names.len().saturating_sub(NAMES_MAX);
        names.truncate(NAMES_MAX);
        Reading { names, more_names, ..reading }
    };
    all.into_iter().map(named).collect()
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
        // A year that has more digits prints in another way.
        let time = self.time.as_deref().filter(|time| time.get(4..5) == Some("-"))?;
        let number = |from: usize, to: usize| time.get(from..to).map_or(Some(0), |digits| digits.parse::<u32>().ok());
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

    fn age(&self, now: WallMs) -> Age {
        if self.time.is_none() {
            return Age::Old;
        }
        let day = |time: &str| time.get(..10).map(str::to_owned);
        // Every small number is of the first day of every layout.
        let first_day = self.layout.as_ref().is_some_and(|it| self.time.as_deref().and_then(day) == day(&it.epoch));
        match self.instant(UtcOffset::default()) {
            Some(at) if at - now <= AHEAD_MAX => match now - at <= YOUNG_MAX && !first_day {
                true => Age::Young,
                false => Age::Old,
            },
            _ => Age::ToCome,
        }
    }

    fn by(&self) -> By {
        let unread = self.hidden.is_some() && self.time.is_none();
        match self.kind.spec().form {
            _ if unread && self.hidden == EncodingForm::Strategy.hides() => By::Strategy,
            _ if unread => By::Name,
            Form::Template { .. } => By::Template,
            Form::Plain | Form::Keyed => By::Name,
            Form::Layout { .. } => By::Layout,
            Form::Number { .. } if self.form.is_none() => By::Name,
            Form::Number { .. } => By::Calendar,
        }
    }

    /// Nothing but its kind.
    pub(super) const fn of(kind: Kind) -> Self {
        Self {
            kind,
            names: Vec::new(),
            more_names: 0,
            form: None,
            hidden: None,
            time: None,
            bucket: kind.spec().unit,
            token: None,
            serial: None,
            texts: None,
            template: None,
            parts: Vec::new(),
            layout: None,
        }
    }

    /// That of a number.
    pub(super) fn integer(kind: Kind, form: TextForm, time: String, token: u32, serial: u32, texts: TextForms) -> Self {
        let (token, serial) = (Some(TokenText::Number(token)), Some(serial.into()));
        Self { form: Some(form), time: Some(time), token, serial, texts: Some(texts), ..Self::of(kind) }
    }

    /// That of a text which may be one of that name's, and cannot be read here.
    pub(super) fn unread(namespace: &Namespace, written: &WrittenAs, text: &str) -> Option<Self> {
        let (names, hidden) = (vec![namespace.name().clone()], written.source().form().hides());
        written.may_be(text).then(|| Self { names, hidden, ..Self::of(namespace.kind()) })
    }
}

impl<'a> Known<'a> {
    /// Nothing but kinds that need no name, at the beginning of all time.
    pub const NONE: Known<'static> =
        Known { names: &[], secrets: Secrets::NONE, strategies: Strategies::NONE, now: WallMs(0) };

    /// The names of that kind.
    pub(super) fn of(&self, kind: Kind) -> impl Iterator<Item = &'a Namespace> + use<'a> {
        self.names.iter().copied().filter(move |namespace| namespace.kind() == kind)
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
            (_, Some(layout)) => write!(f, "  kind      {} in {}", self.kind, layout.encoding)?,
            (Some(form), None) => write!(f, "  kind      {} in {form}", self.kind)?,
            (None, None) => write!(f, "  kind      {}", self.kind)?,
        }
        if !self.names.is_empty() {
            let names: Vec<_> = self.names.iter().map(GeneratorName::as_str).collect();
            write!(f, "\n  name      {}", names.join(" or "))?;
        }
        if self.more_names > 0 {
            write!(f, " or one of {} more", self.more_names)?;
        }
        if let Some(hidden) = self.hidden {
            write!(f, "\n  hidden    {hidden}")?;
        }
        if let Some(layout) = &self.layout {
            let name = layout.preset.unwrap_or("of its own");
            write!(f, "\n  layout    {name}: {} bits, {}", layout.bits, layout.fields.join(" "))?;
        }
        if let Some(time) = &self.time {
            match &self.layout {
                Some(layout) => write!(f, "\n  time      {time} (of {} ms)", layout.unit_ms)?,
                None => write!(f, "\n  time      {time} ({}, in the cluster's UTC offset)", self.bucket)?,
            }
        }
        if let Some(token) = &self.token {
            write!(f, "\n  token     {token}")?;
        }
        if let Some(serial) = self.serial {
            write!(f, "\n  serial    {serial}")?;
        }
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

    /// 2026-11-20T13:05:06.999Z.
    const NOW: WallMs = WallMs(1_795_179_906_999);

    fn default() -> Namespace {
        Namespace::default_of(Kind::String)
    }

    fn name(name: &str, json: &str) -> Namespace {
        Namespace::define(name.parse().unwrap(), &serde_json::from_str(json).unwrap()).unwrap()
    }

    fn string(template: &str) -> Namespace {
        name("n", &format!(r#"{{"kind":"string","template":"{template}"}}"#))
    }

    fn explain(text: &str, names: &[&Namespace]) -> Result<Explained, ExplainError> {
        super::explain(text, &Known { names, now: NOW, ..Known::NONE })
    }

    fn all(text: &str, names: &[&Namespace]) -> Vec<Reading> {
        let explained = explain(text, names).unwrap_or_else(|e| panic!("{text}: {e}"));
        std::iter::once(explained.reading).chain(explained.also).collect()
    }

    fn names_of(reading: &Reading) -> Vec<&str> {
        reading.names.iter().map(GeneratorName::as_str).collect()
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
        let layouts = [
            r#"{"kind":"layout","layout":"uuid7"}"#,
            r#"{"kind":"layout","layout":"ulid"}"#,
            r#"{"kind":"layout","layout":"snowflake","encoding":"base62"}"#,
        ];
        let layouts = layouts.map(|json| name("n", json));
        let layouts: Vec<_> = layouts.iter().collect();
        let all = |text: &str| all(text, &layouts);
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
        assert_eq!(rfc.time.as_deref(), Some("2022-02-22T19:22:22.000Z"));
        // Where case tells digits apart the other one is another ID.
        let of_base62 =
            |text: &str| all(text).into_iter().find(|it| it.layout.as_ref().is_some_and(|l| l.encoding == "base62"));
        assert_ne!(of_base62("0aZl8N0y58M"), of_base62("0AZL8N0Y58M"));
        // A text that is an ID as it stands is read as it stands first.
        assert_eq!(all("3AX3FZY000001")[0].form, Some(TextForm::Base32));
    }

    #[test]
    fn a_reading_whose_token_was_leased_then_comes_first() {
        let snowflake = name("n", r#"{"kind":"layout","layout":"snowflake"}"#);
        // The first of these instants, of a year ago and before, whose number has a calendar of a Uniq64, too.
        let twice = (400..).map(|days| NOW + SpanMs::days(-days)).find_map(|at| {
            let number = (at.0 - 1_288_834_974_657) << 22 | 7 << 12 | 1;
            explain(&number.to_string(), &[&snowflake]).ok().filter(|it| !it.also.is_empty()).map(|it| (at, it))
        });
        let (at, explained) = twice.unwrap();
        assert_eq!((explained.reading.kind, explained.also[0].kind), (Kind::Layout, Kind::Uniq64));
        let leased = |reading: &Reading| {
            reading.token == Some(TokenText::Number(7)) && reading.instant("+08:00".parse().unwrap()) == Some(at)
        };
        assert_eq!(explained.clone().leased_first(leased), explained);
        let ordered = explained.clone().leased_first(|reading| !leased(reading));
        assert_eq!((ordered.reading.kind, ordered.also[0].kind), (Kind::Uniq64, Kind::Layout));
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
            assert_eq!((reading.kind, reading.time.as_deref()), (Kind::Uniq64, Some("2026-11-20T13:00:00")));
            let token = Some(TokenText::Number(4_095));
            assert_eq!((&reading.token, reading.serial, reading.bucket), (&token, Some(1), Bucket::Hour));
            assert_eq!(reading.texts.as_ref().unwrap().base32, "3AX3FZY000001");
            assert!(explained.also.is_empty());
        }
        let explained = explain("001203693322717102070000000001", &[]).unwrap();
        assert_eq!(explained.reading.time.as_deref(), Some("2026-11-20T13:05:06.999"));
        assert_eq!((explained.reading.kind, explained.reading.form), (Kind::Uniq96, Some(TextForm::Decimal)));
    }

    #[test]
    fn a_string_tells_the_parts_of_its_template() {
        let template = default();
        let explained = explain("20261120abCDZ90000004277", &[&template]).unwrap();
        let reading = &explained.reading;
        let (time, serial) = (reading.time.as_deref(), reading.serial);
        assert_eq!((reading.kind, time, serial), (Kind::String, Some("2026-11-20"), Some(42)));
        assert_eq!(reading.token, Some(TokenText::Characters("Z9".to_owned())));
        let parts: Vec<_> = reading.parts.iter().map(|part| part.text.as_str()).collect();
        assert_eq!(parts, ["20261120", "abCD", "Z9", "00000042", "77"]);
        assert_eq!(
            explained.to_string(),
            "20261120abCDZ90000004277\n  kind      string\n  name      default\n  time      2026-11-20 (day, in the cluster's UTC offset)\n  \
             token     Z9\n  serial    42\n  template  {date:%Y%m%d}{biz:4}{token}{serial:8}{custom:2}\n  biz       abCD\n  \
             custom    77"
        );
    }

    #[test]
    fn a_text_that_reads_twice_gives_both_readings_in_order() {
        let forms = |text: &str, templates: &[&Namespace]| -> Vec<_> {
            all(text, templates).iter().map(|reading| (reading.kind, reading.form)).collect()
        };
        let (hex, decimal) = (Some(TextForm::Hex), Some(TextForm::Decimal));
        assert_eq!(forms("9288674231451648", &[]), [(Kind::Uniq64, decimal), (Kind::Uniq64, hex)]);
        let base32 = (Kind::Uniq96, Some(TextForm::Base32));
        assert_eq!(forms("11111111111111111111", &[]), [(Kind::Uniq64, decimal), base32]);
        let (bare, other) = ("{date:%Y%m%d}{token}{serial:6}", "{date:%Y%m%d}{token}{serial:5}{biz:1}");
        let [bare, other] = [bare, other].map(string);
        let string = (Kind::String, None);
        let text = "2026112042000001";
        assert_eq!(forms(text, &[&other, &bare]), [string, string, (Kind::Uniq64, hex)]);
        let explained = explain(text, &[&other, &bare]).unwrap();
        assert_eq!(explained.reading.template.as_deref(), other.template().map(Template::source));
    }

    /// What people meet: a snowflake of a second ago, an invoice, a code that is encrypted.
    #[test]
    fn what_a_name_gave_is_not_first_called_what_it_is_not() {
        let uniq64 = Namespace::default_of(Kind::Uniq64);
        let snow = name("snow", r#"{"kind":"layout","layout":"snowflake","epoch":"2024-01-01T00:00:00Z"}"#);
        let young = name("young", r#"{"kind":"layout","layout":"snowflake","epoch":"2026-11-01T00:00:00Z"}"#);
        let invoices = name("invoices", r#"{"kind":"segment"}"#);
        let odd = name("odd", r#"{"kind":"segment","increment":2,"offset":1,"first":100,"last":199}"#);
        let inbox = name("inbox", r#"{"kind":"sequence"}"#);
        let mark = "0123456789abcdef";
        let coupons = format!(
            r#"{{"kind":"layout","layout":"snowflake","encoding":{{"form":"ff1","length":20,"secret":"{mark}"}}}}"#
        );
        let codes = format!(
            r#"{{"kind":"uniq64","encoding":{{"form":"ff1","length":13,"alphabet":"0123456789ABCDEFGHJKMNPQRSTVWXYZ","secret":"{mark}"}}}}"#
        );
        let (coupons, codes) = (name("coupons", &coupons), name("codes", &codes));
        let names = [&uniq64, &snow, &young, &invoices, &odd, &inbox, &coupons, &codes];
        let told = |text: &str| -> Vec<_> {
            let readings = all(text, &names).into_iter();
            readings
                .map(|it| (it.kind, it.names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")))
                .collect()
        };
        let first = |text: &str| told(text).swap_remove(0);

        // A second ago; as a Uniq64 most of such numbers are of 2002.
        let snowflakes = (1..200).map(|second| NOW + SpanMs::seconds(-second));
        let snowflakes = snowflakes.map(|at| ((at.0 - 1_704_067_200_000) << 22 | 7 << 12).to_string());
        let twice = snowflakes.inspect(|id| assert_eq!(first(id), (Kind::Layout, "snow".to_owned()), "{id}"));
        let in_2002 = |id: &String| {
            all(id, &names)
                .iter()
                .any(|it| it.kind == Kind::Uniq64 && it.time.as_ref().is_some_and(|at| at.starts_with("2002")))
        };
        assert!(twice.filter(in_2002).count() > 50);
        // A Uniq64 of this hour is a snowflake of a time to come.
        assert_eq!(told("3851826724463443969")[0], (Kind::Uniq64, "default".to_owned()));
        assert!(told("3851826724463443969").contains(&(Kind::Layout, "snow".to_owned())));

        // Layouts call every small number one of the first second of their epoch, however young that is.
        for number in ["1", "1001", "1000000"] {
            assert_eq!(
                told(number)[..2],
                [(Kind::Segment, "invoices".to_owned()), (Kind::Sequence, "inbox".to_owned())]
            );
            assert_eq!(told(number)[2].0, Kind::Layout, "{number}");
        }
        // Only what its axis has.
        assert_eq!(first("201"), (Kind::Segment, "invoices odd".to_owned()));
        for none in ["200", "199", "401"] {
            assert_eq!(first(none), (Kind::Segment, "invoices".to_owned()), "{none}");
        }
        let reading = &all("399", &names)[0];
        assert_eq!((names_of(reading), &reading.time, &reading.token), (vec!["invoices", "odd"], &None, &None));
        assert_eq!(
            explain("399", &[&odd]).unwrap().to_string(),
            "399\n  kind      segment in decimal\n  name      odd"
        );

        // As base32 it is a Uniq64 of 2050.
        let code = "1M8C0AWCN0000";
        assert!(told(&code.replace('1', "6")).iter().any(|it| it.0 == Kind::Uniq64));
        for code in ["6D00000000000", "1M8C0AWCN0000"] {
            let reading = &all(code, &names)[0];
            assert_eq!((names_of(reading), &reading.time), (vec!["codes"], &None), "{code}");
            assert!(reading.hidden.unwrap().contains("ff1") && reading.hidden.unwrap().contains("--secret-file"));
        }
        assert_eq!(first("01234567890123456789"), (Kind::Layout, "coupons".to_owned()));
        // One character is none of its alphabet, or one too many.
        assert!(explain("6D0000000000U", &[&codes]).is_err() && explain("6D000000000000", &[&codes]).is_err());
        // A Uniq64 of this hour in base32 could be a code, too.
        assert_eq!(
            told("3AX3FZY000001")[..2],
            [(Kind::Uniq64, "default".to_owned()), (Kind::Uniq64, "codes".to_owned())]
        );
    }

    #[test]
    fn names_that_hide_their_numbers_say_so_where_they_can_be_read_too() {
        let short = name("short", r#"{"kind":"uniq64","encoding":"sqids"}"#);
        let plain = name("plain", r#"{"kind":"uniq64","encoding":"base62"}"#);
        let text = short.written().unwrap().plain(Secrets::NONE).unwrap().text(3_851_826_724_463_443_969).unwrap();
        let reading = &all(&text, &[&short, &plain])[0];
        assert_eq!((names_of(reading), reading.serial), (vec!["short"], Some(1)));
        assert!(reading.hidden.unwrap().contains("sqids"));
        let reading = &all("3851826724463443969", &[&short, &plain])[0];
        assert_eq!((names_of(reading), reading.hidden), (vec!["plain"], None), "the other one gives no digits");
        // What may have written anything comes after all that can be told.
        let tickets = r#"{"kind":"layout","layout":"snowflake","encoding":{"form":"strategy","strategy":"tickets"}}"#;
        let tickets = name("tickets", tickets);
        let told = all("3851826724463443969", &[&tickets, &plain]);
        assert_eq!([names_of(&told[0]), names_of(&told[1])], [["plain"], ["tickets"]]);
        assert_eq!(names_of(&all("hello", &[&tickets])[0]), ["tickets"]);
    }

    #[test]
    fn a_reading_says_a_bounded_number_of_names() {
        let many: Vec<_> = (0..NAMES_MAX + 3).map(|n| name(&format!("n{n}"), r#"{"kind":"segment"}"#)).collect();
        let explained = explain("7", &many.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!((explained.reading.names.len(), explained.reading.more_names), (NAMES_MAX, 3));
        assert!(explained.to_string().ends_with("or n15 or one of 3 more"), "{explained}");
        let layouts: Vec<_> = (0..READINGS_MAX + 3)
            .map(|n| {
                name(
                    "n",
                    &format!(
                        r#"{{"kind":"layout","layout":"snowflake","epoch":"2020-01-01T00:{:02}:{:02}Z"}}"#,
                        n / 60,
                        n % 60
                    ),
                )
            })
            .collect();
        assert_eq!(explain("7", &layouts.iter().collect::<Vec<_>>()).unwrap().also.len() + 1, READINGS_MAX);
    }

    /// An order number of digits alone reads as a Uniq96 of the year 2514 too; a Uniq64 of 2026 may look like a date of
    /// the year 3851. Neither is what its reader means.
    #[test]
    fn the_likeliest_reading_comes_first() {
        let explained = explain("202611200001420000000177", &[&default()]).unwrap();
        assert_eq!((explained.reading.kind, explained.reading.time.as_deref()), (Kind::String, Some("2026-11-20")));
        assert_eq!(explained.also.iter().map(|r| r.kind).collect::<Vec<_>>(), [Kind::Uniq96]);
        let template = string("{date:%Y%m%d}{token}{serial:9}");
        let explained = explain("3851010108594495488", &[&template]).unwrap();
        assert_eq!((explained.reading.kind, &explained.reading.time.unwrap()[..4]), (Kind::Uniq64, "2026"));
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
        let json = |text, names: &[&Namespace]| serde_json::to_value(explain(text, names).unwrap()).unwrap();
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
