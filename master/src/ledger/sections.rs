//! Sections of sequences: what allocators are answered, and who gets which ([`crate::section`]).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::agreement::Agreement;
use super::state::Ledger;
use crate::lease::Effects;
use crate::section::placement::{self, Candidate, NEAR};
use crate::section::{Allocators, Held, PREPS_MAX, SECTIONS_MAX, Terms, rules};
use common::audit::{Action, Actor, Entry};
use common::lease::Generation;
use common::namespace::GeneratorName;
use common::parameters::{AgentId, SessionId};
use common::rpc::lease::Refusal;
use common::rpc::ranges::{
    ADDRESS_LEN_MAX, KEEP_RANGES_MAX, KeepReply, KeepRequest, NotRaised, RAISES_MAX, ROUTES_ASKED_MAX, ROUTES_MAX,
    Raise, RaiseRequest, Raised, RoutesReply, RoutesRequest, SETS_MAX,
};
use common::sequence::{Route, Section, SectionKey, SectionOwner, SectionRecord};
use common::time::Now;
use std::collections::BTreeMap;

/// Sections of owners that are gone which are given to others at one beat.
const GONE_MAX: usize = 2_048;
/// Sections that are moved at one beat from an owner that serves them: for each of them calls wait for a while.
const MOVES_MAX: usize = 32;

/// What those who may be given sections of one set have, while several are given at once.
pub(super) type Candidates = BTreeMap<GeneratorName, Vec<Candidate>>;

