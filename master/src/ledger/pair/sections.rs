//! How two masters agree on who serves which section: proposed by the home, confirmed by the other with the larger `max_seq` of both, and
//! raised by each within what it knows of the other ([`crate::section`] says which rule is kept where).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::Pairwise;
use crate::lease::proposals::Proposals;
use crate::lease::{Alarm, Effects, Write};
use crate::ledger::agreement::Agreement as _;
use crate::ledger::state::Ledger;
use crate::section::{Held, PREPS_MAX, SectionTable, Terms, rules};
use common::namespace::GeneratorName;
use common::parameters::AgentId;
use common::rpc::lease::{Mode, Refusal};
use common::rpc::peer::{PAGE_MAX, PeerMessage};
use common::rpc::ranges::SeenAllocator;
use common::sequence::{Section, SectionBound, SectionKey, SectionOrder, SectionRecord};
use common::time::{Now, SpanMs};
use std::collections::BTreeSet;

/// Sections of retired names that are given back at one beat.
const DROPPED_MAX: usize = 4_096;
/// Raised bounds that are told at one beat.
const TOLD_MAX: usize = 8_192;

/// What a master keeps of sections to agree on them with the other one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PairedSections {
    proposed: Proposals<SectionKey, ()>,
    told: Proposals<SectionKey, ()>,
    /// Raised here, and not known to be held by the other master.
    untold: BTreeSet<SectionKey>,
    /// In this start: sections that only this master knew of, raised by the allowance already.
    covered: BTreeSet<SectionKey>,
    /// Whether they were cut for the replacement that is awaited.
    pub(super) cut: bool,
}

impl PairedSections {
    pub(super) fn new(table: &SectionTable, cut: bool) -> Self {
        let untold = table.all().filter(|(_, held)| held.max_seq > held.peer_has).map(|(key, _)| key).collect();
        let (proposed, told) = (Proposals::default(), Proposals::default());
        Self { proposed, told, untold, covered: BTreeSet::new(), cut }
    }
}

impl Ledger<Pairwise> {
    /// A start that is not proven may have raised what nobody knows of: it says nothing of sections before it has read the other one's.
    pub(super) fn sections_are_served(&self) -> Result<(), Refusal> {
        self.mode().serves()?;
        if self.unmet() {
            return Err(Refusal::Syncing);
        }
        if self.caution.reverted { Err(Refusal::Reverted) } else { Ok(()) }
    }

    /// Nobody else can raise anything before a replacement takes the sections over.
    fn is_sole_keeper(&self) -> bool {
        self.identity.awaiting.is_some() && !self.agreement.sections.cut
    }

    pub(super) fn bound_of(&self, held: &Held, terms: &Terms) -> u64 {
        // One raise alone does not use up a name, whoever asks for it.
        let known = if self.is_sole_keeper() { held.max_seq } else { held.peer_has };
        rules::bound(known, terms)
    }

    pub(super) fn held_by_all_of(&self, held: &Held, max_seq: u64) -> u64 {
        // So that what the snapshot will show is what is written here, whenever it is cut.
        if self.is_sole_keeper() { max_seq } else { held.peer_has }
    }

    pub(super) fn bound_was_raised(&mut self, key: &SectionKey) {
        if self.identity.awaiting.is_none() {
            self.agreement.sections.untold.insert(key.clone());
        }
    }

    pub(super) fn propose_sections(&mut self, now: Now, proposals: Vec<SectionRecord>, fx: &mut Effects) {
        for prep in &proposals {
            self.agreement.sections.proposed.sent(now, prep.key.clone());
        }
        paged(proposals, |proposals| fx.send(PeerMessage::ProposeSections { proposals }));
    }

    pub(super) fn ask_home(&self, name: &GeneratorName, sections: Vec<Section>, fx: &mut Effects) {
        paged(sections, |sections| fx.send(PeerMessage::AskSections { name: name.clone(), sections }));
    }

    pub(super) fn on_ask_sections(&mut self, now: Now, name: &GeneratorName, sections: &[Section], fx: &mut Effects) {
        if self.is_home_of(name) && self.terms_of(name).is_some_and(|(_, lives)| lives) {
            self.want_owners(now, name, sections, fx);
        }
    }

    pub(super) fn on_ask_move(&mut self, now: Now, key: &SectionKey, to: AgentId, fx: &mut Effects) {
        if self.is_home_of(&key.name) {
            // Whoever ordered it was told that it is begun, and sees in the list of sections what comes of it.
            let _ = self.carry_out(now, key, &SectionOrder::Move(to), fx);
        }
    }

