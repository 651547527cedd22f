//! Instants and spans, as types that cannot be swapped.
//!
//! Two axes: [`WallMs`] is the calendar's (leases and IDs live on it), [`BootMs`] is the machine's own, which never
//! steps (time-outs live on it). Nothing here reads a clock.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

/// Milliseconds in a second.
pub const SECOND_MS: i64 = 1_000;
/// Milliseconds in an hour.
pub const HOUR_MS: i64 = 3_600 * SECOND_MS;
/// Milliseconds in a day. Every day has this length: the cluster's UTC offset is fixed and leap seconds are not counted.
pub const DAY_MS: i64 = 24 * HOUR_MS;

/// An instant of the calendar: milliseconds since 1970-01-01T00:00:00Z, without leap seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WallMs(pub i64);

/// An instant of one machine: milliseconds since it booted, counting suspended time (`CLOCK_BOOTTIME`). Never steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BootMs(pub i64);

/// A length of time in milliseconds; negative lengths occur only as differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SpanMs(pub i64);

/// One reading of both axes; the only form in which time enters the pure core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Now {
    /// The calendar's reading.
    pub wall: WallMs,
    /// The reading of the machine's own clock.
    pub boot: BootMs,
}

impl SpanMs {
    /// A span of whole days.
    pub const fn days(days: i64) -> Self {
        Self(days.saturating_mul(DAY_MS))
    }

    /// A span of whole seconds.
    pub const fn seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(SECOND_MS))
    }

    /// Converts it for timers to the standard library's span; a negative one is zero.
    pub fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_millis(u64::try_from(self.0).unwrap_or(0))
    }
}

impl Add<SpanMs> for WallMs {
    type Output = Self;
    fn add(self, span: SpanMs) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub for WallMs {
    type Output = SpanMs;
    fn sub(self, earlier: Self) -> SpanMs {
        SpanMs(self.0.saturating_sub(earlier.0))
    }
}

impl Add<SpanMs> for BootMs {
    type Output = Self;
    fn add(self, span: SpanMs) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub for BootMs {
    type Output = SpanMs;
    fn sub(self, earlier: Self) -> SpanMs {
        SpanMs(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for WallMs {
    /// RFC 3339 in UTC with milliseconds; instants outside the years 0..=9999 print as bare milliseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use chrono::Datelike as _;
        match chrono::DateTime::from_timestamp_millis(self.0) {
            Some(t) if (0..=9999).contains(&t.year()) => {
                write!(f, "{}", t.to_rfc3339_opts(chrono::SecondsFormat::Millis, true))
            }
            _ => write!(f, "{} ms", self.0),
        }
    }
}

/// Time that runs faster than it is, for tests of rules that speak of days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TestClock {
    /// Factor by which the clock is faster, 1..=1,000,000.
    pub scale: u32,
    /// The instant from which on it runs faster; before it time is as it is.
    pub epoch: WallMs,
}

/// A text that is not a test clock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a test clock is written SCALE@EPOCH_MS with SCALE from 1 to {}", TestClock::SCALE_MAX)]
pub struct TestClockError;

impl TestClock {
    /// The fastest: a day in 86 ms.
    pub const SCALE_MAX: u32 = 1_000_000;
}

impl FromStr for TestClock {
    type Err = TestClockError;
    fn from_str(text: &str) -> Result<Self, TestClockError> {
        let (scale, epoch) = text.split_once('@').ok_or(TestClockError)?;
        let scale: u32 = scale.parse().map_err(|_| TestClockError)?;
        let epoch: i64 = epoch.parse().map_err(|_| TestClockError)?;
        if !(1..=Self::SCALE_MAX).contains(&scale) || epoch < 0 {
            return Err(TestClockError);
        }
        Ok(Self { scale, epoch: WallMs(epoch) })
    }
}

impl fmt::Display for TestClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.scale, self.epoch.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_prints_as_rfc_3339_and_survives_extremes() {
        assert_eq!(WallMs(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(WallMs(i64::MAX).to_string(), format!("{} ms", i64::MAX));
        assert_eq!(WallMs(i64::MAX) + SpanMs(1), WallMs(i64::MAX));
    }

    #[test]
    fn test_clocks_parse_exactly() {
        assert_eq!("60@5".parse(), Ok(TestClock { scale: 60, epoch: WallMs(5) }));
        for bad in ["", "60", "0@1", "1000001@1", "x@1", "1@-1", "1@", "@1"] {
            assert_eq!(bad.parse::<TestClock>(), Err(TestClockError), "{bad}");
        }
    }
}
