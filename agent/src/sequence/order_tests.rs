//! Two agents and one section: whatever the rates of their clocks within a hundredth, whatever is lost, late or doubled, each number of the
//! key is larger than all that were given before it was asked for. The masters are as simple as they may be: one record, and what each of
//! the two lists; a move is a prep at one, a record at both, and then a list of the new owner.

use super::{Allocator, Kept, SectionState, Standing, Taken};
use common::lease::Generation;
use common::namespace::GeneratorName;
use common::rpc::ranges::{HeldSections, KeepReply, RaiseTo, Raised};
use common::sequence::{Section, SequenceDefinition, SequenceSource};
use common::time::BootMs;
use proptest::prelude::*;

const LEASE_MS: u32 = 1_000;
const SECTION: Section = Section(0);

/// What one master lists the section for.
#[derive(Clone, Copy, Debug)]
struct Listed {
    g: u64,
    owner: Option<usize>,
}

struct Agent {
    allocator: Allocator,
    section: Option<SectionState>,
    /// Of its clock, in hundredths of a real millisecond's.
    rate: i64,
    answers: Vec<(usize, Kept)>,
}

struct World {
    now: i64,
    masters: [Listed; 2],
    /// The bound, at both: that they part is tested elsewhere.
    max_seq: u64,
    agents: Vec<Agent>,
    highest: u64,
    definition: SequenceDefinition,
    name: GeneratorName,
}

#[derive(Clone, Copy, Debug)]
enum Deed {
    Pass(i64),
    /// Agent, master: asks, and the answer comes after so long; or is lost.
    Keep(usize, usize, i64, bool),
    /// An old answer, again.
    Again(usize, usize),
    Give(usize),
    /// The home begins to move the section to that agent; the other master agrees; the home lists it.
    Move(usize, u8),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => (1i64..400).prop_map(Deed::Pass),
        4 => (0usize..2, 0usize..2, 0i64..300, any::<bool>()).prop_map(|(a, m, late, lost)| Deed::Keep(a, m, late, lost)),
        1 => (0usize..2, 0usize..20).prop_map(|(a, nth)| Deed::Again(a, nth)),
        8 => (0usize..2).prop_map(Deed::Give),
        2 => (0usize..2, 0u8..3).prop_map(|(a, stage)| Deed::Move(a, stage)),
    ]
}

impl World {
    fn new(rates: [i64; 2]) -> Self {
        let said = SequenceSource { step: Some(5), solo_allowance: Some(100), ..SequenceSource::default() };
        let agent = |rate| Agent { allocator: Allocator::new(2, BootMs(0)), section: None, rate, answers: Vec::new() };
        Self {
            now: 10_000,
            masters: [Listed { g: 1, owner: Some(0) }; 2],
            max_seq: 0,
            agents: rates.into_iter().map(agent).collect(),
            highest: 0,
            definition: SequenceDefinition::new(&said).unwrap(),
            name: "one".parse().unwrap(),
        }
    }

    fn local(&self, agent: usize) -> BootMs {
        BootMs(self.now * self.agents[agent].rate / 10_000)
    }

    fn keep(&mut self, agent: usize, master: usize, late: i64, lost: bool) {
        let sent = self.local(agent);
        let listed = self.masters[master];
        let sections = (listed.owner == Some(agent)).then(|| HeldSections {
            name: self.name.clone(),
            from: SECTION,
            to: Section(1),
            g: Generation(listed.g),
        });
        let reply = KeepReply { lease_ms: LEASE_MS, sections: sections.into_iter().collect() };
        self.now += late;
        let received = self.local(agent);
        let kept = Kept { sent, received, reply };
        self.agents[agent].answers.push((master, kept.clone()));
        if !lost {
            self.agents[agent].allocator.handle(received, master, &kept).unwrap();
        }
    }

    /// What came of one question, asked now.
    fn give(&mut self, agent: usize) -> Option<u64> {
        let now = self.local(agent);
        let held = self.agents[agent].allocator.held(&self.name)?;
        let Standing::Served(g) = held.standing(SECTION, now) else { return None };
        let definition = &self.definition;
        let section = self.agents[agent].section.get_or_insert_with(|| SectionState::new(definition, g, 0));
        section.own(g);
        for _ in 0..3 {
            match section.take(definition, 7, 1, true, now) {
                Taken::From(number) => return Some(number),
                Taken::Wait => {
                    let to = section.want(now)?;
                    // Each master raises for whom it lists, and nobody else.
                    let lists = |listed: &&Listed| listed.owner == Some(agent) && Generation(listed.g) == g;
                    if !self.masters.iter().any(|listed| lists(&listed)) {
                        section.failed(g, now);
                        return None;
                    }
                    let from = self.max_seq;
                    self.max_seq = match to {
                        RaiseTo::ByAStep => from + 5,
                        RaiseTo::Number(number) => from.max(number),
                    };
                    section.raised(definition, g, Ok(Raised { from, max_seq: self.max_seq }), now);
                }
                other => panic!("{other:?}"),
            }
        }
        None
    }

    fn advance(&mut self, to: usize, stage: u8) {
        let [home, other] = self.masters;
        match stage {
            // A prep: listed for nobody.
            0 if home.g == other.g && home.owner.is_some() && home.owner != Some(to) => self.masters[0].owner = None,
            1 if home.g == other.g && home.owner.is_none() && other.owner != Some(to) => {
                self.masters[1] = Listed { g: other.g + 1, owner: Some(to) };
            }
            2 if home.g < other.g => self.masters[0] = other,
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn each_number_is_larger_than_those_before(
        slow: bool, deeds in proptest::collection::vec(deed(), 1..250),
    ) {
        let rates = if slow { [9_900, 10_100] } else { [10_100, 9_900] };
        let mut world = World::new(rates);
        for deed in deeds {
            match deed {
                Deed::Pass(ms) => world.now += ms,
                Deed::Keep(agent, master, late, lost) => world.keep(agent, master, late, lost),
                Deed::Again(agent, nth) => {
                    if let Some((master, kept)) = world.agents[agent].answers.get(nth).cloned() {
                        // It is received now, whenever it was sent.
                        let received = world.local(agent);
                        let kept = Kept { received, ..kept };
                        world.agents[agent].allocator.handle(received, master, &kept).unwrap();
                    }
                }
                Deed::Give(agent) => {
                    if let Some(number) = world.give(agent) {
                        prop_assert!(number > world.highest, "{number} after {}", world.highest);
                        world.highest = number;
                    }
                }
                Deed::Move(to, stage) => world.advance(to, stage),
            }
        }
    }
}

/// That the numbers above come from somewhere: a move by the book is served by both agents.
#[test]
fn a_section_that_moves_is_served_before_and_after() {
    let mut world = World::new([9_900, 10_100]);
    world.keep(0, 0, 5, false);
    assert_eq!(world.give(0), Some(1));
    for stage in 0..3 {
        world.advance(1, stage);
    }
    for _ in 0..3 {
        assert_eq!(world.give(1), None);
        world.keep(1, 0, 5, false);
        world.now += 333;
    }
    assert_eq!(world.give(0), None, "its lease is over");
    world.now += 30;
    world.keep(1, 1, 5, false);
    assert_eq!(world.give(1), Some(6), "from the bound on");
}
