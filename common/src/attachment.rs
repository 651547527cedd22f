//! Attachments of file systems: a volume that is put back to a snapshot without a reboot was detached and attached anew, and all else that
//! the kernel shows of a file on it may be as it was.

use rustix::fs::{AtFlags, StatxFlags, major, minor, statx};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The kernel's running number of a disk, by device numbers; of a partition, one folder up.
const DISK_SEQUENCE: &str = "/sys/dev/block";
/// Digits of such a number at most, line end and all.
const DISK_SEQUENCE_LEN_MAX: u64 = 32;
/// The mask bit of statx for a mount's number that is never used again; older kernels pass over it and give the plain
/// one. (`STATX_MNT_ID_UNIQUE`)
const MOUNT_UNIQUE: u32 = 0x4000;

/// Place of a file system within one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The kernel's running number of the disk below it ([`disk_sequence`]).
    pub disk: Option<u64>,
    /// The kernel's number of the mount through which it is seen, which no other mount gets in this boot; `None` where the kernel gives
    /// numbers again (before 6.8).
    pub mount: Option<u64>,
}

impl Attachment {
    /// Asks the kernel about the file system that an open file or folder is on.
    pub fn of(file: &File) -> Self {
        let disk = file.metadata().ok().and_then(|stat| disk_sequence(stat.dev()));
        let mount = mount_of(file).ok().and_then(|(mount, unique)| unique.then_some(mount));
        Self { disk, mount }
    }

    /// True if its disk has the same number, or if it is on no disk of its own and stayed mounted; `false` where the kernel tells neither.
    pub fn stayed(&self, now: &Self) -> bool {
        let same = |then: Option<u64>, now: Option<u64>| then.is_some() && then == now;
        self.disk == now.disk && (same(self.disk, now.disk) || same(self.mount, now.mount))
    }
}

/// The running number (`diskseq`) of the disk with these device numbers, which no other disk gets in this boot. None where there is no
/// single disk (btrfs, ZFS, tmpfs, overlay have numbers of their own), no /sys, or an older kernel.
pub fn disk_sequence(device: u64) -> Option<u64> {
    let folder = Path::new(DISK_SEQUENCE).join(format!("{}:{}", major(device), minor(device)));
    ["diskseq", "../diskseq"].into_iter().find_map(|name| {
        let mut text = String::new();
        File::open(folder.join(name)).ok()?.take(DISK_SEQUENCE_LEN_MAX).read_to_string(&mut text).ok()?;
        text.trim_end().parse().ok()
    })
}

/// The number of the mount through which an open file or folder is seen, and whether no other one gets it in this boot.
///
/// # Errors
/// An error of the operating system.
pub fn mount_of(file: &File) -> io::Result<(u64, bool)> {
    let unique = StatxFlags::from_bits_retain(MOUNT_UNIQUE);
    let seen = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID | unique)?;
    Ok((seen.stx_mnt_id, seen.stx_mask & MOUNT_UNIQUE != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stayed_if_its_disk_did_or_without_one_its_mount() {
        let at = |disk, mount| Attachment { disk, mount };
        for (then, now, stayed) in [
            (at(Some(25), Some(3)), at(Some(25), Some(4)), true),
            (at(Some(25), Some(3)), at(Some(27), Some(3)), false),
            (at(None, Some(3)), at(None, Some(3)), true),
            (at(None, Some(3)), at(None, Some(4)), false),
            (at(Some(25), Some(3)), at(None, Some(3)), false),
            (at(None, Some(3)), at(Some(25), Some(3)), false),
            (at(None, None), at(None, None), false),
        ] {
            assert_eq!(then.stayed(&now), stayed, "{then:?} {now:?}");
        }
    }

    #[test]
    fn this_machine_tells_the_same_twice() {
        let here = File::open("/").unwrap();
        assert_eq!(Attachment::of(&here), Attachment::of(&here));
    }
}
