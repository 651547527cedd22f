//! Names: asked for, kept, forgotten by the masters.

use super::finding::FRUITLESS_AT_ONCE;
use super::*;
use crate::heartbeat::tests::master::{Master, in_use};
use crate::masters::tests::masters_at;
use crate::minter::kit::{Kit, parameters};
use crate::plugin::Caller;
use crate::refusal::Refusal;
use common::kind::Kind;
use common::namespace::{Definition, Namespace};
use common::parameters::ClusterId;
use net::rpc::lease::{NameProof, NameState, Refusal as Said, RetiredOnly};
use serial_file::kept_names;
use std::time::Duration;
use std::time::Instant;

#[tokio::test]
async fn an_unknown_name_is_asked_for_after_each_request_and_a_flood_is_a_few_questions() {
    let (kit, master) = (Kit::new(), Master::new(Ok(7)));
    let masters = vec![master.listen().await];
    let minter = kit.start();
    let names = Arc::new(Catalog::new(masters_at(&masters, &minter), &kit.path()));
    let name = |text: &str| text.parse::<GeneratorName>().unwrap();
    let definition = Definition::default();
    names.look_up("orders", |_| Ok(())).await.unwrap();
    assert!(minter.names().generator(Kind::Uniq64, "orders").is_err());
    let namespace = Namespace::define(name("orders"), &definition).unwrap();
    master.with(|records| records.registered.push(in_use(namespace)));
    names.look_up("orders", |_| Ok(())).await.unwrap();
    assert!(minter.names().generator(Kind::Uniq64, "orders").is_ok(), "at once after it was registered");

    let before = master.with(|records| records.finds.len());
    let flood = (0..1_000).map(|n| {
        let (names, name) = (Arc::clone(&names), format!("n{n}"));
        tokio::spawn(async move { names.look_up(&name, |_| Ok(())).await })
    });
    let mut refused = 0;
    for one in flood.collect::<Vec<_>>() {
        refused += usize::from(one.await.unwrap().is_err());
    }
    let (asked, largest) = master.with(|records| {
        let new = &records.finds[before..];
        (new.len(), new.iter().map(Vec::len).max().unwrap())
    });
    assert!(asked < 20 && largest <= 200, "{asked} questions, the largest about {largest} names, {refused} refused");
    names.look_up("later", |_| Ok(())).await.unwrap();
}

#[tokio::test]
async fn names_are_kept_for_their_cluster_and_never_through_a_link() {
    let (kit, master) = (Kit::new(), Master::new(Ok(7)));
    let masters = vec![master.listen().await];
    let minter = kit.start();
    let new = |minter: &Arc<Minter>| Arc::new(Catalog::new(masters_at(&masters, minter), &kit.path()));
    let definition = Definition::string("{date:%Y%m%d}{token}{serial:8}");
    let namespace = Namespace::define("orders".parse().unwrap(), &definition).unwrap();
    master.with(|records| records.registered.push(in_use(namespace.clone())));
    // Whoever may write into the folder put a link in the way.
    let folder = kit.path().parent().unwrap().to_owned();
    let (target, new_file) = (folder.join("target"), folder.join("serial.generators.new"));
    std::fs::write(&target, "somebody's").unwrap();
    std::os::unix::fs::symlink(&target, &new_file).unwrap();
    new(&minter).look_up("orders", |_| Ok(())).await.unwrap();
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "somebody's");
    drop(minter);

    let known = |minter: &Arc<Minter>| minter.names().generator(Kind::String, "orders").is_ok();
    let minter = kit.start_bare();
    new(&minter).recall().await;
    assert!(minter.session().start().to_string() == "resumed" && known(&minter));
    drop(minter);

    // A fresh session belongs to no cluster yet.
    let copy = folder.join("copy");
    std::fs::copy(kit.path(), &copy).unwrap();
    std::fs::rename(&copy, kit.path()).unwrap();
    let minter = kit.start_bare();
    new(&minter).recall().await;
    assert!(minter.session().start().to_string().starts_with("fresh") && !known(&minter));
    // It joins another cluster, in which the name stands for something else; the block of the old one does not count.
    minter.join(ClusterId(2), parameters()).unwrap();
    new(&minter).recall().await;
    assert!(!known(&minter), "another cluster's");
    let other = Definition::string("{date:%Y%m%d}{token}{serial:7}");
    let other = Namespace::define("orders".parse().unwrap(), &other).unwrap();
    minter.define(other.clone()).unwrap();
    assert_eq!(minter.names().definition(Kind::String, other.name()), Some(other));
    // Contradicted, by whatever definition, nothing is minted by it any more, and the agent is not ready.
    assert!(minter.define(namespace).is_err());
    assert_eq!(minter.ready().unwrap_err().code().as_str(), "generator_conflict");
}

