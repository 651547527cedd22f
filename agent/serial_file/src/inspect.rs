//! The view of a serial file that a person, or a script, gets: `--inspect`.

use super::disk::{Access, Disk};
use super::layout::{self, BLOCK_LEN, Block, BlockName, HEADER_LEN, MAGIC, VERSION};
use super::lineage;
use super::location::FileLocation;
use super::section_records::SectionsFreshReason;
use super::sections;
use super::start::{Machine, damaged, failed, judge_file, read_lineage, refuse_what_is_no_file, resolve};
use super::{AfterReboot, Contents, Found, HeldSegments, SerialFileError, StartKind};
use common::kind::Kind;
use common::namespace::{GeneratorName, Namespace};
use common::parameters::SessionId;
use common::time::WallMs;
use minting::sequence::{Bound, Bounds};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;

/// A serial file, taken apart. Numbers are what stands in the bytes, read little-endian; those that are not quantities
/// (magic, session, a namespace's checksum) are hexadecimal text, with the most significant digit first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// The path of the file, its folder resolved.
    pub path: String,
    /// The length in bytes.
    pub length: usize,
    /// The header: what the file says once.
    pub header: HeaderView,
    /// The used blocks, in the order of the file.
    pub blocks: Vec<BlockView>,
    /// The outcome that a start would have with it.
    pub lineage: LineageView,
    /// The segments of plain numbers in its lineage, by name.
    pub segments: Vec<SegmentsView>,
    /// The sections of sequences beside it.
    pub sections: SectionsView,
}

/// The segments of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentsView {
    pub name: String,
    /// The difference between the numbers of two neighbouring places,
    pub increment: u64,
    /// and the number of place 0.
    pub offset: u64,
    /// The segment in use, and the one after it.
    pub held: Vec<SegmentView>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentView {
    /// Its first place,
    pub from: u64,
    /// and after its last one.
    pub to: u64,
    /// Places below it may have been given.
    pub mark: u64,
}

/// The record of sections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SectionsView {
    /// `resumed` or `fresh`: whether a start at this moment would go on with them.
    pub start: &'static str,
    /// One word, if fresh.
    pub reason: Option<&'static str>,
    /// The session as which masters know the agent, 32 hexadecimal digits; if resumed.
    pub session: Option<String>,
    /// They, if resumed.
    pub bounds: Vec<BoundView>,
}

/// A section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BoundView {
    pub name: String,
    /// The first section.
    pub from: u32,
    /// After the last.
    pub to: u32,
    /// The number of the owner that the agent was; `null` if somebody else may have been it since.
    pub g: Option<u64>,
    /// The bound above which it gave no number.
    pub max_seq: u64,
}

/// The header of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeaderView {
    /// The layout's version.
    pub version: u32,
    /// Blocks, used or not.
    pub num_blocks: usize,
    /// 16 hexadecimal digits.
    pub magic: String,
    /// 32 hexadecimal digits.
    pub session: String,
    /// Milliseconds since 1970.
    pub time_mark: i64,
    /// The number of times that the file was written.
    pub write_counter: u64,
    /// Milliseconds since 1970; left out if no block was given to another name yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names_from: Option<i64>,
    /// CRC-32C of the file.
    pub checksum: u64,
}

/// A used block of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockView {
    /// The number of the block, from 0.
    pub index: usize,
    /// The place where it begins, in bytes from the start of the file.
    pub offset: usize,
    /// The generator's name; `long-` and 30 hexadecimal digits for one that the block has no room for, until it is
    /// [found](Inspection::name_blocks).
    pub name: String,
    /// The kind of IDs that it makes.
    pub kind: Kind,
    /// True if its serial restarts at 0 with each new day.
    pub everyday_reset: bool,
    /// Milliseconds since 1970.
    pub create_time: i64,
    /// Milliseconds since 1970.
    pub modification_time: i64,
    /// The hour or the day of its last IDs, or the ten seconds in which their tick begins.
    pub bucket: u32,
    /// The serial at which that bucket began.
    pub bucket_base: u64,
    /// 16 hexadecimal digits: the namespace's definition.
    pub checksum: String,
    /// The durable high-water mark.
    pub serial: u64,
    /// The number of serials that are reserved at once.
    pub step: u32,
}

/// The outcome that a start would have with a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LineageView {
    /// `resumed` or `fresh`: how a start at this moment would go on, under `--after-reboot fresh`, if nobody has the file.
    pub start: &'static str,
    /// One word, if fresh.
    pub reason: Option<&'static str>,
    /// The same as a sentence.
    pub explanation: String,
}

