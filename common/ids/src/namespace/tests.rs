use super::*;
use crate::calendar::UtcOffset;
use crate::kind::UNIQ64;
use crate::setting::predefined;
use crate::template::DEFAULT_TEMPLATE;

fn name(text: &str) -> GeneratorName {
    text.parse().unwrap()
}

#[test]
fn what_is_left_out_of_a_definition_is_as_in_default() {
    let orders: GeneratorName = "orders".parse().unwrap();
    let of = |definition: &Definition| Namespace::define(orders.clone(), definition).unwrap().definition();
    assert_eq!(of(&Definition::default()), Namespace::default_of(Kind::Uniq64).definition());
    let default = Namespace::default_of(Kind::String).definition();
    assert_eq!(of(&Definition::string(DEFAULT_TEMPLATE)), default);
}

fn string(template: &str) -> Definition {
    Definition::string(template)
}

fn uniq64() -> Uniq64Spec {
    Uniq64Spec::default()
}

#[test]
fn names_are_short_and_of_few_characters() {
    for good in ["a", "default", "order-no_2", "0", "payment-reference", "leaf.segment..", &"n".repeat(63)] {
        assert_eq!(name(good).as_str(), good);
    }
    for bad in ["", &"n".repeat(64), "Orders", "a b", "a/b", "ä", "a\0", ".", "..", ".a"] {
        let refusal = bad.parse::<GeneratorName>().unwrap_err().to_string();
        assert!(refusal.contains("1 to 63 of a-z 0-9 . _ -, and no dot in front"), "{refusal}");
    }
}

#[test]
fn the_defaults_are_what_their_definitions_define() {
    let defaults: Vec<_> = predefined().collect();
    for namespace in &defaults {
        assert_eq!(Namespace::define(namespace.name().clone(), &namespace.definition()).as_ref(), Ok(namespace));
    }
    let [number, text] = <[_; 2]>::try_from(defaults).unwrap();
    assert_eq!((number.token_type(), number.template()), (Some(TokenType::Uint2), None));
    assert_eq!(text.token_type(), Some(TokenType::String2IncludeLetter));
    assert_eq!(text.template().map(Template::source), Some(DEFAULT_TEMPLATE));
    assert_eq!(Namespace::define(name("default"), &Definition::default()), Ok(number));
    assert_eq!(Namespace::define(name("default"), &string(DEFAULT_TEMPLATE)), Ok(text));
}

#[test]
fn parts_that_do_not_fit_each_other_are_refused() {
    let short = || StringSpec::of("{date:%F}{token}{serial:3}");
    let typed = |text: &str| Some(text.to_owned());
    let of_short = |token_type| Definition::String(StringSpec { token_type: typed(token_type), ..short() });
    for (definition, reason) in [
        (Definition::String(StringSpec::default()), "needs a template"),
        (string("{date:%F}{token}"), "serial is missing"),
        (Definition::Uniq64(Uniq64Spec { token_type: typed("uint1"), ..uniq64() }), "it takes uint2"),
        (of_short("uint2"), "string3 types"),
        (of_short("string4"), "not a token type"),
        (Definition::Uniq64(Uniq64Spec { everyday_reset: Some(true), ..uniq64() }), "\"scope\":\"own\""),
        (Definition::Uniq64(Uniq64Spec { step: Some(999), ..uniq64() }), "1000 to 10000000"),
        (Definition::Uniq64(Uniq64Spec { step: Some(Namespace::STEP_MAX + 1), ..uniq64() }), "1000 to 10000000"),
        (Definition::String(StringSpec { step: Some(1), ..short() }), "15 to 15, or leave it out"),
        (Definition::String(StringSpec { step: Some(16), ..short() }), "15 to 15"),
    ] {
        let refusal = Namespace::define(name("n"), &definition).unwrap_err().to_string();
        assert!(refusal.contains(reason), "{refusal}");
    }
    assert_eq!(Namespace::define(name("n"), &Definition::String(short())).unwrap().step(), 15);
    let wide = Namespace::define(name("n"), &of_short("string3-only-number")).unwrap();
    assert_eq!(wide.template().unwrap().len(), 16);
}

