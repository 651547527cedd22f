//! An agent whose process is killed and started again over the same files.

use super::*;
use crate::holder::LeaseView;
use crate::minter::kit::{held, parameters};
use common::parameters::{AgentId, ClusterId, SessionId};
use serial_file::{SectionsFreshReason, SectionsStart};

const LEASE_MS: u32 = 1_500;
/// The time that a new owner waits.
const WAIT: Duration = Duration::from_millis(1_546);

fn name_of_agent() -> AgentId {
    "test-1".parse().unwrap()
}

/// Another process over the files of `kit`; `renewed`: a master renews its lease at once, or denies it.
pub(super) async fn start(kit: &Kit, addresses: &[String], renewed: bool) -> (Agent, SectionsStart) {
    let opened = kit.open();
    let (file, start) = opened.sections(&name_of_agent(), SessionId(rand::random()));
    let resumed = opened.start == serial_file::StartKind::Resumed;
    let leases = held(7).into_iter().map(|(token_type, view)| match view {
        LeaseView::Held(grant) if resumed => (token_type, LeaseView::Resumed(grant)),
        _ => (token_type, LeaseView::Missing),
    });
    let minter = Minter::new(opened, Vec::new(), leases.collect(), Clock::system()).unwrap();
    minter.define(namespace(63)).unwrap();
    let agent = agent_with(addresses, 1 << 24, Arc::clone(&minter), |it| it.with_bounds(file, &start)).await;
    minter.join(ClusterId(1), parameters()).unwrap();
    // The first master to be asked answers.
    tokio::time::sleep(Duration::from_millis(60)).await;
    let denied = held(7).into_keys().map(|token_type| (token_type, LeaseView::Missing)).collect();
    minter.set_leases(if renewed { held(7) } else { denied }, 0).unwrap();
    (agent, start)
}

