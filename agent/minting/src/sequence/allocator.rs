//! The times at which masters are asked to keep our sections, and the meaning of their answers.

use super::bounds::Bounds;
use super::held::{HeldRange, HeldRanges};
use ids::lease::Generation;
use ids::namespace::GeneratorName;
use ids::segment::MasterRun;
use ids::time::{BootMs, SpanMs};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::ranges::{KeepReply, SECTION_LEASE_MAX_S};

/// The shortest lease of sections that makes sense,
pub const LEASE_MIN: SpanMs = SpanMs(100);
/// and the longest.
pub const LEASE_MAX: SpanMs = SpanMs::seconds(SECTION_LEASE_MAX_S as i64);
/// The length of a lease that is reckoned with before a master has said it.
const LEASE_DEFAULT: SpanMs = SpanMs::seconds(5);
/// A lease is kept so many times before it would end.
const KEEPS_A_LEASE: i64 = 3;
/// Of a lease, in hundredths, that a new owner waits: clocks differ in their rates by a hundredth at most, each of the two.
const WAIT_PERCENT: i64 = 103;
/// The part by which a master's clock may go faster than ours, in thousandths: each of the two is wrong by a hundredth at most.
const FASTER_MAX: i64 = 21;
/// Both readings are cut to whole milliseconds.
const CUT: SpanMs = SpanMs(2);
/// Sections whose lease ended are remembered for as many leases: listed again under the same `g` they need not wait again, and under a lower
/// one they are not served.
const REMEMBERED_LEASES: i64 = 10;

/// An answer to a question of ours, with the moments around it.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The instant at which the question was about to be sent.
    pub sent: BootMs,
    /// The instant at which the answer had come.
    pub received: BootMs,
    /// The answer.
    pub reply: KeepReply,
}

/// The reason why an answer is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotKept {
    /// No lease is that long.
    #[error("a lease of {0} ms: there are 100 to 60000 (--sequence-lease)")]
    Lease(u32),
    /// Our clock did not go on while the master's did.
    #[error(
        "this machine stood still together with its clock, for some {0} ms by the master's (suspended, migrated, or a snapshot of it was \
         taken): others may serve its sections by now, so none is served before masters list them again"
    )]
    StoodStill(i64),
}

/// A reading of a master's clock, from its last answer.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// The master's clock,
    boot: BootMs,
    /// and ours before it can have been read.
    sent: BootMs,
}

/// One master, at one address.
#[derive(Clone, Copy, Debug)]
struct MasterState {
    /// The length of a lease that it said last.
    lease: Option<SpanMs>,
    next: BootMs,
    /// True if it answered last.
    answers: bool,
    run: Option<MasterRun>,
    /// Of that run; `None`: of none since our clock stood still.
    reading: Option<Reading>,
    /// The moment at which it was first heard in that run,
    since: Option<BootMs>,
    /// and whether it was heard in another one before.
    began_anew: bool,
}

impl MasterState {
    fn new(now: BootMs) -> Self {
        Self { lease: None, next: now, answers: false, run: None, reading: None, since: None, began_anew: false }
    }

    /// Compares its clock with ours. How long ours stood still meanwhile, if it did.
    fn read(&mut self, kept: &Kept) -> Option<SpanMs> {
        let KeepReply { run, boot, .. } = kept.reply;
        // Of two questions under way the later one may be answered first: another run that the earlier one shows is one of before.
        let is_late = self.reading.is_some_and(|known| kept.sent < known.sent);
        if is_late && self.run != Some(run) {
            return None;
        }
        let reading = Reading { boot, sent: kept.sent };
        let known = self.run.replace(run);
        if known != Some(run) {
            (self.since, self.began_anew) = (Some(kept.received), known.is_some());
        }
        let Some(before) = self.reading.filter(|_| known == Some(run)) else {
            self.reading = Some(reading);
            return None;
        };
        if boot > before.boot && !is_late {
            self.reading = Some(reading);
        }
        // From before the earlier reading until after this one: a round trip more than what passed between them.
        let (theirs, ours) = ((boot - before.boot).0, (kept.received - before.sent).0.max(0));
        let most = ours.saturating_add(ours.saturating_mul(FASTER_MAX) / 1_000).saturating_add(CUT.0);
        (theirs > most).then_some(SpanMs(theirs.saturating_sub(ours)))
    }
}