/// Reads the serial file at `path` without locking or changing anything; a running agent is not disturbed. While that
/// agent writes, what is read here may for a moment not fit together.
///
/// # Errors
/// [`SerialFileError`] if it is missing, damaged or cannot be read.
pub fn inspect(path: &Path) -> Result<Inspection, SerialFileError> {
    let (place, disk) = resolve(path)?;
    refuse_what_is_no_file(&disk, &place)?;
    let boot = disk.boot_id().map_err(SerialFileError::BootId)?;
    let file_system = disk.file_system().map_err(failed("find the file system of", &place))?.id;
    let file = disk.open(&place.file, Access::Read).map_err(failed("open", &place))?;
    let stat = disk.stat(&file).map_err(failed("look at", &place))?;
    let bytes = disk.read(&file, layout::FILE_LEN_MAX).map_err(failed("read", &place))?;
    let contents = layout::decode(&bytes).map_err(damaged(&place))?;
    let checksum = layout::stored_checksum(&bytes).unwrap_or_default();
    let found = read_lineage(&disk, &place)?;
    let machine = Machine { boot, file_system };
    let (now, start) = judge_file(&found, &stat, machine, checksum, &contents, AfterReboot::Fresh);
    let sections = match &start {
        StartKind::Resumed if lineage::renew_first(&found, &now) => Err(SectionsFreshReason::SecondCopy),
        StartKind::Resumed => sections::read(&disk, &place, machine, contents.header.session, None),
        StartKind::Fresh(_) => Err(SectionsFreshReason::Session),
    };
    Ok(Inspection {
        segments: segments_view(&found),
        sections: sections_view(sections),
        ..view(&place, &bytes, &contents, &start)
    })
}

impl Inspection {
    /// Calls blocks of longer names by these, as far as they are theirs.
    pub fn name_blocks(&mut self, names: &[Namespace]) {
        let in_block = |namespace: &Namespace| (namespace.kind(), BlockName::from(namespace.name()).to_string());
        let names: BTreeMap<_, _> = names.iter().map(|namespace| (in_block(namespace), namespace.name())).collect();
        for block in &mut self.blocks {
            if let Some(name) = names.get(&(block.kind, block.name.clone())) {
                block.name = name.to_string();
            }
        }
    }
}

fn view(place: &FileLocation, bytes: &[u8], contents: &Contents, start: &StartKind) -> Inspection {
    let header = &contents.header;
    let used = contents.blocks.iter().enumerate();
    Inspection {
        path: place.path.display().to_string(),
        length: bytes.len(),
        header: HeaderView {
            version: VERSION,
            num_blocks: contents.blocks.len(),
            magic: format!("{MAGIC:016x}"),
            session: header.session.to_string(),
            time_mark: header.time_mark.0,
            write_counter: header.write_counter,
            names_from: Some(header.names_from.0).filter(|from| *from > 0),
            checksum: layout::stored_checksum(bytes).unwrap_or_default(),
        },
        blocks: used.filter_map(|(index, block)| Some(block_view(index, block.as_ref()?))).collect(),
        lineage: lineage_view(start),
        segments: Vec::new(),
        sections: sections_view(Err(SectionsFreshReason::NoBounds)),
    }
}

fn block_view(index: usize, block: &Block) -> BlockView {
    BlockView {
        index,
        offset: HEADER_LEN + index * BLOCK_LEN,
        name: block.name.to_string(),
        kind: block.kind,
        everyday_reset: block.everyday_reset,
        create_time: block.create_time.0,
        modification_time: block.modification_time.0,
        bucket: block.bucket,
        bucket_base: block.bucket_base,
        checksum: format!("{:016x}", block.checksum),
        serial: block.serial,
        step: block.step,
    }
}

fn lineage_view(start: &StartKind) -> LineageView {
    match start {
        StartKind::Resumed => LineageView {
            start: "resumed",
            reason: None,
            explanation: "nobody touched it since its last write".to_owned(),
        },
        StartKind::Fresh(reason) => {
            LineageView { start: "fresh", reason: Some(reason.code()), explanation: reason.explain() }
        }
    }
}

