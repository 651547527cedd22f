//! Days and hours in the cluster's one UTC offset.
//!
//! The offset is fixed when the cluster is formatted: never the operating system's zone, never daylight saving. A local
//! hour that repeats every autumn would be an ID that repeats every autumn.

use crate::time::{DAY_MS, HOUR_MS, SECOND_MS, SpanMs, WallMs};
use chrono::{Datelike as _, NaiveDate};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Days from the day before 1 January of the year 1 to 1970-01-01.
const DAYS_BEFORE_1970: i64 = 719_163;

/// A fixed offset from UTC in whole minutes, -23:59 to +23:59.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UtcOffset {
    minutes: i16,
}

/// A calendar day: days since 1970-01-01 in the cluster's offset. The bucket of string IDs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DayBucket(pub u32);

/// A calendar hour: hours since 1970-01-01T00 in the cluster's offset. The bucket of Uniq64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HourBucket(pub u32);

/// The calendar fields of an instant, in the cluster's offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Civil {
    /// Years of the Common Era, e.g. 2026.
    pub year: i32,
    /// Month of the year, 1..=12.
    pub month: u8,
    /// Day of the month, 1..=31.
    pub day: u8,
    /// Hour of the day, 0..=23.
    pub hour: u8,
    /// Minute of the hour, 0..=59.
    pub minute: u8,
    /// 0..=59; leap seconds do not exist on this axis.
    pub second: u8,
    /// Millisecond of the second, 0..=999.
    pub millisecond: u16,
}

/// Bits that name no instant, e.g. a month 13: whatever they are, no generator minted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no {field} {value} ({date})")]
pub struct CalendarError {
    /// The field: month, day, hour, minute, second or millisecond.
    pub field: &'static str,
    /// The value in it.
    pub value: u16,
    /// The date it stands in.
    pub date: Ymd,
}

/// Year, month and day as they stand in the bits, whether they exist or not; prints as 2026-11-20.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ymd {
    /// Year of the Common Era.
    pub year: i32,
    /// 1..=12 if it exists.
    pub month: u8,
    /// 1..=31 if it exists.
    pub day: u8,
}

/// The reason why a text is not a UTC offset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a UTC offset: write it as +08:00 or -03:30, at most 23:59")]
pub struct OffsetError(String);

impl UtcOffset {
    /// The widest offset either way, in minutes.
    pub const MINUTES_MAX: i16 = 24 * 60 - 1;

    /// An offset of `minutes`, or `None` beyond 23:59 either way.
    pub const fn from_minutes(minutes: i16) -> Option<Self> {
        if minutes >= -Self::MINUTES_MAX && minutes <= Self::MINUTES_MAX { Some(Self { minutes }) } else { None }
    }

    /// Minutes east of UTC.
    pub const fn minutes(self) -> i16 {
        self.minutes
    }

    fn ms(self) -> i64 {
        i64::from(self.minutes) * 60_000
    }

    /// The instant at which UTC has the date and the time of day that this offset has at `t`.
    pub fn to_local(self, t: WallMs) -> WallMs {
        t + SpanMs(self.ms())
    }

    /// The instant that [`to_local`](Self::to_local) gives this one of.
    pub fn from_local(self, local: WallMs) -> WallMs {
        local + SpanMs(-self.ms())
    }

    /// The first instant of the day in which `t` lies.
    pub fn day_floor(self, t: WallMs) -> WallMs {
        WallMs(self.floor(t, DAY_MS))
    }

    /// The first instant at or after `t` at which a day begins.
    pub fn day_ceil(self, t: WallMs) -> WallMs {
        let floor = self.day_floor(t);
        if floor == t { t } else { floor + SpanMs(DAY_MS) }
    }

    fn floor(self, t: WallMs, unit: i64) -> i64 {
        let local = t.0.saturating_add(self.ms());
        local.saturating_sub(local.rem_euclid(unit)).saturating_sub(self.ms())
    }

    /// The day in which `t` lies; instants before 1970 count as its first day, those past the field as its last.
    pub fn day_bucket(self, t: WallMs) -> DayBucket {
        DayBucket(self.bucket(t, SpanMs(DAY_MS)))
    }

