use super::*;
use common::about::AboutSource;
use common::kind::Kind;
use serde_json::{Value, json};

const PHC: &str = "$argon2id$v=19$secret";

fn row(name: &str, definition: &Value) -> NamespaceRow {
    let definition: Definition = serde_json::from_value(definition.clone()).unwrap();
    let namespace = Namespace::define(name.parse().unwrap(), &definition).unwrap();
    NamespaceRow {
        namespace,
        about: About::default(),
        capacity: 0,
        registered_by: "jane".to_owned(),
        retired: false,
        in_use: true,
        leased: false,
    }
}

fn noted(row: NamespaceRow, owner: &str) -> NamespaceRow {
    let about = About::new(AboutSource { owner: owner.to_owned(), ..AboutSource::default() }).unwrap();
    NamespaceRow { about, ..row }
}

fn retired(row: NamespaceRow) -> NamespaceRow {
    NamespaceRow { retired: true, ..row }
}

fn axis(name: &str, granted: u64, shown: Option<u64>) -> AxisRow {
    AxisRow {
        name: name.parse().unwrap(),
        first: 1,
        last: i64::MAX as u64,
        increment: 1,
        offset: 0,
        floor: 1,
        granted,
        free: 0,
        last_extent: None,
        left: 0,
        per_day: 0,
        lasts_days: None,
        other_holds: None,
        shown,
        hours_at_least: None,
        retired: false,
    }
}

fn user(name: &str, role: Role) -> User {
    User { name: name.parse().unwrap(), role, phc: PHC.to_owned(), totp: None }
}

fn settings() -> SettingsRow {
    SettingsRow {
        master: common::parameters::MasterId::One,
        version: String::new(),
        cluster: Some("c1".to_owned()),
        pair_epoch: 1,
        lease_days: 7,
        grace_days: 1,
        solo_days: 30,
        budget: 4,
        utc_offset: "+08:00".to_owned(),
        uint2_max: 4_095,
        flags: Vec::new(),
    }
}

/// A cluster that has nothing but its first admin.
fn new_here() -> Here {
    Here {
        utc_offset: "+08:00".to_owned(),
        networks: vec![NetworkRow { network: "127.0.0.0/8".to_owned() }],
        users: vec![user("admin", Role::Admin)],
        revoked: Vec::new(),
        dated: WallMs(1_800_000_000_000),
        names: vec![row("default", &json!({"kind": "uniq64"}))],
    }
}

fn export(names: Vec<NamespaceRow>, axes: &[AxisRow]) -> Value {
    let networks = ["127.0.0.0/8", "10.0.0.0/8"].map(|network| NetworkRow { network: network.to_owned() });
    let users = [user("admin", Role::Admin), user("vera", Role::Viewer)];
    let revoked = ["agent/a", "client/billing"].map(|role| revocation_of(role, "2026-05-01T12:00:00Z"));
    serde_json::to_value(File::new(WallMs(0), settings(), networks.into(), (&users, &revoked), names, axes)).unwrap()
}

fn revocation_of(role: &str, before: &str) -> Revocation {
    format!("{role} {before}").parse().unwrap()
}

fn planned(file: &Value, here: &Here) -> Result<Plan, String> {
    plan(file.to_string().as_bytes(), here)
}

/// The reason why a file is refused.
fn refused(file: &Value, here: &Here) -> String {
    planned(file, here).unwrap_err()
}

/// The state of this cluster once a plan is carried out.
fn carried_out(plan: &Plan, mut here: Here) -> Here {
    for change in &plan.names {
        let Change::Restore { namespace, retired, proved: false } = change else { panic!("{change:?}") };
        here.names.retain(|row| row.namespace.name() != namespace.name());
        let definition = serde_json::to_value(namespace.definition()).unwrap();
        here.names.push(NamespaceRow { retired: *retired, ..row(namespace.name().as_str(), &definition) });
    }
    for change in &plan.notes {
        let Change::About { name, about } = change else { panic!("{change:?}") };
        here.names.iter_mut().find(|row| row.namespace.name() == name).unwrap().about = (**about).clone();
    }
    here.users.extend(plan.users.iter().map(|(name, role)| user(name.as_str(), *role)));
    for change in &plan.networks {
        let Change::Allow(network) = change else { panic!("{change:?}") };
        here.networks.push(NetworkRow { network: network.to_string() });
    }
    for change in &plan.revocations {
        let Change::Revoke(revoked) = change else { panic!("{change:?}") };
        here.revoked.retain(|it| it.role != revoked.role);
        here.revoked.push(revoked.clone());
    }
    here
}

