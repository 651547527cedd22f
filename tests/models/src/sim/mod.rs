//! Deterministic simulation: a whole cluster in one thread and in virtual time, for months in a fraction of a second.
//!
//! Masters are the real ledger on stores that outlive them; agents are the real holder, minting engine, time base, serial file,
//! allocator and sections. What carries them is simulated: network, clocks, operators, and disks down to the system call. A seed
//! decides everything: how large the cluster is, what it gives beside IDs with tokens, which faults it suffers and how often, and each
//! single event.
//!
//! A simulation has two phases. In the first, everything goes wrong and nothing may be minted twice; in the second all
//! is healed, and service must return ([`heal`]). The [`oracle`] sees every promise, every durable record and every ID.
//!
//! # What is thinned
//! A minute in which nothing changes would cost as much as an eventful one, so masters beat every half hour while
//! nothing changes, with their monotone clock standing still in between, and agents leave out heartbeats.
//!
//! # Numbers that come in ranges
//! Most seeds have a name whose numbers come in segments. Masters grant extents and segments through the same network, and agents keep
//! segments in the same files as their leases; every answer reaches the engine, doubled and late ones too ([`segments`]). The oracle
//! knows every extent, segment and place ([`numbers`]).
//!
//! Most have a name with a sequence for each key, too. Leases of its sections last seconds, so it lives in episodes of some minutes in
//! which masters beat every second ([`episode`]): clients ask for keys, operators move sections, and whatever befalls a cluster happens at once
//! and for short. Clocks of agents are up to a hundredth too fast or too slow, processes are stopped with questions in their
//! sockets or between clock and number ([`sections`]). Each number comes once, below a bound that was durable before, and is greater than
//! all that were answered before it was asked for. That order is excused only where a master that was replaced lives on and is believed, and
//! after both masters have forgotten.
//!
//! # What is left out
//! What two masters and a local file cannot prevent: a live copy of a process's memory, both masters declared lost by
//! two operators, a copy of a master's store that an operator vouches for, an agent's file lost in the moment in which both
//! masters' disks are put back. Where both are put back, or both lost, axes and sections are raised above all that was given before
//! either starts: nobody else knows how far that was.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "whatever does not hold in a simulation shall end it, with a seed that replays it"
)]

pub mod bend;
pub mod calls;
pub mod disk;
pub mod episode;
pub mod faults;
pub mod gate;
pub mod heal;
pub mod host;
pub mod kind;
pub mod master;
pub mod minter;
pub mod mutation;
pub mod net;
pub mod numbers;
pub mod operator;
pub mod oracle;
pub mod overlook;
pub mod plain;
pub mod queue;
pub mod ranges;
pub mod remedy;
pub mod rng;
pub mod sections;
pub mod segments;
pub mod shelf;
pub mod swarm;
pub mod views;
pub mod world;
pub mod written;

use common::time::{DAY_MS, HOUR_MS};
use mutation::Mutations;
use std::collections::BTreeMap;
use swarm::{Faults, Theme};
use world::{BEGIN, Event, World};

/// Days of the second phase at least.
pub const CONVERGE_DAYS: i64 = 10;

/// The outcome of one simulation.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Faults, by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Remedies of operators for masters, by kind.
    pub remedies: BTreeMap<&'static str, u64>,
    /// IDs and numbers that were given, by kind.
    pub given: BTreeMap<&'static str, u64>,
    /// IDs minted, and numbers given.
    pub ids: u64,
    /// IDs minted twice.
    pub duplicates: u64,
    /// Numbers of a key that were not greater than one that was answered before they were asked for.
    pub disorder: u64,
    /// Grants of a value that had another holder before.
    pub reuses: u64,
    /// Sentences that did not hold.
    pub violations: u64,
    /// Masters that are not ready at the end, and agents that do not mint, although there are tokens for them.
    pub stuck: u64,
    /// Descriptions of what went wrong.
    pub told: Vec<String>,
    /// Of the whole history.
    pub hash: u64,
    /// Events.
    pub events: u64,
}

impl Outcome {
    /// Tells whether everything held.
    pub fn fine(&self) -> bool {
        self.duplicates == 0 && self.disorder == 0 && self.violations == 0 && self.stuck == 0
    }

    /// All faults.
    pub fn fault_count(&self) -> u64 {
        self.faults.values().sum()
    }
}

/// The parameters of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The seed, which decides everything else.
    pub seed: u64,
    /// Days of faults; [`CONVERGE_DAYS`] of healing come after them.
    pub days: i64,
    /// Mechanisms that are left out of the protocol.
    pub mutations: Mutations,
    /// The theme that the seed is after; `None`: it decides itself.
    pub theme: Option<Theme>,
    /// Kinds of faults that do not happen.
    pub without: Faults,
    /// True if numbers that come in ranges are among what a seed may have.
    pub ranges: bool,
    /// True if everything that happens is told on standard error.
    pub trace: bool,
}

impl Setup {
    /// The product as it is.
    pub fn plain(seed: u64, days: i64) -> Self {
        Self { seed, days, mutations: Mutations::NONE, theme: None, without: Faults::NONE, ranges: true, trace: false }
    }
}

/// Runs one seed.
pub fn run(setup: &Setup) -> Outcome {
    let days = setup.days;
    let mut world = World::new(setup);
    world.tell(|| format!("{:?}", world.swarm));
    world.format_masters();
    world.begin();
    for agent in 0..world.swarm.agents {
        let id = format!("agent-{agent}").parse().expect("a name");
        let folder = disk::Folder::new(world.rng.next());
        world.add_host(id, folder, agent < world.swarm.ranges.allocators);
    }
    world.after(HOUR_MS, Event::Fault);
    world.after(HOUR_MS, Event::Operator);
    world.after(HOUR_MS, Event::Episode);
    world.run(BEGIN + days * DAY_MS);
    world.heal();
    let stuck = world.converge();
    let World { oracle, faults, remedies, hash, events, .. } = world;
    let given = oracle.given();
    Outcome {
        faults,
        remedies,
        ids: given.values().sum(),
        given,
        duplicates: oracle.duplicates,
        disorder: oracle.disorder,
        reuses: oracle.reuses,
        violations: oracle.violations,
        stuck: stuck.len() as u64,
        told: oracle.told.into_iter().chain(stuck).collect(),
        hash,
        events,
    }
}
