//! Permits for the other master to go on alone, and the notes by which a rolled-back disk or clock is noticed.

use super::Pairwise;
use crate::lease::{Alarm, Effects, PeerObservations};
use crate::machine::state::Ledger;
use ids::parameters::{AgentId, MasterId, SessionId};
use ids::time::{HOUR_MS, Now, SECOND_MS, SpanMs, WallMs};
use ids::token::TokenType;
use wire::lease::{Mode, Refusal};

/// Time by which a permit has to be extensible before it is renewed.
pub(super) const PERMIT_STEP: SpanMs = SpanMs(HOUR_MS);
/// The largest difference of the two calendars at which anything is granted.
pub(super) const SKEW_MAX: SpanMs = SpanMs::seconds(300);
/// Interval at which the highest time seen is written down.
const CLOCK_STEP: SpanMs = SpanMs::seconds(60);

impl Ledger<Pairwise> {
    /// Allows the other master, at each of its heartbeats, to go on alone for a while longer. Durable before it is
    /// sent, because whatever was allowed bounds what a lost master may have promised.
    pub(super) fn extend_permit(&mut self, now: Now, fx: &mut Effects) {
        // One that is behind allows less, which harms nobody; a joined master shall not wait for it.
        if self.mode() != Mode::Ready || !self.agreement.pair.heard(now) || self.skewed() || self.calendar.far() {
            return;
        }
        let wanted = now.wall + self.identity.parameters.solo();
        if self.agreement.permit_out.is_none_or(|permit| permit + PERMIT_STEP <= wanted) {
            self.put_permit_out(Some(wanted), fx);
        }
    }

    /// Takes in the other master's permit to go on alone until then.
    pub(super) fn on_permit(&mut self, permit: Option<WallMs>, fx: &mut Effects) {
        if permit > self.agreement.observed.permit_in && self.identity.awaiting.is_none() {
            self.put_observed(PeerObservations { permit_in: permit, ..self.agreement.observed }, fx);
        }
    }

    /// Writes down, at each heartbeat of the other master, how far it has come, and how late it is by both calendars: one
    /// wrong clock alone shall not keep either from granting later.
    pub(super) fn note(&mut self, now: Now, theirs: WallMs, fx: &mut Effects) {
        let heard = self.agreement.pair.peer().map_or(0, |peer| peer.lsn);
        let peer_lsn = self.agreement.observed.peer_lsn.max(heard);
        let agreed = now.wall.min(theirs);
        let later = agreed >= self.agreement.observed.clock_high + CLOCK_STEP && self.calendar.steady();
        let clock_high = if later { agreed } else { self.agreement.observed.clock_high };
        if self.agreement.pair.turn_behind(now.wall + self.tolerated(SKEW_MAX) < clock_high) {
            fx.alarms.push(Alarm::ClockBehind((clock_high - now.wall).0));
        }
        self.put_observed(PeerObservations { peer_lsn, clock_high, ..self.agreement.observed }, fx);
    }

    /// A difference of two calendars, as wide as it looks by the clock we run by: on a test clock the time that messages are
    /// under way looks like hours.
    pub(super) fn tolerated(&self, skew: SpanMs) -> SpanMs {
        let scale = self.test_clock().map_or(1, |test| i64::from(test.scale));
        SpanMs(skew.0.saturating_mul(scale))
    }

    fn skewed(&self) -> bool {
        let tolerated = self.tolerated(SKEW_MAX);
        self.agreement.pair.peer().is_some_and(|peer| peer.skew.0.saturating_abs() > tolerated.0)
    }

    fn behind(&self, now: Now) -> bool {
        now.wall + self.tolerated(SKEW_MAX) < self.agreement.observed.clock_high
    }

    /// Takes in what an agent's calendar shows.
    pub(crate) fn on_agent_calendar(&mut self, now: Now, agent_id: &AgentId, session: SessionId, wall: WallMs) {
        if self.calendar.ahead().is_none() {
            return;
        }
        let is_open = |key| self.table.lease(key).is_some_and(|it| it.is_of(agent_id, session) && !it.deny);
        let holds = TokenType::ALL.into_iter().any(|kind| self.table.of_session(session, kind).any(is_open));
        let alike = self.calendar.is_shown_by(wall - self.calendar.read());
        self.agreement.witnesses.hear(now.boot, session, holds, alike);
    }

