//! The ledger's state, and how it changes: each change in memory is a write, too.

use crate::lease::calendar::Calendar;
use crate::lease::cursor::Cursors;
use crate::lease::proposals::Proposals;
use crate::lease::receipt::receipt;
use crate::lease::table::Table;
use crate::lease::takings::{Asker, Takings};
use crate::lease::{Alarm, Effects, Identity, Limits, RequestId, Write};
use crate::policy::{Policy, rules};
use crate::section::{Allocators, HeldSection, Piece, SectionTable, Terms};
use crate::setting::SettingsTable;
use ids::account::User;
use ids::audit::{Action, Actor, Cause, Entry};
use ids::lease::{Caution, Grant, Lease, Prep, Receipt};
use ids::namespace::GeneratorName;
use ids::parameters::{AgentId, ClusterId, SessionId};
use ids::segment::MasterRun;
use ids::sequence::{Section, SectionRange, SectionRecord};
use ids::setting::SettingKey;
use ids::time::TestClock;
use ids::time::{BootMs, Now, SpanMs, WallMs};
use ids::token::{TokenKey, TokenType};
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use wire::lease::Refusal;
use wire::ranges::RoutesRequest;

/// One master's ledger, the changes of which are agreed on by what an `A` keeps for that.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ledger<A> {
    pub(super) identity: Identity,
    pub(super) table: Table,
    pub(super) settings_table: SettingsTable,
    pub(super) sections: SectionTable,
    pub(super) routes: RoutesAsked,
    /// The agents that serve sections, as far as it was heard since the start.
    pub(super) allocators: Allocators,
    pub(super) caution: Caution,
    /// Places that this run may still grant of each axis.
    pub(super) cursors: Cursors,
    /// Axes that changed in the step at hand.
    pub(super) axes_changed: BTreeSet<GeneratorName>,
    /// Axes that extents were asked of, and the calls that wait for a segment of each.
    pub(super) segments: Proposals<GeneratorName, RequestId, SegmentWish>,
    /// Places that sessions and networks were granted of axes within the hour.
    pub(super) takings: Takings,
    pub(super) calendar: Calendar,
    /// Types of which most values are in use; operators were told.
    pub(super) low: BTreeSet<TokenType>,
    /// The instant at which that is looked at next.
    pub(super) look_at_pools_at: BootMs,
    /// Counts durable changes.
    pub(super) lsn: u64,
    pub(super) test_clock: Option<TestClock>,
    pub(super) version: String,
    /// The state that is kept to agree on all that.
    pub(super) agreement: A,
}

/// A call for a segment that waits for an extent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SegmentWish {
    pub(super) name: GeneratorName,
    pub(super) wanted: u32,
    pub(super) asker: Asker,
}

/// Calls for routes, as far as they are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct RoutesAsked {
    /// Calls that wait until sections have owners.
    pub(super) waiting: BTreeMap<RequestId, AskedRoutes>,
    /// Tells whether a section got another owner, or a proposal of one ended, in the step at hand.
    pub(super) section_changed: bool,
}

/// A call for routes that waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct AskedRoutes {
    pub(super) until: BootMs,
    pub(super) request: RoutesRequest,
    /// The network that it came from.
    pub(super) network: Option<IpNet>,
    /// Sections that have none, as far as was looked from the end.
    pub(super) open: Vec<Section>,
}

/// A session and the type that it asked for. The name belongs to it: the same session under another name is somebody else.
pub(super) type Asked = (AgentId, SessionId, TokenType);

impl<A> Ledger<A> {
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

