//! Sections of sequences: what allocators and operators are answered ([`crate::section`]).

use super::agreement::Agreement;
use super::state::{AskedRoutes, Ledger};
use crate::lease::receipt::section_receipt;
use crate::lease::{Effects, Reply, RequestId, Write};
use crate::section::{
    Allocators, HeldSection, Owned, Piece, SECTIONS_MAX, SECTIONS_OF_NAME_MAX, SectionMap, Terms, rules,
};
use ids::audit::{Action, Actor, Entry};
use ids::lease::Generation;
use ids::parameters::{AgentId, SessionId};
use ids::sequence::{Route, Section, SectionKey, SectionOrder, SectionRange};
use ids::time::{Now, SpanMs};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use wire::lease::Refusal;
use wire::ranges::{
    ADDRESS_LEN_MAX, HeldSections, KEEP_RANGES_MAX, KEPT_ONLY_MAX, KeepReply, KeepRequest, NotMoved, NotRaised,
    RAISED_MAX, RAISES_MAX, RECEIPTS_MAX, ROUTES_ASKED_MAX, ROUTES_MAX, Raise, RaiseRequest, Raised, RaisedAll,
    RaisedSections, RoutesReply, RoutesRequest, SETS_MAX, Unserved,
};

/// The least last number of names of which a section may be raised with all of its row: however often that happens, they last for ages.
const WIDE: u64 = 1 << 62;
/// Calls for routes that wait at once until their sections have owners; one more is answered with what is known.
const ROUTES_WAITING_MAX: usize = 1_024;
/// Calls of them that may come from one network.
const ROUTES_WAITING_OF_NETWORK_MAX: usize = 128;
/// Time that one waits: two masters that hear each other agree on an owner in some milliseconds.
const ROUTES_WAIT: SpanMs = SpanMs(150);

