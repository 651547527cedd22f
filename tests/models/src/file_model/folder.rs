//! A folder of a file system, in memory: what a kill leaves of it, and what a power cut may.

use crate::kit::shared::Shared;
use serial_file::{Born, FileKind, Identity, Stat};
use std::ffi::OsStr;

/// Inodes of serial files, and behind them as many of lineage files. A free number is used again at once, as file systems
/// do; and a serial file's by the next serial file, so that as many as possible look alike.
const SLOTS_OF_A_KIND: u8 = 15;
/// All files are on one device: the other folder, too, may be a copy on the same one.
const DEVICE: u64 = 1;

/// The bytes of a file; many states share them.
pub(super) type Data = Shared<Vec<u8>>;

/// The names that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Name {
    File,
    Lineage,
    /// The place that an operator moves or links the serial file to.
    Away,
    FileNew,
    FileFormat,
    LineageNew,
}

/// Of a file that was not flushed: nothing, half, all.
const PARTS: u32 = 3;
const NAMES: usize = 6;
/// The names that a power cut may set back; the others are left-overs, and whoever makes one removes what is there.
const LASTING: [Name; 3] = [Name::File, Name::Lineage, Name::Away];

impl Name {
    pub(super) fn of(name: &OsStr) -> Option<Self> {
        Some(match name.to_str()? {
            "F" => Self::File,
            "F.lineage" => Self::Lineage,
            "F.new" => Self::FileNew,
            "F.format" => Self::FileFormat,
            "F.lineage.new" => Self::LineageNew,
            _ => return None,
        })
    }

    fn is_lineage(self) -> bool {
        matches!(self, Self::Lineage | Self::LineageNew)
    }
}

/// The part of a file that a power cut leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Flushed {
    Yes,
    /// All, half or nothing.
    No,
    /// The same, whatever is said of it later: its fsync failed, and the pages may be gone.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Inode {
    pub(super) data: Data,
    pub(super) flushed: Flushed,
    pub(super) ctime: u16,
    pub(super) born: u16,
    /// The process that has it locked.
    pub(super) lock: Option<u8>,
}

/// A folder with its files.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Folder {
    /// The boot, and by it the machine.
    pub(super) boot: u8,
    /// The file system: 0 the first one, another number a snapshot of it.
    pub(super) volume: u8,
    /// By number, ascending.
    inodes: Vec<(u8, Inode)>,
    names: [Option<u8>; NAMES],
    /// For each lasting name, what a power cut may set it back to: bit 0 nothing, bit n + 1 inode n.
    past: [u32; LASTING.len()],
}

fn bit(inode: Option<u8>) -> u32 {
    1 << inode.map_or(0, |inode| u32::from(inode) + 1)
}

impl Folder {
    pub(super) fn new(boot: u8) -> Self {
        Self { boot, volume: 0, inodes: Vec::new(), names: [None; NAMES], past: [0; LASTING.len()] }
    }

    pub(super) fn at(&self, name: Name) -> Option<u8> {
        self.names.get(name as usize).copied().flatten()
    }

    pub(super) fn inode(&self, number: u8) -> Option<&Inode> {
        self.inodes.iter().find(|(n, _)| *n == number).map(|(_, inode)| inode)
    }

    pub(super) fn inode_mut(&mut self, number: u8) -> Option<&mut Inode> {
        self.inodes.iter_mut().find(|(n, _)| *n == number).map(|(_, inode)| inode)
    }

    pub(super) fn named(&self, name: Name) -> Option<&Inode> {
        self.inode(self.at(name)?)
    }

    pub(super) fn set_name(&mut self, name: Name, to: Option<u8>) {
        let before = self.at(name);
        if before != to
            && let Some(past) = self.past.get_mut(name as usize)
        {
            *past |= bit(before);
        }
        if let Some(place) = self.names.get_mut(name as usize) {
            *place = to;
        }
    }

    /// A new empty file; `None` if this disk is too small.
    pub(super) fn create(&mut self, name: Name, clock: u16) -> Option<u8> {
        let first = if name.is_lineage() { SLOTS_OF_A_KIND } else { 0 };
        let number = (first..first + SLOTS_OF_A_KIND).find(|number| self.inode(*number).is_none())?;
        let inode = Inode { data: Data::new(Vec::new()), flushed: Flushed::No, ctime: clock, born: clock, lock: None };
        let at = self.inodes.partition_point(|(n, _)| *n < number);
        self.inodes.insert(at, (number, inode));
        self.set_name(name, Some(number));
        Some(number)
    }

    /// A new whole file that someone else makes, durably, in the place of what is there.
    pub(super) fn place(&mut self, name: Name, data: Data, clock: u16) -> Option<()> {
        self.set_name(name, None);
        let number = self.create(name, clock)?;
        let inode = self.inode_mut(number)?;
        (inode.data, inode.flushed) = (data, Flushed::Yes);
        Some(())
    }

