//! The ledger's state, and the one way in.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::calendar::Calendar;
use super::caution::Unproven;
use super::command::Command;
use super::event::{Alarm, Effects, Event, Identity, PeerObservations, Reply, RequestId, Write};
use super::table::Table;
use super::usage::Limits;
use super::{rules, snapshot};
use crate::replication::lives::Lives;
use crate::replication::pair::Pair;
use crate::setting::SettingsTable;
use common::account::{Login, SecretHash, User};
use common::audit::{Actor, Cause, Entry};
use common::clock::TestClock;
use common::lease::{Caution, Lease, LeaseState, Prep};
use common::parameters::{AgentId, ClusterId, SessionId};
use common::rpc::lease::{Mode, Refusal};
use common::rpc::peer::{PeerFrame, PeerMessage};
use common::setting::Setting;
use common::time::{BootMs, Now, SpanMs, WallMs};
use common::token::{TokenKey, TokenType};
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};

/// How long a request for a token waits for the other master's confirmation before it is told to ask again.
pub const CONFIRM_WAIT: SpanMs = SpanMs::seconds(3);
/// Requests for tokens that wait at once; one more is refused.
pub const WAITING_MAX: usize = 16_384;

/// One master's ledger.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ledger {
    pub(super) identity: Identity,
    pub(super) table: Table,
    /// Requests that wait for a confirmation, by what they asked for.
    pub(super) waiting: BTreeMap<Asked, Vec<Waiter>>,
    pub(super) waiting_count: usize,
    /// Types of which most values are in use; operators were told.
    pub(super) low: BTreeSet<TokenType>,
    /// When that is looked at next.
    pub(super) look_at_pools_at: BootMs,
    /// Operators that wait for the other master's confirmation.
    pub(super) commands: Vec<Command>,
    /// When each proposal or closing was last sent, so that it is not sent again at once.
    pub(super) sent_at: BTreeMap<TokenKey, BootMs>,
    pub(crate) pair: Pair,
    pub(crate) settings_table: SettingsTable,
    /// How far the other master may extend leases alone.
    pub(crate) permit_out: Option<WallMs>,
    pub(crate) observed: PeerObservations,
    pub(crate) lives: Lives,
    /// Drawn at this start.
    mark: u64,
    /// Whether this start was written down.
    begun: bool,
    pub(crate) caution: Caution,
    pub(super) calendar: Calendar,
    /// Since when, in this run, agents have had time to show what they hold.
    pub(super) quiet_since: BootMs,
    /// Counts durable changes.
    lsn: u64,
    test_clock: Option<TestClock>,
    version: String,
}

/// Who asked for what. The name belongs to it: the same session under another name is somebody else.
pub(super) type Asked = (AgentId, SessionId, TokenType);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Waiter {
    pub(super) id: RequestId,
    pub(super) give_up_at: BootMs,
}

/// What a store held when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Who this master is.
    pub identity: Identity,
    /// The last durable change.
    pub lsn: u64,
    /// How far the other master may extend leases alone.
    pub permit_out: Option<WallMs>,
    /// What is remembered beside the leases.
    pub observed: PeerObservations,
    /// This master's and the other's starts.
    pub lives: Lives,
    /// Whether this is the store that this master last wrote, untouched: no copy, not put back, not on another disk; and
    /// met the other master since it was last not so.
    pub proven: Result<(), Unproven>,
    /// What keeps it from promising.
    pub caution: Caution,
    /// Leases.
    pub leases: Vec<(TokenKey, Lease)>,
    /// Proposals without confirmation.
    pub preps: Vec<Prep>,
    /// Settings.
    pub settings: Vec<Setting>,
    /// Proposals of settings without confirmation.
    pub setting_preps: Vec<Setting>,
    /// Who was logged in at this master's console. The ledger has no part in it.
    pub logins: Vec<(SecretHash, Login)>,
}