    /// Whether a record of the other master's can be one.
    fn plausible_section(&self, record: &SectionRecord, fx: &mut Effects) -> bool {
        let terms = self.terms_or_widest(&record.key.name);
        let can_be = record.g.0 > 0 && record.max_seq <= terms.last && record.key.section.0 < terms.sections;
        if !can_be {
            fx.alarms.push(Alarm::ImplausibleSection(record.key.clone()));
        }
        can_be
    }

    /// Each is written down, with the larger `max_seq`, before it is confirmed: a doubled one again, because the home may have been told
    /// of less than is held by now.
    pub(super) fn on_propose_sections(&mut self, proposals: Vec<SectionRecord>, fx: &mut Effects) {
        if self.agreement.pair.frozen() || self.caution.reverted || self.mode() == Mode::RolledBack {
            return;
        }
        let (mut confirmed, mut known) = (Vec::new(), Vec::new());
        for prep in proposals {
            if self.is_home_of(&prep.key.name) {
                fx.alarms.push(Alarm::ImplausibleSection(prep.key));
                continue;
            }
            if !self.plausible_section(&prep, fx) {
                continue;
            }
            let key = prep.key.clone();
            let mine = self.sections.get(&key);
            let confirms =
                mine.is_none_or(|mine| mine.g < prep.g || (mine.g == prep.g && !rules::contradicts(mine, &prep)));
            if confirms {
                self.take_section(&prep, fx);
            }
            let Some(mine) = self.sections.get(&key) else { continue };
            let answer = mine.record(key);
            if confirms { confirmed.push(answer) } else { known.push(answer) }
        }
        paged(confirmed, |records| fx.send(PeerMessage::ConfirmSections { records }));
        paged(known, |records| fx.send(PeerMessage::KnownSections { records }));
    }

    pub(super) fn on_confirm_sections(&mut self, records: Vec<SectionRecord>, fx: &mut Effects) {
        for record in records {
            let its =
                |prep: &crate::section::Proposed| (prep.g, prep.owner.session) == (record.g, record.owner.session);
            let Some(prep) = self.sections.prep(&record.key).filter(|prep| its(prep)) else { continue };
            // Whose it is says the home's own proposal; how far it went, the larger of both.
            let theirs = SectionRecord { max_seq: record.max_seq, ..prep.record(record.key.clone()) };
            if self.plausible_section(&theirs, fx) {
                self.take_section(&theirs, fx);
            }
        }
    }

    /// Merges what the other master knows of a section. A proposal is dropped only for a record that is at least as new. Of a retired name
    /// nothing is taken over: it gives no number again, so nothing has to be known of it.
    fn take_section(&mut self, theirs: &SectionRecord, fx: &mut Effects) {
        let key = &theirs.key;
        if self.is_retired(&key.name) {
            return;
        }
        let mine = self.sections.get(key);
        if mine.is_some_and(|mine| rules::contradicts(mine, theirs)) {
            fx.alarms.push(Alarm::SectionConflict(key.clone()));
        }
        let merged = rules::merge(mine, theirs);
        let news = mine.is_none_or(|mine| (mine.g, mine.max_seq) != (merged.g, merged.max_seq));
        let untold = merged.max_seq > merged.peer_has;
        if self.sections.prep(key).is_some_and(|prep| prep.g <= merged.g) {
            fx.writes.push(Write::DropSectionPrep(key.clone()));
            self.sections.drop_prep(key);
            self.routes.section_changed = true;
            self.agreement.sections.proposed.over(key);
        }
        match news {
            true => self.put_section(key, merged, fx),
            // What the other one holds is written down with the next raise: on disk it may be less, which only allows less.
            false => self.sections.note_peer_has(key, theirs.max_seq),
        }
        self.note_told(key, untold);
    }

    fn note_told(&mut self, key: &SectionKey, untold: bool) {
        if untold && self.identity.awaiting.is_none() {
            self.agreement.sections.untold.insert(key.clone());
        } else {
            self.agreement.sections.untold.remove(key);
            self.agreement.sections.told.over(key);
        }
    }

    pub(super) fn on_known_sections(&mut self, records: Vec<SectionRecord>, fx: &mut Effects) {
        for record in records {
            if self.plausible_section(&record, fx) {
                self.take_section(&record, fx);
            }
        }
    }

