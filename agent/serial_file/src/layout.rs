//! The bytes of the serial file: the seed design's two structures, little-endian and packed.
//!
//! A header of 72 bytes and `num_blocks` blocks of 68, nothing before, between or after. One encoding per contents:
//! unused bytes are zero and anything else is refused, so that no flipped bit goes unnoticed even where the checksum
//! would not see it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use common::kind::Kind;
use common::namespace::{GeneratorName, Namespace};
use common::parameters::SessionId;
use common::setting::NAMESPACES_MAX;
use common::time::WallMs;
use std::collections::BTreeSet;
use std::fmt;
use std::mem::{offset_of, size_of};
use zerocopy::little_endian::{I64, U32, U64, U128};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The layout's version, at offset 0.
pub const VERSION: u32 = 1;
/// The number at offset 8 of a serial file: the letters `UNIQFILE` in the order of the bytes.
pub const MAGIC: u64 = u64::from_le_bytes(*b"UNIQFILE");
/// Bytes of the header.
pub const HEADER_LEN: usize = 72;
/// Bytes of a block.
pub const BLOCK_LEN: usize = 68;
/// The fewest blocks of a file, those of the names `default`, and the most, for all names that masters keep and as many retired ones
/// whose hour, day or tick is not over: 208 bytes to 1.36 MB.
pub const NUM_BLOCKS: std::ops::RangeInclusive<u32> = 2..=20_000;
/// Blocks of a new file when nothing else is said (seed design).
pub const NUM_BLOCKS_DEFAULT: u32 = 100;
const _: () = assert!(Kind::PREDEFINED.len() + NAMESPACES_MAX <= *NUM_BLOCKS.end() as usize);
/// The longest file, in bytes; nothing beyond it is ever read.
pub const FILE_LEN_MAX: usize = HEADER_LEN + *NUM_BLOCKS.end() as usize * BLOCK_LEN;

const NAME_LEN: usize = 16;
/// Byte 0 of what stands for a longer name; no name has it.
const LONG_NAME: u8 = 0xff;
const CHECKSUM_OFFSET: usize = offset_of!(RawHeader, checksum);
const NAMES_FROM: &str = "beginning of names without a block";
/// `flags`, bit 0: the serial restarts at 0 with each new day.
const FLAG_EVERYDAY_RESET: u32 = 1;
/// `flags`, bits 8-15: the kind.
const FLAGS_KIND_SHIFT: u32 = 8;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    version: U32,
    num_blocks: U32,
    magic: U64,
    session: U128,
    time_mark: U64,
    write_counter: U64,
    names_from: U64,
    reserved: U64,
    checksum: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawBlock {
    name: [u8; NAME_LEN],
    create_time: I64,
    modification_time: I64,
    flags: U32,
    bucket: U32,
    bucket_base: U64,
    checksum: U64,
    serial: U64,
    step: U32,
}

const _: () = {
    assert!(size_of::<RawHeader>() == HEADER_LEN);
    assert!(offset_of!(RawHeader, num_blocks) == 4 && offset_of!(RawHeader, magic) == 8);
    assert!(offset_of!(RawHeader, session) == 16 && offset_of!(RawHeader, time_mark) == 32);
    assert!(offset_of!(RawHeader, write_counter) == 40 && offset_of!(RawHeader, names_from) == 48);
    assert!(offset_of!(RawHeader, reserved) == 56 && offset_of!(RawHeader, checksum) == 64);
    assert!(size_of::<RawBlock>() == BLOCK_LEN);
    assert!(offset_of!(RawBlock, create_time) == 16 && offset_of!(RawBlock, modification_time) == 24);
    assert!(offset_of!(RawBlock, flags) == 32 && offset_of!(RawBlock, bucket) == 36);
    assert!(offset_of!(RawBlock, bucket_base) == 40 && offset_of!(RawBlock, checksum) == 48);
    assert!(offset_of!(RawBlock, serial) == 56 && offset_of!(RawBlock, step) == 64);
};

