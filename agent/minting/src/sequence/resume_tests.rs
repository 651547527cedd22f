//! Processes that are killed between any two steps and started again, with masters that are away and have not heard of each other's raises.
//! Each number of the key is larger than all that were given before, whichever process of which agent gives it. The masters are as simple
//! as they may be: what each lists and raises, and how far it knows the other one to be.

use super::{Allocator, Bound, Bounds, Kept, Loads, Ownership, SectionState, Taken, Tenure};
use ids::lease::Generation;
use ids::namespace::GeneratorName;
use ids::segment::MasterRun;
use ids::sequence::{Section, SequenceDefinition, SequenceSpec};
use ids::time::BootMs;
use proptest::prelude::*;
use std::sync::Arc;
use wire::ranges::{HeldSections, KeepReply, RaiseTo, Raised, RaisedSections};

const LEASE_MS: u32 = 1_000;
const SECTION: Section = Section(0);
const ALLOWANCE: u64 = 40;
const STEP: u64 = 5;

#[derive(Clone, Copy, Debug)]
struct Master {
    up: bool,
    g: u64,
    /// A session.
    owner: Option<u32>,
    max_seq: u64,
    peer_has: u64,
}

/// A raise between an agent and a master.
#[derive(Clone, Copy, Debug)]
struct Raise {
    session: u32,
    g: Generation,
    to: RaiseTo,
}

struct Agent {
    session: u32,
    allocator: Allocator,
    section: Option<SectionState>,
    loads: Loads,
    /// On its disk,
    file: Bounds,
    /// and what was there at its start.
    former: Bounds,
    /// An answer that is not used yet, and whether it is written down.
    answer: Option<(Tenure, Raised, bool)>,
    /// The raises that it asked for, to come again late.
    asked: Vec<Raise>,
}

/// A part that a world can do without, to show what it is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    Nothing,
    /// Numbers are given from an answer that is not written down.
    Writing,
    /// The file says which sections go on, and not how far they were.
    TheNumber,
    /// A section goes on under whichever `g` it is listed.
    TheOwner,
    /// The file says for ever which sections were ours.
    TheLoss,
}

struct World {
    now: BootMs,
    /// The first is the section's home.
    masters: [Master; 2],
    agents: [Agent; 2],
    sessions: u32,
    highest: u64,
    definition: SequenceDefinition,
    name: GeneratorName,
    without: Without,
}

#[derive(Clone, Copy, Debug)]
enum Deed {
    Pass(i64),
    Keep(usize, usize),
    Give(usize),
    /// Agent, master: its raise is asked and done; the answer arrives, or is lost.
    Ask(usize, usize, bool),
    Write(usize),
    Use(usize),
    /// An old raise of the agent arrives at that master, and its answer nowhere.
    Late(usize, usize, usize),
    /// Killed and started again.
    Restart(usize),
    /// The same, and what is written does not count.
    Fresh(usize),
    UpOrDown(usize),
    Tell,
    /// The home begins to move the section to that agent; the other master agrees; the home lists it.
    Move(usize, u8),
    /// Both masters are put back to before the section's present owner, and give it to that agent.
    Forget(usize),
}

fn deed() -> impl Strategy<Value = Deed> {
    let (agent, master) = (0usize..2, 0usize..2);
    prop_oneof![
        3 => (1i64..500).prop_map(Deed::Pass),
        5 => (agent.clone(), master.clone()).prop_map(|(a, m)| Deed::Keep(a, m)),
        8 => agent.clone().prop_map(Deed::Give),
        5 => (agent.clone(), master.clone(), any::<bool>()).prop_map(|(a, m, lost)| Deed::Ask(a, m, lost)),
        5 => agent.clone().prop_map(Deed::Write),
        5 => agent.clone().prop_map(Deed::Use),
        1 => (agent.clone(), master.clone(), 0usize..9).prop_map(|(a, m, nth)| Deed::Late(a, m, nth)),
        2 => agent.clone().prop_map(Deed::Restart),
        1 => agent.clone().prop_map(Deed::Fresh),
        1 => master.prop_map(Deed::UpOrDown),
        1 => Just(Deed::Tell),
        2 => (agent, 0u8..3).prop_map(|(a, stage)| Deed::Move(a, stage)),
    ]
}

