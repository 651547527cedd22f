//! Proposals of one master that the other has not confirmed yet: leases and their ends, operators' commands, settings.
//!
//! A proposal is sent again until the other master confirms it, or knows better. It is never withdrawn, because it may have been
//! confirmed long ago. Who waits for it is told to ask again after [`CONFIRM_WAIT`]: that ends the waiting, not the proposal.
//!
//! The proposals themselves are records, and belong to whoever proposes. Here is what is the same for all: when each was last
//! sent, and who waits.

use ids::time::{BootMs, Now, SpanMs};
use std::collections::BTreeMap;
use std::ops::RangeBounds;

/// Time after which a proposal that was not answered is sent again.
pub const RESEND_AFTER: SpanMs = SpanMs::seconds(2);
/// The longest wait for the other master's confirmation; then whoever waits is told to ask again.
pub const CONFIRM_WAIT: SpanMs = SpanMs::seconds(3);

/// Proposals of one kind, each named by a `K`; who waits is named by a `W`, and may have a wish.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proposals<K, W, T = ()> {
    sent_at: BTreeMap<K, BootMs>,
    /// The instant until which each waits, and its wish.
    waiting: BTreeMap<W, (BootMs, T)>,
}

impl<K, W, T> Default for Proposals<K, W, T> {
    fn default() -> Self {
        Self { sent_at: BTreeMap::new(), waiting: BTreeMap::new() }
    }
}

impl<K: Clone + Ord, W: Clone + Ord, T> Proposals<K, W, T> {
    /// Notes that a proposal is sent now.
    pub fn sent(&mut self, now: Now, name: K) {
        self.sent_at.insert(name, now.boot);
    }

    /// Forgets a name of which nothing is proposed any more: it was confirmed, or overtaken.
    pub fn over(&mut self, name: &K) {
        self.sent_at.remove(name);
    }

    /// Picks those of the `open` ones that have to be sent now, `max` at most: those that were not sent in this run, or
    /// too long ago. They count as sent.
    pub fn resend(&mut self, now: Now, max: usize, open: impl Iterator<Item = K>) -> Vec<K> {
        let due = |name: &K| self.sent_at.get(name).is_none_or(|at| now.boot - *at >= RESEND_AFTER);
        let due: Vec<K> = open.filter(due).take(max).collect();
        self.sent_at.extend(due.iter().map(|name| (name.clone(), now.boot)));
        due
    }

    /// Lets somebody wait from now on.
    pub fn wait(&mut self, now: Now, who: W, wish: T) {
        self.waiting.insert(who, (now.boot + CONFIRM_WAIT, wish));
    }

    pub fn waits(&self, who: &W) -> bool {
        self.waiting.contains_key(who)
    }

    /// True if any of these waits.
    pub fn is_awaited(&self, who: impl RangeBounds<W>) -> bool {
        self.waiting.range(who).next().is_some()
    }

    /// Counts those who wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The waiting ones with their wishes, ascending.
    pub fn wishes(&self) -> impl Iterator<Item = (&W, &T)> {
        self.waiting.iter().map(|(who, (_, wish))| (who, wish))
    }

    /// Ends the waiting of these, because there is an answer. Returns those of them that waited.
    pub fn answered(&mut self, who: impl RangeBounds<W>) -> Vec<W> {
        self.waiting.extract_if(who, |_, _| true).map(|(who, _)| who).collect()
    }

    /// Ends the waiting of those who have waited for too long, and returns them.
    pub fn give_up(&mut self, now: Now) -> Vec<W> {
        self.waiting.extract_if(.., |_, (until, _)| *until <= now.boot).map(|(who, _)| who).collect()
    }
}

/// Tells whether `echo` confirms what is proposed. All of it must match: a late confirmation of another proposal proves nothing
/// about this one.
pub fn confirms<P: PartialEq>(echo: &P, proposed: Option<&P>) -> bool {
    proposed == Some(echo)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::time::WallMs;

    fn at(boot: i64) -> Now {
        Now { wall: WallMs(0), boot: BootMs(boot) }
    }

    type Tried = Proposals<&'static str, (&'static str, u64)>;

    #[test]
    fn a_proposal_is_sent_again_after_a_while_until_it_is_over() {
        let mut tried = Tried::default();
        tried.sent(at(1_000), "a");
        assert!(tried.resend(at(2_999), 9, ["a"].into_iter()).is_empty());
        assert_eq!(tried.resend(at(3_000), 9, ["a"].into_iter()), ["a"]);
        assert!(tried.resend(at(4_999), 9, ["a"].into_iter()).is_empty(), "it counts as sent");
        tried.over(&"a");
        assert!(tried.resend(at(9_000), 9, [].into_iter()).is_empty());
        tried.sent(at(9_000), "a");
        assert!(tried.resend(at(9_001), 9, ["a"].into_iter()).is_empty(), "another one of the same name begins anew");
    }

    #[test]
    fn what_was_not_sent_in_this_run_is_sent_at_once_and_not_more_than_fits() {
        let mut tried = Tried::default();
        let open = || ["a", "b", "c"].into_iter();
        assert_eq!(tried.resend(at(0), 2, open()), ["a", "b"]);
        assert_eq!(tried.resend(at(1), 2, open()), ["c"], "those left out come next");
        assert_eq!(tried.resend(at(2_000), 2, open()), ["a", "b"]);
    }

    #[test]
    fn whoever_waits_is_answered_once_and_nobody_else() {
        let mut tried = Tried::default();
        for who in [("a", 2), ("b", 1), ("a", 1)] {
            tried.wait(at(0), who, ());
        }
        assert!(tried.wishes().map(|(who, ())| *who).eq([("a", 1), ("a", 2), ("b", 1)]));
        assert_eq!(tried.answered(("a", 0)..=("a", u64::MAX)), [("a", 1), ("a", 2)]);
        assert!(tried.answered(("a", 0)..=("a", u64::MAX)).is_empty() && tried.waiting() == 1);
    }

    #[test]
    fn who_waited_too_long_waits_no_longer_but_the_proposal_stands() {
        let mut tried = Tried::default();
        tried.sent(at(0), "a");
        tried.wait(at(0), ("a", 1), ());
        tried.wait(at(1), ("a", 2), ());
        assert!(tried.give_up(at(2_999)).is_empty());
        assert_eq!(tried.give_up(at(3_000)), [("a", 1)]);
        assert_eq!(tried.waiting(), 1);
        assert_eq!(tried.resend(at(3_000), 9, ["a"].into_iter()), ["a"]);
    }

    #[test]
    fn only_the_whole_proposal_confirms() {
        assert!(confirms(&(1, "a"), Some(&(1, "a"))));
        assert!(!confirms(&(1, "a"), Some(&(2, "a"))) && !confirms(&(1, "a"), None));
    }
}
