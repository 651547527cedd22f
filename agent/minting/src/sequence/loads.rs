//! Sections of a name that were loaded together: the first number of each of them needs no further word of a master.
//!
//! A master raises the bounds of sections beside each other at once ([`RaisedSections`]): of each of them the numbers above the bound before,
//! up to the bound now, belong to this owner in this tenure. A section begins with them when it is first asked for, above what this session
//! may have given already. If that is all of them, it is raised by itself.

use super::held::{HeldRange, Tenure};
use super::section::SectionState;
use ids::lease::Generation;
use ids::namespace::GeneratorName;
use ids::sequence::{Section, SectionRange, SequenceDefinition, is_step_cheap};
use ids::time::BootMs;
use rangemap::RangeMap;
use std::ops::Range;
use wire::ranges::{RAISED_MAX, Raise, Raised, RaisedSections, SectionReceipt, ShownReceipt};

/// Ranges that are kept of one name: more than masters have of it. Where there might be more, sections are raised one by one.
const LOADS_MAX: usize = 1 << 17;

/// Sections that a master raised at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Load {
    tenure: Tenure,
    said: RaisedSections,
    raised: Raised,
}

/// All of a name's, by the sections of which nothing newer is known.
#[derive(Clone, Debug, Default)]
pub struct Loads {
    ranges: RangeMap<u32, Load>,
    /// Tells whether the last answer could not be written down: until one can, no more is raised than calls wait for.
    unwritten: bool,
}

