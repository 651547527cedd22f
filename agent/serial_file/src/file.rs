//! The serial file in use: how it is written, so that at every instant a readable file with high enough marks is there.
//!
//! # The steps of a write
//! A write never changes bytes that a start may read: it makes a new file and puts it in the place of the old one. What
//! a start does after a crash stands behind each step; "old" means: resumes with the marks and holdings of the last
//! write that returned.
//!
//! | step | what | a crash after it |
//! |---|---|---|
//! | W0 | the file at the path is still the one we remember (device, inode, ctime, one name), else `FileLoss` | old |
//! | W1 | remove `<F>.new`, left over by a crash | old |
//! | W2 | create `<F>.new`, which must not be there, mode 0600 | old; W1 of the next write removes it |
//! | W3 | lock it: it shall never be in place unlocked | as after W2 |
//! | W4 | write all bytes | as after W2, whole or torn |
//! | W5 | fsync it | as after W2 |
//! | N1 | stat it: when it was made | as after W2 |
//! | N2 | remove `<F>.lineage.new`, left over by a crash | as after W2 |
//! | N3 | create it, so that it is born later than `<F>.new` | as after W2 |
//! | N4 | write all bytes of a lineage that names the file in place and the one to come | as after W2 |
//! | N5 | rename `<F>.lineage.new` to `<F>.lineage` | old, with the new holdings |
//! | W6 | rename `<F>.new` to `<F>` | new: resumes with the new marks and holdings |
//! | W7 | stat: it is in place; remember its identity | new |
//! | L1 | remove `<F>.lineage.new` | new |
//! | L2 | create it, which must not be there, mode 0600 | new |
//! | L3 | write all bytes of the lineage of the file in place | new |
//! | L4 | rename `<F>.lineage.new` to `<F>.lineage` | new |
//! | L5 | fsync the lineage file | new |
//! | L6 | fsync the folder: both names are durable | new; the write returns |
//!
//! Why two lineages: a file's ctime is known only after its rename, so the proof of an untouched file (L3) can only be
//! written after it, and without the first one (N4) a process killed in between would lose its token. The first names
//! the file to come by inode, birth, counter and checksum, and counts only if that was put in place within ten seconds of
//! its making: later it may have been moved away and back. It is left out, and a kill between W6 and L4 is fresh
//! (`lineage_behind`): on a file system that does not tell when a file was made; when a mark is lowered (a clean stop), for
//! if that write fails the higher marks may still be in use; and after a write that failed, until one succeeds.
//!
//! A power cut may keep any part of what was not flushed yet: the old file or the new one, with the old, the first, the
//! second, a torn or no lineage. What fits together is old or new (new was not used yet), and everything else is fresh. It
//! is fresh anyway (`reboot`) unless told otherwise.
//!
//! Only when it has returned may what a write allows be used. A fresh start never goes below the marks it finds, so each
//! line of the table is safe; it costs a token where it says fresh.
//!
//! # When a step fails
//! The bounds of the last successful write hold: what is on disk is at least as high, or has no lineage. A file whose
//! fsync failed is never put in place, and never fsynced again (the kernel may have dropped its pages and would answer
//! "well"): the next try makes a new one. If W6 or anything later failed, both files stay locked until it is known which
//! one is in place, and that one's identity is remembered; its lineage is written only after another whole write,
//! because the marks in it were never confirmed to the caller.

use super::disk::{Disk, Stat};
use super::lineage::{Fingerprint, Identity, Lineage, Next};
use super::location::FileLocation;
use super::start::Machine;
use super::{Block, Contents, FileLoss, Holdings, StepError, WriteError, layout};
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The serial file, locked by this process. `F` is an open file of the disk it is on.
#[derive(Clone, Debug)]
pub struct SerialFile<F = File> {
    place: Arc<FileLocation>,
    disk: Arc<dyn Disk<File = F>>,
    machine: Machine,
    /// The file in place, as far as we know.
    held: LockedFile<F>,
    /// A file that may have come into its place: a step from the rename on failed.
    unsettled: Option<LockedFile<F>>,
    /// The contents that the last whole write made durable. Their header's session is this file's.
    acked: Contents,
    /// The number of writes that were tried; the next one counts on. No two files of one session have the same counter.
    tries: u64,
    /// The lineage on disk is not that of the file in place.
    lineage_due: bool,
    /// Once someone else has the file, it stays theirs.
    taken: Option<FileLoss>,
}

/// A file we have open and locked.
#[derive(Clone, Debug, Hash)]
pub(super) struct LockedFile<F> {
    /// Never read; it holds the lock, and the inode's number.
    pub(super) file: F,
    /// The identity that it had when we last had to do with it.
    pub(super) identity: Identity,
    /// The write counter in it.
    pub(super) write_counter: u64,
}

impl<F> SerialFile<F> {
    /// A file that was opened, locked and read. `acked` is what it says, with the session that goes on from here.
    pub(super) fn new(
        place: Arc<FileLocation>,
        disk: Arc<dyn Disk<File = F>>,
        machine: Machine,
        held: LockedFile<F>,
        acked: Contents,
    ) -> Self {
        let tries = held.write_counter;
        Self { place, disk, machine, held, unsettled: None, acked, tries, lineage_due: false, taken: None }
    }

