//! The last years of layouts: their field for the year is finite, and what comes after the last one must be noticed long
//! before. An ID beyond it is refused (`clock_skew`), never wrapped.

use ids::calendar::UtcOffset;
use ids::kind::{Kind, UNIQ64};
use ids::time::{SpanMs, WallMs};

/// The time before its end from which on a layout is warned about.
pub const WARN_AHEAD: SpanMs = SpanMs::days(366);

/// The end of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutEnd {
    /// The kind of that layout.
    pub kind: Kind,
    /// The first instant that it cannot express.
    pub at: WallMs,
}

/// The ends of all layouts with a field for the year, by the calendar of that offset.
pub fn layout_ends(offset: UtcOffset) -> impl Iterator<Item = LayoutEnd> {
    Kind::ALL.into_iter().filter_map(move |kind| Some(LayoutEnd { kind, at: kind.numbers()?.end(offset) }))
}

/// The first instant whose Uniq64 are larger than a signed integer of 64 bits holds (`BIGINT`, `long`): their highest bit
/// is that of the year, and is set from 2064 on.
pub fn signed_end(offset: UtcOffset) -> Option<WallMs> {
    // The first year of the upper half of those that there is room for.
    offset.new_year(UNIQ64.year_last() - 63)
}

/// Tells whether Uniq64 outgrow a signed integer within [`WARN_AHEAD`], or have: from when on.
pub fn signed_ending(offset: UtcOffset, now: WallMs) -> Option<WallMs> {
    signed_end(offset).filter(|at| *at - now <= WARN_AHEAD)
}

/// Those that end within [`WARN_AHEAD`], or have ended.
pub fn ending(offset: UtcOffset, now: WallMs) -> impl Iterator<Item = LayoutEnd> {
    layout_ends(offset).filter(move |end| end.at - now <= WARN_AHEAD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::kind::UNIQ96;
    use ids::token::TokenValue;

    #[test]
    fn an_end_is_the_first_instant_that_does_not_fit() {
        for minutes in [0, 480, -210] {
            let offset = UtcOffset::from_minutes(minutes).unwrap();
            let ends: Vec<LayoutEnd> = layout_ends(offset).collect();
            assert_eq!(ends.iter().map(|end| end.kind).collect::<Vec<_>>(), [Kind::Uniq64, Kind::Uniq96]);
            let before = |at: WallMs| WallMs(at.0 - 1);
            let hour = |at| UNIQ64.layout().prefix_at(offset, at, TokenValue(1));
            assert!(hour(before(ends[0].at)).is_some() && hour(ends[0].at).is_none());
            let ms = |at| UNIQ96.layout().prefix_at(offset, at, TokenValue(1));
            assert!(ms(before(ends[1].at)).is_some() && ms(ends[1].at).is_none());
        }
    }

    #[test]
    fn from_2064_on_a_uniq64_is_too_large_for_a_signed_integer_and_that_is_said_a_year_ahead() {
        for minutes in [0, 480, -210] {
            let offset = UtcOffset::from_minutes(minutes).unwrap();
            let at = signed_end(offset).unwrap();
            assert_eq!(offset.civil(at).unwrap().year, 2064);
            let largest =
                |at| UNIQ64.layout().prefix_at(offset, at, TokenValue(4_095)).unwrap() | u128::from(u32::MAX >> 1);
            assert!(i64::try_from(largest(WallMs(at.0 - 1))).is_ok() && i64::try_from(largest(at)).is_err());
            assert_eq!(signed_ending(offset, WallMs(at.0 - WARN_AHEAD.0 - 1)), None);
            assert_eq!(signed_ending(offset, WallMs(at.0 - WARN_AHEAD.0)), Some(at));
            assert_eq!(signed_ending(offset, WallMs(at.0 + 1)), Some(at));
        }
    }

    #[test]
    fn the_warning_comes_a_year_ahead_and_stays() {
        let offset = UtcOffset::default();
        let end = layout_ends(offset).next().unwrap();
        let told = |now| ending(offset, now).map(|end| end.kind).collect::<Vec<_>>();
        assert_eq!(told(WallMs(end.at.0 - WARN_AHEAD.0 - 1)), []);
        for now in [end.at.0 - WARN_AHEAD.0, end.at.0 - 1, end.at.0, end.at.0 + 1] {
            assert_eq!(told(WallMs(now)), [Kind::Uniq64]);
        }
    }
}
