//! As many names as a large cluster has: they are exchanged in pages, and new ones come at a bounded rate.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use common::about::{About, AboutSource};
use common::audit::Actor;
use common::calendar::UtcOffset;
use common::namespace::{Definition, GeneratorName, Namespace, SegmentSpec};
use common::parameters::{ClusterId, ClusterParameters, EpochId, MasterId};
use common::segment::Axis;
use common::setting::{
    Change, NAME_EACH, NAMES_AT_ONCE, NAMESPACES_MAX, RETIRED_KEPT, Setting, SettingKey, SettingValue,
};
use common::time::{BootMs, Now, SECOND_MS, WallMs};
use master::lease::receipt::{told, told_by_name};
use master::lease::{Effects, Event, Identity, Reply, RequestId, Unproven, Write};
use master::ledger::Ledger;
use master::store::Store as _;
use master::store::memory::MemoryStore;
use net::rpc::lease::{Changed, Mode, NameState, Refusal, Registered};
use net::rpc::peer::PeerMessage;

const NAMES: usize = 16_000;
/// Fewer than there have to be before any of them is known by its digest alone.
const RETIRED: usize = 16_000;

fn definition(name: &str, definition: &Definition) -> Box<Namespace> {
    Box::new(Namespace::define(name.parse().unwrap(), definition).unwrap())
}

fn setting(key: SettingKey, value: SettingValue) -> Setting {
    Setting { key, version: 1, value, actor: Actor::new("olga", "10.9.9.9"), at: WallMs(0) }
}

fn named(name: &str, value: fn(Box<Namespace>) -> SettingValue) -> Setting {
    setting(SettingKey::Namespace(name.parse().unwrap()), value(definition(name, &Definition::default())))
}

/// Names, retired ones, notes, and an axis whose name stands on another page.
fn many() -> Vec<Setting> {
    let mut settings: Vec<Setting> = (0..NAMES).map(|n| named(&format!("n{n:05}"), SettingValue::Namespace)).collect();
    settings.extend((0..RETIRED).map(|n| named(&format!("r{n:05}"), SettingValue::Retired)));
    let description = "of the warehouse".repeat(12);
    let about = About::new(AboutSource { description, ..AboutSource::default() }).unwrap();
    let about =
        |n| setting(SettingKey::About(format!("n{n:05}").parse().unwrap()), SettingValue::About(about.clone().into()));
    settings.extend((0..NAMES).map(about));
    let plain = definition("zz-segment", &Definition::Segment(SegmentSpec::default()));
    let mut axis = Axis::new(plain.segments().unwrap());
    (axis.floor, axis.granted) = (axis.floor + 1, axis.granted + 1);
    settings.push(setting(SettingKey::Axis(plain.name().clone()), SettingValue::Axis(axis.into())));
    settings.push(setting(SettingKey::Namespace(plain.name().clone()), SettingValue::Namespace(plain)));
    settings.sort_by(|a, b| a.key.cmp(&b.key));
    settings
}

struct Pair {
    ledgers: [Ledger; 2],
    now: Now,
    replies: Vec<Reply>,
    /// Further pages of settings that were sent, and whether they are lost.
    pages: usize,
    loses: bool,
}

impl Pair {
    /// Of two masters that know these settings, of which the second may have forgotten some.
    fn new(settings: [Vec<Setting>; 2]) -> Self {
        let now = Now { wall: WallMs(20_777 * 86_400_000), boot: BootMs(0) };
        let ids = [MasterId::One, MasterId::Two];
        let mut at = 0;
        let ledgers = settings.map(|settings| {
            let identity = Identity {
                master: ids[at],
                cluster: Some(ClusterId(7)),
                epoch: Some(EpochId(7)),
                pair_epoch: 1,
                former: Vec::new(),
                paired: true,
                parameters: ClusterParameters::new(7, UtcOffset::default(), 31).unwrap(),
                awaiting: None,
            };
            let mut store = MemoryStore::of(identity).unwrap();
            store.commit(&settings.into_iter().map(Write::Setting).collect::<Vec<_>>(), 1).unwrap();
            let mut loaded = store.load().unwrap();
            if at == 1 {
                loaded.proven = Err(Unproven::Rebooted);
            }
            at += 1;
            Ledger::start(loaded, now, at as u64, None, "test".to_owned())
        });
        Self { ledgers, now, replies: Vec::new(), pages: 0, loses: false }
    }

