//! Every state that two masters can come into, within bounds.
//!
//! The product itself is walked: each step opens a [`ledger::Ledger`] from what a master's disk holds and
//! gives it one event, and the next state's disk is what its writes left. After each step ledger and disk are compared, so
//! nothing can be believed that a crash would take away.
//!
//! # What can happen
//!
//! Agents ask, renew and give back at any master, by any of the bounds' instants on its calendar. All messages ever sent may
//! arrive at any time, again and again, or never, at whoever bears the name it is for. Any master may crash and start
//! again. An operator may declare a master lost that lives on, with its disk and its messages, and let a new one join in three
//! steps with anything in between. Somebody may copy a disk, or both at one moment, and put the copies back later, in the same boot too: a
//! start without proven lineage. Where both were put back, agents show what they hold before anybody is granted anything, as the quiet time
//! gives them to.
//! A master's folder may be copied, and the copy started beside it. Where greetings are part of the state (`greetings`), each
//! start is a life of its own, and all that is said names the life in which it was said: it arrives whenever, whoever greets
//! meanwhile, or never greets again, and the product's own rule says whether it is believed; where it is not, its sender is asked
//! to greet. The copy meets the other master like any other: each new connection begins with what the two say of their starts,
//! all of it or only the first frames; the other master's connection leads to the copy or to the original, and what it sends
//! reaches nobody else. A replaced master may greet the survivor, from whatever address, and is answered on that connection.
//!
//! # What was left out, and why that hides nothing
//!
//! * *Silence, the clock of the machine, and greetings except those of copies and replaced masters.* A master is alone or serves
//!   everything. One that is silent for a while can do less than one that is not, so it is not told apart; the way from alone to
//!   serving everything is the product's: a page of the other's table that was cut since the start.
//! * *Answers to requests that wait.* A request that is made again gets the same answer from the same record.
//! * *What makes a master more careful*: skewed or old clocks, the other's LSN, the count of renewals, the budget of a name,
//!   the share of a network. Each only refuses, so that a forgotten clock can do nothing that is not tried here: any calendar at
//!   any step.
//! * *Greetings that come late.* One of them alone is answered with a number, and stops nobody until it comes again with it; what
//!   a late one says of starts only grows.
//! * *Messages of a life before the disk was put back*, pages of its table too: the connection ended with the process, and the
//!   greeting of its next life begins another exchange. A disk that is put back is a twin here: noticing it is what the LSN is for.
//! * *Asking for a value of the other's* is what an agent's own request at the other does.
//! * *What is for people*: addresses, when a lease was last renewed.
//! * *When messages arrive*, except a permit: nothing else looks at the clock (a test shows that the states are the same).
//! * *Messages that can change nothing any more* (`inert`): records only grow. A closing or a proposal of an older grant is
//!   counted among it; its answer would only repeat a record that its own change had sent.
//! * *The first meeting, settings, audit* have no part in promises.
//!
//! # Where it does not hold
//!
//! * *A survivor's disk that is put back to before the other was declared lost*, while that one lives: both are in a pairing that
//!   is over, and nobody tells them before one of them hears of the replacement. So no disk is put back after that, but to what it held
//!   while it awaited its replacement (`awaiting`).
//! * *A survivor that is put back to that and cannot be reached by who has joined*: nobody knows better than it, and its used token admits
//!   another one. So it is reached before anything else happens.

mod action;
mod disk;
mod greetings;
mod heal;
mod inert;
mod masters;
mod twins;
mod world;

pub use action::Action;
pub(crate) use disk::heartbeat;
pub use greetings::GREETINGS_MAX;
pub(crate) use heal::Pair;
pub use masters::{ANSWERED, BOTH_KNOW, COVERED, DISJOINT, HEALS, Masters, SOUND, WHAT_HOLDS};
pub use twins::Twin;
pub use world::World;

use common::attachment::Attachment;
use common::parameters::MasterId;

/// Tells whether a store counts as the one that was last written whose volume was detached, put back and attached anew within one boot: by the
/// number of its disk alone, as the product compares it, because all else that the kernel shows of it is as it was.
pub(crate) fn stays_proven(compared: bool) -> bool {
    let [then, now] = [25, 27].map(|disk| Attachment { disk: Some(disk), mount: None });
    !compared || then.stayed(&now)
}

/// The bounds of a model.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Token values: the first is at home with master 2, the second with master 1.
    pub values: u16,
    /// Sessions that ask, each of an agent of its own.
    pub sessions: u8,
    /// The number of times that a value is granted.
    pub generations: u64,
    /// The time that a grant or a renewal reaches, in days.
    pub lease_days: u8,
    /// Days, noon of which a calendar may say at any step.
    pub days: &'static [i64],
    /// Days, noon of which it may say when the other master's permit arrives; empty where nobody is replaced.
    pub heartbeat_days: &'static [i64],
    /// Until noon of which day each master lets the other go on alone at the beginning.
    pub permit_until_day: i64,
    /// The masters that are declared lost, one after the other, while they live on.
    pub lost: &'static [MasterId],
    /// The master whose disk is put back, once, to any state it was in, without the other one noticing it by the number of changes.
    pub put_back: Option<MasterId>,
    /// Tells whether that disk is a survivor's, and put back, once its replacement has joined, to any state in which it awaited that: within one
    /// boot, so that it looks untouched.
    pub awaiting: bool,
    /// True if both disks are put back, once, to any state they were in together.
    pub revert: bool,
    /// A master whose folder may be copied once, and the copy started beside it. The copy hears the messages that are for the
    /// master of its name, and agents ask it. Where greetings are no part of the state, it exchanges no tables.
    pub copied: Option<MasterId>,
    /// The number of restarts, if greetings are part of the state: those of a copy, of its original and of the other master, and those of
    /// a replaced master to the survivor.
    pub greetings: Option<u8>,
    /// True if agents give back.
    pub release: bool,
    /// Frames in flight.
    pub messages_max: usize,
    /// All messages are received at every instant, not only what looks at the clock.
    pub every_clock: bool,
    /// Keeps even messages that can change nothing any more.
    pub keep_inert_messages: bool,
    /// In one state out of this many it is tried whether all heals; 0: in none.
    pub heal_every: u64,
    /// Mechanisms that are taken away.
    pub twins: Vec<Twin>,
}