/// A name of each kind, in several forms.
fn of_all_kinds() -> Vec<NamespaceRow> {
    let all = [
        ("plain", json!({"kind": "uniq64"})),
        ("own", json!({"kind": "uniq64", "scope": "own", "everyday_reset": true, "step": 2_000})),
        ("short", json!({"kind": "uniq64", "encoding": "sqids"})),
        ("limited", json!({"kind": "uniq64", "plugins": [{"plugin": "quota", "per_second": 100}]})),
        ("invoices", json!({"kind": "string", "template": "INV-{date:%Y%m%d}-{token}{serial:6}"})),
        ("flakes", json!({"kind": "layout", "layout": "snowflake"})),
        ("wide", json!({"kind": "layout", "layout": "uuid7", "encoding": "uuid"})),
        ("parts", json!({"kind": "segment", "first": "5", "increment": "2", "offset": "1", "step": 10})),
        ("big", json!({"kind": "segment", "last": "9223372036854775806"})),
        ("keyed", json!({"kind": "sequence", "width": 32, "solo_allowance": "1000000", "set": "blue"})),
    ];
    let rows: Vec<_> = all.iter().map(|(name, definition)| row(name, definition)).collect();
    assert!(Kind::NAMED.iter().all(|kind| rows.iter().any(|row| row.namespace.kind() == *kind)));
    rows
}

#[test]
fn names_of_every_kind_come_back_as_they_were_and_a_second_time_nothing_is_new() {
    let mut names: Vec<_> = of_all_kinds().into_iter().map(|row| noted(row, "team-pay")).collect();
    names.push(retired(noted(row("gone", &json!({"kind": "uniq64"})), "nobody")));
    names.push(retired(row("spent", &json!({"kind": "segment"}))));
    names.insert(0, row("default", &json!({"kind": "uniq64"})));
    let shown = 9_007_199_254_740_993;
    let mut file =
        export(names.clone(), &[axis("parts", 5_001, None), axis("big", 7, Some(shown)), axis("spent", 9, None)]);
    assert!(!file.to_string().contains("argon2") && !file.to_string().contains("default"), "{file}");
    let entry =
        |file: &Value, name: &str| file["names"].as_array().unwrap().iter().position(|it| it["name"] == name).unwrap();
    let (parts, big) = (entry(&file, "parts"), entry(&file, "big"));
    assert_eq!(file["names"][parts]["granted"], "5001");
    assert_eq!(file["names"][big]["granted"], (shown + 1).to_string());
    assert_eq!(file["names"][entry(&file, "spent")].get("granted"), None);

    // Nothing of plain numbers comes in before somebody says where they begin, and not below what was granted.
    let why = refused(&file, &new_here());
    assert!(why.contains("parts: add `first`") && why.contains("big: add `first`"), "{why}");
    assert_eq!(why.lines().count(), 2, "{why}");
    for (first, last_one) in [("5000", "all below 5001 was"), ("9223372036854775807", "lies above last")] {
        file["names"][parts]["first"] = json!(first);
        file["names"][big]["first"] = json!((shown + 1).to_string());
        let why = refused(&file, &new_here());
        assert!(why.contains("parts: first") && why.contains(last_one) && why.lines().count() == 1, "{why}");
    }
    file["names"][parts]["first"] = json!("5001");

    let plan = planned(&file, &new_here()).unwrap();
    for (wanted, change) in names.iter().skip(1).zip(&plan.names) {
        let Change::Restore { namespace, retired, .. } = change else { panic!("{change:?}") };
        let (name, definition) = (wanted.namespace.name(), wanted.namespace.definition());
        let definition = match (name.as_str(), definition) {
            ("parts", Definition::Segment(spec)) => Definition::Segment(SegmentSpec { first: Some(5_001), ..spec }),
            ("big", Definition::Segment(spec)) => Definition::Segment(SegmentSpec { first: Some(shown + 1), ..spec }),
            (_, definition) => definition,
        };
        assert_eq!((namespace.name(), namespace.definition()), (name, definition));
        assert_eq!(*retired, wanted.retired || name.as_str() == "keyed", "{name}");
    }
    assert_eq!((plan.names.len(), plan.notes.len()), (names.len() - 1, 9));
    assert_eq!(plan.imported.retired, ["keyed"]);
    assert_eq!(plan.users, [("vera".parse().unwrap(), Role::Viewer)]);
    assert_eq!(plan.networks, [Change::Allow("10.0.0.0/8".parse().unwrap())]);
    assert_eq!(plan.imported.users, Tally { new: 1, there: 1 });

    let after = carried_out(&plan, new_here());
    let again = planned(&file, &after).unwrap();
    assert!(again.names.is_empty() && again.notes.is_empty() && again.users.is_empty() && again.networks.is_empty());
    assert!(again.revocations.is_empty() && again.imported.revocations == Tally { new: 0, there: 2 });
    assert_eq!(again.imported.names, Tally { new: 0, there: names.len() - 1 });
    assert!(again.imported.retired.is_empty() && again.imported.noted_otherwise.is_empty());
}

