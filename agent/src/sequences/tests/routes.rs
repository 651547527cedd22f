//! Routes that other agents tell of, true or not.

use super::*;
use crate::sequence::Ownership;
use common::sequence::Route;
use net::places::{Place, Places};
use net::rpc::mint::{KeysReply, MintServiceRequest, MintServiceResponse};
use net::rpc::transport;
use std::sync::atomic::AtomicUsize;

/// An agent that serves nothing and says of each call what `routes` comes to, told its own address and how often it was asked before.
async fn misleading(routes: fn(&str, u64) -> Vec<Route>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rpc = listener.local_addr().unwrap().to_string();
    let (address, asked) = (rpc.clone(), Arc::new(AtomicUsize::new(0)));
    let counter = Arc::clone(&asked);
    let handle = move |io, _, place: Place| {
        let (address, counter) = (address.clone(), Arc::clone(&counter));
        async move {
            let service = tarpc::server::serve(move |_, request| {
                let MintServiceRequest::SequenceMany { keys, .. } = request else { panic!("{request:?}") };
                let before = counter.fetch_add(1, Ordering::Relaxed) as u64;
                let outcomes = vec![KeyOutcome::Refused(MintCode::Misdirected); keys.len()];
                let reply = KeysReply { outcomes, routes: routes(&address, before) };
                std::future::ready(Ok(MintServiceResponse::SequenceMany(Ok(reply))))
            });
            net::serve_connection!(io, &place, &crate::rpc::LIMITS.bounds(), service);
        }
    };
    tokio::spawn(transport::accept(listener, Places::new(32), CancellationToken::new(), handle));
    (rpc, asked)
}

/// An agent that answers no call for the first section, and gives 1 for every key of others.
async fn hanging() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rpc = listener.local_addr().unwrap().to_string();
    let handle = move |io, _, place: Place| async move {
        let service = tarpc::server::serve(|_, request| async {
            let MintServiceRequest::SequenceMany { keys, .. } = request else { panic!("{request:?}") };
            if keys.iter().any(|key| key.slot < Slot(KEYS)) {
                std::future::pending::<()>().await;
            }
            let reply = KeysReply { outcomes: vec![KeyOutcome::Given(1); keys.len()], routes: Vec::new() };
            Ok(MintServiceResponse::SequenceMany(Ok(reply)))
        });
        net::serve_connection!(io, &place, &crate::rpc::LIMITS.bounds(), service);
    };
    tokio::spawn(transport::accept(listener, Places::new(32), CancellationToken::new(), handle));
    rpc
}

/// An agent that gives 1 for every key, and whose first connection ends when it is told to.
async fn started_again() -> (String, CancellationToken) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rpc = listener.local_addr().unwrap().to_string();
    let (ended, connections) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
    let end = ended.clone();
    let handle = move |io, _, place: Place| {
        let ended =
            if connections.fetch_add(1, Ordering::Relaxed) == 0 { ended.clone() } else { CancellationToken::new() };
        async move {
            let service = tarpc::server::serve(|_, request| {
                let MintServiceRequest::SequenceMany { keys, .. } = request else { panic!("{request:?}") };
                let reply = KeysReply { outcomes: vec![KeyOutcome::Given(1); keys.len()], routes: Vec::new() };
                std::future::ready(Ok(MintServiceResponse::SequenceMany(Ok(reply))))
            });
            tokio::select! {
                () = ended.cancelled() => {}
                () = async { net::serve_connection!(io, &place, &crate::rpc::LIMITS.bounds(), service); } => {}
            }
        }
    };
    tokio::spawn(transport::accept(listener, Places::new(32), CancellationToken::new(), handle));
    (rpc, end)
}

fn route(sections: std::ops::Range<u32>, g: u64, rpc: &str) -> Route {
    let address = ServedAt { http: rpc.to_owned(), rpc: rpc.to_owned() };
    Route { from: Section(sections.start), to: Section(sections.end), address, g: Generation(g) }
}

/// Makes the owner of these sections one that is at this address.
fn lead_to(masters: &Masters, rpc: &str, sections: std::ops::Range<u32>) {
    let owner = SessionId(u128::MAX);
    masters.with(|state| state.sessions.push((owner, ServedAt { http: rpc.to_owned(), rpc: rpc.to_owned() })));
    masters.give(sections, owner);
}

