//! Definitions as people write them, and why one is refused.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::{Namespace, Ranges, Scope};
use crate::encoding::{EncodingSource, InvalidEncoding, Secrets};
use crate::kind::Kind;
use crate::layout::{InvalidDefinition, LayoutDefinition, LayoutSource};
use crate::plugin::{PluginSpec, SpecError};
use crate::segment::{InvalidSegment, SegmentDefinition, SegmentSource};
use crate::sequence::{InvalidSequence, SequenceDefinition, SequenceSource};
use crate::strategy::Strategies;
use crate::template::TemplateError;
use crate::token::{TokenType, UnknownTokenType};
use serde::{Deserialize, Serialize};

/// A definition as a person writes it in JSON; what is left out is as in the namespace `default` of that kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// What it mints.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub kind: Kind,
    /// The name of the token type; `uint2` for `uniq64`, one of the `string` types for `string`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_type: Option<String>,
    /// The template, for `string`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Whether the serial starts at 0 each day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub everyday_reset: Option<bool>,
    /// How many serials are reserved at once at first; for `segment` how many numbers a segment has at first, for `sequence` by how much
    /// a section's bound grows at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// `kind` (the default): no other name of this kind gives equal IDs. `own`: others may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub scope: Option<Scope>,
    /// For `layout`: the name of a preset (`snowflake`, `leaf`, `uidgenerator`, `sonyflake`, `instagram`, `discord`, `js53`,
    /// `uuid7`, `ulid`, `typeid`, `objectid`, `xid`, `ksuid`); without it, `bits`, `epoch`, `unit_ms` and `fields`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// For `layout`: how wide the number is: 53, 63, 64, 96 or 128.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits: Option<u32>,
    /// For `layout`: the instant that the time counts from, RFC 3339. A preset has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<String>,
    /// For `layout`: the length of a tick in milliseconds, 1 to 10,000; it divides a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_ms: Option<u32>,
    /// For `layout`: the fields, the most significant first, e.g. `zero:1`, `time:41`, `token:10`, `serial:12`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<String>>,
    /// For `layout`: how far the time in an ID may lie ahead of the clock when a tick is used up, in milliseconds, 0 to 10,000;
    /// 0 waits for the clock. A second, or a tick if that is longer, when nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead_max_ms: Option<u32>,
    /// For `layout` whose lowest bits are the serial's: begins the serials of a tick at one of so many places, which changes from tick to
    /// tick, so that `id % spread` is even where a tick gives few IDs. 2 to half of the IDs of a tick, and no more than
    /// the lowest piece of the serial counts; without it they begin with 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<u32>,
    /// For `layout` and `uniq64`: how its numbers are written: `decimal`, `hex`, `base32`, `base32hex`, `base62`, `uuid`, `ksuid`, `sqids`, or one of them with
    /// parameters; or `{"form":"strategy","strategy":"NAME"}`, by a strategy that an application registers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub encoding: Option<EncodingSource>,
    /// What stands around minting by this name: at most 8 objects with `plugin`, perhaps `order`, and what the plugin takes, such
    /// as `{"plugin":"quota","per_second":100}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<serde_json::Value>>))]
    pub plugins: Option<Vec<PluginSpec>>,
    /// For `segment`: the first place on the axis; 1 if nothing is said.
    #[serde(default, with = "crate::json::whole", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub first: Option<u64>,
    /// For `segment`: the last place; as far as numbers of 63 bits go if nothing is said.
    #[serde(default, with = "crate::json::whole", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub last: Option<u64>,
    /// For `segment`: the fewest numbers that a segment has; a tenth of `step` if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_min: Option<u32>,
    /// For `segment`: the most; 1,000 times `step` if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_max: Option<u32>,
    /// For `segment`: how much of a segment is used before the next one is asked for, 1 to 90 hundredths; 20 if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<u8>,
    /// For `segment`: the number given is `offset + increment x place`; 1 if nothing is said.
    #[serde(default, with = "crate::json::whole", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub increment: Option<u64>,
    /// For `segment`: see `increment`; 0 if nothing is said.
    #[serde(default, with = "crate::json::whole", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub offset: Option<u64>,
    /// For `sequence`: how wide the numbers are, 32 or 63 bits; 63 if nothing is said.
    #[serde(default, deserialize_with = "crate::json::whole::deserialize", skip_serializing_if = "Option::is_none")]
    pub width: Option<u8>,
    /// For `sequence`: how many keys share one bound and one agent; 100,000 if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys_per_section: Option<u32>,
    /// For `sequence`: how far one master may raise a bound beyond what it knows of the other one; 2^28, or 2^20 of 32 bits, if nothing is said.
    #[serde(default, with = "crate::json::whole", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub solo_allowance: Option<u64>,
    /// For `sequence`: which agents serve it, those started with this set; `default` if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
}

