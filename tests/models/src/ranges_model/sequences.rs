//! Two masters, one section of a sequence, and the agents that serve it.

use super::agent::{Agent, Rules};
use super::disk::{Disk, Node};
use super::heal;
use super::pair::{Befalls, Deed, Masters, Pair};
use super::twins::{ALLOWANCE, Twin};
use crate::kit::memo::Memo;
use crate::kit::shared::hash_of;
use common::audit::Actor;
use common::namespace::{Definition, GeneratorName, Namespace, SequenceSpec};
use common::parameters::MasterId;
use common::sequence::{Section, SectionKey, SectionOrder, SequenceDefinition};
use common::setting::{Setting, SettingKey, SettingValue};
use common::time::WallMs;
use ledger::lease::{Event, Reply, RequestId};
use ledger::section::rules::home;
use stateright::{Model, Property};
use std::fmt;
use std::sync::Arc;

/// No number of the key is given twice.
pub const UNIQUE: &str = "I15: no number of a key is given twice";
/// Each is greater than every answer that came before its question.
pub const ORDERED: &str = "I16: an answer is greater than each answer before its question";
/// None is above what was durable.
pub const BOUNDED: &str = "I14: every number is at most a bound that was durable before";
/// Each master's own invariants.
pub const WELL: &str = "what must hold inside one master, with a section";
/// Nothing is ever stuck.
pub const SERVED: &str = "whoever can give serves the section after a while, though its owner cannot and keeps it";
const MOVED: &str = "a number was given by an owner after another one";
const RAISED: &str = "the master that is not the home has raised";

/// A clock that is slow by a hundredth, and one that is fast by as much: milliseconds that they say pass in a hundred.
const SLOW: i64 = 99;
const FAST: i64 = 101;

/// The bounds of the model.
#[derive(Clone, Debug)]
pub struct SectionBounds {
    /// The master that the section is at home with.
    pub home: MasterId,
    /// The number of times that it is given to somebody.
    pub owners: u64,
    /// The number up to which it is raised.
    pub numbers: u64,
    /// True if an agent asks again after the answer to a raise was lost; otherwise it waits for ever, or until it is another owner.
    pub lost_raises: bool,
    /// Agents look at no clock, and only uniqueness has to hold.
    pub any_clock: bool,
    /// The master that a replaced one was lives on and lists sections: the order is not kept for whoever reaches it alone.
    pub ordered: bool,
    /// The number of times that a span of one owner begins after another one has ended.
    pub spans: u8,
    /// Starts of agents as the same session, which go on with what they wrote down.
    pub again: u8,
    /// Starts of agents as another session.
    pub fresh: u8,
    /// Tells whether it is tried in each state that the second agent serves the section after a while, though the first one, which keeps its
    /// sections, can give nothing from then on.
    pub heals: bool,
    /// Tells whether the section is given to anybody after both disks were put back.
    pub given_again: bool,
    /// Events that befall the masters.
    pub befalls: Befalls,
}

/// Something that can happen.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Turn {
    /// An agent asks for its sections, and is answered; the answer is on its way.
    Keep { agent: usize, at: usize },
    /// That answer arrives.
    Hear { agent: usize },
    /// Somebody asks an agent for a number.
    Give { agent: usize },
    /// An agent asks for a higher bound, and is answered; the answer is on its way.
    Raise { agent: usize, at: usize },
    /// That answer arrives, or is lost.
    HearRaised { agent: usize, lost: bool },
    /// The section is given to an agent.
    Move { at: usize, to: usize },
    /// A hundred milliseconds pass.
    Pass,
    /// An agent's process ends and starts again.
    Start { agent: usize, fresh: bool },
    /// Something befalls the masters.
    Befalls(Deed),
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep { agent, at } => write!(f, "{at} answers agent {agent} its sections"),
            Self::Hear { agent } => write!(f, "agent {agent} hears that"),
            Self::Give { agent } => write!(f, "agent {agent} is asked for a number"),
            Self::Raise { agent, at } => write!(f, "{at} answers agent {agent} a raise"),
            Self::HearRaised { agent, lost: false } => write!(f, "agent {agent} hears of the raise"),
            Self::HearRaised { agent, lost: true } => write!(f, "agent {agent} never hears of the raise"),
            Self::Move { at, to } => write!(f, "{at} gives the section to agent {to}"),
            Self::Pass => write!(f, "time passes"),
            Self::Start { agent, fresh: false } => write!(f, "agent {agent} starts again"),
            Self::Start { agent, fresh: true } => write!(f, "agent {agent} starts fresh"),
            Self::Befalls(deed) => write!(f, "{deed:?}"),
        }
    }
}