/// The header: what the file says once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// The unbroken line of this file that its holder continues.
    pub session: SessionId,
    /// The instant up to which IDs of short ticks may have been minted, in milliseconds since 1970; never negative.
    pub time_mark: WallMs,
    /// The number of times that the file was written, failed attempts included. Kept by [`super::SerialFile`], not by its caller.
    pub write_counter: u64,
    /// The earliest instant in whose hour, day or tick a name without a block may begin, in milliseconds since 1970; never negative. The hours
    /// and days of blocks that were given to other names are over by then.
    pub names_from: WallMs,
}

/// The name of a generator as its block has room for it: of up to 15 characters itself, followed by NULs; of more a byte that no name has and 15
/// bytes of its [digest](GeneratorName::digest).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockName([u8; NAME_LEN]);

/// The part of a file about one generator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// The generator's name.
    pub name: BlockName,
    /// The kind of IDs that it makes.
    pub kind: Kind,
    /// True if its serial restarts at 0 with each new day.
    pub everyday_reset: bool,
    /// The instant at which the block was made.
    pub create_time: WallMs,
    /// The instant at which it was last changed.
    pub modification_time: WallMs,
    /// The hour or the day of its last IDs, or the ten seconds in which their tick begins.
    pub bucket: u32,
    /// The serial at which that bucket began.
    pub bucket_base: u64,
    /// The checksum of the namespace's definition.
    pub checksum: u64,
    /// The durable high-water mark: every serial below it may have been minted.
    pub serial: u64,
    /// The number of serials that are reserved at once.
    pub step: u32,
}

/// The whole file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contents {
    /// The header: what the file says once.
    pub header: Header,
    /// Its slots, used or not, within [`NUM_BLOCKS`]: as many as `--num-blocks` said when it was made, and those that names needed since.
    pub blocks: Vec<Option<Block>>,
}

/// The reason why bytes are not a serial file of this version, or contents cannot become one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Not even a header.
    #[error("it has {found} bytes, fewer than a header's {HEADER_LEN}")]
    Cut {
        /// Bytes there are.
        found: usize,
    },
    /// Another kind of file.
    #[error("it does not begin like a serial file")]
    Foreign,
    /// A version this program does not know.
    #[error("it has version {found}, this program reads {VERSION}")]
    Version {
        /// The version in the file.
        found: u32,
    },
    /// More or fewer blocks than a file may have.
    #[error("it has {found} blocks, a file has {} to {}", NUM_BLOCKS.start(), NUM_BLOCKS.end())]
    Blocks {
        /// Blocks there would be.
        found: u64,
    },
    /// Cut short, or something was added.
    #[error("it has {found} bytes where {expected} are due")]
    Length {
        /// Bytes there are.
        found: usize,
        /// Bytes there should be.
        expected: usize,
    },
    /// Its checksum does not fit.
    #[error("its checksum does not fit its bytes")]
    Checksum,
    /// The header says what no program of this version writes.
    #[error("its header has an impossible {0}")]
    Header(&'static str),
    /// A block says what no program of this version writes.
    #[error("its block {index} has an impossible {field}")]
    Block {
        /// The number of the block, from 0.
        index: usize,
        /// The part of it that is wrong.
        field: &'static str,
    },
}

impl Contents {
    /// A file of which only the names `default` have blocks, so that no other name takes them.
    ///
    /// # Errors
    /// [`LayoutError::Blocks`] outside [`NUM_BLOCKS`].
    pub(super) fn new(num_blocks: u32, header: Header, now: WallMs) -> Result<Self, LayoutError> {
        if !NUM_BLOCKS.contains(&num_blocks) {
            return Err(LayoutError::Blocks { found: num_blocks.into() });
        }
        let defaults = Kind::PREDEFINED.into_iter().filter(|kind| kind.has_blocks());
        let mut blocks: Vec<_> = defaults.map(|kind| Some(Block::default_of(kind, now))).collect();
        blocks.resize(num_blocks as usize, None);
        Ok(Self { header, blocks })
    }
}

impl BlockName {
    /// Tells whether it stands for a name that is longer than the field.
    fn is_long(&self) -> bool {
        self.0.first() == Some(&LONG_NAME)
    }

