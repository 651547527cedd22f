use super::*;
use crate::time::HOUR_MS;
use proptest::prelude::*;
use std::sync::Arc;

const EPOCH: &str = "2024-01-01T00:00:00Z";

fn source(bits: u32, unit_ms: u32, fields: &[&str]) -> LayoutSpec {
    let fields = Some(fields.iter().map(ToString::to_string).collect());
    let (bits, epoch, unit_ms) = (Some(bits), Some(EPOCH.to_owned()), Some(unit_ms));
    LayoutSpec { bits, epoch, unit_ms, fields, ..LayoutSpec::default() }
}

fn refusal(source: &LayoutSpec) -> String {
    Layout::of(source).unwrap_err().to_string()
}

#[test]
fn every_preset_is_a_layout_and_knows_itself() {
    for preset in Preset::ALL {
        let layout = preset.layout().unwrap();
        assert_eq!(Layout::of(&LayoutSpec::of(preset.name())).unwrap(), layout, "{preset}");
        assert_eq!(Layout::of(&layout.spec()).unwrap(), layout, "{preset}: written out, it reads back");
        assert!(layout.sorts_by_time(), "{preset}");
        let own = Preset::of(&layout).unwrap();
        let alike =
            [(Preset::Snowflake, Preset::Leaf), (Preset::Uuid7, Preset::TypeId), (Preset::ObjectId, Preset::Xid)];
        assert!(own == preset || alike.contains(&(own, preset)), "{preset} is {own}");
    }
}

#[test]
fn what_a_preset_says_of_itself() {
    let facts = Preset::ALL.map(|preset| {
        let layout = preset.layout().unwrap();
        let end = layout.end().to_string();
        (preset.name(), layout.tokens(), layout.serials_per_second(), end.split('T').next().unwrap().to_owned())
    });
    let expected = [
        ("snowflake", 1_024, 4_096_000, "2080-07-10"),
        ("leaf", 1_024, 4_096_000, "2080-07-10"),
        ("uidgenerator", 4_194_304, 8_192, "2024-11-20"),
        ("sonyflake", 65_536, 25_600, "2188-11-16"),
        ("instagram", 8_192, 1_024_000, "2081-04-30"),
        ("discord", 1_024, 4_096_000, "2154-05-15"),
        ("js53", 256, 10_240, "2132-11-18"),
        ("hour53", 256, 4_660, "2128-01-01"),
        ("uuid7", 65_536, 67_108_864_000, "281474976710656 ms"),
        ("ulid", 65_536, 67_108_864_000, "281474976710656 ms"),
        ("typeid", 65_536, 67_108_864_000, "281474976710656 ms"),
        ("objectid", 65_536, 16_777_216, "2106-02-07"),
        ("xid", 65_536, 16_777_216, "2106-02-07"),
        ("ksuid", 65_536, 4_294_967_296, "2150-06-19"),
    ];
    assert_eq!(facts, expected.map(|(name, tokens, rate, end)| (name, tokens, rate, end.to_owned())));
    let safe = Preset::ALL.map(|preset| preset.layout().unwrap().is_safe_for_javascript());
    assert_eq!(safe, Preset::ALL.map(|preset| matches!(preset, Preset::Js53 | Preset::Hour53)));
}

/// Worked out by another program.
#[test]
fn golden_numbers_of_hour53() {
    let layout = Preset::Hour53.layout().unwrap();
    for (time, token, serial, number) in [
        ("2000-01-01T00:00:00Z", 0, 0, 4_535_485_464_576),
        ("2026-11-27T17:59:59.999Z", 7, 12_345_678, 1_881_749_856_215_374),
        ("2127-12-31T23:59:59.999Z", 255, 16_777_215, 8_993_970_755_469_311),
    ] {
        let at = read_epoch(time).unwrap();
        let prefix = layout.prefix(layout.tick(at).unwrap(), TokenValue(token)).unwrap();
        assert_eq!(layout.fill(prefix, serial, 0), number, "{time}");
        let parts = layout.parts(number).unwrap();
        assert_eq!((parts.token, parts.serial), (TokenValue(token), serial));
        assert_eq!(parts.time, WallMs(at.0 - at.0 % HOUR_MS));
    }
}

