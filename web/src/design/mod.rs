//! Layouts of numbers and templates of strings as somebody draws them: what was said, what comes of it, and what is wrong with it.
//! Pure: the time comes in. Their rules stand in `common::layout` and `common::template` alone.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod draft;
mod facts;
mod template;

pub(crate) use draft::{Draft, Fault, FormField, Row, definition_of};
pub(crate) use facts::{Facts, Warning, example_of};
pub(crate) use template::{TemplateDraft, TemplateFacts, TextPart};
