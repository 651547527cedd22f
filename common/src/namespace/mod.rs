//! Generators' names, and what they stand for.
//!
//! A name is a namespace. Its definition is registered once and never changes. By default the scope of uniqueness is the
//! whole kind: no two names of a kind ever give equal IDs. A name whose scope is its own may give what others give.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod definition;
mod name;
mod used_up;

pub use definition::{Definition, NamespaceError};
pub use name::{GeneratorName, NameError};
pub use used_up::SHARED_MIN;

use crate::calendar::UtcOffset;
use crate::encoding::{Encoding, EncodingForm, EncodingSource, InvalidEncoding, Secrets, WrittenAs};
use crate::kind::{Form, Kind, Spec};
use crate::layout::{InvalidDefinition, InvalidLayout, LayoutDefinition, LayoutSource};
use crate::parameters::ClusterId;
use crate::plugin::{self, PluginSpec};
use crate::segment::SegmentDefinition;
use crate::sequence::SequenceDefinition;
use crate::strategy::Strategies;
use crate::template::{Overlap, Template};
use crate::time::WallMs;
use crate::token::{TokenKey, TokenType, TokenValue};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Among which IDs a name's are unique.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Among those of all names of its kind: Uniq64 share one series of serials, and templates never write the same.
    #[default]
    Kind,
    /// Among its own alone: another name may give equal IDs.
    Own,
}

impl Scope {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kind => "kind",
            Self::Own => "own",
        }
    }
}

/// What a name stands for whose numbers come in ranges that masters grant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ranges {
    /// Segments of one axis.
    Segment(SegmentDefinition),
    /// Sections of keys, each with a sequence.
    Sequence(SequenceDefinition),
}

impl Ranges {
    /// The text that a checksum stands for.
    fn checked(&self) -> Option<String> {
        // Texts and numbers only: there is nothing in it that JSON has no form for.
        match self {
            Self::Segment(definition) => serde_json::to_string(&definition.source()).ok(),
            Self::Sequence(definition) => serde_json::to_string(&definition.source()).ok(),
        }
    }

    /// How many numbers there are.
    fn capacity(&self) -> u64 {
        match self {
            Self::Segment(definition) => definition.axis().len(),
            Self::Sequence(definition) => definition.width().last(),
        }
    }

    fn step(&self) -> u32 {
        match self {
            Self::Segment(definition) => definition.step(),
            Self::Sequence(definition) => definition.step(),
        }
    }

    fn same_ids(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Segment(mine), Self::Segment(its)) => mine.same_ids(its),
            (mine, its) => mine == its,
        }
    }
}

/// What a name stands for. Built only by checks, so the parts fit each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Record", into = "Record")]
pub struct Namespace {
    name: GeneratorName,
    kind: Kind,
    /// Not there of names whose numbers come in ranges.
    token_type: Option<TokenType>,
    template: Option<Box<Template>>,
    layout: Option<Box<LayoutDefinition>>,
    ranges: Option<Box<Ranges>>,
    everyday_reset: bool,
    step: u32,
    scope: Scope,
    plugins: Box<[PluginSpec]>,
    /// How its Uniq64 are written, if not in decimal.
    written: Option<Box<WrittenAs>>,
}

/// A namespace in records and messages.
#[derive(Serialize, Deserialize)]
struct Record {
    name: GeneratorName,
    /// The definition as a person writes it, with nothing left out: JSON, because it has many parts and none of them is needed often.
    definition: String,
}

impl Namespace {
    /// The step when nothing else is said: about one write a batch at the usual sizes, and little lost in a crash.
    pub const STEP_DEFAULT: u32 = 100_000;
    /// The smallest step: below it, a write would be needed for every few requests.
    pub const STEP_MIN: u32 = 1_000;
    /// The largest step to begin with, less than 1 % of a Uniq64's hour.
    pub const STEP_MAX: u32 = 10_000_000;
    /// No step takes more than this part of an hour or day, so that a crash loop does not use it up.
    pub const STEPS_PER_BUCKET_MIN: u64 = 64;

