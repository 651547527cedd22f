//! An agent's folder: a serial file and its lineage, as bytes, with the identities that a kernel would give them, and
//! the steps of a write at which a disk can fail, a process die and the power go.
//!
//! Bytes, lineage and judgement are the agent's own; only the order of its system calls is told again here (the agent
//! speaks to its disk in open files, of which a simulation has none).

use super::mutation::{Mutation, Mutations};
use super::rng::Rng;
use agent::serial_file::{
    AfterReboot, Block, BootId, Born, Contents, Found, HEADER_LEN, Holdings, Identity, Lineage, Next, Seen, StartKind,
    decode, encode, judge,
};
use common::parameters::SessionId;

/// Numbers that a file system has for its files: the next file gets one that the last but few had.
const INODES: u64 = 4;

/// A file in place.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What it is to the kernel.
    pub identity: Identity,
    /// When it was made.
    pub born: Born,
}

/// At which step of a write something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Before anything has changed.
    Begin,
    /// The lineage names the new file, which is not in place.
    BeforeRename,
    /// The new file is in place, its lineage is not.
    BeforeLineage,
    /// Both are in place, but the caller does not hear of it.
    BeforeReturn,
}

impl Point {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Begin, Self::BeforeRename, Self::BeforeLineage, Self::BeforeReturn];
}

/// What happens there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// The disk says no.
    Fails,
    /// The process dies.
    Dies,
    /// The power goes: whatever was not flushed may be there or not.
    PowerCut,
}

/// Why a write did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The old bounds hold.
    Io,
    /// Someone else has the file.
    Taken,
    /// The process is no more.
    Died,
    /// Nor is the machine's boot.
    PowerCut,
}

/// What will happen at the next writes.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Where.
    pub point: Point,
    /// What.
    pub mishap: Mishap,
    /// How often.
    pub times: u32,
}

/// A folder.
#[derive(Clone, Debug)]
pub struct Folder {
    /// The device that it is on; a copied image has the same.
    pub device: u64,
    /// The serial file.
    pub file: Option<Placed>,
    /// The lineage file.
    pub lineage: Option<Vec<u8>>,
    /// What happens at the next writes.
    pub plan: Option<Plan>,
    /// The file system's clock: no two changes look alike.
    clock: i64,
    /// Files made so far.
    files: u64,
}

impl Folder {
    /// Empty, on a device of its own.
    pub fn new(device: u64) -> Self {
        Self { device, file: None, lineage: None, plan: None, clock: 1, files: 0 }
    }

    fn make(&mut self, bytes: Vec<u8>) -> Placed {
        self.clock += 1;
        self.files += 1;
        let inode = self.files % INODES;
        let identity = Identity { device: self.device, inode, ctime_s: self.clock, ctime_ns: 0 };
        Placed { bytes, identity, born: Born { s: self.clock, ns: 0 } }
    }

    /// Touches the file without changing it.
    pub fn touch(&mut self) {
        self.clock += 1;
        let now = self.clock;
        if let Some(file) = &mut self.file {
            file.identity.ctime_s = now;
        }
    }

    /// Another's bytes in a new file.
    pub fn put(&mut self, bytes: Vec<u8>) {
        self.file = Some(self.make(bytes));
    }

    /// Another's bytes in the same file.
    pub fn overwrite(&mut self, bytes: Vec<u8>) {
        self.touch();
        match &mut self.file {
            Some(file) => file.bytes = bytes,
            None => self.put(bytes),
        }
    }

    fn mishap(&mut self) -> Option<Plan> {
        let plan = self.plan?;
        self.plan = (plan.times > 1).then_some(Plan { times: plan.times - 1, ..plan });
        Some(plan)
    }
}

/// The serial file in a process's hands.
#[derive(Clone, Debug)]
pub struct SerialFile {
    boot: BootId,
    held: Identity,
    held_counter: u64,
    acked: Contents,
    tries: u64,
    lineage_due: bool,
    taken: bool,
}

/// What a start found.
pub struct Opened {
    /// The file.
    pub file: SerialFile,
    /// What it says.
    pub contents: Contents,
    /// What the session holds.
    pub holdings: Holdings,
    /// Whether it goes on.
    pub start: StartKind,
}

