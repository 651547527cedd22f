//! An agent's folder: a serial file and its lineage, as bytes, with the identities that a kernel would give them, and
//! the steps of a write at which a disk can fail, a process die and the power go.
//!
//! Bytes, lineage and judgement are the agent's own; only the order of its system calls is told again here (the agent
//! speaks to its disk in open files, of which a simulation has none).

use super::rng::Rng;
use agent::serial_file::{
    AfterReboot, BootId, Contents, Found, Holdings, Identity, Lineage, Seen, StartKind, decode, encode, judge,
};
use common::terms::SessionId;

/// A file in place.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What it is to the kernel.
    pub identity: Identity,
}

/// At which step of a write something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Before the new file is put in place.
    BeforeRename,
    /// The new file is in place, its lineage is not.
    BeforeLineage,
    /// Both are in place, but the caller does not hear of it.
    BeforeReturn,
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

/// A folder.
#[derive(Clone, Debug)]
pub struct Folder {
    /// The device that it is on; a copied image has the same.
    pub device: u64,
    /// The serial file.
    pub file: Option<Placed>,
    /// The lineage file.
    pub lineage: Option<Vec<u8>>,
    /// What happens at the next write.
    pub plan: Option<(Point, Mishap)>,
    /// Counts inodes and ctimes: no two changes look alike.
    pub clock: i64,
}

impl Folder {
    /// Empty, on a device of its own.
    pub fn new(device: u64) -> Self {
        Self { device, file: None, lineage: None, plan: None, clock: 1 }
    }

    /// What the kernel makes of a new file.
    pub fn fresh_identity(&mut self) -> Identity {
        self.clock += 1;
        Identity { device: self.device, inode: self.clock as u64, ctime_s: self.clock, ctime_ns: 0 }
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
        let identity = self.fresh_identity();
        self.file = Some(Placed { bytes, identity });
    }

    /// Another's bytes in the same file.
    pub fn overwrite(&mut self, bytes: Vec<u8>) {
        self.touch();
        match &mut self.file {
            Some(file) => file.bytes = bytes,
            None => self.put(bytes),
        }
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

/// A boot's number as the kernel's random one.
pub fn boot_id(number: u64) -> BootId {
    format!("{number:x}").parse().expect("hexadecimal digits")
}

impl SerialFile {
    /// A start; `None` if there is no file, or it is none.
    ///
    /// # Errors
    /// If the first write of a fresh start fails.
    pub fn open(
        folder: &mut Folder,
        boot: u64,
        rule: AfterReboot,
        believe_all: bool,
        session: SessionId,
        rng: &mut Rng,
    ) -> Option<Result<Opened, Failure>> {
        let placed = folder.file.clone()?;
        let mut contents = decode(&placed.bytes).ok()?;
        let boot = boot_id(boot);
        let counter = contents.header.write_counter;
        let seen = Seen { identity: placed.identity, write_counter: counter, boot, session: contents.header.session };
        let found = folder.lineage.as_deref().map_or(Found::Missing, Found::decode);
        let start = if believe_all { StartKind::Resumed } else { judge(&found, &seen, None, rule) };
        let acked = contents.clone();
        let mut file = Self {
            boot,
            held: placed.identity,
            held_counter: counter,
            acked,
            tries: counter,
            lineage_due: false,
            taken: false,
        };
        if let (StartKind::Resumed, Found::Whole(lineage)) = (&start, found) {
            return Some(Ok(Opened { file, contents, holdings: lineage.holdings, start }));
        }
        contents.header.session = session;
        file.acked.header.session = session;
        let holdings = Holdings::default();
        Some(file.write(folder, &mut contents, &holdings, rng).map(|()| Opened { file, contents, holdings, start }))
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
        let plan = folder.plan.take();
        let old = (folder.file.clone().filter(|_| plan.is_some()), folder.lineage.clone().filter(|_| plan.is_some()));
        mishap(plan, Point::BeforeRename).map_or(Ok(()), Err)?;
        let identity = folder.fresh_identity();
        folder.file = Some(Placed { bytes, identity });
        (self.held, self.held_counter, self.lineage_due) = (identity, self.tries, true);
        if let Some(failure) = mishap(plan, Point::BeforeLineage) {
            return Err(power(failure, folder, old, rng));
        }
        folder.lineage = Some(self.lineage(holdings));
        if let Some(failure) = mishap(plan, Point::BeforeReturn) {
            return Err(power(failure, folder, old, rng));
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
        let plan = folder.plan.take();
        if let Some(failure) = mishap(plan, Point::BeforeRename).or(mishap(plan, Point::BeforeLineage)) {
            return Err(failure);
        }
        folder.lineage = Some(self.lineage(holdings));
        mishap(plan, Point::BeforeReturn).map_or(Ok(()), Err)
    }

    fn lineage(&self, holdings: &Holdings) -> Vec<u8> {
        let seen = Seen {
            identity: self.held,
            write_counter: self.held_counter,
            boot: self.boot,
            session: self.acked.header.session,
        };
        Lineage { seen, next: None, holdings: holdings.clone() }.encode().expect("few holdings")
    }

    fn check_ours(&mut self, folder: &Folder) -> Result<(), Failure> {
        let ours = folder.file.as_ref().is_some_and(|file| file.identity == self.held);
        self.taken |= !ours;
        if self.taken { Err(Failure::Taken) } else { Ok(()) }
    }
}

fn mishap(plan: Option<(Point, Mishap)>, here: Point) -> Option<Failure> {
    plan.filter(|(point, _)| *point == here).map(|(_, mishap)| match mishap {
        Mishap::Fails => Failure::Io,
        Mishap::Dies => Failure::Died,
        Mishap::PowerCut => Failure::PowerCut,
    })
}

/// Nothing since the last return is sure to be there: the old file or the new one, with the old, the new, a torn or no
/// lineage.
fn power(failure: Failure, folder: &mut Folder, old: (Option<Placed>, Option<Vec<u8>>), rng: &mut Rng) -> Failure {
    if failure == Failure::PowerCut {
        if rng.chance(0.5) {
            folder.file = old.0;
        }
        match rng.below(4) {
            0 => folder.lineage = old.1,
            1 => folder.lineage = None,
            2 => {
                if let Some(lineage) = &mut folder.lineage {
                    lineage.truncate(lineage.len() / 2);
                }
            }
            _ => {}
        }
    }
    failure
}
