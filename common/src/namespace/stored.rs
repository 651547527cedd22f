//! How plugins stand in a record, without a change of its format.
//!
//! A record has one text, the template or the layout. Of a name with plugins it is `{"plugins":[...],"of":...}`, and behind `of`
//! stands what would be there without them. So records of names without plugins are what they always were, byte for byte; and
//! no template begins like that: what follows `{` in a template is the name of a part.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::NamespaceError;
use crate::plugin::{PluginSpec, SpecError};
use serde::{Deserialize, Serialize};

const START: &str = "{\"plugins\":";

#[derive(Serialize)]
struct Written<'a> {
    plugins: &'a [PluginSpec],
    of: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    plugins: Vec<PluginSpec>,
    of: Option<String>,
}

/// The text of a record.
pub(super) fn written(plugins: &[PluginSpec], of: Option<String>) -> Option<String> {
    if plugins.is_empty() {
        return of;
    }
    // Texts and numbers only: there is nothing in it that JSON has no form for.
    serde_json::to_string(&Written { plugins, of }).ok()
}

/// The plugins, and the text that would be there without them.
///
/// # Errors
/// [`NamespaceError::Plugins`] if it begins as a list of plugins and goes on otherwise.
pub(super) fn read(text: Option<String>) -> Result<(Option<Vec<PluginSpec>>, Option<String>), NamespaceError> {
    let Some(json) = text.as_deref().filter(|text| text.starts_with(START)) else { return Ok((None, text)) };
    let broken = |e: serde_json::Error| SpecError::new(format!("the record cannot be read: {e}"));
    let Read { plugins, of } = serde_json::from_str(json).map_err(broken)?;
    Ok((Some(plugins), of))
}
