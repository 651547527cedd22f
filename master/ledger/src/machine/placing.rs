//! The choice of who gets which section: those that nobody serves, those of owners that are gone or go, and a few of owners that have far more than
//! others ([`crate::section::placement`]).

use super::agreement::Agreement;
use super::state::Ledger;
use crate::lease::Effects;
use crate::section::allocators::{Allocator, NETWORK_MAX};
use crate::section::placement::{self, AHEAD, Candidate, NEAR};
use crate::section::{Owned, PREPS_MAX, Piece, SECTIONS_MAX, SECTIONS_OF_NAME_MAX, SectionMap, Terms};
use ids::lease::{Generation, Lease};
use ids::namespace::GeneratorName;
use ids::parameters::{AgentId, SessionId};
use ids::sequence::{
    Section, SectionKey, SectionOrder, SectionOwner, SectionRange, SectionRecord, SequenceDefinition, Slot,
};
use ids::setting::SettingKey;
use ids::time::Now;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use wire::lease::Refusal;
use wire::ranges::{KeepRequest, NotMoved, Unserved};

/// Ranges of owners that are gone or stop which are given to others at one beat.
const GONE_MAX: usize = 2_048;
/// Ranges of an owner that serves them which are moved at one beat because it is drained, and sections which are moved to make the load more
/// even: for each of them calls wait for a while.
const MOVES_MAX: usize = 32;
/// Part of many more sections that may be moved at one beat to make the load more even, so that it does not take days.
const MOVES_PART: u32 = 32;

/// Candidates for the sections of each set, with what they have while several are given at once.
type Candidates = BTreeMap<GeneratorName, Vec<Candidate>>;