impl Definition {
    /// A generator of that kind of which nothing else is said.
    pub const fn of(kind: Kind) -> Self {
        Self {
            kind,
            token_type: None,
            template: None,
            everyday_reset: None,
            step: None,
            scope: None,
            layout: None,
            bits: None,
            epoch: None,
            unit_ms: None,
            fields: None,
            ahead_max_ms: None,
            spread: None,
            encoding: None,
            plugins: None,
            first: None,
            last: None,
            step_min: None,
            step_max: None,
            threshold: None,
            increment: None,
            offset: None,
            width: None,
            keys_per_section: None,
            solo_allowance: None,
            set: None,
        }
    }

    /// A generator of kind `string` with this template; everything else as in `default`.
    pub fn string(template: impl Into<String>) -> Self {
        Self { kind: Kind::String, template: Some(template.into()), ..Self::default() }
    }

    /// A generator of kind `layout` with this preset; everything else as the preset has it.
    pub fn layout(preset: impl Into<String>) -> Self {
        Self { kind: Kind::Layout, layout: Some(preset.into()), ..Self::default() }
    }

    /// The same with the mark of the secret that its encoding needs, if it needs one and does not say which: of those in
    /// `secrets`, that by which the name is `known`, or the first. And with the layout that its strategy needs, if it says none.
    #[must_use]
    pub fn completed(self, secrets: &Secrets, strategies: &Strategies, known: Option<&Namespace>) -> Self {
        let known = known.and_then(Namespace::encoding).and_then(EncodingSource::secret);
        let encoding = self.encoding.map(|encoding| secrets.complete(encoding, known));
        let needed = encoding.as_ref().and_then(EncodingSource::by_strategy).and_then(|name| strategies.needs(name));
        let says_none = self.layout.is_none() && self.bits.is_none() && self.fields.is_none();
        let completed = Self { encoding, ..self };
        match needed.filter(|_| says_none) {
            Some(LayoutSource { layout, bits, epoch, unit_ms, fields }) => {
                let (epoch, unit_ms) = (completed.epoch.clone().or(epoch), completed.unit_ms.or(unit_ms));
                Self { layout, bits, epoch, unit_ms, fields, ..completed }
            }
            None => completed,
        }
    }

    /// What names of other kinds may say and this one may not, if it is said.
    pub(super) fn said_of_others(&self) -> Option<&'static str> {
        let layouts = [
            (self.layout.is_some(), "layout"),
            (self.bits.is_some(), "bits"),
            (self.epoch.is_some(), "epoch"),
            (self.unit_ms.is_some(), "unit_ms"),
            (self.fields.is_some(), "fields"),
            (self.ahead_max_ms.is_some(), "ahead_max_ms"),
            (self.spread.is_some(), "spread"),
        ];
        let segments = [
            (self.first.is_some(), "first"),
            (self.last.is_some(), "last"),
            (self.step_min.is_some(), "step_min"),
            (self.step_max.is_some(), "step_max"),
            (self.threshold.is_some(), "threshold"),
            (self.increment.is_some(), "increment"),
            (self.offset.is_some(), "offset"),
        ];
        let sequences = [
            (self.width.is_some(), "width"),
            (self.keys_per_section.is_some(), "keys_per_section"),
            (self.solo_allowance.is_some(), "solo_allowance"),
            (self.set.is_some(), "set"),
        ];
        let plain = [
            (self.everyday_reset == Some(true), "everyday_reset"),
            (self.token_type.is_some(), "token_type"),
            (self.encoding.is_some(), "encoding"),
        ];
        let (is_layout, is_segment, is_sequence) =
            (self.kind == Kind::Layout, self.kind == Kind::Segment, self.kind == Kind::Sequence);
        let not_of = |own: bool| move |_: &&(bool, &'static str)| !own;
        let others = (layouts.iter().filter(not_of(is_layout)))
            .chain(segments.iter().filter(not_of(is_segment)))
            .chain(sequences.iter().filter(not_of(is_sequence)))
            .chain(plain.iter().filter(not_of(!is_segment && !is_sequence)));
        others.into_iter().find_map(|(said, what)| said.then_some(*what))
    }

    /// What a definition of kind `segment` or `sequence` says.
    pub(super) fn ranges(&self) -> Result<Option<Ranges>, NamespaceError> {
        Ok(match self.kind {
            Kind::Segment => Some(Ranges::Segment(SegmentDefinition::new(&SegmentSource {
                first: self.first,
                last: self.last,
                step: self.step,
                step_min: self.step_min,
                step_max: self.step_max,
                threshold: self.threshold,
                increment: self.increment,
                offset: self.offset,
            })?)),
            Kind::Sequence => Some(Ranges::Sequence(SequenceDefinition::new(&SequenceSource {
                width: self.width,
                step: self.step,
                keys_per_section: self.keys_per_section,
                solo_allowance: self.solo_allowance,
                set: self.set.clone(),
            })?)),
            _ => None,
        })
    }

