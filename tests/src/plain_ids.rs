//! The time in an ID, by the tables in docs/start/choosing.md and docs/use/layouts.md, and not by what wrote them: the oracles go by it.

use common::calendar::Civil;
use common::layout::LayoutSpec;

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

/// The tick, the token and the serial of a number of a layout, by its fields as a person reads them.
pub fn by_layout(said: &LayoutSpec, id: u128) -> (u64, u64, u64) {
    let (mut above, mut parts) = (said.bits.unwrap_or(0), (0, 0, 0));
    for (name, bits) in said.fields.iter().flatten().filter_map(|field| field.split_once(':')) {
        let bits: u32 = bits.split('=').next().and_then(|bits| bits.parse().ok()).unwrap_or(0);
        above -= bits;
        let value = (id >> above) as u64 & ((1 << bits) - 1);
        match name {
            "time" => parts.0 = parts.0 << bits | value,
            "token" => parts.1 = parts.1 << bits | value,
            "serial" => parts.2 = parts.2 << bits | value,
            _ => {}
        }
    }
    parts
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