    /// The other master raised these. It hears what is held here once that is durable.
    pub(super) fn on_raised_sections(&mut self, bounds: Vec<SectionBound>, fx: &mut Effects) {
        let mut held_here = Vec::new();
        for SectionBound { key, g, max_seq } in bounds {
            // Of an owner that is not known here the proposal is still to be confirmed, or the tables are to be exchanged.
            let Some(mine) = self.sections.get(&key).filter(|mine| mine.g >= g) else { continue };
            let theirs = SectionRecord { max_seq, ..mine.record(key) };
            if self.plausible_section(&theirs, fx) {
                self.take_section(&theirs, fx);
                let max_seq = self.sections.get(&theirs.key).map_or(max_seq, |held| held.max_seq);
                held_here.push(SectionBound { key: theirs.key, g, max_seq });
            }
        }
        paged(held_here, |bounds| fx.send(PeerMessage::HeldBounds { bounds }));
    }

    /// So far does the other master hold bounds: from there the allowance counts.
    pub(super) fn on_held_bounds(&mut self, bounds: Vec<SectionBound>) {
        for SectionBound { key, max_seq, .. } in bounds {
            self.sections.note_peer_has(&key, max_seq);
            if let Some(untold) = self.sections.get(&key).map(|held| held.max_seq > held.peer_has) {
                self.note_told(&key, untold);
            }
        }
    }

    pub(super) fn on_allocators(
        &mut self,
        now: Now,
        lease: SpanMs,
        seen: Vec<SeenAllocator>,
        drained: Vec<(AgentId, u64, bool)>,
        fx: &mut Effects,
    ) {
        if self.allocators.note_their_lease(lease) {
            let here = self.allocators.own_lease().0;
            fx.alarms.push(Alarm::SequenceLeasesDiffer { here, there: lease.0 });
        }
        let owns = |session| self.sections.counts(session).next().is_some();
        seen.into_iter().for_each(|seen| self.allocators.heard_there(now.boot, seen, owns));
        drained.into_iter().for_each(|(agent_id, order, on)| self.allocators.note_drained(agent_id, order, on));
    }

    /// At each beat: who was heard, what was raised, and proposals again that were not confirmed.
    pub(crate) fn press_sections(&mut self, now: Now, fx: &mut Effects) {
        if self.allocators.any() || !self.sections.is_empty() {
            let lease_ms = u32::try_from(self.allocators.own_lease().0).unwrap_or(u32::MAX);
            let (seen, drained) = (self.allocators.for_the_other(now.boot), self.allocators.drained());
            fx.send(PeerMessage::Allocators { lease_ms, seen, drained });
        }
        if !self.agreement.pair.heard(now) || self.sections_are_served().is_err() || self.identity.awaiting.is_some() {
            return;
        }
        self.drop_retired(fx);
        let open = self.sections.preps().map(|prep| prep.key);
        let again = self.agreement.sections.proposed.resend(now, PREPS_MAX, open);
        let prep = |key: &SectionKey| Some(self.sections.prep(key)?.record(key.clone()));
        paged(again.iter().filter_map(prep).collect(), |proposals| fx.send(PeerMessage::ProposeSections { proposals }));
        let PairedSections { untold, told, .. } = &mut self.agreement.sections;
        let tell = told.resend(now, TOLD_MAX, untold.iter().cloned());
        let bound = |key: SectionKey| {
            let held = self.sections.get(&key)?;
            Some(SectionBound { g: held.g, max_seq: held.max_seq, key })
        };
        paged(tell.into_iter().filter_map(bound).collect(), |bounds| fx.send(PeerMessage::RaisedSections { bounds }));
    }

    /// Gives sections of retired names back, some at each beat. Each master does so once it holds that the name is retired, which it is for
    /// ever; who had the sections is told by the next answer that does not list them.
    fn drop_retired(&mut self, fx: &mut Effects) {
        let retired = self.sections.names(None).filter(|name| self.is_retired(name));
        let keys = retired.flat_map(|name| {
            let all = self.sections.of_name(name, Section(0));
            all.map(|(section, held, prep)| {
                (SectionKey { name: name.clone(), section }, held.is_some(), prep.is_some())
            })
        });
        for (key, held, prep) in keys.take(DROPPED_MAX).collect::<Vec<_>>() {
            fx.writes.extend(prep.then(|| Write::DropSectionPrep(key.clone())));
            fx.writes.extend(held.then(|| Write::DropSection(key.clone())));
            self.sections.remove(&key);
            let PairedSections { proposed, told, untold, covered, .. } = &mut self.agreement.sections;
            proposed.over(&key);
            told.over(&key);
            untold.remove(&key);
            covered.remove(&key);
        }
    }

