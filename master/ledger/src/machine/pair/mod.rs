//! The agreement of two masters: each value has one home, which alone proposes its grant and its end, and the other confirms.
//!
//! The view that one master has of the other, and the rules by which they agree, lie below ([`crate::replication`]); here is what is done.

mod agree;
mod axes;
mod caution;
mod command;
mod condition;
mod end;
mod exchange;
mod grant;
mod greeting;
mod inbox;
mod join;
mod permit;
mod sections;
mod settings;

use super::state::{Asked, Ledger, RoutesAsked};
use crate::lease::calendar::{Calendar, Witnesses};
use crate::lease::cursor::Cursors;
use crate::lease::proposals::Proposals;
use crate::lease::table::Table;
use crate::lease::takings::Takings;
use crate::lease::{Effects, Identity, Lives, Loaded, PeerObservations, RequestId, Unproven, Write};
use crate::replication::pair::Pair;
use crate::replication::rules::{at_home, home};
use crate::section::Allocators;
use crate::setting::SettingsTable;
use ids::audit::Cause;
use ids::lease::{Lease, LeaseState};
use ids::namespace::GeneratorName;
use ids::segment::MasterRun;
use ids::setting::{Setting, SettingKey, SettingValue};
use ids::time::TestClock;
use ids::time::{BootMs, Now, SpanMs, WallMs};
use ids::token::TokenKey;
use sections::PairedSections;
use std::collections::{BTreeMap, BTreeSet};

/// Time for which allocators serve after they have asked for their sections, when nothing else is said (`--sequence-lease`).
pub(crate) const SEQUENCE_LEASE_DEFAULT: SpanMs = SpanMs::seconds(5);

/// State that a master of a pair keeps beside the records, to agree on them with the other one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pairwise {
    pair: Pair,
    /// Grants and ends that the other master has not confirmed, and the requests that wait for them, by what they asked for.
    grants: Proposals<TokenKey, (Asked, RequestId)>,
    /// Leases that operators ended, which the other master has not confirmed.
    commands: BTreeMap<RequestId, Command>,
    commanded: Proposals<RequestId, RequestId>,
    sections: PairedSections,
    /// The instant until which the other master may extend leases alone.
    permit_out: Option<WallMs>,
    observed: PeerObservations,
    /// Agents' calendars, while this master's is ahead of what it goes by.
    witnesses: Witnesses,
    lives: Lives,
    /// Drawn at this start.
    mark: u64,
    /// True if a run begins with this start.
    run_begins: bool,
    /// True once this start was written down.
    begun: bool,
    /// Runs before this one, and the axes of which they had something left.
    former_cursors: Vec<(MasterRun, GeneratorName)>,
    /// Time at which the other master was last told how much is used here.
    use_told_at: Option<BootMs>,
    /// The moment since which, in this run, agents have had time to show what they hold.
    quiet_since: BootMs,
}

/// The end of a lease, commanded here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Command {
    by: Option<Cause>,
    key: TokenKey,
    denied: Lease,
}

/// Random numbers that are drawn at a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Salt {
    pub mark: u64,
    /// The run, if one begins.
    pub run: MasterRun,
}

impl From<u64> for Salt {
    /// Makes a salt of a small number, for tests.
    fn from(mark: u64) -> Self {
        Self { mark, run: MasterRun(u128::from(mark) + 1) }
    }
}

/// The view that a master has of the other one at its start.
fn paired(now: Now, salt: u64, unproven: Option<Unproven>, is_rolled_back: bool) -> Pair {
    let mut pair = Pair::start(now, salt, unproven);
    if is_rolled_back {
        pair.roll_back();
    }
    pair
}

/// Trims what axes were raised above: that happens when it is settled, but not where `--peer-lost` settled it.
fn trimmed(mut cursors: Cursors, settings: &[Setting]) -> Cursors {
    for setting in settings {
        if let (SettingKey::Axis(name), SettingValue::Axis(axis)) = (&setting.key, &setting.value) {
            cursors.trim(name, axis.floor);
        }
    }
    cursors
}

