//! Plain numbers that the masters hand out in ranges: what a name of them says, and what both masters hold of it.
//!
//! The numbers of a name lie on an *axis*. A part of it is granted to one run of one master, by both masters: an *extent*. Out of an
//! extent of its own run that master alone grants *segments* to agents. Each level is durable before the next one uses it, and no clock
//! has a say: a number is given only by who holds the range that it lies in, and ranges of different holders never overlap.

use crate::encoding::EncodingSource;
use crate::parameters::MasterId;
use crate::plugin::PluginSpec;
use crate::scope::Scope;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The largest number that is ever given: what a signed integer of 64 bits holds.
pub const NUMBER_MAX: u64 = i64::MAX as u64;
/// Numbers of a segment when nothing else is said.
pub const STEP_DEFAULT: u32 = 1_000;
/// The largest step that may be said.
pub const STEP_LIMIT: u32 = 1_000_000_000;
/// The part of a segment that is used before the next one is asked for when nothing else is said, in hundredths.
pub const THRESHOLD_DEFAULT: u8 = 20;
/// The largest such part that may be said, in hundredths.
pub const THRESHOLD_LIMIT: u8 = 90;
/// Divisor of an axis: one session is granted this part of it by one master within an hour at most. Two masters together let a network,
/// which gets twice as much, use an axis up in a day at the soonest.
const SESSION_PART: u64 = 96;
/// Steps that are granted to a session within an hour at least, however short the axis is.
const SESSION_STEPS_MIN: u64 = 1_024;
/// Sessions' worth of places that a network gets.
const NETWORK_SESSIONS: u64 = 2;
/// Masters that grant places, each of which counts for itself.
const MASTERS: u64 = 2;
/// Hours of a day: an axis that may be used up in less is pointed out.
const DAY_HOURS: u64 = 24;
/// Steps grow up to so many times what was said, and shrink to a tenth, when nothing else is said.
const STEP_GROWTH: u32 = 1_000;
const STEP_SHRINKAGE: u32 = 10;

/// Places on an axis, from the first to before the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// The first place.
    pub from: u64,
    /// The place after the last one.
    pub to: u64,
}

impl Span {
    /// Counts its places; 0 if it is no span.
    pub const fn len(self) -> u64 {
        self.to.saturating_sub(self.from)
    }

    /// Tells whether it has none.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Up to `n` of them from the beginning, which are no part of it any more.
    #[must_use]
    pub fn take(&mut self, n: u64) -> Self {
        let from = self.from;
        self.from = from.saturating_add(n.min(self.len()));
        Self { from, to: self.from }
    }
}

/// The part of an axis that a session was granted, with the word of the master that granted the last places.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Shown {
    /// The place after the last one; 0: none.
    pub to: u64,
    /// The proof, which only the two masters can make or read; without one a master does not believe it.
    pub proof: Option<[u8; 32]>,
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let proved = if self.proof.is_some() { "" } else { " without a proof" };
        write!(f, "Shown({}{proved})", self.to)
    }
}

/// A definition of segments as a person writes it; what is left out is as usual.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct SegmentSpec {
    /// The first place on the axis; 1 if nothing is said.
    #[serde(with = "crate::json::whole", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub first: Option<u64>,
    /// The last place; as far as numbers of 63 bits go if nothing is said, or as the length of the encoding does.
    #[serde(with = "crate::json::whole", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub last: Option<u64>,
    /// Numbers of a segment to begin with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// The fewest numbers that a segment has; a tenth of `step` if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_min: Option<u32>,
    /// The most; 1,000 times `step` if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_max: Option<u32>,
    /// Share of a segment in hundredths, 1 to 90, that is used before the next one is asked for; 20 if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<u8>,
    /// Distance between the numbers of two places beside each other: the number given is `offset + increment x place`; 1 if
    /// nothing is said.
    #[serde(with = "crate::json::whole", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub increment: Option<u64>,
    /// The number of place 0; 0 if nothing is said. Two clusters with an increment of 2 and offsets of 0 and 1 never give the same number.
    #[serde(with = "crate::json::whole", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub offset: Option<u64>,
    /// Form in which its numbers are written if not as digits: `hex`, `base32`, `base32hex`, `base62`, `sqids`, `ff1`, or one of them or
    /// `decimal` with parameters, such as `{"form":"decimal","length":8,"prefix":"ORD-"}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub encoding: Option<EncodingSource>,
    /// Among which IDs its own are unique: `own`, and nothing else can be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub scope: Option<Scope>,
    /// Plugins around minting by this name: at most 8 objects with `plugin`, perhaps `order`, and what the plugin takes, such
    /// as `{"plugin":"quota","per_second":100}`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<serde_json::Value>))]
    pub plugins: Vec<PluginSpec>,
}

