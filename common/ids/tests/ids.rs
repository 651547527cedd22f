//! Promises of the integer IDs, for every instant, token and serial that fits them.
// Helpers of tests are not seen as tests by the lints.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use ids::calendar::{Civil, UtcOffset};
use ids::kind::{Known, TextForm, TokenText, UNIQ64, UNIQ96, Ymd, explain};
use ids::time::WallMs;
use ids::token::TokenValue;
use proptest::prelude::*;

/// From 2000-01-02 to 2127-12-30, so that no UTC offset leaves the years of a Uniq64.
const UNIQ64_MS: std::ops::Range<i64> = 946_771_200_000..4_985_884_800_000;
/// From 2000-01-02 to 6095-12-30.
const UNIQ96_MS: std::ops::Range<i64> = 946_771_200_000..130_203_936_000_000;
/// Forms whose texts all have one length.
const UNIQ64_FIXED: [TextForm; 2] = [TextForm::Hex, TextForm::Base32];
const UNIQ96_FIXED: [TextForm; 3] = [TextForm::Decimal, TextForm::Hex, TextForm::Base32];

fn offset() -> impl Strategy<Value = UtcOffset> {
    (-UtcOffset::MINUTES_MAX..=UtcOffset::MINUTES_MAX).prop_map(|minutes| UtcOffset::from_minutes(minutes).unwrap())
}

/// All values, the edges often.
fn edgy(max: u32) -> impl Strategy<Value = u32> {
    prop_oneof![3 => 0..=max, 1 => Just(0), 1 => Just(max), 1 => Just(max / 2 + 1)]
}

fn uniq64(offset: UtcOffset, ms: i64, token: u32, serial: u32) -> u128 {
    let prefix = UNIQ64.layout().prefix_at(offset, WallMs(ms), TokenValue(token)).unwrap();
    UNIQ64.layout().fill(prefix, serial, 0)
}

fn uniq96(offset: UtcOffset, ms: i64, token: u32, serial: u32) -> u128 {
    let prefix = UNIQ96.layout().prefix_at(offset, WallMs(ms), TokenValue(token)).unwrap();
    UNIQ96.layout().fill(prefix, serial, 0)
}

const SERIAL64_MAX: u32 = (1 << 31) - 1;

/// Near misses of the texts of IDs, and anything at all.
fn foreign() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[0-9]{0,40}",
        "[0-9a-fA-F]{16}|[0-9a-f]{24}",
        "[0-9A-Za-z]{13}|[0-9A-Z]{20}",
        "uniq(64|96)://[0-9]{4}-[0-9]{2}-[0-9]{2}_[0-9]{2}(:[0-9]{2}:[0-9]{2}_[0-9]{3,4})?/[0-9]{1,6}/[0-9]{1,11}",
        "uniq(64|96):(//|/)[-0-9_:/é+ ]{0,40}",
    ]
}

