//! Requests, answers and messages between the programs, as data.
//!
//! All of it is pure, like `ids`, on which alone it stands. The services that take these and the connections that carry them are in
//! `net::rpc`. Requests travel as the index of an enum, so variants are only ever appended, and whoever meets says first which
//! [`PROTOCOL`] it speaks.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod enroll;
pub mod lease;
pub mod mint;
pub mod names;
pub mod peer;
pub mod ranges;

/// Grows with every change of the wire that older programs cannot read.
pub const PROTOCOL: u32 = 17;
/// The longest frame, in bytes: 100,000 Uniq96 in one answer, or 256 records of full length in one page.
pub const FRAME_LEN_MAX: usize = 4 << 20;
/// The longest frame of a call, in bytes. The longest honest one has the names of 200 generators, or a report with texts, and
/// some kilobytes.
pub const CALL_LEN_MAX: usize = 64 << 10;
