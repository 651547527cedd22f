//! Sequences: one strictly growing counter for every key of a name.
//!
//! A key belongs to a *section*, and in it to a *slot*. The keys of a section share one bound, `max_seq`, which masters make durable; who
//! serves a section gives each slot's next number below it ([`section`](Section)). There are [`SLOTS`] slots in a name.

mod held;
mod key;
mod route;
mod table;

pub use held::{SectionBound, SectionKey, SectionOrder, SectionOwner, SectionRange, SectionRecord};
pub use key::{InvalidKey, KEY_LEN_MAX, Slot};
pub use route::{Route, ServedAt};
pub use table::RouteTable;

use crate::encoding::EncodingSource;
use crate::namespace::{GeneratorName, NameError};
use crate::plugin::PluginSpec;
use crate::scope::Scope;
use serde::{Deserialize, Serialize};

/// Slots of a name: whole numbers below have one of their own, texts share them.
pub const SLOTS: u64 = 1 << 32;
/// Keys of a section when nothing else is said.
pub const KEYS_PER_SECTION_DEFAULT: u32 = 100_000;
/// Fewer keys of a section only operators may say: the fewer there are, the more sections the same keys take, of which all names have a bound
/// together.
pub const KEYS_PER_SECTION_LEAST: u32 = 1_000;
/// Numbers by which a section's bound grows at a time when nothing else is said.
pub const STEP_DEFAULT: u32 = 10_000;
/// The largest step that may be said.
pub const STEP_LIMIT: u32 = 1_000_000_000;
/// The set of a name of which nothing else is said.
pub const SET_DEFAULT: &str = "default";
/// The memory that a section takes at an agent beside its keys, in bytes; with its place in a map of sections.
pub const SECTION_LEN: usize = 256;

/// The width of the numbers of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Width {
    /// 1 to 2^32 - 1.
    W32,
    /// 1 to 2^63 - 1: what a signed integer of 64 bits holds.
    #[default]
    W63,
}

impl Width {
    /// In bits.
    pub const fn bits(self) -> u8 {
        match self {
            Self::W32 => 32,
            Self::W63 => 63,
        }
    }

    /// The last number.
    pub const fn last(self) -> u64 {
        (1 << self.bits()) - 1
    }

    /// Numbers by which the bound of a section grows within an hour at most, and so what a key is given: the 64th part, so that whoever takes
    /// them for nothing is noticed days before the keys of the section have ended. `None`: nobody can ask for as many as would end them.
    pub const fn per_hour(self) -> Option<u64> {
        match self {
            Self::W32 => Some(self.last() / 64),
            Self::W63 => None,
        }
    }

    /// The distance that one master may raise a section beyond what it knows of the other one, when nothing else is said.
    pub const fn allowance(self) -> u64 {
        match self {
            Self::W32 => 1 << 20,
            Self::W63 => 1 << 28,
        }
    }
}

/// A section of a name: so many slots beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Section(pub u32);

/// A definition of sequences as a person writes it; what is left out is as usual.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct SequenceSpec {
    /// Width of the numbers, 32 or 63 bits; 63 if nothing is said.
    #[serde(deserialize_with = "crate::json::whole::deserialize", skip_serializing_if = "Option::is_none")]
    pub width: Option<u8>,
    /// The first number of each key; 1 if nothing is said.
    #[serde(with = "crate::json::whole", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub first: Option<u64>,
    /// By how much a section's bound grows at a time: what a crash costs each of its keys at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// Number of keys that share one bound and one agent, 2 to 2^32 - 1; 100,000 if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys_per_section: Option<u32>,
    /// Distance that one master may raise a bound beyond what it knows of the other one; 2^28, or 2^20 of 32 bits, if nothing is said.
    #[serde(with = "crate::json::whole", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub solo_allowance: Option<u64>,
    /// The set of the agents that serve it, by which they are started; `default` if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// Form in which its texts are written if not as digits: `hex`, `base32`, `base32hex`, `base62`, or one of them or `decimal` with
    /// parameters, such as `{"form":"decimal","prefix":"INV-"}`.
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

/// A definition of a name with a sequence for each key. Built only by checks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SequenceDefinition {
    width: Width,
    first: u64,
    step: u32,
    keys_per_section: u32,
    solo_allowance: u64,
    set: GeneratorName,
}

/// The reason why there is no such definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSequence {
    /// A width that there is not.
    #[error("width {0}: 32 or 63, in bits")]
    Width(u8),
    /// A first number that is none of that width.
    #[error("first {first}: 1 to {last}")]
    First {
        /// The number that was said.
        first: u64,
        /// The last number of that width.
        last: u64,
    },
    /// A step that cannot be had.
    #[error("step {0}: 1 to {STEP_LIMIT}")]
    Step(u32),
    /// Too few keys.
    #[error("keys_per_section {0}: 2 to 4294967295")]
    Keys(u32),
    /// An allowance that cannot be had.
    #[error("solo_allowance {allowance}: {least} (two steps) to {most}, a sixteenth of all numbers")]
    Allowance {
        /// The number that was said.
        allowance: u64,
        /// The least that will do.
        least: u64,
        /// The most.
        most: u64,
    },
    /// No name of a set.
    #[error("the set: {0}")]
    Set(#[from] NameError),
}

