//! The time in an ID, by the tables in docs/start/choosing.md and docs/use/layouts.md, and not by what wrote them: the oracles go by it.

use common::calendar::Civil;
use common::layout::LayoutSpec;
use common::time::WallMs;
use std::time::UNIX_EPOCH;

/// The hour that a Uniq64 carries.
pub fn uniq64(id: u64) -> Civil {
    Civil {
        year: 2000 + (id >> 57) as i32,
        month: (id >> 53 & 0xf) as u8,
        day: (id >> 48 & 0x1f) as u8,
        hour: (id >> 43 & 0x1f) as u8,
        minute: 0,
        second: 0,
        millisecond: 0,
    }
}

/// The serial of a Uniq64.
pub fn serial64(id: u64) -> u64 {
    id & 0x7fff_ffff
}

/// The value of a field of a number of a layout, by its fields as a person reads them; the parts of one in pieces come together.
fn field(said: &LayoutSpec, id: u128, wanted: &str) -> Option<u64> {
    let (mut above, mut value) = (said.bits?, None);
    for (name, bits) in said.fields.iter().flatten().filter_map(|field| field.split_once(':')) {
        let bits: u32 = bits.split('=').next()?.parse().ok()?;
        above -= bits;
        if name == wanted {
            value = Some(value.unwrap_or(0) << bits | (id >> above) as u64 & ((1 << bits) - 1));
        }
    }
    value
}

/// The tick, the token and the serial of a number of a layout. The tick is 0 by a calendar.
pub fn by_layout(said: &LayoutSpec, id: u128) -> (u64, u64, u64) {
    let of = |name| field(said, id, name).unwrap_or(0);
    (of("time"), of("token"), of("serial"))
}

/// The instant at which a tick of a layout begins.
pub fn by_ticks(said: &LayoutSpec, tick: u64) -> Option<WallMs> {
    let epoch = humantime::parse_rfc3339(said.epoch.as_deref()?).ok()?.duration_since(UNIX_EPOCH).ok()?;
    let after = u64::from(said.unit_ms?) * tick;
    Some(WallMs(i64::try_from(epoch.as_millis()).ok()? + i64::try_from(after).ok()?))
}

/// The time in a number of a layout with a calendar.
pub fn by_calendar(said: &LayoutSpec, id: u128) -> Option<Civil> {
    let of = |name| field(said, id, name);
    Some(Civil {
        year: 2000 + of("year")? as i32,
        month: of("month")? as u8,
        day: of("day")? as u8,
        hour: of("hour").unwrap_or(0) as u8,
        minute: of("minute").unwrap_or(0) as u8,
        second: 0,
        millisecond: 0,
    })
}

/// The millisecond that a Uniq96 carries, of its upper 64 bits.
pub fn uniq96(high: u64) -> Civil {
    Civil {
        year: 2000 + (high >> 52) as i32,
        month: (high >> 48 & 0xf) as u8,
        day: (high >> 43 & 0x1f) as u8,
        hour: (high >> 38 & 0x1f) as u8,
        minute: (high >> 32 & 0x3f) as u8,
        second: (high >> 26 & 0x3f) as u8,
        millisecond: (high >> 16 & 0x3ff) as u16,
    }
}
