//! Extents of axes: which run of which master may grant segments of which places.
//!
//! An axis is a setting: at home with one master by its name, proposed by it, confirmed by the other, versioned. A master takes an extent
//! as its own only where the proof of both is at hand: the home when the other has confirmed, the other when it writes the record down
//! itself. What it hears otherwise (pages, records that are merged) only tells it what is granted.
//!
//! A survivor that awaits a replacement extends by itself. It stops when the snapshot for the replacement is cut, which would else not know
//! of what is granted after: the replacement may be the survivor next.

use super::Pairwise;
use crate::lease::{Effects, Write};
use crate::machine::state::Ledger;
use ids::audit::Actor;
use ids::namespace::GeneratorName;
use ids::segment::Extent;
use ids::setting::{Change, Outcome, Setting, SettingKey, SettingValue};
use ids::time::{Now, SpanMs};
use wire::lease::Mode;
use wire::peer::PeerMessage;

/// Names whose use is told in one message at most.
const USES_MAX: usize = 256;
/// Interval between two messages about use: often enough for what is wanted for a day.
const USE_EVERY: SpanMs = SpanMs::seconds(5);

impl Ledger<Pairwise> {
    /// Tells whether this master extends axes by itself.
    pub(super) fn extends_alone(&self) -> bool {
        let cut = self.agreement.observed.permit_in.is_none();
        self.identity.awaiting.is_some() && !cut && !self.unmet() && self.mode() == Mode::ReadyAlone
    }

    /// Writes the next version of an axis, durable here alone.
    pub(super) fn extend_by_itself(&mut self, now: Now, change: &Change, fx: &mut Effects) {
        let Outcome::Becomes(value) = self.settings_table.outcome(change) else { return };
        let key = change.key();
        let version = self.settings_table.get(&key).map_or(0, |known| known.version).saturating_add(1);
        let actor = Actor::master(self.identity.master);
        let setting = Setting { key, version, value, actor, at: now.wall };
        self.put_setting(setting.clone(), fx);
        self.own_extent(&setting, fx);
    }

    /// Takes a setting that both masters hold, or will with this step: if it is an extent of this run, it may be granted from.
    pub(super) fn own_extent(&mut self, setting: &Setting, fx: &mut Effects) {
        let (SettingKey::Axis(name), SettingValue::Axis(axis)) = (&setting.key, &setting.value) else { return };
        self.axes_changed.insert(name.clone());
        let own = |extent: &Extent| (extent.master, extent.run) == (self.identity.master, self.cursors.run());
        if let Some(extent) = axis.last.filter(own) {
            self.cursors.add(name, extent.span);
            self.write_cursor(name, fx);
        }
    }

    /// Drops places below the floor of an axis that changed: none of them is granted any more.
    pub(super) fn trim_to_floor(&mut self, setting: &Setting, fx: &mut Effects) {
        let (SettingKey::Axis(name), SettingValue::Axis(axis)) = (&setting.key, &setting.value) else { return };
        if self.cursors.trim(name, axis.floor) {
            self.write_cursor(name, fx);
        }
    }

    /// Takes over, at the meeting of a start that may have forgotten, parts of axes that the other one has proposed, and that this
    /// one may have confirmed, and granted from. They are nobody's now, and known before this master can be the only one.
    pub(super) fn take_proposed_extents(&mut self, now: Now, exchange: u64, extents: Vec<Setting>, fx: &mut Effects) {
        if !self.unmet() || !self.agreement.pair.exchanges(exchange) {
            return;
        }
        for setting in extents.into_iter().filter(|setting| matches!(setting.key, SettingKey::Axis(_))) {
            self.on_propose_setting(now, setting, fx);
        }
    }

    /// Tells the other master at each beat how much is used here, because it may be the only one tomorrow.
    pub(crate) fn tell_use(&mut self, now: Now, fx: &mut Effects) {
        let told = self.agreement.use_told_at.is_some_and(|at| now.boot - at < USE_EVERY);
        if told || !self.agreement.pair.heard(now) {
            return;
        }
        let uses = self.cursors.news(now.boot, USES_MAX);
        if !uses.is_empty() {
            self.agreement.use_told_at = Some(now.boot);
            fx.send(PeerMessage::SegmentsUsed { uses });
        }
    }

    /// Tells the other master at once of a name of which nothing was told yet: agents turn to it as soon as this one is away.
    pub(super) fn tell_first_use_of(&mut self, now: Now, name: &GeneratorName, fx: &mut Effects) {
        if !self.agreement.pair.heard(now) {
            return;
        }
        if let Some((sum, longest)) = self.cursors.first_use(name, now.boot) {
            fx.send(PeerMessage::SegmentsUsed { uses: vec![(name.clone(), sum, longest)] });
        }
    }

    pub(super) fn on_segments_used(&mut self, now: Now, uses: Vec<(GeneratorName, u64, u32)>, fx: &mut Effects) {
        for (name, sum, longest) in uses.into_iter().take(USES_MAX) {
            // Only of names that are known: nobody fills the memory with others.
            if self.settings_table.axis(&name).is_some() {
                self.cursors.note_other(&name, sum, longest, now.boot);
                self.ask_for_extent(now, &name, fx);
            }
        }
    }

    /// Tells the other master at each beat what agents have shown here that both have forgotten, because either may grant it again.
    pub(crate) fn tell_shown(&mut self, now: Now, fx: &mut Effects) {
        if !self.agreement.pair.heard(now) {
            return;
        }
        let (cursors, settings) = (&mut self.cursors, &self.settings_table);
        cursors.keep_shown(|name, seen| settings.known_of_axis(name).is_some_and(|known| seen > known));
        let shown: Vec<_> = cursors.all_shown().collect();
        for shown in shown.chunks(USES_MAX) {
            fx.send(PeerMessage::NumbersShown { shown: shown.to_vec() });
        }
    }

    pub(super) fn on_numbers_shown(&mut self, shown: Vec<(GeneratorName, u64)>, fx: &mut Effects) {
        for (name, seen) in shown.into_iter().take(USES_MAX) {
            self.note_shown(&name, seen, fx);
        }
    }

    /// Drops what a run leaves when another one begins: its extents are nobody's.
    pub(super) fn drop_former_cursors(&mut self, fx: &mut Effects) {
        let run = self.cursors.run();
        fx.writes.push(Write::Run(Some(run)));
        for (of, name) in std::mem::take(&mut self.agreement.former_cursors) {
            if of != run {
                fx.writes.push(Write::Cursor { run, name, spans: Vec::new() });
            }
        }
    }
}