#[tokio::test]
async fn ten_thousand_names_are_learned_and_kept_and_a_retired_one_is_asked_about() {
    const MANY: usize = 10_000;
    let (kit, master) = (Kit::new(), Master::new(Ok(7)));
    let masters = vec![master.listen().await];
    let new = |minter: &Arc<Minter>| Arc::new(Catalog::new(masters_at(&masters, minter), &kit.path()));
    let namespace = |n: usize| Namespace::define(format!("n{n:05}").parse().unwrap(), &Definition::default()).unwrap();
    let registered = |n| in_use(namespace(n));
    master.with(|records| records.registered = (0..MANY).map(registered).collect());
    let minter = kit.start();
    let (names, before) = (new(&minter), Instant::now());
    names.refresh().await.unwrap();
    let learned = before.elapsed();
    let served = |minter: &Minter, n: usize| minter.names().generator(Kind::Uniq64, &format!("n{n:05}")).map(|_| ());
    assert!((0..MANY).all(|n| served(&minter, n).is_ok()));
    let before = Instant::now();
    names.refresh().await.unwrap();
    println!("{MANY} names were learned in {learned:?}, and looked through again in {:?}", before.elapsed());
    assert_eq!(kept_names(&kit.path()).unwrap().len(), MANY);
    assert!(master.with(|records| records.finds.is_empty()), "all of them were listed");

    master.with(|records| records.registered[7].state = NameState::Retired);
    names.refresh().await.unwrap();
    assert_eq!(served(&minter, 7), Err(Refusal::GeneratorRetired { name: namespace(7).name().clone() }));
    assert_eq!(master.with(|records| records.finds.clone()), [[namespace(7).name().clone()]]);
    drop((names, minter));

    let minter = kit.start_bare();
    new(&minter).recall().await;
    assert_eq!((0..MANY).filter(|n| served(&minter, *n).is_ok()).count(), MANY - 1);
    // A file that is cut is not believed in part.
    let kept = std::fs::read(kit.path().with_extension("generators")).unwrap();
    std::fs::write(kit.path().with_extension("generators"), &kept[..kept.len() / 2]).unwrap();
    assert!(kept_names(&kit.path()).is_err());
}

#[tokio::test]
async fn a_name_that_the_masters_have_forgotten_is_registered_again_or_given_up() {
    let (kit, master) = (Kit::new(), Master::new(Ok(7)));
    let masters = vec![master.listen().await];
    let minter = kit.start();
    let names = Arc::new(Catalog::new(masters_at(&masters, &minter), &kit.path()));
    let definition = Definition::string("{date:%Y%m%d}{token}{serial:8}");
    let orders = Namespace::define("orders".parse().unwrap(), &definition).unwrap();
    let registered = in_use(orders.clone());
    master.with(|records| records.registered.push(registered.clone()));
    names.refresh().await.unwrap();
    let known = || minter.names().generator(Kind::String, "orders").map(|_| ());

    // As from masters that ask to wait, and from those that do not.
    for restore in [Err(Said::Quiet), Ok(())] {
        master.with(|records| (records.registered, records.restore) = (Vec::new(), restore.clone()));
        names.refresh().await.unwrap();
        let again = master.with(|records| records.registered.contains(&registered));
        assert_eq!((again, known().is_ok()), (restore.is_ok(), true));
    }

    // Another name that may give the same was registered since.
    let refusal = Said::Collides { name: "bills".parse().unwrap(), template: String::new(), example: String::new() };
    master.with(|records| (records.registered, records.restore) = (Vec::new(), Err(refusal)));
    names.refresh().await.unwrap();
    assert_eq!(known().unwrap_err().code().as_str(), "generator_conflict");
    assert_eq!(minter.ready().unwrap_err().code().as_str(), "generator_conflict");
    drop((names, minter));
    let minter = kit.start_bare();
    let path = kit.path();
    Catalog::new(masters_at(&[], &minter), &path).recall().await;
    assert!(minter.names().generator(Kind::String, "orders").is_err(), "not by the next start either");
}

