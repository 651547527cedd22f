//! Numbers that the masters hand out in segments, in the hands of an agent: two segments at a time, the next one asked for while the
//! first one is used, so that nobody waits for a master at their border.
//!
//! Like [`Serial`](crate::serial::Serial) it says what has to be durable, and gives nothing that is not: a segment before it is used,
//! and in it a mark below which numbers may be given. A session that is resumed goes on at the mark, so a kill costs what lies between;
//! a clean stop puts the mark back to what was given, and costs nothing. What a fresh session finds, it drops.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use common::segment::{SegmentDefinition, Span};
use common::time::{BootMs, SpanMs};

/// A segment that lasted less was too short: the next one is twice as long.
const LASTS_MIN: SpanMs = SpanMs::seconds(15 * 60);
/// One that lasted longer was too long: the next one is half as long.
const LASTS_MAX: SpanMs = SpanMs::seconds(30 * 60);
/// The first segment of a run is a tenth of a step: most runs of an agent that is only tried out need no more.
const FIRST_PART: u32 = 10;
/// The mark moves by an eighth of a segment, and never by more than this: so much a kill costs.
const MARK_PARTS: u64 = 8;
const MARK_STEP_MAX: u64 = 1 << 20;

/// A segment as the lineage file holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// Counts the segments of a name in this session.
    pub ordinal: u64,
    /// Its places.
    pub span: Span,
    /// Places below may have been given.
    pub mark: u64,
}

/// What the lineage file holds of a name: the segment in use, and the one after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// In use.
    pub first: Option<Held>,
    /// Whole.
    pub second: Option<Held>,
}

/// What a request for numbers needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing: there are some.
    Ready,
    /// This durable, and then [`commit`](Segments::commit).
    Write(Record),
    /// A segment.
    Pending,
    /// There are no more numbers: the axis has ended.
    Ended,
}

/// What a master is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The number of the call; only its answer is taken, once.
    pub call: u64,
    /// How many numbers.
    pub wanted: u32,
}

/// The segments of one name.
#[derive(Clone, Debug)]
pub struct Segments {
    definition: SegmentDefinition,
    durable: Record,
    /// The next place to give, in the first segment.
    next: u64,
    /// A segment that is not durable yet.
    arrived: Option<Span>,
    /// The last number of a segment.
    ordinal: u64,
    /// Numbers of the segment to ask for.
    step: u32,
    /// The call whose answer is waited for.
    asked: Option<u64>,
    calls: u64,
    /// Since when the first segment is used.
    began: BootMs,
    /// The axis has ended.
    ended: bool,
}

impl Segments {
    /// Of a session that goes on with what its file holds; a fresh one has nothing.
    pub fn resume(definition: SegmentDefinition, durable: Record, now: BootMs) -> Self {
        let ordinal = durable.second.or(durable.first).map_or(0, |held| held.ordinal);
        let next = durable.first.map_or(0, |held| held.mark);
        let step = (definition.step() / FIRST_PART).max(definition.steps().0);
        let (arrived, asked, calls, ended) = (None, None, 0, false);
        Self { definition, durable, next, arrived, ordinal, step, asked, calls, began: now, ended }
    }

    /// What the file holds.
    pub fn durable(&self) -> &Record {
        &self.durable
    }

    /// What to ask a master for now, if anything: nothing while an answer is waited for or two segments are there.
    pub fn ask(&mut self) -> Option<Ask> {
        let waits = self.asked.is_some() || self.arrived.is_some() || self.durable.second.is_some() || self.ended;
        if waits || !self.is_used() {
            return None;
        }
        self.calls += 1;
        self.asked = Some(self.calls);
        Some(Ask { call: self.calls, wanted: self.step })
    }

    /// Whether so much of the first segment was given that the next one is needed soon.
    fn is_used(&self) -> bool {
        let Some(first) = self.durable.first else { return true };
        let given = self.next.saturating_sub(first.span.from);
        let threshold = u128::from(first.span.len()) * u128::from(self.definition.threshold());
        u128::from(given) * 100 >= threshold
    }