/// A definition of a name whose numbers are handed out in segments. Built only by checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SegmentDefinition {
    axis: Span,
    step: u32,
    step_min: u32,
    step_max: u32,
    threshold: u8,
    increment: u64,
    offset: u64,
}

/// The reason why there is no such definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSegment {
    /// Numbers that are all the same.
    #[error("an increment of 0 gives one number again and again: 1 or more")]
    Increment,
    /// A number below 1.
    #[error("first {first}, with an offset of {offset}, gives the number 0: numbers begin at 1")]
    Zero {
        /// The first place.
        first: u64,
        /// The number of place 0.
        offset: u64,
    },
    /// Nothing on the axis.
    #[error("first {first} lies above last {last}: there would be no number")]
    Empty {
        /// The first place.
        first: u64,
        /// The last one.
        last: u64,
    },
    /// Nothing on the axis that the texts have room for.
    #[error(
        "first {first} lies above {last}, the last place whose number the encoding's length holds: say a greater length"
    )]
    Short {
        /// The first place.
        first: u64,
        /// The last one with such a text.
        last: u64,
    },
    /// Numbers that do not fit.
    #[error("last {last} gives a number above {NUMBER_MAX}, what a signed integer of 64 bits holds: at most {most}")]
    TooLarge {
        /// The last place.
        last: u64,
        /// The most that fits.
        most: u64,
    },
    /// A step that cannot be had.
    #[error("{what} {step}: 1 to {STEP_LIMIT}")]
    Step {
        /// The name of the step.
        what: &'static str,
        /// Its value.
        step: u32,
    },
    /// Steps that are not in order.
    #[error("step_min {min}, step {step} and step_max {max} have to be in this order")]
    Steps {
        /// The smallest step.
        min: u32,
        /// The first step.
        step: u32,
        /// The largest step.
        max: u32,
    },
    /// A threshold that cannot be had.
    #[error("threshold {0}: 1 to {THRESHOLD_LIMIT}, in hundredths")]
    Threshold(u8),
}

impl SegmentDefinition {
    /// The definition that was given, completed with what is left out.
    ///
    /// # Errors
    /// [`InvalidSegment`], with the reason.
    pub fn new(said: &SegmentSpec) -> Result<Self, InvalidSegment> {
        let (increment, offset) = (said.increment.unwrap_or(1), said.offset.unwrap_or(0));
        let largest = said.encoding.as_ref().and_then(EncodingSource::largest);
        let largest =
            largest.map_or(NUMBER_MAX, |largest| u64::try_from(largest).unwrap_or(NUMBER_MAX).min(NUMBER_MAX));
        let most = NUMBER_MAX.saturating_sub(offset).checked_div(increment).ok_or(InvalidSegment::Increment)?;
        let fitting = largest.saturating_sub(offset).checked_div(increment).unwrap_or(most);
        let (first, last) = (said.first.unwrap_or(1), said.last.unwrap_or(fitting));
        if first == 0 && offset == 0 {
            return Err(InvalidSegment::Zero { first, offset });
        }
        if last > most || offset > NUMBER_MAX {
            return Err(InvalidSegment::TooLarge { last, most });
        }
        if first > last {
            return Err(match said.last.is_none() && fitting < most {
                true => InvalidSegment::Short { first, last },
                false => InvalidSegment::Empty { first, last },
            });
        }
        let step = said.step.unwrap_or(STEP_DEFAULT);
        let step_min = said.step_min.unwrap_or((step / STEP_SHRINKAGE).max(1));
        let step_max = said.step_max.unwrap_or(step.saturating_mul(STEP_GROWTH).min(STEP_LIMIT));
        for (what, step) in [("step", step), ("step_min", step_min), ("step_max", step_max)] {
            if !(1..=STEP_LIMIT).contains(&step) {
                return Err(InvalidSegment::Step { what, step });
            }
        }
        if !(step_min <= step && step <= step_max) {
            return Err(InvalidSegment::Steps { min: step_min, step, max: step_max });
        }
        let threshold = said.threshold.unwrap_or(THRESHOLD_DEFAULT);
        if !(1..=THRESHOLD_LIMIT).contains(&threshold) {
            return Err(InvalidSegment::Threshold(threshold));
        }
        let axis = Span { from: first, to: last.saturating_add(1) };
        Ok(Self { axis, step, step_min, step_max, threshold, increment, offset })
    }

