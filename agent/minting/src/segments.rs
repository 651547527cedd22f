//! Numbers that the masters hand out in segments, in the hands of an agent: two segments at a time, the next one asked for while the
//! first one is used, so that nobody waits for a master at their border.
//!
//! Like [`Serial`](crate::serial::Serial) it says what has to be durable, and gives nothing that is not: a segment before it is used,
//! and in it a mark below which numbers may be given. A session that is resumed goes on at the marks, so a kill costs what lies between;
//! a clean stop puts them back to what was given, and costs nothing. What a fresh session finds, it drops.
//!
//! No clock has a say in which numbers come: time only says how long segments and steps of the mark last.

use ids::segment::{SegmentDefinition, Shown, Span};
use ids::time::{BootMs, SpanMs};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use wire::ranges::SegmentGrant;

/// A segment that lasted less was too short: the next one is twice as long.
const LASTS_MIN: SpanMs = SpanMs::seconds(15 * 60);
/// One that lasted longer was too long: the next one is half as long.
const LASTS_MAX: SpanMs = SpanMs::seconds(30 * 60);
/// The first segment of a run is a tenth of a step: most runs of an agent that is only tried out need no more.
const FIRST_PART: u32 = 10;
/// A step of the mark is an eighth of a segment at least,
const MARK_PARTS_MAX: u64 = 8;
/// and never more than this, nor than the segment: so much a kill costs, and half of it again if more was marked in advance.
pub const MARK_STEP_MAX: u64 = 1 << 25;
/// A step of the mark that lasted less than this doubles it.
const MARK_TOO_SHORT: SpanMs = SpanMs::seconds(10);
/// One that lasted longer than this halves it.
const MARK_TOO_LONG: SpanMs = SpanMs::seconds(60);
/// Segments of a name that are held at once. There are two of them, unless a call wants more numbers than those have, or a master had
/// less to give than was wanted.
pub const HELD_MAX: usize = 8;
/// Of those, so many may be short.
const SHORT_MAX: u64 = 2;

/// A segment as the lineage file holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HeldSegment {
    /// Counts the segments of a name in this session.
    pub ordinal: u64,
    /// Its places.
    pub span: Span,
    /// Places below may have been given.
    pub mark: u64,
}

/// The record of a name in the lineage file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Record {
    /// The point up to which this session was ever granted places.
    pub seen: Shown,
    /// The segment in use, and those that come after it, at most [`HELD_MAX`].
    pub held: Vec<HeldSegment>,
}

/// The step that a request for numbers needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing: there are as many as it wants.
    Ready,
    /// This durable, and then [`commit`](Segments::commit).
    Write(Record),
    /// A segment.
    Pending,
    /// There are not so many numbers any more: the axis has ended.
    Ended,
}

/// A call to a master for a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The number of the call; only its answer is taken, once.
    pub call: u64,
    /// The number of numbers.
    pub wanted: u32,
    /// The point up to which this session was ever granted places.
    pub seen: Shown,
}

/// Numbers of one segment, counted from its first place on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lent {
    /// The number of the segment.
    pub ordinal: u64,
    /// Its first place.
    pub first: u64,
    /// The places, counted from that one.
    pub places: Range<u64>,
}

/// A view of the segments, for a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The rest of the segment in use.
    pub current: Option<Span>,
    /// The one after it.
    pub next: Option<Span>,
    /// Numbers left in all that are held.
    pub left: u64,
    /// Numbers of the segment to ask for.
    pub step: u32,
    /// The axis has ended.
    pub ended: bool,
}

/// The segments of one name.
#[derive(Clone, Debug)]
pub struct Segments {
    definition: SegmentDefinition,
    /// As it is durable, or means the same: what is used up of it is left out.
    durable: Record,
    /// The next place to give, in the first segment. What was lent counts as given until it is put back.
    next: u64,
    /// A segment that is not durable yet.
    arrived: Option<Span>,
    /// The last number of a segment.
    ordinal: u64,
    /// That of the last segment that was used up.
    used_up: u64,
    /// Numbers of the segment to ask for.
    step: u32,
    /// The count of numbers that a call wants which was not served yet; 0: none.
    demand: u64,
    /// The call whose answer is waited for.
    asked: Option<u64>,
    calls: u64,
    /// The instant since which the first segment is used, as far as is known.
    began: Option<BootMs>,
    /// The number of steps of the mark into which a segment is divided.
    parts: u64,
    /// The instant at which a mark was raised last.
    marked: Option<BootMs>,
    /// True if the next segment is asked for only when the first one is used up.
    alone: bool,
    /// The axis has ended.
    ended: bool,
}

