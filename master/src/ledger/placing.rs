//! Who gets which section: those that nobody serves, those of owners that are gone or go, and a few of owners that have far more than
//! others ([`crate::section::placement`]).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::agreement::Agreement;
use super::state::Ledger;
use crate::lease::Effects;
use crate::section::allocators::{Allocator, NETWORK_MAX};
use crate::section::placement::{self, Candidate, NEAR};
use crate::section::{Held, PREPS_MAX, SECTIONS_MAX, SECTIONS_OF_NAME_MAX, Terms};
use common::lease::{Generation, Lease};
use common::namespace::GeneratorName;
use common::parameters::{AgentId, SessionId};
use common::rpc::lease::Refusal;
use common::rpc::ranges::{KeepRequest, NotMoved, Unserved};
use common::sequence::{Section, SectionKey, SectionOrder, SectionOwner, SectionRecord, SequenceDefinition, Slot};
use common::setting::SettingKey;
use common::time::Now;
use std::collections::{BTreeMap, BTreeSet};

/// Sections of owners that are gone which are given to others at one beat.
const GONE_MAX: usize = 2_048;
/// Sections that are moved at one beat from an owner that serves them: for each of them calls wait for a while.
const MOVES_MAX: usize = 32;

/// What those who may be given sections of one set have, while several are given at once.
type Candidates = BTreeMap<GeneratorName, Vec<Candidate>>;