    /// A master's answer. One that nobody waits for is dropped, and its numbers are a gap: it may be an old one, and be in use already.
    /// What does not lie on the axis is no answer.
    pub fn granted(&mut self, call: u64, span: Span) {
        let axis = self.definition.axis();
        let plausible = !span.is_empty() && axis.from <= span.from && span.to <= axis.to;
        if self.asked == Some(call) && plausible {
            self.asked = None;
            self.arrived = Some(span);
        }
    }

    /// No answer came, or none that helps: it may be asked again.
    pub fn failed(&mut self, call: u64) {
        self.asked = self.asked.filter(|asked| *asked != call);
    }

    /// A master says that there are no more numbers. The end of an axis is a part of its definition, so it stays so.
    pub fn end(&mut self, call: u64) {
        if self.asked == Some(call) {
            (self.asked, self.ended) = (None, true);
        }
    }

    /// What has to be durable so that a segment that came may be used, if one came.
    pub fn plan_hold(&self) -> Option<Record> {
        let ordinal = self.ordinal.saturating_add(1);
        let held = self.arrived.map(|span| Held { ordinal, span, mark: span.from })?;
        Some(match self.durable.first {
            None => Record { first: Some(held), second: None },
            first => Record { first, second: Some(held) },
        })
    }

    /// What it takes to give up to `n` numbers, at least 1.
    pub fn plan(&self, n: u64) -> Plan {
        let Some(first) = self.durable.first else {
            return match self.plan_hold() {
                Some(record) => Plan::Write(record),
                None if self.ended => Plan::Ended,
                None => Plan::Pending,
            };
        };
        if self.next < first.mark {
            return Plan::Ready;
        }
        let second = self.durable.second;
        if self.next < first.span.to {
            return Plan::Write(Record { first: Some(marked(first, n)), second });
        }
        match (second, self.plan_hold().and_then(|record| record.second)) {
            (Some(next), _) | (None, Some(next)) => Plan::Write(Record { first: Some(marked(next, n)), second: None }),
            (None, None) if self.ended => Plan::Ended,
            (None, None) => Plan::Pending,
        }
    }

    /// A record is durable.
    pub fn commit(&mut self, record: Record, now: BootMs) {
        let ordinal = |held: Option<Held>| held.map_or(0, |held| held.ordinal);
        if ordinal(record.first) != ordinal(self.durable.first) {
            if self.durable.first.is_some() {
                self.follow_use(now);
            }
            self.next = record.first.map_or(0, |held| held.span.from);
            self.began = now;
        }
        let last = ordinal(record.first).max(ordinal(record.second));
        if last > self.ordinal {
            self.ordinal = last;
            self.arrived = None;
        }
        self.durable = record;
    }

    /// The next segment is as long as the use says.
    fn follow_use(&mut self, now: BootMs) {
        let (least, most) = self.definition.steps();
        let lasted = now - self.began;
        self.step = match lasted {
            lasted if lasted < LASTS_MIN => self.step.saturating_mul(2),
            lasted if lasted > LASTS_MAX => self.step / 2,
            _ => self.step,
        };
        self.step = self.step.clamp(least, most);
    }

    /// Gives up to `n` places; none unless the plan is [`Plan::Ready`].
    pub fn take(&mut self, n: u64) -> Span {
        let to = self.durable.first.map_or(0, |first| first.mark);
        let mut left = Span { from: self.next, to: to.max(self.next) };
        let taken = left.take(n);
        self.next = left.from;
        taken
    }

    /// What a clean stop leaves: nothing of the first segment is marked that was not given.
    pub fn at_rest(&self) -> Record {
        let first = self.durable.first.map(|first| Held { mark: self.next.min(first.mark), ..first });
        Record { first, ..self.durable }
    }
}