    /// Follows at a beat a calendar that jumped if everybody else shows it too.
    pub(crate) fn share_calendar(&mut self, now: Now, fx: &mut Effects) {
        if self.calendar.ahead().is_none() {
            return self.agreement.witnesses.clear();
        }
        let shared = self.other_shows_the_same(now) && self.agreement.witnesses.agree(now.boot);
        if self.calendar.share(shared) {
            fx.alarms.push(Alarm::CalendarShared);
        }
    }

    /// The lead of a master's calendar that it does not follow; the other's, as far as it is heard.
    pub fn calendar_ahead_of(&self, master: MasterId, now: Now) -> Option<SpanMs> {
        let own = self.calendar.ahead();
        if master == self.identity().master {
            return own;
        }
        let peer = self.agreement.pair.peer().filter(|_| self.agreement.pair.heard(now))?;
        // By what its machine shows, beside ours, and by what it goes by, beside what we do.
        let read = peer.read_apart?.0.saturating_add(own.map_or(0, |own| own.0));
        Some(SpanMs(read.saturating_sub(peer.skew.0))).filter(|ahead| self.calendar.is_jump(*ahead))
    }

    fn other_shows_the_same(&self, now: Now) -> bool {
        let apart = self.agreement.pair.peer().and_then(|peer| peer.read_apart);
        self.agreement.pair.heard(now) && apart.is_some_and(|apart| self.calendar.is_shown_by(apart))
    }

    /// The consequence of a calendar that is not followed, with the remedy.
    fn calendar_ahead(&self, now: Now) -> Option<String> {
        let ahead_s = self.calendar.ahead()?.0 / SECOND_MS;
        let missing = if !self.other_shows_the_same(now) {
            "the other master's machine does not show it"
        } else if !self.agreement.witnesses.agree(now.boot) {
            "most agents that are heard do not show it, or none is heard"
        } else {
            "all show it, for less than five minutes"
        };
        Some(format!(
            "this machine's calendar was set {ahead_s} s ahead and is not followed: this master goes by {}, and agents whose clocks are \
             different refuse to mint. Correct the calendar if it is wrong; if it is right, it is followed when the other master's machine and the \
             agents have shown it for five minutes ({missing}), or when this master is restarted",
            now.wall
        ))
    }

    /// The reason why nothing is granted by this calendar, or agents may refuse by theirs, with the remedy; for the operator.
    pub(super) fn wrong_clock(&self, now: Now) -> Option<String> {
        if let Some(why) = self.calendar_ahead(now) {
            return Some(why);
        }
        if self.skewed() {
            let apart = self.agreement.pair.peer().map_or(0, |peer| peer.skew.0) / SECOND_MS;
            return Some(format!(
                "the calendars of the two masters are {} s apart, and nothing is granted: correct the wrong one",
                apart.abs()
            ));
        }
        let forget = "stop both masters and run `uniq_master --forget-clock` on both";
        if self.calendar.far() {
            return Some(format!(
                "this master started with a calendar far ahead of the latest time that both masters ever agreed on ({}), and \
                 nothing is granted: correct the calendar and start it again; if it is right, {forget}",
                self.agreement.observed.clock_high
            ));
        }
        self.behind(now).then(|| {
            format!(
                "both masters' calendars once showed {}, which is later than now, and nothing is granted: if they were wrong \
                 then, {forget}",
                self.agreement.observed.clock_high
            )
        })
    }

    /// Checks the calendar: clocks decide nothing about safety, but a grant that begins in a wrong year locks its value up for long.
    pub(super) fn clock_is_sane(&self, now: Now) -> Result<(), Refusal> {
        if self.skewed() || self.behind(now) || self.calendar.far() {
            let max_s = u32::try_from(SKEW_MAX.0 / SECOND_MS).unwrap_or(u32::MAX);
            return Err(Refusal::ClockSkew { max_s });
        }
        Ok(())
    }
}