    /// The path of the file, its folder resolved.
    pub fn path(&self) -> &Path {
        &self.place.path
    }

    /// The place of the file, its disk, and the boot in which it was opened.
    pub(super) fn surroundings(&self) -> (Arc<FileLocation>, Arc<dyn Disk<File = F>>, Machine) {
        (Arc::clone(&self.place), Arc::clone(&self.disk), self.machine)
    }

    /// The files it has open: the one in place, and one that may have come into its place.
    pub fn open_files(&self) -> impl Iterator<Item = &F> {
        std::iter::once(&self.held).chain(&self.unsettled).map(|held| &held.file)
    }

    /// Makes `contents` and `holdings` durable. Only when this returns may what they allow be used. Counts
    /// `contents.header.write_counter` up, also when it fails.
    ///
    /// A write that *lowers* a mark within its bucket (a clean stop) must be the last one: even if it fails it may be what
    /// the next start finds, so nothing above the lowered mark may be minted after it was tried.
    ///
    /// # Errors
    /// [`WriteError::Io`]: the bounds of the last successful write hold; it may be tried again, and the next try uses a
    /// new file. Also for contents of another session or fewer blocks, which no later file of ours has. [`WriteError::Lost`]: someone
    /// else has the file; the process must stop minting and end. Every later call says so again.
    pub fn write(&mut self, contents: &mut Contents, holdings: &Holdings) -> Result<(), WriteError> {
        self.check_ours()?; // W0
        let known = &self.acked;
        if contents.header.session != known.header.session || contents.blocks.len() < known.blocks.len() {
            return Err(refused("contents of another session, or of fewer blocks").into());
        }
        self.tries = self.tries.saturating_add(1);
        contents.header.write_counter = self.tries;
        let bytes = layout::encode(contents).map_err(refused)?;
        let vouch = !self.lineage_due && !lowers(known, contents);
        self.replace(&bytes, vouch.then_some(holdings))?;
        self.write_lineage(holdings)?;
        self.acked = contents.clone();
        self.lineage_due = false;
        Ok(())
    }

    /// Makes `holdings` durable while the marks stay as they are.
    ///
    /// # Errors
    /// As [`write`](Self::write). After a failure the old or the new holdings may be what the next start finds.
    pub fn write_holdings(&mut self, holdings: &Holdings) -> Result<(), WriteError> {
        self.check_ours()?; // W0
        if self.lineage_due {
            // The file in place has marks that the caller was told are not durable. A lineage would confirm them.
            let mut contents = self.acked.clone();
            return self.write(&mut contents, holdings);
        }
        Ok(self.write_lineage(holdings)?)
    }

    /// W1 to W7. The file to come is named in the lineage beforehand only with the holdings to name there.
    fn replace(&mut self, bytes: &[u8], vouched: Option<&Holdings>) -> Result<(), WriteError> {
        let prepared = self.prepare(bytes).and_then(|new| {
            if let Some(holdings) = vouched {
                self.announce(&new, layout::stored_checksum(bytes).unwrap_or_default(), holdings)?;
            }
            Ok(new)
        });
        let new = prepared.inspect_err(|_| {
            // Half a file takes room that the disk may lack. If this fails too, W1 of the next write removes it.
            self.disk.unlink(&self.place.file_new).ok();
        })?;
        self.unsettled = Some(new);
        self.lineage_due = true;
        let (from, to) = (&self.place.file_new, &self.place.file);
        let renamed = step("put the new serial file in place", self.disk.rename(from, to)); // W6
        // Also when it failed: a rename may be done although it was reported as failed.
        let ours = self.check_ours(); // W7
        match (renamed, ours) {
            (_, Err(taken @ WriteError::Lost(_))) => Err(taken),
            (Err(e), _) => Err(e.into()),
            (Ok(()), ours) => ours,
        }
    }

    /// W1 to W5: a new file beside the old one, locked and durable.
    fn prepare(&self, bytes: &[u8]) -> Result<LockedFile<F>, StepError> {
        let name = &self.place.file_new;
        step("remove the left-over of a serial file", self.disk.unlink(name))?; // W1
        let file = step("create a new serial file", self.disk.create(name))?; // W2
        if !step("lock the new serial file", self.disk.try_lock(&file))? {
            // W3
            return Err(StepError {
                action: "lock the new serial file".into(),
                source: io::ErrorKind::WouldBlock.into(),
            });
        }
        step("write the new serial file", self.disk.write(&file, bytes))?; // W4
        step("flush the new serial file", self.disk.fsync(&file))?; // W5
        // The identity is that of before the rename, which changes the ctime; W7 replaces it.
        let identity = self.held.identity;
        Ok(LockedFile { file, identity, write_counter: self.tries })
    }