    /// The definition as a person says it, with nothing left out but encoding, scope and plugins.
    pub fn spec(&self) -> SegmentSpec {
        SegmentSpec {
            first: Some(self.axis.from),
            last: Some(self.axis.to.saturating_sub(1)),
            step: Some(self.step),
            step_min: Some(self.step_min),
            step_max: Some(self.step_max),
            threshold: Some(self.threshold),
            increment: Some(self.increment),
            offset: Some(self.offset),
            ..SegmentSpec::default()
        }
    }

    /// Tells whether both give the same numbers: steps and threshold say how they are fetched, not which ones come.
    pub fn same_ids(&self, other: &Self) -> bool {
        (self.axis, self.increment, self.offset) == (other.axis, other.increment, other.offset)
    }

    /// The places that there are.
    pub const fn axis(&self) -> Span {
        self.axis
    }

    /// Numbers of a segment to begin with.
    pub const fn step(&self) -> u32 {
        self.step
    }

    /// The fewest and the most that a segment has.
    pub const fn steps(&self) -> (u32, u32) {
        (self.step_min, self.step_max)
    }

    /// Places that one master grants to a session within an hour at most.
    pub fn session_quota(&self) -> u64 {
        (self.axis.len() / SESSION_PART).max(SESSION_STEPS_MIN.saturating_mul(self.step.into()))
    }

    /// Places that one master grants to a network within an hour at most.
    pub fn network_quota(&self) -> u64 {
        self.session_quota().saturating_mul(NETWORK_SESSIONS)
    }

    /// Counts the hours in which one network can use up all of it, if that is less than a day.
    pub fn hours_at_least(&self) -> Option<u64> {
        let hours = self.axis.len() / self.network_quota().saturating_mul(MASTERS).max(1);
        (hours < DAY_HOURS).then_some(hours)
    }

    /// The part of a segment that is used before the next one is asked for, in hundredths.
    pub const fn threshold(&self) -> u8 {
        self.threshold
    }

    /// The distance between the numbers of two places beside each other.
    pub const fn increment(&self) -> u64 {
        self.increment
    }

    /// The number of a place on the axis.
    #[inline]
    pub const fn number(&self, place: u64) -> u64 {
        // A definition has no place whose number does not fit.
        self.offset.wrapping_add(self.increment.wrapping_mul(place))
    }

    /// The number of the last place.
    pub const fn last_number(&self) -> u64 {
        self.number(self.axis.to.saturating_sub(1))
    }

    /// Tells whether a place on the axis has that number.
    pub fn has(&self, number: u64) -> bool {
        let place = number.checked_sub(self.offset).filter(|from| from.is_multiple_of(self.increment));
        place.is_some_and(|from| (self.axis.from..self.axis.to).contains(&(from / self.increment)))
    }
}

/// A start of a master from which on it remembers what it granted: random, so that a disk that was put back inherits nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MasterRun(pub u128);

/// A part of an axis that one run of one master may grant segments of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Extent {
    /// The master that it belongs to.
    pub master: MasterId,
    /// The run of that master.
    pub run: MasterRun,
    /// The places.
    pub span: Span,
}

/// The state of an axis that both masters hold: a setting, so each change of it is a later version. Both numbers only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Axis {
    /// An operator wants no place below to be granted or used any more; the first place of the axis if none ever did.
    pub floor: u64,
    /// Every place below belongs to somebody, or to nobody for ever.
    pub granted: u64,
    /// An operator said that no agent was granted the places between `granted` and this one, whatever agents show.
    pub dismissed: u64,
    /// The last extent; `None` if none was granted, or the last change was an operator's.
    pub last: Option<Extent>,
}

