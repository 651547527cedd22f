//! `--forget-clock`: a new session for a file whose times lie ahead of a clock that is right now.
//!
//! Times in the file keep a session from giving an ID twice. Another session has other tokens, so no ID of it is one of the former, and
//! it begins at the clock. The steps are those of a start that is fresh (S1 to S6 of [`super::start`]); whatever a kill leaves begins
//! another session at the next start, with the times of the old file or of the new one.

use super::disk::Disk;
use super::file::LockedFile;
use super::lineage::{self, FreshReason, given_up};
use super::location::FileLocation;
use super::start::{
    Machine, judge_file, local_file_system, lock_and_read, read_lineage, refuse_what_is_anothers, resolve,
};
use super::{AfterReboot, Contents, Found, Holdings, SerialFile, SerialFileError, StartKind};
use common::calendar::UtcOffset;
use common::lease::Grant;
use common::parameters::SessionId;
use common::time::{SpanMs, WallMs};
use std::path::Path;
use std::sync::Arc;

/// The longest time ahead that is waited for.
const AHEAD_MIN: SpanMs = SpanMs::seconds(5);

/// The outcome of forgetting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// The instant up to which IDs of short ticks may have been minted.
    pub mark: WallMs,
}

/// Begins a session in the serial file at `path` that mints by the clock, which says `now`. It is `new_session` (128 fresh random bits).
///
/// # Errors
/// As [`open`](super::open); and [`SerialFileError::NothingAhead`], then nothing was changed.
pub fn forget_clock(path: &Path, now: WallMs, new_session: SessionId) -> Result<Forgotten, SerialFileError> {
    let (place, disk) = resolve(path)?;
    refuse_what_is_anothers(&place)?;
    forget_clock_on(Arc::new(disk), Arc::new(place), now, new_session)
}

/// [`forget_clock`] on any disk.
///
/// # Errors
/// As [`forget_clock`].
pub fn forget_clock_on<F>(
    disk: Arc<dyn Disk<File = F>>,
    place: Arc<FileLocation>,
    now: WallMs,
    new_session: SessionId,
) -> Result<Forgotten, SerialFileError> {
    let file_system = local_file_system(&*disk, &place)?;
    let boot = disk.boot_id().map_err(SerialFileError::BootId)?;
    let (file, stat, checksum, mut contents) = lock_and_read(&*disk, &place)?;
    let found = read_lineage(&*disk, &place)?;
    let machine = Machine { boot, file_system };
    let (seen, start) = judge_file(&found, &stat, machine, checksum, &contents, AfterReboot::Fresh);
    let (offset, leases) = match &found {
        Found::Whole(lineage::Lineage { holdings, .. }) => {
            (holdings.parameters.map(|parameters| parameters.utc_offset()).unwrap_or_default(), &*holdings.leases)
        }
        Found::Missing | Found::Damaged(_) => (UtcOffset::default(), &[][..]),
    };
    let (mark, write_counter) = (contents.header.time_mark, contents.header.write_counter);
    if !forget(&mut contents, leases, offset, now) {
        return Err(SerialFileError::NothingAhead(place.path.clone()));
    }
    let reason = match start {
        StartKind::Fresh(reason) => reason,
        StartKind::Resumed => FreshReason::ClockForgotten,
    };
    let holdings = Holdings { former: given_up(&found, &seen, &reason), ..Holdings::default() };
    contents.header.session = new_session;
    let held = LockedFile { file, identity: stat.identity, write_counter };
    let mut file = SerialFile::new(place, disk, machine, held, contents.clone());
    let path = file.path().to_owned();
    file.write(&mut contents, &holdings).map_err(|source| SerialFileError::Write { path, source })?;
    Ok(Forgotten { mark })
}

/// Sets back what lies ahead of `now`. Whether there was something.
fn forget(contents: &mut Contents, leases: &[Grant], offset: UtcOffset, now: WallMs) -> bool {
    let header = &mut contents.header;
    let floor = now.max(WallMs(0));
    let mut ahead = header.time_mark > floor + AHEAD_MIN || leases.iter().any(|lease| lease.from > now);
    header.time_mark = header.time_mark.min(floor);
    header.names_from = header.names_from.min(floor);
    for block in contents.blocks.iter_mut().flatten() {
        if block.bucket > offset.bucket(floor, block.kind.spec().unit.span()) {
            // Whatever comes next is later.
            block.bucket = 0;
            ahead = true;
        }
    }
    ahead
}