    fn connect(&mut self) {
        (0..2).for_each(|at| self.event(at, Event::Connected));
    }

    fn event(&mut self, at: usize, event: Event) {
        self.events(vec![(at, event)]);
    }

    fn events(&mut self, mut events: Vec<(usize, Event)>) {
        while !events.is_empty() {
            let (at, event) = events.remove(0);
            let mut fx = Effects::default();
            self.ledgers[at].step(self.now, event, &mut fx);
            assert!(fx.alarms.iter().all(|alarm| !alarm.to_string().contains("implausible")), "{:?}", fx.alarms);
            for message in fx.messages {
                if matches!(message, PeerMessage::SettingsPage { .. }) {
                    self.pages += 1;
                    if self.loses {
                        continue;
                    }
                }
                let frame = Box::new(self.ledgers[at].frame(message));
                events.push((1 - at, Event::Message(frame)));
            }
            self.replies.extend(fx.replies.into_iter().map(|(_, reply)| reply));
        }
    }

    fn pass(&mut self, seconds: i64) {
        for _ in 0..seconds {
            self.now.wall.0 += SECOND_MS;
            self.now.boot.0 += SECOND_MS;
            (0..2).for_each(|at| self.event(at, Event::Tick));
        }
    }

    fn asked(&mut self, at: usize, event: Event) -> Result<Changed, Refusal> {
        self.replies.clear();
        self.event(at, event);
        match self.replies.pop() {
            Some(Reply::Change(reply)) => reply,
            other => panic!("{other:?}"),
        }
    }

    fn define(&mut self, at: usize, name: &str, from: &str) -> Result<Changed, Refusal> {
        let (namespace, actor) = (definition(name, &Definition::default()), Actor::new("agent", from));
        self.asked(at, Event::Define { id: RequestId(1), namespace, actor })
    }
}

#[test]
fn a_master_that_forgot_them_reads_all_names_page_by_page_before_it_serves() {
    let all = many();
    for loses in [false, true] {
        // Of each kind it has forgotten some.
        let known = all.iter().step_by(3).cloned().collect();
        let mut pair = Pair::new([all.clone(), known]);
        pair.loses = loses;
        pair.connect();
        if loses {
            assert!(pair.ledgers.iter().any(|ledger| ledger.mode() != Mode::Ready), "it has not got all of them");
            pair.loses = false;
            pair.pass(10);
        }
        assert_eq!([0, 1].map(|at| pair.ledgers[at].mode()), [Mode::Ready; 2]);
        assert!(pair.pages >= 6, "{} further pages", pair.pages);
        for ledger in &pair.ledgers {
            assert!(ledger.settings_table().all().eq(&all), "a setting is missing, or another one");
        }
    }
}

#[test]
fn a_network_registers_so_many_names_and_an_operator_as_many_as_there_may_be() {
    let living: Vec<Setting> =
        (0..NAMESPACES_MAX - 100).map(|n| named(&format!("n{n:05}"), SettingValue::Namespace)).collect();
    let mut pair = Pair::new([living.clone(), living]);
    pair.connect();
    pair.pass(200);
    let stranger = "10.0.0.7:4711";
    for n in 0..NAMES_AT_ONCE {
        assert_eq!(pair.define(n as usize % 2, &format!("a{n}"), stranger), Ok(Changed::Done), "{n}");
    }
    for at in [0, 1] {
        let refused = pair.define(at, "more", stranger).unwrap_err();
        assert!(
            matches!(&refused, Refusal::NamesRate { network, count: NAMES_AT_ONCE, span_s: 900 } if network == "10.0.0.7/32")
        );
        assert_eq!(pair.define(at, "a7", stranger), Ok(Changed::AlreadySo));
        let (namespace, actor) = (definition("more", &Definition::default()), Actor::new("agent", stranger));
        let shown = Box::new(told(None, *namespace, NameState::InUse));
        let restored = pair.asked(at, Event::Restore { id: RequestId(1), shown, actor });
        assert_eq!(restored, Err(refused), "nobody can say what was not forgotten");
    }
    assert_eq!(pair.define(0, "other", "10.0.0.8:1"), Ok(Changed::Done));
    for n in 0..100 - NAMES_AT_ONCE - 1 {
        let (name, actor) = (format!("o{n}"), Actor::new("olga", "10.0.0.7"));
        let change = Change::Define(definition(&name, &Definition::default()));
        assert_eq!(pair.asked(1, Event::Change { id: RequestId(1), change, actor }), Ok(Changed::Done));
    }
    pair.pass(NAME_EACH.0 / SECOND_MS * i64::from(NAMES_AT_ONCE) + 1);
    let full = Refusal::TooMany { max: NAMESPACES_MAX as u32 };
    assert_eq!(pair.define(0, "more", stranger), Err(full));
    // What is retired makes room.
    let change = Change::Retire("n00007".parse::<GeneratorName>().unwrap());
    let actor = Actor::new("olga", "");
    assert_eq!(pair.asked(0, Event::Change { id: RequestId(1), change, actor }), Ok(Changed::Done));
    assert_eq!(pair.define(0, "more", stranger), Ok(Changed::Done));
}

