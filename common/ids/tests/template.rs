//! Promises of string IDs, for every template that is accepted.
// Helpers of tests are not seen as tests by the lints.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use chrono::Datelike as _;
use ids::calendar::{DayBucket, UtcOffset};
use ids::kind::{Known, explain};
use ids::namespace::{Definition, Namespace, StringSpec};
use ids::template::{CallerError, CallerParts, DEFAULT_TEMPLATE, PartKind, Template, TemplateError};
use ids::token::{TokenFamily, TokenKey, TokenValue};
use proptest::prelude::*;

/// 9999-12-31.
const DAY_LAST: u32 = 2_932_896;

fn token(family: TokenFamily, value: u32) -> TokenKey {
    TokenKey { family, value: TokenValue(value % family.size(0)) }
}

/// Accepted templates of every make: all fields, in any order, with literals between them.
fn template() -> impl Strategy<Value = Template> {
    let date =
        prop_oneof![Just("%Y%m%d"), Just("%F"), Just("%Y%j"), Just("%d.%m.%Y"), Just("%y/%Y/%m/%d"), Just("%Y%%%j")];
    let serial = prop_oneof![
        (1..=19u32).prop_map(|n| format!("{{serial:{n}}}")),
        (1..=12u32).prop_map(|n| format!("{{serial:{n}:36}}"))
    ];
    let caller =
        |name: &'static str| prop_oneof![Just(String::new()), (1..=9u32).prop_map(move |n| format!("{{{name}:{n}}}"))];
    let literal = "(ORD-|\\{\\{|\\}\\}|x9|/|)";
    let fields =
        (date.prop_map(|d| format!("{{date:{d}}}")), serial, caller("biz"), caller("custom"), literal, literal)
            .prop_map(|(date, serial, biz, custom, one, other)| {
                vec![date, serial, biz, custom, one, other, "{token}".to_owned()]
            })
            .prop_shuffle();
    let check = prop_oneof![Just(""), Just("{check:luhn}"), Just("{check:mod97}")];
    let family = prop_oneof![Just(TokenFamily::String2), Just(TokenFamily::String3)];
    (fields, check, "[a-z.]{0,3}", family).prop_map(|(fields, check, tail, family)| {
        Template::parse(&format!("{}{check}{tail}", fields.concat()), family).unwrap()
    })
}

fn caller(template: &Template, seed: &str) -> (CallerParts, [String; 2]) {
    let part = |len: Option<u32>, from: usize| -> String {
        seed.chars().cycle().skip(from).take(len.unwrap_or(0) as usize).collect()
    };
    let texts = [part(template.biz_len(), 0), part(template.custom_len(), 3)];
    let [biz, custom] = &texts;
    (template.check_caller(Some(biz), Some(custom)).unwrap(), texts)
}

fn write(template: &Template, day: u32, key: TokenKey, parts: &CallerParts, serial: u64) -> String {
    let bound = template.bind(UtcOffset::default(), DayBucket(day), key).unwrap();
    let mut out = b"kept\n".to_vec();
    bound.write(parts, serial, &mut out);
    assert_eq!(&out[..5], b"kept\n");
    String::from_utf8(out[5..].to_vec()).unwrap()
}

fn named(template: &Template) -> Namespace {
    let token_type = match template.family() {
        TokenFamily::String3 => "string3-include-letter",
        _ => "string2-include-letter",
    };
    let (template, token_type) = (Some(template.source().to_owned()), Some(token_type.to_owned()));
    let definition = Definition::String(StringSpec { template, token_type, ..StringSpec::default() });
    Namespace::define("n".parse().unwrap(), &definition).unwrap()
}

