//! Generators' names, and what they stand for.
//!
//! A name is a namespace. Its definition is registered once and never changes. By default the scope of uniqueness is the
//! whole kind: no two names of a kind ever give equal IDs. A name whose scope is its own may give what others give.

mod definition;
mod name;
mod preview;
mod used_up;

pub use crate::layout::LayoutSpec;
pub use crate::scope::Scope;
pub use crate::segment::SegmentSpec;
pub use crate::sequence::SequenceSpec;
pub use definition::{Definition, NamespaceError, StringSpec, Uniq64Spec};
pub use name::{GeneratorName, NameError};
pub use preview::{At, Preview};
pub use used_up::SHARED_MIN;

use crate::encoding::{Encoding, EncodingForm, EncodingSource, InvalidEncoding, Secrets, WrittenAs};
use crate::kind::{Form, Kind};
use crate::layout::{InvalidDefinition, InvalidLayout, LayoutDefinition, Mark};
use crate::parameters::ClusterId;
use crate::plugin::{self, PluginSpec};
use crate::segment::SegmentDefinition;
use crate::sequence::SequenceDefinition;
use crate::strategy::Strategies;
use crate::template::{DEFAULT_TEMPLATE, Overlap, Template};
use crate::time::WallMs;
use crate::token::TokenType;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The definition of a name. Built only by checks, so the parts fit each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Record", into = "Record")]
pub struct Namespace {
    name: GeneratorName,
    scope: Scope,
    plugins: Box<[PluginSpec]>,
    of: Of,
    /// The encoding of its numbers, if not decimal; that of a layout is a part of it.
    written: Option<Box<WrittenAs>>,
}

/// The definition by kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Of {
    /// Numbers of the kind's own.
    Number(Kind, Serials),
    String(Serials, Box<Template>),
    Layout(TokenType, Box<LayoutDefinition>),
    Segment(Box<SegmentDefinition>),
    Sequence(Box<SequenceDefinition>),
}

/// The counting of a kind whose serials are durable ahead of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Serials {
    token_type: TokenType,
    everyday_reset: bool,
    step: u32,
}

impl Serials {
    fn new(
        kind: Kind,
        token_type: TokenType,
        everyday_reset: Option<bool>,
        step: Option<u32>,
        capacity: u64,
    ) -> Result<Self, NamespaceError> {
        // One that agents would not go by is not kept, and so not shown.
        let (min, max) = Namespace::step_bounds(capacity, Namespace::STEP_MAX);
        let step = step.unwrap_or(Namespace::STEP_DEFAULT.min(max));
        if !(min..=max).contains(&step) {
            return Err(NamespaceError::Step { step, min, max });
        }
        let usual = kind.spec().definition.as_ref().is_some_and(|definable| definable.everyday_reset);
        Ok(Self { token_type, everyday_reset: everyday_reset.unwrap_or(usual), step })
    }

    /// Tells whether both give the same serials; the step says how they are kept.
    fn same_ids(&self, other: &Self) -> bool {
        (self.token_type, self.everyday_reset) == (other.token_type, other.everyday_reset)
    }
}

impl Of {
    fn number(kind: Kind, said: &Uniq64Spec) -> Result<Self, NamespaceError> {
        let token_type = checked_token_type(kind, said.token_type.as_ref(), None)?;
        let capacity = kind.numbers().map_or(0, |numbers| numbers.layout().serials_per_tick());
        let serials = Serials::new(kind, token_type, said.everyday_reset, said.step, capacity)?;
        Ok(Self::Number(kind, serials))
    }

    fn string(said: &StringSpec) -> Result<Self, NamespaceError> {
        let kind = Kind::String;
        let source =
            said.template.as_ref().ok_or(NamespaceError::TemplateMissing { kind, example: DEFAULT_TEMPLATE })?;
        let token_type = checked_token_type(kind, said.token_type.as_ref(), None)?;
        let template = Template::parse(source, token_type.family())?;
        let serials = Serials::new(kind, token_type, said.everyday_reset, said.step, template.capacity())?;
        Ok(Self::String(serials, Box::new(template)))
    }

