use super::*;
use crate::sequence::Taken;
use ids::sequence::SequenceSpec;
use proptest::prelude::*;

const NOW: BootMs = BootMs(0);
const TENURE: Tenure = Tenure { g: Generation(2), since: BootMs(100) };

fn definition(width: u8) -> SequenceDefinition {
    let said = SequenceSpec { first: Some(1_000), step: Some(10), width: Some(width), ..SequenceSpec::default() };
    SequenceDefinition::new(&said).unwrap()
}

fn said(from: u32, to: u32, bound: u64, max_seq: u64) -> RaisedSections {
    let receipt = Some(SectionReceipt([1; 32]));
    RaisedSections { from: Section(from), to: Section(to), outcome: Ok(Raised { from: bound, max_seq, receipt }) }
}

fn served(from: u32, to: u32, tenure: Tenure) -> HeldRange {
    HeldRange { from, to, g: tenure.g, since: tenure.since, until: BootMs(999) }
}

#[test]
fn a_section_begins_with_what_was_raised_with_others_unless_it_may_have_given_some_of_it() {
    let definition = definition(63);
    let mut loads = Loads::default();
    loads.note(TENURE, &said(0, 50, 999, 1_009));
    let begin = |section, tenure, floor| {
        let mut state = SectionState::new(&definition, tenure, floor);
        loads.load(&definition, Section(section), &mut state, NOW);
        state
    };
    let mut state = begin(7, TENURE, 0);
    assert_eq!((state.current(1, NOW), state.at_rest(&definition, NOW)), (Some(999), Some(1_009)));
    assert_eq!(state.take(&definition, 1, 4, true, NOW), Taken::From(1_000));
    assert_eq!(state.take(&definition, 2, 7, true, NOW), Taken::From(1_000));
    assert_eq!(state.take(&definition, 2, 4, true, NOW), Taken::Wait, "beyond the bound");
    assert!(begin(0, TENURE, 999).is_loaded() && begin(49, TENURE, 0).is_loaded());
    let mut behind = begin(7, TENURE, 1_004);
    assert_eq!(behind.take(&definition, 1, 1, true, NOW), Taken::From(1_005), "above what was given already");
    for (section, tenure, floor) in [
        (50, TENURE, 0),
        (7, Tenure { since: BootMs(101), ..TENURE }, 0),
        (7, Tenure { g: Generation(3), ..TENURE }, 0),
        (7, TENURE, 1_009),
    ] {
        assert!(!begin(section, tenure, floor).is_loaded(), "{section} {tenure:?} {floor}");
    }
    assert_eq!(begin(7, TENURE, 0).receipt(), None, "that of all fifty is not its own");
    assert_eq!(loads.receipt(Section(7), TENURE.g), Some((Section(0), Section(50), SectionReceipt([1; 32]))));
    assert_eq!((loads.receipt(Section(7), Generation(1)), loads.receipt(Section(50), TENURE.g)), (None, None));
}

#[test]
fn what_sections_begin_with_is_not_of_this_hour() {
    let definition = definition(32);
    let mut loads = Loads::default();
    loads.note(TENURE, &said(0, 50, 999, 1_009));
    let mut together = SectionState::new(&definition, TENURE, 0);
    loads.load(&definition, Section(7), &mut together, NOW);
    let mut alone = SectionState::new(&definition, TENURE, 0);
    alone.raised(&definition, TENURE, said(7, 8, 999, 1_009).outcome.map(|it| Raised { receipt: None, ..it }), NOW);
    assert_eq!(together, alone);
}

#[test]
fn a_section_is_loaded_with_those_around_it_that_were_not() {
    let later = Tenure { since: BootMs(200), ..TENURE };
    let held = [
        served(0, 10, TENURE),
        served(10, 20, later),
        served(20, 30, TENURE),
        served(30, 40, TENURE),
        served(50, 60, TENURE),
    ];
    let mut loads = Loads::default();
    let around = |loads: &Loads, section| loads.around(&held, Section(section), TENURE);
    assert_eq!([0, 25, 39, 55].map(|at| around(&loads, at)), [0..10, 20..40, 20..40, 50..60]);
    assert_eq!(around(&loads, 15), 15..16, "of another tenure");
    loads.note(TENURE, &said(24, 26, 0, 10));
    loads.note(TENURE, &said(33, 35, 10, 20));
    loads.note(later, &said(0, 5, 0, 10));
    assert_eq!([21, 28, 39, 3].map(|at| around(&loads, at)), [20..24, 26..33, 35..40, 0..10]);
    assert_eq!(around(&loads, 25), 25..26, "it has given some of what it was loaded with");
    loads.note(TENURE, &RaisedSections { outcome: Err(wire::ranges::NotRaised::OtherOwner), ..said(20, 24, 0, 0) });
    assert_eq!(around(&loads, 21), 20..24, "refused");
}

#[test]
fn receipts_of_what_is_lost_are_those_of_the_ranges_that_it_was_raised_in() {
    let name: GeneratorName = "orders".parse().unwrap();
    let mut loads = Loads::default();
    loads.note(TENURE, &said(0, 50, 0, 10));
    loads.note(TENURE, &said(20, 21, 10, 20));
    let lost = [served(5, 30, TENURE), served(60, 70, TENURE), served(0, 5, Tenure { g: Generation(9), ..TENURE })];
    let shown = loads.receipts(&name, lost);
    let ranges: Vec<_> = shown.iter().map(|shown| (shown.sections.from.0, shown.sections.to.0, shown.g.0)).collect();
    assert_eq!(ranges, [(0, 50, 2), (20, 21, 2)]);
}