/// A state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SectionWorld {
    pair: Pair,
    agents: Vec<Agent>,
    /// Numbers of the key that were given: a bit for each; where the order is looked at the highest alone.
    given: u64,
    /// The highest bound that any master ever held durably.
    durable: u64,
    again: u8,
    fresh: u8,
    wrong: Option<&'static str>,
}

impl SectionWorld {
    /// Leaves out the messages in flight.
    #[must_use]
    pub fn without_messages(mut self) -> Self {
        self.pair.forget_messages();
        self
    }
}

/// Two masters with a section, its agents, and all that may befall them within the bounds.
#[derive(Clone, Debug)]
pub struct Sections {
    /// The bounds within which it goes.
    pub bounds: SectionBounds,
    pub(super) key: SectionKey,
    definition: SequenceDefinition,
    masters: Masters,
    healed: Arc<Memo<bool>>,
}

impl Sections {
    /// The model within these bounds.
    ///
    /// # Errors
    /// Bounds that no section could have.
    pub fn new(bounds: SectionBounds) -> anyhow::Result<Self> {
        let mut names = ["seq", "seq-2"].into_iter().filter_map(|name| name.parse().ok());
        let name: Option<GeneratorName> = names.find(|name| home(name) == bounds.home);
        let name = name.ok_or_else(|| anyhow::anyhow!("no home"))?;
        let said = SequenceSpec { step: Some(1), solo_allowance: Some(ALLOWANCE), ..SequenceSpec::default() };
        let namespace = Namespace::define(name.clone(), &Definition::Sequence(said))?;
        let definition = namespace.sequences().cloned().ok_or_else(|| anyhow::anyhow!("no sequence"))?;
        let (key, value) = (SettingKey::Namespace(name.clone()), SettingValue::Namespace(Box::new(namespace)));
        let setting = Setting { key, version: 1, value, actor: Actor::new("operator", ""), at: WallMs(0) };
        let masters = Masters::new(bounds.befalls.clone(), &setting)?;
        let (key, healed) = (SectionKey { name, section: Section(1) }, Arc::new(Memo::new()));
        Ok(Self { bounds, key, definition, masters, healed })
    }

    pub(super) fn leaves_unsaid(&self) -> bool {
        self.masters.has(Twin::LeavesUnsaid)
    }

    /// Tells whether the second agent can be served, however the first one stands to the section. Nothing of it depends on more than the disks.
    fn heals(&self, world: &SectionWorld) -> bool {
        let [unable, able] = &*world.agents else { return false };
        let disks: Vec<&Disk> = world.pair.living().map(|(_, node)| &node.disk).collect();
        let of = hash_of(&(&disks, unable.session, able.session));
        self.healed.of(of, || heal::is_served(self, &disks, unable, able)).is_some_and(|healed| *healed)
    }