    fn layout(said: &LayoutSpec) -> Result<Self, NamespaceError> {
        let definition = LayoutDefinition::new(said)?;
        let fitting = Some(definition.token_type());
        let token_type = checked_token_type(Kind::Layout, said.token_type.as_ref(), fitting)?;
        Ok(Self::Layout(token_type, Box::new(definition)))
    }

    /// The largest number that is written by an encoding of the name; `None` if it has none.
    fn last_number(&self) -> Option<u64> {
        match self {
            // Those of a kind that is defined have 64 bits.
            Self::Number(..) => Some(u64::MAX),
            Self::Segment(definition) => Some(definition.last_number()),
            Self::Sequence(definition) => Some(definition.width().last()),
            Self::String(..) | Self::Layout(..) => None,
        }
    }

    /// The definition as a person writes it, with nothing left out.
    fn definition(&self, scope: Scope, encoding: Option<EncodingSource>, plugins: Vec<PluginSpec>) -> Definition {
        let (named, scope) = (|token_type: TokenType| Some(token_type.name().to_owned()), Some(scope));
        match self {
            // Of Uniq96, of which no name and no record is, what it has in common with it.
            Self::Number(_, Serials { token_type, everyday_reset, step }) => Definition::Uniq64(Uniq64Spec {
                token_type: named(*token_type),
                everyday_reset: Some(*everyday_reset),
                step: Some(*step),
                scope,
                encoding,
                plugins,
            }),
            Self::String(Serials { token_type, everyday_reset, step }, template) => Definition::String(StringSpec {
                token_type: named(*token_type),
                template: Some(template.source().to_owned()),
                everyday_reset: Some(*everyday_reset),
                step: Some(*step),
                scope,
                plugins,
            }),
            Self::Layout(token_type, definition) => {
                Definition::Layout(LayoutSpec { token_type: named(*token_type), scope, plugins, ..definition.spec() })
            }
            Self::Segment(definition) => {
                Definition::Segment(SegmentSpec { encoding, scope, plugins, ..definition.spec() })
            }
            Self::Sequence(definition) => {
                Definition::Sequence(SequenceSpec { encoding, scope, plugins, ..definition.spec() })
            }
        }
    }

    /// The text that a checksum stands for.
    fn checked(&self, encoding: Option<EncodingSource>) -> String {
        match self {
            Self::Number(..) => encoding.as_ref().map(json).unwrap_or_default(),
            Self::String(_, template) => template.source().to_owned(),
            Self::Layout(_, definition) => json(&definition.checked()),
            Self::Segment(definition) => json(&SegmentSpec { encoding, ..definition.spec() }),
            Self::Sequence(definition) => json(&SequenceSpec { encoding, ..definition.spec() }),
        }
    }
}

/// The type of token that was said, or the usual one, if its kind can write it.
fn checked_token_type(
    kind: Kind,
    said: Option<&String>,
    fitting: Option<TokenType>,
) -> Result<TokenType, NamespaceError> {
    // A kind whose numbers come in ranges has none and does not ask.
    let right = kind.spec().right.as_ref().ok_or(NamespaceError::OwnNumbers { kind })?;
    let token_type = match said {
        Some(text) => text.parse()?,
        None => fitting.unwrap_or(right.token_type),
    };
    if !right.token_types.contains(&token_type) {
        return Err(NamespaceError::TokenType { kind, token_type, wanted: right.wanted });
    }
    Ok(token_type)
}

/// The form of numbers without a layout, if not decimal.
fn checked_encoding(
    kind: Kind,
    name: &GeneratorName,
    of: &Of,
    said: Option<&EncodingSource>,
) -> Result<Option<Box<WrittenAs>>, NamespaceError> {
    let (Some(last), Some(source)) = (of.last_number(), said) else { return Ok(None) };
    if name.is_default() {
        return Err(NamespaceError::Superfluous { kind, what: "encoding" });
    }
    if source.form() == EncodingForm::Strategy {
        return Err(InvalidEncoding::OnlyLayouts.into());
    }
    // They are passed on between agents, compared with each other, and taken from packed answers.
    if matches!(of, Of::Sequence(_)) && source.form().hides().is_some() {
        return Err(InvalidEncoding::Hides(source.form().name()).into());
    }
    let source = source.clone().shortened();
    if source == EncodingSource::default() {
        return Ok(None);
    }
    Ok(Some(Box::new(WrittenAs::up_to(source, u64::BITS, last.into())?)))
}