fn segments_view(found: &Found) -> Vec<SegmentsView> {
    let Found::Whole(lineage) = found else { return Vec::new() };
    let of = |(name, held): (&GeneratorName, &HeldSegments)| SegmentsView {
        name: name.to_string(),
        increment: held.increment,
        offset: held.offset,
        held: held
            .record
            .held
            .iter()
            .map(|held| SegmentView { from: held.span.from, to: held.span.to, mark: held.mark })
            .collect(),
    };
    lineage.holdings.segments.iter().map(of).collect()
}

fn sections_view(found: Result<(SessionId, Bounds), SectionsFreshReason>) -> SectionsView {
    let (session, bounds) = match found {
        Ok(found) => found,
        Err(reason) => {
            return SectionsView { start: "fresh", reason: Some(reason.code()), session: None, bounds: Vec::new() };
        }
    };
    let of = |(name, sections, bound): (&GeneratorName, Range<u32>, Bound)| BoundView {
        name: name.to_string(),
        from: sections.start,
        to: sections.end,
        g: bound.g.map(|g| g.0),
        max_seq: bound.max_seq,
    };
    SectionsView {
        start: "resumed",
        reason: None,
        session: Some(session.to_string()),
        bounds: bounds.all().map(of).collect(),
    }
}

impl Inspection {
    /// Segments and sections, a line each name; sections by the thousand stand in the JSON.
    fn ranges(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for SegmentsView { name, held, .. } in &self.segments {
            for SegmentView { from, to, mark } in held {
                writeln!(f, "segment        {name}: places {from} to {}, given below {mark}", to.saturating_sub(1))?;
            }
        }
        let SectionsView { start, reason, bounds, .. } = &self.sections;
        match reason {
            Some(reason) => writeln!(f, "sections       {start}: {reason}")?,
            None => writeln!(f, "sections       {start}: {} of them written down", count(bounds))?,
        }
        for of_name in bounds.chunk_by(|one, other| one.name == other.name) {
            let highest = of_name.iter().map(|bound| bound.max_seq).max().unwrap_or_default();
            let name = of_name.first().map_or("", |bound| bound.name.as_str());
            writeln!(f, "               {name}: {} sections, no number above {highest} given", count(of_name))?;
        }
        Ok(())
    }
}

/// Counts the sections that these bounds are of.
fn count(bounds: &[BoundView]) -> u64 {
    bounds.iter().map(|bound| u64::from(bound.to.saturating_sub(bound.from))).sum()
}

const TITLES: [&str; 12] =
    ["block", "offset", "name", "kind", "daily", "created", "changed", "bucket", "base", "checksum", "serial", "step"];

impl BlockView {
    fn cells(&self) -> [String; TITLES.len()] {
        [
            self.index.to_string(),
            self.offset.to_string(),
            self.name.clone(),
            self.kind.to_string(),
            if self.everyday_reset { "yes" } else { "no" }.to_owned(),
            WallMs(self.create_time).to_string(),
            WallMs(self.modification_time).to_string(),
            self.bucket.to_string(),
            self.bucket_base.to_string(),
            self.checksum.clone(),
            self.serial.to_string(),
            self.step.to_string(),
        ]
    }
}

impl fmt::Display for Inspection {
    /// A table for people: the header's fields one a line, then the used blocks in aligned columns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = &self.header;
        writeln!(f, "file           {}", self.path)?;
        writeln!(f, "length         {} bytes", self.length)?;
        writeln!(f, "version        {}", header.version)?;
        writeln!(f, "magic          {}", header.magic)?;
        writeln!(f, "session        {}", header.session)?;
        writeln!(f, "uniq96 mark    {} ({})", header.time_mark, WallMs(header.time_mark))?;
        writeln!(f, "write counter  {}", header.write_counter)?;
        if let Some(from) = header.names_from {
            writeln!(f, "names from     {from} ({})", WallMs(from))?;
        }
        writeln!(f, "checksum       {:08x}", header.checksum)?;
        writeln!(f, "next start     {}: {}", self.lineage.start, self.lineage.explanation)?;
        self.ranges(f)?;
        writeln!(f, "blocks         {}, {} of them used", header.num_blocks, self.blocks.len())?;
        if self.blocks.is_empty() {
            return Ok(());
        }
        let rows: Vec<_> =
            std::iter::once(TITLES.map(str::to_owned)).chain(self.blocks.iter().map(BlockView::cells)).collect();
        let widths: Vec<usize> = (0..TITLES.len())
            .map(|at| rows.iter().filter_map(|row| row.get(at)).map(String::len).max().unwrap_or(0))
            .collect();
        for row in &rows {
            let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            writeln!(f, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}
