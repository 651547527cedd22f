//! The search for who got an ID: reads all files, line for line, whether an agent writes them or not.

use super::files::{HEADER, numbers, path};
use super::line::{LINE_LEN_MAX, Line};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The files and lines that were looked at.
#[derive(Debug, Default)]
pub struct Searched {
    /// Files that were read to their end.
    pub files: usize,
    /// Lines that were understood.
    pub lines: u64,
    /// Lines that were not: torn by a crash, or changed. The ID may have stood in one of them.
    pub torn: u64,
    /// Files that could not be read, and why.
    pub unread: Vec<(PathBuf, io::Error)>,
}

/// Tells every line of the history in `folder` that `wanted` says yes to, from the oldest to the latest. Takes a few
/// kilobytes of memory, however much there is to read. A file that is removed meanwhile, as the oldest ones are, is passed
/// over.
///
/// For one ID `wanted` is `|line| line.contains(id)`; uniq64 and uniq96 stand there in decimal.
///
/// # Errors
/// If the folder cannot be listed.
pub fn find(folder: &Path, mut wanted: impl FnMut(&Line) -> bool, mut tell: impl FnMut(Line)) -> io::Result<Searched> {
    let mut searched = Searched::default();
    for number in numbers(folder)? {
        let path = path(folder, number);
        match read(&path, &mut searched, &mut wanted, &mut tell) {
            Ok(()) => searched.files += 1,
            Err(failed) if failed.kind() == io::ErrorKind::NotFound => {}
            Err(failed) => searched.unread.push((path, failed)),
        }
    }
    Ok(searched)
}

fn read(
    path: &Path,
    searched: &mut Searched,
    wanted: &mut impl FnMut(&Line) -> bool,
    tell: &mut impl FnMut(Line),
) -> io::Result<()> {
    let mut file = open(path)?;
    let mut line = Vec::new();
    let head = next(&mut file, &mut line)?;
    // Of a file that is being made there may be a part.
    if head && !HEADER.starts_with(&line) {
        return Err(io::Error::other("it is not history of a version that this program reads"));
    }
    while next(&mut file, &mut line)? {
        let Some(text) = line.strip_suffix(b"\n") else {
            // It is being written, or was torn: whatever it says, it did not leave by it yet.
            searched.torn += 1;
            continue;
        };
        match Line::parse(text) {
            Some(line) => {
                searched.lines += 1;
                if wanted(&line) {
                    tell(line);
                }
            }
            None => searched.torn += 1,
        }
    }
    Ok(())
}

/// Opens a file of history to be read.
///
/// # Errors
/// The disk's; if it is a link, or no file: a pipe or a device would be read for ever.
pub(super) fn open(path: &Path) -> io::Result<BufReader<File>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    Ok(BufReader::new(file))
}

/// Reads a line with its end; of one that is too long the first bytes. `false` at the end of the file.
pub(super) fn next(file: &mut BufReader<File>, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let len = file.by_ref().take(LINE_LEN_MAX as u64).read_until(b'\n', line)?;
    if len == LINE_LEN_MAX && line.last() != Some(&b'\n') {
        file.skip_until(b'\n')?;
        // Nothing of it is ours.
        line.truncate(1);
        line.push(b'\n');
    }
    Ok(len > 0)
}
