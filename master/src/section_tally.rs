//! Counts of what this master did about sections of sequences since it started, for the metrics, and the sections that just changed their
//! owner, for the console.
//!
//! Counted by the loop, as with axes: the ledger itself counts nothing of it. A move is counted where the section is at home, so that both
//! masters' figures together are all moves.

use crate::lease::{Effects, Reply};
use crate::section::SectionMap;
use common::sequence::SectionRange;
use common::time::{BootMs, SpanMs};
use net::rpc::peer::PeerMessage;
use net::rpc::ranges::NotRaised;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Ranges of sections whose next owner waits that are remembered at most; further ones are shown as served a little early.
pub const RECENT_MAX: usize = 16_384;

/// Counts since the start, and the sections that changed their owner lately.
#[derive(Debug, Default)]
pub struct SectionTally {
    keeps: AtomicU64,
    raises: AtomicU64,
    moves: AtomicU64,
    refused: [AtomicU64; 5],
    /// Sections with the instant at which this master began to list them for their next owner.
    recent: Mutex<SectionMap<BootMs>>,
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SectionCounts {
    /// Calls by which allocators keep their sections that were answered with the list of them.
    pub keeps: u64,
    pub raises: u64,
    /// Sections at home here that got another owner.
    pub moves: u64,
    /// Raises that were refused, in the order of [`REASONS`].
    pub refused: [u64; 5],
}

/// The reasons why raises are refused, as the metrics name them.
pub const REASONS: [&str; 5] = ["other_owner", "allowance", "used_up", "unknown", "too_many"];

const fn reason(why: NotRaised) -> usize {
    match why {
        NotRaised::OtherOwner => 0,
        NotRaised::Allowance => 1,
        NotRaised::UsedUp => 2,
        NotRaised::Unknown => 3,
        NotRaised::TooMany { .. } => 4,
    }
}

/// The longest wait of calls for the next owner after it was listed: until its next call for its sections, a third of the lease, and
/// then for as long as the one before it may serve.
const fn wait(lease: SpanMs) -> SpanMs {
    SpanMs(lease.0.saturating_mul(137) / 100)
}

impl SectionTally {
    pub fn counts(&self) -> SectionCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SectionCounts {
            keeps: read(&self.keeps),
            raises: read(&self.raises),
            moves: read(&self.moves),
            refused: self.refused.each_ref().map(read),
        }
    }

    /// Sections whose next owner probably still waits, with `lease` as long as allocators may serve.
    pub(crate) fn waiting(&self, now: BootMs, lease: SpanMs) -> SectionMap<BootMs> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        forget(&mut recent, now, lease);
        recent.clone()
    }

    /// Counts a round of the loop that is durable, before its answers are sent.
    pub(crate) fn count(&self, fx: &Effects, now: BootMs, lease: SpanMs) {
        let add = |counter: &AtomicU64, more: usize| {
            counter.fetch_add(u64::try_from(more).unwrap_or(u64::MAX), Ordering::Relaxed);
        };
        for (_, reply) in &fx.replies {
            match reply {
                Reply::Keep(Ok(_)) => add(&self.keeps, 1),
                Reply::Raise(Ok(raises)) => {
                    for said in raises.iter().flatten() {
                        match said.outcome {
                            Ok(raised) => add(&self.raises, usize::from(raised.max_seq > raised.from)),
                            Err(why) => self.refused.get(reason(why)).into_iter().for_each(|counter| add(counter, 1)),
                        }
                    }
                }
                _ => {}
            }
        }
        add(&self.moves, fx.moved.iter().map(|range| usize::try_from(range.len()).unwrap_or(usize::MAX)).sum());
        let confirmed = fx.messages.iter().filter_map(|message| match message {
            PeerMessage::ConfirmSections { records } => Some(records),
            _ => None,
        });
        let confirmed = confirmed.flatten().filter(|record| record.g.0 > 1).map(|record| &record.range);
        let mut new = fx.moved.iter().chain(confirmed).peekable();
        if new.peek().is_none() {
            return;
        }
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        forget(&mut recent, now, lease);
        for range in new {
            if recent.len() < RECENT_MAX || recent.get(&range.first()).is_some() {
                recent.set(range, Some(now));
            }
        }
    }
}

