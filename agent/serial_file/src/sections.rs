//! `<serial file>.bounds`: how far this agent may have given numbers of sequences, section by section, so that it goes on with its sections
//! after a restart.
//!
//! There may be a quarter of a million sections, and each is raised every few seconds. So it is a log, to which all that is raised at a
//! time is added by one write, and which is written anew when it has become twice as long as it has to be. That nobody but us touched it
//! says `<serial file>.proof`, as the lineage does of the serial file, whose lock is the lock of these files too.
//!
//! | a write | a kill after it |
//! |---|---|
//! | A1 add the records to `.bounds` | another session: the proof does not fit |
//! | A2 stat it | as after A1 |
//! | A3 C1 to C5 of `.proof`, without C4 | goes on, with these bounds |
//! | A4 fsync `.bounds`; the write returns | goes on |
//!
//! | written anew | a kill after it |
//! |---|---|
//! | B1 C1 to C4 of `.bounds` ([`super::companion`]) | goes on with the old ones |
//! | B2 C5, stat it | another session |
//! | B3 as A3; the write returns | goes on |
//!
//! "Another session" costs what it costs where nothing is written: both masters have to give the sections to it, and it waits until the one
//! before is sure to have stopped. It repeats nothing. Between A1 and A3, and B2 and B3, are some millionths of a second.
//!
//! What is written counts in the boot in which it was written, and no longer: so nothing has to survive a power cut, and neither `.proof`
//! nor the folder is flushed. A4 is there for the disk's errors, which come when bytes are flushed, and not when they are written.
//!
//! If a step fails, both files are removed (G1, G2): numbers are given on, and the next start is another session. Only if `.bounds` cannot
//! even be removed does the write fail, and what it was to allow must not be used. After a while all is written anew.

use super::disk::{Access, Disk, FileKind};
use super::error::StepError;
use super::location::FileLocation;
use super::section_records::{self as records, PROOF_LEN_MAX, Proof, SectionsFreshReason};
use super::start::{Machine, Opened};
use super::{Identity, StartKind};
use common::parameters::{AgentId, SessionId};
use common::time::{BootMs, SpanMs};
use minting::sequence::{Bounds, Start};
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Sections of which bounds are written: all that masters give to anybody. With more the files are given up.
pub const BOUNDS_MAX: usize = 262_144;
/// The longest `.bounds`, in bytes: twice as many bounds as there may be, each of a name of its own. Nothing beyond it is ever read.
const FILE_LEN_MAX: usize = 64 << 20;
/// The growth in bytes before which the file is not written anew.
const GROWTH_MIN: u64 = 1 << 20;
/// After a write that failed nothing is tried for so long.
const RETRY: SpanMs = SpanMs::seconds(5);

/// The way in which the session that serves sections goes on, or another begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SectionsStart {
    /// The session goes on.
    Resumed,
    /// Another one begins.
    Fresh(SectionsFreshReason),
}

/// The outcome of a write; in either case the bounds may be used.
#[derive(Debug)]
pub enum Noted {
    /// They are durable.
    Durable,
    /// Nothing is there that a start could go on with, since just now.
    GivenUp(StepError),
    /// The same, since a while ago.
    StillGivenUp,
}

/// The bounds of an agent's sections. `F` is an open file of the disk they are on.
#[derive(Debug)]
pub struct SectionFile<F = File> {
    place: Arc<FileLocation>,
    disk: Arc<dyn Disk<File = F>>,
    /// The next proof, but for what `.bounds` looks like.
    proof: Proof,
    bounds: Bounds,
    state: State<F>,
}

#[derive(Debug)]
enum State<F> {
    /// The file in place is of a process before, or could not be removed.
    Unwritten,
    /// The file in place is ours.
    Open(Open<F>),
    /// There is none.
    GivenUp(BootMs),
}