    /// Sets how much one network may have (`--network-share` and the like).
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.table.set_limits(limits);
        self
    }

    /// Sets the time that extents shall last while the other master is away (`--solo-span`).
    #[must_use]
    pub fn with_solo_span(mut self, span: SpanMs) -> Self {
        self.cursors.last_for(span, self.test_clock.map_or(1, |test| test.scale));
        self
    }

    /// This run of the master.
    pub fn run(&self) -> MasterRun {
        self.cursors.run()
    }

    /// Places that it may still grant of each axis, and how much of each is used.
    pub fn cursors(&self) -> &Cursors {
        &self.cursors
    }

    /// Makes durable with this step what is left of an axis.
    pub(super) fn write_cursor(&self, name: &GeneratorName, fx: &mut Effects) {
        let spans = self.cursors.get(name).map(|cursor| cursor.spans().to_vec()).unwrap_or_default();
        fx.writes.push(Write::Cursor { run: self.cursors.run(), name: name.clone(), spans });
    }

    /// Sets the time that allocators serve after they have asked for their sections (`--sequence-lease`).
    #[must_use]
    pub fn with_sequence_lease(mut self, lease: SpanMs) -> Self {
        self.allocators.set_lease(lease);
        self
    }

    /// For simulations, which leave out the hours in which nothing happens.
    pub fn skip_quiet_time(&mut self, span: SpanMs) {
        self.calendar.skip(span);
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

    pub(super) fn put_sections(&mut self, range: &SectionRange, held: HeldSection, fx: &mut Effects) {
        let other = |piece: Piece| piece.held.is_none_or(|known| known.g != held.g);
        self.routes.section_changed |= self.sections.pieces(range).any(other);
        fx.write_sections(self.sections.put(range, held));
    }

    pub(super) fn put_section_prep(&mut self, prep: SectionRecord, fx: &mut Effects) {
        fx.write_section_preps(self.sections.put_prep(prep));
    }

    /// Gives what the definition of a name says of its sections, and whether further numbers may be given; `None`: it is no sequence.
    pub(super) fn terms_of(&self, name: &GeneratorName) -> Option<(Terms, bool)> {
        let value = &self.settings_table.get(&SettingKey::Namespace(name.clone()))?.value;
        let terms = value.used()?.sequences()?.into();
        Some((terms, !value.is_retired()))
    }

    /// The same, for a name of which nothing may be known.
    pub(super) fn terms_or_widest(&self, name: &GeneratorName) -> Terms {
        self.terms_of(name).map_or(Terms::UNKNOWN, |(terms, _)| terms)
    }

    /// Tells whether a name gives nothing any more, for ever.
    pub(super) fn is_retired(&self, name: &GeneratorName) -> bool {
        let setting = self.settings_table.get(&SettingKey::Namespace(name.clone()));
        setting.map_or_else(|| self.settings_table.is_shortened(name), |setting| setting.value.is_retired())
    }

    /// The reason why a name has no terms.
    pub(super) fn no_terms(&self, name: &GeneratorName) -> Refusal {
        if self.is_retired(name) { Refusal::NameRetired } else { Refusal::NoSuchName }
    }

    /// Tells whether a name is a sequence that gives further numbers.
    pub fn is_living_sequence(&self, name: &GeneratorName) -> bool {
        self.terms_of(name).is_some_and(|(_, lives)| lives)
    }

    /// Both ledgers were put back: nothing is granted any more, across restarts.
    pub(super) fn on_reverted(&mut self, alarm: Alarm, fx: &mut Effects) {
        if !self.caution.reverted {
            let actor = Actor::master(self.identity.master);
            let (subject, detail) = ("both ledgers", alarm.to_string());
            fx.writes.push(Write::Audit(Entry::new(fx.at, actor, Action::Reverted, subject, &detail)));
            fx.alarms.push(alarm);
            self.put_caution(Caution { reverted: true, ..self.caution }, fx);
        }
    }

    /// The receipt for what the holder of a lease is told.
    pub(super) fn receipt_for(&self, key: TokenKey, lease: &Lease, told: WallMs) -> Option<Receipt> {
        receipt(self.identity.epoch?, key, lease.g, lease.session, (lease.from, told))
    }

    /// The grant by which a session that does not have its lease, or asks for it again, is told of it by a master that may promise by itself
    /// until `bound`.
    pub(super) fn grant_of(&self, now: Now, key: TokenKey, lease: &Lease, bound: Option<WallMs>) -> Grant {
        let until = rules::told_until(lease, now, &self.identity.parameters, bound, None);
        Grant { until, ..lease.grant(key) }
    }

    /// The same, with its receipt.
    pub(super) fn grant_with_receipt(&self, now: Now, key: TokenKey, lease: &Lease, bound: Option<WallMs>) -> Grant {
        let grant = self.grant_of(now, key, lease, bound);
        Grant { receipt: self.receipt_for(key, lease, grant.until), ..grant }
    }

    /// Somebody was given the places of an axis before `seen`.
    pub(super) fn note_shown(&mut self, name: &GeneratorName, seen: u64, fx: &mut Effects) {
        let Some(known) = self.settings_table.known_of_axis(name) else { return };
        let end = self.settings_table.axis(name).map_or(0, |(definition, _)| definition.axis().to);
        if self.cursors.show(name, seen.min(end), known)
            && let Some(refusal) = self.has_forgotten(name)
        {
            fx.alarms.push(Alarm::NumbersForgotten(refusal.to_string()));
        }
    }

    /// Gives the reason why nothing of an axis is granted, if it is so: agents have shown more than both ledgers know. An operator who raises
    /// the axis above that ends it, or one who says that it is not true.
    pub(super) fn has_forgotten(&self, name: &GeneratorName) -> Option<Refusal> {
        let (definition, axis) = self.settings_table.axis(name)?;
        let last = self.shown(name)?.saturating_sub(1);
        let (granted, end) = (axis.granted, definition.axis().to.saturating_sub(1));
        Some(Refusal::NumbersForgotten { name: name.clone(), granted, last, end })
    }

    /// After the last place of an axis that agents have shown, if both ledgers know of fewer and no operator said that it is not true.
    pub fn shown(&self, name: &GeneratorName) -> Option<u64> {
        self.cursors.shown(name, self.settings_table.known_of_axis(name)?)
    }

    pub(super) fn put_caution(&mut self, caution: Caution, fx: &mut Effects) {
        if caution != self.caution {
            fx.writes.push(Write::Caution(caution));
            self.caution = caution;
        }
    }

    /// The identity of this master.
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

    /// The calendar it goes by.
    pub fn calendar(&self) -> &Calendar {
        &self.calendar
    }

    /// The policy that decisions go by.
    pub(super) fn policy(&self) -> Policy<'_> {
        Policy { table: &self.table, caution: &self.caution, parameters: &self.identity.parameters }
    }

    /// The caution that keeps this master from promising.
    pub fn caution(&self) -> &Caution {
        &self.caution
    }

    /// The settings.
    pub fn settings_table(&self) -> &SettingsTable {
        &self.settings_table
    }

    /// The sections, with who has which.
    pub fn sections(&self) -> &SectionTable {
        &self.sections
    }

    /// The agents that serve sections.
    pub fn allocators(&self) -> &Allocators {
        &self.allocators
    }

    /// Its program's version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The test clock it runs by, if any.
    pub fn test_clock(&self) -> Option<TestClock> {
        self.test_clock
    }
}