#[tokio::test]
async fn the_first_id_of_a_name_waits_until_the_masters_hold_it_in_use() {
    let (kit, master) = (Kit::new(), Master::new(Ok(7)));
    let minter = kit.start();
    let masters = vec![master.listen().await];
    let names = Arc::new(Catalog::new(masters_at(&masters, &minter), &kit.path()));
    let orders = Namespace::define("orders".parse().unwrap(), &Definition::default()).unwrap();
    let unused = Registered { namespace: orders.clone(), state: NameState::Unused, proof: None };
    master.with(|records| (records.registered, records.restore) = (vec![unused], Err(Said::PeerAway)));
    let known = || minter.names().generator(Kind::Uniq64, "orders").is_ok();
    // What is only heard of is not used.
    assert_eq!(names.refresh().await, Ok(true));
    assert!(!known() && minter.names().definition(Kind::Uniq64, orders.name()).is_some());
    let refused = names.look_up("orders", |_| Ok(())).await.unwrap_err();
    assert_eq!(refused.code().as_str(), "masters_unavailable");
    assert!(refused.to_string().contains("its first ID needs both masters") && !known(), "{refused}");
    master.with(|records| records.restore = Ok(()));
    names.look_up("orders", |_| Ok(())).await.unwrap();
    assert!(known() && master.with(|records| records.registered == [in_use(orders.clone())]));

    // A name that was taken back before is nobody's.
    let bills = Namespace::define("bills".parse().unwrap(), &Definition::default()).unwrap();
    let unused = Registered { namespace: bills.clone(), state: NameState::Unused, proof: None };
    master.with(|records| records.registered.push(unused));
    names.refresh().await.unwrap();
    master.with(|records| records.registered.retain(|one| one.namespace == orders));
    names.look_up("bills", |_| Ok(())).await.unwrap();
    assert!(minter.names().definition(Kind::Uniq64, bills.name()).is_none());
    assert!(minter.names().generator(Kind::Uniq64, "bills").is_err());
}

#[tokio::test]
async fn names_that_are_first_asked_for_together_are_taken_in_use_together() {
    let (kit, master) = (Kit::new(), Master::new(Ok(7)));
    let minter = kit.start();
    let names = Arc::new(Catalog::new(masters_at(&[master.listen().await], &minter), &kit.path()));
    let all: Vec<GeneratorName> = (0..12).map(|nth| format!("orders-{nth}").parse().unwrap()).collect();
    let unused = |name: &GeneratorName| {
        let namespace = Namespace::define(name.clone(), &Definition::default()).unwrap();
        Registered { namespace, state: NameState::Unused, proof: None }
    };
    // It answers none of them before it has them all.
    master.with(|records| (records.registered, records.uses_awaited) = (all.iter().map(unused).collect(), all.len()));
    names.refresh().await.unwrap();
    let first = all.iter().map(|name| names.look_up(name.as_str(), |_| Ok(())));
    assert!(futures::future::join_all(first).await.iter().all(Result::is_ok));
    assert!(all.iter().all(|name| minter.names().generator(Kind::Uniq64, name.as_str()).is_ok()));
}

#[tokio::test]
async fn a_name_that_cannot_be_taken_in_now_is_not_unknown() {
    let (kit, master) = (Kit::new(), Master::new(Ok(7)));
    let minter = kit.start();
    let names = Arc::new(Catalog::new(masters_at(&[master.listen().await], &minter), &kit.path()));
    let define = |name: &str| Namespace::define(name.parse().unwrap(), &Definition::default()).unwrap();
    let unused = Registered { namespace: define("unused"), state: NameState::Unused, proof: None };
    master.with(|records| records.registered = vec![in_use(define("used")), unused.clone()]);
    minter.names().hear_unused([], vec![unused]);
    minter.end().unwrap();
    for name in ["used", "unused"] {
        assert_eq!(names.look_up(name, |_| Ok(())).await, Err(Refusal::Overloaded("this agent is shutting down")));
    }
    assert_eq!(names.refresh().await, Ok(false));
}

