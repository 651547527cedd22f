//! Recent reports of agents about themselves: for the operators' eyes, in memory only. Nothing is decided by it.
//!
//! Each agent reports to one master; the masters pass the reports on to each other, so both have the whole registry, and one that is
//! started again has it back. If both are, what agents said before is gone, and who has stopped counts as lost while it holds leases.

use common::parameters::{MasterId, SessionId};
use common::time::{SpanMs, WallMs};
use net::rpc::lease::{AgentReport, NAMES_REPORTED_MAX, REPORT_CHARS_MAX};
use net::rpc::peer::PassedOn;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::{Duration, Instant};

/// Sessions in the registry at most: as many as a master has connections. One more takes the place of the one that was
/// silent longest.
pub const REGISTRY_MAX: usize = 8_192;
/// Sessions without a lease in the registry at most: nobody can check what they say, so they take nobody's place but each other's,
/// are not passed on, and slow nobody's reports.
pub const NEWCOMERS_MAX: usize = 64;
/// Time without a report after which a session is no longer in the registry, unless it said that it stops.
pub(crate) const FORGET: Duration = Duration::from_secs(24 * 60 * 60);
/// Rates that are kept of each session: with a report every five seconds, as in clusters of up to 50 agents, those of the
/// last five minutes.
const RATES_MAX: usize = 60;

/// The registry. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct AgentRegistry(Arc<Mutex<Reports>>);

#[derive(Debug, Default)]
struct Reports {
    entries: BTreeMap<SessionId, Entry>,
    newcomers: BTreeMap<SessionId, Entry>,
    news: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    report: AgentReport,
    address: String,
    via: MasterId,
    /// Its age when it was taken in.
    before: Duration,
    taken_in: Instant,
    heard_at: WallMs,
    rates: VecDeque<u32>,
    news: u64,
}

impl Entry {
    /// Time since the agent said it.
    fn silent(&self, now: Instant) -> Duration {
        self.before.saturating_add(now - self.taken_in)
    }
}

/// A session in the registry, as it was when it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    /// The session's last report.
    pub report: AgentReport,
    /// Address that the report came from.
    pub address: String,
    /// The master that it was sent to.
    pub via: MasterId,
    /// Time at which it was sent, by this master's calendar.
    pub heard_at: WallMs,
    /// Time since then.
    pub silent: Duration,
    /// IDs a second between its last reports, the newest at the end.
    pub rates: Vec<u32>,
}

impl AgentRegistry {
    /// Takes in a report that came from `address` to the master `via`.
    pub fn take_in(&self, report: AgentReport, address: &str, via: MasterId, at: WallMs) {
        self.take_in_since(report, address, via, at, Duration::ZERO);
    }

    /// Takes in what the other master passes on at `at`, unless a later report is known.
    pub fn take_over(&self, PassedOn { report, address, via, silent_ms }: PassedOn, at: WallMs) {
        let heard_at = at + SpanMs(i64::try_from(silent_ms).unwrap_or(i64::MAX).saturating_neg());
        self.take_in_since(report, &address, via, heard_at, Duration::from_millis(silent_ms));
    }

    fn take_in_since(&self, report: AgentReport, address: &str, via: MasterId, at: WallMs, before: Duration) {
        let report = cleared(report);
        let (mut reports, now) = (self.reports(), Instant::now());
        let is_news = |known: &Entry| known.silent(now) > before && known.report != report;
        if !before.is_zero() && !reports.entries.get(&report.session).is_none_or(is_news) {
            return;
        }
        reports.newcomers.remove(&report.session);
        reports.news += 1;
        let news = reports.news;
        if !reports.entries.contains_key(&report.session) {
            reports.make_room(now);
        }
        let known = reports.entries.get(&report.session).and_then(|entry| entry.report.alarm.as_ref());
        if let Some(alarm) = &report.alarm
            && known != Some(alarm)
        {
            tracing::error!(agent = %report.agent_id, %address, %alarm, "ALARM of an agent");
        }
        let address = address.chars().take(REPORT_CHARS_MAX).collect();
        let entry = Entry { report, address, via, before, taken_in: now, heard_at: at, rates: VecDeque::new(), news };
        reports
            .entries
            .entry(entry.report.session)
            .and_modify(|known| {
                let mut entry = entry.clone();
                entry.rates = std::mem::take(&mut known.rates);
                match rate(&known.report, &entry.report) {
                    Some(rate) => entry.rates.push_back(rate),
                    // Another start of the same session: what it did before says nothing about now.
                    None => entry.rates.clear(),
                }
                if entry.rates.len() > RATES_MAX {
                    entry.rates.pop_front();
                }
                *known = entry;
            })
            .or_insert(entry);
    }

