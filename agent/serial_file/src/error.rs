//! The errors of a serial file, said to whoever can act.

use super::disk::FileSystemKind;
use super::layout::{LayoutError, NUM_BLOCKS};
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// The reason why there is no serial file to work with. Every message is one line and names the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SerialFileError {
    /// Nothing at the path.
    #[error("no serial file at {0}: make one with `uniq_generator --format --serial-file {0}`")]
    Missing(PathBuf),
    /// `--format` where something is.
    #[error(
        "{0} exists already and was left as it is: stop the agent that uses it and move it away before `--format`, or \
         name another with `--serial-file`"
    )]
    Exists(PathBuf),
    /// The path names no file.
    #[error("{0} does not name a file: give `--serial-file` a path that ends in a file's name")]
    NoName(PathBuf),
    /// The name leaves no room for those of the files beside it.
    #[error("the file name of {path} is too long: give `--serial-file` one of at most {max} bytes")]
    LongName {
        path: PathBuf,
        /// The longest name, in bytes.
        max: usize,
    },
    /// The folder is not there, or it is not a folder.
    #[error("{0} is not a folder: make it first (`mkdir -p {0}`), or correct `--serial-file`")]
    NoFolder(PathBuf),
    /// A folder, a device, a pipe.
    #[error("{0} is not a regular file: name another with `--serial-file`")]
    NotAFile(PathBuf),
    /// A symbolic link: a write would replace the link and leave the file.
    #[error("{0} is a symbolic link: give `--serial-file` the path that it leads to")]
    SymbolicLink(PathBuf),
    /// The file has another name somewhere, under which it could be held without our seeing it.
    #[error(
        "{path} has {links} names (hard links): remove the others, or make a new file with `uniq_generator --format`"
    )]
    HardLinked {
        path: PathBuf,
        /// The number of names that it has.
        links: u64,
    },
    /// Another process has it.
    #[error("{0} is in use by another process: stop that one, or give this one its own `--serial-file`")]
    Locked(PathBuf),
    /// A file of another user of the machine.
    #[error(
        "{path} belongs to the user with the number {owner}, and this runs as {me}: that user could not open what it would write in its \
         place. Run the same command as that user (`runuser -u NAME -- uniq_generator ...`)"
    )]
    OtherUser {
        path: PathBuf,
        owner: u32,
        /// The user as which this process runs.
        me: u32,
    },
    /// Its bytes are not to be believed.
    #[error(
        "{path} is not a serial file to go on with: {reason}. Move it away and make a new one with `uniq_generator --format \
         --serial-file {path}`"
    )]
    Damaged {
        path: PathBuf,
        /// The fault that was found.
        reason: LayoutError,
    },
    /// `--num-blocks` out of range.
    #[error("a serial file has {min} to {max} blocks: `--num-blocks {0}` is not possible", min = NUM_BLOCKS.start(), max = NUM_BLOCKS.end())]
    BlockCount(u32),
    /// The file is not on a disk that is known to be of this machine alone; its locks and times mean nothing.
    #[error(
        "{path} is on {kind}, where another machine might use it at the same time, or its times prove nothing: keep the \
         serial file on a local disk (ext4, XFS, btrfs, ZFS, F2FS, bcachefs, tmpfs)"
    )]
    NotLocal {
        path: PathBuf,
        /// The kind of file system that it is on.
        kind: FileSystemKind,
    },
    /// The file was replaced again and again while we tried to lock it.
    #[error("{0} keeps being replaced while it is opened: stop the other process that writes it")]
    Restless(PathBuf),
    /// The kernel does not say which boot this is.
    #[error("the kernel does not say which boot this is ({0}): mount /proc")]
    BootId(io::Error),
    /// The disk or its permissions.
    #[error("cannot {action} {path}: {source}; look after the disk and who may write there")]
    Io {
        /// The action that was tried.
        action: &'static str,
        /// The path that it was tried on.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// `--forget-clock` where there is nothing to forget.
    #[error(
        "no ID of {0} has a time ahead of this machine's clock: there is nothing to forget, and it was left as it is"
    )]
    NothingAhead(PathBuf),
    /// The start of a new session did not become durable.
    #[error("the new session cannot be written into {path}: {source}")]
    Write {
        path: PathBuf,
        /// The reason.
        source: WriteError,
    },
}

/// The reason why a change did not become durable.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The disk did not do its part, or the contents fit no file. The bounds of the last successful write hold; it may
    /// be tried again.
    #[error(transparent)]
    Io(#[from] StepError),
    /// Someone else has the file: stop minting and end the process.
    #[error("the serial file is no longer ours: {0}; start again to go on with a new token")]
    Lost(FileLoss),
}

/// The step of a write that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action}: {source}")]
pub struct StepError {
    /// The action that was tried.
    pub action: Cow<'static, str>,
    /// The operating system's error.
    pub source: io::Error,
}

/// The sign that someone else has the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileLoss {
    /// The file was deleted or moved away.
    Missing,
    /// Another file is in its place.
    Replaced,
    /// The file was touched: written, chmod, chown.
    Changed,
    /// The file got a second name.
    Linked,
}

impl fmt::Display for FileLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "it was deleted or moved away",
            Self::Replaced => "another file is in its place",
            Self::Changed => "it was touched since its last write",
            Self::Linked => "it got a second name",
        })
    }
}
