//! Sequences in the hands of an agent: which sections it serves and until when, and the number of each key.
//!
//! Masters list sections for a session ([`Allocator`]). An agent serves a section until so long after it *sent* the last question that was
//! answered with it, and begins so long after it *received* the first such answer, that clocks whose rates differ by a hundredth cannot make
//! two agents serve it at once. That is for the order of numbers. That none is given twice needs no clock: a number is given only below a
//! bound (`max_seq`) that a master has made durable for this owner ([`SectionState`]), and whoever serves next begins at the bound.
//!
//! Nothing here reads a clock or asks a master: time comes in, and what has to be done comes out.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod allocator;
mod counters;
mod held;
#[cfg(test)]
mod order_tests;
mod section;

pub use allocator::{Allocator, Kept, LEASE_MAX, LEASE_MIN, NotKept};
pub use counters::Counters;
pub use held::{Held, HeldRange, Standing};
pub use section::{RECORD_LEN, SectionState, Taken};
