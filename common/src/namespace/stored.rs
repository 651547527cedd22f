//! How plugins, and the encoding of a Uniq64, stand in a record, without a change of its format.
//!
//! A record has one text, the template or the layout. Of a name with plugins or with such an encoding it is
//! `{"plugins":[...],"encoding":...,"of":...}`, and behind `of` stands what would be there without them. So records of names that have
//! neither are what they always were, byte for byte; and
//! no template begins like that: what follows `{` in a template is the name of a part.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::NamespaceError;
use crate::encoding::EncodingSource;
use crate::plugin::{PluginSpec, SpecError};
use serde::{Deserialize, Serialize};

const START: &str = "{\"plugins\":";

#[derive(Serialize)]
struct Written<'a> {
    plugins: &'a [PluginSpec],
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'a EncodingSource>,
    of: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    plugins: Vec<PluginSpec>,
    #[serde(default)]
    encoding: Option<EncodingSource>,
    of: Option<String>,
}

/// The text of a record.
pub(super) fn written(plugins: &[PluginSpec], encoding: Option<&EncodingSource>, of: Option<String>) -> Option<String> {
    if plugins.is_empty() && encoding.is_none() {
        return of;
    }
    // Texts and numbers only: there is nothing in it that JSON has no form for.
    serde_json::to_string(&Written { plugins, encoding, of }).ok()
}

/// What stands in a record's text.
#[derive(Debug, Default)]
pub(super) struct Stored {
    /// The plugins, if it has some.
    pub(super) plugins: Option<Vec<PluginSpec>>,
    /// How a Uniq64 is written, if the definition says it.
    pub(super) encoding: Option<EncodingSource>,
    /// The text that would be there without them.
    pub(super) of: Option<String>,
}

/// Takes the text of a record apart.
///
/// # Errors
/// [`NamespaceError::Plugins`] if it begins as a list of plugins and goes on otherwise.
pub(super) fn read(text: Option<String>) -> Result<Stored, NamespaceError> {
    let Some(json) = text.as_deref().filter(|text| text.starts_with(START)) else {
        return Ok(Stored { of: text, ..Stored::default() });
    };
    let broken = |e: serde_json::Error| SpecError::new(format!("the record cannot be read: {e}"));
    let Read { plugins, encoding, of } = serde_json::from_str(json).map_err(broken)?;
    Ok(Stored { plugins: Some(plugins), encoding, of })
}
