//! Time cut into ticks.

use super::{Layout, TICK_MAX};
use crate::calendar::UtcOffset;
use crate::time::{SpanMs, WallMs};

/// The part of a tick that is durable ahead of its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The serials, of a tick so long that it goes on after a restart.
    Serial,
    /// The time, of ticks so short that the next one can be waited for.
    Time,
}

/// Time cut into ticks in a cluster, and the number of IDs that a token has in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// The length of one.
    pub unit: SpanMs,
    /// The beginning of the tick that has the number 0.
    pub epoch: WallMs,
    /// The beginning of the first tick that can be written.
    pub begin: WallMs,
    /// The first instant that cannot be written any more.
    pub end: WallMs,
    /// A token has 2 to the power of this many IDs in each, at most 2^32.
    pub serial_bits: u32,
    /// Tells whether the IDs of one request may lie in more than one tick.
    pub spanning: bool,
}

impl Layout {
    /// The part that is durable ahead of use, which follows from the length of a tick.
    pub fn mark(&self) -> Mark {
        if self.unit() <= TICK_MAX { Mark::Time } else { Mark::Serial }
    }

    /// Tells whether a counter goes on from tick to tick in its numbers: by a calendar, and where the serials have a mark, it begins anew.
    pub(super) fn counts_on(&self) -> bool {
        self.calendar.is_none() && self.mark() == Mark::Time
    }

    /// The ticks in a cluster of that offset, in which only calendars are written.
    pub fn ticks(&self, offset: UtcOffset) -> Ticks {
        let at = |local| if self.calendar.is_some() { offset.from_local(local) } else { local };
        Ticks {
            unit: self.unit,
            epoch: at(self.epoch),
            begin: at(self.starts_at(self.ticks.start)),
            end: at(self.end()),
            serial_bits: self.serial_bits(),
            spanning: self.counts_on(),
        }
    }
}

impl Ticks {
    /// Ticks of that length from the beginning of 1970 on in a cluster of that offset, which IDs without bits carry.
    pub fn endless(unit: SpanMs, offset: UtcOffset) -> Self {
        let (epoch, end) = (offset.from_local(WallMs(0)), WallMs(i64::MAX));
        Self { unit, epoch, begin: epoch, end, serial_bits: 0, spanning: false }
    }

    /// The beginning of the tick of `t`.
    pub fn floor(&self, t: WallMs) -> WallMs {
        if self.unit.0 == 1 {
            return t;
        }
        WallMs(t.0.saturating_sub((t - self.epoch).0.rem_euclid(self.unit.0)))
    }

    /// The beginning of the first tick that does not begin before `t`.
    pub fn ceil(&self, t: WallMs) -> WallMs {
        let floor = self.floor(t);
        if floor == t { t } else { floor + self.unit }
    }

    /// The number of the tick in which `t` lies, if it can be written.
    pub fn number(&self, t: WallMs) -> Option<u64> {
        let since = u64::try_from((t - self.epoch).0).ok()? / u64::try_from(self.unit.0).ok()?.max(1);
        (self.begin..self.end).contains(&t).then_some(since)
    }

    /// IDs that a token has in one.
    pub fn serials(&self) -> u64 {
        1 << self.serial_bits
    }

    /// The beginning of the tick that the last of `n` IDs lies in, from that serial of the tick on that begins at `ms`.
    pub fn last_of(&self, ms: WallMs, serial: u32, n: u32) -> WallMs {
        let (start, n) = (u64::from(serial), u64::from(n.max(1)));
        let ticks =
            if self.spanning { (start + n - 1) >> self.serial_bits } else { u64::from(start + n > self.serials()) };
        ms + SpanMs(self.unit.0.saturating_mul(i64::try_from(ticks).unwrap_or(i64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{Kind, UNIQ64, UNIQ96};
    use crate::layout::Preset;
    use crate::time::HOUR_MS;

    #[test]
    fn ticks_begin_where_the_epoch_says() {
        let (begin, end) = (WallMs(3), WallMs(1_000_003));
        let coarse = Ticks { unit: SpanMs(10), epoch: begin, begin, end, serial_bits: 3, spanning: true };
        let at = [2, 3, 4, 12, 13].map(WallMs);
        assert_eq!(at.map(|t| coarse.floor(t).0), [-7, 3, 3, 3, 13]);
        assert_eq!(at.map(|t| coarse.ceil(t).0), [3, 3, 13, 13, 13]);
        assert_eq!(at.map(|t| coarse.number(t)), [None, Some(0), Some(0), Some(0), Some(1)]);
        assert_eq!([1, 2, 3, 10, 11].map(|n| coarse.last_of(WallMs(13), 6, n).0), [13, 13, 23, 23, 33]);
        let ms = UNIQ96.layout().ticks(UtcOffset::default());
        assert_eq!((ms.floor(WallMs(-5)), ms.ceil(WallMs(7))), (WallMs(-5), WallMs(7)));
        assert_eq!([1, 2, u32::MAX].map(|n| ms.last_of(WallMs(13), u32::MAX, n).0), [13, 14, 14]);
    }

    #[test]
    fn a_calendar_is_of_the_clusters_offset_and_all_other_ticks_are_of_none() {
        for minutes in [-210, 0, 345, 840] {
            let offset = UtcOffset::from_minutes(minutes).unwrap();
            for numbers in [&*UNIQ64, &*UNIQ96] {
                let (layout, ticks) = (numbers.layout(), numbers.layout().ticks(offset));
                assert_eq!((ticks.begin, ticks.end), (offset.new_year(2_000).unwrap(), numbers.end(offset)));
                assert_eq!([ticks.begin.0 - 1, ticks.end.0].map(|at| ticks.number(WallMs(at))), [None, None]);
                for at in [ticks.begin, WallMs(1_764_253_800_123), WallMs(ticks.end.0 - 1)] {
                    let tick = ticks.number(at).unwrap();
                    assert_eq!(offset.from_local(layout.starts_at(tick)), ticks.floor(at));
                    assert_eq!(layout.tick(offset.to_local(at)), Some(tick));
                }
            }
            for preset in Preset::ALL {
                let layout = preset.layout().unwrap();
                let is_same = layout.ticks(offset) == layout.ticks(UtcOffset::default());
                assert_eq!(is_same, minutes == 0 || layout.calendar().is_none(), "{preset}");
            }
        }
    }

    #[test]
    fn what_goes_on_for_hours_has_a_mark_of_its_serials_and_all_else_of_the_time() {
        assert_eq!((UNIQ64.layout().unit(), UNIQ64.layout().mark()), (SpanMs(HOUR_MS), Mark::Serial));
        assert_eq!(UNIQ96.layout().mark(), Mark::Time);
        let long = Preset::ALL.into_iter().filter(|preset| preset.layout().unwrap().mark() == Mark::Serial);
        assert_eq!(long.collect::<Vec<_>>(), [Preset::Hour53]);
        // What an agent keeps of a kind goes by its list of kinds.
        for kind in Kind::ALL {
            let Some(numbers) = kind.numbers() else { continue };
            assert_eq!(numbers.layout().mark() == Mark::Serial, kind.has_blocks(), "{kind}");
        }
    }
}