#[test]
fn what_is_otherwise_here_is_refused_and_a_note_stays() {
    let orders = || row("orders", &json!({"kind": "uniq64"}));
    let keyed = || row("keyed", &json!({"kind": "sequence"}));
    for (file, here, why) in [
        (orders(), row("orders", &json!({"kind": "uniq64", "encoding": "sqids"})), "stands for something else here"),
        (orders(), retired(orders()), "orders: it was retired here"),
        (retired(orders()), orders(), "retired in the file, and gives IDs here"),
        (keyed(), keyed(), "comes in retired, and may give numbers here that were given before: retire it here"),
        // An application registered it before the file came, and nothing was given by it.
        (
            keyed(),
            NamespaceRow { in_use: false, ..keyed() },
            "comes in retired, and gave nothing here yet: retire it here",
        ),
        (
            orders(),
            NamespaceRow { in_use: false, ..row("orders", &json!({"kind": "uniq64", "encoding": "sqids"})) },
            "something else here, and gave nothing here yet: retire it",
        ),
    ] {
        let refusal = refused(&export(vec![file], &[]), &here_with(here));
        assert!(refusal.contains(why), "{refusal}");
    }
    let file = export(vec![noted(orders(), "jane")], &[]);
    let other = planned(&file, &here_with(noted(orders(), "olga"))).unwrap();
    assert!(other.notes.is_empty() && other.imported.noted_otherwise == ["orders"]);
    let none = planned(&file, &here_with(orders())).unwrap();
    assert!(none.names.is_empty() && none.notes.len() == 1);
    // By a name that nobody used here somebody may have used it there.
    let unused = NamespaceRow { in_use: false, ..orders() };
    assert!(matches!(&planned(&file, &here_with(unused)).unwrap().names[..], [Change::Restore { retired: false, .. }]));
    let gone = planned(&export(vec![keyed()], &[]), &here_with(retired(keyed()))).unwrap();
    assert!(gone.names.is_empty() && gone.imported.names == Tally { new: 0, there: 1 });
}

#[test]
fn what_is_revoked_here_since_stays_revoked() {
    let file = export(Vec::new(), &[]);
    let [older, later] = ["2026-04-30T00:00:00Z", "2026-05-02T00:00:00Z"].map(|at| revocation_of("client/billing", at));
    for (here, new) in [(Vec::new(), 2), (vec![older], 2), (vec![later], 1)] {
        let plan = planned(&file, &Here { revoked: here, ..new_here() }).unwrap();
        assert_eq!((plan.revocations.len(), &plan.imported.revocations), (new, &Tally { new, there: 2 - new }));
    }
    // A file from before there were any.
    let mut without = file;
    without.as_object_mut().unwrap().remove("revocations");
    assert!(planned(&without, &new_here()).unwrap().revocations.is_empty());
    let of = |n: usize| revocation_of(&format!("client/c{n}"), "2026-05-01T12:00:00Z");
    let full = Here { revoked: (0..REVOCATIONS_MAX - 1).map(of).collect(), ..new_here() };
    assert!(refused(&export(Vec::new(), &[]), &full).contains("1025 revocations with those here: 1024 is the most"));
}

