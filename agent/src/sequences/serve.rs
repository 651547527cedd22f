//! Giving numbers: at once where a section is in memory and its bound has room, and otherwise after what has to come first.

use super::counts::add;
use super::forward::NotPassed;
use super::name::{Entry, Name, ownership};
use super::waiting::{WaitPermit, WaitsFor};
use super::{Sequences, lock};
use crate::plugin::{AccountHolder, CallerPermit};
use crate::refusal::Refusal;
use crate::sequence::{Ownership, SectionState, Taken, Tenure};
use crate::serial::caller_per_hour;
use common::lease::Generation;
use common::sequence::{Route, SECTION_LEN, Section, ServedAt};
use common::time::BootMs;
use net::rpc::mint::{KeyAsked, KeyOutcome, MintCode, Passing};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The time that a call waits at most, in hundredths of a lease: a section that moves is without service for about half of one, and one whose
/// agent died for more.
const PATIENCE_PERCENT: i64 = 150;
/// Not less than this, however short leases are,
const PATIENCE_MIN: Duration = Duration::from_secs(1);
/// and not more.
const PATIENCE_MAX: Duration = Duration::from_secs(30);
/// A call that waits looks again that often, if nobody tells it to before.
const LOOK: Duration = Duration::from_millis(100);
/// An agent that did not do what was passed on to it is not asked again under the same `g` before this has passed.
pub(super) const REST: Duration = Duration::from_millis(500);
/// The number of times that a call is led on at most by agents that do not serve a key: from then on the masters' word alone moves it.
const HOPS_MAX: usize = 4;
/// Routes in one answer at most; who needs more asks for all.
pub(super) const ROUTES_TOLD_MAX: usize = 64;

/// The parts of a call beside its keys.
#[derive(Clone, Copy, Debug, Default)]
pub struct Call {
    /// The highest `g` of the routes by which the caller chose this agent; `None`: it wants no routes.
    pub g: Option<Generation>,
    /// The treatment of keys that another agent serves.
    pub passing: Passing,
    /// The caller; `None`: this process.
    pub(crate) from: Option<AccountHolder>,
}

/// The outcome of one key.
pub type Outcome = KeyOutcome;

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallOutcome {
    /// One for each key, in the order asked for.
    pub outcomes: Vec<Outcome>,
    /// Routes that the caller may not know, or that it needs.
    pub routes: Vec<Route>,
}

/// The result of one look at a key.
#[derive(Clone)]
enum Lookup {
    Done(Outcome),
    /// Another agent serves it, as far as is known.
    Elsewhere(Other),
    /// Something has to come first, at this instant at the latest or whenever.
    Later(Option<BootMs>),
}

/// The other agent that serves a section.
#[derive(Clone)]
struct Other {
    address: Arc<ServedAt>,
    g: Generation,
    /// Set if a call waits for it there already.
    is_awaited: bool,
    /// The instant from which it is served here instead.
    until: Option<BootMs>,
}

/// Keys of other agents, by until when those serve them, and under which `g`.
type Elsewhere = BTreeMap<(Arc<ServedAt>, Option<BootMs>), (Generation, Vec<usize>)>;

/// The result of looks at keys that have no outcome yet.
struct Unanswered {
    elsewhere: Elsewhere,
    /// The instant at which something will have changed.
    due: Option<BootMs>,
    /// True if keys wait for bounds of sections that are served here,
    bounds: bool,
    /// and whether some do for sections that are not.
    beyond: bool,
}

/// A call under way.
struct CallState {
    call: Call,
    outcomes: Vec<Option<Outcome>>,
    /// Places of keys without an outcome.
    open: Vec<usize>,
    /// Sections about whose routes the caller is told.
    told: BTreeMap<Section, Generation>,
    /// Agents that did not do what was passed on to them: under which `g`, and when they may be asked again.
    avoided: BTreeMap<Arc<ServedAt>, (Generation, Instant)>,
    /// Agents to which as many calls are passed on as may be, and when that is looked at again.
    full: BTreeMap<Arc<ServedAt>, Instant>,
    /// The number of times that agents said that others serve a key, or they themselves by a newer route.
    hops: usize,
}

/// Keys of one section that are looked at under its lock at once: others wait for it some microseconds at most.
const GROUP_MAX: usize = 512;
/// Keys that lie in other sections than the one before, one of so many: fewer are looked at in the order asked for.
const SCATTERED: usize = 8;

