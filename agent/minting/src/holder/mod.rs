//! The lessee's machine: which tokens this agent wants, holds, renews and loses.
//!
//! It decides and does nothing else. The shell asks [`Holder::next`] what to do, does it, and tells
//! [`Holder::handle`] what came of it; time and random numbers come in as arguments. For each wanted type a lease is
//! *wanted* (asked for again and again), *held* (renewed every interval) or *expired* (its time is over: asked for
//! again).
//!
//! What it guarantees: a renewal that is tried again carries the number and mark it had the first time, so that two
//! live copies of one agent give themselves away; a new renewal carries a higher number, which the shell makes durable
//! first; a lease that a master declared over is not used any more; after a jump of the clock no lease counts until
//! it was renewed.

mod view;

pub use view::{
    Confirmation, LeaseView, Leases, confirmation, grants, is_any_taken_away, suspend, usable_before_durable,
};

use ids::lease::{Generation, Grant, Receipt};
use ids::parameters::ClusterParameters;
use ids::time::{BootMs, Now, SECOND_MS, SpanMs, WallMs};
use ids::token::{TokenKey, TokenType};
use std::collections::{BTreeMap, BTreeSet};

/// Between two heartbeats while nothing else is to be said.
pub const HEARTBEAT_INTERVAL: SpanMs = SpanMs::seconds(60);
/// Between attempts while there is something to wait for that stops minting: the shortest and the longest pause.
pub const URGENT_RETRY: (SpanMs, SpanMs) = (SpanMs(SECOND_MS / 4), SpanMs::seconds(2));
/// Between two heartbeats while the masters' clocks say that ours is wrong: minting goes on as soon as they agree.
pub const SKEWED_INTERVAL: SpanMs = SpanMs::seconds(5);
/// Between attempts at a renewal, which has days of time.
pub const RENEW_RETRY: (SpanMs, SpanMs) = (SpanMs::seconds(5), SpanMs::seconds(300));
/// Between attempts at a heartbeat.
pub const HEARTBEAT_RETRY: (SpanMs, SpanMs) = (SpanMs::seconds(1), SpanMs::seconds(30));
/// After this long on a new connection what is held is renewed, and its receipts are shown.
pub const SHOW_WITHIN: SpanMs = SpanMs::seconds(1);
/// Before asking again when the masters said that only time will help.
pub const PATIENT_RETRY: SpanMs = SpanMs::seconds(5);
/// Intervals and pauses vary by this much either way, so that agents started together do not stay in step.
pub const JITTER_PERCENT: i64 = 10;

/// The number and the mark of one renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Renewal {
    /// Grows by one with each new renewal.
    pub rseq: u64,
    /// Random.
    pub attempt: u64,
}

/// A command to the shell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Command {
    /// Say that we are alive.
    Heartbeat,
    /// Ask for a token.
    Request(TokenType),
    /// Renew a lease, once its number is durable.
    Renew {
        token_type: TokenType,
        /// The token.
        key: TokenKey,
        /// The number of its grant.
        g: Generation,
        /// The number and the mark.
        renewal: Renewal,
    },
}

/// The next command, or the time until which there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Now.
    Do(Command),
    /// Nothing before this moment.
    Wait(BootMs),
}

/// An event that the shell tells of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A master answered a heartbeat.
    HeartbeatAnswered,
    /// No master did.
    HeartbeatFailed,
    /// A master granted a lease, and it is durable here.
    Granted(Grant),
    /// The masters did not grant one.
    NotGranted {
        /// The type that was asked for.
        token_type: TokenType,
        /// True if only time will help.
        patient: bool,
    },
    /// A master renewed a lease.
    Renewed {
        /// The token.
        key: TokenKey,
        /// The number of its grant.
        g: Generation,
        /// Its new end.
        until: WallMs,
        /// The master's word for it.
        receipt: Option<Receipt>,
    },
    /// No master said anything about the renewal.
    NotRenewed {
        /// The token.
        key: TokenKey,
        /// The number of its grant.
        g: Generation,
    },
    /// A master declared a lease over: ended, denied, or another session's.
    Ended {
        /// The token.
        key: TokenKey,
        /// The number of its grant.
        g: Generation,
    },
    /// A new connection to a master stands.
    Connected,
    /// The calendar was stepped against the machine's time.
    ClockJumped,
    /// A heartbeat was answered, and the masters' calendar is too far from ours to mint.
    ClockSkewed,
}