    /// The same with what a name of kind `segment` or `sequence` says, nothing left out.
    pub(super) fn with_ranges(self, ranges: &Ranges) -> Self {
        match ranges {
            Ranges::Segment(definition) => {
                let SegmentSource { first, last, step, step_min, step_max, threshold, increment, offset } =
                    definition.source();
                Self { first, last, step, step_min, step_max, threshold, increment, offset, ..self }
            }
            Ranges::Sequence(definition) => {
                let SequenceSource { width, step, keys_per_section, solo_allowance, set } = definition.source();
                Self { width, step, keys_per_section, solo_allowance, set, ..self }
            }
        }
    }

    /// What a definition of kind `layout` says.
    pub(super) fn layout_definition(&self) -> Result<LayoutDefinition, NamespaceError> {
        for (said, what) in [(self.everyday_reset == Some(true), "everyday_reset"), (self.step.is_some(), "step")] {
            if said {
                return Err(NamespaceError::Superfluous { kind: self.kind, what });
            }
        }
        let Self { layout, bits, epoch, unit_ms, fields, .. } = self.clone();
        let source = LayoutSource { layout, bits, epoch, unit_ms, fields };
        Ok(LayoutDefinition::new(&source, self.ahead_max_ms, self.encoding.as_ref())?.spread_over(self.spread)?)
    }
}

impl Default for Definition {
    /// A generator of kind `uniq64`, as `default` is: the one kind that needs nothing to be said. End what you write in code
    /// with `..Definition::default()`: there may be more to say one day.
    fn default() -> Self {
        Self::of(Kind::Uniq64)
    }
}

/// Why a definition is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamespaceError {
    /// The template is refused.
    #[error("the template cannot be taken: {0}")]
    Template(#[from] TemplateError),
    /// The layout, or what goes with it, is refused.
    #[error(transparent)]
    Layout(#[from] InvalidDefinition),
    /// What is said of segments is refused.
    #[error(transparent)]
    Segment(#[from] InvalidSegment),
    /// What is said of sequences is refused.
    #[error(transparent)]
    Sequence(#[from] InvalidSequence),
    /// The record of a name cannot be read.
    #[error("the record of a name cannot be read: {0}")]
    Record(String),
    /// The encoding is refused.
    #[error("the encoding cannot be taken: {0}")]
    Encoding(#[from] InvalidEncoding),
    /// The plugins are refused.
    #[error(transparent)]
    Plugins(#[from] SpecError),
    /// `default` has no plugins.
    #[error("the name 'default' has no plugins: give them to a name of its own")]
    PluginsOfDefault,
    /// Its kind does not take this part of a definition.
    #[error("a generator of kind {kind} takes no {what}: leave it out")]
    Superfluous {
        /// What it was to mint.
        kind: Kind,
        /// Which part.
        what: &'static str,
    },
    /// There are no names of that kind.
    #[error("there are no generators of kind {kind}, which has no names")]
    Nameless {
        /// What it was to mint.
        kind: Kind,
    },
    /// Its kind needs a template.
    #[error("a generator of kind {kind} needs a template, e.g. {example}")]
    TemplateMissing {
        /// What it was to mint.
        kind: Kind,
        /// One that will do.
        example: &'static str,
    },
    /// Its kind has none.
    #[error("a generator of kind {kind} takes no template: leave it out, or take kind string")]
    TemplateSuperfluous {
        /// What it was to mint.
        kind: Kind,
    },
    /// No such token type.
    #[error(transparent)]
    UnknownTokenType(#[from] UnknownTokenType),
    /// A token type that its kind cannot write.
    #[error("a generator of kind {kind} cannot use {token_type} tokens: it takes {wanted}")]
    TokenType {
        /// What it mints.
        kind: Kind,
        /// What it was to use.
        token_type: TokenType,
        /// What it can use.
        wanted: &'static str,
    },
    /// Each name of this kind has numbers of its own.
    #[error(
        "a {kind} has a name of its own, and its numbers are its own: take another name than 'default', and leave scope kind out"
    )]
    OwnNumbers {
        /// What it was to mint.
        kind: Kind,
    },
    /// A series that all names share does not restart for one of them.
    #[error(
        "all {kind} names of a token share one series of serials, which does not restart: leave everyday_reset out, or say \
         \"scope\":\"own\" if it is fine that other names give equal IDs"
    )]
    SharedReset {
        /// What it was to mint.
        kind: Kind,
    },
    /// A step by which agents would not go.
    #[error("a step of {step} does not fit: {min} to {max}, or leave it out")]
    Step {
        /// What was asked for.
        step: u32,
        /// The smallest that fits.
        min: u32,
        /// The largest that fits, as [`step_bounds`](super::Namespace::step_bounds) say.
        max: u32,
    },
}
