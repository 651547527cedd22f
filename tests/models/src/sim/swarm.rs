//! The character of a seed: how large the cluster, how bad the world.

use super::Setup;
use super::kind::Kind;
use super::rng::Rng;
use common::calendar::UtcOffset;
use common::namespace::{Definition, Namespace, SequenceSpec};
use common::parameters::ClusterParameters;
use common::time::{DAY_MS, HOUR_MS, SpanMs};
use std::fmt;
use std::str::FromStr;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$vdoc])* $variant),* }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its word.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.word())
            }
        }

        impl FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|v| v.word() == text).ok_or_else(|| {
                    let all: Vec<_> = Self::ALL.iter().map(|v| v.word()).collect();
                    format!("'{text}' is none of {}", all.join(", "))
                })
            }
        }
    };
}

pub(super) use words;

words! {
    /// A fault that can happen to a cluster.
    Fault {
        /// A master dies and is started again.
        MasterCrash = "master-crash",
        /// A master's next commit fails, with or without effect; it dies of that.
        CommitFails = "commit-fails",
        /// Both masters die.
        BothCrash = "both-crash",
        /// The masters cannot reach each other, or one not the other.
        PeerCut = "peer-cut",
        /// An agent and a master cannot reach each other, or one not the other.
        AgentCut = "agent-cut",
        /// A master's calendar is set wrong.
        MasterClock = "master-clock",
        /// A master stands still.
        MasterPause = "master-pause",
        /// A master's disk is lost, or believed to be, and it is replaced.
        DiskLost = "disk-lost",
        /// A master's store is put back from a backup.
        RolledBack = "rolled-back",
        /// At the next step of one kind that a master takes, it dies, the two are cut apart, or one of them is lost.
        AtAStep = "at-a-step",
        /// An agent is killed and started again.
        AgentKill = "agent-kill",
        /// An agent dies right after it has given out IDs, and is soon there again.
        DyingMint = "dying-mint",
        /// An agent is stopped properly and started again.
        AgentStop = "agent-stop",
        /// Something happens at one step of the agent's next write.
        AgentWrite = "agent-write",
        /// An agent's machine boots anew.
        AgentReboot = "agent-reboot",
        /// An agent's calendar is set wrong.
        AgentClock = "agent-clock",
        /// An agent stands still.
        AgentPause = "agent-pause",
        /// The folder of an agent is copied and an agent started on the copy, beside the other.
        FolderCopy = "folder-copy",
        /// The disk of an agent is cloned, and a machine started from it.
        ImageClone = "image-clone",
        /// The serial file, its lineage or both are put back from a backup.
        Restore = "restore",
        /// The serial file is deleted and formatted anew.
        Format = "format",
        /// The serial file of a running agent is touched.
        Touch = "touch",
        /// An agent gives its lease back, and goes on with it.
        Release = "release",
        /// Fresh agents ask for tokens, each under a name of its own, all from one address.
        Flood = "flood",
        /// The calendars of both masters are set wrong at once and alike, by minutes to months.
        BothCalendars = "both-calendars",
        /// A master's data directory is copied, and a master started on the copy, which reaches agents and no master.
        MasterCopy = "master-copy",
        /// The same, in the place of the master, which runs on.
        MasterTwin = "master-twin",
        /// A master's machine boots anew, or its data directory is moved: its store is not proven to be the one it last wrote.
        MasterReboot = "master-reboot",
        /// A master's store is put back from a backup of which the other has perhaps seen no more.
        DiskPutBack = "disk-put-back",
        /// Both masters' stores are put back to what they were at one instant.
        PairReverted = "pair-reverted",
    }
}

/// Some kinds of faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults(u64);

impl Faults {
    /// None.
    pub const NONE: Self = Self(0);

    /// Tells whether this one is among them.
    pub fn has(self, fault: Fault) -> bool {
        self.0 >> fault as u32 & 1 == 1
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = Fault::ALL.iter().filter(|fault| self.has(**fault)).map(|fault| fault.word()).collect();
        f.write_str(&words.join("+"))
    }
}

impl FromStr for Faults {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let words = text.split('+').filter(|word| !word.is_empty() && *word != "none");
        words
            .map(str::parse)
            .try_fold(Self::NONE, |faults, fault: Result<Fault, String>| Ok(Self(faults.0 | 1 << fault? as u32)))
    }
}

