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

use super::lives::{Follows, Lives};
use crate::lease::caution::Unproven;
use crate::lease::event::{Alarm, Effects, Identity, PeerObservations};
use crate::lease::ledger::Ledger;
use common::lease::{Lease, Prep};
use common::parameters::MasterId;
use common::rpc;
use common::rpc::lease::Mode;
use common::rpc::peer::{Hello, PeerFrame, PeerMessage};
use common::setting::Setting;
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
/// How long the other master may take to say again what would stop one of the two.
pub const CHALLENGE_WAIT: SpanMs = SpanMs::seconds(10);
/// A difference of the two calendars from which on operators are told.
pub const SKEW_ALARM: SpanMs = SpanMs::seconds(10);

/// What an operator has to do who formatted the store of a master that was lost.
const FORMATTED_ANEW: &str = "If it was formatted anew because it was lost: a lost store is not replaced by an empty one. Stop both \
                              masters, run `uniq_master --peer-lost` here, and make the other's store with --join instead of \
                              --format";

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
    /// What the other master was asked to say again before a greeting stops anybody.
    challenge: Option<Challenge>,
    challenges: u64,
    /// When a greeting was last heard that says that this master must not go on, and was not said again yet.
    doubted: Option<BootMs>,
    /// What was said again and acted on.
    settled: Option<Doubt>,
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

/// A greeting that would stop one of the masters may be days old. So it is answered with a number that was never used, and
/// only a greeting that names it counts: it was made after what was known here when the number was drawn.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Challenge {
    number: u64,
    at: BootMs,
    /// The other master's last change that was heard of by then.
    peer_lsn: u64,
    /// What was remembered of both masters' starts by then.
    lives: Lives,
}

