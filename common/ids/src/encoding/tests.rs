use super::*;
use crate::layout::Stretch;
use proptest::prelude::*;
use std::collections::BTreeSet;

const KEY: Key = Key::new([7; 32]);

fn source(json: &str) -> EncodingSource {
    serde_json::from_str(json).unwrap()
}

fn encoding(json: &str, bits: u32) -> Encoding {
    Encoding::of(&source(json), bits, Some(&KEY), b"name").unwrap()
}

fn text(json: &str, bits: u32, number: u128) -> String {
    encoding(json, bits).text(number).unwrap()
}

#[test]
fn numbers_in_every_form() {
    for (json, bits, number, expected) in [
        (r#""decimal""#, 64, 42, "42"),
        (r#""decimal""#, 128, u128::MAX, "340282366920938463463374607431768211455"),
        (r#"{"form":"decimal","length":20}"#, 64, 42, "00000000000000000042"),
        (r#"{"form":"hex","length":20}"#, 64, 42, "0000000000000000002a"),
        (r#""hex""#, 64, 0xDEAD_BEEF, "00000000deadbeef"),
        (r#""hex""#, 53, (1 << 53) - 1, "1fffffffffffff"),
        (r#""base32""#, 64, u128::from(u64::MAX), "FZZZZZZZZZZZZ"),
        (r#""base62""#, 64, u128::from(u64::MAX), "LygHa16AHYF"),
        (r#""base62""#, 128, u128::MAX, "7n42DGM5Tflk9n8mt7Fhc7"),
        (r#""uuid""#, 128, 0x017F_22E2_79B0_7CC3_98C4_DC0C_0C07_398F, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"),
        (r#"{"form":"hex","case":"upper"}"#, 64, 0xDEAD_BEEF, "00000000DEADBEEF"),
        (r#"{"form":"base32","case":"lower"}"#, 64, u128::from(u64::MAX), "fzzzzzzzzzzzz"),
        (r#"{"form":"base32hex","case":"upper"}"#, 8, 0xff, "VS"),
        (r#""base32hex""#, 53, (1 << 53) - 1, "3vvvvvvvvvvg"),
        (r#""base32hex""#, 128, u128::MAX, "vvvvvvvvvvvvvvvvvvvvvvvvvs"),
        (r#""ksuid""#, 128, u128::MAX, "aWgEPTl1tmebfsQzFP4bxs0IsoS"),
        (r#"{"form":"base62","prefix":"ord_"}"#, 64, 0, "ord_00000000000"),
        (r#"{"form":"decimal","prefix":"No.-"}"#, 64, 42, "No.-42"),
        (r#"{"form":"uuid","prefix":"u"}"#, 128, 0, "u00000000-0000-0000-0000-000000000000"),
        (r#"{"form":"sqids","length":10,"prefix":"k_"}"#, 64, 1, "k_UkLWZg9DAJ"),
        // The library's own example.
        (r#"{"form":"sqids","length":10}"#, 64, 1, "UkLWZg9DAJ"),
    ] {
        let encoding = encoding(json, bits);
        assert_eq!(encoding.text(number).as_deref(), Some(expected), "{json}");
        assert_eq!(encoding.read(expected), Some(number), "{json}");
        assert!(encoding.fixed_len().is_none_or(|len| len == expected.len()), "{json}");
    }
    // As the crate of that kind writes it.
    let id = 0x0190_0000_0000_0000_0123_4567_89AB_CDEF_u128;
    assert_eq!(text(r#""base32""#, 128, id), ulid::Ulid::from(id).to_string());
    assert_eq!(text(r#""uuid""#, 128, id), uuid::Uuid::from_u128(id).to_string());
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    let refusal = |json: &str, bits| Encoding::of(&source(json), bits, Some(&KEY), b"").unwrap_err().to_string();
    for (json, bits, said) in [
        (r#"{"form":"uuid","length":36}"#, 128, "uuid takes no length"),
        (r#"{"form":"base62","length":10}"#, 64, "11 are needed"),
        (r#"{"form":"base62","alphabet":"ab"}"#, 64, "base62 takes no alphabet"),
        (r#"{"form":"decimal","length":19}"#, 64, "20 are needed"),
        (
            r#"{"form":"ff1","length":10}"#,
            64,
            "10 characters out of 10 do not hold numbers up to 18446744073709551615: 20 are needed",
        ),
        (r#"{"form":"ff1","length":65}"#, 64, "at most 64"),
        (r#"{"form":"ff1","alphabet":"0"}"#, 64, "is not an alphabet"),
        (r#"{"form":"ff1","alphabet":"00"}"#, 64, "each once"),
        (r#"{"form":"ff1","alphabet":"aé"}"#, 64, "printable ASCII"),
        (r#"{"form":"sqids","alphabet":"ab"}"#, 64, "sqids cannot take this alphabet"),
        (r#"{"form":"sqids","alphabet":"abc"}"#, 64, "texts of 65 characters are too long"),
        (r#"{"form":"sqids","alphabet":"abcd"}"#, 128, "texts of 84 characters are too long"),
        (r#""uuid""#, 64, "these numbers have 64"),
        (r#""ksuid""#, 96, "a ksuid's numbers have 128 bits, and these have 96"),
        (r#"{"form":"base62","case":"lower"}"#, 64, "base62 takes no case"),
        (r#"{"form":"hex","prefix":""}"#, 64, "'' is not a prefix"),
        (r#"{"form":"hex","prefix":"a/b"}"#, 64, "1 to 32 of A-Z a-z 0-9 . _ -"),
        (r#"{"form":"uuid","prefix":"abcdefghijklmnopqrstuvwxyzabc"}"#, 128, "texts of 65 characters are too long"),
        (r#"{"form":"decimal","prefix":"abcdefghijklmnopqrstuvwxyz"}"#, 128, "texts of 65 characters are too long"),
    ] {
        let refusal = refusal(json, bits);
        assert!(refusal.contains(said), "{refusal}, and not: {said}");
    }
    let without = Encoding::of(&source(r#""ff1""#), 64, None, b"").unwrap_err();
    assert_eq!(without, InvalidEncoding::NoKey);
    assert!(serde_json::from_str::<EncodingSource>(r#""base64""#).is_err());
    assert!(serde_json::from_str::<EncodingSource>(r#"{"form":"hex","key":"00"}"#).is_err());
    assert!("base64".parse::<EncodingForm>().unwrap_err().to_string().contains("sqids, ff1"));
    assert_eq!(format!("{KEY:?}"), "Key(..)");
}

/// Digits of numbers that end before their bits do, beside those of other libraries.
#[test]
fn texts_are_as_long_as_the_last_number_needs() {
    let of = |json: &str, last: u64| {
        let written = WrittenAs::up_to(source(json), 64, last.into())?;
        written.plain(Secrets::NONE)
    };
    for (json, last, number, expected) in [
        (r#"{"form":"decimal","length":8,"prefix":"ORD-"}"#, 99_999_999, 1, format!("ORD-{:08}", 1)),
        (r#"{"form":"decimal","length":8,"prefix":"ORD-"}"#, 99_999_999, 99_999_999, "ORD-99999999".to_owned()),
        (r#""hex""#, 0xfff, 0xabc, format!("{:03x}", 0xabc)),
        (r#""base32""#, (1 << 40) - 1, 1_234_567_890, ulid::Ulid::from(1_234_567_890).to_string()[18..].to_owned()),
        (r#""base62""#, 62 * 62 - 1, 62 * 62 - 1, "zz".to_owned()),
        (r#""base32hex""#, 9, 1, "0000000000002".to_owned()),
        (r#""sqids""#, 9, 1, "Uk".to_owned()),
    ] {
        let encoding = of(json, last).unwrap();
        assert_eq!(encoding.text(number), Some(expected.clone()), "{json}");
        assert_eq!((encoding.read(&expected), encoding.packed_len()), (Some(number), 8), "{json}");
    }
    for (json, last, why) in [
        (r#"{"form":"decimal","length":8}"#, 100_000_000, "do not hold numbers up to 100000000: 9 are needed"),
        (r#"{"form":"base62","length":2}"#, 62 * 62, "3 are needed"),
    ] {
        let refusal = of(json, last).unwrap_err().to_string();
        assert!(refusal.contains(why), "{refusal}");
    }
    for (json, largest) in [
        (r#"{"form":"decimal","length":8}"#, Some(99_999_999)),
        (r#"{"form":"base32","length":2}"#, Some(1_023)),
        (r#"{"form":"ff1","length":3,"alphabet":"abcd"}"#, Some(63)),
        (r#"{"form":"base62","length":64}"#, Some(u128::MAX)),
        (r#"{"form":"sqids","length":8}"#, None),
        (r#"{"form":"ff1","length":3,"alphabet":"aa"}"#, None),
        (r#""decimal""#, None),
    ] {
        assert_eq!(source(json).largest(), largest, "{json}");
    }
}

/// A million different texts are the least that FF1 is good for.
#[test]
fn few_numbers_are_encrypted_among_a_million_texts() {
    assert_eq!(encoding(r#""ff1""#, 8).fixed_len(), Some(7));
    assert_eq!(encoding(r#""ff1""#, 33).fixed_len(), Some(10), "ten digits for numbers below 2^33");
}

#[test]
fn names_with_one_key_have_texts_of_their_own() {
    let of = |tweak: &[u8]| Encoding::of(&source(r#""ff1""#), 64, Some(&KEY), tweak).unwrap().text(1).unwrap();
    assert_ne!(of(b"coupons"), of(b"invitations"));
}

/// All of a small domain: none twice, all of the promised form, and back.
#[test]
fn consecutive_numbers_have_different_texts_that_read_back() {
    for json in [r#"{"form":"ff1","length":8,"alphabet":"ABCDEFGHJKLMNPQRSTUVWXYZ"}"#, r#""sqids""#, r#""base62""#] {
        let encoding = encoding(json, 32);
        let mut seen = BTreeSet::new();
        for number in 0..20_000u128 {
            let text = encoding.text(number).unwrap();
            assert_eq!(encoding.read(&text), Some(number), "{json}: {text}");
            assert!(encoding.fixed_len().is_none_or(|len| text.len() == len));
            assert!(seen.insert(text), "{json}: twice");
        }
    }
}

/// Encrypted, the first and the last digit of consecutive numbers are as often each as the other (chi-squared of 9 degrees of
/// freedom: above 27.9 once in a thousand keys), and a number's place says nothing of its text's (correlation).
#[test]
fn nothing_of_the_order_is_seen_in_what_ff1_writes() {
    const COUNT: u32 = 100_000;
    let encoding = encoding(r#"{"form":"ff1","length":10}"#, 33);
    let (mut first, mut last, mut sum) = ([0f64; 10], [0f64; 10], 0.0);
    let middle = f64::from(COUNT - 1) / 2.0;
    for number in 0..COUNT {
        let text = encoding.text(number.into()).unwrap();
        let digits = text.as_bytes();
        first[usize::from(digits[0] - b'0')] += 1.0;
        last[usize::from(digits[9] - b'0')] += 1.0;
        sum += (f64::from(number) - middle) * (text.parse::<f64>().unwrap() - 5e9);
    }
    let expected = f64::from(COUNT) / 10.0;
    for counts in [first, last] {
        let chi: f64 = counts.iter().map(|n| (n - expected).powi(2) / expected).sum();
        assert!(chi < 27.9, "{counts:?}: {chi}");
    }
    // The deviations of two uniform variables, and of their product's mean.
    let (sigma_number, sigma_text) = (f64::from(COUNT) / 12f64.sqrt(), 1e10 / 12f64.sqrt());
    let correlation = sum / f64::from(COUNT) / (sigma_number * sigma_text);
    assert!(correlation.abs() < 0.011, "{correlation}");
}

proptest! {
    #[test]
    fn every_encoding_is_a_bijection(
        number: u128, other: u128,
        bits in proptest::sample::select(vec![53u32, 63, 64, 96, 128]),
        json in proptest::sample::select(vec![
            r#""decimal""#, r#"{"form":"decimal","length":39}"#, r#""hex""#, r#""base32""#, r#""base62""#, r#""sqids""#,
            r#""ff1""#, r#"{"form":"ff1","length":39}"#, r#"{"form":"ff1","alphabet":"01"}"#,
        ]),
    ) {
        let Ok(encoding) = Encoding::of(&source(json), bits, Some(&KEY), b"name") else { return Ok(()) };
        let (number, other) = (number & ones(bits), other & ones(bits));
        let (text, others) = (encoding.text(number).unwrap(), encoding.text(other).unwrap());
        prop_assert_eq!(encoding.read(&text), Some(number));
        prop_assert_eq!(number == other, text == others);
        let form = match source(json) { EncodingSource::Name(form) => form, EncodingSource::Parameters(p) => p.form };
        if form.sorts() && text.len() == others.len() {
            prop_assert_eq!(number.cmp(&other), text.cmp(&others));
        }
    }

    #[test]
    fn numbers_in_a_row_are_written_as_each_of_them(
        first: u128, step in prop_oneof![Just(1u64), 2u64..1 << 20], n in 0u32..200, bits in 53u32..=128, after in proptest::sample::select(vec!["", "\n", "\",\""]),
        json in proptest::sample::select(vec![
            r#""decimal""#, r#"{"form":"decimal","length":40}"#, r#""hex""#, r#""base32""#, r#""base62""#, r#""base32hex""#,
            r#"{"form":"hex","case":"upper","prefix":"ord_"}"#, r#""sqids""#, r#""ff1""#,
        ]),
    ) {
        for encoding in [encoding(json, bits), Encoding::split96()] {
            let first = first & ones(encoding.bits() - 1);
            let run = Stretch { first, step, n };
            let (mut all, mut each) = (b"before".to_vec(), b"before".to_vec());
            encoding.write_run(run, after.as_bytes(), &mut all);
            for number in run.numbers() {
                prop_assert!(encoding.write(number, &mut each));
                each.extend_from_slice(after.as_bytes());
            }
            prop_assert!(all == each, "{} of {} from {}", n, json, first);
            prop_assert_eq!(encoding.run_len(run) + n as usize * after.len(), each.len() - "before".len());
            let mut packed = Vec::new();
            encoding.pack_run(run, &mut packed);
            let skip = 16 - encoding.packed_len();
            let wanted: Vec<u8> = run.numbers().flat_map(|number| number.to_be_bytes()[skip..].to_vec()).collect();
            prop_assert!(packed == wanted);
        }
    }

    #[test]
    fn what_is_not_written_is_not_read(text in ".{0,50}", bits in 1u32..=128) {
        for json in [r#""decimal""#, r#""hex""#, r#""base32""#, r#""base62""#, r#""sqids""#, r#""ff1""#] {
            let encoding = encoding(json, bits);
            if let Some(number) = encoding.read(&text) {
                prop_assert_eq!(encoding.text(number), Some(text.clone()));
            }
        }
    }
}