#[test]
fn a_preset_may_have_another_epoch_and_nothing_else() {
    let later = LayoutSpec { epoch: Some(EPOCH.to_owned()), ..LayoutSpec::of("uidgenerator") };
    let layout = Layout::of(&later).unwrap();
    assert_eq!((layout.epoch(), Preset::of(&layout)), (WallMs(1_704_067_200_000), Some(Preset::UidGenerator)));
    assert!(refusal(&LayoutSpec { bits: Some(64), ..LayoutSpec::of("leaf") }).contains("leave out bits"));
    assert!(refusal(&LayoutSpec { unit_ms: Some(1), ..LayoutSpec::of("leaf") }).contains("leave out unit_ms"));
    let hour53 = LayoutSpec { epoch: Some(EPOCH.to_owned()), ..LayoutSpec::of("hour53") };
    assert!(refusal(&hour53).contains("leave epoch out"));
    assert!(refusal(&LayoutSpec::of("Leaf")).contains("snowflake, leaf, uidgenerator"));
}

#[test]
fn what_is_of_no_use_is_refused_with_the_reason() {
    let good = ["zero:1", "time:41", "token:10", "serial:12"];
    Layout::of(&source(64, 1, &good)).unwrap();
    for (source, said) in [
        (source(65, 1, &good), "65 bits cannot be had"),
        (source(63, 1, &good), "have 64 bits, and the number has 63"),
        (source(64, 7, &good), "7 ms does not divide a day"),
        (source(64, 0, &good), "0 ms does not divide a day"),
        (source(64, 1, &["time:42", "serial:22"]), "token is missing"),
        (source(64, 1, &["time:42", "token:22"]), "serial is missing"),
        (source(64, 1, &["token:32", "serial:32"]), "time is missing"),
        (source(64, 1_000, &["zero:8", "time:40", "token:10", "serial:6"]), "64 IDs a second"),
        (source(64, 1, &["time:22", "token:10", "serial:32", "zero:0"]), "no width that fits"),
        (source(96, 1, &["time:49", "token:15", "serial:32"]), "time has 49 bits: at most 48"),
        (source(96, 1, &["time:40", "token:16", "serial:20", "serial:20"]), "serial has 40 bits: at most 32"),
        (source(64, 1, &["time", "token:10"]), "'time' is not a field"),
        (source(64, 1, &["time:41=3"]), "is not a field"),
        (source(64, 1, &["week:7"]), "'week:7' is not a field"),
        (source(64, 1, &["const:2=4"]), "does not fit its bits"),
        (source(64, 1, &["const:2=0"]), "written zero:N"),
        (source(64, 1, &["time:+4"]), "no width that fits"),
        (source(64, 1, &["zero:1"; 64]), "64 fields are too many"),
        (LayoutSpec { epoch: None, ..source(64, 1, &good) }, "epoch is missing"),
        (LayoutSpec { epoch: Some("2024-01-01".into()), ..source(64, 1, &good) }, "write it as 2024-01-01T00:00:00Z"),
        (LayoutSpec { epoch: Some("1969-12-31T23:59:59Z".into()), ..source(64, 1, &good) }, "from 1970 on"),
        (
            LayoutSpec { epoch: Some("2024-01-01T00:00:00.0001Z".into()), ..source(64, 1, &good) },
            "milliseconds at most",
        ),
        (LayoutSpec::default(), "bits is missing: say the name of a layout"),
    ] {
        let refusal = refusal(&source);
        assert!(refusal.contains(said), "{refusal}, and not: {said}");
    }
}