/// The definition as JSON: texts and numbers only, so there is nothing in it that JSON has no form for.
fn json(said: &impl Serialize) -> String {
    serde_json::to_string(said).unwrap_or_default()
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
    /// Divisor of the IDs of an hour, day or tick: no step takes more than this part, so that a crash loop does not use them up.
    pub const STEPS_PER_BUCKET_MIN: u64 = 64;

    /// The smallest and the largest step where an hour, day or tick has so many IDs, and none is larger than `most`.
    pub fn step_bounds(capacity: u64, most: u32) -> (u32, u32) {
        let max = u32::try_from(capacity / Self::STEPS_PER_BUCKET_MIN).unwrap_or(u32::MAX).clamp(1, most.max(1));
        (Self::STEP_MIN.min(max), max)
    }

    /// The namespace that `definition` makes of `name`.
    ///
    /// # Errors
    /// [`NamespaceError`], with the reason.
    pub fn define(name: GeneratorName, definition: &Definition) -> Result<Self, NamespaceError> {
        let plugins = definition.plugins();
        plugin::check(plugins)?;
        if name.is_default() && !plugins.is_empty() {
            return Err(NamespaceError::PluginsOfDefault);
        }
        let of = match definition {
            Definition::Uniq64(said) => Of::number(definition.kind(), said)?,
            Definition::String(said) => Of::string(said)?,
            Definition::Layout(said) => Of::layout(said)?,
            Definition::Segment(said) => Of::Segment(Box::new(SegmentDefinition::new(said)?)),
            Definition::Sequence(said) => Of::Sequence(Box::new(SequenceDefinition::new(said)?)),
        };
        let (kind, said) = (definition.kind(), definition.scope());
        let scope = match &of {
            Of::Segment(_) | Of::Sequence(_) if name.is_default() || said == Some(Scope::Kind) => {
                return Err(NamespaceError::OwnNumbers { kind });
            }
            Of::Segment(_) | Of::Sequence(_) => Scope::Own,
            Of::Layout(_, definition) if definition.layout().mark() == Mark::Serial => match said {
                Some(Scope::Kind) => return Err(InvalidDefinition::OnlyShortTicks("scope kind").into()),
                _ => Scope::Own,
            },
            Of::Number(_, Serials { everyday_reset: true, .. }) if said != Some(Scope::Own) => {
                return Err(NamespaceError::SharedReset { kind });
            }
            _ => said.unwrap_or_default(),
        };
        let written = checked_encoding(definition.kind(), &name, &of, definition.encoding())?;
        Ok(Self { name, scope, plugins: plugins.into(), of, written })
    }

    /// The namespace `default` of one of the [`Kind::PREDEFINED`].
    pub fn default_of(kind: Kind) -> Self {
        let (token_type, step) = (TokenType::Uint2, Self::STEP_DEFAULT);
        let number = Of::Number(kind, Serials { token_type, everyday_reset: false, step });
        let of = match kind.spec().form {
            // A test shows that its template is none that is refused.
            Form::Template { default } => Of::string(&StringSpec::of(default)).unwrap_or(number),
            _ => number,
        };
        Self { name: GeneratorName::default(), scope: Scope::Kind, plugins: Box::default(), of, written: None }
    }

    /// Checks that it may be registered: that IDs can be minted by it, for a year from `now` at least. A name that is registered goes on as
    /// long as it lasts, and can be read whatever this says.
    ///
    /// # Errors
    /// [`NamespaceError::Layout`] with when its time begins or ends; [`NamespaceError::Superfluous`] if agents would not serve it for its
    /// plugins.
    pub fn check_new(&self, now: WallMs) -> Result<(), NamespaceError> {
        if matches!(self.of, Of::Sequence(_)) && !self.plugins.is_empty() {
            return Err(NamespaceError::Superfluous { kind: self.kind(), what: "plugins" });
        }
        let Of::Layout(_, definition) = &self.of else { return Ok(()) };
        definition.layout().check_life(now).map_err(|e: InvalidLayout| InvalidDefinition::from(e).into())
    }

    /// The definition as a person writes it, with nothing left out.
    pub fn definition(&self) -> Definition {
        self.of.definition(self.scope, self.source(), self.plugins.to_vec())
    }

    fn source(&self) -> Option<EncodingSource> {
        self.written().map(|written| written.source().clone())
    }

    /// Among which IDs its own are unique.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Tells whether its IDs are those of `default`, which it is another name for: one series for all Uniq64 of a token.
    pub fn shares_serials(&self) -> bool {
        let shared = self.kind().spec().definition.as_ref().is_some_and(|definable| definable.shared_serials);
        shared && self.scope == Scope::Kind && !self.name.is_default()
    }

    /// Tells whether `known`, which is registered, is what this definition asks for.
    pub fn is_met_by(&self, known: &Self) -> bool {
        self.same_ids(known) && self.plugins == known.plugins
    }

    /// A string that both can write, if it cannot be proved that there is none; only strings are compared. `None`: proved.
    pub fn overlap(&self, other: &Self) -> Option<Overlap> {
        let (Of::String(mine, template), Of::String(its, other)) = (&self.of, &other.of) else { return None };
        let overlap = template.overlap(mine.token_type, other, its.token_type);
        Some(overlap).filter(|overlap| *overlap != Overlap::Disjoint)
    }

    /// The plugins around minting by it. Which IDs come does not depend on them.
    pub fn plugins(&self) -> &[PluginSpec] {
        &self.plugins
    }

    /// The encoding of its numbers, if its definition says it; it always does of a layout.
    pub fn encoding(&self) -> Option<&EncodingSource> {
        let own = || self.written().map(WrittenAs::source);
        self.layout().map(LayoutDefinition::encoding).or_else(own)
    }

    /// The encoding of its numbers, if not decimal; `None` of strings and layouts.
    pub fn written(&self) -> Option<&WrittenAs> {
        self.written.as_deref()
    }

    /// The way in which its numbers are written, if its definition says it.
    ///
    /// # Errors
    /// [`InvalidEncoding::OtherKey`] or [`InvalidEncoding::Strategy`], if that is not among these.
    pub fn written_by(
        &self,
        secrets: &Secrets,
        strategies: &Strategies,
    ) -> Result<Option<Arc<Encoding>>, InvalidEncoding> {
        match &self.of {
            Of::Layout(_, definition) => definition.written_by(secrets, strategies).map(Some),
            _ => self.written().map(|written| written.plain(secrets)).transpose(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &GeneratorName {
        &self.name
    }

    /// The kind of its IDs.
    pub fn kind(&self) -> Kind {
        match self.of {
            Of::Number(kind, ..) => kind,
            Of::String(..) => Kind::String,
            Of::Layout(..) => Kind::Layout,
            Of::Segment(_) => Kind::Segment,
            Of::Sequence(_) => Kind::Sequence,
        }
    }

    /// The type of token it needs; `None`: its numbers come in ranges that masters grant.
    pub fn token_type(&self) -> Option<TokenType> {
        match &self.of {
            Of::Number(_, serials) | Of::String(serials, _) => Some(serials.token_type),
            Of::Layout(token_type, _) => Some(*token_type),
            Of::Segment(_) | Of::Sequence(_) => None,
        }
    }

    /// The template; there for strings and only for them.
    pub fn template(&self) -> Option<&Template> {
        match &self.of {
            Of::String(_, template) => Some(template),
            _ => None,
        }
    }

    /// The definition of its layout; there for layouts and only for them.
    pub fn layout(&self) -> Option<&LayoutDefinition> {
        match &self.of {
            Of::Layout(_, definition) => Some(definition),
            _ => None,
        }
    }

    /// The definition of its numbers, which its kind or its name has; `None` of texts and plain numbers.
    pub fn numbers(&self) -> Option<&LayoutDefinition> {
        match &self.of {
            Of::Number(kind, ..) => kind.numbers().map(|numbers| &**numbers.definition()),
            Of::Layout(_, definition) => Some(definition),
            Of::String(..) | Of::Segment(_) | Of::Sequence(_) => None,
        }
    }

    /// The definition of its segments; there for segments and only for them.
    pub fn segments(&self) -> Option<&SegmentDefinition> {
        match &self.of {
            Of::Segment(definition) => Some(definition),
            _ => None,
        }
    }

    /// The definition of its sequences; there for sequences and only for them.
    pub fn sequences(&self) -> Option<&SequenceDefinition> {
        match &self.of {
            Of::Sequence(definition) => Some(definition),
            _ => None,
        }
    }

    /// Tells whether both count by the same ticks: of two names with one layout no number is equal, unless one's scope is its own.
    pub fn shares_ticks(&self, other: &Self) -> bool {
        let (Of::Layout(mine, layout), Of::Layout(its, other_layout)) = (&self.of, &other.of) else { return false };
        let kind = (self.scope, other.scope) == (Scope::Kind, Scope::Kind);
        kind && mine == its && layout.layout() == other_layout.layout()
    }

    /// Tells whether the serial starts at 0 when the day grows.
    pub fn everyday_reset(&self) -> bool {
        matches!(
            self.of,
            Of::Number(_, Serials { everyday_reset: true, .. }) | Of::String(Serials { everyday_reset: true, .. }, _)
        )
    }

    /// Counts the IDs that one token can give in the kind's unit of time.
    pub fn capacity(&self) -> u64 {
        match &self.of {
            Of::Number(..) | Of::Layout(..) => self.numbers().map_or(0, |numbers| numbers.layout().serials_per_tick()),
            Of::String(_, template) => template.capacity(),
            Of::Segment(definition) => definition.axis().len(),
            Of::Sequence(definition) => definition.width().last(),
        }
    }

    /// The number of serials that are reserved at once at first.
    pub fn step(&self) -> u32 {
        match &self.of {
            Of::Number(_, serials) | Of::String(serials, _) => serials.step,
            // In short ticks nothing goes by steps.
            Of::Layout(..) => Self::STEP_DEFAULT.min(Self::step_bounds(self.capacity(), Self::STEP_MAX).1),
            Of::Segment(definition) => definition.step(),
            Of::Sequence(definition) => definition.step(),
        }
    }

    /// Tells whether both give the same IDs: all is equal but perhaps the step and the plugins.
    pub fn same_ids(&self, other: &Self) -> bool {
        let same = match (&self.of, &other.of) {
            (Of::Number(kind, mine), Of::Number(other_kind, its)) => kind == other_kind && mine.same_ids(its),
            (Of::String(mine, template), Of::String(its, other)) => mine.same_ids(its) && template == other,
            (Of::Layout(mine, layout), Of::Layout(its, other)) => mine == its && layout.same_ids(other),
            (Of::Segment(mine), Of::Segment(its)) => mine.same_ids(its),
            (mine, its) => mine == its,
        };
        same && (&self.name, self.scope, &self.written) == (&other.name, other.scope, &other.written)
    }

    /// A number that stands for the definition in the serial file.
    ///
    /// FNV-1a of 64 bits over these bytes: `1 u8 version=1 · 1 u8 kind · 1 u8 token type's wire number · 1 u8
    /// everyday_reset (0, 1) · 1 u8 length of the name, the name · 2 u16 little-endian length of the template, the
    /// template` (length 0 for Uniq64, or its encoding as JSON; of all but strings, the definition as JSON). The step is not part of it: it says how often the file is written, not which IDs
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

    /// Tells whether a number that [`checksum_in`](Self::checksum_in) gave belongs to `cluster`, whatever the
    /// definition. One foreign number in 2^32 seems to.
    pub fn same_cluster(checksum: u64, cluster: ClusterId) -> bool {
        checksum >> u32::BITS == cluster_half(cluster)
    }

    fn checksum_bytes(&self) -> Vec<u8> {
        let name = self.name.as_str().as_bytes();
        let checked = self.of.checked(self.source());
        let checked = checked.as_bytes();
        // Both lengths fit: a name has at most 63 bytes, a template at most 256, a layout less than 1,000.
        let [name_len, ..] = name.len().to_le_bytes();
        let [low, high, ..] = checked.len().to_le_bytes();
        let head = [
            CHECKSUM_VERSION,
            self.kind().number(),
            self.token_type().map_or(0, TokenType::wire),
            self.everyday_reset().into(),
            name_len,
        ];
        head.iter().chain(name).chain(&[low, high]).chain(checked).copied().collect()
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
        Self { definition: json(&namespace.definition()), name: namespace.name }
    }
}

#[cfg(test)]
mod tests;