    /// The smallest and the largest step where an hour or day has so many IDs, and none is larger than `most`.
    pub fn step_bounds(capacity: u64, most: u32) -> (u32, u32) {
        let max = u32::try_from(capacity / Self::STEPS_PER_BUCKET_MIN).unwrap_or(u32::MAX).clamp(1, most.max(1));
        (Self::STEP_MIN.min(max), max)
    }

    /// The namespace that `definition` makes of `name`.
    ///
    /// # Errors
    /// [`NamespaceError`], with the reason.
    pub fn define(name: GeneratorName, definition: &Definition) -> Result<Self, NamespaceError> {
        let kind = definition.kind;
        let Spec { right, form, definition: definable, .. } = kind.spec();
        let definable = definable.as_ref().ok_or(NamespaceError::Nameless { kind })?;
        let plugins = Self::checked_plugins(&name, definition)?;
        let layout = match form {
            Form::Layout { .. } => Some(Box::new(definition.layout_definition()?)),
            _ => None,
        };
        if let Some(what) = definition.said_of_others() {
            return Err(NamespaceError::Superfluous { kind, what });
        }
        let Some(right) = right else { return Self::of_ranges(name, definition, plugins) };
        let token_type = match (&definition.token_type, &layout) {
            (Some(text), _) => text.parse()?,
            (None, Some(layout)) => layout.token_type(),
            (None, None) => right.token_type,
        };
        let template = match (form, &definition.template) {
            (Form::Number { .. } | Form::Layout { .. } | Form::Plain | Form::Keyed, Some(_)) => {
                return Err(NamespaceError::TemplateSuperfluous { kind });
            }
            (Form::Template { default }, None) => {
                return Err(NamespaceError::TemplateMissing { kind, example: default });
            }
            _ if !right.token_types.contains(&token_type) => {
                return Err(NamespaceError::TokenType { kind, token_type, wanted: right.wanted });
            }
            (_, None) => None,
            (_, Some(source)) => Some(Box::new(Template::parse(source, token_type.family())?)),
        };
        let (token_type, ranges, scope) = (Some(token_type), None, definition.scope.unwrap_or_default());
        if layout.is_some() {
            let (everyday_reset, step, written) = (definable.everyday_reset, Self::STEP_DEFAULT, None);
            return Ok(Self {
                name,
                kind,
                token_type,
                template,
                layout,
                ranges,
                everyday_reset,
                step,
                scope,
                plugins,
                written,
            });
        }
        let written = Self::checked_encoding(&name, definition)?;
        let capacity = capacity_of(kind, template.as_deref());
        // One that agents would not go by is not kept, and so not shown.
        let (min, max) = Self::step_bounds(capacity, Self::STEP_MAX);
        let step = definition.step.unwrap_or(Self::STEP_DEFAULT.min(max));
        if !(min..=max).contains(&step) {
            return Err(NamespaceError::Step { step, min, max });
        }
        let everyday_reset = definition.everyday_reset.unwrap_or(definable.everyday_reset);
        if everyday_reset && scope == Scope::Kind && definable.shared_serials {
            return Err(NamespaceError::SharedReset { kind });
        }
        Ok(Self { name, kind, token_type, template, layout, ranges, everyday_reset, step, scope, plugins, written })
    }

    /// That of a name whose numbers come in ranges. Each has numbers of its own, so its scope is its own, whatever is said.
    fn of_ranges(
        name: GeneratorName,
        definition: &Definition,
        plugins: Box<[PluginSpec]>,
    ) -> Result<Self, NamespaceError> {
        let kind = definition.kind;
        if definition.template.is_some() {
            return Err(NamespaceError::TemplateSuperfluous { kind });
        }
        if name.is_default() || definition.scope == Some(Scope::Kind) {
            return Err(NamespaceError::OwnNumbers { kind });
        }
        let ranges = definition.ranges()?.map(Box::new);
        let step = ranges.as_ref().map_or(Self::STEP_DEFAULT, |ranges| ranges.step());
        let (token_type, template, layout, written) = (None, None, None, None);
        let (everyday_reset, scope) = (false, Scope::Own);
        Ok(Self { name, kind, token_type, template, layout, ranges, everyday_reset, step, scope, plugins, written })
    }