/// The use that may be made of a lease that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Usable {
    Yes,
    /// A session that was resumed: when it was renewed, or after a moment.
    Resumed,
    /// The clock jumped: when it was renewed.
    AfterRenewal,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Wanted,
    Held {
        grant: Grant,
        /// The renewal that is under way and unanswered.
        renewal: Option<Renewal>,
        usable: Usable,
    },
    Expired(Grant),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Slot {
    phase: Phase,
    due: BootMs,
    failures: u32,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    slots: BTreeMap<TokenType, Slot>,
    rseq: u64,
    renew_interval: SpanMs,
    heartbeat_due: BootMs,
    heartbeat_failures: u32,
}

impl Holder {
    /// A holder that wants a lease of each of `wanted` and goes on with those of them that it already has.
    /// `rseq` is the durable number of its newest renewal. Held leases are renewed at once.
    pub fn new(wanted: &BTreeSet<TokenType>, held: &[Grant], rseq: u64, renew_interval: SpanMs, now: Now) -> Self {
        let slot = |token_type: &TokenType| {
            let grant = held.iter().find(|grant| grant.token_type == *token_type).cloned();
            let phase = grant.map_or(Phase::Wanted, |grant| Phase::Held { grant, renewal: None, usable: Usable::Yes });
            (*token_type, Slot { phase, due: now.boot, failures: 0 })
        };
        let slots = wanted.iter().map(slot).collect();
        Self { slots, rseq, renew_interval, heartbeat_due: now.boot, heartbeat_failures: 0 }
    }

    /// Those of the held leases that nobody told it to want, but a name that was served needs: to be wanted as well.
    pub fn demanded_before(wanted: &BTreeSet<TokenType>, held: &[Grant]) -> BTreeSet<TokenType> {
        let types = held.iter().map(|grant| grant.token_type);
        types.filter(|kind| kind.is_on_demand() && !wanted.contains(kind)).collect()
    }

    /// Wants a lease of a further type from now on.
    pub fn want(&mut self, token_type: TokenType, now: Now) {
        self.slots.entry(token_type).or_insert(Slot { phase: Phase::Wanted, due: now.boot, failures: 0 });
    }

    /// The same for a session that was resumed: a second copy of its serial file may have been resumed elsewhere, and the
    /// renewal with which each begins is what tells the masters.
    #[must_use]
    pub fn resumed(mut self) -> Self {
        for slot in self.slots.values_mut() {
            if let Phase::Held { usable, .. } = &mut slot.phase {
                *usable = Usable::Resumed;
            }
        }
        self
    }

    /// Gives the next command, or the time until which there is none. `dice` is a random number; it becomes the mark of a new renewal.
    pub fn next(&mut self, now: Now, dice: u64) -> Next {
        self.expire(now);
        let first = self.slots.iter().min_by_key(|(_, slot)| slot.due).map(|(t, slot)| (slot.due, *t));
        let (due, token_type) = match first {
            Some((due, token_type)) if due <= self.heartbeat_due => (due, Some(token_type)),
            _ => (self.heartbeat_due, None),
        };
        if due > now.boot {
            return Next::Wait(due.min(self.next_expiry(now)));
        }
        Next::Do(token_type.map_or(Command::Heartbeat, |token_type| self.command(token_type, dice)))
    }

    fn command(&mut self, token_type: TokenType, dice: u64) -> Command {
        let Some(Slot { phase: Phase::Held { grant, renewal, .. }, .. }) = self.slots.get_mut(&token_type) else {
            return Command::Request(token_type);
        };
        let renewal = *renewal.get_or_insert_with(|| {
            self.rseq = self.rseq.saturating_add(1);
            Renewal { rseq: self.rseq, attempt: dice }
        });
        Command::Renew { token_type, key: grant.key, g: grant.g, renewal }
    }

