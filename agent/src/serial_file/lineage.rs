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
use common::terms::{ClusterId, SessionId, Terms};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The lineage file's record.
const KIND: Kind = Kind { name: *b"LINE", version: 2 };
/// How much later than it was made a file to come may have been put in place, in seconds, by the file system's clock.
/// Whoever moves it afterwards sets its ctime: a file that was moved away in the midst of the write that was to replace
/// it is not believed when it is moved back later. A write so slow, killed before its end, costs a token.
const PLACED_WITHIN_S: i64 = 10;
/// The longest lineage file, in bytes; nothing beyond it is ever read.
pub(super) const FILE_LEN_MAX: usize = envelope::HEADER_LEN + envelope::PAYLOAD_LEN_MAX;

/// What the holder of the file holds besides its marks; durable in `<serial file>.lineage`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holdings {
    /// The cluster it belongs to, once known.
    pub cluster: Option<ClusterId>,
    /// That cluster's parameters, once known.
    pub terms: Option<Terms>,
    /// Its leases.
    pub leases: Vec<Grant>,
    /// The number of its newest renewal.
    pub rseq: u64,
}

/// What a file is to the kernel. Two equal identities at two instants: the same file, untouched in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The device it is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// When it was last changed in any way, in whole seconds since 1970.
    pub ctime_s: i64,
    /// The nanoseconds to add to those seconds, 0..=999,999,999.
    pub ctime_ns: i64,
}

impl Identity {
    /// Whether both are one file, touched in between or not.
    pub(super) fn same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// When a file was made, by the file system's clock; nothing sets it later. Files made one after the other may share it:
/// that clock ticks every few milliseconds.
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
    /// When it was made.
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

/// What the last write of the serial file left behind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lineage {
    /// What the file looked like.
    pub seen: Seen,
    /// The file that was about to take its place; it goes on just as well, in the same boot and session.
    pub next: Option<Next>,
    /// What its holder held.
    pub holdings: Holdings,
}

/// What must be equal for a session to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Seen {
    /// What the file is to the kernel.
    pub identity: Identity,
    /// The write counter in it.
    pub write_counter: u64,
    /// The boot in which it was written or is looked at.
    pub boot: BootId,
    /// The session in it.
    pub session: SessionId,
}

/// The lineage file as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// There is none.
    Missing,
    /// It is not to be believed.
    Damaged(EnvelopeError),
    /// It is whole.
    Whole(Lineage),
}

impl Found {
    /// Takes the bytes of a lineage file apart.
    pub fn decode(bytes: &[u8]) -> Self {
        envelope::decode(KIND, bytes).map_or_else(Self::Damaged, Self::Whole)
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

/// What a start makes of another boot id (`--after-reboot`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AfterReboot {
    /// A reboot ends the session: the disk may be a clone whose original lives on.
    #[default]
    Fresh,
    /// A reboot does not end it. Safe only where disks are never cloned.
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

/// Why a start does not continue the session. Displays as one word, for logs, metrics and `/status`.
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
    /// `file_copied`: it is another file with the same bytes: a copy, or one restored from a copy.
    FileCopied,
    /// `file_changed`: the file was touched since it was last written: restored in place, chmod, chown, moved, linked.
    FileChanged,
    /// `reboot`: the machine was started since, and the disk may be a clone.
    Reboot,
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
            Self::FileCopied => "it is a copy, or was restored from one".to_owned(),
            Self::FileChanged => {
                "it was touched since its last write: restored in place, chmod, chown, moved or linked".to_owned()
            }
            Self::Reboot => "the machine was rebooted (`--after-reboot resume` accepts that)".to_owned(),
        }
    }
}

impl fmt::Display for FreshReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// Whether a start continues the session of the file. Displays as `resumed` or `fresh (reason)`.
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
    /// Whether this very file is in place, and was put there by the write that made it.
    fn took_the_place(&self, as_next: Option<&Self>, now: &Identity) -> bool {
        let waited = now.ctime_s.saturating_sub(self.born.s);
        as_next == Some(self) && (0..=PLACED_WITHIN_S).contains(&waited)
    }
}

/// Whether the session of the file `now` goes on, by what its last writer left behind. Only if all is equal; the
/// reason given is the first difference. `as_next` is the same file as a write would have named it beforehand; `None` on
/// a file system that does not tell when a file was made.
pub fn judge(found: &Found, now: &Seen, as_next: Option<&Next>, after_reboot: AfterReboot) -> StartKind {
    let lineage = match found {
        Found::Missing => return StartKind::Fresh(FreshReason::NoLineage),
        Found::Damaged(error) => return StartKind::Fresh(FreshReason::LineageDamaged(error.clone())),
        Found::Whole(lineage) => lineage,
    };
    let then = &lineage.seen;
    let took_the_place = lineage.next.is_some_and(|next| next.took_the_place(as_next, &now.identity));
    let reason = if then.session != now.session {
        FreshReason::OtherSession
    } else if took_the_place {
        return after_boot(then.boot == now.boot, after_reboot);
    } else if then.write_counter < now.write_counter {
        FreshReason::LineageBehind
    } else if then.write_counter > now.write_counter {
        FreshReason::FileBehind
    } else if !then.identity.same_file(&now.identity) {
        FreshReason::FileCopied
    } else if then.identity != now.identity {
        FreshReason::FileChanged
    } else {
        return after_boot(then.boot == now.boot, after_reboot);
    };
    StartKind::Fresh(reason)
}

