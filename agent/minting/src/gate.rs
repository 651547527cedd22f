//! The gates: whether an ID of this lease may be minted now, and which time it has to carry.
//!
//! The time written into an ID never goes back and always lies in the lease's rectangle; the clock only decides when
//! the next bucket begins and when to refuse. A window is opened with a [`Bucket`], which only the gate makes.

use crate::refusal::{ClockFault, Refusal};
use ids::calendar::{DayBucket, UtcOffset};
use ids::kind::{Bucket as Unit, Kind};
use ids::layout::{LayoutDefinition, Mark, Numbers, RandomBits, Ticks};
use ids::lease::Grant;
use ids::namespace::Namespace;
use ids::segment::SegmentDefinition;
use ids::template::{BoundTemplate, Template};
use ids::time::{DAY_MS, SpanMs, WallMs};
use std::sync::Arc;

use crate::serial::Rules;

/// The longest time that a bucket may begin ahead of the clock; for a later one minting waits.
pub const BUCKET_AHEAD_MAX: SpanMs = SpanMs::seconds(3_600);

/// The layout by which a generator's IDs are made.
#[derive(Clone, Debug)]
pub enum Layout {
    /// Numbers of that kind, by a layout of its own or of the name.
    Number(Kind, Arc<LayoutDefinition>),
    /// A template, by the day.
    Text(Arc<Template>),
    /// Plain numbers, by the segments that masters grant. No lease and no time stands before them.
    Plain(SegmentDefinition),
}

/// The part that all IDs of a window share.
#[derive(Clone, Debug)]
pub enum Prefix {
    /// Nothing may be minted with this one.
    Void,
    /// Tick and token of numbers.
    Number(Numbers),
    /// Day and token, in the template.
    Text {
        /// The template with both filled in.
        bound: Arc<BoundTemplate>,
        /// Serials are written modulo this.
        capacity: u64,
    },
    /// A segment of plain numbers. Counters are places from its first one on.
    Plain {
        /// The number of its first place.
        first: u64,
        /// The difference between the numbers of two neighbouring places.
        increment: u64,
    },
}

/// The number of a place of a segment, whose first place has the number `first`.
#[inline]
pub const fn plain(first: u64, increment: u64, place: u64) -> u64 {
    // A definition has no place whose number does not fit.
    first.wrapping_add(increment.wrapping_mul(place))
}

/// Proof that IDs of this bucket may be minted under a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    number: u32,
    /// The first instant at which the proof is void.
    valid_until: WallMs,
    /// The end of the bucket.
    end: WallMs,
}

impl Bucket {
    /// The hour or the day.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The first instant at which the proof is void: the end of the bucket or of the lease.
    pub fn valid_until(&self) -> WallMs {
        self.valid_until
    }

    /// The end of the bucket.
    pub fn end(&self) -> WallMs {
        self.end
    }
}

impl Layout {
    /// The layout of that namespace's IDs; `None` for a kind that keeps no serials.
    pub fn of(namespace: &Namespace) -> Option<Self> {
        if let Some(definition) = namespace.segments() {
            return Some(Self::Plain(*definition));
        }
        if let Some(template) = namespace.template() {
            return Some(Self::Text(Arc::new(template.clone())));
        }
        Some(Self::Number(namespace.kind(), Arc::new(namespace.numbers()?.clone())))
    }

    /// The definition of its numbers, if their mark is of the time.
    pub fn by_ticks(&self) -> Option<&Arc<LayoutDefinition>> {
        match self {
            Self::Number(_, definition) if definition.layout().mark() == Mark::Time => Some(definition),
            _ => None,
        }
    }

    /// The rules of its serials.
    pub fn rules(&self, everyday_reset: bool) -> Rules {
        let capacity = match self {
            Self::Number(_, definition) => definition.layout().serials_per_tick(),
            Self::Text(template) => template.capacity().max(1),
            Self::Plain(definition) => definition.axis().len(),
        };
        let buckets_per_day = u32::try_from(DAY_MS / self.unit().span().0).unwrap_or(u32::MAX);
        Rules { capacity, buckets_per_day, everyday_reset }
    }