#[tokio::test]
async fn a_definition_and_the_first_ids_of_its_name_take_one_connection_and_wait_for_nothing() {
    let (kit, master) = (Kit::new(), Master::new(Ok(7)));
    let minter = kit.start();
    let masters = masters_at(&[master.listen().await], &minter);
    let names = Arc::new(Catalog::new(masters, &kit.path()));
    let began = Instant::now();
    for nth in 0..20 {
        let name: GeneratorName = format!("orders-{nth}").parse().unwrap();
        let orders = Namespace::define(name.clone(), &Definition::default()).unwrap();
        assert_eq!(names.define(Caller::IN_PROCESS, &orders, false).await, Ok(true));
        assert_eq!(minter.names().definition(Kind::Uniq64, &name), Some(orders.clone()), "before anybody asks for it");
        assert_eq!(names.define(Caller::IN_PROCESS, &orders, false).await, Ok(false));
        names.look_up(name.as_str(), |_| Ok(())).await.unwrap();
        assert!(minter.names().generator(Kind::Uniq64, name.as_str()).is_ok());
    }
    // Which they would, if each waited for the pause after the one before.
    let pauses = Duration::from_millis(100) * 19;
    assert!(began.elapsed() < pauses, "{:?}", began.elapsed());
    assert_eq!(master.with(|records| (records.connections, records.finds.len())), (1, 0));
    // One that stands for something else is learned from the refusal, whatever this agent knew.
    let other = Namespace::define("bills".parse().unwrap(), &Definition::layout("snowflake")).unwrap();
    master.with(|records| records.registered.push(in_use(other.clone())));
    let bills = Namespace::define(other.name().clone(), &Definition::default()).unwrap();
    assert_eq!(
        names.define(Caller::IN_PROCESS, &bills, false).await,
        Err(Refusal::GeneratorExists { name: other.name().clone() })
    );
    assert!(minter.names().generator(Kind::Layout, "bills").is_ok());
    assert_eq!(master.with(|records| records.finds.len()), 0, "nobody asked what it is");
}

#[tokio::test]
async fn a_retired_name_that_the_masters_have_forgotten_is_shown_to_them_also_after_a_restart() {
    let (kit, master) = (Kit::new(), Master::new(Ok(7)));
    let masters = vec![master.listen().await];
    let new = |minter: &Arc<Minter>| Arc::new(Catalog::new(masters_at(&masters, minter), &kit.path()));
    let orders = Namespace::define("orders".parse().unwrap(), &Definition::default()).unwrap();
    let retired = Registered { state: NameState::Retired, ..in_use(orders.clone()) };
    let minter = kit.start();
    let names = new(&minter);
    master.with(|records| records.registered = vec![in_use(orders.clone())]);
    names.refresh().await.unwrap();
    master.with(|records| (records.registered, records.names) = (vec![retired.clone()], 1));
    names.refresh().await.unwrap();
    drop((names, minter));

    let minter = kit.start_bare();
    let names = new(&minter);
    names.recall().await;
    // Put back to when it was in use, and to before it was registered.
    for (number, forgot) in [(2, vec![in_use(orders.clone())]), (3, Vec::new())] {
        master.with(|records| (records.registered, records.names) = (forgot, number));
        assert_eq!(names.refresh().await, Ok(true));
        assert_eq!(master.with(|records| records.registered.clone()), std::slice::from_ref(&retired));
        assert!(minter.names().generator(Kind::Uniq64, "orders").is_err() && minter.alarm().is_none());
    }
    // As long as the masters know the same, nothing is asked about it.
    let asked = master.with(|records| records.finds.len());
    names.refresh().await.unwrap();
    assert_eq!(master.with(|records| records.finds.len()), asked);
}

