//! The agreement of two masters on who serves which section: proposed by the home, confirmed by the other with the larger `max_seq` of both, and
//! raised by each within what it knows of the other ([`crate::section`] says which rule is kept where).

use super::Pairwise;
use crate::lease::proposals::RESEND_AFTER;
use crate::lease::{Alarm, Effects, Write};
use crate::machine::agreement::Agreement as _;
use crate::machine::state::Ledger;
use crate::replication::pair::SILENCE;
use crate::section::{HeldSection, Owned, PREPS_MAX, Piece, SectionMap, SectionTable, Terms, rules};
use ids::namespace::GeneratorName;
use ids::parameters::AgentId;
use ids::sequence::{Section, SectionBound, SectionKey, SectionOrder, SectionRange, SectionRecord};
use ids::time::{BootMs, Now, SpanMs};
use std::collections::BTreeSet;
use wire::lease::{Mode, Refusal};
use wire::peer::{PAGE_MAX, PeerMessage};
use wire::ranges::SeenAllocator;

/// Rows of retired names that are given back at one beat.
const DROPPED_MAX: usize = 4_096;
/// Ranges of raised bounds that are told at one beat.
const TOLD_MAX: usize = 8_192;

/// The state that a master keeps of sections to agree on them with the other one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PairedSections {
    /// Times when proposals were last sent.
    proposed: SectionMap<BootMs>,
    /// Times when raised bounds were last told.
    told: SectionMap<BootMs>,
    /// Raised here, and not known to be held by the other master.
    untold: SectionMap<()>,
    /// In this start: sections that only this master knew of, raised by the allowance already.
    covered: SectionMap<()>,
    /// The reading of the other master's clock when it sent the last word on allocators that was heard here.
    heard: Option<BootMs>,
    /// True if they were cut for the replacement that is awaited.
    pub(super) cut: bool,
    /// First sections of records and proposals of the store that are one row with those before them: the pages by which a replacement
    /// takes a table over cut rows.
    in_parts: [BTreeSet<SectionKey>; 2],
}

impl PairedSections {
    pub(super) fn new(table: &SectionTable, in_parts: [BTreeSet<SectionKey>; 2], cut: bool) -> Self {
        let mut untold = SectionMap::default();
        let raised = table.all().filter(|(_, held)| held.max_seq > held.peer_has);
        raised.for_each(|(range, _)| untold.set(&range, Some(())));
        let (proposed, told) = (SectionMap::default(), SectionMap::default());
        Self { proposed, told, untold, covered: SectionMap::default(), heard: None, cut, in_parts }
    }
}

/// Takes the parts of the `open` ranges that have to be sent now, `max` at most: what was not `sent` in this start, or too long ago. It counts as sent.
fn due(
    sent: &mut SectionMap<BootMs>,
    now: Now,
    max: usize,
    open: impl Iterator<Item = SectionRange>,
) -> Vec<SectionRange> {
    let is_due = |at: Option<&BootMs>| at.is_none_or(|at| now.boot - *at >= RESEND_AFTER);
    let runs = open.flat_map(|open| {
        let runs = sent.runs(&open).into_iter().filter(|(_, at)| is_due(*at));
        runs.map(|(run, _)| run).collect::<Vec<_>>()
    });
    let due: Vec<SectionRange> = runs.take(max).collect();
    due.iter().for_each(|run| sent.set(run, Some(now.boot)));
    due
}

/// The table that a store holds, and where its rows begin that are one with those before them.
pub(super) fn table_of(
    records: Vec<(SectionRecord, u64)>,
    preps: Vec<SectionRecord>,
) -> (SectionTable, [BTreeSet<SectionKey>; 2]) {
    let mut begins: BTreeSet<SectionKey> = records.iter().map(|(record, _)| record.range.first()).collect();
    let mut prep_begins: BTreeSet<SectionKey> = preps.iter().map(|prep| prep.range.first()).collect();
    let table = SectionTable::new(records, preps);
    for (record, _) in table.stored() {
        begins.remove(&record.range.first());
    }
    for prep in table.preps() {
        prep_begins.remove(&prep.range.first());
    }
    (table, [begins, prep_begins])
}

