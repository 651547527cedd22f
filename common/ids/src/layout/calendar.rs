//! Calendars: a tick written as year, month, day and so on in fields of their own, and not as one number.

use super::{Field, InvalidLayout, Part};
use crate::calendar::{Civil, UtcOffset};
use crate::time::{DAY_MS, HOUR_MS, SECOND_MS, SpanMs, WallMs};
use std::fmt;
use std::ops::Range;

/// The year that calendars count from.
pub const YEAR_FIRST: i32 = 2000;

/// A field of a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// Year of the Common Era, less [`YEAR_FIRST`].
    Year,
    /// Month of the year, 1..=12.
    Month,
    /// Day of the month, from 1 on.
    Day,
    /// Hour of the day.
    Hour,
    /// Minute of the hour.
    Minute,
    /// Second of the minute.
    Second,
    /// Millisecond of the second.
    Millisecond,
}

/// Each unit but years with the bits of its field, and its length; months are as long as their days.
const UNITS: [(Unit, u32, i64); 6] = [
    (Unit::Month, 4, i64::MAX),
    (Unit::Day, 5, DAY_MS),
    (Unit::Hour, 5, HOUR_MS),
    (Unit::Minute, 6, 60 * SECOND_MS),
    (Unit::Second, 6, SECOND_MS),
    (Unit::Millisecond, 10, 1),
];

/// The most bits of a year.
const YEAR_BITS_MAX: u32 = 12;
/// Units of the calendars that definitions may have: shorter ticks are counted.
const DEFINABLE: [i64; 3] = [60 * SECOND_MS, HOUR_MS, DAY_MS];

/// Dates that stand for ticks, from the year down to the field of a tick's unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Calendar {
    year_bits: u32,
    unit: SpanMs,
    /// Bits of the fields that it has not: those behind that of the unit.
    cut: u32,
}

impl Calendar {
    /// The calendar whose fields these are, joined, if some of them are a calendar's. A definition has one to the minute, the hour or the day.
    ///
    /// # Errors
    /// [`InvalidLayout::Calendar`] if they are not all of them, in their order, side by side, and instead of a time.
    pub(super) fn of(fields: &[Field], unit: SpanMs) -> Result<Option<Self>, InvalidLayout> {
        let is_its = |field: &&Field| matches!(field.part, Part::Calendar(_) | Part::Time);
        let at = fields.iter().position(|field| matches!(field.part, Part::Calendar(_)));
        let Some(at) = at else { return Ok(None) };
        let years = fields.get(at).filter(|field| field.bits <= YEAR_BITS_MAX).map_or(0, |field| field.bits);
        let calendar = Self::new(years, unit);
        let (own, said) = (calendar.fields().collect::<Vec<_>>(), fields.get(at..).unwrap_or_default());
        let fits = DEFINABLE.contains(&unit.0) && said.starts_with(&own);
        match fits && fields.iter().filter(is_its).count() == own.len() {
            true => Ok(Some(calendar)),
            false => Err(InvalidLayout::Calendar),
        }
    }

    /// The calendar with so many bits for the year, at most 12, and ticks of a day, an hour, a minute, a second or a millisecond.
    pub fn new(year_bits: u32, unit: SpanMs) -> Self {
        let cut = UNITS.iter().filter(|(.., span)| *span < unit.0).map(|(_, bits, _)| bits).sum();
        Self { year_bits, unit, cut }
    }

    /// The length of a tick.
    pub fn unit(&self) -> SpanMs {
        self.unit
    }

    /// The fields of a layout with this calendar.
    pub(super) fn fields(&self) -> impl Iterator<Item = Field> + use<> {
        let unit = self.unit.0;
        let fields = UNITS.into_iter().filter(move |(.., span)| *span >= unit).map(|(unit, bits, _)| (unit, bits));
        let fields = std::iter::once((Unit::Year, self.year_bits)).chain(fields);
        fields.map(|(unit, bits)| Field { part: Part::Calendar(unit), bits })
    }

    /// The last year that its field holds.
    pub fn year_last(&self) -> i32 {
        YEAR_FIRST + (1 << self.year_bits) - 1
    }

    /// The ticks that it can write, counted from 1970 on.
    pub(super) fn ticks(&self) -> Range<u64> {
        let new_year = |year| {
            let civil = Civil { year, month: 1, day: 1, hour: 0, minute: 0, second: 0, millisecond: 0 };
            self.tick(&civil).unwrap_or_default()
        };
        new_year(YEAR_FIRST)..new_year(self.year_last() + 1)
    }

    /// The tick that begins then; `None` if there is no such date or time of day.
    pub(super) fn tick(&self, civil: &Civil) -> Option<u64> {
        u64::try_from(UtcOffset::default().instant(civil)?.0 / self.unit.0.max(1)).ok()
    }

    /// The fields, side by side, of a tick that fits.
    #[inline]
    pub(super) fn pack(&self, tick: u64) -> Option<u64> {
        let begins = WallMs(i64::try_from(tick).ok()?.checked_mul(self.unit.0)?);
        let civil = UtcOffset::default().civil(begins)?;
        let year = u64::from((civil.year - YEAR_FIRST).unsigned_abs());
        let date = (year << 4 | u64::from(civil.month)) << 5 | u64::from(civil.day);
        let time = (u64::from(civil.hour) << 6 | u64::from(civil.minute)) << 6 | u64::from(civil.second);
        Some(((date << 17 | time) << 10 | u64::from(civil.millisecond)) >> self.cut)
    }

    /// The date in fields that stand side by side, of which the calendar may know nothing.
    pub(super) fn unpack(&self, packed: u64) -> Civil {
        let all = packed << self.cut;
        let field = |above: u32, bits: u32| (all >> above & ((1 << bits) - 1)) as u8;
        Civil {
            year: YEAR_FIRST + (all >> 36) as i32,
            month: field(32, 4),
            day: field(27, 5),
            hour: field(22, 5),
            minute: field(16, 6),
            second: field(10, 6),
            millisecond: (all & 0x3ff) as u16,
        }
    }
}

impl Unit {
    /// The one of that name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let units = std::iter::once(Self::Year).chain(UNITS.iter().map(|(unit, ..)| *unit));
        units.into_iter().find(|unit| unit.to_string() == name)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Year => "year",
            Self::Month => "month",
            Self::Day => "day",
            Self::Hour => "hour",
            Self::Minute => "minute",
            Self::Second => "second",
            Self::Millisecond => "millisecond",
        })
    }
}
