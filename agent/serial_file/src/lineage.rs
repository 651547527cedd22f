//! Lineage: the proof that nobody but us touched the serial file since we last wrote it.
//!
//! A companion file, `<serial file>.lineage`, keeps what the last write of the serial file looked like from outside.
//! None of it can be copied along with the file's bytes: a copy has another inode, and whatever is done to the file in
//! place (restored, touched, chmod, moved) sets its ctime, which no system call sets back.
//!
//! While a write is under way the lineage also names the file that is about to take the place ([`Next`]), so that a
//! process killed in its midst goes on with the one or with the other. The ctime of a file that will be renamed cannot be
//! foretold; what stands in for it is when the file was made, which no system call sets at all. [`judge`] compares; it
//! decides, others read the disk.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use common::envelope::{self, EnvelopeError, Kind};
use common::lease::Grant;
use common::namespace::GeneratorName;
use common::parameters::{ClusterId, ClusterParameters, SessionId};
use common::segment::{SegmentDefinition, Span};
use common::setting::NAMESPACES_MAX;
use minting::segments::{HELD_MAX, Record};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use wire::lease::FORMER_MAX;

/// The lineage file's record.
const KIND: Kind = Kind { name: *b"LINE", version: 5 };
/// The longest time after it was made at which a file to come may have been put in place, in seconds, by the file system's clock.
/// Whoever moves it afterwards sets its ctime: a file that was moved away in the midst of the write that was to replace
/// it is not believed when it is moved back later. A write so slow, killed before its end, costs a token.
const PLACED_WITHIN_S: i64 = 10;
/// The longest lineage file, in bytes; nothing beyond it is ever read.
pub(super) const FILE_LEN_MAX: usize = envelope::HEADER_LEN + envelope::PAYLOAD_LEN_MAX;

/// The holdings of the file's holder besides its marks; durable in `<serial file>.lineage`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holdings {
    /// The cluster it belongs to, once known.
    pub cluster: Option<ClusterId>,
    /// That cluster's parameters, once known.
    pub parameters: Option<ClusterParameters>,
    pub leases: Vec<Grant>,
    /// The number of its newest renewal.
    pub rseq: u64,
    /// Sessions that this file had before and that no master has taken back yet, the newest first, at most
    /// [`FORMER_MAX`].
    pub former: Vec<SessionId>,
    /// Its segments, by name. As many fit as names may live ([`NAMESPACES_MAX`]).
    pub segments: BTreeMap<GeneratorName, HeldSegments>,
}

/// Bytes of one name's segments in the record, at most.
const SEGMENTS_LEN_MAX: usize = 8 + GeneratorName::LEN_MAX + 4 * 8 + 2 * 8 + 1 + 32 + HELD_MAX * 4 * 8;
/// Bytes of all else in it, far more than there are.
const OTHERS_LEN_MAX: usize = 128 << 10;
const _: () = assert!(NAMESPACES_MAX * SEGMENTS_LEN_MAX + OTHERS_LEN_MAX <= envelope::PAYLOAD_LEN_MAX);

/// The segments of one name, and of which numbers they are.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HeldSegments {
    /// The name's axis; of another one they say nothing.
    pub axis: Span,
    /// The difference between the numbers of two neighbouring places,
    pub increment: u64,
    /// and the number of place 0.
    pub offset: u64,
    /// The segments.
    pub record: Record,
}

impl HeldSegments {
    /// Segments by that definition.
    pub fn new(definition: &SegmentDefinition, record: Record) -> Self {
        Self { axis: definition.axis(), increment: definition.increment(), offset: definition.number(0), record }
    }

    /// The record, if it is worth anything by that definition: `None` if that gives other numbers.
    pub fn of(&self, definition: &SegmentDefinition) -> Option<&Record> {
        let same = *self == Self::new(definition, self.record.clone());
        same.then_some(&self.record)
    }
}

