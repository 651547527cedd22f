//! The presets against other people's programs for the same layouts: what these put together or take apart, ours do alike.

#![allow(clippy::unwrap_used)]

use ferroid::id::{SnowflakeDiscordId, SnowflakeInstagramId, SnowflakeTwitterId};
use ferroid::time::{DISCORD_EPOCH, TWITTER_EPOCH};
use ids::encoding::{Case, EncodingForm, EncodingParameters, EncodingSource, Secrets};
use ids::layout::{Layout, LayoutDefinition, LayoutSpec, Preset};
use ids::strategy::Strategies;
use ids::time::WallMs;
use ids::token::TokenValue;
use proptest::prelude::*;
use svix_ksuid::{Ksuid, KsuidLike as _};
use type_safe_id::{DynamicType, TypeSafeId};

fn layout(preset: Preset) -> Layout {
    preset.layout().unwrap()
}

fn id(layout: &Layout, tick: u64, token: u32, serial: u32, random: u128) -> u128 {
    let prefix = layout.prefix(tick, TokenValue(token)).unwrap();
    layout.fill(prefix, serial, random)
}

/// 2026-11-23T12:34:56.789Z.
const AN_INSTANT: WallMs = WallMs(1_795_437_296_789);

#[test]
fn epochs_are_the_originals() {
    assert_eq!(u128::from(Preset::Snowflake.epoch().0.unsigned_abs()), TWITTER_EPOCH.as_millis());
    assert_eq!(Preset::Leaf.epoch(), Preset::Snowflake.epoch());
    assert_eq!(u128::from(Preset::Discord.epoch().0.unsigned_abs()), DISCORD_EPOCH.as_millis());
    assert_eq!(Preset::Sonyflake.epoch().to_string(), "2014-09-01T00:00:00.000Z");
}

/// Published by those who made them.
#[test]
fn ids_of_the_originals_are_read_as_they_say() {
    // Discord's reference: a snowflake of 2016-04-30 11:18:25.796 UTC, worker 1, process 0, increment 7.
    let parts = layout(Preset::Discord).parts(175_928_847_299_117_063).unwrap();
    assert_eq!(parts.time.to_string(), "2016-04-30T11:18:25.796Z");
    assert_eq!((parts.token.0, parts.serial), (1 << 5, 7));
    // UidGenerator's own example: worker 4, sequence 9.
    let parts = layout(Preset::UidGenerator).parts(180_363_646_902_239_241).unwrap();
    assert_eq!((parts.token.0, parts.serial), (4, 9));
    // A fork's of other widths, whose days are China's: 2019-02-20 14:55:39, worker 27, sequence 2.
    let fields = ["time:30", "token:16", "serial:7"].map(str::to_owned).to_vec();
    let epoch = Some("2019-02-20T00:00:00+08:00".to_owned());
    let source =
        LayoutSpec { bits: Some(53), epoch, unit_ms: Some(1_000), fields: Some(fields), ..LayoutSpec::default() };
    let parts = Layout::of(&source).unwrap().parts(450_795_408_770).unwrap();
    assert_eq!((parts.time.to_string().as_str(), parts.token.0, parts.serial), ("2019-02-20T06:55:39.000Z", 27, 2));
    // The status by which Twitter's documentation explains the format.
    let parts = layout(Preset::Snowflake).parts(1_541_815_603_606_036_480).unwrap();
    assert_eq!((parts.time.to_string().as_str(), parts.token.0, parts.serial), ("2022-06-28T16:07:40.105Z", 378, 0));
    // RFC 9562, A.6, and the specification of ULID.
    let parts = layout(Preset::Uuid7).parts(0x017F_22E2_79B0_7CC3_98C4_DC0C_0C07_398F).unwrap();
    assert_eq!(parts.time.to_string(), "2022-02-22T19:22:22.000Z");
    let ulid = ulid::Ulid::from_string("01ARZ3NDEKTSV4RRFFQ69G5FAV").unwrap();
    let parts = layout(Preset::Ulid).parts(ulid.into()).unwrap();
    assert_eq!(parts.time.0.unsigned_abs(), ulid.timestamp_ms());
    // MongoDB's documentation of getTimestamp(), with another process behind the time.
    let parts = layout(Preset::ObjectId).parts(0x507f_191e_0000_0072_9de8_60ea).unwrap();
    assert_eq!(parts.time.to_string(), "2012-10-17T20:46:22.000Z");
    // The first ID that the specification of TypeID shows, and the UUID that it says it is.
    let typeid: TypeSafeId<DynamicType> = "prefix_01h455vb4pex5vsknk084sn02q".parse().unwrap();
    assert_eq!(written("typeid", "prefix_", typeid.uuid().as_u128()), typeid.to_string());
    assert_eq!(typeid.uuid().to_string(), "01890a5d-ac96-774b-bcce-b302099a8057");
}