#[test]
fn of_those_who_register_one_name_at_once_one_is_told_that_it_is_new() {
    let mut pair = Pair::new([Vec::new(), Vec::new()]);
    pair.connect();
    pair.pass(200);
    for (name, first) in [("orders", 0), ("parcels", 1)] {
        pair.replies.clear();
        // Two at the first master, by one connection and by another, and one at the other master.
        let asked = [(first, "10.0.0.1:1"), (first, "10.0.0.1:1"), (first, "10.0.0.2:1"), (1 - first, "10.0.0.3:1")];
        let define = |(id, (at, from)): (usize, (usize, &str))| {
            let (namespace, actor) = (definition(name, &Definition::default()), Actor::new("agent", from));
            (at, Event::Define { id: RequestId(10 + id as u64), namespace, actor })
        };
        pair.events(asked.into_iter().enumerate().map(define).collect());
        let told = |changed| {
            pair.replies.iter().filter(|reply| matches!(reply, Reply::Change(Ok(c)) if *c == changed)).count()
        };
        assert_eq!((told(Changed::Done), told(Changed::AlreadySo)), (1, 3), "{name}: {:?}", pair.replies);
    }
}

fn string(name: &str, template: &str) -> Box<Namespace> {
    Box::new(Namespace::define(name.parse().unwrap(), &Definition::string(template)).unwrap())
}

/// Templates of all usual lengths that have letters and digits nearly everywhere.
fn broad() -> impl Iterator<Item = Box<Namespace>> {
    // That of `default` is one of them.
    (0..31).filter(|n| *n != 7).map(|n| {
        let template = format!("{{date:%Y%m%d}}{{token}}{{serial:6:36}}{{custom:{}}}", 1 + n);
        string(&format!("broad{n}"), &template)
    })
}

#[test]
fn templates_that_keep_nearly_all_others_out_are_an_operators_and_go_when_they_are_retired() {
    const ORDERS: &str = "{date:%Y%m%d}X{token}{serial:8}";
    let mut pair = Pair::new([Vec::new(), Vec::new()]);
    pair.connect();
    pair.pass(200);
    let agent = || Actor::new("agent", "10.0.0.7:4711");
    let define = |namespace| Event::Define { id: RequestId(1), namespace, actor: agent() };
    let change = |change| Event::Change { id: RequestId(1), change, actor: Actor::new("olga", "") };
    for (n, namespace) in broad().enumerate() {
        let refused = pair.asked(n % 2, define(namespace.clone())).unwrap_err();
        assert!(matches!(refused, Refusal::BroadTemplate { .. }), "{refused}");
        assert!(refused.to_string().contains("have an operator register"), "{refused}");
        // Nor does it help to say that it is in use, or that the scope is its own.
        let shown = Box::new(told(None, *namespace, NameState::InUse));
        let said = pair.asked(n % 2, Event::Restore { id: RequestId(1), shown, actor: agent() });
        assert!(matches!(said, Err(Refusal::BroadTemplate { .. })), "{said:?}");
    }
    assert_eq!(pair.asked(0, define(string("before", ORDERS))), Ok(Changed::Done));
    assert_eq!(pair.asked(1, change(Change::Retire("before".parse().unwrap()))), Ok(Changed::Done));

    // As an operator, or a program before this rule, registered them.
    for (n, namespace) in broad().enumerate() {
        assert_eq!(pair.asked(n % 2, change(Change::Define(namespace))), Ok(Changed::Done));
    }
    let kept_out = pair.asked(0, define(string("orders", ORDERS))).unwrap_err();
    assert!(matches!(kept_out, Refusal::Collides { .. }) && kept_out.to_string().contains("'broad"), "{kept_out}");
    for (n, namespace) in broad().enumerate() {
        assert_eq!(pair.asked(n % 2, change(Change::Retire(namespace.name().clone()))), Ok(Changed::Done));
    }
    assert_eq!(pair.asked(0, define(string("orders", ORDERS))), Ok(Changed::Done));
}