impl Segments {
    /// Of a session that goes on with what its file holds; a fresh one has nothing.
    pub fn resume(definition: SegmentDefinition, durable: &Record) -> Self {
        let axis = definition.axis();
        let sound = |held: &&HeldSegment| {
            axis.from <= held.span.from
                && held.span.to <= axis.to
                && held.span.from <= held.mark
                && held.mark < held.span.to
        };
        // What was marked may have been given; the rest is as a segment that nobody has touched.
        let rest = |held: &HeldSegment| HeldSegment { span: Span { from: held.mark, to: held.span.to }, ..*held };
        let held: Vec<HeldSegment> = durable.held.iter().filter(sound).take(HELD_MAX).map(rest).collect();
        let ordinal = durable.held.iter().map(|held| held.ordinal).max().unwrap_or(0);
        let held_to = held.iter().map(|held| held.span.to).max().unwrap_or(0);
        let seen = durable.seen.max(Shown { to: held_to, proof: None });
        let next = held.first().map_or(0, |first| first.span.from);
        Self {
            step: (definition.step() / FIRST_PART).max(definition.steps().0),
            definition,
            durable: Record { seen, held },
            next,
            arrived: None,
            ordinal,
            used_up: 0,
            demand: 0,
            asked: None,
            calls: 0,
            began: None,
            parts: MARK_PARTS_MAX,
            marked: None,
            alone: false,
            ended: false,
        }
    }

    /// Without the second segment: the next one is asked for only when there is no number left. It is there to show what the second
    /// one is good for.
    #[must_use]
    pub fn alone(self, alone: bool) -> Self {
        Self { alone, ..self }
    }

    /// The record in the file, or one that means the same.
    pub fn durable(&self) -> &Record {
        &self.durable
    }

    /// Drops all that is held, and what is under way: a gap.
    pub fn drop_all(&mut self) {
        self.durable.held.clear();
        (self.next, self.arrived, self.asked, self.demand, self.ended) = (0, None, None, 0, false);
    }

    /// Begins the call to a master that is due now, if any: none while an answer is waited for.
    pub fn ask(&mut self) -> Option<Ask> {
        let held = self.durable.held.len();
        if self.asked.is_some() || self.arrived.is_some() || self.ended || held >= HELD_MAX {
            return None;
        }
        let left = self.left();
        let short = self.demand > left;
        if !short && (held >= 2 || !self.is_used()) {
            return None;
        }
        self.calls += 1;
        self.asked = Some(self.calls);
        let missing = u32::try_from(self.demand.saturating_sub(left)).unwrap_or(u32::MAX);
        let wanted = self.step.max(missing).min(self.definition.steps().1).max(1);
        Some(Ask { call: self.calls, wanted, seen: self.durable.seen })
    }

    /// Tells whether so much of the first segment was given that the next one is needed soon.
    fn is_used(&self) -> bool {
        let Some(first) = self.durable.held.first() else { return true };
        if self.alone {
            return self.left() == 0;
        }
        self.next.saturating_sub(first.span.from) >= threshold(&self.definition, first)
    }

    /// The number of numbers of the first segment that are given before the next one is asked for, if it is not held yet.
    pub fn tell_at(&self) -> u64 {
        match self.durable.held.first() {
            Some(first) if !self.alone && self.durable.held.len() < 2 => threshold(&self.definition, first),
            _ => u64::MAX,
        }
    }

    /// A master's answer. One that nobody waits for is dropped, and its numbers are a gap: it may be an old one, and be in use already.
    /// Takes nothing for an answer that does not lie on the axis, or is more than any step.
    pub fn granted(&mut self, call: u64, grant: SegmentGrant) {
        let (axis, span) = (self.definition.axis(), grant.span);
        let fits = !span.is_empty() && axis.from <= span.from && span.to <= axis.to;
        if self.asked == Some(call) && fits && span.len() <= self.definition.steps().1.into() {
            (self.asked, self.demand) = (None, 0);
            self.arrived = Some(span);
            self.durable.seen = self.durable.seen.max(grant.seen());
        }
        self.failed(call);
    }

