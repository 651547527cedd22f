//! Readings of texts, and their order.

use super::*;

/// 2026-11-20T13:05:06.999Z.
const NOW: WallMs = WallMs(1_795_179_906_999);

fn default() -> Namespace {
    Namespace::default_of(Kind::String)
}

fn name(name: &str, json: &str) -> Namespace {
    Namespace::define(name.parse().unwrap(), &serde_json::from_str(json).unwrap()).unwrap()
}

fn string(template: &str) -> Namespace {
    name("n", &format!(r#"{{"kind":"string","template":"{template}"}}"#))
}

fn explain(text: &str, names: &[&Namespace]) -> Result<Explained, ExplainError> {
    super::explain(text, &Known { names, now: NOW, ..Known::NONE })
}

fn all(text: &str, names: &[&Namespace]) -> Vec<Reading> {
    let explained = explain(text, names).unwrap_or_else(|e| panic!("{text}: {e}"));
    std::iter::once(explained.reading).chain(explained.also).collect()
}

fn names_of(reading: &Reading) -> Vec<&str> {
    reading.names.iter().map(GeneratorName::as_str).collect()
}

#[test]
fn nothing_is_read_from_a_plain_number() {
    for number in ["1", "1000", "9223372036854775807"] {
        let error = explain(number, &[]).unwrap_err();
        assert!(matches!(&error, ExplainError::Plain { text, .. } if text == number), "{error}");
    }
    for other in ["0", "-1", "01", "9223372036854775808", "99999999999999999999"] {
        assert!(!matches!(explain(other, &[]), Err(ExplainError::Plain { .. })), "{other}");
    }
}

#[test]
fn letters_of_either_case_are_read_where_they_mean_the_same_digit() {
    let layouts = [
        r#"{"kind":"layout","layout":"uuid7"}"#,
        r#"{"kind":"layout","layout":"ulid"}"#,
        r#"{"kind":"layout","layout":"snowflake","encoding":"base62"}"#,
    ];
    let layouts = layouts.map(|json| name("n", json));
    let layouts: Vec<_> = layouts.iter().collect();
    let all = |text: &str| all(text, &layouts);
    for (text, own) in [
        ("35746FFF80000001", "35746fff80000001"),
        ("3ax3fzy000001", "3AX3FZY000001"),
        ("3aX3FzYOoooo1", "3AX3FZY000001"),
        ("3AX3FZY00000I", "3AX3FZY000001"),
        ("3AX3FZY00000l", "3AX3FZY000001"),
        // The example of RFC 9562.
        ("017F22E2-79B0-7CC3-98C4-DC0C0C07398F", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"),
        ("01m8c0awcn000000804c6wqtsj", "01M8C0AWCN000000804C6WQTSJ"),
    ] {
        let own = all(own);
        assert!(own.iter().filter(|reading| reading.has_spellings()).all(|one| all(text).contains(one)), "{text}");
        assert!(own.iter().any(Reading::has_spellings), "{text}");
    }
    // Behind a prefix, which is read to the letter.
    for (json, own, others) in [
        (
            r#"{"form":"base32","case":"lower","prefix":"Ord_"}"#,
            "Ord_3ax3fzy000001",
            ["Ord_3AX3FZY00000L", "Ord_3ax3fzyooOoo1"],
        ),
        (r#"{"form":"hex","case":"upper"}"#, "35746FFF80000001", ["35746fff80000001", "35746Fff80000001"]),
        (r#"{"form":"hex","prefix":"o."}"#, "o.35746fff80000001", ["o.35746FFF80000001", "o.35746Fff80000001"]),
        (r#""base32hex""#, "6lq6vvs000002", ["6LQ6VVS000002", "6lq6VVS000002"]),
    ] {
        for kind in [r#""layout","layout":"snowflake""#, r#""uniq64""#] {
            let of = name("ids", &format!(r#"{{"kind":{kind},"encoding":{json}}}"#));
            let hex = |it: &Reading| it.texts.as_ref().is_some_and(|texts| texts.hex == "35746fff80000001");
            let found = |text: &str| self::all(text, &[&of]).into_iter().find(|it| names_of(it) == ["ids"] && hex(it));
            assert_eq!(found(own).map(|it| it.form), Some(None), "{own}: it is no form of every number");
            assert!(others.iter().all(|text| found(text).is_some()), "{json}: {others:?}");
        }
    }
    let xids = name("xids", r#"{"kind":"layout","layout":"snowflake","encoding":"base32hex"}"#);
    let hex = |reading: &Reading| reading.texts.as_ref().map(|texts| texts.hex.clone());
    let both: Vec<_> = self::all("3AM3FG0000002", &[&xids]).iter().filter(|it| it.layout.is_some()).map(hex).collect();
    assert_eq!(both.len(), 2, "in Crockford's alphabet, and as an xid in capitals: {both:?}");
    let same = r#"{"kind":"layout","layout":"snowflake","encoding":{"form":"hex","case":"lower"}}"#;
    let alike = [name("a", r#"{"kind":"layout","layout":"snowflake","encoding":"hex"}"#), name("b", same)];
    let of_both = self::all("35746fff80000001", &[&alike[0], &alike[1]]);
    assert!(of_both.iter().any(|it| names_of(it) == ["a", "b"]), "one form, one reading");
    let uuids = name("u", r#"{"kind":"layout","layout":"uuid7","encoding":{"form":"uuid","prefix":"u_"}}"#);
    let uuid = |text: &str| self::explain(text, &[&uuids]).is_ok();
    assert!(uuid("u_017F22E2-79B0-7CC3-98C4-DC0C0C07398F") && !uuid("U_017f22e2-79b0-7cc3-98c4-dc0c0c07398f"));
    let rfc = &all("017F22E2-79B0-7CC3-98C4-DC0C0C07398F")[0];
    assert_eq!(rfc.time.as_deref(), Some("2022-02-22T19:22:22.000Z"));
    // Where case tells digits apart the other one is another ID.
    let of_base62 =
        |text: &str| all(text).into_iter().find(|it| it.layout.as_ref().is_some_and(|l| l.encoding == "base62"));
    assert_ne!(of_base62("0aZl8N0y58M"), of_base62("0AZL8N0Y58M"));
    // A text that is an ID as it stands is read as it stands first.
    assert_eq!(all("3AX3FZY000001")[0].form, Some(TextForm::Base32));
}

#[test]
fn a_reading_whose_token_was_leased_then_comes_first() {
    let snowflake = name("n", r#"{"kind":"layout","layout":"snowflake"}"#);
    // The first of these instants, of a year ago and before, whose number has a calendar of a Uniq64, too.
    let twice = (400..).map(|days| NOW + SpanMs::days(-days)).find_map(|at| {
        let number = (at.0 - 1_288_834_974_657) << 22 | 7 << 12 | 1;
        explain(&number.to_string(), &[&snowflake]).ok().filter(|it| !it.also.is_empty()).map(|it| (at, it))
    });
    let (at, explained) = twice.unwrap();
    assert_eq!((explained.reading.kind, explained.also[0].kind), (Kind::Layout, Kind::Uniq64));
    let leased = |reading: &Reading| {
        reading.token == Some(TokenText::Number(7)) && reading.instant("+08:00".parse().unwrap()) == Some(at)
    };
    assert_eq!(explained.clone().leased_first(leased), explained);
    let ordered = explained.clone().leased_first(|reading| !leased(reading));
    assert_eq!((ordered.reading.kind, ordered.also[0].kind), (Kind::Uniq64, Kind::Layout));
    assert_eq!(explained.clone().leased_first(|_| false), explained);
    assert_eq!(explained.clone().leased_first(|_| true), explained);
}

#[test]
fn times_of_all_kinds_are_instants() {
    let of = |text: &str| explain(text, &[&default()]).unwrap().reading;
    let utc = 1_795_132_800_000;
    for (text, ms) in [
        ("20261120abCDZ90000004277", 0),
        ("uniq64://2026-11-20_13/4095/1", 13 * 3_600_000),
        ("001203693322717102070000000001", 13 * 3_600_000 + 306_999),
    ] {
        let hours = |n: i64| WallMs(utc + ms - n * 3_600_000);
        assert_eq!(of(text).instant("+00:00".parse().unwrap()), Some(hours(0)), "{text}");
        assert_eq!(of(text).instant("+08:00".parse().unwrap()), Some(hours(8)), "{text}");
    }
}

#[test]
fn an_integer_tells_kind_time_token_serial_and_all_its_texts() {
    for text in ["uniq64://2026-11-20_13/4095/1", "3851826724463443969", "35746fff80000001", "3AX3FZY000001"] {
        let explained = explain(text, &[]).unwrap();
        let reading = &explained.reading;
        assert_eq!((reading.kind, reading.time.as_deref()), (Kind::Uniq64, Some("2026-11-20T13:00:00")));
        let token = Some(TokenText::Number(4_095));
        assert_eq!((&reading.token, reading.serial, reading.bucket), (&token, Some(1), Bucket::Hour));
        assert_eq!(reading.texts.as_ref().unwrap().base32, "3AX3FZY000001");
        assert!(explained.also.is_empty());
    }
    let explained = explain("001203693322717102070000000001", &[]).unwrap();
    assert_eq!(explained.reading.time.as_deref(), Some("2026-11-20T13:05:06.999"));
    assert_eq!((explained.reading.kind, explained.reading.form), (Kind::Uniq96, Some(TextForm::Decimal)));
}

#[test]
fn a_string_tells_the_parts_of_its_template() {
    let template = default();
    let explained = explain("20261120abCDZ90000004277", &[&template]).unwrap();
    let reading = &explained.reading;
    let (time, serial) = (reading.time.as_deref(), reading.serial);
    assert_eq!((reading.kind, time, serial), (Kind::String, Some("2026-11-20"), Some(42)));
    assert_eq!(reading.token, Some(TokenText::Characters("Z9".to_owned())));
    let parts: Vec<_> = reading.parts.iter().map(|part| part.text.as_str()).collect();
    assert_eq!(parts, ["20261120", "abCD", "Z9", "00000042", "77"]);
    assert_eq!(
        explained.to_string(),
        "20261120abCDZ90000004277\n  kind      string\n  name      default\n  time      2026-11-20 (day, in the cluster's UTC offset)\n  \
         token     Z9\n  serial    42\n  template  {date:%Y%m%d}{biz:4}{token}{serial:8}{custom:2}\n  biz       abCD\n  \
         custom    77"
    );
}

#[test]
fn a_text_that_reads_twice_gives_both_readings_in_order() {
    let forms = |text: &str, templates: &[&Namespace]| -> Vec<_> {
        all(text, templates).iter().map(|reading| (reading.kind, reading.form)).collect()
    };
    let (hex, decimal) = (Some(TextForm::Hex), Some(TextForm::Decimal));
    assert_eq!(forms("9288674231451648", &[]), [(Kind::Uniq64, decimal), (Kind::Uniq64, hex)]);
    let base32 = (Kind::Uniq96, Some(TextForm::Base32));
    assert_eq!(forms("11111111111111111111", &[]), [(Kind::Uniq64, decimal), base32]);
    let (bare, other) = ("{date:%Y%m%d}{token}{serial:6}", "{date:%Y%m%d}{token}{serial:5}{biz:1}");
    let [bare, other] = [bare, other].map(string);
    let string = (Kind::String, None);
    let text = "2026112042000001";
    assert_eq!(forms(text, &[&other, &bare]), [string, string, (Kind::Uniq64, hex)]);
    let explained = explain(text, &[&other, &bare]).unwrap();
    assert_eq!(explained.reading.template.as_deref(), other.template().map(Template::source));
}

/// Reads IDs that people meet: a snowflake of a second ago, an invoice, a code that is encrypted.
#[test]
fn what_a_name_gave_is_not_first_called_what_it_is_not() {
    let uniq64 = Namespace::default_of(Kind::Uniq64);
    let snow = name("snow", r#"{"kind":"layout","layout":"snowflake","epoch":"2024-01-01T00:00:00Z"}"#);
    let young = name("young", r#"{"kind":"layout","layout":"snowflake","epoch":"2026-11-01T00:00:00Z"}"#);
    let invoices = name("invoices", r#"{"kind":"segment"}"#);
    let odd = name("odd", r#"{"kind":"segment","increment":2,"offset":1,"first":100,"last":199}"#);
    let inbox = name("inbox", r#"{"kind":"sequence"}"#);
    let mark = "0123456789abcdef";
    let coupons = format!(
        r#"{{"kind":"layout","layout":"snowflake","encoding":{{"form":"ff1","length":20,"secret":"{mark}"}}}}"#
    );
    let codes = format!(
        r#"{{"kind":"uniq64","encoding":{{"form":"ff1","length":13,"alphabet":"0123456789ABCDEFGHJKMNPQRSTVWXYZ","secret":"{mark}"}}}}"#
    );
    let (coupons, codes) = (name("coupons", &coupons), name("codes", &codes));
    let names = [&uniq64, &snow, &young, &invoices, &odd, &inbox, &coupons, &codes];
    let told = |text: &str| -> Vec<_> {
        let readings = all(text, &names).into_iter();
        readings.map(|it| (it.kind, it.names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))).collect()
    };
    let first = |text: &str| told(text).swap_remove(0);

    // A second ago; as a Uniq64 most of such numbers are of 2002.
    let snowflakes = (1..200).map(|second| NOW + SpanMs::seconds(-second));
    let snowflakes = snowflakes.map(|at| ((at.0 - 1_704_067_200_000) << 22 | 7 << 12).to_string());
    let twice = snowflakes.inspect(|id| assert_eq!(first(id), (Kind::Layout, "snow".to_owned()), "{id}"));
    let in_2002 = |id: &String| {
        all(id, &names)
            .iter()
            .any(|it| it.kind == Kind::Uniq64 && it.time.as_ref().is_some_and(|at| at.starts_with("2002")))
    };
    assert!(twice.filter(in_2002).count() > 50);
    // A Uniq64 of this hour is a snowflake of a time to come.
    assert_eq!(told("3851826724463443969")[0], (Kind::Uniq64, "default".to_owned()));
    assert!(told("3851826724463443969").contains(&(Kind::Layout, "snow".to_owned())));

    // Layouts call every small number one of the first second of their epoch, however young that is.
    for number in ["1", "1001", "1000000"] {
        assert_eq!(told(number)[..2], [(Kind::Segment, "invoices".to_owned()), (Kind::Sequence, "inbox".to_owned())]);
        assert_eq!(told(number)[2].0, Kind::Layout, "{number}");
    }
    // Only what its axis has.
    assert_eq!(first("201"), (Kind::Segment, "invoices odd".to_owned()));
    for none in ["200", "199", "401"] {
        assert_eq!(first(none), (Kind::Segment, "invoices".to_owned()), "{none}");
    }
    let reading = &all("399", &names)[0];
    assert_eq!((names_of(reading), &reading.time, &reading.token), (vec!["invoices", "odd"], &None, &None));
    assert_eq!(explain("399", &[&odd]).unwrap().to_string(), "399\n  kind      segment in decimal\n  name      odd");

    // As base32 it is a Uniq64 of 2050.
    let code = "1M8C0AWCN0000";
    assert!(told(&code.replace('1', "6")).iter().any(|it| it.0 == Kind::Uniq64));
    for code in ["6D00000000000", "1M8C0AWCN0000"] {
        let reading = &all(code, &names)[0];
        assert_eq!((names_of(reading), &reading.time), (vec!["codes"], &None), "{code}");
        assert!(reading.hidden.unwrap().contains("ff1") && reading.hidden.unwrap().contains("--secret-file"));
    }
    assert_eq!(first("01234567890123456789"), (Kind::Layout, "coupons".to_owned()));
    // One character is none of its alphabet, or one too many.
    assert!(explain("6D0000000000U", &[&codes]).is_err() && explain("6D000000000000", &[&codes]).is_err());
    // A Uniq64 of this hour in base32 could be a code, too.
    assert_eq!(told("3AX3FZY000001")[..2], [(Kind::Uniq64, "default".to_owned()), (Kind::Uniq64, "codes".to_owned())]);
}

#[test]
fn names_that_hide_their_numbers_say_so_where_they_can_be_read_too() {
    let short = name("short", r#"{"kind":"uniq64","encoding":"sqids"}"#);
    let plain = name("plain", r#"{"kind":"uniq64","encoding":"base62"}"#);
    let text = short.written().unwrap().plain(Secrets::NONE).unwrap().text(3_851_826_724_463_443_969).unwrap();
    let reading = &all(&text, &[&short, &plain])[0];
    assert_eq!((names_of(reading), reading.serial), (vec!["short"], Some(1)));
    assert!(reading.hidden.unwrap().contains("sqids"));
    let reading = &all("3851826724463443969", &[&short, &plain])[0];
    assert_eq!((names_of(reading), reading.hidden), (vec!["plain"], None), "the other one gives no digits");
    // What may have written anything comes after all that can be told.
    let tickets = r#"{"kind":"layout","layout":"snowflake","encoding":{"form":"strategy","strategy":"tickets"}}"#;
    let tickets = name("tickets", tickets);
    let told = all("3851826724463443969", &[&tickets, &plain]);
    assert_eq!([names_of(&told[0]), names_of(&told[1])], [["plain"], ["tickets"]]);
    assert_eq!(names_of(&all("hello", &[&tickets])[0]), ["tickets"]);
}

#[test]
fn texts_of_plain_numbers_are_read_by_the_names_that_write_them() {
    let orders = name("orders", r#"{"kind":"segment","encoding":{"form":"decimal","length":8,"prefix":"ORD-"}}"#);
    let slips = name("slips", r#"{"kind":"segment","last":9999999,"encoding":{"form":"base32","prefix":"s_"}}"#);
    let codes = name("codes", r#"{"kind":"segment","encoding":{"form":"base32","length":6}}"#);
    let short = name("short", r#"{"kind":"segment","encoding":{"form":"sqids","length":8}}"#);
    let bills = name("bills", r#"{"kind":"sequence","encoding":{"form":"hex","prefix":"b-","case":"upper"}}"#);
    let secret = r#"{"form":"ff1","length":8,"prefix":"C","secret":"4ff189113fbadb15"}"#;
    let hidden = name("hidden", &format!(r#"{{"kind":"segment","encoding":{secret}}}"#));
    let names = [&bills, &codes, &hidden, &orders, &short, &slips];
    let told = |text: &str| {
        let readings = all(text, &names).into_iter();
        let number = |it: &Reading| it.texts.as_ref().map_or_else(String::new, |texts| texts.decimal.clone());
        readings.map(|it| (names_of(&it).join(" "), number(&it))).collect::<Vec<_>>()
    };
    let one = |name: &str, number: &str| vec![(name.to_owned(), number.to_owned())];
    assert_eq!(told("ORD-00000042"), one("orders", "42"));
    assert_eq!(told("s_00017"), one("slips", "39"));
    assert_eq!(told("s_0oo17"), one("slips", "39"), "in other letters");
    assert_eq!(told("000z7a"), one("codes", "31978"));
    assert_eq!(told("b-00000000000000FF"), one("bills", "255"));
    assert_eq!(told("C12345678")[0], ("hidden".to_owned(), String::new()));
    let text = short.written().unwrap().plain(Secrets::NONE).unwrap().text(7).unwrap();
    assert_eq!(told(&text)[0], ("short".to_owned(), "7".to_owned()));
    // Numbers leave packed, too, but for those that are hidden.
    assert_eq!(told("42")[0].0, "codes orders slips");
    assert_eq!(told("42")[1].0, "bills");
    // No place has that number.
    let names = [&bills, &codes, &hidden, &orders, &slips];
    // Digits that are a text, too, are read both ways.
    let both = told("123456");
    assert!(both.iter().any(|(names, _)| names.contains("codes") && !names.contains("orders")), "{both:?}");
    assert!(both.iter().any(|(names, _)| names.contains("codes") && names.contains("orders")), "{both:?}");
    for none in ["ORD-00000000", "ORD-0000042", "ORD-000000042", "s_ZZZZZ", "C1234567", "x12345678"] {
        assert!(explain(none, &names).is_err(), "{none}");
    }
    let reading = explain("ORD-00000042", &[&orders]).unwrap().to_string();
    assert_eq!(
        reading,
        "ORD-00000042\n  kind      segment\n  name      orders\n  decimal   42\n  hex       000000000000002a\n  base32    000000000001A"
    );
}

#[test]
fn a_reading_says_a_bounded_number_of_names() {
    let many: Vec<_> = (0..NAMES_MAX + 3).map(|n| name(&format!("n{n}"), r#"{"kind":"segment"}"#)).collect();
    let explained = explain("7", &many.iter().collect::<Vec<_>>()).unwrap();
    assert_eq!((explained.reading.names.len(), explained.reading.more_names), (NAMES_MAX, 3));
    assert!(explained.to_string().ends_with("or n15 or one of 3 more"), "{explained}");
    let layouts: Vec<_> = (0..READINGS_MAX + 3)
        .map(|n| {
            name(
                "n",
                &format!(
                    r#"{{"kind":"layout","layout":"snowflake","epoch":"2020-01-01T00:{:02}:{:02}Z"}}"#,
                    n / 60,
                    n % 60
                ),
            )
        })
        .collect();
    assert_eq!(explain("7", &layouts.iter().collect::<Vec<_>>()).unwrap().also.len() + 1, READINGS_MAX);
}

/// An order number of digits alone reads as a Uniq96 of the year 2514 too; a Uniq64 of 2026 may look like a date of
/// the year 3851. Neither is what its reader means.
#[test]
fn the_likeliest_reading_comes_first() {
    let explained = explain("202611200001420000000177", &[&default()]).unwrap();
    assert_eq!((explained.reading.kind, explained.reading.time.as_deref()), (Kind::String, Some("2026-11-20")));
    assert_eq!(explained.also.iter().map(|r| r.kind).collect::<Vec<_>>(), [Kind::Uniq96]);
    let template = string("{date:%Y%m%d}{token}{serial:9}");
    let explained = explain("3851010108594495488", &[&template]).unwrap();
    assert_eq!((explained.reading.kind, &explained.reading.time.unwrap()[..4]), (Kind::Uniq64, "2026"));
    assert_eq!(explained.also.iter().map(|r| r.kind).collect::<Vec<_>>(), [Kind::String]);
}

#[test]
fn what_is_no_id_is_refused_with_the_nearest_reason() {
    let template = default();
    for (text, reason) in [
        ("", "no uniq64 or uniq96"),
        ("hello", "1 templates"),
        ("uniq64://2026-13-20_13/1/1", "no month 13"),
        ("uniq96://2026-11-20_13:05:06_999/65536/1", "token to 65535"),
        ("35e46fff80000001", "no month 15"),
        ("20261301abCDZ90000004277", "1 templates"),
        (&"9".repeat(10_000), "10000 bytes"),
    ] {
        let refusal = explain(text, &[&template]).unwrap_err().to_string();
        assert!(refusal.contains(reason), "{text}: {refusal}");
    }
}

/// The keys that programs read, at the top of the document.
#[test]
fn as_json_the_fields_stand_at_the_top() {
    let json = |text, names: &[&Namespace]| serde_json::to_value(explain(text, names).unwrap()).unwrap();
    let integer = json("35746fff80000001", &[]);
    assert_eq!(
        integer,
        serde_json::json!({
            "id": "35746fff80000001", "kind": "uniq64", "form": "hex", "time": "2026-11-20T13:00:00",
            "bucket": "hour", "token": 4095, "serial": 1,
            "texts": {
                "decimal": "3851826724463443969", "hex": "35746fff80000001", "base32": "3AX3FZY000001",
                "uri": "uniq64://2026-11-20_13/4095/1"
            }
        })
    );
    let string = json("20261120abCDZ90000004277", &[&default()]);
    assert_eq!((&string["kind"], &string["token"], &string["serial"]), (&"string".into(), &"Z9".into(), &42.into()));
    assert_eq!(string["parts"][1], serde_json::json!({ "part": "biz", "text": "abCD" }));
}