    /// The name, if the field has room for it.
    fn short(&self) -> Option<GeneratorName> {
        let (text, end) = self.0.split_at(NAME_LEN - 1);
        // Names have no NUL, so what is left after taking the padding off is a name only if the padding was at the end.
        std::str::from_utf8(text).ok()?.trim_end_matches('\0').parse().ok().filter(|_| end == [0])
    }
}

impl From<&GeneratorName> for BlockName {
    fn from(name: &GeneratorName) -> Self {
        let (text, mut field) = (name.as_str().as_bytes(), [0; NAME_LEN]);
        if text.len() < NAME_LEN {
            field.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
        } else {
            let long = std::iter::once(LONG_NAME).chain(name.digest());
            field.iter_mut().zip(long).for_each(|(to, from)| *to = from);
        }
        Self(field)
    }
}

/// Prints a longer name as `long-` and the hexadecimal digits that stand for it.
impl fmt::Display for BlockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.short() {
            Some(name) => write!(f, "{name}"),
            None => {
                f.write_str("long-")?;
                self.0.iter().skip(1).try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

impl Block {
    /// That of a name `default` which gave nothing yet.
    fn default_of(kind: Kind, now: WallMs) -> Self {
        let namespace = Namespace::default_of(kind);
        Self {
            name: namespace.name().into(),
            kind,
            everyday_reset: namespace.everyday_reset(),
            create_time: now,
            modification_time: now,
            bucket: 0,
            bucket_base: 0,
            checksum: namespace.checksum(),
            serial: 0,
            step: namespace.step(),
        }
    }
}

/// CRC-32C (Castagnoli) of the whole file with the checksum's own field taken as zero.
fn checksum(bytes: &[u8]) -> u64 {
    let (before, rest) = bytes.split_at(CHECKSUM_OFFSET.min(bytes.len()));
    let after = rest.get(size_of::<U64>()..).unwrap_or_default();
    let sum = crc32c::crc32c_append(crc32c::crc32c(before), &[0; size_of::<U64>()]);
    crc32c::crc32c_append(sum, after).into()
}

/// The checksum that the file carries, whether it fits or not; `None` if the bytes are shorter than a header.
pub(super) fn stored_checksum(bytes: &[u8]) -> Option<u64> {
    Some(RawHeader::ref_from_prefix(bytes).ok()?.0.checksum.get())
}

/// The file's bytes.
///
/// # Errors
/// [`LayoutError`] if the contents fit no file: too many blocks, a negative time, two blocks of one generator.
pub fn encode(contents: &Contents) -> Result<Vec<u8>, LayoutError> {
    let found = contents.blocks.len() as u64;
    let num_blocks =
        u32::try_from(found).ok().filter(|n| NUM_BLOCKS.contains(n)).ok_or(LayoutError::Blocks { found })?;
    let mark = u64::try_from(contents.header.time_mark.0).map_err(|_| LayoutError::Header("time mark"))?;
    let names_from = u64::try_from(contents.header.names_from.0).map_err(|_| LayoutError::Header(NAMES_FROM))?;
    refuse_twins(&contents.blocks)?;
    let mut header = RawHeader {
        version: VERSION.into(),
        num_blocks: num_blocks.into(),
        magic: MAGIC.into(),
        session: contents.header.session.0.into(),
        time_mark: mark.into(),
        write_counter: contents.header.write_counter.into(),
        names_from: names_from.into(),
        reserved: U64::ZERO,
        checksum: U64::ZERO,
    };
    let mut bytes = Vec::with_capacity(HEADER_LEN + contents.blocks.len() * BLOCK_LEN);
    bytes.extend_from_slice(header.as_bytes());
    for block in &contents.blocks {
        bytes.extend_from_slice(block.as_ref().map_or_else(RawBlock::new_zeroed, RawBlock::from).as_bytes());
    }
    header.checksum = checksum(&bytes).into();
    if let Some(place) = bytes.first_chunk_mut::<HEADER_LEN>() {
        place.copy_from_slice(header.as_bytes());
    }
    Ok(bytes)
}

/// Decodes the bytes of a file.
///
/// # Errors
/// [`LayoutError`] with the first thing that is not as this program would have written it.
pub fn decode(bytes: &[u8]) -> Result<Contents, LayoutError> {
    let found = bytes.len();
    let (header, rest) = RawHeader::ref_from_prefix(bytes).map_err(|_| LayoutError::Cut { found })?;
    if header.magic.get() != MAGIC {
        return Err(LayoutError::Foreign);
    }
    // Before everything else: another version may keep its length and its checksum elsewhere.
    if header.version.get() != VERSION {
        return Err(LayoutError::Version { found: header.version.get() });
    }
    let num_blocks = header.num_blocks.get();
    if !NUM_BLOCKS.contains(&num_blocks) {
        return Err(LayoutError::Blocks { found: num_blocks.into() });
    }
    let expected = HEADER_LEN + num_blocks as usize * BLOCK_LEN;
    let raw = <[RawBlock]>::ref_from_bytes(rest).map_err(|_| LayoutError::Length { found, expected })?;
    if found != expected {
        return Err(LayoutError::Length { found, expected });
    }
    if header.checksum.get() != checksum(bytes) {
        return Err(LayoutError::Checksum);
    }
    if header.reserved.get() != 0 {
        return Err(LayoutError::Header("reserved field"));
    }
    let mark = i64::try_from(header.time_mark.get()).map_err(|_| LayoutError::Header("time mark"))?;
    let names_from = i64::try_from(header.names_from.get()).map_err(|_| LayoutError::Header(NAMES_FROM))?;
    let blocks = raw.iter().enumerate().map(|(index, raw)| block(index, raw)).collect::<Result<Vec<_>, _>>()?;
    refuse_twins(&blocks)?;
    let header = Header {
        session: SessionId(header.session.get()),
        time_mark: WallMs(mark),
        write_counter: header.write_counter.get(),
        names_from: WallMs(names_from),
    };
    Ok(Contents { header, blocks })
}

/// Two blocks of one generator would be two marks: one of them is too low.
fn refuse_twins(blocks: &[Option<Block>]) -> Result<(), LayoutError> {
    let mut seen = BTreeSet::new();
    for (index, block) in blocks.iter().enumerate() {
        if let Some(block) = block
            && !seen.insert((block.kind, block.name))
        {
            return Err(LayoutError::Block { index, field: "name: another block has it" });
        }
    }
    Ok(())
}

impl From<&Block> for RawBlock {
    fn from(block: &Block) -> Self {
        let reset = if block.everyday_reset { FLAG_EVERYDAY_RESET } else { 0 };
        Self {
            name: block.name.0,
            create_time: block.create_time.0.into(),
            modification_time: block.modification_time.0.into(),
            flags: (reset | u32::from(block.kind.number()) << FLAGS_KIND_SHIFT).into(),
            bucket: block.bucket.into(),
            bucket_base: block.bucket_base.into(),
            checksum: block.checksum.into(),
            serial: block.serial.into(),
            step: block.step.into(),
        }
    }
}

fn block(index: usize, raw: &RawBlock) -> Result<Option<Block>, LayoutError> {
    let impossible = |field| LayoutError::Block { index, field };
    if raw.name.first() == Some(&0) {
        let unused = raw.as_bytes().iter().all(|byte| *byte == 0);
        return if unused { Ok(None) } else { Err(impossible("byte although it is unused")) };
    }
    let name = BlockName(raw.name);
    if !name.is_long() && name.short().is_none() {
        return Err(impossible("name"));
    }
    let flags = raw.flags.get();
    let number = u8::try_from(flags >> FLAGS_KIND_SHIFT).map_err(|_| impossible("flag"))?;
    let kind = Kind::try_from(number).map_err(|_| impossible("kind"))?;
    if flags & 0xff & !FLAG_EVERYDAY_RESET != 0 {
        return Err(impossible("flag"));
    }
    Ok(Some(Block {
        name,
        kind,
        everyday_reset: flags & FLAG_EVERYDAY_RESET != 0,
        create_time: WallMs(raw.create_time.get()),
        modification_time: WallMs(raw.modification_time.get()),
        bucket: raw.bucket.get(),
        bucket_base: raw.bucket_base.get(),
        checksum: raw.checksum.get(),
        serial: raw.serial.get(),
        step: raw.step.get(),
    }))
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