/// Sections that masters list for us at a moment, and their runs.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// Sections.
    pub names: BTreeMap<GeneratorName, HeldRanges>,
    /// Runs in which masters were first heard so long ago that no span is left that they gave in another one.
    pub runs: Vec<MasterRun>,
}

/// A record of the sections that masters list for this session.
#[derive(Clone, Debug)]
pub struct Allocator {
    links: Vec<MasterState>,
    names: BTreeMap<GeneratorName, HeldRanges>,
    /// The bounds of before the process was started, as long as they may be continued.
    former: Arc<Bounds>,
    /// The instant at which sections that are listed no more were last looked for; `None`: never yet.
    looked: Option<BootMs>,
    /// The runs that were given then.
    runs: Vec<MasterRun>,
    /// The instant since which masters answer, without a pause of a lease,
    answered: BootMs,
    /// and when one did last,
    heard: Option<BootMs>,
    /// and first.
    began: Option<BootMs>,
    /// Tells whether a master has told all that it lists since it was last looked.
    told: bool,
    /// The instant at which our clock was found to have stood still: what was asked until then says nothing of now.
    stood_still: Option<BootMs>,
}

impl Allocator {
    /// At so many masters' addresses. They are asked at once.
    pub fn new(links: usize, now: BootMs) -> Self {
        Self {
            links: vec![MasterState::new(now); links],
            names: BTreeMap::new(),
            former: Arc::default(),
            looked: None,
            runs: Vec::new(),
            answered: now,
            heard: None,
            began: None,
            told: false,
            stood_still: None,
        }
    }

    /// Goes on with sections of which this session gave so much before the process was started: for those that are listed under the same
    /// `g`, before a master has told all that it lists, there is nobody to wait for, since that process waited, and has ended. A master of
    /// another run may have forgotten owners, and give that `g` anew.
    pub fn resume(&mut self, former: Arc<Bounds>) {
        self.former = former;
    }

    /// The length of a lease, as far as is known: the longest that any of them said, so that whoever waits for one to end waits long enough.
    pub fn lease(&self) -> SpanMs {
        self.links.iter().filter_map(|link| link.lease).max().unwrap_or(LEASE_DEFAULT)
    }

    /// The longest time for which whoever was listed before serves on.
    fn wait(&self) -> SpanMs {
        // A span is cut to whole milliseconds where it begins, so one more.
        SpanMs(self.lease().0.saturating_mul(WAIT_PERCENT) / 100 + 1)
    }

    /// The instant at which that master is to be asked next.
    pub fn next_keep(&self, at: usize) -> Option<BootMs> {
        self.links.get(at).map(|link| link.next)
    }

    /// The instant at which anything is to be done next.
    pub fn next_deadline(&self) -> Option<BootMs> {
        self.links.iter().map(|link| link.next).min()
    }

    /// A question is being sent.
    pub fn asked(&mut self, at: usize, now: BootMs) {
        if let Some(link) = self.links.get_mut(at) {
            link.next = now + SpanMs((link.lease.unwrap_or(LEASE_DEFAULT).0 / KEEPS_A_LEASE).max(1));
        }
    }

    /// A master did not answer, or refused.
    pub fn failed(&mut self, at: usize) {
        if let Some(link) = self.links.get_mut(at) {
            link.answers = false;
        }
    }

    /// The number of masters that answered their last question.
    pub fn answering(&self) -> usize {
        self.links.iter().filter(|link| link.answers).count()
    }

    /// Tells whether that one did.
    pub fn answers(&self, at: usize) -> bool {
        self.links.get(at).is_some_and(|link| link.answers)
    }