impl Ledger<Pairwise> {
    /// Writes rows as one that the store has in parts.
    pub(super) fn join_rows(&mut self, fx: &mut Effects) {
        let [records, preps] = std::mem::take(&mut self.agreement.sections.in_parts);
        let has =
            |parts: &BTreeSet<SectionKey>, row: &SectionRange| parts.range(row.first()..=row.last()).next().is_some();
        if !records.is_empty() {
            let rows = self.sections.stored().filter(|(record, _)| has(&records, &record.range)).collect();
            fx.writes.push(Write::Sections { rows, gone: records.into_iter().collect() });
        }
        if !preps.is_empty() {
            let rows = self.sections.preps().filter(|prep| has(&preps, &prep.range)).collect();
            fx.writes.push(Write::SectionPreps { rows, gone: preps.into_iter().collect() });
        }
    }

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

    pub(super) fn bound_of(&self, held: &HeldSection, terms: &Terms) -> u64 {
        // One raise alone does not use up a name, whoever asks for it.
        let known = if self.is_sole_keeper() { held.max_seq } else { held.peer_has };
        rules::bound(known, terms)
    }

    pub(super) fn held_by_all_of(&self, held: &HeldSection, max_seq: u64) -> u64 {
        // So that what the snapshot will show is what is written here, whenever it is cut.
        if self.is_sole_keeper() { max_seq } else { held.peer_has }
    }

    pub(super) fn bound_was_raised(&mut self, range: &SectionRange) {
        if self.identity.awaiting.is_none() {
            self.agreement.sections.untold.set(range, Some(()));
        }
    }

