//! Two masters whose machines' calendars were wrong when they started, and an agent whose clock is right: every sequence of what the two
//! machines may show, and who may be heard, for five minutes each.

use super::disk::{Disk, first, parameters};
use crate::model::Pair;
use common::parameters::{MasterId, SessionId};
use common::time::{BootMs, DAY_MS, Now, SpanMs, WallMs};
use ledger::Ledger;
use ledger::lease::Event;

/// The true time at the beginning, and how far behind both calendars may be.
const BEGAN: WallMs = WallMs(20_000 * DAY_MS);
const BEHIND: SpanMs = SpanMs(-3 * DAY_MS);
/// Between two beats, so that neither is silent; and so many of them, in which a calendar is shown for nearly as long as it has to be.
const BEAT: SpanMs = SpanMs(4_900);
const BEATS: u8 = 61;
/// An agent says its calendar each so many beats.
const SAYS_EACH: u8 = 16;
/// Tells whether masters hear each other in that time, and whether the agent's calendar is right.
const HEARD: [(bool, bool); 3] = [(true, true), (true, false), (false, true)];

/// The counts of what was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// Sequences of that length.
    pub sequences: u64,
    /// Times at which a master went by the right calendar.
    pub right: u64,
    /// Times at which one did not, though both machines and the agent had shown it for long enough, and all were heard.
    pub late: u64,
    /// Times at which one did though they had not.
    pub early: u64,
    /// Times at which something written down went back, or lay further ahead than by any calendar that was gone by.
    pub wrong: u64,
}

#[derive(Clone)]
struct World {
    pair: Pair,
    /// Tells whether both machines and the agent showed the right calendar at the last step, all of them heard,
    shown: bool,
    /// and whether they ever had for long enough.
    settled: bool,
}

/// All sequences of `depth` readings. `own_read`: each master takes its own machine for the other's.
pub fn walk(depth: u8, own_read: bool) -> anyhow::Result<Followed> {
    let parameters = parameters()?;
    let disks = [MasterId::One, MasterId::Two].map(|id| first(id, parameters, []));
    let now = Now { wall: BEGAN + BEHIND, boot: BootMs(0) };
    let start = |disk: &Disk| Ledger::start(disk.loaded(), now, u64::from(disk.id().number()), None, String::new());
    let pair = Pair::meet(disks.iter().map(start).collect(), now);
    let mut pair = pair.ok_or_else(|| anyhow::anyhow!("they never meet"))?;
    (pair.now.wall, pair.off, pair.own_read) = (BEGAN, [BEHIND; 2], own_read);
    let mut found = Followed::default();
    further(&World { pair, shown: false, settled: false }, depth, &mut found);
    Ok(found)
}

fn further(world: &World, depth: u8, found: &mut Followed) {
    if depth == 0 {
        found.sequences += 1;
        return;
    }
    for (linked, agent) in HEARD {
        for off in [[BEHIND; 2], [BEHIND, SpanMs(0)], [SpanMs(0), BEHIND], [SpanMs(0); 2]] {
            let mut next = world.clone();
            next.pass(off, linked, agent);
            next.look(world, found);
            further(&next, depth - 1, found);
        }
    }
}

impl World {
    /// Five minutes pass, in which the machines show this. The agent says what it shows each 80 s, the masters speak each 5 s, if they hear
    /// each other.
    fn pass(&mut self, off: [SpanMs; 2], linked: bool, right: bool) {
        let pair = &mut self.pair;
        (pair.off, pair.cut) = (off, !linked);
        for beat in 0..BEATS {
            pair.now = Now { wall: pair.now.wall + BEAT, boot: pair.now.boot + BEAT };
            for at in 0..2 {
                if beat % SAYS_EACH == 0
                    && let Ok(agent_id) = "a1".parse()
                {
                    let (session, wall) = (SessionId(1), pair.now.wall + if right { SpanMs(0) } else { BEHIND });
                    pair.step(at, Event::AgentCalendar { agent_id, session, wall });
                }
                pair.step(at, if beat == 0 { Event::Connected } else { Event::Tick });
            }
        }
        let shown = off == [SpanMs(0); 2] && linked && right;
        self.settled |= shown && self.shown;
        self.shown = shown;
    }

    fn look(&self, before: &Self, found: &mut Followed) {
        let solo = self.pair.ledgers.first().map(|ledger| ledger.identity().parameters.solo()).unwrap_or_default();
        for (at, ledger) in self.pair.ledgers.iter().enumerate() {
            let read = self.pair.read(at);
            let right = ledger.calendar().shown(read) == self.pair.now.wall;
            found.right += u64::from(right);
            found.early += u64::from(right && !self.settled);
            let was = before.shown && self.shown;
            found.late += u64::from(was && !right);
            let Some(old) = before.pair.ledgers.get(at) else { continue };
            let latest = if self.settled { self.pair.now.wall } else { self.pair.now.wall + BEHIND };
            let ahead = ledger.permit_out() > Some(latest + solo) || ledger.observed().clock_high > latest;
            let back =
                ledger.permit_out() < old.permit_out() || ledger.observed().clock_high < old.observed().clock_high;
            found.wrong += u64::from(ahead || back);
        }
    }
}
