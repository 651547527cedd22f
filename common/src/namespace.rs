//! Generators' names, and what they stand for.
//!
//! A name is a namespace. Its definition is registered once and never changes. By default the scope of uniqueness is the
//! whole kind: no two names of a kind ever give equal IDs. A name whose scope is its own may give what others give.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::calendar::UtcOffset;
use crate::digits::shown;
use crate::kind::{Form, Kind, Spec};
use crate::parameters::ClusterId;
use crate::template::{Overlap, Template, TemplateError};
use crate::time::WallMs;
use crate::token::{TokenKey, TokenType, TokenValue, UnknownTokenType};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A generator's name: 1 to 15 of a-z 0-9 _ -.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GeneratorName(String);

/// A text that is not a generator's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a generator's name: write 1 to {max} of a-z 0-9 _ -", max = GeneratorName::LEN_MAX)]
pub struct NameError(String);

impl GeneratorName {
    /// The longest name, in characters: a block of the serial file has 16 bytes for it, the last one NUL.
    pub const LEN_MAX: usize = 15;
    /// The name that exists for every kind.
    pub const DEFAULT: &'static str = "default";

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is [`DEFAULT`](Self::DEFAULT).
    pub fn is_default(&self) -> bool {
        self.0 == Self::DEFAULT
    }
}

impl Default for GeneratorName {
    fn default() -> Self {
        Self(Self::DEFAULT.to_owned())
    }
}

impl FromStr for GeneratorName {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Self, NameError> {
        let fits = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        if (1..=Self::LEN_MAX).contains(&text.len()) && text.bytes().all(fits) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NameError(shown(text)))
        }
    }
}

impl TryFrom<String> for GeneratorName {
    type Error = NameError;
    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<GeneratorName> for String {
    fn from(name: GeneratorName) -> Self {
        name.0
    }
}

impl fmt::Display for GeneratorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

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

/// What a name stands for. Built only by checks, so the parts fit each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "RawNamespace", into = "RawNamespace")]
pub struct Namespace {
    name: GeneratorName,
    kind: Kind,
    token_type: TokenType,
    template: Option<Template>,
    everyday_reset: bool,
    step: u32,
    scope: Scope,
    /// Whether it was registered before there were scopes.
    early: bool,
}

#[derive(Serialize, Deserialize)]
struct RawNamespace {
    name: GeneratorName,
    kind: Kind,
    token_type: TokenType,
    template: Option<String>,
    everyday_reset: bool,
    step: u32,
    scope: Scope,
    early: bool,
}

/// A namespace as records kept it before there were scopes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EarlyNamespace {
    name: GeneratorName,
    kind: Kind,
    token_type: TokenType,
    template: Option<String>,
    everyday_reset: bool,
    step: u32,
}

impl TryFrom<EarlyNamespace> for Namespace {
    type Error = NamespaceError;
    fn try_from(early: EarlyNamespace) -> Result<Self, NamespaceError> {
        let EarlyNamespace { name, kind, token_type, template, everyday_reset, step } = early;
        let scope = Scope::Own;
        Self::try_from(RawNamespace { name, kind, token_type, template, everyday_reset, step, scope, early: true })
    }
}

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
    /// How many serials are reserved at once at first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// `kind` (the default): no other name of this kind gives equal IDs. `own`: others may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub scope: Option<Scope>,
}

impl Definition {
    /// A generator of kind `string` with this template; everything else as in `default`.
    pub fn string(template: impl Into<String>) -> Self {
        Self { kind: Kind::String, template: Some(template.into()), ..Self::default() }
    }
}

impl Default for Definition {
    /// A generator of kind `uniq64`, as `default` is: the one kind that needs nothing to be said. End what you write in code
    /// with `..Definition::default()`: there may be more to say one day.
    fn default() -> Self {
        let kind = Kind::Uniq64;
        Self { kind, token_type: None, template: None, everyday_reset: None, step: None, scope: None }
    }
}

