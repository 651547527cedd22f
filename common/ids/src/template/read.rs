//! Taking a string ID apart again: exactly, or not at all.

use super::date::DateParts;
use super::{Piece, TakeApartError, Template, What};
use crate::calendar::DayBucket;
use crate::digits::shown;
use crate::token::{TokenKey, TokenValue};
use chrono::NaiveDate;
use serde::Serialize;
use std::fmt;

/// A piece of a string ID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The part that it is.
    pub part: PartKind,
    /// The characters.
    pub text: String,
}

/// The part that a piece of a string ID is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PartKind {
    /// The template's own characters.
    Literal,
    /// The day.
    Date,
    /// The caller's.
    Biz,
    /// The caller's.
    Custom,
    /// The agent's token.
    Token,
    /// The serial.
    Serial,
    /// Check digits over all that precedes.
    Check,
}

/// A string ID taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenApart {
    /// The day it carries, in the cluster's offset.
    pub day: DayBucket,
    /// The token.
    pub token: TokenKey,
    /// The serial, below the template's capacity.
    pub serial: u64,
    /// All pieces in their order.
    pub parts: Vec<Part>,
}

impl Template {
    /// The parts of an ID, if it is exactly of this template.
    ///
    /// # Errors
    /// [`TakeApartError`] names the part that does not fit.
    pub fn take_apart(&self, id: &str) -> Result<Vec<Part>, TakeApartError> {
        self.read(id).map(|taken| taken.parts)
    }

    /// Takes an ID apart as [`take_apart`](Self::take_apart), with day, token and serial as values. The parts that it
    /// returns write `id` again.
    ///
    /// # Errors
    /// [`TakeApartError`] names the part that does not fit.
    pub fn read(&self, id: &str) -> Result<TakenApart, TakeApartError> {
        if id.len() != self.len {
            return Err(TakeApartError::Length { wanted: self.len, found: id.chars().count() });
        }
        if !id.is_ascii() {
            return Err(TakeApartError::NotAscii);
        }
        let date = self.read_date(id)?;
        // Both are found below: no template is without them.
        let (mut token, mut serial) = (TokenKey { family: self.family, value: TokenValue(0) }, 0);
        let mut parts = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            let text = piece.of(id);
            match &piece.what {
                What::Literal(own) if own == text => {}
                What::Literal(own) => return Err(piece.refuse(id, own.clone())),
                What::Date(format) => {
                    let mut own = Vec::with_capacity(text.len());
                    format.write(date, &mut own);
                    if own != text.as_bytes() {
                        return Err(piece.refuse(id, format!("the day {date}, as named elsewhere")));
                    }
                }
                What::Biz | What::Custom => {
                    if !text.bytes().all(|b| b.is_ascii_alphanumeric()) {
                        return Err(piece.refuse(id, "letters and digits".to_owned()));
                    }
                }
                What::Token => {
                    let key = TokenKey::parse(self.family, text);
                    token = key.ok_or_else(|| piece.refuse(id, "a token of 0-9 A-Z".to_owned()))?;
                }
                What::Serial(how) => {
                    let radix = how.radix.number();
                    let digit = |b: u8| char::from(b).is_digit(radix) && !b.is_ascii_lowercase();
                    let number = text.bytes().all(digit).then(|| u64::from_str_radix(text, radix).ok()).flatten();
                    serial = number.ok_or_else(|| piece.refuse(id, format!("a number in radix {radix}")))?;
                }
                What::Check(kind) => {
                    let mut own = vec![b'0'; text.len()];
                    let covered = id.get(..piece.place.start).unwrap_or_default();
                    kind.fill(covered.as_bytes(), &mut own);
                    if own != text.as_bytes() {
                        return Err(piece.refuse(id, String::from_utf8(own).unwrap_or_default()));
                    }
                }
            }
            parts.push(Part { part: piece.what.kind(), text: text.to_owned() });
        }
        Ok(TakenApart { day: bucket(date), token, serial, parts })
    }

    /// The day that the dates name together.
    fn read_date(&self, id: &str) -> Result<NaiveDate, TakeApartError> {
        let mut named = DateParts::default();
        let refuse = |piece: &Piece| piece.refuse(id, "a day that exists, from 1970 on".to_owned());
        let mut refusal = TakeApartError::NotAscii;
        for piece in &self.pieces {
            if let What::Date(format) = &piece.what {
                refusal = refuse(piece);
                format.read(piece.of(id), &mut named).ok_or_else(|| refuse(piece))?;
            }
        }
        named.date().ok_or(refusal)
    }
}

impl Piece {
    fn of<'a>(&self, id: &'a str) -> &'a str {
        id.get(self.place.clone()).unwrap_or_default()
    }

    fn refuse(&self, id: &str, wanted: String) -> TakeApartError {
        TakeApartError::Part { part: self.what.kind(), at: self.place.start, text: shown(self.of(id)), wanted }
    }
}

/// Days since 1970-01-01; the first one for dates before.
fn bucket(date: NaiveDate) -> DayBucket {
    let days = date.signed_duration_since(NaiveDate::default()).num_days();
    DayBucket(u32::try_from(days).unwrap_or(0))
}

impl fmt::Display for PartKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Literal => "literal",
            Self::Date => "date",
            Self::Biz => "biz",
            Self::Custom => "custom",
            Self::Token => "token",
            Self::Serial => "serial",
            Self::Check => "check",
        })
    }
}