    /// The hour in which `t` lies; instants before 1970 count as its first hour, those past the field as its last.
    pub fn hour_bucket(self, t: WallMs) -> HourBucket {
        HourBucket(self.bucket(t, SpanMs(HOUR_MS)))
    }

    /// The number of the `unit`, at least 1 ms, in which `t` lies, counted from 1970-01-01 in this offset; instants before
    /// 1970 count as the first one, those past the field as the last.
    pub fn bucket(self, t: WallMs, unit: SpanMs) -> u32 {
        let n = t.0.saturating_add(self.ms()).div_euclid(unit.0.max(1));
        u32::try_from(n.max(0)).unwrap_or(u32::MAX)
    }

    /// The first instant of `day`.
    pub fn day_start(self, day: DayBucket) -> WallMs {
        self.bucket_start(day.0, SpanMs(DAY_MS))
    }

    /// The first instant of `hour`.
    pub fn hour_start(self, hour: HourBucket) -> WallMs {
        self.bucket_start(hour.0, SpanMs(HOUR_MS))
    }

    /// The first instant of that bucket of `unit`, at most a day.
    pub fn bucket_start(self, bucket: u32, unit: SpanMs) -> WallMs {
        WallMs(i64::from(bucket) * unit.0 - self.ms())
    }

    /// The calendar fields of `t`, or `None` outside chrono's range of years.
    #[inline]
    pub fn civil(self, t: WallMs) -> Option<Civil> {
        let local = t.0.checked_add(self.ms())?;
        let (day, rest) = (local.div_euclid(DAY_MS), local.rem_euclid(DAY_MS));
        let date = NaiveDate::from_num_days_from_ce_opt(i32::try_from(day + DAYS_BEFORE_1970).ok()?)?;
        Some(Civil {
            year: date.year(),
            month: date.month() as u8,
            day: date.day() as u8,
            hour: (rest / HOUR_MS) as u8,
            minute: (rest / (60 * SECOND_MS) % 60) as u8,
            second: (rest / SECOND_MS % 60) as u8,
            millisecond: (rest % SECOND_MS) as u16,
        })
    }

    /// The first instant of that year, or `None` outside chrono's range of years.
    pub fn new_year(self, year: i32) -> Option<WallMs> {
        self.instant(&Civil { year, month: 1, day: 1, hour: 0, minute: 0, second: 0, millisecond: 0 })
    }

    /// The day of an instant, also beyond the year 9999.
    pub fn day_text(self, at: WallMs) -> String {
        match self.civil(at) {
            Some(civil) => format!("{:04}-{:02}-{:02}", civil.year, civil.month, civil.day),
            None => at.to_string(),
        }
    }

    /// The instant that `civil` names, or `None` if there is no such date or time of day.
    pub fn instant(self, civil: &Civil) -> Option<WallMs> {
        let date = NaiveDate::from_ymd_opt(civil.year, civil.month.into(), civil.day.into())?;
        let local = date.and_hms_milli_opt(
            civil.hour.into(),
            civil.minute.into(),
            civil.second.into(),
            civil.millisecond.into(),
        )?;
        // A leap second (chrono allows second 59 with 1000..=1999 ms) does not exist here.
        (civil.millisecond < 1_000).then(|| WallMs(local.and_utc().timestamp_millis() - self.ms()))
    }

    /// The date of `day`, for templates; `None` outside chrono's range of years.
    pub fn date(self, day: DayBucket) -> Option<NaiveDate> {
        chrono::DateTime::UNIX_EPOCH.date_naive().checked_add_days(chrono::Days::new(day.0.into()))
    }
}

