use super::*;
use ids::sequence::SequenceSpec;
use proptest::prelude::*;
use std::collections::BTreeMap;

const NOW: BootMs = BootMs(1_000);
const G: Tenure = of(3);

/// The one of that owner.
const fn of(g: u64) -> Tenure {
    Tenure { g: Generation(g), since: BootMs(0) }
}

fn bound(from: u64, max_seq: u64) -> Raised {
    Raised { from, max_seq, receipt: None }
}

fn definition(width: u8, step: u32) -> SequenceDefinition {
    let said = SequenceSpec {
        width: Some(width),
        step: Some(step),
        keys_per_section: Some(100),
        solo_allowance: Some(1_000_000),
        ..SequenceSpec::default()
    };
    SequenceDefinition::new(&said).unwrap()
}

fn loaded(definition: &SequenceDefinition, from: u64, max_seq: u64) -> SectionState {
    let mut section = SectionState::new(definition, G, 0);
    assert_eq!(section.take(definition, 1, 1, true, NOW), Taken::Wait);
    assert_eq!(section.want(NOW), Some(RaiseTo::ByAStep));
    section.raised(definition, G, Ok(bound(from, max_seq)), NOW);
    section
}

#[test]
fn a_section_is_loaded_and_its_bound_raised_before_it_is_reached() {
    let definition = definition(63, 10);
    let mut section = loaded(&definition, 100, 110);
    assert_eq!(section.take(&definition, 1, 4, true, NOW), Taken::From(101));
    assert!(!section.wants(), "104 of 110, and 5 ahead");
    assert_eq!(section.take(&definition, 2, 5, true, NOW), Taken::From(101));
    assert_eq!((section.want(NOW), section.want(NOW)), (Some(RaiseTo::Number(120)), None), "once");
    assert_eq!(section.take(&definition, 2, 5, true, NOW), Taken::From(106));
    assert_eq!(section.take(&definition, 2, 1, true, NOW), Taken::Wait);
    assert_eq!(section.take(&definition, 1, 1, true, NOW), Taken::From(105), "others are not kept");
    section.raised(&definition, G, Ok(bound(110, 115)), NOW);
    assert_eq!(section.take(&definition, 2, 1, true, NOW), Taken::From(111), "less than was asked for");
    assert_eq!(section.take(&definition, 2, 50, true, NOW), Taken::Wait);
    assert_eq!(section.want(NOW), Some(RaiseTo::Number(171)), "what is needed, and a step");
    assert_eq!(section.current(2, NOW), Some(111));
}

#[test]
fn what_is_not_written_down_is_not_used() {
    let definition = definition(63, 10);
    let mut section = SectionState::new(&definition, G, 0);
    let raised = Ok(bound(100, 110));
    assert_eq!(section.take(&definition, 1, 1, true, NOW), Taken::Wait);
    assert!(section.want(NOW).is_some());
    assert_eq!(section.answered(&definition, G, raised, false, NOW), RaiseOutcome::Unwritten);
    assert_eq!(section.take(&definition, 1, 1, true, NOW), Taken::Wait);
    assert_eq!((section.want(NOW), section.want(NOW + PAUSE)), (None, Some(RaiseTo::ByAStep)), "it asks again");
    // Another master may be able to: nothing has changed until it is asked too.
    for why in [NotRaised::Allowance, NotRaised::OtherOwner] {
        assert_eq!(section.answered(&definition, G, Err(why), true, NOW), RaiseOutcome::AskAnother);
    }
    assert_eq!(section.answered(&definition, G, raised, true, NOW), RaiseOutcome::Used);
    assert_eq!(section.take(&definition, 1, 1, true, NOW), Taken::From(101));
    // There is nothing to be written down of a width that is used up.
    let mut section = SectionState::new(&definition, G, 0);
    assert_eq!(section.answered(&definition, G, Err(NotRaised::UsedUp), false, NOW), RaiseOutcome::Used);
    assert_eq!(section.take(&definition, 1, 1, true, NOW), Taken::Ended);
}