/// With a mark that is far enough for `n` more, and for some after them.
fn marked(held: Held, n: u64) -> Held {
    let step = (held.span.len() / MARK_PARTS).clamp(1, MARK_STEP_MAX).max(n);
    Held { mark: held.mark.saturating_add(step).min(held.span.to), ..held }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::segment::SegmentSource;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn definition(step: u32) -> SegmentDefinition {
        SegmentDefinition::new(&SegmentSource { step: Some(step), ..SegmentSource::default() }).unwrap()
    }

    const NOW: BootMs = BootMs(1_000);

    /// Writes what is planned, until there are numbers or none can be had.
    fn get(segments: &mut Segments, n: u64, now: BootMs) -> Result<Span, Plan> {
        loop {
            match segments.plan(n) {
                Plan::Ready => return Ok(segments.take(n)),
                Plan::Write(record) => segments.commit(record, now),
                plan => return Err(plan),
            }
        }
    }

    #[test]
    fn the_next_segment_is_asked_for_at_the_threshold_and_a_border_keeps_nobody() {
        let mut segments = Segments::resume(definition(1_000), Record::default(), NOW);
        assert_eq!(get(&mut segments, 1, NOW), Err(Plan::Pending));
        let ask = segments.ask().unwrap();
        assert_eq!((ask, segments.ask()), (Ask { call: 1, wanted: 100 }, None), "a tenth at first, and once");
        segments.granted(1, Span { from: 501, to: 601 });
        assert_eq!(get(&mut segments, 19, NOW), Ok(Span { from: 501, to: 520 }));
        assert_eq!(segments.ask(), None, "19 of 100");
        get(&mut segments, 1, NOW).unwrap();
        let ask = segments.ask().unwrap();
        segments.granted(ask.call, Span { from: 201, to: 301 });
        segments.commit(segments.plan_hold().unwrap(), NOW);
        assert_eq!(segments.ask(), None, "there are two");
        let mut given = Vec::new();
        while let Ok(span) = get(&mut segments, 7, NOW) {
            given.extend(span.from..span.to);
        }
        assert_eq!(given, (521..601).chain(201..301).collect::<Vec<_>>(), "to the last of both");
    }

    #[test]
    fn steps_follow_the_use_within_their_bounds() {
        let mut segments = Segments::resume(definition(1_000), Record::default(), NOW);
        let (mut now, mut place, mut wanted) = (NOW, 1, Vec::new());
        for minutes in [1, 1, 14, 20, 31, 31, 31, 31, 31, 31] {
            let ask = segments.ask().unwrap();
            wanted.push(ask.wanted);
            segments.granted(ask.call, Span { from: place, to: place + 10 });
            place += 10;
            let span = get(&mut segments, 10, now).unwrap();
            assert_eq!(span.len(), 10);
            now = now + SpanMs::seconds(minutes * 60);
        }
        assert_eq!(wanted, [100, 100, 200, 400, 800, 800, 400, 200, 100, 100]);
    }

    #[test]
    fn only_the_answer_that_is_waited_for_counts_once() {
        let mut segments = Segments::resume(definition(1_000), Record::default(), NOW);
        let first = segments.ask().unwrap();
        segments.failed(first.call);
        let second = segments.ask().unwrap();
        segments.granted(first.call, Span { from: 1, to: 101 });
        segments.granted(second.call, Span { from: 0, to: 100 });
        segments.granted(second.call, Span { from: 5, to: 5 });
        assert_eq!(segments.plan_hold(), None, "late, not on the axis, and nothing");
        segments.granted(second.call, Span { from: 201, to: 301 });
        segments.granted(second.call, Span { from: 301, to: 401 });
        assert_eq!(get(&mut segments, 1_000, NOW), Ok(Span { from: 201, to: 301 }));
        let third = segments.ask().unwrap();
        segments.end(first.call);
        assert_eq!(get(&mut segments, 1, NOW), Err(Plan::Pending));
        segments.end(third.call);
        assert_eq!((get(&mut segments, 1, NOW), segments.ask()), (Err(Plan::Ended), None));
    }

    #[test]
    fn a_kill_costs_a_step_of_the_mark_and_a_clean_stop_nothing() {
        let mut segments = Segments::resume(definition(10_000), Record::default(), NOW);
        let ask = segments.ask().unwrap();
        segments.granted(ask.call, Span { from: 1, to: 801 });
        get(&mut segments, 5, NOW).unwrap();
        let mut killed = Segments::resume(definition(10_000), *segments.durable(), NOW);
        assert_eq!(get(&mut killed, 1, NOW), Ok(Span { from: 101, to: 102 }));
        let mut stopped = Segments::resume(definition(10_000), segments.at_rest(), NOW);
        assert_eq!(get(&mut stopped, 1, NOW), Ok(Span { from: 6, to: 7 }));
    }

    #[derive(Clone, Copy, Debug)]
    enum Deed {
        Take(u64),
        /// Takes what is there, and the write after it does not become durable, or does and is not known to be.
        TakeAndFail(u64, bool),
        Ask,
        /// The answer to the oldest question that is still under way.
        Answer(u64),
        /// The last answer again.
        AnswerAgain,
        GiveUp,
        Hold,
        Kill,
        Stop,
        Fresh,
    }

    fn deed() -> impl Strategy<Value = Deed> {
        prop_oneof![
            6 => (1u64..40).prop_map(Deed::Take),
            2 => (1u64..40, any::<bool>()).prop_map(|(n, durable)| Deed::TakeAndFail(n, durable)),
            4 => Just(Deed::Ask),
            4 => (1u64..60).prop_map(Deed::Answer),
            1 => Just(Deed::AnswerAgain),
            1 => Just(Deed::GiveUp),
            2 => Just(Deed::Hold),
            1 => Just(Deed::Kill),
            1 => Just(Deed::Stop),
            1 => Just(Deed::Fresh),
        ]
    }

    proptest! {
        /// Whatever is lost, late, doubled, killed or stopped: no number is given twice, and a clean stop loses none.
        #[test]
        fn no_number_comes_twice(deeds in proptest::collection::vec(deed(), 1..200)) {
            let definition = definition(100);
            let mut segments = Segments::resume(definition, Record::default(), NOW);
            let (mut disk, mut granted) = (Record::default(), 1u64);
            let mut under_way: Vec<u64> = Vec::new();
            let mut last_answer = None;
            let mut given = BTreeSet::new();
            for deed in deeds {
                match deed {
                    Deed::Take(n) => loop {
                        match segments.plan(n) {
                            Plan::Ready => {
                                let span = segments.take(n);
                                prop_assert!(!span.is_empty() && span.len() <= n);
                                for place in span.from..span.to {
                                    prop_assert!(given.insert(place), "{place} came twice");
                                }
                                break;
                            }
                            Plan::Write(record) => {
                                disk = record;
                                segments.commit(record, NOW);
                            }
                            Plan::Pending | Plan::Ended => break,
                        }
                    },
                    Deed::TakeAndFail(n, durable) => {
                        if let Plan::Write(record) = segments.plan(n)
                            && durable
                        {
                            disk = record;
                        }
                        prop_assert_eq!(matches!(segments.plan(n), Plan::Ready), !segments.clone().take(n).is_empty());
                    }
                    Deed::Ask => under_way.extend(segments.ask().map(|ask| ask.call)),
                    Deed::Answer(len) => {
                        if !under_way.is_empty() {
                            let call = under_way.remove(0);
                            let span = Span { from: granted, to: granted + len };
                            granted += len;
                            segments.granted(call, span);
                            last_answer = Some((call, span));
                        }
                    }
                    Deed::AnswerAgain => {
                        if let Some((call, span)) = last_answer {
                            segments.granted(call, span);
                        }
                    }
                    Deed::GiveUp => {
                        if let Some(call) = under_way.last() {
                            segments.failed(*call);
                        }
                    }
                    Deed::Hold => {
                        if let Some(record) = segments.plan_hold() {
                            disk = record;
                            segments.commit(record, NOW);
                        }
                    }
                    // What was under way is of the process that ended: nobody hears the answers.
                    Deed::Kill => {
                        under_way.clear();
                        last_answer = None;
                        segments = Segments::resume(definition, disk, NOW);
                    }
                    Deed::Stop => {
                        under_way.clear();
                        last_answer = None;
                        disk = segments.at_rest();
                        let next = segments.next;
                        segments = Segments::resume(definition, disk, NOW);
                        prop_assert_eq!(segments.next, next);
                    }
                    Deed::Fresh => {
                        under_way.clear();
                        last_answer = None;
                        disk = Record::default();
                        segments = Segments::resume(definition, disk, NOW);
                    }
                }
            }
        }
    }
}