    fn rules(&self) -> Rules<'_> {
        Rules {
            name: &self.key.name,
            section: self.key.section,
            definition: &self.definition,
            any_clock: self.bounds.any_clock,
            notes: self.bounds.again > 0,
            shows: self.bounds.befalls.revert.is_some() && !self.masters.has(Twin::ReceiptsIgnored),
            twins: &self.bounds.befalls.twins,
        }
    }

    fn keep(&self, world: &mut SectionWorld, agent: usize, at: usize) -> Option<()> {
        let asks = world.agents.get(agent)?.clone();
        let event = || Some((Vec::new(), Event::Keep { id: RequestId(0), request: asks.keep()? }));
        let outcome = self.masters.step(&mut world.pair, at, &("keep", asks.session), event)?;
        let Some(Reply::Keep(reply)) = outcome.replies.first() else { return None };
        world.agents.get_mut(agent)?.kept(&self.rules(), reply);
        Some(())
    }

    fn raise(&self, world: &mut SectionWorld, agent: usize, at: usize) -> Option<()> {
        let asks = world.agents.get(agent)?.clone();
        let event = || Some((Vec::new(), Event::Raise { id: RequestId(0), request: asks.raise(&self.rules())? }));
        let of = ("raise", asks.session, asks.wants?, asks.shown(&self.rules()));
        let outcome = self.masters.step(&mut world.pair, at, &of, event)?;
        let Some(Reply::Raise(reply)) = outcome.replies.first() else { return None };
        world.agents.get_mut(agent)?.was_raised(&self.rules(), reply)
    }

    fn give(&self, world: &mut SectionWorld, agent: usize) -> Option<()> {
        let Some(number) = world.agents.get_mut(agent)?.give(&self.rules()) else { return Some(()) };
        let bit = 1_u64.checked_shl(u32::try_from(number).ok()?)?;
        if number > world.durable {
            world.wrong = Some(BOUNDED);
        } else if self.bounds.ordered && bit <= world.given {
            world.wrong = Some(if bit == world.given { UNIQUE } else { ORDERED });
        } else if world.given & bit != 0 {
            world.wrong = Some(UNIQUE);
        }
        world.given = if self.bounds.ordered { bit.max(world.given) } else { bit | world.given };
        Some(())
    }

    /// The section is given to one of the agents, all of which were heard a moment ago.
    fn give_section(&self, world: &mut SectionWorld, at: usize, to: usize) -> Option<()> {
        let id = RequestId(0);
        let sessions: Vec<u8> = world.agents.iter().map(|agent| agent.session).collect();
        let agents = &world.agents;
        let event = || {
            let heard = agents.iter().filter_map(Agent::keep).map(|request| Event::Keep { id, request });
            let (key, to, actor) = (self.key.clone(), agents.get(to)?.keep()?.agent_id, Actor::new("operator", ""));
            Some((heard.collect(), Event::Section { id, key, order: SectionOrder::Move(to), actor }))
        };
        self.masters.step(&mut world.pair, at, &("move", to, sessions), event).map(drop)
    }

    /// Within the bounds.
    fn within(&self, pair: &Pair) -> bool {
        let to_be_forgotten = self.bounds.befalls.revert.filter(|_| !pair.reverted);
        let numbers = to_be_forgotten.unwrap_or(self.bounds.numbers);
        pair.nodes.iter().all(|node| {
            let records = node.known().sections.values().map(|(record, _)| record);
            let mut all = records.chain(node.known().section_preps.values());
            all.all(|it| it.g.0 <= self.bounds.owners && it.max_seq <= numbers)
        })
    }
}

impl Model for Sections {
    type State = SectionWorld;
    type Action = Turn;

    fn init_states(&self) -> Vec<SectionWorld> {
        let agents = (1..).zip([SLOW, FAST]).map(|(session, rate)| Agent::new(session, rate));
        let agents = agents.collect();
        vec![SectionWorld { pair: self.masters.begin(), agents, given: 0, durable: 0, again: 0, fresh: 0, wrong: None }]
    }

