//! The one way in: each event to whoever handles it, and what runs out by itself.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::pair::Pairwise;
use super::state::Ledger;
use crate::lease::{Alarm, Effects, Event, Reply, Write};
use common::audit::{Cause, Entry};
use common::setting::Change;
use common::time::Now;

impl Ledger<Pairwise> {
    /// Takes one event at one instant and adds what has to be done to `fx`. Events may come in any order.
    pub fn step(&mut self, now: Now, event: Event, fx: &mut Effects) {
        let writes_before = fx.writes.len();
        let (now, ahead) = self.calendar.follow(now);
        fx.alarms.extend(ahead.map(|ahead| Alarm::CalendarAhead(ahead.0)));
        (fx.at, fx.by) = (now.wall, None);
        self.begin(fx);
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
                let reply = self.on_list(now, &request);
                fx.reply(id, Reply::List(reply));
            }
            Event::Join { id, token, master, step } => {
                let reply = self.on_join(token, master, step, fx);
                fx.reply(id, Reply::Join(reply));
            }
            Event::Change { id, change, actor } => self.on_change(now, id, change, actor, fx),
            Event::Define { id, namespace, actor } => self.on_define(now, id, Change::Define(namespace), actor, fx),
            Event::Restore { id, shown, actor } => self.on_restore(now, id, *shown, actor, fx),
            Event::Deny { id, key, actor } => {
                fx.by = Some(Cause::command(actor));
                self.on_deny(now, id, key, fx);
            }
            Event::Extend { id, key, actor } => {
                fx.by = Some(Cause::command(actor));
                let reply = self.on_extend(now, key, fx);
                fx.reply(id, Reply::Commanded(reply));
            }
            Event::KeepLogins { id, logins, note } => {
                if let Some((actor, action, subject)) = note {
                    fx.writes.push(Write::Audit(Entry::new(now.wall, actor, action, &subject, "")));
                }
                fx.writes.extend(logins.into_iter().map(|(hash, login)| Write::Login(hash, login)));
                fx.reply(id, Reply::Kept);
            }
            Event::Segment { id, request, address } => self.on_segment(now, id, &request, &address, fx),
            Event::Keep { id, request } => {
                let reply = self.on_keep(now, request, fx);
                fx.reply(id, Reply::Keep(reply));
            }
            Event::Raise { id, request } => {
                let reply = self.on_raise(now, &request, fx);
                fx.reply(id, Reply::Raise(reply));
            }
            Event::Routes { id, request, address } => {
                let reply = self.on_routes(now, request, &address, fx);
                fx.reply(id, Reply::Routes(reply));
            }
            Event::MoveSection { id, key, to, actor } => {
                let reply = self.on_move(now, key, to, actor, fx);
                fx.reply(id, Reply::Ordered(reply));
            }
            Event::Drain { id, agent_id, on, actor } => {
                let reply = self.on_drain(now, agent_id, on, actor, fx);
                fx.reply(id, Reply::Ordered(reply));
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
            Event::AgentCalendar { agent_id, session, wall } => self.on_agent_calendar(now, &agent_id, session, wall),
            Event::Retired => self.replaced(fx),
            Event::Stranger(why) => self.on_stranger(why, fx),
            Event::Connected => self.greet(now, fx),
            Event::Tick => {}
        }
        self.on_axes_changed(now, fx);
        self.on_time(now, fx);
        self.on_axes_changed(now, fx);
        if fx.writes.iter().skip(writes_before).any(Write::counted) {
            self.lsn = self.lsn.saturating_add(1);
        }
    }

    /// What runs out by itself. Looked at once a beat: a scan at each event would make many waiting agents dear.
    fn on_time(&mut self, now: Now, fx: &mut Effects) {
        self.watch_peer(now, fx);
        if self.take_beat(now) {
            self.share_calendar(now, fx);
            self.beat(now, fx);
            self.press_grants(now, fx);
            self.end_what_is_over(now, fx);
            self.press_commands(now, fx);
            self.press_settings(now, fx);
            self.press_segments(now, fx);
            self.tell_use(now, fx);
            self.tell_shown(now, fx);
            self.press_sections(now, fx);
            self.place_sections(now, fx);
            self.end_quiet(now, fx);
            self.look_at_pools(now, fx);
        }
    }
}
