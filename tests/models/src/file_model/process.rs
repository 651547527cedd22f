//! A process of the agent, as far as it has to do with its serial file: the product's own start, write and serials.

use super::run::{Handle, Reply, Run, disk, place};
use super::{Bounds, Twin};
use crate::kit::shared::{Shared, hash_of};
use common::kind::Kind;
use common::parameters::SessionId;
use common::time::{BootMs, WallMs};
use minting::serial::{Marks, Plan, Rules, Serial};
use serial_file::{AfterReboot, Block, Contents, Holdings, Opened, SerialFile, WriteError, format_on, open_on};

/// IDs of one day: so few that the product's rules reserve one at a time.
const CAPACITY: u64 = 64;
/// Blocks of the file: those of the names `default`, of which strings are minted.
const BLOCKS: u32 = 2;
/// No reserve is too short or too long.
const NOW: BootMs = BootMs(0);

/// A process that has the file.
#[derive(Clone, Debug, Hash)]
pub(super) struct Live {
    file: SerialFile<Handle>,
    contents: Contents,
    holdings: Holdings,
}

/// A write that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    /// More serials for a window that is used up, or another day. Nothing is minted meanwhile.
    Refill(Marks),
    /// More serials while there are some.
    Reserve(Marks),
    /// The number of a renewal.
    Holdings,
    /// A clean stop hands back what was not used. Nothing is minted any more.
    Stop,
}

/// The work of a process.
#[derive(Clone, Debug, Hash)]
pub(super) enum Doing {
    Formatting { session: u8 },
    Starting { after_reboot_resume: bool, session: u8 },
    Minting { live: Shared<Live>, serial: Serial },
    Writing { live: Shared<Live>, serial: Serial, what: What },
}

/// A process.
#[derive(Clone, Debug, Hash)]
#[allow(clippy::derived_hash_with_manual_eq, reason = "two are equal if their hashes are, so equal ones hash alike")]
pub(super) struct Process {
    /// The folder of its file.
    pub(super) at: u8,
    pub(super) doing: Doing,
    /// Answers of the disk since it began with this.
    pub(super) log: Vec<Reply>,
}

impl Process {
    pub(super) fn new(at: u8, doing: Doing) -> Self {
        Self { at, doing, log: Vec::new() }
    }

    /// The inodes that it has open, and perhaps some that it had.
    pub(super) fn open(&self) -> Vec<u8> {
        let live = match &self.doing {
            Doing::Minting { live, .. } | Doing::Writing { live, .. } => Some(live),
            _ => None,
        };
        let held = live.into_iter().flat_map(|live| live.file.open_files().map(|file| file.0));
        let since = self.log.iter().filter_map(|reply| match reply {
            Reply::Opened(file) => file.map(|file| file.0),
            _ => None,
        });
        held.chain(since).collect()
    }

    pub(super) fn serial(&self) -> Option<&Serial> {
        match &self.doing {
            Doing::Minting { serial, .. } | Doing::Writing { serial, .. } => Some(serial),
            _ => None,
        }
    }

    pub(super) fn session(&self) -> Option<SessionId> {
        match &self.doing {
            Doing::Minting { live, .. } | Doing::Writing { live, .. } => Some(live.contents.header.session),
            _ => None,
        }
    }

    /// The serials that it may mint without another write, with their session and day.
    pub(super) fn usable(&self) -> Option<(SessionId, u32, std::ops::Range<u64>)> {
        if matches!(self.doing, Doing::Writing { what: What::Stop, .. }) {
            return None;
        }
        let serial = self.serial()?;
        Some((self.session()?, serial.bucket(), serial.clone().lend()))
    }

    /// Mints one serial of the last day, if it may at this moment.
    pub(super) fn mint(&mut self) -> Option<(SessionId, u32, u64)> {
        let session = self.session()?;
        let serial = match &mut self.doing {
            Doing::Minting { serial, .. } => serial,
            Doing::Writing { serial, what: What::Reserve(_) | What::Holdings, .. } => serial,
            _ => return None,
        };
        let day = serial.bucket();
        let taken = (serial.plan(day, 1, NOW) == Plan::Ready).then(|| serial.take(1))?;
        Some((session, day, taken.start))
    }

    /// The writes that it may begin with.
    pub(super) fn writes(&self, bounds: &Bounds) -> Vec<What> {
        let Doing::Minting { live, serial } = &self.doing else { return Vec::new() };
        let mut all = Vec::new();
        for day in [serial.bucket(), serial.bucket() + 1] {
            if day < bounds.days
                && let Plan::Write(marks) = serial.plan(day, 1, NOW)
            {
                all.push(What::Refill(marks));
            }
        }
        if serial.next() < serial.marks().mark
            && let Some(marks) = serial.plan_reserve(NOW)
        {
            all.push(What::Reserve(marks));
        }
        all.retain(|what| !matches!(what, What::Refill(marks) | What::Reserve(marks) if marks.mark > bounds.serials));
        if live.holdings.rseq < bounds.renewals {
            all.push(What::Holdings);
        }
        all
    }