impl<A> Ledger<A>
where
    Self: Agreement,
{
    /// Lets those of these sections be given to somebody that nobody serves.
    pub(super) fn want_owners(&mut self, now: Now, name: &GeneratorName, sections: &[Section], fx: &mut Effects) {
        let nobodys = |section: &Section| self.is_nobodys(now, &SectionKey { name: name.clone(), section: *section });
        let nobodys: Vec<Section> = sections.iter().copied().filter(nobodys).collect();
        if self.is_home_of(name) {
            let keys = nobodys.into_iter().map(|section| SectionKey { name: name.clone(), section });
            self.give(now, keys.collect(), fx);
        } else if !nobodys.is_empty() && self.may_give_sections(now).is_ok() {
            self.ask_for_sections(name, nobodys, fx);
        }
    }

    /// Why one of these sections that nobody serves stays so, if that is known.
    pub(super) fn unserved(&self, now: Now, name: &GeneratorName, sections: &[Section]) -> Option<Unserved> {
        let key = |section: &Section| SectionKey { name: name.clone(), section: *section };
        let mut nobodys = sections.iter().map(key).filter(|key| self.is_nobodys(now, key)).peekable();
        nobodys.peek()?;
        match self.may_give_sections(now) {
            Err(Refusal::Quiet) => return Some(Unserved::Quiet),
            Err(_) => return Some(Unserved::MasterAway),
            Ok(()) => {}
        }
        let set = self.sequences_of(name)?.set();
        let candidates = self.candidates(now, set);
        if candidates.is_empty() {
            return Some(Unserved::NoAllocator { set: set.clone() });
        }
        if !candidates.iter().any(Candidate::has_room) {
            return Some(Unserved::NoMemory { set: set.clone() });
        }
        let max = self.room_for(name).err()?;
        nobodys.any(|key| self.sections.get(&key).is_none()).then_some(max)
    }

    /// Whether nobody serves a section, and nobody is about to as far as this master knows.
    fn is_nobodys(&self, now: Now, key: &SectionKey) -> bool {
        let gone = |held: &Held| self.allocators.silent(now.boot, held.owner.session);
        self.sections.prep(key).is_none() && self.sections.get(key).is_none_or(gone)
    }

    /// Whether somebody serves a section, and nobody is to have it after that.
    pub(super) fn has_owner(&self, now: Now, key: &SectionKey) -> bool {
        self.sections.prep(key).is_none() && !self.is_nobodys(now, key)
    }

    /// Proposes an owner for each of these sections that are at home here, as far as somebody has room for them. Whether for any.
    fn give(&mut self, now: Now, keys: Vec<SectionKey>, fx: &mut Effects) -> bool {
        if keys.is_empty() || self.may_give_sections(now).is_err() {
            return false;
        }
        let mut candidates = Candidates::new();
        let mut proposals = Vec::new();
        for key in keys {
            let Some((terms, set)) = self.givable(&key) else { continue };
            let living = candidates.entry(set.clone()).or_insert_with(|| self.candidates(now, &set));
            let Some(to) = placement::choose(living, self.sections.neighbours(&key, NEAR), terms.weight) else {
                continue;
            };
            if self.sections.get(&key).is_some_and(|held| held.owner.session == to) {
                continue;
            }
            if let Some(prep) = self.propose_to(&key, to, 0, fx) {
                living.iter_mut().filter(|it| it.session == to).for_each(|it| {
                    it.assigned = it.assigned.saturating_add(terms.weight);
                });
                proposals.push(prep);
            }
        }
        let any = !proposals.is_empty();
        self.give_sections(now, proposals, fx);
        any
    }

    /// What is said of a section at home here that may be given to somebody now, and by whose set.
    fn givable(&self, key: &SectionKey) -> Option<(Terms, GeneratorName)> {
        let (terms, true) = self.terms_of(&key.name)? else { return None };
        let room = self.sections.get(key).is_some() || self.room_for(&key.name).is_ok();
        let open = self.sections.prep(key).is_some() || self.sections.preps_len() >= PREPS_MAX;
        let set = self.sequences_of(&key.name)?.set().clone();
        (key.section.0 < terms.sections && self.is_home_of(&key.name) && room && !open).then_some((terms, set))
    }

    /// Whether a section that nobody was given before may be given to somebody: of all names together, and of this one.
    fn room_for(&self, name: &GeneratorName) -> Result<(), Unserved> {
        let number = |most: usize| u32::try_from(most).unwrap_or(u32::MAX);
        if self.sections.len() >= SECTIONS_MAX {
            return Err(Unserved::TooMany { max: number(SECTIONS_MAX) });
        }
        if self.sections.len_of(name) >= SECTIONS_OF_NAME_MAX {
            return Err(Unserved::TooManyOfName { max: number(SECTIONS_OF_NAME_MAX) });
        }
        Ok(())
    }

    /// Writes the proposal down, in which all numbers up to `given` count as given: from now on this master lists the section for nobody and
    /// raises it for nobody.
    fn propose_to(&mut self, key: &SectionKey, to: SessionId, given: u64, fx: &mut Effects) -> Option<SectionRecord> {
        let said = &self.allocators.get(to)?.said;
        let owner = SectionOwner { session: to, agent_id: said.agent_id.clone(), address: said.address.clone() };
        let begun = || (Generation(1), self.terms_or_widest(&key.name).first.saturating_sub(1));
        let (g, max_seq) = self.sections.get(key).map_or_else(begun, |held| (held.g.next(), held.max_seq));
        let max_seq = max_seq.max(given);
        let prep = SectionRecord { key: key.clone(), g, owner, max_seq };
        self.put_section_prep(prep.clone(), fx);
        Some(prep)
    }

    /// Who may be given sections of a set, and what each has.
    fn candidates(&self, now: Now, set: &GeneratorName) -> Vec<Candidate> {
        let serves = self.allocators.all().filter(|(_, it)| it.said.sets.contains(set));
        let takes = serves.filter(|(session, _)| self.allocators.takes(now.boot, *session));
        let limits = self.table.usage().limits();
        let candidates = takes.filter_map(|(session, it)| {
            let lease = self.lease_of(&it.said)?;
            let candidate = Candidate {
                session,
                memory: it.said.memory,
                counted: it.said.memory,
                assigned: self.assigned(session),
                used: it.said.used,
                per_second: it.said.per_second,
            };
            Some((limits.network(&lease.address), candidate))
        });
        placement::share(candidates.collect(), limits.share_percent)
    }

    /// Whether somebody who keeps sections may be among those that sections are given to. Whoever owns some keeps them in any case.
    pub(super) fn may_serve(&self, said: &KeepRequest) -> Result<(), Refusal> {
        let known = self.allocators.get(said.session).is_some();
        if self.owns_sections(said.session) {
            return Ok(());
        }
        let lease = self.lease_of(said).ok_or(Refusal::ServesWithoutLease)?;
        let limits = self.table.usage().limits();
        let network = limits.network(&lease.address);
        let of_network = |(_, it): &(SessionId, &Allocator)| {
            self.lease_of(&it.said).is_some_and(|lease| limits.network(&lease.address) == network)
        };
        // Counted only for who is new: nobody is thrown out.
        if known || self.allocators.all().filter(of_network).count() < NETWORK_MAX {
            return Ok(());
        }
        Err(Refusal::AllocatorsOfNetwork { max: u32::try_from(NETWORK_MAX).unwrap_or(u32::MAX) })
    }

    /// A lease that an allocator's agent holds. Its sections may be another session's than its leases are.
    fn lease_of(&self, said: &KeepRequest) -> Option<&Lease> {
        self.table.in_force(&said.agent_id, said.holder)
    }

    /// Whether somebody has sections or is to have some.
    fn owns_sections(&self, session: SessionId) -> bool {
        self.sections.counts(session).next().is_some()
    }

    /// What the sections of a session take in memory, in bytes.
    fn assigned(&self, session: SessionId) -> u64 {
        let bytes = self.sections.counts(session).map(|(name, count)| {
            // Of a retired name nobody asks any more.
            let living = self.terms_of(name).filter(|(_, lives)| *lives);
            living.map_or(0, |(terms, _)| terms.weight.saturating_mul(count.into()))
        });
        bytes.fold(0, u64::saturating_add)
    }

    /// At each beat: sections of owners that are silent at both masters go to others; those of owners that leave, and of owners that have
    /// far more than others, a few at a time.
    pub(super) fn place_sections(&mut self, now: Now, fx: &mut Effects) {
        self.allocators.forget(now.boot);
        if self.sections.is_empty() || self.may_give_sections(now).is_err() {
            return;
        }
        let owners: Vec<SessionId> = self.sections.owners().collect();
        let takeable = self.takeable(now);
        let gone = owners.iter().filter(|session| self.allocators.silent(now.boot, **session));
        let gone: Vec<SectionKey> =
            gone.flat_map(|session| self.at_home_of(*session, &takeable)).take(GONE_MAX).collect();
        if self.give(now, gone, fx) {
            return;
        }
        // One that is about to stop serves on while the next owners wait, if they hear of it in time.
        let leaving: Vec<SectionKey> = self.of_leaving(&owners, &takeable, true).take(GONE_MAX).collect();
        if self.give(now, leaving, fx) {
            return;
        }
        let room = MOVES_MAX.saturating_sub(self.sections.preps_len());
        let drained: Vec<SectionKey> = self.of_leaving(&owners, &takeable, false).take(room).collect();
        if !self.give(now, drained, fx) && self.sections.preps_len() == 0 {
            self.even_out(now, fx);
        }
    }

    /// The living names whose sections somebody could be given now. What nobody can take must not stand in the way of what somebody can.
    fn takeable(&self, now: Now) -> BTreeSet<GeneratorName> {
        let mut sets: BTreeMap<&GeneratorName, bool> = BTreeMap::new();
        let mut takes = |set| {
            let room = || self.candidates(now, set).iter().any(Candidate::has_room);
            *sets.entry(set).or_insert_with(room)
        };
        let living = self.sections.names(None).filter(|name| self.is_living_sequence(name));
        living.filter(|name| self.sequences_of(name).is_some_and(|its| takes(its.set()))).cloned().collect()
    }

    /// Sections of allocators that stop, if `stop`; otherwise of those that operators drain, of those without a lease, and those of sets which their owner serves no
    /// more: it was started again with other ones.
    fn of_leaving<'a>(
        &'a self,
        owners: &'a [SessionId],
        takeable: &'a BTreeSet<GeneratorName>,
        stop: bool,
    ) -> impl Iterator<Item = SectionKey> + 'a {
        let leave = move |session: &SessionId| {
            let Some(allocator) = self.allocators.get(*session) else { return Vec::new() };
            let leaves = match stop {
                true => allocator.said.leaves,
                false => self.allocators.leaves(allocator) || self.lease_of(&allocator.said).is_none(),
            };
            if leaves {
                return self.at_home_of(*session, takeable);
            }
            let other_set = |name: &GeneratorName| {
                self.sequences_of(name).is_some_and(|its| !allocator.said.sets.contains(its.set()))
            };
            let counted = self.sections.counts(*session).map(|(name, _)| name).filter(|_| !stop);
            let left: BTreeSet<GeneratorName> =
                counted.filter(|name| takeable.contains(*name) && other_set(name)).cloned().collect();
            if left.is_empty() { Vec::new() } else { self.at_home_of(*session, &left) }
        };
        owners.iter().flat_map(leave)
    }

    /// Moves some sections from whoever has by far the most to whoever has the least.
    fn even_out(&mut self, now: Now, fx: &mut Effects) {
        let living = self.sections.names(None).filter(|name| self.is_living_sequence(name));
        let sets: BTreeSet<GeneratorName> =
            living.filter_map(|name| Some(self.sequences_of(name)?.set().clone())).collect();
        let mut proposals = Vec::new();
        for set in sets {
            let mut candidates = self.candidates(now, &set);
            while proposals.len() < MOVES_MAX {
                let weight = candidates.iter().filter_map(|it| self.lightest(it.session, &set)).min();
                let Some((from, to)) = weight.and_then(|weight| placement::uneven(&candidates, weight)) else { break };
                let Some((terms, key)) = self.evening_out(&candidates, (from, to), &set) else {
                    // What it has the most of is of other sets, or too heavy to make anything more even.
                    candidates.retain(|it| it.session != from);
                    continue;
                };
                let Some(prep) = self.propose_to(&key, to, 0, fx) else { break };
                for it in &mut candidates {
                    match it.session {
                        session if session == from => it.assigned = it.assigned.saturating_sub(terms.weight),
                        session if session == to => it.assigned = it.assigned.saturating_add(terms.weight),
                        _ => {}
                    }
                }
                proposals.push(prep);
            }
        }
        self.give_sections(now, proposals, fx);
    }

    /// A living name's set is that one.
    fn is_of_set(&self, name: &GeneratorName, set: &GeneratorName) -> bool {
        self.is_living_sequence(name) && self.sequences_of(name).is_some_and(|its| its.set() == set)
    }

    /// The least that a section of a set takes which a session has.
    fn lightest(&self, session: SessionId, set: &GeneratorName) -> Option<u64> {
        let of_set = self.sections.counts(session).map(|(name, _)| name).filter(|name| self.is_of_set(name, set));
        of_set.filter_map(|name| Some(self.terms_of(name)?.0.weight)).min()
    }

    /// One of a session's sections that are at home here and of that set, which makes the two more even: of names of which it has sections
    /// of another size, a heavier one could do the opposite, and would come back at the next beat.
    fn evening_out(
        &self,
        candidates: &[Candidate],
        (from, to): (SessionId, SessionId),
        set: &GeneratorName,
    ) -> Option<(Terms, SectionKey)> {
        let listed = self.sections.listed(from)?;
        let here = |name: &&GeneratorName| self.is_home_of(name) && self.is_of_set(name, set);
        let of_set = self.sections.counts(from).map(|(name, _)| name).filter(here);
        let mut fitting = of_set.filter(|name| {
            let weight = self.terms_of(name).map(|(terms, _)| terms.weight);
            weight.is_some_and(|weight| placement::uneven(candidates, weight) == Some((from, to)))
        });
        fitting.find_map(|name| {
            let section = listed.from_the_end_of(name).next()?;
            let key = SectionKey { name: name.clone(), section };
            Some((self.givable(&key)?.0, key))
        })
    }

    /// The last ones of a session's sections of these names that are at home here and under way to nobody.
    fn at_home_of(&self, session: SessionId, takeable: &BTreeSet<GeneratorName>) -> Vec<SectionKey> {
        let listed = self.sections.listed(session).into_iter();
        let theirs = listed.flat_map(|spans| {
            let names = takeable.iter().rev().filter(|name| self.is_home_of(name));
            names.flat_map(|name| spans.from_the_end_of(name).map(move |section| (name, section)))
        });
        theirs.take(GONE_MAX).map(|(name, section)| SectionKey { name: name.clone(), section }).collect()
    }

    /// Proposes a section that is at home here as an operator wants it.
    pub(super) fn carry_out(
        &mut self,
        now: Now,
        key: &SectionKey,
        order: &SectionOrder,
        fx: &mut Effects,
    ) -> Result<(), Refusal> {
        let session = self.next_owner(now, key, order)?;
        let is_there = |held: &Held| held.owner.session == session;
        let given = match order {
            SectionOrder::Move(_) if self.sections.get(key).is_some_and(is_there) => return Ok(()),
            SectionOrder::Move(_) => 0,
            SectionOrder::Raise(first) => first.saturating_sub(1),
        };
        if let Some(prep) = self.propose_to(key, session, given, fx) {
            self.give_sections(now, vec![prep], fx);
        }
        Ok(())
    }

    /// The next owner of a section if an operator's order is carried out now, as far as this master knows. A raised one stays where it is if it
    /// can: its owner under a further number has to begin above its bound as anybody would.
    pub(super) fn next_owner(&self, now: Now, key: &SectionKey, order: &SectionOrder) -> Result<SessionId, Refusal> {
        self.may_give_sections(now)?;
        let terms = self.movable(key)?;
        let first = match order {
            SectionOrder::Move(to) => return self.taker(now, key, to),
            SectionOrder::Raise(first) => *first,
        };
        if !(1..=terms.last).contains(&first) {
            return Err(Refusal::NotMoved(NotMoved::NoSuchNumber { last: terms.last }));
        }
        let set = self.sequences_of(&key.name).ok_or(Refusal::NoSuchName)?.set();
        let candidates = self.candidates(now, set);
        let owner = self.sections.get(key).map(|held| held.owner.session);
        let stays = owner.filter(|owner| candidates.iter().any(|it| it.session == *owner));
        let other = || placement::choose(&candidates, self.sections.neighbours(key, NEAR), terms.weight);
        stays.or_else(other).ok_or_else(|| Refusal::NotMoved(NotMoved::Nobody { set: set.clone() }))
    }

    /// The terms of a section that may be given to somebody now, as far as that depends on the section and this master knows.
    fn movable(&self, key: &SectionKey) -> Result<Terms, Refusal> {
        let (terms, lives) = self.terms_of(&key.name).ok_or_else(|| self.no_terms(&key.name))?;
        if !lives {
            return Err(Refusal::NameRetired);
        }
        if key.section.0 >= terms.sections {
            return Err(Refusal::NotMoved(NotMoved::NoSuchSection { last: terms.sections.saturating_sub(1) }));
        }
        if let Some(prep) = self.sections.prep(key) {
            return Err(Refusal::NotMoved(NotMoved::UnderWay { to: prep.owner.agent_id.clone() }));
        }
        if self.sections.get(key).is_none() {
            self.room_for(&key.name).map_err(|full| Refusal::NotMoved(NotMoved::NoRoom { full }))?;
        }
        if self.sections.preps_len() >= PREPS_MAX {
            return Err(Refusal::NotMoved(NotMoved::TooManyUnderWay));
        }
        Ok(terms)
    }

    /// The session of an agent that could take a section, or why none of its sessions can: by the one that comes closest to it.
    fn taker(&self, now: Now, key: &SectionKey, to: &AgentId) -> Result<SessionId, Refusal> {
        let set = self.sequences_of(&key.name).ok_or(Refusal::NoSuchName)?.set();
        let agent_id = || to.clone();
        let closest = self.allocators.of_agent(to).map(|(session, it)| {
            if !self.allocators.is_heard(now.boot, session) {
                (1, Err(NotMoved::Silent { agent_id: agent_id() }))
            } else if self.allocators.leaves(it) {
                (2, Err(NotMoved::Leaves { agent_id: agent_id() }))
            } else if self.lease_of(&it.said).is_none() {
                (3, Err(NotMoved::NoLease { agent_id: agent_id() }))
            } else if !it.said.sets.contains(set) {
                (4, Err(NotMoved::OtherSet { agent_id: agent_id(), set: set.clone() }))
            } else if it.said.used >= it.said.memory {
                (5, Err(NotMoved::Full { agent_id: agent_id() }))
            } else {
                (6, Ok(session))
            }
        });
        let found = closest.max_by_key(|(near, _)| *near).map(|(_, found)| found);
        found.unwrap_or_else(|| Err(NotMoved::NoSuchAgent { agent_id: agent_id() })).map_err(Refusal::NotMoved)
    }

    /// A set of living sequences that nobody could serve if this agent took no sections.
    pub(super) fn set_left_alone(&self, now: Now, agent_id: &AgentId) -> Option<GeneratorName> {
        let living = self.settings_table.all().filter(|setting| !setting.value.is_retired());
        let used = living.filter_map(|setting| Some(setting.value.namespace()?.sequences()?.set()));
        let used: BTreeSet<&GeneratorName> = used.collect();
        let its = self.allocators.of_agent(agent_id).flat_map(|(_, it)| &it.said.sets);
        let its: BTreeSet<&GeneratorName> = its.filter(|set| used.contains(set)).collect();
        let another = |it: &Candidate| {
            let others = self.allocators.get(it.session).is_some_and(|it| it.said.agent_id != *agent_id);
            others && it.has_room()
        };
        its.into_iter().find(|set| !self.candidates(now, set).iter().any(another)).cloned()
    }

    /// The section that the keys of a slot are in.
    pub fn section_of(&self, name: &GeneratorName, slot: Slot) -> Result<Section, Refusal> {
        let definition = self.sequences_of(name).ok_or_else(|| self.no_terms(name))?;
        Ok(definition.place(slot).0)
    }

    fn sequences_of(&self, name: &GeneratorName) -> Option<&SequenceDefinition> {
        self.settings_table.get(&SettingKey::Namespace(name.clone()))?.value.namespace()?.sequences()
    }
}
