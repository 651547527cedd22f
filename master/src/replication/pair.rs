//! What this master thinks of the other: is it heard, may it be believed, are the tables exchanged.
//!
//! # Modes
//!
//! `Syncing` from the start while the other may still answer: serves nothing. `Ready` once its table was read through:
//! everything. `ReadyAlone` after [`SILENCE_ALONE`] without a word, or without the other's table although it is heard:
//! renewals and reading, because a lone master whose own store is intact breaks no promise by keeping its own. A master that
//! never met its peer stays `Syncing`, and so does one whose store may be a copy or put back ([`Unproven`]) until it has met
//! its peer in this run.
//!
//! # Caveat
//!
//! Two masters that both think the other dead each go on renewing. That is safe: a renewal only lengthens what the same
//! holder has, and ending a lease needs both.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::lives::Lives;
use crate::lease::event::{Alarm, Effects, Identity, Witness};
use crate::lease::ledger::Ledger;
use crate::store::lineage::Unproven;
use common::lease::Lease;
use common::rpc;
use common::rpc::lease::Mode;
use common::rpc::peer::{Hello, PAGE_MAX, PeerFrame, PeerMessage};
use common::terms::EpochId;
use common::time::{BootMs, Now, SpanMs, WallMs};
use common::token::TokenKey;

/// Between two heartbeats.
pub const BEAT: SpanMs = SpanMs::seconds(1);
/// A master that was not heard for this long is not asked to confirm anything.
pub const SILENCE: SpanMs = SpanMs::seconds(5);
/// After this long the other one goes on alone.
pub const SILENCE_ALONE: SpanMs = SpanMs::seconds(10);
/// A page of the table that did not come is asked for again after this long.
pub const PAGE_WAIT: SpanMs = SpanMs::seconds(2);
/// A difference of the two calendars from which on operators are told.
pub const SKEW_ALARM: SpanMs = SpanMs::seconds(10);

/// One master's view of the pair.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    mode: Mode,
    started: BootMs,
    heard: Option<BootMs>,
    /// Since when it is heard without its table being read through.
    unanswered_since: Option<BootMs>,
    /// Whether the other's table was read through since it was last silent.
    synced: bool,
    exchange: Option<Exchange>,
    /// Grows with each exchange, from a random start, so that pages of an earlier life are told apart.
    exchanges: u64,
    next_beat: BootMs,
    frozen: bool,
    silent: bool,
    skewed: bool,
    behind: bool,
    /// Why the other master is not believed, although it is the one of this pairing (or there is none yet).
    refused: Option<String>,
    /// Why the store may be a copy or was put back; until the other master is met in this run.
    unproven: Option<Unproven>,
    /// Whether that was said.
    unproven_said: bool,
    /// What is wrong with whoever else wrote here last. Nothing of it is believed, and it changes nothing.
    stranger: Option<String>,
    peer: Option<PeerView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Exchange {
    id: u64,
    after: Option<TokenKey>,
    asked_at: BootMs,
}

/// What the other master last said of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PeerView {
    /// What it does; `None` before its first heartbeat.
    pub mode: Option<Mode>,
    /// Its last durable change.
    pub lsn: u64,
    /// Its calendar minus ours, when we heard it.
    pub skew: SpanMs,
    /// When, on our calendar, we last heard it.
    pub heard: WallMs,
    /// Its program's version.
    pub version: String,
}

impl Pair {
    pub(crate) fn start(now: Now, salt: u64, unproven: Option<Unproven>) -> Self {
        Self {
            mode: Mode::Syncing,
            started: now.boot,
            heard: None,
            unanswered_since: None,
            synced: false,
            exchange: None,
            exchanges: salt,
            next_beat: now.boot + BEAT,
            frozen: false,
            silent: false,
            skewed: false,
            behind: false,
            refused: None,
            unproven,
            unproven_said: false,
            stranger: None,
            peer: None,
        }
    }

    /// What this master does.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether the other master was heard lately enough to be asked for a confirmation.
    pub fn heard(&self, now: Now) -> bool {
        self.heard.is_some_and(|at| now.boot - at < SILENCE)
    }

    /// Whether granting has stopped because the two ledgers contradict each other.
    pub fn frozen(&self) -> bool {
        self.frozen
    }

    /// What the other master last said of itself.
    pub fn peer(&self) -> Option<&PeerView> {
        self.peer.as_ref()
    }