fn here_with(row: NamespaceRow) -> Here {
    Here { names: vec![row], ..new_here() }
}

#[test]
fn all_that_is_wrong_is_said_at_once_and_by_name() {
    let good = export(vec![row("orders", &json!({"kind": "uniq64"}))], &[]);
    let with = |place: &str, value: Value| {
        let mut file = good.clone();
        *file.pointer_mut(place).unwrap() = value;
        refused(&file, &new_here())
    };
    for (place, value, why) in [
        ("/version", json!(2), "version: 2 is none that this program reads: it reads 1"),
        ("/version", json!("1"), "invalid type"),
        ("/utc_offset", json!("+00:00"), "--utc-offset +00:00"),
        ("/revocations/0/role", json!("billing"), "revocations[0]: `role` is agent/NAME or client/NAME"),
        ("/revocations/1/before", json!("yesterday"), "revocations[1]: "),
        (
            "/revocations/1/role",
            json!("master/1"),
            "revocations[1]: a master's certificates are revoked in every ca.pem",
        ),
        ("/revocations/1/role", json!("agent/a"), "revocations[1]: agent/a is there twice"),
        ("/revocations/0/role", json!("agent/a 2026-05-01T12:00:00Z"), "revocations[0]: `role`"),
        ("/revocations/1/before", json!("9999-12-31T23:59:59Z"), "is still to come by this machine's clock"),
        ("/names/0/name", json!("Orders"), "names[0]: "),
        ("/names/0/name", json!("default"), "names[0] default: this name is everywhere"),
        ("/names/0/definition/kind", json!("uniq96"), "names[0]: definition"),
        (
            "/names/0/definition",
            json!({"kind": "string"}),
            "names[0] orders: a generator of kind string needs a template",
        ),
        (
            "/names/0/definition",
            json!({"kind": "uniq64", "first": 1}),
            "names[0]: definition: a generator of kind uniq64: first: unknown field `first`",
        ),
        ("/names/0/definition", json!({"kind": "uniq64", "firsts": 1}), "unknown field `firsts`"),
        ("/names/0/definition", json!({"kind": "segment"}), "`granted` is missing"),
        ("/names/0/retired", json!(null), "names[0]: retired"),
        ("/names/0", json!({"name": "a", "retired": false}), "missing field `definition`"),
        (
            "/names/0",
            json!({"name": "a", "retired": false, "definition": {"kind": "uniq64"}, "granted": 1}),
            "takes no `granted`",
        ),
        (
            "/names/0",
            json!({"name": "a", "retired": true, "definition": {"kind": "segment"}, "first": 1}),
            "takes no `first`",
        ),
        (
            "/names/0",
            json!({"name": "a", "retired": false, "definition": {"kind": "uniq64"}, "x": 1}),
            "unknown field `x`",
        ),
        (
            "/names/0",
            json!({"name": "a", "retired": false, "definition": {"kind": "uniq64"}, "about": {"owner": "a\nb"}}),
            "owner has a control character",
        ),
        ("/names", json!(null), "expected a list of at most"),
        ("/users/0/role", json!("root"), "users[0]: a role is viewer, operator or admin"),
        ("/users/0/name", json!("É"), "users[0]: "),
        ("/users/0/role", json!("viewer"), "admin is admin here and viewer in the file"),
        (
            "/users/0",
            json!({"name": "a", "role": "viewer", "password": "x"}),
            "users[0]: password: unknown field `password`",
        ),
        ("/networks/0", json!("010.0.0.0/8"), "networks[0]: write the octets"),
        ("/networks/0", json!(7), "networks[0]: invalid type"),
    ] {
        let refusal = with(place, value);
        assert!(refusal.contains(why), "{place}: {refusal}");
    }
    let mut file = good.clone();
    file["keys"] = json!([]);
    assert!(refused(&file, &new_here()).contains("unknown field `keys`"));
    file = good.clone();
    for list in ["names", "users"] {
        let first = file[list][0].clone();
        file[list].as_array_mut().unwrap().push(first);
    }
    file["networks"][1] = json!("nowhere");
    let refusal = refused(&file, &new_here());
    assert!(
        refusal.contains("names[1] orders: it is there twice") && refusal.contains("users[2]: admin is there twice")
    );
    assert_eq!(refusal.lines().count(), 3, "{refusal}");
    for text in ["", "[]", "{", r#"{"version":1}"#, r#"{"version":1,"version":1}"#] {
        assert!(plan(text.as_bytes(), &new_here()).is_err(), "{text}");
    }
}

