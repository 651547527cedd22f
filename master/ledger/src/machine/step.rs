//! The one way in: each event to whoever handles it, and what runs out by itself.

use super::pair::Pairwise;
use super::state::Ledger;
use crate::lease::{Alarm, Effects, Event, Reply, Write};
use ids::audit::{Cause, Entry};
use ids::setting::Change;
use ids::time::Now;
use wire::peer::{PeerFrame, PeerMessage};

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
            Event::Rent { id, request } => fx.reply_with(id, |fx| Reply::Rent(self.on_rent(now, &request, fx))),
            Event::Terminate { id, request } => {
                fx.reply_with(id, |fx| Reply::Terminate(self.on_terminate(now, &request, fx)))
            }
            Event::List { id, request } => fx.reply(id, Reply::List(self.on_list(now, &request))),
            Event::Join { id, token, master, step } => {
                fx.reply_with(id, |fx| Reply::Join(self.on_join(token, master, step, fx)))
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
                fx.reply_with(id, |fx| Reply::Commanded(self.on_extend(now, key, fx)));
            }
            Event::KeepLogins { id, logins, note } => {
                let note =
                    note.map(|it| Write::Audit(Entry::new(now.wall, it.actor, it.action, &it.subject, &it.detail)));
                fx.writes
                    .extend(note.into_iter().chain(logins.into_iter().map(|(hash, login)| Write::Login(hash, login))));
                fx.reply(id, Reply::Kept);
            }
            Event::Segment { id, request, address } => self.on_segment(now, id, &request, &address, fx),
            Event::Keep { id, request } => fx.reply_with(id, |fx| Reply::Keep(self.on_keep(now, request, fx))),
            Event::Raise { id, request } => fx.reply_with(id, |fx| Reply::Raise(self.on_raise(now, &request, fx))),
            Event::Routes { id, request, address } => self.on_routes(now, id, request, &address, fx),
            Event::Section { id, key, order, actor } => {
                fx.reply_with(id, |fx| Reply::Ordered(self.on_section(now, key, order, actor, fx)))
            }
            Event::Drain { id, agent_id, on, actor } => {
                fx.reply_with(id, |fx| Reply::Ordered(self.on_drain(now, agent_id, on, actor, fx)))
            }
            Event::Message(frame) => {
                let answers = self.answers_to(now, *frame, fx);
                fx.messages.extend(answers);
            }
            Event::Greeting { id, frame } => fx.reply_with(id, |fx| Reply::Greeted(self.answers_to(now, *frame, fx))),
            Event::AgentCalendar { agent_id, session, wall } => self.on_agent_calendar(now, &agent_id, session, wall),
            Event::Retired => self.replaced(fx),
            Event::Stranger(why) => self.on_stranger(why, fx),
            Event::Connected => self.greet(now, fx),
            Event::Tick => {}
        }
        self.on_axes_changed(now, fx);
        self.on_time(now, fx);
        self.answer_routes(now, fx);
        if fx.writes.iter().skip(writes_before).any(Write::counted) {
            self.lsn = self.lsn.saturating_add(1);
        }
    }

    fn answers_to(&mut self, now: Now, frame: PeerFrame, fx: &mut Effects) -> Vec<PeerMessage> {
        self.on_messages(now, frame, fx);
        std::mem::take(&mut fx.answers)
    }

    /// Handles what runs out by itself. Checked once a beat: a scan at each event would be expensive with many waiting agents.
    fn on_time(&mut self, now: Now, fx: &mut Effects) {
        self.watch_peer(now, fx);
        if self.take_beat(now) {
            self.share_calendar(now, fx);
            self.beat(now, fx);
            self.retry_grants(now, fx);
            self.end_what_is_over(now, fx);
            self.retry_commands(now, fx);
            self.retry_settings(now, fx);
            self.retry_segments(now, fx);
            self.tell_use(now, fx);
            self.tell_shown(now, fx);
            self.retry_sections(now, fx);
            self.place_sections(now, fx);
            self.tell_allocators(now, fx);
            self.end_quiet(now, fx);
            self.look_at_pools(now, fx);
        }
        self.on_axes_changed(now, fx);
    }
}