/// Who must not go on, by a greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Doubt {
    /// The other master has forgotten changes.
    TheirsBehind,
    /// There are two stores of the other master's.
    TheirsCopied,
    /// This one has forgotten changes.
    OursBehind,
    /// There are two stores of this one's.
    OursCopied,
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
            challenge: None,
            challenges: salt,
            doubted: None,
            settled: None,
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

    /// Whether the other one has been heard for long without its table being read through.
    fn unanswered(&self, now: Now) -> bool {
        self.unanswered_since.is_some_and(|since| now.boot - since >= SILENCE_ALONE)
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

    /// Whether pages of this exchange are waited for.
    pub(crate) fn exchanges(&self, id: u64) -> bool {
        self.exchange.as_ref().is_some_and(|exchange| exchange.id == id)
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
        fx.send(PeerMessage::Hello(self.hello(now, true)));
    }

    /// A message to the other master with who says it to whom: of which pairing, and in which lives.
    pub fn frame(&self, message: PeerMessage) -> PeerFrame {
        let me = self.identity();
        let (epoch, life, to) = (message.said_in(me.epoch), self.lives.present(), self.lives.peer);
        PeerFrame { protocol: rpc::PROTOCOL, from: me.master, cluster: me.cluster, epoch, life, to, message }
    }

    fn hello(&self, now: Now, answer: bool) -> Hello {
        Hello {
            lsn: self.lsn(),
            seen: self.observed.peer_lsn,
            parameters: self.identity().parameters,
            wall: now.wall,
            test_clock: self.test_clock(),
            version: self.version().to_owned(),
            answer,
            retired: None,
            lives: self.lives.own.clone(),
            accepted: self.lives.peer,
            copied: self.lives.peer_copied,
            challenge: None,
            echo: None,
            users: self.first_users().filter(|_| !self.identity().paired).map(Box::new),
        }
    }

    /// Believes a message only if it is proved to come from the other master of this pairing. A greeting may also come from
    /// one that we have never met, as long as we have met nobody. Whatever is not a greeting has to be of the life that greeted
    /// last, and meant for this one; whoever speaks in another one, or to another one, is asked to greet.
    pub(crate) fn admit(&mut self, now: Now, frame: PeerFrame, fx: &mut Effects) -> Option<PeerMessage> {
        let me = self.identity();
        let of_this_pairing = frame.from != me.master && me.epoch.is_some() && frame.epoch == me.epoch;
        if let Some(why) = self.refusal(&frame) {
            self.note_refusal(why, of_this_pairing, fx);
            self.on_other_pairing(now, &frame, fx);
            return None;
        }
        if let PeerMessage::Hello(hello) = &frame.message {
            if of_this_pairing && hello.retired.is_some() && hello.retired == me.epoch {
                self.replaced(fx);
                return None;
            }
            if of_this_pairing && me.paired && !self.undoubted(now, hello, fx) {
                return None;
            }
            self.adopt_cluster(&frame, hello.users.as_deref(), fx);
        } else if frame.epoch.is_none() || self.pair.refused.is_some() {
            return None;
        } else if of_this_pairing && me.paired && frame.is_between_others(self.lives.present(), self.lives.peer) {
            fx.answer(PeerMessage::Hello(self.hello(now, true)));
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

    /// Keeps why somebody is not believed, for the operator. Nothing else changes.
    fn note_refusal(&mut self, why: String, of_this_pairing: bool, fx: &mut Effects) {
        let ours = of_this_pairing || !self.identity().paired;
        let why_before = if ours { &mut self.pair.refused } else { &mut self.pair.stranger };
        if why_before.as_ref() != Some(&why) {
            fx.alarms.push(Alarm::PeerRefused(why.clone()));
        }
        *why_before = Some(why);
    }

    /// Somebody writes to the peer port who proves nothing.
    pub(crate) fn on_stranger(&mut self, why: String, fx: &mut Effects) {
        self.note_refusal(why, false, fx);
    }

    /// Messages of another pairing of this cluster. Whoever is left behind in an earlier one, restored from a backup or
    /// replaced while it lived, is told so, on the connection by which it came; whoever is told stops for good, before an
    /// operator may think that it is the one to go on with. The id of the earlier pairing is the proof: only its masters
    /// know it.
    fn on_other_pairing(&mut self, now: Now, frame: &PeerFrame, fx: &mut Effects) {
        let me = self.identity();
        let PeerMessage::Hello(hello) = &frame.message else { return };
        if frame.from == me.master || frame.epoch == me.epoch {
            return;
        }
        let left_behind = frame.epoch.filter(|epoch| me.former.contains(epoch));
        if hello.answer && left_behind.is_some() {
            fx.answer(PeerMessage::Hello(Hello { retired: left_behind, ..self.hello(now, false) }));
        }
    }

    /// This master's pairing is over.
    pub(crate) fn replaced(&mut self, fx: &mut Effects) {
        if self.mode() != Mode::RolledBack {
            fx.alarms.push(Alarm::Replaced);
        }
        self.stop_for_good(fx);
    }

    fn stop_for_good(&mut self, fx: &mut Effects) {
        self.put_observed(PeerObservations { rolled_back: true, ..self.observed }, fx);
        self.pair.roll_back();
    }

    /// Whether a greeting of this pairing may be taken in: not if it says that one of the two must not go on. If that was
    /// asked for just now, it is acted on; otherwise the greeting may be an old one, and the other master is asked to say it
    /// again. What it asks us to say again is said.
    fn undoubted(&mut self, now: Now, hello: &Hello, fx: &mut Effects) -> bool {
        let doubt = self.doubt(hello, self.observed.peer_lsn, &self.lives);
        let mut challenge = None;
        let mut answers = hello.challenge.is_some();
        match doubt {
            None => (self.pair.doubted, self.pair.settled) = (None, None),
            // Known already; whoever is meant may not know it yet.
            Some(doubt) if self.pair.settled == Some(doubt) => answers |= hello.answer,
            Some(doubt) if self.said_again(now, doubt, hello) => {
                self.pair.settled = Some(doubt);
                self.act_on(doubt, hello, fx);
                answers = true;
            }
            Some(doubt) => {
                if matches!(doubt, Doubt::OursBehind | Doubt::OursCopied) {
                    self.pair.doubted = Some(now.boot);
                }
                challenge = Some(self.challenge(now));
                answers = true;
            }
        }
        if answers {
            fx.answer(PeerMessage::Hello(Hello { challenge, echo: hello.challenge, ..self.hello(now, false) }));
        }
        doubt.is_none()
    }

    /// Whether a greeting names the number that the other master was asked for, and says so also by what was known then.
    fn said_again(&mut self, now: Now, doubt: Doubt, hello: &Hello) -> bool {
        let asked = self.pair.challenge.take_if(|challenge| hello.echo == Some(challenge.number));
        let asked = asked.filter(|challenge| now.boot - challenge.at < CHALLENGE_WAIT);
        asked.is_some_and(|then| self.doubt(hello, then.peer_lsn, &then.lives) == Some(doubt))
    }

    /// The number that the other master has to name: that of a moment ago, or a new one.
    fn challenge(&mut self, now: Now) -> u64 {
        if let Some(open) = self.pair.challenge.as_ref().filter(|open| now.boot - open.at < CHALLENGE_WAIT) {
            return open.number;
        }
        self.pair.challenges = self.pair.challenges.wrapping_add(1);
        let number = self.pair.challenges;
        let (peer_lsn, lives) = (self.observed.peer_lsn, self.lives.clone());
        self.pair.challenge = Some(Challenge { number, at: now.boot, peer_lsn, lives });
        number
    }

    /// Who must not go on if this greeting is true, by what was known here at some time.
    fn doubt(&self, hello: &Hello, peer_lsn: u64, lives: &Lives) -> Option<Doubt> {
        let (ours, theirs) = (lives.follow(hello.accepted), lives.peer_follows(&hello.lives));
        if hello.seen > self.lsn() {
            Some(Doubt::OursBehind)
        } else if hello.copied || ours == Follows::Otherwise || theirs == Follows::Later {
            Some(Doubt::OursCopied)
        } else if hello.lsn < peer_lsn {
            Some(Doubt::TheirsBehind)
        } else if self.lives.peer_copied || theirs == Follows::Otherwise || ours == Follows::Later {
            Some(Doubt::TheirsCopied)
        } else {
            None
        }
    }

    fn act_on(&mut self, doubt: Doubt, hello: &Hello, fx: &mut Effects) {
        let stopped_before = self.mode() == Mode::RolledBack;
        match doubt {
            Doubt::OursBehind => {
                if !stopped_before {
                    fx.alarms.push(Alarm::RolledBack { mine: self.lsn(), seen: hello.seen });
                }
                self.stop_for_good(fx);
            }
            Doubt::OursCopied => {
                if !stopped_before {
                    fx.alarms.push(Alarm::Copied);
                }
                self.stop_for_good(fx);
            }
            Doubt::TheirsBehind => {
                let (there, seen) = (hello.lsn, self.observed.peer_lsn);
                let why = format!(
                    "its ledger ends at change {there}, but change {seen} of it was seen here: its disk was rolled back. \
                     Stop it, and run `uniq_master --peer-lost` here"
                );
                self.note_refusal(why, true, fx);
            }
            Doubt::TheirsCopied => {
                if !self.lives.peer_copied {
                    fx.alarms.push(Alarm::PeerCopied);
                    self.put_lives(Lives { peer_copied: true, ..self.lives.clone() }, fx);
                }
                // The next beats tell the other of the two, if it is there that `--peer` leads.
                self.pair.synced = false;
                self.pair.refused = Some(Alarm::PeerCopied.to_string());
            }
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
                // Only a store that never met another says of which cluster it is.
                let why = format!("it belongs to cluster {there}, this one to {here}: check --peer and --data-dir");
                return Some(if me.paired { format!("{why}. {FORMATTED_ANEW}") } else { why });
            }
            (Some(_), None) if me.paired => {
                return Some(format!(
                    "its store was formatted anew and belongs to no cluster, but this one has met another in its place. \
                     {FORMATTED_ANEW}"
                ));
            }
            (None, None) if me.master == MasterId::One => {
                return Some("neither of the two stores belongs to a cluster: format them again".to_owned());
            }
            _ => {}
        }
        if me.epoch.is_some() && frame.epoch.is_some() && me.epoch != frame.epoch {
            return Some("it belongs to another pairing of this cluster: it was replaced, or this one was".to_owned());
        }
        if me.paired && frame.epoch.is_none() {
            return Some(
                "it does not prove that it belongs to this pairing: check --peer and --data-dir on both".to_owned(),
            );
        }
        if me.awaiting.is_some() {
            return Some("this master waits for a replacement to join with its token".to_owned());
        }
        let PeerMessage::Hello(hello) = &frame.message else { return None };
        if hello.parameters != me.parameters {
            let (here, there) = (me.parameters, hello.parameters);
            return Some(format!("it was formatted with other parameters ({there}) than this one ({here})"));
        }
        if hello.test_clock != self.test_clock() {
            return Some("the two run by different clocks: give both the same --test-clock, or none".to_owned());
        }
        None
    }

    /// The first meeting: master 2 takes over what master 1 drew, master 1 notes that it happened.
    fn adopt_cluster(&mut self, frame: &PeerFrame, users: Option<&Setting>, fx: &mut Effects) {
        let me = self.identity();
        if me.paired || frame.cluster.is_none() || frame.epoch.is_none() {
            return;
        }
        let paired = Identity {
            cluster: me.cluster.or(frame.cluster),
            epoch: me.epoch.or(frame.epoch),
            paired: true,
            ..me.clone()
        };
        self.put_identity(paired, fx);
        if let Some(users) = users {
            self.take_first_users(users, fx);
        }
    }

    pub(crate) fn on_hello(&mut self, now: Now, hello: &Hello, fx: &mut Effects) {
        if hello.answer {
            fx.answer(PeerMessage::Hello(self.hello(now, false)));
        }
        if !self.identity().paired {
            return;
        }
        let mut lives = self.lives.clone();
        if let Some(accepted) = hello.accepted {
            lives.accepted(accepted);
        }
        lives.peer = hello.lives.last().copied().or(lives.peer);
        self.put_lives(lives, fx);
        let view = self.pair.view();
        view.lsn = hello.lsn;
        view.version.clone_from(&hello.version);
        self.compare_clocks(now, hello.wall, fx);
        self.tell_first_whitelist(fx);
        self.begin_exchange(now, fx);
    }

    pub(crate) fn on_peer_heartbeat(&mut self, now: Now, lsn: u64, wall: WallMs, mode: Mode, fx: &mut Effects) {
        let view = self.pair.view();
        // Late messages do not make it younger.
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
        fx.send(PeerMessage::Pull { exchange: id, after: None, unmet: self.unmet() });
    }

    pub(crate) fn on_pull(&mut self, now: Now, exchange: u64, after: Option<TokenKey>, unmet: bool, fx: &mut Effects) {
        if unmet && after.is_none() {
            self.lift_what_was_permitted(now, fx);
        }
        // Whoever may have forgotten a confirmation is handed the proposals too: no agent heard of any other grant that is not
        // among the records.
        let (records, proposals, last) = self.table().page(after, unmet);
        let settings = if last { self.settings_table().all().cloned().collect() } else { Vec::new() };
        let memory = self.memory();
        fx.send(PeerMessage::Page { exchange, after, records, proposals, settings, memory, last });
    }

    pub(crate) fn on_page(
        &mut self,
        now: Now,
        (exchange, after): (u64, Option<TokenKey>),
        records: Vec<(TokenKey, Lease)>,
        proposals: Vec<Prep>,
        last: bool,
        fx: &mut Effects,
    ) {
        let asked = self.pair.exchange.as_ref().is_some_and(|x| x.id == exchange && x.after == after);
        if !asked {
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
            Some(next) => {
                self.pair.exchange = Some(Exchange { id: exchange, after: Some(next), asked_at: now.boot });
                fx.send(PeerMessage::Pull { exchange, after: Some(next), unmet: self.unmet() });
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
            && self.pair.unanswered(now)
            && self.pair.doubted.is_none_or(|at| now.boot - at >= SILENCE_ALONE);
        if (silence < SILENCE_ALONE && !unanswered) || !self.identity().paired || self.pair.mode == Mode::RolledBack {
            return;
        }
        if silence >= SILENCE_ALONE {
            // The next meeting begins with a greeting again: one that refuses us takes nothing else.
            self.pair.synced = false;
            self.pair.exchange = None;
            self.pair.unanswered_since = None;
        }
        if let Some(why) = &self.pair.unproven {
            if !self.pair.unproven_said {
                fx.alarms.push(Alarm::Unproven(why.clone()));
                self.pair.unproven_said = true;
            }
            return;
        }
        if silence < SILENCE_ALONE {
            fx.alarms.push(Alarm::NotHeard);
        }
        self.pair.mode = Mode::ReadyAlone;
    }

    fn say_alive(&self, now: Now, fx: &mut Effects) {
        let (lsn, mode, permit) = (self.lsn(), self.mode(), self.permit_out);
        let (steady, reverted) = (self.calendar().steady(), self.caution.reverted);
        fx.send(PeerMessage::Heartbeat { lsn, wall: now.wall, mode, permit, steady, reverted });
    }

    pub(crate) fn beat(&mut self, now: Now, fx: &mut Effects) {
        self.say_alive(now, fx);
        match &self.pair.exchange {
            Some(exchange) if now.boot - exchange.asked_at >= PAGE_WAIT => {
                let (id, after) = (exchange.id, exchange.after);
                self.pair.exchange = Some(Exchange { id, after, asked_at: now.boot });
                fx.send(PeerMessage::Pull { exchange: id, after, unmet: self.unmet() });
                // It may refuse whatever is not a greeting.
                if self.pair.unanswered(now) {
                    fx.send(PeerMessage::Hello(self.hello(now, true)));
                }
            }
            Some(_) => {}
            None if !self.pair.synced => fx.send(PeerMessage::Hello(self.hello(now, true))),
            None => {}
        }
    }
}
