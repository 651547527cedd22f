//! Layouts of numbers: which bits are the time, which the token, which count, given as data.
//!
//! A layout is made of fields of fixed width, the most significant first, e.g. snowflake's
//! `zero:1 time:41 token:10 serial:12` in 64 bits:
//!
//! | field | what stands there |
//! |---|---|
//! | `zero:N` | nothing: N bits 0, e.g. the sign of a signed integer |
//! | `const:N=V` | N bits that are always V |
//! | `time:N` | ticks since the epoch; a tick is a unit of 1 ms or more that divides a day |
//! | `token:N` | the leased token |
//! | `serial:N` | what counts within tick and token |
//! | `random:N` | bits that say nothing |
//!
//! Time, token and serial make a number unique: the token has one holder, who uses a tick and a serial once. What is constant or
//! random adds nothing to that, so a layout without one of the three is refused. A field may stand in several pieces, as a
//! UUID's version stands between them; the first piece has the most significant bits. Pieces that continue each other are one
//! field, however they are written, and constants side by side are one constant: two layouts are equal if they write all numbers alike.
//!
//! Times are UTC, whatever the cluster's offset is: those who take such a number apart know of none. But a layout may have a [`Calendar`]
//! where others have one field `time`, e.g. `year:7 month:4 day:5 hour:5`: its ticks are counted from 1970 on in the cluster's offset, so
//! whoever asks for the tick of an instant hands over [the local one](crate::calendar::UtcOffset::to_local).

mod calendar;
mod definition;
mod field;
mod numbers;
mod presets;
mod random;
mod spread;
mod ticks;

pub use calendar::{Calendar, Unit, YEAR_FIRST};
pub use definition::{AHEAD_MAX_DEFAULT, AHEAD_MAX_LIMIT, InvalidDefinition, LayoutDefinition, TICK_MAX};
pub use field::{Field, FieldError, Part};
pub use numbers::{Mixed, Narrow, Numbers, Stretch, Wide};
pub use presets::Preset;
pub use random::{RANDOM_KEY_LEN, RandomBits};
pub use spread::Spread;
pub use ticks::{Mark, Ticks};

use crate::calendar::{Civil, UtcOffset};
use crate::digits::shown;
use crate::encoding::EncodingSource;
use crate::plugin::PluginSpec;
use crate::scope::Scope;
use crate::time::{DAY_MS, SECOND_MS, SpanMs, WallMs};
use crate::token::TokenValue;
use field::Placement;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Fields of a layout at most.
pub const FIELDS_MAX: usize = 16;
/// The widths that there are, in bits: what JavaScript counts to, a signed and an unsigned integer, Uniq96's, a UUID's.
pub const WIDTHS: [u32; 5] = [53, 63, 64, 96, 128];
/// The most bits that a token has.
pub const TOKEN_BITS_MAX: u32 = 32;
/// The most bits that a serial has, so that a tick and a serial can be counted as one number.
pub const SERIAL_BITS_MAX: u32 = 32;
/// The most bits that a time has: in milliseconds beyond the calendar's end.
pub const TIME_BITS_MAX: u32 = 48;
/// IDs a second that a layout gives with one token at least.
pub const SERIALS_PER_SECOND_MIN: u64 = 100;
/// Time until the end of a layout at least.
pub const LIFE_MIN: SpanMs = SpanMs::days(365);

/// A definition of a layout as a person writes it: the name of a preset, perhaps with an epoch of one's own, or all of the fields; what is
/// left out is as usual.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct LayoutSpec {
    /// The name of a preset, such as `snowflake`, `hour53`, `uuid7` or `ulid` (docs/use/layouts.md has them all); without it, `bits`, `epoch`,
    /// `unit_ms` and `fields`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// Width of the number in bits: 53, 63, 64, 96 or 128.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits: Option<u32>,
    /// The instant that the time counts from, RFC 3339. A preset has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<String>,
    /// The length of a tick in milliseconds; it divides a day. At most an hour, or a day by a calendar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit_ms: Option<u32>,
    /// The fields, the most significant first, e.g. `zero:1`, `time:41`, `token:10`, `serial:12`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<String>>,
    /// Distance that the time in an ID may lie ahead of the clock when a tick is used up, in milliseconds, 0 to 10,000;
    /// 0 waits for the clock. A second, or a tick if that is longer, when nothing is said. Only for ticks of at most 10 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead_max_ms: Option<u32>,
    /// Begins the serials of a tick at one of so many places, which changes from tick to tick, so that `id % spread` is even where a tick
    /// gives few IDs. For layouts whose lowest bits are the serial's: 2 to half of the IDs of a tick, and no more than the lowest piece of
    /// the serial counts; without it they begin with 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<u32>,
    /// Form in which its numbers are written: `decimal`, `hex`, `base32`, `base32hex`, `base62`, `uuid`, `ksuid`, `sqids`, or one of them with
    /// parameters; or `{"form":"strategy","strategy":"NAME"}`, by a strategy that an application registers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub encoding: Option<EncodingSource>,
    /// The name of the token type; the widest one whose values it can write if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_type: Option<String>,
    /// Among which IDs its own are unique: `kind` (the default), so that no other name of this kind gives equal ones, or `own`: others may. With ticks of
    /// more than 10 s it is `own`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub scope: Option<Scope>,
    /// Plugins around minting by this name: at most 8 objects with `plugin`, perhaps `order`, and what the plugin takes, such
    /// as `{"plugin":"quota","per_second":100}`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<serde_json::Value>))]
    pub plugins: Vec<PluginSpec>,
}

