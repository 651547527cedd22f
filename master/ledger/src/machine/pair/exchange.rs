//! Meeting the other master: the tables are exchanged, heartbeats go to and fro, and its silence is noticed
//! ([`crate::replication::pair`]).

use super::Pairwise;
use crate::lease::{Alarm, Effects, Lives};
use crate::machine::state::Ledger;
use crate::replication::pair::{Exchange, PAGE_WAIT, PageRequest, SILENCE, SILENCE_ALONE, SKEW_ALARM};
use ids::lease::{Lease, Prep};
use ids::sequence::{SectionKey, SectionRecord};
use ids::setting::SettingKey;
use ids::time::{Now, WallMs};
use ids::token::TokenKey;
use wire::lease::Mode;
use wire::peer::{Hello, PeerMessage};

impl Ledger<Pairwise> {
    pub(super) fn on_hello(&mut self, now: Now, hello: &Hello, fx: &mut Effects) {
        if hello.answer {
            fx.answer(PeerMessage::Hello(self.hello(now, false)));
        }
        if !self.identity().paired {
            return;
        }
        let mut lives = self.agreement.lives.clone();
        if let Some(accepted) = hello.accepted {
            lives.accepted(accepted);
        }
        lives.accept(&hello.lives);
        self.put_lives(lives, fx);
        let view = self.agreement.pair.view();
        view.lsn = hello.lsn;
        view.version.clone_from(&hello.version);
        self.compare_clocks(now, hello.wall, fx);
        self.tell_first_whitelist(fx);
        self.begin_exchange(now, fx);
    }

    pub(super) fn on_peer_heartbeat(&mut self, now: Now, lsn: u64, wall: WallMs, mode: Mode, fx: &mut Effects) {
        let view = self.agreement.pair.view();
        // Late messages do not make it younger.
        view.lsn = view.lsn.max(lsn);
        view.mode = Some(mode);
        self.compare_clocks(now, wall, fx);
    }

    fn compare_clocks(&mut self, now: Now, theirs: WallMs, fx: &mut Effects) {
        let skew = theirs - now.wall;
        self.agreement.pair.view().skew = skew;
        let skewed = skew.0.saturating_abs() > self.tolerated(SKEW_ALARM).0;
        if skewed && !self.agreement.pair.skewed {
            fx.alarms.push(Alarm::ClockSkew(skew.0));
        }
        self.agreement.pair.skewed = skewed;
    }

    fn begin_exchange(&mut self, now: Now, fx: &mut Effects) {
        self.agreement.pair.exchanges = self.agreement.pair.exchanges.wrapping_add(1);
        let id = self.agreement.pair.exchanges;
        self.ask_page(now, id, PageRequest::Leases(None), fx);
    }

    pub(super) fn on_pull(
        &mut self,
        now: Now,
        exchange: u64,
        after: Option<TokenKey>,
        (unmet, retired): (bool, u64),
        fx: &mut Effects,
    ) {
        if unmet && after.is_none() {
            self.lift_what_was_permitted(now, fx);
        }
        // Whoever may have forgotten a confirmation is handed the proposals too: no agent heard of any other grant that is not
        // among the records.
        let (records, proposals, last) = self.table().page(after, unmet);
        let (settings, more) = if last { self.settings_table().page(None, retired) } else { (Vec::new(), false) };
        let extents = if last && !more && unmet { self.settings_table().proposed_extents() } else { Vec::new() };
        let memory = self.memory();
        if after.is_none() {
            self.cursors.tell_anew();
        }
        fx.send(PeerMessage::Page { exchange, after, records, proposals, settings, more, extents, memory, last });
    }

    pub(super) fn on_pull_settings(
        &self,
        exchange: u64,
        after: SettingKey,
        (unmet, retired): (bool, u64),
        fx: &mut Effects,
    ) {
        let (settings, more) = self.settings_table().page(Some(&after), retired);
        let extents = if !more && unmet { self.settings_table().proposed_extents() } else { Vec::new() };
        fx.send(PeerMessage::SettingsPage { exchange, after, settings, more, extents });
    }

    /// `further`: the last of its settings, if there are more.
    pub(super) fn on_page(
        &mut self,
        now: Now,
        (exchange, after): (u64, Option<TokenKey>),
        (records, proposals): (Vec<(TokenKey, Lease)>, Vec<Prep>),
        further: Option<SettingKey>,
        last: bool,
        fx: &mut Effects,
    ) {
        if !self.has_asked(exchange, &PageRequest::Leases(after)) {
            return;
        }
        let next = records.last().map(|(key, _)| *key).max(proposals.last().map(|prep| prep.key));
        self.merge_all(now, records, fx);
        if self.unmet() {
            // Any of them may have been confirmed here, and its agent answered. Known before this master promises anything, and
            // so before the other one can be lost without it.
            proposals.into_iter().for_each(|prep| self.on_propose(now, prep, fx));
        }
        match next.filter(|_| !last) {
            Some(next) => self.ask_page(now, exchange, PageRequest::Leases(Some(next)), fx),
            None => self.after_settings(now, exchange, further, fx),
        }
    }

    /// A further page of settings has been merged.
    pub(super) fn on_settings_page(
        &mut self,
        now: Now,
        exchange: u64,
        after: SettingKey,
        further: Option<SettingKey>,
        fx: &mut Effects,
    ) {
        if self.has_asked(exchange, &PageRequest::Settings(after)) {
            self.after_settings(now, exchange, further, fx);
        }
    }