/// What a start goes by.
pub struct Start {
    /// The boot's number.
    pub boot: u64,
    /// What it makes of another boot.
    pub rule: AfterReboot,
    /// The session of a fresh start.
    pub session: SessionId,
    /// What is left out.
    pub mutations: Mutations,
}

/// A boot's number as the kernel's random one.
pub fn boot_id(number: u64) -> BootId {
    format!("{number:x}").parse().expect("hexadecimal digits")
}

/// The checksum that a file carries: the last 8 bytes of its header.
fn stored_checksum(bytes: &[u8]) -> u64 {
    bytes.get(HEADER_LEN - 8..HEADER_LEN).map_or(0, |sum| u64::from_le_bytes(sum.try_into().expect("8 bytes")))
}

/// Whether something that `then` excludes for ever would be allowed again by `now`.
fn lowers(then: &Contents, now: &Contents) -> bool {
    let place = |block: &Option<Block>| block.as_ref().map(|block| (block.bucket, block.serial));
    now.header.uniq96_mark < then.header.uniq96_mark
        || then.blocks.iter().zip(&now.blocks).any(|(then, now)| place(now) < place(then))
}

impl SerialFile {
    /// A start; `None` if there is no file, or it is none.
    ///
    /// # Errors
    /// If the first write of a fresh start fails.
    pub fn open(folder: &mut Folder, start: &Start, rng: &mut Rng) -> Option<Result<Opened, Failure>> {
        let placed = folder.file.clone()?;
        let mut contents = decode(&placed.bytes).ok()?;
        let boot = boot_id(start.boot);
        let write_counter = contents.header.write_counter;
        let session = contents.header.session;
        let mut seen = Seen { identity: placed.identity, write_counter, boot, session, file_system: None };
        let Identity { device, inode, .. } = placed.identity;
        let checksum = stored_checksum(&placed.bytes);
        let as_next = Next { device, inode, born: placed.born, write_counter, checksum };
        let found = folder.lineage.as_deref().map_or(Found::Missing, Found::decode);
        if let Found::Whole(lineage) = &found {
            overlook(start.mutations, &lineage.seen, &mut seen);
        }
        let kind = judge(&found, &seen, Some(&as_next), start.rule);
        let acked = contents.clone();
        let mut file = Self {
            boot,
            held: placed.identity,
            held_counter: write_counter,
            acked,
            tries: write_counter,
            lineage_due: false,
            taken: false,
        };
        if let (StartKind::Resumed, Found::Whole(lineage)) = (&kind, found) {
            return Some(Ok(Opened { file, contents, holdings: lineage.holdings, start: kind }));
        }
        contents.header.session = start.session;
        file.acked.header.session = start.session;
        let holdings = Holdings::default();
        let written = file.write(folder, &mut contents, &holdings, rng);
        Some(written.map(|()| Opened { file, contents, holdings, start: kind }))
    }

    /// Makes both durable.
    ///
    /// # Errors
    /// [`Failure`], as the agent's own.
    pub fn write(
        &mut self,
        folder: &mut Folder,
        contents: &mut Contents,
        holdings: &Holdings,
        rng: &mut Rng,
    ) -> Result<(), Failure> {
        self.check_ours(folder)?;
        self.tries += 1;
        contents.header.write_counter = self.tries;
        let bytes = encode(contents).expect("contents of ours");
        let plan = folder.mishap();
        at(plan, Point::Begin).map_or(Ok(()), Err)?;
        let before = plan.map(|_| (folder.file.clone(), vec![None, folder.lineage.clone()]));
        let mut new = folder.make(bytes);
        if !self.lineage_due && !lowers(&self.acked, contents) {
            let Identity { device, inode, .. } = new.identity;
            let checksum = stored_checksum(&new.bytes);
            let next = Next { device, inode, born: new.born, write_counter: self.tries, checksum };
            folder.lineage = Some(self.lineage(Some(next), holdings));
        }
        let named = folder.lineage.clone().filter(|_| plan.is_some());
        self.lineage_due = true;
        if let Some(failure) = at(plan, Point::BeforeRename) {
            return Err(power(failure, folder, before, rng));
        }
        // The rename itself is a change.
        folder.clock += 1;
        new.identity.ctime_s = folder.clock;
        (self.held, self.held_counter) = (new.identity, self.tries);
        folder.file = Some(new);
        if let Some(failure) = at(plan, Point::BeforeLineage) {
            return Err(power(failure, folder, before, rng));
        }
        folder.lineage = Some(self.lineage(None, holdings));
        if let Some(failure) = at(plan, Point::BeforeReturn) {
            let before = before.map(|(file, mut lineages)| {
                lineages.push(named);
                (file, lineages)
            });
            return Err(power(failure, folder, before, rng));
        }
        self.acked = contents.clone();
        self.lineage_due = false;
        Ok(())
    }