/// As by kill -9: no master hears of it.
pub(super) async fn kill(agent: Agent) {
    for task in agent.tasks {
        task.abort();
        let _ = task.await;
    }
    drop((agent.sequences, agent.minter));
    // What was about to be written is.
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// An agent has served a section that was somebody else's before, and has heard both masters for as long as others may have served it.
async fn served(kit: &Kit, masters: &Masters, addresses: &[String]) -> (Agent, SessionId, u64) {
    let (agent, start) = start(kit, addresses, true).await;
    assert_eq!(start, SectionsStart::Fresh(SectionsFreshReason::Session));
    let session = masters.session(0).await;
    masters.with(|state| {
        state.records.insert(0, masters::Record { g: 4, owner: Some(session), max_seq: 5 });
    });
    let began = Instant::now();
    let mut last = agent.next(7).await.unwrap();
    assert!(last == 6 && began.elapsed() >= WAIT - Duration::from_millis(50), "{last} after {:?}", began.elapsed());
    for _ in 0..3 * STEP {
        last = agent.next(7).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(LEASE_MS.into())).await;
    (agent, session, last)
}

#[tokio::test]
async fn an_agent_that_is_killed_goes_on_at_once_with_one_master_that_has_not_heard_of_its_raises() {
    let (kit, masters) = (Kit::new(), masters(LEASE_MS));
    let addresses = masters.listen().await;
    let (mut agent, session, mut last) = served(&kit, &masters, &addresses).await;
    for round in 0..3 {
        kill(agent).await;
        // The other master is left, and knows of nothing that was raised since the beginning.
        masters.with(|state| {
            state.answers[round % 2] = None;
            state.answers[1 - round % 2] = Some(Duration::ZERO);
            state.records.get_mut(&0).unwrap().max_seq = 5;
        });
        let (next, start) = self::start(&kit, &addresses, true).await;
        assert_eq!(start, SectionsStart::Resumed);
        let began = Instant::now();
        let number = next.next(7).await.unwrap();
        assert!(number > last, "{number} after {last}");
        assert!(began.elapsed() < WAIT / 2, "{:?}", began.elapsed());
        assert_eq!(masters.with(|state| state.sessions.len()), 1, "it is the same session, {session}");
        last = number;
        agent = next;
    }
}

#[tokio::test]
async fn what_another_agent_had_meanwhile_is_waited_for() {
    let (kit, masters) = (Kit::new(), masters(LEASE_MS));
    let addresses = masters.listen().await;
    let (agent, session, last) = served(&kit, &masters, &addresses).await;
    kill(agent).await;
    masters.with(|state| {
        let record = state.records.get_mut(&0).unwrap();
        (record.g, record.owner) = (record.g + 2, Some(session));
    });
    let (agent, start) = self::start(&kit, &addresses, true).await;
    assert_eq!(start, SectionsStart::Resumed);
    let began = Instant::now();
    let number = agent.next(7).await.unwrap();
    assert!(number > last && began.elapsed() >= WAIT - Duration::from_millis(200), "{:?}", began.elapsed());
}

/// Both masters were put back to before the agent had the section, and give it the same number of owners again after somebody else.
#[tokio::test]
async fn what_masters_forgot_and_gave_to_another_agent_is_waited_for() {
    let (kit, masters) = (Kit::new(), masters(LEASE_MS));
    let addresses = masters.listen().await;
    let (agent, session, last) = served(&kit, &masters, &addresses).await;
    let give = |g, owner| {
        masters.with(|state| {
            let record = state.records.get_mut(&0).unwrap();
            (record.g, record.owner) = (g, owner);
        })
    };
    give(3, Some(SessionId(77)));
    // Its span ends, and both answer without it.
    tokio::time::sleep(Duration::from_millis(2 * u64::from(LEASE_MS))).await;
    kill(agent).await;
    give(4, Some(session));
    let (agent, start) = self::start(&kit, &addresses, true).await;
    assert_eq!(start, SectionsStart::Resumed);
    let began = Instant::now();
    let number = agent.next(7).await.unwrap();
    assert!(number > last && began.elapsed() >= WAIT - Duration::from_millis(200), "{:?}", began.elapsed());
}

/// The file system does not tell this copy of the files from the first one, and a master does.
#[tokio::test]
async fn a_session_whose_leases_are_denied_is_another_one_for_its_sections() {
    let (kit, masters) = (Kit::new(), masters(LEASE_MS));
    let addresses = masters.listen().await;
    let (agent, session, _) = served(&kit, &masters, &addresses).await;
    kill(agent).await;
    let asked = masters.with(|state| state.keeps.len());
    let (agent, start) = self::start(&kit, &addresses, false).await;
    assert_eq!(start, SectionsStart::Resumed);
    let other = masters.session(1).await;
    assert!(
        other != session && masters.with(|state| state.keeps[asked..].iter().all(|(_, keep)| keep.session == other))
    );
    kill(agent).await;
    let (file, start) = kit.open().sections(&name_of_agent(), SessionId(9));
    assert_eq!(start, SectionsStart::Fresh(SectionsFreshReason::NoBounds));
    assert!(file.bounds().is_empty());
}

#[tokio::test]
async fn before_a_master_has_renewed_a_lease_none_is_asked_for_sections() {
    let (kit, masters) = (Kit::new(), masters(LEASE_MS));
    let addresses = masters.listen().await;
    let (agent, ..) = served(&kit, &masters, &addresses).await;
    kill(agent).await;
    let minter = kit.start_resumed(false);
    assert_eq!(minter.grants().confirmation(), crate::minter::Confirmation::Waits);
    minter.set_leases(held(7), 0).unwrap();
    assert_eq!(minter.grants().confirmation(), crate::minter::Confirmation::Given);
    minter.set_leases(held(8), 0).unwrap();
    assert_eq!(minter.grants().confirmation(), crate::minter::Confirmation::Refused, "leases that are new say nothing");
}

/// A disk that is full, or a folder that cannot be written: numbers are given on, and another session comes after.
#[tokio::test]
async fn without_a_disk_numbers_are_given_on_and_nothing_is_left_to_go_on_with() {
    let (kit, masters) = (Kit::new(), masters(LEASE_MS));
    let addresses = masters.listen().await;
    let (agent, _, mut last) = served(&kit, &masters, &addresses).await;
    // Nothing can be put in the place of a folder.
    let beside = |name: &str| kit.path().with_file_name(format!("serial{name}"));
    std::fs::create_dir(beside(".proof.new")).unwrap();
    for _ in 0..3 * STEP {
        let number = agent.next(7).await.unwrap();
        assert_eq!(number, last + 1);
        last = number;
    }
    assert!(agent.sequences.counts.unwritten.load(Ordering::Relaxed) > 0);
    assert!(!beside(".bounds").exists());
    kill(agent).await;
    let (_, start) = kit.open().sections(&name_of_agent(), SessionId(9));
    assert_eq!(start, SectionsStart::Fresh(SectionsFreshReason::NoBounds));
}

/// Nothing can be written where the bounds are, and what is there cannot be removed.
#[tokio::test]
async fn an_agent_that_can_write_no_bounds_gives_its_sections_up_and_says_why() {
    let (kit, masters) = (Kit::new(), masters(LEASE_MS));
    let addresses = masters.listen().await;
    let file = kit.path();
    let in_the_way = file.with_file_name(format!("{}.bounds", file.file_name().unwrap().display()));
    std::fs::create_dir_all(in_the_way.join("sub")).unwrap();
    let (agent, _) = start(&kit, &addresses, true).await;
    let session = masters.session(0).await;
    masters.with(|state| {
        state.records.insert(0, masters::Record { g: 1, owner: Some(session), max_seq: 5 });
    });
    assert_eq!(agent.minter.ready(), Ok(()));
    assert_eq!(agent.next(7).await, Err(MintCode::SegmentPending), "nothing is given that is not written down");
    let not_ready = agent.minter.ready().unwrap_err();
    assert!(matches!(not_ready, Refusal::BoundsUnwritten(_)), "{not_ready}");
    let last = |state: &mut masters::State, leaves: bool| {
        [0, 1]
            .iter()
            .all(|at| state.keeps.iter().rfind(|(its, _)| its == at).is_some_and(|(_, it)| it.leaves == leaves))
    };
    let told = async |leaves| {
        let began = Instant::now();
        while !masters.with(|state| last(state, leaves)) {
            assert!(began.elapsed() < Duration::from_secs(10), "masters were not told that it leaves: {leaves}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    told(true).await;
    // Nobody else is there to take them, and the disk works again.
    std::fs::remove_dir_all(&in_the_way).unwrap();
    told(false).await;
    assert_eq!(agent.minter.ready(), Ok(()));
    assert!(agent.next(7).await.unwrap() > 5);
}

/// Whoever belongs to two clusters gives nothing, and so keeps nothing.
#[tokio::test]
async fn an_agent_that_gives_nothing_for_a_stranger_in_its_list_gives_its_sections_up() {
    let (kit, masters) = (Kit::new(), masters(LEASE_MS));
    let addresses = masters.listen().await;
    let (agent, _, _) = served(&kit, &masters, &addresses).await;
    let _ = agent.minter.hear_stranger("10.0.0.9:7201", ClusterId(2));
    let began = Instant::now();
    while !masters.with(|state| state.keeps.last().is_some_and(|(_, said)| said.leaves)) {
        assert!(began.elapsed() < Duration::from_secs(10), "no master was told");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(matches!(agent.minter.ready(), Err(Refusal::WrongCluster { .. })), "{:?}", agent.minter.ready());
}

/// Masters that were put back to before the section was given begin its owners anew. The agent was another one's successor, runs on, and is
/// given the section as the first owner of all.
#[tokio::test]
async fn a_section_that_comes_back_with_a_lower_g_is_served_above_all_that_was_given() {
    let (kit, masters) = (Kit::new(), masters(LEASE_MS));
    let addresses = masters.listen().await;
    let (agent, session, last) = served(&kit, &masters, &addresses).await;
    masters.with(|state| {
        state.records.insert(0, masters::Record { g: 1, owner: Some(session), max_seq: 0 });
    });
    let name = "orders".parse().unwrap();
    let first =
        || lock(&agent.sequences.allocator).held(&name).is_some_and(|held| held.ranges().all(|one| one.g.0 == 1));
    let began = Instant::now();
    while !first() {
        assert!(began.elapsed() < Duration::from_secs(60), "the former owner's span is remembered for ever");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let next = agent.next(7).await;
    assert!(next.is_ok_and(|next| next > last), "{next:?} after {last}");
}
