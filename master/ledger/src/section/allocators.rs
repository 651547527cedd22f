//! The allocators that this master and the other one have heard of, and since when each is silent at both.
//!
//! Nothing of it is durable: after a start everybody counts as heard at that moment. Who owns a section is not decided by it, only when
//! somebody else is offered it; that two never serve at once is kept by the leases and by the wait of the next owner.

use ids::parameters::{AgentId, SessionId};
use ids::time::{BootMs, SpanMs};
use std::collections::BTreeMap;
use wire::ranges::{ADDRESS_LEN_MAX, KeepRequest, SETS_MAX, SeenAllocator};

/// Allocators of both masters that are known at once; a further one is refused.
pub const ALLOCATORS_MAX: usize = 512;
/// Of those, so many may be of one network, so that no network keeps others out.
pub const NETWORK_MAX: usize = ALLOCATORS_MAX / 2;
/// Memory that one of them counts for at most, whatever it says: a machine that has more is given as many sections as one that has this.
pub const MEMORY_MAX: u64 = 1 << 40;
/// The time for which one that is silent is remembered.
const REMEMBERED: SpanMs = SpanMs::seconds(600);
/// The longest time to the next word of the other master on whom it heard, which comes once a second and takes its time.
const WORD: SpanMs = SpanMs(1_300);
/// Agents whose draining is remembered; the oldest orders are forgotten beyond it.
pub const DRAINED_MAX: usize = 512;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Allocator {
    /// The last call that it made, here or at the other master.
    pub said: KeepRequest,
    /// The instant at which it was last heard here.
    pub here: Option<BootMs>,
    /// The instant at which it was last heard at the other master, by this one's clock.
    pub there: Option<BootMs>,
}

impl Allocator {
    fn heard(&self) -> Option<BootMs> {
        self.here.max(self.there)
    }
}

/// All of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Allocators {
    seen: BTreeMap<SessionId, Allocator>,
    /// Agents that operators drain, or no longer do, by the number of the order.
    drained: BTreeMap<AgentId, (u64, bool)>,
    /// Since when allocators can be heard here.
    started: BootMs,
    lease: SpanMs,
    /// The other master's, if it said.
    their_lease: Option<SpanMs>,
}

impl Allocators {
    /// Nobody yet, at a master that starts now and lets allocators serve for `lease`.
    pub fn new(started: BootMs, lease: SpanMs) -> Self {
        Self { seen: BTreeMap::new(), drained: BTreeMap::new(), started, lease, their_lease: None }
    }

    /// Sets the time that they may serve from now on (`--sequence-lease`).
    pub fn set_lease(&mut self, lease: SpanMs) {
        self.lease = lease;
    }

    /// The time that this master was told to let them serve.
    pub fn own_lease(&self) -> SpanMs {
        self.lease
    }

    /// The time that they may serve: the longer one, if the two masters were told different ones.
    pub fn lease(&self) -> SpanMs {
        self.their_lease.map_or(self.lease, |theirs| theirs.max(self.lease))
    }

    /// Notes what the other master was told; `true` if that is news, and differs.
    pub fn note_their_lease(&mut self, theirs: SpanMs) -> bool {
        let news = self.their_lease.replace(theirs) != Some(theirs);
        news && theirs != self.lease
    }

    /// Tells whether what an allocator says of itself can be.
    pub fn plausible(said: &KeepRequest) -> bool {
        let short = |text: &String| text.len() <= ADDRESS_LEN_MAX;
        said.sets.len() <= SETS_MAX && short(&said.address.http) && short(&said.address.rpc)
    }

    /// From now on allocators are answered here: those that were not until now were not silent.
    pub fn listen(&mut self, now: BootMs) {
        self.started = self.started.max(now);
    }

    /// Somebody keeps its sections here. `false`: there are too many.
    /// Whoever `owns` sections is never left out for somebody who does not.
    pub fn heard(&mut self, now: BootMs, said: KeepRequest, owns: impl Fn(SessionId) -> bool) -> bool {
        let session = said.session;
        let room = self.seen.contains_key(&session) || self.make_room(now, session, owns);
        let said = capped(said);
        match self.seen.get_mut(&session) {
            Some(known) => (known.said, known.here) = (said, Some(now)),
            None if room => drop(self.seen.insert(session, Allocator { said, here: Some(now), there: None })),
            None => return false,
        }
        true
    }

