//! The serial file's bytes.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::names::{GeneratorKind, GeneratorName};
use common::terms::SessionId;
use common::time::WallMs;

/// What the file says once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The unbroken line of this file that its holder continues.
    pub session: SessionId,
    /// The instant up to which Uniq96 may have been minted, in milliseconds since 1970; never negative.
    pub uniq96_mark: WallMs,
    /// How often the file was written, failed attempts included. Kept by [`super::SerialFile`], not by its caller.
    pub write_counter: u64,
}

/// What the file says about one generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The generator's name.
    pub name: GeneratorName,
    /// What it makes.
    pub kind: GeneratorKind,
    /// Whether its serial restarts at 0 with each new day.
    pub everyday_reset: bool,
    /// When the block was made.
    pub create_time: WallMs,
    /// When it was last changed.
    pub modification_time: WallMs,
    /// The hour (Uniq64) or day (string) its last IDs carry.
    pub bucket: u32,
    /// The serial at which that bucket began.
    pub bucket_base: u64,
    /// The checksum of the namespace's definition.
    pub checksum: u64,
    /// The durable high-water mark: every serial below it may have been minted.
    pub serial: u64,
    /// How many serials are reserved at once.
    pub step: u32,
}

/// The whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// What it says once.
    pub header: Header,
    /// Its slots, used or not; as many as `--num-blocks` said when it was made.
    pub blocks: Vec<Option<Block>>,
}

/// Why bytes are no serial file of this version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Fewer or more bytes than the header says.
    #[error("it has {found} bytes where {expected} are due")]
    Length {
        /// Bytes there are.
        found: u64,
        /// Bytes there should be.
        expected: u64,
    },
}