/// Forgets those whose next owner serves by now.
fn forget(recent: &mut SectionMap<BootMs>, now: BootMs, lease: SpanMs) {
    let over = recent.rows(None).filter(|&(_, since)| now - *since >= wait(lease));
    let over: Vec<SectionRange> = over.map(|(range, _)| range).collect();
    over.iter().for_each(|range| recent.set(range, None));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::RequestId;
    use common::lease::Generation;
    use common::parameters::SessionId;
    use common::segment::MasterRun;
    use common::sequence::{Section, SectionKey, SectionOwner, SectionRecord, ServedAt};
    use common::time::BootMs;
    use net::rpc::ranges::{KeepReply, Raised, RaisedSections};

    const LEASE: SpanMs = SpanMs(5_000);

    fn record(section: u32, g: u64) -> SectionRecord {
        let address = ServedAt { http: "10.0.0.7:6200".to_owned(), rpc: "10.0.0.7:6201".to_owned() };
        let owner = SectionOwner { session: SessionId(7), agent_id: "agent-7".parse().unwrap(), address };
        let range = (&SectionKey { name: "a".parse().unwrap(), section: Section(section) }).into();
        SectionRecord { range, g: Generation(g), owner, max_seq: 0 }
    }

    #[test]
    fn keeps_and_raises_are_counted_by_what_they_were_answered() {
        let tally = SectionTally::default();
        let said = |outcome| vec![RaisedSections { from: Section(0), to: Section(1), outcome }];
        let raised = |from, max_seq| said(Ok(Raised { from, max_seq, receipt: None }));
        let refused = |why| said(Err(why));
        let raises = vec![raised(0, 9), raised(9, 9), refused(NotRaised::Allowance), refused(NotRaised::Unknown)];
        let keep = KeepReply { lease_ms: 5_000, run: MasterRun(0), boot: BootMs(0), sections: Vec::new(), more: false };
        let replies = [Reply::Keep(Ok(keep)), Reply::Raise(Ok(raises)), Reply::Kept];
        let replies = replies.into_iter().map(|reply| (RequestId(0), reply)).collect();
        tally.count(&Effects { replies, ..Effects::default() }, BootMs(0), LEASE);
        let counts = SectionCounts { keeps: 1, raises: 1, moves: 0, refused: [0, 1, 0, 1, 0] };
        assert_eq!(tally.counts(), counts);
        assert!(tally.waiting(BootMs(0), LEASE).is_empty());
    }

    #[test]
    fn a_move_is_counted_at_home_and_known_at_both_until_the_next_owner_serves() {
        let (home, other) = (SectionTally::default(), SectionTally::default());
        let [first, second] = [(1, 1), (3, 2)].map(|(at, g)| record(at, g));
        let moved = vec![second.range.clone()];
        home.count(&Effects { moved, ..Effects::default() }, BootMs(0), LEASE);
        let messages = vec![PeerMessage::ConfirmSections { records: vec![first, second.clone()] }];
        other.count(&Effects { messages, ..Effects::default() }, BootMs(0), LEASE);
        assert_eq!((home.counts().moves, other.counts().moves), (1, 0));
        for tally in [home, other] {
            let waiting = tally.waiting(BootMs(6_849), LEASE);
            assert!(waiting.sections() == 1 && waiting.get(&second.range.first()).is_some());
            assert!(tally.waiting(BootMs(6_850), LEASE).is_empty());
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let tally = SectionTally::default();
        let most = u32::try_from(RECENT_MAX).unwrap();
        let records = (0..=most).map(|at| record(2 * at, 2)).collect();
        let messages = vec![PeerMessage::ConfirmSections { records }];
        tally.count(&Effects { messages, ..Effects::default() }, BootMs(0), LEASE);
        assert_eq!(tally.waiting(BootMs(1), LEASE).len(), RECENT_MAX);
    }
}