    /// No answer came, or none that helps: it may be asked again.
    pub fn failed(&mut self, call: u64) {
        self.asked = self.asked.filter(|asked| *asked != call);
    }

    /// The masters say that there are no more numbers. The end of an axis is a part of its definition, so it stays so.
    pub fn end(&mut self, call: u64) {
        if self.asked == Some(call) {
            (self.asked, self.ended) = (None, true);
        }
    }

    /// Numbers that were not given yet, durable or not.
    pub fn left(&self) -> u64 {
        let held =
            (0..).zip(&self.durable.held).map(|(nth, held)| held.span.to.saturating_sub(self.next_of(nth, held)));
        held.fold(self.arrived.map_or(0, Span::len), u64::saturating_add)
    }

    /// The most that one call can get: more are never held at once.
    pub fn batch_max(&self) -> u64 {
        (u64::from(self.definition.steps().1) * (HELD_MAX as u64 - SHORT_MAX)).min(self.definition.axis().len())
    }

    /// The place at which giving goes on in one of the segments of a record that came of ours.
    fn next_of(&self, nth: usize, held: &HeldSegment) -> u64 {
        let in_use = nth == 0 && self.durable.held.first().is_some_and(|first| first.ordinal == held.ordinal);
        if in_use { self.next } else { held.span.from }
    }

    /// The record with the segment that came, if one came, and whether one did.
    fn with_arrived(&self) -> (Record, bool) {
        let mut record = self.durable.clone();
        if let Some(span) = self.arrived {
            record.held.push(HeldSegment { ordinal: self.ordinal.saturating_add(1), span, mark: span.from });
        }
        (record, self.arrived.is_some())
    }

    /// Numbers of a record below the marks that were not given yet.
    fn ready(&self, record: &Record) -> u64 {
        let held = (0..).zip(&record.held).map(|(nth, held)| held.mark.saturating_sub(self.next_of(nth, held)));
        held.fold(0, u64::saturating_add)
    }

    /// Tells what it takes to give `n` numbers, at least 1; those that are there may lie in several segments.
    pub fn plan(&mut self, n: u64, now: BootMs) -> Plan {
        if self.ready(&self.durable) >= n {
            return Plan::Ready;
        }
        if self.left() < n {
            if self.ended {
                return Plan::Ended;
            }
            self.demand = self.demand.max(n);
            return Plan::Pending;
        }
        let (mut record, _) = self.with_arrived();
        let missing = n.saturating_sub(self.ready(&record));
        self.raise(&mut record, missing, now);
        Plan::Write(record)
    }

    /// Gives the record to make durable in advance: with a segment that came, and marks that are as far ahead as a step, if no more than half of one
    /// is left. `None`: nothing.
    pub fn plan_ahead(&mut self, now: BootMs) -> Option<Record> {
        let (mut record, mut changed) = self.with_arrived();
        if self.ready(&record) <= self.mark_step(&record) / 2 {
            changed |= self.raise(&mut record, 0, now);
        }
        changed.then_some(record)
    }

    /// The first segment of a record whose mark can be raised.
    fn raisable(record: &Record) -> Option<&HeldSegment> {
        record.held.iter().find(|held| held.mark < held.span.to)
    }

    fn mark_step(&self, record: &Record) -> u64 {
        Self::raisable(record).map_or(0, |held| (held.span.len() / self.parts.max(1)).clamp(1, MARK_STEP_MAX))
    }

    /// Raises marks by a step, or by more if `n` are missing. Whether one could be raised.
    fn raise(&mut self, record: &mut Record, n: u64, now: BootMs) -> bool {
        self.parts = match self.marked.map(|then| now - then) {
            Some(lasted) if lasted < MARK_TOO_SHORT => (self.parts / 2).max(1),
            Some(lasted) if lasted > MARK_TOO_LONG => (self.parts * 2).min(MARK_PARTS_MAX),
            _ => self.parts,
        };
        let step = self.mark_step(record).max(n);
        let mut missing = step;
        for held in &mut record.held {
            let mut above = Span { from: held.mark, to: held.span.to };
            missing = missing.saturating_sub(above.take(missing).len());
            held.mark = above.from;
        }
        missing < step
    }