/// The identity that tells a file system from its snapshots, and from another one that gets its device number later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileSystemId {
    /// The number that the file system has of itself (`f_fsid` of statfs). On btrfs and ZFS each snapshot has another.
    pub fsid: u64,
    /// The kernel's running number of the disk below it (`diskseq`), which no other disk gets in this boot; `None` where
    /// it is not on one disk, or the kernel does not tell. A volume that is put back to a snapshot is attached anew.
    pub disk: Option<u64>,
    /// The kernel's number of the mount through which it is seen, where the others tell too little: layers (overlay),
    /// whose own number is copied with a snapshot of the upper one.
    pub mount: Option<u64>,
}

impl FileSystemId {
    /// Tells whether both may be one. A disk's number counts within one boot, and only if both know it.
    fn may_be(&self, other: &Self, same_boot: bool) -> bool {
        let disks = self.disk.zip(other.disk).filter(|_| same_boot);
        self.fsid == other.fsid && disks.is_none_or(|(one, other)| one == other)
    }
}

/// The identity that a file has for the kernel. Two equal ones at two instants: the same file, untouched in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The device it is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// The instant at which it was last changed in any way, in whole seconds since 1970.
    pub ctime_s: i64,
    /// The nanoseconds to add to those seconds, 0..=999,999,999.
    pub ctime_ns: i64,
}

impl Identity {
    /// Tells whether both are one file, touched in between or not.
    pub fn same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// The instant at which a file was made, by the file system's clock; nothing sets it later. Files made one after the other may share it: that clock
/// ticks every few milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Born {
    /// Whole seconds since 1970.
    pub s: i64,
    /// The nanoseconds to add to those seconds, 0..=999,999,999.
    pub ns: u32,
}

/// A whole serial file made beside the one in place, which it is about to replace. No two files that are ever made at
/// the same inode have the same `Next`: the lineage that carries one was born later than the file it names, so that a
/// file made afterwards is born later too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Next {
    /// The device it is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// The instant at which it was made.
    pub born: Born,
    /// The write counter in it.
    pub write_counter: u64,
    /// The checksum it carries.
    pub checksum: u64,
}

/// The kernel's random number of this boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BootId(u128);

impl FromStr for BootId {
    type Err = std::num::ParseIntError;
    /// As `/proc/sys/kernel/random/boot_id` has it: hexadecimal digits with hyphens.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(&text.trim_end().replace('-', ""), 16).map(Self)
    }
}

/// The trace that the last write of the serial file left behind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lineage {
    /// The fingerprint of the file.
    pub seen: Fingerprint,
    /// The file that was about to take its place; it goes on just as well, in the same boot and session.
    pub next: Option<Next>,
    /// The holdings of its holder.
    pub holdings: Holdings,
}

/// The facts that must be equal for a session to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The identity that the file has for the kernel.
    pub identity: Identity,
    /// The write counter in it.
    pub write_counter: u64,
    /// The boot in which it was written or is looked at.
    pub boot: BootId,
    /// The session in it.
    pub session: SessionId,
    /// The file system that it is on.
    pub file_system: FileSystemId,
}

/// The lineage file as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there is one of them, at a start")]
pub enum Found {
    /// There is none.
    Missing,
    /// The file is not to be believed.
    Damaged(EnvelopeError),
    /// The file is whole.
    Whole(Lineage),
}

impl Found {
    /// Takes the bytes of a lineage file apart.
    pub fn decode(bytes: &[u8]) -> Self {
        match envelope::decode(KIND, bytes) {
            Ok(lineage) => Self::Whole(lineage),
            Err(error) => Self::Damaged(error),
        }
    }
}

impl Lineage {
    /// The bytes of a lineage file.
    ///
    /// # Errors
    /// [`EnvelopeError::Payload`] if the holdings are longer than a record may be.
    pub fn encode(&self) -> Result<Vec<u8>, EnvelopeError> {
        envelope::encode(KIND, self)
    }
}

/// The effect of another boot id on a start (`--after-reboot`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AfterReboot {
    /// A reboot ends the session: the disk may be a clone whose original lives on.
    #[default]
    Fresh,
    /// A reboot does not end it. Safe only where disks are never cloned and never put back to a snapshot.
    Resume,
}