#[test]
fn sections_are_raised_one_by_one_where_steps_are_few_or_too_many_ranges_are_known() {
    let name: GeneratorName = "orders".parse().unwrap();
    let held = [served(0, 1 << 20, TENURE)];
    let wanted = |loads: &Loads, said: &SequenceSpec| {
        let definition = SequenceDefinition::new(said).unwrap();
        let mut state = SectionState::new(&definition, TENURE, 0);
        state.take(&definition, 1, 1, true, NOW);
        let raise = loads.raise((&name, &definition), &held, Section(7), &mut state, NOW).unwrap();
        (raise.section.0, raise.sections.from.0, raise.sections.to.0)
    };
    let (all, alone) = ((7, 0, 1 << 20), (7, 7, 8));
    let narrow = SequenceSpec { width: Some(32), ..SequenceSpec::default() };
    let mut loads = Loads::default();
    assert_eq!(wanted(&loads, &SequenceSpec::default()), all);
    assert_eq!(wanted(&loads, &narrow), all, "429,496 steps, and 104 by one master");
    assert_eq!(wanted(&loads, &SequenceSpec { step: Some(20_000), ..narrow.clone() }), alone);
    assert_eq!(
        wanted(&loads, &SequenceSpec { step: Some(70_000), solo_allowance: Some((1 << 28) - 1), ..narrow }),
        alone
    );
    let most = u32::try_from(LOADS_MAX - RAISED_MAX).unwrap();
    (0..=most).for_each(|at| loads.note(TENURE, &said(8 + 2 * at, 9 + 2 * at, at.into(), u64::from(at) + 10)));
    assert_eq!(wanted(&loads, &SequenceSpec::default()), alone);
}

#[test]
fn what_cannot_be_written_down_takes_no_step_of_others() {
    let (name, definition): (GeneratorName, _) = ("orders".parse().unwrap(), definition(63));
    let (mut loads, held) = (Loads::default(), [served(0, 50, TENURE)]);
    let wanted = |loads: &Loads| {
        let mut state = SectionState::new(&definition, TENURE, 0);
        state.take(&definition, 1, 1, true, NOW);
        loads.raise((&name, &definition), &held, Section(7), &mut state, NOW).unwrap()
    };
    let all = wanted(&loads);
    assert_eq!(all.sections.len(), 50);
    loads.answered(TENURE, &all, &[said(0, 50, 0, 10)], false);
    let alone = wanted(&loads);
    assert_eq!((loads.len(), alone.sections.len()), (0, 1));
    loads.answered(TENURE, &alone, &[said(7, 8, 10, 20)], true);
    assert_eq!(wanted(&loads).sections.len(), 50);
}

#[test]
fn ranges_of_other_tenures_can_be_forgotten() {
    let later = Tenure { since: BootMs(200), ..TENURE };
    let mut loads = Loads::default();
    loads.note(TENURE, &said(0, 50, 0, 10));
    loads.note(later, &said(60, 70, 0, 10));
    loads.forget_others(&[served(10, 20, TENURE), served(60, 65, TENURE), served(65, 70, later)]);
    let at = |section, tenure: Tenure| loads.receipt(Section(section), tenure.g).is_some();
    assert_eq!([0, 10, 19, 20].map(|section| at(section, TENURE)), [false, true, true, false]);
    assert_eq!([60, 65].map(|section| at(section, later)), [false, true]);
}

#[test]
fn an_answer_that_comes_late_takes_nothing_from_the_time_since() {
    let later = Tenure { since: BootMs(200), ..TENURE };
    let mut loads = Loads::default();
    loads.note(later, &said(0, 50, 20, 30));
    loads.note(TENURE, &said(40, 60, 10, 20));
    assert_eq!(loads.len(), 1);
    assert_eq!(loads.receipt(Section(45), later.g).map(|(from, to, _)| (from.0, to.0)), Some((0, 50)));
}

proptest! {
    /// No number is given twice in a tenure, however sections are loaded together and forgotten.
    #[test]
    fn none_is_given_twice(steps in proptest::collection::vec((0_u32..4, 0_u32..4, 0_u8..4), 1..200)) {
        let definition = definition(63);
        let (mut loads, mut record) = (Loads::default(), [999_u64; 4]);
        let mut states: [Option<SectionState>; 4] = Default::default();
        let (mut floors, mut given) = ([0_u64; 4], [0_u64; 4]);
        for (from, to, what) in steps {
            let at = from as usize;
            if what == 0 {
                let forgotten = states[at].as_ref().and_then(|state| state.at_rest(&definition, NOW));
                if let Some(floor) = forgotten {
                    (states[at], floors[at]) = (None, floors[at].max(floor));
                }
                continue;
            }
            let floor = floors[at];
            let state = states[at].get_or_insert_with(|| SectionState::new(&definition, TENURE, floor));
            if !state.is_loaded() {
                loads.load(&definition, Section(from), state, NOW);
            }
            if let Taken::From(number) = state.take(&definition, 1, 3, true, NOW) {
                prop_assert!(number > given[at] && number + 2 <= record[at], "{} after {}", number, given[at]);
                given[at] = number + 2;
            } else if state.want(NOW).is_some() {
                if what == 1 {
                    state.failed(TENURE, NOW);
                    continue;
                }
                let with = if state.is_loaded() { from..from + 1 } else { from.min(to)..from.max(to) + 1 };
                for each in with {
                    let before = record[each as usize];
                    record[each as usize] += 10;
                    let said = said(each, each + 1, before, before + 10);
                    loads.note(TENURE, &said);
                    if each == from {
                        state.raised(&definition, TENURE, said.outcome, NOW);
                    }
                }
            }
        }
    }
}