/// Whether the other master does something on the strength of the answer, or of ours being one with its.
fn asks_for_consent(message: &PeerMessage) -> bool {
    match message {
        PeerMessage::Hello(_)
        | PeerMessage::Heartbeat { .. }
        | PeerMessage::Pull { .. }
        | PeerMessage::Page { .. }
        | PeerMessage::Sync { .. }
        | PeerMessage::Settings { .. }
        | PeerMessage::Reject { .. }
        | PeerMessage::Allows { .. }
        | PeerMessage::NoneFree { .. } => false,
        PeerMessage::AskSetting { .. }
        | PeerMessage::ProposeSetting { .. }
        | PeerMessage::ConfirmSetting { .. }
        | PeerMessage::Propose { .. }
        | PeerMessage::Confirm { .. }
        | PeerMessage::Close { .. }
        | PeerMessage::Closed { .. }
        | PeerMessage::Ask { .. } => true,
    }
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
            waiting: BTreeMap::new(),
            waiting_count: 0,
            low: BTreeSet::new(),
            look_at_pools_at: now.boot,
            commands: Vec::new(),
            sent_at: BTreeMap::new(),
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

    /// Takes one event at one instant and adds what has to be done to `fx`. Events may come in any order.
    pub fn step(&mut self, now: Now, event: Event, fx: &mut Effects) {
        let writes_before = fx.writes.len();
        let (now, ahead) = self.calendar.follow(now);
        fx.alarms.extend(ahead.map(|ahead| Alarm::CalendarAhead(ahead.0)));
        (fx.at, fx.by) = (now.wall, None);
        if !self.begun {
            self.begin(fx);
        }
        match event {
            Event::Token { id, request, address } => self.on_token(now, id, request, address, fx),
            Event::Rent { id, request } => {
                let reply = self.on_rent(now, &request, fx);
                fx.reply(id, Reply::Rent(reply));
            }
            Event::Terminate { id, request } => {
                let reply = self.on_terminate(now, &request, fx);
                fx.reply(id, Reply::Terminate(reply));
            }
            Event::List { id, request } => {
                let reply = self.on_list(&request);
                fx.reply(id, Reply::List(reply));
            }
            Event::Join { id, token, master, step } => {
                let reply = self.on_join(token, master, step, fx);
                fx.reply(id, Reply::Join(reply));
            }
            Event::Change { id, change, actor } => self.on_change(now, id, change, actor, fx),
            Event::Deny { id, key, actor } => {
                fx.by = Some(Cause::command(actor));
                self.on_deny(now, id, key, fx);
            }
            Event::Extend { id, key, actor } => {
                fx.by = Some(Cause::command(actor));
                let reply = self.on_extend(now, key, fx);
                fx.reply(id, Reply::Commanded(reply));
            }
            Event::Keep { id, logins, note } => {
                if let Some((actor, action, subject)) = note {
                    fx.writes.push(Write::Audit(Entry::new(now.wall, actor, action, &subject, "")));
                }
                fx.writes.extend(logins.into_iter().map(|(hash, login)| Write::Login(hash, login)));
                fx.reply(id, Reply::Kept);
            }
            Event::Message(frame) => {
                self.on_messages(now, *frame, fx);
                let answers = std::mem::take(&mut fx.answers);
                fx.messages.extend(answers);
            }
            Event::Greeting { id, frame } => {
                self.on_messages(now, *frame, fx);
                let answers = std::mem::take(&mut fx.answers);
                fx.reply(id, Reply::Greeted(answers));
            }
            Event::Retired => self.replaced(fx),
            Event::Stranger(why) => self.on_stranger(why, fx),
            Event::Connected => self.greet(now, fx),
            Event::Tick => {}
        }
        self.on_time(now, fx);
        if fx.writes.iter().skip(writes_before).any(Write::counted) {
            self.lsn = self.lsn.saturating_add(1);
        }
    }

    /// For simulations, which leave out the hours in which nothing happens.
    pub fn skip_quiet_time(&mut self, span: SpanMs) {
        self.calendar.skip(span);
    }

    /// When [`Event::Tick`] is due if nothing else happens.
    pub fn next_deadline(&self) -> BootMs {
        self.pair.next_beat()
    }

    /// What runs out by itself. Looked at once a beat: a scan at each event would make many waiting agents dear.
    fn on_time(&mut self, now: Now, fx: &mut Effects) {
        self.watch_peer(now, fx);
        if self.pair.take_beat(now) {
            self.beat(now, fx);
            self.resend_proposals(now, fx);
            self.end_what_is_over(now, fx);
            self.give_up_waiting(now, fx);
            self.press_orders(now, fx);
            self.press_settings(now, fx);
            self.end_quiet(now, fx);
            self.look_at_pools(now, fx);
        }
    }

    fn on_messages(&mut self, now: Now, frame: PeerFrame, fx: &mut Effects) {
        let Some(message) = self.admit(now, frame, fx) else { return };
        // A store that may be a copy consents to nothing before the tables are exchanged: the other master would end what the
        // original has renewed.
        if self.unmet() && asks_for_consent(&message) {
            return;
        }
        match message {
            PeerMessage::Hello(hello) => self.on_hello(now, &hello, fx),
            PeerMessage::Heartbeat { lsn, wall, mode, permit, steady, reverted } => {
                if steady {
                    self.calendar.confirm(wall);
                }
                if reverted {
                    self.on_reverted(Alarm::RevertedThere, fx);
                }
                self.on_peer_heartbeat(now, lsn, wall, mode, fx);
                self.on_permit(permit, fx);
                self.note(now, wall, fx);
                self.extend_permit(now, fx);
            }
            PeerMessage::Pull { exchange, after, unmet } => self.on_pull(now, exchange, after, unmet, fx),
            PeerMessage::Page { exchange, after, records, proposals, settings, memory, last } => {
                self.merge_settings(now, settings, fx);
                self.remember(now, exchange, &memory, fx);
                self.on_page(now, (exchange, after), records, proposals, last, fx);
            }
            PeerMessage::Sync { records, by } => {
                let ordered = by.is_some().then(|| records.iter().map(|(key, _)| *key).collect::<Vec<_>>());
                fx.by = by;
                self.settle_orders(&records, fx);
                self.merge_all(now, records, fx);
                self.confirm_orders(&ordered.unwrap_or_default(), fx);
            }
            PeerMessage::AskSetting { change, actor } => self.on_ask_setting(now, &change, &actor, fx),
            PeerMessage::ProposeSetting { setting } => self.on_propose_setting(now, setting, fx),
            PeerMessage::ConfirmSetting { setting } => self.on_confirm_setting(now, &setting, fx),
            PeerMessage::Allows { networks } => self.on_allows(networks, fx),
            PeerMessage::Settings { records } => self.merge_settings(now, records, fx),
            PeerMessage::Propose { prep } => self.on_propose(now, prep, fx),
            PeerMessage::Confirm { prep } => self.on_confirm(now, &prep, fx),
            PeerMessage::Reject { key, record } => self.on_reject(now, key, record, fx),
            PeerMessage::Close { key, g, until } => self.on_close(key, g, until, fx),
            PeerMessage::Closed { key, g, until } => self.on_closed(key, g, until, fx),
            PeerMessage::Ask { agent_id, session, token_type, address } => {
                self.on_ask(now, &agent_id, session, token_type, address, fx);
            }
            PeerMessage::NoneFree { agent_id, session, token_type, why } => {
                self.on_none_free(now, (agent_id, session, token_type), why, fx);
            }
        }
    }

    /// Writes this start down: before anybody hears of it, like everything else.
    fn begin(&mut self, fx: &mut Effects) {
        self.begun = true;
        let mut lives = self.lives.clone();
        lives.begin(self.mark, self.pair.unproven().is_none());
        self.put_lives(lives, fx);
        self.propose_first_admin(fx);
    }

    pub(super) fn same_cluster(&self, theirs: Option<ClusterId>) -> Result<(), Refusal> {
        snapshot::same_cluster(self.identity.cluster, theirs)
    }

    /// Merges what the other master knows; used by every message that carries records.
    pub(crate) fn merge_all(&mut self, now: Now, records: Vec<(TokenKey, Lease)>, fx: &mut Effects) {
        for (key, theirs) in records {
            if !rules::plausible(key, theirs.token_type, theirs.from, theirs.until, &self.identity.parameters) {
                fx.alarms.push(Alarm::Implausible(key));
                continue;
            }
            let mine = self.table.lease(key);
            let Some(mut merged) = rules::merge(self.identity.master, key, mine, &theirs) else {
                self.pair.freeze();
                fx.alarms.push(Alarm::Conflict(key));
                continue;
            };
            // It may have been lifted to what the other one was permitted, and that one has forgotten its renewals.
            let lifted = self.table.prep(key).filter(|prep| prep.g == merged.g && prep.until > merged.until);
            let lifted = lifted.map(|prep| prep.until);
            merged.until = lifted.unwrap_or(merged.until);
            let changed = mine != Some(&merged);
            if self.table.prep(key).is_some_and(|prep| prep.g <= merged.g) {
                self.drop_prep(key, fx);
            }
            if changed {
                self.put_lease(key, merged, fx);
            }
            if lifted.is_some() {
                self.share(key, fx);
            }
            self.answer_waiting(now, key, fx);
        }
    }

    pub(super) fn put_lease(&mut self, key: TokenKey, lease: Lease, fx: &mut Effects) {
        let by = || fx.by.clone().unwrap_or_else(|| Cause::event(Actor::master(self.identity.master)));
        if let Some(entry) = rules::audited(key, self.table.lease(key), &lease, fx.at, by) {
            fx.writes.push(Write::Audit(entry));
        }
        fx.writes.push(Write::Lease(key, lease.clone()));
        self.table.put_lease(key, lease);
    }

    pub(super) fn drop_prep(&mut self, key: TokenKey, fx: &mut Effects) {
        fx.writes.push(Write::DropPrep(key));
        self.table.drop_prep(key);
        self.sent_at.remove(&key);
    }

    pub(crate) fn put_identity(&mut self, identity: Identity, fx: &mut Effects) {
        fx.writes.push(Write::Identity(identity.clone()));
        self.identity = identity;
    }

    pub(crate) fn put_observed(&mut self, observed: PeerObservations, fx: &mut Effects) {
        if observed != self.observed {
            fx.writes.push(Write::PeerObservations(observed));
            self.observed = observed;
        }
    }

    pub(crate) fn put_lives(&mut self, lives: Lives, fx: &mut Effects) {
        if lives != self.lives {
            fx.writes.push(Write::Lives(lives.clone()));
            self.lives = lives;
        }
    }

    pub(crate) fn put_caution(&mut self, caution: Caution, fx: &mut Effects) {
        if caution != self.caution {
            fx.writes.push(Write::Caution(caution));
            self.caution = caution;
        }
    }

    pub(crate) fn put_permit_out(&mut self, permit: Option<WallMs>, fx: &mut Effects) {
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
    pub(crate) fn serves(&self) -> Result<(), Refusal> {
        snapshot::serves(self.mode())
    }

    /// What it knows of the other master.
    pub fn pair(&self) -> &Pair {
        &self.pair
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