impl<A> Ledger<A>
where
    Self: Agreement,
{
    /// Lets those of these sections be given to somebody that nobody serves; and with one that nobody ever had all of its name, so that the
    /// first number of none of their keys needs a word of both masters.
    pub(super) fn want_owners(&mut self, now: Now, name: &GeneratorName, sections: &[Section], fx: &mut Effects) {
        let nobodys = |section: &Section| self.is_nobodys(now, &SectionKey { name: name.clone(), section: *section });
        let nobodys: Vec<Section> = sections.iter().copied().filter(nobodys).collect();
        if self.is_home_of(name) {
            let keys = nobodys.into_iter().map(|section| SectionKey { name: name.clone(), section });
            let (had, new): (Vec<_>, Vec<_>) = keys.partition(|key| self.sections.owned(key).is_some());
            let mut ranges = SectionMap::default();
            had.iter().for_each(|key| ranges.set(&key.into(), Some(())));
            let mut ranges: Vec<SectionRange> = ranges.rows(None).map(|(range, ())| range).collect();
            if !new.is_empty() && self.could_take(now, name) {
                ranges.extend(self.never_had(name));
            }
            self.give(now, ranges, fx);
        } else if !nobodys.is_empty() && self.may_give_sections(now).is_ok() {
            self.ask_for_sections(name, nobodys, fx);
        }
    }

    /// Tells whether somebody could be given sections of a name that nobody had.
    fn could_take(&self, now: Now, name: &GeneratorName) -> bool {
        let set = self.sequences_of(name).filter(|_| self.room_for(name).is_ok()).map(SequenceDefinition::set);
        set.is_some_and(|set| self.candidates(now, set).iter().any(Candidate::has_room))
    }

    /// The sections of a name that nobody had, and nobody is proposed for.
    fn never_had(&self, name: &GeneratorName) -> Vec<SectionRange> {
        let Some((Terms { sections, .. }, _)) = self.terms_of(name) else { return Vec::new() };
        let all = SectionRange { name: name.clone(), from: Section(0), to: Section(sections) };
        let new = self.sections.pieces(&all).filter(|piece| piece.held.is_none() && piece.prep.is_none());
        new.map(|piece| piece.range).collect()
    }

    /// The reason why one of these sections that nobody serves stays so, if that is known.
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
        nobodys.any(|key| self.sections.owned(&key).is_none()).then_some(max)
    }

    /// Tells whether nobody serves a section, and nobody is about to as far as this master knows.
    fn is_nobodys(&self, now: Now, key: &SectionKey) -> bool {
        let gone = |owned: &Owned| self.allocators.silent(now.boot, owned.owner.session);
        self.sections.prep(key).is_none() && self.sections.owned(key).is_none_or(gone)
    }

    /// Tells whether somebody serves a section, and nobody is to have it after that.
    pub(super) fn has_owner(&self, now: Now, key: &SectionKey) -> bool {
        self.sections.prep(key).is_none() && !self.is_nobodys(now, key)
    }

    /// Proposes owners for these sections that are at home here, as far as somebody has room for them. Whether for any.
    fn give(&mut self, now: Now, ranges: Vec<SectionRange>, fx: &mut Effects) -> bool {
        if ranges.is_empty() || self.may_give_sections(now).is_err() {
            return false;
        }
        // Those that somebody had are shared as one: else each of many ranges would be cut into as many as there are agents, time and again.
        let mut lots: BTreeMap<(GeneratorName, Option<Section>), Vec<Piece>> = BTreeMap::new();
        let mut left = PREPS_MAX;
        for range in ranges {
            let Some((terms, _)) = self.terms_at_home(&range.name) else { continue };
            for piece in self.givable(&range, &terms, left) {
                left = left.saturating_sub(1);
                let new = piece.held.is_none().then_some(piece.range.from);
                lots.entry((range.name.clone(), new)).or_default().push(piece);
            }
        }
        let mut candidates = Candidates::new();
        let mut proposals = Vec::new();
        for ((name, new), mut pieces) in lots {
            pieces.sort_unstable_by_key(|piece| piece.range.from);
            let Some((terms, set)) = self.terms_at_home(&name) else { continue };
            let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { continue };
            let sections = pieces.iter().fold(0, |sum: u32, piece| sum.saturating_add(piece.range.len()));
            // A few go to one, beside the first of them; of more each end is somebody's.
            let to = if u64::from(sections) > AHEAD { last.range.to } else { first.range.to };
            let hull = SectionRange { to, ..first.range.clone() };
            let living = candidates.entry(set.clone()).or_insert_with(|| self.candidates(now, &set));
            let shares = match new {
                Some(from) => placement::deal(&self.of_name(living, &name, &terms), terms.weight, (from.0, sections)),
                None => placement::divide(living, self.sections.neighbours(&hull, NEAR), terms.weight, sections),
            };
            let mut pieces = VecDeque::from(pieces);
            for (to, share) in shares {
                let taken = self.propose_some(&mut pieces, to, (share, &terms), fx, &mut proposals);
                let bytes = terms.weight.saturating_mul(taken.into());
                living.iter_mut().filter(|it| it.session == to).for_each(|it| {
                    it.assigned = it.assigned.saturating_add(bytes);
                });
            }
        }
        let any = !proposals.is_empty();
        self.give_sections(now, proposals, fx);
        any
    }

    /// The same candidates by what they have of one name. Whoever comes first where all have as much is another one for each name.
    fn of_name(&self, candidates: &[Candidate], name: &GeneratorName, terms: &Terms) -> Vec<Candidate> {
        let has = |session: SessionId| {
            let of_name = self.sections.count_of(session, name);
            let mut first = DefaultHasher::new();
            (name, session).hash(&mut first);
            terms.weight.saturating_mul(of_name.into()).saturating_add(first.finish() % terms.weight.max(1))
        };
        candidates.iter().map(|it| Candidate { assigned: has(it.session), ..*it }).collect()
    }

    /// Proposes the first of these ascending pieces to somebody, so many sections, cutting the last one. How many were proposed.
    fn propose_some(
        &mut self,
        pieces: &mut VecDeque<Piece>,
        to: SessionId,
        (share, terms): (u32, &Terms),
        fx: &mut Effects,
        proposals: &mut Vec<SectionRecord>,
    ) -> u32 {
        let (mut left, mut some) = (share, Vec::new());
        while left > 0
            && let Some(mut piece) = pieces.pop_front()
        {
            if piece.range.len() > left {
                let at = Section(piece.range.from.0.saturating_add(left));
                let mut rest = piece.clone();
                (piece.range.to, rest.range.from) = (at, at);
                pieces.push_front(rest);
            }
            left = left.saturating_sub(piece.range.len());
            let is_there = piece.held.as_ref().is_some_and(|held| held.owner.session == to);
            some.extend((!is_there).then_some(piece));
        }
        let preps =
            joined(some, terms).iter().filter_map(|piece| self.propose_to(piece, to, 0, fx)).collect::<Vec<_>>();
        let taken = preps.iter().fold(0, |sum: u32, prep| sum.saturating_add(prep.range.len()));
        proposals.extend(preps);
        taken
    }

    /// The terms and the set of a living name whose sections are at home here.
    fn terms_at_home(&self, name: &GeneratorName) -> Option<(Terms, GeneratorName)> {
        let (terms, true) = self.terms_of(name)? else { return None };
        let set = self.sequences_of(name)?.set().clone();
        self.is_home_of(name).then_some((terms, set))
    }

    /// The sections of a range that may be given to somebody now, `max` pieces at most: each is written, and answered, by itself.
    fn givable(&self, range: &SectionRange, terms: &Terms, max: usize) -> Vec<Piece> {
        let range = SectionRange { to: range.to.min(Section(terms.sections)), ..range.clone() };
        let room = self.room_for(&range.name).is_ok();
        self.sections.pieces(&range).filter(|it| it.prep.is_none() && (room || it.held.is_some())).take(max).collect()
    }

    /// Tells whether a section that nobody was given before may be given to somebody: of all names together, and of this one.
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

    /// Writes the proposal down, in which all numbers up to `given` count as given: from now on this master lists the sections for nobody and
    /// raises them for nobody. `None`: too many are open.
    fn propose_to(&mut self, piece: &Piece, to: SessionId, given: u64, fx: &mut Effects) -> Option<SectionRecord> {
        if self.sections.preps_len() >= PREPS_MAX {
            return None;
        }
        let said = &self.allocators.get(to)?.said;
        let owner = SectionOwner { session: to, agent_id: said.agent_id.clone(), address: said.address.clone() };
        let Piece { range, held, .. } = piece;
        let begun = || (Generation(1), self.terms_or_widest(&range.name).first.saturating_sub(1));
        let (g, max_seq) = held.as_ref().map_or_else(begun, |held| (held.g.next(), held.max_seq));
        let prep = SectionRecord { range: range.clone(), g, owner, max_seq: max_seq.max(given) };
        self.put_section_prep(prep.clone(), fx);
        Some(prep)
    }

    /// Gives those who may be given sections of a set, and what each has.
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

    /// Tells whether somebody who keeps sections may be among those that sections are given to. Whoever owns some keeps them in any case.
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

    /// Tells whether somebody has sections or is to have some.
    fn owns_sections(&self, session: SessionId) -> bool {
        self.sections.counts(session).next().is_some()
    }

    /// The memory that the sections of a session take, in bytes.
    fn assigned(&self, session: SessionId) -> u64 {
        let bytes = self.sections.counts(session).map(|(name, count)| {
            // Of a retired name nobody asks any more.
            let living = self.terms_of(name).filter(|(_, lives)| *lives);
            living.map_or(0, |(terms, _)| terms.weight.saturating_mul(count.into()))
        });
        bytes.fold(0, u64::saturating_add)
    }

    /// At each beat: sections of owners that are silent at both masters go to others.
    pub(super) fn place_sections(&mut self, now: Now, fx: &mut Effects) {
        self.allocators.forget(now.boot);
        if self.sections.is_empty() || self.may_give_sections(now).is_err() {
            return;
        }
        let owners: Vec<SessionId> = self.sections.owners().collect();
        let takeable = self.takeable(now);
        let gone = owners.iter().filter(|session| self.allocators.silent(now.boot, **session));
        let gone: Vec<SectionRange> =
            gone.flat_map(|session| self.at_home_of(*session, &takeable)).take(GONE_MAX).collect();
        self.give(now, gone, fx);
    }

    /// Moves sections that are served, as their owners are about to stop, and a part at a time as they are drained or have far more than others. To
    /// be called when whoever has to confirm it was just heard, and hears: without that nobody serves them, and one that stops and is
    /// started again could have continued them at once.
    pub(super) fn move_sections(&mut self, now: Now, fx: &mut Effects) {
        if self.sections.is_empty() || self.may_give_sections(now).is_err() {
            return;
        }
        let owners: Vec<SessionId> = self.sections.owners().collect();
        let takeable = self.takeable(now);
        // One that is about to stop serves on while the next owners wait, if they hear of it in time.
        let leaving: Vec<SectionRange> = self.of_leaving(&owners, &takeable, true).take(GONE_MAX).collect();
        if self.give(now, leaving, fx) {
            return;
        }
        let room = MOVES_MAX.saturating_sub(self.sections.preps_len());
        let drained: Vec<SectionRange> = self.of_leaving(&owners, &takeable, false).take(room).collect();
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
    ) -> impl Iterator<Item = SectionRange> + 'a {
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
        let (mut proposals, mut moved) = (Vec::new(), 0_u32);
        for set in sets {
            let mut candidates = self.candidates(now, &set);
            let lightest = candidates.iter().map(|it| (it.session, self.lightest(it.session, &set)));
            let lightest: BTreeMap<SessionId, Option<u64>> = lightest.collect();
            loop {
                let weight = candidates.iter().filter_map(|it| *lightest.get(&it.session)?).min();
                let Some((from, to)) = weight.and_then(|weight| placement::uneven(&candidates, weight)) else { break };
                let names = self.evening_out(&candidates, (from, to), &set);
                let apart = names.iter().fold(0, |sum: u128, (_, _, apart)| sum.saturating_add(*apart));
                if apart == 0 {
                    // What it has the most of is of other sets, or too heavy to make anything more even.
                    candidates.retain(|it| it.session != from);
                    continue;
                }
                let of_all = self.sections.counts(from).fold(0, |sum: u32, (_, count)| sum.saturating_add(count));
                let most = u32::try_from(MOVES_MAX).unwrap_or(u32::MAX).max(of_all / MOVES_PART);
                let (room, before) = (most.saturating_sub(moved), moved);
                for (terms, name, its) in names {
                    let part = (its * u128::from(room)).div_ceil(apart);
                    let part = u32::try_from(part).unwrap_or(u32::MAX).min(most.saturating_sub(moved));
                    let share = placement::evening(&candidates, terms.weight, (from, to), part);
                    let mut pieces = self.last_of(from, &name, share);
                    let taken = self.propose_some(&mut pieces, to, (share, &terms), fx, &mut proposals);
                    moved = moved.saturating_add(taken);
                    placement::moved(&mut candidates, (from, to), terms.weight.saturating_mul(taken.into()));
                }
                if moved == before {
                    break;
                }
            }
        }
        self.give_sections(now, proposals, fx);
    }

    /// The last sections of a name that are listed for a session, so many at most, ascending.
    fn last_of(&self, session: SessionId, name: &GeneratorName, most: u32) -> VecDeque<Piece> {
        let (mut pieces, mut left) = (VecDeque::new(), most);
        let listed = self.sections.listed(session).into_iter();
        for (row, _) in listed.flat_map(|listed| listed.rows_of(name, 0, u32::MAX).rev()) {
            if left == 0 || pieces.len() >= PREPS_MAX {
                break;
            }
            let from = Section(row.start.max(row.end.saturating_sub(left)));
            let range = SectionRange { name: name.clone(), from, to: Section(row.end) };
            left = left.saturating_sub(range.len());
            let its: Vec<Piece> = self.sections.pieces(&range).collect();
            its.into_iter().rev().for_each(|piece| pieces.push_front(piece));
        }
        pieces
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

    /// The names of that set of which one has sections at home here that make the two more even, and how many more than the other, for its memory:
    /// of names of which it has sections of another size, a heavier one could do the opposite, and would come back at the next beat.
    fn evening_out(
        &self,
        candidates: &[Candidate],
        (from, to): (SessionId, SessionId),
        set: &GeneratorName,
    ) -> Vec<(Terms, GeneratorName, u128)> {
        let Some(listed) = self.sections.listed(from) else { return Vec::new() };
        let counted = |session| candidates.iter().find(|it| it.session == session).map_or(1, |it| it.counted.max(1));
        let (mine, theirs) = (u128::from(counted(from)), u128::from(counted(to)));
        let here = |name: &GeneratorName| self.is_home_of(name) && self.is_of_set(name, set);
        let of_set = self.sections.counts(from).filter(|(name, _)| here(name) && listed.len_of(name) > 0);
        let fitting = of_set.filter_map(|(name, count)| {
            let (terms, _) = self.terms_of(name)?;
            let as_many = u128::from(self.sections.count_of(to, name)) * mine / theirs;
            let fits = placement::uneven(candidates, terms.weight) == Some((from, to));
            fits.then(|| (terms, name.clone(), u128::from(count).saturating_sub(as_many)))
        });
        fitting.collect()
    }

    /// The last ones of a session's sections of these names that are at home here and under way to nobody.
    fn at_home_of(&self, session: SessionId, takeable: &BTreeSet<GeneratorName>) -> Vec<SectionRange> {
        let names = takeable.iter().rev().filter(|name| self.is_home_of(name));
        let theirs = self.sections.listed(session).into_iter().flat_map(|listed| {
            let rows = names.clone().flat_map(|name| listed.rows_of(name, 0, u32::MAX).rev().map(move |it| (name, it)));
            rows.map(|(name, (row, _))| SectionRange {
                name: name.clone(),
                from: Section(row.start),
                to: Section(row.end),
            })
        });
        theirs.take(GONE_MAX).collect()
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
        let is_there = |owned: &Owned| owned.owner.session == session;
        let given = match order {
            SectionOrder::Move(_) if self.sections.owned(key).is_some_and(is_there) => return Ok(()),
            SectionOrder::Move(_) => 0,
            SectionOrder::Raise(first) => first.saturating_sub(1),
        };
        let pieces: Vec<Piece> = self.sections.pieces(&key.into()).collect();
        let proposals = pieces.iter().filter_map(|piece| self.propose_to(piece, session, given, fx)).collect();
        self.give_sections(now, proposals, fx);
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
        let owner = self.sections.owned(key).map(|owned| owned.owner.session);
        let stays = owner.filter(|owner| candidates.iter().any(|it| it.session == *owner));
        let other = || placement::choose(&candidates, self.sections.neighbours(&key.into(), NEAR), terms.weight);
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
        if self.sections.owned(key).is_none() {
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

/// Pieces beside each other as one, if their bounds are no more than a step apart, and that is next to nothing: whoever has them next begins
/// above the greatest, and they become one row again.
fn joined(pieces: Vec<Piece>, terms: &Terms) -> Vec<Piece> {
    let mut joined: Vec<(Piece, u64)> = Vec::new();
    for piece in pieces {
        if let Some((last, least)) = joined.last_mut()
            && let (Some(before), Some(held)) = (&mut last.held, &piece.held)
            && last.range.to == piece.range.from
            && let greatest = before.max_seq.max(held.max_seq)
            && greatest.saturating_sub(held.max_seq.min(*least)) <= terms.joined_within(greatest)
        {
            last.range.to = piece.range.to;
            *least = held.max_seq.min(*least);
            (before.g, before.max_seq) = (before.g.max(held.g), greatest);
        } else {
            let least = piece.held.as_ref().map_or(0, |held| held.max_seq);
            joined.push((piece, least));
        }
    }
    joined.into_iter().map(|(piece, _)| piece).collect()
}
