//! The date in a string ID: those of chrono's specifiers that have a fixed width and name a day.

use super::TemplateError;
use super::overlap::{Chars, DIGITS};
use super::parse::literal_character;
use crate::digits::{fill_decimal, read_decimal, shown};
use chrono::{Datelike as _, NaiveDate};

/// A date's format, e.g. `%Y%m%d`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct DateFormat(Vec<Atom>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Atom {
    /// `%Y`, four digits.
    Year,
    /// `%y`, two digits: repeats every hundred years, so it names nothing.
    YearOfCentury,
    /// `%m`.
    Month,
    /// `%d`.
    Day,
    /// `%j`, 001..=366.
    DayOfYear,
    Literal(char),
}

/// The years that four digits write, as far as buckets reach back.
pub(crate) const YEARS: std::ops::RangeInclusive<i32> = 1970..=9999;

/// Parts of a date that a template names, and what they say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DateParts {
    year: Option<u32>,
    month: Option<u32>,
    day: Option<u32>,
    day_of_year: Option<u32>,
}

impl Atom {
    const fn width(self) -> usize {
        match self {
            Self::Year => 4,
            Self::YearOfCentury | Self::Month | Self::Day => 2,
            Self::DayOfYear => 3,
            Self::Literal(_) => 1,
        }
    }
}

impl DateFormat {
    /// The format that `source` spells.
    pub(super) fn parse(source: &str) -> Result<Self, TemplateError> {
        let mut atoms = Vec::new();
        let mut rest = source.chars();
        while let Some(c) = rest.next() {
            if c != '%' {
                atoms.push(Atom::Literal(literal_character(c)?));
                continue;
            }
            match rest.next() {
                Some('Y') => atoms.push(Atom::Year),
                Some('y') => atoms.push(Atom::YearOfCentury),
                Some('m') => atoms.push(Atom::Month),
                Some('d') => atoms.push(Atom::Day),
                Some('j') => atoms.push(Atom::DayOfYear),
                Some('F') => {
                    let dash = Atom::Literal('-');
                    atoms.extend([Atom::Year, dash, Atom::Month, dash, Atom::Day]);
                }
                Some('%') => atoms.push(Atom::Literal('%')),
                other => return Err(refusal(other)),
            }
        }
        Ok(Self(atoms))
    }

    /// Characters it takes.
    pub(super) fn width(&self) -> usize {
        self.0.iter().map(|atom| atom.width()).sum()
    }

    /// Appends what may stand at each of its places.
    pub(super) fn places(&self, places: &mut Vec<Chars>) {
        for atom in &self.0 {
            let first = match atom {
                Atom::Year => Chars::range(b'1', b'9'),
                Atom::YearOfCentury => DIGITS,
                Atom::Month => Chars::range(b'0', b'1'),
                Atom::Day | Atom::DayOfYear => Chars::range(b'0', b'3'),
                // One byte: printable ASCII.
                Atom::Literal(c) => Chars::one(u8::try_from(*c).unwrap_or_default()),
            };
            places.push(first);
            places.extend((1..atom.width()).map(|_| DIGITS));
        }
    }

    /// Appends `date`, whose year is in [`YEARS`].
    pub(super) fn write(&self, date: NaiveDate, out: &mut Vec<u8>) {
        let year = date.year().unsigned_abs();
        for atom in &self.0 {
            let number = match *atom {
                Atom::Year => year,
                Atom::YearOfCentury => year % 100,
                Atom::Month => date.month(),
                Atom::Day => date.day(),
                Atom::DayOfYear => date.ordinal(),
                Atom::Literal(c) => {
                    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                    continue;
                }
            };
            let start = out.len();
            out.resize(start + atom.width(), b'0');
            if let Some(digits) = out.get_mut(start..) {
                fill_decimal(digits, number.into());
            }
        }
    }

    /// Adds what it names to `named`, with the numbers that `text` has there; `None` where there are none.
    pub(super) fn read(&self, text: &str, named: &mut DateParts) -> Option<()> {
        let mut rest = text;
        for atom in &self.0 {
            let (field, tail) = rest.split_at_checked(atom.width())?;
            rest = tail;
            let place = match atom {
                Atom::Year => &mut named.year,
                Atom::Month => &mut named.month,
                Atom::Day => &mut named.day,
                Atom::DayOfYear => &mut named.day_of_year,
                // The caller writes the date that was read and compares.
                Atom::YearOfCentury | Atom::Literal(_) => continue,
            };
            *place = Some(u32::try_from(read_decimal(field)?).ok()?);
        }
        Some(())
    }

    /// Marks in `named` what it names, with numbers that mean nothing.
    pub(super) fn name(&self, named: &mut DateParts) {
        for atom in &self.0 {
            match atom {
                Atom::Year => named.year = Some(0),
                Atom::Month => named.month = Some(0),
                Atom::Day => named.day = Some(0),
                Atom::DayOfYear => named.day_of_year = Some(0),
                Atom::YearOfCentury | Atom::Literal(_) => {}
            }
        }
    }
}

impl DateParts {
    /// Checks that year and day are named, so that no two days are written alike.
    pub(super) fn complete(&self) -> Result<(), TemplateError> {
        let refuse = |missing, why| Err(TemplateError::DateIncomplete { missing, why });
        if self.year.is_none() {
            return refuse(
                "the year with four digits (%Y)",
                "its IDs would come back after a year, or with %y after 100",
            );
        }
        if self.day_of_year.is_some() {
            return Ok(());
        }
        if self.month.is_none() {
            return refuse("the month (%m)", "its IDs would come back after a month");
        }
        if self.day.is_none() {
            return refuse("the day (%d)", "the serial starts anew each day, so its IDs would come back on the next");
        }
        Ok(())
    }

    /// The day that is named, if there is one such.
    pub(super) fn date(&self) -> Option<NaiveDate> {
        let year = i32::try_from(self.year?).ok().filter(|year| YEARS.contains(year))?;
        match (self.month, self.day) {
            (Some(month), Some(day)) => NaiveDate::from_ymd_opt(year, month, day),
            _ => NaiveDate::from_yo_opt(year, self.day_of_year?),
        }
    }
}

fn refusal(specifier: Option<char>) -> TemplateError {
    let why = match specifier {
        Some('H' | 'I' | 'M' | 'S' | 'T' | 'R' | 'f' | 's' | 'c' | 'k' | 'l' | 'p' | 'P' | 'X') => {
            "a string carries its day, and no time of day"
        }
        Some('e' | '-' | '_' | '0') => "digits are zero-padded here, so that the width is fixed",
        Some('a' | 'A' | 'b' | 'B' | 'h' | 'v' | 'x') => "names have no fixed width",
        Some('z' | 'Z' | ':' | '#' | '+') => "the UTC offset is the cluster's and never changes",
        None => "a % needs a letter behind it",
        Some(_) => "it is not among those with a fixed width that name a day",
    };
    TemplateError::Specifier { specifier: shown(&format!("%{}", specifier.map(String::from).unwrap_or_default())), why }
}