#[derive(Debug)]
struct Open<F> {
    file: F,
    /// Bytes in it,
    len: u64,
    /// and when it was written anew.
    len_anew: u64,
    checksum: u32,
    /// Records in it.
    records: u64,
}

impl<F> Opened<F> {
    /// Reads the bounds of the sections that the process before served under this name, if that session goes on; else `new_session` (128 fresh random
    /// bits) begins. Changes nothing on disk.
    pub fn sections(&self, agent_id: &AgentId, new_session: SessionId) -> (SectionFile<F>, SectionsStart) {
        let (place, disk, machine) = self.file.surroundings();
        let serial = self.contents.header.session;
        let found = match &self.start {
            StartKind::Resumed if self.renew_first => Err(SectionsFreshReason::SecondCopy),
            StartKind::Resumed => read(&*disk, &place, machine, serial, Some(agent_id)),
            StartKind::Fresh(_) => Err(SectionsFreshReason::Session),
        };
        let ((session, bounds), start) = match found {
            Ok(found) => (found, SectionsStart::Resumed),
            Err(reason) => ((new_session, Bounds::default()), SectionsStart::Fresh(reason)),
        };
        let mount = disk.mount().unwrap_or_default();
        let proof = Proof::of(agent_id.clone(), serial, session, machine, mount);
        (SectionFile { place, disk, proof, bounds, state: State::Unwritten }, start)
    }
}

/// Reads the bounds, if they are proved to be what was written last; under whichever name, if none is said, and then only to look at them.
pub(super) fn read<F>(
    disk: &dyn Disk<File = F>,
    place: &FileLocation,
    machine: Machine,
    serial: SessionId,
    agent_id: Option<&AgentId>,
) -> Result<(SessionId, Bounds), SectionsFreshReason> {
    let unread = |e: io::Error| match e.kind() {
        io::ErrorKind::NotFound => SectionsFreshReason::NoBounds,
        _ => SectionsFreshReason::Damaged(e.to_string()),
    };
    let access = if agent_id.is_some() { Access::ReadWrite } else { Access::Read };
    let (_, proof) = place.proof.read(disk, access, PROOF_LEN_MAX).map_err(unread)?;
    let proof = Proof::decode(&proof)?;
    let (file, bytes) = place.bounds.read(disk, access, FILE_LEN_MAX).map_err(unread)?;
    let stat = disk.stat(&file).map_err(unread)?;
    if stat.links != 1 || stat.kind != FileKind::Regular {
        return Err(SectionsFreshReason::Changed);
    }
    let agent_id = agent_id.unwrap_or(&proof.agent_id).clone();
    let now = Proof::of(agent_id, serial, proof.session, machine, disk.mount().unwrap_or_default());
    proof.judge(&now.looks(stat.identity, bytes.len() as u64, crc32c::crc32c(&bytes)))?;
    let session = proof.session;
    let bounds = records::decode(session, &bytes)?;
    match bounds.len() <= BOUNDS_MAX {
        true => Ok((session, bounds)),
        false => Err(SectionsFreshReason::Damaged(format!("bounds of more than {BOUNDS_MAX} sections"))),
    }
}

impl<F> SectionFile<F> {
    /// The session as which masters know this agent when it serves sections.
    pub fn session(&self) -> SessionId {
        self.proof.session
    }