    /// Why the other master, or whoever writes in its place while it is silent, is refused.
    pub fn refused(&self, now: Now) -> Option<&str> {
        self.refused.as_deref().or(self.stranger.as_deref().filter(|_| !self.heard(now)))
    }

    /// Why this master promises nothing before it has met the other one in this run; `None` if it may.
    pub fn unproven(&self) -> Option<&Unproven> {
        self.unproven.as_ref()
    }

    pub(crate) fn freeze(&mut self) {
        self.frozen = true;
    }

    pub(crate) fn next_beat(&self) -> BootMs {
        self.next_beat
    }

    pub(crate) fn take_beat(&mut self, now: Now) -> bool {
        let due = now.boot >= self.next_beat;
        if due {
            self.next_beat = now.boot + BEAT;
        }
        due
    }

    /// Notes whether the calendar is behind what it once was; `true` when that begins.
    pub(crate) fn turn_behind(&mut self, behind: bool) -> bool {
        let begins = behind && !self.behind;
        self.behind = behind;
        begins
    }

    pub(crate) fn roll_back(&mut self) {
        self.mode = Mode::RolledBack;
        self.exchange = None;
    }

    fn view(&mut self) -> &mut PeerView {
        self.peer.get_or_insert_default()
    }
}

impl Ledger {
    /// A new connection stands: say who we are.
    pub(crate) fn greet(&mut self, now: Now, fx: &mut Effects) {
        fx.send(self.hello(now, true, None));
    }

    fn hello(&self, now: Now, answer: bool, retired: Option<EpochId>) -> PeerMessage {
        PeerMessage::Hello(Hello {
            lsn: self.lsn(),
            seen: self.witness.peer_lsn,
            terms: self.identity().terms,
            wall: now.wall,
            test_clock: self.test_clock(),
            version: self.version().to_owned(),
            answer,
            retired,
        })
    }

    /// Believes a message only if it comes from the other master of this pairing. A greeting may also come from one that
    /// we have never met.
    pub(crate) fn admit(&mut self, now: Now, frame: PeerFrame, fx: &mut Effects) -> Option<PeerMessage> {
        let refusal = self.refusal(&frame);
        let met = self.identity().cluster.is_some() && frame.cluster.is_some();
        let greeting = matches!(frame.message, PeerMessage::Hello(_));
        if let Some(why) = refusal {
            let me = self.identity();
            let of_this_pairing = frame.from != me.master && frame.cluster == me.cluster && frame.epoch == me.epoch;
            let why_before =
                if of_this_pairing || !me.paired { &mut self.pair.refused } else { &mut self.pair.stranger };
            if why_before.as_ref() != Some(&why) {
                fx.alarms.push(Alarm::PeerRefused(why.clone()));
            }
            *why_before = Some(why);
            self.on_other_pairing(now, &frame, fx);
            // One whose disk was rolled back must hear of it, or it would soon go on alone. Only one that wants an answer:
            // two that are each behind what the other has seen would never stop.
            if let PeerMessage::Hello(hello) = &frame.message
                && hello.answer
                && hello.lsn < self.witness.peer_lsn
                && (of_this_pairing || frame.cluster.is_none())
            {
                fx.send(self.hello(now, false, None));
            }
            return None;
        }
        if greeting {
            self.adopt_cluster(&frame, fx);
        } else if !met || self.pair.refused.is_some() {
            return None;
        }
        self.pair.refused = None;
        if self.identity().paired {
            self.pair.heard = Some(now.boot);
            if !self.pair.synced {
                self.pair.unanswered_since.get_or_insert(now.boot);
            }
            self.pair.view().heard = now.wall;
        }
        Some(frame.message)
    }

    /// Mail of another pairing of this cluster. Whoever is left behind in an earlier one, restored from a backup or
    /// replaced while it lived, is told so once a connection; whoever is told stops for good, before an operator may think
    /// that it is the one to go on with. The id of the earlier pairing is the proof: only its masters know it.
    fn on_other_pairing(&mut self, now: Now, frame: &PeerFrame, fx: &mut Effects) {
        let me = self.identity();
        let PeerMessage::Hello(hello) = &frame.message else { return };
        if frame.from == me.master || frame.cluster != me.cluster || frame.epoch == me.epoch {
            return;
        }
        let left_behind = frame.epoch.filter(|epoch| me.former.contains(epoch));
        if hello.answer && left_behind.is_some() {
            return fx.send(self.hello(now, false, left_behind));
        }
        if hello.retired.is_some() && hello.retired == me.epoch {
            if self.mode() != Mode::RolledBack {
                fx.alarms.push(Alarm::Replaced);
            }
            self.put_witness(Witness { rolled_back: true, ..self.witness }, fx);
            self.pair.roll_back();
        }
    }