    /// How numbers without a layout are written, if not in decimal.
    fn checked_encoding(
        name: &GeneratorName,
        definition: &Definition,
    ) -> Result<Option<Box<WrittenAs>>, NamespaceError> {
        let (kind, Some(source)) = (definition.kind, &definition.encoding) else { return Ok(None) };
        if kind.spec().numbers.is_none() || name.is_default() {
            return Err(NamespaceError::Superfluous { kind, what: "encoding" });
        }
        if source.form() == EncodingForm::Strategy {
            return Err(InvalidEncoding::OnlyLayouts.into());
        }
        let source = source.clone().shortened();
        if source == EncodingSource::default() {
            return Ok(None);
        }
        Ok(Some(Box::new(WrittenAs::new(source, u64::BITS)?)))
    }

    fn checked_plugins(name: &GeneratorName, definition: &Definition) -> Result<Box<[PluginSpec]>, NamespaceError> {
        let plugins = definition.plugins.as_deref().unwrap_or_default();
        plugin::check(plugins)?;
        if name.is_default() && !plugins.is_empty() {
            return Err(NamespaceError::PluginsOfDefault);
        }
        Ok(plugins.into())
    }

    /// The namespace `default` of one of the [`Kind::PREDEFINED`].
    pub fn default_of(kind: Kind) -> Self {
        let token_type = kind.default_token_type();
        let template = match (&kind.spec().form, token_type) {
            (Form::Template { default }, Some(token_type)) => {
                Template::parse(default, token_type.family()).ok().map(Box::new)
            }
            _ => None,
        };
        let everyday_reset = kind.spec().definition.as_ref().is_some_and(|definable| definable.everyday_reset);
        let (name, step, scope) = (GeneratorName::default(), Self::STEP_DEFAULT, Scope::Kind);
        let (layout, ranges, plugins, written) = (None, None, Box::default(), None);
        Self { name, kind, token_type, template, layout, ranges, everyday_reset, step, scope, plugins, written }
    }

    /// Whether it may be registered: whether IDs can be minted by it, for a year from `now` at least. What is registered goes on as long as
    /// it lasts, and can be read whatever this says.
    ///
    /// # Errors
    /// [`NamespaceError::Layout`] with when its time begins or ends; [`NamespaceError::Superfluous`] if agents would not serve it for its
    /// plugins.
    pub fn check_new(&self, now: WallMs) -> Result<(), NamespaceError> {
        if matches!(self.kind.spec().form, Form::Keyed) && !self.plugins.is_empty() {
            return Err(NamespaceError::Superfluous { kind: self.kind, what: "plugins" });
        }
        let Some(definition) = &self.layout else { return Ok(()) };
        definition.layout().check_life(now).map_err(|e: InvalidLayout| InvalidDefinition::from(e).into())
    }