impl Civil {
    /// Checks that the calendar has that instant. Leap seconds are not on the axis of the IDs.
    ///
    /// # Errors
    /// [`CalendarError`] with the first field that is none.
    pub fn check(&self) -> Result<(), CalendarError> {
        let date = Ymd { year: self.year, month: self.month, day: self.day };
        let refuse = |field, value| Err(CalendarError { field, value, date });
        if !(1..=12).contains(&self.month) {
            return refuse("month", self.month.into());
        }
        if chrono::NaiveDate::from_ymd_opt(self.year, self.month.into(), self.day.into()).is_none() {
            return refuse("day", self.day.into());
        }
        for (field, value, count) in [
            ("hour", self.hour.into(), 24),
            ("minute", self.minute.into(), 60),
            ("second", self.second.into(), 60),
            ("millisecond", self.millisecond, 1_000),
        ] {
            if value >= count {
                return refuse(field, value);
            }
        }
        Ok(())
    }
}

impl fmt::Display for Ymd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl fmt::Display for UtcOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.minutes < 0 { '-' } else { '+' };
        let m = self.minutes.unsigned_abs();
        write!(f, "{sign}{:02}:{:02}", m / 60, m % 60)
    }
}

impl FromStr for UtcOffset {
    type Err = OffsetError;
    fn from_str(text: &str) -> Result<Self, OffsetError> {
        let refuse = || OffsetError(text.chars().take(32).collect());
        let (sign, rest) = match text.split_at_checked(1) {
            Some(("+", rest)) => (1, rest),
            Some(("-", rest)) => (-1, rest),
            _ => return Err(refuse()),
        };
        let two = |s: &str| -> Option<i16> {
            (s.len() == 2 && s.bytes().all(|b| b.is_ascii_digit())).then(|| s.parse().ok()).flatten()
        };
        let (hours, minutes) = rest.split_once(':').ok_or_else(refuse)?;
        let (hours, minutes) = two(hours).zip(two(minutes)).ok_or_else(refuse)?;
        if minutes > 59 {
            return Err(refuse());
        }
        Self::from_minutes(sign * (hours * 60 + minutes)).ok_or_else(refuse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn offsets_parse_exactly() {
        for good in ["+00:00", "+08:00", "-03:30", "+23:59", "-23:59"] {
            assert_eq!(good.parse::<UtcOffset>().unwrap().to_string(), good);
        }
        for bad in ["", "+", "08:00", "+8:00", "+24:00", "+08:60", "+0800", "+08:00 ", "+é8:00", "--1:00"] {
            assert!(bad.parse::<UtcOffset>().is_err(), "{bad} was taken");
        }
    }

    #[test]
    fn extremes_do_not_panic() {
        for t in [i64::MIN, i64::MAX, -1, 0] {
            let offset = UtcOffset::from_minutes(-UtcOffset::MINUTES_MAX).unwrap();
            let _ = (offset.day_ceil(WallMs(t)), offset.hour_bucket(WallMs(t)), offset.civil(WallMs(t)));
        }
    }

    proptest! {
        #[test]
        fn floor_and_ceil_enclose_and_are_a_day_apart(ms in 0i64..4_000_000_000_000, minutes in -1439i16..=1439) {
            let offset = UtcOffset::from_minutes(minutes).unwrap();
            let (floor, ceil) = (offset.day_floor(WallMs(ms)), offset.day_ceil(WallMs(ms)));
            prop_assert!(floor <= WallMs(ms) && WallMs(ms) <= ceil);
            prop_assert!(ceil - floor == SpanMs(DAY_MS) || ceil == floor);
            prop_assert_eq!(offset.civil(floor).map(|c| (c.hour, c.minute, c.second, c.millisecond)), Some((0, 0, 0, 0)));
        }

        #[test]
        fn buckets_hold_the_instant(ms in 100_000_000i64..4_000_000_000_000, minutes in -1439i16..=1439) {
            let offset = UtcOffset::from_minutes(minutes).unwrap();
            let t = WallMs(ms);
            let (day, hour) = (offset.day_bucket(t), offset.hour_bucket(t));
            prop_assert!(offset.day_start(day) <= t && t < offset.day_start(DayBucket(day.0 + 1)));
            prop_assert!(offset.hour_start(hour) <= t && t < offset.hour_start(HourBucket(hour.0 + 1)));
            prop_assert_eq!(offset.instant(&offset.civil(t).unwrap()), Some(t));
        }
    }
}
