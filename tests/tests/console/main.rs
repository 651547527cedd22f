//! The console of two real masters: its pages in a real browser, and who may do what by its API.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

mod access;
mod axes;
mod pages;
