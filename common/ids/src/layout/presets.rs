//! Layouts that people already run, bit for bit as their originals, and two for JavaScript.

use super::{Field, InvalidLayout, Layout};
use crate::digits::shown;
use crate::encoding::{Case, EncodingForm, EncodingParameters, EncodingSource};
use crate::time::WallMs;
use std::fmt;
use std::str::FromStr;

/// A layout with a name: what it says, and the encoding by which those write its numbers that it comes from.
struct Row {
    name: &'static str,
    bits: u32,
    epoch: i64,
    unit_ms: u32,
    fields: &'static [&'static str],
    form: EncodingForm,
    case: Option<Case>,
}

macro_rules! presets {
    (@case) => { None };
    (@case $case:ident) => { Some(Case::$case) };
    ($($(#[$doc:meta])+ $preset:ident = $name:literal, $bits:literal, $epoch:expr, $unit_ms:literal, $fields:expr, $form:ident $(in $case:ident)?;)+) => {
        /// A layout with a name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Preset {
            $($(#[$doc])+ $preset,)+
        }

        impl Preset {
            /// All of them, in the order in which they are shown.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$preset),+];

            const fn row(self) -> Row {
                match self {
                    $(Self::$preset => Row {
                        name: $name,
                        bits: $bits,
                        epoch: $epoch,
                        unit_ms: $unit_ms,
                        fields: $fields,
                        form: EncodingForm::$form,
                        case: presets!(@case $($case)?),
                    },)+
                }
            }
        }
    };
}

/// 2010-11-04T01:42:54.657Z, when Twitter began.
const TWITTER_EPOCH: i64 = 1_288_834_974_657;
const SNOWFLAKE: &[&str] = &["zero:1", "time:41", "token:10", "serial:12"];
const UUID7: &[&str] = &["time:48", "const:4=7", "serial:12", "const:2=2", "serial:14", "token:16", "random:32"];
const HOUR53: &[&str] = &["year:7", "month:4", "day:5", "hour:5", "token:8", "serial:24"];
const OBJECT_ID: &[&str] = &["time:32", "zero:24", "token:16", "serial:24"];

// The name, bits, epoch and unit in milliseconds, fields, and the encoding.
presets! {
    /// Twitter's: 41 bits of milliseconds, 10 of token, 12 of serial.
    Snowflake = "snowflake", 64, TWITTER_EPOCH, 1, SNOWFLAKE, Decimal;
    /// Leaf's, which is snowflake's with the same epoch.
    Leaf = "leaf", 64, TWITTER_EPOCH, 1, SNOWFLAKE, Decimal;
    /// UidGenerator's: 28 bits of seconds since 2016-05-20 in China, 22 of token, 13 of serial. That epoch was over in November 2024, so
    /// it needs another.
    UidGenerator = "uidgenerator", 64, 1_463_673_600_000, 1_000, &["zero:1", "time:28", "token:22", "serial:13"], Decimal;
    /// Sonyflake's: 39 bits of 10 ms since 2014-09-01, 8 of serial, 16 of token.
    Sonyflake = "sonyflake", 64, 1_409_529_600_000, 10, &["zero:1", "time:39", "serial:8", "token:16"], Decimal;
    /// Instagram's: 41 bits of milliseconds since 2011-08-24T21:07:01.721Z, 13 of token (there a shard), 10 of serial.
    Instagram = "instagram", 64, 1_314_220_021_721, 1, &["time:41", "token:13", "serial:10"], Decimal;
    /// Discord's: 42 bits of milliseconds since 2015-01-01, 10 of token (there worker and process), 12 of serial.
    Discord = "discord", 64, 1_420_070_400_000, 1, &["time:42", "token:10", "serial:12"], Decimal;
    /// Numbers below 2^53, which JavaScript and JSON hold exactly: 35 bits of 100 ms since 2024-01-01, 8 of token, 10 of serial.
    Js53 = "js53", 53, 1_704_067_200_000, 100, &["time:35", "token:8", "serial:10"], Decimal;
    /// Numbers below 2^53 by the hour of a calendar, as Uniq64: 8 bits of token, 24 of serial.
    Hour53 = "hour53", 53, 0, 3_600_000, HOUR53, Decimal;
    /// UUIDs of version 7 (RFC 9562): 48 bits of milliseconds, a serial where the RFC has its counter (6.2, method 1), then the
    /// token, the rest random.
    Uuid7 = "uuid7", 128, 0, 1, UUID7, Uuid;
    /// ULIDs: 48 bits of milliseconds, a serial, the token, the rest random.
    Ulid = "ulid", 128, 0, 1, &["time:48", "serial:26", "token:16", "random:38"], Base32;
    /// TypeIDs: UUIDs of version 7, written in base 32 behind a prefix.
    TypeId = "typeid", 128, 0, 1, UUID7, Base32 in Lower;
    /// MongoDB's: 32 bits of seconds, 40 in which a process is told from others (here the token), 24 that count.
    ObjectId = "objectid", 96, 0, 1_000, OBJECT_ID, Hex;
    /// Xids: the same bits as of an ObjectId, written in base 32.
    Xid = "xid", 96, 0, 1_000, OBJECT_ID, Base32hex;
    /// KSUIDs: 32 bits of seconds since 2014-05-13T16:53:20Z, of the 128 behind them the upper 96 with a serial, the token and what is
    /// random.
    Ksuid = "ksuid", 128, 1_400_000_000_000, 1_000, &["time:32", "serial:32", "token:16", "random:48"], Ksuid;
}

impl Preset {
    /// The name in definitions.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Its own epoch.
    pub const fn epoch(self) -> WallMs {
        WallMs(self.row().epoch)
    }

    /// The encoding of its numbers when nothing else is said.
    pub fn encoding(self) -> EncodingSource {
        let Row { form, case, .. } = self.row();
        EncodingSource::Parameters(EncodingParameters { form, case, ..EncodingParameters::default() }).shortened()
    }

    /// The layout.
    ///
    /// # Errors
    /// The layout's, if it were refused; a test shows that no preset is.
    pub fn layout(self) -> Result<Layout, InvalidLayout> {
        self.layout_since(self.epoch())
    }

    /// The layout with that epoch.
    pub(super) fn layout_since(self, epoch: WallMs) -> Result<Layout, InvalidLayout> {
        let Row { bits, unit_ms, fields, .. } = self.row();
        let fields = fields.iter().map(|field| field.parse::<Field>()).collect::<Result<Vec<_>, _>>()?;
        Layout::new(bits, epoch, unit_ms, fields)
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