impl Loads {
    /// The raise that a section wants now: one that is to be loaded takes all with it around it that are not. `held`: what masters list of the
    /// name, ascending.
    pub fn raise<'a>(
        &self,
        (name, definition): (&GeneratorName, &SequenceDefinition),
        held: impl IntoIterator<Item = &'a HeldRange>,
        section: Section,
        state: &mut SectionState,
        now: BootMs,
    ) -> Option<Raise> {
        // It may have been raised with others since it asked.
        self.load(definition, section, state, now);
        let (to, Tenure { g, .. }) = (state.want(now)?, state.tenure());
        let alone = section..Section(section.0.saturating_add(1));
        let receipt = state.receipt().map(|receipt| (alone.start, alone.end, receipt));
        let is_full = self.ranges.len() > LOADS_MAX - RAISED_MAX;
        let Range { start: from, end } = if state.is_loaded() || is_full || self.unwritten || !is_cheap(definition) {
            alone
        } else {
            let around = self.around(held, section, state.tenure());
            Section(around.start)..Section(around.end)
        };
        let sections = SectionRange { name: name.clone(), from, to: end };
        Some(Raise { section, sections, g, to, receipt: receipt.or_else(|| self.receipt(section, g)) })
    }

    /// Takes in what a master answered to a raise in that tenure, if it is `written` down. What it says of the section that calls wait for,
    /// without a receipt that is of others, too.
    pub fn answered(
        &mut self,
        tenure: Tenure,
        raise: &Raise,
        answer: &[RaisedSections],
        written: bool,
    ) -> Option<RaisedSections> {
        self.unwritten = !written;
        if written && raise.sections.len() > 1 {
            answer.iter().for_each(|said| self.note(tenure, said));
        }
        let said = answer.iter().find(|said| said.has(raise.section))?;
        let alone = said.to.0.saturating_sub(said.from.0) == 1;
        let outcome = said.outcome.map(|raised| Raised { receipt: raised.receipt.filter(|_| alone), ..raised });
        Some(RaisedSections { outcome, ..*said })
    }

    /// Notes sections that a master raised for their owner in that tenure, and that are written down.
    pub(super) fn note(&mut self, tenure: Tenure, said: &RaisedSections) {
        let (Ok(raised), true) = (said.outcome, said.from < said.to) else { return };
        let sections = said.from.0..said.to.0;
        // An answer that comes late says nothing of the time since.
        let is_late = self.ranges.overlapping(sections.clone()).any(|(_, load)| load.tenure.since > tenure.since);
        if !is_late && self.ranges.len() < LOADS_MAX {
            self.ranges.insert(sections, Load { tenure, said: *said, raised });
        }
    }

    /// Forgets ranges that are served no more in the tenure in which they were loaded, whose sections `held` is.
    pub fn forget_others(&mut self, held: &[HeldRange]) {
        let mut ranges = RangeMap::new();
        for range in held.iter().filter(|range| range.from < range.to) {
            let loads = self.ranges.overlapping(range.from..range.to);
            for (sections, load) in
                loads.filter(|(_, load)| (load.tenure.g, load.tenure.since) == (range.g, range.since))
            {
                ranges.insert(sections.start.max(range.from)..sections.end.min(range.to), *load);
            }
        }
        self.ranges = ranges;
    }

    /// Counts the ranges.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Tells whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Loads a section that was raised with others in its tenure, unless it may have given all of those numbers.
    pub fn load(&self, definition: &SequenceDefinition, section: Section, state: &mut SectionState, now: BootMs) {
        if !state.is_loaded()
            && let Some(load) = self.ranges.get(&section.0)
            && load.tenure == state.tenure()
            && state.floor() < load.raised.max_seq
        {
            // The receipt is not of this section alone.
            let raised = Raised { receipt: None, ..load.raised };
            state.raised(definition, load.tenure, Ok(raised), now);
        }
    }

    /// The sections to be loaded with one: those around it that are served in the same tenure and were not loaded in it.
    fn around<'a>(
        &self,
        held: impl IntoIterator<Item = &'a HeldRange>,
        section: Section,
        tenure: Tenure,
    ) -> Range<u32> {
        let alone = section.0..section.0.saturating_add(1);
        let mut around: Option<Range<u32>> = None;
        for range in held.into_iter().filter(|range| (range.g, range.since) == (tenure.g, tenure.since)) {
            around = match around {
                Some(before) if before.contains(&section.0) && before.end < range.from => {
                    return self.unloaded(before, alone, tenure);
                }
                Some(before) if before.end == range.from => Some(before.start..range.to),
                _ => Some(range.from..range.to),
            };
        }
        match around {
            Some(around) if around.contains(&section.0) => self.unloaded(around, alone, tenure),
            _ => alone,
        }
    }

    /// The part of `around` which no range of that tenure reaches into, and that one section is in.
    fn unloaded(&self, mut around: Range<u32>, alone: Range<u32>, tenure: Tenure) -> Range<u32> {
        let loaded = self.ranges.overlapping(around.clone()).filter(|(_, load)| load.tenure == tenure);
        for (range, _) in loaded {
            if range.contains(&alone.start) {
                return alone;
            }
            if range.end <= alone.start {
                around.start = around.start.max(range.end);
            } else {
                around.end = around.end.min(range.start);
            }
        }
        around
    }

    /// The receipt of a section that was raised with others for that owner, and of which sections it is.
    fn receipt(&self, section: Section, g: Generation) -> Option<(Section, Section, SectionReceipt)> {
        let load = self.ranges.get(&section.0).filter(|load| load.tenure.g == g)?;
        Some((load.said.from, load.said.to, load.raised.receipt?))
    }

    /// Receipts of sections in these ranges, each once.
    pub fn receipts(&self, name: &GeneratorName, lost: impl IntoIterator<Item = HeldRange>) -> Vec<ShownReceipt> {
        let mut shown: Vec<ShownReceipt> = Vec::new();
        for range in lost.into_iter().filter(|range| range.from < range.to) {
            let loads = self.ranges.overlapping(range.from..range.to).map(|(_, load)| load);
            shown.extend(loads.filter(|load| load.tenure.g == range.g).filter_map(|load| {
                let sections = SectionRange { name: name.clone(), from: load.said.from, to: load.said.to };
                Some(ShownReceipt { sections, g: range.g, receipt: load.raised.receipt? })
            }));
        }
        shown.sort_unstable_by_key(|shown| (shown.sections.from, shown.sections.to));
        shown.dedup();
        shown
    }
}

fn is_cheap(definition: &SequenceDefinition) -> bool {
    is_step_cheap(definition.step().into(), definition.width().last(), definition.solo_allowance())
}

#[cfg(test)]
#[path = "loads_tests.rs"]
mod tests;
