//! The ledger's state, and how it changes: each change in memory is a write, too.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::lease::calendar::Calendar;
use crate::lease::proposals::Proposals;
use crate::lease::rules;
use crate::lease::table::Table;
use crate::lease::{Effects, Identity, Limits, Lives, Loaded, PeerObservations, RequestId, Write};
use crate::replication::pair::Pair;
use crate::setting::SettingsTable;
use common::account::User;
use common::audit::{Actor, Cause};
use common::clock::TestClock;
use common::lease::{Caution, Lease, LeaseState, Prep};
use common::parameters::{AgentId, ClusterId, SessionId};
use common::rpc::lease::{Mode, Refusal};
use common::rpc::peer::PeerMessage;
use common::time::{BootMs, Now, SpanMs, WallMs};
use common::token::{TokenKey, TokenType};
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};

/// One master's ledger.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ledger {
    pub(super) identity: Identity,
    pub(super) table: Table,
    /// Grants and ends that the other master has not confirmed, and the requests that wait for them, by what they asked for.
    pub(super) grants: Proposals<TokenKey, (Asked, RequestId)>,
    /// Types of which most values are in use; operators were told.
    pub(super) low: BTreeSet<TokenType>,
    /// When that is looked at next.
    pub(super) look_at_pools_at: BootMs,
    /// What operators ended and the other master has not confirmed.
    pub(super) commands: BTreeMap<RequestId, Command>,
    pub(super) commanded: Proposals<RequestId, RequestId>,
    pub(super) pair: Pair,
    pub(super) settings_table: SettingsTable,
    /// How far the other master may extend leases alone.
    pub(super) permit_out: Option<WallMs>,
    pub(super) observed: PeerObservations,
    pub(super) lives: Lives,
    /// Drawn at this start.
    pub(super) mark: u64,
    /// Whether this start was written down.
    pub(super) begun: bool,
    pub(super) caution: Caution,
    pub(super) calendar: Calendar,
    /// Since when, in this run, agents have had time to show what they hold.
    pub(super) quiet_since: BootMs,
    /// Counts durable changes.
    pub(super) lsn: u64,
    test_clock: Option<TestClock>,
    version: String,
}

/// Who asked for what. The name belongs to it: the same session under another name is somebody else.
pub(super) type Asked = (AgentId, SessionId, TokenType);

/// The end of a lease, commanded here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Command {
    pub(super) by: Option<Cause>,
    pub(super) key: TokenKey,
    pub(super) denied: Lease,
}

impl Ledger {
    /// The ledger of a master that starts now. `salt` is random: it tells this start, and its exchange of tables, from
    /// others.
    pub fn start(loaded: Loaded, now: Now, salt: u64, test_clock: Option<TestClock>, version: String) -> Self {
        let Loaded {
            identity, lsn, permit_out, observed, lives, caution, leases, preps, settings, setting_preps, ..
        } = loaded;
        let table = Table::new(identity.master, identity.parameters, leases, preps);
        let mut pair = Pair::start(now, salt, loaded.proven.err());
        if observed.rolled_back {
            pair.roll_back();
        }
        Self {
            table,
            grants: Proposals::default(),
            low: BTreeSet::new(),
            look_at_pools_at: now.boot,
            commands: BTreeMap::new(),
            commanded: Proposals::default(),
            pair,
            settings_table: SettingsTable::new(settings, setting_preps),
            permit_out,
            observed,
            lives,
            mark: salt,
            begun: false,
            caution,
            calendar: Calendar::start(now, observed.clock_high, test_clock.map_or(1, |test| test.scale.into())),
            quiet_since: now.boot,
            lsn,
            test_clock,
            version,
            identity,
        }
    }

    /// The whitelist as long as none was ever written down (`--allow`).
    #[must_use]
    pub fn with_first_whitelist(mut self, networks: Vec<IpNet>) -> Self {
        self.settings_table.set_first_whitelist(networks);
        self
    }

    /// The user that this master proposes as the first one, as long as there are none.
    #[must_use]
    pub fn with_first_admin(mut self, user: Option<User>) -> Self {
        self.settings_table.set_first_admin(user);
        self
    }