#[test]
fn an_answer_counts_for_the_owner_that_asked() {
    let definition = definition(63, 10);
    let mut section = loaded(&definition, 100, 110);
    assert_eq!(section.take(&definition, 1, 3, true, NOW), Taken::From(101));
    section.own(of(5));
    section.raised(&definition, G, Ok(bound(0, 1_000)), NOW);
    assert_eq!(section.take(&definition, 1, 1, true, NOW), Taken::Wait);
    assert_eq!(section.want(NOW), Some(RaiseTo::ByAStep));
    // A master that knows less than was given: nobody goes back, and nothing above what it says is given.
    section.raised(&definition, of(5), Ok(bound(100, 102)), NOW);
    assert_eq!(section.take(&definition, 1, 1, true, NOW), Taken::Wait);
    assert_eq!(section.want(NOW), Some(RaiseTo::Number(114)));
    section.raised(&definition, of(5), Ok(bound(102, 114)), NOW);
    assert_eq!(section.take(&definition, 7, 1, true, NOW), Taken::From(104));
}

#[test]
fn what_a_process_before_gave_is_skipped_whatever_the_master_knows() {
    let definition = definition(63, 10);
    for (known, first) in [(400, 1_001), (5_000, 5_001)] {
        let mut section = SectionState::new(&definition, G, 1_000);
        assert_eq!(section.take(&definition, 1, 1, true, NOW), Taken::Wait);
        assert_eq!((section.current(1, NOW), section.want(NOW)), (None, Some(RaiseTo::ByAStep)));
        section.raised(&definition, G, Ok(bound(known, known + 10)), NOW);
        if known < 1_000 {
            assert_eq!(section.take(&definition, 1, 1, true, NOW), Taken::Wait, "it has not heard of what was given");
            assert_eq!(section.want(NOW), Some(RaiseTo::Number(1_011)));
            section.raised(&definition, G, Ok(bound(known + 10, 1_011)), NOW);
        }
        assert_eq!(section.take(&definition, 1, 1, true, NOW), Taken::From(first));
    }
    // A damaged number would end all keys of the section, and no more.
    let mut section = SectionState::new(&definition, G, u64::MAX);
    section.raised(&definition, G, Ok(bound(1, 11)), NOW);
    assert_eq!(section.take(&definition, 1, 1, true, NOW), Taken::Ended);
}

#[test]
fn a_failed_raise_is_asked_again_after_a_pause() {
    let definition = definition(63, 10);
    let mut section = loaded(&definition, 0, 2);
    for answer in [NotRaised::Allowance, NotRaised::OtherOwner, NotRaised::UsedUp] {
        let now = section.used() + SpanMs(1_000);
        assert_eq!(section.take(&definition, 1, 5, true, now), Taken::Wait);
        assert_eq!(section.want(now), Some(RaiseTo::Number(15)));
        section.raised(&definition, G, Err(answer), now);
        assert_eq!(section.take(&definition, 1, 5, true, now), Taken::Wait);
        assert_eq!(section.want(now), None);
        assert_eq!(section.want(now + PAUSE), Some(RaiseTo::Number(15)));
        section.failed(G, now);
    }
}

#[test]
fn the_width_ends_once_and_for_all() {
    let definition = definition(32, 10);
    let last = u64::from(u32::MAX);
    let mut section = loaded(&definition, last - 5, last);
    assert_eq!(section.take(&definition, 1, 6, true, NOW), Taken::Ended);
    assert_eq!(section.take(&definition, 1, 5, true, NOW), Taken::From(last - 4));
    assert_eq!(section.take(&definition, 1, 1, true, NOW), Taken::Ended);
    assert!(!section.wants());
    assert_eq!(section.take(&definition, 2, 1, true, NOW), Taken::From(last - 4));
    let mut ended = SectionState::new(&definition, G, 0);
    ended.raised(&definition, G, Err(NotRaised::UsedUp), NOW);
    assert_eq!(ended.take(&definition, 1, 1, true, NOW), Taken::Ended);
}

#[test]
fn without_room_known_keys_go_on_and_unloaded_ones_jump() {
    let definition = definition(63, 100);
    let mut section = loaded(&definition, 0, 100);
    assert_eq!(section.take(&definition, 1, 7, true, NOW), Taken::From(1));
    assert_eq!(section.take(&definition, 2, 1, false, NOW), Taken::Full);
    assert_eq!(section.take(&definition, 1, 1, false, NOW), Taken::From(8));
    section.unload();
    assert_eq!((section.len(), section.take(&definition, 2, 1, true, NOW)), (SECTION_LEN, Taken::From(9)));
}

#[derive(Clone, Copy, Debug)]
enum Deed {
    Take(u32, u32),
    /// The master answers the question asked last, and raises by a part of what was asked; or it does, and the answer is lost.
    Answer(u64, bool),
    /// An old answer comes again.
    Again(usize),
    Unload,
    /// We lose the section and get it back: the master is asked anew.
    Move,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        6 => (0u32..4, 1u32..30).prop_map(|(at, n)| Deed::Take(at, n)),
        4 => (0u64..60, any::<bool>()).prop_map(|(part, lost)| Deed::Answer(part, lost)),
        1 => (0usize..50).prop_map(Deed::Again),
        1 => Just(Deed::Unload),
        1 => Just(Deed::Move),
    ]
}