/// Brings keys of one section together if they are scattered. Those of one section keep their order: a key that is there twice gets the
/// smaller number first.
fn gather(open: &mut [usize], section_of: impl Fn(&usize) -> Option<Section>) {
    let borders = open.array_windows().filter(|[one, next]| section_of(one) != section_of(next)).count();
    if borders > open.len() / SCATTERED {
        open.sort_by_cached_key(section_of);
    }
}

/// The sections of the keys at these places of a call.
pub(super) fn sections_of(name: &Name, keys: &[KeyAsked], places: &[usize]) -> BTreeSet<Section> {
    let keys = places.iter().filter_map(|at| keys.get(*at));
    keys.map(|key| name.definition.place(key.slot).0).collect()
}

impl Unanswered {
    /// Something will have changed then.
    fn is_due(&mut self, at: BootMs) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}

pub(super) const REFUSED: fn(MintCode) -> Outcome = Outcome::Refused;

impl Sequences {
    /// The next number of a key, or several, if there is nothing to wait for and nothing to tell.
    #[cfg(feature = "server")]
    #[inline]
    pub(crate) fn try_next(&self, name: &Arc<Name>, slot: common::sequence::Slot, n: u32, call: Call) -> Option<u64> {
        let held = name.held();
        // After the call was read, and before its number is taken.
        let now = self.clock.boot();
        let (section, _) = name.definition.place(slot);
        let Ownership::Served(tenure) = ownership(&held, section, now) else { return None };
        if call.g.is_some_and(|known| known < tenure.g) {
            return None;
        }
        let taken = self.in_section(name, section, tenure, now, |state, before| {
            self.take(name, state, before, (KeyAsked { slot, n }, call.from), now)
        });
        let Ok(Taken::From(first)) = taken else { return None };
        add(&self.counts.calls, 1);
        add(&self.counts.numbers, n.into());
        Some(first)
    }

