//! Templates of string IDs, accepted only with a proof that their IDs are unique.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::calendar::{DayBucket, UtcOffset};
use crate::token::{TokenFamily, TokenKey};
use serde::{Deserialize, Serialize};

/// The template of the string namespace `default`.
pub const DEFAULT_TEMPLATE: &str = "{date:%Y%m%d}{biz:4}{token}{serial:8}{custom:2}";

/// A template whose IDs are unique for each token, day and serial, and all of one length.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "RawTemplate", into = "RawTemplate")]
pub struct Template {
    source: String,
    family: TokenFamily,
}

#[derive(Serialize, Deserialize)]
struct RawTemplate {
    source: String,
    family: TokenFamily,
}

/// A template with day and token filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundTemplate {}

/// The parts of a string that its caller gives; only [`Template::check_caller`] makes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallerParts {}

/// A piece of a string ID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// What it is.
    pub part: PartKind,
    /// The characters.
    pub text: String,
}

/// What a piece of a string ID is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PartKind {
    /// The template's own characters.
    Literal,
    /// The day.
    Date,
    /// The caller's.
    Biz,
    /// The caller's.
    Custom,
    /// The agent's token.
    Token,
    /// The serial.
    Serial,
    /// Check digits over all that precedes.
    Check,
}

/// A string ID taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenApart {
    /// The day it carries.
    pub day: DayBucket,
    /// The token.
    pub token: TokenKey,
    /// The serial.
    pub serial: u64,
    /// All pieces in their order.
    pub parts: Vec<Part>,
}

/// Why a text is no template, or a template cannot be bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Placeholder.
    #[error("not a template")]
    Refused,
}

/// Why a caller's parts do not fit a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallerError {
    /// Placeholder.
    #[error("not the parts this template needs")]
    Refused,
}

/// Why a text is no ID of a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TakeApartError {
    /// Placeholder.
    #[error("not of this template")]
    Refused,
}

impl Template {
    /// The template that `source` spells, for tokens of `family`.
    ///
    /// # Errors
    /// [`TemplateError`], with the reason for each refusal.
    pub fn parse(source: &str, family: TokenFamily) -> Result<Self, TemplateError> {
        let _ = (source, family);
        todo!()
    }

    /// What it was parsed from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The family its tokens are of.
    pub fn family(&self) -> TokenFamily {
        self.family
    }

    /// Characters in each of its IDs.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        todo!()
    }

    /// Digits of the serial.
    pub fn serial_width(&self) -> u32 {
        todo!()
    }

    /// 10 or 36.
    pub fn serial_radix(&self) -> u32 {
        todo!()
    }

    /// How many IDs one token has in one day: radix ^ width.
    pub fn capacity(&self) -> u64 {
        todo!()
    }

    /// Characters that the caller's `biz` must have; `None` if there is no such part.
    pub fn biz_len(&self) -> Option<u32> {
        todo!()
    }

    /// Characters that the caller's `custom` must have; `None` if there is no such part.
    pub fn custom_len(&self) -> Option<u32> {
        todo!()
    }

    /// The template with its day and token filled in.
    ///
    /// # Errors
    /// [`TemplateError`] if the year has no four digits or the token is of another family.
    pub fn bind(&self, offset: UtcOffset, day: DayBucket, token: TokenKey) -> Result<BoundTemplate, TemplateError> {
        let _ = (offset, day, token);
        todo!()
    }

    /// The caller's parts, checked. An empty text is the same as none.
    ///
    /// # Errors
    /// [`CallerError`] if one is missing, superfluous, of another length, or not of A-Z a-z 0-9.
    pub fn check_caller(&self, biz: Option<&str>, custom: Option<&str>) -> Result<CallerParts, CallerError> {
        let _ = (biz, custom);
        todo!()
    }

    /// The parts of an ID, if it is exactly of this template.
    ///
    /// # Errors
    /// [`TakeApartError`] names the part that does not fit.
    pub fn take_apart(&self, id: &str) -> Result<Vec<Part>, TakeApartError> {
        self.read(id).map(|taken| taken.parts)
    }

    /// As [`take_apart`](Self::take_apart), with day, token and serial as values.
    ///
    /// # Errors
    /// [`TakeApartError`] names the part that does not fit.
    pub fn read(&self, id: &str) -> Result<TakenApart, TakeApartError> {
        let _ = id;
        todo!()
    }
}

impl BoundTemplate {
    /// Appends the ID with that serial, modulo the template's capacity.
    pub fn write(&self, caller: &CallerParts, serial: u64, out: &mut Vec<u8>) {
        let _ = (caller, serial, out);
        todo!()
    }
}

impl TryFrom<RawTemplate> for Template {
    type Error = TemplateError;
    fn try_from(raw: RawTemplate) -> Result<Self, TemplateError> {
        Self::parse(&raw.source, raw.family)
    }
}

impl From<Template> for RawTemplate {
    fn from(template: Template) -> Self {
        Self { source: template.source, family: template.family }
    }
}