proptest! {
    /// Whatever is lost, late or doubled: numbers of a key grow, and lie within what the master held durably for this owner.
    #[test]
    fn numbers_grow_below_the_bound(deeds in proptest::collection::vec(deed(), 1..200)) {
        let definition = definition(63, 20);
        let mut section = SectionState::new(&definition, of(1), 0);
        let (mut now, mut bound) = (NOW, 0u64);
        let mut given: BTreeMap<u32, u64> = BTreeMap::new();
        let mut answers = Vec::new();
        for deed in deeds {
            now = now + SpanMs(200);
            match deed {
                Deed::Take(at, n) => {
                    if let Taken::From(first) = section.take(&definition, at, n, true, now) {
                        let last = first + u64::from(n) - 1;
                        prop_assert!(given.get(&at).is_none_or(|before| *before < first) && last <= bound);
                        given.insert(at, last);
                    }
                }
                Deed::Answer(part, lost) => {
                    if let Some(to) = section.want(now) {
                        let wanted = match to {
                            RaiseTo::ByAStep => bound + 20,
                            RaiseTo::Number(number) => number.max(bound),
                        };
                        let from = bound;
                        bound = wanted.min(bound + part);
                        let answer = (section.tenure(), Ok(Raised { from, max_seq: bound, receipt: None }));
                        if lost {
                            section.failed(section.tenure(), now);
                        } else {
                            section.raised(&definition, answer.0, answer.1, now);
                        }
                        answers.push(answer);
                    }
                }
                Deed::Again(nth) => {
                    if let Some((g, answer)) = answers.get(nth) {
                        section.raised(&definition, *g, *answer, now);
                    }
                }
                Deed::Unload => section.unload(),
                Deed::Move => section.own(of(section.g().0 + 1)),
            }
        }
    }
}

#[test]
fn an_owner_goes_on_where_the_masters_bound_was() {
    let definition = definition(63, 10);
    let mut section = loaded(&definition, 0, 20);
    assert_eq!(section.take(&definition, 1, 6, true, NOW), Taken::From(1));
    assert_eq!(section.take(&definition, 2, 15, true, NOW), Taken::From(1));
    assert!(section.want(NOW).is_some());
    // Both disks were put back, and what others gave since is below what the masters begin at.
    section.raised(&definition, G, Ok(bound(1_000, 1_010)), NOW);
    assert_eq!(section.take(&definition, 1, 1, true, NOW), Taken::From(1_001), "all keys, not the one that asked");
    assert_eq!((section.current(2, NOW), section.current(3, NOW)), (Some(1_000), Some(1_000)));
    // A master that has not heard of our last raise is behind us, and nothing is skipped.
    section.raised(&definition, G, Ok(bound(900, 1_030)), NOW);
    assert_eq!(section.take(&definition, 1, 1, true, NOW), Taken::From(1_002));
}

#[test]
fn a_section_is_loaded_anew_after_a_span_that_ended() {
    let definition = definition(63, 10);
    let mut section = loaded(&definition, 0, 20);
    assert_eq!(section.take(&definition, 1, 15, true, NOW), Taken::From(1));
    assert!(section.want(NOW).is_some(), "under way");
    let again = Tenure { since: BootMs(9_000), ..G };
    section.own(again);
    assert_eq!(section.take(&definition, 1, 1, true, NOW), Taken::Wait, "though five are left");
    section.raised(&definition, G, Ok(bound(20, 30)), NOW);
    assert_eq!(section.take(&definition, 1, 1, true, NOW), Taken::Wait, "that was asked before");
    assert_eq!(section.want(NOW), Some(RaiseTo::ByAStep));
    section.raised(&definition, again, Ok(bound(40, 50)), NOW);
    assert_eq!(section.take(&definition, 1, 1, true, NOW), Taken::From(41));
}