impl World {
    fn new(without: Without) -> Self {
        let said = SequenceSpec { step: Some(5), solo_allowance: Some(ALLOWANCE), ..SequenceSpec::default() };
        let agent = |session| Agent {
            session,
            allocator: Allocator::new(2, BootMs(0)),
            section: None,
            loads: Loads::default(),
            file: Bounds::default(),
            former: Bounds::default(),
            answer: None,
            asked: Vec::new(),
        };
        Self {
            now: BootMs(10_000),
            masters: [Master { up: true, g: 3, owner: Some(0), max_seq: 0, peer_has: 0 }; 2],
            agents: [agent(0), agent(1)],
            sessions: 2,
            highest: 0,
            definition: SequenceDefinition::new(&said).unwrap(),
            name: "one".parse().unwrap(),
            without,
        }
    }

    fn keep(&mut self, agent: usize, master: usize) {
        let listed = self.masters[master];
        if !listed.up {
            return;
        }
        let agent = &mut self.agents[agent];
        let sections = (listed.owner == Some(agent.session)).then(|| HeldSections {
            name: self.name.clone(),
            from: SECTION,
            to: Section(1),
            g: Generation(listed.g),
        });
        let reply = KeepReply {
            lease_ms: LEASE_MS,
            run: MasterRun(0),
            boot: self.now,
            sections: sections.into_iter().collect(),
            more: false,
        };
        let kept = Kept { sent: self.now, received: self.now, reply };
        agent.allocator.handle(self.now, master, &kept).unwrap();
        if let Some(listed) = agent.allocator.take_lost(self.now) {
            match self.without {
                Without::TheLoss => listed.runs.iter().for_each(|run| agent.file.note_run(*run)),
                _ => agent.file.note_all(&agent.file.lost(&listed, self.now)),
            }
        }
    }

    fn give(&mut self, at: usize) {
        let former = self.written(at);
        let agent = &mut self.agents[at];
        let Some(held) = agent.allocator.held(&self.name) else { return };
        let Ownership::Served(tenure) = held.ownership(SECTION, self.now) else { return };
        let definition = &self.definition;
        let begin = || SectionState::new(definition, tenure, former.unwrap_or(0));
        let section = agent.section.get_or_insert_with(begin);
        section.own(tenure);
        if !section.is_loaded() {
            agent.loads.load(definition, SECTION, section, self.now);
        }
        if let Taken::From(number) = section.take(definition, 7, 1, true, self.now) {
            assert!(number > self.highest, "agent {at}: {number} after {}", self.highest);
            self.highest = number;
        }
    }

    fn written(&self, agent: usize) -> Option<u64> {
        let bound = self.agents[agent].former.get(&self.name, SECTION).filter(|_| self.without != Without::TheNumber);
        bound.map(|bound| bound.max_seq)
    }

    fn ask(&mut self, at: usize, master: usize, lost: bool) {
        let agent = &mut self.agents[at];
        let Some(section) = agent.section.as_mut().filter(|_| agent.answer.is_none()) else { return };
        let Some(to) = section.want(self.now) else { return };
        let (tenure, raise) = (section.tenure(), Raise { session: agent.session, g: section.g(), to });
        agent.asked.push(raise);
        let raised = self.raise(master, raise);
        let agent = &mut self.agents[at];
        match raised.filter(|_| !lost) {
            Some(raised) => agent.answer = Some((tenure, raised, false)),
            None => agent.section.iter_mut().for_each(|section| section.failed(tenure, self.now)),
        }
    }

    /// Each master raises for whom it lists, and nobody else, as far as it may.
    fn raise(&mut self, at: usize, raise: Raise) -> Option<Raised> {
        let master = &mut self.masters[at];
        if !master.up || master.owner != Some(raise.session) || Generation(master.g) != raise.g {
            return None;
        }
        let from = master.max_seq;
        let to = match raise.to {
            RaiseTo::ByAStep => from + STEP,
            RaiseTo::Number(number) => number.max(from),
        };
        let bound = master.peer_has + ALLOWANCE;
        master.max_seq = to.min(bound).max(from);
        (master.max_seq > from || to == from).then_some(Raised { from, max_seq: master.max_seq, receipt: None })
    }