    /// A master's answer, however late. The names of which something has changed; [`HeldRanges`] tells what they are now.
    ///
    /// # Errors
    /// [`NotKept`]. After [`NotKept::StoodStill`] all spans are over; otherwise nothing has changed.
    pub fn handle(&mut self, now: BootMs, at: usize, kept: &Kept) -> Result<BTreeSet<GeneratorName>, NotKept> {
        let lease = SpanMs(kept.reply.lease_ms.into());
        if !(LEASE_MIN..=LEASE_MAX).contains(&lease) {
            return Err(NotKept::Lease(kept.reply.lease_ms));
        }
        if let Some(link) = self.links.get_mut(at) {
            (link.lease, link.answers) = (Some(lease), true);
            link.next = link.next.min(kept.sent + SpanMs((lease.0 / KEEPS_A_LEASE).max(1)));
        }
        if self.stood_still.is_some_and(|at| kept.sent <= at) {
            return Ok(BTreeSet::new());
        }
        let mut its_anew = None;
        if let Some(link) = self.links.get_mut(at) {
            if let Some(stood) = link.read(kept) {
                link.next = kept.received + SpanMs(1);
                self.stood_still = Some(kept.received);
                self.names.values_mut().for_each(|held| held.end(kept.received));
                // What the others said before shows the same once more.
                self.links.iter_mut().for_each(|link| link.reading = None);
                return Err(NotKept::StoodStill(stood.0));
            }
            its_anew = link.since.filter(|_| link.began_anew);
        }
        if self.heard.is_none_or(|heard| kept.received - heard > self.lease()) {
            self.answered = kept.received;
        }
        self.heard = self.heard.max(Some(kept.received));
        // What was ours before the start is listed by the first answers. Later on its `g` is given anew, by masters that have forgotten that it
        // was ours: somebody else may have had the section since.
        if kept.received - *self.began.get_or_insert(kept.received) > lease {
            self.former = Arc::default();
        }
        let until = kept.sent + lease;
        let wait = self.wait();
        // A master whose disk was put back lists what it remembers; who was given that since, and is listed nowhere now, serves on until
        // its span ends. And what it forgot it may give anew under the same `g`, at any time.
        let forgets = its_anew.is_some_and(|since| kept.received < since + wait);
        let again = if forgets { kept.received + wait } else { kept.received };
        let anew = self.links.iter().filter_map(|link| link.since).max().map(|since| since + wait);
        let goes_on = self.former.runs().contains(&kept.reply.run);
        let mut changed = BTreeSet::new();
        // An answer that comes after the span that it gives says nothing of now.
        let listed = if until > kept.received { kept.reply.sections.as_slice() } else { &[] };
        for sections in listed {
            let held = match self.names.get_mut(&sections.name) {
                Some(held) => held,
                None => self.names.entry(sections.name.clone()).or_default(),
            };
            let g = sections.g;
            for (from, to, resumed) in self.former.parts(&sections.name, sections.from.0, sections.to.0, g) {
                // Nobody ever had what has its first owner: there is nobody to wait for, either.
                let at_once = (resumed && goes_on) || g == Generation(1);
                let since = if at_once { again } else { kept.received + wait };
                held.hear(HeldRange { from, to, g, since, until }, kept.received, again, anew);
            }
            if !changed.contains(&sections.name) {
                changed.insert(sections.name.clone());
            }
        }
        let remembered = SpanMs(self.lease().0.saturating_mul(REMEMBERED_LEASES));
        for held in self.names.values_mut() {
            held.prune(now, self.answered, remembered);
        }
        if !kept.reply.more && until > kept.received {
            (self.former, self.told) = (Arc::default(), true);
        }
        Ok(changed)
    }