#[test]
fn names_that_both_forgot_come_back_as_fast_as_they_are_shown_and_by_proof_alone() {
    const MANY: usize = 2_000;
    let mut pair = Pair::new([Vec::new(), Vec::new()]);
    pair.connect();
    pair.pass(200);
    let restore = |pair: &mut Pair, n: usize, pairing: u128| {
        let namespace = *definition(&format!("n{n}"), &Definition::default());
        let shown = Box::new(told(Some(EpochId(pairing)), namespace, NameState::InUse));
        let actor = Actor::new("agent", "10.0.0.7:4711");
        pair.asked(n % 2, Event::Restore { id: RequestId(1), shown, actor })
    };
    for n in 0..MANY {
        assert_eq!(restore(&mut pair, n, 7), Ok(Changed::Done), "{n}");
    }
    // Somebody who makes proofs up is held to the rate of new names.
    let done = (MANY..MANY + 2 * NAMES_AT_ONCE as usize).filter(|n| restore(&mut pair, *n, 8).is_ok()).count();
    assert!(done <= NAMES_AT_ONCE as usize, "{done}");
}

#[test]
fn a_name_that_is_free_again_has_no_note() {
    let mut pair = Pair::new([Vec::new(), Vec::new()]);
    pair.connect();
    pair.pass(200);
    let olga = || Actor::new("olga", "");
    let change = |change| Event::Change { id: RequestId(1), change, actor: olga() };
    for (at, name) in [(0, "orders"), (1, "parcels")] {
        assert_eq!(pair.define(at, name, "10.0.0.7:4711"), Ok(Changed::Done));
        let source = AboutSource { owner: "jane".to_owned(), ..AboutSource::default() };
        let (about, name) = (Box::new(About::new(source).unwrap()), name.parse::<GeneratorName>().unwrap());
        assert_eq!(pair.asked(at, change(Change::About { name: name.clone(), about })), Ok(Changed::Done));
        assert_eq!(pair.asked(at, change(Change::Retire(name.clone()))), Ok(Changed::Done));
        let value =
            |key| pair.ledgers.each_ref().map(|ledger| ledger.settings_table().get(&key).unwrap().value.clone());
        assert_eq!(value(SettingKey::Namespace(name.clone())), [const { SettingValue::Free }; 2]);
        assert_eq!(value(SettingKey::About(name)), [0, 1].map(|_| SettingValue::About(Box::default())));
    }
}

#[test]
fn only_who_shows_a_name_first_is_told_that_it_was_forgotten() {
    let mut pair = Pair::new([Vec::new(), Vec::new()]);
    pair.connect();
    pair.pass(200);
    let namespace = definition("orders", &Definition::default());
    let restore = |from: &str| {
        let shown = Box::new(told(Some(EpochId(7)), (*namespace).clone(), NameState::InUse));
        Event::Restore { id: RequestId(1), shown, actor: Actor::new("agent", from) }
    };
    pair.define(0, "orders", "10.0.0.6:1").unwrap();
    pair.replies.clear();
    // Whoever uses it first, and two agents that show it before that is agreed on.
    let used =
        Event::Change { id: RequestId(2), change: Change::Use(namespace.clone()), actor: Actor::new("agent", "") };
    pair.events(vec![(0, used), (0, restore("10.0.0.7:1")), (1, restore("10.0.0.8:1"))]);
    let answers = |changed| pair.replies.iter().filter(|reply| **reply == Reply::Change(Ok(changed))).count();
    assert_eq!((answers(Changed::Done), answers(Changed::AlreadySo)), (1, 2), "{:?}", pair.replies);
}

/// Retired names beyond those of which all is kept.
const BEYOND: usize = 40;