impl Axis {
    /// The state of a new name's axis.
    pub const fn new(definition: &SegmentDefinition) -> Self {
        Self { floor: definition.axis.from, granted: definition.axis.from, dismissed: 0, last: None }
    }

    /// The axis after a run gets up to `wanted` places; `None` at the end of the axis.
    pub fn extended(
        &self,
        definition: &SegmentDefinition,
        master: MasterId,
        run: MasterRun,
        wanted: u64,
    ) -> Option<Self> {
        let mut left = Span { from: self.granted, to: definition.axis.to };
        let span = left.take(wanted);
        let last = Some(Extent { master, run, span });
        (!span.is_empty()).then_some(Self { granted: left.from, last, ..*self })
    }

    /// The axis after everything below `to` belongs to nobody; `None` if something from there on is granted already, or the axis has
    /// ended before: it is never lowered.
    pub fn raised(&self, definition: &SegmentDefinition, to: u64) -> Option<Self> {
        let rises = to > self.floor && (self.granted..definition.axis.to).contains(&to);
        rises.then_some(Self { floor: to, granted: to, last: None, ..*self })
    }

    /// The axis after an operator says that no agent was granted the places before `below`, whatever agents show; `None` if they are
    /// granted, or lie beyond its end.
    pub fn dismissing(&self, definition: &SegmentDefinition, below: u64) -> Option<Self> {
        let news = below > self.dismissed && below > self.granted && below <= definition.axis.to;
        news.then_some(Self { dismissed: below, last: None, ..*self })
    }