/// The master accepts connections and says nothing on them.
#[tokio::test]
async fn look_ups_do_not_each_wait_for_a_master_that_stands_still() {
    let (kit, master) = (Kit::new(), Master::new(Ok(7)));
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let masters = vec![silent.local_addr().unwrap().to_string(), master.listen().await];
    let minter = kit.start();
    let names = Arc::new(Catalog::new(masters_at(&masters, &minter), &kit.path()));
    let look_up = async |name: &str| {
        let began = std::time::Instant::now();
        names.look_up(name, |_| Ok(())).await.unwrap();
        began.elapsed()
    };
    let first = look_up("n1").await;
    let next = [look_up("n2").await, look_up("n3").await, look_up("n4").await];
    assert!(next.iter().sum::<Duration>() < first, "{first:?}, then {next:?}");
    assert_eq!(master.with(|records| records.finds.len()), 4, "the other one is asked each time");
}

#[tokio::test]
async fn a_name_that_masters_know_by_name_alone_is_retired_and_shown_with_their_word() {
    let (kit, master) = (Kit::new(), Master::new(Ok(7)));
    let masters = vec![master.listen().await];
    let minter = kit.start();
    let names = Arc::new(Catalog::new(masters_at(&masters, &minter), &kit.path()));
    let namespace = Namespace::define("orders".parse().unwrap(), &Definition::default()).unwrap();
    master.with(|records| records.registered.push(in_use(namespace.clone())));
    names.refresh().await.unwrap();
    assert!(minter.names().generator(Kind::Uniq64, "orders").is_ok());
    let proof = Some(NameProof([7; 32]));
    master.with(|records| {
        records.registered.clear();
        records.retired.push(RetiredOnly { name: namespace.name().clone(), proof });
    });
    names.refresh().await.unwrap();
    let retired = Refusal::GeneratorRetired { name: namespace.name().clone() };
    assert_eq!(minter.names().generator(Kind::Uniq64, "orders").map(|_| ()), Err(retired));
    assert!(master.with(|records| records.registered.is_empty()));
    // Masters that have forgotten it are shown it.
    master.with(|records| (records.retired, records.names) = (Vec::new(), 1));
    names.refresh().await.unwrap();
    let shown = master.with(|records| records.registered.clone());
    assert_eq!(shown, [Registered { namespace, state: NameState::Retired, proof }]);
}

#[tokio::test]
async fn a_name_that_was_retired_is_not_contradicted_by_a_refusal_that_comes_late() {
    let kit = Kit::new();
    let minter = kit.start();
    let orders = Namespace::define("orders".parse().unwrap(), &Definition::default()).unwrap();
    let retired = Registered { state: NameState::Retired, ..in_use(orders.clone()) };
    minter.learn(&in_use(orders.clone())).unwrap();
    minter.learn(&retired).unwrap();
    minter.contradicted(&in_use(orders.clone())).unwrap();
    let refused = minter.names().generator(Kind::Uniq64, "orders").map(drop);
    assert_eq!(refused, Err(Refusal::GeneratorRetired { name: orders.name().clone() }));
    assert_eq!((minter.names().all(Entry::kept), minter.ready()), (vec![retired], Ok(())));
}

#[tokio::test]
async fn names_are_kept_as_they_are_also_if_nobody_waits_for_a_write_any_more() {
    let kit = Kit::new();
    let minter = kit.start();
    let names = Catalog::new(masters_at(&[], &minter), &kit.path());
    let serve = |n: usize| {
        let namespace = Namespace::define(format!("n{n}").parse().unwrap(), &Definition::default()).unwrap();
        minter.learn(&in_use(namespace)).unwrap();
    };
    for n in 1..=200 {
        serve(n);
        if n % 10 > 0 {
            let _ = futures::poll!(Box::pin(names.keep()));
        } else {
            names.keep().await;
            assert_eq!(kept_names(&kit.path()).map(|names| names.len()), Ok(n));
        }
    }
}

