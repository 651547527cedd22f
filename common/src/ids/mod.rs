//! Integer IDs: their layouts, their text forms, and how they are taken apart again.
//!
//! Two layouts, both packed from the most significant bit on, so that a larger number is never an earlier time:
//!
//! | kind | fields and bits |
//! |---|---|
//! | [`Uniq64`] | year-2000: 7, month: 4, day: 5, hour: 5, token: 12, serial: 31 |
//! | [`Uniq96`] | year-2000: 12, month: 4, day: 5, hour: 5, minute: 6, second: 6, millisecond: 10, token: 16, serial: 32 |
//!
//! Calendar fields are those of the cluster's one UTC offset, which the ID does not carry. A layout refuses what does
//! not fit its fields: a year that wrapped would be an ID that came back.
//!
//! Text forms ([`TextForm`]) are exact both ways: what parses is what would be written, to the letter. All but the
//! decimal Uniq64 have a fixed width, so the texts sort as the numbers do.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod explain;
mod text;
mod uniq64;
mod uniq96;

pub use explain::{Bucket, ExplainError, Explained, Reading, TEXT_LEN_MAX, TextForms, TokenText, explain};
pub use text::{ParseError, TextForm, UnknownTextForm};
pub use uniq64::{UNIQ64_SERIALS_PER_HOUR, Uniq64, Uniq64Fields};
pub use uniq96::{Uniq96, Uniq96Fields};

use crate::calendar::Civil;
use serde::Serialize;
use std::fmt;

/// The year that both layouts count from.
pub const YEAR_FIRST: i32 = 2000;

/// What an ID is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IdKind {
    /// 64 bits.
    Uniq64,
    /// 96 bits.
    Uniq96,
    /// Characters by a template.
    String,
}

/// Why an instant or a token does not fit a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The year is beyond its field.
    #[error("the year {year} does not fit a {kind}, which holds {YEAR_FIRST} to {last}: correct the clock")]
    YearOutOfRange {
        /// The layout.
        kind: IdKind,
        /// The year, of the Common Era; beyond the calendar's own range the nearest `i32`.
        year: i32,
        /// The last year that fits.
        last: i32,
    },
    /// The token is beyond its field.
    #[error("token {token} does not fit a {kind}, which holds tokens up to {max}")]
    TokenOutOfRange {
        /// The layout.
        kind: IdKind,
        /// The token.
        token: u32,
        /// The largest token that fits.
        max: u32,
    },
}

/// Bits that name no instant, e.g. a month 13: whatever they are, no generator minted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no {field} {value} ({date})")]
pub struct CalendarError {
    /// Which field: month, day, hour, minute, second or millisecond.
    pub field: &'static str,
    /// What stands in it.
    pub value: u16,
    /// The date it stands in.
    pub date: Ymd,
}

/// Year, month and day as they stand in the bits, whether they exist or not; prints as 2026-11-20.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ymd {
    /// Of the Common Era.
    pub year: i32,
    /// 1..=12 if it exists.
    pub month: u8,
    /// 1..=31 if it exists.
    pub day: u8,
}

/// Whether the calendar has that instant. Leap seconds are not on the axis of the IDs.
fn exists(civil: &Civil) -> Result<(), CalendarError> {
    let date = Ymd { year: civil.year, month: civil.month, day: civil.day };
    let refuse = |field, value| Err(CalendarError { field, value, date });
    if !(1..=12).contains(&civil.month) {
        return refuse("month", civil.month.into());
    }
    if chrono::NaiveDate::from_ymd_opt(civil.year, civil.month.into(), civil.day.into()).is_none() {
        return refuse("day", civil.day.into());
    }
    for (field, value, count) in [
        ("hour", civil.hour.into(), 24),
        ("minute", civil.minute.into(), 60),
        ("second", civil.second.into(), 60),
        ("millisecond", civil.millisecond, 1_000),
    ] {
        if value >= count {
            return refuse(field, value);
        }
    }
    Ok(())
}

impl fmt::Display for IdKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uniq64 => "uniq64",
            Self::Uniq96 => "uniq96",
            Self::String => "string",
        })
    }
}

impl fmt::Display for Ymd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}
