//! The bytes of `<serial file>.bounds` and `<serial file>.proof`, and whether they may be continued.
//!
//! `.bounds` is a log: records one behind the other, each with bounds of some sections, the later ones on top. `.proof` says what `.bounds`
//! looked like after it was last written. Neither is repaired: whatever does not fit ends what the session had, and the sections are loaded
//! anew by another one.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::companion::{record, records};
use super::lineage::{BootId, FileSystemId, Identity};
use super::start::Machine;
use common::attachment::Attachment;
use common::envelope::{self, EnvelopeError, Kind};
use common::namespace::GeneratorName;
use common::parameters::{AgentId, SessionId};
use common::segment::MasterRun;
use minting::sequence::{Bound, Bounds, RUNS_MAX};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::ops::Range;

/// A record of the log.
const RECORD: Kind = Kind { name: *b"BNDS", version: 4 };
const PROOF: Kind = Kind { name: *b"PROF", version: 1 };
/// Bounds in one record at most.
const RECORD_BOUNDS_MAX: usize = 16_384;
/// Bytes of one bound at most, if each were of a name of its own.
const BOUND_LEN_MAX: usize = 8 + GeneratorName::LEN_MAX + 8 + 4 + 4 + 1 + 8 + 8;
const _: () = assert!(RECORD_BOUNDS_MAX * BOUND_LEN_MAX + RUNS_MAX * 16 + 64 <= envelope::PAYLOAD_LEN_MAX);
/// The longest `.proof`, in bytes.
pub(super) const PROOF_LEN_MAX: usize = 4_096;

/// Bounds by name, and runs of masters.
type Noted = (Vec<(GeneratorName, Vec<(Range<u32>, Bound)>)>, Vec<MasterRun>);

/// The proof that the last write of `.bounds` left behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Proof {
    /// The agent's name: masters raise sections for the one that they were given to.
    pub(super) agent_id: AgentId,
    /// The session of the serial file beside it.
    pub(super) serial: SessionId,
    /// The session as which the masters know who serves the sections.
    pub(super) session: SessionId,
    /// The identity that the file has for the kernel.
    pub(super) identity: Identity,
    /// Its bytes,
    pub(super) len: u64,
    /// and CRC-32C of all of them.
    pub(super) checksum: u32,
    /// The boot in which it was written.
    pub(super) boot: BootId,
    /// The file system that it is on.
    pub(super) file_system: FileSystemId,
    /// The mount through which it was seen, if the kernel has a number for it that no other gets.
    pub(super) mount: Option<u64>,
}

/// The reason why another session serves sections than before. Displays as one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SectionsFreshReason {
    /// `no_bounds`: nothing is written; no section was served, or what was written could not be kept.
    NoBounds,
    /// `session`: the session of the serial file did not go on, or is another one.
    Session,
    /// `agent_id`: the agent has another name.
    AgentId,
    /// `second_copy`: its lineage leaves room for a second copy.
    SecondCopy,
    /// `bounds_damaged`: it is not to be believed.
    Damaged(String),
    /// `bounds_changed`: it was written or touched since, is a copy, or the process was killed in the midst of a write.
    Changed,
    /// `reboot`.
    Reboot,
    /// `file_system`: the kernel does not tell whether the file system is as it was left.
    FileSystem,
}

impl SectionsFreshReason {
    /// The one word.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoBounds => "no_bounds",
            Self::Session => "session",
            Self::AgentId => "agent_id",
            Self::SecondCopy => "second_copy",
            Self::Damaged(_) => "bounds_damaged",
            Self::Changed => "bounds_changed",
            Self::Reboot => "reboot",
            Self::FileSystem => "file_system",
        }
    }
}

impl fmt::Display for SectionsFreshReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(why) => write!(f, "bounds_damaged: {why}"),
            _ => f.write_str(self.code()),
        }
    }
}

impl Proof {
    /// That of bounds of nothing.
    pub(super) fn of(
        agent_id: AgentId,
        serial: SessionId,
        session: SessionId,
        machine: Machine,
        mount: Option<u64>,
    ) -> Self {
        let Machine { boot, file_system } = machine;
        let identity = Identity { device: 0, inode: 0, ctime_s: 0, ctime_ns: 0 };
        Self { agent_id, serial, session, identity, len: 0, checksum: 0, boot, file_system, mount }
    }

    /// The same, of bounds that look so.
    pub(super) fn looks(self, identity: Identity, len: u64, checksum: u32) -> Self {
        Self { identity, len, checksum, ..self }
    }