impl<A> Ledger<A>
where
    Self: Agreement,
{
    /// Writes nothing, unless an allocator shows that both ledgers were put back: allocators ask every other second.
    pub(super) fn on_keep(
        &mut self,
        now: Now,
        mut request: KeepRequest,
        fx: &mut Effects,
    ) -> Result<KeepReply, Refusal> {
        self.same_cluster(request.cluster)?;
        self.may_serve_sections()?;
        if !Allocators::plausible(&request) {
            let number = |most: usize| u32::try_from(most).unwrap_or(u32::MAX);
            return Err(Refusal::NoAllocator { sets: number(SETS_MAX), address: number(ADDRESS_LEN_MAX) });
        }
        let mut receipts = std::mem::take(&mut request.receipts);
        let only = std::mem::take(&mut request.only);
        for (asked, max) in [(receipts.len(), RECEIPTS_MAX), (only.len(), KEPT_ONLY_MAX)] {
            if asked > max {
                return Err(Refusal::TooMany { max: u32::try_from(max).unwrap_or(u32::MAX) });
            }
        }
        // The highest `g` first: where it says nothing new, no lower one does. Without that each of many ranges costs as much as there are rows.
        receipts.sort_unstable_by_key(|shown| Reverse(shown.g));
        let mut compared = SectionMap::default();
        for shown in &receipts {
            let runs = compared.runs(&shown.sections).into_iter();
            let rest: Vec<SectionRange> = runs.filter(|(_, done)| done.is_none()).map(|(run, _)| run).collect();
            let mut proven = false;
            for run in rest {
                proven |= self.compare_section_receipt(now, request.session, shown, &run, fx)?;
            }
            if proven {
                compared.set(&shown.sections, Some(()));
            }
        }
        // After its receipts: who shows that both have forgotten may hold a lease that they have forgotten, too.
        self.may_serve(&request)?;
        let (session, after) = (request.session, request.after.clone());
        let owns = |session| self.sections.counts(session).next().is_some();
        if !self.allocators.heard(now.boot, KeepRequest { after: None, ..request }, owns) {
            return Err(Refusal::Overloaded);
        }
        let lease_ms = u32::try_from(self.allocators.lease().0).unwrap_or(u32::MAX);
        let listed = self.sections.listed(session).into_iter();
        let mut listed: Box<dyn Iterator<Item = _>> = match only.is_empty() {
            true => Box::new(listed.flat_map(|listed| listed.rows(after.as_ref()))),
            false => Box::new(listed.flat_map(|listed| only.iter().flat_map(|range| listed.within(range)))),
        };
        let held = |(SectionRange { name, from, to }, g): (_, &Generation)| HeldSections { name, from, to, g: *g };
        let sections = listed.by_ref().take(KEEP_RANGES_MAX).map(held).collect();
        Ok(KeepReply { lease_ms, run: self.run(), boot: now.boot, sections, more: listed.next().is_some() })
    }

    pub(super) fn on_raise(
        &mut self,
        now: Now,
        request: &RaiseRequest,
        fx: &mut Effects,
    ) -> Result<RaisedAll, Refusal> {
        self.same_cluster(request.cluster)?;
        self.may_serve_sections()?;
        if request.raises.len() > RAISES_MAX {
            return Err(Refusal::TooMany { max: u32::try_from(RAISES_MAX).unwrap_or(u32::MAX) });
        }
        for raise in &request.raises {
            if let Some(shown) = raise.shown() {
                self.compare_section_receipt(now, request.session, &shown, &raise.key().into(), fx)?;
            }
        }
        // Whoever was given a section after the one that these disks know has to come first.
        if self.caution.quiet {
            return Err(Refusal::Quiet);
        }
        let by = (&request.agent_id, request.session);
        let mut left = RAISED_MAX;
        Ok(request.raises.iter().map(|raise| self.raise_all(by, raise, &mut left, fx)).collect())
    }

    /// Raises sections by the pieces that this table has of them, so many at most: first the one that calls wait for.
    fn raise_all(
        &mut self,
        by: (&AgentId, SessionId),
        raise: &Raise,
        left: &mut usize,
        fx: &mut Effects,
    ) -> Vec<RaisedSections> {
        let SectionRange { name, from, to } = &raise.sections;
        let terms = self.terms_of(name).filter(|(terms, lives)| *lives && to.0 <= terms.sections);
        let Some((terms, _)) = terms.filter(|_| (*from..*to).contains(&raise.section)) else {
            let next = Section(raise.section.0.saturating_add(1));
            return vec![RaisedSections { from: raise.section, to: next, outcome: Err(NotRaised::Unknown) }];
        };
        let begin = self.sections.piece_begin(&raise.key()).max(*from);
        let part = |from, to| SectionRange { name: name.clone(), from, to };
        let (rest, before) = (part(begin, *to), part(*from, begin));
        // However many others have used up, this one is raised.
        let most = 1.max(*left);
        let pieces = self.sections.pieces(&rest).chain(self.sections.pieces(&before));
        let ranges: Vec<SectionRange> = pieces.take(most).map(|piece| piece.range).collect();
        *left = left.saturating_sub(ranges.len());
        let mut all: Vec<RaisedSections> = Vec::new();
        for range in ranges {
            // Looked at again: a raise before it can have been one of its whole row.
            let Some(piece) = self.sections.pieces(&range).next() else { continue };
            let (from, to) = (piece.range.from, piece.range.to);
            let outcome = self.raise_piece(by, raise, piece, &terms, fx);
            match all.last_mut().filter(|last| last.to == from && outcome.is_err() && last.outcome == outcome) {
                Some(last) => last.to = to,
                None => all.push(RaisedSections { from, to, outcome }),
            }
        }
        all
    }

    /// Owner and `g` must be those of the record, and no next owner proposed: else whoever was given the sections after it could be given
    /// a number twice.
    fn raise_piece(
        &mut self,
        (agent_id, session): (&AgentId, SessionId),
        raise: &Raise,
        Piece { range, held, prep }: Piece,
        terms: &Terms,
        fx: &mut Effects,
    ) -> Result<Raised, NotRaised> {
        let held = held.ok_or(NotRaised::OtherOwner)?;
        let its = held.g == raise.g && held.owner.session == session && held.owner.agent_id == *agent_id;
        if !its || prep.is_some() {
            return Err(NotRaised::OtherOwner);
        }
        let from = held.max_seq;
        let reached = |bound| rules::raised(from, raise.to, bound, terms);
        let mut max_seq = reached(self.raise_bound(&held, terms))?;
        if max_seq > from {
            let mut raised = vec![(range.clone(), held)];
            if let Some(most) = self.too_many_with(&range) {
                // The whole row, for the section that calls wait for: all of it is the caller's, and numbers that are skipped are no loss
                // among so many.
                let row = self
                    .whole_row(&range)
                    .filter(|_| terms.last >= WIDE && (range.from..range.to).contains(&raise.section));
                raised = row.ok_or_else(|| NotRaised::TooMany { max: u32::try_from(most).unwrap_or(u32::MAX) })?;
                let bounds = raised.iter().map(|(_, held)| self.raise_bound(held, terms));
                max_seq = reached(bounds.min().unwrap_or_default())?;
            }
            for (range, held) in raised {
                let peer_has = self.held_by_all(&held, max_seq);
                self.put_sections(&range, HeldSection { max_seq, peer_has, ..held }, fx);
                self.share_bound(&range);
            }
        }
        let receipt = self.identity.epoch.and_then(|pairing| section_receipt(pairing, &range, raise.g, session));
        Ok(Raised { from, max_seq, receipt })
    }

    /// The row that sections are in, unless some of it is proposed to somebody.
    fn whole_row(&self, range: &SectionRange) -> Option<Vec<(SectionRange, HeldSection)>> {
        let row = self.sections.row(&range.first())?;
        let free =
            self.sections.pieces(&row).map(|piece| Some((piece.range, piece.held.filter(|_| piece.prep.is_none())?)));
        free.collect()
    }

    /// The number of rows that there may be, if there are as many, and sections that get a bound of their own take a further one.
    fn too_many_with(&self, range: &SectionRange) -> Option<usize> {
        let of_name = self.sections.len_of(&range.name) >= SECTIONS_OF_NAME_MAX;
        let most = of_name.then_some(SECTIONS_OF_NAME_MAX);
        let most = most.or_else(|| (self.sections.len() >= SECTIONS_MAX).then_some(SECTIONS_MAX));
        most.filter(|_| self.sections.row(&range.first()).is_some_and(|row| row != *range))
    }

    /// Lets sections that nobody serves be given to somebody. If that is about to happen the call waits for it.
    pub(super) fn on_routes(
        &mut self,
        now: Now,
        id: RequestId,
        mut request: RoutesRequest,
        address: &str,
        fx: &mut Effects,
    ) {
        let reply = match self.want_routes(now, &mut request, fx) {
            Ok(unserved) => {
                let open = self.under_way(now, &request, unserved.is_some());
                let network = self.table.usage().limits().network(address);
                let waiting = &self.routes.waiting;
                let of_network = waiting.values().filter(|asked| asked.network == network).count();
                if !open.is_empty() && waiting.len() < ROUTES_WAITING_MAX && of_network < ROUTES_WAITING_OF_NETWORK_MAX
                {
                    let asked = AskedRoutes { until: now.boot + ROUTES_WAIT, request, network, open };
                    self.routes.waiting.insert(id, asked);
                    return;
                }
                self.routes_now(&request).map(|reply| RoutesReply { unserved, ..reply })
            }
            Err(refusal) => Err(refusal),
        };
        fx.reply(id, Reply::Routes(reply));
    }

    /// Has owners chosen for sections that nobody serves, or says why there are none.
    fn want_routes(
        &mut self,
        now: Now,
        request: &mut RoutesRequest,
        fx: &mut Effects,
    ) -> Result<Option<Unserved>, Refusal> {
        self.same_cluster(request.cluster)?;
        self.may_serve_sections()?;
        let RoutesRequest { name, sections, .. } = request;
        if sections.len() > ROUTES_ASKED_MAX {
            return Err(Refusal::TooMany { max: u32::try_from(ROUTES_ASKED_MAX).unwrap_or(u32::MAX) });
        }
        let (terms, lives) = self.terms_of(name).ok_or_else(|| self.no_terms(name))?;
        sections.sort_unstable();
        sections.dedup();
        sections.retain(|section| section.0 < terms.sections);
        if !lives {
            return Ok(None);
        }
        self.want_owners(now, name, sections, fx);
        Ok(self.unserved(now, name, sections))
    }

    /// The sections of a living name that somebody is about to be given: by a proposal from here, or by the other master, which was asked to,
    /// unless some can be given to nobody.
    fn under_way(&self, now: Now, request: &RoutesRequest, in_vain: bool) -> Vec<Section> {
        let RoutesRequest { name, sections, .. } = request;
        let is_living = self.is_living_sequence(name) && self.may_give_sections(now).is_ok();
        let key = |section: Section| SectionKey { name: name.clone(), section };
        let of_other = |section| !in_vain && !self.is_home_of(name) && !self.has_owner(now, &key(section));
        let open = |section: &&Section| self.sections.prep(&key(**section)).is_some() || of_other(**section);
        if is_living { sections.iter().filter(open).copied().collect() } else { Vec::new() }
    }

    /// Answers calls for routes whose sections all have their owners by now, and those that waited too long.
    pub(super) fn answer_routes(&mut self, now: Now, fx: &mut Effects) {
        let changed = std::mem::take(&mut self.routes.section_changed);
        // They wait equally long, so the first one is over first.
        if !changed && self.routes.waiting.values().next().is_none_or(|asked| now.boot < asked.until) {
            return;
        }
        for (id, mut asked) in std::mem::take(&mut self.routes.waiting) {
            let name = &asked.request.name;
            let is_open =
                |section: &Section| !self.has_owner(now, &SectionKey { name: name.clone(), section: *section });
            let ready = asked.open.iter().rposition(is_open).map_or(0, |last| last.saturating_add(1));
            asked.open.truncate(ready);
            if asked.open.is_empty() || asked.until <= now.boot {
                let unserved = self.unserved(now, name, &asked.open);
                let reply = self.routes_now(&asked.request).map(|reply| RoutesReply { unserved, ..reply });
                fx.reply(id, Reply::Routes(reply));
            } else {
                self.routes.waiting.insert(id, asked);
            }
        }
    }

    /// Tells who serves which of these sections now.
    fn routes_now(&self, request: &RoutesRequest) -> Result<RoutesReply, Refusal> {
        self.may_serve_sections()?;
        let RoutesRequest { name, sections, all_from, .. } = request;
        let mut all = all_from.iter().flat_map(|from| self.sections.routes_of(name, *from));
        let room = ROUTES_MAX.saturating_sub(sections.len()).max(1);
        let mut routes: BTreeMap<Section, (Section, &Owned)> =
            all.by_ref().take(room).map(|(from, to, owned)| (from, (to, owned))).collect();
        let next = all.next().map(|(from, ..)| from);
        for section in sections {
            let known = routes.range(..=*section).next_back().is_some_and(|(_, (to, _))| to > section);
            let route = || self.sections.route(&SectionKey { name: name.clone(), section: *section });
            if !known && let Some((from, to, owned)) = route() {
                // It may begin before those that are asked for in order.
                let (from, to) = match *all_from {
                    Some(first) if first <= *section => (from.max(first), to),
                    first => (from, first.map_or(to, |first| to.min(first))),
                };
                routes.insert(from, (to, owned));
            }
        }
        let routes = routes.into_iter().map(|(from, (to, owned))| Route {
            from,
            to,
            address: self
                .allocators
                .get(owned.owner.session)
                .map_or(&owned.owner.address, |it| &it.said.address)
                .clone(),
            g: owned.g,
        });
        let networks = self.settings_table.whitelist().iter();
        let networks = networks.map(|network| ids::setting::canonical(*network).unwrap_or(*network)).collect();
        Ok(RoutesReply { routes: routes.collect(), next, unserved: None, networks })
    }

    /// An operator's order, audited here; the section's home carries it out.
    pub(super) fn on_section(
        &mut self,
        now: Now,
        key: SectionKey,
        order: SectionOrder,
        actor: Actor,
        fx: &mut Effects,
    ) -> Result<(), Refusal> {
        self.may_serve_sections()?;
        self.next_owner(now, &key, &order)?;
        let action = match order {
            SectionOrder::Move(_) => Action::MoveSection,
            SectionOrder::Raise(_) => Action::RaiseSection,
        };
        let entry = Entry::new(fx.at, actor, action, &key.to_string(), &order.to_string());
        match order {
            order if self.is_home_of(&key.name) => self.carry_out(now, &key, &order, fx)?,
            SectionOrder::Move(to) => self.ask_move(key, to, fx),
            // A message can be lost, and the home may refuse. A section that was not moved is ordered again; where one is not raised,
            // numbers that another system gave would come again.
            SectionOrder::Raise(_) => {
                let home = rules::home(&key.name).number();
                return Err(Refusal::NotMoved(NotMoved::NotHome { home }));
            }
        }
        fx.writes.push(Write::Audit(entry));
        Ok(())
    }

    /// An operator takes all sections away from an agent, or lets it have some again. Kept in memory, at both masters: after both were
    /// started anew it has to be said again. An order can be taken back at any time; it is given only where sections can go to somebody.
    pub(super) fn on_drain(
        &mut self,
        now: Now,
        agent_id: AgentId,
        on: bool,
        actor: Actor,
        fx: &mut Effects,
    ) -> Result<(), Refusal> {
        self.may_serve_sections()?;
        let known = self.allocators.of_agent(&agent_id).next().is_some();
        if !known && (on || !self.allocators.is_drained(&agent_id)) {
            return Err(Refusal::NotMoved(NotMoved::NoSuchAgent { agent_id }));
        }
        if on {
            self.may_give_sections(now)?;
            if let Some(set) = self.set_left_alone(now, &agent_id) {
                return Err(Refusal::NotMoved(NotMoved::Alone { set }));
            }
        }
        let detail = if on { "all sections go to others" } else { "it takes sections again" };
        fx.writes.push(Write::Audit(Entry::new(fx.at, actor, Action::Drain, agent_id.as_str(), detail)));
        self.allocators.drain(agent_id, on);
        Ok(())
    }
}
