//! This master's view of the other: is it heard, may it be believed, are the tables exchanged.
//!
//! # Modes
//! `Syncing` from the start while the other may still answer: serves nothing. `Ready` once its table was read through:
//! everything. `ReadyAlone` after [`SILENCE_ALONE`] without a word, or without the other's table although it is heard:
//! renewals and reading, because a lone master whose own store is intact breaks no promise by keeping its own. A master that
//! never met its peer stays `Syncing`, and so does one whose store may be a copy or put back ([`Unproven`]) until it has met
//! its peer in this run.
//!
//! # Caveat
//! Two masters that both think the other dead each go on renewing. That is safe: a renewal only lengthens what the same
//! holder has, and ending a lease needs both.

use super::lives::{Lives, Unproven};
use ids::sequence::SectionKey;
use ids::setting::SettingKey;
use ids::time::{BootMs, Now, SpanMs, WallMs};
use ids::token::TokenKey;
use wire::lease::Mode;
use wire::peer::Life;

/// Interval between two heartbeats.
pub const BEAT: SpanMs = SpanMs::seconds(1);
/// Silence after which a master is not asked to confirm anything.
pub const SILENCE: SpanMs = SpanMs::seconds(5);
/// Silence after which the other one goes on alone.
pub const SILENCE_ALONE: SpanMs = SpanMs::seconds(10);
/// Time after which a page of the table that did not come is asked for again.
pub const PAGE_WAIT: SpanMs = SpanMs::seconds(2);
/// Time that the other master has to say again what would stop one of the two.
pub const CHALLENGE_WAIT: SpanMs = SpanMs::seconds(10);
/// The smallest difference of the two calendars that operators are told of.
pub const SKEW_ALARM: SpanMs = SpanMs::seconds(10);

/// One master's view of the pair.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    pub(crate) mode: Mode,
    pub(crate) started: BootMs,
    pub(crate) heard: Option<BootMs>,
    /// The moment since which it is heard without its table being read through.
    pub(crate) unanswered_since: Option<BootMs>,
    /// True once the other's table was read through since it was last silent.
    pub(crate) synced: bool,
    pub(crate) exchange: Option<Exchange>,
    /// Grows with each exchange, from a random start, so that pages of an earlier life are told apart.
    pub(crate) exchanges: u64,
    pub(crate) next_beat: BootMs,
    pub(crate) frozen: bool,
    pub(crate) silent: bool,
    pub(crate) skewed: bool,
    pub(crate) behind: bool,
    /// The number that the other master was asked to say again before a greeting stops anybody.
    pub(crate) challenge: Option<Challenge>,
    pub(crate) challenges: u64,
    /// Time at which a greeting was last heard that says that this master must not go on, and was not said again yet.
    pub(crate) doubted: Option<BootMs>,
    /// The doubt that was said again and acted on, and the life of the other master that said it.
    pub(crate) settled: Option<(Doubt, Life)>,
    /// The reason why the other master is not believed, although it is the one of this pairing (or there is none yet).
    pub(crate) refused: Option<String>,
    /// The fault of a life that is not the accepted one, as of a copy of the other master's store; until the other master greets.
    pub(crate) copy: Option<String>,
    /// The reason why the store may be a copy or was put back; until the other master is met in this run.
    pub(crate) unproven: Option<Unproven>,
    /// True once that was said.
    pub(crate) unproven_said: bool,
    /// The fault of whoever else wrote here last. Nothing of it is believed, and it changes nothing.
    pub(crate) stranger: Option<String>,
    /// True if a new connection was made to the other master's place, and it was not heard since.
    pub(crate) connected_anew: bool,
    pub(crate) peer: Option<PeerView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Exchange {
    pub(crate) id: u64,
    pub(crate) asked: PageRequest,
    pub(crate) asked_at: BootMs,
}

/// The page that was asked for last, by what it follows: first all leases, then the settings that did not fit the last page of those, then
/// the sections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PageRequest {
    Leases(Option<TokenKey>),
    Settings(SettingKey),
    Sections(Option<SectionKey>),
}

/// A greeting that would stop one of the masters may be days old. So it is answered with a number that was never used, and
/// only a greeting that names it counts: it was made after what was known here when the number was drawn.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Challenge {
    pub(crate) number: u64,
    pub(crate) at: BootMs,
    /// The other master's last change that was heard of by then.
    pub(crate) peer_lsn: u64,
    /// This master's memory of both masters' starts by then.
    pub(crate) lives: Lives,
}

/// The master that must not go on, by a greeting, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Doubt {
    TheirsBehind,
    /// Two stores of the other master exist.
    TheirsCopied,
    /// This master has forgotten changes.
    OursBehind,
    /// Two stores of this master exist.
    OursCopied,
}

/// The state that the other master last reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PeerView {
    /// Its mode; `None` before its first heartbeat.
    pub mode: Option<Mode>,
    pub lsn: u64,
    /// Its calendar minus ours, when we heard it.
    pub skew: SpanMs,
    /// The calendar of its machine minus that of ours, as they were read, when we heard it.
    pub read_apart: Option<SpanMs>,
    /// Time at which it was last heard, on our calendar.
    pub heard: WallMs,
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
            copy: None,
            unproven,
            unproven_said: false,
            stranger: None,
            connected_anew: false,
            peer: None,
        }
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Tells whether the other master was heard lately enough to be asked for a confirmation.
    pub fn heard(&self, now: Now) -> bool {
        self.heard.is_some_and(|at| now.boot - at < SILENCE)
    }

    /// Tells whether granting has stopped because the two ledgers contradict each other.
    pub fn frozen(&self) -> bool {
        self.frozen
    }

    pub fn peer(&self) -> Option<&PeerView> {
        self.peer.as_ref()
    }

    /// The reason why the other master, or whoever writes in its place while it is away, is refused.
    //
    // Before it counts as silent it may have ended: then the connection to it did, and whoever is there now is not it. No stranger ends
    // that connection.
    pub fn refused(&self, now: Now) -> Option<&str> {
        let absent = self.connected_anew || !self.heard(now);
        self.refused.as_deref().or(self.copy.as_deref().or(self.stranger.as_deref()).filter(|_| absent))
    }

    /// The reason why this master promises nothing before it has met the other one in this run; `None` if it may.
    pub fn unproven(&self) -> Option<&Unproven> {
        self.unproven.as_ref()
    }

    pub(crate) fn freeze(&mut self) {
        self.frozen = true;
    }

    /// Tells whether the other one has been heard for long without its table being read through.
    pub(crate) fn unanswered(&self, now: Now) -> bool {
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

    /// Tells whether pages of this exchange are waited for.
    pub(crate) fn exchanges(&self, id: u64) -> bool {
        self.exchange.as_ref().is_some_and(|exchange| exchange.id == id)
    }

    pub(crate) fn roll_back(&mut self) {
        self.mode = Mode::RolledBack;
        self.exchange = None;
    }

    pub(crate) fn view(&mut self) -> &mut PeerView {
        self.peer.get_or_insert_default()
    }
}
