//! The store's lineage: the proof that nobody but this master touched its store since it last wrote it.
//!
//! A copy of a store, one that was put back from a backup and one on a disk that was reverted hold the same bytes as the
//! store they come from, and would go on renewing what the store itself, or the other master, has long ended. A file beside
//! the anchor keeps the kernel's view of the anchor after its last write: none of that comes along with a copy,
//! and whatever is done to the anchor in place sets its ctime, which no system call sets back. `judge` compares; a store
//! that fails is not damaged, but its master promises nothing alone before it has met the other one.
//!
//! The file is written, never flushed: a killed process loses nothing of it, and after a loss of power the boot id differs.

pub use crate::lease::Unproven;
use common::attachment::Attachment;
use common::clock::Clock;
use common::envelope::{Kind, decode, encode};
use common::time::WallMs;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

pub(super) const LINEAGE_FILE: &str = "lineage";
const LINEAGE: Kind = Kind { name: *b"SLIN", version: 2 };
const LINEAGE_LEN_MAX: u64 = 256;
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const BOOT_ID_LEN_MAX: u64 = 64;
/// The longest time, by the file system's clock, after a commit began in which it may have written the anchor, in
/// milliseconds; and the most by which that clock, which ticks every few milliseconds, may be behind the calendar.
const WRITTEN_WITHIN_MS: i64 = 10_000;
const TICK_MS: i64 = 100;

/// The kernel's view of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileState {
    device: u64,
    /// The file system's own id: the device's number comes back when a file system is unmounted.
    file_system: u64,
    inode: u64,
    ctime_s: i64,
    ctime_ns: i64,
    /// The running number of the disk, and of the mount; 0 where the kernel tells none.
    disk: u64,
    mount: u64,
}

impl FileState {
    fn of(file: &File, attachment: Attachment) -> io::Result<Self> {
        let (disk, mount) = (attachment.disk.unwrap_or_default(), attachment.mount.unwrap_or_default());
        let stat = file.metadata()?;
        let file_system = rustix::fs::fstatvfs(file)?.f_fsid;
        let (ctime_s, ctime_ns) = (stat.ctime(), stat.ctime_nsec());
        Ok(Self { device: stat.dev(), file_system, inode: stat.ino(), ctime_s, ctime_ns, disk, mount })
    }

    fn same_file(&self, other: &Self) -> bool {
        (self.device, self.file_system, self.inode) == (other.device, other.file_system, other.inode)
    }

    fn attachment(&self) -> Attachment {
        let told = |number: u64| Some(number).filter(|number| *number != 0);
        Attachment { disk: told(self.disk), mount: told(self.mount) }
    }

    /// True if nothing was done to the file, through whichever mount of its disk it is seen.
    fn untouched(&self, now: &Self) -> bool {
        (self.ctime_s, self.ctime_ns) == (now.ctime_s, now.ctime_ns)
    }

    fn ctime_ms(&self) -> i64 {
        self.ctime_s.saturating_mul(1_000).saturating_add(self.ctime_ns / 1_000_000)
    }
}

/// The contents of the lineage file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Lineage {
    boot: u128,
    /// The number of the commit after which `anchor` was read.
    commits: u64,
    /// The anchor after that commit.
    anchor: FileState,
    /// True once the next commit has begun, with its time; it may have written the anchor since. All records are of one
    /// length, as they are written one over the other.
    next_began: (bool, WallMs),
}

/// The lineage file of an open store.
pub(super) struct LineageFile {
    file: Option<File>,
    boot: Option<u128>,
    /// The place of its file system, which stays the same for as long as it is open.
    attachment: Attachment,
    last: Option<Lineage>,
}

impl LineageFile {
    /// The lineage of the store in `ledger`, made if there is none. A store without one works; it is just never proven.
    pub(super) fn open(ledger: &Path) -> Self {
        let path = ledger.join(LINEAGE_FILE);
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path).ok();
        let attachment = file.as_ref().map_or(Attachment { disk: None, mount: None }, Attachment::of);
        Self { file, boot: boot_id(), attachment, last: None }
    }

    /// Tells whether the store is the untouched one that its master last wrote. To be asked before anything is written.
    pub(super) fn proves(&mut self, anchor: &File, commits: Option<u64>) -> Result<(), Unproven> {
        let damaged = |e: &dyn std::fmt::Display| Unproven::Damaged(e.to_string());
        let mut bytes = Vec::new();
        let file = self.file.as_ref().ok_or(Unproven::Missing)?;
        file.take(LINEAGE_LEN_MAX).read_to_end(&mut bytes).map_err(|e| damaged(&e))?;
        let Some(commits) = commits.filter(|_| !bytes.is_empty()) else { return Err(Unproven::Missing) };
        let found = decode::<Lineage>(LINEAGE, &bytes).map_err(|e| damaged(&e))?;
        let now = FileState::of(anchor, self.attachment).map_err(|e| damaged(&e))?;
        judge(&found, &now, self.boot, commits)?;
        self.last = Some(found);
        Ok(())
    }

    /// Notes that a commit begins.
    pub(super) fn begin(&mut self) {
        if let Some(last) = self.last {
            self.put(Lineage { next_began: (true, Clock::system().wall()), ..last });
        }
    }

    /// Notes that commit number `commits` has written the anchor.
    pub(super) fn done(&mut self, anchor: &File, commits: u64) {
        if let (Some(boot), Ok(state)) = (self.boot, FileState::of(anchor, self.attachment)) {
            self.put(Lineage { boot, commits, anchor: state, next_began: (false, WallMs(0)) });
        }
    }

    /// Writes the lineage. What cannot be written is left as it was: then the next start is not proven, and nothing worse.
    fn put(&mut self, lineage: Lineage) {
        let written = self.file.as_ref().zip(encode(LINEAGE, &lineage).ok());
        self.last = written.and_then(|(file, bytes)| file.write_all_at(&bytes, 0).ok()).map(|()| lineage);
    }
}