proptest! {
    #[test]
    fn what_is_written_is_taken_apart_again(
        template in template(), day in 0..=DAY_LAST, value: u32, seed in "[A-Za-z0-9]{8}", serial: u64,
    ) {
        let key = token(template.family(), value);
        let serial = serial % template.capacity();
        let (parts, [biz, custom]) = caller(&template, &seed);
        let id = write(&template, day, key, &parts, serial);
        prop_assert_eq!(id.len(), template.len());
        prop_assert!(id.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\'));
        let taken = template.read(&id).unwrap();
        prop_assert_eq!((taken.day, taken.token, taken.serial), (DayBucket(day), key, serial));
        let text = |kind| taken.parts.iter().filter(|p| p.part == kind).map(|p| p.text.as_str()).collect::<String>();
        prop_assert_eq!((text(PartKind::Biz), text(PartKind::Custom)), (biz, custom));
        prop_assert_eq!(taken.parts.iter().map(|p| p.text.as_str()).collect::<String>(), id.clone());
        prop_assert_eq!(template.take_apart(&id).unwrap(), taken.parts);
        let read = explain(&id, &Known { names: &[&named(&template)], ..Known::NONE });
        prop_assert!(read.is_ok());
    }

    /// The date is what chrono writes with the same specifiers.
    #[test]
    fn the_date_is_chronos(day in 0..=DAY_LAST, format in "(%Y%m%d|%F|%Y-%j|%d\\.%m\\.%Y|%y%Y%m%d|%%%Y%j)") {
        let template = Template::parse(&format!("{{date:{format}}}{{token}}{{serial:1}}"), TokenFamily::String2).unwrap();
        let id = write(&template, day, token(TokenFamily::String2, 0), &CallerParts::default(), 0);
        let date = UtcOffset::default().date(DayBucket(day)).unwrap();
        prop_assert_eq!(id, format!("{}000", date.format(&format)));
    }

    /// Two IDs are one only if day, token and serial are, whatever the caller gives.
    #[test]
    fn injective(
        template in template(), day in 0..DAY_LAST, value in 0u32..99, serial: u64,
        seeds in ("[A-Za-z0-9]{8}", "[A-Za-z0-9]{8}"), moved in (0u32..2, 0u32..2, 0u64..2),
    ) {
        let serial = serial % (template.capacity() - 1);
        let (days, values, serials) = moved;
        let (one, other) = (caller(&template, &seeds.0).0, caller(&template, &seeds.1).0);
        let id = write(&template, day, token(template.family(), value), &one, serial);
        let moved_id = write(&template, day + days, token(template.family(), value + values), &other, serial + serials);
        if moved == (0, 0, 0) {
            prop_assert_eq!(id == moved_id, one == other);
        } else {
            prop_assert_ne!(id, moved_id);
        }
    }

    /// One wrong digit anywhere in what a check covers, or in the check itself, is refused.
    #[test]
    fn a_single_wrong_digit_is_noticed(
        check in "(luhn|mod97)", day in 0..=DAY_LAST, value in 0u32..1_296, serial in 0u64..100_000_000,
        place in prop::sample::Index::arbitrary(), by in 1u8..10,
    ) {
        let source = format!("{{date:%Y%m%d}}-{{token}}-{{serial:8}}{{check:{check}}}");
        let template = Template::parse(&source, TokenFamily::String2).unwrap();
        let id = write(&template, day, token(TokenFamily::String2, value), &CallerParts::default(), serial);
        let digits: Vec<usize> = (0..id.len()).filter(|i| id.as_bytes()[*i].is_ascii_digit()).collect();
        let mut wrong = id.clone().into_bytes();
        let digit = &mut wrong[*place.get(&digits)];
        *digit = b'0' + (*digit - b'0' + by) % 10;
        prop_assert!(template.read(&id).is_ok());
        prop_assert!(template.read(std::str::from_utf8(&wrong).unwrap()).is_err());
    }

    #[test]
    fn foreign_texts_never_panic(
        source in prop_oneof![any::<String>(), "(\\{(date|biz|token|serial|check|custom)(:[%YmdjFy0-9:a-z]{0,9})?\\}|[{}é%:]){0,8}"],
        id in prop_oneof![any::<String>(), "[0-9A-Zé]{22,24}"],
    ) {
        if let Ok(template) = Template::parse(&source, TokenFamily::String2) {
            prop_assert!(template.len() <= Template::LEN_MAX);
            prop_assert_eq!(template.source(), &source);
        }
        let template = Template::parse(DEFAULT_TEMPLATE, TokenFamily::String2).unwrap();
        let _ = (template.read(&id), template.check_caller(Some(&id), Some(&source)));
        let _ = explain(&id, &Known { names: &[&named(&template)], ..Known::NONE });
    }

    /// A text that is read is written the same again, so nothing but an ID's own text is taken.
    #[test]
    fn what_is_read_is_written_the_same(template in template(), day in 0..=DAY_LAST, place: prop::sample::Index, with in "[ -~]") {
        let (parts, _) = caller(&template, "aZ09bY18");
        let mut text = write(&template, day, token(template.family(), 7), &parts, 1 % template.capacity());
        let at = place.index(text.len());
        text.replace_range(at..=at, &with);
        if let Ok(taken) = template.read(&text) {
            let part = |kind| taken.parts.iter().find(|p| p.part == kind).map(|p| p.text.as_str());
            let parts = template.check_caller(part(PartKind::Biz), part(PartKind::Custom)).unwrap();
            prop_assert_eq!(write(&template, taken.day.0, taken.token, &parts, taken.serial), text);
        }
    }
}

#[test]
fn golden() {
    let family = TokenFamily::String2;
    let z9 = TokenKey::parse(family, "Z9").unwrap();
    let day = 20_777; // 2026-11-20
    for (source, serial, id) in [
        (DEFAULT_TEMPLATE, 0, "20261120abCDZ90000000077"),
        (DEFAULT_TEMPLATE, 99_999_999, "20261120abCDZ99999999977"),
        ("{date:%Y%m%d}{token}{serial:4:36}", 36 * 36 * 36 * 36 - 1, "20261120Z9ZZZZ"),
        ("{date:%Y%m%d}{token}{serial:4:36}", 35, "20261120Z9000Z"),
        ("ORD-{date:%Y%j}-{token}-{serial:6}-{check:mod97}", 42, "ORD-2026324-Z9-000042-78"),
        ("{date:%Y%m%d}{token}{serial:8}{check:luhn}", 42, "20261120Z9000000421"),
        ("{{{date:%F}}}{token}{serial:1}", 9, "{2026-11-20}Z99"),
    ] {
        let template = Template::parse(source, family).unwrap();
        let some = |len: Option<u32>, text| len.map(|_| text);
        let parts = template.check_caller(some(template.biz_len(), "abCD"), some(template.custom_len(), "77")).unwrap();
        assert_eq!(write(&template, day, z9, &parts, serial), id);
    }
}

/// A counter past the day's last serial writes what its remainder would: it never reaches the neighbouring fields.
#[test]
fn a_serial_past_the_capacity_stays_in_its_field() {
    let template = Template::parse("{date:%F}{token}{serial:3}x", TokenFamily::String2).unwrap();
    let id = |serial| write(&template, 0, token(TokenFamily::String2, 1), &CallerParts::default(), serial);
    assert_eq!(id(1_007), id(7));
    assert_eq!(id(u64::MAX), id(u64::MAX % 1_000));
}

#[test]
fn years_beyond_four_digits_and_foreign_tokens_are_refused() {
    let template = Template::parse(DEFAULT_TEMPLATE, TokenFamily::String2).unwrap();
    let key = token(TokenFamily::String2, 1);
    let bind = |day, key| template.bind(UtcOffset::default(), DayBucket(day), key);
    assert_eq!(UtcOffset::default().date(DayBucket(DAY_LAST)).unwrap().year(), 9_999);
    assert!(bind(DAY_LAST, key).is_ok());
    assert_eq!(bind(DAY_LAST + 1, key), Err(TemplateError::YearOutOfRange { year: 10_000 }));
    assert!(bind(u32::MAX, key).is_err());
    for foreign in [
        token(TokenFamily::String3, 1),
        TokenKey { family: TokenFamily::Uint, value: TokenValue(1) },
        TokenKey { family: TokenFamily::String2, value: TokenValue(1_296) },
    ] {
        assert!(matches!(bind(0, foreign), Err(TemplateError::ForeignToken { .. })), "{foreign:?}");
    }
}

#[test]
fn callers_give_exactly_what_the_template_has() {
    let template = Template::parse(DEFAULT_TEMPLATE, TokenFamily::String2).unwrap();
    let long = "a".repeat(1_000_000);
    for (biz, custom, reason) in [
        (None, Some("77"), "biz is missing"),
        (Some(""), Some("77"), "biz is missing"),
        (Some("abcd"), None, "custom is missing"),
        (Some("abc"), Some("77"), "biz has 3 characters: this generator needs exactly 4"),
        (Some("abcde"), Some("77"), "exactly 4"),
        (Some(long.as_str()), Some("77"), "exactly 4"),
        (Some("ab d"), Some("77"), "' ' cannot stand in biz"),
        (Some("abé"), Some("77"), "'é' cannot stand in biz"),
        (Some("abcd"), Some("7\n"), "cannot stand in custom"),
    ] {
        let refusal = template.check_caller(biz, custom).unwrap_err().to_string();
        assert!(refusal.contains(reason) && refusal.len() < 200, "{refusal}");
    }
    let bare = Template::parse("{date:%F}{token}{serial:3}", TokenFamily::String2).unwrap();
    assert_eq!(bare.check_caller(Some("a"), None), Err(CallerError::Superfluous { part: PartKind::Biz }));
    assert_eq!(bare.check_caller(Some(""), None), Ok(CallerParts::default()));
}

#[test]
fn a_template_reads_back_from_json_and_is_proved_again() {
    let template = Template::parse(DEFAULT_TEMPLATE, TokenFamily::String3).unwrap();
    let json = serde_json::to_string(&template).unwrap();
    assert_eq!(serde_json::from_str::<Template>(&json).unwrap(), template);
    let forged = json.replace("{token}", "");
    assert!(serde_json::from_str::<Template>(&forged).unwrap_err().to_string().contains("two agents"));
}
