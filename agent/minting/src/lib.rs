//! The deciding parts of an agent: what may be minted now, and what of it is left.
//!
//! [`holder`] is the lessee's machine, which says when to ask for a lease, to renew it, to give it up. [`gate`] is the right to mint now,
//! [`serial`], [`window`] and [`ticks`] are what is given out under it, [`segments`] plain numbers, [`mod@sequence`] the numbers of keys.
//!
//! All of it is pure: no IO, no clock, no randomness, no locks; the atomics of the windows are the one thing that threads share
//! ([`sync`]). Who reads the clock, writes the files and talks to masters and clients is the crate `agent`.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod gate;
pub mod holder;
pub mod refusal;
pub mod run;
pub mod segments;
pub mod sequence;
pub mod serial;
pub mod sync;
pub mod ticks;
pub mod timebase;
pub mod window;
pub mod years;

#[cfg(test)]
mod window_tests;