/// Why a definition is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamespaceError {
    /// The template is refused.
    #[error("the template cannot be taken: {0}")]
    Template(#[from] TemplateError),
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
    /// A series that all names share does not restart for one of them.
    #[error(
        "all {kind} names of a token share one series of serials, which does not restart: leave everyday_reset out, or say \
         \"scope\":\"own\" if it is fine that other names give equal IDs"
    )]
    SharedReset {
        /// What it was to mint.
        kind: Kind,
    },
    /// A step of 0, or more than there are serials.
    #[error("a step of {step} does not fit: 1 to {max}")]
    Step {
        /// What was asked for.
        step: u32,
        /// The largest that fits: [`Namespace::STEP_MAX`], or the serials of a day if those are fewer.
        max: u32,
    },
}

impl Namespace {
    /// The step when nothing else is said: about one write a batch at the usual sizes, and little lost in a crash.
    pub const STEP_DEFAULT: u32 = 100_000;
    /// The largest step: what a crash can lose at most, less than 1 % of a Uniq64's hour.
    pub const STEP_MAX: u32 = 10_000_000;

    /// The namespace that `definition` makes of `name`.
    ///
    /// # Errors
    /// [`NamespaceError`], with the reason.
    pub fn define(name: GeneratorName, definition: &Definition) -> Result<Self, NamespaceError> {
        let kind = definition.kind;
        let Spec { right, form, definition: definable, .. } = kind.spec();
        let definable = definable.as_ref().ok_or(NamespaceError::Nameless { kind })?;
        let token_type = match &definition.token_type {
            Some(text) => text.parse()?,
            None => right.token_type,
        };
        let template = match (form, &definition.template) {
            (Form::Number { .. }, Some(_)) => return Err(NamespaceError::TemplateSuperfluous { kind }),
            (Form::Template { default }, None) => {
                return Err(NamespaceError::TemplateMissing { kind, example: default });
            }
            _ if !right.token_types.contains(&token_type) => {
                return Err(NamespaceError::TokenType { kind, token_type, wanted: right.wanted });
            }
            (_, None) => None,
            (_, Some(source)) => Some(Template::parse(source, token_type.family())?),
        };
        let capacity = capacity_of(kind, template.as_ref());
        let max = u32::try_from(capacity).unwrap_or(u32::MAX).min(Self::STEP_MAX);
        let step = definition.step.unwrap_or(Self::STEP_DEFAULT.min(max));
        if !(1..=max).contains(&step) {
            return Err(NamespaceError::Step { step, max });
        }
        let everyday_reset = definition.everyday_reset.unwrap_or(definable.everyday_reset);
        let scope = definition.scope.unwrap_or_default();
        if everyday_reset && scope == Scope::Kind && definable.shared_serials {
            return Err(NamespaceError::SharedReset { kind });
        }
        Ok(Self { name, kind, token_type, template, everyday_reset, step, scope, early: false })
    }

    /// The namespace `default` of that kind.
    pub fn default_of(kind: Kind) -> Self {
        let token_type = kind.default_token_type();
        let template = match kind.spec().form {
            Form::Number { .. } => None,
            Form::Template { default } => Template::parse(default, token_type.family()).ok(),
        };
        let everyday_reset = kind.spec().definition.as_ref().is_some_and(|definable| definable.everyday_reset);
        let (name, step, scope) = (GeneratorName::default(), Self::STEP_DEFAULT, Scope::Kind);
        Self { name, kind, token_type, template, everyday_reset, step, scope, early: false }
    }