    /// An ID of that instant, token and serial, as this namespace writes it; the caller's parts are letters. `None` if they
    /// do not fit.
    pub fn example(&self, offset: UtcOffset, at: WallMs, token: TokenValue, serial: u32) -> Option<String> {
        let template = match (&self.kind.spec().form, &self.template) {
            (Form::Number { decimal, .. }, _) => {
                let number = decimal(offset, at, token, serial).ok()?;
                let Some(written) = &self.written else { return Some(number) };
                return written.plain(Secrets::NONE).ok()?.text(number.parse().ok()?);
            }
            (Form::Layout { .. }, _) => {
                let definition = self.layout.as_ref()?;
                let layout = definition.layout();
                let prefix = layout.prefix(layout.tick(at)?, token)?;
                return definition.text(layout.fill(prefix, serial, 0));
            }
            (Form::Template { .. }, template) => template.as_ref()?,
            (Form::Plain | Form::Keyed, _) => return None,
        };
        let token = TokenKey { family: template.family(), value: token };
        let bound = template.bind(offset, offset.day_bucket(at), token).ok()?;
        let letters = |len: Option<u32>| len.map(|len| "A".repeat(len as usize));
        let (biz, custom) = (letters(template.biz_len()), letters(template.custom_len()));
        let caller = template.check_caller(biz.as_deref(), custom.as_deref()).ok()?;
        let mut text = Vec::new();
        bound.write(&caller, serial.into(), &mut text);
        String::from_utf8(text).ok()
    }

    /// The definition as a person writes it, with nothing left out.
    pub fn definition(&self) -> Definition {
        let all = Definition {
            kind: self.kind,
            token_type: self.token_type.map(|token_type| token_type.name().to_owned()),
            template: self.template.as_ref().map(|template| template.source().to_owned()),
            everyday_reset: Some(self.everyday_reset),
            step: Some(self.step),
            scope: Some(self.scope),
            plugins: (!self.plugins.is_empty()).then(|| self.plugins.to_vec()),
            encoding: self.encoding().cloned(),
            ..Definition::default()
        };
        if let Some(ranges) = &self.ranges {
            let everyday_reset = None;
            return Definition { everyday_reset, ..all }.with_ranges(ranges);
        }
        let Some(definition) = &self.layout else { return all };
        let LayoutSource { layout, bits, epoch, unit_ms, fields } = definition.source();
        let ahead_max_ms = u32::try_from(definition.ahead_max().0).ok();
        // Neither stands for anything in a layout.
        let (everyday_reset, step) = (None, None);
        let spread = definition.spread().places();
        Definition { everyday_reset, step, layout, bits, epoch, unit_ms, fields, ahead_max_ms, spread, ..all }
    }

    /// Among which IDs its own are unique.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Whether its IDs are those of `default`, which it is another name for: one series for all Uniq64 of a token.
    pub fn shares_serials(&self) -> bool {
        let shared = self.kind.spec().definition.as_ref().is_some_and(|definable| definable.shared_serials);
        shared && self.scope == Scope::Kind && !self.name.is_default()
    }

    /// Tells whether `known`, which is registered, is what this definition asks for.
    pub fn is_met_by(&self, known: &Self) -> bool {
        self.same_ids(known) && self.plugins == known.plugins
    }

    /// A string that both can write, if it cannot be proved that there is none; only strings are compared. `None`: proved.
    pub fn overlap(&self, other: &Self) -> Option<Overlap> {
        let (mine, its) = (self.template.as_ref()?, other.template.as_ref()?);
        let (token_type, its_type) = (self.token_type?, other.token_type?);
        Some(mine.overlap(token_type, its, its_type)).filter(|overlap| *overlap != Overlap::Disjoint)
    }

    /// What stands around minting by it. Which IDs come does not depend on it.
    pub fn plugins(&self) -> &[PluginSpec] {
        &self.plugins
    }

    /// How its numbers are written, if its definition says it; it always does of a layout.
    pub fn encoding(&self) -> Option<&EncodingSource> {
        let own = || self.written.as_deref().map(WrittenAs::source);
        self.layout().map(LayoutDefinition::encoding).or_else(own)
    }

    /// How its Uniq64 are written, if not in decimal; `None` for all other kinds.
    pub fn written(&self) -> Option<&WrittenAs> {
        self.written.as_deref()
    }

