//! Room for each name: the oldest file has what is left of all that went before it, of each name the latest lines.
//!
//! When there are more files than are kept, the oldest ones become one, in the place of the last of them. Of each name it has all lines or, of
//! names with more of them than others, the latest ones; all of these names have the same room. So a name that gives few IDs is known of
//! long after another one has filled all files, and a name that is alone loses nothing that it did not lose before.
//!
//! 1. The one file is written under another name (`history.new`) and made durable.
//! 2. It takes the place of the last of the oldest ones. A crash from here on leaves some lines in two files.
//! 3. The others are removed.

use super::files::{HEADER, ours, path};
use super::find;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

/// Names that are told apart; further ones have the room of one together.
const NAMES_MAX: usize = 65_536;
/// The one file until it is whole.
const NEW: &str = "history.new";
/// Bytes that are written at once.
const BUFFER_LEN: usize = 1 << 16;
/// The fields of a line before its kind, and those that say kind and name.
const BEFORE_KIND: usize = 2;
const OF_NAME: usize = 2;

/// Makes one file of these, which has `len_max` bytes at most.
///
/// # Errors
/// The disk's; then all of them are as they were, but for those that could not be removed.
pub(super) fn condense(folder: &Path, numbers: &[u64], len_max: u64) -> io::Result<()> {
    let Some((last, others)) = numbers.split_last() else { return Ok(()) };
    let to = path(folder, *last);
    let new = folder.join(NEW);
    let written = write(folder, numbers, len_max, &new);
    if let Err(failed) = written {
        // Nobody reads it, and the next one begins it anew.
        let _ = fs::remove_file(&new);
        return Err(failed);
    }
    fs::rename(&new, &to)?;
    common::file::sync_folder(folder)?;
    others.iter().try_for_each(|number| fs::remove_file(path(folder, *number)))
}

fn write(folder: &Path, numbers: &[u64], len_max: u64, new: &Path) -> io::Result<()> {
    let mut left: BTreeMap<Box<[u8]>, u64> = BTreeMap::new();
    for number in numbers {
        lines(&path(folder, *number), |line| {
            let name = name_of(line, |name| left.contains_key(name) || left.len() < NAMES_MAX);
            match left.get_mut(name) {
                Some(len) => *len += line.len() as u64,
                None => drop(left.insert(name.into(), line.len() as u64)),
            }
            Ok(())
        })?;
    }
    let room = room_of_each(left.values().copied(), len_max.saturating_sub(HEADER.len() as u64));
    let file = ours(OpenOptions::new().write(true), new)?;
    file.set_len(0)?;
    let mut out = BufWriter::with_capacity(BUFFER_LEN, file);
    out.write_all(HEADER)?;
    for number in numbers {
        lines(&path(folder, *number), |line| {
            let Some(left) = left.get_mut(name_of(line, |name| left.contains_key(name))) else { return Ok(()) };
            let fits = *left <= room;
            *left = left.saturating_sub(line.len() as u64);
            if fits { out.write_all(line) } else { Ok(()) }
        })?;
    }
    out.into_inner()?.sync_all()
}

/// The whole lines of a file behind its header, with their ends.
fn lines(path: &Path, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let (mut file, mut line) = (find::open(path)?, Vec::new());
    while find::next(&mut file, &mut line)? {
        if line.ends_with(b"\n") && line != HEADER {
            each(&line)?;
        }
    }
    Ok(())
}

/// The kind and name that a line says; nothing if it says none, or one that is not told apart.
fn name_of(line: &[u8], is_told_apart: impl Fn(&[u8]) -> bool) -> &[u8] {
    let mut tabs = line.iter().enumerate().filter(|(_, byte)| **byte == b'\t').map(|(at, _)| at);
    let (from, to) = (tabs.nth(BEFORE_KIND - 1), tabs.nth(OF_NAME - 1));
    let name = from.zip(to).and_then(|(from, to)| line.get(from..to));
    name.filter(|name| is_told_apart(name)).unwrap_or_default()
}

/// The most that each of them may have, so that all together have no more than `room`.
fn room_of_each(lens: impl Iterator<Item = u64>, room: u64) -> u64 {
    let mut lens: Vec<u64> = lens.collect();
    lens.sort_unstable();
    let (mut room, mut others) = (room, lens.len() as u64);
    for len in lens {
        let each = room / others.max(1);
        if len > each {
            return each;
        }
        (room, others) = (room - len, others.saturating_sub(1));
    }
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_some_do_not_need_others_have() {
        for (lens, room, each) in [
            (&[][..], 10, u64::MAX),
            (&[4, 6], 10, u64::MAX),
            (&[4, 7], 10, 6),
            (&[1, 100, 100], 11, 5),
            (&[50, 50, 1, 2], 0, 0),
        ] {
            assert_eq!(room_of_each(lens.iter().copied(), room), each, "{lens:?}");
            let all: u64 = lens.iter().map(|len| *len.min(&each)).sum();
            assert!(all <= room);
        }
    }
}
