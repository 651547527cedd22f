//! An agent whose machine may stand still together with its clock, by the product's [`Allocator`]: every sequence of so many things that can
//! befall it and its questions to two masters.

use common::lease::Generation;
use common::namespace::GeneratorName;
use common::segment::MasterRun;
use common::sequence::Section;
use common::time::BootMs;
use minting::sequence::{Allocator, Kept, Ownership};
use wire::ranges::{HeldSections, KeepReply};

/// `--sequence-lease`, in milliseconds.
const LEASE: i64 = 1_000;
/// The time that passes at once, and for which the machine stands still at once: longer than any two questions are under way here.
const TICK: i64 = 100;
const STILL: i64 = 2_000;
/// Milliseconds in a hundred that the agent's clock says pass, and the masters'.
const SLOW: i64 = 99;
const FAST: i64 = 101;
/// The longest lease by a slow clock.
const LONGEST: i64 = LEASE * 100 / SLOW + 2;

/// The counts of what was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// Sequences of that length.
    pub sequences: u64,
    /// Answers after a standstill, by which it was seen.
    pub seen: u64,
    /// Moments in which the agent served past the lease of its last question, though a master has answered since it stood still.
    pub served_past: u64,
}

/// A question to one master.
#[derive(Clone, Copy, Default)]
enum Under {
    #[default]
    Nothing,
    /// On its way, since that moment, which the agent's clock called so.
    Asked(i64, BootMs),
    /// Answered, at the second moment.
    Answered(i64, BootMs, i64),
}

#[derive(Clone)]
struct World {
    allocator: Allocator,
    /// The true time, and the agent's clock.
    at: i64,
    clock: i64,
    under: [Under; 2],
    /// The time when each master was at the newest answer of it that came.
    heard: [Option<i64>; 2],
    /// The time when the newest question was sent that was answered.
    sent: Option<i64>,
    /// The time when it stood still last, if no answer has come since that can show it.
    unseen: Option<i64>,
}

/// All sequences of `depth` things. Without `compared` masters do not say what their clocks show.
pub fn walk(depth: u8, compared: bool) -> anyhow::Result<Walked> {
    let name: GeneratorName = "seq".parse()?;
    let allocator = Allocator::new(2, BootMs(0));
    let (under, heard) = ([Under::Nothing; 2], [None; 2]);
    let world = World { allocator, at: 0, clock: 0, under, heard, sent: None, unseen: None };
    let mut walked = Walked::default();
    further(&world, depth, &name, compared, &mut walked);
    Ok(walked)
}

fn further(world: &World, depth: u8, name: &GeneratorName, compared: bool, walked: &mut Walked) {
    if depth == 0 {
        walked.sequences += 1;
        return;
    }
    let mut go = |next: World| {
        walked.served_past += u64::from(next.serves_past(name));
        further(&next, depth - 1, name, compared, walked);
    };
    go(World { at: world.at + TICK, clock: world.clock + TICK * SLOW / 100, ..world.clone() });
    let at = world.at + STILL;
    go(World { at, unseen: world.has_asked().then_some(at), ..world.clone() });
    let mut seen = 0;
    for (link, under) in world.under.into_iter().enumerate() {
        let mut next = world.clone();
        let now = BootMs(world.clock);
        match under {
            Under::Nothing => next.put(link, Under::Asked(world.at, now)),
            Under::Asked(sent, asked) => next.put(link, Under::Answered(sent, asked, world.at)),
            Under::Answered(sent, asked, read) => {
                next.put(link, Under::Nothing);
                seen += u64::from(next.hear(name, link, (sent, asked, read), compared));
            }
        }
        go(next);
    }
    walked.seen += seen;
}

impl World {
    fn put(&mut self, link: usize, under: Under) {
        self.under.iter_mut().skip(link).take(1).for_each(|place| *place = under);
    }

    fn has_asked(&self) -> bool {
        self.sent.is_some() || self.under.iter().any(|under| !matches!(under, Under::Nothing))
    }

    /// An answer comes. Whether it can show that the machine stood still.
    fn hear(
        &mut self,
        name: &GeneratorName,
        link: usize,
        (sent, asked, read): (i64, BootMs, i64),
        compared: bool,
    ) -> bool {
        let (from, to, g) = (Section(0), Section(1), Generation(1));
        let sections = vec![HeldSections { name: name.clone(), from, to, g }];
        let boot = BootMs(if compared { read * FAST / 100 } else { 0 });
        let run = MasterRun(link as u128);
        let reply = KeepReply { lease_ms: LEASE as u32, run, boot, sections, more: false };
        let received = BootMs(self.clock);
        // That it is not taken is just what is tried.
        let taken = self.allocator.handle(received, link, &Kept { sent: asked, received, reply });
        let before = self.heard.get(link).copied().flatten();
        let shows = self.unseen.is_some_and(|still| before.is_some_and(|before| before < still) && read >= still);
        if shows {
            self.unseen = None;
        }
        self.heard.iter_mut().skip(link).take(1).for_each(|heard| *heard = (*heard).max(Some(read)));
        if taken.is_ok() || !compared {
            self.sent = self.sent.max(Some(sent));
        }
        shows
    }

    fn serves_past(&self, name: &GeneratorName) -> bool {
        let held = self.allocator.held(name);
        let serves =
            held.is_some_and(|held| matches!(held.ownership(Section(0), BootMs(self.clock)), Ownership::Served(_)));
        serves && self.unseen.is_none() && self.sent.is_none_or(|sent| self.at - sent > LONGEST)
    }
}
