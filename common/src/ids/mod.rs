//! Integer IDs: their layouts, their text forms, and how they are taken apart again.
//!
//! Two layouts, both packed from the most significant bit on in the order year, month, ..., token, serial, so that a
//! larger number is never an earlier time:
//!
//! | kind | fields and bits |
//! |---|---|
//! | [`Uniq64`] | year-2000: 7, month: 4, day: 5, hour: 5, token: 12, serial: 31 |
//! | [`Uniq96`] | year-2000: 12, month: 4, day: 5, hour: 5, minute: 6, second: 6, millisecond: 10, token: 16, serial: 32 |
//!
//! Calendar fields are those of the cluster's one UTC offset; the ID does not carry it. A layout refuses what does not
//! fit its fields; nothing wraps.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod explain;
mod text;
mod uniq64;
mod uniq96;

pub use explain::{ExplainError, Explained, IdKind, Reading, TextForms, TokenText, explain};
pub use text::{ParseError, TextForm, UnknownTextForm};
pub use uniq64::{UNIQ64_SERIALS_PER_HOUR, Uniq64, Uniq64Fields};
pub use uniq96::{Uniq96, Uniq96Fields};

/// The year that both layouts count from.
pub const YEAR_FIRST: i32 = 2000;

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
#[error("there is no such {field}: {value} in {date}")]
pub struct CalendarError {
    /// Which field: month, day, hour, minute, second or millisecond.
    pub field: &'static str,
    /// What stands in it.
    pub value: u16,
    /// The date it stands in, as far as it is known.
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

impl std::fmt::Display for Ymd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}
