//! Takes an ID apart without knowing where it came from.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::TextForm;
use crate::template::{Part, Template};
use serde::Serialize;
use std::fmt;

/// What an ID is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IdKind {
    /// 64 bits.
    Uniq64,
    /// 96 bits.
    Uniq96,
    /// By a template.
    String,
}

/// All that an ID tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// The text.
    pub id: String,
    /// The first reading.
    #[serde(flatten)]
    pub reading: Reading,
    /// Other readings of the same text, if there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Reading>,
}

/// One way in which a text is an ID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reading {
    /// What it is.
    pub kind: IdKind,
    /// The form it is written in; `None` for strings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<TextForm>,
    /// The time it carries, in the cluster's offset, which the ID does not carry: `2026-11-20`, `2026-11-20T13` or
    /// `2026-11-20T13:05:06.999`.
    pub time: String,
    /// The token.
    pub token: TokenText,
    /// The serial.
    pub serial: u64,
    /// The same ID in all text forms; `None` for strings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub texts: Option<TextForms>,
    /// The template by which it reads; `None` for integers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// What it consists of; empty for integers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

/// A token: a number in integers, characters in strings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum TokenText {
    /// Of a `uint` type.
    Number(u32),
    /// Of a string type.
    Characters(String),
}

/// One integer ID in all forms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TextForms {
    /// [`TextForm::Decimal`].
    pub decimal: String,
    /// [`TextForm::Hex`].
    pub hex: String,
    /// [`TextForm::Base32`].
    pub base32: String,
    /// [`TextForm::Uri`].
    pub uri: String,
}

/// Why a text tells nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ExplainError(String);

/// Every way in which `text` is an ID: as Uniq64, as Uniq96, by one of `templates`, in this order.
///
/// # Errors
/// [`ExplainError`] if it is none.
pub fn explain(text: &str, templates: &[&Template]) -> Result<Explained, ExplainError> {
    let _ = (text, templates);
    todo!()
}

impl fmt::Display for IdKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uniq64 => "uniq64",
            Self::Uniq96 => "uniq96",
            Self::String => "string",
        })
    }
}

impl fmt::Display for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(value) => write!(f, "{value}"),
            Self::Characters(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)
    }
}