words! {
    /// The theme that a seed is after.
    Theme {
        /// Nothing in particular.
        Any = "any",
        /// Masters that are lost at a step at which something is in doubt, and agents that live long enough to see it.
        Replaced = "replaced",
        /// Masters whose disk is put back.
        RolledBack = "rolled-back",
        /// Files that agents keep on their disks.
        Agents = "agents",
        /// Masters that are lost when the other one has just agreed that a lease is over; only where it is asked for.
        Ended = "ended",
        /// Masters that have forgotten: a disk that is put back, or both, or a copy; only where it is asked for.
        Forgotten = "forgotten",
        /// Numbers that come in ranges, and what befalls masters that hand them out; only where it is asked for.
        Ranges = "ranges",
    }
}

/// By these masters forget, or may have; then leases are lifted and granting stands still, which covers much else.
const FORGETTING: [Fault; 6] = [
    Fault::MasterCopy,
    Fault::MasterTwin,
    Fault::MasterReboot,
    Fault::DiskPutBack,
    Fault::PairReverted,
    Fault::BothCalendars,
];

/// Tells the chance of ranges from all other.
const RANGES: u64 = 0x7261_6e67_6573;

impl Theme {
    fn weigh(self, weights: &mut [u32]) {
        let mut set = |faults: &[Fault], weight| faults.iter().for_each(|fault| weights[*fault as usize] = weight);
        match self {
            Self::Any => {}
            Self::Replaced => {
                set(&FORGETTING, 0);
                set(&[Fault::Flood], 0);
                set(&[Fault::Restore, Fault::Touch, Fault::DiskLost, Fault::RolledBack], 0);
                set(&[Fault::AgentReboot, Fault::Format], 2);
                set(&[Fault::AtAStep], 60);
                set(&[Fault::MasterClock], 30);
            }
            Self::RolledBack => {
                set(&[Fault::DiskLost], 0);
                set(&[Fault::PairReverted], 0);
                set(&[Fault::RolledBack, Fault::MasterCopy, Fault::DiskPutBack, Fault::MasterReboot], 30);
                set(&[Fault::AtAStep], 60);
            }
            Self::Agents => {
                set(&[Fault::DyingMint], 60);
                set(&[Fault::AgentClock, Fault::Format], 20);
            }
            Self::Forgotten => {
                set(
                    &[
                        Fault::DiskLost,
                        Fault::RolledBack,
                        Fault::Restore,
                        Fault::Touch,
                        Fault::Flood,
                        Fault::BothCalendars,
                    ],
                    0,
                );
                set(&[Fault::AgentReboot, Fault::Format, Fault::Release, Fault::FolderCopy], 2);
                set(&[Fault::MasterReboot, Fault::DiskPutBack, Fault::PairReverted, Fault::MasterTwin], 20);
                set(&[Fault::PeerCut, Fault::AgentCut, Fault::AtAStep], 40);
            }
            Self::Ranges => {
                set(&[Fault::Flood, Fault::BothCalendars, Fault::PairReverted, Fault::RolledBack], 0);
                set(&[Fault::MasterCrash, Fault::PeerCut, Fault::AtAStep, Fault::DiskPutBack], 40);
                set(&[Fault::DiskLost], 5);
                set(&[Fault::CommitFails, Fault::AgentKill, Fault::AgentWrite, Fault::DyingMint], 30);
                set(&[Fault::Restore, Fault::FolderCopy], 10);
            }
            Self::Ended => {
                set(&[Fault::DiskLost, Fault::RolledBack, Fault::Restore, Fault::Touch], 0);
                set(&FORGETTING, 0);
                set(&[Fault::Flood], 0);
                set(&[Fault::AgentReboot, Fault::Format, Fault::Release], 2);
                // A calendar that is days ahead is followed, and ends leases, from a start on.
                set(&[Fault::AtAStep, Fault::MasterClock, Fault::MasterCrash], 60);
            }
        }
    }
}