    /// Room for one more: whoever is silent for longest, and longer than it may serve, is forgotten for it; and for an owner of sections
    /// somebody who owns none.
    fn make_room(&mut self, now: BootMs, newcomer: SessionId, owns: impl Fn(SessionId) -> bool) -> bool {
        if self.seen.len() < ALLOCATORS_MAX {
            return true;
        }
        let longest = self.seen.iter().min_by_key(|(_, it)| it.heard()).map(|(session, _)| *session);
        let silent = longest.filter(|session| self.silent(now, *session));
        let owner = owns(newcomer);
        let idle = || self.seen.keys().copied().find(|session| owner && !owns(*session));
        silent.or_else(idle).is_some_and(|session| self.seen.remove(&session).is_some())
    }

    /// The other master has heard of somebody.
    pub fn heard_there(&mut self, now: BootMs, seen: SeenAllocator, owns: impl Fn(SessionId) -> bool) {
        if !Self::plausible(&seen.said) {
            return;
        }
        let at = now + SpanMs(-i64::from(seen.silent_ms));
        let room = self.seen.contains_key(&seen.said.session) || self.make_room(now, seen.said.session, owns);
        let seen = SeenAllocator { said: capped(seen.said), ..seen };
        match self.seen.get_mut(&seen.said.session) {
            Some(known) => {
                // The younger word counts.
                if known.here.is_none_or(|here| here < at) {
                    known.said = seen.said;
                }
                known.there = known.there.max(Some(at));
            }
            None if room => {
                self.seen.insert(seen.said.session, Allocator { said: seen.said, here: None, there: Some(at) });
            }
            None => {}
        }
    }

    /// Allocators that this master has heard lately, for the other one.
    pub fn for_the_other(&self, now: BootMs) -> Vec<SeenAllocator> {
        let lately = |allocator: &&Allocator| allocator.here.is_some_and(|here| now - here < REMEMBERED);
        let told = |allocator: &Allocator| {
            let silent = allocator.here.map_or(SpanMs(0), |here| now - here);
            SeenAllocator {
                said: allocator.said.clone(),
                silent_ms: u32::try_from(silent.0.max(0)).unwrap_or(u32::MAX),
            }
        };
        self.seen.values().filter(lately).map(told).collect()
    }

    /// Tells whether this master or the other one has heard of anybody.
    pub fn any(&self) -> bool {
        !self.seen.is_empty() || !self.drained.is_empty()
    }

    /// Forgets who has long been silent.
    pub fn forget(&mut self, now: BootMs) {
        self.seen.retain(|_, allocator| allocator.heard().is_some_and(|heard| now - heard < REMEMBERED));
    }

