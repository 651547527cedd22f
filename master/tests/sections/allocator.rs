//! An allocator that does what it has to and nothing else: serve what was listed lately, wait before it serves what somebody had before,
//! and write down how far it goes before it gives.

use super::world::Bent;
use common::parameters::SessionId;
use std::collections::BTreeMap;

/// `--sequence-lease`, in milliseconds.
pub(super) const LEASE: i64 = 5_000;

/// A section in its memory.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub g: u64,
    /// The last number given, and how far it may go; `None` before it is loaded.
    pub loaded: Option<(u64, u64)>,
    pub lease_until: i64,
    pub wait_until: i64,
    /// A call that was read, and the greatest answer before it was asked.
    pub asked: Option<u64>,
}

/// One of them.
#[derive(Clone, Debug)]
pub(super) struct Allocator {
    pub name: String,
    pub session: SessionId,
    /// Grows with each start of its process: answers to an earlier one reach nobody.
    pub life: u64,
    /// The rate of its clock, in thousandths of the true rate.
    pub rate: i64,
    pub holds: BTreeMap<u32, Hold>,
    /// Durable: how far it may have given, and under which number.
    pub file: BTreeMap<u32, (u64, u64)>,
    /// Stopped until then, by true time.
    pub stopped_until: i64,
}

impl Allocator {
    pub(super) fn now(&self, t: i64) -> i64 {
        t * self.rate / 1_000
    }

    /// An answer to a keep that was sent at `sent`, by its clock.
    pub(super) fn on_kept(&mut self, now: i64, sent: i64, listed: &[(u32, u64)], bent: Option<Bent>) {
        for (section, g) in listed {
            let until = sent + LEASE;
            match self.holds.get_mut(section) {
                Some(hold) if hold.g > *g => {}
                Some(hold) if hold.g == *g => hold.lease_until = hold.lease_until.max(until),
                _ => {
                    let resumes = self.file.get(section).is_some_and(|(its, _)| its == g);
                    let at_once = *g == 1 || resumes || bent == Some(Bent::NoWait);
                    let wait_until = if at_once { now } else { now + LEASE * 103 / 100 };
                    let hold = Hold { g: *g, loaded: None, lease_until: until, wait_until, asked: None };
                    self.holds.insert(*section, hold);
                }
            }
        }
    }

    /// An answer to a raise under `g`.
    pub(super) fn on_raised(&mut self, now: i64, section: u32, g: u64, from: u64, to: u64, any_clock: bool) {
        let marked = self.file.get(&section).filter(|(its, _)| *its == g).map_or(0, |(_, max)| *max);
        let Some(hold) = self.holds.get_mut(&section).filter(|hold| hold.g == g) else { return };
        match &mut hold.loaded {
            Some((_, max)) => *max = to.max(*max),
            None => {
                let cur = from.max(marked);
                hold.loaded = Some((cur, to.max(cur)));
            }
        }
        let max = hold.loaded.map_or(0, |(_, max)| max);
        if any_clock || now >= hold.wait_until {
            self.file.insert(section, (g, max));
        }
    }

    pub(super) fn read_call(&mut self, section: u32, answered: u64) {
        if let Some(hold) = self.holds.get_mut(&section) {
            hold.asked.get_or_insert(answered);
        }
    }

    /// The next number, with the greatest answer before its question.
    pub(super) fn give(&mut self, now: i64, section: u32, any_clock: bool) -> Option<(u64, u64)> {
        let hold = self.holds.get_mut(&section)?;
        let may = any_clock || (now < hold.lease_until && now >= hold.wait_until);
        let (cur, max) = hold.loaded.as_mut().filter(|(cur, max)| may && cur < max)?;
        let before = hold.asked.take()?;
        *cur += 1;
        let number = *cur;
        let mark = (hold.g, *max);
        self.file.insert(section, mark);
        Some((number, before))
    }

    pub(super) fn resume(&mut self) {
        self.life += 1;
        self.holds.clear();
    }

    pub(super) fn start_fresh(&mut self, session: SessionId) {
        self.resume();
        self.file.clear();
        self.session = session;
    }
}