impl LayoutSpec {
    /// A definition of that preset, with everything else as the preset has it.
    pub fn of(preset: impl Into<String>) -> Self {
        Self { layout: Some(preset.into()), ..Self::default() }
    }
}

/// The reason why a layout is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLayout {
    /// A preset that does not exist.
    #[error("'{0}' is not a layout; there are {names}", names = Preset::ALL.map(Preset::name).join(", "))]
    UnknownPreset(String),
    /// A preset with more than an epoch.
    #[error(
        "a preset may be given an epoch and nothing else: leave out {0}, or leave out layout and say bits, epoch, unit_ms and fields"
    )]
    PresetChanged(&'static str),
    /// Neither a preset nor all of the rest.
    #[error("{0} is missing: say the name of a layout, or bits, epoch, unit_ms and fields")]
    Incomplete(&'static str),
    /// Not one of [`WIDTHS`].
    #[error("a number of {0} bits cannot be had: take 53, 63, 64, 96 or 128")]
    Width(u32),
    /// Not an instant, or one before 1970 or in less than milliseconds.
    #[error("'{0}' is not an instant from 1970 on: write it as 2024-01-01T00:00:00Z, with milliseconds at most")]
    Epoch(String),
    /// Fields of a calendar that are none.
    #[error(
        "a calendar is year:N of 1 to 12 bits, month:4, day:5 and, by the hour or the minute, hour:5, minute:6, in this order and side by \
         side, with a unit_ms of 86400000, 3600000 or 60000, and no field time beside it"
    )]
    Calendar,
    /// An epoch of a calendar, which counts from none.
    #[error("a calendar has no epoch of its own: leave epoch out")]
    EpochOfCalendar,
    /// A tick that does not divide a day.
    #[error("a unit of {0} ms does not divide a day: take 1, 10, 100, 1000, or another that does")]
    Unit(u32),
    /// A field that cannot be read.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// More than [`FIELDS_MAX`].
    #[error("{0} fields are too many: at most {FIELDS_MAX}")]
    TooManyFields(usize),
    /// The fields do not fill the number.
    #[error("the fields have {sum} bits, and the number has {bits}")]
    Sum {
        /// Bits of all fields.
        sum: u32,
        /// Bits of the number.
        bits: u32,
    },
    /// Without this field IDs would repeat.
    #[error("the field {0} is missing: without it IDs would repeat")]
    Missing(Part),
    /// More bits than there may be.
    #[error("{part} has {bits} bits: at most {max}")]
    TooWide {
        /// The part.
        part: Part,
        /// Bits in all its pieces.
        bits: u32,
        /// The most that it may have.
        max: u32,
    },
    /// Fewer IDs than [`SERIALS_PER_SECOND_MIN`].
    #[error(
        "a serial of {bits} bits in units of {unit_ms} ms gives an agent {per_second} IDs a second: give it more bits, or \
         take a shorter unit; {SERIALS_PER_SECOND_MIN} are the least"
    )]
    SerialTooSmall {
        /// Bits of the serial.
        bits: u32,
        /// The unit.
        unit_ms: i64,
        /// The number of IDs that a token gives in a second.
        per_second: u64,
    },
    /// The time begins in the future.
    #[error("the epoch {epoch} has not come yet, and a time before it cannot be written")]
    NotYet {
        /// The epoch.
        epoch: WallMs,
    },
    /// The time has ended, or does within a year.
    #[error("its time ends at {end}: give it more bits, a longer unit or a later epoch; a year from now is the least")]
    EndsSoon {
        /// The first instant that does not fit.
        end: WallMs,
    },
}