/// A text that is neither `fresh` nor `resume`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("after a reboot a session is `fresh` or it is told to `resume`")]
pub struct AfterRebootError;

impl FromStr for AfterReboot {
    type Err = AfterRebootError;
    fn from_str(text: &str) -> Result<Self, AfterRebootError> {
        match text {
            "fresh" => Ok(Self::Fresh),
            "resume" => Ok(Self::Resume),
            _ => Err(AfterRebootError),
        }
    }
}

impl fmt::Display for AfterReboot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fresh => "fresh",
            Self::Resume => "resume",
        })
    }
}

/// The reason why a start does not continue the session. Displays as one word, for logs, metrics and `/status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FreshReason {
    /// `no_lineage`: this is the first start after `--format`, or the lineage file was removed.
    NoLineage,
    /// `lineage_damaged`: the lineage file is not to be believed; why.
    LineageDamaged(EnvelopeError),
    /// `other_session`: the lineage belongs to a file that was there before, or a fresh start was killed before it wrote
    /// its own.
    OtherSession,
    /// `lineage_behind`: the file was written later than its lineage: an older lineage was put back; or the writer was
    /// killed in the midst, on a file system that does not tell when a file was made, or while it handed serials back.
    LineageBehind,
    /// `file_behind`: the lineage knows a later write than the file: an older file was put back.
    FileBehind,
    /// `file_copied`: it is another file with the same bytes: a copy, one restored from a copy, or one in a snapshot.
    FileCopied,
    /// `file_changed`: the file was touched since it was last written: restored in place, chmod, chown, moved, linked.
    FileChanged,
    /// `reboot`: the machine was started since, and the disk may be a clone.
    Reboot,
    /// `clock_forgotten`: an operator said that the times in the file were wrong.
    ClockForgotten,
}

impl FreshReason {
    /// The one word.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoLineage => "no_lineage",
            Self::LineageDamaged(_) => "lineage_damaged",
            Self::OtherSession => "other_session",
            Self::LineageBehind => "lineage_behind",
            Self::FileBehind => "file_behind",
            Self::FileCopied => "file_copied",
            Self::FileChanged => "file_changed",
            Self::Reboot => "reboot",
            Self::ClockForgotten => "clock_forgotten",
        }
    }

    /// A sentence for the operator.
    pub fn explain(&self) -> String {
        match self {
            Self::NoLineage => "there is no lineage file: it was never started, or the lineage was removed".to_owned(),
            Self::LineageDamaged(error) => format!("the lineage file is not to be believed: {error}"),
            Self::OtherSession => "the lineage file is that of an earlier file, or a fresh start was killed".to_owned(),
            Self::LineageBehind => "the file was written later than its lineage: an older lineage was put back, or \
                                    the writer was killed in the midst of a write"
                .to_owned(),
            Self::FileBehind => "its lineage knows a later write: an older file was put back".to_owned(),
            Self::FileCopied => "it is a copy, was restored from one, or is in a snapshot".to_owned(),
            Self::FileChanged => {
                "it was touched since its last write: restored in place, chmod, chown, moved or linked".to_owned()
            }
            Self::Reboot => "the machine was rebooted (`--after-reboot resume` accepts that)".to_owned(),
            Self::ClockForgotten => "an operator said that its times were wrong (`--forget-clock`)".to_owned(),
        }
    }
}

impl fmt::Display for FreshReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// The way in which a start goes on with the session of the file, or begins another. Displays as `resumed` or `fresh (reason)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartKind {
    /// Nobody but us touched the file: same session, same tokens, on at the durable marks.
    Resumed,
    /// A new session, with new tokens; the marks are kept.
    Fresh(FreshReason),
}

impl fmt::Display for StartKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resumed => f.write_str("resumed"),
            Self::Fresh(reason) => write!(f, "fresh ({reason})"),
        }
    }
}