    /// Numbers of keys, each for itself. A key with `n` 0 gets none: the last that may have been given is said.
    pub(crate) async fn next(&self, name: &Arc<Name>, keys: &[KeyAsked], call: Call) -> CallOutcome {
        add(&self.counts.calls, 1);
        let mut progress = CallState {
            call,
            outcomes: vec![None; keys.len()],
            open: (0..keys.len()).collect(),
            told: BTreeMap::new(),
            avoided: BTreeMap::new(),
            full: BTreeMap::new(),
            hops: 0,
        };
        let began = Instant::now();
        let (mut place, mut part): (Option<WaitPermit<'_>>, Option<[CallerPermit; 2]>) = (None, None);
        for round in 0_u64.. {
            // It may have been retired while it was waited, or another agent asked.
            if round > 0
                && let Err(why) = self.gives(name)
            {
                progress.close(why.code());
                break;
            }
            // Told from here on, so that nothing is missed between a look and the wait after it.
            let (mut changed, mut raised) = (pin!(name.changed.notified()), pin!(name.raised.notified()));
            changed.as_mut().enable();
            raised.as_mut().enable();
            let Unanswered { elsewhere, due, bounds, beyond } = self.look_at_all(name, keys, &mut progress);
            if progress.open.is_empty() {
                break;
            }
            let left = self.patience().saturating_sub(began.elapsed());
            if left.is_zero() {
                progress.close(MintCode::SegmentPending);
                break;
            }
            let others = !elsewhere.is_empty();
            // What another agent serves needs no place here: a section that nobody serves must not keep calls from those.
            if others && self.pass_all(name, keys, elsewhere, &mut progress, left).await {
                continue;
            }
            let waits_for = if beyond || others { WaitsFor::Sections } else { WaitsFor::Bounds };
            if !place.as_ref().is_some_and(|place| place.is_for(waits_for)) {
                part = part.or_else(|| self.of_callers.take(call.from, keys.len()));
                match part.as_ref().and_then(|_| self.waiting.enter(&name.waiting, waits_for, keys.len())) {
                    Some(found) => {
                        add(&self.counts.waits, u64::from(place.is_none()));
                        place = Some(found);
                    }
                    None if place.is_none() => {
                        progress.close(MintCode::Overloaded);
                        break;
                    }
                    // It waits on where it is.
                    None => {}
                }
            }
            let wait = due.map_or(LOOK, |due| self.real_until(due).min(LOOK));
            tokio::select! {
                () = changed => {}
                () = raised, if bounds => {}
                () = tokio::time::sleep(wait.min(left)) => {}
            }
        }
        self.conclude(name, progress)
    }

    /// The time that a call may wait.
    fn patience(&self) -> Duration {
        let lease = lock(&self.allocator).lease();
        let patience = common::time::SpanMs(lease.0.saturating_mul(PATIENCE_PERCENT) / 100);
        self.clock.real(patience.to_std()).clamp(PATIENCE_MIN, PATIENCE_MAX)
    }

    /// One look at each key without an outcome.
    fn look_at_all(&self, name: &Arc<Name>, keys: &[KeyAsked], progress: &mut CallState) -> Unanswered {
        let held = name.held();
        // After the call was read, and before any of its numbers is taken.
        let now = self.clock.boot();
        let mut unanswered = Unanswered { elsewhere: BTreeMap::new(), due: None, bounds: false, beyond: false };
        let mut open = std::mem::take(&mut progress.open);
        let section_of = |at: &usize| keys.get(*at).map(|key| name.definition.place(key.slot).0);
        gather(&mut open, section_of);
        let mut rest = open.as_slice();
        while let Some(first) = rest.first() {
            let section = section_of(first);
            let len = rest.iter().take(GROUP_MAX).take_while(|at| section_of(at) == section).count().max(1);
            let (group, after) = rest.split_at(len);
            rest = after;
            let Some(section) = section else { continue };
            match ownership(&held, section, now) {
                Ownership::Served(tenure) => {
                    let from = progress.call.from;
                    self.take_all(name, (section, tenure), (keys, group, from), now, |at, lookup| {
                        unanswered.bounds |= matches!(lookup, Lookup::Later(_));
                        self.sort_in(name, section, at, lookup, progress, &mut unanswered);
                    });
                    if progress.call.g.is_some_and(|known| known < tenure.g) {
                        progress.tell(section, tenure.g);
                    }
                }
                ownership => {
                    // The same for all of its keys.
                    let lookup = self.look_beyond(name, section, ownership, progress);
                    unanswered.beyond |= matches!(lookup, Lookup::Later(_));
                    for at in group {
                        self.sort_in(name, section, *at, lookup.clone(), progress, &mut unanswered);
                    }
                }
            }
        }
        unanswered
    }

    /// Notes what a look at the key at that place of the call came to.
    fn sort_in(
        &self,
        name: &Name,
        section: Section,
        at: usize,
        lookup: Lookup,
        progress: &mut CallState,
        unanswered: &mut Unanswered,
    ) {
        match lookup {
            Lookup::Done(outcome) => progress.done(at, outcome),
            Lookup::Elsewhere(Other { g, .. }) if progress.call.passing == Passing::Back => {
                progress.tell(section, g);
                progress.done(at, REFUSED(MintCode::Misdirected));
            }
            Lookup::Elsewhere(Other { address, g, is_awaited, until }) => {
                if progress.call.g.is_some() {
                    progress.tell(section, g);
                }
                progress.open.push(at);
                if progress.avoids(&address, g) {
                    unanswered.beyond = true;
                    self.want_route(name, section);
                } else if is_awaited || progress.finds_full(&address) {
                    unanswered.beyond = true;
                } else {
                    until.into_iter().for_each(|until| unanswered.is_due(until));
                    unanswered.elsewhere.entry((address, until)).or_insert_with(|| (g, Vec::new())).1.push(at);
                }
            }
            Lookup::Later(at_last) => {
                progress.open.push(at);
                at_last.into_iter().for_each(|at_last| unanswered.is_due(at_last));
            }
        }
    }

    /// A look at a key of a section that is not served here now; what it needs is asked for.
    fn look_beyond(&self, name: &Name, section: Section, ownership: Ownership, progress: &CallState) -> Lookup {
        match ownership {
            Ownership::From(since) => self.look_before(name, section, since, progress),
            Ownership::Over(g) => self.look_elsewhere(name, section, Some(g)),
            Ownership::Served(_) | Ownership::NotOurs => self.look_elsewhere(name, section, None),
        }
    }

    /// A section that is ours from `since` on. Its former owner serves it until its own lease ends, whatever it has heard.
    fn look_before(&self, name: &Name, section: Section, since: BootMs, progress: &CallState) -> Lookup {
        let former = self.other_owner(name, section, None).filter(|former| {
            let may_be_asked = progress.call.passing == Passing::On && !former.is_awaited;
            may_be_asked && !progress.avoids(&former.address, former.g) && !progress.finds_full(&former.address)
        });
        let until_then = |former| Lookup::Elsewhere(Other { until: Some(since), ..former });
        former.map_or(Lookup::Later(Some(since)), until_then)
    }

    /// Works on a section that we serve in that tenure, under its lock. `work` is told what memory it took before.
    ///
    /// # Errors
    /// The result of a look at each of its keys instead.
    #[inline]
    fn in_section<T>(
        &self,
        name: &Arc<Name>,
        section: Section,
        tenure: Tenure,
        now: BootMs,
        work: impl FnOnce(&mut SectionState, usize) -> T,
    ) -> Result<T, Lookup> {
        let Some(shard) = name.shard(section) else { return Err(Lookup::Later(None)) };
        let mut shard = lock(shard);
        let entry = match shard.get_mut(&section.0) {
            Some(entry) => entry,
            None if !self.has_room(0) => return Err(Lookup::Done(REFUSED(MintCode::Overloaded))),
            None => {
                let (forgotten, entries) = name.recall(section.0);
                self.account_floors(entries);
                self.account(0, SECTION_LEN);
                let given = self.durable.given_before(name.name(), section).max(forgotten);
                let state = SectionState::new(&name.definition, tenure, given.unwrap_or(0));
                shard.entry(section.0).or_insert(Entry { state, queued: false })
            }
        };
        let before = entry.state.len();
        if entry.state.tenure() != tenure {
            // Another one may have begun while we looked. One that begins later may be of a lower `g`: masters that were put back do not know
            // how many owners there were.
            if ownership(&name.held(), section, now) != Ownership::Served(tenure) {
                return Err(Lookup::Later(Some(now)));
            }
            entry.state.own(tenure);
        }
        if !entry.state.is_loaded() {
            lock(&name.loads).load(&name.definition, section, &mut entry.state, now);
        }
        let done = work(&mut entry.state, before);
        let after = entry.state.len();
        if entry.state.wants() && !entry.queued {
            entry.queued = self.raises.push(name, section);
        }
        drop(shard);
        self.account(before, after);
        Ok(done)
    }

    /// Numbers of one key, or with `n` 0 its last.
    #[inline]
    fn take(
        &self,
        name: &Name,
        state: &mut SectionState,
        before: usize,
        (key, from): (KeyAsked, Option<AccountHolder>),
        now: BootMs,
    ) -> Taken {
        let (_, at) = name.definition.place(key.slot);
        match key.n {
            0 => state.current(at, now).map_or(Taken::Wait, Taken::From),
            n => {
                if let Some(from) = from
                    && let Some(left) = state.left_to_share(&name.definition, at, n, now)
                    && !self.has_share(name, key, from, left)
                {
                    return Taken::TooMany;
                }
                let room = self.has_room(state.len().saturating_sub(before));
                state.take(&name.definition, at, n, room, now)
            }
        }
    }

    /// Counts numbers of a key into what that caller may have of those that are `left` of the hour.
    #[cold]
    fn has_share(&self, name: &Name, key: KeyAsked, from: AccountHolder, (hour, left): (u32, u64)) -> bool {
        lock(&self.shares).take(((name.name().clone(), key.slot), hour), &from, key.n, left)
    }

    /// Numbers of keys of one section, which we serve in that tenure: those at `group` of the call. `lookup` is told what came of each.
    fn take_all(
        &self,
        name: &Arc<Name>,
        (section, tenure): (Section, Tenure),
        (keys, group, from): (&[KeyAsked], &[usize], Option<AccountHolder>),
        now: BootMs,
        mut lookup: impl FnMut(usize, Lookup),
    ) {
        let (mut numbers, mut waiting) = (0, Vec::new());
        let entered = self.in_section(name, section, tenure, now, |state, before| {
            for at in group {
                let Some(key) = keys.get(*at) else { continue };
                match self.take(name, state, before, (*key, from), now) {
                    Taken::From(first) => {
                        numbers += u64::from(key.n);
                        lookup(*at, Lookup::Done(Outcome::Given(first)));
                    }
                    Taken::Ended => lookup(*at, Lookup::Done(REFUSED(MintCode::SerialExhausted))),
                    Taken::TooMany => lookup(*at, Lookup::Done(REFUSED(MintCode::QuotaExceeded))),
                    Taken::Full => lookup(*at, Lookup::Done(REFUSED(MintCode::Overloaded))),
                    Taken::Wait => waiting.push(*at),
                }
            }
        });
        add(&self.counts.numbers, numbers);
        match entered {
            Ok(()) if waiting.is_empty() => {}
            Ok(()) => {
                let found = self.look_past(name, section, tenure.g);
                waiting.into_iter().for_each(|at| lookup(at, found.clone()));
            }
            Err(instead) => group.iter().for_each(|at| lookup(*at, instead.clone())),
        }
    }

    /// A section of ours whose bound has to be raised first: no master raises it for whoever is not the owner any more.
    fn look_past(&self, name: &Name, section: Section, g: Generation) -> Lookup {
        self.other_owner(name, section, Some(g)).map_or(Lookup::Later(None), Lookup::Elsewhere)
    }

    /// Another agent that serves a section, by a newer `g` than the known one.
    fn other_owner(&self, name: &Name, section: Section, known: Option<Generation>) -> Option<Other> {
        let routes = lock(&name.routes);
        let (address, g) = routes.find(section)?;
        let is_other = known.is_none_or(|known| g > known) && address.rpc != self.settings.address.rpc;
        let is_awaited = routes.is_awaited(section, &address);
        is_other.then_some(Other { address, g, is_awaited, until: None })
    }

    /// A section that is not served here now, though it was by the owner `g`.
    fn look_elsewhere(&self, name: &Name, section: Section, g: Option<Generation>) -> Lookup {
        self.other_owner(name, section, g).map(Lookup::Elsewhere).unwrap_or_else(|| {
            self.want_route(name, section);
            Lookup::Later(None)
        })
    }

    /// Passes keys on to the agents that serve them, side by side. `true` if another look makes sense at once.
    async fn pass_all(
        &self,
        name: &Arc<Name>,
        keys: &[KeyAsked],
        elsewhere: Elsewhere,
        progress: &mut CallState,
        patience: Duration,
    ) -> bool {
        let calls = elsewhere.into_iter().map(|((address, until), (g, places))| async move {
            let said = self.ask_other(name, keys, &places, (&address, until), patience).await;
            (address, until, g, places, said)
        });
        let (mut learned, mut led_on) = (false, false);
        for (address, until, g, places, said) in futures::future::join_all(calls).await {
            let outcomes = match said {
                Ok(reply) => {
                    led_on |= reply.outcomes.contains(&REFUSED(MintCode::Misdirected));
                    if progress.hops < HOPS_MAX {
                        let sections = sections_of(name, keys, &places);
                        learned |= lock(&name.routes).learn(sections, &reply.routes);
                    }
                    reply.outcomes
                }
                Err(NotPassed::Overtaken) => {
                    learned = true;
                    continue;
                }
                Err(NotPassed::Full) => {
                    progress.full.insert(address, Instant::now() + LOOK);
                    continue;
                }
                Err(NotPassed::Refused(failure)) => {
                    tracing::debug!(%failure, "another agent refused what was passed on");
                    // It would say the same of a question that nothing is wrong with but where it went.
                    let code = match failure.code {
                        MintCode::BadParameter => failure.code,
                        _ => MintCode::Misdirected,
                    };
                    vec![REFUSED(code); places.len()]
                }
                Err(NotPassed::Lost(why) | NotPassed::Closed(why)) => {
                    tracing::debug!(%why, "what was passed on to another agent got no answer");
                    vec![REFUSED(MintCode::Misdirected); places.len()]
                }
            };
            for (at, outcome) in places.into_iter().zip(outcomes) {
                if outcome == REFUSED(MintCode::Misdirected) {
                    progress.avoided.insert(Arc::clone(&address), (g, Instant::now() + REST));
                    if until.is_none() {
                        self.lead_nowhere(name, keys, at);
                    }
                } else {
                    progress.done(at, outcome);
                }
            }
        }
        progress.hops += usize::from(led_on);
        let CallState { open, outcomes, .. } = progress;
        let before = open.len();
        open.retain(|at| outcomes.get(*at).is_none_or(Option::is_none));
        // What is left may be ours alone.
        learned || open.len() < before
    }

    /// The real time until that instant, at least a millisecond.
    pub(super) fn real_until(&self, at: BootMs) -> Duration {
        self.clock.real((at - self.clock.boot()).to_std()).max(Duration::from_millis(1))
    }

    /// The route of that key did not lead to who serves it: the masters are asked, unless we were told of a newer one.
    fn lead_nowhere(&self, name: &Name, keys: &[KeyAsked], at: usize) {
        let Some(key) = keys.get(at) else { return };
        let (section, _) = name.definition.place(key.slot);
        self.want_route(name, section);
    }

    /// The answer, with the routes that belong to it.
    fn conclude(&self, name: &Name, progress: CallState) -> CallOutcome {
        let mut misdirected = 0;
        let mut refused = 0;
        let outcomes: Vec<Outcome> = progress
            .outcomes
            .into_iter()
            .map(|outcome| outcome.unwrap_or(REFUSED(MintCode::SegmentPending)))
            .inspect(|outcome| match outcome {
                Outcome::Given(_) => {}
                Outcome::Refused(MintCode::Misdirected) => misdirected += 1,
                Outcome::Refused(_) => refused += 1,
            })
            .collect();
        if misdirected > 0 {
            add(&self.counts.misdirected, misdirected);
        }
        if refused > 0 {
            add(&self.counts.refused, refused);
        }
        let mut routes: Vec<Route> = Vec::new();
        let held = if progress.told.is_empty() { None } else { Some(name.held()) };
        for (section, g) in &progress.told {
            if routes.len() >= ROUTES_TOLD_MAX {
                break;
            }
            if routes.last().is_some_and(|last| last.from <= *section && *section < last.to) {
                continue;
            }
            let ours = held
                .as_ref()
                .and_then(|held| held.iter().find(|range| range.from <= section.0 && section.0 < range.to));
            routes.extend(match ours.filter(|range| range.g >= *g) {
                Some(range) => Some(Route {
                    from: Section(range.from),
                    to: Section(range.to),
                    address: self.settings.address.clone(),
                    g: range.g,
                }),
                None => lock(&name.routes).route(*section),
            });
        }
        CallOutcome { outcomes, routes }
    }

    /// The refusal that a code stands for, worded for the caller.
    pub(crate) fn refusal(&self, name: &Name, code: MintCode) -> Refusal {
        match code {
            MintCode::Misdirected => Refusal::Misdirected,
            MintCode::SerialExhausted => Refusal::KeyEnded { bits: name.definition.width().bits() },
            MintCode::QuotaExceeded => {
                let width = name.definition.width();
                let (most, of_caller) = (width.per_hour(), caller_per_hour(width));
                Refusal::KeyTooFast { most: most.unwrap_or_default(), of_caller: of_caller.unwrap_or_default() }
            }
            MintCode::Overloaded => Refusal::Overloaded(
                "too many calls wait for sections, of all callers or of this one, or all memory for keys is in use (--sequence-memory); ask again",
            ),
            _ => match (self.gives(name), self.minter.masters().outside_whitelist()) {
                (Err(why), _) => why,
                (Ok(()), Some(why)) => Refusal::OutsideWhitelist(why),
                (Ok(()), None) => Refusal::SectionPending { why: lock(&name.routes).unserved() },
            },
        }
    }
}

impl CallState {
    fn avoids(&self, address: &Arc<ServedAt>, g: Generation) -> bool {
        let is_told_again = |known| g <= known || self.hops >= HOPS_MAX;
        self.avoided.get(address).is_some_and(|(known, until)| is_told_again(*known) && Instant::now() < *until)
    }

    fn finds_full(&self, address: &Arc<ServedAt>) -> bool {
        self.full.get(address).is_some_and(|until| Instant::now() < *until)
    }

    fn done(&mut self, at: usize, outcome: Outcome) {
        if let Some(place) = self.outcomes.get_mut(at) {
            *place = Some(outcome);
        }
    }

    fn tell(&mut self, section: Section, g: Generation) {
        if self.told.len() < ROUTES_TOLD_MAX || self.told.contains_key(&section) {
            self.told.insert(section, g);
        }
    }

    fn close(&mut self, code: MintCode) {
        for at in std::mem::take(&mut self.open) {
            self.done(at, REFUSED(code));
        }
    }
}
