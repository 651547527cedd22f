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
            Self::Snowflake => {
                Given { name: "snowflake", bits: 64, epoch: TWITTER_EPOCH, unit_ms: 1, fields: snowflake }
            }
            Self::Leaf => Given { name: "leaf", bits: 64, epoch: TWITTER_EPOCH, unit_ms: 1, fields: snowflake },
            Self::UidGenerator => Given {
                name: "uidgenerator",
                bits: 64,
                // 2016-05-20 in China.
                epoch: 1_463_673_600_000,
                unit_ms: 1_000,
                fields: &["zero:1", "time:28", "token:22", "serial:13"],
            },
            Self::Sonyflake => Given {
                name: "sonyflake",
                bits: 64,
                // 2014-09-01.
                epoch: 1_409_529_600_000,
                unit_ms: 10,
                fields: &["zero:1", "time:39", "serial:8", "token:16"],
            },
            Self::Instagram => Given {
                name: "instagram",
                bits: 64,
                // 2011-08-24T21:07:01.721Z.
                epoch: 1_314_220_021_721,
                unit_ms: 1,
                fields: &["time:41", "token:13", "serial:10"],
            },
            Self::Discord => Given {
                name: "discord",
                bits: 64,
                // 2015-01-01.
                epoch: 1_420_070_400_000,
                unit_ms: 1,
                fields: &["time:42", "token:10", "serial:12"],
            },
            Self::Js53 => Given {
                name: "js53",
                bits: 53,
                // 2024-01-01.
                epoch: 1_704_067_200_000,
                unit_ms: 100,
                fields: &["time:35", "token:8", "serial:10"],
            },
            Self::Uuid7 => Given { name: "uuid7", bits: 128, epoch: 0, unit_ms: 1, fields: uuid7 },
            Self::TypeId => Given { name: "typeid", bits: 128, epoch: 0, unit_ms: 1, fields: uuid7 },
            Self::ObjectId => Given { name: "objectid", bits: 96, epoch: 0, unit_ms: 1_000, fields: object_id },
            Self::Xid => Given { name: "xid", bits: 96, epoch: 0, unit_ms: 1_000, fields: object_id },
            Self::Ksuid => Given {
                name: "ksuid",
                bits: 128,
                // 2014-05-13T16:53:20Z.
                epoch: 1_400_000_000_000,
                unit_ms: 1_000,
                fields: &["time:32", "serial:32", "token:16", "random:48"],
            },
            Self::Ulid => Given {
                name: "ulid",
                bits: 128,
                epoch: 0,
                unit_ms: 1,
                fields: &["time:48", "serial:26", "token:16", "random:38"],
            },
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
