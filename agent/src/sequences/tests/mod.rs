//! Agents with masters that do at once what a test says. What real ones do is tested with real ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

pub(crate) mod masters;
mod resume;
mod routes;
mod together;

use super::waiting::WaitsFor;
use super::*;
use crate::masters::tests::masters_at;
use crate::minter::kit::Kit;
use crate::plugin::{AccountHolder, By, Caller};
use crate::rpc::Server;
use crate::sequence::Kept;
use crate::serial::caller_per_hour;
use common::calendar::UtcOffset;
use common::lease::Generation;
use common::namespace::{Definition, SequenceSpec};
use common::parameters::{ClusterId, ClusterParameters, SessionId};
use common::sequence::{SECTION_LEN, Section, Slot};
use masters::Masters;
use net::rpc::mint::{KeyAsked, KeyOutcome, KeyReply, MintCode, Passing, SequenceCall};
use net::rpc::ranges::{KeepRequest, RECEIPTS_MAX, Unserved};
use serial_file::SectionsStart;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::Instant;

const STEP: u64 = 100;
/// Keys of a section.
const KEYS: u32 = 10;

pub(crate) struct Agent {
    pub(crate) sequences: Arc<Sequences>,
    pub(crate) minter: Arc<Minter>,
    stop: CancellationToken,
    tasks: Vec<tokio::task::JoinHandle<()>>,
    _kit: Option<Kit>,
}

pub(crate) fn namespace(width: u8) -> Namespace {
    let definition = Definition::Sequence(SequenceSpec {
        step: Some(u32::try_from(STEP).unwrap()),
        keys_per_section: Some(KEYS),
        width: Some(width),
        ..SequenceSpec::default()
    });
    Namespace::define("orders".parse().unwrap(), &definition).unwrap()
}

pub(crate) async fn agent_of(addresses: &[String], memory: u64, width: u8) -> Agent {
    agent_for(addresses, memory, namespace(width)).await
}

pub(crate) async fn agent_for(addresses: &[String], memory: u64, namespace: Namespace) -> Agent {
    let kit = Kit::new();
    let minter = kit.start();
    minter.define(namespace).unwrap();
    Agent { _kit: Some(kit), ..agent_with(addresses, memory, minter, |sequences| sequences).await }
}

/// With callers that have so many connections.
pub(crate) async fn agent_with_connections(addresses: &[String], connections: usize) -> Agent {
    let kit = Kit::new();
    let minter = kit.start();
    minter.define(namespace(63)).unwrap();
    let few = |sequences: Sequences| sequences.with_connections(connections);
    Agent { _kit: Some(kit), ..agent_with(addresses, 1 << 24, minter, few).await }
}

async fn agent_with(
    addresses: &[String],
    memory: u64,
    minter: Arc<Minter>,
    change: impl FnOnce(Sequences) -> Sequences,
) -> Agent {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rpc = listener.local_addr().unwrap().to_string();
    let settings = SequenceSettings {
        sets: vec!["default".parse().unwrap()],
        memory,
        address: ServedAt { http: rpc.replace("127.0.0.1", "localhost"), rpc },
    };
    let masters = masters_at(addresses, &minter);
    let sequences = Arc::new(change(Sequences::new(settings, masters, None)));
    let stop = CancellationToken::new();
    let server = Server::new(Arc::clone(&minter), 100_000).with_sequences(Arc::clone(&sequences));
    let tasks =
        vec![tokio::spawn(server.run(listener, stop.clone())), tokio::spawn(Arc::clone(&sequences).run(stop.clone()))];
    Agent { sequences, minter, stop, tasks, _kit: None }
}

pub(crate) async fn agent(masters: &Masters) -> Agent {
    agent_of(&masters.listen().await, 1 << 24, 63).await
}

fn masters(lease_ms: u32) -> Masters {
    Masters::new("orders", lease_ms, STEP, i64::MAX as u64)
}

impl Agent {
    /// Calls that wait for sections of a name.
    pub(crate) async fn waiting(&self, name: &str) -> usize {
        self.sequences.name(name, 1).await.unwrap().waiting.taken()
    }

