//! The state of the two masters, in one sentence and in a card for each.

use crate::ask::Snapshot;
use crate::masters::{MasterMode, MasterRow};
use crate::text::{Grain, When, grouped, skew, span};
use crate::words::{Words, fill};
use askama::Template;
use common::time::WallMs;
use net::rpc::lease::Mode;

/// The smallest difference of the masters' clocks that the page warns of, in milliseconds (`docs/understand/argument.md`: the alarm).
pub(super) const SKEW_ALARM_MS: u64 = 10_000;

/// The tone of what passes by itself.
const WAITS: &str = "wait";

/// One sentence that says how things are.
#[derive(Template)]
#[template(path = "status.html")]
pub(super) struct StatusPart {
    tone: &'static str,
    headline: String,
    detail: String,
    /// The text beside buttons that have to wait; empty if none has to.
    gate: &'static str,
}

impl StatusPart {
    pub(super) fn new(snapshot: &Snapshot, w: &'static Words) -> Self {
        let silent = snapshot.masters.iter().find(|row| row.mode == MasterMode::Silent);
        let syncing = snapshot.masters.iter().find(|row| shown(row.mode, w).0 == WAITS);
        let skewed = snapshot.masters.iter().find(|row| is_alarming(row.clock_skew_ms));
        let jumped = snapshot.masters.iter().find_map(|row| Some((row, row.calendar_ahead_ms?)));
        let of = |text: &str, row: &MasterRow| fill(text, &[&row.id.to_string()]);
        let (tone, headline, detail) = match (&snapshot.unready, silent, syncing, skewed) {
            (_, Some(row), ..) => ("bad", of(w.status_silent, row), w.status_silent_text.to_owned()),
            (_, _, Some(row), _) => (WAITS, of(w.status_syncing, row), w.status_syncing_text.to_owned()),
            (Some(reason), ..) => ("bad", w.status_unready.to_owned(), sentence(reason)),
            (None, None, None, _) if let Some((row, ahead)) = jumped => {
                ("warn", of(w.status_calendar, row), fill(w.status_calendar_text, &[&span(ahead, w)]))
            }
            (None, None, None, Some(_)) => ("warn", w.status_skew.to_owned(), w.status_skew_text.to_owned()),
            (None, None, None, None) => ("well", w.status_well.to_owned(), w.status_well_text.to_owned()),
        };
        Self { tone, headline, detail, gate: if snapshot.gated() { w.gate } else { "" } }
    }
}

/// An error's text, which begins small and has no full stop, as a sentence.
fn sentence(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", rest.as_str())
}

#[derive(Template)]
#[template(path = "masters.html")]
pub(super) struct MastersPart {
    w: &'static Words,
    cards: Vec<Card>,
    /// True if they hear each other.
    linked: bool,
}

struct Card {
    id: u8,
    name: String,
    this: bool,
    /// The mode in the words of the API, for scripts.
    mode: String,
    mode_name: &'static str,
    tone: &'static str,
    explanation: &'static str,
    heartbeat: Option<When>,
    skew: Option<String>,
    skew_alarm: bool,
    calendar_ahead: Option<String>,
    lsn: Option<String>,
    permit: Option<When>,
    version: Option<String>,
}

impl MastersPart {
    pub(super) fn new(snapshot: &Snapshot, w: &'static Words) -> Self {
        Self {
            w,
            cards: snapshot.masters.iter().map(|row| Card::new(row, snapshot.now, w)).collect(),
            linked: !snapshot.masters.iter().any(|row| row.mode == MasterMode::Silent),
        }
    }
}

/// The tone, the name and the explanation of a mode.
fn shown(mode: MasterMode, w: &'static Words) -> (&'static str, &'static str, &'static str) {
    match mode {
        MasterMode::Says(Mode::Ready) => ("well", w.mode_ready, w.mode_ready_text),
        MasterMode::Says(Mode::ReadyAlone) => ("warn", w.mode_alone, w.mode_alone_text),
        MasterMode::Says(Mode::Syncing) => (WAITS, w.mode_syncing, w.mode_syncing_text),
        MasterMode::Says(Mode::RolledBack) => ("bad", w.mode_rolled_back, w.mode_rolled_back_text),
        MasterMode::Silent => ("bad", w.mode_silent, w.mode_silent_text),
    }
}

impl Card {
    fn new(row: &MasterRow, now: WallMs, w: &'static Words) -> Self {
        let (tone, mode_name, explanation) = shown(row.mode, w);
        Self {
            id: row.id.number(),
            name: fill(w.master, &[&row.id.to_string()]),
            this: row.this,
            mode: row.mode.to_string(),
            mode_name,
            tone,
            explanation,
            heartbeat: row.last_heartbeat.map(|at| When::new(at, now, Grain::Second, w)),
            skew: row.clock_skew_ms.map(|ms| skew(ms, w)),
            skew_alarm: is_alarming(row.clock_skew_ms),
            calendar_ahead: row.calendar_ahead_ms.map(|ms| skew(ms, w)),
            lsn: row.lsn.map(grouped),
            permit: row.permit.map(|at| When::new(at, now, Grain::Minute, w)),
            version: row.version.clone(),
        }
    }
}

pub(super) fn is_alarming(skew_ms: Option<i64>) -> bool {
    skew_ms.is_some_and(|ms| ms.unsigned_abs() >= SKEW_ALARM_MS)
}