    /// Gives what is listed for us now, if a master has told all, and something that was listed is so no more, or a master was first heard in
    /// a run long enough ago. What this session gave of all other sections it gave as an owner after whom there may be others
    /// ([`Bounds::lost`]).
    pub fn take_lost(&mut self, now: BootMs) -> Option<Listed> {
        if !std::mem::take(&mut self.told) {
            return None;
        }
        let looked = self.looked.replace(now);
        let ended = |range: &HeldRange| range.until <= now && looked.is_none_or(|looked| looked < range.until);
        let wait = self.wait();
        let long_heard = |link: &MasterState| link.run.filter(|_| link.since.is_some_and(|since| since + wait <= now));
        let runs: Vec<MasterRun> = self.links.iter().filter_map(long_heard).collect();
        let some = looked.is_none() || runs != self.runs || self.names.values().flat_map(HeldRanges::ranges).any(ended);
        self.runs.clone_from(&runs);
        some.then(|| Listed { names: self.names.clone(), runs })
    }

    /// Tells whether masters list anything of a name for us no more, though they answer.
    pub fn has_lost(&self, name: &GeneratorName, now: BootMs) -> bool {
        self.held(name).is_some_and(|held| held.ranges().any(|range| range.until <= now))
    }

    /// The sections of a name.
    pub fn held(&self, name: &GeneratorName) -> Option<&HeldRanges> {
        self.names.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::held::{Ownership, Tenure};
    use super::*;
    use ids::sequence::Section;
    use wire::ranges::HeldSections;

    fn name() -> GeneratorName {
        "orders".parse().unwrap()
    }

    fn kept(sent: i64, received: i64, lease_ms: u32, g: u64) -> Kept {
        let sections = vec![HeldSections { name: name(), from: Section(0), to: Section(10), g: Generation(g) }];
        // The two clocks agree.
        let (run, boot) = (MasterRun(0), BootMs(sent));
        let reply = KeepReply { lease_ms, run, boot, sections, more: false };
        Kept { sent: BootMs(sent), received: BootMs(received), reply }
    }

    fn served(g: u64, since: i64) -> Ownership {
        Ownership::Served(Tenure { g: Generation(g), since: BootMs(since) })
    }

    fn ownership(allocator: &Allocator, now: i64) -> Ownership {
        allocator.held(&name()).map_or(Ownership::NotOurs, |held| held.ownership(Section(3), BootMs(now)))
    }

    #[test]
    fn what_was_ours_before_the_start_waits_if_masters_list_it_later_or_one_has_told_all_without_it() {
        let (mut bounds, name) = (Bounds::default(), name());
        bounds.note_run(MasterRun(0));
        bounds.note(&name, Section(3), super::super::Bound { g: Some(Generation(2)), max_seq: 500 });
        for (more, listed, serves) in
            [(true, 1_000, true), (true, 4_000, true), (true, 4_001, false), (false, 1_000, false)]
        {
            let mut allocator = Allocator::new(2, BootMs(0));
            allocator.resume(Arc::new(bounds.clone()));
            let mut first = kept(1_000, 1_000, 3_000, 2);
            (first.reply.sections, first.reply.more) = (Vec::new(), more);
            allocator.handle(BootMs(1_000), 0, &first).unwrap();
            allocator.handle(BootMs(listed), 1, &kept(listed, listed, 3_000, 2)).unwrap();
            let now = ownership(&allocator, listed);
            assert_eq!(matches!(now, Ownership::Served(_)), serves, "{more} {listed}: {now:?}");
        }
    }

    #[test]
    fn what_is_listed_no_more_is_told_once_and_after_a_whole_answer() {
        let mut allocator = Allocator::new(2, BootMs(0));
        assert!(allocator.take_lost(BootMs(0)).is_none());
        let mut page = kept(1_000, 1_000, 3_000, 2);
        page.reply.more = true;
        allocator.handle(BootMs(1_000), 0, &page).unwrap();
        assert!(allocator.take_lost(BootMs(1_000)).is_none(), "what is on the next page may be ours");
        page.reply.more = false;
        allocator.handle(BootMs(1_000), 0, &page).unwrap();
        assert!(allocator.take_lost(BootMs(1_000)).is_some(), "what was ours before the start may be listed no more");
        let lost = |allocator: &mut Allocator, now, listed: bool| {
            let mut all = kept(now, now, 3_000, 2);
            all.reply.sections.retain(|_| listed);
            allocator.handle(BootMs(now), 0, &all).unwrap();
            let at = |held: &HeldRanges| held.ownership(Section(3), BootMs(now));
            allocator.take_lost(BootMs(now)).map(|listed| listed.names.get(&name()).map_or(Ownership::NotOurs, at))
        };
        assert_eq!((lost(&mut allocator, 2_000, true), lost(&mut allocator, 4_090, true)), (None, None));
        assert_eq!(lost(&mut allocator, 4_091, true), Some(served(2, 4_091)), "no span of another run is left");
        assert_eq!(lost(&mut allocator, 7_090, false), None);
        assert_eq!(lost(&mut allocator, 7_091, false), Some(Ownership::Over(Generation(2))), "its span has ended");
        assert_eq!(lost(&mut allocator, 7_100, false), None);
        assert_eq!(lost(&mut allocator, 7_200, true), None, "it is listed again");
        assert_eq!(lost(&mut allocator, 11_000, false), Some(Ownership::Over(Generation(2))), "and lost again");
    }

    #[test]
    fn a_lease_counts_from_the_question_and_the_wait_from_the_answer() {
        let mut allocator = Allocator::new(2, BootMs(0));
        assert_eq!((allocator.next_keep(0), allocator.next_deadline()), (Some(BootMs(0)), Some(BootMs(0))));
        allocator.asked(0, BootMs(1_000));
        allocator.handle(BootMs(1_400), 0, &kept(1_000, 1_400, 3_000, 2)).unwrap();
        assert_eq!(allocator.next_keep(0), Some(BootMs(2_000)), "a third of what the master says");
        assert_eq!(ownership(&allocator, 1_500), Ownership::From(BootMs(1_400 + 3_091)));
        assert_eq!(ownership(&allocator, 4_000), Ownership::Over(Generation(2)));
        // The other master's later answer makes the span longer and not the wait.
        let changed = allocator.handle(BootMs(3_600), 1, &kept(3_500, 3_600, 3_000, 2)).unwrap();
        assert_eq!(changed, BTreeSet::from([name()]));
        assert_eq!(ownership(&allocator, 4_491), served(2, 4_491));
        assert_eq!(ownership(&allocator, 6_499), served(2, 4_491));
        assert_eq!(ownership(&allocator, 6_500), Ownership::Over(Generation(2)));
        // A late answer, doubled.
        for _ in 0..2 {
            allocator.handle(BootMs(6_600), 0, &kept(2_000, 6_600, 3_000, 2)).unwrap();
            assert_eq!(ownership(&allocator, 6_600), Ownership::Over(Generation(2)));
        }
    }

    #[test]
    fn the_first_owner_of_all_does_not_wait() {
        let mut allocator = Allocator::new(1, BootMs(0));
        allocator.handle(BootMs(10), 0, &kept(0, 10, 5_000, 1)).unwrap();
        assert_eq!(ownership(&allocator, 10), served(1, 10));
    }

    #[test]
    fn what_a_process_before_gave_as_the_same_owner_is_served_at_once() {
        let mut allocator = Allocator::new(1, BootMs(0));
        let mut former = Bounds::default();
        for (section, g) in [(3, 2), (4, 1)] {
            former.note(&name(), Section(section), crate::sequence::Bound { g: Some(Generation(g)), max_seq: 7 });
        }
        former.note_run(MasterRun(0));
        allocator.resume(Arc::new(former.clone()));
        allocator.handle(BootMs(10), 0, &kept(0, 10, 5_000, 2)).unwrap();
        let at = |section| allocator.held(&name()).unwrap().ownership(Section(section), BootMs(10));
        assert_eq!(at(3), served(2, 10));
        let waits = Ownership::From(BootMs(10 + 5_151));
        assert_eq!((at(2), at(4)), (waits, waits), "another owner, and one of which nothing is written");
        // The span is that of the question of this process.
        assert_eq!(ownership(&allocator, 5_000), Ownership::Over(Generation(2)));
        // Masters that were put back may have given it under that number anew, after somebody else.
        let mut allocator = Allocator::new(1, BootMs(0));
        allocator.resume(Arc::new(former));
        let mut anew = kept(0, 10, 5_000, 2);
        anew.reply.run = MasterRun(1);
        allocator.handle(BootMs(10), 0, &anew).unwrap();
        assert_eq!(ownership(&allocator, 10), waits);
    }

    #[test]
    fn a_lease_that_makes_no_sense_is_no_answer() {
        let mut allocator = Allocator::new(1, BootMs(0));
        for lease in [0, 99, 600_001, u32::MAX] {
            assert_eq!(allocator.handle(BootMs(10), 0, &kept(0, 10, lease, 1)), Err(NotKept::Lease(lease)));
        }
        assert_eq!((ownership(&allocator, 10), allocator.answering()), (Ownership::NotOurs, 0));
    }

    /// An answer of that run, at that reading of the master's clock.
    fn of_run(sent: i64, received: i64, run: u128, boot: i64) -> Kept {
        let mut kept = kept(sent, received, 5_000, 1);
        (kept.reply.run, kept.reply.boot) = (MasterRun(run), BootMs(boot));
        kept
    }

    #[test]
    fn a_machine_that_stood_still_with_its_clock_serves_nothing_before_it_is_listed_again() {
        let mut allocator = Allocator::new(2, BootMs(0));
        allocator.handle(BootMs(20), 0, &of_run(0, 20, 1, 70_010)).unwrap();
        // 2,000 ms later by both clocks, a slow trip, and a clock that is as fast as it may be.
        allocator.handle(BootMs(2_300), 0, &of_run(2_000, 2_300, 1, 72_300)).unwrap();
        allocator.handle(BootMs(4_300), 0, &of_run(4_290, 4_300, 1, 74_340)).unwrap();
        assert_eq!(ownership(&allocator, 4_300), served(1, 20));
        // The master's went on by a second more.
        let asked_before = of_run(4_310, 5_400, 2, 500);
        let stood = allocator.handle(BootMs(5_310), 0, &of_run(5_300, 5_310, 1, 76_400));
        assert!(matches!(stood, Err(NotKept::StoodStill(_))), "{stood:?}");
        assert_eq!(ownership(&allocator, 5_310), Ownership::Over(Generation(1)));
        assert_eq!(allocator.next_keep(0), Some(BootMs(5_311)));
        // Nor does what was asked of the other one before count, whenever it is answered.
        assert_eq!(allocator.handle(BootMs(5_400), 1, &asked_before), Ok(BTreeSet::new()));
        assert_eq!(ownership(&allocator, 5_400), Ownership::Over(Generation(1)));
        allocator.handle(BootMs(5_420), 0, &of_run(5_410, 5_420, 1, 76_510)).unwrap();
        assert_eq!(ownership(&allocator, 5_420), served(1, 5_420), "another span begins");
        // Another run's clock is another one.
        allocator.handle(BootMs(5_440), 0, &of_run(5_430, 5_440, 3, 999_999)).unwrap();
        assert_eq!(ownership(&allocator, 5_440), served(1, 5_420));
    }

    #[test]
    fn a_late_answer_of_a_former_run_does_not_begin_it_anew() {
        let mut allocator = Allocator::new(2, BootMs(0));
        allocator.handle(BootMs(20), 0, &of_run(0, 20, 1, 70_010)).unwrap();
        allocator.handle(BootMs(2_010), 0, &of_run(2_000, 2_010, 2, 100)).unwrap();
        allocator.handle(BootMs(2_020), 0, &of_run(1_990, 2_020, 1, 71_999)).unwrap();
        allocator.handle(BootMs(2_040), 0, &of_run(2_030, 2_040, 2, 130)).unwrap();
        let link = allocator.links.first().unwrap();
        assert_eq!((link.run, link.since), (Some(MasterRun(2)), Some(BootMs(2_010))));
    }

    #[test]
    fn a_machine_that_stood_still_drops_its_sections_once_whichever_master_is_heard_next() {
        let mut allocator = Allocator::new(2, BootMs(0));
        allocator.handle(BootMs(20), 0, &of_run(0, 20, 1, 70_010)).unwrap();
        allocator.handle(BootMs(30), 1, &of_run(10, 30, 2, 500)).unwrap();
        // Both masters' clocks went on by a second more.
        let stood = allocator.handle(BootMs(1_020), 0, &of_run(1_000, 1_020, 1, 72_010));
        assert!(matches!(stood, Err(NotKept::StoodStill(_))), "{stood:?}");
        // What the other one was asked before that shows its clock of before, too.
        assert_eq!(allocator.handle(BootMs(1_025), 1, &of_run(20, 1_025, 2, 510)), Ok(BTreeSet::new()));
        allocator.handle(BootMs(1_040), 0, &of_run(1_030, 1_040, 1, 72_035)).unwrap();
        let heard = allocator.handle(BootMs(1_060), 1, &of_run(1_050, 1_060, 2, 2_545));
        assert_eq!(heard, Ok(BTreeSet::from([name()])), "it was noticed before");
        assert_eq!(ownership(&allocator, 1_060), served(1, 1_040));
        // The next one is noticed by either.
        let stood = allocator.handle(BootMs(1_100), 1, &of_run(1_090, 1_100, 2, 3_545));
        assert!(matches!(stood, Err(NotKept::StoodStill(_))), "{stood:?}");
    }

    #[test]
    fn what_a_master_lists_after_it_may_have_forgotten_others_is_waited_for() {
        let mut allocator = Allocator::new(1, BootMs(0));
        allocator.handle(BootMs(20), 0, &of_run(0, 20, 1, 0)).unwrap();
        assert_eq!(ownership(&allocator, 20), served(1, 20));
        // The same run: nobody else was listed meanwhile.
        allocator.handle(BootMs(9_020), 0, &of_run(9_000, 9_020, 1, 9_000)).unwrap();
        assert_eq!(ownership(&allocator, 9_020), served(1, 9_020));
        // Another one, within the span: it goes on.
        allocator.handle(BootMs(13_000), 0, &of_run(12_990, 13_000, 2, 5)).unwrap();
        assert_eq!(ownership(&allocator, 13_000), served(1, 9_020));
        // Another one after it.
        allocator.handle(BootMs(30_000), 0, &of_run(29_990, 30_000, 3, 5)).unwrap();
        let since = BootMs(30_000 + 5_151);
        assert_eq!(ownership(&allocator, 30_000), Ownership::From(since));
        allocator.handle(BootMs(34_000), 0, &of_run(33_990, 34_000, 3, 4_005)).unwrap();
        assert_eq!(ownership(&allocator, 34_000), Ownership::From(since));
        assert_eq!(ownership(&allocator, since.0), served(1, since.0));
    }

    /// Masters were put back to before a section was given to us, and gave it to us again after somebody else had it.
    #[test]
    fn what_ended_before_a_master_began_anew_is_waited_for_whenever_it_is_listed() {
        let mut allocator = Allocator::new(1, BootMs(0));
        let of_g = |sent, run, boot, g, listed: bool| {
            let mut kept = of_run(sent, sent + 10, run, boot);
            kept.reply.sections.iter_mut().for_each(|sections| sections.g = Generation(g));
            kept.reply.sections.retain(|_| listed);
            kept
        };
        allocator.handle(BootMs(10), 0, &of_g(0, 1, 0, 2, true)).unwrap();
        allocator.handle(BootMs(4_010), 0, &of_g(4_000, 1, 4_000, 2, true)).unwrap();
        assert_eq!(ownership(&allocator, 6_000), served(2, 5_161));
        for sent in [6_000, 12_000, 18_000] {
            allocator.handle(BootMs(sent + 10), 0, &of_g(sent, 2, sent - 5_000, 2, false)).unwrap();
        }
        allocator.handle(BootMs(20_010), 0, &of_g(20_000, 2, 15_000, 2, true)).unwrap();
        assert_eq!(ownership(&allocator, 20_010), Ownership::From(BootMs(20_010 + 5_151)));
        // What it listed since it began is remembered as before.
        for (sent, listed) in [(24_000, true), (28_000, true), (32_000, false), (36_000, false), (39_000, true)] {
            allocator.handle(BootMs(sent + 10), 0, &of_g(sent, 2, sent - 5_000, 2, listed)).unwrap();
        }
        assert_eq!(ownership(&allocator, 39_010), served(2, 39_010));
    }

    /// Both were put back, and this agent reached only one of them before, and reaches only the other one now.
    #[test]
    fn what_ended_before_a_master_was_first_heard_is_waited_for() {
        let mut allocator = Allocator::new(2, BootMs(0));
        let of_g = |sent, run, g, listed: bool| {
            let mut kept = of_run(sent, sent + 10, run, sent);
            kept.reply.sections.iter_mut().for_each(|sections| sections.g = Generation(g));
            kept.reply.sections.retain(|_| listed);
            kept
        };
        for sent in [0, 4_000] {
            allocator.handle(BootMs(sent + 10), 0, &of_g(sent, 1, 2, true)).unwrap();
        }
        assert_eq!(ownership(&allocator, 6_000), served(2, 5_161));
        for (sent, listed) in [(10_000, false), (20_000, true)] {
            allocator.handle(BootMs(sent + 10), 1, &of_g(sent, 2, 2, listed)).unwrap();
        }
        assert_eq!(ownership(&allocator, 20_010), Ownership::From(BootMs(20_010 + 5_151)));
    }

    /// Masters that were put back count owners from where they were: what shows them that they have forgotten one is kept.
    #[test]
    fn a_lower_number_of_owners_says_nothing_while_a_higher_one_is_remembered() {
        let mut allocator = Allocator::new(1, BootMs(0));
        let of_g = |sent, run, g| {
            let mut kept = of_run(sent, sent + 10, run, sent);
            kept.reply.sections.iter_mut().for_each(|sections| sections.g = Generation(g));
            kept
        };
        for sent in [0, 4_000] {
            allocator.handle(BootMs(sent + 10), 0, &of_g(sent, 1, 5)).unwrap();
        }
        let hear = |allocator: &mut Allocator, sent| {
            let mut anew = of_g(sent, 2, 2);
            // As if it were asked for some sections, every other time.
            anew.reply.more = sent % 2_000 == 0;
            allocator.handle(BootMs(sent + 10), 0, &anew).unwrap();
            ownership(allocator, sent + 10)
        };
        assert_eq!(hear(&mut allocator, 6_000), served(5, 5_161));
        for sent in (9_000..59_000).step_by(1_000) {
            assert_eq!(hear(&mut allocator, sent), Ownership::Over(Generation(5)), "{sent}");
        }
        // Ten leases after the end of its span it is another section.
        hear(&mut allocator, 59_000);
        assert_eq!(hear(&mut allocator, 60_000), Ownership::From(BootMs(60_010 + 5_151)));
    }

    #[test]
    fn whoever_waits_waits_for_the_longest_lease_that_any_master_gives() {
        let mut allocator = Allocator::new(2, BootMs(0));
        allocator.handle(BootMs(0), 1, &kept(0, 0, 10_000, 1)).unwrap();
        allocator.handle(BootMs(0), 0, &kept(0, 0, 1_000, 2)).unwrap();
        assert_eq!(ownership(&allocator, 0), Ownership::From(BootMs(10_301)));
    }
}
