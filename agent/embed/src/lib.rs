//! Order numbers, transaction IDs and message IDs that never repeat, minted in your own process, in nanoseconds.
//!
//! [`Embedded`] is an agent of UniqGenerator within an application: it leases small *tokens* from two masters (`uniq_master`) and
//! stamps them, with a time and a serial, into IDs. It asks nobody for an ID; its leases last for days, also while both masters are
//! away. Applications that cannot keep a file, or are not written in Rust, ask the program `uniq_generator` over the network
//! instead, from Rust with the crate `uniq-client`: the IDs are of the same kinds and the same names.
//!
//! # Why no ID repeats
//! A lease is a rectangle on the ID's own axis of time: one token, and the days it may be written with. A token changes its holder
//! only when both masters have it on disk, and rectangles of different holders never overlap. Within its own rectangle an agent
//! counts: how far its serials may go is durable in its *serial file* before one of them is used. So neither a crash, nor a clock
//! that is set back, nor a copied or restored serial file repeats an ID: minting is refused instead ([`MintError`]), and a refusal
//! never comes with an ID. What is given to you and you lose is a gap; nobody gets it again. A child of `fork` has no right to mint
//! and is told so ([`MintError::Forked`]; only the C library's `fork` is noticed, not a bare system call).
//!
//! # What it needs
//! * Two masters in reach, at the start and now and then: to lease, and to renew (every hour if nothing else is said).
//! * A serial file on a local disk, made once by [`format()`] or `uniq_generator --format --serial-file FILE`, for each process its own: it
//!   is locked while the process runs.
//! * Where masters have certificates, one of its own, which an invitation brings once ([`redeem`]).
//! * A thread of ours with a small runtime, for the masters. Yours need none; minting blocks only when it has to wait for the disk,
//!   so an asynchronous program calls it where it may block.
//!
//! In an application's tests, and for trying, it needs neither masters nor a file: a process of [`Settings::dev`] is its own masters, gives
//! IDs of all kinds, those of sequences too, and keeps nothing ([`Settings::dev_in`]: in a folder).
//!
//! # An example
//! This is `examples/orders.rs`; tests run it with real masters. With `scripts/quickstart.sh` running,
//! `uniq_master --data-dir .quickstart/master-1 --tls-dir .quickstart/master-1/tls --invite agent/orders-1 | uniq_generator --format
//! --serial-file orders.serial --invitation -` makes the serial file and a certificate, and then
//! `cargo run -p uniq-embed --example orders -- orders.serial 127.0.0.1:7101 127.0.0.1:7102` mints.
//!
//! ```no_run
#![doc = include_str!("../examples/orders.rs")]
//! ```
//!
//! # Kinds and names
//! | | method | made of | sorts |
//! |---|---|---|---|
//! | Uniq64 | [`get_uniq64`](UniqGenerator::get_uniq64) | hour, token, serial: a `u64` | by the hour, then the token |
//! | Uniq96 | [`get_uniq96`](UniqGenerator::get_uniq96) | millisecond, token, serial: the low 96 bits of a `u128` | by the millisecond, then the token |
//! | layout | [`get_number`](UniqGenerator::get_number) | the bits that the definition says: the low bits of a `u128` | as its fields do |
//! | segment | [`get_segment`](UniqGenerator::get_segment) | plain numbers, each once, of ranges that masters grant: a `u64` | within a segment |
//! | any of them | [`get_id`](UniqGenerator::get_id) | a text, as the definition writes it; also by a [`strategy`] of yours | |
//! | string | [`get_uniq_string`](UniqGenerator::get_uniq_string) | a template: date, token, serial, the caller's parts, check digits | as the template says |
//!
//! A name of kind `sequence` has a counter for each key ([`Embedded::get_sequence`]). Agents serve it; an application asks the one that serves
//! the key, so that is a call over the network and not a matter of nanoseconds.
//!
//! The name `default` is always there. Others are registered with both masters, for ever, and then known to every agent
//! ([`Embedded::create_uniq_generator`]). No two names of a kind give equal IDs, unless their definition says so ([`Scope`]).
//!
//! # How fast
//! A generator for all threads ([`Shared`]) and one for a thread alone ([`PerThread`], by [`Shared::per_thread`]) take numbers in blocks,
//! which grow with what a thread mints, and touch nothing that another thread writes often: an ID costs a few comparisons. What a thread gets
//! of [`Shared`] is later than all that others got some milliseconds before. A [`PerThread`] is faster still and keeps its block of
//! serials from one call to the next, whatever others got meanwhile. Build with `lto = "fat"` and `codegen-units = 1`: what is
//! optimised crate by crate pays more for an ID.
//!
//! The time is written down by a thread of ours every few milliseconds, so it may be that late. No ID's uniqueness rests on that:
//! an ID carries the hour of its window and a serial that is durably ours in that hour, whenever it is given out.

#![warn(missing_docs)]

#[doc(inline)]
pub use agent::embed::{
    AfterReboot, AgentId, Definition, Embedded, EncodingSource, Extensions, GeneratorKind, GeneratorName, LayoutSpec,
    MintCode, MintError, Namespace, NamespaceError, PerThread, Preview, RedeemError, Refusal, Scope, SegmentSpec,
    Sequence, SequenceSpec, SerialFileError, Settings, Shared, StartError, StringSpec, TlsFiles, TokenType, Uniq64Spec,
    UniqGenerator, format, redeem,
};
#[doc(inline)]
pub use agent::embed::{plugin, strategy};
