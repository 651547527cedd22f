//! The one way in: each event to whoever handles it, and what runs out by itself.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::state::Ledger;
use crate::lease::{Alarm, Effects, Event, Reply, Write};
use common::audit::{Cause, Entry};
use common::rpc::peer::{PeerFrame, PeerMessage};
use common::time::Now;

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

    /// What runs out by itself. Looked at once a beat: a scan at each event would make many waiting agents dear.
    fn on_time(&mut self, now: Now, fx: &mut Effects) {
        self.watch_peer(now, fx);
        if self.pair.take_beat(now) {
            self.beat(now, fx);
            self.press_grants(now, fx);
            self.end_what_is_over(now, fx);
            self.press_commands(now, fx);
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
                let commanded = by.is_some().then(|| records.iter().map(|(key, _)| *key).collect::<Vec<_>>());
                fx.by = by;
                self.settle_commands(&records, fx);
                self.merge_all(now, records, fx);
                self.confirm_commands(&commanded.unwrap_or_default(), fx);
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
}