    /// Its bucket.
    pub fn unit(&self) -> Unit {
        let kind = match self {
            Self::Number(kind, _) => *kind,
            Self::Text(_) => Kind::String,
            Self::Plain(_) => Kind::Segment,
        };
        kind.spec().unit
    }

    /// Its buckets in time.
    fn ticks(&self, offset: UtcOffset) -> Ticks {
        match self {
            Self::Number(_, definition) => definition.layout().ticks(offset),
            Self::Text(_) | Self::Plain(_) => Ticks::endless(self.unit().span(), offset),
        }
    }

    /// The bucket that an instant lies in. Those of a layout have the number of the ten seconds in which they begin.
    pub fn bucket_at(&self, offset: UtcOffset, t: WallMs) -> u32 {
        offset.bucket(self.ticks(offset).floor(t), self.unit().span())
    }

    /// The end of a bucket.
    pub fn end(&self, offset: UtcOffset, number: u32) -> WallMs {
        self.start(offset, number) + self.ticks(offset).unit
    }

    fn start(&self, offset: UtcOffset, number: u32) -> WallMs {
        self.ticks(offset).ceil(offset.bucket_start(number, self.unit().span()))
    }

    /// Tells whether IDs may be minted now, and of which bucket: the clock's, or `last` if that is later.
    ///
    /// # Errors
    /// As [`gate_ticks`].
    pub fn gate(&self, offset: UtcOffset, lease: &Grant, last: u32, wall: WallMs) -> Result<Bucket, Refusal> {
        let (ticks, last) = (self.ticks(offset), self.start(offset, last));
        let start = gate_ticks(&ticks, lease, last, wall, BUCKET_AHEAD_MAX)?;
        let (end, number) = (start + ticks.unit, self.bucket_at(offset, start));
        if self.start(offset, number) != start {
            // The prefix would be that of another one.
            return Err(Refusal::ClockSkew(ClockFault::Year(
                "this time is later than a serial file can hold".to_owned(),
            )));
        }
        Ok(Bucket { number, valid_until: end.min(lease.until), end })
    }

    /// The prefix of that bucket's IDs under that lease.
    ///
    /// # Errors
    /// [`Refusal::TokenOutOfRange`], or [`Refusal::ClockSkew`] if the year does not fit.
    pub fn prefix(
        &self,
        offset: UtcOffset,
        lease: &Grant,
        bucket: &Bucket,
        random: &Arc<RandomBits>,
    ) -> Result<Prefix, Refusal> {
        match self {
            Self::Number(_, definition) => {
                let (layout, at) = (definition.layout(), self.start(offset, bucket.number));
                let numbers = layout.ticks(offset).number(at);
                let numbers = numbers.and_then(|tick| layout.numbers(tick, lease.key.value, random));
                numbers.map(Prefix::Number).ok_or_else(|| unwritten(layout, offset, lease))
            }
            Self::Text(template) => template
                .bind(offset, DayBucket(bucket.number), lease.key)
                .map(|bound| Prefix::Text { bound: Arc::new(bound), capacity: template.capacity().max(1) })
                .map_err(|e| Refusal::ClockSkew(ClockFault::Year(e.to_string()))),
            // Those have no window of serials.
            Self::Plain(_) => Ok(Prefix::Void),
        }
    }
}