/// The nature of one seed.
#[derive(Clone, Debug)]
pub struct Swarm {
    /// The cluster's parameters.
    pub parameters: ClusterParameters,
    /// Agents at the beginning.
    pub agents: usize,
    /// Between an agent's renewals.
    pub renew: SpanMs,
    /// Between an agent's minting.
    pub mint: i64,
    /// Between two heartbeats of masters while nothing changes.
    pub idle_beat: i64,
    /// Messages that are lost.
    pub loss: f64,
    /// Messages that come twice.
    pub doubled: f64,
    /// Messages of which a copy is kept and delivered later.
    pub stored: f64,
    /// The longest time by which they are late.
    pub stored_max: i64,
    /// Outages that may last as long as ever any.
    pub long_outages: f64,
    /// The longest time that the others last.
    pub outage_max: i64,
    /// Between two faults, on the mean.
    pub fault_gap: i64,
    /// The weight of each fault in the choice.
    pub weights: Vec<u32>,
    /// The theme that it is after.
    pub theme: Theme,
    /// Masters that are replaced at most. Each time all leases are lengthened by a month, so most seeds have few.
    pub replacements_max: usize,
    /// Kinds that agents mint beside Uniq96.
    pub kinds: Vec<Kind>,
    /// True if both masters' calendars may be wrong at a time.
    pub both_clocks: bool,
    /// True if a reboot does not end a session; then nothing is cloned.
    pub resume_after_reboot: bool,
    /// True if agents show which sessions they give up. Where they do, fewer leases run on without anybody who has them.
    pub gives_up: bool,
    /// True if agents lease tokens of types that are parts of each other.
    pub mixed_tokens: bool,
    /// Numbers that come in ranges.
    pub ranges: Ranges,
}

/// The part of a seed that is of numbers which come in ranges.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    /// Names that the masters hold from the beginning.
    pub names: Vec<Namespace>,
    /// The one of them with a sequence for each key.
    pub sequences: Option<Namespace>,
    /// Agents that serve it.
    pub allocators: usize,
}

/// A name with a sequence for each key: small sections, and bounds that are raised every few numbers.
fn sequences(step: u32, allowance: u64) -> Namespace {
    let definition = Definition::Sequence(SequenceSpec {
        step: Some(step),
        keys_per_section: Some(4),
        solo_allowance: Some(allowance),
        ..SequenceSpec::default()
    });
    Namespace::define("keys".parse().expect("a name"), &definition).expect("a definition")
}

impl Ranges {
    /// Chance of its own, so that the rest of a seed does not depend on it.
    fn draw(seed: u64, theme: Theme) -> (Self, Option<Kind>) {
        let mut rng = Rng::new(seed ^ RANGES);
        let all = theme == Theme::Ranges;
        let (step, growth) = (rng.magnitude(4, 1_000) as u32, rng.magnitude(1, 20) as u32);
        let spread = [(1, 0), (1, 0), (2, 1), (1_000, 7)][rng.below(4)];
        let plain = Kind::plain(step, step * growth, spread);
        let plain = (rng.chance(0.6) || all).then_some(plain);
        let step = rng.magnitude(1, 30) as u32;
        let allowance = u64::from(step) * rng.magnitude(2, if all { 6 } else { 60 }) as u64;
        let sequences = rng.chance(0.6) || all;
        // With as much sections are loaded together.
        let allowance = if rng.chance(0.4) { allowance * 64 } else { allowance };
        let sequences = sequences.then(|| self::sequences(step, allowance));
        let names = plain.iter().map(|kind| kind.namespace.clone()).chain(sequences.clone()).collect();
        (Self { names, sequences, allocators: rng.range(2, 4) as usize }, plain)
    }
}

