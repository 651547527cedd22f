//! Messages of the other master, each handed to whoever handles it.

use super::Pairwise;
use crate::lease::{Alarm, Effects};
use crate::machine::state::Ledger;
use ids::time::{Now, SpanMs};
use wire::peer::{PeerFrame, PeerMessage};

/// Tells whether the other master does something on the strength of the answer, or of ours being one with its.
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
        | PeerMessage::SegmentsUsed { .. }
        | PeerMessage::NumbersShown { .. }
        | PeerMessage::NoneFree { .. }
        | PeerMessage::Allocators { .. }
        | PeerMessage::RaisedSections { .. }
        | PeerMessage::HeldBounds { .. }
        | PeerMessage::PullSettings { .. }
        | PeerMessage::SettingsPage { .. }
        | PeerMessage::PullSections { .. }
        | PeerMessage::SectionPage { .. } => false,
        PeerMessage::AskSetting { .. }
        | PeerMessage::ProposeSetting { .. }
        | PeerMessage::ConfirmSetting { .. }
        | PeerMessage::Propose { .. }
        | PeerMessage::Confirm { .. }
        | PeerMessage::Close { .. }
        | PeerMessage::Closed { .. }
        | PeerMessage::Ask { .. }
        | PeerMessage::ProposeSections { .. }
        | PeerMessage::ConfirmSections { .. }
        | PeerMessage::KnownSections { .. }
        | PeerMessage::AskSections { .. }
        | PeerMessage::AskMove { .. } => true,
    }
}

impl Ledger<Pairwise> {
    pub(crate) fn on_messages(&mut self, now: Now, frame: PeerFrame, fx: &mut Effects) {
        let Some(message) = self.admit(now, frame, fx) else { return };
        // A store that may be a copy consents to nothing before the tables are exchanged: the other master would end what the
        // original has renewed.
        if self.unmet() && asks_for_consent(&message) {
            return;
        }
        match message {
            PeerMessage::Hello(hello) => self.on_hello(now, &hello, fx),
            PeerMessage::Heartbeat { lsn, wall, mode, permit, steady, read, reverted } => {
                self.agreement.pair.view().read_apart = Some(read - self.calendar.read());
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
            PeerMessage::Pull { exchange, after, unmet, retired } => {
                self.on_pull(now, exchange, after, (unmet, retired), fx);
            }
            PeerMessage::Page { exchange, after, records, proposals, settings, more, extents, memory, last } => {
                let further = settings.last().filter(|_| more).map(|setting| setting.key.clone());
                self.merge_settings(now, settings, fx);
                self.take_proposed_extents(now, exchange, extents, fx);
                self.remember(now, exchange, &memory, fx);
                self.on_page(now, (exchange, after), (records, proposals), further, last, fx);
            }
            PeerMessage::PullSettings { exchange, after, unmet, retired } => {
                self.on_pull_settings(exchange, after, (unmet, retired), fx);
            }
            PeerMessage::SettingsPage { exchange, after, settings, more, extents } => {
                let further = settings.last().filter(|_| more).map(|setting| setting.key.clone());
                self.merge_settings(now, settings, fx);
                self.take_proposed_extents(now, exchange, extents, fx);
                self.on_settings_page(now, exchange, after, further, fx);
            }
            PeerMessage::Sync { records, by } => {
                let commanded = by.is_some().then(|| records.iter().map(|(key, _)| *key).collect::<Vec<_>>());
                fx.by = by;
                self.settle_commands(&records, fx);
                self.merge_all(now, records, fx);
                self.confirm_commands(&commanded.unwrap_or_default(), fx);
            }
            PeerMessage::Propose { prep } => self.on_propose(now, prep, fx),
            PeerMessage::Confirm { prep } => self.on_confirm(now, &prep, fx),
            PeerMessage::Reject { key, record } => self.on_reject(now, key, record, fx),
            PeerMessage::Close { key, g, until } => self.on_close(key, g, until, fx),
            PeerMessage::Closed { key, g, until } => self.on_closed(key, g, until, fx),
            PeerMessage::Ask { agent_id, session, token_type, address, lower } => {
                self.on_ask(now, (agent_id, session, token_type), address, lower, fx);
            }
            PeerMessage::NoneFree { agent_id, session, token_type, address, why } => {
                self.on_none_free(now, (agent_id, session, token_type), address, why, fx);
            }
            other => self.on_settings_said(now, other, fx),
        }
    }

    fn on_settings_said(&mut self, now: Now, message: PeerMessage, fx: &mut Effects) {
        match message {
            PeerMessage::AskSetting { change, actor } => self.on_ask_setting(now, &change, &actor, fx),
            PeerMessage::ProposeSetting { setting } => self.on_propose_setting(now, setting, fx),
            PeerMessage::ConfirmSetting { setting } => self.on_confirm_setting(now, &setting, fx),
            PeerMessage::Allows { networks } => self.on_allows(networks, fx),
            PeerMessage::SegmentsUsed { uses } => self.on_segments_used(now, uses, fx),
            PeerMessage::NumbersShown { shown } => self.on_numbers_shown(shown, fx),
            PeerMessage::Settings { records } => self.merge_settings(now, records, fx),
            sections => self.on_sections_said(now, sections, fx),
        }
    }

    fn on_sections_said(&mut self, now: Now, message: PeerMessage, fx: &mut Effects) {
        match message {
            PeerMessage::Allocators { lease_ms, seen, drained, sent, heard } => {
                self.on_allocators(now, SpanMs(lease_ms.into()), seen, drained, (sent, heard), fx);
            }
            PeerMessage::ProposeSections { proposals } => self.on_propose_sections(proposals, fx),
            PeerMessage::ConfirmSections { records } => self.on_confirm_sections(records, fx),
            PeerMessage::KnownSections { records } => self.on_known_sections(records, fx),
            PeerMessage::RaisedSections { bounds } => self.on_raised_sections(bounds, fx),
            PeerMessage::HeldBounds { bounds } => self.on_held_bounds(bounds),
            PeerMessage::AskSections { name, sections } => self.on_ask_sections(now, &name, &sections, fx),
            PeerMessage::AskMove { key, to } => self.on_ask_move(now, &key, to, fx),
            PeerMessage::PullSections { exchange, after, unmet } => self.on_pull_sections(exchange, after, unmet, fx),
            PeerMessage::SectionPage { exchange, after, records, proposals, last } => {
                self.on_section_page(now, (exchange, after), &records, &proposals, last, fx);
            }
            _ => {}
        }
    }
}