/// Tells whether IDs of a tick may be minted now, and when the first tick begins that they may carry: the clock's, or that of `last`
/// if that is later. It begins within the lease: a tick that began before may have been another holder's.
///
/// # Errors
/// [`Refusal::LeaseExpired`] or [`Refusal::ClockBehind`]; their wording is the caller's to complete.
pub fn gate_ticks(
    ticks: &Ticks,
    lease: &Grant,
    last: WallMs,
    wall: WallMs,
    ahead_max: SpanMs,
) -> Result<WallMs, Refusal> {
    if wall >= lease.until {
        return Err(expired(lease));
    }
    let reached = ticks.ceil(last).max(ticks.floor(wall));
    if reached.max(wall) < lease.from {
        return Err(behind(lease.from, wall, lease.from));
    }
    let ms = reached.max(ticks.ceil(lease.from));
    // Before the lease is blamed: no renewal reaches a tick that is far ahead of the clock.
    if ms - wall > ahead_max {
        return Err(behind(ms, wall, ms + SpanMs(-ahead_max.0)));
    }
    if ms >= lease.until {
        return Err(expired(lease));
    }
    Ok(ms)
}

/// The refusal of numbers of that instant under that lease.
pub fn unwritten(layout: &ids::layout::Layout, offset: UtcOffset, lease: &Grant) -> Refusal {
    if !layout.admits(lease.key.value) {
        return Refusal::TokenOutOfRange { token: lease.key, tokens: layout.tokens() };
    }
    let Ticks { begin, end, .. } = layout.ticks(offset);
    Refusal::ClockSkew(ClockFault::Year(format!(
        "its numbers have bits for times from {begin} to {end} only: correct the clock, or take another layout"
    )))
}

fn expired(lease: &Grant) -> Refusal {
    Refusal::LeaseExpired { token_type: lease.token_type, until: lease.until, why: String::new() }
}