    /// Tells whether this can come after `known`, whatever lies between the two: what is granted never shrinks, and its
    /// extent was nobody's before. A state that cannot is never confirmed or merged.
    pub fn may_follow(&self, known: &Self, definition: &SegmentDefinition) -> bool {
        let fresh = |extent: &Extent| {
            extent.span.from >= known.granted && !extent.span.is_empty() && extent.span.to == self.granted
        };
        let grows = (self.floor, self.granted, self.dismissed) != (known.floor, known.granted, known.dismissed);
        grows
            && (known.dismissed..=definition.axis.to).contains(&self.dismissed)
            && self.floor >= known.floor
            && self.granted >= known.granted
            && self.floor <= self.granted
            && self.granted <= definition.axis.to
            && self.last.as_ref().is_none_or(fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn define(json: &str) -> Result<SegmentDefinition, InvalidSegment> {
        SegmentDefinition::new(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn what_is_left_out_is_as_usual() {
        let usual = define("{}").unwrap();
        assert_eq!((usual.axis(), usual.number(1)), (Span { from: 1, to: NUMBER_MAX + 1 }, 1));
        assert_eq!((usual.step(), usual.steps(), usual.threshold()), (1_000, (100, 1_000_000), 20));
        assert_eq!(usual.number(usual.axis().to - 1), NUMBER_MAX);
        let small = define(r#"{"first":5,"last":5,"step":3}"#).unwrap();
        assert_eq!((small.axis().len(), small.steps()), (1, (1, 3_000)));
    }

    #[test]
    fn two_clusters_share_the_numbers_by_increment_and_offset() {
        let [even, odd] = [0, 1].map(|offset| define(&format!(r#"{{"increment":2,"offset":{offset}}}"#)).unwrap());
        let numbers = |of: SegmentDefinition| (1..1_000).map(move |place| of.number(place));
        assert!(numbers(even).all(|number| number % 2 == 0) && numbers(odd).all(|number| number % 2 == 1));
        for of in [even, odd] {
            let last = of.number(of.axis().to - 1);
            assert!(last <= NUMBER_MAX && NUMBER_MAX - last < 2, "{last}");
        }
        let from_zero = define(r#"{"first":0,"increment":1000,"offset":7}"#).unwrap();
        assert_eq!((from_zero.number(0), from_zero.number(3)), (7, 3_007));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_reason() {
        for (json, why) in [
            (r#"{"increment":0}"#, "again and again"),
            (r#"{"first":0}"#, "begin at 1"),
            (r#"{"first":10,"last":9}"#, "lies above last 9"),
            (r#"{"last":9223372036854775808}"#, "at most 9223372036854775807"),
            (r#"{"increment":4,"offset":3,"last":2305843009213693952}"#, "at most 2305843009213693951"),
            (r#"{"offset":9223372036854775808,"last":0,"first":0}"#, "above 9223372036854775807"),
            (r#"{"step":0}"#, "step 0: 1 to"),
            (r#"{"step_max":1000000001}"#, "step_max 1000000001"),
            (r#"{"step":10,"step_min":11}"#, "have to be in this order"),
            (r#"{"step":10,"step_max":9}"#, "have to be in this order"),
            (r#"{"threshold":0}"#, "1 to 90"),
            (r#"{"threshold":91}"#, "1 to 90"),
        ] {
            let refusal = define(json).unwrap_err().to_string();
            assert!(refusal.contains(why), "{json}: {refusal}");
        }
        assert!(serde_json::from_str::<SegmentSpec>(r#"{"steps":1}"#).is_err());
    }

    const ONE: (MasterId, MasterRun) = (MasterId::One, MasterRun(7));

    #[test]
    fn an_axis_is_granted_to_its_end_and_never_lowered() {
        let definition = define(r#"{"first":10,"last":19}"#).unwrap();
        let new = Axis::new(&definition);
        let one = new.extended(&definition, ONE.0, ONE.1, 6).unwrap();
        assert_eq!((one.floor, one.granted, one.last.unwrap().span), (10, 16, Span { from: 10, to: 16 }));
        let two = one.extended(&definition, ONE.0, ONE.1, 100).unwrap();
        assert_eq!(two.last.unwrap().span, Span { from: 16, to: 20 });
        assert_eq!(two.extended(&definition, ONE.0, ONE.1, 1), None);
        assert_eq!([3, 10, 15, 20].map(|to| one.raised(&definition, to)), [None; 4]);
        let raised = one.raised(&definition, 18).unwrap();
        assert_eq!((raised.floor, raised.granted, raised.last), (18, 18, None));
        let here = one.raised(&definition, 16).unwrap();
        assert_eq!((here.floor, here.granted), (16, 16), "what was granted below is used no more");
        assert!(raised.may_follow(&one, &definition) && two.may_follow(&new, &definition));
        assert!(here.may_follow(&one, &definition) && !one.may_follow(&here, &definition));
        assert!(!two.may_follow(&raised, &definition), "both come after one");
        assert!(!one.may_follow(&one, &definition) && !one.may_follow(&two, &definition));
        let beyond = Axis { granted: 21, ..two };
        assert!(!beyond.may_follow(&one, &definition));
        assert!(!Axis { floor: 19, ..one }.may_follow(&new, &definition), "a floor above what is granted");
    }

    proptest! {
        /// Whatever is extended and raised, in whichever order, and whichever versions a master misses: extents that it takes over
        /// never overlap those that it knew.
        #[test]
        fn extents_never_overlap(deeds in proptest::collection::vec((any::<bool>(), 1u64..50, any::<bool>()), 1..60)) {
            let definition = define(r#"{"last":1000}"#).unwrap();
            let (mut home, mut other) = (Axis::new(&definition), Axis::new(&definition));
            let mut given: Vec<Span> = Vec::new();
            for (raises, n, heard) in deeds {
                let next = match raises {
                    true => home.raised(&definition, home.granted + n),
                    false => home.extended(&definition, ONE.0, ONE.1, n),
                };
                let Some(next) = next else { continue };
                prop_assert!(next.may_follow(&home, &definition) && next.may_follow(&other, &definition));
                prop_assert!(!home.may_follow(&next, &definition));
                home = next;
                if let Some(extent) = next.last {
                    prop_assert!(given.iter().all(|known| known.to <= extent.span.from));
                    given.push(extent.span);
                }
                if heard {
                    other = next;
                }
            }
        }

        #[test]
        fn a_span_is_used_up_from_its_beginning(from in 0u64..100, len in 0u64..100, parts in proptest::collection::vec(0u64..30, 0..20)) {
            let whole = Span { from, to: from + len };
            let mut left = whole;
            let taken: Vec<Span> = parts.iter().map(|n| left.take(*n)).collect();
            let mut at = from;
            for (part, n) in taken.iter().zip(&parts) {
                prop_assert_eq!((part.from, part.len() <= *n), (at, true));
                at = part.to;
            }
            prop_assert_eq!(left, Span { from: at, to: whole.to });
        }
    }
}
