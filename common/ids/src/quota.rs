//! The most IDs that one account gets in a span of time.

use core::fmt;
use core::ops::RangeInclusive;
use serde::{Deserialize, Serialize};

/// IDs that a quota may give in a span of time.
pub const LIMITS: RangeInclusive<u64> = 1..=1_000_000_000;

/// The most IDs in a second and in 24 hours, at each agent; at least one of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Limits")]
pub struct IdQuota {
    per_second: Option<u64>,
    per_day: Option<u64>,
}

#[derive(Deserialize)]
struct Limits {
    per_second: Option<u64>,
    per_day: Option<u64>,
}

impl TryFrom<Limits> for IdQuota {
    type Error = String;
    fn try_from(Limits { per_second, per_day }: Limits) -> Result<Self, String> {
        Self::new(per_second, per_day)
    }
}

impl IdQuota {
    /// A quota of so many IDs a second and a day.
    ///
    /// # Errors
    /// A limit that is not among [`LIMITS`], or none at all.
    pub fn new(per_second: Option<u64>, per_day: Option<u64>) -> Result<Self, String> {
        for (key, limit) in [("per_second", per_second), ("per_day", per_day)] {
            if limit.is_some_and(|limit| !LIMITS.contains(&limit)) {
                return Err(format!("{key} is a number from {} to {}", LIMITS.start(), LIMITS.end()));
            }
        }
        match (per_second, per_day) {
            (None, None) => Err("say per_second, per_day or both".to_owned()),
            _ => Ok(Self { per_second, per_day }),
        }
    }

    /// IDs a second, 1 to 1,000,000,000.
    pub const fn per_second(self) -> Option<u64> {
        self.per_second
    }

    /// IDs in 24 hours, 1 to 1,000,000,000.
    pub const fn per_day(self) -> Option<u64> {
        self.per_day
    }
}

impl fmt::Display for IdQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.per_second, self.per_day) {
            (Some(second), Some(day)) => write!(f, "{second} IDs a second, {day} a day"),
            (Some(second), None) => write!(f, "{second} IDs a second"),
            (None, day) => write!(f, "{} IDs a day", day.unwrap_or_default()),
        }
    }
}
