//! Layouts of numbers as somebody draws them: what was said, what comes of it, and what is wrong with it. Pure: what time it is
//! comes in. What a layout is and why one is refused says `common::layout` alone.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod draft;
mod facts;

pub(crate) use draft::{Draft, Fault, Place, Row, definition_of};
pub(crate) use facts::{Facts, Warning, example_of};