/// A number as a name of that preset writes it, with a prefix if there is one.
fn written(preset: &str, prefix: &str, number: u128) -> String {
    let encoding = match prefix {
        "" => None,
        prefix => {
            let (form, case) = (EncodingForm::Base32, Some(Case::Lower));
            let prefix = Some(prefix.to_owned());
            Some(EncodingSource::Parameters(EncodingParameters { form, case, prefix, ..EncodingParameters::default() }))
        }
    };
    let definition = LayoutDefinition::new(&LayoutSpec { encoding, ..LayoutSpec::of(preset) }).unwrap();
    let text = definition.text(number).unwrap();
    let read = definition.written_by(Secrets::NONE, Strategies::NONE).unwrap().read(&text);
    assert_eq!(read, Some(number), "{text}");
    text
}

#[test]
fn a_tick_of_another_unit_is_the_originals() {
    let sony = layout(Preset::Sonyflake);
    let tick = sony.tick(AN_INSTANT).unwrap();
    let parts = sonyflake::decompose(sonyflake::Id::from(u64::try_from(id(&sony, tick, 65_535, 255, 0)).unwrap()));
    assert_eq!((parts.msb, parts.time, parts.machine_id, parts.sequence), (0, tick, 65_535, 255));
    assert_eq!((AN_INSTANT - sony.starts_at(tick)).0, 9, "10 ms begin at ..780 here");
}