proptest! {
    #[test]
    fn uniq64_fields_come_back(
        offset in offset(), ms in UNIQ64_MS, token in edgy(4_095), serial in edgy(SERIAL64_MAX),
    ) {
        let hour = offset.hour_bucket(WallMs(ms));
        let fields = UNIQ64.layout().parts(uniq64(offset, ms, token, serial)).unwrap();
        prop_assert_eq!(offset.from_local(fields.time), offset.hour_start(hour));
        prop_assert_eq!((fields.token.0, fields.serial, fields.tick), (token, serial, hour.0.into()));
    }

    #[test]
    fn uniq96_fields_come_back(
        offset in offset(), ms in UNIQ96_MS, token in edgy(65_535), serial in edgy(u32::MAX),
    ) {
        let id = uniq96(offset, ms, token, serial);
        let fields = UNIQ96.layout().parts(id).unwrap();
        prop_assert_eq!(offset.from_local(fields.time), WallMs(ms));
        prop_assert_eq!((fields.token.0, fields.serial), (token, serial));
    }

    #[test]
    fn every_text_reads_back_as_the_id_it_was(
        offset in offset(), ms in UNIQ64_MS, token in edgy(4_095), serial in edgy(SERIAL64_MAX),
    ) {
        let (short, long) = (uniq64(offset, ms, token, serial), uniq96(offset, ms, token, serial));
        for form in TextForm::ALL {
            prop_assert_eq!(UNIQ64.parse_form(&UNIQ64.text(short, form), form), Ok(short));
            prop_assert_eq!(UNIQ96.parse_form(&UNIQ96.text(long, form), form), Ok(long));
            prop_assert_eq!(UNIQ96.parse(&UNIQ96.text(long, form)), Ok(long));
            let mut out = b"kept".to_vec();
            UNIQ64.write(short, form, &mut out);
            prop_assert_eq!(out, format!("kept{}", UNIQ64.text(short, form)).into_bytes());
        }
        prop_assert_eq!(UNIQ64.text(short, TextForm::Decimal), short.to_string());
        prop_assert_eq!(UNIQ64.text(short, TextForm::Hex), format!("{:016x}", short));
        prop_assert_eq!(UNIQ96.text(long, TextForm::Hex), format!("{:024x}", long));
        prop_assert_eq!(UNIQ96.text(long, TextForm::Decimal), format!("{:020}{:010}", long >> 32, long as u32));
        // Decimal is left out: the texts of the first days of 2000 read as hex too.
        for form in [TextForm::Hex, TextForm::Base32, TextForm::Uri] {
            if UNIQ64.text(short, form).parse::<u64>().is_err() {
                prop_assert_eq!(UNIQ64.parse(&UNIQ64.text(short, form)), Ok(short));
            }
        }
    }

    /// The order of the bits is the order of time, then token, then serial; and the fixed-width texts sort likewise.
    #[test]
    fn larger_is_later(
        offset in offset(), a in UNIQ64_MS, step in prop_oneof![0i64..10_000, 0i64..400_000_000_000],
        tokens in (edgy(4_095), edgy(4_095)), serials in (edgy(SERIAL64_MAX), edgy(SERIAL64_MAX)),
    ) {
        let b = (a + step).min(UNIQ64_MS.end - 1);
        let hour = |ms| offset.hour_bucket(WallMs(ms));
        let (x, y) = (uniq64(offset, a, tokens.0, serials.0), uniq64(offset, b, tokens.1, serials.1));
        prop_assert_eq!(x.cmp(&y), (hour(a), tokens.0, serials.0).cmp(&(hour(b), tokens.1, serials.1)));
        for form in UNIQ64_FIXED {
            prop_assert_eq!(UNIQ64.text(x, form).cmp(&UNIQ64.text(y, form)), x.cmp(&y));
        }
        let (x, y) = (uniq96(offset, a, tokens.0, serials.0), uniq96(offset, b, tokens.1, serials.1));
        prop_assert_eq!(x.cmp(&y), (a, tokens.0, serials.0).cmp(&(b, tokens.1, serials.1)));
        for form in UNIQ96_FIXED {
            prop_assert_eq!(UNIQ96.text(x, form).cmp(&UNIQ96.text(y, form)), x.cmp(&y));
        }
    }

    /// Two IDs are one only if hour (millisecond), token and serial are; the neighbours are what a slip would hit.
    #[test]
    fn injective(
        offset in offset(), ms in UNIQ64_MS, token in 0u32..4_095, serial in 0..SERIAL64_MAX,
        moved in (0i64..2, 0u32..2, 0u32..2),
    ) {
        let (hours, tokens, serials) = moved;
        let same = moved == (0, 0, 0);
        let other = uniq64(offset, (ms + hours * 3_600_000).min(UNIQ64_MS.end), token + tokens, serial + serials);
        prop_assert_eq!(uniq64(offset, ms, token, serial) == other, same);
        let other = uniq96(offset, ms + hours, token + tokens, serial + serials);
        prop_assert_eq!(uniq96(offset, ms, token, serial) == other, same);
    }

    #[test]
    fn what_parses_is_written_the_same_and_nothing_panics(text in foreign()) {
        for form in TextForm::ALL {
            for numbers in [&UNIQ64, &UNIQ96] {
                if let Ok(id) = numbers.parse_form(&text, form) {
                    prop_assert_eq!(numbers.text(id, form), text.clone());
                    prop_assert!(numbers.layout().parts(id).is_some());
                }
            }
        }
        let parsed = (UNIQ64.parse(&text).is_ok(), UNIQ96.parse(&text).is_ok());
        if parsed.0 || parsed.1 {
            prop_assert!(explain(&text, &Known::NONE).is_ok());
        } else if let Err(refusal) = explain(&text, &Known::NONE) {
            prop_assert!(!refusal.to_string().chars().any(char::is_control));
        }
    }

    /// Bits that no generator made: they print, and their texts are refused just as the bits are.
    #[test]
    fn any_bits_print_and_are_judged_alike(low: u64, high: u64) {
        for (numbers, id) in [(&UNIQ64, low.into()), (&UNIQ96, u128::from(high) << 32 | u128::from(low as u32))] {
            let exists = numbers.layout().parts(id).is_some();
            for form in TextForm::ALL {
                prop_assert_eq!(numbers.parse_form(&numbers.text(id, form), form).is_ok(), exists);
            }
        }
    }
}