    fn actions(&self, world: &SectionWorld, turns: &mut Vec<Turn>) {
        for (agent, it) in world.agents.iter().enumerate() {
            for (at, _) in world.pair.living() {
                turns.push(Turn::Keep { agent, at });
                turns.extend(it.wants.map(|_| Turn::Raise { agent, at }));
            }
            turns.extend([Turn::Hear { agent }, Turn::Give { agent }]);
            turns.push(Turn::HearRaised { agent, lost: false });
            turns.extend(self.bounds.lost_raises.then_some(Turn::HearRaised { agent, lost: true }));
            if world.again < self.bounds.again {
                turns.push(Turn::Start { agent, fresh: false });
            }
            if world.fresh < self.bounds.fresh {
                turns.push(Turn::Start { agent, fresh: true });
            }
        }
        let homes = world.pair.living().filter(|(_, node)| node.disk.id() == self.bounds.home);
        for (at, _) in homes.filter(|_| self.bounds.given_again || !world.pair.reverted) {
            // The first owner is the one with the slow clock: then the next one has the least time to wait.
            let first =
                world.pair.nodes.iter().all(|node| node.disk.sections.is_empty() && node.disk.section_preps.is_empty());
            let to = if first { 0..1 } else { 0..world.agents.len() };
            turns.extend(to.map(|to| Turn::Move { at, to }));
        }
        if !self.bounds.any_clock {
            turns.push(Turn::Pass);
        }
        let mut deeds = Vec::new();
        let known = world.pair.living().filter_map(|(_, node)| Some(node.disk.sections.get(&self.key)?.0.g.0)).max();
        let unshown = world.agents.iter().any(|agent| agent.is_unshown(known.unwrap_or_default()));
        self.masters.deeds(&world.pair, unshown, &mut deeds);
        turns.extend(deeds.into_iter().map(Turn::Befalls));
    }

    fn next_state(&self, before: &SectionWorld, turn: Turn) -> Option<SectionWorld> {
        let mut after = before.clone();
        let rules = self.rules();
        match turn {
            Turn::Keep { agent, at } => self.keep(&mut after, agent, at)?,
            Turn::Hear { agent } => after.agents.get_mut(agent)?.hear(&rules)?,
            Turn::Give { agent } => self.give(&mut after, agent)?,
            Turn::Raise { agent, at } => self.raise(&mut after, agent, at)?,
            Turn::HearRaised { agent, lost } => after.agents.get_mut(agent)?.hear_raised(&rules, lost)?,
            Turn::Move { at, to } => self.give_section(&mut after, at, to)?,
            Turn::Pass => after.agents.iter_mut().for_each(|agent| agent.pass(&rules)),
            Turn::Start { agent, fresh } => {
                if fresh {
                    after.fresh += 1
                } else {
                    after.again += 1
                }
                let it = after.agents.get_mut(agent)?;
                // No session has had this number.
                *it = it.started(&rules, if fresh { 2 + before.fresh + 1 } else { it.session });
            }
            Turn::Befalls(deed) => after.pair = self.masters.befall(after.pair, deed)?,
        }
        let durable =
            after.pair.nodes.iter().flat_map(|node| node.disk.sections.values().map(|(it, _)| it.max_seq)).max();
        after.durable = after.durable.max(durable.unwrap_or_default());
        let spans = after.agents.iter().all(|agent| agent.again() <= self.bounds.spans);
        (spans && self.within(&after.pair) && self.masters.tidy(&mut after.pair) && after != *before).then_some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::always(UNIQUE, |_, world: &SectionWorld| world.wrong != Some(UNIQUE)),
            Property::always(ORDERED, |_, world: &SectionWorld| world.wrong != Some(ORDERED)),
            Property::always(BOUNDED, |_, world: &SectionWorld| world.wrong != Some(BOUNDED)),
        ];
        if self.bounds.heals {
            all.push(Property::always(SERVED, |model: &Self, world| model.heals(world)));
        }
        if self.bounds.befalls.twins.is_empty() {
            all.push(Property::always(WELL, |_, world: &SectionWorld| world.pair.broken.is_none()));
            all.push(Property::sometimes(MOVED, |_, world: &SectionWorld| {
                let highest = u64::from(63 - world.given.leading_zeros().min(63));
                highest > 0 && world.agents.iter().any(|agent| agent.gave_after_another(highest))
            }));
            all.push(Property::sometimes(RAISED, |model: &Self, world: &SectionWorld| {
                let max = |node: &Node| node.disk.sections.values().map(|(it, _)| it.max_seq).max();
                let highest = |of_home: bool| {
                    let its = world.pair.living().filter(|(_, node)| (node.disk.id() == model.bounds.home) == of_home);
                    its.filter_map(|(_, node)| max(node)).max()
                };
                highest(false) > highest(true) && highest(true).is_some()
            }));
        }
        all
    }
}