    fn after_settings(&mut self, now: Now, exchange: u64, further: Option<SettingKey>, fx: &mut Effects) {
        match further {
            Some(after) => self.ask_page(now, exchange, PageRequest::Settings(after), fx),
            // All settings came, the other one's names among them: where there are sequences there may be sections.
            None if self.knows_sequences() => self.ask_page(now, exchange, PageRequest::Sections(None), fx),
            None => self.end_exchange(now, fx),
        }
    }

    fn has_asked(&self, exchange: u64, page: &PageRequest) -> bool {
        self.agreement.pair.exchange.as_ref().is_some_and(|x| x.id == exchange && x.asked == *page)
    }

    fn ask_page(&mut self, now: Now, exchange: u64, asked: PageRequest, fx: &mut Effects) {
        self.agreement.pair.exchange = Some(Exchange { id: exchange, asked: asked.clone(), asked_at: now.boot });
        let (unmet, retired) = (self.unmet(), self.settings_table.digest_of_retired());
        fx.send(match asked {
            PageRequest::Leases(after) => PeerMessage::Pull { exchange, after, unmet, retired },
            PageRequest::Settings(after) => PeerMessage::PullSettings { exchange, after, unmet, retired },
            PageRequest::Sections(after) => PeerMessage::PullSections { exchange, after, unmet },
        });
    }

    pub(super) fn on_section_page(
        &mut self,
        now: Now,
        (exchange, after): (u64, Option<SectionKey>),
        records: &[SectionRecord],
        proposals: &[SectionRecord],
        last: bool,
        fx: &mut Effects,
    ) {
        if !self.has_asked(exchange, &PageRequest::Sections(after.clone())) {
            return;
        }
        match self.merge_section_page(after.as_ref(), records, proposals, last, fx) {
            Some(next) => self.ask_page(now, exchange, PageRequest::Sections(Some(next)), fx),
            None => self.end_exchange(now, fx),
        }
    }

    fn end_exchange(&mut self, now: Now, fx: &mut Effects) {
        if self.sections_are_served().is_err() {
            self.allocators.listen(now.boot);
        }
        self.agreement.pair.exchange = None;
        self.agreement.pair.synced = true;
        self.met(fx);
        if self.agreement.pair.mode != Mode::RolledBack {
            self.agreement.pair.mode = Mode::Ready;
            // The other one may be alone in a moment: allow it to go on without waiting for the next beat.
            self.extend_permit(now, fx);
            self.say_alive(now, fx);
        }
    }

    /// The tables are exchanged: whatever this store lacks, the other master had.
    fn met(&mut self, fx: &mut Effects) {
        self.agreement.pair.unproven = None;
        self.agreement.pair.unanswered_since = None;
        self.put_lives(Lives { unproven: false, ..self.agreement.lives.clone() }, fx);
    }

    pub(crate) fn watch_peer(&mut self, now: Now, fx: &mut Effects) {
        let since = self.agreement.pair.heard.unwrap_or(self.agreement.pair.started);
        let silence = now.boot - since;
        let silent = silence >= SILENCE;
        if silent != self.agreement.pair.silent {
            fx.alarms.push(if silent { Alarm::PeerSilent } else { Alarm::PeerHeard });
            self.agreement.pair.silent = silent;
        }
        // Heard, but what this one asks is not answered: it is not heard itself.
        let unanswered = self.agreement.pair.mode == Mode::Syncing
            && self.agreement.pair.unanswered(now)
            && self.agreement.pair.doubted.is_none_or(|at| now.boot - at >= SILENCE_ALONE);
        if (silence < SILENCE_ALONE && !unanswered)
            || !self.identity().paired
            || self.agreement.pair.mode == Mode::RolledBack
        {
            return;
        }
        if silence >= SILENCE_ALONE {
            // The next meeting begins with a greeting again: one that refuses us takes nothing else.
            self.agreement.pair.synced = false;
            self.agreement.pair.exchange = None;
            self.agreement.pair.unanswered_since = None;
        }
        if let Some(why) = &self.agreement.pair.unproven {
            if !self.agreement.pair.unproven_said {
                fx.alarms.push(Alarm::Unproven(why.clone()));
                self.agreement.pair.unproven_said = true;
            }
            return;
        }
        if silence < SILENCE_ALONE {
            fx.alarms.push(Alarm::NotHeard);
        }
        self.agreement.pair.mode = Mode::ReadyAlone;
    }

    fn say_alive(&self, now: Now, fx: &mut Effects) {
        let (lsn, mode, permit) = (self.lsn(), self.mode(), self.agreement.permit_out);
        let (steady, read, reverted) = (self.calendar().steady(), self.calendar().read(), self.caution.reverted);
        fx.send(PeerMessage::Heartbeat { lsn, wall: now.wall, mode, permit, steady, read, reverted });
    }

    pub(crate) fn beat(&mut self, now: Now, fx: &mut Effects) {
        self.say_alive(now, fx);
        match &self.agreement.pair.exchange {
            Some(exchange) if now.boot - exchange.asked_at >= PAGE_WAIT => {
                let (id, asked) = (exchange.id, exchange.asked.clone());
                self.ask_page(now, id, asked, fx);
                // It may refuse whatever is not a greeting.
                if self.agreement.pair.unanswered(now) {
                    fx.send(PeerMessage::Hello(self.hello(now, true)));
                }
            }
            Some(_) => {}
            None if !self.agreement.pair.synced => fx.send(PeerMessage::Hello(self.hello(now, true))),
            None => {}
        }
    }
}