    /// Takes in a report of a session that holds no lease: it waits for its first one, or does not exist.
    pub fn take_in_newcomer(&self, report: AgentReport, address: &str, via: MasterId, at: WallMs) {
        let report = cleared(report);
        let mut reports = self.reports();
        reports.entries.remove(&report.session);
        if reports.newcomers.len() >= NEWCOMERS_MAX
            && !reports.newcomers.contains_key(&report.session)
            && let Some(oldest) = oldest(&reports.newcomers, Instant::now())
        {
            reports.newcomers.remove(&oldest);
        }
        let address = address.chars().take(REPORT_CHARS_MAX).collect();
        let (taken_in, heard_at, news) = (Instant::now(), at, reports.news);
        let entry =
            Entry { report, address, via, before: Duration::ZERO, taken_in, heard_at, rates: VecDeque::new(), news };
        reports.newcomers.insert(entry.report.session, entry);
    }

    /// Counts the sessions that report and hold leases.
    pub fn len(&self) -> usize {
        let now = Instant::now();
        let reports = |entry: &&Entry| !entry.report.stops && entry.silent(now) < FORGET;
        self.reports().entries.values().filter(reports).count()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All sessions; those that stopped as they were told to, also after long.
    pub fn all(&self) -> Vec<Present> {
        let now = Instant::now();
        let reports = self.reports();
        let known = |entry: &&Entry| entry.report.stops || entry.silent(now) < FORGET;
        let recent = reports.entries.values().chain(reports.newcomers.values()).filter(known);
        let present = recent.map(|entry| Present {
            report: entry.report.clone(),
            address: entry.address.clone(),
            via: entry.via,
            heard_at: entry.heard_at,
            silent: entry.silent(now),
            rates: entry.rates.iter().copied().collect(),
        });
        present.collect()
    }

    /// Reports after the one numbered `after`, to `via` or to either, oldest first, at most `count`, and the number of the last.
    pub fn news(&self, via: Option<MasterId>, after: u64, count: usize) -> (Vec<PassedOn>, u64) {
        let (reports, now) = (self.reports(), Instant::now());
        let is_fresh = |entry: &&Entry| via.is_none_or(|via| entry.via == via) && entry.news > after;
        let mut fresh: Vec<&Entry> = reports.entries.values().filter(is_fresh).collect();
        fresh.sort_unstable_by_key(|entry| entry.news);
        fresh.truncate(count);
        let last = fresh.last().map_or(after, |entry| entry.news);
        let passed_on = |entry: &Entry| PassedOn {
            report: entry.report.clone(),
            address: entry.address.clone(),
            via: entry.via,
            silent_ms: u64::try_from(entry.silent(now).as_millis()).unwrap_or(u64::MAX),
        };
        (fresh.into_iter().map(passed_on).collect(), last)
    }

    fn reports(&self) -> MutexGuard<'_, Reports> {
        // Nothing in it can be half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reports {
    fn make_room(&mut self, now: Instant) {
        if self.entries.len() < REGISTRY_MAX {
            return;
        }
        self.entries.retain(|_, entry| entry.silent(now) < FORGET);
        if self.entries.len() >= REGISTRY_MAX
            && let Some(oldest) = oldest(&self.entries, now)
        {
            self.entries.remove(&oldest);
        }
    }
}

fn oldest(entries: &BTreeMap<SessionId, Entry>, now: Instant) -> Option<SessionId> {
    entries.iter().max_by_key(|(_, entry)| entry.silent(now)).map(|(session, _)| *session)
}

/// IDs a second between two reports of one start; `None` if the later one is of another start.
fn rate(before: &AgentReport, after: &AgentReport) -> Option<u32> {
    let (minted, ms) = (after.minted.checked_sub(before.minted)?, after.uptime_ms.checked_sub(before.uptime_ms)?);
    let rate = u128::from(minted) * 1_000 / u128::from(ms.max(1));
    Some(u32::try_from(rate).unwrap_or(u32::MAX))
}

/// Cuts texts from outside to length and removes what moves a terminal's cursor.
fn cleared(mut report: AgentReport) -> AgentReport {
    let AgentReport { version, fresh_because, not_ready, alarm, names, .. } = &mut report;
    names.truncate(NAMES_REPORTED_MAX);
    names.shrink_to_fit();
    let texts = [Some(version), fresh_because.as_mut(), not_ready.as_mut(), alarm.as_mut()];
    for text in texts.into_iter().flatten() {
        *text = text.chars().filter(|c| !c.is_control()).take(REPORT_CHARS_MAX).collect();
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(session: u128, minted: u64, uptime_ms: u64) -> AgentReport {
        AgentReport {
            cluster: None,
            agent_id: "a".parse().unwrap(),
            session: SessionId(session),
            version: "1\u{1b}[31m".repeat(500),
            fresh_because: None,
            uptime_ms,
            clock_offset_ms: 0,
            not_ready: None,
            alarm: None,
            stops: false,
            minted,
            scarcest: None,
            names: Vec::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rates_are_taken_between_reports_of_one_start() {
        let registry = AgentRegistry::default();
        for (minted, uptime_ms) in [(100, 5_000), (1_100, 10_000), (1_100, 15_000)] {
            registry.take_in(report(1, minted, uptime_ms), "10.0.0.1:5", MasterId::One, WallMs(7));
        }
        let all = registry.all();
        assert_eq!(all[0].rates, [200, 0]);
        assert!(all[0].report.version.len() <= REPORT_CHARS_MAX && !all[0].report.version.contains('\u{1b}'));
        registry.take_in(report(1, 3, 1_000), "10.0.0.1:5", MasterId::Two, WallMs(8));
        assert_eq!((registry.all()[0].rates.len(), registry.all()[0].via), (0, MasterId::Two));
        for n in 0..200 {
            registry.take_in(report(1, 3, 2_000 + n), "", MasterId::Two, WallMs(8));
        }
        assert_eq!(registry.all()[0].rates.len(), RATES_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn the_roll_is_bounded_and_forgets_whom_it_heard_longest_ago() {
        let registry = AgentRegistry::default();
        for session in 0..=REGISTRY_MAX as u128 {
            tokio::time::advance(Duration::from_millis(1)).await;
            registry.take_in(report(session, 0, 0), "", MasterId::One, WallMs(0));
        }
        let all = registry.all();
        assert_eq!((all.len(), all[0].report.session), (REGISTRY_MAX, SessionId(1)));
        tokio::time::advance(FORGET).await;
        assert!(registry.all().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_holds_no_lease_displaces_and_slows_nobody_who_does() {
        let registry = AgentRegistry::default();
        registry.take_in(report(1, 0, 0), "", MasterId::One, WallMs(0));
        for session in 100..100 + 2 * NEWCOMERS_MAX as u128 {
            tokio::time::advance(Duration::from_millis(1)).await;
            registry.take_in_newcomer(report(session, 0, 0), "", MasterId::One, WallMs(0));
        }
        assert_eq!((registry.len(), registry.all().len()), (1, 1 + NEWCOMERS_MAX));
        assert_eq!(registry.news(Some(MasterId::One), 0, 999).0.len(), 1);
        // One of them has a lease now.
        let last = 99 + 2 * NEWCOMERS_MAX as u128;
        registry.take_in(report(last, 0, 0), "", MasterId::One, WallMs(0));
        assert_eq!((registry.len(), registry.all().len()), (2, 1 + NEWCOMERS_MAX));
    }

    #[tokio::test(start_paused = true)]
    async fn all_is_passed_on_at_first_and_then_only_what_was_told_here_and_only_once() {
        let registry = AgentRegistry::default();
        for (session, via) in [(1, MasterId::One), (2, MasterId::Two), (3, MasterId::One)] {
            registry.take_in(report(session, 0, 0), "", via, WallMs(0));
        }
        let sessions = |news: &[PassedOn]| news.iter().map(|one| (one.report.session.0, one.via)).collect::<Vec<_>>();
        let (all, _) = registry.news(None, 0, 9);
        assert_eq!(sessions(&all), [(1, MasterId::One), (2, MasterId::Two), (3, MasterId::One)]);
        let (first, last) = registry.news(Some(MasterId::One), 0, 1);
        assert_eq!(sessions(&first), [(1, MasterId::One)]);
        let (second, last) = registry.news(Some(MasterId::One), last, 9);
        assert_eq!(sessions(&second), [(3, MasterId::One)]);
        assert_eq!(registry.news(Some(MasterId::One), last, 9), (Vec::new(), last));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_passed_on_late_takes_the_place_of_nothing_later() {
        let registry = AgentRegistry::default();
        let stops = AgentReport { stops: true, ..report(1, 9, 1_000_000) };
        let passed_on =
            |silent_ms| PassedOn { report: stops.clone(), address: String::new(), via: MasterId::Two, silent_ms };
        registry.take_in(report(1, 0, 1_000), "", MasterId::One, WallMs(10_000));
        tokio::time::advance(Duration::from_secs(2)).await;
        // It stopped, and runs again.
        registry.take_over(passed_on(3_000), WallMs(12_000));
        assert!(!registry.all()[0].report.stops);
        registry.take_over(passed_on(1_000), WallMs(12_000));
        let all = registry.all();
        assert!(all[0].report.stops && all[0].via == MasterId::Two, "{all:?}");
        assert_eq!((all[0].silent, all[0].heard_at), (Duration::from_secs(1), WallMs(11_000)));
        registry.take_over(passed_on(u64::MAX), WallMs(0));
        // Who left as it should is not forgotten.
        tokio::time::advance(2 * FORGET).await;
        assert_eq!(registry.all().len(), 1);
        registry.take_in(report(2, 0, 0), "", MasterId::One, WallMs(0));
        tokio::time::advance(2 * FORGET).await;
        assert_eq!(registry.all().len(), 1);
    }
}