    fn refusal(&self, frame: &PeerFrame) -> Option<String> {
        let me = self.identity();
        if frame.protocol != rpc::PROTOCOL {
            let (here, there) = (rpc::PROTOCOL, frame.protocol);
            return Some(format!("it speaks protocol {there}, this one {here}: install the same version on both"));
        }
        if frame.from == me.master {
            return Some(format!(
                "it says that it is master {} too: format one of them with the other --id",
                me.master
            ));
        }
        match (me.cluster, frame.cluster) {
            (Some(here), Some(there)) if here != there => {
                return Some(format!("it belongs to cluster {there}, this one to {here}: check --peer and --data-dir"));
            }
            (Some(_), None) if me.paired => {
                return Some(
                    "its store is freshly formatted, but this cluster had another master in its place; a lost store \
                     cannot be replaced by an empty one"
                        .to_owned(),
                );
            }
            (None, None) if me.master == common::terms::MasterId::One => {
                return Some("neither of the two stores belongs to a cluster: format them again".to_owned());
            }
            _ => {}
        }
        if me.epoch.is_some() && frame.epoch.is_some() && me.epoch != frame.epoch {
            return Some("it belongs to another pairing of this cluster: it was replaced, or this one was".to_owned());
        }
        if me.awaiting.is_some() {
            return Some("this master waits for a replacement to join with its token".to_owned());
        }
        let PeerMessage::Hello(hello) = &frame.message else { return None };
        if hello.lsn < self.witness.peer_lsn {
            let (there, seen) = (hello.lsn, self.witness.peer_lsn);
            return Some(format!(
                "its ledger ends at change {there}, but change {seen} of it was seen here: its disk was rolled back. \
                 Stop it, and run `uniq_master --peer-lost` here"
            ));
        }
        if hello.terms != me.terms {
            let (here, there) = (me.terms, hello.terms);
            return Some(format!("it was formatted with other parameters ({there}) than this one ({here})"));
        }
        if hello.test_clock != self.test_clock() {
            return Some("the two run by different clocks: give both the same --test-clock, or none".to_owned());
        }
        None
    }

    /// The first meeting: master 2 takes over what master 1 drew, master 1 notes that it happened.
    fn adopt_cluster(&mut self, frame: &PeerFrame, fx: &mut Effects) {
        let me = self.identity();
        if me.paired || frame.cluster.is_none() {
            return;
        }
        let paired = Identity {
            cluster: me.cluster.or(frame.cluster),
            epoch: me.epoch.or(frame.epoch),
            paired: true,
            ..me.clone()
        };
        self.put_identity(paired, fx);
    }

    pub(crate) fn on_hello(&mut self, now: Now, hello: &Hello, fx: &mut Effects) {
        if hello.answer {
            fx.send(self.hello(now, false, None));
        }
        if !self.identity().paired {
            return;
        }
        if hello.seen > self.lsn() {
            if self.mode() != Mode::RolledBack {
                fx.alarms.push(Alarm::RolledBack { mine: self.lsn(), seen: hello.seen });
            }
            self.put_witness(Witness { rolled_back: true, ..self.witness }, fx);
            return self.pair.roll_back();
        }
        let view = self.pair.view();
        view.lsn = hello.lsn;
        view.version.clone_from(&hello.version);
        self.compare_clocks(now, hello.wall, fx);
        self.begin_exchange(now, fx);
    }

    pub(crate) fn on_peer_heartbeat(&mut self, now: Now, lsn: u64, wall: WallMs, mode: Mode, fx: &mut Effects) {
        let view = self.pair.view();
        // Late mail does not make it younger.
        view.lsn = view.lsn.max(lsn);
        view.mode = Some(mode);
        self.compare_clocks(now, wall, fx);
    }

    fn compare_clocks(&mut self, now: Now, theirs: WallMs, fx: &mut Effects) {
        let skew = theirs - now.wall;
        self.pair.view().skew = skew;
        let skewed = skew.0.saturating_abs() > self.tolerated(SKEW_ALARM).0;
        if skewed && !self.pair.skewed {
            fx.alarms.push(Alarm::ClockSkew(skew.0));
        }
        self.pair.skewed = skewed;
    }

