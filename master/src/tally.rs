//! Counts of what this master granted of axes since it started, by name, and of what it refused to renew, for the metrics.
//!
//! Counted by the loop, from what was asked, what became durable and what was answered: the ledger itself counts nothing of it. No name
//! is counted but one that the ledger knows an axis of, so there are never more than there may be names.

use crate::lease::{Effects, Event, Reply, RequestId, Write};
use common::audit::Action;
use common::namespace::GeneratorName;
use common::parameters::MasterId;
use common::segment::MasterRun;
use common::setting::{NAMESPACES_MAX, RETIRED_MAX, SettingKey, SettingValue};
use net::rpc::lease::Refusal;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Names that are counted at most: as many as there may be, retired ones included.
pub const NAMES_MAX: usize = NAMESPACES_MAX + RETIRED_MAX;

/// The counts of one axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AxisCounts {
    pub segments: u64,
    /// The places in the segments.
    pub places: u64,
    /// Calls for a segment that had to wait for an extent, whatever came of it.
    pub waited: u64,
    /// Extents that this run of this master was granted.
    pub extents: u64,
    /// Raises by operators, at either master.
    pub raises: u64,
}

/// The reasons why this master did not do what keeps an agent going, as the metrics name them.
const REASONS: [&str; 10] = [
    "not_allowed",
    "peer_away",
    "syncing",
    "overloaded",
    "disk_full",
    "shutting_down",
    "put_back",
    "no_lease",
    "ended",
    "other",
];

/// Heartbeats of agents and their renewals of leases and sections that were refused, by reason.
#[derive(Debug, Default)]
pub struct RenewalTally([AtomicU64; REASONS.len()]);

impl RenewalTally {
    /// Counts a refusal.
    pub fn refused(&self, why: &Refusal) {
        self.count(match why {
            Refusal::NotAllowed | Refusal::WrongCertificate { .. } => "not_allowed",
            Refusal::PeerAway => "peer_away",
            Refusal::Syncing | Refusal::Quiet | Refusal::NotBefore { .. } => "syncing",
            Refusal::Overloaded => "overloaded",
            Refusal::DiskFull => "disk_full",
            Refusal::ShuttingDown => "shutting_down",
            Refusal::RolledBack | Refusal::Reverted => "put_back",
            Refusal::NotHolder | Refusal::NoLease | Refusal::ServesWithoutLease => "no_lease",
            _ => "other",
        });
    }

    /// Counts a lease that was not renewed as it is over.
    pub fn ended(&self) {
        self.count("ended");
    }

    /// Each reason with its number.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        REASONS.into_iter().zip(self.0.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    fn count(&self, reason: &str) {
        let counts = REASONS.into_iter().zip(&self.0);
        counts.filter(|(known, _)| *known == reason).for_each(|(_, count)| {
            count.fetch_add(1, Ordering::Relaxed);
        });
    }
}

/// The counts of all axes.
#[derive(Debug, Default)]
pub struct AxisTally(Mutex<BTreeMap<GeneratorName, AxisCounts>>);

impl AxisTally {
    pub fn all(&self) -> BTreeMap<GeneratorName, AxisCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, name: &GeneratorName, how: impl FnOnce(&mut AxisCounts)) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < NAMES_MAX || all.contains_key(name) {
            how(all.entry(name.clone()).or_default());
        }
    }
}

/// Calls for segments that the loop has not answered yet. The ledger answers each, if only with a refusal after a few seconds, and
/// bounds how many wait.
#[derive(Debug, Default)]
pub(crate) struct OpenCalls(HashMap<RequestId, GeneratorName>);

impl OpenCalls {
    /// Notes an event that is about to be stepped.
    pub(crate) fn note(&mut self, event: &Event) {
        if let Event::Segment { id, request, .. } = event {
            self.0.insert(*id, request.name.clone());
        }
    }

    /// Counts a round of the loop that is durable, before its answers are sent. Calls before `first` came in earlier rounds: they waited.
    pub(crate) fn count(&mut self, fx: &Effects, first: RequestId, own: (MasterId, MasterRun), tally: &AxisTally) {
        for write in &fx.writes {
            let Write::Setting(setting) = write else { continue };
            let (SettingKey::Axis(name), SettingValue::Axis(axis)) = (&setting.key, &setting.value) else { continue };
            match axis.last {
                None if was_raised(fx, &setting.key) => tally.add(name, |counts| counts.raises += 1),
                Some(extent) if (extent.master, extent.run) == own => tally.add(name, |counts| counts.extents += 1),
                Some(_) | None => {}
            }
        }
        for (id, reply) in &fx.replies {
            let Reply::Segment(answer) = reply else { continue };
            let Some(name) = self.0.remove(id) else { continue };
            let waited = *id < first;
            // An empty one goes to who only showed what it was granted.
            let granted = answer.as_ref().is_ok_and(|segment| !segment.span.is_empty());
            if waited || granted {
                tally.add(&name, |counts| {
                    counts.waited += u64::from(waited);
                    counts.segments += u64::from(granted);
                    counts.places =
                        counts.places.saturating_add(answer.as_ref().map_or(0, |segment| segment.span.len()));
                });
            }
        }
    }
}