    /// How much one network may have (`--network-share` and the like).
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.table.set_limits(limits);
        self
    }

    /// For models, which open the ledger of a running master anew at each step: this start is in the store already.
    #[must_use]
    pub fn already_begun(mut self) -> Self {
        self.begun = true;
        self
    }

    /// For simulations, which leave out the hours in which nothing happens.
    pub fn skip_quiet_time(&mut self, span: SpanMs) {
        self.calendar.skip(span);
    }

    /// When [`Event::Tick`](crate::lease::Event::Tick) is due if nothing else happens.
    pub fn next_deadline(&self) -> BootMs {
        self.pair.next_beat()
    }

    pub(super) fn same_cluster(&self, theirs: Option<ClusterId>) -> Result<(), Refusal> {
        rules::same_cluster(self.identity.cluster, theirs)
    }

    pub(super) fn put_lease(&mut self, key: TokenKey, lease: Lease, fx: &mut Effects) {
        let by = || fx.by.clone().unwrap_or_else(|| Cause::event(Actor::master(self.identity.master)));
        if let Some(entry) = rules::audited(key, self.table.lease(key), &lease, fx.at, by) {
            fx.writes.push(Write::Audit(entry));
        }
        fx.writes.push(Write::Lease(key, lease.clone()));
        self.table.put_lease(key, lease);
    }

    pub(super) fn put_prep(&mut self, prep: Prep, fx: &mut Effects) {
        fx.writes.push(Write::Prep(prep.clone()));
        self.table.put_prep(prep);
    }

    pub(super) fn drop_prep(&mut self, key: TokenKey, fx: &mut Effects) {
        fx.writes.push(Write::DropPrep(key));
        self.table.drop_prep(key);
        self.grants.over(&key);
    }

    pub(super) fn put_identity(&mut self, identity: Identity, fx: &mut Effects) {
        fx.writes.push(Write::Identity(identity.clone()));
        self.identity = identity;
    }

    pub(super) fn put_observed(&mut self, observed: PeerObservations, fx: &mut Effects) {
        if observed != self.observed {
            fx.writes.push(Write::PeerObservations(observed));
            self.observed = observed;
        }
    }

    pub(super) fn put_lives(&mut self, lives: Lives, fx: &mut Effects) {
        if lives != self.lives {
            fx.writes.push(Write::Lives(lives.clone()));
            self.lives = lives;
        }
    }

    pub(super) fn put_caution(&mut self, caution: Caution, fx: &mut Effects) {
        if caution != self.caution {
            fx.writes.push(Write::Caution(caution));
            self.caution = caution;
        }
    }

    pub(super) fn put_permit_out(&mut self, permit: Option<WallMs>, fx: &mut Effects) {
        fx.writes.push(Write::PermitOut(permit));
        self.permit_out = permit;
    }

    /// Sends a record of ours to the other master, so that both tables show the same.
    pub(super) fn share(&self, key: TokenKey, fx: &mut Effects) {
        if let Some(lease) = self.table.lease(key) {
            fx.send(PeerMessage::Sync { records: vec![(key, lease.clone())], by: fx.by.clone() });
        }
    }

    /// What this master does at the moment.
    pub fn mode(&self) -> Mode {
        self.pair.mode()
    }

    /// Who this master is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The number of its last durable change.
    pub fn lsn(&self) -> u64 {
        self.lsn
    }

    /// The records.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// How far this master allows the other to extend leases alone.
    pub fn permit_out(&self) -> Option<WallMs> {
        self.permit_out
    }

    /// What this master remembers beside the leases.
    pub fn observed(&self) -> &PeerObservations {
        &self.observed
    }

    /// What it remembers of both masters' starts.
    pub fn lives(&self) -> &Lives {
        &self.lives
    }

    /// Which calendar it goes by.
    pub fn calendar(&self) -> &Calendar {
        &self.calendar
    }

    /// What keeps this master from promising.
    pub fn caution(&self) -> &Caution {
        &self.caution
    }

    /// Whether it serves at all.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn serves(&self) -> Result<(), Refusal> {
        rules::serves(self.mode())
    }

    /// Whether this start could not prove its store, and has not met the other master yet.
    pub(super) fn unmet(&self) -> bool {
        self.pair.unproven().is_some()
    }

    /// What it knows of the other master.
    pub fn pair(&self) -> &Pair {
        &self.pair
    }

    /// The settings.
    pub fn settings_table(&self) -> &SettingsTable {
        &self.settings_table
    }

    /// Its program's version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The test clock it runs by, if any.
    pub fn test_clock(&self) -> Option<TestClock> {
        self.test_clock
    }

    /// Asserted after each step of tests and simulations: what must hold inside one master whatever was received.
    ///
    /// # Errors
    /// The sentence that does not hold.
    pub fn check(&self) -> Result<(), String> {
        for prep in self.table.preps() {
            if rules::home(prep.key) != self.identity.master {
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
        Ok(())
    }
}