impl Ledger<Pairwise> {
    /// The ledger of a master that starts now. `salt` is random: it tells this start, its exchange of tables, and the run that
    /// begins with it if its store is not proven, from others.
    pub fn start(
        loaded: Loaded,
        now: Now,
        salt: impl Into<Salt>,
        test_clock: Option<TestClock>,
        version: String,
    ) -> Self {
        let Salt { mark: salt, run: drawn } = salt.into();
        let Loaded {
            identity,
            lsn,
            permit_out,
            observed,
            lives,
            caution,
            leases,
            preps,
            settings,
            setting_preps,
            sections,
            section_preps,
            sections_cut,
            run: kept_run,
            cursors,
            ..
        } = loaded;
        // Only the untouched store goes on with its run: what another one may grant alone it may have granted already.
        let run = kept_run.filter(|_| loaded.proven.is_ok()).unwrap_or(drawn);
        let former_cursors = cursors.iter().map(|(of, name, _)| (*of, name.clone())).collect();
        let cursors = trimmed(Cursors::new(run, cursors), &settings);
        let (sections, in_parts) = sections::table_of(sections, section_preps);
        let pair = paired(now, salt, loaded.proven.err(), observed.rolled_back);
        Self {
            table: Table::new(at_home(identity.master), identity.parameters, leases, preps),
            low: BTreeSet::new(),
            look_at_pools_at: now.boot,
            allocators: Allocators::new(now.boot, SEQUENCE_LEASE_DEFAULT),
            settings_table: SettingsTable::new(settings, setting_preps),
            caution,
            cursors,
            axes_changed: BTreeSet::new(),
            segments: Proposals::default(),
            takings: Takings::default(),
            routes: RoutesAsked::default(),
            calendar: Calendar::start(now, observed.clock_high, test_clock.map_or(1, |test| test.scale.into())),
            lsn,
            test_clock,
            version,
            identity,
            agreement: Pairwise {
                pair,
                grants: Proposals::default(),
                commands: BTreeMap::new(),
                commanded: Proposals::default(),
                sections: PairedSections::new(&sections, in_parts, sections_cut),
                permit_out,
                observed,
                witnesses: Witnesses::default(),
                lives,
                mark: salt,
                run_begins: kept_run != Some(run),
                former_cursors,
                use_told_at: None,
                begun: false,
                quiet_since: now.boot,
            },
            sections,
        }
    }

    /// Takes this start as written down, for models, which open the ledger of a running master anew at each step.
    #[must_use]
    pub fn already_begun(mut self) -> Self {
        self.agreement.begun = true;
        self
    }

    /// The time at which [`Event::Tick`](crate::lease::Event::Tick) is due if nothing else happens.
    pub fn next_deadline(&self) -> BootMs {
        let beat = self.agreement.pair.next_beat();
        self.routes.waiting.values().next().map_or(beat, |asked| beat.min(asked.until))
    }

    /// Writes this start down: before anybody hears of it, like everything else.
    pub(crate) fn begin(&mut self, fx: &mut Effects) {
        if std::mem::replace(&mut self.agreement.begun, true) {
            return;
        }
        let mut lives = self.agreement.lives.clone();
        lives.begin(self.agreement.mark, self.agreement.pair.unproven().is_none());
        self.put_lives(lives, fx);
        if self.agreement.run_begins {
            self.drop_former_cursors(fx);
        }
        self.join_rows(fx);
        self.propose_first_admin(fx);
    }

    /// Tells whether a beat is due, which is then done.
    pub(crate) fn take_beat(&mut self, now: Now) -> bool {
        self.agreement.pair.take_beat(now)
    }

    fn drop_prep(&mut self, key: TokenKey, fx: &mut Effects) {
        fx.writes.push(Write::DropPrep(key));
        self.table.drop_prep(key);
        self.agreement.grants.over(&key);
    }

    fn put_identity(&mut self, identity: Identity, fx: &mut Effects) {
        fx.writes.push(Write::Identity(identity.clone()));
        self.identity = identity;
    }

    fn put_observed(&mut self, observed: PeerObservations, fx: &mut Effects) {
        if observed != self.agreement.observed {
            fx.writes.push(Write::PeerObservations(observed));
            self.agreement.observed = observed;
        }
    }

    fn put_lives(&mut self, lives: Lives, fx: &mut Effects) {
        if lives != self.agreement.lives {
            fx.writes.push(Write::Lives(lives.clone()));
            self.agreement.lives = lives;
        }
    }

    fn put_permit_out(&mut self, permit: Option<WallMs>, fx: &mut Effects) {
        fx.writes.push(Write::PermitOut(permit));
        self.agreement.permit_out = permit;
    }

    /// The instant until which this master allows the other to extend leases alone.
    pub fn permit_out(&self) -> Option<WallMs> {
        self.agreement.permit_out
    }

    pub fn observed(&self) -> &PeerObservations {
        &self.agreement.observed
    }

    pub fn lives(&self) -> &Lives {
        &self.agreement.lives
    }

    pub fn pair(&self) -> &Pair {
        &self.agreement.pair
    }

    /// Tells whether this start could not prove its store, and has not met the other master yet.
    fn unmet(&self) -> bool {
        self.agreement.pair.unproven().is_some()
    }

    /// Checks what must hold inside one master whatever was received, after each step of tests and simulations.
    ///
    /// # Errors
    /// The sentence that does not hold.
    pub fn check(&self) -> Result<(), String> {
        for prep in self.table.preps() {
            if home(prep.key) != self.identity.master {
                return Err(format!("a proposal of {} away from its home", prep.key));
            }
            if let Some(lease) = self.table.lease(prep.key)
                && (lease.state != LeaseState::Closed || lease.g >= prep.g)
            {
                return Err(format!("a proposal of {} beside an open grant", prep.key));
            }
        }
        for (key, lease) in self.table.leases() {
            if lease.from > lease.until {
                return Err(format!("the lease of {key} ends before it begins"));
            }
        }
        self.check_sections()
    }
}