#[tokio::test]
async fn an_agent_that_names_itself_by_ever_newer_routes_is_asked_four_times_and_then_as_seldom_as_any() {
    let masters = masters(600);
    let agent = agent(&masters).await;
    masters.session(0).await;
    let (rpc, asked) = misleading(|own, before| vec![route(0..100, 10 + before, own)]).await;
    lead_to(&masters, &rpc, 0..1);
    assert_eq!(agent.next(3).await, Err(MintCode::SegmentPending));
    // Four times at once, and then twice a second for as long as it waits: one second here.
    let asked = asked.load(Ordering::Relaxed);
    assert!((2..=8).contains(&asked), "one call was passed on {asked} times");
}

/// Time that the median of these calls takes, one after the other, for a key of a section each.
async fn median(agent: &Agent, sections: std::ops::Range<u32>) -> Duration {
    let mut took = Vec::new();
    for section in sections {
        let began = Instant::now();
        assert_eq!(agent.next(section * KEYS).await, Ok(1), "section {section}");
        took.push(began.elapsed());
    }
    took.sort_unstable();
    took[took.len() / 2]
}

#[tokio::test]
async fn the_first_number_of_a_section_waits_for_no_tick_wherever_it_is_asked_for() {
    let masters = masters(30_000);
    let [(one, _), (two, _)] = two_agents(&masters).await;
    // At whom they are given to, and at another one, which passes the calls on to an agent that has not heard of them yet.
    for (agent, sections) in [(&one, 0..40), (&two, 40..80)] {
        let took = median(agent, sections).await;
        // A list of all sections is asked for each ten seconds here.
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
}

#[tokio::test]
async fn an_agent_that_was_started_again_is_asked_at_once() {
    let masters = masters(600);
    let agent = agent(&masters).await;
    masters.session(0).await;
    let (rpc, end) = started_again().await;
    lead_to(&masters, &rpc, 0..1);
    assert_eq!(agent.next(3).await, Ok(1));
    end.cancel();
    let routes = masters.with(|state| state.routes);
    assert_eq!(agent.next(3).await, Ok(1));
    // Who could not be asked is left alone for a while, and masters are asked who else there is.
    assert_eq!(masters.with(|state| state.routes), routes);
}

#[tokio::test]
async fn what_nobody_serves_is_not_asked_about_again_and_again_and_keeps_nothing_else_waiting() {
    let masters = masters(600);
    let agent = agent(&masters).await;
    masters.session(0).await;
    // Of somebody who is not there, and of a former session at our own address.
    let address = agent.sequences.settings.address.clone();
    masters.with(|state| state.sessions.push((SessionId(77), address)));
    masters.give(0..1, SessionId(99));
    masters.give(1..2, SessionId(77));
    let calls = [0, 1].map(|section| agent.next(section * KEYS));
    let others = async {
        for section in 2..20 {
            assert_eq!(agent.next(section * KEYS).await, Ok(1));
        }
    };
    let (refused, ()) = tokio::join!(futures::future::join_all(calls), others);
    assert_eq!(refused, vec![Err(MintCode::SegmentPending); 2]);
    let (routes, only) = masters.with(|state| {
        let only = |(_, said): &&(usize, KeepRequest)| !said.only.is_empty();
        (state.routes, state.keeps.iter().filter(only).count())
    });
    // A second of waiting, in which each is asked about 20 times, and some more for the others.
    assert!(routes < 70 && only < 150, "{routes} questions for routes, {only} for sections");
}

#[tokio::test]
async fn nothing_is_sent_to_an_address_at_which_no_agent_may_be() {
    let masters = masters(600);
    let agent = agent(&masters).await;
    masters.session(0).await;
    let (rpc, asked) = misleading(|_, _| Vec::new()).await;
    masters.with(|state| state.networks = vec!["10.0.0.0/8".parse().unwrap()]);
    lead_to(&masters, &rpc, 0..1);
    let by_name = rpc.replace("127.0.0.1", "localhost");
    lead_to(&masters, &by_name, 1..2);
    for section in [0, 1] {
        assert_eq!(agent.next(section * KEYS).await, Err(MintCode::SegmentPending));
    }
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    masters.with(|state| state.networks = vec!["10.0.0.0/8".parse().unwrap(), "127.0.0.0/8".parse().unwrap()]);
    agent.next(2 * KEYS).await.unwrap();
    for section in [0, 1] {
        assert_eq!(agent.next(section * KEYS).await, Err(MintCode::SegmentPending));
    }
    assert!(asked.load(Ordering::Relaxed) >= 2);
}

#[tokio::test]
async fn a_masters_word_takes_the_place_of_a_route_that_never_was() {
    let masters = masters(3_000);
    let [(one, first), (two, _)] = two_agents(&masters).await;
    masters.give(0..40, first);
    let (rpc, _) = misleading(|own, _| vec![route(0..1 << 20, u64::MAX, own)]).await;
    lead_to(&masters, &rpc, 40..41);
    // Who has the section is asked, and says that it has all others too.
    let name = two.sequences.name("orders", 1).await.unwrap();
    let misled = two.sequences.next(&name, &[KeyAsked { slot: Slot(40 * KEYS), n: 1 }], Call::default());
    let _ = tokio::time::timeout(Duration::from_millis(300), misled).await;
    assert!(lock(&name.routes).route(Section(41)).is_none(), "it was not asked about that section");
    masters.give(40..41, first);
    for section in 0..=40 {
        assert_eq!(two.next(section * KEYS).await, Ok(1), "section {section}");
    }
    drop(one);
}

#[tokio::test]
async fn calls_for_a_section_whose_agent_waits_wait_here_and_leave_places_for_its_others() {
    let masters = masters(3_000);
    let agent = agent(&masters).await;
    masters.session(0).await;
    lead_to(&masters, &hanging().await, 0..2);
    let calls: Vec<_> = (0..600)
        .map(|_| {
            let sequences = Arc::clone(&agent.sequences);
            tokio::spawn(async move {
                let name = sequences.name("orders", 1).await.unwrap();
                sequences.next(&name, &[KeyAsked { slot: Slot(3), n: 1 }], Call::default()).await.outcomes
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(agent.next(KEYS).await, Ok(1), "of another section of that agent");
    assert_eq!(agent.sequences.forwards.under_way(), 1, "one call for the section is passed on");
    assert!(calls.iter().all(|call| !call.is_finished()), "the others wait");
    for call in calls {
        assert_eq!(call.await.unwrap(), [KeyOutcome::Refused(MintCode::SegmentPending)]);
    }
}

#[tokio::test]
async fn large_calls_to_an_agent_that_hangs_are_bounded_by_their_keys() {
    let masters = masters(3_000);
    let agent = agent(&masters).await;
    let (rpc, name) = (hanging().await, agent.sequences.name("orders", 1).await.unwrap());
    agent.sequences.forwards.allow(vec!["127.0.0.0/8".parse().unwrap()]);
    let keys: Vec<_> = (0..10_000).map(|slot| KeyAsked { slot: Slot(slot), n: 1 }).collect();
    let call = || agent.sequences.pass_on(&rpc, &name, keys.clone(), Duration::from_millis(800));
    let calls = futures::future::join_all((0..100).map(|_| call())).await;
    let full = calls.iter().filter(|said| matches!(said, Err(super::super::forward::NotPassed::Full))).count();
    assert!((80..100).contains(&full), "{full} of 100");
}

#[tokio::test]
async fn a_call_that_waits_ends_with_its_name() {
    let masters = masters(20_000);
    masters.with(|state| state.mute = true);
    let agent = agent(&masters).await;
    let retired = async {
        while agent.waiting("orders").await == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        agent.minter.retire(&namespace(63));
        masters.with(|state| state.mute = false);
    };
    let (answer, ()) = tokio::join!(agent.next(7), retired);
    let code = MintCode::UnknownGenerator;
    assert_eq!(answer, Err(code));
    let name = agent.sequences.served.load().get("orders").cloned().unwrap();
    let refusal = agent.sequences.refusal(&name, code).to_string();
    assert!(refusal.contains("retired"), "{refusal}");
}

/// Gives sections to that agent, and waits until it has heard that they are its own from some later instant on.
async fn promise(masters: &Masters, sections: std::ops::Range<u32>, to: &(Agent, SessionId)) {
    let (agent, session) = to;
    let name = agent.sequences.name("orders", 1).await.unwrap();
    let first = Section(sections.start);
    masters.give(sections, *session);
    let promised = || name::ownership(&name.held(), first, agent.sequences.clock.boot());
    while !matches!(promised(), Ownership::From(_)) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Numbers of the next owner begin at the bound: those below it are the former owner's.
#[tokio::test]
async fn the_next_owner_passes_calls_on_to_the_former_one_while_that_serves() {
    let masters = masters(3_000);
    let [(_one, first), two] = two_agents(&masters).await;
    masters.give(0..1, first);
    assert_eq!(two.0.next(3).await, Ok(1), "passed on");
    promise(&masters, 0..1, &two).await;
    assert_eq!(two.0.next(3).await, Ok(2), "the former one serves on");
    // One that was passed on already is not passed on again: it waits.
    let back = Call { passing: Passing::Back, ..Call::default() };
    assert_eq!(two.0.ask(&[(3, 1)], back).await.outcomes, [KeyOutcome::Given(STEP + 1)]);
}

#[tokio::test]
async fn what_a_former_owner_refuses_is_given_by_the_next_one() {
    let masters = masters(1_500);
    let addresses = masters.listen().await;
    let _without_memory = agent_of(&addresses, 0, 63).await;
    let first = masters.session(0).await;
    let next = agent_of(&addresses, 1 << 24, 63).await;
    let next = (next, masters.session(1).await);
    masters.give(0..1, first);
    assert_eq!(next.0.next(3).await, Err(MintCode::Overloaded));
    promise(&masters, 0..1, &next).await;
    assert_eq!(next.0.next(3).await, Ok(1));
}

#[tokio::test]
async fn keys_of_a_section_that_moves_from_an_agent_that_hangs_keep_no_others_waiting() {
    let masters = masters(3_000);
    let agent = agent(&masters).await;
    let agent = (agent, masters.session(0).await);
    let rpc = hanging().await;
    lead_to(&masters, &rpc, 0..2);
    assert_eq!(agent.0.next(KEYS + 3).await, Ok(1));
    // That call ends here, and what the masters said of the section stays.
    let early = tokio::time::timeout(Duration::from_millis(400), agent.0.next(3)).await;
    assert!(early.is_err(), "{early:?}");
    promise(&masters, 0..1, &agent).await;
    let both = agent.0.ask(&[(3, 1), (KEYS + 3, 1)], Call::default()).await;
    assert_eq!(both.outcomes, [1, 1].map(KeyOutcome::Given));
}

/// Calls of one caller for sections that nobody serves leave places to wait in to others.
#[tokio::test]
async fn whoever_waits_as_often_as_he_may_keeps_no_other_caller_from_waiting() {
    let masters = masters(3_000);
    let [(agent, session), _other] = two_agents(&masters).await;
    masters.give(0..1, session);
    assert_eq!(agent.next(3).await, Ok(1));
    let by = |address: &str| AccountHolder::of(By::Caller, Caller::Address(address.parse().unwrap()));
    let call = |address: &str| Call { from: Some(by(address)), ..Call::default() };
    let waiting: Vec<_> = std::iter::from_fn(|| agent.sequences.of_callers.take(Some(by("10.0.0.1")), 1)).collect();
    // Nobody serves it yet.
    let keys = [(90 * KEYS, 1)];
    let CallOutcome { outcomes, .. } = agent.ask(&keys, call("10.0.0.1")).await;
    assert_eq!(outcomes, [KeyOutcome::Refused(MintCode::Overloaded)]);
    assert_eq!(agent.ask(&keys, call("10.0.0.2")).await.outcomes, [KeyOutcome::Given(1)]);
    drop(waiting);
    assert_eq!(agent.ask(&[(91 * KEYS, 1)], call("10.0.0.1")).await.outcomes, [KeyOutcome::Given(1)]);
}
