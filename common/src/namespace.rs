//! Generators' names, and what they stand for.
//!
//! A name is a namespace and the scope of uniqueness: two names may yield equal values, one name never. Its definition
//! is registered once and never changes.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::template::{DEFAULT_TEMPLATE, Template, TemplateError};
use crate::token::TokenType;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A generator's name: 1 to 15 of a-z 0-9 _ -.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GeneratorName(String);

/// A text that is no generator's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no generator's name: write 1 to {max} of a-z 0-9 _ -", max = GeneratorName::LEN_MAX)]
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
            Err(NameError(text.chars().take(32).collect()))
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

/// What a named generator mints. Uniq96 is not among them: it keeps no serial, so it has no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum GeneratorKind {
    /// 64-bit numbers.
    Uniq64 = 1,
    /// Strings by a template.
    String = 2,
}

/// A number or a name that is no kind of generator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no kind of generator; there are uniq64, string")]
pub struct UnknownKind(String);

impl GeneratorKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Uniq64, Self::String];

    /// The number in the serial file's flags.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The name in URLs and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniq64 => "uniq64",
            Self::String => "string",
        }
    }
}

impl TryFrom<u8> for GeneratorKind {
    type Error = UnknownKind;
    fn try_from(number: u8) -> Result<Self, UnknownKind> {
        Self::ALL.into_iter().find(|kind| kind.number() == number).ok_or_else(|| UnknownKind(number.to_string()))
    }
}

impl FromStr for GeneratorKind {
    type Err = UnknownKind;
    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownKind(name.chars().take(32).collect()))
    }
}

impl fmt::Display for GeneratorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a name stands for. Built only by checks, so the parts fit each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "RawNamespace", into = "RawNamespace")]
pub struct Namespace {
    name: GeneratorName,
    kind: GeneratorKind,
    token_type: TokenType,
    template: Option<Template>,
    everyday_reset: bool,
    step: u32,
}

#[derive(Serialize, Deserialize)]
struct RawNamespace {
    name: GeneratorName,
    kind: GeneratorKind,
    token_type: TokenType,
    template: Option<String>,
    everyday_reset: bool,
    step: u32,
}

/// A definition as a person writes it in JSON; what is left out is as in the namespace `default` of that kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// What it mints.
    pub kind: GeneratorKind,
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
}

/// Why a definition is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceError {
    /// The template is refused.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

impl Namespace {
    /// The step when nothing else is said.
    pub const STEP_DEFAULT: u32 = 10_000;

    /// The namespace that `definition` makes of `name`.
    ///
    /// # Errors
    /// [`NamespaceError`], with the reason.
    pub fn define(name: GeneratorName, definition: &Definition) -> Result<Self, NamespaceError> {
        let _ = (name, definition);
        todo!()
    }

    /// The namespace `default` of that kind.
    pub fn default_of(kind: GeneratorKind) -> Self {
        let _ = (kind, DEFAULT_TEMPLATE);
        todo!()
    }

    /// The definition as a person writes it, with nothing left out.
    pub fn definition(&self) -> Definition {
        todo!()
    }

    /// Its name.
    pub fn name(&self) -> &GeneratorName {
        &self.name
    }

    /// What it mints.
    pub fn kind(&self) -> GeneratorKind {
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

    /// How many serials are reserved at once at first.
    pub fn step(&self) -> u32 {
        self.step
    }

    /// A number that stands for the definition in the serial file; the step is no part of it.
    pub fn checksum(&self) -> u64 {
        todo!()
    }
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
        };
        Self::define(raw.name, &definition)
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
        }
    }
}