    pub(super) fn knows_sequences(&self) -> bool {
        let mut names = self.settings_table.all().filter_map(|setting| setting.value.namespace());
        !self.sections.is_empty() || names.any(|namespace| namespace.sequences().is_some())
    }

    pub(super) fn on_pull_sections(&self, exchange: u64, after: Option<SectionKey>, unmet: bool, fx: &mut Effects) {
        let (records, proposals, last) = self.sections.page(after.as_ref(), unmet, PAGE_MAX);
        fx.send(PeerMessage::SectionPage { exchange, after, records, proposals, last });
    }

    /// A page of this exchange. `true`: it was the last one.
    ///
    /// A master that is unmet may have confirmed any of the proposals, and raised by the allowance beyond what the other one knows. So both
    /// count as if it had.
    pub(super) fn merge_section_page(
        &mut self,
        after: Option<&SectionKey>,
        records: &[SectionRecord],
        proposals: &[SectionRecord],
        last: bool,
        fx: &mut Effects,
    ) -> Option<SectionKey> {
        let next = records.iter().chain(proposals).map(|record| &record.key).max().cloned().filter(|_| !last);
        let unmet = self.unmet();
        let named: BTreeSet<&SectionKey> = records.iter().chain(proposals).map(|record| &record.key).collect();
        let alone: Vec<SectionKey> = match unmet {
            true => {
                self.sections.between(after, next.as_ref()).into_iter().filter(|key| !named.contains(key)).collect()
            }
            false => Vec::new(),
        };
        let proposals = proposals.iter().filter(|prep| unmet && !self.is_home_of(&prep.key.name));
        let theirs: Vec<&SectionRecord> = records.iter().chain(proposals).collect();
        for record in theirs {
            if !self.plausible_section(record, fx) {
                continue;
            }
            self.take_section(record, fx);
            if unmet {
                self.cover(&record.key, record.max_seq, fx);
            }
        }
        for key in alone {
            if self.agreement.sections.covered.insert(key.clone())
                && let Some(max_seq) = self.sections.get(&key).map(|held| held.max_seq)
            {
                self.cover(&key, max_seq, fx);
            }
        }
        next
    }

    /// Raises a section by the allowance beyond what was known of it.
    fn cover(&mut self, key: &SectionKey, known: u64, fx: &mut Effects) {
        let covering = rules::covering(known, &self.terms_or_widest(&key.name));
        if let Some(held) = self.sections.get(key).filter(|held| held.max_seq < covering) {
            let held = Held { max_seq: covering, ..held.clone() };
            self.put_section(key, held, fx);
            self.note_told(key, true);
        }
    }

    /// The sections are cut for a replacement: from now on they are raised by the allowance beyond what is written now.
    pub(super) fn cut_sections(&mut self, fx: &mut Effects) -> Result<(), Refusal> {
        if self.unmet() && !self.sections.is_empty() {
            return Err(Refusal::SurvivorUnproven);
        }
        if !std::mem::replace(&mut self.agreement.sections.cut, true) {
            fx.writes.push(Write::SectionsCut(true));
        }
        Ok(())
    }

    pub(super) fn check_sections(&self) -> Result<(), String> {
        for prep in self.sections.preps() {
            if !self.is_home_of(&prep.key.name) {
                return Err(format!("a proposal of section {} away from its home", prep.key));
            }
            // Its bound may be above the record's: an operator raised it.
            let last = self.terms_or_widest(&prep.key.name).last;
            if prep.max_seq > last || self.sections.get(&prep.key).is_some_and(|held| held.g >= prep.g) {
                return Err(format!("a proposal of section {} that is older than its record", prep.key));
            }
        }
        for (key, held) in self.sections.all() {
            if held.max_seq > self.terms_or_widest(&key.name).last || held.peer_has > held.max_seq {
                return Err(format!("section {key} is raised to {} and held to {}", held.max_seq, held.peer_has));
            }
        }
        Ok(())
    }
}

/// Hands over `all` in parts of [`PAGE_MAX`].
fn paged<T>(all: Vec<T>, mut part: impl FnMut(Vec<T>)) {
    let mut all = all.into_iter();
    loop {
        let page: Vec<T> = all.by_ref().take(PAGE_MAX).collect();
        if page.is_empty() {
            return;
        }
        part(page);
    }
}
