//! Files that are put in place whole.

use std::fs::{File, OpenOptions, remove_file, rename};
use std::io::{self, Read as _, Write as _};
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

/// Reads a text of at most `len_max` bytes.
///
/// # Errors
/// It cannot be read, is longer, is not UTF-8, or is no regular file: a pipe may keep its reader waiting for ever.
pub fn read_text(path: &Path, len_max: u64) -> io::Result<String> {
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    if !std::fs::metadata(path)?.is_file() {
        return Err(wrong("it is no regular file".to_owned()));
    }
    let mut text = String::new();
    let len = File::open(path)?.take(len_max.saturating_add(1)).read_to_string(&mut text)?;
    if len as u64 > len_max { Err(wrong(format!("it has more than {len_max} bytes"))) } else { Ok(text) }
}

/// Makes the names in a folder durable.
///
/// # Errors
/// If the folder cannot be opened or flushed.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