    /// One of them, if it is known.
    pub fn get(&self, session: SessionId) -> Option<&Allocator> {
        self.seen.get(&session)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = (SessionId, &Allocator)> {
        self.seen.iter().map(|(session, allocator)| (*session, allocator))
    }

    /// The longest time from a call that only the other master hears to the word of the next one.
    fn word(&self) -> SpanMs {
        SpanMs((self.lease().0 / 3).saturating_add(WORD.0))
    }

    /// Tells whether a session is silent at both masters for longer than it may serve, with a tenth of that for messages that are under way.
    pub fn silent(&self, now: BootMs, session: SessionId) -> bool {
        let heard = self.seen.get(&session).and_then(Allocator::heard).map_or(self.started, |it| it.max(self.started));
        let lease = self.lease();
        now - heard > SpanMs(lease.0.saturating_add(lease.0 / 10)).max(self.word())
    }

    /// Tells whether a session was heard at one master at least for as long as it may serve.
    pub fn is_heard(&self, now: BootMs, session: SessionId) -> bool {
        let most = self.lease().max(self.word());
        self.seen.get(&session).and_then(Allocator::heard).is_some_and(|heard| now - heard <= most)
    }

    /// Tells whether a session may be given sections: it is heard, does not leave, and nobody drains it.
    pub fn takes(&self, now: BootMs, session: SessionId) -> bool {
        self.is_heard(now, session) && self.seen.get(&session).is_some_and(|allocator| !self.leaves(allocator))
    }

    /// The sessions of an agent that are known. More than one: it was started anew, or two agents have one name.
    pub fn of_agent(&self, agent_id: &AgentId) -> impl Iterator<Item = (SessionId, &Allocator)> {
        self.all().filter(move |(_, allocator)| allocator.said.agent_id == *agent_id)
    }

    /// Tells whether its sections are to be moved away.
    pub fn leaves(&self, allocator: &Allocator) -> bool {
        allocator.said.leaves || self.is_drained(&allocator.said.agent_id)
    }

    /// Tells whether an operator drains that agent.
    pub fn is_drained(&self, agent_id: &AgentId) -> bool {
        self.drained.get(agent_id).is_some_and(|(_, on)| *on)
    }

    /// An operator drains an agent from now on, or no longer.
    pub fn drain(&mut self, agent_id: AgentId, on: bool) {
        let last = self.drained.values().map(|(order, _)| *order).max().unwrap_or_default();
        self.note_drained(agent_id, last.saturating_add(1), on);
    }

    /// The other master knows of such an order: the one with the higher number counts, of two with one number that drains.
    pub fn note_drained(&mut self, agent_id: AgentId, order: u64, on: bool) {
        let known = self.drained.get(&agent_id).copied().unwrap_or_default();
        if (order, on) > known {
            self.drained.insert(agent_id, (order, on));
        }
        if self.drained.len() > DRAINED_MAX {
            let oldest = self.drained.iter().min_by_key(|(_, order)| **order).map(|(agent_id, _)| agent_id.clone());
            oldest.map(|agent_id| self.drained.remove(&agent_id));
        }
    }

    /// All such orders, for the other master.
    pub fn drained(&self) -> Vec<(AgentId, u64, bool)> {
        self.drained.iter().map(|(agent_id, (order, on))| (agent_id.clone(), *order, *on)).collect()
    }
}

fn capped(said: KeepRequest) -> KeepRequest {
    KeepRequest { memory: said.memory.min(MEMORY_MAX), ..said }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section::tests::keep;

    const N: SpanMs = SpanMs(5_000);

    fn nobody(_: SessionId) -> bool {
        false
    }

    fn seen(session: u128, silent_ms: u32) -> SeenAllocator {
        SeenAllocator { said: keep(session, 1 << 30), silent_ms }
    }

    #[test]
    fn who_is_silent_here_and_heard_there_is_not_silent() {
        let session = SessionId(7);
        let mut all = Allocators::new(BootMs(0), N);
        assert!(!all.silent(BootMs(5_500), session) && all.silent(BootMs(5_501), session), "since the start");
        assert!(all.heard(BootMs(10_000), keep(7, 0), nobody));
        assert!(!all.silent(BootMs(15_500), session) && all.silent(BootMs(15_501), session));
        all.heard_there(BootMs(15_000), seen(7, 1_000), nobody);
        assert!(!all.silent(BootMs(19_500), session) && all.silent(BootMs(19_501), session));
        // An older word changes nothing.
        all.heard_there(BootMs(15_100), seen(7, 5_000), nobody);
        assert!(!all.silent(BootMs(19_500), session));
    }

    /// Calls come every third of a second here, and the other master's word of them once a second.
    #[test]
    fn with_a_lease_of_a_second_the_other_masters_word_is_waited_for() {
        let mut all = Allocators::new(BootMs(0), SpanMs(1_000));
        all.heard_there(BootMs(10_000), seen(7, 333), nobody);
        let session = SessionId(7);
        assert!(all.takes(BootMs(11_300), session) && !all.silent(BootMs(11_300), session));
        assert!(!all.takes(BootMs(11_301), session) && all.silent(BootMs(11_301), session));
    }

    #[test]
    fn the_longer_lease_counts() {
        let mut all = Allocators::new(BootMs(0), N);
        assert!(all.note_their_lease(SpanMs(9_000)) && !all.note_their_lease(SpanMs(9_000)));
        assert_eq!(all.lease(), SpanMs(9_000));
        assert!(!all.silent(BootMs(9_900), SessionId(1)) && all.silent(BootMs(9_901), SessionId(1)));
        assert!(!all.note_their_lease(N), "they agree again");
        assert_eq!(all.lease(), N);
    }

    #[test]
    fn who_leaves_or_is_drained_takes_nothing() {
        let mut all = Allocators::new(BootMs(0), N);
        all.heard(BootMs(0), KeepRequest { leaves: true, ..keep(1, 0) }, nobody);
        all.heard(BootMs(0), keep(2, 0), nobody);
        assert!(!all.takes(BootMs(0), SessionId(1)) && all.takes(BootMs(0), SessionId(2)));
        assert!(!all.takes(BootMs(5_001), SessionId(2)), "silent");
        all.drain(keep(2, 0).agent_id, true);
        assert!(!all.takes(BootMs(0), SessionId(2)));
        // The order that was given last counts, at whichever master, however often it is told.
        let mut other = Allocators::new(BootMs(0), N);
        for _ in 0..2 {
            all.drained().into_iter().for_each(|(agent, order, on)| other.note_drained(agent, order, on));
        }
        other.drain(keep(2, 0).agent_id, false);
        other.drained().into_iter().for_each(|(agent, order, on)| all.note_drained(agent, order, on));
        assert!(!all.is_drained(&keep(2, 0).agent_id) && all.takes(BootMs(0), SessionId(2)));
    }

    #[test]
    fn there_are_not_more_than_so_many() {
        let mut all = Allocators::new(BootMs(0), N);
        let most = ALLOCATORS_MAX as u128;
        assert!((0..most).all(|session| all.heard(BootMs(0), keep(session, 0), nobody)));
        assert!(!all.heard(BootMs(0), keep(most, 0), nobody) && all.heard(BootMs(1), keep(0, 0), nobody));
        all.heard_there(BootMs(0), seen(most, 0), nobody);
        assert!(all.get(SessionId(most)).is_none());
        // One that is silent for longer than it may serve makes room.
        assert!(all.heard(BootMs(5_501), keep(most, 0), nobody) && all.get(SessionId(0)).is_some());
        all.forget(BootMs(600_000));
        assert_eq!(all.all().count(), 2, "those that were heard since");
    }

    #[test]
    fn who_owns_sections_is_never_left_out_for_who_does_not_and_nobody_counts_for_more_than_the_most() {
        let mut all = Allocators::new(BootMs(0), N);
        let (most, first) = (ALLOCATORS_MAX as u128, SessionId(0));
        assert!((0..most).all(|session| all.heard(BootMs(0), keep(session, u64::MAX), nobody)));
        assert_eq!(all.get(first).map(|it| it.said.memory), Some(MEMORY_MAX));
        let owns = |session: SessionId| session == first || session.0 >= most;
        assert!(all.heard(BootMs(1), keep(most, 0), owns), "all are heard, and one of them has no section");
        all.heard_there(BootMs(1), seen(most + 1, 0), owns);
        assert!([0, most, most + 1].iter().all(|session| all.get(SessionId(*session)).is_some()));
        assert_eq!(all.all().count(), ALLOCATORS_MAX);
        assert!(!all.heard(BootMs(1), keep(most - 1, 0), |session| session.0 != most - 1) || all.get(first).is_some());
    }

    #[test]
    fn what_cannot_be_said_is_not_taken_over() {
        let mut all = Allocators::new(BootMs(0), N);
        let mut wrong = seen(1, 0);
        wrong.said.address.http = "x".repeat(ADDRESS_LEN_MAX + 1);
        assert!(!Allocators::plausible(&wrong.said));
        all.heard_there(BootMs(0), wrong, nobody);
        assert!(!all.any());
    }
}