/// One of two masters lags behind: it does not know the name, and the other one needs it to take the name in use.
#[tokio::test]
async fn a_name_that_one_master_cannot_take_in_use_is_not_unknown_because_the_other_one_lags() {
    let (kit, lags, alone) = (Kit::new(), Master::new(Ok(7)), Master::new(Ok(7)));
    let minter = kit.start();
    let masters = vec![lags.listen().await, alone.listen().await];
    let names = Arc::new(Catalog::new(masters_at(&masters, &minter), &kit.path()));
    let orders = Namespace::define("orders".parse().unwrap(), &Definition::default()).unwrap();
    let unused = Registered { namespace: orders, state: NameState::Unused, proof: None };
    alone.with(|records| (records.registered, records.restore) = (vec![unused.clone()], Err(Said::PeerAway)));
    // Whichever of the two is asked first.
    for _ in 0..2 {
        minter.names().hear_unused([], vec![unused.clone()]);
        let refused = names.look_up("orders", |_| Ok(())).await.map_err(|why| why.code().as_str());
        assert_eq!(refused, Err("masters_unavailable"));
    }
    assert_eq!([&lags, &alone].map(|master| master.with(|records| records.uses)), [2, 2]);
}

#[tokio::test]
async fn unknown_names_wait_for_nothing_unless_many_are_asked_for() {
    let (kit, master) = (Kit::new(), Master::new(Ok(7)));
    let minter = kit.start();
    let names = Arc::new(Catalog::new(masters_at(&[master.listen().await], &minter), &kit.path()));
    for n in 0..FRUITLESS_AT_ONCE / 2 {
        names.look_up(&format!("n{n}"), |_| Ok(())).await.unwrap();
    }
    let pause = *names.asking.lock().await;
    assert!(pause.is_none_or(|until| until <= Instant::now()), "the next one would wait");
    assert_eq!(master.with(|records| records.finds.len()), FRUITLESS_AT_ONCE as usize / 2, "each was asked about");
}

#[tokio::test]
async fn whoever_leaves_before_the_answer_makes_no_questions_come_faster() {
    let (kit, master) = (Kit::new(), Master::new(Ok(7)));
    let minter = kit.start();
    let names = Arc::new(Catalog::new(masters_at(&[master.listen().await], &minter), &kit.path()));
    let (finds, began) = (|| master.with(|records| records.finds.len()), Instant::now());
    let at_once = FRUITLESS_AT_ONCE as usize;
    for n in 0..at_once + 6 {
        let name = format!("n{n}");
        let asked = async {
            while finds() <= n {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            () = asked => {}
            _ = names.look_up(&name, |_| Ok(())) => {}
        }
    }
    assert!(began.elapsed() >= 6 * Duration::from_millis(100), "{} questions in {:?}", finds(), began.elapsed());
    // Nor is it forgotten, or done when nobody thinks of it any more.
    let orders = Namespace::define("orders".parse().unwrap(), &Definition::default()).unwrap();
    let unused = Registered { namespace: orders, state: NameState::Unused, proof: None };
    master.with(|records| records.registered.push(unused.clone()));
    minter.names().hear_unused([], vec![unused]);
    let _ = futures::poll!(Box::pin(names.look_up("orders", |_| Ok(()))));
    let within = tokio::time::timeout(Duration::from_secs(5), async {
        while minter.names().generator(Kind::Uniq64, "orders").is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    within.await.unwrap();
}

#[tokio::test]
async fn a_name_that_no_request_fits_as_it_was_heard_is_asked_about_and_not_used() {
    let (kit, master) = (Kit::new(), Master::new(Ok(7)));
    let minter = kit.start();
    let names = Arc::new(Catalog::new(masters_at(&[master.listen().await], &minter), &kit.path()));
    let unused = |definition: &str| {
        let definition: Definition = common::json::read(definition.as_bytes()).unwrap();
        let namespace = Namespace::define("orders".parse().unwrap(), &definition).unwrap();
        Registered { namespace, state: NameState::Unused, proof: None }
    };
    let fits = |heard: &Namespace| match heard.sequences() {
        Some(_) => Ok(()),
        None => Err(Refusal::unknown(Kind::Sequence, "orders")),
    };
    master.with(|records| records.registered = vec![unused(r#"{"kind":"uniq64"}"#)]);
    names.refresh().await.unwrap();
    assert_eq!(names.look_up("orders", fits).await, Err(Refusal::unknown(Kind::Sequence, "orders")));
    assert_eq!(master.with(|records| records.uses), 0);
    master.with(|records| records.registered = vec![unused(r#"{"kind":"sequence"}"#)]);
    names.look_up("orders", fits).await.unwrap();
    assert!(minter.names().keyed("orders").is_ok());
}