/// Steps that a key's numbers have to have for sections to be loaded, and to be moved, together: each load takes one of all of them.
const STEPS_MIN: u64 = 1 << 16;
/// Steps that one master has to be able to grant alone for that.
const STEPS_ALONE_MIN: u64 = 64;

/// Tells whether a step of each section around one is next to nothing of its numbers, the last of which is `last`, and of the `allowance` that
/// one master may grant alone.
pub const fn is_step_cheap(step: u64, last: u64, allowance: u64) -> bool {
    step.saturating_mul(STEPS_MIN) <= last && step.saturating_mul(STEPS_ALONE_MIN) <= allowance
}

impl SequenceDefinition {
    /// Makes the definition of what was said, with all that is left out.
    ///
    /// # Errors
    /// [`InvalidSequence`], with the reason.
    pub fn new(said: &SequenceSpec) -> Result<Self, InvalidSequence> {
        let width = match said.width {
            None | Some(63) => Width::W63,
            Some(32) => Width::W32,
            Some(other) => return Err(InvalidSequence::Width(other)),
        };
        let (first, last) = (said.first.unwrap_or(1), width.last());
        if !(1..=last).contains(&first) {
            return Err(InvalidSequence::First { first, last });
        }
        let step = said.step.unwrap_or(STEP_DEFAULT);
        if !(1..=STEP_LIMIT).contains(&step) {
            return Err(InvalidSequence::Step(step));
        }
        let keys_per_section = said.keys_per_section.unwrap_or(KEYS_PER_SECTION_DEFAULT);
        if keys_per_section < 2 {
            return Err(InvalidSequence::Keys(keys_per_section));
        }
        let allowance = said.solo_allowance.unwrap_or_else(|| width.allowance());
        let (least, most) = (u64::from(step).saturating_mul(2), width.last() / 16);
        if !(least..=most).contains(&allowance) {
            return Err(InvalidSequence::Allowance { allowance, least, most });
        }
        let set = said.set.as_deref().unwrap_or(SET_DEFAULT).parse()?;
        Ok(Self { width, first, step, keys_per_section, solo_allowance: allowance, set })
    }

    /// The same as a person says it, with nothing left out but scope and plugins.
    pub fn spec(&self) -> SequenceSpec {
        SequenceSpec {
            width: Some(self.width.bits()),
            first: Some(self.first),
            step: Some(self.step),
            keys_per_section: Some(self.keys_per_section),
            solo_allowance: Some(self.solo_allowance),
            set: Some(self.set.as_str().to_owned()),
            ..SequenceSpec::default()
        }
    }

    /// The width of the numbers.
    pub const fn width(&self) -> Width {
        self.width
    }

    /// The first number of each key.
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// By how much a section's bound grows at a time.
    pub const fn step(&self) -> u32 {
        self.step
    }

    /// Keys of a section.
    pub const fn keys_per_section(&self) -> u32 {
        self.keys_per_section
    }

    /// The distance that one master may raise a section beyond what it knows of the other one.
    pub const fn solo_allowance(&self) -> u64 {
        self.solo_allowance
    }

    /// The agents that serve it.
    pub const fn set(&self) -> &GeneratorName {
        &self.set
    }

    /// The number of sections.
    pub const fn sections(&self) -> u32 {
        // At most 2^31: a section has two keys at least.
        SLOTS.div_ceil(self.keys_per_section as u64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn define(json: &str) -> Result<SequenceDefinition, InvalidSequence> {
        SequenceDefinition::new(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn what_is_left_out_is_as_usual() {
        let usual = define("{}").unwrap();
        assert_eq!((usual.width(), usual.step(), usual.sections()), (Width::W63, 10_000, 42_950));
        assert_eq!((usual.solo_allowance(), usual.set().as_str()), (1 << 28, "default"));
        assert_eq!(SequenceDefinition::new(&usual.spec()), Ok(usual));
        let narrow = define(r#"{"width":32}"#).unwrap();
        assert_eq!((narrow.width().last(), narrow.solo_allowance()), (u32::MAX.into(), 1 << 20));
        assert_eq!(Width::W63.last(), i64::MAX as u64);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_reason() {
        for (json, why) in [
            (r#"{"width":64}"#, "32 or 63"),
            (r#"{"first":0}"#, "first 0: 1 to 9223372036854775807"),
            (r#"{"first":"4294967296","width":32}"#, "first 4294967296: 1 to 4294967295"),
            (r#"{"step":0}"#, "step 0: 1 to"),
            (r#"{"keys_per_section":0}"#, "keys_per_section 0"),
            (r#"{"step":100,"solo_allowance":199}"#, "200 (two steps)"),
            (r#"{"width":32,"solo_allowance":268435456}"#, "to 268435455"),
            (r#"{"set":"A B"}"#, "the set: "),
        ] {
            let refusal = define(json).unwrap_err().to_string();
            assert!(refusal.contains(why), "{json}: {refusal}");
        }
        assert!(serde_json::from_str::<SequenceSpec>(r#"{"steps":1}"#).is_err());
    }
}