    /// What its numbers are written by, if its definition says it.
    ///
    /// # Errors
    /// [`InvalidEncoding::OtherKey`] or [`InvalidEncoding::Strategy`], if that is not among these.
    pub fn written_by(
        &self,
        secrets: &Secrets,
        strategies: &Strategies,
    ) -> Result<Option<Arc<Encoding>>, InvalidEncoding> {
        match (&self.layout, &self.written) {
            (Some(layout), _) => layout.written_by(secrets, strategies).map(Some),
            (None, Some(written)) => written.plain(secrets).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Its name.
    pub fn name(&self) -> &GeneratorName {
        &self.name
    }

    /// What it mints.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The type of token it needs; `None`: its numbers come in ranges that masters grant.
    pub fn token_type(&self) -> Option<TokenType> {
        self.token_type
    }

    /// The template; there for strings and only for them.
    pub fn template(&self) -> Option<&Template> {
        self.template.as_deref()
    }

    /// What it is by; there for layouts and only for them.
    pub fn layout(&self) -> Option<&LayoutDefinition> {
        self.layout.as_deref()
    }

    /// What it is by; there for segments and only for them.
    pub fn segments(&self) -> Option<&SegmentDefinition> {
        match self.ranges.as_deref() {
            Some(Ranges::Segment(definition)) => Some(definition),
            _ => None,
        }
    }

    /// What it is by; there for sequences and only for them.
    pub fn sequences(&self) -> Option<&SequenceDefinition> {
        match self.ranges.as_deref() {
            Some(Ranges::Sequence(definition)) => Some(definition),
            _ => None,
        }
    }

    /// Whether both count by the same ticks: of two names with one layout no number is equal, unless one's scope is its own.
    pub fn shares_ticks(&self, other: &Self) -> bool {
        let layouts = self.layout.as_ref().zip(other.layout.as_ref());
        let kind = (self.scope, other.scope, self.token_type) == (Scope::Kind, Scope::Kind, other.token_type);
        layouts.is_some_and(|(mine, its)| mine.layout() == its.layout()) && kind
    }

    /// Whether the serial starts at 0 when the day grows.
    pub fn everyday_reset(&self) -> bool {
        self.everyday_reset
    }

    /// How many IDs one token can give in the kind's unit of time.
    pub fn capacity(&self) -> u64 {
        match (&self.layout, &self.ranges) {
            (Some(definition), _) => definition.layout().serials_per_tick(),
            (None, Some(ranges)) => ranges.capacity(),
            (None, None) => capacity_of(self.kind, self.template.as_deref()),
        }
    }

    /// How many serials are reserved at once at first.
    pub fn step(&self) -> u32 {
        self.step
    }

    /// Whether both give the same IDs: all is equal but perhaps the step and the plugins.
    pub fn same_ids(&self, other: &Self) -> bool {
        let ids = |namespace: &Self| Self {
            step: 0,
            layout: None,
            ranges: None,
            plugins: Box::default(),
            ..namespace.clone()
        };
        let layouts = match (&self.layout, &other.layout) {
            (Some(mine), Some(its)) => mine.same_ids(its),
            (mine, its) => mine == its,
        };
        let ranges = match (&self.ranges, &other.ranges) {
            (Some(mine), Some(its)) => mine.same_ids(its),
            (mine, its) => mine == its,
        };
        layouts && ranges && ids(self) == ids(other)
    }

    /// A number that stands for the definition in the serial file.
    ///
    /// FNV-1a of 64 bits over these bytes: `1 u8 version=1 · 1 u8 kind · 1 u8 token type's wire number · 1 u8
    /// everyday_reset (0, 1) · 1 u8 length of the name, the name · 2 u16 little-endian length of the template, the
    /// template` (length 0 for Uniq64, or its encoding as JSON; of a layout, its definition as JSON). The step is not part of it: it says how often the file is written, not which IDs
    /// come out. It notices a block that belongs to another definition; it does not withstand someone who looks for two
    /// that collide, so masters compare the definitions themselves.
    pub fn checksum(&self) -> u64 {
        fnv1a(self.checksum_bytes().iter())
    }

    /// The number that stands for this definition in the serial file of an agent of `cluster`. What `default` stands for is
    /// the same in every cluster, so its number is [`checksum`](Self::checksum).
    ///
    /// The upper half is the lower half of FNV-1a over `1 u8 version=2 · 16 u128 little-endian cluster`, the lower half
    /// that of [`checksum`](Self::checksum): see [`same_cluster`](Self::same_cluster).
    pub fn checksum_in(&self, cluster: ClusterId) -> u64 {
        if self.name.is_default() {
            return self.checksum();
        }
        (cluster_half(cluster) << u32::BITS) | (self.checksum() & u64::from(u32::MAX))
    }

    /// Whether a number that [`checksum_in`](Self::checksum_in) gave belongs to `cluster`, whatever the definition. One
    /// foreign number in 2^32 seems to.
    pub fn same_cluster(checksum: u64, cluster: ClusterId) -> bool {
        checksum >> u32::BITS == cluster_half(cluster)
    }

    fn checksum_bytes(&self) -> Vec<u8> {
        let name = self.name.as_str().as_bytes();
        let layout = self.layout.as_ref().map(|definition| definition.checked());
        // Texts and numbers only: there is nothing in it that JSON has no form for.
        let encoding = self.written.as_ref().and_then(|written| serde_json::to_string(written.source()).ok());
        let template = self.template.as_deref().map(Template::source);
        let ranges = self.ranges.as_ref().and_then(|ranges| ranges.checked());
        let template = template.or(layout.as_deref()).or(encoding.as_deref()).or(ranges.as_deref());
        let template = template.unwrap_or("").as_bytes();
        // Both lengths fit: a name has at most 63 bytes, a template at most 256, a layout less than 1,000.
        let [name_len, ..] = name.len().to_le_bytes();
        let [low, high, ..] = template.len().to_le_bytes();
        let head = [
            CHECKSUM_VERSION,
            self.kind.number(),
            self.token_type.map_or(0, TokenType::wire),
            self.everyday_reset.into(),
            name_len,
        ];
        head.iter().chain(name).chain(&[low, high]).chain(template).copied().collect()
    }
}

fn capacity_of(kind: Kind, template: Option<&Template>) -> u64 {
    match (&kind.spec().form, template) {
        (Form::Number { serials, .. }, _) => *serials,
        (Form::Template { .. }, template) => template.map_or(0, Template::capacity),
        (Form::Layout { .. } | Form::Plain | Form::Keyed, _) => 0,
    }
}

fn cluster_half(cluster: ClusterId) -> u64 {
    let bytes = cluster.0.to_le_bytes();
    fnv1a(std::iter::once(&CLUSTER_CHECKSUM_VERSION).chain(&bytes)) & u64::from(u32::MAX)
}

const CHECKSUM_VERSION: u8 = 1;
const CLUSTER_CHECKSUM_VERSION: u8 = 2;
const _: () = assert!(GeneratorName::LEN_MAX <= u8::MAX as usize && Template::SOURCE_LEN_MAX <= u16::MAX as usize);

/// The hash of Fowler, Noll and Vo: no crate of ours has a checksum of 64 bits, and this one is two operations.
fn fnv1a<'a>(bytes: impl Iterator<Item = &'a u8>) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

impl TryFrom<Record> for Namespace {
    type Error = NamespaceError;
    fn try_from(record: Record) -> Result<Self, NamespaceError> {
        let broken = |e: serde_json::Error| NamespaceError::Record(e.to_string());
        Self::define(record.name, &serde_json::from_str(&record.definition).map_err(broken)?)
    }
}

impl From<Namespace> for Record {
    fn from(namespace: Namespace) -> Self {
        // Texts and numbers only: there is nothing in it that JSON has no form for.
        let definition = serde_json::to_string(&namespace.definition()).unwrap_or_default();
        Self { name: namespace.name, definition }
    }
}

#[cfg(test)]
mod tests;