    /// N1 to N5: whichever of both is in place, the session goes on. Nothing is flushed: this is for a process that dies.
    fn announce(&self, new: &LockedFile<F>, checksum: u64, holdings: &Holdings) -> Result<(), StepError> {
        let stat = step("look at the new serial file", self.disk.stat(&new.file))?; // N1
        let Some(born) = stat.born else { return Ok(()) };
        let lineage = &self.place.lineage;
        lineage.remove_left_over(&*self.disk)?; // N2
        let made = lineage.step("create the next file of", self.disk.create_after(&lineage.new, born))?; // N3
        let Some(file) = made else { return Ok(()) };
        let Identity { device, inode, .. } = stat.identity;
        let next = Next { device, inode, born, write_counter: new.write_counter, checksum };
        lineage.put(&*self.disk, &file, &self.lineage(Some(next), holdings)?, false) // N4, N5
    }

    /// W0 and W7: the file in place is the one we hold, untouched. Settles which one we hold if a rename was in doubt.
    fn check_ours(&mut self) -> Result<(), WriteError> {
        const ACTION: &str = "look at the serial file";
        if let Some(taken) = self.taken {
            return Err(WriteError::Lost(taken));
        }
        let Some(there) = step(ACTION, self.disk.stat_name(&self.place.file))? else {
            return self.lost(FileLoss::Missing);
        };
        if let Some(new) = &self.unsettled {
            let new = step(ACTION, self.disk.stat(&new.file))?;
            if let Some(mut unsettled) = self.unsettled.take()
                && new.identity.same_file(&there.identity)
            {
                unsettled.identity = there.identity;
                // Lets go of the old file and its lock; no path leads there any more.
                self.held = unsettled;
            }
        }
        match difference(&self.held.identity, &there) {
            Some(taken) => self.lost(taken),
            None => Ok(()),
        }
    }

    fn lost(&mut self, taken: FileLoss) -> Result<(), WriteError> {
        self.taken = Some(taken);
        Err(WriteError::Lost(taken))
    }

    /// L1 to L6.
    fn write_lineage(&self, holdings: &Holdings) -> Result<(), StepError> {
        let lineage = &self.place.lineage;
        let file = lineage.replace(&*self.disk, &self.lineage(None, holdings)?, false)?; // L1 to L4
        lineage.step("flush", self.disk.fsync(&file))?; // L5
        lineage.step("flush the folder of", self.disk.fsync_folder()) // L6
    }

    /// The bytes of the lineage of the file in place, and of the next one if there is one.
    fn lineage(&self, next: Option<Next>, holdings: &Holdings) -> Result<Vec<u8>, StepError> {
        let seen = Fingerprint {
            identity: self.held.identity,
            write_counter: self.held.write_counter,
            boot: self.machine.boot,
            session: self.acked.header.session,
            file_system: self.machine.file_system,
        };
        Lineage { seen, next, holdings: holdings.clone() }.encode().map_err(refused)
    }
}

/// Tells whether something that `then` excludes for ever would be allowed again by `now`: a block gone, a bucket gone back, a
/// serial lower within its bucket, an earlier time mark. A block that gave way to another name's is none, if names without a block
/// begin later for it: its own name gives nothing any more, and if another process goes on with it, nothing of that hour, day or tick.
fn lowers(then: &Contents, now: &Contents) -> bool {
    let place = |block: &Block| (block.bucket, block.serial);
    let (floor_then, floor_now) = (then.header.names_from, now.header.names_from);
    let kept = |(at, then): (usize, &Option<Block>)| {
        let Some(then) = then else { return true };
        let same = |now: &&Block| (&now.name, now.kind) == (&then.name, then.kind);
        // Where it was, but for one that gave way: there may be thousands.
        let there = now.blocks.get(at).and_then(Option::as_ref).filter(same);
        let found = there.or_else(|| now.blocks.iter().flatten().find(same));
        found.map_or(floor_now > floor_then, |now| place(now) >= place(then))
    };
    let all_kept = then.blocks.iter().enumerate().all(kept);
    !all_kept || now.header.time_mark < then.header.time_mark || floor_now < floor_then
}

/// All that it knows; where it is and on which disk is not told apart.
impl<F: Hash> Hash for SerialFile<F> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Self { place: _, disk: _, machine, held, unsettled, acked, tries, lineage_due, taken } = self;
        (machine, held, unsettled, acked, tries, lineage_due, taken).hash(hasher);
    }
}

fn difference(held: &Identity, there: &Stat) -> Option<FileLoss> {
    if !held.same_file(&there.identity) {
        Some(FileLoss::Replaced)
    } else if there.links != 1 {
        Some(FileLoss::Linked)
    } else if *held != there.identity {
        Some(FileLoss::Changed)
    } else {
        None
    }
}

fn step<T>(action: &'static str, done: io::Result<T>) -> Result<T, StepError> {
    done.map_err(|source| StepError { action: action.into(), source })
}

fn refused(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StepError {
    StepError {
        action: "write this into a serial file".into(),
        source: io::Error::new(io::ErrorKind::InvalidInput, why),
    }
}
