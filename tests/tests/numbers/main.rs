//! Plain numbers in segments, and numbers of keys in sections, on real masters and agents.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

mod sections;
mod segments;
mod sequence_order;
mod sequences;
