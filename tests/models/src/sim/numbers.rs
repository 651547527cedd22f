//! Invariants of numbers that come in ranges: of segments, that each place of the axis belongs to one extent, one segment and one
//! client.

use super::oracle::Oracle;
use common::parameters::SessionId;
use common::segment::{MasterRun, Span};
use common::setting::{Setting, SettingValue};
use std::collections::BTreeMap;

/// Ranges of numbers, by where they begin; none touches another.
type Ranges = BTreeMap<u64, u64>;

/// Adds `from..to`, and gives how many of these were there before.
pub(super) fn add(ranges: &mut Ranges, from: u64, to: u64) -> u64 {
    let (mut low, mut high, mut twice) = (from, to, 0);
    while let Some((begin, end)) = ranges.range(..=high).next_back().map(|(begin, end)| (*begin, *end)) {
        if end < low {
            break;
        }
        twice += end.min(to).saturating_sub(begin.max(from));
        ranges.remove(&begin);
        (low, high) = (low.min(begin), high.max(end));
    }
    ranges.insert(low, high);
    twice
}

/// All that was granted and given in one simulation.
#[derive(Default)]
pub struct Numbers {
    /// Parts of the axis: to which run.
    extents: BTreeMap<u64, (u64, MasterRun)>,
    /// No place from here on was ever part of an extent.
    pub axis_end: u64,
    /// Segments: to which session, whether it heard of it or not.
    segments: BTreeMap<u64, (u64, SessionId)>,
    /// Places whose numbers clients got.
    places: Ranges,
    /// Numbers of segments that clients got.
    pub given: u64,
}

/// Gives the last of `known` that overlaps that span.
fn overlap<T: Copy + PartialEq>(known: &BTreeMap<u64, (u64, T)>, span: Span) -> Option<(Span, T)> {
    let (from, (to, of)) = known.range(..span.to).next_back()?;
    (*to > span.from).then_some((Span { from: *from, to: *to }, *of))
}

impl Oracle {
    /// A master holds a setting. I11: extents of different runs are disjoint, and below what is granted.
    pub fn axis_recorded(&mut self, setting: &Setting) {
        let SettingValue::Axis(axis) = &setting.value else { return };
        self.numbers.axis_end = self.numbers.axis_end.max(axis.granted);
        let Some(extent) = axis.last else { return };
        if extent.span.to > axis.granted {
            return self.violated(|| format!("I11 an extent of {:?} beyond what is granted: {axis:?}", extent.span));
        }
        match overlap(&self.numbers.extents, extent.span) {
            Some((span, run)) if (span, run) != (extent.span, extent.run) => {
                self.violated(|| format!("I11 {extent:?} overlaps the extent {span:?} of another run or time"));
            }
            _ => drop(self.numbers.extents.insert(extent.span.from, (extent.span.to, extent.run))),
        }
    }

    /// I12: segments are disjoint, whether whoever asked hears of them or not.
    pub fn segment_granted(&mut self, span: Span, session: SessionId) {
        if let Some((known, other)) = overlap(&self.numbers.segments, span) {
            return self
                .violated(|| format!("I12 places {span:?} are granted to {session}, but also {known:?} to {other}"));
        }
        self.numbers.segments.insert(span.from, (span.to, session));
    }

    /// Numbers of these places reach a client.
    pub fn numbers_given(&mut self, span: Span, session: SessionId) {
        self.numbers.given += span.len();
        let twice = add(&mut self.numbers.places, span.from, span.to);
        if twice > 0 {
            self.duplicates += twice;
            self.violated(|| format!("{twice} numbers of the places {span:?} were given twice, now by {session}"));
        }
        let its = overlap(&self.numbers.segments, span)
            .is_some_and(|(granted, of)| of == session && granted.from <= span.from && span.to <= granted.to);
        if !its {
            self.violated(|| {
                format!("I12 {session} gives numbers of the places {span:?}, which are in no segment of its")
            });
        }
    }
}