    /// Leases whose time is over become expired ones, and a new one is asked for at once.
    fn expire(&mut self, now: Now) {
        for slot in self.slots.values_mut() {
            if let Phase::Held { grant, .. } = &slot.phase
                && now.wall >= grant.until
            {
                *slot = Slot { phase: Phase::Expired(grant.clone()), due: now.boot, failures: 0 };
            }
        }
    }

    fn next_expiry(&self, now: Now) -> BootMs {
        let ends = self.slots.values().filter_map(|slot| match &slot.phase {
            Phase::Held { grant, .. } => Some(now.boot + (grant.until - now.wall)),
            _ => None,
        });
        ends.min().unwrap_or(BootMs(i64::MAX))
    }

    /// Takes in what happened. `dice` is a random number that spreads the next attempts.
    pub fn handle(&mut self, now: Now, dice: u64, event: &Event) {
        match event {
            Event::HeartbeatAnswered => {
                self.heartbeat_failures = 0;
                self.heartbeat_due = now.boot + jittered(HEARTBEAT_INTERVAL, dice);
            }
            Event::HeartbeatFailed => {
                self.heartbeat_due = now.boot + pause(self.heartbeat_failures, HEARTBEAT_RETRY, dice);
                self.heartbeat_failures = self.heartbeat_failures.saturating_add(1);
            }
            Event::Granted(grant) => self.granted(now, dice, grant),
            Event::NotGranted { token_type, patient } => {
                if let Some(slot) = self.slots.get_mut(token_type) {
                    let bounds = if *patient { (PATIENT_RETRY, PATIENT_RETRY) } else { URGENT_RETRY };
                    let wait = pause(slot.failures, bounds, dice);
                    slot.put_off(now, wait);
                }
            }
            Event::Renewed { key, g, until, receipt } => self.renewed(now, dice, (*key, *g), *until, *receipt),
            Event::NotRenewed { key, g } => {
                if let Some(slot) = self.slot_of(*key, *g) {
                    let bounds = if slot.is_urgent() { URGENT_RETRY } else { RENEW_RETRY };
                    let wait = pause(slot.failures, bounds, dice);
                    slot.put_off(now, wait);
                }
            }
            Event::Ended { key, g } => {
                if let Some(slot) = self.slot_of(*key, *g) {
                    *slot = Slot { phase: Phase::Wanted, due: now.boot, failures: 0 };
                }
            }
            Event::Connected => self.show_soon(now, dice),
            Event::ClockJumped => {
                self.suspend_all(now);
                // What the masters' clocks say of the new time is to be known at once too.
                self.heartbeat_due = now.boot;
            }
            Event::ClockSkewed => self.heartbeat_due = now.boot + jittered(SKEWED_INTERVAL, dice),
        }
    }

    fn granted(&mut self, now: Now, dice: u64, grant: &Grant) {
        let Some(slot) = self.slots.get_mut(&grant.token_type) else { return };
        if now.wall >= grant.until {
            // The masters still know us by a lease whose time is over; they will end it and grant another one.
            slot.phase = Phase::Expired(grant.clone());
            slot.put_off(now, jittered(PATIENT_RETRY, dice));
            return;
        }
        let phase = Phase::Held { grant: grant.clone(), renewal: None, usable: Usable::Yes };
        // The masters wait for a sign that it arrived before they promise it for the whole time.
        let pause = if grant.is_unproved() { SpanMs(0) } else { jittered(self.renew_interval, dice) };
        *slot = Slot { phase, due: now.boot + pause, failures: 0 };
    }

    fn renewed(
        &mut self,
        now: Now,
        dice: u64,
        (key, g): (TokenKey, Generation),
        end: WallMs,
        receipt: Option<Receipt>,
    ) {
        let due = now.boot + jittered(self.renew_interval, dice);
        let Some(slot) = self.slot_of(key, g) else { return };
        if let Phase::Held { grant, renewal, usable } = &mut slot.phase {
            grant.until = grant.until.max(end);
            // The one that reaches furthest says most.
            grant.receipt = grant.receipt.into_iter().chain(receipt).max_by_key(|receipt| receipt.until);
            (*renewal, *usable) = (None, Usable::Yes);
            (slot.due, slot.failures) = (due, 0);
        }
        self.resume_all();
    }

