//! The formatted serial file: high-water marks that are durable before they are used, and the proof that the file is
//! still ours.
//!
//! [`format()`] makes it, [`open`] locks it and finds out whether its session goes on, [`SerialFile::write`] changes it,
//! [`inspect`] shows it. Pure: `layout` (the bytes) and `lineage` (the proof). All system calls go through `disk`.
//! Files beside it are each a `companion`: its lineage, the bounds of sections of sequences ([`SectionFile`]), names ([`KeptNames`]), API keys ([`KeptCredentials`]).
//! The promises, and the outcomes of a copy, a restore, a reboot or a kill, are in `docs/understand/serial-file-starts.md`.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod companion;
mod disk;
mod error;
mod file;
mod forget;
mod format;
mod inspect;
mod keys;
mod layout;
mod lineage;
mod location;
mod names;
mod section_records;
mod sections;
mod start;
#[cfg(test)]
mod tests;

pub use companion::Companion;
pub use disk::{Access, Disk, FileKind, FileSystem, FileSystemKind, OsDisk, Stat};
pub use error::{FileLoss, SerialFileError, StepError, WriteError};
pub use file::SerialFile;
pub use forget::{Forgotten, forget_clock, forget_clock_on};
pub use format::{format, format_on};
pub use inspect::{BlockView, HeaderView, Inspection, LineageView, inspect};
pub use keys::KeptCredentials;
pub use layout::{
    BLOCK_LEN, Block, BlockName, Contents, FILE_LEN_MAX, HEADER_LEN, Header, LayoutError, MAGIC, NUM_BLOCKS,
    NUM_BLOCKS_DEFAULT, VERSION, decode, encode,
};
pub use lineage::{
    AfterReboot, AfterRebootError, BootId, Born, FileSystemId, Fingerprint, Found, FreshReason, HeldSegments, Holdings,
    Identity, Lineage, Next, StartKind, given_up, judge, renew_first,
};
pub use location::FileLocation;
pub use names::{KeptNames, kept_names};
pub use section_records::SectionsFreshReason;
pub use sections::{BOUNDS_MAX, Noted, SectionFile, SectionsStart};
pub use start::{Opened, open, open_on};
