//! Layouts that people already run, bit for bit as their originals, and one for JavaScript.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::{Field, InvalidLayout, Layout};
use crate::digits::shown;
use crate::time::WallMs;
use std::fmt;
use std::str::FromStr;

/// A layout with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preset {
    /// Twitter's: 41 bits of milliseconds, 10 of token, 12 of serial.
    Snowflake,
    /// Leaf's, which is snowflake's with the same epoch.
    Leaf,
    /// UidGenerator's: 28 bits of seconds, 22 of token, 13 of serial. Its own epoch was over in November 2024, so it needs another.
    UidGenerator,
    /// Sonyflake's: 39 bits of 10 ms, 8 of serial, 16 of token.
    Sonyflake,
    /// Instagram's: 41 bits of milliseconds, 13 of token (there a shard), 10 of serial.
    Instagram,
    /// Discord's: 42 bits of milliseconds, 10 of token (there worker and process), 12 of serial.
    Discord,
    /// Numbers below 2^53, which JavaScript and JSON hold exactly: 35 bits of 100 ms, 8 of token, 10 of serial.
    Js53,
    /// UUIDs of version 7 (RFC 9562): 48 bits of milliseconds, a serial where the RFC has its counter (6.2, method 1), then the
    /// token, the rest random.
    Uuid7,
    /// ULIDs: 48 bits of milliseconds, a serial, the token, the rest random.
    Ulid,
    /// TypeIDs: UUIDs of version 7, written in base 32 behind a prefix.
    TypeId,
    /// MongoDB's: 32 bits of seconds, 40 in which a process is told from others (here the token), 24 that count.
    ObjectId,
    /// Xids: the same bits as of an ObjectId, written in base 32.
    Xid,
    /// KSUIDs: 32 bits of seconds, of the 128 behind them the upper 96 with a serial, the token and what is random.
    Ksuid,
}

/// What a preset is.
struct Given {
    name: &'static str,
    bits: u32,
    epoch: i64,
    unit_ms: u32,
    fields: &'static [&'static str],
}

/// 2010-11-04T01:42:54.657Z, when Twitter began.
const TWITTER_EPOCH: i64 = 1_288_834_974_657;

const fn given(name: &'static str, bits: u32, epoch: i64, unit_ms: u32, fields: &'static [&'static str]) -> Given {
    Given { name, bits, epoch, unit_ms, fields }
}

impl Preset {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 13] = [
        Self::Snowflake,
        Self::Leaf,
        Self::UidGenerator,
        Self::Sonyflake,
        Self::Instagram,
        Self::Discord,
        Self::Js53,
        Self::Uuid7,
        Self::Ulid,
        Self::TypeId,
        Self::ObjectId,
        Self::Xid,
        Self::Ksuid,
    ];

    const fn given(self) -> Given {
        let snowflake = &["zero:1", "time:41", "token:10", "serial:12"];
        let uuid7 = &["time:48", "const:4=7", "serial:12", "const:2=2", "serial:14", "token:16", "random:32"];
        let object_id = &["time:32", "zero:24", "token:16", "serial:24"];
        match self {
            Self::Snowflake => given("snowflake", 64, TWITTER_EPOCH, 1, snowflake),
            Self::Leaf => given("leaf", 64, TWITTER_EPOCH, 1, snowflake),
            // 2016-05-20 in China.
            Self::UidGenerator => {
                given("uidgenerator", 64, 1_463_673_600_000, 1_000, &["zero:1", "time:28", "token:22", "serial:13"])
            }
            // 2014-09-01.
            Self::Sonyflake => {
                given("sonyflake", 64, 1_409_529_600_000, 10, &["zero:1", "time:39", "serial:8", "token:16"])
            }
            // 2011-08-24T21:07:01.721Z.
            Self::Instagram => given("instagram", 64, 1_314_220_021_721, 1, &["time:41", "token:13", "serial:10"]),
            // 2015-01-01.
            Self::Discord => given("discord", 64, 1_420_070_400_000, 1, &["time:42", "token:10", "serial:12"]),
            // 2024-01-01.
            Self::Js53 => given("js53", 53, 1_704_067_200_000, 100, &["time:35", "token:8", "serial:10"]),
            Self::Uuid7 => given("uuid7", 128, 0, 1, uuid7),
            Self::Ulid => given("ulid", 128, 0, 1, &["time:48", "serial:26", "token:16", "random:38"]),
            Self::TypeId => given("typeid", 128, 0, 1, uuid7),
            Self::ObjectId => given("objectid", 96, 0, 1_000, object_id),
            Self::Xid => given("xid", 96, 0, 1_000, object_id),
            // 2014-05-13T16:53:20Z.
            Self::Ksuid => {
                given("ksuid", 128, 1_400_000_000_000, 1_000, &["time:32", "serial:32", "token:16", "random:48"])
            }
        }
    }

    /// The name in definitions.
    pub const fn name(self) -> &'static str {
        self.given().name
    }

    /// Its own epoch.
    pub const fn epoch(self) -> WallMs {
        WallMs(self.given().epoch)
    }

    /// The layout.
    ///
    /// # Errors
    /// None of those that there are is refused, which a test shows.
    pub fn layout(self) -> Result<Layout, InvalidLayout> {
        let Given { bits, epoch, unit_ms, fields, .. } = self.given();
        let fields = fields.iter().map(|field| field.parse::<Field>()).collect::<Result<Vec<_>, _>>()?;
        Layout::new(bits, WallMs(epoch), unit_ms, fields)
    }

    /// The preset that this layout is, if it is one but for its epoch.
    pub fn of(layout: &Layout) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| {
            let Ok(own) = preset.layout() else { return false };
            (own.bits(), own.unit(), own.fields()) == (layout.bits(), layout.unit(), layout.fields())
        })
    }
}

impl FromStr for Preset {
    type Err = InvalidLayout;
    fn from_str(name: &str) -> Result<Self, InvalidLayout> {
        let found = Self::ALL.into_iter().find(|preset| preset.name() == name);
        found.ok_or_else(|| InvalidLayout::UnknownPreset(shown(name)))
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
