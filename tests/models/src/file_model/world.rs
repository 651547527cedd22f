//! A state of the model: the folders, the processes, what was copied, and every serial ever minted.

use super::folder::{Data, Folder};
use super::process::Process;
use crate::kit::shared::Shared;
use common::parameters::SessionId;

/// Days and serials that the set of minted ones has room for, and sessions.
pub(super) const DAYS: u32 = 2;
pub(super) const SERIALS: u64 = 8;
pub(super) const SESSIONS: u8 = 8;

/// Every serial that was ever minted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Minted(u128);

impl Minted {
    fn bit(session: SessionId, day: u32, serial: u64) -> Option<u128> {
        let fits = session.0 < SESSIONS.into() && day < DAYS && serial < SERIALS;
        let at = (session.0 as u64 * u64::from(DAYS) + u64::from(day)) * SERIALS + serial;
        fits.then(|| 1 << at)
    }

    /// Notes it; `false` if it was minted before, or is beyond the bounds.
    pub(super) fn note(&mut self, session: SessionId, day: u32, serial: u64) -> bool {
        let Some(bit) = Self::bit(session, day, serial) else { return false };
        let new = self.0 & bit == 0;
        self.0 |= bit;
        new
    }

    pub(super) fn has(self, session: SessionId, day: u32, serial: u64) -> bool {
        Self::bit(session, day, serial).is_some_and(|bit| self.0 & bit != 0)
    }
}

/// The files that an operator keeps elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Kept {
    pub(super) file: Option<Data>,
    pub(super) lineage: Option<Data>,
}

/// A state.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct World {
    /// The folder, and perhaps a copy of it.
    pub(super) folders: Vec<Shared<Folder>>,
    pub(super) processes: [Option<Shared<Process>>; 2],
    pub(super) kept: Kept,
    pub(super) minted: Minted,
    /// The time by the file systems.
    pub(super) clock: u16,
    /// Boots of any machine so far.
    pub(super) boots: u8,
    /// Starts and formats so far. Each draws a session of its own.
    pub(super) starts: u8,
    pub(super) writes: u8,
    pub(super) troubles: u8,
    /// Someone else than a process of ours has changed a file or a name.
    pub(super) tampered: bool,
    /// A serial was minted twice.
    pub(super) twice: bool,
    /// The disk of the model is too small for what happened.
    pub(super) full: bool,
}

impl World {
    pub(super) fn folder(&self, at: u8) -> Option<&Shared<Folder>> {
        self.folders.get(usize::from(at))
    }

    pub(super) fn process(&self, who: usize) -> Option<&Shared<Process>> {
        self.processes.get(who)?.as_ref()
    }

    pub(super) fn put_process(&mut self, who: usize, process: Option<Process>) {
        if let Some(place) = self.processes.get_mut(who) {
            *place = process.map(Shared::new);
        }
    }

    /// Puts a folder back, without what nobody can reach any more.
    pub(super) fn put_folder(&mut self, at: u8, mut folder: Folder) {
        let open: Vec<Vec<u8>> = self
            .processes
            .iter()
            .map(|process| process.as_ref().filter(|process| process.at == at).map_or_else(Vec::new, |p| p.open()))
            .collect();
        folder.collect(&open);
        if let Some(place) = self.folders.get_mut(usize::from(at)) {
            *place = Shared::new(folder);
        }
    }

    /// Tells whether no two processes may both mint one serial, and none may mint what was minted before.
    pub(super) fn disjoint(&self) -> bool {
        let usable: Vec<_> = self.processes.iter().flatten().filter_map(|process| process.usable()).collect();
        let old = |(session, day, serials): &(SessionId, u32, std::ops::Range<u64>)| {
            serials.clone().any(|serial| self.minted.has(*session, *day, serial))
        };
        let shared = match usable.as_slice() {
            [(s1, d1, one), (s2, d2, two)] => s1 == s2 && d1 == d2 && one.start < two.end && two.start < one.end,
            _ => false,
        };
        !self.twice && !shared && !usable.iter().any(old)
    }
}