/// Every month and the edges of every other field, in both layouts, in a leap year and the first and last years.
#[test]
fn each_field_at_its_edges_comes_back_alone() {
    let offset = UtcOffset::from_minutes(-570).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for year in [2000, 2024, 2100, 2127] {
        for month in 1..=12 {
            for day in [1, 28, 29, 30, 31] {
                for (hour, minute, second, millisecond) in [(0, 0, 0, 0), (23, 59, 59, 999)] {
                    let civil = Civil { year, month, day, hour, minute, second, millisecond };
                    let Some(at) = offset.instant(&civil) else { continue };
                    for (token, serial) in [(0, 0), (4_095, SERIAL64_MAX)] {
                        let id = uniq64(offset, at.0, token, serial);
                        let fields = UNIQ64.layout().parts(id).unwrap();
                        let begins = Civil { minute: 0, second: 0, millisecond: 0, ..civil };
                        assert_eq!(UtcOffset::default().civil(fields.time), Some(begins));
                        assert_eq!((fields.token.0, fields.serial), (token, serial));
                        assert!(seen.insert(id));
                    }
                    let time = UNIQ96.layout().parts(uniq96(offset, at.0, 65_535, u32::MAX)).unwrap().time;
                    assert_eq!(UtcOffset::default().civil(time), Some(civil));
                }
            }
        }
    }
    assert_eq!(Ymd { year: 2000, month: 1, day: 9 }.to_string(), "2000-01-09");
}

/// Aliases that other readers of these forms take: an ID has one text in each form.
#[test]
fn no_second_spelling_is_taken() {
    let id = UNIQ64.parse("uniq64://2026-11-20_13/4095/1").unwrap();
    for (good, bad) in [
        ("35746fff80000001", vec!["35746FFF80000001", "0x35746fff80000001", "+5746fff80000001", "035746fff80000001"]),
        ("3AX3FZY000001", vec!["3ax3fzy000001", "3AX3FZYOOOOO1", "3AX3FZY00000I", "3AX3-FZY000001", "03AX3FZY000001"]),
        ("3851826724463443969", vec!["03851826724463443969", "+3851826724463443969", "3851826724463443969 ", "3_851"]),
        (
            "uniq64://2026-11-20_13/4095/1",
            vec![
                "UNIQ64://2026-11-20_13/4095/1",
                "uniq64://2026-11-20_13/4095/01",
                "uniq64://2026-11-20_13/04095/1",
                "uniq64://2026-11-20-13/4095/1",
                "uniq64://2026-11-20_13/4095/1/",
                "uniq64://2026-11-20_13/4096/1",
                "uniq64://2026-11-20_13/4095/2147483648",
                "uniq64://1999-11-20_13/4095/1",
                "uniq64://2128-11-20_13/4095/1",
                "uniq96://2026-11-20_13/4095/1",
            ],
        ),
    ] {
        assert_eq!(UNIQ64.parse(good), Ok(id));
        for bad in bad {
            assert!(UNIQ64.parse(bad).is_err(), "{bad} was taken");
        }
    }
}

/// IDs that another program worked out from the tables of bits in docs/start/choosing.md: offset in minutes, instant, token, serial, and the
/// four texts.
const WORKED_OUT: &str = include_str!("ids.txt");

/// The edges of every field and any other IDs, packed, written, read and told as that other program has it.
#[test]
fn ids_are_what_another_program_makes_of_the_tables() {
    for line in WORKED_OUT.lines() {
        let [kind, minutes, ms, token, serial, texts @ ..] = &line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let offset = UtcOffset::from_minutes(minutes.parse().unwrap()).unwrap();
        let (ms, token, serial) = (ms.parse().unwrap(), token.parse().unwrap(), serial.parse().unwrap());
        let bits = u128::from_str_radix(texts[1], 16).unwrap();
        let written = match *kind {
            "uniq64" => {
                let id = uniq64(offset, ms, token, serial);
                assert_eq!(id, bits, "{line}");
                assert!(TextForm::ALL.iter().zip(texts).all(|(form, text)| UNIQ64.parse_form(text, *form) == Ok(id)));
                TextForm::ALL.map(|form| UNIQ64.text(id, form))
            }
            _ => {
                let id = uniq96(offset, ms, token, serial);
                assert_eq!(id, bits, "{line}");
                assert!(texts.iter().all(|text| UNIQ96.parse(text) == Ok(id)));
                TextForm::ALL.map(|form| UNIQ96.text(id, form))
            }
        };
        assert_eq!(written, texts, "{line}");
        let told = explain(texts[3], &Known::NONE).unwrap();
        let time = offset.civil(WallMs(ms)).unwrap();
        let hour = format!("{:04}-{:02}-{:02}T{:02}:", time.year, time.month, time.day, time.hour);
        let minutes = match *kind {
            "uniq64" => "00:00".to_owned(),
            _ => format!("{:02}:{:02}.{:03}", time.minute, time.second, time.millisecond),
        };
        assert_eq!(told.reading.time, Some(hour + &minutes), "{line}");
        assert_eq!((told.reading.kind.name(), told.reading.serial), (*kind, Some(serial.into())), "{line}");
        assert_eq!(told.reading.token, Some(TokenText::Number(token)), "{line}");
        assert!(told.also.is_empty());
    }
    assert_eq!(WORKED_OUT.lines().count(), 128);
}
