//! Refusals of which the audit is told: the first of a kind at once, and those that follow together, so that nobody fills the audit by
//! being refused.

use common::audit::{Action, Actor, Note, RefusedAt};
use common::time::{BootMs, SpanMs};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The shortest time between two lines about refusals of one kind.
pub const PAUSE: SpanMs = SpanMs::seconds(600);

/// Refusals that the audit was not told of yet, by kind.
#[derive(Debug, Default)]
pub struct RefusalTally(Mutex<BTreeMap<RefusedAt, Untold>>);

#[derive(Debug, Default)]
struct Untold {
    count: u64,
    /// The last one: who was refused, and why.
    last: Option<(Actor, String)>,
    told: Option<BootMs>,
}

impl RefusalTally {
    /// Counts a refusal.
    pub fn count(&self, at: RefusedAt, who: Actor, why: String) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let untold = all.entry(at).or_default();
        untold.count = untold.count.saturating_add(1);
        untold.last = Some((who, why));
    }

    /// Takes the lines that are due.
    pub fn due(&self, now: BootMs) -> Vec<Note> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = all.iter_mut().filter(|(_, untold)| untold.told.is_none_or(|told| now - told >= PAUSE));
        let line = |(at, untold): (&RefusedAt, &mut Untold)| {
            let (actor, why) = untold.last.take()?;
            let count = std::mem::take(&mut untold.count);
            untold.told = Some(now);
            let detail = if count == 1 { why } else { format!("{count} times; the last: {why}") };
            Some(Note { detail, ..Note::new(actor, Action::Refuse, at.name()) })
        };
        due.filter_map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_at_once_and_a_thousand_in_one_line() {
        let tally = RefusalTally::default();
        let told = |now| {
            let lines = tally.due(BootMs(now)).into_iter();
            lines.map(|it| format!("{} {}: {}", it.actor.who(), it.subject, it.detail)).collect::<Vec<_>>()
        };
        assert!(told(0).is_empty());
        let refuse = |at, who: &str| tally.count(at, Actor::new(who, ""), "because".to_owned());
        refuse(RefusedAt::Login, "a");
        assert_eq!(told(1), ["a login: because"]);
        (0..1_000).for_each(|_| refuse(RefusedAt::Login, "b"));
        refuse(RefusedAt::Agents, "c");
        assert_eq!(told(PAUSE.0), ["c agents: because"]);
        assert_eq!(told(PAUSE.0 + 1), ["b login: 1000 times; the last: because"]);
        assert!(told(9 * PAUSE.0).is_empty());
    }
}