#[test]
fn the_oldest_retired_names_are_known_by_their_digests_and_stay_retired() {
    let retired = |n: usize| {
        let mut setting = named(&format!("r{n:05}"), SettingValue::Retired);
        (setting.version, setting.at) = (3, WallMs(n as i64));
        setting
    };
    let name = |n: usize| format!("r{n:05}").parse::<GeneratorName>().unwrap();
    // The oldest of all has strings that no other name may give.
    let template = "{date:%Y%m%d}X{token}{serial:8}";
    let strings = *string("strings", template);
    let key = SettingKey::Namespace(strings.name().clone());
    let mut all: Vec<Setting> = (0..RETIRED_KEPT + BEYOND).map(retired).collect();
    all.push(setting(key.clone(), SettingValue::Retired(Box::new(strings))));
    let mut pair = Pair::new([all.clone(), all]);
    pair.connect();
    pair.pass(200);
    for ledger in &pair.ledgers {
        let table = ledger.settings_table();
        let known: Vec<bool> =
            (0..RETIRED_KEPT + BEYOND).map(|n| table.get(&SettingKey::Namespace(name(n))).is_some()).collect();
        assert_eq!(known, (0..RETIRED_KEPT + BEYOND).map(|n| n >= BEYOND).collect::<Vec<_>>());
        assert!(table.get(&key).is_some(), "what it stood for is in the way of others");
        assert!(ledger.check().is_ok());
    }
    let olga = || Actor::new("olga", "");
    let change = |change| Event::Change { id: RequestId(1), change, actor: olga() };
    for at in [0, 1] {
        for n in [0, BEYOND - 1, BEYOND] {
            assert_eq!(pair.define(at, name(n).as_str(), "10.0.0.7:1"), Err(Refusal::NameRetired), "{n}");
            assert_eq!(pair.asked(at, change(Change::Retire(name(n)))), Ok(Changed::AlreadySo));
        }
        let refused = pair.asked(at, change(Change::Define(string("others", template)))).unwrap_err();
        assert!(matches!(refused, Refusal::Collides { .. }), "{refused}");
        // An agent that served it, and did not hear of it.
        let shown =
            Box::new(told(Some(EpochId(7)), *definition(name(0).as_str(), &Definition::default()), NameState::InUse));
        let restored = pair.asked(at, Event::Restore { id: RequestId(1), shown, actor: olga() });
        assert_eq!(restored, Err(Refusal::NameRetired));
    }
}

#[test]
fn a_master_that_was_put_back_hears_of_names_that_are_known_by_their_digests() {
    let living = |n: usize| named(&format!("r{n:05}"), SettingValue::Namespace);
    let before: Vec<Setting> = (0..RETIRED_KEPT + BEYOND).map(living).collect();
    let after = before.iter().cloned().map(|mut setting| {
        let SettingValue::Namespace(namespace) = setting.value else { panic!() };
        (setting.version, setting.value) = (2, SettingValue::Retired(namespace));
        setting
    });
    let mut pair = Pair::new([after.clone().collect(), after.collect()]);
    pair.connect();
    pair.pass(200);
    let newer: Vec<Setting> = pair.ledgers[0].settings_table().all().cloned().collect();
    for put_back in [0, 1] {
        let mut settings = [newer.clone(), newer.clone()];
        settings[put_back] = before.iter().take(BEYOND).cloned().collect();
        let mut pair = Pair::new(settings);
        pair.connect();
        pair.pass(5);
        for ledger in &pair.ledgers {
            assert!(ledger.settings_table().all().eq(&newer));
        }
        for at in [0, 1] {
            assert_eq!(pair.define(at, "r00003", "10.0.0.7:1"), Err(Refusal::NameRetired));
        }
    }
}

#[test]
fn an_agent_shows_masters_that_forgot_it_a_name_that_they_said_is_retired() {
    let mut pair = Pair::new([Vec::new(), Vec::new()]);
    pair.connect();
    pair.pass(200);
    let mut show = |namespace: Box<Namespace>, pairing| {
        let proof = told_by_name(Some(EpochId(pairing)), namespace.name().clone()).proof;
        let shown = Box::new(Registered { namespace: *namespace, state: NameState::Retired, proof });
        pair.asked(1, Event::Restore { id: RequestId(1), shown, actor: Actor::new("agent", "10.0.0.7:1") })
    };
    assert_eq!(show(definition("orders", &Definition::default()), 7), Ok(Changed::Done));
    assert_eq!(show(definition("orders", &Definition::default()), 7), Ok(Changed::AlreadySo));
    assert_eq!(show(definition("parcels", &Definition::default()), 8), Err(Refusal::NotShownRetired), "a stranger's");
    // A template that nobody proved would be in the way of others.
    assert_eq!(show(string("strings", "{date:%Y%m%d}X{token}{serial:8}"), 7), Err(Refusal::NotShownRetired));
    assert_eq!(pair.define(0, "orders", "10.0.0.7:1"), Err(Refusal::NameRetired));
}
