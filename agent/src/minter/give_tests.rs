//! Names with plugins, on every way to IDs that is not HTTP.

use super::kit::Kit;
use super::*;
use crate::embed::{MintError, Shared, UniqGenerator};
use crate::plugin::{Call, Caller, Needs, Outgoing, Plugin, PluginRefusal, Plugins};
use common::kind::Kind;
use common::namespace::{Definition, Uniq64Spec};
use net::rpc::mint::MintCode;
use std::collections::BTreeSet;
use std::sync::Mutex;

fn with(definition: Definition, plugins: &str) -> Definition {
    definition.with_plugins(serde_json::from_str(plugins).unwrap())
}

fn define(minter: &Minter, name: &str, definition: Definition) {
    let namespace = Namespace::define(name.parse().unwrap(), &definition).unwrap();
    assert_eq!(minter.define(namespace.clone()), Ok(()));
    assert_eq!(minter.define(namespace), Ok(()));
}

fn code<T: std::fmt::Debug>(result: Result<T, MintError>) -> MintCode {
    match result.unwrap_err() {
        MintError::Refused(refusal) => refusal.code(),
        MintError::Forked => panic!("nobody forked"),
    }
}

const ONE: &str = r#"[{"plugin":"quota","per_day":1}]"#;

/// One of each sort of generator with a quota of one ID: another name for `default`, serials of its own, strings, a layout.
fn of_one() -> (Kit, Arc<Minter>) {
    let kit = Kit::new();
    let minter = kit.start();
    let own = Definition::Uniq64(Uniq64Spec { scope: Some(common::namespace::Scope::Own), ..Uniq64Spec::default() });
    define(&minter, "alias", with(Definition::default(), ONE));
    define(&minter, "own", with(own, ONE));
    define(&minter, "text", with(Definition::string("A{date:%Y%m%d}{token}{serial:6}"), ONE));
    define(&minter, "layout", with(Definition::layout("sonyflake"), ONE));
    (kit, minter)
}

type Way = fn(&Shared) -> Result<(), MintError>;

#[test]
fn a_quota_of_one_refuses_the_second_on_every_way_within_a_process() {
    let ways: [(&str, Way); 9] = [
        ("alias", |from| from.get_uniq64().map(drop)),
        ("own", |from| from.get_uniq64().map(drop)),
        ("alias", |from| from.per_thread().get_uniq64().map(drop)),
        ("own", |from| from.per_thread().get_uniq64().map(drop)),
        ("own", |from| from.get_batch64(1, &mut Vec::new())),
        ("text", |from| from.get_uniq_string("", "").map(drop)),
        ("text", |from| from.get_batch_string(1, "", "", &mut Vec::new())),
        ("layout", |from| from.get_number().map(drop)),
        ("layout", |from| from.per_thread().get_batch_number(1, &mut Vec::new())),
    ];
    for (name, way) in ways {
        let (_kit, minter) = of_one();
        // So that a window of `default` is open, which no other name may use.
        Shared::new(&minter, "default").unwrap().get_uniq64().unwrap();
        let generator = Shared::new(&minter, name).unwrap();
        assert_eq!(way(&generator), Ok(()), "{name}");
        for _ in 0..3 {
            assert_eq!(code(way(&generator)), MintCode::QuotaExceeded, "{name}");
        }
        let block = generator.per_thread();
        assert!(block.get_uniq64().is_err() && block.get_uniq64().is_err());
        let refused: u64 = minter.calls().refused().map(|(_, n)| n).sum();
        assert_eq!(refused, 5, "each refusal is counted once");
    }
}

#[tokio::test]
async fn there_is_no_way_round_the_plugins_of_a_name() {
    let (_kit, minter) = of_one();
    for (kind, name) in
        [(Kind::Uniq64, "alias"), (Kind::Uniq64, "own"), (Kind::String, "text"), (Kind::Layout, "layout")]
    {
        let generator = minter.names().generator(kind, name).unwrap();
        assert!(minter.try_one(generator).is_none() && generator.unguarded().is_none(), "{name}");
        minter.mint(generator, 1).await.unwrap();
        assert!(minter.try_one(generator).is_none() && generator.unguarded().is_none(), "{name}");
        let refused = [minter.mint(generator, 1).await, minter.mint_blocking(generator, 1)];
        for refusal in refused.map(Result::unwrap_err) {
            assert_eq!(refusal.code(), MintCode::QuotaExceeded, "{name}");
        }
    }
}

