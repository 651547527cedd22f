//! Sequences in the hands of an agent: which sections it serves and until when, and the number of each key.
//!
//! Masters list sections for a session ([`Allocator`]). An agent serves a section until so long after it *sent* the last question that was
//! answered with it, and begins so long after it *received* the first such answer, that clocks whose rates differ by a hundredth cannot make
//! two agents serve it at once. That is for the order of numbers. That none is given twice needs no clock: a number is given only below a
//! bound (`max_seq`) that a master has made durable for this owner ([`SectionState`]), and whoever serves next begins at the bound.
//!
//! A process that is started again goes on as the same owner, if it wrote down how far it went ([`Bounds`]) before it gave the numbers: it
//! begins at what it wrote, or at what a master says, if that is more, and has nobody to wait for. As whom a start goes on says [`Start`].
//!
//! Nothing here reads a clock or asks a master: time comes in, and what has to be done comes out.

mod allocator;
mod bounds;
mod counters;
mod held;
mod life;
mod loads;
#[cfg(test)]
mod order_tests;
#[cfg(test)]
mod resume_tests;
mod section;

pub use allocator::{Allocator, Kept, LEASE_MAX, LEASE_MIN, Listed, NotKept};
pub use bounds::{Bound, Bounds, RUNS_MAX};
pub use counters::Counters;
pub use held::{HeldRange, HeldRanges, Ownership, Tenure};
pub use life::{Decision, Life, Start};
pub use loads::Loads;
pub use section::{RaiseOutcome, SectionState, Taken};