    /// Makes the holdings durable while the marks stay.
    ///
    /// # Errors
    /// [`Failure`], as the agent's own.
    pub fn write_holdings(&mut self, folder: &mut Folder, holdings: &Holdings, rng: &mut Rng) -> Result<(), Failure> {
        self.check_ours(folder)?;
        if self.lineage_due {
            let mut contents = self.acked.clone();
            return self.write(folder, &mut contents, holdings, rng);
        }
        let plan = folder.mishap();
        if let Some(failure) = plan.and_then(|plan| at(Some(plan), plan.point)).filter(|_| !returns(plan)) {
            return Err(failure);
        }
        folder.lineage = Some(self.lineage(None, holdings));
        at(plan, Point::BeforeReturn).map_or(Ok(()), Err)
    }

    fn lineage(&self, next: Option<Next>, holdings: &Holdings) -> Vec<u8> {
        let seen = Seen {
            identity: self.held,
            write_counter: self.held_counter,
            boot: self.boot,
            session: self.acked.header.session,
            file_system: None,
        };
        Lineage { seen, next, holdings: holdings.clone() }.encode().expect("few holdings")
    }

    /// Whether the file by its name is the one that is held open, and not another that was put in its place.
    pub fn is_in_place(&self, folder: &Folder) -> bool {
        !self.taken && folder.file.as_ref().is_some_and(|file| file.identity == self.held)
    }

    fn check_ours(&mut self, folder: &Folder) -> Result<(), Failure> {
        self.taken |= !self.is_in_place(folder);
        if self.taken { Err(Failure::Taken) } else { Ok(()) }
    }
}

/// The mutations of the judgement: what differs looks alike.
fn overlook(mutations: Mutations, then: &Seen, now: &mut Seen) {
    if mutations.has(Mutation::AnyLineageResumes) {
        *now = *then;
    }
    if mutations.has(Mutation::CopyResumes) {
        now.identity = then.identity;
    }
    if mutations.has(Mutation::ChangeOverlooked) {
        (now.identity.ctime_s, now.identity.ctime_ns) = (then.identity.ctime_s, then.identity.ctime_ns);
    }
    if mutations.has(Mutation::RebootResumes) {
        now.boot = then.boot;
    }
    if mutations.has(Mutation::WritesNotCounted) {
        now.write_counter = then.write_counter;
    }
}

fn returns(plan: Option<Plan>) -> bool {
    plan.is_some_and(|plan| plan.point == Point::BeforeReturn)
}

fn at(plan: Option<Plan>, here: Point) -> Option<Failure> {
    plan.filter(|plan| plan.point == here).map(|plan| match plan.mishap {
        Mishap::Fails => Failure::Io,
        Mishap::Dies => Failure::Died,
        Mishap::PowerCut => Failure::PowerCut,
    })
}

/// What was there before a write: the file, and each lineage that there was one after the other.
type Before = Option<(Option<Placed>, Vec<Option<Vec<u8>>>)>;

/// Nothing since the last return is sure to be there: the old file or the new one, with any of the lineages, a torn one
/// or none.
fn power(failure: Failure, folder: &mut Folder, before: Before, rng: &mut Rng) -> Failure {
    if let (Failure::PowerCut, Some((file, mut lineages))) = (failure, before) {
        if rng.chance(0.5) {
            folder.file = file;
        }
        let newest = folder.lineage.take();
        let torn = newest.as_ref().map(|bytes| bytes[..bytes.len() / 2].to_vec());
        lineages.extend([torn, newest]);
        folder.lineage = lineages.swap_remove(rng.below(lineages.len()));
    }
    failure
}