/// Tells whether the anchor is now what the lineage says that it was. `commits`: the number of the commit in the anchor.
fn judge(found: &Lineage, now: &FileState, boot: Option<u128>, commits: u64) -> Result<(), Unproven> {
    let (began, at) = found.next_began;
    let killed_midway = began && commits == found.commits.saturating_add(1);
    if boot != Some(found.boot) {
        Err(Unproven::Rebooted)
    } else if !found.anchor.same_file(now) {
        Err(Unproven::Copied)
    } else if !found.anchor.attachment().stayed(&now.attachment()) {
        Err(Unproven::Attached)
    } else if commits == found.commits {
        if found.anchor.untouched(now) { Ok(()) } else { Err(Unproven::Touched) }
    } else if killed_midway {
        let late = now.ctime_ms().saturating_sub(at.0);
        if (-TICK_MS..=WRITTEN_WITHIN_MS).contains(&late) { Ok(()) } else { Err(Unproven::Touched) }
    } else {
        Err(Unproven::Mixed)
    }
}

/// The kernel's random number of this boot; `None` if it does not tell.
fn boot_id() -> Option<u128> {
    let mut text = String::new();
    File::open(BOOT_ID).ok()?.take(BOOT_ID_LEN_MAX).read_to_string(&mut text).ok()?;
    u128::from_str_radix(&text.trim_end().replace('-', ""), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: FileState =
        FileState { device: 1, file_system: 2, inode: 3, ctime_s: 100, ctime_ns: 5_000_000, disk: 25, mount: 4 };
    const FOUND: Lineage = Lineage { boot: 6, commits: 7, anchor: STATE, next_began: (false, WallMs(0)) };

    #[test]
    fn only_what_is_equal_in_all_is_proven() {
        assert_eq!(judge(&FOUND, &STATE, Some(6), 7), Ok(()));
        for (now, why) in [
            (FileState { device: 9, ..STATE }, Unproven::Copied),
            (FileState { file_system: 9, ..STATE }, Unproven::Copied),
            (FileState { inode: 9, ..STATE }, Unproven::Copied),
            (FileState { disk: 27, ..STATE }, Unproven::Attached),
            (FileState { disk: 0, ..STATE }, Unproven::Attached),
            (FileState { ctime_s: 101, ..STATE }, Unproven::Touched),
            (FileState { ctime_ns: 6, ..STATE }, Unproven::Touched),
        ] {
            assert_eq!(judge(&FOUND, &now, Some(6), 7), Err(why), "{now:?}");
        }
        assert_eq!(
            judge(&FOUND, &FileState { mount: 9, ..STATE }, Some(6), 7),
            Ok(()),
            "the same disk, mounted elsewhere"
        );
        // On no disk of its own.
        let diskless = Lineage { anchor: FileState { disk: 0, ..STATE }, ..FOUND };
        for (mount, proven) in [(4, Ok(())), (9, Err(Unproven::Attached)), (0, Err(Unproven::Attached))] {
            assert_eq!(judge(&diskless, &FileState { disk: 0, mount, ..STATE }, Some(6), 7), proven, "{mount}");
        }
        for boot in [Some(5), None] {
            assert_eq!(judge(&FOUND, &STATE, boot, 7), Err(Unproven::Rebooted));
        }
        for commits in [0, 6, 8, u64::MAX] {
            assert_eq!(judge(&FOUND, &STATE, Some(6), commits), Err(Unproven::Mixed));
        }
    }

    #[test]
    fn a_kill_at_any_moment_of_a_commit_leaves_it_proven() {
        let began = Lineage { next_began: (true, WallMs(200_000)), ..FOUND };
        assert_eq!(judge(&began, &STATE, Some(6), 7), Ok(()), "before the anchor was written");
        for (ctime_s, proven) in [(199, false), (200, true), (210, true), (211, false), (i64::MAX, false)] {
            let now = FileState { ctime_s, ctime_ns: 0, ..STATE };
            let expected = if proven { Ok(()) } else { Err(Unproven::Touched) };
            assert_eq!(judge(&began, &now, Some(6), 8), expected, "written at {ctime_s}");
            assert_eq!(judge(&began, &now, Some(6), 7), Err(Unproven::Touched), "an older anchor was put back");
        }
        assert_eq!(judge(&began, &STATE, Some(6), 9), Err(Unproven::Mixed));
    }
}
