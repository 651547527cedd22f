//! Layouts of numbers as somebody draws them: what was said, what comes of it, and what is wrong with it. Pure: the time comes
//! in. The rules of layouts stand in `common::layout` alone.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod draft;
mod facts;

pub(crate) use draft::{Draft, Fault, FormField, Row, definition_of};
pub(crate) use facts::{Facts, Warning, example_of};
