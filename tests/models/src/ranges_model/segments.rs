//! Two masters and one axis of few numbers.

use super::disk::Disk;
use super::pair::{Befalls, Deed, Masters, Pair};
use common::audit::Actor;
use common::namespace::{Definition, GeneratorName, Namespace, SegmentSpec};
use common::parameters::SessionId;
use common::segment::{Shown, Span};
use common::setting::{Setting, SettingKey, SettingValue};
use common::time::WallMs;
use ledger::lease::{Event, Reply, RequestId};
use stateright::{Model, Property};
use std::fmt;
use wire::ranges::{SegmentGrant, SegmentRequest};

/// No place of the axis is granted twice.
pub const ONCE: &str = "I12: every place is granted once";
/// Places that different runs may still grant are disjoint, granted to nobody yet, and below what is granted of the axis.
pub const EXTENTS: &str = "I11: extents of different runs are disjoint, and below `granted`";
/// Each master's own invariants, and those of one step.
pub const SOUND: &str = "I13, and what must hold inside one master";
/// A place was granted by each of the first two masters.
const BOTH: &str = "both masters have granted";
/// All is granted.
const ALL: &str = "every place of the axis is granted";

/// The bounds of the model.
#[derive(Clone, Debug)]
pub struct AxisBounds {
    /// Places of the axis, 62 at most.
    pub places: u64,
    /// Places that each session wants at a time.
    pub wanted: &'static [u32],
    /// Events that befall the masters.
    pub befalls: Befalls,
}

/// Something that can happen.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Act {
    /// A session asks for a segment.
    Ask { at: usize, session: u8 },
    /// Something befalls the masters.
    Befalls(Deed),
}

impl fmt::Debug for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask { at, session } => write!(f, "{session} asks {at}"),
            Self::Befalls(deed) => write!(f, "{deed:?}"),
        }
    }
}

/// A state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AxisWorld {
    pair: Pair,
    /// Places that somebody was granted, whether he heard of it or not: a bit for each.
    granted: u64,
    /// The masters that have granted something: a bit for each.
    granters: u8,
    twice: bool,
}

impl AxisWorld {
    /// Leaves out the messages in flight.
    #[must_use]
    pub fn without_messages(mut self) -> Self {
        self.pair.forget_messages();
        self
    }
}

/// Two masters with an axis, and all that may befall them within the bounds.
#[derive(Clone, Debug)]
pub struct Axes {
    /// The bounds within which it goes.
    pub bounds: AxisBounds,
    name: GeneratorName,
    masters: Masters,
}

impl Axes {
    /// The model within these bounds.
    ///
    /// # Errors
    /// Bounds that no axis could have.
    pub fn new(bounds: AxisBounds) -> anyhow::Result<Self> {
        // At home with master 2.
        let name: GeneratorName = "orders".parse()?;
        let definition =
            Definition::Segment(SegmentSpec { last: Some(bounds.places), step: Some(1), ..SegmentSpec::default() });
        let value = SettingValue::Namespace(Box::new(Namespace::define(name.clone(), &definition)?));
        let key = SettingKey::Namespace(name.clone());
        let setting = Setting { key, version: 1, value, actor: Actor::new("operator", ""), at: WallMs(0) };
        let masters = Masters::new(bounds.befalls.clone(), &setting)?;
        Ok(Self { bounds, name, masters })
    }

    fn ask(&self, world: &mut AxisWorld, at: usize, session: u8) -> Option<()> {
        let wanted = *self.bounds.wanted.get(usize::from(session))?;
        let outcome = self.masters.step(&mut world.pair, at, &("segment", session), || {
            let agent_id = format!("a{session}").parse().ok()?;
            let (session, name) = (SessionId(session.into()), self.name.clone());
            let request = SegmentRequest { agent_id, session, cluster: None, name, wanted, seen: Shown::default() };
            Some((Vec::new(), Event::Segment { id: RequestId(0), request, address: String::new() }))
        })?;
        for reply in &outcome.replies {
            let Reply::Segment(Ok(SegmentGrant { span, .. })) = reply else { continue };
            world.twice |= world.granted & places(*span) != 0;
            world.granted |= places(*span);
            world.granters |= 1 << at;
        }
        Some(())
    }
}

/// The bits of these places.
fn places(span: Span) -> u64 {
    (span.from..span.to).fold(0, |bits, place| bits | 1 << place)
}

/// The end of what is granted of the axis, as somebody knows it.
fn granted(disk: &Disk) -> u64 {
    disk.axis().map_or(1, |axis| axis.granted)
}

/// Gives the reason why a step of one master must not lead from `before` to `after`, if there is one.
pub(super) fn goes_back(before: &Disk, after: &Disk) -> Option<String> {
    if granted(after) < granted(before) {
        return Some("I11: what is granted of the axis has shrunk".to_owned());
    }
    let all = |disk: &Disk| disk.spans().fold(0, |bits, span| bits | places(span));
    let more = all(after) & !all(before);
    // An extent that is confirmed with this step was granted to nobody before.
    let below = (1_u64 << granted(before)) - 1;
    (before.run == after.run && more & below != 0).then(|| "I13: a cursor went back".to_owned())
}

/// I11.
fn extents_are_disjoint(world: &AxisWorld) -> bool {
    let mut taken = world.granted;
    world.pair.nodes.iter().all(|node| {
        let granted = granted(node.known());
        node.known().spans().all(|span| {
            let free = taken & places(span) == 0 && span.to <= granted;
            taken |= places(span);
            free
        })
    })
}

impl Model for Axes {
    type State = AxisWorld;
    type Action = Act;

    fn init_states(&self) -> Vec<AxisWorld> {
        vec![AxisWorld { pair: self.masters.begin(), granted: 0, granters: 0, twice: false }]
    }

    fn actions(&self, world: &AxisWorld, actions: &mut Vec<Act>) {
        for (at, _) in world.pair.living() {
            actions.extend((0_u8..).zip(self.bounds.wanted).map(|(session, _)| Act::Ask { at, session }));
        }
        let mut deeds = Vec::new();
        self.masters.deeds(&world.pair, false, &mut deeds);
        actions.extend(deeds.into_iter().map(Act::Befalls));
    }

    fn next_state(&self, before: &AxisWorld, action: Act) -> Option<AxisWorld> {
        let mut after = before.clone();
        match action {
            Act::Ask { at, session } => self.ask(&mut after, at, session)?,
            Act::Befalls(deed) => after.pair = self.masters.befall(after.pair, deed)?,
        }
        (self.masters.tidy(&mut after.pair) && after != *before).then_some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![Property::always(ONCE, |_, world: &AxisWorld| !world.twice)];
        if self.bounds.befalls.twins.is_empty() {
            all.push(Property::always(EXTENTS, |_, world| extents_are_disjoint(world)));
            all.push(Property::always(SOUND, |_, world: &AxisWorld| world.pair.broken.is_none()));
            all.push(Property::sometimes(BOTH, |_, world: &AxisWorld| world.granters & 3 == 3));
            all.push(Property::sometimes(ALL, |model: &Self, world: &AxisWorld| {
                u64::from(world.granted.count_ones()) == model.bounds.places
            }));
        }
        all
    }
}
