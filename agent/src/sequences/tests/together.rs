//! Sections beside each other are loaded together: after the first number of one of them no master is asked for that of another one.

use super::resume::{kill, start};
use super::*;
use common::sequence::SectionRange;
use net::rpc::ranges::{SectionReceipt, ShownReceipt};

const LEASE_MS: u32 = 1_500;
const MANY: u32 = 1_000;

/// Once the agent serves so many sections. It does not ask for them by a route.
async fn serves(agent: &Agent, sections: u32) {
    let name = agent.sequences.name("orders", 1).await.unwrap();
    let began = Instant::now();
    while agent.sequences.view_of(name.name().as_str()).sections < u64::from(sections) {
        assert!(began.elapsed() < Duration::from_secs(10), "they are not listed");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// An agent with many sections.
async fn owner(masters: &Masters, addresses: &[String]) -> (Agent, SessionId) {
    let agent = agent_of(addresses, 1 << 24, 63).await;
    let session = masters.session(0).await;
    masters.give(0..MANY, session);
    serves(&agent, MANY).await;
    (agent, session)
}

fn raises(masters: &Masters) -> usize {
    masters.with(|state| state.raises)
}

#[tokio::test]
async fn the_first_numbers_of_all_sections_take_one_raise() {
    let masters = masters(LEASE_MS);
    let (agent, _) = owner(&masters, &masters.listen().await).await;
    for section in 0..MANY {
        assert_eq!(agent.next(section * KEYS).await, Ok(1), "section {section}");
    }
    assert_eq!(agent.ask(&[(5 * KEYS + 3, 0)], Call::default()).await.outcomes, [KeyOutcome::Given(0)]);
    assert_eq!(masters.with(|state| (state.raises, state.routes)), (1, 0));
    for number in 2..3 * STEP {
        assert_eq!(agent.next(0).await, Ok(number), "over the ends of steps");
    }
    assert_eq!(agent.next(1).await, Ok(1), "another key of the section");
}

#[tokio::test]
async fn keys_of_many_sections_in_one_call_take_one_raise() {
    let masters = masters(LEASE_MS);
    let (agent, _) = owner(&masters, &masters.listen().await).await;
    let keys: Vec<_> = (0..MANY).map(|section| (section * KEYS, 1)).collect();
    let answer = agent.ask(&keys, Call::default()).await;
    assert!(answer.outcomes.iter().all(|outcome| *outcome == KeyOutcome::Given(1)));
    assert_eq!(raises(&masters), 1);
}

#[tokio::test]
async fn what_this_process_gave_of_sections_it_gives_once() {
    let masters = masters(LEASE_MS);
    let (agent, _) = owner(&masters, &masters.listen().await).await;
    for section in 0..3 {
        assert_eq!(agent.next(section * KEYS).await, Ok(1));
    }
    // One that was forgotten to make room is loaded alone.
    let name = agent.sequences.name("orders", 1).await.unwrap();
    {
        let mut shard = lock(name.shard(Section(0)).unwrap());
        let floor =
            shard.remove(&0).and_then(|entry| entry.state.at_rest(&name.definition, agent.sequences.clock.boot()));
        name.forget(0, floor.unwrap());
    }
    assert_eq!(agent.next(0).await, Ok(STEP + 1));
    assert_eq!((agent.next(9 * KEYS).await, raises(&masters)), (Ok(1), 2));
    // A span that ended: somebody else may have had them, so all of them are loaded anew.
    masters.with(|state| state.answers = [None; 2]);
    tokio::time::sleep(Duration::from_millis(u64::from(LEASE_MS) + 300)).await;
    assert_eq!(agent.sequences.try_next(&name, Slot(KEYS), 1, Call::default()), None);
    masters.with(|state| state.answers = [Some(Duration::ZERO); 2]);
    serves(&agent, MANY).await;
    assert_eq!(agent.next(KEYS).await, Ok(STEP + 1));
    assert_eq!((agent.next(8 * KEYS).await, agent.next(9 * KEYS).await), (Ok(STEP + 1), Ok(STEP + 1)));
    assert_eq!(agent.next(0).await, Ok(2 * STEP + 1));
    assert_eq!(raises(&masters), 3);
}

#[tokio::test]
async fn a_process_that_is_started_again_gives_nothing_of_a_step_again() {
    let (kit, masters) = (Kit::new(), masters(LEASE_MS));
    let addresses = masters.listen().await;
    let (agent, _) = start(&kit, &addresses, true).await;
    let session = masters.session(0).await;
    masters.give(0..MANY, session);
    serves(&agent, MANY).await;
    assert_eq!(agent.next(7).await, Ok(1));
    kill(agent).await;
    let (agent, start) = start(&kit, &addresses, true).await;
    assert_eq!(start, SectionsStart::Resumed);
    serves(&agent, MANY).await;
    assert_eq!(agent.next(7).await, Ok(STEP + 1));
    assert_eq!(agent.next(9 * KEYS).await, Ok(STEP + 1), "this one may have been used, as far as is written");
    assert_eq!(masters.with(|state| (state.sessions.len(), state.raises)), (1, 2), "it is the same session, {session}");
    let file = kit.path().with_file_name("serial.bounds");
    assert!(file.metadata().unwrap().len() < 1_000, "all of them are one entry, and what was raised since");
}

#[tokio::test]
async fn what_cannot_be_written_down_is_not_used() {
    let (kit, masters) = (Kit::new(), masters(LEASE_MS));
    let addresses = masters.listen().await;
    std::fs::create_dir_all(kit.path().with_file_name("serial.bounds").join("sub")).unwrap();
    let (agent, _) = start(&kit, &addresses, true).await;
    let session = masters.session(0).await;
    masters.give(0..MANY, session);
    serves(&agent, MANY).await;
    assert_eq!(agent.next(7).await, Err(MintCode::SegmentPending));
    assert_eq!(agent.next(9 * KEYS).await, Err(MintCode::SegmentPending));
    assert!(matches!(agent.minter.ready(), Err(Refusal::BoundsUnwritten(_))));
}

/// The first master grants sections one by one as far as it may alone; of the rest the other one is asked.
#[tokio::test]
async fn a_section_that_one_master_cannot_raise_with_others_is_raised_by_the_other_one() {
    let masters = masters(LEASE_MS);
    let (agent, _) = owner(&masters, &masters.listen().await).await;
    masters.with(|state| {
        state.alone_up_to = Some(50);
        state.records.range_mut(3..5).for_each(|(_, record)| record.max_seq = 50);
    });
    assert_eq!(agent.next(3 * KEYS).await, Ok(51));
    assert_eq!(agent.next(2 * KEYS).await, Ok(1));
    assert_eq!(agent.next(4 * KEYS).await, Ok(51));
    assert_eq!(agent.next(5 * KEYS).await, Ok(1));
}

#[tokio::test]
async fn sections_that_masters_list_no_more_are_shown_as_the_range_that_they_were() {
    let masters = masters(600);
    let (agent, _) = owner(&masters, &masters.listen().await).await;
    agent.next(7).await.unwrap();
    masters.with(|state| state.records.values_mut().for_each(|record| record.owner = Some(SessionId(99))));
    let sections = SectionRange { name: "orders".parse().unwrap(), from: Section(0), to: Section(MANY) };
    let shown = ShownReceipt { sections, g: Generation(1), receipt: SectionReceipt([7; 32]) };
    let began = Instant::now();
    while !masters.with(|state| state.keeps.iter().any(|(_, said)| said.receipts.contains(&shown))) {
        assert!(began.elapsed() < Duration::from_secs(8), "nobody is shown the receipt");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