    /// Begins with a write. `None`: there is nothing to hand back, and it ends.
    pub(super) fn begin(self, what: What, bounds: &Bounds) -> Option<Self> {
        let Doing::Minting { live, mut serial } = self.doing else { return None };
        if what == What::Stop && serial.marks_at_rest() == serial.marks() {
            return None;
        }
        if let What::Refill(marks) | What::Reserve(marks) = what
            && bounds.has(Twin::MintsBeforeDurable)
        {
            serial.commit(marks, NOW);
            // The bounds are raised at once, and what is written is only written.
            return Some(Self::new(self.at, Doing::Writing { live, serial, what: What::Reserve(marks) }));
        }
        Some(Self::new(self.at, Doing::Writing { live, serial, what }))
    }

    /// Its next step. `None` instead of the process: it ended.
    pub(super) fn step(&self, run: Run, bounds: &Bounds) -> (Run, Option<Self>) {
        let (mut run, after) = match &self.doing {
            Doing::Formatting { session } => {
                let (run, _) = run.with(|| format_file(*session));
                (run, None)
            }
            Doing::Starting { after_reboot_resume, session } => {
                let after = if *after_reboot_resume { AfterReboot::Resume } else { AfterReboot::Fresh };
                let (run, opened) = run.with(|| open_on(disk(), place(), after, SessionId((*session).into())));
                (run, opened.ok().map(|opened| minting(opened, bounds)))
            }
            Doing::Minting { .. } => return (run, Some(self.clone())),
            Doing::Writing { live, serial, what } => {
                let (mut live, mut serial) = (Live::clone(live), serial.clone());
                let (run, done) = run.with(|| live.write(&mut serial, *what, bounds));
                let goes_on = match (what, done) {
                    (_, Err(WriteError::Lost(_))) => false,
                    (What::Stop, _) => bounds.has(Twin::MintsAfterStop),
                    _ => true,
                };
                (run, goes_on.then(|| Doing::Minting { live: Shared::new(live), serial }))
            }
        };
        if run.suspended {
            let log = std::mem::take(&mut run.log);
            return (run, Some(Self { log, ..self.clone() }));
        }
        (run, after.map(|doing| Self::new(self.at, doing)))
    }
}

/// `--format`.
pub(super) fn format_file(session: u8) -> bool {
    format_on(&*disk(), &place(), BLOCKS, WallMs(0), SessionId(session.into())).is_ok()
}

fn rules(bounds: &Bounds) -> Rules {
    Rules { capacity: CAPACITY, buckets_per_day: 1, everyday_reset: bounds.everyday_reset }
}

/// Begins to mint from an opened file.
pub(super) fn minting(opened: Opened<Handle>, bounds: &Bounds) -> Doing {
    let Opened { file, contents, holdings, .. } = opened;
    let block = contents.blocks.iter().flatten().find(|block| block.kind == Kind::String);
    let marks = block.map_or_else(
        || Marks { step: 1, ..Marks::default() },
        |block| Marks { bucket: block.bucket, base: block.bucket_base, mark: block.serial, step: block.step },
    );
    let serial = Serial::resume(rules(bounds), marks);
    Doing::Minting { live: Shared::new(Live { file, contents, holdings }), serial }
}

impl Live {
    fn write(&mut self, serial: &mut Serial, what: What, bounds: &Bounds) -> Result<(), WriteError> {
        let marks = match what {
            What::Refill(marks) | What::Reserve(marks) => marks,
            What::Stop => serial.marks_at_rest(),
            What::Holdings => {
                let holdings = Holdings { rseq: self.holdings.rseq + 1, ..self.holdings.clone() };
                self.file.write_holdings(&holdings)?;
                self.holdings = holdings;
                return Ok(());
            }
        };
        let mut contents = self.contents.clone();
        if let Some(block) = contents.blocks.iter_mut().flatten().find(|block| block.kind == Kind::String) {
            *block = Block {
                name: block.name,
                kind: Kind::String,
                everyday_reset: bounds.everyday_reset,
                create_time: WallMs(0),
                modification_time: WallMs(0),
                bucket: marks.bucket,
                bucket_base: marks.base,
                checksum: 0,
                serial: marks.mark,
                step: marks.step,
            };
        }
        let written = self.file.write(&mut contents, &self.holdings);
        let believed = written.is_ok() || bounds.has(Twin::FailedWriteCounts);
        if believed && what != What::Stop && !bounds.has(Twin::MintsBeforeDurable) {
            serial.commit(marks, NOW);
        }
        written?;
        self.contents = contents;
        Ok(())
    }
}

/// Compares what two processes know.
impl PartialEq for Process {
    fn eq(&self, other: &Self) -> bool {
        hash_of(self) == hash_of(other)
    }
}