    fn begin_exchange(&mut self, now: Now, fx: &mut Effects) {
        self.pair.exchanges = self.pair.exchanges.wrapping_add(1);
        let id = self.pair.exchanges;
        self.pair.exchange = Some(Exchange { id, after: None, asked_at: now.boot });
        fx.send(PeerMessage::Pull { exchange: id, after: None });
    }

    pub(crate) fn on_pull(&mut self, exchange: u64, after: Option<TokenKey>, fx: &mut Effects) {
        let mut records: Vec<(TokenKey, Lease)> =
            self.table().leases_after(after).take(PAGE_MAX + 1).map(|(key, lease)| (key, lease.clone())).collect();
        let last = records.len() <= PAGE_MAX;
        records.truncate(PAGE_MAX);
        let settings = if last { self.book().all().cloned().collect() } else { Vec::new() };
        fx.send(PeerMessage::Page { exchange, after, records, settings, last });
    }

    pub(crate) fn on_page(
        &mut self,
        now: Now,
        exchange: u64,
        after: Option<TokenKey>,
        records: Vec<(TokenKey, Lease)>,
        last: bool,
        fx: &mut Effects,
    ) {
        let asked = self.pair.exchange.as_ref().is_some_and(|x| x.id == exchange && x.after == after);
        if !asked {
            return;
        }
        let next = records.last().map(|(key, _)| *key);
        self.merge_all(now, records, fx);
        match next.filter(|_| !last) {
            Some(next) => {
                self.pair.exchange = Some(Exchange { id: exchange, after: Some(next), asked_at: now.boot });
                fx.send(PeerMessage::Pull { exchange, after: Some(next) });
            }
            None => {
                self.pair.exchange = None;
                self.pair.synced = true;
                self.met(fx);
                if self.pair.mode != Mode::RolledBack {
                    self.pair.mode = Mode::Ready;
                    // The other one may be alone in a moment: allow it to go on without waiting for the next beat.
                    self.extend_permit(now, fx);
                    self.say_alive(now, fx);
                }
            }
        }
    }

    /// The tables are exchanged: whatever this store lacks, the other master had.
    fn met(&mut self, fx: &mut Effects) {
        self.pair.unproven = None;
        self.pair.unanswered_since = None;
        self.put_lives(Lives { unproven: false, ..self.lives.clone() }, fx);
    }

    pub(crate) fn watch_peer(&mut self, now: Now, fx: &mut Effects) {
        let since = self.pair.heard.unwrap_or(self.pair.started);
        let silence = now.boot - since;
        let silent = silence >= SILENCE;
        if silent != self.pair.silent {
            fx.alarms.push(if silent { Alarm::PeerSilent } else { Alarm::PeerHeard });
            self.pair.silent = silent;
        }
        // Heard, but what this one asks is not answered: it is not heard itself.
        let unanswered = self.pair.mode == Mode::Syncing
            && self.pair.unanswered_since.is_some_and(|since| now.boot - since >= SILENCE_ALONE);
        if (silence < SILENCE_ALONE && !unanswered) || !self.identity().paired || self.pair.mode == Mode::RolledBack {
            return;
        }
        if let Some(why) = &self.pair.unproven {
            if !self.pair.unproven_said {
                fx.alarms.push(Alarm::Unproven(why.clone()));
                self.pair.unproven_said = true;
            }
            return;
        }
        if silence >= SILENCE_ALONE {
            self.pair.synced = false;
            self.pair.exchange = None;
            self.pair.unanswered_since = None;
        } else {
            fx.alarms.push(Alarm::NotHeard);
        }
        self.pair.mode = Mode::ReadyAlone;
    }

    fn say_alive(&self, now: Now, fx: &mut Effects) {
        let (lsn, mode, permit) = (self.lsn(), self.mode(), self.permit_out);
        fx.send(PeerMessage::Heartbeat { lsn, wall: now.wall, mode, permit });
    }

    pub(crate) fn beat(&mut self, now: Now, fx: &mut Effects) {
        self.say_alive(now, fx);
        match &self.pair.exchange {
            Some(exchange) if now.boot - exchange.asked_at >= PAGE_WAIT => {
                let (id, after) = (exchange.id, exchange.after);
                self.pair.exchange = Some(Exchange { id, after, asked_at: now.boot });
                fx.send(PeerMessage::Pull { exchange: id, after });
            }
            Some(_) => {}
            None if !self.pair.synced => fx.send(self.hello(now, true, None)),
            None => {}
        }
    }
}
