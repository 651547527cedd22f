//! File systems of a test's own, mounted in a mount namespace.

use crate::unshare::{Namespaces, block_on};
use anyhow::{Context as _, Result, bail};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

const MOUNTS: Namespaces = Namespaces {
    flags: &["--mount"],
    setup: "true",
    probe: "mount -t tmpfs none /mnt && mount --bind /mnt /mnt && mount -o remount,bind,ro /mnt",
    wanted: "UNIQ_MOUNTS",
    what: "mounts",
};
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Runs a test, the function that this closure stands in, where it may mount, with an empty folder.
///
/// # Errors
/// See [`Namespaces::run`].
pub fn enter<Test: FnOnce(&Path)>(test: Test) -> Result<()> {
    MOUNTS.run::<Test>(|| {
        test(tempfile::tempdir()?.path());
        Ok(())
    })
}

/// Runs a test as [`enter`] does, on a runtime.
///
/// # Errors
/// See [`Namespaces::run`].
pub fn enter_async<Test: AsyncFnOnce()>(test: Test) -> Result<()> {
    MOUNTS.run::<Test>(|| block_on(test()))
}

/// Runs a program to its end. Gives what it wrote.
///
/// # Errors
/// If it is not there or does not end well.
pub fn run<S: AsRef<OsStr>>(program: &str, args: impl IntoIterator<Item = S>) -> Result<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let done = Command::new(program).args(args).env("PATH", format!("{path}:/usr/sbin:/sbin")).output();
    let done = done.with_context(|| format!("cannot run {program}"))?;
    if !done.status.success() {
        bail!("{program}: {}", String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Mounts a file system at a folder, which is made if need be. It goes with the namespace.
///
/// # Errors
/// If the kernel has no such file system, or does not let us.
pub fn mount(kind: &str, options: &str, device: &str, at: &Path) -> Result<()> {
    std::fs::create_dir_all(at)?;
    let at = at.to_str().context("a path that is not text")?;
    run("mount", ["-t", kind, "-o", options, device, at]).map(drop)
}

/// Lets this machine seem to be booted anew, to whoever is in here.
///
/// # Errors
/// If /proc cannot be mounted over.
pub fn pretend_boot(id: u128, dir: &Path) -> Result<()> {
    let file = dir.join(format!("boot-{id}"));
    std::fs::write(&file, format!("{id:032x}\n"))?;
    run("mount", [OsStr::new("--bind"), file.as_os_str(), OsStr::new(BOOT_ID)]).map(drop)
}

/// The kind of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Ext4. It flushes a file when it is renamed over another, asked or not.
    Ext4,
    /// XFS. It flushes what it is asked to, and copies can share their blocks (reflink).
    Xfs,
    /// Btrfs. Parts of it (subvolumes) are mounted on their own, and snapshots of them cost nothing.
    Btrfs,
}

/// A file system in a file, on a device of the kernel's that stays the same when the file is another.
pub struct Image {
    kind: Kind,
    file: PathBuf,
    device: String,
    at: PathBuf,
}

impl Image {
    /// Makes it in `dir` and mounts it there.
    ///
    /// # Errors
    /// If there are no loop devices, or we may not use them.
    pub fn new(kind: Kind, dir: &Path) -> Result<Self> {
        // The least that each of them can be; where nothing is written, it takes no room.
        let len = match kind {
            Kind::Ext4 => 8 << 20,
            Kind::Xfs => 300 << 20,
            Kind::Btrfs => 128 << 20,
        };
        Self::with_len(kind, dir, len)
    }

    /// The same with so many bytes.
    ///
    /// # Errors
    /// If there are no loop devices, or we may not use them.
    pub fn with_len(kind: Kind, dir: &Path, len: u64) -> Result<Self> {
        let (file, at) = (dir.join(format!("{kind:?}")), dir.join(format!("{kind:?}-disk")));
        std::fs::create_dir(&at)?;
        let program = match kind {
            Kind::Ext4 => "mkfs.ext4",
            Kind::Xfs => "mkfs.xfs",
            Kind::Btrfs => "mkfs.btrfs",
        };
        std::fs::File::create(&file)?.set_len(len)?;
        run(program, [OsStr::new("-q"), file.as_os_str()])?;
        let device = run("losetup", [OsStr::new("--find"), OsStr::new("--show"), file.as_os_str()])?;
        let image = Self { kind, file, device: device.trim().to_owned(), at };
        image.mount()?;
        Ok(image)
    }

    /// The folder at which it is mounted.
    pub fn folder(&self) -> &Path {
        &self.at
    }

    fn mount(&self) -> Result<()> {
        match self.kind {
            // What nobody asks to be flushed stays in memory for as long as the test runs.
            Kind::Ext4 => mount("ext4", "commit=300", &self.device, &self.at),
            Kind::Xfs => mount("xfs", "rw", &self.device, &self.at),
            Kind::Btrfs => mount("btrfs", "rw", &self.device, &self.at),
        }
    }

    /// Unmounts the whole of a Btrfs and mounts one subvolume of it in its place; the kernel then numbers its devices from
    /// where it began. Nobody may have a file open.
    ///
    /// # Errors
    /// If there is no such subvolume.
    pub fn show(&self, subvolume: &str) -> Result<()> {
        run("umount", [&self.at])?;
        mount("btrfs", &format!("subvol={subvolume}"), &self.device, &self.at)
    }

    fn detach(&self) -> Result<()> {
        run("umount", [&self.at])?;
        run("losetup", ["--detach", &self.device]).map(drop)
    }

    /// Mounts it anew, from the disk that it is on. Nobody may have a file open.
    ///
    /// # Errors
    /// If something of that cannot be done.
    pub fn mount_anew(&self) -> Result<()> {
        run("umount", [&self.at])?;
        self.mount()
    }

    /// Keeps a snapshot of all that was written.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&self) -> Result<()> {
        run("sync", [OsStr::new("-f"), self.at.as_os_str()])?;
        run("cp", [self.file.as_path(), &self.file.with_extension("kept")]).map(drop)
    }

    /// Detaches the volume and attaches that snapshot of it, on the same device. Nobody may have a file open.
    ///
    /// # Errors
    /// If something of that cannot be done.
    pub fn put_back(&mut self) -> Result<()> {
        self.detach()?;
        std::fs::rename(self.file.with_extension("kept"), &self.file)?;
        self.attach()
    }

    fn attach(&self) -> Result<()> {
        run("losetup", [OsStr::new(&self.device), self.file.as_os_str()])?;
        self.mount()
    }

    /// The power goes: what is mounted then is what the device had of it, on the same device, put in order by the
    /// kernel from its journal. Nobody may have a file open.
    ///
    /// # Errors
    /// If something of that cannot be done.
    pub fn cut_power(&mut self) -> Result<()> {
        let left = self.file.with_extension("left");
        run("cp", [self.file.as_path(), &left])?;
        self.detach()?;
        std::fs::rename(&left, &self.file)?;
        self.attach()
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = self.detach();
    }
}