impl<A> Ledger<A>
where
    Self: Agreement,
{
    /// Writes nothing: allocators ask every other second.
    pub(super) fn on_keep(&mut self, now: Now, request: KeepRequest) -> Result<KeepReply, Refusal> {
        self.same_cluster(request.cluster)?;
        self.may_serve_sections()?;
        if !Allocators::plausible(&request) {
            let number = |most: usize| u32::try_from(most).unwrap_or(u32::MAX);
            return Err(Refusal::NoAllocator { sets: number(SETS_MAX), address: number(ADDRESS_LEN_MAX) });
        }
        let session = request.session;
        if !self.allocators.heard(now.boot, request) {
            return Err(Refusal::Overloaded);
        }
        let lease_ms = u32::try_from(self.allocators.lease().0).unwrap_or(u32::MAX);
        let listed = self.sections.listed(session).into_iter().flat_map(|spans| spans.held());
        Ok(KeepReply { lease_ms, sections: listed.take(KEEP_RANGES_MAX).collect() })
    }

    pub(super) fn on_raise(
        &mut self,
        request: &RaiseRequest,
        fx: &mut Effects,
    ) -> Result<Vec<Result<Raised, NotRaised>>, Refusal> {
        self.same_cluster(request.cluster)?;
        self.may_serve_sections()?;
        if request.raises.len() > RAISES_MAX {
            return Err(Refusal::TooMany { max: u32::try_from(RAISES_MAX).unwrap_or(u32::MAX) });
        }
        let by = (&request.agent_id, request.session);
        Ok(request.raises.iter().map(|raise| self.raise_one(by, raise, fx)).collect())
    }

    /// Owner and `g` must be those of the record, and no next owner proposed: else whoever was given the section after it could be given
    /// a number twice.
    fn raise_one(
        &mut self,
        (agent_id, session): (&AgentId, SessionId),
        raise: &Raise,
        fx: &mut Effects,
    ) -> Result<Raised, NotRaised> {
        let Some((terms, true)) = self.terms_of(&raise.name) else { return Err(NotRaised::Unknown) };
        if raise.section.0 >= terms.sections {
            return Err(NotRaised::Unknown);
        }
        let key = SectionKey { name: raise.name.clone(), section: raise.section };
        let held = self.sections.get(&key).ok_or(NotRaised::OtherOwner)?;
        let its = held.g == raise.g && held.owner.session == session && held.owner.agent_id == *agent_id;
        if !its || self.sections.prep(&key).is_some() {
            return Err(NotRaised::OtherOwner);
        }
        let from = held.max_seq;
        let max_seq = rules::raised(from, raise.to, self.raise_bound(held, &terms), &terms)?;
        if max_seq > from {
            let peer_has = self.held_by_all(held, max_seq);
            let held = Held { max_seq, peer_has, ..held.clone() };
            self.put_section(&key, held, fx);
            self.share_bound(&key);
        }
        Ok(Raised { from, max_seq })
    }

    pub(super) fn on_routes(
        &mut self,
        now: Now,
        request: RoutesRequest,
        fx: &mut Effects,
    ) -> Result<RoutesReply, Refusal> {
        self.same_cluster(request.cluster)?;
        self.may_serve_sections()?;
        if request.sections.len() > ROUTES_ASKED_MAX {
            return Err(Refusal::TooMany { max: u32::try_from(ROUTES_ASKED_MAX).unwrap_or(u32::MAX) });
        }
        let RoutesRequest { name, mut sections, all_from, .. } = request;
        let (terms, lives) = self.terms_of(&name).ok_or(Refusal::NoSuchName)?;
        sections.sort_unstable();
        sections.dedup();
        sections.retain(|section| section.0 < terms.sections);
        if lives {
            self.want_owners(now, &name, &sections, fx);
        }
        let asked = sections.iter().filter_map(|section| {
            let key = SectionKey { name: name.clone(), section: *section };
            let held = self.sections.get(&key).filter(|_| self.sections.prep(&key).is_none())?;
            Some((*section, held))
        });
        let mut routes: BTreeMap<Section, (Section, &Held)> = BTreeMap::new();
        let mut next = None;
        for (section, held) in asked {
            join_route(&mut routes, section, held);
        }
        for (section, held) in all_from.into_iter().flat_map(|from| self.sections.listed_of(&name, from)) {
            join_route(&mut routes, section, held);
            if routes.len() > ROUTES_MAX {
                routes.remove(&section);
                next = Some(section);
                break;
            }
        }
        let routes = routes.into_iter().map(|(from, (to, held))| Route {
            from,
            to,
            address: self.allocators.get(held.owner.session).map_or(&held.owner.address, |it| &it.said.address).clone(),
            g: held.g,
        });
        Ok(RoutesReply { routes: routes.collect(), next })
    }

    /// Lets those of these sections be given to somebody that nobody serves.
    pub(super) fn want_owners(&mut self, now: Now, name: &GeneratorName, sections: &[Section], fx: &mut Effects) {
        let nobodys = |section: &Section| {
            let key = SectionKey { name: name.clone(), section: *section };
            let gone = |held: &Held| self.allocators.silent(now.boot, held.owner.session);
            self.sections.prep(&key).is_none() && self.sections.get(&key).is_none_or(gone)
        };
        let (here, there): (Vec<Section>, Vec<Section>) =
            sections.iter().copied().filter(nobodys).partition(|section| self.is_home_of(*section));
        if !there.is_empty() && self.may_give_sections(now).is_ok() {
            self.ask_for_sections(name, there, fx);
        }
        let here = here.into_iter().map(|section| SectionKey { name: name.clone(), section });
        self.give(now, here.collect(), fx);
    }

    /// Proposes an owner for each of these sections that are at home here, as far as somebody has room for them.
    fn give(&mut self, now: Now, keys: Vec<SectionKey>, fx: &mut Effects) {
        if keys.is_empty() || self.may_give_sections(now).is_err() {
            return;
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
            if let Some(prep) = self.propose_to(&key, to, fx) {
                living.iter_mut().filter(|it| it.session == to).for_each(|it| {
                    it.assigned = it.assigned.saturating_add(terms.weight);
                });
                proposals.push(prep);
            }
        }
        self.give_sections(now, proposals, fx);
    }

    /// What is said of a section at home here that may be given to somebody now, and by whose set.
    fn givable(&self, key: &SectionKey) -> Option<(Terms, GeneratorName)> {
        let (terms, true) = self.terms_of(&key.name)? else { return None };
        let room = self.sections.get(key).is_some() || self.sections.len() < SECTIONS_MAX;
        let open = self.sections.prep(key).is_some() || self.sections.preps_len() >= PREPS_MAX;
        let known = common::setting::SettingKey::Namespace(key.name.clone());
        let set = self.settings_table.get(&known)?.value.namespace()?.sequences()?.set().clone();
        (key.section.0 < terms.sections && self.is_home_of(key.section) && room && !open).then_some((terms, set))
    }

    /// Writes the proposal down: from now on this master lists the section for nobody and raises it for nobody.
    fn propose_to(&mut self, key: &SectionKey, to: SessionId, fx: &mut Effects) -> Option<SectionRecord> {
        let said = &self.allocators.get(to)?.said;
        let owner = SectionOwner { session: to, agent_id: said.agent_id.clone(), address: said.address.clone() };
        let (g, max_seq) = self.sections.get(key).map_or((Generation(1), 0), |held| (held.g.next(), held.max_seq));
        let prep = SectionRecord { key: key.clone(), g, owner, max_seq };
        self.put_section_prep(prep.clone(), fx);
        Some(prep)
    }

    /// Who may be given sections of a set, and what each has.
    fn candidates(&self, now: Now, set: &GeneratorName) -> Vec<Candidate> {
        let serves = self.allocators.all().filter(|(_, it)| it.said.sets.contains(set));
        let takes = serves.filter(|(session, _)| self.allocators.takes(now.boot, *session));
        takes
            .map(|(session, it)| Candidate {
                session,
                memory: it.said.memory,
                assigned: self.assigned(session),
                used: it.said.used,
                per_second: it.said.per_second,
            })
            .collect()
    }

    /// What the sections of a session take in memory, in bytes.
    fn assigned(&self, session: SessionId) -> u64 {
        let bytes = self
            .sections
            .counts(session)
            .map(|(name, count)| self.terms_of(name).map_or(0, |(terms, _)| terms.weight.saturating_mul(count.into())));
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
        let gone = owners.iter().filter(|session| self.allocators.silent(now.boot, **session));
        let gone: Vec<SectionKey> =
            gone.flat_map(|session| self.at_home_of(*session, GONE_MAX)).take(GONE_MAX).collect();
        if !gone.is_empty() {
            return self.give(now, gone, fx);
        }
        // One that is about to stop serves on while the next owners wait, if they hear of it in time.
        let leaving: Vec<SectionKey> = self.of_leaving(&owners, true).take(GONE_MAX).collect();
        if !leaving.is_empty() {
            return self.give(now, leaving, fx);
        }
        let room = MOVES_MAX.saturating_sub(self.sections.preps_len());
        let drained: Vec<SectionKey> = self.of_leaving(&owners, false).take(room).collect();
        match drained.is_empty() {
            false => self.give(now, drained, fx),
            true if self.sections.preps_len() == 0 => self.even_out(now, fx),
            true => {}
        }
    }

    /// Sections of allocators that stop, or that operators drain.
    fn of_leaving<'a>(&'a self, owners: &'a [SessionId], stop: bool) -> impl Iterator<Item = SectionKey> + 'a {
        let leaves = move |session: &&SessionId| {
            let allocator = self.allocators.get(**session);
            allocator.is_some_and(|it| if stop { it.said.leaves } else { self.allocators.leaves(it) })
        };
        owners.iter().filter(leaves).flat_map(|session| self.at_home_of(*session, GONE_MAX))
    }

    /// Moves some sections from whoever has by far the most to whoever has the least.
    fn even_out(&mut self, now: Now, fx: &mut Effects) {
        let sets: std::collections::BTreeSet<GeneratorName> =
            self.allocators.all().flat_map(|(_, it)| it.said.sets.iter().cloned()).collect();
        for set in sets {
            let mut candidates = self.candidates(now, &set);
            let mut proposals = Vec::new();
            while proposals.len() < MOVES_MAX {
                let weight = candidates.iter().filter_map(|it| self.lightest(it.session, &set)).min();
                let Some((from, to)) = weight.and_then(|weight| placement::uneven(&candidates, weight)) else { break };
                let Some((terms, key)) = self.last_of_set(from, &set) else { break };
                let Some(prep) = self.propose_to(&key, to, fx) else { break };
                for it in &mut candidates {
                    match it.session {
                        session if session == from => it.assigned = it.assigned.saturating_sub(terms.weight),
                        session if session == to => it.assigned = it.assigned.saturating_add(terms.weight),
                        _ => {}
                    }
                }
                proposals.push(prep);
            }
            self.give_sections(now, proposals, fx);
        }
    }

    /// The least that a section of a set takes which a session has.
    fn lightest(&self, session: SessionId, set: &GeneratorName) -> Option<u64> {
        let of_set = |name: &GeneratorName| {
            let known = common::setting::SettingKey::Namespace(name.clone());
            let sequences = self.settings_table.get(&known)?.value.namespace()?.sequences()?;
            (sequences.set() == set).then(|| Terms::from(sequences).weight)
        };
        self.sections.counts(session).filter_map(|(name, _)| of_set(name)).min()
    }

    /// The last of a session's sections that are at home here and of that set.
    fn last_of_set(&self, session: SessionId, set: &GeneratorName) -> Option<(Terms, SectionKey)> {
        let mut listed = self.sections.listed(session)?.from_the_end().filter(|(_, section)| self.is_home_of(*section));
        listed.find_map(|(name, section)| {
            let key = SectionKey { name: name.clone(), section };
            let (terms, its) = self.givable(&key)?;
            (its == *set).then_some((terms, key))
        })
    }

    /// The last ones of a session's sections that are at home here and under way to nobody.
    fn at_home_of(&self, session: SessionId, max: usize) -> Vec<SectionKey> {
        let listed = self.sections.listed(session).into_iter().flat_map(|spans| spans.from_the_end());
        let here = listed.filter(|(_, section)| self.is_home_of(*section));
        here.take(max).map(|(name, section)| SectionKey { name: name.clone(), section }).collect()
    }

    /// An operator's order, audited here; its home moves it.
    pub(super) fn on_move(
        &mut self,
        now: Now,
        key: SectionKey,
        to: AgentId,
        actor: Actor,
        fx: &mut Effects,
    ) -> Result<(), Refusal> {
        self.may_serve_sections()?;
        self.may_give_sections(now)?;
        let (terms, _) = self.terms_of(&key.name).ok_or(Refusal::NoSuchName)?;
        if key.section.0 >= terms.sections || self.sections.prep(&key).is_some() {
            return Err(Refusal::NobodyTakes);
        }
        self.taker(now, &key, &to).ok_or(Refusal::NobodyTakes)?;
        let entry = Entry::new(fx.at, actor, Action::MoveSection, &key.to_string(), &format!("to {to}"));
        if self.is_home_of(key.section) {
            self.move_section(now, &key, &to, fx)?;
        } else {
            self.ask_move(key, to, fx);
        }
        fx.writes.push(crate::lease::Write::Audit(entry));
        Ok(())
    }

    /// Proposes a section that is at home here to that agent.
    pub(super) fn move_section(
        &mut self,
        now: Now,
        key: &SectionKey,
        to: &AgentId,
        fx: &mut Effects,
    ) -> Result<(), Refusal> {
        self.may_give_sections(now)?;
        self.givable(key).ok_or(Refusal::NobodyTakes)?;
        let session = self.taker(now, key, to).ok_or(Refusal::NobodyTakes)?;
        if self.sections.get(key).is_some_and(|held| held.owner.session == session) {
            return Ok(());
        }
        if let Some(prep) = self.propose_to(key, session, fx) {
            self.give_sections(now, vec![prep], fx);
        }
        Ok(())
    }

    /// The session of an agent that could take a section.
    fn taker(&self, now: Now, key: &SectionKey, to: &AgentId) -> Option<SessionId> {
        let known = common::setting::SettingKey::Namespace(key.name.clone());
        let sequences = self.settings_table.get(&known)?.value.namespace()?.sequences()?;
        let of_agent = |it: &Candidate| self.allocators.get(it.session).is_some_and(|a| a.said.agent_id == *to);
        self.candidates(now, sequences.set()).into_iter().find(|it| of_agent(it) && it.has_room()).map(|it| it.session)
    }

    /// An operator takes all sections away from an agent, or lets it have some again. Kept in memory, at both masters: after both were
    /// started anew it has to be said again.
    pub(super) fn on_drain(
        &mut self,
        agent_id: AgentId,
        on: bool,
        actor: Actor,
        fx: &mut Effects,
    ) -> Result<(), Refusal> {
        self.may_serve_sections()?;
        let known = self.allocators.all().any(|(_, it)| it.said.agent_id == agent_id);
        if on && !known {
            return Err(Refusal::NobodyTakes);
        }
        let detail = if on { "all sections go to others" } else { "it takes sections again" };
        fx.writes.push(crate::lease::Write::Audit(Entry::new(fx.at, actor, Action::Drain, agent_id.as_str(), detail)));
        self.allocators.drain(agent_id, on);
        Ok(())
    }
}

/// Adds a section to routes: to the one before it, if that ends here and has the same owner.
fn join_route<'a>(routes: &mut BTreeMap<Section, (Section, &'a Held)>, section: Section, held: &'a Held) {
    let after = Section(section.0.saturating_add(1));
    if routes.range(..=section).next_back().is_some_and(|(_, (to, _))| *to > section) {
        return;
    }
    if let Some((_, (to, its))) = routes.range_mut(..section).next_back()
        && *to == section
        && (its.g, its.owner.session) == (held.g, held.owner.session)
    {
        *to = after;
    } else {
        routes.insert(section, (after, held));
    }
}