    /// One renewal that was answered says of the whole session that no other copy of it was there before: all of them
    /// count their renewals in one row, and ask in the same order.
    fn resume_all(&mut self) {
        for slot in self.slots.values_mut() {
            if let Phase::Held { usable: usable @ Usable::Resumed, .. } = &mut slot.phase {
                *usable = Usable::Yes;
            }
        }
    }

    /// Has what is held renewed within moments, and with that its receipts shown.
    fn show_soon(&mut self, now: Now, dice: u64) {
        for slot in self.slots.values_mut() {
            if let Phase::Held { .. } = &slot.phase {
                slot.due = slot.due.min(now.boot + jittered(SHOW_WITHIN, dice));
            }
        }
    }

    /// The newest receipt for a lease that is held.
    pub fn receipt(&self, key: TokenKey, g: Generation) -> Option<Receipt> {
        self.slots.values().find_map(|slot| match &slot.phase {
            Phase::Held { grant, .. } if grant.key == key && grant.g == g => grant.receipt,
            _ => None,
        })
    }

    fn suspend_all(&mut self, now: Now) {
        for slot in self.slots.values_mut() {
            if let Phase::Held { usable, .. } = &mut slot.phase {
                *usable = Usable::AfterRenewal;
                (slot.due, slot.failures) = (now.boot, 0);
            }
        }
    }

    fn slot_of(&mut self, key: TokenKey, g: Generation) -> Option<&mut Slot> {
        self.slots.values_mut().find(|slot| match &slot.phase {
            Phase::Held { grant, .. } => grant.key == key && grant.g == g,
            _ => false,
        })
    }

    /// The leases as minting sees them.
    pub fn leases(&self) -> Leases {
        let view = |phase: &Phase| match phase {
            Phase::Wanted => LeaseView::Missing,
            Phase::Held { grant, usable, .. } => match usable {
                Usable::Yes => LeaseView::Held(grant.clone()),
                Usable::Resumed => LeaseView::Resumed(grant.clone()),
                Usable::AfterRenewal => LeaseView::Suspended(grant.clone()),
            },
            Phase::Expired(grant) => LeaseView::Expired(grant.clone()),
        };
        self.slots.iter().map(|(token_type, slot)| (*token_type, view(&slot.phase))).collect()
    }
}

impl Slot {
    /// Tells whether nothing of this type can be minted until a master does something.
    fn is_urgent(&self) -> bool {
        !matches!(self.phase, Phase::Held { usable: Usable::Yes, .. })
    }

    fn put_off(&mut self, now: Now, wait: SpanMs) {
        self.due = now.boot + wait;
        self.failures = self.failures.saturating_add(1);
    }
}

/// Tells whether a grant is one that `parameters` allow; a master that sends another one has a fault, and nothing may be minted
/// with it.
///
/// # Errors
/// The fault of it.
pub fn check_grant(grant: &Grant, wanted: TokenType, parameters: &ClusterParameters) -> Result<(), &'static str> {
    if grant.token_type != wanted || grant.key.family != wanted.family() {
        return Err("it is of another type");
    }
    if !wanted.admits(grant.key.value, parameters.uint2_max()) {
        return Err("the cluster has no such token");
    }
    if grant.from >= grant.until || parameters.utc_offset().day_floor(grant.from) != grant.from {
        return Err("its time is malformed");
    }
    Ok(())
}

/// The pause after so many failures: doubling, bounded, varied.
fn pause(failures: u32, (min, max): (SpanMs, SpanMs), dice: u64) -> SpanMs {
    let doubled = min.0.saturating_mul(1 << failures.min(20));
    jittered(SpanMs(doubled.min(max.0)), dice)
}

/// `span`, longer or shorter by up to [`JITTER_PERCENT`].
fn jittered(span: SpanMs, dice: u64) -> SpanMs {
    let reach = span.0 / 100 * JITTER_PERCENT;
    let roll = i64::try_from(dice % 2_001).unwrap_or(0) - 1_000;
    SpanMs(span.0.saturating_add(reach.saturating_mul(roll) / 1_000))
}

#[cfg(test)]
mod tests;