/// Tells whether an operator raised that axis, which has a line in the audit. Another change by an operator says how far it is granted as
/// well.
fn was_raised(fx: &Effects, key: &SettingKey) -> bool {
    let subject = key.to_string();
    let raised =
        |write: &Write| matches!(write, Write::Audit(line) if line.action == Action::Raise && line.subject == subject);
    fx.writes.iter().any(raised)
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::audit::{Actor, Entry};
    use common::segment::{Axis, Extent, Shown, Span};
    use common::setting::Setting;
    use common::time::WallMs;
    use net::rpc::lease::Refusal;
    use net::rpc::ranges::{SegmentGrant, SegmentRequest};

    const OWN: (MasterId, MasterRun) = (MasterId::One, MasterRun(7));

    fn asked(calls: &mut OpenCalls, id: u64, name: &str) {
        let (agent_id, name) = ("a".parse().unwrap(), name.parse().unwrap());
        let session = common::parameters::SessionId(1);
        let request = SegmentRequest { agent_id, session, cluster: None, name, wanted: 1, seen: Shown::default() };
        calls.note(&Event::Segment { id: RequestId(id), request, address: String::new() });
    }

    fn replies(all: &[(u64, Result<Span, Refusal>)]) -> Effects {
        let replies = all.iter().map(|(id, answer)| {
            (RequestId(*id), Reply::Segment(answer.clone().map(|span| SegmentGrant { span, proof: None })))
        });
        Effects { replies: replies.collect(), ..Effects::default() }
    }

    #[test]
    fn segments_are_counted_when_they_are_told_and_who_waited_is_known() {
        let (mut calls, tally) = (OpenCalls::default(), AxisTally::default());
        asked(&mut calls, 1, "a");
        asked(&mut calls, 2, "a");
        asked(&mut calls, 3, "nobody");
        let first = [(1, Ok(Span { from: 5, to: 15 })), (3, Err(Refusal::NoSuchName))];
        calls.count(&replies(&first), RequestId(1), OWN, &tally);
        asked(&mut calls, 4, "b");
        calls.count(&replies(&[(2, Ok(Span { from: 15, to: 16 }))]), RequestId(4), OWN, &tally);
        calls.count(&replies(&[(4, Err(Refusal::Retry)), (4, Err(Refusal::Retry))]), RequestId(5), OWN, &tally);
        let counted = AxisCounts { segments: 2, places: 11, waited: 1, ..AxisCounts::default() };
        let gave_up = AxisCounts { waited: 1, ..AxisCounts::default() };
        let all = tally.all().into_iter().map(|(name, counts)| (name.to_string(), counts));
        assert_eq!(all.collect::<Vec<_>>(), [("a".to_owned(), counted), ("b".to_owned(), gave_up)]);
        assert!(calls.0.is_empty(), "nothing is kept of what was answered");
    }

    #[test]
    fn extents_of_this_run_and_raises_are_counted_when_they_are_durable() {
        let (mut calls, tally) = (OpenCalls::default(), AxisTally::default());
        let axis = |last: Option<(MasterId, MasterRun)>| {
            let last = last.map(|(master, run)| Extent { master, run, span: Span { from: 1, to: 9 } });
            let (key, value) =
                (SettingKey::Axis("a".parse().unwrap()), Axis { floor: 1, granted: 9, dismissed: 0, last });
            let value = SettingValue::Axis(Box::new(value));
            Write::Setting(Setting { key, version: 1, value, actor: Actor::new("a", ""), at: WallMs(0) })
        };
        let others = [(MasterId::Two, MasterRun(7)), (MasterId::One, MasterRun(8))];
        let line = |action| Write::Audit(Entry::new(WallMs(0), Actor::new("a", ""), action, "axis of a", ""));
        for (action, writes) in
            [(Action::Raise, vec![Some(OWN), Some(others[0]), Some(others[1]), None]), (Action::Dismiss, vec![None])]
        {
            let writes = writes.into_iter().map(axis).chain([line(action)]).collect();
            calls.count(&Effects { writes, ..Effects::default() }, RequestId(0), OWN, &tally);
        }
        let counted = AxisCounts { extents: 1, raises: 1, ..AxisCounts::default() };
        assert_eq!(tally.all().into_values().collect::<Vec<_>>(), [counted]);
    }

    #[test]
    fn no_more_names_are_counted_than_there_may_be() {
        let tally = AxisTally::default();
        for n in 0..=NAMES_MAX {
            tally.add(&format!("n{n}").parse().unwrap(), |counts| counts.raises += 1);
        }
        assert_eq!(tally.all().len(), NAMES_MAX);
        tally.add(&"n0".parse().unwrap(), |counts| counts.raises += 1);
        assert_eq!(tally.all()[&"n0".parse().unwrap()].raises, 2);
    }
}