#[test]
fn a_later_owner_of_a_lower_g_goes_on_above_what_was_given() {
    let definition = definition(63, 10);
    let mut section = loaded(&definition, 0, 20);
    assert_eq!(section.take(&definition, 1, 15, true, NOW), Taken::From(1));
    let first = Tenure { g: Generation(1), since: BootMs(9_000) };
    section.own(first);
    assert_eq!((section.g(), section.is_loaded()), (Generation(1), false));
    assert_eq!(section.take(&definition, 2, 1, true, NOW), Taken::Wait);
    section.raised(&definition, first, Ok(bound(0, 10)), NOW);
    assert_eq!(section.take(&definition, 2, 1, true, NOW), Taken::Wait, "that was given");
    section.raised(&definition, first, Ok(bound(10, 30)), NOW);
    assert_eq!(section.take(&definition, 2, 1, true, NOW), Taken::From(16));
}

#[test]
fn a_receipt_is_that_of_the_owner_that_we_are() {
    let definition = definition(63, 10);
    let mut section = SectionState::new(&definition, G, 0);
    let receipt = Some(SectionReceipt([7; 32]));
    section.raised(&definition, G, Ok(Raised { receipt, ..bound(0, 10) }), NOW);
    section.own(Tenure { since: BootMs(9), ..G });
    assert_eq!(section.receipt(), receipt);
    section.own(of(4));
    assert_eq!(section.receipt(), None);
}

/// Takes numbers of the first key until there are no more, with a master that grants whatever it is asked for.
fn take_all(section: &mut SectionState, definition: &SequenceDefinition, now: BootMs) -> u64 {
    let mut last = 0;
    loop {
        match section.take(definition, 1, 1_000_000, true, now) {
            Taken::From(first) => last = first + 999_999,
            Taken::Wait => {
                let Some(RaiseTo::Number(to)) = section.want(now) else { panic!() };
                section.raised(definition, section.tenure(), Ok(bound(section.max_seq, to)), now);
            }
            Taken::TooMany => return last,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_hour_ends_neither_a_key_nor_all_keys_of_its_section() {
    let definition = definition(32, 10_000);
    let most = definition.width().per_hour().unwrap();
    let mut section = loaded(&definition, 0, 10_000);
    let last = take_all(&mut section, &definition, NOW);
    assert!((most - 1_000_000..=most + 10_000).contains(&last), "{last}");
    assert_eq!(section.take(&definition, 2, 1_000, true, NOW), Taken::From(1), "other keys go on");
    let rest = BootMs(NOW.0 + HOUR_MS - 1);
    assert_eq!(section.take(&definition, 1, 1_000_000, true, rest), Taken::TooMany);
    assert_eq!(section.at_rest(&definition, rest), None, "forgotten, it would begin the hour anew");
    // What others had does not count: the section is ours again, and its masters begin higher.
    section.raised(&definition, G, Ok(bound(1 << 30, (1 << 30) + 10_000)), rest);
    assert_eq!(section.take(&definition, 1, 1_000_000, true, rest), Taken::TooMany, "nor does the hour begin anew");
    let next = BootMs(NOW.0 + HOUR_MS);
    assert!(take_all(&mut section, &definition, next) > (1 << 30) + most - 2_000_000);
    let over = BootMs(next.0 + HOUR_MS);
    section.take(&definition, 2, 1, true, next);
    section.failed(G, over);
    assert!(section.at_rest(&definition, over).is_some());
}

#[test]
fn of_the_rest_of_an_hour_it_is_said_what_is_left() {
    let definition = definition(32, 10_000);
    let most = definition.width().per_hour().unwrap();
    let mut section = loaded(&definition, 0, 10_000);
    // The hour begins with the bound that has to be raised.
    assert_eq!(section.take(&definition, 1, 6_000, true, NOW), Taken::From(1));
    section.raised(&definition, G, Ok(bound(0, most / 4 + 20_000)), NOW);
    let open = u32::try_from(most / 4 + 10_000 - 6_000).unwrap();
    assert_eq!(section.left_to_share(&definition, 1, open, NOW), None, "to whoever asks");
    let (hour, left) = section.left_to_share(&definition, 1, open + 1, NOW).unwrap();
    assert_eq!(left, most + 10_000 - 6_000);
    assert_eq!(section.take(&definition, 1, open, true, NOW), Taken::From(6_001));
    assert_eq!(section.left_to_share(&definition, 1, 1, NOW), Some((hour, left - u64::from(open))));
    assert_eq!(section.left_to_share(&definition, 2, 1_000, NOW), None, "a key that is behind");
    assert_eq!(section.left_to_share(&definition, 1, 20_000, NOW), None, "the bound has to be raised first");
    let next = BootMs(NOW.0 + HOUR_MS);
    assert_eq!(section.left_to_share(&definition, 1, 1, next), None, "another hour");
}