impl Swarm {
    /// Draws it; what it is after may be given, and kinds of faults that are wanted, or not.
    pub fn draw(rng: &mut Rng, setup: &Setup) -> Self {
        let lease_days = [1, 1, 2, 3, 5, 7][rng.below(6)];
        // With the last one there are values that not every type has.
        let uint2_max = [3, 5, 7, 9, 15, 37][rng.below(6)];
        let offset = UtcOffset::from_minutes([0, 0, 480, -210, 765][rng.below(5)]).expect("an offset");
        let parameters = ClusterParameters::new(lease_days, offset, uint2_max).expect("parameters");
        let resume_after_reboot = rng.chance(0.2);
        let mut weights: Vec<u32> = Fault::ALL
            .iter()
            .map(|fault| if rng.chance(0.3) { 0 } else { rng.magnitude(1, usual(*fault)) as u32 })
            .collect();
        if resume_after_reboot {
            weights[Fault::ImageClone as usize] = 0;
        }
        let drawn = Theme::ALL[[0, 0, 1, 2, 3][rng.below(5)]];
        let theme = setup.theme.unwrap_or(drawn);
        theme.weigh(&mut weights);
        // Of these each holds up all that is granted for days or weeks, during which hardly anything else matters.
        for (fault, seeds) in [(Fault::Flood, 0.5), (Fault::BothCalendars, 0.5), (Fault::PairReverted, 0.3)] {
            if !rng.chance(seeds) && theme != Theme::Forgotten {
                weights[fault as usize] = 0;
            }
        }
        // What both promised by wrong calendars and have forgotten may reach further than any floor.
        let reverts = weights[Fault::PairReverted as usize] > 0;
        if reverts {
            weights[Fault::BothCalendars as usize] = 0;
        }
        weights[Fault::AgentKill as usize] += 5;
        for fault in Fault::ALL {
            if setup.without.has(*fault) {
                weights[*fault as usize] = 0;
            }
        }
        let (ranges, plain) = if setup.ranges { Ranges::draw(setup.seed, theme) } else { (Ranges::default(), None) };
        let rate = |rng: &mut Rng, max: f64| if rng.chance(0.3) { 0.0 } else { rng.unit() * rng.unit() * max };
        Self {
            parameters,
            agents: rng.range(6, 12) as usize,
            renew: SpanMs(parameters.lease().0 / rng.range(4, 8)),
            mint: rng.range(2, 12) * HOUR_MS,
            idle_beat: rng.range(20, 90) * 60_000,
            loss: rate(rng, 0.3),
            doubled: rate(rng, 0.5),
            stored: rate(rng, 0.05),
            stored_max: rng.magnitude(1_000, 40 * DAY_MS),
            long_outages: rng.unit() * rng.unit() * 0.3,
            outage_max: rng.magnitude(60_000, 12 * HOUR_MS),
            fault_gap: DAY_MS / rng.range(20, 60),
            weights,
            theme,
            replacements_max: match theme {
                // What that costs of leases does not matter there.
                Theme::Ranges => rng.range(10, 60) as usize,
                Theme::Replaced | Theme::Ended | Theme::Forgotten => rng.range(1, 3) as usize,
                _ => [0, 0, 1, 1, 2, 3, 8][rng.below(7)],
            },
            kinds: [Kind::uniq64(), Kind::strings(rng.range(2, 6) as usize, rng.chance(0.6))]
                .into_iter()
                // Not drawn, as below: each of four layouts in one seed of twenty.
                .chain((setup.seed % 5 == 3).then(|| Kind::layouts(setup.seed as usize / 5 % 4)).into_iter().flatten())
                // In one of twenty-five, of those that have none of the former.
                .chain((setup.seed % 25 == 9).then(|| Kind::long_ticks(setup.seed as usize / 25 % 4)))
                .chain(plain)
                .map(|kind| kind.bent(setup.mutations))
                .collect(),
            both_clocks: rng.chance(0.25) && !reverts,
            resume_after_reboot,
            // Not drawn, so that the rest of a seed does not depend on it.
            mixed_tokens: setup.seed % 4 == 1,
            gives_up: !setup.seed.is_multiple_of(2) || setup.seed.is_multiple_of(9),
            ranges,
        }
    }

    /// A kind of fault.
    pub fn fault(&self, rng: &mut Rng) -> Fault {
        let sum: u32 = self.weights.iter().sum();
        let mut pick = rng.below(sum as usize) as u32;
        for (fault, weight) in Fault::ALL.iter().zip(&self.weights) {
            if pick < *weight {
                return *fault;
            }
            pick -= weight;
        }
        Fault::AgentKill
    }
}

/// The greatest weight of a fault: those that cost a token are rarer, or the pool would always be empty.
fn usual(fault: Fault) -> i64 {
    match fault {
        Fault::AgentKill
        | Fault::AgentStop
        | Fault::DyingMint
        | Fault::AgentWrite
        | Fault::AgentCut
        | Fault::AgentClock => 60,
        Fault::MasterCrash | Fault::CommitFails | Fault::PeerCut => 40,
        Fault::BothCrash | Fault::MasterClock | Fault::MasterPause | Fault::AgentPause => 20,
        Fault::DiskLost | Fault::RolledBack => 6,
        Fault::AtAStep => 15,
        Fault::AgentReboot | Fault::FolderCopy | Fault::ImageClone | Fault::Restore => 30,
        Fault::Format | Fault::Touch | Fault::Release => 20,
        Fault::Flood => 2,
        Fault::BothCalendars => 6,
        Fault::MasterCopy => 4,
        Fault::MasterTwin => 2,
        Fault::MasterReboot => 10,
        Fault::DiskPutBack | Fault::PairReverted => 4,
    }
}
