//! The parameters of a cluster and the names of its members.
//!
//! One set for the whole cluster, fixed at `uniq_master --format`, compared whenever two members meet: a master and an
//! agent that round days differently would each be right and together wrong.

use crate::calendar::UtcOffset;
use crate::time::{SpanMs, WallMs};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The parameters that all members of a cluster share. Built only by [`ClusterParameters::new`], which checks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "RawParameters", into = "RawParameters")]
pub struct ClusterParameters {
    lease_days: u8,
    utc_offset: UtcOffset,
    uint2_max: u16,
}

#[derive(Serialize, Deserialize)]
struct RawParameters {
    lease_days: u8,
    grace_days: u8,
    solo_days: u8,
    budget: u8,
    utc_offset_minutes: i16,
    uint2_max: u16,
}

/// Parameters that no cluster may have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParametersError {
    /// Days outside 1..=30.
    #[error("a lease lasts 1 to 30 days, not {0}")]
    LeaseDays(u8),
    /// Made by a program with other constants.
    #[error("these parameters were made by a version of this program with other constants")]
    Constants,
}

impl ClusterParameters {
    /// The shortest and the longest lease, in days (seed design).
    pub const LEASE_DAYS: std::ops::RangeInclusive<u8> = 1..=30;
    /// The lease when nothing else is said, in days (seed design).
    pub const LEASE_DAYS_DEFAULT: u8 = 7;
    /// Days of rest, in whole calendar days, before anyone else may have a value.
    pub const GRACE_DAYS: u8 = 1;
    /// Days for which a master allows the other to extend leases alone. At least the longest lease.
    pub const SOLO_DAYS: u8 = 30;
    /// Open leases that one agent may have of one token type: a crash loop that loses its file each time ends here,
    /// not in an empty pool.
    pub const BUDGET: u8 = 4;
    /// Denied leases of one token type whose values still rest for one agent: those that it gave up at fresh starts (three
    /// a day), or released. A crash loop that shows its former sessions each time ends here.
    pub const DENIED: u8 = 28;
    /// The largest `uint2` value when nothing else is said: what fits the 12 bits of a Uniq64.
    pub const UINT2_MAX_DEFAULT: u16 = 4_095;

    /// Checks and takes them.
    ///
    /// # Errors
    /// [`ParametersError::LeaseDays`] outside 1..=30.
    pub fn new(lease_days: u8, utc_offset: UtcOffset, uint2_max: u16) -> Result<Self, ParametersError> {
        if !Self::LEASE_DAYS.contains(&lease_days) {
            return Err(ParametersError::LeaseDays(lease_days));
        }
        Ok(Self { lease_days, utc_offset, uint2_max })
    }

    /// T: how long a grant or a renewal reaches.
    pub const fn lease(&self) -> SpanMs {
        SpanMs::days(self.lease_days as i64)
    }

    /// T in days, 1..=30.
    pub const fn lease_days(&self) -> u8 {
        self.lease_days
    }

    /// G: how long an ended value rests.
    pub const fn grace(&self) -> SpanMs {
        SpanMs::days(Self::GRACE_DAYS as i64)
    }

    /// S: how far one master allows the other to extend leases without it.
    pub const fn solo(&self) -> SpanMs {
        SpanMs::days(Self::SOLO_DAYS as i64)
    }

    /// The one offset in which this cluster counts days and hours.
    pub const fn utc_offset(&self) -> UtcOffset {
        self.utc_offset
    }

    /// The largest `uint2` value that is granted.
    pub const fn uint2_max(&self) -> u16 {
        self.uint2_max
    }

    /// The first instant at which a value promised until `until` may have another holder: after the end of its last
    /// day, and a day of rest.
    pub fn reuse_at(&self, until: WallMs) -> WallMs {
        self.utc_offset.day_ceil(until) + self.grace()
    }
}

impl Default for ClusterParameters {
    /// The parameters of a cluster of which nothing else is said.
    fn default() -> Self {
        let (lease_days, uint2_max) = (Self::LEASE_DAYS_DEFAULT, Self::UINT2_MAX_DEFAULT);
        Self { lease_days, utc_offset: UtcOffset::default(), uint2_max }
    }
}

// A lone master can always give a full lease: a permit shorter than a lease would cut renewals short.
const _: () = assert!(ClusterParameters::SOLO_DAYS >= 30);

impl From<ClusterParameters> for RawParameters {
    fn from(parameters: ClusterParameters) -> Self {
        Self {
            lease_days: parameters.lease_days,
            grace_days: ClusterParameters::GRACE_DAYS,
            solo_days: ClusterParameters::SOLO_DAYS,
            budget: ClusterParameters::BUDGET,
            utc_offset_minutes: parameters.utc_offset.minutes(),
            uint2_max: parameters.uint2_max,
        }
    }
}

impl TryFrom<RawParameters> for ClusterParameters {
    type Error = ParametersError;
    fn try_from(raw: RawParameters) -> Result<Self, ParametersError> {
        if raw.grace_days != Self::GRACE_DAYS || raw.solo_days != Self::SOLO_DAYS || raw.budget != Self::BUDGET {
            return Err(ParametersError::Constants);
        }
        let offset = UtcOffset::from_minutes(raw.utc_offset_minutes).ok_or(ParametersError::Constants)?;
        Self::new(raw.lease_days, offset, raw.uint2_max)
    }
}

impl fmt::Display for ClusterParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "leases of {} d, UTC offset {}, uint2 up to {}", self.lease_days, self.utc_offset, self.uint2_max)
    }
}