    async fn ask(&self, keys: &[(u32, u32)], call: Call) -> CallOutcome {
        let name = self.sequences.name("orders", 1).await.unwrap();
        let keys: Vec<KeyAsked> = keys.iter().map(|(slot, n)| KeyAsked { slot: Slot(*slot), n: *n }).collect();
        self.sequences.next(&name, &keys, call).await
    }

    async fn next(&self, slot: u32) -> Result<u64, MintCode> {
        let name = self.sequences.name("orders", 1).await.unwrap();
        if let Some(number) = self.sequences.try_next(&name, Slot(slot), 1, Call::default()) {
            return Ok(number);
        }
        match self.ask(&[(slot, 1)], Call::default()).await.outcomes[..] {
            [KeyOutcome::Given(number)] => Ok(number),
            [KeyOutcome::Refused(code)] => Err(code),
            ref other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_section_that_nobody_has_is_given_to_somebody_and_served_at_once() {
    let masters = masters(3_000);
    let agent = agent(&masters).await;
    let began = Instant::now();
    assert_eq!(agent.next(7).await, Ok(1));
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    for number in 2..=350 {
        assert_eq!(agent.next(7).await, Ok(number), "over the ends of steps");
    }
    assert_eq!(agent.next(8).await, Ok(1), "each key for itself");
    assert_eq!(agent.ask(&[(8, 1_000), (9, 1)], Call::default()).await.outcomes, [2, 1].map(KeyOutcome::Given));
    let current = agent.ask(&[(8, 0)], Call::default()).await;
    assert_eq!(current.outcomes, [KeyOutcome::Given(1_001)]);
    assert_eq!(agent.next(8).await, Ok(1_002), "asking for the last one gives none");
    masters.with(|state| {
        assert_eq!(state.keeps[0].1.sets, ["default".parse().unwrap()]);
        assert!(state.raises < 12, "bounds are raised by steps: {}", state.raises);
        assert!(state.keeps.iter().any(|(at, _)| *at == 0) && state.keeps.iter().any(|(at, _)| *at == 1));
    });
}

#[tokio::test]
async fn what_masters_list_page_by_page_is_all_served() {
    let masters = masters(600);
    masters.with(|state| state.page = 2);
    let agent = agent(&masters).await;
    let sections = [1, 3, 5, 7, 9];
    for section in sections {
        assert_eq!(agent.next(section * KEYS).await, Ok(1), "section {section}");
    }
    // None of them ends with the lease that it began with.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    for section in sections {
        assert_eq!(agent.next(section * KEYS).await, Ok(2), "section {section}");
    }
    let last = |keep: &KeepRequest| keep.after.as_ref().map(|key| key.section.0);
    let pages = masters.with(|state| state.keeps.iter().filter_map(|(_, keep)| last(keep)).collect::<Vec<_>>());
    assert!(pages.contains(&3) && pages.contains(&7) && !pages.contains(&9), "{pages:?}");
}

/// An agent with another `--batch-max` passed it on, which has admitted it.
#[tokio::test]
async fn what_another_agent_passes_on_is_bounded_by_what_any_may_admit() {
    let masters = masters(3_000);
    let agent = agent(&masters).await;
    let narrow = Server::new(Arc::clone(&agent.minter), 10).with_sequences(Arc::clone(&agent.sequences));
    let narrow = narrow.for_this_machine();
    let call = |passing| SequenceCall { name: "orders".to_owned(), g: None, passing, cluster: None };
    assert!(narrow.next_of(&call(Passing::On), Slot(7), 11).await.is_err());
    let passed_on = narrow.next_of(&call(Passing::Back), Slot(7), 11).await;
    assert!(passed_on.is_ok(), "{passed_on:?}");
    assert!(narrow.next_of(&call(Passing::Back), Slot(7), 1_000_001).await.is_err());
}

/// Two agents that these masters know, with their sessions.
async fn two_agents(masters: &Masters) -> [(Agent, SessionId); 2] {
    let addresses = masters.listen().await;
    let one = agent_of(&addresses, 1 << 24, 63).await;
    let first = masters.session(0).await;
    let two = agent_of(&addresses, 1 << 24, 63).await;
    let second = masters.session(1).await;
    [(one, first), (two, second)]
}

/// An agent of another cluster may be at an address where once was one of ours: its numbers are not ours.
#[tokio::test]
async fn an_agent_gives_nothing_to_callers_of_another_cluster() {
    let masters = masters(3_000);
    let agent = agent(&masters).await;
    let parameters = ClusterParameters::new(7, UtcOffset::default(), 65_535).unwrap();
    agent.minter.join(ClusterId(1), parameters).unwrap();
    let server = Server::new(Arc::clone(&agent.minter), 10).with_sequences(Arc::clone(&agent.sequences));
    let server = server.for_this_machine();
    let call = |cluster: Option<ClusterId>| {
        let cluster = cluster.map(Box::new);
        SequenceCall { name: "orders".to_owned(), g: None, passing: Passing::Back, cluster }
    };
    let given = |number| KeyReply { outcome: KeyOutcome::Given(number), routes: Vec::new() };
    assert_eq!(server.next_of(&call(None), Slot(7), 1).await.unwrap(), given(1));
    assert_eq!(server.next_of(&call(Some(ClusterId(1))), Slot(7), 1).await.unwrap(), given(2));
    let refused = server.next_of(&call(Some(ClusterId(2))), Slot(7), 1).await.unwrap_err();
    assert_eq!(refused.code(), MintCode::WrongCluster, "{refused}");
    assert_eq!(agent.next(7).await, Ok(3), "nothing was given");
}

/// The other agent takes calls and answers none, as a process that stands still does.
#[tokio::test]
async fn an_agent_that_hangs_takes_no_place_of_calls_to_others() {
    let masters = masters(3_000);
    let agent = agent(&masters).await;
    assert_eq!(agent.next(7).await, Ok(1));
    let hangs = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = hangs.local_addr().unwrap().to_string();
    let pass_on = |address: String| {
        let sequences = Arc::clone(&agent.sequences);
        tokio::spawn(async move {
            let name = sequences.name("orders", 1).await.unwrap();
            let keys = vec![KeyAsked { slot: Slot(7), n: 1 }];
            sequences.pass_on(&address, &name, keys, Duration::from_secs(20)).await
        })
    };
    let calls: Vec<_> = (0..1_100).map(|_| pass_on(address.clone())).collect();
    let refused = async || {
        let ended = || calls.iter().filter(|call| call.is_finished()).count();
        while ended() < 1_100 - 256 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        ended()
    };
    assert_eq!(tokio::time::timeout(Duration::from_secs(10), refused()).await, Ok(1_100 - 256));
    let passed = pass_on(agent.sequences.settings.address.rpc.clone()).await.unwrap();
    assert_eq!(passed.unwrap().outcomes, [KeyOutcome::Given(2)]);
}

/// Calls for sections that nobody serves may take every place of those that wait: what another agent serves is passed on all the same.
#[tokio::test]
async fn calls_that_wait_in_vain_keep_none_from_another_agent() {
    let masters = masters(3_000);
    let [(one, first), (two, _)] = two_agents(&masters).await;
    masters.give(0..1, first);
    assert_eq!(two.next(3).await, Ok(1), "passed on, and the route is known");
    let name = two.sequences.name("orders", 1).await.unwrap();
    let enter = || two.sequences.waiting.enter(&name.waiting, WaitsFor::Sections, 1);
    let _waiting: Vec<_> = std::iter::from_fn(enter).collect();
    assert_eq!(two.next(3).await, Ok(2));
    drop(one);
}

/// Calls for sections that nobody serves may take every place of those: a section that is served here still gets its next bound, also in a
/// call with keys that others serve.
#[tokio::test]
async fn calls_that_wait_in_vain_keep_none_from_the_sections_that_are_served() {
    let masters = masters(3_000);
    let [(one, first), (two, second)] = two_agents(&masters).await;
    masters.give(0..1, first);
    masters.give(1..2, second);
    assert_eq!((one.next(3).await, one.next(KEYS).await), (Ok(1), Ok(1)), "the second one is passed on");
    let name = one.sequences.name("orders", 1).await.unwrap();
    let enter = || one.sequences.waiting.enter(&name.waiting, WaitsFor::Sections, 1);
    let _waiting: Vec<_> = std::iter::from_fn(enter).collect();
    assert_eq!(one.next(90 * KEYS).await, Err(MintCode::Overloaded), "nobody serves it, and there is no place to wait");
    for number in 2..=3 * STEP {
        assert_eq!(one.next(3).await, Ok(number), "bounds are raised as before");
    }
    for nth in 1..=10 {
        // More than is ever there before it is asked for.
        let many = u32::try_from(3 * STEP).unwrap();
        let CallOutcome { outcomes, .. } = one.ask(&[(3, many), (KEYS, 1)], Call::default()).await;
        assert_eq!(outcomes, [KeyOutcome::Given(nth * 3 * STEP + 1), KeyOutcome::Given(1 + nth)]);
    }
    // Nor does who waits for an agent that is gone.
    two.stop.cancel();
    for task in two.tasks {
        task.await.unwrap();
    }
    assert_eq!(one.next(KEYS).await, Err(MintCode::Overloaded));
}

#[tokio::test]
async fn a_call_that_waits_takes_a_place_for_each_of_its_keys() {
    let masters = masters(3_000);
    let agent = agent(&masters).await;
    let name = agent.sequences.name("orders", 1).await.unwrap();
    let enter = || agent.sequences.waiting.enter(&name.waiting, WaitsFor::Sections, 10_000);
    let _waiting: Vec<_> = std::iter::from_fn(enter).collect();
    let keys: Vec<_> = (0..8_000).map(|slot| (slot, 1)).collect();
    masters.with(|state| state.mute = true);
    let CallOutcome { outcomes, .. } = agent.ask(&keys, Call::default()).await;
    assert_eq!(outcomes, vec![KeyOutcome::Refused(MintCode::Overloaded); 8_000]);
}

/// One master stands still, and a section has used up what the other one may grant alone.
#[tokio::test]
async fn sections_that_one_master_can_raise_do_not_wait_for_the_other() {
    let masters = masters(20_000);
    let agent = agent(&masters).await;
    assert_eq!(agent.next(0).await, Ok(1));
    assert_eq!(agent.next(KEYS).await, Ok(1));
    masters.with(|state| state.alone_up_to = Some(300));
    for number in 2..=700 {
        assert_eq!(agent.next(0).await, Ok(number), "the other master grants what one alone does not");
    }
    masters.with(|state| (state.mute, state.left_to_both) = (true, 0));
    let to_the_end = async { while agent.next(0).await.is_ok() {} };
    let others = async {
        while masters.with(|state| state.left_to_both == 0) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for number in 2..=250 {
            assert_eq!(agent.next(KEYS).await, Ok(number));
        }
    };
    tokio::select! {
        () = to_the_end => panic!("the others waited as long as the one that only both can raise"),
        () = others => {}
    }
    assert_eq!(masters.with(|state| state.given_up), 0, "the one that stands still has time left to answer in");
}

/// A master that lists the same again and again is asked no more often than another one.
#[tokio::test]
async fn pages_that_lead_nowhere_are_not_asked_for() {
    let masters = masters(600);
    let agent = agent(&masters).await;
    assert_eq!(agent.next(KEYS).await, Ok(1));
    masters.with(|state| (state.page, state.keeps) = (0, Vec::new()));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(masters.with(|state| state.keeps.iter().all(|(_, keep)| keep.after.is_none())));
}

#[tokio::test]
async fn without_a_sequence_no_master_is_asked_to_keep_anything() {
    let masters = masters(300);
    let kit = Kit::new();
    let settings = SequenceSettings {
        sets: vec!["other".parse().unwrap()],
        memory: MEMORY_DEFAULT,
        address: ServedAt { http: String::new(), rpc: String::new() },
    };
    let minter = kit.start();
    minter.define(namespace(63)).unwrap();
    let at = masters_at(&masters.listen().await, &minter);
    let sequences = Arc::new(Sequences::new(settings, at, None));
    tokio::spawn(Arc::clone(&sequences).run(CancellationToken::new()));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(masters.with(|state| state.keeps.is_empty()), "the set is another one");
}

#[tokio::test]
async fn a_call_is_passed_on_once_or_comes_back_with_the_route() {
    let masters = masters(3_000);
    let [(one, first), (two, _)] = two_agents(&masters).await;
    masters.give(0..1, first);
    assert_eq!(two.next(3).await, Ok(1), "passed on");
    let routed = Call { g: Some(Generation(0)), ..Call::default() };
    let CallOutcome { outcomes, routes } = two.ask(&[(3, 2)], routed).await;
    assert_eq!(outcomes, [KeyOutcome::Given(2)]);
    let [route] = &routes[..] else { panic!("{routes:?}") };
    assert_eq!((route.from, route.g, &route.address), (Section(0), Generation(1), &one.sequences.settings.address));
    let back = Call { passing: Passing::Back, ..Call::default() };
    let refused = two.ask(&[(3, 1)], back).await;
    assert_eq!(refused.outcomes, [KeyOutcome::Refused(MintCode::Misdirected)]);
    assert_eq!(refused.routes, routes);
    // Whoever has the newest route hears of none.
    assert_eq!(
        one.ask(&[(3, 1)], Call { g: Some(Generation(1)), passing: Passing::Back, from: None }).await.routes,
        []
    );
    assert_eq!(one.ask(&[(3, 1)], routed).await.routes, routes);
    let current = two.ask(&[(3, 0)], Call::default()).await;
    assert_eq!(current.outcomes, [KeyOutcome::Given(5)]);
    let counts = |agent: &Agent| agent.sequences.counts.forwarded.load(Ordering::Relaxed);
    assert_eq!((counts(&one), counts(&two)), (0, 3));
}

#[tokio::test]
async fn while_a_section_moves_calls_wait_and_numbers_grow() {
    let masters = masters(900);
    let [(one, first), (two, second)] = two_agents(&masters).await;
    masters.give(0..1, first);
    let (mut last, mut served) = (0, 0);
    let began = Instant::now();
    for to in [second, first, second] {
        let until = Instant::now() + Duration::from_millis(2_200);
        while Instant::now() < until {
            for agent in [&one, &two] {
                let number = agent.next(4).await.unwrap();
                assert!(number > last, "{number} after {last}");
                last = number;
                served += 1;
            }
        }
        masters.give(0..1, to);
    }
    assert!(served > 1_000 && began.elapsed() < Duration::from_secs(20), "{served}");
    assert!(two.sequences.counts.numbers.load(Ordering::Relaxed) > 0, "both have served");
}

#[tokio::test]
async fn a_key_that_nobody_can_serve_is_refused_with_what_a_master_says_of_it() {
    let masters = masters(400);
    masters.with(|state| (state.heir, state.unserved) = (9, Some(Unserved::TooMany { max: 7 })));
    let agent = agent(&masters).await;
    assert_eq!(agent.next(7).await, Err(MintCode::SegmentPending));
    let name = agent.sequences.name("orders", 1).await.unwrap();
    let why = || agent.sequences.refusal(&name, MintCode::SegmentPending).to_string();
    assert!(why().contains("7 sections, those beside each other"), "{}", why());
    // It can be served again, and then nobody answers: the reason of before does not stay.
    masters.with(|state| (state.heir, state.unserved) = (0, None));
    assert_eq!(agent.next(7).await, Ok(1));
    masters.with(|state| state.answers = [None; 2]);
    tokio::time::sleep(Duration::from_millis(800)).await;
    assert_eq!(agent.next(7).await, Err(MintCode::SegmentPending));
    assert!(why().contains("the masters do not answer"), "{}", why());
}

#[tokio::test]
async fn one_master_is_enough_and_without_both_calls_end_with_the_lease() {
    let masters = masters(600);
    let agent = agent(&masters).await;
    assert_eq!(agent.next(7).await, Ok(1));
    masters.with(|state| state.answers[0] = None);
    let until = Instant::now() + Duration::from_millis(1_500);
    let mut number = 1;
    while Instant::now() < until {
        number += 1;
        assert_eq!(agent.next(7).await, Ok(number));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    masters.with(|state| state.answers[1] = None);
    let silent = Instant::now();
    let refused = loop {
        match agent.next(7).await {
            Ok(next) => number = next,
            Err(code) => break code,
        }
    };
    assert_eq!(refused, MintCode::SegmentPending);
    let waited = silent.elapsed();
    assert!(waited > Duration::from_millis(1_000) && waited < Duration::from_millis(2_500), "{waited:?}");
    masters.with(|state| state.answers = [Some(Duration::ZERO); 2]);
    assert_eq!(agent.next(7).await, Ok(number + 1), "nobody had it meanwhile");
}

#[tokio::test]
async fn a_late_answer_counts_from_its_question() {
    let masters = masters(400);
    let agent = agent(&masters).await;
    assert_eq!(agent.next(7).await, Ok(1));
    let name = agent.sequences.name("orders", 1).await.unwrap();
    let now = agent.sequences.clock.boot();
    masters.with(|state| state.answers = [None; 2]);
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(agent.sequences.try_next(&name, Slot(7), 1, Call::default()), None);
    // The answer to a question of long ago, now.
    let sections = vec![net::rpc::ranges::HeldSections {
        name: "orders".parse().unwrap(),
        from: Section(0),
        to: Section(1),
        g: Generation(1),
    }];
    let reply = net::rpc::ranges::KeepReply {
        lease_ms: 400,
        run: common::segment::MasterRun(0),
        boot: common::time::BootMs(0),
        sections,
        more: false,
    };
    agent.sequences.kept(0, &Kept { sent: now, received: agent.sequences.clock.boot(), reply }).unwrap();
    assert_eq!(agent.sequences.try_next(&name, Slot(7), 1, Call::default()), None);
}

#[tokio::test]
async fn keys_of_two_agents_come_in_the_order_asked_for() {
    let masters = masters(3_000);
    let [(one, first), (two, second)] = two_agents(&masters).await;
    masters.give(0..500, first);
    masters.give(500..1_000, second);
    let keys: Vec<(u32, u32)> = (0..10_000u32).map(|at| ((at * 7_919) % 10_000, 1 + at % 3)).collect();
    for (round, agent) in [&one, &two].into_iter().enumerate() {
        let CallOutcome { outcomes, .. } = agent.ask(&keys, Call::default()).await;
        let expected = keys.iter().map(|(_, n)| KeyOutcome::Given(1 + u64::from(*n) * round as u64));
        assert_eq!(outcomes, expected.collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn an_agent_that_dies_is_followed_by_whom_the_masters_name() {
    let masters = masters(600);
    let [(one, first), (two, second)] = two_agents(&masters).await;
    masters.give(0..1, first);
    let last = one.next(3).await.unwrap();
    assert_eq!(two.next(3).await, Ok(last + 1));
    one.stop.cancel();
    tokio::time::sleep(Duration::from_millis(650)).await;
    masters.give(0..1, second);
    assert_eq!(two.next(3).await, Ok(STEP + 1), "from the bound on");
    masters.with(|state| {
        let leaves: Vec<_> =
            state.keeps.iter().filter(|(_, keep)| keep.leaves).map(|(at, keep)| (*at, keep.session)).collect();
        assert!(leaves.contains(&(0, first)) && leaves.contains(&(1, first)), "{leaves:?}");
    });
}

#[tokio::test]
async fn a_call_that_an_agent_does_not_answer_goes_to_who_serves_its_key_by_then() {
    let masters = masters(3_000);
    let addresses = masters.listen().await;
    let ours = agent_of(&addresses, 1 << 24, 63).await;
    masters.session(0).await;
    let other = agent_of(&addresses, 1 << 24, 63).await;
    let next = masters.session(1).await;
    // It stands still: what comes for it waits in its socket.
    let still = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rpc = still.local_addr().unwrap().to_string();
    let owner = SessionId(u128::MAX);
    masters.with(|state| state.sessions.push((owner, ServedAt { http: rpc.clone(), rpc })));
    masters.give(0..1, owner);
    let call = async {
        let asked = ours.next(3).await;
        (asked, masters.with(|state| state.records[&0].g))
    };
    let moved = async {
        tokio::time::sleep(Duration::from_millis(800)).await;
        masters.give(0..1, next);
    };
    let (answered, ()) = tokio::join!(call, moved);
    assert_eq!(answered, (Ok(1), 2));
    drop((other, still));
}

#[tokio::test]
async fn numbers_of_32_bits_end() {
    let last = u64::from(u32::MAX);
    let masters = Masters::new("orders", 3_000, STEP, last);
    let agent = agent_of(&masters.listen().await, 1 << 24, 32).await;
    let first = masters.session(0).await;
    masters.with(|state| {
        state.records.insert(0, masters::Record { g: 1, owner: Some(first), max_seq: last - 3 });
    });
    assert_eq!(agent.ask(&[(1, 4)], Call::default()).await.outcomes, [KeyOutcome::Refused(MintCode::SerialExhausted)]);
    for number in last - 2..=last {
        assert_eq!(agent.next(1).await, Ok(number));
    }
    assert_eq!(agent.next(1).await, Err(MintCode::SerialExhausted));
    assert_eq!(agent.next(2).await, Ok(last - 2), "others have theirs");
    let name = agent.sequences.name("orders", 1).await.unwrap();
    assert_eq!(agent.sequences.refusal(&name, MintCode::SerialExhausted).retry_after(), None);
}

#[tokio::test]
async fn memory_is_bounded_and_what_is_forgotten_jumps() {
    let masters = masters(3_000);
    let addresses = masters.listen().await;
    // Records of 100 sections, and some keys.
    let memory = 100 * SECTION_LEN as u64 + 1_000;
    let agent = agent_of(&addresses, memory, 63).await;
    let first = masters.session(0).await;
    masters.give(0..150, first);
    let keys: Vec<(u32, u32)> = (0..90).map(|section| (section * KEYS, 1)).collect();
    let CallOutcome { outcomes, .. } = agent.ask(&keys, Call::default()).await;
    assert_eq!(outcomes, vec![KeyOutcome::Given(1); 90]);
    agent.sequences.make_room();
    let view = agent.sequences.view();
    assert!(view.memory as u64 <= memory * 3 / 4 && (60..90).contains(&view.loaded), "{view:?}");
    assert!(agent.sequences.counts.unloads.load(Ordering::Relaxed) > 0);
    // What was forgotten goes on behind the highest of its section, and a section that was forgotten itself does, too.
    for section in 0..90 {
        let next = agent.next(section * KEYS + 1).await;
        assert!(next.is_ok_and(|next| next > 1), "{next:?} in section {section}");
        agent.sequences.make_room();
    }
    // Sections of which there are more than have room at a time are served all the same, one after the other.
    for section in (0..150).chain(0..90) {
        let next = agent.next(section * KEYS).await;
        assert!(next.is_ok_and(|next| section >= 90 || next > 1), "{next:?} in section {section}");
        agent.sequences.make_room();
        assert!(agent.sequences.view().memory as u64 <= memory + 1_000);
    }
}

/// One master answers for another bound than the one that an agent was told of last: it had the rest from the other master, which is away.
#[tokio::test]
async fn a_section_that_was_forgotten_goes_on_above_what_it_gave_whatever_a_master_says() {
    let masters = masters(3_000);
    let addresses = masters.listen().await;
    // What the sections and their keys take is nine tenths of it.
    let memory = 10 * SECTION_LEN as u64 - 64;
    let agent = agent_of(&addresses, memory, 63).await;
    let first = masters.session(0).await;
    masters.give(0..9, first);
    assert_eq!(agent.ask(&[(7, 250)], Call::default()).await.outcomes, [KeyOutcome::Given(1)]);
    for section in 1..8 {
        agent.next(section * KEYS).await.unwrap();
    }
    agent.sequences.make_room();
    let name = agent.sequences.name("orders", 1).await.unwrap();
    let is_there = || super::lock(name.shard(Section(0)).unwrap()).contains_key(&0);
    assert!(!is_there(), "it was not asked for lately");
    masters.with(|state| state.records.values_mut().for_each(|record| record.max_seq = 0));
    let next = agent.next(7).await;
    assert!(next.is_ok_and(|next| next > 250), "{next:?}");
    assert!(is_there());
}

/// Any of them may be the one that masters which were put back do not know.
#[tokio::test]
async fn of_more_lost_sections_than_one_question_shows_each_is_shown_in_its_turn() {
    let masters = masters(1_000);
    let agent = agent(&masters).await;
    agent.next(7).await.unwrap();
    let session = masters.session(0).await;
    // Some of them in one place, where the first ones were shown each time.
    let sections: Vec<u32> = (1..=3 * RECEIPTS_MAX as u32).map(|nth| nth * 64).chain(1..64).collect();
    masters.with(|state| {
        let record = || masters::Record { g: 1, owner: Some(session), max_seq: 0 };
        state.records.extend(sections.iter().map(|section| (*section, record())));
    });
    let keys: Vec<(u32, u32)> = sections.iter().map(|section| (section * KEYS, 1)).collect();
    let given = agent.ask(&keys, Call::default()).await;
    assert!(given.outcomes.iter().all(|one| matches!(one, KeyOutcome::Given(_))), "{:?}", given.outcomes);
    masters.with(|state| state.records.values_mut().for_each(|record| record.owner = Some(SessionId(99))));
    let (began, mut shown) = (Instant::now(), std::collections::BTreeSet::new());
    while shown.len() <= sections.len() {
        assert!(began.elapsed() < Duration::from_secs(8), "{} of {} are shown", shown.len(), sections.len() + 1);
        masters.with(|state| {
            let receipts = state.keeps.iter().flat_map(|(_, said)| &said.receipts);
            shown.extend(receipts.flat_map(|receipt| receipt.sections.from.0..receipt.sections.to.0));
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn an_advertised_loopback_address_is_noticed_where_masters_are_elsewhere() {
    let noticed = |at: &str, masters: [&str; 2]| {
        let settings = SequenceSettings {
            sets: Vec::new(),
            memory: MEMORY_DEFAULT,
            address: ServedAt { http: "10.0.0.9:7400".to_owned(), rpc: at.to_owned() },
        };
        settings.address_of_this_machine_only(masters.into_iter()).is_some()
    };
    for at in ["127.0.0.1:7400", "localhost:7400", "[::1]:7400"] {
        assert!(noticed(at, ["10.0.0.1:7100", "10.0.0.2:7100"]), "{at}");
        assert!(noticed(at, ["127.0.0.1:7100", "masters.example:7100"]), "{at}");
        assert!(!noticed(at, ["127.0.0.1:7100", "localhost:7200"]), "{at}");
    }
    assert!(!noticed("10.0.0.9:7400", ["10.0.0.1:7100", "10.0.0.2:7100"]));
    assert!(!noticed("agent-9:7400", ["10.0.0.1:7100", "10.0.0.2:7100"]));
}

#[tokio::test]
async fn one_caller_leaves_numbers_of_a_key_of_32_bits_to_others() {
    let masters = Masters::new("orders", 3_000, STEP, u64::from(u32::MAX));
    let agent = agent_of(&masters.listen().await, 1 << 24, 32).await;
    let name = agent.sequences.name("orders", 1).await.unwrap();
    let most = name.definition.width().per_hour().unwrap();
    const MANY: u32 = 1 << 20;
    let take = async |last: u8, n| {
        let call = Call {
            from: Some(AccountHolder::of(By::Caller, Caller::Address([10, 0, 0, last].into()))),
            ..Call::default()
        };
        match agent.ask(&[(7, n)], call).await.outcomes[..] {
            [KeyOutcome::Given(_)] => true,
            [KeyOutcome::Refused(MintCode::QuotaExceeded)] => false,
            ref other => panic!("{other:?}"),
        }
    };
    let mut greedy = 0;
    while take(1, MANY).await {
        greedy += u64::from(MANY);
    }
    assert!(greedy <= caller_per_hour(name.definition.width()).unwrap() + u64::from(MANY), "{greedy} of {most}");
    assert!(greedy >= most / 4, "{greedy} of {most}");
    assert!(take(2, MANY).await, "another caller");
    assert!(!take(1, MANY).await);
    // A caller that is none, as a process with an agent of its own.
    assert!(matches!(agent.ask(&[(7, MANY)], Call::default()).await.outcomes[..], [KeyOutcome::Given(_)]));
}