#[test]
fn nothing_comes_in_beyond_what_there_may_be_and_problems_are_counted() {
    let entry = |n: usize, retired: bool| json!({"name": format!("n{n}"), "retired": retired, "definition": {"kind": "uniq64"}});
    let file = |names: Vec<Value>, users: Vec<Value>, networks: Vec<Value>| {
        let (version, utc_offset) = (1, "+08:00");
        json!({"version": version, "utc_offset": utc_offset, "names": names, "users": users, "networks": networks})
    };
    let names = |n: usize, retired| file((0..n).map(|n| entry(n, retired)).collect(), Vec::new(), Vec::new());
    for (gone, max, of) in [(false, NAMESPACES_MAX, "names"), (true, RETIRED_MAX, "retired names")] {
        let known = |n: usize| NamespaceRow { retired: gone, ..row(&format!("m{n}"), &json!({"kind": "uniq64"})) };
        let here = Here { names: (0..max - 2).map(known).collect(), ..new_here() };
        assert_eq!(planned(&names(2, gone), &here).unwrap().names.len(), 2);
        let why = format!("there would be {} {of} with those here: {max} is the most", max + 1);
        assert!(refused(&names(3, gone), &here).contains(&why));
        // One that is there already takes no place of another.
        let full = carried_out(&planned(&names(2, gone), &here).unwrap(), here);
        assert_eq!(planned(&names(2, gone), &full).unwrap().imported.names, Tally { new: 0, there: 2 });
    }
    let too_many = file(vec![json!(0); NAMES_MAX + 1], Vec::new(), Vec::new());
    assert!(refused(&too_many, &new_here()).contains("a list of at most 147456"));

    let users = |n: usize| {
        file(Vec::new(), (0..n).map(|n| json!({"name": format!("u{n}"), "role": "viewer"})).collect(), Vec::new())
    };
    assert!(planned(&users(ACCOUNTS_MAX - 1), &new_here()).is_ok());
    assert!(refused(&users(ACCOUNTS_MAX), &new_here()).contains("257 users"));
    assert!(refused(&users(ACCOUNTS_MAX + 1), &new_here()).contains("a list of at most 256"));

    let network = |n: usize| json!(format!("10.{}.{}.0/24", n / 256, n % 256));
    let networks = |n: usize| file(Vec::new(), Vec::new(), (0..n).map(network).collect());
    assert!(planned(&networks(NETWORKS_MAX - 1), &new_here()).is_ok());
    assert!(refused(&networks(NETWORKS_MAX), &new_here()).contains("1025 networks"));
    assert!(refused(&networks(NETWORKS_MAX + 1), &new_here()).contains("a list of at most 1024"));

    let label = |n: usize| (format!("key-{n}"), json!("v".repeat(About::TEXT_CHARS_MAX)));
    let about = json!({"labels": (0..About::LABELS_MAX).map(label).collect::<serde_json::Map<_, _>>()});
    let noted = |n: usize| {
        let all = (0..n).map(
            |n| json!({"name": format!("n{n}"), "retired": false, "definition": {"kind": "uniq64"}, "about": about}),
        );
        file(all.collect(), Vec::new(), Vec::new())
    };
    let one = serde_json::from_value::<About>(about.clone()).unwrap().len();
    let most = ABOUTS_LEN_MAX / one;
    assert!(planned(&noted(most), &new_here()).is_ok());
    assert!(refused(&noted(most + 1), &new_here()).contains("bytes of notes with those here: 4194304 is the most"));

    let wrong = file((0..PROBLEMS_MAX + 7).map(|n| json!({"name": n})).collect(), Vec::new(), Vec::new());
    let refusal = refused(&wrong, &new_here());
    assert_eq!(refusal.lines().count(), PROBLEMS_MAX + 1);
    assert!(refusal.ends_with("and 7 more"), "{refusal}");
}