    /// Other bytes in the same file.
    pub(super) fn overwrite(&mut self, name: Name, data: Data, clock: u16) -> Option<()> {
        let inode = self.inode_mut(self.at(name)?)?;
        (inode.data, inode.flushed, inode.ctime) = (data, Flushed::Yes, clock);
        Some(())
    }

    pub(super) fn touch(&mut self, number: u8, clock: u16) {
        if let Some(inode) = self.inode_mut(number) {
            inode.ctime = clock;
        }
    }

    pub(super) fn rename(&mut self, from: Name, to: Name, clock: u16) -> bool {
        let Some(number) = self.at(from) else { return false };
        self.set_name(from, None);
        self.set_name(to, Some(number));
        self.touch(number, clock);
        true
    }

    pub(super) fn flush_names(&mut self) {
        self.past = [0; LASTING.len()];
    }

    pub(super) fn stat(&self, number: u8) -> Option<Stat> {
        let inode = self.inode(number)?;
        let identity = Identity { device: DEVICE, inode: number.into(), ctime_s: inode.ctime.into(), ctime_ns: 0 };
        let links = self.names.iter().filter(|name| **name == Some(number)).count() as u64;
        let born = Some(Born { s: inode.born.into(), ns: 0 });
        Some(Stat { identity, links, kind: FileKind::Regular, len: inode.data.len() as u64, born })
    }

    /// Lets go of inodes that have no name, now or after a power cut, and that nobody has open; and of locks of processes
    /// that have the file open no more. `open` are the inodes that each process has open.
    pub(super) fn collect(&mut self, open: &[Vec<u8>]) {
        let past = self.past.iter().fold(0, |all, past| all | past);
        let names = self.names;
        self.inodes.retain_mut(|(number, inode)| {
            let held = |who: &u8| open.get(usize::from(*who)).is_some_and(|open| open.contains(number));
            inode.lock = inode.lock.filter(held);
            let named = names.contains(&Some(*number)) || past & bit(Some(*number)) != 0;
            named || open.iter().flatten().any(|inode| inode == number)
        });
    }

    /// Counts the different folders that a power cut may leave.
    pub(super) fn cuts(&self) -> u32 {
        self.cut_names().map(|after| PARTS.pow(after.torn().count() as u32)).sum()
    }

    /// Gives what the `choice`th power cut leaves; the machine starts again as `boot`.
    pub(super) fn cut(&self, mut choice: u32, boot: u8) -> Option<Self> {
        for mut after in self.cut_names() {
            let cuts = PARTS.pow(after.torn().count() as u32);
            if choice >= cuts {
                choice -= cuts;
                continue;
            }
            for number in after.torn().collect::<Vec<_>>() {
                let part = choice % PARTS;
                choice /= PARTS;
                let inode = after.inode_mut(number)?;
                let kept = inode.data.len() * part as usize / (PARTS - 1) as usize;
                inode.data = Data::new(inode.data.iter().copied().take(kept).collect());
                inode.flushed = Flushed::Yes;
            }
            after.boot = boot;
            return Some(after);
        }
        None
    }

    /// Each choice of what the lasting names may lead to.
    fn cut_names(&self) -> impl Iterator<Item = Self> {
        let candidates = |name: Name| {
            let all = self.past.get(name as usize).map_or(0, |past| past | bit(self.at(name)));
            (0..u32::BITS as u8).filter(move |at| all >> at & 1 != 0).map(|at| at.checked_sub(1))
        };
        let [file, lineage, away] = LASTING;
        candidates(file).flat_map(move |f| {
            candidates(lineage).flat_map(move |l| {
                candidates(away).map(move |a| {
                    let mut after = Self { names: [None; NAMES], past: [0; LASTING.len()], ..self.clone() };
                    for (name, to) in [(file, f), (lineage, l), (away, a)] {
                        after.set_name(name, to);
                    }
                    after.flush_names();
                    after.collect(&[]);
                    after
                })
            })
        })
    }

    /// Inodes of which a power cut may leave less than all.
    fn torn(&self) -> impl Iterator<Item = u8> {
        self.inodes.iter().filter(|(_, inode)| inode.flushed != Flushed::Yes).map(|(number, _)| *number)
    }

    /// The same files on a disk of another machine.
    pub(super) fn cloned(&self, boot: u8) -> Self {
        let mut clone = Self { boot, ..self.clone() };
        clone.collect(&[]);
        clone
    }

    /// The same files in a snapshot of the file system, seen by the same machine under the same device number.
    pub(super) fn snapshot(&self) -> Self {
        let mut snapshot = Self { volume: self.volume + 1, ..self.clone() };
        snapshot.collect(&[]);
        snapshot
    }
}