    pub(super) fn encode(&self) -> io::Result<Vec<u8>> {
        envelope::encode(PROOF, self).map_err(io::Error::other)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, SectionsFreshReason> {
        envelope::decode(PROOF, bytes).map_err(damaged)
    }

    /// Tells whether `.bounds`, as it is found, is what was written last, and nothing that somebody wrote after the same point is missing in it. The
    /// proof of a moment cannot be had twice: whatever is put in place, written or touched later has another ctime, and a file system that is put
    /// back as a whole was mounted anew, from a disk with another number.
    pub(super) fn judge(&self, now: &Self) -> Result<(), SectionsFreshReason> {
        if self.serial != now.serial {
            Err(SectionsFreshReason::Session)
        } else if self.agent_id != now.agent_id {
            Err(SectionsFreshReason::AgentId)
        } else if self.boot != now.boot {
            Err(SectionsFreshReason::Reboot)
        } else if !self.is_in_place(now) {
            Err(SectionsFreshReason::FileSystem)
        } else if (self.identity, self.len, self.checksum) != (now.identity, now.len, now.checksum) {
            Err(SectionsFreshReason::Changed)
        } else {
            Ok(())
        }
    }
}

impl Proof {
    /// Tells whether the file system, in one boot, was not put back to a snapshot in between.
    fn is_in_place(&self, now: &Self) -> bool {
        let attachment = |of: &Self| Attachment { disk: of.file_system.disk, mount: of.mount };
        self.file_system.fsid == now.file_system.fsid && attachment(self).stayed(&attachment(now))
    }
}

fn damaged(error: EnvelopeError) -> SectionsFreshReason {
    SectionsFreshReason::Damaged(error.to_string())
}

/// Records with these bounds, the first of them the `nth` of the file; and how many they are.
pub(super) fn encode(session: SessionId, nth: u64, bounds: &Bounds) -> io::Result<(Vec<u8>, u64)> {
    let (mut bytes, mut at) = (Vec::new(), nth);
    let (mut all, mut runs) = (bounds.all().peekable(), bounds.runs().to_vec());
    while all.peek().is_some() || !runs.is_empty() {
        let mut names: Vec<(GeneratorName, Vec<_>)> = Vec::new();
        for (name, sections, bound) in all.by_ref().take(RECORD_BOUNDS_MAX) {
            match names.last_mut() {
                Some((last, its)) if last == name => its.push((sections, bound)),
                _ => names.push((name.clone(), vec![(sections, bound)])),
            }
        }
        let noted: Noted = (names, std::mem::take(&mut runs));
        bytes.extend(record(RECORD, &session, at, noted)?);
        at = at.saturating_add(1);
    }
    Ok((bytes, at.saturating_sub(nth)))
}

/// Reads the bounds in all records of a file.
pub(super) fn decode(session: SessionId, bytes: &[u8]) -> Result<Bounds, SectionsFreshReason> {
    let mut bounds = Bounds::default();
    let note = |(names, runs): Noted| {
        runs.into_iter().for_each(|run| bounds.note_run(run));
        for (name, its) in names {
            its.into_iter().for_each(|(sections, bound)| bounds.note_range(&name, sections, bound));
        }
    };
    match records::<SessionId, _>(RECORD, bytes, note).map_err(damaged)? {
        Some(found) if found != session => Err(SectionsFreshReason::Damaged("records of another session".to_owned())),
        _ => Ok(bounds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::lease::Generation;
    use common::sequence::Section;
    use proptest::prelude::*;

    const SESSION: SessionId = SessionId(7);

    fn bounds(of: &[(&str, u32, u64)]) -> Bounds {
        let mut bounds = Bounds::default();
        for (name, section, max_seq) in of {
            bounds.note(&name.parse().unwrap(), Section(*section), Bound { g: Some(Generation(2)), max_seq: *max_seq });
        }
        bounds
    }

    #[test]
    fn records_behind_each_other_are_one_file() {
        let (mut bytes, n) = encode(SESSION, 0, &bounds(&[("a", 1, 10), ("b", 1, 20)])).unwrap();
        let (more, _) = encode(SESSION, n, &bounds(&[("a", 1, 30), ("a", 2, 5)])).unwrap();
        bytes.extend(&more);
        assert_eq!(decode(SESSION, &bytes), Ok(bounds(&[("a", 1, 30), ("a", 2, 5), ("b", 1, 20)])));
        let mut range = Bounds::default();
        range.note_range(&"a".parse().unwrap(), 0..u32::MAX, Bound { g: Some(Generation(1)), max_seq: 10 });
        let (one, n) = encode(SESSION, 0, &range).unwrap();
        assert_eq!((decode(SESSION, &one), n), (Ok(range.clone()), 1), "43 million sections as soon as one");
        assert!(one.len() < 100);
        range.note_run(MasterRun(7));
        let (both, n) = encode(SESSION, 0, &range).unwrap();
        assert_eq!((decode(SESSION, &both), n), (Ok(range), 1));
        assert!(matches!(decode(SessionId(8), &bytes), Err(SectionsFreshReason::Damaged(_))));
        // A record that is missing, doubled or out of its place.
        assert!(decode(SESSION, &more).is_err());
        assert!(decode(SESSION, &[bytes.as_slice(), &more].concat()).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(SESSION, &flipped).is_err(), "bit {bit} went unnoticed");
        }
        let whole = bytes.len() - more.len();
        for len in (1..bytes.len()).filter(|len| *len != whole) {
            assert!(decode(SESSION, &bytes[..len]).is_err(), "a cut at {len} went unnoticed");
        }
    }

    #[test]
    fn as_many_as_there_may_be_take_several_records() {
        let mut all = Bounds::default();
        let n = u32::try_from(2 * RECORD_BOUNDS_MAX + 1).unwrap();
        for section in 0..n {
            let name = format!("name-{:010}", section / 2).parse().unwrap();
            all.note(&name, Section(section), Bound { g: Some(Generation(section.into())), max_seq: u64::MAX });
        }
        let (bytes, records) = encode(SESSION, 0, &all).unwrap();
        assert_eq!((records, decode(SESSION, &bytes)), (3, Ok(all)));
        assert_eq!(encode(SESSION, 3, &Bounds::default()).unwrap(), (Vec::new(), 0));
    }

    fn proof() -> Proof {
        Proof {
            agent_id: "agent-1".parse().unwrap(),
            serial: SessionId(1),
            session: SESSION,
            identity: Identity { device: 1, inode: 2, ctime_s: 3, ctime_ns: 4 },
            len: 5,
            checksum: 6,
            boot: "0b".parse().unwrap(),
            file_system: FileSystemId { fsid: 8, disk: Some(9), mount: None },
            mount: Some(10),
        }
    }

    #[test]
    fn only_what_is_equal_in_all_goes_on() {
        use SectionsFreshReason::*;
        let then = proof();
        assert_eq!(Proof::decode(&then.encode().unwrap()), Ok(then.clone()));
        assert_eq!(then.judge(&then), Ok(()));
        type Change = fn(&mut Proof);
        let cases: [(Change, SectionsFreshReason); 10] = [
            (|now| now.serial = SessionId(2), Session),
            (|now| now.agent_id = "agent-2".parse().unwrap(), AgentId),
            (|now| now.boot = "0c".parse().unwrap(), Reboot),
            (|now| now.file_system.fsid += 1, FileSystem),
            (|now| now.file_system.disk = Some(1), FileSystem),
            (|now| now.file_system.disk = None, FileSystem),
            (|now| now.identity.inode += 1, Changed),
            (|now| now.identity.ctime_ns += 1, Changed),
            (|now| now.len += 1, Changed),
            (|now| now.checksum += 1, Changed),
        ];
        for (change, reason) in cases {
            let mut now = proof();
            change(&mut now);
            assert_eq!(then.judge(&now), Err(reason), "{now:?}");
        }
        // Mounted anew, as by a container that is started again: the disk tells.
        assert_eq!(then.judge(&Proof { mount: Some(11), ..proof() }), Ok(()));
        // Without a disk the mount does; without both it may have been put back.
        let mut memory = proof();
        memory.file_system.disk = None;
        assert_eq!(memory.judge(&memory), Ok(()));
        assert_eq!(memory.judge(&Proof { mount: Some(11), ..memory.clone() }), Err(FileSystem));
        let silent = Proof { mount: None, ..memory };
        assert_eq!(silent.judge(&silent), Err(FileSystem));
    }

    proptest! {
        #[test]
        fn foreign_bytes_are_refused_without_panic(bytes in proptest::collection::vec(any::<u8>(), 1..200)) {
            prop_assert!(decode(SESSION, &bytes).is_err() && Proof::decode(&bytes).is_err());
        }
    }
}
