//! Definitions as people write them, and why one is refused.

use super::Namespace;
use crate::encoding::{EncodingSource, InvalidEncoding, Secrets};
use crate::kind::Kind;
use crate::layout::{InvalidDefinition, LayoutSpec};
use crate::plugin::{PluginSpec, SpecError};
use crate::scope::Scope;
use crate::segment::{InvalidSegment, SegmentSpec};
use crate::sequence::{InvalidSequence, SequenceSpec};
use crate::strategy::Strategies;
use crate::template::TemplateError;
use crate::token::{TokenType, UnknownTokenType};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// A definition as a person writes it in JSON; what is left out is as usual for its kind.
///
/// The definition may be one that no name can have, or that still lacks the mark of a secret ([`completed`](Self::completed)):
/// [`Namespace::define`] checks it. Of a field that is there twice its reader takes the last one, so what strangers send is read by
/// [`json::read`](crate::json::read).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Definition {
    /// Numbers of 64 bits.
    Uniq64(Uniq64Spec),
    /// Texts by a template.
    String(StringSpec),
    /// Numbers by a layout of bits.
    Layout(LayoutSpec),
    /// Plain numbers that masters hand out in segments.
    Segment(SegmentSpec),
    /// A counter for each key.
    Sequence(SequenceSpec),
}

/// A definition of Uniq64 as a person writes it; what is left out is as usual.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Uniq64Spec {
    /// The name of the token type: `uint2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_type: Option<String>,
    /// True if the serial starts at 0 each day; only where `scope` is `own`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub everyday_reset: Option<bool>,
    /// Number of serials that are reserved at once at first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// Among which IDs its own are unique: `kind` (the default), so that no other name of this kind gives equal ones, or `own`: others may.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub scope: Option<Scope>,
    /// Form in which its numbers are written if not in decimal: `hex`, `base32`, `base32hex`, `base62`, `sqids`, `ff1`, or one of them
    /// with parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub encoding: Option<EncodingSource>,
    /// Plugins around minting by this name: at most 8 objects with `plugin`, perhaps `order`, and what the plugin takes, such as
    /// `{"plugin":"quota","per_second":100}`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<serde_json::Value>))]
    pub plugins: Vec<PluginSpec>,
}

/// A definition of texts as a person writes it; what is left out is as usual.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct StringSpec {
    /// The name of the token type: one of the `string` types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_type: Option<String>,
    /// The template, which has to be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// True if the serial starts at 0 each day; it does if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub everyday_reset: Option<bool>,
    /// Number of serials that are reserved at once at first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// Among which IDs its own are unique: `kind` (the default), so that no other name of this kind gives equal ones, or `own`: others may.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub scope: Option<Scope>,
    /// Plugins around minting by this name: at most 8 objects with `plugin`, perhaps `order`, and what the plugin takes, such
    /// as `{"plugin":"quota","per_second":100}`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<serde_json::Value>))]
    pub plugins: Vec<PluginSpec>,
}

impl StringSpec {
    /// A definition of that template, with everything else as usual.
    pub fn of(template: impl Into<String>) -> Self {
        Self { template: Some(template.into()), ..Self::default() }
    }
}

impl Definition {
    /// A generator of kind `string` with this template; everything else as in `default`.
    pub fn string(template: impl Into<String>) -> Self {
        Self::String(StringSpec::of(template))
    }

    /// A generator of kind `layout` with this preset; everything else as the preset has it.
    pub fn layout(preset: impl Into<String>) -> Self {
        Self::Layout(LayoutSpec::of(preset))
    }