#[test]
fn the_checksum_is_stable_and_tells_definitions_apart() {
    assert_eq!(
        [&b""[..], b"a", b"foobar"].map(|bytes| fnv1a(bytes.iter())),
        [0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8]
    );
    let of = |token_type: &str| {
        Definition::String(StringSpec { token_type: Some(token_type.to_owned()), ..StringSpec::of(DEFAULT_TEMPLATE) })
    };
    let definitions = [
        ("n", Definition::default()),
        ("m", Definition::default()),
        ("n", Definition::Uniq64(Uniq64Spec { everyday_reset: Some(true), scope: Some(Scope::Own), ..uniq64() })),
        ("n", string(DEFAULT_TEMPLATE)),
        ("n", string("{date:%F}{token}{serial:8}")),
        ("n", of("string3-only-number")),
        ("n", of("string2-only-number")),
    ];
    let sums: std::collections::BTreeSet<_> =
        definitions.iter().map(|(n, d)| Namespace::define(name(n), d).unwrap().checksum()).collect();
    assert_eq!(sums.len(), definitions.len());
    let other_step = Definition::Uniq64(Uniq64Spec { step: Some(7_000), ..uniq64() });
    let [one, other] = [Definition::default(), other_step].map(|d| Namespace::define(name("n"), &d).unwrap());
    assert_eq!(one.checksum(), other.checksum());
    assert_ne!(one, other);
}

/// Another program worked these out. They stand in serial files: other bytes need another version and a migration.
#[test]
fn golden_checksums_of_the_defaults() {
    assert_eq!(
        predefined().map(|namespace| namespace.checksum()).collect::<Vec<_>>(),
        [0x5457_d825_34a3_0a6f, 0xde23_656b_a35c_c656]
    );
}

