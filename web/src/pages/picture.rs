//! Pictures: numbers as points of SVG drawings. Pure.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt::Write as _;

/// Values that fit into a line: as many as the masters keep.
pub(super) const SPARK_SLOTS: usize = 60;
/// Values from which on a line fills its drawing: one of fewer has only just begun.
const SPARK_SLOTS_MIN: usize = 12;
/// The drawing's size, in its own units.
const SPARK_WIDTH: usize = 118;
const SPARK_HEIGHT: u64 = 26;
/// The length of a pool's bar, in units of its drawing.
pub(super) const BAR_UNITS: u64 = 1_000;
/// The shortest piece of a bar that is visible.
const BAR_PIECE_MIN: u64 = 6;
/// The gap between two pieces, so that they can be told apart without their colours.
const BAR_GAP: u64 = 4;

/// A small line of how something went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spark {
    /// The points of the line, newest at the right edge; empty if there is nothing to draw.
    pub(super) line: String,
    /// The line with the ground below, to be filled.
    pub(super) area: String,
    pub(super) peak: u64,
}

impl Spark {
    pub(super) fn new(values: &[u64]) -> Self {
        let values = values.get(values.len().saturating_sub(SPARK_SLOTS)..).unwrap_or_default();
        let peak = values.iter().copied().max().unwrap_or(0);
        if values.len() < 2 {
            return Self { peak, ..Self::default() };
        }
        let slots = values.len().max(SPARK_SLOTS_MIN);
        let first_slot = slots - values.len();
        let x = |slot: usize| slot * SPARK_WIDTH / (slots - 1);
        let mut line = String::new();
        for (nth, value) in values.iter().enumerate() {
            let height = u128::from(*value) * u128::from(SPARK_HEIGHT) / u128::from(peak.max(1));
            let y = SPARK_HEIGHT + 1 - u64::try_from(height).unwrap_or(SPARK_HEIGHT);
            let space = if nth == 0 { "" } else { " " };
            // Writing to a String cannot fail.
            let _ = write!(line, "{space}{},{y}", x(first_slot + nth));
        }
        let ground = SPARK_HEIGHT + 2;
        let area = format!("{},{ground} {line} {SPARK_WIDTH},{ground}", x(first_slot));
        Self { line, area, peak }
    }
}

/// Several lines added up, each with its newest value at the end.
pub(super) fn sum<'a>(lines: impl Iterator<Item = &'a [u32]>) -> Vec<u64> {
    let mut total = Vec::new();
    for line in lines {
        for (back, value) in line.iter().rev().enumerate() {
            match total.get_mut(back) {
                Some(sum) => *sum += u64::from(*value),
                None => total.push(u64::from(*value)),
            }
        }
    }
    total.reverse();
    total
}

/// A bar of pieces one after another; what is left of it stays empty.
pub(super) fn pieces(counts: &[u64], of: u64) -> Vec<(u64, u64)> {
    let mut pieces: Vec<(u64, u64)> = Vec::with_capacity(counts.len());
    let mut at = 0;
    for count in counts {
        let length = match u128::from(*count) * u128::from(BAR_UNITS) / u128::from(of.max(1)) {
            _ if *count == 0 => 0,
            length => u64::try_from(length).unwrap_or(BAR_UNITS).clamp(BAR_PIECE_MIN, BAR_UNITS),
        };
        let length = length.min(BAR_UNITS.saturating_sub(at));
        pieces.push((at, length));
        at += if length == 0 { 0 } else { length + BAR_GAP };
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_at_the_right_edge_and_its_peak_touches_the_top() {
        let spark = Spark::new(&[0, 5, 10]);
        assert_eq!((spark.line.as_str(), spark.peak), ("96,27 107,14 118,1", 10));
        assert!(spark.area.starts_with("96,28 ") && spark.area.ends_with(" 118,28"));
        assert_eq!(Spark::new(&[7]).line, "");
        assert_eq!(Spark::new(&[0, 0]).line, "107,27 118,27");
        assert_eq!(Spark::new(&[u64::MAX; 100]).line.split(' ').count(), SPARK_SLOTS);
    }

    #[test]
    fn lines_are_added_from_their_newest_value_on() {
        assert_eq!(sum([[1, 2, 3].as_slice(), &[10]].into_iter()), [1, 2, 13]);
        assert!(sum(std::iter::empty()).is_empty());
    }

    #[test]
    fn pieces_are_never_too_small_to_see_nor_longer_than_the_bar() {
        assert_eq!(pieces(&[1, 0, 999], 4_096), [(0, 6), (10, 0), (10, 243)]);
        assert_eq!(pieces(&[100, 100], 100), [(0, 1_000), (1_004, 0)]);
        assert_eq!(pieces(&[5], 0), [(0, 1_000)]);
    }
}