impl Next {
    /// Tells whether this very file is in place, and was put there by the write that made it.
    fn took_the_place(&self, as_next: Option<&Self>, now: &Identity) -> bool {
        let waited = now.ctime_s.saturating_sub(self.born.s);
        as_next == Some(self) && (0..=PLACED_WITHIN_S).contains(&waited)
    }
}

/// Tells whether the session of the file `now` goes on, by what its last writer left behind. Only if all is equal; the
/// reason given is the first difference. `as_next` is the same file as a write would have named it beforehand; `None` on
/// a file system that does not tell when a file was made.
pub fn judge(found: &Found, now: &Fingerprint, as_next: Option<&Next>, after_reboot: AfterReboot) -> StartKind {
    let lineage = match found {
        Found::Missing => return StartKind::Fresh(FreshReason::NoLineage),
        Found::Damaged(error) => return StartKind::Fresh(FreshReason::LineageDamaged(error.clone())),
        Found::Whole(lineage) => lineage,
    };
    let then = &lineage.seen;
    let took_the_place = lineage.next.is_some_and(|next| next.took_the_place(as_next, &now.identity));
    let same_place = then.file_system.may_be(&now.file_system, then.boot == now.boot);
    let reason = if then.session != now.session {
        FreshReason::OtherSession
    } else if took_the_place && same_place {
        return after_boot(then.boot == now.boot, after_reboot);
    } else if then.write_counter < now.write_counter {
        FreshReason::LineageBehind
    } else if then.write_counter > now.write_counter {
        FreshReason::FileBehind
    } else if !then.identity.same_file(&now.identity) || !same_place {
        FreshReason::FileCopied
    } else if then.identity != now.identity {
        FreshReason::FileChanged
    } else {
        return after_boot(then.boot == now.boot, after_reboot);
    };
    StartKind::Fresh(reason)
}

/// Tells whether the lineage of a session that goes on leaves room for a second copy of the file that goes on as well, so that
/// a master has to renew a lease before anything may be minted, however long that takes: the file is in layers that were mounted anew
/// since, perhaps over a snapshot.
pub fn renew_first(found: &Found, now: &Fingerprint) -> bool {
    let Found::Whole(Lineage { seen: then, .. }) = found else { return true };
    then.file_system.mount != now.file_system.mount
}

/// The sessions that a start for this reason gives up: those that the file had before, the newest first. The masters end
/// their leases, so that fresh starts do not use up what an agent may have.
///
/// Not if it is a copy of a file of this boot: the original is likely to live beside it. That is also all that is lost by
/// giving up the session of an original that does live: it hears of it and asks for another token.
pub fn given_up(found: &Found, now: &Fingerprint, reason: &FreshReason) -> Vec<SessionId> {
    let lineage = match found {
        Found::Whole(lineage) => Some(lineage),
        Found::Missing | Found::Damaged(_) => None,
    };
    let same_boot = lineage.is_some_and(|lineage| lineage.seen.boot == now.boot);
    if *reason == FreshReason::FileCopied && same_boot {
        return Vec::new();
    }
    // What `--format` puts there is nobody's session; and what a fresh start gives up that was killed before its end, its
    // lineage says, which may be less than what it found in the file.
    let of_file = now.write_counter > 0 && *reason != FreshReason::OtherSession;
    let in_file = of_file.then_some(now.session);
    let in_lineage =
        lineage.into_iter().flat_map(|l| std::iter::once(l.seen.session).chain(l.holdings.former.iter().copied()));
    let mut all: Vec<SessionId> = Vec::new();
    for session in in_file.into_iter().chain(in_lineage) {
        if all.len() < FORMER_MAX && !all.contains(&session) {
            all.push(session);
        }
    }
    all
}

fn after_boot(same: bool, after_reboot: AfterReboot) -> StartKind {
    match (same, after_reboot) {
        (true, _) | (false, AfterReboot::Resume) => StartKind::Resumed,
        (false, AfterReboot::Fresh) => StartKind::Fresh(FreshReason::Reboot),
    }
}

#[cfg(test)]
#[path = "lineage_tests.rs"]
mod tests;