/// One of the two masters. The odd values are at home with master 1, the even ones with master 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MasterId {
    /// The master that is started with `--id 1`.
    One,
    /// The master that is started with `--id 2`.
    Two,
}

impl MasterId {
    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Self::One => Self::Two,
            Self::Two => Self::One,
        }
    }

    /// 1 or 2.
    pub const fn number(self) -> u8 {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }

    /// The master with this number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::One),
            2 => Some(Self::Two),
            _ => None,
        }
    }
}

impl fmt::Display for MasterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }
    };
}

random_id!(
    /// One unbroken line of one agent's serial file: drawn at each fresh start, continued only by a process that
    /// proved that nobody but itself touched the file since.
    SessionId
);
random_id!(
    /// A cluster: drawn by master 1 when it is formatted, taken over by master 2 when they first meet.
    ClusterId
);
random_id!(
    /// One pairing of two masters; a replacement starts another, and messages of the former are refused.
    EpochId
);

/// The first half of the id of a cluster that is one process alone, for trying. Those of others are random, so one in 2^64 begins so.
const FOR_TRYING: u128 = (u64::from_be_bytes(*b"uniq-dev") as u128) << 64;

impl ClusterId {
    /// The id of a cluster for trying, with a random second half.
    pub const fn for_trying(random: u64) -> Self {
        Self(FOR_TRYING | random as u128)
    }

    /// Tells whether it is a cluster for trying.
    pub const fn is_for_trying(self) -> bool {
        self.0 >> 64 == FOR_TRYING >> 64
    }
}

/// A text that is not a cluster's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a cluster is 32 hexadecimal digits")]
pub struct ClusterIdError;

impl FromStr for ClusterId {
    type Err = ClusterIdError;
    /// Reads the form that is displayed: 32 hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, ClusterIdError> {
        if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(ClusterIdError);
        }
        u128::from_str_radix(text, 16).map(Self).map_err(|_| ClusterIdError)
    }
}

impl SessionId {
    /// The number of its 32 digits that people are shown.
    pub const SHOWN_DIGITS: usize = 12;

    /// The form in which it is shown and logged: its first [`Self::SHOWN_DIGITS`] digits, enough to tell two of them
    /// apart. The other 80 bits are what proves to a master who holds a lease, so no page, list or answer tells them.
    pub fn shown(self) -> String {
        let mut digits = self.to_string();
        digits.truncate(Self::SHOWN_DIGITS);
        digits
    }
}

/// The name of an agent, as its operator gave it: 1..=64 of `A-Z a-z 0-9 . _ : -`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AgentId(String);

/// A text that is not an agent name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an agent's name has 1 to {} characters of A-Z a-z 0-9 . _ : -", AgentId::LEN_MAX)]
pub struct AgentIdError;

impl AgentId {
    /// The longest name, in bytes.
    pub const LEN_MAX: usize = 64;

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for AgentId {
    type Error = AgentIdError;
    fn try_from(name: String) -> Result<Self, AgentIdError> {
        let fine = |b: u8| b.is_ascii_alphanumeric() || b"._:-".contains(&b);
        if name.is_empty() || name.len() > Self::LEN_MAX || !name.bytes().all(fine) {
            return Err(AgentIdError);
        }
        Ok(Self(name))
    }
}

impl FromStr for AgentId {
    type Err = AgentIdError;
    fn from_str(name: &str) -> Result<Self, AgentIdError> {
        name.to_owned().try_into()
    }
}

impl From<AgentId> for String {
    fn from(id: AgentId) -> Self {
        id.0
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::DAY_MS;

    #[test]
    fn lease_days_are_1_to_30() {
        for days in [0, 31, 255] {
            assert_eq!(ClusterParameters::new(days, UtcOffset::default(), 4095), Err(ParametersError::LeaseDays(days)));
        }
        for days in [1, 7, 30] {
            assert_eq!(
                ClusterParameters::new(days, UtcOffset::default(), 4095).unwrap().lease(),
                SpanMs(i64::from(days) * DAY_MS)
            );
        }
    }

    #[test]
    fn a_value_rests_to_the_end_of_its_last_day_and_one_more() {
        let parameters = ClusterParameters::new(7, UtcOffset::default(), 4095).unwrap();
        assert_eq!(parameters.reuse_at(WallMs(DAY_MS)), WallMs(2 * DAY_MS));
        assert_eq!(parameters.reuse_at(WallMs(DAY_MS + 1)), WallMs(3 * DAY_MS));
    }

    #[test]
    fn a_cluster_for_trying_is_told_from_all_others() {
        assert!([0, 7, u64::MAX].into_iter().all(|random| ClusterId::for_trying(random).is_for_trying()));
        assert_ne!(ClusterId::for_trying(1), ClusterId::for_trying(2));
        assert!([0, 1, u128::MAX, FOR_TRYING >> 64].into_iter().all(|other| !ClusterId(other).is_for_trying()));
    }

    #[test]
    fn a_session_is_shown_by_its_beginning() {
        let session = SessionId(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        assert_eq!(session.shown(), "0123456789ab");
        assert_eq!(SessionId(7).shown(), "000000000000");
    }

    #[test]
    fn agent_names_cannot_carry_markup_or_newlines() {
        for bad in ["", "a b", "<b>", "a\nb", "é", &"x".repeat(65)] {
            assert!(bad.parse::<AgentId>().is_err(), "{bad:?}");
        }
        assert!("host-1.example:6200".parse::<AgentId>().is_ok());
    }
}
