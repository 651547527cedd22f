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

use super::{Bucket, Form, Kind, LayoutReading, ParseError, TextForm};
use crate::calendar::{Civil, UtcOffset};
use crate::digits::shown;
use crate::encoding::{EncodingForm, Secrets, WrittenAs};
use crate::layout::Parts;
use crate::namespace::{GeneratorName, Namespace};
use crate::segment::NUMBER_MAX;
use crate::strategy::Strategies;
use crate::template::{Part, PartKind, Template};
use crate::time::{SpanMs, WallMs};
use serde::Serialize;
use std::fmt;

/// The longest text that is read, in bytes: longer than any ID there is.
pub const TEXT_LEN_MAX: usize = 256;
const _: () = assert!(TEXT_LEN_MAX > Template::LEN_MAX);
/// Readings that are told apart; further ones are left out.
const READINGS_MAX: usize = 64;
/// Names that a reading says; further ones are counted.
const NAMES_MAX: usize = 16;
/// The greatest age of an ID that is likelier than one without a time.
const YOUNG_MAX: SpanMs = SpanMs::days(366);
/// The largest lead that an ID may seem to have: by the cluster's UTC offset, which is not known here, and by names that may run ahead.
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
    /// The kind.
    pub kind: Kind,
    /// The names that may have given it, the first few of them; empty for Uniq96, which has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<GeneratorName>,
    /// The number of names beside these.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_names: usize,
    /// The form it is written in; `None` for strings and encodings of a name's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<TextForm>,
    /// The means by which its text hides the number, and who can read it, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<&'static str>,
    /// The time it carries, as far as `bucket` goes: `2026-11-20`, `2026-11-20T13:00:00` or `2026-11-20T13:05:06.999`. Its
    /// calendar is that of the cluster's UTC offset, which an ID does not carry. `None` of plain numbers and of what cannot
    /// be read here, like token and serial.
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
    /// The ID in all text forms; `None` for strings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub texts: Option<TextForms>,
    /// The template by which it reads; `None` for integers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The parts it consists of; empty for integers.
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

/// The means by which a text is read.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The names with their definitions, in the order in which their readings are given.
    pub names: &'a [&'a Namespace],
    /// The secrets that texts of `ff1` can be turned back by.
    pub secrets: &'a Secrets,
    /// The strategies that texts of theirs can be read by.
    pub strategies: &'a Strategies,
    /// The time: no ID of a later one has been minted.
    pub now: WallMs,
}

/// Ages of readings, the likeliest first: people ask about young IDs, and an ID of a time to come is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Age {
    /// A time within the last [`YOUNG_MAX`].
    Young,
    /// Older, or without a time.
    Old,
    /// A time to come.
    ToCome,
}

/// The ways to read a text, what asks most of a text first.
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
    /// A token of a `uint` type.
    Number(u32),
    /// A token of a string type.
    Characters(String),
}

/// One integer ID in all forms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TextForms {
    /// The form [`TextForm::Decimal`].
    pub decimal: String,
    /// The form [`TextForm::Hex`].
    pub hex: String,
    /// The form [`TextForm::Base32`].
    pub base32: String,
    /// [`TextForm::Uri`]; empty for layouts, which have none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uri: String,
}

/// The reason why a text tells nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExplainError {
    /// Longer than any ID: [`TEXT_LEN_MAX`].
    #[error("{bytes} bytes are not an ID: the longest has {max}", max = Template::LEN_MAX)]
    TooLong {
        /// Bytes there are.
        bytes: usize,
    },
    /// The text is nearly an integer.
    #[error("{error}; and it is not a string by any of the {templates} templates known here")]
    Nearly {
        /// The fault in it.
        error: ParseError,
        /// The number of templates that were tried.
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
        /// The number of templates that were tried.
        templates: usize,
    },
    /// The text fits nothing.
    #[error(
        "'{text}' is not an ID: no {numbers} in decimal, hex, base32 or uri, and no string by any of the {templates} \
         templates known here",
        numbers = numbers()
    )]
    Nothing {
        /// The text, cut to a bounded length.
        text: String,
        /// The number of templates that were tried.
        templates: usize,
    },
}

/// The kinds that are numbers.
fn numbers() -> String {
    let numbers = Kind::ALL.into_iter().filter(|kind| kind.numbers().is_some());
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
    readings.sort_by_key(|reading| reading.rank(known.now));
    readings.truncate(READINGS_MAX);
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
        match all.iter_mut().find(|(reading, _)| *reading == found) {
            Some((_, of)) => of.extend(names),
            None => all.push((found, names)),
        }
        // The least likely ones are left out.
        if all.len() == 2 * READINGS_MAX {
            all.sort_by_key(|(reading, _)| reading.rank(known.now));
            all.truncate(READINGS_MAX);
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
    let refusals = Kind::ALL.into_iter().filter_map(|kind| kind.numbers()?.parse(text).err());
    let near = |e: &ParseError| match e {
        ParseError::Calendar { .. } => true,
        ParseError::Form { kind, .. } => text.starts_with(&format!("{kind}:")),
        ParseError::NoForm { .. } | ParseError::Ambiguous { .. } => false,
    };
    let nothing = ExplainError::Nothing { text: shown(text), templates };
    refusals.into_iter().find(near).map_or(nothing, |error| ExplainError::Nearly { error, templates })
}

impl Explained {
    /// Puts the readings first whose token was leased for the time that they say: by those the ID can have been minted.
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
        let is_uuid = self.layout.as_ref().is_some_and(|layout| layout.has_spellings);
        matches!(self.form, Some(TextForm::Hex | TextForm::Base32)) || is_uuid
    }

    /// The place among others: the likeliest first.
    fn rank(&self, now: WallMs) -> (Age, By) {
        (self.age(now), self.by())
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

    /// The reading of a number, in none of its forms.
    pub(super) fn of_number(kind: Kind, parts: &Parts, time: String, texts: TextForms) -> Self {
        let (token, serial) = (Some(TokenText::Number(parts.token.0)), Some(parts.serial.into()));
        Self { time: Some(time), token, serial, texts: Some(texts), ..Self::of(kind) }
    }

    /// The reading of a text which may be one of that name's, and cannot be read here.
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
mod tests;