    pub(super) fn propose_sections(&mut self, now: Now, proposals: Vec<SectionRecord>, fx: &mut Effects) {
        for prep in &proposals {
            self.agreement.sections.proposed.set(&prep.range, Some(now.boot));
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

    /// Tells whether a record of the other master's can be one.
    fn plausible_section(&self, record: &SectionRecord, fx: &mut Effects) -> bool {
        let SectionRecord { range, g, max_seq, .. } = record;
        let terms = self.terms_or_widest(&range.name);
        let can_be = g.0 > 0 && *max_seq <= terms.last && !range.is_empty() && range.to.0 <= terms.sections;
        if !can_be {
            fx.alarms.push(Alarm::ImplausibleSection(range.clone()));
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
            if self.is_home_of(&prep.range.name) {
                fx.alarms.push(Alarm::ImplausibleSection(prep.range));
                continue;
            }
            if !self.plausible_section(&prep, fx) {
                continue;
            }
            for Piece { range, held, .. } in self.sections.pieces(&prep.range).collect::<Vec<_>>() {
                let confirms =
                    held.is_none_or(|mine| mine.g < prep.g || (mine.g == prep.g && !rules::contradicts(&mine, &prep)));
                if confirms {
                    self.take_section(&SectionRecord { range: range.clone(), ..prep.clone() }, fx);
                }
                let answers = if confirms { &mut confirmed } else { &mut known };
                let held = self.sections.pieces(&range);
                answers.extend(held.filter_map(|Piece { range, held, .. }| Some(held?.record(range))));
            }
        }
        paged(confirmed, |records| fx.send(PeerMessage::ConfirmSections { records }));
        paged(known, |records| fx.send(PeerMessage::KnownSections { records }));
    }

    pub(super) fn on_confirm_sections(&mut self, records: Vec<SectionRecord>, fx: &mut Effects) {
        for record in records {
            for Piece { range, prep, .. } in self.sections.pieces(&record.range).collect::<Vec<_>>() {
                let its = |prep: &Owned| (prep.g, prep.owner.session) == (record.g, record.owner.session);
                let Some(prep) = prep.filter(its) else { continue };
                // Whose it is says the home's own proposal; how far it went, the larger of both.
                let theirs = SectionRecord { max_seq: record.max_seq, ..prep.record(range.clone()) };
                if self.plausible_section(&theirs, fx) {
                    self.take_section(&theirs, fx);
                    fx.moved.extend((theirs.g.0 > 1).then_some(range));
                }
            }
        }
    }

    /// Merges what the other master knows of sections, with each piece of what is known here. A proposal is dropped only for a record that
    /// is at least as new. Of a retired name nothing is taken over: it gives no number again, so nothing has to be known of it.
    fn take_section(&mut self, theirs: &SectionRecord, fx: &mut Effects) {
        if self.is_retired(&theirs.range.name) {
            return;
        }
        for Piece { range, held: mine, prep } in self.sections.pieces(&theirs.range).collect::<Vec<_>>() {
            let mine = mine.as_ref();
            if mine.is_some_and(|mine| rules::contradicts(mine, theirs)) {
                fx.alarms.push(Alarm::SectionConflict(range.clone()));
            }
            let merged = rules::merge(mine, theirs);
            let news = mine.is_none_or(|mine| (mine.g, mine.max_seq) != (merged.g, merged.max_seq));
            let untold = merged.max_seq > merged.peer_has;
            if prep.is_some_and(|prep| prep.g <= merged.g) {
                fx.write_section_preps(self.sections.drop_prep(&range));
                self.routes.section_changed = true;
                self.agreement.sections.proposed.set(&range, None);
            }
            match news {
                true => self.put_sections(&range, merged, fx),
                // What the other one holds is written down with the next raise: on disk it may be less, which only allows less.
                false => self.sections.note_peer_has(&range, theirs.max_seq),
            }
            self.note_told(&range, untold);
        }
    }

    fn note_told(&mut self, range: &SectionRange, untold: bool) {
        if untold && self.identity.awaiting.is_none() {
            self.agreement.sections.untold.set(range, Some(()));
        } else {
            self.agreement.sections.untold.set(range, None);
            self.agreement.sections.told.set(range, None);
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
        for SectionBound { range, g, max_seq } in bounds {
            for Piece { range, held, .. } in self.sections.pieces(&range).collect::<Vec<_>>() {
                // Of an owner that is not known here the proposal is still to be confirmed, or the tables are to be exchanged.
                let Some(mine) = held.filter(|mine| mine.g >= g) else { continue };
                let theirs = SectionRecord { max_seq, ..mine.record(range) };
                if self.plausible_section(&theirs, fx) {
                    self.take_section(&theirs, fx);
                    let held = self.sections.get(&theirs.range.first());
                    let max_seq = held.map_or(max_seq, |held| held.max_seq);
                    held_here.push(SectionBound { range: theirs.range, g, max_seq });
                }
            }
        }
        paged(held_here, |bounds| fx.send(PeerMessage::HeldBounds { bounds }));
    }

    /// So far does the other master hold bounds: from there the allowance counts.
    pub(super) fn on_held_bounds(&mut self, bounds: Vec<SectionBound>) {
        for SectionBound { range, max_seq, .. } in bounds {
            self.sections.note_peer_has(&range, max_seq);
            for Piece { range, held, .. } in self.sections.pieces(&range).collect::<Vec<_>>() {
                if let Some(held) = held {
                    self.note_told(&range, held.max_seq > held.peer_has);
                    // It was answered: what was raised meanwhile is told at the next beat.
                    self.agreement.sections.told.set(&range, None);
                }
            }
        }
    }

    pub(super) fn on_allocators(
        &mut self,
        now: Now,
        lease: SpanMs,
        seen: Vec<SeenAllocator>,
        drained: Vec<(AgentId, u64, bool)>,
        (sent, heard): (BootMs, Option<BootMs>),
        fx: &mut Effects,
    ) {
        self.agreement.sections.heard = Some(sent);
        if self.allocators.note_their_lease(lease) {
            let here = self.allocators.own_lease().0;
            fx.alarms.push(Alarm::SequenceLeasesDiffer { here, there: lease.0 });
        }
        let owns = |session| self.sections.counts(session).next().is_some();
        seen.into_iter().for_each(|seen| self.allocators.heard_there(now.boot, seen, owns));
        drained.into_iter().for_each(|(agent_id, order, on)| self.allocators.note_drained(agent_id, order, on));
        // That it is heard here does not say that it hears: nobody serves what it is to confirm and does not.
        if heard.is_some_and(|at| (SpanMs(0)..SILENCE).contains(&(now.boot - at))) {
            self.move_sections(now, fx);
        }
    }

    /// Says at each beat who was heard, after what was proposed in it: the other master gives sections, too, to those who have few.
    pub(crate) fn tell_allocators(&self, now: Now, fx: &mut Effects) {
        if self.allocators.any() || !self.sections.is_empty() {
            let lease_ms = u32::try_from(self.allocators.own_lease().0).unwrap_or(u32::MAX);
            let (seen, drained) = (self.allocators.for_the_other(now.boot), self.allocators.drained());
            let (sent, heard) = (now.boot, self.agreement.sections.heard);
            fx.send(PeerMessage::Allocators { lease_ms, seen, drained, sent, heard });
        }
    }

    /// At each beat: what was raised, and proposals again that were not confirmed.
    pub(crate) fn retry_sections(&mut self, now: Now, fx: &mut Effects) {
        if !self.agreement.pair.heard(now) || self.sections_are_served().is_err() || self.identity.awaiting.is_some() {
            return;
        }
        self.drop_retired(fx);
        let PairedSections { untold, told, proposed, .. } = &mut self.agreement.sections;
        let again = due(proposed, now, PREPS_MAX, self.sections.preps().map(|prep| prep.range));
        let preps = again.iter().flat_map(|range| self.sections.pieces(range));
        let preps = preps.filter_map(|Piece { range, prep, .. }| Some(prep?.record(range)));
        paged(preps.collect(), |proposals| fx.send(PeerMessage::ProposeSections { proposals }));
        let raised = untold.rows(None).flat_map(|(row, ())| self.sections.pieces(&row).collect::<Vec<_>>());
        let raised = raised.filter_map(|Piece { range, held, .. }| held.map(|_| range));
        let tell = due(told, now, TOLD_MAX, raised);
        let bounds = tell.iter().flat_map(|range| self.sections.pieces(range)).filter_map(|piece| {
            let held = piece.held?;
            Some(SectionBound { range: piece.range, g: held.g, max_seq: held.max_seq })
        });
        paged(bounds.collect(), |bounds| fx.send(PeerMessage::RaisedSections { bounds }));
    }

    /// Gives sections of retired names back, some at each beat. Each master does so once it holds that the name is retired, which it is for
    /// ever; who had the sections is told by the next answer that does not list them.
    fn drop_retired(&mut self, fx: &mut Effects) {
        let retired = self.sections.names(None).filter(|name| self.is_retired(name));
        let pieces = retired.flat_map(|name| self.sections.of_name(name, Section(0))).take(DROPPED_MAX);
        let mut ranges: Vec<SectionRange> = Vec::new();
        for Piece { range, .. } in pieces {
            match ranges.last_mut() {
                Some(last) if last.name == range.name => last.to = range.to,
                _ => ranges.push(range),
            }
        }
        for range in ranges {
            fx.write_section_preps(self.sections.drop_prep(&range));
            fx.write_sections(self.sections.remove(&range));
            let PairedSections { proposed, told, untold, covered, .. } = &mut self.agreement.sections;
            proposed.set(&range, None);
            told.set(&range, None);
            untold.set(&range, None);
            covered.set(&range, None);
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
        let unmet = self.unmet();
        let ranges = records.iter().chain(proposals).map(|record| &record.range);
        let next = ranges.map(SectionRange::last).max().filter(|_| !last);
        // What they know of here, and what they know nothing of, or what cannot be.
        let mut alone = SectionMap::default();
        if unmet {
            self.sections.between(after, next.as_ref()).iter().for_each(|own| alone.set(own, Some(())));
        }
        let of_theirs = |prep: &&SectionRecord| unmet && !self.is_home_of(&prep.range.name);
        let proposals: Vec<&SectionRecord> = proposals.iter().filter(of_theirs).collect();
        for record in records.iter().chain(proposals) {
            if !self.plausible_section(record, fx) {
                continue;
            }
            self.take_section(record, fx);
            if unmet {
                alone.set(&record.range, None);
                self.cover(&record.range, Some(record.max_seq), fx);
            }
        }
        for (row, ()) in alone.rows(None) {
            let runs = self.agreement.sections.covered.runs(&row).into_iter();
            let new: Vec<_> = runs.filter(|(_, covered)| covered.is_none()).map(|(run, _)| run).collect();
            for run in new {
                self.agreement.sections.covered.set(&run, Some(()));
                self.cover(&run, None, fx);
            }
        }
        next
    }

    /// Raises sections by the allowance beyond what was `known` of them; `None`: than what is known here.
    fn cover(&mut self, range: &SectionRange, known: Option<u64>, fx: &mut Effects) {
        let terms = self.terms_or_widest(&range.name);
        for Piece { range, held, .. } in self.sections.pieces(range).collect::<Vec<_>>() {
            let Some(held) = held else { continue };
            let covering = rules::covering(known.unwrap_or(held.max_seq), &terms);
            if held.max_seq < covering {
                self.put_sections(&range, HeldSection { max_seq: covering, ..held }, fx);
                self.note_told(&range, true);
            }
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
        for SectionRecord { range, g, max_seq, .. } in self.sections.preps() {
            if !self.is_home_of(&range.name) {
                return Err(format!("a proposal of section {range} away from its home"));
            }
            // Its bound may be above the record's: an operator raised it.
            let mut records = self.sections.pieces(&range).filter_map(|piece| piece.held);
            if max_seq > self.terms_or_widest(&range.name).last || records.any(|held| held.g >= g) {
                return Err(format!("a proposal of section {range} that is older than its record"));
            }
        }
        for (range, held) in self.sections.all() {
            if held.max_seq > self.terms_or_widest(&range.name).last || held.peer_has > held.max_seq {
                return Err(format!("section {range} is raised to {} and held to {}", held.max_seq, held.peer_has));
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