    fn write(&mut self, agent: usize) {
        let agent = &mut self.agents[agent];
        if let Some((tenure, raised, written)) = &mut agent.answer {
            agent.file.note(&self.name, SECTION, Bound { g: Some(tenure.g), max_seq: raised.max_seq });
            *written = true;
        }
    }

    fn use_answer(&mut self, agent: usize) {
        let may = |written: bool| written || self.without == Without::Writing;
        let agent = &mut self.agents[agent];
        if let Some((tenure, raised, _)) = agent.answer.take_if(|(_, _, written)| may(*written))
            && let Some(section) = &mut agent.section
        {
            if !section.is_loaded() {
                agent.loads.note(tenure, &RaisedSections { from: SECTION, to: Section(9), outcome: Ok(raised) });
            }
            section.raised(&self.definition, tenure, Ok(raised), self.now);
        }
    }

    fn restart(&mut self, at: usize, fresh: bool) {
        let agent = &mut self.agents[at];
        (agent.allocator, agent.section, agent.answer) = (Allocator::new(2, self.now), None, None);
        agent.loads = Loads::default();
        if fresh {
            (agent.session, agent.file) = (self.sessions, Bounds::default());
            self.sessions += 1;
        }
        let mut former = agent.file.clone();
        agent.former = former.clone();
        if self.without == Without::TheOwner && !former.is_empty() {
            let g = self.masters.iter().map(|master| master.g).max().unwrap();
            former.note(&self.name, SECTION, Bound { g: Some(Generation(g)), max_seq: 0 });
        }
        agent.allocator.resume(Arc::new(former));
    }

    fn tell(&mut self) {
        if self.masters.iter().all(|master| master.up) {
            let max_seq = self.masters[0].max_seq.max(self.masters[1].max_seq);
            self.masters.iter_mut().for_each(|master| (master.max_seq, master.peer_has) = (max_seq, max_seq));
        }
    }

    fn advance(&mut self, to: usize, stage: u8) {
        let (to, [home, other]) = (self.agents[to].session, self.masters);
        let both = home.up && other.up;
        match stage {
            // A prep: listed for nobody.
            0 if home.up && home.g == other.g && home.owner.is_some() && home.owner != Some(to) => {
                self.masters[0].owner = None;
            }
            1 if both && home.g == other.g && home.owner.is_none() && other.owner != Some(to) => {
                let max_seq = home.max_seq.max(other.max_seq);
                let (g, peer_has) = (other.g + 1, home.max_seq);
                self.masters[1] = Master { g, owner: Some(to), max_seq, peer_has, ..other };
            }
            2 if both && home.g < other.g => {
                let max_seq = home.max_seq.max(other.max_seq);
                self.masters[0] = Master { max_seq, peer_has: other.max_seq, ..other };
            }
            _ => {}
        }
    }