    /// A record that was planned is durable.
    pub fn commit(&mut self, mut record: Record, now: BootMs) {
        // While it was written, windows were used: a segment that is used up does not come back.
        record.held.retain(|held| held.ordinal > self.used_up);
        let last = record.held.last().map_or(0, |held| held.ordinal);
        if last > self.ordinal {
            self.ordinal = last;
            self.arrived = None;
        }
        if self.durable.held.is_empty() {
            self.next = record.held.first().map_or(0, |first| first.span.from);
            self.began = Some(now);
        }
        if self.ready(&record) > self.ready(&self.durable) {
            self.marked = Some(now);
        }
        let seen = record.seen.max(self.durable.seen);
        self.durable = Record { seen, ..record };
    }

    /// Goes on to the next segment if the first one is used up. Nothing has to be durable for that: what is used up of a record says
    /// nothing.
    fn advance(&mut self, now: BootMs) {
        while self.durable.held.first().is_some_and(|first| self.next >= first.span.to) {
            self.used_up = self.durable.held.remove(0).ordinal;
            self.next = self.durable.held.first().map_or(0, |first| first.span.from);
            self.follow_use(now);
            self.began = Some(now);
        }
    }

    /// The next segment is as long as the use says.
    fn follow_use(&mut self, now: BootMs) {
        let (least, most) = self.definition.steps();
        self.step = match self.began.map(|began| now - began) {
            Some(lasted) if lasted < LASTS_MIN => self.step.saturating_mul(2),
            Some(lasted) if lasted > LASTS_MAX => self.step / 2,
            _ => self.step,
        };
        self.step = self.step.clamp(least, most);
    }

    /// Gives up to `n` numbers of one segment, all of them below the mark. What was lent was put back before.
    pub fn take(&mut self, n: u64, now: BootMs) -> Lent {
        self.advance(now);
        let Some(first) = self.durable.held.first() else { return Lent { ordinal: 0, first: 0, places: 0..0 } };
        let mut left = Span { from: self.next, to: first.mark.max(self.next) };
        let taken = left.take(n);
        self.next = left.from;
        let base = first.span.from;
        Lent { ordinal: first.ordinal, first: base, places: taken.from - base..taken.to - base }
    }

    /// Takes back numbers that nobody used, if they are the last ones that were given; otherwise they are gone, as nothing may be
    /// given below the rest.
    pub fn put_back(&mut self, bucket: u32, places: &Range<u64>) -> bool {
        let Some(first) = self.durable.held.first() else { return false };
        let from = |place: u64| first.span.from.saturating_add(place);
        let fits = bucket == bucket_of(first.ordinal) && from(places.end) == self.next;
        if fits && places.start < places.end {
            self.next = from(places.start);
        }
        fits
    }

    /// The record that a clean stop leaves: nothing is marked that was not given. What was lent was put back before.
    pub fn at_rest(&self) -> Record {
        let (record, _) = self.with_arrived();
        let rest =
            |(nth, held): (usize, &HeldSegment)| HeldSegment { mark: self.next_of(nth, held).min(held.mark), ..*held };
        let held = (0..).zip(&record.held).map(rest).filter(|held| held.mark < held.span.to).collect();
        Record { seen: record.seen, held }
    }

    /// A view of the segments. `lent` numbers are still in a window.
    pub fn view(&self, lent: u64) -> View {
        let next = self.next.saturating_sub(lent);
        let current = self.durable.held.first().map(|first| Span { from: next, to: first.span.to });
        let second = self.durable.held.get(1).map(|second| second.span).or(self.arrived);
        let left = self.left().saturating_add(lent);
        View { current, next: second, left, step: self.step, ended: self.ended }
    }
}

/// The number that stands for a segment in a window: no two that are held at once have the same.
pub fn bucket_of(ordinal: u64) -> u32 {
    u32::try_from(ordinal & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

fn threshold(definition: &SegmentDefinition, held: &HeldSegment) -> u64 {
    let hundredths = u128::from(held.span.len()) * u128::from(definition.threshold());
    u64::try_from(hundredths.div_ceil(100)).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "segments_tests.rs"]
mod tests;