#[tokio::test]
async fn a_name_whose_plugins_cannot_be_made_refuses_with_the_reason() {
    let kit = Kit::new();
    let minter = kit.start();
    define(&minter, "one", with(Definition::default(), r#"[{"plugin":"nosuch"}]"#));
    define(&minter, "two", with(Definition::default(), r#"[{"plugin":"history"}]"#));
    define(&minter, "three", with(Definition::default(), r#"[{"plugin":"quota","per_second":0}]"#));
    for (name, why) in [("one", "no such plugin"), ("two", "keeps no history"), ("three", "1 to 1000000000")] {
        let refused = Shared::new(&minter, name).unwrap().get_uniq64().unwrap_err().to_string();
        assert!(refused.contains(why), "{name}: {refused}");
    }
    let other = Namespace::define("one".parse().unwrap(), &Definition::default()).unwrap();
    assert_eq!(minter.define(other), Ok(()), "plugins do not change which IDs come");
}

#[tokio::test]
async fn a_name_with_plugins_that_is_retired_gives_no_more_ids() {
    let (_kit, minter) = of_one();
    for (kind, name) in
        [(Kind::Uniq64, "alias"), (Kind::Uniq64, "own"), (Kind::String, "text"), (Kind::Layout, "layout")]
    {
        let generator = Shared::new(&minter, name).unwrap();
        let known = minter.names().generator(kind, name).unwrap();
        minter.retire(&minter.names().definition(kind, &name.parse().unwrap()).unwrap());
        let refused = minter.mint(known, 1).await.unwrap_err();
        assert!(matches!(refused, Refusal::GeneratorRetired { .. }), "{name}: {refused:?}");
        assert!(generator.get_uniq64().is_err() && generator.get_number().is_err());
    }
}

/// Refuses in `after` where its label asks for it, and keeps what it saw.
struct Picky(Mutex<Vec<String>>);

impl Plugin for Picky {
    fn name(&self) -> &str {
        "picky"
    }

    fn needs(&self, _: Kind) -> Needs {
        Needs::Texts
    }

    fn after(&self, call: &Call<'_>, outgoing: &Outgoing<'_>) -> Result<(), PluginRefusal> {
        self.0.lock().unwrap().extend_from_slice(outgoing.texts());
        let counted: u32 = outgoing.ranges().iter().map(|range| range.count).sum();
        assert_eq!((counted, outgoing.texts().len()), (call.n, call.n as usize));
        match call.caller {
            Caller::Label("refused") => Err(PluginRefusal::new(MintCode::BadParameter, "not to that one")),
            Caller::Label("panic") => panic!("planted"),
            _ => Ok(()),
        }
    }
}

#[test]
fn what_a_plugin_refuses_after_it_was_taken_is_a_gap_and_comes_to_nobody() {
    let kit = Kit::new();
    let minter = kit.start();
    let (picky, mut plugins) = (Arc::new(Picky(Mutex::default())), Plugins::new());
    let one = Arc::clone(&picky);
    plugins.register("picky", move |_| Ok(Arc::clone(&one) as Arc<dyn Plugin>)).unwrap();
    assert!(minter.extras().set_plugins(plugins));
    let picky_only = r#"[{"plugin":"picky"}]"#;
    define(&minter, "alias", with(Definition::default(), picky_only));
    define(&minter, "text", with(Definition::string("A{date:%Y%m%d}{token}{serial:6}"), picky_only));
    define(&minter, "layout", with(Definition::layout("sonyflake"), picky_only));
    let (told, heard) = std::sync::mpsc::channel();
    minter.calls().refusals().set(move |call, failure| {
        let _ = told.send((call.name.to_owned(), call.n, call.caller.to_string(), failure.stage, failure.code));
    });
    let mut left = BTreeSet::new();
    for round in 0..30 {
        let label = ["good", "refused", "panic"][round % 3];
        let from = |name| Shared::new(&minter, name).unwrap().called_by(label);
        let (mut numbers, mut texts, mut layout) = (Vec::new(), Vec::new(), Vec::new());
        let all = [
            from("alias").get_batch64(7, &mut numbers),
            from("text").get_batch_string(7, "", "", &mut texts),
            from("layout").get_batch_number(7, &mut layout),
        ];
        assert!(all.iter().all(|got| got.is_ok() == (label == "good")), "{label}: {all:?}");
        let numbers = numbers.iter().map(u64::to_string).chain(layout.iter().map(u128::to_string));
        for id in numbers.chain(texts) {
            assert!(label == "good" && left.insert(id.clone()), "{id} came twice");
        }
        let numbers = Shared::new(&minter, "default").unwrap().get_uniq64().unwrap();
        assert!(left.insert(numbers.to_string()));
    }
    assert_eq!(left.len(), 10 * 21 + 30);
    let seen = picky.0.lock().unwrap();
    assert_eq!((seen.len(), seen.iter().collect::<BTreeSet<_>>().len()), (30 * 21, 30 * 21), "each was taken once");
    let told: Vec<_> = heard.try_iter().collect();
    assert_eq!(told.len(), 60);
    let of =
        |name: &str, caller: &str, code| (name.to_owned(), 7, caller.to_owned(), crate::plugin::Stage::After, code);
    assert!(told.contains(&of("alias", "refused", MintCode::BadParameter)), "{told:?}");
    assert!(told.contains(&of("layout", "panic", MintCode::Overloaded)));
}

#[tokio::test]
async fn a_retired_name_of_the_shared_series_gives_no_more_on_any_way() {
    let kit = Kit::new();
    let minter = kit.start();
    define(&minter, "alias", Definition::default());
    let (shared, default) = (Shared::new(&minter, "alias").unwrap(), Shared::new(&minter, "default").unwrap());
    let (block, own) = (shared.per_thread(), default.per_thread());
    let mut seen = BTreeSet::new();
    for _ in 0..10 {
        for from in [&shared as &dyn UniqGenerator, &default, &block, &own] {
            assert!(seen.insert(from.get_uniq64().unwrap()));
        }
    }
    let alias = minter.names().generator(Kind::Uniq64, "alias").unwrap();
    let writes = minter.disk().writes();
    minter.retire(&minter.names().definition(Kind::Uniq64, &"alias".parse().unwrap()).unwrap());
    for from in [&shared as &dyn UniqGenerator, &block] {
        for _ in 0..3 {
            let refused = from.get_uniq64().unwrap_err();
            let retired = |refusal: &Refusal| matches!(refusal, Refusal::GeneratorRetired { .. });
            assert!(matches!(&refused, MintError::Refused(refusal) if retired(refusal)), "{refused:?}");
        }
        assert!(from.get_batch64(3, &mut Vec::new()).is_err());
    }
    assert!(minter.try_one(alias).is_none());
    // All others go on, with what is durable already.
    for _ in 0..2_000 {
        for from in [&default as &dyn UniqGenerator, &own] {
            assert!(seen.insert(from.get_uniq64().unwrap()));
        }
    }
    assert_eq!(minter.disk().writes(), writes);
    // Who asks by the retired name on uses up nothing of theirs, now that their window is open.
    let series = minter.names().generator(Kind::Uniq64, "default").unwrap();
    let used = || (minter.names().minted().collect::<Vec<_>>(), format!("{:?}", series.unguarded()));
    let before = used();
    for _ in 0..100 {
        for from in [&shared as &dyn UniqGenerator, &block] {
            assert!(from.get_uniq64().is_err() && from.get_batch64(3, &mut Vec::new()).is_err());
        }
    }
    assert_eq!(used(), before);
}