fn behind(id_time: WallMs, wall: WallMs, again_at: WallMs) -> Refusal {
    Refusal::ClockBehind { behind: id_time - wall, retry: again_at - wall }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::kind::{UNIQ96, UNIQ96_AHEAD_MAX};
    use ids::lease::Generation;
    use ids::time::HOUR_MS;
    use ids::token::{TokenType, TokenValue};
    use std::collections::BTreeSet;
    use wire::mint::MintCode;

    const MINUTE_MS: i64 = 60_000;
    const UTC: UtcOffset = match UtcOffset::from_minutes(0) {
        Some(offset) => offset,
        None => unreachable!(),
    };

    fn lease(from_day: i64, until: i64) -> Grant {
        Grant {
            token_type: TokenType::Uint2,
            key: TokenType::Uint2.key(TokenValue(7)),
            g: Generation(1),
            from: WallMs(from_day * DAY_MS),
            until: WallMs(until),
            receipt: None,
        }
    }

    fn uniq64() -> Layout {
        Layout::of(&Namespace::default_of(Kind::Uniq64)).unwrap()
    }

    fn uniq96() -> Ticks {
        UNIQ96.layout().ticks(UTC)
    }

    fn prefix(lease: &Grant, bucket: &Bucket) -> Result<Prefix, Refusal> {
        uniq64().prefix(UTC, lease, bucket, &Arc::default())
    }

    fn code<T: std::fmt::Debug>(result: Result<T, Refusal>) -> MintCode {
        result.unwrap_err().code()
    }

    #[test]
    fn serials_are_as_many_as_the_layout_has_room_for_and_buckets_as_many_as_a_day_has() {
        let rules = |kind, everyday| Layout::of(&Namespace::default_of(kind)).unwrap().rules(everyday);
        let hours = Rules { capacity: 1 << 31, buckets_per_day: 24, everyday_reset: true };
        assert_eq!(rules(Kind::Uniq64, true), hours);
        let days = Rules { capacity: 100_000_000, buckets_per_day: 1, everyday_reset: false };
        assert_eq!(rules(Kind::String, false), days);
    }

    #[test]
    fn a_bucket_is_the_clocks_and_never_before_the_last() {
        let lease = lease(100, 107 * DAY_MS);
        let noon = WallMs(100 * DAY_MS + 12 * HOUR_MS + 5);
        let bucket = uniq64().gate(UTC, &lease, 0, noon).unwrap();
        assert_eq!((bucket.number(), bucket.valid_until()), (2_412, WallMs(100 * DAY_MS + 13 * HOUR_MS)));
        let stepped_back = WallMs(noon.0 - 1_000);
        assert_eq!(uniq64().gate(UTC, &lease, 2_412, stepped_back).unwrap().number(), 2_412);
    }

    #[test]
    fn a_long_tick_is_of_the_lease_within_which_it_begins() {
        let hours = r#"{"kind":"layout","bits":63,"epoch":"2024-01-01T00:30:00Z","unit_ms":3600000,"fields":["time:20","token:12","serial:31"]}"#;
        let days = r#"{"kind":"layout","bits":64,"unit_ms":86400000,"fields":["zero:5","year:7","month:4","day:5","token:12","serial:31"]}"#;
        let nepal = UtcOffset::from_minutes(345).unwrap();
        let first = 19_723 + 900;
        for (definition, offset) in [(hours, UTC), (hours, nepal), (days, UTC), (days, nepal)] {
            let definition = ids::json::read(definition.as_bytes()).unwrap();
            let layout = Layout::of(&Namespace::define("long".parse().unwrap(), &definition).unwrap()).unwrap();
            // The next one begins in the middle of a tick.
            let edge = first * DAY_MS + 7 * DAY_MS + 20 * MINUTE_MS;
            let former = Grant { until: WallMs(edge), ..lease(first, edge) };
            let next = Grant { from: WallMs(edge), until: WallMs(edge + 2 * DAY_MS), ..former.clone() };
            let begun = |lease: &Grant| {
                let walls = (0..24 * 12).map(|n| WallMs(edge - DAY_MS + n * 10 * MINUTE_MS));
                let buckets = walls.filter_map(|wall| layout.gate(offset, lease, 0, wall).ok());
                buckets
                    .map(|bucket| (bucket.end.0 - layout.ticks(offset).unit.0, bucket.number))
                    .collect::<BTreeSet<_>>()
            };
            let (of_former, of_next) = (begun(&former), begun(&next));
            assert!(of_former.iter().all(|(start, _)| (former.from.0..edge).contains(start)), "{of_former:?}");
            assert!(of_next.iter().all(|(start, _)| (edge..next.until.0).contains(start)), "{of_next:?}");
            assert!(!of_former.is_empty() && !of_next.is_empty());
            assert!(of_former.iter().all(|(_, number)| of_next.iter().all(|(_, other)| number != other)));
        }
    }

    /// The number of a bucket is what the serial file holds of it.
    #[test]
    fn a_time_that_the_serial_file_cannot_hold_is_refused() {
        let definition = r#"{"kind":"layout","bits":128,"unit_ms":3600000,"fields":["zero:54","year:12","month:4","day:5","hour:5","token:16","serial:32"]}"#;
        let definition = ids::json::read(definition.as_bytes()).unwrap();
        let layout = Layout::of(&Namespace::define("long".parse().unwrap(), &definition).unwrap()).unwrap();
        let year_3400 = 522_300;
        let late = Grant { until: WallMs((year_3400 + 7) * DAY_MS), ..lease(year_3400, 0) };
        let wall = WallMs(year_3400 * DAY_MS + 5 * HOUR_MS);
        assert!(matches!(layout.gate(UTC, &late, 0, wall), Err(Refusal::ClockSkew(ClockFault::Year(_)))));
        assert!(uniq64().gate(UTC, &late, 0, wall).is_ok());
    }

    #[test]
    fn the_end_of_the_lease_ends_the_bucket() {
        let until = 100 * DAY_MS + HOUR_MS / 2;
        let lease = lease(100, until);
        let bucket = uniq64().gate(UTC, &lease, 0, WallMs(until - 1)).unwrap();
        assert_eq!(bucket.valid_until(), WallMs(until));
        assert_eq!(code(uniq64().gate(UTC, &lease, 0, WallMs(until))), MintCode::LeaseExpired);
        assert_eq!(code(uniq64().gate(UTC, &lease, 2_401, WallMs(until - 1))), MintCode::LeaseExpired);
    }

    #[test]
    fn a_clock_before_the_lease_or_far_behind_the_last_bucket_is_refused() {
        let lease = lease(100, 107 * DAY_MS);
        let eve = WallMs(100 * DAY_MS - 20);
        let Err(Refusal::ClockBehind { retry, .. }) = uniq64().gate(UTC, &lease, 0, eve) else { panic!() };
        assert_eq!(retry, SpanMs(20));
        assert_eq!(uniq64().gate(UTC, &lease, 0, lease.from).unwrap().number(), 2_400, "its first hour");
        let at = |ms: i64| uniq64().gate(UTC, &lease, 2_402, WallMs(100 * DAY_MS + ms));
        assert!(at(HOUR_MS).is_ok(), "an hour ahead is allowed");
        assert_eq!(
            at(HOUR_MS - 1).unwrap_err(),
            Refusal::ClockBehind { behind: SpanMs(HOUR_MS + 1), retry: SpanMs(1) }
        );
    }

    #[test]
    fn where_the_last_id_lies_beyond_the_lease_and_far_ahead_the_clock_is_to_blame() {
        let lease = lease(100, 107 * DAY_MS);
        let now = WallMs(101 * DAY_MS);
        assert_eq!(code(uniq64().gate(UTC, &lease, 200 * 24, now)), MintCode::ClockBehind);
        assert_eq!(
            code(gate_ticks(&uniq96(), &lease, WallMs(200 * DAY_MS), now, UNIQ96_AHEAD_MAX)),
            MintCode::ClockBehind
        );
    }

    #[test]
    fn a_millisecond_is_the_clocks_and_never_before_the_last() {
        let lease = lease(100, 107 * DAY_MS);
        let t = |ms: i64| WallMs(101 * DAY_MS + ms);
        let gate_uniq96 = |lease, last, wall| gate_ticks(&uniq96(), lease, last, wall, UNIQ96_AHEAD_MAX);
        assert_eq!(gate_uniq96(&lease, t(0), t(5)), Ok(t(5)));
        assert_eq!(gate_uniq96(&lease, t(600_000), t(0)), Ok(t(600_000)));
        let behind = |behind, retry| Err(Refusal::ClockBehind { behind: SpanMs(behind), retry: SpanMs(retry) });
        assert_eq!(gate_uniq96(&lease, t(600_001), t(0)), behind(600_001, 1), "until it is ten minutes ahead again");
        let before_its_end = WallMs(lease.until.0 - 1);
        assert_eq!(gate_uniq96(&lease, WallMs(0), before_its_end), Ok(before_its_end));
        assert_eq!(code(gate_uniq96(&lease, lease.until, before_its_end)), MintCode::LeaseExpired);
        assert_eq!(code(gate_uniq96(&lease, WallMs(0), lease.until)), MintCode::LeaseExpired);
        assert_eq!(gate_uniq96(&lease, WallMs(0), lease.from), Ok(lease.from), "its first millisecond");
        assert_eq!(gate_uniq96(&lease, WallMs(0), WallMs(lease.from.0 - 1)), behind(1, 1));
    }

    #[test]
    fn tokens_and_years_beyond_the_layout_are_refused() {
        let mut wide = lease(0, i64::MAX);
        wide.key.value = TokenValue(4_096);
        let bucket = uniq64().gate(UTC, &wide, 0, WallMs(1_700_000_000_000)).unwrap();
        assert_eq!(code(prefix(&wide, &bucket)), MintCode::TokenOutOfRange);
        let year_2128 = WallMs(4_985_971_200_000);
        let lease = lease(0, i64::MAX);
        let bucket = uniq64().gate(UTC, &lease, 0, year_2128).unwrap();
        assert_eq!(code(prefix(&lease, &bucket)), MintCode::ClockSkew);
        let before = uniq64().gate(UTC, &lease, 0, WallMs(year_2128.0 - 1)).unwrap();
        assert!(prefix(&lease, &before).is_ok());
    }
}