/// A layout whose fields fit each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    bits: u32,
    epoch: WallMs,
    unit: SpanMs,
    /// The ticks that can be written.
    ticks: Range<u64>,
    /// The calendar that they are written by, if they are not numbers.
    calendar: Option<Calendar>,
    fields: Vec<Field>,
    /// The bits of the constants.
    fixed: u128,
    /// The places of the constants' bits, 0 or not.
    fixed_mask: u128,
    time: Placement,
    token: Placement,
    serial: Placement,
    random: Placement,
}

/// A number taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Ticks since the epoch.
    pub tick: u64,
    /// Begin of the tick; by a calendar [the local instant](crate::calendar::UtcOffset::to_local).
    pub time: WallMs,
    /// The token.
    pub token: TokenValue,
    /// Its number within tick and token.
    pub serial: u32,
    /// The random bits, 0 if there are none.
    pub random: u128,
}

impl Layout {
    /// The layout that is `said`.
    ///
    /// # Errors
    /// [`InvalidLayout`], with the reason. Whether its time has come and lasts is another question: [`check_life`](Self::check_life).
    pub fn of(said: &LayoutSpec) -> Result<Self, InvalidLayout> {
        let LayoutSpec { layout, bits, epoch, unit_ms, fields, .. } = said;
        let epoch = epoch.as_deref().map(read_epoch).transpose()?;
        if let Some(name) = layout {
            for (said, what) in [(bits.is_some(), "bits"), (unit_ms.is_some(), "unit_ms"), (fields.is_some(), "fields")]
            {
                if said {
                    return Err(InvalidLayout::PresetChanged(what));
                }
            }
            let preset: Preset = name.parse()?;
            return preset.layout_since(epoch.unwrap_or(preset.epoch()));
        }
        let bits = bits.ok_or(InvalidLayout::Incomplete("bits"))?;
        let unit_ms = unit_ms.ok_or(InvalidLayout::Incomplete("unit_ms"))?;
        let fields = fields.as_ref().ok_or(InvalidLayout::Incomplete("fields"))?;
        if fields.len() > FIELDS_MAX {
            return Err(InvalidLayout::TooManyFields(fields.len()));
        }
        let fields = fields.iter().map(|field| field.parse()).collect::<Result<Vec<Field>, _>>()?;
        let has_calendar = fields.iter().any(|field| matches!(field.part, Part::Calendar(_)));
        let epoch = epoch.or(has_calendar.then_some(WallMs(0))).ok_or(InvalidLayout::Incomplete("epoch"))?;
        Self::new(bits, epoch, unit_ms, fields)
    }

