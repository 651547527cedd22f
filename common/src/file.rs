//! Files that are put in place whole.

use std::fs::{File, OpenOptions, remove_file, rename};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Puts a file with these bytes and this mode in the place of the one at `path`, durable when this returns: whoever reads it, also
/// after a power cut, reads one of both as a whole. Not for two writers at once.
///
/// # Errors
/// If a file system call fails. The old file is then still there, or the new one already.
pub fn replace(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    // What is at its name is removed and never written through: somebody may have put a link there.
    match remove_file(&new) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
    file.write_all(bytes)?;
    // 1. The bytes. 2. The name. 3. The name, durable. After 1 a crash leaves the old file, after 2 either of them, after 3 the new one.
    file.sync_all()?;
    rename(&new, path)?;
    sync_folder(path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

/// Makes the names in a folder durable.
///
/// # Errors
/// If the folder cannot be opened or flushed.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
