//! The place of the serial file and of the files beside it.

use super::SerialFileError;
use super::companion::{Companion, joined};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

/// The longest name that common file systems keep, in bytes.
const NAME_LEN_MAX: usize = 255;
/// The longest ending of a file beside it.
const ENDING_LEN_MAX: usize = ".generators.new".len();

/// A serial file's folder, resolved once: links in it may change later without moving the file under our feet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLocation {
    /// The folder without links, and the name.
    pub path: PathBuf,
    /// The folder without links.
    pub folder: PathBuf,
    /// The file's name in it.
    pub file: OsString,
    /// `<F>.new`: the file while it is written.
    pub file_new: OsString,
    /// `<F>.format`: the file while it is made. A name of its own, so that a format beside a running agent (whose file
    /// was deleted) and that agent do not write into each other's file.
    pub file_format: OsString,
    /// `<F>.lineage`.
    pub lineage: Companion,
    /// `<F>.bounds`: how far sections of sequences are.
    pub bounds: Companion,
    /// `<F>.proof`: that nobody touched `<F>.bounds`.
    pub proof: Companion,
    /// `<F>.generators`: what names stand for.
    pub names: Companion,
    /// `<F>.keys`: the API keys for agents.
    pub keys: Companion,
}

impl FileLocation {
    /// The file of that name in a folder without links.
    pub fn new(folder: PathBuf, file: &OsStr) -> Self {
        let beside = |ending, what| Companion::of(file, ending, what);
        Self {
            path: folder.join(file),
            file_new: joined(file, &[".new"]),
            file_format: joined(file, &[".format"]),
            lineage: beside(".lineage", "the lineage file"),
            bounds: beside(".bounds", "the bounds of sections"),
            proof: beside(".proof", "the proof of the bounds of sections"),
            names: beside(".generators", "the names of generators"),
            keys: beside(".keys", "the API keys"),
            file: file.to_owned(),
            folder,
        }
    }

    /// Finds the folder of `path`; the file need not be there.
    ///
    /// # Errors
    /// [`SerialFileError::NoName`], [`LongName`](SerialFileError::LongName), [`NoFolder`](SerialFileError::NoFolder) or
    /// [`Io`](SerialFileError::Io).
    pub fn resolve(path: &Path) -> Result<Self, SerialFileError> {
        let folder = match path.parent() {
            Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
            Some(folder) => folder,
            None => return Err(SerialFileError::NoName(path.to_owned())),
        };
        // `Path` ignores a slash at the end; whoever wrote it meant a folder.
        let slash = path.as_os_str().as_encoded_bytes().ends_with(b"/");
        let file = path.file_name().filter(|_| !slash).ok_or_else(|| SerialFileError::NoName(path.to_owned()))?;
        let max = NAME_LEN_MAX - ENDING_LEN_MAX;
        if file.len() > max {
            return Err(SerialFileError::LongName { path: path.to_owned(), max });
        }
        let folder = folder.canonicalize().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SerialFileError::NoFolder(folder.to_owned()),
            _ => SerialFileError::Io { action: "find the folder", path: folder.to_owned(), source },
        })?;
        if !folder.is_dir() {
            return Err(SerialFileError::NoFolder(folder));
        }
        Ok(Self::new(folder, file))
    }
}