    /// The session as which the process may serve sections, by what `found` said; `spare` (128 fresh random bits) if masters deny the one before.
    pub fn start(&self, found: &SectionsStart, spare: SessionId) -> Start {
        match found {
            SectionsStart::Resumed => Start::found(self.proof.session, self.bounds.clone(), spare),
            SectionsStart::Fresh(_) => Start::nothing(self.proof.session),
        }
    }

    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Makes these bounds durable, or sees to it that no start goes on without them. Only when this returns may a number be given above the
    /// bounds before. `now`, by any clock that does not go back, says how long ago a write failed.
    ///
    /// # Errors
    /// If neither can be done; the bounds must not be used. It may be tried again.
    pub fn note(&mut self, more: &Bounds, now: BootMs) -> Result<Noted, StepError> {
        // Once there are too many nothing is written any more, and nothing has to be remembered.
        if self.bounds.len() <= BOUNDS_MAX {
            self.bounds.note_all(more);
        }
        let too_many = self.bounds.len() > BOUNDS_MAX;
        let done = match std::mem::replace(&mut self.state, State::Unwritten) {
            State::GivenUp(since) if too_many || now < since + RETRY => {
                self.state = State::GivenUp(since);
                return Ok(Noted::StillGivenUp);
            }
            _ if too_many => {
                let why = io::Error::other(format!("there are more than {BOUNDS_MAX} sections"));
                self.place.bounds.step("write", Err(why))
            }
            State::Open(open) => self.add(open, more),
            State::GivenUp(_) | State::Unwritten => self.write_anew(),
        };
        match done {
            Ok(open) => {
                self.state = State::Open(open);
                Ok(Noted::Durable)
            }
            Err(error) => {
                self.remove(now)?;
                Ok(Noted::GivenUp(error))
            }
        }
    }

    /// Goes on as another session, which gave nothing yet. Nothing of the one before is left that a start could go on with.
    ///
    /// # Errors
    /// If it cannot be removed; then nothing has changed.
    pub fn begin(&mut self, session: SessionId, now: BootMs) -> Result<(), StepError> {
        self.remove(now)?;
        (self.proof.session, self.bounds, self.state) = (session, Bounds::default(), State::Unwritten);
        Ok(())
    }

    /// A1 to A4.
    fn add(&self, mut open: Open<F>, more: &Bounds) -> Result<Open<F>, StepError> {
        let log = &self.place.bounds;
        let (bytes, n) = log.step("add to", records::encode(self.proof.session, open.records, more))?;
        let len = open.len.saturating_add(bytes.len() as u64);
        if len > open.len_anew.saturating_mul(2).max(open.len_anew.saturating_add(GROWTH_MIN)) {
            return self.write_anew();
        }
        log.step("add to", self.disk.write(&open.file, &bytes))?; // A1
        (open.len, open.records) = (len, open.records.saturating_add(n));
        open.checksum = crc32c::crc32c_append(open.checksum, &bytes);
        let stat = log.step("look at", self.disk.stat(&open.file))?; // A2
        self.prove(&open, stat.identity)?; // A3
        log.step("flush", self.disk.fsync(&open.file))?; // A4
        Ok(open)
    }

    /// B1 to B3.
    fn write_anew(&self) -> Result<Open<F>, StepError> {
        let log = &self.place.bounds;
        let (bytes, records) = log.step("write", records::encode(self.proof.session, 0, &self.bounds))?;
        let file = log.replace(&*self.disk, &bytes, true)?; // B1, B2
        let stat = log.step("look at", self.disk.stat(&file))?;
        let len = bytes.len() as u64;
        let open = Open { file, len, len_anew: len, checksum: crc32c::crc32c(&bytes), records };
        self.prove(&open, stat.identity)?; // B3
        Ok(open)
    }

    fn prove(&self, open: &Open<F>, identity: Identity) -> Result<(), StepError> {
        let (log, proof) = (&self.place.proof, self.proof.clone().looks(identity, open.len, open.checksum));
        log.replace(&*self.disk, &log.step("write", proof.encode())?, false).map(|_| ())
    }

    /// G1, G2. Without the log no proof fits, whoever puts one there.
    fn remove(&mut self, now: BootMs) -> Result<(), StepError> {
        self.state = State::Unwritten;
        let (bounds, proof) = (&self.place.bounds, &self.place.proof);
        bounds.step("remove", self.disk.unlink(&bounds.name))?; // G1
        self.state = State::GivenUp(now);
        for left_over in [&proof.name, &bounds.new, &proof.new] {
            self.disk.unlink(left_over).ok(); // G2
        }
        Ok(())
    }
}