    /// An ID of that instant, token and serial, as this namespace writes it; the caller's parts are letters. `None` if they
    /// do not fit.
    pub fn example(&self, offset: UtcOffset, at: WallMs, token: TokenValue, serial: u32) -> Option<String> {
        let template = match (&self.kind.spec().form, &self.template) {
            (Form::Number { decimal, .. }, _) => return decimal(offset, at, token, serial).ok(),
            (Form::Template { .. }, template) => template.as_ref()?,
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
        Definition {
            kind: self.kind,
            token_type: Some(self.token_type.name().to_owned()),
            template: self.template.as_ref().map(|template| template.source().to_owned()),
            everyday_reset: Some(self.everyday_reset),
            step: Some(self.step),
            scope: Some(self.scope),
        }
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

    /// Whether `known`, which is registered, is what this definition asks for. One that was registered before there were
    /// scopes has its own; a program that says again what it said then goes on with it.
    pub fn is_met_by(&self, known: &Self) -> bool {
        let scope = if known.early { known.scope } else { self.scope };
        Self { scope, early: known.early, ..self.clone() }.same_ids(known)
    }

    /// A string that both can write, if it cannot be proved that there is none; only strings are compared. `None`: proved.
    pub fn overlap(&self, other: &Self) -> Option<Overlap> {
        let (mine, its) = (self.template.as_ref()?, other.template.as_ref()?);
        Some(mine.overlap(self.token_type, its, other.token_type)).filter(|overlap| *overlap != Overlap::Disjoint)
    }

    /// Its name.
    pub fn name(&self) -> &GeneratorName {
        &self.name
    }

    /// What it mints.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The type of token it needs.
    pub fn token_type(&self) -> TokenType {
        self.token_type
    }

    /// The template; there for strings and only for them.
    pub fn template(&self) -> Option<&Template> {
        self.template.as_ref()
    }

    /// Whether the serial starts at 0 when the day grows.
    pub fn everyday_reset(&self) -> bool {
        self.everyday_reset
    }

    /// How many IDs one token can give in the kind's unit of time.
    pub fn capacity(&self) -> u64 {
        capacity_of(self.kind, self.template.as_ref())
    }

    /// How many serials are reserved at once at first.
    pub fn step(&self) -> u32 {
        self.step
    }

    /// Whether both give the same IDs: all is equal but perhaps the step.
    pub fn same_ids(&self, other: &Self) -> bool {
        let ids = |namespace: &Self| Self { step: 0, ..namespace.clone() };
        ids(self) == ids(other)
    }

    /// A number that stands for the definition in the serial file.
    ///
    /// FNV-1a of 64 bits over these bytes: `1 u8 version=1 · 1 u8 kind · 1 u8 token type's wire number · 1 u8
    /// everyday_reset (0, 1) · 1 u8 length of the name, the name · 2 u16 little-endian length of the template, the
    /// template` (length 0 for Uniq64). The step is not part of it: it says how often the file is written, not which IDs
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
        let template = self.template.as_ref().map_or("", Template::source).as_bytes();
        // Both lengths fit: a name has at most 15 bytes, a template at most 256.
        let [name_len, ..] = name.len().to_le_bytes();
        let [low, high, ..] = template.len().to_le_bytes();
        let head = [CHECKSUM_VERSION, self.kind.number(), self.token_type.wire(), self.everyday_reset.into(), name_len];
        head.iter().chain(name).chain(&[low, high]).chain(template).copied().collect()
    }
}

fn capacity_of(kind: Kind, template: Option<&Template>) -> u64 {
    match (&kind.spec().form, template) {
        (Form::Number { serials, .. }, _) => *serials,
        (Form::Template { .. }, template) => template.map_or(0, Template::capacity),
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

impl TryFrom<RawNamespace> for Namespace {
    type Error = NamespaceError;
    fn try_from(raw: RawNamespace) -> Result<Self, NamespaceError> {
        let definition = Definition {
            kind: raw.kind,
            token_type: Some(raw.token_type.name().to_owned()),
            template: raw.template,
            everyday_reset: Some(raw.everyday_reset),
            step: Some(raw.step),
            scope: Some(raw.scope),
        };
        let early = raw.early && raw.scope == Scope::Own;
        Ok(Self { early, ..Self::define(raw.name, &definition)? })
    }
}

impl From<Namespace> for RawNamespace {
    fn from(namespace: Namespace) -> Self {
        Self {
            template: namespace.template.as_ref().map(|template| template.source().to_owned()),
            name: namespace.name,
            kind: namespace.kind,
            token_type: namespace.token_type,
            everyday_reset: namespace.everyday_reset,
            step: namespace.step,
            scope: namespace.scope,
            early: namespace.early,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::DEFAULT_TEMPLATE;

    fn name(text: &str) -> GeneratorName {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_left_out_of_a_definition_is_as_in_default() {
        let orders: GeneratorName = "orders".parse().unwrap();
        let of = |definition: &Definition| Namespace::define(orders.clone(), definition).unwrap().definition();
        assert_eq!(of(&Definition::default()), Namespace::default_of(Kind::Uniq64).definition());
        let default = Namespace::default_of(Kind::String).definition();
        assert_eq!(of(&Definition::string(DEFAULT_TEMPLATE)), default);
    }

    fn string(template: &str) -> Definition {
        Definition {
            kind: Kind::String,
            token_type: None,
            template: Some(template.to_owned()),
            everyday_reset: None,
            step: None,
            scope: None,
        }
    }

    const UNIQ64: Definition = Definition {
        kind: Kind::Uniq64,
        token_type: None,
        template: None,
        everyday_reset: None,
        step: None,
        scope: None,
    };

    #[test]
    fn names_are_short_and_of_few_characters() {
        for good in ["a", "default", "order-no_2", "0", "abcdefghijklmno"] {
            assert_eq!(name(good).as_str(), good);
        }
        for bad in ["", "abcdefghijklmnop", "Orders", "a b", "a/b", "ä", "a\0", "."] {
            let refusal = bad.parse::<GeneratorName>().unwrap_err().to_string();
            assert!(refusal.contains("1 to 15 of a-z 0-9 _ -"), "{refusal}");
        }
    }

    #[test]
    fn the_defaults_are_what_their_definitions_define() {
        let defaults = Kind::NAMED.map(Namespace::default_of);
        for namespace in &defaults {
            assert_eq!(Namespace::define(namespace.name().clone(), &namespace.definition()).as_ref(), Ok(namespace));
        }
        let [uniq64, text] = defaults;
        assert_eq!((uniq64.token_type(), uniq64.template()), (TokenType::Uint2, None));
        assert_eq!(text.token_type(), TokenType::String2IncludeLetter);
        assert_eq!(text.template().map(Template::source), Some(DEFAULT_TEMPLATE));
        assert_eq!(Namespace::define(name("default"), &UNIQ64), Ok(uniq64));
        assert_eq!(Namespace::define(name("default"), &string(DEFAULT_TEMPLATE)), Ok(text));
    }

    #[test]
    fn parts_that_do_not_fit_each_other_are_refused() {
        let short = string("{date:%F}{token}{serial:3}");
        let with = |token_type: &str, base: &Definition| Definition {
            token_type: Some(token_type.to_owned()),
            ..base.clone()
        };
        for (definition, reason) in [
            (Definition { template: Some(DEFAULT_TEMPLATE.to_owned()), ..UNIQ64 }, "takes no template"),
            (Definition { template: None, ..short.clone() }, "needs a template"),
            (string("{date:%F}{token}"), "serial is missing"),
            (with("uint1", &UNIQ64), "it takes uint2"),
            (with("uint2", &short), "string3 types"),
            (with("string4", &short), "not a token type"),
            (Definition { kind: Kind::Uniq96, ..UNIQ64 }, "no generators of kind uniq96"),
            (Definition { everyday_reset: Some(true), ..UNIQ64 }, "\"scope\":\"own\""),
            (Definition { step: Some(0), ..UNIQ64 }, "1 to 10000000"),
            (Definition { step: Some(Namespace::STEP_MAX + 1), ..UNIQ64 }, "1 to 10000000"),
            (Definition { step: Some(1_001), ..short.clone() }, "1 to 1000"),
        ] {
            let refusal = Namespace::define(name("n"), &definition).unwrap_err().to_string();
            assert!(refusal.contains(reason), "{refusal}");
        }
        assert_eq!(Namespace::define(name("n"), &short).unwrap().step(), 1_000);
        assert_eq!(
            Namespace::define(name("n"), &with("string3-only-number", &short)).unwrap().template().unwrap().len(),
            16
        );
    }

    #[test]
    fn the_checksum_is_stable_and_tells_definitions_apart() {
        assert_eq!(
            [&b""[..], b"a", b"foobar"].map(|bytes| fnv1a(bytes.iter())),
            [0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8]
        );
        let definitions = [
            ("n", UNIQ64),
            ("m", UNIQ64),
            ("n", Definition { everyday_reset: Some(true), scope: Some(Scope::Own), ..UNIQ64 }),
            ("n", string(DEFAULT_TEMPLATE)),
            ("n", string("{date:%F}{token}{serial:8}")),
            ("n", Definition { token_type: Some("string3-only-number".to_owned()), ..string(DEFAULT_TEMPLATE) }),
            ("n", Definition { token_type: Some("string2-only-number".to_owned()), ..string(DEFAULT_TEMPLATE) }),
        ];
        let sums: std::collections::BTreeSet<_> =
            definitions.iter().map(|(n, d)| Namespace::define(name(n), d).unwrap().checksum()).collect();
        assert_eq!(sums.len(), definitions.len());
        let other_step = Definition { step: Some(7), ..UNIQ64 };
        let [one, other] = [UNIQ64, other_step].map(|d| Namespace::define(name("n"), &d).unwrap());
        assert_eq!(one.checksum(), other.checksum());
        assert_ne!(one, other);
    }

    /// Another program worked these out. They stand in serial files: other bytes need another version and a migration.
    #[test]
    fn golden_checksums_of_the_defaults() {
        assert_eq!(
            Kind::NAMED.map(|kind| Namespace::default_of(kind).checksum()),
            [0x5457_d825_34a3_0a6f, 0xde23_656b_a35c_c656]
        );
    }

    #[test]
    fn a_blocks_number_tells_its_cluster_and_its_definition() {
        let [orders, other] = ["{date:%F}{token}{serial:8}", "{date:%F}{token}{serial:7}"]
            .map(|template| Namespace::define(name("orders"), &string(template)).unwrap());
        let (here, there) = (ClusterId(1), ClusterId(1 << 127));
        let sum = orders.checksum_in(here);
        assert!(Namespace::same_cluster(sum, here) && !Namespace::same_cluster(sum, there));
        assert!(Namespace::same_cluster(other.checksum_in(here), here) && other.checksum_in(here) != sum);
        assert_ne!(orders.checksum_in(there), sum);
        assert!(!Namespace::same_cluster(orders.checksum(), here), "one made before clusters were told apart");
        // It stands in serial files.
        assert_eq!(format!("{sum:016x}"), "9892ec446b65a730");
        let default = Namespace::default_of(Kind::Uniq64);
        assert_eq!(default.checksum_in(here), default.checksum());
    }

    /// The bytes are those that programs without scopes wrote.
    #[test]
    fn a_name_registered_before_there_were_scopes_has_its_own_and_may_be_asked_for_again() {
        let uint2 = bincode::serialize(&TokenType::Uint2).unwrap();
        let old = [&6u64.to_le_bytes()[..], b"orders", &[0; 4], &uint2, &[0, 0], &100_000u32.to_le_bytes()].concat();
        let early: EarlyNamespace = bincode::deserialize(&old).unwrap();
        let known = Namespace::try_from(early).unwrap();
        assert_eq!(
            (known.scope(), known.shares_serials(), known.definition().scope),
            (Scope::Own, false, Some(Scope::Own))
        );
        let asked = |scope| Namespace::define(name("orders"), &Definition { scope, ..UNIQ64 }).unwrap();
        for scope in [None, Some(Scope::Kind), Some(Scope::Own)] {
            assert!(asked(scope).is_met_by(&known), "{scope:?}");
        }
        assert!(asked(None).shares_serials() && !Namespace::default_of(Kind::Uniq64).shares_serials());
        assert!(!asked(None).is_met_by(&asked(Some(Scope::Own))) && !asked(Some(Scope::Own)).is_met_by(&asked(None)));
        let again = bincode::deserialize::<Namespace>(&bincode::serialize(&known).unwrap()).unwrap();
        assert_eq!(again, known);
    }

    #[test]
    fn json_and_records_read_back_and_are_checked() {
        let json = r#"{"kind":"string","template":"{date:%F}{token}{serial:4}","everyday_reset":false,"step":50}"#;
        let definition: Definition = serde_json::from_str(json).unwrap();
        let namespace = Namespace::define(name("orders"), &definition).unwrap();
        assert_eq!((namespace.step(), namespace.everyday_reset()), (50, false));
        let bytes = bincode::serialize(&namespace).unwrap();
        assert_eq!(bincode::deserialize::<Namespace>(&bytes).unwrap(), namespace);
        let foreign = bincode::serialize(&("Orders", 0u32)).unwrap();
        assert!(bincode::deserialize::<Namespace>(&foreign).is_err());
        assert!(serde_json::from_str::<Definition>(r#"{"kind":"uniq64","steps":1}"#).is_err());
        assert!(serde_json::from_str::<Definition>(r#"{"kind":"uniq96"}"#).is_err());
    }
}