    /// The kind.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Uniq64(_) => Kind::Uniq64,
            Self::String(_) => Kind::String,
            Self::Layout(_) => Kind::Layout,
            Self::Segment(_) => Kind::Segment,
            Self::Sequence(_) => Kind::Sequence,
        }
    }

    /// Among which IDs its own are to be unique, if that is said.
    pub const fn scope(&self) -> Option<Scope> {
        match self {
            Self::Uniq64(spec) => spec.scope,
            Self::String(spec) => spec.scope,
            Self::Layout(spec) => spec.scope,
            Self::Segment(spec) => spec.scope,
            Self::Sequence(spec) => spec.scope,
        }
    }

    /// The plugins that are to stand around minting by it.
    pub fn plugins(&self) -> &[PluginSpec] {
        match self {
            Self::Uniq64(spec) => &spec.plugins,
            Self::String(spec) => &spec.plugins,
            Self::Layout(spec) => &spec.plugins,
            Self::Segment(spec) => &spec.plugins,
            Self::Sequence(spec) => &spec.plugins,
        }
    }

    /// The form of its numbers, if one is said.
    pub const fn encoding(&self) -> Option<&EncodingSource> {
        match self {
            Self::Uniq64(Uniq64Spec { encoding, .. })
            | Self::Layout(LayoutSpec { encoding, .. })
            | Self::Segment(SegmentSpec { encoding, .. })
            | Self::Sequence(SequenceSpec { encoding, .. }) => encoding.as_ref(),
            Self::String(_) => None,
        }
    }

    /// The definition with this scope.
    #[must_use]
    pub fn with_scope(mut self, scope: Scope) -> Self {
        *self.common_mut().0 = Some(scope);
        self
    }

    /// The definition with these plugins.
    #[must_use]
    pub fn with_plugins(mut self, plugins: Vec<PluginSpec>) -> Self {
        *self.common_mut().1 = plugins;
        self
    }

    /// The parts that every kind may have.
    fn common_mut(&mut self) -> (&mut Option<Scope>, &mut Vec<PluginSpec>) {
        match self {
            Self::Uniq64(spec) => (&mut spec.scope, &mut spec.plugins),
            Self::String(spec) => (&mut spec.scope, &mut spec.plugins),
            Self::Layout(spec) => (&mut spec.scope, &mut spec.plugins),
            Self::Segment(spec) => (&mut spec.scope, &mut spec.plugins),
            Self::Sequence(spec) => (&mut spec.scope, &mut spec.plugins),
        }
    }

    /// The definition with the mark of the secret that its encoding needs, if it needs one and does not say which: of those in
    /// `secrets`, that by which the name is `known`, or the first. And with the layout that its strategy needs, if it says none.
    #[must_use]
    pub fn completed(mut self, secrets: &Secrets, strategies: &Strategies, known: Option<&Namespace>) -> Self {
        if let Self::Uniq64(Uniq64Spec { encoding, .. })
        | Self::Layout(LayoutSpec { encoding, .. })
        | Self::Segment(SegmentSpec { encoding, .. }) = &mut self
        {
            let known = known.and_then(Namespace::encoding).and_then(EncodingSource::secret);
            *encoding = encoding.take().map(|encoding| secrets.complete(encoding, known));
        }
        let Self::Layout(said) = self else { return self };
        let says_none = said.layout.is_none() && said.bits.is_none() && said.fields.is_none();
        let strategy = said.encoding.as_ref().and_then(EncodingSource::by_strategy).filter(|_| says_none);
        Self::Layout(match strategy.and_then(|name| strategies.needs(name)) {
            Some(LayoutSpec { layout, bits, epoch, unit_ms, fields, .. }) => {
                let (epoch, unit_ms) = (said.epoch.or(epoch), said.unit_ms.or(unit_ms));
                LayoutSpec { layout, bits, epoch, unit_ms, fields, ..said }
            }
            None => said,
        })
    }
}

impl Default for Definition {
    /// A generator of kind `uniq64`, as `default` is: the one kind that needs nothing to be said.
    fn default() -> Self {
        Self::Uniq64(Uniq64Spec::default())
    }
}

// A tagged enum's own reader buffers what it reads, and its refusals do not say of which field they are.
impl<'de> Deserialize<'de> for Definition {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut said = Map::deserialize(from)?;
        let kind = said.remove("kind").ok_or_else(|| D::Error::missing_field("kind"))?;
        let kind = Kind::deserialize(kind).map_err(D::Error::custom)?;
        let said = Value::Object(said);
        let read = match kind {
            Kind::Uniq64 => spec(said).map(Self::Uniq64),
            Kind::String => spec(said).map(Self::String),
            Kind::Layout => spec(said).map(Self::Layout),
            Kind::Segment => spec(said).map(Self::Segment),
            Kind::Sequence => spec(said).map(Self::Sequence),
            Kind::Uniq96 => Err("there are no names of it".to_owned()),
        };
        read.map_err(|why| D::Error::custom(format_args!("a generator of kind {kind}: {why}")))
    }
}

fn spec<T: DeserializeOwned>(said: Value) -> Result<T, String> {
    serde_path_to_error::deserialize(said).map_err(|e| e.to_string())
}

