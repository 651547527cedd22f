//! The files beside the serial file: one way to read them, and one way to put the next one in place.
//!
//! | file | what it has | flushed | without it, or if it is damaged |
//! |---|---|---|---|
//! | `.lineage` | what the serial file looked like after its last write | once it is in place, and its name | another session, with other tokens |
//! | `.bounds` | how far sections of sequences are; added to between two replacements | its bytes, for the disk's errors | another session serves the sections |
//! | `.proof` | what `.bounds` looked like after its last write | no: both count in their boot alone | the same |
//! | `.generators` | what names stand for | before it is in place, and its name | the masters are asked |
//! | `.keys` | the API keys for agents, as hashes | the same | the same |
//!
//! | a replacement | a kill after it |
//! |---|---|
//! | C1 remove `.new`, left over by a crash: it is never written through | the old one |
//! | C2 create it, which must not be there, mode 0600 | the old one |
//! | C3 write all bytes | the old one |
//! | C4 flush them, where that is to be before its name is | the old one |
//! | C5 rename it to its name | the new one |
//!
//! A log, as `.bounds`, `.generators` and `.keys` are, is records behind each other; each says of what the file is and which record it is.

use super::disk::{Access, Disk};
use super::start::resolve;
use super::{FileLocation, SerialFileError, StepError};
use common::envelope::{self, EnvelopeError, Kind};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::Path;

/// The ending of a file that is not in place yet.
const NEW: &str = ".new";

/// The disk that the files are on.
type On<'a, F> = &'a dyn Disk<File = F>;

/// A file beside the serial file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Companion {
    /// The name of it in errors.
    what: &'static str,
    pub name: OsString,
    /// The name of the next one while it is written.
    pub new: OsString,
}

impl Companion {
    /// The companion of that serial file whose name ends so.
    pub(super) fn of(file: &OsStr, ending: &str, what: &'static str) -> Self {
        Self { what, name: joined(file, &[ending]), new: joined(file, &[ending, NEW]) }
    }

    /// The open file, and all bytes, but no more than `len_max` and one.
    ///
    /// # Errors
    /// The disk's, also if there is none, or a link in its place.
    pub(super) fn read<F>(&self, disk: On<'_, F>, access: Access, len_max: usize) -> io::Result<(F, Vec<u8>)> {
        let file = disk.open(&self.name, access)?;
        let bytes = disk.read(&file, len_max)?;
        Ok((file, bytes))
    }

    /// C1 to C5; the file that is in place then.
    ///
    /// # Errors
    /// The step that failed. Before C5 the old one is in place, after it either of both.
    pub(super) fn replace<F>(&self, disk: On<'_, F>, bytes: &[u8], flushed: bool) -> Result<F, StepError> {
        self.remove_left_over(disk)?;
        let file = self.step("create the next file of", disk.create(&self.new))?; // C2
        self.put(disk, &file, bytes, flushed)?;
        Ok(file)
    }

    /// C1.
    pub(super) fn remove_left_over<F>(&self, disk: On<'_, F>) -> Result<(), StepError> {
        self.step("remove the left-over of", disk.unlink(&self.new))
    }

    /// C3 to C5, with an empty file at the name of the next one.
    pub(super) fn put<F>(&self, disk: On<'_, F>, file: &F, bytes: &[u8], flushed: bool) -> Result<(), StepError> {
        self.step("write", disk.write(file, bytes))?; // C3
        if flushed {
            self.step("flush", disk.fsync(file))?; // C4
        }
        self.step("put in place", disk.rename(&self.new, &self.name)) // C5
    }

    /// Puts bytes in place, durable with their name when this returns.
    ///
    /// # Errors
    /// The step that failed; then the old file is in place, or the new one already.
    pub(super) fn keep<F>(&self, disk: On<'_, F>, bytes: io::Result<Vec<u8>>) -> Result<(), StepError> {
        self.replace(disk, &self.step("write", bytes)?, true)?;
        self.step("flush the folder of", disk.fsync_folder())
    }

    /// Names the file in the error of a step.
    pub(super) fn step<T>(&self, verb: &str, done: io::Result<T>) -> Result<T, StepError> {
        done.map_err(|source| StepError { action: format!("{verb} {}", self.what).into(), source })
    }
}

/// The companion of a serial file that is meant.
type Which = fn(&FileLocation) -> &Companion;

/// Reads the companion of that serial file, of at most so many bytes, if there is one.
///
/// # Errors
/// The reason why it cannot be read.
pub(super) fn read_beside<T>(
    serial_file: &Path,
    which: Which,
    len_max: usize,
    decode: fn(&[u8]) -> Result<T, EnvelopeError>,
) -> Result<Option<T>, String> {
    let (place, disk) = match resolve(serial_file) {
        Err(SerialFileError::NoFolder(_)) => return Ok(None),
        found => found.map_err(|e| e.to_string())?,
    };
    let companion = which(&place);
    let told =
        |e: &dyn fmt::Display| format!("{} beside {} cannot be read: {e}", companion.what, serial_file.display());
    match companion.read(&disk, Access::Read, len_max) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        read => decode(&read.map_err(|e| told(&e))?.1).map(Some).map_err(|e| told(&e)),
    }
}

/// Puts the companion of that serial file in place, durable when this returns.
///
/// # Errors
/// The reason why not; what was kept before is kept, or the new one is already.
pub(super) fn keep_beside(serial_file: &Path, which: Which, bytes: io::Result<Vec<u8>>) -> Result<(), String> {
    let (place, disk) = resolve(serial_file).map_err(|e| e.to_string())?;
    which(&place).keep(&disk, bytes).map_err(|e| e.to_string())
}

/// A name with endings.
pub(super) fn joined(name: &OsStr, endings: &[&str]) -> OsString {
    let mut joined = name.to_owned();
    endings.iter().for_each(|ending| joined.push(ending));
    joined
}

/// A record of a log: of what the file is, how many records there were before in it, and what it says.
#[derive(Serialize, Deserialize)]
struct Record<H, B>(H, u64, B);

/// The `nth` record of a log.
///
/// # Errors
/// If it is longer than a record may be.
pub(super) fn record<H: Serialize, B: Serialize>(kind: Kind, of: &H, nth: u64, body: B) -> io::Result<Vec<u8>> {
    envelope::encode(kind, &Record(of, nth, body)).map_err(io::Error::other)
}

/// Tells what each record of a log says, and gives of what the log is; `None` if there is no record. If it fails, nothing of what was told
/// is to be believed.
///
/// # Errors
/// If a record is cut, damaged, of another kind or version, out of its place, or of another file.
pub(super) fn records<H: DeserializeOwned + PartialEq, B: DeserializeOwned>(
    kind: Kind,
    mut bytes: &[u8],
    mut each: impl FnMut(B),
) -> Result<Option<H>, EnvelopeError> {
    let (mut found, mut places) = (None, 0..);
    while !bytes.is_empty() {
        let (first, rest) = envelope::split_first(bytes)?;
        let Record(of, nth, body) = envelope::decode(kind, first)?;
        if places.next() != Some(nth) || found.as_ref().is_some_and(|found| *found != of) {
            return Err(EnvelopeError::Payload("it is of another file, or out of its place".to_owned()));
        }
        each(body);
        (found, bytes) = (Some(of), rest);
    }
    Ok(found)
}