    fn run(&mut self, deeds: &[Deed]) {
        for deed in deeds {
            match *deed {
                Deed::Pass(ms) => self.now.0 += ms,
                Deed::Keep(agent, master) => self.keep(agent, master),
                Deed::Give(agent) => self.give(agent),
                Deed::Ask(agent, master, lost) => self.ask(agent, master, lost),
                Deed::Write(agent) => self.write(agent),
                Deed::Use(agent) => self.use_answer(agent),
                Deed::Late(agent, master, nth) => {
                    if let Some(raise) = self.agents[agent].asked.get(nth).copied() {
                        self.raise(master, raise);
                    }
                }
                Deed::Restart(agent) => self.restart(agent, false),
                Deed::Fresh(agent) => self.restart(agent, true),
                Deed::UpOrDown(master) => self.masters[master].up ^= true,
                Deed::Tell => self.tell(),
                Deed::Move(to, stage) => self.advance(to, stage),
                Deed::Forget(to) => {
                    let owner = Some(self.agents[to].session);
                    let back = |master: &mut Master| (master.g, master.owner) = (master.g - 1, owner);
                    self.masters.iter_mut().for_each(back);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn each_number_is_larger_than_those_before(deeds in proptest::collection::vec(deed(), 1..300)) {
        World::new(Without::Nothing).run(&deeds);
    }
}

/// An agent waits, loads the section at the first master, and gives a number.
const SERVED: [Deed; 10] = [
    Deed::Keep(0, 0),
    Deed::Pass(520),
    Deed::Keep(0, 0),
    Deed::Pass(520),
    Deed::Keep(0, 0),
    Deed::Give(0),
    Deed::Ask(0, 0, false),
    Deed::Write(0),
    Deed::Use(0),
    Deed::Give(0),
];
/// A kill; the first master is away, and the other one has not heard of the raise. Two raises there: the agent has to learn how far it was.
const GOES_ON: [Deed; 12] = [
    Deed::UpOrDown(0),
    Deed::Restart(0),
    Deed::Keep(0, 1),
    Deed::Give(0),
    Deed::Ask(0, 1, false),
    Deed::Write(0),
    Deed::Use(0),
    Deed::Give(0),
    Deed::Ask(0, 1, false),
    Deed::Write(0),
    Deed::Use(0),
    Deed::Give(0),
];

fn ends_well(without: Without, deeds: &[&[Deed]]) -> Option<u64> {
    let run = || {
        let mut world = World::new(without);
        world.run(&deeds.concat());
        world.highest
    };
    std::panic::catch_unwind(run).ok()
}

/// That master never heard of the last raise, and lists the section for the session.
#[test]
fn with_the_master_away_that_raised_last_an_agent_goes_on_behind_what_it_gave() {
    assert_eq!(ends_well(Without::Nothing, &[&SERVED, &GOES_ON]), Some(STEP + 1));
    assert_eq!(ends_well(Without::TheNumber, &[&SERVED, &GOES_ON]), None, "1 comes again");
    // Without having written it down, what was given is not known any more.
    let unwritten: Vec<Deed> = SERVED.into_iter().filter(|deed| !matches!(deed, Deed::Write(_))).collect();
    assert_eq!(
        ends_well(Without::Nothing, &[&unwritten, &GOES_ON]),
        Some(0),
        "nothing was given; it waits like anybody"
    );
    let waited = [Deed::Pass(520), Deed::Keep(0, 1), Deed::Pass(520)];
    assert_eq!(ends_well(Without::Writing, &[&unwritten, &GOES_ON, &waited, &GOES_ON[2..]]), None);
}

/// The other agent waits, loads the section, and gives a number; then it moves back to the first one, which is killed and started again.
const THERE_AND_BACK: [Deed; 21] = [
    Deed::Keep(1, 0),
    Deed::Pass(520),
    Deed::Keep(1, 0),
    Deed::Pass(520),
    Deed::Keep(1, 0),
    Deed::Give(1),
    Deed::Ask(1, 0, false),
    Deed::Write(1),
    Deed::Use(1),
    Deed::Give(1),
    Deed::Move(0, 0),
    Deed::Move(0, 1),
    Deed::Move(0, 2),
    Deed::Restart(0),
    Deed::Keep(0, 0),
    Deed::Give(0),
    Deed::Ask(0, 0, false),
    Deed::Write(0),
    Deed::Use(0),
    Deed::Give(0),
    // The other one, which has not heard that it lost the section.
    Deed::Give(1),
];

/// The section went to another agent and came back; that one is still within its span.
#[test]
fn a_section_that_came_back_is_waited_for() {
    let went = [Deed::Move(1, 0), Deed::Move(1, 1), Deed::Move(1, 2)];
    let ends = |without| ends_well(without, &[&SERVED, &went, &THERE_AND_BACK]);
    assert_eq!(ends(Without::Nothing), Some(STEP + 2));
    assert_eq!(ends(Without::TheOwner), None, "it gives less than was given already");
}

/// A section that came back under the `g` that it was left with, because both masters had forgotten that.
#[test]
fn a_section_that_masters_gave_to_another_agent_meanwhile_is_waited_for() {
    let forgot = [Deed::Forget(1), Deed::Pass(1_040), Deed::Keep(0, 0)];
    let ends = |without| ends_well(without, &[&SERVED, &forgot, &THERE_AND_BACK]);
    assert_eq!(ends(Without::Nothing), Some(STEP + 2));
    assert_eq!(ends(Without::TheLoss), None, "it gives less than was given already");
}