#[cfg(feature = "openapi")]
mod schema {
    use super::{Definition, LayoutSpec, SegmentSpec, SequenceSpec, StringSpec, Uniq64Spec};
    use utoipa::openapi::schema::{Discriminator, ObjectBuilder, OneOfBuilder, Schema, Type};
    use utoipa::openapi::{Ref, RefOr};
    use utoipa::{PartialSchema, ToSchema};

    /// A kind, the name of its schema, and that.
    type Spec = (&'static str, &'static str, fn() -> RefOr<Schema>);

    const SPECS: [Spec; 5] = [
        ("uniq64", "Uniq64Spec", Uniq64Spec::schema),
        ("string", "StringSpec", StringSpec::schema),
        ("layout", "LayoutSpec", LayoutSpec::schema),
        ("segment", "SegmentSpec", SegmentSpec::schema),
        ("sequence", "SequenceSpec", SequenceSpec::schema),
    ];

    // The derived one has no discriminator, which makers of clients choose a type by.
    impl PartialSchema for Definition {
        fn schema() -> RefOr<Schema> {
            let mapping = SPECS.map(|(kind, name, _)| (kind, Ref::from_schema_name(name).ref_location));
            let specs = SPECS.iter().map(|(_, name, _)| Ref::from_schema_name(*name));
            let all = specs.fold(OneOfBuilder::new(), OneOfBuilder::item);
            all.discriminator(Some(Discriminator::with_mapping("kind", mapping))).into()
        }
    }

    impl ToSchema for Definition {
        fn schemas(all: &mut Vec<(String, RefOr<Schema>)>) {
            for (kind, name, schema) in SPECS {
                let mut schema = schema();
                if let RefOr::T(Schema::Object(object)) = &mut schema {
                    let tag = ObjectBuilder::new().schema_type(Type::String).enum_values(Some([kind]));
                    object.properties.insert("kind".to_owned(), tag.into());
                    object.required.push("kind".to_owned());
                    // In answers it stands beside other fields.
                    object.additional_properties = None;
                }
                all.push((name.to_owned(), schema));
            }
        }
    }
}

/// The reason why a definition is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamespaceError {
    /// The template is refused.
    #[error("the template cannot be taken: {0}")]
    Template(#[from] TemplateError),
    /// The layout, or what goes with it, is refused.
    #[error(transparent)]
    Layout(#[from] InvalidDefinition),
    /// The part about segments is refused.
    #[error(transparent)]
    Segment(#[from] InvalidSegment),
    /// The part about sequences is refused.
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
    /// Names of this kind, or `default`, do not take this part of a definition.
    #[error("a generator of kind {kind} takes no {what}: leave it out")]
    Superfluous {
        /// The kind that it was to mint.
        kind: Kind,
        /// The part.
        what: &'static str,
    },
    /// Its kind needs a template.
    #[error("a generator of kind {kind} needs a template, e.g. {example}")]
    TemplateMissing {
        /// The kind that it was to mint.
        kind: Kind,
        /// One that will do.
        example: &'static str,
    },
    /// A token type that does not exist.
    #[error(transparent)]
    UnknownTokenType(#[from] UnknownTokenType),
    /// A token type that its kind cannot write.
    #[error("a generator of kind {kind} cannot use {token_type} tokens: it takes {wanted}")]
    TokenType {
        /// The kind that it mints.
        kind: Kind,
        /// The token type that it was to use.
        token_type: TokenType,
        /// The token types that it can use.
        wanted: &'static str,
    },
    /// Each name of this kind has numbers of its own.
    #[error(
        "a {kind} has a name of its own, and its numbers are its own: take another name than 'default', and leave scope kind out"
    )]
    OwnNumbers {
        /// The kind that it was to mint.
        kind: Kind,
    },
    /// A series that all names share does not restart for one of them.
    #[error(
        "all {kind} names of a token share one series of serials, which does not restart: leave everyday_reset out, or say \
         \"scope\":\"own\" if it is fine that other names give equal IDs"
    )]
    SharedReset {
        /// The kind that it was to mint.
        kind: Kind,
    },
    /// A step by which agents would not go.
    #[error("a step of {step} does not fit: {min} to {max}, or leave it out")]
    Step {
        /// The step that was asked for.
        step: u32,
        /// The smallest that fits.
        min: u32,
        /// The largest that fits, as [`step_bounds`](super::Namespace::step_bounds) say.
        max: u32,
    },
}