proptest! {
    #[test]
    fn snowflakes_are_ferroids(tick in 0u64..1 << 41, token in 0u32..1 << 10, serial in 0u32..1 << 12) {
        for preset in [Preset::Snowflake, Preset::Leaf] {
            let theirs = SnowflakeTwitterId::from_components(tick, token.into(), serial.into()).to_raw();
            prop_assert_eq!(id(&layout(preset), tick, token, serial, 0), u128::from(theirs));
        }
        let theirs = SnowflakeDiscordId::from_components(2 * tick, token.into(), serial.into()).to_raw();
        prop_assert_eq!(id(&layout(Preset::Discord), 2 * tick, token, serial, 0), u128::from(theirs));
        let theirs = SnowflakeInstagramId::from_components(tick, 8 * u64::from(token), (serial / 4).into()).to_raw();
        prop_assert_eq!(id(&layout(Preset::Instagram), tick, 8 * token, serial / 4, 0), u128::from(theirs));
    }

    #[test]
    fn sonyflakes_are_sonyflakes(tick in 0u64..1 << 39, token in 0u32..1 << 16, serial in 0u32..1 << 8) {
        let ours = u64::try_from(id(&layout(Preset::Sonyflake), tick, token, serial, 0)).unwrap();
        let parts = sonyflake::decompose(sonyflake::Id::from(ours));
        prop_assert_eq!((parts.time, parts.machine_id, parts.sequence), (tick, u64::from(token), u64::from(serial)));
    }

    #[test]
    fn uuids_are_of_version_7_and_sort(
        tick in 0u64..1 << 48, token in 0u32..1 << 16, serial in 0u32..(1 << 26) - 1, random: u128, other: u128
    ) {
        let layout = layout(Preset::Uuid7);
        let uuid = uuid::Uuid::from_u128(id(&layout, tick, token, serial, random));
        prop_assert_eq!((uuid.get_version(), uuid.get_variant()), (Some(uuid::Version::SortRand), uuid::Variant::RFC4122));
        let (seconds, nanos) = uuid.get_timestamp().unwrap().to_unix();
        prop_assert_eq!(seconds * 1_000 + u64::from(nanos) / 1_000_000, tick);
        let next = uuid::Uuid::from_u128(id(&layout, tick, token, serial + 1, other));
        prop_assert!(uuid < next && uuid.to_string() < next.to_string());
    }

    #[test]
    fn ulids_are_ulids_and_sort(
        tick in 0u64..1 << 48, token in 0u32..1 << 16, serial in 0u32..(1 << 26) - 1, random: u128, other: u128
    ) {
        let layout = layout(Preset::Ulid);
        let ulid = ulid::Ulid::from(id(&layout, tick, token, serial, random));
        prop_assert_eq!(ulid.timestamp_ms(), tick);
        let next = ulid::Ulid::from(id(&layout, tick, token, serial + 1, other));
        prop_assert!(ulid < next && ulid.to_string() < next.to_string());
        prop_assert_eq!(ulid::Ulid::from_string(&ulid.to_string()), Ok(ulid));
    }

    #[test]
    fn typeids_are_typeids(tick in 0u64..1 << 48, token in 0u32..1 << 16, serial in 0u32..1 << 26, random: u128) {
        let number = id(&layout(Preset::TypeId), tick, token, serial, random);
        let text = written("typeid", "order_", number);
        let theirs: TypeSafeId<DynamicType> = text.parse().unwrap();
        prop_assert_eq!((theirs.uuid().as_u128(), theirs.to_string()), (number, text));
    }

    #[test]
    fn xids_are_xids_and_object_ids_have_their_bytes(tick in 0u64..1 << 32, token in 0u32..1 << 16, serial in 0u32..1 << 24) {
        let number = id(&layout(Preset::Xid), tick, token, serial, 0);
        let [_, _, _, _, bytes @ ..] = number.to_be_bytes();
        let text = written("xid", "", number);
        prop_assert_eq!(&text, &xid::Id(bytes).to_string());
        prop_assert_eq!(text.parse::<xid::Id>().unwrap(), xid::Id(bytes));
        prop_assert_eq!(xid::Id(bytes).time().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs(), tick);
        prop_assert_eq!(xid::Id(bytes).counter(), serial);
        prop_assert_eq!(written("objectid", "", number), format!("{number:024x}"));
    }

    #[test]
    fn ksuids_are_ksuids_and_sort(tick in 0u64..1 << 32, token in 0u32..1 << 16, serial in 0u32..u32::MAX, random: u128, other: u128) {
        let layout = layout(Preset::Ksuid);
        let [text, next] = [(serial, random), (serial + 1, other)]
            .map(|(serial, random)| written("ksuid", "", id(&layout, tick, token, serial, random)));
        let theirs: Ksuid = text.parse().unwrap();
        prop_assert_eq!((theirs.timestamp_seconds(), theirs.to_string()), (1_400_000_000 + tick as i64, text.clone()));
        prop_assert!(text < next);
    }

    #[test]
    fn whatever_is_said_is_a_layout_or_refused(layout: Option<String>, bits: Option<u32>, epoch: Option<String>, fields in proptest::option::of(proptest::collection::vec("[a-z]{0,6}:?[0-9]{0,3}=?[0-9]{0,3}", 0..20))) {
        let _ = Layout::of(&LayoutSpec { layout, bits, epoch, unit_ms: Some(1), fields, ..LayoutSpec::default() });
    }
}