/// Worked out from the text of each by another program, too.
#[test]
fn golden_checksums_of_layouts_and_of_encodings() {
    for (json, sum) in [
        (
            r#"{"kind":"layout","layout":"snowflake","spread":16,"encoding":{"form":"base62","prefix":"ord_"}}"#,
            0x0c66_1259_f4fb_5639,
        ),
        (
            r#"{"kind":"layout","layout":"ulid","epoch":"2024-01-01T00:00:00Z","ahead_max_ms":5,"scope":"own"}"#,
            0x54b0_fbd3_59db_bfaf,
        ),
        (r#"{"kind":"uniq64","encoding":{"form":"base62","prefix":"ord_"},"step":2000}"#, 0xd94a_25a3_b281_ccfa),
        (r#"{"kind":"segment","encoding":{"form":"decimal","length":8,"prefix":"ORD-"}}"#, 0xc353_3b89_09f4_c531),
        (r#"{"kind":"segment"}"#, 0x0ae8_21ab_c383_985d),
    ] {
        assert_eq!(layout(json).unwrap().checksum(), sum, "{json}");
    }
}

#[test]
fn a_blocks_number_tells_its_cluster_and_its_definition() {
    let [orders, other] = ["{date:%F}{token}{serial:8}", "{date:%F}{token}{serial:7}"]
        .map(|template| Namespace::define(name("orders"), &string(template)).unwrap());
    let (here, there) = (ClusterId(1), ClusterId(1 << 127));
    let sum = orders.checksum_in(here);
    assert!(Namespace::same_cluster(sum, here) && !Namespace::same_cluster(sum, there));
    assert!(Namespace::same_cluster(other.checksum_in(here), here) && other.checksum_in(here) != sum);
    assert_ne!(orders.checksum_in(there), sum);
    assert!(!Namespace::same_cluster(orders.checksum(), here), "one made before clusters were told apart");
    // It stands in serial files.
    assert_eq!(format!("{sum:016x}"), "9892ec446b65a730");
    let default = Namespace::default_of(Kind::Uniq64);
    assert_eq!(default.checksum_in(here), default.checksum());
}

#[test]
fn json_and_records_read_back_and_are_checked() {
    let json = r#"{"kind":"string","template":"{date:%F}{token}{serial:4}","everyday_reset":false,"step":156}"#;
    let definition: Definition = serde_json::from_str(json).unwrap();
    let namespace = Namespace::define(name("orders"), &definition).unwrap();
    assert_eq!((namespace.step(), namespace.everyday_reset()), (156, false));
    let bytes = bincode::serialize(&namespace).unwrap();
    assert_eq!(bincode::deserialize::<Namespace>(&bytes).unwrap(), namespace);
    let foreign = bincode::serialize(&("Orders", 0u32)).unwrap();
    assert!(bincode::deserialize::<Namespace>(&foreign).is_err());
}

fn layout(json: &str) -> Result<Namespace, NamespaceError> {
    Namespace::define(name("ids"), &serde_json::from_str(json).unwrap())
}

/// The reason why such a body is not taken, be it that it cannot be read or that nothing can be defined by it.
fn refusal(json: &str) -> String {
    let definition = crate::json::read(json.as_bytes());
    let defined = definition.and_then(|said| Namespace::define(name("ids"), &said).map_err(|e| e.to_string()));
    defined.expect_err(json)
}

#[test]
fn what_cannot_be_read_is_refused_by_kind_and_field() {
    for (json, why) in [
        (
            r#"{"kind":"uniq64","steps":1}"#,
            "a generator of kind uniq64: steps: unknown field `steps`, expected one of `token_type`",
        ),
        (
            r#"{"kind":"segment","step":"many"}"#,
            "a generator of kind segment: step: invalid type: string \"many\", expected u32",
        ),
        (
            r#"{"kind":"segment","first":-1}"#,
            "a generator of kind segment: first: invalid type: integer `-1`, expected a whole number",
        ),
        (r#"{"kind":"layout","encoding":{"form":"hex","x":1}}"#, "a generator of kind layout: encoding"),
        (r#"{"kind":"uniq96"}"#, "a generator of kind uniq96: there are no names of it"),
        (r#"{"kind":7}"#, "invalid type: integer `7`"),
        (r#"{"step":7}"#, "missing field `kind`"),
        (r#"{"kind":"uniq64","step":1,"step":2}"#, "'step' is there twice"),
        (r#"{"kind":"uniq64","kind":"segment"}"#, "'kind' is there twice"),
        (r#"{"kind":"uniq64","step":null}"#, "null says nothing"),
        (r#"["uniq64"]"#, "invalid type: sequence"),
    ] {
        let refusal = refusal(json);
        assert!(refusal.contains(why), "{json}: {refusal}");
    }
}

/// A name in a list of them: what is unknown among the rest is refused there, too.
#[test]
fn a_definition_stands_beside_other_fields() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Named {
        name: String,
        #[serde(flatten)]
        definition: Definition,
    }
    let json = r#"{"name":"a","kind":"segment","first":"9007199254740993","step":5}"#;
    let named: Named = serde_json::from_str(json).unwrap();
    assert!(matches!(&named.definition, Definition::Segment(SegmentSpec { first: Some(9_007_199_254_740_993), .. })));
    assert_eq!(serde_json::to_string(&named).unwrap(), json);
    let refusal = serde_json::from_str::<Named>(r#"{"name":"a","kind":"segment","width":5}"#).unwrap_err().to_string();
    assert!(refusal.contains("a generator of kind segment: width: unknown field `width`"), "{refusal}");
}

#[test]
fn a_layout_is_defined_by_a_presets_name_or_by_its_fields() {
    let snowflake = layout(r#"{"kind":"layout","layout":"snowflake"}"#).unwrap();
    assert_eq!(
        (snowflake.kind(), snowflake.token_type(), snowflake.capacity()),
        (Kind::Layout, Some(TokenType::Uint10Bit), 4_096)
    );
    let same = r#"{"kind":"layout","bits":64,"epoch":"2010-11-04T01:42:54.657Z","unit_ms":1,
        "fields":["zero:1","time:41","token:10","serial:12"]}"#;
    for again in [layout(same).unwrap(), layout(r#"{"kind":"layout","layout":"leaf"}"#).unwrap()] {
        assert!(again.same_ids(&snowflake) && again.is_met_by(&snowflake) && again.checksum() == snowflake.checksum());
        assert!(again.shares_ticks(&snowflake));
    }
    let cut = r#"{"kind":"layout","bits":64,"epoch":"2010-11-04T01:42:54.657Z","unit_ms":1,
        "fields":["zero:1","time:20","time:21","token:10","serial:6","serial:6"]}"#;
    let cut = layout(cut).unwrap();
    assert!(cut.shares_ticks(&snowflake) && cut.is_met_by(&snowflake) && cut.checksum() == snowflake.checksum());
    for other in [
        r#"{"kind":"layout","layout":"snowflake","epoch":"2024-01-01T00:00:00Z"}"#,
        r#"{"kind":"layout","layout":"snowflake","ahead_max_ms":0}"#,
        r#"{"kind":"layout","layout":"snowflake","encoding":"base62"}"#,
        r#"{"kind":"layout","layout":"snowflake","scope":"own"}"#,
        r#"{"kind":"layout","layout":"discord"}"#,
    ] {
        let other = layout(other).unwrap();
        assert!(!other.same_ids(&snowflake));
        let definition = serde_json::to_string(&other.definition()).unwrap();
        assert_eq!(layout(&definition).as_ref(), Ok(&other), "{definition}");
        let again: Namespace = bincode::deserialize(&bincode::serialize(&other).unwrap()).unwrap();
        assert_eq!(again, other);
    }
    let encoded = layout(r#"{"kind":"layout","layout":"discord","encoding":{"form":"sqids","length":12}}"#).unwrap();
    assert_eq!(encoded.token_type(), Some(TokenType::Uint10Bit));
    let wide = layout(r#"{"kind":"layout","layout":"sonyflake"}"#).unwrap();
    assert_eq!(wide.token_type(), Some(TokenType::Uint2));
    let again: Namespace = bincode::deserialize(&bincode::serialize(&encoded).unwrap()).unwrap();
    assert_eq!(again, encoded);
}

#[test]
fn what_does_not_belong_to_a_kind_is_refused_by_name() {
    for (json, said) in [
        (r#"{"kind":"layout"}"#, "bits is missing: say the name of a layout"),
        (r#"{"kind":"layout","layout":"snowflake","step":5}"#, "kind layout: step: unknown field"),
        (
            r#"{"kind":"layout","layout":"snowflake","everyday_reset":true}"#,
            "kind layout: everyday_reset: unknown field",
        ),
        (
            r#"{"kind":"layout","layout":"snowflake","template":"{date:%F}{token}{serial:8}"}"#,
            "kind layout: template: unknown field",
        ),
        (r#"{"kind":"uniq64","template":"{date:%F}{token}{serial:8}"}"#, "kind uniq64: template: unknown field"),
        (r#"{"kind":"layout","layout":"snowflake","token_type":"string2-only-number"}"#, "it takes the uint types"),
        (r#"{"kind":"layout","layout":"snowflake","bits":64}"#, "leave out bits"),
        (r#"{"kind":"layout","layout":"snowflake","encoding":"uuid"}"#, "a uuid has 128 bits"),
        (r#"{"kind":"layout","layout":"snowflake","encoding":"ff1"}"#, "ff1 needs a secret"),
        (r#"{"kind":"uniq64","layout":"snowflake"}"#, "kind uniq64: layout: unknown field"),
        (
            r#"{"kind":"string","template":"{date:%F}{token}{serial:8}","encoding":"hex"}"#,
            "kind string: encoding: unknown field",
        ),
    ] {
        let refusal = refusal(json);
        assert!(refusal.contains(said), "{json}: {refusal}");
    }
    let uid = layout(r#"{"kind":"layout","layout":"uidgenerator"}"#).unwrap();
    let refusal = uid.check_new(WallMs(1_763_856_000_000)).unwrap_err().to_string();
    assert!(refusal.contains("its time ends at 2024-11-20T13:24:16.000Z"), "{refusal}");
    assert_eq!(Namespace::default_of(Kind::Uniq64).check_new(WallMs(i64::MAX)), Ok(()));
}

/// The bytes of a record.
fn record(namespace: &Namespace) -> Vec<u8> {
    bincode::serialize(namespace).unwrap()
}

#[test]
fn plugins_are_kept_in_the_record_and_change_nothing_else_of_it() {
    let plugins: Vec<PluginSpec> = serde_json::from_str(
        r#"[{"plugin":"quota","order":-3,"by":"caller","per_day":5},{"plugin":"mine","who":["a"]}]"#,
    )
    .unwrap();
    for definition in
        [Definition::default(), string("A{date:%Y%m%d}{token}{serial:6}"), Definition::layout("snowflake")]
    {
        let plain = Namespace::define(name("orders"), &definition).unwrap();
        let with = definition.clone().with_plugins(plugins.clone());
        let with = Namespace::define(name("orders"), &with).unwrap();
        assert_eq!(with.plugins(), plugins);
        let back: Namespace = bincode::deserialize(&record(&with)).unwrap();
        assert_eq!(back, with);
        assert_eq!(with.definition().plugins(), plugins);
        assert_eq!(Namespace::define(name("orders"), &with.definition()), Ok(with.clone()));
        // They do not say which IDs come, but a name does not change them.
        assert!(with.same_ids(&plain) && with.checksum() == plain.checksum());
        assert!(with.is_met_by(&with) && !with.is_met_by(&plain) && !plain.is_met_by(&with));
        let none = definition.with_plugins(Vec::new());
        let none = Namespace::define(name("orders"), &none).unwrap();
        assert_eq!((record(&none), &none), (record(&plain), &plain));
        assert!(plain.plugins().is_empty() && plain.definition().plugins().is_empty());
    }
}

#[test]
fn what_a_record_says_is_what_was_registered() {
    let definitions = [
        r#"{"kind":"uniq64","scope":"own","everyday_reset":true,"step":2000}"#,
        r#"{"kind":"uniq64","encoding":{"form":"base62","prefix":"ord_"},"plugins":[{"plugin":"stats"}]}"#,
        r#"{"kind":"string","template":"{date:%Y%m%d}-{biz:2}{token}{serial:6}{check:luhn}","token_type":"string3-only-number"}"#,
        r#"{"kind":"layout","layout":"leaf","epoch":"2024-01-01T00:00:00Z","ahead_max_ms":0,"encoding":"base62"}"#,
        r#"{"kind":"layout","layout":"typeid"}"#,
        r#"{"kind":"layout","bits":53,"unit_ms":86400000,"fields":["year:7","month:4","day:5","token:8","serial:29"]}"#,
        r#"{"kind":"layout","layout":"snowflake","spread":16,"token_type":"uint1","scope":"own"}"#,
        r#"{"kind":"layout","layout":"js53","encoding":{"form":"strategy","strategy":"own","parameters":{"a":1}}}"#,
        r#"{"kind":"segment","first":"9223372036854775000","last":"9223372036854775807","step":5,"step_max":7}"#,
        r#"{"kind":"segment","encoding":{"form":"ff1","length":8,"secret":"4ff189113fbadb15"},"increment":3}"#,
        r#"{"kind":"sequence","width":32,"keys_per_section":7,"set":"others","plugins":[{"plugin":"stats"}]}"#,
        r#"{"kind":"sequence","encoding":{"form":"base32","case":"lower","prefix":"in_"}}"#,
    ];
    let defined =
        definitions.map(|json| Namespace::define(name("orders"), &serde_json::from_str(json).unwrap()).unwrap());
    for namespace in predefined().collect::<Vec<_>>().iter().chain(&defined) {
        let back: Namespace = bincode::deserialize(&record(namespace)).unwrap();
        assert_eq!((&back, back.checksum()), (namespace, namespace.checksum()));
    }
}

/// A name is registered for ever, and nobody would serve this one.
#[test]
fn a_sequence_with_plugins_is_not_registered_but_can_be_read() {
    let of = |kind: &str, plugins: &str| {
        let definition = format!(r#"{{"kind":"{kind}","plugins":{plugins}}}"#);
        Namespace::define(name("orders"), &serde_json::from_str(&definition).unwrap()).unwrap()
    };
    let stats = r#"[{"plugin":"stats"}]"#;
    let sequence = of("sequence", stats);
    assert_eq!(bincode::deserialize::<Namespace>(&record(&sequence)).unwrap(), sequence);
    let refusal = sequence.check_new(WallMs(0)).unwrap_err().to_string();
    assert_eq!(refusal, "a generator of kind sequence takes no plugins: leave it out");
    assert_eq!(of("sequence", "[]").check_new(WallMs(0)), Ok(()));
    assert_eq!(of("segment", stats).check_new(WallMs(0)), Ok(()));
}

#[test]
fn plugins_that_cannot_be_kept_are_refused() {
    let with = |plugins: &str| Definition::default().with_plugins(serde_json::from_str(plugins).unwrap());
    let refusal = |of: &str, plugins: &str| Namespace::define(name(of), &with(plugins)).unwrap_err().to_string();
    let nine = [r#"{"plugin":"stats"}"#; 9].join(",");
    assert!(refusal("orders", &format!("[{nine}]")).contains("at most 8"));
    let text = "x".repeat(250);
    let long = [(); 8].map(|()| format!(r#"{{"plugin":"a","b":"{text}","c":"{text}"}}"#)).join(",");
    assert!(refusal("orders", &format!("[{long}]")).contains("384 bytes"));
    assert!(refusal("default", r#"[{"plugin":"stats"}]"#).contains("a name of its own"));
    let torn = Record { name: name("orders"), definition: r#"{"kind":"uniq64","plugins":[{"plugin":7}]}"#.to_owned() };
    assert!(matches!(Namespace::try_from(torn), Err(NamespaceError::Record(_))));
}

/// Texts of plain numbers are as long as is said, and the numbers end with them.
#[test]
fn plain_numbers_have_an_encoding_by_which_they_end() {
    let of = |json: &str| Namespace::define(name("orders"), &serde_json::from_str(json).unwrap()).unwrap();
    let last = |json: &str| of(json).segments().unwrap().last_number();
    for (json, number) in [
        (r#"{"kind":"segment","encoding":{"form":"decimal","length":8,"prefix":"ORD-"}}"#, 99_999_999),
        (r#"{"kind":"segment","encoding":{"form":"decimal","length":8},"last":99999999}"#, 99_999_999),
        (r#"{"kind":"segment","encoding":{"form":"decimal","length":8},"last":99999998}"#, 99_999_998),
        (r#"{"kind":"segment","encoding":{"form":"decimal","length":2},"increment":10,"offset":7}"#, 97),
        (r#"{"kind":"segment","encoding":{"form":"base32","length":13}}"#, i64::MAX as u64),
        (r#"{"kind":"segment","encoding":"base62"}"#, i64::MAX as u64),
    ] {
        assert_eq!(last(json), number, "{json}");
    }
    let [plain, decimal, padded, prefixed] = [
        r#"{"kind":"segment","last":99999999}"#,
        r#"{"kind":"segment","last":99999999,"encoding":{"form":"decimal"}}"#,
        r#"{"kind":"segment","encoding":{"form":"decimal","length":8}}"#,
        r#"{"kind":"segment","encoding":{"form":"decimal","length":8,"prefix":"A"}}"#,
    ]
    .map(of);
    assert_eq!((&decimal, record(&decimal)), (&plain, record(&plain)), "what says nothing new");
    assert!(!plain.is_met_by(&padded) && !padded.is_met_by(&prefixed) && padded.checksum() != prefixed.checksum());
    let at = At::keyless(WallMs(0), UtcOffset::default());
    for (json, examples) in [
        (
            r#"{"kind":"segment","encoding":{"form":"decimal","length":8,"prefix":"ORD-"}}"#,
            &["ORD-00000001", "ORD-00000002", "ORD-00000003"][..],
        ),
        (r#"{"kind":"segment","last":1000,"first":999,"encoding":"base32"}"#, &["Z7", "Z8"]),
        (r#"{"kind":"segment","encoding":{"form":"ff1","length":8,"secret":"4ff189113fbadb15"}}"#, &[]),
        (
            r#"{"kind":"sequence","first":9,"encoding":{"form":"decimal","prefix":"INV."}}"#,
            &["INV.9", "INV.10", "INV.11"],
        ),
        (
            r#"{"kind":"sequence","width":32,"encoding":{"form":"decimal","length":10}}"#,
            &["0000000001", "0000000002", "0000000003"],
        ),
    ] {
        assert_eq!(of(json).preview(&at).examples, examples, "{json}");
    }
}

#[test]
fn the_encoding_of_a_uniq64_is_a_part_of_what_the_name_stands_for() {
    let of = |encoding: &str| {
        Definition::Uniq64(Uniq64Spec { encoding: Some(serde_json::from_str(encoding).unwrap()), ..uniq64() })
    };
    let plain = Namespace::define(name("orders"), &Definition::default()).unwrap();
    let mut all = vec![plain.clone()];
    let plugins: Vec<PluginSpec> = serde_json::from_str(r#"[{"plugin":"stats"}]"#).unwrap();
    for encoding in [
        r#""base62""#,
        r#"{"form":"decimal","length":20}"#,
        r#"{"form":"ff1","length":20,"secret":"4ff189113fbadb15"}"#,
        r#"{"form":"ff1","length":20,"secret":"4ff189113fbadb16"}"#,
    ] {
        for plugins in [Vec::new(), plugins.clone()] {
            let namespace = Namespace::define(name("orders"), &of(encoding).with_plugins(plugins)).unwrap();
            let back: Namespace = bincode::deserialize(&record(&namespace)).unwrap();
            assert_eq!(back, namespace);
            assert_eq!(Namespace::define(name("orders"), &namespace.definition()), Ok(namespace.clone()));
            assert!(namespace.is_met_by(&namespace) && namespace.shares_serials());
        }
        all.push(Namespace::define(name("orders"), &of(encoding)).unwrap());
    }
    for (nth, one) in all.iter().enumerate() {
        for other in all.iter().skip(nth + 1) {
            assert!(!one.same_ids(other) && one.checksum() != other.checksum(), "{one:?} {other:?}");
        }
    }
    // What says nothing new is the record that it always was.
    for same in [r#""decimal""#, r#"{"form":"decimal"}"#] {
        let decimal = Namespace::define(name("orders"), &of(same)).unwrap();
        assert_eq!((record(&decimal), &decimal), (record(&plain), &plain));
    }
    let at = WallMs(1_700_000_000_000);
    let at = At::keyless(at, UtcOffset::default());
    let lens = |of: &Namespace| of.examples(&at).iter().map(String::len).collect::<Vec<_>>();
    assert_eq!((lens(&all[1]), lens(&all[2])), (vec![11; 3], vec![20; 3]));

    for (of_name, definition, said) in [
        ("default", of(r#""hex""#), "takes no encoding"),
        ("orders", of(r#""uuid""#), "a uuid has 128 bits"),
        ("orders", of(r#""ff1""#), "ff1 needs a secret"),
        ("orders", of(r#"{"form":"strategy","strategy":"a"}"#), "take kind layout"),
    ] {
        let refusal = Namespace::define(name(of_name), &definition).unwrap_err().to_string();
        assert!(refusal.contains(said), "{refusal}");
    }
}

#[test]
fn names_whose_numbers_come_in_ranges_are_defined_and_kept_whole() {
    for json in [
        r#"{"kind":"segment"}"#,
        r#"{"kind":"segment","first":1000,"step":50,"increment":2,"offset":1,"threshold":30}"#,
        r#"{"kind":"sequence"}"#,
        r#"{"kind":"sequence","width":32,"step":500,"keys_per_section":1000,"solo_allowance":4096,"set":"payments"}"#,
    ] {
        let known = layout(json).unwrap();
        assert_eq!((known.token_type(), known.scope(), known.kind().has_blocks()), (None, Scope::Own, false));
        let definition = serde_json::to_string(&known.definition()).unwrap();
        assert_eq!(layout(&definition).as_ref(), Ok(&known), "{definition}");
        let again: Namespace = bincode::deserialize(&bincode::serialize(&known).unwrap()).unwrap();
        assert_eq!(again, known);
        assert!(known.is_met_by(&known));
    }
    let [one, slow, moved] = [
        r#"{"kind":"segment","first":10}"#,
        r#"{"kind":"segment","first":10,"step":5}"#,
        r#"{"kind":"segment","first":11}"#,
    ]
    .map(|json| layout(json).unwrap());
    assert!(one.is_met_by(&slow) && !one.is_met_by(&moved), "steps say how numbers are fetched, not which come");
    assert_ne!(one.checksum(), moved.checksum());
    for (json, why) in [
        (r#"{"kind":"segment","width":32}"#, "kind segment: width: unknown field"),
        (r#"{"kind":"sequence","last":1}"#, "kind sequence: last: unknown field"),
        (r#"{"kind":"uniq64","threshold":5}"#, "kind uniq64: threshold: unknown field"),
        (r#"{"kind":"string","set":"a"}"#, "kind string: set: unknown field"),
        (r#"{"kind":"segment","token_type":"uint2"}"#, "kind segment: token_type: unknown field"),
        (
            r#"{"kind":"sequence","encoding":"sqids"}"#,
            "sqids hides numbers, and those of a sequence leave as numbers, too",
        ),
        (r#"{"kind":"sequence","encoding":"ff1"}"#, "ff1 hides numbers"),
        (r#"{"kind":"sequence","encoding":{"form":"strategy","strategy":"own"}}"#, "take kind layout"),
        (r#"{"kind":"sequence","encoding":{"form":"decimal","length":18}}"#, "19 are needed"),
        (r#"{"kind":"sequence","width":32,"encoding":{"form":"decimal","length":9}}"#, "10 are needed"),
        (r#"{"kind":"segment","encoding":{"form":"decimal","length":8},"last":100000000}"#, "9 are needed"),
        (
            r#"{"kind":"segment","encoding":{"form":"decimal","length":3},"first":1000}"#,
            "first 1000 lies above 999, the last place whose number the encoding's length holds: say a greater length",
        ),
        (
            r#"{"kind":"segment","encoding":{"form":"decimal","length":3},"first":1000,"last":1000}"#,
            "3 characters out of 10 do not hold numbers up to 1000: 4 are needed",
        ),
        (
            r#"{"kind":"segment","encoding":{"form":"ff1","length":8},"first":100000000}"#,
            "lies above 99999999, the last place whose number the encoding's length holds",
        ),
        (
            r#"{"kind":"segment","encoding":{"form":"ff1","length":6}}"#,
            "among 1048576 texts at least, and 6 characters out of 10 make fewer: 7 are needed",
        ),
        (
            r#"{"kind":"segment","encoding":{"form":"ff1","length":3},"last":5000}"#,
            "3 characters out of 10 do not hold numbers up to 5000: 7 are needed",
        ),
        (r#"{"kind":"segment","encoding":{"form":"decimal","length":3},"offset":999}"#, "first 1 lies above 0"),
        (r#"{"kind":"segment","first":9,"last":8}"#, "first 9 lies above last 8: there would be no number"),
        (r#"{"kind":"segment","encoding":{"form":"decimal","prefix":"a b"}}"#, "1 to 32 of A-Z a-z 0-9 . _ -"),
        (r#"{"kind":"segment","encoding":"ff1"}"#, "ff1 needs a secret"),
        (r#"{"kind":"segment","encoding":"uuid"}"#, "a uuid has 128 bits"),
        (r#"{"kind":"segment","encoding":{"form":"strategy","strategy":"own"}}"#, "take kind layout"),
        (r#"{"kind":"segment","everyday_reset":true}"#, "kind segment: everyday_reset: unknown field"),
        (r#"{"kind":"segment","everyday_reset":false}"#, "kind segment: everyday_reset: unknown field"),
        (r#"{"kind":"segment","layout":"snowflake"}"#, "kind segment: layout: unknown field"),
        (r#"{"kind":"segment","template":"{token}"}"#, "kind segment: template: unknown field"),
        (r#"{"kind":"segment","scope":"kind"}"#, "numbers are its own"),
        (r#"{"kind":"segment","increment":0}"#, "again and again"),
        (r#"{"kind":"sequence","width":64}"#, "32 or 63"),
    ] {
        let refusal = refusal(json);
        assert!(refusal.contains(why), "{json}: {refusal}");
    }
    assert!(Namespace::define(name("default"), &serde_json::from_str(r#"{"kind":"segment"}"#).unwrap()).is_err());
}

/// The results in 2026 in China, as people would work them out.
#[test]
fn a_preview_shows_three_ids_and_how_many_there_are_and_until_when() {
    // 2026-11-20T23:05:06Z.
    let at = At::keyless(WallMs(1_795_215_906_000), UtcOffset::from_minutes(480).unwrap());
    for (json, examples, per_day, last_day) in [
        (
            r#"{"kind":"string","template":"A{date:%Y%m%d}{token}{serial:6}"}"#,
            vec!["A2026112112000042", "A2026112112000043", "A2026112113000042"],
            Some(1_000_000),
            Some("9999-12-31"),
        ),
        (
            r#"{"kind":"layout","layout":"snowflake"}"#,
            // (1795215906000 - 1288834974657) << 22 | token << 12 | serial.
            vec!["2123915565855674410", "2123915565855674411", "2123915565855678506"],
            Some(4_096 * 86_400_000),
            Some("2080-07-10"),
        ),
        (
            r#"{"kind":"layout","layout":"uuid7","encoding":{"form":"strategy","strategy":"own"}}"#,
            vec![],
            Some(5_798_205_849_600_000),
            Some("10889-08-02"),
        ),
        (r#"{"kind":"segment","first":5,"last":6,"increment":10,"offset":1}"#, vec!["51", "61"], None, None),
        (r#"{"kind":"sequence","width":32,"first":7}"#, vec!["7", "8", "9"], None, None),
    ] {
        let namespace = layout(json).unwrap();
        let preview = namespace.preview(&at);
        assert_eq!(preview.examples, examples, "{json}");
        assert_eq!((preview.per_day, preview.last_day.as_deref()), (per_day, last_day), "{json}");
        assert_eq!((&preview.definition, preview.capacity), (&namespace.definition(), namespace.capacity()));
        // Clients read what agents write.
        let text = serde_json::to_string(&preview).unwrap();
        assert_eq!(crate::json::read::<Preview>(text.as_bytes()).unwrap(), preview, "{text}");
    }
    let uniq64 = Namespace::default_of(Kind::Uniq64).preview(&at);
    assert_eq!((uniq64.per_day, uniq64.last_day.as_deref()), (Some(24 << 31), Some("2127-12-31")));
    let read = |text: &String| UNIQ64.layout().parts(UNIQ64.parse(text).unwrap()).unwrap();
    let fields: Vec<_> = uniq64.examples.iter().map(read).collect();
    let tokens_and_serials = fields.iter().map(|of| (of.token.0, of.serial)).collect::<Vec<_>>();
    assert_eq!(tokens_and_serials, [(38, 42), (38, 43), (39, 42)]);
    assert_eq!(layout(r#"{"kind":"sequence","width":32}"#).unwrap().preview(&at).key_per_hour, Some(67_108_863));
}

/// 2^53 is what JavaScript counts to.
#[test]
fn names_with_long_ticks_count_each_by_itself_and_by_the_clusters_hours() {
    let of = |json: &str| Namespace::define(name("orders"), &serde_json::from_str(json).unwrap());
    let hours = r#""bits":53,"unit_ms":3600000,"fields":["year:7","month:4","day:5","hour:5","token:8","serial:24"]"#;
    let orders = of(&format!(r#"{{"kind":"layout",{hours}}}"#)).unwrap();
    assert_eq!((orders.scope(), orders.token_type(), orders.capacity()), (Scope::Own, Some(TokenType::Uint1), 1 << 24));
    assert!(!orders.shares_serials());
    let refusal = of(&format!(r#"{{"kind":"layout",{hours},"scope":"kind"}}"#)).unwrap_err().to_string();
    assert!(refusal.starts_with("scope kind is for ticks of at most 10000 ms"), "{refusal}");
    // 2026-11-27T17:30:00Z, 23:15 there.
    let offset = UtcOffset::from_minutes(345).unwrap();
    let preview = orders.preview(&At::keyless(WallMs(1_795_800_600_000), offset));
    let hour = ((26_u64 << 4 | 11) << 5 | 27) << 5 | 23;
    let expected = [(1, 42), (1, 43), (2, 42)].map(|(token, serial)| (hour << 32 | token << 24 | serial).to_string());
    assert_eq!(preview.examples, expected);
    assert_eq!((preview.per.as_str(), preview.per_day), ("tick", Some(24 << 24)));
    assert_eq!(preview.last_day.as_deref(), Some("2127-12-31"));
    assert!(expected.iter().all(|id| id.parse::<u64>().unwrap() < 1 << 53));
}