    /// A layout of these fields, the most significant first.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn new(bits: u32, epoch: WallMs, unit_ms: u32, fields: Vec<Field>) -> Result<Self, InvalidLayout> {
        if !WIDTHS.contains(&bits) {
            return Err(InvalidLayout::Width(bits));
        }
        let unit = SpanMs(unit_ms.into());
        if unit.0 == 0 || DAY_MS % unit.0 != 0 {
            return Err(InvalidLayout::Unit(unit_ms));
        }
        if fields.len() > FIELDS_MAX {
            return Err(InvalidLayout::TooManyFields(fields.len()));
        }
        let sum = fields.iter().map(|field| field.bits).sum();
        if sum != bits {
            return Err(InvalidLayout::Sum { sum, bits });
        }
        let layout = Self::placed(bits, epoch, unit, fields);
        let layout = match Calendar::of(&layout.fields, unit)? {
            Some(_) if epoch != WallMs(0) => return Err(InvalidLayout::EpochOfCalendar),
            Some(calendar) => layout.written_by(calendar),
            None => layout,
        };
        for (part, bits, max) in [
            (Part::Time, layout.time.bits(), TIME_BITS_MAX),
            (Part::Token, layout.token.bits(), TOKEN_BITS_MAX),
            (Part::Serial, layout.serial.bits(), SERIAL_BITS_MAX),
        ] {
            if bits == 0 {
                return Err(InvalidLayout::Missing(part));
            }
            if bits > max {
                return Err(InvalidLayout::TooWide { part, bits, max });
            }
        }
        let per_second = layout.serials_per_second();
        if per_second < SERIALS_PER_SECOND_MIN {
            return Err(InvalidLayout::SerialTooSmall { bits: layout.serial.bits(), unit_ms: unit.0, per_second });
        }
        Ok(layout)
    }

    /// A layout of a calendar, a token and a serial, from the most significant bit on.
    pub(crate) fn by_calendar(calendar: Calendar, token_bits: u32, serial_bits: u32) -> Self {
        let behind = [(Part::Token, token_bits), (Part::Serial, serial_bits)].map(|(part, bits)| Field { part, bits });
        let fields: Vec<_> = calendar.fields().chain(behind).collect();
        let bits = fields.iter().map(|field| field.bits).sum();
        Self::placed(bits, WallMs(0), calendar.unit(), fields).written_by(calendar)
    }

    fn written_by(self, calendar: Calendar) -> Self {
        Self { ticks: calendar.ticks(), calendar: Some(calendar), ..self }
    }

    /// The fields in their places, whether they go together or not.
    fn placed(bits: u32, epoch: WallMs, unit: SpanMs, fields: Vec<Field>) -> Self {
        // Before anything is compared: how a person cuts a field says nothing of the numbers.
        let fields = field::joined(&fields);
        let (mut fixed, mut fixed_mask, mut above) = (0, 0, bits);
        let mut placed = [Part::Time, Part::Token, Part::Serial, Part::Random].map(|part| (part, Placement::default()));
        // From the most significant one down; each ends where the one before began.
        for field in &fields {
            above -= field.bits;
            if let Part::Const(value) = field.part {
                fixed |= u128::from(value) << above;
                fixed_mask |= field::mask(field.bits) << above;
            }
            let place = if let Part::Calendar(_) = field.part { Part::Time } else { field.part };
            for (_, placement) in placed.iter_mut().filter(|(part, _)| *part == place) {
                placement.add_below(field.bits, above);
            }
        }
        let [(_, time), (_, token), (_, serial), (_, random)] = placed;
        let ticks = 0..1u64.checked_shl(time.bits()).unwrap_or(u64::MAX);
        Self { bits, epoch, unit, ticks, calendar: None, fields, fixed, fixed_mask, time, token, serial, random }
    }

    /// Checks that its time has begun, and goes on for a year from `now` at least.
    ///
    /// # Errors
    /// [`InvalidLayout::NotYet`], [`InvalidLayout::EndsSoon`].
    pub fn check_life(&self, now: WallMs) -> Result<(), InvalidLayout> {
        if now < self.epoch {
            return Err(InvalidLayout::NotYet { epoch: self.epoch });
        }
        if self.end() - now < LIFE_MIN {
            return Err(InvalidLayout::EndsSoon { end: self.end() });
        }
        Ok(())
    }

    /// The width of its numbers, in bits.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The instant that ticks are counted from.
    pub fn epoch(&self) -> WallMs {
        self.epoch
    }

    /// The length of a tick.
    pub fn unit(&self) -> SpanMs {
        self.unit
    }

    /// The fields, the most significant first, none continued by the next.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// IDs that one token has in one tick.
    pub fn serials_per_tick(&self) -> u64 {
        1 << self.serial.bits()
    }

    /// IDs that one token has in a second.
    pub fn serials_per_second(&self) -> u64 {
        let second = u64::try_from(SECOND_MS).unwrap_or(1);
        let unit = u64::try_from(self.unit.0).unwrap_or(1).max(1);
        self.serials_per_tick().saturating_mul(second) / unit
    }

    /// Counts the tokens: as many agents can mint it at once.
    pub fn tokens(&self) -> u64 {
        1 << self.token.bits()
    }

    /// Bits of the token.
    pub fn token_bits(&self) -> u32 {
        self.token.bits()
    }

    /// Counts the random bits.
    pub fn random_bits(&self) -> u32 {
        self.random.bits()
    }

    /// The first instant that does not fit.
    pub fn end(&self) -> WallMs {
        self.starts_at(self.ticks.end)
    }

    /// The calendar that its ticks are written by, if they are not numbers.
    pub fn calendar(&self) -> Option<&Calendar> {
        self.calendar.as_ref()
    }

    /// Bits of the serial.
    pub fn serial_bits(&self) -> u32 {
        self.serial.bits()
    }

    /// Tells whether a larger number is never an earlier tick: everything above the last bit of the time is constant.
    pub fn sorts_by_time(&self) -> bool {
        [&self.token, &self.serial, &self.random].iter().all(|other| other.end() <= self.time.lowest())
    }

    /// Tells whether every number is below 2^53, where JavaScript still counts exactly.
    pub fn is_safe_for_javascript(&self) -> bool {
        let all = |placement: &Placement| placement.put(u128::MAX);
        let ones = self.fixed | all(&self.time) | all(&self.token) | all(&self.serial) | all(&self.random);
        ones >> 53 == 0
    }

    /// The tick in which `at` lies; `None` before the epoch and where it does not fit any more.
    #[inline]
    pub fn tick(&self, at: WallMs) -> Option<u64> {
        let since = u64::try_from((at - self.epoch).0).ok()?;
        // A division costs as much as all the rest.
        let tick = if self.unit.0 == 1 { since } else { since / u64::try_from(self.unit.0).ok()? };
        self.ticks.contains(&tick).then_some(tick)
    }

    /// The instant at which a tick begins.
    pub fn starts_at(&self, tick: u64) -> WallMs {
        self.epoch + SpanMs(self.unit.0.saturating_mul(i64::try_from(tick).unwrap_or(i64::MAX)))
    }

    /// Tells whether that token can be written.
    #[inline]
    pub fn admits(&self, token: TokenValue) -> bool {
        u64::from(token.0) < self.tokens()
    }

    /// The number of that tick and token whose serial is 0 and whose random bits are. `None` if one of them does not fit.
    #[inline]
    pub fn prefix(&self, tick: u64, token: TokenValue) -> Option<u128> {
        if !self.ticks.contains(&tick) || !self.admits(token) {
            return None;
        }
        let time = match &self.calendar {
            None => tick,
            Some(calendar) => calendar.pack(tick)?,
        };
        Some(self.fixed | self.time.put(time.into()) | self.token.put(token.0.into()))
    }

    /// The [`prefix`](Self::prefix) of the tick in which an instant lies, in a cluster of that offset.
    #[inline]
    pub fn prefix_at(&self, offset: UtcOffset, at: WallMs, token: TokenValue) -> Option<u128> {
        self.prefix(self.ticks(offset).number(at)?, token)
    }

    /// A [`prefix`](Self::prefix) with that serial, and with the lowest of those random bits. What is too large is cut off: the
    /// caller counts up to [`serials_per_tick`](Self::serials_per_tick).
    #[inline]
    pub fn fill(&self, prefix: u128, serial: u32, random: u128) -> u128 {
        prefix | self.serial.put(serial.into()) | self.random.put(random)
    }

    /// The date that stands in a number by a calendar, which may be none that exists.
    pub fn civil(&self, id: u128) -> Option<Civil> {
        Some(self.calendar.as_ref()?.unpack(u64::try_from(self.time.get(id)).ok()?))
    }

    /// The parts of a number. `None` if it is not of this layout: too large, something else stands where it is constant, or a date
    /// that does not exist.
    pub fn parts(&self, id: u128) -> Option<Parts> {
        if id & !field::mask(self.bits) != 0 || id & self.fixed_mask != self.fixed {
            return None;
        }
        let tick = match &self.calendar {
            None => u64::try_from(self.time.get(id)).ok()?,
            Some(calendar) => calendar.tick(&self.civil(id)?)?,
        };
        Some(Parts {
            tick,
            time: self.starts_at(tick),
            token: TokenValue(u32::try_from(self.token.get(id)).ok()?),
            serial: u32::try_from(self.serial.get(id)).ok()?,
            random: self.random.get(id),
        })
    }

    /// The beginning of a tick as it stands in a number: by a calendar without a zone, which the number does not say, and as far as it goes.
    pub(crate) fn time_text(&self, time: WallMs) -> String {
        let mut text = time.to_string();
        if self.calendar.is_some() {
            text.truncate(if self.unit.0 < SECOND_MS {
                "2026-11-20T13:05:06.999".len()
            } else {
                "2026-11-20T13:00:00".len()
            });
        }
        text
    }

    /// The layout as a person writes it, with nothing left out.
    pub fn spec(&self) -> LayoutSpec {
        LayoutSpec {
            bits: Some(self.bits),
            epoch: Some(self.epoch.to_string()),
            unit_ms: u32::try_from(self.unit.0).ok(),
            fields: Some(self.fields.iter().map(Field::to_string).collect()),
            ..LayoutSpec::default()
        }
    }
}

fn read_epoch(text: &str) -> Result<WallMs, InvalidLayout> {
    let refuse = || InvalidLayout::Epoch(shown(text));
    let read = chrono::DateTime::parse_from_rfc3339(text).map_err(|_| refuse())?;
    let ms = read.timestamp_millis();
    if ms < 0 || read.timestamp_subsec_nanos() % 1_000_000 != 0 {
        return Err(refuse());
    }
    Ok(WallMs(ms))
}

#[cfg(test)]
mod tests;