fn after_boot(same: bool, after_reboot: AfterReboot) -> StartKind {
    match (same, after_reboot) {
        (true, _) | (false, AfterReboot::Resume) => StartKind::Resumed,
        (false, AfterReboot::Fresh) => StartKind::Fresh(FreshReason::Reboot),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::lease::Generation;
    use common::time::WallMs;
    use common::token::{TokenType, TokenValue};

    const SEEN: Seen = Seen {
        identity: Identity { device: 1, inode: 2, ctime_s: 3, ctime_ns: 4 },
        write_counter: 5,
        boot: BootId(6),
        session: SessionId(7),
    };

    fn whole() -> Found {
        let grant = Grant {
            token_type: TokenType::Uint2,
            key: TokenType::Uint2.key(TokenValue(4095)),
            g: Generation(1),
            from: WallMs(0),
            until: WallMs(1),
        };
        let terms = Terms::new(7, common::calendar::UtcOffset::default(), 4095).unwrap();
        let holdings =
            Holdings { cluster: Some(ClusterId(1)), terms: Some(terms), leases: vec![grant], rseq: u64::MAX };
        Found::Whole(Lineage { seen: SEEN, next: None, holdings })
    }

    #[test]
    fn only_what_is_equal_in_all_is_resumed() {
        assert_eq!(judge(&whole(), &SEEN, None, AfterReboot::Fresh), StartKind::Resumed);
        type Change = fn(&mut Seen);
        let cases: [(Change, FreshReason); 8] = [
            (|now| now.session = SessionId(8), FreshReason::OtherSession),
            (|now| now.write_counter = 6, FreshReason::LineageBehind),
            (|now| now.write_counter = 4, FreshReason::FileBehind),
            (|now| now.identity.device = 9, FreshReason::FileCopied),
            (|now| now.identity.inode = 9, FreshReason::FileCopied),
            (|now| now.identity.ctime_s = 9, FreshReason::FileChanged),
            (|now| now.identity.ctime_ns = 9, FreshReason::FileChanged),
            (|now| now.boot = BootId(9), FreshReason::Reboot),
        ];
        for (change, reason) in cases {
            let mut now = SEEN;
            change(&mut now);
            assert_eq!(judge(&whole(), &now, None, AfterReboot::Fresh), StartKind::Fresh(reason.clone()));
            let later = judge(&whole(), &now, None, AfterReboot::Resume);
            if reason == FreshReason::Reboot {
                assert_eq!(later, StartKind::Resumed);
            } else {
                assert_eq!(later, StartKind::Fresh(reason), "`resume` accepts another boot id and nothing else");
            }
        }
    }

    #[test]
    fn the_file_to_come_is_resumed_if_it_is_that_very_file() {
        let next = Next { device: 1, inode: 3, born: Born { s: 4, ns: 5 }, write_counter: 6, checksum: 7 };
        let Found::Whole(mut lineage) = whole() else { unreachable!() };
        lineage.next = Some(next);
        let found = Found::Whole(lineage);
        let identity = Identity { device: 1, inode: 3, ctime_s: 9, ctime_ns: 9 };
        let there = Seen { identity, write_counter: 6, ..SEEN };
        let judged = |now: &Seen, next: Option<&Next>| judge(&found, now, next, AfterReboot::Fresh);
        assert_eq!(judged(&there, Some(&next)), StartKind::Resumed);
        assert_eq!(judged(&SEEN, None), StartKind::Resumed, "the file in place goes on as well");
        for (ctime_s, in_time) in [(3, false), (4, true), (14, true), (15, false), (i64::MIN, false), (i64::MAX, false)]
        {
            let there = Seen { identity: Identity { ctime_s, ..identity }, ..there };
            let moved = StartKind::Fresh(FreshReason::LineageBehind);
            assert_eq!(judged(&there, Some(&next)), if in_time { StartKind::Resumed } else { moved }, "{ctime_s}");
        }
        let changes: [fn(&mut Next); 6] = [
            |next| next.device = 9,
            |next| next.inode = 9,
            |next| next.born.s = 9,
            |next| next.born.ns = 9,
            |next| next.write_counter = 9,
            |next| next.checksum = 9,
        ];
        for change in changes {
            let mut other = next;
            change(&mut other);
            assert_eq!(judged(&there, Some(&other)), StartKind::Fresh(FreshReason::LineageBehind), "{other:?}");
        }
        assert_eq!(judged(&there, None), StartKind::Fresh(FreshReason::LineageBehind), "a birth that nobody tells");
        let rebooted = Seen { boot: BootId(9), ..there };
        assert_eq!(judged(&rebooted, Some(&next)), StartKind::Fresh(FreshReason::Reboot));
        let other_session = Seen { session: SessionId(9), ..there };
        assert_eq!(judged(&other_session, Some(&next)), StartKind::Fresh(FreshReason::OtherSession));
    }

    #[test]
    fn a_lineage_that_is_not_there_or_not_whole_proves_nothing() {
        let fresh = |found: &Found| judge(found, &SEEN, None, AfterReboot::Resume);
        assert_eq!(fresh(&Found::Missing), StartKind::Fresh(FreshReason::NoLineage));
        let Found::Whole(lineage) = whole() else { unreachable!() };
        let bytes = lineage.encode().unwrap();
        assert_eq!(Found::decode(&bytes), whole());
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(matches!(fresh(&Found::decode(&damaged)), StartKind::Fresh(FreshReason::LineageDamaged(_))));
            assert!(matches!(Found::decode(&bytes[..at]), Found::Damaged(_)));
        }
    }

    #[test]
    fn boot_ids_are_read_as_the_kernel_writes_them() {
        assert_eq!("00000000-0000-0000-0000-00000000002a\n".parse(), Ok(BootId(42)));
        for bad in ["", "\n", "boot", "-"] {
            assert!(bad.parse::<BootId>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn policies_are_written_as_the_flag_has_them() {
        for policy in [AfterReboot::Fresh, AfterReboot::Resume] {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!("Resume".parse::<AfterReboot>(), Err(AfterRebootError));
    }
}