#[test]
fn a_calendar_has_all_fields_down_to_its_unit_in_their_order_and_side_by_side() {
    let of = |unit_ms, fields: &[&str]| LayoutSpec { epoch: None, ..source(64, unit_ms, fields) };
    let day = ["year:12", "month:4", "day:5"];
    let (hour, minute) = ([&day[..], &["hour:5"]].concat(), [&day[..], &["hour:5", "minute:6"]].concat());
    let rest = |bits: u32| [format!("token:{}", bits - 29), "serial:29".to_owned()];
    let with = |calendar: &[&str], bits| {
        let rest: [String; 2] = rest(64 - bits);
        [calendar, &rest.each_ref().map(String::as_str)].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    for (unit_ms, calendar, bits) in [(DAY_MS, &day[..], 21_u32), (HOUR_MS, &hour, 26), (60 * SECOND_MS, &minute, 32)] {
        let fields = with(calendar, bits);
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let layout = Layout::of(&of(unit_ms as u32, &fields)).unwrap();
        assert_eq!((layout.calendar(), layout.mark()), (Some(&Calendar::new(12, SpanMs(unit_ms))), Mark::Serial));
        assert_eq!(Layout::of(&layout.spec()).unwrap(), layout, "written out, it reads back");
        let mut behind = fields.clone();
        behind.rotate_left(calendar.len());
        assert!(Layout::of(&of(unit_ms as u32, &behind)).is_ok(), "it may stand anywhere");
        assert_eq!(refusal(&source(64, unit_ms as u32, &fields)), InvalidLayout::EpochOfCalendar.to_string());
        for other in [1, 1_000, 3_600_000 / 4, DAY_MS, HOUR_MS, 60 * SECOND_MS].into_iter().filter(|it| *it != unit_ms)
        {
            assert_eq!(refusal(&of(other as u32, &fields)), InvalidLayout::Calendar.to_string(), "{other}");
        }
        let swap = |one, other| {
            let mut fields = fields.clone();
            fields.swap(one, other);
            fields
        };
        for fields in [swap(0, 1), swap(1, 2), swap(2, calendar.len())] {
            assert_eq!(refusal(&of(unit_ms as u32, &fields)), InvalidLayout::Calendar.to_string(), "{fields:?}");
        }
    }
    for fields in [
        ["year:12", "month:4", "day:4", "token:15", "serial:29"].as_slice(),
        &["year:13", "month:4", "day:5", "token:13", "serial:29"],
        &["month:4", "day:5", "token:26", "serial:29"],
        &["year:10", "month:4", "day:5", "time:2", "token:14", "serial:29"],
        &["year:10", "month:4", "day:5", "token:7", "year:2", "token:7", "serial:29"],
    ] {
        assert_eq!(refusal(&of(DAY_MS as u32, fields)), InvalidLayout::Calendar.to_string(), "{fields:?}");
    }
}

#[test]
fn a_time_that_has_not_come_or_is_over_is_refused() {
    let snowflake = Preset::Snowflake.layout().unwrap();
    let year = SpanMs::days(365);
    let last = WallMs(snowflake.end().0 - year.0);
    assert_eq!(snowflake.check_life(last), Ok(()));
    assert_eq!(snowflake.check_life(last + SpanMs(1)), Err(InvalidLayout::EndsSoon { end: snowflake.end() }));
    let early = WallMs(snowflake.epoch().0 - 1);
    assert_eq!(snowflake.check_life(early), Err(InvalidLayout::NotYet { epoch: snowflake.epoch() }));
    let uid = Preset::UidGenerator.layout().unwrap().check_life(WallMs(1_763_856_000_000)).unwrap_err().to_string();
    assert!(uid.starts_with("its time ends at 2024-11-20T13:24:16.000Z: give it"), "{uid}");
}

#[test]
fn the_edges_of_time_and_token() {
    let layout = Preset::Snowflake.layout().unwrap();
    assert_eq!((layout.tick(layout.epoch()), layout.tick(WallMs(layout.epoch().0 - 1))), (Some(0), None));
    let (last, end) = (WallMs(layout.end().0 - 1), layout.end());
    assert_eq!((layout.tick(last), layout.tick(end)), (Some((1 << 41) - 1), None));
    assert_eq!((layout.prefix(1 << 41, TokenValue(0)), layout.prefix(0, TokenValue(1_024))), (None, None));
    assert_eq!(layout.tick(WallMs(i64::MIN)), None);
    assert_eq!(layout.tick(WallMs(i64::MAX)), None);
    let largest = layout.prefix((1 << 41) - 1, TokenValue(1_023)).map(|prefix| layout.fill(prefix, 4_095, 0));
    assert_eq!(largest, Some(i64::MAX.unsigned_abs().into()));
}

#[test]
fn what_is_not_of_a_layout_is_not_read_as_one() {
    let uuid = Preset::Uuid7.layout().unwrap();
    let id = uuid.fill(uuid.prefix(1, TokenValue(2)).unwrap(), 3, 4);
    assert!(uuid.parts(id).is_some());
    assert_eq!(uuid.parts(id ^ (1 << 76)), None, "another version");
    assert_eq!(uuid.parts(id ^ (1 << 63)), None, "another variant");
    let snowflake = Preset::Snowflake.layout().unwrap();
    assert_eq!((snowflake.parts(1 << 63), snowflake.parts(1 << 64)), (None, None));
}

fn of_fields(bits: u32, fields: &[&str]) -> Layout {
    Layout::of(&source(bits, 1, fields)).unwrap()
}

#[test]
fn pieces_that_continue_each_other_are_one_field() {
    let snowflake = ["zero:1", "time:41", "token:10", "serial:12"];
    let whole = of_fields(64, &snowflake);
    assert_eq!(whole.fields().iter().map(Field::to_string).collect::<Vec<_>>(), snowflake);
    for cut in [
        ["zero:1", "time:20", "time:21", "token:10", "serial:12"],
        ["zero:1", "time:41", "token:1", "token:9", "serial:12"],
        ["zero:1", "time:41", "token:10", "serial:11", "serial:1"],
    ] {
        assert_eq!(of_fields(64, &cut), whole, "{cut:?}");
        let numbers = of_fields(64, &cut).numbers(0, TokenValue(1), &Arc::default());
        assert!(matches!(numbers, Some(Numbers::Narrow(_))), "{cut:?} is as fast");
    }
    for (cut, joined) in [
        (["zero:1", "zero:1", "zero:1"].as_slice(), ["zero:3"].as_slice()),
        (&["const:2=1", "zero:1"], &["const:3=2"]),
        (&["zero:2", "const:1=1"], &["const:3=1"]),
        (&["const:1=1", "zero:1", "const:1=1"], &["const:3=5"]),
        (&["random:1", "random:2"], &["random:3"]),
        (&["zero:1", "random:1", "zero:1"], &["zero:1", "random:1", "zero:1"]),
    ] {
        let rest = ["time:40", "token:10", "serial:10"];
        let [cut, joined] = [cut, joined].map(|fields| of_fields(63, &[fields, &rest].concat()));
        assert_eq!(cut, joined);
    }
    // A constant of more bits than its number can be written with.
    let wide = of_fields(128, &["const:2=3", "zero:66", "time:40", "token:10", "serial:10"]);
    assert_eq!(wide.fields().iter().take(2).map(Field::to_string).collect::<Vec<_>>(), ["const:4=12", "zero:64"]);
    assert_eq!(of_fields(128, &["const:4=12", "zero:1", "zero:63", "time:40", "token:10", "serial:10"]), wide);
    assert!(refusal(&source(128, 1, &["zero:128"])).contains("time is missing"));
}

/// Layouts of pieces in any order.
fn any_layout() -> impl Strategy<Value = Layout> {
    let pieces = prop_oneof![
        (1u32..=16).prop_map(|bits| Field { part: Part::Const(0), bits }),
        (2u32..=16, 1u64..4).prop_map(|(bits, value)| Field { part: Part::Const(value), bits }),
        (1u32..=16).prop_map(|bits| Field { part: Part::Time, bits }),
        (1u32..=12).prop_map(|bits| Field { part: Part::Token, bits }),
        (1u32..=12).prop_map(|bits| Field { part: Part::Serial, bits }),
        (1u32..=20).prop_map(|bits| Field { part: Part::Random, bits }),
    ];
    let filled = |(mut fields, bits, unit_ms): (Vec<Field>, u32, u32)| {
        let mut left = bits;
        fields.retain(|field: &Field| {
            let fits = field.bits <= left;
            left -= if fits { field.bits } else { 0 };
            fits
        });
        (left > 0).then(|| fields.push(Field { part: Part::Random, bits: left }));
        Layout::new(bits, WallMs(0), unit_ms, fields).ok()
    };
    let bits = proptest::sample::select(WIDTHS.to_vec());
    let unit_ms = proptest::sample::select(vec![1, 1, 60_000]);
    (proptest::collection::vec(pieces, 4..12), bits, unit_ms).prop_filter_map("no layout", filled)
}

/// Layouts of every calendar that ends with a unit of fixed length.
fn any_calendar() -> impl Strategy<Value = Layout> {
    let unit = proptest::sample::select(vec![DAY_MS, HOUR_MS, 60 * SECOND_MS, SECOND_MS, 1]).prop_map(SpanMs);
    (unit, 1u32..=12, 1..=TOKEN_BITS_MAX, 1..=SERIAL_BITS_MAX).prop_map(|(unit, year_bits, token_bits, serial_bits)| {
        Layout::by_calendar(Calendar::new(year_bits, unit), token_bits, serial_bits)
    })
}

fn any_preset() -> impl Strategy<Value = Layout> {
    proptest::sample::select(&Preset::ALL[..]).prop_map(|preset| preset.layout().unwrap())
}

/// Splits each field of more than one bit into two pieces, as far as there may be fields.
fn respelled(layout: &Layout) -> Layout {
    let mut fields = Vec::new();
    for field in layout.fields() {
        let Part::Const(_) = field.part else {
            let low = if fields.len() + layout.fields().len() < FIELDS_MAX { field.bits / 2 } else { 0 };
            fields.extend([field.bits - low, low].map(|bits| Field { bits, ..*field }));
            continue;
        };
        fields.push(*field);
    }
    fields.retain(|field: &Field| field.bits > 0);
    Layout::new(layout.bits(), layout.epoch(), layout.unit().0 as u32, fields).unwrap()
}

#[test]
fn those_of_databases_have_a_fast_way_and_others_none() {
    for preset in Preset::ALL {
        let layout = preset.layout().unwrap();
        let numbers = layout.numbers(layout.ticks.start, TokenValue(5), &Arc::default()).unwrap();
        assert_eq!(numbers.are_narrow(), layout.bits() <= u64::BITS, "{preset:?}");
        assert_eq!(matches!(numbers, Numbers::Wide(_)), matches!(preset, Preset::ObjectId | Preset::Xid), "{preset:?}");
    }
    let js53 = Preset::Js53.layout().unwrap();
    assert!(js53.numbers(1, TokenValue(256), &Arc::default()).is_none(), "a token that does not fit");
    assert!(js53.numbers(1 << 35, TokenValue(255), &Arc::default()).is_none(), "a tick that does not fit");
    assert_eq!((size_of::<Numbers>(), size_of::<Narrow>(), size_of::<Wide>()), (32, 24, 24), "copied for each request");
}

proptest! {
    #[test]
    fn what_is_put_together_comes_apart_again(
        layout in prop_oneof![any_layout(), any_calendar()], nth: u64, token: u32, serial: u32, random: u128
    ) {
        let Range { start, end } = layout.ticks;
        let (tick, token) = (start + nth % (end - start), TokenValue((u64::from(token) % layout.tokens()) as u32));
        let serial = (u64::from(serial) % layout.serials_per_tick()) as u32;
        let id = layout.fill(layout.prefix(tick, token).unwrap(), serial, random);
        let parts = layout.parts(id).unwrap();
        prop_assert_eq!((parts.tick, parts.token, parts.serial), (tick, token, serial));
        prop_assert_eq!(parts.random, random & field::mask(layout.random_bits()));
        prop_assert_eq!(layout.tick(parts.time), Some(tick));
        prop_assert_eq!((layout.prefix(end, token), layout.tick(layout.end())), (None, None));
        prop_assert_eq!(start.checked_sub(1).and_then(|tick| layout.prefix(tick, token)), None);
        if layout.sorts_by_time() && tick > start {
            let before = layout.fill(layout.prefix(tick - 1, TokenValue((layout.tokens() - 1) as u32)).unwrap(), u32::MAX, u128::MAX);
            prop_assert!(before < id);
        }
    }

    /// Whatever way numbers are made in, they are what is put together of their parts, over the ends of ticks up to the last one.
    #[test]
    fn numbers_by_a_counter_are_those_of_their_ticks_and_serials(
        layout in prop_oneof![any_layout(), any_calendar(), any_preset()],
        nth: u64, token: u32, before_end: u64, serial: u32, n in 1u32..60
    ) {
        let Range { start, end } = layout.ticks;
        // Near the last one, or anywhere.
        let tick = if nth % 2 == 0 { (end - 1).saturating_sub(before_end % 3).max(start) } else { start + nth % (end - start) };
        let (token, serials) = (TokenValue((u64::from(token) % layout.tokens()) as u32), layout.serials_per_tick());
        let spans = layout.calendar().is_none() && layout.unit() <= TICK_MAX;
        let random = Arc::new(RandomBits::default());
        let numbers = layout.numbers(tick, token, &random).unwrap();
        // Near the end of its tick, or anywhere.
        let serial = if serial % 2 == 0 { serials - 1 - u64::from(serial) % serials.min(20) } else { u64::from(serial) % serials };
        let number = |counter: u64| {
            let tick = if spans { tick + counter / serials } else { tick };
            let number = layout.fill(layout.prefix(tick, token).unwrap(), (counter % serials) as u32, 0);
            if layout.random_bits() == 0 { number } else { layout.fill(number, 0, random.of(number)) }
        };
        let fits = |counter: &u64| !spans || tick + counter / serials < end;
        let counters: Vec<u64> = (serial..serial + u64::from(n)).take_while(fits).collect();
        let (mut all, mut rest) = (Vec::new(), serial..serial + counters.len() as u64);
        while !rest.is_empty() {
            let stretch = numbers.stretch(rest.start, (rest.end - rest.start) as u32);
            prop_assert!((1..=rest.end - rest.start).contains(&stretch.n.into()));
            if layout.bits() <= u64::BITS {
                prop_assert!(stretch.numbers().eq(stretch.narrow().map(u128::from)));
            }
            all.extend(stretch.numbers());
            rest.start += u64::from(stretch.n);
        }
        prop_assert_eq!(&all, &counters.iter().map(|counter| number(*counter)).collect::<Vec<_>>());
        for (counter, wanted) in counters.iter().zip(&all) {
            prop_assert_eq!(numbers.number(*counter), *wanted);
            match numbers.later(counter / serials) {
                Some(later) => prop_assert_eq!(later.number(counter % serials), *wanted),
                None => prop_assert!(!spans && *counter >= serials),
            }
        }
    }

    /// However its fields are cut in two, it is the same layout.
    #[test]
    fn a_layout_whose_fields_are_cut_is_the_same(layout in any_layout(), at in proptest::collection::vec(0u32..128, 16)) {
        let mut cut = Vec::new();
        for (field, at) in layout.fields().iter().zip(at) {
            let low = at % field.bits;
            let parts = match field.part {
                Part::Const(value) => [value >> low, value & field::mask(low) as u64].map(Part::Const),
                part => [part; 2],
            };
            cut.extend([Field { part: parts[0], bits: field.bits - low }, Field { part: parts[1], bits: low }]);
        }
        cut.retain(|field| field.bits > 0);
        prop_assume!(cut.len() <= FIELDS_MAX);
        prop_assert_eq!(Layout::new(layout.bits(), layout.epoch(), layout.unit().0 as u32, cut).unwrap(), layout);
    }

    /// Two layouts that differ write another number for some tick, token, serial and random bits: those that are counted apart
    /// are never the same numbers in another spelling.
    #[test]
    fn layouts_that_differ_do_not_write_all_numbers_alike(one in any_layout(), other in any_layout(), same: bool) {
        let other = if same { respelled(&one) } else { other };
        let numbers = |layout: &Layout| {
            let prefix = |tick, token| layout.prefix(tick, TokenValue(token)).unwrap();
            let zero = prefix(0, 0);
            let mut numbers = vec![zero];
            numbers.extend((0..layout.ticks.end.ilog2()).map(|bit| prefix(1 << bit, 0)));
            numbers.extend((0..layout.token_bits()).map(|bit| prefix(0, 1 << bit)));
            numbers.extend((0..layout.serial_bits()).map(|bit| layout.fill(zero, 1 << bit, 0)));
            numbers.extend((0..layout.random_bits()).map(|bit| layout.fill(zero, 0, 1 << bit)));
            numbers
        };
        let widths = |layout: &Layout| (layout.bits(), layout.end(), layout.token_bits(), layout.serial_bits());
        let alike = widths(&one) == widths(&other) && numbers(&one) == numbers(&other);
        prop_assert_eq!(alike, one == other);
        prop_assert!(alike || !same);
    }

    #[test]
    fn fields_read_back(layout in any_layout()) {
        prop_assert_eq!(Layout::of(&layout.spec()).unwrap(), layout);
    }
}
